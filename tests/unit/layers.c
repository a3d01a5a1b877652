/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "layers.h"
#include "memory.h"

/* ---- the stacks -------------------------------------------------------- */

/* DEV by address: it is not known before the call that gives R. */
static void push(struct rig *rig, int r, struct device **dev)
{
	assert_int_equal(r, 0);
	assert_true(rig->count < sizeof(rig->devices) / sizeof(rig->devices[0]));
	rig->top = rig->devices[rig->count++] = *dev;
}

static void window(struct rig *rig, uint64_t offset, uint64_t length)
{
	struct device *dev;

	push(rig, device_open_window(rig->top, offset, length, &dev), &dev);
}

static void overlay(struct rig *rig, uint64_t size)
{
	struct device *dev;

	push(rig, device_open_overlay(rig->top, size, rig->directory, &dev), &dev);
}

static void bare(struct rig *rig)
{
}

static void a_window(struct rig *rig)
{
	window(rig, 12345, 200001);
}
#define WINDOW { { 12345, 200001 } }

static void a_window_in_a_window(struct rig *rig)
{
	window(rig, 4096, 200000);
	window(rig, 512, 100000);
}

static void a_linear(struct rig *rig)
{
	struct device *lower = rig->top, *dev;
	const struct device_segment segments[] = {
		{ lower, 200000, 70001 }, { lower, 512, 1 },    { lower, 4096, 8192 },
		{ lower, 131072, 12288 }, { lower, 3, 70 },
	};

	push(rig, device_open_linear(segments, 5, &dev), &dev);
}
#define LONGER { { 0, BOTTOM_SIZE }, { NOWHERE, 100000 } }
#define LINEAR { { 200000, 70001 }, { 512, 1 }, { 4096, 8192 }, { 131072, 12288 }, { 3, 70 } }

/* Aligned to the bottom's blocks inside, but not to each other. */
static void a_linear_of_windows(struct rig *rig)
{
	struct device_segment segments[] = { { NULL, 0, 9000 }, { NULL, 4096, 16384 } };
	struct device *lower = rig->top, *dev;

	window(rig, 40960, 9000);
	segments[0].lower = rig->top;
	rig->top = lower;
	window(rig, 8192, 20480);
	segments[1].lower = rig->top;
	push(rig, device_open_linear(segments, 2, &dev), &dev);
}

static void a_view(struct rig *rig)
{
	overlay(rig, rig->top->size);
}

static void a_longer_view(struct rig *rig)
{
	overlay(rig, rig->top->size + 100000);
}

static void a_shorter_view(struct rig *rig)
{
	overlay(rig, 150001);
}

static void a_view_of_a_window(struct rig *rig)
{
	a_window(rig);
	a_view(rig);
}

static void a_view_of_a_linear(struct rig *rig)
{
	a_linear(rig);
	a_view(rig);
}

static void a_view_of_a_view(struct rig *rig)
{
	a_longer_view(rig);
	a_view(rig);
}

static void a_window_in_a_view(struct rig *rig)
{
	a_longer_view(rig);
	window(rig, BOTTOM_SIZE - 9999, 20000);
}

static void a_linear_in_a_view(struct rig *rig)
{
	a_view(rig);
	a_linear(rig);
}

const struct layer layers[] = {
	{ "memory, block 1", 1, bare, false, { { 0, BOTTOM_SIZE } } },
	{ "memory, block 512", 512, bare, false, { { 0, BOTTOM_SIZE } } },
	{ "memory, block 4096", 4096, bare, false, { { 0, BOTTOM_SIZE } } },
	{ "file", 0, bare, false, { { 0, BOTTOM_SIZE } } },
	{ "window in a file", 0, a_window, false, WINDOW },
	{ "window in 512", 512, a_window, false, WINDOW },
	{ "window in 4096", 4096, a_window, false, WINDOW },
	{ "window in a window in 4096", 4096, a_window_in_a_window, false, { { 4608, 100000 } } },
	{ "linear in a file", 0, a_linear, false, LINEAR },
	{ "linear in 4096", 4096, a_linear, false, LINEAR },
	{ "linear of windows in 4096", 4096, a_linear_of_windows, false,
	  { { 40960, 9000 }, { 12288, 16384 } } },
	{ "view of a file", 0, a_view, true, { { 0, BOTTOM_SIZE } } },
	{ "view of 4096", 4096, a_view, true, { { 0, BOTTOM_SIZE } } },
	{ "longer view of a file", 0, a_longer_view, true, LONGER },
	{ "longer view of 512", 512, a_longer_view, true, LONGER },
	{ "shorter view of a file", 0, a_shorter_view, true, { { 0, 150001 } } },
	{ "view of a window in a file", 0, a_view_of_a_window, true, WINDOW },
	{ "view of a window in 4096", 4096, a_view_of_a_window, true, WINDOW },
	{ "view of a linear in 512", 512, a_view_of_a_linear, true, LINEAR },
	{ "view of a view of 4096", 4096, a_view_of_a_view, true, LONGER },
	{ "window in a view of a file", 0, a_window_in_a_view, true,
	  { { BOTTOM_SIZE - 9999, 9999 }, { NOWHERE, 10001 } } },
	{ "linear in a view of 512", 512, a_linear_in_a_view, true, LINEAR },
	{ .name = NULL },
};

const struct layer *file_layer(void)
{
	const struct layer *layer = layers;

	while (layer->block_size || layer->build != bare)
		layer++;
	return layer;
}

/* ---- setting up -------------------------------------------------------- */

/*
 * Data and holes, at edges that no block size likes.  Here and below the file
 * is reached by calls that syscalls.c leaves alone.
 */
static void make_bottom(struct rig *rig)
{
	const struct layer *layer = rig->layer;
	struct device *dev = NULL;
	char name[80];

	if (layer->block_size) {
		push(rig, device_open_memory(BOTTOM_SIZE, layer->block_size, &dev), &dev);
	} else {
		snprintf(name, sizeof(name), "%s/bottom", rig->directory);
		rig->fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
		assert_true(rig->fd >= 0);
		unlink(name);
		assert_int_equal(ftruncate(rig->fd, BOTTOM_SIZE), 0);
	}
	for (uint64_t at = 0, n; at < BOTTOM_SIZE; at += n + random_below(&rig->random, 30000)) {
		n = random_below(&rig->random, 20000);
		n = n < BOTTOM_SIZE - at ? n : BOTTOM_SIZE - at;
		random_fill(&rig->random, rig->bottom + at, n);
		if (dev)
			assert_int_equal(device_write(dev, rig->bottom + at, n, at), 0);
		else
			assert_int_equal(pwritev(rig->fd, &(struct iovec){ rig->bottom + at, n }, 1, at), n);
	}
}

struct rig *rig_open(const struct layer *layer, bool read_only)
{
	struct rig *rig = calloc(1, sizeof(*rig));
	const char *temporary = getenv("TMPDIR");
	struct device *dev;
	uint8_t *p;

	assert_non_null(rig);
	rig->layer = layer;
	rig->fd = -1;
	rig->random.state = layer - layers;
	snprintf(rig->directory, sizeof(rig->directory), "%s/device-XXXXXX", temporary ? temporary : "/tmp");
	assert_non_null(mkdtemp(rig->directory));
	make_bottom(rig);
	if (rig->fd >= 0)
		push(rig, device_open_fd(rig->fd, read_only, &dev), &dev);
	rig->top->read_only = read_only;
	layer->build(rig);

	for (const struct piece *piece = layer->pieces; piece->length; piece++)
		rig->size += piece->length;
	p = rig->model = calloc(1, rig->size);
	for (const struct piece *piece = layer->pieces; piece->length; piece++) {
		if (piece->from != NOWHERE)
			memcpy(p, rig->bottom + piece->from, piece->length);
		p += piece->length;
	}
	return rig;
}

void rig_close(struct rig *rig)
{
	while (rig->count)
		device_close(rig->devices[--rig->count]);
	if (rig->fd >= 0)
		close(rig->fd);
	assert_int_equal(rmdir(rig->directory), 0);
	free(rig->model);
	free(rig);
}

void assert_holds(struct rig *rig)
{
	uint8_t *buffer = malloc(rig->size > BOTTOM_SIZE ? rig->size : BOTTOM_SIZE);
	const uint8_t *p = rig->model;

	assert_int_equal(device_read(rig->top, buffer, rig->size, 0), 0);
	assert_memory_equal(buffer, rig->model, rig->size);
	for (const struct piece *piece = rig->layer->pieces; piece->length; piece++) {
		if (!rig->layer->view)
			memcpy(rig->bottom + piece->from, p, piece->length);
		p += piece->length;
	}
	if (rig->fd >= 0)
		assert_int_equal(preadv(rig->fd, &(struct iovec){ buffer, BOTTOM_SIZE }, 1, 0), BOTTOM_SIZE);
	else
		assert_int_equal(device_read(rig->devices[0], buffer, BOTTOM_SIZE, 0), 0);
	assert_memory_equal(buffer, rig->bottom, BOTTOM_SIZE);
	free(buffer);
}
