/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The commands that change a disk: plan, show, ask, execute; and recovery. */
#include <errno.h>
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
	if (strcmp(o->operands[1], "off") == 0 && o->journal_size)
		return usage(self, "--size is for a journal that is made: on, or rebuild");
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
	const struct dw_node *before = dw_plan_before(plan), *after = dw_plan_after(plan);
	uint64_t whole = before->length > after->length ? before->length : after->length;
	char data[DW_SIZE_TEXT], zero[DW_SIZE_TEXT], journal[DW_SIZE_TEXT];
	const char *const *lines;
	struct dw_plan_volume v;
	size_t count;

	dw_plan_volume(plan, &v);
	say("Now:\n");
	print_bar(before, whole);
	say("Then:\n");
	print_bar(after, whole);
	lines = dw_plan_lines(plan, &count);
	for (size_t i = 0; i < count; i++) {
		say("%3zu. ", i + 1);
		say_wrapped(5, "%s", lines[i]);
	}
	lines = dw_plan_warnings(plan, &count);
	output_style(STYLE_WARNING);
	for (size_t i = 0; i < count; i++) {
		say("  !  ");
		say_wrapped(5, "%s", lines[i]);
	}
	output_style(STYLE_PLAIN);
	say_wrapped(0, "Rehearsed and checked: writes %s, zeroes %s, journal %s %s.", dw_size_format(v.data, data),
		    dw_size_format(v.zero, zero), dw_size_format(v.journal, journal),
		    o->journal ? "where --journal says" : "beside the image");
	say_wrapped(0, "Until it is done, `rollback` takes it back; then `undo`, while nothing else changes the disk.");
}

/* The word yes, from a person. */
static int ask(struct dw_report *report)
{
	char answer[16];

	if (!isatty(STDIN_FILENO)) {
		dw_fail(report, DW_REFUSED, ENOTTY, "nobody is there to be asked");
		dw_hint(report, "--yes goes on without a question, --dry-run only shows the plan");
		return -ENOTTY;
	}
	say_styled(STYLE_BOLD, "Type yes to go on: ");
	if (!progress_read_line(answer, sizeof(answer)))
		return dw_fail(report, DW_FAILED, EINTR, "interrupted; nothing has changed");
	if (strcmp(answer, "yes") != 0)
		return dw_fail(report, DW_FAILED, ECANCELED, "not confirmed; nothing has changed");
	return 0;
}

/* Show the plan, ask, execute.  *EXECUTED: it came to that. */
static int carry_out(struct dw_plan *plan, const struct options *o, bool *executed, struct dw_report *report)
{
	bool asks = !o->yes && !o->dry_run;
	struct dw_plan_volume v;
	int r = 0;

	dw_plan_volume(plan, &v);
	if (v.nothing)
		return 0;
	if (asks || (!o->quiet && !o->json))
		print_plan(plan, o);
	if (o->dry_run)
		return 0;
	if (asks)
		r = ask(report);
	fflush(stdout);
	if (r == 0)
		r = dw_plan_execute(plan, report);
	progress_end();
	*executed = r == 0;
	return r;
}

/* The end of a command, for people or as JSON; returns the exit status. */
static int conclude(const struct options *o, const struct dw_report *report, int r, struct json_object *result,
		    const char *done)
{
	const char *node = o->operands[0];

	if (o->json) {
		if (r < 0) {
			json_object_put(result);
			result = json_of_failure(node, report);
		}
		json_print(result);
	} else if (r == 0 && !o->quiet) {
		say("%s: %s\n", node, done);
	}
	return r < 0 ? print_failure(node, report) : DW_OK;
}

static struct json_object *json_of_change(const struct dw_plan *plan, bool executed)
{
	struct json_object *o = plan ? json_of_plan(plan) : json_object_new_object();

	json_object_object_add(o, "status", json_object_new_int(DW_OK));
	json_object_object_add(o, "executed", json_object_new_boolean(executed));
	return o;
}

int run_change(const struct command *self, const struct options *o)
{
	struct dw_plan_volume volume = { .nothing = false };
	struct json_object *result = NULL;
	struct dw_plan *plan = NULL;
	struct dw_request request;
	struct dw_report report;
	bool executed = false;
	char *path = NULL;
	int r, status = make_request(self, o, &request);

	if (status)
		return status;
	/* With --json, stdout carries that alone. */
	if (o->json)
		output_to(stderr);
	progress_begin(&report, o);
	r = dw_address_parse(o->operands[0], &path, &request.partition, &report);
	request.path = path;
	if (r == 0)
		r = dw_plan_make(&request, &plan, &report);
	progress_end();
	if (r == 0)
		r = carry_out(plan, o, &executed, &report);
	if (plan)
		dw_plan_volume(plan, &volume);
	if (o->json)
		result = json_of_change(plan, executed);
	status = conclude(o, &report, r, result,
			  executed	   ? "done"
			  : volume.nothing ? "nothing to do, it is so already"
					   : "dry run, nothing has been written");
	dw_plan_free(plan);
	free(path);
	return status;
}

int run_recover(const struct command *self, const struct options *o)
{
	static const char *const done[] = {
		[DW_RESUME] = "the operation is finished",
		[DW_ROLLBACK] = "the operation is taken back, the disk is as it was before",
		[DW_UNDO] = "the operation is undone, the disk is as it was before",
		[DW_FORGET] = "the record is dropped",
	};
	struct dw_report report;
	char *path = NULL;
	int partition, status, r;

	progress_begin(&report, o);
	r = dw_address_parse(o->operands[0], &path, &partition, &report);
	if (r == 0)
		r = dw_recover(path, o->journal, self->tag, &report);
	progress_end();
	status = conclude(o, &report, r, o->json ? json_of_change(NULL, r == 0) : NULL, done[self->tag]);
	free(path);
	return status;
}
