/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What is said of the view beyond the contract that test_device.c holds. */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/zero.h"
#include "device/device.h"
#include "memory.h"
#include "random.h"
#include "syscalls.h"

#define KIB 1024ull
#define TIB (1ull << 40)

struct rig {
	char directory[64];
	struct device *memory, *lower, *view;
	atomic_uint reads; /* of the memory */
	int read_error;    /* what they give */
	uint8_t buffer[64 * KIB];
	struct random random;
};

/* Whatever happens to the view, what lies below is only read. */
static int only_reads(void *opaque, enum memory_op op, uint64_t offset, uint64_t length)
{
	struct rig *rig = opaque;

	if (op != MEMORY_READ)
		abort();
	rig->reads++;
	return rig->read_error;
}

static void rig_open(struct rig *rig, uint64_t lower_size, uint64_t view_size)
{
	const char *temporary = getenv("TMPDIR");

	memset(rig, 0, sizeof(*rig));
	snprintf(rig->directory, sizeof(rig->directory), "%s/view-XXXXXX", temporary ? temporary : "/tmp");
	assert_non_null(mkdtemp(rig->directory));
	/* Its holes begin and end within the view's granules. */
	assert_int_equal(device_open_memory(lower_size + 1536, 512, &rig->memory), 0);
	assert_int_equal(device_open_window(rig->memory, 1536, lower_size, &rig->lower), 0);
	assert_int_equal(device_open_overlay(rig->lower, view_size, rig->directory, &rig->view), 0);
	memory_set_hook(rig->memory, only_reads, rig);
	random_fill(&rig->random, rig->buffer, sizeof(rig->buffer));
}

static void rig_close(struct rig *rig)
{
	device_close(rig->view);
	device_close(rig->lower);
	device_close(rig->memory);
	/* Nothing was left in it. */
	assert_int_equal(rmdir(rig->directory), 0);
	syscalls = (struct syscalls){ 0 };
}

/* Put COUNT bytes into the lower device, before anything is tested. */
static void prepare(struct rig *rig, const void *bytes, size_t count, uint64_t offset)
{
	memory_set_hook(rig->memory, NULL, NULL);
	assert_int_equal(device_write(rig->lower, bytes, count, offset), 0);
	memory_set_hook(rig->memory, only_reads, rig);
}

static void assert_view(struct rig *rig, const void *bytes, size_t count, uint64_t offset)
{
	uint8_t *read = malloc(count);

	assert_int_equal(device_read(rig->view, read, count, offset), 0);
	assert_memory_equal(read, bytes, count);
	free(read);
}

/* ---- what a view costs ------------------------------------------------- */

static void sixteen_tebibytes(void **state)
{
	static const uint64_t places[] = { 0, 4 * TIB - 1536, 7 * TIB + 512, 12 * TIB, 16 * TIB - 4096 };
	struct rig rig;

	rig_open(&rig, 16 * TIB, 16 * TIB);
	for (int i = 0; i < 5; i++)
		assert_int_equal(device_write(rig.view, rig.buffer + i, 4096, places[i]), 0);
	for (int i = 0; i < 5; i++)
		assert_view(&rig, rig.buffer + i, 4096, places[i]);
	assert_int_equal(overlay_stored(rig.view), 5 * 4096);
	assert_int_equal(memory_stored(rig.memory), 0);
	rig_close(&rig);
}

static void zeros_are_not_stored(void **state)
{
	static const uint8_t zeros[64 * KIB];
	struct rig rig;

	rig_open(&rig, TIB, TIB);
	prepare(&rig, rig.buffer, 64 * KIB, 0);
	assert_int_equal(device_write(rig.view, zeros, 64 * KIB, 0), 0);
	assert_int_equal(overlay_stored(rig.view), 0);
	assert_view(&rig, zeros, 64 * KIB, 0);
	/* Of two blocks one. */
	for (int i = 0; i < 64; i += 8)
		memset(rig.buffer + i * KIB, 0, 4 * KIB);
	assert_int_equal(device_write(rig.view, rig.buffer, 64 * KIB, 128 * KIB), 0);
	assert_int_equal(overlay_stored(rig.view), 32 * KIB);
	assert_view(&rig, rig.buffer, 64 * KIB, 128 * KIB);
	assert_int_equal(device_zero(rig.view, 128 * KIB, 60 * KIB), 0);
	assert_int_equal(overlay_stored(rig.view), 4 * KIB);
	rig_close(&rig);
}

/* ---- what changed ------------------------------------------------------ */

struct change {
	uint64_t offset, length;
	enum device_extent_kind kind;
};

struct found {
	struct change list[4096];
	size_t count, stop_at;
};

static int note(void *opaque, uint64_t offset, uint64_t length, enum device_extent_kind kind)
{
	struct found *found = opaque;

	assert_true(found->count < sizeof(found->list) / sizeof(found->list[0]));
	found->list[found->count++] = (struct change){ offset, length, kind };
	return found->count == found->stop_at ? 55 : 0;
}

/* The same list, found by comparing everything with everything. */
static void brute_force(const uint8_t *before, const uint8_t *now, uint64_t size, uint32_t granule,
			struct found *found)
{
	found->count = 0;
	for (uint64_t at = 0; at < size; at += granule) {
		enum device_extent_kind kind = is_zero(now + at, granule) ? DEVICE_ZERO : DEVICE_DATA;
		struct change *last = found->count ? &found->list[found->count - 1] : NULL;

		if (memcmp(before + at, now + at, granule) == 0)
			continue;
		if (last && last->kind == kind && last->offset + last->length == at)
			last->length += granule;
		else
			note(found, at, granule, kind);
	}
}

/* Data, zeros, what is there already; of any length, at any sector. */
static void change_something(struct rig *rig, uint8_t *now, const uint8_t *before, uint64_t size)
{
	uint64_t offset = random_below(&rig->random, size / 512) * 512;
	uint64_t length = (random_below(&rig->random, 40) + 1) * 512;

	if (random_below(&rig->random, 6) == 0)
		length = random_below(&rig->random, size);
	if (length > size - offset)
		length = size - offset;
	switch (random_below(&rig->random, 4)) {
	case 0:
		random_fill(&rig->random, now + offset, length);
		break;
	case 1:
		memcpy(now + offset, before + offset, length);
		break;
	default:
		memset(now + offset, 0, length);
		assert_int_equal(device_zero(rig->view, offset, length), 0);
		return;
	}
	assert_int_equal(device_write(rig->view, now + offset, length, offset), 0);
}

static void assert_changes(struct rig *rig, const uint8_t *before, const uint8_t *now, uint64_t size)
{
	static struct found expected, found;

	for (uint32_t granule = 512; granule <= 4096; granule *= 8) {
		brute_force(before, now, size, granule, &expected);
		found.count = found.stop_at = 0;
		assert_int_equal(overlay_changes(rig->view, granule, note, &found), 0);
		assert_int_equal(found.count, expected.count);
		for (size_t i = 0; i < found.count; i++) {
			assert_int_equal(found.list[i].offset, expected.list[i].offset);
			assert_int_equal(found.list[i].length, expected.list[i].length);
			assert_int_equal(found.list[i].kind, expected.list[i].kind);
		}
	}
}

/* A disk of 3 MiB, so that one buffer does not hold it; a view of VIEW_SIZE. */
static void compare_with_brute_force(uint64_t seed, uint64_t view_size)
{
	const uint64_t lower_size = 3072 * KIB;
	uint64_t size = view_size > lower_size ? view_size : lower_size;
	uint8_t *before = calloc(1, size), *now = malloc(size);
	struct rig rig;

	rig_open(&rig, lower_size, view_size);
	rig.random.state = seed;
	for (int i = 0; i < 20; i++) {
		uint64_t offset = random_below(&rig.random, lower_size - 100000) / 512 * 512;
		uint64_t length = random_below(&rig.random, 100000) + 1;

		random_fill(&rig.random, before + offset, length);
		prepare(&rig, before + offset, length, offset);
	}
	memcpy(now, before, size);
	assert_changes(&rig, before, now, view_size);
	for (int i = 0; i < 60; i++) {
		change_something(&rig, now, before, view_size);
		if (i % 6 == 0)
			assert_changes(&rig, before, now, view_size);
	}
	assert_view(&rig, now, view_size, 0);
	rig_close(&rig);
	free(before);
	free(now);
}

static void changes_equal_a_brute_force_comparison(void **state)
{
	for (uint64_t seed = 0; seed < 6; seed++) {
		compare_with_brute_force(seed, 3072 * KIB);
		compare_with_brute_force(seed, 4000 * KIB);
		compare_with_brute_force(seed, 2000 * KIB);
	}
}

static void an_empty_view_has_no_changes(void **state)
{
	struct found found = { .count = 0 };
	struct rig rig;

	rig_open(&rig, 16 * TIB, 17 * TIB);
	assert_int_equal(overlay_changes(rig.view, 512, note, &found), 0);
	assert_int_equal(found.count, 0);
	rig_close(&rig);
}

static void zeros_over_holes_cost_no_read(void **state)
{
	struct found found = { .count = 0 };
	struct rig rig;

	rig_open(&rig, 16 * TIB, 17 * TIB);
	prepare(&rig, rig.buffer, 4096, 8 * TIB);
	/* From within a granule to within another. */
	assert_int_equal(device_zero(rig.view, 512, 17 * TIB - 1024), 0);
	assert_int_equal(overlay_changes(rig.view, 4096, note, &found), 0);
	assert_int_equal(found.count, 1);
	assert_int_equal(found.list[0].offset, 8 * TIB);
	assert_int_equal(found.list[0].length, 4096);
	assert_int_equal(found.list[0].kind, DEVICE_ZERO);
	assert_true(rig.reads < 10);
	rig_close(&rig);
}

static void comparing_stops_when_told(void **state)
{
	struct found found = { .stop_at = 2 };
	struct rig rig;

	rig_open(&rig, TIB, TIB);
	for (int i = 0; i < 4; i++)
		assert_int_equal(device_write(rig.view, rig.buffer, 512, i * 64 * KIB), 0);
	assert_int_equal(overlay_changes(rig.view, 512, note, &found), 55);
	assert_int_equal(found.count, 2);
	rig.read_error = -EREMOTEIO;
	assert_int_equal(overlay_changes(rig.view, 512, note, &found), -EREMOTEIO);
	assert_int_equal(found.count, 2);
	rig_close(&rig);
}

/* ---- the files --------------------------------------------------------- */

static void a_full_disk_under_the_view(void **state)
{
	struct rig rig;

	rig_open(&rig, TIB, TIB);
	assert_int_equal(device_write(rig.view, rig.buffer, 4096, 0), 0);
	syscalls.pwrite = ENOSPC;
	assert_int_equal(device_write(rig.view, rig.buffer + 1, 4096, 8192), -ENOSPC);
	assert_int_equal(device_write(rig.view, rig.buffer + 1, 4096, 0), -ENOSPC);
	syscalls.pwrite = 0;
	assert_view(&rig, rig.buffer, 4096, 0);
	assert_int_equal(overlay_stored(rig.view), 4096);
	syscalls.pread = EIO;
	assert_int_equal(device_read(rig.view, rig.buffer, 512, 512), -EIO);
	rig_close(&rig);
}

static void a_filesystem_without_nameless_files(void **state)
{
	struct rig rig;

	syscalls.no_tmpfile = true;
	rig_open(&rig, 16 * TIB, 16 * TIB);
	assert_int_equal(device_write(rig.view, rig.buffer, 4096, 0), 0);
	assert_int_equal(device_write(rig.view, rig.buffer + 7, 4096, 9 * TIB), 0);
	assert_view(&rig, rig.buffer, 4096, 0);
	assert_view(&rig, rig.buffer + 7, 4096, 9 * TIB);
	/* While it is open there is no name either. */
	assert_int_equal(rmdir(rig.directory), 0);
	assert_int_equal(mkdir(rig.directory, 0700), 0);
	rig_close(&rig);
}

static void a_directory_that_is_none(void **state)
{
	struct device *lower, *view;

	assert_int_equal(device_open_memory(4096, 512, &lower), 0);
	assert_int_equal(device_open_overlay(lower, 4096, "/nonexistent/directory", &view), -ENOENT);
	assert_null(view);
	assert_int_equal(device_open_overlay(lower, 4096, "/dev/null", &view), -ENOTDIR);
	assert_null(view);
	device_close(lower);
}

/* ---- threads ----------------------------------------------------------- */

#define THREADS 4
#define SHARE (256 * KIB) /* of the view, for each thread to write to */

struct worker {
	struct rig *rig;
	uint64_t start;
	uint8_t model[SHARE];
	bool wrong;
};

/* No assertions here: cmocka's jump does not cross threads. */
static void *work(void *opaque)
{
	struct worker *w = opaque;
	struct random random = { w->start };
	uint8_t read[SHARE];

	for (int i = 0; i < 400; i++) {
		uint64_t offset = random_below(&random, SHARE / 512) * 512;
		uint64_t length = random_below(&random, SHARE - offset + 1) / 512 * 512;
		bool zero = random_below(&random, 3) == 0;

		length = length < 20 * KIB ? length : 20 * KIB;
		if (zero)
			memset(w->model + offset, 0, length);
		else
			random_fill(&random, w->model + offset, length);
		w->wrong |= (zero ? device_zero(w->rig->view, w->start + offset, length)
				  : device_write(w->rig->view, w->model + offset, length,
						 w->start + offset)) != 0;
		w->wrong |= device_read(w->rig->view, read, SHARE, w->start) != 0;
		w->wrong |= memcmp(read, w->model, SHARE) != 0;
	}
	return NULL;
}

static void several_threads(void **state)
{
	struct worker *workers = calloc(THREADS, sizeof(*workers));
	pthread_t threads[THREADS];
	struct rig rig;

	rig_open(&rig, 16 * TIB, 16 * TIB);
	for (int i = 0; i < THREADS; i++) {
		workers[i].rig = &rig;
		/* Side by side, around the end of one file. */
		workers[i].start = 4 * TIB + i * SHARE - 2 * SHARE - 512;
		assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < THREADS; i++) {
		assert_false(workers[i].wrong);
		assert_view(&rig, workers[i].model, SHARE, workers[i].start);
	}
	rig_close(&rig);
	free(workers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sixteen_tebibytes),
		cmocka_unit_test(zeros_are_not_stored),
		cmocka_unit_test(changes_equal_a_brute_force_comparison),
		cmocka_unit_test(an_empty_view_has_no_changes),
		cmocka_unit_test(zeros_over_holes_cost_no_read),
		cmocka_unit_test(comparing_stops_when_told),
		cmocka_unit_test(a_full_disk_under_the_view),
		cmocka_unit_test(a_filesystem_without_nameless_files),
		cmocka_unit_test(a_directory_that_is_none),
		cmocka_unit_test(several_threads),
	};

	return cmocka_run_group_tests_name("overlay", tests, NULL, NULL);
}
