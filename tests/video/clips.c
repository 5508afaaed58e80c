// SPDX-License-Identifier: MIT
/* Clips of ffmpeg's command, and a plain decoder beside the library's. */
#ifdef HAVE_VIDEO
#include "video/clips.h"

#include <errno.h>
#include <fcntl.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const clip_h264[] = { "-c:v", "libx264", "-pix_fmt", "yuv420p", "-g", "12", NULL };
const char *const clip_mjpeg[] = { "-c:v", "mjpeg", "-q:v", "3", NULL };
const char *const clip_vp9[] = {
	"-c:v", "libvpx-vp9", "-b:v", "1M", "-pix_fmt", "yuv420p", NULL
};
const char *const clip_mpeg2[] = { "-c:v", "mpeg2video", "-q:v", "3", NULL };
const char *const clip_y4m[] = { "-pix_fmt", "yuv420p", NULL };

static int run(char *const *argv)
{
	int status, null;
	pid_t pid = fork();

	if (!pid) {
		null = open("/dev/null", O_RDWR);
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		execvp(argv[0], argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

char *clip_make(const char *folder, const char *name, unsigned int width, unsigned int height,
		const char *const *options)
{
	char *path = folder_path(folder, name);
	char source[128];
	const char *argv[CLIP_ARGS + 12] = { "ffmpeg", "-v",    "error", "-y",
					     "-f",     "lavfi", "-i",    source };
	size_t n = 8;
	int status;

	/* testsrc2 has even sizes only. */
	snprintf(source, sizeof(source), "testsrc2=s=640x480:d=1:r=25,scale=%u:%u", width,
		 height);
	while (*options && n < CLIP_ARGS + 10)
		argv[n++] = *options++;
	argv[n++] = path;
	status = run((char *const *)argv);
	if (!status)
		return path;
	free(path);
	test_skip("video", "ffmpeg %s %s",
		  status == 127 ? "is not installed, for" : "can't make", name);
	return NULL;
}

uint64_t clip_length(const char *path)
{
	struct stat status;

	CHECK_FATAL(!stat(path, &status));
	return (uint64_t)status.st_size;
}

char *clip_cut(const char *folder, const char *name, const char *path, uint64_t length,
	       uint64_t wild)
{
	uint64_t all = clip_length(path), seed = test_seed(), i;
	unsigned char *bytes = malloc(all);
	FILE *file = fopen(path, "re");

	CHECK_FATAL(bytes && file && fread(bytes, 1, all, file) == all);
	fclose(file);
	for (i = length; i < length + wild && i < all; i++)
		bytes[i] = (unsigned char)test_random(&seed);
	file_write(folder, name, (const char *)bytes, wild ? all : length);
	free(bytes);
	return folder_path(folder, name);
}

struct hm_device *host_device(void)
{
	return rig_device("host");
}

struct hm_video_desc video_desc(struct hm_device *device)
{
	struct hm_video_desc desc = { .struct_size = sizeof(desc), .device = device };

	return desc;
}

struct hm_video *video_open(struct hm_device *device, const char *path)
{
	const struct hm_video_desc desc = video_desc(device);
	struct hm_video *video;

	CHECK_OK_FATAL(hm_video_open(path, &desc, &video));
	return video;
}

struct hm_video_info video_info(struct hm_video *video)
{
	struct hm_video_info info = { .struct_size = sizeof(info) };

	CHECK_OK(hm_video_query(video, &info));
	return info;
}

bool plain_open(struct plain *plain, const char *path)
{
	const AVCodec *codec = NULL;

	memset(plain, 0, sizeof(*plain));
	if (avformat_open_input(&plain->demuxer, path, NULL, NULL) < 0 ||
	    avformat_find_stream_info(plain->demuxer, NULL) < 0)
		return false;
	plain->stream =
		av_find_best_stream(plain->demuxer, AVMEDIA_TYPE_VIDEO, -1, -1, &codec, 0);
	if (plain->stream < 0)
		return false;
	plain->decoder = avcodec_alloc_context3(codec);
	plain->packet = av_packet_alloc();
	plain->picture = av_frame_alloc();
	return avcodec_parameters_to_context(
		       plain->decoder, plain->demuxer->streams[plain->stream]->codecpar) >= 0 &&
	       avcodec_open2(plain->decoder, codec, NULL) >= 0;
}

bool plain_next(struct plain *plain)
{
	int error;

	for (;;) {
		error = avcodec_receive_frame(plain->decoder, plain->picture);
		if (!error)
			return true;
		if (error != AVERROR(EAGAIN) || plain->drained)
			return false;
		error = av_read_frame(plain->demuxer, plain->packet);
		if (error < 0) {
			plain->drained = true;
			avcodec_send_packet(plain->decoder, NULL);
			continue;
		}
		if (plain->packet->stream_index == plain->stream)
			avcodec_send_packet(plain->decoder, plain->packet);
		av_packet_unref(plain->packet);
	}
}

void plain_close(struct plain *plain)
{
	avcodec_free_context(&plain->decoder);
	av_packet_free(&plain->packet);
	av_frame_free(&plain->picture);
	avformat_close_input(&plain->demuxer);
}

double psnr(const uint8_t *a, uint64_t a_stride, const uint8_t *b, uint64_t b_stride,
	    unsigned int width, unsigned int height)
{
	uint64_t sum = 0;
	unsigned int x, y;

	for (y = 0; y < height; y++)
		for (x = 0; x < 4 * width; x++) {
			int d = a[y * a_stride + x] - b[y * b_stride + x];

			if (x % 4 != 3)
				sum += (uint64_t)(d * d);
		}
	if (!sum)
		return 99;
	return 10 * log10(255.0 * 255.0 * 3 * width * height / (double)sum);
}

/* By its range's own name (yuvj420p) a format is full already. */
static enum AVPixelFormat without_range(enum AVPixelFormat format)
{
	switch (format) {
	case AV_PIX_FMT_YUVJ420P:
		return AV_PIX_FMT_YUV420P;
	case AV_PIX_FMT_YUVJ422P:
		return AV_PIX_FMT_YUV422P;
	case AV_PIX_FMT_YUVJ444P:
		return AV_PIX_FMT_YUV444P;
	default:
		return format;
	}
}

bool swscale_reference(const AVFrame *picture, int matrix, bool full, uint8_t *to, int stride)
{
	enum AVPixelFormat format = without_range(picture->format);
	const AVPixFmtDescriptor *described = av_pix_fmt_desc_get(format);
	/* Its direct conversions take even sizes; without one it would filter chroma. */
	int width = (picture->width + 1) & ~1, height = (picture->height + 1) & ~1;
	int flags = SWS_POINT;
	struct SwsContext *sws;
	int done;

	if (!described->log2_chroma_w || described->comp[0].depth > 8)
		flags |= SWS_FULL_CHR_H_INT | SWS_ACCURATE_RND;
	sws = sws_getContext(width, height, format, width, height, AV_PIX_FMT_BGR0, flags, NULL,
			     NULL, NULL);
	if (!sws)
		return false;
	sws_setColorspaceDetails(sws, sws_getCoefficients(matrix), full,
				 sws_getCoefficients(matrix), 1, 0, 1 << 16, 1 << 16);
	done = sws_scale(sws, (const uint8_t *const *)picture->data, picture->linesize, 0,
			 height, &to, &stride);
	sws_freeContext(sws);
	return done == height;
}
#else
/* Nothing: the build has no libavcodec. */
extern int clips_are_not_built;
int clips_are_not_built;
#endif
