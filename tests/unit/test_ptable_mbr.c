/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Edits of an MBR: the tools find the result sound, and the rest is as it was. */
#include "ptable_images.h"

static void boot_code_and_other_entries_stay(void **state)
{
	static const uint8_t odd_chs[3] = { 0x12, 0x34, 0x56 };
	uint8_t was[SECTOR], is[SECTOR];

	for (int first = 0; first < 2; first++) {
		struct ptable_edit edit = resize(1, 2048, 60000);
		struct ptable t;

		make_logicals("disk", "f");
		fill_gap("disk", first, 7);
		image_write("disk", odd_chs, 3, 446 + 32 + 1);
		image_write("disk", odd_chs, 3, 446 + 16 + 5);
		image_run("cp disk before");
		edited("disk", &edit, 1);
		sound_mbr("disk");
		assert_int_equal(check_read("disk", &t, 1)->length, 60000 * SECTOR);
		ptable_free(&t);
		read_sector("before", 0, was);
		read_sector("disk", 0, is);
		assert_memory_equal(was, is, 446);
		assert_memory_equal(was + 462, is + 462, 50);
		image_write("disk", was, SECTOR, 0); /* the rest of the first MiB */
		assert_int_equal(image_run("cmp -s -n 1048576 disk before"), 0);
	}
}

/* An id of 0 and no boot code: where libparted makes a new id. */
static void disk_id_stays(void **state)
{
	struct ptable_edit edit = removal(1);
	uint8_t zeros[4] = { 0 };
	struct ptable t;

	make_logicals("disk", "5");
	image_write("disk", zeros, 4, 440);
	edited("disk", &edit, 1);
	check_read("disk", &t, 2);
	assert_string_equal(t.id, "00000000");
	ptable_free(&t);
}

static void logical_is_merged_with_next(void **state)
{
	/* 6 grows over 7, up to the EBR of 8. */
	struct ptable_edit edits[] = { removal(7), resize(6, 112640, 172032 - 2048 - 112640) };
	struct ptable t;

	make_logicals("disk", "5");
	edited("disk", edits, 2);
	sound_mbr("disk");
	check_read("disk", &t, 6);
	assert_int_equal(t.count, 6);
	assert_place(&t, 2, 67584, 180224);
	assert_place(&t, 5, 69632, 40960);
	assert_place(&t, 6, 112640, 57344);
	assert_place(&t, 7, 172032, 40960);
	assert_int_equal(ptable_find(&t, 7)->mbr_type, 0x8e);
	assert_non_null(strstr(notes, "8 becomes partition 7"));
	assert_null(strstr(notes, "Partition 6"));
	ptable_free(&t);
}

static void logical_stops_before_the_next_ebr(void **state)
{
	struct ptable_edit edit = resize(7, 135168, 172032 - 2048 - 135168 + 1);

	make_logicals("disk", "5");
	refused("disk", &edit, 1, DW_REFUSED, "EBR at sector 169984 lies inside partition 7");
	edit = resize(7, 135168, 172032 - 135168 + 1);
	refused("disk", &edit, 1, DW_REFUSED, "overlap");
}

static void first_and_last_logical_are_removed(void **state)
{
	struct ptable_edit first = removal(5), last = removal(7);
	struct ptable t;

	make_logicals("disk", "f");
	edited("disk", &first, 1);
	sound_mbr("disk");
	check_read("disk", &t, 5);
	assert_place(&t, 5, 112640, 20480);
	assert_place(&t, 7, 172032, 40960);
	assert_int_equal(ptable_find(&t, 5)->ebr, 67584 * SECTOR);
	assert_non_null(strstr(notes, "6 becomes partition 5"));
	ptable_free(&t);
	edited("disk", &last, 1);
	sound_mbr("disk");
	check_read("disk", &t, 6);
	assert_int_equal(t.count, 5);
	assert_string_equal(notes, "");
	ptable_free(&t);
}

static void extended_grows_with_its_last_logical(void **state)
{
	struct ptable_edit edit = resize(8, 172032, 260096 - 172032);
	struct ptable t;

	make_logicals("disk", "f");
	edited("disk", &edit, 1);
	sound_mbr("disk");
	check_read("disk", &t, 8);
	assert_place(&t, 2, 67584, 260096 - 67584);
	assert_int_equal(ptable_find(&t, 2)->mbr_type, 0x0f);
	assert_place(&t, 8, 172032, 260096 - 172032);
	ptable_free(&t);
	edit = resize(8, 172032, 260097 - 172032);
	refused("disk", &edit, 1, DW_REFUSED, "partitions 2 (sectors 67584 to 260096) and 3");
}

static void extended_alone_is_resized(void **state)
{
	struct ptable_edit edit = resize(2, 67584, 190000);
	struct ptable t;

	make_logicals("disk", "5");
	edited("disk", &edit, 1);
	sound_mbr("disk");
	check_read("disk", &t, 2);
	assert_place(&t, 2, 67584, 190000);
	assert_place(&t, 8, 172032, 40960);
	ptable_free(&t);
	edit = resize(2, 67584, 172032 + 40960 - 67584);
	edited("disk", &edit, 1);
	sound_mbr("disk");
	edit = resize(2, 67584, 172032 + 40960 - 67584 - 1);
	refused("disk", &edit, 1, DW_REFUSED, "logical partition 8");
}

static void extended_is_removed_only_when_empty(void **state)
{
	struct ptable_edit edits[] = { removal(2), removal(5), removal(6), removal(7), removal(8) };
	struct ptable t;

	make_logicals("disk", "5");
	refused("disk", edits, 1, DW_REFUSED, "still holds logical");
	refused("disk", edits, 4, DW_REFUSED, "still holds logical");
	edited("disk", edits, 5);
	sound_mbr("disk");
	check_read("disk", &t, 1);
	assert_int_equal(t.count, 2);
	ptable_free(&t);
}

/* One edit makes room for another, whatever their order in the list. */
static void primaries_move(void **state)
{
	struct ptable_edit edits[] = { resize(1, 2048, 40960), resize(2, 43008, 20480), resize(3, 65536, 8192) };
	struct ptable t;

	make_table("disk", 40 * IMAGE_MIB, "label: dos\\n1: start=2048,size=20480,type=83\\n"
		   "2: start=22528,size=20480,type=82\\n3: start=43008,size=8192,type=7\\n");
	edited("disk", edits, 3);
	sound_mbr("disk");
	check_read("disk", &t, 3);
	assert_place(&t, 1, 2048, 40960);
	assert_place(&t, 2, 43008, 20480);
	assert_place(&t, 3, 65536, 8192);
	assert_int_equal(ptable_find(&t, 2)->mbr_type, 0x82);
	ptable_free(&t);
}

/* As Debian's installer lays it out: the EBR two sectors before, hard behind a partition. */
static void narrow_gap_is_kept(void **state)
{
	struct ptable_edit edits[] = { resize(2, 135166, 96256), resize(5, 135168, 96254) };
	struct ptable t;

	make_table("disk", 160 * IMAGE_MIB, "label: dos\\nlabel-id: 0x3a32f6f0\\n"
		   "1: start=2048,size=133118,type=83,bootable\\n2: start=135166,size=61442,type=5\\n"
		   "5: start=135168,size=61440,type=82\\n");
	edited("disk", edits, 2);
	sound_mbr("disk");
	check_read("disk", &t, 5);
	assert_place(&t, 1, 2048, 133118);
	assert_place(&t, 5, 135168, 96254);
	assert_int_equal(ptable_find(&t, 5)->ebr, 135166 * SECTOR);
	ptable_free(&t);
	/* With the first sector behind the EBR, which only the first may have. */
	edits[1] = resize(5, 135167, 90000);
	edited("disk", edits + 1, 1);
	sound_mbr("disk");
	edited("disk", edits, 1);
	assert_int_equal(check_read("disk", &t, 5)->start, 135167 * SECTOR);
	ptable_free(&t);
}

static void logical_moves(void **state)
{
	struct ptable_edit edit = resize(6, 114688, 16384);
	struct ptable t;

	make_logicals("disk", "5");
	edited("disk", &edit, 1);
	sound_mbr("disk");
	check_read("disk", &t, 6);
	assert_place(&t, 6, 114688, 16384);
	assert_place(&t, 7, 135168, 30720);
	assert_place(&t, 8, 172032, 40960);
	assert_string_equal(notes, "");
	ptable_free(&t);
}

/* The chain goes 5, 7, 6, 8 by place. */
static void chain_out_of_order_is_kept(void **state)
{
	struct ptable_edit edits[] = { removal(8), resize(3, 260096, 1024) };
	struct ptable t;

	make_logicals("disk", "5");
	poke_entry("disk", 67584, 1, 5, 133120 - 67584, 32768);
	poke_entry("disk", 133120, 1, 5, 110592 - 67584, 22528);
	poke_entry("disk", 110592, 1, 5, 169984 - 67584, 43008);
	edited("disk", edits, 2);
	sound_mbr("disk");
	check_read("disk", &t, 6);
	assert_place(&t, 6, 135168, 30720);
	assert_place(&t, 7, 112640, 20480);
	assert_string_equal(notes, "");
	ptable_free(&t);
}

static void malformed_edits_are_refused(void **state)
{
	struct ptable_edit twice[] = { removal(1), resize(1, 2048, 4096) }, edit = removal(4);

	make_logicals("disk", "5");
	refused("disk", &edit, 1, DW_USAGE, "no partition 4");
	refused("disk", twice, 2, DW_USAGE, "twice");
	edit = (struct ptable_edit){ PTABLE_RESIZE, 1, 2048 * SECTOR, 1000 };
	refused("disk", &edit, 1, DW_USAGE, "whole sectors");
	edit = (struct ptable_edit){ PTABLE_RESIZE, 1, 2048 * SECTOR, 0 };
	refused("disk", &edit, 1, DW_USAGE, "whole sectors");
	edit = (struct ptable_edit){ PTABLE_RESIZE, 1, 2048 * SECTOR, UINT64_MAX / SECTOR * SECTOR };
	refused("disk", &edit, 1, DW_USAGE, "out of range");
	edit = resize(1, 2048, 65537);
	refused("disk", &edit, 1, DW_REFUSED, "overlap");
	edit = resize(3, 260096, 140 * 2048 - 260096 + 1);
	refused("disk", &edit, 1, DW_REFUSED, "512 bytes are missing");
}

static void mbr_grows_with_its_disk(void **state)
{
	struct ptable_edit edit = resize(3, 260096, 200 * 2048 - 260096);
	struct ptable t;

	make_logicals("disk", "5");
	edited_sized("disk", 200 * IMAGE_MIB, &edit, 1);
	sound_mbr("disk");
	assert_int_equal(check_read("disk", &t, 3)->length, edit.length);
	ptable_free(&t);
	edit = resize(3, 260096, 2048);
	edited_sized("disk", (260096 + 2048) * SECTOR, &edit, 1);
	sound_mbr("disk");
	assert_int_equal(check_read("disk", &t, 3)->length, edit.length);
	ptable_free(&t);
}

static void mbr_of_large_sectors(void **state)
{
	struct ptable_edit edits[] = { { PTABLE_REMOVE, 5, 0, 0 },
				       { PTABLE_RESIZE, 6, 41 * IMAGE_MIB, 100 * IMAGE_MIB } };
	struct ptable t;

	image_make("disk", 160 * IMAGE_MIB);
	assert_int_equal(image_run("PARTED_SECTOR_SIZE=4096 parted -s disk mklabel msdos mkpart primary 1MiB 9MiB "
				   "mkpart extended 9MiB 100MiB mkpart logical 10MiB 40MiB mkpart logical 41MiB 90MiB "
				   "2>/dev/null"), 0);
	read_sound("disk", &t);
	assert_int_equal(t.sector_size, 4096);
	assert_int_equal(t.count, 4);
	assert_place(&t, 6, 41 * 256, 49 * 256);
	ptable_free(&t);
	read_with("disk", 512, &t, NULL);
	assert_int_equal(t.sector_size, 512);
	assert_int_equal(t.count, 2);
	ptable_free(&t);
	edited("disk", edits, 2);
	parted_is_content("disk", 4096);
	assert_int_equal(image_run("grep -Eq ' 2 +2304s +36095s +33792s +extended' parted.log && "
				   "grep -Eq ' 5 +10496s +36095s +25600s +logical' parted.log"), 0);
	edits[0].number = 5;
	refused("disk", edits, 1, DW_REFUSED, "empty extended partition");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(boot_code_and_other_entries_stay),
		cmocka_unit_test(disk_id_stays),
		cmocka_unit_test(logical_is_merged_with_next),
		cmocka_unit_test(logical_stops_before_the_next_ebr),
		cmocka_unit_test(first_and_last_logical_are_removed),
		cmocka_unit_test(extended_grows_with_its_last_logical),
		cmocka_unit_test(extended_alone_is_resized),
		cmocka_unit_test(extended_is_removed_only_when_empty),
		cmocka_unit_test(primaries_move),
		cmocka_unit_test(narrow_gap_is_kept),
		cmocka_unit_test(logical_moves),
		cmocka_unit_test(chain_out_of_order_is_kept),
		cmocka_unit_test(malformed_edits_are_refused),
		cmocka_unit_test(mbr_grows_with_its_disk),
		cmocka_unit_test(mbr_of_large_sectors),
	};

	return cmocka_run_group_tests(tests, image_directory_make, image_directory_remove);
}
