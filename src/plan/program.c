/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * From what the view changed to a program.
 *
 * The changes fall into steps by where they lie; the order of the steps keeps
 * one valid copy of a GPT at every instant.  Guards are no step: the
 * interpreter puts them up before the first step and takes them down after
 * the last, so their ranges are cut out of the changes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "core/zero.h"
#include "exec/exec.h"
#include "plan/plan.h"

enum step_class { STEP_CONTENT, STEP_BACKUP, STEP_TABLE, STEP_LENGTH, STEP_CLASSES };

static const char *const step_names[STEP_CLASSES] = {
	[STEP_CONTENT] = "writing the filesystem",
	[STEP_BACKUP] = "writing the backup partition table",
	[STEP_TABLE] = "writing the partition table",
	[STEP_LENGTH] = "setting the length of the image",
};

/* While collecting. */
struct collector {
	struct dw_plan *plan;
	struct program *program;
	struct extents areas; /* of the tables; value: enum step_class */
};

/* ---- changes ---------------------------------------------------------- */

static int change_add(struct program *p, uint64_t offset, uint64_t length, enum content_kind kind,
		      enum step_class class)
{
	if (p->count == p->capacity) {
		size_t capacity = p->capacity ? 2 * p->capacity : 256;
		struct change *list = reallocarray(p->changes, capacity, sizeof(*list));

		if (!list)
			return -ENOMEM;
		p->changes = list;
		p->capacity = capacity;
	}
	p->changes[p->count++] = (struct change){
		.entry = { .offset = offset, .length = length, .kind = kind }, .step = class };
	return 0;
}

/* How far from OFFSET nothing that matters for a split changes, and what it is. */
static uint64_t split_at(struct collector *c, uint64_t offset, uint64_t end, enum step_class *class,
			 bool *guard)
{
	const struct program *p = c->program;
	size_t i = extents_find(&c->areas, offset);

	*class = STEP_CONTENT;
	*guard = false;
	if (i < c->areas.count) {
		const struct extent *x = &c->areas.list[i];

		if (x->offset > offset) {
			end = x->offset < end ? x->offset : end;
		} else {
			*class = x->value;
			end = x->offset + x->length < end ? x->offset + x->length : end;
		}
	}
	for (uint32_t g = 0; g < p->guard_count; g++) {
		uint64_t from = p->guards[g].offset, to = from + p->guards[g].length;

		if (offset >= from && offset < to) {
			*guard = true;
			end = to < end ? to : end;
		} else if (from > offset && from < end) {
			end = from;
		}
	}
	if (offset < c->plan->disk.dev->size && end > c->plan->disk.dev->size)
		end = c->plan->disk.dev->size;
	return end;
}

static int collect_change(void *opaque, uint64_t offset, uint64_t length, enum device_extent_kind kind)
{
	struct collector *c = opaque;
	uint64_t end = offset + length;
	int r = 0;

	if (end > c->plan->new_size)
		end = c->plan->new_size;
	while (offset < end && r == 0) {
		enum step_class class;
		bool guard;
		uint64_t next = split_at(c, offset, end, &class, &guard);

		if (kind == DEVICE_DATA && next - offset > FRAME_PAYLOAD)
			next = offset + FRAME_PAYLOAD;
		if (!guard)
			r = change_add(c->program, offset, next - offset,
				       kind == DEVICE_DATA ? CONTENT_DATA : CONTENT_ZERO, class);
		offset = next;
	}
	return r;
}

/* What a cut takes away is saved; holes come back by themselves. */
static int collect_gone(void *opaque, uint64_t offset, uint64_t length, enum device_extent_kind kind)
{
	struct collector *c = opaque;

	return kind == DEVICE_DATA ? change_add(c->program, offset, length, CONTENT_GONE, STEP_LENGTH) : 0;
}

static int collect_areas(struct collector *c, const struct ptable *table)
{
	int r = 0;

	for (size_t i = 0; i < table->area_count && r == 0; i++)
		r = extents_set(&c->areas, table->areas[i].offset, table->areas[i].length,
				table->areas[i].backup ? STEP_BACKUP : STEP_TABLE);
	return r;
}

/* A flag that something in a range changed. */
struct touch {
	uint64_t start, end;
	bool touched;
};

static int note_touch(void *opaque, uint64_t offset, uint64_t length, enum device_extent_kind kind)
{
	struct touch *t = opaque;

	t->touched |= offset < t->end && offset + length > t->start;
	return t->touched;
}

/* ---- guards ----------------------------------------------------------- */

static int guard_add(struct dw_plan *plan, uint64_t offset, uint32_t length, enum guard_kind kind,
		     uint32_t position)
{
	struct program *p = &plan->program;
	struct guard *g = &p->guards[p->guard_count];
	int r;

	for (uint32_t i = 0; i < p->guard_count; i++)
		if (p->guards[i].offset < offset + length &&
		    offset < p->guards[i].offset + p->guards[i].length)
			return 0;
	if (p->guard_count == GUARD_MAX)
		return dw_fail(plan->report, DW_REFUSED, E2BIG,
			       "too many filesystems at once; do it in several operations");
	*g = (struct guard){ offset, length, kind, position, malloc(length), malloc(length) };
	p->guard_count++;
	if (!g->old || !g->final)
		return -ENOMEM;
	r = device_read(plan->disk.dev, g->old, length, offset);
	return r < 0 ? r : device_read(plan->view, g->final, length, offset);
}

static int guard_range(struct dw_plan *plan, uint64_t start, uint64_t length)
{
	struct device *window;
	struct probe probe;
	uint32_t sector = plan->table.sector_size;
	int r;

	if (start >= plan->disk.dev->size)
		return 0;
	if (length > plan->disk.dev->size - start)
		length = plan->disk.dev->size - start;
	r = device_open_window(plan->disk.dev, start, length, &window);
	if (r < 0)
		return r;
	r = probe_device(window, &probe, plan->report);
	device_close(window);
	if (r < 0)
		return r;
	if (strncmp(probe.type, "ext", 3) == 0) {
		uint64_t from = layout_align_down(start + EXTFS_SUPER_OFFSET, sector);
		uint64_t to = layout_align_up(start + EXTFS_SUPER_OFFSET + EXTFS_SUPER_SIZE, sector);

		return guard_add(plan, from, to - from, GUARD_EXT, start + EXTFS_SUPER_OFFSET - from);
	}
	for (size_t i = 0; i < probe.magic_count && r == 0; i++)
		r = guard_add(plan, layout_align_down(start + probe.magics[i].offset, sector), sector,
			      GUARD_BLOCK, 0);
	return r;
}

static int collect_guards(struct dw_plan *plan)
{
	int r = 0;

	for (size_t i = 0; i < plan->guarded_count && r >= 0; i++) {
		struct touch touch = { plan->guarded[i].start,
				       plan->guarded[i].start + plan->guarded[i].length, false };

		r = overlay_changes(plan->view, plan->table.sector_size, note_touch, &touch);
		if (r >= 0 && touch.touched)
			r = guard_range(plan, plan->guarded[i].start, plan->guarded[i].length);
	}
	return r < 0 ? r : 0;
}

/* ---- steps ------------------------------------------------------------ */

static int by_step_and_offset(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	return x->entry.offset < y->entry.offset ? -1 : x->entry.offset > y->entry.offset;
}

static bool saves_old(const struct dw_plan *plan, const struct change *change)
{
	return change->entry.offset < plan->disk.dev->size;
}

/* Number the classes that occur, from 0 on; measure body and undo of each. */
static int measure_step(struct dw_plan *plan, size_t *next)
{
	static const uint8_t no_id[JOURNAL_ID_SIZE];
	struct program *p = &plan->program;
	struct step *step = &p->steps[p->step_count];
	uint32_t class = p->changes[*next].step;
	struct frame_writer body, undo;
	int r = frame_writer_open(&body, NULL, 0, 0, FRAME_DATA, 0, no_id);

	if (r == 0)
		r = frame_writer_open(&undo, NULL, 0, 0, FRAME_PREIMAGE, 0, no_id);
	step->kind = STEP_APPLY;
	strcpy(step->name, step_names[class]);
	for (; *next < p->count && p->changes[*next].step == class && r == 0; ++*next) {
		struct change *change = &p->changes[*next];

		change->step = p->step_count;
		if (change->entry.kind == CONTENT_DATA)
			step->bytes += change->entry.length;
		else if (change->entry.kind == CONTENT_ZERO)
			p->zero += change->entry.length;
		r = frame_writer_add(&body, &change->entry, NULL);
		if (r == 0 && saves_old(plan, change))
			r = exec_save_preimage(plan->disk.dev, &change->entry, &undo, change->entry.digest);
		if (r == 0 && dw_interrupted(plan->report))
			r = dw_fail(plan->report, DW_FAILED, EINTR, "interrupted; nothing has changed");
	}
	if (r == 0)
		r = frame_writer_finish(&body);
	if (r == 0)
		r = frame_writer_finish(&undo);
	step->body_length = body.position;
	step->undo_length = undo.position;
	p->data += step->bytes;
	p->step_count++;
	return r;
}

static int measure(struct dw_plan *plan)
{
	struct program *p = &plan->program;
	uint64_t position = JOURNAL_BODY_OFFSET;
	size_t next = 0;
	int r = 0;

	qsort(p->changes, p->count, sizeof(*p->changes), by_step_and_offset);
	while (next < p->count && r == 0)
		r = measure_step(plan, &next);
	for (uint32_t k = 0; k < p->step_count; k++) {
		p->steps[k].body_offset = position;
		position += p->steps[k].body_length;
	}
	p->program_offset = position;
	position += journal_program_size(p->step_count);
	for (uint32_t k = 0; k < p->step_count; k++) {
		p->steps[k].undo_offset = position;
		position += p->steps[k].undo_length;
	}
	p->journal_size = position;
	return r;
}

int program_collect(struct dw_plan *plan)
{
	struct collector c = { .plan = plan, .program = &plan->program };
	uint64_t old_size = plan->disk.dev->size;
	int r = collect_areas(&c, &plan->table);

	if (r == 0)
		r = collect_areas(&c, &plan->after_table);
	if (r == 0)
		r = collect_guards(plan);
	if (r == 0)
		r = overlay_changes(plan->view, plan->table.sector_size, collect_change, &c);
	if (r == 0 && plan->new_size < old_size)
		r = device_extents(plan->disk.dev, plan->new_size, old_size - plan->new_size,
				   collect_gone, &c);
	extents_free(&c.areas);
	/* A change of length alone still is an operation. */
	if (r == 0 && plan->program.count == 0 && plan->new_size != old_size)
		r = change_add(&plan->program, 0, plan->table.sector_size, CONTENT_DATA, STEP_LENGTH);
	if (r == 0)
		r = measure(plan);
	return r < 0 ? dw_fail(plan->report, DW_FAILED, -r, "cannot collect what was rehearsed: %s",
			       strerror(-r))
		     : 0;
}

void program_free(struct program *p)
{
	for (uint32_t i = 0; i < p->guard_count; i++) {
		free(p->guards[i].old);
		free(p->guards[i].final);
	}
	free(p->changes);
	memset(p, 0, sizeof(*p));
}

/* ---- sealing ---------------------------------------------------------- */

static int write_body(struct dw_plan *plan, struct journal *j, uint32_t k, struct dw_report *report)
{
	struct program *p = &plan->program;
	struct step *step = &j->steps[k];
	uint8_t *buffer = malloc(FRAME_PAYLOAD);
	struct frame_writer w;
	int r = buffer ? frame_writer_open(&w, j->dev, step->body_offset, step->body_length, FRAME_DATA,
					   k + 1, j->header.id)
		       : -ENOMEM;

	if (r < 0) {
		free(buffer);
		return r;
	}
	for (size_t i = 0; i < p->count && r == 0; i++) {
		const struct frame_entry *e = &p->changes[i].entry;

		if (p->changes[i].step != k)
			continue;
		if (e->kind == CONTENT_DATA)
			r = device_read(plan->view, buffer, e->length, e->offset);
		if (r == 0)
			r = frame_writer_add(&w, e, buffer);
		if (r == 0 && dw_interrupted(report))
			r = -EINTR;
	}
	if (r == 0)
		r = frame_writer_finish(&w);
	memcpy(step->body_digest, w.chain, DIGEST_SIZE);
	frame_writer_close(&w);
	free(buffer);
	return r;
}

/* The disk's own id, where the operation leaves it alone. */
static int sample_identity(struct dw_plan *plan, struct journal_header *h)
{
	const struct { uint64_t offset; uint32_t length; } place[] = {
		[PTABLE_MBR] = { 440, 4 },
		[PTABLE_GPT] = { plan->table.sector_size + 56, 16 },
	};
	uint8_t before[16], after[16];
	struct sample *s = &h->samples[0];
	int r;

	if (plan->table.type == PTABLE_NONE)
		return 0;
	s->offset = place[plan->table.type].offset;
	s->length = place[plan->table.type].length;
	r = device_read(plan->disk.dev, before, s->length, s->offset);
	if (r == 0)
		r = device_read(plan->view, after, s->length, s->offset);
	if (r == 0 && memcmp(before, after, s->length) == 0) {
		digest_of(before, s->length, s->digest);
		h->sample_count = 1;
	}
	return r;
}

int program_seal(struct dw_plan *plan, struct device *journal_dev, struct journal *j,
		 struct dw_report *report)
{
	struct program *p = &plan->program;
	struct journal_header *h = &j->header;
	int r;

	memset(j, 0, sizeof(*j));
	j->dev = journal_dev;
	h->steps = p->step_count;
	h->sealed_at = time(NULL);
	h->old_size = plan->disk.dev->size;
	h->new_size = plan->new_size;
	h->block_size = plan->table.sector_size;
	h->bytes = p->data;
	h->program_offset = p->program_offset;
	strncpy(h->text, plan->command, TEXT_MAX - 1);
	memcpy(h->guards, p->guards, sizeof(h->guards));
	h->guard_count = p->guard_count;
	p->guard_count = 0; /* the content is the journal's now */
	memcpy(j->steps, p->steps, sizeof(j->steps));
	r = getrandom(h->id, sizeof(h->id), 0) == sizeof(h->id) ? 0 : -EIO;
	if (r == 0)
		r = sample_identity(plan, h);
	for (uint32_t k = 0; k < p->step_count && r == 0; k++) {
		dw_progress(report, "writing the journal", k, p->step_count, false);
		r = write_body(plan, j, k, report);
	}
	if (r == -EINTR)
		return dw_fail(report, DW_FAILED, EINTR, "interrupted; nothing has changed");
	if (r < 0)
		return dw_fail(report, DW_FAILED, -r, "cannot write the journal: %s", strerror(-r));
	return journal_seal(j, report);
}
