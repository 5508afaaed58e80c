// SPDX-License-Identifier: MIT
/* hetmap run video: PNG files of a clip against libswscale, reports, and failures. */
#ifdef HAVE_VIDEO
#include <errno.h>
#include <libswscale/swscale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/support.h"
#include "video/clips.h"
#include "video/runs.h"

#define NO_OPENCL "OCL_ICD_VENDORS=/nonexistent"
#define DB 45.0

static const char *const h264_709[] = { "-c:v",        "libx264",      "-pix_fmt",
					"yuv420p",     "-color_range", "tv",
					"-colorspace", "bt709",        NULL };

/* ---- pictures ---- */

/* Compares each FOLDER/PATTERN, with a number from 1 on, with libswscale's picture of the clip. */
static void check_pictures(const char *clip, const char *folder, const char *pattern,
			   int matrix, bool full)
{
	uint8_t *ours, *reference;
	struct plain plain;
	unsigned int n = 0, width, height;
	char name[64], *path;
	int stride;
	double db;

	CHECK_FATAL(plain_open(&plain, clip));
	width = (unsigned int)plain.decoder->width;
	height = (unsigned int)plain.decoder->height;
	stride = (int)(4 * (width + 1) + 64);
	ours = calloc(height + 2, (size_t)stride);
	reference = calloc(height + 2, (size_t)stride);
	while (plain_next(&plain)) {
		CHECK(swscale_reference(plain.picture, matrix, full, reference, stride));
		snprintf(name, sizeof(name), pattern, ++n);
		path = folder_path(folder, name);
		if (!read_png(path, width, height, ours, stride)) {
			test_fail(__FILE__, __LINE__, "%s is no picture of %ux%u", path, width,
				  height);
			free(path);
			break;
		}
		free(path);
		db = psnr(ours, (uint64_t)stride, reference, (uint64_t)stride, width, height);
		if (db < DB)
			test_fail(__FILE__, __LINE__, "%s %s: %.1f dB", clip, name, db);
	}
	CHECK_EQUAL(n, 25);
	free(ours);
	free(reference);
	plain_close(&plain);
}

/* @sink: bytes that it copies: the rows that libpng takes. */
static void check_report(const json_t *json, unsigned int pictures, unsigned int sink)
{
	const json_t *copied = json_object_get(json, "bytes_copied");
	const json_t *latency = json_object_get(json, "latency_seconds");

	CHECK(!strcmp(string_of(json, "job"), "video"));
	CHECK_EQUAL(integer_of(json, "pictures"), pictures);
	CHECK_EQUAL(integer_of(json, "dropped"), 0);
	CHECK_EQUAL(integer_of(copied, "decode"), 0);
	CHECK_EQUAL(integer_of(copied, "convert"), 0);
	CHECK_EQUAL(integer_of(copied, "sink"), sink);
	CHECK(real_of(json, "frames_per_second") > 0);
	CHECK(real_of(latency, "p50") > 0);
	CHECK(real_of(latency, "p99") >= real_of(latency, "p50"));
}

/* A clip as PNG files, by an accelerator. */
static void end_to_end(const char *name, unsigned int width, unsigned int height,
		       const char *const *options, const char *accel, int matrix, bool full)
{
	AUTO_TEXT *folder = folder_make();
	AUTO_TEXT *clip = run_clip(folder, name, width, height, options);
	AUTO_TEXT *pictures = folder_path(folder, "pictures");
	char sink[256];
	json_t *json;

	if (clip) {
		snprintf(sink, sizeof(sink), "png:%s", pictures);
		json = run_video(&(const struct command){
			.args = { "run", "video", "--json", "--accel", accel, "--device",
				  "host", "--sink", sink, "--", clip },
		});
		check_report(json, 25, 25 * 4 * width * height);
		CHECK(!strcmp(string_of(json, "range"), full ? "full" : "limited"));
		CHECK(!strcmp(string_of(json, "matrix"),
			      matrix == SWS_CS_ITU709 ? "BT.709" : "BT.601"));
		json_decref(json);
		check_pictures(clip, pictures, "%06u.png", matrix, full);
	}
}

static void png_h264(void)
{
	end_to_end("clip.mp4", 320, 240, clip_h264, "cpu", SWS_CS_ITU601, false);
}

static void png_h264_709(void)
{
	end_to_end("clip.mp4", 322, 242, h264_709, "cpu", SWS_CS_ITU709, false);
}

static void png_mjpeg(void)
{
	end_to_end("clip.avi", ODD_WIDTH, ODD_HEIGHT, clip_mjpeg, "cpu", SWS_CS_ITU601, true);
}

static void png_vp9(void)
{
	end_to_end("clip.webm", ODD_WIDTH, ODD_HEIGHT, clip_vp9, "cpu", SWS_CS_ITU601, false);
}

static void png_opencl(void)
{
	if (have_opencl())
		end_to_end("clip.mp4", 320, 240, clip_h264, "opencl:0", SWS_CS_ITU601, false);
}

static void png_y4m(void)
{
	static const char *const y4m[] = { "-pix_fmt", "yuv420p", NULL };

	end_to_end("clip.y4m", ODD_WIDTH, ODD_HEIGHT, y4m, "cpu", SWS_CS_ITU601, false);
}

static void four_decoders(void)
{
	AUTO_TEXT *folder = folder_make();
	AUTO_TEXT *clip = run_clip(folder, "clip.mp4", 320, 240, clip_h264);
	AUTO_TEXT *pictures = folder_path(folder, "pictures");
	char sink[256];
	json_t *json, *frames;

	if (clip) {
		snprintf(sink, sizeof(sink), "png:%s", pictures);
		json = run_video(&(const struct command){
			.args = { "run", "video", "--json", "--accel", "cpu", "--decoders", "4",
				  "--device", "soft:0", "--sink", sink, clip },
		});
		check_report(json, 100, 100 * 4 * 320 * 240);
		CHECK_EQUAL(integer_of(json, "decoders"), 4);
		CHECK(!strcmp(string_of(json, "device"), "soft:0"));
		frames = json_object_get(json, "frames");
		CHECK(integer_of(json_object_get(frames, "converted"), "peak") <= 16);
		json_decref(json);
		check_pictures(clip, pictures, "decoder-1-%06u.png", SWS_CS_ITU601, false);
		check_pictures(clip, pictures, "decoder-4-%06u.png", SWS_CS_ITU601, false);
	}
}

static void text(void)
{
	AUTO_TEXT *folder = folder_make();
	AUTO_TEXT *clip = run_clip(folder, "clip.avi", 64, 48, clip_mjpeg);
	const struct command command = {
		.args = { "run", "video", "--accel", "cpu", "--frames", "7", clip },
	};
	AUTO(outcome) outcome = { 0 };

	if (clip) {
		CHECK_RUN(0, &outcome, &command);
		CHECK(!*outcome.err);
		CHECK(strstr(outcome.out, "mjpeg, 64x48 YU12, BT.601 full range"));
		CHECK(strstr(outcome.out, "7 by 1 decoder, 0 dropped"));
		CHECK(strstr(outcome.out, "0 bytes after the decoder"));
	}
}

/* ---- failures ---- */

static void usage(void)
{
	static const struct {
		const char *args[8];
		int status;
		const char *part;
	} cases[] = {
		{ { "run", "video" }, 2, "needs an input" },
		{ { "run", "video", "a", "b" }, 2, "one input at a time" },
		{ { "run", "video", "--sink", "screen", "/bin/sh" }, 2, "png:FOLDER or null" },
		{ { "run", "video", "--sink", "png:", "/bin/sh" }, 2, "png:FOLDER or null" },
		{ { "run", "video", "--decoders", "17", "a" }, 2, "from 1 to 16" },
		{ { "run", "video", "--policy", "drop", "a" }, 2, "drop-oldest or drop-newest" },
		{ { "run", "video", "--bench", "--decoders", "2", "a" }, 2, "one decoder" },
		{ { "run", "video", "--frames", "0", "a" }, 2, "a number from 1" },
		{ { "run", "video", "--threads", "65", "a" }, 2, "from 1 to 64" },
		{ { "run", "video", "/nonexistent" }, 2, "No such file" },
		{ { "run", "video", "/" }, 2, "is a directory" },
		{ { "run", "video", "/bin/sh" }, 1, "libavformat" },
		{ { "run", "video", "--format", "nv12", "/bin/sh" }, 2, "FORMAT:WIDTHxHEIGHT" },
		{ { "run", "video", "--device", "no:1", "/bin/sh" }, 3, "device" },
		{ { "run", "--json", "video", "a" }, 2, "" },
		{ { "run", "vidoe", "a" }, 2, "did you mean hetmap run video?" },
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct command command = { .env = { NO_OPENCL } };

		memcpy(command.args, cases[i].args, sizeof(cases[i].args));
		check_failure(&command, cases[i].status, cases[i].part);
	}
}

/* The pictures before the damage are in the folder, and the failure says how many. */
static void damaged(void)
{
	AUTO_TEXT *folder = folder_make();
	AUTO_TEXT *clip = run_clip(folder, "clip.mp4", 320, 240, clip_h264);
	char *part, *first, sink[256];
	AUTO(outcome) outcome = { 0 };
	struct stat status;
	json_t *json;

	if (clip) {
		part = clip_cut(folder, "wild.mp4", clip, clip_length(clip) / 2, 6000);
		snprintf(sink, sizeof(sink), "png:%s/pictures", folder);
		CHECK_RUN(1, &outcome,
			  &(const struct command){
				  .args = { "run", "video", "--json", "--accel", "cpu",
					    "--sink", sink, part },
			  });
		check_failure_json(&outcome, EBADMSG);
		json = outcome_json(&outcome);
		CHECK(strstr(string_of(json, "error"), "done)"));
		json_decref(json);
		first = folder_path(folder, "pictures/000001.png");
		CHECK(!stat(first, &status));
		free(first);
		free(part);
	}
}

/* The first picture's file is a folder: the text has the reason. */
static void unwritable(const char *folder, const char *clip)
{
	char sink[256];

	file_write(folder, "pictures/000001.png/x", "", 0);
	snprintf(sink, sizeof(sink), "png:%s/pictures", folder);
	check_failure(
		&(const struct command){
			.args = { "run", "video", "--accel", "cpu", "--sink", sink, clip },
		},
		3, "Is a directory");
}

/* A folder that can't be made, and a form that the kernel has not. */
static void elsewhere(void)
{
	AUTO_TEXT *folder = folder_make();
	AUTO_TEXT *clip = run_clip(folder, "clip.avi", 64, 48, clip_mjpeg);

	if (clip) {
		check_failure(
			&(const struct command){
				.args = { "run", "video", "--accel", "cpu", "--sink",
					  "png:/nonexistent/pictures", clip },
			},
			3, "cannot make the folder");
		check_failure(
			&(const struct command){
				.args = { "run", "video", "--accel", "cpu", "--sink",
					  "png:/dev/null", clip },
			},
			3, "Not a directory");
		unwritable(folder, clip);
		check_failure(
			&(const struct command){
				.args = { "run", "video", "--accel", "soft:0", clip },
			},
			3, "no form");
	}
}

/* A hetmap that has no libexec beside it says which package has the job. */
static void not_there(void)
{
	char *folder = folder_make(), own[512] = "", line[1200], text[512] = "";
	FILE *said;
	int status;

	CHECK_FATAL(readlink("/proc/self/exe", own, sizeof(own) - 1) > 0);
	*strrchr(own, '/') = '\0';
	snprintf(line, sizeof(line),
		 "cp '%s/../hetmap' %s/hetmap && %s/hetmap run video clip.mp4 2>&1", own,
		 folder, folder);
	said = popen(line, "re");
	CHECK_FATAL(said != NULL);
	CHECK(fread(text, 1, sizeof(text) - 1, said) > 0);
	status = pclose(said);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
	CHECK(strstr(text, "install the package hetmap-video"));
	folder_remove(folder);
}

static const struct test tests[] = {
	{ .name = "png.h264", png_h264, 60 },
	{ .name = "png.h264_709", png_h264_709, 60 },
	{ .name = "png.mjpeg", png_mjpeg, 60 },
	{ .name = "png.vp9", png_vp9, 60 },
	{ .name = "png.opencl", png_opencl, 120 },
	{ .name = "png.y4m", png_y4m, 60 },
	{ .name = "four_decoders", four_decoders, 120 },
	{ .name = "text", text, 60 },
	{ .name = "usage", usage, 60 },
	{ .name = "damaged", damaged, 60 },
	{ .name = "elsewhere", elsewhere, 60 },
	{ .name = "not_there", not_there, 60 },
	{ 0 },
};

int main(int argc, char **argv)
{
	av_log_set_level(AV_LOG_QUIET);
	return harness_main_once(argc, argv, "video_command", tests);
}
#else
#include "video/not_built.h"
#endif
