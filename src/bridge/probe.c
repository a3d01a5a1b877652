/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <blkid/blkid.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bridge/probe.h"
#include "core/bytes.h"
#include "core/zero.h"

#define AREA (1024 * 1024)

/* ---- a memory file that looks like the device -------------------------- */

/*
 * LUKS2 keeps its second header at one of these places, and the header names
 * its own: where the two differ it is a stray piece (of memory that was swapped
 * out, say), and libblkid, which does not compare them, must not see it.
 */
static void hide_stray_luks(uint8_t *head, uint64_t length)
{
	static const char magic[] = { 'S', 'K', 'U', 'L', '\xba', '\xbe' };
	const uint64_t hdr_offset = 256, header = 4096;
	uint64_t stated;

	for (uint64_t at = 0x4000; at <= 0x400000 && at < length && length - at >= header; at *= 2) {
		memcpy(&stated, head + at + hdr_offset, sizeof(stated));
		if (memcmp(head + at, magic, sizeof(magic)) == 0 && be64toh(stated) != at)
			memset(head + at, 0, sizeof(magic));
	}
}

static int copy_area(struct device *dev, int fd, uint64_t offset, uint64_t length, bool *blank)
{
	uint8_t *buffer = malloc(length);
	int r = buffer ? device_read(dev, buffer, length, offset) : -ENOMEM;

	if (r == 0 && !is_zero(buffer, length)) {
		*blank = false;
		if (offset == 0)
			hide_stray_luks(buffer, length);
		if (pwrite(fd, buffer, length, offset) != (ssize_t)length)
			r = -EIO;
	}
	free(buffer);
	return r;
}

/* A file of the device's size with its first and last MiB, or an error. */
static int skeleton(struct device *dev, bool *blank)
{
	int fd = memfd_create("probe", MFD_CLOEXEC), r = 0;
	uint64_t head = dev->size < AREA ? dev->size : AREA;
	uint64_t tail = dev->size - head < AREA ? dev->size - head : AREA;

	*blank = true;
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, dev->size) < 0)
		r = -errno;
	if (r == 0 && head)
		r = copy_area(dev, fd, 0, head, blank);
	if (r == 0 && tail)
		r = copy_area(dev, fd, dev->size - tail, tail, blank);
	if (r < 0)
		close(fd);
	return r < 0 ? r : fd;
}

/* ---- what libblkid says ------------------------------------------------ */

static void value(blkid_probe pr, const char *name, char *out, size_t size)
{
	const char *data;

	if (blkid_probe_lookup_value(pr, name, &data, NULL) == 0)
		snprintf(out, size, "%s", data);
}

static void find_type(blkid_probe pr, struct probe *out)
{
	int r = blkid_do_safeprobe(pr);

	/* Several at once: name the first, and say so. */
	out->ambiguous = r == -2;
	if (out->ambiguous) {
		blkid_reset_probe(pr);
		r = blkid_do_probe(pr);
	}
	if (r != 0)
		return;
	value(pr, "TYPE", out->type, sizeof(out->type));
	value(pr, "USAGE", out->usage, sizeof(out->usage));
	value(pr, "UUID", out->uuid, sizeof(out->uuid));
	value(pr, "LABEL", out->label, sizeof(out->label));
	value(pr, "VERSION", out->version, sizeof(out->version));
}

/*
 * Every signature, the backups of one type too: each is wiped from the memory
 * file once it is noted, so that the next shows.
 */
static void find_magics(blkid_probe pr, struct probe *out)
{
	const char *offset;
	size_t length;

	blkid_reset_probe(pr);
	while (out->magic_count < PROBE_MAGICS && blkid_do_probe(pr) == 0) {
		if (blkid_probe_lookup_value(pr, "SBMAGIC_OFFSET", &offset, NULL) < 0 ||
		    blkid_probe_lookup_value(pr, "SBMAGIC", NULL, &length) < 0)
			continue;
		out->magics[out->magic_count].offset = strtoull(offset, NULL, 10);
		out->magics[out->magic_count++].length = length;
		blkid_do_wipe(pr, 0);
	}
}

static int probe_fd(int fd, uint64_t size, struct probe *out)
{
	blkid_probe pr = blkid_new_probe();

	if (!pr)
		return -ENOMEM;
	if (blkid_probe_set_device(pr, fd, 0, size) < 0) {
		blkid_free_probe(pr);
		return -EIO;
	}
	blkid_probe_enable_superblocks(pr, 1);
	blkid_probe_enable_partitions(pr, 0);
	blkid_probe_enable_topology(pr, 0);
	blkid_probe_set_superblocks_flags(pr, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_USAGE |
						      BLKID_SUBLKS_UUID | BLKID_SUBLKS_LABEL |
						      BLKID_SUBLKS_VERSION | BLKID_SUBLKS_MAGIC);
	find_type(pr, out);
	if (out->type[0])
		find_magics(pr, out);
	blkid_free_probe(pr);
	return 0;
}

/* ---- backups of an ext superblock -------------------------------------- */

/* Where superblock fields stand: ext2_fs.h belongs to another bridge. */
enum {
	EXT_BLOCKS_COUNT = 0x04,
	EXT_LOG_BLOCK_SIZE = 0x18,
	EXT_BLOCKS_PER_GROUP = 0x20,
	EXT_MAGIC = 0x38,
	EXT_GROUP_NUMBER = 0x5a,
	EXT_SUPER_SIZE = 1024,
};

static bool is_backup(struct device *dev, uint64_t offset, uint32_t log_block)
{
	uint8_t s[EXT_SUPER_SIZE];
	uint32_t group = 8192u << log_block;

	return offset <= dev->size && dev->size - offset >= sizeof(s) &&
	       device_read(dev, s, sizeof(s), offset) == 0 && get16(s + EXT_MAGIC) == 0xef53 &&
	       get32(s + EXT_LOG_BLOCK_SIZE) == log_block && get16(s + EXT_GROUP_NUMBER) == 1 &&
	       get32(s + EXT_BLOCKS_PER_GROUP) == group && get32(s + EXT_BLOCKS_COUNT) > group;
}

static uint64_t find_backup(struct device *dev)
{
	/* Group 1 starts at block 8193 (1 KiB), 16384 (2 KiB), 32768 (4 KiB). */
	static const uint64_t places[] = { 8193ull * 1024, 16384ull * 2048, 32768ull * 4096 };

	for (uint32_t log = 0; log < 3; log++)
		if (is_backup(dev, places[log], log))
			return places[log];
	return 0;
}

int probe_device(struct device *dev, struct probe *out, struct dw_report *report)
{
	int fd, r;

	memset(out, 0, sizeof(*out));
	fd = skeleton(dev, &out->blank);
	r = fd < 0 ? fd : out->blank ? 0 : probe_fd(fd, dev->size, out);
	if (fd >= 0)
		close(fd);
	if (r < 0)
		return dw_fail(report, DW_FAILED, -r, "cannot look at the content: %s", strerror(-r));
	if (!out->type[0])
		out->ext_backup = find_backup(dev);
	return 0;
}
