// SPDX-License-Identifier: MIT
/*
 * The simulated device, be it the module or its twin: the share of the machine that one opener can
 * have, and things that are not limited.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <drm.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/sim_tests.h"
#include "sim/vgem_support.h"

#define BUFFERS 16384  /* of an opener */
#define BINDINGS 16384 /* of an opener */
#define SHARE 4096     /* bindings of a buffer by its maker, and by all other files */
#define TABLES 65536   /* of an opener, but for the root: 256 MiB of them */
#define EVENTS 1024    /* of a queue */
#define FENCES 1500    /* more than a queue may have events, fewer than submissions */

/* Number of buffers with which one opener reaches its limit of bindings. */
static void make_for_bindings(int fd, uint64_t length, struct hetsim_buffer *buffers)
{
	int i;

	for (i = 0; i < BINDINGS / SHARE; i++) {
		buffers[i] = (struct hetsim_buffer){ 0 };
		CHECK_FATAL(
			!hetsim_buffer_create(fd, length, HETSIM_PLACE_SYSTEM, 0, &buffers[i]));
	}
}

/*
 * Bindings that take as many tables as two pages can, until the opener may have no more. Each is
 * below the last one: the twin looks for its neighbour from the lowest one on.
 */
static void test_tables(void)
{
	struct hetsim_bind bind = { .size = sizeof(bind), .length = 2 * PAGE };
	struct hetsim_unbind unbind = { .size = sizeof(unbind), .address = PAGE };
	struct hetsim_buffer buffers[BINDINGS / SHARE];
	int fd = hetsim_open(O_RDWR), r = 0, round;
	uint64_t n;

	if (fd < 0)
		return;
	make_for_bindings(fd, 2 * PAGE, buffers);
	unbind.length = (1ull << 48) - PAGE;
	for (round = 0; round < 2; round++) {
		bind.address = (1ull << 48) - GIB(1) - PAGE;
		for (n = 0, r = 0; !r && n < TABLES; n += !r, bind.address -= GIB(2)) {
			bind.handle = buffers[n % (BINDINGS / SHARE)].handle;
			r = hetsim_call(fd, HETSIM_BIND, &bind);
		}
		CHECK_EQUAL(r, -ENOSPC);
		/* Four for each, and one more for each 256 of them. */
		CHECK_EQUAL(n, (TABLES - 64) / 4);
		/* None is kept that is not needed. */
		CHECK_EQUAL(hetsim_call(fd, HETSIM_UNBIND, &unbind), 0);
	}
	hetsim_close(fd);
}

/* Room for so many descriptors and some more. */
static bool raise_descriptors(rlim_t n)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return false;
	if (limit.rlim_max < n + 100) {
		test_skip("resources", "RLIMIT_NOFILE lets this have no more than %ju files",
			  (uintmax_t)limit.rlim_max);
		return false;
	}
	limit.rlim_cur = limit.rlim_max;
	return !setrlimit(RLIMIT_NOFILE, &limit);
}

static unsigned int count_readable(const struct pollfd *files)
{
	unsigned int i, n = 0;

	for (i = 0; i < FENCES; i++)
		n += poll((struct pollfd *)&files[i], 1, 0) == 1;
	return n;
}

/* Descriptors may wait for all pending work: one for each, and many for one. */
static void test_fences(void)
{
	static struct pollfd files[FENCES];
	const struct hetsim_command nothing = { 0 };
	struct hetsim_fence_fd fence = { .size = sizeof(fence) };
	uint64_t seqno = 0, address;
	int fd, status, i, round;

	if (!raise_descriptors(2 * FENCES))
		return;
	fd = hetsim_open(O_RDWR);
	if (fd < 0)
		return;
	for (round = 0; round < 2; round++) {
		fence.queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 60000);
		CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_STUCK, fence.queue, 1), 0);
		for (i = 0; i < FENCES; i++)
			CHECK_EQUAL(hetsim_submit(fd, fence.queue, &nothing, 1, &seqno), 0);
		for (i = 0; i < FENCES; i++) {
			fence.seqno = round ? seqno : (uint64_t)i + 1;
			CHECK_FATAL(hetsim_call(fd, HETSIM_FENCE_FD, &fence) == 0);
			files[i] = (struct pollfd){ .fd = fence.fd, .events = POLLIN };
		}
		CHECK_EQUAL(count_readable(files), 0);
		CHECK_EQUAL(hetsim_wait(fd, fence.queue, 1, 0, &status, &address), -ETIME);
		CHECK_EQUAL(hetsim_call(fd, HETSIM_QUEUE_DESTROY,
					&(struct hetsim_queue_destroy){
						.size = sizeof(struct hetsim_queue_destroy),
						.queue = fence.queue }),
			    0);
		CHECK_EQUAL(count_readable(files), FENCES);
		for (i = 0; i < FENCES; i++) {
			hetsim_fence_check(files[i].fd, -ECANCELED);
			close(files[i].fd);
		}
	}
	hetsim_close(fd);
}

/* The twin has a descriptor for each object that the module has in the kernel. */
static int open_for(rlim_t n)
{
	int fd = hetsim_open(O_RDWR);

	if (hetsim_soft_has(fd) && !raise_descriptors(n)) {
		hetsim_close(fd);
		return -1;
	}
	return fd;
}

/* Memory of other devices, which the twin does not take, is one of them. */
static void import_as_last(int fd, uint32_t handle)
{
	int vgem = hetsim_soft_has(fd) ? -1 : vgem_open(), dmabuf;
	struct hetsim_buffer buffer = { 0 };
	struct hetsim_import import;

	if (vgem < 0)
		return;
	dmabuf = vgem_make(vgem, PAGE, DRM_RDWR);
	CHECK_EQUAL(hetsim_import(fd, dmabuf, &import), -ENOSPC);
	CHECK_EQUAL(hetsim_close_handle(fd, handle), 0);
	CHECK_EQUAL(hetsim_import(fd, dmabuf, &import), 0);
	CHECK_EQUAL(hetsim_buffer_create(fd, PAGE, HETSIM_PLACE_SYSTEM, 0, &buffer), -ENOSPC);
	CHECK_EQUAL(hetsim_close_handle(fd, import.handle), 0);
	CHECK_EQUAL(hetsim_buffer_create(fd, PAGE, HETSIM_PLACE_SYSTEM, 0, &buffer), 0);
	close(dmabuf);
	close(vgem);
}

/* An opener at its limit leaves room for another one. */
static void test_buffers(void)
{
	struct hetsim_buffer buffer = { 0 }, own = { 0 };
	int fd = open_for(BUFFERS), other, r = 0;
	uint64_t n = 0;

	if (fd < 0)
		return;
	while (!r && n <= BUFFERS) {
		r = hetsim_buffer_create(fd, PAGE, HETSIM_PLACE_SYSTEM, 0, &buffer);
		n += !r;
	}
	CHECK_EQUAL(r, -ENOSPC);
	CHECK_EQUAL(n, BUFFERS);
	CHECK_EQUAL(hetsim_query(fd).opener_used, BUFFERS * PAGE);
	other = hetsim_open(O_RDWR);
	CHECK_FATAL(other >= 0);
	CHECK_EQUAL(hetsim_buffer_create(other, PAGE, HETSIM_PLACE_SYSTEM, 0, &own), 0);
	hetsim_close(other);

	CHECK_EQUAL(hetsim_close_handle(fd, buffer.handle), 0);
	CHECK_EQUAL(hetsim_buffer_create(fd, PAGE, HETSIM_PLACE_SYSTEM, 0, &buffer), 0);
	CHECK_EQUAL(hetsim_buffer_create(fd, PAGE, HETSIM_PLACE_SYSTEM, 0, &own), -ENOSPC);
	import_as_last(fd, buffer.handle);
	hetsim_close(fd);
}

/* Of one page in a row, each below the last one as in test_tables(): they need few tables. */
static void test_bindings(void)
{
	struct hetsim_bind bind = { .size = sizeof(bind), .length = PAGE };
	struct hetsim_unbind unbind = { .size = sizeof(unbind), .length = PAGE };
	struct hetsim_buffer buffers[BINDINGS / SHARE], own = { 0 };
	const uint64_t end = 1ull << 40;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int other, r = 0;
	uint64_t n = 0;

	make_for_bindings(fd, PAGE, buffers);
	while (!r && n <= BINDINGS) {
		bind.address = end - (n + 1) * PAGE;
		bind.handle = buffers[n % (BINDINGS / SHARE)].handle;
		r = hetsim_call(fd, HETSIM_BIND, &bind);
		n += !r;
	}
	CHECK_EQUAL(r, -ENOSPC);
	CHECK_EQUAL(n, BINDINGS);
	other = hetsim_open(O_RDWR);
	CHECK_FATAL(other >= 0);
	CHECK_FATAL(!hetsim_buffer_create(other, PAGE, HETSIM_PLACE_SYSTEM, 0, &own));
	bind.handle = own.handle;
	CHECK_EQUAL(hetsim_call(other, HETSIM_BIND, &bind), 0);
	hetsim_close(other);

	unbind.address = end - BINDINGS * PAGE;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_UNBIND, &unbind), 0);
	bind.handle = buffers[(BINDINGS - 1) % (BINDINGS / SHARE)].handle;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BIND, &bind), 0);
	bind.address -= PAGE;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BIND, &bind), -ENOSPC);
	unbind.address = bind.address;
	unbind.length = (BINDINGS + 1) * PAGE;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_UNBIND, &unbind), 0);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BIND, &bind), 0);
}

/* Binds a page below @end until that fails. Returns the number of bindings, and the errno. */
static uint64_t bind_often(int fd, uint32_t handle, uint64_t end, int *ret_error)
{
	struct hetsim_bind bind = { .size = sizeof(bind), .length = PAGE, .handle = handle };
	uint64_t n = 0;
	int r = 0;

	while (!r && n <= 2 * SHARE) {
		bind.address = end - (n + 1) * PAGE;
		r = hetsim_call(fd, HETSIM_BIND, &bind);
		n += !r;
	}
	*ret_error = r;
	return n;
}

/* Evictions have a bound, and importers can't use up the maker's share. */
static void test_bindings_of_buffer(void)
{
	struct hetsim_unbind unbind = { .size = sizeof(unbind), .length = PAGE };
	struct hetsim_buffer buffer = { 0 };
	struct hetsim_import import;
	const uint64_t end = 1ull << 40;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int others[2], dmabuf, i, r = 0;

	CHECK_FATAL(!hetsim_buffer_create(fd, PAGE, HETSIM_PLACE_SYSTEM, 0, &buffer));
	dmabuf = hetsim_export(fd, buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(dmabuf >= 0);
	for (i = 0; i < 2; i++) {
		others[i] = hetsim_open(O_RDWR);
		CHECK_FATAL(!hetsim_import(others[i], dmabuf, &import));
	}
	CHECK_EQUAL(bind_often(others[0], import.handle, end, &r), SHARE);
	CHECK_EQUAL(r, -ENOSPC);
	CHECK_EQUAL(bind_often(others[1], import.handle, end, &r), 0);
	CHECK_EQUAL(r, -ENOSPC);
	CHECK_EQUAL(bind_often(fd, buffer.handle, end, &r), SHARE);
	CHECK_EQUAL(r, -ENOSPC);

	/* An unbind makes room, and so does the end of an opener. */
	unbind.address = end - PAGE;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_UNBIND, &unbind), 0);
	CHECK_EQUAL(bind_often(fd, buffer.handle, end, &r), 1);
	hetsim_close(others[0]);
	CHECK_EQUAL(bind_often(others[1], import.handle, end, &r), SHARE);
	hetsim_close(others[1]);
	close(dmabuf);
}

static uint64_t count_of(int event)
{
	uint64_t count = 0;

	CHECK_EQUAL(read(event, &count, sizeof(count)), sizeof(count));
	return count;
}

/* As many as may be pending in a queue, each of which is told at its end. */
static void test_events(void)
{
	struct hetsim_queue_destroy destroy = { .size = sizeof(destroy) };
	struct hetsim_queue_event event = { .size = sizeof(event) };
	const struct hetsim_command nothing = { 0 };
	int fd = open_for(EVENTS), r = 0, i;
	uint64_t n = 0, seqno = 0;
	uint32_t queues[2];

	if (fd < 0)
		return;
	for (i = 0; i < 2; i++) {
		queues[i] = hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, 60000);
		CHECK_EQUAL(hetsim_run(fd, queues[i], &nothing), 0);
		CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_STUCK, queues[i], 1), 0);
		CHECK_EQUAL(hetsim_submit(fd, queues[i], &nothing, 1, &seqno), 0);
	}
	event.eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	CHECK_FATAL(event.eventfd >= 0);
	event.queue = queues[0];
	event.seqno = seqno;
	while (!r && n <= EVENTS) {
		r = hetsim_call(fd, HETSIM_QUEUE_EVENT, &event);
		n += !r;
	}
	CHECK_EQUAL(r, -EAGAIN);
	CHECK_EQUAL(n, EVENTS);
	/* Not for work that is done already, nor for another queue. */
	event.seqno = 1;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUEUE_EVENT, &event), 0);
	CHECK_EQUAL(count_of(event.eventfd), 1);
	event.seqno = seqno;
	event.queue = queues[1];
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUEUE_EVENT, &event), 0);

	for (i = 0; i < 2; i++) {
		destroy.queue = queues[i];
		CHECK_EQUAL(hetsim_call(fd, HETSIM_QUEUE_DESTROY, &destroy), 0);
		CHECK_EQUAL(count_of(event.eventfd), i ? 1 : EVENTS);
	}
	CHECK_EQUAL(close(event.eventfd), 0);
	hetsim_close(fd);
}

/* Once is long enough where the twin's look for a free slot is watched. */
const struct test sim_limits_tests[] = {
	{ "buffers", test_buffers, 60, TEST_TSAN ? TEST_ONCE : 0 },
	{ "bindings", test_bindings, 60, 0 },
	{ "bindings_of_buffer", test_bindings_of_buffer, 60, 0 },
	{ "events", test_events, 0, 0 },
	{ "tables", test_tables, 60, 0 },
	{ "fences", test_fences, 60, 0 },
	{ NULL, NULL, 0, 0 },
};
