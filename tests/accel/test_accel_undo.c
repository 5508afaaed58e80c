// SPDX-License-Identifier: MIT
/*
 * Accelerators with each system call and each allocation failing once: there is
 * a sentence, and nothing is left behind. (The driver's own calls: test_stub.c.)
 */
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "accel/accel_support.h"
#include "lib/inject.h"

static char cache[] = "/tmp/hetmap-undo-XXXXXX";

static bool is_named(int r)
{
	return !r || (r < 0 && hm_errmsg()[0]);
}

static int increment(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	uint32_t *p = (uint32_t *)(uintptr_t)args[0].pointer;
	uint64_t i;

	for (i = range->begin[0]; i < range->end[0]; i++)
		p[i]++;
	return 0;
}

/*
 * Two launches, a copy, a fill, descriptors; errors are taken as they come. Work of
 * @may_fail ends with one where its bytes can't be brought back.
 */
static void work(struct hm_accel *accel, struct hm_queue *queue, struct hm_kernel *kernel,
		 uint32_t *p, bool may_fail)
{
	struct hm_fence *fence;
	uint32_t way;
	int i, r, fd;

	CHECK(is_named(hm_accel_way_in(accel, p, 0, &way)));
	for (i = 0; i < 4; i++) {
		if (i < 2)
			r = hm_launch(queue, kernel, 5000, &fence,
				      HM_RANGE(p + i, 4 * 5000, HM_READ | HM_WRITE));
		else if (i == 2)
			r = hm_queue_copy(queue, p + 8192, p, 4096, &fence);
		else
			r = hm_queue_fill(queue, p, 7, 4096, &fence);
		CHECK(is_named(r));
		if (r)
			continue;
		r = hm_fence_fd(fence, &fd);
		CHECK(is_named(r));
		if (!r)
			close(fd);
		r = hm_fence_wait(fence, UINT64_MAX);
		CHECK(!r || (may_fail && is_named(r)));
		hm_fence_unref(fence);
	}
}

static const struct hm_engine_step fills = {
	HM_ENGINE_FILL, 0, HM_ENGINE_NONE, HM_ENGINE_NONE, HM_ENGINE_NONE, HM_ENGINE_NONE, 0
};

static void scenario(const char *name, uint32_t *p)
{
	struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = "increment",
		.opencl = "__kernel void increment(__global uint *p) { }",
		.options = "-DN=1",
		.cpu = increment,
		.signature = "inout",
		.engine = &fills,
		.n_engine = 1,
	};
	AUTO(hm_kernel) *kernel = NULL;
	AUTO(hm_queue) *queue = NULL;
	AUTO(hm_accel) *accel = NULL;
	int r = hm_accel_open(name, NULL, &accel);

	CHECK(is_named(r));
	if (r)
		return;
	r = hm_queue_create(accel, 0, &queue);
	CHECK(is_named(r));
	if (!r)
		r = hm_kernel_create(&desc, &kernel);
	CHECK(is_named(r));
	if (!r)
		work(accel, queue, kernel, p, !strcmp(name, "soft:0"));
}

static void empty_cache(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s/hetmap", cache);
	CHECK_EQUAL(system(command), 0);
}

/* PoCL has a folder of its own in it. */
static void remove_cache(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", cache);
	if (system(command))
		fprintf(stderr, "%s is left\n", cache);
}

static int live(bool stub)
{
	return stub ? ((int (*)(void))stub_symbol("stub_live"))() : 0;
}

static void walk_on(const char *device, const char *name, bool stub, bool keep_cache)
{
	AUTO(hm_device) *host = NULL;
	unsigned int n;
	uint64_t maps;
	bool failed;
	uint32_t *p;

	setenv("XDG_CACHE_HOME", cache, 1);
	CHECK_OK_FATAL(hm_device_open(device, &host));
	CHECK_OK_FATAL(hm_alloc(host, 1 << 16, HM_READ | HM_WRITE, &p));
	maps = stats_now().maps;
	inject_install();
	/* Loads the driver; the self-test is left for the walk. */
	CHECK_OK(hm_accel_list(NULL, 0, &n));
	for (n = 1, failed = true; failed && n < 2000; n++) {
		if (!keep_cache)
			empty_cache();
		inject_arm(n, INJECT_ONE);
		scenario(name, p);
		failed = inject_disarm();
		inject_forgive();
		CHECK_EQUAL(live(stub), 0);
		CHECK_EQUAL(stats_now().maps, maps);
		CHECK_EQUAL(stats_now().views, 0);
		CHECK_EQUAL(hm_accel_way_in(NULL, p, 0, NULL), -EINVAL);
	}
	CHECK(n > 5 && !failed);
	scenario(name, p);
	CHECK_OK(hm_free(p));
}

static void walk(const char *name, bool stub, bool keep_cache)
{
	walk_on("host", name, stub, keep_cache);
}

static void cpu(void)
{
	walk("cpu", false, true);
}

static void engine_in_place(void)
{
	walk_on("soft:0", "soft:0", false, true);
}

static void engine_that_copies(void)
{
	walk("soft:0", false, true);
}

static void stub_without_cache(void)
{
	use_stub("");
	walk("opencl:0", true, false);
}

static void stub_with_cache(void)
{
	use_stub("");
	walk("opencl:0", true, true);
}

static void stub_that_copies(void)
{
	use_stub("shadow");
	walk("opencl:0", true, true);
}

/* A cache that can't be written is no failure, and leaves no file behind. */
static void cache_refused(void)
{
	static const char *const calls[] = { "mkdir", "open", "fcntl", "write", "rename" };
	AUTO(hm_device) *host = NULL;
	char pattern[64];
	glob_t found;
	uint32_t *p;
	size_t i;

	setenv("XDG_CACHE_HOME", cache, 1);
	snprintf(pattern, sizeof(pattern), "%s/hetmap/*.clbin", cache);
	use_stub("");
	CHECK_OK_FATAL(hm_device_open("host", &host));
	CHECK_OK_FATAL(hm_alloc(host, 1 << 16, HM_READ | HM_WRITE, &p));
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		empty_cache();
		p[0] = 0;
		inject_always(calls[i], ENOSPC);
		scenario("opencl:0", p);
		CHECK(inject_disarm());
		/* The work was done: a launch, the copy, the fill. */
		CHECK(p[8192] == 1 && p[0] == 7);
		CHECK_EQUAL(glob(pattern, 0, NULL, &found), GLOB_NOMATCH);
		globfree(&found);
	}
	CHECK_OK(hm_free(p));
}

static const struct test tests[] = {
	{ "cpu", cpu, 60, 0 },
	{ "engine_in_place", engine_in_place, 60, 0 },
	{ "engine_that_copies", engine_that_copies, 60, 0 },
	{ "stub_without_cache", stub_without_cache, 60, 0 },
	{ "stub_with_cache", stub_with_cache, 60, 0 },
	{ "stub_that_copies", stub_that_copies, 60, 0 },
	{ "cache_refused", cache_refused, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	int status;

	if (!mkdtemp(cache))
		return 1;
	status = harness_main(argc, argv, "accel_undo", tests);
	remove_cache();
	return status;
}
