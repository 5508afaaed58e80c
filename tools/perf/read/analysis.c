// SPDX-License-Identifier: MIT
/*
 * Faults, counted: each is a beginning, which has the call chain, and an end of the same
 * thread, by which it is known how long it took and whether storage was read.
 */
#include "analysis.h"

#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "calls.h"
#include "common/command.h"
#include "common/text.h"
#include "device_sites.h"
#include "perf_data.h"
#include "pieces.h"
#include "sites.h"
#include "stacks.h"
#include "stalls.h"

#define PAGE_SHIFT 12
/*
 * Nothing but storage takes a file's fault so long. Most that wait are none of the kernel's
 * major ones: the page is there by then, and the read ahead that brings it under way
 * [filemap_fault()].
 */
#define WAIT_LEAST_NS 100000

/* A thread, and the fault that it is in. */
struct faulting {
	uint32_t tid, pid, index;
	bool pending;
	uint64_t begun;
	uint64_t stalled_begun; /* how long its process had stood still by then */
	struct counted *counted;
	struct site *site;
	struct stack *stack; /* where they are wanted */
	uint64_t address, offset;
	uint64_t id, period;
	uint32_t cpu;
	bool in_kernel;
	bool access_known, write;
	/* For a fault that is about to begin: facts from a tracepoint. */
	bool announced, announced_write;
	uint64_t announced_address;
};

struct reader {
	struct analysis *analysis;
	struct recording *recording;
	struct calls *calls;
	struct stalls *stalls;
	struct tables tables;
	void *threads; /* tree of struct faulting, by tid */
	struct faulting *thread;
	struct sites *sites;
	bool begins_too; /* and not ends alone */
	uint64_t n_seen; /* faults, for the rows */
	uint64_t shown;  /* bytes of progress */
	uint32_t room_rows, room_threads, room_counted;
};

/* ---- counters ---- */

/* Makes room for one more in an array of pointers or rows. */
static int grow(void *array, uint32_t n, uint32_t *room, size_t size)
{
	void *more, *old;

	if (n < *room)
		return 0;
	memcpy(&old, array, sizeof(old));
	more = realloc(old, (2 * (size_t)*room + 64) * size);
	if (!more)
		return -ENOMEM;
	memcpy(array, &more, sizeof(more));
	*room = 2 * *room + 64;
	return 0;
}

static struct counted *counted_of(struct reader *reader, struct object *object)
{
	struct analysis *analysis = reader->analysis;
	struct counted *counted = object->user;

	if (counted)
		return counted;
	if (grow(&analysis->counted, analysis->n_counted, &reader->room_counted,
		 sizeof(*analysis->counted)))
		return NULL;
	counted = calloc(1, sizeof(*counted));
	if (!counted)
		return NULL;
	counted->object = object;
	counted->taken = 1;
	counted->lowest = UINT64_MAX;
	analysis->counted[analysis->n_counted++] = counted;
	return object->user = counted;
}

static int compare_threads(const void *a, const void *b)
{
	const struct faulting *x = a, *y = b;

	return (x->tid > y->tid) - (x->tid < y->tid);
}

static struct faulting *thread_of(struct reader *reader, uint32_t pid, uint32_t tid)
{
	const struct faulting key = { .tid = tid };
	struct analysis *analysis = reader->analysis;
	struct faulting *thread = reader->thread;
	void *node;

	if (thread && thread->tid == tid)
		return thread;
	node = tfind(&key, &reader->threads, compare_threads);
	if (node)
		return reader->thread = *(struct faulting **)node;
	if (grow(&analysis->threads, analysis->n_thread, &reader->room_threads,
		 sizeof(*analysis->threads)))
		return NULL;
	thread = calloc(1, sizeof(*thread));
	if (!thread)
		return NULL;
	thread->tid = tid;
	thread->pid = pid;
	thread->index = analysis->n_thread;
	if (!tsearch(thread, &reader->threads, compare_threads)) {
		free(thread);
		return NULL;
	}
	analysis->threads[analysis->n_thread++] = (struct thread_row){ pid, tid };
	return reader->thread = thread;
}

/* ---- rows: so many that a picture can have them all ---- */

/* Every second one goes, and from now on every second one comes. */
static void thin(struct analysis *analysis)
{
	uint32_t i;

	for (i = 0; 2 * i < analysis->n_row; i++)
		analysis->rows[i] = analysis->rows[2 * i];
	analysis->n_row = i;
	analysis->each *= 2;
}

static int note_row(struct reader *reader, const struct faulting *thread, bool major,
		    uint64_t cost, uint32_t node)
{
	struct analysis *analysis = reader->analysis;

	if (reader->n_seen++ % analysis->each)
		return 0;
	if (analysis->n_row == EVENT_ROWS_MOST) {
		thin(analysis);
		if ((reader->n_seen - 1) % analysis->each)
			return 0;
	}
	if (grow(&analysis->rows, analysis->n_row, &reader->room_rows, sizeof(*analysis->rows)))
		return -ENOMEM;
	analysis->rows[analysis->n_row++] = (struct event_row){
		.time_ns = thread->begun,
		.page = thread->offset >> PAGE_SHIFT,
		.object = thread->counted->object->index,
		.thread = thread->index,
		.cpu = thread->cpu,
		.cost_ns = cost < UINT32_MAX ? (uint32_t)cost : UINT32_MAX,
		.major = major,
		.in_kernel = thread->in_kernel,
		.node = node < UINT16_MAX ? (uint16_t)node : UINT16_MAX,
		.access_known = thread->access_known,
		.write = thread->write,
	};
	return 0;
}

/* ---- events ---- */

/* Notes the node of the page, for the CPU that touched it. *ret_node may be NODE_UNKNOWN. */
static int note_node(struct reader *reader, const struct faulting *thread, uint64_t physical,
		     uint32_t *ret_node)
{
	const struct nodes *nodes = &reader->analysis->nodes;
	struct counted *counted = thread->counted;
	uint32_t cpu_node = nodes_of_cpu(nodes, thread->cpu);
	uint32_t node = physical ? nodes_of_memory(nodes, physical) : NODE_UNKNOWN;

	*ret_node = node;
	if (node == NODE_UNKNOWN || cpu_node == NODE_UNKNOWN)
		return 0;
	if (!counted->by_nodes)
		counted->by_nodes = calloc((size_t)nodes->n * nodes->n, sizeof(uint64_t));
	if (!counted->by_nodes)
		return -ENOMEM;
	counted->by_nodes[cpu_node * nodes->n + node] += thread->period;
	return 0;
}

/* Faults of several threads that overlap in time count as one stall. */
static void note_stall(struct reader *reader, const struct faulting *thread)
{
	struct counted *counted = thread->counted;
	uint64_t until = stalls_of(reader->stalls, thread->pid), from = thread->stalled_begun;

	if (counted->stalled_pid == thread->pid && counted->stalled_until > from)
		from = counted->stalled_until;
	counted->stalled_ns += until - from;
	counted->stalled_until = until;
	counted->stalled_pid = thread->pid;
}

static int end_fault(struct reader *reader, struct faulting *thread, bool major, uint64_t cost,
		     uint64_t physical)
{
	struct counted *counted = thread->counted;
	uint32_t node;
	int r = note_node(reader, thread, physical, &node);

	if (r)
		return r;

	thread->pending = false;
	note_stall(reader, thread);
	if (major) {
		counted->major += thread->period;
		counted->major_ns += cost;
	} else {
		counted->minor += thread->period;
		counted->minor_ns += cost;
	}
	if (counted->object->backed_by && (major || cost >= WAIT_LEAST_NS)) {
		counted->waits++;
		counted->waits_ns += cost;
		pattern_waited(counted->streams, thread->tid, cost);
	}
	if (reader->analysis->has_latency)
		latency_add(major ? &reader->analysis->major : &reader->analysis->minor, cost);
	thread->site->faults += thread->period;
	thread->site->time_ns += cost;
	if (thread->stack)
		thread->stack->faults += thread->period;
	return note_row(reader, thread, major, cost, node);
}

/*
 * Bit 1 of the error code marks a write on x86, the machine of these tracepoints
 * [arch/x86/include/asm/trap_pf.h].
 */
#define ERROR_WRITE 2u

static int announce_fault(struct reader *reader, const struct recorded_event *event)
{
	const uint32_t wanted = 1u << FAULT_ADDRESS | 1u << FAULT_ERROR;
	struct faulting *thread;

	if ((event->known & wanted) != wanted)
		return 0;
	thread = thread_of(reader, event->pid, event->tid);
	if (!thread)
		return -ENOMEM;
	thread->announced = true;
	thread->announced_write = event->value[FAULT_ERROR] & ERROR_WRITE;
	thread->announced_address = event->value[FAULT_ADDRESS];
	return 0;
}

/* A tracepoint with another address belongs to another fault: the one of this fault was lost. */
static void take_access(struct faulting *thread, struct counted *counted, uint64_t address)
{
	thread->access_known = thread->announced && thread->announced_address == address;
	thread->write = thread->access_known && thread->announced_write;
	thread->announced = false;
	counted->writes += thread->write ? thread->period : 0;
	counted->reads += thread->access_known && !thread->write ? thread->period : 0;
}

static int begin_fault(struct reader *reader, struct faulting *thread,
		       const struct recorded_event *event)
{
	struct analysis *analysis = reader->analysis;
	struct counted *counted;
	struct object *object;
	uint64_t offset;

	if (thread->pending)
		thread->counted->unfinished++;
	object = spaces_fault(analysis->spaces, event->pid, event->address, &offset);
	counted = object ? counted_of(reader, object) : NULL;
	thread->site = counted ? sites_of(reader->sites, counted, event) : NULL;
	if (!thread->site)
		return -ENOMEM;
	if (analysis->stacks) {
		thread->stack = stacks_of(analysis->stacks, counted, event);
		if (!thread->stack)
			return -ENOMEM;
	}
	thread->counted = counted;
	thread->begun = event->time;
	thread->address = event->address;
	thread->id = event->id;
	thread->period = event->period;
	thread->offset = offset;
	thread->cpu = event->cpu;
	thread->in_kernel = event->in_kernel;
	thread->pending = true;
	take_access(thread, counted, event->address);
	thread->stalled_begun = stalls_of(reader->stalls, event->pid);
	if (!counted->first_ns)
		counted->first_ns = event->time;
	counted->last_ns = event->time;
	counted->in_kernel += event->in_kernel ? event->period : 0;
	if (offset < counted->lowest)
		counted->lowest = offset;
	if (offset > counted->highest)
		counted->highest = offset;
	if (!analysis->samples++)
		analysis->begin_ns = event->time;
	analysis->faults += event->period;
	analysis->end_ns = event->time;
	return pattern_note(&counted->streams, event->tid, (int64_t)(offset >> PAGE_SHIFT));
}

/*
 * A thread that began while others were attached to may have two events, and each of them
 * records every fault: on one CPU the second record has another identifier, or, with kernels
 * that fill in a sample once for all events, the same time.
 */
static bool is_told_twice(const struct faulting *thread, const struct recorded_event *event)
{
	return thread->counted && thread->cpu == event->cpu &&
	       thread->address == event->address &&
	       (thread->id != event->id || thread->begun == event->time);
}

static int fault(struct reader *reader, const struct recorded_event *event)
{
	struct faulting *thread = thread_of(reader, event->pid, event->tid);
	bool ends = event->kind != RECORDED_FAULT;
	int r = 0;

	if (!thread)
		return -ENOMEM;
	if (!ends && is_told_twice(thread, event))
		return 0;
	/* In samples, a beginning and an end belong to two faults. */
	if (ends && reader->begins_too && !reader->analysis->has_latency)
		return 0;
	/* In a recording of ends alone each end is a fault, without a cost. */
	if (!ends || (!thread->pending && !reader->analysis->has_latency))
		r = begin_fault(reader, thread, event);
	if (r || (!ends && reader->analysis->has_latency) || !thread->pending)
		return r;
	return end_fault(reader, thread, event->kind == RECORDED_MAJOR,
			 reader->analysis->has_latency ? event->time - thread->begun : 0,
			 event->physical);
}

/* Those after the last fault, too. */
static int sum_ranges(struct reader *reader)
{
	struct analysis *analysis = reader->analysis;
	int r = tables_catch_up(&reader->tables, analysis->spaces, UINT64_MAX);

	if (r)
		return r;
	analysis->ranges = reader->tables.ranges;
	analysis->n_range = ranges_join(analysis->ranges, reader->tables.n_range);
	reader->tables.ranges = NULL;
	return 0;
}

/* A device's tracepoint inside of a page fault belongs to that fault's address. */
static int device_point(struct reader *reader, const struct recorded_event *event)
{
	const struct faulting key = { .tid = event->tid };
	void *node = tfind(&key, &reader->threads, compare_threads);
	const struct faulting *thread = node ? *(struct faulting **)node : NULL;

	if (!thread || !thread->pending || thread->pid != event->pid)
		return devices_point(reader->analysis->devices, event, 0, NULL);
	return devices_point(reader->analysis->devices, event, thread->address,
			     thread->counted->object);
}

static int on_point(struct reader *reader, const struct recorded_event *event)
{
	switch (points_known[event->point].group) {
	case POINTS_DEVICE:
		return device_point(reader, event);
	case POINTS_ACCESS:
		return announce_fault(reader, event);
	default:
		return calls_event(reader->calls, event);
	}
}

static int on_event(void *user, const struct recorded_event *event)
{
	struct reader *reader = user;
	uint64_t at, size;
	int r;

	if (signals_pending())
		return -EINTR;
	recording_position(reader->recording, &at, &size);
	if (at != reader->shown)
		progress_add(at - reader->shown);
	reader->shown = at;
	r = tables_catch_up(&reader->tables, reader->analysis->spaces, event->time);
	if (!r)
		r = stalls_event(reader->stalls, event);
	if (r)
		return r;
	switch (event->kind) {
	case RECORDED_FAULT:
	case RECORDED_MINOR:
	case RECORDED_MAJOR:
		return fault(reader, event);
	case RECORDED_LOST:
		*(event->filtered ? &reader->analysis->filtered : &reader->analysis->lost) +=
			event->lost;
		return 0;
	case RECORDED_SWITCH:
		reader->analysis->has_stalls = reader->analysis->has_latency;
		return 0;
	case RECORDED_POINT:
		return on_point(reader, event);
	case RECORDED_MAP:
		r = devices_map(reader->analysis->devices, event);
		return r ? r : calls_event(reader->calls, event);
	default:
		return spaces_event(reader->analysis->spaces, event);
	}
}

/* ---- the whole ---- */

/* The most time is first; the most faults, where no times are known. */
static int by_time(const void *a, const void *b)
{
	const struct counted *x = *(struct counted *const *)a;
	const struct counted *y = *(struct counted *const *)b;
	uint64_t tx = x->minor_ns + x->major_ns, ty = y->minor_ns + y->major_ns;
	uint64_t nx = x->minor + x->major, ny = y->minor + y->major;

	if (tx != ty)
		return tx < ty ? 1 : -1;
	if (nx != ny)
		return nx < ny ? 1 : -1;
	return (x->object->index > y->object->index) - (x->object->index < y->object->index);
}

static int sites_by_time(const void *a, const void *b)
{
	const struct site *x = *(struct site *const *)a, *y = *(struct site *const *)b;
	int r = site_compare_time(x, y);

	return r ? r : (x->ip > y->ip) - (x->ip < y->ip);
}

/* The folder of perf record --threads: data, data.0 and so on. */
static bool is_folder_of_perf(const char *path)
{
	char *data = text_format("%s/data", path);
	bool found = !access(data, F_OK);

	free(data);
	return found;
}

static int fail_read(const char *path, int r, const char *reason)
{
	char *shown = text_escape(path);
	struct stat st;
	int status;

	if (r == -ENOENT && is_folder_of_perf(path))
		status = fail(STATUS_USAGE, r, "hetmap trace -- COMMAND makes a trace",
			      "'%s': %s", shown, PERF_DATA_FOLDER_REASON);
	else if (r == -ENOENT && !stat(path, &st) && S_ISDIR(st.st_mode))
		status = fail(STATUS_USAGE, r, "hetmap trace -- COMMAND makes one",
			      "'%s' is no trace: nothing was recorded into it", shown);
	else if (r == -ENOTSUP && reason)
		status = fail(STATUS_ENVIRONMENT, r, "hetmap trace -- COMMAND makes a trace",
			      "'%s': %s", shown, reason);
	else if (r == -EPROTO && reason)
		status = fail(STATUS_USAGE, r, "hetmap trace -- COMMAND makes one", "'%s': %s",
			      shown, reason);
	else if (r == -EINTR)
		status = 128 + signals_pending();
	else
		status = fail(r == -ENOENT ? STATUS_USAGE : STATUS_ENVIRONMENT, r,
			      r == -ENOENT ? "hetmap trace -- COMMAND makes one" : NULL,
			      "cannot read '%s': %s", shown, strerror(-r));
	free(shown);
	return status;
}

static void unfinished(const void *node, VISIT visit, void *user)
{
	const struct faulting *thread = *(struct faulting *const *)node;

	(void)user;
	if ((visit == postorder || visit == leaf) && thread->pending)
		thread->counted->unfinished++;
}

static int device_sites_by_bytes(const void *a, const void *b)
{
	const struct device_site *x = *(struct device_site *const *)a;
	const struct device_site *y = *(struct device_site *const *)b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return (x->n < y->n) - (x->n > y->n);
}

static int list_device_sites(struct analysis *analysis)
{
	struct device_site *first = devices_sites(analysis->devices), *site;
	uint32_t n = 0;

	for (site = first; site; site = site->next)
		n++;
	if (!n)
		return 0;
	analysis->device_sites = calloc(n, sizeof(struct device_site *));
	if (!analysis->device_sites)
		return -ENOMEM;
	for (site = first; site; site = site->next)
		analysis->device_sites[analysis->n_device_site++] = site;
	qsort(analysis->device_sites, n, sizeof(struct device_site *), device_sites_by_bytes);
	return 0;
}

/* Buffers without faults are rows, too. */
static int sum_devices(struct reader *reader)
{
	struct analysis *analysis = reader->analysis;
	struct counted *counted;
	struct device_use *use;
	int r;

	r = devices_sum(analysis->devices, &analysis->device, &use);
	for (; use && !r; use = use->next) {
		counted = counted_of(reader, use->object);
		if (counted)
			counted->use = use;
		else
			r = -ENOMEM;
	}
	return r ? r : list_device_sites(analysis);
}

static int rows_by_time(const void *a, const void *b)
{
	const struct event_row *x = a, *y = b;

	return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

/* Rows came as faults ended: a long fault comes after those that began and ended meanwhile. */
static void sort_rows(struct analysis *analysis)
{
	uint32_t i;

	for (i = 1; i < analysis->n_row; i++)
		if (analysis->rows[i].time_ns < analysis->rows[i - 1].time_ns)
			break;
	if (i < analysis->n_row)
		qsort(analysis->rows, analysis->n_row, sizeof(*analysis->rows), rows_by_time);
}

static int read_all(struct reader *reader, const char **ret_reason)
{
	struct analysis *analysis = reader->analysis;
	uint64_t at, size;
	uint32_t i;
	int r;

	recording_position(reader->recording, &at, &size);
	progress_begin("reading", size);
	r = recording_each(reader->recording, on_event, reader, &analysis->totals, ret_reason);
	progress_end();
	/* A thread may be in a fault of a row that becomes part of another one. */
	twalk_r(reader->threads, unfinished, NULL);
	r = r ? r : sum_devices(reader);
	r = r ? r : sum_ranges(reader);
	r = r ? r : pieces_find(analysis);
	if (r)
		return r;
	sort_rows(analysis);
	for (i = 0; i < analysis->n_counted && analysis->share == RECORDED_EACH; i++)
		pattern_judge(analysis->counted[i]);
	if (analysis->n_counted)
		qsort(analysis->counted, analysis->n_counted, sizeof(*analysis->counted),
		      by_time);
	if (analysis->n_site)
		qsort(analysis->sites, analysis->n_site, sizeof(*analysis->sites),
		      sites_by_time);
	return 0;
}

int analysis_read(const char *path, uint32_t flags, const json_t *nodes,
		  struct analysis *ret_analysis)
{
	struct analysis analysis = { .each = 1 };
	struct reader reader = { .analysis = &analysis };
	bool text = flags & ANALYSIS_TEXT, stacks = flags & ANALYSIS_STACKS;
	const char *reason = NULL;
	struct stat st;
	char *data;
	int r = nodes_load(nodes, &analysis.nodes), status = 0;

	if (!text && !stat(path, &st) && S_ISDIR(st.st_mode)) {
		data = text_format("%s/perf.data", path);
		if (!r)
			r = tables_read(path, &reader.tables);
		analysis.ranges_left_out = reader.tables.ranges_left_out;
		analysis.forgotten = reader.tables.forgotten;
		analysis.left_out = reader.tables.left_out;
		analysis.broken_tables = reader.tables.broken;
	} else {
		data = strdup(path);
	}
	if (!r)
		r = text ? recording_open_text(data, &reader.recording, &reason) :
			   recording_open(data, &reader.recording, &reason);
	if (!r) {
		analysis.spaces = spaces_create();
		analysis.devices = devices_create(analysis.spaces);
		analysis.share = recording_share(reader.recording);
		reader.begins_too = recording_has_latency(reader.recording);
		analysis.has_latency = reader.begins_too && analysis.share != RECORDED_SAMPLES;
		analysis.has_access = recording_has_point(reader.recording, POINT_FAULT_USER);
		analysis.has_calls = recording_has_point(reader.recording, POINT_MUNMAP);
		reader.stalls = stalls_create();
		reader.calls = calls_create(analysis.spaces);
		reader.sites = sites_create(&analysis);
		if (stacks)
			analysis.stacks = stacks_create(analysis.spaces, true);
		r = analysis.spaces && analysis.devices && reader.calls && reader.sites &&
				    reader.stalls && (analysis.stacks || !stacks) ?
			    read_all(&reader, &reason) :
			    -ENOMEM;
	}
	if (r)
		status = fail_read(path, r, reason);
	recording_close(reader.recording);
	calls_free(reader.calls);
	stalls_free(reader.stalls);
	tdestroy(reader.threads, free);
	sites_free(reader.sites);
	free(reader.tables.events);
	free(reader.tables.ranges);
	free(data);
	if (status)
		analysis_free(&analysis);
	else
		*ret_analysis = analysis;
	return status;
}

void analysis_free(struct analysis *analysis)
{
	uint32_t i;

	for (i = 0; i < analysis->n_counted + analysis->n_folded; i++) {
		pattern_free(analysis->counted[i]->streams);
		free(analysis->counted[i]->by_nodes);
		free(analysis->counted[i]);
	}
	for (i = 0; i < analysis->n_site; i++)
		free(analysis->sites[i]);
	stacks_free(analysis->stacks);
	free(analysis->counted);
	free(analysis->sites);
	free(analysis->device_sites);
	free(analysis->ranges);
	free(analysis->rows);
	free(analysis->threads);
	devices_free(analysis->devices);
	nodes_free(&analysis->nodes);
	spaces_free(analysis->spaces);
}
