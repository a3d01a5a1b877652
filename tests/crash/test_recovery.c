/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What recovery does with a disk that somebody used in between, with another
 * disk, and with a journal damaged in each of its parts.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plan/plan.h"
#include "simdisk.h"

#define MIB (1024 * 1024ull)

static struct {
	char directory[256], path[300];
	struct dw_plan *plan;
	uint8_t *old;
	uint64_t size;
	struct simdisk disk, journal;
	struct log log;
	size_t sealed, guarded, finished; /* events until then */
	struct log seen; /* what the runs since the last rewind did */
	bool wrote;
} w;

/* W.wrote: whether anything was written to the disk. */
static int go(bool backward, bool undo, struct dw_report *report, enum journal_state *state)
{
	struct log *before = w.disk.log;
	int r;

	if (!before)
		w.disk.log = &w.seen;
	r = sim_run(&w.disk, &w.journal, undo ? WAY_UNDO : backward ? WAY_ROLLBACK : WAY_RESUME, report, state);
	w.disk.log = before;
	w.wrote = false;
	for (size_t i = 0; i < w.seen.count; i++)
		w.wrote = w.wrote || (w.seen.list[i].op != SIM_SYNC && w.seen.list[i].op != SIM_READ);
	return r;
}

/* The media after the first COUNT events of the run. */
static void rewind_to(size_t count)
{
	sim_reset(&w.disk, w.size);
	sim_reset(&w.journal, w.plan->program.journal_size);
	w.disk.log = w.journal.log = NULL;
	log_free(&w.seen);
	for (size_t i = 0; i < count; i++)
		if (w.log.list[i].op != SIM_SYNC)
			sim_apply(w.log.list[i].medium ? &w.journal : &w.disk, &w.log.list[i], 0,
				  w.log.list[i].length);
}

static bool disk_is_old(void)
{
	for (uint64_t n = 0; n < w.size / SECTOR; n++)
		if (memcmp(sim_sector(&w.disk, n), w.old + n * SECTOR, SECTOR) != 0)
			return false;
	return true;
}

/* As a mount does: the superblock of partition 6 gets another mount count. */
static void mount_it(void)
{
	uint8_t count;
	uint64_t at = 14 * MIB + 1024 + 52;

	assert_int_equal(device_read(&w.disk.dev, &count, 1, at), 0);
	count += 7;
	assert_int_equal(device_write(&w.disk.dev, &count, 1, at), 0);
}

static int setup(void **state)
{
	const char *small = getenv("SMALL_SH"), *temporary = getenv("TMPDIR");
	struct dw_request request = { .operation = DW_MERGE, .partition = 6, .absorb = { 7 },
				      .absorb_count = 1, .align = MIB, .command = "merge" };
	struct dw_report report = { 0 };
	struct journal j;
	enum journal_state ended;
	char command[1200];
	int fd;

	snprintf(w.directory, sizeof(w.directory), "%s/dw-recovery-XXXXXX", temporary ? temporary : "/tmp");
	if (!mkdtemp(w.directory))
		return -1;
	snprintf(w.path, sizeof(w.path), "%s/disk.img", w.directory);
	snprintf(command, sizeof(command), "%s mbr %s", small ? small : "tests/images/small.sh", w.path);
	if (system(command) != 0)
		return -1;
	request.path = w.path;
	request.temporary = w.directory;
	if (dw_plan_make(&request, &w.plan, &report) < 0) {
		fprintf(stderr, "%s\n", report.message);
		exit(strstr(report.message, "FUSE") ? 77 : 1);
	}
	w.size = w.plan->disk.dev->size;
	fd = open(w.path, O_RDONLY);
	w.old = mmap(NULL, w.size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	sim_open(&w.disk, 0, w.old, w.size, w.size);
	sim_open(&w.journal, 1, NULL, 0, w.plan->program.journal_size);
	w.journal.dev.size = w.plan->program.journal_size;
	w.disk.log = w.journal.log = &w.log;
	if (program_seal(w.plan, &w.journal.dev, &j, &report) < 0)
		return -1;
	journal_release(&j);
	w.sealed = w.log.count;
	if (go(false, false, &report, &ended) < 0)
		return -1;
	w.finished = w.log.count;
	/* The guards are up after the disk's first sync. */
	for (w.guarded = w.sealed; w.log.list[w.guarded].op != SIM_SYNC || w.log.list[w.guarded].medium != 0;)
		w.guarded++;
	return 0;
}

static int teardown(void **state)
{
	dw_plan_free(w.plan);
	munmap(w.old, w.size);
	sim_close(&w.disk);
	sim_close(&w.journal);
	log_free(&w.log);
	log_free(&w.seen);
	unlink(w.path);
	rmdir(w.directory);
	return 0;
}

/* ---- somebody was faster ------------------------------------------------ */

static void a_mount_before_the_guards_cancels(void **state)
{
	for (int backward = 0; backward < 2; backward++) {
		struct dw_report report = { 0 };
		enum journal_state ended;
		uint8_t before[SECTOR];
		int r;

		rewind_to(w.sealed);
		mount_it();
		memcpy(before, sim_sector(&w.disk, (14 * MIB + 1024) / SECTOR), SECTOR);
		r = go(backward, false, &report, &ended);
		assert_int_equal(ended, JOURNAL_ROLLED_BACK);
		assert_int_equal(r, backward ? 0 : -ESTALE);
		assert_int_equal(report.status, backward ? DW_OK : DW_MISMATCH);
		assert_memory_equal(sim_sector(&w.disk, (14 * MIB + 1024) / SECTOR), before, SECTOR);
	}
}

static void a_mount_after_the_end_forbids_undo_only(void **state)
{
	struct dw_report report = { 0 };
	enum journal_state ended;

	rewind_to(w.finished);
	mount_it();
	assert_int_equal(go(true, true, &report, &ended), -ESTALE);
	assert_int_equal(report.status, DW_MISMATCH);
	assert_int_equal(ended, JOURNAL_DONE);
	assert_false(w.wrote);
}

static void a_write_into_the_new_space_forbids_undo(void **state)
{
	struct dw_report report = { 0 };
	enum journal_state ended;
	uint64_t at = 0;
	uint8_t byte;

	for (size_t i = 0; i < w.plan->program.count; i++)
		if (w.plan->program.changes[i].entry.kind == CONTENT_DATA)
			at = w.plan->program.changes[i].entry.offset;
	rewind_to(w.finished);
	assert_int_equal(device_read(&w.disk.dev, &byte, 1, at), 0);
	byte ^= 1;
	assert_int_equal(device_write(&w.disk.dev, &byte, 1, at), 0);
	assert_int_equal(go(true, true, &report, &ended), -ESTALE);
	assert_int_equal(report.status, DW_MISMATCH);
}

/* ---- another disk -------------------------------------------------------- */

static void another_disk_is_refused(void **state)
{
	for (size_t count = w.sealed; count <= w.finished; count++)
		for (int backward = 0; backward < 2; backward++) {
			struct dw_report report = { 0 };
			enum journal_state ended;
			uint8_t id[4] = { 1, 2, 3, 4 };

			rewind_to(count);
			assert_int_equal(device_write(&w.disk.dev, id, sizeof(id), 440), 0);
			assert_int_equal(go(backward, false, &report, &ended), -ESTALE);
			assert_int_equal(report.status, DW_MISMATCH);
			assert_false(w.wrote);
		}
}

static void a_disk_of_another_size_is_refused(void **state)
{
	struct dw_report report = { 0 };
	enum journal_state ended;

	rewind_to(w.guarded);
	w.disk.dev.size -= MIB;
	assert_int_equal(go(false, false, &report, &ended), -ESTALE);
	assert_int_equal(report.status, DW_MISMATCH);
}

/* ---- a damaged journal --------------------------------------------------- */

/* The number of events after which the journal first is in STATE. */
static size_t first_in(enum journal_state state)
{
	for (size_t count = w.sealed; count <= w.finished; count++) {
		struct journal j;
		bool there;

		rewind_to(count);
		there = journal_open(&w.journal.dev, &j, NULL) == 0 && j.header.state == state;
		journal_release(&j);
		if (there)
			return count;
	}
	fail_msg("no journal in that state");
	return 0;
}

/* Every sector of the journal in turn; half-way through and at the end. */
static void damage_is_noticed(void **state)
{
	size_t counts[] = { w.sealed, w.guarded + 3, first_in(JOURNAL_FINALIZING), w.finished };
	unsigned refused = 0, fine = 0;

	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
		for (uint64_t at = 0; at < w.plan->program.journal_size; at += SECTOR)
			for (int backward = 0; backward < 2; backward++) {
				struct dw_report report = { 0 };
				enum journal_state ended;
				uint8_t byte;
				int r;

				rewind_to(counts[c]);
				assert_int_equal(device_read(&w.journal.dev, &byte, 1, at + at / 7 % SECTOR), 0);
				byte ^= 0x10;
				assert_int_equal(device_write(&w.journal.dev, &byte, 1, at + at / 7 % SECTOR), 0);
				r = go(backward, false, &report, &ended);
				if (r == 0 && backward)
					assert_true(disk_is_old());
				if (r == 0) {
					fine++;
					continue;
				}
				refused++;
				assert_true(report.message[0] != '\0');
				assert_false(w.wrote);
			}
	assert_true(refused > 10);
	assert_true(fine > 10);
}

static void a_lost_newest_header_does_not_pass_off_half_a_disk(void **state)
{
	struct dw_report report = { 0 };
	enum journal_state ended;
	struct journal j;
	uint8_t junk[SECTOR];

	/* Just before FINALIZING: the newest header says RUNNING, the other SEALED. */
	for (size_t i = w.guarded; i < w.finished; i++) {
		rewind_to(i);
		assert_int_equal(journal_open(&w.journal.dev, &j, NULL), 0);
		bool running = j.header.state == JOURNAL_RUNNING && j.header.step == 1;
		int newest = j.newest;

		journal_release(&j);
		if (!running)
			continue;
		memset(junk, 0x5a, sizeof(junk));
		assert_int_equal(device_write(&w.journal.dev, junk, sizeof(junk), newest * JOURNAL_SLOT_SIZE), 0);
		memset(&report, 0, sizeof(report));
		if (go(true, false, &report, &ended) == 0)
			assert_true(disk_is_old());
		else
			assert_false(w.wrote);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mount_before_the_guards_cancels),
		cmocka_unit_test(a_mount_after_the_end_forbids_undo_only),
		cmocka_unit_test(a_write_into_the_new_space_forbids_undo),
		cmocka_unit_test(another_disk_is_refused),
		cmocka_unit_test(a_disk_of_another_size_is_refused),
		cmocka_unit_test(damage_is_noticed),
		cmocka_unit_test(a_lost_newest_header_does_not_pass_off_half_a_disk),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
