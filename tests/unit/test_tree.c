/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The tree is what sfdisk shows of a disk, with what dumpe2fs shows inside. */
#include <ctype.h>
#include <strings.h>
#include <sys/wait.h>

#include "diskwright/tree.h"
#include "image.h"

#define IMAGE "disk.img"

static struct dw_node *read_tree(void)
{
	struct dw_report report = { 0 };
	struct dw_node *tree;

	assert_int_equal(dw_tree_read(IMAGE, 0, &tree, &report), 0);
	assert_string_equal(report.message, "");
	return tree;
}

static void make_disk(uint64_t mib, const char *script)
{
	image_make(IMAGE, mib * IMAGE_MIB);
	assert_int_equal(image_run("printf '%s' | sfdisk -q " IMAGE, script), 0);
}

/* ---- compared with sfdisk ------------------------------------------------- */

/* The text behind "KEY": in the JSON object that begins at OBJECT; "" where there is none. */
static const char *json(const char *object, const char *key, char *value, size_t size)
{
	const char *end = strpbrk(object, "}"), *at;
	char quoted[64];

	snprintf(quoted, sizeof(quoted), "\"%s\":", key);
	at = strstr(object, quoted);
	value[0] = '\0';
	if (at && at < end) {
		at += strlen(quoted);
		at += strspn(at, " \"");
		snprintf(value, size, "%.*s", (int)strcspn(at, "\",\n}"), at);
	}
	return value;
}

static void same_text(const char *ours, const char *theirs)
{
	if (strcasecmp(ours, theirs) != 0)
		fail_msg("\"%s\" is not \"%s\"", ours, theirs);
}

static void same_partition(const struct dw_node *tree, const char *object, bool gpt)
{
	char value[128], address[64];
	const struct dw_node *node;
	const char *digits;
	int number;

	json(object, "node", value, sizeof(value));
	for (digits = value + strlen(value); isdigit((unsigned char)digits[-1]); digits--)
		;
	number = atoi(digits);
	node = dw_tree_find(tree, number);
	assert_non_null(node);
	snprintf(address, sizeof(address), IMAGE ":%d", number);
	assert_string_equal(node->address, address);
	assert_int_equal(node->start, strtoull(json(object, "start", value, sizeof(value)), NULL, 10) * 512);
	assert_int_equal(node->length, strtoull(json(object, "size", value, sizeof(value)), NULL, 10) * 512);
	json(object, "type", value, sizeof(value));
	if (gpt) {
		same_text(node->type_guid, value);
		same_text(node->guid, json(object, "uuid", value, sizeof(value)));
		same_text(node->name, json(object, "name", value, sizeof(value)));
	} else {
		assert_int_equal(node->mbr_type, strtoul(value, NULL, 16));
		assert_int_equal(node->boot, json(object, "bootable", value, sizeof(value))[0] == 't');
		assert_int_equal(node->logical, number > 4);
		assert_int_equal(node->kind, node->mbr_type == 5 ? DW_NODE_EXTENDED : DW_NODE_PARTITION);
	}
}

static size_t count_kind(const struct dw_node *node, bool free)
{
	size_t count = 0;

	for (size_t i = 0; i < node->child_count; i++)
		count += ((node->children[i].kind == DW_NODE_FREE) == free) +
			 count_kind(&node->children[i], free);
	return count;
}

/*
 * sfdisk leaves room for an EBR and aligns: is there a free area of ours that
 * begins at most 2 MiB before, and ends within a MiB and the sector that sfdisk counts too many?
 */
static bool has_free(const struct dw_node *node, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < node->child_count; i++) {
		const struct dw_node *c = &node->children[i];

		if (has_free(c, start, end))
			return true;
		if (c->kind == DW_NODE_FREE && c->start <= start && start - c->start < 2 * IMAGE_MIB &&
		    llabs((long long)(c->start + c->length - end)) <= (long long)IMAGE_MIB + 512)
			return true;
	}
	return false;
}

static void same_free_areas(const struct dw_node *tree)
{
	char text[4096], *save = NULL;
	size_t count = 0;

	assert_int_equal(image_run_into(text, sizeof(text), "sfdisk -F " IMAGE " | sed '1,/Start/d'"), 0);
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		unsigned long long start, end;

		if (sscanf(line, "%llu %llu", &start, &end) != 2)
			continue;
		count++;
		if (!has_free(tree, start * 512, (end + 1) * 512))
			fail_msg("no free area at %llu to %llu", start, end);
	}
	assert_int_equal(count_kind(tree, true), count);
}

/* Children lie in their parent, in order, and do not overlap. */
static void in_order(const struct dw_node *node)
{
	uint64_t end = node->start;

	for (size_t i = 0; i < node->child_count; i++) {
		const struct dw_node *c = &node->children[i];

		assert_true(c->start >= end);
		end = c->start + c->length;
		if (c->kind == DW_NODE_FREE) {
			char address[64];

			assert_true(c->length >= IMAGE_MIB);
			snprintf(address, sizeof(address), IMAGE ":free@%llu", (unsigned long long)c->start);
			assert_string_equal(c->address, address);
		}
		in_order(c);
	}
	assert_true(end <= node->start + node->length);
}

static void same_as_sfdisk(const struct dw_node *tree, bool gpt)
{
	char text[16384], value[128];
	size_t count = 0;

	assert_int_equal(image_run_into(text, sizeof(text), "sfdisk -J " IMAGE), 0);
	same_text(tree->table, gpt ? "gpt" : "mbr");
	json(text, "id", value, sizeof(value));
	same_text(tree->table_id, gpt ? value : value + 2);
	for (char *p = text; (p = strstr(p, "\"node\":")); p++, count++)
		same_partition(tree, p, gpt);
	assert_int_equal(count_kind(tree, false), count);
	assert_string_equal(tree->defect, "");
	assert_string_equal(tree->address, IMAGE);
	assert_int_equal(tree->sector_size, 512);
	in_order(tree);
	same_free_areas(tree);
}

static void mbr_with_logicals(void **state)
{
	static const char *const scripts[] = {
		"label: dos\nlabel-id: 0x11223344\n1: start=2048,size=64M,type=83,bootable\n"
		"2: start=200M,size=250M,type=5\n5: size=40M\n6: start=300M,size=30M,type=82\n",
		"label: dos\n1: start=63,size=204737,type=7\n2: start=204800,type=5\n"
		"5: start=204863,size=100000\n6: start=304926,size=100000\n",
		"label: dos\n1: start=100M,size=100M,type=5\n2: start=400M\n",
		"label: dos\n",
	};

	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
		struct dw_node *tree;

		make_disk(512, scripts[i]);
		tree = read_tree();
		same_as_sfdisk(tree, false);
		dw_tree_free(tree);
	}
}

static void gpt(void **state)
{
	static const char *const scripts[] = {
		"label: gpt\n1: start=1M,size=64M,name=root\n3: start=128M,size=100M,type=S,attrs=LegacyBIOSBootable\n",
		"label: gpt\n",
		"label: gpt\nstart=1M\n",
	};

	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
		struct dw_node *tree;

		make_disk(512, scripts[i]);
		tree = read_tree();
		same_as_sfdisk(tree, true);
		dw_tree_free(tree);
	}
}

/* ---- content ---------------------------------------------------------------- */

#define P1 (1 * IMAGE_MIB)
#define P2 (101 * IMAGE_MIB)

/* Two partitions of 100 MiB; the first holds what mke2fs makes with OPTIONS of so many MiB. */
static struct dw_node *two_partitions(const char *options, unsigned mib, const char *request)
{
	make_disk(256, "label: gpt\\n1: start=1M,size=100M\\n2: start=101M,size=100M\\n");
	assert_int_equal(image_run("mke2fs -q -F -E offset=%llu %s " IMAGE " %uM >/dev/null 2>&1", P1, options,
				   mib),
			 0);
	if (request[0])
		assert_int_equal(image_run("debugfs -w -R '%s' '" IMAGE "?offset=%llu' >/dev/null 2>&1",
					   request, P1),
				 0);
	return read_tree();
}

static void expect_note(const char *options, unsigned mib, const char *request, const char *note, bool clean)
{
	struct dw_node *tree = two_partitions(options, mib, request);
	const struct dw_content *c = &dw_tree_find(tree, 1)->content;

	if (strncmp(c->note, note, strlen(note)) != 0 || (!note[0] && c->note[0]))
		fail_msg("the note is \"%s\", not \"%s\"", c->note, note);
	assert_int_equal(c->clean, clean);
	dw_tree_free(tree);
}

static void remarks_on_filesystems(void **state)
{
	expect_note("-t ext4", 100, "", "", true);
	expect_note("-t ext4", 90, "", "smaller than its partition, by 10", true);
	expect_note("-t ext4", 120, "", "larger than its partition, by 20", true);
	expect_note("-t ext4", 100, "ssv state 0", "not clean", false);
	expect_note("-t ext4", 100, "ssv state 3", "has errors", false);
	expect_note("-t ext4", 100, "feature needs_recovery", "needs recovery", false);
	expect_note("-t ext4 -O ^has_journal", 100, "feature has_journal", "external journal", true);
	expect_note("-t ext4 -O orphan_file", 100, "feature orphan_present", "orphaned files", false);
}

static void content_of_partitions(void **state)
{
	struct dw_node *tree = two_partitions("-t ext3 -b 1024 -L data", 100, "");
	const struct dw_content *c;
	char text[8192], value[64];
	uint64_t blocks, free;

	c = &dw_tree_find(tree, 1)->content;
	assert_string_equal(c->type, "ext3");
	assert_string_equal(c->usage, "filesystem");
	assert_string_equal(c->label, "data");
	assert_int_equal(image_run_into(text, sizeof(text), "dumpe2fs -h '" IMAGE "?offset=1048576' 2>/dev/null"),
			 0);
	assert_string_equal(c->uuid, image_value(text, "Filesystem UUID:", value, sizeof(value)));
	blocks = strtoull(image_value(text, "Block count:", value, sizeof(value)), NULL, 10);
	free = strtoull(image_value(text, "Free blocks:", value, sizeof(value)), NULL, 10);
	assert_int_equal(c->size, blocks * 1024);
	assert_int_equal(c->used, (blocks - free) * 1024);
	c = &dw_tree_find(tree, 2)->content;
	assert_string_equal(c->type, "");
	assert_string_equal(c->note, "");
	dw_tree_free(tree);

	/* swap in the second; the first one's superblock is lost. */
	assert_int_equal(image_run("truncate -s 100M s && mkswap -q -L sw s && "
				   "dd if=s of=" IMAGE " bs=1M seek=101 conv=notrunc status=none && "
				   "dd if=/dev/zero of=" IMAGE " bs=1M seek=1 count=1 conv=notrunc status=none"),
			 0);
	tree = read_tree();
	c = &dw_tree_find(tree, 2)->content;
	assert_string_equal(c->type, "swap");
	assert_string_equal(c->label, "sw");
	assert_int_equal(c->size, 0);
	c = &dw_tree_find(tree, 1)->content;
	assert_string_equal(c->type, "");
	assert_non_null(strstr(c->note, "backup superblock at byte 8389632"));
	dw_tree_free(tree);
}

static void a_damaged_superblock_is_named(void **state)
{
	struct dw_node *tree;

	dw_tree_free(two_partitions("-t ext4", 100, ""));
	image_write(IMAGE, "X", 1, P1 + 1024 + 0x78);
	tree = read_tree();
	assert_non_null(strstr(dw_tree_find(tree, 1)->content.note, "checksum"));
	dw_tree_free(tree);
}

/* The image was cut short: the last partition goes on behind its end. */
static void a_partition_past_the_end(void **state)
{
	struct dw_node *tree;

	make_disk(160, "label: dos\\n1: start=36M,size=124M,type=83\\n");
	assert_int_equal(image_run("mke2fs -q -F -t ext4 -E offset=%llu " IMAGE " 124M", 36 * IMAGE_MIB), 0);
	assert_int_equal(truncate(IMAGE, 150 * IMAGE_MIB), 0);
	tree = read_tree();
	assert_string_not_equal(tree->defect, "");
	assert_string_equal(dw_tree_find(tree, 1)->content.type, "ext4");
	assert_non_null(strstr(dw_tree_find(tree, 1)->content.note, "10"));
	assert_non_null(strstr(dw_tree_find(tree, 1)->content.note, "beyond the end"));
	dw_tree_free(tree);
	assert_int_equal(truncate(IMAGE, 30 * IMAGE_MIB), 0);
	tree = read_tree();
	assert_string_equal(dw_tree_find(tree, 1)->content.type, "");
	dw_tree_free(tree);
}

static void no_table(void **state)
{
	struct dw_node *tree;

	image_make(IMAGE, 64 * IMAGE_MIB);
	assert_int_equal(image_run("mke2fs -q -F -t ext4 -L whole " IMAGE), 0);
	tree = read_tree();
	assert_string_equal(tree->table, "none");
	assert_int_equal(tree->child_count, 0);
	assert_int_equal(tree->length, 64 * IMAGE_MIB);
	assert_string_equal(tree->content.type, "ext4");
	assert_string_equal(tree->content.label, "whole");
	assert_int_equal(tree->content.size, 64 * IMAGE_MIB);
	assert_null(dw_tree_find(tree, 1));
	dw_tree_free(tree);
	dw_tree_free(NULL);
}

static void what_cannot_be_opened(void **state)
{
	struct dw_report report = { 0 };
	struct dw_node *tree;

	assert_true(dw_tree_read("missing", 0, &tree, &report) < 0);
	assert_null(tree);
	assert_string_not_equal(report.message, "");
}

/* Looking changes nothing. */
static void leaves_every_byte(void **state)
{
	dw_tree_free(two_partitions("-t ext4", 100, "feature needs_recovery"));
	assert_int_equal(image_run("sha256sum " IMAGE " >sum; touch -d '2001-01-01 UTC' " IMAGE), 0);
	dw_tree_free(read_tree());
	assert_int_equal(image_run("sha256sum --quiet -c sum && [ $(stat -c %%Y " IMAGE ") = 978307200 ]"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mbr_with_logicals),
		cmocka_unit_test(gpt),
		cmocka_unit_test(remarks_on_filesystems),
		cmocka_unit_test(content_of_partitions),
		cmocka_unit_test(a_damaged_superblock_is_named),
		cmocka_unit_test(a_partition_past_the_end),
		cmocka_unit_test(no_table),
		cmocka_unit_test(what_cannot_be_opened),
		cmocka_unit_test(leaves_every_byte),
	};

	return cmocka_run_group_tests(tests, image_directory_make, image_directory_remove);
}
