/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Facts about an ext2/3/4 filesystem.  The superblock is decoded here, field by
 * field, after it was found sane; libext2fs is asked only for what the inodes
 * know (the bad-block list, the journal's size), and does without where the
 * filesystem is damaged.
 */
#include <e2p/e2p.h>
#include <errno.h>
#include <string.h>

#include "bridge/extfs_io.h"
#include "core/bytes.h"

#define GUARD_BIT 0x80000000u
#define CSUM_TYPE_CRC32C 1
#define SIZE_MAX_BYTES ((uint64_t)INT64_MAX)

/* More entries in the bad-block list than this are not counted. */
#define BAD_BLOCKS_MAX 65536

/* Never used, and without a name in today's headers. */
#define RO_COMPAT_BTREE_DIR 4u

/* What blkid, too, takes the three names by. */
#define EXT2_ONLY_RO_COMPAT                                                        \
	(EXT2_FEATURE_RO_COMPAT_SPARSE_SUPER | EXT2_FEATURE_RO_COMPAT_LARGE_FILE | \
	 RO_COMPAT_BTREE_DIR)
#define EXT3_ONLY_INCOMPAT                                                   \
	(EXT2_FEATURE_INCOMPAT_FILETYPE | EXT3_FEATURE_INCOMPAT_RECOVER |    \
	 EXT2_FEATURE_INCOMPAT_META_BG)

/* libext2fs knows MMP; its header says so only to its own programs. */
#define KNOWN_INCOMPAT (EXT2_LIB_FEATURE_INCOMPAT_SUPP | EXT4_FEATURE_INCOMPAT_MMP)

static uint32_t compat(const uint8_t *super)
{
	return get32(SUPER_AT(super, s_feature_compat));
}

static uint32_t incompat(const uint8_t *super)
{
	return get32(SUPER_AT(super, s_feature_incompat));
}

static uint32_t ro_compat(const uint8_t *super)
{
	return get32(SUPER_AT(super, s_feature_ro_compat));
}

/* ---- checksum and guard ------------------------------------------------ */

static bool has_checksum(const uint8_t *super)
{
	return ro_compat(super) & EXT4_FEATURE_RO_COMPAT_METADATA_CSUM;
}

static uint32_t checksum(const uint8_t *super)
{
	return ext2fs_crc32c_le(~0u, super, offsetof(struct ext2_super_block, s_checksum));
}

static void set_incompat(uint8_t *super, uint32_t features)
{
	put32(SUPER_AT(super, s_feature_incompat), features);
	if (has_checksum(super))
		put32(SUPER_AT(super, s_checksum), checksum(super));
}

void extfs_super_guard(uint8_t *super)
{
	set_incompat(super, incompat(super) | GUARD_BIT);
}

bool extfs_super_is_guarded(const uint8_t *super)
{
	return get16(SUPER_AT(super, s_magic)) == EXT2_SUPER_MAGIC && (incompat(super) & GUARD_BIT);
}

/* ---- the superblock ----------------------------------------------------- */

static uint64_t low_high(const uint8_t *super, const uint8_t *low, const uint8_t *high)
{
	uint64_t value = get32(low);

	if (incompat(super) & EXT4_FEATURE_INCOMPAT_64BIT)
		value |= (uint64_t)get32(high) << 32;
	return value;
}

static uint64_t blocks_of(const uint8_t *super)
{
	return low_high(super, SUPER_AT(super, s_blocks_count), SUPER_AT(super, s_blocks_count_hi));
}

static bool is_power_of_two(uint32_t n)
{
	return n && (n & (n - 1)) == 0;
}

/* NULL, or which numbers are impossible. */
static const char *insane_sizes(const uint8_t *super, uint32_t block_size)
{
	uint32_t inode_size = EXT2_GOOD_OLD_INODE_SIZE;

	if (get32(SUPER_AT(super, s_rev_level)) > EXT2_DYNAMIC_REV)
		return "its revision is unknown";
	if (get32(SUPER_AT(super, s_rev_level)) == EXT2_DYNAMIC_REV)
		inode_size = get16(SUPER_AT(super, s_inode_size));
	if (!is_power_of_two(inode_size) || inode_size < EXT2_GOOD_OLD_INODE_SIZE ||
	    inode_size > block_size)
		return "its inode size is impossible";
	if (incompat(super) & EXT4_FEATURE_INCOMPAT_64BIT) {
		uint32_t desc_size = get16(SUPER_AT(super, s_desc_size));

		if (!is_power_of_two(desc_size) || desc_size < EXT2_MIN_DESC_SIZE_64BIT ||
		    desc_size > EXT2_MAX_DESC_SIZE)
			return "its group descriptor size is impossible";
	}
	if (get16(SUPER_AT(super, s_reserved_gdt_blocks)) > block_size / 4)
		return "it reserves too many descriptor blocks";
	return NULL;
}

/* Blocks and clusters in a group: a cluster bitmap is one block. */
static bool insane_groups(const uint8_t *super, uint32_t block_size)
{
	uint32_t log_block = get32(SUPER_AT(super, s_log_block_size));
	uint32_t log_cluster = log_block;
	uint32_t blocks = get32(SUPER_AT(super, s_blocks_per_group)), clusters;

	if (ro_compat(super) & EXT4_FEATURE_RO_COMPAT_BIGALLOC)
		log_cluster = get32(SUPER_AT(super, s_log_cluster_size));
	if (log_cluster < log_block ||
	    log_cluster > EXT2_MAX_CLUSTER_LOG_SIZE - EXT2_MIN_CLUSTER_LOG_SIZE)
		return true;
	clusters = blocks >> (log_cluster - log_block);
	if (clusters << (log_cluster - log_block) != blocks)
		return true;
	return clusters < 8 || clusters > block_size * 8 || clusters % 8;
}

static const char *insane_counts(const uint8_t *super, uint32_t block_size)
{
	uint64_t blocks = blocks_of(super), groups;
	uint32_t first = get32(SUPER_AT(super, s_first_data_block));
	uint32_t per_group = get32(SUPER_AT(super, s_inodes_per_group));

	if (first > 1 || (first == 1 && block_size != EXT2_MIN_BLOCK_SIZE))
		return "its first data block is impossible";
	if (blocks <= first || blocks > SIZE_MAX_BYTES / block_size)
		return "its block count is impossible";
	if (insane_groups(super, block_size))
		return "its group size is impossible";
	if (per_group == 0 || per_group > block_size * 8)
		return "its inodes per group are impossible";
	groups = (blocks - first - 1) / get32(SUPER_AT(super, s_blocks_per_group)) + 1;
	if (groups > UINT32_MAX / per_group ||
	    groups * per_group != get32(SUPER_AT(super, s_inodes_count)))
		return "its inode count does not fit its groups";
	return NULL;
}

static int super_check(const uint8_t *super, struct dw_report *report)
{
	uint32_t log_block = get32(SUPER_AT(super, s_log_block_size)), block_size;
	const char *insane;

	if (get16(SUPER_AT(super, s_magic)) != EXT2_SUPER_MAGIC)
		return dw_fail(report, DW_REFUSED, EINVAL, "is not an ext2, ext3 or ext4 filesystem");
	if (has_checksum(super) && (super[offsetof(struct ext2_super_block, s_checksum_type)] !=
					    CSUM_TYPE_CRC32C ||
				    checksum(super) != get32(SUPER_AT(super, s_checksum)))) {
		dw_fail(report, DW_REFUSED, EINVAL, "the superblock's checksum is wrong");
		dw_hint(report, "e2fsck can restore it from a backup superblock");
		return -EINVAL;
	}
	if (incompat(super) & EXT3_FEATURE_INCOMPAT_JOURNAL_DEV)
		return dw_fail(report, DW_REFUSED, EINVAL,
			       "is the external journal of another filesystem");
	if (log_block > EXT2_MAX_BLOCK_LOG_SIZE - EXT2_MIN_BLOCK_LOG_SIZE)
		return dw_fail(report, DW_REFUSED, EINVAL,
			       "the superblock contradicts itself: its block size is impossible");
	block_size = EXT2_MIN_BLOCK_SIZE << log_block;
	insane = insane_sizes(super, block_size);
	if (!insane)
		insane = insane_counts(super, block_size);
	if (insane)
		return dw_fail(report, DW_REFUSED, EINVAL, "the superblock contradicts itself: %s", insane);
	return 0;
}

int extfs_super_read(struct device *dev, uint8_t *super, bool *guarded, struct dw_report *report)
{
	int r;

	if (dev->size < EXTFS_SUPER_OFFSET + EXTFS_SUPER_SIZE)
		return dw_fail(report, DW_REFUSED, EINVAL, "is too small to hold a filesystem");
	r = device_read(dev, super, EXTFS_SUPER_SIZE, EXTFS_SUPER_OFFSET);
	if (r < 0)
		return dw_fail(report, DW_FAILED, -r, "cannot read the superblock: %s", strerror(-r));
	*guarded = extfs_super_is_guarded(super);
	r = super_check(super, report);
	if (r == 0 && *guarded)
		set_incompat(super, incompat(super) & ~GUARD_BIT);
	return r;
}

/* ---- the facts ---------------------------------------------------------- */

static void add_unknown(struct extfs *out, int set, uint32_t features, uint32_t known)
{
	size_t used = strlen(out->unknown_features);

	for (uint32_t bit = 1; bit; bit <<= 1) {
		if (!(features & ~known & bit) || used >= sizeof(out->unknown_features))
			continue;
		used += snprintf(out->unknown_features + used, sizeof(out->unknown_features) - used,
				 "%s%s", used ? " " : "", e2p_feature2string(set, bit));
	}
}

static void read_features(const uint8_t *super, struct extfs *out)
{
	uint32_t c = compat(super), i = incompat(super), ro = ro_compat(super);

	out->has_journal = c & EXT3_FEATURE_COMPAT_HAS_JOURNAL;
	out->resize_inode = c & EXT2_FEATURE_COMPAT_RESIZE_INODE;
	out->sparse_super2 = c & EXT4_FEATURE_COMPAT_SPARSE_SUPER2;
	out->stable_inodes = c & EXT4_FEATURE_COMPAT_STABLE_INODES;
	out->orphan_file = c & EXT4_FEATURE_COMPAT_ORPHAN_FILE;
	out->needs_recovery = i & EXT3_FEATURE_INCOMPAT_RECOVER;
	out->meta_bg = i & EXT2_FEATURE_INCOMPAT_META_BG;
	out->bit64 = i & EXT4_FEATURE_INCOMPAT_64BIT;
	out->mmp = i & EXT4_FEATURE_INCOMPAT_MMP;
	out->flex_bg = i & EXT4_FEATURE_INCOMPAT_FLEX_BG;
	out->bigalloc = ro & EXT4_FEATURE_RO_COMPAT_BIGALLOC;
	out->metadata_csum = ro & EXT4_FEATURE_RO_COMPAT_METADATA_CSUM;
	out->orphan_present = ro & EXT4_FEATURE_RO_COMPAT_ORPHAN_PRESENT;
	add_unknown(out, E2P_FEATURE_COMPAT, c, EXT2_LIB_FEATURE_COMPAT_SUPP);
	add_unknown(out, E2P_FEATURE_INCOMPAT, i, KNOWN_INCOMPAT);
	add_unknown(out, E2P_FEATURE_RO_INCOMPAT, ro, EXT2_LIB_FEATURE_RO_COMPAT_SUPP);
	strcpy(out->type, (ro & ~EXT2_ONLY_RO_COMPAT) || (i & ~EXT3_ONLY_INCOMPAT) ? "ext4" :
			  out->has_journal					     ? "ext3" :
										       "ext2");
}

static void read_state(const uint8_t *super, struct extfs *out)
{
	uint32_t state = get16(SUPER_AT(super, s_state));
	/* Since 1.46 these two have 40 bits. */
	uint64_t checked = get32(SUPER_AT(super, s_lastcheck)) |
			   (uint64_t)*SUPER_AT(super, s_lastcheck_hi) << 32;
	uint64_t mounted = get32(SUPER_AT(super, s_mtime)) |
			   (uint64_t)*SUPER_AT(super, s_mtime_hi) << 32;

	out->has_errors = state & EXT2_ERROR_FS;
	out->not_clean = !(state & EXT2_VALID_FS);
	out->needs_check_first = checked < mounted || get32(SUPER_AT(super, s_last_orphan)) ||
				 out->free_blocks > out->blocks || out->free_inodes > out->inodes;
	if (out->free_blocks > out->blocks)
		out->free_blocks = out->blocks;
	if (out->free_inodes > out->inodes)
		out->free_inodes = out->inodes;
}

static void uuid_text(const uint8_t *uuid, char text[37])
{
	const char *from = e2p_uuid2str((void *)uuid);

	/* libe2p's word for no UUID at all is "<none>". */
	snprintf(text, 37, "%s", from[0] == '<' ? "" : from);
}

static void read_super(const uint8_t *super, struct extfs *out)
{
	out->block_size = EXT2_MIN_BLOCK_SIZE << get32(SUPER_AT(super, s_log_block_size));
	out->blocks = blocks_of(super);
	out->free_blocks = low_high(super, SUPER_AT(super, s_free_blocks_count),
				    SUPER_AT(super, s_free_blocks_hi));
	out->inodes = get32(SUPER_AT(super, s_inodes_count));
	out->free_inodes = get32(SUPER_AT(super, s_free_inodes_count));
	out->blocks_per_group = get32(SUPER_AT(super, s_blocks_per_group));
	out->backup = get16(SUPER_AT(super, s_block_group_nr)) != 0;
	uuid_text(SUPER_AT(super, s_uuid), out->uuid);
	memcpy(out->label, SUPER_AT(super, s_volume_name), EXT2_LABEL_LEN);
	read_features(super, out);
	read_state(super, out);
	out->external_journal = out->has_journal && get32(SUPER_AT(super, s_journal_inum)) == 0;
	if (out->external_journal)
		uuid_text(SUPER_AT(super, s_journal_uuid), out->journal_uuid);
}

/* ---- what the inodes know ------------------------------------------------ */

/* Blocks that hold the list are counted against the limit, too. */
struct bad_count {
	uint64_t entries, looked_at;
};

static int count_bad(ext2_filsys fs, blk64_t *block, e2_blkcnt_t index, blk64_t ref, int offset,
		     void *opaque)
{
	struct bad_count *count = opaque;

	count->entries += index >= 0;
	return ++count->looked_at >= BAD_BLOCKS_MAX ? BLOCK_ABORT : 0;
}

static void read_bad_blocks(ext2_filsys fs, struct extfs *out)
{
	struct ext2_inode inode;
	struct bad_count count = { 0 };

	/* The list has always been a block map: an extent tree here is damage. */
	if (ext2fs_read_inode(fs, EXT2_BAD_INO, &inode) || (inode.i_flags & EXT4_EXTENTS_FL))
		return;
	if (ext2fs_block_iterate3(fs, EXT2_BAD_INO, BLOCK_FLAG_READ_ONLY, NULL, count_bad, &count) == 0)
		out->bad_blocks = count.entries;
}

static uint64_t journal_size(ext2_filsys fs, const uint8_t *super, const struct extfs *facts)
{
	struct ext2_inode inode;
	uint64_t size = 0;

	if (fs && ext2fs_read_inode(fs, get32(SUPER_AT(super, s_journal_inum)), &inode) == 0)
		size = EXT2_I_SIZE(&inode);
	else if (*SUPER_AT(super, s_jnl_backup_type) == EXT3_JNL_BACKUP_BLOCKS)
		size = get32(SUPER_AT(super, s_jnl_blocks[16])) |
		       (uint64_t)get32(SUPER_AT(super, s_jnl_blocks[15])) << 32;
	size /= facts->block_size;
	return size <= facts->blocks ? size : 0;
}

static void read_inodes(struct device *dev, const uint8_t *super, struct extfs *out)
{
	ext2_filsys fs;

	if (extfs_io_open(dev, super, &fs))
		fs = NULL;
	if (fs)
		read_bad_blocks(fs, out);
	if (out->has_journal && !out->external_journal)
		out->journal_blocks = journal_size(fs, super, out);
	if (fs)
		ext2fs_free(fs);
}

/*
 * Multiple mount protection: the block that the host which uses the
 * filesystem keeps changing (struct mmp_struct of libext2fs).  Whether it is
 * changing can be seen only by waiting, and not through a cache: whatever is
 * not the mark of a clean unmount counts as in use.
 */
static void read_mmp(struct device *dev, const uint8_t *super, struct extfs *out)
{
	uint64_t block = get32(SUPER_AT(super, s_mmp_block)) |
			 (uint64_t)get32(SUPER_AT(super, s_mmp_block) + 4) << 32;
	uint8_t mmp[offsetof(struct mmp_struct, mmp_check_interval)];

	if (!out->mmp || block >= out->blocks ||
	    device_read(dev, mmp, sizeof(mmp), block * out->block_size) < 0 ||
	    get32(mmp + offsetof(struct mmp_struct, mmp_magic)) != EXT4_MMP_MAGIC)
		return;
	out->mmp_in_use = get32(mmp + offsetof(struct mmp_struct, mmp_seq)) != EXT4_MMP_SEQ_CLEAN;
	memcpy(out->mmp_node, mmp + offsetof(struct mmp_struct, mmp_nodename), sizeof(out->mmp_node) - 1);
}

int extfs_read(struct device *dev, struct extfs *out, struct dw_report *report)
{
	uint8_t super[EXTFS_SUPER_SIZE];
	int r;

	memset(out, 0, sizeof(*out));
	r = extfs_super_read(dev, super, &out->guarded, report);
	if (r < 0)
		return r;
	read_super(super, out);
	read_inodes(dev, super, out);
	read_mmp(dev, super, out);
	return 0;
}

uint64_t extfs_default_journal(uint64_t blocks, uint32_t block_size)
{
	int size = ext2fs_default_journal_size(blocks);

	return size < 0 ? 0 : size;
}
