// SPDX-License-Identifier: MIT
/* Frame pools as their users see them: facts, policies, order, the end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "frame/frame_support.h"
#include "lib/rig.h"

/* The facts of a fresh frame, whose addresses are unified pointers. */
static void facts(void)
{
	AUTO(hm_frame_pool) *pool = frame_pool("host", HM_FRAME_WAIT, 2);
	struct hm_frame *frame = frame_acquire(pool);
	struct hm_frame_info info = frame_info(frame);
	struct hm_pointer_info at;
	struct hm_buffer_info buffer;
	uint32_t i;

	CHECK(info.fourcc == HM_FRAME_NV12 && info.modifier == HM_FRAME_LINEAR);
	CHECK(info.width == 64 && info.height == 32 && info.n_planes == 2);
	CHECK(!info.flags && info.n_objects == 1 && !info.index && info.serial == 1);
	CHECK(info.refs == 1 && !info.n_fences);
	CHECK(info.props.visible.width == 64 && info.props.visible.height == 32);
	CHECK(info.props.primaries == 2 && info.props.transfer == 2 && info.props.matrix == 2);
	CHECK(!info.props.range && info.props.timestamp == HM_FRAME_NO_TIME);
	CHECK(info.plane[0].rows == 32 && info.plane[1].rows == 16);
	for (i = 0; i < 2; i++) {
		CHECK_EQUAL(hm_pointer_find(info.address[i], &at), 0);
		CHECK(at.map == info.map[0] && at.buffer == info.buffer[0]);
		CHECK_EQUAL((char *)info.address[i] - (char *)at.base, info.plane[i].offset);
	}
	buffer = buffer_info(info.buffer[0]);
	CHECK_EQUAL(buffer.size, frame_pool_info(pool).layout.bytes);
	CHECK(is_zero(info.address[0], 0, buffer.size));
	frame_fill(&info, 3);
	CHECK(frame_holds(&info, 3) && !frame_holds(&info, 4));
	CHECK(hm_frame_ref(frame) == frame && frame_info(frame).refs == 2);
	hm_frame_unref(frame);
	hm_frame_unref(frame);
	/* The frame that came back last goes out first, with its bytes and without its facts. */
	frame = frame_acquire(pool);
	info = frame_info(frame);
	CHECK(frame_holds(&info, 3) && info.serial == 2 && !info.index);
	hm_frame_unref(frame);
	CHECK(!hm_frame_ref(NULL));
	hm_frame_unref(NULL);
}

static void set_facts(void)
{
	AUTO(hm_frame_pool) *pool = frame_pool("host", HM_FRAME_WAIT, 2);
	struct hm_frame *frame = frame_acquire(pool);
	struct hm_frame_props props = {
		.visible = { 2, 4, 60, 28 },
		.primaries = 9,
		.transfer = 16,
		.matrix = 9,
		.range = HM_FRAME_RANGE_LIMITED,
		.chroma = 3,
		.time_base_num = 1001,
		.time_base_den = 60000,
		.timestamp = -5,
		.duration = 1,
	};
	const uint32_t all = HM_FRAME_VISIBLE | HM_FRAME_COLOUR | HM_FRAME_TIME;
	struct hm_frame_props wrong[7], got;
	uint32_t i;

	for (i = 0; i < 7; i++)
		wrong[i] = props;
	wrong[0].visible.width = 63;
	wrong[1].visible = (struct hm_frame_rect){ 0, UINT32_MAX, 1, 2 };
	wrong[2].visible.height = 0;
	wrong[3].matrix = 256;
	wrong[4].range = 3;
	wrong[5].chroma = 7;
	wrong[6].time_base_den = 0;
	for (i = 0; i < 7; i++)
		CHECK_ERROR(-EINVAL, hm_frame_set(frame, all, &wrong[i]));
	CHECK_ERROR(-EINVAL, hm_frame_set(frame, 0, &props));
	CHECK_ERROR(-EINVAL, hm_frame_set(frame, 8, &props));
	CHECK_ERROR(-EINVAL, hm_frame_set(frame, all, NULL));
	CHECK_EQUAL(frame_info(frame).props.visible.width, 64);
	CHECK_OK(hm_frame_set(frame, HM_FRAME_COLOUR, &props));
	CHECK(frame_info(frame).props.matrix == 9 && frame_info(frame).props.chroma == 3);
	CHECK(frame_info(frame).props.visible.width == 64);
	CHECK(frame_info(frame).props.timestamp == HM_FRAME_NO_TIME);
	CHECK_OK(hm_frame_set(frame, all, &props));
	got = frame_info(frame).props;
	CHECK(!memcmp(&got, &props, sizeof(props)));
	CHECK_OK(hm_frame_publish(frame));
	CHECK_EQUAL(frame_info(frame).flags, HM_FRAME_PUBLISHED);
	CHECK_ERROR(-EBUSY, hm_frame_set(frame, HM_FRAME_TIME, &props));
	CHECK_ERROR(-EBUSY, hm_frame_publish(frame));
	hm_frame_unref(frame);
	frame = frame_take(pool);
	CHECK_ERROR(-EBUSY, hm_frame_publish(frame));
	CHECK_EQUAL(frame_info(frame).props.timestamp, -5);
	hm_frame_unref(frame);
	frame = frame_acquire(pool);
	CHECK_OK(hm_frame_set(frame, HM_FRAME_TIME, &props));
	hm_frame_unref(frame);
}

/* ---- policies ---- */

static void waits(void)
{
	struct hm_frame_pool *pool = frame_pool("host", HM_FRAME_WAIT, 2);
	struct hm_frame *one = frame_acquire(pool), *two = frame_acquire(pool), *none = NULL;
	struct hm_frame_pool_info info;

	CHECK(frame_info(two).index == 1 && one != two);
	CHECK_ERROR(-ETIME, hm_frame_pool_acquire(pool, 0, &none));
	CHECK(strstr(hm_errmsg(), "of 2 frames, 2 are held, 0 are ready"));
	CHECK_ERROR(-ETIME, hm_frame_pool_acquire(pool, 2000000, &none));
	CHECK_OK(hm_frame_publish(one));
	CHECK_ERROR(-ETIME, hm_frame_pool_acquire(pool, 0, &none));
	CHECK(strstr(hm_errmsg(), "1 are held, 1 are ready"));
	CHECK(!none);
	info = frame_pool_info(pool);
	CHECK(info.frames == 2 && info.held == 1 && info.ready == 1 && !info.free);
	CHECK(info.waited == 1 && info.waited_ns >= 2000000);
	CHECK(!info.dropped_oldest && !info.dropped_newest);
	hm_frame_unref(one);
	hm_frame_unref(two);
	CHECK_EQUAL(frame_consume(pool), HM_FRAME_NO_TIME);
	CHECK_EQUAL(frame_pool_info(pool).free, 2);
	CHECK_ERROR(-ETIME, hm_frame_pool_take(pool, 1000000, &none));
	hm_frame_pool_unref(pool);
}

static void drops_oldest(void)
{
	struct hm_frame_pool *pool = frame_pool("host", HM_FRAME_DROP_OLDEST, 3);
	struct hm_frame *held, *other, *last, *none;
	int64_t i;

	for (i = 0; i < 10; i++)
		frame_produce(pool, i);
	CHECK_EQUAL(frame_pool_info(pool).dropped_oldest, 7);
	CHECK_EQUAL(frame_consume(pool), 7);
	/* A picture with another holder is no candidate. */
	held = frame_take(pool);
	CHECK_EQUAL(frame_info(held).props.timestamp, 8);
	frame_produce(pool, 10);
	frame_produce(pool, 11);
	CHECK_EQUAL(frame_pool_info(pool).dropped_oldest, 8);
	other = frame_acquire(pool);
	CHECK_EQUAL(frame_pool_info(pool).dropped_oldest, 9);
	last = frame_acquire(pool);
	CHECK_EQUAL(frame_pool_info(pool).ready, 0);
	CHECK_OK(hm_frame_publish(last));
	CHECK_ERROR(-ETIME, hm_frame_pool_acquire(pool, 3000000, &none));
	hm_frame_unref(last);
	none = frame_acquire(pool);
	CHECK(none == last);
	CHECK_EQUAL(frame_pool_info(pool).dropped_oldest, 11);
	hm_frame_unref(none);
	hm_frame_unref(held);
	hm_frame_unref(other);
	CHECK_EQUAL(frame_pool_info(pool).free, 3);
	hm_frame_pool_unref(pool);
}

static void drops_newest(void)
{
	struct hm_frame_pool *pool = frame_pool("host", HM_FRAME_DROP_NEWEST, 2);
	struct hm_frame *none = NULL;

	frame_produce(pool, 0);
	frame_produce(pool, 1);
	/* At once, however long the call might wait. */
	CHECK_ERROR(-ENOBUFS, hm_frame_pool_acquire(pool, UINT64_MAX, &none));
	CHECK_ERROR(-ENOBUFS, hm_frame_pool_acquire(pool, 0, &none));
	CHECK(!none);
	CHECK_EQUAL(frame_consume(pool), 0);
	frame_produce(pool, 4);
	CHECK_EQUAL(frame_consume(pool), 1);
	CHECK_EQUAL(frame_consume(pool), 4);
	CHECK_EQUAL(frame_pool_info(pool).dropped_newest, 2);
	CHECK_EQUAL(frame_pool_info(pool).acquired, 3);
	hm_frame_pool_unref(pool);
}

/* ---- making, trimming, ending ---- */

static void refused(void)
{
	const struct hm_frame_pool_desc good = {
		.struct_size = sizeof(good),
		.fourcc = HM_FRAME_NV12,
		.width = 64,
		.height = 32,
	};
	struct hm_frame_pool_desc desc = good;
	struct hm_frame_pool *pool = NULL;
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_device) *file = rig_device("file");

	CHECK_ERROR(-EOPNOTSUPP, hm_frame_pool_create(file, &desc, &pool));
	CHECK_ERROR(-EINVAL, hm_frame_pool_create(device, NULL, &pool));
	CHECK_ERROR(-EINVAL, hm_frame_pool_create(device, &desc, NULL));
	desc.flags = 2;
	CHECK_ERROR(-EINVAL, hm_frame_pool_create(device, &desc, &pool));
	desc = good;
	desc.policy = 3;
	CHECK_ERROR(-EINVAL, hm_frame_pool_create(device, &desc, &pool));
	desc = good;
	desc.reserved = 1;
	CHECK_ERROR(-EINVAL, hm_frame_pool_create(device, &desc, &pool));
	desc = good;
	desc.n_least = 3;
	desc.n_most = 2;
	CHECK_ERROR(-EINVAL, hm_frame_pool_create(device, &desc, &pool));
	desc = good;
	desc.name = "a name of forty-nine bytes, which is one too many";
	CHECK_ERROR(-EINVAL, hm_frame_pool_create(device, &desc, &pool));
	desc = good;
	desc.visible = (struct hm_frame_rect){ 1, 0, 64, 32 };
	CHECK_ERROR(-EINVAL, hm_frame_pool_create(device, &desc, &pool));
	desc = good;
	desc.modifier = 0x0100000000000001ull;
	CHECK_ERROR(-EOPNOTSUPP, hm_frame_pool_create(device, &desc, &pool));
	CHECK(strstr(hm_errmsg(), "0x0100000000000001"));
	desc = good;
	desc.fourcc = HM_FRAME_FOURCC('N', 'O', 'N', 'E');
	CHECK_ERROR(-EOPNOTSUPP, hm_frame_pool_create(device, &desc, &pool));
	desc = good;
	desc.height = UINT32_MAX;
	desc.width = UINT32_MAX;
	desc.fourcc = HM_FRAME_XRGB8888;
	CHECK_ERROR(-EOVERFLOW, hm_frame_pool_create(device, &desc, &pool));
	CHECK(!pool);
}

/* A driver's own planes: taken as they are, or refused. */
static void layouts(void)
{
	struct hm_frame_layout layout = {
		.n_planes = 2,
		.bytes = 12288,
		.plane = { { .stride = 100 },
			   { .offset = 8192, .stride = 100, .bytes = 1600 } },
	};
	struct hm_frame_pool_desc desc = {
		.struct_size = sizeof(desc),
		.fourcc = HM_FRAME_NV12,
		.width = 64,
		.height = 32,
		.layout = &layout,
	};
	struct hm_frame_layout good = layout;
	AUTO(hm_device) *device = rig_device("host");
	struct hm_frame_pool *pool = rig_frame_pool(device, &desc);
	struct hm_frame *frame = frame_acquire(pool);
	struct hm_frame_info info = frame_info(frame);

	CHECK(info.plane[0].stride == 100 && info.plane[0].bytes == 3200);
	CHECK(info.plane[0].rows == 32 && info.plane[1].rows == 16);
	CHECK_EQUAL((char *)info.address[1] - (char *)info.address[0], 8192);
	frame_fill(&info, 1);
	CHECK(frame_holds(&info, 1));
	hm_frame_unref(frame);
	hm_frame_pool_unref(pool);
	layout.plane[0].stride = 63;
	CHECK_ERROR(-EINVAL, hm_frame_pool_create(device, &desc, &pool));
	layout = good;
	layout.plane[1].offset = 3199;
	CHECK_ERROR(-EINVAL, hm_frame_pool_create(device, &desc, &pool));
	CHECK(strstr(hm_errmsg(), "share bytes"));
	layout.plane[1].offset = 12288 - 1599;
	CHECK_ERROR(-ERANGE, hm_frame_pool_create(device, &desc, &pool));
	layout = good;
	layout.plane[1].object = 1;
	CHECK_ERROR(-EINVAL, hm_frame_pool_create(device, &desc, &pool));
	layout = good;
	layout.n_planes = 1;
	CHECK_ERROR(-EINVAL, hm_frame_pool_create(device, &desc, &pool));
	layout.n_planes = 5;
	CHECK_ERROR(-EINVAL, hm_frame_pool_create(device, &desc, &pool));
	layout = good;
	layout.plane[0].stride = 1ull << 61;
	CHECK_ERROR(-EOVERFLOW, hm_frame_pool_create(device, &desc, &pool));
	layout = good;
	layout.bytes = 0;
	CHECK_ERROR(-EINVAL, hm_frame_pool_create(device, &desc, &pool));
	/* Unknown properties are carried: a tiled picture, a format of next year. */
	layout = good;
	layout.plane[0] = (struct hm_frame_plane){ .bytes = 8192 };
	desc.modifier = 0x0100000000000001ull;
	desc.fourcc = HM_FRAME_FOURCC('N', 'E', 'X', 'T');
	CHECK_OK_FATAL(hm_frame_pool_create(device, &desc, &pool));
	frame = frame_acquire(pool);
	info = frame_info(frame);
	CHECK(info.modifier == desc.modifier && info.plane[0].bytes == 8192);
	CHECK(info.fourcc == desc.fourcc && !info.plane[0].rows);
	hm_frame_unref(frame);
	hm_frame_pool_unref(pool);
	desc.modifier = 0x00ffffffffffffffull;
	CHECK_ERROR(-EOPNOTSUPP, hm_frame_pool_create(device, &desc, &pool));
}

static void least_and_trim(void)
{
	struct hm_frame *frames[5];
	uint32_t n, i;
	struct hm_device *device = rig_device("host");
	AUTO(hm_frame_pool) *pool =
		rig_frame_pool(device, DESC(hm_frame_pool_desc, .flags = HM_FRAME_POOL_POPULATE,
					    .fourcc = HM_FRAME_R8, .width = 100, .height = 100,
					    .visible = { 10, 10, 50, 50 }, .n_least = 2));

	hm_device_unref(device);
	CHECK(frame_pool_info(pool).free == 2 && frame_pool_info(pool).frames == 2);
	CHECK(!strcmp(frame_pool_info(pool).name, "frame"));
	for (i = 0; i < 5; i++)
		frames[i] = frame_acquire(pool);
	CHECK_EQUAL(frame_info(frames[4]).props.visible.x, 10);
	CHECK(map_info(frame_info(frames[4]).map[0], HM_MAP_RESIDENT).resident >= 12288);
	CHECK_OK(hm_frame_pool_trim(pool, 0, &n));
	CHECK_EQUAL(n, 0);
	for (i = 0; i < 4; i++)
		hm_frame_unref(frames[i]);
	CHECK_OK(hm_frame_pool_trim(pool, 4, &n));
	CHECK_EQUAL(n, 1);
	CHECK_OK(hm_frame_pool_trim(pool, 0, NULL));
	CHECK(frame_pool_info(pool).frames == 2 && frame_pool_info(pool).frames_peak == 5);
	/* Indexes of frames that ended are used again. */
	for (i = 0; i < 4; i++)
		frames[i] = frame_acquire(pool);
	for (i = 0, n = 0; i < 5; i++)
		n |= 1u << frame_info(frames[i]).index;
	CHECK_EQUAL(n, 31);
	for (i = 0; i < 5; i++)
		hm_frame_unref(frames[i]);
}

/* More frames than a word of the pool's list of indexes has bits. */
static void many(void)
{
	AUTO(hm_frame_pool) *pool = frame_pool("host", HM_FRAME_WAIT, 0);
	static struct hm_frame *frames[300];
	uint32_t i;

	for (i = 0; i < 300; i++) {
		frames[i] = frame_acquire(pool);
		CHECK_EQUAL(frame_info(frames[i]).index, i);
	}
	for (i = 0; i < 300; i++)
		hm_frame_unref(frames[i]);
	CHECK_EQUAL(frame_pool_info(pool).free, 300);
}

static void ends(void)
{
	struct hm_frame_pool *pool = frame_pool("host", HM_FRAME_WAIT, 2);
	struct hm_frame *frame, *none;

	frame_produce(pool, 1);
	frame = frame_acquire(pool);
	CHECK_OK(hm_frame_pool_end(pool));
	CHECK_OK(hm_frame_pool_end(pool));
	CHECK_ERROR(-EPIPE, hm_frame_publish(frame));
	hm_frame_unref(frame);
	CHECK_ERROR(-EPIPE, hm_frame_pool_acquire(pool, UINT64_MAX, &none));
	CHECK_EQUAL(frame_consume(pool), 1);
	CHECK_ERROR(-EPIPE, hm_frame_pool_take(pool, UINT64_MAX, &none));
	CHECK_EQUAL(frame_pool_info(pool).ended, 1);
	hm_frame_pool_unref(pool);
}

/* Frames outlive the last reference to their pool; those in the queue do not. */
static void outlives(void)
{
	struct hm_frame_pool *pool = frame_pool("host", HM_FRAME_WAIT, 0);
	struct hm_frame *held = frame_acquire(pool), *both = frame_acquire(pool);
	struct hm_frame_info info;

	frame_produce(pool, 1);
	hm_frame_unref(frame_acquire(pool));
	CHECK_OK(hm_frame_publish(both));
	CHECK(hm_frame_pool_ref(pool) == pool);
	hm_frame_pool_unref(pool);
	CHECK_EQUAL(stats_now().buffers, 4);
	hm_frame_pool_unref(pool);
	CHECK_EQUAL(stats_now().buffers, 2);
	info = frame_info(held);
	frame_fill(&info, 9);
	info = frame_info(both);
	frame_fill(&info, 8);
	CHECK(frame_holds(&info, 8));
	CHECK_ERROR(-EBUSY, hm_frame_publish(both));
	/* The queue has ended: it must not keep a frame for ever. */
	CHECK_ERROR(-EPIPE, hm_frame_publish(held));
	CHECK(!frame_info(held).flags && frame_info(held).refs == 1);
	frame_stamp(held, 5);
	hm_frame_unref(held);
	hm_frame_unref(both);
	CHECK_EQUAL(stats_now().buffers, 0);
	CHECK(!hm_frame_pool_ref(NULL));
	hm_frame_pool_unref(NULL);
}

struct inherited {
	struct hm_frame_pool *pool;
	struct hm_frame *frame;
	const unsigned char *byte;
};

static void in_child(void *user)
{
	struct inherited *inherited = user;
	struct hm_frame_pool_info pool_info = { .struct_size = sizeof(pool_info) };
	struct hm_frame_info info = { .struct_size = sizeof(info) };
	struct hm_frame_pool *own;
	struct hm_frame *frame;

	CHECK_ERROR(-EOWNERDEAD, hm_frame_pool_acquire(inherited->pool, 0, &frame));
	CHECK_ERROR(-EOWNERDEAD, hm_frame_pool_take(inherited->pool, 0, &frame));
	CHECK_ERROR(-EOWNERDEAD, hm_frame_pool_query(inherited->pool, &pool_info));
	CHECK_ERROR(-EOWNERDEAD, hm_frame_query(inherited->frame, &info));
	CHECK_ERROR(-EOWNERDEAD, hm_frame_publish(inherited->frame));
	/* Memory of the host is inherited. */
	CHECK_EQUAL(*inherited->byte, 77);
	hm_frame_unref(inherited->frame);
	hm_frame_pool_unref(inherited->pool);
	own = frame_pool("host", HM_FRAME_WAIT, 1);
	frame_produce(own, 5);
	CHECK_EQUAL(frame_consume(own), 5);
	hm_frame_pool_unref(own);
}

static void forked(void)
{
	struct inherited inherited = { .pool = frame_pool("host", HM_FRAME_WAIT, 2) };
	struct hm_frame_info info;

	frame_produce(inherited.pool, 3);
	inherited.frame = frame_acquire(inherited.pool);
	info = frame_info(inherited.frame);
	*(unsigned char *)info.address[0] = 77;
	inherited.byte = info.address[0];
	CHECK_EQUAL(test_fork(in_child, &inherited), 0);
	CHECK_EQUAL(frame_info(inherited.frame).refs, 1);
	CHECK_EQUAL(frame_consume(inherited.pool), 3);
	hm_frame_unref(inherited.frame);
	CHECK_EQUAL(frame_pool_info(inherited.pool).free, 2);
	hm_frame_pool_unref(inherited.pool);
}

/* A page of the map has no memory any more, as a broken one: its file is empty. */
static void break_page(void *page)
{
	int fd = memfd_create("empty", MFD_CLOEXEC);

	CHECK_FATAL(fd >= 0);
	CHECK_FATAL(mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
		    page);
	close(fd);
}

/* A frame whose page was replaced is not given out again. */
static void replaced(void)
{
	AUTO(hm_frame_pool) *pool = frame_pool("host", HM_FRAME_WAIT, 1);
	struct hm_frame *frame = frame_acquire(pool);
	struct hm_frame_info info = frame_info(frame);
	AUTO(rig_handler) handler = rig_handler(0);

	frame_fill(&info, 1);
	break_page(info.address[0]);
	CHECK_EQUAL(*(volatile unsigned char *)info.address[0], 0);
	CHECK_ERROR(-EIO, hm_map_begin_cpu(info.map[0], 0, 4096, HM_READ));
	hm_frame_unref(frame);
	/* The pool has room for one frame only: the broken one was dropped. */
	frame = frame_acquire(pool);
	info = frame_info(frame);
	CHECK_OK(hm_map_begin_cpu(info.map[0], 0, 4096, HM_READ | HM_WRITE));
	frame_fill(&info, 2);
	CHECK_OK(hm_map_end_cpu(info.map[0], 0, 4096, HM_READ | HM_WRITE));
	CHECK_EQUAL(frame_pool_info(pool).frames, 1);
	hm_frame_unref(frame);
	/* One that is whole is given out again. */
	frame = frame_acquire(pool);
	info = frame_info(frame);
	CHECK(frame_holds(&info, 2));
	hm_frame_unref(frame);
}

static const struct test tests[] = {
	{ .name = "facts", .run = facts },
	{ .name = "set_facts", .run = set_facts },
	{ .name = "waits", .run = waits },
	{ .name = "drops_oldest", .run = drops_oldest },
	{ .name = "drops_newest", .run = drops_newest },
	{ .name = "refused", .run = refused },
	{ .name = "layouts", .run = layouts },
	{ .name = "least_and_trim", .run = least_and_trim },
	{ .name = "many", .run = many },
	{ .name = "ends", .run = ends },
	{ .name = "outlives", .run = outlives },
	{ .name = "forked", .run = forked },
	{ .name = "replaced", .run = replaced },
	{ .name = NULL },
};

TEST_MAIN(harness_main, "frame", tests)
