// SPDX-License-Identifier: MIT
/*
 * The device is taken away and comes back, again and again, under threads that write in
 * brackets, launches that write, on CPUs and on its engine, and readers: every page is the one
 * that its last writer left, or the one before, and never some of both.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hetmap/hetmap.h>

#include "lib/sim_devices.h"
#include "base/util.h"

#define WRITERS 4
#define PAGES_EACH 24ull
/* The parts behind those of the threads are the CPU kernel's and the device's engine's. */
#define LAUNCHED (WRITERS * PAGES_EACH)
#define FILLED (LAUNCHED + PAGES_EACH)
#define PAGES (FILLED + PAGES_EACH)
#define WORDS (PAGE / sizeof(uint32_t))

static struct hm_device *device;
static struct hm_buffer *buffer;
static struct hm_map *map, *watched; /* no thread stores through the second */
static _Atomic bool ending;
static _Atomic uint32_t n_told, n_filled;

/* Counters of each page: in its bracket, and after that. */
static _Atomic uint32_t begun[PAGES], done[PAGES];

static uint64_t rounds(void)
{
	const char *text = getenv("HETMAP_ROUNDS");

	return text ? strtoull(text, NULL, 10) : TEST_ASAN || TEST_TSAN ? 20 : 50;
}

static uint32_t *page_of(struct hm_map *of, uint64_t page)
{
	return (uint32_t *)((char *)hm_map_address(of) + page * PAGE);
}

static void stamp(uint32_t *words, uint32_t value)
{
	unsigned int i;

	for (i = 0; i < WORDS; i++)
		((volatile uint32_t *)words)[i] = value;
}

static void *write_pages(void *user)
{
	uint64_t first = (uint64_t)(uintptr_t)user * PAGES_EACH, from, n, i;
	uint64_t state = test_seed() + first;
	uint32_t value = 0;

	while (!ending) {
		from = first + test_random(&state) % PAGES_EACH;
		n = 1 + test_random(&state) % (first + PAGES_EACH - from);
		if (hm_map_begin_cpu(map, from * PAGE, n * PAGE, HM_READ | HM_WRITE)) {
			sched_yield();
			continue;
		}
		value++;
		for (i = from; i < from + n; i++) {
			begun[i] = value;
			stamp(page_of(map, i), value);
		}
		if (hm_map_end_cpu(map, from * PAGE, n * PAGE, HM_READ | HM_WRITE))
			continue;
		for (i = from; i < from + n; i++)
			done[i] = value;
	}
	return NULL;
}

static int stamp_kernel(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	uint32_t *words = (uint32_t *)args[1].pointer;
	uint64_t i;

	for (i = range->begin[0]; i < range->end[0]; i++)
		((volatile uint32_t *)words)[i] = args[0].u32;
	return 0;
}

static void *launch_pages(void *user)
{
	uint64_t state = test_seed() + 99, page;
	AUTO(hm_kernel) *kernel = NULL;
	AUTO(hm_accel) *accel = NULL;
	AUTO(hm_queue) *queue = NULL;
	struct hm_fence *fence;
	uint32_t value = 0;

	(void)user;
	CHECK_OK(hm_accel_open("cpu", NULL, &accel));
	CHECK_OK(hm_queue_create(accel, 0, &queue));
	CHECK_OK(hm_kernel_create(DESC(hm_kernel_desc, .name = "stamp", .cpu = stamp_kernel,
				       .signature = "u32 out"),
				  &kernel));
	while (!ending) {
		page = LAUNCHED + test_random(&state) % PAGES_EACH;
		value++;
		begun[page] = value;
		if (hm_launch(queue, kernel, WORDS, &fence, HM_U32(value),
			      HM_RANGE(page_of(map, page), PAGE, HM_WRITE))) {
			sched_yield();
			continue;
		}
		if (!hm_fence_wait(fence, UINT64_MAX))
			done[page] = value;
		hm_fence_unref(fence);
	}
	return NULL;
}

/* Its work is in flight when its device goes: then the engine is opened again. */
static int fill_pages_until_lost(uint64_t *state, uint32_t *value)
{
	AUTO(hm_accel) *accel = NULL;
	AUTO(hm_queue) *queue = NULL;
	struct hm_fence *fence;
	uint64_t page;
	int r = hm_accel_open(sim_device(), NULL, &accel);

	if (!r)
		r = hm_queue_create(accel, 0, &queue);
	while (!r && !ending) {
		page = FILLED + test_random(state) % PAGES_EACH;
		begun[page] = ++*value;
		r = hm_queue_fill(queue, page_of(map, page), *value, PAGE, &fence);
		if (r)
			break;
		r = hm_fence_wait(fence, UINT64_MAX);
		hm_fence_unref(fence);
		if (r)
			break;
		done[page] = *value;
		n_filled++;
	}
	return r;
}

static void *fill_pages(void *user)
{
	uint64_t state = test_seed() + 77;
	uint32_t value = 0;

	(void)user;
	while (!ending)
		if (fill_pages_until_lost(&state, &value))
			sched_yield();
	return NULL;
}

/*
 * Reads all the time, in no bracket and no guard, and may: the value is one of stores under
 * way, and is not checked. Pages without stores are checked: read_quiet().
 */
static __attribute__((no_sanitize("thread"))) void *look_at_pages(void *user)
{
	volatile const uint32_t *words = hm_map_address(watched);
	uint64_t i;

	(void)user;
	while (!ending)
		for (i = 0; i < PAGES * WORDS; i += 61)
			(void)words[i];
	return NULL;
}

/* A value that a page had, whole. Returns it. */
static uint32_t check_page(const uint32_t *words, uint64_t page, const char *when)
{
	unsigned int i;

	for (i = 1; i < WORDS; i++)
		if (words[i] != words[0]) {
			test_fail(__FILE__, __LINE__,
				  "%s: page %llu is torn: word 0 is %u, word %u is %u", when,
				  (unsigned long long)page, words[0], i, words[i]);
			break;
		}
	return words[0];
}

/* All of it as its last writer left it, or as the one before did. */
static void check_bounds(uint64_t page, const uint32_t *least, const char *when)
{
	uint32_t value = check_page(page_of(watched, page), page, when);

	if (value < least[page] || value > begun[page])
		test_fail(__FILE__, __LINE__, "page %llu has %u, not %u to %u",
			  (unsigned long long)page, value, least[page], begun[page]);
}

static void on_lost(struct hm_buffer *of, enum hm_loss_event event, void *user)
{
	(void)of, (void)user;
	n_told += event == HM_LOSS_TAKEN;
}

/* The engine is at work again: its next work is in flight. Not for long. */
static void wait_for_engine(void)
{
	uint32_t before = n_filled;
	unsigned int i;

	for (i = 0; n_filled == before && i < 200000; i++)
		usleep(100);
}

static void one_round(uint64_t *state, uint64_t round)
{
	struct hm_recover_info info = { .struct_size = sizeof(info) };
	uint32_t least[PAGES];
	uint64_t i;

	/* At any time, the engine may be opening; or while it works. */
	if (round % 2)
		wait_for_engine();
	usleep(test_random(state) % 3000);
	for (i = 0; i < PAGES; i++)
		least[i] = done[i];
	CHECK_OK(sim_inject(device, HETSIM_INJECT_UNPLUG, 0, 0));
	for (i = 0; i < PAGES; i++)
		check_bounds(i, least, "lost");
	sim_plug();
	CHECK_OK_FATAL(hm_device_recover(device, HM_RECOVER_SHADOWED, &info));
	CHECK_EQUAL(info.buffers_back, 1);
	CHECK_EQUAL(info.maps_back, 2);
	CHECK_EQUAL(info.generation, round + 1);
	CHECK_EQUAL(n_told, round + 1);
}

static void drop_maps(void)
{
	hm_map_unref(watched);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
}

static void all_threads(void)
{
	static void *(*const others[])(void *) = { launch_pages, fill_pages, look_at_pages };
	pthread_t threads[WRITERS + ARRAY_SIZE(others)];
	uint64_t state = test_seed(), round;
	unsigned int i;

	device = sim_open();
	buffer = sim_make(device, PAGES * PAGE, 0, &map);
	CHECK_OK_FATAL(hm_map_create(buffer, DESC(hm_map_desc, .access = HM_READ), &watched));
	ending = false;
	n_told = n_filled = 0;
	memset(begun, 0, sizeof(begun));
	memset(done, 0, sizeof(done));
	CHECK_OK_FATAL(hm_buffer_set_loss(buffer, DESC(hm_loss_desc, .policy = HM_LOSS_SHADOW,
						       .lost = on_lost)));
	if (!sim_unplug(device))
		goto out;
	sim_plug();
	CHECK_OK(hm_device_recover(device, HM_RECOVER_SHADOWED, NULL));
	for (i = 0; i < WRITERS; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, write_pages,
					   (void *)(uintptr_t)i),
			    0);
	for (; i < ARRAY_SIZE(threads); i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, others[i - WRITERS], NULL), 0);
	for (round = 1; round <= rounds(); round++)
		one_round(&state, round);
	ending = true;
	for (i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
	CHECK(n_filled);
	CHECK_EQUAL(buffer_info(buffer).lost, 0);
out:
	drop_maps();
}

static void test_handled(void)
{
	AUTO(rig_handler) handler = rig_handler(0);

	all_threads();
}

/* ---- without a shadow ---- */

static void open_maps(void)
{
	CHECK_OK_FATAL(hm_map_create(buffer, DESC(hm_map_desc, .access = HM_READ), &watched));
	ending = false;
	memset(begun, 0, sizeof(begun));
	memset(done, 0, sizeof(done));
}

static void start(pthread_t *threads, void *(*const others[])(void *), unsigned int n)
{
	unsigned int i;

	for (i = 0; i < WRITERS; i++)
		CHECK_FATAL(
			!pthread_create(&threads[i], NULL, write_pages, (void *)(uintptr_t)i));
	for (i = 0; i < n; i++)
		CHECK_FATAL(!pthread_create(&threads[WRITERS + i], NULL, others[i], NULL));
}

static void stop(const pthread_t *threads, unsigned int n)
{
	unsigned int i;

	ending = true;
	for (i = 0; i < WRITERS + n; i++)
		pthread_join(threads[i], NULL);
}

/* The default policy: pages without a store are zeros, all of them. */
static void zero_round(uint64_t *state)
{
	static void *(*const others[])(void *) = { launch_pages, fill_pages, look_at_pages };
	pthread_t threads[WRITERS + ARRAY_SIZE(others)];
	uint64_t i;

	buffer = sim_make(device, PAGES * PAGE, 0, &map);
	open_maps();
	start(threads, others, ARRAY_SIZE(others));
	wait_for_engine();
	usleep(test_random(state) % 3000);
	CHECK_OK(sim_inject(device, HETSIM_INJECT_UNPLUG, 0, 0));
	for (i = 0; i < PAGES; i++)
		CHECK_EQUAL(check_page(page_of(watched, i), i, "zeros"), 0);
	stop(threads, ARRAY_SIZE(others));
	CHECK(buffer_info(buffer).lost & HM_LOST_BYTES);
	drop_maps();
	sim_plug();
}

/* Where it may be taken away at all; it is there again afterwards. */
static bool may_unplug(void)
{
	bool may;

	device = sim_open();
	may = sim_unplug(device);
	hm_device_unref(device);
	if (may)
		sim_plug();
	return may;
}

static void test_zeros(void)
{
	uint64_t state = test_seed(), round;

	n_filled = 0;
	if (!may_unplug())
		return;
	for (round = 0; round <= rounds() / 4; round++) {
		device = sim_open();
		zero_round(&state);
	}
	CHECK(n_filled);
}

/* ---- pages without stores ---- */

/*
 * States of a page, in order: its bytes; zeros, which the module's device shows before the
 * library knows that it is gone, unless a handler puts the shadow there; the shadow's bytes.
 */
enum { HAS_OLD, HAS_ZERO, HAS_SHADOW, HAS_NONE };

#define READERS 2

struct quiet {
	pthread_t thread;
	const volatile uint32_t *words; /* the reader's own map */
	unsigned int may_have;          /* 1 << HAS_* */
	unsigned int has[PAGES];        /* state at the last look */
	uint32_t value;                 /* of a word that is wrong */
	_Atomic uint32_t n_scan;        /* of all pages */
};

static bool handled; /* the handler is installed */

static uint32_t word_of_old(uint64_t page)
{
	return (uint32_t)(2 * page + 2);
}

static uint32_t word_of_shadow(uint64_t page)
{
	return (uint32_t)(2 * page + 1);
}

static unsigned int has_of(uint32_t value, uint64_t page)
{
	if (!value)
		return HAS_ZERO;
	if (value == word_of_old(page))
		return HAS_OLD;
	return value == word_of_shadow(page) ? HAS_SHADOW : HAS_NONE;
}

/*
 * A page changes as a whole: if one word is of the replacement, each later word is. Returns the
 * number of the first other word, or WORDS.
 */
static __attribute__((no_sanitize("thread"))) unsigned int look_at(struct quiet *quiet,
								   uint64_t page)
{
	const volatile uint32_t *words = quiet->words + page * WORDS;
	unsigned int i, has;

	for (i = 0; i < WORDS; i++) {
		quiet->value = words[i];
		has = has_of(quiet->value, page);
		if (has < quiet->has[page] || !(quiet->may_have & 1u << has))
			break;
		quiet->has[page] = has;
	}
	return i;
}

static void *read_quiet(void *user)
{
	static const char *const had[] = { "its bytes", "zeros", "the shadow's" };
	struct quiet *quiet = user;
	unsigned int word, failed = 0;
	uint64_t page;

	for (; !ending; quiet->n_scan++)
		for (page = 0; page < PAGES; page++) {
			word = look_at(quiet, page);
			if (word < WORDS && !failed++)
				test_fail(__FILE__, __LINE__,
					  "word %u of page %llu is %u, after %s", word,
					  (unsigned long long)page, quiet->value,
					  had[quiet->has[page]]);
		}
	return NULL;
}

/* All of it, begun from here on. */
static void wait_for_scans(const struct quiet *readers)
{
	uint32_t before[READERS];
	unsigned int i;

	for (i = 0; i < READERS; i++)
		before[i] = readers[i].n_scan;
	for (i = 0; i < READERS; i++)
		while (readers[i].n_scan - before[i] < 2)
			usleep(100);
}

/* Each of them by its own map: one can be stored through, the other can not. */
static void quiet_begin(struct quiet *readers, uint32_t policy)
{
	bool module = strncmp(sim_device(), "soft", 4) != 0;
	uint64_t i;

	buffer = sim_make(device, PAGES * PAGE, 0, &map);
	open_maps();
	for (i = 0; i < PAGES; i++)
		stamp(page_of(map, i), word_of_shadow(i));
	CHECK_OK_FATAL(hm_buffer_set_loss(buffer, DESC(hm_loss_desc, .policy = policy)));
	/* In no bracket: the shadow lacks it. */
	for (i = 0; i < PAGES; i++)
		stamp(page_of(map, i), word_of_old(i));
	for (i = 0; i < READERS; i++) {
		readers[i] = (struct quiet){ .may_have = 1u << HAS_OLD };
		readers[i].words = hm_map_address(i ? watched : map);
		if (policy == HM_LOSS_SHADOW)
			readers[i].may_have |= 1u << HAS_SHADOW;
		if (policy == HM_LOSS_ZERO || (module && !handled))
			readers[i].may_have |= 1u << HAS_ZERO;
		CHECK_FATAL(!pthread_create(&readers[i].thread, NULL, read_quiet, &readers[i]));
	}
}

static void check_all(struct hm_map *of, uint32_t policy, const char *when)
{
	uint64_t i;

	for (i = 0; i < PAGES; i++)
		CHECK_EQUAL(check_page(page_of(of, i), i, when),
			    policy == HM_LOSS_SHADOW ? word_of_shadow(i) : 0);
}

static void quiet_round(uint32_t policy, uint64_t *state)
{
	bool back = policy == HM_LOSS_SHADOW;
	struct hm_recover_info info = { .struct_size = sizeof(info) };
	struct quiet readers[READERS];
	uint64_t i, page;

	quiet_begin(readers, policy);
	wait_for_scans(readers);
	usleep(test_random(state) % 1000);
	CHECK_OK(sim_inject(device, HETSIM_INJECT_UNPLUG, 0, 0));
	check_all(watched, policy, "quiet, lost");
	check_all(map, policy, "quiet, lost");
	usleep(test_random(state) % 1000);
	sim_plug();
	CHECK_OK_FATAL(hm_device_recover(device, HM_RECOVER_SHADOWED, &info));
	CHECK_EQUAL(info.buffers_back, back);
	CHECK_EQUAL(info.maps_back, back ? 2 : 0);
	check_all(watched, policy, "quiet, recovered");
	wait_for_scans(readers);
	ending = true;
	for (i = 0; i < READERS; i++) {
		pthread_join(readers[i].thread, NULL);
		for (page = 0; page < PAGES; page++)
			CHECK_EQUAL(readers[i].has[page], back ? HAS_SHADOW : HAS_ZERO);
	}
	CHECK_EQUAL(buffer_info(buffer).lost & HM_LOST_BYTES, back ? 0 : HM_LOST_BYTES);
	drop_maps();
}

static void quiet_rounds(uint32_t policy)
{
	uint64_t state = test_seed(), round;

	if (!may_unplug())
		return;
	for (round = 0; round <= rounds() / 2; round++) {
		device = sim_open();
		quiet_round(policy, &state);
	}
}

static void test_quiet_zeros(void)
{
	quiet_rounds(HM_LOSS_ZERO);
}

static void test_quiet_shadow(void)
{
	quiet_rounds(HM_LOSS_SHADOW);
}

static void test_quiet_handled(void)
{
	AUTO(rig_handler) handler = rig_handler(0);

	handled = true;
	quiet_rounds(HM_LOSS_SHADOW);
	handled = false;
}

/* ---- a file that is cut under them ---- */

#define CUT (PAGES_EACH + 5) /* where: in the second writer's pages */

/* A plain reader finds the shadow's bytes in pages that were cut off, or replaced. */
static void cut_round(uint64_t *state)
{
	static void *(*const others[])(void *) = { look_at_pages };
	pthread_t threads[WRITERS + ARRAY_SIZE(others)];
	int fd = scratch_file(PAGES * PAGE);
	uint32_t least[PAGES];
	uint64_t i;

	CHECK_OK_FATAL(hm_device_open("file", &device));
	CHECK_OK_FATAL(hm_buffer_from_file(device, NULL, fd, NULL, &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	open_maps();
	CHECK_OK_FATAL(
		hm_buffer_set_loss(buffer, DESC(hm_loss_desc, .policy = HM_LOSS_SHADOW)));
	start(threads, others, ARRAY_SIZE(others));
	usleep(1000 + test_random(state) % 5000);
	for (i = 0; i < PAGES; i++)
		least[i] = done[i];
	CHECK_FATAL(!ftruncate(fd, (off_t)(CUT * PAGE)));
	for (i = PAGES - 1; i >= CUT; i--)
		check_bounds(i, least, "cut off");
	stop(threads, ARRAY_SIZE(others));
	/* The page was repaired, and the bracket says so. */
	CHECK_ERROR(-EIO, hm_map_begin_cpu(watched, CUT * PAGE, PAGE, HM_READ));
	close(fd);
	drop_maps();
}

static void test_cut(void)
{
	uint64_t state = test_seed(), round;
	AUTO(rig_handler) handler = rig_handler(0);

	for (round = 0; round < rounds() / 2; round++)
		cut_round(&state);
}

/* ---- copies ---- */

#define COPIED (8 * 1024 * 1024ull)

static _Atomic bool copying;

/* One copy, of bytes that are all the same, each time that @copying is set. */
static void *copy_out(void *user)
{
	char *to = user;
	int r;

	for (; !ending; sched_yield()) {
		if (!copying)
			continue;
		r = hm_copy_out(to, hm_map_address(map), COPIED, NULL);
		CHECK(r == -ENODEV || (!r && !memcmp(to, to + 1, COPIED - 1)));
		copying = false;
	}
	return NULL;
}

/* A device that goes and is there again while a copy runs: that copy has failed. */
static void test_copies(void)
{
	AUTO_FREE char *to = malloc(COPIED);
	uint64_t state = test_seed(), round;
	pthread_t thread;

	CHECK_FATAL(to);
	AUTO(rig_handler) handler = rig_handler(0);
	device = sim_open();
	buffer = sim_make(device, COPIED, 0, &map);
	CHECK_OK_FATAL(
		hm_buffer_set_loss(buffer, DESC(hm_loss_desc, .policy = HM_LOSS_RECREATE)));
	ending = copying = false;
	CHECK_FATAL(!pthread_create(&thread, NULL, copy_out, to));
	for (round = 0; round < rounds(); round++) {
		memset(hm_map_address(map), 1, COPIED);
		copying = true;
		usleep(test_random(&state) % 2000);
		if (!sim_unplug(device))
			break;
		sim_plug();
		CHECK_OK_FATAL(hm_device_recover(device, 0, NULL));
		while (copying)
			sched_yield();
	}
	ending = true;
	pthread_join(thread, NULL);
	watched = NULL;
	drop_maps();
}

static const struct sim_case cases[] = {
	{ "threads", all_threads },
	{ "handled", test_handled },
	{ "zeros", test_zeros },
	{ "quiet_zeros", test_quiet_zeros },
	{ "quiet_shadow", test_quiet_shadow },
	{ "quiet_handled", test_quiet_handled },
	{ "cut", test_cut },
	{ "copies", test_copies },
	{ NULL, NULL },
};

TEST_MAIN(sim_main, "lost_threads", cases)
