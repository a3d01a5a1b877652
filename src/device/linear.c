/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A logical volume: pieces of other devices, one after the other. */
#include <errno.h>
#include <stdlib.h>

#include "core/checked.h"
#include "device/device.h"

struct linear {
	struct device dev;
	size_t count;
	struct {
		struct device_segment piece;
		uint64_t start; /* where it begins here */
	} segments[];
};

static int linear_map(struct device *dev, uint64_t offset, struct device **lower,
		      uint64_t *lower_offset, uint64_t *run)
{
	struct linear *l = (struct linear *)dev;
	size_t low = 0, high = l->count - 1;

	while (low < high) {
		size_t middle = low + (high - low + 1) / 2;

		if (l->segments[middle].start <= offset)
			low = middle;
		else
			high = middle - 1;
	}
	offset -= l->segments[low].start;
	*lower = l->segments[low].piece.lower;
	*lower_offset = l->segments[low].piece.offset + offset;
	*run = l->segments[low].piece.length - offset;
	return 0;
}

static void linear_close(struct device *dev)
{
	free(dev);
}

static const struct device_ops linear_ops = {
	.name = "linear", .map = linear_map, .close = linear_close,
};

int device_open_linear(const struct device_segment *segments, size_t count, struct device **out)
{
	struct linear *l;
	uint64_t size = 0;
	bool read_only = false;

	*out = NULL;
	if (count == 0)
		return -EINVAL;
	l = calloc(1, sizeof(*l) + count * sizeof(l->segments[0]));
	if (!l)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct device_segment *s = &segments[i];

		l->segments[i].piece = *s;
		l->segments[i].start = size;
		if (s->length == 0 || !range_is_inside(s->offset, s->length, s->lower->size) ||
		    checked_add(size, s->length, &size) < 0) {
			free(l);
			return -EINVAL;
		}
		read_only |= s->lower->read_only;
	}
	l->count = count;
	l->dev = (struct device){ &linear_ops, size, 1, read_only };
	*out = &l->dev;
	return 0;
}
