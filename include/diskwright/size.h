/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sizes as people write and read them. */
#ifndef DISKWRIGHT_SIZE_H
#define DISKWRIGHT_SIZE_H

#include <stdint.h>

enum dw_size_kind {
	DW_SIZE_BYTES,   /* value: bytes, absolute */
	DW_SIZE_PLUS,    /* +value bytes */
	DW_SIZE_MINUS,   /* -value bytes */
	DW_SIZE_PERCENT, /* value: percent, 0..100 */
	DW_SIZE_MAX,
	DW_SIZE_MIN,
};

struct dw_size {
	enum dw_size_kind kind;
	uint64_t value;
};

/*
 * Parse "512", "10M" and "10MiB" (2^20), "10MB" (10^6), "+2G", "-500M",
 * "50%", "max", "min"; fractions ("1.5G") are allowed with a unit.
 * 0, -EINVAL (not a size) or -ERANGE (does not fit 64 bits).
 */
int dw_size_parse(const char *text, struct dw_size *out);

/* "30.1 GiB"; at most 12 bytes with the NUL, for any BYTES. */
#define DW_SIZE_TEXT 16
const char *dw_size_format(uint64_t bytes, char text[DW_SIZE_TEXT]);

#endif
