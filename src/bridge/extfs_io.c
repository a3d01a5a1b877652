/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libext2fs on a struct device: an I/O manager that can only read. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/extfs_io.h"
#include "core/checked.h"
#include "core/bytes.h"

/* The most that libext2fs is let allocate for the group descriptors. */
#define DESCRIPTORS_MAX (512ull << 20)

/* What the I/O manager works on; its address, as text, is libext2fs's file name. */
struct extfs_io {
	struct device *dev;
	uint8_t super[EXTFS_SUPER_SIZE];
};

static const struct struct_io_manager device_io_manager;

static errcode_t io_open(const char *name, int flags, io_channel *out)
{
	const struct extfs_io *given;
	struct extfs_io *io = malloc(sizeof(*io));
	io_channel channel = calloc(1, sizeof(*channel));
	void *address;

	if (!io || !channel || sscanf(name, "%p", &address) != 1) {
		free(io);
		free(channel);
		return EXT2_ET_NO_MEMORY;
	}
	given = address;
	*io = *given;
	channel->magic = EXT2_ET_MAGIC_IO_CHANNEL;
	channel->manager = (io_manager)&device_io_manager;
	channel->block_size = EXTFS_SUPER_SIZE;
	channel->refcount = 1;
	channel->private_data = io;
	*out = channel;
	return 0;
}

static errcode_t io_close(io_channel channel)
{
	if (--channel->refcount > 0)
		return 0;
	free(channel->private_data);
	free(channel);
	return 0;
}

static errcode_t io_set_block_size(io_channel channel, int size)
{
	channel->block_size = size;
	return 0;
}

/* COUNT is in blocks, or in bytes where it is negative. */
static errcode_t io_read64(io_channel channel, unsigned long long block, int count, void *data)
{
	const struct extfs_io *io = channel->private_data;
	size_t length = count < 0 ? -(size_t)count : (size_t)count * channel->block_size;
	uint64_t offset, from, to;
	int r;

	if (checked_mul(block, channel->block_size, &offset) < 0)
		return EINVAL;
	r = device_read(io->dev, data, length, offset);
	if (r < 0)
		return -r;
	/* The superblock that was checked is the one that the library sees. */
	from = offset > EXTFS_SUPER_OFFSET ? offset : EXTFS_SUPER_OFFSET;
	to = EXTFS_SUPER_OFFSET + EXTFS_SUPER_SIZE;
	if (offset + length < to)
		to = offset + length;
	if (from < to)
		memcpy((uint8_t *)data + (from - offset), io->super + (from - EXTFS_SUPER_OFFSET),
		       to - from);
	return 0;
}

static errcode_t io_read(io_channel channel, unsigned long block, int count, void *data)
{
	return io_read64(channel, block, count, data);
}

static const struct struct_io_manager device_io_manager = {
	.magic = EXT2_ET_MAGIC_IO_MANAGER,
	.name = "diskwright device",
	.open = io_open,
	.close = io_close,
	.set_blksize = io_set_block_size,
	.read_blk = io_read,
	.read_blk64 = io_read64,
};

/* Would the group descriptors fit on the device, and in memory? */
static bool descriptors_fit(const struct device *dev, const uint8_t *super)
{
	uint64_t groups = get32(SUPER_AT(super, s_inodes_count)) /
			  get32(SUPER_AT(super, s_inodes_per_group));
	uint64_t size = groups * EXT2_MIN_DESC_SIZE;

	if (get32(SUPER_AT(super, s_feature_incompat)) & EXT4_FEATURE_INCOMPAT_64BIT)
		size = groups * get16(SUPER_AT(super, s_desc_size));
	return size <= DESCRIPTORS_MAX && size <= dev->size;
}

errcode_t extfs_io_open(struct device *dev, const uint8_t *super, ext2_filsys *fs)
{
	struct extfs_io io = { .dev = dev };
	char name[32];

	if (!descriptors_fit(dev, super))
		return EXT2_ET_CORRUPT_SUPERBLOCK;
	memcpy(io.super, super, sizeof(io.super));
	snprintf(name, sizeof(name), "%p", (void *)&io);
	return ext2fs_open2(name, NULL, EXT2_FLAG_64BITS, 0, 0, (io_manager)&device_io_manager, fs);
}
