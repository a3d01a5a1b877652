/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What is on a disk: the tree that `diskwright show` draws. */
#ifndef DISKWRIGHT_TREE_H
#define DISKWRIGHT_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diskwright/report.h"

enum dw_node_kind {
	DW_NODE_DISK,      /* the image or device */
	DW_NODE_PARTITION, /* a partition with its content */
	DW_NODE_EXTENDED,  /* an extended partition; its logicals and free areas are children */
	DW_NODE_FREE,      /* a free area (at least 1 MiB, or the whole gap for an unaligned disk) */
};

/* What the content of a node is.  Every number is in bytes. */
struct dw_content {
	char type[32];     /* "ext3", "swap", "crypto_LUKS", ...; "" unknown */
	char usage[16];    /* "filesystem", "crypto", "raid", "other"; "" unknown */
	char uuid[64], label[256], version[32];
	uint64_t size;     /* the filesystem's own size; 0 unknown */
	uint64_t used;     /* bytes in use; meaningful when size is known */
	bool clean;        /* nothing to replay or check, as far as known */
	bool guarded;      /* an unfinished operation's guard stands here */
	char note[256];    /* one remark for people: "needs recovery", "external journal", ... or "" */
};

struct dw_node {
	enum dw_node_kind kind;
	char *address;          /* "disk.img:6", "disk.img:free@7480573952"; owned */
	uint64_t start, length; /* bytes, on the disk */
	/* DW_NODE_DISK */
	char table[8];          /* "mbr", "gpt" or "none" */
	char table_id[37];
	uint32_t sector_size;
	char defect[512];       /* what is wrong with the table, in words; "" sound */
	/* DW_NODE_PARTITION, DW_NODE_EXTENDED */
	int number;
	bool logical, boot;
	uint8_t mbr_type;
	char type_guid[37], guid[37], name[128];
	uint64_t attributes;
	char mounted[256];      /* where it is mounted or what holds it; "" not in use */
	/* DW_NODE_PARTITION, and DW_NODE_DISK where table is "none" */
	struct dw_content content;

	struct dw_node *children; /* by start */
	size_t child_count;
};

/*
 * Read the tree of the disk or image at PATH without changing a byte.
 * SECTOR_SIZE 0: found out.  A damaged table gives a tree with `defect` set.
 * 0, or a negative errno with the message in REPORT.
 */
int dw_tree_read(const char *path, uint32_t sector_size, struct dw_node **out,
		 struct dw_report *report);

/* Frees the tree.  Accepts NULL. */
void dw_tree_free(struct dw_node *disk);

/* The node of partition NUMBER (also inside an extended one), or NULL. */
const struct dw_node *dw_tree_find(const struct dw_node *disk, int number);

#endif
