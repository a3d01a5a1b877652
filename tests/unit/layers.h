/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Every layer, and stacks of them, ready to be tested.  Where a layer's bytes
 * come from is said in the table, byte by byte, apart from the layer's code.
 * Include unit.h first.
 */
#ifndef LAYERS_H
#define LAYERS_H

#include "device/device.h"
#include "random.h"

#define BOTTOM_SIZE (300u * 1024 + 700) /* a short last block for any block size */
#define NOWHERE UINT64_MAX

struct rig {
	const struct layer *layer;
	char directory[64];
	int fd;
	struct device *devices[8]; /* bottom first */
	size_t count;
	struct device *top;
	uint8_t bottom[BOTTOM_SIZE]; /* what the lowest device holds */
	uint8_t *model;              /* what the top one holds */
	uint64_t size;
	struct random random;
};

struct piece {
	uint64_t from, length; /* of the bottom; from NOWHERE: zeros */
};

struct layer {
	const char *name;
	uint32_t block_size; /* of a bottom in memory; 0: it is a file */
	void (*build)(struct rig *rig);
	bool view; /* writes do not reach the bottom */
	struct piece pieces[6];
};

/* The last one has no name. */
extern const struct layer layers[];

/* The one that is nothing but a file. */
const struct layer *file_layer(void);

struct rig *rig_open(const struct layer *layer, bool read_only);

/* Fails if a layer left anything in the temporary directory. */
void rig_close(struct rig *rig);

/* The top is the model; the bottom is what the pieces say, and else untouched. */
void assert_holds(struct rig *rig);

#endif
