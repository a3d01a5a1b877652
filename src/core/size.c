/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/checked.h"
#include "core/export.h"
#include "diskwright/size.h"

static const char units[] = "KMGTPE";

/* The factor a unit stands for; 0 when it is none. */
static uint64_t unit_factor(const char *unit)
{
	const char *p = *unit ? strchr(units, toupper((unsigned char)*unit)) : NULL;
	uint64_t factor = 1, base;

	if (*unit == '\0' || strcmp(unit, "B") == 0)
		return 1;
	if (!p)
		return 0;
	if (unit[1] == '\0' || strcmp(unit + 1, "iB") == 0)
		base = 1024;
	else if (strcmp(unit + 1, "B") == 0)
		base = 1000;
	else
		return 0;
	for (const char *u = units; u <= p; u++)
		factor *= base;
	return factor;
}

/* Digits, at least one, up to *END. */
static int parse_digits(const char *text, const char **end, uint64_t *out)
{
	uint64_t value = 0;

	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	for (; isdigit((unsigned char)*text); text++)
		if (checked_mul(value, 10, &value) < 0 || checked_add(value, *text - '0', &value) < 0)
			return -ERANGE;
	*end = text;
	*out = value;
	return 0;
}

/* DIGITS[.DIGITS]UNIT, exactly: no floating point. */
static int parse_bytes(const char *text, uint64_t *out)
{
	unsigned __int128 sum, part = 0, scale = 1;
	uint64_t whole, factor;
	int r = parse_digits(text, &text, &whole);
	bool fraction = r == 0 && *text == '.';

	if (r < 0)
		return r;
	if (fraction && !isdigit((unsigned char)*++text))
		return -EINVAL;
	for (; isdigit((unsigned char)*text); text++) {
		if (scale > UINT64_MAX / 10)
			continue; /* finer than a byte of the largest unit */
		part = part * 10 + (*text - '0');
		scale *= 10;
	}
	factor = unit_factor(text);
	if (factor == 0 || (fraction && factor == 1))
		return -EINVAL;
	sum = (unsigned __int128)whole * factor + part * factor / scale;
	if (sum > UINT64_MAX)
		return -ERANGE;
	*out = sum;
	return 0;
}

DW_EXPORT int dw_size_parse(const char *text, struct dw_size *out)
{
	const char *end;

	*out = (struct dw_size){ DW_SIZE_BYTES, 0 };
	if (strcmp(text, "max") == 0 || strcmp(text, "min") == 0) {
		out->kind = text[1] == 'a' ? DW_SIZE_MAX : DW_SIZE_MIN;
		return 0;
	}
	if (parse_digits(text, &end, &out->value) == 0 && strcmp(end, "%") == 0) {
		out->kind = DW_SIZE_PERCENT;
		return out->value > 100 ? -ERANGE : 0;
	}
	if (*text == '+' || *text == '-')
		out->kind = *text++ == '+' ? DW_SIZE_PLUS : DW_SIZE_MINUS;
	return parse_bytes(text, &out->value);
}

DW_EXPORT const char *dw_size_format(uint64_t bytes, char text[DW_SIZE_TEXT])
{
	uint64_t factor = 1;
	int unit = -1, whole, tenths;

	while (bytes / factor >= 1024) {
		factor *= 1024;
		unit++;
	}
	whole = bytes / factor;
	tenths = bytes % factor * 10 / factor; /* below 2^60 * 10: fits */
	if (unit < 0)
		snprintf(text, DW_SIZE_TEXT, "%d B", whole);
	else if (tenths == 0)
		snprintf(text, DW_SIZE_TEXT, "%d %ciB", whole, units[unit]);
	else
		snprintf(text, DW_SIZE_TEXT, "%d.%d %ciB", whole, tenths, units[unit]);
	return text;
}
