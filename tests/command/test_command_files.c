// SPDX-License-Identifier: MIT
/* The command's files: refused ones, odd names, and files that are cut off under it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/command.h"

#define NOBODY 65534

/* Each by a sentence, and as JSON. */
static void check_refused(const char *path, int status, int error, const char *part, uid_t uid)
{
	struct command command = { .args = { "run", "histogram", "--", path }, .uid = uid };
	AUTO(outcome) outcome = { 0 };

	CHECK_RUN(status, &outcome, &command);
	CHECK_EQUAL(strlen(outcome.out), 0);
	CHECK_HAS(outcome.err, part);

	command.args[2] = "--json";
	CHECK_RUN(status, &outcome, &command);
	CHECK_EQUAL(strlen(outcome.err), 0);
	check_failure_json(&outcome, error);
}

static void test_refused(void)
{
	AUTO_TEXT *folder = folder_make(), *fifo = folder_path(folder, "fifo");
	AUTO_TEXT *missing = folder_path(folder, "missing"),
		  *loop = folder_path(folder, "loop");

	CHECK_EQUAL(mkfifo(fifo, 0644), 0);
	CHECK_EQUAL(symlink("loop", loop), 0);
	check_refused(missing, 2, ENOENT, "No such file", 0);
	check_refused(folder, 2, EISDIR, "is a directory", 0);
	check_refused(fifo, 2, ESPIPE, "is a FIFO", 0);
	check_refused(loop, 2, ELOOP, "symbolic links", 0);
	check_refused("/dev/zero", 2, EINVAL, "character device", 0);
	check_refused("/proc/self/status", 2, EINVAL, "made by the kernel", 0);
	/* Reading a byte at their beginning fails. */
	check_refused("/proc/self/mem", 2, EINVAL, "made by the kernel", 0);
	check_refused("/proc/self/pagemap", 2, EINVAL, "made by the kernel", 0);
	check_refused("/sys/kernel/mm/transparent_hugepage/enabled", 2, EINVAL,
		      "made by the kernel", 0);
	check_refused("/etc/passwd/x", 2, ENOTDIR, "Not a directory", 0);
	check_refused("", 2, ENOENT, "No such file", 0);
	check_refused("-", 2, ENOENT, "standard input", 0);
}

/* The mode bits of the first class that matches a user count, whatever the rest allow. */
static void test_unreadable(void)
{
	const bool root = geteuid() == 0;
	const uid_t owner = root ? NOBODY : geteuid();
	const gid_t group = root ? NOBODY : getegid();
	const struct {
		uid_t owner;
		gid_t group;
		mode_t mode;
		const char *says;
	} cases[] = {
		{ owner, group, 0000, "mode 0000: allow yourself to read it (chmod u+r)" },
		{ owner, group, 0044, "mode 0044: allow yourself to read it (chmod u+r)" },
		/* Root reads everything: there another user tries, on files of further users. */
		{ 0, NOBODY, 0604,
		  "mode 0604: run it with sudo, or have its owner allow it (chmod g+r)" },
		{ 0, 1, 0600,
		  "mode 0600: run it with sudo, or have its owner allow it (chmod o+r)" },
		{ 0, 1, 0640, "mode 0640: join the group (sudo adduser " },
	};
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "secret");
	size_t i, n = sizeof(cases) / sizeof(cases[0]);

	file_write(folder, "secret", "x", 1);
	CHECK(!chmod(folder, 0755));
	for (i = 0; i < (root ? n : 2); i++) {
		CHECK(!chown(path, cases[i].owner, cases[i].group));
		CHECK(!chmod(path, cases[i].mode));
		check_refused(path, 3, EACCES, cases[i].says, root ? NOBODY : 0);
	}
}

static void check_name(const char *folder, const char *name, const char *shown,
		       const char *in_json)
{
	struct command command = { .args = { "run", "histogram", "--quiet", ON_CPU, "--",
					     name } };
	char line[256];
	AUTO(outcome) outcome = { 0 };
	AUTO(json_t) *json = NULL;

	file_write(folder, name, "ab", 2);
	CHECK_EQUAL(chdir(folder), 0);
	CHECK_RUN(0, &outcome, &command);
	snprintf(line, sizeof(line), "%s: 2 bytes\n", shown);
	if (strncmp(outcome.out, line, strlen(line)) != 0)
		test_fail(__FILE__, __LINE__, "%s is shown as %.40s", shown, outcome.out);
	command.args[2] = "--json";
	command_run(&command, &outcome);
	json = outcome_json(&outcome);
	CHECK(!strcmp(string_of(json, "file"), in_json));
	CHECK_EQUAL(chdir("/"), 0);
}

static void test_names(void)
{
	AUTO_TEXT *folder = folder_make();

	setenv("LC_ALL", "C.UTF-8", 1);
	check_name(folder, "a b", "a b", "a b");
	check_name(folder, "$HOME", "$HOME", "$HOME");
	check_name(folder, "-dash", "-dash", "-dash");
	check_name(folder, "--json", "--json", "--json");
	check_name(folder, "new\nline", "new\\nline", "new\nline");
	check_name(folder, "\033[31mred", "\\x1b[31mred", "\033[31mred");
	check_name(folder, "\xff\xfe", "\\xff\\xfe", "\\xff\\xfe");
	check_name(folder, "\"quoted\"", "\"quoted\"", "\"quoted\"");
	check_name(folder,
		   "sm\xc3\xb8rrebr\xc3\xb8"
		   "d",
		   "sm\xc3\xb8rrebr\xc3\xb8"
		   "d",
		   "sm\xc3\xb8rrebr\xc3\xb8"
		   "d");
	setenv("LC_ALL", "C", 1);
	check_name(folder, "\xc3\xb8", "\\xc3\\xb8", "\xc3\xb8");
}

static void check_truncated(const char *folder, const char *accel, bool as_json)
{
	AUTO_TEXT *path = folder_path(folder, "data");
	const struct command command = { .args = { "run", "histogram", "--accel", accel,
						   "--rounds", "1000",
						   as_json ? "--json" : "--quiet", path } };
	AUTO(outcome) outcome = { 0 };
	pid_t pid;

	file_sparse(folder, "data", 64 << 20);
	pid = command_start(&command);
	command_await(pid, SIGBUS, path);
	CHECK_EQUAL(truncate(path, 8192), 0);
	command_wait(pid, &outcome);
	CHECK_EQUAL(outcome.status, 1);
	if (as_json) {
		check_failure_json(&outcome, ENODATA);
	} else {
		CHECK_EQUAL(strlen(outcome.out), 0);
		CHECK(strstr(outcome.err, "was truncated") != NULL);
	}
}

static void test_truncated(void)
{
	AUTO_TEXT *folder = folder_make();

	check_truncated(folder, "cpu", false);
	check_truncated(folder, "cpu", true);
	/* That one copies the bytes: its launch fails. */
	check_truncated(folder, "soft:0", false);
	check_truncated(folder, "soft:0", true);
}

#define FILL 4096 /* of a pipe of one page */

/* All output of a pipe, behind the bytes that filled it. */
static char *read_behind_fill(int fd)
{
	char *text = calloc(1, 4 * FILL);
	size_t n = 0;
	ssize_t r;

	CHECK_FATAL(text != NULL);
	while (n < 4 * FILL - 1 && (r = read(fd, text + n, 4 * FILL - 1 - n)) > 0)
		n += (size_t)r;
	CHECK_FATAL(n >= FILL);
	memmove(text, text + FILL, n + 1 - FILL);
	return text;
}

/* Several threads meet the lost bytes, and one of them reports it; the pipe holds them there. */
static void test_truncated_at_once(void)
{
	char *text;
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "data");
	struct command command = { .args = { "run", "histogram", "--accel", "cpu", "--rounds",
					     "1000", "--json", path } };
	AUTO(outcome) outcome = { 0 };
	char fill[FILL] = { 0 };
	int pipes[2];
	pid_t pid;

	CHECK_FATAL(!pipe2(pipes, O_CLOEXEC));
	CHECK_EQUAL(fcntl(pipes[1], F_SETPIPE_SZ, FILL), FILL);
	CHECK_EQUAL(write(pipes[1], fill, FILL), FILL);
	command.out = pipes[1];
	file_sparse(folder, "data", 64 << 20);
	pid = command_start(&command);
	close(pipes[1]);
	command_await(pid, SIGBUS, path);
	CHECK_EQUAL(truncate(path, 8192), 0);
	/* The other threads meet it, too, while the first waits for room to report it. */
	usleep(300000);
	text = read_behind_fill(pipes[0]);
	command_wait(pid, &outcome);
	free(outcome.out);
	outcome.out = text;
	CHECK_EQUAL(outcome.status, 1);
	check_failure_json(&outcome, ENODATA);
	close(pipes[0]);
}

static const struct test tests[] = {
	{ .name = "refused", .run = test_refused, .seconds = 60 },
	{ .name = "unreadable", .run = test_unreadable },
	{ .name = "names", .run = test_names, .seconds = 60 },
	{ .name = "truncated", .run = test_truncated, .seconds = 60 },
	{ .name = "truncated_at_once", .run = test_truncated_at_once, .seconds = 60 },
	{ 0 },
};

TEST_MAIN(harness_main_once, "command_files", tests)
