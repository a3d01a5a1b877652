/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Reading tables, damaged ones included: libparted refuses those, and show()
 * and the planner must say what is wrong.  Layout facts: MBR entries at 446
 * (16 bytes: flag, CHS, type, CHS, u32 start, u32 length); an EBR's entry 0 is
 * relative to that EBR, entry 1 (the link) relative to the extended
 * partition; GPT header at LBA 1 (CRC-32 over itself with the field zero),
 * its alternate at the LBA it names.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/ptable.h"
#include "core/bytes.h"
#include "core/zero.h"

#define MBR_ENTRIES 446
#define LOGICAL_MAX 120
#define GPT_HEADER_MIN 92
#define GPT_ENTRIES_MAX (4 * 1024 * 1024)

struct reader {
	struct device *disk;
	struct ptable *table;
	char *defect;
};

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

static void defect(struct reader *rd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void defect(struct reader *rd, const char *fmt, ...)
{
	va_list args;

	if (!rd->defect || rd->defect[0])
		return;
	va_start(args, fmt);
	vsnprintf(rd->defect, DW_PTABLE_DEFECT, fmt, args);
	va_end(args);
}

static int add_partition(struct reader *rd, const struct partition *p)
{
	struct ptable *t = rd->table;
	struct partition *list = reallocarray(t->partitions, t->count + 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	t->partitions = list;
	list[t->count++] = *p;
	return 0;
}

static int add_area(struct reader *rd, uint64_t offset, uint64_t length, bool backup)
{
	struct ptable *t = rd->table;
	struct ptable_area *list = reallocarray(t->areas, t->area_count + 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	t->areas = list;
	list[t->area_count++] = (struct ptable_area){ offset, length, backup };
	return 0;
}

/* ---- MBR --------------------------------------------------------------- */

static bool is_extended(uint8_t type)
{
	return type == 0x05 || type == 0x0f || type == 0x85;
}

static void entry_decode(const uint8_t *sector, int index, uint32_t unit, uint64_t base,
			 struct partition *p)
{
	const uint8_t *e = sector + MBR_ENTRIES + 16 * index;

	memset(p, 0, sizeof(*p));
	p->boot = e[0] & 0x80;
	p->mbr_type = e[4];
	p->extended = is_extended(e[4]);
	p->start = base + (uint64_t)get32(e + 8) * unit;
	p->length = (uint64_t)get32(e + 12) * unit;
}

static int read_chain(struct reader *rd, const struct partition *ext)
{
	uint32_t unit = rd->table->sector_size;
	uint64_t ebr = ext->start, seen[LOGICAL_MAX];
	uint8_t sector[512];
	int number = 5, r = 0;

	for (int n = 0; r == 0; n++) {
		struct partition p, link;

		if (n == LOGICAL_MAX) {
			defect(rd, "the chain of logical partitions does not end");
			return 0;
		}
		for (int i = 0; i < n; i++)
			if (seen[i] == ebr) {
				defect(rd, "the chain of logical partitions runs in a circle at sector %llu",
				       (unsigned long long)(ebr / unit));
				return 0;
			}
		seen[n] = ebr;
		if (ebr < ext->start || ebr - ext->start >= ext->length || rd->disk->size < unit ||
		    ebr > rd->disk->size - unit) {
			defect(rd, "the chain of logical partitions leaves the extended partition at sector %llu",
			       (unsigned long long)(ebr / unit));
			return 0;
		}
		r = device_read(rd->disk, sector, sizeof(sector), ebr);
		if (r == 0)
			r = add_area(rd, ebr, unit, false);
		if (r < 0)
			return r;
		if (sector[510] != 0x55 || sector[511] != 0xaa) {
			if (n > 0 || !is_zero(sector + MBR_ENTRIES, 66))
				defect(rd, "the EBR at sector %llu has no signature",
				       (unsigned long long)(ebr / unit));
			return 0;
		}
		entry_decode(sector, 0, unit, ebr, &p);
		entry_decode(sector, 1, unit, ext->start, &link);
		if (p.mbr_type && p.length) {
			p.number = number++;
			p.logical = true;
			p.extended = false;
			p.ebr = ebr;
			r = add_partition(rd, &p);
		}
		if (!link.extended)
			return r;
		ebr = link.start;
	}
	return r;
}

static int read_mbr(struct reader *rd, const uint8_t *sector)
{
	struct ptable *t = rd->table;
	struct partition p;
	int r = add_area(rd, 0, t->sector_size, false);
	bool chained = false;

	t->type = PTABLE_MBR;
	snprintf(t->id, sizeof(t->id), "%08x", get32(sector + 440));
	for (int i = 0; i < 4 && r == 0; i++) {
		entry_decode(sector, i, t->sector_size, 0, &p);
		if (!p.mbr_type || !p.length)
			continue;
		p.number = i + 1;
		r = add_partition(rd, &p);
		if (r < 0 || !p.extended)
			continue;
		if (chained)
			defect(rd, "there is more than one extended partition");
		else
			r = read_chain(rd, &p);
		chained = true;
	}
	return r;
}

/* Does sector 0 hold a table, or the boot sector of a filesystem? */
static bool looks_like_mbr(const uint8_t *s)
{
	bool any = false;

	if (s[510] != 0x55 || s[511] != 0xaa)
		return false;
	for (int i = 0; i < 4; i++) {
		const uint8_t *e = s + MBR_ENTRIES + 16 * i;

		if (e[0] & 0x7f)
			return false;
		any |= e[4] && get32(e + 12);
	}
	return any || (memcmp(s + 54, "FAT", 3) && memcmp(s + 82, "FAT", 3) && memcmp(s + 3, "NTFS", 4) &&
		       memcmp(s + 3, "EXFAT", 5));
}

/* ---- GPT --------------------------------------------------------------- */

static uint32_t crc32_of(const uint8_t *p, size_t length, uint32_t crc)
{
	for (crc = ~crc; length > 0; length--, p++) {
		crc ^= *p;
		for (int i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

struct gpt {
	uint64_t lba, alternate, first, last, entries_lba;
	uint32_t count, entry_size;
	uint8_t guid[16];
	uint8_t *entries; /* owned */
};

/* A header and its entries, when both are sound. */
static int gpt_load(struct reader *rd, uint64_t lba, struct gpt *g)
{
	uint32_t unit = rd->table->sector_size, size, crc;
	uint64_t sectors = rd->disk->size / unit, bytes;
	uint8_t h[4096];
	int r;

	memset(g, 0, sizeof(*g));
	if (lba == 0 || lba >= sectors)
		return -EBADMSG;
	r = device_read(rd->disk, h, unit, lba * unit);
	if (r < 0)
		return r;
	size = get32(h + 12);
	if (memcmp(h, "EFI PART", 8) != 0 || size < GPT_HEADER_MIN || size > unit || get64(h + 24) != lba)
		return -EBADMSG;
	crc = get32(h + 16);
	put32(h + 16, 0);
	if (crc32_of(h, size, 0) != crc)
		return -EBADMSG;
	g->lba = lba;
	g->alternate = get64(h + 32);
	g->first = get64(h + 40);
	g->last = get64(h + 48);
	memcpy(g->guid, h + 56, 16);
	g->entries_lba = get64(h + 72);
	g->count = get32(h + 80);
	g->entry_size = get32(h + 84);
	if (g->entry_size < 128 || g->entry_size > unit || g->entry_size % 8 || g->count == 0 ||
	    g->count > GPT_ENTRIES_MAX / g->entry_size || g->first > g->last || g->last > UINT64_MAX / unit - 1)
		return -EBADMSG;
	bytes = (uint64_t)g->count * g->entry_size;
	if (g->entries_lba >= sectors || bytes > (sectors - g->entries_lba) * unit)
		return -EBADMSG;
	g->entries = malloc(bytes);
	if (!g->entries)
		return -ENOMEM;
	r = device_read(rd->disk, g->entries, bytes, g->entries_lba * unit);
	if (r == 0 && crc32_of(g->entries, bytes, 0) != get32(h + 88))
		r = -EBADMSG;
	if (r < 0) {
		free(g->entries);
		g->entries = NULL;
	}
	return r;
}

static void guid_text(const uint8_t *g, char out[37])
{
	sprintf(out, "%08x-%04x-%04x-%02x%02x-%02x%02x%02x%02x%02x%02x", get32(g), get16(g + 4), get16(g + 6),
		g[8], g[9], g[10], g[11], g[12], g[13], g[14], g[15]);
}

/* UTF-16LE to UTF-8; what is no character becomes U+FFFD. */
static void name_text(const uint8_t *name, char *out, size_t size)
{
	size_t used = 0;

	for (int i = 0; i < 36; i++) {
		uint32_t c = get16(name + 2 * i), low = i < 35 ? get16(name + 2 * i + 2) : 0;

		if (c == 0)
			break;
		if (c >= 0xd800 && c < 0xdc00 && low >= 0xdc00 && low < 0xe000) {
			c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
			i++;
		} else if (c >= 0xd800 && c < 0xe000) {
			c = 0xfffd;
		}
		if (used + 5 > size)
			break;
		if (c < 0x80) {
			out[used++] = c;
		} else if (c < 0x800) {
			out[used++] = 0xc0 | c >> 6;
			out[used++] = 0x80 | (c & 0x3f);
		} else if (c < 0x10000) {
			out[used++] = 0xe0 | c >> 12;
			out[used++] = 0x80 | (c >> 6 & 0x3f);
			out[used++] = 0x80 | (c & 0x3f);
		} else {
			out[used++] = 0xf0 | c >> 18;
			out[used++] = 0x80 | (c >> 12 & 0x3f);
			out[used++] = 0x80 | (c >> 6 & 0x3f);
			out[used++] = 0x80 | (c & 0x3f);
		}
	}
	out[used] = '\0';
}

static int gpt_partitions(struct reader *rd, const struct gpt *g)
{
	uint32_t unit = rd->table->sector_size;
	int r = 0;

	for (uint32_t i = 0; i < g->count && r == 0; i++) {
		const uint8_t *e = g->entries + (size_t)i * g->entry_size;
		uint64_t first = get64(e + 32), last = get64(e + 40);
		struct partition p = { .number = i + 1 };

		if (is_zero(e, 16))
			continue;
		if (first > last || last > (uint64_t)INT64_MAX / unit - 1) {
			defect(rd, "partition %u has no sensible place: sectors %llu to %llu", i + 1,
			       (unsigned long long)first, (unsigned long long)last);
			continue;
		}
		p.start = first * unit;
		p.length = (last - first + 1) * unit;
		guid_text(e, p.type_guid);
		guid_text(e + 16, p.guid);
		p.attributes = get64(e + 48);
		p.boot = p.attributes & 4;
		name_text(e + 56, p.name, sizeof(p.name));
		r = add_partition(rd, &p);
	}
	return r;
}

static uint64_t entries_bytes(const struct gpt *g, uint32_t unit)
{
	uint64_t bytes = (uint64_t)g->count * g->entry_size;

	return (bytes + unit - 1) / unit * unit;
}

static int gpt_areas(struct reader *rd, const struct gpt *g, bool backup)
{
	uint32_t unit = rd->table->sector_size;
	int r = add_area(rd, g->lba * unit, unit, backup);

	return r < 0 ? r : add_area(rd, g->entries_lba * unit, entries_bytes(g, unit), backup);
}

/* Where a copy belongs, whether or not one is there: it will be written. */
static int gpt_own_areas(struct reader *rd, const struct gpt *g)
{
	uint32_t unit = rd->table->sector_size;
	uint64_t last = rd->disk->size / unit - 1, size = entries_bytes(g, unit);
	struct gpt primary = { .lba = 1, .entries_lba = 2, .count = g->count, .entry_size = g->entry_size };
	struct gpt backup = { .lba = last, .entries_lba = last - size / unit, .count = g->count,
			      .entry_size = g->entry_size };
	int r = gpt_areas(rd, &primary, false);

	if (r == 0 && last > size / unit + 2)
		r = gpt_areas(rd, &backup, true);
	return r;
}

static int read_gpt(struct reader *rd)
{
	struct ptable *t = rd->table;
	uint32_t unit = t->sector_size;
	uint64_t last = rd->disk->size / unit - 1;
	struct gpt primary, backup = { 0 };
	const struct gpt *g = &primary;
	int r = add_area(rd, 0, unit, false), r1, r2;

	t->type = PTABLE_GPT;
	r1 = gpt_load(rd, 1, &primary);
	r2 = gpt_load(rd, r1 == 0 ? primary.alternate : last, &backup);
	if (r1 != 0 && r2 != 0) {
		defect(rd, "the disk says that it has a GPT, but neither of its two copies is valid");
		return r1 == -ENOMEM || r2 == -ENOMEM ? -ENOMEM : r;
	}
	if (r1 != 0)
		g = &backup;
	t->backup_damaged = r1 != 0 || r2 != 0;
	t->backup_misplaced = r1 == 0 && primary.alternate != last;
	guid_text(g->guid, t->id);
	t->first_usable = g->first * unit;
	t->end_usable = (g->last + 1) * unit;
	if (t->backup_misplaced && last > entries_bytes(g, unit) / unit + g->first)
		t->end_usable = (last - entries_bytes(g, unit) / unit) * unit;
	if (r == 0)
		r = gpt_partitions(rd, g);
	if (r == 0 && r1 == 0)
		r = gpt_areas(rd, &primary, false);
	if (r == 0 && r2 == 0)
		r = gpt_areas(rd, &backup, true);
	if (r == 0)
		r = gpt_own_areas(rd, g);
	free(primary.entries);
	free(backup.entries);
	return r;
}

/* ---- judging ----------------------------------------------------------- */

static uint64_t end_of(const struct partition *p)
{
	return p->start + p->length;
}

static bool overlap(const struct partition *a, const struct partition *b)
{
	return a->start < end_of(b) && b->start < end_of(a);
}

static void judge_pair(struct reader *rd, const struct partition *a, const struct partition *b)
{
	unsigned unit = rd->table->sector_size;
	bool inside = (a->extended && b->logical) || (b->extended && a->logical);

	if (a->extended && b->logical &&
	    (b->start < a->start || end_of(b) > end_of(a)))
		defect(rd, "logical partition %d (sectors %llu to %llu) is not inside the extended partition %d (%llu to %llu)",
		       b->number, (unsigned long long)(b->start / unit), (unsigned long long)(end_of(b) / unit - 1),
		       a->number, (unsigned long long)(a->start / unit), (unsigned long long)(end_of(a) / unit - 1));
	if (!inside && overlap(a, b))
		defect(rd, "partitions %d (sectors %llu to %llu) and %d (%llu to %llu) overlap", a->number,
		       (unsigned long long)(a->start / unit), (unsigned long long)(end_of(a) / unit - 1), b->number,
		       (unsigned long long)(b->start / unit), (unsigned long long)(end_of(b) / unit - 1));
	if (a->logical && !b->extended && a->ebr >= b->start && a->ebr < end_of(b))
		defect(rd, "the EBR of partition %d (sector %llu) lies inside partition %d", a->number,
		       (unsigned long long)(a->ebr / unit), b->number);
}

static void judge(struct reader *rd)
{
	struct ptable *t = rd->table;
	unsigned unit = t->sector_size;

	for (size_t i = 0; i < t->count; i++) {
		const struct partition *p = &t->partitions[i];

		if (end_of(p) > rd->disk->size)
			defect(rd, "partition %d ends at sector %llu, behind the end of the disk (%llu sectors): %llu bytes are missing",
			       p->number, (unsigned long long)(end_of(p) / unit),
			       (unsigned long long)(rd->disk->size / unit),
			       (unsigned long long)(end_of(p) - rd->disk->size));
		if (p->start == 0)
			defect(rd, "partition %d starts at sector 0, over the table", p->number);
		for (size_t k = 0; k < t->count; k++)
			if (k != i && (k > i || p->logical))
				judge_pair(rd, p, &t->partitions[k]);
		for (size_t k = 0; k < t->area_count; k++)
			if (t->type == PTABLE_GPT && !t->areas[k].backup && p->start < t->areas[k].offset + t->areas[k].length)
				defect(rd, "partition %d starts inside the partition table", p->number);
	}
}

static int by_start(const void *a, const void *b)
{
	const struct partition *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return y->extended - x->extended;
}

static void usable(struct ptable *t, uint64_t size)
{
	uint64_t most = ((uint64_t)UINT32_MAX + 1) * t->sector_size;

	if (t->type == PTABLE_GPT)
		return;
	t->first_usable = 1024 * 1024;
	if (t->count && t->partitions[0].start < t->first_usable)
		t->first_usable = t->partitions[0].start;
	t->end_usable = t->type == PTABLE_MBR && size > most ? most : size;
}

/* ---- entry ------------------------------------------------------------- */

static bool gpt_header_at(struct device *disk, uint64_t offset)
{
	char magic[8];

	return offset < disk->size && disk->size - offset >= sizeof(magic) &&
	       device_read(disk, magic, sizeof(magic), offset) == 0 && memcmp(magic, "EFI PART", 8) == 0;
}

static uint32_t find_sector_size(struct device *disk)
{
	static const uint32_t sizes[] = { 512, 4096 };

	for (int i = 0; i < 2; i++)
		if (gpt_header_at(disk, sizes[i]))
			return sizes[i];
	for (int i = 0; i < 2; i++)
		if (disk->size > 2 * sizes[i] && gpt_header_at(disk, disk->size / sizes[i] * sizes[i] - sizes[i]))
			return sizes[i];
	return 512;
}

int ptable_read(struct device *disk, uint32_t sector_size, struct ptable *table, char *defect_text,
		struct dw_report *report)
{
	struct reader rd = { disk, table, defect_text };
	uint8_t sector[512] = { 0 };
	bool protective = false, other = false, gpt, mbr;
	int r = 0;

	memset(table, 0, sizeof(*table));
	if (defect_text)
		defect_text[0] = '\0';
	table->sector_size = sector_size ? sector_size : find_sector_size(disk);
	if (disk->size >= 4 * table->sector_size)
		r = device_read(disk, sector, sizeof(sector), 0);
	mbr = r == 0 && looks_like_mbr(sector);
	for (int i = 0; mbr && i < 4; i++) {
		uint8_t type = sector[MBR_ENTRIES + 16 * i + 4];

		protective |= type == 0xee;
		other |= type && type != 0xee;
	}
	gpt = gpt_header_at(disk, table->sector_size) ||
	      (protective && disk->size >= 4 * table->sector_size);
	table->hybrid = gpt && protective && other;
	if (r == 0 && gpt && mbr && !protective && other)
		defect(&rd, "there is a GPT header, but the MBR holds partitions of its own and no protective entry");
	if (r == 0 && gpt && !mbr)
		defect(&rd, "there is a GPT header, but no protective MBR");
	if (r == 0 && (gpt || mbr))
		r = gpt ? read_gpt(&rd) : read_mbr(&rd, sector);
	if (table->count)
		qsort(table->partitions, table->count, sizeof(*table->partitions), by_start);
	usable(table, disk->size);
	if (r == 0)
		judge(&rd);
	if (r < 0) {
		ptable_free(table);
		return dw_fail(report, DW_FAILED, -r, "cannot read the partition table: %s", strerror(-r));
	}
	return 0;
}
