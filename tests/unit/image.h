/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * For tests that look at what the real tools make: a private directory, images
 * in it, and commands run there.
 */
#ifndef TEST_IMAGE_H
#define TEST_IMAGE_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"
#include "unit.h"

#define IMAGE_MIB (1024 * 1024ull)

/* Make the directory and go there; for cmocka's group setup. */
static inline int image_directory_make(void **state)
{
	const char *base = getenv("TMPDIR");
	char path[4096];

	snprintf(path, sizeof(path), "%s/diskwright-test-XXXXXX", base ? base : "/tmp");
	setenv("PATH", "/usr/sbin:/sbin:/usr/local/sbin:/usr/bin:/bin:/usr/local/bin", 1);
	setenv("LC_ALL", "C", 1);
	if (!mkdtemp(path) || chdir(path) < 0)
		return -1;
	*state = strdup(path);
	return *state ? 0 : -1;
}

static inline int image_directory_remove(void **state)
{
	char command[4200];
	int r;

	snprintf(command, sizeof(command), "rm -rf '%s'", (char *)*state);
	r = chdir("/") < 0 || system(command);
	free(*state);
	return r;
}

/* Run a shell command; its exit status.  OUTPUT (may be NULL): what it wrote. */
static inline int image_run_into(char *output, size_t size, const char *command)
{
	FILE *pipe = popen(command, "r");
	char rest[4096];
	size_t n;

	assert_non_null(pipe);
	n = output ? fread(output, 1, size - 1, pipe) : 0;
	if (output)
		output[n] = '\0';
	while (fread(rest, 1, sizeof(rest), pipe) > 0)
		;
	n = pclose(pipe);
	return WIFEXITED(n) ? WEXITSTATUS(n) : 255;
}

__attribute__((format(printf, 1, 2))) static inline int image_run(const char *fmt, ...)
{
	char command[2048];
	va_list args;

	va_start(args, fmt);
	vsnprintf(command, sizeof(command), fmt, args);
	va_end(args);
	return image_run_into(NULL, 0, command);
}

static inline bool image_has_program(const char *name)
{
	return image_run("command -v %s >/dev/null", name) == 0;
}

/* A sparse file of SIZE bytes, all zero. */
static inline void image_make(const char *name, uint64_t size)
{
	int fd = open(name, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	close(fd);
}

static inline void image_write(const char *name, const void *data, size_t length, uint64_t offset)
{
	int fd = open(name, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, data, length, offset), length);
	close(fd);
}

static inline void image_read(const char *name, void *data, size_t length, uint64_t offset)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, data, length, offset), length);
	close(fd);
}

static inline struct device *image_open(const char *name)
{
	struct device *dev;
	int fd = open(name, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(device_open_fd(fd, true, &dev), 0);
	close(fd);
	return dev;
}

/*
 * The value behind KEY at the start of a line of TEXT, without the blanks
 * around it; "" where there is none.
 */
static inline const char *image_value(const char *text, const char *key, char *value, size_t size)
{
	size_t length = strlen(key);

	value[0] = '\0';
	for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		if (strncmp(line, key, length) != 0)
			continue;
		line += length;
		line += strspn(line, " \t");
		snprintf(value, size, "%.*s", (int)strcspn(line, "\n"), line);
		break;
	}
	return value;
}

#endif
