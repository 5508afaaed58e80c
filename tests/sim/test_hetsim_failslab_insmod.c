// SPDX-License-Identifier: MIT
/*
 * hetsim is loaded while each allocation of its own fails in turn (fail_nth.h): it is loaded,
 * if with fewer devices, or not at all, and leaves nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim/fail_nth.h"
#include "lib/harness.h"
#include "sim/module_support.h"

/*
 * Without memory for pages of processes: where an allocation of the kernel's own fails, part of
 * it stays added, and no later load can add it again (docs/known-kernel-issues.md).
 */
#define PARAMETERS "devices=2 vram_mb=16 system_mb=16 migrate_mb=0 test=1"
#define MANY 1000000u
#define MARGIN 10 /* of the pages that slabs need, now at one allocation, now at another */

/* A kernel without memory for a number that is free says that there is none. */
static int load_two(void *user)
{
	int r = module_load(*(int *)user, PARAMETERS);

	return r == -EBUSY ? -ENOMEM : r;
}

/* How many allocations and copies a load has, which ends with @expected. */
static unsigned int count(int nth_file, int file, const char *parameters, int expected)
{
	char text[16] = "";
	int length = snprintf(text, sizeof(text), "%u", MANY);
	unsigned int left;

	CHECK_EQUAL(pwrite(nth_file, text, (size_t)length, 0), length);
	CHECK_EQUAL(module_load(file, parameters), expected);
	CHECK(pread(nth_file, text, sizeof(text) - 1, 0) > 0);
	left = (unsigned int)strtoul(text, NULL, 10);
	CHECK_EQUAL(pwrite(nth_file, "0", 1, 0), 1);
	CHECK_FATAL(left && left < MANY);
	if (!expected)
		CHECK_EQUAL(module_unload(), 0);
	return MANY - left;
}

static void walk(int nth_file, int file, unsigned int first)
{
	bool injected = true;
	unsigned int nth;
	int r;

	for (nth = first; injected && nth < FAIL_NTH_MOST; nth++) {
		injected = fail_nth_run(nth_file, "insmod", nth, load_two, &file);
		r = module_unload();
		if (r && (r != -ENOENT || !injected))
			test_fail(__FILE__, __LINE__, "failure %u, rmmod: %d", nth, r);
		module_is_gone("insmod with a failure");
	}
	fail_nth_enough("insmod", nth - first + 1, 20);
}

static void test_walk(void)
{
	int nth_file = fail_nth_open(), file;
	unsigned int before, all;
	char parameters[256];

	if (nth_file < 0)
		return;
	file = module_open();
	if (file < 0) {
		close(nth_file);
		return;
	}
	module_parameters(parameters, sizeof(parameters));
	CHECK_EQUAL(module_unload(), 0);
	/*
	 * The walk leaves out what the kernel does before it asks the module, which says no at
	 * once. The first load allocates more, for slabs and for the module's file: not counted.
	 */
	count(nth_file, file, PARAMETERS " kind=bogus", -EINVAL);
	before = count(nth_file, file, PARAMETERS " kind=bogus", -EINVAL);
	all = count(nth_file, file, PARAMETERS, 0);
	CHECK_FATAL(before > MARGIN && all > before);
	walk(nth_file, file, before - MARGIN);
	CHECK_EQUAL(module_load(file, parameters), 0);
	close(file);
	close(nth_file);
}

static const struct test tests[] = {
	{ "insmod_walk", test_walk, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "hetsim_failslab_insmod", tests);
}
