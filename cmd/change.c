/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The commands that change a disk: plan, show, ask, execute; and recovery. */
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "output.h"

static int usage(const struct command *self, const char *text)
{
	print_error(NULL, "%s: %s", self->name, text);
	print_hint("`diskwright %s --help` says more", self->name);
	return DW_USAGE;
}

/* ---- request ------------------------------------------------------------ */

static int size_request(const struct command *self, const struct options *o, struct dw_request *q)
{
	if (o->has_to + o->has_by + o->min > 1)
		return usage(self, "only one of --to, --by and --min");
	q->size.kind = DW_SIZE_MAX;
	if (o->min)
		q->size.kind = DW_SIZE_MIN;
	if (o->has_to)
		q->size = o->to;
	if (o->has_by)
		q->size = o->by;
	if (o->has_to && (o->to.kind == DW_SIZE_PLUS || o->to.kind == DW_SIZE_MINUS))
		return usage(self, "--to takes a size; --by takes a difference");
	if (o->has_by && (o->by.kind == DW_SIZE_PERCENT || o->by.kind == DW_SIZE_MAX || o->by.kind == DW_SIZE_MIN ||
			  o->by.kind == (self->tag == DW_GROW ? DW_SIZE_MINUS : DW_SIZE_PLUS)))
		return usage(self, "--by takes a size such as 500M");
	if (o->has_by)
		q->size.kind = self->tag == DW_GROW ? DW_SIZE_PLUS : DW_SIZE_MINUS;
	if (self->tag == DW_GROW && q->size.kind == DW_SIZE_MIN)
		return usage(self, "grow takes no \"min\"");
	if (self->tag == DW_SHRINK && q->size.kind == DW_SIZE_MAX)
		return usage(self, "say how far: --to SIZE, --by SIZE or --min");
	return 0;
}

static int journal_request(const struct command *self, const struct options *o, struct dw_request *q)
{
	static const char *const modes[] = { [DW_JOURNAL_ON] = "on", [DW_JOURNAL_OFF] = "off",
					     [DW_JOURNAL_REBUILD] = "rebuild" };

	q->journal_size = o->journal_size;
	for (int i = 0; i < 3; i++)
		if (strcmp(o->operands[1], modes[i]) == 0) {
			q->journal = i;
			return 0;
		}
	return usage(self, "the second word is on, off or rebuild");
}

static int make_request(const struct command *self, const struct options *o, struct dw_request *q)
{
	const char *temporary = getenv("TMPDIR");

	*q = (struct dw_request){
		.operation = self->tag, .absorb_count = o->absorb_count, .absorb_free = o->absorb_free,
		.ext_journal = o->ext_journal, .repair = o->repair, .align = o->align,
		.sector_size = o->sector_size, .journal_path = o->journal,
		.temporary = temporary && *temporary ? temporary : "/tmp",
		.recovery_sheet = o->recovery_sheet, .command = o->typed,
	};
	memcpy(q->absorb, o->absorb, sizeof(q->absorb));
	if (self->tag == DW_MERGE && o->absorb_count == 0 && !o->absorb_free)
		return usage(self, "say what to take over: --absorb M, or --absorb free");
	if (self->tag == DW_GROW || self->tag == DW_SHRINK)
		return size_request(self, o, q);
	return self->tag == DW_JOURNAL ? journal_request(self, o, q) : 0;
}

/* ---- the plan ----------------------------------------------------------- */

static void print_plan(const struct dw_plan *plan, const struct options *o)
{
	char data[DW_SIZE_TEXT], zero[DW_SIZE_TEXT], journal[DW_SIZE_TEXT];
	const char *const *lines;
	struct dw_plan_volume v;
	size_t count;

	dw_plan_volume(plan, &v);
	if (o->quiet)
		return;
	printf("Now:\n");
	print_bar(dw_plan_before(plan));
	printf("Then:\n");
	print_bar(dw_plan_after(plan));
	lines = dw_plan_lines(plan, &count);
	for (size_t i = 0; i < count; i++)
		printf("  %zu. %s\n", i + 1, lines[i]);
	lines = dw_plan_warnings(plan, &count);
	for (size_t i = 0; i < count; i++)
		printf("  ! %s\n", lines[i]);
	printf("Rehearsed in full and checked. Writes %s and %s of zeros; the journal takes %s.\n",
	       dw_size_format(v.data, data), dw_size_format(v.zero, zero), dw_size_format(v.journal, journal));
	printf("Until it is done `rollback` takes it back; after that `undo` does, as long as the disk is not changed.\n");
}

static struct json_object *json_of_lines(const char *const *lines, size_t count)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < count; i++)
		json_object_array_add(list, json_object_new_string(lines[i]));
	return list;
}

static void print_plan_json(const struct dw_plan *plan, bool executed)
{
	struct json_object *o = json_object_new_object();
	const char *const *lines;
	struct dw_plan_volume v;
	size_t count;

	dw_plan_volume(plan, &v);
	json_object_object_add(o, "executed", json_object_new_boolean(executed));
	json_object_object_add(o, "nothing_to_do", json_object_new_boolean(v.nothing));
	json_object_object_add(o, "bytes", json_object_new_uint64(v.data));
	json_object_object_add(o, "zero_bytes", json_object_new_uint64(v.zero));
	json_object_object_add(o, "journal_bytes", json_object_new_uint64(v.journal));
	lines = dw_plan_lines(plan, &count);
	json_object_object_add(o, "steps", json_of_lines(lines, count));
	lines = dw_plan_warnings(plan, &count);
	json_object_object_add(o, "warnings", json_of_lines(lines, count));
	json_object_object_add(o, "before", json_of_tree(dw_plan_before(plan)));
	json_object_object_add(o, "after", json_of_tree(dw_plan_after(plan)));
	json_print(o);
}

static int ask(const char *node)
{
	char answer[16] = "";

	if (!isatty(STDIN_FILENO)) {
		print_error(node, "nobody is there to be asked");
		print_hint("--yes goes on without a question, --dry-run only shows the plan");
		return DW_REFUSED;
	}
	printf("Type yes to go on: ");
	fflush(stdout);
	if (fgets(answer, sizeof(answer), stdin) && strcmp(answer, "yes\n") == 0)
		return 0;
	print_error(node, "not confirmed; nothing has changed");
	return DW_FAILED;
}

static int carry_out(struct dw_plan *plan, const char *node, const struct options *o, struct dw_report *report)
{
	struct dw_plan_volume v;
	int status = 0;

	dw_plan_volume(plan, &v);
	if (v.nothing) {
		if (o->json)
			print_plan_json(plan, false);
		else if (!o->quiet)
			printf("%s: nothing to do, it is so already\n", node);
		return 0;
	}
	if (!o->json)
		print_plan(plan, o);
	if (o->dry_run) {
		if (o->json)
			print_plan_json(plan, false);
		else if (!o->quiet)
			printf("Dry run: nothing has been written.\n");
		return 0;
	}
	if (!o->yes)
		status = ask(node);
	if (status)
		return status;
	fflush(stdout);
	if (dw_plan_execute(plan, report) < 0) {
		progress_end();
		return print_failure(node, report);
	}
	progress_end();
	if (o->json)
		print_plan_json(plan, true);
	else if (!o->quiet)
		printf("Done.\n");
	return 0;
}

int run_change(const struct command *self, const struct options *o)
{
	const char *node = o->operands[0];
	struct dw_plan *plan = NULL;
	struct dw_request request;
	struct dw_report report;
	char *path = NULL;
	int status = make_request(self, o, &request);

	if (status)
		return status;
	progress_begin(&report, o);
	if (dw_address_parse(node, &path, &request.partition, &report) < 0)
		return print_failure(node, &report);
	request.path = path;
	if (dw_plan_make(&request, &plan, &report) < 0) {
		progress_end();
		status = print_failure(node, &report);
	} else {
		progress_end();
		status = carry_out(plan, node, o, &report);
	}
	dw_plan_free(plan);
	free(path);
	return status;
}

int run_recover(const struct command *self, const struct options *o)
{
	static const char *const done[] = {
		[DW_RESUME] = "The operation is finished.",
		[DW_ROLLBACK] = "The operation is taken back.",
		[DW_UNDO] = "The operation is undone: the disk is as it was before.",
		[DW_FORGET] = "The record is dropped.",
	};
	const char *node = o->operands[0];
	struct dw_report report;
	char *path = NULL;
	int partition, status = 0;

	progress_begin(&report, o);
	if (dw_address_parse(node, &path, &partition, &report) < 0)
		return print_failure(node, &report);
	if (dw_recover(path, o->journal, self->tag, &report) < 0) {
		progress_end();
		status = print_failure(node, &report);
	} else {
		progress_end();
		if (!o->quiet)
			printf("%s\n", done[self->tag]);
	}
	free(path);
	return status;
}
