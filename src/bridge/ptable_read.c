/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Reading tables, damaged ones included: libparted refuses those, and who
 * looks at a disk or plans a change must be told what is wrong.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/ptable_internal.h"

#define SECTORS_MIN 4

void ptable_free(struct ptable *table)
{
	free(table->partitions);
	free(table->areas);
	table->partitions = NULL;
	table->areas = NULL;
	table->count = table->area_count = 0;
}

const struct partition *ptable_find(const struct ptable *table, int number)
{
	for (size_t i = 0; i < table->count; i++)
		if (table->partitions[i].number == number)
			return &table->partitions[i];
	return NULL;
}

void ptable_defect(char *defect, const char *fmt, ...)
{
	va_list args;

	if (defect[0])
		return;
	va_start(args, fmt);
	vsnprintf(defect, DW_PTABLE_DEFECT, fmt, args);
	va_end(args);
}

int ptable_add_partition(struct ptable *t, const struct partition *p)
{
	/* Full whenever the count is a power of two: then it is doubled. */
	if ((t->count & (t->count - 1)) == 0) {
		struct partition *list = reallocarray(t->partitions, t->count ? 2 * t->count : 1, sizeof(*list));

		if (!list)
			return -ENOMEM;
		t->partitions = list;
	}
	t->partitions[t->count++] = *p;
	return 0;
}

int ptable_add_area(struct ptable *t, uint64_t offset, uint64_t length, bool backup)
{
	struct ptable_area *list;

	for (size_t i = 0; i < t->area_count; i++)
		if (t->areas[i].offset == offset && t->areas[i].length == length)
			return 0;
	list = reallocarray(t->areas, t->area_count + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	t->areas = list;
	list[t->area_count++] = (struct ptable_area){ offset, length, backup };
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct partition *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->extended != y->extended ? y->extended - x->extended : x->number - y->number;
}

void ptable_sort(struct ptable *t)
{
	if (t->count)
		qsort(t->partitions, t->count, sizeof(*t->partitions), by_start);
}

/* ---- judging ----------------------------------------------------------- */

static unsigned long long sector_of(const struct ptable *t, uint64_t offset)
{
	return offset / t->sector_size;
}

static unsigned long long first_of(const struct ptable *t, const struct partition *p)
{
	return sector_of(t, p->start);
}

static unsigned long long last_of(const struct ptable *t, const struct partition *p)
{
	return sector_of(t, partition_end(p)) - 1;
}

/* Among partitions of one level; LAST is the one that reaches furthest so far. */
static void judge_overlaps(const struct ptable *t, bool logical, char *defect)
{
	const struct partition *last = NULL;

	for (size_t i = 0; i < t->count; i++) {
		const struct partition *p = &t->partitions[i];

		if (p->logical != logical)
			continue;
		if (last && p->start < partition_end(last))
			ptable_defect(defect, "partitions %d (sectors %llu to %llu) and %d (sectors %llu to %llu) overlap",
				      last->number, first_of(t, last), last_of(t, last), p->number,
				      first_of(t, p), last_of(t, p));
		if (!last || partition_end(p) > partition_end(last))
			last = p;
	}
}

static void judge_place(const struct ptable *t, const struct partition *p, char *defect)
{
	if (partition_end(p) > t->size)
		ptable_defect(defect, "partition %d ends at sector %llu, beyond the disk's %llu sectors: %llu bytes are missing",
			      p->number, last_of(t, p), sector_of(t, t->size),
			      (unsigned long long)(partition_end(p) - t->size));
	if (p->start == 0)
		ptable_defect(defect, "partition %d starts at sector 0, over the table", p->number);
	if (t->type == PTABLE_GPT && (p->start < t->first_usable || partition_end(p) > t->end_usable))
		ptable_defect(defect, "partition %d (sectors %llu to %llu) reaches into the GPT: usable are sectors %llu to %llu",
			      p->number, first_of(t, p), last_of(t, p), sector_of(t, t->first_usable),
			      sector_of(t, t->end_usable) - 1);
}

static void judge_logical(const struct ptable *t, const struct partition *extended, const struct partition *p,
			  char *defect)
{
	if (p->start < extended->start || partition_end(p) > partition_end(extended))
		ptable_defect(defect, "logical partition %d (sectors %llu to %llu) is not inside the extended partition %d (sectors %llu to %llu)",
			      p->number, first_of(t, p), last_of(t, p), extended->number, first_of(t, extended),
			      last_of(t, extended));
	for (size_t i = 0; i < t->area_count; i++)
		if (t->areas[i].offset >= p->start && t->areas[i].offset < partition_end(p))
			ptable_defect(defect, "the EBR at sector %llu lies inside partition %d (sectors %llu to %llu)",
				      sector_of(t, t->areas[i].offset), p->number, first_of(t, p), last_of(t, p));
}

void ptable_judge(const struct ptable *t, char *defect)
{
	const struct partition *extended = NULL;

	for (size_t i = 0; i < t->count && !extended; i++)
		if (t->partitions[i].extended)
			extended = &t->partitions[i];
	judge_overlaps(t, false, defect);
	judge_overlaps(t, true, defect);
	for (size_t i = 0; i < t->count; i++) {
		const struct partition *p = &t->partitions[i];

		judge_place(t, p, defect);
		if (p->logical && !extended)
			ptable_defect(defect, "logical partition %d has no extended partition", p->number);
		else if (p->logical)
			judge_logical(t, extended, p, defect);
	}
}

/* ---- entry ------------------------------------------------------------- */

/* In the order of trust: a sound header, a sound backup, a damaged header. */
static uint32_t gpt_sector_size(struct device *disk)
{
	static const uint32_t units[] = { 512, 4096 };

	for (int i = 0; i < 2; i++)
		if (gpt_header_is_valid(disk, units[i], 1))
			return units[i];
	for (int i = 0; i < 2; i++)
		if (disk->size >= units[i] && gpt_header_is_valid(disk, units[i], disk->size / units[i] - 1))
			return units[i];
	for (int i = 0; i < 2; i++)
		if (gpt_header_is_there(disk, units[i], 1))
			return units[i];
	return 0;
}

static void set_usable(struct ptable *t)
{
	uint64_t most = ((uint64_t)UINT32_MAX + 1) * t->sector_size;

	if (t->type == PTABLE_GPT)
		return;
	t->first_usable = 1024 * 1024;
	if (t->count && t->partitions[0].start < t->first_usable)
		t->first_usable = t->partitions[0].start;
	t->end_usable = t->type == PTABLE_MBR && t->size > most ? most : t->size;
}

/*
 * A GPT counts when the MBR protects it or says nothing; Linux goes by the
 * MBR's own partitions otherwise.
 */
static int read_kind(struct ptable_reader *rd)
{
	struct ptable *t = rd->table;
	uint8_t sector[MBR_SIZE];
	struct mbr_kind mbr;
	bool header;
	int r;

	if (t->size / t->sector_size < SECTORS_MIN)
		return 0;
	r = device_read(rd->disk, sector, sizeof(sector), 0);
	if (r < 0)
		return r;
	mbr_classify(sector, &mbr);
	header = gpt_header_is_there(rd->disk, t->sector_size, 1);
	if (mbr.protective || (header && !mbr.other)) {
		t->hybrid = mbr.other;
		if (!mbr.protective)
			ptable_defect(rd->defect, "there is a GPT, but no protective MBR before it");
		return gpt_read(rd);
	}
	if (!mbr.table)
		return 0;
	if (header) {
		ptable_defect(rd->defect, "there is a GPT behind an MBR that has partitions of its own and does not protect it");
		r = ptable_add_area(t, t->sector_size, t->sector_size, false);
	}
	return r < 0 ? r : mbr_read(rd, sector);
}

static int read_table(struct device *disk, uint32_t sector_size, struct ptable *table, char *defect)
{
	struct ptable_reader rd = { disk, table, defect };
	int r;

	memset(table, 0, sizeof(*table));
	defect[0] = '\0';
	table->sector_size = sector_size;
	table->size = disk->size;
	r = read_kind(&rd);
	if (r < 0) {
		ptable_free(table);
		return r;
	}
	ptable_sort(table);
	set_usable(table);
	ptable_judge(table, defect);
	return 0;
}

/*
 * An MBR does not tell its sector size.  Where sectors of 512 bytes show no
 * sound chain of logical partitions and 4096 bytes do, it is the latter.
 */
static int try_large_sectors(struct device *disk, struct ptable *table, char *defect)
{
	char other_defect[DW_PTABLE_DEFECT];
	struct ptable other;
	int r = read_table(disk, 4096, &other, other_defect);

	if (r == 0 && other.type == PTABLE_MBR && !other_defect[0] && other.count > table->count) {
		ptable_free(table);
		*table = other;
		defect[0] = '\0';
	} else if (r == 0) {
		ptable_free(&other);
	}
	return r;
}

int ptable_read(struct device *disk, uint32_t sector_size, struct ptable *table, char *defect,
		struct dw_report *report)
{
	char text[DW_PTABLE_DEFECT];
	uint32_t unit = sector_size ? sector_size : gpt_sector_size(disk);
	int r;

	memset(table, 0, sizeof(*table));
	if (unit && unit != 512 && unit != 4096)
		return dw_fail(report, DW_USAGE, EINVAL, "sectors of %u bytes are not supported", unit);
	r = read_table(disk, unit ? unit : 512, table, text);
	if (r == 0 && !sector_size && table->type == PTABLE_MBR && (text[0] || !ptable_find(table, 5))) {
		r = try_large_sectors(disk, table, text);
		if (r < 0)
			ptable_free(table);
	}
	if (r < 0)
		return dw_fail(report, DW_FAILED, -r, "cannot read the partition table: %s", strerror(-r));
	if (defect)
		memcpy(defect, text, sizeof(text));
	return 0;
}
