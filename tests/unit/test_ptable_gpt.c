/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Edits of a GPT: the tools find the result sound, and the rest is as it was. */
#include "ptable_images.h"

static void read_entry(const char *name, int number, uint8_t entry[128])
{
	image_read(name, entry, 128, 1024 + 128 * (number - 1));
}

/* In both copies, with their checksums. */
static void put_name(const char *name, uint64_t size, int number, const uint8_t text[72])
{
	const uint64_t headers[] = { SECTOR, size - SECTOR }, entries[] = { 2 * SECTOR, size - 33 * SECTOR };
	uint8_t h[92], list[128 * 128];

	for (int i = 0; i < 2; i++) {
		image_write(name, text, 72, entries[i] + 128 * (number - 1) + 56);
		image_read(name, list, sizeof(list), entries[i]);
		image_read(name, h, sizeof(h), headers[i]);
		put32(h + 88, checksum(list, sizeof(list)));
		put32(h + 16, 0);
		put32(h + 16, checksum(h, sizeof(h)));
		image_write(name, h, sizeof(h), headers[i]);
	}
}

/* But for the place: first and last sector, at 32 and 40. */
static void assert_same_entry(int number, bool place)
{
	uint8_t was[128], is[128];

	read_entry("before", number, was);
	read_entry("disk", number, is);
	assert_memory_equal(was, is, 32);
	assert_memory_equal(was + 48, is + 48, 80);
	if (place)
		assert_memory_equal(was, is, 128);
}

static void gpt_entries_stay(void **state)
{
	struct ptable_edit edits[] = { removal(1), resize(9, 2048, 98304 - 2048) };
	/* A lone surrogate, and text behind the end of the name. */
	uint8_t odd_name[72] = { 'a', 0, 0x00, 0xd8, 'b', 0, 0, 0, 'h', 0, 'i', 0 };
	struct ptable t;

	image_make("disk", 192 * IMAGE_MIB);
	fill_gap("disk", 0, 9);
	sgdisk("disk", SPARSE_NUMBERS);
	put_name("disk", 192 * IMAGE_MIB, 4, odd_name);
	image_run("cp disk before");
	edited("disk", edits, 2);
	sound_gpt("disk");
	assert_int_equal(check_read("disk", &t, 9)->length, (98304 - 2048) * SECTOR);
	assert_int_equal(t.count, 2);
	ptable_free(&t);
	assert_same_entry(9, false);
	assert_same_entry(4, true);
	assert_int_equal(image_run("cmp -s -n 512 disk before"), 0);
	/* Behind the entries. */
	assert_int_equal(image_run("cmp -s -n 1000000 -i 17408 disk before"), 0);
}

static void gpt_partition_moves(void **state)
{
	struct ptable_edit edit = resize(4, 200000, 100000);
	struct ptable t;

	make_sparse_numbers("disk");
	image_run("cp disk before");
	edited("disk", &edit, 1);
	sound_gpt("disk");
	assert_int_equal(check_read("disk", &t, 4)->start, 200000 * SECTOR);
	ptable_free(&t);
	assert_same_entry(4, false);
	assert_same_entry(1, true);
	edit = resize(4, 98304, 192 * 2048 - 33 - 98304);
	edited("disk", &edit, 1);
	sound_gpt("disk");
	edit.length += SECTOR;
	refused("disk", &edit, 1, DW_REFUSED, "partition 4 (sectors 98304 to 393183) reaches into the GPT");
}

static void hybrid_is_refused(void **state)
{
	/* Entry 1 a FAT partition, entry 2 the protective one. */
	static const uint8_t entries[32] = {
		0x80, 0xfe, 0xff, 0xff, 0x0c, 0xfe, 0xff, 0xff, 0x00, 0x08, 0x00, 0x00, 0x00, 0xc0, 0x00, 0x00,
		0x00, 0xfe, 0xff, 0xff, 0xee, 0xfe, 0xff, 0xff, 0x01, 0x00, 0x00, 0x00, 0xff, 0x07, 0x00, 0x00,
	};
	struct ptable_edit edit = resize(4, 98304, 200000);
	struct ptable t;

	make_sparse_numbers("disk");
	image_write("disk", entries, sizeof(entries), 446);
	read_sound("disk", &t);
	assert_true(t.type == PTABLE_GPT && t.hybrid);
	assert_int_equal(t.count, 3);
	ptable_free(&t);
	refused("disk", &edit, 1, DW_REFUSED, "hybrid MBR");
	refused("disk", NULL, 0, DW_REFUSED, "hybrid MBR");
}

static void assert_backup_at_the_end(const char *name, uint64_t size, uint64_t unit)
{
	uint8_t primary[SECTOR], backup[SECTOR], mbr[SECTOR];

	image_read(name, primary, SECTOR, unit);
	image_read(name, backup, SECTOR, size - unit);
	image_read(name, mbr, SECTOR, 0);
	assert_memory_equal(backup, "EFI PART", 8);
	assert_int_equal(get64(primary + 32), size / unit - 1);
	assert_int_equal(get64(backup + 24), size / unit - 1);
	assert_int_equal(get32(mbr + 446 + 12), size / unit - 1);
}

static void backup_follows_the_end_of_the_disk(void **state)
{
	struct ptable_edit edit = resize(4, 98304, 300 * 2048 - 33 - 98304);
	struct ptable t;

	make_sparse_numbers("disk");
	image_run("cp disk before; truncate -s 256M disk");
	read_sound("disk", &t);
	assert_true(t.backup_misplaced && !t.backup_damaged);
	assert_int_equal(t.end_usable, 256 * IMAGE_MIB - 33 * SECTOR);
	ptable_free(&t);
	edited("disk", NULL, 0);
	sound_gpt("disk");
	assert_backup_at_the_end("disk", 256 * IMAGE_MIB, SECTOR);
	assert_same_entry(4, true);
	edited_sized("disk", 280 * IMAGE_MIB, NULL, 0);
	sound_gpt("disk");
	assert_backup_at_the_end("disk", 280 * IMAGE_MIB, SECTOR);
	edited_sized("disk", 300 * IMAGE_MIB, &edit, 1);
	sound_gpt("disk");
	assert_backup_at_the_end("disk", 300 * IMAGE_MIB, SECTOR);
	assert_same_entry(4, false);
	assert_same_entry(9, true);
}

/* The new end may hold anything: zeros of the entries have to reach it, too. */
static void backup_is_written_over_what_was_there(void **state)
{
	struct random random = { 3 };
	uint8_t junk[40 * SECTOR];

	make_sparse_numbers("disk");
	image_run("truncate -s 256M disk");
	random_fill(&random, junk, sizeof(junk));
	image_write("disk", junk, sizeof(junk), 256 * IMAGE_MIB - sizeof(junk));
	edited("disk", NULL, 0);
	sound_gpt("disk");
}

static void gpt_shrinks_with_its_disk(void **state)
{
	uint64_t end = 98304 + 48 * 2048 + 33;
	struct ptable_edit edit = resize(4, 98304, 10000), gone = removal(4);
	struct dw_report report;

	make_sparse_numbers("disk");
	image_run("cp disk before");
	assert_true(edit_sized("disk", (end - 1) * SECTOR, NULL, 0, &report) < 0);
	assert_int_equal(report.status, DW_REFUSED);
	assert_non_null(strstr(report.message, "partition 4"));
	assert_true(same_files("disk", "before"));
	edited_sized("disk", end * SECTOR, NULL, 0);
	sound_gpt("disk");
	assert_backup_at_the_end("disk", end * SECTOR, SECTOR);
	/* Shorter than the partition before the edit. */
	edited_sized("disk", (98304 + 10000 + 33) * SECTOR, &edit, 1);
	sound_gpt("disk");
	assert_same_entry(4, false);
	assert_same_entry(1, true);
	edited_sized("disk", 60 * IMAGE_MIB, &gone, 1);
	sound_gpt("disk");
	assert_backup_at_the_end("disk", 60 * IMAGE_MIB, SECTOR);
}

static void cut_gpt_is_mended(void **state)
{
	struct ptable t;

	make_sparse_numbers("disk");
	image_run("cp disk before; truncate -s 100M disk");
	read_sound("disk", &t);
	assert_true(t.backup_damaged && t.backup_misplaced);
	ptable_free(&t);
	edited("disk", NULL, 0);
	sound_gpt("disk");
	assert_backup_at_the_end("disk", 100 * IMAGE_MIB, SECTOR);
	assert_same_entry(4, true);
	/* No room for the backup behind the last partition. */
	make_sparse_numbers("disk");
	assert_int_equal(truncate("disk", 96 * IMAGE_MIB), 0);
	assert_defect("disk", "partition 4 (sectors 98304 to 196607) reaches into the GPT");
	refused("disk", NULL, 0, DW_REFUSED, "reaches into the GPT");
	assert_int_equal(truncate("disk", 96 * IMAGE_MIB - 4096), 0);
	assert_defect("disk", "partition 4 ends at sector 196607, beyond the disk's 196600 sectors: 4096 bytes are missing");
	refused("disk", NULL, 0, DW_REFUSED, "4096 bytes are missing");
}

static void one_damaged_copy_is_mended(void **state)
{
	uint8_t junk[16] = "junk";

	for (int i = 0; i < 4; i++) {
		struct ptable_edit edit = resize(9, 2048, 8192);
		uint64_t end = 192 * IMAGE_MIB;
		const uint64_t places[] = { 512 + 60, 1024 + 130, end - 512 + 60, end - 33 * SECTOR + 130 };
		struct ptable t;

		make_sparse_numbers("disk");
		image_run("cp disk before");
		image_write("disk", junk, sizeof(junk), places[i]);
		read_sound("disk", &t);
		assert_true(t.backup_damaged);
		assert_int_equal(t.count, 3);
		assert_string_equal(t.id, "3d5c2a00-1111-4222-8333-444455556666");
		ptable_free(&t);
		edited("disk", &edit, i % 2);
		sound_gpt("disk");
		assert_same_entry(4, true);
		assert_same_entry(9, i % 2 == 0);
	}
	image_write("disk", junk, sizeof(junk), 512 + 60);
	image_write("disk", junk, sizeof(junk), 192 * IMAGE_MIB - 512 + 60);
	assert_defect("disk", "neither of its two copies");
	refused("disk", NULL, 0, DW_REFUSED, "neither of its two copies");
}

/* A backup that is sound but tells of another time. */
static void stale_backup_is_mended(void **state)
{
	uint8_t stale[33 * SECTOR];
	struct ptable t;

	make_sparse_numbers("disk");
	image_read("disk", stale, sizeof(stale), 192 * IMAGE_MIB - sizeof(stale));
	sgdisk("disk", "-d 1");
	image_run("cp disk before");
	image_write("disk", stale, sizeof(stale), 192 * IMAGE_MIB - sizeof(stale));
	read_sound("disk", &t);
	assert_true(t.backup_damaged && !t.backup_misplaced);
	assert_int_equal(t.count, 2);
	ptable_free(&t);
	edited("disk", NULL, 0);
	sound_gpt("disk");
	assert_true(same_files("disk", "before"));
}

static void unusual_entry_arrays(void **state)
{
	struct ptable_edit edit = resize(9, 2048, 8192);
	struct ptable t;

	/* Moved, to keep a boot loader's place. */
	make_sparse_numbers("disk");
	sgdisk("disk", "-j 100");
	check_read("disk", &t, 9);
	assert_int_equal(t.areas[2].offset, 100 * SECTOR);
	ptable_free(&t);
	refused("disk", &edit, 1, DW_REFUSED, "not at their usual place but at sector 100");
	/* More entries than usual. */
	make_sparse_numbers("disk");
	sgdisk("disk", "-S 256");
	edited("disk", &edit, 1);
	sound_gpt("disk");
	check_read("disk", &t, 9);
	assert_int_equal(t.first_usable, 66 * SECTOR);
	assert_int_equal(t.areas[2].length, 256 * 128);
	ptable_free(&t);
	/* First usable sector and partitions as sfdisk likes them. */
	make_table("disk", 60 * IMAGE_MIB, "label: gpt\\n9: start=2048,size=4096,type=U\\n");
	edited("disk", &edit, 1);
	sound_gpt("disk");
	assert_int_equal(check_read("disk", &t, 9)->length, 8192 * SECTOR);
	ptable_free(&t);
}

static void gpt_of_large_sectors(void **state)
{
	struct ptable_edit edit = { PTABLE_RESIZE, 1, IMAGE_MIB, 120 * IMAGE_MIB };
	struct random random = { 5 };
	uint8_t code[4096 - 512], is[4096 - 512];
	struct ptable t;

	image_make("disk", 192 * IMAGE_MIB);
	assert_int_equal(image_run("PARTED_SECTOR_SIZE=4096 parted -s disk mklabel gpt mkpart store 1MiB 65MiB "
				   "mkpart rest 150MiB 160MiB 2>/dev/null"), 0);
	random_fill(&random, code, sizeof(code));
	image_write("disk", code, sizeof(code), 512);
	read_sound("disk", &t);
	assert_int_equal(t.sector_size, 4096);
	assert_int_equal(t.first_usable, 6 * 4096);
	assert_place(&t, 1, 256, 64 * 256);
	ptable_free(&t);
	edited_sized("disk", 200 * IMAGE_MIB, &edit, 1);
	parted_is_content("disk", 4096);
	assert_int_equal(image_run("grep -Eq ' 256s +30975s +30720s +store' parted.log"), 0);
	assert_backup_at_the_end("disk", 200 * IMAGE_MIB, 4096);
	image_read("disk", is, sizeof(is), 512);
	assert_memory_equal(code, is, sizeof(is));
	/* Read as 512-byte sectors there is only a protective entry. */
	read_with("disk", 512, &t, NULL);
	assert_int_equal(t.count, 0);
	ptable_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gpt_entries_stay),
		cmocka_unit_test(gpt_partition_moves),
		cmocka_unit_test(hybrid_is_refused),
		cmocka_unit_test(backup_follows_the_end_of_the_disk),
		cmocka_unit_test(backup_is_written_over_what_was_there),
		cmocka_unit_test(gpt_shrinks_with_its_disk),
		cmocka_unit_test(cut_gpt_is_mended),
		cmocka_unit_test(one_damaged_copy_is_mended),
		cmocka_unit_test(stale_backup_is_mended),
		cmocka_unit_test(unusual_entry_arrays),
		cmocka_unit_test(gpt_of_large_sectors),
	};

	return cmocka_run_group_tests(tests, image_directory_make, image_directory_remove);
}
