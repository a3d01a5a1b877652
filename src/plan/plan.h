/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A plan: a request, rehearsed on a view of the disk, and the program that
 * came out of it.
 *
 *	dw_plan_make()   plan.c: open, look, rehearse (operations.c), collect
 *	operations.c     what each operation means: preflight, geometry, edits
 *	layout.c         where a partition can go: neighbours and room
 *	rehearse.c       a filesystem through its tools, on the stage
 *	program.c        what the view changed, as steps, guards and a journal
 */
#ifndef DW_PLAN_H
#define DW_PLAN_H

#include "bridge/extfs.h"
#include "bridge/probe.h"
#include "bridge/ptable.h"
#include "core/extents.h"
#include "device/device.h"
#include "diskwright/diskwright.h"
#include "journal/journal.h"
#include "plan/disk.h"
#include "stage/stage.h"

/* One range that the program writes. */
struct change {
	struct frame_entry entry; /* digest: of the old content */
	uint32_t step;            /* 0-based */
};

struct program {
	struct change *changes;   /* by step, then by offset */
	size_t count, capacity;
	struct step steps[STEP_MAX];
	uint32_t step_count;
	struct guard guards[GUARD_MAX];
	uint32_t guard_count;
	uint64_t data, zero, journal_size, program_offset;
};

struct lines {
	char **list;
	size_t count;
};

struct dw_plan {
	const struct dw_request *request;
	struct dw_report *report;      /* the rehearsal's, during dw_plan_make() */
	struct dw_report *caller;
	struct disk disk;
	uint64_t new_size;
	struct device *view;           /* overlay over disk.dev */
	struct stage *stage;           /* opened when first needed */
	struct ptable table, after_table;
	struct dw_node *before, *after;
	bool orphan_toggle;            /* second attempt: orphan_file off while resizing */
	/* What the program's guards must cover: offsets of filesystems. */
	struct { uint64_t start, length; } guarded[GUARD_MAX];
	size_t guarded_count;
	struct lines lines, warnings;
	struct program program;
	char *command;
};

/* Add a sentence to the plan, or a warning. */
int plan_line(struct dw_plan *plan, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int plan_warn(struct dw_plan *plan, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The content of [start, start + length) will be written: guard what a system
 * could mount there. */
int plan_guard(struct dw_plan *plan, uint64_t start, uint64_t length);

/* operations.c: rehearse the request on plan->view. */
int operation_rehearse(struct dw_plan *plan);

/* layout.c */
/*
 * Up to which byte could partition NUMBER extend, if the partitions in GONE
 * were not there?  BLOCKER (may be NULL) receives what stands there, in words.
 */
uint64_t layout_room(const struct ptable *table, int number, const int *gone, size_t gone_count,
		     uint64_t disk_size, char *blocker, size_t blocker_size);
uint64_t layout_align_down(uint64_t offset, uint64_t align);
uint64_t layout_align_up(uint64_t offset, uint64_t align);
/*
 * ext superblocks at multiples of 1 MiB in space that no partition covers: what
 * a removed partition, or a move that was cut off, leaves.  Stops on fn() != 0.
 */
int layout_find_strays(struct device *disk, const struct ptable *table,
		       int (*fn)(void *opaque, uint64_t offset, const struct extfs *ext), void *opaque);
/* The end of the last partition (0 when there is none). */
uint64_t layout_last_end(const struct ptable *table);

/* rehearse.c */
enum fs_journal { FS_JOURNAL_KEEP, FS_JOURNAL_OFF, FS_JOURNAL_ON, FS_JOURNAL_REBUILD };

struct fs_job {
	const char *name;        /* for messages: the node's address */
	uint64_t start;          /* of its partition */
	uint64_t old_length, new_length;
	uint64_t fs_size;        /* shrink: bytes the filesystem is to have; 0: fill the partition */
	bool resize;
	bool minimum;            /* shrink: as small as it can be; sets fs_size and new_length */
	enum fs_journal journal;
	uint64_t journal_size;   /* bytes; 0: default */
	uint64_t align;          /* for `minimum`: the partition's end */
	/* The table's edits, carried out between shrinking and growing. */
	struct ptable_edit edits[DW_ABSORB_MAX + 1];
	size_t edit_count;
};

/*
 * Take the filesystem through check, journal, resize and check, with the
 * table's edits at the right moment.  FACTS: the filesystem as found.
 * Returns -EAGAIN when the result was not clean and plan->orphan_toggle should
 * be tried (then everything starts again on a fresh view).
 */
int rehearse_fs(struct dw_plan *plan, struct fs_job *job, const struct extfs *facts);

/* Read the filesystem in [start, start + length) of the view. */
int rehearse_read_fs(struct dw_plan *plan, uint64_t start, uint64_t length, struct extfs *facts);

/* program.c */
/* Collect what the view changed into plan->program.  plan->program.step_count
 * is 0 when nothing did. */
int program_collect(struct dw_plan *plan);
/* Write body and program to JOURNAL_DEV (program.journal_size bytes), seal. */
int program_seal(struct dw_plan *plan, struct device *journal_dev, struct journal *journal,
		 struct dw_report *report);
void program_free(struct program *program);

/* sheet.c: the recovery sheet, before sealing. */
int sheet_write(struct dw_plan *plan, const char *path, const char *journal_path,
		struct dw_report *report);

/* recover.c: is an operation under way on the disk?  -EBUSY with
 * DW_UNFINISHED; -EBADMSG when the journal cannot be read. */
int recover_refuse_unfinished(const struct disk *disk, const char *journal_path,
			      struct dw_report *report);
/* The journal's file and, where the usual place is a link to it, that. */
int recover_journal_paths(const struct disk *disk, const char *given, char **path, char **link);
/* Run the interpreter on an open journal; keeps or removes the file as the
 * state it ended in asks for. */
int recover_run(struct disk *disk, struct journal *journal, bool backward, bool undo,
		struct dw_report *report);
/* Does a filesystem in the tree carry the guard of an unfinished operation? */
bool recover_has_guard(const struct dw_node *node);
/* Remove the journal of an operation that left nothing; errors do not matter. */
void recover_forget(const struct disk *disk, const char *journal_path);

#endif
