/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <json-c/json.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "output.h"

#define REDRAW_MS 100
#define BAR_CELLS 24

static volatile sig_atomic_t signals;

/* What is on the screen, and since when. */
static struct {
	enum progress_mode mode;
	bool verbose, drawn;
	char phase[96];
	int64_t phase_began, last;
} shown;

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void on_signal(int number)
{
	static const char again[] = "\ndiskwright: stopping at the next safe point\n";

	if (signals++ > 0 && write(STDERR_FILENO, again, sizeof(again) - 1) < 0)
		return;
}

bool progress_interrupted(void)
{
	return signals > 0;
}

static void draw_bar(const struct dw_progress *p, int64_t now)
{
	char rate[DW_SIZE_TEXT];
	double share = p->total ? (double)p->done / p->total : 0, seconds = (now - shown.phase_began) / 1000.0;
	int cells = share * BAR_CELLS;

	fprintf(stderr, "\r\033[K%-34s ", p->phase);
	if (p->total) {
		fputc('[', stderr);
		for (int i = 0; i < BAR_CELLS; i++)
			fputc(i < cells ? '#' : ' ', stderr);
		fprintf(stderr, "] %3d%%", (int)(share * 100));
		if (p->bytes && seconds > 0.5)
			fprintf(stderr, " %s/s", dw_size_format(p->done / seconds, rate));
		if (share > 0.02 && seconds > 1)
			fprintf(stderr, " %d s left", (int)(seconds / share - seconds + 0.5));
	}
	fflush(stderr);
	shown.drawn = true;
}

static void draw_json(const struct dw_progress *p)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "phase", json_object_new_string(p->phase));
	json_object_object_add(o, "done", json_object_new_uint64(p->done));
	json_object_object_add(o, "total", json_object_new_uint64(p->total));
	json_object_object_add(o, "unit", json_object_new_string(p->bytes ? "bytes" : "steps"));
	fprintf(stderr, "%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
	json_object_put(o);
}

static void on_progress(void *opaque, const struct dw_progress *p)
{
	int64_t now = now_ms();
	bool fresh = strcmp(shown.phase, p->phase) != 0;

	if (fresh) {
		snprintf(shown.phase, sizeof(shown.phase), "%s", p->phase);
		shown.phase_began = now;
	}
	if (!fresh && now - shown.last < REDRAW_MS && p->done != p->total)
		return;
	shown.last = now;
	if (shown.mode == PROGRESS_JSON)
		draw_json(p);
	else if (shown.mode == PROGRESS_BAR)
		draw_bar(p, now);
}

void progress_end(void)
{
	if (shown.drawn)
		fprintf(stderr, "\r\033[K");
	shown.drawn = false;
	shown.phase[0] = '\0';
}

static void on_note(void *opaque, const char *line)
{
	progress_end();
	fprintf(stderr, "diskwright: note: %s\n", line);
}

static bool on_interrupted(void *opaque)
{
	return progress_interrupted();
}

void progress_begin(struct dw_report *report, const struct options *options)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	shown.mode = options->progress;
	if (shown.mode == PROGRESS_AUTO)
		shown.mode = isatty(STDERR_FILENO) && !options->quiet ? PROGRESS_BAR : PROGRESS_NONE;
	*report = (struct dw_report){ .progress = on_progress, .note = on_note, .interrupted = on_interrupted };
}
