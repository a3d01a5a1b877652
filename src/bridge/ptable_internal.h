/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the files of the partition tables share. */
#ifndef DW_PTABLE_INTERNAL_H
#define DW_PTABLE_INTERNAL_H

#include "bridge/ptable.h"

/* In an MBR: boot code, disk id, entries.  An EBR has the same shape. */
#define MBR_DISK_ID 440
#define MBR_ENTRIES 446
#define MBR_SIZE 512

/* A read in progress.  DEFECT holds DW_PTABLE_DEFECT bytes. */
struct ptable_reader {
	struct device *disk;
	struct ptable *table;
	char *defect;
};

/* The first defect wins. */
void ptable_defect(char *defect, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

int ptable_add_partition(struct ptable *table, const struct partition *partition);

/* Once only: an area that is there already is not added again. */
int ptable_add_area(struct ptable *table, uint64_t offset, uint64_t length, bool backup);

void ptable_sort(struct ptable *table);

/* Look for overlaps and partitions in forbidden places; sorted tables only. */
void ptable_judge(const struct ptable *table, char *defect);

static inline uint64_t partition_end(const struct partition *p)
{
	return p->start + p->length;
}

/* What sector 0 holds. */
struct mbr_kind {
	bool table;      /* an MBR at all, not the boot sector of a filesystem */
	bool protective; /* an entry of type EE */
	bool other;      /* an entry of another type */
};

void mbr_classify(const uint8_t *sector, struct mbr_kind *kind);

int mbr_read(struct ptable_reader *rd, const uint8_t *sector);

/*
 * Put back into the MBR IS what it was in WAS, but for removed entries and
 * the place of changed ones.
 */
void mbr_restore(const uint8_t *was, uint8_t *is);

/*
 * Put the EBRs in IS back to where and what they are in WAS, but for what
 * PLANNED changes.  libparted, whose table NOW is, has places of its own.
 */
int mbr_restore_chain(struct device *was, struct device *is, const struct ptable *planned,
		      const struct ptable *now);

/* Is there a header whose checksum is right, or something that says it is one? */
bool gpt_header_is_valid(struct device *disk, uint32_t sector_size, uint64_t lba);
bool gpt_header_is_there(struct device *disk, uint32_t sector_size, uint64_t lba);

int gpt_read(struct ptable_reader *rd);

/* Where the usable part ends when the backup is at the end of SIZE bytes. */
uint64_t gpt_end_usable(struct device *disk, uint32_t sector_size, uint64_t size);

/*
 * Make both copies from the good one, the backup at the end of the disk.
 * libparted checks less and trusts more than the reader here.
 */
int gpt_fit(struct device *disk, uint32_t sector_size);

/*
 * Put back into both copies in IS what the entries were in WAS, but for
 * removed ones and the place of changed ones.
 */
int gpt_restore(struct device *was, struct device *is, uint32_t sector_size, struct dw_report *report);

#endif
