/* SPDX-License-Identifier: MIT */
/* The saxpy job: shared by its measured run and the run that loses its device. */
#ifndef HETMAP_SAXPY_H
#define HETMAP_SAXPY_H

#include "job.h"

#define SAXPY_A 2.0f

struct saxpy {
	struct job job;
	uint64_t size; /* bytes of each vector */
	struct hm_device *device;
	float *x;
	float *y;
	struct hm_kernel *kernel;
};

/* Whole numbers: exact after 1000 rounds, in whatever order it is rounded. */
static inline float saxpy_x_at(uint64_t i)
{
	return (float)(i % 1021);
}

static inline float saxpy_y_at(uint64_t i)
{
	return (float)(i % 509);
}

/* Both launch bytes [@offset, @offset + @length); a failure is not told. */
int saxpy_launch(struct saxpy *s, struct hm_queue *queue, uint64_t offset, uint64_t length,
		 struct hm_fence **ret_fence);

/*
 * One pass, in which the device is taken away when @percent of the work is done, with
 * a launch under way, and plugged in again. Returns an exit status.
 */
struct saxpy_loss {
	uint64_t percent;
	uint64_t done;            /* bytes of each vector, when it was taken away */
	uint64_t redone;          /* bytes in flight, which were done again */
	uint32_t in_flight_error; /* errno of the launch in flight; 0: success */
	double seconds;           /* from the loss until all is back */
	struct hm_recover_info info;
};

int saxpy_prepare_loss(const struct job_options *options);
int saxpy_lose(struct saxpy *s, struct saxpy_loss *loss);
void saxpy_loss_print(const struct saxpy *s, const struct saxpy_loss *loss);
json_t *saxpy_loss_json(const struct saxpy_loss *loss);

#endif
