/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "stage/tool.h"

#define STAGE_NAME "filesystem"

/* e2fsck's exit status is a sum of these. */
#define E2FSCK_FIXED 1
#define E2FSCK_REBOOT 2
#define E2FSCK_LEFT 4

/* A partition of the view, shown on the stage. */
struct shown {
	struct device *window;
	const char *path;
};

static int show(struct dw_plan *plan, uint64_t start, uint64_t length, struct shown *shown)
{
	int r = 0;

	*shown = (struct shown){ 0 };
	if (!plan->stage)
		r = stage_open(plan->request->temporary, &plan->stage, plan->report);
	if (r == 0)
		r = device_open_window(plan->view, start, length, &shown->window);
	if (r == 0)
		r = stage_show(plan->stage, STAGE_NAME, shown->window, &shown->path, plan->report);
	if (r < 0) {
		device_close(shown->window);
		shown->window = NULL;
	}
	return r;
}

static int hide(struct dw_plan *plan, struct shown *shown)
{
	int r = shown->path ? stage_hide(plan->stage, STAGE_NAME, plan->report) : 0;

	device_close(shown->window);
	*shown = (struct shown){ 0 };
	if (r == -ENOSPC) {
		dw_fail(plan->report, DW_REFUSED, ENOSPC, "no space for the rehearsal in %s",
			plan->request->temporary);
		dw_hint(plan->report, "set TMPDIR to a directory with more room");
	} else if (r < 0) {
		dw_fail(plan->report, DW_FAILED, -r, "the rehearsal could not be written: %s",
			strerror(-r));
	}
	return r;
}

/* Run a program; RESULT is the caller's to free when 0 is returned. */
static int run(struct dw_plan *plan, const char *const *argv, enum tool_progress progress,
	       const char *phase, struct tool_result *result)
{
	int r = tool_run(argv, progress, phase, result, plan->report);

	return r < 0 ? dw_fail(plan->report, DW_REFUSED, -r, "cannot run %s: %s", argv[0], strerror(-r))
		     : 0;
}

static int said(struct dw_plan *plan, const char *program, const struct tool_result *result)
{
	char line[256];

	return dw_fail(plan->report, DW_REFUSED, EINVAL, "%s refuses (status %d): %s", program,
		       result->exit_code, tool_reason(result, program, line, sizeof(line)));
}

/* Run a program that must succeed and has nothing to say. */
static int run_plain(struct dw_plan *plan, const char *const *argv, enum tool_progress progress,
		     const char *phase)
{
	struct tool_result result;
	int r = run(plan, argv, progress, phase, &result);

	if (r < 0)
		return r;
	if (result.exit_code != 0)
		r = said(plan, argv[0], &result);
	tool_result_free(&result);
	return r;
}

/* ---- check ----------------------------------------------------------- */

/* What e2fsck repaired, as warnings: its lines that end in an answer. */
static int list_repairs(struct dw_plan *plan, char *output)
{
	char *save = NULL;

	for (char *line = strtok_r(output, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		size_t length = strlen(line);

		if (strstr(line, "FIXED") || strstr(line, "CLEARED") || strstr(line, "recovering journal") ||
		    (length > 4 && strcmp(line + length - 4, " yes") == 0)) {
			int r = plan_warn(plan, "e2fsck: %s", line);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int check_first(struct dw_plan *plan, const struct fs_job *job, const struct shown *shown)
{
	const char *argv[] = { "e2fsck", "-f", plan->request->repair ? "-y" : "-p", shown->path, NULL };
	struct tool_result result;
	int r;

	extfs_warm(shown->window, shown->path);
	r = run(plan, argv, TOOL_E2FSCK, "checking the filesystem", &result);
	if (r < 0)
		return r;
	if (result.exit_code & E2FSCK_LEFT) {
		r = dw_fail(plan->report, DW_REFUSED, EUCLEAN,
			    "the filesystem in %s has errors that e2fsck does not mend by itself", job->name);
		dw_hint(plan->report, "`--repair` lets the rehearsal mend them, and lists what it did");
	} else if (result.exit_code & ~(E2FSCK_FIXED | E2FSCK_REBOOT)) {
		r = said(plan, "e2fsck", &result);
	} else if (result.exit_code) {
		r = list_repairs(plan, result.output);
	}
	tool_result_free(&result);
	return r;
}

static int check_last(struct dw_plan *plan, const struct fs_job *job, const struct shown *shown,
		      const struct extfs *facts)
{
	const char *argv[] = { "e2fsck", "-f", "-n", shown->path, NULL };
	struct tool_result result;
	char line[256];
	int r = run(plan, argv, TOOL_E2FSCK, "checking the result", &result);

	if (r < 0)
		return r;
	if (result.exit_code != 0 && facts->orphan_file && !plan->orphan_toggle)
		r = -EAGAIN;
	else if (result.exit_code != 0)
		r = dw_fail(plan->report, DW_REFUSED, EUCLEAN,
			    "the rehearsed filesystem of %s is not clean, so nothing is done; e2fsck says: %s",
			    job->name, tool_reason(&result, "e2fsck", line, sizeof(line)));
	tool_result_free(&result);
	return r;
}

/* ---- journal --------------------------------------------------------- */

static int features(struct dw_plan *plan, const struct shown *shown, const char *list, const char *phase)
{
	const char *argv[] = { "tune2fs", "-O", list, shown->path, NULL };

	return run_plain(plan, argv, TOOL_NO_PROGRESS, phase);
}

static int journal_off(struct dw_plan *plan, const struct fs_job *job, const struct shown *shown,
		       const struct extfs *facts)
{
	int r = 0;

	if (facts->orphan_file && (plan->orphan_toggle || job->journal != FS_JOURNAL_KEEP))
		r = features(plan, shown, "^orphan_file", "taking the orphan file away");
	if (r == 0 && facts->has_journal &&
	    (job->journal == FS_JOURNAL_OFF || job->journal == FS_JOURNAL_REBUILD))
		r = features(plan, shown, "^has_journal", "taking the journal away");
	return r;
}

static int journal_on(struct dw_plan *plan, const struct fs_job *job, const struct shown *shown,
		      const struct extfs *facts)
{
	const char *plain[] = { "tune2fs", "-j", shown->path, NULL };
	char size[48];
	const char *sized[] = { "tune2fs", "-j", "-J", size, shown->path, NULL };
	int r = 0;

	snprintf(size, sizeof(size), "size=%llu", (unsigned long long)(job->journal_size >> 20));
	if (job->journal == FS_JOURNAL_ON || job->journal == FS_JOURNAL_REBUILD)
		r = run_plain(plan, job->journal_size ? sized : plain, TOOL_NO_PROGRESS,
			      "making the journal");
	if (r == 0 && facts->orphan_file && job->journal != FS_JOURNAL_OFF &&
	    (plan->orphan_toggle || job->journal != FS_JOURNAL_KEEP))
		r = features(plan, shown, "orphan_file", "making the orphan file");
	return r;
}

/* ---- size ------------------------------------------------------------ */

int rehearse_read_fs(struct dw_plan *plan, uint64_t start, uint64_t length, struct extfs *facts)
{
	struct device *window;
	int r = device_open_window(plan->view, start, length, &window);

	if (r < 0)
		return r;
	r = extfs_read(window, facts, plan->report);
	device_close(window);
	return r;
}

/* The number behind TEXT in the output, or 0. */
static uint64_t number_after(const struct tool_result *result, const char *text)
{
	const char *p = strstr(result->output, text);

	return p ? strtoull(p + strlen(text), NULL, 10) : 0;
}

static int find_minimum(struct dw_plan *plan, struct fs_job *job, const struct shown *shown,
			const struct extfs *facts)
{
	const char *argv[] = { "resize2fs", "-P", shown->path, NULL };
	struct tool_result result;
	uint64_t blocks, end;
	int r = run(plan, argv, TOOL_NO_PROGRESS, "finding the smallest size", &result);

	if (r < 0)
		return r;
	blocks = number_after(&result, "Estimated minimum size of the filesystem:");
	if (result.exit_code != 0 || blocks == 0 || blocks > facts->blocks)
		r = said(plan, "resize2fs", &result);
	tool_result_free(&result);
	if (r < 0)
		return r;
	end = layout_align_up(job->start + blocks * facts->block_size, job->align);
	job->new_length = end - job->start < job->old_length ? end - job->start : job->old_length;
	job->fs_size = job->new_length;
	for (size_t i = 0; i < job->edit_count; i++)
		job->edits[i].length = job->new_length;
	return 0;
}

static int resize(struct dw_plan *plan, const struct fs_job *job, const struct shown *shown,
		  const struct extfs *facts)
{
	char blocks[32], least[DW_SIZE_TEXT];
	const char *argv[] = { "resize2fs", shown->path, blocks, NULL };
	uint64_t size = job->fs_size ? job->fs_size : job->new_length, minimum;
	struct tool_result result;
	int r;

	snprintf(blocks, sizeof(blocks), "%llu", (unsigned long long)(size / facts->block_size));
	r = run(plan, argv, TOOL_RESIZE2FS, "resizing the filesystem", &result);
	if (r < 0)
		return r;
	minimum = number_after(&result, "New size smaller than minimum (");
	if (result.exit_code != 0 && minimum) {
		minimum *= facts->block_size;
		r = dw_fail(plan->report, DW_REFUSED, ENOSPC,
			    "the filesystem in %s does not fit: it needs at least %s (%llu bytes)", job->name,
			    dw_size_format(minimum, least), (unsigned long long)minimum);
		dw_hint(plan->report, "`shrink %s --min` makes it as small as it can be", job->name);
	} else if (result.exit_code != 0) {
		r = said(plan, "resize2fs", &result);
	}
	tool_result_free(&result);
	return r;
}

/* The programs are believed only after their result has been read back. */
static int read_back(struct dw_plan *plan, const struct fs_job *job)
{
	struct extfs now;
	int r = rehearse_read_fs(plan, job->start, job->new_length, &now);

	if (r == 0 && now.blocks > job->new_length / now.block_size)
		r = dw_fail(plan->report, DW_REFUSED, EUCLEAN,
			    "the rehearsed filesystem of %s is larger than its partition", job->name);
	return r;
}

/* ---- the whole ------------------------------------------------------- */

static int edit_table(struct dw_plan *plan, const struct fs_job *job)
{
	if (job->edit_count == 0)
		return 0;
	return ptable_edit(plan->view, &plan->table, job->edits, job->edit_count, plan->report);
}

/* Show the partition with another length: the tools see the new size. */
static int reopen(struct dw_plan *plan, const struct fs_job *job, struct shown *shown)
{
	int r = hide(plan, shown);

	return r < 0 ? r : show(plan, job->start, job->new_length, shown);
}

/* The new partition, shown from the start, has room for all that is done. */
static bool job_grows(const struct fs_job *job)
{
	return job->resize && !job->minimum && job->new_length >= job->old_length;
}

static int rehearse_steps(struct dw_plan *plan, struct fs_job *job, const struct extfs *facts,
			  struct shown *shown)
{
	bool grows = job_grows(job);
	int r = check_first(plan, job, shown);

	if (r == 0)
		r = journal_off(plan, job, shown, facts);
	if (r == 0 && job->minimum)
		r = find_minimum(plan, job, shown, facts);
	if (r == 0 && job->resize)
		r = resize(plan, job, shown, facts);
	if (r == 0 && !grows && job->new_length != job->old_length)
		r = reopen(plan, job, shown);
	if (r == 0)
		r = journal_on(plan, job, shown, facts);
	if (r == 0)
		r = check_last(plan, job, shown, facts);
	if (r == 0)
		r = stage_flush(plan->stage, STAGE_NAME, plan->report);
	if (r == 0)
		r = read_back(plan, job);
	if (r == 0 && !grows)
		r = edit_table(plan, job);
	return r;
}

int rehearse_fs(struct dw_plan *plan, struct fs_job *job, const struct extfs *facts)
{
	struct shown shown = { 0 };
	int r = 0, r2;

	/* One file for all programs: what one has read the next finds cached. */
	if (job_grows(job))
		r = edit_table(plan, job);
	if (r == 0)
		r = show(plan, job->start, job_grows(job) ? job->new_length : job->old_length, &shown);
	if (r < 0)
		return r;
	r = rehearse_steps(plan, job, facts, &shown);
	r2 = hide(plan, &shown);
	return r < 0 ? r : r2;
}
