/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A full check reads descriptors, bitmaps and inode tables in thousands of
 * small pieces; through the stage each is a round trip.  They are read here
 * beforehand, in large pieces and from several threads, and the page cache
 * serves the check.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "bridge/extfs_io.h"
#include "core/extents.h"

#define WARM_THREADS 4
#define WARM_READ (1024 * 1024)
/* A gap that is cheaper read than skipped. */
#define WARM_GAP (256 * 1024)
#define WARM_MAX (1024ull * 1024 * 1024)

struct warm {
	int fd;
	uint64_t size;        /* of the filesystem's device */
	struct extents ranges;
	uint64_t total;       /* bytes asked for, gaps not counted */
	int error;
	atomic_size_t next;   /* the range to be read next */
};

static void add(struct warm *w, uint64_t block, uint64_t block_size, uint64_t length)
{
	uint64_t offset;

	if (w->error || w->total >= WARM_MAX || length == 0)
		return;
	if (__builtin_mul_overflow(block, block_size, &offset) || offset >= w->size)
		return;
	if (length > w->size - offset)
		length = w->size - offset;
	w->total += length;
	w->error = extents_set(&w->ranges, offset, length, 0);
}

static void add_group(struct warm *w, ext2_filsys fs, dgrp_t g)
{
	uint64_t inodes = fs->super->s_inodes_per_group, unused = ext2fs_bg_itable_unused(fs, g);
	bool lazy = ext2fs_has_group_desc_csum(fs);

	if (!lazy)
		unused = 0;
	if (lazy && ext2fs_bg_flags_test(fs, g, EXT2_BG_INODE_UNINIT))
		unused = inodes;
	if (!lazy || !ext2fs_bg_flags_test(fs, g, EXT2_BG_BLOCK_UNINIT))
		add(w, ext2fs_block_bitmap_loc(fs, g), fs->blocksize, fs->blocksize);
	if (unused >= inodes)
		return;
	add(w, ext2fs_inode_bitmap_loc(fs, g), fs->blocksize, fs->blocksize);
	add(w, ext2fs_inode_table_loc(fs, g), fs->blocksize,
	    (inodes - unused) * EXT2_INODE_SIZE(fs->super));
}

static void add_all(struct warm *w, ext2_filsys fs)
{
	blk64_t super = fs->super->s_first_data_block;

	for (unsigned long i = 0; i < fs->desc_blocks; i++)
		add(w, ext2fs_descriptor_block_loc2(fs, super, i), fs->blocksize, fs->blocksize);
	for (dgrp_t g = 0; g < fs->group_desc_count; g++)
		add_group(w, fs, g);
}

/* Close the small gaps, then cut into pieces that the threads can share. */
static void arrange(struct warm *w)
{
	struct extents pieces = { 0 };
	uint64_t start, end;

	for (size_t i = 0; i < w->ranges.count && !w->error;) {
		start = w->ranges.list[i].offset;
		do
			end = w->ranges.list[i].offset + w->ranges.list[i].length;
		while (++i < w->ranges.count && w->ranges.list[i].offset - end <= WARM_GAP);
		for (; start < end && !w->error; start += WARM_READ)
			/* Different values keep neighbours from being merged. */
			w->error = extents_set(&pieces, start,
					       end - start < WARM_READ ? end - start : WARM_READ,
					       pieces.count);
	}
	extents_free(&w->ranges);
	w->ranges = pieces;
}

static void *reader(void *opaque)
{
	struct warm *w = opaque;
	void *buffer = malloc(WARM_READ);
	size_t i;

	while (buffer && (i = atomic_fetch_add(&w->next, 1)) < w->ranges.count)
		if (pread(w->fd, buffer, w->ranges.list[i].length, w->ranges.list[i].offset) <= 0)
			break;
	free(buffer);
	return NULL;
}

static void read_all(struct warm *w)
{
	pthread_t threads[WARM_THREADS];
	int started = 0;

	while (started < WARM_THREADS && pthread_create(&threads[started], NULL, reader, w) == 0)
		started++;
	while (started > 0)
		pthread_join(threads[--started], NULL);
}

void extfs_warm(struct device *dev, const char *path)
{
	struct warm w = { .fd = open(path, O_RDONLY | O_CLOEXEC), .size = dev->size };
	uint8_t super[EXTFS_SUPER_SIZE];
	bool guarded;
	ext2_filsys fs;

	if (w.fd < 0)
		return;
	if (extfs_super_read(dev, super, &guarded, NULL) == 0 && extfs_io_open(dev, super, &fs) == 0) {
		add_all(&w, fs);
		ext2fs_free(fs);
	}
	arrange(&w);
	if (!w.error)
		read_all(&w);
	extents_free(&w.ranges);
	close(w.fd);
}
