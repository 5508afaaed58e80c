// SPDX-License-Identifier: MIT
/* hm_combine where its map, or the source of a write, is lost, cut off or moved meanwhile. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "combine/combine.h"
#include "copy/copy_support.h"
#include "fault/guard_support.h"
#include "lib/minimal_backend.h"

#define SIZE (1u << 20)

static struct hm_combine *combine_make(struct hm_map *map, uint64_t lines)
{
	struct hm_combine *combine;

	CHECK_OK_FATAL(hm_combine_create(map, DESC(hm_combine_desc, .lines = lines), &combine));
	return combine;
}

#define LENGTH 3000u /* length of a write that succeeds */

/* From the first page of @from, and then from bytes that are lost: the error of the fault. */
static int write_in_scope(struct hm_combine *combine, const char *from,
			  struct hm_fault *ret_fault)
{
	struct hm_guard guard;
	int r;

	HM_GUARD_INIT(&guard);
	r = hm_guard_begin(&guard);
	if (r) {
		*ret_fault = guard.fault;
		return r;
	}
	(void)hm_combine_write(combine, 7, from + 100, LENGTH);
	(void)hm_combine_write(combine, 9000, from + 60000, 100);
	return hm_guard_end(&guard);
}

/* A fault at the bytes of a write, in a scope, leaves the combine usable. */
static void faulty_source(void)
{
	struct hm_fault fault = no_fault();
	AUTO(rig_handler) handler = rig_handler(HM_HANDLER_NO_REPAIR);
	AUTO(file_map) file = open_file_map(65536);
	AUTO(rig) to = device_map_open("host", 65536);
	AUTO(hm_combine) *combine = combine_make(to.map, 0);

	CHECK(!ftruncate(file.fd, 4096));
	CHECK_ERROR(-ERANGE, write_in_scope(combine, file.base, &fault));
	CHECK_EQUAL(fault.offset, 60000);
	CHECK_OK(hm_combine_flush(combine, NULL));
	CHECK(!memcmp(to.bytes + 7, file.base + 100, LENGTH));
	CHECK(is_zero(to.bytes, 7 + LENGTH, 65536));
	CHECK_EQUAL(combine_info(combine).writes, 1);
	CHECK_EQUAL(combine_info(combine).bytes, LENGTH);
}

/* ---- callbacks about a loss ---- */

struct told {
	struct hm_combine *combine; /* NULL: has no reference any more */
	unsigned int calls;
	uint64_t brackets; /* open ones, at the call */
};

/* May call the library: no lock is held, and no bracket of the call is open. */
static void drop_lines(struct hm_buffer *buffer, enum hm_loss_event event, void *user)
{
	struct hm_buffer_stats stats = { .struct_size = sizeof(stats) };
	struct told *told = user;

	CHECK_EQUAL(event, HM_LOSS_TAKEN);
	CHECK_OK(hm_buffer_stats_get(buffer, &stats));
	told->calls++;
	told->brackets = stats.brackets_open;
	if (told->combine)
		CHECK_OK(hm_combine_discard(told->combine));
}

static void open_told(struct rig *to, struct told *told)
{
	*to = device_map_open("fleeting", 65536);
	CHECK_OK_FATAL(hm_buffer_set_loss(to->buffer, DESC(hm_loss_desc, .policy = HM_LOSS_ZERO,
							   .lost = drop_lines, .user = told)));
	*told = (struct told){ .combine = combine_make(to->map, 1) };
	CHECK_OK(hm_combine_write(told->combine, 100, "lost", 4));
}

static void close_told(struct rig *to, struct told *told)
{
	CHECK_EQUAL(told->calls, 1);
	CHECK_EQUAL(told->brackets, 0);
	if (told->combine)
		CHECK_EQUAL(combine_info(told->combine).pending, 0);
	hm_combine_unref(told->combine);
	rig_drop(to);
	fleeting_come();
}

static void loss_is_told(void)
{
	int r = hm_backend_register(&fleeting_backend);
	struct hm_combine *last;
	struct rig to;
	struct told told;

	CHECK(!r || r == -EEXIST);
	open_told(&to, &told);
	fleeting_go();
	CHECK_ERROR(-ENODEV, hm_combine_flush(told.combine, NULL));
	close_told(&to, &told);

	open_told(&to, &told);
	fleeting_go();
	/* Its one line is taken. */
	CHECK_ERROR(-ENODEV, hm_combine_write(told.combine, 200, "more", 4));
	close_told(&to, &told);

	open_told(&to, &told);
	CHECK_OK(hm_map_begin_cpu(to.map, 0, 4096, HM_WRITE));
	fleeting_go();
	CHECK_ERROR(-ENODEV, hm_map_end_cpu(to.map, 0, 4096, HM_WRITE));
	close_told(&to, &told);

	open_told(&to, &told);
	fleeting_go();
	CHECK_ERROR(-ENODEV, hm_map_sync(to.map, 0, 4096, 0));
	close_told(&to, &told);

	open_told(&to, &told);
	last = told.combine;
	told.combine = NULL;
	fleeting_go();
	hm_combine_unref(last);
	close_told(&to, &told);
}

/* A line that can't be written is told by each end, and takes no other store from the shadow. */
static void others_are_kept(void)
{
	const struct hm_loss_desc loss = { .struct_size = sizeof(loss),
					   .policy = HM_LOSS_SHADOW };
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc),
					     .size = 4 * (2u << 20),
					     .max_size = 4 * (2u << 20) };
	const uint64_t half = desc.size / 2;
	struct hm_device_info info = { .struct_size = sizeof(info) };
	int r = hm_backend_register(&fleeting_backend);
	struct hm_combine *combine;
	struct rig to;

	CHECK(!r || r == -EEXIST);
	to = rig_make("fleeting", &desc);
	CHECK_OK_FATAL(hm_buffer_set_loss(to.buffer, &loss));
	combine = combine_make(to.map, 0);
	CHECK_OK(hm_map_begin_cpu(to.map, 0, 4096, HM_WRITE));
	CHECK_OK(hm_map_begin_cpu(to.map, half - 4096, 8192, HM_WRITE));
	CHECK_OK(hm_map_begin_cpu(to.map, half, 4096, HM_WRITE));
	CHECK_OK(hm_combine_write(combine, half + 100, "far", 3));
	CHECK_OK_FATAL(hm_buffer_resize(to.buffer, half, 0));
	memcpy(to.bytes, "near", 4);
	memcpy(to.bytes + half - 4, "last", 4);
	CHECK_ERROR(-ERANGE, hm_map_end_cpu(to.map, 0, 4096, HM_WRITE));
	/* Cut off in part, and wholly. */
	CHECK_ERROR(-ERANGE, hm_map_end_cpu(to.map, half - 4096, 8192, HM_WRITE));
	CHECK_ERROR(-ERANGE, hm_map_end_cpu(to.map, half, 4096, HM_WRITE));
	CHECK_EQUAL(map_info(to.map, 0).brackets, 0);
	fleeting_go();
	CHECK_ERROR(-ENODEV, hm_device_query(to.device, &info));
	CHECK(!memcmp(to.bytes, "near", 4) && !memcmp(to.bytes + half - 4, "last", 4));
	hm_combine_unref(combine);
	rig_drop(&to);
	fleeting_come();
}

/* ---- in a callback of a view ---- */

struct viewed {
	struct hm_map *map;
	struct hm_combine *combine;
	uint32_t access; /* to change to */
	int r;           /* result of the flush */
};

static int flush_before(void *user, const struct hm_view_change *change)
{
	struct viewed *viewed = user;

	(void)change;
	viewed->r = hm_combine_flush(viewed->combine, NULL);
	return 0;
}

static void *change_rights(void *user)
{
	struct viewed *viewed = user;

	CHECK_OK(hm_map_protect(viewed->map, 0, 4096, viewed->access));
	return NULL;
}

/*
 * A thread that writes a combine out may wait for the change that calls the view: the view's own
 * flush must not wait for that thread for ever.
 */
static void in_callback(void)
{
	const struct hm_view_ops ops = { .struct_size = sizeof(ops), .quiesce = flush_before };
	struct viewed viewed = { .access = HM_READ };
	struct timespec due;
	pthread_t thread;
	int r;
	AUTO(rig) to = device_map_open("host", 65536);
	AUTO(hm_view) *view = NULL;

	viewed.map = to.map;
	viewed.combine = combine_make(to.map, 0);
	CHECK_OK_FATAL(hm_view_create(to.map, 0, 4096, &ops, &viewed, &view));
	CHECK_OK(hm_combine_write(viewed.combine, 10, "before", 6));
	change_rights(&viewed);
	CHECK_EQUAL(viewed.r, 0);
	CHECK(!memcmp(to.bytes + 10, "before", 6));
	CHECK_OK(hm_combine_write(viewed.combine, 10, "behind", 6));
	viewed.access = HM_READ | HM_WRITE;
	/* As a thread does that writes it out. */
	pthread_mutex_lock(&viewed.combine->lock);
	CHECK_FATAL(!pthread_create(&thread, NULL, change_rights, &viewed));
	clock_gettime(CLOCK_REALTIME, &due);
	due.tv_sec += 8;
	r = pthread_timedjoin_np(thread, NULL, &due);
	pthread_mutex_unlock(&viewed.combine->lock);
	CHECK_EQUAL(r, 0);
	if (r)
		pthread_join(thread, NULL);
	CHECK_EQUAL(viewed.r, -EAGAIN);
	CHECK_OK(hm_combine_flush(viewed.combine, NULL));
	CHECK(!memcmp(to.bytes + 10, "behind", 6));
	hm_combine_unref(viewed.combine);
}

/* A map that moves while its lines are written out: no line goes to its place of before. */
struct mover {
	struct hm_combine *combine;
	_Atomic bool stop;
	uint32_t last;
};

static void *write_and_flush(void *user)
{
	struct mover *mover = user;
	int r = 0;

	while (!r && !atomic_load(&mover->stop)) {
		mover->last++;
		r = hm_combine_write(mover->combine, 128, &mover->last, sizeof(mover->last));
		if (!r)
			r = hm_combine_flush(mover->combine, NULL);
		/* Changes of the map may last longer than the call's patience. */
		r = r == -EAGAIN ? 0 : r;
	}
	if (r)
		test_fail(__FILE__, __LINE__, "%s", hm_errmsg());
	return NULL;
}

static void move_once(bool handler)
{
	struct mover mover = { .last = 0 };
	struct rig to;
	pthread_t thread;
	uint64_t most;
	int r;

	if (handler)
		CHECK_OK_FATAL(hm_handler_install(0));
	to = rig_make("host", DESC(hm_buffer_desc, .size = 4096));
	mover.combine = combine_make(to.map, 1);
	CHECK_FATAL(!pthread_create(&thread, NULL, write_and_flush, &mover));
	do {
		most = buffer_info(to.buffer).max_size;
		r = hm_buffer_resize(to.buffer, most + 1, HM_MAY_MOVE);
	} while (!r && most < SIZE);
	CHECK_EQUAL(r, 0);
	atomic_store(&mover.stop, true);
	pthread_join(thread, NULL);
	/* Bytes written during the copy may be lost. */
	mover.last++;
	CHECK_OK(hm_combine_write(mover.combine, 128, &mover.last, sizeof(mover.last)));
	CHECK_OK(hm_combine_flush(mover.combine, NULL));
	to.bytes = hm_map_address(to.map);
	CHECK(!memcmp(to.bytes + 128, &mover.last, sizeof(mover.last)));
	hm_combine_unref(mover.combine);
	rig_drop(&to);
	if (handler)
		CHECK_OK(hm_handler_remove());
}

static void moved(void)
{
	unsigned int i, n = test_is_slow() ? 5 : 50;

	for (i = 0; i < n; i++)
		move_once(i & 1);
}

static const struct test tests[] = {
	{ .name = "faulty_source", .run = faulty_source },
	{ .name = "loss_is_told", .run = loss_is_told },
	{ .name = "others_are_kept", .run = others_are_kept },
	{ .name = "in_callback", .run = in_callback },
	{ .name = "moved", .run = moved, .seconds = 60 },
	{ .name = NULL },
};

TEST_MAIN(harness_main, "combine_changes", tests)
