/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/export.h"
#include "diskwright/diskwright.h"

DW_EXPORT int dw_address_parse(const char *address, char **path, int *partition,
			       struct dw_report *report)
{
	const char *colon = strrchr(address, ':');
	char *end;
	long number;

	*path = NULL;
	*partition = 0;
	/* A file may well have a colon in its name. */
	if (!colon || access(address, F_OK) == 0) {
		*path = strdup(address);
		return *path ? 0 : dw_fail(report, DW_FAILED, ENOMEM, "%s", strerror(ENOMEM));
	}
	if (colon == address) {
		return dw_fail(report, DW_USAGE, EINVAL, "no disk is named before the colon");
	}
	if (strchr(colon, '/')) {
		dw_fail(report, DW_USAGE, ENOTSUP, "this release does not look into LVM or encrypted containers");
		dw_hint(report, "a partition is addressed as DISK:NUMBER");
		return -ENOTSUP;
	}
	errno = 0;
	number = strtol(colon + 1, &end, 10);
	if (!isdigit((unsigned char)colon[1]) || *end || errno || number < 1 || number > 128) {
		dw_fail(report, DW_USAGE, EINVAL, "\"%s\" is not a partition number", colon + 1);
		dw_hint(report, "a partition is addressed as DISK:NUMBER, with the number that `show` prints");
		return -EINVAL;
	}
	*path = strndup(address, colon - address);
	if (!*path)
		return dw_fail(report, DW_FAILED, ENOMEM, "%s", strerror(ENOMEM));
	*partition = number;
	return 0;
}
