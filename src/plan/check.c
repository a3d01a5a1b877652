/* SPDX-License-Identifier: GPL-3.0-or-later */
/* dw_check(): what would stop or endanger an operation, with its remedy. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/export.h"
#include "plan/plan.h"

#define ALIGNMENT (1024 * 1024)

struct check {
	struct disk disk;
	struct ptable table;
	int (*fn)(void *opaque, const struct dw_finding *finding);
	void *opaque;
	struct { char uuid[64]; int number; } seen[64];
	size_t seen_count;
};

static int find(struct check *c, bool error, int number, const char *remedy, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

static int find(struct check *c, bool error, int number, const char *remedy, const char *fmt, ...)
{
	char node[4200], text[1024];
	struct dw_finding finding = { error, node, text, remedy };
	va_list args;

	if (number)
		snprintf(node, sizeof(node), "%s:%d", c->disk.path, number);
	else
		snprintf(node, sizeof(node), "%s", c->disk.path);
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return c->fn(c->opaque, &finding);
}

/* Two filesystems with one UUID: a copy, or a move that was cut off. */
static int check_twin(struct check *c, int number, const char *uuid)
{
	if (!uuid[0])
		return 0;
	for (size_t i = 0; i < c->seen_count; i++)
		if (strcmp(c->seen[i].uuid, uuid) == 0)
			return find(c, true, number, "give one of them a new UUID, or finish the move that left it",
				    "has the same filesystem UUID %s as partition %d", uuid, c->seen[i].number);
	if (c->seen_count < sizeof(c->seen) / sizeof(c->seen[0])) {
		snprintf(c->seen[c->seen_count].uuid, sizeof(c->seen[0].uuid), "%s", uuid);
		c->seen[c->seen_count++].number = number;
	}
	return 0;
}

/* One row a remark about an ext filesystem. */
static int check_ext(struct check *c, int number, uint64_t length, const struct extfs *e)
{
	uint64_t size = e->blocks * e->block_size;
	const struct {
		bool applies, error;
		const char *text, *remedy;
	} rows[] = {
		{ e->guarded, true, "carries the guard of an unfinished operation",
		  "`diskwright resume` or `diskwright rollback`" },
		{ e->needs_recovery && !e->external_journal, false, "its journal needs recovery: it was not unmounted",
		  "every operation replays it first; `e2fsck -p` does the same" },
		{ e->needs_recovery && e->external_journal, true, "needs recovery from an external journal",
		  "mount it once, or run e2fsck -j with the journal's device" },
		{ e->external_journal, true, "keeps its journal on another device", "operations on it are refused" },
		{ e->has_errors, true, "is marked as having errors", "`e2fsck -f`, or `--repair` with an operation" },
		{ e->not_clean && !e->needs_recovery, false, "was not unmounted cleanly",
		  "every operation checks it first; `e2fsck -f -p` does the same" },
		{ e->orphan_present, false, "has orphaned files to clean up", "every operation checks it first" },
		{ e->mmp_in_use, true, "is in use, by its multiple mount protection",
		  "unmount it there; if no host uses it any more, `tune2fs -f -E clear_mmp`" },
		{ e->mmp && !e->mmp_in_use, false, "has multiple mount protection: another host may use it",
		  "make sure that none does" },
		{ e->bigalloc, false, "uses bigalloc: resize2fs does not resize it safely", "operations that resize it are refused" },
		{ e->stable_inodes, false, "has stable_inodes: it cannot shrink", "it can grow" },
		{ e->bad_blocks > 0, false, "has a bad-block list: the medium has had unreadable blocks",
		  "copy the data to another disk" },
	};
	int r = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && r == 0; i++)
		if (rows[i].applies)
			r = find(c, rows[i].error, number, rows[i].remedy, "%s", rows[i].text);
	if (r == 0 && e->unknown_features[0])
		r = find(c, true, number, "use a system with newer e2fsprogs",
			 "has features that this e2fsprogs does not know: %s", e->unknown_features);
	if (r == 0 && size > length)
		r = find(c, true, number, "`grow` extends the partition over it, if there is room",
			 "the filesystem (%llu blocks of %u, %llu bytes) is larger than what it is in (%llu bytes)",
			 (unsigned long long)e->blocks, e->block_size, (unsigned long long)size,
			 (unsigned long long)length);
	else if (r == 0 && length - size >= ALIGNMENT + e->block_size)
		r = find(c, false, number, "`grow` makes it fill its partition",
			 "the filesystem (%llu bytes) is smaller than what it is in (%llu bytes)",
			 (unsigned long long)size, (unsigned long long)length);
	return r;
}

static int check_content(struct check *c, int number, uint64_t start, uint64_t length)
{
	struct dw_report quiet = { 0 };
	struct device *window;
	struct probe probe;
	struct extfs ext;
	int r = device_open_window(c->disk.dev, start, length, &window);

	if (r < 0)
		return r;
	r = probe_device(window, &probe, NULL);
	if (r == 0 && probe.ambiguous)
		r = find(c, true, number, "`wipefs` lists them; the stale one has to go",
			 "carries signatures of several kinds at once");
	if (r == 0 && !probe.type[0] && probe.ext_backup)
		r = find(c, true, number, "`e2fsck -b BLOCK -B SIZE` restores it from the backup",
			 "has no primary superblock, but a backup of an ext superblock at byte %llu of it",
			 (unsigned long long)probe.ext_backup);
	if (r == 0)
		r = check_twin(c, number, probe.uuid);
	if (r == 0 && strncmp(probe.type, "ext", 3) == 0) {
		if (extfs_read(window, &ext, &quiet) < 0)
			r = find(c, true, number, "`e2fsck -b` may restore it from a backup", "%s", quiet.message);
		else
			r = check_ext(c, number, length, &ext);
	}
	device_close(window);
	return r;
}

static int check_partition(struct check *c, const struct partition *p)
{
	uint64_t size = c->disk.dev->size;
	int r = 0;

	if (p->start % ALIGNMENT && p->start % 4096)
		r = find(c, false, p->number, "it works, but slowly on disks with 4096-byte physical sectors",
			 "starts at byte %llu, which is not a multiple of 4096", (unsigned long long)p->start);
	if (r == 0 && !p->extended && p->start < size)
		r = check_content(c, p->number, p->start, p->length < size - p->start ? p->length : size - p->start);
	return r;
}

static int report_stray(void *opaque, uint64_t offset, const struct extfs *ext)
{
	struct check *c = opaque;
	int r = find(c, false, 0, "a partition was removed, or a move was cut off; look before it is overwritten",
		     "an %s superblock (UUID %s) stands in free space at byte %llu", ext->type, ext->uuid,
		     (unsigned long long)offset);

	return r ? r : check_twin(c, 0, ext->uuid);
}

static int check_table(struct check *c, const char *defect)
{
	int r = 0;

	if (defect[0])
		r = find(c, true, 0, "nothing is changed on a damaged table; mend it with the program that made it",
			 "the partition table is damaged: %s", defect);
	if (r == 0 && c->table.hybrid)
		r = find(c, true, 0, "its table is not changed: boot firmware may read the MBR's entries",
			 "has a hybrid MBR beside its GPT");
	if (r == 0 && c->table.backup_misplaced)
		r = find(c, false, 0, "every operation on the table brings it there",
			 "the backup GPT is not at the end of the disk");
	if (r == 0 && c->table.backup_damaged)
		r = find(c, false, 0, "every operation on the table mends it", "only one copy of the GPT is valid");
	for (size_t i = 0; i < c->table.count && r == 0; i++)
		r = check_partition(c, &c->table.partitions[i]);
	if (r == 0 && c->table.type == PTABLE_NONE)
		r = check_content(c, 0, 0, c->disk.dev->size);
	if (r == 0)
		r = layout_find_strays(c->disk.dev, &c->table, report_stray, c);
	return r;
}

DW_EXPORT int dw_check(const char *path, uint32_t sector_size,
		       int (*fn)(void *opaque, const struct dw_finding *finding), void *opaque,
		       struct dw_report *report)
{
	struct check c = { .fn = fn, .opaque = opaque };
	struct dw_journal_info info;
	char defect[DW_PTABLE_DEFECT];
	int r = disk_open(path, false, &c.disk, report);

	if (r < 0)
		return r;
	r = dw_journal_inspect(path, NULL, &info, report);
	if (r == 0 && info.unfinished)
		r = find(&c, true, 0, "`diskwright status` says more", "an unfinished operation: %s%s%s", info.operation,
			 info.operation[0] ? "; " : "", info.done);
	if (r == 0)
		r = ptable_read(c.disk.dev, sector_size, &c.table, defect, report);
	if (r == 0)
		r = check_table(&c, defect);
	ptable_free(&c.table);
	disk_close(&c.disk);
	return r < 0 ? dw_fail(report, DW_FAILED, -r, "%s", strerror(-r)) : 0;
}
