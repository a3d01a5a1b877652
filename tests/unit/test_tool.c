/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <linux/close_range.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "image.h"
#include "stage/tool.h"

static struct tool_result result;

/* Run `sh -c SCRIPT`. */
static int run_shell(const char *script, struct dw_report *report)
{
	const char *argv[] = { "sh", "-c", script, NULL };

	return tool_run(argv, TOOL_NO_PROGRESS, "shell", &result, report);
}

static int forget(void **state)
{
	tool_result_free(&result);
	return 0;
}

static void exit_status_is_handed_back(void **state)
{
	assert_int_equal(run_shell("exit 7", NULL), 0);
	assert_int_equal(result.exit_code, 7);
	assert_string_equal(result.output, "");
}

static void signal_is_128_and_its_number(void **state)
{
	assert_int_equal(run_shell("kill -9 $$", NULL), 0);
	assert_int_equal(result.exit_code, 137);
}

static void both_outputs_are_captured_in_order(void **state)
{
	char line[8];

	assert_int_equal(run_shell("echo one; echo two >&2; printf 'a\\000b\\n \\n'", NULL), 0);
	assert_string_equal(result.output, "one\ntwo\na b\n \n");
	assert_int_equal(result.length, strlen(result.output));
	assert_string_equal(tool_reason(&result, "sh", line, sizeof(line)), "a b");
	assert_string_equal(tool_reason(&(struct tool_result){ 0 }, "sh", line, sizeof(line)), "");
}

static void the_reason_is_what_the_program_says_of_itself(void **state)
{
	char line[32];

	assert_int_equal(run_shell("echo 'fsck: one'; echo 'fsck: two '; echo 'try fsck: -b'; echo ' or -c'", NULL), 0);
	assert_string_equal(tool_reason(&result, "fsck", line, sizeof(line)), "two");
	assert_string_equal(tool_reason(&result, "fsc", line, sizeof(line)), " or -c");
}

static void long_output_is_cut_in_the_middle(void **state)
{
	assert_int_equal(run_shell("seq 100000", NULL), 0);
	assert_true(result.length <= 256 * 1024 + 16);
	assert_int_equal(strncmp(result.output, "1\n2\n3\n", 6), 0);
	assert_non_null(strstr(result.output, "\n[...]\n"));
	assert_string_equal(result.output + result.length - 13, "99999\n100000\n");
	tool_result_free(&result);

	assert_int_equal(run_shell("head -c 262144 /dev/zero | tr '\\000' x", NULL), 0);
	assert_int_equal(result.length, 262144);
	assert_int_equal(strspn(result.output, "x"), 262144);
}

static void missing_program_is_named(void **state)
{
	const char *argv[] = { "diskwright-no-such-program", NULL };
	struct dw_report report = { 0 };

	assert_int_equal(tool_run(argv, TOOL_NO_PROGRESS, "none", &result, &report), -ENOENT);
	assert_int_equal(report.status, DW_REFUSED);
	assert_non_null(strstr(report.message, argv[0]));
}

static void too_many_arguments_are_not_dropped(void **state)
{
	const char *argv[TOOL_ARGS + 2] = { "echo" };

	for (size_t i = 1; i < TOOL_ARGS; i++)
		argv[i] = "x";
	assert_int_equal(tool_run(argv, TOOL_NO_PROGRESS, "echo", &result, NULL), 0);
	assert_int_equal(result.length, 2 * (TOOL_ARGS - 1));
	tool_result_free(&result);
	argv[TOOL_ARGS] = "x";
	assert_int_equal(tool_run(argv, TOOL_NO_PROGRESS, "echo", &result, NULL), -E2BIG);
}

static void environment_is_path_and_locale(void **state)
{
	setenv("E2FSCK_CONFIG", "/nowhere", 1);
	setenv("LC_MESSAGES", "de_DE.UTF-8", 1);
	assert_int_equal(tool_run((const char *[]){ "env", NULL }, TOOL_NO_PROGRESS, "env", &result, NULL), 0);
	assert_string_equal(result.output,
			    "PATH=/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin\nLC_ALL=C\n");
}

static void input_ends_at_once(void **state)
{
	assert_int_equal(tool_run((const char *[]){ "cat", NULL }, TOOL_NO_PROGRESS, "cat", &result, NULL), 0);
	assert_int_equal(result.exit_code, 0);
	assert_int_equal(result.length, 0);
}

/* Nothing but the three standard files and what `ls` opens itself. */
static void no_descriptor_is_inherited(void **state)
{
	/* What this test was started with is not the library's affair. */
	assert_int_equal(close_range(3, ~0U, CLOSE_RANGE_CLOEXEC), 0);
	assert_int_equal(run_shell("ls /proc/self/fd", NULL), 0);
	assert_string_equal(result.output, "0\n1\n2\n3\n");
}

static void closed_standard_files_do_no_harm(void **state)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		const char *argv[] = { "e2fsck", "-V", NULL };

		close(0);
		close(1);
		close(2);
		if (tool_run(argv, TOOL_E2FSCK, "version", &result, NULL) < 0)
			_exit(1);
		_exit(strstr(result.output, "e2fsck") ? 0 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* ---- interruption ------------------------------------------------------ */

static bool after_three_questions(void *opaque)
{
	return ++*(int *)opaque > 3;
}

static time_t interrupt(const char *script)
{
	int questions = 0;
	struct dw_report report = { .interrupted = after_three_questions, .opaque = &questions };
	time_t start = time(NULL);

	assert_int_equal(run_shell(script, &report), -EINTR);
	assert_int_equal(report.status, DW_FAILED);
	assert_null(result.output);
	return time(NULL) - start;
}

static void interrupted_program_is_stopped(void **state)
{
	/* The shell's child holds the output open: both must go. */
	assert_true(interrupt("sleep 60 & wait") < 4);
}

static void deaf_program_is_killed(void **state)
{
	time_t took = interrupt("trap '' TERM; sleep 60; sleep 60");

	assert_in_range(took, 4, 20);
}

static void terminal_does_not_reach_the_program(void **state)
{
	char *end;
	long pid;

	/* The fifth field of stat is the process group. */
	assert_int_equal(run_shell("echo $$; cut -d' ' -f5 /proc/$$/stat", NULL), 0);
	pid = strtol(result.output, &end, 10);
	assert_int_equal(strtol(end, NULL, 10), pid);
	assert_int_not_equal(pid, getpgrp());
}

static void program_dies_with_its_owner(void **state)
{
	char pid_text[32] = "";
	int status, ready[2];
	pid_t owner, tool;

	assert_int_equal(pipe(ready), 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	owner = fork();
	if (owner == 0) {
		char script[64];

		snprintf(script, sizeof(script), "echo $$ >/proc/%d/fd/%d; sleep 60", getppid(), ready[1]);
		run_shell(script, NULL);
		_exit(0);
	}
	assert_true(read(ready[0], pid_text, sizeof(pid_text) - 1) > 0);
	tool = strtol(pid_text, NULL, 10);
	kill(owner, SIGKILL);
	assert_int_equal(waitpid(owner, &status, 0), owner);
	assert_int_equal(waitpid(tool, &status, 0), tool);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	/* The shell's own child is not waited for; it is this test's now. */
	kill(-tool, SIGKILL);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	close(ready[0]);
	close(ready[1]);
}

/* ---- progress ---------------------------------------------------------- */

struct figures {
	unsigned count;
	uint64_t last;
	bool ascending;
};

static void note_figures(void *opaque, const struct dw_progress *p)
{
	struct figures *f = opaque;

	assert_string_equal(p->phase, "working");
	if (p->total == 0)
		return;
	assert_int_equal(p->total, 1000);
	f->ascending &= p->done >= f->last;
	f->last = p->done;
	f->count++;
}

static struct figures run_with_figures(const char *const *argv, enum tool_progress kind)
{
	struct figures figures = { .ascending = true };
	struct dw_report report = { .progress = note_figures, .opaque = &figures };

	assert_int_equal(tool_run(argv, kind, "working", &result, &report), 0);
	assert_int_equal(result.exit_code, 0);
	return figures;
}

static void e2fsck_tells_how_far_it_is(void **state)
{
	const char *argv[] = { "e2fsck", "-f", "-n", "fs", NULL };
	struct figures figures;

	image_make("fs", 64 * IMAGE_MIB);
	assert_int_equal(image_run("mke2fs -q -t ext4 -F fs 2>/dev/null"), 0);
	figures = run_with_figures(argv, TOOL_E2FSCK);
	assert_true(figures.count >= 5 && figures.ascending);
	assert_int_equal(figures.last, 1000);
	/* The figures went their own way. */
	assert_non_null(strstr(result.output, "Pass 5"));
	assert_null(strstr(result.output, "fs\n1 "));
}

static void resize2fs_tells_how_far_it_is(void **state)
{
	const char *argv[] = { "resize2fs", "fs", "24M", NULL };
	struct figures figures;

	/* Data at the end, so that there is something to relocate. */
	image_make("fs", 64 * IMAGE_MIB);
	assert_int_equal(image_run("mke2fs -q -t ext2 -b 1024 -F fs 2>/dev/null"), 0);
	assert_int_equal(image_run("dd if=/dev/urandom of=big bs=1M count=40 2>/dev/null;"
				   "dd if=/dev/urandom of=small bs=1M count=8 2>/dev/null;"
				   "debugfs -w -R 'write big big' fs >/dev/null 2>&1;"
				   "debugfs -w -R 'write small small' fs >/dev/null 2>&1;"
				   "debugfs -w -R 'rm big' fs >/dev/null 2>&1;"
				   "e2fsck -fy fs >/dev/null 2>&1"), 0);
	figures = run_with_figures(argv, TOOL_RESIZE2FS);
	assert_true(figures.count >= 40 && figures.ascending);
	assert_in_range(figures.last, 400, 1000);
	assert_null(strchr(result.output, '\b'));
	assert_null(strstr(result.output, "XX"));
	assert_non_null(strstr(result.output, "is now 24576 (1k) blocks long"));
	assert_int_equal(image_run("e2fsck -fn fs >/dev/null 2>&1"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(exit_status_is_handed_back, forget),
		cmocka_unit_test_teardown(signal_is_128_and_its_number, forget),
		cmocka_unit_test_teardown(both_outputs_are_captured_in_order, forget),
		cmocka_unit_test_teardown(the_reason_is_what_the_program_says_of_itself, forget),
		cmocka_unit_test_teardown(long_output_is_cut_in_the_middle, forget),
		cmocka_unit_test_teardown(missing_program_is_named, forget),
		cmocka_unit_test_teardown(too_many_arguments_are_not_dropped, forget),
		cmocka_unit_test_teardown(environment_is_path_and_locale, forget),
		cmocka_unit_test_teardown(input_ends_at_once, forget),
		cmocka_unit_test_teardown(no_descriptor_is_inherited, forget),
		cmocka_unit_test_teardown(closed_standard_files_do_no_harm, forget),
		cmocka_unit_test_teardown(interrupted_program_is_stopped, forget),
		cmocka_unit_test_teardown(deaf_program_is_killed, forget),
		cmocka_unit_test_teardown(terminal_does_not_reach_the_program, forget),
		cmocka_unit_test_teardown(program_dies_with_its_owner, forget),
		cmocka_unit_test_teardown(e2fsck_tells_how_far_it_is, forget),
		cmocka_unit_test_teardown(resize2fs_tells_how_far_it_is, forget),
	};

	return cmocka_run_group_tests(tests, image_directory_make, image_directory_remove);
}
