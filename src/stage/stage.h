/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The stage: devices of the view shown as files in a private directory, over
 * FUSE, so that programs that take a path work inside the rehearsal.
 */
#ifndef DW_STAGE_H
#define DW_STAGE_H

#include "diskwright/report.h"
#include "device/device.h"

struct stage;

/*
 * Mount an empty stage under DIRECTORY (a directory that exists; "/tmp").
 * What a killed run left there is cleaned up first.  As root in a mount
 * namespace of the calling thread's own, else through fusermount3.
 * -ENODEV/-ENOENT with status DW_REFUSED and a hint what to install or load
 * where FUSE is not there.
 */
int stage_open(const char *directory, struct stage **out, struct dw_report *report);

/*
 * Show DEV (borrowed until stage_hide() or stage_close()) as file NAME; PATH
 * receives a string owned by the stage, valid until stage_hide().  It is for
 * other programs: this process could not be killed while it waits for itself
 * (stage.c says why); what opens PATH here does it in a child.  A write to
 * a read-only device gives EROFS; truncation succeeds without effect; a file
 * never becomes longer than its device (ENOSPC).
 */
int stage_show(struct stage *stage, const char *name, struct device *dev,
	       const char **path, struct dw_report *report);

/* Everything that programs wrote to NAME has arrived in its device, or the
 * error a write met there. */
int stage_flush(struct stage *stage, const char *name, struct dw_report *report);

/* stage_flush() and take NAME away. */
int stage_hide(struct stage *stage, const char *name, struct dw_report *report);

/* Unmount and remove the directory.  Accepts NULL. */
void stage_close(struct stage *stage);

#endif
