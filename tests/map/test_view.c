// SPDX-License-Identifier: MIT
/*
 * Views of callers: io_uring's registered buffers as the example of a user
 * outside the CPU that must be told before a map changes, and may refuse.
 */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "config.h"
#ifdef HAVE_LIBURING
#include <liburing.h>
#endif

#include "core/buffer.h"
#include "change/resize.h"
#include "lib/support.h"

#define SIZE (16 * PAGE)

static struct rig make(uint64_t max_size)
{
	return rig_make("host", DESC(hm_buffer_desc, .size = SIZE, .max_size = max_size));
}

/* ---- changes that a view hears of ---- */

struct log {
	char order[64]; /* q, i, r as they came */
	struct hm_view_change last;
	int refuse;
	struct hm_map *map; /* to try forbidden things on */
	struct hm_buffer *buffer, *other;
	int r_protect, r_resize, r_install, r_remove, r_chained, r_query, r_loss;
};

static void note(struct log *log, char what, const struct hm_view_change *change)
{
	size_t n = strlen(log->order);

	if (n + 1 < sizeof(log->order))
		log->order[n] = what;
	log->last = *change;
}

/* Tries calls that wait for changes of other maps, or for callbacks that may. */
static void try_elsewhere(struct log *log)
{
	struct hm_handler_info info = { .struct_size = sizeof(info) };

	log->r_install = hm_handler_install(0);
	log->r_remove = hm_handler_remove();
	log->r_chained = hm_handler_chained();
	log->r_query = hm_handler_query(&info);
	log->r_loss = hm_buffer_set_loss(log->other, DESC(hm_loss_desc));
}

static int on_quiesce(void *user, const struct hm_view_change *change)
{
	struct log *log = user;

	note(log, 'q', change);
	if (log->map)
		log->r_protect = hm_map_protect(log->map, 0, PAGE, HM_READ);
	if (log->other)
		try_elsewhere(log);
	if (log->buffer)
		log->r_resize = hm_buffer_resize(log->buffer, PAGE, 0);
	return log->refuse;
}

static void on_invalidate(void *user, const struct hm_view_change *change)
{
	note(user, 'i', change);
}

static void on_reattach(void *user, const struct hm_view_change *change)
{
	note(user, 'r', change);
}

static const struct hm_view_ops logging = {
	.struct_size = sizeof(logging),
	.quiesce = on_quiesce,
	.invalidate = on_invalidate,
	.reattach = on_reattach,
};

static void order(void)
{
	struct log log = { .refuse = 0 };
	struct hm_view *view;
	AUTO(rig) s = make(2 * SIZE);

	CHECK_OK_FATAL(hm_view_create(s.map, 0, 0, &logging, &log, &view));
	CHECK_OK(hm_buffer_resize(s.buffer, PAGE, 0));
	CHECK(!strcmp(log.order, "qir"));
	CHECK_EQUAL(log.last.old_length, SIZE);
	CHECK_EQUAL(log.last.new_length, PAGE);
	CHECK_OK(hm_map_protect(s.map, 0, PAGE, HM_READ));
	CHECK(!strcmp(log.order, "qirqir"));
	CHECK_EQUAL(log.last.new_access, HM_READ);
	hm_view_unref(view);
	CHECK_OK(hm_map_protect(s.map, 0, PAGE, HM_READ | HM_WRITE));
	CHECK(!strcmp(log.order, "qirqir"));
}

/* A view hears only of changes that touch its range. */
static void ranges(void)
{
	struct log first = { .refuse = 0 }, last = { .refuse = 0 };
	struct hm_view *views[2];
	AUTO(rig) s = make(2 * SIZE);

	CHECK_OK_FATAL(hm_view_create(s.map, 5, 100, &logging, &first, &views[0]));
	CHECK_OK_FATAL(hm_view_create(s.map, SIZE - 10, 10, &logging, &last, &views[1]));
	CHECK_OK(hm_map_protect(s.map, 0, PAGE, HM_READ));
	CHECK(!strcmp(first.order, "qir"));
	CHECK(!strcmp(last.order, ""));
	CHECK(first.last.old_address == (char *)hm_map_address(s.map) + 5);
	CHECK_EQUAL(first.last.old_length, 100);
	CHECK_OK(hm_buffer_resize(s.buffer, SIZE - PAGE, 0));
	CHECK(!strcmp(first.order, "qir"));
	CHECK(!strcmp(last.order, "qir"));
	CHECK_EQUAL(last.last.new_length, 0);
	hm_view_unref(views[0]);
	hm_view_unref(views[1]);
}

static void moved(void)
{
	struct log log = { .refuse = 0 };
	AUTO(rig) s = make(0);
	void *old = hm_map_address(s.map);
	AUTO(hm_view) *view = NULL;

	CHECK_OK_FATAL(hm_view_create(s.map, PAGE, PAGE, &logging, &log, &view));
	log.refuse = -EAGAIN;
	CHECK_ERROR(-EBUSY, hm_buffer_resize(s.buffer, 100 * SIZE, HM_MAY_MOVE));
	CHECK(!strcmp(log.order, "q"));
	CHECK(hm_map_address(s.map) == old);
	log.refuse = 0;
	CHECK_OK(hm_buffer_resize(s.buffer, 100 * SIZE, HM_MAY_MOVE));
	CHECK(!strcmp(log.order, "qqir"));
	CHECK(log.last.old_address == (char *)old + PAGE);
	CHECK(log.last.new_address == (char *)hm_map_address(s.map) + PAGE);
	CHECK_EQUAL(log.last.new_length, PAGE);
}

/* A callback that changes its own map is told so instead of hanging. */
static void forbidden(void)
{
	struct log log = { .refuse = 0 };
	AUTO(rig) s = make(2 * SIZE);
	AUTO(hm_view) *view = NULL;

	/* A resize then has locked another map before it comes to this one. */
	AUTO(hm_map) *before = rig_map(s.buffer, NULL);
	AUTO(hm_map) *behind = rig_map(s.buffer, NULL);
	log.map = s.map;
	AUTO(rig) other = make(2 * SIZE);
	log.other = other.buffer;
	log.buffer = s.buffer;
	CHECK_OK_FATAL(hm_view_create(s.map, 0, 0, &logging, &log, &view));
	CHECK_OK(hm_map_protect(s.map, 0, PAGE, HM_READ));
	CHECK_EQUAL(log.r_protect, -EDEADLK);
	CHECK_EQUAL(log.r_resize, -EDEADLK);
	CHECK_EQUAL(log.r_install, -EDEADLK);
	CHECK_EQUAL(log.r_remove, -EDEADLK);
	CHECK_EQUAL(log.r_chained, -EDEADLK);
	CHECK_EQUAL(log.r_query, -EDEADLK);
	CHECK_EQUAL(log.r_loss, -EDEADLK);
	/* Nothing of it was done. */
	CHECK_ERROR(-EINVAL, hm_handler_remove());
	CHECK_OK(hm_buffer_resize(s.buffer, 2 * PAGE, 0));
	CHECK_EQUAL(log.r_protect, -EDEADLK);
	CHECK_EQUAL(log.r_resize, -EDEADLK);
	CHECK_EQUAL(hm_map_length(before), 2 * PAGE);
	CHECK_EQUAL(hm_map_length(behind), 2 * PAGE);
}

/* A change inside a change of the same map is found out before anything is done. */
static void locked_twice(void)
{
	struct hm_map *first;
	struct resize_set set;
	AUTO(rig) s = make(2 * SIZE);
	AUTO(hm_map) *other = rig_map(s.buffer, NULL);

	/* The lower one comes first in the lock order. */
	first = hm_map_address(other) < hm_map_address(s.map) ? other : s.map;
	CHECK_OK_FATAL(buffer_lock(s.buffer));
	CHECK_OK_FATAL(remap_lock(first));
	CHECK_ERROR(-EDEADLK, resize_set_begin(s.buffer, &set));
	remap_unlock(first);
	buffer_unlock(s.buffer);
	CHECK_OK(hm_buffer_resize(s.buffer, PAGE, 0));
	CHECK_EQUAL(hm_map_length(other), PAGE);
}

/* More views than any fixed table holds; the last one refuses. */
#define MANY 40

static void many(void)
{
	struct log logs[MANY];
	struct hm_view *views[MANY];
	int i;

	memset(logs, 0, sizeof(logs));
	AUTO(rig) s = make(2 * SIZE);
	for (i = 0; i < MANY; i++)
		CHECK_OK_FATAL(hm_view_create(s.map, 0, 0, &logging, &logs[i], &views[i]));
	logs[MANY - 1].refuse = -1;
	CHECK_ERROR(-EBUSY, hm_buffer_resize(s.buffer, PAGE, 0));
	for (i = 0; i < MANY - 1; i++)
		CHECK(!strcmp(logs[i].order, "qr"));
	CHECK_EQUAL(logs[0].last.new_length, SIZE); /* given up: the length that stays */
	logs[MANY - 1].refuse = 0;
	CHECK_OK(hm_buffer_resize(s.buffer, PAGE, 0));
	for (i = 0; i < MANY; i++)
		CHECK_EQUAL(logs[i].last.new_length, PAGE);
	for (i = 0; i < MANY; i++)
		hm_view_unref(views[i * 7 % MANY]);
}

/* A callback may end any other map, of the same buffer as well. */
static int end_map(void *user, const struct hm_view_change *change)
{
	struct hm_map **map = user;

	(void)change;
	hm_map_unref(*map);
	*map = NULL;
	return 0;
}

static void ends_map(void)
{
	static const struct hm_view_ops ops = {
		.struct_size = sizeof(ops),
		.quiesce = end_map,
	};
	struct hm_map_desc desc = {
		.struct_size = sizeof(desc),
		.access = HM_READ,
		.length = PAGE,
	};
	struct hm_map *other;
	AUTO(rig) s = make(2 * SIZE);
	AUTO(hm_view) *view = NULL;

	CHECK_OK_FATAL(hm_map_create(s.buffer, &desc, &other));
	CHECK_OK_FATAL(hm_view_create(s.map, 0, 0, &ops, &other, &view));
	CHECK_OK(hm_buffer_resize(s.buffer, PAGE, 0));
	CHECK(!other);
	CHECK_EQUAL(buffer_info(s.buffer).maps, 1);
	CHECK_OK_FATAL(hm_map_create(s.buffer, &desc, &other));
	CHECK_OK(hm_map_protect(s.map, 0, PAGE, HM_READ));
	CHECK(!other);
	CHECK_EQUAL(buffer_info(s.buffer).maps, 1);
}

/* A view that ends in its own callback is gone when the change is done. */
struct ending {
	struct hm_view *view;
	int n_reattach;
};

static int end_myself(void *user, const struct hm_view_change *change)
{
	struct ending *ending = user;

	(void)change;
	hm_view_unref(ending->view);
	return 0;
}

static void count_reattach(void *user, const struct hm_view_change *change)
{
	struct ending *ending = user;

	(void)change;
	ending->n_reattach++;
}

static void ends_in_callback(void)
{
	static const struct hm_view_ops ops = {
		.struct_size = sizeof(ops),
		.quiesce = end_myself,
		.reattach = count_reattach,
	};
	struct ending ending = { .n_reattach = 0 };
	AUTO(rig) s = make(2 * SIZE);

	CHECK_OK_FATAL(hm_view_create(s.map, 0, 0, &ops, &ending, &ending.view));
	CHECK_OK(hm_buffer_resize(s.buffer, PAGE, 0));
	CHECK_EQUAL(ending.n_reattach, 0);
	CHECK_EQUAL(map_info(s.map, 0).views, 0);
	CHECK_EQUAL(stats_now().views, 0);
}

/* A view that refuses, and one that the change does not touch, can end themselves too. */
static int end_and_refuse(void *user, const struct hm_view_change *change)
{
	end_myself(user, change);
	return -EBUSY;
}

static void ends_without_change(void)
{
	static const struct hm_view_ops refusing = {
		.struct_size = sizeof(refusing),
		.quiesce = end_and_refuse,
	};
	static const struct hm_view_ops ending_other = {
		.struct_size = sizeof(ending_other),
		.quiesce = end_myself,
	};
	static const struct hm_view_ops nothing = { .struct_size = sizeof(nothing) };
	struct ending ending = { .n_reattach = 0 };
	struct hm_map *maps[2];
	struct hm_view *view;
	int i;
	AUTO(rig) s = make(2 * SIZE);

	CHECK_OK_FATAL(hm_view_create(s.map, 0, 0, &refusing, &ending, &ending.view));
	CHECK_ERROR(-EBUSY, hm_buffer_resize(s.buffer, PAGE, 0));
	CHECK_EQUAL(map_info(s.map, 0).views, 0);
	CHECK_OK_FATAL(hm_map_create(s.buffer, NULL, &maps[0]));
	maps[1] = s.map;
	for (i = 0; i < 2; i++) {
		CHECK_OK_FATAL(hm_view_create(s.map, 0, 5, &ending_other, &ending, &view));
		CHECK_OK_FATAL(hm_view_create(maps[i], PAGE, 5, &nothing, NULL, &ending.view));
		CHECK_OK(hm_map_protect(s.map, 0, PAGE, HM_READ));
		CHECK_EQUAL(map_info(maps[i], 0).views, i);
		hm_view_unref(view);
		CHECK_EQUAL(stats_now().views, 0);
	}
	hm_map_unref(maps[0]);
}

/* The rights that a view is told of are those of its range, not of the map. */
static void access_told(void)
{
	struct log log = { .refuse = 0 };
	AUTO(rig) s = make(2 * SIZE);
	AUTO(hm_view) *view = NULL;

	CHECK_OK_FATAL(hm_view_create(s.map, 0, 0, &logging, &log, &view));
	CHECK_OK(hm_map_protect(s.map, PAGE, PAGE, HM_READ));
	CHECK_EQUAL(log.last.new_access, HM_READ);
	CHECK_OK(hm_map_protect(s.map, 3 * PAGE, PAGE, HM_READ | HM_WRITE));
	CHECK_EQUAL(log.last.new_access, HM_READ);
	CHECK_OK(hm_buffer_resize(s.buffer, 2 * SIZE, 0));
	CHECK_EQUAL(log.last.new_access, HM_READ);
	log.refuse = -EAGAIN;
	CHECK_ERROR(-EBUSY, hm_map_protect(s.map, 0, SIZE, HM_NONE));
	CHECK_EQUAL(log.last.new_access, HM_NONE);
	log.refuse = 0;
	CHECK_OK(hm_buffer_resize(s.buffer, PAGE, 0));
	CHECK_EQUAL(log.last.new_access, HM_READ | HM_WRITE);
}

/* ---- brackets, as a user inside the library takes part in them ---- */

struct inner {
	struct map_view view;
	char order[16];
	int r_begin, r_end;
};

static struct inner *inner_of(struct map_view *view)
{
	return caa_container_of(view, struct inner, view);
}

static int inner_begin(struct map_view *view, uint64_t offset, uint64_t length, uint32_t access)
{
	(void)offset, (void)length, (void)access;
	strcat(inner_of(view)->order, "b");
	return inner_of(view)->r_begin;
}

static int inner_end(struct map_view *view, uint64_t offset, uint64_t length, uint32_t access)
{
	(void)offset, (void)length, (void)access;
	strcat(inner_of(view)->order, "e");
	return inner_of(view)->r_end;
}

static void inner_release(struct map_view *view)
{
	strcat(inner_of(view)->order, "r");
}

/* A map that ends in a callback of its buffer's change lets its views go at once. */
struct last_unref {
	struct hm_map *map;
	struct inner *inner;
	bool released;
};

static int end_with_view(void *user, const struct hm_view_change *change)
{
	struct last_unref *last = user;

	(void)change;
	hm_map_unref(last->map);
	last->released = !strcmp(last->inner->order, "r");
	return 0;
}

static void releases_in_callback(void)
{
	static const struct view_hooks hooks = { .release = inner_release };
	static const struct hm_view_ops ops = {
		.struct_size = sizeof(ops),
		.quiesce = end_with_view,
	};
	struct inner inner = { .view = { .hooks = &hooks } };
	struct last_unref last = { .inner = &inner };
	AUTO(rig) s = make(2 * SIZE);
	AUTO(hm_view) *view = NULL;

	CHECK_OK_FATAL(hm_map_create(s.buffer, NULL, &last.map));
	pthread_mutex_lock(&view_mutex);
	view_attach_locked(last.map, &inner.view);
	pthread_mutex_unlock(&view_mutex);
	CHECK_OK_FATAL(hm_view_create(s.map, 0, 0, &ops, &last, &view));
	CHECK_OK(hm_map_protect(s.map, 0, PAGE, HM_READ));
	CHECK(last.released);
	CHECK_EQUAL(buffer_info(s.buffer).maps, 1);
}

static void brackets(void)
{
	static const struct view_hooks hooks = {
		.begin_cpu = inner_begin,
		.end_cpu = inner_end,
		.release = inner_release,
	};
	struct inner inner = {
		.view = { .hooks = &hooks, .offset = PAGE, .length = PAGE },
	};
	AUTO(rig) s = make(0);

	pthread_mutex_lock(&view_mutex);
	view_attach_locked(s.map, &inner.view);
	pthread_mutex_unlock(&view_mutex);
	CHECK(view_find(s.map, &hooks, NULL) == &inner.view);
	CHECK(!view_find(s.map, &hooks, &inner));
	/* Only for the bytes it sees. */
	CHECK_OK(hm_map_begin_cpu(s.map, 0, PAGE, HM_READ));
	CHECK_OK(hm_map_end_cpu(s.map, 0, PAGE, HM_READ));
	CHECK(!strcmp(inner.order, ""));
	CHECK_OK(hm_map_begin_cpu(s.map, PAGE + 5, 1, HM_READ));
	CHECK_OK(hm_map_end_cpu(s.map, PAGE + 5, 1, HM_READ));
	CHECK(!strcmp(inner.order, "be"));
	/* A failed begin is none. */
	inner.r_begin = -EIO;
	CHECK_EQUAL(hm_map_begin_cpu(s.map, 0, SIZE, HM_WRITE), -EIO);
	CHECK_EQUAL(map_info(s.map, 0).brackets, 0);
	CHECK_ERROR(-EINVAL, hm_map_end_cpu(s.map, 0, SIZE, HM_WRITE));
	inner.r_begin = 0;
	inner.r_end = -ENOMEM;
	CHECK_OK(hm_map_begin_cpu(s.map, 0, SIZE, HM_WRITE));
	CHECK_EQUAL(hm_map_end_cpu(s.map, 0, SIZE, HM_WRITE), -ENOMEM);
	CHECK_EQUAL(map_info(s.map, 0).brackets, 0);
	CHECK(!strcmp(inner.order, "bebbe"));
	rig_drop(&s);
	/* The view held no reference: the map's end released it. */
	CHECK(!strcmp(inner.order, "bebber"));
	CHECK_EQUAL(stats_now().views, 0);
}

/* ---- io_uring ---- */

#ifdef HAVE_LIBURING

/* A ring that has one registered buffer: the range of a map. */
struct ring_user {
	struct io_uring ring;
	bool registered;
	bool keep; /* refuse to let go */
	int r;     /* of the last registration */
};

static int register_range(struct ring_user *user, void *address, uint64_t length)
{
	struct iovec range = { .iov_base = address, .iov_len = length };

	user->r = io_uring_register_buffers(&user->ring, &range, 1);
	user->registered = !user->r;
	return user->r;
}

static int ring_quiesce(void *owner, const struct hm_view_change *change)
{
	struct ring_user *user = owner;

	(void)change;
	return user->keep ? -EBUSY : 0; /* nothing is ever left in flight here */
}

static void ring_invalidate(void *owner, const struct hm_view_change *change)
{
	struct ring_user *user = owner;

	(void)change;
	if (user->registered)
		io_uring_unregister_buffers(&user->ring);
	user->registered = false;
}

static void ring_reattach(void *owner, const struct hm_view_change *change)
{
	struct ring_user *user = owner;

	if (!user->registered && change->new_length)
		register_range(user, change->new_address, change->new_length);
}

static const struct hm_view_ops ring_ops = {
	.struct_size = sizeof(ring_ops),
	.quiesce = ring_quiesce,
	.invalidate = ring_invalidate,
	.reattach = ring_reattach,
};

/* False, with the test skipped, where this kernel or its policy has no io_uring. */
static bool open_ring(struct ring_user *user)
{
	int r;

	memset(user, 0, sizeof(*user));
	r = io_uring_queue_init(4, &user->ring, 0);
	if (r == -EPERM || r == -ENOSYS || r == -EACCES || r == -ENOMEM) {
		test_skip("kernel", "io_uring is not to be had: %s", strerror(-r));
		return false;
	}
	CHECK_EQUAL(r, 0);
	return !r;
}

/* Reads @length bytes of @fd into the registered buffer, at @to. */
static int read_fixed(struct ring_user *user, int fd, void *to, unsigned int length)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&user->ring);
	struct io_uring_cqe *cqe;
	int r;

	io_uring_prep_read_fixed(sqe, fd, to, length, 0, 0);
	r = io_uring_submit(&user->ring);
	if (r >= 0)
		r = io_uring_wait_cqe(&user->ring, &cqe);
	if (r < 0)
		return r;
	r = cqe->res;
	io_uring_cqe_seen(&user->ring, cqe);
	return r;
}

static void io_uring(void)
{
	char text[64];
	struct ring_user user;
	struct hm_view *view;
	char *base;
	int fd;

	if (!open_ring(&user))
		return;
	fd = scratch_file(0);
	memset(text, 'x', sizeof(text));
	CHECK_EQUAL(write(fd, text, sizeof(text)), sizeof(text));
	AUTO(rig) s = make(0);
	base = hm_map_address(s.map);
	CHECK_OK_FATAL(hm_view_create(s.map, 0, 0, &ring_ops, &user, &view));
	CHECK_EQUAL(register_range(&user, base, SIZE), 0);
	CHECK_EQUAL(read_fixed(&user, fd, base + PAGE, sizeof(text)), sizeof(text));
	CHECK(!memcmp(base + PAGE, text, sizeof(text)));

	/* The ring refuses: nothing moves, and the registration still works. */
	user.keep = true;
	CHECK_ERROR(-EBUSY, hm_buffer_resize(s.buffer, 5 * SIZE, HM_MAY_MOVE));
	CHECK(hm_map_address(s.map) == base);
	CHECK_EQUAL(read_fixed(&user, fd, base, sizeof(text)), sizeof(text));
	CHECK(!memcmp(base, text, sizeof(text)));

	/* The ring lets go, and reads into the new place afterwards. */
	user.keep = false;
	CHECK_OK(hm_buffer_resize(s.buffer, 5 * SIZE, HM_MAY_MOVE));
	CHECK(user.registered);
	CHECK_EQUAL(user.r, 0);
	base = hm_map_address(s.map);
	CHECK(!memcmp(base, text, sizeof(text)));
	CHECK_EQUAL(read_fixed(&user, fd, base + 4 * SIZE, sizeof(text)), sizeof(text));
	CHECK(!memcmp(base + 4 * SIZE, text, sizeof(text)));

	hm_view_unref(view);
	ring_invalidate(&user, NULL);
	rig_drop(&s);
	close(fd);
	io_uring_queue_exit(&user.ring);
}

#else

static void io_uring(void)
{
	test_skip("kernel", "built without liburing");
}

#endif

static const struct test tests[] = {
	{ "order", order, 0, 0 },
	{ "ranges", ranges, 0, 0 },
	{ "moved", moved, 0, 0 },
	{ "forbidden", forbidden, 0, 0 },
	{ "locked_twice", locked_twice, 0, 0 },
	{ "many", many, 0, 0 },
	{ "ends_map", ends_map, 0, 0 },
	{ "ends_in_callback", ends_in_callback, 0, 0 },
	{ "ends_without_change", ends_without_change, 0, 0 },
	{ "access_told", access_told, 0, 0 },
	{ "releases_in_callback", releases_in_callback, 0, 0 },
	{ "brackets", brackets, 0, 0 },
	{ "io_uring", io_uring, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "view", tests)
