/* SPDX-License-Identifier: MIT */
/* Shared by the tests of accelerators: kernels, an opened accelerator, drivers. */
#ifndef HETMAP_TESTS_ACCEL_SUPPORT_H
#define HETMAP_TESTS_ACCEL_SUPPORT_H

#include <hetmap/hetmap.h>

#include "lib/rig.h"
#include "lib/support.h"

enum { SAXPY, HISTOGRAM, FILL, INCREMENT, ADD_BYTES, WITH_LOCAL, EMPTY, KERNELS };

/* An accelerator, a queue, every kernel; host memory, or the engine's device. */
struct accel_rig {
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_device *host;
	struct hm_kernel *kernel[KERNELS];
};

/* In a test, before its first OpenCL call. False: the test was skipped. */
bool use_pocl(const char *devices); /* "pthread" or "basic" */
void use_stub(const char *modes);
/* A function of the stub driver, in this process. */
void *stub_symbol(const char *name);

void accel_rig_open(struct accel_rig *rig, const char *accel, uint32_t flags, uint64_t window);
void accel_rig_close(struct accel_rig *rig);

static inline struct accel_rig accel_rig_make(const char *accel, uint32_t flags,
					      uint64_t window)
{
	struct accel_rig rig;

	accel_rig_open(&rig, accel, flags, window);
	return rig;
}

AUTO_END(accel_rig, accel_rig_close)

/* After use_pocl(); the test ends where it is skipped. */
struct accel_rig pocl_rig(const char *devices, const char *accel, uint32_t flags,
			  uint64_t window);
/* After use_stub(). */
struct accel_rig stub_rig(const char *modes, uint32_t flags, uint64_t window);

/* Waits, checks the result, and drops the fence: the fence's report of the work. */
struct hm_fence_info finish(struct hm_fence *fence);
/* Launch and finish. */
#define RUN(rig, kernel_, n, ...)                                                            \
	({                                                                                   \
		struct hm_fence *fence_ = NULL;                                              \
		CHECK_OK_FATAL(hm_launch((rig)->queue, (rig)->kernel[kernel_], (n), &fence_, \
					 __VA_ARGS__));                                      \
		finish(fence_);                                                              \
	})

/* For "cpu" alone. */
struct hm_kernel *make_kernel(const char *name, const char *signature,
			      hm_cpu_function *function);
void *alloc_bytes(struct accel_rig *rig, uint64_t size);
uint32_t way_of(struct accel_rig *rig, const void *pointer, uint64_t length);
bool text_has(const char *part); /* hm_errmsg(), or after a success hm_warning() */

/* A fence for another side to signal: an eventfd, which does not wait. */
int event_open(void);
void event_signal(int fd);

#endif
