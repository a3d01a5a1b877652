/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <dirent.h>
#include <errno.h>
#include <linux/falloc.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image.h"
#include "memory.h"
#include "random.h"
#include "stage/stage.h"

#define SIZE (2 * IMAGE_MIB + 1536) /* ends inside a page */

static char directory[4096];
static struct stage *stage;
static struct device *memory;
static const char *path;
static uint8_t content[SIZE], zeros[65536];

static int group_setup(void **state)
{
	return image_directory_make(state) < 0 || !getcwd(directory, sizeof(directory)) ? -1 : 0;
}

static void show(uint64_t size)
{
	assert_int_equal(device_open_memory(size, 512, &memory), 0);
	assert_int_equal(stage_show(stage, "file", memory, &path, NULL), 0);
}

static int setup(void **state)
{
	assert_int_equal(stage_open(directory, &stage, NULL), 0);
	show(SIZE);
	return 0;
}

/* Names in DIRECTORY, and mounts, that a stage of any process would have. */
static unsigned leftovers(void)
{
	DIR *d = opendir(directory);
	unsigned count = 0;
	struct dirent *e;

	assert_non_null(d);
	while ((e = readdir(d)))
		count += strncmp(e->d_name, "diskwright-stage-", 17) == 0;
	closedir(d);
	return count + (image_run("grep -q '%s/diskwright-stage-' /proc/self/mountinfo", directory) == 0);
}

static int teardown(void **state)
{
	stage_close(stage);
	device_close(memory);
	stage = NULL;
	memory = NULL;
	return leftovers();
}

/*
 * Files on the stage are used as a program would: by another process, which
 * has none of this one's descriptors (stage.c says why).  FN returns 0 or the
 * line of what did not hold.
 */
static void as_program(int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		closefrom(STDERR_FILENO + 1);
		status = fn();
		if (status)
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, status, strerror(errno));
		_exit(status != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define CHECK(condition)                 \
	do {                             \
		if (!(condition))        \
			return __LINE__; \
	} while (0)

/* The same numbers in every process that asks. */
static void pattern(void *buffer, size_t length)
{
	struct random random = { 42 };

	random_fill(&random, buffer, length);
}

static void assert_same(struct device *dev, const uint8_t *expected, size_t length, uint64_t offset)
{
	uint8_t *found = malloc(length);

	assert_int_equal(device_read(dev, found, length, offset), 0);
	assert_memory_equal(found, expected, length);
	free(found);
}

/* ---- content ----------------------------------------------------------- */

static int read_all(void)
{
	static uint8_t found[SIZE + 1];
	int fd = open(path, O_RDONLY);

	CHECK(read(fd, found, SIZE + 1) == SIZE);
	CHECK(memcmp(found, content, SIZE) == 0);
	return 0;
}

static void device_is_read_through_its_file(void **state)
{
	pattern(content, SIZE);
	assert_int_equal(device_write(memory, content, SIZE, 0), 0);
	as_program(read_all);
}

static int write_pieces(void)
{
	int fd = open(path, O_RDWR);

	CHECK(pwrite(fd, content, 100000, 12345) == 100000);
	CHECK(pwrite(fd, content, 1000, SIZE - 1000) == 1000);
	return 0;
}

static void what_is_written_arrives_with_the_flush(void **state)
{
	pattern(content, SIZE);
	as_program(write_pieces);
	assert_int_equal(stage_flush(stage, "file", NULL), 0);
	assert_same(memory, content, 100000, 12345);
	assert_same(memory, content, 1000, SIZE - 1000);
}

static int look(void)
{
	struct stat st;

	CHECK(stat(path, &st) == 0);
	CHECK(S_ISREG(st.st_mode) && (st.st_mode & 07777) == 0600);
	CHECK(st.st_uid == geteuid() && st.st_gid == getegid());
	CHECK(st.st_size == SIZE);
	return 0;
}

static void file_looks_like_the_device(void **state)
{
	as_program(look);
}

static int write_directly(void)
{
	_Alignas(4096) static uint8_t block[4096], found[4096];
	int fd = open(path, O_RDWR | O_EXCL | O_DIRECT);

	pattern(block, sizeof(block));
	CHECK(pwrite(fd, block, sizeof(block), 8192) == sizeof(block));
	CHECK(pread(fd, found, sizeof(found), 8192) == sizeof(found));
	CHECK(memcmp(block, found, sizeof(block)) == 0);
	return 0;
}

static void exclusive_and_direct_opens_work(void **state)
{
	as_program(write_directly);
	pattern(content, 4096);
	assert_same(memory, content, 4096, 8192);
}

static void two_files_do_not_mix(void **state)
{
	struct device *other;
	const char *first = path;

	assert_int_equal(device_open_memory(IMAGE_MIB, 512, &other), 0);
	assert_int_equal(stage_show(stage, "other", other, &path, NULL), 0);
	assert_int_equal(image_run("printf first | dd of='%s' bs=1 seek=1000 conv=notrunc status=none", first), 0);
	assert_int_equal(image_run("printf other | dd of='%s' bs=1 seek=1000 conv=notrunc status=none", path), 0);
	assert_int_equal(stage_flush(stage, "file", NULL), 0);
	assert_int_equal(stage_hide(stage, "other", NULL), 0);
	assert_same(memory, (const uint8_t *)"first", 5, 1000);
	assert_same(other, (const uint8_t *)"other", 5, 1000);
	device_close(other);
}

static int find_data(void)
{
	int fd = open(path, O_RDWR);
	off_t data;

	CHECK(pwrite(fd, "data", 4, 65536) == 4);
	data = lseek(fd, 4096, SEEK_DATA);
	CHECK(data >= 4096 && data <= 65536);
	CHECK(lseek(fd, 65536, SEEK_HOLE) > 65536);
	return 0;
}

/* A program that asks where the data is does not miss what was just written. */
static void unwritten_cache_is_no_hole(void **state)
{
	as_program(find_data);
}

static int punch(void)
{
	int fd = open(path, O_RDWR);

	/* Still in the cache when the hole is punched. */
	CHECK(pwrite(fd, content, 65536, 0) == 65536);
	CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1000, 30000) == 0);
	CHECK(fallocate(fd, FALLOC_FL_ZERO_RANGE, 40000, 5000) == 0);
	CHECK(fallocate(fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, SIZE - 512, 4096) == 0);
	CHECK(fallocate(fd, 0, 0, SIZE) == 0);
	CHECK(fallocate(fd, 0, 0, SIZE + 1) == -1 && errno == ENOSPC);
	return 0;
}

static void punched_holes_are_zeros(void **state)
{
	pattern(content, SIZE);
	as_program(punch);
	assert_int_equal(stage_flush(stage, "file", NULL), 0);
	memset(content + 1000, 0, 30000);
	memset(content + 40000, 0, 5000);
	assert_same(memory, content, 65536, 0);
	assert_same(memory, zeros, 512, SIZE - 512);
}

/* ---- size -------------------------------------------------------------- */

static bool size_is(uint64_t size)
{
	struct stat st;

	return stat(path, &st) == 0 && (uint64_t)st.st_size == size;
}

static int change_everything(void)
{
	int fd;

	CHECK(truncate(path, 1000) == 0 && size_is(SIZE));
	CHECK(truncate(path, 2 * SIZE) == 0 && size_is(SIZE));
	fd = open(path, O_RDWR | O_TRUNC);
	CHECK(fd >= 0 && size_is(SIZE));
	CHECK(ftruncate(fd, 0) == 0);
	CHECK(futimens(fd, NULL) == 0);
	CHECK(fchmod(fd, 0644) == 0);
	CHECK(fsync(fd) == 0);
	CHECK(close(fd) == 0 && size_is(SIZE));
	return read_all();
}

static void size_and_times_cannot_be_changed(void **state)
{
	pattern(content, SIZE);
	assert_int_equal(device_write(memory, content, SIZE, 0), 0);
	as_program(change_everything);
	assert_int_equal(stage_flush(stage, "file", NULL), 0);
	assert_same(memory, content, SIZE, 0);
}

static int write_behind_end(void)
{
	int fd = open(path, O_RDWR);

	CHECK(pwrite(fd, "data", 4, SIZE + 8192) == 4);
	CHECK(fsync(fd) == -1 && errno == ENOSPC);
	return 0;
}

static void write_behind_the_end_has_no_space(void **state)
{
	as_program(write_behind_end);
	assert_int_equal(stage_flush(stage, "file", NULL), -ENOSPC);
	assert_same(memory, zeros, 1024, SIZE - 1024);
}

static int is_gone(void)
{
	CHECK(open(path, O_RDONLY) == -1 && errno == ENOENT);
	return 0;
}

static uint64_t new_size;

/* Neither the old size nor the old content. */
static int is_new(void)
{
	int fd = open(path, O_RDWR);
	char byte = 'x';

	CHECK(size_is(new_size));
	CHECK(pread(fd, &byte, 1, 0) == 1 && byte == 0);
	CHECK(pwrite(fd, "x", 1, 0) == 1);
	CHECK(pwrite(fd, "x", 1, new_size - 1) == 1);
	return 0;
}

static void new_size_is_seen_after_showing_again(void **state)
{
	char *old_path = strdup(path);

	for (unsigned i = 4; i >= 1; i--) {
		assert_int_equal(stage_hide(stage, "file", NULL), 0);
		path = old_path;
		as_program(is_gone);
		device_close(memory);
		new_size = i * IMAGE_MIB;
		show(new_size);
		as_program(is_new);
	}
	free(old_path);
}

/* ---- errors ------------------------------------------------------------ */

static int refuse_writes(void *opaque, enum memory_op op, uint64_t offset, uint64_t length)
{
	return op == MEMORY_WRITE ? *(int *)opaque : 0;
}

static int write_in_vain(void)
{
	int fd = open(path, O_RDWR);

	CHECK(pwrite(fd, "lost", 4, 0) == 4);
	CHECK(fsync(fd) == -1);
	return 0;
}

static int write_page(void)
{
	int fd = open(path, O_RDWR);

	CHECK(pwrite(fd, content, 4096, 0) == 4096);
	return 0;
}

static void write_error_is_remembered(void **state)
{
	int errors[] = { -ENOSPC, -EIO, -EDQUOT };

	for (size_t i = 0; i < 3; i++) {
		memory_set_hook(memory, refuse_writes, &errors[i]);
		as_program(write_in_vain);
		/* Whether the program said it or not, and whatever succeeds later. */
		memory_set_hook(memory, NULL, NULL);
		as_program(write_page);
		assert_int_equal(stage_flush(stage, "file", NULL), errors[i]);
		assert_int_equal(stage_hide(stage, "file", NULL), errors[i]);
		device_close(memory);
		show(SIZE);
		assert_int_equal(stage_flush(stage, "file", NULL), 0);
	}
}

static int refuse_reads(void *opaque, enum memory_op op, uint64_t offset, uint64_t length)
{
	return op == MEMORY_READ && offset <= 65536 && offset + length > 65536 ? -EIO : 0;
}

static int read_in_vain(void)
{
	char byte;
	int fd = open(path, O_RDONLY);

	CHECK(pread(fd, &byte, 1, 65536) == -1 && errno == EIO);
	return 0;
}

static int read_byte(void)
{
	char byte;
	int fd = open(path, O_RDONLY);

	CHECK(pread(fd, &byte, 1, 65536) == 1);
	return 0;
}

static void read_error_is_an_error_of_the_program(void **state)
{
	memory_set_hook(memory, refuse_reads, NULL);
	as_program(read_in_vain);
	memory_set_hook(memory, NULL, NULL);
	as_program(read_byte);
}

static int only_read(void)
{
	CHECK(open(path, O_RDWR) == -1 && errno == EROFS);
	return read_byte();
}

static void read_only_device_is_not_written(void **state)
{
	assert_int_equal(stage_hide(stage, "file", NULL), 0);
	memory->read_only = true;
	assert_int_equal(stage_show(stage, "file", memory, &path, NULL), 0);
	as_program(only_read);
	assert_int_equal(stage_hide(stage, "file", NULL), 0);
}

static void names_are_distinct(void **state)
{
	struct dw_report report = { 0 };
	const char *unused;

	assert_int_equal(stage_show(stage, "file", memory, &unused, &report), -EINVAL);
	assert_int_equal(stage_hide(stage, "none", NULL), -ENOENT);
}

static void missing_directory_is_refused(void **state)
{
	struct dw_report report = { 0 };
	struct stage *none;

	assert_true(stage_open("/nonexistent", &none, &report) < 0);
	assert_null(none);
	assert_int_equal(report.status, DW_REFUSED);
	assert_non_null(strstr(report.message, "/nonexistent"));
}

/* ---- the real tools ---------------------------------------------------- */

/* The device's content as file NAME. */
static void extract(struct device *dev, const char *name)
{
	char *buffer = malloc(IMAGE_MIB);

	image_make(name, dev->size);
	for (uint64_t at = 0; at < dev->size; at += IMAGE_MIB) {
		assert_int_equal(device_read(dev, buffer, IMAGE_MIB, at), 0);
		image_write(name, buffer, IMAGE_MIB, at);
	}
	free(buffer);
}

static void filesystem_is_made_grown_and_clean(void **state)
{
	struct device *view;

	assert_int_equal(device_open_overlay(memory, 128 * IMAGE_MIB, directory, &view), 0);
	assert_int_equal(stage_show(stage, "view", view, &path, NULL), 0);
	assert_int_equal(image_run("mkdir tree; seq 300000 >tree/numbers; seq 9 >tree/few"), 0);
	assert_int_equal(image_run("mke2fs -q -F -t ext4 -b 4096 -d tree '%s' 48M 2>/dev/null", path), 0);
	assert_int_equal(image_run("e2fsck -fy '%s' >/dev/null 2>&1", path), 0);
	assert_int_equal(image_run("resize2fs '%s' >/dev/null 2>&1", path), 0);
	assert_int_equal(image_run("tune2fs -O ^has_journal '%s' >/dev/null 2>&1", path), 0);
	assert_int_equal(image_run("e2fsck -fn '%s' >/dev/null 2>&1", path), 0);
	assert_int_equal(stage_hide(stage, "view", NULL), 0);
	extract(view, "result");
	assert_int_equal(image_run("e2fsck -fn result >/dev/null 2>&1"), 0);
	assert_int_equal(image_run("debugfs -R 'cat numbers' result 2>/dev/null | cmp - tree/numbers"), 0);
	assert_int_equal(image_run("dumpe2fs -h result 2>/dev/null | grep -q '^Block count: *%llu$'",
				   128 * IMAGE_MIB / 4096), 0);
	assert_int_equal(memory_stored(memory), 0);
	device_close(view);
}

/* ---- killed owners ----------------------------------------------------- */

static int events[2]; /* what happens in another process, a byte each */

static void tell(char event)
{
	assert_int_equal(write(events[1], &event, 1), 1);
}

/* The next event; 0 when none comes within 20 seconds. */
static char next_event(void)
{
	struct pollfd fd = { events[0], POLLIN, 0 };
	char event;

	return poll(&fd, 1, 20000) == 1 && read(events[0], &event, 1) == 1 ? event : 0;
}

/* Tell of the first operation of a kind and never return from it. */
static int hang(void *opaque, enum memory_op op, uint64_t offset, uint64_t length)
{
	while (op == *(enum memory_op *)opaque) {
		tell('h');
		pause();
	}
	return 0;
}

/* A process with a stage of its own runs FN and is killed when it has told
 * of an event 'h'; it must be gone at once, whatever it was waiting for. */
static void kill_owner(void (*fn)(void), enum memory_op hanging)
{
	int status, waited = 0;
	pid_t pid;

	assert_int_equal(pipe2(events, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		if (stage_open(directory, &stage, NULL) < 0)
			_exit(1);
		show(SIZE);
		memory_set_hook(memory, hang, &hanging);
		fn();
		pause();
	}
	assert_int_equal(next_event(), 'h');
	kill(pid, SIGKILL);
	while (waitpid(pid, &status, WNOHANG) == 0 && waited++ < 1000)
		usleep(10000);
	assert_true(waited < 1000);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* The next stage takes away what was left. */
static void assert_cleaned(void)
{
	assert_int_equal(stage_open(directory, &stage, NULL), 0);
	stage_close(stage);
	stage = NULL;
	assert_int_equal(leftovers(), 0);
	close(events[0]);
	close(events[1]);
}

static void just_tell(void)
{
	tell('h');
}

static void leftovers_are_cleaned_up(void **state)
{
	kill_owner(just_tell, MEMORY_SYNC);
	assert_true(leftovers() > 0);
	assert_cleaned();
}

static void leave_alone_what_is_not_ours(void **state)
{
	char text[128];

	/* A living process, no process's number, and a file. */
	snprintf(text, sizeof(text), "mkdir diskwright-stage-%d-abcdef", getpid());
	assert_int_equal(image_run("%s", text), 0);
	assert_int_equal(image_run("mkdir diskwright-stage-zero-abcdef; touch diskwright-stage-99999999-x"), 0);
	assert_int_equal(stage_open(directory, &stage, NULL), 0);
	stage_close(stage);
	stage = NULL;
	assert_int_equal(leftovers(), 3);
	assert_int_equal(image_run("rmdir diskwright-stage-*-abcdef; rm diskwright-stage-99999999-x"), 0);
}

/* A program that reads, and says how that ended. */
static void start_reader(void)
{
	if (fork() == 0) {
		char command[8192];

		/* Not stopped by the owner's end, and without its /dev/fuse. */
		dup2(events[1], 3);
		snprintf(command, sizeof(command), "cat '%s' >/dev/null 2>&1 && printf r >&3 || printf e >&3",
			 path);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(1);
	}
}

static void waiting_program_gets_an_error(void **state)
{
	kill_owner(start_reader, MEMORY_READ);
	assert_int_equal(next_event(), 'e');
	assert_cleaned();
}

/* Another process has written a page and keeps the file open. */
static void flush_with_a_writer(void)
{
	char page[4096] = "data";
	int written[2];

	assert_int_equal(pipe(written), 0);
	if (fork() == 0) {
		int fd;

		/* Like a program: without the owner's descriptors. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(written[1], 3);
		closefrom(4);
		fd = open(path, O_RDWR);
		if (fd < 0 || pwrite(fd, page, sizeof(page), 0) != sizeof(page) || write(3, "w", 1) != 1)
			_exit(1);
		pause();
	}
	assert_int_equal(read(written[0], page, 1), 1);
	stage_flush(stage, "file", NULL);
}

static void owner_can_be_killed_while_flushing(void **state)
{
	kill_owner(flush_with_a_writer, MEMORY_WRITE);
	assert_cleaned();
}

#define ON_STAGE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_STAGE(device_is_read_through_its_file),
		ON_STAGE(what_is_written_arrives_with_the_flush),
		ON_STAGE(file_looks_like_the_device),
		ON_STAGE(exclusive_and_direct_opens_work),
		ON_STAGE(two_files_do_not_mix),
		ON_STAGE(unwritten_cache_is_no_hole),
		ON_STAGE(punched_holes_are_zeros),
		ON_STAGE(size_and_times_cannot_be_changed),
		ON_STAGE(write_behind_the_end_has_no_space),
		ON_STAGE(new_size_is_seen_after_showing_again),
		ON_STAGE(write_error_is_remembered),
		ON_STAGE(read_error_is_an_error_of_the_program),
		ON_STAGE(read_only_device_is_not_written),
		ON_STAGE(names_are_distinct),
		ON_STAGE(filesystem_is_made_grown_and_clean),
		cmocka_unit_test(missing_directory_is_refused),
		cmocka_unit_test(leftovers_are_cleaned_up),
		cmocka_unit_test(leave_alone_what_is_not_ours),
		cmocka_unit_test(waiting_program_gets_an_error),
		cmocka_unit_test(owner_can_be_killed_while_flushing),
	};
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		fprintf(stderr, "skipped: /dev/fuse: %s\n", strerror(errno));
		return 77;
	}
	close(fd);
	return cmocka_run_group_tests(tests, group_setup, image_directory_remove);
}
