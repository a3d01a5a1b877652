/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Partition tables, over libparted.  No other file includes its header.
 *
 * libparted never sees the disk: the table's own areas (head, tail, EBRs) are
 * copied into a sparse memory file of the disk's size, libparted works on
 * that, and what it changed is written back to the device.
 */
#ifndef DW_PTABLE_H
#define DW_PTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diskwright/report.h"
#include "device/device.h"

enum ptable_type {
	PTABLE_NONE, /* no partition table: content starts at byte 0 */
	PTABLE_MBR,
	PTABLE_GPT,
};

struct partition {
	int number;              /* as in /dev/sdaN */
	uint64_t start, length;  /* bytes */
	bool logical, extended;
	bool boot;               /* MBR active flag / GPT legacy boot */
	uint8_t mbr_type;        /* MBR type byte, else 0 */
	uint64_t ebr;            /* logical: byte offset of its EBR sector */
	char type_guid[37];      /* GPT: lower case text, else "" */
	char guid[37];           /* GPT unique GUID, else "" */
	char name[128];          /* GPT name as UTF-8, else "" */
	uint64_t attributes;     /* GPT attribute bits */
};

/* Bytes of the disk that belong to the table. */
struct ptable_area {
	uint64_t offset, length;
	bool backup;             /* a GPT's backup; else what systems read first */
};

struct ptable {
	enum ptable_type type;
	uint32_t sector_size;    /* 512 or 4096 */
	uint64_t size;           /* bytes of the disk it was read from */
	char id[37];             /* MBR: 8 hex digits; GPT: disk GUID; else "" */
	uint64_t first_usable, end_usable; /* bytes: where partitions may lie */
	bool hybrid;             /* GPT whose MBR has entries besides the protective one */
	bool backup_misplaced;   /* GPT whose backup is not at the end of the disk */
	bool backup_damaged;     /* GPT whose two copies are not both valid and alike */
	struct partition *partitions; /* by start; an extended one before its logicals */
	size_t count;
	struct ptable_area *areas; /* MBR and EBR sectors, GPT headers and entries */
	size_t area_count;
};

/*
 * Read the table of DISK.  SECTOR_SIZE 0: found out (GPT header at byte 512 or
 * 4096; for an MBR the one for which the table makes sense, 512 preferred).
 * A damaged or contradictory table (overlap, partition past the end, EBR loop)
 * still yields what could be read, and DEFECT (may be NULL) receives the first
 * defect in words ("partitions 3 and 2 overlap: sectors ..."), with
 * DW_PTABLE_DEFECT bytes; "" when sound.  Errors only where nothing can be
 * read (-EIO, -ENOMEM).
 */
#define DW_PTABLE_DEFECT 512
int ptable_read(struct device *disk, uint32_t sector_size, struct ptable *table,
		char *defect, struct dw_report *report);

void ptable_free(struct ptable *table);

/* The partition NUMBER, or NULL. */
const struct partition *ptable_find(const struct ptable *table, int number);

/* One change to a table; a list is carried out as one. */
struct ptable_edit {
	enum { PTABLE_REMOVE, PTABLE_RESIZE } what;
	int number;              /* as numbered before any edit of the list */
	uint64_t start, length;  /* PTABLE_RESIZE: the new place in bytes, exact */
};

/*
 * Carry out EDITS on the table of VIEW.  Everything that is not edited stays
 * as it is to the byte (checked afterwards): boot code, MBR disk id, the other
 * entries, GUIDs, names, attribute bits, flags, numbers (logicals after a
 * removed one are renumbered by the format: a dw_note() names them).
 * An extended partition grows as needed to hold a logical one that grows, and
 * is left alone otherwise.  For a GPT the backup is brought to the end of
 * VIEW (also with COUNT 0: that is how a resized disk's table is mended; for
 * an MBR, COUNT 0 is nothing to do).
 * VIEW must be a view (overlay): this writes to it.
 */
int ptable_edit(struct device *view, const struct ptable *table,
		const struct ptable_edit *edits, size_t count, struct dw_report *report);

#endif
