/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "exec/exec.h"
#include "simdisk.h"

#define CHUNK (1024 * 1024)

static const uint8_t zeros[SECTOR];

static struct simdisk *of(struct device *dev)
{
	return (struct simdisk *)dev;
}

static void *must(void *p)
{
	if (!p)
		abort();
	return p;
}

/* ---- sectors ------------------------------------------------------------ */

const uint8_t *sim_sector(const struct simdisk *s, uint64_t n)
{
	if (s->sector[n])
		return s->sector[n];
	return (n + 1) * SECTOR <= s->base_size ? s->base + n * SECTOR : zeros;
}

static void set_sector(struct simdisk *s, uint64_t n, const uint8_t *content)
{
	if (!s->sector[n])
		s->dirty[s->dirty_count++] = n;
	s->sector[n] = content;
}

static uint8_t *arena_sector(struct simdisk *s)
{
	size_t chunk = s->arena_used / (CHUNK / SECTOR);

	if (chunk == s->arena_count) {
		s->arena = must(reallocarray(s->arena, s->arena_count + 1, sizeof(*s->arena)));
		s->arena[s->arena_count++] = must(malloc(CHUNK));
	}
	return s->arena[chunk] + s->arena_used++ % (CHUNK / SECTOR) * SECTOR;
}

/* ---- the log ------------------------------------------------------------ */

static const uint8_t *log_add(struct simdisk *s, enum sim_op op, uint64_t offset, uint64_t length,
			      const void *data)
{
	struct log *log = s->log;
	uint8_t *copy = NULL;

	if (!log)
		return NULL;
	if (log->count == log->capacity) {
		log->capacity = log->capacity ? 2 * log->capacity : 256;
		log->list = must(reallocarray(log->list, log->capacity, sizeof(*log->list)));
	}
	if (data) {
		copy = must(malloc(length));
		memcpy(copy, data, length);
	}
	log->list[log->count++] = (struct event){ op, s->medium, offset, length, copy };
	return copy;
}

void log_free(struct log *log)
{
	for (size_t i = 0; i < log->count; i++)
		free((void *)log->list[i].data);
	free(log->list);
	*log = (struct log){ 0 };
}

/* ---- the device --------------------------------------------------------- */

static int fault(struct simdisk *s)
{
	if (!s->countdown)
		return 0;
	if (--*s->countdown == 0 || (s->from_here_on && *s->countdown < 0))
		return s->error;
	return 0;
}

static int sim_read(struct device *dev, void *buffer, size_t length, uint64_t offset)
{
	struct simdisk *s = of(dev);
	uint8_t *p = buffer;
	int r = fault(s);

	if (r < 0)
		return r;
	for (; length > 0; length -= SECTOR, offset += SECTOR, p += SECTOR)
		memcpy(p, sim_sector(s, offset / SECTOR), SECTOR);
	return 0;
}

static int sim_write(struct device *dev, const void *buffer, size_t length, uint64_t offset)
{
	struct simdisk *s = of(dev);
	const uint8_t *p = buffer;
	int r = fault(s);

	if (r < 0)
		return r;
	log_add(s, SIM_WRITE, offset, length, buffer);
	for (uint64_t done = 0; done < length; done += SECTOR) {
		uint8_t *content = arena_sector(s);

		memcpy(content, p + done, SECTOR);
		set_sector(s, (offset + done) / SECTOR, content);
	}
	return 0;
}

static int sim_zero(struct device *dev, uint64_t offset, uint64_t length)
{
	struct simdisk *s = of(dev);
	int r = fault(s);

	if (r < 0)
		return r;
	log_add(s, SIM_ZERO, offset, length, NULL);
	for (uint64_t done = 0; done < length; done += SECTOR)
		set_sector(s, (offset + done) / SECTOR, zeros);
	return 0;
}

static int sim_sync(struct device *dev)
{
	int r = fault(of(dev));

	if (r == 0)
		log_add(of(dev), SIM_SYNC, 0, 0, NULL);
	return r;
}

static int sim_drop_cache(struct device *dev, uint64_t offset, uint64_t length)
{
	return 0;
}

static const struct device_ops sim_ops = {
	.name = "simulated", .read = sim_read, .write = sim_write, .zero = sim_zero, .sync = sim_sync,
	.drop_cache = sim_drop_cache,
};

int sim_resize(void *simdisk, uint64_t size)
{
	struct simdisk *s = simdisk;
	int r = fault(s);

	if (r < 0)
		return r;
	log_add(s, SIM_RESIZE, size, 0, NULL);
	sim_apply(s, &(struct event){ SIM_RESIZE, s->medium, size, 0, NULL }, 0, 0);
	return sim_sync(&s->dev);
}

void sim_apply(struct simdisk *s, const struct event *e, uint64_t from, uint64_t to)
{
	if (e->op == SIM_RESIZE) {
		/* What is cut off is gone; what is added is zeros. */
		for (uint64_t n = (e->offset < s->dev.size ? e->offset : s->dev.size) / SECTOR; n < s->sectors; n++)
			set_sector(s, n, zeros);
		s->dev.size = e->offset;
		return;
	}
	for (uint64_t at = from; at < to; at += SECTOR)
		set_sector(s, (e->offset + at) / SECTOR, e->op == SIM_ZERO ? zeros : e->data + at);
}

void sim_open(struct simdisk *s, int medium, const uint8_t *base, uint64_t base_size, uint64_t max)
{
	*s = (struct simdisk){ .medium = medium, .base = base, .base_size = base_size };
	s->sectors = (max + SECTOR - 1) / SECTOR;
	s->dev = (struct device){ &sim_ops, base_size, SECTOR, false };
	s->sector = must(calloc(s->sectors, sizeof(*s->sector)));
	s->dirty = must(calloc(s->sectors, sizeof(*s->dirty)));
}

void sim_reset(struct simdisk *s, uint64_t size)
{
	for (size_t i = 0; i < s->dirty_count; i++)
		s->sector[s->dirty[i]] = NULL;
	s->dirty_count = s->arena_used = 0;
	s->dev.size = size;
}

void sim_close(struct simdisk *s)
{
	for (size_t i = 0; i < s->arena_count; i++)
		free(s->arena[i]);
	free(s->arena);
	free(s->sector);
	free(s->dirty);
}

int sim_run(struct simdisk *disk, struct simdisk *journal, enum way way, struct dw_report *report,
	    enum journal_state *ended)
{
	struct journal j;
	struct exec x = { &disk->dev, &j, sim_resize, disk, report };
	int r = journal_open(&journal->dev, &j, report);

	*ended = JOURNAL_EMPTY;
	if (r < 0)
		return r;
	r = journal_load_program(&j, report);
	if (r == 0)
		r = way == WAY_RESUME ? exec_forward(&x) : exec_backward(&x, way == WAY_UNDO);
	*ended = j.header.state;
	journal_release(&j);
	return r;
}
