/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What every unit test needs: cmocka and its required headers, in order. */
#ifndef UNIT_H
#define UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
