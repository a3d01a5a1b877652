/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <stdlib.h>

#include "core/bytes.h"
#include "exec/order.h"

#define OFFSET_OF_STATE 40

/* A broken rule is a bug that could cost data: stop before the write. */
static void rule(bool holds)
{
	if (!holds)
		abort();
}

static struct order *of_disk(struct device *dev)
{
	return (struct order *)((char *)dev - offsetof(struct order, disk));
}

static struct order *of_journal(struct device *dev)
{
	return (struct order *)((char *)dev - offsetof(struct order, journal_dev));
}

static bool touches_guard(const struct journal_header *h, uint64_t offset, uint64_t length)
{
	for (uint32_t i = 0; i < h->guard_count; i++)
		if (offset < h->guards[i].offset + h->guards[i].length &&
		    h->guards[i].offset < offset + length)
			return true;
	return false;
}

static void disk_rules(struct order *o, uint64_t offset, uint64_t length)
{
	bool guard = touches_guard(&o->journal->header, offset, length);

	rule(!o->dead);
	rule(!o->journal_dirty && !o->header_dirty);
	switch (o->durable) {
	case JOURNAL_SEALED:
	case JOURNAL_UNDOING:
	case JOURNAL_FINALIZING:
	case JOURNAL_RESTORING:
		rule(guard);
		break;
	case JOURNAL_RUNNING:
	case JOURNAL_ROLLING_BACK:
		rule(!guard);
		break;
	default:
		rule(false);
	}
	o->disk_dirty = true;
}

static int disk_read(struct device *dev, void *buffer, size_t length, uint64_t offset)
{
	return device_read(of_disk(dev)->disk_below, buffer, length, offset);
}

static int disk_write(struct device *dev, const void *buffer, size_t length, uint64_t offset)
{
	disk_rules(of_disk(dev), offset, length);
	return device_write(of_disk(dev)->disk_below, buffer, length, offset);
}

static int disk_zero(struct device *dev, uint64_t offset, uint64_t length)
{
	disk_rules(of_disk(dev), offset, length);
	return device_zero(of_disk(dev)->disk_below, offset, length);
}

static int disk_sync(struct device *dev)
{
	struct order *o = of_disk(dev);
	int r;

	rule(!o->dead);
	r = device_sync(o->disk_below);
	o->dead = r < 0;
	if (r == 0)
		o->disk_dirty = false;
	return r;
}

static int disk_extents(struct device *dev, uint64_t offset, uint64_t length, device_extent_fn *fn,
			void *opaque)
{
	return device_extents(of_disk(dev)->disk_below, offset, length, fn, opaque);
}

static int disk_drop_cache(struct device *dev, uint64_t offset, uint64_t length)
{
	return device_drop_cache(of_disk(dev)->disk_below, offset, length);
}

static const struct device_ops disk_ops = {
	.name = "order(disk)", .read = disk_read, .write = disk_write, .zero = disk_zero,
	.sync = disk_sync, .extents = disk_extents, .drop_cache = disk_drop_cache,
};

static int journal_read(struct device *dev, void *buffer, size_t length, uint64_t offset)
{
	return device_read(of_journal(dev)->journal_below, buffer, length, offset);
}

static int journal_write(struct device *dev, const void *buffer, size_t length, uint64_t offset)
{
	struct order *o = of_journal(dev);

	rule(!o->dead);
	if (offset < JOURNAL_BODY_OFFSET) {
		int slot = offset / JOURNAL_SLOT_SIZE;

		rule(!o->disk_dirty && !o->journal_dirty && !o->header_dirty);
		rule(slot != o->newest);
		o->header_dirty = true;
		o->pending_slot = slot;
		o->pending = get32((const uint8_t *)buffer + OFFSET_OF_STATE);
	} else {
		rule(!o->header_dirty);
		o->journal_dirty = true;
	}
	return device_write(o->journal_below, buffer, length, offset);
}

static int journal_sync(struct device *dev)
{
	struct order *o = of_journal(dev);
	int r;

	rule(!o->dead);
	r = device_sync(o->journal_below);
	o->dead = r < 0;
	if (r < 0)
		return r;
	if (o->header_dirty) {
		o->durable = o->pending;
		o->newest = o->pending_slot;
	}
	o->header_dirty = o->journal_dirty = false;
	return 0;
}

static const struct device_ops journal_ops = {
	.name = "order(journal)", .read = journal_read, .write = journal_write,
	.sync = journal_sync,
};

void order_begin(struct order *o, struct device *disk, struct journal *journal)
{
	*o = (struct order){
		.disk = { &disk_ops, disk->size, 1, false },
		.journal_dev = { &journal_ops, journal->dev->size, 1, false },
		.disk_below = disk,
		.journal_below = journal->dev,
		.journal = journal,
		.durable = journal->header.state,
		.newest = journal->newest,
	};
	journal->dev = &o->journal_dev;
}

void order_end(struct order *o)
{
	o->journal->dev = o->journal_below;
}
