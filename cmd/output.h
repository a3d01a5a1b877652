/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What people see: messages, bars, trees, progress. */
#ifndef CMD_OUTPUT_H
#define CMD_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

#include "options.h"

/* "diskwright: NODE: text" and "diskwright: hint: text", on stderr. */
void print_error(const char *node, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void print_hint(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Print REPORT's failure; returns the exit status. */
int print_failure(const char *node, const struct dw_report *report);

/* Colours: DISKWRIGHT_COLOR (always, never, auto), NO_COLOR, a terminal. */
void output_init(void);
bool output_color(void);
int output_width(void);

/* The bar to scale, then a line a node. */
void print_bar(const struct dw_node *disk);
void print_tree(const struct dw_node *disk, int verbose);

/* JSON (json.c) */
struct json_object;
struct json_object *json_of_tree(const struct dw_node *disk);
struct json_object *json_of_journal(const char *disk, const struct dw_journal_info *info);
/* Print OBJECT and drop it. */
void json_print(struct json_object *object);

/* A report that shows progress on stderr and stops on Ctrl-C. */
void progress_begin(struct dw_report *report, const struct options *options);
/* Wipe the bar. */
void progress_end(void);
bool progress_interrupted(void);

#endif
