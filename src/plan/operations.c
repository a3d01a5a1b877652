/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What each operation means: which partitions it concerns, what speaks
 * against it, where things will stand, and then the rehearsal.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/zero.h"
#include "plan/plan.h"
#include "stack/inuse.h"

#define SECTORS_OF_GPT_BACKUP 33 /* 32 of entries and the header, with 512-byte sectors */

/* A node of the disk: a partition, or the whole disk where there is no table. */
struct target {
	int number;            /* 0: the whole */
	uint64_t start, length;
	const struct partition *partition;
	struct probe probe;
	struct extfs ext;      /* valid when is_ext */
	bool is_ext;
	char name[320];        /* its address, for messages */
};

static bool probe_is_ext(const struct probe *probe)
{
	return strncmp(probe->type, "ext", 3) == 0 && strlen(probe->type) == 4;
}

static void node_name(const struct dw_plan *plan, int number, char *name, size_t size)
{
	if (number)
		snprintf(name, size, "%s:%d", plan->disk.path, number);
	else
		snprintf(name, size, "%s", plan->disk.path);
}

static int refuse_in_use(struct dw_plan *plan, const struct target *t)
{
	char what[256];
	int r = inuse_find(plan->disk.path, t->start, t->length, what, sizeof(what));

	if (r > 0) {
		r = dw_fail(plan->report, DW_REFUSED, EBUSY, "%s is in use: %s", t->name, what);
		dw_hint(plan->report, "unmount it or detach it first");
	}
	return r;
}

struct twin {
	struct dw_plan *plan;
	const struct target *target;
};

static int refuse_twin(void *opaque, uint64_t offset, const struct extfs *ext)
{
	const struct twin *twin = opaque;

	if (strcmp(ext->uuid, twin->target->ext.uuid) != 0)
		return 0;
	dw_fail(twin->plan->report, DW_REFUSED, EUCLEAN,
		"the filesystem in %s (at byte %llu) has a twin with the same UUID in free space at byte %llu: a move that was cut off?",
		twin->target->name, (unsigned long long)twin->target->start, (unsigned long long)offset);
	dw_hint(twin->plan->report,
		"if %s is the whole one, wipe the other's superblock: dd if=/dev/zero of=%s bs=1024 seek=%llu count=1 conv=notrunc",
		twin->target->name, twin->plan->disk.path, (unsigned long long)(offset / 1024 + 1));
	return -EUCLEAN;
}

static int target_find(struct dw_plan *plan, int number, struct target *t)
{
	struct device *window;
	int r;

	memset(t, 0, sizeof(*t));
	t->number = number;
	node_name(plan, number, t->name, sizeof(t->name));
	t->length = plan->disk.dev->size;
	if (number) {
		t->partition = ptable_find(&plan->table, number);
		if (!t->partition) {
			dw_fail(plan->report, DW_USAGE, ENOENT, "there is no partition %d", number);
			dw_hint(plan->report, "`diskwright show %s` lists what is there", plan->disk.path);
			return -ENOENT;
		}
		t->start = t->partition->start;
		t->length = t->partition->length;
	}
	r = refuse_in_use(plan, t);
	if (r < 0 || (t->partition && t->partition->extended))
		return r;
	r = device_open_window(plan->view, t->start, t->length, &window);
	if (r < 0)
		return r;
	r = probe_device(window, &t->probe, plan->report);
	if (r == 0 && t->probe.ambiguous)
		r = dw_fail(plan->report, DW_REFUSED, EINVAL,
			    "%s carries signatures of several kinds at once; it is not clear what it is",
			    t->name);
	t->is_ext = r == 0 && probe_is_ext(&t->probe);
	if (t->is_ext)
		r = extfs_read(window, &t->ext, plan->report);
	device_close(window);
	return r;
}

/* ---- what speaks against touching a filesystem ------------------------ */

static int refuse_feature(struct dw_plan *plan, const struct target *t, const char *what, const char *hint)
{
	dw_fail(plan->report, DW_REFUSED, ENOTSUP, "the filesystem in %s %s", t->name, what);
	if (hint)
		dw_hint(plan->report, "%s", hint);
	return -ENOTSUP;
}

static int preflight_ext(struct dw_plan *plan, const struct target *t, bool resizes, bool shrinks)
{
	const struct extfs *e = &t->ext;
	char what[256];

	if (!t->is_ext) {
		dw_fail(plan->report, DW_REFUSED, ENOTSUP, "%s holds %s%s, not an ext2, ext3 or ext4 filesystem",
			t->name, t->probe.type[0] ? t->probe.type : "nothing that is known",
			t->probe.ext_backup ? " (but backups of an ext superblock: its first one is destroyed)" : "");
		if (t->probe.ext_backup)
			dw_hint(plan->report, "e2fsck -b may restore it; diskwright does not touch it");
		return -ENOTSUP;
	}
	if (e->unknown_features[0]) {
		snprintf(what, sizeof(what), "has features that this e2fsprogs does not know: %s",
			 e->unknown_features);
		return refuse_feature(plan, t, what, "use a system with newer e2fsprogs");
	}
	if (e->external_journal && e->needs_recovery)
		return refuse_feature(plan, t, "needs recovery from its external journal",
				      "mount it once, or run e2fsck -j with the journal's device");
	if (e->external_journal)
		return refuse_feature(plan, t, "keeps its journal on another device",
				      "its journal must be at hand for a check; work on it with resize2fs by hand");
	if (e->mmp_in_use) {
		snprintf(what, sizeof(what), "is in use, by its multiple mount protection%s%s",
			 e->mmp_node[0] ? ": last by host " : "", e->mmp_node);
		return refuse_feature(plan, t, what,
				      "if no host has it mounted any more, `tune2fs -f -E clear_mmp` says so");
	}
	if (resizes && e->bigalloc)
		return refuse_feature(plan, t, "uses bigalloc, which resize2fs does not resize safely", NULL);
	if (shrinks && e->stable_inodes)
		return refuse_feature(plan, t, "has stable_inodes: it can grow, not shrink", NULL);
	return layout_find_strays(plan->view, &plan->table, refuse_twin, &(struct twin){ plan, t });
}

/* Its size must fit what it is in; growing is the remedy where it does not. */
static int preflight_size(struct dw_plan *plan, const struct target *t)
{
	uint64_t size = t->ext.blocks * t->ext.block_size;

	if (size <= t->length)
		return 0;
	dw_fail(plan->report, DW_REFUSED, EUCLEAN,
		"the filesystem in %s is larger (%llu bytes) than its partition (%llu bytes)", t->name,
		(unsigned long long)size, (unsigned long long)t->length);
	dw_hint(plan->report, "`grow %s` extends the partition to it, if there is room", t->name);
	return -EUCLEAN;
}

static int refuse_defect(struct dw_plan *plan, const char *defect)
{
	if (!defect[0])
		return 0;
	dw_fail(plan->report, DW_REFUSED, EUCLEAN, "the partition table is damaged: %s", defect);
	dw_hint(plan->report, "`diskwright check %s` says more; nothing is changed on a damaged table",
		plan->disk.path);
	return -EUCLEAN;
}

/* ---- sizes ----------------------------------------------------------- */

/* The new length of a node, from the request's size; 0 with a message is an error. */
static int new_length(struct dw_plan *plan, uint64_t length, uint64_t largest, uint64_t *out)
{
	const struct dw_size *s = &plan->request->size;
	bool fits = true;

	switch (s->kind) {
	case DW_SIZE_MAX:
		*out = largest;
		break;
	case DW_SIZE_BYTES:
		*out = s->value;
		break;
	case DW_SIZE_PERCENT:
		*out = largest / 100 * s->value + largest % 100 * s->value / 100;
		break;
	case DW_SIZE_PLUS:
		fits = s->value <= UINT64_MAX - length;
		*out = length + s->value;
		break;
	case DW_SIZE_MINUS:
		fits = s->value < length;
		*out = length - s->value;
		break;
	default:
		fits = false;
	}
	if (!fits || *out == 0)
		return dw_fail(plan->report, DW_USAGE, ERANGE, "that size is out of range");
	return 0;
}

/* ---- journal policy --------------------------------------------------- */

/* Does the new size call for another journal size than the one it has?  A
 * journal whose size somebody chose is left alone. */
static bool journal_outgrown(const struct extfs *e, uint64_t new_blocks)
{
	uint64_t before = extfs_default_journal(e->blocks, e->block_size);
	uint64_t after = extfs_default_journal(new_blocks, e->block_size);

	return e->journal_blocks == before && before != after && after != 0;
}

static enum fs_journal journal_policy(struct dw_plan *plan, const struct target *t, uint64_t length)
{
	if (!t->ext.has_journal)
		return FS_JOURNAL_KEEP;
	switch (plan->request->ext_journal) {
	case DW_EXT_JOURNAL_REBUILD:
		return FS_JOURNAL_REBUILD;
	case DW_EXT_JOURNAL_KEEP:
		return FS_JOURNAL_KEEP;
	default:
		return journal_outgrown(&t->ext, length / t->ext.block_size) ? FS_JOURNAL_REBUILD
									      : FS_JOURNAL_KEEP;
	}
}

/* ---- lines of the plan ------------------------------------------------ */

static int line_resize(struct dw_plan *plan, const struct target *t, const struct fs_job *job)
{
	char before[DW_SIZE_TEXT], after[DW_SIZE_TEXT];
	int r = plan_line(plan, "Check the %s filesystem of %s%s.", t->ext.type, t->name,
			  t->ext.needs_recovery ? " (its journal is replayed)" : "");

	if (r == 0 && job->journal == FS_JOURNAL_REBUILD)
		r = plan_line(plan, "Take its journal away while it is resized, and make it anew.");
	if (r == 0)
		r = plan_line(plan, "%s it from %s to %s.", job->new_length >= job->old_length ? "Grow" : "Shrink",
			      dw_size_format(t->ext.blocks * t->ext.block_size, before),
			      dw_size_format(job->fs_size ? job->fs_size : job->new_length, after));
	if (r == 0 && job->edit_count)
		r = plan_line(plan, "Write the partition table: partition %d keeps its start, its length becomes %s.",
			      t->number, dw_size_format(job->new_length, after));
	return r;
}

/* ---- grow and merge --------------------------------------------------- */

static int rehearse_grown(struct dw_plan *plan, const struct target *t, struct fs_job *job)
{
	struct ptable_edit *edit = &job->edits[job->edit_count];
	int r;

	job->name = t->name;
	job->start = t->start;
	job->old_length = t->length;
	job->resize = true;
	job->align = plan->request->align;
	if (t->number && job->new_length != t->length) {
		*edit = (struct ptable_edit){ PTABLE_RESIZE, t->number, t->start, job->new_length };
		job->edit_count++;
	}
	job->journal = journal_policy(plan, t, job->new_length);
	r = plan_guard(plan, t->start, job->new_length);
	if (r == 0)
		r = rehearse_fs(plan, job, &t->ext);
	return r < 0 ? r : line_resize(plan, t, job);
}

/* The table entry is smaller than its filesystem: extend the entry, nothing else. */
static int grow_entry(struct dw_plan *plan, const struct target *t, uint64_t room)
{
	uint64_t size = t->ext.blocks * t->ext.block_size;
	uint64_t length = layout_align_up(t->start + size, plan->request->align) - t->start;
	char text[DW_SIZE_TEXT];
	struct fs_job job = { .name = t->name, .start = t->start };
	struct ptable_edit edit;
	int r;

	if (length > room)
		length = size;
	if (size > room)
		return dw_fail(plan->report, DW_REFUSED, ENOSPC,
			       "the filesystem in %s needs %llu bytes, its partition can have %llu at most",
			       t->name, (unsigned long long)size, (unsigned long long)room);
	edit = (struct ptable_edit){ PTABLE_RESIZE, t->number, t->start, length };
	r = ptable_edit(plan->view, &plan->table, &edit, 1, plan->report);
	if (r == 0)
		r = rehearse_read_fs(plan, job.start, length, &(struct extfs){ 0 });
	if (r == 0)
		r = plan_line(plan, "Extend the table entry of %s to %s, over the filesystem that is there. "
			      "The filesystem itself is not touched.", t->name, dw_size_format(length, text));
	return r;
}

/* Only the table knows of it: an extended partition, or one without content. */
static int grow_bare(struct dw_plan *plan, const struct target *t, uint64_t length)
{
	struct ptable_edit edit = { PTABLE_RESIZE, t->number, t->start, length };
	char text[DW_SIZE_TEXT];
	int r = ptable_edit(plan->view, &plan->table, &edit, 1, plan->report);

	return r < 0 ? r : plan_line(plan, "Write the partition table: the length of %s becomes %s.", t->name,
				     dw_size_format(length, text));
}

static int too_large(struct dw_plan *plan, const struct target *t, uint64_t wanted, uint64_t room,
		     const char *blocker)
{
	char want[DW_SIZE_TEXT], can[DW_SIZE_TEXT];

	dw_fail(plan->report, DW_REFUSED, ENOSPC,
		"%s cannot have %s (%llu bytes): %s (%llu bytes) is the most, then comes %s", t->name,
		dw_size_format(wanted, want), (unsigned long long)wanted, dw_size_format(room, can),
		(unsigned long long)room, blocker);
	dw_hint(plan->report, "what stands behind it has to go or move first; "
		"`merge --absorb` takes a partition over that is not needed");
	return -ENOSPC;
}

static bool is_bare(const struct target *t)
{
	return (t->partition && t->partition->extended) ||
	       (!t->probe.type[0] && !t->probe.ext_backup && t->probe.blank);
}

static int grow_partition(struct dw_plan *plan)
{
	struct target t;
	char blocker[128];
	struct fs_job job = { 0 };
	uint64_t room, end, align = plan->request->align;
	int r = target_find(plan, plan->request->partition, &t);

	if (r < 0)
		return r;
	room = layout_room(&plan->table, t.number, NULL, 0, plan->new_size, blocker, sizeof(blocker)) - t.start;
	if (t.is_ext && t.ext.blocks * t.ext.block_size > t.length) {
		r = preflight_ext(plan, &t, false, false);
		return r < 0 ? r : grow_entry(plan, &t, room);
	}
	r = new_length(plan, t.length, room, &job.new_length);
	if (r < 0)
		return r;
	if (job.new_length > room)
		return too_large(plan, &t, job.new_length, room, blocker);
	end = layout_align_down(t.start + job.new_length, align);
	job.new_length = end > t.start + t.length ? end - t.start : t.length;
	if (plan->request->size.kind != DW_SIZE_MAX && plan->request->size.kind != DW_SIZE_PERCENT &&
	    end < t.start + t.length)
		return dw_fail(plan->report, DW_USAGE, EINVAL,
			       "%s is larger than that already; `shrink` makes it smaller", t.name);
	if (is_bare(&t))
		return job.new_length == t.length ? 0 : grow_bare(plan, &t, job.new_length);
	r = preflight_ext(plan, &t, true, false);
	if (r < 0)
		return r;
	/* Nothing to win: less than a block would be added. */
	if (job.new_length == t.length && (t.length - t.ext.blocks * t.ext.block_size) < align &&
	    t.length - t.ext.blocks * t.ext.block_size < 65536)
		return 0;
	return rehearse_grown(plan, &t, &job);
}

static const char *absorbed_content(const struct target *t)
{
	return t->partition->extended		 ? "an empty extended partition"
	       : t->probe.type[0]		 ? t->probe.type
	       : t->probe.blank			 ? "empty"
						 : "unknown content";
}

/* May M be taken over?  Its content is lost: the plan says so by name. */
static int absorb_one(struct dw_plan *plan, const struct target *survivor, int number, struct fs_job *job)
{
	struct target m;
	char used[DW_SIZE_TEXT] = "", size[DW_SIZE_TEXT];
	int r = target_find(plan, number, &m);

	if (r < 0)
		return r;
	if (number == survivor->number)
		return dw_fail(plan->report, DW_USAGE, EINVAL, "a partition cannot absorb itself");
	if (m.probe.ext_backup && !m.probe.type[0]) {
		dw_fail(plan->report, DW_REFUSED, EUCLEAN,
			"%s is not empty: its first superblock is destroyed, but backups of an ext filesystem are there",
			m.name);
		dw_hint(plan->report, "if it really is not needed, `remove %s` and then `merge --absorb free`", m.name);
		return -EUCLEAN;
	}
	if (m.start < survivor->start) {
		dw_fail(plan->report, DW_REFUSED, ENOTSUP,
			"%s lies to the left of %s; this release absorbs to the right only", m.name, survivor->name);
		return -ENOTSUP;
	}
	if (!!m.partition->logical != !!survivor->partition->logical)
		return dw_fail(plan->report, DW_REFUSED, ENOTSUP,
			       "%s and %s are not of one kind: one is inside the extended partition, one is not",
			       m.name, survivor->name);
	if (m.is_ext)
		snprintf(used, sizeof(used), "%s",
			 dw_size_format((m.ext.blocks - m.ext.free_blocks) * m.ext.block_size, size));
	job->edits[job->edit_count++] = (struct ptable_edit){ PTABLE_REMOVE, number, 0, 0 };
	r = plan_guard(plan, m.start, m.length);
	if (r == 0)
		r = plan_line(plan, "Absorb %s (%s, %s).", m.name, absorbed_content(&m),
			      dw_size_format(m.length, size));
	if (r == 0 && !is_bare(&m))
		r = plan_warn(plan, "%s holds %s%s%s%s%s%s: its content is given up.", m.name,
			      absorbed_content(&m), m.probe.label[0] ? " \"" : "", m.probe.label,
			      m.probe.label[0] ? "\"" : "", used[0] ? ", in use: " : "", used);
	return r;
}

/* Between the survivor and what it absorbs only absorbed ones may stand. */
static int absorb_adjacent(struct dw_plan *plan, int last, uint64_t absorbed_end, uint64_t room_end,
			   const char *blocker)
{
	if (absorbed_end <= room_end)
		return 0;
	dw_fail(plan->report, DW_REFUSED, EINVAL, "partition %d is not adjacent: %s stands in between", last,
		blocker);
	dw_hint(plan->report, "absorb that as well, or choose a neighbour");
	return -EINVAL;
}

static int merge(struct dw_plan *plan)
{
	const struct dw_request *q = plan->request;
	uint64_t absorbed_end = 0, room_end, end;
	struct fs_job job = { 0 };
	struct target t;
	char blocker[128];
	int last = 0;
	int r = q->partition ? target_find(plan, q->partition, &t)
			     : dw_fail(plan->report, DW_USAGE, EINVAL, "merge needs a partition, as in %s:6",
				       plan->disk.path);

	if (r == 0)
		r = preflight_ext(plan, &t, true, false);
	if (r == 0)
		r = preflight_size(plan, &t);
	if (r == 0 && t.partition->extended)
		r = dw_fail(plan->report, DW_REFUSED, EINVAL, "%s is an extended partition", t.name);
	for (size_t i = 0; i < q->absorb_count && r == 0; i++) {
		const struct partition *m = ptable_find(&plan->table, q->absorb[i]);

		for (size_t j = 0; j < i && r == 0; j++)
			if (q->absorb[j] == q->absorb[i])
				r = dw_fail(plan->report, DW_USAGE, EINVAL, "partition %d is named twice",
					    q->absorb[i]);
		if (r == 0)
			r = absorb_one(plan, &t, q->absorb[i], &job);
		if (r == 0 && m->start + m->length > absorbed_end) {
			absorbed_end = m->start + m->length;
			last = m->number;
		}
	}
	if (r < 0)
		return r;
	room_end = layout_room(&plan->table, t.number, q->absorb, q->absorb_count, plan->new_size, blocker,
			       sizeof(blocker));
	r = absorb_adjacent(plan, last, absorbed_end, room_end, blocker);
	if (r < 0)
		return r;
	end = absorbed_end;
	if (q->absorb_free) {
		uint64_t aligned = layout_align_down(room_end, q->align);

		if (aligned > end)
			end = aligned;
	}
	if (end <= t.start + t.length)
		return dw_fail(plan->report, DW_REFUSED, ENOSPC, "there is no free space right behind %s", t.name);
	job.new_length = end - t.start;
	return rehearse_grown(plan, &t, &job);
}

/* ---- shrink ----------------------------------------------------------- */

static int shrink_partition(struct dw_plan *plan)
{
	const struct dw_request *q = plan->request;
	struct fs_job job = { .minimum = q->size.kind == DW_SIZE_MIN, .align = q->align, .resize = true };
	struct target t;
	uint64_t end;
	int r = target_find(plan, q->partition, &t);

	if (r == 0)
		r = preflight_ext(plan, &t, true, true);
	if (r == 0)
		r = preflight_size(plan, &t);
	if (r < 0)
		return r;
	job.new_length = t.length;
	if (!job.minimum) {
		r = new_length(plan, t.length, t.length, &job.new_length);
		if (r < 0)
			return r;
		if (job.new_length > t.length)
			return dw_fail(plan->report, DW_USAGE, EINVAL, "%s is smaller than that already; `grow` makes it larger",
				       t.name);
		/* Round up: never smaller than asked for. */
		end = layout_align_up(t.start + job.new_length, q->align);
		if (end >= t.start + t.length)
			return 0;
		job.new_length = end - t.start;
		job.fs_size = job.new_length;
	}
	job.name = t.name;
	job.start = t.start;
	job.old_length = t.length;
	if (t.number)
		job.edits[job.edit_count++] =
			(struct ptable_edit){ PTABLE_RESIZE, t.number, t.start, job.new_length };
	job.journal = q->ext_journal == DW_EXT_JOURNAL_REBUILD && t.ext.has_journal ? FS_JOURNAL_REBUILD
										      : FS_JOURNAL_KEEP;
	r = plan_guard(plan, t.start, t.length);
	if (r == 0)
		r = rehearse_fs(plan, &job, &t.ext);
	if (r == 0 && !t.number)
		plan->new_size = job.new_length;
	return r < 0 ? r : line_resize(plan, &t, &job);
}

/* ---- the whole disk --------------------------------------------------- */

static int resize_table(struct dw_plan *plan)
{
	char text[DW_SIZE_TEXT];
	int r = 0;

	if (plan->table.type == PTABLE_GPT)
		r = ptable_edit(plan->view, &plan->table, NULL, 0, plan->report);
	if (r == 0)
		r = plan_line(plan, "Make the image %s long%s.", dw_size_format(plan->new_size, text),
			      plan->table.type == PTABLE_GPT ? ", the GPT's backup at its new end" : "");
	return r;
}

/* The view must have the new length before anything is rehearsed. */
static int set_view_size(struct dw_plan *plan, uint64_t size)
{
	device_close(plan->view);
	plan->view = NULL;
	plan->new_size = size;
	return device_open_overlay(plan->disk.dev, size, plan->request->temporary, &plan->view);
}

static int whole_in_use(struct dw_plan *plan)
{
	struct target t = { .length = plan->disk.dev->size };

	node_name(plan, 0, t.name, sizeof(t.name));
	return refuse_in_use(plan, &t);
}

static int grow_disk(struct dw_plan *plan)
{
	uint64_t size, old = plan->disk.dev->size;
	struct fs_job job = { 0 };
	struct target t;
	int r = whole_in_use(plan);

	if (r == 0 && plan->request->size.kind != DW_SIZE_BYTES && plan->request->size.kind != DW_SIZE_PLUS)
		r = dw_fail(plan->report, DW_USAGE, EINVAL, "growing an image needs --to SIZE or --by SIZE");
	if (r == 0)
		r = new_length(plan, old, old, &size);
	if (r < 0)
		return r;
	size = layout_align_up(size, plan->table.sector_size);
	if (size < old)
		return dw_fail(plan->report, DW_USAGE, EINVAL, "the image is longer than that already; `shrink` cuts it");
	if (size > INT64_MAX)
		return dw_fail(plan->report, DW_USAGE, ERANGE, "that size is out of range");
	r = set_view_size(plan, size);
	if (r < 0)
		return r;
	if (plan->table.type != PTABLE_NONE)
		return size == old && !plan->table.backup_misplaced ? 0 : resize_table(plan);
	r = target_find(plan, 0, &t);
	if (r == 0 && is_bare(&t))
		return resize_table(plan);
	if (r == 0)
		r = preflight_ext(plan, &t, true, false);
	if (r == 0)
		r = preflight_size(plan, &t);
	job.new_length = size;
	return r < 0 ? r : rehearse_grown(plan, &t, &job);
}

/* A cut must not take what a filesystem holds behind its partition's end. */
static int refuse_oversized(struct dw_plan *plan)
{
	int r = 0;

	for (size_t i = 0; i < plan->table.count && r == 0; i++) {
		struct target t;

		r = target_find(plan, plan->table.partitions[i].number, &t);
		if (r == 0 && t.is_ext)
			r = preflight_size(plan, &t);
	}
	return r;
}

static int shrink_disk(struct dw_plan *plan)
{
	uint64_t size, old = plan->disk.dev->size, last = layout_last_end(&plan->table), least;
	char text[DW_SIZE_TEXT];
	int r = whole_in_use(plan);

	if (r < 0)
		return r;
	if (plan->table.type == PTABLE_NONE)
		return shrink_partition(plan);
	least = last + (plan->table.type == PTABLE_GPT ? (uint64_t)SECTORS_OF_GPT_BACKUP * plan->table.sector_size : 0);
	least = layout_align_up(least, plan->request->align ? plan->request->align : plan->table.sector_size);
	if (plan->request->size.kind == DW_SIZE_MIN) {
		size = least < old ? least : old;
	} else {
		r = new_length(plan, old, old, &size);
		if (r < 0)
			return r;
		size = layout_align_up(size, plan->table.sector_size);
	}
	if (size > old)
		return dw_fail(plan->report, DW_USAGE, EINVAL, "the image is shorter than that already; `grow` makes it longer");
	if (size < least) {
		dw_fail(plan->report, DW_REFUSED, ENOSPC,
			"the image cannot be shorter than %s (%llu bytes): its last partition ends at byte %llu",
			dw_size_format(least, text), (unsigned long long)least, (unsigned long long)last);
		dw_hint(plan->report, "`shrink` the last partition first");
		return -ENOSPC;
	}
	if (size == old)
		return 0;
	r = refuse_oversized(plan);
	if (r == 0)
		r = set_view_size(plan, size);
	return r < 0 ? r : resize_table(plan);
}

/* ---- remove and journal ----------------------------------------------- */

static int remove_partition(struct dw_plan *plan)
{
	struct ptable_edit edit = { PTABLE_REMOVE, plan->request->partition, 0, 0 };
	struct target t;
	char size[DW_SIZE_TEXT];
	int r = plan->request->partition ? target_find(plan, plan->request->partition, &t)
					 : dw_fail(plan->report, DW_USAGE, EINVAL,
						   "remove needs a partition, as in %s:6", plan->disk.path);

	if (r == 0)
		r = ptable_edit(plan->view, &plan->table, &edit, 1, plan->report);
	if (r == 0)
		r = plan_line(plan, "Delete partition %d (%s, %s); its content stays until it is overwritten.",
			      t.number, absorbed_content(&t), dw_size_format(t.length, size));
	return r;
}

static int change_journal(struct dw_plan *plan)
{
	static const struct {
		enum fs_journal job;
		const char *line;
	} how[] = {
		[DW_JOURNAL_ON] = { FS_JOURNAL_ON, "Make a journal." },
		[DW_JOURNAL_OFF] = { FS_JOURNAL_OFF, "Take the journal away." },
		[DW_JOURNAL_REBUILD] = { FS_JOURNAL_REBUILD, "Take the journal away and make it anew." },
	};
	const struct dw_request *q = plan->request;
	struct fs_job job = { .journal = how[q->journal].job, .journal_size = q->journal_size };
	struct target t;
	int r = target_find(plan, q->partition, &t);

	if (r == 0)
		r = preflight_ext(plan, &t, false, false);
	if (r == 0)
		r = preflight_size(plan, &t);
	if (r < 0)
		return r;
	if (q->journal_size && (q->journal_size % (1 << 20) || q->journal == DW_JOURNAL_OFF))
		return dw_fail(plan->report, DW_USAGE, EINVAL, "the journal's size is a whole number of MiB, with `on` or `rebuild`");
	if ((q->journal == DW_JOURNAL_OFF && !t.ext.has_journal) ||
	    (q->journal == DW_JOURNAL_ON && t.ext.has_journal && !q->journal_size))
		return 0;
	if (q->journal == DW_JOURNAL_ON && t.ext.has_journal) {
		dw_fail(plan->report, DW_REFUSED, EEXIST, "%s has a journal already", t.name);
		dw_hint(plan->report, "`journal %s rebuild --size SIZE` makes one of another size", t.name);
		return -EEXIST;
	}
	job.name = t.name;
	job.start = t.start;
	job.old_length = job.new_length = t.length;
	r = plan_guard(plan, t.start, t.length);
	if (r == 0)
		r = rehearse_fs(plan, &job, &t.ext);
	if (r == 0)
		r = plan_line(plan, "Check the %s filesystem of %s%s.", t.ext.type, t.name,
			      t.ext.needs_recovery ? " (its journal is replayed)" : "");
	return r < 0 ? r : plan_line(plan, "%s", how[q->journal].line);
}

int operation_rehearse(struct dw_plan *plan)
{
	static int (*const on_disk[])(struct dw_plan *) = {
		[DW_MERGE] = merge, [DW_GROW] = grow_disk, [DW_SHRINK] = shrink_disk,
		[DW_REMOVE] = remove_partition, [DW_JOURNAL] = change_journal,
	};
	static int (*const on_partition[])(struct dw_plan *) = {
		[DW_MERGE] = merge, [DW_GROW] = grow_partition, [DW_SHRINK] = shrink_partition,
		[DW_REMOVE] = remove_partition, [DW_JOURNAL] = change_journal,
	};
	const struct dw_request *q = plan->request;
	char defect[DW_PTABLE_DEFECT];
	int r = ptable_read(plan->view, q->sector_size, &plan->table, defect, plan->report);

	if (r == 0)
		r = refuse_defect(plan, defect);
	if (r == 0 && q->partition && plan->table.type == PTABLE_NONE) {
		r = dw_fail(plan->report, DW_USAGE, ENOENT, "there is no partition table");
		dw_hint(plan->report, "the image itself is addressed as %s", plan->disk.path);
	}
	if (r == 0 && !q->partition && plan->table.type != PTABLE_NONE && q->operation == DW_JOURNAL)
		r = dw_fail(plan->report, DW_USAGE, EINVAL, "name the partition, as in %s:1", plan->disk.path);
	if (r == 0)
		r = (q->partition ? on_partition : on_disk)[q->operation](plan);
	return r;
}
