/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The order rules of the journal, asserted on every run: two device layers,
 * one above the disk and one above the journal, that abort() the program when
 * a write comes that the durable state does not allow.
 *
 *	1 nothing is written to the disk before a durable SEALED, nor in DONE
 *	  or ROLLED_BACK
 *	2 in SEALED, UNDOING, FINALIZING and RESTORING only guards are written
 *	3 in RUNNING and ROLLING_BACK everything but guards
 *	4 the disk is not written while the journal holds unsynced writes
 *	5 a header is not written while the disk, or anything else in the
 *	  journal, holds unsynced writes
 *	6 the newest header slot is never overwritten
 *	7 after a failed sync nothing more is written
 */
#ifndef DW_ORDER_H
#define DW_ORDER_H

#include "device/device.h"
#include "journal/journal.h"

struct order {
	struct device disk, journal_dev; /* what exec and journal use */
	struct device *disk_below, *journal_below;
	struct journal *journal;
	bool disk_dirty, journal_dirty, header_dirty, dead;
	enum journal_state durable, pending;
	int newest, pending_slot;
};

/* Put the layers in place: journal->dev is replaced until order_end(). */
void order_begin(struct order *o, struct device *disk, struct journal *journal);
void order_end(struct order *o);

#endif
