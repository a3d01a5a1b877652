/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

#define PAGE 4096u
#define TABLE_PAGES 16384u
#define TABLE_SPAN ((uint64_t)PAGE * TABLE_PAGES)

struct table {
	uint8_t *pages[TABLE_PAGES]; /* NULL: zeros */
};

struct memory {
	struct device dev;
	pthread_mutex_t lock;
	memory_hook *hook;
	void *opaque;
	uint64_t stored;
	size_t count;
	struct table *tables[]; /* NULL: zeros */
};

static struct memory *of(struct device *dev)
{
	return (struct memory *)dev;
}

/* The hook's answer, after a look at whether the range may be asked for at all. */
static int ask(struct memory *m, enum memory_op op, uint64_t offset, uint64_t length)
{
	uint64_t end = offset + length;

	assert(offset <= m->dev.size && length <= m->dev.size - offset);
	assert(offset % m->dev.block_size == 0);
	assert(end % m->dev.block_size == 0 || end == m->dev.size);
	assert(op == MEMORY_READ || op == MEMORY_SYNC || !m->dev.read_only);
	return m->hook ? m->hook(m->opaque, op, offset, length) : 0;
}

static uint8_t *page_at(struct memory *m, uint64_t offset, bool make)
{
	struct table **table = &m->tables[offset / TABLE_SPAN];
	uint8_t **page;

	if (!*table && make)
		*table = calloc(1, sizeof(**table));
	if (!*table)
		return NULL;
	page = &(*table)->pages[offset % TABLE_SPAN / PAGE];
	if (!*page && make) {
		*page = calloc(1, PAGE);
		m->stored += *page ? PAGE : 0;
	}
	return *page;
}

static uint64_t in_page(uint64_t offset, uint64_t length)
{
	return length < PAGE - offset % PAGE ? length : PAGE - offset % PAGE;
}

static int memory_read(struct device *dev, void *buffer, size_t length, uint64_t offset)
{
	struct memory *m = of(dev);
	int r = ask(m, MEMORY_READ, offset, length);
	uint8_t *p = buffer;

	pthread_mutex_lock(&m->lock);
	for (size_t n; r == 0 && length > 0; p += n, offset += n, length -= n) {
		const uint8_t *page = page_at(m, offset, false);

		n = in_page(offset, length);
		if (page)
			memcpy(p, page + offset % PAGE, n);
		else
			memset(p, 0, n);
	}
	pthread_mutex_unlock(&m->lock);
	return r;
}

static int memory_write(struct device *dev, const void *buffer, size_t length, uint64_t offset)
{
	struct memory *m = of(dev);
	int r = ask(m, MEMORY_WRITE, offset, length);
	const uint8_t *p = buffer;

	pthread_mutex_lock(&m->lock);
	for (size_t n; r == 0 && length > 0; p += n, offset += n, length -= n) {
		uint8_t *page = page_at(m, offset, true);

		n = in_page(offset, length);
		if (page)
			memcpy(page + offset % PAGE, p, n);
		else
			r = -ENOMEM;
	}
	pthread_mutex_unlock(&m->lock);
	return r;
}

/* How far from OFFSET on (at most to END) there are only pages, or only none. */
static uint64_t run_of(struct memory *m, uint64_t offset, uint64_t end, bool *present)
{
	uint64_t at = offset, next;

	*present = page_at(m, offset, false) != NULL;
	while (at < end && (page_at(m, at, false) != NULL) == *present) {
		next = m->tables[at / TABLE_SPAN] ? at - at % PAGE + PAGE
						  : at - at % TABLE_SPAN + TABLE_SPAN;
		at = next < end ? next : end;
	}
	return at - offset;
}

static int memory_zero(struct device *dev, uint64_t offset, uint64_t length)
{
	struct memory *m = of(dev);
	int r = ask(m, MEMORY_ZERO, offset, length);
	uint64_t end = offset + length, n;
	bool present;

	pthread_mutex_lock(&m->lock);
	for (; r == 0 && offset < end; offset += n) {
		n = run_of(m, offset, end, &present);
		if (!present)
			continue;
		n = in_page(offset, n);
		if (n < PAGE) {
			memset(page_at(m, offset, false) + offset % PAGE, 0, n);
			continue;
		}
		free(page_at(m, offset, false));
		m->tables[offset / TABLE_SPAN]->pages[offset % TABLE_SPAN / PAGE] = NULL;
		m->stored -= PAGE;
	}
	pthread_mutex_unlock(&m->lock);
	return r;
}

static int memory_sync(struct device *dev)
{
	return ask(of(dev), MEMORY_SYNC, 0, dev->size);
}

static int memory_extents(struct device *dev, uint64_t offset, uint64_t length, device_extent_fn *fn,
			  void *opaque)
{
	struct memory *m = of(dev);
	uint64_t end = offset + length, n;
	bool present;
	int r = 0;

	for (; r == 0 && offset < end; offset += n) {
		pthread_mutex_lock(&m->lock);
		n = run_of(m, offset, end, &present);
		pthread_mutex_unlock(&m->lock);
		r = fn(opaque, offset, n, present ? DEVICE_DATA : DEVICE_ZERO);
	}
	return r;
}

static void memory_close(struct device *dev)
{
	struct memory *m = of(dev);

	for (size_t i = 0; i < m->count; i++) {
		for (size_t j = 0; m->tables[i] && j < TABLE_PAGES; j++)
			free(m->tables[i]->pages[j]);
		free(m->tables[i]);
	}
	pthread_mutex_destroy(&m->lock);
	free(m);
}

static const struct device_ops memory_ops = {
	.name = "memory", .read = memory_read, .write = memory_write, .zero = memory_zero,
	.sync = memory_sync, .extents = memory_extents, .close = memory_close,
};

int device_open_memory(uint64_t size, uint32_t block_size, struct device **out)
{
	size_t count = size / TABLE_SPAN + 1;
	struct memory *m = calloc(1, sizeof(*m) + count * sizeof(m->tables[0]));

	*out = NULL;
	if (!m)
		return -ENOMEM;
	m->dev = (struct device){ &memory_ops, size, block_size, false };
	m->count = count;
	pthread_mutex_init(&m->lock, NULL);
	*out = &m->dev;
	return 0;
}

void memory_set_hook(struct device *memory, memory_hook *hook, void *opaque)
{
	of(memory)->hook = hook;
	of(memory)->opaque = opaque;
}

uint64_t memory_stored(struct device *memory)
{
	return of(memory)->stored;
}
