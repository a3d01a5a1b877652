/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "output.h"

#define ALIGN_DEFAULT (1024 * 1024)
#define HELP_COLUMN 28

#define CHANGING "merge grow shrink remove journal"
#define RECOVERING "resume rollback undo forget"

enum option_id {
	OPT_HELP = 'h', OPT_VERBOSE = 'v', OPT_QUIET = 'q', OPT_DRY_RUN = 'n', OPT_YES = 'y',
	OPT_ABSORB = 256, OPT_TO, OPT_BY, OPT_MIN, OPT_SIZE, OPT_EXT_JOURNAL, OPT_JOURNAL, OPT_SHEET,
	OPT_REPAIR, OPT_ALIGN, OPT_SECTOR_SIZE, OPT_PROGRESS, OPT_JSON,
};

/* One row an option; COMMANDS: to which it belongs ("" all). */
static const struct option_row {
	enum option_id id;
	const char *name;
	char letter;
	const char *argument;
	const char *commands;
	const char *text;
} rows[] = {
	{ OPT_ABSORB, "absorb", 0, "M[,M...]", "merge", "take over partition M, or with \"free\" the free space behind" },
	{ OPT_TO, "to", 0, "SIZE", "grow shrink", "the size it shall have (10G, 50%, max)" },
	{ OPT_BY, "by", 0, "SIZE", "grow shrink", "by how much it shall grow or shrink" },
	{ OPT_MIN, "min", 0, NULL, "shrink", "as small as its content allows" },
	{ OPT_SIZE, "size", 0, "SIZE", "journal", "size of the new journal, in whole MiB" },
	{ OPT_EXT_JOURNAL, "ext-journal", 0, "rebuild|keep|auto", "merge grow shrink",
	  "take the ext3/4 journal away while resizing (auto: when the new size calls for another)" },
	{ OPT_REPAIR, "repair", 0, NULL, CHANGING, "let the rehearsal repair what needs a person's yes" },
	{ OPT_ALIGN, "align", 0, "SIZE|none", "merge grow shrink", "align new ends (default 1M)" },
	{ OPT_SHEET, "recovery-sheet", 0, "FILE", CHANGING, "first write down how to finish or go back by hand" },
	{ OPT_DRY_RUN, "dry-run", 'n', NULL, CHANGING, "rehearse in full, show the plan, write nothing" },
	{ OPT_YES, "yes", 'y', NULL, CHANGING, "do not ask" },
	{ OPT_JOURNAL, "journal", 0, "FILE", CHANGING " status " RECOVERING, "where the transaction's journal is (default: IMAGE.dwj, beside the image)" },
	{ OPT_SECTOR_SIZE, "sector-size", 0, "512|4096", "show check " CHANGING, "logical sector size of the image (default: found out)" },
	{ OPT_PROGRESS, "progress", 0, "auto|bar|json|none", CHANGING " resume rollback undo", "how progress is shown, on stderr" },
	{ OPT_JSON, "json", 0, NULL, "show check " CHANGING " status " RECOVERING, "the result as JSON on stdout" },
	{ OPT_VERBOSE, "verbose", 'v', NULL, "", "say more (show: exact bytes, whole UUIDs, GUIDs)" },
	{ OPT_QUIET, "quiet", 'q', NULL, "", "only errors, and what has to be answered" },
	{ OPT_HELP, "help", 'h', NULL, "", "this text" },
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static bool belongs(const struct option_row *row, const char *command)
{
	size_t length = strlen(command);

	if (!row->commands[0])
		return true;
	for (const char *p = row->commands; (p = strstr(p, command)); p += length)
		if ((p == row->commands || p[-1] == ' ') && (p[length] == ' ' || p[length] == '\0'))
			return true;
	return false;
}

/* ---- near misses -------------------------------------------------------- */

static size_t distance(const char *a, const char *b)
{
	size_t n = strlen(b), row[64];

	if (n >= 63)
		return 64;
	for (size_t j = 0; j <= n; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			size_t best = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[n];
}

const char *nearest(const char *word, const char *const *names, size_t count)
{
	const char *best = NULL;
	size_t least = strlen(word) / 3 + 2;

	for (size_t i = 0; i < count; i++)
		if (distance(word, names[i]) < least) {
			least = distance(word, names[i]);
			best = names[i];
		}
	return best;
}

/* ---- help --------------------------------------------------------------- */

void print_help(void)
{
	say("Usage: diskwright COMMAND [OPTIONS] DISK[:NUMBER]\n");
	say("\n");
	say_wrapped(0, "Changes partitions and filesystems of a disk image as one transaction: rehearsed in full "
		       "on a view, journaled, then executed. A crash at any instant loses nothing.");
	say("\n");
	for (const struct command *c = commands; c->name; c++)
		say("  %-10s %s\n", c->name, c->summary);
	say("\n");
	say_wrapped(0, "`diskwright COMMAND --help` says more; the manual is diskwright(8).");
}

static void print_option(const struct option_row *row)
{
	char left[64];

	if (row->letter)
		snprintf(left, sizeof(left), "  -%c, --%s", row->letter, row->name);
	else
		snprintf(left, sizeof(left), "      --%s", row->name);
	if (row->argument)
		snprintf(left + strlen(left), sizeof(left) - strlen(left), " %s", row->argument);
	say("%-*s", HELP_COLUMN, left);
	if (strlen(left) >= HELP_COLUMN) {
		say("\n");
		say("%*s", HELP_COLUMN, "");
	}
	say_wrapped(HELP_COLUMN, "%s", row->text);
}

void print_command_help(const struct command *command)
{
	say("Usage: diskwright %s [OPTIONS] %s\n", command->name, command->operands);
	say("\n");
	say_wrapped(0, "%s", command->description);
	say("\n");
	say("Options:\n");
	for (size_t i = 0; i < ROWS; i++)
		if (belongs(&rows[i], command->name))
			print_option(&rows[i]);
}

void print_all_options(void)
{
	for (const struct command *c = commands; c->name; c++)
		for (size_t i = 0; i < ROWS; i++)
			if (belongs(&rows[i], c->name))
				say("%s --%s\n", c->name, rows[i].name);
}

/* ---- parsing ------------------------------------------------------------ */

static int bad_value(const char *option, const char *value, const char *hint)
{
	print_error(NULL, "--%s: \"%s\" makes no sense", option, value);
	if (hint)
		print_hint("%s", hint);
	return DW_USAGE;
}

/* VALUE as one of WORDS ("a|b|c"): its index, or -1. */
static int word_index(const char *words, const char *value)
{
	size_t length = strlen(value);
	int index = 0;

	for (const char *p = words; *p; index++) {
		size_t n = strcspn(p, "|");

		if (n == length && strncmp(p, value, n) == 0)
			return index;
		p += n + (p[n] == '|');
	}
	return -1;
}

static int parse_absorb(char *list, struct options *o)
{
	char *save = NULL, *end;

	for (char *p = strtok_r(list, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
		long n = strtol(p, &end, 10); /* saturates */

		if (strcmp(p, "free") == 0) {
			o->absorb_free = true;
			continue;
		}
		if (*p < '0' || *p > '9' || *end || n < 1 || n > 128)
			return bad_value("absorb", p, "partition numbers, separated by commas, or \"free\"");
		if (o->absorb_count == DW_ABSORB_MAX) {
			print_error(NULL, "--absorb: more than %d partitions at once", DW_ABSORB_MAX);
			return DW_USAGE;
		}
		o->absorb[o->absorb_count++] = n;
	}
	return 0;
}

static int parse_size(const char *option, const char *value, struct dw_size *out)
{
	static const char hint[] = "a size is written as 512, 10M, 10MiB, 10MB, 1.5G, 50% or max";

	return dw_size_parse(value, out) < 0 ? bad_value(option, value, hint) : 0;
}

/* A plain number of bytes. */
static int parse_bytes(const char *option, const char *value, uint64_t *out)
{
	struct dw_size size;
	int r = parse_size(option, value, &size);

	if (r == 0 && (size.kind != DW_SIZE_BYTES || size.value == 0))
		r = bad_value(option, value, "a size such as 64M");
	*out = r == 0 ? size.value : 0;
	return r;
}

static int parse_align(const char *value, struct options *o)
{
	if (strcmp(value, "none") == 0) {
		o->align = 0;
		return 0;
	}
	if (parse_bytes("align", value, &o->align))
		return DW_USAGE;
	return o->align % 512 ? bad_value("align", value, "a multiple of 512 bytes, or none") : 0;
}

static int parse_word(const struct option_row *row, const char *value)
{
	int index = word_index(row->argument, value);

	if (index < 0) {
		print_error(NULL, "--%s: \"%s\" is none of %s", row->name, value, row->argument);
		return -DW_USAGE;
	}
	return index;
}

/* May change VALUE. */
static int set_option(const struct option_row *row, char *value, struct options *o)
{
	static const enum dw_ext_journal journals[] = { DW_EXT_JOURNAL_REBUILD, DW_EXT_JOURNAL_KEEP,
							DW_EXT_JOURNAL_AUTO };
	int index = 0;

	if (row->id == OPT_EXT_JOURNAL || row->id == OPT_SECTOR_SIZE || row->id == OPT_PROGRESS) {
		index = parse_word(row, value);
		if (index < 0)
			return -index;
	}
	switch (row->id) {
	case OPT_ABSORB: return parse_absorb(value, o);
	case OPT_TO: o->has_to = true; return parse_size("to", value, &o->to);
	case OPT_BY: o->has_by = true; return parse_size("by", value, &o->by);
	case OPT_MIN: o->min = true; break;
	case OPT_SIZE: return parse_bytes("size", value, &o->journal_size);
	case OPT_EXT_JOURNAL: o->ext_journal = journals[index]; break;
	case OPT_JOURNAL: o->journal = value; break;
	case OPT_SHEET: o->recovery_sheet = value; break;
	case OPT_REPAIR: o->repair = true; break;
	case OPT_ALIGN: return parse_align(value, o);
	case OPT_SECTOR_SIZE: o->sector_size = index ? 4096 : 512; break;
	case OPT_PROGRESS: o->progress = index; break;
	case OPT_JSON: o->json = true; break;
	case OPT_DRY_RUN: o->dry_run = true; break;
	case OPT_YES: o->yes = true; break;
	case OPT_VERBOSE: o->verbose++; break;
	case OPT_QUIET: o->quiet = true; break;
	case OPT_HELP: o->help = true; break;
	}
	return 0;
}

static int unknown_option(const struct command *command, const char *given)
{
	const char *names[ROWS], *near, *first = NULL, *second = NULL;
	size_t count = 0;

	for (size_t i = 0; i < ROWS; i++)
		if (belongs(&rows[i], command->name))
			names[count++] = rows[i].name;
	for (size_t i = 0; i < count && given[0] == '-' && given[1] == '-'; i++)
		if (strncmp(names[i], given + 2, strcspn(given + 2, "=")) == 0) {
			second = first;
			first = names[i];
		}
	if (second) {
		print_error(NULL, "%s: %s may be --%s or --%s", command->name, given, second, first);
		return DW_USAGE;
	}
	near = strncmp(given, "--", 2) == 0 ? nearest(given + 2, names, count) : NULL;
	print_error(NULL, "%s has no option %s", command->name, given);
	if (near)
		print_hint("did you mean --%s?", near);
	else
		print_hint("`diskwright %s --help` lists them", command->name);
	return DW_USAGE;
}

/* Append WORD, quoted for a shell where it needs to be. */
static char *append_word(char *p, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./:,@%^";

	if (word[0] && word[strspn(word, plain)] == '\0')
		return stpcpy(p, word);
	*p++ = '\'';
	for (; *word; word++)
		p = *word == '\'' ? stpcpy(p, "'\\''") : (*p = *word, p + 1);
	*p++ = '\'';
	*p = '\0';
	return p;
}

/* The command as it may be typed again. */
static char *join(int argc, char **argv)
{
	size_t length = 1;
	char *text, *p;

	for (int i = 0; i < argc; i++)
		length += 4 * strlen(argv[i]) + 3;
	text = p = malloc(length);
	for (int i = 0; text && i < argc; i++) {
		if (i)
			*p++ = ' ';
		p = append_word(p, argv[i]);
	}
	return text;
}

static const struct option_row *row_of(int id)
{
	for (size_t i = 0; i < ROWS; i++)
		if ((int)rows[i].id == id)
			return &rows[i];
	return NULL;
}

/* What getopt_long() did not like: C is its answer, GIVEN the word it stands at. */
static int bad_option(const struct command *command, int c, const char *given)
{
	char letter[3] = { '-', optopt, '\0' };

	if (c == ':') {
		print_error(NULL, "%s needs a value", given);
		return DW_USAGE;
	}
	if (optopt && row_of(optopt)) {
		print_error(NULL, "--%s takes no value", row_of(optopt)->name);
		return DW_USAGE;
	}
	return unknown_option(command, optopt ? letter : given);
}

static int check_operands(const struct command *command, const struct options *o)
{
	if (o->help || (o->operand_count >= command->min_operands &&
			(command->max_operands < 0 || o->operand_count <= command->max_operands)))
		return 0;
	print_error(NULL, "%s takes %s", command->name, command->operands);
	print_hint("`diskwright %s --help` says more", command->name);
	return DW_USAGE;
}

int options_parse(const struct command *command, int argc, char **argv, struct options *out)
{
	struct option longs[ROWS + 1] = { 0 };
	char shorts[2 * ROWS + 2] = ":", *p = shorts + 1;
	size_t n = 0;
	int c, r = 0;

	*out = (struct options){ .align = ALIGN_DEFAULT, .ext_journal = DW_EXT_JOURNAL_AUTO };
	out->typed = join(argc, argv);
	if (!out->typed) {
		print_error(NULL, "%s", strerror(ENOMEM));
		return DW_FAILED;
	}
	for (size_t i = 0; i < ROWS; i++) {
		if (!belongs(&rows[i], command->name))
			continue;
		longs[n++] = (struct option){ rows[i].name, rows[i].argument ? required_argument : no_argument,
					      NULL, rows[i].id };
		if (rows[i].letter)
			*p++ = rows[i].letter;
	}
	opterr = 0;
	optind = 1;
	while (r == 0 && (c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		if (c == ':' || c == '?')
			r = bad_option(command, c, argv[optind - 1]);
		else
			r = set_option(row_of(c), optarg, out);
	}
	out->operands = argv + optind;
	out->operand_count = argc - optind;
	return r ? r : check_operands(command, out);
}

void options_free(struct options *options)
{
	free(options->typed);
}
