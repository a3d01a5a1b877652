/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <string.h>

#include "exec/internal.h"

/* What stands in a guard's place. */
enum standing { STANDS_SIDE, STANDS_GUARD, STANDS_TORN, STANDS_FOREIGN };

static const uint8_t *side_image(const struct guard *g, enum guard_side side)
{
	return side == GUARD_OLD ? g->old : g->final;
}

static int guard_look(struct run *run, const struct guard *g, enum guard_side side,
		      enum standing *standing)
{
	uint8_t now[GUARD_LENGTH_MAX], up[GUARD_LENGTH_MAX];
	const uint8_t *to = side_image(g, side);
	int r = device_drop_cache(run->disk, g->offset, g->length);

	if (r == 0)
		r = device_read(run->disk, now, g->length, g->offset);
	if (r < 0)
		return dw_fail(run->report, DW_FAILED, -r, "cannot read the disk at %llu: %s",
			       (unsigned long long)g->offset, strerror(-r));
	guard_image(g, run->journal->header.id, up);
	*standing = STANDS_TORN;
	for (uint32_t i = 0; i < g->length; i++)
		if (now[i] != to[i] && now[i] != up[i])
			*standing = STANDS_FOREIGN;
	if (memcmp(now, to, g->length) == 0)
		*standing = STANDS_SIDE;
	else if (memcmp(now, up, g->length) == 0)
		*standing = STANDS_GUARD;
	return 0;
}

static int guard_write(struct run *run, const struct guard *g, const uint8_t *image)
{
	int r = device_write(run->disk, image, g->length, g->offset);

	if (r < 0)
		return dw_fail(run->report, DW_UNFINISHED, -r, "cannot write the disk at %llu: %s",
			       (unsigned long long)g->offset, strerror(-r));
	return 0;
}

static int guards_sync(struct run *run)
{
	int r = device_sync(run->disk);

	return r < 0 ? dw_fail(run->report, DW_UNFINISHED, -r, "cannot sync the disk: %s", strerror(-r))
		     : 0;
}

int guards_are(struct run *run, enum guard_side side)
{
	struct journal_header *h = &run->journal->header;
	enum standing standing;
	int result = 1, r;

	for (uint32_t i = 0; i < h->guard_count; i++) {
		r = guard_look(run, &h->guards[i], side, &standing);
		if (r < 0)
			return r;
		if (standing == STANDS_FOREIGN)
			return -ESTALE;
		if (standing != STANDS_SIDE)
			result = 0;
	}
	return result;
}

int guards_up(struct run *run, enum guard_side side)
{
	struct journal_header *h = &run->journal->header;
	uint8_t up[GUARD_LENGTH_MAX];
	enum standing standing;
	int r = guards_are(run, side);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < h->guard_count; i++) {
		r = guard_look(run, &h->guards[i], side, &standing);
		if (r == 0 && standing != STANDS_GUARD) {
			guard_image(&h->guards[i], h->id, up);
			r = guard_write(run, &h->guards[i], up);
		}
		if (r < 0)
			return r;
	}
	return guards_sync(run);
}

int guards_down(struct run *run, enum guard_side side)
{
	struct journal_header *h = &run->journal->header;
	enum standing standing;
	int r;

	for (uint32_t i = 0; i < h->guard_count; i++) {
		const struct guard *g = &h->guards[i];

		r = guard_look(run, g, side, &standing);
		if (r == 0 && (standing == STANDS_GUARD || standing == STANDS_TORN))
			r = guard_write(run, g, side_image(g, side));
		else if (r == 0 && standing == STANDS_FOREIGN)
			dw_note(run->report,
				"the superblock at %llu was written by another system meanwhile; it is left as it is",
				(unsigned long long)g->offset);
		if (r < 0)
			return r;
	}
	return guards_sync(run);
}
