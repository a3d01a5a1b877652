/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef DW_ZERO_H
#define DW_ZERO_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Is every byte of the buffer 0? */
static inline bool is_zero(const void *buffer, size_t length)
{
	const unsigned char *p = buffer;

	return length == 0 || (p[0] == 0 && memcmp(p, p + 1, length - 1) == 0);
}

/*
 * How many bytes from the front are of one kind (all zero, or not), looked at
 * in units of GRANULE bytes; sets *ZERO.  LENGTH > 0.
 */
static inline size_t zero_run(const void *buffer, size_t length, size_t granule, bool *zero)
{
	const char *p = buffer;
	size_t done, unit;

	for (done = 0; done < length; done += unit) {
		unit = length - done < granule ? length - done : granule;
		bool z = is_zero(p + done, unit);

		if (done == 0)
			*zero = z;
		else if (z != *zero)
			break;
	}
	return done;
}

#endif
