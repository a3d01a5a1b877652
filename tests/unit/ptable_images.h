/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Disks that sfdisk, sgdisk and parted partition, what those programs say of
 * them, and the edits under test.
 */
#ifndef PTABLE_IMAGES_H
#define PTABLE_IMAGES_H

#include <stdarg.h>

#include "bridge/ptable.h"
#include "core/bytes.h"
#include "image.h"
#include "random.h"

#define SECTOR 512ull

static char notes[2048];

static inline void collect_note(void *opaque, const char *line)
{
	strncat(notes, line, sizeof(notes) - strlen(notes) - 1);
}

/* ---- what the tools make and say --------------------------------------- */

static inline void make_table(const char *name, uint64_t size, const char *script)
{
	image_make(name, size);
	assert_int_equal(image_run("printf '%s' | sfdisk -q %s >/dev/null 2>&1", script, name), 0);
}

static inline void sgdisk(const char *name, const char *options)
{
	assert_int_equal(image_run("sgdisk %s %s >sgdisk.log 2>&1", options, name), 0);
}

static inline void parted_is_content(const char *name, int sector_size)
{
	assert_int_equal(image_run("LC_ALL=C.UTF-8 PARTED_SECTOR_SIZE=%d parted -s %s unit s print >parted.log 2>&1",
				   sector_size, name), 0);
	/* It cannot say a name beyond the basic plane. */
	assert_int_not_equal(image_run("grep -v translate parted.log | grep -Eq 'Error|Warning'"), 0);
}

static inline void sound_mbr(const char *name)
{
	assert_int_equal(image_run("sfdisk --verify %s >verify.log 2>&1", name), 0);
	parted_is_content(name, 512);
}

static inline void sound_gpt(const char *name)
{
	assert_int_equal(image_run("sgdisk -v %s | grep -q 'No problems found'", name), 0);
	parted_is_content(name, 512);
}

static inline void read_sector(const char *name, uint64_t lba, uint8_t *sector)
{
	image_read(name, sector, SECTOR, lba * SECTOR);
}

static inline bool same_files(const char *a, const char *b)
{
	return image_run("cmp -s %s %s", a, b) == 0;
}

/* CRC-32 as in IEEE 802.3, bit by bit. */
static inline uint32_t checksum(const uint8_t *p, size_t length)
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

static inline void read_with(const char *name, uint32_t sector_size, struct ptable *table, char *defect)
{
	struct device *dev = image_open(name);
	struct dw_report report = { 0 };

	assert_int_equal(ptable_read(dev, sector_size, table, defect, &report), 0);
	device_close(dev);
}

static inline void read_sound(const char *name, struct ptable *table)
{
	char defect[DW_PTABLE_DEFECT];

	read_with(name, 0, table, defect);
	assert_string_equal(defect, "");
}

static inline void assert_defect(const char *name, const char *words)
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

static inline int copy_extent(void *opaque, uint64_t offset, uint64_t length, enum device_extent_kind kind)
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
static inline int edit_sized(const char *name, uint64_t size, const struct ptable_edit *edits, size_t count,
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

static inline void edited_sized(const char *name, uint64_t size, const struct ptable_edit *edits, size_t count)
{
	struct dw_report report;

	if (edit_sized(name, size, edits, count, &report) < 0)
		fail_msg("%s", report.message);
}

static inline void edited(const char *name, const struct ptable_edit *edits, size_t count)
{
	edited_sized(name, 0, edits, count);
}

static inline void refused(const char *name, const struct ptable_edit *edits, size_t count, enum dw_status status,
		    const char *words)
{
	struct dw_report report;

	assert_int_equal(image_run("cp --sparse=always %s refused.img", name), 0);
	assert_true(edit_sized(name, 0, edits, count, &report) < 0);
	if (report.status != status || !strstr(report.message, words))
		fail_msg("\"%s\" (%d) does not say \"%s\"", report.message, report.status, words);
	assert_true(same_files(name, "refused.img"));
}

static inline struct ptable_edit resize(int number, uint64_t start, uint64_t sectors)
{
	return (struct ptable_edit){ PTABLE_RESIZE, number, start * SECTOR, sectors * SECTOR };
}

static inline struct ptable_edit removal(int number)
{
	return (struct ptable_edit){ PTABLE_REMOVE, number, 0, 0 };
}

static inline void assert_place(const struct ptable *t, int number, uint64_t start, uint64_t sectors)
{
	const struct partition *p = ptable_find(t, number);

	assert_non_null(p);
	assert_int_equal(p->start, start * t->sector_size);
	assert_int_equal(p->length, sectors * t->sector_size);
}

/* Every partition is where sfdisk says, with the same type, and no other is. */
static inline void same_as_sfdisk(const char *name, const struct ptable *t)
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

static inline const struct partition *check_read(const char *name, struct ptable *t, int number)
{
	read_sound(name, t);
	same_as_sfdisk(name, t);
	return ptable_find(t, number);
}

#define LOGICALS \
	"label: dos\\nlabel-id: 0x3a32f6f0\\n" \
	"1: start=2048,size=65536,type=83,bootable\\n" \
	"2: start=67584,size=180224,type=%s\\n" \
	"3: start=260096,size=2048,type=7\\n" \
	"5: start=69632,size=40960,type=83\\n" \
	"6: start=112640,size=20480,type=82\\n" \
	"7: start=135168,size=30720,type=83\\n" \
	"8: start=172032,size=40960,type=8e\\n"

static inline void make_logicals(const char *name, const char *type)
{
	char script[1024];

	snprintf(script, sizeof(script), LOGICALS, type);
	make_table(name, 140 * IMAGE_MIB, script);
}

#define SPARSE_NUMBERS \
	"-o -U 3D5C2A00-1111-4222-8333-444455556666 " \
	"-n 9:2048:+8M -t 9:8DA63339-0007-60C0-C436-083AC8230908 -c 9:reserved -A 9:set:0 -A 9:set:60 " \
	"-u 9:AAAAAAAA-0000-4000-8000-000000000009 " \
	"-n 1:20480:+32M -t 1:8300 -c 1:syst\303\250me\360\237\222\276 -A 1:set:2 -u 1:AAAAAAAA-0000-4000-8000-000000000001 " \
	"-n 4:98304:+48M -t 4:FE3A2A5D-4F32-41A7-B725-ACCC3285A309 -c 4:STATE-B -A 4:set:59 -A 4:set:63 " \
	"-u 4:AAAAAAAA-0000-4000-8000-000000000004"

static inline void make_sparse_numbers(const char *name)
{
	image_make(name, 192 * IMAGE_MIB);
	sgdisk(name, SPARSE_NUMBERS);
}

static inline void poke_entry(const char *name, uint64_t lba, int index, uint8_t type, uint32_t start, uint32_t count)
{
	uint8_t e[16] = { 0, 0xfe, 0xff, 0xff, type, 0xfe, 0xff, 0xff };

	put32(e + 8, start);
	put32(e + 12, count);
	image_write(name, e, sizeof(e), lba * SECTOR + 446 + 16 * index);
}

static inline void fill_gap(const char *name, uint8_t first, uint64_t seed)
{
	struct random random = { seed };
	uint8_t gap[2048 * SECTOR];

	random_fill(&random, gap, sizeof(gap));
	gap[0] = first;
	image_write(name, gap, 440, 0);
	image_write(name, gap + SECTOR, sizeof(gap) - SECTOR, SECTOR);
}

#endif
