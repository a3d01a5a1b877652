/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "bridge/extfs.h"
#include "core/bytes.h"
#include "core/zero.h"
#include "journal/record.h"

#define HEADER_MAGIC "DWJHEAD1"
#define FRAME_MAGIC "DWFRAME1"
#define MAGIC_SIZE 8
#define HEADER_VERSION 1
#define HEADER_FIXED 160
#define SAMPLE_BYTES 32
#define GUARD_BYTES 24

/* s_last_mounted: what a person sees as "Last mounted on" of a guarded ext. */
#define EXT_LAST_MOUNTED 136
#define EXT_LAST_MOUNTED_SIZE 64
#define GUARD_WORD "diskwright "

void digest_of(const void *data, size_t length, uint8_t digest[DIGEST_SIZE])
{
	XXH128_canonical_t canonical;

	XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, length));
	memcpy(digest, canonical.digest, DIGEST_SIZE);
}

/* ---- header ---------------------------------------------------------- */

static size_t header_length(const struct journal_header *h)
{
	size_t length = HEADER_FIXED + h->sample_count * SAMPLE_BYTES + strlen(h->text) + DIGEST_SIZE;

	for (uint32_t i = 0; i < h->guard_count; i++)
		length += GUARD_BYTES + 2 * (size_t)h->guards[i].length;
	return length;
}

size_t header_encode(const struct journal_header *h, uint8_t *slot)
{
	size_t length = header_length(h);
	uint8_t *p = slot + HEADER_FIXED;

	if (length > JOURNAL_SLOT_SIZE)
		return 0;
	memset(slot, 0, JOURNAL_SLOT_SIZE);
	memcpy(slot, HEADER_MAGIC, MAGIC_SIZE);
	put32(slot + 8, HEADER_VERSION);
	put32(slot + 12, length);
	memcpy(slot + 16, h->id, JOURNAL_ID_SIZE);
	put64(slot + 32, h->generation);
	put32(slot + 40, h->state);
	put32(slot + 44, h->step);
	put32(slot + 48, h->steps);
	put32(slot + 52, h->flags);
	put64(slot + 56, h->sealed_at);
	put64(slot + 64, h->old_size);
	put64(slot + 72, h->new_size);
	put32(slot + 80, h->block_size);
	put32(slot + 84, h->guard_count);
	put32(slot + 88, h->sample_count);
	put32(slot + 92, strlen(h->text));
	put64(slot + 96, h->bytes);
	put64(slot + 104, h->program_offset);
	memcpy(slot + 112, h->program_digest, DIGEST_SIZE);
	for (uint32_t i = 0; i < h->sample_count; i++, p += SAMPLE_BYTES) {
		put64(p, h->samples[i].offset);
		put32(p + 8, h->samples[i].length);
		memcpy(p + 16, h->samples[i].digest, DIGEST_SIZE);
	}
	for (uint32_t i = 0; i < h->guard_count; i++) {
		const struct guard *g = &h->guards[i];

		put64(p, g->offset);
		put32(p + 8, g->length);
		put32(p + 12, g->kind);
		put32(p + 16, g->position);
		memcpy(p + GUARD_BYTES, g->old, g->length);
		memcpy(p + GUARD_BYTES + g->length, g->final, g->length);
		p += GUARD_BYTES + 2 * (size_t)g->length;
	}
	memcpy(p, h->text, strlen(h->text));
	digest_of(slot, length - DIGEST_SIZE, slot + length - DIGEST_SIZE);
	return (length + JOURNAL_ALIGN - 1) / JOURNAL_ALIGN * JOURNAL_ALIGN;
}

static int guard_decode(const uint8_t **p, const uint8_t *end, struct guard *g)
{
	if (end - *p < GUARD_BYTES)
		return -EBADMSG;
	g->offset = get64(*p);
	g->length = get32(*p + 8);
	g->kind = get32(*p + 12);
	g->position = get32(*p + 16);
	if (g->length == 0 || g->length > GUARD_LENGTH_MAX || g->offset > UINT64_MAX - g->length ||
	    (g->kind != GUARD_EXT && g->kind != GUARD_BLOCK) ||
	    (g->kind == GUARD_EXT &&
	     (g->length < EXTFS_SUPER_SIZE || g->position > g->length - EXTFS_SUPER_SIZE)) ||
	    (size_t)(end - *p - GUARD_BYTES) < 2 * (size_t)g->length)
		return -EBADMSG;
	g->old = malloc(g->length);
	g->final = malloc(g->length);
	if (!g->old || !g->final)
		return -ENOMEM;
	memcpy(g->old, *p + GUARD_BYTES, g->length);
	memcpy(g->final, *p + GUARD_BYTES + g->length, g->length);
	*p += GUARD_BYTES + 2 * (size_t)g->length;
	return 0;
}

static int header_decode_lists(const uint8_t *slot, size_t length, struct journal_header *h)
{
	const uint8_t *p = slot + HEADER_FIXED, *end = slot + length - DIGEST_SIZE;
	uint32_t guards = get32(slot + 84), samples = get32(slot + 88), text = get32(slot + 92);
	int r;

	if (guards > GUARD_MAX || samples > SAMPLE_MAX || text >= TEXT_MAX ||
	    (size_t)(end - p) < samples * SAMPLE_BYTES)
		return -EBADMSG;
	for (h->sample_count = 0; h->sample_count < samples; p += SAMPLE_BYTES) {
		struct sample *s = &h->samples[h->sample_count++];

		s->offset = get64(p);
		s->length = get32(p + 8);
		memcpy(s->digest, p + 16, DIGEST_SIZE);
		if (s->length == 0 || s->length > GUARD_LENGTH_MAX ||
		    s->offset > UINT64_MAX - s->length)
			return -EBADMSG;
	}
	for (h->guard_count = 0; h->guard_count < guards;) {
		r = guard_decode(&p, end, &h->guards[h->guard_count++]);
		if (r < 0)
			return r;
	}
	if ((size_t)(end - p) != text || memchr(p, '\0', text))
		return -EBADMSG;
	memcpy(h->text, p, text);
	return 0;
}

int header_decode(const uint8_t *slot, struct journal_header *h)
{
	uint32_t length = get32(slot + 12);
	uint8_t digest[DIGEST_SIZE];
	int r;

	memset(h, 0, sizeof(*h));
	if (is_zero(slot, JOURNAL_SLOT_SIZE))
		return -ENODATA;
	if (memcmp(slot, HEADER_MAGIC, MAGIC_SIZE) != 0 || get32(slot + 8) != HEADER_VERSION ||
	    length < HEADER_FIXED + DIGEST_SIZE || length > JOURNAL_SLOT_SIZE)
		return -EBADMSG;
	digest_of(slot, length - DIGEST_SIZE, digest);
	if (memcmp(digest, slot + length - DIGEST_SIZE, DIGEST_SIZE) != 0)
		return -EBADMSG;
	memcpy(h->id, slot + 16, JOURNAL_ID_SIZE);
	h->generation = get64(slot + 32);
	h->state = get32(slot + 40);
	h->step = get32(slot + 44);
	h->steps = get32(slot + 48);
	h->flags = get32(slot + 52);
	h->sealed_at = get64(slot + 56);
	h->old_size = get64(slot + 64);
	h->new_size = get64(slot + 72);
	h->block_size = get32(slot + 80);
	h->bytes = get64(slot + 96);
	h->program_offset = get64(slot + 104);
	memcpy(h->program_digest, slot + 112, DIGEST_SIZE);
	if (h->state >= JOURNAL_STATES || h->steps == 0 || h->steps > STEP_MAX ||
	    h->step > h->steps || (h->block_size != 512 && h->block_size != 4096))
		return -EBADMSG;
	r = header_decode_lists(slot, length, h);
	if (r < 0)
		header_free(h);
	return r;
}

void header_free(struct journal_header *h)
{
	for (uint32_t i = 0; i < h->guard_count; i++) {
		free(h->guards[i].old);
		free(h->guards[i].final);
		h->guards[i].old = h->guards[i].final = NULL;
	}
	h->guard_count = 0;
}

/* ---- guards ---------------------------------------------------------- */

void journal_id_text(const uint8_t id[JOURNAL_ID_SIZE], char text[37])
{
	char *p = text;

	for (int i = 0; i < JOURNAL_ID_SIZE; i++)
		p += sprintf(p, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", id[i]);
}

void guard_image(const struct guard *g, const uint8_t id[JOURNAL_ID_SIZE], uint8_t *image)
{
	char uuid[37], text[EXT_LAST_MOUNTED_SIZE] = "";

	journal_id_text(id, uuid);
	if (g->kind == GUARD_EXT) {
		memcpy(image, g->old, g->length);
		snprintf(text, sizeof(text), GUARD_WORD "%s", uuid);
		memcpy(image + g->position + EXT_LAST_MOUNTED, text, sizeof(text));
		extfs_super_guard(image + g->position);
	} else {
		memset(image, 0, g->length);
		snprintf((char *)image, g->length,
			 GUARD_WORD "%s\nAn unfinished operation is on this disk: run diskwright resume or rollback.\n",
			 uuid);
	}
}

bool guard_super_id(const uint8_t *super, uint8_t id[JOURNAL_ID_SIZE])
{
	const char *text = (const char *)super + EXT_LAST_MOUNTED;
	unsigned byte;

	memset(id, 0, JOURNAL_ID_SIZE);
	if (!extfs_super_is_guarded(super))
		return false;
	if (strncmp(text, GUARD_WORD, strlen(GUARD_WORD)) != 0)
		return true;
	text += strlen(GUARD_WORD);
	for (int i = 0; i < JOURNAL_ID_SIZE; i++) {
		text += *text == '-';
		if (sscanf(text, "%2x", &byte) != 1) {
			memset(id, 0, JOURNAL_ID_SIZE);
			break;
		}
		id[i] = byte;
		text += 2;
	}
	return true;
}

/* ---- frames ---------------------------------------------------------- */

static size_t frame_length(uint64_t payload, uint32_t entries)
{
	return FRAME_HEADER_SIZE + payload + (size_t)entries * FRAME_ENTRY_SIZE + DIGEST_SIZE;
}

size_t frame_stored_size(uint64_t payload, uint32_t entries)
{
	return (frame_length(payload, entries) + JOURNAL_ALIGN - 1) / JOURNAL_ALIGN * JOURNAL_ALIGN;
}

static void frame_digest(const uint8_t *buffer, size_t length, const uint8_t chain[DIGEST_SIZE],
			 uint8_t digest[DIGEST_SIZE])
{
	XXH128_canonical_t canonical;
	XXH3_state_t *state = XXH3_createState();

	XXH3_128bits_reset(state);
	XXH3_128bits_update(state, chain, DIGEST_SIZE);
	XXH3_128bits_update(state, buffer, length);
	XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
	XXH3_freeState(state);
	memcpy(digest, canonical.digest, DIGEST_SIZE);
}

size_t frame_encode(const struct frame *f, const struct frame_entry *entries,
		    const uint8_t id[JOURNAL_ID_SIZE], uint8_t chain[DIGEST_SIZE], uint8_t *buffer)
{
	size_t length = frame_length(f->payload, f->entries), stored;
	uint8_t *p = buffer + FRAME_HEADER_SIZE + f->payload;

	memset(buffer, 0, FRAME_HEADER_SIZE);
	memcpy(buffer, FRAME_MAGIC, MAGIC_SIZE);
	put32(buffer + 8, f->type);
	put32(buffer + 12, f->step);
	memcpy(buffer + 16, id, JOURNAL_ID_SIZE);
	put64(buffer + 32, f->number);
	put32(buffer + 40, f->last ? FRAME_FLAG_LAST : 0);
	put32(buffer + 44, f->entries);
	put64(buffer + 48, f->payload);
	for (uint32_t i = 0; i < f->entries; i++, p += FRAME_ENTRY_SIZE) {
		put64(p, entries[i].offset);
		put64(p + 8, entries[i].length);
		put32(p + 16, entries[i].kind);
		put32(p + 20, 0);
		memcpy(p + 24, entries[i].digest, DIGEST_SIZE);
	}
	frame_digest(buffer, length - DIGEST_SIZE, chain, chain);
	memcpy(p, chain, DIGEST_SIZE);
	stored = frame_stored_size(f->payload, f->entries);
	memset(buffer + length, 0, stored - length);
	return stored;
}

int frame_peek(const uint8_t *buffer, const uint8_t id[JOURNAL_ID_SIZE], struct frame *f)
{
	f->type = get32(buffer + 8);
	f->step = get32(buffer + 12);
	f->number = get64(buffer + 32);
	f->last = get32(buffer + 40) & FRAME_FLAG_LAST;
	f->entries = get32(buffer + 44);
	f->payload = get64(buffer + 48);
	if (memcmp(buffer, FRAME_MAGIC, MAGIC_SIZE) != 0 ||
	    memcmp(buffer + 16, id, JOURNAL_ID_SIZE) != 0 || f->entries > FRAME_ENTRIES ||
	    f->payload > FRAME_PAYLOAD)
		return -EBADMSG;
	return 0;
}

int frame_decode(const uint8_t *buffer, const struct frame *f, uint8_t chain[DIGEST_SIZE],
		 struct frame_entry *entries)
{
	size_t length = frame_length(f->payload, f->entries);
	const uint8_t *p = buffer + FRAME_HEADER_SIZE + f->payload;
	uint64_t payload = 0;

	frame_digest(buffer, length - DIGEST_SIZE, chain, chain);
	if (memcmp(chain, buffer + length - DIGEST_SIZE, DIGEST_SIZE) != 0)
		return -EBADMSG;
	for (uint32_t i = 0; i < f->entries; i++, p += FRAME_ENTRY_SIZE) {
		struct frame_entry *e = &entries[i];

		e->offset = get64(p);
		e->length = get64(p + 8);
		e->kind = get32(p + 16);
		memcpy(e->digest, p + 24, DIGEST_SIZE);
		if (e->kind < CONTENT_DATA || e->kind > CONTENT_GONE || e->length == 0 ||
		    e->offset > UINT64_MAX - e->length)
			return -EBADMSG;
		if (e->kind == CONTENT_DATA) {
			if (e->length > f->payload - payload)
				return -EBADMSG;
			payload += e->length;
		}
	}
	return f->type != FRAME_PROGRAM && payload != f->payload ? -EBADMSG : 0;
}

void step_encode(const struct step *s, uint8_t bytes[STEP_SIZE])
{
	memset(bytes, 0, STEP_SIZE);
	put32(bytes, s->kind);
	put64(bytes + 8, s->bytes);
	put64(bytes + 16, s->body_offset);
	put64(bytes + 24, s->body_length);
	put64(bytes + 32, s->undo_offset);
	put64(bytes + 40, s->undo_length);
	memcpy(bytes + 48, s->body_digest, DIGEST_SIZE);
	memcpy(bytes + 64, s->name, STEP_NAME);
}

int step_decode(const uint8_t bytes[STEP_SIZE], struct step *s)
{
	s->kind = get32(bytes);
	s->bytes = get64(bytes + 8);
	s->body_offset = get64(bytes + 16);
	s->body_length = get64(bytes + 24);
	s->undo_offset = get64(bytes + 32);
	s->undo_length = get64(bytes + 40);
	memcpy(s->body_digest, bytes + 48, DIGEST_SIZE);
	memcpy(s->name, bytes + 64, STEP_NAME);
	return s->kind != STEP_APPLY || s->name[STEP_NAME - 1] != '\0' ||
	       s->body_offset > UINT64_MAX - s->body_length ||
	       s->undo_offset > UINT64_MAX - s->undo_length ? -EBADMSG : 0;
}
