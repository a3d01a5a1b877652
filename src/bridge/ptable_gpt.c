/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The GPT: a header (u32 size at 12, CRC-32 of itself with that field zero at
 * 16, own LBA at 24, the other copy's at 32, first and last usable LBA at 40
 * and 48, disk GUID at 56, LBA, count, size and CRC-32 of the entries at 72,
 * 80, 84, 88) at LBA 1, a second one with entries of its own at the disk's
 * end.  Entry: type GUID, GUID, first and last LBA at 32 and 40, attributes at
 * 48, name in UTF-16 at 56.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/ptable_internal.h"
#include "core/bytes.h"
#include "core/zero.h"

#define HEADER_MIN 92
#define ENTRY_MIN 128
#define ENTRIES_MAX (4 * 1024 * 1024)
#define SECTOR_MAX 4096
#define NAME_UNITS 36

struct gpt {
	uint64_t lba, alternate, first, last, entries_lba;
	uint32_t count, entry_size;
	uint8_t header[SECTOR_MAX]; /* one sector; its own CRC zeroed */
	uint8_t *entries;           /* owned */
};

static uint32_t crc32_of(const uint8_t *p, size_t length)
{
	static const uint32_t nibble[16] = {
		0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
		0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
	};
	uint32_t crc = UINT32_MAX;

	for (; length > 0; length--, p++) {
		crc = crc >> 4 ^ nibble[(crc ^ *p) & 15];
		crc = crc >> 4 ^ nibble[(crc ^ *p >> 4) & 15];
	}
	return ~crc;
}

/* ---- one copy ---------------------------------------------------------- */

static size_t entries_bytes(const struct gpt *g)
{
	return (size_t)g->count * g->entry_size;
}

static uint64_t entries_sectors(const struct gpt *g, uint32_t unit)
{
	return (entries_bytes(g) + unit - 1) / unit;
}

static int header_load(struct device *disk, uint32_t unit, uint64_t lba, struct gpt *g)
{
	uint64_t sectors = disk->size / unit;
	uint8_t *h = g->header;
	uint32_t size, crc;
	int r;

	memset(g, 0, sizeof(*g));
	if (lba == 0 || lba >= sectors)
		return -EBADMSG;
	r = device_read(disk, h, unit, lba * unit);
	if (r < 0)
		return r;
	size = get32(h + 12);
	crc = get32(h + 16);
	put32(h + 16, 0);
	if (memcmp(h, "EFI PART", 8) != 0 || size < HEADER_MIN || size > unit || crc32_of(h, size) != crc)
		return -EBADMSG;
	g->lba = get64(h + 24);
	g->alternate = get64(h + 32);
	g->first = get64(h + 40);
	g->last = get64(h + 48);
	g->entries_lba = get64(h + 72);
	g->count = get32(h + 80);
	g->entry_size = get32(h + 84);
	if (g->lba != lba || g->entry_size < ENTRY_MIN || g->entry_size > SECTOR_MAX || g->entry_size % 8 ||
	    g->count == 0 || g->count > ENTRIES_MAX / g->entry_size || g->first > g->last ||
	    g->last > (uint64_t)INT64_MAX / unit - 1 || g->entries_lba >= sectors ||
	    entries_sectors(g, unit) > sectors - g->entries_lba)
		return -EBADMSG;
	return 0;
}

/* A header and its entries: 0 when both are sound, else -EBADMSG. */
static int gpt_load(struct device *disk, uint32_t unit, uint64_t lba, struct gpt *g)
{
	int r = header_load(disk, unit, lba, g);

	if (r < 0)
		return r;
	g->entries = malloc(entries_bytes(g));
	if (!g->entries)
		return -ENOMEM;
	r = device_read(disk, g->entries, entries_bytes(g), g->entries_lba * unit);
	if (r == 0 && crc32_of(g->entries, entries_bytes(g)) != get32(g->header + 88))
		r = -EBADMSG;
	if (r < 0) {
		free(g->entries);
		g->entries = NULL;
	}
	return r;
}

static int gpt_store(struct device *disk, uint32_t unit, struct gpt *g)
{
	int r;

	put32(g->header + 88, crc32_of(g->entries, entries_bytes(g)));
	put32(g->header + 16, 0);
	put32(g->header + 16, crc32_of(g->header, get32(g->header + 12)));
	r = device_write(disk, g->entries, entries_bytes(g), g->entries_lba * unit);
	return r < 0 ? r : device_write(disk, g->header, unit, g->lba * unit);
}

bool gpt_header_is_valid(struct device *disk, uint32_t unit, uint64_t lba)
{
	struct gpt g;

	return header_load(disk, unit, lba, &g) == 0;
}

bool gpt_header_is_there(struct device *disk, uint32_t unit, uint64_t lba)
{
	char magic[8];

	return lba < disk->size / unit && device_read(disk, magic, sizeof(magic), lba * unit) == 0 &&
	       memcmp(magic, "EFI PART", 8) == 0;
}

/* ---- both copies ------------------------------------------------------- */

struct pair {
	struct gpt primary, backup;
	bool has_primary, has_backup;
	const struct gpt *good; /* the one that systems use; NULL: neither is sound */
};

static void pair_free(struct pair *pair)
{
	free(pair->primary.entries);
	free(pair->backup.entries);
}

/* A copy that cannot be read is as good as a damaged one. */
static int pair_load(struct device *disk, uint32_t unit, struct pair *pair)
{
	uint64_t last = disk->size / unit - 1;
	int first = gpt_load(disk, unit, 1, &pair->primary), second;

	second = gpt_load(disk, unit, first == 0 ? pair->primary.alternate : last, &pair->backup);
	pair->has_primary = first == 0;
	pair->has_backup = second == 0;
	pair->good = first == 0 ? &pair->primary : second == 0 ? &pair->backup : NULL;
	if (first != -ENOMEM && second != -ENOMEM)
		return 0;
	pair_free(pair);
	return -ENOMEM;
}

static bool pair_is_twin(const struct pair *pair)
{
	const struct gpt *a = &pair->primary, *b = &pair->backup;

	return pair->has_primary && pair->has_backup && a->count == b->count && a->entry_size == b->entry_size &&
	       memcmp(a->header + 40, b->header + 40, 32) == 0 &&
	       memcmp(a->entries, b->entries, entries_bytes(a)) == 0;
}

/* Where the primary's entries are, or belong. */
static uint64_t primary_entries(const struct pair *pair)
{
	return pair->has_primary ? pair->primary.entries_lba : 2;
}

/* ---- reading ----------------------------------------------------------- */

static void guid_text(const uint8_t *g, char out[37])
{
	sprintf(out, "%08x-%04x-%04x-%02x%02x-%02x%02x%02x%02x%02x%02x", get32(g), get16(g + 4), get16(g + 6),
		g[8], g[9], g[10], g[11], g[12], g[13], g[14], g[15]);
}

static char *utf8_put(char *out, uint32_t c)
{
	static const uint8_t lead[] = { 0x00, 0xc0, 0xe0, 0xf0 };
	int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;

	*out++ = lead[more] | c >> 6 * more;
	while (more-- > 0)
		*out++ = 0x80 | (c >> 6 * more & 0x3f);
	return out;
}

/* What is no character becomes U+FFFD.  36 units make at most 108 bytes. */
static void name_text(const uint8_t *name, char *out)
{
	for (int i = 0; i < NAME_UNITS; i++) {
		uint32_t c = get16(name + 2 * i), low = i + 1 < NAME_UNITS ? get16(name + 2 * i + 2) : 0;

		if (c == 0)
			break;
		if (c >= 0xd800 && c < 0xdc00 && low >= 0xdc00 && low < 0xe000) {
			c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
			i++;
		} else if (c >= 0xd800 && c < 0xe000) {
			c = 0xfffd;
		}
		out = utf8_put(out, c);
	}
	*out = '\0';
}

static int read_entries(struct ptable_reader *rd, const struct gpt *g)
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
			ptable_defect(rd->defect, "partition %u has no sensible place: sectors %llu to %llu", i + 1,
				      (unsigned long long)first, (unsigned long long)last);
			continue;
		}
		p.start = first * unit;
		p.length = (last - first + 1) * unit;
		guid_text(e, p.type_guid);
		guid_text(e + 16, p.guid);
		p.attributes = get64(e + 48);
		p.boot = p.attributes & 4;
		name_text(e + 56, p.name);
		r = ptable_add_partition(rd->table, &p);
	}
	return r;
}

static int add_copy(struct ptable *t, uint64_t lba, uint64_t entries_lba, uint64_t sectors, bool backup)
{
	int r = ptable_add_area(t, lba * t->sector_size, t->sector_size, backup);

	return r < 0 ? r : ptable_add_area(t, entries_lba * t->sector_size, sectors * t->sector_size, backup);
}

/* Where the copies are, and where a missing one belongs: it will be written. */
static int add_areas(struct ptable *t, const struct pair *pair)
{
	uint64_t last = t->size / t->sector_size - 1, sectors = entries_sectors(pair->good, t->sector_size);
	int r = add_copy(t, 1, primary_entries(pair), sectors, false);

	if (r == 0 && pair->has_backup)
		r = add_copy(t, pair->backup.lba, pair->backup.entries_lba, sectors, true);
	if (r == 0 && (!pair->has_backup || pair->backup.lba != last) && last > sectors + 2)
		r = add_copy(t, last, last - sectors, sectors, true);
	return r;
}

static uint64_t usable_end(const struct gpt *g, uint32_t unit, uint64_t size)
{
	uint64_t last = size / unit - 1, sectors = entries_sectors(g, unit);

	return last > sectors ? (last - sectors) * unit : 0;
}

int gpt_read(struct ptable_reader *rd)
{
	struct ptable *t = rd->table;
	uint32_t unit = t->sector_size;
	struct pair pair;
	uint64_t own;
	int r = ptable_add_area(t, 0, unit, false);

	t->type = PTABLE_GPT;
	if (r == 0)
		r = pair_load(rd->disk, unit, &pair);
	if (r < 0)
		return r;
	if (!pair.good) {
		ptable_defect(rd->defect, "there should be a GPT, but neither of its two copies is valid");
		return 0;
	}
	t->backup_damaged = !pair_is_twin(&pair);
	t->backup_misplaced = pair.has_primary && pair.primary.alternate != t->size / unit - 1;
	guid_text(pair.good->header + 56, t->id);
	t->first_usable = pair.good->first * unit;
	t->end_usable = usable_end(pair.good, unit, t->size);
	own = (pair.good->last + 1) * unit;
	if (!t->backup_misplaced && own < t->end_usable)
		t->end_usable = own;
	if (primary_entries(&pair) + entries_sectors(pair.good, unit) > pair.good->first)
		ptable_defect(rd->defect, "the GPT's entries reach into its usable sectors, which begin at sector %llu",
			      (unsigned long long)pair.good->first);
	r = read_entries(rd, pair.good);
	if (r == 0)
		r = add_areas(t, &pair);
	pair_free(&pair);
	return r;
}

/* ---- for edits --------------------------------------------------------- */

uint64_t gpt_end_usable(struct device *disk, uint32_t unit, uint64_t size)
{
	struct pair pair;
	uint64_t end = 0;

	if (pair_load(disk, unit, &pair) < 0)
		return 0;
	if (pair.good)
		end = usable_end(pair.good, unit, size);
	pair_free(&pair);
	return end;
}

static int store_at(struct device *disk, uint32_t unit, struct gpt *g, uint64_t lba, uint64_t alternate,
		    uint64_t entries_lba)
{
	g->lba = lba;
	g->entries_lba = entries_lba;
	put64(g->header + 24, lba);
	put64(g->header + 32, alternate);
	put64(g->header + 72, entries_lba);
	return gpt_store(disk, unit, g);
}

int gpt_fit(struct device *disk, uint32_t unit)
{
	uint64_t last = disk->size / unit - 1;
	struct pair pair;
	struct gpt g;
	int r = pair_load(disk, unit, &pair);

	if (r < 0)
		return r;
	if (!pair.good) {
		pair_free(&pair);
		return -EBADMSG;
	}
	g = *pair.good;
	if (pair.has_primary && g.alternate != last)
		put64(g.header + 48, usable_end(&g, unit, disk->size) / unit - 1);
	r = store_at(disk, unit, &g, 1, last, primary_entries(&pair));
	if (r == 0)
		r = store_at(disk, unit, &g, last, 1, last - entries_sectors(&g, unit));
	pair_free(&pair);
	return r;
}

static int refuse_shape(const struct gpt *was, const struct gpt *is, struct dw_report *report)
{
	if (was->count != is->count || was->entry_size != is->entry_size)
		return dw_fail(report, DW_REFUSED, ENOTSUP, "a GPT of %u entries of %u bytes cannot be changed here",
			       was->count, was->entry_size);
	if (was->lba == 1 && was->entries_lba != is->entries_lba)
		return dw_fail(report, DW_REFUSED, ENOTSUP,
			       "the GPT's entries are not at their usual place but at sector %llu; this cannot be kept",
			       (unsigned long long)was->entries_lba);
	return 0;
}

static void merge_entries(const struct gpt *was, struct gpt *is)
{
	for (uint32_t i = 0; i < was->count; i++) {
		const uint8_t *old = was->entries + (size_t)i * was->entry_size;
		uint8_t *now = is->entries + (size_t)i * was->entry_size, place[16];
		bool had = !is_zero(old, 16), has = !is_zero(now, 16);

		if (had != has)
			continue;
		memcpy(place, now + 32, sizeof(place));
		memcpy(now, old, was->entry_size);
		if (has)
			memcpy(now + 32, place, sizeof(place));
	}
}

int gpt_restore(struct device *was, struct device *is, uint32_t unit, struct dw_report *report)
{
	struct pair old, new;
	int r = pair_load(was, unit, &old);

	if (r < 0)
		return r;
	r = pair_load(is, unit, &new);
	if (r < 0) {
		pair_free(&old);
		return r;
	}
	if (!old.good || !pair_is_twin(&new))
		r = dw_fail(report, DW_FAILED, EINVAL, "the edited GPT is not valid; nothing is changed");
	if (r == 0)
		r = refuse_shape(old.good, &new.primary, report);
	if (r == 0) {
		merge_entries(old.good, &new.primary);
		memcpy(new.backup.entries, new.primary.entries, entries_bytes(&new.primary));
		r = gpt_store(is, unit, &new.primary);
	}
	if (r == 0)
		r = gpt_store(is, unit, &new.backup);
	pair_free(&old);
	pair_free(&new);
	return r;
}
