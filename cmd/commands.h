/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef CMD_COMMANDS_H
#define CMD_COMMANDS_H

#include "options.h"

/* Each returns the exit status. */
int run_show(const struct command *self, const struct options *options);
int run_check(const struct command *self, const struct options *options);
int run_change(const struct command *self, const struct options *options);
int run_status(const struct command *self, const struct options *options);
int run_recover(const struct command *self, const struct options *options);

#endif
