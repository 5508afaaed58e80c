// SPDX-License-Identifier: MIT
/* The way of the pictures: decoders, conversion, sink. */
#include "pipeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "command.h"
#include "text.h"

#define MS_NS 1000000ull
#define LOOK_NS (100 * MS_NS) /* a wait is interrupted as often, to look at signals */
#define PATIENCE_SECONDS 2    /* from a signal on */

double pipeline_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- decoders' threads ---- */

/* Keeps the first failure, and ends all decoders. */
static void stop_with(struct pipeline *p, int r, const char *what)
{
	pthread_mutex_lock(&p->lock);
	if (!p->error) {
		p->error = r;
		snprintf(p->text, sizeof(p->text), "%s%s%s", what ? what : "", what ? ": " : "",
			 hm_errmsg());
	}
	p->stop = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

static bool is_stopped(struct pipeline *p)
{
	bool stop;

	pthread_mutex_lock(&p->lock);
	stop = p->stop;
	pthread_mutex_unlock(&p->lock);
	return stop;
}

static void note_results_locked(struct pipeline *p)
{
	struct hm_frame_pool_info info = { .struct_size = sizeof(info) };

	if (!p->results || hm_frame_pool_query(p->results, &info))
		return;
	if (info.frames_peak > p->results_peak)
		p->results_peak = info.frames_peak;
	if (info.frames_peak * info.layout.bytes > p->results_bytes)
		p->results_bytes = info.frames_peak * info.layout.bytes;
}

/* The pool for results of that size; larger pictures get a new one. */
static int results_of(struct pipeline *p, const struct hm_frame_rect *visible,
		      struct hm_frame_pool **ret_pool)
{
	struct hm_frame_pool_desc desc = {
		.struct_size = sizeof(desc),
		.name = "video-xrgb",
		.fourcc = HM_FRAME_XRGB8888,
		.policy = HM_FRAME_WAIT,
		.n_most = (uint32_t)p->options->decoders * IN_FLIGHT,
	};
	struct hm_frame_pool *pool;
	int r = 0;

	pthread_mutex_lock(&p->lock);
	if (!p->results || p->result_width < visible->width ||
	    p->result_height < visible->height) {
		desc.width = visible->width > p->result_width ? visible->width :
								p->result_width;
		desc.height = visible->height > p->result_height ? visible->height :
								   p->result_height;
		r = hm_frame_pool_create(p->device, &desc, &pool);
		if (!r) {
			note_results_locked(p);
			hm_frame_pool_unref(p->results);
			p->results = pool;
			p->result_width = desc.width;
			p->result_height = desc.height;
		}
	}
	if (!r)
		*ret_pool = hm_frame_pool_ref(p->results);
	pthread_mutex_unlock(&p->lock);
	return r;
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

static void count_drop(struct pipeline *p)
{
	pthread_mutex_lock(&p->lock);
	p->dropped++;
	pthread_mutex_unlock(&p->lock);
}

/* The picture that waits longest for the sink. False: none waits. */
static bool drop_oldest(struct pipeline *p)
{
	struct converted oldest;
	bool there;

	pthread_mutex_lock(&p->lock);
	there = p->n_converted;
	if (there) {
		oldest = p->converted[p->first];
		p->first = (p->first + 1) % QUEUE_MOST;
		p->n_converted--;
		p->dropped++;
		pthread_cond_broadcast(&p->changed);
	}
	pthread_mutex_unlock(&p->lock);
	if (there) {
		hm_fence_unref(oldest.fence);
		hm_frame_unref(oldest.frame);
	}
	return there;
}

/*
 * An empty result; -ECANCELED: the pipeline was stopped; -ENOBUFS: the picture is dropped. A
 * result whose conversion goes on comes back to the pool once that is done: hence the wait after
 * each drop, before the next one. The pool's own policies are for its queue, and here pictures
 * of several pools are in one.
 */
static int acquire(struct pipeline *p, const struct hm_frame_rect *visible,
		   struct hm_frame **ret_frame)
{
	const uint32_t policy = p->options->policy;
	struct hm_frame_pool *pool;
	int r;

	r = results_of(p, visible, &pool);
	if (r)
		return r;
	r = hm_frame_pool_acquire(pool, 0, ret_frame);
	while (r == -ETIME) {
		if (policy == POLICY_DROP_NEWEST) {
			count_drop(p);
			r = -ENOBUFS;
			break;
		}
		if (is_stopped(p)) {
			r = -ECANCELED;
			break;
		}
		if (policy == POLICY_DROP_OLDEST)
			drop_oldest(p);
		r = hm_frame_pool_acquire(pool, LOOK_NS, ret_frame);
	}
	hm_frame_pool_unref(pool);
	return r;
}

static void look_at_colour(struct pipeline *p, const struct hm_frame_info *from)
{
	pthread_mutex_lock(&p->lock);
	if (!p->looked)
		convert_colour_of(from, &p->colour);
	p->looked = true;
	pthread_mutex_unlock(&p->lock);
}

static int launch(struct pipeline *p, const struct hm_frame_info *from, struct hm_frame *to,
		  struct hm_fence **ret_fence)
{
	struct hm_frame_info info = { .struct_size = sizeof(info) };
	struct hm_frame_props props = from->props;
	int r;

	props.visible.x = props.visible.y = 0;
	props.matrix = 0; /* RGB */
	props.range = HM_FRAME_RANGE_FULL;
	r = hm_frame_set(to, HM_FRAME_VISIBLE | HM_FRAME_COLOUR | HM_FRAME_TIME, &props);
	if (!r)
		r = hm_frame_query(to, &info);
	if (!r)
		r = convert_launch(p->queue, p->kernel, from, &info, ret_fence);
	if (r)
		return r;
	r = hm_frame_fence_add(to, *ret_fence, HM_WRITE);
	if (r)
		hm_fence_unref(*ret_fence);
	return r;
}

/* @from becomes a picture for the sink. */
static int convert(struct producer *producer, struct hm_frame *from, uint64_t number)
{
	struct hm_frame_info info = { .struct_size = sizeof(info) };
	struct pipeline *p = producer->pipeline;
	struct converted converted = { .decoder = producer->index, .number = number };
	int r;

	converted.decoded_ns = (uint64_t)(pipeline_now() * 1e9);
	r = hm_frame_query(from, &info);
	if (r)
		return r;
	look_at_colour(p, &info);
	r = acquire(p, &info.props.visible, &converted.frame);
	if (r)
		return r == -ENOBUFS ? 0 : r;
	r = launch(p, &info, converted.frame, &converted.fence);
	if (r) {
		hm_frame_unref(converted.frame);
		return r;
	}
	pthread_mutex_lock(&p->lock);
	/* A frame each, and no more frames than places; a pool that was replaced has some, too. */
	while (p->n_converted == QUEUE_MOST)
		pthread_cond_wait(&p->changed, &p->lock);
	p->converted[(p->first + p->n_converted++) % QUEUE_MOST] = converted;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	return 0;
}

static void *produce(void *user)
{
	struct producer *producer = user;
	struct pipeline *p = producer->pipeline;
	uint64_t number = 0;
	struct hm_frame *frame;
	int r = 0;

	while (!r && !is_stopped(p) && (!p->options->frames || number < p->options->frames)) {
		r = hm_video_read(producer->video, &frame);
		if (r) {
			if (r != -ENODATA)
				stop_with(p, r, NULL);
			break;
		}
		r = convert(producer, frame, ++number);
		/* The launch keeps the bytes. */
		hm_frame_unref(frame);
		if (r && r != -ECANCELED)
			stop_with(p, r, "cannot convert a picture");
	}
	pthread_mutex_lock(&p->lock);
	p->n_running--;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* ---- the main thread ---- */

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
		r = hm_fence_wait(fence, LOOK_NS);
	} while (r == -ETIME && !signals_pending());
	return r == -ETIME ? -ECANCELED : r;
}

/* Waits for the conversion, and gives the picture to the sink. */
static int finish(struct pipeline *p, struct converted *converted)
{
	struct hm_fence_info info = { .struct_size = sizeof(info) };
	int r, status;

	r = wait_for(converted->fence);
	if (!r)
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
		status = sink_take(&p->sink, converted->frame, converted->decoder,
				   converted->number);
	}
	if (!status) {
		p->pictures++;
		note_latency(p, pipeline_now() - (double)converted->decoded_ns / 1e9);
	}
	hm_fence_unref(converted->fence);
	hm_frame_unref(converted->frame);
	return status;
}

/* The next picture; false: none comes any more, or none came within LOOK_NS. */
static bool take(struct pipeline *p, struct converted *ret_converted, bool *ret_over)
{
	struct timespec until;
	bool got;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += (long)LOOK_NS;
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

static void stop(struct pipeline *p)
{
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
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
			stop(p);
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
		error = pthread_create(&producer->thread, NULL, produce, producer);
		if (error) {
			pthread_mutex_lock(&p->lock);
			p->n_running--;
			pthread_mutex_unlock(&p->lock);
			stop(p);
			return fail(STATUS_ENVIRONMENT, error, NULL,
				    "cannot start a thread for decoder %u", i + 1);
		}
		producer->running = true;
	}
	return 0;
}

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
		p->repeated += info.repeated;
		if (!i)
			p->video_info = info;
	}
	pthread_mutex_lock(&p->lock);
	note_results_locked(p);
	pthread_mutex_unlock(&p->lock);
	p->source_info.struct_size = sizeof(p->source_info);
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
		status = fail(status_of(p->error), p->error, NULL, "%s (%llu picture%s done)",
			      p->text, (unsigned long long)p->pictures,
			      p->pictures == 1 ? "" : "s");
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
	if (!r)
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
		status = sink_open(&p->sink, options->sink, options->decoders > 1);
	return status;
}

void pipeline_close(struct pipeline *p)
{
	unsigned int i;

	for (i = 0; i < DECODERS_MOST; i++)
		hm_video_unref(p->producer[i].video);
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
