// SPDX-License-Identifier: MIT
/* hetsim: processes that are killed in the middle of whatever they do, and leave nothing. */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/sim_tests.h"
#include "sim/vgem_support.h"

#define LENGTH MIB(8)
#define ROUNDS 3

static void doing_wait(int fd, struct hetsim_buffer *buffer)
{
	uint32_t queue = hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, 60000);
	struct hetsim_command command = { .op = HETSIM_OP_FILL,
					  .destination = 1ull << 40,
					  .length = PAGE };
	uint64_t seqno, address;
	int status;

	(void)buffer;
	hetsim_submit(fd, queue, &command, 1, &seqno); /* waits for a binding */
	hetsim_wait(fd, queue, seqno, 60000, &status, &address);
}

static void doing_faults(int fd, struct hetsim_buffer *buffer)
{
	uint64_t i;

	for (;;) {
		hetsim_call(fd, HETSIM_BUFFER_SAMPLE,
			    SIZED(hetsim_buffer_sample,
				  .handle = buffer->handle)); /* and so unmaps all */
		for (i = 0; i < buffer->length; i += PAGE)
			buffer->bytes[i]++;
	}
}

static void doing_submits(int fd, struct hetsim_buffer *buffer)
{
	uint32_t queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 0), i;
	static struct hetsim_command commands[256];
	uint64_t seqno;

	hetsim_bind(fd, buffer, HETSIM_BIND_WRITE);
	for (i = 0; i < 256; i++)
		commands[i] = (struct hetsim_command){ .op = HETSIM_OP_FILL,
						       .destination = (uintptr_t)buffer->bytes,
						       .length = MIB(1) };
	for (;;)
		hetsim_submit(fd, queue, commands, 256, &seqno);
}

static void doing_creates(int fd, struct hetsim_buffer *buffer)
{
	struct hetsim_buffer_create create = { .size = sizeof(create), .length = MIB(48) };

	(void)buffer;
	for (;;)
		if (hetsim_call(fd, HETSIM_BUFFER_CREATE, &create) == 0)
			hetsim_close_handle(fd, create.handle);
}

static void doing_moves(int fd, struct hetsim_buffer *buffer)
{
	struct hetsim_buffer_move move = { .size = sizeof(move),
					   .handle = buffer->handle,
					   .length = buffer->length };

	hetsim_bind(fd, buffer, HETSIM_BIND_WRITE);
	for (;;) {
		move.place ^= 1;
		hetsim_call(fd, HETSIM_BUFFER_MOVE, &move);
	}
}

static void doing_binds(int fd, struct hetsim_buffer *buffer)
{
	for (;;) {
		hetsim_bind(fd, buffer, HETSIM_BIND_WRITE);
		hetsim_unbind(fd, buffer);
	}
}

static void doing_copies(int fd, struct hetsim_buffer *buffer)
{
	static unsigned char bytes[LENGTH];

	for (;;) {
		(void)!pwrite(fd, bytes, sizeof(bytes), (off_t)buffer->offset);
		(void)!pread(fd, bytes, sizeof(bytes), (off_t)buffer->offset);
	}
}

static void doing_resizes(int fd, struct hetsim_buffer *buffer)
{
	struct hetsim_buffer_resize resize = { .size = sizeof(resize),
					       .handle = buffer->handle };

	for (;;) {
		resize.length = resize.length == MIB(1) ? MIB(32) : MIB(1);
		hetsim_call(fd, HETSIM_BUFFER_RESIZE, &resize);
	}
}

/* Its dma-buf, which another device has mapped, and another device's. */
static void doing_shares(int fd, struct hetsim_buffer *buffer)
{
	int vgem = vgem_open(), theirs = vgem < 0 ? -1 : vgem_make(vgem, MIB(1), DRM_RDWR);
	struct drm_prime_handle prime = { 0 };
	struct hetsim_import import;

	for (;;) {
		prime.fd = hetsim_export(fd, buffer->handle, HETSIM_EXPORT_WRITE);
		ioctl(vgem, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime);
		if (!hetsim_import(fd, theirs, &import))
			hetsim_close_handle(fd, import.handle);
		close(prime.fd);
		ioctl(vgem, DRM_IOCTL_GEM_CLOSE,
		      &(struct drm_gem_close){ .handle = prime.handle });
	}
}

/* Whole, and in parts. */
static void doing_maps(int fd, struct hetsim_buffer *buffer)
{
	unsigned char *bytes;

	for (;;) {
		if (hetsim_mmap(fd, LENGTH, PROT_READ | PROT_WRITE, buffer->offset, &bytes))
			continue;
		bytes[0]++;
		munmap(bytes + MIB(1), PAGE);
		bytes[LENGTH - 1]++;
		munmap(bytes, LENGTH);
	}
}

static void doing_samples(int fd, struct hetsim_buffer *buffer)
{
	static uint32_t counts[LENGTH / PAGE];
	struct hetsim_buffer_sample sample = { .size = sizeof(sample),
					       .handle = buffer->handle,
					       .action = HETSIM_SAMPLE_START };
	uint64_t i;

	hetsim_call(fd, HETSIM_BUFFER_SAMPLE, &sample);
	sample.action = HETSIM_SAMPLE_READ;
	sample.length = LENGTH;
	sample.counts = (uintptr_t)counts;
	for (;;) {
		for (i = 0; i < LENGTH; i += 64 * PAGE)
			buffer->bytes[i]++;
		hetsim_call(fd, HETSIM_BUFFER_SAMPLE, &sample);
	}
}

static void doing_queues(int fd, struct hetsim_buffer *buffer)
{
	struct hetsim_queue_create create = { .size = sizeof(create) };
	struct hetsim_queue_destroy destroy = { .size = sizeof(destroy) };

	(void)buffer;
	for (;;) {
		if (hetsim_call(fd, HETSIM_QUEUE_CREATE, &create))
			continue;
		destroy.queue = create.queue;
		hetsim_call(fd, HETSIM_QUEUE_DESTROY, &destroy);
	}
}

/* Polls the fence of work that hangs for a minute. */
static void doing_poll(int fd, struct hetsim_buffer *buffer)
{
	struct hetsim_fence_fd fence = { .size = sizeof(fence) };
	struct hetsim_command nothing = { 0 };
	uint64_t seqno = 0;

	(void)buffer;
	fence.queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, HETSIM_MAX_TIMEOUT_MS);
	hetsim_inject(fd, HETSIM_INJECT_STUCK, fence.queue, 1);
	hetsim_submit(fd, fence.queue, &nothing, 1, &seqno);
	fence.seqno = seqno;
	if (!hetsim_call(fd, HETSIM_FENCE_FD, &fence))
		poll(&(struct pollfd){ .fd = fence.fd, .events = POLLIN }, 1, -1);
}

/* Objects go when the last thread's exit has closed the file: soon, not at once. */
static int objects_soon(int expected)
{
	int i, n = 0;

	for (i = 0; i < 100; i++) {
		n = hetsim_objects();
		if (n == expected)
			break;
		usleep(100000);
	}
	return n;
}

/* In the middle of its work, after up to a tenth of a second of it. */
static void kill_soon(pid_t child, uint64_t *state)
{
	int status = 0;

	usleep(30000 + test_random(state) % 100000);
	CHECK_EQUAL(kill(child, SIGKILL), 0);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status));
}

static void test_killed(void)
{
	static void (*const doing[])(int fd, struct hetsim_buffer *buffer) = {
		doing_wait,    doing_faults, doing_submits, doing_creates, doing_moves,
		doing_binds,   doing_copies, doing_resizes, doing_shares,  doing_maps,
		doing_samples, doing_queues, doing_poll,
	};
	uint64_t state = test_seed();
	struct hetsim_buffer buffer;
	int fd = hetsim_begin(O_RDWR);
	unsigned int i;
	pid_t child;
	int before = hetsim_objects();

	for (i = 0; i < ROUNDS * sizeof(doing) / sizeof(doing[0]); i++) {
		child = fork();
		CHECK_FATAL(child >= 0);
		if (child == 0) {
			fd = hetsim_open(O_RDWR);
			buffer = hetsim_buffer_make(fd, LENGTH, HETSIM_PLACE_SYSTEM);
			doing[i / ROUNDS](fd, &buffer);
			_exit(1);
		}
		kill_soon(child, &state);
	}
	CHECK_EQUAL(objects_soon(before), before);
	CHECK_EQUAL(hetsim_query(fd).opener_used, 0);
	buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);
	buffer.bytes[0] = 1;
	hetsim_buffer_drop(fd, &buffer);
	close(fd);
}

/* Makes room in VRAM out of another opener's buffer, and the other way round. */
static void evict(int fd, const struct hetsim_buffer *others)
{
	uint64_t length = hetsim_query(fd).vram_bytes / 2;
	struct hetsim_buffer mine = { 0 };
	int own = hetsim_open(O_RDWR);

	CHECK_FATAL(!hetsim_buffer_create(own, length, HETSIM_PLACE_VRAM, 0, &mine));
	for (;;) {
		hetsim_buffer_move(fd, others->handle, 0, others->length, HETSIM_PLACE_VRAM);
		hetsim_buffer_move(own, mine.handle, 0, length, HETSIM_PLACE_VRAM);
	}
}

/* A process that is killed while it evicts pages of others loses none of them. */
static void test_evicting(void)
{
	uint64_t state = test_seed(), evictions, i;
	struct hetsim_buffer buffer;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int before, round;
	pid_t child;

	buffer = hetsim_buffer_make(fd, hetsim_query(fd).vram_bytes / 4 * 3, HETSIM_PLACE_VRAM);
	for (i = 0; i < buffer.length; i += PAGE)
		*(uint64_t *)(buffer.bytes + i) = i;
	before = hetsim_objects();
	for (round = 0; round < ROUNDS; round++) {
		evictions = hetsim_buffer_info(fd, buffer.handle).evictions;
		child = fork();
		CHECK_FATAL(child >= 0);
		if (child == 0)
			evict(fd, &buffer);
		while (hetsim_buffer_info(fd, buffer.handle).evictions == evictions)
			usleep(1000);
		kill_soon(child, &state);
		CHECK_EQUAL(objects_soon(before), before);
		for (i = 0; i < buffer.length; i += PAGE)
			if (*(uint64_t *)(buffer.bytes + i) != i)
				break;
		CHECK_EQUAL(i, buffer.length);
	}
	CHECK_EQUAL(hetsim_query(fd).vram_used + hetsim_query(fd).system_used, buffer.length);
	hetsim_buffer_drop(fd, &buffer);
}

/* Takes the device away, and has each touch of its maps make a page of zeros. */
static void touch_lost(void)
{
	static unsigned char *maps[64];
	int fd = hetsim_open_zero();
	uint64_t at;
	size_t i;
	struct hetsim_buffer buffer = hetsim_buffer_make(fd, LENGTH, HETSIM_PLACE_SYSTEM);

	for (i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
		CHECK_FATAL(!hetsim_mmap(fd, LENGTH, PROT_READ | PROT_WRITE, buffer.offset,
					 &maps[i]));
	hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0);
	for (i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
		for (at = 0; at < LENGTH; at += PAGE)
			maps[i][at]++;
		munmap(maps[i], LENGTH);
	}
	pause();
}

/* Nothing is left of devices that were taken away. */
static bool lost_gone(void)
{
	bool gone = false;
	glob_t lists;
	int i;

	for (i = 0; i < 100 && !gone; i++) {
		gone = glob("/sys/kernel/debug/hetsim/hetsim0.lost*", 0, NULL, &lists) ==
		       GLOB_NOMATCH;
		if (gone)
			break;
		globfree(&lists);
		usleep(100000);
	}
	return gone;
}

static void test_touching_lost(void)
{
	struct hetsim_query query = { .size = sizeof(query) };
	uint64_t state = test_seed();
	int fd = hetsim_begin(O_RDWR);
	int round;
	pid_t child;

	TEST_NEEDS(hetsim_may_unplug(fd));
	for (round = 0; round < ROUNDS; round++) {
		child = fork();
		CHECK_FATAL(child >= 0);
		if (child == 0) {
			touch_lost();
			_exit(1);
		}
		while (hetsim_call(fd, HETSIM_QUERY, &query) != -ENODEV)
			usleep(1000);
		close(fd);
		kill_soon(child, &state);
		CHECK(lost_gone());
		hetsim_plug();
		CHECK_EQUAL(objects_soon(0), 0);
		fd = hetsim_open(O_RDWR);
		CHECK_FATAL(fd >= 0);
	}
	close(fd);
}

static const struct test tests[] = {
	{ "killed", test_killed, 90, 0 },
	{ "evicting", test_evicting, 60, SIM_REACHED | SIM_SMALL },
	{ "touching_lost", test_touching_lost, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(hetsim_main, "hetsim_killed", tests, NULL)
