// SPDX-License-Identifier: MIT
/*
 * frame_path: pictures on their way from a decoder to a converted picture, by the command of the
 * video extension, which measures: hetmap itself links no decoder.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "bench_folder.h"
#include "bench_options.h"
#include "common/command.h"
#include "common/extension.h"
#include "common/text.h"
#include "peer.h"
#include "program.h"

/* The command measures both sides: its source is the peer's. */
PEER_SOURCE_OF(peer_frames_source, "extensions/video/command/measure.c");

#define NAME "frame_path"
#define RAW_PICTURES (bench_options.small ? 5u : 42u)
#define SECONDS (bench_options.small ? 1 : 8)
#define RATE 25
#define LARGE_RATE 10
#define DECODERS 4
#define IN_FLIGHT 4 /* pictures of a decoder on their way to the sink */

struct frames {
	char *folder;
	char *hetmap;
	unsigned int width, height; /* of the large pictures */
	const json_t *samples;      /* of the side that is read */
	size_t at_ours, at_peer;
};

/* ---- files ---- */

/* A picture of NV12 that is another one each time. */
static bool write_picture(FILE *file, unsigned char *row, unsigned int width,
			  unsigned int height, unsigned int number)
{
	unsigned int x, y;

	for (y = 0; y < height + height / 2; y++) {
		for (x = 0; x < width; x++)
			row[x] = (unsigned char)(16 + (x + 3 * y + 7 * number) % 220);
		if (fwrite(row, width, 1, file) != 1)
			return false;
	}
	return true;
}

static int write_raw(const struct frames *f, const char *path)
{
	unsigned char *row = malloc(f->width);
	FILE *file = fopen(path, "we");
	bool done = row && file;
	unsigned int i;

	for (i = 0; done && i < RAW_PICTURES; i++)
		done = write_picture(file, row, f->width, f->height, i);
	if (file && fclose(file))
		done = false;
	free(row);
	return done ? 0 : -EIO;
}

/* A clip of H.264. False: no ffmpeg here makes one. */
static bool make_clip(const char *path, unsigned int width, unsigned int height, int rate)
{
	struct program_result result;
	char *source = text_format("testsrc2=s=%ux%u:r=%d:d=%d", width, height, rate, SECONDS);
	char *argv[] = {
		(char *)"ffmpeg",   (char *)"-v",      (char *)"error",   (char *)"-y",
		(char *)"-f",       (char *)"lavfi",   (char *)"-i",      source,
		(char *)"-c:v",     (char *)"libx264", (char *)"-preset", (char *)"veryfast",
		(char *)"-pix_fmt", (char *)"yuv420p", (char *)path,      NULL
	};
	bool done = !program_run(argv, &result) && !result.status;

	free(source);
	return done;
}

/* ---- runs ---- */

/*
 * The output of `hetmap run video --json OPTION... FILE`, with the words of @more; NULL: the
 * user was told that the case @name is skipped.
 */
static json_t *run_video(const struct frames *f, const char *name, const char *more,
			 const char *file)
{
	char *out = text_format("%s/out", f->folder);
	/* The words of $3 are ours, and have no blank of their own. */
	char *argv[] = {
		(char *)"sh",
		(char *)"-c",
		(char *)"exec \"$1\" run video --json --device host $3 -- \"$4\" >\"$2\"",
		(char *)"sh",
		f->hetmap,
		out,
		(char *)more,
		(char *)file,
		NULL
	};
	struct program_result result = { 0 };
	int r = program_run(argv, &result);
	json_t *object = NULL;

	if (!r && !result.status)
		object = json_load_file(out, 0, NULL);
	if (!object)
		bench_skip(name, "hetmap run video: %s",
			   r ? strerror(-r) :
			   *result.errors ?
			       result.errors :
			       "the command of hetmap-video fails or is not built");
	free(out);
	return object;
}

static double number_of(const json_t *object, const char *outer, const char *inner)
{
	return json_number_value(json_object_get(json_object_get(object, outer), inner));
}

/* ---- in place against copies ---- */

static int next_sample(const struct frames *f, const char *side, size_t *at, double *ret_ns)
{
	const json_t *all = json_object_get(f->samples, side);

	if (*at >= json_array_size(all))
		return -ENODATA;
	*ret_ns = json_number_value(json_array_get(all, (*at)++)) * 1e9;
	return 0;
}

static int ours(void *user, double *ret_ns)
{
	struct frames *f = user;

	return next_sample(f, "in_place", &f->at_ours, ret_ns);
}

static int peer(void *user, double *ret_ns)
{
	struct frames *f = user;

	return next_sample(f, "with_copies", &f->at_peer, ret_ns);
}

static int compare(struct frames *f, const char *accel, const char *file,
		   enum bench_target kind)
{
	char *name = text_format("%ux%u NV12 to XRGB, %s", f->width, f->height, accel);
	char *more = text_format("--bench --accel %s --format nv12:%ux%u", accel, f->width,
				 f->height);
	json_t *object = run_video(f, name, more, file);
	int r = 0;

	if (object) {
		f->samples = json_object_get(object, "samples");
		f->at_ours = f->at_peer = 0;
		r = bench_compare(
			&(const struct bench_pair){
				.name = name,
				.peer = "copied out, uploaded, converted, downloaded",
				.ours = ours,
				.peer_side = peer,
				.rounds = (unsigned int)json_array_size(
					json_object_get(f->samples, "in_place")),
			},
			f, "ms", 1e6, kind, 0.6);
	}
	json_decref(object);
	free(more);
	free(name);
	return r;
}

/* ---- decoded to the end of the sink ---- */

static void latency(struct frames *f, const char *name, const char *file,
		    enum bench_target kind)
{
	json_t *object = run_video(f, name, "--accel cpu --paced", file);

	if (object)
		bench_report(&(const struct bench_result){
			.name = name,
			.unit = "ms",
			.value = number_of(object, "latency_seconds", "p99") * 1e3,
			.peer = "their median",
			.peer_value = number_of(object, "latency_seconds", "p50") * 1e3,
			.kind = kind,
			.target = 5,
		});
	json_decref(object);
}

/* Frames of the decoders; a negative number: it was told that there are none. */
static double frames_of(struct frames *f, const char *name, const char *more, const char *file)
{
	json_t *object = run_video(f, name, more, file);
	double n = object ? number_of(json_object_get(object, "frames"), "decoded", "peak") :
			    -1;

	json_decref(object);
	return n;
}

static void count_frames(struct frames *f, const char *file)
{
	static const char name[] = "frames of 4 decoders on one pool";
	double one, all;

	one = frames_of(f, name, "--accel cpu", file);
	all = one < 0 ? -1 : frames_of(f, name, "--accel cpu --decoders 4", file);
	if (all >= 0)
		bench_report(&(const struct bench_result){
			.name = name,
			.unit = "frames",
			.value = all,
			.peer = "for each those of one, and 4 on their way",
			.peer_value = DECODERS * (one + IN_FLIGHT),
			.kind = TARGET_RATIO,
			.target = 1.1,
		});
}

static void clips(struct frames *f)
{
	const unsigned int width = bench_options.small ? 320 : 1920;
	const unsigned int height = bench_options.small ? 240 : 1080;
	char *small = text_format("%s/small.mp4", f->folder);
	char *large = text_format("%s/large.mp4", f->folder);
	char *small_name = text_format("%ux%u H.264, decoded to shown, p99", width, height);
	char *large_name =
		text_format("%ux%u H.264, decoded to shown, p99", f->width, f->height);

	if (!make_clip(small, width, height, RATE) ||
	    !make_clip(large, f->width, f->height, LARGE_RATE)) {
		bench_skip("decoded to shown", "no command ffmpeg with libx264 makes a clip");
	} else {
		latency(f, small_name, small, TARGET_VALUE);
		latency(f, large_name, large, TARGET_NONE);
		count_frames(f, small);
	}
	free(small_name);
	free(large_name);
	free(small);
	free(large);
}

int bench_frame_path(void)
{
	struct frames f = {
		.width = bench_options.small ? 640 : 3840,
		.height = bench_options.small ? 360 : 2160,
	};
	char *raw;
	int r;

	f.folder = bench_folder_make(NAME, MIB(700));
	if (!f.folder)
		return 0;
	f.hetmap = hetmap_path();
	raw = text_format("%s/raw.nv12", f.folder);
	r = f.hetmap ? write_raw(&f, raw) : -ENOENT;
	if (r)
		bench_fail(NAME, r, false);
	if (!r)
		r = compare(&f, "cpu", raw, TARGET_RATIO);
	if (!r)
		r = compare(&f, "opencl:0", raw, TARGET_NONE);
	if (!r)
		clips(&f);
	free(raw);
	free(f.hetmap);
	bench_folder_remove(f.folder);
	return r;
}
