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
#define PATH_SIZE 256
#define OUTPUT_HALF (128 * 1024)
#define POLL_MS 100
#define GRACE_SECONDS 5
#define PERMILLE 1000

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
	static const char mark[] = "\n[...]\n";
	size_t kept = o->tail_total < OUTPUT_HALF ? o->tail_total : OUTPUT_HALF;
	char *p = malloc(o->head_used + sizeof(mark) + kept);

	if (!p)
		return -ENOMEM;
	result->output = p;
	p = mempcpy(p, o->head, o->head_used);
	if (o->tail_total > kept)
		p = mempcpy(p, mark, sizeof(mark) - 1);
	for (size_t i = o->tail_total - kept; i < o->tail_total; i++)
		*p++ = o->tail[i % OUTPUT_HALF];
	*p = '\0';
	result->length = p - result->output;
	/* A NUL in the output would hide what follows. */
	while ((p = memchr(result->output, '\0', result->length)))
		*p = ' ';
	return 0;
}

/* ---- running ----------------------------------------------------------- */

struct line {
	char text[128];
	size_t used;
};

struct running {
	enum tool_progress kind;
	const char *phase;
	struct dw_report *report;
	pid_t pid;
	int out, progress;       /* -1 when closed */
	struct output output;
	struct line line;        /* of the figures */
	unsigned pass, width, done; /* of resize2fs's bar */
	bool stopped;
};

static void tell(struct running *run, uint64_t done, uint64_t total)
{
	if (run->phase)
		dw_progress(run->report, run->phase, done, total, false);
}

/* True when C ends a line, which is then a string. */
static bool line_add(struct line *line, char c)
{
	if (c != '\n') {
		if (line->used < sizeof(line->text) - 1)
			line->text[line->used++] = c;
		return false;
	}
	line->text[line->used] = '\0';
	line->used = 0;
	return true;
}

/* Lines "PASS DONE TOTAL DEVICE".  A full check is five passes; the first
 * reads nearly everything. */
static void e2fsck_figures(struct running *run, const char *data, size_t length)
{
	static const unsigned short starts[] = { 0, 0, 700, 900, 920, 930, PERMILLE };
	unsigned long done, total;
	unsigned pass;

	for (size_t i = 0; i < length; i++)
		if (line_add(&run->line, data[i]) &&
		    sscanf(run->line.text, "%u %lu %lu", &pass, &done, &total) == 3 && pass >= 1 &&
		    pass <= 5 && total > 0 && done <= total)
			tell(run, starts[pass] + (starts[pass + 1] - starts[pass]) * (double)done / total,
			     PERMILLE);
}

/*
 * "Begin pass PASS ..." and then a bar: a label, dashes, as many backspaces,
 * and an X for each step done.  The backspaces and Xs are not kept.
 */
static void resize2fs_output(struct running *run, const char *data, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (data[i] == '\b') {
			run->width++;
		} else if (data[i] == 'X' && run->width > 0) {
			run->done += run->done < run->width;
			if (run->pass >= 1 && run->pass <= 5)
				tell(run, (run->pass - 1) * 200 + run->done * 200ull / run->width, PERMILLE);
		} else {
			/* What interrupts a bar is not of its line. */
			if (run->width > 0 && data[i] != '\n')
				output_add(&run->output, "\n", 1);
			run->width = run->done = 0;
			output_add(&run->output, &data[i], 1);
			if (line_add(&run->line, data[i]))
				sscanf(run->line.text, "Begin pass %u", &run->pass);
		}
	}
}

/* Read what there is and hand it on; close at the end. */
static void take(struct running *run, int *fd)
{
	char buffer[16384];
	ssize_t n = read(*fd, buffer, sizeof(buffer));

	if (n < 0 && errno == EINTR)
		return;
	if (n <= 0) {
		close(*fd);
		*fd = -1;
	} else if (fd == &run->progress) {
		e2fsck_figures(run, buffer, n);
	} else if (run->kind == TOOL_RESIZE2FS) {
		resize2fs_output(run, buffer, n);
	} else {
		output_add(&run->output, buffer, n);
	}
}

static time_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

static void listen_to(struct running *run)
{
	time_t asked = 0;

	while (run->out >= 0) {
		struct pollfd fds[2] = { { run->out, POLLIN, 0 }, { run->progress, POLLIN, 0 } };

		poll(fds, 2, POLL_MS);
		if (fds[0].revents)
			take(run, &run->out);
		if (fds[1].revents)
			take(run, &run->progress);
		if (!run->stopped && dw_interrupted(run->report)) {
			run->stopped = true;
			asked = now();
			kill(-run->pid, SIGTERM);
		} else if (run->stopped && now() - asked > GRACE_SECONDS) {
			kill(-run->pid, SIGKILL);
		}
	}
}

/* ---- the child --------------------------------------------------------- */

/*
 * Between fork and exec: only what a signal handler may do.  In a process
 * group of its own, so that a Ctrl-C reaches the caller, who decides, and not
 * the program; and not to outlive the caller.
 */
static void child(const char *path, const char *const *argv, int out, int progress, pid_t parent)
{
	static char *const environment[] = { (char *)"PATH=" TOOL_PATH, (char *)"LC_ALL=C", NULL };
	int null = fcntl(open("/dev/null", O_RDONLY | O_CLOEXEC), F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	if (dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0)
		_exit(127);
	if (progress >= 0)
		fcntl(progress, F_SETFD, 0);
	execve(path, (char *const *)argv, environment);
	_exit(127);
}

/* A pipe that does not lie where the child's standard files will. */
static int open_pipe(int fds[2])
{
	int low[2], r = 0;

	if (pipe2(low, O_CLOEXEC) < 0)
		return -errno;
	for (int i = 0; i < 2; i++) {
		fds[i] = fcntl(low[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		if (fds[i] < 0)
			r = -errno;
		close(low[i]);
	}
	return r;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

static int find_program(const char *name, char path[PATH_SIZE], struct dw_report *report)
{
	static const struct {
		const char *program, *package;
	} packages[] = {
		{ "e2fsck", "e2fsprogs" },   { "tune2fs", "e2fsprogs" },  { "resize2fs", "e2fsprogs" },
		{ "mke2fs", "e2fsprogs" },   { "dumpe2fs", "e2fsprogs" }, { "debugfs", "e2fsprogs" },
		{ "fusermount3", "fuse3" },
	};

	for (const char *p = TOOL_PATH; *p;) {
		size_t n = strcspn(p, ":");

		if (snprintf(path, PATH_SIZE, "%.*s/%s", (int)n, p, name) < PATH_SIZE &&
		    access(path, X_OK) == 0)
			return 0;
		p += n + (p[n] == ':');
	}
	dw_fail(report, DW_REFUSED, ENOENT, "the program %s is not installed", name);
	for (size_t i = 0; i < sizeof(packages) / sizeof(packages[0]); i++)
		if (strcmp(packages[i].program, name) == 0)
			dw_hint(report, "`apt-get install %s`", packages[i].package);
	return -ENOENT;
}

/* ---- the whole --------------------------------------------------------- */

static int wait_for(struct running *run, struct tool_result *result)
{
	int status;

	while (waitpid(run->pid, &status, 0) < 0)
		if (errno != EINTR)
			return dw_fail(run->report, DW_FAILED, errno, "lost sight of a program: %s",
				       strerror(errno));
	result->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	if (run->stopped)
		return dw_fail(run->report, DW_FAILED, EINTR, "interrupted; the disk is as it was");
	return output_join(&run->output, result);
}

static int start(struct running *run, const char *path, const char *const *argv, int out, int progress)
{
	pid_t parent = getpid();

	run->pid = fork();
	if (run->pid < 0)
		return dw_fail(run->report, DW_FAILED, errno, "cannot start %s: %s", argv[0],
			       strerror(errno));
	if (run->pid == 0)
		child(path, argv, out, progress, parent);
	setpgid(run->pid, run->pid); /* whoever comes first */
	return 0;
}

/* ARGV with what makes the program tell how far it is. */
static int arguments(const char *const *argv, enum tool_progress kind, const char *fd,
		     const char *args[TOOL_ARGS + 1])
{
	size_t n = 0;

	args[n++] = *argv++;
	if (kind == TOOL_E2FSCK) {
		args[n++] = "-C";
		args[n++] = fd;
	} else if (kind == TOOL_RESIZE2FS) {
		args[n++] = "-p";
	}
	while (*argv && n < TOOL_ARGS)
		args[n++] = *argv++;
	args[n] = NULL;
	return *argv ? -E2BIG : 0;
}

int tool_run(const char *const *argv, enum tool_progress kind, const char *phase,
	     struct tool_result *result, struct dw_report *report)
{
	struct running run = { .kind = kind, .phase = phase, .report = report };
	int out[2] = { -1, -1 }, progress[2] = { -1, -1 }, r;
	char path[PATH_SIZE], fd[16];
	const char *args[TOOL_ARGS + 1];

	*result = (struct tool_result){ 0 };
	r = find_program(argv[0], path, report);
	if (r < 0)
		return r;
	run.output.head = malloc(OUTPUT_HALF);
	run.output.tail = malloc(OUTPUT_HALF);
	r = run.output.head && run.output.tail ? open_pipe(out) : -ENOMEM;
	if (r == 0 && kind == TOOL_E2FSCK)
		r = open_pipe(progress);
	snprintf(fd, sizeof(fd), "%d", progress[1]);
	if (r == 0)
		r = arguments(argv, kind, fd, args);
	if (r == 0)
		r = start(&run, path, args, out[1], progress[1]);
	close_fd(out[1]);
	close_fd(progress[1]);
	run.out = out[0];
	run.progress = progress[0];
	if (r == 0) {
		tell(&run, 0, 0);
		listen_to(&run);
		r = wait_for(&run, result);
	}
	close_fd(run.out);
	close_fd(run.progress);
	free(run.output.head);
	free(run.output.tail);
	return r;
}

void tool_result_free(struct tool_result *result)
{
	free(result->output);
	*result = (struct tool_result){ 0 };
}

/* The line that begins at START, without what is at its end. */
static const char *line_at(const char *start, char *buffer, size_t size)
{
	size_t length = strcspn(start, "\r\n");

	while (length > 0 && strchr(" \t", start[length - 1]))
		length--;
	snprintf(buffer, size, "%.*s", (int)length, start);
	return buffer;
}

const char *tool_reason(const struct tool_result *result, const char *program, char *buffer, size_t size)
{
	const char *output = result->output ? result->output : "", *named = NULL, *last = output, *next;
	size_t length = strlen(program);

	for (const char *line = output; *line; line = next) {
		next = line + strcspn(line, "\n");
		next += *next == '\n';
		if (strspn(line, " \t\r\n") >= (size_t)(next - line))
			continue;
		last = line;
		if (strncmp(line, program, length) == 0 && strncmp(line + length, ": ", 2) == 0)
			named = line + length + 2;
	}
	return line_at(named ? named : last, buffer, size);
}
