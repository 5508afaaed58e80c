// SPDX-License-Identifier: MIT
/* Video: opening, reading, what is asked of it, its end. */
#include "video.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MOST 8 /* of a decoder that may choose */
#define THREADS_LIMIT 64

/* Fails if @given bytes of @desc, beyond the @known ones, are not zero. */
static int check_size(const void *desc, uint32_t given, uint32_t known)
{
	const unsigned char *bytes = desc;
	uint32_t i;

	for (i = known; i < given; i++)
		if (bytes[i])
			return hm_error_set(-E2BIG,
					    "struct_size is %u, and this library knows %u",
					    given, known);
	return 0;
}

static int check_desc(const struct hm_video_desc *desc, struct hm_video_desc *ret_desc)
{
	uint32_t size;
	int r;

	if (!desc || desc->struct_size < sizeof(desc->struct_size))
		return hm_error_set(-EINVAL, "a video needs a description with its size");
	r = check_size(desc, desc->struct_size, sizeof(*desc));
	if (r)
		return r;
	size = desc->struct_size < sizeof(*desc) ? desc->struct_size : sizeof(*desc);
	memset(ret_desc, 0, sizeof(*ret_desc));
	memcpy(ret_desc, desc, size);
	if (ret_desc->flags & ~(HM_VIDEO_DMABUF | HM_VIDEO_EXPBUF))
		return hm_error_set(-EINVAL, "unknown flags %#x of a video", ret_desc->flags);
	if (ret_desc->threads > THREADS_LIMIT)
		return hm_error_set(-EINVAL, "a decoder of %u threads: it has at most %u",
				    ret_desc->threads, THREADS_LIMIT);
	return 0;
}

static uint32_t threads_of(uint32_t asked)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	if (asked)
		return asked;
	return n < 1 ? 1 : n > THREADS_MOST ? THREADS_MOST : (uint32_t)n;
}

int hm_video_open(const char *input, const struct hm_video_desc *given,
		  struct hm_video **ret_video)
{
	struct hm_video_desc desc;
	struct hm_video *video;
	bool camera;
	int r;

	hm_error_begin();
	if (!input || !ret_video)
		return hm_error_set(-EINVAL, "a video needs an input, and a place for it");
	r = check_desc(given, &desc);
	if (r)
		return r;
	camera = desc.codec || camera_is_input(input);
	if (desc.flags && !camera)
		return hm_error_set(
			-EINVAL,
			"%s: flags %#x are for cameras and codecs, as v4l2:/dev/video0", input,
			desc.flags);
	video = calloc(1, sizeof(*video));
	if (!video)
		return hm_error_set(-ENOMEM, "no memory for a video");
	r = video_memory_begin(&video->memory, &desc, camera);
	if (r)
		goto err_free;
	video->input = strdup(input);
	if (!video->input) {
		r = hm_error_set(-ENOMEM, "no memory for a video");
		goto err_memory;
	}
	atomic_init(&video->refs, 1);
	pthread_mutex_init(&video->lock, NULL);
	video->process = getpid();
	video->threads = threads_of(desc.threads);
	if (camera)
		r = camera_open(video, &desc);
	else if (desc.format || raw_is_y4m(input))
		r = raw_open(video, desc.format);
	else
		r = decode_open(video);
	if (r)
		goto err_input;
	*ret_video = video;
	return 0;
err_input:
	pthread_mutex_destroy(&video->lock);
	free(video->input);
err_memory:
	video_memory_end(&video->memory);
err_free:
	free(video);
	return r;
}

static int check(const struct hm_video *video, const void *ret)
{
	hm_error_begin();
	if (!video || !ret)
		return hm_error_set(-EINVAL, "a video, and a place for the result, are needed");
	if (video->process != getpid())
		return hm_error_set(-EOWNERDEAD, "%s was opened before fork()", video->input);
	return 0;
}

int hm_video_read(struct hm_video *video, struct hm_frame **ret_frame)
{
	int r = check(video, ret_frame);

	if (r)
		return r;
	pthread_mutex_lock(&video->lock);
	if (video->failure.r) {
		r = failure_tell(&video->failure);
	} else {
		r = video->source->read(video, ret_frame);
		if (!r)
			video->info.pictures++;
		else if (r != -ETIME || !video->camera)
			failure_keep(&video->failure, r);
	}
	pthread_mutex_unlock(&video->lock);
	return r;
}

int hm_video_pool(struct hm_video *video, struct hm_frame_pool **ret_pool)
{
	int r = check(video, ret_pool);

	if (r)
		return r;
	if (video->info.memory == HM_VIDEO_MEMORY_EXPBUF)
		return hm_error_set(-EOPNOTSUPP,
				    "%s: the frames are the driver's, without a pool",
				    video->input);
	pthread_mutex_lock(&video->memory.lock);
	if (video->memory.pool)
		*ret_pool = hm_frame_pool_ref(video->memory.pool);
	else
		r = -ENODATA;
	pthread_mutex_unlock(&video->memory.lock);
	return r ? hm_error_set(r, "%s: the format of the pictures is not known yet",
				video->input) :
		   0;
}

int hm_video_query(struct hm_video *video, struct hm_video_info *ret_info)
{
	uint32_t size;
	int r = check(video, ret_info);

	if (r)
		return r;
	size = ret_info->struct_size;
	if (size > sizeof(*ret_info))
		return hm_error_set(-E2BIG, "struct_size is %u, and this library knows %zu",
				    size, sizeof(*ret_info));
	pthread_mutex_lock(&video->lock);
	if (video->source->refresh)
		video->source->refresh(video);
	video->info.struct_size = size;
	memcpy(ret_info, &video->info, size);
	pthread_mutex_unlock(&video->lock);
	return 0;
}

struct hm_video *hm_video_ref(struct hm_video *video)
{
	if (video)
		atomic_fetch_add_explicit(&video->refs, 1, memory_order_relaxed);
	return video;
}

void hm_video_unref(struct hm_video *video)
{
	if (!video || atomic_fetch_sub_explicit(&video->refs, 1, memory_order_acq_rel) != 1)
		return;
	/* The decoder's threads are the parent's: a child can end none of them. */
	if (video->process != getpid())
		return;
	video->source->close(video);
	video_memory_end(&video->memory);
	pthread_mutex_destroy(&video->lock);
	free(video->input);
	free(video);
}
