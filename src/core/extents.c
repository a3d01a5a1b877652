/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "core/extents.h"

static uint64_t end_of(const struct extent *e)
{
	return e->offset + e->length;
}

size_t extents_find(const struct extents *x, uint64_t offset)
{
	size_t low = 0, high = x->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (end_of(&x->list[middle]) > offset)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Replace COUNT entries from INDEX on by the N in WITH. */
static int splice(struct extents *x, size_t index, size_t count, const struct extent *with, size_t n)
{
	size_t wanted = x->count - count + n;

	if (wanted > x->capacity) {
		size_t capacity = wanted + wanted / 2 + 16;
		struct extent *list = reallocarray(x->list, capacity, sizeof(*list));

		if (!list)
			return -ENOMEM;
		x->list = list;
		x->capacity = capacity;
	}
	if (n != count)
		memmove(x->list + index + n, x->list + index + count,
			(x->count - index - count) * sizeof(*x->list));
	if (n)
		memcpy(x->list + index, with, n * sizeof(*with));
	x->count = wanted;
	return 0;
}

/* Append E; if it continues the one before with the same value, that grows. */
static size_t append(struct extent *list, size_t n, struct extent e)
{
	if (n && list[n - 1].value == e.value && end_of(&list[n - 1]) == e.offset) {
		list[n - 1].length += e.length;
		return n;
	}
	list[n] = e;
	return n + 1;
}

/*
 * What is left of the extents that the range cuts, and the new one between
 * them (none if VALUE is NULL), take the place of all that it touches.
 */
static int replace(struct extents *x, uint64_t offset, uint64_t length, const uint32_t *value)
{
	size_t first = extents_find(x, offset), last, n = 0;
	struct extent with[3], rest;
	uint64_t end;

	if (length == 0)
		return 0;
	if (checked_add(offset, length, &end) < 0)
		return -EOVERFLOW;
	/* The neighbours that only touch the range are looked at too, to merge with. */
	if (first > 0 && end_of(&x->list[first - 1]) == offset)
		first--;
	last = first;
	while (last < x->count && x->list[last].offset <= end)
		last++;
	if (first < last && x->list[first].offset < offset) {
		rest = x->list[first];
		rest.length = offset - rest.offset;
		n = append(with, n, rest);
	}
	if (value)
		n = append(with, n, (struct extent){ offset, length, *value });
	if (first < last && end_of(&x->list[last - 1]) > end) {
		rest = x->list[last - 1];
		rest.length = end_of(&rest) - end;
		rest.offset = end;
		n = append(with, n, rest);
	}
	return splice(x, first, last - first, with, n);
}

int extents_set(struct extents *x, uint64_t offset, uint64_t length, uint32_t value)
{
	return replace(x, offset, length, &value);
}

int extents_remove(struct extents *x, uint64_t offset, uint64_t length)
{
	return replace(x, offset, length, NULL);
}

void extents_free(struct extents *x)
{
	free(x->list);
	*x = (struct extents){ 0 };
}
