// SPDX-License-Identifier: MIT
/*
 * The library's use of OpenCL under oclgrind, which checks each access and each call. Its exit
 * status says nothing: the log counts.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accel/accel_support.h"

#define LOG_MAX 65536

/* ---- inside: this program again, run by oclgrind's launcher ---- */

static int expect(bool good, const char *what)
{
	if (!good)
		fprintf(stderr, "not so: %s: %s\n", what, hm_errmsg());
	return !good;
}

static int launch_and_wait(struct hm_queue *queue, struct hm_kernel *kernel, uint64_t n,
			   struct hm_arg a, struct hm_arg b)
{
	const uint64_t grid[3] = { n, 1, 1 };
	struct hm_arg args[2] = { a, b };
	AUTO(hm_fence) *fence = NULL;
	int r = hm_queue_launch(queue, kernel, grid, args, 2, &fence);

	if (r)
		return r;
	r = hm_fence_wait(fence, UINT64_MAX);
	return r;
}

/* @past: the kernel goes that many items past its range. */
static int inside(uint64_t past)
{
	static const uint64_t interior[] = { 0, 1, 4, 64, 128, 4096 };
	struct hm_kernel *kernel;
	AUTO(hm_device) *host = NULL;
	struct hm_queue *queue;
	AUTO(hm_accel) *accel = NULL;
	struct hm_fence *fence;
	unsigned char *p, *q;
	int bad = 0;
	size_t i;

	if (hm_accel_open("opencl:0", NULL, &accel) || hm_queue_create(accel, 0, &queue) ||
	    hm_device_open("host", &host) ||
	    hm_kernel_create(DESC(hm_kernel_desc, .name = "add_bytes",
				  .opencl =
					  "__kernel void add_bytes(__global uchar *p, uint v)\n"
					  "{ p[get_global_id(0)] += (uchar)v; }\n",
				  .signature = "inout u32"),
			     &kernel) ||
	    hm_alloc(host, 16384, HM_READ | HM_WRITE, &p) ||
	    hm_alloc(host, 16384, HM_READ | HM_WRITE, &q))
		return expect(false, "everything opens");
	for (i = 0; i < sizeof(interior) / sizeof(interior[0]); i++)
		bad += expect(
			!launch_and_wait(queue, kernel, 100 + past,
					 HM_RANGE(p + interior[i], 100, HM_READ | HM_WRITE),
					 HM_U32(1)),
			"a launch");
	bad += expect(!launch_and_wait(queue, kernel, 16384 + past, HM_INOUT(p), HM_U32(1)),
		      "a launch on all of it");
	bad += expect(p[0] == 2 && p[50] == 4 && p[4200 - 5] == 2 && p[8000] == 1,
		      "what the kernels added");
	bad += expect(!hm_queue_copy(queue, q + 3, p, 16000, &fence) &&
			      !hm_fence_wait(fence, UINT64_MAX),
		      "a copy");
	hm_fence_unref(fence);
	bad += expect(!memcmp(q + 3, p, 16000), "what was copied");
	bad += expect(!hm_queue_fill(queue, q + 4, 0x07070707, 8000, &fence) &&
			      !hm_fence_wait(fence, UINT64_MAX),
		      "a fill");
	hm_fence_unref(fence);
	bad += expect(q[3] == p[0] && q[4] == 7 && q[8003] == 7 && q[8004] == p[8001],
		      "what was filled");
	hm_kernel_unref(kernel);
	hm_queue_unref(queue);
	bad += expect(!hm_free(p) && !hm_free(q), "freeing");
	return bad;
}

/* ---- outside ---- */

/* Runs oclgrind on this program; its log, and the status of wait(2). */
static int run_oclgrind(const char *option, char *log)
{
	char self[4096], path[] = "/tmp/hetmap-oclgrind-XXXXXX";
	int status = -1, fd = mkstemp(path);
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	pid_t child;

	CHECK_FATAL(fd >= 0 && n > 0);
	self[n] = '\0';
	child = fork();
	if (!child) {
		/* oclgrind's own driver must be the only one. */
		execlp("timeout", "timeout", "60", "oclgrind", "--log", path, "--data-races",
		       "--check-api", self, option, (char *)NULL);
		_exit(127);
	}
	CHECK_FATAL(child > 0 && waitpid(child, &status, 0) == child);
	n = read(fd, log, LOG_MAX - 1);
	log[n > 0 ? n : 0] = '\0';
	close(fd);
	unlink(path);
	return status;
}

static bool have_oclgrind(void)
{
	if (TEST_ASAN || TEST_TSAN) {
		test_skip("sanitizer", "oclgrind is preloaded, which sanitizers refuse");
		return false;
	}
	if (system("command -v oclgrind >/dev/null 2>&1")) {
		test_skip("opencl", "oclgrind is not installed");
		return false;
	}
	return true;
}

static void clean_log(void)
{
	char log[LOG_MAX];

	TEST_NEEDS(have_oclgrind());
	CHECK_EQUAL(run_oclgrind("--inside", log), 0);
	if (log[0])
		printf("%s\n", log);
	CHECK(!log[0]);
}

/* Proves that the log works: it has a kernel's access one item past its range. */
static void overrun_is_logged(void)
{
	char log[LOG_MAX];

	TEST_NEEDS(have_oclgrind());
	CHECK(WIFEXITED(run_oclgrind("--inside-overrun", log)));
	CHECK(strstr(log, "Invalid"));
	CHECK(strstr(log, "add_bytes"));
}

static const struct test tests[] = {
	{ "clean_log", clean_log, 90, 0 },
	{ "overrun_is_logged", overrun_is_logged, 90, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "--inside"))
		return inside(0);
	if (argc > 1 && !strcmp(argv[1], "--inside-overrun"))
		return inside(1);
	return harness_main(argc, argv, "oclgrind", tests);
}
