/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The commands that only look: show, check, status. */
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "commands.h"
#include "output.h"

/* These name a disk, not a partition. */
static int disk_operand(const char *operand, char **path)
{
	struct dw_report report = { 0 };
	int partition;

	if (dw_address_parse(operand, path, &partition, &report) < 0)
		return print_failure(operand, &report);
	return 0;
}

/* Of several disks the worst status counts. */
static int worse(int a, int b)
{
	return b == DW_OK || a == DW_UNFINISHED ? a : b;
}

int run_show(const struct command *self, const struct options *o)
{
	struct json_object *all = o->json ? json_object_new_array() : NULL;
	int status = 0;

	for (int i = 0; i < o->operand_count; i++) {
		struct dw_report report = { 0 };
		struct dw_node *tree = NULL;
		char *path = NULL;
		int one = disk_operand(o->operands[i], &path);

		if (one == 0 && dw_tree_read(path, o->sector_size, &tree, &report) < 0)
			one = print_failure(o->operands[i], &report);
		if (one == 0 && o->json)
			json_object_array_add(all, json_of_tree(tree));
		else if (one == 0)
			print_tree(tree, o->verbose);
		if (one == 0 && i + 1 < o->operand_count && !o->json)
			printf("\n");
		status = worse(status, one);
		dw_tree_free(tree);
		free(path);
	}
	if (all)
		json_print(all);
	return status;
}

struct findings {
	struct json_object *list;
	int errors, count;
};

static int print_finding(void *opaque, const struct dw_finding *f)
{
	struct findings *all = opaque;

	all->count++;
	all->errors += f->error;
	if (all->list) {
		struct json_object *o = json_object_new_object();

		json_object_object_add(o, "severity", json_object_new_string(f->error ? "error" : "warning"));
		json_object_object_add(o, "node", json_object_new_string(f->node));
		json_object_object_add(o, "text", json_object_new_string(f->text));
		json_object_object_add(o, "remedy", json_object_new_string(f->remedy));
		json_object_array_add(all->list, o);
	} else {
		printf("%s: %s: %s\n    %s\n", f->error ? "error" : "warning", f->node, f->text, f->remedy);
	}
	return 0;
}

int run_check(const struct command *self, const struct options *o)
{
	struct findings all = { .list = o->json ? json_object_new_array() : NULL };
	int status = 0;

	for (int i = 0; i < o->operand_count; i++) {
		struct dw_report report = { 0 };
		char *path = NULL;
		int one = disk_operand(o->operands[i], &path), before = all.count;

		if (one == 0 && dw_check(path, o->sector_size, print_finding, &all, &report) < 0)
			one = print_failure(o->operands[i], &report);
		if (one == 0 && before == all.count && !o->json && !o->quiet)
			printf("%s: nothing to complain about\n", path);
		status = worse(status, one);
		free(path);
	}
	if (all.list)
		json_print(all.list);
	return status ? status : all.errors ? DW_FAILED : DW_OK;
}

/* ---- status ------------------------------------------------------------- */

static void print_status(const char *disk, const struct dw_journal_info *info)
{
	char when[64] = "", size[DW_SIZE_TEXT];
	time_t sealed = info->sealed_at;
	struct tm tm;

	if (info->state == DW_JOURNAL_NONE) {
		printf("%s: no operation is recorded\n", disk);
		return;
	}
	if (sealed && localtime_r(&sealed, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	printf("%s: %s\n", disk, info->unfinished ? info->undoing ? "an UNFINISHED undo" : "an UNFINISHED operation"
						   : "the last operation");
	if (info->operation[0])
		printf("  operation  %s\n", info->operation);
	if (when[0])
		printf("  begun      %s, writes %s\n", when, dw_size_format(info->bytes, size));
	printf("  journal    %s\n  state      %s\n", info->path, info->done);
	if (info->unfinished)
		printf("  resume     %s\n  rollback   %s\n", info->next_resume, info->next_rollback);
	if (info->state == DW_JOURNAL_DONE)
		printf("  undo       `diskwright undo %s` takes it back, as long as the disk is not changed\n"
		       "  forget     `diskwright forget %s` drops the record\n", disk, disk);
}

int run_status(const struct command *self, const struct options *o)
{
	struct json_object *all = o->json ? json_object_new_array() : NULL;
	int status = 0;

	for (int i = 0; i < o->operand_count; i++) {
		struct dw_report report = { 0 };
		struct dw_journal_info info;
		char *path = NULL;
		int one = disk_operand(o->operands[i], &path);

		if (one == 0 && dw_journal_inspect(path, o->journal, &info, &report) < 0)
			one = print_failure(o->operands[i], &report);
		else if (one == 0 && o->json)
			json_object_array_add(all, json_of_journal(path, &info));
		else if (one == 0)
			print_status(path, &info);
		if (one == 0 && info.unfinished)
			one = DW_UNFINISHED;
		status = worse(status, one);
		free(path);
	}
	if (all)
		json_print(all);
	return status;
}
