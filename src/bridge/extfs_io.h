/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Between the files of the extfs bridge: what needs libext2fs's types. */
#ifndef DW_EXTFS_IO_H
#define DW_EXTFS_IO_H

#include <ext2fs/ext2fs.h>

#include "bridge/extfs.h"

/* A field of a raw superblock, for get16(), get32() and put32(). */
#define SUPER_AT(super, field) ((super) + offsetof(struct ext2_super_block, field))

/*
 * Read the superblock of DEV into SUPER (EXTFS_SUPER_SIZE bytes) and check it:
 * afterwards its numbers agree with each other and nothing computed from them
 * overflows.  GUARDED: a guard stood there; SUPER is without it.
 */
int extfs_super_read(struct device *dev, uint8_t *super, bool *guarded, struct dw_report *report);

/*
 * Open the filesystem on DEV with libext2fs, read only, with SUPER (from
 * extfs_super_read(); copied) in place of the superblock on the device.  To be
 * given to ext2fs_free().  0 or a libext2fs error.
 */
errcode_t extfs_io_open(struct device *dev, const uint8_t *super, ext2_filsys *fs);

#endif
