/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef DW_EXEC_INTERNAL_H
#define DW_EXEC_INTERNAL_H

#include "exec/exec.h"
#include "exec/order.h"

/* A run of the interpreter. */
struct run {
	struct exec *exec;
	struct journal *journal;
	struct device *disk;     /* the order layer */
	struct order order;
	struct dw_report *report;
	uint8_t *buffer;         /* RUN_BUFFER bytes */
};

#define RUN_BUFFER FRAME_PAYLOAD

/* What the range of a step may hold. */
enum expect {
	EXPECT_OLD, /* the digests of the old content */
	EXPECT_NEW, /* exactly what the operation wrote */
	EXPECT_MIX, /* every byte old or new */
};

/* steps.c: one step at a time.  0 or a negative errno with the message set;
 * -ESTALE where the content is not what was expected. */
int step_save_preimages(struct run *run, uint32_t k);
int step_check(struct run *run, uint32_t k, enum expect expect);
/* Write the new (FRAME_DATA) or old (FRAME_PREIMAGE) content, sync, compare. */
int step_write(struct run *run, uint32_t k, enum frame_type content);

/* guards.c */
/* 1 all stand as TO says, 0 some do not (yet), -ESTALE one is foreign. */
enum guard_side { GUARD_OLD, GUARD_FINAL };
int guards_are(struct run *run, enum guard_side side);
/* Put the guards up where SIDE (or a torn mix) stands; nothing is written when
 * one is foreign: -ESTALE. */
int guards_up(struct run *run, enum guard_side side);
/* Take them down to SIDE; one that is foreign is left as it is. */
int guards_down(struct run *run, enum guard_side side);

#endif
