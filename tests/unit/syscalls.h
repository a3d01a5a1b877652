/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * System calls that fail on demand.  A test that links syscalls.c gets these
 * in the place of the C library's; with all fields 0 they do what those do.
 */
#ifndef SYSCALLS_H
#define SYSCALLS_H

#include <stdatomic.h>
#include <stdbool.h>

struct syscalls {
	/* An errno that the call fails with. */
	int pread, pwrite, fsync, fallocate, lseek;
	/* open() knows no files without a name. */
	bool no_tmpfile;
	/* pread() and pwrite() do one byte, then the half, or are interrupted. */
	bool short_transfers;

	atomic_uint calls; /* of pread() and pwrite() */
};

extern struct syscalls syscalls;

#endif
