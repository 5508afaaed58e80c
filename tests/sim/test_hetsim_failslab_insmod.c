// SPDX-License-Identifier: MIT
/*
 * hetsim is loaded while each allocation of its own fails in turn (fail_nth.h): it is loaded,
 * if with fewer devices, or not at all, and leaves nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/fail_nth.h"
#include "lib/harness.h"
#include "sim/module_support.h"

#define PARAMETERS "devices=2 vram_mb=16 system_mb=16 migrate_mb=0 test=1"
/* Memory for pages of processes is made first, here of two of the kernel's sections. */
#define NO_STORE "vram_mb=16 system_mb=16 migrate_mb=0 test=1"
#define STORE "vram_mb=16 system_mb=16 migrate_mb=130 test=1"
#define MANY 1000000u
#define MARGIN 10 /* of the pages that slabs need, now at one allocation, now at another */

struct module {
	int file;
	const char *parameters; /* of the walk */
	char before[256];       /* that it had */
};

/* A kernel without memory for a number that is free says that there is none. */
static int load(void *user)
{
	const struct module *module = user;
	int r = module_load(module->file, module->parameters);

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

/* Failures from @first on, to before @end. Returns the first that was not made. */
static unsigned int walk(int nth_file, struct module *module, unsigned int first,
			 unsigned int end)
{
	bool injected = true;
	unsigned int nth;
	int r;

	for (nth = first; injected && nth < end; nth++) {
		injected = fail_nth_run(nth_file, "insmod", nth, load, module);
		r = module_unload();
		if (r && (r != -ENOENT || !injected))
			test_fail(__FILE__, __LINE__, "failure %u, rmmod: %d", nth, r);
		module_is_gone("insmod with a failure");
	}
	return nth;
}

/* The kernel warns of its own failures meanwhile: tests/vm/reports.sh knows these lines. */
static void tell_machine(const char *line)
{
	int log = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);

	CHECK_FATAL(log >= 0);
	CHECK_EQUAL(write(log, line, strlen(line)), (ssize_t)strlen(line));
	close(log);
}

/* False: the test was skipped. */
static bool begin(int *ret_nth_file, struct module *module)
{
	*ret_nth_file = fail_nth_open();
	if (*ret_nth_file < 0)
		return false;
	module->file = module_open();
	if (module->file < 0) {
		close(*ret_nth_file);
		return false;
	}
	module_parameters(module->before, sizeof(module->before));
	CHECK_EQUAL(module_unload(), 0);
	tell_machine("<6>hetmap test: allocations of a load fail");
	return true;
}

static void end(int nth_file, const struct module *module)
{
	tell_machine("<6>hetmap test: a load finds its memory again");
	CHECK_EQUAL(module_load(module->file, module->before), 0);
	close(module->file);
	close(nth_file);
}

/*
 * Counts the kernel's own allocations before the module, which refuses its parameters at once, is
 * asked: walks leave these out. The first load is not counted, as it allocates slabs and pages of
 * the module's file, too.
 */
static unsigned int count_before(int nth_file, const struct module *module)
{
	unsigned int before;

	count(nth_file, module->file, PARAMETERS " kind=bogus", -EINVAL);
	before = count(nth_file, module->file, PARAMETERS " kind=bogus", -EINVAL);
	CHECK_FATAL(before > MARGIN);
	return before - MARGIN;
}

static void test_walk(void)
{
	struct module module = { .parameters = PARAMETERS };
	unsigned int first, last;
	int nth_file;

	if (!begin(&nth_file, &module))
		return;
	first = count_before(nth_file, &module);
	last = walk(nth_file, &module, first, FAIL_NTH_MOST);
	fail_nth_enough("insmod", last - first + 1, 20);
	end(nth_file, &module);
}

/* Whatever fails, the kernel has nothing of the memory left, and the next load gets it. */
static void test_store(void)
{
	struct module module = { .parameters = STORE };
	unsigned int first, without, with;
	int nth_file;

	if (!begin(&nth_file, &module))
		return;
	first = count_before(nth_file, &module);
	without = count(nth_file, module.file, NO_STORE, 0);
	count(nth_file, module.file, STORE, 0);
	with = count(nth_file, module.file, STORE, 0);
	CHECK(with > without + 10);
	with = first + 2 * MARGIN + with - without;
	CHECK_EQUAL(walk(nth_file, &module, first, with), with);
	CHECK_EQUAL(module_load(module.file, STORE), 0);
	CHECK_EQUAL(module_unload(), 0);
	end(nth_file, &module);
}

static const struct test tests[] = {
	{ "insmod_walk", test_walk, 60, TEST_ONCE },
	{ "insmod_store", test_store, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "hetsim_failslab_insmod", tests)
