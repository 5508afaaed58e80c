// SPDX-License-Identifier: MIT
/* The prefetch that learns, on traces: its plans, and how its windows change. */
#include <stdlib.h>
#include <string.h>

#include "lib/harness.h"
#include "model/ahead.h"

#define LEAST 2
#define MOST 32

/* Units that were planned and not asked for yet, to judge plans by. */
struct trace {
	struct ahead ahead;
	uint64_t n_plans, n_hits, n_accesses;
	unsigned char planned[1 << 16];
};

static struct trace *trace_new(void)
{
	struct trace *trace = calloc(1, sizeof(*trace));

	CHECK_FATAL(trace);
	ahead_init(&trace->ahead, LEAST, MOST);
	return trace;
}

/* One access; its plan is checked, and taken in. Returns whether it was planned before. */
static bool step(struct trace *trace, uint64_t start, uint64_t length)
{
	struct ahead_plan plan = { 0 };
	bool hit = start < sizeof(trace->planned) && trace->planned[start];
	uint64_t at, i;
	uint32_t k;

	trace->n_accesses++;
	trace->n_hits += hit;
	if (!ahead_access(&trace->ahead, start, length, &plan))
		return hit;
	trace->n_plans++;
	CHECK(plan.count >= 1 && plan.count <= AHEAD_ITEMS && plan.length >= 1);
	for (k = 0; k < plan.count; k++) {
		at = plan.start + (uint64_t)plan.stride * k;
		for (i = at; i < at + plan.length; i++)
			if (i < sizeof(trace->planned))
				trace->planned[i] = 1;
	}
	return hit;
}

/* Everything that was planned was used or not. */
static void check_sums(struct trace *trace)
{
	const struct ahead_counts *counts = &trace->ahead.counts;

	ahead_end(&trace->ahead);
	CHECK_EQUAL(counts->planned, counts->used + counts->wasted);
	CHECK_EQUAL(counts->accesses, trace->n_accesses);
}

static void sequential(void)
{
	AUTO_FREE struct trace *trace = trace_new();
	uint64_t i;

	for (i = 0; i < 2000; i++)
		step(trace, 100 + i, 1);
	/* From the fourth access on all are there. */
	CHECK(trace->n_hits >= 2000 - 4);
	CHECK(trace->ahead.counts.doubled >= 4);
	CHECK_EQUAL(trace->ahead.stream[0].window, MOST);
	CHECK_EQUAL(trace->ahead.counts.halved, 0);
	CHECK(trace->ahead.counts.wasted == 0);
	check_sums(trace);
}

/* Ranges that follow each other, of many units each. */
static void sequential_frames(void)
{
	AUTO_FREE struct trace *trace = trace_new();
	uint64_t i;

	ahead_init(&trace->ahead, 50, 400);
	for (i = 0; i < 200; i++)
		step(trace, i * 50, 50);
	CHECK(trace->n_hits >= 200 - 4);
	check_sums(trace);
}

static void walk_strided(long long stride, uint64_t start, uint64_t length, unsigned int n)
{
	AUTO_FREE struct trace *trace = trace_new();
	unsigned int i;

	for (i = 0; i < n; i++)
		step(trace, start + (uint64_t)(stride * (long long)i), length);
	CHECK(trace->n_hits >= n - 5);
	CHECK(trace->ahead.counts.wasted <= MOST);
	check_sums(trace);
	/* Nothing in between was brought. */
	if (stride > 0)
		CHECK(!trace->planned[start + (uint64_t)stride * (n / 2) + length]);
}

static void strided(void)
{
	walk_strided(17, 3, 1, 500);
	walk_strided(40, 0, 8, 300);
	walk_strided(-13, 60000, 1, 500);
	walk_strided(-1, 60000, 1, 1000);
}

/* Two threads of a program, each with a stream of its own. */
static void interleaved(void)
{
	AUTO_FREE struct trace *trace = trace_new();
	uint64_t i;

	for (i = 0; i < 1000; i++) {
		step(trace, i, 1);
		step(trace, 20000 + 7 * i, 1);
		step(trace, 50000 - 3 * i, 1);
	}
	CHECK(trace->n_hits >= 3000 - 20);
	check_sums(trace);
}

/* Chance makes few streams, and each of them little waste. */
static void random_accesses(void)
{
	AUTO_FREE struct trace *trace = trace_new();
	uint64_t state = test_seed();
	unsigned int i;

	for (i = 0; i < 20000; i++)
		step(trace, test_random(&state) % 60000, 1);
	check_sums(trace);
	CHECK(trace->ahead.counts.random >= 19000);
	CHECK(trace->ahead.counts.planned <= 20000 * 3 / 100);
}

/* A small space, where any two accesses are near each other. */
static void random_in_little(void)
{
	AUTO_FREE struct trace *trace = trace_new();
	uint64_t state = test_seed();
	unsigned int i;

	for (i = 0; i < 5000; i++)
		step(trace, test_random(&state) % 1000 * 4, 4);
	check_sums(trace);
	CHECK(trace->ahead.counts.wasted <= 5000ull * 4 * 10 / 100);
}

/* A stream that ends halves its window until it is one no more. */
static void change_of_mind(void)
{
	AUTO_FREE struct trace *trace = trace_new();
	uint64_t state = test_seed(), i, planned;

	for (i = 0; i < 500; i++)
		step(trace, i, 1);
	CHECK_EQUAL(trace->ahead.stream[0].window, MOST);
	for (i = 0; i < 300; i++)
		step(trace, 10000 + test_random(&state) % 50000, 1);
	CHECK(trace->ahead.counts.halved >= 1);
	CHECK(trace->ahead.counts.wasted >= 1);
	planned = trace->ahead.counts.planned;
	CHECK(planned <= 500 + 2 * MOST + 300 * 3 / 100 * LEAST);
	check_sums(trace);
}

/* Used only in part: the window does not grow, and shrinks below half. */
static void partly_used(void)
{
	AUTO_FREE struct trace *trace = trace_new();
	uint64_t state = test_seed(), i, at = 0;

	/* Four accesses one after the other, then on to somewhere else. */
	for (i = 0; i < 400; i++, at++) {
		if (i % 4 == 0)
			at = test_random(&state) % 60000;
		step(trace, at, 1);
	}
	CHECK(trace->ahead.counts.halved > trace->ahead.counts.doubled);
	check_sums(trace);
}

/* Accesses to the same place again and again are no stream. */
static void repeated(void)
{
	AUTO_FREE struct trace *trace = trace_new();
	unsigned int i;

	for (i = 0; i < 1000; i++)
		step(trace, 7, 3);
	CHECK_EQUAL(trace->n_plans, 0);
	for (i = 0; i < 1000; i++)
		step(trace, i % 2 ? 7 : 5000, 3);
	CHECK_EQUAL(trace->n_plans, 0);
	check_sums(trace);
}

static void forgotten(void)
{
	AUTO_FREE struct trace *trace = trace_new();
	uint64_t i, wasted;

	for (i = 0; i < 20; i++)
		step(trace, i, 1);
	wasted = trace->ahead.counts.wasted;
	/* The pages went away before they were asked for. */
	ahead_forget(&trace->ahead, 20, 1000);
	CHECK(trace->ahead.counts.wasted > wasted);
	ahead_forget(&trace->ahead, 5000, 1);
	check_sums(trace);
}

/* Addresses at the ends: no plan leaves them. */
static void at_the_ends(void)
{
	struct ahead_plan plan;
	struct ahead ahead;
	uint64_t i, at;

	ahead_init(&ahead, 4, 64);
	CHECK(!ahead_access(&ahead, 5, 0, &plan));
	CHECK(!ahead_access(&ahead, UINT64_MAX, 2, &plan));
	for (i = 0; i < 64; i++) {
		at = UINT64_MAX - 64 + i;
		if (ahead_access(&ahead, at, 1, &plan))
			CHECK(plan.start > at && plan.start + plan.count - 1 >= plan.start);
	}
	for (i = 0; i < 100; i++) {
		at = 99 - i;
		if (ahead_access(&ahead, at, 1, &plan))
			CHECK(plan.start < at && plan.count <= plan.start + 1);
	}
	ahead_end(&ahead);
	CHECK_EQUAL(ahead.counts.planned, ahead.counts.used + ahead.counts.wasted);
	/* Limits that make no sense are made sense of. */
	ahead_init(&ahead, 0, 0);
	CHECK(ahead.least == 1 && ahead.most == 1);
}

/* Any calls: the sums hold, and no plan is empty or turns around. */
static void any_calls(void)
{
	uint64_t state = test_seed(), i, start = 0, length;
	AUTO_FREE struct trace *trace = trace_new();

	for (i = 0; i < 50000; i++) {
		switch (test_random(&state) % 8) {
		case 0:
			start = test_random(&state);
			break;
		case 1:
			start = test_random(&state) % 60000;
			break;
		case 2:
			ahead_forget(&trace->ahead, start, test_random(&state) % 100);
			continue;
		default:
			start += test_random(&state) % 3 * 5;
			break;
		}
		length = 1 + test_random(&state) % 9;
		if (start > UINT64_MAX - length)
			start = 0;
		step(trace, start, length);
	}
	check_sums(trace);
}

static const struct test tests[] = {
	{ "sequential", sequential, 0, 0 },
	{ "sequential_frames", sequential_frames, 0, 0 },
	{ "strided", strided, 0, 0 },
	{ "interleaved", interleaved, 0, 0 },
	{ "random", random_accesses, 0, 0 },
	{ "random_in_little", random_in_little, 0, 0 },
	{ "change_of_mind", change_of_mind, 0, 0 },
	{ "partly_used", partly_used, 0, 0 },
	{ "repeated", repeated, 0, 0 },
	{ "forgotten", forgotten, 0, 0 },
	{ "at_the_ends", at_the_ends, 0, 0 },
	{ "any_calls", any_calls, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "ahead", tests)
