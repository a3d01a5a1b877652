/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The fault test: the i-th call fails, for i = 1, 2, 3 ... until a run goes
 * through untouched.
 *
 * In "media" mode the calls are the interpreter's reads, writes and syncs of
 * disk and journal, on simulated media: afterwards the disk is old or new, or
 * `resume` makes it new and `rollback` old, whether or not the unsynced writes
 * were lost with the error.
 *
 * In "program" mode the calls are the library's system calls and allocations
 * while it plans and executes on a real image: the exit status and the
 * message must be true.
 *
 * usage: fault [-e EVERY] media|program SMALL_SH [SCENARIO...]
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "plan/plan.h"
#include "scenario.h"
#include "simdisk.h"

enum { DISK, JOURNAL, MEDIA };

static unsigned long runs, failures;

static void fail(const struct scenario *s, long i, const char *fault, const char *what, const char *message)
{
	if (failures++ < 20)
		fprintf(stderr, "FAIL %s, call %ld (%s): %s: %s\n", s->name, i, fault, what, message);
}

static uint8_t *load(const char *path, uint64_t *size)
{
	struct stat st;
	int fd = open(path, O_RDONLY);
	uint8_t *p;

	if (fd < 0 || fstat(fd, &st) < 0)
		abort();
	*size = st.st_size;
	p = mmap(NULL, *size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		abort();
	return p;
}

static int make_image(const struct scenario *s, const char *small, const char *path)
{
	char command[1200];

	snprintf(command, sizeof(command), "%s %s %s", small, s->image, path);
	return system(command);
}

static int make_plan(const struct scenario *s, const char *path, const char *dir, struct dw_request *request,
		     struct dw_plan **plan, struct dw_report *report)
{
	*request = s->request;
	request->path = path;
	request->temporary = dir;
	request->command = s->name;
	return dw_plan_make(request, plan, report);
}

/* ---- media -------------------------------------------------------------- */

struct fault_kind {
	const char *name;
	int error;
	bool from_here_on;
};

static const struct fault_kind kinds[] = {
	{ "EIO once", -EIO, false },
	{ "EIO from here on", -EIO, true },
	{ "ENOSPC once", -ENOSPC, false },
	{ "ENOMEM once", -ENOMEM, false },
	{ "EROFS from here on", -EROFS, true },
	{ "ENODEV from here on", -ENODEV, true },
};

struct expected {
	uint64_t old_size, new_size;
	uint8_t *new;
	const uint8_t *old;
	uint64_t *differing;  /* sectors in which old and new differ */
	size_t differing_count;
};

static void find_differing(struct expected *e)
{
	uint64_t common = e->old_size < e->new_size ? e->old_size : e->new_size;
	static const uint8_t zeros[SECTOR];

	e->differing = calloc(e->new_size / SECTOR + 1, sizeof(*e->differing));
	for (uint64_t n = 0; n < e->new_size / SECTOR; n++)
		if (memcmp(e->new + n * SECTOR, n < common / SECTOR ? e->old + n * SECTOR : zeros, SECTOR) != 0)
			e->differing[e->differing_count++] = n;
}

static bool sector_is(const struct simdisk *d, uint64_t n, const uint8_t *want)
{
	return (n + 1) * SECTOR > d->dev.size || memcmp(sim_sector(d, n), want + n * SECTOR, SECTOR) == 0;
}

/* Only what was written, and what should have been, can be wrong. */
static bool disk_is(const struct simdisk *d, const struct expected *e, bool new)
{
	const uint8_t *want = new ? e->new : e->old;

	if (d->dev.size != (new ? e->new_size : e->old_size))
		return false;
	for (size_t i = 0; i < d->dirty_count; i++)
		if (!sector_is(d, d->dirty[i], want))
			return false;
	for (size_t i = 0; new && i < e->differing_count; i++)
		if (!sector_is(d, e->differing[i], want))
			return false;
	return true;
}

/* What the medium holds if everything unsynced went with the error. */
static void replay(struct simdisk *media, const struct log *log, const uint64_t sizes[MEDIA], bool lost)
{
	for (int m = 0; m < MEDIA; m++) {
		size_t last = log->count;

		sim_reset(&media[m], sizes[m]);
		media[m].log = NULL;
		media[m].countdown = NULL;
		for (size_t i = 0; lost && i < log->count; i++)
			if (log->list[i].medium == m && log->list[i].op == SIM_SYNC)
				last = i;
		if (lost && last == log->count)
			last = 0;
		for (size_t i = 0; i < last; i++)
			if (log->list[i].medium == m && log->list[i].op != SIM_SYNC)
				sim_apply(&media[m], &log->list[i], 0, log->list[i].length);
	}
}

/* Seal, with what can fail, and execute; true when the fault was not met. */
static bool media_once(const struct scenario *s, struct dw_plan *plan, struct simdisk *media,
		       const struct expected *e, const struct fault_kind *kind, long i)
{
	const uint64_t sizes[MEDIA] = { e->old_size, plan->program.journal_size };
	struct program sealed = plan->program;
	struct dw_report report = { 0 };
	struct log log = { 0 };
	struct journal journal;
	enum journal_state state;
	long countdown = i;
	int r;

	for (int m = 0; m < MEDIA; m++) {
		sim_reset(&media[m], sizes[m]);
		media[m].log = &log;
		media[m].countdown = &countdown;
		media[m].error = kind->error;
		media[m].from_here_on = kind->from_here_on;
	}
	/* The guards' content changes hands in sealing: lend a copy. */
	for (uint32_t g = 0; g < sealed.guard_count; g++) {
		struct guard *guard = &plan->program.guards[g];
		uint8_t *old = malloc(guard->length), *final = malloc(guard->length);

		memcpy(old, guard->old, guard->length);
		memcpy(final, guard->final, guard->length);
		guard->old = old;
		guard->final = final;
	}
	r = program_seal(plan, &media[JOURNAL].dev, &journal, &report);
	journal_release(&journal);
	plan->program = sealed;
	if (r == 0)
		r = sim_run(&media[DISK], &media[JOURNAL], WAY_RESUME, &report, &state);
	runs++;
	if (r < 0 && !report.message[0])
		fail(s, i, kind->name, "no message", strerror(-r));
	if (r == 0 && countdown > 0) {
		log_free(&log);
		return true;
	}
	if (r == 0 && !disk_is(&media[DISK], e, true))
		fail(s, i, kind->name, "reported success on a wrong disk", "");
	for (int lost = 0; lost < 2; lost++)
		for (int backward = 0; backward < 2; backward++) {
			struct dw_report again = { 0 };

			replay(media, &log, sizes, lost);
			r = sim_run(&media[DISK], &media[JOURNAL], backward ? WAY_ROLLBACK : WAY_RESUME, &again,
				    &state);
			if (r < 0 && state == JOURNAL_EMPTY && disk_is(&media[DISK], e, false))
				continue; /* it was never sealed */
			if (r < 0 || !disk_is(&media[DISK], e, !backward))
				fail(s, i, kind->name, backward ? "rollback" : "resume", again.message);
		}
	log_free(&log);
	return false;
}

static void media_scenario(const struct scenario *s, struct dw_plan *plan, const uint8_t *old, uint64_t old_size)
{
	uint64_t max = plan->new_size > old_size ? plan->new_size : old_size;
	struct expected e = { .old_size = old_size, .new_size = plan->new_size,
			      .new = malloc(plan->new_size), .old = old };
	struct simdisk media[MEDIA];
	unsigned long before = runs;

	if (device_read(plan->view, e.new, e.new_size, 0) < 0)
		abort();
	find_differing(&e);
	sim_open(&media[DISK], DISK, old, old_size, max);
	sim_open(&media[JOURNAL], JOURNAL, NULL, 0, plan->program.journal_size);
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		for (long i = 1; !media_once(s, plan, media, &e, &kinds[k], i); i++)
			;
	printf("%-18s %6lu runs\n", s->name, runs - before);
	for (int m = 0; m < MEDIA; m++)
		sim_close(&media[m]);
	free(e.new);
	free(e.differing);
}

/* ---- program: system calls and allocations ------------------------------ */

/*
 * These stand in front of libc's, and count while `armed`: in this process
 * only, so the rehearsal's programs and libc's own calls are not touched.
 */
static atomic_bool armed;
static atomic_long countdown;
static int injected;

static bool hit(void)
{
	return atomic_load(&armed) && atomic_fetch_sub(&countdown, 1) == 1;
}

static bool hit_call(void)
{
	if (!hit())
		return false;
	errno = injected;
	return true;
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);

static bool count_allocations;

void *malloc(size_t size)
{
	if (count_allocations && hit_call()) {
		errno = ENOMEM;
		return NULL;
	}
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	if (count_allocations && hit_call()) {
		errno = ENOMEM;
		return NULL;
	}
	return __libc_calloc(count, size);
}

void *realloc(void *p, size_t size)
{
	if (count_allocations && hit_call()) {
		errno = ENOMEM;
		return NULL;
	}
	return __libc_realloc(p, size);
}

ssize_t pread64(int fd, void *buffer, size_t length, off64_t offset)
{
	if (!count_allocations && hit_call())
		return -1;
	return syscall(SYS_pread64, fd, buffer, length, offset);
}

ssize_t pwrite64(int fd, const void *buffer, size_t length, off64_t offset)
{
	if (!count_allocations && hit_call())
		return -1;
	return syscall(SYS_pwrite64, fd, buffer, length, offset);
}

int fsync(int fd)
{
	return !count_allocations && hit_call() ? -1 : (int)syscall(SYS_fsync, fd);
}

int fallocate64(int fd, int mode, off64_t offset, off64_t length)
{
	return !count_allocations && hit_call() ? -1 : (int)syscall(SYS_fallocate, fd, mode, offset, length);
}

int posix_fallocate64(int fd, off64_t offset, off64_t length)
{
	return !count_allocations && hit_call() ? errno : syscall(SYS_fallocate, fd, 0, offset, length) < 0 ? errno : 0;
}

int ftruncate64(int fd, off64_t length)
{
	return !count_allocations && hit_call() ? -1 : (int)syscall(SYS_ftruncate, fd, length);
}

int rename(const char *from, const char *to)
{
	return !count_allocations && hit_call() ? -1 : (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

int memfd_create(const char *name, unsigned flags)
{
	return !count_allocations && hit_call() ? -1 : (int)syscall(SYS_memfd_create, name, flags);
}

static bool file_is(const char *path, const uint8_t *want, uint64_t want_size)
{
	uint64_t size;
	uint8_t *now = load(path, &size);
	bool same = size == want_size && memcmp(now, want, size) == 0;

	munmap(now, size);
	return same;
}

static void restore(const char *path, const uint8_t *old, uint64_t old_size)
{
	char journal[600];
	int fd = open(path, O_RDWR | O_TRUNC);

	if (fd < 0 || write(fd, old, old_size) != (ssize_t)old_size)
		abort();
	close(fd);
	snprintf(journal, sizeof(journal), "%s.dwj", path);
	unlink(journal);
	snprintf(journal, sizeof(journal), "%s.dwj.new", path);
	unlink(journal);
}

/* True when the fault was not met. */
static bool program_once(const struct scenario *s, const char *path, const char *dir, const uint8_t *old,
			 uint64_t old_size, const char *fault, long i)
{
	struct dw_report report = { 0 }, look = { 0 }, back = { 0 };
	struct dw_journal_info info;
	struct dw_request request;
	struct dw_plan *plan = NULL;
	bool met;
	int r;

	atomic_store(&countdown, i);
	atomic_store(&armed, true);
	r = make_plan(s, path, dir, &request, &plan, &report);
	if (r == 0)
		r = dw_plan_execute(plan, &report);
	atomic_store(&armed, false);
	met = atomic_load(&countdown) <= 0;
	dw_plan_free(plan);
	runs++;
	if (r < 0 && (report.status == DW_OK || !report.message[0]))
		fail(s, i, fault, "failed without a status or message", strerror(-r));
	if (dw_journal_inspect(path, NULL, &info, &look) < 0)
		fail(s, i, fault, "cannot be inspected afterwards", look.message);
	else if (r < 0 && report.status != DW_UNFINISHED && !file_is(path, old, old_size))
		fail(s, i, fault, "says that it failed, but the disk has changed", report.message);
	/* After a sync that failed the last header may be there all the same. */
	else if (r < 0 && (info.unfinished || info.state == DW_JOURNAL_DONE) != (report.status == DW_UNFINISHED))
		fail(s, i, fault, "the status is not true", report.message);
	else if (info.unfinished || info.state == DW_JOURNAL_DONE) {
		if (dw_recover(path, NULL, info.unfinished ? DW_ROLLBACK : DW_UNDO, &back) < 0 ||
		    !file_is(path, old, old_size))
			fail(s, i, fault, "cannot be taken back", back.message);
	} else if (r == 0) {
		fail(s, i, fault, "says that it succeeded, but there is no record", "");
	}
	if (!file_is(path, old, old_size))
		restore(path, old, old_size);
	return !met;
}

static void program_scenario(const struct scenario *s, const char *path, const char *dir, const uint8_t *mapped,
			     uint64_t old_size, long every)
{
	unsigned long before = runs;
	uint8_t *old = malloc(old_size);

	memcpy(old, mapped, old_size);
	for (int allocations = 0; allocations < 2; allocations++) {
		count_allocations = allocations;
		injected = allocations ? ENOMEM : EIO;
		for (long i = 1;; i += every)
			if (program_once(s, path, dir, old, old_size, allocations ? "ENOMEM" : "EIO", i))
				break;
	}
	count_allocations = false;
	printf("%-18s %6lu runs\n", s->name, runs - before);
	free(old);
}

/* ---- main --------------------------------------------------------------- */

static int scenario(const struct scenario *s, bool media, const char *small, const char *dir, long every)
{
	struct dw_report report = { 0 };
	struct dw_request request;
	struct dw_plan *plan;
	char path[512];
	uint64_t size;
	uint8_t *old;

	snprintf(path, sizeof(path), "%s/%s.img", dir, s->name);
	if (make_image(s, small, path) != 0)
		return 1;
	if (make_plan(s, path, dir, &request, &plan, &report) < 0) {
		fprintf(stderr, "%s: %s\n", s->name, report.message);
		return strstr(report.message, "FUSE") ? 77 : 1;
	}
	old = load(path, &size);
	if (media)
		media_scenario(s, plan, old, size);
	dw_plan_free(plan);
	if (!media)
		program_scenario(s, path, dir, old, size, every);
	munmap(old, size);
	unlink(path);
	fflush(stdout);
	return 0;
}

int main(int argc, char **argv)
{
	const char *temporary = getenv("TMPDIR");
	char dir[256];
	long every = 1;
	int c, status = 0, r;

	while ((c = getopt(argc, argv, "e:")) != -1)
		every = c == 'e' ? strtol(optarg, NULL, 0) : 0;
	if (every < 1 || argc - optind < 2 || snprintf(dir, sizeof(dir), "%s/dw-fault-XXXXXX", temporary ? temporary : "/tmp") < 0 ||
	    !mkdtemp(dir))
		return 2;
	mallopt(M_MMAP_THRESHOLD, 256 << 20);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	for (const struct scenario *s = scenarios; s->name; s++) {
		bool wanted = optind + 2 == argc;

		for (int i = optind + 2; i < argc; i++)
			wanted |= strcmp(argv[i], s->name) == 0;
		r = wanted ? scenario(s, strcmp(argv[optind], "media") == 0, argv[optind + 1], dir, every) : 0;
		status = status == 1 ? 1 : r ? r : status;
	}
	rmdir(dir);
	printf("%lu runs, %lu failures\n", runs, failures);
	return failures ? 1 : status;
}
