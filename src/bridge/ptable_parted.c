/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <parted/parted.h>

#include "bridge/ptable_parted.h"

struct rewrite {
	PedDevice *dev;
	PedDisk *disk;
	PedPartition **parts; /* of before->partitions, where something changes */
	const struct ptable *before, *after;
	struct dw_report *report;
};

/* ---- libparted's questions --------------------------------------------- */

/*
 * libparted has one handler for the whole process and passes it no context,
 * so what it said has to be kept here.
 */
static _Thread_local char parted_said[512];

static PedExceptionOption on_exception(PedException *e)
{
	static const PedExceptionOption answers[] = {
		PED_EXCEPTION_FIX,    /* a GPT's backup is not at the end of the disk */
		PED_EXCEPTION_OK,     /* one copy of a GPT is damaged: the other is used */
		PED_EXCEPTION_IGNORE,
		PED_EXCEPTION_CANCEL,
	};

	snprintf(parted_said, sizeof(parted_said), "%s", e->message);
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		if (e->options & answers[i])
			return answers[i];
	return PED_EXCEPTION_UNHANDLED;
}

static int parted_fails(struct dw_report *report)
{
	return dw_fail(report, DW_REFUSED, EINVAL, "the partition table cannot be changed so: %s",
		       parted_said[0] ? parted_said : "libparted gives no reason");
}

/* ---- its limits -------------------------------------------------------- */

/* In number order, which is the chain's. */
static const struct partition *first_logical(const struct ptable *table)
{
	const struct partition *first = NULL;

	for (size_t i = 0; i < table->count; i++)
		if (table->partitions[i].logical && (!first || table->partitions[i].number < first->number))
			first = &table->partitions[i];
	return first;
}

/* libparted 3.5 ends the whole process, or writes what it should not, here. */
static int refuse_chain(const struct ptable *table, struct dw_report *report)
{
	const struct partition *first = first_logical(table);
	uint64_t end = 0;

	for (size_t i = 0; i < table->count; i++) {
		const struct partition *p = &table->partitions[i];

		/* It puts the EBRs itself: the first one first, each other before its partition. */
		if (p->logical && p->start < end + (p == first ? 0 : table->sector_size))
			return dw_fail(report, DW_REFUSED, ENOTSUP,
				       "there is no free sector before partition %d for its EBR", p->number);
		if (p->logical)
			end = p->start + p->length;
		if (p->extended)
			end = p->start + table->sector_size;
		/* It writes 512 bytes of an empty EBR, and memory of its own behind them. */
		if (p->extended && !first && table->sector_size > 512)
			return dw_fail(report, DW_REFUSED, ENOTSUP,
				       "an empty extended partition (%d) with sectors of %u bytes is not supported",
				       p->number, table->sector_size);
	}
	return 0;
}

/* ---- changes ----------------------------------------------------------- */

static int open_table(struct rewrite *rw, int fd, uint64_t size)
{
	const char *label = rw->before->type == PTABLE_GPT ? "gpt" : "msdos";
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	rw->dev = ped_device_get(path);
	if (!rw->dev)
		return parted_fails(rw->report);
	/* For a file libparted takes the sector size from the environment. */
	rw->dev->sector_size = rw->dev->phys_sector_size = rw->before->sector_size;
	rw->dev->length = size / rw->before->sector_size;
	rw->disk = ped_disk_new(rw->dev);
	if (rw->disk && strcmp(rw->disk->type->name, label) != 0)
		return dw_fail(rw->report, DW_FAILED, EINVAL, "libparted takes the partition table for one of type %s",
			       rw->disk->type->name);
	return rw->disk ? 0 : parted_fails(rw->report);
}

static bool is_changed(const struct partition *p, const struct partition *now)
{
	return !now || now->start != p->start || now->length != p->length;
}

/* All are found before any is removed: libparted numbers logical ones anew. */
static int find_parts(struct rewrite *rw)
{
	PedSector unit = rw->before->sector_size;

	for (size_t i = 0; i < rw->before->count; i++) {
		const struct partition *p = &rw->before->partitions[i];
		PedPartition *part;

		if (!is_changed(p, ptable_find(rw->after, p->number)))
			continue;
		part = ped_disk_get_partition(rw->disk, p->number);
		if (!part || part->geom.start != (PedSector)(p->start / unit) ||
		    part->geom.length != (PedSector)(p->length / unit))
			return dw_fail(rw->report, DW_FAILED, EINVAL, "libparted does not see partition %d where it is",
				       p->number);
		rw->parts[i] = part;
	}
	return 0;
}

static int remove_parts(struct rewrite *rw, bool logical)
{
	for (size_t i = 0; i < rw->before->count; i++) {
		const struct partition *p = &rw->before->partitions[i];

		if (p->logical != logical || ptable_find(rw->after, p->number))
			continue;
		if (!ped_disk_delete_partition(rw->disk, rw->parts[i]))
			return parted_fails(rw->report);
		rw->parts[i] = NULL;
	}
	return 0;
}

static bool set_place(struct rewrite *rw, PedPartition *part, const struct partition *to)
{
	PedSector unit = rw->before->sector_size, first = to->start / unit, count = to->length / unit;
	PedGeometry *geometry = ped_geometry_new(rw->dev, first, count);
	PedConstraint *exact = geometry ? ped_constraint_exact(geometry) : NULL;
	bool ok = exact && ped_disk_set_partition_geom(rw->disk, part, exact, first, first + count - 1) &&
		  part->geom.start == first && part->geom.length == count;

	if (exact)
		ped_constraint_destroy(exact);
	if (geometry)
		ped_geometry_destroy(geometry);
	return ok;
}

/*
 * libparted checks after each change, and one partition may have to make room
 * before the next can take it: go round until nothing is left.
 */
static int place_parts(struct rewrite *rw)
{
	bool left, progress;

	do {
		left = progress = false;
		for (size_t i = 0; i < rw->before->count; i++) {
			if (!rw->parts[i])
				continue;
			if (set_place(rw, rw->parts[i], ptable_find(rw->after, rw->before->partitions[i].number))) {
				rw->parts[i] = NULL;
				progress = true;
			} else {
				left = true;
			}
		}
	} while (left && progress);
	return left ? parted_fails(rw->report) : 0;
}

static int change_table(struct rewrite *rw)
{
	int r = find_parts(rw);

	if (r == 0)
		r = remove_parts(rw, true);
	if (r == 0)
		r = remove_parts(rw, false);
	if (r == 0)
		r = place_parts(rw);
	if (r == 0 && !ped_disk_commit_to_dev(rw->disk))
		r = parted_fails(rw->report);
	return r;
}

int parted_rewrite(int fd, uint64_t size, const struct ptable *before, const struct ptable *after,
		   struct dw_report *report)
{
	struct rewrite rw = { .before = before, .after = after, .report = report };
	PedExceptionHandler *handler = ped_exception_get_handler();
	int r = refuse_chain(before, report);

	if (r == 0)
		r = refuse_chain(after, report);
	if (r < 0)
		return r;
	rw.parts = calloc(before->count + 1, sizeof(*rw.parts));
	if (!rw.parts)
		return -ENOMEM;
	parted_said[0] = '\0';
	ped_exception_set_handler(on_exception);
	r = open_table(&rw, fd, size);
	if (r == 0)
		r = change_table(&rw);
	if (rw.disk)
		ped_disk_destroy(rw.disk);
	if (rw.dev)
		ped_device_destroy(rw.dev);
	ped_exception_set_handler(handler);
	free(rw.parts);
	return r;
}
