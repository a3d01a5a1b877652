/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The commands and the options: two tables, from which parsing, --help and the
 * check of the man page derive.
 */
#ifndef CMD_OPTIONS_H
#define CMD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "diskwright/diskwright.h"

enum progress_mode { PROGRESS_AUTO, PROGRESS_BAR, PROGRESS_JSON, PROGRESS_NONE };

/* What was asked for, all commands' options together. */
struct options {
	bool dry_run, yes, json, repair, quiet, help, version;
	int verbose;
	bool min, has_to, has_by;
	struct dw_size to, by;
	uint64_t journal_size, align;
	uint32_t sector_size;
	int absorb[DW_ABSORB_MAX];
	size_t absorb_count;
	bool absorb_free;
	enum dw_ext_journal ext_journal;
	enum progress_mode progress;
	const char *journal, *recovery_sheet;
	char **operands;
	int operand_count;
	char *typed; /* command and arguments as typed */
};

struct command {
	const char *name;
	const char *operands;   /* for the usage line */
	const char *summary;    /* one line */
	const char *description;
	int min_operands, max_operands; /* -1: any number */
	int (*run)(const struct command *self, const struct options *options);
	int tag;                /* what distinguishes commands that share run() */
};

extern const struct command commands[];
const struct command *command_find(const char *name);

/*
 * Parse ARGV (ARGV[0]: the command) for COMMAND.  0, or the exit status with
 * the message printed.
 */
int options_parse(const struct command *command, int argc, char **argv, struct options *out);
void options_free(struct options *options);

void print_help(void);
void print_command_help(const struct command *command);
/* "command option" a line: for the check of the man page. */
void print_all_options(void);

/* The nearest of NAMES to WORD, or NULL when none is near. */
const char *nearest(const char *word, const char *const *names, size_t count);

#endif
