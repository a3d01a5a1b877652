/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Numbers that look random and are the same in every run. */
#ifndef RANDOM_H
#define RANDOM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct random {
	uint64_t state; /* any seed */
};

static inline uint64_t random_next(struct random *random)
{
	uint64_t z = random->state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* 0 .. LIMIT - 1 */
static inline uint64_t random_below(struct random *random, uint64_t limit)
{
	return random_next(random) % limit;
}

static inline void random_fill(struct random *random, void *buffer, size_t length)
{
	uint8_t *p = buffer;
	uint64_t bits;

	for (size_t n; length > 0; p += n, length -= n) {
		n = length < sizeof(bits) ? length : sizeof(bits);
		bits = random_next(random) | 0x0101010101010101u; /* no byte is 0 */
		memcpy(p, &bits, n);
	}
}

#endif
