/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The image an operation works on, and the paths of its journal. */
#ifndef DW_DISK_H
#define DW_DISK_H

#include "device/device.h"
#include "diskwright/report.h"

struct disk {
	char *path;         /* as given */
	char *real;         /* without symbolic links */
	int fd;
	struct device *dev;
};

/*
 * Open the image at PATH.  WRITE: for an operation; takes the lock that keeps
 * every other operation away (flock and an open file description lock).
 */
int disk_open(const char *path, bool write, struct disk *disk, struct dw_report *report);
void disk_close(struct disk *disk);

/* For struct exec: change the length of the image, durably. */
int disk_resize(void *disk, uint64_t size);

/* The journal's place: GIVEN, or PATH.dwj beside the real file; malloc()ed. */
char *disk_journal_path(const struct disk *disk, const char *given);

/*
 * Open the journal's file.  0, -ENOENT when there is none (no message), other
 * errors with one.
 */
int journal_file_open(const char *path, bool write, struct device **dev, struct dw_report *report);

/*
 * Make a new journal file of SIZE bytes, all of it allocated, under a
 * temporary name beside PATH (malloc()ed into TEMPORARY).
 */
int journal_file_create(const char *path, uint64_t size, char **temporary, struct device **dev,
			struct dw_report *report);

/* Give it its name, over a record that is no longer needed; with the directory
 * durable.  LINK (may be NULL): the usual place, made a link to PATH. */
int journal_file_publish(const char *temporary, const char *path, const char *link,
			 struct dw_report *report);

/* Remove the journal and the link to it. */
int journal_file_remove(const char *path, const char *link, struct dw_report *report);

#endif
