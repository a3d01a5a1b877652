/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * ext2/3/4 facts, over libext2fs.  No other file includes its header.
 * Read only; what changes a filesystem is done by e2fsprogs' programs.
 */
#ifndef DW_EXTFS_H
#define DW_EXTFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diskwright/report.h"
#include "device/device.h"

/* The superblock: 1024 bytes at byte 1024 of the filesystem. */
#define EXTFS_SUPER_OFFSET 1024
#define EXTFS_SUPER_SIZE 1024

struct extfs {
	uint32_t block_size;
	uint64_t blocks, free_blocks;     /* in blocks */
	uint64_t inodes, free_inodes;
	uint32_t blocks_per_group;
	bool backup;                      /* not the first superblock but a group's copy of it */
	char uuid[37], label[17], type[8]; /* type: "ext2", "ext3" or "ext4" */
	bool has_journal, external_journal;
	char journal_uuid[37];             /* external journal, else "" */
	bool needs_recovery, not_clean, has_errors, orphan_present;
	bool mmp, bigalloc, stable_inodes, orphan_file, resize_inode, metadata_csum;
	bool bit64, sparse_super2, meta_bg, flex_bg;
	bool needs_check_first;            /* lastcheck < mtime: resize2fs would refuse */
	bool guarded;                      /* diskwright's guard (INCOMPAT bit 31) stands */
	bool mmp_in_use;                   /* its MMP block is not the one of a clean unmount */
	char mmp_node[65];                 /* the host that wrote the MMP block last; "" unknown */
	/* Feature bits this build does not know, in words; "" when none. */
	char unknown_features[128];
	uint64_t journal_blocks;           /* internal journal's size in blocks, else 0 */
	uint64_t bad_blocks;               /* entries in the bad-block list (0 if it cannot be read) */
};

/*
 * Read the superblock of the filesystem that starts at byte 0 of DEV and judge
 * it.  -EINVAL with a message where it is not ext2/3/4 or contradicts itself
 * (hostile input: every number is checked).
 */
int extfs_read(struct device *dev, struct extfs *out, struct dw_report *report);

/* libext2fs's default journal size, in blocks, for a filesystem of that size. */
uint64_t extfs_default_journal(uint64_t blocks, uint32_t block_size);

/*
 * Guards (see journal/journal.h).  SUPER: EXTFS_SUPER_SIZE bytes, changed in
 * place: INCOMPAT bit 31 set, checksum recomputed where the filesystem has
 * metadata_csum.
 */
void extfs_super_guard(uint8_t *super);
bool extfs_super_is_guarded(const uint8_t *super);

/*
 * Warm the page cache of PATH (a stage file that shows DEV) with what a full
 * check reads: descriptors, bitmaps and the used part of the inode tables.
 * Best effort: never fails.
 */
void extfs_warm(struct device *dev, const char *path);

#endif
