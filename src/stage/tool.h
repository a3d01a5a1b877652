/* SPDX-License-Identifier: GPL-3.0-or-later */
/* External programs: argv, no shell, LC_ALL=C, output captured, progress
 * parsed, exit code judged by the caller. */
#ifndef DW_TOOL_H
#define DW_TOOL_H

#include <stddef.h>
#include <stdint.h>

#include "diskwright/report.h"

#define TOOL_ARGS 24

struct tool_result {
	int exit_code;       /* 0..255, or 128 + signal */
	char *output;        /* stdout and stderr as they came, NUL-terminated; cut in the middle over 256 KiB */
	size_t length;
};

enum tool_progress {
	TOOL_NO_PROGRESS,
	TOOL_E2FSCK,    /* adds "-C fd" */
	TOOL_RESIZE2FS, /* adds "-p"; the bars themselves are not in the output */
};

/*
 * Run ARGV (ARGV[0] looked up in the usual directories, sbin first),
 * standard input from /dev/null, environment: PATH, LC_ALL=C, and nothing
 * that changes e2fsprogs' behaviour.  PHASE names the work for progress; NULL:
 * no progress is told.
 * The child dies with this process (PDEATHSIG) and is stopped (SIGTERM, then
 * SIGKILL) when dw_interrupted().  0 when it ran to its end (whatever
 * exit_code); -ENOENT with a hint naming the Debian package when it is not
 * installed; -EINTR when interrupted.
 */
int tool_run(const char *const *argv, enum tool_progress progress, const char *phase,
	     struct tool_result *result, struct dw_report *report);

void tool_result_free(struct tool_result *result);

/*
 * Why it failed, for messages: the last line that PROGRAM begins with its own
 * name (without that), else the last line with something in it.
 */
const char *tool_reason(const struct tool_result *result, const char *program, char *buffer, size_t size);

#endif
