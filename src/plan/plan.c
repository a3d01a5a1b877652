/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "core/export.h"
#include "plan/plan.h"
#include "stack/tree.h"

#define ALIGN_DEFAULT (1024 * 1024)

DW_EXPORT const char *dw_version(void)
{
	return PACKAGE_VERSION;
}

/* ---- lines ------------------------------------------------------------ */

static int lines_add(struct lines *lines, const char *fmt, va_list args)
{
	char **list = reallocarray(lines->list, lines->count + 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	lines->list = list;
	if (vasprintf(&list[lines->count], fmt, args) < 0)
		return -ENOMEM;
	lines->count++;
	return 0;
}

static void lines_free(struct lines *lines)
{
	for (size_t i = 0; i < lines->count; i++)
		free(lines->list[i]);
	free(lines->list);
	*lines = (struct lines){ 0 };
}

int plan_line(struct dw_plan *plan, const char *fmt, ...)
{
	va_list args;
	int r;

	va_start(args, fmt);
	r = lines_add(&plan->lines, fmt, args);
	va_end(args);
	return r;
}

int plan_warn(struct dw_plan *plan, const char *fmt, ...)
{
	va_list args;
	int r;

	va_start(args, fmt);
	r = lines_add(&plan->warnings, fmt, args);
	va_end(args);
	return r;
}

int plan_guard(struct dw_plan *plan, uint64_t start, uint64_t length)
{
	if (plan->guarded_count == GUARD_MAX)
		return dw_fail(plan->report, DW_REFUSED, E2BIG,
			       "too many filesystems at once; do it in several operations");
	plan->guarded[plan->guarded_count].start = start;
	plan->guarded[plan->guarded_count++].length = length;
	return 0;
}

/* ---- make ------------------------------------------------------------- */

/*
 * The rehearsal speaks through a report of its own: what it notes (a partition
 * that is renumbered) belongs in the plan, the rest goes to the caller.
 */
static void inner_note(void *opaque, const char *line)
{
	plan_warn(opaque, "%s", line);
}

static void inner_progress(void *opaque, const struct dw_progress *p)
{
	dw_progress(((struct dw_plan *)opaque)->caller, p->phase, p->done, p->total, p->bytes);
}

static bool inner_interrupted(void *opaque)
{
	return dw_interrupted(((struct dw_plan *)opaque)->caller);
}

static void forget_attempt(struct dw_plan *plan)
{
	lines_free(&plan->lines);
	lines_free(&plan->warnings);
	ptable_free(&plan->table);
	memset(&plan->table, 0, sizeof(plan->table));
	device_close(plan->view);
	plan->view = NULL;
	plan->guarded_count = 0;
	plan->new_size = plan->disk.dev->size;
}

static int rehearse_once(struct dw_plan *plan)
{
	int r;

	forget_attempt(plan);
	r = device_open_overlay(plan->disk.dev, plan->new_size, plan->request->temporary, &plan->view);
	if (r < 0) {
		dw_fail(plan->report, DW_REFUSED, -r, "cannot make the rehearsal's overlay in %s: %s",
			plan->request->temporary, strerror(-r));
		dw_hint(plan->report, "set TMPDIR to a directory that can be written");
		return r;
	}
	r = operation_rehearse(plan);
	if (r == -ENOSPC && plan->report->message[0] == '\0')
		dw_fail(plan->report, DW_REFUSED, ENOSPC, "no space for the rehearsal in %s",
			plan->request->temporary);
	return r;
}

static int draw(struct device *dev, uint64_t size, struct dw_plan *plan, struct ptable *table,
		struct dw_node **tree)
{
	char defect[DW_PTABLE_DEFECT];
	struct device *window;
	int r = device_open_window(dev, 0, size, &window);

	if (r < 0)
		return r;
	r = ptable_read(window, plan->request->sector_size, table, defect, plan->report);
	if (r == 0)
		r = tree_of_device(window, plan->disk.path, table, defect, tree, plan->report);
	device_close(window);
	return r;
}

static int make(struct dw_plan *plan)
{
	struct ptable table = { 0 };
	int r = disk_open(plan->request->path, true, &plan->disk, plan->report);

	if (r == 0)
		r = recover_refuse_unfinished(&plan->disk, plan->request->journal_path, plan->report);
	if (r == 0)
		r = draw(plan->disk.dev, plan->disk.dev->size, plan, &table, &plan->before);
	ptable_free(&table);
	if (r == 0 && recover_has_guard(plan->before)) {
		r = dw_fail(plan->report, DW_UNFINISHED, EBUSY,
			    "a filesystem carries the guard of an unfinished operation whose journal is not here");
		dw_hint(plan->report, "`diskwright status %s --journal FILE` with the journal's file",
			plan->disk.path);
	}
	if (r == 0)
		r = rehearse_once(plan);
	if (r == -EAGAIN) {
		plan->orphan_toggle = true;
		r = rehearse_once(plan);
	}
	stage_close(plan->stage);
	plan->stage = NULL;
	if (r == 0 && dw_interrupted(plan->report))
		r = dw_fail(plan->report, DW_FAILED, EINTR, "interrupted; nothing has changed");
	if (r == 0)
		r = draw(plan->view, plan->new_size, plan, &plan->after_table, &plan->after);
	return r < 0 ? r : program_collect(plan);
}

DW_EXPORT int dw_plan_make(const struct dw_request *request, struct dw_plan **out,
			   struct dw_report *report)
{
	struct dw_plan *plan = calloc(1, sizeof(*plan));
	struct dw_report inner = { inner_progress, inner_note, inner_interrupted, plan, DW_OK, "", "" };
	int r;

	*out = NULL;
	if (!plan)
		return dw_fail(report, DW_FAILED, ENOMEM, "%s", strerror(ENOMEM));
	plan->request = request;
	plan->disk.fd = -1;
	plan->report = &inner;
	plan->caller = report;
	plan->command = strdup(request->command ? request->command : "");
	r = plan->command ? make(plan) : -ENOMEM;
	plan->report = NULL;
	if (r < 0) {
		dw_fail(report, inner.message[0] ? inner.status : DW_FAILED, -r, "%s",
			inner.message[0] ? inner.message : strerror(-r));
		if (inner.hint[0])
			dw_hint(report, "%s", inner.hint);
		dw_plan_free(plan);
		return r;
	}
	*out = plan;
	return 0;
}

DW_EXPORT void dw_plan_free(struct dw_plan *plan)
{
	if (!plan)
		return;
	stage_close(plan->stage);
	program_free(&plan->program);
	dw_tree_free(plan->before);
	dw_tree_free(plan->after);
	ptable_free(&plan->table);
	ptable_free(&plan->after_table);
	lines_free(&plan->lines);
	lines_free(&plan->warnings);
	device_close(plan->view);
	disk_close(&plan->disk);
	free(plan->command);
	free(plan);
}

/* ---- look at it ------------------------------------------------------- */

DW_EXPORT const struct dw_node *dw_plan_before(const struct dw_plan *plan)
{
	return plan->before;
}

DW_EXPORT const struct dw_node *dw_plan_after(const struct dw_plan *plan)
{
	return plan->after;
}

DW_EXPORT const char *const *dw_plan_lines(const struct dw_plan *plan, size_t *count)
{
	*count = plan->lines.count;
	return (const char *const *)plan->lines.list;
}

DW_EXPORT const char *const *dw_plan_warnings(const struct dw_plan *plan, size_t *count)
{
	*count = plan->warnings.count;
	return (const char *const *)plan->warnings.list;
}

DW_EXPORT void dw_plan_volume(const struct dw_plan *plan, struct dw_plan_volume *out)
{
	const struct program *p = &plan->program;

	*out = (struct dw_plan_volume){ p->data, p->zero, p->journal_size, p->step_count == 0 };
}

/* ---- execute ---------------------------------------------------------- */

/* The journal must not fall on something that is not a finished journal. */
static int check_journal_place(struct dw_plan *plan, const char *path, struct dw_report *report)
{
	struct journal journal;
	struct device *dev;
	char *real = realpath(path, NULL);
	bool self = real && strcmp(real, plan->disk.real) == 0;
	int r;

	free(real);
	if (self)
		return dw_fail(report, DW_REFUSED, EINVAL, "the journal cannot be the image itself");
	r = journal_file_open(path, false, &dev, report);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	r = journal_open(dev, &journal, NULL);
	if (r == 0 && journal.header.state != JOURNAL_DONE && journal.header.state != JOURNAL_ROLLED_BACK)
		r = dw_fail(report, DW_REFUSED, EEXIST,
			    "%s is the journal of an unfinished operation", path);
	else if (r < 0)
		r = dw_fail(report, DW_REFUSED, EEXIST,
			    "%s exists and is not a diskwright journal; it is left alone", path);
	journal_release(&journal);
	device_close(dev);
	return r;
}

/* Seal under a temporary name, then give it its own: from here on the
 * operation will be accounted for. */
static int seal(struct dw_plan *plan, const char *path, struct device **dev, struct journal *journal,
		struct dw_report *report)
{
	char *usual = disk_journal_path(&plan->disk, NULL), *temporary = NULL;
	int r = usual ? check_journal_place(plan, path, report) : -ENOMEM;

	if (r == 0 && strcmp(usual, path) != 0)
		r = check_journal_place(plan, usual, report);
	if (r == 0)
		r = journal_file_create(path, plan->program.journal_size, &temporary, dev, report);
	if (r == 0) {
		r = program_seal(plan, *dev, journal, report);
		if (r == 0)
			r = journal_file_publish(temporary, path, strcmp(usual, path) ? usual : NULL, report);
		if (r < 0) {
			unlink(temporary);
			journal_release(journal);
			device_close(*dev);
		}
	}
	free(temporary);
	free(usual);
	return r;
}

DW_EXPORT int dw_plan_execute(struct dw_plan *plan, struct dw_report *report)
{
	const struct dw_request *q = plan->request;
	char *path = disk_journal_path(&plan->disk, q->journal_path);
	struct journal journal;
	struct device *dev;
	int r = path ? 0 : -ENOMEM;

	if (r < 0 || plan->program.step_count == 0) {
		free(path);
		return r;
	}
	if (q->recovery_sheet)
		r = sheet_write(plan, q->recovery_sheet, path, report);
	if (r == 0)
		r = seal(plan, path, &dev, &journal, report);
	if (r == 0) {
		r = recover_run(&plan->disk, &journal, false, false, report);
		/* Dropped before anything was written: nothing to account for. */
		if (journal.header.state == JOURNAL_ROLLED_BACK)
			recover_forget(&plan->disk, q->journal_path);
		journal_release(&journal);
		device_close(dev);
	}
	free(path);
	return r < 0 ? dw_fail(report, DW_FAILED, -r, "%s", strerror(-r)) : 0;
}
