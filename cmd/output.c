/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <langinfo.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "output.h"

#define WIDTH_DEFAULT 80
#define WIDTH_MIN 40
#define WIDTH_MAX 120
#define LINE_MAX_BYTES 8192

/* Where results go, and what can be shown there. */
static struct {
	FILE *stream;
	bool color, unicode;
	int width;
} screen;

static bool wants_color(int fd)
{
	const char *mode = getenv("DISKWRIGHT_COLOR"), *none = getenv("NO_COLOR"), *term = getenv("TERM");

	if (mode && strcmp(mode, "always") == 0)
		return true;
	if ((mode && strcmp(mode, "never") == 0) || (none && *none) || !term || strcmp(term, "dumb") == 0)
		return false;
	return isatty(fd);
}

void output_to(FILE *stream)
{
	struct winsize size;

	screen.stream = stream;
	screen.color = wants_color(fileno(stream));
	screen.unicode = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	screen.width = WIDTH_DEFAULT;
	if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col >= WIDTH_MIN)
		screen.width = size.ws_col < WIDTH_MAX ? size.ws_col : WIDTH_MAX;
}

bool output_unicode(void)
{
	return screen.unicode;
}

int output_width(void)
{
	return screen.width;
}

/* ---- text --------------------------------------------------------------- */

size_t utf8_decode(const char *text, uint32_t *code)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *p = (const unsigned char *)text;
	size_t length = p[0] < 0x80 ? p[0] != 0 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;

	*code = length > 1 ? p[0] & (0x7f >> length) : p[0];
	for (size_t i = 1; i < length; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (p[i] & 0x3f);
	}
	if (length && (*code < least[length] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000)))
		return 0;
	return length;
}

/* Cells that the character takes, -1 where it is not for a terminal. */
static int cells_of(uint32_t code)
{
	bool turns = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);

	if (code < 0x7f)
		return code < 0x20 ? -1 : 1;
	return turns || !screen.unicode ? -1 : wcwidth((wchar_t)code);
}

/* Print TEXT, '?' for what is not for a terminal, up to CELLS; cells printed. */
static int put_text(FILE *stream, const char *text, int cells)
{
	int used = 0;

	while (*text) {
		uint32_t code;
		size_t length = utf8_decode(text, &code);
		int width = length ? cells_of(code) : -1;

		if (used + (width < 0 ? 1 : width) > cells)
			break;
		if (width < 0)
			fputc(code == '\n' || code == '\t' ? ' ' : '?', stream);
		else
			fwrite(text, 1, length, stream);
		used += width < 0 ? 1 : width;
		text += length ? length : 1;
	}
	return used;
}

int text_cells(const char *text)
{
	int cells = 0;

	while (*text) {
		uint32_t code;
		size_t length = utf8_decode(text, &code);
		int width = length ? cells_of(code) : -1;

		cells += width < 0 ? 1 : width;
		text += length ? length : 1;
	}
	return cells;
}

int say_cells(const char *text, int cells)
{
	return put_text(screen.stream, text, cells);
}

static void put_line(FILE *stream, const char *fmt, va_list args)
{
	char line[LINE_MAX_BYTES];
	size_t length;
	bool ends;

	vsnprintf(line, sizeof(line), fmt, args);
	length = strlen(line);
	ends = length && line[length - 1] == '\n';
	if (ends)
		line[length - 1] = '\0';
	put_text(stream, line, LINE_MAX_BYTES);
	if (ends)
		fputc('\n', stream);
}

static void set_color(const char *sgr)
{
	if (screen.color)
		fprintf(screen.stream, "\033[%sm", sgr);
}

void say(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	put_line(screen.stream, fmt, args);
	va_end(args);
}

void output_style(enum style style)
{
	static const char *const sgr[] = { [STYLE_PLAIN] = "0", [STYLE_BOLD] = "1", [STYLE_DIM] = "2",
					   [STYLE_GOOD] = "32", [STYLE_WARNING] = "33", [STYLE_ERROR] = "1;31" };

	set_color(sgr[style]);
}

void say_styled(enum style style, const char *fmt, ...)
{
	va_list args;

	output_style(style);
	va_start(args, fmt);
	put_line(screen.stream, fmt, args);
	va_end(args);
	output_style(STYLE_PLAIN);
}

void say_wrapped(int column, const char *fmt, ...)
{
	int room = screen.width - column > 20 ? screen.width - column : 20, used = 0;
	char text[LINE_MAX_BYTES], *save = NULL;
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		int cells = text_cells(word);

		if (used && used + 1 + cells > room) {
			fprintf(screen.stream, "\n%*s", column, "");
			used = 0;
		} else if (used) {
			fputc(' ', screen.stream);
			used++;
		}
		used += say_cells(word, LINE_MAX_BYTES);
	}
	fputc('\n', screen.stream);
}

void print_error(const char *node, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "diskwright: ");
	if (node)
		put_text(stderr, node, LINE_MAX_BYTES);
	fprintf(stderr, "%s", node ? ": " : "");
	va_start(args, fmt);
	put_line(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
}

void print_hint(const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "diskwright: hint: ");
	va_start(args, fmt);
	put_line(stderr, fmt, args);
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

#define PIECES_MAX 256
#define LABEL_MAX 80

struct piece {
	const struct dw_node *node;
	int cells;
};

struct bar {
	struct piece pieces[PIECES_MAX];
	size_t count;
};

/* How the parts of a bar are drawn. */
enum glyph { EDGE, FLAT, CORNERS_TOP, CORNERS_BOTTOM = CORNERS_TOP + 3, USED = CORNERS_BOTTOM + 3, SOLID, HATCH };

static const char *glyph(int which)
{
	static const char *const unicode[] = { "│", "─", "┌", "┬", "┐", "└", "┴", "┘", "█", "▒", "╱" };
	static const char *const ascii[] = { "|", "-", "+", "+", "+", "+", "+", "+", "#", "=", "/" };

	return (screen.unicode ? unicode : ascii)[which];
}

/* Leaves by start: an extended partition is its content. */
static void collect(const struct dw_node *n, struct bar *bar)
{
	for (size_t i = 0; i < n->child_count; i++)
		collect(&n->children[i], bar);
	if (n->child_count == 0 && bar->count < PIECES_MAX)
		bar->pieces[bar->count++].node = n;
}

/* More pieces than fit: the smallest are not drawn. */
static void drop_smallest(struct bar *bar, size_t most)
{
	while (bar->count > most) {
		size_t least = 0;

		for (size_t i = 1; i < bar->count; i++)
			if (bar->pieces[i].node->length < bar->pieces[least].node->length)
				least = i;
		bar->count--;
		memmove(&bar->pieces[least], &bar->pieces[least + 1], (bar->count - least) * sizeof(bar->pieces[0]));
	}
}

/* To scale, but each piece can be seen: the widest make room for the narrowest. */
static void share_out(struct bar *bar, int room)
{
	double total = 0;
	int given = 0;

	for (size_t i = 0; i < bar->count; i++)
		total += bar->pieces[i].node->length;
	for (size_t i = 0; i < bar->count; i++) {
		double share = total > 0 ? bar->pieces[i].node->length / total : 1;

		bar->pieces[i].cells = share * room < 1 ? 1 : share * room;
		given += bar->pieces[i].cells;
	}
	while (given != room) {
		struct piece *widest = &bar->pieces[0];

		for (size_t i = 1; i < bar->count; i++)
			if (bar->pieces[i].cells > widest->cells)
				widest = &bar->pieces[i];
		widest->cells += given < room ? 1 : -1;
		given += given < room ? 1 : -1;
	}
}

static const char *color_of(const struct dw_node *n)
{
	static const struct { const char *type, *sgr; } rows[] = {
		{ "ext", "34" }, { "swap", "35" }, { "crypto_LUKS", "31" }, { "LVM", "33" }, { "vfat", "32" },
		{ "ntfs", "36" }, { "xfs", "94" }, { "btrfs", "94" }, { "reiserfs", "94" },
	};

	if (n->kind == DW_NODE_FREE)
		return "2";
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strncmp(n->content.type, rows[i].type, strlen(rows[i].type)) == 0)
			return rows[i].sgr;
	return "0";
}

/* The fullest of its labels that fits in CELLS. */
static void piece_label(const struct dw_node *n, int cells, char label[LABEL_MAX])
{
	const char *what = n->kind == DW_NODE_FREE ? "free" : n->kind == DW_NODE_EXTENDED ? "extended" : n->content.type;
	char size[DW_SIZE_TEXT], number[16] = "";

	dw_size_format(n->length, size);
	if (n->number)
		snprintf(number, sizeof(number), "%d", n->number);
	for (int i = 0; i < 4; i++) {
		const char *parts[] = { number, i < 2 ? what : "", i == 0 || i == 2 ? size : "" };

		label[0] = '\0';
		for (int k = 0; k < 3; k++)
			if (parts[k][0])
				snprintf(label + strlen(label), LABEL_MAX - strlen(label), "%s%s",
					 label[0] ? " " : "", parts[k]);
		if (text_cells(label) + 2 <= cells || (i == 3 && text_cells(label) <= cells))
			return;
	}
	label[0] = '\0';
}

static void draw_edge(const struct bar *bar, int corners)
{
	for (size_t i = 0; i < bar->count; i++) {
		fputs(glyph(corners + (i > 0)), screen.stream);
		for (int c = 0; c < bar->pieces[i].cells; c++)
			fputs(glyph(FLAT), screen.stream);
	}
	fprintf(screen.stream, "%s\n", glyph(corners + 2));
}

static void draw_label(const struct piece *p)
{
	char label[LABEL_MAX];
	int left;

	piece_label(p->node, p->cells, label);
	left = (p->cells - text_cells(label)) / 2;
	fprintf(screen.stream, "%*s", left, "");
	left += put_text(screen.stream, label, p->cells);
	fprintf(screen.stream, "%*s", p->cells - left, "");
}

/* Filled as far as the filesystem is; hatched where free, even where nobody knows. */
static void draw_fill(const struct piece *p)
{
	const struct dw_content *c = &p->node->content;
	double share = c->size && p->node->length ? (double)c->used / p->node->length : 0;
	int used = share * p->cells + 0.5, rest = ' ';

	if (c->size && used < 1)
		used = 1;
	if (used > p->cells)
		used = p->cells;
	if (p->node->kind == DW_NODE_FREE)
		rest = HATCH;
	else if (c->type[0] && !c->size)
		rest = SOLID;
	for (int i = 0; i < p->cells; i++)
		fputs(i < used ? glyph(USED) : rest == ' ' ? " " : glyph(rest), screen.stream);
}

void print_bar(const struct dw_node *disk, uint64_t whole)
{
	struct bar bar = { .count = 0 };
	int room, width;

	collect(disk, &bar);
	drop_smallest(&bar, (screen.width - 1) / 2);
	width = whole > disk->length ? screen.width * ((double)disk->length / whole) : screen.width;
	room = width - (int)bar.count - 1 > (int)bar.count ? width - (int)bar.count - 1 : (int)bar.count;
	share_out(&bar, room);
	draw_edge(&bar, CORNERS_TOP);
	for (int row = 0; row < 2; row++) {
		for (size_t i = 0; i < bar.count; i++) {
			fputs(glyph(EDGE), screen.stream);
			set_color(color_of(bar.pieces[i].node));
			if (row == 0)
				draw_label(&bar.pieces[i]);
			else
				draw_fill(&bar.pieces[i]);
			set_color("0");
		}
		fprintf(screen.stream, "%s\n", glyph(EDGE));
	}
	draw_edge(&bar, CORNERS_BOTTOM);
}
