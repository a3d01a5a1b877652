/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "syscalls.h"

struct syscalls syscalls;

/* How much of LENGTH is done this time; -1 for not at all, with errno. */
static ssize_t share(size_t length, int error)
{
	unsigned int call = syscalls.calls++;

	if (error) {
		errno = error;
		return -1;
	}
	if (!syscalls.short_transfers || length < 2)
		return length;
	if (call % 3 == 0) {
		errno = EINTR;
		return -1;
	}
	return call % 3 == 1 ? 1 : (length + 1) / 2;
}

ssize_t pread(int fd, void *buffer, size_t length, off_t offset)
{
	ssize_t n = share(length, syscalls.pread);
	struct iovec piece = { buffer, n };

	return n < 0 ? n : preadv(fd, &piece, 1, offset);
}

ssize_t pwrite(int fd, const void *buffer, size_t length, off_t offset)
{
	ssize_t n = share(length, syscalls.pwrite);
	struct iovec piece = { (void *)buffer, n };

	return n < 0 ? n : pwritev(fd, &piece, 1, offset);
}

int fsync(int fd)
{
	errno = syscalls.fsync;
	return errno ? -1 : fdatasync(fd);
}

int fallocate(int fd, int mode, off_t offset, off_t length)
{
	errno = syscalls.fallocate;
	return errno ? -1 : syscall(SYS_fallocate, fd, mode, offset, length);
}

off_t lseek(int fd, off_t offset, int whence)
{
	errno = syscalls.lseek;
	return errno ? -1 : syscall(SYS_lseek, fd, offset, whence);
}

int open(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode = 0;

	va_start(args, flags);
	if (flags & (O_CREAT | O_TMPFILE))
		mode = va_arg(args, mode_t);
	va_end(args);
	if (syscalls.no_tmpfile && (flags & O_TMPFILE) == O_TMPFILE) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return openat(AT_FDCWD, path, flags, mode);
}
