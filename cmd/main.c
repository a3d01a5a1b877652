/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "output.h"

const struct command commands[] = {
	{ "show", "DISK...", "what is on a disk: partitions, filesystems, free space",
	  "Draws the disk to scale and lists its partitions, free areas and filesystems.", 1, -1, run_show, 0 },
	{ "check", "DISK...", "what would stop or endanger an operation, with the remedy",
	  "Lists damage and risks on the disk, each with what can be done about it. "
	  "Exit status 1 when something would stop an operation.", 1, -1, run_check, 0 },
	{ "merge", "DISK:N --absorb M[,M...]", "a partition takes over its neighbours to the right",
	  "Partition N takes over its neighbours M, or free space behind it (--absorb free). "
	  "The filesystem in N keeps its UUID, label and files; what is in M is given up.", 1, 1, run_change, DW_MERGE },
	{ "grow", "DISK[:N]", "make a partition and its filesystem, or an image, larger",
	  "DISK:N grows into the free space behind it (default: all of it). "
	  "DISK makes the image itself longer (--to or --by), the GPT's backup moved.", 1, 1, run_change, DW_GROW },
	{ "shrink", "DISK[:N]", "make a filesystem and its partition, or an image, smaller",
	  "DISK:N shrinks the filesystem and its partition (--to, --by or --min). "
	  "DISK cuts the image behind its last partition, the GPT's backup moved.", 1, 1, run_change, DW_SHRINK },
	{ "remove", "DISK:N", "delete a partition",
	  "Deletes partition N. Its content stays until it is overwritten; `undo` brings it back.", 1, 1, run_change, DW_REMOVE },
	{ "journal", "DISK[:N] on|off|rebuild", "the ext3/4 journal",
	  "Makes the journal of an ext2/3/4 filesystem, takes it away, or makes it anew.", 2, 2, run_change, DW_JOURNAL },
	{ "status", "DISK...", "unfinished and undoable operations",
	  "Tells what was done and what `resume`, `rollback` or `undo` would do. "
	  "Exit status 4 when an operation is unfinished.", 1, -1, run_status, 0 },
	{ "resume", "DISK", "finish the unfinished operation",
	  "Finishes the operation that was interrupted.", 1, 1, run_recover, DW_RESUME },
	{ "rollback", "DISK", "take the unfinished operation back",
	  "Takes the interrupted operation back: the disk is as it was before.", 1, 1, run_recover, DW_ROLLBACK },
	{ "undo", "DISK", "take the last finished operation back",
	  "Takes the last finished operation back, byte for byte, as long as the disk has not "
	  "been changed since.", 1, 1, run_recover, DW_UNDO },
	{ "forget", "DISK", "drop the undo record",
	  "Removes the journal of the last finished operation; it cannot be undone any more.", 1, 1, run_recover, DW_FORGET },
	{ NULL, NULL, NULL, NULL, 0, 0, NULL, 0 },
};

const struct command *command_find(const char *name)
{
	for (const struct command *c = commands; c->name; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

static int unknown_command(const char *name)
{
	const char *names[32], *near;
	size_t count = 0;

	for (const struct command *c = commands; c->name; c++)
		names[count++] = c->name;
	near = nearest(name, names, count);
	print_error(NULL, "there is no command \"%s\"", name);
	if (near)
		print_hint("did you mean `diskwright %s`?", near);
	else
		print_hint("`diskwright --help` lists the commands");
	return DW_USAGE;
}

/* Before a command only --help and --version make sense. */
static int misplaced_option(const char *given)
{
	static const char *const names[] = { "--help", "--version" };
	const char *near = nearest(given, names, 2);

	print_error(NULL, "%s: the command comes first, then its options", given);
	if (near)
		print_hint("did you mean `diskwright %s`?", near);
	return DW_USAGE;
}

static int run_command(int argc, char **argv)
{
	const struct command *command = command_find(argv[0]);
	struct options options;
	int status;

	if (!command)
		return argv[0][0] == '-' ? misplaced_option(argv[0]) : unknown_command(argv[0]);
	status = options_parse(command, argc, argv, &options);
	if (status == 0 && options.help)
		print_command_help(command);
	else if (status == 0)
		status = command->run(command, &options);
	options_free(&options);
	return status;
}

static int dispatch(int argc, char **argv)
{
	const char *first = argc > 1 ? argv[1] : "";

	if (strcmp(first, "--version") == 0) {
		say("diskwright %s\n", dw_version());
		return 0;
	}
	if (strcmp(first, "--list-options") == 0) {
		print_all_options();
		return 0;
	}
	if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 || strcmp(first, "help") == 0) {
		const struct command *command = argc > 2 ? command_find(argv[2]) : NULL;

		if (argc > 2 && !command)
			return unknown_command(argv[2]);
		if (command)
			print_command_help(command);
		else
			print_help();
		return 0;
	}
	if (argc < 2) {
		print_error(NULL, "no command is given");
		print_hint("`diskwright --help` lists the commands");
		return DW_USAGE;
	}
	return run_command(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	int status, failed;

	setlocale(LC_ALL, "");
	output_to(stdout);
	status = dispatch(argc, argv);
	/* A full disk under the output is a failure too. */
	failed = ferror(stdout);
	if ((fclose(stdout) != 0 || failed) && status == 0) {
		print_error(NULL, "cannot write the output");
		status = DW_FAILED;
	}
	return status;
}
