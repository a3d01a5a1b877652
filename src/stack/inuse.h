/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the running system does with a disk or an image. */
#ifndef DW_INUSE_H
#define DW_INUSE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Is something of [offset, offset + length) of the image or block device PATH
 * in use: mounted, swapped to, held by device-mapper or md, or shown by a loop
 * device?  1, with the weightiest use in words in WHAT ("mounted on /mnt
 * (loop0)"), 0, or a negative errno.
 */
int inuse_find(const char *path, uint64_t offset, uint64_t length, char *what, size_t size);

/* The same with /proc and /sys looked for below ROOT ("" is the system's own). */
int inuse_find_under(const char *root, const char *path, uint64_t offset, uint64_t length,
		     char *what, size_t size);

#endif
