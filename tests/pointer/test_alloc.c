// SPDX-License-Identifier: MIT
/* The short API: memory as a pointer; refused frees and reallocs, and their texts. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "lib/minimal_backend.h"
#include "lib/support.h"

/* Does the last error text hold the address of @pointer? */
static bool text_names(const void *pointer)
{
	char address[32];

	snprintf(address, sizeof(address), "%p", pointer);
	return strstr(hm_errmsg(), address);
}

static void opens(const char *name, const char *wanted)
{
	CHECK(name ? !setenv("HETMAP_DEVICE", name, 1) : !unsetenv("HETMAP_DEVICE"));
	AUTO(hm_device) *device = rig_device(NULL);
	CHECK(!strcmp(device_info(device).name, wanted));
}

/* Without a name the device is the host, whatever else there is, unless HETMAP_DEVICE names one. */
static void default_device(void)
{
	struct hm_device *device = NULL;
	float *x;

	opens(NULL, "host");
	opens("", "host");
	opens("host", "host");
	opens("file", "file");
	opens("soft:0", "soft:0");
	/* A mistake is an error, whose text names its source. */
	CHECK(!setenv("HETMAP_DEVICE", "sofa:0", 1));
	CHECK_ERROR(-ENODEV, hm_device_open(NULL, &device));
	CHECK(strstr(hm_errmsg(), "HETMAP_DEVICE=sofa:0") && !device);
	opens(NULL, "host");
	CHECK_OK_FATAL(hm_device_open(NULL, &device));
	CHECK_OK_FATAL(hm_alloc(device, 1000 * sizeof(*x), HM_READ | HM_WRITE, &x));
	hm_device_unref(device); /* the allocation holds it */
	x[0] = 3.14f;
	x[999] = x[0];
	CHECK(x[999] == 3.14f && x[500] == 0.0f);
	CHECK_OK(hm_free(x));
}

static void sizes(void)
{
	static const uint64_t all[] = { 1, 2, 63, 4095, 4096, 4097, 1 << 20, (1 << 21) + 1 };
	AUTO(hm_device) *device = rig_device("host");
	struct hm_pointer_info info;
	unsigned char *bytes;
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		CHECK_OK_FATAL(hm_alloc(device, all[i], HM_READ | HM_WRITE, &bytes));
		CHECK(is_zero(bytes, 0, all[i]));
		pattern_write(bytes, 0, all[i], 1);
		CHECK(pattern_holds(bytes, 0, all[i], 1));
		CHECK_EQUAL(hm_pointer_find(bytes + all[i] - 1, &info), 0);
		CHECK(info.base == bytes);
		CHECK_EQUAL(info.length, all[i]);
		CHECK_EQUAL(hm_pointer_find(bytes + all[i], &info), -ENOENT);
		CHECK_OK(hm_free(bytes));
		CHECK_EQUAL(hm_pointer_find(bytes, &info), -ENOENT);
	}
}

/* Room to grow: max(16 x size, 64 MiB), and the pointer stays in it. */
static void grows_in_place(void)
{
	AUTO(hm_device) *device = rig_device("host");
	struct hm_stats before = stats_now();
	unsigned char *bytes, *again = NULL;

	CHECK_OK_FATAL(hm_alloc(device, MIB(1), HM_READ | HM_WRITE, &bytes));
	CHECK(stats_now().bytes_reserved - before.bytes_reserved >= MIB(64));
	pattern_write(bytes, 0, MIB(1), 1);
	CHECK_OK(hm_realloc(bytes, MIB(64), 0, &again));
	CHECK(again == bytes);
	CHECK(pattern_holds(bytes, 0, MIB(1), 1));
	CHECK(is_zero(bytes, MIB(1), MIB(64)));
	CHECK_OK(hm_realloc(bytes, 5, 0, NULL));
	CHECK_OK(hm_realloc(bytes, MIB(2), 0, NULL));
	CHECK(pattern_holds(bytes, 0, 5, 1));
	CHECK(is_zero(bytes, 5, MIB(2)));
	CHECK_ERROR(-ENOSPC, hm_realloc(bytes, MIB(1024), 0, &again));
	CHECK(strstr(hm_errmsg(), "HM_MAY_MOVE") && !strstr(hm_errmsg(), "max_size"));
	CHECK(again == bytes);
	CHECK_OK(hm_free(bytes));
	CHECK_OK_FATAL(hm_alloc(device, MIB(8), HM_READ | HM_WRITE, &bytes));
	CHECK(stats_now().bytes_reserved - before.bytes_reserved >= MIB(128));
	CHECK_OK(hm_free(bytes));
}

/* Each allocation has a name of its own. */
static unsigned long number_of(void *pointer)
{
	const char *name;

	CHECK_ERROR(-ENOSPC, hm_realloc(pointer, MIB(1024), 0, NULL));
	name = strstr(hm_errmsg(), "alloc-");
	return name ? strtoul(name + strlen("alloc-"), NULL, 10) : 0;
}

static void numbered(void)
{
	AUTO(hm_device) *device = rig_device("host");
	void *first, *second;

	CHECK_OK_FATAL(hm_alloc(device, MIB(1), HM_READ | HM_WRITE, &first));
	CHECK_OK_FATAL(hm_alloc(device, MIB(1), HM_READ | HM_WRITE, &second));
	CHECK(number_of(first) > 0);
	CHECK_EQUAL(number_of(second), number_of(first) + 1);
	CHECK_OK(hm_free(first));
	CHECK_OK(hm_free(second));
}

/* Past the end of its room only another allocation is possible there. */
static void cannot_move(void)
{
	void *pointer;

	hm_backend_register(&minimal_backend);
	AUTO(hm_device) *device = rig_device("minimal");
	CHECK_OK_FATAL(hm_alloc(device, MIB(1), HM_READ | HM_WRITE, &pointer));
	CHECK_ERROR(-EOPNOTSUPP, hm_realloc(pointer, MIB(1024), HM_MAY_MOVE, &pointer));
	CHECK(strstr(hm_errmsg(), "hm_alloc()") && !strstr(hm_errmsg(), "pass HM_MAY_MOVE"));
	/* A smaller size is no lack of room. */
	CHECK_ERROR(-EOPNOTSUPP, hm_realloc(pointer, 100, 0, &pointer));
	CHECK(strstr(hm_errmsg(), "has 1048576 bytes") && !strstr(hm_errmsg(), "not in the"));
	CHECK_OK(hm_free(pointer));
}

static void moves(void)
{
	AUTO(hm_device) *device = rig_device("host");
	struct hm_pointer_info info;
	unsigned char *bytes, *moved = NULL;

	CHECK_OK_FATAL(hm_alloc(device, MIB(1), HM_READ | HM_WRITE, &bytes));
	pattern_write(bytes, 0, MIB(1), 1);
	CHECK_OK_FATAL(hm_realloc(bytes, MIB(100), HM_MAY_MOVE, &moved));
	CHECK(pattern_holds(moved, 0, MIB(1), 1));
	CHECK(is_zero(moved, MIB(1), MIB(2)));
	moved[MIB(100) - 1] = 1;
	CHECK_EQUAL(hm_pointer_find(moved + MIB(100) - 1, &info), 0);
	CHECK(info.base == moved);
	CHECK(info.generation > 0);
	if (moved != bytes)
		CHECK_ERROR(-EINVAL, hm_free(bytes));
	CHECK_OK(hm_free(moved));
}

static void double_free(void)
{
	AUTO(hm_device) *device = rig_device("host");
	char *bytes;

	CHECK_OK_FATAL(hm_alloc(device, 10000, HM_READ | HM_WRITE, &bytes));
	CHECK_OK(hm_free(bytes));
	CHECK_ERROR(-EINVAL, hm_free(bytes));
	CHECK(text_names(bytes));
	CHECK_ERROR(-EINVAL, hm_free(bytes + 1));
	CHECK_ERROR(-EINVAL, hm_realloc(bytes, 5, 0, NULL));
}

static void interior(void)
{
	static const uint64_t offsets[] = { 1, 4, 64, 4096, 9999 };
	AUTO(hm_device) *device = rig_device("host");
	char *bytes, *again = NULL;
	size_t i;

	CHECK_OK_FATAL(hm_alloc(device, 10000, HM_READ | HM_WRITE, &bytes));
	pattern_write(bytes, 0, 10000, 1);
	for (i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		CHECK_ERROR(-EINVAL, hm_free(bytes + offsets[i]));
		CHECK(text_names(bytes));
		CHECK_ERROR(-EINVAL, hm_realloc(bytes + offsets[i], 5, 0, &again));
		CHECK(text_names(bytes));
	}
	CHECK(!again);
	CHECK(pattern_holds(bytes, 0, 10000, 1));
	CHECK_OK(hm_free(bytes));
}

static void foreign(void)
{
	AUTO(hm_device) *device = rig_device("host");
	char local = 1;
	AUTO(hm_buffer) *buffer = rig_buffer(device, DESC(hm_buffer_desc, .size = 10000));
	AUTO(hm_map) *map = rig_map(buffer, NULL);

	CHECK_ERROR(-EINVAL, hm_free(&local));
	CHECK(text_names(&local));
	CHECK_ERROR(-EINVAL, hm_free((void *)1));
	CHECK_ERROR(-EINVAL, hm_free(hm_map_address(map)));
	CHECK_ERROR(-EINVAL, hm_realloc(hm_map_address(map), 1, 0, NULL));
	CHECK_EQUAL(hm_map_length(map), 10000);
}

static void read_only(void)
{
	AUTO(hm_device) *device = rig_device("host");
	const char *bytes;

	CHECK_OK_FATAL(hm_alloc(device, 10000, HM_READ, &bytes));
	CHECK(is_zero(bytes, 0, 10000));
	CHECK(test_write_signal((char *)(uintptr_t)bytes));
	CHECK_OK(hm_free((void *)(uintptr_t)bytes));
}

/* Below the wish, and down to the size itself, with a sentence that says so. */
static void limited(void *user)
{
	struct rlimit limit = { MIB(8), MIB(8) };
	AUTO(hm_device) *device = rig_device("host");
	char *bytes;

	(void)user;
	CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
	test_forget_text();
	CHECK_OK_FATAL(hm_alloc(device, MIB(1), HM_READ | HM_WRITE, &bytes));
	CHECK(strstr(hm_warning(), "RLIMIT_FSIZE"));
	pattern_write(bytes, 0, MIB(1), 1);
	CHECK_OK(hm_realloc(bytes, MIB(4), 0, NULL));
	CHECK(pattern_holds(bytes, 0, MIB(1), 1));
	CHECK_OK(hm_free(bytes));
	CHECK_OK_FATAL(hm_alloc(device, MIB(8), HM_READ | HM_WRITE, &bytes));
	CHECK_OK(hm_free(bytes));
	bytes = NULL;
	CHECK_ERROR(-EFBIG, hm_alloc(device, MIB(8) + 1, HM_READ | HM_WRITE, &bytes));
	CHECK(!bytes);
}

static void less_room(void)
{
	CHECK_EQUAL(test_fork(limited, NULL), 0);
}

/* Maps that a fork child has of its parent, inherited or not. */
static void *parents[2];

static void in_child(void *user)
{
	struct hm_accel *accel;
	struct hm_queue *queue;
	void *own, *at = NULL;
	uint32_t way;
	size_t i;

	(void)user;
	for (i = 0; i < 2; i++) {
		CHECK_ERROR(-EOWNERDEAD, hm_realloc(parents[i], MIB(2), HM_MAY_MOVE, &at));
		CHECK_ERROR(-EOWNERDEAD, hm_free(parents[i]));
		CHECK_ERROR(-EOWNERDEAD, hm_free((char *)parents[i] + 64));
		CHECK(!at);
	}
	/* Other calls that take a pointer. The child's own pointers are good for all of them. */
	CHECK_OK_FATAL(hm_alloc(rig_device("host"), MIB(1), HM_READ | HM_WRITE, &own));
	CHECK_OK_FATAL(hm_accel_open("cpu", NULL, &accel));
	CHECK_OK_FATAL(hm_queue_create(accel, 0, &queue));
	CHECK_OK_FATAL(hm_handler_install(0));
	for (i = 0; i < 2; i++) {
		CHECK_ERROR(-EOWNERDEAD, hm_queue_copy(queue, own, parents[i], 64, NULL));
		CHECK_ERROR(-EOWNERDEAD, hm_accel_way_in(accel, parents[i], 64, &way));
		CHECK_ERROR(-EOWNERDEAD, hm_copy_out(own, parents[i], 64, NULL));
	}
	CHECK_OK(hm_handler_remove());
	CHECK_ERROR(-EINVAL, hm_free(&own));
	hm_queue_unref(queue);
	hm_accel_unref(accel);
	CHECK_OK(hm_free(own));
}

static void fork_child(void)
{
	static const char *const names[] = { "host", "soft:0" };
	struct hm_device *devices[2];
	size_t i;

	for (i = 0; i < 2; i++) {
		CHECK_OK_FATAL(hm_device_open(names[i], &devices[i]));
		CHECK_OK_FATAL(hm_alloc(devices[i], MIB(1), HM_READ | HM_WRITE, &parents[i]));
	}
	CHECK_EQUAL(test_fork(in_child, NULL), 0);
	for (i = 0; i < 2; i++) {
		CHECK_OK(hm_realloc(parents[i], MIB(2), 0, NULL));
		CHECK_OK(hm_free(parents[i]));
		hm_device_unref(devices[i]);
	}
}

/* If two threads free at once, one comes too late; nothing else happens. */
#define RACES 300

struct race {
	pthread_barrier_t start;
	void *pointer;
	atomic_int freed, refused;
};

static void *free_it(void *user)
{
	struct race *race = user;
	int i;

	for (i = 0; i < RACES; i++) {
		pthread_barrier_wait(&race->start);
		if (hm_free(race->pointer) == 0)
			atomic_fetch_add(&race->freed, 1);
		else
			atomic_fetch_add(&race->refused, 1);
		pthread_barrier_wait(&race->start);
	}
	return NULL;
}

static void racing_frees(void)
{
	AUTO(hm_device) *device = rig_device("host");
	struct race race = { .freed = 0 };
	pthread_t threads[2];
	int i;

	pthread_barrier_init(&race.start, NULL, 3);
	for (i = 0; i < 2; i++)
		CHECK_FATAL(!pthread_create(&threads[i], NULL, free_it, &race));
	for (i = 0; i < RACES; i++) {
		CHECK_OK_FATAL(hm_alloc(device, 4096, HM_READ | HM_WRITE, &race.pointer));
		pthread_barrier_wait(&race.start);
		pthread_barrier_wait(&race.start);
	}
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&race.start);
	CHECK_EQUAL(race.freed, RACES);
	CHECK_EQUAL(race.refused, RACES);
}

static const struct test tests[] = {
	{ "default_device", default_device, 0, 0 },
	{ "sizes", sizes, 0, 0 },
	{ "grows_in_place", grows_in_place, 0, 0 },
	{ "numbered", numbered, 0, 0 },
	{ "cannot_move", cannot_move, 0, 0 },
	{ "moves", moves, 0, 0 },
	{ "double_free", double_free, 0, 0 },
	{ "interior", interior, 0, 0 },
	{ "foreign", foreign, 0, 0 },
	{ "read_only", read_only, 0, 0 },
	{ "less_room", less_room, 0, 0 },
	{ "fork_child", fork_child, 0, 0 },
	{ "racing_frees", racing_frees, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "alloc", tests)
