// SPDX-License-Identifier: MIT
/*
 * One look of hetmap top: finds the processes that publish a table, or whose devices have
 * entries for their pages, and reads the buffers of each. A process without either is asked
 * again now and then only: it may have thousands of descriptors, and a machine thousands of
 * processes.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/machine.h"
#include "perf/read/mappings.h"
#include "perf/read/openers.h"
#include "top.h"

/* One that had no table is asked at so many looks, and then at each such look. */
#define ASK_AGAIN 5

struct top_pid {
	pid_t pid;
	bool unreadable; /* when it was asked last */
	bool broken;     /* its table makes no sense */
	unsigned int n_asked;
};

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* ---- /proc/PID ---- */

/* Fields 10, 12 and 22 of /proc/PID/stat, and the name. 0; -ENOENT, -ESRCH: it is gone. */
static int read_stat(pid_t pid, uint64_t *ret_start, uint64_t *ret_faults, char *name,
		     size_t size)
{
	char *text, *from, *to, path[64];
	uint64_t minor, major, start;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	r = machine_read_all("", path, &text);
	if (r)
		return r;
	/* A name may have anything in it, blanks and parentheses too. */
	from = strchr(text, '(');
	to = strrchr(text, ')');
	r = -EPROTO;
	if (from && to && from < to &&
	    sscanf(to + 1,
		   " %*c %*d %*d %*d %*d %*d %*u %" SCNu64 " %*u %" SCNu64
		   " %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64,
		   &minor, &major, &start) == 3) {
		*to = '\0';
		snprintf(name, size, "%s", from + 1);
		*ret_start = start;
		*ret_faults = minor + major;
		r = 0;
	}
	free(text);
	return r;
}

/* ---- a process's buffers ---- */

static int compare_buffers(const void *a, const void *b)
{
	const struct top_buffer *x = a, *y = b;

	return (x->serial > y->serial) - (x->serial < y->serial);
}

struct top_buffer *top_find_buffer(const struct top_buffer *buffers, size_t n, uint64_t serial)
{
	const struct top_buffer wanted = { .serial = serial };

	return n ? bsearch(&wanted, buffers, n, sizeof(wanted), compare_buffers) : NULL;
}

static void add_known(uint64_t *sum, bool known, uint64_t value)
{
	if (!known)
		*sum = FIGURE_UNKNOWN;
	else if (*sum != FIGURE_UNKNOWN)
		*sum += value;
}

static void add_map(struct top_buffer *buffer, const struct live_map *map,
		    const struct mappings *mappings)
{
	const struct hm_published_entry *entry = &map->entry;
	struct top_figures *figures = &buffer->figures;
	struct smaps_sum sum;

	/* Maps come by address. */
	if (!figures->maps)
		buffer->address = entry->address;
	mappings_sum(mappings, entry->address, live_end(map), &sum);
	figures->maps++;
	figures->mapped += sum.mapped;
	figures->resident += sum.resident;
	figures->locked += sum.locked;
	figures->huge += sum.huge;
	add_known(&figures->brackets, map->counted, map->brackets);
	add_known(&figures->in_flight, map->counted, map->in_flight);
	buffer->lost |= (entry->flags & HM_PUBLISHED_LOST) != 0;
}

static double rate(uint64_t now_n, uint64_t before, double seconds)
{
	if (now_n == FIGURE_UNKNOWN || before == FIGURE_UNKNOWN || seconds <= 0 ||
	    now_n < before)
		return TOP_NO_RATE;
	return (double)(now_n - before) / seconds;
}

/* How often its memory made room; FIGURE_UNKNOWN: its device does not count that. */
static uint64_t evictions_at(const struct live_map *map, const struct mappings *mappings,
			     const struct openers *openers)
{
	const struct hm_published_entry *entry = &map->entry;
	const struct mapping *mapping = mappings_at(mappings, entry->address);
	uint64_t device;

	if (entry->evictions)
		return map->counted ? map->evictions : FIGURE_UNKNOWN;
	if (!openers_device(entry->device, &device) || !mapping ||
	    mapping->smaps.start > entry->address)
		return FIGURE_UNKNOWN;
	return openers_evicted(openers, device,
			       mapping->offset + entry->address - mapping->smaps.start);
}

/*
 * The evictions of its buffers by sim's devices, any of each, and the work of these on its
 * pages.
 */
static uint64_t read_openers(struct top_process *process, const struct mappings *mappings,
			     double seconds)
{
	struct openers openers;
	struct top_buffer *buffer;
	uint64_t all, n;
	size_t i;
	/* A part of them would look like fewer than the last time. */
	int r = openers_look(process->pid, &openers);

	for (i = 0; i < process->n_buffer; i++)
		process->buffers[i].n_eviction = FIGURE_UNKNOWN;
	for (i = 0; i < process->live.n && !r; i++) {
		const struct live_map *map = &process->live.maps[i];

		buffer =
			top_find_buffer(process->buffers, process->n_buffer, map->entry.buffer);
		n = evictions_at(map, mappings, &openers);
		/* Another of its maps may tell the figure that one does not. */
		if (n != FIGURE_UNKNOWN)
			buffer->n_eviction = n;
	}
	all = r ? FIGURE_UNKNOWN : openers.evictions;
	for (i = 0; i < N_MIRRORED; i++) {
		n = r ? FIGURE_UNKNOWN : openers.mirrored[i];
		process->mirrored[i] = rate(n, process->n_mirrored[i], seconds);
		process->n_mirrored[i] = n;
	}
	openers_end(&openers);
	return all;
}

/* One for each that has maps, by serial number; NULL: no memory. */
static struct top_buffer *group(const struct live *live, const struct mappings *mappings,
				size_t *ret_n)
{
	struct top_buffer *buffers = calloc(live->n + 1, sizeof(*buffers));
	size_t i, n = 0;

	if (!buffers)
		return NULL;
	for (i = 0; i < live->n; i++) {
		struct top_buffer *buffer = &buffers[i];

		buffer->serial = live->maps[i].entry.buffer;
		memcpy(buffer->name, live->maps[i].entry.name, sizeof(buffer->name));
		memcpy(buffer->device, live->maps[i].entry.device, sizeof(buffer->device));
	}
	if (live->n > 1)
		qsort(buffers, live->n, sizeof(*buffers), compare_buffers);
	for (i = 0; i < live->n; i++)
		if (!n || buffers[n - 1].serial != buffers[i].serial)
			buffers[n++] = buffers[i];
	for (i = 0; i < live->n; i++)
		add_map(top_find_buffer(buffers, n, live->maps[i].entry.buffer), &live->maps[i],
			mappings);
	*ret_n = n;
	return buffers;
}

static void add_sample(void *user, uint64_t address, uint64_t weight)
{
	struct top_process *process = user;
	const struct live_map *map = live_at(&process->live, address);
	struct top_buffer *buffer;
	struct top_range *range;

	process->samples += weight;
	if (!map || address - map->entry.address >= map->entry.length) {
		range = ranges_at(process, address);
		if (range)
			range->sampled += weight;
		return;
	}
	buffer = top_find_buffer(process->buffers, process->n_buffer, map->entry.buffer);
	if (buffer)
		buffer->sampled += weight;
}

/* Of @n faults that were counted, shared out as the samples are. */
static void share_faults(struct top_figures *figures, uint64_t sampled, uint64_t all,
			 uint64_t n, double seconds)
{
	if (seconds > 0 && (all || !n))
		figures->faults = all ? (double)n * (double)sampled / (double)all / seconds : 0;
}

static void rate_faults(struct top_process *process, double seconds)
{
	uint64_t n = 0;
	size_t i;
	int r = 0;

	process->samples = 0;
	if (!process->faults)
		r = faults_open(process->pid, &process->faults);
	if (!r)
		r = faults_take(process->faults, add_sample, process, &n);
	process->faults_refused = r == -ESRCH || r == -ENOENT ? 0 : -r;
	if (r) {
		faults_close(process->faults);
		process->faults = NULL;
		return;
	}
	for (i = 0; i < process->n_buffer; i++)
		share_faults(&process->buffers[i].figures, process->buffers[i].sampled,
			     process->samples, n, seconds);
	for (i = 0; i < process->n_range; i++)
		share_faults(&process->ranges[i].figures, process->ranges[i].sampled,
			     process->samples, n, seconds);
}

static void add_rate(double *sum, double rate)
{
	*sum = rate == TOP_NO_RATE || *sum == TOP_NO_RATE ? TOP_NO_RATE : *sum + rate;
}

static void sum_up(struct top_process *process)
{
	struct top_figures *sum = &process->sum;
	size_t i;

	*sum = (struct top_figures){ 0 };
	for (i = 0; i < process->n_buffer; i++) {
		const struct top_figures *one = &process->buffers[i].figures;

		sum->maps += one->maps;
		sum->mapped += one->mapped;
		sum->resident += one->resident;
		sum->locked += one->locked;
		sum->huge += one->huge;
		add_known(&sum->brackets, one->brackets != FIGURE_UNKNOWN, one->brackets);
		add_known(&sum->in_flight, one->in_flight != FIGURE_UNKNOWN, one->in_flight);
		add_rate(&sum->faults, one->faults);
		/* Of a buffer that was not there before nothing is known yet. */
		if (one->gained != TOP_NO_RATE)
			sum->gained += one->gained;
	}
	sum->device_faults = process->mirrored[MIRRORED_FAULTS];
	sum->invalidated = process->mirrored[MIRRORED_INVALIDATED];
	sum->moved = process->mirrored[MIRRORED_THERE];
	add_rate(&sum->moved, process->mirrored[MIRRORED_BACK]);
}

/* Of buffers that were there before. */
static void rate_buffers(struct top_process *process, const struct top_buffer *before,
			 size_t n_before, double seconds)
{
	double page = (double)sysconf(_SC_PAGESIZE);
	size_t i;

	for (i = 0; i < process->n_buffer; i++) {
		struct top_buffer *buffer = &process->buffers[i];
		const struct top_buffer *old =
			top_find_buffer(before, n_before, buffer->serial);

		buffer->figures.faults = buffer->figures.evictions = TOP_NO_RATE;
		buffer->figures.gained = TOP_NO_RATE;
		if (!old)
			continue;
		buffer->figures.evictions = rate(buffer->n_eviction, old->n_eviction, seconds);
		if (seconds > 0)
			buffer->figures.gained = ((double)buffer->figures.resident -
						  (double)old->figures.resident) /
						 page / seconds;
	}
}

/*
 * Of the process: @sims of sim's devices, buffers that are gone included, and of buffers as
 * others tell them.
 */
static double rate_evictions(const struct top_process *process, double sims)
{
	double others = TOP_NO_RATE;
	uint64_t device;
	size_t i;

	for (i = 0; i < process->n_buffer; i++) {
		const struct top_buffer *buffer = &process->buffers[i];
		double one = buffer->figures.evictions;

		if (openers_device(buffer->device, &device)) {
			if (sims == TOP_NO_RATE)
				return TOP_NO_RATE;
		} else if (one != TOP_NO_RATE) {
			others = (others == TOP_NO_RATE ? 0 : others) + one;
		}
	}
	if (sims == TOP_NO_RATE || others == TOP_NO_RATE)
		return sims == TOP_NO_RATE ? others : sims;
	return sims + others;
}

/* ---- one process ---- */

static void end_process(struct top_process *process)
{
	live_close(&process->live);
	faults_close(process->faults);
	ranges_end(process);
	free(process->buffers);
}

/* 0; -ENOENT, -ESRCH: it is gone; -ENOMEM. Forbidden figures are marked in the process. */
static int look_at(struct top_process *process, double seconds)
{
	struct top_buffer *before = process->buffers;
	size_t n_before = process->n_buffer;
	uint64_t start, n_fault, n_eviction;
	struct mappings mappings;
	int r;

	r = read_stat(process->pid, &start, &n_fault, process->command,
		      sizeof(process->command));
	if (!r && process->known && start != process->start)
		r = -ESRCH; /* another one has its number */
	if (!r)
		r = live_look(&process->live);
	if (!r)
		r = mappings_read(process->pid, &mappings);
	if (r)
		return r;
	seconds = process->known ? seconds : 0;
	process->buffers = group(&process->live, &mappings, &process->n_buffer);
	if (!process->buffers) {
		process->buffers = before;
		mappings_free(&mappings);
		return -ENOMEM;
	}
	n_eviction = read_openers(process, &mappings, seconds);
	ranges_look(process, &mappings, seconds);
	mappings_free(&mappings);
	/* One whose device is closed, and that has made no map, is as any other process. */
	if (!live_has_table(&process->live) &&
	    process->n_mirrored[MIRRORED_FAULTS] == FIGURE_UNKNOWN) {
		free(before);
		return -ENOENT;
	}
	tiering_look(process);
	rate_buffers(process, before, n_before, seconds);
	rate_faults(process, seconds);
	sum_up(process);
	process->all_faults = rate(n_fault, process->n_fault, seconds);
	process->sum.evictions =
		rate_evictions(process, rate(n_eviction, process->n_eviction, seconds));
	process->n_fault = n_fault;
	process->n_eviction = n_eviction;
	process->start = start;
	process->known = true;
	free(before);
	return 0;
}

bool top_reaches(const struct top_process *process)
{
	return process->n_reached || process->n_mirrored[MIRRORED_FAULTS] != FIGURE_UNKNOWN;
}

/* ---- all of them ---- */

static struct top_process *find_process(const struct top *top, pid_t pid)
{
	size_t i;

	for (i = 0; i < top->n; i++)
		if (top->processes[i].pid == pid)
			return &top->processes[i];
	return NULL;
}

/* A job on memory that malloc() gave has no map, but a device's open file. */
static bool has_mirror(pid_t pid)
{
	struct openers openers;
	int r = openers_look(pid, &openers);
	bool has = !r && openers_mirror(&openers);

	openers_end(&openers);
	return has;
}

/* 0; or why there is nothing of it to look at. */
static int add_process(struct top *top, pid_t pid)
{
	struct top_process *more, process = { .pid = pid, .n_eviction = FIGURE_UNKNOWN };
	int r;

	r = live_open(pid, &process.live);
	if (r == -ENOENT && has_mirror(pid)) {
		live_open_without_table(pid, &process.live);
		r = 0;
	}
	if (r)
		return r;
	more = reallocarray(top->processes, top->n + 1, sizeof(*more));
	if (!more) {
		live_close(&process.live);
		return -ENOMEM;
	}
	top->processes = more;
	more[top->n++] = process;
	return 0;
}

static int compare_pids(const void *a, const void *b)
{
	const struct top_pid *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* Someone who is not known to publish a table: does he by now? */
static void ask(struct top *top, struct top_pid *one)
{
	const struct top_pid *before = NULL;
	int r;

	if (top->n_pid)
		before = bsearch(one, top->pids, top->n_pid, sizeof(*one), compare_pids);
	one->n_asked = before ? before->n_asked : 0;
	if (before && one->n_asked >= ASK_AGAIN &&
	    (top->searched + (uint64_t)one->pid) % ASK_AGAIN) {
		one->unreadable = before->unreadable;
		one->broken = before->broken;
		return;
	}
	if (one->n_asked < ASK_AGAIN)
		one->n_asked++; /* A new one may still be on the way to its device. */
	r = add_process(top, one->pid);
	one->unreadable = r == -EACCES || r == -EPERM;
}

static int search(struct top *top)
{
	struct top_pid *pids = NULL, *more;
	size_t n = 0, room = 0, i;
	struct dirent *entry;
	DIR *folder = opendir("/proc");

	if (!folder)
		return -errno;
	while ((entry = readdir(folder))) {
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		if (n == room) {
			room = 2 * room + 256;
			more = reallocarray(pids, room, sizeof(*pids));
			if (!more)
				break; /* those there are room for */
			pids = more;
		}
		pids[n++] = (struct top_pid){ .pid = (pid_t)atoi(entry->d_name) };
	}
	closedir(folder);
	if (n > 1)
		qsort(pids, n, sizeof(*pids), compare_pids);
	for (i = 0; i < n; i++)
		if (!find_process(top, pids[i].pid))
			ask(top, &pids[i]);
	free(top->pids);
	top->pids = pids;
	top->n_pid = n;
	top->searched++;
	return 0;
}

/* It publishes a table, but can't be looked at, any more or at all. */
static void note_failure(struct top *top, pid_t pid, int r)
{
	const struct top_pid wanted = { .pid = pid };
	struct top_pid *one = NULL;

	if (top->n_pid)
		one = bsearch(&wanted, top->pids, top->n_pid, sizeof(wanted), compare_pids);
	if (!one)
		return;
	one->unreadable = r == -EACCES || r == -EPERM;
	one->broken = r == -EPROTO;
}

int top_look(struct top *top)
{
	double time = now();
	size_t i, n = 0;
	int r, of_one = 0;

	top->seconds = top->looked > 0 ? time - top->looked : 0;
	top->looked = time;
	if (!top->pid)
		r = search(top);
	else
		r = top->n ? 0 : add_process(top, top->pid);
	if (r)
		return r;
	for (i = 0; i < top->n; i++) {
		struct top_process *process = &top->processes[i];

		r = look_at(process, top->seconds);
		if (r)
			note_failure(top, process->pid, r);
		if (r) {
			of_one = r;
			end_process(process);
		} else {
			top->processes[n++] = *process;
		}
	}
	top->n = n;
	top->reached = false;
	for (i = 0; i < top->n; i++)
		top->reached = top->reached || top_reaches(&top->processes[i]);
	top->unreadable = top->broken = 0;
	for (i = 0; i < top->n_pid; i++) {
		top->unreadable += top->pids[i].unreadable;
		top->broken += top->pids[i].broken;
	}
	return top->pid ? of_one : 0;
}

void top_end(struct top *top)
{
	size_t i;

	for (i = 0; i < top->n; i++)
		end_process(&top->processes[i]);
	free(top->processes);
	free(top->pids);
	top->processes = NULL;
	top->pids = NULL;
	top->n = top->n_pid = 0;
}
