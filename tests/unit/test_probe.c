/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What probe_device() finds is what blkid and wipefs find. */
#include <sys/wait.h>

#include "bridge/probe.h"
#include "image.h"

static void probe_file(const char *name, struct probe *probe)
{
	struct dw_report report = { 0 };
	struct device *dev = image_open(name);

	assert_int_equal(probe_device(dev, probe, &report), 0);
	assert_string_equal(report.message, "");
	device_close(dev);
}

static void expect(const char *text, const char *key, const char *have)
{
	char value[512];

	assert_string_equal(have, image_value(text, key, value, sizeof(value)));
}

static void same_as_blkid(const char *name, const struct probe *probe)
{
	char command[512], text[8192];

	snprintf(command, sizeof(command), "blkid -p -s TYPE -s USAGE -s UUID -s LABEL -s VERSION -o export %s",
		 name);
	assert_int_equal(image_run_into(text, sizeof(text), command), 0);
	expect(text, "TYPE=", probe->type);
	expect(text, "USAGE=", probe->usage);
	expect(text, "UUID=", probe->uuid);
	expect(text, "LABEL=", probe->label);
	expect(text, "VERSION=", probe->version);
}

static bool has_magic(const struct probe *probe, uint64_t offset, uint32_t length)
{
	for (size_t i = 0; i < probe->magic_count; i++)
		if (probe->magics[i].offset == offset && probe->magics[i].length == length)
			return true;
	return false;
}

/* Every signature that wipefs would erase, in the areas that are looked at. */
static void same_as_wipefs(const char *name, const struct probe *probe)
{
	char command[512], text[8192];
	size_t count = 0;

	snprintf(command, sizeof(command), "wipefs -i -J -O OFFSET,LENGTH %s | tr -d '\"'", name);
	assert_int_equal(image_run_into(text, sizeof(text), command), 0);
	for (char *p = text; (p = strstr(p, "offset:")); p++) {
		unsigned long long offset = strtoull(p + 7, NULL, 0);
		char *length = strstr(p, "length:");

		assert_non_null(length);
		if (offset >= IMAGE_MIB)
			continue;
		count++;
		assert_true(has_magic(probe, offset, strtoull(length + 7, NULL, 0)));
	}
	assert_true(count > 0);
	assert_int_equal(probe->magic_count, count);
}

struct kind {
	const char *program, *command, *type;
	uint64_t size;
};

static void finds_what_the_tools_make(void **state)
{
	static const struct kind kinds[] = {
		{ "mke2fs", "mke2fs -q -F -t ext2 -L two i", "ext2", 16 * IMAGE_MIB },
		{ "mke2fs", "mke2fs -q -F -t ext3 -L three i", "ext3", 16 * IMAGE_MIB },
		{ "mke2fs", "mke2fs -q -F -t ext4 -L four i", "ext4", 16 * IMAGE_MIB },
		{ "mke2fs", "mke2fs -q -F -O journal_dev i", "jbd", 16 * IMAGE_MIB },
		{ "mkswap", "mkswap -q -L swapped i", "swap", 4 * IMAGE_MIB },
		{ "mkfs.vfat", "mkfs.vfat -F 32 -n FAT i >/dev/null", "vfat", 40 * IMAGE_MIB },
		{ "mkfs.xfs", "mkfs.xfs -q -L ex i", "xfs", 512 * IMAGE_MIB },
		{ "mkfs.btrfs", "mkfs.btrfs -q -L bee i", "btrfs", 128 * IMAGE_MIB },
		{ "cryptsetup",
		  "echo secret | cryptsetup luksFormat -q --type luks1 --pbkdf-force-iterations 1000 i -",
		  "crypto_LUKS", 32 * IMAGE_MIB },
		{ "cryptsetup",
		  "echo secret | cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 "
		  "--pbkdf-force-iterations 1000 i -",
		  "crypto_LUKS", 32 * IMAGE_MIB },
	};
	struct probe probe;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!image_has_program(kinds[i].program)) {
			print_message("%s is not installed: skipped\n", kinds[i].program);
			continue;
		}
		image_make("i", kinds[i].size);
		assert_int_equal(image_run("%s", kinds[i].command), 0);
		probe_file("i", &probe);
		assert_string_equal(probe.type, kinds[i].type);
		assert_false(probe.ambiguous);
		assert_false(probe.blank);
		same_as_blkid("i", &probe);
		same_as_wipefs("i", &probe);
	}
}

static void nothing_is_nothing(void **state)
{
	static const uint64_t sizes[] = { 0, 1, 512, 1000, IMAGE_MIB, 2 * IMAGE_MIB + 1, 64 * IMAGE_MIB };
	struct probe probe;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		image_make("i", sizes[i]);
		probe_file("i", &probe);
		assert_string_equal(probe.type, "");
		assert_true(probe.blank);
		assert_int_equal(probe.magic_count, 0);
	}
	image_make("i", 3 * IMAGE_MIB);
	image_write("i", "x", 1, 3 * IMAGE_MIB - 1);
	probe_file("i", &probe);
	assert_string_equal(probe.type, "");
	assert_false(probe.blank);
}

/* A partition table inside is not content. */
static void does_not_look_at_tables(void **state)
{
	struct probe probe;

	image_make("i", 16 * IMAGE_MIB);
	assert_int_equal(image_run("printf 'label: dos\\nstart=2048\\n' | sfdisk -q i"), 0);
	probe_file("i", &probe);
	assert_string_equal(probe.type, "");
}

static void several_kinds_are_ambiguous(void **state)
{
	struct probe probe;
	uint8_t sector[512];

	if (!image_has_program("mkfs.vfat"))
		skip();
	image_make("v", 64 * IMAGE_MIB);
	assert_int_equal(image_run("mkfs.vfat v >/dev/null"), 0);
	image_read("v", sector, sizeof(sector), 0);
	image_make("i", 64 * IMAGE_MIB);
	assert_int_equal(image_run("mke2fs -q -F -t ext4 i"), 0);
	image_write("i", sector, sizeof(sector), 0);
	/* blkid, too, leaves with 8: ambivalent. */
	assert_int_equal(image_run("blkid -p i >/dev/null 2>&1"), 8);
	probe_file("i", &probe);
	assert_true(probe.ambiguous);
	assert_string_not_equal(probe.type, "");
	same_as_wipefs("i", &probe);
}

/* A piece of a LUKS2 header that was in memory when it was swapped out. */
static void stray_luks_header_is_swap(void **state)
{
	static uint8_t second[16384];
	struct probe probe;

	if (!image_has_program("cryptsetup"))
		skip();
	image_make("l", 20 * IMAGE_MIB);
	assert_int_equal(image_run("echo secret | cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 "
				   "--pbkdf-force-iterations 1000 l -"),
			 0);
	image_read("l", second, sizeof(second), 0x4000);
	assert_memory_equal(second, "SKUL", 4);
	image_make("i", 32 * IMAGE_MIB);
	assert_int_equal(image_run("mkswap -q -L swap -U 0a0a0a0a-1111-4222-8333-444444444444 i"), 0);
	image_write("i", second, sizeof(second), 0x10000);
	probe_file("i", &probe);
	assert_string_equal(probe.type, "swap");
	assert_string_equal(probe.label, "swap");
	assert_string_equal(probe.uuid, "0a0a0a0a-1111-4222-8333-444444444444");
	assert_false(probe.ambiguous);
	assert_int_equal(probe.magic_count, 1);

	/* Where it belongs, it is a header: the first one may be lost. */
	image_make("i", 32 * IMAGE_MIB);
	image_write("i", second, sizeof(second), 0x4000);
	probe_file("i", &probe);
	assert_string_equal(probe.type, "crypto_LUKS");
}

/* The first superblock is lost; mke2fs told where the next one is. */
static void finds_ext_backups(void **state)
{
	static const char zero[8192];

	for (uint64_t block_size = 1024; block_size <= 4096; block_size *= 2) {
		char command[256], text[2048], value[256];
		struct probe probe;

		image_make("i", 160 * IMAGE_MIB);
		snprintf(command, sizeof(command), "mke2fs -F -t ext3 -b %llu i 2>&1",
			 (unsigned long long)block_size);
		assert_int_equal(image_run_into(text, sizeof(text), command), 0);
		image_value(strstr(text, "Superblock backups stored on blocks:"), "\t", value, sizeof(value));
		image_write("i", zero, sizeof(zero), 0);
		probe_file("i", &probe);
		assert_string_equal(probe.type, "");
		assert_true(strtoull(value, NULL, 10) > 0);
		assert_int_equal(probe.ext_backup, strtoull(value, NULL, 10) * block_size);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_what_the_tools_make),
		cmocka_unit_test(nothing_is_nothing),
		cmocka_unit_test(does_not_look_at_tables),
		cmocka_unit_test(several_kinds_are_ambiguous),
		cmocka_unit_test(stray_luks_header_is_swap),
		cmocka_unit_test(finds_ext_backups),
	};

	return cmocka_run_group_tests(tests, image_directory_make, image_directory_remove);
}
