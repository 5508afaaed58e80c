// SPDX-License-Identifier: MIT
/*
 * The registry's readers, which take no lock, beside a writer that changes, removes and inserts
 * maps all the time. The addresses are made up.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/core.h"
#include "lib/harness.h"

#define AREA ((uint64_t)64 << 40)

#define FIXED 8  /* always there, always changing */
#define MOVING 8 /* come and go, and take each other's places */
#define READERS 3

static struct {
	_Atomic bool stop;
	_Atomic uint64_t found, again;
} shared;

static uint64_t fixed_base(uint64_t i)
{
	return AREA + i * MIB(2);
}

static uint64_t moving_base(uint64_t i)
{
	return AREA + GIB(1) + i * MIB(2);
}

/* Everything about a map follows from its number and generation. */
static struct registry_entry entry_of(uint64_t base, uint64_t i, uint32_t generation)
{
	struct registry_entry entry = {
		.base = base,
		.length = (1 + generation % 16) * PAGE,
		.buffer_offset = (uint64_t)generation * PAGE,
		.map = (struct hm_map *)(uintptr_t)((i + 1) << 32 | generation),
		.buffer = (struct hm_buffer *)(uintptr_t)((i + 1) << 32 | generation),
		.device = (struct hm_device *)(uintptr_t)((i + 1) << 32 | generation),
		.generation = generation,
	};

	return entry;
}

static bool is_consistent(const struct hm_pointer_info *info, uint64_t address)
{
	uint32_t generation = info->generation;
	uint64_t page = info->map_offset / PAGE;
	/* Odd generations: the first page has other rights than the rest. */
	uint8_t access = generation % 2 && page ? HM_READ | HM_WRITE : HM_READ;

	return (uintptr_t)info->base + info->map_offset == address &&
	       info->length == (1 + generation % 16) * PAGE &&
	       info->map_offset < info->length &&
	       info->buffer_offset == (uint64_t)generation * PAGE + info->map_offset &&
	       ((uintptr_t)info->map & UINT32_MAX) == generation &&
	       (uintptr_t)info->buffer == (uintptr_t)info->map &&
	       (uintptr_t)info->device == (uintptr_t)info->map && info->access == access;
}

static void *read_all(void *user)
{
	uint64_t state = (uintptr_t)user;

	while (!atomic_load(&shared.stop)) {
		uint64_t i = test_random(&state) % (FIXED + MOVING);
		uint64_t offset = test_random(&state) % (3 * PAGE);
		uint64_t address = i < FIXED ? fixed_base(i) : moving_base(i - FIXED);
		struct hm_pointer_info info;
		int r;

		address += test_random(&state) % 2 ? 0 : offset;
		r = hm_pointer_find((void *)(uintptr_t)address, &info);
		if (!r && !is_consistent(&info, address))
			test_fail(__FILE__, __LINE__, "torn: generation %u, length %llu",
				  info.generation, (unsigned long long)info.length);
		/* The first page of a fixed map is there at every moment. */
		if (r == -ENOENT && i < FIXED && address - fixed_base(i) < PAGE)
			test_fail(__FILE__, __LINE__, "a map that is there was not found");
		if (!r)
			atomic_fetch_add(&shared.found, 1);
		if (r == -EAGAIN)
			atomic_fetch_add(&shared.again, 1);
	}
	return NULL;
}

static void test_readers_and_writer(void)
{
	AUTO_FREE struct rangemap *one = rangemap_create(HM_READ, 0);
	AUTO_FREE struct rangemap *whole = rangemap_create(HM_READ | HM_WRITE, 0);
	AUTO_FREE struct rangemap *two = whole ? rangemap_set(whole, 0, PAGE, HM_READ) : NULL;
	struct registry_slot *fixed[FIXED], *moving[MOVING] = { NULL };
	uint32_t rounds = TEST_TSAN ? 60000 : 600000;
	uint64_t state = test_seed();
	pthread_t thread[READERS];
	uint32_t generation;
	uint64_t i;

	CHECK_FATAL(one && two);
	atomic_store(&shared.stop, false);
	atomic_store(&shared.found, 0);
	atomic_store(&shared.again, 0);
	for (i = 0; i < FIXED; i++) {
		struct registry_entry entry = entry_of(fixed_base(i), i, 0);

		entry.access = one;
		CHECK_EQUAL(registry_insert(&entry, MIB(1), &fixed[i]), 0);
	}
	for (i = 0; i < READERS; i++)
		CHECK_FATAL(!pthread_create(&thread[i], NULL, read_all,
					    (void *)(uintptr_t)(state + i)));
	for (generation = 1; generation <= rounds; generation++) {
		struct registry_descriptor *staged;
		struct registry_entry entry;

		i = test_random(&state) % FIXED;
		entry = entry_of(fixed_base(i), i, generation);
		entry.access = generation % 2 ? two : one;
		CHECK_FATAL(!registry_stage(&entry, &staged));
		if (generation % 8)
			registry_commit(fixed[i], staged);
		else
			registry_abandon(staged);
		/* Spans of 1 MiB and of 2 MiB: entries on two levels, in turn. */
		i = test_random(&state) % MOVING;
		if (moving[i]) {
			registry_remove(moving[i]);
			moving[i] = NULL;
			continue;
		}
		entry = entry_of(moving_base(i), FIXED + i, generation);
		entry.access = generation % 2 ? two : one;
		CHECK_FATAL(!registry_insert(&entry, MIB(1 + generation / 8 % 2), &moving[i]));
	}
	atomic_store(&shared.stop, true);
	for (i = 0; i < READERS; i++)
		pthread_join(thread[i], NULL);
	CHECK(atomic_load(&shared.found) > 0);
	CHECK(atomic_load(&shared.again) < atomic_load(&shared.found) / 100 + 10);
	for (i = 0; i < FIXED; i++)
		registry_remove(fixed[i]);
	for (i = 0; i < MOVING; i++)
		if (moving[i])
			registry_remove(moving[i]);
}

static const struct test tests[] = {
	{ "readers_and_writer", test_readers_and_writer, 120, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "registry_threads", tests)
