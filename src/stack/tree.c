/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/extfs.h"
#include "bridge/probe.h"
#include "core/export.h"
#include "diskwright/size.h"
#include "plan/disk.h"
#include "stack/inuse.h"
#include "stack/tree.h"

/* Smaller gaps are alignment, not space. */
#define FREE_MIN (1024 * 1024)

struct builder {
	struct device *disk;
	const char *base;
	const struct ptable *table;
	struct dw_report *report;
};

/* What does not fit is cut off. */
#define COPY(to, from) snprintf(to, sizeof(to), "%.*s", (int)sizeof(to) - 1, from)

/* ---- content ----------------------------------------------------------- */

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* The remark that matters most. */
static void ext_note(const struct extfs *ext, uint64_t length, struct dw_content *c)
{
	uint64_t spare = length > c->size ? length - c->size : 0;
	char text[DW_SIZE_TEXT];

	if (c->size > length)
		snprintf(c->note, sizeof(c->note), "larger than its partition, by %s",
			 dw_size_format(c->size - length, text));
	else if (ext->has_errors)
		COPY(c->note, "has errors");
	else if (ext->needs_recovery)
		COPY(c->note, ext->external_journal ? "needs recovery from its external journal"
						    : "needs recovery");
	else if (ext->not_clean)
		COPY(c->note, "not clean");
	else if (ext->orphan_present)
		COPY(c->note, "orphaned files are to be cleared");
	else if (ext->unknown_features[0])
		snprintf(c->note, sizeof(c->note), "unknown features: %s", ext->unknown_features);
	else if (ext->external_journal)
		COPY(c->note, "external journal");
	else if (ext->bad_blocks)
		snprintf(c->note, sizeof(c->note), "%llu bad block%s",
			 (unsigned long long)ext->bad_blocks, plural(ext->bad_blocks));
	else if (spare > FREE_MIN || spare > length / 100)
		snprintf(c->note, sizeof(c->note), "smaller than its partition, by %s",
			 dw_size_format(spare, text));
}

static void ext_content(struct device *dev, uint64_t length, struct dw_content *c)
{
	struct dw_report scratch = { 0 };
	struct extfs ext;

	c->clean = false;
	if (extfs_read(dev, &ext, &scratch) < 0) {
		COPY(c->note, scratch.message);
		return;
	}
	/* A guard makes an ext3 look like an ext4 to libblkid. */
	COPY(c->type, ext.type);
	c->size = ext.blocks * ext.block_size;
	c->used = (ext.blocks - ext.free_blocks) * ext.block_size;
	c->guarded = ext.guarded;
	c->clean = !ext.has_errors && !ext.not_clean && !ext.needs_recovery && !ext.orphan_present;
	ext_note(&ext, length, c);
}

/* Is there an ext superblock that libblkid did not take for one? */
static bool has_ext_magic(struct device *dev)
{
	uint8_t magic[2];

	return dev->size >= EXTFS_SUPER_OFFSET + EXTFS_SUPER_SIZE &&
	       device_read(dev, magic, sizeof(magic), EXTFS_SUPER_OFFSET + 0x38) == 0 &&
	       magic[0] == 0x53 && magic[1] == 0xef;
}

static void unknown_note(struct device *dev, const struct probe *probe, struct dw_content *c)
{
	struct dw_report scratch = { 0 };
	struct extfs ext;

	if (has_ext_magic(dev) && extfs_read(dev, &ext, &scratch) < 0)
		COPY(c->note, scratch.message);
	else if (probe->ext_backup)
		snprintf(c->note, sizeof(c->note),
			 "no superblock, but what looks like an ext backup superblock at byte %llu",
			 (unsigned long long)probe->ext_backup);
}

/* DEV: what is there of a partition of LENGTH bytes. */
static int read_content(struct device *dev, uint64_t length, struct dw_content *c)
{
	struct dw_report scratch = { 0 };
	struct probe probe;
	int r = probe_device(dev, &probe, &scratch);

	/* A partition that cannot be read does not hide the others. */
	if (r < 0 && r != -ENOMEM) {
		COPY(c->note, scratch.message);
		return 0;
	}
	if (r < 0)
		return r;
	COPY(c->type, probe.type);
	COPY(c->usage, probe.usage);
	COPY(c->uuid, probe.uuid);
	COPY(c->label, probe.label);
	COPY(c->version, probe.version);
	c->clean = true;
	if (probe.ambiguous)
		COPY(c->note, "carries signatures of several kinds");
	else if (strncmp(probe.type, "ext", 3) == 0 && strlen(probe.type) == 4)
		ext_content(dev, length, c);
	else if (!probe.type[0])
		unknown_note(dev, &probe, c);
	return 0;
}

static int node_content(struct builder *b, struct dw_node *node)
{
	uint64_t size = b->disk->size, there = node->length;
	struct device *window;
	char text[DW_SIZE_TEXT];
	int r;

	if (node->start >= size)
		there = 0;
	else if (there > size - node->start)
		there = size - node->start;
	if (there > 0) {
		r = device_open_window(b->disk, node->start, there, &window);
		if (r < 0)
			return r;
		r = read_content(window, node->length, &node->content);
		device_close(window);
		if (r < 0)
			return r;
	}
	if (there < node->length) {
		node->content.clean = false;
		snprintf(node->content.note, sizeof(node->content.note),
			 "%s of it lie beyond the end of the disk",
			 dw_size_format(node->length - there, text));
	}
	r = inuse_find(b->base, node->start, node->length, node->mounted, sizeof(node->mounted));
	return r == -ENOMEM ? r : 0;
}

/* ---- nodes --------------------------------------------------------------- */

static struct dw_node *add_child(struct dw_node *parent)
{
	size_t count = parent->child_count + 1;
	struct dw_node *list = reallocarray(parent->children, count, sizeof(*list));

	if (!list)
		return NULL;
	parent->children = list;
	parent->child_count = count;
	memset(&list[count - 1], 0, sizeof(*list));
	return &list[count - 1];
}

static int add_free(struct builder *b, struct dw_node *parent, uint64_t start, uint64_t end)
{
	struct dw_node *node;

	if (start >= end || end - start < FREE_MIN)
		return 0;
	node = add_child(parent);
	if (!node)
		return -ENOMEM;
	node->kind = DW_NODE_FREE;
	node->start = start;
	node->length = end - start;
	return asprintf(&node->address, "%s:free@%llu", b->base, (unsigned long long)start) < 0 ? -ENOMEM
											      : 0;
}

static int fill_partition(struct builder *b, const struct partition *p, struct dw_node *node)
{
	node->kind = p->extended ? DW_NODE_EXTENDED : DW_NODE_PARTITION;
	node->start = p->start;
	node->length = p->length;
	node->number = p->number;
	node->logical = p->logical;
	node->boot = p->boot;
	node->mbr_type = p->mbr_type;
	node->attributes = p->attributes;
	COPY(node->type_guid, p->type_guid);
	COPY(node->guid, p->guid);
	COPY(node->name, p->name);
	if (asprintf(&node->address, "%s:%d", b->base, p->number) < 0) {
		node->address = NULL;
		return -ENOMEM;
	}
	return p->extended ? 0 : node_content(b, node);
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The gap that ends where P starts, without P's EBR, wherever in it that lies. */
static int add_gap(struct builder *b, struct dw_node *parent, uint64_t start, const struct partition *p)
{
	int r = 0;

	if (p->logical && p->ebr >= start && p->ebr < p->start) {
		r = add_free(b, parent, start, p->ebr);
		start = p->ebr + b->table->sector_size;
	}
	return r < 0 ? r : add_free(b, parent, start, p->start);
}

/*
 * Partitions and the gaps between them, in [start, end).  In a damaged table
 * partitions may overlap; a gap is what none of them takes.
 */
static int fill(struct builder *b, struct dw_node *parent, bool logical, uint64_t start, uint64_t end)
{
	const struct ptable *t = b->table;
	int r = 0;

	for (size_t i = 0; i < t->count && r == 0; i++) {
		const struct partition *p = &t->partitions[i];
		struct dw_node *node;

		if (p->logical != logical)
			continue;
		r = add_gap(b, parent, start, p);
		if (r < 0)
			break;
		node = add_child(parent);
		if (!node)
			return -ENOMEM;
		r = fill_partition(b, p, node);
		if (r == 0 && p->extended && !logical)
			/* Its first sector is the first EBR. */
			r = fill(b, node, true, p->start + t->sector_size,
				 p->start + p->length);
		start = later(start, p->start + p->length);
	}
	return r < 0 ? r : add_free(b, parent, start, end);
}

static int fill_disk(struct builder *b, struct dw_node *disk, const char *defect)
{
	const struct ptable *t = b->table;
	/* The first MiB is the boot loader's. */
	uint64_t first = later(t->first_usable, FREE_MIN);

	disk->kind = DW_NODE_DISK;
	disk->length = b->disk->size;
	disk->sector_size = t->sector_size;
	COPY(disk->table, t->type == PTABLE_GPT ? "gpt" : t->type == PTABLE_MBR ? "mbr" : "none");
	COPY(disk->table_id, t->id);
	COPY(disk->defect, defect);
	disk->address = strdup(b->base);
	if (!disk->address)
		return -ENOMEM;
	if (t->type == PTABLE_NONE)
		return node_content(b, disk);
	return fill(b, disk, false, first, t->end_usable);
}

int tree_of_device(struct device *disk, const char *address_base, const struct ptable *table,
		   const char *defect, struct dw_node **out, struct dw_report *report)
{
	struct builder b = { disk, address_base, table, report };
	struct dw_node *node = calloc(1, sizeof(*node));
	int r = node ? fill_disk(&b, node, defect) : -ENOMEM;

	*out = NULL;
	if (r < 0) {
		dw_tree_free(node);
		return dw_fail(report, DW_FAILED, -r, "cannot draw the disk: %s", strerror(-r));
	}
	*out = node;
	return 0;
}

/* ---- the public side ----------------------------------------------------- */

DW_EXPORT int dw_tree_read(const char *path, uint32_t sector_size, struct dw_node **out,
			   struct dw_report *report)
{
	char defect[DW_PTABLE_DEFECT];
	struct ptable table = { 0 };
	struct disk disk;
	int r = disk_open(path, false, &disk, report);

	*out = NULL;
	if (r < 0)
		return r;
	r = ptable_read(disk.dev, sector_size, &table, defect, report);
	if (r == 0)
		r = tree_of_device(disk.dev, path, &table, defect, out, report);
	ptable_free(&table);
	disk_close(&disk);
	return r;
}

static void free_children(struct dw_node *node)
{
	for (size_t i = 0; i < node->child_count; i++)
		free_children(&node->children[i]);
	free(node->children);
	free(node->address);
}

DW_EXPORT void dw_tree_free(struct dw_node *disk)
{
	if (disk) {
		free_children(disk);
		free(disk);
	}
}

DW_EXPORT const struct dw_node *dw_tree_find(const struct dw_node *disk, int number)
{
	const struct dw_node *found = NULL;

	for (size_t i = 0; i < disk->child_count && !found; i++) {
		const struct dw_node *child = &disk->children[i];

		found = child->kind != DW_NODE_FREE && child->number == number
				? child
				: dw_tree_find(child, number);
	}
	return found;
}
