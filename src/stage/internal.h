/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the stage's two halves share: stage.c mounts and keeps the files,
 * stage_fuse.c answers the kernel. */
#ifndef DW_STAGE_INTERNAL_H
#define DW_STAGE_INTERNAL_H

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdatomic.h>

#include "stage/stage.h"

#define STAGE_FILES 8
#define STAGE_NAME_MAX 64
#define STAGE_WORKERS 4

struct stage_file {
	fuse_ino_t inode;    /* 0: a free slot */
	struct device *dev;
	char name[STAGE_NAME_MAX];
	char *path;
	atomic_int error;    /* the first negative errno that a write met */
};

struct stage {
	char *directory;
	struct fuse_session *session;
	bool mounted;
	pthread_t workers[STAGE_WORKERS];
	int worker_count;
	/* The table of files: requests hold it for reading as long as they use
	 * a device, stage_show() and stage_hide() for writing. */
	pthread_rwlock_t lock;
	fuse_ino_t next;
	struct stage_file files[STAGE_FILES];
};

/* A new session that is not mounted yet; NULL on failure. */
struct fuse_session *serve_new(struct stage *stage, const char *options);

/* Answer requests in threads of their own.  0 or a negative errno. */
int serve_start(struct stage *stage);

/* End the threads; what is not answered by then never is. */
void serve_stop(struct stage *stage);

#endif
