// SPDX-License-Identifier: MIT
/*
 * Data from end to end on real drivers' memory: written through one map, read through
 * the dma-buf by another process, worked on in place by OpenCL, copied by an engine.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "accel/accel_support.h"
#include "dmabuf/dmabuf_support.h"
#include "drm/drm_support.h"
#include "lib/peer.h"

#define N ((size_t)1 << 16)
#define BYTES (N * sizeof(float))

/* y[i] is @a * i + @b, for all of them. */
static bool is_line(const float *y, uint64_t a, uint64_t b)
{
	size_t i;

	for (i = 0; i < N && y[i] == (float)(a * i + b); i++)
		;
	return i == N;
}

static void make_line(float *y, uint64_t a, uint64_t b)
{
	size_t i;

	for (i = 0; i < N; i++)
		y[i] = (float)(a * i + b);
}

/* ---- in the other process ---- */

static int peer_finds_line(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	int r = hm_map_begin_cpu(world->map, 0, BYTES, HM_READ);

	(void)c;
	if (!r)
		r = is_line(hm_map_address(world->map), a, b) ? 0 : 1;
	return r ? r : hm_map_end_cpu(world->map, 0, BYTES, HM_READ);
}

static int peer_makes_line(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	int r = hm_map_begin_cpu(world->map, 0, BYTES, HM_WRITE);

	(void)c;
	if (!r)
		make_line(hm_map_address(world->map), a, b);
	return r ? r : hm_map_end_cpu(world->map, 0, BYTES, HM_WRITE);
}

/* ---- here ---- */

struct line {
	struct hm_buffer *buffer;
	struct hm_map *map;
	float *at;
};

static struct line line_of(struct hm_buffer *buffer)
{
	struct line line = { .buffer = buffer, .map = rig_map(buffer, NULL) };

	line.at = hm_map_address(line.map);
	return line;
}

static void line_drop(struct line *line)
{
	hm_map_unref(line->map);
	hm_buffer_unref(line->buffer);
}

/* In place: nothing is copied on the way in or out. */
static void check_saxpy(struct accel_rig *rig, struct line *x, struct line *y, float a)
{
	struct hm_fence_info info;

	info = RUN(rig, SAXPY, N, HM_F32(a), HM_IN(x->at), HM_INOUT(y->at));
	CHECK_EQUAL(info.way_in, HM_WAY_HOST_PTR);
	CHECK_EQUAL(info.bytes_copied, 0);
}

/* Another device's engine copies the lines out of it. */
static void check_engine(int fd, uint64_t a, uint64_t b)
{
	struct hm_buffer *buffer;
	struct hm_fence *fence;
	struct line came;
	struct accel_rig rig;
	float *own;

	accel_rig_open(&rig, "sim:0", 0, 0);
	CHECK_OK_FATAL(hm_buffer_import(rig.host, fd, NULL, &buffer));
	came = line_of(buffer);
	own = alloc_bytes(&rig, BYTES);
	CHECK_OK_FATAL(hm_queue_copy(rig.queue, own, came.at, BYTES, &fence));
	finish(fence);
	CHECK(is_line(own, a, b));
	CHECK_OK(hm_free(own));
	line_drop(&came);
	accel_rig_close(&rig);
}

static void end_to_end(void)
{
	struct hm_device *device;
	struct line x, y;
	struct peer peer;
	struct accel_rig rig;
	int fd;

	peer_start(&peer, SOCK_STREAM, "host"); /* before OpenCL has threads */
	if (!use_pocl("pthread")) {
		peer_stop(&peer);
		return;
	}
	accel_rig_open(&rig, "opencl:0", HM_ZERO_COPY_ONLY, 0);
	device = rig_device(drm_device_of_test());
	x = line_of(make(device, BYTES));
	y = line_of(make(device, BYTES));
	fd = export_of(y.buffer);
	send_fd(peer.socket, fd);
	CHECK_EQUAL(peer_call(&peer, peer_import, 0, 0, 0), 0);

	make_line(x.at, 1, 0);
	make_line(y.at, 0, 1);
	CHECK_EQUAL(peer_call(&peer, peer_finds_line, 0, 1, 0), 0);
	check_saxpy(&rig, &x, &y, 2);
	CHECK(is_line(y.at, 2, 1));
	CHECK_EQUAL(peer_call(&peer, peer_finds_line, 2, 1, 0), 0);
	check_engine(fd, 2, 1);
	CHECK_EQUAL(peer_call(&peer, peer_makes_line, 5, 3, 0), 0);
	check_saxpy(&rig, &x, &y, 3);
	CHECK(is_line(y.at, 8, 3));
	CHECK_EQUAL(peer_call(&peer, peer_finds_line, 8, 3, 0), 0);
	check_engine(fd, 8, 3);

	close(fd);
	line_drop(&x);
	line_drop(&y);
	hm_device_unref(device);
	peer_stop(&peer);
	accel_rig_close(&rig);
}

static const struct dmabuf_test tests[] = {
	{ "host", { "end_to_end.virtio_gpu", end_to_end, 60, 0 } },
	{ "host", { "end_to_end.vgem", end_to_end, 60, 0 } },
	{ "heap:system", { "end_to_end.heap", end_to_end, 60, 0 } },
	{ "udmabuf", { "end_to_end.udmabuf", end_to_end, 60, 0 } },
	{ NULL, { NULL, NULL, 0, 0 } },
};

TEST_MAIN(dmabuf_main, "drm_nodes_data", tests)
