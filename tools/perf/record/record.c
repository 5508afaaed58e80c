// SPDX-License-Identifier: MIT
/* Recording: opens the kernel's events on each CPU, and names the obstacles. */
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/command.h"
#include "common/machine.h"
#include "common/text.h"
#include "perf/read/nodes.h"
#include "record_file.h"
#include "record_ring.h"

static const uint64_t configs[] = {
	[TRACE_FAULT] = PERF_COUNT_SW_PAGE_FAULTS,
	[TRACE_MINOR] = PERF_COUNT_SW_PAGE_FAULTS_MIN,
	[TRACE_MAJOR] = PERF_COUNT_SW_PAGE_FAULTS_MAJ,
};

/* Physical addresses are for whom kernel events are for [perf_event_open(2)]. */
bool record_knows_nodes(const struct recorder *recorder)
{
	return recorder->several_nodes && !recorder->user_only &&
	       recorder->n_event > TRACE_MINOR;
}

void record_attr(const struct recorder *recorder, enum trace_event event,
		 struct perf_event_attr *ret_attr)
{
	*ret_attr = (struct perf_event_attr){
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(*ret_attr),
		.config = configs[event],
		.sample_period = 1,
		.sample_type = TRACE_SAMPLE,
		.read_format = PERF_FORMAT_LOST,
		/* Each that a running process begins is told of from then on: record_attach(). */
		.disabled = recorder->on_exec,
		.inherit = 1,
		.enable_on_exec = recorder->on_exec,
		.exclude_kernel = recorder->user_only,
		.exclude_hv = 1,
		.exclude_callchain_kernel = 1,
		.sample_id_all = 1,
		.watermark = 1,
		.wakeup_watermark = (uint32_t)(recorder->ring_bytes / 4),
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
	if (event != TRACE_FAULT) {
		/* The page is there by then: its address tells whose memory it is. */
		if (record_knows_nodes(recorder))
			ret_attr->sample_type |= PERF_SAMPLE_PHYS_ADDR;
		return;
	}
	ret_attr->mmap = ret_attr->mmap2 = ret_attr->mmap_data = 1;
	ret_attr->comm = ret_attr->comm_exec = ret_attr->task = 1;
	ret_attr->context_switch = 1;
	if (recorder->options->max_stack) {
		/* Functions without a frame pointer, such as memset(), hide who called them. */
		ret_attr->sample_type |= PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_STACK_USER;
		ret_attr->sample_stack_user = sizeof(uint64_t);
		ret_attr->sample_max_stack = (uint16_t)recorder->options->max_stack;
	}
}

static int event_open(struct perf_event_attr *attr, pid_t tid, int cpu)
{
	long fd = syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	/* Kernels before 6.0 don't count lost records by event: records tell the loss. */
	if (fd < 0 && errno == EINVAL && attr->read_format & PERF_FORMAT_LOST) {
		attr->read_format &= ~(uint64_t)PERF_FORMAT_LOST;
		fd = syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	}
	return fd < 0 ? -errno : (int)fd;
}

/* ---- refusals ---- */

/* kernel.NAME, or @unknown. */
static long setting(const char *name, long unknown)
{
	char *path = text_format("%s/proc/sys/kernel/%s", machine_root(), name);
	FILE *file = fopen(path, "re");
	long value = unknown;

	free(path);
	if (file && fscanf(file, "%ld", &value) != 1)
		value = unknown;
	if (file)
		fclose(file);
	return value;
}

/* mmap(2) of a perf event: EPERM beyond a user's limit of locked memory for that. */
static int explain_ring(const struct recorder *recorder, int error)
{
	uint64_t kib = (recorder->ring_bytes + (uint64_t)sysconf(_SC_PAGESIZE)) >> 10;
	char size[TEXT_MAX], remedy[128];

	text_bytes(recorder->ring_bytes, size);
	if (error != EPERM)
		return fail(STATUS_OWN, error, "a smaller one: --ring 1M",
			    "no ring of %s for each of %u CPUs: %s", size, recorder->n_ring,
			    strerror(error));
	snprintf(remedy, sizeof(remedy),
		 "a smaller --ring; or sudo sysctl kernel.perf_event_mlock_kb=%" PRIu64, kib);
	return fail(STATUS_OWN, error, remedy,
		    "a ring of %s takes %" PRIu64 " KiB for each CPU, and an ordinary user may "
		    "lock %ld (kernel.perf_event_mlock_kb)",
		    size, kib, setting("perf_event_mlock_kb", 0));
}

static int explain(const struct recorder *recorder, int error)
{
	bool capable = machine_capable(CAP_PERFMON) || machine_capable(CAP_SYS_ADMIN);
	long level = setting("perf_event_paranoid", -2);
	char why[160];

	if (recorder->ring_refused)
		return explain_ring(recorder, error);
	switch (error) {
	case EACCES:
	case EPERM:
		if (capable)
			return fail(
				STATUS_OWN, error,
				"a container's seccomp filter or a security module does that: "
				"allow perf_event_open, or trace outside of it",
				"tracing is refused (%s) although CAP_PERFMON is there",
				strerror(error));
		/* On stock Debian everyone meets this: the remedy comes first. */
		if (level > 2) {
			snprintf(why, sizeof(why),
				 "this kernel lets no ordinary user trace: "
				 "kernel.perf_event_paranoid is %ld",
				 level);
			return fail(
				STATUS_OWN, error, why,
				"sudo sysctl kernel.perf_event_paranoid=2 allows tracing until "
				"the next boot; or run hetmap with sudo");
		}
		return fail(STATUS_OWN, error,
			    "run hetmap as the process's user, or with sudo; in a container, "
			    "allow perf_event_open and CAP_PERFMON",
			    "tracing is not permitted: %s", strerror(error));
	case ENOSYS:
		return fail(STATUS_OWN, error,
			    "trace in a virtual machine (make vm), or outside the container",
			    "this kernel has no perf_event_open");
	case EMFILE:
	case ENFILE:
		return fail(STATUS_OWN, error, "raise RLIMIT_NOFILE (ulimit -n)",
			    "too few file descriptors: tracing takes some for each thread and "
			    "CPU");
	case ESRCH:
		return fail(STATUS_OWN, error, NULL, "the process is gone");
	default:
		return fail(STATUS_OWN, error, NULL, "perf_event_open: %s", strerror(error));
	}
}

/* ---- opening ---- */

static int room_for(struct recorder *recorder, uint32_t n)
{
	uint32_t room = recorder->room ? recorder->room : 64;
	struct record_event *more;

	if (recorder->n_opened + n <= recorder->room)
		return 0;
	while (room < recorder->n_opened + n)
		room *= 2;
	more = realloc(recorder->events, room * sizeof(*more));
	if (!more)
		return -ENOMEM;
	recorder->events = more;
	recorder->room = room;
	return 0;
}

/* All events of one thread on one CPU: on its ring, which the first of them gets. */
static int open_on(struct recorder *recorder, pid_t tid, bool again, struct ring *ring)
{
	struct perf_event_attr attr;
	struct record_event *events;
	uint32_t event;
	int fd, r;

	r = room_for(recorder, recorder->n_event);
	if (r)
		return r;
	events = &recorder->events[recorder->n_opened];
	for (event = 0; event < recorder->n_event; event++) {
		record_attr(recorder, event, &attr);
		fd = event_open(&attr, tid, ring->cpu);
		if (fd < 0) {
			r = fd;
			goto err_close;
		}
		events[event] = (struct record_event){ .fd = fd, .again = again };
		recorder->counts_lost = attr.read_format & PERF_FORMAT_LOST;
		recorder->ring_refused = false;
		if (ring->fd >= 0) {
			r = ring_share(ring, fd);
		} else {
			r = ring_map(ring, fd, recorder->ring_bytes);
			recorder->ring_refused = r;
		}
		if (!r && ioctl(fd, PERF_EVENT_IOC_ID, &events[event].id))
			r = -errno;
		if (r) {
			event++;
			goto err_close;
		}
	}
	recorder->n_opened += recorder->n_event;
	return 0;

err_close:
	while (event--) {
		fd = events[event].fd;
		if (ring->fd == fd)
			ring_unmap(ring, recorder->ring_bytes);
		close(fd);
	}
	return r;
}

int record_add(struct recorder *recorder, pid_t tid, bool again)
{
	uint32_t i, n = 0;
	int r;

	for (i = 0; i < recorder->n_ring; i++) {
		r = open_on(recorder, tid, again, &recorder->rings[i]);
		if (r == -ENODEV) /* the CPU is offline */
			continue;
		if (r)
			return r;
		n++;
	}
	return n ? 0 : -ENODEV;
}

static void close_all(struct recorder *recorder)
{
	uint32_t i;

	for (i = 0; i < recorder->n_ring; i++)
		ring_unmap(&recorder->rings[i], recorder->ring_bytes);
	for (i = 0; i < recorder->n_opened; i++)
		close(recorder->events[i].fd);
	recorder->n_opened = 0;
}

/*
 * With as much as this user may have: kernel events are not for everyone, and locked
 * memory is little [perf_event_open(2), /proc/sys/kernel/perf_event_mlock_kb].
 */
static int open_allowed(struct recorder *recorder, pid_t tid)
{
	int r;

	recorder->ring_bytes = recorder->options->ring ? recorder->options->ring : RING_MOST;
	while (!recorder->options->ring && recorder->ring_bytes > RING_LEAST &&
	       recorder->ring_bytes * recorder->n_ring > RINGS_MOST)
		recorder->ring_bytes /= 2;
	for (;;) {
		r = record_add(recorder, tid, false);
		if (!r)
			return 0;
		close_all(recorder);
		if (r == -EACCES && !recorder->user_only)
			recorder->user_only = true;
		else if ((r == -EPERM || r == -ENOMEM) && !recorder->options->ring &&
			 recorder->ring_bytes > RING_LEAST)
			recorder->ring_bytes /= 2;
		else
			return r;
	}
}

int record_open(struct recorder *recorder, const struct record_options *options, pid_t tid,
		bool on_exec, int data_fd)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	struct rlimit files;
	uint32_t i;
	int r;

	*recorder = (struct recorder){
		.options = options,
		.on_exec = on_exec,
		.attaching = !on_exec,
		.n_event = options->no_latency ? TRACE_MINOR : N_TRACE_EVENT,
		.several_nodes = nodes_several(),
		.data_fd = data_fd,
	};
	/* One that was started is limited as it was before. */
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	recorder->rings = calloc((size_t)cpus, sizeof(*recorder->rings));
	if (!recorder->rings)
		return fail(STATUS_OWN, ENOMEM, NULL, "no memory for the rings");
	recorder->n_ring = (uint32_t)cpus;
	for (i = 0; i < recorder->n_ring; i++)
		recorder->rings[i] = (struct ring){ .cpu = (int)i, .fd = -1 };
	recorder->began_ns = record_now();
	r = open_allowed(recorder, tid);
	if (r) {
		explain(recorder, -r);
		goto err_close;
	}
	points_open(recorder, tid);
	points_enable(&recorder->points, !on_exec);
	r = record_begin_file(recorder, tid);
	if (r) {
		fail(STATUS_OWN, r, "name another folder with -o", "writing the trace: %s",
		     strerror(-r));
		goto err_close;
	}
	return 0;

err_close:
	record_close(recorder);
	return STATUS_OWN;
}

void record_disable(struct recorder *recorder)
{
	uint32_t i;

	for (i = 0; i < recorder->n_opened; i++)
		ioctl(recorder->events[i].fd, PERF_EVENT_IOC_DISABLE, 0);
	points_disable(&recorder->points);
}

void record_count(const struct recorder *recorder, struct record_counts *ret_counts)
{
	uint64_t value[2]; /* and the lost ones, where the kernel tells */
	uint32_t i;
	ssize_t n;

	*ret_counts = (struct record_counts){ 0 };
	for (i = 0; i < recorder->n_opened; i++) {
		n = read(recorder->events[i].fd, value, sizeof(value));
		if (n < (ssize_t)sizeof(value[0]))
			continue;
		/* A loss that two tell is counted by the one that told first, mostly. */
		if (!recorder->events[i].again)
			ret_counts->value[i % recorder->n_event] += value[0];
		if (n == (ssize_t)sizeof(value))
			ret_counts->lost += value[1];
	}
	ret_counts->lost += points_lost(&recorder->points);
}

void record_close(struct recorder *recorder)
{
	points_close(&recorder->points);
	close_all(recorder);
	free(recorder->rings);
	free(recorder->events);
	*recorder = (struct recorder){ .data_fd = -1 };
}

int record_finish(struct recorder *recorder)
{
	bool other;
	int r;

	points_disable(&recorder->points);
	r = record_drain(recorder, -1, 0, &other);
	if (r)
		return r;
	points_stop(&recorder->points);
	return record_end_file(recorder);
}
