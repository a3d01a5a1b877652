/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A simulated medium: sectors over a base that is never copied.
 *
 * A sector is a pointer to its 512 bytes: into the base, into a write of the
 * log, or into memory of the present run.  So a crash state costs only the
 * sectors that the log touches, not a copy of the image.
 */
#ifndef SIMDISK_H
#define SIMDISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"
#include "diskwright/report.h"
#include "journal/record.h"

#define SECTOR 512

enum sim_op { SIM_READ, SIM_WRITE, SIM_ZERO, SIM_SYNC, SIM_RESIZE };

/* What a run did to the media, in one sequence. */
struct event {
	enum sim_op op;
	int medium;
	uint64_t offset, length; /* RESIZE: offset is the new size */
	const uint8_t *data;     /* WRITE: owned by the log */
};

struct log {
	struct event *list;
	size_t count, capacity;
};

struct simdisk {
	struct device dev;
	int medium;             /* number in the log */
	const uint8_t *base;    /* base_size bytes */
	uint64_t base_size, sectors;
	const uint8_t **sector; /* NULL: the base's (zeros behind its end) */
	uint64_t *dirty;        /* sectors that are not NULL */
	size_t dirty_count;
	struct log *log;        /* NULL: not recorded */
	uint8_t **arena;        /* chunks for what is written */
	size_t arena_count, arena_used;
	/* The COUNTDOWN-th call fails with ERROR; shared by both media. */
	long *countdown;
	int error;
	bool from_here_on;
};

/* A medium of at most MAX bytes whose first BASE_SIZE bytes are BASE. */
void sim_open(struct simdisk *s, int medium, const uint8_t *base, uint64_t base_size, uint64_t max);
void sim_close(struct simdisk *s);

/* Back to the base with SIZE bytes; forget what runs wrote. */
void sim_reset(struct simdisk *s, uint64_t size);

/* Put an event's bytes [from, to) in, without copying or recording. */
void sim_apply(struct simdisk *s, const struct event *e, uint64_t from, uint64_t to);

const uint8_t *sim_sector(const struct simdisk *s, uint64_t sector);

/* For struct exec. */
int sim_resize(void *simdisk, uint64_t size);

/* How the interpreter is run. */
enum way { WAY_RESUME, WAY_ROLLBACK, WAY_UNDO };

/*
 * Open the journal, load its program and run it.  ENDED: the state in memory
 * afterwards; JOURNAL_EMPTY when the journal could not be opened.
 */
int sim_run(struct simdisk *disk, struct simdisk *journal, enum way way, struct dw_report *report,
	    enum journal_state *ended);

void log_free(struct log *log);

#endif
