/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "journal/journal.h"

int journal_open(struct device *dev, struct journal *j, struct dw_report *report)
{
	uint8_t *slot = malloc(JOURNAL_SLOT_SIZE);
	bool something = false;
	int r = 0;

	memset(j, 0, sizeof(*j));
	j->dev = dev;
	j->newest = -1;
	if (!slot)
		return -ENOMEM;
	if (dev->size < JOURNAL_BODY_OFFSET) {
		r = dev->size ? -EBADMSG : -ENODATA;
		goto out;
	}
	for (int i = 0; i < 2; i++) {
		struct journal_header header;

		r = device_read(dev, slot, JOURNAL_SLOT_SIZE, (uint64_t)i * JOURNAL_SLOT_SIZE);
		if (r == 0)
			r = header_decode(slot, &header);
		if (r == -EBADMSG || r == -EIO) {
			something = j->slot_damaged = true;
		} else if (r == 0 && (j->newest < 0 || header.generation > j->header.generation)) {
			header_free(&j->header);
			j->header = header;
			j->newest = i;
		} else if (r == 0) {
			header_free(&header);
		} else if (r != -ENODATA) {
			goto out;
		}
	}
	r = j->newest >= 0 ? 0 : something ? -EBADMSG : -ENODATA;
out:
	free(slot);
	if (r == -EBADMSG)
		dw_fail(report, DW_FAILED, EBADMSG,
			"the journal is damaged: neither of its two headers can be read");
	else if (r < 0 && r != -ENODATA)
		dw_fail(report, DW_FAILED, -r, "cannot read the journal: %s", strerror(-r));
	if (r < 0)
		header_free(&j->header);
	return r;
}

void journal_release(struct journal *j)
{
	header_free(&j->header);
}

size_t journal_program_size(uint32_t steps)
{
	return frame_stored_size((uint64_t)steps * STEP_SIZE, 0);
}

static int program_decode(struct journal *j, uint8_t *buffer)
{
	uint8_t chain[DIGEST_SIZE] = { 0 };
	struct frame frame;
	int r = frame_peek(buffer, j->header.id, &frame);

	if (r < 0 || frame.type != FRAME_PROGRAM || frame.entries != 0 ||
	    frame.payload != (uint64_t)j->header.steps * STEP_SIZE)
		return -EBADMSG;
	r = frame_decode(buffer, &frame, chain, NULL);
	if (r < 0 || memcmp(chain, j->header.program_digest, DIGEST_SIZE) != 0)
		return -EBADMSG;
	for (uint32_t i = 0; i < j->header.steps; i++) {
		struct step *s = &j->steps[i];

		r = step_decode(buffer + FRAME_HEADER_SIZE + i * STEP_SIZE, s);
		if (r < 0 || s->body_offset + s->body_length > j->dev->size ||
		    s->undo_offset + s->undo_length > j->dev->size ||
		    s->body_offset < JOURNAL_BODY_OFFSET || s->undo_offset < JOURNAL_BODY_OFFSET)
			return -EBADMSG;
	}
	return 0;
}

int journal_load_program(struct journal *j, struct dw_report *report)
{
	size_t size = journal_program_size(j->header.steps);
	uint8_t *buffer = malloc(size);
	int r;

	if (!buffer)
		return -ENOMEM;
	r = j->header.program_offset > j->dev->size || j->dev->size - j->header.program_offset < size
		    ? -EBADMSG
		    : device_read(j->dev, buffer, size, j->header.program_offset);
	if (r == 0)
		r = program_decode(j, buffer);
	free(buffer);
	if (r == -EBADMSG)
		dw_fail(report, DW_FAILED, EBADMSG, "the journal's program is damaged");
	else if (r < 0)
		dw_fail(report, DW_FAILED, -r, "cannot read the journal: %s", strerror(-r));
	return r;
}

/* Write the header to SLOT and make it durable. */
static int header_write(struct journal *j, int slot, struct dw_report *report)
{
	uint8_t *bytes = malloc(JOURNAL_SLOT_SIZE);
	size_t length;
	int r;

	if (!bytes)
		return -ENOMEM;
	length = header_encode(&j->header, bytes);
	r = length == 0 ? -E2BIG
			: device_write(j->dev, bytes, length, (uint64_t)slot * JOURNAL_SLOT_SIZE);
	if (r == 0)
		r = device_sync(j->dev);
	free(bytes);
	if (r < 0)
		return dw_fail(report, DW_FAILED, -r, "cannot write the journal's header: %s",
			       strerror(-r));
	j->newest = slot;
	return 0;
}

int journal_set_state(struct journal *j, enum journal_state state, uint32_t step,
		      struct dw_report *report)
{
	struct journal_header before = j->header;
	int r;

	j->header.generation++;
	j->header.state = state;
	j->header.step = step;
	r = header_write(j, j->newest == 0 ? 1 : 0, report);
	if (r < 0) {
		j->header.generation = before.generation;
		j->header.state = before.state;
		j->header.step = before.step;
	}
	return r;
}

int journal_seal(struct journal *j, struct dw_report *report)
{
	struct frame frame = { .type = FRAME_PROGRAM, .last = true,
			       .payload = (uint64_t)j->header.steps * STEP_SIZE };
	size_t size = journal_program_size(j->header.steps);
	uint8_t *buffer = malloc(size);
	int r;

	if (!buffer)
		return -ENOMEM;
	for (uint32_t i = 0; i < j->header.steps; i++)
		step_encode(&j->steps[i], buffer + FRAME_HEADER_SIZE + i * STEP_SIZE);
	memset(j->header.program_digest, 0, DIGEST_SIZE);
	frame_encode(&frame, NULL, j->header.id, j->header.program_digest, buffer);
	r = device_write(j->dev, buffer, size, j->header.program_offset);
	if (r == 0)
		r = device_sync(j->dev);
	free(buffer);
	if (r < 0)
		return dw_fail(report, DW_FAILED, -r, "cannot write the journal: %s", strerror(-r));
	j->newest = -1;
	j->header.generation = 0;
	r = journal_set_state(j, JOURNAL_SEALED, 0, report);
	return r < 0 ? r : journal_set_state(j, JOURNAL_SEALED, 0, report);
}
