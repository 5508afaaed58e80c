// SPDX-License-Identifier: MIT
/*
 * hetmap report on recordings whose every record is written here: programs that become others, many
 * children, clocks that go back, and hostile names.
 */
#include "perf/written_trace.h"

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

static void test_harm(void)
{
	uint64_t code = CODE + 0x100;
	AUTO(written) written = { 0 };
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
}

/* A path is told as long as it is: its end says which file it is. */
static void test_long_name(void)
{
	uint64_t code = CODE + 0x100;
	char path[NAME_MOST / 2];
	AUTO(written) written = { 0 };
	AUTO(json_t) *json = NULL;

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
}

/* A buffer's kind and its backend: only the library's buffers have one. */
static void test_backend(void)
{
	uint64_t code = CODE + 0x100;
	AUTO(written) written = { 0 };
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
}

/* The rights in the kernel's record of a library's map belong to its buffer alone. */
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

	put(written, &record, type, offsetof(typeof(record), trailer), pid);
}

/* A call site keeps the name of its time: execve(2), dlclose(3), and a pid anew. */
static void test_became_another(void)
{
	uint64_t code = CODE + 0x100;
	AUTO(written) written = { 0 };
	AUTO_TEXT *other = NULL;
	AUTO(json_t) *json = NULL;

	begin(&written);
	other = copy_of_self(&written);
	put_program(&written, "/proc/self/exe", code, "first");
	put_program(&written, other, code, "second");
	/* Another library where one was. */
	put_map(&written, PID, CODE, UINT64_C(64) << 20, "/third", true);
	put_fault(&written, PID, MEMORY + PAGE, 1, &code);
	put_fork(&written, PERF_RECORD_EXIT, PID, PID, 1);
	/* The process has no known code at all. */
	put_name(&written, PID, "fourth", true);
	put_map(&written, PID, MEMORY, MEMORY_BYTES, "//anon", false);
	put_fault(&written, PID, MEMORY, 1, &code);
	finish(&written, json_object());
	json = json_of(&written);
	CHECK_EQUAL(faults_at(json, "exe"), 1);
	CHECK_EQUAL(faults_at(json, "other"), 1);
	CHECK_EQUAL(faults_at(json, "third"), 1);
	CHECK_EQUAL(json_array_size(json_object_get(json, "sites")), 4);
}

/* ---- many children, one after another, and threads ---- */

#define MAPPINGS 2000
#define CHILDREN 1000

static void test_ended(void)
{
	uint64_t code = CODE + 0x100, before, i;
	AUTO(written) written = { 0 };
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
}

/* The first thread ends before the other ones, which keep the memory. */
static void test_first_thread_ends(void)
{
	uint64_t code = CODE + 0x100;
	AUTO(written) written = { 0 };
	AUTO(json_t) *json = NULL;

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
}

/* A thread has its maker's name until it takes another one; one that makes itself is a lie. */
static void test_thread_names(void)
{
	struct analysis analysis;
	AUTO(written) written = { 0 };

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

/* Each file's advice uses the rate of its own storage. */
static void test_two_files(void)
{
	unsigned int asked = 0, i;
	const struct measures measures = { .storage_rate = asked_rate, .user = &asked };
	struct report report = { 0 };
	AUTO(written) written = { 0 };

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
}

/* Whole chains, from the outermost in; those of two processes of one program are one. */
static void test_folded(void)
{
	const uint64_t deep[] = { CODE + 0x10, CODE + 0x20, CODE + PAGE + 0x30, 0x10 };
	const uint64_t other[] = { CODE + 0x10, CODE + 0x20 };
	const uint64_t moved[] = { CODE + PAGE + 0x10, CODE + PAGE + 0x20 };
	AUTO(written) written = { 0 };
	AUTO_TEXT *text = NULL;

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
}

/* A fault belongs to its thread, which may have another name than the process's first thread. */
static void test_folded_threads(void)
{
	static const char text[] =
		"main 7/7 10.000000000: PERF_RECORD_COMM exec: main:7/7\n"
		"main 7/7 10.000001000: PERF_RECORD_FORK(7:8):(7:7)\n"
		"main 7/8 10.000002000: PERF_RECORD_COMM: load worker:7/8\n"
		"main 7/7 10.000003000: 1 page-faults:u: 20000000\n\t 100 run (/p)\n\n"
		"main 7/8 10.000004000: 1 page-faults:u: 20001000\n\t 100 run (/p)\n\n"
		"main 7/9 10.000005000: 1 page-faults:u: 20002000\n\t 100 run (/p)\n\n";
	static const char expected[] = "load_worker;%s;memory_that_nothing_is_known_of 1\n"
				       "main;%s;memory_that_nothing_is_known_of 1\n"
				       "thread_9;%s;memory_that_nothing_is_known_of 1\n";
	const uint64_t code = CODE + 0x10;
	struct command command = { .args = { "report", "-q", "--folded", "-",
					     "--perf-script" } };
	AUTO(outcome) outcome = { 0 };
	struct written written;
	char lines[300];
	AUTO_TEXT *folded = NULL, *script = NULL;

	begin(&written);
	put_name(&written, PID, "main", true);
	put_fork(&written, PERF_RECORD_FORK, PID, PID + 1, PID);
	put_thread_name(&written, PID, PID + 1, "load worker");
	put_map(&written, PID, CODE, PAGE, "/p", true);
	put_thread_fault(&written, PID, PID, MEMORY, 1, &code, 1000);
	put_thread_fault(&written, PID, PID + 1, MEMORY + PAGE, 1, &code, 1000);
	put_thread_fault(&written, PID, PID + 2, MEMORY + 2 * PAGE, 1, &code, 1000);
	finish(&written, json_object());
	folded = report_as(&written, "--folded");
	snprintf(lines, sizeof(lines), expected, "[p]", "[p]", "[p]");
	CHECK(!strcmp(folded, lines));
	script = folder_path(written.folder, "script");
	file_write(written.folder, "script", text, strlen(text));
	command.args[5] = script;
	command_run(&command, &outcome);
	end(&written);
	snprintf(lines, sizeof(lines), expected, "run_(/p)", "run_(/p)", "run_(/p)");
	CHECK(!strcmp(outcome.out, lines));
}

static const struct test tests[] = {
	{ "folded", test_folded, 60, TEST_ONCE },
	{ "folded_threads", test_folded_threads, 60, TEST_ONCE },
	{ "two_files", test_two_files, 60, TEST_ONCE },
	{ "became_another", test_became_another, 60, TEST_ONCE },
	{ "ended", test_ended, 60, TEST_ONCE },
	{ "first_thread_ends", test_first_thread_ends, 60, TEST_ONCE },
	{ "thread_names", test_thread_names, 60, TEST_ONCE },
	{ "harm", test_harm, 60, TEST_ONCE },
	{ "long_name", test_long_name, 60, TEST_ONCE },
	{ "rights", test_rights, 60, TEST_ONCE },
	{ "backend", test_backend, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "report_records", tests)
