// SPDX-License-Identifier: MIT
/* Programs whose maps are known: the tests of hetmap top and explain look at them. */
#include "perf/watched.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <numa.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hetmap/hetmap.h>
#include <hetmap/published.h>
#include <hetmap/sim.h>
#include <uapi/hetsim.h>

#include "lib/harness.h"
#include "base/util.h"

static void tell(const volatile void *address)
{
	printf("0x%" PRIxPTR "\n", (uintptr_t)address);
	fflush(stdout);
}

/* The memory stays until the other side of the pipe ends. */
static void stay(const volatile void *address)
{
	char byte;

	tell(address);
	if (read(STDIN_FILENO, &byte, 1) < 0)
		_exit(70);
}

static void touch(volatile char *bytes, uint64_t pages)
{
	uint64_t i;

	for (i = 0; i < pages; i++)
		bytes[i * PAGE] = 1;
}

static void check(int r)
{
	if (!r)
		return;
	fprintf(stderr, "%s\n", hm_errmsg());
	_exit(71);
}

static struct hm_device *host(void)
{
	struct hm_device *device;

	check(hm_device_open("host", &device));
	return device;
}

static struct hm_map *map_of(struct hm_buffer *buffer, uint64_t touched)
{
	struct hm_map *map;

	check(hm_map_create(buffer, NULL, &map));
	touch(hm_map_address(map), touched);
	return map;
}

static struct hm_map *make(struct hm_device *device, const char *name, uint64_t pages,
			   uint64_t touched, struct hm_buffer **ret_buffer)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc),
					     .size = pages * PAGE,
					     .name = name };

	check(hm_buffer_create(device, &desc, ret_buffer));
	return map_of(*ret_buffer, touched);
}

static const volatile char *first; /* the address that stay() prints */

static int work(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range, (void)args;
	stay(first);
	return 0;
}

static void launch_on(struct hm_map *map)
{
	const struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc), .name = "work", .cpu = work, .signature = "inout"
	};
	struct hm_kernel *kernel;
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_fence *fence;

	check(hm_accel_open("cpu", NULL, &accel));
	check(hm_queue_create(accel, 0, &queue));
	check(hm_kernel_create(&desc, &kernel));
	check(hm_launch(queue, kernel, 1, &fence, HM_INOUT(hm_map_address(map))));
	check(hm_fence_wait(fence, UINT64_MAX));
}

static void buffers(void)
{
	struct hm_device *device = host();
	struct hm_buffer *whole, *half, *locked, *busy;
	struct hm_map *map;

	first = hm_map_address(make(device, "whole", 16, 16, &whole));
	make(device, "half", 32, 16, &half);
	map_of(half, 16);
	map = make(device, "locked", 8, 8, &locked);
	check(hm_map_lock(map, 0, 8 * PAGE, 0, NULL));
	check(hm_map_begin_cpu(map, 0, PAGE, HM_READ));
	launch_on(make(device, "busy", 1, 1, &busy));
}

static void large(void)
{
	struct hm_buffer *on_host, *on_soft;
	struct hm_device *soft;

	check(hm_device_open("soft:0", &soft));
	make(host(), "on_host", WATCHED_LARGE / PAGE, 0, &on_host);
	first = hm_map_address(make(soft, "on_soft", WATCHED_LARGE / PAGE, 0, &on_soft));
	stay(first);
}

static void many(void)
{
	struct hm_device *device = host();
	struct hm_buffer *buffer;
	char name[16];
	int i;

	for (i = 0; i < WATCHED_MANY; i++) {
		snprintf(name, sizeof(name), "m%04d", i);
		first = hm_map_address(make(device, name, 1, 1, &buffer));
	}
	stay(first);
}

/* Its pages go, and come back by faults, until it is told to end. */
static void faulting(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	struct hm_device *device = host();
	struct hm_buffer *quiet, *loud;
	struct hm_map *map;

	make(device, "quiet", 16, 16, &quiet);
	map = make(device, "loud", 16, 16, &loud);
	tell(hm_map_address(map));
	while (poll(&input, 1, 1) == 0) {
		if (madvise(hm_map_address(map), 16 * PAGE, MADV_DONTNEED))
			_exit(72);
		touch(hm_map_address(map), 16);
	}
}

static void one_large(bool refused)
{
	char *room =
		mmap(NULL, 2 * WATCHED_LARGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t huge = UINT64_C(2) << 20;
	char *bytes = (char *)(((uintptr_t)room + huge) & ~(huge - 1));

	if (room == MAP_FAILED ||
	    mmap(bytes, WATCHED_LARGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED ||
	    (refused && madvise(bytes, WATCHED_LARGE, MADV_NOHUGEPAGE)))
		_exit(72);
	if (refused)
		touch(bytes, WATCHED_LARGE / PAGE);
	stay(bytes);
}

/* Between pages without access: beside other memory they would be one mapping with it. */
static char *four_pages(void)
{
	char *room = mmap(NULL, 6 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (room == MAP_FAILED || mprotect(room + PAGE, 4 * PAGE, PROT_READ | PROT_WRITE))
		_exit(72);
	return room + PAGE;
}

static void plain(void)
{
	char *bytes = four_pages();

	touch(bytes, 1);
	stay(bytes);
}

static void map_file(const char *path, size_t times)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	volatile char *bytes;
	struct stat st;
	off_t i;

	if (fd < 0 || fstat(fd, &st) < 0)
		_exit(72);
	bytes = mmap(NULL, times * (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED)
		_exit(72);
	for (i = 0; i < st.st_size; i += (off_t)PAGE)
		(void)bytes[i];
	stay(bytes);
}

static void file(const char *path)
{
	map_file(path, 1);
}

static void file_beyond(const char *path)
{
	map_file(path, 4);
}

/* ---- tables that no reader should believe ---- */

static void publish(const struct hm_published_head *head,
		    const struct hm_published_entry *entries, size_t n)
{
	int fd = memfd_create("hetmap:maps", MFD_CLOEXEC);
	size_t i;

	if (fd < 0 || pwrite(fd, head, sizeof(*head), 0) != (ssize_t)sizeof(*head))
		_exit(73);
	for (i = 0; i < n; i++)
		if (pwrite(fd, &entries[i], head->entry_size,
			   (off_t)(HM_PUBLISHED_FIRST + i * head->entry_size)) !=
		    (ssize_t)head->entry_size)
			_exit(73);
}

/* Written by an older library, whose entries had no counters. */
static void older(void)
{
	char *bytes = four_pages();
	const struct hm_published_head head = { .magic = HM_PUBLISHED_MAGIC,
						.version = HM_PUBLISHED_VERSION,
						.entry_size = 192,
						.n_entry = 2,
						.used = 2,
						.pid = (uint64_t)getpid() };
	struct hm_published_entry entries[2];
	size_t i;

	for (i = 0; i < 2; i++)
		entries[i] =
			(struct hm_published_entry){ .sequence = 2,
						     .serial = i + 1,
						     .address = (uintptr_t)bytes + 2 * i * PAGE,
						     .span = 2 * PAGE,
						     .length = 2 * PAGE,
						     .buffer = i + 1,
						     .name = "older",
						     .device = "host" };
	touch(bytes, 4);
	publish(&head, entries, 2);
	stay(bytes);
}

static void lying(void)
{
	char *bytes = four_pages();
	struct hm_published_head head = { .magic = HM_PUBLISHED_MAGIC,
					  .version = HM_PUBLISHED_VERSION,
					  .entry_size = sizeof(struct hm_published_entry),
					  .n_entry = 8,
					  .used = 8,
					  .pid = (uint64_t)getpid() };
	struct hm_published_entry entries[8];
	size_t i;

	for (i = 0; i < 8; i++)
		entries[i] = (struct hm_published_entry){ .sequence = 2,
							  .serial = i + 1,
							  .address = (uintptr_t)bytes,
							  .span = 4 * PAGE,
							  .length = 4 * PAGE,
							  .buffer = i,
							  .brackets = UINT64_MAX - 3,
							  .in_flight = 1,
							  .name = "liar",
							  .device = "host" };
	/* An end that is none of the text, a range that is none, and another's place. */
	memset(entries[0].name, '\033', sizeof(entries[0].name));
	entries[0].length = 2 * 4 * PAGE;
	entries[1].address = UINT64_MAX - PAGE;
	entries[2].span = UINT64_MAX;
	entries[3].length = 0;
	entries[4].address = 0;
	touch(bytes, 4);
	publish(&head, entries, 8);
	stay(bytes);
}

static void broken(void)
{
	const struct hm_published_head head = { .magic = HM_PUBLISHED_MAGIC,
						.version = HM_PUBLISHED_VERSION,
						.entry_size = sizeof(struct hm_published_entry),
						.n_entry = 100,
						.used = 100,
						.pid = (uint64_t)getpid() };

	/* The entries that its head promises are missing. */
	publish(&head, NULL, 0);
	stay(NULL);
}

/* Out of VRAM as if another process needed the room, and in again. */
static void evicted(void)
{
	struct hetsim_inject out = { .size = sizeof(out),
				     .kind = HETSIM_INJECT_EVICTION,
				     .value = 16 * PAGE };
	struct hetsim_buffer_move in = { .size = sizeof(in),
					 .place = HETSIM_PLACE_VRAM,
					 .length = 16 * PAGE };
	struct pollfd end = { .fd = STDIN_FILENO, .events = POLLIN };
	struct hm_buffer *stays, *goes;
	struct hm_device *device;

	check(hm_device_open("soft:0", &device));
	make(device, "stays", 16, 16, &stays);
	first = hm_map_address(make(device, "goes", 16, 16, &goes));
	check(hm_sim_buffer(goes, &out.target));
	in.handle = out.target;
	check(hm_sim_call(device, HETSIM_INJECT, &out));
	check(hm_sim_call(device, HETSIM_BUFFER_MOVE, &in));
	tell(first);
	while (!poll(&end, 1, 1)) {
		check(hm_sim_call(device, HETSIM_INJECT, &out));
		check(hm_sim_call(device, HETSIM_BUFFER_MOVE, &in));
	}
}

static void lost(void)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc),
					     .size = 4 * PAGE,
					     .name = "gone" };
	struct hetsim_inject inject = { .size = sizeof(inject), .kind = HETSIM_INJECT_UNPLUG };
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;

	setenv("HETMAP_SOFT", "test=1", 1);
	check(hm_device_open("soft:0", &device));
	check(hm_buffer_create(device, &desc, &buffer));
	map = map_of(buffer, 4);
	/* The next request to the device notices it. */
	if (hm_sim_call(device, HETSIM_INJECT, &inject) ||
	    hm_map_begin_cpu(map, 0, PAGE, HM_READ) != -ENODEV)
		_exit(74);
	stay(hm_map_address(map));
}

static void remote(void)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc),
					     .size = 16 * PAGE,
					     .numa_mode = HM_NUMA_BIND,
					     .numa_nodes = UINT64_C(1) << numa_max_node(),
					     .name = "far" };
	struct hm_buffer *buffer;

	if (numa_run_on_node(0))
		_exit(75);
	check(hm_buffer_create(host(), &desc, &buffer));
	stay(hm_map_address(map_of(buffer, 16)));
}

static void one_large_refused(void)
{
	one_large(true);
}

static void one_large_untouched(void)
{
	one_large(false);
}

static const struct act {
	const char *name;
	void (*run)(void);
	void (*run_on)(const char *path); /* instead, for those that are given a file */
} acts[] = {
	{ .name = "buffers", .run = buffers },
	{ .name = "large", .run = large },
	{ .name = "many", .run = many },
	{ .name = "faulting", .run = faulting },
	{ .name = "one_large", .run = one_large_refused },
	{ .name = "large_untouched", .run = one_large_untouched },
	{ .name = "remote", .run = remote },
	{ .name = "evicted", .run = evicted },
	{ .name = "lost", .run = lost },
	{ .name = "plain", .run = plain },
	{ .name = "file", .run_on = file },
	{ .name = "file_beyond", .run_on = file_beyond },
	{ .name = "lying", .run = lying },
	{ .name = "broken", .run = broken },
	{ .name = "older", .run = older },
};

void watched_act(int argc, char **argv)
{
	const struct act *act;

	if (argc < 3 || strcmp(argv[1], "--watched") != 0)
		return;
	for (act = acts; act < acts + ARRAY_SIZE(acts); act++)
		if (!strcmp(argv[2], act->name))
			break;
	if (act == acts + ARRAY_SIZE(acts) || (act->run_on && argc < 4))
		_exit(75);
	if (act->run_on)
		act->run_on(argv[3]);
	else
		act->run();
	/* Skips a sanitizer's report on memory still in use. */
	_exit(0);
}

struct watched watched_start(const char *name, const char *path)
{
	struct watched watched = { .pid = -1 };
	int to[2], from[2];
	char text[64] = "";
	ssize_t n;

	CHECK_FATAL(!pipe2(to, O_CLOEXEC) && !pipe2(from, O_CLOEXEC));
	watched.pid = fork();
	if (!watched.pid) {
		dup2(to[0], STDIN_FILENO);
		dup2(from[1], STDOUT_FILENO);
		/* The program may run for long: only the test has a time limit. */
		alarm(0);
		execl("/proc/self/exe", "watched", "--watched", name, path, NULL);
		_exit(75);
	}
	close(to[0]);
	close(from[1]);
	n = read(from[0], text, sizeof(text) - 1);
	close(from[0]);
	watched.to = to[1];
	if (n <= 0) {
		test_fail(__FILE__, __LINE__, "%s did not begin", name);
		watched_end(&watched);
		test_abandon();
	}
	watched.address = strtoull(text, NULL, 16);
	return watched;
}

void watched_end(struct watched *watched)
{
	int status = 0;

	close(watched->to);
	if (waitpid(watched->pid, &status, 0) != watched->pid || status)
		test_fail(__FILE__, __LINE__, "the program ended with status 0x%x", status);
}
