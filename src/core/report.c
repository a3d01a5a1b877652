/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <stdarg.h>
#include <stdio.h>

#include "core/export.h"
#include "diskwright/report.h"

DW_EXPORT int dw_fail(struct dw_report *r, enum dw_status status, int err, const char *fmt, ...)
{
	va_list args;

	if (r && r->message[0] == '\0') {
		r->status = status;
		va_start(args, fmt);
		vsnprintf(r->message, sizeof(r->message), fmt, args);
		va_end(args);
	}
	return -err;
}

DW_EXPORT void dw_hint(struct dw_report *r, const char *fmt, ...)
{
	va_list args;

	if (r && r->hint[0] == '\0') {
		va_start(args, fmt);
		vsnprintf(r->hint, sizeof(r->hint), fmt, args);
		va_end(args);
	}
}

DW_EXPORT void dw_note(struct dw_report *r, const char *fmt, ...)
{
	char line[1024];
	va_list args;

	if (r && r->note) {
		va_start(args, fmt);
		vsnprintf(line, sizeof(line), fmt, args);
		va_end(args);
		r->note(r->opaque, line);
	}
}

DW_EXPORT void dw_progress(struct dw_report *r, const char *phase, uint64_t done, uint64_t total,
			   bool bytes)
{
	struct dw_progress progress = { phase, done, total, bytes };

	if (r && r->progress)
		r->progress(r->opaque, &progress);
}

DW_EXPORT bool dw_interrupted(struct dw_report *r)
{
	return r && r->interrupted && r->interrupted(r->opaque);
}

DW_EXPORT void dw_report_clear(struct dw_report *r)
{
	if (r) {
		r->status = DW_OK;
		r->message[0] = '\0';
		r->hint[0] = '\0';
	}
}
