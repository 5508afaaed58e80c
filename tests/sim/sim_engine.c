// SPDX-License-Identifier: MIT
/*
 * The simulated device, be it the module or its twin: the device's address space,
 * queues and commands, fences, time limits.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "lib/rig.h"
#include "sim/sim_tests.h"

#define NO_ADDRESS 0x123450000ull

static uint64_t at(const void *pointer)
{
	return (uintptr_t)pointer;
}

struct bench {
	int fd;
	uint32_t queue;
	uint64_t align;   /* of addresses and lengths */
	uint64_t segment; /* longest range of a command */
	struct hetsim_buffer a, b, c;
};

/* Three bound buffers and a queue. */
static struct bench bench_open(uint32_t type, uint64_t length)
{
	struct bench bench = { 0 };
	size_t i;

	bench.fd = hetsim_begin(O_RDWR);
	bench.align = hetsim_query(bench.fd).dma_align;
	bench.segment = hetsim_query(bench.fd).max_segment;
	if (bench.segment > length)
		bench.segment = length;
	bench.a = hetsim_buffer_make(bench.fd, length, HETSIM_PLACE_VRAM);
	bench.b = hetsim_buffer_make(bench.fd, length, HETSIM_PLACE_SYSTEM);
	bench.c = hetsim_buffer_make(bench.fd, length, HETSIM_PLACE_VRAM);
	CHECK_EQUAL(hetsim_bind(bench.fd, &bench.a, HETSIM_BIND_WRITE), 0);
	CHECK_EQUAL(hetsim_bind(bench.fd, &bench.b, 0), 0);
	CHECK_EQUAL(hetsim_bind(bench.fd, &bench.c, HETSIM_BIND_WRITE), 0);
	for (i = 0; i < length; i++) {
		bench.a.bytes[i] = (unsigned char)(i * 13 >> 3);
		bench.b.bytes[i] = (unsigned char)(i * 7 + (i >> 9));
	}
	/* Not the 2 s of default: a busy machine takes as long over long work. */
	bench.queue = hetsim_queue_make(bench.fd, type, HETSIM_MAX_TIMEOUT_MS);
	return bench;
}

static void bench_close(struct bench *bench)
{
	hetsim_buffer_drop(bench->fd, &bench->a);
	hetsim_buffer_drop(bench->fd, &bench->b);
	hetsim_buffer_drop(bench->fd, &bench->c);
	hetsim_close(bench->fd);
}

AUTO_END(bench, bench_close)

static uint32_t crc32_of(const unsigned char *bytes, size_t n)
{
	uint32_t crc = ~0u;
	size_t i;
	int bit;

	for (i = 0; i < n; i++)
		for (crc ^= bytes[i], bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	return ~crc;
}

static void test_commands(void)
{
	struct hetsim_command command = { 0 };
	struct hetsim_counters counters;
	uint32_t *a, *b, *c, expected, counts[256] = { 0 };
	size_t n = MIB(1) / 4, i, edge;
	uint64_t first;
	uint32_t op;
	AUTO(bench) bench = bench_open(HETSIM_QUEUE_DMA_FENCE, MIB(1));

	a = (uint32_t *)bench.a.bytes;
	b = (uint32_t *)bench.b.bytes;
	c = (uint32_t *)bench.c.bytes;
	CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &command), 0);

	command = (struct hetsim_command){ .op = HETSIM_OP_FILL,
					   .destination = at(c) + bench.align,
					   .length = MIB(1) - 2 * bench.align,
					   .value = 0xdeadbeef };
	CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &command), 0);
	edge = bench.align / 4;
	CHECK(c[edge - 1] == 0 && c[edge] == 0xdeadbeef && c[n - edge - 1] == 0xdeadbeef &&
	      c[n - edge] == 0);

	for (op = HETSIM_OP_COPY; op <= HETSIM_OP_AXPY; op++) {
		command = (struct hetsim_command){
			.op = op,
			.destination = at(c),
			.source = at(a),
			.source2 = op == HETSIM_OP_ADD || op == HETSIM_OP_XOR ? at(b) : 0,
			.length = MIB(1),
			.value = op >= HETSIM_OP_SCALE ? 77777 : 0,
		};
		for (i = 0; i < n; i++)
			c[i] = (uint32_t)i;
		CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &command), 0);
		for (i = 0; i < n; i++) {
			expected = op == HETSIM_OP_COPY  ? a[i] :
				   op == HETSIM_OP_ADD   ? a[i] + b[i] :
				   op == HETSIM_OP_XOR   ? (a[i] ^ b[i]) :
				   op == HETSIM_OP_SCALE ? a[i] * 77777u :
							   (uint32_t)i + a[i] * 77777u;
			if (c[i] != expected)
				break;
		}
		CHECK_EQUAL(i, n);
	}

	/* Results that lie across the end of a page. */
	command = (struct hetsim_command){ .op = HETSIM_OP_HISTOGRAM,
					   .destination = at(c) + 4096 - 512,
					   .source = at(a) + 64,
					   .length = 64 * 1563 };
	CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &command), 0);
	for (i = 0; i < 64 * 1563; i++)
		counts[bench.a.bytes[64 + i]]++;
	CHECK(memcmp(bench.c.bytes + 4096 - 512, counts, sizeof(counts)) == 0);

	command.op = HETSIM_OP_CRC32;
	CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &command), 0);
	CHECK_EQUAL(c[(4096 - 512) / 4], crc32_of(bench.a.bytes + 64, 64 * 1563));

	memcpy(bench.c.bytes + 8192, bench.b.bytes, 64 * 4687);
	command = (struct hetsim_command){ .op = HETSIM_OP_COMPARE,
					   .destination = at(c) + 4096 - bench.align,
					   .source = at(c) + 8192,
					   .source2 = at(b),
					   .length = 64 * 4687 };
	CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &command), 0);
	memcpy(&first, bench.c.bytes + 4096 - bench.align, sizeof(first));
	CHECK_EQUAL(first, UINT64_MAX);
	bench.c.bytes[8192 + 234567] ^= 1;
	CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &command), 0);
	memcpy(&first, bench.c.bytes + 4096 - bench.align, sizeof(first));
	CHECK_EQUAL(first, 234567);

	counters = hetsim_counters(bench.fd, HETSIM_SCOPE_OPENER);
	CHECK_EQUAL(counters.submissions, counters.commands);
	CHECK(counters.tlb_hits > 0 && counters.tlb_misses > 0);
	CHECK(counters.bytes_engine > MIB(10));
	CHECK_EQUAL(counters.device_faults, 0);
	CHECK_EQUAL(counters.resets, 0);
}

static int submit_bad(struct bench *bench, struct hetsim_command command)
{
	uint64_t seqno;

	return hetsim_submit(bench->fd, bench->queue, &command, 1, &seqno);
}

/* Commands that are refused before they are queued. */
static void test_bad_commands(void)
{
	struct hetsim_command good, bad;
	struct hetsim_submit submit = { .size = sizeof(submit) };
	AUTO(bench) bench = bench_open(HETSIM_QUEUE_DMA_FENCE, MIB(1));

	good = (struct hetsim_command){ .op = HETSIM_OP_COPY,
					.destination = at(bench.c.bytes),
					.source = at(bench.a.bytes),
					.length = 4096 };
	CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &good), 0);
	bad = good, bad.op = 1000;
	CHECK_EQUAL(submit_bad(&bench, bad), -EINVAL);
	bad = good, bad.flags = 1;
	CHECK_EQUAL(submit_bad(&bench, bad), -EINVAL);
	bad = good, bad.length = 0;
	CHECK_EQUAL(submit_bad(&bench, bad), -EINVAL);
	bad = good, bad.length = UINT64_MAX;
	CHECK_EQUAL(submit_bad(&bench, bad), -EINVAL);
	bad = good, bad.length = 4097;
	CHECK_EQUAL(submit_bad(&bench, bad), -EINVAL);
	bad = good, bad.source += 1;
	CHECK_EQUAL(submit_bad(&bench, bad), -EINVAL);
	bad = good, bad.source2 = 4096;
	CHECK_EQUAL(submit_bad(&bench, bad), -EINVAL);
	bad = good, bad.value = 1;
	CHECK_EQUAL(submit_bad(&bench, bad), -EINVAL);
	bad = good, bad.destination = bad.source + 64;
	CHECK_EQUAL(submit_bad(&bench, bad), -EINVAL);
	bad = good, bad.destination = UINT64_MAX - 4095 + 64;
	CHECK_EQUAL(submit_bad(&bench, bad), -EOVERFLOW);

	/* As long as one command may be, and longer. */
	bad = (struct hetsim_command){ .op = HETSIM_OP_FILL,
				       .destination = NO_ADDRESS & ~4095ull,
				       .length = hetsim_query(bench.fd).max_segment };
	CHECK_EQUAL(submit_bad(&bench, bad), 0);
	bad.length += bench.align;
	CHECK_EQUAL(submit_bad(&bench, bad), -EINVAL);

	submit.queue = bench.queue;
	submit.command_size = sizeof(good);
	submit.commands = at(&good);
	CHECK_EQUAL(hetsim_call(bench.fd, HETSIM_SUBMIT, &submit), -EINVAL);
	submit.n_commands = UINT32_MAX;
	CHECK_EQUAL(hetsim_call(bench.fd, HETSIM_SUBMIT, &submit), -EINVAL);
	submit.n_commands = 1;
	submit.command_size = 8;
	CHECK_EQUAL(hetsim_call(bench.fd, HETSIM_SUBMIT, &submit), -EINVAL);
	submit.command_size = sizeof(good);
	submit.commands = 64;
	CHECK_EQUAL(hetsim_call(bench.fd, HETSIM_SUBMIT, &submit), -EFAULT);
	submit.commands = UINT64_MAX - 10;
	CHECK_EQUAL(hetsim_call(bench.fd, HETSIM_SUBMIT, &submit), -EFAULT);
	submit.commands = at(&good);
	submit.queue = 12345;
	CHECK_EQUAL(hetsim_call(bench.fd, HETSIM_SUBMIT, &submit), -ENOENT);
}

static void test_bind(void)
{
	struct hetsim_bind bind = { .size = sizeof(bind) };
	struct hetsim_unbind unbind = { .size = sizeof(unbind) };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, MIB(4), HETSIM_PLACE_VRAM);

	bind.handle = buffer.handle;
	bind.length = MIB(1);
	bind.address = MIB(512);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BIND, &bind), 0);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BIND, &bind), -EEXIST);
	bind.address += MIB(1) - 4096;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BIND, &bind), -EEXIST);
	bind.address += 4096;
	bind.offset = MIB(3);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BIND, &bind), 0);

	bind.address = MIB(2048);
	bind.offset = MIB(3) + 4096;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BIND, &bind), -ERANGE);
	bind.offset = UINT64_MAX & ~4095ull;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BIND, &bind), -EOVERFLOW);
	bind.offset = 17;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BIND, &bind), -EINVAL);
	bind.offset = 0;
	bind.length = 0;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BIND, &bind), -EINVAL);
	bind.length = MIB(1);
	bind.address = (1ull << 48) - 4096;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BIND, &bind), -ERANGE);
	bind.address = UINT64_MAX & ~4095ull;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BIND, &bind), -EOVERFLOW);
	bind.address = (1ull << 48) - MIB(1);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BIND, &bind), 0);
	bind.address = 0;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BIND, &bind), 0);
	bind.source = HETSIM_SOURCE_PROCESS_RANGE;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BIND, &bind), -EOPNOTSUPP);
	bind.source = 2;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BIND, &bind), -EINVAL);
	bind.source = 0;
	bind.flags = 2;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BIND, &bind), -EINVAL);
	bind.flags = 0;
	bind.handle = 999;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BIND, &bind), -ENOENT);

	unbind.address = MIB(512);
	unbind.length = MIB(1) + 4096;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_UNBIND, &unbind), -ERANGE);
	unbind.length = 4096;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_UNBIND, &unbind), -ERANGE);
	unbind.length = MIB(2);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_UNBIND, &unbind), 0);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_UNBIND, &unbind), -ENOENT);
	unbind.address = 0;
	unbind.length = 1ull << 48;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_UNBIND, &unbind), 0);
}

static void test_device_faults(void)
{
	struct hetsim_command command;
	struct hetsim_buffer_resize resize = { .size = sizeof(resize) };
	uint64_t seqno = 0, address = 0;
	int status = 0;
	AUTO(bench) bench = bench_open(HETSIM_QUEUE_DMA_FENCE, MIB(1));

	/* Not bound; bound for reading; behind the end; unbound again; cut off. */
	command = (struct hetsim_command){ .op = HETSIM_OP_FILL,
					   .destination = NO_ADDRESS,
					   .length = 64 };
	CHECK_EQUAL(hetsim_submit(bench.fd, bench.queue, &command, 1, &seqno), 0);
	CHECK_EQUAL(hetsim_wait(bench.fd, bench.queue, seqno, 60000, &status, &address), 0);
	CHECK_EQUAL(status, -EFAULT);
	CHECK_EQUAL(address, NO_ADDRESS);

	command.destination = at(bench.b.bytes) + 8192;
	CHECK_EQUAL(hetsim_submit(bench.fd, bench.queue, &command, 1, &seqno), 0);
	CHECK_EQUAL(hetsim_wait(bench.fd, bench.queue, seqno, 60000, &status, &address), 0);
	CHECK_EQUAL(status, -EFAULT);
	CHECK_EQUAL(address, at(bench.b.bytes) + 8192);

	command.destination = UINT64_MAX - 8191;
	CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &command), -EFAULT);

	command.destination = at(bench.c.bytes);
	command.length = MIB(1);
	CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &command), 0);
	resize.handle = bench.c.handle;
	resize.length = MIB(1) / 2;
	CHECK_EQUAL(hetsim_call(bench.fd, HETSIM_BUFFER_RESIZE, &resize), 0);
	CHECK_EQUAL(hetsim_submit(bench.fd, bench.queue, &command, 1, &seqno), 0);
	CHECK_EQUAL(hetsim_wait(bench.fd, bench.queue, seqno, 60000, &status, &address), 0);
	CHECK_EQUAL(status, -EFAULT);
	CHECK_EQUAL(address, at(bench.c.bytes) + MIB(1) / 2);
	resize.length = MIB(1);
	CHECK_EQUAL(hetsim_call(bench.fd, HETSIM_BUFFER_RESIZE, &resize), 0);
	CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &command), 0);

	CHECK_EQUAL(hetsim_unbind(bench.fd, &bench.c), 0);
	CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &command), -EFAULT);
	CHECK_EQUAL(hetsim_counters(bench.fd, HETSIM_SCOPE_OPENER).device_faults, 5);
}

/* A page that the engine has just used is looked up again once it is bound otherwise. */
static void test_translated_before(void)
{
	struct hetsim_bind bind = { .size = sizeof(bind), .flags = HETSIM_BIND_WRITE };
	struct hetsim_command command = { .op = HETSIM_OP_FILL,
					  .length = 64,
					  .value = 0x05050505 };
	AUTO(bench) bench = bench_open(HETSIM_QUEUE_DMA_FENCE, MIB(1));

	bench.a.bytes[0] = 1;
	command.destination = at(bench.c.bytes);
	CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &command), 0);
	CHECK_EQUAL(bench.c.bytes[0], 5);
	bench.c.bytes[0] = 2;

	/* Nothing there; other bytes; for reading only. */
	CHECK_EQUAL(hetsim_unbind(bench.fd, &bench.c), 0);
	CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &command), -EFAULT);
	bind.handle = bench.a.handle;
	bind.address = at(bench.c.bytes);
	bind.length = bench.c.length;
	CHECK_EQUAL(hetsim_call(bench.fd, HETSIM_BIND, &bind), 0);
	CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &command), 0);
	CHECK_EQUAL(bench.a.bytes[0], 5);
	CHECK_EQUAL(bench.c.bytes[0], 2);
	CHECK_EQUAL(hetsim_unbind(bench.fd, &bench.c), 0);
	CHECK_EQUAL(hetsim_bind(bench.fd, &bench.c, 0), 0);
	CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &command), -EFAULT);
	CHECK_EQUAL(bench.c.bytes[0], 2);
	/* And cut off. */
	CHECK_EQUAL(hetsim_unbind(bench.fd, &bench.c), 0);
	CHECK_EQUAL(hetsim_bind(bench.fd, &bench.c, HETSIM_BIND_WRITE), 0);
	command.destination = at(bench.c.bytes) + MIB(1) / 2;
	CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &command), 0);
	CHECK_EQUAL(hetsim_buffer_resize(bench.fd, bench.c.handle, MIB(1) / 2), 0);
	CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &command), -EFAULT);
}

/* One queue that gets no further holds up no other. */
static void test_parallel(void)
{
	struct hetsim_command missing = { .op = HETSIM_OP_FILL, .length = 64, .value = 1 };
	struct hetsim_command fill = missing;
	uint64_t seqno = 0, address = 0;
	uint32_t slow, quick, i;
	int status = 0;
	AUTO(bench) bench = bench_open(HETSIM_QUEUE_DMA_FENCE, MIB(1));

	slow = hetsim_queue_make(bench.fd, HETSIM_QUEUE_COUNTER, 60000);
	quick = hetsim_queue_make(bench.fd, HETSIM_QUEUE_COUNTER, 0);
	CHECK_EQUAL(hetsim_unbind(bench.fd, &bench.a), 0);
	missing.destination = at(bench.a.bytes);
	fill.destination = at(bench.c.bytes);
	CHECK_EQUAL(hetsim_submit(bench.fd, slow, &missing, 1, &seqno), 0);
	CHECK_EQUAL(hetsim_wait(bench.fd, slow, seqno, 50, &status, &address), -ETIME);
	for (i = 0; i < 10; i++) {
		CHECK_EQUAL(hetsim_run(bench.fd, quick, &fill), 0);
		CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &fill), 0);
	}
	CHECK_EQUAL(hetsim_wait(bench.fd, slow, seqno, 0, &status, &address), -ETIME);
	CHECK_EQUAL(hetsim_bind(bench.fd, &bench.a, HETSIM_BIND_WRITE), 0);
	CHECK_EQUAL(hetsim_wait(bench.fd, slow, seqno, 60000, &status, &address), 0);
	CHECK_EQUAL(status, 0);
}

/* A queue of the other type waits for missing pages. */
static void test_recoverable(void)
{
	struct hetsim_command command = { .op = HETSIM_OP_FILL, .length = MIB(1), .value = 3 };
	struct hetsim_fence_fd fence = { .size = sizeof(fence) };
	uint64_t seqno = 0, address = 0;
	uint32_t quick;
	int status = 0;
	AUTO(bench) bench = bench_open(HETSIM_QUEUE_COUNTER, MIB(1));

	command.destination = at(bench.c.bytes);
	CHECK_EQUAL(hetsim_unbind(bench.fd, &bench.c), 0);
	CHECK_EQUAL(hetsim_submit(bench.fd, bench.queue, &command, 1, &seqno), 0);
	CHECK_EQUAL(hetsim_wait(bench.fd, bench.queue, seqno, 50, &status, &address), -ETIME);
	CHECK_EQUAL(hetsim_bind(bench.fd, &bench.c, HETSIM_BIND_WRITE), 0);
	CHECK_EQUAL(hetsim_wait(bench.fd, bench.queue, seqno, 60000, &status, &address), 0);
	CHECK_EQUAL(status, 0);
	CHECK_EQUAL(bench.c.bytes[MIB(1) - 4], 3);

	fence.queue = bench.queue;
	fence.seqno = seqno;
	CHECK_EQUAL(hetsim_call(bench.fd, HETSIM_FENCE_FD, &fence), -EOPNOTSUPP);

	quick = hetsim_queue_make(bench.fd, HETSIM_QUEUE_COUNTER, 100);
	command.destination = NO_ADDRESS;
	CHECK_EQUAL(hetsim_run(bench.fd, quick, &command), -EFAULT);
}

static void test_timeout(void)
{
	struct hetsim_fence_fd fence = { .size = sizeof(fence) };
	struct hetsim_command commands[256];
	uint64_t seqno = 0, address = 0;
	uint32_t quick, i;
	int status = 0;
	AUTO(bench) bench = bench_open(HETSIM_QUEUE_DMA_FENCE, MIB(16));

	for (i = 0; i < 256; i++)
		commands[i] = (struct hetsim_command){ .op = HETSIM_OP_CRC32,
						       .destination = at(bench.c.bytes),
						       .source = at(bench.a.bytes),
						       .length = bench.segment };
	quick = hetsim_queue_make(bench.fd, HETSIM_QUEUE_DMA_FENCE, 20);
	CHECK_EQUAL(hetsim_submit(bench.fd, quick, commands, 256, &seqno), 0);
	CHECK_EQUAL(hetsim_wait(bench.fd, quick, seqno, 60000, &status, &address), 0);
	CHECK_EQUAL(status, -ETIMEDOUT);
	fence.queue = quick;
	fence.seqno = seqno;
	CHECK_EQUAL(hetsim_call(bench.fd, HETSIM_FENCE_FD, &fence), 0);
	hetsim_fence_check(fence.fd, -ETIMEDOUT);
	close(fence.fd);
	CHECK_EQUAL(hetsim_counters(bench.fd, HETSIM_SCOPE_OPENER).resets, 1);
	commands[0] = (struct hetsim_command){ 0 };
	CHECK_EQUAL(hetsim_run(bench.fd, quick, commands), 0);
}

/* A submission that keeps its queue busy for a while. */
static uint64_t submit_long(struct bench *bench)
{
	struct hetsim_command commands[256];
	uint64_t seqno = 0;
	uint32_t i, n = bench->a.length / bench->segment > 1 ? 256 : 64;

	for (i = 0; i < n; i++)
		commands[i] = (struct hetsim_command){ .op = HETSIM_OP_CRC32,
						       .destination = at(bench->c.bytes),
						       .source = at(bench->a.bytes),
						       .length = bench->segment };
	CHECK_EQUAL(hetsim_submit(bench->fd, bench->queue, commands, n, &seqno), 0);
	return seqno;
}

static void test_fences(void)
{
	struct hetsim_fence_fd fence = { .size = sizeof(fence) };
	struct hetsim_command bad = { .op = HETSIM_OP_FILL,
				      .destination = NO_ADDRESS,
				      .length = 64 };
	struct hetsim_queue_event event = { .size = sizeof(event) };
	struct pollfd poll_it;
	uint64_t seqno = 0, value = 0;
	int again;
	struct bench bench = bench_open(HETSIM_QUEUE_DMA_FENCE, MIB(1));

	fence.queue = event.queue = bench.queue;
	CHECK_EQUAL(hetsim_call(bench.fd, HETSIM_FENCE_FD, &fence), -ERANGE);
	fence.seqno = 1;
	CHECK_EQUAL(hetsim_call(bench.fd, HETSIM_FENCE_FD, &fence), -ERANGE);

	seqno = submit_long(&bench);
	fence.seqno = event.seqno = seqno;
	event.eventfd = eventfd(0, EFD_CLOEXEC);
	CHECK_EQUAL(hetsim_call(bench.fd, HETSIM_QUEUE_EVENT, &event), 0);
	CHECK_EQUAL(hetsim_call(bench.fd, HETSIM_FENCE_FD, &fence), 0);
	again = fence.fd;
	CHECK_EQUAL(hetsim_call(bench.fd, HETSIM_FENCE_FD, &fence), 0);
	poll_it = (struct pollfd){ .fd = fence.fd, .events = POLLIN };
	CHECK_EQUAL(poll(&poll_it, 1, 60000), 1);
	hetsim_fence_check(fence.fd, 1);
	hetsim_fence_check(again, 1);
	close(again);
	close(fence.fd);
	CHECK_EQUAL(read(event.eventfd, &value, 8), 8);
	CHECK_EQUAL(value, 1);

	/* Asked for when it is over. */
	CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &bad), -EFAULT);
	CHECK_EQUAL(hetsim_call(bench.fd, HETSIM_FENCE_FD, &fence), 0);
	hetsim_fence_check(fence.fd, 1);
	close(fence.fd);
	fence.seqno = seqno + 1;
	CHECK_EQUAL(hetsim_call(bench.fd, HETSIM_FENCE_FD, &fence), 0);
	hetsim_fence_check(fence.fd, -EFAULT);
	CHECK_EQUAL(hetsim_call(bench.fd, HETSIM_QUEUE_EVENT, &event), 0);
	CHECK_EQUAL(read(event.eventfd, &value, 8), 8);
	close(event.eventfd);
	event.eventfd = bench.fd;
	CHECK_EQUAL(hetsim_call(bench.fd, HETSIM_QUEUE_EVENT, &event), -EINVAL);
	event.eventfd = -1;
	CHECK_EQUAL(hetsim_call(bench.fd, HETSIM_QUEUE_EVENT, &event), -EINVAL);

	bench_close(&bench);
	hetsim_fence_check(fence.fd, -EFAULT); /* outlives everything */
	close(fence.fd);
}

static void test_order(void)
{
	struct hetsim_command command = { .op = HETSIM_OP_AXPY, .length = 64, .value = 1 };
	uint64_t seqno = 0, address, i;
	int status = 0, r = 0;
	AUTO(bench) bench = bench_open(HETSIM_QUEUE_DMA_FENCE, MIB(1));
	uint32_t *words = (uint32_t *)bench.c.bytes;

	words[1024] = 1;
	words[0] = 0;
	command.destination = at(words);
	command.source = at(words + 1024);
	for (i = 1; i <= 1000; i++) {
		CHECK_EQUAL(hetsim_submit(bench.fd, bench.queue, &command, 1, &seqno), 0);
		CHECK_EQUAL(seqno, i);
	}
	CHECK_EQUAL(hetsim_wait(bench.fd, bench.queue, seqno, 60000, &status, &address), 0);
	CHECK_EQUAL(status, 0);
	CHECK_EQUAL(words[0], 1000);
	CHECK_EQUAL(hetsim_wait(bench.fd, bench.queue, 500, 0, &status, &address), 0);
	CHECK_EQUAL(hetsim_wait(bench.fd, bench.queue, seqno + 1, 0, &status, &address),
		    -ERANGE);
	CHECK_EQUAL(hetsim_wait(bench.fd, bench.queue, 0, 0, &status, &address), -ERANGE);
	CHECK_EQUAL(hetsim_wait(bench.fd, 77, 1, 0, &status, &address), -ENOENT);

	/* A full queue says so. */
	submit_long(&bench);
	memset(&command, 0, sizeof(command));
	for (i = 0; i < 10000 && !r; i++)
		r = hetsim_submit(bench.fd, bench.queue, &command, 1, &seqno);
	CHECK_EQUAL(r, -EAGAIN);
}

static void test_failures_forgotten(void)
{
	struct hetsim_command bad = { .op = HETSIM_OP_FILL,
				      .destination = NO_ADDRESS,
				      .length = 64 };
	struct hetsim_command nothing = { 0 };
	uint64_t address = 0;
	int status = 0, i;
	AUTO(bench) bench = bench_open(HETSIM_QUEUE_DMA_FENCE, MIB(1));

	CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &nothing), 0);
	for (i = 0; i < 300; i++) /* alike: one to remember */
		CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &bad), -EFAULT);
	CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &nothing), 0);
	CHECK_EQUAL(hetsim_wait(bench.fd, bench.queue, 1, 0, &status, &address), 0);
	CHECK_EQUAL(status, 0);
	CHECK_EQUAL(hetsim_wait(bench.fd, bench.queue, 2, 0, &status, &address), 0);
	CHECK_EQUAL(status, -EFAULT);
	CHECK_EQUAL(address, NO_ADDRESS);
	for (i = 0; i < 300; i++) {
		bad.destination = NO_ADDRESS + 64 * i;
		CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &bad), -EFAULT);
	}
	CHECK_EQUAL(hetsim_run(bench.fd, bench.queue, &nothing), 0);
	CHECK_EQUAL(hetsim_wait(bench.fd, bench.queue, 1, 0, &status, &address), 0);
	CHECK_EQUAL(status, -EOVERFLOW);
	CHECK_EQUAL(hetsim_wait(bench.fd, bench.queue, 600, 0, &status, &address), 0);
	CHECK_EQUAL(status, -EFAULT);
	CHECK_EQUAL(address, NO_ADDRESS + 64 * 297);
}

/* The queue is destroyed, and the file closed, under a thread that waits. */
static void test_destroy_under_wait(void)
{
	struct hetsim_queue_destroy destroy = { .size = sizeof(destroy) };
	struct hetsim_fence_fd fence = { .size = sizeof(fence) };
	struct hetsim_command nothing = { 0 };
	struct hetsim_waiter waiter = { 0 };
	AUTO(bench) bench = bench_open(HETSIM_QUEUE_DMA_FENCE, MIB(16));

	waiter.fd = bench.fd;
	waiter.queue = bench.queue;
	/* Longer than a busy machine takes from the submission to the end of the queue. */
	CHECK_EQUAL(hetsim_inject(bench.fd, HETSIM_INJECT_LATENCY, bench.queue, 1500000000), 0);
	CHECK_EQUAL(hetsim_submit(bench.fd, bench.queue, &nothing, 1, &waiter.seqno), 0);
	CHECK_EQUAL(hetsim_submit(bench.fd, bench.queue, &nothing, 1, &waiter.seqno), 0);
	fence.queue = bench.queue;
	fence.seqno = waiter.seqno;
	CHECK_EQUAL(hetsim_call(bench.fd, HETSIM_FENCE_FD, &fence), 0);
	hetsim_waiter_start(&waiter);
	destroy.queue = bench.queue;
	CHECK_EQUAL(hetsim_call(bench.fd, HETSIM_QUEUE_DESTROY, &destroy), 0);
	hetsim_waiter_end(&waiter);
	CHECK_EQUAL(waiter.r, 0);
	CHECK_EQUAL(waiter.status, -ECANCELED);
	hetsim_fence_check(fence.fd, -ECANCELED);
	close(fence.fd);
	CHECK_EQUAL(hetsim_call(bench.fd, HETSIM_QUEUE_DESTROY, &destroy), -ENOENT);
	CHECK_EQUAL(hetsim_submit(bench.fd, bench.queue, &nothing, 1, &waiter.seqno), -ENOENT);
}

const struct test sim_engine_tests[] = {
	{ "commands", test_commands, 0, 0 },
	{ "bad_commands", test_bad_commands, 0, 0 },
	{ "bind", test_bind, 0, 0 },
	{ "device_faults", test_device_faults, 0, 0 },
	{ "translated_before", test_translated_before, 0, 0 },
	{ "parallel", test_parallel, 0, 0 },
	{ "recoverable", test_recoverable, 0, 0 },
	{ "timeout", test_timeout, 0, 0 },
	{ "fences", test_fences, 0, 0 },
	{ "order", test_order, 0, 0 },
	{ "failures_forgotten", test_failures_forgotten, 0, 0 },
	{ "destroy_under_wait", test_destroy_under_wait, 0, 0 },
	{ NULL, NULL, 0, 0 },
};
