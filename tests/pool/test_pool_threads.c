// SPDX-License-Identifier: MIT
/* Pools on several threads, with their caches; and across fork(). */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/inject.h"
#include "pool/pool_support.h"
#include "pool/span.h"

#define THREADS 8
#define EXCHANGE 512

/* Allocations pass from thread to thread in a table: each may free what another made. */
struct crowd {
	struct hm_pool *pool;
	_Atomic(char *) exchange[EXCHANGE];
	_Atomic uint64_t allocated, failed;
	pthread_barrier_t start;
	uint64_t seed;
	unsigned int steps;
	_Atomic uint32_t n;
	_Atomic bool over;
};

/* Its length in its first 4 bytes, and its address in all further ones. */
static void sign(char *bytes, uint32_t size)
{
	memset(bytes, (int)((uintptr_t)bytes >> 4), size);
	memcpy(bytes, &size, sizeof(size));
}

static void give_back(struct crowd *crowd, char *bytes)
{
	struct hm_pointer_info at;
	uint32_t size;

	memcpy(&size, bytes, sizeof(size));
	if (hm_pointer_find(bytes + size - 1, &at) || at.base != bytes || at.length != size ||
	    (unsigned char)bytes[size - 1] != (unsigned char)((uintptr_t)bytes >> 4))
		atomic_fetch_add(&crowd->failed, 1);
	if (hm_pool_free(crowd->pool, bytes))
		atomic_fetch_add(&crowd->failed, 1);
}

static void *in_crowd(void *user)
{
	struct crowd *crowd = user;
	uint64_t random = crowd->seed + atomic_fetch_add(&crowd->n, 1);
	unsigned int i;

	pthread_barrier_wait(&crowd->start);
	for (i = 0; i < crowd->steps; i++) {
		uint64_t number = test_random(&random);
		uint32_t size = (uint32_t)(5 + (number >> 20) % (number & 15 ? 600 : 300000));
		char *bytes = NULL;

		if (hm_pool_alloc(crowd->pool, size, 0, &bytes)) {
			atomic_fetch_add(&crowd->failed, 1);
			break;
		}
		sign(bytes, size);
		atomic_fetch_add(&crowd->allocated, 1);
		bytes = atomic_exchange(&crowd->exchange[(number >> 8) % EXCHANGE], bytes);
		if (bytes)
			give_back(crowd, bytes);
	}
	return NULL;
}

/* Trims without pause, beside the others. */
static void *trimming(void *user)
{
	struct crowd *crowd = user;
	struct hm_pool_info info = { .struct_size = sizeof(info) };

	while (!atomic_load(&crowd->over))
		if (hm_pool_trim(crowd->pool, 0, NULL) || hm_pool_query(crowd->pool, &info))
			atomic_fetch_add(&crowd->failed, 1);
	return NULL;
}

static void eight_threads(void)
{
	struct crowd crowd = { .seed = test_seed() };
	pthread_t threads[THREADS], trimmer;
	struct hm_pool_info info;
	unsigned int i;

	crowd.steps = (test_is_slow() ? 2000 : 20000) * (pool_rounds() > 1 ? 100 : 1);
	crowd.pool = pool_make("host", 0, 0);
	pthread_barrier_init(&crowd.start, NULL, THREADS);
	for (i = 0; i < THREADS; i++)
		CHECK_FATAL(!pthread_create(&threads[i], NULL, in_crowd, &crowd));
	CHECK_FATAL(!pthread_create(&trimmer, NULL, trimming, &crowd));
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&crowd.over, true);
	pthread_join(trimmer, NULL);
	CHECK_EQUAL(crowd.failed, 0);
	CHECK_EQUAL(crowd.allocated, (uint64_t)THREADS * crowd.steps);
	for (i = 0; i < EXCHANGE; i++)
		if (crowd.exchange[i])
			give_back(&crowd, crowd.exchange[i]);
	CHECK_EQUAL(crowd.failed, 0);
	info = pool_info(crowd.pool);
	CHECK_EQUAL(info.allocations, 0);
	CHECK_EQUAL(info.allocated, crowd.allocated);
	CHECK_EQUAL(info.threads, 1); /* those of the others have ended with them */
	CHECK_OK(hm_pool_trim(crowd.pool, 0, NULL));
	CHECK_EQUAL(pool_info(crowd.pool).held, 0);
	pthread_barrier_destroy(&crowd.start);
	hm_pool_unref(crowd.pool);
}

/* Where the kernel makes no barrier for all threads, each one makes its own. */
static void eight_threads_fenced(void)
{
	inject_install();
	inject_always("membarrier", EPERM);
	eight_threads();
	inject_disarm();
}

/* Numbers add up at each moment, also while others allocate and empty the caches. */
static void sums_at_work(void)
{
	struct crowd crowd = { .seed = test_seed(), .pool = pool_make("host", 0, 0) };
	pthread_t workers[2], trimmer;
	unsigned int i;

	crowd.steps = test_is_slow() ? 5000 : 20000;
	pthread_barrier_init(&crowd.start, NULL, 2);
	CHECK_FATAL(!pthread_create(&trimmer, NULL, trimming, &crowd));
	for (i = 0; i < 2; i++)
		CHECK_FATAL(!pthread_create(&workers[i], NULL, in_crowd, &crowd));
	while (atomic_load(&crowd.allocated) < 2ull * crowd.steps &&
	       !atomic_load(&crowd.failed))
		pool_info(crowd.pool);
	atomic_store(&crowd.over, true);
	for (i = 0; i < 2; i++)
		pthread_join(workers[i], NULL);
	pthread_join(trimmer, NULL);
	CHECK_EQUAL(crowd.failed, 0);
	for (i = 0; i < EXCHANGE; i++)
		if (crowd.exchange[i])
			give_back(&crowd, crowd.exchange[i]);
	pthread_barrier_destroy(&crowd.start);
	hm_pool_unref(crowd.pool);
}

/* ---- caches of other threads ---- */

struct keeper {
	struct hm_pool *pool;
	pthread_barrier_t step;
	char *left; /* an allocation that its thread does not free */
};

static void *keep(void *user)
{
	struct keeper *keeper = user;
	void *kept[400];
	unsigned int i;

	keeper->left = pool_take(keeper->pool, 100);
	for (i = 0; i < 400; i++)
		kept[i] = pool_take(keeper->pool, 1024);
	for (i = 0; i < 400; i++)
		CHECK_OK(hm_pool_free(keeper->pool, kept[i]));
	pthread_barrier_wait(&keeper->step); /* its cache is full */
	pthread_barrier_wait(&keeper->step); /* the other one has had it */
	for (i = 0; i < 10; i++)
		kept[i] = pool_take(keeper->pool, 1024);
	for (i = 0; i < 10; i++)
		CHECK_OK(hm_pool_free(keeper->pool, kept[i]));
	return NULL;
}

/* Another thread's cache holds the pages of all free blocks; the pool takes them back. */
static void takes_others_caches(void)
{
	struct keeper keeper = { .pool = pool_make("host", KIB(512), KIB(512)) };
	struct hm_pool_info info;
	pthread_t thread;
	void *large;

	pthread_barrier_init(&keeper.step, NULL, 2);
	CHECK_FATAL(!pthread_create(&thread, NULL, keep, &keeper));
	pthread_barrier_wait(&keeper.step);
	info = pool_info(keeper.pool);
	CHECK_EQUAL(info.threads, 1);
	CHECK(info.cached >= KIB(32));
	large = pool_take(keeper.pool, KIB(480));
	CHECK_EQUAL(pool_info(keeper.pool).cached, 0);
	CHECK_OK(hm_pool_free(keeper.pool, large));
	pthread_barrier_wait(&keeper.step);
	pthread_join(thread, NULL);
	CHECK_EQUAL(pool_info(keeper.pool).threads, 1); /* this one's */
	CHECK_OK(hm_pool_free(keeper.pool, keeper.left));
	pthread_barrier_destroy(&keeper.step);
	hm_pool_unref(keeper.pool);
}

static void *keep_and_end(void *user)
{
	struct keeper *keeper = user;

	CHECK_OK(hm_pool_free(keeper->pool, pool_take(keeper->pool, 100)));
	pthread_barrier_wait(&keeper->step);
	pthread_barrier_wait(&keeper->step); /* the pool has ended */
	return NULL;
}

/* The pool may end before a thread that has a cache of it, and another pool begin. */
static void pool_ends_first(void)
{
	struct hm_stats before = stats_now();
	struct keeper keeper = { .pool = pool_make("host", 0, 0) };
	struct hm_pool *others[20];
	pthread_t thread;
	unsigned int i;

	pthread_barrier_init(&keeper.step, NULL, 2);
	CHECK_FATAL(!pthread_create(&thread, NULL, keep_and_end, &keeper));
	pthread_barrier_wait(&keeper.step);
	hm_pool_unref(keeper.pool);
	CHECK_EQUAL(stats_now().maps, before.maps);
	CHECK_EQUAL(stats_now().devices, before.devices);
	pthread_barrier_wait(&keeper.step);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&keeper.step);
	/* More pools than a thread finds at once. */
	for (i = 0; i < 20; i++)
		others[i] = pool_make("host", 0, KIB(64));
	for (i = 0; i < 60; i++)
		CHECK_OK(hm_pool_free(others[i % 20], pool_take(others[i % 20], 100)));
	for (i = 0; i < 20; i++) {
		CHECK_EQUAL(pool_info(others[i]).allocated, 3);
		hm_pool_unref(others[i]);
	}
}

/* ---- two threads free one allocation ---- */

#define RACES 2000

struct race {
	struct hm_pool *pool;
	pthread_barrier_t start;
	char *bytes;
	_Atomic unsigned int freed, refused;
};

static void *free_it(void *user)
{
	struct race *race = user;
	unsigned int i;
	int r;

	for (i = 0; i < RACES; i++) {
		pthread_barrier_wait(&race->start);
		r = hm_pool_free(race->pool, race->bytes);
		atomic_fetch_add(r ? &race->refused : &race->freed, 1);
		pthread_barrier_wait(&race->start);
	}
	return NULL;
}

static void racing_frees(void)
{
	struct race race = { .pool = pool_make("host", 0, 0) };
	pthread_t threads[2];
	unsigned int i;

	pthread_barrier_init(&race.start, NULL, 3);
	for (i = 0; i < 2; i++)
		CHECK_FATAL(!pthread_create(&threads[i], NULL, free_it, &race));
	for (i = 0; i < RACES; i++) {
		race.bytes = pool_take(race.pool, 64);
		pthread_barrier_wait(&race.start);
		pthread_barrier_wait(&race.start);
	}
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQUAL(race.freed, RACES);
	CHECK_EQUAL(race.refused, RACES);
	pthread_barrier_destroy(&race.start);
	hm_pool_unref(race.pool);
}

/* ---- a thread uses an allocation that another one resizes in place ---- */

struct resized {
	struct hm_pool *pool;
	char *bytes;
	_Atomic bool over;
};

static void *use_it(void *user)
{
	struct resized *resized = user;
	char *other;

	while (!atomic_load(&resized->over)) {
		resized->bytes[0]++;
		/* Has the pages that the other one has just lost. */
		other = pool_take(resized->pool, KIB(1500));
		memset(other, 1, KIB(1500));
		CHECK_OK(hm_pool_free(resized->pool, other));
	}
	return NULL;
}

/* Under AddressSanitizer neither its bytes nor those of others are poisoned for a while. */
static void resized_in_use(void)
{
	struct resized resized = { .pool = pool_make("host", 0, MIB(8)) };
	unsigned int i, n = test_is_slow() ? 500 : 5000;
	pthread_t thread;

	resized.bytes = pool_take(resized.pool, MIB(3));
	CHECK_FATAL(!pthread_create(&thread, NULL, use_it, &resized));
	for (i = 0; i < n; i++) {
		CHECK_OK(hm_pool_realloc(resized.pool, resized.bytes, MIB(1), 0, NULL));
		hm_pool_realloc(resized.pool, resized.bytes, MIB(3), 0, NULL);
	}
	atomic_store(&resized.over, true);
	pthread_join(thread, NULL);
	CHECK_OK(hm_pool_free(resized.pool, resized.bytes));
	CHECK_EQUAL(pool_info(resized.pool).live, 0);
	hm_pool_unref(resized.pool);
}

static void *end_resize(void *user)
{
	struct pool_span *span = user;

	/* The resize takes its time: the look-up has to wait for its end. */
	usleep(2000);
	atomic_fetch_add(&span->seq, 1);
	return NULL;
}

/* A look-up never reports an allocation as freed while another thread resizes it. */
static void found_while_resized(void)
{
	struct hm_pointer_detail detail = { .struct_size = sizeof(detail) };
	AUTO(hm_pool) *pool = pool_make("host", 0, 0);
	char *bytes = pool_take(pool, MIB(2));
	struct pool_span *span = pool_span_at((uintptr_t)bytes);
	struct hm_pointer_info at = { 0 };
	pthread_t thread;

	CHECK_FATAL(span != NULL);
	atomic_fetch_add(&span->seq, 1); /* as span_resize() begins */
	CHECK_EQUAL(hm_pointer_find(bytes, &at), -EAGAIN);
	CHECK(!at.base);
	CHECK_FATAL(!pthread_create(&thread, NULL, end_resize, span));
	CHECK_OK(hm_pointer_query(bytes, &detail));
	CHECK_EQUAL(detail.info.length, MIB(2));
	pthread_join(thread, NULL);
	CHECK_EQUAL(hm_pointer_find(bytes, &at), 0);
	CHECK_OK(hm_pool_free(pool, bytes));
	CHECK_EQUAL(hm_pointer_find(bytes, &at), -ENOENT);
}

/* ---- fork ---- */

struct family {
	struct hm_pool *pool;
	char *bytes;
};

static void in_child(void *user)
{
	struct family *family = user;
	struct hm_pool_info info = { .struct_size = sizeof(info) };
	struct hm_pointer_info at;
	char *bytes = NULL;

	/* A child looks, and no more. */
	CHECK_EQUAL(hm_pointer_find(family->bytes + 50, &at), 0);
	CHECK(at.base == family->bytes && at.length == 100);
	CHECK_EQUAL((unsigned char)family->bytes[99], 7);
	CHECK_ERROR(-EOWNERDEAD, hm_pool_alloc(family->pool, 10, 0, &bytes));
	CHECK_ERROR(-EOWNERDEAD, hm_pool_free(family->pool, family->bytes));
	CHECK_ERROR(-EOWNERDEAD, hm_pool_query(family->pool, &info));
	CHECK_ERROR(-EOWNERDEAD, hm_pool_trim(family->pool, 0, NULL));
	CHECK_ERROR(-EOWNERDEAD, hm_pool_realloc(family->pool, family->bytes, 9, 0, NULL));
	CHECK_ERROR(-EOWNERDEAD, hm_free(family->bytes));
	CHECK_ERROR(-EOWNERDEAD, hm_realloc(family->bytes, 9, 0, NULL));
	AUTO(hm_pool) *own = pool_make("host", 0, 0);
	bytes = pool_take(own, 100);
	memset(bytes, 1, 100);
	CHECK_OK(hm_pool_free(own, bytes));
	CHECK_EQUAL(pool_info(own).allocated, 1);
	hm_pool_unref(family->pool);
}

static void forks(void)
{
	struct family family = { .pool = pool_make("host", 0, 0) };
	struct crowd crowd = { .seed = test_seed(), .pool = family.pool, .steps = 1000000 };
	pthread_t thread;
	unsigned int i;

	family.bytes = pool_take(family.pool, 100);
	memset(family.bytes, 7, 100);
	CHECK_EQUAL(test_fork(in_child, &family), 0);
	/* Another thread may hold any lock of the pool at the fork. */
	pthread_barrier_init(&crowd.start, NULL, 1);
	CHECK_FATAL(!pthread_create(&thread, NULL, trimming, &crowd));
	if (!TEST_TSAN)
		for (i = 0; i < 10; i++)
			CHECK_EQUAL(test_fork(in_child, &family), 0);
	atomic_store(&crowd.over, true);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&crowd.start);
	CHECK_OK(hm_pool_free(family.pool, family.bytes));
	hm_pool_unref(family.pool);
}

static void in_child_of_device(void *user)
{
	struct family *family = user;
	struct hm_pointer_info at;
	struct hm_device *device;
	char *bytes;
	unsigned int i;

	CHECK_EQUAL(hm_pointer_find(family->bytes, &at), -ENOENT);
	CHECK_ERROR(-EOWNERDEAD, hm_free(family->bytes));
	/* The kernel may give the block's addresses to other maps. */
	CHECK_OK_FATAL(hm_device_open("host", &device));
	for (i = 0; i < 20; i++) {
		CHECK_OK_FATAL(hm_alloc(device, MIB(16), HM_READ | HM_WRITE, &bytes));
		CHECK_EQUAL(hm_pointer_find(bytes + MIB(8), &at), 0);
		CHECK(at.base == bytes && !at.pool && at.length == MIB(16));
		memset(bytes, 1, MIB(16));
	}
}

/* Blocks of a device are not inherited. */
static void forks_on_device(void)
{
	struct family family;
	char *freed;

	setenv("HETMAP_SOFT", "vram_mb=64 system_mb=16 kind=nic", 1);
	family.pool = pool_make("soft:0", 0, 0);
	family.bytes = pool_take(family.pool, MIB(1));
	freed = pool_take(family.pool, MIB(1));
	CHECK_OK(hm_free(freed));
	CHECK_EQUAL(test_fork(in_child_of_device, &family), 0);
	CHECK_OK(hm_free(family.bytes));
	hm_pool_unref(family.pool);
}

/* ---- each call that fails ---- */

struct undo {
	struct hm_pool *pool;
	char *bytes[4];
};

static int run_all(struct hm_device *device, unsigned int n, struct undo *undo)
{
	int r = hm_pool_create(device, DESC(hm_pool_desc, .block_size = KIB(256)), &undo->pool);

	if (!r)
		r = hm_pool_alloc(undo->pool, 100, 0, &undo->bytes[0]);
	if (!r)
		r = hm_pool_alloc(undo->pool, KIB(200), 8192, &undo->bytes[1]);
	if (!r)
		r = hm_pool_alloc(undo->pool, KIB(300), 0, &undo->bytes[2]);
	if (!r)
		r = hm_pool_realloc(undo->pool, undo->bytes[2], MIB(1), HM_MAY_MOVE,
				    &undo->bytes[2]);
	/* Begins below that of the turn before, so that the page table needs memory, too. */
	if (!r)
		r = hm_pool_alloc(undo->pool, n * MIB(64), 0, &undo->bytes[3]);
	return r;
}

static void undoes(void)
{
	struct hm_stats before;
	unsigned int n, i;
	bool failed;
	AUTO(hm_device) *device = rig_device("host");

	inject_install();
	make_table();
	before = stats_now();
	for (n = 1;; n++) {
		struct undo undo = { 0 };
		int r;

		inject_arm(n, INJECT_ONE);
		r = run_all(device, n, &undo);
		failed = inject_disarm();
		CHECK(!r || (failed && r < 0));
		for (i = 0; i < ARRAY_SIZE(undo.bytes); i++)
			if (undo.bytes[i])
				CHECK_OK(hm_free(undo.bytes[i]));
		if (undo.pool)
			CHECK_EQUAL(pool_info(undo.pool).allocations, 0);
		hm_pool_unref(undo.pool);
		inject_forgive();
		CHECK_EQUAL(stats_now().maps, before.maps);
		CHECK_EQUAL(stats_now().buffers, before.buffers);
		CHECK_EQUAL(stats_now().devices, before.devices);
		if (!failed)
			break;
	}
	CHECK(n > 10);
}

#define SHRUNK 600

/* An allocation can always become shorter: the list of free pages may lack memory. */
static void shrinks_without_memory(void)
{
	AUTO(hm_pool) *pool = pool_make("host", 0, MIB(4));
	static char *kept[SHRUNK];
	unsigned int i;

	inject_install();
	for (i = 0; i < SHRUNK; i++)
		kept[i] = pool_take(pool, KIB(64));
	inject_always("mmap", ENOMEM);
	for (i = 0; i < SHRUNK; i++)
		CHECK_OK(hm_pool_realloc(pool, kept[i], 100, 0, NULL));
	CHECK(inject_disarm());
	CHECK_EQUAL(pool_info(pool).live, SHRUNK * 100);
	for (i = 0; i < SHRUNK; i++)
		CHECK_OK(hm_pool_free(pool, kept[i]));
}

static const struct test tests[] = {
	{ .name = "eight_threads", .run = eight_threads, .seconds = 60 },
	{ .name = "eight_threads_fenced", .run = eight_threads_fenced, .seconds = 60 },
	{ .name = "sums_at_work", .run = sums_at_work, .seconds = 60 },
	{ .name = "takes_others_caches", .run = takes_others_caches },
	{ .name = "pool_ends_first", .run = pool_ends_first },
	{ .name = "racing_frees", .run = racing_frees },
	{ .name = "resized_in_use", .run = resized_in_use, .seconds = 60 },
	{ .name = "found_while_resized", .run = found_while_resized },
	{ .name = "forks", .run = forks },
	{ .name = "forks_on_device", .run = forks_on_device },
	{ .name = "undoes", .run = undoes },
	{ .name = "shrinks_without_memory", .run = shrinks_without_memory },
	{ .name = NULL },
};

TEST_MAIN(harness_main, "pool_threads", tests)
