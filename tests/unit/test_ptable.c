/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Partition tables that sfdisk, sgdisk and parted make are read and changed
 * here; what must hold afterwards those programs say, and the bytes.
 */
#include <errno.h>
#include <stdarg.h>

#include "bridge/ptable.h"
#include "core/bytes.h"
#include "image.h"
#include "memory.h"
#include "random.h"

#define SECTOR 512ull
#define HEAD (64 * 1024) /* more than any table at a disk's start here */

static char notes[2048];

static void collect_note(void *opaque, const char *line)
{
	strncat(notes, line, sizeof(notes) - strlen(notes) - 1);
}

/* ---- what the tools make and say --------------------------------------- */

static void make_table(const char *name, uint64_t size, const char *script)
{
	image_make(name, size);
	assert_int_equal(image_run("printf '%s' | sfdisk -q %s >/dev/null 2>&1", script, name), 0);
}

static void sgdisk(const char *name, const char *options)
{
	assert_int_equal(image_run("sgdisk %s %s >sgdisk.log 2>&1", options, name), 0);
}

static void parted_is_content(const char *name, int sector_size)
{
	assert_int_equal(image_run("LC_ALL=C.UTF-8 PARTED_SECTOR_SIZE=%d parted -s %s unit s print >parted.log 2>&1",
				   sector_size, name), 0);
	/* It cannot say a name beyond the basic plane. */
	assert_int_not_equal(image_run("grep -v translate parted.log | grep -Eq 'Error|Warning'"), 0);
}

static void sound_mbr(const char *name)
{
	assert_int_equal(image_run("sfdisk --verify %s >verify.log 2>&1", name), 0);
	parted_is_content(name, 512);
}

static void sound_gpt(const char *name)
{
	assert_int_equal(image_run("sgdisk -v %s | grep -q 'No problems found'", name), 0);
	parted_is_content(name, 512);
}

static void read_sector(const char *name, uint64_t lba, uint8_t *sector)
{
	image_read(name, sector, SECTOR, lba * SECTOR);
}

static bool same_files(const char *a, const char *b)
{
	return image_run("cmp -s %s %s", a, b) == 0;
}

/* CRC-32 as in IEEE 802.3, bit by bit. */
static uint32_t checksum(const uint8_t *p, size_t length)
{
	uint32_t crc = UINT32_MAX;

	for (; length > 0; length--, p++) {
		crc ^= *p;
		for (int i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

/* ---- what is tested ---------------------------------------------------- */

static void read_with(const char *name, uint32_t sector_size, struct ptable *table, char *defect)
{
	struct device *dev = image_open(name);
	struct dw_report report = { 0 };

	assert_int_equal(ptable_read(dev, sector_size, table, defect, &report), 0);
	device_close(dev);
}

static void read_sound(const char *name, struct ptable *table)
{
	char defect[DW_PTABLE_DEFECT];

	read_with(name, 0, table, defect);
	assert_string_equal(defect, "");
}

static void assert_defect(const char *name, const char *words)
{
	char defect[DW_PTABLE_DEFECT];
	struct ptable table;

	read_with(name, 0, &table, defect);
	if (!strstr(defect, words))
		fail_msg("\"%s\" does not say \"%s\"", defect, words);
	ptable_free(&table);
}

struct copy {
	struct device *view;
	int fd;
};

static int copy_extent(void *opaque, uint64_t offset, uint64_t length, enum device_extent_kind kind)
{
	struct copy *c = opaque;
	char buffer[4096];

	for (uint64_t done = 0, n; done < length; done += n) {
		n = length - done < sizeof(buffer) ? length - done : sizeof(buffer);
		assert_int_equal(device_read(c->view, buffer, n, offset + done), 0);
		assert_int_equal(pwrite(c->fd, buffer, n, offset + done), n);
	}
	return 0;
}

/* Edit a view of SIZE bytes (0: as long as the image); on success the image becomes the view. */
static int edit_sized(const char *name, uint64_t size, const struct ptable_edit *edits, size_t count,
		      struct dw_report *report)
{
	struct device *disk = image_open(name);
	struct copy c = { .fd = open(name, O_RDWR | O_CLOEXEC) };
	struct ptable table;
	int r;

	memset(report, 0, sizeof(*report));
	report->note = collect_note;
	notes[0] = '\0';
	size = size ? size : disk->size;
	assert_int_equal(ptable_read(disk, 0, &table, NULL, report), 0);
	assert_int_equal(device_open_overlay(disk, size, ".", &c.view), 0);
	r = ptable_edit(c.view, &table, edits, count, report);
	if (r == 0) {
		assert_int_equal(ftruncate(c.fd, size), 0);
		assert_int_equal(overlay_changes(c.view, table.sector_size, copy_extent, &c), 0);
	} else {
		assert_int_not_equal(report->message[0], 0);
		assert_int_equal(overlay_stored(c.view), 0);
	}
	ptable_free(&table);
	device_close(c.view);
	device_close(disk);
	close(c.fd);
	return r;
}

static void edited_sized(const char *name, uint64_t size, const struct ptable_edit *edits, size_t count)
{
	struct dw_report report;

	if (edit_sized(name, size, edits, count, &report) < 0)
		fail_msg("%s", report.message);
}

static void edited(const char *name, const struct ptable_edit *edits, size_t count)
{
	edited_sized(name, 0, edits, count);
}

static void refused(const char *name, const struct ptable_edit *edits, size_t count, enum dw_status status,
		    const char *words)
{
	struct dw_report report;

	assert_int_equal(image_run("cp --sparse=always %s refused.img", name), 0);
	assert_true(edit_sized(name, 0, edits, count, &report) < 0);
	if (report.status != status || !strstr(report.message, words))
		fail_msg("\"%s\" (%d) does not say \"%s\"", report.message, report.status, words);
	assert_true(same_files(name, "refused.img"));
}

static struct ptable_edit resize(int number, uint64_t start, uint64_t sectors)
{
	return (struct ptable_edit){ PTABLE_RESIZE, number, start * SECTOR, sectors * SECTOR };
}

static struct ptable_edit removal(int number)
{
	return (struct ptable_edit){ PTABLE_REMOVE, number, 0, 0 };
}

static void assert_place(const struct ptable *t, int number, uint64_t start, uint64_t sectors)
{
	const struct partition *p = ptable_find(t, number);

	assert_non_null(p);
	assert_int_equal(p->start, start * t->sector_size);
	assert_int_equal(p->length, sectors * t->sector_size);
}

/* Every partition is where sfdisk says, with the same type, and no other is. */
static void same_as_sfdisk(const char *name, const struct ptable *t)
{
	char dump[8192], key[64], line[512], type[64];
	size_t lines = 0;

	snprintf(key, sizeof(key), "sfdisk -d %s", name);
	assert_int_equal(image_run_into(dump, sizeof(dump), key), 0);
	for (const char *p = dump; (p = strstr(p, "start=")); p++)
		lines++;
	assert_int_equal(t->count, lines);
	for (size_t i = 0; i < t->count; i++) {
		const struct partition *p = &t->partitions[i];
		unsigned long long start, size;

		snprintf(key, sizeof(key), "%s%d :", name, p->number);
		image_value(dump, key, line, sizeof(line));
		assert_int_equal(sscanf(line, "start=%llu, size=%llu, type=%63[^, ]", &start, &size, type), 3);
		assert_int_equal(p->start, start * SECTOR);
		assert_int_equal(p->length, size * SECTOR);
		if (t->type == PTABLE_MBR)
			assert_int_equal(p->mbr_type, strtoul(type, NULL, 16));
		else
			assert_int_equal(strcasecmp(p->type_guid, type), 0);
		if (t->type == PTABLE_MBR)
			assert_int_equal(p->boot, strstr(line, "bootable") != NULL);
	}
}

static const struct partition *check_read(const char *name, struct ptable *t, int number)
{
	read_sound(name, t);
	same_as_sfdisk(name, t);
	return ptable_find(t, number);
}

/* ---- reading ----------------------------------------------------------- */

#define LOGICALS \
	"label: dos\\nlabel-id: 0x3a32f6f0\\n" \
	"1: start=2048,size=65536,type=83,bootable\\n" \
	"2: start=67584,size=180224,type=%s\\n" \
	"3: start=260096,size=2048,type=7\\n" \
	"5: start=69632,size=40960,type=83\\n" \
	"6: start=112640,size=20480,type=82\\n" \
	"7: start=135168,size=30720,type=83\\n" \
	"8: start=172032,size=40960,type=8e\\n"

static void make_logicals(const char *name, const char *type)
{
	char script[1024];

	snprintf(script, sizeof(script), LOGICALS, type);
	make_table(name, 140 * IMAGE_MIB, script);
}

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

#define SPARSE_NUMBERS \
	"-o -U 3D5C2A00-1111-4222-8333-444455556666 " \
	"-n 9:2048:+8M -t 9:8DA63339-0007-60C0-C436-083AC8230908 -c 9:reserved -A 9:set:0 -A 9:set:60 " \
	"-u 9:AAAAAAAA-0000-4000-8000-000000000009 " \
	"-n 1:20480:+32M -t 1:8300 -c 1:syst\303\250me\360\237\222\276 -A 1:set:2 -u 1:AAAAAAAA-0000-4000-8000-000000000001 " \
	"-n 4:98304:+48M -t 4:FE3A2A5D-4F32-41A7-B725-ACCC3285A309 -c 4:STATE-B -A 4:set:59 -A 4:set:63 " \
	"-u 4:AAAAAAAA-0000-4000-8000-000000000004"

static void make_sparse_numbers(const char *name)
{
	image_make(name, 192 * IMAGE_MIB);
	sgdisk(name, SPARSE_NUMBERS);
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

static void poke_entry(const char *name, uint64_t lba, int index, uint8_t type, uint32_t start, uint32_t count)
{
	uint8_t e[16] = { 0, 0xfe, 0xff, 0xff, type, 0xfe, 0xff, 0xff };

	put32(e + 8, start);
	put32(e + 12, count);
	image_write(name, e, sizeof(e), lba * SECTOR + 446 + 16 * index);
}

/* ---- changing an MBR --------------------------------------------------- */

static void fill_gap(const char *name, uint8_t first, uint64_t seed)
{
	struct random random = { seed };
	uint8_t gap[2048 * SECTOR];

	random_fill(&random, gap, sizeof(gap));
	gap[0] = first;
	image_write(name, gap, 440, 0);
	image_write(name, gap + SECTOR, sizeof(gap) - SECTOR, SECTOR);
}

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

/* ---- changing a GPT ---------------------------------------------------- */

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

/* ---- hostile bytes and failing devices --------------------------------- */

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
		cmocka_unit_test(mbr_is_read),
		cmocka_unit_test(mbr_starting_early_is_read),
		cmocka_unit_test(gpt_is_read),
		cmocka_unit_test(disk_without_table_is_read),
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
		cmocka_unit_test(mbr_of_large_sectors),
		cmocka_unit_test(gpt_of_large_sectors),
		cmocka_unit_test(overlaps_are_named),
		cmocka_unit_test(cut_disk_is_named),
		cmocka_unit_test(damaged_chains_are_named),
		cmocka_unit_test(endless_chain_ends),
		cmocka_unit_test(unlike_mbr_and_gpt_are_named),
		cmocka_unit_test(mutilated_tables_do_no_harm),
		cmocka_unit_test(largest_gpt_is_judged),
		cmocka_unit_test(read_errors_are_reported),
	};

	return cmocka_run_group_tests(tests, image_directory_make, image_directory_remove);
}
