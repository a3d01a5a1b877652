/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What people see: messages, bars, trees, progress.
 *
 * Labels, names and messages hold what stood on a disk.  All of it goes out
 * through say(), print_error() and their like, which let no control character
 * pass: a label cannot drive the terminal, or pretend to be another line.
 */
#ifndef CMD_OUTPUT_H
#define CMD_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

#include "options.h"

enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_GOOD, STYLE_WARNING, STYLE_ERROR };

/* Let say() and the bars go to STREAM; reads its terminal, the locale and DISKWRIGHT_COLOR, NO_COLOR. */
void output_to(FILE *stream);
bool output_unicode(void);
int output_width(void);
/* Switch to STYLE, where there are colours. */
void output_style(enum style style);

/* Print a line, or a part of one: a newline counts only as the last character. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void say_styled(enum style style, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Print at most CELLS columns of TEXT; the columns printed. */
int say_cells(const char *text, int cells);
/* Columns that TEXT takes. */
int text_cells(const char *text);
/* Print text broken into lines; the cursor stands at column COLUMN, as further lines will. */
void say_wrapped(int column, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* "diskwright: NODE: text" and "diskwright: hint: text", on stderr. */
void print_error(const char *node, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void print_hint(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Print REPORT's failure; returns the exit status. */
int print_failure(const char *node, const struct dw_report *report);

/* The bar, to scale; as wide as the screen where the disk has WHOLE bytes. */
void print_bar(const struct dw_node *disk, uint64_t whole);

/*
 * Decode one UTF-8 character of TEXT into *CODE; its length, or 0 where none
 * starts here (the end, or bytes that are no UTF-8).
 */
size_t utf8_decode(const char *text, uint32_t *code);

/* JSON (json.c) */
struct json_object;
struct json_object *json_of_text(const char *text);
struct json_object *json_of_tree(const struct dw_node *disk);
struct json_object *json_of_journal(const char *disk, const struct dw_journal_info *info);
struct json_object *json_of_finding(const struct dw_finding *finding);
struct json_object *json_of_plan(const struct dw_plan *plan);
struct json_object *json_of_failure(const char *node, const struct dw_report *report);
/* { NAME: LIST }, printed; drops LIST. */
void json_print_list(const char *name, struct json_object *list);
/* Print OBJECT and drop it. */
void json_print(struct json_object *object);

/* A report that shows progress on stderr and stops on Ctrl-C. */
void progress_begin(struct dw_report *report, const struct options *options);
/* Wipe the bar. */
void progress_end(void);
/* Read a line from the terminal; false at its end, or on Ctrl-C. */
bool progress_read_line(char *line, int size);

#endif
