/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/zero.h"
#include "journal/journal.h"

static int buffers_allocate(struct frame_entry **entries, uint8_t **buffer)
{
	*entries = malloc(FRAME_ENTRIES * sizeof(**entries));
	*buffer = malloc(FRAME_SIZE + JOURNAL_ALIGN);
	return *entries && *buffer ? 0 : -ENOMEM;
}

/* ---- writing --------------------------------------------------------- */

int frame_writer_open(struct frame_writer *w, struct device *dev, uint64_t offset, uint64_t length,
		      enum frame_type type, uint32_t step, const uint8_t id[JOURNAL_ID_SIZE])
{
	memset(w, 0, sizeof(*w));
	w->dev = dev;
	w->start = w->position = offset;
	w->end = offset + length;
	w->frame.type = type;
	w->frame.step = step;
	memcpy(w->id, id, JOURNAL_ID_SIZE);
	return dev ? buffers_allocate(&w->entries, &w->buffer) : 0;
}

static int frame_writer_flush(struct frame_writer *w, bool last)
{
	size_t stored = frame_stored_size(w->frame.payload, w->frame.entries);
	int r = 0;

	w->frame.last = last;
	if (w->dev) {
		if (w->end - w->position < stored)
			return -ENOSPC;
		frame_encode(&w->frame, w->entries, w->id, w->chain, w->buffer);
		r = device_write(w->dev, w->buffer, stored, w->position);
	}
	w->position += stored;
	w->frame.number++;
	w->frame.entries = 0;
	w->frame.payload = 0;
	return r;
}

int frame_writer_add(struct frame_writer *w, const struct frame_entry *entry, const void *data)
{
	size_t payload = entry->kind == CONTENT_DATA ? entry->length : 0;
	int r;

	if (w->frame.entries == FRAME_ENTRIES || payload > FRAME_PAYLOAD - w->frame.payload) {
		r = frame_writer_flush(w, false);
		if (r < 0)
			return r;
	}
	if (w->dev) {
		w->entries[w->frame.entries] = *entry;
		if (payload)
			memcpy(w->buffer + FRAME_HEADER_SIZE + w->frame.payload, data, payload);
	}
	w->frame.entries++;
	w->frame.payload += payload;
	return 0;
}

int frame_writer_finish(struct frame_writer *w)
{
	return frame_writer_flush(w, true);
}

void frame_writer_close(struct frame_writer *w)
{
	free(w->entries);
	free(w->buffer);
	w->entries = NULL;
	w->buffer = NULL;
}

/* ---- reading --------------------------------------------------------- */

int content_open(struct content_cursor *c, struct journal *j, enum frame_type type, uint32_t step)
{
	const struct step *s = &j->steps[step - 1];

	memset(c, 0, sizeof(*c));
	c->journal = j;
	c->type = type;
	c->step = step;
	c->position = type == FRAME_DATA ? s->body_offset : s->undo_offset;
	c->end = c->position + (type == FRAME_DATA ? s->body_length : s->undo_length);
	return buffers_allocate(&c->entries, &c->buffer);
}

static int frame_read(struct content_cursor *c)
{
	struct device *dev = c->journal->dev;
	uint64_t number = c->begun ? c->frame.number + 1 : 0;
	size_t stored;
	int r;

	if (c->end - c->position < JOURNAL_ALIGN)
		return -EBADMSG;
	r = device_read(dev, c->buffer, FRAME_HEADER_SIZE, c->position);
	if (r == 0)
		r = frame_peek(c->buffer, c->journal->header.id, &c->frame);
	if (r < 0)
		return r;
	stored = frame_stored_size(c->frame.payload, c->frame.entries);
	if (c->frame.type != c->type || c->frame.step != c->step || c->frame.number != number ||
	    c->end - c->position < stored)
		return -EBADMSG;
	r = device_read(dev, c->buffer, stored, c->position);
	if (r == 0)
		r = frame_decode(c->buffer, &c->frame, c->chain, c->entries);
	if (r < 0)
		return r;
	if (c->type == FRAME_DATA && c->frame.last &&
	    memcmp(c->chain, c->journal->steps[c->step - 1].body_digest, DIGEST_SIZE) != 0)
		return -EBADMSG;
	c->position += stored;
	c->index = 0;
	c->payload = c->taken = 0;
	c->begun = true;
	return 0;
}

int content_peek(struct content_cursor *c, struct content *content, struct dw_report *report)
{
	const struct frame_entry *e;
	int r;

	while (!c->begun || c->index == c->frame.entries) {
		if (c->begun && c->frame.last)
			return 1;
		r = frame_read(c);
		if (r == -EBADMSG)
			return dw_fail(report, DW_FAILED, EBADMSG,
				       "the journal is damaged: a record of step %u (%s content) cannot be read",
				       c->step, c->type == FRAME_DATA ? "new" : "old");
		if (r < 0)
			return dw_fail(report, DW_FAILED, -r, "cannot read the journal: %s",
				       strerror(-r));
	}
	e = &c->entries[c->index];
	content->offset = e->offset + c->taken;
	content->length = e->length - c->taken;
	content->kind = e->kind;
	content->data = e->kind == CONTENT_DATA
				? c->buffer + FRAME_HEADER_SIZE + c->payload + c->taken
				: NULL;
	content->digest = e->digest;
	return 0;
}

void content_take(struct content_cursor *c, uint64_t length)
{
	const struct frame_entry *e = &c->entries[c->index];

	c->taken += length;
	if (c->taken < e->length)
		return;
	if (e->kind == CONTENT_DATA)
		c->payload += e->length;
	c->taken = 0;
	c->index++;
}

void content_close(struct content_cursor *c)
{
	free(c->entries);
	free(c->buffer);
	c->entries = NULL;
	c->buffer = NULL;
}

int journal_verify(struct journal *j, enum frame_type type, uint32_t step, struct dw_report *report)
{
	struct content_cursor c;
	struct content content;
	int r = content_open(&c, j, type, step);

	while (r == 0) {
		r = content_peek(&c, &content, report);
		if (r == 0)
			content_take(&c, content.length);
	}
	content_close(&c);
	return r < 0 ? r : 0;
}
