// SPDX-License-Identifier: MIT
/* OpenCL kernels: failed builds, argument kinds, groups, the cache. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accel/accel_support.h"
#include "lib/units.h"

/* ---- kernels ---- */

static struct hm_kernel *kernel_of(const char *name, const char *source, const char *signature)
{
	return rig_kernel(
		DESC(hm_kernel_desc, .name = name, .opencl = source, .signature = signature));
}

static void wrong_sources(void)
{
	AUTO(hm_accel) *accel = NULL;
	struct hm_kernel *kernel;

	if (!use_pocl("basic"))
		return;
	CHECK_OK_FATAL(hm_accel_open("opencl:0", NULL, &accel));
	kernel = kernel_of("f", "__kernel void f(__global int *p) { p[0] = no_such_name; }",
			   NULL);
	CHECK_ERROR(-ENOEXEC, hm_kernel_build(kernel, accel));
	CHECK(text_has("no_such_name"));
	hm_kernel_unref(kernel);
	kernel = kernel_of("g", "__kernel void f(__global int *p) { p[0] = 1; }", NULL);
	CHECK_ERROR(-EINVAL, hm_kernel_build(kernel, accel));
	CHECK(text_has("no kernel function named g"));
	hm_kernel_unref(kernel);
	kernel = kernel_of("f", "__kernel void f(__global int *p) { p[0] = 1; }", "inout u32");
	CHECK_ERROR(-EINVAL, hm_kernel_build(kernel, accel));
	CHECK(text_has("takes 1 arguments"));
	hm_kernel_unref(kernel);
	kernel = kernel_of("f", "__kernel void f(__global int *p) { p[0] = 1; }", "u32");
	CHECK_ERROR(-EINVAL, hm_kernel_build(kernel, accel));
	CHECK(text_has("takes a pointer"));
	hm_kernel_unref(kernel);
	kernel = kernel_of("f", "__kernel void f(__global int *p, float a) { p[0] = a; }",
			   "out f64");
	CHECK_ERROR(-EINVAL, hm_kernel_build(kernel, accel));
	hm_kernel_unref(kernel);
	kernel = kernel_of("f", "__kernel void f(__global int *p, float a) { p[0] = a; }",
			   "out u32");
	CHECK_ERROR(-EINVAL, hm_kernel_build(kernel, accel));
	CHECK(text_has("takes a float, the signature says an integer"));
	hm_kernel_unref(kernel);
	kernel = kernel_of("f", "__kernel void f(__global const int *p) { }", "inout");
	CHECK_ERROR(-EINVAL, hm_kernel_build(kernel, accel));
	CHECK(text_has("a pointer to const"));
	hm_kernel_unref(kernel);
}

/* Errors and warnings of a compiler go to hm_errmsg() only. */
static void nothing_on_stderr(void)
{
	struct hm_kernel *wrong, *warned;
	struct hm_accel *accel;
	char folder[] = "/tmp/hetmap-cache-XXXXXX", command[600], text[512] = "";
	int file, before;

	/* The cache of kernels does not repeat a warning. */
	CHECK_FATAL(mkdtemp(folder));
	setenv("XDG_CACHE_HOME", folder, 1);
	setenv("POCL_CACHE_DIR", folder, 1);
	if (!use_pocl("basic"))
		return;
	CHECK_OK_FATAL(hm_accel_open("opencl:0", NULL, &accel));
	wrong = kernel_of("f", "__kernel void f(__global int *p) { p[0] = no_such_name; }",
			  NULL);
	warned = kernel_of("f", "__kernel void f(__global int *p) { int a; p[0] = a; }", NULL);
	file = memfd_create("stderr", MFD_CLOEXEC);
	before = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	CHECK_FATAL(file >= 0 && before >= 0);
	CHECK_EQUAL(dup2(file, STDERR_FILENO), STDERR_FILENO);
	CHECK_ERROR(-ENOEXEC, hm_kernel_build(wrong, accel));
	CHECK_OK(hm_kernel_build(warned, accel));
	CHECK_EQUAL(dup2(before, STDERR_FILENO), STDERR_FILENO);
	CHECK_EQUAL(pread(file, text, sizeof(text) - 1, 0), 0);
	if (text[0])
		test_fail(__FILE__, __LINE__, "stderr has '%s'", text);
	close(before);
	close(file);
	hm_kernel_unref(wrong);
	hm_kernel_unref(warned);
	hm_accel_unref(accel);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	CHECK_EQUAL(system(command), 0);
}

/* Without a signature the driver is asked. */
static void kinds_from_the_driver(void)
{
	struct hm_fence *fence = NULL;
	static const int pair[2] = { 2, 3 };
	struct hm_kernel *kernel;
	AUTO(accel_rig) rig = pocl_rig("basic", "opencl:0", 0, 0);
	int *p = alloc_bytes(&rig, PAGE);

	kernel = kernel_of("f",
			   "__kernel void f(__global int *p, int a, __local int *l)\n"
			   "{ l[0] = a; p[0] = l[0]; }",
			   NULL);
	CHECK_ERROR(-EINVAL, hm_launch(rig.queue, kernel, 1, &fence, HM_OUT(p), HM_I32(3)));
	CHECK_ERROR(-EINVAL, hm_launch(rig.queue, kernel, 1, &fence, HM_OUT(p), HM_I64(3),
				       HM_LOCAL(64)));
	CHECK_ERROR(-EINVAL, hm_launch(rig.queue, kernel, 1, &fence, HM_I32(3), HM_I32(3),
				       HM_LOCAL(64)));
	CHECK_ERROR(-EINVAL,
		    hm_launch(rig.queue, kernel, 1, &fence, HM_OUT(p), HM_I32(3), HM_IN(p)));
	/* Its bytes would be those of 1077936128. */
	CHECK_ERROR(-EINVAL, hm_launch(rig.queue, kernel, 1, &fence, HM_OUT(p), HM_F32(3),
				       HM_LOCAL(64)));
	CHECK(text_has("argument 1") && text_has("an integer of 4 bytes"));
	CHECK_OK_FATAL(
		hm_launch(rig.queue, kernel, 1, &fence, HM_OUT(p), HM_I32(3), HM_LOCAL(64)));
	finish(fence);
	CHECK_EQUAL(p[0], 3);
	/* Signed or not is one conversion, as it is in C. */
	CHECK_OK_FATAL(
		hm_launch(rig.queue, kernel, 1, &fence, HM_OUT(p), HM_U32(5), HM_LOCAL(64)));
	finish(fence);
	CHECK_EQUAL(p[0], 5);
	hm_kernel_unref(kernel);
	kernel = kernel_of("f",
			   "__kernel void f(__global const int *q, __global int *p, int2 v,\n"
			   "                float a)\n"
			   "{ p[0] = q[1] + v.x + v.y + (int)a; }",
			   NULL);
	p[1] = 1;
#define LAUNCH(q, p, v, a) hm_launch(rig.queue, kernel, 1, &fence, q, p, v, a)
	CHECK_ERROR(-EINVAL, LAUNCH(HM_IN(p), HM_INOUT(p), hm_arg_scalar(pair, 8), HM_U32(4)));
	CHECK(text_has("argument 3") && text_has("a float of 4 bytes"));
	CHECK_ERROR(-EINVAL, LAUNCH(HM_IN(p), HM_INOUT(p), HM_I64(3), HM_F32(4)));
	CHECK(text_has("argument 2") && text_has("a vector of 8 bytes"));
	CHECK_ERROR(-EINVAL, LAUNCH(HM_INOUT(p), HM_IN(p), hm_arg_scalar(pair, 8), HM_F32(4)));
	CHECK(text_has("argument 0") && text_has("const"));
	CHECK_OK_FATAL(LAUNCH(HM_IN(p), HM_INOUT(p), hm_arg_scalar(pair, 8), HM_F32(4)));
	finish(fence);
	CHECK_EQUAL(p[0], 1 + 2 + 3 + 4);
	hm_kernel_unref(kernel);
	CHECK_OK(hm_free(p));
}

static void groups_and_grids(void)
{
	struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = "where",
		.opencl = "__kernel void where(__global uint *p)\n"
			  "{ size_t w = get_global_size(0);\n"
			  "  p[get_global_id(1) * w + get_global_id(0)] =\n"
			  "  get_local_id(1) * 100 + get_local_id(0); }",
		.signature = "out",
		.group = { 4, 2, 1 },
	};
	const uint64_t grid[3] = { 8, 4, 1 };
	AUTO(hm_kernel) *kernel = NULL;
	struct hm_fence *fence;
	struct hm_arg arg;
	uint32_t *p;
	AUTO(accel_rig) rig = pocl_rig("basic", "opencl:0", 0, 0);

	p = alloc_bytes(&rig, PAGE);
	arg = HM_OUT(p);
	CHECK_OK_FATAL(hm_kernel_create(&desc, &kernel));
	CHECK_OK_FATAL(hm_queue_launch(rig.queue, kernel, grid, &arg, 1, &fence));
	finish(fence);
	CHECK_EQUAL(p[0], 0);
	CHECK_EQUAL(p[3 * 8 + 7], 103);
	CHECK_EQUAL(p[2 * 8 + 5], 1);
	CHECK_OK(hm_free(p));
}

/* ---- the cache of binaries ---- */

static void in_cache(const char *folder, const char *pattern, glob_t *ret_found)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/hetmap/%s", folder, pattern);
	CHECK_FATAL(glob(path, 0, NULL, ret_found) != GLOB_ABORTED);
}

static void build_one(struct hm_accel *accel)
{
	AUTO(hm_kernel) *kernel = kernel_of("empty", "__kernel void empty(void) { }", NULL);

	CHECK_OK(hm_kernel_build(kernel, accel));
}

static void binary_cache(void)
{
	char folder[] = "/tmp/hetmap-cache-XXXXXX", command[600];
	struct stat first, second;
	struct hm_accel *accel;
	unsigned int (*calls)(const char *function);
	unsigned int compiled, loaded;
	glob_t found;
	int fd;

	CHECK_FATAL(mkdtemp(folder));
	setenv("XDG_CACHE_HOME", folder, 1);
	use_stub("");
	CHECK_OK_FATAL(hm_accel_open("opencl:0", NULL, &accel));
	calls = (unsigned int (*)(const char *))stub_symbol("stub_calls");
	compiled = calls("clCreateProgramWithSource");
	loaded = calls("clCreateProgramWithBinary");
	build_one(accel);
	CHECK_EQUAL(calls("clCreateProgramWithSource"), compiled + 1);
	in_cache(folder, "*.clbin", &found);
	CHECK_EQUAL(found.gl_pathc, 1);
	CHECK(!stat(found.gl_pathv[0], &first));
	build_one(accel);
	CHECK_EQUAL(calls("clCreateProgramWithSource"), compiled + 1);
	CHECK_EQUAL(calls("clCreateProgramWithBinary"), loaded + 1);

	/* One byte of the binary differs; then half of it is missing; then all. */
	fd = open(found.gl_pathv[0], O_WRONLY);
	CHECK_EQUAL(pwrite(fd, "x", 1, first.st_size - 3), 1);
	close(fd);
	build_one(accel);
	CHECK_EQUAL(calls("clCreateProgramWithSource"), compiled + 2);
	CHECK(!truncate(found.gl_pathv[0], first.st_size / 2));
	build_one(accel);
	CHECK(!truncate(found.gl_pathv[0], 0));
	build_one(accel);
	CHECK_EQUAL(calls("clCreateProgramWithSource"), compiled + 4);
	CHECK(!stat(found.gl_pathv[0], &second));
	CHECK_EQUAL(first.st_size, second.st_size);
	build_one(accel);
	CHECK_EQUAL(calls("clCreateProgramWithSource"), compiled + 4);
	globfree(&found);

	/* No cache to be had is no error. */
	setenv("XDG_CACHE_HOME", "/proc/1/nothing", 1);
	build_one(accel);
	unsetenv("XDG_CACHE_HOME");
	setenv("HOME", "relative", 1);
	build_one(accel);
	hm_accel_unref(accel);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	CHECK_EQUAL(system(command), 0);
}

/* Sources that may read files are compiled each time, as the files may have changed. */
static void includes_are_not_cached(void)
{
	static const struct {
		const char *source, *options;
		bool stored;
	} rows[] = {
		{ "#include \"a.h\"\n", NULL, false },
		{ "  # /* b */ include <a.h>\n", NULL, false },
		{ "%: include <a.h>\n", NULL, false },
		{ "#inc\\\nlu\\\r\nde <a.h>\n", NULL, false },
		{ "#import <a.h>\n", NULL, false },
		{ "", "-include a.h", false },
		{ "#define A 1\n", "-DB", true },
		{ "/* include, import and embed */\n", NULL, true },
	};
	struct hm_kernel_desc desc = { .struct_size = sizeof(desc), .name = "empty" };
	char folder[] = "/tmp/hetmap-cache-XXXXXX", command[600], source[128];
	unsigned int (*calls)(const char *function);
	unsigned int compiled;
	struct hm_accel *accel;
	size_t i;
	int k;

	CHECK_FATAL(mkdtemp(folder));
	setenv("XDG_CACHE_HOME", folder, 1);
	use_stub("");
	CHECK_OK_FATAL(hm_accel_open("opencl:0", NULL, &accel));
	calls = (unsigned int (*)(const char *))stub_symbol("stub_calls");
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		snprintf(source, sizeof(source), "%s__kernel void empty(void) { }",
			 rows[i].source);
		desc.opencl = source;
		desc.options = rows[i].options;
		compiled = calls("clCreateProgramWithSource");
		for (k = 0; k < 2; k++) {
			AUTO(hm_kernel) *kernel = rig_kernel(&desc);

			CHECK_OK(hm_kernel_build(kernel, accel));
		}
		compiled = calls("clCreateProgramWithSource") - compiled;
		if (compiled != (rows[i].stored ? 1 : 2))
			test_fail(__FILE__, __LINE__, "row %zu was compiled %u times", i,
				  compiled);
	}
	hm_accel_unref(accel);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	CHECK_EQUAL(system(command), 0);
}

/* Writes @value into the header, and returns the number that a kernel with this header stores. */
static uint32_t stored_by_header(struct accel_rig *rig, const char *folder, int value)
{
	struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = "f",
		.opencl = "#include \"value.h\"\n"
			  "__kernel void f(__global uint *p) { p[0] = VALUE; }",
	};
	uint32_t *p = alloc_bytes(rig, PAGE), found;
	char text[600];
	AUTO(hm_kernel) *kernel = NULL;
	AUTO(hm_fence) *fence = NULL;

	snprintf(text, sizeof(text), "echo '#define VALUE %d' >%s/value.h", value, folder);
	CHECK_EQUAL(system(text), 0);
	snprintf(text, sizeof(text), "-I %s", folder);
	desc.options = text;
	CHECK_OK_FATAL(hm_kernel_create(&desc, &kernel));
	CHECK_OK_FATAL(hm_launch(rig->queue, kernel, 1, &fence, HM_OUT(p)));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	found = p[0];
	CHECK_OK(hm_free(p));
	return found;
}

static void changed_header_on_pocl(void)
{
	char folder[] = "/tmp/hetmap-cache-XXXXXX", command[600];
	struct accel_rig rig;

	CHECK_FATAL(mkdtemp(folder));
	setenv("XDG_CACHE_HOME", folder, 1);
	rig = pocl_rig("basic", "opencl:0", 0, 0);
	CHECK_EQUAL(stored_by_header(&rig, folder, 5), 5);
	CHECK_EQUAL(stored_by_header(&rig, folder, 6), 6);
	accel_rig_close(&rig);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	CHECK_EQUAL(system(command), 0);
}

/* Builds with RLIMIT_FSIZE at @limit, beyond which a write would kill. */
static size_t files_within(struct hm_accel *accel, const char *folder, uint64_t limit)
{
	struct rlimit old, new;
	glob_t found;
	size_t n;

	CHECK_FATAL(!getrlimit(RLIMIT_FSIZE, &old));
	new = (struct rlimit){ limit, old.rlim_max };
	CHECK_FATAL(!setrlimit(RLIMIT_FSIZE, &new));
	build_one(accel);
	CHECK_FATAL(!setrlimit(RLIMIT_FSIZE, &old));
	in_cache(folder, "*.clbin", &found);
	n = found.gl_pathc;
	globfree(&found);
	return n;
}

static void cache_beyond_the_limit(void)
{
	char folder[] = "/tmp/hetmap-cache-XXXXXX", command[600];
	struct hm_accel *accel;
	struct stat stored;
	glob_t found;

	CHECK_FATAL(mkdtemp(folder));
	setenv("XDG_CACHE_HOME", folder, 1);
	signal(SIGXFSZ, SIG_DFL);
	use_stub("");
	CHECK_OK_FATAL(hm_accel_open("opencl:0", NULL, &accel));
	build_one(accel);
	in_cache(folder, "*.clbin", &found);
	CHECK_FATAL(found.gl_pathc == 1 && !stat(found.gl_pathv[0], &stored));
	CHECK(!unlink(found.gl_pathv[0]));
	globfree(&found);
	CHECK_EQUAL(files_within(accel, folder, 1), 0);
	CHECK_EQUAL(files_within(accel, folder, (uint64_t)stored.st_size - 1), 0);
	CHECK_EQUAL(files_within(accel, folder, (uint64_t)stored.st_size), 1);
	hm_accel_unref(accel);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	CHECK_EQUAL(system(command), 0);
}

/* A binary that PoCL gave back must still report its argument types. */
static void cached_kernel_on_pocl(void)
{
	char folder[] = "/tmp/hetmap-cache-XXXXXX", command[600];
	struct hm_fence *fence = NULL;
	struct accel_rig rig;
	glob_t found;
	uint32_t *p;
	int i;

	CHECK_FATAL(mkdtemp(folder));
	setenv("XDG_CACHE_HOME", folder, 1);
	if (!use_pocl("basic"))
		return;
	for (i = 0; i < 2; i++) {
		accel_rig_open(&rig, "opencl:0", 0, 0);
		p = alloc_bytes(&rig, PAGE);
		RUN(&rig, INCREMENT, 16, HM_INOUT(p));
		CHECK_EQUAL(p[15], 1);
		CHECK_ERROR(-EINVAL,
			    hm_launch(rig.queue, rig.kernel[INCREMENT], 16, &fence, HM_U32(1)));
		CHECK_OK(hm_free(p));
		accel_rig_close(&rig);
		in_cache(folder, "*.clbin", &found);
		CHECK_EQUAL(found.gl_pathc, 2); /* the kernel's and the self-test's */
		globfree(&found);
	}
	snprintf(command, sizeof(command), "rm -r %s", folder);
	CHECK_EQUAL(system(command), 0);
}

static const struct test tests[] = {
	{ "wrong_sources", wrong_sources, 60, 0 },
	{ "nothing_on_stderr", nothing_on_stderr, 60, TEST_ONCE },
	{ "kinds_from_the_driver", kinds_from_the_driver, 60, 0 },
	{ "groups_and_grids", groups_and_grids, 60, 0 },
	{ "binary_cache", binary_cache, 0, 0 },
	{ "includes_are_not_cached", includes_are_not_cached, 0, 0 },
	{ "changed_header_on_pocl", changed_header_on_pocl, 60, TEST_ONCE },
	{ "cache_beyond_the_limit", cache_beyond_the_limit, 0, 0 },
	/* PoCL keeps a cache of its own there, which it must not lose while it lives. */
	{ "cached_kernel_on_pocl", cached_kernel_on_pocl, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "opencl_build", tests)
