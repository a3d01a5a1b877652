/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The kernel shows an image through loop devices and a disk through its
 * partitions; each of them ("view" below) is a range of the disk with a device
 * number, and mounts, swap areas and holders (device-mapper, md) go by that.
 * The weightiest use of a range that overlaps is reported.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "stack/inuse.h"

#define SECTOR 512

enum weight { FREE, ATTACHED, HELD, SWAP, MOUNTED };

struct search {
	const char *root;
	struct stat disk;
	uint64_t offset, length;
	enum weight weight;   /* of what was found so far */
	char *what;
	size_t size;
};

struct view {
	char name[64];        /* "loop0", "sda1" */
	char sys[512];        /* its directory in /sys */
	uint64_t start, length;
	unsigned major, minor;
};

static void found(struct search *s, enum weight weight, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void found(struct search *s, enum weight weight, const char *fmt, ...)
{
	va_list args;

	if (weight <= s->weight)
		return;
	s->weight = weight;
	va_start(args, fmt);
	vsnprintf(s->what, s->size, fmt, args);
	va_end(args);
}

/* ---- small files --------------------------------------------------------- */

/* The first line of DIRECTORY/NAME; false when there is none. */
static bool read_line(const char *directory, const char *name, char *line, size_t size)
{
	char path[1024];
	FILE *file;
	bool ok;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "re");
	if (!file)
		return false;
	ok = fgets(line, size, file);
	fclose(file);
	if (ok)
		line[strcspn(line, "\n")] = '\0';
	return ok;
}

static uint64_t read_number(const char *directory, const char *name)
{
	char line[64];

	return read_line(directory, name, line, sizeof(line)) ? strtoull(line, NULL, 10) : 0;
}

/* Undo the kernel's "\040" for a space. */
static void unescape(char *text)
{
	char *to = text;

	for (; *text; to++) {
		if (text[0] == '\\' && isdigit((unsigned char)text[1]) &&
		    isdigit((unsigned char)text[2]) && isdigit((unsigned char)text[3])) {
			*to = (text[1] - '0') << 6 | (text[2] - '0') << 3 | (text[3] - '0');
			text += 4;
		} else {
			*to = *text++;
		}
	}
	*to = '\0';
}

/* Call FN with every line of ROOT/NAME; a missing file has none. */
static int each_line(struct search *s, const char *name,
		     void (*fn)(struct search *s, const struct view *v, char *line),
		     const struct view *v)
{
	char path[1024], *line = NULL;
	size_t capacity = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s%s", s->root, name);
	file = fopen(path, "re");
	if (!file)
		return 0;
	errno = 0;
	while (getline(&line, &capacity, file) > 0)
		fn(s, v, line);
	free(line);
	fclose(file);
	return errno == ENOMEM ? -ENOMEM : 0;
}

/* ---- uses of a view ------------------------------------------------------- */

/* mountinfo: "36 35 98:0 /root /mnt options ... - type source options" */
static void look_at_mount(struct search *s, const struct view *v, char *line)
{
	unsigned major, minor;
	char *where = NULL;

	if (sscanf(line, "%*d %*d %u:%u %*s %ms", &major, &minor, &where) == 3 && major == v->major &&
	    minor == v->minor) {
		unescape(where);
		found(s, MOUNTED, "mounted on %s (%s)", where, v->name);
	}
	free(where);
}

/* A filesystem in user space (fuse2fs) names the image itself as its source. */
static void look_at_source(struct search *s, const struct view *v, char *line)
{
	char *where = NULL, *source = NULL, *rest = strstr(line, " - ");
	struct stat st;

	if (rest && sscanf(rest, " - %*s %ms", &source) == 1 && source[0] == '/' &&
	    sscanf(line, "%*d %*d %*s %*s %ms", &where) == 1) {
		unescape(source);
		unescape(where);
		if (stat(source, &st) == 0 && S_ISREG(st.st_mode) && st.st_dev == s->disk.st_dev &&
		    st.st_ino == s->disk.st_ino)
			found(s, MOUNTED, "mounted on %s", where);
	}
	free(source);
	free(where);
}

static void look_at_swap(struct search *s, const struct view *v, char *line)
{
	char *end = strpbrk(line, " \t");
	const char *name;

	if (!end)
		return;
	*end = '\0';
	name = strrchr(line, '/');
	if (name && strcmp(name + 1, v->name) == 0)
		found(s, SWAP, "swap is on (%s)", v->name);
}

static void look_at_holders(struct search *s, const struct view *v)
{
	char path[1024];
	struct dirent *entry;
	DIR *directory;

	snprintf(path, sizeof(path), "%s/holders", v->sys);
	directory = opendir(path);
	if (!directory)
		return;
	while ((entry = readdir(directory)))
		if (entry->d_name[0] != '.')
			found(s, HELD, "held by %s (%s)", entry->d_name, v->name);
	closedir(directory);
}

static int look_at_view(struct search *s, const struct view *v)
{
	int r;

	/* Ranges by subtraction: a loop device's offset is anybody's number. */
	if (v->start >= s->offset ? v->start - s->offset >= s->length : s->offset - v->start >= v->length)
		return 0;
	if (strncmp(v->name, "loop", 4) == 0)
		found(s, ATTACHED, "attached to /dev/%s", v->name);
	look_at_holders(s, v);
	r = each_line(s, "/proc/swaps", look_at_swap, v);
	return r < 0 ? r : each_line(s, "/proc/self/mountinfo", look_at_mount, v);
}

/* ---- views ----------------------------------------------------------------- */

static bool open_view(const char *parent, const char *name, struct view *v)
{
	char dev[32];

	if (strlen(name) >= sizeof(v->name) || strlen(parent) + strlen(name) + 2 > sizeof(v->sys))
		return false;
	strcpy(v->name, name);
	snprintf(v->sys, sizeof(v->sys), "%s/%s", parent, name);
	return read_line(v->sys, "dev", dev, sizeof(dev)) &&
	       sscanf(dev, "%u:%u", &v->major, &v->minor) == 2;
}

/* A whole device with its partitions; START: where it begins on the disk. */
static int look_at_whole(struct search *s, const struct view *whole)
{
	DIR *directory = opendir(whole->sys);
	struct dirent *entry;
	int r = look_at_view(s, whole);

	if (!directory)
		return r;
	while (r == 0 && (entry = readdir(directory))) {
		struct view v;

		if (strncmp(entry->d_name, whole->name, strlen(whole->name)) != 0 ||
		    !open_view(whole->sys, entry->d_name, &v))
			continue;
		v.length = read_number(v.sys, "size") * SECTOR;
		if (!__builtin_add_overflow(whole->start, read_number(v.sys, "start") * SECTOR, &v.start))
			r = look_at_view(s, &v);
	}
	closedir(directory);
	return r;
}

/* Does the loop device show our image? */
static bool is_backed(const struct search *s, const struct view *loop)
{
	char path[4096];
	struct stat st;

	return read_line(loop->sys, "loop/backing_file", path, sizeof(path)) && stat(path, &st) == 0 &&
	       st.st_dev == s->disk.st_dev && st.st_ino == s->disk.st_ino;
}

/* Every loop device of the image, or the block device itself. */
static int look_at_all(struct search *s)
{
	bool block = S_ISBLK(s->disk.st_mode);
	char path[256];
	struct dirent *entry;
	DIR *directory;
	int r = 0;

	snprintf(path, sizeof(path), "%s/sys/block", s->root);
	directory = opendir(path);
	if (!directory)
		return 0;
	while (r == 0 && (entry = readdir(directory))) {
		struct view v = { 0 };

		if (entry->d_name[0] == '.' || !open_view(path, entry->d_name, &v) ||
		    !(block ? makedev(v.major, v.minor) == s->disk.st_rdev : is_backed(s, &v)))
			continue;
		v.length = read_number(v.sys, "size") * SECTOR;
		if (!block)
			v.start = read_number(v.sys, "loop/offset");
		r = look_at_whole(s, &v);
	}
	closedir(directory);
	return r;
}

int inuse_find_under(const char *root, const char *path, uint64_t offset, uint64_t length,
		     char *what, size_t size)
{
	struct search s = { .root = root, .offset = offset, .length = length, .what = what, .size = size };
	int r;

	what[0] = '\0';
	if (stat(path, &s.disk) < 0)
		return -errno;
	r = look_at_all(&s);
	if (r == 0 && S_ISREG(s.disk.st_mode))
		r = each_line(&s, "/proc/self/mountinfo", look_at_source, NULL);
	return r < 0 ? r : s.weight != FREE;
}

int inuse_find(const char *path, uint64_t offset, uint64_t length, char *what, size_t size)
{
	return inuse_find_under("", path, offset, length, what, size);
}
