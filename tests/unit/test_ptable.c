/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the tools make is read as they read it; what is damaged is named. */
#include "ptable_images.h"

/* ---- reading ----------------------------------------------------------- */

static void mbr_is_read(void **state)
{
	static const char *const types[] = { "5", "f", "85" };

	for (int i = 0; i < 3; i++) {
		const struct partition *p;
		struct ptable t;

		make_logicals("disk", types[i]);
		p = check_read("disk", &t, 7);
		assert_int_equal(t.type, PTABLE_MBR);
		assert_int_equal(t.sector_size, 512);
		assert_int_equal(t.size, 140 * IMAGE_MIB);
		assert_string_equal(t.id, "3a32f6f0");
		assert_true(p->logical && !p->extended);
		assert_int_equal(p->ebr, (135168 - 2048) * SECTOR); /* where sfdisk puts it */
		assert_true(ptable_find(&t, 2)->extended);
		assert_int_equal(ptable_find(&t, 5)->ebr, 67584 * SECTOR);
		assert_int_equal(t.area_count, 5); /* the MBR and four EBRs */
		assert_int_equal(t.first_usable, IMAGE_MIB);
		assert_int_equal(t.end_usable, t.size);
		ptable_free(&t);
	}
}

static void mbr_starting_early_is_read(void **state)
{
	struct ptable t;

	make_table("disk", 40 * IMAGE_MIB, "label: dos\\n2: start=63,size=2048,type=83\\n");
	check_read("disk", &t, 2);
	assert_int_equal(t.first_usable, 63 * SECTOR);
	ptable_free(&t);
}

static void gpt_is_read(void **state)
{
	char command[64], output[2048], value[128];
	struct ptable t;

	make_sparse_numbers("disk");
	check_read("disk", &t, 1);
	assert_int_equal(t.type, PTABLE_GPT);
	assert_string_equal(t.id, "3d5c2a00-1111-4222-8333-444455556666");
	assert_false(t.hybrid || t.backup_damaged || t.backup_misplaced);
	assert_int_equal(t.count, 3);
	for (size_t i = 0; i < t.count; i++) {
		const struct partition *p = &t.partitions[i];

		snprintf(command, sizeof(command), "sgdisk -i %d disk", p->number);
		assert_int_equal(image_run_into(output, sizeof(output), command), 0);
		image_value(output, "Partition unique GUID:", value, sizeof(value));
		assert_int_equal(strcasecmp(value, p->guid), 0);
		image_value(output, "Attribute flags:", value, sizeof(value));
		assert_int_equal(strtoull(value, NULL, 16), p->attributes);
	}
	assert_string_equal(ptable_find(&t, 9)->name, "reserved");
	assert_string_equal(ptable_find(&t, 4)->name, "STATE-B");
	assert_string_equal(ptable_find(&t, 1)->name, "syst\303\250me\360\237\222\276");
	assert_true(ptable_find(&t, 1)->boot);
	assert_int_equal(t.first_usable, 34 * SECTOR);
	assert_int_equal(t.end_usable, t.size - 33 * SECTOR);
	assert_int_equal(t.area_count, 5);
	ptable_free(&t);
}

static void assert_no_table(const char *name)
{
	struct ptable t;

	read_sound(name, &t);
	assert_int_equal(t.type, PTABLE_NONE);
	assert_int_equal(t.count, 0);
	ptable_free(&t);
}

static void disk_without_table_is_read(void **state)
{
	struct ptable_edit edit = removal(1);

	image_make("disk", 700);
	assert_no_table("disk");
	image_make("disk", 40 * IMAGE_MIB);
	assert_no_table("disk");
	refused("disk", &edit, 1, DW_REFUSED, "no partition table");
	if (image_run("mkfs.vfat -F 32 disk >/dev/null 2>&1") == 0)
		assert_no_table("disk");
}

/* ---- damaged tables ---------------------------------------------------- */

static void overlaps_are_named(void **state)
{
	struct ptable_edit edit = resize(1, 2048, 4096);

	make_logicals("disk", "f");
	poke_entry("disk", 0, 2, 7, 147456, 65536);
	assert_defect("disk", "partitions 2 (sectors 67584 to 247807) and 3 (sectors 147456 to 212991) overlap");
	refused("disk", &edit, 1, DW_REFUSED, "overlap");
	make_logicals("disk", "f");
	poke_entry("disk", 0, 2, 7, 4096, 2048);
	assert_defect("disk", "partitions 1 (sectors 2048 to 67583) and 3 (sectors 4096 to 6143) overlap");
}

static void cut_disk_is_named(void **state)
{
	struct ptable_edit edit = resize(1, 2048, 4096);

	make_logicals("disk", "f");
	assert_int_equal(truncate("disk", 262000 * SECTOR), 0);
	assert_defect("disk", "partition 3 ends at sector 262143, beyond the disk's 262000 sectors: 73728 bytes are missing");
	refused("disk", &edit, 1, DW_REFUSED, "73728 bytes are missing");
}

static void damaged_chains_are_named(void **state)
{
	struct ptable_edit edit = resize(1, 2048, 4096);
	uint8_t zeros[2] = { 0 };

	/* 6's EBR is at 110592, 7's at 133120, 8's at 169984; links count from 67584. */
	make_logicals("disk", "f");
	poke_entry("disk", 133120, 1, 5, 110592 - 67584, 22528);
	assert_defect("disk", "in a circle at sector 110592");
	refused("disk", &edit, 1, DW_REFUSED, "in a circle");
	make_logicals("disk", "f");
	poke_entry("disk", 133120, 1, 5, 180224, 2048);
	assert_defect("disk", "leaves the extended partition 2, or the disk, at sector 247808");
	make_logicals("disk", "f");
	image_write("disk", zeros, 2, 133120 * SECTOR + 510);
	assert_defect("disk", "EBR at sector 133120 has no signature");
	make_logicals("disk", "f");
	poke_entry("disk", 110592, 0, 0x82, 2048, 133121 - 112640);
	assert_defect("disk", "EBR at sector 133120 lies inside partition 6");
	make_logicals("disk", "f");
	poke_entry("disk", 110592, 0, 0x82, 0, 20480);
	assert_defect("disk", "EBR at sector 110592 lies inside partition 6");
	make_logicals("disk", "f");
	poke_entry("disk", 169984, 0, 0x8e, 2048, 100000);
	assert_defect("disk", "logical partition 8 (sectors 172032 to 272031) is not inside the extended partition 2");
	make_logicals("disk", "f");
	poke_entry("disk", 110592, 2, 0x83, 2048, 8);
	assert_defect("disk", "EBR at sector 110592 holds other entries");
	make_logicals("disk", "f");
	poke_entry("disk", 0, 2, 5, 260096, 2048);
	assert_defect("disk", "more than one extended");
}

/* As many distinct EBRs as fit, each with a link to the next sector. */
static void endless_chain_ends(void **state)
{
	make_logicals("disk", "f");
	for (uint32_t i = 0; i < 1000; i++) {
		poke_entry("disk", 67584 + i, 1, 5, i + 1, 1);
		image_write("disk", "\x55\xaa", 2, (67584 + i) * SECTOR + 510);
	}
	assert_defect("disk", "more than 120 links");
}

static void unlike_mbr_and_gpt_are_named(void **state)
{
	struct ptable_edit edit = resize(1, 2048, 4096);
	uint8_t header[SECTOR], zeros[64] = { 0 };
	struct ptable t;

	/* A GPT that an MBR has replaced. */
	make_sparse_numbers("gpt");
	read_sector("gpt", 1, header);
	make_logicals("disk", "f");
	image_write("disk", header, SECTOR, SECTOR);
	assert_defect("disk", "does not protect it");
	read_with("disk", 0, &t, NULL);
	assert_int_equal(t.type, PTABLE_MBR);
	ptable_free(&t);
	refused("disk", &edit, 1, DW_REFUSED, "does not protect it");
	image_write("gpt", zeros, sizeof(zeros), 446);
	assert_defect("gpt", "no protective MBR");
	refused("gpt", NULL, 0, DW_REFUSED, "no protective MBR");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mbr_is_read),
		cmocka_unit_test(mbr_starting_early_is_read),
		cmocka_unit_test(gpt_is_read),
		cmocka_unit_test(disk_without_table_is_read),
		cmocka_unit_test(overlaps_are_named),
		cmocka_unit_test(cut_disk_is_named),
		cmocka_unit_test(damaged_chains_are_named),
		cmocka_unit_test(endless_chain_ends),
		cmocka_unit_test(unlike_mbr_and_gpt_are_named),
	};

	return cmocka_run_group_tests(tests, image_directory_make, image_directory_remove);
}
