/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The MBR and its chain of logical partitions.  Four entries at byte 446, 16
 * bytes each: flag, CHS (3), type, CHS (3), u32 start, u32 length; 55 AA at
 * 510.  In an EBR entry 0 is the logical partition, relative to that EBR, and
 * entry 1 the link to the next EBR, relative to the extended partition.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/ptable_internal.h"
#include "core/bytes.h"
#include "core/zero.h"

#define ENTRY 16
#define LOGICAL_MAX 120 /* of EBRs; Linux's own limit is lower */

static const uint8_t *entry_at(const uint8_t *sector, int index)
{
	return sector + MBR_ENTRIES + ENTRY * index;
}

static bool entry_is_used(const uint8_t *e)
{
	return e[4] != 0 && get32(e + 12) != 0;
}

static void entry_decode(const uint8_t *e, uint32_t unit, uint64_t base, struct partition *p)
{
	memset(p, 0, sizeof(*p));
	p->boot = e[0] & 0x80;
	p->mbr_type = e[4];
	p->extended = e[4] == 0x05 || e[4] == 0x0f || e[4] == 0x85;
	p->start = base + (uint64_t)get32(e + 8) * unit;
	p->length = (uint64_t)get32(e + 12) * unit;
}

static bool has_signature(const uint8_t *sector)
{
	return sector[510] == 0x55 && sector[511] == 0xaa;
}

/* A chain, and where it has been. */
struct chain {
	const struct partition *extended;
	uint64_t seen[LOGICAL_MAX];
	int count;
};

/* May the chain go on at EBR? */
static bool chain_enter(struct ptable_reader *rd, struct chain *c, uint64_t ebr)
{
	unsigned long long at = ebr / rd->table->sector_size;

	for (int i = 0; i < c->count; i++)
		if (c->seen[i] == ebr) {
			ptable_defect(rd->defect, "the chain of logical partitions runs in a circle at sector %llu", at);
			return false;
		}
	if (c->count == LOGICAL_MAX) {
		ptable_defect(rd->defect, "the chain of logical partitions has more than %d links", LOGICAL_MAX);
		return false;
	}
	if (ebr < c->extended->start || ebr - c->extended->start >= c->extended->length ||
	    rd->disk->size < rd->table->sector_size || ebr > rd->disk->size - rd->table->sector_size) {
		ptable_defect(rd->defect, "the chain of logical partitions leaves the extended partition %d, or the disk, at sector %llu",
			      c->extended->number, at);
		return false;
	}
	c->seen[c->count++] = ebr;
	return true;
}

/* Only the two entries that an EBR is made of; some follow others even of length 0. */
static bool ebr_is_plain(const uint8_t *sector)
{
	const uint8_t *link = entry_at(sector, 1);
	struct partition p, next;

	entry_decode(entry_at(sector, 0), 1, 0, &p);
	entry_decode(link, 1, 0, &next);
	return !p.extended && (next.extended || !entry_is_used(link)) && !entry_at(sector, 2)[4] &&
	       !entry_at(sector, 3)[4];
}

static int read_chain(struct ptable_reader *rd, const struct partition *extended)
{
	uint32_t unit = rd->table->sector_size;
	struct chain c = { .extended = extended };
	uint64_t ebr = extended->start;
	uint8_t sector[MBR_SIZE];
	int number = 5, r = 0;

	while (r == 0 && chain_enter(rd, &c, ebr)) {
		struct partition p, link;

		r = device_read(rd->disk, sector, sizeof(sector), ebr);
		if (r == 0)
			r = ptable_add_area(rd->table, ebr, unit, false);
		if (r < 0)
			return r;
		/* An extended partition that never held anything may be blank. */
		if (!has_signature(sector)) {
			if (c.count > 1 || !is_zero(sector + MBR_ENTRIES, MBR_SIZE - MBR_ENTRIES))
				ptable_defect(rd->defect, "the EBR at sector %llu has no signature",
					      (unsigned long long)(ebr / unit));
			return 0;
		}
		if (!ebr_is_plain(sector))
			ptable_defect(rd->defect, "the EBR at sector %llu holds other entries than a partition and a link",
				      (unsigned long long)(ebr / unit));
		entry_decode(entry_at(sector, 0), unit, ebr, &p);
		entry_decode(entry_at(sector, 1), unit, extended->start, &link);
		p.number = number;
		p.logical = true;
		p.extended = false;
		p.ebr = ebr;
		if (entry_is_used(entry_at(sector, 0))) {
			r = ptable_add_partition(rd->table, &p);
			number++;
		}
		if (!link.extended)
			break;
		ebr = link.start;
	}
	return r;
}

int mbr_read(struct ptable_reader *rd, const uint8_t *sector)
{
	struct ptable *t = rd->table;
	int r = ptable_add_area(t, 0, t->sector_size, false);
	bool chained = false;

	t->type = PTABLE_MBR;
	snprintf(t->id, sizeof(t->id), "%08x", get32(sector + MBR_DISK_ID));
	for (int i = 0; i < 4 && r == 0; i++) {
		struct partition p;

		if (!entry_is_used(entry_at(sector, i)))
			continue;
		entry_decode(entry_at(sector, i), t->sector_size, 0, &p);
		p.number = i + 1;
		r = ptable_add_partition(t, &p);
		if (r < 0 || !p.extended)
			continue;
		if (chained)
			ptable_defect(rd->defect, "there is more than one extended partition");
		else
			r = read_chain(rd, &p);
		chained = true;
	}
	return r;
}

void mbr_classify(const uint8_t *s, struct mbr_kind *kind)
{
	bool used = false;

	memset(kind, 0, sizeof(*kind));
	if (!has_signature(s))
		return;
	for (int i = 0; i < 4; i++)
		if (entry_at(s, i)[0] & 0x7f)
			return;
	for (int i = 0; i < 4; i++) {
		const uint8_t *e = entry_at(s, i);

		used |= entry_is_used(e);
		kind->protective |= e[4] == 0xee;
		kind->other |= e[4] && e[4] != 0xee;
	}
	kind->table = used || (memcmp(s + 54, "FAT", 3) && memcmp(s + 82, "FAT", 3) && memcmp(s + 3, "NTFS", 4) &&
			       memcmp(s + 3, "EXFAT", 5));
}

void mbr_restore(const uint8_t *was, uint8_t *is)
{
	memcpy(is, was, MBR_ENTRIES);
	for (int i = 0; i < 4; i++) {
		const uint8_t *old = entry_at(was, i);
		uint8_t *now = is + (old - was);

		if (!entry_is_used(now)) {
			if (!entry_is_used(old))
				memcpy(now, old, ENTRY);
		} else if (memcmp(now + 8, old + 8, 8) == 0) {
			memcpy(now, old, ENTRY);
		} else if (entry_is_used(old)) {
			/* Moved or resized: CHS goes with the place. */
			now[0] = old[0];
			now[4] = old[4];
		}
	}
}

/* ---- the chain again ---------------------------------------------------- */

/* One logical partition and its EBR: where it was, and as libparted puts it. */
struct link {
	const struct partition *p; /* as planned; p->ebr is the old place */
	uint64_t ebr;              /* where its EBR will be */
	uint8_t sector[MBR_SIZE];
};

/* In the chain's order, which is that of the numbers. */
static size_t logicals(const struct ptable *t, const struct partition *list[LOGICAL_MAX])
{
	size_t n = 0, at;

	for (size_t i = 0; i < t->count && n < LOGICAL_MAX; i++) {
		if (!t->partitions[i].logical)
			continue;
		for (at = n++; at > 0 && list[at - 1]->number > t->partitions[i].number; at--)
			list[at] = list[at - 1];
		list[at] = &t->partitions[i];
	}
	return n;
}

/* May the EBR of P stay where it is?  The chain's head has one place. */
static bool ebr_can_stay(const struct ptable *t, const struct partition *p)
{
	bool inside = false;

	for (size_t i = 0; i < t->count; i++) {
		const struct partition *q = &t->partitions[i];
		bool covers = p->ebr >= q->start && p->ebr - q->start < q->length;

		if (q->extended && (!covers || p->ebr == q->start))
			return false;
		inside |= covers && !q->extended;
	}
	return !inside;
}

/* What the link holds for its own partition. */
static int link_load(struct device *was, struct device *is, uint32_t unit, struct link *l,
		     const struct partition *now)
{
	uint8_t made[MBR_SIZE], *e = (uint8_t *)entry_at(l->sector, 0);
	struct partition old;
	int r = device_read(is, made, sizeof(made), now->ebr);

	if (r == 0)
		r = device_read(was, l->sector, sizeof(l->sector), l->p->ebr);
	if (r < 0)
		return r;
	entry_decode(e, unit, l->p->ebr, &old);
	if (l->ebr == l->p->ebr && old.start == l->p->start && old.length == l->p->length)
		return 0;
	memcpy(e, entry_at(made, 0), ENTRY);
	e[0] = l->p->boot ? 0x80 : 0;
	e[4] = l->p->mbr_type;
	put32(e + 8, (l->p->start - l->ebr) / unit);
	return 0;
}

/* The link of L to NEXT (NULL: none); one that is right is left alone. */
static void link_set(struct link *l, const struct link *next, const struct partition *extended, uint32_t unit)
{
	uint8_t *e = (uint8_t *)entry_at(l->sector, 1);
	uint32_t start, length;

	if (!next) {
		memset(e, 0, ENTRY);
		return;
	}
	start = (next->ebr - extended->start) / unit;
	length = (partition_end(next->p) - next->ebr) / unit;
	if (entry_is_used(e) && get32(e + 8) == start && get32(e + 12) >= length)
		return;
	/* Places beyond the reach of CHS; the type is the usual one. */
	memcpy(e, "\0\xfe\xff\xff\5\xfe\xff\xff", 8);
	put32(e + 8, start);
	put32(e + 12, length);
}

int mbr_restore_chain(struct device *was, struct device *is, const struct ptable *planned,
		      const struct ptable *now)
{
	const struct partition *wanted[LOGICAL_MAX], *made[LOGICAL_MAX], *extended = NULL;
	size_t count = logicals(planned, wanted);
	uint32_t unit = planned->sector_size;
	struct link *links;
	int r = 0;

	if (count == 0 || logicals(now, made) != count)
		return 0;
	for (size_t i = 0; i < planned->count; i++)
		if (planned->partitions[i].extended)
			extended = &planned->partitions[i];
	links = calloc(count, sizeof(*links));
	if (!links)
		return -ENOMEM;
	for (size_t i = 0; i < count && r == 0; i++) {
		links[i].p = wanted[i];
		links[i].ebr = i > 0 && ebr_can_stay(planned, wanted[i]) ? wanted[i]->ebr : made[i]->ebr;
		r = link_load(was, is, unit, &links[i], made[i]);
	}
	for (size_t i = 0; i < count && r == 0; i++) {
		link_set(&links[i], i + 1 < count ? &links[i + 1] : NULL, extended, unit);
		r = device_write(is, links[i].sector, MBR_SIZE, links[i].ebr);
	}
	free(links);
	return r;
}
