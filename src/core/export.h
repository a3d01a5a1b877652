/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef DW_EXPORT_H
#define DW_EXPORT_H

/* Marks what the shared library exports (see include/diskwright/). */
#define DW_EXPORT __attribute__((visibility("default")))

#endif
