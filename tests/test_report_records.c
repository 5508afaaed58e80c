// SPDX-License-Identifier: MIT
/*
 * What hetmap report makes of recordings whose every record is written here: of programs
 * that become others, of many children, of clocks that go back, and of names that mean harm.
 */
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

#include "../tools/hetmap/command.h"
#include "../tools/perf/analysis.h"
#include "../tools/perf/record.h"
#include "../tools/perf/record_file.h"
#include "../tools/perf/report.h"
#include "../tools/perf/trace_folder.h"
#include "command.h"
#include "support.h"

#define PAGE UINT64_C(4096)
#define PID 7
#define CODE UINT64_C(0x10000000)   /* where programs are */
#define MEMORY UINT64_C(0x20000000) /* what they touch */
#define MEMORY_BYTES (UINT64_C(2) << 20)
#define CHAIN_MOST 8
#define NAME_MOST 1000 /* of a file, with its folders */

struct written {
	char *folder;
	struct trace_folder trace;
	struct record_event events[N_TRACE_EVENT];
	struct recorder recorder;
	uint64_t time;
};

static const struct record_options options = { .max_stack = 16 };

static void begin(struct written *written)
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
	CHECK_OK_FATAL(record_begin_file(&written->recorder, getpid()));
}

/* @record with room for it and what stands behind it. */
static void put(struct written *written, struct perf_event_header *record, uint32_t type,
		size_t size, uint32_t pid)
{
	const struct trace_trailer trailer = {
		.pid = pid,
		.tid = pid,
		.time = written->time += 10,
		.identifier = written->events[TRACE_FAULT].id,
	};

	record->type = type;
	record->size = (uint16_t)(size + sizeof(trailer));
	memcpy((char *)record + size, &trailer, sizeof(trailer));
	CHECK_OK(record_write(&written->recorder, record, record->size));
}

static void put_map_as(struct written *written, uint32_t pid, uint64_t address, uint64_t length,
		       const char *name, uint32_t prot)
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
		.inode = 5,
		.prot = prot,
		.flags = MAP_PRIVATE,
	};
	size_t padded = (strlen(name) + 8) / 8 * 8;

	CHECK_FATAL(padded + sizeof(struct trace_trailer) <= sizeof(record.name));
	memcpy(record.name, name, strlen(name));
	put(written, &record.header, PERF_RECORD_MMAP2,
	    (size_t)(record.name + padded - (char *)&record), pid);
}

static void put_map(struct written *written, uint32_t pid, uint64_t address, uint64_t length,
		    const char *name, bool code)
{
	put_map_as(written, pid, address, length, name,
		   PROT_READ | (code ? PROT_EXEC : PROT_WRITE));
}

static void put_name(struct written *written, uint32_t pid, const char *name, bool program)
{
	struct {
		struct perf_event_header header;
		uint32_t pid, tid;
		char name[16 + sizeof(struct trace_trailer)];
	} record = {
		.header.misc = PERF_RECORD_MISC_USER |
			       (program ? PERF_RECORD_MISC_COMM_EXEC : 0),
		.pid = pid,
		.tid = pid,
	};

	snprintf(record.name, 16, "%s", name);
	put(written, &record.header, PERF_RECORD_COMM,
	    (size_t)(record.name + 16 - (char *)&record), pid);
}

/* A page at @address faults, and takes so long. */
static void put_fault_of(struct written *written, uint32_t pid, uint64_t address,
			 uint64_t n_chain, const uint64_t *chain, uint64_t ns)
{
	struct {
		struct perf_event_header header;
		uint64_t identifier, ip;
		uint32_t pid, tid;
		uint64_t time, address;
		uint32_t cpu, reserved;
		uint64_t n_chain, chain[CHAIN_MOST];
	} record = {
		.header = { .type = PERF_RECORD_SAMPLE, .misc = PERF_RECORD_MISC_USER },
		.identifier = written->events[TRACE_FAULT].id,
		.ip = chain[0],
		.pid = pid,
		.tid = pid,
		.time = written->time += 10,
		.address = address,
		.n_chain = n_chain + 1,
		.chain = { PERF_CONTEXT_USER },
	};

	CHECK_FATAL(n_chain < CHAIN_MOST);
	memcpy(record.chain + 1, chain, n_chain * sizeof(*chain));
	record.header.size = (uint16_t)((char *)&record.chain[n_chain + 1] - (char *)&record);
	CHECK_OK(record_write(&written->recorder, &record, record.header.size));
	/* Its end has no chain. */
	record.identifier = written->events[TRACE_MINOR].id;
	record.time = written->time += ns;
	record.header.size = (uint16_t)((char *)&record.n_chain - (char *)&record);
	CHECK_OK(record_write(&written->recorder, &record, record.header.size));
}

static void put_fault(struct written *written, uint32_t pid, uint64_t address, uint64_t n_chain,
		      const uint64_t *chain)
{
	put_fault_of(written, pid, address, n_chain, chain, 1000);
}

static void finish(struct written *written, json_t *about)
{
	static const struct perf_event_header round = { .type = PERF_RECORD_FINISHED_ROUND,
							.size = sizeof(round) };

	CHECK_OK(record_write(&written->recorder, &round, sizeof(round)));
	CHECK_OK(record_finish(&written->recorder));
	CHECK_OK(trace_folder_about(&written->trace, about));
	json_decref(about);
}

static void end(struct written *written)
{
	trace_folder_close(&written->trace, false);
	folder_remove(written->folder);
}

/* @option: one that is followed by a file, or NULL. */
static char *report_as(const struct written *written, const char *option)
{
	const struct command command = { .args = { "report", "-q", written->trace.path, option,
						   option ? "-" : NULL } };
	struct outcome outcome;

	command_run(&command, &outcome);
	CHECK_EQUAL(outcome.status, 0);
	free(outcome.err);
	return outcome.out;
}

static json_t *json_of(const struct written *written)
{
	const struct command command = { .args = { "report", "--json", "-q",
						   written->trace.path } };
	struct outcome outcome;
	json_t *json;

	command_run(&command, &outcome);
	CHECK_EQUAL(outcome.status, 0);
	json = outcome_json(&outcome);
	outcome_free(&outcome);
	CHECK_FATAL(json != NULL);
	return json;
}

/* ---- names that mean harm to who reads them on a terminal ---- */

#define HARM "\033]0;mine\007\033[2J\n\rno such line"

/* A buffer of the library at MEMORY. */
static void put_table(const struct written *written, const char *buffer, const char *device)
{
	struct {
		union {
			struct hm_published_head head;
			char bytes[HM_PUBLISHED_FIRST];
		} first;
		struct hm_published_entry entry;
	} table = {
		.first.head = { .magic = HM_PUBLISHED_MAGIC,
				.version = HM_PUBLISHED_VERSION,
				.entry_size = sizeof(table.entry),
				.n_entry = 1,
				.pid = PID,
				.used = 1,
				.changes = 1 },
		.entry = { .sequence = 2,
			   .serial = 1,
			   .begin_ns = 1015, /* behind the program that it is of */
			   .address = MEMORY,
			   .span = MEMORY_BYTES,
			   .length = MEMORY_BYTES,
			   .page_size = PAGE },
	};
	char name[64];

	snprintf(table.entry.name, sizeof(table.entry.name), "%s", buffer);
	snprintf(table.entry.device, sizeof(table.entry.device), "%s", device);
	snprintf(name, sizeof(name), "trace/maps/maps.%d", PID);
	file_write(written->folder, name, (const char *)&table, sizeof(table));
}

static void check_harmless(const char *text)
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

static void test_harm(void)
{
	uint64_t code = CODE + 0x100;
	struct written written;
	char *text;

	begin(&written);
	put_name(&written, PID, "\033[2Jname", true);
	put_map(&written, PID, CODE, PAGE, "/module" HARM, true);
	put_map(&written, PID, MEMORY, MEMORY_BYTES, "//anon", false);
	put_fault(&written, PID, MEMORY, 1, &code);
	put_table(&written, "buffer" HARM, "device" HARM);
	finish(&written, json_pack("{s:[s, s], s:{s:s}}", "command", "command" HARM, "b",
				   "tracepoints", "missing", "missing" HARM));
	text = report_as(&written, NULL);
	check_harmless(text);
	/* All of them are there, and legible. */
	CHECK(strstr(text, "command\\x1b") && strstr(text, "device\\x1b"));
	CHECK(strstr(text, "module\\x1b") && strstr(text, "missing\\x1b"));
	free(text);
	text = report_as(&written, "--folded");
	check_harmless(text);
	free(text);
	end(&written);
}

/* A path is told as long as it is: its end says which file it is. */
static void test_long_name(void)
{
	uint64_t code = CODE + 0x100;
	char path[NAME_MOST / 2];
	struct written written;
	json_t *json;

	memset(path, 'f', sizeof(path));
	path[0] = path[sizeof(path) / 2] = '/';
	snprintf(path + sizeof(path) - 9, 9, "/weights");
	begin(&written);
	put_name(&written, PID, "deep", true);
	put_map(&written, PID, MEMORY, MEMORY_BYTES, path, false);
	put_fault(&written, PID, MEMORY, 1, &code);
	finish(&written, json_object());
	json = json_of(&written);
	CHECK(!strcmp(string_of(json_array_get(json_object_get(json, "buffers"), 0), "name"),
		      path));
	json_decref(json);
	end(&written);
}

/* What a buffer is, and what it is on: which nothing is but the library's. */
static void test_backend(void)
{
	uint64_t code = CODE + 0x100;
	struct written written;
	json_t *json, *buffers;

	begin(&written);
	put_name(&written, PID, "backend", true);
	put_map(&written, PID, MEMORY, MEMORY_BYTES, "/memfd:hetmap:cache (deleted)", false);
	put_map(&written, PID, 2 * MEMORY, MEMORY_BYTES, "/data", false);
	put_table(&written, "cache", "sim:0");
	put_fault(&written, PID, MEMORY, 1, &code);
	put_fault(&written, PID, 2 * MEMORY, 1, &code);
	finish(&written, json_object());
	json = json_of(&written);
	buffers = json_object_get(json, "buffers");
	CHECK_FATAL(json_array_size(buffers) == 2);
	CHECK(!strcmp(string_of(json_array_get(buffers, 0), "kind"), "hetmap"));
	CHECK(!strcmp(string_of(json_array_get(buffers, 0), "backend"), "sim"));
	CHECK(!strcmp(string_of(json_array_get(buffers, 1), "kind"), "file"));
	CHECK(json_is_null(json_object_get(json_array_get(buffers, 1), "backend")));
	json_decref(json);
	end(&written);
}

/* What the kernel tells of a map of the library's is told of its buffer, and of no other. */
static void test_rights(void)
{
	static const uint32_t rights[] = { PROT_READ, PROT_READ | PROT_WRITE };
	uint64_t code = CODE + 0x100;
	const struct object *object;
	struct analysis analysis;
	struct written written;
	uint32_t i, n;

	for (i = 0; i < 2; i++) {
		begin(&written);
		put_name(&written, PID, "rights", true);
		put_map_as(&written, PID, MEMORY, MEMORY_BYTES, "/weights", PROT_READ);
		put_map_as(&written, PID, 2 * MEMORY, MEMORY_BYTES, "/other", PROT_READ);
		put_fault(&written, PID, MEMORY, 1, &code);
		put_map_as(&written, PID, MEMORY, MEMORY_BYTES, "/weights", rights[i]);
		put_table(&written, "weights", "file:/weights");
		finish(&written, json_object());
		CHECK_EQUAL(analysis_read(written.trace.path, 0, NULL, &analysis), 0);
		for (object = spaces_objects(analysis.spaces, &n); object;
		     object = object->next)
			CHECK_EQUAL(object->writable, i && strcmp(object->name, "/other"));
		CHECK_EQUAL(n, 3);
		analysis_free(&analysis);
		end(&written);
	}
}

/* What stands beside the recording is missed where it can't be read, and only there. */
static void test_broken_about(void)
{
	static const char *const broken[] = { "{\"costs\": {\"anon", "[]", "" };
	uint64_t code = CODE + 0x100;
	struct written written;
	char *text;
	size_t i;

	begin(&written);
	put_name(&written, PID, "broken", true);
	put_map(&written, PID, MEMORY, MEMORY_BYTES, "//anon", false);
	put_fault(&written, PID, MEMORY, 1, &code);
	finish(&written, json_object());
	text = report_as(&written, NULL);
	CHECK(!strstr(text, "about.json"));
	free(text);
	for (i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		file_write(written.folder, "trace/about.json", broken[i], strlen(broken[i]));
		text = report_as(&written, NULL);
		CHECK(strstr(text, "! its about.json can't be read ("));
		free(text);
	}
	file_write(written.folder, "trace/about.json", "{\"a\": \033[2J}", 11);
	text = report_as(&written, NULL);
	check_harmless(text);
	free(text);
	end(&written);
}

/* ---- programs that become others ---- */

/* A program, and another one of the same bytes. */
static char *copy_of_self(const struct written *written)
{
	char *path = folder_path(written->folder, "other"), command[600];

	snprintf(command, sizeof(command), "cp /proc/%d/exe '%s'", (int)getpid(), path);
	CHECK_EQUAL(system(command), 0);
	return path;
}

static void put_fork(struct written *written, uint32_t type, uint32_t pid, uint32_t tid,
		     uint32_t parent)
{
	struct {
		struct perf_event_header header;
		uint32_t pid, parent_pid, tid, parent_tid;
		uint64_t time;
		struct trace_trailer trailer;
	} record = {
		.header.misc = PERF_RECORD_MISC_USER,
		.pid = pid,
		.tid = tid,
		.parent_pid = parent,
		.parent_tid = parent,
		.time = written->time + 10,
	};

	put(written, &record.header, type, offsetof(typeof(record), trailer), pid);
}

/* A page in the same memory, at the same address of code. */
static void put_program(struct written *written, const char *path, uint64_t code,
			const char *name)
{
	put_name(written, PID, name, true);
	put_map(written, PID, CODE, UINT64_C(64) << 20, path, true);
	put_map(written, PID, MEMORY, MEMORY_BYTES, "//anon", false);
	put_fault(written, PID, MEMORY, 1, &code);
}

static uint64_t faults_at(const json_t *json, const char *module)
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

/* What a call site was is what was there then: execve(2), dlclose(3), and a pid anew. */
static void test_became_another(void)
{
	uint64_t code = CODE + 0x100;
	struct written written;
	char *other;
	json_t *json;

	begin(&written);
	other = copy_of_self(&written);
	put_program(&written, "/proc/self/exe", code, "first");
	put_program(&written, other, code, "second");
	/* Another library where one was. */
	put_map(&written, PID, CODE, UINT64_C(64) << 20, "/third", true);
	put_fault(&written, PID, MEMORY + PAGE, 1, &code);
	put_fork(&written, PERF_RECORD_EXIT, PID, PID, 1);
	/* It has no code at all that is known of. */
	put_name(&written, PID, "fourth", true);
	put_map(&written, PID, MEMORY, MEMORY_BYTES, "//anon", false);
	put_fault(&written, PID, MEMORY, 1, &code);
	finish(&written, json_object());
	json = json_of(&written);
	CHECK_EQUAL(faults_at(json, "exe"), 1);
	CHECK_EQUAL(faults_at(json, "other"), 1);
	CHECK_EQUAL(faults_at(json, "third"), 1);
	CHECK_EQUAL(json_array_size(json_object_get(json, "sites")), 4);
	json_decref(json);
	free(other);
	end(&written);
}

/* ---- many children, one after another, and threads ---- */

#define MAPPINGS 2000
#define CHILDREN 1000

static void test_ended(void)
{
	uint64_t code = CODE + 0x100, before, i;
	struct written written;
	struct analysis analysis;
	const struct object *object;
	uint32_t n;

	begin(&written);
	put_name(&written, PID, "parent", true);
	put_map(&written, PID, CODE, PAGE, "/program", true);
	for (i = 0; i < MAPPINGS; i++)
		put_map(&written, PID, MEMORY + 4 * i * PAGE, PAGE, "/data", false);
	for (i = 0; i < CHILDREN; i++) {
		uint32_t child = PID + 1 + (uint32_t)i;

		put_fork(&written, PERF_RECORD_FORK, child, child, PID);
		/* All of them are there at a time, half of them with memory of their own. */
		if (i % 2)
			put_fault(&written, child, MEMORY, 1, &code);
		else
			put_map(&written, child, MEMORY + 2 * PAGE, PAGE, "/own", false);
		if (!(i % 2))
			put_fork(&written, PERF_RECORD_EXIT, child, child, PID);
	}
	finish(&written, json_object());
	before = mallinfo2().uordblks + mallinfo2().hblkhd;
	CHECK_EQUAL(analysis_read(written.trace.path, 0, NULL, &analysis), 0);
	/* Two million ranges are 200 MB. */
	CHECK(TEST_ASAN || TEST_TSAN ||
	      mallinfo2().uordblks + mallinfo2().hblkhd - before < UINT64_C(20) << 20);
	CHECK_EQUAL(analysis.faults, CHILDREN / 2);
	for (object = spaces_objects(analysis.spaces, &n); object; object = object->next)
		CHECK(object->kind != OBJECT_UNKNOWN);
	analysis_free(&analysis);
	end(&written);
}

/* Its first thread ends before the others: its memory is theirs. */
static void test_first_thread_ends(void)
{
	uint64_t code = CODE + 0x100;
	struct written written;
	json_t *json;

	begin(&written);
	put_name(&written, PID, "threads", true);
	put_map(&written, PID, MEMORY, MEMORY_BYTES, "//anon", false);
	put_fork(&written, PERF_RECORD_FORK, PID, PID + 1, PID);
	put_fork(&written, PERF_RECORD_FORK, PID, PID + 2, PID);
	put_fork(&written, PERF_RECORD_EXIT, PID, PID + 1, PID);
	put_fork(&written, PERF_RECORD_EXIT, PID, PID, 1);
	put_fault(&written, PID, MEMORY, 1, &code);
	put_fork(&written, PERF_RECORD_EXIT, PID, PID + 2, PID);
	put_fault(&written, PID, MEMORY, 1, &code);
	finish(&written, json_object());
	json = json_of(&written);
	CHECK_EQUAL(integer_of(json_array_get(json_object_get(json, "buffers"), 0), "minor"),
		    1);
	CHECK_EQUAL(integer_of(json_array_get(json_object_get(json, "buffers"), 1), "minor"),
		    1);
	json_decref(json);
	end(&written);
}

/* A thread has its maker's name until it takes another one; one that makes itself is a lie. */
static void test_thread_names(void)
{
	struct analysis analysis;
	struct written written;

	begin(&written);
	put_name(&written, PID, "maker", true);
	put_fork(&written, PERF_RECORD_FORK, PID, PID + 1, PID);
	put_fork(&written, PERF_RECORD_FORK, PID, PID + 2, PID);
	put_name(&written, PID + 2, "other", false);
	put_fork(&written, PERF_RECORD_FORK, PID, PID, PID);
	put_fork(&written, PERF_RECORD_FORK, PID, PID + 3, PID + 4);
	finish(&written, json_object());
	CHECK_EQUAL(analysis_read(written.trace.path, 0, NULL, &analysis), 0);
	CHECK(!strcmp(spaces_thread_name(analysis.spaces, PID), "maker"));
	CHECK(!strcmp(spaces_thread_name(analysis.spaces, PID + 1), "maker"));
	CHECK(!strcmp(spaces_thread_name(analysis.spaces, PID + 2), "other"));
	CHECK(!strcmp(spaces_thread_name(analysis.spaces, PID + 3), ""));
	analysis_free(&analysis);
	end(&written);
}

/* ---- two files that are waited for ---- */

#define WAITS 64

static void put_waits(struct written *written, uint64_t at, const char *file)
{
	uint64_t code = CODE, i;

	put_map(written, PID, at, WAITS * 16 * PAGE, file, false);
	for (i = 0; i < WAITS; i++)
		put_fault_of(written, PID, at + i * 16 * PAGE, 1, &code, 1000000);
}

static double asked_rate(void *user, const struct object *object)
{
	unsigned int *asked = user;

	*asked |= strstr(object->backed_by, "second") ? 2 : 1;
	return 100;
}

/* Each is advised by what its own storage reads. */
static void test_two_files(void)
{
	unsigned int asked = 0, i;
	const struct measures measures = { .storage_rate = asked_rate, .user = &asked };
	struct report report = { 0 };
	struct written written;

	begin(&written);
	put_name(&written, PID, "two", true);
	put_waits(&written, MEMORY, "/first");
	put_waits(&written, 2 * MEMORY, "/second");
	finish(&written, json_object());
	CHECK_EQUAL(analysis_read(written.trace.path, 0, NULL, &report.analysis), 0);
	report.duration_ns = report.analysis.end_ns - report.analysis.begin_ns;
	CHECK_OK(advice_find(&report, &measures));
	CHECK_EQUAL(asked, 3);
	CHECK_EQUAL(report.n_advice, 2);
	for (i = 0; i < report.n_advice; i++) {
		CHECK(!report.advice[i].at_most);
		free(report.advice[i].text);
		free(report.advice[i].evidence);
	}
	free(report.advice);
	analysis_free(&report.analysis);
	end(&written);
}

/* As one is whose tracer was killed: nobody wrote its end, or what is beside it. */
static void test_unfinished(void)
{
	uint64_t code = CODE + 0x100;
	struct written written;
	json_t *json, *missing;
	char *text;

	begin(&written);
	put_program(&written, "/program", code, "first");
	json = json_of(&written);
	CHECK_EQUAL(faults_at(json, "program"), 1);
	missing = json_object_get(json, "missing");
	CHECK(strstr(json_string_value(json_array_get(missing, 0)), "about.json is not there"));
	CHECK(strstr(json_string_value(json_array_get(missing, 1)), "is cut off"));
	json_decref(json);
	text = report_as(&written, NULL);
	CHECK(strstr(text, "! about.json is not there"));
	free(text);
	end(&written);
}

/* Whole chains, from the outermost in; those of two processes of one program are one. */
static void test_folded(void)
{
	const uint64_t deep[] = { CODE + 0x10, CODE + 0x20, CODE + PAGE + 0x30, 0x10 };
	const uint64_t other[] = { CODE + 0x10, CODE + 0x20 };
	const uint64_t moved[] = { CODE + PAGE + 0x10, CODE + PAGE + 0x20 };
	struct written written;
	char *text;

	begin(&written);
	put_name(&written, PID, "one name", true);
	put_map(&written, PID, CODE, PAGE, "/inner", true);
	put_map(&written, PID, CODE + PAGE, PAGE, "/outer", true);
	put_map(&written, PID, MEMORY, MEMORY_BYTES, "/a;b", false);
	put_name(&written, PID + 1, "one name", true);
	put_map(&written, PID + 1, CODE + PAGE, PAGE, "/inner", true);
	put_map(&written, PID + 1, MEMORY, MEMORY_BYTES, "/a;b", false);
	put_fault(&written, PID, MEMORY, 4, deep);
	put_fault(&written, PID, MEMORY + PAGE, 4, deep);
	put_fault(&written, PID, MEMORY + 2 * PAGE, 2, other);
	put_fault(&written, PID + 1, MEMORY, 2, moved);
	finish(&written, json_object());
	text = report_as(&written, "--folded");
	CHECK(!strcmp(text, "one_name;[inner];[inner];/a_b 2\n"
			    "one_name;[unknown];[outer];[inner];[inner];/a_b 2\n"));
	free(text);
	end(&written);
}

static const struct test tests[] = {
	{ "folded", test_folded, 60, TEST_ONCE },
	{ "two_files", test_two_files, 60, TEST_ONCE },
	{ "became_another", test_became_another, 60, TEST_ONCE },
	{ "ended", test_ended, 60, TEST_ONCE },
	{ "first_thread_ends", test_first_thread_ends, 60, TEST_ONCE },
	{ "thread_names", test_thread_names, 60, TEST_ONCE },
	{ "unfinished", test_unfinished, 60, TEST_ONCE },
	{ "harm", test_harm, 60, TEST_ONCE },
	{ "long_name", test_long_name, 60, TEST_ONCE },
	{ "broken_about", test_broken_about, 60, TEST_ONCE },
	{ "rights", test_rights, 60, TEST_ONCE },
	{ "backend", test_backend, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "report_records", tests);
}
