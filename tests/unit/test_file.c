/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What is said of files beyond the contract that test_device.c holds. */
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "layers.h"
#include "syscalls.h"

static void a_failed_sync_is_final(void **state)
{
	struct rig *rig = rig_open(file_layer(), false);
	char byte;

	assert_int_equal(device_sync(rig->top), 0);
	syscalls.fsync = ENOSPC;
	assert_int_equal(device_sync(rig->top), -ENOSPC);
	syscalls.fsync = 0;
	assert_int_equal(device_sync(rig->top), -EIO);
	assert_int_equal(device_write(rig->top, "x", 1, 0), -EIO);
	assert_int_equal(device_zero(rig->top, 0, 4096), -EIO);
	assert_int_equal(device_file_resize(rig->top, 4096), -EIO);
	assert_int_equal(device_read(rig->top, &byte, 1, 0), 0);
	assert_holds(rig);
	rig_close(rig);
}

static void errors_of_the_file_are_heard(void **state)
{
	struct rig *rig = rig_open(file_layer(), false);
	char buffer[64];

	syscalls.pread = EIO;
	assert_int_equal(device_read(rig->top, buffer, 64, 0), -EIO);
	syscalls.pread = 0;
	syscalls.pwrite = ENOSPC;
	assert_int_equal(device_write(rig->top, "x", 1, 0), -ENOSPC);
	syscalls.pwrite = 0;
	/* It was cut behind our back. */
	assert_int_equal(ftruncate(rig->fd, 100), 0);
	assert_int_equal(device_read(rig->top, buffer, 64, 90), -EIO);
	rig_close(rig);
}

static void zeros_take_no_room(void **state)
{
	struct rig *rig = rig_open(file_layer(), false);
	struct stat st;

	assert_int_equal(device_zero(rig->top, 0, rig->size), 0);
	memset(rig->model, 0, rig->size);
	assert_holds(rig);
	assert_int_equal(fstat(rig->fd, &st), 0);
	/* A last block that is not whole may stay. */
	assert_true(st.st_blocks <= 8);
	assert_int_equal(st.st_size, rig->size);
	rig_close(rig);
}

static void a_file_changes_its_length(void **state)
{
	struct rig *rig = rig_open(file_layer(), false);
	char byte = 1;

	assert_int_equal(device_file_resize(rig->top, 1000000), 0);
	assert_int_equal(rig->top->size, 1000000);
	assert_int_equal(lseek(rig->fd, 0, SEEK_END), 1000000);
	assert_int_equal(device_read(rig->top, &byte, 1, 999999), 0);
	assert_int_equal(byte, 0);
	assert_int_equal(device_file_resize(rig->top, (uint64_t)INT64_MAX + 1), -EFBIG);
	assert_int_equal(device_file_resize(rig->top, 10), 0);
	assert_int_equal(device_read(rig->top, &byte, 1, 10), -EINVAL);
	rig->top->read_only = true;
	assert_int_equal(device_file_resize(rig->top, 20), -EROFS);
	rig_close(rig);
}

static void the_descriptor_is_its_own(void **state)
{
	struct rig *rig = rig_open(file_layer(), false);
	int ends[2];
	struct device *dev;

	close(rig->fd);
	rig->fd = -1;
	assert_holds(rig);
	assert_int_equal(device_open_fd(-1, true, &dev), -EBADF);
	assert_null(dev);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(device_open_fd(ends[0], true, &dev), -ENOTBLK);
	assert_null(dev);
	close(ends[0]);
	close(ends[1]);
	rig_close(rig);
	device_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failed_sync_is_final),
		cmocka_unit_test(errors_of_the_file_are_heard),
		cmocka_unit_test(zeros_take_no_room),
		cmocka_unit_test(a_file_changes_its_length),
		cmocka_unit_test(the_descriptor_is_its_own),
	};

	return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
