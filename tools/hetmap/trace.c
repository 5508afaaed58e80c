// SPDX-License-Identifier: MIT
/* hetmap trace: every page fault of a command, or of a process that runs, into a folder. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/command.h"
#include "common/machine.h"
#include "common/text.h"
#include "perf/bench/bench_run.h"
#include "perf/read/nodes.h"
#include "perf/record/calibrate.h"
#include "perf/record/child.h"
#include "perf/record/record.h"
#include "perf/record/storage.h"
#include "perf/record/trace_folder.h"
#include "perf/record/untraced.h"
#include "perf/record/watch.h"
#include "subcommands.h"

/* Longer than a ring takes to fill only where nothing happens. */
#define WAIT_MS 100

enum {
	OPTION_OUTPUT,
	OPTION_PID,
	OPTION_NO_LATENCY,
	OPTION_MAX_STACK,
	OPTION_RING,
	OPTION_NO_TRACEPOINTS,
	OPTION_QUIET,
	OPTION_HELP,
};

static const struct option_row rows[] = {
	[OPTION_OUTPUT] = { 'o', "output", "FOLDER",
			    "folder of the trace (default: " TRACE_FOLDER ");\n"
			    "an earlier trace there becomes FOLDER.old" },
	[OPTION_PID] = { 'p', "pid", "PID",
			 "trace that process until it ends, or until Ctrl-C" },
	[OPTION_NO_LATENCY] = { 0, "no-latency", NULL,
				"one record a fault in place of two: the duration of\n"
				"faults, and their reads of storage, are not recorded" },
	[OPTION_MAX_STACK] = { 0, "max-stack", "N",
			       "frames of a fault's call chain, 0 to 127 (default: 16)" },
	[OPTION_RING] = { 0, "ring", "BYTES",
			  "size of each CPU's ring, a power of two from 64K on\n"
			  "(default: as much as is allowed, up to 8M)" },
	[OPTION_NO_TRACEPOINTS] = { 0, "no-tracepoints", NULL,
				    "record page faults alone: no events of devices, no\n"
				    "write marks of faults, no unmapped ranges" },
	[OPTION_QUIET] = OPTION_ROW_QUIET,
	[OPTION_HELP] = OPTION_ROW_HELP,
	{ 0 },
};

struct trace {
	struct record_options options;
	const char *output;
	pid_t pid; /* 0: a command */
	char **argv;
	struct trace_folder folder;
	struct recorder recorder;
	struct watch *watch;
	struct untraced untraced;
	uint32_t missed; /* threads of it that could not be had */
	double began;    /* seconds since 1970 */
	bool cut;        /* there was no more room: it ends at end_ns, the command did not */
	int cut_by;      /* a negative errno */
	uint64_t begin_ns;
	uint64_t end_ns;
};

static void usage(void)
{
	puts("Usage: hetmap trace [OPTION]... -- COMMAND [ARG]...\n"
	     "       hetmap trace [OPTION]... -p PID\n"
	     "\n"
	     "Records every page fault of a command and its children, or of a process, with\n"
	     "time, address, thread, CPU, and call chain. hetmap report shows the buffers,\n"
	     "order and cost of the faults, and gives advice. Any program can be traced;\n"
	     "buffers of this library have their names.\n"
	     "\n"
	     "Options:");
	option_help(rows);
	puts("\n"
	     "Examples:\n"
	     "  hetmap trace -- ./program --its-option\n"
	     "  hetmap trace -o weights.trace -- python3 load.py && hetmap report weights.trace\n"
	     "  hetmap trace -p 1234\n"
	     "\n"
	     "Exit status: the command's; 125 where tracing failed, 126 and 127 where the\n"
	     "command can't be executed or is not there. See also hetmap-trace(1).");
}

static bool is_full(int r)
{
	return r == -ENOSPC || r == -EDQUOT || r == -EFBIG;
}

static const char *more_room(int r)
{
	if (r == -EFBIG)
		return "raise the limit of a file's size (ulimit -f), or name a folder elsewhere "
		       "with -o";
	return is_full(r) ? "name a folder with more room with -o" : NULL;
}

/* The part that is written stays. */
static int fail_write(int r)
{
	return fail(STATUS_OWN, r, more_room(r), "writing the trace: %s", strerror(-r));
}

static int cut(struct trace *trace, int r)
{
	trace->cut = true;
	trace->cut_by = r;
	return record_cut(&trace->recorder);
}

/* All records stay, whatever there is room for after them. */
static int drain(struct trace *trace, int other_fd, int timeout_ms, bool *ret_other)
{
	int r = record_drain(&trace->recorder, other_fd, timeout_ms, ret_other);

	if (!is_full(r) || trace->cut)
		return r;
	trace->end_ns = record_now();
	remark("there is no more room for the trace: it ends here");
	return cut(trace, r);
}

/* Who wants no table of a program gets none. */
static bool is_unpublished(void)
{
	const char *wish = getenv("HETMAP_PUBLISH");

	return wish && !strcmp(wish, "0");
}

/* ---- a command ---- */

static int record_command(struct trace *trace, struct child *child, int *ret_status)
{
	struct rusage usage;
	bool other;
	int r, waited;

	do {
		r = drain(trace, child->fd, WAIT_MS, &other);
		if (r) {
			/* It goes on without: nothing that it does depends on the trace. */
			fail_write(r);
			while (child_wait(child, -1, ret_status, NULL) == -ETIME)
				;
			return r;
		}
		waited = child_wait(child, 0, ret_status, &usage);
	} while (waited == -ETIME);
	if (!waited)
		untraced_take(&trace->untraced, &usage);
	return waited;
}

/* Of a process that is there. */
static int fail_watch(int r, pid_t pid, const char *remedy)
{
	if (r == -EAGAIN)
		return fail(STATUS_OWN, r, "see RLIMIT_NPROC (ulimit -u) and pids.max",
			    "no thread could be started to look at tables of maps");
	return fail(STATUS_OWN, r, remedy, "cannot look into process %d: %s", (int)pid,
		    strerror(-r));
}

static int trace_command(struct trace *trace, int *ret_status)
{
	char *maps = trace_folder_file(trace->folder.path, "maps");
	struct child child;
	int r, status, ended = 0;

	if (!is_unpublished())
		setenv("HETMAP_PUBLISH", maps, 1);
	free(maps);
	r = child_start(trace->argv, &child);
	if (!is_unpublished())
		unsetenv("HETMAP_PUBLISH");
	if (r)
		return fail(STATUS_OWN, r, NULL, "cannot start a process: %s", strerror(-r));
	status = record_open(&trace->recorder, &trace->options, child.pid, true,
			     trace->folder.data_fd);
	if (status) {
		child_abandon(&child);
		return status;
	}
	/* Who can't write into the folder publishes as it does else: in memory. */
	r = watch_begin(child.pid, trace->folder.fd, &trace->watch);
	if (r) {
		child_abandon(&child);
		return fail_watch(r, child.pid, NULL);
	}
	untraced_begin(&trace->untraced, &child);
	trace->begin_ns = record_now();
	r = child_go(&child);
	if (r) {
		record_close(&trace->recorder);
		return child_exec_failed(trace->argv[0], r);
	}
	trace_folder_begun(&trace->folder);
	r = record_command(trace, &child, &ended);
	if (!trace->cut)
		trace->end_ns = record_now();
	watch_finish(trace->watch);
	*ret_status = child_exit_status(ended);
	return r ? STATUS_OWN : 0;
}

/* ---- a process that runs ---- */

static int attach(struct trace *trace)
{
	struct attaching *attaching;
	int status, r;

	r = attach_begin(trace->pid, &attaching);
	if (r == -ENOMEM)
		return fail(STATUS_OWN, r, NULL, "no memory for the trace");
	if (r)
		return fail(STATUS_OWN, r, NULL, "there is no process %d", (int)trace->pid);
	trace->begin_ns = record_now();
	status = record_open(&trace->recorder, &trace->options, trace->pid, false,
			     trace->folder.data_fd);
	if (status) {
		attach_end(attaching);
		return status;
	}
	r = record_attach(&trace->recorder, attaching, &trace->missed);
	attach_end(attaching);
	if (!r)
		r = watch_begin(trace->pid, trace->folder.fd, &trace->watch);
	if (!r) {
		trace_folder_begun(&trace->folder);
		return 0;
	}
	record_close(&trace->recorder);
	return r == -ESRCH || r == -ENOENT ?
		       fail(STATUS_OWN, r, NULL, "process %d has ended", (int)trace->pid) :
		       fail_watch(r, trace->pid,
				  "run hetmap as the process's user, or with sudo");
}

static int record_process(struct trace *trace)
{
	int pidfd = (int)syscall(SYS_pidfd_open, trace->pid, 0);
	bool ended = false;
	int r = 0;

	/* The end of the trace is worth the second. */
	signals_expect_twice();
	while (!r && !ended && !signals_pending()) {
		r = drain(trace, pidfd, WAIT_MS, &ended);
		/* Without pidfd_open(2), before 5.3. */
		if (pidfd < 0)
			ended = kill(trace->pid, 0) && errno == ESRCH;
	}
	record_disable(&trace->recorder);
	if (!trace->cut)
		trace->end_ns = record_now();
	watch_finish(trace->watch);
	if (pidfd >= 0)
		close(pidfd);
	return r ? fail_write(r) : 0;
}

/* ---- the result ---- */

/* The tracepoints that are in it, and a sentence on the others. */
static json_t *points_json(const struct trace *trace)
{
	const struct record_points *points = &trace->recorder.points;
	char *missing = points_missing(points, trace->options.no_tracepoints);
	json_t *recorded = json_array();
	uint32_t i;

	for (i = 0; i < points->n; i++) {
		const struct point_known *known = &points_known[points->point[i].point];

		json_array_append_new(recorded,
				      json_sprintf("%s:%s", known->system, known->name));
	}
	recorded = json_pack("{s:o, s:s*}", "recorded", recorded, "missing", missing);
	free(missing);
	return recorded;
}

static json_t *about(const struct trace *trace, const struct record_counts *counts,
		     const char *untraced)
{
	json_t *words = json_array(), *about, *nodes;
	char boot[STORAGE_BOOT_MAX];
	char **word;

	for (word = trace->argv; word && *word; word++) {
		char *shown = text_escape(*word);

		json_array_append_new(words, json_string(shown));
		free(shown);
	}
	about = json_pack("{s:i, s:o, s:i, s:f, s:I, s:I, s:o}", "version", 1, "command", words,
			  "pid", (int)trace->pid, "began", trace->began, "begin_ns",
			  (json_int_t)trace->begin_ns, "end_ns", (json_int_t)trace->end_ns,
			  "machine", machine_json());
	json_object_set_new(about, "counted",
			    json_pack("{s:I, s:I, s:I, s:I}", "faults",
				      (json_int_t)counts->value[TRACE_FAULT], "minor",
				      (json_int_t)counts->value[TRACE_MINOR], "major",
				      (json_int_t)counts->value[TRACE_MAJOR], "lost",
				      (json_int_t)counts->lost));
	if (untraced)
		json_object_set_new(about, "untraced",
				    json_pack("{s:I, s:s}", "faults",
					      (json_int_t)trace->untraced.faults, "missing",
					      untraced));
	if (watch_lost(trace->watch))
		json_object_set_new(about, "tables_lost",
				    json_integer(watch_lost(trace->watch)));
	if (!trace->pid && is_unpublished())
		json_object_set_new(about, "unpublished", json_true());
	if (trace->cut)
		json_object_set_new(about, "no_room", json_true());
	if (trace->missed)
		json_object_set_new(about, "not_attached", json_integer(trace->missed));
	json_object_set_new(about, "latency", json_boolean(!trace->options.no_latency));
	json_object_set_new(about, "user_only", json_boolean(trace->recorder.user_only));
	json_object_set_new(about, "nodes_recorded",
			    json_boolean(record_knows_nodes(&trace->recorder)));
	json_object_set_new(about, "ring_bytes",
			    json_integer((json_int_t)trace->recorder.ring_bytes));
	json_object_set_new(about, "tracepoints", points_json(trace));
	json_object_set_new(about, "costs", calibrate());
	nodes = nodes_here();
	if (nodes)
		json_object_set_new(about, "nodes", nodes);
	if (storage_boot(boot))
		json_object_set_new(about, "boot", json_string(boot));
	return about;
}

static void summary(const struct trace *trace, const struct record_counts *counts,
		    const char *untraced)
{
	char faults[TEXT_MAX], minor[TEXT_MAX], major[TEXT_MAX], size[TEXT_MAX];
	char seconds[TEXT_MAX], lost[TEXT_MAX], missed[TEXT_MAX];
	uint64_t value[N_TRACE_EVENT], left_out = 0;
	char *folder = text_shell(trace->output);

	memcpy(value, counts->value, sizeof(value));
	if (trace->cut && !record_count_written(&trace->recorder, value) &&
	    counts->value[TRACE_FAULT] > value[TRACE_FAULT])
		left_out = counts->value[TRACE_FAULT] - value[TRACE_FAULT];
	text_count(value[TRACE_FAULT], faults);
	text_seconds((double)(trace->end_ns - trace->begin_ns) / 1e9, seconds);
	if (trace->options.no_latency)
		remark("%s page faults in %s, %s of records", faults, seconds,
		       text_bytes(trace->recorder.written, size));
	else
		remark("%s page faults, %s minor and %s major, in %s, %s of records", faults,
		       text_count(value[TRACE_MINOR], minor),
		       text_count(value[TRACE_MAJOR], major), seconds,
		       text_bytes(trace->recorder.written, size));
	if (left_out)
		remark("%s page faults before it ended found no room: they are not in it",
		       text_count(left_out, lost));
	if (untraced)
		remark("%s", untraced);
	if (counts->lost)
		remark("%s records were lost: larger rings help (--ring, as root)",
		       text_count(counts->lost, lost));
	if (trace->missed)
		remark("%s threads that were there or began meanwhile are not in it: "
		       "raise ulimit -n",
		       text_count(trace->missed, missed));
	if (trace->recorder.user_only)
		remark("faults inside of system calls are not in it: "
		       "that takes root, or kernel.perf_event_paranoid below 2");
	remark("look at it by: hetmap report %s", folder);
	free(folder);
}

static int finish(struct trace *trace)
{
	struct record_counts counts;
	char *untraced;
	json_t *object;
	int r;

	record_count(&trace->recorder, &counts);
	untraced = untraced_missing(&trace->untraced, counts.value[TRACE_FAULT]);
	r = record_finish(&trace->recorder);
	if (!r) {
		object = about(trace, &counts, untraced);
		r = trace_folder_about(&trace->folder, object);
		json_decref(object);
	}
	if (!r)
		summary(trace, &counts, untraced);
	free(untraced);
	/* The rings kept the records that the last drain finds no room for. */
	if (is_full(r) && !trace->cut) {
		r = cut(trace, r);
		return r ? fail_write(r) : finish(trace);
	}
	return r ? fail_write(r) : 0;
}

static int run(struct trace *trace)
{
	struct timespec now;
	int status, ended = 0;

	clock_gettime(CLOCK_REALTIME, &now);
	trace->began = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
	status = fail_without_proc(STATUS_OWN);
	if (status)
		return status;
	status = trace_folder_create(trace->output, &trace->folder);
	if (status)
		return status;
	if (trace->pid) {
		status = attach(trace);
		if (!status)
			status = record_process(trace);
	} else {
		status = trace_command(trace, &ended);
	}
	if (!status)
		status = finish(trace);
	watch_end(trace->watch);
	untraced_end(&trace->untraced);
	record_close(&trace->recorder);
	trace_folder_close(&trace->folder, !status);
	if (!status && trace->cut)
		return fail(STATUS_OWN, trace->cut_by, more_room(trace->cut_by),
			    "the trace ends where there was no more room");
	return status ? status : ended;
}

static int take_option(const struct option_state *state, int option, void *user)
{
	struct trace *trace = user;
	uint64_t number;
	int status = 0;

	switch (option) {
	case OPTION_OUTPUT:
		trace->output = state->value;
		break;
	case OPTION_PID:
		status = option_take_number(state, option, 1, INT32_MAX, "a process's number",
					    &number);
		if (!status)
			trace->pid = (pid_t)number;
		break;
	case OPTION_NO_LATENCY:
		trace->options.no_latency = true;
		break;
	case OPTION_MAX_STACK:
		status = option_take_number(state, option, 0, 127, "a number from 0 to 127",
					    &number);
		if (!status)
			trace->options.max_stack = (uint32_t)number;
		break;
	case OPTION_RING:
		if (option_bytes(state->value, &number) || number < 65536 ||
		    number & (number - 1) || number > UINT64_C(1) << 30)
			return option_refuse(state, option, "a power of two from 64K to 1G");
		trace->options.ring = number;
		break;
	default:
		trace->options.no_tracepoints = true;
		break;
	}
	return status;
}

static int take_argument(const struct option_state *state, void *user)
{
	struct trace *trace = user;

	trace->argv = state->rest;
	return OPTION_END;
}

int trace_main(int argc, char **argv)
{
	static const struct option_table table = {
		.command = "trace",
		.rows = rows,
		.usage = usage,
		.option = take_option,
		.argument = take_argument,
		.refused = STATUS_OWN,
	};
	struct trace trace = {
		.options = { .max_stack = 16 },
		.output = TRACE_FOLDER,
		.folder = { .fd = -1, .data_fd = -1 },
		.recorder = { .data_fd = -1 },
		.untraced = { .fd = -1 },
	};
	int status;

	if (!option_walk(&table, argc, argv, &trace, &status))
		return status;
	if (!trace.argv == !trace.pid)
		return fail(STATUS_OWN, EINVAL, "hetmap trace -- COMMAND",
			    trace.pid ? "trace: a command or -p, not both" :
					"trace: no command was named");
	return run(&trace);
}
