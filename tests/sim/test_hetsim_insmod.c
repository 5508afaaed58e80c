// SPDX-License-Identifier: MIT
/*
 * hetsim's parameters: with those that no device can have it is not loaded, and leaves
 * nothing; with the most that there can be it is.
 */
#include <errno.h>
#include <unistd.h>

#include "sim/module_support.h"

#include "lib/harness.h"

/* Unloads the one that is loaded: its file, or -1. @parameters: to load it again. */
static int begin(char parameters[256])
{
	int file = module_open();

	if (file < 0)
		return -1;
	module_parameters(parameters, 256);
	CHECK_EQUAL(module_unload(), 0);
	module_is_gone("at first");
	return file;
}

static void end(int file, const char *parameters)
{
	CHECK_EQUAL(module_load(file, parameters), 0);
	CHECK_EQUAL(access("/dev/hetsim0", F_OK), 0);
	close(file);
}

static void test_refused(void)
{
	static const char *const refused[] = {
		"kind=bogus",
		"kind=",
		"devices=0",
		"devices=17",
		"devices=many",
		"devices=-1",
		"vram_mb=0",
		"vram_mb=1048577",
		"system_mb=0",
		"system_mb=1048577",
		"vram_mb=64 bar_mb=65",
		"huge=2",
		"test=perhaps",
	};
	char parameters[256];
	int file = begin(parameters);
	size_t i;

	if (file < 0)
		return;
	for (i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		int r = module_load(file, refused[i]);

		if (r != -EINVAL)
			test_fail(__FILE__, __LINE__, "%s: %d", refused[i], r);
		if (!r)
			CHECK_EQUAL(module_unload(), 0);
		module_is_gone(refused[i]);
	}
	end(file, parameters);
}

static void test_most(void)
{
	static const char *const allowed[] = {
		"devices=16 vram_mb=1 system_mb=1 bar_mb=1 kind=nic",
		"vram_mb=1048576 system_mb=1048576 opener_mb=4294967295 kind=fpga",
	};
	char parameters[256];
	int file = begin(parameters);
	size_t i;

	if (file < 0)
		return;
	for (i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++) {
		int r = module_load(file, allowed[i]);

		if (r)
			test_fail(__FILE__, __LINE__, "%s: %d", allowed[i], r);
		CHECK_EQUAL(access("/dev/hetsim15", F_OK), i ? -1 : 0);
		if (!r)
			CHECK_EQUAL(module_unload(), 0);
		module_is_gone(allowed[i]);
	}
	end(file, parameters);
}

static const struct test tests[] = {
	{ "insmod_refused", test_refused, 30, 0 },
	{ "insmod_most", test_most, 30, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "hetsim_insmod", tests)
