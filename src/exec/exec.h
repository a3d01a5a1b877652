/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The interpreter: carries out a sealed program, forward or backward, from any
 * state that a crash can leave.  The only code that writes to the disk.
 * The states and the order of the syncs are described in journal/journal.h.
 */
#ifndef DW_EXEC_H
#define DW_EXEC_H

#include "device/device.h"
#include "diskwright/report.h"
#include "journal/journal.h"

struct exec {
	struct device *disk;
	struct journal *journal;      /* opened, program loaded */
	/* Change the length of the disk (an image file), durably; NULL: it cannot. */
	int (*resize)(void *opaque, uint64_t size);
	void *opaque;
	struct dw_report *report;
};

/*
 * Go forward to DONE (from UNDOING: call the undo off).  Errors:
 * -EINTR    stopped as asked; status DW_UNFINISHED, the journal stands
 * -ESTALE   the disk is not what the journal explains (DW_MISMATCH); nothing
 *           was written.  In SEALED the operation is dropped when somebody
 *           used the disk before the guards stood (state ROLLED_BACK, or DONE
 *           for an undo)
 * -EBADMSG  the journal is damaged; nothing was written
 * other     I/O errors; status DW_UNFINISHED once the disk was written
 */
int exec_forward(struct exec *x);

/*
 * Go backward to ROLLED_BACK.  From FINALIZING and DONE that is an undo: the
 * disk must still hold exactly what the operation wrote.  UNDO marks the way
 * back, begun from DONE, as the operation that is under way.
 */
int exec_backward(struct exec *x, bool undo);

/*
 * Save the old content of ENTRY, read from DEV, as PREIMAGE entries, and
 * compute its digest.  With a counting writer: how much room that takes.
 */
int exec_save_preimage(struct device *dev, const struct frame_entry *entry,
		       struct frame_writer *w, uint8_t digest[DIGEST_SIZE]);

#endif
