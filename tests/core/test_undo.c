// SPDX-License-Identifier: MIT
/*
 * Walks every undo path: each operation is repeated with the 1st, 2nd, 3rd...
 * system call or allocation failing, until none is left to fail. After a
 * failure the old state must be whole, and after the teardown nothing left over.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/inject.h"
#include "lib/minimal_backend.h"
#include "core/undo.h"

#define CALLS_MAX 400 /* far more than any operation makes */

/* The failed call was a help, or has a substitute: books and bytes are in order. */
static void check_success(const struct world *world, const struct test_holding *before,
			  const char *context)
{
	uint64_t locked = test_status_bytes("VmLck") - before->locked;

	if (stats_now().bytes_locked != locked)
		test_fail(__FILE__, __LINE__,
			  "%s: %llu bytes are locked, the counter says %llu", context,
			  (unsigned long long)locked,
			  (unsigned long long)stats_now().bytes_locked);
	undo_check_bytes(world->map, context);
	undo_check_bytes(world->second, context);
}

/* The next run is compared with the holding after this one. */
static void check_leaks(struct test_holding *before, const char *context)
{
	struct test_holding now = test_holding_now();

	if (now.fds != before->fds || now.mapped > before->mapped ||
	    now.locked != before->locked || now.objects != before->objects)
		test_fail(__FILE__, __LINE__,
			  "%s: fds %u to %u, mapped %llu to %llu, locked "
			  "%llu to %llu, objects %llu to %llu",
			  context, before->fds, now.fds, (unsigned long long)before->mapped,
			  (unsigned long long)now.mapped, (unsigned long long)before->locked,
			  (unsigned long long)now.locked, (unsigned long long)before->objects,
			  (unsigned long long)now.objects);
}

/* Returns false when the @n-th call was not made any more. */
static bool run_once(const struct operation *operation, unsigned int n, enum inject_mode mode,
		     struct test_holding *holding)
{
	char context[96];
	struct undo_shape before;
	struct world world;
	bool failed;
	int r;

	undo_set_up(operation, &world);
	undo_take_shape(&world, &before);
	test_forget_text();
	inject_arm(n, mode);
	r = operation->run(&world);
	failed = inject_disarm();
	snprintf(context, sizeof(context), "%s, call %u (%s%s)", operation->name, n,
		 inject_failed(), mode == INJECT_ONE ? "" : ", more than once");
	if (r && !failed)
		test_fail(__FILE__, __LINE__, "%s: %d though nothing failed: %s", context, r,
			  hm_errmsg());
	/* Where undoing fails, too, the map may be lost: only leaks are checked. */
	if (r && failed && mode == INJECT_ONE)
		undo_check_failure(operation, &world, &before, context);
	else if (!r && mode == INJECT_ONE)
		check_success(&world, holding, context);
	undo_tear_down(&world);
	inject_forgive();
	check_leaks(holding, context);
	return failed;
}

/* Makes objects that are made once, and those kept for the next time. */
static void warm_up(const struct operation *operation)
{
	struct world world;

	undo_set_up(operation, &world);
	CHECK_OK(operation->run(&world));
	undo_tear_down(&world);
}

static void walk(const struct operation *operation)
{
	static const enum inject_mode modes[] = { INJECT_ONE, INJECT_TWO, INJECT_REST };
	struct test_holding holding;
	unsigned int n, step;
	size_t i;

	warm_up(operation);
	holding = test_holding_now();
	run_once(operation, 0, INJECT_ONE, &holding);
	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		step = inject_steps(modes[i], &n);
		for (; n < CALLS_MAX; n += step)
			if (!run_once(operation, n, modes[i], &holding))
				break;
		CHECK(n < CALLS_MAX);
	}
}

/* All operations on the host, and those that other devices can. */
static struct {
	const char *name;
	const char *operations; /* as in fnmatch(3) */
} devices[] = {
	{ "host", "*" },
	{ "soft:0", "*" },
	{ "heap:system",
	  "@(create_shared|import|export_plain|map|append|replace|move|release_app)*" },
	{ "drm:virtio_gpu", "@(create_shared|import|export_plain|map|append|replace|move)" },
	{ "udmabuf", "@(create_shared|import|export_plain|grow_shared|shrink_shared|replace)" },
	/* Objects of a length for life, that are mapped from their start and moved. */
	{ "fixed", "@(map|append|replace|move|release_app)*" },
};

#define DEVICES (sizeof(devices) / sizeof(devices[0]))

static struct walked {
	const struct operation *operation;
	const char *device;
} * walked;
static struct test *tests;

static void run(void)
{
	const struct walked *one = &walked[test_current() - tests];

	undo_device = one->device;
	inject_install();
	walk(one->operation);
}

static bool is_wanted(unsigned int device, const struct operation *operation)
{
	return undo_runs_on(operation, devices[device].name) &&
	       !fnmatch(devices[device].operations, operation->name, FNM_EXTMATCH);
}

static bool is_there(const char *name)
{
	struct hm_device *device;
	bool there = !hm_device_open(name, &device);

	if (there)
		hm_device_unref(device);
	return there;
}

/* Adds the tests of @device behind @n others. Returns how many there are then. */
static unsigned int add_tests(unsigned int device, unsigned int n)
{
	const char *of = devices[device].name;
	unsigned int i;
	char *name;

	for (i = 0; is_there(of) && i < undo_n_operation; i++) {
		if (!is_wanted(device, &undo_operations[i]))
			continue;
		if (asprintf(&name, "%s.%s", of, undo_operations[i].name) < 0)
			abort();
		walked[n] = (struct walked){ &undo_operations[i], of };
		tests[n] = (struct test){ name, run, 60, 0 };
		n++;
	}
	return n;
}

int main(int argc, char **argv)
{
	unsigned int d, n = 0;

	/* A thread releases idle memory, which would look like a leak. */
	setenv("HETMAP_DRM_IDLE", "0", 1);
	tests = calloc(DEVICES * undo_n_operation + 1, sizeof(tests[0]));
	walked = calloc(DEVICES * undo_n_operation, sizeof(walked[0]));
	if (!tests || !walked || hm_backend_register(&fixed_backend))
		return 1;
	if (is_there("sim:0"))
		devices[1].name = "sim:0";
	for (d = 0; d < DEVICES; d++)
		n = add_tests(d, n);
	return harness_main(argc, argv, "undo", tests);
}
