// SPDX-License-Identifier: MIT
/*
 * dma-bufs: the calls of brackets, counted by the simulated device, which also sees those that
 * other devices make on its dma-bufs; and fences of other devices' work.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hetmap/sim.h>

#include "accel/accel_support.h"
#include "core/core.h"
#include "dmabuf/dmabuf.h"
#include "dmabuf/dmabuf_support.h"
#include "lib/hetsim.h"
#include "base/sys.h"

/* ---- brackets ---- */

static unsigned int n_sync;

static int counting_ioctl(int fd, unsigned long cmd, void *argument)
{
	if (_IOC_TYPE(cmd) == 'b')
		n_sync++;
	return ioctl(fd, cmd, argument);
}

/* Calls of a begin and its end on a buffer of that device. */
static unsigned int calls_of_bracket(const char *name)
{
	AUTO(rig) r = rig_make(name, DESC(hm_buffer_desc, .size = SIZE));

	n_sync = 0;
	CHECK_OK(hm_map_begin_cpu(r.map, 0, SIZE, HM_READ | HM_WRITE));
	CHECK_OK(hm_map_end_cpu(r.map, 0, SIZE, HM_READ | HM_WRITE));
	return n_sync;
}

static void test_bracket_calls(void)
{
	sys_table.ioctl = counting_ioctl;
	CHECK_EQUAL(calls_of_bracket("host"), 0);
	CHECK_EQUAL(calls_of_bracket("soft:0"), 0);
}

static void test_bracket_calls_heap(void)
{
	sys_table.ioctl = counting_ioctl;
	CHECK_EQUAL(calls_of_bracket("heap:system"), 0);
}

static unsigned int calls_of(struct hm_map *map, uint64_t offset, uint64_t length)
{
	n_sync = 0;
	CHECK_OK(hm_map_begin_cpu(map, offset, length, HM_READ | HM_WRITE));
	CHECK_OK(hm_map_end_cpu(map, offset, length, HM_READ | HM_WRITE));
	return n_sync;
}

/* An object that has left stays the first; those behind it come and go. */
static void test_bracket_calls_exported(void)
{
	AUTO(hm_device) *device = rig_device("heap:system");
	int fd;

	sys_table.ioctl = counting_ioctl;
	AUTO(hm_buffer) *buffer =
		rig_buffer(device, DESC(hm_buffer_desc, .size = SIZE, .max_size = 4 * SIZE));
	fd = export_of(buffer);
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	CHECK_EQUAL(calls_of(map, 0, SIZE), 2);
	CHECK_ERROR(-EINVAL, hm_map_end_cpu(map, 0, SIZE, HM_READ));
	CHECK_OK_FATAL(hm_buffer_resize(buffer, 2 * SIZE, HM_GROW_APPEND));
	CHECK_EQUAL(buffer_info(buffer).segments, 2);
	CHECK_EQUAL(calls_of(map, 0, SIZE), 2);
	CHECK_EQUAL(calls_of(map, 0, 2 * SIZE), 4);
	CHECK_EQUAL(calls_of(map, SIZE, 4096), 2);
	CHECK_OK(hm_map_begin_cpu(map, 0, 2 * SIZE, HM_WRITE));
	CHECK_OK(hm_buffer_resize(buffer, SIZE, 0));
	n_sync = 0;
	CHECK_OK(hm_map_end_cpu(map, 0, 2 * SIZE, HM_WRITE));
	CHECK_EQUAL(n_sync, 1);
	CHECK_EQUAL(calls_of(map, 0, SIZE), 2);
	close(fd);
}

/*
 * No device has the pages before they leave; then earlier maps make calls, too, and further
 * exports are the same.
 */
static void leaves(const char *name)
{
	AUTO(hm_device) *device = rig_device(name);
	struct stat first, second;
	int fd, again;

	sys_table.ioctl = counting_ioctl;
	AUTO(hm_buffer) *buffer =
		rig_buffer(device, DESC(hm_buffer_desc, .size = SIZE, .max_size = 4 * SIZE));
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	CHECK_EQUAL(calls_of(map, 0, SIZE), 0);
	CHECK_OK(hm_map_begin_cpu(map, 0, SIZE, HM_READ));
	fd = export_of(buffer);
	CHECK_OK(hm_map_end_cpu(map, 0, SIZE, HM_READ));
	CHECK(buffer_info(buffer).caps & HM_CAP_BRACKET);
	AUTO(hm_map) *later = rig_map(buffer, NULL);
	CHECK_EQUAL(calls_of(map, 0, SIZE), 2);
	CHECK_EQUAL(calls_of(later, SIZE - 1, 1), 2);

	again = export_of(buffer);
	CHECK(!fstat(fd, &first) && !fstat(again, &second));
	CHECK_EQUAL(first.st_ino, second.st_ino);
	close(again);

	/* No device has the new pages, until they leave, too. */
	CHECK_OK(hm_buffer_resize(buffer, 2 * SIZE, 0));
	CHECK_EQUAL(calls_of(map, 0, SIZE), 2);
	CHECK_EQUAL(calls_of(map, SIZE, SIZE), 0);
	CHECK_EQUAL(calls_of(map, 0, 2 * SIZE), 2);
	CHECK_EQUAL(calls_of(map, SIZE - 4096, 2 * 4096), 2);
	CHECK_OK(hm_map_begin_cpu(map, 0, SIZE, HM_READ));
	again = export_of(buffer);
	CHECK(!fstat(again, &second));
	CHECK_EQUAL(second.st_size, 2 * SIZE);
	CHECK(first.st_ino != second.st_ino);
	CHECK_OK(hm_map_end_cpu(map, 0, SIZE, HM_READ));
	CHECK_EQUAL(calls_of(map, SIZE, SIZE), 2);
	CHECK_EQUAL(calls_of(later, 0, 2 * SIZE), 2);
	close(again);
	close(fd);
}

static void test_host_leaves(void)
{
	leaves("host");
}

static void test_udmabuf_leaves(void)
{
	leaves("udmabuf");
}

/* A dma-buf of the simulated device's, on the host, and the counts of its brackets. */
struct counted {
	struct hm_device *sim, *host;
	struct hm_buffer *theirs, *buffer;
	struct hm_map *map;
	struct hetsim_counters before;
};

static struct hetsim_counters counters(const struct counted *counted)
{
	struct hetsim_counters now = { .size = sizeof(now), .scope = HETSIM_SCOPE_DEVICE };

	CHECK_OK(hm_sim_call(counted->sim, HETSIM_COUNTERS, &now));
	return now;
}

static void counted_open(struct counted *counted)
{
	int fd;

	counted->sim = rig_device("sim:0");
	counted->host = rig_device("host");
	counted->theirs = make(counted->sim, SIZE);
	fd = export_of(counted->theirs);
	CHECK_OK_FATAL(hm_buffer_import(counted->host, fd, NULL, &counted->buffer));
	close(fd);
	counted->map = rig_map(counted->buffer, NULL);
	counted->before = counters(counted);
}

static void check_counts(const struct counted *counted, unsigned int begun, unsigned int missed)
{
	struct hetsim_counters now = counters(counted);

	CHECK_EQUAL(now.brackets - counted->before.brackets, begun);
	CHECK_EQUAL(now.brackets_missed - counted->before.brackets_missed, missed);
}

/* Its end, which counts those that were begun only. */
static void counted_close(struct counted *counted, unsigned int begun)
{
	hm_map_unref(counted->map);
	hm_buffer_unref(counted->buffer);
	hm_buffer_unref(counted->theirs);
	check_counts(counted, begun, 0);
	hm_device_unref(counted->host);
	hm_device_unref(counted->sim);
}

static void test_brackets_counted(void)
{
	struct counted counted;

	counted_open(&counted);
	CHECK_OK(hm_map_begin_cpu(counted.map, 0, SIZE, HM_READ));
	check_counts(&counted, 1, 0);
	CHECK_OK(hm_map_begin_cpu(counted.map, 0, 1, HM_WRITE));
	CHECK_OK(hm_map_end_cpu(counted.map, 0, 1, HM_WRITE));
	CHECK_OK(hm_map_end_cpu(counted.map, 0, SIZE, HM_READ));
	/* One too many is the library's to refuse: the device does not hear of it. */
	CHECK_ERROR(-EINVAL, hm_map_end_cpu(counted.map, 0, SIZE, HM_READ));
	check_counts(&counted, 2, 0);
	counted_close(&counted, 2);
}

static int increments(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	uint32_t *numbers = (uint32_t *)(uintptr_t)args[0].pointer;
	uint64_t i;

	for (i = range->begin[0]; i < range->end[0]; i++)
		numbers[i]++;
	return 0;
}

/* A launch whose second argument is refused has not ended the CPU's turn. */
static void check_refused(const struct counted *counted, struct hm_queue *queue)
{
	AUTO(hm_kernel) *kernel = make_kernel("increments_two", "inout inout", increments);
	struct hm_fence *fence;
	AUTO(rig) r = rig_make("host", DESC(hm_buffer_desc, .size = SIZE));

	CHECK_OK_FATAL(hm_map_protect(r.map, 0, SIZE, HM_READ));
	CHECK_ERROR(-EACCES, hm_launch(queue, kernel, SIZE / 4, &fence,
				       HM_INOUT(hm_map_address(counted->map)),
				       HM_INOUT(hm_map_address(r.map))));
	CHECK_EQUAL(atomic_load(&counted->map->turn), HM_READ | HM_WRITE);
}

/* The CPU's turn begins with the wait, and ends with the next launch that is made, or the map. */
static void test_turns(void)
{
	struct counted counted;
	struct hm_kernel *kernel;
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_fence *fence;
	unsigned int i;

	counted_open(&counted);
	CHECK_OK_FATAL(hm_accel_open("cpu", NULL, &accel));
	CHECK_OK_FATAL(hm_queue_create(accel, 0, &queue));
	kernel = make_kernel("increments", "inout", increments);
	for (i = 0; i < 3; i++) {
		CHECK_OK_FATAL(hm_launch(queue, kernel, SIZE / 4, &fence,
					 HM_INOUT(hm_map_address(counted.map))));
		check_counts(&counted, i, 0);
		CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
		CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
		hm_fence_unref(fence);
		CHECK_EQUAL(*(uint32_t *)hm_map_address(counted.map), i + 1);
		counted.before.brackets++; /* the second wait's */
		check_refused(&counted, queue);
	}
	hm_kernel_unref(kernel);
	hm_queue_unref(queue);
	hm_accel_unref(accel);
	counted_close(&counted, 3);
}

/* ---- fences of other devices ---- */

/* Work of the simulated device's that takes a while, and its sync_file. */
static int long_work(int fd, struct hetsim_buffer *buffer, uint32_t *ret_queue)
{
	struct hetsim_fence_fd fence = { .size = sizeof(fence) };
	struct hetsim_command command = {
		.op = HETSIM_OP_FILL,
		.destination = (uintptr_t)buffer->bytes,
		.length = buffer->length,
	};
	uint64_t seqno = 0;
	unsigned int i;

	*ret_queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 0);
	CHECK_EQUAL(hetsim_bind(fd, buffer, HETSIM_BIND_WRITE), 0);
	for (i = 0; i < 100; i++)
		CHECK_EQUAL(hetsim_submit(fd, *ret_queue, &command, 1, &seqno), 0);
	fence.seqno = seqno;
	fence.queue = *ret_queue;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_FENCE_FD, &fence), 0);
	return fence.fd;
}

static void test_fences(void)
{
	struct hetsim_queue_destroy destroy = { .size = sizeof(destroy) };
	struct hm_buffer *buffer;
	struct hetsim_buffer work;
	int fd, dmabuf, fence, out, r;
	AUTO(hm_device) *device = rig_device("sim:0");

	fd = hetsim_open(O_RDWR);
	work = hetsim_buffer_make(fd, MIB(8), HETSIM_PLACE_VRAM);
	buffer = make(device, SIZE);
	dmabuf = export_of(buffer);
	fence = long_work(fd, &work, &destroy.queue);
	r = dmabuf_import_fence(dmabuf, HM_WRITE, fence);
	if (r == -EOPNOTSUPP) {
		test_skip("kernel", "%s", hm_errmsg());
	} else {
		CHECK_OK(r);
		CHECK(!is_idle(dmabuf, HM_READ, 0));
		CHECK(!is_idle(dmabuf, HM_WRITE, 0));
		CHECK_OK_FATAL(dmabuf_export_fence(dmabuf, HM_READ, &out));
		CHECK(is_idle(dmabuf, HM_WRITE, -1));
		hetsim_fence_check(out, 1);
		hetsim_fence_check(fence, 1);
		close(out);
	}
	close(fence);
	close(dmabuf);
	hm_buffer_unref(buffer);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUEUE_DESTROY, &destroy), 0);
	hetsim_unbind(fd, &work);
	hetsim_buffer_drop(fd, &work);
	hetsim_close(fd);
}

static const struct dmabuf_test tests[] = {
	{ "host", { "bracket_calls", test_bracket_calls, 0, 0 } },
	{ "heap:system", { "bracket_calls_heap", test_bracket_calls_heap, 0, 0 } },
	{ "heap:system", { "bracket_calls_exported", test_bracket_calls_exported, 0, 0 } },
	{ "udmabuf", { "host_leaves", test_host_leaves, 0, 0 } },
	{ "udmabuf", { "udmabuf_leaves", test_udmabuf_leaves, 0, 0 } },
	{ "sim:0", { "brackets_counted", test_brackets_counted, 0, 0 } },
	{ "sim:0", { "turns", test_turns, 0, 0 } },
	{ "sim:0", { "fences", test_fences, 60, 0 } },
	{ NULL, { NULL, NULL, 0, 0 } },
};

TEST_MAIN(dmabuf_main, "dmabuf_brackets", tests)
