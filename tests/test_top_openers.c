// SPDX-License-Identifier: MIT
/*
 * hetmap top's count of evictions: by open file and not by descriptor. Texts are as
 * /proc/PID/fdinfo of /dev/hetsimN has them; folders list descriptors in any order.
 */
#include <stdio.h>

#include "../tools/perf/openers.h"
#include "../tools/perf/top.h"
#include "harness.h"

static void add_of(struct openers *openers, unsigned int device, unsigned int id,
		   unsigned int evictions)
{
	char text[160];

	snprintf(text, sizeof(text),
		 "pos:\t0\nflags:\t0100002\nhetsim-device:\thetsim%u\nhetsim-client-id:\t%u\n"
		 "hetsim-evictions:\t%u\n",
		 device, id, evictions);
	CHECK_OK(openers_add(openers, text));
}

static void add(struct openers *openers, unsigned int id, unsigned int evictions)
{
	add_of(openers, 0, id, evictions);
}

/* A, B, dup(A), dup(B): each once. */
static void each_once(void)
{
	struct openers openers;

	openers_begin(&openers);
	CHECK_EQUAL(openers.evictions, TOP_UNKNOWN);
	add(&openers, 7, 10);
	add(&openers, 9, 200);
	add(&openers, 7, 10);
	add(&openers, 9, 200);
	add(&openers, 7, 10);
	CHECK_EQUAL(openers.evictions, 210);
	CHECK_EQUAL(openers.n, 2);
	openers_end(&openers);
}

/* Each device numbers its own. */
static void two_devices(void)
{
	struct openers openers;

	openers_begin(&openers);
	add_of(&openers, 0, 1, 10);
	add_of(&openers, 1, 1, 200);
	add_of(&openers, 0, 1, 10);
	CHECK_EQUAL(openers.evictions, 210);
	openers_end(&openers);
}

static void many(void)
{
	const unsigned int n = 100;
	struct openers openers;
	unsigned int round, i;

	openers_begin(&openers);
	for (round = 0; round < 3; round++)
		for (i = 0; i < n; i++)
			add(&openers, i, i);
	CHECK_EQUAL(openers.n, n);
	CHECK_EQUAL(openers.evictions, n * (n - 1) / 2);
	openers_end(&openers);
}

/* Nothing evicted is a count; a file of something else has none. */
static void others(void)
{
	struct openers openers;

	openers_begin(&openers);
	CHECK_OK(openers_add(&openers, "pos:\t0\nflags:\t02\n"));
	CHECK_OK(openers_add(&openers, "hetsim-client-id:\t3\n"));
	CHECK_EQUAL(openers.evictions, TOP_UNKNOWN);
	add(&openers, 3, 0);
	CHECK_EQUAL(openers.evictions, 0);
	openers_end(&openers);
}

static const struct test tests[] = {
	{ "each_once", each_once, 0, 0 },
	{ "two_devices", two_devices, 0, 0 },
	{ "many", many, 0, 0 },
	{ "others", others, 0, 0 },
	{ 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "top_openers", tests);
}
