// SPDX-License-Identifier: MIT
/*
 * Another thread of the parent's may be inside an allocator at a fork: the library's code in
 * the child before fork() returns must call none [fork(2), pthread_atfork(3)]. A sanitizer's
 * allocator then spins for ever.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/support.h"

#define SIZE (64 * 1024)

static volatile bool in_handlers; /* a child's, from the first to the last */
static volatile int n_calls;      /* calls of the allocator there */

#if TEST_ASAN || TEST_TSAN

/* Sanitizers have allocators of their own; and may spin, as said. */
#define COUNTS 0

#else

#define COUNTS 1

/* The C library's own names for them, for programs that have theirs in between. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void __libc_free(void *memory);

static void count(void)
{
	if (in_handlers)
		n_calls++;
}

void *malloc(size_t size)
{
	count();
	return __libc_malloc(size);
}

void *calloc(size_t number, size_t size)
{
	count();
	return __libc_calloc(number, size);
}

void *realloc(void *memory, size_t size)
{
	count();
	return __libc_realloc(memory, size);
}

void free(void *memory)
{
	if (memory)
		count();
	__libc_free(memory);
}

#endif

static void first(void)
{
	in_handlers = true;
}

static void last(void)
{
	in_handlers = false;
}

/*
 * Objects that each part of the library keeps for a process: maps published, traced and shared,
 * a shadow, the handler, and a thread that releases.
 */
static void handlers(void)
{
	struct hm_device *devices[2] = { NULL, NULL }, *mine;
	struct hm_map *maps[2] = { NULL, NULL };
	struct hm_buffer *buffers[2];
	static const char *const names[] = { "host", "soft:0" };
	int status, ends[2], i;
	pid_t pid;

	if (!COUNTS)
		test_skip("sanitizer", "a sanitizer has an allocator of its own");
	in_handlers = false; /* this is a child itself, of the harness's */
	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
	for (i = 0; i < 2; i++) {
		CHECK_OK_FATAL(hm_device_open(names[i], &devices[i]));
		buffers[i] = rig_buffer(devices[i], DESC(hm_buffer_desc, .size = SIZE));
		CHECK_OK_FATAL(hm_map_create(buffers[i], NULL, &maps[i]));
	}
	CHECK_OK_FATAL(hm_buffer_send(buffers[0], ends[0], 0));
	CHECK_OK_FATAL(
		hm_buffer_set_loss(buffers[1], DESC(hm_loss_desc, .policy = HM_LOSS_SHADOW)));
	AUTO(rig_handler) handler = rig_handler(0);
	CHECK_OK_FATAL(hm_retire_set(DESC(hm_retire_desc, .flags = HM_RETIRE_DEFER)));
	CHECK_FATAL(!pthread_atfork(NULL, NULL, last));
	n_calls = 0;
	pid = fork();
	if (!pid) {
		/* The parent's objects are freed at the first open, which works. */
		if (n_calls || hm_device_open("host", &mine))
			_exit(1 + n_calls);
		hm_device_unref(mine);
		_exit(0);
	}
	CHECK_FATAL(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(status, 0);
	close(ends[0]);
	close(ends[1]);
	for (i = 0; i < 2; i++) {
		hm_map_unref(maps[i]);
		hm_buffer_unref(buffers[i]);
		hm_device_unref(devices[i]);
	}
	CHECK_OK(hm_retire_set(NULL));
}

static const struct test tests[] = {
	{ "handlers", handlers, 0, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	/* Child handlers run in the order of their registration: before the library's. */
	if (pthread_atfork(NULL, NULL, first))
		return 1;
	/* Traced, too: to nowhere. */
	if (setenv("HETMAP_TRACE", "/dev/null", 1))
		return 1;
	return harness_main(argc, argv, "fork_allocator", tests);
}
