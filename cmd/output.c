/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <langinfo.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "output.h"

#define WIDTH_DEFAULT 80
#define WIDTH_MAX 120
#define LABEL_MAX 64

static bool use_color, use_unicode;
static int width;

void output_init(void)
{
	const char *mode = getenv("DISKWRIGHT_COLOR");
	struct winsize size;

	if (mode && strcmp(mode, "always") == 0)
		use_color = true;
	else if ((mode && strcmp(mode, "never") == 0) || (getenv("NO_COLOR") && *getenv("NO_COLOR")))
		use_color = false;
	else
		use_color = isatty(STDOUT_FILENO);
	use_unicode = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	width = WIDTH_DEFAULT;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40)
		width = size.ws_col < WIDTH_MAX ? size.ws_col : WIDTH_MAX;
}

bool output_color(void)
{
	return use_color;
}

int output_width(void)
{
	return width;
}

/* ---- messages ----------------------------------------------------------- */

void print_error(const char *node, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "diskwright: %s%s", node ? node : "", node ? ": " : "");
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
}

void print_hint(const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "diskwright: hint: ");
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
}

int print_failure(const char *node, const struct dw_report *report)
{
	print_error(node, "%s", report->message[0] ? report->message : "failed");
	if (report->hint[0])
		print_hint("%s", report->hint);
	return report->status == DW_OK ? DW_FAILED : report->status;
}

/* ---- the bar ------------------------------------------------------------ */

/* Colour of a piece by what is in it. */
static const char *color_of(const struct dw_node *n)
{
	static const struct { const char *type, *color; } rows[] = {
		{ "ext", "44;97" }, { "swap", "45;97" }, { "crypto_LUKS", "41;97" }, { "LVM", "43;30" },
		{ "vfat", "42;30" }, { "ntfs", "46;30" }, { "xfs", "44;97" }, { "btrfs", "44;97" },
	};

	if (n->kind == DW_NODE_FREE)
		return "100;37";
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strncmp(n->content.type, rows[i].type, strlen(rows[i].type)) == 0)
			return rows[i].color;
	return "47;30";
}

struct pieces {
	const struct dw_node *list[256];
	size_t count;
};

/* Leaves by start: an extended partition is its content. */
static void collect(const struct dw_node *n, struct pieces *p)
{
	for (size_t i = 0; i < n->child_count; i++) {
		const struct dw_node *c = &n->children[i];

		if (c->child_count > 0)
			collect(c, p);
		else if (p->count < sizeof(p->list) / sizeof(p->list[0]))
			p->list[p->count++] = c;
	}
}

static void piece_label(const struct dw_node *n, char *label)
{
	char size[DW_SIZE_TEXT];
	const char *what = n->kind == DW_NODE_FREE ? "free" : n->content.type[0] ? n->content.type : "";

	dw_size_format(n->length, size);
	if (n->kind == DW_NODE_FREE)
		snprintf(label, LABEL_MAX, "free %s", size);
	else if (n->kind == DW_NODE_DISK)
		snprintf(label, LABEL_MAX, "%s %s", what, size);
	else
		snprintf(label, LABEL_MAX, "%d %s%s%s", n->number, what, *what ? " " : "", size);
}

static void draw_piece(const struct dw_node *n, int cells)
{
	const char *fill = n->kind != DW_NODE_FREE ? " " : use_color ? " " : use_unicode ? "\u2591" : ".";
	char label[LABEL_MAX];
	int length, left;

	piece_label(n, label);
	if ((int)strlen(label) > cells)
		snprintf(label, sizeof(label), "%d", n->number);
	if ((int)strlen(label) > cells || (n->kind == DW_NODE_FREE && (int)strlen(label) < 2))
		label[0] = '\0';
	length = strlen(label);
	left = (cells - length) / 2;
	if (use_color)
		printf("\033[%sm", color_of(n));
	for (int i = 0; i < left; i++)
		fputs(fill, stdout);
	fputs(label, stdout);
	for (int i = left + length; i < cells; i++)
		fputs(fill, stdout);
	if (use_color)
		printf("\033[0m");
}

void print_bar(const struct dw_node *disk)
{
	struct pieces p = { .count = 0 };
	const char *edge = use_unicode ? "\u2502" : "|";
	int room, used = 0;

	collect(disk, &p);
	if (p.count == 0)
		p.list[p.count++] = disk;
	room = width - (int)p.count - 1;
	printf("%s", edge);
	for (size_t i = 0; i < p.count; i++) {
		uint64_t end = p.list[i]->start + p.list[i]->length;
		int to = disk->length ? (int)((unsigned __int128)end * room / disk->length) : 0;
		int cells = to - used;

		if (i == p.count - 1)
			cells = room - used;
		if (cells < 1)
			cells = 1;
		draw_piece(p.list[i], cells);
		printf("%s", edge);
		used += cells;
	}
	printf("\n");
}

/* ---- the tree ----------------------------------------------------------- */

static void print_remark(const char *color, const char *text)
{
	printf("%*s%s%s%s%s\n", 4, "", use_color ? "\033[" : "", use_color ? color : "", text,
	       use_color ? "\033[0m" : "");
}

static const char *kind_text(const struct dw_node *n)
{
	return n->kind == DW_NODE_FREE		? "free"
	       : n->kind == DW_NODE_EXTENDED	? "extended"
	       : n->content.type[0]		? n->content.type
						: "-";
}

static void print_node(const struct dw_node *n, int depth, int verbose)
{
	char size[DW_SIZE_TEXT], start[DW_SIZE_TEXT], used[DW_SIZE_TEXT], fill[48] = "";
	const struct dw_content *c = &n->content;

	if (c->size)
		snprintf(fill, sizeof(fill), "%s used", dw_size_format(c->used, used));
	printf("  %*s%-*s %10s %10s  %-11s %-15s %s\n", depth * 2, "", 30 - depth * 2, n->address,
	       dw_size_format(n->start, start), dw_size_format(n->length, size), kind_text(n), fill, c->label);
	if (c->uuid[0] && verbose)
		printf("%*sUUID %s\n", 4 + depth * 2, "", c->uuid);
	if (n->name[0] && verbose)
		printf("%*sname \"%s\"\n", 4 + depth * 2, "", n->name);
	if (n->guid[0] && verbose)
		printf("%*sGUID %s, type %s, attributes %016llx\n", 4 + depth * 2, "", n->guid, n->type_guid,
		       (unsigned long long)n->attributes);
	if (verbose)
		printf("%*sbytes %llu to %llu%s\n", 4 + depth * 2, "", (unsigned long long)n->start,
		       (unsigned long long)(n->start + n->length), n->boot ? ", boot flag" : "");
	if (n->mounted[0])
		print_remark("33m", n->mounted);
	if (c->guarded)
		print_remark("31m", "carries the guard of an unfinished operation: see `diskwright status`");
	else if (c->note[0])
		print_remark("33m", c->note);
	for (size_t i = 0; i < n->child_count; i++)
		print_node(&n->children[i], depth + 1, verbose);
}

void print_tree(const struct dw_node *disk, int verbose)
{
	char size[DW_SIZE_TEXT];

	printf("%s: %s (%llu bytes), %s%s%s, %u-byte sectors\n", disk->address,
	       dw_size_format(disk->length, size), (unsigned long long)disk->length,
	       strcmp(disk->table, "none") == 0 ? "no partition table" : disk->table,
	       disk->table_id[0] ? " " : "", disk->table_id, disk->sector_size);
	print_bar(disk);
	printf("  %-30s %10s %10s  %-11s %-15s %s\n", "node", "start", "size", "content", "", "label");
	if (disk->child_count == 0)
		print_node(disk, 0, verbose);
	for (size_t i = 0; i < disk->child_count; i++)
		print_node(&disk->children[i], 0, verbose);
	if (disk->defect[0])
		print_remark("31m", disk->defect);
}
