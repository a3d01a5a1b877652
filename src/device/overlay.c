/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The view.  Written blocks lie in sparse files at the offsets they have on
 * the disk, one file per 4 TiB (no filesystem's limit is met); which ranges
 * those are, and which are zeros without a file behind them, is in an extent
 * list.  FUSE's threads and the planner use it at once: one lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/extents.h"
#include "core/zero.h"
#include "device/device.h"

#define BLOCK 512
#define ZERO_UNIT 4096
#define SPOOL_SHIFT 42
#define BUFFER (1024 * 1024)

enum holder {
	HELD_DATA, /* in a file here */
	HELD_ZERO,
	HELD_BELOW, /* not written: never in the extent list */
};

struct overlay {
	struct device dev;
	struct device *lower;
	char *directory;
	struct extents held;
	pthread_mutex_t lock;
	size_t spools;
	int *spool; /* by offset >> SPOOL_SHIFT; negative: not opened yet */
};

static struct overlay *of(struct device *dev)
{
	return (struct overlay *)dev;
}

/* ---- the files -------------------------------------------------------- */

/* A file without a name, so that nothing is left behind however this ends. */
static int spool_create(const char *directory)
{
	int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
	char name[PATH_MAX];

	if (fd >= 0)
		return fd;
	/* Filesystems, and kernels, that do not know such files. */
	if (errno != EOPNOTSUPP && errno != EISDIR)
		return -errno;
	if (snprintf(name, sizeof(name), "%s/diskwright-view-XXXXXX", directory) >= (int)sizeof(name))
		return -ENAMETOOLONG;
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(name);
	return fd;
}

static int spool_open(struct overlay *o, uint64_t offset)
{
	int *fd = &o->spool[offset >> SPOOL_SHIFT];

	if (*fd < 0)
		*fd = spool_create(o->directory);
	return *fd;
}

static int spool_transfer(struct overlay *o, void *buffer, size_t length, uint64_t offset, bool write)
{
	const uint64_t spool_size = 1ull << SPOOL_SHIFT;
	char *p = buffer;

	while (length > 0) {
		int fd = spool_open(o, offset);
		uint64_t at = offset % spool_size;
		size_t run = length < spool_size - at ? length : spool_size - at;
		ssize_t n;

		if (fd < 0)
			return fd;
		n = write ? pwrite(fd, p, run, at) : pread(fd, p, run, at);
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

/* ---- the layer -------------------------------------------------------- */

/* Who holds OFFSET, and up to where (at most END). */
static enum holder held_at(struct overlay *o, uint64_t offset, uint64_t end, uint64_t *run)
{
	enum holder holder = HELD_BELOW;
	uint64_t to = end;
	size_t i;

	pthread_mutex_lock(&o->lock);
	i = extents_find(&o->held, offset);
	if (i < o->held.count) {
		const struct extent *e = &o->held.list[i];
		bool here = e->offset <= offset;

		if (here)
			holder = e->value;
		to = here ? e->offset + e->length : e->offset;
	}
	pthread_mutex_unlock(&o->lock);
	*run = (to < end ? to : end) - offset;
	return holder;
}

static int lower_read(struct overlay *o, char *p, uint64_t length, uint64_t offset)
{
	uint64_t there = offset >= o->lower->size ? 0 : o->lower->size - offset;

	if (there > length)
		there = length;
	memset(p + there, 0, length - there);
	return there ? device_read(o->lower, p, there, offset) : 0;
}

/*
 * Without the lock while data moves: a file once open stays open, so that a
 * slow disk below holds up only those who read it.
 */
static int overlay_read(struct device *dev, void *buffer, size_t length, uint64_t offset)
{
	struct overlay *o = of(dev);
	uint64_t end = offset + length, run;
	char *p = buffer;
	int r = 0;

	for (; offset < end && r == 0; offset += run, p += run) {
		switch (held_at(o, offset, end, &run)) {
		case HELD_DATA:
			r = spool_transfer(o, p, run, offset, false);
			break;
		case HELD_ZERO:
			memset(p, 0, run);
			break;
		case HELD_BELOW:
			r = lower_read(o, p, run, offset);
			break;
		}
	}
	return r;
}

static int overlay_write(struct device *dev, const void *buffer, size_t length, uint64_t offset)
{
	struct overlay *o = of(dev);
	const char *p = buffer;
	int r = 0;

	pthread_mutex_lock(&o->lock);
	while (length > 0 && r == 0) {
		bool zero;
		size_t n = zero_run(p, length, ZERO_UNIT, &zero);

		if (!zero)
			r = spool_transfer(o, (void *)p, n, offset, true);
		if (r == 0)
			r = extents_set(&o->held, offset, n, zero ? HELD_ZERO : HELD_DATA);
		p += n;
		offset += n;
		length -= n;
	}
	pthread_mutex_unlock(&o->lock);
	return r;
}

static int overlay_zero(struct device *dev, uint64_t offset, uint64_t length)
{
	int r;

	pthread_mutex_lock(&of(dev)->lock);
	r = extents_set(&of(dev)->held, offset, length, HELD_ZERO);
	pthread_mutex_unlock(&of(dev)->lock);
	return r;
}

/* A rehearsal need not survive a power cut. */
static int overlay_sync(struct device *dev)
{
	return 0;
}

static int overlay_extents(struct device *dev, uint64_t offset, uint64_t length, device_extent_fn *fn,
			   void *opaque)
{
	struct overlay *o = of(dev);
	uint64_t end = offset + length, run;
	int r = 0;

	for (; offset < end && r == 0; offset += run) {
		enum holder holder = held_at(o, offset, end, &run);

		if (holder != HELD_BELOW) {
			r = fn(opaque, offset, run, holder == HELD_DATA ? DEVICE_DATA : DEVICE_ZERO);
		} else if (offset >= o->lower->size) {
			r = fn(opaque, offset, run, DEVICE_ZERO);
		} else {
			if (run > o->lower->size - offset)
				run = o->lower->size - offset;
			r = device_extents(o->lower, offset, run, fn, opaque);
		}
	}
	return r;
}

static void overlay_close(struct device *dev)
{
	struct overlay *o = of(dev);

	for (size_t i = 0; i < o->spools; i++)
		if (o->spool[i] >= 0)
			close(o->spool[i]);
	extents_free(&o->held);
	pthread_mutex_destroy(&o->lock);
	free(o->spool);
	free(o->directory);
	free(o);
}

static const struct device_ops overlay_ops = {
	.name = "overlay", .read = overlay_read, .write = overlay_write, .zero = overlay_zero,
	.sync = overlay_sync, .extents = overlay_extents, .close = overlay_close,
};

int device_open_overlay(struct device *lower, uint64_t size, const char *directory, struct device **out)
{
	struct overlay *o = calloc(1, sizeof(*o));
	int r = -ENOMEM;

	*out = NULL;
	if (!o)
		return r;
	o->dev = (struct device){ &overlay_ops, size, BLOCK, false };
	o->lower = lower;
	pthread_mutex_init(&o->lock, NULL);
	o->directory = strdup(directory);
	o->spool = malloc(((size >> SPOOL_SHIFT) + 1) * sizeof(*o->spool));
	if (o->spool)
		for (o->spools = 0; o->spools <= size >> SPOOL_SHIFT; o->spools++)
			o->spool[o->spools] = -1;
	if (o->spool && o->directory)
		r = spool_open(o, 0); /* better to know now that nothing can be written there */
	if (r < 0) {
		overlay_close(&o->dev);
		return r;
	}
	*out = &o->dev;
	return 0;
}

uint64_t overlay_stored(struct device *dev)
{
	struct overlay *o = of(dev);
	uint64_t bytes = 0;

	pthread_mutex_lock(&o->lock);
	for (size_t i = 0; i < o->held.count; i++)
		if (o->held.list[i].value == HELD_DATA)
			bytes += o->held.list[i].length;
	pthread_mutex_unlock(&o->lock);
	return bytes;
}

/* ---- what changed ----------------------------------------------------- */

struct changes {
	struct overlay *overlay;
	uint32_t granule;
	device_extent_fn *fn;
	void *opaque;
	char *now, *before;
	uint64_t done;           /* up to here all is compared; whole granules */
	uint64_t offset, length; /* found, not reported yet */
	enum device_extent_kind kind;
};

static uint64_t granule_down(const struct changes *c, uint64_t offset)
{
	return offset - offset % c->granule;
}

/* Never behind the end of the view. */
static uint64_t granule_up(const struct changes *c, uint64_t offset)
{
	uint64_t size = c->overlay->dev.size, start = granule_down(c, offset);

	if (start == offset)
		return offset;
	return size - start < c->granule ? size : start + c->granule;
}

static int changes_flush(struct changes *c)
{
	uint64_t length = c->length;

	c->length = 0;
	return length ? c->fn(c->opaque, c->offset, length, c->kind) : 0;
}

static int changes_add(struct changes *c, uint64_t offset, uint64_t length,
		       enum device_extent_kind kind)
{
	int r;

	if (c->length && c->kind == kind && c->offset + c->length == offset) {
		c->length += length;
		return 0;
	}
	r = changes_flush(c);
	c->offset = offset;
	c->length = length;
	c->kind = kind;
	return r;
}

/* Both sides are in memory: granule by granule. */
static int compare_buffers(struct changes *c, uint64_t offset, size_t length)
{
	size_t n;
	int r = 0;

	for (size_t i = 0; i < length && r == 0; i += n) {
		n = length - i < c->granule ? length - i : c->granule;
		if (memcmp(c->now + i, c->before + i, n) != 0)
			r = changes_add(c, offset + i, n,
					is_zero(c->now + i, n) ? DEVICE_ZERO : DEVICE_DATA);
	}
	return r;
}

static int compare_to(struct changes *c, uint64_t end)
{
	size_t n;
	int r = 0;

	for (; c->done < end && r == 0; c->done += n) {
		n = end - c->done < BUFFER ? end - c->done : BUFFER;
		r = device_read(&c->overlay->dev, c->now, n, c->done);
		if (r == 0)
			r = lower_read(c->overlay, c->before, n, c->done);
		if (r == 0)
			r = compare_buffers(c, c->done, n);
	}
	return r;
}

/*
 * What lies under an extent of zeros.  Zeros over zeros need not be read,
 * where they fill whole granules; the rest is left to the next compare_to().
 */
static int under_zeros(void *opaque, uint64_t offset, uint64_t length, enum device_extent_kind kind)
{
	struct changes *c = opaque;
	uint64_t start = granule_up(c, offset), end = granule_down(c, offset + length);
	int r;

	if (kind != DEVICE_ZERO || start >= end)
		return 0;
	r = compare_to(c, start);
	c->done = end;
	return r;
}

static int held_changes(struct changes *c, const struct extent *held)
{
	struct device *lower = c->overlay->lower;
	uint64_t start = held->offset, end = start + held->length;
	uint64_t lower_end = lower->size < end ? lower->size : end;
	int r = 0;

	if (c->done < granule_down(c, start))
		c->done = granule_down(c, start);
	if (held->value == HELD_ZERO) {
		if (start < lower_end) {
			r = device_extents(lower, start, lower_end - start, under_zeros, c);
			start = lower_end;
		}
		if (r == 0)
			r = under_zeros(c, start, end - start, DEVICE_ZERO);
	}
	return r ? r : compare_to(c, granule_up(c, end));
}

int overlay_changes(struct device *dev, uint32_t granule, device_extent_fn *fn, void *opaque)
{
	struct overlay *o = of(dev);
	struct changes c = { .overlay = o, .granule = granule, .fn = fn, .opaque = opaque };
	int r = 0;

	c.now = malloc(BUFFER);
	c.before = malloc(BUFFER);
	if (!c.now || !c.before)
		r = -ENOMEM;
	for (size_t i = 0; i < o->held.count && r == 0; i++)
		r = held_changes(&c, &o->held.list[i]);
	if (r == 0)
		r = changes_flush(&c);
	free(c.now);
	free(c.before);
	return r;
}
