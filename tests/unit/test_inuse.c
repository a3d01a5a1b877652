/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Use by the system, as a made-up /proc and /sys tell it. */
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "image.h"
#include "stack/inuse.h"

#define IMAGE "disk image"

static void put(const char *path, const char *text)
{
	assert_int_equal(image_run("mkdir -p \"$(dirname root/%s)\"", path), 0);
	assert_int_equal(image_run("printf '%%s\\n' '%s' >'root/%s'", text, path), 0);
}

/* loop0 shows all of the image, with a partition; loop1 100 MiB from 200 MiB
 * on; loop2 another file. */
static void make_system(void)
{
	char here[4096], text[4200];

	assert_non_null(getcwd(here, sizeof(here)));
	assert_int_equal(image_run("rm -rf root"), 0);
	image_make(IMAGE, 512 * IMAGE_MIB);
	image_make("other", IMAGE_MIB);
	snprintf(text, sizeof(text), "%s/" IMAGE, here);
	put("sys/block/loop0/loop/backing_file", text);
	put("sys/block/loop0/loop/offset", "0");
	put("sys/block/loop0/dev", "7:0");
	put("sys/block/loop0/size", "1048576");
	put("sys/block/loop0/loop0p1/dev", "259:3");
	put("sys/block/loop0/loop0p1/start", "2048");
	put("sys/block/loop0/loop0p1/size", "204800");
	put("sys/block/loop1/loop/backing_file", text);
	put("sys/block/loop1/loop/offset", "209715200");
	put("sys/block/loop1/dev", "7:1");
	put("sys/block/loop1/size", "204800");
	snprintf(text, sizeof(text), "%s/other", here);
	put("sys/block/loop2/loop/backing_file", text);
	put("sys/block/loop2/loop/offset", "0");
	put("sys/block/loop2/dev", "7:2");
	put("sys/block/loop2/size", "2048");
	put("proc/swaps", "Filename Type Size Used Priority");
	put("proc/self/mountinfo", "21 1 8:1 / / rw - ext4 /dev/sda1 rw");
}

static void expect(uint64_t mib, uint64_t length_mib, int in_use, const char *what)
{
	char text[256];

	assert_int_equal(inuse_find_under("root", IMAGE, mib * IMAGE_MIB, length_mib * IMAGE_MIB, text,
					  sizeof(text)),
			 in_use);
	assert_string_equal(text, what);
}

static void a_loop_device_is_use(void **state)
{
	make_system();
	expect(0, 200, 1, "attached to /dev/loop0");
	assert_int_equal(image_run("rm -r root/sys/block/loop0"), 0);
	expect(200, 100, 1, "attached to /dev/loop1");
	expect(299, 200, 1, "attached to /dev/loop1");
	expect(0, 201, 1, "attached to /dev/loop1");
	expect(0, 200, 0, "");
	expect(300, 212, 0, "");
	assert_int_equal(image_run("rm -r root/sys/block/loop1"), 0);
	expect(0, 512, 0, "");
}

static void a_mount_is_named(void **state)
{
	make_system();
	put("proc/self/mountinfo", "40 21 259:3 / /mnt/with\\040space rw,relatime shared:1 - ext4 /dev/loop0p1 rw");
	expect(1, 100, 1, "mounted on /mnt/with space (loop0p1)");
	expect(0, 512, 1, "mounted on /mnt/with space (loop0p1)");
	expect(101, 50, 1, "attached to /dev/loop0");
}

static void swap_is_named(void **state)
{
	make_system();
	put("proc/swaps", "/dev/loop1 partition 102396 0 -2");
	expect(250, 10, 1, "swap is on (loop1)");
	expect(150, 10, 1, "attached to /dev/loop0");
	/* loop10 is not loop1. */
	put("proc/swaps", "/dev/loop10 partition 102396 0 -2");
	assert_int_equal(image_run("rm -r root/sys/block/loop0"), 0);
	expect(250, 10, 1, "attached to /dev/loop1");
}

static void a_holder_is_named(void **state)
{
	make_system();
	put("sys/block/loop0/loop0p1/holders/dm-3/dev", "254:3");
	expect(1, 100, 1, "held by dm-3 (loop0p1)");
}

static void a_mount_in_user_space(void **state)
{
	char here[4000], text[4200];

	make_system();
	assert_non_null(getcwd(here, sizeof(here)));
	assert_int_equal(image_run("rm -r root/sys/block"), 0);
	snprintf(text, sizeof(text), "50 21 0:50 / /mnt/f rw shared:2 - fuse.fuse2fs %s/disk\\040image rw", here);
	put("proc/self/mountinfo", text);
	expect(0, 1, 1, "mounted on /mnt/f");
}

static void strange_numbers(void **state)
{
	make_system();
	put("sys/block/loop1/loop/offset", "18446744073709551615");
	put("sys/block/loop1/size", "18446744073709551615");
	put("sys/block/loop0/loop0p1/start", "36028797018963967");
	expect(0, 1, 1, "attached to /dev/loop0");
	assert_int_equal(inuse_find_under("root", "missing", 0, 1, (char[8]){ "" }, 8), -2);
}

/* The same image on the system that the test runs on. */
static void nobody_uses_a_new_file(void **state)
{
	char text[64];

	image_make("new", IMAGE_MIB);
	assert_int_equal(inuse_find("new", 0, IMAGE_MIB, text, sizeof(text)), 0);
	assert_string_equal(text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_loop_device_is_use),	 cmocka_unit_test(a_mount_is_named),
		cmocka_unit_test(swap_is_named),	 cmocka_unit_test(a_holder_is_named),
		cmocka_unit_test(a_mount_in_user_space), cmocka_unit_test(strange_numbers),
		cmocka_unit_test(nobody_uses_a_new_file),
	};

	return cmocka_run_group_tests(tests, image_directory_make, image_directory_remove);
}
