// SPDX-License-Identifier: MIT
/*
 * hetmap stat: counters of perf_event_open(2). Each is attached to the child before it
 * executes, begins with that (enable_on_exec) and is inherited by its children.
 */
#include "perf/record/untraced.h"
#include "stat.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CACHE_MISS(cache, op)                                                                 \
	((uint64_t)PERF_COUNT_HW_CACHE_##cache | (uint64_t)PERF_COUNT_HW_CACHE_OP_##op << 8 | \
	 (uint64_t)PERF_COUNT_HW_CACHE_RESULT_MISS << 16)

/*
 * A counter without the kernel's side sees nothing of the kernel's work, or a part: a read(2)
 * into new memory faults there, and all switches are made there.
 */
static const struct {
	enum stat_id id;
	uint32_t type;
	uint64_t config;
	bool in_kernel;
} events[N_STAT_COUNTER] = {
	{ STAT_TASK_CLOCK, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, false },
	{ STAT_SWITCHES, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, true },
	{ STAT_MIGRATIONS, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, true },
	{ STAT_MINOR, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN, true },
	{ STAT_MAJOR, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ, true },
	{ STAT_DTLB_LOAD, PERF_TYPE_HW_CACHE, CACHE_MISS(DTLB, READ), false },
	{ STAT_DTLB_STORE, PERF_TYPE_HW_CACHE, CACHE_MISS(DTLB, WRITE), false },
	{ STAT_ITLB, PERF_TYPE_HW_CACHE, CACHE_MISS(ITLB, READ), false },
};

/* As read(2) gives it. */
struct reading {
	uint64_t value, enabled, running;
};

static int open_one(size_t i, pid_t pid, bool user_only)
{
	struct perf_event_attr attr = {
		.type = events[i].type,
		.size = sizeof(attr),
		.config = events[i].config,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
		.disabled = 1,
		.inherit = 1,
		.enable_on_exec = 1,
		.exclude_kernel = user_only,
		.exclude_hv = user_only,
	};
	long fd = syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

/* No permission, or no such call in this sandbox or kernel. */
static bool is_refusal(int error)
{
	return error == EACCES || error == EPERM || error == ENOSYS;
}

void counters_open(struct stat_result *result, pid_t pid, struct stat_counters *ret_counters)
{
	size_t i;

	for (i = 0; i < N_STAT_COUNTER; i++) {
		int fd = open_one(i, pid, false);

		ret_counters->user_only[i] = false;
		if (fd < 0 && is_refusal(-fd)) {
			result->refused = -fd;
			if (!events[i].in_kernel)
				fd = open_one(i, pid, true);
			ret_counters->user_only[i] = fd >= 0;
			result->user_only |= fd >= 0;
		}
		ret_counters->fd[i] = fd;
	}
}

void counters_drop(struct stat_counters *counters)
{
	size_t i;

	for (i = 0; i < N_STAT_COUNTER; i++)
		if (counters->fd[i] >= 0)
			close(counters->fd[i]);
}

static void missed(struct stat_result *result, enum stat_id id, int error)
{
	/* The kernel says the first of most that it does not have, or one of the others. */
	if (error == ENOENT || error == ENODEV || error == EINVAL || error == EOPNOTSUPP)
		stat_missed(result, id, "this machine has no such counter");
	else
		stat_missed(result, id, "perf_event_open(2): %s", strerror(error));
}

static bool were_taken(const struct reading *readings, const struct stat_counters *counters,
		       uint64_t cpu_ns)
{
	size_t i;

	for (i = 0; i < N_STAT_COUNTER; i++)
		if (counters->fd[i] >= 0)
			return counters_were_taken(readings[i].enabled, cpu_ns);
	return false;
}

static void take(struct stat_result *result, size_t i, const struct reading *reading,
		 bool user_only)
{
	enum stat_id id = events[i].id;
	double value = (double)reading->value, share;

	if (!reading->running) {
		stat_missed(result, id, "the counter never had its turn");
		return;
	}
	share = (double)reading->running / (double)reading->enabled;
	if (share < result->metrics[id].share)
		result->metrics[id].share = share;
	if (id == STAT_TASK_CLOCK)
		value /= 1e9;
	/* The task clock counts time in the kernel, too, whatever it was asked. */
	stat_counted(result, id,
		     user_only && id != STAT_TASK_CLOCK ? SOURCE_PERF_USER : SOURCE_PERF,
		     value / share);
}

void counters_close(struct stat_result *result, struct stat_counters *counters, uint64_t cpu_ns)
{
	struct reading readings[N_STAT_COUNTER] = { 0 };
	bool taken;
	size_t i;

	for (i = 0; i < N_STAT_COUNTER; i++)
		if (counters->fd[i] >= 0 && read(counters->fd[i], &readings[i],
						 sizeof(readings[i])) != sizeof(readings[i]))
			readings[i] = (struct reading){ 0 };
	counters_drop(counters);
	taken = were_taken(readings, counters, cpu_ns);
	result->taken |= taken;
	for (i = 0; i < N_STAT_COUNTER; i++) {
		if (counters->fd[i] < 0)
			missed(result, events[i].id, -counters->fd[i]);
		else if (taken)
			stat_missed(result, events[i].id,
				    "the kernel took the counter away at execution");
		else
			take(result, i, &readings[i], counters->user_only[i]);
	}
}
