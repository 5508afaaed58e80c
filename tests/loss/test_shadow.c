// SPDX-License-Identifier: MIT
/* Policies of loss: the bytes that maps show once their device is taken away. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <hetmap/hetmap.h>

#include "lib/inject.h"
#include "loss/loss.h"
#include "lib/sim_devices.h"
#include "base/sys.h"

#define PAGES 40
#define SIZE (PAGES * PAGE + 100)
#define MS 1000000ull /* in ns */
static int set_policy(struct hm_buffer *buffer, uint32_t policy, uint32_t flags)
{
	const struct hm_loss_desc desc = { sizeof(desc), .policy = policy, .flags = flags };

	return hm_buffer_set_loss(buffer, &desc);
}

/* A map of all of a buffer, whose end leaves nothing of its shadow. */
struct shadowed {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	char *base;
};

static struct shadowed make(uint64_t size, uint64_t max_size)
{
	struct shadowed s = { .device = sim_open() };

	s.buffer = sim_make(s.device, size, max_size, &s.map);
	s.base = hm_map_address(s.map);
	return s;
}

static void drop(struct shadowed *s)
{
	hm_map_unref(s->map);
	hm_buffer_unref(s->buffer);
	hm_device_unref(s->device);
	CHECK_EQUAL(stats_now().bytes_shadow, 0);
	CHECK_EQUAL(stats_now().bytes_reserved, 0);
}

AUTO_END(shadowed, drop)

/* ---- bytes that a map shows ---- */

static void test_brackets(void)
{
	AUTO(shadowed) s = make(SIZE, 4 * SIZE);
	AUTO(hm_map) *part = rig_map(s.buffer, DESC(hm_map_desc, .access = HM_READ,
						    .offset = 8 * PAGE, .length = 4 * PAGE));
	char *part_base = hm_map_address(part);

	sim_write(s.map, 0, SIZE, 1);
	CHECK_EQUAL(buffer_info(s.buffer).loss, HM_LOSS_ZERO);
	CHECK_OK_FATAL(set_policy(s.buffer, HM_LOSS_SHADOW, 0));
	CHECK_EQUAL(buffer_info(s.buffer).loss, HM_LOSS_SHADOW);
	CHECK(buffer_info(s.buffer).bytes_shadow >= SIZE);
	CHECK_EQUAL(stats_now().bytes_shadow, buffer_info(s.buffer).bytes_shadow);
	/* In the middle of pages; the rest of these stays as it is. */
	sim_write(s.map, 3 * PAGE + 17, 5 * PAGE + 99, 2);
	/* Read brackets and no bracket at all refresh nothing. */
	CHECK_OK(hm_map_begin_cpu(s.map, 0, SIZE, HM_READ));
	CHECK_OK(hm_map_end_cpu(s.map, 0, SIZE, HM_READ));
	pattern_write(s.base, 30 * PAGE, 31 * PAGE, 3);
	if (!sim_unplug(s.device))
		return;
	CHECK(hm_map_address(s.map) == s.base);
	CHECK(pattern_holds(s.base, 0, 3 * PAGE + 17, 1));
	CHECK(pattern_holds(s.base, 3 * PAGE + 17, 5 * PAGE + 99, 2));
	CHECK(pattern_holds(s.base, 5 * PAGE + 99, SIZE, 1));
	CHECK(pattern_holds(part_base - 8 * PAGE, 8 * PAGE, 12 * PAGE, 1));
	/* Each map's own, with the rights that it had. */
	pattern_write(s.base, 8 * PAGE, 9 * PAGE, 4);
	CHECK(pattern_holds(part_base - 8 * PAGE, 8 * PAGE, 9 * PAGE, 1));
	CHECK_EQUAL(test_write_signal(part_base), SIGSEGV);
	CHECK_EQUAL(test_read_signal(s.base + (PAGES + 1) * PAGE), SIGSEGV);
	CHECK_EQUAL(buffer_info(s.buffer).lost, HM_LOST_BYTES | HM_LOST_SEALED);
	CHECK_ERROR(-ENODEV, hm_buffer_shadow(s.buffer, 0, SIZE));
	CHECK_ERROR(-ENODEV, set_policy(s.buffer, HM_LOSS_ZERO, 0));
	CHECK_ERROR(-ENODEV, hm_map_begin_cpu(s.map, 0, PAGE, HM_READ));
	sim_plug();
}

static void test_on_demand(void)
{
	AUTO(shadowed) s = make(SIZE, 0);

	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_shadow(s.buffer, 0, PAGE));
	CHECK_OK_FATAL(set_policy(s.buffer, HM_LOSS_SHADOW, 0));
	CHECK_ERROR(-EINVAL, hm_buffer_shadow(s.buffer, 0, 0));
	CHECK_ERROR(-ERANGE, hm_buffer_shadow(s.buffer, SIZE, 1));
	CHECK_ERROR(-ERANGE, hm_buffer_shadow(s.buffer, 1, UINT64_MAX));
	pattern_write(s.base, 0, SIZE, 1);
	CHECK_OK(hm_buffer_shadow(s.buffer, 7 * PAGE + 3, 2 * PAGE));
	/* Whether the map may be read is nothing to the shadow. */
	CHECK_OK(hm_map_protect(s.map, 0, 20 * PAGE, HM_NONE));
	CHECK_OK(hm_buffer_shadow(s.buffer, 10 * PAGE, PAGE));
	if (sim_unplug(s.device)) {
		CHECK_EQUAL(test_read_signal(s.base), SIGSEGV);
		CHECK(is_zero(s.base, 20 * PAGE, SIZE));
		sim_plug();
	}
}

/* Policies that are changed: the last one counts. */
static void test_changed(void)
{
	AUTO(shadowed) s = make(SIZE, 0);

	CHECK_ERROR(-EINVAL, hm_buffer_set_loss(s.buffer, NULL));
	CHECK_ERROR(-EINVAL, hm_buffer_set_loss(s.buffer, DESC(hm_loss_desc, .policy = 3)));
	CHECK_ERROR(-EINVAL, set_policy(s.buffer, HM_LOSS_SHADOW, HM_LOSS_WITH_SHADOW));
	CHECK_ERROR(-EINVAL, set_policy(s.buffer, HM_LOSS_RECREATE, 2));
	sim_write(s.map, 0, SIZE, 1);
	CHECK_OK(set_policy(s.buffer, HM_LOSS_SHADOW, 0));
	CHECK_OK(set_policy(s.buffer, HM_LOSS_ZERO, 0));
	CHECK_EQUAL(stats_now().bytes_shadow, 0);
	CHECK_EQUAL(buffer_info(s.buffer).bytes_shadow, 0);
	CHECK_OK(set_policy(s.buffer, HM_LOSS_RECREATE, 0));
	CHECK_EQUAL(stats_now().bytes_shadow, 0);
	CHECK_OK(set_policy(s.buffer, HM_LOSS_RECREATE, HM_LOSS_WITH_SHADOW));
	CHECK(stats_now().bytes_shadow >= SIZE);
	CHECK_OK(set_policy(s.buffer, HM_LOSS_ZERO, 0));
	if (sim_unplug(s.device)) {
		CHECK(is_zero(s.base, 0, SIZE));
		sim_plug();
	}
}

/* Growth brings zeros, a shrink takes bytes for good; several objects; a new one. */
static void test_resized(void)
{
	static const uint32_t flags[] = { 0, HM_GROW_APPEND, HM_GROW_REPLACE };
	uint64_t before;
	unsigned int i;

	for (i = 0; i < 3; i++) {
		AUTO(shadowed) s = make(SIZE, 4 * PAGES * PAGE);
		sim_write(s.map, 0, SIZE, 1);
		CHECK_OK_FATAL(set_policy(s.buffer, HM_LOSS_SHADOW, 0));
		before = buffer_info(s.buffer).bytes_shadow;
		CHECK_OK(hm_buffer_resize(s.buffer, 10 * PAGE + 5, 0));
		/* The shadow shrinks too, and counts no more than it has. */
		CHECK_EQUAL(before - buffer_info(s.buffer).bytes_shadow,
			    (SIZE + PAGE - 1) / PAGE * PAGE - 11 * PAGE);
		CHECK_EQUAL(stats_now().bytes_shadow, buffer_info(s.buffer).bytes_shadow);
		CHECK_OK(hm_buffer_resize(s.buffer, 3 * PAGES * PAGE, flags[i]));
		CHECK(is_zero(s.base, 10 * PAGE + 5, 3 * PAGES * PAGE));
		sim_write(s.map, 2 * PAGES * PAGE, 2 * PAGES * PAGE + 50, 2);
		sim_write(s.map, 9 * PAGE, 11 * PAGE, 3);
		if (!sim_unplug(s.device))
			return;
		CHECK(pattern_holds(s.base, 0, 9 * PAGE, 1));
		CHECK(pattern_holds(s.base, 9 * PAGE, 11 * PAGE, 3));
		CHECK(is_zero(s.base, 11 * PAGE, 2 * PAGES * PAGE));
		CHECK(pattern_holds(s.base, 2 * PAGES * PAGE, 2 * PAGES * PAGE + 50, 2));
		CHECK(is_zero(s.base, 2 * PAGES * PAGE + 50, 3 * PAGES * PAGE));
		sim_plug();
	}
}

static int add_one(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	uint32_t *p = (uint32_t *)args[0].pointer;
	uint64_t i;

	for (i = range->begin[0]; i < range->end[0]; i++)
		p[i]++;
	return 0;
}

struct work {
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_kernel *kernel;
};

static struct work work_begin(void)
{
	struct work work = { 0 };

	CHECK_OK_FATAL(hm_accel_open("cpu", NULL, &work.accel));
	CHECK_OK_FATAL(hm_queue_create(work.accel, 0, &work.queue));
	CHECK_OK_FATAL(hm_kernel_create(DESC(hm_kernel_desc, .name = "add_one", .cpu = add_one,
					     .signature = "inout"),
					&work.kernel));
	return work;
}

static void work_end(struct work *work)
{
	hm_kernel_unref(work->kernel);
	hm_queue_unref(work->queue);
	hm_accel_unref(work->accel);
}

AUTO_END(work, work_end)

/* Adds one to each word of a page. */
static struct hm_fence *launch(struct work *work, struct hm_map *map, uint64_t page)
{
	char *address = (char *)hm_map_address(map) + page * PAGE;
	struct hm_fence *fence;

	CHECK_OK_FATAL(hm_launch(work->queue, work->kernel, PAGE / sizeof(uint32_t), &fence,
				 HM_RANGE(address, PAGE, HM_READ | HM_WRITE)));
	return fence;
}

static void check_words(struct hm_map *map, uint64_t page, uint32_t value)
{
	const uint32_t *words = (uint32_t *)((char *)hm_map_address(map) + page * PAGE);
	unsigned int i, n = PAGE / sizeof(uint32_t);

	for (i = 0; i < n && words[i] == value; i++)
		;
	CHECK_EQUAL(i, n);
}

/* A shadow has a launch's stores once the result was waited for; and no other page's. */
static void test_launches(void)
{
	AUTO(shadowed) s = make(SIZE, 0);
	struct hm_fence *fence;
	AUTO(work) work = work_begin();

	CHECK_OK_FATAL(set_policy(s.buffer, HM_LOSS_SHADOW, 0));
	fence = launch(&work, s.map, 1);
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	hm_fence_unref(fence);
	if (sim_unplug(s.device)) {
		check_words(s.map, 0, 0);
		check_words(s.map, 1, 1);
		check_words(s.map, 2, 0);
		sim_plug();
	}
}

/* Fills a page by the device's own engine; returns the fence's result. */
static int fill_page(struct hm_queue *queue, struct hm_map *map, uint32_t value,
		     struct hm_device *reset)
{
	AUTO(hm_fence) *fence = NULL;
	int r;

	CHECK_OK_FATAL(hm_queue_fill(queue, hm_map_address(map), value, PAGE, &fence));
	do {
		/* A reset ends running work: the hanging one may not have begun yet. */
		if (reset)
			CHECK_OK(sim_inject(reset, HETSIM_INJECT_RESET, 0, 0));
		r = hm_fence_wait(fence, reset ? MS : UINT64_MAX);
	} while (r == -ETIME);
	return r;
}

/* A reset ends running work only: nothing is lost, and shadows go on. */
static void test_reset(void)
{
	AUTO(shadowed) s = make(SIZE, 0);
	struct hm_accel *accel;
	struct hm_queue *queue;
	uint32_t number;

	if (sim_inject(s.device, HETSIM_INJECT_RESET, 0, 0) == -EPERM) {
		test_skip("kernel", "the module's parameter test is not set, or no root");
		return;
	}
	sim_write(s.map, 0, SIZE, 1);
	CHECK_OK_FATAL(set_policy(s.buffer, HM_LOSS_SHADOW, 0));
	CHECK_OK_FATAL(hm_accel_open(sim_device(), NULL, &accel));
	CHECK_OK_FATAL(hm_queue_create(accel, 0, &queue));
	CHECK_OK_FATAL(hm_sim_queue(queue, &number));
	CHECK_OK(sim_inject(s.device, HETSIM_INJECT_STUCK, number, 1));
	CHECK_EQUAL(fill_page(queue, s.map, 7, s.device), -ECANCELED);
	CHECK_EQUAL(buffer_info(s.buffer).lost, 0);
	CHECK_OK(fill_page(queue, s.map, 9, NULL));
	hm_queue_unref(queue);
	hm_accel_unref(accel);
	if (sim_unplug(s.device)) {
		check_words(s.map, 0, 9);
		CHECK(pattern_holds(hm_map_address(s.map), PAGE, SIZE, 1));
		sim_plug();
	}
}

/* A launch succeeds, and the shadow can't be brought up to date. */
static void launch_unkept(struct work *work, struct hm_buffer *buffer, struct hm_map *map,
			  uint64_t page)
{
	struct hm_fence *fence;

	/* The objects are let go of, and have to be mapped again. */
	CHECK_OK(hm_buffer_resize(buffer, buffer_info(buffer).size + PAGE, 0));
	fence = launch(work, map, page);
	inject_always("mmap", ENOMEM);
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	CHECK(inject_disarm());
	inject_forgive();
	hm_fence_unref(fence);
	CHECK_EQUAL(buffer_info(buffer).lost, HM_LOST_STALE);
}

/* A shadow that lacks stores says so until it has them. */
static void test_stale(void)
{
	AUTO(shadowed) s = make(SIZE, 4 * PAGES * PAGE);

	inject_install();
	AUTO(work) work = work_begin();
	CHECK_OK_FATAL(set_policy(s.buffer, HM_LOSS_SHADOW, 0));
	launch_unkept(&work, s.buffer, s.map, 1);
	/* The same policy again: it is filled. */
	CHECK_OK(set_policy(s.buffer, HM_LOSS_SHADOW, 0));
	CHECK_EQUAL(buffer_info(s.buffer).lost, 0);
	launch_unkept(&work, s.buffer, s.map, 2);
	if (sim_unplug(s.device)) {
		check_words(s.map, 1, 1);
		check_words(s.map, 2, 0);
		sim_plug();
		CHECK_OK_FATAL(hm_device_recover(s.device, HM_RECOVER_SHADOWED, NULL));
		/* The buffer lacks it now, too. */
		check_words(s.map, 1, 1);
		check_words(s.map, 2, 0);
		CHECK_EQUAL(buffer_info(s.buffer).lost, HM_LOST_STALE);
		CHECK_OK(hm_buffer_shadow(s.buffer, 0, buffer_info(s.buffer).size));
		CHECK_EQUAL(buffer_info(s.buffer).lost, 0);
	}
}

static void *refresh_all(void *user)
{
	CHECK_OK(hm_buffer_shadow(user, 0, SIZE));
	return NULL;
}

/*
 * A refresh of all of a buffer is not one of all of it after a growth: the shadow says still
 * that it lacks stores.
 */
static void test_stale_meanwhile(void)
{
	struct hm_device *device = sim_open();
	struct hm_buffer *buffer = sim_make(device, SIZE, 4 * SIZE, NULL);
	struct loss *loss;
	pthread_t thread;

	CHECK_OK_FATAL(set_policy(buffer, HM_LOSS_SHADOW, 0));
	loss = atomic_load(&buffer->loss);
	pthread_mutex_lock(&loss->lock);
	CHECK_FATAL(!pthread_create(&thread, NULL, refresh_all, buffer));
	/* From the inside: a contended mutex of glibc's has 2 in its first word. */
	while (__atomic_load_n((int *)&loss->lock, __ATOMIC_RELAXED) != 2)
		sched_yield();
	/* As a growth, and the end of a launch that wrote there, leave it. */
	loss->limit += PAGE;
	loss->stale = true;
	pthread_mutex_unlock(&loss->lock);
	pthread_join(thread, NULL);
	CHECK_EQUAL(buffer_info(buffer).lost, HM_LOST_STALE);
	pthread_mutex_lock(&loss->lock);
	loss->limit -= PAGE;
	pthread_mutex_unlock(&loss->lock);
	CHECK_OK(hm_buffer_shadow(buffer, 0, SIZE - 1));
	CHECK_EQUAL(buffer_info(buffer).lost, HM_LOST_STALE);
	refresh_all(buffer);
	CHECK_EQUAL(buffer_info(buffer).lost, 0);
	drop(&(struct shadowed){ .device = device, .buffer = buffer });
}

/* ---- a device that goes in the middle of a refresh ---- */

static struct leaving {
	struct sys_table real;
	struct hm_device *device;
	const void *base; /* a map that is lost then */
	pthread_t thread;
	_Atomic bool begun, refused;
} leaving;

static void *leave(void *user)
{
	(void)user;
	leaving.refused = sim_inject(leaving.device, HETSIM_INJECT_UNPLUG, 0, 0) != 0;
	return NULL;
}

/* The first one returns when the maps are lost. */
static void *leaving_mmap(void *address, size_t length, int prot, int flags, int fd,
			  off_t offset)
{
	struct hm_pointer_info info;

	if (!atomic_exchange(&leaving.begun, true)) {
		CHECK_FATAL(!pthread_create(&leaving.thread, NULL, leave, NULL));
		while (!leaving.refused &&
		       (hm_pointer_find(leaving.base, &info) || !info.generation))
			sched_yield();
	}
	return leaving.real.mmap(address, length, prot, flags, fd, offset);
}

/* Bytes that a launch wrote, and that went before the shadow had them, are an error. */
static void test_lost_in_refresh(void)
{
	AUTO(shadowed) s = make(SIZE, 4 * PAGES * PAGE);
	int r;
	AUTO(work) work = work_begin();

	CHECK_OK_FATAL(set_policy(s.buffer, HM_LOSS_SHADOW, 0));
	CHECK_OK(hm_buffer_resize(s.buffer, 2 * SIZE, 0));
	AUTO(hm_fence) *fence = launch(&work, s.map, 1);
	leaving.real = sys_table;
	leaving.device = s.device;
	leaving.base = hm_map_address(s.map);
	leaving.begun = leaving.refused = false;
	sys_table.mmap = leaving_mmap;
	r = hm_fence_wait(fence, UINT64_MAX);
	CHECK_FATAL(leaving.begun);
	pthread_join(leaving.thread, NULL);
	sys_table = leaving.real;
	if (leaving.refused) {
		test_skip("kernel", "the module's parameter test is not set, or no root");
	} else {
		CHECK_EQUAL(r, -ENODEV);
		CHECK(strstr(hm_errmsg(), "lost"));
		check_words(s.map, 1, 0);
		sim_plug();
	}
}

/* ---- stores while a growth ends ---- */

static void store_grown(void *user, const struct hm_view_change *change)
{
	struct hm_map *other = user;

	(void)change;
	if (hm_map_length(other) > SIZE)
		sim_write(other, SIZE - 50, 2 * SIZE, 2);
}

/* A map has its new length before the call that grows it has returned. */
static void test_grown_meanwhile(void)
{
	static const uint32_t flags[] = { 0, HM_GROW_APPEND };
	static const struct hm_view_ops ops = {
		.struct_size = sizeof(ops),
		.reattach = store_grown,
	};
	struct hm_view *view;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		AUTO(shadowed) s = make(SIZE, 2 * SIZE);
		AUTO(hm_map) *other = rig_map(s.buffer, NULL);
		CHECK_OK_FATAL(hm_view_create(s.map, 0, 0, &ops, other, &view));
		sim_write(s.map, 0, SIZE, 1);
		CHECK_OK_FATAL(set_policy(s.buffer, HM_LOSS_SHADOW, 0));
		CHECK_OK(hm_buffer_resize(s.buffer, 2 * SIZE, flags[i]));
		CHECK_EQUAL(buffer_info(s.buffer).lost, 0);
		hm_view_unref(view);
		if (sim_unplug(s.device)) {
			CHECK(pattern_holds(hm_map_address(s.map), 0, SIZE - 50, 1));
			CHECK(pattern_holds(hm_map_address(s.map), SIZE - 50, 2 * SIZE, 2));
			sim_plug();
		}
	}
}

/* ---- memory for the replacement ---- */

static struct sys_table real;
static const char *only_read; /* a page that may not be written */
static bool promised;         /* the kernel promises writable private pages */
/* A kernel that promises none may have unmapped a target already: there must be none yet. */
static void *mmap_watched(void *address, size_t length, int prot, int flags, int fd,
			  off_t offset)
{
	const char *from = address;

	if (!(prot & PROT_WRITE) || !(flags & MAP_PRIVATE))
		return real.mmap_over(address, length, prot, flags, fd, offset);
	CHECK(only_read < from || only_read >= from + length);
	if (promised)
		return real.mmap_over(address, length, prot, flags, fd, offset);
	CHECK(!address);
	errno = ENOMEM;
	return MAP_FAILED;
}

static int mprotect_watched(void *address, size_t length, int prot)
{
	errno = ENOMEM;
	return promised || !(prot & PROT_WRITE) ? real.mprotect(address, length, prot) : -1;
}

static void take_in_place(uint32_t policy, bool memory)
{
	AUTO(shadowed) s = make(SIZE, 4 * SIZE);
	bool taken;

	sim_write(s.map, 0, SIZE, 1);
	CHECK_OK_FATAL(set_policy(s.buffer, policy, 0));
	CHECK_OK(hm_map_protect(s.map, PAGE, 2 * PAGE, HM_READ));
	CHECK_OK(hm_map_protect(s.map, 5 * PAGE, PAGE, HM_NONE));
	only_read = s.base + 2 * PAGE;
	promised = memory;
	real = sys_table;
	sys_table.mmap_over = mmap_watched;
	sys_table.mprotect = mprotect_watched;
	taken = sim_unplug(s.device);
	sys_table = real;
	if (taken) {
		CHECK(policy == HM_LOSS_ZERO ? is_zero(s.base, 0, 5 * PAGE) :
					       pattern_holds(s.base, 0, 5 * PAGE, 1));
		CHECK(policy == HM_LOSS_ZERO ? is_zero(s.base, 6 * PAGE, SIZE) :
					       pattern_holds(s.base, 6 * PAGE, SIZE, 1));
		CHECK_EQUAL(test_write_signal(s.base), memory ? 0 : SIGSEGV);
		CHECK_EQUAL(test_write_signal(s.base + 2 * PAGE), SIGSEGV);
		CHECK_EQUAL(test_read_signal(s.base + 5 * PAGE), SIGSEGV);
		CHECK_EQUAL(test_read_signal(s.base + (PAGES + 1) * PAGE), SIGSEGV);
		sim_plug();
		CHECK_OK(hm_device_recover(s.device, HM_RECOVER_SHADOWED, NULL));
		CHECK_EQUAL(test_write_signal(s.base),
			    policy == HM_LOSS_ZERO && !memory ? SIGSEGV : 0);
	}
}

/* No page gets a right that it had not, and allowed reads find no fault. */
static void test_strict_memory(void)
{
	take_in_place(HM_LOSS_ZERO, true);
	take_in_place(HM_LOSS_SHADOW, true);
	take_in_place(HM_LOSS_ZERO, false);
	take_in_place(HM_LOSS_SHADOW, false);
}

static int no_bytes = -1; /* a file of length 0 */

/* A read-only map has no pages, as where the kernel has none. */
static void *mmap_without_pages(void *address, size_t length, int prot, int flags, int fd,
				off_t offset)
{
	if (prot == PROT_READ && flags & MAP_SHARED && fd >= 0)
		return real.mmap(address, length, prot, flags, no_bytes, 0);
	return real.mmap(address, length, prot, flags, fd, offset);
}

/* To read where nothing was stored takes a page: without one it is an error. */
static void test_read_without_memory(void)
{
	struct hm_device *device;
	struct hm_buffer *buffer;

	no_bytes = memfd_create("no bytes", MFD_CLOEXEC);
	CHECK_FATAL(no_bytes >= 0);
	CHECK_OK_FATAL(hm_device_open("host", &device));
	CHECK_OK_FATAL(hm_buffer_create(device, DESC(hm_buffer_desc, .size = SIZE), &buffer));
	real = sys_table;
	sys_table.mmap = mmap_without_pages;
	CHECK_ERROR(-ENOMEM, set_policy(buffer, HM_LOSS_SHADOW, 0));
	sys_table = real;
	CHECK_EQUAL(buffer_info(buffer).loss, HM_LOSS_ZERO);
	CHECK_EQUAL(stats_now().bytes_shadow, 0);
	CHECK_OK(set_policy(buffer, HM_LOSS_SHADOW, 0));
	close(no_bytes);
	drop(&(struct shadowed){ .device = device, .buffer = buffer });
}

static unsigned int n_interrupted;

/* A timer's signal comes before so much is allocated, which the kernel then gives back. */
static int fallocate_interrupted(int fd, int mode, off_t offset, off_t length)
{
	if (length <= 2 << 20)
		return real.fallocate(fd, mode, offset, length);
	errno = n_interrupted++ < 100 ? EINTR : EIO;
	return -1;
}

static void test_interrupted(void)
{
	const uint64_t size = 5ull << 20;
	AUTO(shadowed) s = make(size, 0);
	uint64_t before;

	real = sys_table;
	sys_table.fallocate = fallocate_interrupted;
	CHECK_OK(set_policy(s.buffer, HM_LOSS_SHADOW, 0));
	sys_table = real;
	CHECK_EQUAL(n_interrupted, 0);
	before = stats_now().bytes_shadow;
	CHECK_EQUAL(before, buffer_info(s.buffer).bytes_shadow);
	CHECK(before >= size);
}

/* A shadow outlives nothing, and a child has none. */
static void in_child(void *user)
{
	struct hm_buffer **buffers = user;

	CHECK_ERROR(-EOWNERDEAD, hm_buffer_shadow(buffers[0], 0, PAGE));
	CHECK_ERROR(-EOWNERDEAD, set_policy(buffers[0], HM_LOSS_ZERO, 0));
}

static void test_fork_child(void)
{
	AUTO(shadowed) s = make(SIZE, 0);

	CHECK_OK_FATAL(set_policy(s.buffer, HM_LOSS_SHADOW, 0));
	CHECK_EQUAL(test_fork(in_child, &s.buffer), 0);
}

static const struct sim_case cases[] = {
	{ "brackets", test_brackets },
	{ "on_demand", test_on_demand },
	{ "changed", test_changed },
	{ "resized", test_resized },
	{ "launches", test_launches },
	{ "reset", test_reset },
	{ "stale", test_stale },
	{ "stale_meanwhile", test_stale_meanwhile },
	{ "lost_in_refresh", test_lost_in_refresh },
	{ "grown_meanwhile", test_grown_meanwhile },
	{ "read_without_memory", test_read_without_memory },
	{ "strict_memory", test_strict_memory },
	{ "interrupted", test_interrupted },
	{ "fork", test_fork_child },
	{ NULL, NULL },
};

TEST_MAIN(sim_main, "shadow", cases)
