/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Changing tables, with libparted, on a skeleton: a sparse memory file of the
 * disk's size that holds only the table's own sectors.  What libparted must
 * leave alone is put back and compared before anything reaches the view.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <parted/parted.h>

#include "bridge/ptable.h"

#define MBR_BOOT_CODE 446 /* boot code and disk id */
#define COPY 65536

/* ---- libparted's questions --------------------------------------------- */

/*
 * libparted has one handler for the whole process and passes it no context,
 * so what it said has to be kept here.
 */
static _Thread_local char parted_said[512];

static PedExceptionOption on_exception(PedException *e)
{
	snprintf(parted_said, sizeof(parted_said), "%s", e->message);
	if (e->options & PED_EXCEPTION_FIX)
		return PED_EXCEPTION_FIX; /* a GPT's backup that is not at the end */
	if (e->options & PED_EXCEPTION_OK)
		return PED_EXCEPTION_OK;  /* the other copy of a GPT is used */
	if (e->options & PED_EXCEPTION_IGNORE)
		return PED_EXCEPTION_IGNORE;
	return PED_EXCEPTION_CANCEL;
}

static int parted_fails(struct dw_report *report)
{
	return dw_fail(report, DW_REFUSED, EINVAL, "the partition table cannot be changed so: %s",
		       parted_said[0] ? parted_said : "libparted gives no reason");
}

/* ---- skeleton ---------------------------------------------------------- */

static int copy_range(struct device *view, int fd, uint64_t offset, uint64_t length)
{
	uint8_t *buffer = malloc(length);
	int r = buffer ? device_read(view, buffer, length, offset) : -ENOMEM;

	if (r == 0 && pwrite(fd, buffer, length, offset) != (ssize_t)length)
		r = -EIO;
	free(buffer);
	return r;
}

static int skeleton_make(struct device *view, const struct ptable *table)
{
	int fd = memfd_create("table", MFD_CLOEXEC), r = 0;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, view->size) < 0)
		r = -errno;
	for (size_t i = 0; i < table->area_count && r == 0; i++) {
		const struct ptable_area *a = &table->areas[i];

		/* A backup may have stood behind the end of a disk that was cut. */
		if (a->offset <= view->size && a->length <= view->size - a->offset)
			r = copy_range(view, fd, a->offset, a->length);
	}
	if (r < 0)
		close(fd);
	return r < 0 ? r : fd;
}

/* ---- the edits --------------------------------------------------------- */

struct editor {
	PedDevice *dev;
	PedDisk *disk;
	const struct ptable *table;
	struct dw_report *report;
};

static int open_skeleton(struct editor *ed, int fd, uint64_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ed->dev = ped_device_get(path);
	if (!ed->dev)
		return parted_fails(ed->report);
	/* For a file libparted takes the sector size from the environment. */
	ed->dev->sector_size = ed->dev->phys_sector_size = ed->table->sector_size;
	ed->dev->length = size / ed->table->sector_size;
	ed->disk = ped_disk_new(ed->dev);
	return ed->disk ? 0 : parted_fails(ed->report);
}

static int set_geometry(struct editor *ed, PedPartition *part, uint64_t start, uint64_t length)
{
	PedSector unit = ed->table->sector_size, first = start / unit, count = length / unit;
	PedGeometry *geometry = ped_geometry_new(ed->dev, first, count);
	PedConstraint *exact = geometry ? ped_constraint_exact(geometry) : NULL;
	int ok = exact && ped_disk_set_partition_geom(ed->disk, part, exact, first, first + count - 1) &&
		 part->geom.start == first && part->geom.length == count;

	if (exact)
		ped_constraint_destroy(exact);
	if (geometry)
		ped_geometry_destroy(geometry);
	return ok ? 0 : parted_fails(ed->report);
}

/* The extended partition follows a logical one that grows past its end. */
static int extend_extended(struct editor *ed, uint64_t end)
{
	PedPartition *ext = ped_disk_extended_partition(ed->disk);
	PedSector last = end / ed->table->sector_size - 1;

	if (!ext || ext->geom.end >= last)
		return 0;
	return set_geometry(ed, ext, (uint64_t)ext->geom.start * ed->table->sector_size,
			    (uint64_t)(last - ext->geom.start + 1) * ed->table->sector_size);
}

static int refuse_edit(struct editor *ed, const struct ptable_edit *e)
{
	const struct partition *p = ptable_find(ed->table, e->number);

	if (!p)
		return dw_fail(ed->report, DW_USAGE, ENOENT, "there is no partition %d", e->number);
	if (p->extended && e->what == PTABLE_REMOVE)
		for (size_t i = 0; i < ed->table->count; i++)
			if (ed->table->partitions[i].logical)
				return dw_fail(ed->report, DW_REFUSED, ENOTEMPTY,
					       "the extended partition %d still holds logical ones", e->number);
	if (e->what == PTABLE_RESIZE &&
	    (e->start % ed->table->sector_size || e->length % ed->table->sector_size || e->length == 0))
		return dw_fail(ed->report, DW_USAGE, EINVAL, "the new place of partition %d is not in whole sectors",
			       e->number);
	return 0;
}

/* By number as it was before any edit: found first, used later. */
static int apply_edits(struct editor *ed, const struct ptable_edit *edits, size_t count)
{
	PedPartition **parts = calloc(count + 1, sizeof(*parts));
	int r = parts ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && r == 0; i++) {
		r = refuse_edit(ed, &edits[i]);
		parts[i] = r < 0 ? NULL : ped_disk_get_partition(ed->disk, edits[i].number);
		if (r == 0 && !parts[i])
			r = dw_fail(ed->report, DW_FAILED, EINVAL, "libparted does not see partition %d",
				    edits[i].number);
	}
	for (size_t i = 0; i < count && r == 0; i++)
		if (edits[i].what == PTABLE_REMOVE && !ped_disk_delete_partition(ed->disk, parts[i]))
			r = parted_fails(ed->report);
	for (size_t i = 0; i < count && r == 0; i++) {
		if (edits[i].what != PTABLE_RESIZE)
			continue;
		if (parts[i]->type & PED_PARTITION_LOGICAL)
			r = extend_extended(ed, edits[i].start + edits[i].length);
		if (r == 0)
			r = set_geometry(ed, parts[i], edits[i].start, edits[i].length);
	}
	free(parts);
	return r;
}

static int run_parted(int fd, uint64_t size, const struct ptable *table, const struct ptable_edit *edits,
		      size_t count, struct dw_report *report)
{
	struct editor ed = { .table = table, .report = report };
	PedExceptionHandler *before = ped_exception_get_handler();
	int r;

	parted_said[0] = '\0';
	ped_exception_set_handler(on_exception);
	r = open_skeleton(&ed, fd, size);
	if (r == 0)
		r = apply_edits(&ed, edits, count);
	if (r == 0 && !ped_disk_commit_to_dev(ed.disk))
		r = parted_fails(report);
	if (ed.disk)
		ped_disk_destroy(ed.disk);
	if (ed.dev)
		ped_device_destroy(ed.dev);
	ped_exception_set_handler(before);
	return r;
}

/* ---- comparing --------------------------------------------------------- */

static const struct ptable_edit *edit_of(const struct ptable_edit *edits, size_t count, int number)
{
	for (size_t i = 0; i < count; i++)
		if (edits[i].number == number)
			return &edits[i];
	return NULL;
}

static bool same_identity(const struct partition *a, const struct partition *b)
{
	return a->logical == b->logical && a->extended == b->extended && a->boot == b->boot &&
	       a->mbr_type == b->mbr_type && a->attributes == b->attributes &&
	       strcmp(a->type_guid, b->type_guid) == 0 && strcmp(a->guid, b->guid) == 0 &&
	       strcmp(a->name, b->name) == 0;
}

static const struct partition *find_start(const struct ptable *t, uint64_t start, bool extended)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->partitions[i].start == start && t->partitions[i].extended == extended)
			return &t->partitions[i];
	return NULL;
}

static int changed(struct dw_report *report, const char *what, int number)
{
	return dw_fail(report, DW_FAILED, EINVAL,
		       "the edited table differs from what was asked for (%s of partition %d); nothing is changed",
		       what, number);
}

/* Every partition is there as before, or as edited; nothing else is. */
static int compare_tables(const struct ptable *before, const struct ptable *after,
			  const struct ptable_edit *edits, size_t count, struct dw_report *report)
{
	size_t removed = 0;

	for (size_t i = 0; i < before->count; i++) {
		const struct partition *p = &before->partitions[i], *q;
		const struct ptable_edit *e = edit_of(edits, count, p->number);
		uint64_t start = e ? e->start : p->start, length = e ? e->length : p->length;

		if (e && e->what == PTABLE_REMOVE) {
			removed++;
			continue;
		}
		q = find_start(after, start, p->extended);
		if (!q)
			return changed(report, "the place", p->number);
		if (q->length != length && !(p->extended && !e && q->length > length))
			return changed(report, "the length", p->number);
		if (!same_identity(p, q))
			return changed(report, "the identity", p->number);
		if (!p->logical && q->number != p->number)
			return changed(report, "the number", p->number);
		if (q->number != p->number)
			dw_note(report, "Partition %d becomes partition %d: whatever names it by number (fstab, boot loader) has to follow.",
				p->number, q->number);
	}
	if (after->count != before->count - removed)
		return changed(report, "the number of partitions, instead", 0);
	if (strcmp(before->id, after->id) != 0)
		return dw_fail(report, DW_FAILED, EINVAL, "the edited table has another disk id; nothing is changed");
	return 0;
}

/* Boot code and disk id are not libparted's business. */
static int keep_boot_code(struct device *view, int fd)
{
	uint8_t code[MBR_BOOT_CODE];
	int r = device_read(view, code, sizeof(code), 0);

	return r < 0 ? r : pwrite(fd, code, sizeof(code), 0) == sizeof(code) ? 0 : -EIO;
}

static int check_skeleton(int fd, const struct ptable *before, const struct ptable_edit *edits,
			  size_t count, struct dw_report *report)
{
	char defect[DW_PTABLE_DEFECT];
	struct ptable after;
	struct device *dev;
	int r = device_open_fd(fd, true, &dev);

	if (r < 0)
		return r;
	r = ptable_read(dev, before->sector_size, &after, defect, report);
	if (r == 0 && defect[0])
		r = dw_fail(report, DW_REFUSED, EINVAL, "the edited table would be damaged: %s", defect);
	if (r == 0)
		r = compare_tables(before, &after, edits, count, report);
	if (r == 0 && (after.backup_damaged || after.backup_misplaced))
		r = dw_fail(report, DW_FAILED, EINVAL, "the edited GPT's backup is not right; nothing is changed");
	ptable_free(&after);
	device_close(dev);
	return r;
}

/* ---- back to the view -------------------------------------------------- */

struct merge_back {
	struct device *view;
	int before, after;
	uint32_t unit;
};

/* A skeleton knows only the table's sectors: so does what is written back. */
static int merge_extent(void *opaque, uint64_t offset, uint64_t length, enum device_extent_kind kind)
{
	struct merge_back *m = opaque;
	uint8_t was[COPY], is[COPY];
	int r = 0;

	if (kind == DEVICE_ZERO)
		return 0;
	for (uint64_t done = 0, n; done < length && r == 0; done += n) {
		n = length - done < COPY ? length - done : COPY;
		if (pread(m->before, was, n, offset + done) != (ssize_t)n ||
		    pread(m->after, is, n, offset + done) != (ssize_t)n)
			return -EIO;
		for (uint64_t i = 0; i + m->unit <= n && r == 0; i += m->unit)
			if (memcmp(was + i, is + i, m->unit) != 0)
				r = device_write(m->view, is + i, m->unit, offset + done + i);
	}
	return r;
}

static int write_back(struct device *view, int before, int after, uint32_t unit)
{
	struct merge_back m = { view, before, after, unit };
	struct device *dev;
	int r = device_open_fd(after, true, &dev);

	if (r < 0)
		return r;
	r = device_extents(dev, 0, dev->size, merge_extent, &m);
	device_close(dev);
	return r;
}

/* ---- entry ------------------------------------------------------------- */

int ptable_edit(struct device *view, const struct ptable *table, const struct ptable_edit *edits,
		size_t count, struct dw_report *report)
{
	int before = -1, after = -1, r = 0;

	if (table->type == PTABLE_NONE)
		return dw_fail(report, DW_REFUSED, EINVAL, "there is no partition table");
	if (table->type == PTABLE_MBR && count == 0)
		return 0;
	if (table->hybrid) {
		dw_fail(report, DW_REFUSED, ENOTSUP, "the GPT has a hybrid MBR beside it, which would be lost");
		dw_hint(report, "gdisk can change such a table and keep or remove the hybrid MBR");
		return -ENOTSUP;
	}
	before = skeleton_make(view, table);
	after = before < 0 ? before : skeleton_make(view, table);
	if (after < 0)
		r = after;
	if (r == 0)
		r = run_parted(after, view->size, table, edits, count, report);
	if (r == 0)
		r = keep_boot_code(view, after);
	if (r == 0)
		r = check_skeleton(after, table, edits, count, report);
	if (r == 0)
		r = write_back(view, before, after, table->sector_size);
	if (before >= 0)
		close(before);
	if (after >= 0)
		close(after);
	return r < 0 ? dw_fail(report, DW_FAILED, -r, "cannot change the partition table: %s", strerror(-r)) : 0;
}
