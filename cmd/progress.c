/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <json-c/json.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "output.h"

#define REDRAW_MS 100
#define BAR_CELLS 24
#define WIDTH_DEFAULT 80

static volatile sig_atomic_t signals;

/* What is on the screen, and since when. */
static struct {
	enum progress_mode mode;
	bool quiet, drawn;
	int width;
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
	int saved = errno;

	/* The first is answered where the stop is; who asks again wants to know now. */
	if (signals++ > 0 && write(STDERR_FILENO, again, sizeof(again) - 1) < 0)
		signals = 2;
	errno = saved;
}

/* One line, cut to the screen: a longer one could not be wiped. */
static void draw_bar(const struct dw_progress *p, int64_t now)
{
	double share = p->total ? (double)p->done / p->total : 0, seconds = (now - shown.phase_began) / 1000.0;
	char line[256], bar[BAR_CELLS + 1], rate[DW_SIZE_TEXT];
	int cells = share < 1 ? share * BAR_CELLS : BAR_CELLS, n;

	memset(bar, ' ', BAR_CELLS);
	memset(bar, '#', cells);
	bar[BAR_CELLS] = '\0';
	n = snprintf(line, sizeof(line), "%-36.36s", p->phase);
	if (p->total)
		n += snprintf(line + n, sizeof(line) - n, " [%s] %3d%%", bar, (int)(share < 1 ? share * 100 : 100));
	if (p->total && p->bytes && seconds > 0.5)
		n += snprintf(line + n, sizeof(line) - n, " %s/s", dw_size_format(p->done / seconds, rate));
	if (share > 0.02 && share < 1 && seconds > 1)
		snprintf(line + n, sizeof(line) - n, " %d:%02d left", (int)(seconds / share - seconds) / 60,
			 (int)(seconds / share - seconds) % 60);
	fprintf(stderr, "\r%.*s\033[K", shown.width - 1, line);
	fflush(stderr);
	shown.drawn = true;
}

static void print_json_line(struct json_object *o)
{
	fprintf(stderr, "%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(o);
}

static void draw_json(const struct dw_progress *p)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "phase", json_of_text(p->phase));
	json_object_object_add(o, "done", json_object_new_uint64(p->done));
	json_object_object_add(o, "total", json_object_new_uint64(p->total));
	json_object_object_add(o, "unit", json_object_new_string(p->bytes ? "bytes" : "steps"));
	print_json_line(o);
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
	if (shown.mode == PROGRESS_JSON) {
		struct json_object *o = json_object_new_object();

		json_object_object_add(o, "note", json_of_text(line));
		print_json_line(o);
	} else if (!shown.quiet) {
		print_error("note", "%s", line);
	}
}

static bool on_interrupted(void *opaque)
{
	return signals > 0;
}

/* FLAGS: SA_RESTART, or 0 where a signal shall end a wait. */
static void catch_signals(int flags)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = flags };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

bool progress_read_line(char *line, int size)
{
	bool got;

	fflush(NULL);
	catch_signals(0);
	got = signals == 0 && fgets(line, size, stdin);
	catch_signals(SA_RESTART);
	if (got)
		line[strcspn(line, "\n")] = '\0';
	else
		fputc('\n', stderr);
	return got && signals == 0;
}

void progress_begin(struct dw_report *report, const struct options *options)
{
	struct winsize size;

	catch_signals(SA_RESTART);
	/* A reader of the output that goes away must not end an execution. */
	signal(SIGPIPE, SIG_IGN);
	shown.quiet = options->quiet;
	shown.mode = options->progress;
	if (shown.mode == PROGRESS_AUTO)
		shown.mode = isatty(STDERR_FILENO) && !options->quiet ? PROGRESS_BAR : PROGRESS_NONE;
	shown.width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : WIDTH_DEFAULT;
	*report = (struct dw_report){ .progress = on_progress, .note = on_note, .interrupted = on_interrupted };
}
