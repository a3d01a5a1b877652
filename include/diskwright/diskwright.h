/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * libdiskwright: change a disk layout as one transaction.
 *
 *   dw_plan_make()     rehearse the request on a view of the disk
 *   dw_plan_execute()  seal the journal, then write the disk
 *   dw_recover()       go on, go back, or undo, from the journal
 *
 * PATH is an image file everywhere.  Every function returns 0 or a negative
 * errno, with status, message and hint in REPORT.
 */
#ifndef DISKWRIGHT_H
#define DISKWRIGHT_H

#include "diskwright/report.h"
#include "diskwright/size.h"
#include "diskwright/tree.h"

const char *dw_version(void);

/*
 * Split "disk.img:6" into the disk's path and a partition number (0: the disk
 * itself).  PATH receives a malloc()ed string.  -EINVAL with DW_USAGE where it
 * is not an address, or names something this build does not handle.
 */
int dw_address_parse(const char *address, char **path, int *partition,
		     struct dw_report *report);

enum dw_operation { DW_MERGE, DW_GROW, DW_SHRINK, DW_REMOVE, DW_JOURNAL };
enum dw_journal_mode { DW_JOURNAL_ON, DW_JOURNAL_OFF, DW_JOURNAL_REBUILD };
enum dw_ext_journal { DW_EXT_JOURNAL_AUTO, DW_EXT_JOURNAL_KEEP, DW_EXT_JOURNAL_REBUILD };

#define DW_ABSORB_MAX 8

struct dw_request {
	enum dw_operation operation;
	const char *path;
	int partition;                /* 0: the disk itself */
	int absorb[DW_ABSORB_MAX];    /* DW_MERGE: partitions */
	size_t absorb_count;
	bool absorb_free;             /* DW_MERGE: "free" */
	struct dw_size size;          /* DW_GROW, DW_SHRINK: MAX, MIN, BYTES, PERCENT, PLUS, MINUS */
	enum dw_journal_mode journal; /* DW_JOURNAL */
	uint64_t journal_size;        /* DW_JOURNAL: bytes, 0 = default */
	enum dw_ext_journal ext_journal;
	bool repair;
	uint64_t align;               /* bytes; 0 = none */
	uint32_t sector_size;         /* 0: found out */
	const char *journal_path;     /* NULL: PATH.dwj */
	const char *temporary;        /* directory for the overlay and the stage */
	const char *recovery_sheet;   /* NULL: none */
	const char *command;          /* the command as typed, for the journal */
};

struct dw_plan;

/*
 * Rehearse REQUEST in full.  Locks the image until dw_plan_free().  Nothing on
 * the disk changes.
 */
int dw_plan_make(const struct dw_request *request, struct dw_plan **out,
		 struct dw_report *report);

/* The tree before and as it will be; owned by the plan. */
const struct dw_node *dw_plan_before(const struct dw_plan *plan);
const struct dw_node *dw_plan_after(const struct dw_plan *plan);

/* What will be done, a sentence a line, in order; then what to know about it. */
const char *const *dw_plan_lines(const struct dw_plan *plan, size_t *count);
const char *const *dw_plan_warnings(const struct dw_plan *plan, size_t *count);

struct dw_plan_volume {
	uint64_t data;    /* bytes of content that will be written to the disk */
	uint64_t zero;    /* bytes that become zero ranges */
	uint64_t journal; /* size of the journal */
	bool nothing;     /* the disk is already as asked for */
};
void dw_plan_volume(const struct dw_plan *plan, struct dw_plan_volume *out);

/* Seal and execute.  -EINTR with DW_UNFINISHED when asked to stop. */
int dw_plan_execute(struct dw_plan *plan, struct dw_report *report);

/* Accepts NULL. */
void dw_plan_free(struct dw_plan *plan);

/* Where an operation on a disk stands. */
enum dw_journal_state {
	DW_JOURNAL_NONE,        /* no journal, or one that says nothing */
	DW_JOURNAL_SEALED,      /* committed, nothing written yet */
	DW_JOURNAL_RUNNING,     /* going forward */
	DW_JOURNAL_FINALIZING,
	DW_JOURNAL_DONE,        /* finished: can be undone */
	DW_JOURNAL_ROLLING_BACK,/* going backward */
	DW_JOURNAL_RESTORING,   /* backward, lifting the guards */
	DW_JOURNAL_ROLLED_BACK,
	DW_JOURNAL_DAMAGED,     /* cannot be read */
	DW_JOURNAL_MISSING,     /* a guard is on the disk, the journal is not there */
};

struct dw_journal_info {
	enum dw_journal_state state;
	bool unfinished;        /* exit status 4 */
	bool undoing;           /* the unfinished operation is an undo */
	char operation[256];    /* "merge disk.img:6 --absorb 7" */
	char path[4096];        /* the journal's file */
	char uuid[37];          /* the journal's id */
	uint32_t step, steps;
	char done[256];         /* what has been done, in words */
	char next_resume[256];  /* what resume would do */
	char next_rollback[256];/* what rollback would do */
	uint64_t bytes;         /* that the operation writes */
	int64_t sealed_at;      /* seconds since 1970 */
};

/* JOURNAL_PATH NULL: the usual place. */
int dw_journal_inspect(const char *path, const char *journal_path,
		       struct dw_journal_info *out, struct dw_report *report);

enum dw_recovery { DW_RESUME, DW_ROLLBACK, DW_UNDO, DW_FORGET };

/*
 * Resume or roll back the unfinished operation, undo the finished one, or
 * forget (drop) the record of a finished one.
 */
int dw_recover(const char *path, const char *journal_path, enum dw_recovery what,
	       struct dw_report *report);

/* What would stop or endanger an operation. */
struct dw_finding {
	bool error;             /* else a warning */
	const char *node;       /* address */
	const char *text, *remedy;
};

/* Report every finding on the disk, in the order of the disk; fn() != 0 stops. */
int dw_check(const char *path, uint32_t sector_size,
	     int (*fn)(void *opaque, const struct dw_finding *finding), void *opaque,
	     struct dw_report *report);

#endif
