/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The dispatcher: every check, the descent through transparent layers, and
 * the one read-modify-write.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "device/device.h"

#define BLOCK_MAX 4096
#define ZERO_BUFFER 65536

static int check_range(const struct device *dev, uint64_t offset, uint64_t length)
{
	return range_is_inside(offset, length, dev->size) ? 0 : -EINVAL;
}

/* What is done with a run of a transparent layer, one level down. */
typedef int run_fn(void *opaque, struct device *lower, uint64_t lower_offset, uint64_t offset,
		   uint64_t length);

static int each_run(struct device *dev, uint64_t offset, uint64_t length, run_fn *fn, void *opaque)
{
	uint64_t done = 0, run, lower_offset;
	struct device *lower;
	int r = 0;

	if (!dev->ops->map)
		return -ENOTSUP;
	while (done < length && r == 0) {
		r = dev->ops->map(dev, offset + done, &lower, &lower_offset, &run);
		if (r == 0) {
			if (run > length - done)
				run = length - done;
			r = fn(opaque, lower, lower_offset, done, run);
			done += run;
		}
	}
	return r;
}

/* ---- read and write --------------------------------------------------- */

static int read_run(void *buffer, struct device *lower, uint64_t lower_offset, uint64_t offset,
		    uint64_t length)
{
	return device_read(lower, (char *)buffer + offset, length, lower_offset);
}

static int write_run(void *buffer, struct device *lower, uint64_t lower_offset, uint64_t offset,
		     uint64_t length)
{
	return device_write(lower, (const char *)buffer + offset, length, lower_offset);
}

/* The block that OFFSET lies in; the last one may be short. */
static uint32_t block_around(const struct device *dev, uint64_t offset, uint64_t *start)
{
	*start = offset - offset % dev->block_size;
	return dev->size - *start < dev->block_size ? dev->size - *start : dev->block_size;
}

/*
 * The part of a transfer that lies in one block, through a whole block.  Two
 * threads that write parts of the same block must take turns.
 */
static int partial(struct device *dev, void *buffer, size_t length, uint64_t offset, bool write)
{
	uint8_t block[BLOCK_MAX];
	uint64_t start;
	uint32_t size = block_around(dev, offset, &start);
	int r = device_read(dev, block, size, start);

	if (r < 0)
		return r;
	if (!write) {
		memcpy(buffer, block + (offset - start), length);
		return 0;
	}
	memcpy(block + (offset - start), buffer, length);
	return dev->ops->write(dev, block, size, start);
}

static int transfer(struct device *dev, void *buffer, size_t length, uint64_t offset, bool write)
{
	char *p = buffer;
	int r = 0;

	while (length > 0 && r == 0) {
		uint64_t in_block = offset % dev->block_size;
		size_t n;

		if (in_block || (length < dev->block_size && offset + length < dev->size)) {
			n = dev->block_size - in_block < length ? dev->block_size - in_block : length;
			r = partial(dev, p, n, offset, write);
		} else {
			n = offset + length == dev->size ? length : length - length % dev->block_size;
			r = write ? dev->ops->write(dev, p, n, offset) : dev->ops->read(dev, p, n, offset);
		}
		p += n;
		offset += n;
		length -= n;
	}
	return r;
}

int device_read(struct device *dev, void *buffer, size_t length, uint64_t offset)
{
	int r = check_range(dev, offset, length);

	if (r < 0 || length == 0)
		return r;
	return dev->ops->read ? transfer(dev, buffer, length, offset, false)
			      : each_run(dev, offset, length, read_run, buffer);
}

int device_write(struct device *dev, const void *buffer, size_t length, uint64_t offset)
{
	int r = check_range(dev, offset, length);

	if (r == 0 && dev->read_only)
		r = -EROFS;
	if (r < 0 || length == 0)
		return r;
	return dev->ops->write ? transfer(dev, (void *)buffer, length, offset, true)
			       : each_run(dev, offset, length, write_run, (void *)buffer);
}

/* ---- zero ------------------------------------------------------------- */

static int zero_by_writing(struct device *dev, uint64_t offset, uint64_t length)
{
	char *zeros = calloc(1, ZERO_BUFFER);
	int r = zeros ? 0 : -ENOMEM;

	while (length > 0 && r == 0) {
		size_t n = length < ZERO_BUFFER ? length : ZERO_BUFFER;

		r = device_write(dev, zeros, n, offset);
		offset += n;
		length -= n;
	}
	free(zeros);
	return r;
}

static int zero_run_below(void *opaque, struct device *lower, uint64_t lower_offset, uint64_t offset,
			  uint64_t length)
{
	return device_zero(lower, lower_offset, length);
}

int device_zero(struct device *dev, uint64_t offset, uint64_t length)
{
	uint64_t head, tail, end = offset + length;
	int r = check_range(dev, offset, length);

	if (r == 0 && dev->read_only)
		r = -EROFS;
	if (r < 0 || length == 0)
		return r;
	if (!dev->ops->zero)
		return dev->ops->map ? each_run(dev, offset, length, zero_run_below, NULL)
				     : zero_by_writing(dev, offset, length);
	head = offset % dev->block_size ? dev->block_size - offset % dev->block_size : 0;
	tail = end == dev->size ? 0 : end % dev->block_size;
	if (head + tail >= length)
		return zero_by_writing(dev, offset, length);
	if (head)
		r = zero_by_writing(dev, offset, head);
	if (r == 0)
		r = dev->ops->zero(dev, offset + head, length - head - tail);
	if (r == 0 && tail)
		r = zero_by_writing(dev, end - tail, tail);
	return r;
}

/* ---- sync, extents, cache --------------------------------------------- */

static int sync_run(void *opaque, struct device *lower, uint64_t lower_offset, uint64_t offset,
		    uint64_t length)
{
	struct device **last = opaque;

	if (*last == lower)
		return 0;
	*last = lower;
	return device_sync(lower);
}

int device_sync(struct device *dev)
{
	struct device *last = NULL;

	return dev->ops->sync ? dev->ops->sync(dev) : each_run(dev, 0, dev->size, sync_run, &last);
}

struct shifted {
	device_extent_fn *fn;
	void *opaque;
	uint64_t from, to; /* where the lower range starts, and where it lies here */
};

static int shifted_extent(void *opaque, uint64_t offset, uint64_t length, enum device_extent_kind kind)
{
	struct shifted *s = opaque;

	return s->fn(s->opaque, offset - s->from + s->to, length, kind);
}

static int extents_run(void *opaque, struct device *lower, uint64_t lower_offset, uint64_t offset,
		       uint64_t length)
{
	struct shifted *up = opaque;
	struct shifted s = { up->fn, up->opaque, lower_offset, up->to + offset };

	return device_extents(lower, lower_offset, length, shifted_extent, &s);
}

int device_extents(struct device *dev, uint64_t offset, uint64_t length, device_extent_fn *fn,
		   void *opaque)
{
	struct shifted s = { fn, opaque, 0, offset };
	int r = check_range(dev, offset, length);

	if (r < 0 || length == 0)
		return r;
	if (dev->ops->extents)
		return dev->ops->extents(dev, offset, length, fn, opaque);
	return dev->ops->map ? each_run(dev, offset, length, extents_run, &s)
			     : fn(opaque, offset, length, DEVICE_DATA);
}

static int drop_run(void *opaque, struct device *lower, uint64_t lower_offset, uint64_t offset,
		    uint64_t length)
{
	return device_drop_cache(lower, lower_offset, length);
}

int device_drop_cache(struct device *dev, uint64_t offset, uint64_t length)
{
	int r = check_range(dev, offset, length);

	if (r < 0 || length == 0)
		return r;
	if (dev->ops->drop_cache)
		return dev->ops->drop_cache(dev, offset, length);
	return dev->ops->map ? each_run(dev, offset, length, drop_run, NULL) : 0;
}

void device_close(struct device *dev)
{
	if (dev)
		dev->ops->close(dev);
}
