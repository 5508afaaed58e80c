/* SPDX-License-Identifier: MIT */
/* Engines for their tests: which there are, an opened one, kernels of its steps. */
#ifndef HETMAP_TESTS_ENGINE_SUPPORT_H
#define HETMAP_TESTS_ENGINE_SUPPORT_H

#include <hetmap/sim.h>

#include "accel/accel_support.h"

#define NONE HM_ENGINE_NONE

struct engine_subject {
	const char *title;    /* before the names of its tests */
	const char *name;     /* of device and accelerator */
	const char *settings; /* HETMAP_SOFT, or NULL */
};

/* The subject of the running test. */
extern const struct engine_subject *engine_subject;

/* main() of a program that runs each of @cases on each engine that is here. */
int engine_main(int argc, char **argv, const char *suite, const struct test *cases);

/* The subject's accelerator and device. */
struct engine_rig {
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_device *device; /* of the same name */
	struct hm_device *host;
	uint64_t align;
};

void engine_open(struct engine_rig *rig, uint32_t flags);
void engine_close(struct engine_rig *rig);

static inline struct engine_rig engine_make(uint32_t flags)
{
	struct engine_rig rig;

	engine_open(&rig, flags);
	return rig;
}

AUTO_END(engine_rig, engine_close)

void *engine_alloc(struct hm_device *device, uint64_t size);
void engine_random(unsigned char *bytes, uint64_t length, uint64_t *state);
/* On the rig's queue, or device where the kind is about all of it. */
void engine_inject(struct engine_rig *rig, uint32_t kind, uint64_t value);

struct hm_kernel *kernel_of_steps(const char *name, const char *signature,
				  const struct hm_engine_step *steps, uint32_t n);
/* One step of @op, with arguments "inout in in u64 u32": up to its length and value. */
struct hm_kernel *kernel_of_op(uint8_t op);

/* Fills: "out u64 u32", with length and word; and a launch of it. */
struct hm_kernel *kernel_of_fill(void);
int fill_launch(struct engine_rig *rig, struct hm_kernel *kernel, void *to, uint64_t length,
		uint32_t word, struct hm_fence **ret_fence);
struct hm_fence_info engine_fill(struct engine_rig *rig, struct hm_kernel *kernel, void *to,
				 uint64_t length, uint32_t word);

#define engine_run(rig, kernel, ...)                                                      \
	({                                                                                \
		struct hm_fence *fence_ = NULL;                                           \
		CHECK_OK_FATAL(hm_launch((rig)->queue, kernel, 1, &fence_, __VA_ARGS__)); \
		finish(fence_);                                                           \
	})

#endif
