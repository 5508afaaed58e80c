// SPDX-License-Identifier: MIT
/*
 * hetmap trace -p: processes that run are traced, which begin threads and children, or
 * become another program, meanwhile. This program is those of traced.c, too.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hetmap/published.h>

#include "perf/trace_support.h"

/* A program that is traced, and goes on where a byte is written to @to. */
struct attached {
	pid_t pid, tracer;
	int to;
	char *folder, *path; /* of the trace */
};

/* Waits until @name of the trace has @words in it. */
static void await_words(const struct attached *attached, const char *name, const char *words)
{
	char *path = folder_path(attached->path, name), *bytes;
	bool found = false;
	size_t length;
	int i;

	for (i = 0; i < 60 && !found; i++) {
		pause_a_while();
		if (access(path, R_OK))
			continue;
		bytes = read_all(path, &length);
		found = memmem(bytes, length, words, strlen(words)) != NULL;
		free(bytes);
	}
	if (!found)
		test_fail(__FILE__, __LINE__, "%s has no \"%s\"", name, words);
	free(path);
}

/* Does it wait for a byte? Where that can't be told, it has had its time. */
static bool is_waiting(pid_t pid)
{
	char path[32], text[64] = "", wanted[16];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)pid);
	snprintf(wanted, sizeof(wanted), "%d 0x0 ", SYS_read);
	file = fopen(path, "re");
	if (!file || !fgets(text, sizeof(text), file))
		strcpy(text, wanted);
	if (file)
		fclose(file);
	return !strncmp(text, wanted, strlen(wanted));
}

/* @ring: the size of a ring, and the command prints its opinion of it; NULL: the default. */
static struct attached attach_with(const char *program, const char *ring)
{
	struct command command = { .args = { "trace", ring ? "--ring" : "-q" } };
	struct attached attached = { 0 };
	char pid_text[16];
	int line[2], i = 2;

	need_trace();
	attached.folder = folder_make();
	attached.path = folder_path(attached.folder, "trace");
	CHECK_OK_FATAL(pipe2(line, O_CLOEXEC));
	attached.pid = fork();
	if (!attached.pid) {
		dup2(line[0], STDIN_FILENO);
		close(line[0]);
		close(line[1]);
		execl(self, self, "--traced", program, NULL);
		_exit(93);
	}
	close(line[0]);
	attached.to = line[1];
	/* Its memory is there before it is traced. */
	pause_a_while();
	while (!strcmp(program, "churning") && !is_waiting(attached.pid))
		usleep(1000);
	snprintf(pid_text, sizeof(pid_text), "%d", (int)attached.pid);
	if (ring)
		command.args[i++] = ring;
	command.args[i++] = "-o";
	command.args[i++] = attached.path;
	command.args[i++] = "-p";
	command.args[i] = pid_text;
	attached.tracer = command_start(&command);
	command_await(attached.tracer, SIGINT, "[perf_event]");
	/* The program's old maps are recorded when all its threads are attached. */
	await_words(&attached, "perf.data", "[stack]");
	return attached;
}

static struct attached attach(const char *program)
{
	return attach_with(program, NULL);
}

static void go_on(const struct attached *attached)
{
	CHECK_EQUAL(write(attached->to, "", 1), 1);
}

/* The program ends, and the trace with it: the report. @words: the tracer's message; NULL: none. */
static json_t *detach_saying(struct attached *attached, const char *words)
{
	AUTO(outcome) outcome = { 0 };
	json_t *json;

	close(attached->to);
	waitpid(attached->pid, NULL, 0);
	command_wait(attached->tracer, &outcome);
	CHECK_EQUAL(outcome.status, 0);
	if (words ? !strstr(outcome.err, words) : outcome.err[0] != '\0')
		test_fail(__FILE__, __LINE__, "it said: %s", outcome.err);
	json = report(attached->folder);
	free(attached->path);
	folder_remove(attached->folder);
	return json;
}

static json_t *detach(struct attached *attached)
{
	return detach_saying(attached, NULL);
}

/* @program touches its memory when it is told to. */
static void check_running(const char *program)
{
	AUTO(json_t) *json = NULL;
	struct attached attached = attach(program);

	go_on(&attached);
	json = detach(&attached);
	CHECK(!is_missing(json, "threads"));
	CHECK_EQUAL(integer_of(buffer_of(json, NAME), "minor"), TRACED_PAGES);
	CHECK_EQUAL(integer_of(buffer_of(json, NAME), "unfinished"), 0);
}

static void test_running(void)
{
	check_running("running");
}

/* Its threads end before their turn to be attached to: those that they started are had. */
static void test_starting(void)
{
	check_running("starting");
}

/* A program's names come from its own table, and after execve(2) from the new one's. */
static void test_executing(void)
{
	char copy[32];
	AUTO(json_t) *json = NULL;
	struct attached attached = attach("executing");

	snprintf(copy, sizeof(copy), "maps/maps.%d", (int)attached.pid);
	await_words(&attached, copy, "before");
	go_on(&attached);
	await_words(&attached, copy, "after");
	json = detach(&attached);
	CHECK_EQUAL(integer_of(buffer_of(json, "before"), "minor"), TRACED_BEFORE);
	CHECK_EQUAL(integer_of(buffer_of(json, "after"), "minor"), TRACED_AFTER);
}

/* The records until the tracer was killed are reported, with their names, and the kill. */
static void test_killed(void)
{
	AUTO(outcome) outcome = { 0 };
	char copy[32];
	AUTO(json_t) *json = NULL;
	struct attached attached = attach("executing");

	snprintf(copy, sizeof(copy), "maps/maps.%d", (int)attached.pid);
	go_on(&attached);
	await_words(&attached, copy, "after");
	/* The program's records are in the rings by now, and soon in the file. */
	pause_a_while();
	CHECK(!kill(attached.tracer, SIGKILL));
	command_wait(attached.tracer, &outcome);
	close(attached.to);
	waitpid(attached.pid, NULL, 0);
	json = report(attached.folder);
	CHECK(is_missing(json, "the recording is cut off"));
	CHECK(is_missing(json, "about.json is not there"));
	CHECK_EQUAL(integer_of(buffer_of(json, "after"), "minor"), TRACED_AFTER);
	free(attached.path);
	folder_remove(attached.folder);
}

/*
 * The rings are the smallest, and the tracer is stopped all the while: lost records are counted,
 * and both commands report them. Each fault is two records; a few lose only the first, as a ring
 * gets full or another one begins.
 */
static void test_loss(void)
{
	json_t *json, *buffer;
	int64_t lost, told;
	siginfo_t info;
	struct attached attached = attach_with("running", "64K");

	CHECK(!kill(attached.tracer, SIGSTOP));
	go_on(&attached);
	CHECK(!waitid(P_PID, (id_t)attached.pid, &info, WEXITED | WNOWAIT));
	CHECK(!kill(attached.tracer, SIGCONT));
	json = detach_saying(&attached, "records were lost: larger rings help");
	buffer = buffer_of(json, NAME);
	told = 2 * integer_of(buffer, "minor") + integer_of(buffer, "unfinished");
	lost = integer_of(json_object_get(json, "totals"), "lost");
	CHECK(told > 0 && told < TRACED_PAGES);
	if (lost + told + 64 < INT64_C(2) * TRACED_PAGES)
		test_fail(__FILE__, __LINE__, "%lld records lost, %lld told", (long long)lost,
			  (long long)told);
	CHECK(is_missing(json, "records were lost: the rings were full"));
	json_decref(json);
}

/* The table's copy has all of a first look, and its head is written behind that. */
static void await_first_look(const struct attached *attached)
{
	struct hm_published_head head = { .used = 0 };
	char name[32], *path;
	int fd;

	snprintf(name, sizeof(name), "maps/maps.%d", (int)attached->pid);
	path = folder_path(attached->path, name);
	do {
		usleep(1000);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (pread(fd, &head, sizeof(head), 0) != sizeof(head))
			head.used = 0;
		close(fd);
	} while (!head.used);
	free(path);
}

/* Maps that a table forgot before the trace are not missing. */
static void test_churned_before(void)
{
	AUTO(json_t) *json = NULL;
	struct attached attached = attach("churning");

	await_first_look(&attached);
	json = detach(&attached);
	CHECK(!is_missing(json, "had ended"));
}

/* Maps that it forgets while the tracer is stopped are missing, and are counted. */
static void test_churned(void)
{
	AUTO(json_t) *json = NULL;
	siginfo_t info;
	struct attached attached = attach_with("churning", "512K");

	await_first_look(&attached);
	CHECK(!kill(attached.tracer, SIGSTOP));
	go_on(&attached);
	CHECK(!waitid(P_PID, (id_t)attached.pid, &info, WEXITED | WNOWAIT));
	CHECK(!kill(attached.tracer, SIGCONT));
	json = detach_saying(&attached, "page faults");
	CHECK(is_missing(json, "maps had ended, and left the library's own table"));
}

static unsigned int descriptors_of(pid_t pid)
{
	struct dirent *entry;
	unsigned int n = 0;
	char path[32];
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	folder = opendir(path);
	while (folder && (entry = readdir(folder)))
		n += entry->d_name[0] != '.';
	if (folder)
		closedir(folder);
	return n;
}

/* A tracer of thousands of children has open only the files of the living ones. */
static void test_forking(void)
{
	unsigned int before, now, most = 0;
	siginfo_t info = { 0 };
	struct attached attached = attach("forking");

	before = descriptors_of(attached.tracer);
	go_on(&attached);
	while (!waitid(P_PID, (id_t)attached.pid, &info, WEXITED | WNOHANG | WNOWAIT) &&
	       !info.si_pid) {
		now = descriptors_of(attached.tracer);
		most = now > most ? now : most;
		usleep(10000);
	}
	/* The table and its copy of each, and of those before it that ended just now. */
	if (most > before + 2 * 2 * TRACED_AT_A_TIME + 16)
		test_fail(__FILE__, __LINE__, "%u descriptors at first, later %u", before,
			  most);
	/* The tracer did look: else it had no files to close. */
	CHECK(most > before);
	json_decref(detach(&attached));
}

/* The end is written also where a second signal comes right behind the first. */
static void test_interrupted(void)
{
	AUTO(outcome) outcome = { 0 };
	AUTO(json_t) *json = NULL;
	struct attached attached = attach("running");

	/* Both are there as it goes on. */
	CHECK(!kill(attached.tracer, SIGSTOP));
	CHECK(!kill(attached.tracer, SIGINT));
	CHECK(!kill(attached.tracer, SIGTERM));
	CHECK(!kill(attached.tracer, SIGCONT));
	command_wait(attached.tracer, &outcome);
	CHECK_EQUAL(outcome.status, 0);
	CHECK(!outcome.err[0]);
	close(attached.to);
	waitpid(attached.pid, NULL, 0);
	json = report(attached.folder);
	CHECK(!is_missing(json, "about.json is not there"));
	free(attached.path);
	folder_remove(attached.folder);
}

static const struct test tests[] = {
	{ "running", test_running, 60, TEST_ONCE },
	{ "starting", test_starting, 60, TEST_ONCE },
	{ "executing", test_executing, 90, TEST_ONCE },
	{ "killed", test_killed, 90, TEST_ONCE },
	{ "churned_before", test_churned_before, 90, TEST_ONCE },
	{ "churned", test_churned, 90, TEST_ONCE },
	{ "loss", test_loss, 90, TEST_ONCE },
	{ "interrupted", test_interrupted, 90, TEST_ONCE },
	{ "forking", test_forking, 120, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(trace_tests_main, "trace_attach", tests)
