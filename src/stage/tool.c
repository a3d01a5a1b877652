/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stage/tool.h"

#define TOOL_PATH "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
#define OUTPUT_MAX (256 * 1024)
#define OUTPUT_HALF (OUTPUT_MAX / 2)
#define POLL_MS 100
#define GRACE_SECONDS 5
#define PERMILLE 1000

static const char cut_mark[] = "\n[...]\n";

/* ---- output: the first half and the last half -------------------------- */

struct output {
	char *head, *tail;     /* OUTPUT_HALF bytes each; the tail is a ring */
	size_t head_used, tail_total;
};

static void output_add(struct output *o, const char *data, size_t length)
{
	size_t n = OUTPUT_HALF - o->head_used < length ? OUTPUT_HALF - o->head_used : length;

	memcpy(o->head + o->head_used, data, n);
	o->head_used += n;
	for (; n < length; n++)
		o->tail[o->tail_total++ % OUTPUT_HALF] = data[n];
}

static int output_join(const struct output *o, struct tool_result *result)
{
	size_t kept = o->tail_total < OUTPUT_HALF ? o->tail_total : OUTPUT_HALF;
	char *p = malloc(o->head_used + sizeof(cut_mark) + kept + 1);

	if (!p)
		return -ENOMEM;
	result->output = p;
	memcpy(p, o->head, o->head_used);
	p += o->head_used;
	if (o->tail_total > kept) {
		memcpy(p, cut_mark, sizeof(cut_mark) - 1);
		p += sizeof(cut_mark) - 1;
	}
	for (size_t i = o->tail_total - kept; i < o->tail_total; i++)
		*p++ = o->tail[i % OUTPUT_HALF];
	*p = '\0';
	result->length = p - result->output;
	/* A NUL in the output would hide what follows. */
	for (char *q = result->output; q < p; q++)
		if (*q == '\0')
			*q = ' ';
	return 0;
}

/* ---- progress ---------------------------------------------------------- */

/* A full check is five passes; the first reads nearly everything. */
static unsigned e2fsck_permille(unsigned pass, unsigned long done, unsigned long total)
{
	static const unsigned starts[] = { 0, 0, 700, 900, 920, 930, 1000 };

	if (pass < 1 || pass > 5 || total == 0 || done > total)
		return 0;
	return starts[pass] + (unsigned long long)(starts[pass + 1] - starts[pass]) * done / total;
}

static void e2fsck_line(const char *line, const char *phase, struct dw_report *report)
{
	unsigned pass;
	unsigned long done, total;

	if (sscanf(line, "%u %lu %lu", &pass, &done, &total) == 3)
		dw_progress(report, phase, e2fsck_permille(pass, done, total), PERMILLE, false);
}

struct progress {
	char line[128];
	size_t used;
};

static void progress_read(struct progress *p, const char *data, size_t length, const char *phase,
			  struct dw_report *report)
{
	for (size_t i = 0; i < length; i++) {
		if (data[i] == '\n') {
			p->line[p->used] = '\0';
			e2fsck_line(p->line, phase, report);
			p->used = 0;
		} else if (p->used < sizeof(p->line) - 1) {
			p->line[p->used++] = data[i];
		}
	}
}

/* ---- the child --------------------------------------------------------- */

/* Between fork and exec: only what a signal handler may do. */
static void child(const char *const *argv, int out, int progress, pid_t parent)
{
	static const char *const environment[] = { "PATH=" TOOL_PATH, "LC_ALL=C", NULL };
	char path[512];
	sigset_t none;
	int null = open("/dev/null", O_RDONLY);

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	setpgid(0, 0);
	if (dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
		_exit(127);
	if (progress >= 0)
		fcntl(progress, F_SETFD, 0);
	for (const char *p = TOOL_PATH, *end; *p; p = *end ? end + 1 : end) {
		size_t n = 0;

		for (end = p; *end && *end != ':'; end++)
			path[n++] = *end;
		path[n++] = '/';
		for (const char *q = argv[0]; *q && n < sizeof(path) - 1; q++)
			path[n++] = *q;
		path[n] = '\0';
		execve(path, (char *const *)argv, (char *const *)environment);
	}
	_exit(127);
}

static bool is_installed(const char *name)
{
	char path[512];

	for (const char *p = TOOL_PATH; *p;) {
		size_t n = strcspn(p, ":");

		snprintf(path, sizeof(path), "%.*s/%s", (int)n, p, name);
		if (access(path, X_OK) == 0)
			return true;
		p += n + (p[n] == ':');
	}
	return false;
}

static int not_installed(const char *name, struct dw_report *report)
{
	static const struct {
		const char *program, *package;
	} packages[] = {
		{ "e2fsck", "e2fsprogs" },   { "tune2fs", "e2fsprogs" }, { "resize2fs", "e2fsprogs" },
		{ "mke2fs", "e2fsprogs" },   { "dumpe2fs", "e2fsprogs" }, { "debugfs", "e2fsprogs" },
	};

	dw_fail(report, DW_REFUSED, ENOENT, "the program %s is not installed", name);
	for (size_t i = 0; i < sizeof(packages) / sizeof(packages[0]); i++)
		if (strcmp(packages[i].program, name) == 0)
			dw_hint(report, "apt-get install %s", packages[i].package);
	return -ENOENT;
}

/* ---- running ----------------------------------------------------------- */

struct running {
	pid_t pid;
	int out, progress;
	struct output output;
	struct progress state;
};

/* Read what there is; 0 at the end of FD. */
static ssize_t drain(int fd, char *buffer, size_t size)
{
	ssize_t n = read(fd, buffer, size);

	return n < 0 && (errno == EINTR || errno == EAGAIN) ? -1 : n < 0 ? 0 : n;
}

static void listen_to(struct running *run, const char *phase, struct dw_report *report, bool *stopped)
{
	time_t asked = 0;
	char buffer[16384];

	while (run->out >= 0) {
		struct pollfd fds[2] = { { run->out, POLLIN, 0 }, { run->progress, POLLIN, 0 } };
		ssize_t n;

		poll(fds, run->progress >= 0 ? 2 : 1, POLL_MS);
		if (fds[0].revents) {
			n = drain(run->out, buffer, sizeof(buffer));
			if (n > 0)
				output_add(&run->output, buffer, n);
			if (n == 0) {
				close(run->out);
				run->out = -1;
			}
		}
		if (run->progress >= 0 && fds[1].revents) {
			n = drain(run->progress, buffer, sizeof(buffer));
			if (n > 0)
				progress_read(&run->state, buffer, n, phase, report);
			if (n == 0) {
				close(run->progress);
				run->progress = -1;
			}
		}
		if (!*stopped && dw_interrupted(report)) {
			*stopped = true;
			asked = time(NULL);
			kill(run->pid, SIGTERM);
		} else if (*stopped && time(NULL) - asked > GRACE_SECONDS) {
			kill(run->pid, SIGKILL);
		}
	}
}

static int start(struct running *run, const char *const *argv, int out[2], int progress[2])
{
	pid_t parent = getpid();

	run->pid = fork();
	if (run->pid < 0)
		return -errno;
	if (run->pid == 0)
		child(argv, out[1], progress[1], parent);
	return 0;
}

static int run_child(const char *const *argv, int progress[2], const char *phase,
		     struct tool_result *result, struct dw_report *report)
{
	struct running run = { .out = -1, .progress = -1 };
	int out[2] = { -1, -1 }, status = 0, r;
	bool stopped = false;

	run.output.head = malloc(OUTPUT_HALF);
	run.output.tail = malloc(OUTPUT_HALF);
	r = !run.output.head || !run.output.tail ? -ENOMEM : pipe2(out, O_CLOEXEC) < 0 ? -errno : 0;
	if (r == 0)
		r = start(&run, argv, out, progress);
	if (out[1] >= 0)
		close(out[1]);
	if (progress[1] >= 0)
		close(progress[1]);
	run.out = out[0];
	run.progress = progress[0];
	if (r == 0) {
		dw_progress(report, phase, 0, 0, false);
		listen_to(&run, phase, report, &stopped);
		while (waitpid(run.pid, &status, 0) < 0 && errno == EINTR)
			;
		result->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		r = stopped ? dw_fail(report, DW_FAILED, EINTR, "interrupted; nothing has changed")
			    : output_join(&run.output, result);
	}
	if (run.out >= 0)
		close(run.out);
	if (run.progress >= 0)
		close(run.progress);
	free(run.output.head);
	free(run.output.tail);
	return r;
}

int tool_run(const char *const *argv, enum tool_progress kind, const char *phase,
	     struct tool_result *result, struct dw_report *report)
{
	const char *args[TOOL_ARGS + 1];
	int progress[2] = { -1, -1 };
	size_t n = 0, from = 0;
	char fd_text[16];

	*result = (struct tool_result){ 0 };
	if (!is_installed(argv[0]))
		return not_installed(argv[0], report);
	args[n++] = argv[from++];
	if (kind == TOOL_E2FSCK) {
		if (pipe2(progress, O_CLOEXEC) < 0)
			return -errno;
		snprintf(fd_text, sizeof(fd_text), "%d", progress[1]);
		args[n++] = "-C";
		args[n++] = fd_text;
	}
	while (argv[from] && n < TOOL_ARGS)
		args[n++] = argv[from++];
	args[n] = NULL;
	return run_child(args, progress, phase, result, report);
}

void tool_result_free(struct tool_result *result)
{
	free(result->output);
	*result = (struct tool_result){ 0 };
}

const char *tool_last_line(const struct tool_result *result, char *buffer, size_t size)
{
	const char *end = result->output + result->length, *start;

	while (end > result->output && (end[-1] == '\n' || end[-1] == ' ' || end[-1] == '\t'))
		end--;
	for (start = end; start > result->output && start[-1] != '\n'; start--)
		;
	snprintf(buffer, size, "%.*s", (int)(end - start), start);
	return buffer;
}
