/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A regular file or a block device, by descriptor. */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "device/device.h"

/* No page size of Linux is larger. */
#define PAGE_MAX 65536

struct file {
	struct device dev;
	int fd;
	bool regular;
	bool knows_holes; /* lseek() tells holes from data */
	bool sync_failed; /* what was written before it is not known to be there */
};

/* Where the next data, or the next hole, from OFFSET on begins; at most END. */
static uint64_t seek(const struct file *f, uint64_t offset, uint64_t end, int whence)
{
	off_t at = -1;

	errno = 0;
	if (f->knows_holes)
		at = lseek(f->fd, offset, whence);
	if (at < 0 && errno != ENXIO) /* not known here: it may all be data */
		return whence == SEEK_DATA ? offset : end;
	return at < 0 || (uint64_t)at > end ? end : (uint64_t)at;
}

static int file_read(struct device *dev, void *buffer, size_t length, uint64_t offset)
{
	struct file *f = (struct file *)dev;
	char *p = buffer;

	/* A hole costs no page of the cache, nor the copy of one. */
	if (length >= PAGE_MAX) {
		uint64_t hole = seek(f, offset, offset + length, SEEK_DATA) - offset;

		memset(p, 0, hole);
		p += hole;
		offset += hole;
		length -= hole;
	}
	while (length > 0) {
		ssize_t n = pread(f->fd, p, length, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		p += n;
		offset += n;
		length -= n;
	}
	return 0;
}

static int file_write(struct device *dev, const void *buffer, size_t length, uint64_t offset)
{
	struct file *f = (struct file *)dev;
	const char *p = buffer;

	if (f->sync_failed)
		return -EIO;
	while (length > 0) {
		ssize_t n = pwrite(f->fd, p, length, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		p += n;
		offset += n;
		length -= n;
	}
	return 0;
}

static int file_zero(struct device *dev, uint64_t offset, uint64_t length)
{
	struct file *f = (struct file *)dev;
	static const char zeros[PAGE_MAX];
	int r = 0;

	if (f->sync_failed)
		return -EIO;
	if (fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length) == 0)
		return 0;
	while (length > 0 && r == 0) {
		size_t n = length < sizeof(zeros) ? length : sizeof(zeros);

		r = file_write(dev, zeros, n, offset);
		offset += n;
		length -= n;
	}
	return r;
}

static int file_sync(struct device *dev)
{
	struct file *f = (struct file *)dev;

	if (f->sync_failed)
		return -EIO;
	if (dev->read_only || fsync(f->fd) == 0)
		return 0;
	f->sync_failed = true;
	return -errno;
}

static int file_extents(struct device *dev, uint64_t offset, uint64_t length, device_extent_fn *fn,
			void *opaque)
{
	const struct file *f = (struct file *)dev;
	uint64_t end = offset + length, next;
	int r = 0;

	while (offset < end && r == 0) {
		next = seek(f, offset, end, SEEK_DATA);
		if (next > offset)
			r = fn(opaque, offset, next - offset, DEVICE_ZERO);
		offset = next;
		if (offset == end || r != 0)
			break;
		next = seek(f, offset, end, SEEK_HOLE);
		/* A hole that was made just now: take what is left for data. */
		if (next <= offset)
			next = end;
		r = fn(opaque, offset, next - offset, DEVICE_DATA);
		offset = next;
	}
	return r;
}

static int file_drop_cache(struct device *dev, uint64_t offset, uint64_t length)
{
	struct file *f = (struct file *)dev;
	uint64_t start = offset / PAGE_MAX * PAGE_MAX;

	/* Only whole pages are dropped. */
	length = (offset + length - start + PAGE_MAX - 1) / PAGE_MAX * PAGE_MAX;
	return -posix_fadvise(f->fd, start, length, POSIX_FADV_DONTNEED);
}

static void file_close(struct device *dev)
{
	struct file *f = (struct file *)dev;

	close(f->fd);
	free(f);
}

static const struct device_ops file_ops = {
	.name = "file", .read = file_read, .write = file_write, .zero = file_zero, .sync = file_sync,
	.extents = file_extents, .drop_cache = file_drop_cache, .close = file_close,
};

static int file_probe(struct file *f, bool read_only)
{
	struct stat st;
	struct statfs fs;
	int block_size = 1;

	if (fstat(f->fd, &st) < 0)
		return -errno;
	f->dev = (struct device){ &file_ops, st.st_size, 1, read_only };
	f->regular = S_ISREG(st.st_mode);
	/* Over FUSE it may be asked before what the kernel caches is written. */
	if (f->regular) {
		f->knows_holes = fstatfs(f->fd, &fs) == 0 && fs.f_type != FUSE_SUPER_MAGIC;
		return 0;
	}
	if (!S_ISBLK(st.st_mode))
		return -ENOTBLK;
	if (ioctl(f->fd, BLKGETSIZE64, &f->dev.size) < 0 || ioctl(f->fd, BLKSSZGET, &block_size) < 0)
		return -errno;
	/* The kernel's cache takes any length: this is no more than a hint. */
	f->dev.block_size = block_size == 4096 ? 4096 : 512;
	return 0;
}

int device_open_fd(int fd, bool read_only, struct device **out)
{
	struct file *f = calloc(1, sizeof(*f));
	int r;

	*out = NULL;
	if (!f)
		return -ENOMEM;
	f->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	r = f->fd < 0 ? -errno : file_probe(f, read_only);
	if (r == 0) {
		*out = &f->dev;
		return 0;
	}
	if (f->fd >= 0)
		close(f->fd);
	free(f);
	return r;
}

int device_file_resize(struct device *dev, uint64_t size)
{
	struct file *f = (struct file *)dev;

	if (dev->ops != &file_ops || !f->regular)
		return -ENOTSUP;
	if (dev->read_only)
		return -EROFS;
	if (f->sync_failed)
		return -EIO;
	if (size > INT64_MAX)
		return -EFBIG;
	if (ftruncate(f->fd, size) < 0)
		return -errno;
	dev->size = size;
	return 0;
}
