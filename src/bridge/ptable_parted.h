/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef DW_PTABLE_PARTED_H
#define DW_PTABLE_PARTED_H

#include "bridge/ptable.h"

/*
 * Let libparted change the table in the file FD of SIZE bytes from BEFORE to
 * AFTER: a partition that AFTER lacks is removed, one that differs is put at
 * its new place.  Also without a difference the table is written anew, both
 * copies of a GPT.
 */
int parted_rewrite(int fd, uint64_t size, const struct ptable *before, const struct ptable *after,
		   struct dw_report *report);

#endif
