/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A sorted list of disjoint extents with a small value each; neighbours with
 * the same value are merged. */
#ifndef DW_EXTENTS_H
#define DW_EXTENTS_H

#include <stddef.h>
#include <stdint.h>

struct extent {
	uint64_t offset, length; /* bytes */
	uint32_t value;
};

struct extents {
	struct extent *list; /* ascending, disjoint */
	size_t count, capacity;
};

/*
 * Set [offset, offset + length) to VALUE, over what was there.  0, -ENOMEM or
 * -EOVERFLOW (the range ends behind 2^64); the list is then as it was.
 */
int extents_set(struct extents *x, uint64_t offset, uint64_t length, uint32_t value);

/* Take [offset, offset + length) out.  Returns as extents_set(). */
int extents_remove(struct extents *x, uint64_t offset, uint64_t length);

/* Index of the first extent that ends after OFFSET; x->count when none does. */
size_t extents_find(const struct extents *x, uint64_t offset);

/* Frees the list, not X. */
void extents_free(struct extents *x);

#endif
