// SPDX-License-Identifier: MIT
/* Frames as descriptors: there and back, planes in several objects, lies, a producer's end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "frame/frame_support.h"
#include "lib/inject.h"
#include "lib/peer.h"
#include "lib/rig.h"

static struct hm_frame_objects export(struct hm_frame *frame, uint32_t flags)
{
	struct hm_frame_objects objects = { .struct_size = sizeof(objects) };

	CHECK_OK_FATAL(hm_frame_export(frame, flags, &objects));
	return objects;
}

static void close_all(const struct hm_frame_objects *objects)
{
	uint32_t i;

	for (i = 0; i < HM_FRAME_PLANES; i++)
		if (objects->fd[i] >= 0)
			close(objects->fd[i]);
}

static struct hm_device *host(void)
{
	return rig_device("host");
}

static struct hm_frame *import(const struct hm_frame_objects *objects)
{
	AUTO(hm_device) *device = host();
	struct hm_frame *frame;

	CHECK_OK_FATAL(hm_frame_import(device, objects, 0, &frame));
	return frame;
}

/* The bytes of both maps are the same ones, and outlive the frame and its pool. */
static void there_and_back(uint32_t flags)
{
	struct hm_frame_pool *pool = frame_pool("host", HM_FRAME_WAIT, 1);
	const struct hm_frame_props props = { .matrix = 1, .primaries = 1, .transfer = 1 };
	struct hm_frame *frame = frame_acquire(pool), *other;
	struct hm_frame_info info = frame_info(frame), its;
	struct hm_frame_objects objects = { .struct_size = sizeof(objects) };

	if (flags && !(buffer_info(info.buffer[0]).caps & HM_CAP_DMABUF)) {
		/* Without udmabuf no dma-buf can be made here; the machines have it. */
		CHECK_ERROR(-EOPNOTSUPP, hm_frame_export(frame, flags, &objects));
		goto out;
	}
	frame_stamp(frame, 123);
	CHECK_OK(hm_frame_set(frame, HM_FRAME_COLOUR, &props));
	objects = export(frame, flags);
	CHECK(objects.n_objects == 1 && objects.n_planes == 2 && objects.fd[1] == -1);
	CHECK(objects.size[0] == frame_pool_info(pool).layout.bytes);
	other = import(&objects);
	close_all(&objects);
	its = frame_info(other);
	CHECK(its.flags == HM_FRAME_IMPORTED && its.address[0] != info.address[0]);
	CHECK(its.fourcc == info.fourcc && its.modifier == info.modifier);
	CHECK(its.width == info.width && its.height == info.height);
	CHECK(its.props.timestamp == 123 && its.props.matrix == 1 && its.props.transfer == 1);
	CHECK(!memcmp(its.plane, info.plane, sizeof(its.plane)));
	CHECK_OK(hm_map_begin_cpu(info.map[0], 0, 1, HM_READ | HM_WRITE));
	frame_fill(&info, 5);
	CHECK_OK(hm_map_end_cpu(info.map[0], 0, 1, HM_READ | HM_WRITE));
	CHECK_OK(hm_map_begin_cpu(its.map[0], 0, 1, HM_READ | HM_WRITE));
	CHECK(frame_holds(&its, 5));
	frame_fill(&its, 6);
	CHECK_OK(hm_map_end_cpu(its.map[0], 0, 1, HM_READ | HM_WRITE));
	CHECK(frame_holds(&info, 6));
	CHECK_ERROR(-EOPNOTSUPP, hm_frame_publish(other));
	frame_stamp(other, 124);
	hm_frame_unref(frame);
	hm_frame_pool_unref(pool);
	CHECK(frame_holds(&its, 6) && frame_info(other).props.timestamp == 124);
	hm_frame_unref(other);
	return;
out:
	hm_frame_unref(frame);
	hm_frame_pool_unref(pool);
}

static void memfd(void)
{
	there_and_back(0);
}

static void dmabuf(void)
{
	there_and_back(HM_EXPORT_DMABUF);
}

/* ---- planes in foreign objects ---- */

static int object_of(uint64_t size)
{
	AUTO(hm_device) *device = host();
	int fd;
	AUTO(hm_buffer) *buffer = rig_buffer(device, DESC(hm_buffer_desc, .size = size));

	CHECK_OK_FATAL(hm_buffer_export(buffer, 0, &fd));
	return fd;
}

/* 64 x 32 pixels of NV12: luma in the one object, chroma in the other. */
static struct hm_frame_objects two_objects(void)
{
	struct hm_frame_objects objects = {
		.struct_size = sizeof(objects),
		.fourcc = HM_FRAME_NV12,
		.width = 64,
		.height = 32,
		.n_planes = 2,
		.n_objects = 2,
		.fd = { object_of(4096), object_of(8192), -1, -1 },
		.plane = { { .stride = 128 }, { .offset = 4096, .stride = 64, .object = 1 } },
	};

	return objects;
}

static void several_objects(void)
{
	struct hm_frame_objects objects = two_objects(), back;
	AUTO(hm_frame) *frame = import(&objects), *again = NULL;
	struct hm_frame_info info = frame_info(frame), its;

	CHECK(info.n_objects == 2 && info.buffer[0] != info.buffer[1]);
	CHECK(info.plane[0].bytes == 4096 && info.plane[1].bytes == 1024);
	CHECK_EQUAL((char *)info.address[1] - (char *)hm_map_address(info.map[1]), 4096);
	CHECK(info.props.visible.width == 64 && info.props.timestamp == HM_FRAME_NO_TIME);
	frame_fill(&info, 1);
	back = export(frame, 0);
	CHECK(back.n_objects == 2 && back.plane[1].object == 1);
	again = import(&back);
	close_all(&back);
	close_all(&objects);
	its = frame_info(again);
	CHECK(frame_holds(&its, 1));
}

/* Two descriptors of one object, as drivers give them: one buffer. */
static void same_object(void)
{
	struct hm_frame_objects objects = two_objects();
	struct hm_frame_info info;
	struct hm_frame *frame;

	close(objects.fd[0]);
	objects.fd[0] = dup(objects.fd[1]);
	CHECK_FATAL(objects.fd[0] >= 0);
	frame = import(&objects);
	info = frame_info(frame);
	CHECK(info.n_objects == 1 && info.plane[1].object == 0);
	CHECK_EQUAL((char *)info.address[1] - (char *)info.address[0], 4096);
	hm_frame_unref(frame);
	close_all(&objects);
}

/* U and V side by side: rows alternate, and no byte is of both. */
static void side_by_side(void)
{
	struct hm_frame_objects objects = {
		.struct_size = sizeof(objects),
		.fourcc = HM_FRAME_YUV420,
		.width = 64,
		.height = 32,
		.n_planes = 3,
		.n_objects = 1,
		.fd = { object_of(3072), -1, -1, -1 },
		.size = { 3072 },
		.plane = { { .stride = 64 },
			   { .offset = 2048, .stride = 64 },
			   { .offset = 2080, .stride = 64 } },
	};
	struct hm_frame *frame = import(&objects);
	struct hm_frame_info info = frame_info(frame);
	struct hm_device *device = host();

	CHECK_EQUAL(info.plane[2].bytes, 15 * 64 + 32);
	frame_fill(&info, 1);
	CHECK(frame_holds(&info, 1));
	hm_frame_unref(frame);
	objects.plane[2].offset = 2079;
	CHECK_ERROR(-EINVAL, hm_frame_import(device, &objects, 0, &frame));
	objects.plane[2].offset = 2048;
	CHECK_ERROR(-EINVAL, hm_frame_import(device, &objects, 0, &frame));
	objects.plane[2].offset = 2081;
	CHECK_ERROR(-ERANGE, hm_frame_import(device, &objects, 0, &frame));
	hm_device_unref(device);
	close_all(&objects);
}

static void lies(void)
{
	const struct hm_frame_objects good = two_objects();
	struct hm_frame_objects bad;
	AUTO(hm_device) *device = host();
	struct hm_frame *frame = NULL;

#define LIE(error, change)                                                    \
	do {                                                                  \
		bad = good;                                                   \
		change;                                                       \
		CHECK_ERROR(error, hm_frame_import(device, &bad, 0, &frame)); \
	} while (0)

	LIE(-EINVAL, bad.width = 0);
	LIE(-EINVAL, bad.height = 0);
	LIE(-EINVAL, bad.n_planes = 0);
	LIE(-EINVAL, bad.n_planes = 1);
	LIE(-EINVAL, bad.n_planes = 5);
	LIE(-EINVAL, bad.n_objects = 0);
	LIE(-EINVAL, bad.n_objects = 1);
	LIE(-EINVAL, bad.n_objects = 5);
	LIE(-EBADF, bad.fd[1] = -1);
	LIE(-EBADF, bad.fd[0] = 100000);
	LIE(-EINVAL, bad.plane[0].object = 2);
	LIE(-EINVAL, bad.plane[0].stride = 63);
	LIE(-EINVAL, bad.plane[0].rows = 31);
	LIE(-EINVAL, bad.plane[0].bytes = 31 * 128 + 63);
	LIE(-ERANGE, bad.plane[0].stride = 192);
	LIE(-ERANGE, bad.plane[1].offset = 8192);
	LIE(-ERANGE, bad.plane[1].offset = UINT64_MAX - 100);
	LIE(-EOVERFLOW, bad.plane[0].stride = UINT64_MAX);
	LIE(-EOVERFLOW, bad.plane[0].stride = 1ull << 60);
	LIE(-ERANGE, (bad.plane[0].rows = UINT32_MAX, bad.plane[0].stride = 1 << 20));
	LIE(-EINVAL, bad.size[0] = 4097);
	LIE(-ERANGE, bad.size[1] = 4096);
	LIE(-EINVAL, bad.size[0] = UINT64_MAX);
	LIE(-EOPNOTSUPP, bad.modifier = 0x00ffffffffffffffull);
	LIE(-EINVAL, bad.fields = 8);
	LIE(-EINVAL, bad.fields = HM_FRAME_VISIBLE);
	LIE(-EINVAL, (bad.fields = HM_FRAME_COLOUR, bad.props.matrix = 999));
	LIE(-EINVAL, bad.struct_size = 8);
	CHECK(!frame);
	CHECK_ERROR(-EINVAL, hm_frame_import(device, &good, 2, &frame));
	CHECK_ERROR(-EINVAL, hm_frame_import(device, NULL, 0, &frame));
	CHECK_ERROR(-EINVAL, hm_frame_import(device, &good, 0, NULL));
	/* Unchecked properties are carried, if the planes are inside of their objects. */
	bad = good;
	bad.modifier = 0x0100000000000002ull;
	bad.plane[0].stride = 7;
	bad.n_planes = 2;
	CHECK_OK_FATAL(hm_frame_import(device, &bad, 0, &frame));
	CHECK_EQUAL(frame_info(frame).plane[0].bytes, 4096);
	CHECK_EQUAL(frame_info(frame).plane[1].bytes, 4096);
	hm_frame_unref(frame);
	LIE(-ERANGE, (bad.modifier = 1, bad.plane[1].offset = 8192));
	close_all(&good);
}

static void read_only(void)
{
	AUTO(hm_frame_pool) *pool = frame_pool("host", HM_FRAME_WAIT, 1);
	struct hm_frame *frame = frame_acquire(pool), *other;
	struct hm_frame_info info = frame_info(frame);
	struct hm_frame_objects objects;
	AUTO(hm_device) *device = host();

	frame_fill(&info, 2);
	objects = export(frame, HM_EXPORT_READ_ONLY);
	CHECK_ERROR(-EACCES, hm_frame_import(device, &objects, 0, &other));
	CHECK_OK_FATAL(hm_frame_import(device, &objects, HM_BUFFER_READ_ONLY, &other));
	info = frame_info(other);
	CHECK(frame_holds(&info, 2));
	CHECK_EQUAL(test_write_signal(info.address[0]), 11);
	hm_frame_unref(other);
	close_all(&objects);
	hm_frame_unref(frame);
}

/* ---- another process ---- */

static struct hm_frame_pool *producers_pool;

/* In the peer: fills frame @a of its pool, and hands it over; keeps all of them. */
static int produce(struct peer_world *world, uint64_t salt, uint64_t b, uint64_t c)
{
	struct hm_frame_objects objects;
	struct hm_frame_info info;
	struct hm_frame *frame;

	(void)b, (void)c;
	if (!producers_pool)
		producers_pool = frame_pool("host", HM_FRAME_WAIT, 8);
	frame = frame_acquire(producers_pool);
	info = frame_info(frame);
	frame_fill(&info, (uint32_t)salt);
	frame_stamp(frame, (int64_t)salt);
	objects = export(frame, 0);
	if (send(world->socket, &objects, sizeof(objects), MSG_NOSIGNAL) != sizeof(objects))
		return -EIO;
	send_fd(world->socket, objects.fd[0]);
	close_all(&objects);
	return 0;
}

static struct hm_frame *receive(struct peer *peer, uint32_t salt)
{
	struct hm_frame_objects objects;
	struct hm_frame *frame;

	peer_begin(peer, produce, salt, 0, 0);
	CHECK_FATAL(recv(peer->socket, &objects, sizeof(objects), MSG_WAITALL) ==
		    sizeof(objects));
	objects.fd[0] = receive_fd(peer->socket);
	CHECK_EQUAL(peer_end(peer), 0);
	frame = import(&objects);
	close_all(&objects);
	return frame;
}

static void producer_killed(void)
{
	struct hm_frame *frames[4];
	struct hm_frame_info info;
	struct peer peer;
	uint32_t i;

	peer_start(&peer, SOCK_SEQPACKET, "host");
	for (i = 0; i < 4; i++)
		frames[i] = receive(&peer, i + 1);
	peer_kill(&peer);
	for (i = 0; i < 4; i++) {
		info = frame_info(frames[i]);
		CHECK(frame_holds(&info, i + 1));
		CHECK_EQUAL(info.props.timestamp, i + 1);
		frame_fill(&info, 9);
		CHECK(frame_holds(&info, 9));
		hm_frame_unref(frames[i]);
	}
}

/* ---- hm_frame_send(), hm_frame_receive() ---- */

static void sent(void)
{
	struct hm_frame_objects objects = two_objects();
	struct hm_frame *two = import(&objects), *got;
	struct hm_frame_pool *pool = frame_pool("host", HM_FRAME_WAIT, 1);
	struct hm_frame *one = frame_acquire(pool);
	struct hm_frame_info info = frame_info(one), its;
	AUTO(hm_device) *device = host();
	int pair[2];

	close_all(&objects);
	frame_fill(&info, 3);
	frame_stamp(one, 77);
	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair));
	CHECK_ERROR(-EAGAIN, hm_frame_receive(device, pair[1], 0, &got));
	CHECK_OK_FATAL(hm_frame_send(one, pair[0], 0));
	info = frame_info(two);
	frame_fill(&info, 4);
	CHECK_OK_FATAL(hm_frame_send(two, pair[0], 0));
	hm_frame_unref(one);
	hm_frame_unref(two);
	hm_frame_pool_unref(pool);
	CHECK_OK_FATAL(hm_frame_receive(device, pair[1], 0, &got));
	its = frame_info(got);
	CHECK(frame_holds(&its, 3) && its.props.timestamp == 77 && its.n_objects == 1);
	CHECK(its.flags == HM_FRAME_IMPORTED);
	hm_frame_unref(got);
	CHECK_OK_FATAL(hm_frame_receive(device, pair[1], HM_BUFFER_READ_ONLY, &got));
	its = frame_info(got);
	CHECK(frame_holds(&its, 4) && its.n_objects == 2);
	CHECK_EQUAL(test_write_signal(its.address[1]), 11);
	hm_frame_unref(got);
	CHECK_ERROR(-EINVAL, hm_frame_receive(device, pair[1], 2, &got));
	CHECK_ERROR(-EINVAL, hm_frame_receive(device, pair[1], 0, NULL));
	close(pair[0]);
	CHECK_ERROR(-ECONNRESET, hm_frame_receive(device, pair[1], 0, &got));
	close(pair[1]);
	CHECK_ERROR(-EBADF, hm_frame_receive(device, 100000, 0, &got));
}

/* The data after the first object are not the header of a frame. */
static void sent_lies(void)
{
	AUTO(hm_frame_pool) *pool = frame_pool("host", HM_FRAME_WAIT, 1);
	struct hm_frame *frame = frame_acquire(pool), *got = NULL;
	AUTO(hm_device) *device = host();
	unsigned char header[1024];
	uint32_t words[64];
	ssize_t length;
	unsigned int i;
	int pair[2];

	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
	CHECK_OK(hm_frame_send(frame, pair[0], 0));
	/* The message of the object, without its descriptors, and then the header. */
	CHECK_FATAL(recv(pair[1], header, sizeof(header), 0) > 0);
	length = recv(pair[1], header, sizeof(header), 0);
	CHECK_FATAL(length > 0 && length <= (ssize_t)sizeof(words) && length % 4 == 0);
	for (i = 0; i < (unsigned int)length / 4; i++) {
		struct hm_frame_info info = frame_info(frame);
		int r;

		memcpy(words, header, (size_t)length);
		words[i] = 0xfffffff1;
		CHECK_OK_FATAL(hm_buffer_send(info.buffer[0], pair[0], 0));
		CHECK_FATAL(send(pair[0], words, (size_t)length, 0) == length);
		r = hm_frame_receive(device, pair[1], 0, &got);
		/* Not every word can be wrong, for example the format of a fresh kind. */
		CHECK(!r || r == -EPROTO || r == -EOPNOTSUPP);
		if (i < 4 || (i > 4 && i < 8))
			CHECK_EQUAL(r, -EPROTO);
		if (!r)
			hm_frame_unref(got);
	}
	CHECK_OK_FATAL(hm_buffer_send(frame_info(frame).buffer[0], pair[0], 0));
	CHECK_FATAL(send(pair[0], header, 8, 0) == 8);
	CHECK_ERROR(-EPROTO, hm_frame_receive(device, pair[1], 0, &got));
	/* A buffer alone, and then the end. */
	CHECK_OK_FATAL(hm_buffer_send(frame_info(frame).buffer[0], pair[0], 0));
	close(pair[0]);
	CHECK_ERROR(-ECONNRESET, hm_frame_receive(device, pair[1], 0, &got));
	close(pair[1]);
	hm_frame_unref(frame);
}

/* A device that may be taken away sends nothing, and says so before anything is under way. */
static void not_sent(void)
{
	AUTO(hm_frame_pool) *pool = NULL;
	struct hm_frame *frame;
	unsigned char byte;
	int pair[2];

	setenv("HETMAP_SOFT", "vram_mb=64 system_mb=64", 1);
	pool = frame_pool("soft:0", HM_FRAME_WAIT, 1);
	frame = frame_acquire(pool);
	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
	CHECK_ERROR(-EOPNOTSUPP, hm_frame_send(frame, pair[0], 0));
	CHECK_ERROR(-ENOTSOCK, hm_frame_send(frame, STDIN_FILENO, 0));
	CHECK(recv(pair[1], &byte, 1, MSG_DONTWAIT) < 0);
	close(pair[0]);
	close(pair[1]);
	hm_frame_unref(frame);
}

/* In the peer: sends its picture, and is killed. */
static int send_frame(struct peer_world *world, uint64_t salt, uint64_t b, uint64_t c)
{
	struct hm_frame_info info;
	struct hm_frame *frame;

	(void)b, (void)c;
	if (!producers_pool)
		producers_pool = frame_pool("host", HM_FRAME_WAIT, 8);
	frame = frame_acquire(producers_pool);
	info = frame_info(frame);
	frame_fill(&info, (uint32_t)salt);
	return hm_frame_send(frame, world->socket, 0);
}

static void sender_killed(void)
{
	struct hm_frame *frames[3], *none;
	AUTO(hm_device) *device = host();
	struct hm_frame_info info;
	struct peer peer;
	uint32_t i;
	int socket;

	peer_start(&peer, SOCK_STREAM, "host");
	for (i = 0; i < 3; i++)
		CHECK_EQUAL(peer_call(&peer, send_frame, i, 0, 0), 0);
	socket = dup(peer.socket); /* peer_kill() closes its own */
	CHECK_FATAL(socket >= 0);
	CHECK_OK_FATAL(hm_frame_receive(device, socket, 0, &frames[0]));
	peer_kill(&peer);
	/* Frames under way come all the same. */
	for (i = 1; i < 3; i++)
		CHECK_OK_FATAL(hm_frame_receive(device, socket, 0, &frames[i]));
	CHECK_ERROR(-ECONNRESET, hm_frame_receive(device, socket, 0, &none));
	for (i = 0; i < 3; i++) {
		info = frame_info(frames[i]);
		CHECK(frame_holds(&info, i));
		frame_fill(&info, 20);
		hm_frame_unref(frames[i]);
	}
	close(socket);
}

/* ---- failures ---- */

static void try_all(struct hm_device *device)
{
	struct hm_frame_objects objects = { .struct_size = sizeof(objects) };
	AUTO(hm_frame_pool) *pool = NULL;
	struct hm_frame *frame = NULL, *second = NULL, *other = NULL;
	bool exported = false;

	if (hm_frame_pool_create(device,
				 DESC(hm_frame_pool_desc, .fourcc = HM_FRAME_NV12, .width = 64,
				      .height = 32, .n_least = 1),
				 &pool))
		goto out;
	if (hm_frame_pool_acquire(pool, 0, &frame) || hm_frame_pool_acquire(pool, 0, &second))
		goto out;
	exported = !hm_frame_export(frame, 0, &objects);
	if (exported)
		(void)hm_frame_import(device, &objects, 0, &other);
out:
	if (exported)
		close_all(&objects);
	hm_frame_unref(other);
	hm_frame_unref(second);
	hm_frame_unref(frame);
	if (pool)
		frame_pool_info(pool);
}

/* The first, second, third... system call or allocation fails: nothing is left over. */
static void undone(void)
{
	AUTO(hm_device) *device = host();
	struct test_holding before;
	unsigned int n;

	make_table();
	inject_install();
	try_all(device);
	before = test_holding_now();
	for (n = 1; n < 400; n++) {
		inject_arm(n, INJECT_ONE);
		try_all(device);
		if (!inject_disarm())
			break;
		inject_forgive();
		test_holding_same(&before);
	}
	CHECK(n > 10 && n < 400);
}

static const struct test tests[] = {
	{ .name = "memfd", .run = memfd },
	{ .name = "dmabuf", .run = dmabuf },
	{ .name = "several_objects", .run = several_objects },
	{ .name = "same_object", .run = same_object },
	{ .name = "side_by_side", .run = side_by_side },
	{ .name = "lies", .run = lies },
	{ .name = "read_only", .run = read_only },
	{ .name = "producer_killed", .run = producer_killed },
	{ .name = "sent", .run = sent },
	{ .name = "sent_lies", .run = sent_lies },
	{ .name = "not_sent", .run = not_sent },
	{ .name = "sender_killed", .run = sender_killed },
	{ .name = "undone", .run = undone },
	{ .name = NULL },
};

TEST_MAIN(harness_main, "frame_objects", tests)
