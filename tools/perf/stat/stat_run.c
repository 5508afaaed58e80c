// SPDX-License-Identifier: MIT
/* hetmap stat: one repetition, from the fork to the kernel's figures at its end. */
#include "stat.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/command.h"
#include "common/text.h"
#include "perf/record/child.h"

/* A user may be in thousands of groups, which come before the memory. */
#define STATUS_SIZE 65536

/* Its growth between the look at it and its execution. */
#define HELD_SLACK (256 << 10)

/* From so many on the largest that was seen is near the true one. */
#define MANY_LOOKS 8

/* The child's cost before it executed, and the largest sizes seen since. */
struct looks {
	int fd; /* /proc/PID/status, or a negative errno */
	struct child_cost before;
	uint64_t switches, held_rss;
	uint64_t page_tables, rss;
	unsigned int n;
};

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	if (clock_gettime(clock, &now))
		return 0;
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t timeval_ns(const struct timeval *time)
{
	return (uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_usec * 1000;
}

static bool read_status(const struct looks *looks, char text[STATUS_SIZE])
{
	ssize_t n = looks->fd < 0 ? -1 : pread(looks->fd, text, STATUS_SIZE - 1, 0);

	if (n <= 0)
		return false;
	text[n] = '\0';
	return true;
}

/* One that has ended has no memory any more, and no such fields. */
static void look(struct looks *looks)
{
	char text[STATUS_SIZE];
	uint64_t bytes;

	if (!read_status(looks, text))
		return;
	bytes = stat_field(text, "VmPTE") * 1024;
	if (!bytes)
		return;
	looks->n++;
	if (bytes > looks->page_tables)
		looks->page_tables = bytes;
	bytes = stat_field(text, "VmHWM") * 1024;
	if (bytes > looks->rss)
		looks->rss = bytes;
}

static void looks_begin(struct looks *looks, const struct child *child)
{
	char path[64], text[STATUS_SIZE];

	*looks = (struct looks){ 0 };
	snprintf(path, sizeof(path), "/proc/%d/status", (int)child->pid);
	looks->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (looks->fd < 0)
		looks->fd = -errno;
	if (read_status(looks, text)) {
		looks->held_rss = stat_field(text, "VmHWM") * 1024;
		looks->switches = stat_field(text, "voluntary_ctxt_switches") +
				  stat_field(text, "nonvoluntary_ctxt_switches");
	}
	child_cost(child, &looks->before);
}

/* Often at first, so that a short command is seen at all; rarely when it takes long. */
static int wait_and_look(struct child *child, struct looks *looks, int *ret_status,
			 struct rusage *ret_usage)
{
	uint64_t begin = clock_ns(CLOCK_MONOTONIC), ms;
	int r;

	do {
		look(looks);
		ms = (clock_ns(CLOCK_MONOTONIC) - begin) / 1000000;
		r = child_wait(child, ms > 1600 ? 100 : 1 + (int)ms / 16, ret_status,
			       ret_usage);
	} while (r == -ETIME);
	return r;
}

static void take_memory(struct stat_result *result, const struct looks *looks,
			const struct rusage *usage)
{
	uint64_t rss = (uint64_t)usage->ru_maxrss * 1024;

	/* The size before it executed counts, too: getrusage(2) keeps the largest. */
	if (rss > looks->held_rss + HELD_SLACK)
		stat_counted(result, STAT_RSS, SOURCE_USAGE, (double)rss);
	else if (looks->n >= MANY_LOOKS)
		stat_counted(result, STAT_RSS, SOURCE_LOOKS, (double)looks->rss);
	else
		stat_missed(result, STAT_RSS, "less than the %llu KiB that hetmap has",
			    (unsigned long long)rss / 1024);
	if (looks->n)
		stat_counted(result, STAT_PAGE_TABLES, SOURCE_LOOKS,
			     (double)looks->page_tables);
	else if (looks->fd < 0)
		stat_missed(result, STAT_PAGE_TABLES, "/proc/PID/status: %s",
			    strerror(-looks->fd));
	else
		stat_missed(result, STAT_PAGE_TABLES, "it ended before the first look");
	result->looks += looks->n;
}

/* The figures of wait4(2), less the child's cost before it executed. */
static void take_usage(struct stat_result *result, const struct looks *looks,
		       const struct rusage *usage)
{
	const struct {
		enum stat_id id;
		uint64_t value, before;
	} counts[] = {
		{ STAT_MINOR, (uint64_t)usage->ru_minflt, looks->before.minor },
		{ STAT_MAJOR, (uint64_t)usage->ru_majflt, looks->before.major },
		{ STAT_SWITCHES, (uint64_t)usage->ru_nvcsw + (uint64_t)usage->ru_nivcsw,
		  looks->switches },
	};
	size_t i;

	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		uint64_t value = counts[i].value;

		/* A counter had it. */
		if (result->metrics[counts[i].id].figure.n > result->runs)
			continue;
		value -= value < counts[i].before ? value : counts[i].before;
		stat_counted(result, counts[i].id, SOURCE_USAGE, (double)value);
	}
}

int stat_run(struct stat_result *result)
{
	struct stat_counters counters;
	struct rusage usage;
	struct child child;
	struct looks looks;
	uint64_t begin, end, cpu_ns;
	int r, status;

	vmstat_begin(result);
	r = child_start(result->command, &child);
	if (r) {
		result->status = child_start_failed("stat", r);
		return r;
	}
	looks_begin(&looks, &child);
	counters_open(result, child.pid, &counters);
	begin = clock_ns(CLOCK_MONOTONIC);
	r = child_go(&child);
	if (r) {
		result->status = child_exec_failed(result->command[0], r);
		goto drop;
	}
	r = wait_and_look(&child, &looks, &status, &usage);
	end = clock_ns(CLOCK_MONOTONIC);
	if (r) {
		result->status = fail(STATUS_OWN, r, NULL,
				      "stat: cannot wait for the command: %s", strerror(-r));
		goto drop;
	}
	vmstat_end(result);
	cpu_ns = child_cpu_ns(&usage);
	cpu_ns -= cpu_ns < looks.before.cpu_ns ? cpu_ns : looks.before.cpu_ns;
	stat_counted(result, STAT_WALL, SOURCE_CLOCK, (double)(end - begin) / 1e9);
	stat_counted(result, STAT_USER, SOURCE_USAGE,
		     (double)timeval_ns(&usage.ru_utime) / 1e9);
	stat_counted(result, STAT_SYSTEM, SOURCE_USAGE,
		     (double)timeval_ns(&usage.ru_stime) / 1e9);
	counters_close(result, &counters, cpu_ns);
	take_usage(result, &looks, &usage);
	take_memory(result, &looks, &usage);
	result->runs++;
	result->signal = child.signal ? child.signal : signals_pending();
	if (child_exit_status(status))
		result->status = child_exit_status(status);
	if (looks.fd >= 0)
		close(looks.fd);
	return 0;
drop:
	counters_drop(&counters);
	if (looks.fd >= 0)
		close(looks.fd);
	return r;
}
