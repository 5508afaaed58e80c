// SPDX-License-Identifier: MIT
/* hetsim: nonsensical calls, and calls at bad addresses. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "lib/kernel_log.h"

/* The longest structure there is, and then some. */
union argument {
	uint32_t size;
	struct hetsim_counters counters;
	unsigned char bytes[2 * PAGE];
};

/* Size of the first version of the call's structure. */
static uint32_t first_size(unsigned int i)
{
	if (hetsim_calls[i].cmd == HETSIM_QUERY)
		return offsetof(struct hetsim_query, opener_system_bytes);
	if (hetsim_calls[i].cmd == HETSIM_COUNTERS)
		return offsetof(struct hetsim_counters, faults_huge);
	if (hetsim_calls[i].cmd == HETSIM_BUFFER_INFO)
		return offsetof(struct hetsim_buffer_info, evictions);
	if (hetsim_calls[i].cmd == HETSIM_BUFFER_MOVE)
		return offsetof(struct hetsim_buffer_move, queue);
	if (hetsim_calls[i].cmd == HETSIM_BIND)
		return offsetof(struct hetsim_bind, queue);
	if (hetsim_calls[i].cmd == HETSIM_UNBIND)
		return offsetof(struct hetsim_unbind, queue);
	if (hetsim_calls[i].cmd == HETSIM_SUBMIT)
		return offsetof(struct hetsim_submit, done);
	if (hetsim_calls[i].cmd == HETSIM_WAIT)
		return offsetof(struct hetsim_wait, fault_reason);
	if (hetsim_calls[i].cmd == HETSIM_MIRROR)
		return offsetof(struct hetsim_mirror, migration_bytes);
	return hetsim_calls[i].size;
}

static void expect(unsigned int i, int r, int expected, const char *what)
{
	if (r != expected)
		test_fail(__FILE__, __LINE__, "%s, %s: %d, not %d", hetsim_calls[i].name, what,
			  r, expected);
}

/* Every call, with structures of every length, and pointers to where none is. */
static void test_structures(void)
{
	union argument arg;
	unsigned char *edge;
	unsigned int i;
	uint32_t size;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int bare = hetsim_open_bare(O_RDWR);

	edge = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_FATAL(edge != MAP_FAILED && munmap(edge + PAGE, PAGE) == 0);
	for (i = 0; i < HETSIM_N_CALLS; i++) {
		for (size = 0; size < first_size(i); size++) {
			memset(&arg, 0, sizeof(arg));
			arg.size = size;
			expect(i, hetsim_call(fd, hetsim_calls[i].cmd, &arg), -EINVAL, "short");
		}
		memset(&arg, 0, sizeof(arg));
		arg.size = hetsim_calls[i].size + 1;
		arg.bytes[hetsim_calls[i].size] = 1;
		expect(i, hetsim_call(fd, hetsim_calls[i].cmd, &arg), -E2BIG, "unknown tail");
		arg.size = PAGE;
		arg.bytes[hetsim_calls[i].size] = 0;
		arg.bytes[PAGE - 1] = 1;
		expect(i, hetsim_call(fd, hetsim_calls[i].cmd, &arg), -E2BIG, "long tail");
		for (size = PAGE + 1; size > PAGE; size = size << 1 | 1) {
			arg.size = size;
			expect(i, hetsim_call(fd, hetsim_calls[i].cmd, &arg), -E2BIG, "long");
			if (size == UINT32_MAX)
				break;
		}
		expect(i, hetsim_call(fd, hetsim_calls[i].cmd, NULL), -EFAULT, "NULL");
		expect(i, hetsim_call(fd, hetsim_calls[i].cmd, (void *)INTPTR_MIN), -EFAULT,
		       "the kernel's");
		expect(i, hetsim_call(fd, hetsim_calls[i].cmd, (void *)-4), -EFAULT,
		       "the last byte");
		memset(&arg, 0, sizeof(arg));
		arg.size = hetsim_calls[i].size;
		memcpy(edge + PAGE - 4, &arg, 4);
		expect(i, hetsim_call(fd, hetsim_calls[i].cmd, edge + PAGE - 4), -EFAULT,
		       "cut");
		if (hetsim_calls[i].cmd != HETSIM_HANDSHAKE)
			expect(i, hetsim_call(bare, hetsim_calls[i].cmd, &arg), -EPROTO,
			       "no handshake");
	}
	munmap(edge, PAGE);
	close(bare);
}

/* A call that is right but for the object it names; -ENOENT where it names none. */
static int call_with_handle(int fd, unsigned int i, uint32_t handle)
{
	union {
		union argument any;
		struct hetsim_buffer_close close_it;
		struct hetsim_buffer_resize resize;
		struct hetsim_buffer_info info;
		struct hetsim_buffer_move move;
		struct hetsim_buffer_sample sample;
		struct hetsim_export export;
		struct hetsim_bind bind;
		struct hetsim_queue_destroy destroy;
		struct hetsim_submit submit;
		struct hetsim_wait wait;
		struct hetsim_fence_fd fence;
		struct hetsim_queue_event event;
		struct hetsim_inject inject;
	} arg;
	struct hetsim_command nothing = { 0 };

	memset(&arg, 0, sizeof(arg));
	arg.any.size = hetsim_calls[i].size;
	switch (hetsim_calls[i].cmd) {
	case HETSIM_BUFFER_CLOSE:
		arg.close_it.handle = handle;
		break;
	case HETSIM_BUFFER_RESIZE:
		arg.resize.handle = handle;
		arg.resize.length = MIB(1);
		break;
	case HETSIM_BUFFER_INFO:
		arg.info.handle = handle;
		break;
	case HETSIM_BUFFER_MOVE:
		arg.move.handle = handle;
		arg.move.length = PAGE;
		arg.move.place = HETSIM_PLACE_SYSTEM;
		break;
	case HETSIM_BUFFER_SAMPLE:
		arg.sample.handle = handle;
		break;
	case HETSIM_EXPORT:
		arg.export.handle = handle;
		break;
	case HETSIM_BIND:
		arg.bind.handle = handle;
		arg.bind.length = PAGE;
		break;
	case HETSIM_QUEUE_DESTROY:
		arg.destroy.queue = handle;
		break;
	case HETSIM_SUBMIT:
		arg.submit.queue = handle;
		arg.submit.commands = (uintptr_t)&nothing;
		arg.submit.n_commands = 1;
		arg.submit.command_size = sizeof(nothing);
		break;
	case HETSIM_WAIT:
		arg.wait.queue = handle;
		arg.wait.seqno = 1;
		break;
	case HETSIM_FENCE_FD:
		arg.fence.queue = handle;
		arg.fence.seqno = 1;
		break;
	case HETSIM_QUEUE_EVENT:
		arg.event.queue = handle;
		arg.event.seqno = 1;
		arg.event.eventfd = -1;
		break;
	case HETSIM_INJECT:
		arg.inject.kind = HETSIM_INJECT_SIGBUS;
		arg.inject.target = handle;
		break;
	default:
		return -ENOENT;
	}
	return hetsim_call(fd, hetsim_calls[i].cmd, &arg);
}

/* Names of another opener, of closed objects, and of none at all. */
static void test_names(void)
{
	struct hetsim_queue_destroy destroy = { .size = sizeof(destroy) };
	uint32_t queue, names[8];
	unsigned int i, k, n = 0;
	unsigned char byte;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int other = hetsim_open(O_RDWR);
	struct hetsim_buffer buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);
	struct hetsim_buffer freed = hetsim_buffer_make(other, MIB(1), HETSIM_PLACE_SYSTEM);

	hetsim_buffer_drop(other, &freed);
	queue = hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, 0);
	destroy.queue = hetsim_queue_make(other, HETSIM_QUEUE_COUNTER, 0);
	CHECK_EQUAL(hetsim_call(other, HETSIM_QUEUE_DESTROY, &destroy), 0);
	names[n++] = buffer.handle;
	names[n++] = freed.handle;
	names[n++] = queue;
	names[n++] = 0;
	names[n++] = 65537;
	names[n++] = INT32_MAX;
	names[n++] = UINT32_MAX;
	for (k = 0; k < n; k++)
		for (i = 0; i < HETSIM_N_CALLS; i++)
			expect(i, call_with_handle(other, i, names[k]), -ENOENT,
			       "no such object");
	for (k = 0; k < n; k++) {
		off_t offset = (off_t)(buffer.offset / buffer.handle * names[k]);

		CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, other, offset) == MAP_FAILED);
		CHECK(pread(other, &byte, 1, offset) == -1);
		CHECK(pwrite(other, &byte, 1, offset) == -1);
	}
	/* The owner's are as they were. */
	CHECK_EQUAL(hetsim_close_handle(other, buffer.handle), -ENOENT);
	buffer.bytes[0] = 1;
	hetsim_buffer_drop(fd, &buffer);
	close(other);
}

/* Numbers at which sums wrap or arrays end. */
static void test_numbers(void)
{
	static const uint64_t bad[] = { 0,
					1,
					PAGE - 1,
					PAGE + 1,
					MIB(1) + PAGE,
					1ull << 31,
					1ull << 32,
					1ull << 47,
					1ull << 48,
					1ull << 52,
					1ull << 63,
					UINT64_MAX & ~(PAGE - 1),
					UINT64_MAX };
	const unsigned int n = sizeof(bad) / sizeof(bad[0]);
	struct hetsim_command nothing[2] = { { 0 }, { 0 } };
	struct hetsim_submit submit = { .size = sizeof(submit) };
	struct hetsim_query before;
	volatile uintptr_t nowhere = 8;
	unsigned int i, k;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int objects;
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);

	submit.queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 0);
	before = hetsim_query(fd);
	objects = hetsim_objects();
	for (i = 0; i < n; i++)
		for (k = 0; k < n; k++) {
			struct hetsim_bind bind = { .size = sizeof(bind),
						    .handle = buffer.handle,
						    .address = 1ull << 30,
						    .offset = bad[i],
						    .length = bad[k] };
			struct hetsim_command fill = { .op = HETSIM_OP_FILL,
						       .destination = bad[i],
						       .length = bad[k] };
			uint64_t seqno = 0, address;
			int status = 0;

			/* Not the lengths that could be had. */
			if (bad[i] != MIB(1) + PAGE && bad[i] < 1ull << 31)
				CHECK(hetsim_call(fd, HETSIM_BUFFER_CREATE,
						  SIZED(hetsim_buffer_create, .length = bad[i],
							.capacity = bad[k])) < 0);
			CHECK(hetsim_call(fd, HETSIM_BIND, &bind) < 0);
			bind.offset = 0;
			bind.address = bad[i];
			CHECK(hetsim_call(fd, HETSIM_BIND, &bind) < 0);
			CHECK(hetsim_call(fd, HETSIM_UNBIND,
					  SIZED(hetsim_unbind, .address = bad[i],
						.length = bad[k])) < 0);
			CHECK(hetsim_call(fd, HETSIM_BUFFER_MOVE,
					  SIZED(hetsim_buffer_move, .handle = buffer.handle,
						.place = HETSIM_PLACE_SYSTEM, .offset = bad[i],
						.length = bad[k])) < 0);
			CHECK(hetsim_call(fd, HETSIM_BUFFER_SAMPLE,
					  SIZED(hetsim_buffer_sample, .handle = buffer.handle,
						.action = HETSIM_SAMPLE_READ, .offset = bad[i],
						.length = bad[k])) < 0);
			if (hetsim_submit(fd, submit.queue, &fill, 1, &seqno) == 0) {
				CHECK_EQUAL(hetsim_wait(fd, submit.queue, seqno, 10000, &status,
							&address),
					    0);
				CHECK_EQUAL(status, -EFAULT);
			}
		}

	submit.commands = (uintptr_t)nothing;
	for (i = 0; i < n; i++) {
		submit.n_commands = 1;
		submit.command_size = (uint32_t)bad[i];
		if (submit.command_size > PAGE)
			CHECK_EQUAL(hetsim_call(fd, HETSIM_SUBMIT, &submit), -E2BIG);
		else if (submit.command_size < sizeof(nothing[0]))
			CHECK_EQUAL(hetsim_call(fd, HETSIM_SUBMIT, &submit), -EINVAL);
		submit.command_size = sizeof(nothing[0]);
		submit.n_commands = (uint32_t)bad[i];
		if (bad[i] != 1)
			CHECK_EQUAL(hetsim_call(fd, HETSIM_SUBMIT, &submit), -EINVAL);
	}
	submit.n_commands = 2;
	submit.commands = nowhere;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_SUBMIT, &submit), -EFAULT);
	submit.commands = UINT64_MAX - 3;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_SUBMIT, &submit), -EFAULT);
	submit.commands = 1ull << 63;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_SUBMIT, &submit), -EFAULT);

	CHECK_EQUAL(hetsim_objects(), objects);
	CHECK_EQUAL(hetsim_query(fd).opener_used, before.opener_used);
	CHECK_EQUAL(buffer.bytes[0], 0);
}

/* Counts that are to go where nothing is. */
static void test_bad_answers(void)
{
	struct hetsim_buffer_sample sample = { .size = sizeof(sample) };
	struct hetsim_queue_event event = { .size = sizeof(event), .seqno = 1 };
	struct hetsim_command nothing = { 0 };
	uint64_t seqno = 0;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);

	sample.handle = buffer.handle;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_SAMPLE, &sample), 0);
	sample.action = HETSIM_SAMPLE_READ;
	sample.length = MIB(1);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_SAMPLE, &sample), -EFAULT);
	sample.counts = UINT64_MAX - 7;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_SAMPLE, &sample), -EFAULT);
	/* Into the very pages that are sampled. */
	sample.counts = (uintptr_t)buffer.bytes;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_SAMPLE, &sample), 0);

	event.queue = hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, 0);
	CHECK_EQUAL(hetsim_submit(fd, event.queue, &nothing, 1, &seqno), 0);
	event.eventfd = -1;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUEUE_EVENT, &event), -EINVAL);
	event.eventfd = fd;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUEUE_EVENT, &event), -EINVAL);
	event.eventfd = eventfd(0, EFD_CLOEXEC);
	event.seqno = 2;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUEUE_EVENT, &event), -ERANGE);
	event.seqno = 0;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUEUE_EVENT, &event), -ERANGE);
	close(event.eventfd);
}

/* The file lives until the call that is under way returns. */
static void test_close_under_wait(void)
{
	struct hetsim_command nothing = { 0 };
	struct hetsim_waiter waiter = { .fd = hetsim_open(O_RDWR), .r = -1, .status = -1 };
	int before;

	if (waiter.fd < 0)
		return;
	before = hetsim_objects();
	waiter.queue = hetsim_queue_make(waiter.fd, HETSIM_QUEUE_DMA_FENCE, 700);
	CHECK_EQUAL(hetsim_inject(waiter.fd, HETSIM_INJECT_STUCK, waiter.queue, 1), 0);
	CHECK_EQUAL(hetsim_submit(waiter.fd, waiter.queue, &nothing, 1, &waiter.seqno), 0);
	hetsim_waiter_start(&waiter);
	close(waiter.fd);
	hetsim_waiter_end(&waiter);
	CHECK_EQUAL(waiter.r, 0);
	CHECK_EQUAL(waiter.status, -ETIMEDOUT);
	CHECK_EQUAL(hetsim_objects(), before < 0 ? before : before - 1);
}

/* ---- names guessed before they are given out ---- */

struct guess {
	int fd;
	_Atomic bool stop;
	unsigned long made, taken;
};

static void *making_queues(void *user)
{
	struct guess *guess = user;

	while (!guess->stop) {
		struct hetsim_queue_create create = { .size = sizeof(create) };

		if (hetsim_call(guess->fd, HETSIM_QUEUE_CREATE, &create) == 0)
			guess->made++;
	}
	return NULL;
}

static void *destroying_queues(void *user)
{
	struct guess *guess = user;
	uint32_t queue = 0;

	while (!guess->stop) {
		struct hetsim_queue_destroy destroy = { .size = sizeof(destroy),
							.queue = ++queue % 16 + 1 };

		if (hetsim_call(guess->fd, HETSIM_QUEUE_DESTROY, &destroy) == 0)
			guess->taken++;
	}
	return NULL;
}

/* The device's number for this open file. */
static unsigned long long client_id(int fd)
{
	unsigned long long id = 0;
	char path[64], line[128];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "re");
	CHECK_FATAL(file != NULL);
	while (fgets(line, sizeof(line), file))
		sscanf(line, "hetsim-client-id: %llu", &id);
	fclose(file);
	CHECK_FATAL(id != 0);
	return id;
}

/* Threads of the engine that are an opener's queues. */
static int engine_threads(unsigned long long id)
{
	struct dirent *entry;
	char path[300], comm[64], name[64];
	DIR *proc = opendir("/proc");
	int n = 0;

	CHECK_FATAL(proc != NULL);
	snprintf(name, sizeof(name), "hetsim0-%llu.", id);
	while ((entry = readdir(proc))) {
		FILE *file;

		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		file = fopen(path, "re");
		if (!file)
			continue;
		if (fgets(comm, sizeof(comm), file) && !strncmp(comm, name, strlen(name)))
			n++;
		fclose(file);
	}
	closedir(proc);
	return n;
}

/* Ended threads are in /proc for a moment more: the count after that. */
static int engine_threads_left(unsigned long long id, int expected)
{
	int i, n = engine_threads(id);

	for (i = 0; i < 500 && n > expected; i++) {
		usleep(10000);
		n = engine_threads(id);
	}
	return n;
}

/* A number is destroyed while QUEUE_CREATE still makes its queue. */
static void test_guessed_queues(void)
{
	struct guess guess = { .fd = hetsim_open(O_RDWR) };
	struct guess makers[3] = { 0 };
	unsigned long made = 0;
	pthread_t threads[4];
	unsigned long long id;
	int i;

	if (guess.fd < 0)
		return;
	id = client_id(guess.fd);
	for (i = 0; i < 3; i++) {
		makers[i].fd = guess.fd;
		CHECK_FATAL(!pthread_create(&threads[i], NULL, making_queues, &makers[i]));
	}
	CHECK_FATAL(!pthread_create(&threads[3], NULL, destroying_queues, &guess));
	usleep(1500000);
	for (i = 0; i < 3; i++) {
		makers[i].stop = true;
		pthread_join(threads[i], NULL);
		made += makers[i].made;
	}
	guess.stop = true;
	pthread_join(threads[3], NULL);
	CHECK(guess.taken > 0);
	made -= guess.taken;
	CHECK_EQUAL(engine_threads_left(id, (int)made), (int)made);
	close(guess.fd);
	CHECK_EQUAL(engine_threads_left(id, 0), 0);
}

static const struct test tests[] = {
	{ "structures", test_structures, 60, 0 },
	{ "names", test_names, 0, 0 },
	{ "numbers", test_numbers, 0, 0 },
	{ "bad_answers", test_bad_answers, 0, 0 },
	{ "close_under_wait", test_close_under_wait, 0, 0 },
	{ "guessed_queues", test_guessed_queues, 0, 0 },
	{ "nothing_said", kernel_log_test, 0, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	kernel_log_begin();
	return harness_main(argc, argv, "hetsim_hostile", tests);
}
