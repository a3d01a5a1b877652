/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The stage's directory, mount and files.
 *
 * A process that waits for its own FUSE threads in a system call cannot be
 * killed: the threads die first, and the descriptor whose last close would
 * end the wait is held by the waiting thread.  So nothing here touches a file
 * on the stage: a child does it, which has closed that descriptor.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stage/internal.h"
#include "stage/tool.h"

#define PREFIX "diskwright-stage-"
#define OPTIONS "fsname=diskwright,subtype=stage"

/* ---- what killed runs left behind -------------------------------------- */

/* Is NAME the directory of a process that is no more? */
static bool is_leftover(const char *name)
{
	long pid;

	if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
		return false;
	pid = strtol(name + strlen(PREFIX), NULL, 10);
	return pid > 0 && pid <= INT_MAX && kill(pid, 0) < 0 && errno == ESRCH;
}

static void detach(const char *path)
{
	const char *argv[] = { "fusermount3", "-u", "-z", "-q", "--", path, NULL };
	struct tool_result result;

	if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
		return;
	if (tool_run(argv, TOOL_NO_PROGRESS, NULL, &result, NULL) == 0)
		tool_result_free(&result);
}

static void remove_leftover(const char *path)
{
	struct stat st;
	int r = lstat(path, &st);

	/* Nobody answers on this mount any more. */
	if (r < 0 && errno == ENOTCONN) {
		detach(path);
		r = lstat(path, &st);
	}
	if (r == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid())
		rmdir(path);
}

static void remove_leftovers(const char *directory)
{
	DIR *d = opendir(directory);
	struct dirent *e;
	char *path;

	while (d && (e = readdir(d))) {
		if (is_leftover(e->d_name) && asprintf(&path, "%s/%s", directory, e->d_name) >= 0) {
			remove_leftover(path);
			free(path);
		}
	}
	if (d)
		closedir(d);
}

/* ---- mounting ---------------------------------------------------------- */

/* Is FUSE there for this user? */
static int check_fuse(struct dw_report *report)
{
	const char *argv[] = { "fusermount3", "-V", NULL };
	struct tool_result result;
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC), r;

	if (fd < 0) {
		r = dw_fail(report, DW_REFUSED, ENODEV, "the rehearsal needs FUSE: /dev/fuse: %s",
			    strerror(errno));
		dw_hint(report, errno == EACCES || errno == EPERM
					? "the user must be allowed to open /dev/fuse"
					: "`modprobe fuse`");
		return r;
	}
	close(fd);
	if (geteuid() == 0)
		return 0;
	r = tool_run(argv, TOOL_NO_PROGRESS, NULL, &result, report);
	if (r == 0)
		tool_result_free(&result);
	return r;
}

/*
 * A mount namespace of this thread's own (and of the threads and programs it
 * starts), gone with the last of them.  What others mount and unmount is
 * still seen here.  Where that is not allowed, everybody sees the stage.
 */
static void leave_namespace(void)
{
	if (unshare(CLONE_NEWNS) == 0)
		mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL);
}

static int mount_stage(struct stage *s, struct dw_report *report)
{
	bool root = geteuid() == 0;
	int r = check_fuse(report);

	if (r < 0)
		return r;
	if (root)
		leave_namespace();
	s->session = serve_new(s, root ? OPTIONS : OPTIONS ",auto_unmount");
	if (!s->session)
		return dw_fail(report, DW_FAILED, ENOMEM, "cannot start FUSE");
	if (fuse_session_mount(s->session, s->directory) < 0) {
		r = dw_fail(report, DW_REFUSED, ENODEV, "the rehearsal needs FUSE, and it cannot be mounted");
		dw_hint(report, "in a container, FUSE must be allowed from outside");
		return r;
	}
	s->mounted = true;
	r = serve_start(s);
	return r < 0 ? dw_fail(report, DW_FAILED, -r, "cannot start the stage: %s", strerror(-r)) : 0;
}

static int make_directory(struct stage *s, const char *directory, struct dw_report *report)
{
	int r;

	if (asprintf(&s->directory, "%s/" PREFIX "%ld-XXXXXX", directory, (long)getpid()) < 0) {
		s->directory = NULL;
		return -ENOMEM;
	}
	if (mkdtemp(s->directory))
		return 0;
	r = dw_fail(report, DW_REFUSED, errno, "cannot make a directory in %s: %s", directory,
		    strerror(errno));
	dw_hint(report, "set TMPDIR to a directory that can be written");
	free(s->directory);
	s->directory = NULL;
	return r;
}

int stage_open(const char *directory, struct stage **out, struct dw_report *report)
{
	struct stage *s = calloc(1, sizeof(*s));
	int r;

	*out = NULL;
	if (!s)
		return -ENOMEM;
	pthread_rwlock_init(&s->lock, NULL);
	s->next = FUSE_ROOT_ID + 1;
	remove_leftovers(directory);
	r = make_directory(s, directory, report);
	if (r == 0)
		r = mount_stage(s, report);
	if (r < 0) {
		stage_close(s);
		return r;
	}
	*out = s;
	return 0;
}

void stage_close(struct stage *s)
{
	if (!s)
		return;
	serve_stop(s);
	/* This closes /dev/fuse first: the kernel waits for no answer any more. */
	if (s->mounted)
		fuse_session_unmount(s->session);
	if (s->session)
		fuse_session_destroy(s->session);
	if (s->directory)
		rmdir(s->directory);
	for (int i = 0; i < STAGE_FILES; i++)
		free(s->files[i].path);
	pthread_rwlock_destroy(&s->lock);
	free(s->directory);
	free(s);
}

/* ---- files ------------------------------------------------------------- */

static struct stage_file *find(struct stage *s, const char *name)
{
	for (int i = 0; i < STAGE_FILES; i++)
		if (s->files[i].inode && strcmp(s->files[i].name, name) == 0)
			return &s->files[i];
	return NULL;
}

static struct stage_file *free_slot(struct stage *s)
{
	for (int i = 0; i < STAGE_FILES; i++)
		if (!s->files[i].inode)
			return &s->files[i];
	return NULL;
}

int stage_show(struct stage *s, const char *name, struct device *dev, const char **path,
	       struct dw_report *report)
{
	struct stage_file *f = free_slot(s);

	if (!f || find(s, name) || strlen(name) >= STAGE_NAME_MAX)
		return dw_fail(report, DW_FAILED, EINVAL, "no place for %s on the stage", name);
	if (asprintf(&f->path, "%s/%s", s->directory, name) < 0) {
		f->path = NULL;
		return -ENOMEM;
	}
	strcpy(f->name, name);
	f->dev = dev;
	atomic_store(&f->error, 0);
	pthread_rwlock_wrlock(&s->lock);
	f->inode = s->next++;
	pthread_rwlock_unlock(&s->lock);
	*path = f->path;
	return 0;
}

/* The kernel's cache goes to the device; what may be called after fork(). */
static int sync_in_child(struct stage *s, const char *path)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		int fd;

		close(fuse_session_fd(s->session));
		fd = open(path, O_RDONLY | O_CLOEXEC);
		_exit(fd < 0 || fsync(fd) < 0 ? errno : 0);
	}
	if (pid < 0)
		return -errno;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

int stage_flush(struct stage *s, const char *name, struct dw_report *report)
{
	struct stage_file *f = find(s, name);
	int r, error;

	if (!f)
		return dw_fail(report, DW_FAILED, ENOENT, "%s is not on the stage", name);
	r = sync_in_child(s, f->path);
	error = atomic_load(&f->error);
	return error ? error : r;
}

int stage_hide(struct stage *s, const char *name, struct dw_report *report)
{
	struct stage_file *f = find(s, name);
	int r = stage_flush(s, name, report);

	if (!f)
		return r;
	/* Waits for the requests under way; later ones find nothing. */
	pthread_rwlock_wrlock(&s->lock);
	f->inode = 0;
	pthread_rwlock_unlock(&s->lock);
	free(f->path);
	f->path = NULL;
	return r;
}
