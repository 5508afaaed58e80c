// SPDX-License-Identifier: MIT
/*
 * Changes of a map against its users, without any agreement between them: sizes and rights
 * change, while other threads copy by hm_copy_out(), touch in guarded scopes, look up and
 * launch. A user finds the old bytes, zeros where they were cut off since, or an error that
 * says so; and never a signal. Some tenths of a second; HETMAP_RACE_SECONDS is the long form. A
 * failure prints its seed.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "accel/accel_support.h"
#include "base/util.h"
#include "lib/units.h"

#define LEAST 4 /* pages: never cut off */
#define MOST 64 /* of max_size */
#define CHANGERS_MOST 3

struct race {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	char *base;
	uint64_t seed, end_ns;
	void (*change)(struct race *race, uint64_t *state);
	void (*settle)(struct race *race); /* or NULL: a changer ends */
	unsigned int changers;
	_Atomic uint32_t good, refused;  /* uses */
	_Atomic uint32_t begun, changes; /* of changes: tried, and done */
	_Atomic uint32_t changer;        /* the next one's number */
};

/* The value of each word of page @i at the beginning. */
static uint64_t word_of(uint64_t i)
{
	return 0x0101010101010101ull * (i % 250 + 1);
}

/* A slow checker can use up the time: goes on until one use and one change came about. */
static bool goes_on(const struct race *race)
{
	return time_now_ns() < race->end_ns || !race->good || !race->changes;
}

/* Its name begins with it. */
static const char *device_of_test(void)
{
	static char name[16];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(test_current()->name, "."),
		 test_current()->name);
	return name;
}

/* A buffer of a file needs a file of the full length. */
static void make_buffer(struct race *race)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = MOST * PAGE,
		.max_size = MOST * PAGE,
	};
	int fd;

	CHECK_OK_FATAL(hm_device_open(device_of_test(), &race->device));
	if (strcmp(device_of_test(), "file") != 0) {
		CHECK_OK_FATAL(hm_buffer_create(race->device, &desc, &race->buffer));
		return;
	}
	fd = scratch_file(MOST * PAGE);
	CHECK_OK_FATAL(hm_buffer_from_file(race->device, NULL, fd, &desc, &race->buffer));
	close(fd);
}

static void begin(struct race *race, void (*change)(struct race *race, uint64_t *state))
{
	const char *seconds = getenv("HETMAP_RACE_SECONDS");
	uint64_t i;

	memset(race, 0, sizeof(*race));
	race->change = change;
	race->changers = 1;
	race->seed = test_seed();
	CHECK_OK_FATAL(hm_handler_install(0));
	make_buffer(race);
	CHECK_OK_FATAL(hm_map_create(race->buffer, NULL, &race->map));
	race->base = hm_map_address(race->map);
	for (i = 0; i < MOST * PAGE / sizeof(i); i++)
		((uint64_t *)race->base)[i] = word_of(i * sizeof(i) / PAGE);
	race->end_ns = time_now_ns() +
		       (seconds ? strtoull(seconds, NULL, 10) * 1000000000 : 300000000);
}

static void end(struct race *race)
{
	CHECK(race->changes);
	CHECK(race->good);
	hm_map_unref(race->map);
	hm_buffer_unref(race->buffer);
	hm_device_unref(race->device);
	CHECK_OK(hm_handler_remove());
}

static void *changer(void *user)
{
	struct race *race = user;
	uint64_t state = race->seed + 100 * atomic_fetch_add(&race->changer, 1);

	while (goes_on(race)) {
		atomic_fetch_add(&race->begun, 1);
		race->change(race, &state);
		atomic_fetch_add(&race->changes, 1);
	}
	if (race->settle)
		race->settle(race);
	return NULL;
}

static void count(struct race *race, int r, const char *what)
{
	atomic_fetch_add(r ? &race->refused : &race->good, 1);
	if (r && r != -ENOENT && r != -ERANGE && r != -EACCES && r != -EAGAIN && r != -EBUSY &&
	    r != -EFAULT)
		test_fail(__FILE__, __LINE__, "%s: %d (%s), seed %llu", what, r, hm_errmsg(),
			  (unsigned long long)race->seed);
}

/* All words of a page as they were, or all zeros from where it was cut off. */
static void check_page(struct race *race, const uint64_t *words, uint64_t n, uint64_t page)
{
	uint64_t i;

	for (i = 0; i < n; i++)
		if (words[i] != word_of(page) && (words[i] || page < LEAST)) {
			test_fail(
				__FILE__, __LINE__,
				"page %llu, word %llu: 0x%llx, which was never there; seed %llu",
				(unsigned long long)page, (unsigned long long)i,
				(unsigned long long)words[i], (unsigned long long)race->seed);
			return;
		}
}

/*
 * One change cuts a page off, and only another brings it back, with zeros: if no more than one
 * ran beside the copy, the page is not half old and half new.
 */
static void check_not_torn(struct race *race, const uint64_t *words, uint64_t n, uint64_t page)
{
	uint64_t i;

	for (i = 1; i < n; i++)
		if (words[i] != words[0]) {
			test_fail(__FILE__, __LINE__,
				  "page %llu is torn at word %llu; seed %llu",
				  (unsigned long long)page, (unsigned long long)i,
				  (unsigned long long)race->seed);
			return;
		}
}

static void *copier(void *user)
{
	struct race *race = user;
	uint64_t words[PAGE / sizeof(uint64_t)], state = race->seed + 1, page;
	uint32_t done;
	int r;

	while (goes_on(race)) {
		page = test_random(&state) % MOST;
		done = race->changes;
		r = hm_copy_out(words, race->base + page * PAGE, PAGE, NULL);
		count(race, r, "hm_copy_out");
		if (r)
			continue;
		check_page(race, words, PAGE / sizeof(words[0]), page);
		if (race->begun - done <= 1)
			check_not_torn(race, words, PAGE / sizeof(words[0]), page);
	}
	return NULL;
}

static int touch(struct race *race, uint64_t page)
{
	const uint64_t *volatile at = (uint64_t *)(race->base + page * PAGE);
	struct hm_guard guard;
	uint64_t word;
	int r;

	HM_GUARD_INIT(&guard);
	r = hm_guard_begin(&guard);
	if (r)
		return r;
	word = *(const volatile uint64_t *)at;
	r = hm_guard_end(&guard);
	if (!r)
		check_page(race, &word, 1, page);
	return r;
}

static void *toucher(void *user)
{
	struct race *race = user;
	uint64_t state = race->seed + 2;

	while (goes_on(race))
		count(race, touch(race, test_random(&state) % MOST), "a guarded touch");
	return NULL;
}

static void *seeker(void *user)
{
	struct race *race = user;
	uint64_t state = race->seed + 3;
	struct hm_pointer_info info;
	int r;

	while (goes_on(race)) {
		r = hm_pointer_find(race->base + test_random(&state) % LEAST * PAGE, &info);
		count(race, r, "hm_pointer_find");
		if (r)
			continue;
		CHECK(info.map == race->map && info.base == race->base);
		CHECK(info.length >= LEAST * PAGE && info.length <= MOST * PAGE);
		CHECK(!info.generation);
	}
	return NULL;
}

static int do_nothing(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range, (void)args;
	return 0;
}

static void *launcher(void *user)
{
	AUTO(hm_kernel) *kernel = make_kernel("nothing", "in", do_nothing);
	AUTO(hm_queue) *queue = NULL;
	AUTO(hm_accel) *accel = NULL;
	struct race *race = user;
	uint64_t state = race->seed + 4, page;
	int r;

	if (hm_accel_open("cpu", NULL, &accel) || hm_queue_create(accel, 0, &queue))
		test_fail(__FILE__, __LINE__, "%s", hm_errmsg());
	while (queue && goes_on(race)) {
		page = test_random(&state) % MOST;
		AUTO(hm_fence) *fence = NULL;
		r = hm_launch(queue, kernel, 1, &fence,
			      HM_RANGE(race->base + page * PAGE, PAGE, HM_READ));
		count(race, r, "a launch");
		if (!r && hm_fence_wait(fence, UINT64_MAX))
			test_fail(__FILE__, __LINE__, "%s", hm_errmsg());
	}
	return NULL;
}

static void *bracketer(void *user)
{
	struct race *race = user;
	uint64_t state = race->seed + 5, page;
	int r;

	while (goes_on(race)) {
		page = test_random(&state) % MOST;
		r = hm_map_begin_cpu(race->map, page * PAGE, PAGE, HM_READ);
		count(race, r, "a bracket");
		if (r)
			continue;
		r = hm_map_end_cpu(race->map, page * PAGE, PAGE, HM_READ);
		/*
		 * Rights that were withdrawn while it was open are told; it is closed all the
		 * same.
		 */
		if (r && r != -EACCES)
			test_fail(__FILE__, __LINE__, "the end of a bracket: %s", hm_errmsg());
	}
	return NULL;
}

static void run(struct race *race)
{
	void *(*const users[])(void *) = { copier, toucher, seeker, launcher, bracketer };
	pthread_t threads[ARRAY_SIZE(users)], changers[CHANGERS_MOST];
	size_t i;

	for (i = 0; i < race->changers; i++)
		CHECK_FATAL(!pthread_create(&changers[i], NULL, changer, race));
	for (i = 0; i < ARRAY_SIZE(users); i++)
		CHECK_FATAL(!pthread_create(&threads[i], NULL, users[i], race));
	for (i = 0; i < ARRAY_SIZE(users); i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < race->changers; i++)
		pthread_join(changers[i], NULL);
	CHECK_EQUAL(map_info(race->map, 0).brackets, 0);
	CHECK_EQUAL(map_info(race->map, 0).in_flight, 0);
}

/* ---- sizes ---- */

static void change_size(struct race *race, uint64_t *state)
{
	uint64_t pages = LEAST + test_random(state) % (MOST - LEAST + 1);
	int r = hm_buffer_resize(race->buffer, pages * PAGE, 0);

	if (r)
		test_fail(__FILE__, __LINE__, "to %llu pages: %d (%s), seed %llu",
			  (unsigned long long)pages, r, hm_errmsg(),
			  (unsigned long long)race->seed);
}

static void resize(void)
{
	struct race race;

	begin(&race, change_size);
	run(&race);
	/* Bytes that were cut off once, and are back, are zeros. */
	CHECK_OK(hm_buffer_resize(race.buffer, LEAST * PAGE, 0));
	CHECK_OK(hm_buffer_resize(race.buffer, MOST * PAGE, 0));
	CHECK(is_zero(race.base, LEAST * PAGE, MOST * PAGE));
	end(&race);
}

/* ---- rights ---- */

static void change_rights(struct race *race, uint64_t *state)
{
	static const uint32_t rights[] = { HM_NONE, HM_READ, HM_READ | HM_WRITE };
	uint64_t from = test_random(state) % MOST;
	uint64_t n = 1 + test_random(state) % (MOST - from);
	int r = hm_map_protect(race->map, from * PAGE, n * PAGE,
			       rights[test_random(state) % ARRAY_SIZE(rights)]);

	if (r)
		test_fail(__FILE__, __LINE__, "rights of %llu pages from %llu: %d (%s)",
			  (unsigned long long)n, (unsigned long long)from, r, hm_errmsg());
}

static void protect(void)
{
	struct race race;
	uint64_t i;

	begin(&race, change_rights);
	run(&race);
	/* No thread wrote: rights have come and gone, and no byte with them. */
	CHECK_OK(hm_map_protect(race.map, 0, MOST * PAGE, HM_READ | HM_WRITE));
	for (i = 0; i < MOST; i++)
		CHECK_EQUAL(*(uint64_t *)(race.base + i * PAGE), word_of(i));
	end(&race);
}

/*
 * Scopes of several threads at once, each of which has some open that overlap, and ends them
 * in another order than they began: after the last one all is as it was.
 */
#define SCOPES 4

static _Thread_local struct hm_scope *open_scopes[SCOPES];
static _Atomic uint32_t n_open, most_open; /* of all threads */

static void end_scope(unsigned int i)
{
	atomic_fetch_sub(&n_open, 1);
	if (hm_map_protect_end(open_scopes[i]))
		test_fail(__FILE__, __LINE__, "the end of a scope: %s", hm_errmsg());
	open_scopes[i] = NULL;
}

static void change_scope(struct race *race, uint64_t *state)
{
	uint64_t from = test_random(state) % MOST;
	uint64_t n = 1 + test_random(state) % (MOST - from);
	unsigned int i = test_random(state) % SCOPES;
	uint32_t now;

	if (open_scopes[i]) {
		end_scope(i);
		return;
	}
	if (hm_map_protect_begin(race->map, from * PAGE, n * PAGE,
				 test_random(state) & 1 ? HM_READ : HM_NONE, &open_scopes[i])) {
		test_fail(__FILE__, __LINE__, "a scope: %s", hm_errmsg());
		return;
	}
	now = atomic_fetch_add(&n_open, 1) + 1;
	if (now > most_open)
		most_open = now;
	/* Readers have some pages some of the time. */
	for (i = 0; i < SCOPES && !(test_random(state) % 4); i++)
		if (open_scopes[i])
			end_scope(i);
}

static void end_scopes(struct race *race)
{
	unsigned int i;

	(void)race;
	for (i = 0; i < SCOPES; i++)
		if (open_scopes[i])
			end_scope(i);
}

static void scopes(void)
{
	struct race race;

	begin(&race, change_scope);
	race.changers = CHANGERS_MOST;
	race.settle = end_scopes;
	most_open = 0;
	run(&race);
	/* Two at once are chance, of which the few changes of a slow machine may have none. */
	CHECK(most_open > 1 || test_is_slow());
	CHECK_EQUAL(n_open, 0);
	CHECK_EQUAL(map_info(race.map, 0).access, HM_READ | HM_WRITE);
	CHECK_EQUAL(map_info(race.map, 0).runs, 1);
	end(&race);
}

/* ---- repairs ---- */

/* Does some mapping of a file overlap the range? */
static bool shows_file(const char *base, uint64_t length)
{
	uint64_t from = (uintptr_t)base, to = from + length;
	unsigned long long begin, end;
	bool found = false;
	char line[512];
	FILE *file = fopen("/proc/self/maps", "re");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%llx-%llx", &begin, &end) == 2 && begin < to && end > from)
			found = found || strchr(line, '/');
	if (file)
		fclose(file);
	return found;
}

/* A touch of one page of a block that is lost has the whole block replaced, and no more. */
static void whole_block(void)
{
	const uint64_t block = MIB(2);
	int fd = scratch_file(3 * block);
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(hm_device) *device = rig_device("file");
	AUTO(hm_buffer) *buffer = rig_file(device, NULL, fd, NULL);
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	char *base = hm_map_address(map);

	memset(base, 7, 3 * block);
	CHECK(!ftruncate(fd, 0));
	CHECK_EQUAL(*(volatile char *)(base + block + 5 * PAGE), 0);
	CHECK(!shows_file(base + block, block));
	CHECK(shows_file(base, block));
	CHECK(shows_file(base + 2 * block, block));
	CHECK(!ftruncate(fd, (off_t)(3 * block)));
	CHECK_ERROR(-EIO, hm_map_begin_cpu(map, 2 * block - 1, 1, HM_READ));
	CHECK_OK(hm_map_begin_cpu(map, 2 * block, 1, HM_READ));
	CHECK_OK(hm_map_end_cpu(map, 2 * block, 1, HM_READ));
	close(fd);
}

/* The module's come first, and only where it is. */
#define OF_MODULE 3
static const struct test tests[] = {
	{ "sim:0.resize", resize, 60, TEST_ONCE },
	{ "sim:0.protect", protect, 60, TEST_ONCE },
	{ "sim:0.scopes", scopes, 60, TEST_ONCE },
	{ "host.resize", resize, 60, TEST_ONCE },
	{ "host.protect", protect, 60, TEST_ONCE },
	{ "host.scopes", scopes, 60, TEST_ONCE },
	{ "soft:0.resize", resize, 60, TEST_ONCE },
	{ "soft:0.protect", protect, 60, TEST_ONCE },
	{ "soft:0.scopes", scopes, 60, TEST_ONCE },
	{ "file.resize", resize, 60, TEST_ONCE },
	{ "file.protect", protect, 60, TEST_ONCE },
	{ "file.scopes", scopes, 60, TEST_ONCE },
	{ "file.whole_block", whole_block, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	bool module = !access("/dev/hetsim0", F_OK);

	return harness_main(argc, argv, "races", module ? tests : tests + OF_MODULE);
}
