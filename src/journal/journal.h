/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The journal on a device: the durable record of one operation.
 *
 * STATES (number in brackets: header.step)
 *
 *	SEALED        committed; only guards may have been written
 *	RUNNING[k]    guards durable; steps < k hold new content, step k any
 *	              mix, steps > k old content; pre-images of 1..k durable
 *	FINALIZING    all steps hold new content; guards are being lifted
 *	DONE          the new disk; pre-images kept for undo
 *	UNDOING       the way back from DONE is committed; only guards may have
 *	              been written
 *	ROLLING_BACK[k]  steps > k hold old content, step k any mix, < k new
 *	RESTORING     all steps hold old content; guards are being lifted
 *	ROLLED_BACK   the old disk
 *
 * Forward: SEALED, RUNNING[1..n], FINALIZING, DONE.  Backward: from DONE by
 * way of UNDOING, from RUNNING[k] directly, ROLLING_BACK[k..1], RESTORING,
 * ROLLED_BACK.  Body (new content) and undo area (old content) are both there
 * from RUNNING on, so every state can go on in both directions.
 *
 * ORDER OF DURABLE EVENTS (each "|" is a sync of what is named before it)
 *
 *	seal     body, program | header SEALED in both slots, one after the other |
 *	step 1   pre-images |(journal) guards |(disk) header RUNNING[1] |
 *	         extents |(disk) read back and compared
 *	step k   pre-images | header RUNNING[k] | extents | compared
 *	end      header FINALIZING | guards lifted, length set | header DONE |
 *	undo     header UNDOING | guards | header ROLLING_BACK[n] |
 *	back     old content of step k | compared, header ROLLING_BACK[k-1] | ...
 *	         header RESTORING | guards lifted | header ROLLED_BACK |
 *
 * The guards go up while the state is still SEALED (UNDOING): if somebody used
 * the disk before they landed, nothing else has been written and the operation
 * is dropped (the cancel rule).  order.h asserts these rules on every run.
 */
#ifndef DW_JOURNAL_H
#define DW_JOURNAL_H

#include "device/device.h"
#include "diskwright/report.h"
#include "journal/record.h"

struct journal {
	struct device *dev;
	struct journal_header header;
	int newest;          /* slot of the state in force; -1 none */
	bool slot_damaged;   /* the other slot holds something that is not valid */
	struct step steps[STEP_MAX]; /* after journal_load_program(): header.steps of them */
};

/*
 * Read the state.  0; -ENODATA when DEV was never sealed; -EBADMSG when no
 * slot is valid though something stands there; other errors from reading.
 */
int journal_open(struct device *dev, struct journal *journal, struct dw_report *report);

/* Read and check the program.  -EBADMSG (DW_FAILED) when it is damaged. */
int journal_load_program(struct journal *journal, struct dw_report *report);

/* Make STATE with STEP durable: written to the slot that is not the newest, synced. */
int journal_set_state(struct journal *journal, enum journal_state state, uint32_t step,
		      struct dw_report *report);

/*
 * Seal: PROGRAM and header are complete in JOURNAL, the DATA frames are in the
 * device already.  Writes the program frame at header.program_offset, syncs,
 * then both header slots.
 */
int journal_seal(struct journal *journal, struct dw_report *report);

/* Bytes the program frame takes. */
size_t journal_program_size(uint32_t steps);

/* Frees what JOURNAL owns; not the device. */
void journal_release(struct journal *journal);

/* ---- frames ---------------------------------------------------------- */

/* Packs entries into frames, one chain.  DEV NULL: only counts. */
struct frame_writer {
	struct device *dev;
	uint64_t start, position, end;
	struct frame frame;
	uint8_t id[JOURNAL_ID_SIZE];
	uint8_t chain[DIGEST_SIZE];
	struct frame_entry *entries;
	uint8_t *buffer;
};

int frame_writer_open(struct frame_writer *w, struct device *dev, uint64_t offset, uint64_t length,
		      enum frame_type type, uint32_t step, const uint8_t id[JOURNAL_ID_SIZE]);
/* DATA: entry->length <= FRAME_PAYLOAD bytes for CONTENT_DATA, else ignored. */
int frame_writer_add(struct frame_writer *w, const struct frame_entry *entry, const void *data);
/* Write the last frame; afterwards w->position - w->start bytes are taken. */
int frame_writer_finish(struct frame_writer *w);
void frame_writer_close(struct frame_writer *w);

/* One entry, or what is left of it. */
struct content {
	uint64_t offset, length;
	enum content_kind kind;
	const uint8_t *data;    /* LENGTH bytes for CONTENT_DATA, else NULL */
	const uint8_t *digest;  /* of the whole entry's old content (DATA frames) */
};

/* Reads the entries of one step back, each frame checked before it is used. */
struct content_cursor {
	struct journal *journal;
	enum frame_type type;
	uint32_t step;
	uint64_t position, end;
	struct frame frame;
	uint8_t chain[DIGEST_SIZE];
	struct frame_entry *entries;
	uint8_t *buffer;
	uint32_t index;
	uint64_t payload, taken;
	bool begun;
};

int content_open(struct content_cursor *c, struct journal *journal, enum frame_type type,
		 uint32_t step);
/* 0, 1 at the end, -EBADMSG when a frame is damaged. */
int content_peek(struct content_cursor *c, struct content *content, struct dw_report *report);
/* Go on by LENGTH bytes of the peeked entry. */
void content_take(struct content_cursor *c, uint64_t length);
void content_close(struct content_cursor *c);

/* Read the whole chain once, to know that it is sound.  0 or -EBADMSG. */
int journal_verify(struct journal *journal, enum frame_type type, uint32_t step,
		   struct dw_report *report);

#endif
