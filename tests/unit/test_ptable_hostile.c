/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tables with hostile numbers, and disks that cannot be read. */
#include <errno.h>

#include "memory.h"
#include "ptable_images.h"

#define MEMORY (24 * IMAGE_MIB)

static struct device *load(const char *name)
{
	struct device *memory;
	uint8_t *buffer = malloc(MEMORY);

	assert_non_null(buffer);
	image_read(name, buffer, MEMORY, 0);
	assert_int_equal(device_open_memory(MEMORY, 1, &memory), 0);
	for (uint64_t i = 0; i < MEMORY; i += 4096)
		if (buffer[i] || memcmp(buffer + i, buffer + i + 1, 4095))
			assert_int_equal(device_write(memory, buffer + i, 4096, i), 0);
	free(buffer);
	return memory;
}

static void make_small_tables(void)
{
	make_table("mbr", MEMORY, "label: dos\\n1: start=64,size=4096,type=83\\n2: start=5000,size=30000,type=5\\n"
		   "5: start=5100,size=4000,type=83\\n6: start=9200,size=4000,type=83\\n7: start=14000,size=6000,type=82\\n");
	image_make("gpt", MEMORY);
	sgdisk("gpt", "-o -a 1 -n 1:64:4000 -n 2:5000:20000 -n 3:30000:40000");
	image_make("large", MEMORY);
	assert_int_equal(image_run("PARTED_SECTOR_SIZE=4096 parted -s large mklabel gpt mkpart a 1MiB 5MiB "
				   "mkpart b 6MiB 8MiB 2>/dev/null"), 0);
}

/* An edit of a mutilated table succeeds with a sound result or leaves the disk alone. */
static void try_edit(struct device *disk, const struct ptable *table, struct random *random)
{
	struct dw_report report = { 0 };
	struct ptable_edit edit = removal(1);
	char defect[DW_PTABLE_DEFECT];
	struct ptable after;
	struct device *view;

	assert_int_equal(device_open_overlay(disk, disk->size, ".", &view), 0);
	if (table->count && random_below(random, 4)) {
		const struct partition *p = &table->partitions[random_below(random, table->count)];
		uint64_t unit = table->sector_size, count = p->length / unit;

		edit = removal(p->number);
		if (random_below(random, 3))
			edit = (struct ptable_edit){ PTABLE_RESIZE, p->number, p->start + random_below(random, 3) * unit,
						     (1 + random_below(random, 2 * count)) * unit };
	}
	if (ptable_edit(view, table, &edit, 1, &report) < 0) {
		assert_int_not_equal(report.message[0], 0);
		assert_int_equal(overlay_stored(view), 0);
	} else {
		assert_int_equal(ptable_read(view, table->sector_size, &after, defect, &report), 0);
		assert_string_equal(defect, "");
		ptable_free(&after);
	}
	device_close(view);
}

/* A number that has been a limit somewhere, or any. */
static uint64_t nasty(struct random *random)
{
	static const uint64_t limits[] = { 0, 1, 2, 0x7fffffff, 0x80000000, 0xffffffff, INT64_MAX, UINT64_MAX,
					   UINT64_MAX / 512, MEMORY / 512, MEMORY / 512 - 1, 34, 5000 };
	uint64_t n = random_next(random);

	return n % 3 ? limits[n / 3 % (sizeof(limits) / sizeof(limits[0]))] : n;
}

/* Checksums that fit the mutilated content, so that it is looked at. */
static void mend_checksums(struct device *disk, uint32_t unit)
{
	uint8_t h[512], entries[16384];

	assert_int_equal(device_read(disk, h, sizeof(h), unit), 0);
	if (get64(h + 72) == 2 && get32(h + 80) <= 128 && get32(h + 84) == 128) {
		assert_int_equal(device_read(disk, entries, 128 * get32(h + 80), 2 * unit), 0);
		put32(h + 88, checksum(entries, 128 * get32(h + 80)));
	}
	put32(h + 16, 0);
	if (get32(h + 12) <= sizeof(h))
		put32(h + 16, checksum(h, get32(h + 12)));
	assert_int_equal(device_write(disk, h, sizeof(h), unit), 0);
}

/* Where mutilation hurts: the entries of MBR and EBRs, headers, GPT entries. */
static void mutilate(struct device *disk, const struct ptable *table, struct random *random)
{
	uint64_t n = 1 + random_below(random, 3);

	while (n-- > 0) {
		const struct ptable_area *a = &table->areas[random_below(random, table->area_count)];
		uint64_t field = random_below(random, a->length < 512 ? a->length : 512) & ~3ull, value = nasty(random);
		size_t size = 1u << random_below(random, 4);

		if (a->length == table->sector_size)
			field = get64((uint8_t *)&field) % 92 & ~3ull;
		if (table->type == PTABLE_MBR || a->offset == 0)
			field = 446 + random_below(random, 58);
		assert_int_equal(device_write(disk, &value, size, a->offset + field), 0);
	}
	if (table->type == PTABLE_GPT && random_below(random, 4))
		mend_checksums(disk, table->sector_size);
}

static void mutilated_tables_do_no_harm(void **state)
{
	static const char *const names[] = { "mbr", "gpt", "large" };
	static const uint32_t units[] = { 0, 512, 4096 };
	struct dw_report report = { 0 };
	struct random random = { 20240229 };

	make_small_tables();
	for (int k = 0; k < 3; k++) {
		struct device *base = load(names[k]), *disk;
		struct ptable valid, table;

		assert_int_equal(ptable_read(base, 0, &valid, NULL, &report), 0);
		for (int i = 0; i < 3400; i++) {
			char defect[DW_PTABLE_DEFECT];

			assert_int_equal(device_open_overlay(base, MEMORY, ".", &disk), 0);
			mutilate(disk, &valid, &random);
			assert_int_equal(ptable_read(disk, units[random_below(&random, 3)], &table, defect, &report), 0);
			if (i % 8 == 0)
				try_edit(disk, &table, &random);
			ptable_free(&table);
			device_close(disk);
		}
		ptable_free(&valid);
		device_close(base);
	}
}

/* 32768 entries that all overlap are judged in no time. */
static void largest_gpt_is_judged(void **state)
{
	static uint8_t h[512], entries[32768 * 128];
	char defect[DW_PTABLE_DEFECT];
	struct dw_report report = { 0 };
	struct device *disk;
	struct ptable t;

	make_small_tables();
	disk = load("gpt");
	for (uint32_t i = 0; i < 32768; i++) {
		memset(entries + 128 * i, 0x11, 32);
		put64(entries + 128 * i + 32, 10000 + i % 7);
		put64(entries + 128 * i + 40, 20000);
	}
	assert_int_equal(device_read(disk, h, sizeof(h), 512), 0);
	put64(h + 40, 2 + 32768 / 4);
	put32(h + 80, 32768);
	put32(h + 88, checksum(entries, sizeof(entries)));
	put32(h + 16, 0);
	put32(h + 16, checksum(h, 92));
	assert_int_equal(device_write(disk, h, sizeof(h), 512), 0);
	assert_int_equal(device_write(disk, entries, sizeof(entries), 1024), 0);
	assert_int_equal(ptable_read(disk, 0, &t, defect, &report), 0);
	assert_int_equal(t.count, 32768);
	assert_non_null(strstr(defect, "overlap"));
	ptable_free(&t);
	device_close(disk);
}

struct fault {
	int countdown;
};

static int fail_read(void *opaque, enum memory_op op, uint64_t offset, uint64_t length)
{
	struct fault *f = opaque;

	return op == MEMORY_READ && f->countdown-- == 0 ? -EIO : 0;
}

/* The i-th read fails, for every i: reported, and nothing is written. */
static void read_errors_are_reported(void **state)
{
	static const char *const names[] = { "mbr", "gpt" };

	make_small_tables();
	for (int k = 0; k < 2; k++) {
		struct device *disk = load(names[k]), *view;
		struct ptable_edit edit = removal(1);
		struct ptable table;
		int r = -EIO, i;

		for (i = 0; r < 0; i++) {
			struct dw_report report = { 0 };
			struct fault fault = { i };

			assert_int_equal(device_open_overlay(disk, MEMORY, ".", &view), 0);
			memory_set_hook(disk, fail_read, &fault);
			r = ptable_read(view, 0, &table, NULL, &report);
			if (r == 0) {
				r = ptable_edit(view, &table, &edit, 1, &report);
				ptable_free(&table);
			}
			memory_set_hook(disk, NULL, NULL);
			if (r < 0) {
				assert_int_not_equal(report.message[0], 0);
				if (fault.countdown >= 0)
					fail_msg("%s", report.message);
			}
			/* A damaged copy of a GPT is no failure. */
			if (r == 0 && fault.countdown < 0)
				r = -EIO;
			device_close(view);
		}
		assert_true(i > 5);
		device_close(disk);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mutilated_tables_do_no_harm),
		cmocka_unit_test(largest_gpt_is_judged),
		cmocka_unit_test(read_errors_are_reported),
	};

	return cmocka_run_group_tests(tests, image_directory_make, image_directory_remove);
}
