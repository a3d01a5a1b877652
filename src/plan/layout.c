/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <stdio.h>

#include "plan/plan.h"

#define STRAY_STEP (1024 * 1024)

uint64_t layout_align_down(uint64_t offset, uint64_t align)
{
	return align ? offset / align * align : offset;
}

uint64_t layout_align_up(uint64_t offset, uint64_t align)
{
	return align && offset % align ? layout_align_down(offset, align) + align : offset;
}

uint64_t layout_last_end(const struct ptable *table)
{
	uint64_t end = 0;

	for (size_t i = 0; i < table->count; i++)
		if (table->partitions[i].start + table->partitions[i].length > end)
			end = table->partitions[i].start + table->partitions[i].length;
	return end;
}

static bool is_gone(int number, const int *gone, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (gone[i] == number)
			return true;
	return false;
}

struct room {
	uint64_t end;
	char *blocker;
	size_t size;
};

static void room_cut(struct room *room, uint64_t at, uint64_t above, const char *what, int number)
{
	if (at < above || at >= room->end)
		return;
	room->end = at;
	if (room->blocker)
		snprintf(room->blocker, room->size, number ? "%s %d" : "%s", what, number);
}

/* The extended partition that logicals live in. */
static const struct partition *extended_of(const struct ptable *table)
{
	for (size_t i = 0; i < table->count; i++)
		if (table->partitions[i].extended)
			return &table->partitions[i];
	return NULL;
}

uint64_t layout_room(const struct ptable *table, int number, const int *gone, size_t gone_count,
		     uint64_t disk_size, char *blocker, size_t blocker_size)
{
	const struct partition *self = ptable_find(table, number), *ext = extended_of(table);
	uint64_t above = self->start + self->length;
	struct room room = { table->end_usable ? table->end_usable : disk_size, blocker, blocker_size };

	if (blocker)
		snprintf(blocker, blocker_size, "the end of the disk");
	for (size_t i = 0; i < table->count; i++) {
		const struct partition *p = &table->partitions[i];

		if (p == self || is_gone(p->number, gone, gone_count))
			continue;
		/* A logical ends where the extended one could end at most. */
		if (self->logical && p == ext)
			continue;
		if (!self->logical && p->logical)
			continue;
		if (p->logical && p->ebr >= above)
			room_cut(&room, p->ebr, above, "the table entry (EBR) of partition", p->number);
		room_cut(&room, p->start, above, "partition", p->number);
	}
	return room.end;
}

/* ---- superblocks in free space ---------------------------------------- */

struct strays {
	struct device *disk;
	const struct ptable *table;
	int (*fn)(void *opaque, uint64_t offset, const struct extfs *ext);
	void *opaque;
};

static bool is_covered(const struct ptable *table, uint64_t offset)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct partition *p = &table->partitions[i];

		if (!p->extended && offset >= p->start && offset - p->start < p->length)
			return true;
	}
	return false;
}

static int stray_at(struct strays *s, uint64_t offset)
{
	struct device *window;
	struct extfs ext;
	int r = device_open_window(s->disk, offset, s->disk->size - offset, &window);

	if (r < 0)
		return r;
	if (extfs_read(window, &ext, NULL) == 0 && !ext.backup)
		r = s->fn(s->opaque, offset, &ext);
	device_close(window);
	return r;
}

static int stray_extent(void *opaque, uint64_t offset, uint64_t length, enum device_extent_kind kind)
{
	struct strays *s = opaque;
	int r = 0;

	if (kind == DEVICE_ZERO)
		return 0;
	for (uint64_t at = layout_align_up(offset, STRAY_STEP); at < offset + length && r == 0; at += STRAY_STEP)
		if (!is_covered(s->table, at))
			r = stray_at(s, at);
	return r;
}

int layout_find_strays(struct device *disk, const struct ptable *table,
		       int (*fn)(void *opaque, uint64_t offset, const struct extfs *ext), void *opaque)
{
	struct strays s = { disk, table, fn, opaque };

	return table->type == PTABLE_NONE ? 0 : device_extents(disk, 0, disk->size, stray_extent, &s);
}
