// SPDX-License-Identifier: MIT
/* The threads of the decoders: a picture is read, gets a result, and its conversion is launched. */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "pipeline.h"

#define RATE 25 /* pictures a second, where the video does not tell */

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

void pipeline_note_results(struct pipeline *p)
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
			pipeline_note_results(p);
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

static void count_drop(struct pipeline *p)
{
	pthread_mutex_lock(&p->lock);
	p->dropped++;
	pthread_mutex_unlock(&p->lock);
}

/* The picture that waits longest for the sink, if one waits. */
static void drop_oldest_locked(struct pipeline *p)
{
	struct converted *oldest = &p->converted[p->first];

	if (!p->n_converted)
		return;
	p->first = (p->first + 1) % QUEUE_MOST;
	p->n_converted--;
	p->dropped++;
	picture_meets(oldest->picture, MOMENT_DROPPED);
	hm_fence_unref(oldest->fence);
	hm_frame_unref(oldest->frame);
	pthread_cond_broadcast(&p->changed);
}

static void drop_oldest(struct pipeline *p)
{
	pthread_mutex_lock(&p->lock);
	drop_oldest_locked(p);
	pthread_mutex_unlock(&p->lock);
}

/* Results for a display are its own frames. */
static int acquire_shown(struct pipeline *p, const struct hm_frame_rect *visible,
			 struct hm_frame **ret_frame)
{
	int r;

	do {
		if (is_stopped(p))
			r = -ECANCELED;
		else
			r = display_acquire(p->sink.display, visible->width, visible->height,
					    PIPELINE_LOOK_NS, ret_frame);
	} while (r == -ETIME);
	return r;
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

	if (p->sink.display)
		return acquire_shown(p, visible, ret_frame);
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
		r = hm_frame_pool_acquire(pool, PIPELINE_LOOK_NS, ret_frame);
	}
	hm_frame_pool_unref(pool);
	return r;
}

/*
 * 0: the decoder's frame is for the display as it is, and there is room for it. -EOPNOTSUPP: it
 * has to be converted. Others as of acquire().
 */
static int show_as_it_is(struct pipeline *p, struct hm_frame *from)
{
	const unsigned int most = (unsigned int)p->options->decoders * IN_FLIGHT;
	int r;

	if (!p->sink.display)
		return -EOPNOTSUPP;
	r = display_import(p->sink.display, from);
	pthread_mutex_lock(&p->lock);
	while (!r && p->n_converted >= most) {
		if (p->stop)
			r = -ECANCELED;
		else if (p->options->policy == POLICY_DROP_NEWEST)
			r = -ENOBUFS;
		else if (p->options->policy == POLICY_DROP_OLDEST)
			drop_oldest_locked(p);
		else
			pthread_cond_wait(&p->changed, &p->lock);
	}
	p->dropped += r == -ENOBUFS;
	pthread_mutex_unlock(&p->lock);
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
	if (!r && from->fourcc == HM_FRAME_XRGB8888)
		r = convert_copy(p->queue, from, &info, ret_fence);
	else if (!r)
		r = convert_launch(p->queue, p->kernel, from, &info, ret_fence);
	if (r)
		return r;
	r = hm_frame_fence_add(to, *ret_fence, HM_WRITE);
	if (r)
		hm_fence_unref(*ret_fence);
	return r;
}

static void give_to_sink(struct pipeline *p, const struct converted *converted)
{
	pthread_mutex_lock(&p->lock);
	/* A frame each, and no more frames than places; a pool that was replaced has some, too. */
	while (p->n_converted == QUEUE_MOST)
		pthread_cond_wait(&p->changed, &p->lock);
	p->converted[(p->first + p->n_converted++) % QUEUE_MOST] = *converted;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

/* Fills in frame and fence. */
static int convert_into(struct pipeline *p, const struct hm_frame_info *info,
			struct converted *converted)
{
	int r;

	r = acquire(p, &info->props.visible, &converted->frame);
	picture_meets(converted->picture, r == -ENOBUFS ? MOMENT_DROPPED : MOMENT_ROOM);
	if (r)
		return r;
	r = launch(p, info, converted->frame, &converted->fence);
	if (r) {
		hm_frame_unref(converted->frame);
		return r;
	}
	picture_meets(converted->picture, MOMENT_LAUNCHED);
	timeline_watch(p->timeline, converted->picture, converted->fence);
	return 0;
}

/* @from becomes a picture for the sink. Its decoder was asked for it at @read_ns. */
static int convert(struct producer *producer, struct hm_frame *from, uint64_t number,
		   uint64_t read_ns)
{
	struct hm_frame_info info = { .struct_size = sizeof(info) };
	struct pipeline *p = producer->pipeline;
	struct converted converted = { .decoder = producer->index, .number = number };
	int r;

	converted.decoded_ns = (uint64_t)(pipeline_now() * 1e9);
	converted.picture = timeline_picture(p->timeline, producer->index, number, read_ns);
	picture_meets(converted.picture, MOMENT_DECODED);
	r = hm_frame_query(from, &info);
	if (r)
		return r;
	look_at_colour(p, &info);
	r = show_as_it_is(p, from);
	if (!r) {
		converted.frame = hm_frame_ref(from);
		picture_meets(converted.picture, MOMENT_ROOM);
		picture_meets(converted.picture, MOMENT_LAUNCHED);
	} else if (r == -EOPNOTSUPP) {
		r = convert_into(p, &info, &converted);
	} else if (r == -ENOBUFS) {
		picture_meets(converted.picture, MOMENT_DROPPED);
	}
	if (r)
		return r == -ENOBUFS ? 0 : r;
	give_to_sink(p, &converted);
	return 0;
}

/* The picture @number, from 1, is due. Returns early if the pipeline stops. */
static void wait_until_due(struct pipeline *p, uint64_t number)
{
	const struct hm_video_info *info = &p->video_info;
	double rate = info->rate_num ? (double)info->rate_num / info->rate_den : RATE;
	double due = p->begin + (double)number / rate, left;

	while ((left = due - pipeline_now()) > 0 && !is_stopped(p)) {
		const struct timespec rest = {
			.tv_nsec = left * 1e9 < PIPELINE_LOOK_NS ? (long)(left * 1e9) :
								   (long)PIPELINE_LOOK_NS,
		};

		nanosleep(&rest, NULL);
	}
}

void *producer_run(void *user)
{
	struct producer *producer = user;
	struct pipeline *p = producer->pipeline;
	uint64_t number = 0, read_ns;
	struct hm_frame *frame;
	int r = 0;

	while (!r && !is_stopped(p) && (!p->options->frames || number < p->options->frames)) {
		read_ns = timeline_now();
		r = hm_video_read(producer->video, &frame);
		if (r) {
			if (r != -ENODATA)
				stop_with(p, r, NULL);
			break;
		}
		number++;
		if (p->options->paced)
			wait_until_due(p, number);
		r = convert(producer, frame, number, read_ns);
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
