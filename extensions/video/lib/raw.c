// SPDX-License-Identifier: MIT
/*
 * Uncompressed pictures: YUV4MPEG2 (.y4m) and raw files. Rows are read straight into the planes
 * of a frame.
 */
#include "video.h"

#include <errno.h>
#include <libavutil/imgutils.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAGIC "YUV4MPEG2"
#define LINE_MOST 1024
#define SIDE_MOST 65536
#define STRIDE 64

/* ---- what the pictures are ---- */

static bool take_size(const char *text, char **ret_end, uint32_t *ret_size)
{
	unsigned long size = strtoul(text, ret_end, 10);

	if (*ret_end == text || *text == '-' || *text == '+' || !size || size > SIDE_MOST)
		return false;
	*ret_size = (uint32_t)size;
	return true;
}

/* "25", "30000/1001", "30000:1001" */
static bool take_rate(const char *text, struct hm_video_info *info)
{
	unsigned long num, den = 1;
	char *end;

	num = strtoul(text, &end, 10);
	if (end == text)
		return false;
	if (*end == '/' || *end == ':')
		den = strtoul(end + 1, &end, 10);
	if ((*end && *end != ' ') || num > 1000000000 || den > 1000000000)
		return false;
	info->rate_num = num && den ? (uint32_t)num : 0;
	info->rate_den = num && den ? (uint32_t)den : 1;
	return true;
}

bool raw_take_size(const char *text, struct hm_video_info *info)
{
	char *end = NULL;

	if (!take_size(text, &end, &info->width) || *end != 'x' ||
	    !take_size(end + 1, &end, &info->height))
		return false;
	return !*end || (*end == '@' && take_rate(end + 1, info));
}

/* "yuv420p:640x480@25" */
static int take_format(struct hm_video *video, const char *text)
{
	const char *colon = strchr(text, ':');
	struct hm_video_info *info = &video->info;

	if (!colon)
		goto wrong;
	video->format = format_by_name(text, (size_t)(colon - text));
	if (video->format == AV_PIX_FMT_NONE)
		return hm_error_set(-EOPNOTSUPP,
				    "format \"%.*s\" of a raw video: none that frames have, as "
				    "yuv420p, nv12, p010le, yuyv422",
				    (int)(colon - text), text);
	info->rate_num = 25;
	info->rate_den = 1;
	if (raw_take_size(colon + 1, info))
		return 0;
wrong:
	return hm_error_set(-EINVAL,
			    "format \"%s\" of a raw video is not FORMAT:WIDTHxHEIGHT[@RATE], "
			    "as in yuv420p:640x480@25",
			    text);
}

/* A line of at most LINE_MOST bytes, without its end. */
static bool read_line(FILE *file, char line[LINE_MOST])
{
	size_t n = 0;
	int c;

	while ((c = getc(file)) != EOF && c != '\n' && n < LINE_MOST - 1)
		line[n++] = (char)c;
	line[n] = '\0';
	return c == '\n';
}

static bool take_chroma(struct hm_video *video, const char *name)
{
	static const struct {
		const char *name;
		enum AVPixelFormat format;
		uint32_t chroma;
	} kinds[] = {
		{ "420", AV_PIX_FMT_YUV420P, 2 },      { "420jpeg", AV_PIX_FMT_YUV420P, 2 },
		{ "420mpeg2", AV_PIX_FMT_YUV420P, 1 }, { "420paldv", AV_PIX_FMT_YUV420P, 3 },
		{ "422", AV_PIX_FMT_YUV422P, 0 },      { "444", AV_PIX_FMT_YUV444P, 0 },
		{ "mono", AV_PIX_FMT_GRAY8, 0 },
	};
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(name, kinds[i].name)) {
			video->format = kinds[i].format;
			video->props.chroma = kinds[i].chroma;
			return true;
		}
	return false;
}

static int take_header(struct hm_video *video, char *line)
{
	struct hm_video_info *info = &video->info;
	char *rest = NULL, *word, *end;
	bool good = true;

	take_chroma(video, "420");
	strtok_r(line, " ", &rest);
	while ((word = strtok_r(NULL, " ", &rest))) {
		if (*word == 'W')
			good &= take_size(word + 1, &end, &info->width) && !*end;
		else if (*word == 'H')
			good &= take_size(word + 1, &end, &info->height) && !*end;
		else if (*word == 'F')
			good &= take_rate(word + 1, info);
		else if (*word == 'C' && !take_chroma(video, word + 1))
			return hm_error_set(-EOPNOTSUPP,
					    "%s: frames have no format for its "
					    "pictures, %s",
					    video->input, word);
		else if (!strcmp(word, "XCOLORRANGE=FULL"))
			video->props.range = HM_FRAME_RANGE_FULL;
		else if (!strcmp(word, "XCOLORRANGE=LIMITED"))
			video->props.range = HM_FRAME_RANGE_LIMITED;
	}
	if (!good || !info->width || !info->height)
		return hm_error_set(-EBADMSG,
				    "%s: the header of a .y4m file has no right "
				    "width, height and rate",
				    video->input);
	return 0;
}

bool raw_is_y4m(const char *input)
{
	char begin[sizeof(MAGIC)] = "";
	struct stat status;
	bool is = false;
	FILE *file;

	/* A FIFO's bytes are read once, by whoever opens it. */
	if (stat(input, &status) || !S_ISREG(status.st_mode))
		return false;
	file = fopen(input, "re");
	if (!file)
		return false;
	if (fread(begin, 1, sizeof(MAGIC) - 1, file) == sizeof(MAGIC) - 1)
		is = !strcmp(begin, MAGIC);
	fclose(file);
	return is;
}

static void raw_close(struct hm_video *video)
{
	if (video->file)
		fclose(video->file);
	video->file = NULL;
}

/* ---- reading ---- */

static int truncated(const struct hm_video *video)
{
	if (ferror(video->file))
		return hm_error_set(-EIO, "%s can't be read: %s", video->input,
				    strerror(errno));
	return hm_error_set(-EBADMSG, "%s ends within a picture after picture %llu",
			    video->input, (unsigned long long)video->info.pictures);
}

/* Is there a further picture? 0, -ENODATA, -EBADMSG or -EIO. */
static int next_picture(struct hm_video *video)
{
	char line[LINE_MOST];
	int c = getc(video->file);

	if (c == EOF && !ferror(video->file))
		return hm_error_set(-ENODATA, "%s: the video has ended", video->input);
	if (c == EOF)
		return truncated(video);
	ungetc(c, video->file);
	if (!video->y4m)
		return 0;
	if (!read_line(video->file, line))
		return truncated(video);
	if (strncmp(line, "FRAME", 5) != 0 || (line[5] && line[5] != ' '))
		return hm_error_set(-EBADMSG, "%s: no FRAME follows after picture %llu",
				    video->input, (unsigned long long)video->info.pictures);
	return 0;
}

static int rows_of(const struct hm_video *video, uint32_t plane)
{
	const AVPixFmtDescriptor *format = av_pix_fmt_desc_get(video->format);
	int height = (int)video->info.height;

	return plane == 1 || plane == 2 ? AV_CEIL_RSHIFT(height, format->log2_chroma_h) :
					  height;
}

static int read_planes(struct hm_video *video, const struct hm_frame_info *info)
{
	uint32_t i;
	int row;

	for (i = 0; i < info->n_planes; i++) {
		int bytes =
			av_image_get_linesize(video->format, (int)video->info.width, (int)i);
		unsigned char *to = info->address[i];

		for (row = rows_of(video, i); row; row--, to += info->plane[i].stride)
			if (fread(to, 1, (size_t)bytes, video->file) != (size_t)bytes)
				return truncated(video);
	}
	return 0;
}

static void need_of(const struct hm_video *video, struct need *ret_need)
{
	*ret_need = (struct need){
		.fourcc = video->info.fourcc,
		.width = video->info.width,
		.height = video->info.height,
		.visible_width = video->info.width,
		.visible_height = video->info.height,
		.stride = STRIDE,
	};
}

static int raw_read(struct hm_video *video, struct hm_frame **ret_frame)
{
	struct hm_frame_props props = video->props;
	struct hm_frame_info info;
	struct hm_frame *frame;
	struct need need;
	uint64_t bytes;
	int r, ended;

	r = next_picture(video);
	if (r)
		return r;
	need_of(video, &need);
	r = video_memory_acquire(&video->memory, &need, &frame, &info);
	if (r)
		return r;
	bytes = hm_map_length(info.map[0]);
	r = hm_map_begin_cpu(info.map[0], 0, bytes, HM_WRITE);
	if (r)
		goto err_unref;
	r = read_planes(video, &info);
	ended = r ? 0 : hm_map_end_cpu(info.map[0], 0, bytes, HM_WRITE);
	if (r) {
		/* The text is that of the file. */
		struct failure failure = { 0 };

		failure_keep(&failure, r);
		hm_map_end_cpu(info.map[0], 0, bytes, HM_WRITE);
		r = failure_tell(&failure);
		goto err_unref;
	}
	r = ended;
	if (r)
		goto err_unref;
	props.visible.width = video->info.width;
	props.visible.height = video->info.height;
	props.timestamp = (int64_t)video->info.pictures;
	props.duration = 1;
	r = hm_frame_set(frame, HM_FRAME_VISIBLE | HM_FRAME_COLOUR | HM_FRAME_TIME, &props);
	if (r)
		goto err_unref;
	*ret_frame = frame;
	return 0;
err_unref:
	hm_frame_unref(frame);
	return r;
}

static const struct source uncompressed = { raw_read, raw_close, NULL };

int raw_open(struct hm_video *video, const char *format)
{
	struct hm_video_info *info = &video->info;
	char line[LINE_MOST];
	struct stat status;
	struct need need;
	int r;

	video->source = &uncompressed;
	video->y4m = !format;
	info->in_place = 1;
	snprintf(info->decoder, sizeof(info->decoder), "%s", format ? "raw" : "y4m");
	r = format ? take_format(video, format) : 0;
	if (r)
		return r;
	video->file = fopen(video->input, "re");
	if (!video->file)
		return hm_error_set(-errno, "%s: %s", video->input, strerror(errno));
	/* fopen() opens a folder, whose first byte can't be read. */
	if (!fstat(fileno(video->file), &status) && S_ISDIR(status.st_mode))
		r = hm_error_set(-EISDIR, "%s is a directory", video->input);
	else if (!format && !read_line(video->file, line))
		r = hm_error_set(-EBADMSG, "%s: its first line has no end", video->input);
	else if (!format)
		r = take_header(video, line);
	if (r)
		goto err_close;
	info->fourcc = format_fourcc(video->format);
	/* H.273: 2 is unknown. */
	video->props.primaries = video->props.transfer = video->props.matrix = 2;
	if (format_is_full(video->format))
		video->props.range = HM_FRAME_RANGE_FULL;
	video->props.time_base_num = info->rate_num ? info->rate_den : 1;
	video->props.time_base_den = info->rate_num ? info->rate_num : 25;
	need_of(video, &need);
	r = video_memory_prepare(&video->memory, &need);
	if (r)
		goto err_close;
	return 0;
err_close:
	raw_close(video);
	return r;
}
