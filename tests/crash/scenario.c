/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario.h"

#define MIB (1024 * 1024ull)
#define OP(what, number) .operation = what, .partition = number, .align = MIB

const struct scenario scenarios[] = {
	{ "merge-logical", "mbr", { OP(DW_MERGE, 6), .absorb = { 7 }, .absorb_count = 1 } },
	{ "merge-two", "mbr", { OP(DW_MERGE, 6), .absorb = { 7, 8 }, .absorb_count = 2 } },
	{ "merge-free", "gpt", { OP(DW_MERGE, 2), .absorb_free = true } },
	{ "merge-rebuild", "mbr", { OP(DW_MERGE, 6), .absorb = { 7 }, .absorb_count = 1,
				    .ext_journal = DW_EXT_JOURNAL_REBUILD } },
	{ "merge-gpt", "gpt", { OP(DW_MERGE, 1), .absorb = { 2 }, .absorb_count = 1, .absorb_free = true } },
	{ "grow-gpt", "gpt", { OP(DW_GROW, 2), .size = { DW_SIZE_MAX, 0 } } },
	{ "grow-misplaced", "gpt-grown", { OP(DW_GROW, 2), .size = { DW_SIZE_MAX, 0 } } },
	{ "grow-4k", "gpt4k", { OP(DW_GROW, 1), .size = { DW_SIZE_MAX, 0 } } },
	{ "shrink-mbr", "mbr", { OP(DW_SHRINK, 1), .size = { DW_SIZE_BYTES, 5 * MIB } } },
	{ "shrink-min", "gpt", { OP(DW_SHRINK, 1), .size = { DW_SIZE_MIN, 0 } } },
	{ "remove-logical", "mbr", { OP(DW_REMOVE, 7) } },
	{ "remove-gpt", "gpt", { OP(DW_REMOVE, 1) } },
	{ "journal-off", "mbr", { OP(DW_JOURNAL, 6), .journal = DW_JOURNAL_OFF } },
	{ "journal-on", "mbr", { OP(DW_JOURNAL, 1), .journal = DW_JOURNAL_ON } },
	{ "journal-rebuild", "gpt", { OP(DW_JOURNAL, 1), .journal = DW_JOURNAL_REBUILD } },
	{ "image-grow", "gpt", { OP(DW_GROW, 0), .size = { DW_SIZE_BYTES, 40 * MIB } } },
	{ "image-shrink", "gpt", { OP(DW_SHRINK, 0), .size = { DW_SIZE_MIN, 0 } } },
	{ "image-shrink-mbr", "mbr-tail", { OP(DW_SHRINK, 0), .size = { DW_SIZE_MIN, 0 } } },
	{ "whole-grow", "whole", { OP(DW_GROW, 0), .size = { DW_SIZE_BYTES, 16 * MIB } } },
	{ "whole-shrink", "whole", { OP(DW_SHRINK, 0), .size = { DW_SIZE_MIN, 0 } } },
	{ .name = NULL },
};
