// SPDX-License-Identifier: MIT
/* hetmap stat as a command: its status, its report, and that the command it runs is left alone. */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/stat_support.h"

/* The status of "hetmap stat ARG..."; its output goes to *ret_outcome. */
static int status_of(const struct command *command, struct outcome *ret_outcome)
{
	command_run(command, ret_outcome);
	return ret_outcome->status;
}

static void check_status(int expected, bool reported, const char *args[])
{
	/* A folder of PATH that may not be looked into makes 126 of 127. */
	struct command command = { .args = { "stat" }, .env = { "PATH=/usr/bin:/bin" } };
	AUTO(outcome) outcome = { 0 };
	int i;

	for (i = 0; args[i]; i++)
		command.args[i + 1] = args[i];
	if (status_of(&command, &outcome) != expected)
		test_fail(__FILE__, __LINE__, "stat %s %s %s: status %d, not %d", args[0],
			  args[1] ? args[1] : "", args[1] && args[2] ? args[2] : "",
			  outcome.status, expected);
	CHECK_EQUAL(strstr(outcome.err, "wall time") != NULL, reported);
	if (!reported)
		CHECK(!strncmp(outcome.err, "hetmap: ", 8));
}

#define ARGS(...) ((const char *[]){ __VA_ARGS__, NULL })

static void test_status(void)
{
	AUTO_TEXT *folder = folder_make(), *file = folder_path(folder, "file");
	AUTO_TEXT *script = folder_path(folder, "script");

	file_write(folder, "file", "#!/bin/sh\n", 10);
	file_write(folder, "script", "#!/no/such/interpreter\n", 23);
	CHECK_EQUAL(chmod(script, 0755), 0);
	check_status(0, true, ARGS("--", "true"));
	check_status(0, true, ARGS("true"));
	check_status(1, true, ARGS("--", "false"));
	check_status(42, true, ARGS("--", "sh", "-c", "exit 42"));
	/* Its options are its own, with and without "--". */
	check_status(43, true, ARGS("sh", "-c", "exit 43", "--json"));
	check_status(128 + SIGKILL, true, ARGS("--", "sh", "-c", "kill -KILL $$"));
	check_status(128 + SIGSEGV, true, ARGS("--", "sh", "-c", "kill -SEGV $$"));
	check_status(127, false, ARGS("--", "no-such-command"));
	check_status(127, false, ARGS("--", "/no/such/command"));
	check_status(127, false, ARGS("--", script));
	check_status(126, false, ARGS("--", folder));
	check_status(126, false, ARGS("--", file));
	check_status(125, false, ARGS("--"));
	check_status(125, false, ARGS("--no-such-option", "--", "true"));
	check_status(125, false, ARGS("-r", "0", "--", "true"));
	check_status(125, false, ARGS("-r", "ten", "--", "true"));
	check_status(125, false, ARGS("-o", folder, "--", "true"));
}

/* The last that was not 0, of all that were made. */
static void test_status_of_repetitions(void)
{
	static const char script[] =
		"echo >>\"$0\"; n=$(wc -l <\"$0\"); exit $((n % 4 * 3 % 9))";
	AUTO_TEXT *folder = folder_make(), *file = folder_path(folder, "file");
	struct stat st;

	file_write(folder, "file", "", 0);
	/* 3, 6, 0, 0 */
	check_status(6, true, ARGS("-r", "4", "--", "sh", "-c", script, file));
	CHECK_EQUAL(stat(file, &st), 0);
	CHECK_EQUAL(st.st_size, 4);
	/* The program is gone after its first run: the report has that run, and the reason. */
	CHECK_EQUAL(chmod(file, 0755), 0);
	file_write(folder, "file", "#!/bin/sh\nrm \"$0\"\n", 18);
	{
		const struct command command = { .args = { "stat", "-r", "3", "--", file } };
		AUTO(outcome) outcome = { 0 };

		CHECK_EQUAL(status_of(&command, &outcome), 127);
		CHECK(strstr(outcome.err, "1 of 3 runs were made") != NULL);
		CHECK(strstr(outcome.err, "cannot execute") != NULL);
	}
}

/* A failure is an object, as with all commands; nothing was run. */
static void test_failure_json(void)
{
	const struct command command = { .args = { "stat", "--json", "--",
						   "/no/such/command" } };
	AUTO(outcome) outcome = { 0 };

	CHECK_EQUAL(status_of(&command, &outcome), 127);
	check_failure_json(&outcome, ENOENT);
}

/* ---- the report ---- */

static void test_report(void)
{
	const struct command command = { .args = { "stat", "-r", "3", "--", "sh", "-c",
						   "echo said; echo complained >&2" },
					 .env = { "LC_ALL=C.UTF-8" } };
	const struct command plain = { .args = { "stat", "-r", "2", "true" },
				       .env = { "LC_ALL=C" } };
	AUTO(outcome) outcome = { 0 };

	CHECK_EQUAL(status_of(&command, &outcome), 0);
	CHECK(!strcmp(outcome.out, "said\nsaid\nsaid\n"));
	CHECK(!strncmp(outcome.err, "complained\ncomplained\ncomplained\n\nhetmap stat: sh -c",
		       52));
	CHECK(strstr(outcome.err, "mean and standard deviation of 3 runs") != NULL);
	CHECK(strstr(outcome.err, "± ") != NULL);
	CHECK(strstr(outcome.err, "minor faults") != NULL);
	CHECK(strstr(outcome.err, "/proc/vmstat") != NULL);
	CHECK(strstr(outcome.err, "/proc/buddyinfo") != NULL);
	check_lines(outcome.err);

	CHECK_EQUAL(status_of(&plain, &outcome), 0);
	CHECK(strstr(outcome.err, "+- ") != NULL && strstr(outcome.err, "±") == NULL);
}

static void test_output_file(void)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "report");
	const struct command command = { .args = { "stat", "--json", "-o", path, "--", "sh",
						   "-c",
						   "echo said; echo complained >&2; exit 3" } };
	const struct command full = { .args = { "stat", "-o", "/dev/full", "--", "echo",
						"said" } };
	const struct command closed = { .args = { "stat", "true" }, .err = -1 };
	AUTO(outcome) outcome = { 0 };
	AUTO(json_t) *report = NULL;

	CHECK_EQUAL(status_of(&command, &outcome), 3);
	CHECK(!strcmp(outcome.out, "said\n"));
	CHECK(!strcmp(outcome.err, "complained\n"));
	report = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
	CHECK_EQUAL(integer_of(report, "status"), 3);

	CHECK_EQUAL(status_of(&full, &outcome), 125);
	CHECK(!strcmp(outcome.out, "said\n"));
	CHECK(strstr(outcome.err, "/dev/full: No space left") != NULL);

	/* Only the status can tell. */
	CHECK_EQUAL(status_of(&closed, &outcome), 125);
}

/* ---- the machine's files ---- */

#define VMSTAT_1 \
	"nr_free_pages 7\ncompact_stall 10\nthp_fault_alloc 5\npgfault 100\npgsteal_kswapd 0\n"
#define VMSTAT_2 \
	"nr_free_pages 9\ncompact_stall 13\nthp_fault_alloc 5\npgfault 1100\npgsteal_kswapd 0\n"
#define BUDDY_1                                        \
	"Node 0, zone      DMA      0      0      0\n" \
	"Node 1, zone   Normal   1024  0 0 0 0 0 0 0 0 1 2\n"
#define BUDDY_2                                        \
	"Node 0, zone      DMA      0      0      0\n" \
	"Node 1, zone   Normal   512  0 0 0 0 0 0 0 0 2 2\n"

static const json_t *change_of(const json_t *report, const char *name)
{
	return json_object_get(json_object_get(report, "vmstat"), name);
}

/* The command itself puts the files of afterwards into their places. */
static json_t *put_machine(char *folder, char *setting, const char *option)
{
	static const char script[] =
		"cd \"$HETMAP_ROOT\" && mv 2 proc/vmstat && mv b proc/buddyinfo";
	const struct command command = { .args = { option, "sh", "-c", script },
					 .env = { setting } };

	file_write(folder, "proc/vmstat", VMSTAT_1, strlen(VMSTAT_1));
	file_write(folder, "2", VMSTAT_2, strlen(VMSTAT_2));
	file_write(folder, "proc/buddyinfo", BUDDY_1, strlen(BUDDY_1));
	file_write(folder, "b", BUDDY_2, strlen(BUDDY_2));
	return stat_json(&command, 0);
}

static void check_zone(const json_t *zone, int node, uint64_t pages, double share,
		       double unusable)
{
	CHECK_EQUAL(integer_of(zone, "node"), node);
	CHECK_EQUAL(integer_of(zone, "free_pages"), pages);
	/* In pages of 4 KiB. */
	if (sysconf(_SC_PAGESIZE) == 4096)
		CHECK(real_of(zone, "share_2m") > share - 0.001 &&
		      real_of(zone, "share_2m") < share + 0.001);
	CHECK(real_of(zone, "unusable_order_9") > unusable - 0.0001 &&
	      real_of(zone, "unusable_order_9") < unusable + 0.0001);
}

static void test_machine(void)
{
	AUTO_TEXT *folder = folder_make(), *setting = NULL;
	const json_t *before, *after;
	json_t *report;

	CHECK_FATAL(asprintf(&setting, "HETMAP_ROOT=%s", folder) > 0);
	report = put_machine(folder, setting, "--");
	/* Counters that changed; a gauge is no counter. */
	CHECK_EQUAL(json_object_size(json_object_get(report, "vmstat")), 2);
	CHECK(real_of(change_of(report, "compact_stall"), "mean") == 3);
	CHECK(real_of(change_of(report, "pgfault"), "mean") == 1000);
	before = json_object_get(report, "free_before");
	after = json_object_get(report, "free_after");
	CHECK_EQUAL(json_array_size(before), 2);
	/* mm/vmstat.c: no free memory is all unusable. */
	check_zone(json_array_get(before, 0), 0, 0, 0, 1);
	/* 1024 + 512 + 2 * 1024 pages; two thirds, and five sevenths of them in large blocks. */
	check_zone(json_array_get(before, 1), 1, 3584, 2560.0 / 3584, 0.285);
	check_zone(json_array_get(after, 1), 1, 3584, 3072.0 / 3584, 0.142);
	json_decref(report);

	report = put_machine(folder, setting, "--verbose");
	CHECK_EQUAL(json_object_size(json_object_get(report, "vmstat")), 4);
	CHECK(real_of(change_of(report, "thp_fault_alloc"), "mean") == 0);
	json_decref(report);
}

/* Unreadable files are reported as unknown, with a reason; nonsense is no zone. */
static void test_unreadable(void)
{
	AUTO_TEXT *folder = folder_make(), *setting = NULL;
	struct command command = { .args = { "--", "true" } };
	struct command text = { .args = { "stat", "--", "true" } };
	AUTO(outcome) outcome = { 0 };
	json_t *report;

	CHECK_FATAL(asprintf(&setting, "HETMAP_ROOT=%s", folder) > 0);
	command.env[0] = text.env[0] = setting;
	report = stat_json(&command, 0);
	CHECK(json_is_null(json_object_get(report, "vmstat")));
	CHECK(strstr(string_of(report, "vmstat_unknown"), "No such file") != NULL);
	CHECK(strstr(string_of(report, "free_unknown"), "No such file") != NULL);
	stat_check_told(report, "minor_faults");
	json_decref(report);
	CHECK_RUN(0, &outcome, &text);
	CHECK(strstr(outcome.err, "The whole machine meanwhile: not known") != NULL);
	CHECK(strstr(outcome.err, "Free memory: not known") != NULL);
	check_lines(outcome.err);

	file_write(folder, "proc/vmstat", "pgfault\n\n\xff\xfe 3\npgfault x\n", 25);
	file_write(folder, "proc/buddyinfo", "Node x, zone\nNode 0, zone Normal\n\n", 34);
	report = stat_json(&command, 0);
	CHECK_EQUAL(json_object_size(json_object_get(report, "vmstat")), 0);
	CHECK(strstr(string_of(report, "free_unknown"), "no zone") != NULL);
	json_decref(report);
}

static void keep_standard(void)
{
	close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
}

/* Each counter is a descriptor: without one it is not counted, or not even begun. */
static void test_few_descriptors(void)
{
	const struct command few = { .args = { "--", "true" },
				     .resource = RLIMIT_NOFILE,
				     .limit = 8,
				     .prepare = keep_standard };
	const struct command none = { .args = { "stat", "--", "true" },
				      .resource = RLIMIT_NOFILE,
				      .limit = 5,
				      .prepare = keep_standard };
	AUTO(outcome) outcome = { 0 };
	AUTO(json_t) *report = stat_json(&few, 0);
	bool refused;

	/* Above 1 of perf_event_paranoid, ordinary users are refused some counters before that. */
	refused = !json_is_null(json_object_get(report, "perf_refused"));
	CHECK(geteuid() || !refused);
	CHECK(refused ||
	      strstr(stat_text(report, "itlb_misses", "not_counted"), "Too many open") != NULL);
	stat_check_told(report, "itlb_misses");
	CHECK(!strcmp(stat_text(report, "minor_faults", "source"), "wait4"));
	CHECK(stat_mean(report, "minor_faults") > 0);

	CHECK_EQUAL(status_of(&none, &outcome), 125);
	CHECK(strstr(outcome.err, "raise ulimit -n") != NULL);
}

/* ---- the command is left alone ---- */

/* As a shell, a daemon or nohup(1) may leave them. */
static void set_signals(void)
{
	sigset_t set;

	signal(SIGINT, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

/* The program's own report of its surroundings without hetmap. */
static void read_surroundings(void (*prepare)(void), char text[4096])
{
	const char *const args[] = { stat_self(), "--act", "ignored", NULL };
	int ends[2];
	ssize_t n;
	pid_t pid;

	CHECK_FATAL(pipe2(ends, O_CLOEXEC) == 0);
	pid = fork();
	if (!pid) {
		/* As command_start() does. */
		alarm(0);
		dup2(ends[1], STDOUT_FILENO);
		if (prepare)
			prepare();
		execv(args[0], (char *const *)args);
		_exit(70);
	}
	close(ends[1]);
	n = read(ends[0], text, 4095);
	CHECK_FATAL(n > 0 && waitpid(pid, NULL, 0) == pid);
	text[n] = '\0';
	close(ends[0]);
}

/* The caught, ignored and blocked signals and the open descriptors: as without hetmap. */
static void test_surroundings(void)
{
	static void (*const prepares[])(void) = { NULL, set_signals };
	struct command command = { .args = { "stat", "-o", "/dev/null", "--", stat_self(),
					     "--act", "ignored" } };
	AUTO(outcome) outcome = { 0 };
	char text[4096];
	size_t i;

	for (i = 0; i < 2; i++) {
		command.prepare = prepares[i];
		read_surroundings(prepares[i], text);
		CHECK_EQUAL(status_of(&command, &outcome), 0);
		if (strcmp(outcome.out, text) != 0)
			test_fail(__FILE__, __LINE__, "with hetmap:\n%s\nwithout:\n%s",
				  outcome.out, text);
	}
}

static int standard_input;

static void give_input(void)
{
	dup2(standard_input, STDIN_FILENO);
}

static void test_bytes(void)
{
	char bytes[8192];
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "bytes");
	const struct command command = { .args = { "stat", "--", "cat" },
					 .prepare = give_input };
	AUTO(outcome) outcome = { 0 };
	uint64_t state = test_seed();
	size_t i;

	/* No zeros: the outcome is a string. */
	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(1 + test_random(&state) % 255);
	file_write(folder, "bytes", bytes, sizeof(bytes));
	standard_input = open(path, O_RDONLY | O_CLOEXEC);
	CHECK_EQUAL(status_of(&command, &outcome), 0);
	CHECK_EQUAL(strlen(outcome.out), sizeof(bytes));
	CHECK(!memcmp(outcome.out, bytes, strlen(outcome.out)));
	close(standard_input);
}

static void test_closes_all(void)
{
	check_status(7, true, ARGS("--", stat_self(), "--act", "close"));
	check_status(128 + SIGABRT, true, ARGS("--", stat_self(), "--act", "kill", "6"));
}

/* A signal sent to hetmap is the command's; hetmap lives on to print its counts. */
static void test_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	AUTO_TEXT *folder = folder_make(), *ready = folder_path(folder, "ready");
	static const char script[] = "trap 'echo got; exit 9' INT TERM HUP QUIT; : >\"$0\";"
				     "while :; do sleep 0.05; done";
	const struct command command = { .args = { "stat", "-r", "3", "--", "sh", "-c", script,
						   ready } };
	AUTO(outcome) outcome = { 0 };
	size_t i;
	pid_t pid;

	for (i = 0; i < 4; i++) {
		unlink(ready);
		pid = command_start(&command);
		while (access(ready, F_OK))
			usleep(1000);
		CHECK_EQUAL(kill(pid, signals[i]), 0);
		command_wait(pid, &outcome);
		CHECK_EQUAL(outcome.status, 9);
		CHECK(!strcmp(outcome.out, "got\n"));
		CHECK(strstr(outcome.err, "wall time") != NULL);
		CHECK(strstr(outcome.err, "1 of 3 runs were made: SIG") != NULL);
	}
}

/* Ctrl-C reaches both by the terminal: the command has it once, and hetmap waits for it. */
static void test_terminal(void)
{
	char text[256] = "";
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "report");
	const char *const self = stat_self();
	int terminal, n = 0, status;
	ssize_t got;
	pid_t pid = forkpty(&terminal, NULL, NULL, NULL);

	if (!pid) {
		char command[4096];

		alarm(0);
		snprintf(command, sizeof(command), "%.*s/../hetmap",
			 (int)(strrchr(self, '/') - self), self);
		execl(command, "hetmap", "stat", "-r", "2", "-o", path, "--", "sh", "-c",
		      "trap 'n=$((n+1))' INT; echo ready; sleep 0.3; sleep 0.3; sleep 0.3;"
		      "echo n=$n; exit 5",
		      NULL);
		_exit(70);
	}
	CHECK_FATAL(pid > 0);
	do {
		got = read(terminal, text + n, sizeof(text) - 1 - (size_t)n);
		n += got > 0 ? (int)got : 0;
		text[n] = '\0';
		if (got > 0 && strstr(text, "ready") && !strstr(text, "^C"))
			CHECK_EQUAL(write(terminal, "\003", 1), 1);
	} while (got > 0);
	close(terminal);
	CHECK_EQUAL(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
	CHECK(strstr(text, "n=1") != NULL);
	CHECK_EQUAL(access(path, F_OK), 0);
}

static const struct test tests[] = {
	{ .name = "status", .run = test_status, .seconds = 60 },
	{ .name = "status_of_repetitions", .run = test_status_of_repetitions },
	{ .name = "failure_json", .run = test_failure_json },
	{ .name = "report", .run = test_report },
	{ .name = "output_file", .run = test_output_file },
	{ .name = "machine", .run = test_machine },
	{ .name = "unreadable", .run = test_unreadable },
	{ .name = "few_descriptors", .run = test_few_descriptors },
	{ .name = "surroundings", .run = test_surroundings },
	{ .name = "bytes", .run = test_bytes },
	{ .name = "closes_all", .run = test_closes_all },
	{ .name = "signals", .run = test_signals, .seconds = 60 },
	{ .name = "terminal", .run = test_terminal, .seconds = 60 },
	{ 0 },
};

int main(int argc, char **argv)
{
	stat_act(argc, argv);
	return harness_main(argc, argv, "stat_command", tests);
}
