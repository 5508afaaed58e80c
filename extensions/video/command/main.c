// SPDX-License-Identifier: MIT
/* libexec/hetmap/video: what `hetmap run video` runs. */
#include <errno.h>
#include <libavutil/log.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"
#include "common/text.h"
#include "measure.h"
#include "pipeline.h"

enum {
	OPTION_DEVICE,
	OPTION_ACCEL,
	OPTION_SINK,
	OPTION_POLICY,
	OPTION_DECODERS,
	OPTION_FRAMES,
	OPTION_PACED,
	OPTION_FORMAT,
	OPTION_THREADS,
	OPTION_TIMELINE,
	OPTION_BENCH,
	OPTION_MEMORY,
	OPTION_CHECK,
	OPTION_CODEC,
	OPTION_JSON,
	OPTION_QUIET,
	OPTION_HELP,
};

static const struct option_row rows[] = {
	[OPTION_DEVICE] = OPTION_ROW_DEVICE("HETMAP_DEVICE, or host"),
	[OPTION_ACCEL] = OPTION_ROW_ACCEL("opencl:0, or cpu where there is none"),
	[OPTION_SINK] = { 0, "sink", "SINK",
			  "png:DIR writes each picture into the folder DIR;\n"
			  "display shows it on a screen, display:CARD on that of\n"
			  "a card, as /dev/dri/card0; null throws the pictures\n"
			  "away (default: null)" },
	[OPTION_POLICY] = { 0, "policy", "POLICY",
			    "what a sink that is too slow leads to: wait lets the\n"
			    "decoders wait; drop-oldest drops the picture that\n"
			    "waits longest for the sink, drop-newest the new one\n"
			    "(default: wait; for a camera drop-oldest)" },
	[OPTION_DECODERS] = { 0, "decoders", "N",
			      "decode INPUT N times at once, into one pool of\n"
			      "frames, 1 to 16 (default: 1)" },
	[OPTION_FRAMES] = { 0, "frames", "N",
			    "end after N pictures of each decoder (default: all)" },
	[OPTION_PACED] = { 0, "paced", NULL,
			   "convert each picture when it is due by the rate of the\n"
			   "video, not as soon as it is decoded" },
	[OPTION_FORMAT] = { 0, "format", "FORMAT:WxH",
			    "INPUT is raw: yuv420p:640x480, nv12:1920x1080@30; of a\n"
			    "camera: what it is set to (default: INPUT says what\n"
			    "it is)" },
	[OPTION_THREADS] = { 0, "threads", "N",
			     "threads of each decoder, 1 to 64 (default: one for\n"
			     "each CPU, at most 8)" },
	[OPTION_TIMELINE] = { 0, "timeline", "FILE",
			      "write a page for a browser: when each picture was\n"
			      "decoded, converted and in the sink" },
	[OPTION_BENCH] = { 0, "bench", NULL,
			   "measure the way of a picture, from decoded to\n"
			   "converted, in place and with copies; there is no sink" },
	[OPTION_MEMORY] = { 0, "memory", "WAY",
			    "how a camera shares memory: dmabuf, it writes into\n"
			    "frames; expbuf, its buffers become frames (default:\n"
			    "dmabuf, or else expbuf)" },
	[OPTION_CODEC] = { 0, "codec", "DEVICE",
			   "decode INPUT, a bare stream of the format that --format\n"
			   "names (FWHT, H264), by this device, as v4l2:/dev/video1\n"
			   "(default: libavcodec decodes)" },
	[OPTION_CHECK] = { 0, "check", NULL, "read back what the display shows, and compare" },
	[OPTION_JSON] = OPTION_ROW_JSON("print the result, or the failure, as JSON"),
	[OPTION_QUIET] = OPTION_ROW_QUIET,
	[OPTION_HELP] = OPTION_ROW_HELP,
	{ 0 },
};

static void usage(void)
{
	puts("Usage: hetmap run video [OPTION]... [--] INPUT\n"
	     "\n"
	     "Decodes a video straight into frames that the accelerator reads in place, has\n"
	     "each picture converted from YUV to XRGB, and gives the pictures to a sink. INPUT\n"
	     "is any file that libavcodec decodes, a .y4m file, raw pictures, or a camera,\n"
	     "v4l2:/dev/video0.\n"
	     "\n"
	     "Options:");
	option_help(rows);
	puts("\n"
	     "Examples:\n"
	     "  hetmap run video clip.mp4\n"
	     "  hetmap run video --sink png:pictures --frames 10 clip.mp4\n"
	     "  hetmap run video --decoders 4 --accel cpu --json clip.mkv\n"
	     "  hetmap run video --format nv12:1920x1080@30 dump.nv12\n"
	     "  hetmap run video --timeline clip.html clip.mp4\n"
	     "  hetmap run video --format NV12:640x480 --sink display v4l2:/dev/video0\n"
	     "\n"
	     "Exit status: 0 done; 1 a damaged file, or data lost under way; 2 usage, or a\n"
	     "missing file; 3 something is missing here; 128 + n on signal n.\n"
	     "See also hetmap-video(1).");
}

static bool take_policy(const char *name, uint32_t *ret_policy)
{
	uint32_t i;

	for (i = 0; pipeline_policy_name(i); i++)
		if (!strcmp(name, pipeline_policy_name(i))) {
			*ret_policy = i;
			return true;
		}
	return false;
}

static int take_value(const struct option_state *state, int option, void *user)
{
	struct pipeline_options *options = user;

	switch (option) {
	case OPTION_DEVICE:
		options->device = state->value;
		break;
	case OPTION_ACCEL:
		options->accel = state->value;
		break;
	case OPTION_SINK:
		if (!sink_is_known(state->value))
			return option_refuse(state, option,
					     "display, display:CARD, png:FOLDER or null");
		options->sink = state->value;
		break;
	case OPTION_POLICY:
		if (!take_policy(state->value, &options->policy))
			return option_refuse(state, option, "wait, drop-oldest or drop-newest");
		/* The numbers are those of enum hm_frame_policy. */
		options->camera_policy = options->policy;
		break;
	case OPTION_PACED:
		options->paced = true;
		break;
	case OPTION_FORMAT:
		options->format = state->value;
		break;
	case OPTION_DECODERS:
		if (option_number(state->value, 1, DECODERS_MOST, &options->decoders))
			return option_refuse(state, option, "a number from 1 to 16");
		break;
	case OPTION_FRAMES:
		if (option_number(state->value, 1, INT64_MAX, &options->frames))
			return option_refuse(state, option, "a number from 1");
		break;
	case OPTION_THREADS:
		if (option_number(state->value, 1, 64, &options->threads))
			return option_refuse(state, option, "a number from 1 to 64");
		break;
	case OPTION_TIMELINE:
		options->timeline = state->value;
		break;
	case OPTION_BENCH:
		options->bench = true;
		break;
	case OPTION_MEMORY:
		if (!strcmp(state->value, "dmabuf"))
			options->memory = HM_VIDEO_DMABUF;
		else if (!strcmp(state->value, "expbuf"))
			options->memory = HM_VIDEO_EXPBUF;
		else
			return option_refuse(state, option, "dmabuf or expbuf");
		break;
	case OPTION_CODEC:
		options->codec = state->value;
		break;
	case OPTION_CHECK:
		options->check = true;
		break;
	default:
		break;
	}
	return 0;
}

static int take_input(const struct option_state *state, void *user)
{
	struct pipeline_options *options = user;

	if (options->input)
		return fail(STATUS_USAGE, EINVAL, "hetmap run video clip.mp4",
			    "run: video takes one input at a time");
	options->input = state->value;
	return 0;
}

static int write_timeline(struct pipeline *pipeline)
{
	json_t *object;
	int status;

	if (!pipeline->timeline)
		return 0;
	object = report_object(pipeline);
	status = timeline_write(pipeline->timeline, object, (uint64_t)(pipeline->begin * 1e9));
	json_decref(object);
	return status;
}

static int run_pipeline(struct pipeline *pipeline)
{
	int status = pipeline_run(pipeline);

	/* First what can fail: one object is printed with --json. */
	if (!status)
		status = write_timeline(pipeline);
	if (!status)
		report(pipeline);
	return status;
}

static int run(const struct pipeline_options *options)
{
	static struct pipeline pipeline;
	int status;

	/* Opening a pipe may last until someone writes into it. */
	signals_end_at_once(true);
	status = pipeline_open(&pipeline, options);
	signals_end_at_once(false);
	if (!status)
		status = options->bench ? measure_run(&pipeline) : run_pipeline(&pipeline);
	pipeline_close(&pipeline);
	return status;
}

static int video_main(int argc, char **argv)
{
	static const struct option_table table = {
		.command = "run",
		.rows = rows,
		.usage = usage,
		.option = take_value,
		.argument = take_input,
	};
	struct pipeline_options options = { .sink = "null",
					    .decoders = 1,
					    .camera_policy = HM_FRAME_DROP_OLDEST };
	int status;

	if (!option_walk(&table, argc, argv, &options, &status))
		return status;
	if (!options.input)
		return fail(STATUS_USAGE, EINVAL, "hetmap run video clip.mp4",
			    "run: video needs an input");
	if (options.bench && (options.decoders > 1 || options.timeline || options.policy ||
			      options.paced || strcmp(options.sink, "null") != 0))
		return fail(STATUS_USAGE, EINVAL, NULL,
			    "run: --bench has one decoder and no sink, no timeline, no policy, "
			    "no pace");
	if (options.decoders > 1 && options.codec)
		return fail(STATUS_USAGE, EINVAL, NULL,
			    "run: --codec decodes once, and --decoders is %llu",
			    (unsigned long long)options.decoders);
	if (options.decoders > 1 && !strncmp(options.input, "v4l2:", 5))
		return fail(STATUS_USAGE, EINVAL, "hetmap run video v4l2:/dev/video0",
			    "run: a camera has one reader, and --decoders is %llu",
			    (unsigned long long)options.decoders);
	return run(&options);
}

int main(int argc, char **argv)
{
	output_init();
	output_scan_json(argc, argv);
	signals_init();
	/* Failures say what went wrong, in one line. */
	av_log_set_level(AV_LOG_QUIET);
	return output_finish(video_main(argc, argv));
}
