/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From a path and its journal: what is under way, and going on, back or undo. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/export.h"
#include "exec/exec.h"
#include "plan/plan.h"

static bool state_is_unfinished(enum journal_state state)
{
	return state != JOURNAL_EMPTY && state != JOURNAL_DONE && state != JOURNAL_ROLLED_BACK;
}

int recover_journal_paths(const struct disk *disk, const char *given, char **path, char **link)
{
	char *usual = disk_journal_path(disk, NULL), *real = NULL;
	char *from = disk_journal_path(disk, given);
	char target[1];

	*path = *link = NULL;
	if (!usual || !from) {
		free(usual);
		free(from);
		return -ENOMEM;
	}
	real = realpath(from, NULL);
	*path = real ? real : from;
	if (real)
		free(from);
	if (readlink(usual, target, sizeof(target)) >= 0)
		*link = usual;
	else
		free(usual);
	return 0;
}

void recover_forget(const struct disk *disk, const char *journal_path)
{
	char *path, *link;

	if (recover_journal_paths(disk, journal_path, &path, &link) < 0)
		return;
	journal_file_remove(path, link, NULL);
	free(path);
	free(link);
}

int recover_refuse_unfinished(const struct disk *disk, const char *journal_path, struct dw_report *report)
{
	struct journal journal;
	struct device *dev;
	char *path, *link;
	int r = recover_journal_paths(disk, NULL, &path, &link);

	if (r < 0)
		return r;
	r = journal_file_open(path, false, &dev, report);
	if (r == 0) {
		r = journal_open(dev, &journal, report);
		if (r == -EBADMSG || r == -ENODATA) {
			r = dw_fail(report, DW_REFUSED, EBADMSG, "%s is there, but is not a journal that can be read", path);
			dw_hint(report, "`diskwright status %s` says more", disk->path);
		} else if (r == 0 && state_is_unfinished(journal.header.state)) {
			r = dw_fail(report, DW_UNFINISHED, EBUSY, "an unfinished operation is on it: %s",
				    journal.header.text);
			dw_hint(report, "`diskwright resume %s` or `diskwright rollback %s` first", disk->path,
				disk->path);
		}
		journal_release(&journal);
		device_close(dev);
	}
	free(path);
	free(link);
	return r == -ENOENT ? 0 : r;
}

int recover_run(struct disk *disk, struct journal *journal, bool backward, bool undo,
		struct dw_report *report)
{
	struct exec x = { disk->dev, journal, disk_resize, disk, report };
	enum journal_state state;
	int r = backward ? exec_backward(&x, undo) : exec_forward(&x);

	/* Nothing written yet: then the operation has not been. */
	if (r < 0 && !backward && journal->header.state == JOURNAL_SEALED && r != -ESTALE) {
		struct exec back = { disk->dev, journal, disk_resize, disk, NULL };

		exec_backward(&back, false);
	}
	state = journal->header.state;
	if (r < 0)
		dw_fail(report, DW_FAILED, -r, "%s", strerror(-r));
	if (r < 0 && report && state_is_unfinished(state)) {
		if (report->status == DW_OK || report->status == DW_FAILED)
			report->status = DW_UNFINISHED;
		dw_hint(report, "`diskwright resume %s` goes on, `diskwright rollback %s` goes back",
			disk->path, disk->path);
	}
	return r;
}

/* ---- inspect ---------------------------------------------------------- */

static const enum dw_journal_state public_state[JOURNAL_STATES] = {
	[JOURNAL_EMPTY] = DW_JOURNAL_NONE,
	[JOURNAL_SEALED] = DW_JOURNAL_SEALED,
	[JOURNAL_RUNNING] = DW_JOURNAL_RUNNING,
	[JOURNAL_FINALIZING] = DW_JOURNAL_FINALIZING,
	[JOURNAL_DONE] = DW_JOURNAL_DONE,
	[JOURNAL_UNDOING] = DW_JOURNAL_ROLLING_BACK,
	[JOURNAL_ROLLING_BACK] = DW_JOURNAL_ROLLING_BACK,
	[JOURNAL_RESTORING] = DW_JOURNAL_RESTORING,
	[JOURNAL_ROLLED_BACK] = DW_JOURNAL_ROLLED_BACK,
};

static void describe_steps(const struct journal *j, struct dw_journal_info *info)
{
	const struct journal_header *h = &j->header;
	const char *name = h->step && j->steps[h->step - 1].name[0] ? j->steps[h->step - 1].name : "writing";

	switch (h->state) {
	case JOURNAL_SEALED:
		snprintf(info->done, sizeof(info->done), "committed; nothing of it has been written yet");
		break;
	case JOURNAL_RUNNING:
		snprintf(info->done, sizeof(info->done), "step %u of %u (%s) was under way", h->step, h->steps, name);
		break;
	case JOURNAL_FINALIZING:
		snprintf(info->done, sizeof(info->done), "everything is written; the filesystems are being released");
		break;
	case JOURNAL_DONE:
		snprintf(info->done, sizeof(info->done), "finished");
		break;
	case JOURNAL_UNDOING:
		snprintf(info->done, sizeof(info->done), "the way back is committed; nothing of it has been written yet");
		break;
	case JOURNAL_ROLLING_BACK:
		snprintf(info->done, sizeof(info->done), "step %u of %u (%s) was being taken back", h->step, h->steps, name);
		break;
	case JOURNAL_RESTORING:
		snprintf(info->done, sizeof(info->done), "everything is taken back; the filesystems are being released");
		break;
	default:
		snprintf(info->done, sizeof(info->done), "taken back; the disk is as it was before");
	}
}

static void describe(const struct journal *j, struct dw_journal_info *info)
{
	const struct journal_header *h = &j->header;

	info->state = public_state[h->state];
	info->unfinished = state_is_unfinished(h->state);
	info->undoing = h->flags & JOURNAL_FLAG_UNDO;
	snprintf(info->operation, sizeof(info->operation), "%.*s", (int)sizeof(info->operation) - 1, h->text);
	journal_id_text(h->id, info->uuid);
	info->step = h->step;
	info->steps = h->steps;
	info->bytes = h->bytes;
	info->sealed_at = h->sealed_at;
	describe_steps(j, info);
	if (!info->unfinished)
		return;
	snprintf(info->next_resume, sizeof(info->next_resume), "%s",
		 info->undoing ? "go on taking the operation back, to the old disk"
			       : "finish the operation, to the new disk");
	snprintf(info->next_rollback, sizeof(info->next_rollback), "%s",
		 info->undoing ? "call the undo off, back to the new disk"
			       : "take the operation back, to the old disk");
}

bool recover_has_guard(const struct dw_node *node)
{
	if (node->content.guarded)
		return true;
	for (size_t i = 0; i < node->child_count; i++)
		if (recover_has_guard(&node->children[i]))
			return true;
	return false;
}

/* No journal: does a guard on the disk miss one? */
static int inspect_without(struct disk *disk, struct dw_journal_info *info, struct dw_report *report)
{
	struct dw_node *tree;
	int r = dw_tree_read(disk->path, 0, &tree, NULL);

	if (r == 0 && recover_has_guard(tree)) {
		info->state = DW_JOURNAL_MISSING;
		info->unfinished = true;
		snprintf(info->done, sizeof(info->done),
			 "a filesystem carries the guard of an unfinished operation, but its journal is not here");
		snprintf(info->next_resume, sizeof(info->next_resume), "nothing without the journal: give it with --journal FILE");
		snprintf(info->next_rollback, sizeof(info->next_rollback), "nothing without the journal: give it with --journal FILE");
	}
	dw_tree_free(r == 0 ? tree : NULL);
	return 0;
}

DW_EXPORT int dw_journal_inspect(const char *path, const char *journal_path, struct dw_journal_info *out,
				 struct dw_report *report)
{
	struct journal journal;
	struct device *dev;
	struct disk disk;
	char *file = NULL, *link = NULL;
	int r;

	memset(out, 0, sizeof(*out));
	r = disk_open(path, false, &disk, report);
	if (r < 0)
		return r;
	r = recover_journal_paths(&disk, journal_path, &file, &link);
	if (r == 0) {
		snprintf(out->path, sizeof(out->path), "%s", file);
		r = journal_file_open(file, false, &dev, report);
	}
	if (r == 0) {
		r = journal_open(dev, &journal, NULL);
		if (r == 0) {
			journal_load_program(&journal, NULL);
			describe(&journal, out);
		} else if (r == -EBADMSG || r == -ENODATA) {
			out->state = DW_JOURNAL_DAMAGED;
			out->unfinished = true;
			snprintf(out->done, sizeof(out->done), "the journal cannot be read");
			snprintf(out->next_resume, sizeof(out->next_resume), "nothing: the journal cannot be read");
			snprintf(out->next_rollback, sizeof(out->next_rollback), "nothing: the journal cannot be read");
			r = 0;
		}
		journal_release(&journal);
		device_close(dev);
	} else if (r == -ENOENT) {
		r = inspect_without(&disk, out, report);
	}
	free(file);
	free(link);
	disk_close(&disk);
	return r < 0 ? dw_fail(report, DW_FAILED, -r, "%s", strerror(-r)) : 0;
}

/* ---- recover ---------------------------------------------------------- */

static int nothing_to_do(const char *path, const char *what, struct dw_report *report)
{
	dw_fail(report, DW_REFUSED, ENOENT, "there is nothing to %s", what);
	dw_hint(report, "`diskwright status %s` shows what is recorded", path);
	return -ENOENT;
}

/* May WHAT be done in this state?  Sets the direction. */
static int choose(const struct journal *j, enum dw_recovery what, const struct disk *disk, bool *backward,
		  struct dw_report *report)
{
	enum journal_state state = j->header.state;
	bool undoing = j->header.flags & JOURNAL_FLAG_UNDO;

	switch (what) {
	case DW_RESUME:
	case DW_ROLLBACK:
		if (!state_is_unfinished(state))
			return nothing_to_do(disk->path, what == DW_RESUME ? "resume" : "roll back", report);
		*backward = (what == DW_ROLLBACK) != undoing;
		return 0;
	default:
		if (state_is_unfinished(state)) {
			dw_fail(report, DW_UNFINISHED, EBUSY, "an unfinished operation is on it: %s", j->header.text);
			dw_hint(report, "`diskwright resume %s` or `diskwright rollback %s` first", disk->path,
				disk->path);
			return -EBUSY;
		}
		if (state != JOURNAL_DONE)
			return nothing_to_do(disk->path, what == DW_UNDO ? "undo" : "forget", report);
		*backward = true;
		return 0;
	}
}

static int recover_journal(struct disk *disk, struct journal *j, enum dw_recovery what, const char *file,
			   const char *link, struct dw_report *report)
{
	bool backward = false;
	int r = choose(j, what, disk, &backward, report);

	if (r == 0 && what == DW_FORGET)
		return journal_file_remove(file, link, report);
	if (r == 0)
		r = journal_load_program(j, report);
	if (r == 0)
		r = recover_run(disk, j, backward, what == DW_UNDO || (j->header.flags & JOURNAL_FLAG_UNDO),
				report);
	/* Back at the old disk there is nothing left to account for. */
	if (j->header.state == JOURNAL_ROLLED_BACK) {
		int r2 = journal_file_remove(file, link, report);

		r = r < 0 ? r : r2;
	}
	return r;
}

DW_EXPORT int dw_recover(const char *path, const char *journal_path, enum dw_recovery what,
			 struct dw_report *report)
{
	static const char *const verb[] = { "resume", "roll back", "undo", "forget" };
	struct journal journal;
	struct device *dev;
	struct disk disk;
	char *file = NULL, *link = NULL;
	int r = disk_open(path, true, &disk, report);

	if (r < 0)
		return r;
	r = recover_journal_paths(&disk, journal_path, &file, &link);
	if (r == 0)
		r = journal_file_open(file, true, &dev, report);
	if (r == -ENOENT) {
		nothing_to_do(path, verb[what], report);
	} else if (r == 0) {
		r = journal_open(dev, &journal, report);
		if (r == -ENODATA)
			r = dw_fail(report, DW_FAILED, EBADMSG, "%s is not a diskwright journal", file);
		if (r == 0)
			r = recover_journal(&disk, &journal, what, file, link, report);
		journal_release(&journal);
		device_close(dev);
	}
	free(file);
	free(link);
	disk_close(&disk);
	return r < 0 ? dw_fail(report, DW_FAILED, -r, "%s", strerror(-r)) : 0;
}
