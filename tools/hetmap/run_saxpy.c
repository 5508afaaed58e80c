// SPDX-License-Identifier: MIT
/*
 * hetmap run saxpy: y = a * x + y on two vectors of a device's memory. The
 * numbers are small integers, so that every pass has one exact result.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"
#include "common/machine.h"
#include "common/text.h"
#include "run_pointer.h"
#include "saxpy.h"

#define SIZE_DEFAULT (256ull << 20)
static const char source[] =
	"__kernel void saxpy(float a, __global const float *x, __global float *y)\n"
	"{\n"
	"	const size_t i = get_global_id(0);\n"
	"\n"
	"	y[i] = a * x[i] + y[i];\n"
	"}\n";

static int saxpy_cpu(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	const float a = args[0].f32;
	const float *x = args[1].pointer;
	float *y = (float *)args[2].pointer;
	uint64_t i;

	for (i = range->begin[0]; i < range->end[0]; i++)
		y[i] = a * x[i] + y[i];
	return 0;
}

static int fill(struct saxpy *s)
{
	uint64_t n = s->size / sizeof(float), i, end;

	progress_begin("filling", 2 * s->size);
	for (i = 0; i < n;) {
		for (end = n - i < 1u << 22 ? n : i + (1u << 22); i < end; i++) {
			s->x[i] = saxpy_x_at(i);
			s->y[i] = saxpy_y_at(i);
		}
		progress_add(2 * sizeof(float) << 22);
		if (signals_pending())
			return 128 + signals_pending();
	}
	progress_end();
	return 0;
}

/* Every element, after @passes. */
static int verify(const struct saxpy *s, uint64_t passes)
{
	uint64_t n = s->size / sizeof(float), i, end;

	progress_begin("checking on the CPU", s->size);
	for (i = 0; i < n;) {
		for (end = n - i < 1u << 22 ? n : i + (1u << 22); i < end; i++) {
			float expected =
				saxpy_y_at(i) + (float)passes * (SAXPY_A * saxpy_x_at(i));

			if (s->y[i] != expected)
				return fail(STATUS_WRONG, EIO, NULL,
					    "wrong result: y[%" PRIu64
					    "] is %.9g after %" PRIu64
					    " pass%s, and should be %.9g",
					    i, (double)s->y[i], passes, passes == 1 ? "" : "es",
					    (double)expected);
		}
		progress_add(sizeof(float) << 22);
		if (signals_pending())
			return 128 + signals_pending();
	}
	progress_end();
	return 0;
}

static int verify_first(void *user)
{
	return verify(user, 1);
}

int saxpy_launch(struct saxpy *s, struct hm_queue *queue, uint64_t offset, uint64_t length,
		 struct hm_fence **ret_fence)
{
	return hm_launch(queue, s->kernel, length / sizeof(float), ret_fence, HM_F32(SAXPY_A),
			 HM_RANGE((char *)s->x + offset, length, HM_READ),
			 HM_RANGE((char *)s->y + offset, length, HM_READ | HM_WRITE));
}

static int saxpy_pass(void *user, struct job_side *side, struct job_pass *ret_pass)
{
	struct saxpy *s = user;
	uint64_t offset, end, length;
	struct hm_fence *fence;
	int r, status;

	for (offset = 0; offset < s->size; offset = end) {
		end = job_slice_end(&s->job, offset, s->size);
		length = end - offset;
		r = saxpy_launch(s, side->queue, offset, length, &fence);
		if (r)
			return fail_library(STATUS_ENVIRONMENT, r, NULL,
					    "cannot launch the kernel");
		status = job_wait(fence, 2 * length, ret_pass);
		if (status)
			return status;
	}
	return 0;
}

static int allocate(struct saxpy *s, const char *name)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	char size[TEXT_MAX];
	struct hm_device *device;
	char *what;
	int r;

	r = hm_device_open(name, &device);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, "hetmap devices lists the devices",
				    "cannot open the device");
	r = hm_device_query(device, &info);
	if (!r && !(info.caps & HM_CAP_CREATE)) {
		hm_device_unref(device);
		return fail(STATUS_USAGE, EOPNOTSUPP, "--device host",
			    "run: saxpy makes its data, and device %s creates none", info.name);
	}
	snprintf(s->job.device, sizeof(s->job.device), "%s", info.name);
	if (!r && machine_check_memory(2 * s->size, "choose a smaller --size")) {
		hm_device_unref(device);
		return STATUS_ENVIRONMENT;
	}
	if (!r)
		r = hm_alloc(device, s->size, HM_READ | HM_WRITE, &s->x);
	if (!r)
		r = hm_alloc(device, s->size, HM_READ | HM_WRITE, &s->y);
	s->device = device;
	if (!r)
		return 0;
	what = text_format("cannot make two vectors of %s", text_bytes(s->size, size));
	fail_library(STATUS_ENVIRONMENT, r, job_less(r, "choose a smaller --size"), what);
	free(what);
	return STATUS_ENVIRONMENT;
}

static int compute(struct saxpy *s, struct saxpy_loss *loss)
{
	struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = "saxpy",
		.opencl = source,
		.cpu = saxpy_cpu,
		.signature = "f32 in inout",
	};
	uint32_t way;
	int r, status;

	r = hm_kernel_create(&desc, &s->kernel);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, NULL, "no kernel");
	status = job_build(&s->job, s->kernel);
	if (status)
		return status;
	r = hm_accel_way_in(s->job.in_place.accel, s->x, job_slice_end(&s->job, 0, s->size),
			    &way);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, NULL,
				    "the accelerator can't reach the bytes");
	if (way == HM_WAY_COPY)
		s->job.reason = strdup(hm_warning());
	status = fill(s);
	if (!status && loss)
		status = saxpy_lose(s, loss);
	else if (!status)
		status = job_measure(&s->job, 2 * s->size, saxpy_pass, verify_first, s);
	if (!status)
		status = verify(s, s->job.passes);
	return status;
}

/* ---- result ---- */

/* x and y are read, y is written. */
static double rate(const struct saxpy *s, double seconds)
{
	return seconds > 0 ? 3.0 * (double)s->size / seconds / 1e9 : 0;
}

static void print(const struct saxpy *s, const struct saxpy_loss *loss)
{
	char bytes[TEXT_MAX], count[TEXT_MAX];
	json_t *object;

	if (!output.json) {
		printf("saxpy: y = a * x + y, %s float%s, two vectors of %s\n\n",
		       text_count(s->size / sizeof(float), count),
		       s->size == sizeof(float) ? "" : "s", text_bytes(s->size, bytes));
		if (loss)
			saxpy_loss_print(s, loss);
		else
			job_print(&s->job, 3 * s->size);
		puts("  verified     every element of y, by the CPU");
		return;
	}
	object = json_object();
	json_object_set_new(object, "job", json_string("saxpy"));
	json_object_set_new(object, "bytes", json_integer((json_int_t)(2 * s->size)));
	job_json(&s->job, object);
	if (loss) {
		/* One pass, which a loss interrupts, is not measured. */
		json_object_del(object, "seconds");
		json_object_del(object, "rounds");
		json_object_del(object, "faults");
		json_object_set_new(object, "unplugged", saxpy_loss_json(loss));
	} else {
		json_object_set_new(
			object, "gigabytes_per_second",
			json_pack("{s:f, s:o}", "in_place", rate(s, s->job.in_place.seconds),
				  "with_copies",
				  s->job.copies.accel ?
					  json_real(rate(s, s->job.copies.seconds)) :
					  json_null()));
	}
	json_object_set_new(object, "verified", json_true());
	output_object(object);
}

int run_saxpy(const struct job_options *options)
{
	struct saxpy s = { .size = options->size ? options->size : SIZE_DEFAULT };
	struct saxpy_loss at = { .percent = options->unplug_at };
	struct saxpy_loss *loss = options->unplug ? &at : NULL;
	int status;

	if (options->pointer)
		return run_pointer(options);
	status = loss ? saxpy_prepare_loss(options) : 0;
	if (!status)
		status = job_open(&s.job, options);
	if (status)
		return status;
	status = allocate(&s, options->device);
	if (!status)
		status = compute(&s, loss);
	progress_end();
	if (!status)
		print(&s, loss);
	hm_kernel_unref(s.kernel);
	hm_free(s.x);
	hm_free(s.y);
	hm_device_unref(s.device);
	job_close(&s.job);
	return status;
}
