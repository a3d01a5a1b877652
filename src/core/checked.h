/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sums and products of numbers that come from a disk. */
#ifndef DW_CHECKED_H
#define DW_CHECKED_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

/* *SUM = A + B.  0, or -EOVERFLOW (*SUM is then meaningless). */
static inline int checked_add(uint64_t a, uint64_t b, uint64_t *sum)
{
	return __builtin_add_overflow(a, b, sum) ? -EOVERFLOW : 0;
}

/* *PRODUCT = A * B.  0, or -EOVERFLOW (*PRODUCT is then meaningless). */
static inline int checked_mul(uint64_t a, uint64_t b, uint64_t *product)
{
	return __builtin_mul_overflow(a, b, product) ? -EOVERFLOW : 0;
}

/* Does [offset, offset + length) lie inside [0, size)?  Any numbers will do. */
static inline bool range_is_inside(uint64_t offset, uint64_t length, uint64_t size)
{
	return offset <= size && length <= size - offset;
}

#endif
