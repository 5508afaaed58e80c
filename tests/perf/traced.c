// SPDX-License-Identifier: MIT
/* Programs whose page faults are known: test_command_trace.c runs itself as them, traced. */
#include "perf/traced.h"

#include <fcntl.h>
#include <numa.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hetmap/hetmap.h>
#include "lib/units.h"

static char *memory(int advice)
{
	return traced_memory(TRACED_PAGES * PAGE, advice);
}

static int sequential(void)
{
	volatile char *bytes = memory(MADV_NOHUGEPAGE);
	size_t i;

	for (i = 0; i < TRACED_PAGES; i++)
		bytes[i * PAGE] = 1;
	return 0;
}

/* Large enough that starting the program is little beside it. */
static int large(void)
{
	volatile char *bytes = traced_memory(TRACED_LARGE, MADV_NOHUGEPAGE);
	size_t i;

	for (i = 0; i < TRACED_LARGE; i += PAGE)
		bytes[i] = 1;
	return 0;
}

/* Every other page, so that huge pages would be half used. */
static int large_strided(void)
{
	volatile char *bytes = traced_memory(TRACED_LARGE, MADV_NOHUGEPAGE);
	size_t i;

	for (i = 0; i < TRACED_LARGE; i += 2 * PAGE)
		bytes[i] = 1;
	return 0;
}

/* Each once: triangular numbers are all different, modulo a power of two. */
static int large_scattered(void)
{
	volatile char *bytes = traced_memory(TRACED_LARGE, MADV_NOHUGEPAGE);
	size_t n = TRACED_LARGE / PAGE, i;

	for (i = 0; i < n; i++)
		bytes[(i * i + i) / 2 % n * PAGE] = 1;
	return 0;
}

static int huge(void)
{
	volatile char *bytes = traced_memory(TRACED_LARGE, MADV_HUGEPAGE);
	size_t i;

	for (i = 0; i < TRACED_LARGE; i += PAGE)
		bytes[i] = 1;
	return 0;
}

/* A page of each MiB: nothing that brings in more would be of use. */
static int sparse(void)
{
	volatile char *bytes = traced_memory(TRACED_LARGE, MADV_NOHUGEPAGE);
	size_t i;

	for (i = 0; i < TRACED_LARGE; i += (size_t)1 << 20)
		bytes[i] = 1;
	return 0;
}

/* ---- a file that is in memory ---- */

static int read_file(int flags)
{
	const char *path = getenv("HETMAP_TRACED_FILE");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1, pass;
	char *bytes;
	size_t i;

	if (fd < 0)
		return 83;
	for (pass = 0; pass < 8; pass++) {
		bytes = mmap(NULL, TRACED_FILE, PROT_READ, MAP_SHARED | flags, fd, 0);
		if (bytes == MAP_FAILED)
			return 82;
		for (i = 0; i < TRACED_FILE; i += PAGE)
			(void)*(volatile char *)(bytes + i);
		munmap(bytes, TRACED_FILE);
	}
	return 0;
}

static int file_sequential(void)
{
	return read_file(0);
}

static int file_populated(void)
{
	return read_file(MAP_POPULATE);
}

/* ---- files that are written, each page once ---- */

static int write_file(int fd, int flags)
{
	volatile char *bytes;
	size_t i;

	if (fd < 0 || ftruncate(fd, TRACED_FILE))
		return 80;
	bytes = mmap(NULL, TRACED_FILE, PROT_READ | PROT_WRITE, flags, fd, 0);
	close(fd);
	if (bytes == MAP_FAILED)
		return 79;
	for (i = 0; i < TRACED_FILE; i += PAGE)
		bytes[i] = 1;
	return 0;
}

/* Copies of its pages, which are in memory. */
static int file_private(void)
{
	const char *path = getenv("HETMAP_TRACED_FILE");

	return write_file(path ? open(path, O_RDWR | O_CLOEXEC) : -1, MAP_PRIVATE);
}

static int memfd_written(void)
{
	return write_file(memfd_create("scratch", MFD_CLOEXEC), MAP_SHARED);
}

/* Nothing but a hole, which gets its pages one by one. */
static int file_sparse_written(void)
{
	const char *path = getenv("HETMAP_TRACED_FILE");

	return write_file(path ? open(path, O_RDWR | O_TRUNC | O_CLOEXEC) : -1, MAP_SHARED);
}

static int backwards(void)
{
	volatile char *bytes = memory(MADV_NOHUGEPAGE);
	size_t i;

	for (i = TRACED_PAGES; i--;)
		bytes[i * PAGE] = 1;
	return 0;
}

static int strided(void)
{
	volatile char *bytes = memory(MADV_NOHUGEPAGE);
	size_t i;

	for (i = 0; i < TRACED_PAGES; i += 8)
		bytes[i * PAGE] = 1;
	return 0;
}

/* Each page once: a multiple that has no divisor in common with their number. */
static int scattered(void)
{
	volatile char *bytes = memory(MADV_NOHUGEPAGE);
	uint64_t state = 88172645463325252u;
	size_t i;

	for (i = 0; i < TRACED_PAGES; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		bytes[state % TRACED_PAGES * PAGE] = 1;
	}
	return 0;
}

/* The first half is read, and has no memory of its own by that; the other one is written. */
static int halves(void)
{
	volatile char *bytes = memory(MADV_NOHUGEPAGE);
	size_t i;

	for (i = 0; i < TRACED_PAGES; i++) {
		if (i < TRACED_PAGES / 2)
			(void)bytes[i * PAGE];
		else
			bytes[i * PAGE] = 1;
	}
	return 0;
}

/* Half of it is touched where it was, the other half where it was moved to. */
static int moved(void)
{
	char *to = mmap(NULL, (TRACED_PAGES + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	volatile char *bytes = memory(MADV_NOHUGEPAGE);
	size_t i;

	for (i = 0; i < TRACED_PAGES / 2; i++)
		bytes[i * PAGE] = 1;
	if (to == MAP_FAILED)
		return 98;
	bytes = mremap((char *)bytes, TRACED_PAGES * PAGE, TRACED_PAGES * PAGE,
		       MREMAP_MAYMOVE | MREMAP_FIXED, to + PAGE);
	if (bytes == MAP_FAILED)
		return 97;
	for (; i < TRACED_PAGES; i++)
		bytes[i * PAGE] = 1;
	return 0;
}

/*
 * 32 MiB, of which half is touched, then 8 MiB directly below, then the other half. @over:
 * these are 40 MiB, in the place of the 32 MiB, too.
 */
static int extended(bool over)
{
	const size_t more = 8 << 20, all = TRACED_PAGES * PAGE + more;
	char *room = traced_memory(all, MADV_NOHUGEPAGE);
	volatile char *bytes = room + more;
	size_t i;

	/* By advice the old and the new would be two mappings. */
	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) || munmap(room, all) ||
	    mmap(room + more, all - more, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		return 78;
	for (i = 0; i < TRACED_PAGES / 2; i++)
		bytes[i * PAGE] = 1;
	if (mmap(room, over ? all : more, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		return 77;
	for (; i < TRACED_PAGES; i++)
		bytes[i * PAGE] = 1;
	return 0;
}

static int extended_below(void)
{
	return extended(false);
}

static int extended_over(void)
{
	return extended(true);
}

/* As allocators do it: all is reserved, and made usable a little at a time. */
static int steps(void)
{
	char *bytes = mmap(NULL, TRACED_PAGES * PAGE, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t at, i;

	if (bytes == MAP_FAILED || madvise(bytes, TRACED_PAGES * PAGE, MADV_NOHUGEPAGE))
		return 98;
	for (at = 0; at < TRACED_PAGES; at += TRACED_STEP) {
		if (mprotect(bytes + at * PAGE, TRACED_STEP * PAGE, PROT_READ | PROT_WRITE))
			return 97;
		for (i = at; i < at + TRACED_STEP; i++)
			*(volatile char *)(bytes + i * PAGE) = 1;
	}
	return munmap(bytes, TRACED_PAGES * PAGE) ? 96 : 0;
}

/* Bound to memory of the highest node, by a thread that runs where it does: on the first. */
static int remote(void)
{
	size_t size = TRACED_PAGES * PAGE, i;
	volatile char *bytes;

	if (numa_available() < 0 || numa_run_on_node(0))
		return 98;
	bytes = memory(MADV_NOHUGEPAGE);
	numa_tonode_memory((char *)bytes, size, numa_max_node());
	for (i = 0; i < TRACED_PAGES; i++)
		bytes[i * PAGE] = 1;
	return 0;
}

static int populated(void)
{
	char *bytes = memory(MADV_NOHUGEPAGE);
	volatile char *at = bytes;
	size_t i;

	if (madvise(bytes, (TRACED_PAGES * PAGE), MADV_POPULATE_WRITE))
		return 98;
	for (i = 0; i < TRACED_PAGES; i++)
		at[i * PAGE] = 1;
	return 0;
}

static int computing(void)
{
	volatile uint64_t sum = 0;
	uint64_t i;

	for (i = 0; i < 20000000; i++)
		sum += i;
	return !sum;
}

static int buffers_on(const char *name)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = 65536 };
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	char text[16];
	int i;

	if (hm_device_open(name, &device))
		return 97;
	for (i = 0; i < TRACED_BUFFERS; i++) {
		snprintf(text, sizeof(text), "b%04d", i);
		desc.name = text;
		if (hm_buffer_create(device, &desc, &buffer) ||
		    hm_map_create(buffer, NULL, &map))
			return 96;
		((volatile char *)hm_map_address(map))[PAGE] = 1;
		hm_map_unref(map);
		hm_buffer_unref(buffer);
	}
	hm_device_unref(device);
	return 0;
}

static int buffers_host(void)
{
	return buffers_on("host");
}

static int buffers_soft(void)
{
	return buffers_on("soft:0");
}

/* A map that moves, grows, and is seen by a child, which fork(2) leaves it to. */
static int life(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc),
				       .size = 8 * PAGE,
				       .max_size = 64 * PAGE,
				       .name = "life" };
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	volatile char *bytes;
	size_t i;
	pid_t pid;

	if (hm_device_open("host", &device) || hm_buffer_create(device, &desc, &buffer) ||
	    hm_map_create(buffer, NULL, &map) || hm_buffer_resize(buffer, 64 * PAGE, 0))
		return 97;
	bytes = hm_map_address(map);
	for (i = 8; i < 64; i++)
		bytes[i * PAGE] = 1;
	pid = fork();
	if (!pid) {
		for (i = 0; i < 8; i++)
			bytes[i * PAGE] = 1;
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	return 0;
}

static int children(void)
{
	volatile char *bytes = memory(MADV_NOHUGEPAGE);
	int i;

	for (i = 0; i < TRACED_CHILDREN; i++) {
		pid_t pid = fork();

		if (!pid) {
			bytes[(size_t)i * PAGE] = 1;
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	return 0;
}

static volatile char *buffer_on(const char *where, const char *name, size_t pages)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc),
					     .size = pages * PAGE,
					     .name = name };
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;

	if (hm_device_open(where, &device) || hm_buffer_create(device, &desc, &buffer) ||
	    hm_map_create(buffer, NULL, &map))
		_exit(90);
	return hm_map_address(map);
}

static void touch(volatile char *bytes, size_t pages)
{
	size_t i;

	for (i = 0; i < pages; i++)
		bytes[i * PAGE] = 1;
}

static int use_weights(bool prefetch)
{
	volatile char *bytes = buffer_on("soft:0", "weights", TRACED_LARGE / PAGE);
	struct hm_pointer_info info;

	if (hm_pointer_find((const void *)bytes, &info) ||
	    (prefetch && hm_map_prefetch(info.map, 0, TRACED_LARGE, HM_READ | HM_WRITE)))
		return 81;
	touch(bytes, TRACED_LARGE / PAGE);
	hm_map_unref(info.map);
	hm_buffer_unref(info.buffer);
	hm_device_unref(info.device);
	return 0;
}

static int buffer_touched(void)
{
	return use_weights(false);
}

static int buffer_prefetched(void)
{
	return use_weights(true);
}

/* Each publishes a table of its own, and is there for longer than between two searches. */
static int forking(void)
{
	char byte;
	int i, n;

	if (read(STDIN_FILENO, &byte, 1) != 1)
		return 95;
	for (i = 0; i < TRACED_FORKS; i += n) {
		for (n = 0; n < TRACED_AT_A_TIME; n++) {
			pid_t pid = fork();

			if (pid < 0)
				return 88;
			if (!pid) {
				touch(buffer_on("host", "child", 1), 1);
				usleep(TRACED_FORK_US);
				_exit(0);
			}
		}
		while (waitpid(-1, NULL, 0) > 0)
			;
	}
	return 0;
}

static int killed(void)
{
	raise(SIGTERM);
	return 0;
}

static int status(void)
{
	return 42;
}

/* Goes on until it is told to end, by its standard input. */
static int running(void)
{
	volatile char *bytes = memory(MADV_NOHUGEPAGE);
	char byte;
	size_t i;

	if (read(STDIN_FILENO, &byte, 1) != 1)
		return 95;
	for (i = 0; i < TRACED_PAGES; i++)
		bytes[i * PAGE] = 1;
	return 0;
}

/* Has had more maps than its table remembers, and has as many again if it is told to. */
static int churning(void)
{
	char byte;
	int r;

	r = buffers_on("host");
	if (r)
		return r;
	touch(buffer_on("host", "churned", 1), 1);
	if (read(STDIN_FILENO, &byte, 1) != 1)
		return 0;
	return buffers_on("host");
}

/* ---- another program in the same process: on soft:0 the table alone has names ---- */

static int executing(void)
{
	volatile char *bytes = buffer_on("soft:0", "before", TRACED_BEFORE);
	char byte;

	if (read(STDIN_FILENO, &byte, 1) != 1)
		return 95;
	touch(bytes, TRACED_BEFORE);
	execl("/proc/self/exe", "executed", "--traced", "executed", NULL);
	return 89;
}

static int executed(void)
{
	char byte;

	touch(buffer_on("soft:0", "after", TRACED_AFTER), TRACED_AFTER);
	return read(STDIN_FILENO, &byte, 1) ? 95 : 0;
}

/* ---- a program that may not write into the trace's folder ---- */

/* Runs until the tracer has copied the table that the program can't write there itself. */
static int stranger(void)
{
	char path[512], *maps = getenv("HETMAP_PUBLISH");
	int line[2], i;
	pid_t pid;

	if (!maps || pipe(line))
		return 87;
	pid = fork();
	if (!pid) {
		char byte;

		close(line[1]);
		if (setgid(TRACED_STRANGER) || setuid(TRACED_STRANGER))
			_exit(86);
		touch(buffer_on("soft:0", "strange", TRACED_AFTER), TRACED_AFTER);
		_exit(read(line[0], &byte, 1) ? 85 : 0);
	}
	snprintf(path, sizeof(path), "%s/maps.%d", maps, (int)pid);
	for (i = 0; i < 1000 && access(path, F_OK); i++)
		usleep(20000);
	close(line[1]);
	return waitpid(pid, &i, 0) == pid && !i ? 0 : 84;
}

/* ---- threads that are never the ones that were listed ---- */

static volatile char *started_memory;
static pthread_barrier_t started_end;

/* Each has a part of the memory, which the last one of a succession touches. */
static void *succeed(void *user)
{
	size_t part = (uintptr_t)user, n = TRACED_PAGES / TRACED_STARTING, i;
	struct pollfd told = { .fd = STDIN_FILENO, .events = POLLIN };
	pthread_attr_t attr;
	pthread_t next;

	usleep(TRACED_SUCCESSION_US);
	if (poll(&told, 1, 0)) {
		for (i = part * n; i < (part + 1) * n; i++)
			started_memory[i * PAGE] = 1;
		pthread_barrier_wait(&started_end);
		return NULL;
	}
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&next, &attr, succeed, user))
		_exit(92);
	return NULL;
}

static int starting(void)
{
	pthread_t thread;
	uintptr_t i;

	started_memory = memory(MADV_NOHUGEPAGE);
	pthread_barrier_init(&started_end, NULL, TRACED_STARTING + 1);
	for (i = 0; i < TRACED_STARTING; i++)
		if (pthread_create(&thread, NULL, succeed, (void *)i) || pthread_detach(thread))
			return 91;
	pthread_barrier_wait(&started_end);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(void);
} programs[] = {
	{ "sequential", sequential },
	{ "migrated", traced_migrated },
	{ "large", large },
	{ "large_strided", large_strided },
	{ "large_scattered", large_scattered },
	{ "huge", huge },
	{ "sparse", sparse },
	{ "file_sequential", file_sequential },
	{ "file_populated", file_populated },
	{ "file_private", file_private },
	{ "file_sparse_written", file_sparse_written },
	{ "memfd_written", memfd_written },
	{ "buffer_touched", buffer_touched },
	{ "buffer_prefetched", buffer_prefetched },
	{ "backwards", backwards },
	{ "strided", strided },
	{ "scattered", scattered },
	{ "halves", halves },
	{ "moved", moved },
	{ "remote", remote },
	{ "steps", steps },
	{ "extended_below", extended_below },
	{ "extended_over", extended_over },
	{ "populated", populated },
	{ "computing", computing },
	{ "buffers_host", buffers_host },
	{ "buffers_soft", buffers_soft },
	{ "life", life },
	{ "children", children },
	{ "forking", forking },
	{ "killed", killed },
	{ "status", status },
	{ "running", running },
	{ "churning", churning },
	{ "executing", executing },
	{ "executed", executed },
	{ "stranger", stranger },
	{ "starting", starting },
	{ "device", traced_device },
	{ "device_faults", traced_device_faults },
	{ "device_prefetched", traced_device_prefetched },
};

int traced_main(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
		if (!strcmp(programs[i].name, name))
			return programs[i].run();
	return 94;
}
