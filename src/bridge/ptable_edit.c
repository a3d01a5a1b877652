/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Changing tables.  The edits are first applied to the table as read, which
 * shows whether the result would be sound; then libparted carries them out on
 * a skeleton: a sparse memory file that holds only the table's own sectors.
 * What libparted must leave alone is put back, the result is read and compared
 * with what was planned, and only then does it reach the view.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bridge/ptable_internal.h"
#include "bridge/ptable_parted.h"

struct editor {
	struct device *view;
	int fd;                /* the skeleton */
	struct device *device; /* the same */
	struct ptable before, planned, after;
	struct dw_report *report;
};

/* ---- the plan ---------------------------------------------------------- */

static struct partition *planned_find(struct editor *ed, int number)
{
	return (struct partition *)ptable_find(&ed->planned, number);
}

static struct partition *planned_extended(struct editor *ed)
{
	for (size_t i = 0; i < ed->planned.count; i++)
		if (ed->planned.partitions[i].extended)
			return &ed->planned.partitions[i];
	return NULL;
}

/* The extended partition's own sector stays the chain's first EBR. */
static void drop_ebr(struct editor *ed, uint64_t ebr)
{
	const struct partition *extended = planned_extended(ed);
	struct ptable *t = &ed->planned;
	size_t kept = 0;

	for (size_t i = 0; i < t->area_count; i++)
		if (t->areas[i].offset != ebr || (extended && extended->start == ebr))
			t->areas[kept++] = t->areas[i];
	t->area_count = kept;
}

static int plan_resize(struct editor *ed, const struct ptable_edit *e, struct partition *p)
{
	uint32_t unit = ed->planned.sector_size;

	if (e->start % unit || e->length % unit || e->length == 0)
		return dw_fail(ed->report, DW_USAGE, EINVAL, "the new place of partition %d is not in whole sectors",
			       e->number);
	if (e->start > ed->planned.size || e->length > INT64_MAX - e->start)
		return dw_fail(ed->report, DW_USAGE, ERANGE, "the new place of partition %d is out of range", e->number);
	if (p->mbr_type && (e->start / unit > UINT32_MAX || e->length / unit > UINT32_MAX))
		return dw_fail(ed->report, DW_REFUSED, ERANGE,
			       "an MBR cannot describe the new place of partition %d (%llu sectors from sector %llu)",
			       e->number, (unsigned long long)(e->length / unit), (unsigned long long)(e->start / unit));
	if (p->logical && p->start != e->start)
		drop_ebr(ed, p->ebr);
	p->start = e->start;
	p->length = e->length;
	return 0;
}

static int plan_edit(struct editor *ed, const struct ptable_edit *edits, size_t index)
{
	const struct ptable_edit *e = &edits[index];
	struct partition *p = planned_find(ed, e->number);
	size_t above;

	for (size_t i = 0; i < index; i++)
		if (edits[i].number == e->number)
			return dw_fail(ed->report, DW_USAGE, EINVAL, "partition %d is to be changed twice", e->number);
	if (!p)
		return dw_fail(ed->report, DW_USAGE, ENOENT, "there is no partition %d", e->number);
	if (e->what == PTABLE_RESIZE)
		return plan_resize(ed, e, p);
	if (p->logical)
		drop_ebr(ed, p->ebr);
	above = ed->planned.partitions + ed->planned.count - (p + 1);
	memmove(p, p + 1, above * sizeof(*p));
	ed->planned.count--;
	return 0;
}

/* An extended partition follows a logical one that grows past its end. */
static void plan_extended(struct editor *ed, const struct ptable_edit *edits, size_t count)
{
	struct partition *extended = planned_extended(ed);

	for (size_t i = 0; i < count && extended; i++) {
		const struct partition *p = planned_find(ed, edits[i].number);

		if (edits[i].number == extended->number)
			return;
		if (p && p->logical && partition_end(p) > partition_end(extended))
			extended->length = partition_end(p) - extended->start;
	}
}

static bool holds_logicals(const struct ptable *t)
{
	bool logical = false, extended = false;

	for (size_t i = 0; i < t->count; i++) {
		logical |= t->partitions[i].logical;
		extended |= t->partitions[i].extended;
	}
	return logical && !extended;
}

static int copy_table(const struct ptable *from, struct ptable *to)
{
	int r = 0;

	*to = *from;
	to->partitions = NULL;
	to->areas = NULL;
	to->count = to->area_count = 0;
	for (size_t i = 0; i < from->count && r == 0; i++)
		r = ptable_add_partition(to, &from->partitions[i]);
	for (size_t i = 0; i < from->area_count && r == 0; i++)
		r = ptable_add_area(to, from->areas[i].offset, from->areas[i].length, from->areas[i].backup);
	return r;
}

/* What the table will be, on a disk of the view's size; refuses what is not sound. */
static int plan_table(struct editor *ed, const struct ptable_edit *edits, size_t count)
{
	struct ptable *t = &ed->planned;
	char defect[DW_PTABLE_DEFECT] = "";
	int r = copy_table(&ed->before, t);

	if (r == 0 && t->type == PTABLE_GPT && (t->size != ed->view->size || t->backup_misplaced))
		t->end_usable = gpt_end_usable(ed->device, t->sector_size, ed->view->size);
	t->size = ed->view->size;
	for (size_t i = 0; i < count && r == 0; i++)
		r = plan_edit(ed, edits, i);
	if (r < 0)
		return r;
	plan_extended(ed, edits, count);
	ptable_sort(t);
	if (holds_logicals(t))
		return dw_fail(ed->report, DW_REFUSED, ENOTEMPTY, "the extended partition still holds logical ones");
	ptable_judge(t, defect);
	if (t->end_usable <= t->first_usable)
		ptable_defect(defect, "the disk is too small for its table");
	return defect[0] ? dw_fail(ed->report, DW_REFUSED, EINVAL, "the edited table would not be sound: %s", defect)
			 : 0;
}

/* ---- the skeleton ------------------------------------------------------ */

static int copy_area(struct editor *ed, uint64_t offset, uint64_t length)
{
	uint8_t *buffer = malloc(length);
	int r = buffer ? device_read(ed->view, buffer, length, offset) : -ENOMEM;

	/* libparted must not take boot code for something else, and needs none. */
	if (r == 0 && offset == 0) {
		memset(buffer, 0, MBR_DISK_ID);
		memset(buffer + MBR_SIZE, 0, length - MBR_SIZE);
	}
	if (r == 0)
		r = device_write(ed->device, buffer, length, offset);
	free(buffer);
	return r;
}

/*
 * As large as the disk that TABLE was read from, or the view where that is
 * larger.  Of a view that is shorter the backup's old place cannot be read.
 */
static int skeleton_make(struct editor *ed, const struct ptable *table)
{
	uint64_t size = table->size > ed->view->size ? table->size : ed->view->size;
	int r = 0;

	ed->fd = memfd_create("table", MFD_CLOEXEC);
	if (ed->fd < 0 || ftruncate(ed->fd, size) < 0)
		return -errno;
	r = device_open_fd(ed->fd, false, &ed->device);
	for (size_t i = 0; i < table->area_count && r == 0; i++) {
		const struct ptable_area *a = &table->areas[i];

		if (a->offset <= ed->view->size && a->length <= ed->view->size - a->offset)
			r = copy_area(ed, a->offset, a->length);
	}
	return r;
}

static int skeleton_read(struct editor *ed, struct ptable *table, const char *what)
{
	char defect[DW_PTABLE_DEFECT];
	uint32_t unit = ed->before.sector_size;
	int r = ptable_read(ed->device, unit, table, defect, ed->report);

	return r == 0 && defect[0] ? dw_fail(ed->report, DW_REFUSED, EINVAL, "%s: %s", what, defect) : r;
}

static int skeleton_resize(struct editor *ed, uint64_t size)
{
	device_close(ed->device);
	ed->device = NULL;
	if (ftruncate(ed->fd, size) < 0)
		return -errno;
	return device_open_fd(ed->fd, false, &ed->device);
}

/*
 * Partitions behind a new, nearer end must have gone before libparted accepts
 * the disk at that size: two steps.
 */
static int skeleton_edit(struct editor *ed)
{
	uint64_t size = ed->device->size;
	bool gpt = ed->before.type == PTABLE_GPT;
	int r = gpt ? gpt_fit(ed->device, ed->before.sector_size) : 0;

	if (r == 0)
		r = parted_rewrite(ed->fd, size, &ed->before, &ed->planned, ed->report);
	if (r < 0 || size == ed->view->size)
		return r;
	r = skeleton_resize(ed, ed->view->size);
	if (r == 0 && gpt)
		r = gpt_fit(ed->device, ed->before.sector_size);
	if (r == 0 && gpt)
		r = parted_rewrite(ed->fd, ed->view->size, &ed->planned, &ed->planned, ed->report);
	return r;
}

static int restore_chain(struct editor *ed)
{
	struct ptable now;
	int r = skeleton_read(ed, &now, "the edited table would not be sound");

	if (r == 0)
		r = mbr_restore_chain(ed->view, ed->device, &ed->planned, &now);
	ptable_free(&now);
	return r;
}

/* What libparted had to leave alone; everything in sector 0 but changed entries. */
static int skeleton_restore(struct editor *ed)
{
	uint32_t unit = ed->before.sector_size;
	uint8_t was[4096], is[4096];
	int r = device_read(ed->view, was, unit, 0);

	if (r == 0)
		r = device_read(ed->device, is, unit, 0);
	if (r == 0) {
		mbr_restore(was, is);
		memcpy(is + MBR_SIZE, was + MBR_SIZE, unit - MBR_SIZE);
		r = device_write(ed->device, is, unit, 0);
	}
	if (r == 0 && ed->before.type == PTABLE_GPT)
		r = gpt_restore(ed->view, ed->device, unit, ed->report);
	else if (r == 0)
		r = restore_chain(ed);
	return r;
}

/* ---- comparing --------------------------------------------------------- */

static bool same_identity(const struct partition *a, const struct partition *b)
{
	return a->logical == b->logical && a->boot == b->boot && a->mbr_type == b->mbr_type &&
	       a->attributes == b->attributes && strcmp(a->type_guid, b->type_guid) == 0 &&
	       strcmp(a->guid, b->guid) == 0 && strcmp(a->name, b->name) == 0;
}

static int differs(struct editor *ed, const char *what, int number)
{
	return dw_fail(ed->report, DW_FAILED, EINVAL,
		       "libparted's table differs from what was asked for (%s of partition %d); nothing is changed",
		       what, number);
}

/* Both are sorted: the same partitions are at the same index. */
static int compare(struct editor *ed)
{
	const struct ptable *planned = &ed->planned, *after = &ed->after;

	if (after->count != planned->count || strcmp(after->id, planned->id) != 0 || after->backup_damaged ||
	    after->backup_misplaced || (after->type == PTABLE_GPT && after->first_usable != planned->first_usable))
		return dw_fail(ed->report, DW_FAILED, EINVAL,
			       "libparted's table differs from what was asked for; nothing is changed");
	for (size_t i = 0; i < planned->count; i++) {
		const struct partition *p = &planned->partitions[i], *q = &after->partitions[i];

		if (q->start != p->start || q->length != p->length || q->extended != p->extended)
			return differs(ed, "the place", p->number);
		if (!same_identity(p, q))
			return differs(ed, "the type or name", p->number);
		if (!p->logical && q->number != p->number)
			return differs(ed, "the number", p->number);
	}
	return 0;
}

static void note_numbers(struct editor *ed)
{
	for (size_t i = 0; i < ed->planned.count; i++) {
		int was = ed->planned.partitions[i].number, is = ed->after.partitions[i].number;

		if (is != was)
			dw_note(ed->report, "Partition %d becomes partition %d: whatever names it by number (fstab, boot loader) has to follow.",
				was, is);
	}
}

/* ---- back to the view -------------------------------------------------- */

static int write_back(struct editor *ed)
{
	uint32_t unit = ed->after.sector_size;
	uint8_t was[4096], is[4096];
	int r = 0;

	for (size_t i = 0; i < ed->after.area_count && r == 0; i++) {
		const struct ptable_area *a = &ed->after.areas[i];

		for (uint64_t done = 0; done < a->length && r == 0; done += unit) {
			r = device_read(ed->view, was, unit, a->offset + done);
			if (r == 0)
				r = device_read(ed->device, is, unit, a->offset + done);
			if (r == 0 && memcmp(was, is, unit) != 0)
				r = device_write(ed->view, is, unit, a->offset + done);
		}
	}
	return r;
}

/* ---- entry ------------------------------------------------------------- */

static int refuse_table(const struct ptable *table, struct dw_report *report)
{
	if (table->type == PTABLE_NONE)
		return dw_fail(report, DW_REFUSED, EINVAL, "there is no partition table");
	if (table->hybrid) {
		dw_fail(report, DW_REFUSED, ENOTSUP, "the GPT has a hybrid MBR beside it, which would be lost");
		dw_hint(report, "gdisk can change such a table and keep or remove the hybrid MBR");
		return -ENOTSUP;
	}
	return 0;
}

static int edit(struct editor *ed, const struct ptable *table, const struct ptable_edit *edits, size_t count)
{
	int r = skeleton_make(ed, table);

	ed->before.sector_size = table->sector_size;
	if (r == 0)
		r = skeleton_read(ed, &ed->before, "the partition table is damaged and is left as it is");
	if (r == 0)
		r = refuse_table(&ed->before, ed->report);
	if (r == 0)
		r = plan_table(ed, edits, count);
	if (r == 0)
		r = skeleton_edit(ed);
	if (r == 0)
		r = skeleton_restore(ed);
	if (r == 0)
		r = skeleton_read(ed, &ed->after, "the edited table would not be sound");
	if (r == 0)
		r = compare(ed);
	if (r == 0)
		r = write_back(ed);
	if (r == 0)
		note_numbers(ed);
	return r;
}

int ptable_edit(struct device *view, const struct ptable *table, const struct ptable_edit *edits,
		size_t count, struct dw_report *report)
{
	struct editor ed = { .view = view, .fd = -1, .report = report };
	int r = refuse_table(table, report);

	if (r < 0 || (table->type == PTABLE_MBR && count == 0))
		return r;
	r = edit(&ed, table, edits, count);
	ptable_free(&ed.before);
	ptable_free(&ed.planned);
	ptable_free(&ed.after);
	device_close(ed.device);
	if (ed.fd >= 0)
		close(ed.fd);
	return r < 0 ? dw_fail(report, DW_FAILED, -r, "cannot change the partition table: %s", strerror(-r)) : 0;
}
