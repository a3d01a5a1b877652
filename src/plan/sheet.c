/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The recovery sheet: in plain words and numbers what will be where, so that
 * a person could finish, or take back, by hand with dd, sfdisk and xxd.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plan/plan.h"

static void print_table(FILE *f, const struct ptable *t, const char *when)
{
	static const char *const kinds[] = { "none", "mbr", "gpt" };

	fprintf(f, "\nPARTITION TABLE %s (%s, id %s, sectors of %u bytes)\n", when, kinds[t->type],
		t->id[0] ? t->id : "-", t->sector_size);
	fprintf(f, "  number  first sector  sectors        type\n");
	for (size_t i = 0; i < t->count; i++) {
		const struct partition *p = &t->partitions[i];

		fprintf(f, "  %-6d  %-12llu  %-13llu  ", p->number,
			(unsigned long long)(p->start / t->sector_size),
			(unsigned long long)(p->length / t->sector_size));
		if (t->type == PTABLE_GPT)
			fprintf(f, "%s guid %s name \"%s\" attributes %016llx\n", p->type_guid, p->guid, p->name,
				(unsigned long long)p->attributes);
		else
			fprintf(f, "%02x%s%s\n", p->mbr_type, p->boot ? " boot" : "", p->logical ? " logical" : "");
	}
}

/* In the form that `xxd -r` turns back into bytes at their place. */
static void print_bytes(FILE *f, uint64_t offset, const uint8_t *bytes, uint32_t length)
{
	for (uint32_t i = 0; i < length; i += 16) {
		fprintf(f, "  %08llx:", (unsigned long long)(offset + i));
		for (uint32_t k = i; k < i + 16 && k < length; k++)
			fprintf(f, "%s%02x", k % 2 ? "" : " ", bytes[k]);
		fprintf(f, "\n");
	}
}

static void print_guards(FILE *f, const struct program *p)
{
	for (uint32_t i = 0; i < p->guard_count; i++) {
		const struct guard *g = &p->guards[i];

		fprintf(f, "\nSUPERBLOCK at byte %llu, %u bytes. While the operation is under way a guard stands\n"
			"there. To put one back: save the lines to a file, then `xxd -r FILE IMAGE`.\n",
			(unsigned long long)g->offset, g->length);
		fprintf(f, " the old one:\n");
		print_bytes(f, g->offset, g->old, g->length);
		fprintf(f, " the new one:\n");
		print_bytes(f, g->offset, g->final, g->length);
	}
}

/*
 * Every range a step writes.  The new content stands in the journal's frames,
 * each payload behind a header of 64 bytes; its place is known beforehand.
 */
static int print_step(FILE *f, const struct dw_plan *plan, uint32_t k, const char *image,
		      const char *journal)
{
	const struct program *p = &plan->program;
	uint64_t frame = p->steps[k].body_offset, payload = 0;
	uint32_t entries = 0;

	fprintf(f, "\nSTEP %u: %s\n", k + 1, p->steps[k].name);
	for (size_t i = 0; i < p->count; i++) {
		const struct frame_entry *e = &p->changes[i].entry;
		uint64_t length = e->kind == CONTENT_DATA ? e->length : 0;

		if (p->changes[i].step != k)
			continue;
		if (entries == FRAME_ENTRIES || length > FRAME_PAYLOAD - payload) {
			frame += frame_stored_size(payload, entries);
			payload = entries = 0;
		}
		if (e->kind == CONTENT_DATA)
			fprintf(f, "  dd if=%s of=%s conv=notrunc iflag=skip_bytes,count_bytes oflag=seek_bytes "
				"skip=%llu seek=%llu count=%llu\n", journal, image,
				(unsigned long long)(frame + FRAME_HEADER_SIZE + payload),
				(unsigned long long)e->offset, (unsigned long long)e->length);
		else if (e->kind == CONTENT_ZERO)
			fprintf(f, "  fallocate --punch-hole --offset %llu --length %llu %s\n",
				(unsigned long long)e->offset, (unsigned long long)e->length, image);
		payload += length;
		entries++;
	}
	return 0;
}

static void print_sheet(FILE *f, const struct dw_plan *plan, const char *journal)
{
	const struct program *p = &plan->program;

	fprintf(f, "diskwright recovery sheet\n\nIMAGE      %s\nOPERATION  %s\nJOURNAL    %s (%llu bytes)\n"
		"LENGTH     %llu bytes before, %llu after\n", plan->disk.real, plan->command, journal,
		(unsigned long long)p->journal_size, (unsigned long long)plan->disk.dev->size,
		(unsigned long long)plan->new_size);
	fprintf(f, "\nAfter an interruption:  diskwright status %s\n"
		"to finish:              diskwright resume %s\n"
		"to take it back:        diskwright rollback %s\n"
		"The lines below are for a person without diskwright. The old content of every range is in the\n"
		"journal too, from byte %llu on, in the order of the ranges; each frame has a header of 64 bytes.\n",
		plan->disk.path, plan->disk.path, plan->disk.path,
		(unsigned long long)(p->step_count ? p->steps[0].undo_offset : 0));
	print_table(f, &plan->table, "BEFORE");
	print_table(f, &plan->after_table, "AFTER");
	print_guards(f, p);
	fprintf(f, "\nTO FINISH BY HAND: every step in order, then the new superblocks, then, where the length\n"
		"changes, `truncate --size %llu %s`.\n", (unsigned long long)plan->new_size, plan->disk.real);
	for (uint32_t k = 0; k < p->step_count; k++)
		print_step(f, plan, k, plan->disk.real, journal);
}

int sheet_write(struct dw_plan *plan, const char *path, const char *journal_path,
		struct dw_report *report)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), r = 0;
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

	if (!f) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		return dw_fail(report, DW_REFUSED, -r, "cannot write the recovery sheet %s: %s", path,
			       strerror(-r));
	}
	print_sheet(f, plan, journal_path);
	if (fflush(f) != 0 || ferror(f) || fsync(fd) < 0)
		r = dw_fail(report, DW_REFUSED, EIO, "cannot write the recovery sheet %s: %s", path,
			    strerror(errno));
	if (fclose(f) != 0 && r == 0)
		r = dw_fail(report, DW_REFUSED, EIO, "cannot write the recovery sheet %s", path);
	return r;
}
