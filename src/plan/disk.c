/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plan/disk.h"

#define JOURNAL_SUFFIX ".dwj"
#define TEMPORARY_SUFFIX ".new"

static int disk_lock(int fd, struct dw_report *report)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (flock(fd, LOCK_EX | LOCK_NB) < 0 || fcntl(fd, F_OFD_SETLK, &lock) < 0) {
		int err = errno == EWOULDBLOCK || errno == EACCES ? EBUSY : errno;

		dw_fail(report, DW_REFUSED, err, "another program is working on it");
		dw_hint(report, "wait for it to finish; `diskwright status` tells what is under way");
		return -err;
	}
	return 0;
}

static int disk_open_fd(const char *path, bool write, struct disk *disk, struct dw_report *report)
{
	struct stat st;

	disk->fd = open(path, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK);
	if (disk->fd < 0) {
		int err = errno;

		dw_fail(report, err == EACCES || err == EROFS || err == ETXTBSY ? DW_REFUSED : DW_FAILED,
			err, "cannot open it: %s", strerror(err));
		if (write && (err == EACCES || err == EROFS))
			dw_hint(report, "the image must be writable");
		return -err;
	}
	if (fstat(disk->fd, &st) < 0)
		return dw_fail(report, DW_FAILED, errno, "cannot stat it: %s", strerror(errno));
	if (S_ISBLK(st.st_mode) && write)
		return dw_fail(report, DW_REFUSED, ENOTSUP,
			       "is a block device; this release works on image files");
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return dw_fail(report, DW_USAGE, EINVAL, "is neither an image file nor a block device");
	if (write)
		return disk_lock(disk->fd, report);
	return 0;
}

int disk_open(const char *path, bool write, struct disk *disk, struct dw_report *report)
{
	int r;

	*disk = (struct disk){ .fd = -1 };
	r = disk_open_fd(path, write, disk, report);
	if (r == 0) {
		disk->path = strdup(path);
		disk->real = realpath(path, NULL);
		r = disk->path && disk->real
			    ? device_open_fd(disk->fd, !write, &disk->dev)
			    : -ENOMEM;
	}
	if (r == 0 && disk->dev->size == 0)
		r = dw_fail(report, DW_REFUSED, EINVAL, "is empty");
	if (r < 0) {
		dw_fail(report, DW_FAILED, -r, "cannot open it: %s", strerror(-r));
		disk_close(disk);
	}
	return r;
}

void disk_close(struct disk *disk)
{
	device_close(disk->dev);
	if (disk->fd >= 0)
		close(disk->fd);
	free(disk->path);
	free(disk->real);
	*disk = (struct disk){ .fd = -1 };
}

int disk_resize(void *opaque, uint64_t size)
{
	struct disk *disk = opaque;
	int r = device_file_resize(disk->dev, size);

	return r < 0 ? r : device_sync(disk->dev);
}

char *disk_journal_path(const struct disk *disk, const char *given)
{
	char *path;

	if (given)
		return strdup(given);
	return asprintf(&path, "%s" JOURNAL_SUFFIX, disk->real) < 0 ? NULL : path;
}

/* ---- the journal's file ---------------------------------------------- */

int journal_file_open(const char *path, bool write, struct device **dev, struct dw_report *report)
{
	int fd = open(path, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK), r;
	struct stat st;

	if (fd < 0) {
		r = -errno;
		if (r != -ENOENT)
			dw_fail(report, DW_FAILED, -r, "cannot open the journal %s: %s", path,
				strerror(-r));
		return r;
	}
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		r = dw_fail(report, DW_FAILED, EINVAL, "the journal %s is not a regular file", path);
	else
		r = device_open_fd(fd, !write, dev);
	close(fd);
	return r;
}

static int directory_sync(const char *path)
{
	char *copy = strdup(path);
	int fd, r;

	if (!copy)
		return -ENOMEM;
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = fd < 0 ? -errno : fsync(fd) < 0 ? -errno : 0;
	if (fd >= 0)
		close(fd);
	free(copy);
	return r;
}

int journal_file_create(const char *path, uint64_t size, char **temporary, struct device **dev,
			struct dw_report *report)
{
	int fd = -1, r;

	*temporary = NULL;
	if (asprintf(temporary, "%s" TEMPORARY_SUFFIX, path) < 0)
		return -ENOMEM;
	unlink(*temporary); /* never sealed: it says nothing */
	fd = open(*temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	r = fd < 0 ? -errno : -posix_fallocate(fd, 0, size);
	if (r == 0)
		r = device_open_fd(fd, false, dev);
	if (r < 0) {
		dw_fail(report, DW_REFUSED, -r, "cannot make the journal %s (%llu bytes): %s", path,
			(unsigned long long)size, strerror(-r));
		dw_hint(report, "`--journal FILE` puts it on another disk");
		if (fd >= 0)
			unlink(*temporary);
		free(*temporary);
		*temporary = NULL;
	}
	if (fd >= 0)
		close(fd);
	return r;
}

static int link_make(const char *link, const char *path)
{
	char *real = realpath(path, NULL);
	int r = 0;

	unlink(link);
	if (!real || symlink(real, link) < 0)
		r = -errno;
	free(real);
	return r < 0 ? r : directory_sync(link);
}

int journal_file_publish(const char *temporary, const char *path, const char *link,
			 struct dw_report *report)
{
	int r = rename(temporary, path) < 0 ? -errno : 0;

	if (r == 0) {
		r = directory_sync(path);
		if (r == 0 && link)
			r = link_make(link, path);
		/* Nothing has been executed: leave nothing that says so. */
		if (r < 0) {
			unlink(path);
			if (link)
				unlink(link);
		}
	}
	if (r < 0)
		dw_fail(report, DW_FAILED, -r, "cannot put the journal %s in place: %s", path,
			strerror(-r));
	return r;
}

int journal_file_remove(const char *path, const char *link, struct dw_report *report)
{
	int r = 0;

	if (unlink(path) < 0 && errno != ENOENT)
		r = -errno;
	if (link && unlink(link) < 0 && errno != ENOENT)
		r = -errno;
	if (r == 0)
		r = directory_sync(link ? link : path);
	if (r < 0)
		dw_fail(report, DW_FAILED, -r, "cannot remove the journal %s: %s", path, strerror(-r));
	return r;
}
