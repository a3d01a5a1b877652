/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The stage's answers to the kernel, over FUSE's low-level API.
 *
 * The kernel caches reads and writes (with direct_io the programs are ten
 * times slower).  With its write-back cache the kernel, not this side, knows
 * a file's length and times: it tells them at every close, and a refusal
 * would make each fsync() fail.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/internal.h"

#define REQUEST (1024 * 1024)
/* Names are not remembered: the next file shown under one is another inode. */
#define ENTRY_TIMEOUT 0.0
#define ATTR_TIMEOUT 86400.0

/* ---- the files --------------------------------------------------------- */

/* The file behind an inode, and the table locked until put(). */
static struct stage_file *get(fuse_req_t req, fuse_ino_t inode)
{
	struct stage *s = fuse_req_userdata(req);

	pthread_rwlock_rdlock(&s->lock);
	for (int i = 0; i < STAGE_FILES; i++)
		if (s->files[i].inode && s->files[i].inode == inode)
			return &s->files[i];
	return NULL;
}

static void put(fuse_req_t req)
{
	struct stage *s = fuse_req_userdata(req);

	pthread_rwlock_unlock(&s->lock);
}

/* A write that the kernel had promised to the program did not succeed. */
static int remember(struct stage_file *f, int r)
{
	int none = 0;

	if (r < 0)
		atomic_compare_exchange_strong(&f->error, &none, r);
	return r;
}

static struct stat attributes(fuse_ino_t inode, const struct stage_file *f)
{
	struct stat st = {
		.st_ino = inode, .st_uid = geteuid(), .st_gid = getegid(), .st_nlink = 1,
		.st_mode = f ? S_IFREG | 0600 : S_IFDIR | 0700, .st_blksize = 4096,
	};

	if (f) {
		st.st_size = f->dev->size;
		st.st_blocks = f->dev->size / 512;
	}
	return st;
}

/* ---- requests ---------------------------------------------------------- */

static void op_init(void *opaque, struct fuse_conn_info *conn)
{
	conn->want |= conn->capable & (FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_ASYNC_READ);
	/* With it O_TRUNC would not ask, and the kernel believe in an empty file. */
	conn->want &= ~FUSE_CAP_ATOMIC_O_TRUNC;
	conn->max_write = REQUEST;
	conn->max_readahead = REQUEST;
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e = { .attr_timeout = ATTR_TIMEOUT, .entry_timeout = ENTRY_TIMEOUT };
	struct stage *s = fuse_req_userdata(req);

	pthread_rwlock_rdlock(&s->lock);
	for (int i = 0; i < STAGE_FILES && !e.ino; i++) {
		if (s->files[i].inode && strcmp(s->files[i].name, name) == 0) {
			e.ino = s->files[i].inode;
			e.attr = attributes(e.ino, &s->files[i]);
		}
	}
	put(req);
	if (e.ino)
		fuse_reply_entry(req, &e);
	else
		fuse_reply_err(req, ENOENT);
}

static void op_getattr(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *fi)
{
	struct stage_file *f = get(req, inode);
	bool there = f || inode == FUSE_ROOT_ID;
	struct stat st = attributes(inode, f);

	put(req);
	if (there)
		fuse_reply_attr(req, &st, ATTR_TIMEOUT);
	else
		fuse_reply_err(req, ENOENT);
}

/* Lengths, times and modes: without effect, and the truth is the answer. */
static void op_setattr(fuse_req_t req, fuse_ino_t inode, struct stat *attr, int to_set,
		       struct fuse_file_info *fi)
{
	op_getattr(req, inode, fi);
}

static void op_open(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *fi)
{
	struct stage_file *f = get(req, inode);
	int r = 0;

	if (!f)
		r = -ENOENT;
	else if (f->dev->read_only && (fi->flags & O_ACCMODE) != O_RDONLY)
		r = -EROFS;
	put(req);
	fi->keep_cache = 1;
	if (r < 0)
		fuse_reply_err(req, -r);
	else
		fuse_reply_open(req, fi);
}

static void op_read(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
		    struct fuse_file_info *fi)
{
	char *buffer = malloc(size);
	struct stage_file *f = get(req, inode);
	int r = 0;

	if (!f || !buffer) {
		r = f ? -ENOMEM : -EIO;
	} else {
		uint64_t left = (uint64_t)offset < f->dev->size ? f->dev->size - offset : 0;

		size = size < left ? size : left;
		if (size)
			r = device_read(f->dev, buffer, size, offset);
	}
	put(req);
	if (r < 0)
		fuse_reply_err(req, -r);
	else
		fuse_reply_buf(req, buffer, size);
	free(buffer);
}

static void op_write(fuse_req_t req, fuse_ino_t inode, const char *buffer, size_t size, off_t offset,
		     struct fuse_file_info *fi)
{
	struct stage_file *f = get(req, inode);
	int r;

	if (!f)
		r = -EIO;
	else if ((uint64_t)offset > f->dev->size || size > f->dev->size - offset)
		r = remember(f, -ENOSPC);
	else
		r = remember(f, device_write(f->dev, buffer, size, offset));
	put(req);
	if (r < 0)
		fuse_reply_err(req, -r);
	else
		fuse_reply_write(req, size);
}

/* Zeros on demand.  What it says of an error is heard at once, unlike a
 * write's, and the programs then write zeros instead. */
static int zero(struct stage_file *f, int mode, uint64_t offset, uint64_t length)
{
	uint64_t left = offset < f->dev->size ? f->dev->size - offset : 0;

	if (length > left) {
		if (!(mode & FALLOC_FL_KEEP_SIZE))
			return -ENOSPC;
		length = left;
	}
	mode &= ~FALLOC_FL_KEEP_SIZE;
	if (mode == FALLOC_FL_PUNCH_HOLE || mode == FALLOC_FL_ZERO_RANGE)
		return length ? device_zero(f->dev, offset, length) : 0;
	return mode == 0 ? 0 : -EOPNOTSUPP;
}

static void op_fallocate(fuse_req_t req, fuse_ino_t inode, int mode, off_t offset, off_t length,
			 struct fuse_file_info *fi)
{
	struct stage_file *f = get(req, inode);
	int r = f ? zero(f, mode, offset, length) : -EIO;

	put(req);
	fuse_reply_err(req, -r);
}

/* What was written is in the device already.  It need not be durable: that
 * is for the one who executes what was rehearsed. */
static void op_fsync(fuse_req_t req, fuse_ino_t inode, int datasync, struct fuse_file_info *fi)
{
	struct stage_file *f = get(req, inode);
	int r = f ? atomic_load(&f->error) : -EIO;

	put(req);
	fuse_reply_err(req, -r);
}

static void op_flush(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *fi)
{
	op_fsync(req, inode, 0, fi);
}

/*
 * No lseek(): the kernel would ask without writing its cache back first, and
 * a program could take for a hole what it has just written.  Without it a
 * file is all data, which is always true.
 */
static const struct fuse_lowlevel_ops serve_ops = {
	.init = op_init, .lookup = op_lookup, .getattr = op_getattr, .setattr = op_setattr,
	.open = op_open, .read = op_read, .write = op_write, .fallocate = op_fallocate,
	.flush = op_flush, .fsync = op_fsync,
};

/* ---- threads ----------------------------------------------------------- */

/* The library speaks through struct dw_report, never on stderr. */
static void discard(enum fuse_log_level level, const char *fmt, va_list args)
{
}

struct fuse_session *serve_new(struct stage *s, const char *options)
{
	char *argv[] = { (char *)"diskwright", (char *)"-o", (char *)options, NULL };
	struct fuse_args args = FUSE_ARGS_INIT(3, argv);
	struct fuse_session *session;

	fuse_set_log_func(discard);
	session = fuse_session_new(&args, &serve_ops, sizeof(serve_ops), s);
	fuse_opt_free_args(&args);
	return session;
}

static void free_buffer(void *opaque)
{
	struct fuse_buf *buffer = opaque;

	free(buffer->mem);
}

/* libfuse's own loop ends only when the kernel sends something more; these
 * threads can be cancelled while they wait for a request, and only then. */
static void *worker(void *opaque)
{
	struct stage *s = opaque;
	struct fuse_buf buffer = { .mem = NULL };
	int r = 0;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cleanup_push(free_buffer, &buffer);
	while (!fuse_session_exited(s->session)) {
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
		r = fuse_session_receive_buf(s->session, &buffer);
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
		if (r > 0)
			fuse_session_process_buf(s->session, &buffer);
		else if (r != -EINTR)
			break;
	}
	pthread_cleanup_pop(1);
	return NULL;
}

int serve_start(struct stage *s)
{
	sigset_t all, before;
	int r = 0;

	/* Signals are for the program's own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (r == 0 && s->worker_count < STAGE_WORKERS) {
		r = pthread_create(&s->workers[s->worker_count], NULL, worker, s);
		if (r == 0)
			s->worker_count++;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return s->worker_count ? 0 : -r;
}

void serve_stop(struct stage *s)
{
	for (int i = 0; i < s->worker_count; i++)
		pthread_cancel(s->workers[i]);
	while (s->worker_count > 0)
		pthread_join(s->workers[--s->worker_count], NULL);
}
