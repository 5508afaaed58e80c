// SPDX-License-Identifier: MIT
/* Output of hetmap run video: a line while it runs, and the result. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/command.h"
#include "common/text.h"
#include "pipeline.h"

#define REDRAW_SECONDS 0.2

static double drawn; /* when, last; 0: nothing is on the screen */

static double rate(const struct pipeline *p, double until)
{
	double seconds = until - p->begin;

	return seconds > 0 ? (double)p->pictures / seconds : 0;
}

void live_line(struct pipeline *p)
{
	char pictures[TEXT_MAX], middle[TEXT_MAX], late[TEXT_MAX];
	double now = pipeline_now();
	uint64_t dropped;

	if (output.quiet || now - (drawn > 0 ? drawn : p->begin) < REDRAW_SECONDS ||
	    !isatty(STDERR_FILENO))
		return;
	drawn = now;
	pthread_mutex_lock(&p->lock);
	dropped = p->dropped;
	pthread_mutex_unlock(&p->lock);
	fprintf(stderr,
		"\r%s pictures  %.1f a second  latency %s p50, %s p99  %" PRIu64
		" dropped  %" PRIu64 " bytes copied\033[K",
		text_count(p->pictures, pictures), rate(p, now),
		text_seconds(pipeline_latency(p, 0.5), middle),
		text_seconds(pipeline_latency(p, 0.99), late), dropped,
		p->bytes_converted + p->sink.bytes_copied);
	fflush(stderr);
}

void live_line_end(void)
{
	if (drawn > 0)
		fputs("\r\033[K", stderr);
	drawn = 0;
}

const char *report_fourcc(uint32_t fourcc, char text[FOURCC_TEXT])
{
	memcpy(text, &fourcc, 4);
	text[4] = '\0';
	text[strcspn(text, " ")] = '\0';
	return text;
}

/* As job_report.c has them. */
const char *report_way(uint32_t way)
{
	static const char *const names[] = {
		[HM_WAY_DIRECT] = "direct", [HM_WAY_SVM] = "svm",
		[HM_WAY_IMPORT] = "import", [HM_WAY_HOST_PTR] = "host_ptr",
		[HM_WAY_COPY] = "copy",
	};

	return way && way < sizeof(names) / sizeof(names[0]) ? names[way] : NULL;
}

static void report_display(const struct display_info *info)
{
	printf("  display      %s (%s), %ux%u, %u a second\n", info->card, info->driver,
	       info->width, info->height, info->rate);
	printf("  shown        %" PRIu64, info->shown);
	if (info->checked)
		printf(", %" PRIu64 " read back%s and right", info->checked,
		       info->writeback ? " by writeback" : "");
	puts("");
	if (info->imported)
		printf("  shown from   imported frames, unconverted: %" PRIu64 "\n",
		       info->imported);
	if (*info->not_imported)
		printf("  shown from   frames of the display: %s\n", info->not_imported);
}

static void report_text(struct pipeline *p)
{
	const struct hm_video_info *info = &p->video_info;
	char a[TEXT_MAX], b[TEXT_MAX], code[FOURCC_TEXT];
	char *name = text_escape(p->options->input);
	const char *way = report_way(p->way_in);

	printf("video: %s, %s, %ux%u %s, %s %s range%s\n\n", name, info->decoder, info->width,
	       info->height, report_fourcc(info->fourcc, code), p->colour.matrix,
	       p->colour.range, p->colour.guessed ? " (by its size)" : "");
	free(name);
	printf("  pictures     %s by %" PRIu64 " decoder%s", text_count(p->pictures, a),
	       p->options->decoders, p->options->decoders == 1 ? "" : "s");
	if (p->repeated)
		printf(", %s shown again", text_count(p->repeated, b));
	printf(", %s dropped", text_count(p->dropped, a));
	if (p->options->policy != POLICY_WAIT)
		printf(" (%s)", pipeline_policy_name(p->options->policy));
	putchar('\n');
	printf("  time         %s, %.1f pictures a second\n",
	       text_seconds(p->end - p->begin, a), rate(p, p->end));
	printf("  latency      %s p50, %s p99, from decoded to the end of the sink\n",
	       text_seconds(pipeline_latency(p, 0.5), a),
	       text_seconds(pipeline_latency(p, 0.99), b));
	printf("  bytes copied %s after the decoder", text_bytes(p->bytes_decoded, a));
	printf(", %s to and from the accelerator", text_bytes(p->bytes_converted, a));
	printf(",\n               %s in the sink\n", text_bytes(p->sink.bytes_copied, a));
	printf("  frames       %u of the decoder%s, %s", p->source_info.frames_peak,
	       p->options->decoders == 1 ? "" : "s",
	       text_bytes(p->source_info.frames_peak * p->source_info.layout.bytes, a));
	printf("; %u converted, %s\n", p->results_peak, text_bytes(p->results_bytes, a));
	printf("  device       %s\n", p->device_name);
	printf("  accelerator  %s%s%s\n", p->accel_info.name, way ? ", " : "", way ? way : "");
	if (info->memory)
		printf("  %s       %s\n", p->options->codec ? "codec " : "camera",
		       info->memory == HM_VIDEO_MEMORY_DMABUF ?
			       "writes into frames (dmabuf)" :
			       "frames are its driver's buffers (expbuf)");
	if (p->sink.display)
		report_display(&p->display_info);
	if (p->sink.folder) {
		name = text_escape(p->sink.folder);
		printf("  sink         PNG files in %s\n", name);
		free(name);
	}
	if (p->options->timeline) {
		name = text_escape(p->options->timeline);
		printf("  timeline     %s\n", name);
		free(name);
	}
}

static json_t *frames_json(uint32_t peak, uint64_t bytes)
{
	return json_pack("{s:I, s:I}", "peak", (json_int_t)peak, "bytes", (json_int_t)bytes);
}

static json_t *camera_json(uint32_t memory)
{
	return memory == HM_VIDEO_MEMORY_DMABUF ? json_string("dmabuf") :
	       memory == HM_VIDEO_MEMORY_EXPBUF ? json_string("expbuf") :
						  json_null();
}

static json_t *display_json(const struct display_info *info)
{
	json_t *object;

	object = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "card",
			   info->card, "driver", info->driver, "connector",
			   (json_int_t)info->connector, "crtc", (json_int_t)info->crtc, "plane",
			   (json_int_t)info->plane, "width", (json_int_t)info->width, "height",
			   (json_int_t)info->height, "rate", (json_int_t)info->rate, "shown",
			   (json_int_t)info->shown, "checked", (json_int_t)info->checked,
			   "imported", (json_int_t)info->imported);
	json_object_set_new(object, "not_imported",
			    *info->not_imported ? json_string(info->not_imported) :
						  json_null());
	json_object_set_new(object, "writeback", json_boolean(info->writeback));
	return object;
}

json_t *report_object(struct pipeline *p)
{
	const struct hm_video_info *info = &p->video_info;
	char code[FOURCC_TEXT];
	char *name = text_escape_json(p->options->input);
	json_t *object, *frames;
	const char *way = report_way(p->way_in);

	object = json_pack("{s:s, s:s, s:s, s:i, s:i, s:s, s:s, s:s, s:b}", "job", "video",
			   "file", name, "decoder", info->decoder, "width", (int)info->width,
			   "height", (int)info->height, "format",
			   report_fourcc(info->fourcc, code), "matrix", p->colour.matrix,
			   "range", p->colour.range, "colour_guessed", p->colour.guessed);
	free(name);
	json_object_set_new(object, "decoders", json_integer((json_int_t)p->options->decoders));
	json_object_set_new(object, "pictures", json_integer((json_int_t)p->pictures));
	json_object_set_new(object, "repeated", json_integer((json_int_t)p->repeated));
	json_object_set_new(object, "dropped", json_integer((json_int_t)p->dropped));
	json_object_set_new(object, "policy",
			    json_string(pipeline_policy_name(p->options->policy)));
	json_object_set_new(object, "seconds", json_real(p->end - p->begin));
	json_object_set_new(object, "frames_per_second", json_real(rate(p, p->end)));
	json_object_set_new(object, "latency_seconds",
			    json_pack("{s:f, s:f}", "p50", pipeline_latency(p, 0.5), "p99",
				      pipeline_latency(p, 0.99)));
	json_object_set_new(object, "bytes_copied",
			    json_pack("{s:I, s:I, s:I}", "decode", (json_int_t)p->bytes_decoded,
				      "convert", (json_int_t)p->bytes_converted, "sink",
				      (json_int_t)p->sink.bytes_copied));
	frames = json_object();
	json_object_set_new(
		frames, "decoded",
		frames_json(p->source_info.frames_peak,
			    p->source_info.frames_peak * p->source_info.layout.bytes));
	json_object_set_new(frames, "converted",
			    frames_json(p->results_peak, p->results_bytes));
	json_object_set_new(object, "frames", frames);
	json_object_set_new(object, "device", json_string(p->device_name));
	json_object_set_new(object, "accel", json_string(p->accel_info.name));
	json_object_set_new(object, "way_in", way ? json_string(way) : json_null());
	json_object_set_new(object, p->options->codec ? "codec" : "camera",
			    camera_json(info->memory));
	json_object_set_new(object, "display",
			    p->sink.display ? display_json(&p->display_info) : json_null());
	return object;
}

void report(struct pipeline *p)
{
	if (output.json)
		output_object(report_object(p));
	else
		report_text(p);
}
