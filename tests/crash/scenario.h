/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The operations under test: one row each.  An operation that is added to the
 * program is added here, and runs under every crash and fault test.
 */
#ifndef SCENARIO_H
#define SCENARIO_H

#include "diskwright/diskwright.h"

struct scenario {
	const char *name;
	const char *image;        /* which image tests/images/small.sh makes */
	struct dw_request request;
};

extern const struct scenario scenarios[];

#endif
