/* SPDX-License-Identifier: MIT */
/* Traces whose every record is written by a test, and checks of their reports. */
#ifndef HETMAP_TESTS_WRITTEN_TRACE_H
#define HETMAP_TESTS_WRITTEN_TRACE_H

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <malloc.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hetmap/published.h>

#include "../../tools/common/command.h"
#include "../../tools/perf/read/analysis.h"
#include "../../tools/perf/record/record.h"
#include "../../tools/perf/record/record_file.h"
#include "../../tools/perf/record/trace_folder.h"
#include "../../tools/perf/report/report.h"
#include "lib/command.h"
#include "lib/support.h"

#define PID 7
#define CODE UINT64_C(0x10000000)   /* where programs are */
#define MEMORY UINT64_C(0x20000000) /* the memory that they touch */
#define MEMORY_BYTES (UINT64_C(2) << 20)
#define CHAIN_MOST 8
#define NAME_MOST 1000 /* bytes of a file's path */

struct written {
	char *folder;
	struct trace_folder trace;
	struct record_event events[N_TRACE_EVENT];
	struct recorder recorder;
	uint64_t time;
	uint64_t inode;     /* for later maps */
	uint64_t stack_top; /* for later faults */
};

static const struct record_options options = { .max_stack = 16 };

/* Stops before the file begins: a test can add events beside page faults. */
static inline void begin_without_file(struct written *written)
{
	char *path;
	uint32_t i;

	memset(written, 0, sizeof(*written));
	output.quiet = true;
	written->folder = folder_make();
	path = folder_path(written->folder, "trace");
	CHECK_EQUAL(trace_folder_create(path, &written->trace), 0);
	free(path);
	for (i = 0; i < N_TRACE_EVENT; i++)
		written->events[i] = (struct record_event){ .fd = -1, .id = 1000 + i };
	written->recorder = (struct recorder){
		.options = &options,
		.n_event = N_TRACE_EVENT,
		.n_opened = N_TRACE_EVENT,
		.events = written->events,
		.data_fd = written->trace.data_fd,
	};
	written->time = 1000;
	written->inode = 5;
}

static inline void begin(struct written *written)
{
	begin_without_file(written);
	CHECK_OK_FATAL(record_begin_file(&written->recorder, getpid()));
}

/* @record, which begins with a perf_event_header, has room for the trailer behind it. */
static inline void put(struct written *written, void *record, uint32_t type, size_t size,
		       uint32_t pid)
{
	struct perf_event_header *header = record;
	const struct trace_trailer trailer = {
		.pid = pid,
		.tid = pid,
		.time = written->time += 10,
		.identifier = written->events[TRACE_FAULT].id,
	};

	header->type = type;
	header->size = (uint16_t)(size + sizeof(trailer));
	memcpy((char *)record + size, &trailer, sizeof(trailer));
	CHECK_OK(record_write(&written->recorder, record, header->size));
}

static inline void put_map_as(struct written *written, uint32_t pid, uint64_t address,
			      uint64_t length, const char *name, uint32_t prot)
{
	bool code = prot & PROT_EXEC;

	struct {
		struct perf_event_header header;
		uint32_t pid, tid;
		uint64_t address, length, offset;
		uint32_t major, minor;
		uint64_t inode, generation;
		uint32_t prot, flags;
		char name[NAME_MOST];
	} record = {
		.header.misc = PERF_RECORD_MISC_USER | (code ? 0 : PERF_RECORD_MISC_MMAP_DATA),
		.pid = pid,
		.tid = pid,
		.address = address,
		.length = length,
		.inode = written->inode,
		.prot = prot,
		.flags = MAP_PRIVATE,
	};
	size_t padded = (strlen(name) + 8) / 8 * 8;

	CHECK_FATAL(padded + sizeof(struct trace_trailer) <= sizeof(record.name));
	memcpy(record.name, name, strlen(name));
	put(written, &record, PERF_RECORD_MMAP2,
	    (size_t)(record.name + padded - (char *)&record), pid);
}

static inline void put_map(struct written *written, uint32_t pid, uint64_t address,
			   uint64_t length, const char *name, bool code)
{
	put_map_as(written, pid, address, length, name,
		   PROT_READ | (code ? PROT_EXEC : PROT_WRITE));
}

static inline void put_name_of(struct written *written, uint32_t pid, uint32_t tid,
			       const char *name, bool program)
{
	struct {
		struct perf_event_header header;
		uint32_t pid, tid;
		char name[16 + sizeof(struct trace_trailer)];
	} record = {
		.header.misc = PERF_RECORD_MISC_USER |
			       (program ? PERF_RECORD_MISC_COMM_EXEC : 0),
		.pid = pid,
		.tid = tid,
	};

	snprintf(record.name, 16, "%s", name);
	put(written, &record, PERF_RECORD_COMM, (size_t)(record.name + 16 - (char *)&record),
	    pid);
}

static inline void put_name(struct written *written, uint32_t pid, const char *name,
			    bool program)
{
	put_name_of(written, pid, pid, name, program);
}

static inline void put_thread_name(struct written *written, uint32_t pid, uint32_t tid,
				   const char *name)
{
	put_name_of(written, pid, tid, name, false);
}

/* A thread faults on the page at @address; that takes so long, or with 0 has no end. */
static inline void put_thread_fault(struct written *written, uint32_t pid, uint32_t tid,
				    uint64_t address, uint64_t n_chain, const uint64_t *chain,
				    uint64_t ns)
{
	struct {
		struct perf_event_header header;
		uint64_t identifier, ip;
		uint32_t pid, tid;
		uint64_t time, address;
		uint32_t cpu, reserved;
		uint64_t n_chain, chain[CHAIN_MOST + 3];
	} record = {
		.header = { .type = PERF_RECORD_SAMPLE, .misc = PERF_RECORD_MISC_USER },
		.identifier = written->events[TRACE_FAULT].id,
		.ip = chain[0],
		.pid = pid,
		.tid = tid,
		.time = written->time += 10,
		.address = address,
		.n_chain = n_chain + 1,
		.chain = { PERF_CONTEXT_USER },
	};
	/* The size that was asked for, the bytes, and the size that was there. */
	const uint64_t stack[] = { sizeof(uint64_t), written->stack_top, sizeof(uint64_t) };

	CHECK_FATAL(n_chain < CHAIN_MOST);
	memcpy(record.chain + 1, chain, n_chain * sizeof(*chain));
	memcpy(record.chain + 1 + n_chain, stack, sizeof(stack));
	record.header.size = (uint16_t)((char *)&record.chain[n_chain + 4] - (char *)&record);
	CHECK_OK(record_write(&written->recorder, &record, record.header.size));
	if (!ns)
		return;
	/* Its end has no chain. */
	record.identifier = written->events[TRACE_MINOR].id;
	record.time = written->time += ns;
	record.header.size = (uint16_t)((char *)&record.n_chain - (char *)&record);
	CHECK_OK(record_write(&written->recorder, &record, record.header.size));
}

static inline void put_fault_of(struct written *written, uint32_t pid, uint64_t address,
				uint64_t n_chain, const uint64_t *chain, uint64_t ns)
{
	put_thread_fault(written, pid, pid, address, n_chain, chain, ns);
}

static inline void put_fault(struct written *written, uint32_t pid, uint64_t address,
			     uint64_t n_chain, const uint64_t *chain)
{
	put_fault_of(written, pid, address, n_chain, chain, 1000);
}

static inline void finish(struct written *written, json_t *about)
{
	static const struct perf_event_header round = { .type = PERF_RECORD_FINISHED_ROUND,
							.size = sizeof(round) };

	CHECK_OK(record_write(&written->recorder, &round, sizeof(round)));
	CHECK_OK(record_finish(&written->recorder));
	CHECK_OK(trace_folder_about(&written->trace, about));
	json_decref(about);
}

static inline void end(struct written *written)
{
	if (!written->folder)
		return;
	trace_folder_close(&written->trace, false);
	folder_remove(written->folder);
}

AUTO_END(written, end)

/* @option: one that is followed by a file, or NULL. */
static inline char *report_as(const struct written *written, const char *option)
{
	const struct command command = { .args = { "report", "-q", written->trace.path, option,
						   option ? "-" : NULL } };
	struct outcome outcome = { 0 };

	CHECK_RUN(0, &outcome, &command);
	free(outcome.err);
	return outcome.out;
}

static inline json_t *json_of(const struct written *written)
{
	const struct command command = { .args = { "report", "--json", "-q",
						   written->trace.path } };

	return command_json(&command, 0);
}

/* ---- names that would harm a reader's terminal ---- */

#define HARM "\033]0;mine\007\033[2J\n\rno such line"

/* A page in the same memory, at the same address of code. */
static inline void put_program(struct written *written, const char *path, uint64_t code,
			       const char *name)
{
	put_name(written, PID, name, true);
	put_map(written, PID, CODE, UINT64_C(64) << 20, path, true);
	put_map(written, PID, MEMORY, MEMORY_BYTES, "//anon", false);
	put_fault(written, PID, MEMORY, 1, &code);
}

static inline uint64_t faults_at(const json_t *json, const char *module)
{
	uint64_t n = 0;
	json_t *site;
	size_t i;

	json_array_foreach(json_object_get(json, "sites"), i, site)
	{
		const char *has = json_string_value(json_object_get(site, "module"));

		if (has && !strcmp(has, module))
			n += (uint64_t)integer_of(site, "faults");
	}
	return n;
}

static inline void check_harmless(const char *text)
{
	const char *at;

	CHECK(*text);
	for (at = text; *at; at++)
		if (*at == '\033' || *at == '\007' || *at == '\r')
			break;
	if (*at)
		test_fail(__FILE__, __LINE__, "byte %d is printed as it is: %.40s", *at,
			  at - text > 20 ? at - 20 : text);
	CHECK(!strstr(text, "\nno such line"));
}

/* ---- the scene of recordings that are not hetmap's own ---- */

#define SOME_FAULTS 40

static inline void put_memory(struct written *written)
{
	put_name(written, PID, "foreign", true);
	put_map(written, PID, MEMORY, MEMORY_BYTES, "//anon", false);
}

static inline void put_faults(struct written *written)
{
	uint64_t code = CODE, i;

	for (i = 0; i < SOME_FAULTS; i++)
		put_fault(written, PID, MEMORY + i * PAGE, 1, &code);
}

/* ---- in a report ---- */

static inline uint64_t faults_of(const json_t *json)
{
	return (uint64_t)integer_of(json_object_get(json, "totals"), "faults");
}

static inline bool misses(const json_t *json, const char *words)
{
	const json_t *sentence;
	size_t i;

	json_array_foreach(json_object_get(json, "missing"), i, sentence)
	{
		if (strstr(json_string_value(sentence), words))
			return true;
	}
	return false;
}

#endif
