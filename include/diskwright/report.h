/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How the library speaks: it never prints, prompts or exits.  Every call that
 * can fail takes a struct dw_report; the place where a failure is understood
 * sets status, message and hint there, once, and returns a negative errno.
 */
#ifndef DISKWRIGHT_REPORT_H
#define DISKWRIGHT_REPORT_H

#include <stdbool.h>
#include <stdint.h>

/* What a failure means to the person at the terminal; equals the exit status. */
enum dw_status {
	DW_OK = 0,
	DW_FAILED = 1,     /* failed; the disk is as it was */
	DW_USAGE = 2,      /* the request itself is malformed */
	DW_REFUSED = 3,    /* a preflight check says no; the disk is as it was */
	DW_UNFINISHED = 4, /* an unfinished operation is on this disk */
	DW_KEY = 5,        /* wrong passphrase, or a key is needed */
	DW_MISMATCH = 6,   /* the disk does not match the journal */
};

/* One line of progress.  TOTAL 0: unknown.  BYTES: the numbers are bytes. */
struct dw_progress {
	const char *phase;
	uint64_t done, total;
	bool bytes;
};

struct dw_report {
	/* Set by the caller; each may be NULL. */
	void (*progress)(void *opaque, const struct dw_progress *progress);
	void (*note)(void *opaque, const char *line);
	/* Returns true once the user has asked to stop; polled at safe points. */
	bool (*interrupted)(void *opaque);
	void *opaque;

	/* Set by the library. */
	enum dw_status status;
	char message[1024];
	char hint[1024];
};

/*
 * Record a failure: STATUS, a message and the errno to hand back.  The first
 * message wins, so a caller further up may call it without losing the cause.
 * Returns -ERR (ERR is a positive errno).  R may be NULL.
 */
int dw_fail(struct dw_report *r, enum dw_status status, int err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Add what the user can do about the failure; the first hint wins. */
void dw_hint(struct dw_report *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Pass one line of information (not a failure) to the caller. */
void dw_note(struct dw_report *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

void dw_progress(struct dw_report *r, const char *phase, uint64_t done, uint64_t total, bool bytes);

/* Has the user asked to stop? */
bool dw_interrupted(struct dw_report *r);

/* Forget a recorded failure, so that R can serve another attempt. */
void dw_report_clear(struct dw_report *r);

#endif
