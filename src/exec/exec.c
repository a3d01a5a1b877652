/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "exec/internal.h"

static int set_state(struct run *run, enum journal_state state, uint32_t step)
{
	return journal_set_state(run->journal, state, step, run->report);
}

static int resize_to(struct run *run, uint64_t size)
{
	struct exec *x = run->exec;
	int r;

	if (x->disk->size == size)
		return 0;
	r = x->resize ? x->resize(x->opaque, size) : -ENOTSUP;
	if (r < 0)
		return dw_fail(run->report, DW_UNFINISHED, -r, "cannot change the image's length: %s",
			       strerror(-r));
	run->disk->size = x->disk->size;
	return 0;
}

/* The old length is needed as long as old content may be behind the new end. */
static int resize_up(struct run *run)
{
	struct journal_header *h = &run->journal->header;
	uint64_t size = h->old_size > h->new_size ? h->old_size : h->new_size;

	return resize_to(run, size);
}

/* ---- checks that precede the first write ----------------------------- */

static int check_identity(struct run *run)
{
	struct journal_header *h = &run->journal->header;
	uint8_t bytes[GUARD_LENGTH_MAX], digest[DIGEST_SIZE];
	uint64_t size = run->disk->size;
	int r;

	if (size != h->old_size && size != h->new_size)
		return dw_fail(run->report, DW_MISMATCH, ESTALE,
			       "the disk has %llu bytes, the journal's disk %llu or %llu",
			       (unsigned long long)size, (unsigned long long)h->old_size,
			       (unsigned long long)h->new_size);
	for (uint32_t i = 0; i < h->sample_count; i++) {
		struct sample *s = &h->samples[i];

		r = device_read(run->disk, bytes, s->length, s->offset);
		if (r < 0)
			return dw_fail(run->report, DW_FAILED, -r, "cannot read the disk at %llu: %s",
				       (unsigned long long)s->offset, strerror(-r));
		digest_of(bytes, s->length, digest);
		if (memcmp(digest, s->digest, DIGEST_SIZE) != 0)
			return dw_fail(run->report, DW_MISMATCH, ESTALE,
				       "this is not the journal's disk: byte %llu differs",
				       (unsigned long long)s->offset);
	}
	return 0;
}

/* Every frame that this run will need is sound. */
static int verify_frames(struct run *run, enum frame_type type, uint32_t first, uint32_t last)
{
	int r = 0;

	for (uint32_t k = first; k <= last && r == 0; k++)
		r = journal_verify(run->journal, type, k, run->report);
	return r;
}

static int check_steps(struct run *run, uint32_t first, uint32_t last, enum expect expect)
{
	int r = 0;

	for (uint32_t k = first; k <= last && r == 0; k++)
		r = step_check(run, k, expect);
	return r;
}

/*
 * The cancel rule, and the way back from SEALED: nothing but guards can have
 * been written.  That this is so is checked where any guard was, so that a
 * journal that has lost its newest header cannot pass a half-written disk off
 * as the old one.
 */
static int drop_sealed(struct run *run)
{
	int r = guards_are(run, GUARD_OLD);

	if (r < 0 && r != -ESTALE)
		return r;
	if (r == 0) {
		r = check_steps(run, 1, run->journal->header.steps, EXPECT_OLD);
		if (r < 0)
			return r;
	}
	r = guards_down(run, GUARD_OLD);
	return r < 0 ? r : set_state(run, JOURNAL_ROLLED_BACK, 0);
}

static int cancelled(struct run *run, const char *what)
{
	return dw_fail(run->report, DW_MISMATCH, ESTALE,
		       "the disk was used by another system before %s began; it was dropped, nothing had been written",
		       what);
}

/* ---- forward --------------------------------------------------------- */

static int begin_step(struct run *run, uint32_t k)
{
	bool sealed = run->journal->header.state == JOURNAL_SEALED;
	int r;

	if (sealed) {
		r = guards_are(run, GUARD_OLD);
		if (r == -ESTALE) {
			r = drop_sealed(run);
			return r < 0 ? r : cancelled(run, "the operation");
		}
		if (r < 0)
			return r;
	}
	r = step_save_preimages(run, k);
	if (r == 0 && sealed)
		r = guards_up(run, GUARD_OLD);
	return r < 0 ? r : set_state(run, JOURNAL_RUNNING, k);
}

static int finish_forward(struct run *run)
{
	struct journal_header *h = &run->journal->header;
	int r = guards_down(run, GUARD_FINAL);

	if (r == 0)
		r = resize_to(run, h->new_size);
	if (r == 0) {
		h->flags = 0;
		r = set_state(run, JOURNAL_DONE, 0);
	}
	return r;
}

static int call_off_undo(struct run *run)
{
	int r = guards_down(run, GUARD_FINAL);

	run->journal->header.flags = 0;
	return r < 0 ? r : set_state(run, JOURNAL_DONE, 0);
}

static int run_steps(struct run *run, uint32_t first, bool begun)
{
	uint32_t steps = run->journal->header.steps;
	int r = 0;

	for (uint32_t k = first; k <= steps && r == 0; k++, begun = false) {
		if (!begun)
			r = begin_step(run, k);
		if (r == 0)
			r = resize_up(run);
		if (r == 0)
			r = step_write(run, k, FRAME_DATA);
	}
	if (r == 0)
		r = set_state(run, JOURNAL_FINALIZING, steps);
	return r < 0 ? r : finish_forward(run);
}

static int restore_finish(struct run *run)
{
	int r = guards_down(run, GUARD_OLD);

	if (r == 0)
		r = resize_to(run, run->journal->header.old_size);
	if (r == 0) {
		run->journal->header.flags = 0;
		r = set_state(run, JOURNAL_ROLLED_BACK, 0);
	}
	return r;
}

static int forward(struct run *run)
{
	struct journal_header *h = &run->journal->header;
	uint32_t k = h->step;
	int r = 0;

	switch (h->state) {
	case JOURNAL_DONE:
		return 0;
	case JOURNAL_UNDOING:
		return call_off_undo(run);
	case JOURNAL_FINALIZING:
		return finish_forward(run);
	case JOURNAL_RESTORING:
		r = restore_finish(run);
		/* fall through */
	case JOURNAL_ROLLED_BACK:
		if (r == 0)
			r = set_state(run, JOURNAL_SEALED, 0);
		/* fall through */
	case JOURNAL_SEALED:
		if (r == 0)
			r = verify_frames(run, FRAME_DATA, 1, h->steps);
		return r < 0 ? r : run_steps(run, 1, false);
	case JOURNAL_RUNNING:
	case JOURNAL_ROLLING_BACK:
		r = verify_frames(run, FRAME_DATA, k, h->steps);
		/* An undo of a cut begins by making the disk long again. */
		if (r == 0)
			r = resize_up(run);
		if (r == 0)
			r = step_check(run, k, EXPECT_MIX);
		if (r == 0 && h->state == JOURNAL_ROLLING_BACK) {
			h->flags = 0;
			r = set_state(run, JOURNAL_RUNNING, k);
		}
		return r < 0 ? r : run_steps(run, k, true);
	default:
		return dw_fail(run->report, DW_FAILED, EBADMSG, "the journal is in no state to go on from");
	}
}

/* ---- backward -------------------------------------------------------- */

static int roll_back_steps(struct run *run, uint32_t first)
{
	int r = resize_up(run);

	for (uint32_t k = first; k >= 1 && r == 0; k--) {
		r = step_write(run, k, FRAME_PREIMAGE);
		if (r == 0 && k > 1)
			r = set_state(run, JOURNAL_ROLLING_BACK, k - 1);
	}
	if (r == 0)
		r = set_state(run, JOURNAL_RESTORING, 0);
	return r < 0 ? r : restore_finish(run);
}

/* From UNDOING: guards up, then all steps back. */
static int undo_begin(struct run *run)
{
	uint32_t steps = run->journal->header.steps;
	int r = guards_up(run, GUARD_FINAL);

	if (r == -ESTALE) {
		r = call_off_undo(run);
		return r < 0 ? r : cancelled(run, "the undo");
	}
	if (r == 0)
		r = set_state(run, JOURNAL_ROLLING_BACK, steps);
	return r < 0 ? r : roll_back_steps(run, steps);
}

static int changed_since(struct run *run)
{
	dw_report_clear(run->report);
	return dw_fail(run->report, DW_MISMATCH, ESTALE,
		       "the disk has been changed since the operation; it cannot be undone");
}

/* From DONE: the disk must hold exactly what was written. */
static int undo(struct run *run, bool flag)
{
	struct journal_header *h = &run->journal->header;
	int r = guards_are(run, GUARD_FINAL);

	if (r == 0 || r == -ESTALE || run->disk->size != h->new_size)
		return changed_since(run);
	if (r < 0)
		return r;
	r = verify_frames(run, FRAME_PREIMAGE, 1, h->steps);
	if (r == 0)
		r = check_steps(run, 1, h->steps, EXPECT_NEW);
	if (r == -ESTALE)
		return changed_since(run);
	if (r < 0)
		return r;
	h->flags = flag ? JOURNAL_FLAG_UNDO : 0;
	r = set_state(run, JOURNAL_UNDOING, h->steps);
	return r < 0 ? r : undo_begin(run);
}

static int backward(struct run *run, bool flag)
{
	struct journal_header *h = &run->journal->header;
	uint32_t k = h->step;
	int r;

	switch (h->state) {
	case JOURNAL_ROLLED_BACK:
		return 0;
	case JOURNAL_SEALED:
		return drop_sealed(run);
	case JOURNAL_FINALIZING:
		/* Not forward for one who wants to go back, and then cannot. */
		r = verify_frames(run, FRAME_PREIMAGE, 1, h->steps);
		if (r == 0)
			r = verify_frames(run, FRAME_DATA, 1, h->steps);
		if (r == 0)
			r = finish_forward(run);
		return r < 0 ? r : undo(run, flag);
	case JOURNAL_DONE:
		return undo(run, flag);
	case JOURNAL_UNDOING:
		return undo_begin(run);
	case JOURNAL_RESTORING:
		return restore_finish(run);
	case JOURNAL_RUNNING:
	case JOURNAL_ROLLING_BACK:
		r = verify_frames(run, FRAME_PREIMAGE, 1, k);
		if (r == 0)
			r = resize_up(run);
		if (r == 0)
			r = check_steps(run, 1, k - 1, EXPECT_NEW);
		if (r == 0)
			r = step_check(run, k, EXPECT_MIX);
		if (r == 0 && h->state == JOURNAL_RUNNING)
			r = set_state(run, JOURNAL_ROLLING_BACK, k);
		return r < 0 ? r : roll_back_steps(run, k);
	default:
		return dw_fail(run->report, DW_FAILED, EBADMSG, "the journal is in no state to go back from");
	}
}

/* ---- entry ----------------------------------------------------------- */

static int with_run(struct exec *x, int (*go)(struct run *run, bool flag), bool flag)
{
	struct run run = { .exec = x, .journal = x->journal, .report = x->report };
	int r;

	run.buffer = malloc(RUN_BUFFER);
	if (!run.buffer)
		return -ENOMEM;
	order_begin(&run.order, x->disk, x->journal);
	run.disk = &run.order.disk;
	r = check_identity(&run);
	if (r == 0)
		r = go(&run, flag);
	order_end(&run.order);
	free(run.buffer);
	return r;
}

static int go_forward(struct run *run, bool flag)
{
	return forward(run);
}

int exec_forward(struct exec *x)
{
	return with_run(x, go_forward, false);
}

int exec_backward(struct exec *x, bool undo)
{
	return with_run(x, backward, undo);
}
