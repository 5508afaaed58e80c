// SPDX-License-Identifier: MIT
/*
 * hetmap run saxpy --unplug-at: the device is taken away under the job, comes back, and
 * the job goes on: y from its shadow, x computed again, the launch under way repeated.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hetmap/sim.h>
#include <uapi/hetsim.h>

#include "common/command.h"
#include "common/text.h"
#include "saxpy.h"

/* A launch is a hundredth, so that each percent is one. */
#define PARTS 100

/* Whether the device may be taken away is a setting, read when it is opened. */
int saxpy_prepare_loss(const struct job_options *options)
{
	const char *name = options->device, *old = getenv("HETMAP_SOFT");
	char *settings;

	if (!name || (strncmp(name, "soft", 4) != 0 && strncmp(name, "sim", 3) != 0))
		return fail(STATUS_USAGE, EINVAL, "--device soft:0, or sim:0",
			    "run: --unplug-at takes a simulated device away");
	if (strncmp(name, "soft", 4) != 0)
		return 0;
	settings = text_format("%s%stest=1", old ? old : "", old && *old ? " " : "");
	setenv("HETMAP_SOFT", settings, 1);
	free(settings);
	return 0;
}

/* ---- recovery ---- */

static int refill_x(struct hm_buffer *buffer, void *bytes, uint64_t offset, uint64_t length,
		    void *user)
{
	uint64_t i, first = offset / sizeof(float);
	float *x = bytes;

	(void)buffer, (void)user;
	for (i = 0; i < length / sizeof(float); i++)
		x[i] = saxpy_x_at(first + i);
	return 0;
}

static int set_policies(struct saxpy *s)
{
	/* Bytes that can be computed again take no memory meanwhile. */
	const struct hm_loss_desc of_x = {
		.struct_size = sizeof(of_x),
		.policy = HM_LOSS_RECREATE,
		.refill = refill_x,
	};
	const struct hm_loss_desc of_y = {
		.struct_size = sizeof(of_y),
		.policy = HM_LOSS_SHADOW,
	};
	struct hm_pointer_info x, y;
	int r;

	r = hm_pointer_find(s->x, &x);
	if (!r)
		r = hm_pointer_find(s->y, &y);
	if (!r)
		r = hm_buffer_set_loss(x.buffer, &of_x);
	if (!r)
		r = hm_buffer_set_loss(y.buffer, &of_y);
	return r ? fail_library(STATUS_ENVIRONMENT, r, job_less(r, "choose a smaller --size"),
				"no shadow can be kept") :
		   0;
}

/* ---- taking it away ---- */

static int plug(const struct saxpy *s)
{
	int r = hm_sim_plug(s->job.device);

	return r ? fail_library(STATUS_ENVIRONMENT, r, NULL, "the device does not come back") :
		   0;
}

static int unplug(struct saxpy *s)
{
	struct hetsim_inject inject = {
		.size = sizeof(inject),
		.kind = HETSIM_INJECT_UNPLUG,
	};
	int r = hm_sim_call(s->device, HETSIM_INJECT, &inject);

	return r ? fail_library(STATUS_ENVIRONMENT, r,
				"for sim: root, and the module's parameter test=1",
				"the device can't be taken away") :
		   0;
}

/* The work in flight may have been done in part: begin it anew. */
static int begin_anew(struct saxpy *s, uint64_t offset, uint64_t length)
{
	uint64_t i, first = offset / sizeof(float);
	struct hm_pointer_info found;
	int r;

	if (!length)
		return 0;
	r = hm_pointer_find(s->y, &found);
	if (!r)
		r = hm_map_begin_cpu(found.map, offset, length, HM_WRITE);
	if (r)
		return fail_library(STATUS_WRONG, r, NULL,
				    "the buffers that came back can't be used");
	for (i = first; i < first + length / sizeof(float); i++)
		s->y[i] = saxpy_y_at(i);
	r = hm_map_end_cpu(found.map, offset, length, HM_WRITE);
	return r ? fail_library(STATUS_WRONG, r, NULL,
				"the buffers that came back can't be used") :
		   0;
}

/* With work under way on [@offset, @offset + @length), if it is not all done. */
static int lose(struct saxpy *s, struct job_side *side, uint64_t offset, uint64_t length,
		struct saxpy_loss *loss)
{
	struct hm_fence *fence = NULL;
	double begin;
	int r = 0, status;

	if (length)
		r = saxpy_launch(s, side->queue, offset, length, &fence);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, NULL, "cannot launch the kernel");
	begin = job_now();
	status = unplug(s);
	if (fence)
		loss->in_flight_error = (uint32_t)-hm_fence_wait(fence, UINT64_MAX);
	hm_fence_unref(fence);
	if (!status)
		status = plug(s);
	if (status)
		return status;
	loss->info.struct_size = sizeof(loss->info);
	r = hm_device_recover(s->device, HM_RECOVER_SHADOWED, &loss->info);
	if (!r && loss->info.buffers_left)
		r = loss->info.error;
	if (r)
		return fail_library(STATUS_WRONG, r, NULL, "some buffers did not come back");
	loss->seconds = job_now() - begin;
	loss->done = offset;
	loss->redone = length;
	return begin_anew(s, offset, length);
}

/* ---- the pass ---- */

static uint64_t part_of(const struct saxpy *s)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t part = (s->size / PARTS + page - 1) / page * page;

	/* Data of fewer bytes than parts is one part. */
	if (!part)
		part = page;
	return s->job.window && part > s->job.window ? s->job.window : part;
}

int saxpy_lose(struct saxpy *s, struct saxpy_loss *loss)
{
	uint64_t at = s->size / 100 * loss->percent + s->size % 100 * loss->percent / 100;
	uint64_t part = part_of(s), offset = 0, end;
	struct job_side *side = &s->job.in_place;
	struct hm_fence *fence;
	bool lost = false;
	int r, status;

	status = set_policies(s);
	progress_begin("one pass", 2 * s->size);
	while (!status && (offset < s->size || !lost)) {
		end = offset + part;
		if (end > s->size)
			end = s->size;
		/* Launches don't reach across windows. */
		if (s->job.window && end > offset - offset % s->job.window + s->job.window)
			end = offset - offset % s->job.window + s->job.window;
		if (!lost && (offset >= at || offset == s->size)) {
			status = lose(s, side, offset, end - offset, loss);
			lost = true;
			continue;
		}
		r = saxpy_launch(s, side->queue, offset, end - offset, &fence);
		if (r)
			return fail_library(STATUS_WRONG, r, NULL, "cannot launch the kernel");
		status = job_wait(fence, 2 * (end - offset), &s->job.pass);
		offset = end;
	}
	progress_end();
	s->job.passes = 1;
	return status;
}

/* ---- result ---- */

void saxpy_loss_print(const struct saxpy *s, const struct saxpy_loss *loss)
{
	char done[TEXT_MAX], shadow[TEXT_MAX], refilled[TEXT_MAX], redone[TEXT_MAX];
	char seconds[TEXT_MAX];

	printf("  accelerator  %s\n", s->job.in_place.info.name);
	printf("  device       %s\n", s->job.device);
	printf("  taken away   at %" PRIu64 "%% of the work, %s of each vector%s\n",
	       loss->percent, text_bytes(loss->done, done),
	       loss->redone ? ", with a launch under way" : "");
	if (loss->in_flight_error)
		printf("               the launch under way ended with %s\n",
		       strerror((int)loss->in_flight_error));
	text_seconds(loss->seconds, seconds);
	printf("  came back    %" PRIu32 " buffers at the same addresses, %s after the loss\n",
	       loss->info.buffers_back, seconds);
	printf("               y: %s from its shadow; x: %s computed again\n",
	       text_bytes(loss->info.bytes_shadow, shadow),
	       text_bytes(loss->info.bytes_refilled, refilled));
	printf("  done again   %s of each vector\n", text_bytes(loss->redone, redone));
}

json_t *saxpy_loss_json(const struct saxpy_loss *loss)
{
	return json_pack("{s:I, s:I, s:I, s:i, s:i, s:i, s:i, s:I, s:I, s:f}", "at_percent",
			 (json_int_t)loss->percent, "bytes_done", (json_int_t)loss->done,
			 "bytes_redone", (json_int_t)loss->redone, "in_flight_errno",
			 (int)loss->in_flight_error, "generation", (int)loss->info.generation,
			 "buffers_back", (int)loss->info.buffers_back, "maps_back",
			 (int)loss->info.maps_back, "bytes_shadow",
			 (json_int_t)loss->info.bytes_shadow, "bytes_refilled",
			 (json_int_t)loss->info.bytes_refilled, "seconds", loss->seconds);
}
