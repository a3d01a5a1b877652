/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The commands that only look: show, check, status. */
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "commands.h"
#include "output.h"

/* ---- show ----------------------------------------------------------- */

enum column { NODE, START, SIZE, CONTENT, FILL, LABEL, UUID, COLUMNS };

#define CELL_MAX 4400
#define LABEL_CELLS 24
#define UUID_CELLS 8

struct table {
	int width[COLUMNS];
	int verbose;
};

/* What stands in COLUMN of a node; N NULL: the heading. */
static void cell_text(const struct dw_node *n, const char *branch, int column, char cell[CELL_MAX])
{
	static const char *const headings[] = { "NODE", "START", "SIZE", "CONTENT", "USED", "LABEL", "UUID" };
	const struct dw_content *c = n ? &n->content : NULL;
	char size[DW_SIZE_TEXT];
	const char *text = "";

	if (!n) {
		text = headings[column];
	} else if (column == START) {
		text = dw_size_format(n->start, size);
	} else if (column == SIZE) {
		text = dw_size_format(n->length, size);
	} else if (column == CONTENT) {
		text = n->kind == DW_NODE_FREE ? "free" : n->kind == DW_NODE_EXTENDED ? "extended" : c->type[0] ? c->type : "-";
	} else if (column == LABEL) {
		text = c->label;
	} else if (column == FILL && c->size) {
		snprintf(cell, CELL_MAX, "%s %3.0f%%", dw_size_format(c->used, size), 100.0 * c->used / c->size);
		return;
	}
	if (column == UUID && n)
		snprintf(cell, CELL_MAX, "%.*s", UUID_CELLS, c->uuid);
	else
		snprintf(cell, CELL_MAX, "%s%s", n && column == NODE ? branch : "", n && column == NODE ? n->address : text);
}

static int cell_width(const char *cell, int column)
{
	int cells = text_cells(cell);

	return column == LABEL && cells > LABEL_CELLS ? LABEL_CELLS : cells;
}

static const char *branch_of(const struct dw_node *parent, size_t i)
{
	bool last = i + 1 == parent->child_count;

	if (parent->kind == DW_NODE_DISK)
		return "";
	return output_unicode() ? last ? "└─ " : "├─ " : last ? "`- " : "|- ";
}

static void measure(const struct dw_node *n, const char *branch, struct table *t)
{
	char cell[CELL_MAX];

	for (int i = 0; i < COLUMNS; i++) {
		int width;

		cell_text(n, branch, i, cell);
		width = cell_width(cell, i);
		if (width > t->width[i])
			t->width[i] = width;
	}
	for (size_t i = 0; i < n->child_count; i++)
		measure(&n->children[i], branch_of(n, i), t);
}

/* The headings need room too; the UUID gives way on a narrow screen (-v shows it in full). */
static void fit(struct table *t)
{
	char heading[CELL_MAX];
	int total = 0;

	for (int i = 0; i < COLUMNS; i++) {
		cell_text(NULL, "", i, heading);
		if (t->width[i] && t->width[i] < text_cells(heading))
			t->width[i] = text_cells(heading);
		total += t->width[i] ? t->width[i] + 2 : 0;
	}
	if (total - 2 > output_width())
		t->width[UUID] = 0;
}

static void print_row(const struct dw_node *n, const char *branch, const struct table *t)
{
	int owed = 0;
	char cell[CELL_MAX];

	for (int i = 0; i < COLUMNS; i++) {
		int cells, pad;

		if (t->width[i] == 0) /* nothing in the whole column */
			continue;
		cell_text(n, branch, i, cell);
		cells = cell_width(cell, i);
		pad = t->width[i] < cells ? 0 : t->width[i] - cells;
		if (i == START || i == SIZE || i == FILL) {
			owed += pad;
			pad = 0;
		}
		if (cells) {
			say("%*s", owed, "");
			say_cells(cell, cells);
			owed = 0;
		}
		owed += pad + 2;
	}
	say("\n");
}

static void print_detail(const struct dw_node *n)
{
	const struct dw_content *c = &n->content;
	unsigned long long end = n->start + n->length;

	say("    bytes %llu to %llu (%llu)%s\n", (unsigned long long)n->start, end, (unsigned long long)n->length,
	    n->boot ? ", boot flag" : "");
	if (n->mbr_type)
		say("    type 0x%02x\n", n->mbr_type);
	if (n->guid[0])
		say("    GUID %s, type %s, attributes %016llx\n", n->guid, n->type_guid,
		    (unsigned long long)n->attributes);
	if (n->name[0])
		say("    name \"%s\"\n", n->name);
	if (c->uuid[0])
		say("    UUID %s%s%s\n", c->uuid, c->version[0] ? ", version " : "", c->version);
}

static void print_remarks(const struct dw_node *n)
{
	if (n->mounted[0])
		say_styled(STYLE_GOOD, "    in use: %s\n", n->mounted);
	if (n->content.guarded)
		say_styled(STYLE_ERROR, "    carries the guard of an unfinished operation: see `diskwright status`\n");
	else if (n->content.note[0])
		say_styled(STYLE_WARNING, "    %s\n", n->content.note);
}

static void print_node(const struct dw_node *n, const char *branch, const struct table *t)
{
	print_row(n, branch, t);
	if (t->verbose)
		print_detail(n);
	print_remarks(n);
	for (size_t i = 0; i < n->child_count; i++)
		print_node(&n->children[i], branch_of(n, i), t);
}

/* A headline, the bar, then a line a node. */
static void print_tree(const struct dw_node *disk, int verbose)
{
	struct table t = { .verbose = verbose };
	bool bare = disk->child_count == 0;
	char size[DW_SIZE_TEXT];

	say_styled(STYLE_BOLD, "%s", disk->address);
	say(": %s", dw_size_format(disk->length, size));
	if (verbose)
		say(" (%llu bytes)", (unsigned long long)disk->length);
	say(", %s%s%s, %u-byte sectors\n", strcmp(disk->table, "none") == 0 ? "no partition table" : disk->table,
	    disk->table_id[0] ? " " : "", disk->table_id, disk->sector_size);
	if (disk->defect[0]) {
		say_styled(STYLE_ERROR, "warning: ");
		say_wrapped(9, "%s", disk->defect);
	}
	print_bar(disk, disk->length);
	if (bare)
		measure(disk, "", &t);
	for (size_t i = 0; i < disk->child_count; i++)
		measure(&disk->children[i], "", &t);
	fit(&t);
	output_style(STYLE_DIM);
	print_row(NULL, "", &t);
	output_style(STYLE_PLAIN);
	if (bare)
		print_node(disk, "", &t);
	for (size_t i = 0; i < disk->child_count; i++)
		print_node(&disk->children[i], "", &t);
}

/* ---- a list of disks ---------------------------------------------------- */

/* Of several disks the worst status counts. */
static int worse(int a, int b)
{
	return b == DW_OK || a == DW_UNFINISHED ? a : b;
}

/*
 * Run ONE() for every operand.  A partition's address means the disk that it
 * is on.  LIST: with --json, where results and failures are gathered.
 */
static int for_each_disk(const struct options *o, struct json_object *list,
			 int (*one)(const struct options *o, const char *path, struct json_object *list,
				    struct dw_report *report))
{
	int status = 0;

	for (int i = 0; i < o->operand_count; i++) {
		struct dw_report report = { 0 };
		char *path = NULL;
		int partition, r;

		if (i && !list)
			say("\n");
		r = dw_address_parse(o->operands[i], &path, &partition, &report);
		if (r == 0)
			r = one(o, path, list, &report);
		if (r < 0 && list)
			json_object_array_add(list, json_of_failure(o->operands[i], &report));
		if (r < 0)
			r = print_failure(o->operands[i], &report);
		status = worse(status, r);
		free(path);
	}
	return status;
}

static int show_one(const struct options *o, const char *path, struct json_object *list, struct dw_report *report)
{
	struct dw_node *tree;
	int r = dw_tree_read(path, o->sector_size, &tree, report);

	if (r < 0)
		return r;
	if (list)
		json_object_array_add(list, json_of_tree(tree));
	else
		print_tree(tree, o->verbose);
	dw_tree_free(tree);
	return 0;
}

int run_show(const struct command *self, const struct options *o)
{
	struct json_object *list = o->json ? json_object_new_array() : NULL;
	int status = for_each_disk(o, list, show_one);

	if (list)
		json_print_list("disks", list);
	return status;
}

/* ---- check -------------------------------------------------------------- */

struct findings {
	struct json_object *list;
	bool quiet, error;
	int count;
};

static int print_finding(void *opaque, const struct dw_finding *f)
{
	struct findings *all = opaque;

	all->error |= f->error;
	if (all->list)
		json_object_array_add(all->list, json_of_finding(f));
	if (all->list || (all->quiet && !f->error))
		return 0;
	all->count++;
	say_styled(f->error ? STYLE_ERROR : STYLE_WARNING, "%s: ", f->error ? "error" : "warning");
	say("%s: %s\n", f->node, f->text);
	say_styled(STYLE_DIM, "    %s\n", f->remedy);
	return 0;
}

static int check_one(const struct options *o, const char *path, struct json_object *list, struct dw_report *report)
{
	struct findings all = { .list = list, .quiet = o->quiet };
	int r = dw_check(path, o->sector_size, print_finding, &all, report);

	if (r < 0)
		return r;
	if (!list && all.count == 0 && !o->quiet)
		say("%s: nothing to complain about\n", path);
	return all.error ? DW_FAILED : DW_OK;
}

int run_check(const struct command *self, const struct options *o)
{
	struct json_object *list = o->json ? json_object_new_array() : NULL;
	int status = for_each_disk(o, list, check_one);

	if (list)
		json_print_list("findings", list);
	return status;
}

/* ---- status ------------------------------------------------------------- */

static void print_fact(const char *name, const char *text)
{
	if (!text[0])
		return;
	output_style(STYLE_DIM);
	say("  %-10s ", name);
	output_style(STYLE_PLAIN);
	say_wrapped(13, "%s", text);
}

static void print_begun(const struct dw_journal_info *info)
{
	char when[64], text[128], size[DW_SIZE_TEXT];
	time_t sealed = info->sealed_at;
	struct tm tm;

	if (!sealed || !localtime_r(&sealed, &tm) || !strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm))
		return;
	snprintf(text, sizeof(text), "%s, writes %s", when, dw_size_format(info->bytes, size));
	print_fact("begun", text);
}

static void print_status(const char *disk, const struct dw_journal_info *info)
{
	char undo[4200];

	if (info->state == DW_JOURNAL_NONE) {
		say("%s: no operation is recorded\n", disk);
		return;
	}
	say_styled(STYLE_BOLD, "%s", disk);
	say(": ");
	if (info->unfinished)
		say_styled(STYLE_ERROR, "%s\n", info->undoing ? "an unfinished undo" : "an unfinished operation");
	else
		say("the last operation\n");
	print_fact("operation", info->operation);
	print_begun(info);
	print_fact("journal", info->path);
	print_fact("state", info->done);
	print_fact("resume", info->next_resume);
	print_fact("rollback", info->next_rollback);
	if (info->state != DW_JOURNAL_DONE)
		return;
	snprintf(undo, sizeof(undo), "`diskwright undo %s` takes it back, as long as the disk is not changed", disk);
	print_fact("undo", undo);
}

static int status_one(const struct options *o, const char *path, struct json_object *list, struct dw_report *report)
{
	struct dw_journal_info info;
	int r = dw_journal_inspect(path, o->journal, &info, report);

	if (r < 0)
		return r;
	if (list)
		json_object_array_add(list, json_of_journal(path, &info));
	else
		print_status(path, &info);
	return info.unfinished ? DW_UNFINISHED : DW_OK;
}

int run_status(const struct command *self, const struct options *o)
{
	struct json_object *list = o->json ? json_object_new_array() : NULL;
	int status = for_each_disk(o, list, status_one);

	if (list)
		json_print_list("disks", list);
	return status;
}
