// SPDX-License-Identifier: MIT
/* Programs whose memory an accelerator reaches by entries of its own. */
#include <stdint.h>
#include <sys/mman.h>

#include <hetmap/hetmap.h>

#include "perf/traced.h"
#include "lib/units.h"

/* Work at a time: shorter than an engine may take, on a slow machine, too. */
#define PIECE (2048 * PAGE)

struct job {
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_kernel *kernel;
	char *bytes;
};

/* bytes = value */
static const struct hm_engine_step step = {
	.op = HM_ENGINE_FILL,
	.destination = 1,
	.source = HM_ENGINE_NONE,
	.source2 = HM_ENGINE_NONE,
	.length = HM_ENGINE_NONE,
	.value = 0,
};

/* Entries of one page each, which no prefetch of the engine's own makes. */
static int begin(struct job *job)
{
	const struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = "filled",
		.signature = "u32 out",
		.engine = &step,
		.n_engine = 1,
	};
	size_t i;

	job->bytes = traced_memory(TRACED_PAGES * PAGE, MADV_NOHUGEPAGE);
	for (i = 0; i < TRACED_PAGES; i++)
		job->bytes[i * PAGE] = 1;
	return hm_accel_open("soft:0", NULL, &job->accel) ||
	       hm_queue_create(job->accel, 0, &job->queue) ||
	       hm_kernel_create(&desc, &job->kernel) ||
	       hm_range_learn(job->accel, 16 * PAGE, 0) ||
	       hm_range_advise(job->bytes, TRACED_PAGES * PAGE, job->accel, HM_RANGE_GRANULE,
			       PAGE);
}

static int work(struct job *job)
{
	struct hm_fence *fence;
	size_t at;
	int r = 0;

	for (at = 0; at < TRACED_PAGES * PAGE && !r; at += PIECE) {
		r = hm_launch(job->queue, job->kernel, PIECE / 4, &fence, HM_U32(2),
			      HM_ANY(job->bytes + at, PIECE, HM_READ | HM_WRITE));
		if (r)
			return r;
		r = hm_fence_wait(fence, UINT64_MAX);
		hm_fence_unref(fence);
	}
	return r;
}

static int end(struct job *job)
{
	hm_kernel_unref(job->kernel);
	hm_queue_unref(job->queue);
	hm_accel_unref(job->accel);
	return 0;
}

int traced_device_faults(void)
{
	struct job job;

	return begin(&job) || work(&job) || end(&job);
}

int traced_device_prefetched(void)
{
	struct job job;

	return begin(&job) ||
	       hm_range_prefetch(job.bytes, TRACED_PAGES * PAGE, job.accel, HM_READ | HM_WRITE,
				 NULL) ||
	       work(&job) || end(&job);
}
