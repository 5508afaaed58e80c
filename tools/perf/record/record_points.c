// SPDX-License-Identifier: MIT
/*
 * Tracepoints: found in tracefs, opened on the rings that page faults have, and their
 * formats put into the recording, so that it can be read elsewhere.
 */
#include "record_points.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/text.h"
#include "record.h"
#include "record_ring.h"

/* ---- tracefs [Documentation/trace/ftrace.rst] ---- */

static const char *const places[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };

static char *read_text(const char *tracefs, const char *name, size_t *ret_length)
{
	char *path = text_format("%s/events/%s", tracefs, name), *text = NULL;
	FILE *file = path ? fopen(path, "re") : NULL;
	size_t room = 0;
	ssize_t n = -1;

	free(path);
	if (!file)
		return NULL;
	n = getdelim(&text, &room, '\0', file);
	fclose(file);
	if (n < 0) {
		free(text);
		return NULL;
	}
	*ret_length = (size_t)n;
	return text;
}

static int find_tracefs(const char **ret_tracefs)
{
	int r = -ENOENT;
	size_t i, n;
	char *text;

	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		errno = 0;
		text = read_text(places[i], "header_page", &n);
		if (text) {
			free(text);
			*ret_tracefs = places[i];
			return 0;
		}
		if (errno == EACCES || errno == EPERM)
			r = -EACCES;
	}
	return r;
}

/* Fills in @point; false: this kernel has none of that name. */
static bool look_up(const char *tracefs, enum point which, struct record_point *point)
{
	const struct point_known *known = &points_known[which];
	char *name = text_format("%s/%s/format", known->system, known->name);
	struct point_layout layout;
	size_t n;

	*point = (struct record_point){ .point = which };
	point->format = name ? read_text(tracefs, name, &n) : NULL;
	free(name);
	if (!point->format || !point_parse(known->system, point->format, &layout)) {
		free(point->format);
		return false;
	}
	point->id = layout.id;
	return true;
}

/* ---- opening ---- */

void points_attr(const struct recorder *recorder, const struct record_point *point,
		 struct perf_event_attr *ret_attr)
{
	*ret_attr = (struct perf_event_attr){
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(*ret_attr),
		.config = point->id,
		.sample_period = 1,
		.sample_type = POINT_SAMPLE,
		.read_format = recorder->counts_lost ? PERF_FORMAT_LOST : 0,
		.disabled = 1,
		.exclude_callchain_kernel = 1,
		.sample_id_all = 1,
		.watermark = 1,
		.wakeup_watermark = (uint32_t)(recorder->ring_bytes / 4),
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
	if (points_known[point->point].chain && recorder->options->max_stack) {
		ret_attr->sample_type |= PERF_SAMPLE_CALLCHAIN;
		ret_attr->sample_max_stack = (uint16_t)recorder->options->max_stack;
	}
	if (points_known[point->point].group == POINTS_DEVICE)
		return;
	ret_attr->inherit = 1;
	ret_attr->enable_on_exec = recorder->on_exec;
}

static int room_for_one(struct record_point *point)
{
	uint32_t room = 2 * point->room + 8;
	uint64_t *ids;
	int *fds;

	if (point->n_fd < point->room)
		return 0;
	fds = realloc(point->fds, room * sizeof(*fds));
	if (fds)
		point->fds = fds;
	ids = realloc(point->ids, room * sizeof(*ids));
	if (ids)
		point->ids = ids;
	if (!fds || !ids)
		return -ENOMEM;
	point->room = room;
	return 0;
}

/* @tid -1: of all processes. */
static int open_one(const struct recorder *recorder, struct record_point *point, pid_t tid,
		    const struct ring *ring)
{
	struct perf_event_attr attr;
	int fd, r;

	r = room_for_one(point);
	if (r)
		return r;
	points_attr(recorder, point, &attr);
	fd = (int)syscall(SYS_perf_event_open, &attr, tid, ring->cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = ring_share(ring, fd);
	if (!r && ioctl(fd, PERF_EVENT_IOC_ID, &point->ids[point->n_fd]))
		r = -errno;
	if (r) {
		close(fd);
		return r;
	}
	point->fds[point->n_fd++] = fd;
	return 0;
}

static void close_point(struct record_point *point)
{
	while (point->n_fd)
		close(point->fds[--point->n_fd]);
	free(point->fds);
	free(point->ids);
	free(point->format);
}

static int open_point(struct recorder *recorder, struct record_point *point, pid_t tid)
{
	uint32_t i;
	int r;

	if (points_known[point->point].group == POINTS_DEVICE)
		tid = -1;
	for (i = 0; i < recorder->n_ring; i++) {
		if (recorder->rings[i].fd < 0)
			continue;
		r = open_one(recorder, point, tid, &recorder->rings[i]);
		/* The thread has ended, or no CPU of that number is online. */
		if (r && r != -ESRCH && r != -ENODEV)
			return r;
	}
	return 0;
}

int points_add(struct recorder *recorder, pid_t tid)
{
	struct record_points *points = &recorder->points;
	uint32_t i, n;
	int r = 0;

	for (i = 0; i < points->n && !r; i++) {
		struct record_point *point = &points->point[i];

		if (points_known[point->point].group == POINTS_DEVICE)
			continue;
		n = point->n_fd;
		r = open_point(recorder, point, tid);
		for (; n < point->n_fd; n++)
			ioctl(point->fds[n], PERF_EVENT_IOC_ENABLE, 0);
	}
	return r;
}

/* Half of a group says less than nothing: all of it goes. */
static void drop_group(struct record_points *points, enum point_group group)
{
	uint32_t i, n = 0;

	for (i = 0; i < points->n; i++) {
		if (points_known[points->point[i].point].group == group)
			close_point(&points->point[i]);
		else
			points->point[n++] = points->point[i];
	}
	points->n = n;
}

static void open_group(struct recorder *recorder, enum point_group group, pid_t tid)
{
	struct record_points *points = &recorder->points;
	uint32_t which, found = 0;
	int r = 0;

	for (which = 0; which < N_POINT && !r; which++) {
		struct record_point *point = &points->point[points->n];

		if (points_known[which].group != group ||
		    !look_up(points->tracefs, which, point))
			continue;
		points->n++;
		found++;
		r = open_point(recorder, point, tid);
	}
	points->error[group] = found ? r : -ENOENT;
	if (r)
		drop_group(points, group);
}

void points_open(struct recorder *recorder, pid_t tid)
{
	struct record_points *points = &recorder->points;
	enum point_group group;
	int r = recorder->options->no_tracepoints ? -ECANCELED : find_tracefs(&points->tracefs);

	for (group = 0; group < N_POINT_GROUP; group++)
		points->error[group] = r;
	if (r)
		return;
	for (group = 0; group < N_POINT_GROUP; group++) {
		/* Without their ends faults are counted only: that is to cost little. */
		if (group == POINTS_ACCESS && recorder->options->no_latency)
			points->error[group] = -ECANCELED;
		else
			open_group(recorder, group, tid);
	}
}

static void each_fd(const struct record_points *points, bool of_tasks, unsigned long request)
{
	uint32_t i, n;

	for (i = 0; i < points->n; i++) {
		const struct record_point *point = &points->point[i];

		if (points_known[point->point].group != POINTS_DEVICE && !of_tasks)
			continue;
		for (n = 0; n < point->n_fd; n++)
			ioctl(point->fds[n], request, 0);
	}
}

void points_enable(const struct record_points *points, bool of_tasks)
{
	each_fd(points, of_tasks, PERF_EVENT_IOC_ENABLE);
}

void points_disable(const struct record_points *points)
{
	each_fd(points, true, PERF_EVENT_IOC_DISABLE);
}

uint64_t points_lost(const struct record_points *points)
{
	uint64_t value[2], lost = 0;
	uint32_t i, n;

	for (i = 0; i < points->n; i++)
		for (n = 0; n < points->point[i].n_fd; n++)
			if (read(points->point[i].fds[n], value, sizeof(value)) ==
			    (ssize_t)sizeof(value))
				lost += value[1];
	return lost;
}

void points_stop(struct record_points *points)
{
	uint32_t i, n;

	for (i = 0; i < points->n; i++)
		for (n = 0; n < points->point[i].n_fd; n++) {
			close(points->point[i].fds[n]);
			points->point[i].fds[n] = -1;
		}
}

void points_close(struct record_points *points)
{
	uint32_t i, n;

	for (i = 0; i < points->n; i++) {
		for (n = 0; n < points->point[i].n_fd; n++)
			if (points->point[i].fds[n] < 0)
				points->point[i].n_fd = 0;
		close_point(&points->point[i]);
	}
	points->n = 0;
}

/* ---- formats, as a recording has them ---- */

static void put_u32(FILE *out, uint32_t value)
{
	fwrite(&value, sizeof(value), 1, out);
}

static void put_sized(FILE *out, const char *text, size_t length)
{
	const uint64_t size = length;

	fwrite(&size, sizeof(size), 1, out);
	fwrite(text, 1, length, out);
}

static void put_file(FILE *out, const char *tracefs, const char *name)
{
	size_t length = 0;
	char *text = read_text(tracefs, name, &length);

	fwrite(name, 1, strlen(name) + 1, out);
	put_sized(out, text ? text : "", text ? length : 0);
	free(text);
}

/* Those of one system stand together: point[] is in the order of enum point. */
static uint32_t run_of(const struct record_points *points, uint32_t first)
{
	const char *system = points_known[points->point[first].point].system;
	uint32_t n = 1;

	while (first + n < points->n &&
	       !strcmp(points_known[points->point[first + n].point].system, system))
		n++;
	return n;
}

static void put_formats(FILE *out, const struct record_points *points)
{
	uint32_t i, k, n, systems = 0;
	const char *system;

	for (i = 0; i < points->n; i += run_of(points, i))
		systems++;
	put_u32(out, systems);
	for (i = 0; i < points->n; i += n) {
		n = run_of(points, i);
		system = points_known[points->point[i].point].system;
		fwrite(system, 1, strlen(system) + 1, out);
		put_u32(out, n);
		for (k = i; k < i + n; k++)
			put_sized(out, points->point[k].format,
				  strlen(points->point[k].format));
	}
}

int points_tracing_data(const struct record_points *points, char **ret_data,
			uint64_t *ret_length)
{
	static const char magic[] = { 23, 8, 68, 't', 'r', 'a', 'c', 'i', 'n', 'g' };
	const char kind[] = { BYTE_ORDER == BIG_ENDIAN, sizeof(long) };
	char *data = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&data, &length);

	if (!out)
		return -ENOMEM;
	fwrite(magic, 1, sizeof(magic), out);
	fwrite("0.5", 1, sizeof("0.5"), out);
	fwrite(kind, 1, sizeof(kind), out);
	put_u32(out, (uint32_t)sysconf(_SC_PAGESIZE));
	put_file(out, points->tracefs, "header_page");
	put_file(out, points->tracefs, "header_event");
	put_u32(out, 0); /* formats of ftrace's own */
	put_formats(out, points);
	put_u32(out, 0); /* symbols of the kernel */
	put_u32(out, 0); /* its texts */
	if (fclose(out)) {
		free(data);
		return -ENOMEM;
	}
	*ret_data = data;
	*ret_length = length;
	return 0;
}

/* ---- its text ---- */

/* Without the module there is nothing to be said of its devices. */
static bool has_device(void)
{
	return !access("/sys/module/hetsim", F_OK);
}

char *points_missing(const struct record_points *points, bool left_out)
{
	int calls = points->error[POINTS_CALLS], access = points->error[POINTS_ACCESS];
	int device = has_device() ? points->error[POINTS_DEVICE] : 0;
	const char *why = "this kernel has no such tracepoints";
	int r;

	/* Records that were not asked for are not missing. */
	if (access == -ECANCELED)
		access = 0;
	r = calls ? calls : access ? access : device;
	if (!r || left_out)
		return NULL;
	if (r == -EACCES || r == -EPERM)
		why = "that takes sudo: tracepoints are root's";
	else if (r == -ENOENT && !points->tracefs)
		why = "mount -t tracefs tracefs /sys/kernel/tracing, as root, before the trace";
	else if (r == -EMFILE || r == -ENFILE)
		why = "there were too few file descriptors (ulimit -n)";
	return text_format("not recorded: %s%s%s%s%s (%s)",
			   access ? "the direction of faults" : "", access && calls ? "; " : "",
			   calls ? "changes by munmap(2), mremap(2) and madvise(2)" : "",
			   device && (access || calls) ? "; " : "",
			   device ? "events of the simulated devices" : "", why);
}
