// SPDX-License-Identifier: MIT
/* The main thread of the pipeline: opening, the sink, the end. */
#include "pipeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/command.h"
#include "common/text.h"

#define PATIENCE_SECONDS 2 /* from a signal on */

double pipeline_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

const char *pipeline_policy_name(uint32_t policy)
{
	static const char *const names[] = {
		[POLICY_WAIT] = "wait",
		[POLICY_DROP_OLDEST] = "drop-oldest",
		[POLICY_DROP_NEWEST] = "drop-newest",
	};

	return policy < sizeof(names) / sizeof(names[0]) ? names[policy] : NULL;
}

void pipeline_stop(struct pipeline *p)
{
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

/* ---- the sink ---- */

static void note_latency(struct pipeline *p, double seconds)
{
	if (p->n_latency == p->latency_room) {
		uint64_t room = p->latency_room ? 2 * p->latency_room : 1024;
		double *more = realloc(p->latencies, room * sizeof(*more));

		if (!more)
			return;
		p->latencies = more;
		p->latency_room = room;
	}
	p->latencies[p->n_latency++] = seconds;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double pipeline_latency(struct pipeline *p, double part)
{
	uint64_t at;

	if (!p->n_latency)
		return 0;
	qsort(p->latencies, p->n_latency, sizeof(*p->latencies), compare);
	at = (uint64_t)(part * (double)p->n_latency);
	return p->latencies[at < p->n_latency ? at : p->n_latency - 1];
}

/* 0, the error of the work, or -ECANCELED: a signal came. */
static int wait_for(struct hm_fence *fence)
{
	int r;

	do {
		r = hm_fence_wait(fence, PIPELINE_LOOK_NS);
	} while (r == -ETIME && !signals_pending());
	return r == -ETIME ? -ECANCELED : r;
}

/* Waits for the conversion, and gives the picture to the sink. */
static int finish(struct pipeline *p, struct converted *converted)
{
	struct hm_fence_info info = { .struct_size = sizeof(info) };
	int r, status;

	/* A picture that is shown as it is has no fence. */
	r = converted->fence ? wait_for(converted->fence) : 0;
	picture_meets(converted->picture, MOMENT_CONVERTED);
	if (!r && converted->fence)
		r = hm_fence_query(converted->fence, &info);
	if (r == -ECANCELED) {
		status = 128 + signals_pending();
	} else if (r) {
		status =
			fail_library(STATUS_WRONG, r, NULL, "the accelerator failed under way");
	} else {
		p->bytes_converted += info.bytes_copied;
		if (info.way_in > p->way_in)
			p->way_in = info.way_in;
		picture_meets(converted->picture, MOMENT_SINK);
		status = sink_take(&p->sink, converted->frame, converted->decoder,
				   converted->number);
		picture_meets(converted->picture, MOMENT_END);
	}
	if (!status) {
		p->pictures++;
		note_latency(p, pipeline_now() - (double)converted->decoded_ns / 1e9);
	}
	hm_fence_unref(converted->fence);
	hm_frame_unref(converted->frame);
	return status;
}

/* The next picture; false: none comes any more, or none came within PIPELINE_LOOK_NS. */
static bool take(struct pipeline *p, struct converted *ret_converted, bool *ret_over)
{
	struct timespec until;
	bool got;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += (long)PIPELINE_LOOK_NS;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_mutex_lock(&p->lock);
	if (!p->n_converted && p->n_running)
		pthread_cond_timedwait(&p->changed, &p->lock, &until);
	got = p->n_converted;
	if (got) {
		*ret_converted = p->converted[p->first];
		p->first = (p->first + 1) % QUEUE_MOST;
		p->n_converted--;
		pthread_cond_broadcast(&p->changed);
	}
	*ret_over = !got && !p->n_running;
	pthread_mutex_unlock(&p->lock);
	return got;
}

/* Ends when all decoders have, and nothing is left of theirs. */
static int consume(struct pipeline *p)
{
	struct converted converted;
	double stopped = 0;
	bool over = false;
	int status = 0;

	while (!over) {
		if (take(p, &converted, &over)) {
			/* After a failure the rest only goes back. */
			if (!status) {
				status = finish(p, &converted);
			} else {
				hm_fence_unref(converted.fence);
				hm_frame_unref(converted.frame);
			}
		}
		live_line(p);
		if (!status && signals_pending())
			status = 128 + signals_pending();
		if (status && !stopped) {
			pipeline_stop(p);
			stopped = pipeline_now();
		}
		/* A decoder may be waiting for bytes of a pipe that no one writes. */
		if (signals_pending() && pipeline_now() - stopped > PATIENCE_SECONDS)
			signals_end_at_once(true);
	}
	live_line_end();
	return status;
}

static int start(struct pipeline *p)
{
	unsigned int i;
	int error;

	for (i = 0; i < p->options->decoders; i++) {
		struct producer *producer = &p->producer[i];

		pthread_mutex_lock(&p->lock);
		p->n_running++;
		pthread_mutex_unlock(&p->lock);
		error = pthread_create(&producer->thread, NULL, producer_run, producer);
		if (error) {
			pthread_mutex_lock(&p->lock);
			p->n_running--;
			pthread_mutex_unlock(&p->lock);
			pipeline_stop(p);
			return fail(STATUS_ENVIRONMENT, error, NULL,
				    "cannot start a thread for decoder %u", i + 1);
		}
		producer->running = true;
	}
	return 0;
}

/* Exit status of a failure to open. Later, -EINVAL means that pictures outgrew shared frames. */
static int status_of(int r)
{
	switch (-r) {
	case EBADMSG:
	case EIO:
	case ENODEV:
		return STATUS_WRONG;
	case ENOENT:
	case ENOTDIR:
	case EISDIR:
	case ELOOP:
	case ENAMETOOLONG:
	case EINVAL:
		return STATUS_USAGE;
	default:
		return STATUS_ENVIRONMENT;
	}
}

static void sum_up(struct pipeline *p)
{
	struct hm_video_info info;
	unsigned int i;

	for (i = 0; i < p->options->decoders; i++) {
		info.struct_size = sizeof(info);
		if (hm_video_query(p->producer[i].video, &info))
			continue;
		p->bytes_decoded += info.bytes_copied;
		p->dropped += info.dropped;
		p->repeated += info.repeated;
		if (!i)
			p->video_info = info;
	}
	pthread_mutex_lock(&p->lock);
	pipeline_note_results(p);
	pthread_mutex_unlock(&p->lock);
	p->source_info.struct_size = sizeof(p->source_info);
	if (p->sink.display) {
		display_query(p->sink.display, &p->display_info);
		p->results_peak = p->display_info.frames;
		p->results_bytes = p->display_info.bytes;
	}
	if (!p->source && hm_video_pool(p->producer[0].video, &p->source))
		return;
	hm_frame_pool_query(p->source, &p->source_info);
}

int pipeline_run(struct pipeline *p)
{
	unsigned int i;
	int status, late;

	p->begin = pipeline_now();
	status = start(p);
	late = consume(p);
	for (i = 0; i < p->options->decoders; i++)
		if (p->producer[i].running)
			pthread_join(p->producer[i].thread, NULL);
	p->end = pipeline_now();
	if (!status)
		status = late;
	if (!status && p->error)
		status = fail(p->error == -EINVAL ? STATUS_ENVIRONMENT : status_of(p->error),
			      p->error, NULL, "%s (%llu picture%s done)", p->text,
			      (unsigned long long)p->pictures, p->pictures == 1 ? "" : "s");
	sum_up(p);
	return status;
}

/* ---- opening ---- */

static int open_accel(struct pipeline *p)
{
	const char *name = p->options->accel;
	int r;

	r = hm_accel_open(name ? name : "opencl:0", NULL, &p->accel);
	if (r == -ENODEV && !name) {
		remark("no OpenCL device here: running on the CPU (see hetmap doctor)");
		r = hm_accel_open("cpu", NULL, &p->accel);
	}
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r,
				    "hetmap devices lists the accelerators",
				    "cannot open the accelerator");
	p->accel_info.struct_size = sizeof(p->accel_info);
	r = hm_accel_query(p->accel, &p->accel_info);
	if (!r)
		r = hm_queue_create(p->accel, 0, &p->queue);
	if (!r)
		r = convert_create(&p->kernel);
	/* XRGB8888 is copied, which engines do, too. */
	if (!r && p->video_info.fourcc != HM_FRAME_XRGB8888)
		r = hm_kernel_build(p->kernel, p->accel);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r,
				    r == -EOPNOTSUPP ? "--accel cpu, or --accel opencl:0" :
						       NULL,
				    "cannot run the conversion there");
	return 0;
}

static int open_device(struct pipeline *p)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	int r;

	r = hm_device_open(p->options->device, &p->device);
	if (!r)
		r = hm_device_query(p->device, &info);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, "hetmap devices lists the devices",
				    "cannot open the device");
	snprintf(p->device_name, sizeof(p->device_name), "%s", info.name);
	return 0;
}

/* The first decoder makes the pool, and the others share it. */
static int open_videos(struct pipeline *p)
{
	struct hm_video_desc desc = {
		.struct_size = sizeof(desc),
		.device = p->device,
		.format = p->options->format,
		.threads = (uint32_t)p->options->threads,
		.policy = p->options->camera_policy,
		.flags = p->options->memory,
		.codec = p->options->codec,
	};
	unsigned int i;
	int r;

	for (i = 0; i < p->options->decoders; i++) {
		p->producer[i].pipeline = p;
		p->producer[i].index = i;
		r = hm_video_open(p->options->input, &desc, &p->producer[i].video);
		if (!r && !i && p->options->decoders > 1) {
			r = hm_video_pool(p->producer[0].video, &p->source);
			desc.pool = p->source;
		}
		if (r)
			return fail_library(status_of(r), r, NULL, "cannot open the video");
	}
	p->video_info.struct_size = sizeof(p->video_info);
	hm_video_query(p->producer[0].video, &p->video_info);
	return 0;
}

int pipeline_open(struct pipeline *p, const struct pipeline_options *options)
{
	int status;

	memset(p, 0, sizeof(*p));
	p->options = options;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	status = open_device(p);
	if (!status)
		status = open_videos(p);
	if (!status)
		status = open_accel(p);
	if (!status)
		status = sink_open(&p->sink, options->sink, p->device, options->decoders > 1,
				   options->check);
	if (!status && options->timeline)
		status = timeline_create(options->timeline, &p->timeline);
	return status;
}

void pipeline_close(struct pipeline *p)
{
	unsigned int i;

	for (i = 0; i < DECODERS_MOST; i++)
		hm_video_unref(p->producer[i].video);
	timeline_destroy(p->timeline);
	sink_close(&p->sink);
	hm_frame_pool_unref(p->results);
	hm_frame_pool_unref(p->source);
	hm_kernel_unref(p->kernel);
	hm_queue_unref(p->queue);
	hm_accel_unref(p->accel);
	hm_device_unref(p->device);
	free(p->latencies);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
}
