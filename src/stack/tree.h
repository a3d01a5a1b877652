/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef DW_STACK_TREE_H
#define DW_STACK_TREE_H

#include "bridge/ptable.h"
#include "device/device.h"
#include "diskwright/tree.h"

/*
 * The tree of DISK (which may be a view) under TABLE, with what DEFECT says
 * about that.  Addresses begin with ADDRESS_BASE, the disk's path as given,
 * which is also where use by the system is looked up.  To be freed with
 * dw_tree_free().
 */
int tree_of_device(struct device *disk, const char *address_base, const struct ptable *table,
		   const char *defect, struct dw_node **out, struct dw_report *report);

#endif
