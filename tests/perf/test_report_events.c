// SPDX-License-Identifier: MIT
/*
 * hetmap report on perf's text, or on recordings of several events: without --sample-identifier a
 * sample names its event behind the address, if all are of one type; and with all processes (-a)
 * each CPU tells which thread leaves it and which comes.
 */
#include <linux/perf_event.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../../runtime/base/util.h"
#include "../../tools/perf/read/perf_data.h"
#include "lib/support.h"
#include "perf/trace_support.h"

#define SAMPLE                                                                    \
	(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | \
	 PERF_SAMPLE_ID | PERF_SAMPLE_CPU)
#define MEMORY UINT64_C(0x20000000)
#define FAULTS 64

/* As the events of `perf record -a --switch-events -e page-faults,minor-faults -d -c 1`. */
enum { FAULT, MINOR, DUMMY, N_EVENT };

struct sample {
	struct perf_event_header header;
	uint64_t ip;
	uint32_t pid, tid;
	uint64_t time, address, id;
	uint32_t cpu, reserved;
};

struct trailer {
	uint32_t pid, tid;
	uint64_t time, id;
	uint32_t cpu, reserved;
};

struct map {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t address, length, offset, device, inode, generation, prot;
	char name[8];
	struct trailer trailer;
};

/* A thread leaves a CPU, or comes to it; other_pid is the next or the last thread there. */
struct passed {
	struct perf_event_header header;
	uint32_t other_pid, other_tid;
	struct trailer trailer;
};

struct recorded_file {
	struct perf_data_head head;
	struct perf_data_attr attrs[N_EVENT];
	uint64_t ids[N_EVENT];
	struct map map;
	struct {
		struct sample begin;
		struct passed out, in;
		struct sample end;
	} faults[FAULTS];
};

static struct sample sample_of(uint64_t id, uint64_t time, uint64_t address)
{
	return (struct sample){
		.header = { PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, sizeof(struct sample) },
		.ip = 1,
		.pid = 7,
		.tid = 7,
		.time = time,
		.address = address,
		.id = id,
	};
}

static struct passed passed_of(uint64_t id, uint64_t time, uint16_t misc)
{
	return (struct passed){
		.header = { PERF_RECORD_SWITCH_CPU_WIDE, misc, sizeof(struct passed) },
		.trailer = { .pid = 7, .tid = 7, .time = time, .id = id },
	};
}

/* Each fault takes 5 us, and the CPU is another's for 3 of them. */
static void make(struct recorded_file *file)
{
	const uint64_t config[] = { PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_PAGE_FAULTS_MIN,
				    PERF_COUNT_SW_DUMMY };
	uint32_t i;

	memset(file, 0, sizeof(*file));
	memcpy(file->head.magic, PERF_DATA_MAGIC, sizeof(file->head.magic));
	file->head.size = sizeof(file->head);
	file->head.attr_size = sizeof(file->attrs[0]);
	file->head.attrs.offset = offsetof(struct recorded_file, attrs);
	file->head.attrs.size = sizeof(file->attrs);
	file->head.data.offset = offsetof(struct recorded_file, map);
	file->head.data.size = sizeof(*file) - file->head.data.offset;
	for (i = 0; i < N_EVENT; i++) {
		file->ids[i] = 1000 + i;
		file->attrs[i].attr = (struct perf_event_attr){
			.type = PERF_TYPE_SOFTWARE,
			.size = sizeof(file->attrs[i].attr),
			.config = config[i],
			.sample_period = 1,
			.sample_type = SAMPLE,
			.sample_id_all = 1,
		};
		file->attrs[i].ids.offset = offsetof(struct recorded_file, ids[i]);
		file->attrs[i].ids.size = sizeof(file->ids[i]);
	}
	file->map = (struct map){
		.header = { PERF_RECORD_MMAP2,
			    PERF_RECORD_MISC_USER | PERF_RECORD_MISC_MMAP_DATA,
			    sizeof(file->map) },
		.pid = 7,
		.tid = 7,
		.address = MEMORY,
		.length = UINT64_C(2) << 20,
		.inode = 5,
		.name = "/tokens",
		.trailer = { .pid = 7, .tid = 7, .time = 1000, .id = file->ids[DUMMY] },
	};
	for (i = 0; i < FAULTS; i++) {
		uint64_t time = 10000 * (i + 1), address = MEMORY + 4096 * i;

		file->faults[i].begin = sample_of(file->ids[FAULT], time, address);
		file->faults[i].out =
			passed_of(file->ids[DUMMY], time + 1000, PERF_RECORD_MISC_SWITCH_OUT);
		file->faults[i].in = passed_of(file->ids[DUMMY], time + 4000, 0);
		file->faults[i].end = sample_of(file->ids[MINOR], time + 5000, address);
	}
}

static void report_file(const struct recorded_file *file, struct outcome *ret_outcome)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "perf.data");
	const struct command command = { .args = { "report", "--json", path } };

	file_write(folder, "perf.data", (const char *)file, sizeof(*file));
	command_run(&command, ret_outcome);
}

static void test_several(void)
{
	struct recorded_file file;
	AUTO(outcome) outcome = { 0 };
	json_t *json, *buffer;

	make(&file);
	report_file(&file, &outcome);
	CHECK_EQUAL(outcome.status, 0);
	json = outcome_json(&outcome);
	CHECK_FATAL(json != NULL);
	CHECK_EQUAL(json_array_size(json_object_get(json, "buffers")), 1);
	buffer = json_array_get(json_object_get(json, "buffers"), 0);
	CHECK(!strcmp(string_of(buffer, "name"), "/tokens"));
	CHECK_EQUAL(integer_of(buffer, "minor"), FAULTS);
	CHECK_EQUAL(integer_of(buffer, "time_ns"), FAULTS * 5000);
	json_decref(json);
}

/* One event's samples say it somewhere else, or nowhere: they are not taken for another's. */
static void test_untold(void)
{
	static const uint64_t types[] = { SAMPLE | PERF_SAMPLE_IDENTIFIER,
					  SAMPLE & ~(uint64_t)PERF_SAMPLE_ID,
					  SAMPLE & ~(uint64_t)PERF_SAMPLE_IP };
	struct recorded_file file;
	AUTO(outcome) outcome = { 0 };
	uint32_t type, event;

	for (event = 0; event < N_EVENT; event++)
		for (type = 0; type < ARRAY_SIZE(types); type++) {
			make(&file);
			file.attrs[event].attr.sample_type = types[type];
			report_file(&file, &outcome);
			CHECK_EQUAL(outcome.status, 2);
			check_failure_json(&outcome, EPROTO);
			CHECK(strstr(outcome.out, "don't say of which event") != NULL);
		}
}

/* As perf script prints it, with names that would be other things. */
static void test_script(void)
{
	static const char text[] =
		"a 1/2 [0] 3.4: x 7/7 [000] 10.000000000: PERF_RECORD_COMM exec: a 1/2:7/7\n"
		"a 7/7 [000] 10.000001000: PERF_RECORD_MMAP2 7/7: [0x10000000(0x200000) @ 0 "
		"00:00 0 0]: rw-p //anon\n"
		"a 7/7 [000] 10.000001000: PERF_RECORD_MMAP2 7/7: [0x20000000(0x100000) @ "
		"0x1000 fe:00 12 34]: r--s /a file (deleted)\n"
		"nonsense\n"
		"a 7/7 [001] 10.000010000: page-faults:u:  10003000 [unknown] (//anon)\n"
		"\tffffffff821e8700 copy ([kernel.kallsyms])\n"
		"\t    1000 f(int (*)()) (/bin/a b)\n"
		"\t    2000 main (/bin/a b)\n"
		"\n"
		"a 7/7 [001] 10.000013000: minor-faults:u: 10003000 [unknown] (//anon) 0 a (b)\n"
		"a 7/7 10.000020000: page-faults:u: 20000010 [unknown] (/a)\n\n"
		"a 7/7 10.001020000: major-faults:u: 20000010 [unknown] (/a)\n";
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "script");
	const struct command command = { .args = { "report", "--json", "--perf-script",
						   path } };
	json_t *json, *buffer, *site;

	file_write(folder, "script", text, sizeof(text) - 1);
	json = command_json(&command, 0);
	buffer = buffer_of(json, "2 MiB of memory");
	CHECK_EQUAL(integer_of(buffer, "minor"), 1);
	CHECK_EQUAL(integer_of(buffer, "time_ns"), 3000);
	buffer = buffer_of(json, "/a file (deleted)");
	CHECK_EQUAL(integer_of(buffer, "major"), 1);
	CHECK_EQUAL(integer_of(buffer, "time_ns"), 1000000);
	CHECK_EQUAL(json_array_size(json_object_get(json, "buffers")), 2);
	site = json_array_get(json_object_get(json, "sites"), 1);
	CHECK(!strcmp(string_of(site, "function"), "f(int (*)())"));
	CHECK(!strcmp(string_of(site, "module"), "/bin/a b"));
	json_decref(json);
}

static const struct test tests[] = {
	{ "several", test_several, 60, TEST_ONCE },
	{ "untold", test_untold, 60, TEST_ONCE },
	{ "script", test_script, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "report_events", tests)
