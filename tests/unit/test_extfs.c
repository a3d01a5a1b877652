/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What extfs_read() says is what dumpe2fs, blkid and debugfs say. */
#include <errno.h>
#include <sys/wait.h>

#include "bridge/extfs.h"
#include "image.h"

#define IMAGE "i"

static void read_image(struct extfs *facts)
{
	struct dw_report report = { 0 };
	struct device *dev = image_open(IMAGE);
	int r = extfs_read(dev, facts, &report);

	assert_string_equal(report.message, "");
	assert_int_equal(r, 0);
	device_close(dev);
}

/* The message with which IMAGE is refused. */
static const char *refusal(struct dw_report *report)
{
	struct device *dev = image_open(IMAGE);
	struct extfs facts;

	dw_report_clear(report);
	assert_int_equal(extfs_read(dev, &facts, report), -EINVAL);
	device_close(dev);
	return report->message;
}

static void make_fs(uint64_t mib, const char *options)
{
	image_make(IMAGE, mib * IMAGE_MIB);
	assert_int_equal(image_run("mke2fs -q -F %s " IMAGE " >/dev/null 2>&1", options), 0);
}

static void debugfs(const char *request)
{
	assert_int_equal(image_run("debugfs -w -R '%s' " IMAGE " >/dev/null 2>&1", request), 0);
}

/* ---- compared with the tools -------------------------------------------- */

static uint64_t number(const char *text, const char *key)
{
	char value[64];

	return strtoull(image_value(text, key, value, sizeof(value)), NULL, 10);
}

static void same_feature(const char *features, const char *name, bool have)
{
	char padded[2048], word[64];

	snprintf(padded, sizeof(padded), " %s ", features);
	snprintf(word, sizeof(word), " %s ", name);
	if ((strstr(padded, word) != NULL) != have)
		fail_msg("%s: %d", name, have);
}

static void same_features(const char *text, const struct extfs *facts)
{
	char value[1024];

	image_value(text, "Filesystem features:", value, sizeof(value));
	same_feature(value, "has_journal", facts->has_journal);
	same_feature(value, "needs_recovery", facts->needs_recovery);
	same_feature(value, "orphan_present", facts->orphan_present);
	same_feature(value, "mmp", facts->mmp);
	same_feature(value, "bigalloc", facts->bigalloc);
	same_feature(value, "stable_inodes", facts->stable_inodes);
	same_feature(value, "orphan_file", facts->orphan_file);
	same_feature(value, "resize_inode", facts->resize_inode);
	same_feature(value, "metadata_csum", facts->metadata_csum);
	same_feature(value, "64bit", facts->bit64);
	same_feature(value, "sparse_super2", facts->sparse_super2);
	same_feature(value, "meta_bg", facts->meta_bg);
	same_feature(value, "flex_bg", facts->flex_bg);
}

static void same_as_dumpe2fs(const struct extfs *facts)
{
	char text[16384], value[256], blkid[256];

	assert_int_equal(image_run_into(text, sizeof(text), "dumpe2fs -h " IMAGE " 2>/dev/null"), 0);
	assert_int_equal(facts->block_size, number(text, "Block size:"));
	assert_int_equal(facts->blocks, number(text, "Block count:"));
	assert_int_equal(facts->free_blocks, number(text, "Free blocks:"));
	assert_int_equal(facts->inodes, number(text, "Inode count:"));
	assert_int_equal(facts->free_inodes, number(text, "Free inodes:"));
	assert_int_equal(facts->blocks_per_group, number(text, "Blocks per group:"));
	assert_int_equal(facts->journal_blocks, number(text, "Total journal blocks:"));
	assert_string_equal(facts->uuid, image_value(text, "Filesystem UUID:", value, sizeof(value)));
	image_value(text, "Filesystem volume name:", value, sizeof(value));
	assert_string_equal(facts->label, strcmp(value, "<none>") ? value : "");
	same_features(text, facts);
	image_value(text, "Filesystem state:", value, sizeof(value));
	assert_int_equal(facts->not_clean, strncmp(value, "not clean", 9) == 0);
	assert_int_equal(facts->has_errors, strstr(value, "with errors") != NULL);
	assert_string_equal(facts->unknown_features, "");
	assert_int_equal(image_run_into(blkid, sizeof(blkid), "blkid -p -s TYPE -o value " IMAGE), 0);
	blkid[strcspn(blkid, "\n")] = '\0';
	assert_string_equal(facts->type, blkid);
}

static void reads_what_mke2fs_made(void **state)
{
	static const struct { uint64_t mib; const char *options; } made[] = {
		{ 16, "-t ext2 -L plain" },
		{ 16, "-t ext3 -b 1024 -I 128" },
		{ 64, "-t ext3 -b 4096 -L sixteen-letters-" },
		{ 64, "-t ext4" },
		{ 64, "-t ext4 -b 1024 -O ^64bit,^metadata_csum" },
		{ 64, "-t ext4 -b 2048 -O ^has_journal" },
		{ 64, "-t ext4 -O ^resize_inode,meta_bg" },
		{ 64, "-t ext4 -O sparse_super2,^resize_inode -E num_backup_sb=2" },
		{ 64, "-t ext4 -O mmp,stable_inodes" },
		{ 64, "-t ext4 -O bigalloc -C 65536" },
		{ 64, "-t ext4 -b 1024 -O bigalloc -C 16384" },
		{ 64, "-t ext4 -O orphan_file" },
		{ 64, "-t ext4 -O ^flex_bg,^extent,^64bit" },
		{ 64, "-t ext4 -O fast_commit,casefold,encrypt,inline_data,verity,quota,project" },
		{ 64, "-t ext4 -g 4096 -N 100000" },
		{ 4096, "-t ext3" },
		{ 64, "-t ext4 -b 65536" },
		{ 8, "-r 0 -t ext2 -b 1024" },
	};
	struct extfs facts;

	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
		make_fs(made[i].mib, made[i].options);
		read_image(&facts);
		same_as_dumpe2fs(&facts);
		assert_false(facts.guarded);
		assert_false(facts.external_journal);
		assert_false(facts.needs_check_first);
		assert_int_equal(facts.bad_blocks, 0);
	}
}

static void reads_the_state(void **state)
{
	struct extfs facts;

	make_fs(64, "-t ext4 -O orphan_file");
	debugfs("ssv state 0");
	read_image(&facts);
	same_as_dumpe2fs(&facts);
	assert_true(facts.not_clean);
	debugfs("ssv state 2");
	read_image(&facts);
	same_as_dumpe2fs(&facts);
	assert_true(facts.has_errors);
	debugfs("ssv state 1");
	debugfs("feature needs_recovery orphan_present");
	read_image(&facts);
	same_as_dumpe2fs(&facts);
	assert_true(facts.needs_recovery && facts.orphan_present);
}

/* resize2fs is the judge of what it refuses. */
static void knows_when_resize2fs_wants_a_check(void **state)
{
	static const char *const changes[] = { "ssv lastcheck 20200101", "ssv last_orphan 12",
					       "ssv free_blocks_count 99999999" };
	struct extfs facts;

	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		make_fs(64, "-t ext4");
		debugfs("ssv mtime 20210101");
		read_image(&facts);
		assert_false(facts.needs_check_first);
		debugfs(changes[i]);
		read_image(&facts);
		assert_true(facts.needs_check_first);
		assert_true(facts.free_blocks <= facts.blocks);
		assert_int_equal(image_run("resize2fs " IMAGE " 60M 2>&1 | grep -q 'e2fsck -f'"), 0);
	}
}

static void reads_an_external_journal(void **state)
{
	struct extfs facts;

	make_fs(64, "-t ext4 -O ^has_journal");
	debugfs("feature has_journal");
	debugfs("ssv journal_uuid 99999999-8888-4777-8666-555555555555");
	read_image(&facts);
	assert_true(facts.has_journal && facts.external_journal);
	assert_string_equal(facts.journal_uuid, "99999999-8888-4777-8666-555555555555");
	assert_int_equal(facts.journal_blocks, 0);
	make_fs(16, "-O journal_dev");
	assert_non_null(strstr(refusal(&(struct dw_report){ 0 }), "external journal"));
}

static void counts_bad_blocks(void **state)
{
	struct extfs facts;

	image_make(IMAGE, 96 * IMAGE_MIB);
	assert_int_equal(image_run("printf '5000\\n5001\\n9000\\n23500\\n' >bad"), 0);
	assert_int_equal(image_run("mke2fs -q -F -t ext3 -b 4096 -l bad " IMAGE " >/dev/null 2>&1"), 0);
	read_image(&facts);
	assert_int_equal(facts.bad_blocks, 4);
	/* Enough of them to need indirect blocks. */
	assert_int_equal(image_run("seq 9000 11999 >bad"), 0);
	image_make(IMAGE, 96 * IMAGE_MIB);
	assert_int_equal(image_run("mke2fs -q -F -t ext4 -b 1024 -l bad " IMAGE " >/dev/null 2>&1"), 0);
	read_image(&facts);
	assert_int_equal(facts.bad_blocks, 3000);
}

/* A filesystem that is larger than its partition still tells what it is. */
static void reads_what_is_cut_short(void **state)
{
	struct extfs whole, facts;

	make_fs(96, "-t ext4 -b 4096");
	read_image(&whole);
	assert_int_equal(truncate(IMAGE, 64 * IMAGE_MIB), 0);
	read_image(&facts);
	assert_int_equal(facts.blocks, 24576);
	assert_int_equal(facts.journal_blocks, whole.journal_blocks);
	/* Not even its descriptors are there. */
	assert_int_equal(truncate(IMAGE, 2048), 0);
	read_image(&facts);
	assert_int_equal(facts.blocks, 24576);
	assert_int_equal(truncate(IMAGE, 2047), 0);
	refusal(&(struct dw_report){ 0 });
}

static void names_unknown_features(void **state)
{
	uint8_t super[EXTFS_SUPER_SIZE];
	char names[256] = "", text[1024];
	struct extfs facts;

	make_fs(16, "-t ext4 -O ^metadata_csum");
	image_read(IMAGE, super, sizeof(super), EXTFS_SUPER_OFFSET);
	super[0x5c + 3] |= 0x10; /* compat bit 28 */
	super[0x60 + 3] |= 0x02; /* incompat bit 25 */
	super[0x64 + 3] |= 0x40; /* ro_compat bit 30 */
	image_write(IMAGE, super, sizeof(super), EXTFS_SUPER_OFFSET);
	read_image(&facts);
	assert_string_equal(facts.type, "ext4");
	assert_int_equal(image_run_into(text, sizeof(text),
					"dumpe2fs -f -h " IMAGE " 2>/dev/null | grep -o 'FEATURE_[A-Z0-9]*' | "
					"tr '\\n' ' '"),
			 0);
	snprintf(names, sizeof(names), "%s ", facts.unknown_features);
	assert_string_equal(names, text);
}

static void knows_mke2fs_journal_sizes(void **state)
{
	static const uint64_t sizes[] = { 1, 2, 31, 32, 255, 256, 511, 512, 4095, 4096, 8192 };
	struct extfs facts;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		make_fs(sizes[i], "-t ext2 -b 1024");
		/* Where a journal does not fit, mke2fs leaves it out. */
		make_fs(sizes[i], "-t ext3 -b 1024");
		read_image(&facts);
		assert_int_equal(extfs_default_journal(facts.blocks, 1024), facts.journal_blocks);
	}
}

/* ---- guards ---------------------------------------------------------------- */

static void a_guard_keeps_the_tools_away(void **state)
{
	static const char *const made[] = { "-t ext4 -L keep", "-t ext3 -L keep", "-t ext2 -L keep" };
	uint8_t super[EXTFS_SUPER_SIZE], before[EXTFS_SUPER_SIZE];
	struct extfs old, facts;
	char text[1024], value[128];

	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
		make_fs(64, made[i]);
		read_image(&old);
		image_read(IMAGE, super, sizeof(super), EXTFS_SUPER_OFFSET);
		memcpy(before, super, sizeof(super));
		assert_false(extfs_super_is_guarded(super));
		extfs_super_guard(super);
		assert_true(extfs_super_is_guarded(super));
		image_write(IMAGE, super, sizeof(super), EXTFS_SUPER_OFFSET);

		/* They refuse for the unknown feature, not for a wrong checksum. */
		assert_int_not_equal(image_run("dumpe2fs -h " IMAGE " 2>&1 | grep -q -i checksum"), 0);
		assert_int_equal(image_run("e2fsck -fn " IMAGE " >/dev/null 2>&1"), 8);
		assert_int_equal(image_run("e2fsck -fy " IMAGE " >/dev/null 2>&1"), 8);
		assert_int_not_equal(image_run("tune2fs -L x " IMAGE " >/dev/null 2>&1"), 0);
		assert_int_not_equal(image_run("resize2fs " IMAGE " >/dev/null 2>&1"), 0);
		assert_int_not_equal(
			image_run("debugfs -R stats " IMAGE " 2>&1 | grep -q '^Block count'"), 0);
		assert_int_equal(image_run_into(text, sizeof(text), "blkid -p -o export " IMAGE), 0);
		assert_string_equal(image_value(text, "UUID=", value, sizeof(value)), old.uuid);
		assert_string_equal(image_value(text, "LABEL=", value, sizeof(value)), "keep");

		read_image(&facts);
		assert_true(facts.guarded);
		facts.guarded = false;
		assert_memory_equal(&facts, &old, sizeof(facts));

		image_write(IMAGE, before, sizeof(before), EXTFS_SUPER_OFFSET);
		assert_int_equal(image_run("e2fsck -fn " IMAGE " >/dev/null 2>&1"), 0);
	}
}

/* ---- hostile input ---------------------------------------------------------- */

static void names_a_wrong_checksum(void **state)
{
	struct dw_report report = { 0 };

	make_fs(16, "-t ext4");
	image_write(IMAGE, "X", 1, EXTFS_SUPER_OFFSET + 0x78);
	assert_non_null(strstr(refusal(&report), "checksum"));
	assert_true(report.hint[0] != '\0');
	image_make(IMAGE, IMAGE_MIB);
	assert_non_null(strstr(refusal(&report), "not an ext2"));
}

/* What libext2fs itself refuses to open is refused here, and each of these is. */
static void refuses_what_contradicts_itself(void **state)
{
	static const struct { unsigned at; uint32_t value; unsigned length; } fields[] = {
		{ 0, 0, 4 }, { 4, 0xffffffff, 4 }, { 24, 7, 4 }, { 24, 0x40, 4 }, { 32, 0, 4 }, { 32, 1, 4 },
		{ 40, 0, 4 }, { 88, 0, 2 }, { 88, 3, 2 }, { 88, 0xffff, 2 },
	};
	struct dw_report report = { 0 };

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		make_fs(16, "-t ext3 -b 1024");
		image_write(IMAGE, &fields[i].value, fields[i].length, EXTFS_SUPER_OFFSET + fields[i].at);
		assert_int_not_equal(image_run("dumpe2fs -h " IMAGE " >/dev/null 2>&1"), 0);
		assert_non_null(strstr(refusal(&report), "contradicts itself"));
	}
}

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* A device whose superblock is in memory, the rest on file. */
struct mutant {
	struct device dev;
	struct device *lower;
	uint8_t super[EXTFS_SUPER_SIZE];
};

static int mutant_read(struct device *dev, void *buffer, size_t length, uint64_t offset)
{
	struct mutant *m = (struct mutant *)dev;
	int r = device_read(m->lower, buffer, length, offset);

	for (size_t i = 0; i < length && r == 0; i++)
		if (offset + i >= EXTFS_SUPER_OFFSET && offset + i < EXTFS_SUPER_OFFSET + EXTFS_SUPER_SIZE)
			((uint8_t *)buffer)[i] = m->super[offset + i - EXTFS_SUPER_OFFSET];
	return r;
}

static void mutate(uint8_t *super, uint64_t *seed)
{
	static const uint8_t extremes[] = { 0, 1, 0x7f, 0x80, 0xff };
	unsigned changes = 1 + next_random(seed) % 4;

	for (unsigned i = 0; i < changes; i++) {
		/* Most of the numbers that matter stand in the first 0x110 bytes. */
		size_t at = next_random(seed) % (next_random(seed) % 4 ? 0x110 : 0x3fc);
		uint64_t kind = next_random(seed) % 3;

		if (kind == 0)
			super[at] ^= 1 << next_random(seed) % 8;
		else if (kind == 1)
			super[at] = extremes[next_random(seed) % sizeof(extremes)];
		else
			memset(super + at / 4 * 4, extremes[next_random(seed) % sizeof(extremes)], 4);
	}
}

static void survives_mutations(void **state)
{
	static const struct device_ops ops = { .name = "mutant", .read = mutant_read };
	static const char *const made[] = { "-t ext3 -b 1024", "-t ext4 -O ^metadata_csum",
					    "-t ext4 -O bigalloc,^metadata_csum",
					    "-t ext4 -O meta_bg,^resize_inode,^metadata_csum" };
	struct mutant m = { .dev = { &ops, 0, 1, true } };
	uint64_t seed = 20240229, accepted = 0;
	uint8_t super[EXTFS_SUPER_SIZE];
	struct extfs facts;

	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
		make_fs(16, made[i]);
		m.lower = image_open(IMAGE);
		m.dev.size = m.lower->size;
		image_read(IMAGE, super, sizeof(super), EXTFS_SUPER_OFFSET);
		for (int n = 0; n < 5000; n++) {
			memcpy(m.super, super, sizeof(super));
			mutate(m.super, &seed);
			accepted += extfs_read(&m.dev, &facts, NULL) == 0;
			if (n % 64 == 0)
				extfs_warm(&m.dev, IMAGE);
		}
		device_close(m.lower);
	}
	/* Not all of them may have been turned away at the door. */
	assert_true(accepted > 1000);
}

/* Damage behind the superblock: descriptors, inodes, the bad-block list. */
static void survives_damaged_metadata(void **state)
{
	static uint8_t garbage[64 * 1024];
	uint64_t seed = 42;
	struct extfs facts;

	for (int n = 0; n < 60; n++) {
		struct device *dev;

		image_make(IMAGE, 16 * IMAGE_MIB);
		assert_int_equal(image_run("seq 9000 9999 >bad"), 0);
		assert_int_equal(image_run("mke2fs -q -F -t ext3 -b 1024 -l bad " IMAGE " >/dev/null 2>&1"), 0);
		for (size_t i = 0; i < sizeof(garbage); i++)
			garbage[i] = next_random(&seed);
		image_write(IMAGE, garbage, sizeof(garbage) >> n % 8,
			    2048 + next_random(&seed) % (2 * IMAGE_MIB >> n % 9));
		dev = image_open(IMAGE);
		assert_int_equal(extfs_read(dev, &facts, NULL), 0);
		extfs_warm(dev, IMAGE);
		device_close(dev);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_mke2fs_made),
		cmocka_unit_test(reads_the_state),
		cmocka_unit_test(knows_when_resize2fs_wants_a_check),
		cmocka_unit_test(reads_an_external_journal),
		cmocka_unit_test(counts_bad_blocks),
		cmocka_unit_test(reads_what_is_cut_short),
		cmocka_unit_test(names_unknown_features),
		cmocka_unit_test(knows_mke2fs_journal_sizes),
		cmocka_unit_test(a_guard_keeps_the_tools_away),
		cmocka_unit_test(names_a_wrong_checksum),
		cmocka_unit_test(refuses_what_contradicts_itself),
		cmocka_unit_test(survives_mutations),
		cmocka_unit_test(survives_damaged_metadata),
	};

	return cmocka_run_group_tests(tests, image_directory_make, image_directory_remove);
}
