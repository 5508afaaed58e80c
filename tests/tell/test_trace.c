// SPDX-License-Identifier: MIT
/* HETMAP_TRACE: the file has all events, in order, and holds up no call. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hetmap/sim.h>
#include <uapi/hetsim.h>

#include "lib/support.h"
#include "base/sys.h"
#include "tell/trace.h"

#define THREADS 4
#define ROUNDS 2000

/* A run of a program: the place of its trace, and its work. */
struct run {
	const char *value; /* HETMAP_TRACE; NULL: not set */
	void (*body)(void);
	bool killed;
};

static char folder[] = "/tmp/hetmap-trace-XXXXXX";

static char *path_of(const char *name)
{
	static char paths[4][128];
	static unsigned int turn;
	char *path = paths[turn++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

static void in_child(void *user)
{
	const struct run *run = user;

	setenv("HETMAP_SOFT", "vram_mb=16 test=1", 1);
	if (run->value)
		setenv("HETMAP_TRACE", run->value, 1);
	else
		unsetenv("HETMAP_TRACE");
	run->body();
	if (run->killed)
		kill(getpid(), SIGKILL);
	/* As a program ends: handlers of exit(3) run. */
	exit(0);
}

static void run_traced(const char *value, void (*body)(void), bool killed)
{
	struct run run = { .value = value, .body = body, .killed = killed };

	CHECK_EQUAL(test_fork(in_child, &run), killed ? SIGKILL : 0);
}

/* ---- reading it ---- */

static json_t *read_whole(const char *path)
{
	json_error_t error;
	json_t *events = json_load_file(path, 0, &error);

	if (!json_is_array(events))
		test_fail(__FILE__, __LINE__, "%s:%d: %s", path, error.line, error.text);
	CHECK_FATAL(json_is_array(events));
	return events;
}

/* One event a line, whole or not: the array of those. Returns how many lines were none. */
static unsigned int read_lines(const char *path, json_t **ret_events)
{
	FILE *file = fopen(path, "re");
	unsigned int bad = 0;
	char line[TRACE_LINE_MAX];
	json_t *event;
	size_t n;

	*ret_events = json_array();
	CHECK_FATAL(file != NULL);
	CHECK(fgets(line, sizeof(line), file) && !strcmp(line, "[\n"));
	while (fgets(line, sizeof(line), file)) {
		n = strcspn(line, "\n");
		if (n && line[n - 1] == ',')
			n--;
		event = json_loadb(line, n, 0, NULL);
		if (event)
			json_array_append_new(*ret_events, event);
		else
			bad += strcmp(line, "]\n") != 0;
	}
	fclose(file);
	return bad;
}

static const char *text_of(const json_t *event, const char *key)
{
	const json_t *value = json_object_get(event, key);

	if (!value)
		value = json_object_get(json_object_get(event, "args"), key);
	return json_is_string(value) ? json_string_value(value) : "";
}

static uint64_t number_of(const json_t *event, const char *key)
{
	return (uint64_t)json_integer_value(
		json_object_get(json_object_get(event, "args"), key));
}

static double time_of(const json_t *event, const char *key)
{
	return json_number_value(json_object_get(event, key));
}

/* "map X", "bracket b", ... in order, without the names of processes and threads. */
static void check_order(const json_t *events, const char *const *expected)
{
	json_t *event;
	char found[64];
	size_t i;

	json_array_foreach(events, i, event)
	{
		if (!strcmp(text_of(event, "ph"), "M"))
			continue;
		snprintf(found, sizeof(found), "%s %s", text_of(event, "name"),
			 text_of(event, "ph"));
		if (!*expected || strcmp(found, *expected))
			test_fail(__FILE__, __LINE__, "event %zu is \"%s\", not \"%s\"", i,
				  found, *expected ? *expected : "the end");
		CHECK_FATAL(*expected && !strcmp(found, *expected));
		expected++;
	}
	CHECK(!*expected);
}

/* The @nth event (from 0) of that name. */
static const json_t *nth(const json_t *events, const char *name, unsigned int n)
{
	json_t *event;
	size_t i;

	json_array_foreach(events, i, event) if (!strcmp(text_of(event, "name"), name) &&
						 !n--) return event;
	test_fail(__FILE__, __LINE__, "there is no such \"%s\"", name);
	test_abandon();
}

/* ---- the traced work ---- */

static struct rig make(const char *device_name, const char *name)
{
	return rig_make(device_name, DESC(hm_buffer_desc, .size = 8 * PAGE,
					  .max_size = 16 * PAGE, .name = name));
}

static void live(void)
{
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_scope *scope;
	struct hm_fence *fence;
	AUTO(rig) r = make("host", "weights");

	CHECK_ERROR(-ERANGE, hm_map_protect(r.map, 32 * PAGE, PAGE, HM_READ));
	CHECK_OK(hm_buffer_resize(r.buffer, 12 * PAGE, 0));
	CHECK_OK(hm_buffer_resize(r.buffer, 12 * PAGE, 0));
	CHECK_OK(hm_buffer_resize(r.buffer, 32 * PAGE, HM_MAY_MOVE));
	CHECK_OK(hm_map_lock(r.map, PAGE, 2 * PAGE, 0, NULL));
	CHECK_OK(hm_map_unlock(r.map, PAGE, 2 * PAGE));
	CHECK_OK(hm_map_protect(r.map, PAGE, PAGE, HM_READ));
	CHECK_OK(hm_map_protect_begin(r.map, PAGE, PAGE, HM_NONE, &scope));
	CHECK_OK(hm_map_protect_end(scope));
	CHECK_OK(hm_map_begin_cpu(r.map, 2 * PAGE, 100, HM_READ | HM_WRITE));
	CHECK_OK(hm_map_end_cpu(r.map, 2 * PAGE, 100, HM_READ | HM_WRITE));
	CHECK_OK_FATAL(hm_accel_open("cpu", NULL, &accel));
	CHECK_OK_FATAL(hm_queue_create(accel, 0, &queue));
	CHECK_OK(hm_queue_fill(queue, (char *)hm_map_address(r.map) + 2 * PAGE, 7, PAGE,
			       &fence));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	hm_fence_unref(fence);
	hm_queue_unref(queue);
	hm_accel_unref(accel);
	rig_drop(&r);
	CHECK(!strstr(hm_errmsg(), "HETMAP_TRACE"));
}

static const char *const lived[] = {
	"map X",     "resize X",  "move i",      "resize X",  "lock X",    "unlock X",
	"protect X", "protect X", "protect X",   "bracket b", "bracket e", "fill b",
	"fill e",    "unmap i",   "trace_end i", NULL,
};

/* The one range of a fill, as the launch's line has it. */
static void check_fill(const json_t *arguments)
{
	const json_t *list = json_object_get(arguments, "arguments");
	const json_t *range = json_array_get(list, 0);
	const char *address = json_string_value(json_array_get(range, 0));
	const char *access = json_string_value(json_array_get(range, 2));

	CHECK_EQUAL(json_array_size(list), 1);
	CHECK(address && strtoull(address, NULL, 16) > 0);
	CHECK(json_integer_value(json_array_get(range, 1)) > 0);
	CHECK(access && !strcmp(access, "write"));
}

static void test_events(void)
{
	char *path = path_of("events");
	const json_t *map, *end;
	json_t *events;
	FILE *old = fopen(path, "we");

	CHECK_FATAL(old && fputs("what was there before", old) >= 0 && !fclose(old));
	run_traced(path, live, false);
	events = read_whole(path);
	check_order(events, lived);
	CHECK(!strcmp(text_of(nth(events, "process_name", 0), "ph"), "M"));
	CHECK(*text_of(json_object_get(nth(events, "thread_name", 0), "args"), "name"));
	map = nth(events, "map", 0);
	CHECK(!strcmp(text_of(map, "buffer"), "weights"));
	CHECK(!strcmp(text_of(map, "device"), "host"));
	CHECK(!strcmp(text_of(map, "access"), "read write"));
	CHECK_EQUAL(number_of(map, "length"), 8 * PAGE);
	CHECK_EQUAL(number_of(map, "offset"), 0);
	CHECK(time_of(map, "dur") > 0 && time_of(map, "ts") > 0);
	CHECK(!strcmp(text_of(nth(events, "move", 0), "old_address"), text_of(map, "address")));
	CHECK(strcmp(text_of(nth(events, "unmap", 0), "address"), text_of(map, "address")) !=
	      0);
	CHECK_EQUAL(number_of(nth(events, "resize", 1), "old_size"), 12 * PAGE);
	CHECK_EQUAL(number_of(nth(events, "resize", 1), "new_size"), 32 * PAGE);
	CHECK_EQUAL(number_of(nth(events, "lock", 0), "offset"), PAGE);
	CHECK_EQUAL(number_of(nth(events, "unlock", 0), "length"), 2 * PAGE);
	CHECK(!strcmp(text_of(nth(events, "protect", 0), "access"), "read"));
	CHECK(!strcmp(text_of(nth(events, "protect", 1), "access"), "none"));
	CHECK(!strcmp(text_of(nth(events, "protect", 2), "access"), "read"));
	CHECK_EQUAL(number_of(nth(events, "bracket", 0), "length"), 100);
	end = nth(events, "bracket", 1);
	CHECK(!strcmp(text_of(end, "id"), text_of(nth(events, "bracket", 0), "id")));
	CHECK(time_of(end, "ts") >= time_of(nth(events, "bracket", 0), "ts"));
	check_fill(json_object_get(nth(events, "fill", 0), "args"));
	end = nth(events, "fill", 1);
	CHECK(!strcmp(text_of(end, "id"), text_of(nth(events, "fill", 0), "id")));
	CHECK(!strcmp(text_of(end, "cat"), "launch") && !strcmp(text_of(end, "accel"), "cpu"));
	json_decref(events);
}

static void lose(void)
{
	struct hetsim_inject unplug = { .size = sizeof(unplug), .kind = HETSIM_INJECT_UNPLUG };
	struct rig r = make("soft:0", "frames");

	CHECK_OK(hm_buffer_set_loss(r.buffer, DESC(hm_loss_desc, .policy = HM_LOSS_RECREATE)));
	CHECK_OK(hm_sim_call(r.device, HETSIM_INJECT, &unplug));
	CHECK_OK(hm_sim_plug("soft:0"));
	CHECK_OK(hm_device_recover(r.device, 0, NULL));
}

/* Losses are in the file at once: the program is killed after it. */
static void test_lost(void)
{
	static const char *const expected[] = { "map X", "lost i", "recovered i", NULL };
	char *path = path_of("lost");
	json_t *events;

	run_traced(path, lose, true);
	CHECK_EQUAL(read_lines(path, &events), 0);
	check_order(events, expected);
	CHECK_EQUAL(number_of(nth(events, "lost", 0), "generation"), 1);
	CHECK_EQUAL(number_of(nth(events, "recovered", 0), "generation"), 2);
	json_decref(events);
}

static struct hm_map *shared_map;

static void *bracket(void *user)
{
	uint64_t at = *(int *)user * PAGE;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		CHECK_OK(hm_map_begin_cpu(shared_map, at, PAGE, HM_READ));
		CHECK_OK(hm_map_end_cpu(shared_map, at, PAGE, HM_READ));
	}
	return NULL;
}

static void use_threads(void)
{
	pthread_t threads[THREADS];
	int places[THREADS], i;
	AUTO(rig) r = make("host", "shared");

	shared_map = r.map;
	for (i = 0; i < THREADS; i++) {
		places[i] = i;
		CHECK_FATAL(!pthread_create(&threads[i], NULL, bracket, &places[i]));
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* Each thread's are in its order, and none is lost: a begin, an end, by address. */
static void check_threads(const json_t *events, unsigned int n)
{
	const char *address[THREADS] = { NULL };
	bool open[THREADS] = { false };
	unsigned int found = 0, i;
	double last[THREADS] = { 0 };
	json_t *event;
	size_t at;

	json_array_foreach(events, at, event)
	{
		if (strcmp(text_of(event, "name"), "bracket") != 0)
			continue;
		for (i = 0; i < THREADS - 1 && address[i]; i++)
			if (!strcmp(address[i], text_of(event, "address")))
				break;
		if (!address[i])
			address[i] = text_of(event, "address");
		CHECK_EQUAL(open[i], !strcmp(text_of(event, "ph"), "e"));
		open[i] = !open[i];
		CHECK(time_of(event, "ts") >= last[i]);
		last[i] = time_of(event, "ts");
		found++;
	}
	CHECK_EQUAL(found, n);
}

static void test_threads(void)
{
	char *path = path_of("threads");
	json_t *events;
	struct stat st;

	run_traced(path, use_threads, false);
	CHECK_EQUAL(read_lines(path, &events), 0);
	json_decref(events);
	events = read_whole(path);
	check_threads(events, 2 * THREADS * ROUNDS);
	json_decref(events);
	/* Only the user may read addresses. */
	CHECK(!stat(path, &st) && (st.st_mode & 0777) == 0600);
}

/* A buffer's worth of lines, and then some that are never written. */
static void use_and_stop(void)
{
	int place = 0;

	shared_map = make("host", "killed").map;
	bracket(&place);
}

static void test_killed(void)
{
	char *path = path_of("killed");
	json_t *events;

	run_traced(path, use_and_stop, true);
	CHECK_EQUAL(read_lines(path, &events), 0);
	CHECK(json_array_size(events) > ROUNDS);
	CHECK(json_array_size(events) < 2 * ROUNDS + 4);
	json_decref(events);
}

static void fork_and_map(void)
{
	AUTO(rig) r = make("host", "of the parent");
	struct rig own;
	int status;
	pid_t pid = fork();

	CHECK_FATAL(pid >= 0);
	if (!pid) {
		/* The parent's objects stay: a child can't release them, and r still has them. */
		hm_map_unref(r.map);
		hm_buffer_unref(r.buffer);
		hm_device_unref(r.device);
		own = make("host", "of the child");
		rig_drop(&own);
		exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
}

static const char *const mapped[] = { "map X", "unmap i", "trace_end i", NULL };

/* In one file for each process, or the parent's alone. */
static void test_fork_own(void)
{
	char command[256], line[256];
	unsigned int n = 0;
	json_t *events;
	FILE *list;

	run_traced(path_of("fork.%p"), fork_and_map, false);
	snprintf(command, sizeof(command), "ls %s/fork.*", folder);
	list = popen(command, "re");
	while (fgets(line, sizeof(line), list)) {
		line[strcspn(line, "\n")] = '\0';
		events = read_whole(line);
		check_order(events, mapped);
		n += strcmp(text_of(nth(events, "map", 0), "buffer"), "of the child") ? 1 : 10;
		json_decref(events);
		unlink(line);
	}
	pclose(list);
	CHECK_EQUAL(n, 11);
}

static void test_fork_none(void)
{
	char *path = path_of("alone");
	json_t *events;

	run_traced(path, fork_and_map, false);
	events = read_whole(path);
	check_order(events, mapped);
	CHECK(!strcmp(text_of(nth(events, "map", 0), "buffer"), "of the parent"));
	json_decref(events);
}

static void map_odd_name(void)
{
	struct rig r = make("host", "a\"b\\c\n\x01\x7f \xc3\xa4 \xff \xed\xa0\x80 \xe2\x82");

	rig_drop(&r);
}

static void test_names(void)
{
	char *path = path_of("names");
	json_t *events;

	run_traced(path, map_odd_name, false);
	events = read_whole(path);
	check_order(events, mapped);
	CHECK(!strcmp(text_of(nth(events, "map", 0), "buffer"),
		      "a\"b\\c??? \xc3\xa4 \xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd "
		      "\xef\xbf\xbd\xef\xbf\xbd"));
	json_decref(events);
}

/* ---- no trace, and the program is as it would be ---- */

static void told_once(const char *why)
{
	struct hm_device *device;

	CHECK_OK_FATAL(hm_device_open("host", &device));
	CHECK(strstr(hm_warning(), "HETMAP_TRACE") && strstr(hm_warning(), why));
	CHECK(!trace_is_on());
	hm_device_unref(device);
	live();
}

static void told_full(void)
{
	told_once("ENOSPC");
}

static void told_absent(void)
{
	told_once("ENOENT");
}

static void told_no_reader(void)
{
	told_once("ENXIO");
}

static void told_pipe(void)
{
	told_once("ESPIPE");
}

static void told_busy(void)
{
	told_once("another process");
}

static void test_full(void)
{
	run_traced("/dev/full", told_full, false);
}

/* No call waits for a pipe's reader, or fails by its end. */
static void test_unwritable(void)
{
	char *fifo = path_of("fifo");
	int reader;

	run_traced("/nowhere/at/all", told_absent, false);
	CHECK(!mkfifo(fifo, 0600));
	run_traced(fifo, told_no_reader, false);
	reader = open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	CHECK(reader >= 0);
	run_traced(fifo, told_pipe, false);
	close(reader);
}

/* Up to the call that gives a warning: the next one forgets it. */
static void bracket_until_warned(void)
{
	int i;

	for (i = 0; i < ROUNDS && !hm_warning()[0]; i++) {
		CHECK_OK(hm_map_begin_cpu(shared_map, 0, PAGE, HM_READ));
		if (hm_warning()[0])
			return;
		CHECK_OK(hm_map_end_cpu(shared_map, 0, PAGE, HM_READ));
	}
}

static ssize_t write_no_more(int fd, const void *from, size_t length)
{
	(void)fd, (void)from, (void)length;
	errno = ENOSPC;
	return -1;
}

/* The disk fills up meanwhile: the call in which that is found out says so. */
static void fill_up(void)
{
	int place = 0;

	shared_map = make("host", "full").map;
	CHECK(trace_is_on());
	sys_table.write = write_no_more;
	test_forget_text();
	bracket_until_warned();
	CHECK(!trace_is_on());
	CHECK(strstr(hm_warning(), "HETMAP_TRACE") && strstr(hm_warning(), "ENOSPC"));
	test_forget_text();
	bracket(&place);
	CHECK(!hm_warning()[0]);
}

/* A write for which the kernel would end the process is left out. */
static void grow_too_large(void)
{
	const struct rlimit limit = { 16 * PAGE, 16 * PAGE };

	shared_map = make("host", "limited").map;
	CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
	test_forget_text();
	bracket_until_warned();
	CHECK(!trace_is_on());
	CHECK(strstr(hm_warning(), "HETMAP_TRACE") && strstr(hm_warning(), "EFBIG"));
}

static void test_fills_up(void)
{
	char *path = path_of("fills_up");
	json_t *events;
	struct stat st;

	run_traced(path, fill_up, false);
	CHECK_EQUAL(read_lines(path, &events), 0);
	json_decref(events);
	path = path_of("too_large");
	run_traced(path, grow_too_large, false);
	CHECK_EQUAL(read_lines(path, &events), 0);
	CHECK(json_array_size(events) > 100);
	json_decref(events);
	CHECK(!stat(path, &st) && st.st_size <= (off_t)(16 * PAGE));
}

static void test_busy(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char *path = path_of("busy");
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	CHECK_FATAL(fd >= 0 && write(fd, "other", 5) == 5);
	CHECK(!fcntl(fd, F_OFD_SETLK, &lock));
	run_traced(path, told_busy, false);
	CHECK_EQUAL(lseek(fd, 0, SEEK_END), 5);
	close(fd);
}

static void live_untraced(void)
{
	live();
	CHECK(!trace_is_on());
	CHECK_EQUAL(trace_start(), 0);
	CHECK_EQUAL(trace_pid(), 0);
}

static void test_unset(void)
{
	run_traced(NULL, live_untraced, false);
	run_traced("", live_untraced, false);
}

static void remove_folder(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	if (system(command))
		perror(command);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{ "events", test_events, 0, TEST_ONCE },
		{ "lost", test_lost, 0, TEST_ONCE },
		{ "threads", test_threads, 60, TEST_ONCE },
		{ "killed", test_killed, 0, TEST_ONCE },
		{ "fork_own", test_fork_own, 0, TEST_ONCE },
		{ "fork_none", test_fork_none, 0, TEST_ONCE },
		{ "names", test_names, 0, TEST_ONCE },
		{ "full", test_full, 0, TEST_ONCE },
		{ "unwritable", test_unwritable, 0, TEST_ONCE },
		{ "fills_up", test_fills_up, 0, TEST_ONCE },
		{ "busy", test_busy, 0, TEST_ONCE },
		{ "unset", test_unset, 0, TEST_ONCE },
		{ NULL, NULL, 0, 0 },
	};
	int r;

	if (!mkdtemp(folder)) {
		perror(folder);
		return 1;
	}
	r = harness_main(argc, argv, "trace", tests);
	remove_folder();
	return r;
}
