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

static void drop(struct hm_device *device, struct hm_buffer *buffer, struct hm_map *map)
{
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	CHECK_EQUAL(stats_now().bytes_shadow, 0);
	CHECK_EQUAL(stats_now().bytes_reserved, 0);
}

/* ---- bytes that a map shows ---- */

static void test_brackets(void)
{
	struct hm_device *device = sim_open();
	struct hm_map *map, *part;
	struct hm_buffer *buffer = sim_make(device, SIZE, 4 * SIZE, &map);
	char *base = hm_map_address(map), *part_base;

	part = rig_map(buffer, DESC(hm_map_desc, .access = HM_READ, .offset = 8 * PAGE,
				    .length = 4 * PAGE));
	part_base = hm_map_address(part);
	sim_write(map, 0, SIZE, 1);
	CHECK_EQUAL(buffer_info(buffer).loss, HM_LOSS_ZERO);
	CHECK_OK_FATAL(set_policy(buffer, HM_LOSS_SHADOW, 0));
	CHECK_EQUAL(buffer_info(buffer).loss, HM_LOSS_SHADOW);
	CHECK(buffer_info(buffer).bytes_shadow >= SIZE);
	CHECK_EQUAL(stats_now().bytes_shadow, buffer_info(buffer).bytes_shadow);
	/* In the middle of pages; the rest of these stays as it is. */
	sim_write(map, 3 * PAGE + 17, 5 * PAGE + 99, 2);
	/* Read brackets and no bracket at all refresh nothing. */
	CHECK_OK(hm_map_begin_cpu(map, 0, SIZE, HM_READ));
	CHECK_OK(hm_map_end_cpu(map, 0, SIZE, HM_READ));
	pattern_write(base, 30 * PAGE, 31 * PAGE, 3);
	if (!sim_unplug(device)) {
		hm_map_unref(part);
		drop(device, buffer, map);
		return;
	}
	CHECK(hm_map_address(map) == base);
	CHECK(pattern_holds(base, 0, 3 * PAGE + 17, 1));
	CHECK(pattern_holds(base, 3 * PAGE + 17, 5 * PAGE + 99, 2));
	CHECK(pattern_holds(base, 5 * PAGE + 99, SIZE, 1));
	CHECK(pattern_holds(part_base - 8 * PAGE, 8 * PAGE, 12 * PAGE, 1));
	/* Each map's own, with the rights that it had. */
	pattern_write(base, 8 * PAGE, 9 * PAGE, 4);
	CHECK(pattern_holds(part_base - 8 * PAGE, 8 * PAGE, 9 * PAGE, 1));
	CHECK_EQUAL(test_write_signal(part_base), SIGSEGV);
	CHECK_EQUAL(test_read_signal(base + (PAGES + 1) * PAGE), SIGSEGV);
	CHECK_EQUAL(buffer_info(buffer).lost, HM_LOST_BYTES | HM_LOST_SEALED);
	CHECK_ERROR(-ENODEV, hm_buffer_shadow(buffer, 0, SIZE));
	CHECK_ERROR(-ENODEV, set_policy(buffer, HM_LOSS_ZERO, 0));
	CHECK_ERROR(-ENODEV, hm_map_begin_cpu(map, 0, PAGE, HM_READ));
	sim_plug();
	hm_map_unref(part);
	drop(device, buffer, map);
}

static void test_on_demand(void)
{
	struct hm_device *device = sim_open();
	struct hm_map *map;
	struct hm_buffer *buffer = sim_make(device, SIZE, 0, &map);
	char *base = hm_map_address(map);

	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_shadow(buffer, 0, PAGE));
	CHECK_OK_FATAL(set_policy(buffer, HM_LOSS_SHADOW, 0));
	CHECK_ERROR(-EINVAL, hm_buffer_shadow(buffer, 0, 0));
	CHECK_ERROR(-ERANGE, hm_buffer_shadow(buffer, SIZE, 1));
	CHECK_ERROR(-ERANGE, hm_buffer_shadow(buffer, 1, UINT64_MAX));
	pattern_write(base, 0, SIZE, 1);
	CHECK_OK(hm_buffer_shadow(buffer, 7 * PAGE + 3, 2 * PAGE));
	/* Whether the map may be read is nothing to the shadow. */
	CHECK_OK(hm_map_protect(map, 0, 20 * PAGE, HM_NONE));
	CHECK_OK(hm_buffer_shadow(buffer, 10 * PAGE, PAGE));
	if (sim_unplug(device)) {
		CHECK_EQUAL(test_read_signal(base), SIGSEGV);
		CHECK(is_zero(base, 20 * PAGE, SIZE));
		sim_plug();
	}
	drop(device, buffer, map);
}

/* Policies that are changed: the last one counts. */
static void test_changed(void)
{
	struct hm_device *device = sim_open();
	struct hm_map *map;
	struct hm_buffer *buffer = sim_make(device, SIZE, 0, &map);
	char *base = hm_map_address(map);

	CHECK_ERROR(-EINVAL, hm_buffer_set_loss(buffer, NULL));
	CHECK_ERROR(-EINVAL, hm_buffer_set_loss(buffer, DESC(hm_loss_desc, .policy = 3)));
	CHECK_ERROR(-EINVAL, set_policy(buffer, HM_LOSS_SHADOW, HM_LOSS_WITH_SHADOW));
	CHECK_ERROR(-EINVAL, set_policy(buffer, HM_LOSS_RECREATE, 2));
	sim_write(map, 0, SIZE, 1);
	CHECK_OK(set_policy(buffer, HM_LOSS_SHADOW, 0));
	CHECK_OK(set_policy(buffer, HM_LOSS_ZERO, 0));
	CHECK_EQUAL(stats_now().bytes_shadow, 0);
	CHECK_EQUAL(buffer_info(buffer).bytes_shadow, 0);
	CHECK_OK(set_policy(buffer, HM_LOSS_RECREATE, 0));
	CHECK_EQUAL(stats_now().bytes_shadow, 0);
	CHECK_OK(set_policy(buffer, HM_LOSS_RECREATE, HM_LOSS_WITH_SHADOW));
	CHECK(stats_now().bytes_shadow >= SIZE);
	CHECK_OK(set_policy(buffer, HM_LOSS_ZERO, 0));
	if (sim_unplug(device)) {
		CHECK(is_zero(base, 0, SIZE));
		sim_plug();
	}
	drop(device, buffer, map);
}

/* Growth brings zeros, a shrink takes bytes for good; several objects; a new one. */
static void test_resized(void)
{
	static const uint32_t flags[] = { 0, HM_GROW_APPEND, HM_GROW_REPLACE };
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	uint64_t before;
	char *base;
	unsigned int i;

	for (i = 0; i < 3; i++) {
		device = sim_open();
		buffer = sim_make(device, SIZE, 4 * PAGES * PAGE, &map);
		base = hm_map_address(map);
		sim_write(map, 0, SIZE, 1);
		CHECK_OK_FATAL(set_policy(buffer, HM_LOSS_SHADOW, 0));
		before = buffer_info(buffer).bytes_shadow;
		CHECK_OK(hm_buffer_resize(buffer, 10 * PAGE + 5, 0));
		/* The shadow shrinks too, and counts no more than it has. */
		CHECK_EQUAL(before - buffer_info(buffer).bytes_shadow,
			    (SIZE + PAGE - 1) / PAGE * PAGE - 11 * PAGE);
		CHECK_EQUAL(stats_now().bytes_shadow, buffer_info(buffer).bytes_shadow);
		CHECK_OK(hm_buffer_resize(buffer, 3 * PAGES * PAGE, flags[i]));
		CHECK(is_zero(base, 10 * PAGE + 5, 3 * PAGES * PAGE));
		sim_write(map, 2 * PAGES * PAGE, 2 * PAGES * PAGE + 50, 2);
		sim_write(map, 9 * PAGE, 11 * PAGE, 3);
		if (!sim_unplug(device)) {
			drop(device, buffer, map);
			return;
		}
		CHECK(pattern_holds(base, 0, 9 * PAGE, 1));
		CHECK(pattern_holds(base, 9 * PAGE, 11 * PAGE, 3));
		CHECK(is_zero(base, 11 * PAGE, 2 * PAGES * PAGE));
		CHECK(pattern_holds(base, 2 * PAGES * PAGE, 2 * PAGES * PAGE + 50, 2));
		CHECK(is_zero(base, 2 * PAGES * PAGE + 50, 3 * PAGES * PAGE));
		sim_plug();
		drop(device, buffer, map);
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

static void work_begin(struct work *work)
{
	CHECK_OK_FATAL(hm_accel_open("cpu", NULL, &work->accel));
	CHECK_OK_FATAL(hm_queue_create(work->accel, 0, &work->queue));
	CHECK_OK_FATAL(hm_kernel_create(DESC(hm_kernel_desc, .name = "add_one", .cpu = add_one,
					     .signature = "inout"),
					&work->kernel));
}

static void work_end(struct work *work)
{
	hm_kernel_unref(work->kernel);
	hm_queue_unref(work->queue);
	hm_accel_unref(work->accel);
}

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
	struct hm_device *device = sim_open();
	struct hm_map *map;
	struct hm_buffer *buffer = sim_make(device, SIZE, 0, &map);
	struct hm_fence *fence;
	struct work work;

	work_begin(&work);
	CHECK_OK_FATAL(set_policy(buffer, HM_LOSS_SHADOW, 0));
	fence = launch(&work, map, 1);
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	hm_fence_unref(fence);
	if (sim_unplug(device)) {
		check_words(map, 0, 0);
		check_words(map, 1, 1);
		check_words(map, 2, 0);
		sim_plug();
	}
	work_end(&work);
	drop(device, buffer, map);
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
	struct hm_device *device = sim_open();
	struct hm_map *map;
	struct hm_buffer *buffer = sim_make(device, SIZE, 0, &map);
	struct hm_accel *accel;
	struct hm_queue *queue;
	uint32_t number;

	if (sim_inject(device, HETSIM_INJECT_RESET, 0, 0) == -EPERM) {
		test_skip("kernel", "the module's parameter test is not set, or no root");
		drop(device, buffer, map);
		return;
	}
	sim_write(map, 0, SIZE, 1);
	CHECK_OK_FATAL(set_policy(buffer, HM_LOSS_SHADOW, 0));
	CHECK_OK_FATAL(hm_accel_open(sim_device(), NULL, &accel));
	CHECK_OK_FATAL(hm_queue_create(accel, 0, &queue));
	CHECK_OK_FATAL(hm_sim_queue(queue, &number));
	CHECK_OK(sim_inject(device, HETSIM_INJECT_STUCK, number, 1));
	CHECK_EQUAL(fill_page(queue, map, 7, device), -ECANCELED);
	CHECK_EQUAL(buffer_info(buffer).lost, 0);
	CHECK_OK(fill_page(queue, map, 9, NULL));
	hm_queue_unref(queue);
	hm_accel_unref(accel);
	if (sim_unplug(device)) {
		check_words(map, 0, 9);
		CHECK(pattern_holds(hm_map_address(map), PAGE, SIZE, 1));
		sim_plug();
	}
	drop(device, buffer, map);
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
	struct hm_device *device = sim_open();
	struct hm_map *map;
	struct hm_buffer *buffer = sim_make(device, SIZE, 4 * PAGES * PAGE, &map);
	struct work work;

	inject_install();
	work_begin(&work);
	CHECK_OK_FATAL(set_policy(buffer, HM_LOSS_SHADOW, 0));
	launch_unkept(&work, buffer, map, 1);
	/* The same policy again: it is filled. */
	CHECK_OK(set_policy(buffer, HM_LOSS_SHADOW, 0));
	CHECK_EQUAL(buffer_info(buffer).lost, 0);
	launch_unkept(&work, buffer, map, 2);
	if (sim_unplug(device)) {
		check_words(map, 1, 1);
		check_words(map, 2, 0);
		sim_plug();
		CHECK_OK_FATAL(hm_device_recover(device, HM_RECOVER_SHADOWED, NULL));
		/* The buffer lacks it now, too. */
		check_words(map, 1, 1);
		check_words(map, 2, 0);
		CHECK_EQUAL(buffer_info(buffer).lost, HM_LOST_STALE);
		CHECK_OK(hm_buffer_shadow(buffer, 0, buffer_info(buffer).size));
		CHECK_EQUAL(buffer_info(buffer).lost, 0);
	}
	work_end(&work);
	drop(device, buffer, map);
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
	drop(device, buffer, NULL);
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
	struct hm_device *device = sim_open();
	struct hm_map *map;
	struct hm_buffer *buffer = sim_make(device, SIZE, 4 * PAGES * PAGE, &map);
	struct hm_fence *fence;
	struct work work;
	int r;

	work_begin(&work);
	CHECK_OK_FATAL(set_policy(buffer, HM_LOSS_SHADOW, 0));
	CHECK_OK(hm_buffer_resize(buffer, 2 * SIZE, 0));
	fence = launch(&work, map, 1);
	leaving.real = sys_table;
	leaving.device = device;
	leaving.base = hm_map_address(map);
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
		check_words(map, 1, 0);
		sim_plug();
	}
	hm_fence_unref(fence);
	work_end(&work);
	drop(device, buffer, map);
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
	struct hm_map *map, *other;
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_view *view;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		device = sim_open();
		buffer = sim_make(device, SIZE, 2 * SIZE, &map);
		CHECK_OK_FATAL(hm_map_create(buffer, NULL, &other));
		CHECK_OK_FATAL(hm_view_create(map, 0, 0, &ops, other, &view));
		sim_write(map, 0, SIZE, 1);
		CHECK_OK_FATAL(set_policy(buffer, HM_LOSS_SHADOW, 0));
		CHECK_OK(hm_buffer_resize(buffer, 2 * SIZE, flags[i]));
		CHECK_EQUAL(buffer_info(buffer).lost, 0);
		hm_view_unref(view);
		if (sim_unplug(device)) {
			CHECK(pattern_holds(hm_map_address(map), 0, SIZE - 50, 1));
			CHECK(pattern_holds(hm_map_address(map), SIZE - 50, 2 * SIZE, 2));
			sim_plug();
		}
		hm_map_unref(other);
		drop(device, buffer, map);
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
	struct hm_device *device = sim_open();
	struct hm_map *map;
	struct hm_buffer *buffer = sim_make(device, SIZE, 4 * SIZE, &map);
	char *base = hm_map_address(map);
	bool taken;

	sim_write(map, 0, SIZE, 1);
	CHECK_OK_FATAL(set_policy(buffer, policy, 0));
	CHECK_OK(hm_map_protect(map, PAGE, 2 * PAGE, HM_READ));
	CHECK_OK(hm_map_protect(map, 5 * PAGE, PAGE, HM_NONE));
	only_read = base + 2 * PAGE;
	promised = memory;
	real = sys_table;
	sys_table.mmap_over = mmap_watched;
	sys_table.mprotect = mprotect_watched;
	taken = sim_unplug(device);
	sys_table = real;
	if (taken) {
		CHECK(policy == HM_LOSS_ZERO ? is_zero(base, 0, 5 * PAGE) :
					       pattern_holds(base, 0, 5 * PAGE, 1));
		CHECK(policy == HM_LOSS_ZERO ? is_zero(base, 6 * PAGE, SIZE) :
					       pattern_holds(base, 6 * PAGE, SIZE, 1));
		CHECK_EQUAL(test_write_signal(base), memory ? 0 : SIGSEGV);
		CHECK_EQUAL(test_write_signal(base + 2 * PAGE), SIGSEGV);
		CHECK_EQUAL(test_read_signal(base + 5 * PAGE), SIGSEGV);
		CHECK_EQUAL(test_read_signal(base + (PAGES + 1) * PAGE), SIGSEGV);
		sim_plug();
		CHECK_OK(hm_device_recover(device, HM_RECOVER_SHADOWED, NULL));
		CHECK_EQUAL(test_write_signal(base),
			    policy == HM_LOSS_ZERO && !memory ? SIGSEGV : 0);
	}
	drop(device, buffer, map);
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
	drop(device, buffer, NULL);
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
	struct hm_device *device = sim_open();
	struct hm_map *map;
	struct hm_buffer *buffer = sim_make(device, size, 0, &map);
	uint64_t before;

	real = sys_table;
	sys_table.fallocate = fallocate_interrupted;
	CHECK_OK(set_policy(buffer, HM_LOSS_SHADOW, 0));
	sys_table = real;
	CHECK_EQUAL(n_interrupted, 0);
	before = stats_now().bytes_shadow;
	CHECK_EQUAL(before, buffer_info(buffer).bytes_shadow);
	CHECK(before >= size);
	drop(device, buffer, map);
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
	struct hm_device *device = sim_open();
	struct hm_map *map;
	struct hm_buffer *buffer = sim_make(device, SIZE, 0, &map);

	CHECK_OK_FATAL(set_policy(buffer, HM_LOSS_SHADOW, 0));
	CHECK_EQUAL(test_fork(in_child, &buffer), 0);
	drop(device, buffer, map);
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
