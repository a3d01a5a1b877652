/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A block device: bytes [0, size).  A layer implements it on top of others.
 *
 * Callers use device_read() and friends below (the dispatcher, device.c) with
 * any offset and length inside the device.  All checks (range, overflow,
 * read-only, alignment) and the one read-modify-write are done there, so a
 * layer's callbacks see only ranges that lie inside the device and whose ends
 * are multiples of block_size (or end at size).  map(), extents() and
 * drop_cache() see any range inside the device.
 */
#ifndef DW_DEVICE_H
#define DW_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device;

/* What is known of a range without reading it. */
enum device_extent_kind {
	DEVICE_DATA, /* may hold anything */
	DEVICE_ZERO, /* reads as zeros (a hole, a zero extent) */
};

/* Called in ascending order; a return other than 0 stops and is handed back. */
typedef int device_extent_fn(void *opaque, uint64_t offset, uint64_t length,
			     enum device_extent_kind kind);

/*
 * A layer.  Return 0 or a negative errno.  NULL for read, write, zero, sync
 * or extents means: ask map() where the range lies below and go on there.
 * NULL for zero without map(): the dispatcher writes zeros.
 */
struct device_ops {
	const char *name;
	int (*read)(struct device *dev, void *buffer, size_t length, uint64_t offset);
	int (*write)(struct device *dev, const void *buffer, size_t length, uint64_t offset);
	int (*zero)(struct device *dev, uint64_t offset, uint64_t length);
	/* Everything written so far is durable when this returns 0. */
	int (*sync)(struct device *dev);
	/* Report [offset, offset + length) completely, in order, without gaps. */
	int (*extents)(struct device *dev, uint64_t offset, uint64_t length,
		       device_extent_fn *fn, void *opaque);
	/*
	 * A transparent layer: where does OFFSET lie below?  Sets the lower
	 * device, the offset there and for how many bytes that holds (> 0).
	 */
	int (*map)(struct device *dev, uint64_t offset, struct device **lower,
		   uint64_t *lower_offset, uint64_t *run);
	/* Forget cached content of the range, so that the next read asks the medium. */
	int (*drop_cache)(struct device *dev, uint64_t offset, uint64_t length);
	/* Free what the layer owns; never the devices below. */
	void (*close)(struct device *dev);
};

struct device {
	const struct device_ops *ops;
	uint64_t size;       /* bytes */
	uint32_t block_size; /* smallest unit the layer reads and writes: 1, 512 or 4096 */
	bool read_only;
};

/* Every call: 0 or a negative errno (-EINVAL out of range, -EROFS read-only). */
int device_read(struct device *dev, void *buffer, size_t length, uint64_t offset);
int device_write(struct device *dev, const void *buffer, size_t length, uint64_t offset);
/* Make [offset, offset + length) read as zeros; sparse where the layer can. */
int device_zero(struct device *dev, uint64_t offset, uint64_t length);
int device_sync(struct device *dev);
int device_extents(struct device *dev, uint64_t offset, uint64_t length,
		   device_extent_fn *fn, void *opaque);
int device_drop_cache(struct device *dev, uint64_t offset, uint64_t length);

/* Close DEV, not what is below it.  Accepts NULL. */
void device_close(struct device *dev);

/* For `__attribute__((cleanup(device_cleanup)))`. */
static inline void device_cleanup(struct device **dev)
{
	device_close(*dev);
}

/*
 * The layers.  Each constructor returns 0 and a device that the caller closes
 * (before the devices below it), or a negative errno.
 */

/*
 * A regular file or a block device by descriptor (-ENOTBLK: neither); FD is
 * duplicated.  block_size is 1 for a file, the logical block size for a block
 * device.  zero() punches a hole in a regular file; extents() uses
 * SEEK_HOLE/SEEK_DATA.  A failed sync is final: later ones and writes fail too.
 */
int device_open_fd(int fd, bool read_only, struct device **out);

/* Change the length of a regular file behind a device of device_open_fd(). */
int device_file_resize(struct device *dev, uint64_t size);

/* [offset, offset + length) of LOWER: a partition. */
int device_open_window(struct device *lower, uint64_t offset, uint64_t length,
		       struct device **out);

/* Pieces of other devices, one after the other: a logical volume. */
struct device_segment {
	struct device *lower;
	uint64_t offset, length; /* bytes */
};
int device_open_linear(const struct device_segment *segments, size_t count,
		       struct device **out);

/*
 * The view: LOWER as it would be after the writes made here.  LOWER is never
 * written.  Written blocks go to unlinked sparse files in DIRECTORY (at their
 * own offsets, one file per 4 TiB), zero blocks to the extent list only.
 * SIZE may differ from LOWER's: what lies behind LOWER's end reads as zeros.
 */
int device_open_overlay(struct device *lower, uint64_t size, const char *directory,
			struct device **out);

/*
 * What differs from LOWER, sorted, merged, compared with LOWER's content in
 * units of GRANULE bytes (512 or 4096, a divisor of all sizes): unchanged
 * rewrites and zeros over holes are left out.  For DEVICE_DATA extents read
 * the content from the overlay device itself.  Stops on fn() != 0.  Nobody may
 * write to the overlay meanwhile.
 */
int overlay_changes(struct device *overlay, uint32_t granule, device_extent_fn *fn,
		    void *opaque);

/* Bytes of written content held in the overlay's files. */
uint64_t overlay_stored(struct device *overlay);

#endif
