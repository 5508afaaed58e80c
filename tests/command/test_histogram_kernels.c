// SPDX-License-Identifier: MIT
/*
 * Every form of the histogram's kernel against the CPU's own count. The form for
 * GPUs (local memory, atomics, barriers) runs on PoCL and oclgrind, too: the
 * accelerator is only said to be a GPU.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../tools/hetmap/histogram.h"
#include "accel/accel_support.h"

#define MOST ((1u << 20) + 3)
#define VALUES HISTOGRAM_VALUES

static const uint64_t sizes[] = { 1, 15, 16, 17, 4096, MOST };

#define N_SIZE (sizeof(sizes) / sizeof(sizes[0]))

/* An accelerator, and the kernel's form for those of a kind. */
struct bench {
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_device *host;
	struct hm_kernel *kernel;
	struct hm_accel_info info;
	unsigned char *bytes;
	uint32_t *parts;
	uint64_t n_part;
};

static int bench_open(struct bench *b, const char *accel, uint32_t kind)
{
	memset(b, 0, sizeof(*b));
	b->info.struct_size = sizeof(b->info);
	if (hm_accel_open(accel, NULL, &b->accel) || hm_accel_query(b->accel, &b->info))
		return -1;
	b->info.kind = kind;
	/* Enough of them that the large size has many parts. */
	b->info.units = 16;
	b->n_part = histogram_parts(&b->info, MOST);
	if (hm_queue_create(b->accel, 0, &b->queue) || hm_device_open("host", &b->host) ||
	    histogram_kernel_create(&b->info, &b->kernel) ||
	    hm_kernel_build(b->kernel, b->accel) ||
	    hm_alloc(b->host, MOST, HM_READ | HM_WRITE, &b->bytes) ||
	    hm_alloc(b->host, b->n_part * VALUES * sizeof(*b->parts), HM_READ | HM_WRITE,
		     &b->parts))
		return -1;
	return 0;
}

static void bench_close(struct bench *b)
{
	hm_kernel_unref(b->kernel);
	hm_queue_unref(b->queue);
	hm_accel_unref(b->accel);
	hm_free(b->bytes);
	hm_free(b->parts);
	hm_device_unref(b->host);
}

AUTO_END(bench, bench_close)

/* Counts @size of its bytes. Returns 0, or an error with @text. */
static int count(struct bench *b, uint64_t size, char text[256])
{
	uint64_t parts = histogram_parts(&b->info, size), i;
	uint64_t counts[VALUES] = { 0 }, expected[VALUES] = { 0 };
	struct hm_fence *fence;
	int r;

	/* Counts that the kernel does not write are seen, and so are stores past the end. */
	memset(b->parts, 0xa5, b->n_part * VALUES * sizeof(*b->parts));
	r = hm_launch(b->queue, b->kernel, parts * histogram_group(&b->info), &fence,
		      HM_RANGE(b->bytes, size, HM_READ), HM_U64(size),
		      HM_RANGE(b->parts, parts * VALUES * sizeof(*b->parts), HM_WRITE));
	if (!r) {
		r = hm_fence_wait(fence, UINT64_MAX);
		hm_fence_unref(fence);
	}
	if (r) {
		snprintf(text, 256, "%.255s", hm_errmsg());
		return r;
	}
	histogram_count(b->bytes, size, expected);
	for (i = 0; i < parts * VALUES; i++)
		counts[i % VALUES] += b->parts[i];
	for (i = 0; i < VALUES; i++)
		if (counts[i] != expected[i]) {
			snprintf(text, 256, "byte %llu: %llu instead of %llu",
				 (unsigned long long)i, (unsigned long long)counts[i],
				 (unsigned long long)expected[i]);
			return -1;
		}
	for (i = parts * VALUES; i < b->n_part * VALUES; i++)
		if (b->parts[i] != 0xa5a5a5a5) {
			snprintf(text, 256, "written past the tables of its parts");
			return -1;
		}
	return 0;
}

/* @size random bytes, then that many of one value. Prints the errors. */
static int check_size(struct bench *b, uint64_t size, uint64_t seed)
{
	uint64_t state = seed, i;
	char text[256];
	int bad = 0;

	for (i = 0; i < size; i++)
		b->bytes[i] = (unsigned char)test_random(&state);
	if (count(b, size, text)) {
		printf("    %llu random bytes, seed %llu: %s\n", (unsigned long long)size,
		       (unsigned long long)seed, text);
		bad++;
	}
	memset(b->bytes, (int)(seed & 255), size);
	if (count(b, size, text)) {
		printf("    %llu bytes 0x%02x: %s\n", (unsigned long long)size,
		       (unsigned int)(seed & 255), text);
		bad++;
	}
	return bad;
}

/* ---- here ---- */

static void check_form(const char *accel, uint32_t kind)
{
	uint64_t seed = test_seed();
	AUTO(bench) b = { 0 };
	size_t i;

	CHECK_OK_FATAL(bench_open(&b, accel, kind));
	for (i = 0; i < N_SIZE; i++)
		if (histogram_whole(&b.info, sizes[i]))
			CHECK_EQUAL(check_size(&b, histogram_whole(&b.info, sizes[i]),
					       seed + i),
				    0);
}

static void cpu(void)
{
	check_form("cpu", HM_ACCEL_CPU);
}

static void stretches(void)
{
	if (use_pocl("pthread"))
		check_form("opencl:0", HM_ACCEL_CPU);
}

static void groups(void)
{
	if (use_pocl("pthread"))
		check_form("opencl:0", HM_ACCEL_GPU);
}

static void engine(void)
{
	check_form("soft:0", HM_ACCEL_ENGINE);
}

/* ---- under oclgrind, which checks accesses, races and barriers ---- */

/* This program again, with oclgrind's driver alone. */
static int inside(uint32_t kind)
{
	AUTO(bench) b = { 0 };
	int bad = 0;
	size_t i;

	if (bench_open(&b, "opencl:0", kind)) {
		fprintf(stderr, "%s\n", hm_errmsg());
		return 1;
	}
	/* The largest would take minutes: 70,001 bytes have two parts. */
	for (i = 0; i < N_SIZE; i++)
		bad += check_size(&b, sizes[i] == MOST ? 70001 : sizes[i], i + 1);
	return bad != 0;
}

static void run_oclgrind(const char *option)
{
	char self[4096], log[4096], path[] = "/tmp/hetmap-oclgrind-XXXXXX";
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int status = -1, fd;
	pid_t child;

	if (TEST_ASAN || TEST_TSAN) {
		test_skip("sanitizer", "oclgrind is preloaded, which sanitizers refuse");
		return;
	}
	if (system("command -v oclgrind >/dev/null 2>&1")) {
		test_skip("opencl", "oclgrind is not installed");
		return;
	}
	fd = mkstemp(path);
	CHECK_FATAL(fd >= 0 && n > 0);
	self[n] = '\0';
	child = fork();
	if (!child) {
		execlp("timeout", "timeout", "60", "oclgrind", "--log", path, "--data-races",
		       self, option, (char *)NULL);
		_exit(127);
	}
	CHECK_FATAL(child > 0 && waitpid(child, &status, 0) == child);
	CHECK_EQUAL(status, 0);
	n = read(fd, log, sizeof(log) - 1);
	log[n > 0 ? n : 0] = '\0';
	close(fd);
	unlink(path);
	if (log[0])
		printf("%s\n", log);
	CHECK(!log[0]);
}

static void stretches_under_oclgrind(void)
{
	run_oclgrind("--inside-stretches");
}

static void groups_under_oclgrind(void)
{
	run_oclgrind("--inside-groups");
}

static const struct test tests[] = {
	{ "cpu", cpu, 60, 0 },
	{ "stretches", stretches, 60, 0 },
	{ "groups", groups, 60, 0 },
	{ "engine", engine, 60, 0 },
	{ "stretches_under_oclgrind", stretches_under_oclgrind, 90, TEST_ONCE },
	{ "groups_under_oclgrind", groups_under_oclgrind, 90, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "--inside-stretches"))
		return inside(HM_ACCEL_CPU);
	if (argc > 1 && !strcmp(argv[1], "--inside-groups"))
		return inside(HM_ACCEL_GPU);
	return harness_main(argc, argv, "histogram_kernels", tests);
}
