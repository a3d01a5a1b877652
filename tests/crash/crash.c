/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The crash test: every state that a power cut can leave, then recovery.
 *
 * An operation is rehearsed for real; its program is then sealed and executed
 * on simulated media, which record every write and sync.  From that log every
 * state is built: the log cut at every event; of what was not synced, on disk
 * and journal independently: nothing, everything, each write alone missing,
 * each alone present, each torn at a sector boundary, and seeded samples.
 * States that are equal are visited once.  On each, `resume` must end in
 * exactly the new disk and `rollback` in exactly the old one; a disk that is
 * neither must carry its guards.  At DOUBLES cuts of each
 * run a recovery is recorded and cut in the same way.
 *
 * usage: crash [-s SEED] [-d DOUBLES] SMALL_SH [SCENARIO...]
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "bridge/extfs.h"
#include "plan/plan.h"
#include "scenario.h"
#include "simdisk.h"

enum { DISK, JOURNAL, MEDIA };

#define SAMPLES_PER_CUT 12
#define TORN_PER_WRITE 4

struct world {
	const struct scenario *scenario;
	uint8_t *old;                /* the image before */
	uint64_t old_size, new_size, max;
	struct simdisk media[MEDIA];
	uint64_t journal_size;
	uint64_t *touched;           /* disk sectors the program writes */
	size_t touched_count;
	uint8_t *new;                /* their content afterwards */
	uint64_t *seen;              /* states visited: an open-addressed set */
	size_t seen_count, seen_room;
	unsigned doubles;
	unsigned long states, merged, recoveries, failures;
	uint64_t random;
};

static uint64_t next_random(struct world *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random;
}

/* ---- running ------------------------------------------------------------ */

static int run(struct world *w, enum way way, struct dw_report *report, enum journal_state *ended)
{
	return sim_run(&w->media[DISK], &w->media[JOURNAL], way, report, ended);
}

/* ---- judging ------------------------------------------------------------ */

/* Is the disk the old one, the new one? */
static bool disk_is(const struct world *w, bool new)
{
	const struct simdisk *d = &w->media[DISK];

	if (d->dev.size != (new ? w->new_size : w->old_size))
		return false;
	for (size_t i = 0; i < w->touched_count; i++) {
		uint64_t n = w->touched[i], end = (n + 1) * SECTOR;
		const uint8_t *want = new ? w->new + i * SECTOR : w->old + n * SECTOR;

		if (end > d->dev.size)
			continue;
		if (memcmp(sim_sector(d, n), want, SECTOR) != 0)
			return false;
	}
	return true;
}

/* A disk that is neither old nor new must not be mountable. */
static bool is_guarded(const struct world *w, const struct journal *j)
{
	bool all_old = true, all_new = true;

	for (size_t i = 0; i < w->touched_count; i++) {
		uint64_t at = w->touched[i] * SECTOR;
		const uint8_t *now = sim_sector(&w->media[DISK], w->touched[i]);
		bool guard = false;

		for (uint32_t g = 0; g < j->header.guard_count; g++)
			guard |= at >= j->header.guards[g].offset &&
				 at < j->header.guards[g].offset + j->header.guards[g].length;
		if (guard || at + SECTOR > w->old_size || at + SECTOR > w->new_size)
			continue;
		all_old &= memcmp(now, w->old + at, SECTOR) == 0;
		all_new &= memcmp(now, w->new + i * SECTOR, SECTOR) == 0;
	}
	if (all_old || all_new)
		return true;
	for (uint32_t g = 0; g < j->header.guard_count; g++) {
		uint8_t super[EXTFS_SUPER_SIZE];
		const struct guard *guard = &j->header.guards[g];

		if (guard->kind != GUARD_EXT)
			continue;
		for (uint32_t at = 0; at < EXTFS_SUPER_SIZE; at += SECTOR)
			memcpy(super + at, sim_sector(&w->media[DISK],
						      (guard->offset + guard->position + at) / SECTOR), SECTOR);
		if (!extfs_super_is_guarded(super))
			return false;
	}
	return true;
}

/* ---- states ------------------------------------------------------------- */

/* A state: which part of which event is there. */
struct part {
	uint32_t from, to; /* sectors; to 0: the event is absent */
};

struct cutter {
	struct world *w;
	const struct log *log;
	uint64_t start[MEDIA];      /* sizes before the log */
	const struct simdisk *base; /* NULL: the world's base; else copies of media */
	struct part *parts;
	bool *doubled;              /* cuts at which a recovery is to be cut in its turn */
	unsigned level;
};

static uint64_t sectors_of(const struct event *e)
{
	return e->op == SIM_RESIZE ? 1 : e->length / SECTOR;
}

/* Remember a state by the content that its sectors point to. */
static bool is_new_state(struct world *w)
{
	XXH3_state_t *hash = XXH3_createState();
	uint64_t key;

	XXH3_64bits_reset(hash);
	for (int m = 0; m < MEDIA; m++) {
		struct simdisk *s = &w->media[m];

		/* Order of the sectors must not matter: sum up what each says. */
		uint64_t sum = s->dev.size * 31 + m;

		for (size_t i = 0; i < s->dirty_count; i++) {
			const uint64_t n = s->dirty[i];
			const uint8_t *base = (n + 1) * SECTOR <= s->base_size ? s->base + n * SECTOR : NULL;

			/* A sector that holds what the base holds is no difference. */
			if (base && memcmp(base, s->sector[n], SECTOR) == 0)
				continue;
			sum += XXH3_64bits_withSeed(s->sector[n], SECTOR, n * 2 + m);
		}
		XXH3_64bits_update(hash, &sum, sizeof(sum));
	}
	key = XXH3_64bits_digest(hash) | 1;
	XXH3_freeState(hash);
	if (2 * w->seen_count >= w->seen_room) {
		size_t room = w->seen_room ? 2 * w->seen_room : 65536;
		uint64_t *set = calloc(room, sizeof(*set));

		for (size_t i = 0; i < w->seen_room; i++)
			if (w->seen[i]) {
				size_t k = w->seen[i] & (room - 1);

				while (set[k])
					k = (k + 1) & (room - 1);
				set[k] = w->seen[i];
			}
		free(w->seen);
		w->seen = set;
		w->seen_room = room;
	}
	for (size_t k = key & (w->seen_room - 1);; k = (k + 1) & (w->seen_room - 1)) {
		if (w->seen[k] == key)
			return false;
		if (!w->seen[k]) {
			w->seen[k] = key;
			w->seen_count++;
			return true;
		}
	}
}

/* Put the media into the state that PARTS of the log up to CUT make. */
static void build(struct cutter *c, size_t cut)
{
	for (int m = 0; m < MEDIA; m++) {
		struct simdisk *s = &c->w->media[m];

		sim_reset(s, c->start[m]);
		s->log = NULL;
		if (!c->base)
			continue;
		for (size_t i = 0; i < c->base[m].dirty_count; i++) {
			uint64_t n = c->base[m].dirty[i];
			struct event e = { SIM_WRITE, m, n * SECTOR, SECTOR, c->base[m].sector[n] };

			sim_apply(s, &e, 0, SECTOR);
		}
	}
	for (size_t i = 0; i < cut; i++) {
		const struct event *e = &c->log->list[i];

		if (e->op != SIM_SYNC && c->parts[i].to > c->parts[i].from)
			sim_apply(&c->w->media[e->medium], e, (uint64_t)c->parts[i].from * SECTOR,
				  (uint64_t)c->parts[i].to * SECTOR);
	}
}

static void fail(struct cutter *c, size_t cut, const char *what, int r, const struct dw_report *report)
{
	struct world *w = c->w;

	w->failures++;
	if (w->failures > 5)
		return;
	fprintf(stderr, "FAIL %s level %u cut %zu of %zu: %s (%d, %s)\n  parts:", w->scenario->name, c->level,
		cut, c->log->count, what, r, report->message);
	for (size_t i = 0; i < cut; i++)
		if (c->log->list[i].op != SIM_SYNC && c->parts[i].to - c->parts[i].from != sectors_of(&c->log->list[i]))
			fprintf(stderr, " %zu[%u,%u)/%llu", i, c->parts[i].from, c->parts[i].to,
				(unsigned long long)sectors_of(&c->log->list[i]));
	fprintf(stderr, "\n");
}

static void cut_log(struct world *w, const struct log *log, const struct simdisk *base,
		    const uint64_t start[MEDIA], unsigned level);

/* The recovery of a state, recorded, and cut in its turn. */
static void double_crash(struct cutter *c, size_t cut, enum way way)
{
	struct simdisk copy[MEDIA];
	struct dw_report report = { 0 };
	enum journal_state ended;
	struct log log = { 0 };
	uint64_t start[MEDIA];

	build(c, cut);
	for (int m = 0; m < MEDIA; m++) {
		struct simdisk *s = &c->w->media[m];

		sim_open(&copy[m], m, s->base, s->base_size, s->sectors * SECTOR);
		start[m] = s->dev.size;
		copy[m].dev.size = s->dev.size;
		for (size_t i = 0; i < s->dirty_count; i++) {
			struct event e = { SIM_WRITE, m, s->dirty[i] * SECTOR, SECTOR, s->sector[s->dirty[i]] };

			sim_apply(&copy[m], &e, 0, SECTOR);
		}
		s->log = &log;
	}
	run(c->w, way, &report, &ended);
	cut_log(c->w, &log, copy, start, c->level + 1);
	for (int m = 0; m < MEDIA; m++) {
		c->w->media[m].log = NULL;
		sim_close(&copy[m]);
	}
	log_free(&log);
}

/* Both recoveries of the state, each from a fresh build of it. */
static void visit(struct cutter *c, size_t cut)
{
	static const struct { enum way way; bool new; const char *name; } ways[] = {
		{ WAY_RESUME, true, "resume" }, { WAY_ROLLBACK, false, "rollback" } };
	struct world *w = c->w;
	struct journal journal;
	int r;

	build(c, cut);
	if (!is_new_state(w)) {
		w->merged++;
		return;
	}
	w->states++;
	r = journal_open(&w->media[JOURNAL].dev, &journal, NULL);
	if (r < 0) {
		struct dw_report none = { 0 };

		/* Not sealed: then nothing may have been written. */
		if (!disk_is(w, false))
			fail(c, cut, "no journal, but the disk is not the old one", r, &none);
		journal_release(&journal);
		return;
	}
	if (!is_guarded(w, &journal)) {
		struct dw_report none = { 0 };

		fail(c, cut, "half-written and mountable", 0, &none);
	}
	journal_release(&journal);
	for (int i = 0; i < 2; i++) {
		struct dw_report report = { 0 };
		enum journal_state ended = JOURNAL_EMPTY;

		if (i > 0)
			build(c, cut);
		r = run(w, ways[i].way, &report, &ended);
		w->recoveries++;
		if (r < 0 || !disk_is(w, ways[i].new))
			fail(c, cut, ways[i].name, r, &report);
		else if (ended != (ways[i].new ? JOURNAL_DONE : JOURNAL_ROLLED_BACK))
			fail(c, cut, "ended in the wrong state", ended, &report);
	}
	if (c->doubled[cut] && next_random(w) % 3 == 0) {
		c->doubled[cut] = false;
		double_crash(c, cut, WAY_RESUME);
		double_crash(c, cut, WAY_ROLLBACK);
	}
}

/* Everything synced stays; what is pending is set by the caller. */
static size_t pending(struct cutter *c, size_t cut, size_t *list)
{
	bool synced[MEDIA] = { false };
	size_t count = 0;

	for (size_t i = cut; i-- > 0;) {
		const struct event *e = &c->log->list[i];

		c->parts[i] = (struct part){ 0, sectors_of(e) };
		if (e->op == SIM_SYNC)
			synced[e->medium] = true;
		else if (!synced[e->medium])
			list[count++] = i;
	}
	return count;
}

static void set_all(struct cutter *c, const size_t *list, size_t count, bool present)
{
	for (size_t i = 0; i < count; i++)
		c->parts[list[i]] = (struct part){ 0, present ? sectors_of(&c->log->list[list[i]]) : 0 };
}

static void visit_torn(struct cutter *c, size_t cut, const size_t *list, size_t count, size_t i)
{
	uint64_t sectors = sectors_of(&c->log->list[list[i]]);

	for (int k = 0; k < TORN_PER_WRITE && sectors > 1; k++) {
		uint32_t at = k == 0 ? 1 : k == 1 ? sectors - 1 : 1 + next_random(c->w) % (sectors - 1);

		for (int rest = 0; rest < 2; rest++)
			for (int back = 0; back < 2; back++) {
				set_all(c, list, count, rest);
				c->parts[list[i]] = back ? (struct part){ at, sectors } : (struct part){ 0, at };
				visit(c, cut);
			}
	}
}

static void visit_cut(struct cutter *c, size_t cut, size_t *list)
{
	size_t count = pending(c, cut, list);

	for (int all = 0; all < 2; all++) {
		set_all(c, list, count, all);
		visit(c, cut);
	}
	/* One disk's cache kept, the other's lost. */
	for (int m = 0; m < MEDIA; m++) {
		set_all(c, list, count, false);
		for (size_t i = 0; i < count; i++)
			if (c->log->list[list[i]].medium == m)
				set_all(c, list + i, 1, true);
		visit(c, cut);
	}
	for (size_t i = 0; i < count; i++) {
		set_all(c, list, count, true);
		set_all(c, list + i, 1, false);
		visit(c, cut);
		set_all(c, list, count, false);
		set_all(c, list + i, 1, true);
		visit(c, cut);
		/* The others of the epoch were the last one at an earlier cut. */
		if (i == 0)
			visit_torn(c, cut, list, count, i);
	}
	for (int k = 0; k < SAMPLES_PER_CUT && count > 2; k++) {
		for (size_t i = 0; i < count; i++)
			set_all(c, list + i, 1, next_random(c->w) & 1);
		visit(c, cut);
	}
}

static void cut_log(struct world *w, const struct log *log, const struct simdisk *base,
		    const uint64_t start[MEDIA], unsigned level)
{
	struct cutter c = { .w = w, .log = log, .base = base, .level = level };
	size_t *list = calloc(log->count + 1, sizeof(*list));

	memcpy(c.start, start, sizeof(c.start));
	c.parts = calloc(log->count + 1, sizeof(*c.parts));
	c.doubled = calloc(log->count + 1, sizeof(*c.doubled));
	for (unsigned i = 0; i < w->doubles && level == 1; i++)
		c.doubled[next_random(w) % (log->count + 1)] = true;
	for (size_t cut = 0; cut <= log->count; cut++)
		visit_cut(&c, cut, list);
	free(c.parts);
	free(c.doubled);
	free(list);
}

/* ---- a scenario --------------------------------------------------------- */

static void note_touched(struct world *w, const struct log *log)
{
	bool *is = calloc(w->max / SECTOR + 1, sizeof(*is));

	for (size_t i = 0; i < log->count; i++) {
		const struct event *e = &log->list[i];

		if (e->medium != DISK || (e->op != SIM_WRITE && e->op != SIM_ZERO))
			continue;
		for (uint64_t n = e->offset / SECTOR; n < (e->offset + e->length) / SECTOR; n++)
			is[n] = true;
	}
	for (uint64_t n = w->new_size / SECTOR; n < w->old_size / SECTOR; n++)
		is[n] = true;
	w->touched = calloc(w->max / SECTOR + 1, sizeof(*w->touched));
	for (uint64_t n = 0; n < w->max / SECTOR; n++)
		if (is[n])
			w->touched[w->touched_count++] = n;
	w->new = calloc(w->touched_count + 1, SECTOR);
	for (size_t i = 0; i < w->touched_count; i++)
		memcpy(w->new + i * SECTOR, sim_sector(&w->media[DISK], w->touched[i]), SECTOR);
	free(is);
}

/* The new disk must be what the rehearsal's view showed. */
static bool matches_view(struct world *w, struct dw_plan *plan)
{
	uint8_t sector[SECTOR];

	for (uint64_t n = 0; n < w->new_size / SECTOR; n++)
		if (device_read(plan->view, sector, SECTOR, n * SECTOR) < 0 ||
		    memcmp(sector, sim_sector(&w->media[DISK], n), SECTOR) != 0) {
			fprintf(stderr, "FAIL %s: sector %llu is not as rehearsed\n", w->scenario->name,
				(unsigned long long)n);
			return false;
		}
	return true;
}

static int execute_recorded(struct world *w, struct dw_plan *plan, struct log *log)
{
	struct dw_report report = { 0 };
	struct journal journal;
	enum journal_state ended;
	int r;

	for (int m = 0; m < MEDIA; m++)
		w->media[m].log = log;
	r = program_seal(plan, &w->media[JOURNAL].dev, &journal, &report);
	journal_release(&journal);
	if (r == 0)
		r = run(w, WAY_RESUME, &report, &ended);
	for (int m = 0; m < MEDIA; m++)
		w->media[m].log = NULL;
	if (r < 0)
		fprintf(stderr, "FAIL %s: %s\n", w->scenario->name, report.message);
	return r;
}

static void crash_scenario(struct world *w, struct dw_plan *plan)
{
	const uint64_t start[MEDIA] = { w->old_size, plan->program.journal_size };
	struct log forward = { 0 }, undo = { 0 };
	struct dw_report report = { 0 };
	enum journal_state ended;

	sim_open(&w->media[DISK], DISK, w->old, w->old_size, w->max);
	sim_open(&w->media[JOURNAL], JOURNAL, NULL, 0, plan->program.journal_size);
	w->media[JOURNAL].dev.size = plan->program.journal_size;
	if (execute_recorded(w, plan, &forward) < 0) {
		w->failures++;
		return;
	}
	note_touched(w, &forward);
	if (!matches_view(w, plan))
		w->failures++;
	cut_log(w, &forward, NULL, start, 1);
	/* The same for the undo of the finished operation. */
	for (int m = 0; m < MEDIA; m++)
		sim_reset(&w->media[m], start[m]);
	for (size_t i = 0; i < forward.count; i++)
		if (forward.list[i].op != SIM_SYNC)
			sim_apply(&w->media[forward.list[i].medium], &forward.list[i], 0, forward.list[i].length);
	{
		struct simdisk done[MEDIA];
		uint64_t sizes[MEDIA];

		for (int m = 0; m < MEDIA; m++) {
			struct simdisk *s = &w->media[m];

			sim_open(&done[m], m, s->base, s->base_size, s->sectors * SECTOR);
			for (size_t i = 0; i < s->dirty_count; i++) {
				struct event e = { SIM_WRITE, m, s->dirty[i] * SECTOR, SECTOR,
						   s->sector[s->dirty[i]] };

				sim_apply(&done[m], &e, 0, SECTOR);
			}
			sizes[m] = done[m].dev.size = s->dev.size;
			s->log = &undo;
		}
		if (run(w, WAY_UNDO, &report, &ended) < 0 || !disk_is(w, false)) {
			fprintf(stderr, "FAIL %s: undo: %s\n", w->scenario->name, report.message);
			w->failures++;
		}
		for (int m = 0; m < MEDIA; m++)
			w->media[m].log = NULL;
		cut_log(w, &undo, done, sizes, 1);
		for (int m = 0; m < MEDIA; m++)
			sim_close(&done[m]);
	}
	log_free(&forward);
	log_free(&undo);
}

static uint8_t *load(const char *path, uint64_t *size)
{
	struct stat st;
	int fd = open(path, O_RDONLY);
	uint8_t *p;

	if (fd < 0 || fstat(fd, &st) < 0)
		return NULL;
	*size = st.st_size;
	p = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

static int run_scenario(const struct scenario *s, const char *small, const char *dir, unsigned doubles,
			uint64_t seed, struct world *total)
{
	struct world w = { .scenario = s, .doubles = doubles, .random = seed | 1 };
	struct dw_request request = s->request;
	struct dw_report report = { 0 };
	struct dw_plan *plan;
	char path[512], command[1200];

	snprintf(path, sizeof(path), "%s/%s.img", dir, s->name);
	snprintf(command, sizeof(command), "%s %s %s", small, s->image, path);
	if (system(command) != 0) {
		fprintf(stderr, "FAIL %s: cannot make the image\n", s->name);
		return 1;
	}
	request.path = path;
	request.temporary = dir;
	request.command = s->name;
	if (dw_plan_make(&request, &plan, &report) < 0) {
		fprintf(stderr, "FAIL %s: %s\n", s->name, report.message);
		return report.message[0] && strstr(report.message, "FUSE") ? 77 : 1;
	}
	w.old = load(path, &w.old_size);
	w.new_size = plan->new_size;
	w.max = w.new_size > w.old_size ? w.new_size : w.old_size;
	crash_scenario(&w, plan);
	printf("%-18s %7lu states (%lu equal ones merged), %7lu recoveries, %lu failures\n", s->name, w.states,
	       w.merged, w.recoveries, w.failures);
	fflush(stdout);
	total->states += w.states;
	total->recoveries += w.recoveries;
	total->failures += w.failures;
	dw_plan_free(plan);
	munmap(w.old, w.old_size);
	for (int m = 0; m < MEDIA; m++)
		sim_close(&w.media[m]);
	free(w.touched);
	free(w.new);
	free(w.seen);
	unlink(path);
	return w.failures ? 1 : 0;
}

int main(int argc, char **argv)
{
	const char *temporary = getenv("TMPDIR");
	char dir[256];
	unsigned doubles = 6;
	uint64_t seed = 20260101;
	struct world total = { 0 };
	int c, status = 0, r;

	while ((c = getopt(argc, argv, "s:d:")) != -1) {
		if (c == 's')
			seed = strtoull(optarg, NULL, 0);
		else if (c == 'd')
			doubles = strtoul(optarg, NULL, 0);
		else
			return 2;
	}
	if (optind == argc || snprintf(dir, sizeof(dir), "%s/dw-crash-XXXXXX", temporary ? temporary : "/tmp") < 0 ||
	    !mkdtemp(dir))
		return 2;
	/* A recovery's buffers come and go thousands of times a second. */
	mallopt(M_MMAP_THRESHOLD, 256 << 20);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	for (const struct scenario *s = scenarios; s->name; s++) {
		bool wanted = optind + 1 == argc;

		for (int i = optind + 1; i < argc; i++)
			wanted |= strcmp(argv[i], s->name) == 0;
		if (!wanted)
			continue;
		r = run_scenario(s, argv[optind], dir, doubles, seed, &total);
		if (r && status != 1)
			status = r;
	}
	printf("seed %llu: %lu states, %lu recoveries, %lu failures\n", (unsigned long long)seed, total.states,
	       total.recoveries, total.failures);
	rmdir(dir);
	return status;
}
