// SPDX-License-Identifier: MIT
/* Cases of hetmap bench that run other programs, or other copies of the library: --short. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "lib/command.h"

/* The line of @name in the output of "bench --short --json CASE"; NULL: there is none. */
static json_t *row_of(const struct outcome *outcome, const char *name)
{
	const char *at = outcome->out, *end;
	json_t *object;

	for (; *at; at = end + (*end == '\n')) {
		end = at + strcspn(at, "\n");
		object = json_loadb(at, (size_t)(end - at), 0, NULL);
		if (json_is_object(object) && json_object_get(object, "case") &&
		    !strcmp(string_of(object, "case"), name))
			return object;
		json_decref(object);
	}
	return NULL;
}

static void run_short(const char *name, struct outcome *ret_outcome)
{
	CHECK_RUN(0, ret_outcome,
		  &(struct command){ .args = { "bench", "--short", "--json", name } });
	CHECK(!strcmp(ret_outcome->err, ""));
}

/* Measured, with both sides above 0; without a target, the row doesn't say whether it is met. */
static void check_row(const struct outcome *outcome, const char *name)
{
	AUTO(json_t) *row = row_of(outcome, name);

	CHECK_FATAL(row != NULL);
	CHECK(!json_object_get(row, "skipped"));
	CHECK(real_of(row, "value") > 0);
	CHECK(real_of(row, "peer_value") > 0);
	CHECK(!json_object_get(row, "met"));
}

static bool is_skipped(const struct outcome *outcome, const char *name)
{
	AUTO(json_t) *row = row_of(outcome, name);

	return json_object_get(row, "skipped");
}

/* Cold, the policies that could be chosen are peers: they show if the choice is right. */
static void check_policies(const struct outcome *outcome)
{
	AUTO(json_t) *row = row_of(outcome, "against direct, 128 KiB ahead");

	check_row(outcome, "against fault, 128 KiB ahead");
	check_row(outcome, "against ahead, 8192 KiB ahead");
	CHECK_FATAL(row != NULL);
	if (!json_object_get(row, "skipped"))
		check_row(outcome, "against direct, 128 KiB ahead");
}

/* The device's read-ahead is as it was before. */
static void test_seq(void)
{
	static const char *const names[] = { "seq_cold", "seq_warm" };
	AUTO(outcome) outcome = { 0 };
	size_t i;

	for (i = 0; i < 2; i++) {
		run_short(names[i], &outcome);
		if (!is_skipped(&outcome, "other read-ahead")) {
			check_row(&outcome, "against read, 128 KiB ahead");
			check_row(&outcome, "against a map, 8192 KiB ahead");
			check_row(&outcome, "against MADV_SEQUENTIAL, 8192 KiB ahead");
			if (!i)
				check_policies(&outcome);
		}
	}
}

/* KiB; 0: can't be told. Sets it before where @set is not 0. */
static unsigned int read_ahead(const char *path, unsigned int set)
{
	FILE *file = set ? fopen(path, "we") : NULL;
	unsigned int kib = 0;

	if (set && !file)
		return 0;
	if (file) {
		fprintf(file, "%u", set);
		fclose(file);
	}
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%u", &kib) != 1)
		kib = 0;
	fclose(file);
	return kib;
}

/* ...and is so whatever ended the case. */
static void test_seq_killed(void)
{
	static const int ends[] = { SIGINT, SIGKILL };
	char *folder = folder_make(), variable[512];
	AUTO(outcome) outcome = { 0 };
	unsigned int before, n;
	char path[128];
	struct stat st;
	size_t i;
	pid_t pid;

	CHECK_FATAL(!stat(folder, &st));
	snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/read_ahead_kb", major(st.st_dev),
		 minor(st.st_dev));
	before = read_ahead(path, 0);
	snprintf(variable, sizeof(variable), "TMPDIR=%s", folder);
	/* One that no case sets. Where it can't be written, no case does. */
	for (i = 0; before && read_ahead(path, 132) == 132 && i < 2; i++) {
		pid = command_start(&(struct command){
			.args = { "bench", "--short", "seq_warm", "--rounds", "1000000" },
			.env = { variable } });
		for (n = 0; n < 500 && read_ahead(path, 0) == 132; n++)
			usleep(10000);
		CHECK_EQUAL(read_ahead(path, 0), 128);
		kill(pid, ends[i]);
		command_wait(pid, &outcome);
		CHECK_EQUAL(outcome.status, ends[i] == SIGINT ? 128 + SIGINT : -SIGKILL);
		CHECK(!strcmp(outcome.err, ""));
		for (n = 0; n < 500 && read_ahead(path, 0) != 132; n++)
			usleep(10000);
		CHECK_EQUAL(read_ahead(path, 0), 132);
	}
	if (before)
		read_ahead(path, before);
	folder_remove(folder);
}

/* A python that never ends, and reports its process number. */
static void write_python(const char *folder)
{
	static const char text[] = "#!/bin/sh\n"
				   "echo $$ >\"$XDG_CACHE_HOME/new\"\n"
				   "mv \"$XDG_CACHE_HOME/new\" \"$XDG_CACHE_HOME/pid\"\n"
				   "exec sleep 1000000\n";
	char command[600];

	file_write(folder, "python", text, strlen(text));
	snprintf(command, sizeof(command),
		 "cd '%s' && mkdir -p hetmap/safetensors-0.8.0/bin tmp && chmod 755 python && "
		 "mv python hetmap/safetensors-0.8.0/bin",
		 folder);
	CHECK_EQUAL(system(command), 0);
}

static pid_t python_of(const char *folder)
{
	AUTO_TEXT *path = folder_path(folder, "pid");
	FILE *file;
	int pid = 0;

	while (!(file = fopen(path, "re")))
		usleep(1000);
	CHECK_EQUAL(fscanf(file, "%d", &pid), 1);
	fclose(file);
	return pid;
}

/* One sample never ends: Ctrl-C does not wait for it, and leaves neither files nor programs. */
static void test_interrupted(void)
{
	char *folder = folder_make(), cache[512], tmp[512], rmdir_tmp[600], program[64],
	     target[512];
	const struct command command = { .args = { "bench", "safetensors_open" },
					 .env = { cache, tmp } };
	AUTO(outcome) outcome = { 0 };
	pid_t pid, python;

	write_python(folder);
	snprintf(cache, sizeof(cache), "XDG_CACHE_HOME=%s", folder);
	snprintf(tmp, sizeof(tmp), "TMPDIR=%s/tmp", folder);
	pid = command_start(&command);
	python = python_of(folder);
	kill(pid, SIGINT);
	command_wait(pid, &outcome);
	CHECK_EQUAL(outcome.status, 128 + SIGINT);
	CHECK(!strcmp(outcome.err, ""));
	/* A process that has ended and was not waited for has none. */
	snprintf(program, sizeof(program), "/proc/%d/exe", (int)python);
	while (readlink(program, target, sizeof(target)) > 0)
		usleep(1000);
	snprintf(rmdir_tmp, sizeof(rmdir_tmp), "%s/tmp", folder);
	while (rmdir(rmdir_tmp))
		usleep(1000);
	folder_remove(folder);
}

static void test_report_10m(void)
{
	AUTO(outcome) outcome = { 0 };

	run_short("report_10m", &outcome);
	check_row(&outcome, "time");
	check_row(&outcome, "memory");
}

static void test_ipc_ring(void)
{
	AUTO(outcome) outcome = { 0 };

	run_short("ipc_ring", &outcome);
	check_row(&outcome, "64 bytes, pipe");
	check_row(&outcome, "64 bytes, socketpair");
	check_row(&outcome, "1 MiB in place, pipe");
	check_row(&outcome, "1 MiB in place, socketpair");
	check_row(&outcome, "1 MiB copied, pipe");
	check_row(&outcome, "1 MiB copied, socketpair");
	check_row(&outcome, "set-up");
}

static void test_pool_cycle(void)
{
	AUTO(outcome) outcome = { 0 };

	run_short("pool_cycle", &outcome);
	check_row(&outcome, "64 B");
	check_row(&outcome, "1 MiB, two threads");
	check_row(&outcome, "64 KiB, against hm_alloc");
	check_row(&outcome, "found among 1,000,000 live");
}

static void test_copies(void)
{
	AUTO(outcome) outcome = { 0 };

	run_short("copy_ladder", &outcome);
	check_row(&outcome, "1 B");
	check_row(&outcome, "16 MiB");
	check_row(&outcome, "16 MiB, not read again");
	run_short("combine", &outcome);
	check_row(&outcome, "64 bytes, transfers");
	check_row(&outcome, "4 bytes, time of a write");
	run_short("alloc_cycle", &outcome);
	check_row(&outcome, "against map_cycle");
}

static void test_workers(void)
{
	AUTO(outcome) outcome = { 0 };

	run_short("workers", &outcome);
	check_row(&outcome, "time per token, 4 processes");
	check_row(&outcome, "sum of PSS, 4 processes");
}

static void test_trace_overhead(void)
{
	AUTO(outcome) outcome = { 0 };
	json_t *row;

	run_short("trace_overhead", &outcome);
	/* Without perf, or where it may not: as the next test has it. */
	if (is_skipped(&outcome, "1 GiB read, added"))
		return;
	row = row_of(&outcome, "records lost");
	CHECK_FATAL(row != NULL);
	CHECK_EQUAL(real_of(row, "value"), 0);
	json_decref(row);
	row = row_of(&outcome, "read, with latencies");
	CHECK_FATAL(row != NULL);
	json_decref(row);
}

/* Without perf the case says so, and is no failure. */
static void test_no_perf(void)
{
	AUTO(outcome) outcome = { 0 };

	CHECK_RUN(0, &outcome,
		  &(struct command){ .args = { "bench", "--short", "trace_overhead" },
				     .env = { "PATH=/nonexistent" } });
	CHECK(strstr(outcome.out, "skipped: "));
	check_lines(outcome.out);
}

static void test_fault(void)
{
	static const char *const options[] = { "--fault-read", "--fault-write" };
	AUTO(outcome) outcome = { 0 };
	double ns;
	size_t i;

	for (i = 0; i < 2; i++) {
		CHECK_RUN(0, &outcome,
			  &(struct command){ .args = { "bench", options[i], "1M" } });
		CHECK_EQUAL(sscanf(outcome.out, "%lf", &ns), 1);
		CHECK(ns > 0);
		CHECK_RUN(2, &outcome,
			  &(struct command){ .args = { "bench", options[i], "0" } });
		CHECK_RUN(3, &outcome,
			  &(struct command){ .args = { "bench", options[i], "100000T" } });
		CHECK(strstr(outcome.err, " are needed, and "));
		CHECK(strstr(outcome.err, "fewer bytes"));
	}
}

/* The read takes seconds, and a signal ends it. */
static void test_fault_stopped(void)
{
	AUTO(outcome) outcome = { 0 };
	pid_t pid;

	pid = command_start(&(struct command){ .args = { "bench", "--fault-read", "64G" } });
	command_await(pid, SIGTERM, NULL);
	kill(pid, SIGTERM);
	command_wait(pid, &outcome);
	CHECK_EQUAL(outcome.status, 128 + SIGTERM);
	CHECK(!strcmp(outcome.out, ""));
}

static void test_publish_cost(void)
{
	AUTO(outcome) outcome = { 0 };

	run_short("publish_cost", &outcome);
	check_row(&outcome, "every page written");
	check_row(&outcome, "one byte written");
}

/* Fragmenting takes a machine of its own: without one, a sentence names "make vm". */
static void test_frag_effect(void)
{
	AUTO(outcome) outcome = { 0 };
	json_t *row;

	run_short("frag_effect", &outcome);
	if (is_skipped(&outcome, "map_cycle, 0%")) {
		CHECK(strstr(outcome.out, "make vm") || geteuid() != 0);
	} else {
		check_row(&outcome, "map_cycle, 50%");
		check_row(&outcome, "first_touch, 90%");
		row = row_of(&outcome, "in 4 KiB pages, 90%");
		CHECK_FATAL(row != NULL);
		CHECK(real_of(row, "value") > 5);
		CHECK(strstr(string_of(row, "note"), " times as long"));
		json_decref(row);
	}
}

/* Without numpy, or on a file system that keeps all in RAM, a case says so. */
static void test_tokens(void)
{
	AUTO(outcome) outcome = { 0 };

	run_short("tokens_warm", &outcome);
	if (!is_skipped(&outcome, "a batch, int64"))
		check_row(&outcome, "a batch, int64");
	run_short("tokens_cold", &outcome);
	if (!is_skipped(&outcome, "a batch, pread()")) {
		check_row(&outcome, "a batch, pread()");
		if (!is_skipped(&outcome, "a batch, io_uring"))
			check_row(&outcome, "a batch, io_uring");
	}
}

static uint64_t free_kib(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	unsigned long kib = 0;
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %lu kB", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib;
}

/* A second reader confirms the figures, and no memory stays in use. */
static void test_fragment(void)
{
	AUTO(outcome) outcome = { 0 };
	uint64_t before = free_kib();
	json_t *object;

	command_run(&(struct command){ .args = { "fragment", "50", "--json", "--", "true" } },
		    &outcome);
	if (outcome.status == 125) {
		/* The tests of machines with little memory have the rest. */
		CHECK(strstr(outcome.out, geteuid() ? "it takes root" : "--force"));
	} else {
		CHECK_EQUAL(outcome.status, 0);
		object = outcome_json(&outcome);
		CHECK(real_of(object, "percent") > 45 && real_of(object, "percent") < 55);
		CHECK(integer_of(object, "free_bytes") > integer_of(object, "small_bytes"));
		json_decref(object);
		CHECK(free_kib() > before - before / 4);
	}
}

static void test_fragment_wrong_usage(void)
{
	static const struct {
		const char *args[5];
		const char *says;
	} cases[] = {
		{ { "fragment" }, "PERCENT is missing" },
		{ { "fragment", "101", "true" }, "from 0 to 100" },
		{ { "fragment", "half" }, "from 0 to 100" },
		{ { "fragment", "--farce", "50" }, "--farce" },
	};
	AUTO(outcome) outcome = { 0 };
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct command command = { 0 };

		memcpy(command.args, cases[i].args, sizeof(cases[i].args));
		CHECK_RUN(125, &outcome, &command);
		CHECK(strstr(outcome.err, cases[i].says));
	}
	CHECK_RUN(0, &outcome, &(struct command){ .args = { "fragment", "--help" } });
	check_lines(outcome.out);
	/* Only root is told where pages lie. */
	CHECK_RUN(125, &outcome,
		  &(struct command){ .args = { "fragment", "10", "true" },
				     .uid = geteuid() ? 0 : 65534 });
	CHECK(strstr(outcome.err, "it takes root"));
}

/* The figure is the sum of the parts in its note; the peer's is the size of its buffer. */
static void check_memory(json_t *row)
{
	double peak, most[3], before[3], file, grown, made_of;
	const char *note = string_of(row, "note");

	CHECK_FATAL(note != NULL && strstr(note, "a peak of ") != NULL);
	CHECK_EQUAL(sscanf(strstr(note, "a peak of "),
			   "a peak of %lf MiB (VmHWM), at most %lf of files (RssFile), %lf "
			   "anonymous (RssAnon) and %lf shared (RssShmem), where %lf, %lf and "
			   "%lf were before; the file has %lf",
			   &peak, &most[0], &most[1], &most[2], &before[0], &before[1],
			   &before[2], &file),
		    8);
	grown = most[2] - before[2];
	CHECK(grown > 15.9);
	made_of = peak - before[0] - before[1] - before[2] - (grown < file ? grown : file);
	CHECK(real_of(row, "value") > made_of - 0.5 && real_of(row, "value") < made_of + 0.5);
	if (!TEST_ASAN && !TEST_TSAN)
		CHECK(real_of(row, "peer_value") > 15.5 && real_of(row, "peer_value") < 17);
}

static void test_load(void)
{
	AUTO(outcome) outcome = { 0 };
	AUTO(json_t) *row = NULL;

	run_short("load", &outcome);
	check_row(&outcome, "16 MiB, warm");
	if (!is_skipped(&outcome, "16 MiB, cold"))
		check_row(&outcome, "16 MiB, cold");
	row = row_of(&outcome, "memory, at its most");
	CHECK_FATAL(row != NULL);
	if (!TEST_ASAN && !TEST_TSAN)
		CHECK(real_of(row, "value") < 64.25);
	check_memory(row);
}

/* One figure can't be had, the rest can. */
static void test_load_no_peak(void)
{
	const struct command command = {
		.args = { "bench", "--short", "--json", "load" },
		.prepare = command_refuse_writing,
	};
	AUTO(outcome) outcome = { 0 };

	command_run(&command, &outcome);
	if (outcome.status == COMMAND_NO_FILTER) {
		test_skip("kernel", "no seccomp filters");
	} else {
		CHECK_EQUAL(outcome.status, 0);
		check_row(&outcome, "16 MiB, warm");
		CHECK(is_skipped(&outcome, "memory, at its most"));
		CHECK(strstr(outcome.out, "/proc/self/clear_refs") != NULL);
	}
}

static char *little; /* a file to mount over /proc/meminfo */

static void have_little_memory(void)
{
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount(little, "/proc/meminfo", NULL, MS_BIND, NULL))
		_exit(COMMAND_NO_FILTER);
}

/* The kernel's OOM killer would end the run. */
static void test_load_no_memory(void)
{
	static const char text[] = "MemTotal: 65536 kB\nMemAvailable: 49151 kB\n";
	const struct command command = {
		.args = { "bench", "--short", "--json", "load" },
		.prepare = have_little_memory,
	};
	AUTO_TEXT *folder = folder_make();
	AUTO(outcome) outcome = { 0 };

	file_write(folder, "meminfo", text, strlen(text));
	little = folder_path(folder, "meminfo");
	command_run(&command, &outcome);
	/* The test takes root, and a system that lets root mount. */
	if (outcome.status != COMMAND_NO_FILTER) {
		CHECK_EQUAL(outcome.status, 0);
		CHECK(is_skipped(&outcome, "16 MiB, warm"));
		CHECK(strstr(outcome.out, "it takes 48 MiB") != NULL);
	}
	free(little);
}

static void test_safetensors_open(void)
{
	AUTO(outcome) outcome = { 0 };

	run_short("safetensors_open", &outcome);
	/* Without the package, or numpy, it says so. */
	if (!is_skipped(&outcome, "10,000 tensors, to the first"))
		check_row(&outcome, "10,000 tensors, to the first");
	CHECK_RUN(0, &outcome,
		  &(struct command){ .args = { "bench", "--short", "safetensors_open" },
				     .env = { "XDG_CACHE_HOME=/nonexistent", "PATH=" } });
}

/* The package takes seconds: its row is skipped here. */
static void test_gguf_open(void)
{
	AUTO(outcome) outcome = { 0 };

	CHECK_RUN(0, &outcome,
		  &(struct command){ .args = { "bench", "--short", "--json", "gguf_open" },
				     .env = { "XDG_CACHE_HOME=/nonexistent" } });
	check_row(&outcome, "5,000 tensors, 20 MB of metadata");
	CHECK(strstr(outcome.out, "tests/format/test_gguf_peer.sh") != NULL);
}

/* Where the command of the video extension, OpenCL or ffmpeg is not there, it says so. */
static void test_frame_path(void)
{
	static const char *const rows[] = {
		"640x360 NV12 to XRGB, cpu",
		"640x360 NV12 to XRGB, opencl:0",
		"320x240 H.264, decoded to shown, p99",
		"640x360 H.264, decoded to shown, p99",
		"frames of 4 decoders on one pool",
	};
	AUTO(outcome) outcome = { 0 };
	size_t i;

	run_short("frame_path", &outcome);
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!is_skipped(&outcome, rows[i]) && !is_skipped(&outcome, "decoded to shown"))
			check_row(&outcome, rows[i]);
}

/* Engines are measured where their device faults take long. */
static void test_prefetch_gain(void)
{
	static const char *const orders[] = { "sequential", "every third", "random" };
	AUTO(outcome) outcome = { 0 };
	char name[64];
	size_t i;

	run_short("prefetch_gain", &outcome);
	CHECK(is_skipped(&outcome, "soft:0"));
	CHECK_RUN(0, &outcome,
		  &(struct command){ .args = { "bench", "--short", "--json", "prefetch_gain" },
				     .env = { "HETMAP_SOFT=fault_us=100" } });
	for (i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "soft:0, 100 us a fault, %s frame%s", orders[i],
			 i == 1 ? "" : "s");
		check_row(&outcome, name);
	}
}

static const struct test tests[] = {
	{ "interrupted", test_interrupted, 60, TEST_ONCE },
	{ "report_10m", test_report_10m, 120, 0 },
	{ "seq", test_seq, 120, 0 },
	{ "seq_killed", test_seq_killed, 60, 0 },
	{ "prefetch_gain", test_prefetch_gain, 120, 0 },
	{ "ipc_ring", test_ipc_ring, 60, 0 },
	{ "pool_cycle", test_pool_cycle, 60, 0 },
	{ "copies", test_copies, 60, 0 },
	{ "workers", test_workers, 60, 0 },
	{ "trace_overhead", test_trace_overhead, 120, 0 },
	{ "no_perf", test_no_perf, 60, 0 },
	{ "fault", test_fault, 0, 0 },
	{ "fault_stopped", test_fault_stopped, 60, 0 },
	{ "load", test_load, 60, 0 },
	{ "load_no_peak", test_load_no_peak, 60, 0 },
	{ "load_no_memory", test_load_no_memory, 60, 0 },
	{ "safetensors_open", test_safetensors_open, 60, 0 },
	{ "gguf_open", test_gguf_open, 60, 0 },
	{ "frame_path", test_frame_path, 60, 0 },
	{ "publish_cost", test_publish_cost, 60, 0 },
	{ "frag_effect", test_frag_effect, 120, 0 },
	{ "tokens", test_tokens, 120, 0 },
	{ "fragment", test_fragment, 60, 0 },
	{ "fragment_wrong_usage", test_fragment_wrong_usage, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main_once, "bench_cases", tests)
