// SPDX-License-Identifier: MIT
/*
 * hetmap top: its output for programs whose maps are known, and for those that lie, end, or may not
 * be looked at. This program also runs the programs of watched.c.
 */
#include <errno.h>
#include <inttypes.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "lib/command.h"
#include "perf/watched.h"

#define KIB4(n) ((int64_t)((n)*WATCHED_PAGE))

static void run(const struct command *command, int status, struct outcome *ret_outcome)
{
	command_run(command, ret_outcome);
	if (ret_outcome->status != status)
		test_fail(__FILE__, __LINE__, "status %d, not %d: %s%s", ret_outcome->status,
			  status, ret_outcome->out, ret_outcome->err);
}

/* "hetmap top --once --json -p PID ARG...", and its answer. */
static json_t *look(const struct watched *watched, const char *const more[4])
{
	char pid[16];
	struct command command = {
		.args = { "top", "--once", "--json", "-d", "0.2", "-p", pid },
	};
	AUTO(outcome) outcome = { 0 };
	json_t *json;
	int i;

	snprintf(pid, sizeof(pid), "%d", (int)watched->pid);
	for (i = 0; more && i < 4 && more[i]; i++)
		command.args[7 + i] = more[i];
	run(&command, 0, &outcome);
	json = outcome_json(&outcome);
	CHECK_FATAL(json != NULL);
	return json;
}

static json_t *process_of(const json_t *json, pid_t pid)
{
	json_t *process;
	size_t i;

	json_array_foreach(json_object_get(json, "processes"), i, process)
	{
		if (integer_of(process, "pid") == pid)
			return process;
	}
	return NULL;
}

static json_t *buffer_of(const json_t *process, const char *name)
{
	json_t *buffer;
	size_t i;

	json_array_foreach(json_object_get(process, "buffers"), i, buffer)
	{
		if (!strcmp(string_of(buffer, "name"), name))
			return buffer;
	}
	test_fail(__FILE__, __LINE__, "there is no buffer %s", name);
	test_abandon();
}

static void check_buffer(const json_t *process, const char *name, int64_t maps, int64_t mapped,
			 int64_t resident, int64_t locked, int64_t in_flight)
{
	const json_t *buffer = buffer_of(process, name);

	CHECK(!strcmp(string_of(buffer, "device"), "host"));
	CHECK_EQUAL(integer_of(buffer, "maps"), maps);
	CHECK_EQUAL(integer_of(buffer, "mapped"), mapped);
	CHECK_EQUAL(integer_of(buffer, "resident"), resident);
	CHECK_EQUAL(integer_of(buffer, "locked"), locked);
	CHECK_EQUAL(integer_of(buffer, "huge"), 0);
	CHECK_EQUAL(integer_of(buffer, "pending_fences"), in_flight);
	/* This device has no such counter: that is not 0. */
	CHECK(json_is_null(json_object_get(buffer, "evictions_per_second")));
	CHECK(json_is_false(json_object_get(buffer, "lost")));
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void test_values(void)
{
	AUTO(watched) watched = watched_start("buffers", NULL);
	double begin = now();
	json_t *json = look(&watched, NULL), *process = process_of(json, watched.pid);

	CHECK_FATAL(process != NULL);
	CHECK(real_of(json, "time") > begin - 0.001 && real_of(json, "time") < now() + 0.001);
	CHECK_EQUAL(json_array_size(json_object_get(process, "buffers")), 4);
	check_buffer(process, "whole", 1, KIB4(16), KIB4(16), 0, 0);
	check_buffer(process, "half", 2, KIB4(64), KIB4(32), 0, 0);
	check_buffer(process, "locked", 1, KIB4(8), KIB4(8), KIB4(8), 0);
	check_buffer(process, "busy", 1, KIB4(1), KIB4(1), 0, 1);
	CHECK_EQUAL(integer_of(buffer_of(process, "locked"), "open_brackets"), 1);
	CHECK_EQUAL(integer_of(buffer_of(process, "whole"), "open_brackets"), 0);
	CHECK_EQUAL(integer_of(process, "mapped"), KIB4(16 + 64 + 8 + 1));
	CHECK_EQUAL(integer_of(process, "resident"), KIB4(16 + 32 + 8 + 1));
	CHECK_EQUAL(integer_of(process, "open_brackets"), 1);
	CHECK_EQUAL(integer_of(process, "pending_fences"), 1);
	CHECK(real_of(json, "seconds") >= 0.2);
	json_decref(json);
}

/* By soft:0, which counts them in the process. */
static void test_evicted(void)
{
	AUTO(watched) watched = watched_start("evicted", NULL);
	json_t *json = look(&watched, NULL), *process = process_of(json, watched.pid);

	CHECK_FATAL(process != NULL);
	CHECK(real_of(buffer_of(process, "goes"), "evictions_per_second") > 0);
	CHECK(json_is_number(
		json_object_get(buffer_of(process, "stays"), "evictions_per_second")));
	CHECK(real_of(buffer_of(process, "stays"), "evictions_per_second") == 0);
	CHECK(real_of(process, "evictions_per_second") ==
	      real_of(buffer_of(process, "goes"), "evictions_per_second"));
	json_decref(json);
}

/* Are the buffers in order of the first of @keys? */
static void check_order(const struct watched *watched, const char *key, bool reverse,
			const char *const names[4])
{
	AUTO(json_t) *json = look(
		watched, (const char *const[4]){ "--sort", key, reverse ? "--reverse" : NULL });
	json_t *process = process_of(json, watched->pid), *buffer;
	size_t i;

	json_array_foreach(json_object_get(process, "buffers"), i, buffer)
	{
		if (names[i] && strcmp(string_of(buffer, "name"), names[i]) != 0)
			test_fail(__FILE__, __LINE__, "by %s: %s is at %zu, not %s", key,
				  string_of(buffer, "name"), i, names[i]);
	}
}

static void test_order(void)
{
	AUTO(watched) watched = watched_start("buffers", NULL);
	json_t *json;

	check_order(&watched, "mapped", false,
		    (const char *const[4]){ "half", "whole", "locked", "busy" });
	check_order(&watched, "mapped", true,
		    (const char *const[4]){ "busy", "locked", "whole", "half" });
	check_order(&watched, "locked", false, (const char *const[4]){ "locked" });
	check_order(&watched, "brackets", false, (const char *const[4]){ "locked" });
	check_order(&watched, "fences", false, (const char *const[4]){ "busy" });
	check_order(&watched, "name", false,
		    (const char *const[4]){ "busy", "half", "locked", "whole" });

	json = look(&watched, (const char *const[4]){ "--filter", "HAL" });
	CHECK_EQUAL(json_array_size(json_object_get(process_of(json, watched.pid), "buffers")),
		    1);
	buffer_of(process_of(json, watched.pid), "half");
	json_decref(json);
	json = look(&watched, (const char *const[4]){ "--filter", "no such buffer" });
	CHECK(process_of(json, watched.pid) == NULL);
	json_decref(json);
}

/* Is "loud" shown to fault? Where faults can't be sampled: does it say so? */
static bool faults_shown(const struct watched *watched)
{
	json_t *json = look(watched, NULL), *process = process_of(json, watched->pid);
	const json_t *loud, *rate;
	bool shown = true;

	CHECK_FATAL(process != NULL);
	loud = buffer_of(process, "loud");
	rate = json_object_get(loud, "faults_per_second");
	if (json_is_null(rate)) {
		CHECK(json_is_null(json_object_get(process, "faults_from")));
		CHECK(json_array_size(json_object_get(json, "notes")) > 0);
		CHECK(!json_is_null(json_object_get(loud, "resident_pages_gained_per_second")));
	} else {
		CHECK(!strcmp(string_of(process, "faults_from"), "samples"));
		CHECK(real_of(buffer_of(process, "quiet"), "faults_per_second") == 0);
		shown = json_real_value(rate) > 0 && real_of(process, "faults_per_second") > 0;
	}
	json_decref(json);
	return shown;
}

/* A buffer that faults all the time, and one that does not, in one process. */
static void test_faults(void)
{
	AUTO(watched) watched = watched_start("faulting", NULL);
	int tries = 0;

	/* On a busy machine it may not have run between two looks. */
	while (!faults_shown(&watched) && tries < 20)
		tries++;
	CHECK(tries < 20);
}

/* All processes: it finds exactly those that publish. */
static void test_all(void)
{
	AUTO(watched) one = watched_start("buffers", NULL), two = watched_start("many", NULL);
	AUTO(watched) without = watched_start("plain", NULL);
	const struct command command = { .args = { "top", "--json", "-n", "2", "-d", "0.2" } };
	AUTO(outcome) outcome = { 0 };
	json_t *json;
	char *line;

	run(&command, 0, &outcome);
	/* A line is an object. */
	line = strtok(outcome.out, "\n");
	CHECK_FATAL(line != NULL);
	json = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
	CHECK_FATAL(json != NULL);
	CHECK(process_of(json, one.pid) != NULL);
	CHECK(process_of(json, without.pid) == NULL);
	CHECK_EQUAL(json_array_size(json_object_get(process_of(json, two.pid), "buffers")),
		    WATCHED_MANY);
	CHECK_EQUAL(integer_of(process_of(json, two.pid), "resident"), KIB4(WATCHED_MANY));
	json_decref(json);
	line = strtok(NULL, "\n");
	CHECK_FATAL(line != NULL);
	json = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
	CHECK(json != NULL);
	json_decref(json);
	CHECK(strtok(NULL, "\n") == NULL);
}

/* Ends while it is looked at. */
static void test_vanished(void)
{
	struct watched watched = watched_start("buffers", NULL);
	char pid[16];
	const struct command command = {
		.args = { "top", "--json", "-d", "0.1", "-p", pid },
	};
	struct command gone = { .args = { "top", "--once", "-p", pid } };
	AUTO(outcome) outcome = { 0 };
	pid_t top;
	int pipes[2];
	char byte;

	snprintf(pid, sizeof(pid), "%d", (int)watched.pid);
	CHECK_FATAL(!pipe2(pipes, O_CLOEXEC));
	{
		struct command piped = command;

		piped.out = pipes[1];
		top = command_start(&piped);
	}
	close(pipes[1]);
	/* The screen was shown once. */
	CHECK_EQUAL(read(pipes[0], &byte, 1), 1);
	watched_end(&watched);
	while (read(pipes[0], &byte, 1) == 1)
		;
	close(pipes[0]);
	command_wait(top, &outcome);
	CHECK_EQUAL(outcome.status, 0);

	run(&gone, 3, &outcome);
	CHECK(strstr(outcome.err, "there is no process") != NULL);
}

/* How many tables make no sense, of all processes; @is_none has nothing else to show. */
static json_int_t count_broken(pid_t is_none)
{
	const struct command all = { .args = { "top", "--once", "--json", "-d", "0.1" } };
	AUTO(outcome) outcome = { 0 };
	json_int_t n;
	AUTO(json_t) *json = NULL;

	run(&all, 0, &outcome);
	json = outcome_json(&outcome);
	CHECK_FATAL(json != NULL);
	n = integer_of(json, "broken");
	CHECK(process_of(json, is_none) == NULL);
	return n;
}

/* Tests beside this one have such tables, too: theirs may come and go in between. */
static void check_counted(void)
{
	json_int_t before, with, after;
	struct watched broken;
	int tries = 0;

	do {
		before = count_broken(0);
		broken = watched_start("broken", NULL);
		with = count_broken(broken.pid);
		watched_end(&broken);
		after = count_broken(0);
		CHECK(with >= 1);
	} while ((with != before + 1 || with != after + 1) && ++tries < 20);
	CHECK(tries < 20);
}

static void test_lying(void)
{
	AUTO(watched) liar = watched_start("lying", NULL);
	AUTO(watched) broken = watched_start("broken", NULL);
	json_t *json = look(&liar, NULL), *process = process_of(json, liar.pid);
	char pid[16];
	const struct command one = { .args = { "top", "--once", "-d", "0.1", "-p", pid } };
	const json_t *buffer;
	AUTO(outcome) outcome = { 0 };

	CHECK_FATAL(process != NULL);
	/* Only one of eight entries at one address can be true: its sizes come from the kernel. */
	CHECK_EQUAL(json_array_size(json_object_get(process, "buffers")), 1);
	CHECK_EQUAL(integer_of(process, "nonsense"), 7);
	buffer = buffer_of(process, "liar");
	CHECK_EQUAL(integer_of(buffer, "resident"), KIB4(4));
	/* Its counters are where nothing is. */
	CHECK(json_is_null(json_object_get(buffer, "open_brackets")));
	CHECK(json_is_null(json_object_get(buffer, "pending_fences")));
	json_decref(json);

	check_counted();
	snprintf(pid, sizeof(pid), "%d", (int)broken.pid);
	run(&one, 3, &outcome);
	CHECK(strstr(outcome.err, "makes no sense") != NULL);
}

static void test_older(void)
{
	AUTO(watched) watched = watched_start("older", NULL);
	json_t *json = look(&watched, NULL), *process = process_of(json, watched.pid), *buffer;
	size_t i;

	CHECK_EQUAL(json_array_size(json_object_get(process, "buffers")), 2);
	json_array_foreach(json_object_get(process, "buffers"), i, buffer)
	{
		CHECK(!strcmp(string_of(buffer, "name"), "older"));
		CHECK_EQUAL(integer_of(buffer, "resident"), KIB4(2));
		CHECK(json_is_null(json_object_get(buffer, "open_brackets")));
	}
	json_decref(json);
}

static void test_lost(void)
{
	AUTO(watched) watched = watched_start("lost", NULL);
	AUTO(json_t) *json = look(&watched, NULL);

	CHECK(json_is_true(
		json_object_get(buffer_of(process_of(json, watched.pid), "gone"), "lost")));
}

static void check_refused(const char *const args[6], int status, const char *says)
{
	struct command command = { .args = { "top" } };
	AUTO(outcome) outcome = { 0 };
	int i;

	for (i = 0; i < 6 && args[i]; i++)
		command.args[1 + i] = args[i];
	run(&command, status, &outcome);
	CHECK_HAS(outcome.err, says);
}

static void test_bad_input(void)
{
	AUTO(watched) plain = watched_start("plain", NULL);
	AUTO(watched) other = watched_start("buffers", NULL);
	char pid[16];
	struct command command = { .args = { "top", "--once", "--json", "-p", pid } };
	AUTO(outcome) outcome = { 0 };

	check_refused((const char *const[6]){ "--sort", "size" }, 2, "--sort: not valid");
	check_refused((const char *const[6]){ "-d", "0" }, 2, "--delay: not valid");
	check_refused((const char *const[6]){ "-d", "nan" }, 2, "--delay: not valid");
	check_refused((const char *const[6]){ "-n", "0" }, 2, "--iterations: not valid");
	check_refused((const char *const[6]){ "-p", "-1" }, 2, "--pid: not valid");
	check_refused((const char *const[6]){ "buffer" }, 2, "takes no argument");
	check_refused((const char *const[6]){ "-p", "2147483647", "--once" }, 3,
		      "there is no process 2147483647");
	snprintf(pid, sizeof(pid), "%d", (int)plain.pid);
	check_refused((const char *const[6]){ "-p", pid, "--once" }, 3,
		      "publishes no table of maps");
	run(&command, 3, &outcome);
	check_failure_json(&outcome, ENOENT);
	if (!geteuid()) {
		snprintf(pid, sizeof(pid), "%d", (int)other.pid);
		command.uid = 65534;
		run(&command, 3, &outcome);
		check_failure_json(&outcome, EACCES);
	}
}

/* ---- plain tables ---- */

static void test_table(void)
{
	AUTO(watched) watched = watched_start("buffers", NULL);
	char pid[16], text[32];
	const struct command command = {
		.args = { "top", "-n", "2", "-d", "0.1", "-p", pid },
		.env = { "TERM=xterm" },
	};
	const struct command help = { .args = { "top", "--help" } };
	const struct command explain = { .args = { "explain", "-p", pid, text } };
	AUTO(outcome) outcome = { 0 };
	char *second, *row, *end;
	uint64_t address;
	AUTO(json_t) *json = NULL;

	snprintf(pid, sizeof(pid), "%d", (int)watched.pid);
	run(&command, 0, &outcome);
	CHECK(strstr(outcome.out, "\033") == NULL);
	CHECK(strstr(outcome.out, "   64K    64K ") != NULL);
	row = strstr(outcome.out, "  half 0x");
	CHECK_FATAL(row != NULL);
	address = strtoull(row + strlen("  half "), &end, 16);
	CHECK(!strncmp(end, " (host, 2 maps)\n", 16));
	second = strstr(outcome.out + 1, "\n\nhetmap top - ");
	CHECK_FATAL(second != NULL);
	CHECK(strstr(second + 3, "\n\n") == NULL);
	/* explain takes the address, and JSON has it, too. */
	snprintf(text, sizeof(text), "0x%" PRIx64, address);
	run(&explain, 0, &outcome);
	CHECK(strstr(outcome.out, "half") != NULL);
	json = look(&watched, NULL);
	CHECK(!strcmp(string_of(buffer_of(process_of(json, watched.pid), "half"), "address"),
		      text));
	/* These take no keys. */
	run(&help, 0, &outcome);
	CHECK(strstr(outcome.out, "until Ctrl-C") && strstr(outcome.out, "Keys on the screen"));
}

static const struct test tests[] = {
	{ "values", test_values, 60, 0 },
	{ "order", test_order, 60, TEST_ONCE },
	{ "faults", test_faults, 60, TEST_ONCE },
	{ "all", test_all, 60, TEST_ONCE },
	{ "vanished", test_vanished, 60, TEST_ONCE },
	{ "lying", test_lying, 60, TEST_ONCE },
	{ "older", test_older, 60, TEST_ONCE },
	{ "evicted", test_evicted, 60, TEST_ONCE },
	{ "lost", test_lost, 60, TEST_ONCE },
	{ "bad_input", test_bad_input, 90, TEST_ONCE },
	{ "table", test_table, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	watched_act(argc, argv);
	return harness_main(argc, argv, "command_top", tests);
}
