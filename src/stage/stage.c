/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One directory with one file per shown device, over FUSE's low-level API.
 *
 * Every stage_show() makes a new inode, so that nothing the kernel cached of
 * an earlier file with another size can be seen.  The page cache is kept and
 * writes are cached (with direct_io the programs are ten times slower); what
 * the programs wrote is complete in the device after stage_flush().
 */
#define FUSE_USE_VERSION 312
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stage/stage.h"

#define PREFIX "diskwright-stage-"
#define TIMEOUT 3600.0
#define REQUEST (1024 * 1024)
#define READAHEAD (1024 * 1024)
#define WORKERS 4
#define FILES_MAX 8

struct file {
	fuse_ino_t inode;    /* 0: free slot */
	struct device *dev;
	char name[64];
	char *path;
	int error;           /* the first error a write met */
};

struct stage {
	char *directory;
	struct fuse_session *session;
	pthread_t loop;
	bool looping, mounted;
	pthread_mutex_t lock;
	fuse_ino_t next;
	struct file files[FILES_MAX];
};

static struct file *find_inode(struct stage *s, fuse_ino_t inode)
{
	for (int i = 0; i < FILES_MAX; i++)
		if (s->files[i].inode && s->files[i].inode == inode)
			return &s->files[i];
	return NULL;
}

static struct file *find_name(struct stage *s, const char *name)
{
	for (int i = 0; i < FILES_MAX; i++)
		if (s->files[i].inode && strcmp(s->files[i].name, name) == 0)
			return &s->files[i];
	return NULL;
}

/* The device behind an inode; it stays until stage_hide(), which comes when
 * no program has the file open any more. */
static struct device *device_of(fuse_req_t req, fuse_ino_t inode)
{
	struct stage *s = fuse_req_userdata(req);
	struct file *f;

	pthread_mutex_lock(&s->lock);
	f = find_inode(s, inode);
	pthread_mutex_unlock(&s->lock);
	return f ? f->dev : NULL;
}

static void remember(fuse_req_t req, fuse_ino_t inode, int r)
{
	struct stage *s = fuse_req_userdata(req);
	struct file *f;

	pthread_mutex_lock(&s->lock);
	f = find_inode(s, inode);
	if (f && r < 0 && f->error == 0)
		f->error = r;
	pthread_mutex_unlock(&s->lock);
}

/* ---- FUSE --------------------------------------------------------------- */

static bool fill_attr(fuse_req_t req, fuse_ino_t inode, struct stat *st)
{
	struct device *dev = inode == FUSE_ROOT_ID ? NULL : device_of(req, inode);

	memset(st, 0, sizeof(*st));
	st->st_ino = inode;
	st->st_uid = getuid();
	st->st_gid = getgid();
	st->st_nlink = 1;
	st->st_mode = inode == FUSE_ROOT_ID ? S_IFDIR | 0700 : S_IFREG | 0600;
	if (dev) {
		st->st_size = dev->size;
		st->st_blocks = dev->size / 512;
		st->st_blksize = 4096;
	}
	return dev || inode == FUSE_ROOT_ID;
}

static void op_init(void *opaque, struct fuse_conn_info *conn)
{
	conn->want |= conn->capable & (FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS);
	conn->max_write = REQUEST;
	conn->max_readahead = READAHEAD;
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct stage *s = fuse_req_userdata(req);
	struct fuse_entry_param e = { .attr_timeout = TIMEOUT };
	struct file *f;

	pthread_mutex_lock(&s->lock);
	f = find_name(s, name);
	e.ino = f ? f->inode : 0;
	pthread_mutex_unlock(&s->lock);
	/* A name is not cached: the next one shown under it is another inode. */
	if (e.ino && fill_attr(req, e.ino, &e.attr))
		fuse_reply_entry(req, &e);
	else
		fuse_reply_err(req, ENOENT);
}

static void op_getattr(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *fi)
{
	struct stat st;

	if (fill_attr(req, inode, &st))
		fuse_reply_attr(req, &st, TIMEOUT);
	else
		fuse_reply_err(req, ENOENT);
}

/* Truncation and times: without effect, answered with the true size. */
static void op_setattr(fuse_req_t req, fuse_ino_t inode, struct stat *attr, int to_set,
		       struct fuse_file_info *fi)
{
	op_getattr(req, inode, fi);
}

static void op_open(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *fi)
{
	struct device *dev = device_of(req, inode);

	if (!dev) {
		fuse_reply_err(req, ENOENT);
	} else if (dev->read_only && (fi->flags & O_ACCMODE) != O_RDONLY) {
		fuse_reply_err(req, EROFS);
	} else {
		fi->keep_cache = 1;
		fi->direct_io = 0;
		fuse_reply_open(req, fi);
	}
}

static void op_read(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset, struct fuse_file_info *fi)
{
	struct device *dev = device_of(req, inode);
	char *buffer;
	int r;

	if (!dev || (uint64_t)offset >= dev->size) {
		fuse_reply_buf(req, NULL, 0);
		return;
	}
	if (size > dev->size - offset)
		size = dev->size - offset;
	buffer = malloc(size);
	r = buffer ? device_read(dev, buffer, size, offset) : -ENOMEM;
	if (r < 0)
		fuse_reply_err(req, -r);
	else
		fuse_reply_buf(req, buffer, size);
	free(buffer);
}

static void op_write(fuse_req_t req, fuse_ino_t inode, const char *buffer, size_t size, off_t offset,
		     struct fuse_file_info *fi)
{
	struct device *dev = device_of(req, inode);
	int r;

	if (!dev)
		r = -EIO;
	else if ((uint64_t)offset > dev->size || size > dev->size - offset)
		r = -ENOSPC;
	else
		r = device_write(dev, buffer, size, offset);
	remember(req, inode, r);
	if (r < 0)
		fuse_reply_err(req, -r);
	else
		fuse_reply_write(req, size);
}

static void op_fallocate(fuse_req_t req, fuse_ino_t inode, int mode, off_t offset, off_t length,
			 struct fuse_file_info *fi)
{
	struct device *dev = device_of(req, inode);
	int r = -EOPNOTSUPP;

	if (dev && (uint64_t)offset <= dev->size && (uint64_t)length <= dev->size - offset) {
		if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
			r = device_zero(dev, offset, length);
		else if ((mode & ~FALLOC_FL_KEEP_SIZE) == 0)
			r = 0;
	}
	fuse_reply_err(req, -r);
}

static void op_flush(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *fi)
{
	fuse_reply_err(req, 0);
}

static void op_fsync(fuse_req_t req, fuse_ino_t inode, int datasync, struct fuse_file_info *fi)
{
	fuse_reply_err(req, 0);
}

static const struct fuse_lowlevel_ops stage_ops = {
	.init = op_init, .lookup = op_lookup, .getattr = op_getattr, .setattr = op_setattr,
	.open = op_open, .read = op_read, .write = op_write, .fallocate = op_fallocate,
	.flush = op_flush, .fsync = op_fsync,
};

static void *loop(void *opaque)
{
	struct stage *s = opaque;
	struct fuse_loop_config *config = fuse_loop_cfg_create();

	fuse_loop_cfg_set_max_threads(config, WORKERS);
	fuse_session_loop_mt(s->session, config);
	fuse_loop_cfg_destroy(config);
	return NULL;
}

/* ---- mounting ----------------------------------------------------------- */

static void unmount_stale(const char *path)
{
	pid_t pid;

	if (umount2(path, MNT_DETACH) == 0)
		return;
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 1);
		dup2(null, 2);
		execlp("fusermount3", "fusermount3", "-u", "-z", "-q", path, (char *)NULL);
		_exit(127);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

/* What runs that were killed left behind: their process is no more. */
static void clean_up(const char *directory)
{
	DIR *d = opendir(directory);
	struct dirent *e;
	char path[4096];

	while (d && (e = readdir(d))) {
		long pid;

		if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0)
			continue;
		pid = strtol(e->d_name + strlen(PREFIX), NULL, 10);
		if (pid <= 0 || kill(pid, 0) == 0 || errno != ESRCH)
			continue;
		snprintf(path, sizeof(path), "%s/%s", directory, e->d_name);
		if (rmdir(path) < 0 && errno != ENOENT) {
			unmount_stale(path);
			rmdir(path);
		}
	}
	if (d)
		closedir(d);
}

static int no_fuse(struct dw_report *report, const char *what)
{
	dw_fail(report, DW_REFUSED, ENODEV, "the rehearsal needs FUSE: %s", what);
	dw_hint(report, "`apt-get install fuse3` and `modprobe fuse`");
	return -ENODEV;
}

/* As root in a mount namespace of this thread: the mount cannot be left over. */
static int mount_privately(struct stage *s)
{
	if (geteuid() != 0)
		return 0;
	if (unshare(CLONE_NEWNS) < 0)
		return 0; /* not allowed here: mount where everybody sees it */
	return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
}

static int start_session(struct stage *s, struct dw_report *report)
{
	static char name[] = "diskwright", options[] = "-ofsname=diskwright,subtype=stage";
	char *argv[] = { name, options, NULL };
	struct fuse_args args = FUSE_ARGS_INIT(2, argv);
	sigset_t all, before;
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC), r;

	if (fd < 0)
		return no_fuse(report, errno == EACCES ? "/dev/fuse is not open to this user"
						       : "/dev/fuse is not there");
	close(fd);
	mount_privately(s);
	s->session = fuse_session_new(&args, &stage_ops, sizeof(stage_ops), s);
	fuse_opt_free_args(&args);
	if (!s->session || fuse_session_mount(s->session, s->directory) < 0)
		return no_fuse(report, "it cannot be mounted");
	s->mounted = true;
	/* Signals are for the thread that asked. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&s->loop, NULL, loop, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	s->looping = r == 0;
	return r ? dw_fail(report, DW_FAILED, r, "cannot start the stage: %s", strerror(r)) : 0;
}

int stage_open(const char *directory, struct stage **out, struct dw_report *report)
{
	struct stage *s = calloc(1, sizeof(*s));
	int r = 0;

	*out = NULL;
	if (!s)
		return -ENOMEM;
	clean_up(directory);
	pthread_mutex_init(&s->lock, NULL);
	s->next = FUSE_ROOT_ID + 1;
	if (asprintf(&s->directory, "%s/" PREFIX "%ld-XXXXXX", directory, (long)getpid()) < 0) {
		s->directory = NULL;
		r = -ENOMEM;
	} else if (!mkdtemp(s->directory)) {
		r = dw_fail(report, DW_REFUSED, errno, "cannot make a directory in %s: %s", directory,
			    strerror(errno));
		dw_hint(report, "set TMPDIR to a directory that can be written");
		free(s->directory);
		s->directory = NULL;
	}
	if (r == 0)
		r = start_session(s, report);
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
	if (s->mounted) {
		fuse_session_exit(s->session);
		fuse_session_unmount(s->session);
	}
	if (s->looping)
		pthread_join(s->loop, NULL);
	if (s->session)
		fuse_session_destroy(s->session);
	if (s->directory)
		rmdir(s->directory);
	for (int i = 0; i < FILES_MAX; i++)
		free(s->files[i].path);
	pthread_mutex_destroy(&s->lock);
	free(s->directory);
	free(s);
}

/* ---- files -------------------------------------------------------------- */

int stage_show(struct stage *s, const char *name, struct device *dev, const char **path,
	       struct dw_report *report)
{
	struct file *f = NULL;
	int r = 0;

	pthread_mutex_lock(&s->lock);
	for (int i = 0; i < FILES_MAX && !f; i++)
		if (!s->files[i].inode)
			f = &s->files[i];
	if (!f || find_name(s, name) || strlen(name) >= sizeof(f->name))
		r = -EINVAL;
	else if (asprintf(&f->path, "%s/%s", s->directory, name) < 0)
		r = -ENOMEM;
	if (r == 0) {
		strcpy(f->name, name);
		f->dev = dev;
		f->error = 0;
		f->inode = s->next++;
		*path = f->path;
	}
	pthread_mutex_unlock(&s->lock);
	return r < 0 ? dw_fail(report, DW_FAILED, -r, "cannot show %s on the stage: %s", name, strerror(-r)) : 0;
}

int stage_flush(struct stage *s, const char *name, struct dw_report *report)
{
	struct file *f = find_name(s, name);
	int fd = f ? open(f->path, O_RDWR | O_CLOEXEC) : -1, r = 0;

	if (fd < 0)
		return dw_fail(report, DW_FAILED, EIO, "cannot flush %s on the stage", name);
	if (!f->dev->read_only && fsync(fd) < 0)
		r = -errno;
	close(fd);
	return f->error ? f->error : r;
}

int stage_hide(struct stage *s, const char *name, struct dw_report *report)
{
	struct file *f = find_name(s, name);
	fuse_ino_t inode;
	int r;

	if (!f)
		return -ENOENT;
	r = f->dev->read_only ? 0 : stage_flush(s, name, report);
	pthread_mutex_lock(&s->lock);
	inode = f->inode;
	f->inode = 0;
	free(f->path);
	f->path = NULL;
	pthread_mutex_unlock(&s->lock);
	fuse_lowlevel_notify_inval_entry(s->session, FUSE_ROOT_ID, name, strlen(name));
	fuse_lowlevel_notify_inval_inode(s->session, inode, 0, 0);
	return r;
}
