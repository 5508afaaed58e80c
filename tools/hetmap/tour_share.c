// SPDX-License-Identifier: MIT
/* The tour's steps around sharing: brackets, a second map, pages ahead of time. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "common/command.h"
#include "common/text.h"
#include "tour.h"

#define MARK 0x746f7572u
#define N_SAMPLE 64

static int open_brackets(struct tour *tour, uint64_t *ret_n)
{
	struct hm_map_info info = { .struct_size = sizeof(info) };
	int r = hm_map_query(tour->map, &info);

	*ret_n = info.brackets;
	return r;
}

/* The bytes are the CPU's until the end; after it, other users see the stores. */
int tour_bracket(struct tour *tour)
{
	uint64_t inside, after;
	int r, end, status;

	r = hm_map_begin_cpu(tour->map, tour->part, tour->part, HM_READ | HM_WRITE);
	if (r)
		return tour_failed(tour, r, 0, "no access");
	r = open_brackets(tour, &inside);
	end = hm_map_end_cpu(tour->map, tour->part, tour->part, HM_READ | HM_WRITE);
	if (!r)
		r = end;
	if (!r)
		r = open_brackets(tour, &after);
	if (!r)
		r = hm_map_sync(tour->map, 0, tour->part, 0);
	if (r)
		return tour_failed(tour, r, 0, "the bracket does not end");
	tour_say(tour, "CPU access begun, counted, ended%s",
		 tour->device_info.caps & HM_CAP_SYNC ? "; synced" : "");
	status = tour_expect_number(tour, inside, 1, "open brackets inside");
	if (!status)
		status = tour_expect_number(tour, after, 0, "open brackets after");
	return status;
}

/* Both ways: each map shows the stores of the other. */
static int expect_same(struct tour *tour, uint32_t *second)
{
	const uint64_t last = tour->part / 4 - 1;
	uint32_t *first = tour->words + tour->part / 4, kept = first[last];
	int status;

	status = tour_expect(tour, !memcmp(first, second, tour->part),
			     "its bytes are not those of the first");
	if (status)
		return status;
	((volatile uint32_t *)first)[last] = MARK;
	status = tour_expect_number(tour, ((volatile uint32_t *)second)[last], MARK,
				    "a word that the first one stored");
	if (status)
		return status;
	((volatile uint32_t *)second)[last] = kept;
	return tour_expect_number(tour, ((volatile uint32_t *)first)[last], kept,
				  "a word that the second one stored");
}

int tour_second(struct tour *tour)
{
	const struct hm_map_desc desc = {
		.struct_size = sizeof(desc),
		.access = HM_READ | HM_WRITE,
		.offset = tour->part,
		.length = tour->part,
	};
	struct hm_buffer_info info = { .struct_size = sizeof(info) };
	struct hm_map *second;
	int r, status;

	r = hm_map_create(tour->buffer, &desc, &second);
	if (r)
		return tour_failed(tour, r, HM_CAP_MULTI_MAP, "no second map");
	tour_say(tour, "also at %p, the same bytes", hm_map_address(second));
	status = expect_same(tour, hm_map_address(second));
	if (!status && !hm_buffer_query(tour->buffer, &info))
		status = tour_expect_number(tour, info.maps, 2, "maps");
	hm_map_unref(second);
	return status;
}

/* How many of N_SAMPLE pages in the part by which the buffer grew are present. */
static int resident(struct tour *tour, uint64_t begin, uint64_t length, uint64_t *ret_n)
{
	struct hm_pointer_detail detail;
	uint64_t i, n = 0;
	int r;

	for (i = 0; i < N_SAMPLE; i++) {
		detail = (struct hm_pointer_detail){ .struct_size = sizeof(detail),
						     .fields = HM_POINTER_RESIDENT };
		r = hm_pointer_query((char *)tour->words + begin + i * length / N_SAMPLE,
				     &detail);
		if (r)
			return r;
		n += detail.resident;
	}
	*ret_n = n;
	return 0;
}

/* The page faults that it takes to look at each page once. */
static uint64_t touch(const struct tour *tour, uint64_t begin, uint64_t length)
{
	const volatile unsigned char *at = (unsigned char *)tour->words + begin;
	struct rusage before, after;
	unsigned int sum = 0;
	uint64_t i;

	getrusage(RUSAGE_SELF, &before);
	for (i = 0; i < length; i += tour->device_info.page_size)
		sum += at[i];
	getrusage(RUSAGE_SELF, &after);
	return (uint64_t)(after.ru_minflt - before.ru_minflt) + (sum > UINT32_MAX / 2);
}

int tour_prefetch(struct tour *tour)
{
	const uint64_t begin = tour->size - tour->part;
	char pages[TEXT_MAX], faults[TEXT_MAX];
	uint64_t n;
	int r;

	r = hm_map_prefetch(tour->map, begin, tour->part, HM_READ | HM_WRITE);
	if (r)
		return tour_failed(tour, r, HM_CAP_POPULATE, "no prefetch");
	r = resident(tour, begin, tour->part, &n);
	if (r)
		return tour_failed(tour, r, 0, "the pages that are there are not known");
	tour_say(tour, "%s pages; touching all: %s faults",
		 text_count(tour->part / tour->device_info.page_size, pages),
		 text_count(touch(tour, begin, tour->part), faults));
	return tour_expect_number(tour, n, N_SAMPLE, "sampled pages that are there");
}
