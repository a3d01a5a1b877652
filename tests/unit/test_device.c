/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The contract of device.h, held against every layer and stack of layers: a
 * device behaves as a plain array of bytes.
 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/zero.h"
#include "layers.h"
#include "memory.h"
#include "syscalls.h"

#define OPERATIONS 500

struct covered {
	const struct rig *rig;
	uint64_t at;
	int stop_after; /* calls; 0: never */
};

static int cover(void *opaque, uint64_t offset, uint64_t length, enum device_extent_kind kind)
{
	struct covered *c = opaque;

	assert_int_equal(offset, c->at);
	assert_true(length > 0 && length <= c->rig->size - offset);
	assert_true(kind == DEVICE_DATA || is_zero(c->rig->model + offset, length));
	c->at += length;
	return c->stop_after && --c->stop_after == 0 ? 77 : 0;
}

static void assert_covered(struct rig *rig, uint64_t offset, uint64_t length)
{
	struct covered c = { rig, offset, 0 };

	assert_int_equal(device_extents(rig->top, offset, length, cover, &c), 0);
	assert_int_equal(c.at, offset + length);
}

static int never(void *opaque, uint64_t offset, uint64_t length, enum device_extent_kind kind)
{
	fail_msg("an extent of a range that is not there");
	return 0;
}

/* Every call on [offset, offset + length), which must give RESULT. */
static void assert_every_call(struct rig *rig, uint64_t offset, size_t length, int result)
{
	uint8_t byte = 0xa5, *p = result == 0 && length == 1 ? &rig->model[offset] : &byte;

	assert_int_equal(device_write(rig->top, p, length, offset), result);
	assert_int_equal(device_read(rig->top, &byte, length, offset), result);
	assert_int_equal(byte, *p);
	assert_int_equal(device_drop_cache(rig->top, offset, length), result);
	if (result == 0 && length) {
		assert_covered(rig, offset, length);
		*p = 0;
	} else {
		assert_int_equal(device_extents(rig->top, offset, length, never, NULL), result);
	}
	assert_int_equal(device_zero(rig->top, offset, length), result);
}

static void edges(void **state)
{
	struct rig *rig = rig_open(*state, false);
	uint64_t size = rig->size;

	assert_int_equal(rig->top->size, size);
	assert_holds(rig);
	assert_every_call(rig, 0, 0, 0);
	assert_every_call(rig, 1, 0, 0);
	assert_every_call(rig, size, 0, 0);
	assert_every_call(rig, 0, 1, 0);
	assert_every_call(rig, 511, 1, 0);
	assert_every_call(rig, size / 2, 1, 0);
	assert_every_call(rig, size - 1, 1, 0);
	assert_every_call(rig, size, 1, -EINVAL);
	assert_every_call(rig, size - 1, 2, -EINVAL);
	assert_every_call(rig, size + 1, 0, -EINVAL);
	assert_every_call(rig, 0, size + 1, -EINVAL);
	assert_every_call(rig, 0, SIZE_MAX, -EINVAL);
	assert_every_call(rig, 1, SIZE_MAX, -EINVAL);
	assert_every_call(rig, 512, SIZE_MAX - 511, -EINVAL);
	assert_every_call(rig, UINT64_MAX, 0, -EINVAL);
	assert_every_call(rig, UINT64_MAX, 1, -EINVAL);
	assert_every_call(rig, UINT64_MAX - 511, 1024, -EINVAL);
	assert_every_call(rig, INT64_MAX, 4096, -EINVAL);
	assert_holds(rig);
	rig_close(rig);
}

/* A range that likes edges: of blocks, of the device, of other ranges. */
static void random_range(struct rig *rig, uint64_t *offset, uint64_t *length)
{
	static const uint32_t most[] = { 3, 600, 9000, 70000, 400000 }, units[] = { 1, 1, 512, 4096 };
	uint32_t unit = units[random_below(&rig->random, 4)];

	*offset = random_below(&rig->random, rig->size);
	*offset -= *offset % unit;
	*length = random_below(&rig->random, most[random_below(&rig->random, 5)]);
	*length += (unit - *length % unit) % unit;
	if (*length > rig->size - *offset || random_below(&rig->random, 30) == 0)
		*length = rig->size - *offset;
}

static void one_operation(struct rig *rig, uint8_t *buffer)
{
	uint64_t offset, length, cut;

	random_range(rig, &offset, &length);
	switch (random_below(&rig->random, 8)) {
	case 0:
	case 1:
	case 2: /* data, with zeros in it */
		random_fill(&rig->random, buffer, length);
		cut = random_below(&rig->random, length + 1);
		if (length && random_below(&rig->random, 2))
			memset(buffer + cut, 0, random_below(&rig->random, length - cut + 1));
		assert_int_equal(device_write(rig->top, buffer, length, offset), 0);
		memcpy(rig->model + offset, buffer, length);
		break;
	case 3:
		assert_int_equal(device_zero(rig->top, offset, length), 0);
		memset(rig->model + offset, 0, length);
		break;
	case 4:
		assert_covered(rig, offset, length);
		break;
	case 5:
		assert_int_equal(device_sync(rig->top), 0);
		assert_int_equal(device_drop_cache(rig->top, offset, length), 0);
		break;
	}
	assert_int_equal(device_read(rig->top, buffer, length, offset), 0);
	assert_memory_equal(buffer, rig->model + offset, length);
}

static void random_operations(void **state)
{
	struct rig *rig = rig_open(*state, false);
	uint8_t *buffer = malloc(rig->size);
	struct covered stopped = { rig, 0, 1 };

	for (int i = 0; i < OPERATIONS; i++)
		one_operation(rig, buffer);
	assert_covered(rig, 0, rig->size);
	assert_int_equal(device_extents(rig->top, 0, rig->size, cover, &stopped), 77);
	assert_int_equal(device_zero(rig->top, 1, rig->size - 2), 0);
	memset(rig->model + 1, 0, rig->size - 2);
	assert_holds(rig);
	free(buffer);
	rig_close(rig);
}

static void read_only(void **state)
{
	struct rig *rig = rig_open(*state, true);
	int result = rig->layer->view ? 0 : -EROFS;

	assert_int_equal(rig->top->read_only, !rig->layer->view);
	assert_int_equal(device_write(rig->top, "one", 3, 700), result);
	assert_int_equal(device_zero(rig->top, 10000, 5000), result);
	assert_int_equal(device_zero(rig->top, 1, 1), result);
	assert_int_equal(device_sync(rig->top), 0);
	/* What is out of range is said first. */
	assert_int_equal(device_write(rig->top, "one", 3, rig->size), -EINVAL);
	if (rig->layer->view) {
		memcpy(rig->model + 700, "one", 3);
		memset(rig->model + 10000, 0, 5000);
		rig->model[1] = 0;
	}
	assert_holds(rig);
	rig_close(rig);
}

static int fail_one(void *opaque, enum memory_op op, uint64_t offset, uint64_t length)
{
	const enum memory_op *failing = opaque;

	return op == *failing ? -EREMOTEIO : 0;
}

/* What fails at the bottom is heard at the top, unless a view lies between. */
static void failing_bottom(void **state)
{
	struct rig *rig;
	enum memory_op failing;
	uint8_t block[4096];

	if (((const struct layer *)*state)->block_size == 0)
		return;
	rig = rig_open(*state, false);
	memory_set_hook(rig->devices[0], fail_one, &failing);
	memset(block, 1, sizeof(block));
	for (failing = MEMORY_READ; failing <= MEMORY_SYNC; failing++) {
		int result = rig->layer->view ? 0 : -EREMOTEIO;

		if (failing == MEMORY_READ)
			assert_int_equal(device_read(rig->top, block, 100, 0), -EREMOTEIO);
		else if (failing == MEMORY_WRITE)
			assert_int_equal(device_write(rig->top, block, 4096, 0), result);
		else if (failing == MEMORY_ZERO)
			assert_int_equal(device_zero(rig->top, 0, rig->size), result);
		else
			assert_int_equal(device_sync(rig->top), result);
	}
	rig_close(rig);
}

static void short_and_interrupted(void **state)
{
	syscalls.short_transfers = true;
	edges(state);
	random_operations(state);
	syscalls.short_transfers = false;
}

static void no_holes_known(void **state)
{
	syscalls.fallocate = EOPNOTSUPP;
	syscalls.lseek = EINVAL;
	random_operations(state);
	syscalls.fallocate = syscalls.lseek = 0;
}

/* ---- windows and pieces that do not fit -------------------------------- */

static void pieces_must_lie_inside(void **state)
{
	static const struct { uint64_t offset, length; } bad[] = {
		{ 0, 1001 }, { 1000, 1 }, { 1001, 0 }, { 1, UINT64_MAX }, { UINT64_MAX, 1 }, { 0, 0 },
	};
	struct device *memory, *dev;

	assert_int_equal(device_open_memory(1000, 1, &memory), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const struct device_segment segments[] = { { memory, 0, 10 },
							   { memory, bad[i].offset, bad[i].length } };

		assert_int_equal(device_open_window(memory, bad[i].offset, bad[i].length, &dev), -EINVAL);
		assert_null(dev);
		assert_int_equal(device_open_linear(segments, 2, &dev), -EINVAL);
		assert_null(dev);
	}
	assert_int_equal(device_open_linear(NULL, 0, &dev), -EINVAL);
	device_close(memory);
}

static void pieces_longer_than_64_bits(void **state)
{
	struct device huge = { .size = UINT64_MAX, .block_size = 1 }, *dev;
	const struct device_segment segments[] = { { &huge, 0, UINT64_MAX - 5 }, { &huge, 0, 6 } };

	assert_int_equal(device_open_linear(segments, 2, &dev), -EINVAL);
	assert_null(dev);
}

/* ---- all of it --------------------------------------------------------- */

static int quiet(void **state)
{
	syscalls = (struct syscalls){ 0 };
	return 0;
}

static const struct {
	const char *what;
	CMUnitTestFunction function;
} contract[] = {
	{ "edges", edges },
	{ "random operations", random_operations },
	{ "read-only", read_only },
	{ "failing bottom", failing_bottom },
	{ "short and interrupted transfers", short_and_interrupted },
	{ "no holes known", no_holes_known },
};
#define CONTRACT (sizeof(contract) / sizeof(contract[0]))

int main(void)
{
	static struct CMUnitTest tests[CONTRACT * 100] = {
		cmocka_unit_test(pieces_must_lie_inside),
		cmocka_unit_test(pieces_longer_than_64_bits),
	};
	static char names[CONTRACT * 100][80];
	size_t n = 2;

	for (const struct layer *layer = layers; layer->name; layer++) {
		for (size_t i = 0; i < CONTRACT; i++, n++) {
			snprintf(names[n], sizeof(names[n]), "%s: %s", layer->name, contract[i].what);
			tests[n] = (struct CMUnitTest){ names[n], contract[i].function, NULL, quiet,
							(void *)layer };
		}
	}
	return _cmocka_run_group_tests("device", tests, n, NULL, NULL);
}
