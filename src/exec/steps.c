/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/zero.h"
#include "exec/internal.h"

#define ZERO_GRANULE 4096

/* Runs of zeros shorter than a block are stored as they are. */
static int preimage_add(struct frame_writer *w, uint64_t offset, const uint8_t *data, size_t length)
{
	int r = 0;

	while (length > 0 && r == 0) {
		bool zero;
		size_t n = zero_run(data, length, ZERO_GRANULE, &zero);
		struct frame_entry e = { .offset = offset, .length = n,
					 .kind = zero ? CONTENT_ZERO : CONTENT_DATA };

		r = frame_writer_add(w, &e, data);
		offset += n;
		data += n;
		length -= n;
	}
	return r;
}

struct preimage {
	struct device *dev;
	struct frame_writer *writer;
	XXH3_state_t *hash;
	uint8_t buffer[FRAME_PAYLOAD];
};

/* A hole costs no read: only its digest, over zeros. */
static int preimage_extent(void *opaque, uint64_t offset, uint64_t length,
			   enum device_extent_kind kind)
{
	struct preimage *p = opaque;
	int r = 0;

	if (kind == DEVICE_ZERO) {
		struct frame_entry e = { .offset = offset, .length = length, .kind = CONTENT_ZERO };

		r = frame_writer_add(p->writer, &e, NULL);
		memset(p->buffer, 0, length < sizeof(p->buffer) ? length : sizeof(p->buffer));
	}
	for (uint64_t done = 0, n; done < length && r == 0; done += n) {
		n = length - done < sizeof(p->buffer) ? length - done : sizeof(p->buffer);
		if (kind == DEVICE_DATA) {
			r = device_read(p->dev, p->buffer, n, offset + done);
			if (r == 0)
				r = preimage_add(p->writer, offset + done, p->buffer, n);
		}
		XXH3_128bits_update(p->hash, p->buffer, n);
	}
	return r;
}

int exec_save_preimage(struct device *dev, const struct frame_entry *entry,
		       struct frame_writer *w, uint8_t digest[DIGEST_SIZE])
{
	struct preimage *p = malloc(sizeof(*p));
	XXH128_canonical_t canonical;
	int r;

	if (!p)
		return -ENOMEM;
	p->dev = dev;
	p->writer = w;
	p->hash = XXH3_createState();
	if (!p->hash) {
		free(p);
		return -ENOMEM;
	}
	XXH3_128bits_reset(p->hash);
	r = device_extents(dev, entry->offset, entry->length, preimage_extent, p);
	XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(p->hash));
	memcpy(digest, canonical.digest, DIGEST_SIZE);
	XXH3_freeState(p->hash);
	free(p);
	return r;
}

static int stale(struct run *run, uint32_t k, uint64_t offset)
{
	return dw_fail(run->report, DW_MISMATCH, ESTALE,
		       "the disk does not match the journal: other content than expected at byte %llu (step %u, %s)",
		       (unsigned long long)offset, k, run->journal->steps[k - 1].name);
}

/* Every DATA entry of step K, its old content through WRITER, digests compared. */
static int old_content(struct run *run, uint32_t k, struct frame_writer *w)
{
	struct content_cursor c;
	struct content content;
	uint8_t digest[DIGEST_SIZE];
	int r = content_open(&c, run->journal, FRAME_DATA, k);

	while (r == 0) {
		r = content_peek(&c, &content, run->report);
		if (r != 0)
			break;
		struct frame_entry e = { .offset = content.offset, .length = content.length };

		/* Behind the old end of a disk that grows there is nothing to save. */
		if (e.offset < run->journal->header.old_size) {
			r = exec_save_preimage(run->disk, &e, w, digest);
			if (r == 0 && memcmp(digest, content.digest, DIGEST_SIZE) != 0)
				r = -ESTALE;
		}
		if (r == -ESTALE)
			r = stale(run, k, content.offset);
		else if (r < 0)
			r = dw_fail(run->report, DW_FAILED, -r, "cannot save the old content: %s",
				    strerror(-r));
		content_take(&c, content.length);
	}
	content_close(&c);
	return r < 0 ? r : 0;
}

int step_save_preimages(struct run *run, uint32_t k)
{
	const struct step *s = &run->journal->steps[k - 1];
	struct frame_writer w;
	int r = frame_writer_open(&w, run->journal->dev, s->undo_offset, s->undo_length,
				  FRAME_PREIMAGE, k, run->journal->header.id);

	if (r == 0)
		r = old_content(run, k, &w);
	if (r == 0) {
		r = frame_writer_finish(&w);
		if (r == 0)
			r = device_sync(run->journal->dev);
		if (r < 0)
			r = dw_fail(run->report, DW_FAILED, -r, "cannot write the journal: %s",
				    strerror(-r));
	}
	frame_writer_close(&w);
	return r;
}

/* Compare the disk with one side of the step's content. */
static int compare(struct run *run, uint32_t k, enum frame_type type)
{
	struct content_cursor c;
	struct content content;
	int r = content_open(&c, run->journal, type, k);

	while (r == 0) {
		r = content_peek(&c, &content, run->report);
		if (r != 0)
			break;
		size_t n = content.length < RUN_BUFFER ? content.length : RUN_BUFFER;

		if (content.kind != CONTENT_GONE && content.offset < run->disk->size) {
			r = device_drop_cache(run->disk, content.offset, n);
			if (r == 0)
				r = device_read(run->disk, run->buffer, n, content.offset);
			if (r < 0)
				dw_fail(run->report, DW_FAILED, -r, "cannot read the disk at %llu: %s",
					(unsigned long long)content.offset, strerror(-r));
			else if (content.data ? memcmp(run->buffer, content.data, n) != 0
					      : !is_zero(run->buffer, n))
				r = stale(run, k, content.offset);
		}
		content_take(&c, n);
	}
	content_close(&c);
	return r < 0 ? r : 0;
}

static bool is_mix(const uint8_t *now, const struct content *a, const struct content *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (now[i] != (a->data ? a->data[i] : 0) && now[i] != (b->data ? b->data[i] : 0))
			return false;
	return true;
}

/* Both chains cover the same ranges in the same order, cut differently. */
static int compare_mix(struct run *run, uint32_t k)
{
	struct content_cursor before, after;
	struct content a, b;
	int r = content_open(&before, run->journal, FRAME_PREIMAGE, k), r2 = 0;

	if (r < 0)
		return r;
	r = content_open(&after, run->journal, FRAME_DATA, k);
	while (r == 0) {
		r = content_peek(&after, &b, run->report);
		if (r == 0 && b.offset >= run->journal->header.old_size) {
			content_take(&after, b.length); /* no old content there */
			continue;
		}
		r2 = content_peek(&before, &a, run->report);
		if (r != 0 || r2 != 0)
			break;
		uint64_t n = a.length < b.length ? a.length : b.length;

		n = n < RUN_BUFFER ? n : RUN_BUFFER;
		if (a.offset != b.offset) {
			r = dw_fail(run->report, DW_FAILED, EBADMSG,
				    "the journal is damaged: old and new content of step %u do not fit", k);
			break;
		}
		r = device_read(run->disk, run->buffer, n, a.offset);
		if (r == -EIO)
			r = 0; /* unreadable after a cut: it will be written again */
		else if (r < 0)
			dw_fail(run->report, DW_FAILED, -r, "cannot read the disk: %s", strerror(-r));
		else if (!is_mix(run->buffer, &a, &b, n))
			r = stale(run, k, a.offset);
		content_take(&before, n);
		content_take(&after, n);
	}
	content_close(&before);
	content_close(&after);
	return r < 0 ? r : r2 < 0 ? r2 : 0;
}

int step_check(struct run *run, uint32_t k, enum expect expect)
{
	struct frame_writer count;
	int r;

	switch (expect) {
	case EXPECT_OLD:
		r = frame_writer_open(&count, NULL, 0, 0, FRAME_PREIMAGE, k, run->journal->header.id);
		return r < 0 ? r : old_content(run, k, &count);
	case EXPECT_NEW:
		return compare(run, k, FRAME_DATA);
	default:
		return compare_mix(run, k);
	}
}

int step_write(struct run *run, uint32_t k, enum frame_type type)
{
	const struct step *s = &run->journal->steps[k - 1];
	const char *phase = type == FRAME_DATA ? s->name : "restoring";
	uint64_t written = 0;
	struct content_cursor c;
	struct content content;
	int r = content_open(&c, run->journal, type, k);

	while (r == 0) {
		r = content_peek(&c, &content, run->report);
		if (r != 0)
			break;
		if (content.kind == CONTENT_DATA)
			r = device_write(run->disk, content.data, content.length, content.offset);
		else if (content.kind == CONTENT_ZERO)
			r = device_zero(run->disk, content.offset, content.length);
		if (r < 0)
			dw_fail(run->report, DW_UNFINISHED, -r, "cannot write the disk at byte %llu: %s",
				(unsigned long long)content.offset, strerror(-r));
		written += content.kind == CONTENT_DATA ? content.length : 0;
		content_take(&c, content.length);
		dw_progress(run->report, phase, written, s->bytes > written ? s->bytes : written, true);
		if (r == 0 && dw_interrupted(run->report))
			r = dw_fail(run->report, DW_UNFINISHED, EINTR, "stopped as asked");
	}
	content_close(&c);
	if (r < 0)
		return r;
	r = device_sync(run->disk);
	if (r < 0)
		return dw_fail(run->report, DW_UNFINISHED, -r, "cannot sync the disk: %s", strerror(-r));
	return compare(run, k, type);
}
