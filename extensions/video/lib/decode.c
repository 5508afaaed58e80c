// SPDX-License-Identifier: MIT
/* A file that libavformat reads and libavcodec decodes, into frames. */
#include "video.h"

#include <errno.h>
#include <libavutil/avstring.h>
#include <libavutil/imgutils.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/*
 * libavutil's error as an errno: those of its own are a damaged file, or what it has not. So are
 * the errno values that say that a value, which can only be the file's, is not right.
 */
static int errno_of(int error)
{
	switch (error) {
	case AVERROR_DECODER_NOT_FOUND:
	case AVERROR_DEMUXER_NOT_FOUND:
	case AVERROR_PATCHWELCOME:
	case AVERROR_PROTOCOL_NOT_FOUND:
	case AVERROR(ENOSYS):
		return -EOPNOTSUPP;
	case AVERROR_EOF:
	case AVERROR_INVALIDDATA:
	case AVERROR_STREAM_NOT_FOUND:
	case AVERROR(EINVAL):
	case AVERROR(EDOM):
	case AVERROR(ERANGE):
	case AVERROR(EAGAIN):
		return -EBADMSG;
	default:
		/* Tags of four letters are far below each errno. */
		return error < -4095 ? -EBADMSG : error;
	}
}

/* "clip.mp4: WHAT: Invalid data found when processing input" */
static int complain(const struct hm_video *video, int error, const char *what)
{
	char text[AV_ERROR_MAX_STRING_SIZE] = "";

	av_strerror(error, text, sizeof(text));
	return hm_error_set(errno_of(error), "%s: %s: %s", video->input, what, text);
}

/* ---- opening ---- */

static int open_demuxer(struct hm_video *video)
{
	AVDictionary *options = NULL;
	struct stat status;
	char *url;
	int error;

	if (stat(video->input, &status))
		return hm_error_set(-errno, "%s: %s", video->input, strerror(errno));
	if (S_ISDIR(status.st_mode))
		return hm_error_set(-EISDIR, "%s is a directory", video->input);
	/* A name with a colon is no protocol, and what a file says leads to no other place. */
	url = av_asprintf("file:%s", video->input);
	if (!url || av_dict_set(&options, "protocol_whitelist", "file", 0) < 0) {
		av_free(url);
		return hm_error_set(-ENOMEM, "no memory to open %s", video->input);
	}
	error = avformat_open_input(&video->demuxer, url, NULL, &options);
	av_dict_free(&options);
	av_free(url);
	if (error < 0)
		return complain(video, error, "libavformat can't open it");
	error = avformat_find_stream_info(video->demuxer, NULL);
	if (error < 0)
		return complain(video, error, "libavformat finds no streams");
	return 0;
}

/* Callbacks are safe on any thread. libavcodec 60 has no such field: it assumes so. */
static void allow_threads(AVCodecContext *decoder)
{
#if LIBAVCODEC_VERSION_MAJOR < 60
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	decoder->thread_safe_callbacks = 1;
#pragma GCC diagnostic pop
#else
	(void)decoder;
#endif
}

static int open_decoder(struct hm_video *video)
{
	const AVCodec *codec = NULL;
	AVCodecContext *decoder;
	AVStream *stream;
	int error;

	error = av_find_best_stream(video->demuxer, AVMEDIA_TYPE_VIDEO, -1, -1, NULL, 0);
	if (error < 0)
		return complain(video, error, "it has no video");
	video->stream = error;
	stream = video->demuxer->streams[video->stream];
	codec = avcodec_find_decoder(stream->codecpar->codec_id);
	if (!codec)
		return hm_error_set(-EOPNOTSUPP, "%s: libavcodec has no decoder for %s here",
				    video->input, avcodec_get_name(stream->codecpar->codec_id));
	video->decoder = decoder = avcodec_alloc_context3(codec);
	video->packet = av_packet_alloc();
	video->picture = av_frame_alloc();
	if (!decoder || !video->packet || !video->picture)
		return hm_error_set(-ENOMEM, "no memory for a decoder");
	error = avcodec_parameters_to_context(decoder, stream->codecpar);
	if (error < 0)
		return complain(video, error, "its parameters are not for libavcodec");
	decoder->opaque = video;
	decoder->get_buffer2 = video_memory_get_buffer;
	decoder->apply_cropping = 0; /* frames have a visible part */
	decoder->thread_count = (int)video->threads;
	decoder->pkt_timebase = stream->time_base;
	allow_threads(decoder);
	video->time_base = stream->time_base;
	error = avcodec_open2(decoder, codec, NULL);
	if (error < 0)
		return complain(video, error, "libavcodec can't open its decoder");
	return 0;
}

/* Size and format of pictures, as the file tells them: the pool is made for these. */
static int announce(struct hm_video *video)
{
	AVStream *stream = video->demuxer->streams[video->stream];
	AVRational rate = av_guess_frame_rate(video->demuxer, stream, NULL);
	AVCodecContext *decoder = video->decoder;
	struct hm_video_info *info = &video->info;
	struct need need;
	int width, height, r;

	snprintf(info->decoder, sizeof(info->decoder), "%s", decoder->codec->name);
	info->in_place = decoder->codec->capabilities & AV_CODEC_CAP_DR1 ? 1 : 0;
	if (rate.num > 0 && rate.den > 0) {
		info->rate_num = (uint32_t)rate.num;
		info->rate_den = (uint32_t)rate.den;
	}
	if (decoder->width <= 0 || decoder->height <= 0)
		return 0;
	info->width = (uint32_t)decoder->width;
	info->height = (uint32_t)decoder->height;
	if (decoder->pix_fmt == AV_PIX_FMT_NONE)
		return 0;
	info->fourcc = format_fourcc(decoder->pix_fmt);
	width = decoder->width > decoder->coded_width ? decoder->width : decoder->coded_width;
	height = decoder->height > decoder->coded_height ? decoder->height :
							   decoder->coded_height;
	r = video_memory_need(decoder, decoder->pix_fmt, width, height, &need);
	return r ? r : video_memory_prepare(&video->memory, &need);
}

static void decode_close(struct hm_video *video)
{
	/* The decoder gives its frames back. */
	avcodec_free_context(&video->decoder);
	av_packet_free(&video->packet);
	av_frame_free(&video->picture);
	avformat_close_input(&video->demuxer);
}

/* ---- reading ---- */

/*
 * Keeps why libavcodec got no frame, which it does not know itself. Some decoders leave out the
 * picture then, and say nothing.
 */
static void keep_refused(struct hm_video *video)
{
	if (video->later.r)
		return;
	pthread_mutex_lock(&video->memory.lock);
	video->later = video->memory.failure;
	pthread_mutex_unlock(&video->memory.lock);
}

/* Keeps @what, which is told after the pictures before the damage. */
static void keep_damage(struct hm_video *video, int error, const char *what)
{
	char text[AV_ERROR_MAX_STRING_SIZE] = "";

	keep_refused(video);
	if (video->later.r)
		return;
	av_strerror(error, text, sizeof(text));
	video->later.r = errno_of(error);
	snprintf(video->later.text, sizeof(video->later.text), "%s: %s", what, text);
}

static int tell_damage(const struct hm_video *video)
{
	unsigned long long n = video->info.pictures;

	return hm_error_set(video->later.r, "%s, behind picture %llu: %s", video->input, n,
			    video->later.text);
}

/*
 * Matroska's demuxer takes a cut file for one that has ended. By how long the file says that it
 * is, and a tenth of that, or a quarter of a second, may be missing: the last picture may be
 * shown for long. Demuxers that know the number of pictures find it themselves.
 */
static bool ended_early(const struct hm_video *video)
{
	const AVFormatContext *demuxer = video->demuxer;
	const AVStream *stream = demuxer->streams[video->stream];
	int64_t announced = demuxer->duration, grace;

	if (stream->nb_frames || demuxer->nb_streams != 1 || announced == AV_NOPTS_VALUE ||
	    demuxer->duration_estimation_method == AVFMT_DURATION_FROM_BITRATE ||
	    video->last_end == AV_NOPTS_VALUE)
		return false;
	if (demuxer->start_time != AV_NOPTS_VALUE)
		announced += demuxer->start_time;
	grace = announced / 10 > AV_TIME_BASE / 4 ? announced / 10 : AV_TIME_BASE / 4;
	return av_rescale_q(video->last_end, video->time_base, AV_TIME_BASE_Q) <
	       announced - grace;
}

/* No packet comes any more: the decoder is to give what it has. */
static void drain(struct hm_video *video)
{
	if (!video->drained)
		avcodec_send_packet(video->decoder, NULL);
	video->drained = true;
}

/* One packet more for the decoder, which has room for it. */
static void feed(struct hm_video *video)
{
	AVPacket *packet = video->packet;
	int error;

	keep_refused(video);
	if (video->later.r) {
		drain(video);
		return;
	}
	for (;;) {
		error = av_read_frame(video->demuxer, packet);
		/* libavcodec takes an empty packet for the end. */
		if (error < 0 || (packet->stream_index == video->stream && packet->size))
			break;
		av_packet_unref(packet);
	}
	if (error == AVERROR_EOF && !(video->demuxer->pb && video->demuxer->pb->error)) {
		if (ended_early(video))
			keep_damage(video, AVERROR_INVALIDDATA,
				    "the file ends long before the time that it announces");
		drain(video);
		return;
	}
	if (error < 0) {
		keep_damage(video, error == AVERROR_EOF ? video->demuxer->pb->error : error,
			    "the file can't be read");
		drain(video);
		return;
	}
	if (packet->flags & AV_PKT_FLAG_CORRUPT) {
		keep_damage(video, AVERROR_INVALIDDATA,
			    "the file ends within a picture, or is damaged there");
		av_packet_unref(packet);
		drain(video);
		return;
	}
	if (packet->pts != AV_NOPTS_VALUE && (video->last_end == AV_NOPTS_VALUE ||
					      packet->pts + packet->duration > video->last_end))
		video->last_end = packet->pts + packet->duration;
	error = avcodec_send_packet(video->decoder, packet);
	av_packet_unref(packet);
	if (error < 0 && error != AVERROR(EAGAIN)) {
		keep_damage(video, error, "the decoder fails");
		drain(video);
	}
}

/* Of a decoder with memory of its own: into a frame. */
static int copy_picture(struct hm_video *video, struct hm_frame **ret_frame)
{
	const AVFrame *from = video->picture;
	uint8_t *to[AV_NUM_DATA_POINTERS] = { NULL };
	int strides[AV_NUM_DATA_POINTERS] = { 0 };
	struct hm_frame_info info;
	struct hm_frame *frame;
	struct need need;
	uint64_t bytes;
	uint32_t i;
	int r;

	r = video_memory_need(video->decoder, from->format, from->width, from->height, &need);
	if (!r)
		r = video_memory_acquire(&video->memory, &need, &frame, &info);
	if (r)
		return r;
	for (i = 0; i < info.n_planes; i++) {
		to[i] = info.address[i];
		strides[i] = (int)info.plane[i].stride;
	}
	bytes = hm_map_length(info.map[0]);
	r = hm_map_begin_cpu(info.map[0], 0, bytes, HM_WRITE);
	if (!r) {
		av_image_copy(to, strides, (const uint8_t **)from->data, from->linesize,
			      from->format, from->width, from->height);
		r = hm_map_end_cpu(info.map[0], 0, bytes, HM_WRITE);
	}
	if (r) {
		hm_frame_unref(frame);
		return r;
	}
	video->info.bytes_copied +=
		(uint64_t)av_image_get_buffer_size(from->format, from->width, from->height, 1);
	*ret_frame = frame;
	return 0;
}

static int64_t duration_of(const AVFrame *picture)
{
#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(57, 30, 100)
	return picture->duration;
#else
	return picture->pkt_duration;
#endif
}

/* The facts of the picture. H.273's numbers are libavutil's, too. */
static int set_facts(struct hm_video *video, struct hm_frame *frame)
{
	const AVFrame *picture = video->picture;
	struct hm_frame_props props = {
		.visible = { (uint32_t)picture->crop_left, (uint32_t)picture->crop_top,
			     (uint32_t)((size_t)picture->width - picture->crop_left -
					picture->crop_right),
			     (uint32_t)((size_t)picture->height - picture->crop_top -
					picture->crop_bottom) },
		.primaries = (uint32_t)picture->color_primaries,
		.transfer = (uint32_t)picture->color_trc,
		.matrix = (uint32_t)picture->colorspace,
		.range = (uint32_t)picture->color_range,
		.chroma = (uint32_t)picture->chroma_location,
		.time_base_num = (uint32_t)video->time_base.num,
		.time_base_den = (uint32_t)video->time_base.den,
		.timestamp = picture->best_effort_timestamp,
		.duration = duration_of(picture) > 0 ? duration_of(picture) : 0,
	};

	if (format_is_full(picture->format))
		props.range = HM_FRAME_RANGE_FULL;
	video->info.fourcc = format_fourcc(picture->format);
	video->info.width = props.visible.width;
	video->info.height = props.visible.height;
	return hm_frame_set(frame, HM_FRAME_VISIBLE | HM_FRAME_COLOUR | HM_FRAME_TIME, &props);
}

/* The decoder's picture becomes the caller's frame. */
static int deliver(struct hm_video *video, struct hm_frame **ret_frame)
{
	struct hm_frame *frame;
	bool repeated = false;
	int r;

	frame = video_memory_deliver(&video->memory, video->picture, &repeated);
	if (!frame) {
		r = copy_picture(video, &frame);
		if (r)
			return r;
	}
	/* Whoever has the frame already may be looking at its facts. */
	if (repeated) {
		video->info.repeated++;
	} else {
		r = set_facts(video, frame);
		if (r) {
			hm_frame_unref(frame);
			return r;
		}
	}
	*ret_frame = frame;
	return 0;
}

static bool is_damaged(const AVFrame *picture)
{
	return picture->decode_error_flags || picture->flags & AV_FRAME_FLAG_CORRUPT;
}

static int decode_read(struct hm_video *video, struct hm_frame **ret_frame)
{
	int error, r;

	for (;;) {
		error = avcodec_receive_frame(video->decoder, video->picture);
		if (!error && is_damaged(video->picture)) {
			av_frame_unref(video->picture);
			keep_damage(video, AVERROR_INVALIDDATA, "a picture is damaged");
			break;
		}
		if (!error) {
			r = deliver(video, ret_frame);
			av_frame_unref(video->picture);
			return r;
		}
		if (error == AVERROR_EOF)
			break;
		if (error != AVERROR(EAGAIN)) {
			/* What else the decoder has comes first, and an end after that. */
			keep_damage(video, error, "the decoder fails");
			if (video->drained)
				break;
			drain(video);
			continue;
		}
		feed(video);
	}
	keep_refused(video);
	if (video->later.r)
		return tell_damage(video);
	if (!video->info.pictures)
		return hm_error_set(-EBADMSG, "%s: no picture of its video can be decoded",
				    video->input);
	return hm_error_set(-ENODATA, "%s: the video has ended", video->input);
}

static const struct source decoded = { decode_read, decode_close, NULL };

int decode_open(struct hm_video *video)
{
	int r;

	video->source = &decoded;
	video->last_end = AV_NOPTS_VALUE;
	r = open_demuxer(video);
	if (!r)
		r = open_decoder(video);
	if (!r)
		r = announce(video);
	if (r)
		decode_close(video);
	return r;
}
