/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What is in a range of bytes, over libblkid.  No other file includes its
 * header.  Its first and last MiB are copied into a sparse memory file of the
 * same size and libblkid looks at that: any device layer can be probed, and
 * the disk is only ever read through the layers.
 */
#ifndef DW_PROBE_H
#define DW_PROBE_H

#include <stddef.h>
#include <stdint.h>

#include "diskwright/report.h"
#include "device/device.h"

#define PROBE_MAGICS 8

struct probe {
	char type[32];    /* libblkid's TYPE: "ext3", "swap", "crypto_LUKS", "LVM2_member", ...; "" unknown */
	char usage[16];   /* "filesystem", "crypto", "raid", "other"; "" unknown */
	char uuid[64];
	char label[256];
	char version[32];
	/* Where signatures stand, relative to the range (for guards). */
	struct { uint64_t offset; uint32_t length; } magics[PROBE_MAGICS];
	size_t magic_count;
	bool ambiguous;   /* libblkid found several contradicting types */
	/*
	 * No signature, but ext superblock backups that look valid were found
	 * (at the usual places for 1, 2 and 4 KiB blocks): byte offset of the
	 * first, 0 if none.
	 */
	uint64_t ext_backup;
	bool blank;       /* the looked-at areas are all zero */
};

/*
 * Probe DEV as a whole.  Facts beyond libblkid 2.38: a LUKS2 secondary header
 * found at an offset other than the one it names is not a header (swap with a
 * fragment of one is swap).  0 also when nothing is found; -EIO, -ENOMEM.
 */
int probe_device(struct device *dev, struct probe *out, struct dw_report *report);

#endif
