// SPDX-License-Identifier: MIT
/* Kernels in their forms, and how a test gets an accelerator. */
#include "accel/accel_support.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int saxpy(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	const float *x = args[1].pointer;
	float *y = (float *)(uintptr_t)args[2].pointer, a = args[0].f32;
	uint64_t i;

	for (i = range->begin[0]; i < range->end[0]; i++)
		y[i] += a * x[i];
	return 0;
}

static int histogram(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	const unsigned char *bytes = args[0].pointer;
	uint32_t *counts = (uint32_t *)(uintptr_t)args[1].pointer;
	uint64_t i;

	for (i = range->begin[0]; i < range->end[0]; i++)
		__atomic_fetch_add(&counts[bytes[i]], 1, __ATOMIC_RELAXED);
	return 0;
}

static int fill(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	uint32_t *to = (uint32_t *)(uintptr_t)args[0].pointer;
	uint64_t i;

	for (i = range->begin[0]; i < range->end[0]; i++)
		to[i] = args[1].u32;
	return 0;
}

static int increment(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	uint32_t *p = (uint32_t *)(uintptr_t)args[0].pointer;
	uint64_t i;

	for (i = range->begin[0]; i < range->end[0]; i++)
		p[i]++;
	return 0;
}

static int add_bytes(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	unsigned char *p = (unsigned char *)(uintptr_t)args[0].pointer;
	uint64_t i;

	for (i = range->begin[0]; i < range->end[0]; i++)
		p[i] = (unsigned char)(p[i] + args[1].u32);
	return 0;
}

static int nothing(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range;
	(void)args;
	return 0;
}

#define NONE HM_ENGINE_NONE

/* Words instead of floats, for launches that are refused. */
static const struct hm_engine_step axpy = { HM_ENGINE_AXPY, 2, 1, NONE, NONE, 0, 0 };
static const struct hm_engine_step fill_step = { HM_ENGINE_FILL, 0, NONE, NONE, NONE, 1, 0 };
static const struct hm_engine_step zero = { HM_ENGINE_FILL, 0, NONE, NONE, NONE, NONE, 0 };
static const struct hm_engine_step no_step = {
	HM_ENGINE_NOTHING, NONE, NONE, NONE, NONE, NONE, 0
};

static const struct {
	const char *name, *signature, *opencl;
	hm_cpu_function *cpu;
	const struct hm_engine_step *engine; /* one; NULL: none does that */
} kernels[KERNELS] = {
	[SAXPY] = { "saxpy", "f32 in inout",
		    "__kernel void saxpy(float a, __global const float *x, __global float *y)\n"
		    "{ size_t i = get_global_id(0); y[i] += a * x[i]; }\n",
		    saxpy, &axpy },
	[HISTOGRAM] = { "histogram", "in inout",
			"__kernel void histogram(__global const uchar *b, __global uint *n)\n"
			"{ atomic_inc(&n[b[get_global_id(0)]]); }\n",
			histogram, NULL },
	[FILL] = { "fill", "out u32",
		   "__kernel void fill(__global uint *p, uint v)\n"
		   "{ p[get_global_id(0)] = v; }\n",
		   fill, &fill_step },
	[INCREMENT] = { "increment", "inout",
			"__kernel void increment(__global uint *p)\n"
			"{ p[get_global_id(0)]++; }\n",
			increment, NULL },
	[ADD_BYTES] = { "add_bytes", "inout u32",
			"__kernel void add_bytes(__global uchar *p, uint v)\n"
			"{ p[get_global_id(0)] += (uchar)v; }\n",
			add_bytes, NULL },
	[WITH_LOCAL] = { "with_local", "out local",
			 "__kernel void with_local(__global uint *p, __local uint *l)\n"
			 "{ size_t i = get_global_id(0); l[0] = 1;\n"
			 "  barrier(CLK_LOCAL_MEM_FENCE); p[i] = l[0]; }\n",
			 nothing, &zero },
	[EMPTY] = { "empty", "", "__kernel void empty(void) { }\n", nothing, &no_step },
};

/* Beside the program: the tests' folder of this build. */
static void stub_path(char *path, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", path, size - 16);
	char *slash;

	CHECK_FATAL(n > 0);
	path[n] = '\0';
	slash = strrchr(path, '/');
	strcpy(slash + 1, "stub_icd.so");
}

void use_stub(const char *modes)
{
	char path[4096];

	stub_path(path, sizeof(path));
	setenv("OCL_ICD_VENDORS", path, 1);
	setenv("HETMAP_STUB", modes, 1);
}

void *stub_symbol(const char *name)
{
	char path[4096];
	void *library, *symbol;

	stub_path(path, sizeof(path));
	library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	CHECK_FATAL(library);
	symbol = dlsym(library, name);
	CHECK_FATAL(symbol);
	dlclose(library);
	return symbol;
}

bool use_pocl(const char *devices)
{
	struct hm_accel_info infos[8];
	uint32_t n, i;

	if (TEST_ASAN || TEST_TSAN) {
		test_skip("sanitizer", "PoCL is not built for sanitizers");
		return false;
	}
	setenv("POCL_DEVICES", devices, 1);
	infos[0].struct_size = sizeof(infos[0]);
	CHECK_OK_FATAL(hm_accel_list(infos, 8, &n));
	for (i = 0; i < n && i < 8; i++)
		if (!strcmp(infos[i].driver, "Portable Computing Language"))
			return true;
	test_skip("opencl", "PoCL with the driver %s has no device here", devices);
	return false;
}

void accel_rig_open(struct accel_rig *rig, const char *accel, uint32_t flags, uint64_t window)
{
	const struct hm_accel_desc desc = { sizeof(desc), flags, window };
	struct hm_accel_info info = { .struct_size = sizeof(info) };
	uint32_t i;

	memset(rig, 0, sizeof(*rig));
	CHECK_OK_FATAL(hm_accel_open(accel, &desc, &rig->accel));
	CHECK_OK_FATAL(hm_queue_create(rig->accel, 0, &rig->queue));
	CHECK_OK_FATAL(hm_accel_query(rig->accel, &info));
	CHECK_OK_FATAL(
		hm_device_open(info.kind == HM_ACCEL_ENGINE ? accel : "host", &rig->host));
	for (i = 0; i < KERNELS; i++) {
		const struct hm_kernel_desc kernel = {
			.struct_size = sizeof(kernel),
			.name = kernels[i].name,
			.opencl = kernels[i].opencl,
			.cpu = kernels[i].cpu,
			.signature = kernels[i].signature,
			.engine = kernels[i].engine,
			.n_engine = kernels[i].engine ? 1 : 0,
		};

		CHECK_OK_FATAL(hm_kernel_create(&kernel, &rig->kernel[i]));
	}
}

void accel_rig_close(struct accel_rig *rig)
{
	uint32_t i;

	hm_queue_unref(rig->queue);
	hm_accel_unref(rig->accel);
	for (i = 0; i < KERNELS; i++)
		hm_kernel_unref(rig->kernel[i]);
	hm_device_unref(rig->host);
}

struct accel_rig pocl_rig(const char *devices, const char *accel, uint32_t flags,
			  uint64_t window)
{
	if (!use_pocl(devices))
		test_abandon();
	return accel_rig_make(accel, flags, window);
}

struct accel_rig stub_rig(const char *modes, uint32_t flags, uint64_t window)
{
	use_stub(modes);
	return accel_rig_make("opencl:0", flags, window);
}

struct hm_fence_info finish(struct hm_fence *fence)
{
	struct hm_fence_info info = { .struct_size = sizeof(info) };

	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	CHECK_OK(hm_fence_query(fence, &info));
	CHECK_EQUAL(info.done, 1);
	hm_fence_unref(fence);
	return info;
}

struct hm_kernel *make_kernel(const char *name, const char *signature,
			      hm_cpu_function *function)
{
	return rig_kernel(
		DESC(hm_kernel_desc, .name = name, .cpu = function, .signature = signature));
}

void *alloc_bytes(struct accel_rig *rig, uint64_t size)
{
	void *bytes = NULL;

	CHECK_OK_FATAL(hm_alloc(rig->host, size, HM_READ | HM_WRITE, &bytes));
	return bytes;
}

uint32_t way_of(struct accel_rig *rig, const void *pointer, uint64_t length)
{
	uint32_t way = HM_WAY_NONE;

	CHECK_OK(hm_accel_way_in(rig->accel, pointer, length, &way));
	return way;
}

bool text_has(const char *part)
{
	if (strstr(*hm_errmsg() ? hm_errmsg() : hm_warning(), part))
		return true;
	printf("    hm_errmsg() is \"%s\", without \"%s\"\n", hm_errmsg(), part);
	return false;
}

int event_open(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	CHECK_FATAL(fd >= 0);
	return fd;
}

void event_signal(int fd)
{
	const uint64_t one = 1;

	CHECK_EQUAL(write(fd, &one, sizeof(one)), sizeof(one));
}
