// SPDX-License-Identifier: MIT
/*
 * A trace that is made up. Its mappings are this process's own, with some that are only
 * address space; its call sites are in this program, so that a report has to look them up.
 */
#include "made_trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "calibrate.h"
#include "record.h"
#include "record_file.h"

#define PAGE UINT64_C(4096)
#define CPUS 2
#define THREADS 4 /* the first half on the first CPU */
#define AREA (UINT64_C(16) << 30)
#define AREA_PAGES (AREA / PAGE)
#define SITES 64
/* The records of each CPU, as hetmap trace finds them in a ring. */
#define ROUND 16384
/* Faults of a thread, before the other one has the CPU. */
#define SLICE 100

struct begin_record {
	struct perf_event_header header;
	uint64_t identifier, ip;
	uint32_t pid, tid;
	uint64_t time, address;
	uint32_t cpu, reserved;
	uint64_t n_chain, chain[3];
	uint64_t stack_bytes, stack_top, stack_had;
};

struct end_record {
	struct perf_event_header header;
	uint64_t identifier, ip;
	uint32_t pid, tid;
	uint64_t time, address;
	uint32_t cpu, reserved;
};

struct fault {
	struct begin_record begin;
	struct end_record end;
};

struct thread {
	uint32_t tid;
	uint64_t area; /* its address */
	uint64_t n;    /* faults so far */
};

struct making {
	struct recorder recorder;
	struct thread threads[THREADS];
	uint64_t time[CPUS];
	uint64_t n[CPUS]; /* faults so far */
	uint64_t random;
	struct fault *block; /* ROUND of them */
};

static uint64_t next_random(struct making *making)
{
	making->random ^= making->random << 13;
	making->random ^= making->random >> 7;
	making->random ^= making->random << 17;
	return making->random;
}

/* In turns: one after another, every eighth, anywhere, and backwards. */
static uint64_t page_of(struct making *making, const struct thread *thread, unsigned int way)
{
	switch (way) {
	case 0:
		return thread->n % AREA_PAGES;
	case 1:
		return thread->n * 8 % AREA_PAGES;
	case 2:
		return next_random(making) % AREA_PAGES;
	default:
		return AREA_PAGES - 1 - thread->n % AREA_PAGES;
	}
}

static void make_fault(struct making *making, uint32_t cpu, struct fault *ret_fault)
{
	unsigned int turn = (unsigned int)(making->n[cpu]++ / SLICE % (THREADS / CPUS));
	unsigned int way = cpu * (THREADS / CPUS) + turn;
	struct thread *thread = &making->threads[way];
	uint64_t site = (uintptr_t)made_trace + thread->n % SITES * 4;
	uint64_t *time = &making->time[cpu];
	bool major = next_random(making) % 1024 == 0;
	uint64_t event = major ? TRACE_MAJOR : TRACE_MINOR;

	*ret_fault = (struct fault){
		.begin = {
			.header = { .type = PERF_RECORD_SAMPLE,
				    .misc = PERF_RECORD_MISC_USER,
				    .size = sizeof(ret_fault->begin) },
			.identifier = making->recorder.events[cpu * N_TRACE_EVENT + TRACE_FAULT].id,
			.ip = site,
			.pid = (uint32_t)getpid(),
			.tid = thread->tid,
			.time = *time,
			.address = thread->area + page_of(making, thread, way) * PAGE,
			.cpu = cpu,
			.n_chain = 3,
			.chain = { PERF_CONTEXT_USER, site, (uintptr_t)record_write },
			.stack_bytes = sizeof(uint64_t),
			.stack_had = sizeof(uint64_t),
		},
	};
	*time += major ? 100000 : 500 + next_random(making) % 1024;
	ret_fault->end = (struct end_record){
		.header = { .type = PERF_RECORD_SAMPLE,
			    .misc = PERF_RECORD_MISC_USER,
			    .size = sizeof(ret_fault->end) },
		.identifier = making->recorder.events[cpu * N_TRACE_EVENT + event].id,
		.ip = site,
		.pid = ret_fault->begin.pid,
		.tid = thread->tid,
		.time = *time,
		.address = ret_fault->begin.address,
		.cpu = cpu,
	};
	*time += 200;
	thread->n++;
}

/* As rings are drained: one CPU's records, then the other's, and a round is over. */
static int make_round(struct making *making, uint64_t n)
{
	static const struct perf_event_header round = { .type = PERF_RECORD_FINISHED_ROUND,
							.size = sizeof(round) };
	uint64_t i, half = (n + 1) / CPUS;
	uint32_t cpu;
	int r;

	for (cpu = 0; cpu < CPUS; cpu++) {
		if (cpu)
			half = n - half;
		for (i = 0; i < half; i++)
			make_fault(making, cpu, &making->block[i]);
		r = record_write(&making->recorder, making->block,
				 half * sizeof(*making->block));
		if (r)
			return r;
	}
	return record_write(&making->recorder, &round, sizeof(round));
}

static int make_all(struct making *making, uint64_t n)
{
	struct recorder *recorder = &making->recorder;
	uint64_t made = 0, now;
	int r;

	r = record_begin_file(recorder, getpid());
	if (!r)
		r = record_running(recorder, getpid());
	while (!r && made < n) {
		now = n - made < CPUS * ROUND ? n - made : CPUS * ROUND;
		r = make_round(making, now);
		made += now;
	}
	return r ? r : record_finish(recorder);
}

static int write_about(const struct trace_folder *folder, uint64_t n,
		       const struct making *making)
{
	json_t *about = json_pack("{s:i, s:[s], s:I, s:I, s:b, s:o}", "version", 1, "command",
				  "(made up)", "begin_ns", (json_int_t)1, "end_ns",
				  (json_int_t)making->time[0], "latency", 1, "costs",
				  calibrate());
	int r;

	json_object_set_new(about, "counted",
			    json_pack("{s:I, s:I}", "faults", (json_int_t)n, "lost",
				      (json_int_t)0));
	r = trace_folder_about(folder, about);
	json_decref(about);
	return r;
}

/* Address space alone: whoever records this process finds it among its mappings. */
static int take_areas(struct making *making)
{
	unsigned int i;
	void *area;

	for (i = 0; i < THREADS; i++) {
		area = mmap(NULL, AREA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			    -1, 0);
		if (area == MAP_FAILED)
			return -errno;
		making->threads[i].area = (uintptr_t)area;
		making->threads[i].tid = (uint32_t)getpid() + i;
		/* Beside other memory it would be one mapping with it. */
		if (mprotect(area, PAGE, PROT_READ))
			return -errno;
	}
	return 0;
}

static void leave_areas(const struct making *making)
{
	unsigned int i;

	for (i = 0; i < THREADS; i++)
		if (making->threads[i].area)
			munmap((char *)(uintptr_t)making->threads[i].area, AREA);
}

int made_trace(const char *path, uint64_t n, struct trace_folder *ret_folder,
	       uint64_t *ret_bytes)
{
	static const struct record_options options = { .max_stack = 16 };
	struct record_event events[CPUS * N_TRACE_EVENT];
	struct making making = {
		.recorder = { .options = &options,
			      .n_event = N_TRACE_EVENT,
			      .n_opened = CPUS * N_TRACE_EVENT,
			      .events = events },
		.time = { 1000, 1000 },
		.random = 88172645463325252u,
		.block = malloc(ROUND * sizeof(*making.block)),
	};
	struct trace_folder folder;
	uint32_t i;
	int r;

	for (i = 0; i < CPUS * N_TRACE_EVENT; i++)
		events[i] = (struct record_event){ .fd = -1, .id = 1000 + i };
	if (!making.block)
		return -ENOMEM;
	r = trace_folder_create(path, &folder);
	if (r) {
		r = -EIO; /* the user was told why */
		goto free;
	}
	making.recorder.data_fd = folder.data_fd;
	r = take_areas(&making);
	if (!r)
		r = make_all(&making, n);
	if (!r)
		r = write_about(&folder, n, &making);
	leave_areas(&making);
	if (r) {
		trace_folder_close(&folder, false);
		goto free;
	}
	*ret_folder = folder;
	*ret_bytes = making.recorder.written;
free:
	free(making.block);
	return r;
}
