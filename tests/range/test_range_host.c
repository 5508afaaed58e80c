// SPDX-License-Identifier: MIT
/*
 * Ranges without an accelerator: the host's pages by advice, prefetch and query; files that are
 * read ahead of launches; and any pointers on "cpu" and OpenCL.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/util.h"
#include "range/range_support.h"

#define LENGTH (64 * PAGE)

static struct hm_range_page page_at(const void *at)
{
	struct hm_range_page page;
	uint64_t n;

	CHECK_OK_FATAL(hm_range_query(at, 1, NULL, &page, 1, &n));
	CHECK_EQUAL(n, 1);
	return page;
}

/* ---- prefetch and query ---- */

static void prefetched(void)
{
	struct hm_fence *fence = NULL;
	char *bytes = any_pages(LENGTH, PROT_READ | PROT_WRITE);
	struct hm_range_page page = page_at(bytes);

	CHECK(page.place == HM_RANGE_ABSENT && page.access == (HM_READ | HM_WRITE));
	CHECK(page.node == -1 && !page.device_access && !page.moves);
	CHECK_OK_FATAL(hm_range_prefetch(bytes, LENGTH, NULL, HM_READ | HM_WRITE, &fence));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	hm_fence_unref(fence);
	CHECK_EQUAL(page_at(bytes).place, HM_RANGE_HOST);
	CHECK_EQUAL(page_at(bytes + LENGTH - 1).place, HM_RANGE_HOST);
	munmap(bytes, LENGTH);
	CHECK_EQUAL(page_at(bytes).place, HM_RANGE_UNMAPPED);
}

static void prefetch_refused(void)
{
	struct hm_fence *fence = NULL;
	char *bytes = any_pages(LENGTH, PROT_READ | PROT_WRITE);

	munmap(bytes + 10 * PAGE, PAGE);
	mprotect(bytes + 20 * PAGE, PAGE, PROT_READ);
	CHECK_ERROR(-EFAULT, hm_range_prefetch(bytes, LENGTH, NULL, HM_READ, NULL));
	CHECK(any_told(bytes + 10 * PAGE, "can't be brought in"));
	CHECK_OK_FATAL(hm_range_prefetch(bytes + 11 * PAGE, 20 * PAGE, NULL, HM_READ | HM_WRITE,
					 &fence));
	CHECK_ERROR(-EFAULT, hm_fence_wait(fence, UINT64_MAX));
	CHECK(any_told(bytes + 20 * PAGE, "can't be brought in"));
	hm_fence_unref(fence);
	/* The pages before are there. */
	CHECK_EQUAL(page_at(bytes + 19 * PAGE).place, HM_RANGE_HOST);
	CHECK_ERROR(-EINVAL, hm_range_prefetch(bytes, 0, NULL, HM_READ, NULL));
	CHECK_ERROR(-EINVAL, hm_range_prefetch(bytes, UINT64_MAX, NULL, HM_READ, NULL));
	CHECK_ERROR(-EINVAL, hm_range_prefetch(bytes, PAGE, NULL, 0, NULL));
	munmap(bytes, LENGTH);
}

static void queried(void)
{
	int fd = scratch_file(LENGTH);
	struct hm_range_page page;
	uint64_t n = 7;
	char *bytes = mmap(NULL, LENGTH, PROT_READ, MAP_SHARED, fd, 0);

	CHECK_FATAL(bytes != MAP_FAILED);
	page = page_at(bytes);
	CHECK(page.place == HM_RANGE_ON_DISK || page.place == HM_RANGE_CACHED);
	CHECK_EQUAL(page.access, HM_READ);
	CHECK_OK(hm_range_prefetch(bytes, LENGTH, NULL, HM_READ, NULL));
	CHECK_EQUAL(page_at(bytes).place, HM_RANGE_HOST);
	CHECK_OK(hm_range_query(bytes, LENGTH, NULL, NULL, 0, &n));
	CHECK_EQUAL(n, 64);
	CHECK_ERROR(-EINVAL, hm_range_query(bytes, LENGTH, NULL, NULL, 1, &n));
	CHECK_ERROR(-EINVAL, hm_range_query(bytes, LENGTH, NULL, &page, 1, NULL));
	CHECK_ERROR(-EINVAL, hm_range_query(bytes, 0, NULL, &page, 1, &n));
	CHECK_EQUAL(n, 64);
	munmap(bytes, LENGTH);
	close(fd);
}

/* ---- advice ---- */

static void advised(void)
{
	char *bytes = any_pages(8ull << 20, PROT_READ | PROT_WRITE);
	int r;

	CHECK_OK(hm_range_advise(bytes, LENGTH, NULL, HM_RANGE_NORMAL, 0));
	r = hm_range_advise(bytes, 8ull << 20, NULL, HM_RANGE_GRANULE, 2ull << 20);
	CHECK(!r || r == -EOPNOTSUPP); /* a kernel without huge pages */
	r = hm_range_advise(bytes, 8ull << 20, NULL, HM_RANGE_GRANULE, 4096);
	CHECK(!r || r == -EOPNOTSUPP);
	r = hm_range_advise(bytes, LENGTH, NULL, HM_RANGE_PREFER_HOST, 0);
	CHECK(!r || r == -EINVAL || r == -EOPNOTSUPP || r == -ENOSYS);
	CHECK_ERROR(-EINVAL, hm_range_advise(bytes, LENGTH, NULL, HM_RANGE_PREFER_HOST, 64));
	CHECK_ERROR(-EINVAL, hm_range_advise(bytes, LENGTH, NULL, HM_RANGE_GRANULE, 5000));
	CHECK_ERROR(-EINVAL, hm_range_advise(bytes, LENGTH, NULL, HM_RANGE_ACCESSED_BY, 1));
	CHECK_ERROR(-EOPNOTSUPP, hm_range_advise(bytes, LENGTH, NULL, HM_RANGE_NO_ACCESS, 0));
	CHECK(text_has("mprotect"));
	CHECK_ERROR(-EOPNOTSUPP, hm_range_advise(bytes, LENGTH, NULL, HM_RANGE_READ_MOSTLY, 0));
	munmap(bytes + 3 * PAGE, PAGE);
	CHECK_ERROR(-ENOENT, hm_range_advise(bytes, LENGTH, NULL, HM_RANGE_NORMAL, 0));
	CHECK(any_told(bytes + 3 * PAGE, "nothing is mapped"));
	munmap(bytes, 8ull << 20);
}

static void begins_to_read(void)
{
	int fd = scratch_file(LENGTH);
	char *bytes = mmap(NULL, LENGTH, PROT_READ, MAP_SHARED, fd, 0);

	CHECK_FATAL(bytes != MAP_FAILED);
	CHECK_OK(hm_range_advise(bytes, LENGTH, NULL, HM_RANGE_ACCESSED_BY, 0));
	munmap(bytes, LENGTH);
	close(fd);
}

/* ---- accelerators without entries ---- */

static void on_cpu(void)
{
	struct hm_range_page page;
	struct hm_range_events *events;
	struct hm_accel *cpu;
	uint64_t n;
	char *bytes = any_pages(LENGTH, PROT_READ | PROT_WRITE);

	CHECK_OK_FATAL(hm_accel_open("cpu", NULL, &cpu));
	CHECK_OK(hm_range_prefetch(bytes, LENGTH, cpu, HM_READ | HM_WRITE, NULL));
	CHECK_OK(hm_range_query(bytes, 1, cpu, &page, 1, &n));
	CHECK_EQUAL(page.place, HM_RANGE_HOST);
	CHECK_OK(hm_range_advise(bytes, LENGTH, cpu, HM_RANGE_NORMAL, 0));
	CHECK_ERROR(-EOPNOTSUPP, hm_range_events_open(cpu, &events));
	CHECK_ERROR(-EINVAL, hm_range_events_open(NULL, &events));
	hm_accel_unref(cpu);
	munmap(bytes, LENGTH);
}

static int add_one(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	uint32_t *to = (uint32_t *)(uintptr_t)args[1].pointer;
	const uint32_t *from = args[0].pointer;
	uint64_t i;

	for (i = range->begin[0]; i < range->end[0]; i++)
		to[i] = from[i] + 1;
	return args[0].kind == HM_ARG_POINTER ? 0 : -EINVAL;
}

static const char add_source[] = "kernel void add_one(global const uint *from, global uint *to)"
				 "{ size_t i = get_global_id(0); to[i] = from[i] + 1; }";

/* On @accel, whose capability says whether it takes any pointer. */
static void check_any(const char *name)
{
	struct hm_accel_info info = { .struct_size = sizeof(info) };
	struct hm_fence_info work = { .struct_size = sizeof(work) };
	AUTO_FREE uint32_t *from = malloc(LENGTH);
	uint32_t on_stack[1024], i, wrong = 0;
	struct hm_fence *fence = NULL;
	int r;
	AUTO(hm_accel) *accel = rig_accel(name, NULL);
	AUTO(hm_kernel) *kernel = NULL;

	CHECK_OK(hm_accel_query(accel, &info));
	AUTO(hm_queue) *queue = rig_queue(accel, 0);
	CHECK_OK_FATAL(
		hm_kernel_create(DESC(hm_kernel_desc, .name = "add_one", .opencl = add_source,
				      .cpu = add_one, .signature = "in out"),
				 &kernel));
	for (i = 0; i < 1024; i++)
		from[i] = 3 * i;
	r = hm_launch(queue, kernel, 1024, &fence, HM_ANY(from, 4096, HM_READ),
		      HM_ANY(on_stack, 4096, HM_WRITE));
	if (!(info.caps & HM_ACCEL_ANY_POINTER)) {
		CHECK_EQUAL(r, -EOPNOTSUPP);
		CHECK(text_has("hm_alloc") && text_has("copy"));
	} else {
		CHECK_OK_FATAL(r);
		CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
		CHECK_OK(hm_fence_query(fence, &work));
		CHECK_EQUAL(work.bytes_copied, 0);
		hm_fence_unref(fence);
		for (i = 0; i < 1024; i++)
			wrong += on_stack[i] != 3 * i + 1;
		CHECK_EQUAL(wrong, 0);
		CHECK_ERROR(-EINVAL,
			    hm_launch(queue, kernel, 1, &fence, HM_ANY(from, 0, HM_READ),
				      HM_ANY(on_stack, 4096, HM_WRITE)));
		CHECK_ERROR(-EINVAL, hm_launch(queue, kernel, 1, &fence, HM_ANY(from, 4096, 0),
					       HM_ANY(on_stack, 4096, HM_WRITE)));
	}
}

static void any_on_cpu(void)
{
	check_any("cpu");
}

static void any_on_pocl(void)
{
	if (use_pocl("pthread"))
		check_any("opencl:0");
}

static void any_without_quirks(void)
{
	if (!use_pocl("pthread"))
		return;
	setenv("HETMAP_OPENCL_QUIRKS", "0", 1);
	check_any("opencl:0");
}

/* A driver that announces system SVM, and one that does not. */
static void any_on_stub(void)
{
	AUTO_FREE float *x = aligned_alloc(64, 4096);
	AUTO_FREE float *y = aligned_alloc(64, 4096);
	struct hm_fence_info work;
	struct accel_rig rig;
	uint32_t i;

	use_stub("svm-system");
	accel_rig_open(&rig, "opencl:0", 0, 0);
	for (i = 0; i < 1024; i++) {
		x[i] = (float)i;
		y[i] = 1;
	}
	work = RUN(&rig, SAXPY, 1024, HM_F32(2), HM_ANY(x, 4096, HM_READ),
		   HM_ANY(y, 4096, HM_READ | HM_WRITE));
	CHECK_EQUAL(work.way_in, HM_WAY_SVM);
	CHECK_EQUAL(work.bytes_copied, 0);
	CHECK(y[1000] == 2001);
	accel_rig_close(&rig);
}

static void none_on_stub(void)
{
	AUTO_FREE float *x = aligned_alloc(64, 4096);
	struct hm_fence *fence = NULL;
	struct accel_rig rig;

	use_stub("");
	accel_rig_open(&rig, "opencl:0", 0, 0);
	CHECK_ERROR(-EOPNOTSUPP,
		    hm_launch(rig.queue, rig.kernel[SAXPY], 1024, &fence, HM_F32(2),
			      HM_ANY(x, 4096, HM_READ), HM_ANY(x, 4096, HM_READ | HM_WRITE)));
	CHECK(text_has("HM_ACCEL_ANY_POINTER") && text_has("hm_buffer_import"));
	accel_rig_close(&rig);
}

/* ---- launches that read files ahead ---- */

static struct hm_range_counts learned(void)
{
	struct hm_range_counts counts = { .struct_size = sizeof(counts) };

	CHECK_OK(hm_range_counts_get(NULL, &counts));
	return counts;
}

static unsigned int n_willneed;
static int (*madvise_before)(void *address, size_t length, int advice);

static int counting_madvise(void *address, size_t length, int advice)
{
	n_willneed += advice == MADV_WILLNEED;
	return madvise_before(address, length, advice);
}

static int nothing(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range, (void)args;
	return 0;
}

/* @n launches on a piece of the file each, in order, from its end, or at random. */
static void launch_pieces(struct accel_rig *rig, struct hm_kernel *kernel, char *bytes,
			  bool any, uint64_t n, long step)
{
	const uint64_t piece = 16 * PAGE;
	uint64_t state = 5, i, at;
	struct hm_fence *fence;

	for (i = 0; i < n; i++) {
		at = step ? (step > 0 ? i * (uint64_t)step : (n - 1 - i)) * piece :
			    test_random(&state) % 500 * piece;
		fence = NULL;
		CHECK_OK_FATAL(any ? hm_launch(rig->queue, kernel, 1, &fence,
					       HM_ANY(bytes + at, piece, HM_READ)) :
				     hm_launch(rig->queue, kernel, 1, &fence,
					       HM_RANGE(bytes + at, piece, HM_READ)));
		finish(fence);
	}
}

static void check_learning(bool any)
{
	const uint64_t size = 512 * 16 * PAGE;
	int fd = scratch_file(size);
	struct hm_kernel *kernel = make_kernel("nothing", "in", nothing);
	struct hm_range_counts before, after;
	struct hm_buffer *buffer = NULL;
	struct hm_map *map = NULL;
	struct accel_rig rig;
	char *bytes;

	accel_rig_open(&rig, "cpu", 0, 0);
	if (any) {
		bytes = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
		CHECK_FATAL(bytes != MAP_FAILED);
	} else {
		const struct hm_buffer_desc desc = { .struct_size = sizeof(desc) };
		const struct hm_map_desc map_desc = { .struct_size = sizeof(map_desc),
						      .access = HM_READ };
		AUTO(hm_device) *file = rig_device("file");

		CHECK_OK_FATAL(hm_buffer_from_file(file, NULL, fd, &desc, &buffer));
		CHECK_OK_FATAL(hm_map_create(buffer, &map_desc, &map));
		bytes = hm_map_address(map);
	}
	madvise_before = sys_table.madvise;
	sys_table.madvise = counting_madvise;
	/* Off, until it is asked for. */
	n_willneed = 0;
	launch_pieces(&rig, kernel, bytes, any, 50, 1);
	CHECK_EQUAL(n_willneed, 0);
	CHECK_OK(hm_range_learn(NULL, 16 * PAGE, 256 * PAGE));
	before = learned();
	launch_pieces(&rig, kernel, bytes, any, 200, 1);
	after = learned();
	/* Known, and left to the kernel. */
	CHECK_EQUAL(n_willneed, 0);
	CHECK(after.sequential - before.sequential >= 190);
	before = after;
	launch_pieces(&rig, kernel, bytes, any, 150, 3);
	after = learned();
	CHECK(after.strided - before.strided >= 140);
	CHECK(n_willneed >= 100);
	CHECK(after.used - before.used >= 130 * 16);
	launch_pieces(&rig, kernel, bytes, any, 300, -1);
	after = learned();
	before = after;
	launch_pieces(&rig, kernel, bytes, any, 400, 0);
	after = learned();
	CHECK(after.random - before.random >= 330);
	CHECK(after.planned - before.planned <= 400 * 16 / 8);
	CHECK_OK(hm_range_learn(NULL, 0, 0));
	after = learned();
	CHECK_EQUAL(after.planned, after.used + after.wasted);
	n_willneed = 0;
	launch_pieces(&rig, kernel, bytes, any, 50, 1);
	CHECK_EQUAL(n_willneed, 0);
	CHECK_ERROR(-EINVAL, hm_range_learn(NULL, 1, 4096));
	CHECK_ERROR(-EINVAL, hm_range_learn(NULL, 8192, 4096));
	sys_table.madvise = madvise_before;
	if (any)
		munmap(bytes, size);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_kernel_unref(kernel);
	accel_rig_close(&rig);
	close(fd);
}

static void learns_from_maps(void)
{
	check_learning(false);
}

static void learns_from_any(void)
{
	check_learning(true);
}

static const struct test tests[] = {
	{ "prefetched", prefetched, 0, 0 },
	{ "prefetch_refused", prefetch_refused, 0, 0 },
	{ "queried", queried, 0, 0 },
	{ "advised", advised, 0, 0 },
	{ "begins_to_read", begins_to_read, 0, 0 },
	{ "on_cpu", on_cpu, 0, 0 },
	{ "any_on_cpu", any_on_cpu, 0, 0 },
	{ "any_on_pocl", any_on_pocl, 60, TEST_ONCE },
	{ "any_without_quirks", any_without_quirks, 60, TEST_ONCE },
	{ "any_on_stub", any_on_stub, 0, TEST_ONCE },
	{ "none_on_stub", none_on_stub, 0, TEST_ONCE },
	{ "learns_from_maps", learns_from_maps, 0, 0 },
	{ "learns_from_any", learns_from_any, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "range_host", tests)
