// SPDX-License-Identifier: MIT
/*
 * Frames for a decoder: libavcodec asks for the memory of each picture, on any of its threads,
 * and gets the planes of a frame. Its last reference to the buffer gives the frame back; a
 * consumer's references to the frame are apart from that.
 */
#include "video.h"

#include <errno.h>
#include <libavutil/imgutils.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_NS (10ull * 1000 * 1000 * 1000)
/* libavcodec's own buffers have as much behind each plane: a row's alignment and 16 bytes. */
#define TAIL 16

int failure_keep(struct failure *failure, int r)
{
	if (!failure->r) {
		failure->r = r;
		snprintf(failure->text, sizeof(failure->text), "%s", hm_errmsg());
	}
	return r;
}

int failure_tell(const struct failure *failure)
{
	return hm_error_set(failure->r, "%s", failure->text);
}

/* ---- the pool ---- */

/* A decoder reads its reference pictures whenever it wants. */
static int check_brackets(uint64_t caps)
{
	if (!(caps & HM_CAP_BRACKET))
		return 0;
	return hm_error_set(-EOPNOTSUPP, "CPUs reach memory of the frames' device in brackets "
					 "only, and a decoder has none: use \"host\"");
}

static int check_device(struct hm_device *device)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	int r = hm_device_query(device, &info);

	return r ? r : check_brackets(info.caps);
}

/* Of a pool its maker alone knows the device. */
static int check_frame(const struct hm_frame_info *frame)
{
	struct hm_buffer_info info = { .struct_size = sizeof(info) };
	int r = hm_buffer_query(frame->buffer[0], &info);

	return r ? r : check_brackets(info.caps);
}

int video_memory_begin(struct memory *memory, const struct hm_video_desc *desc, bool anywhere)
{
	struct hm_frame_pool_info info = { .struct_size = sizeof(info) };
	size_t bytes = (size_t)desc->n_users * sizeof(*desc->users);
	int r;

	if (!desc->device && !desc->pool)
		return hm_error_set(-EINVAL, "a video needs a device or a pool for its frames");
	if (desc->n_users && !desc->users)
		return hm_error_set(-EINVAL, "n_users is %u, and users is NULL", desc->n_users);
	r = !anywhere && desc->device && !desc->pool ? check_device(desc->device) : 0;
	if (r)
		return r;
	memory->timeout_ns = desc->timeout_ns ? desc->timeout_ns : TIMEOUT_NS;
	memory->n_most = desc->n_most;
	if (bytes) {
		memory->users = malloc(bytes);
		if (!memory->users)
			return hm_error_set(-ENOMEM, "no memory for a video");
		memcpy(memory->users, desc->users, bytes);
		memory->n_users = desc->n_users;
	}
	if (desc->pool) {
		r = hm_frame_pool_query(desc->pool, &info);
		if (r) {
			free(memory->users);
			memory->users = NULL;
			return r;
		}
		memory->shared = true;
		memory->layout = info.layout;
		memory->pool = hm_frame_pool_ref(desc->pool);
	}
	memory->device = hm_device_ref(desc->device);
	pthread_mutex_init(&memory->lock, NULL);
	return 0;
}

void video_memory_end(struct memory *memory)
{
	hm_frame_pool_unref(memory->pool);
	hm_device_unref(memory->device);
	free(memory->users);
	pthread_mutex_destroy(&memory->lock);
}

/* Does each row of the pool's frames begin where the decoder wants it? */
static bool strides_fit(const struct hm_frame_layout *layout, const struct need *need)
{
	uint32_t i;

	for (i = 0; i < layout->n_planes; i++)
		if (layout->plane[i].stride % need->stride || layout->plane[i].stride > INT_MAX)
			return false;
	return true;
}

static int check_shared(const struct memory *memory, const struct need *need)
{
	const struct hm_frame_layout *layout = &memory->layout;

	if (layout->fourcc != need->fourcc)
		return hm_error_set(
			-EINVAL,
			"the pool has frames of format %.4s, and the pictures are %.4s",
			(const char *)&layout->fourcc, (const char *)&need->fourcc);
	if (layout->width < need->width || layout->height < need->height)
		return hm_error_set(
			-EINVAL,
			"the decoder needs frames of %ux%u for pictures of %ux%u, and those of "
			"the pool have %ux%u: take the pool of the largest video",
			need->width, need->height, need->visible_width, need->visible_height,
			layout->width, layout->height);
	if (layout->modifier != HM_FRAME_LINEAR || !strides_fit(layout, need))
		return hm_error_set(-EINVAL,
				    "the decoder needs linear frames with rows at multiples of "
				    "%llu bytes: make the pool so, by hm_frame_align.stride",
				    (unsigned long long)need->stride);
	return 0;
}

static int make_pool(struct memory *memory, const struct need *need)
{
	struct hm_frame_pool_desc desc = {
		.struct_size = sizeof(desc),
		.name = "video",
		.fourcc = need->fourcc,
		.policy = HM_FRAME_WAIT,
		.width = need->width,
		.height = need->height,
		.visible = { 0, 0, need->visible_width, need->visible_height },
		.n_most = memory->n_most,
		.n_users = memory->n_users + 1,
	};
	struct hm_frame_pool_info info = { .struct_size = sizeof(info) };
	struct hm_frame_align *users;
	struct hm_frame_pool *pool;
	int r;

	users = calloc(desc.n_users, sizeof(*users));
	if (!users)
		return hm_error_set(-ENOMEM, "no memory for a pool of frames");
	if (memory->n_users)
		memcpy(users + 1, memory->users, memory->n_users * sizeof(*users));
	users[0].stride = need->stride;
	users[0].plane = 4096;
	users[0].tail = need->tail;
	desc.users = users;
	r = hm_frame_pool_create(memory->device, &desc, &pool);
	free(users);
	if (r)
		return r;
	r = hm_frame_pool_query(pool, &info);
	if (!r && !strides_fit(&info.layout, need))
		r = hm_error_set(-EOPNOTSUPP, "rows of %llu bytes are not for libavcodec",
				 (unsigned long long)info.layout.plane[0].stride);
	if (r) {
		hm_frame_pool_unref(pool);
		return r;
	}
	/* Frames of the old one end with their last reference. */
	hm_frame_pool_unref(memory->pool);
	memory->pool = pool;
	memory->layout = info.layout;
	memory->need = *need;
	return 0;
}

static int prepare_locked(struct memory *memory, const struct need *need)
{
	const struct need *has = &memory->need;

	if (memory->shared)
		return check_shared(memory, need);
	/* Pictures that become smaller stay in the same frames. */
	if (memory->pool && has->fourcc == need->fourcc && has->width >= need->width &&
	    has->height >= need->height && has->stride >= need->stride)
		return 0;
	return make_pool(memory, need);
}

int video_memory_prepare(struct memory *memory, const struct need *need)
{
	int r;

	pthread_mutex_lock(&memory->lock);
	r = prepare_locked(memory, need);
	pthread_mutex_unlock(&memory->lock);
	return r;
}

int video_memory_acquire(struct memory *memory, const struct need *need,
			 struct hm_frame **ret_frame, struct hm_frame_info *ret_info)
{
	struct hm_frame_info info = { .struct_size = sizeof(info) };
	struct hm_frame_pool *pool = NULL;
	struct hm_frame *frame;
	int r;

	pthread_mutex_lock(&memory->lock);
	r = prepare_locked(memory, need);
	if (!r)
		pool = hm_frame_pool_ref(memory->pool);
	pthread_mutex_unlock(&memory->lock);
	if (r)
		return r;
	r = hm_frame_pool_acquire(pool, memory->timeout_ns, &frame);
	hm_frame_pool_unref(pool);
	if (r)
		return r;
	r = hm_frame_query(frame, &info);
	if (!r && memory->shared)
		r = check_frame(&info);
	if (r) {
		hm_frame_unref(frame);
		return r;
	}
	*ret_frame = frame;
	*ret_info = info;
	return 0;
}

/* ---- libavcodec's buffers ---- */

static void forget_locked(struct lent *lent)
{
	struct lent **at = &lent->memory->lent;

	while (*at != lent)
		at = &(*at)->next;
	*at = lent->next;
}

/* AVBuffer's: on any thread. */
static void lent_back(void *user, uint8_t *data)
{
	struct lent *lent = user;
	struct memory *memory = lent->memory;
	bool open;

	(void)data;
	pthread_mutex_lock(&memory->lock);
	forget_locked(lent);
	open = !lent->delivered;
	pthread_mutex_unlock(&memory->lock);
	if (open)
		hm_map_end_cpu(lent->map, 0, lent->bytes, HM_READ | HM_WRITE);
	hm_frame_unref(lent->frame);
	free(lent);
}

int video_memory_need(AVCodecContext *decoder, enum AVPixelFormat format, int width, int height,
		      struct need *ret_need)
{
	int align[AV_NUM_DATA_POINTERS] = { 0 };
	struct need need = {
		.fourcc = format_fourcc(format),
		.visible_width = (uint32_t)width,
		.visible_height = (uint32_t)height,
	};
	int i;

	if (!need.fourcc)
		return hm_error_set(-EOPNOTSUPP,
				    "pictures of format %s: frames have no such format",
				    format_name(format));
	avcodec_align_dimensions2(decoder, &width, &height, align);
	need.width = (uint32_t)width;
	need.height = (uint32_t)height;
	for (i = 0; i < AV_NUM_DATA_POINTERS; i++)
		if ((uint64_t)align[i] > need.stride)
			need.stride = (uint64_t)align[i];
	need.tail = need.stride + TAIL;
	*ret_need = need;
	return 0;
}

/* The frame's planes, as libavcodec has them. */
static int fill_picture(AVFrame *picture, struct lent *lent, const struct hm_frame_info *info)
{
	uint8_t *base = (uint8_t *)info->address[0] - info->plane[0].offset;
	uint32_t i;

	/*
	 * Read only to all but the codec that asked for it, which writes without a question: a
	 * codec that would change the picture before makes a copy instead of writing what a
	 * consumer has.
	 */
	picture->buf[0] =
		av_buffer_create(base, lent->bytes, lent_back, lent, AV_BUFFER_FLAG_READONLY);
	if (!picture->buf[0])
		return -ENOMEM;
	for (i = 0; i < info->n_planes; i++) {
		picture->data[i] = info->address[i];
		picture->linesize[i] = (int)info->plane[i].stride;
	}
	picture->extended_data = picture->data;
	return 0;
}

static int lend(struct memory *memory, const struct need *need, AVFrame *picture)
{
	struct hm_frame_info info;
	struct lent *lent;
	int r;

	lent = calloc(1, sizeof(*lent));
	if (!lent)
		return hm_error_set(-ENOMEM, "no memory for a picture");
	lent->memory = memory;
	r = video_memory_acquire(memory, need, &lent->frame, &info);
	if (r)
		goto err_free;
	lent->map = info.map[0];
	lent->bytes = hm_map_length(lent->map);
	r = hm_map_begin_cpu(lent->map, 0, lent->bytes, HM_READ | HM_WRITE);
	if (r)
		goto err_unref;
	pthread_mutex_lock(&memory->lock);
	lent->next = memory->lent;
	memory->lent = lent;
	pthread_mutex_unlock(&memory->lock);
	r = fill_picture(picture, lent, &info);
	if (r) {
		lent_back(lent, NULL);
		return hm_error_set(r, "no memory for a picture");
	}
	return 0;
err_unref:
	hm_frame_unref(lent->frame);
err_free:
	free(lent);
	return r;
}

int video_memory_get_buffer(AVCodecContext *decoder, AVFrame *picture, int flags)
{
	struct hm_video *video = decoder->opaque;
	struct memory *memory = &video->memory;
	struct need need;
	int r;

	if (!(decoder->codec->capabilities & AV_CODEC_CAP_DR1))
		return avcodec_default_get_buffer2(decoder, picture, flags);
	/* The video ends there: a decoder that goes on does not wait once more for each picture. */
	pthread_mutex_lock(&memory->lock);
	r = memory->failure.r;
	pthread_mutex_unlock(&memory->lock);
	if (r)
		return AVERROR(-r);
	r = video_memory_need(decoder, picture->format, picture->width, picture->height, &need);
	if (!r)
		r = lend(memory, &need, picture);
	if (!r)
		return 0;
	pthread_mutex_lock(&memory->lock);
	failure_keep(&memory->failure, r);
	pthread_mutex_unlock(&memory->lock);
	return AVERROR(-r);
}

struct hm_frame *video_memory_deliver(struct memory *memory, const AVFrame *picture,
				      bool *ret_repeated)
{
	void *user = picture->buf[0] ? av_buffer_get_opaque(picture->buf[0]) : NULL;
	struct hm_frame *frame = NULL;
	bool first = false;
	struct lent *lent;

	pthread_mutex_lock(&memory->lock);
	for (lent = memory->lent; lent && lent != user; lent = lent->next)
		;
	if (lent) {
		frame = hm_frame_ref(lent->frame);
		first = !lent->delivered;
		lent->delivered = true;
	}
	pthread_mutex_unlock(&memory->lock);
	if (first)
		hm_map_end_cpu(lent->map, 0, lent->bytes, HM_READ | HM_WRITE);
	*ret_repeated = frame && !first;
	return frame;
}
