/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A full check reads descriptors, bitmaps and inode tables in many small
 * pieces; through the stage each is a round trip.  The kernel is told of them
 * beforehand, in large pieces, and reads ahead.  Measured on a 30 GB ext3 of
 * 300 files, first check, median: 1.03 s without, 0.93 s so, and 1.25 s when
 * they are read here by four threads with pread().
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bridge/extfs_io.h"
#include "core/checked.h"
#include "core/extents.h"

/* A gap that is cheaper read than skipped. */
#define WARM_GAP (256 * 1024)
#define WARM_MAX (1024ull * 1024 * 1024)

struct warm {
	int fd;
	uint64_t size;        /* of the filesystem's device */
	struct extents ranges;
	uint64_t total;       /* bytes asked for, gaps not counted */
	int error;            /* from here on nothing is added */
};

static void add(struct warm *w, uint64_t block, uint64_t block_size, uint64_t length)
{
	uint64_t offset;

	if (w->error || w->total >= WARM_MAX || length == 0)
		return;
	if (checked_mul(block, block_size, &offset) < 0 || offset >= w->size)
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

/* Ask for everything, small gaps included. */
static void ask(const struct warm *w)
{
	const struct extent *list = w->ranges.list;
	uint64_t start, end;

	for (size_t i = 0; i < w->ranges.count;) {
		start = list[i].offset;
		do
			end = list[i].offset + list[i].length;
		while (++i < w->ranges.count && list[i].offset - end <= WARM_GAP);
		posix_fadvise(w->fd, start, end - start, POSIX_FADV_WILLNEED);
	}
}

/*
 * In a child without any descriptor of this process: one that waits in a
 * system call for its own stage could not be killed (see stage.c).
 */
static void ask_in_child(struct warm *w, const char *path)
{
	pid_t pid = fork();

	if (pid == 0) {
		closefrom(STDERR_FILENO + 1);
		w->fd = open(path, O_RDONLY | O_CLOEXEC);
		if (w->fd >= 0)
			ask(w);
		_exit(0);
	}
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

void extfs_warm(struct device *dev, const char *path)
{
	struct warm w = { .size = dev->size };
	uint8_t super[EXTFS_SUPER_SIZE];
	bool guarded;
	ext2_filsys fs;

	if (extfs_super_read(dev, super, &guarded, NULL) == 0 && extfs_io_open(dev, super, &fs) == 0) {
		add_all(&w, fs);
		ext2fs_free(fs);
	}
	ask_in_child(&w, path);
	extents_free(&w.ranges);
}
