// SPDX-License-Identifier: MIT
/* hetmap run video: dropped pictures, larger ones, its timeline, its bench, signals. */
#ifdef HAVE_VIDEO
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/support.h"
#include "video/clips.h"
#include "video/runs.h"

/* A picture is in a file or dropped, and the files that are there are the newest, or the first. */
static void policies(void)
{
	static const char *const names[] = { "wait", "drop-oldest", "drop-newest" };
	AUTO_TEXT *folder = folder_make();
	AUTO_TEXT *clip = run_clip(folder, "clip.avi", 640, 480, clip_mjpeg);
	char sink[256], name[64], *path;
	unsigned int i, n, files;
	struct stat status;
	json_t *json;

	for (i = 0; clip && i < 3; i++) {
		snprintf(sink, sizeof(sink), "png:%s/%s", folder, names[i]);
		json = run_video(&(const struct command){
			.args = { "run", "video", "--json", "--accel", "cpu", "--policy",
				  names[i], "--sink", sink, clip },
		});
		CHECK(!strcmp(string_of(json, "policy"), names[i]));
		CHECK_EQUAL(integer_of(json, "pictures") + integer_of(json, "dropped"), 25);
		if (!i)
			CHECK_EQUAL(integer_of(json, "dropped"), 0);
		for (n = 1, files = 0; n <= 25; n++) {
			snprintf(name, sizeof(name), "%s/%06u.png", names[i], n);
			path = folder_path(folder, name);
			files += !stat(path, &status);
			free(path);
		}
		CHECK_EQUAL(files, integer_of(json, "pictures"));
		/* The last picture is never the oldest; the first one is always taken. */
		snprintf(name, sizeof(name), "%s/%06u.png", names[i], i == 1 ? 25 : 1);
		path = folder_path(folder, name);
		CHECK(!stat(path, &status));
		free(path);
		json_decref(json);
	}
}

/* 25 pictures of a clip of a second are not done before the second is over. */
static void paced(void)
{
	AUTO_TEXT *folder = folder_make();
	AUTO_TEXT *clip = run_clip(folder, "clip.mp4", 320, 240, clip_h264);
	json_t *json;

	if (clip) {
		json = run_video(
			&(const struct command){ .args = { "run", "video", "--json", "--accel",
							   "cpu", "--paced", clip } });
		CHECK_EQUAL(integer_of(json, "pictures"), 25);
		CHECK(real_of(json, "seconds") >= 1);
		json_decref(json);
		check_failure(&(const struct command){ .args = { "run", "video", "--bench",
								 "--paced", clip } },
			      2, "no pace");
	}
}

/* Pictures that become larger: new results for one decoder, and no room in shared frames. */
static void grows(void)
{
	AUTO_TEXT *folder = folder_make(), *both = folder_path(folder, "both.mjpeg");
	AUTO_TEXT *small = run_clip(folder, "a.mjpeg", 64, 48, clip_mjpeg);
	AUTO_TEXT *large = run_clip(folder, "b.mjpeg", 320, 240, clip_mjpeg);
	const int stride = 4 * 320 + 64;
	uint8_t *pixels = calloc(240 + 2, (size_t)stride);
	char sink[256], *text[2], *path;
	AUTO(json_t) *json = NULL;

	if (!small || !large)
		goto out;
	text[0] = file_text(small);
	text[1] = file_text(large);
	text[0] = realloc(text[0], clip_length(small) + clip_length(large));
	CHECK_FATAL(text[0] != NULL);
	memcpy(text[0] + clip_length(small), text[1], clip_length(large));
	file_write(folder, "both.mjpeg", text[0], clip_length(small) + clip_length(large));
	free(text[0]);
	free(text[1]);
	snprintf(sink, sizeof(sink), "png:%s/pictures", folder);
	json = run_video(&(const struct command){
		.args = { "run", "video", "--json", "--accel", "cpu", "--sink", sink, both },
	});
	CHECK_EQUAL(integer_of(json, "pictures"), 50);
	path = folder_path(folder, "pictures/000025.png");
	CHECK(read_png(path, 64, 48, pixels, stride));
	free(path);
	path = folder_path(folder, "pictures/000050.png");
	CHECK(read_png(path, 320, 240, pixels, stride));
	free(path);
	check_failure(
		&(const struct command){
			.args = { "run", "video", "--accel", "cpu", "--decoders", "2", both },
		},
		3, "largest video");
out:
	free(pixels);
}

/* The data of a page. */
static json_t *data_of(const char *path)
{
	char *page = file_text(path), *begin, *end;
	json_t *data = NULL;

	begin = page ? strstr(page, "id=\"data\">") : NULL;
	end = begin ? strstr(begin, "</script>") : NULL;
	CHECK(end != NULL);
	if (end) {
		begin += strlen("id=\"data\">");
		data = json_loadb(begin, (size_t)(end - begin), 0, NULL);
	}
	free(page);
	return data;
}

/* Each picture meets its moments one after another; none is left out. */
static void check_moments(const json_t *row, unsigned int number)
{
	json_int_t before = 0, now;
	size_t i;

	CHECK_EQUAL(json_array_size(row), 10);
	CHECK_EQUAL(json_integer_value(json_array_get(row, 0)), 0);
	CHECK_EQUAL(json_integer_value(json_array_get(row, 1)), number);
	for (i = 2; i < 9; i++) {
		now = json_integer_value(json_array_get(row, i));
		if (now < before || !now)
			test_fail(__FILE__, __LINE__,
				  "picture %u: moment %zu at %lld after %lld", number, i,
				  (long long)now, (long long)before);
		before = now;
	}
	CHECK_EQUAL(json_integer_value(json_array_get(row, 9)), 0);
}

static void timeline(void)
{
	AUTO_TEXT *folder = folder_make(), *page = folder_path(folder, "page.html");
	AUTO_TEXT *clip = run_clip(folder, "clip.avi", 64, 48, clip_mjpeg);
	struct stat status;
	json_t *rows;
	AUTO(json_t) *json = NULL, *data = NULL;
	size_t i;

	if (!clip)
		return;
	json = run_video(&(const struct command){
		.args = { "run", "video", "--json", "--accel", "cpu", "--timeline", page,
			  clip },
	});
	data = data_of(page);
	CHECK_EQUAL(integer_of(json_object_get(data, "report"), "pictures"), 25);
	CHECK(json_equal(json_object_get(json_object_get(data, "report"), "frames"),
			 json_object_get(json, "frames")));
	rows = json_object_get(data, "pictures");
	CHECK_EQUAL(json_array_size(rows), 25);
	for (i = 0; i < json_array_size(rows); i++)
		check_moments(json_array_get(rows, i), (unsigned int)i + 1);
	/* After a failure there is none. */
	check_failure(
		&(const struct command){
			.args = { "run", "video", "--accel", "soft:0", "--timeline", page,
				  clip },
		},
		3, "no form");
	check_failure(
		&(const struct command){
			.args = { "run", "video", "--accel", "cpu", "--format", "nv12:64x48",
				  "--timeline", page, clip },
		},
		1, "ends within a picture");
	CHECK(stat(page, &status) && errno == ENOENT);
	check_failure(
		&(const struct command){
			.args = { "run", "video", "--accel", "cpu", "--timeline",
				  "/nonexistent/page.html", clip },
		},
		3, "No such file");
}

/* Without a limit for the time: test machines are busy. */
static void bench(void)
{
	AUTO_TEXT *folder = folder_make();
	AUTO_TEXT *clip = run_clip(folder, "clip.mp4", 322, 242, clip_h264);
	json_t *json;

	if (clip) {
		json = run_video(&(const struct command){
			.args = { "run", "video", "--json", "--bench", "--accel", "cpu", clip },
		});
		CHECK(!strcmp(string_of(json, "bench"), "frame_path"));
		CHECK_EQUAL(integer_of(json, "pictures"), 23);
		CHECK(real_of(json, "ratio") > 0);
		CHECK(real_of(json, "target") == 0.6);
		CHECK(real_of(json_object_get(json, "in_place_seconds"), "p50") > 0);
		CHECK_EQUAL(integer_of(json_object_get(json, "bytes_copied"), "in_place"), 0);
		CHECK(integer_of(json_object_get(json, "bytes_copied"), "with_copies") >=
		      2 * 322 * 242 * 3 / 2 + 322 * 242 * 4);
		json_decref(json);
		check_failure(
			&(const struct command){
				.args = { "run", "video", "--bench", "--frames", "2", "--accel",
					  "cpu", clip },
			},
			2, "needs more than 2 pictures");
	}
}

/* A signal ends it while it waits for someone to open a FIFO, and for bytes out of the FIFO. */
static void interrupted(void)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "fifo");
	const struct command command = {
		.args = { "run", "video", "--accel", "cpu", "--format", "nv12:64x48", path },
	};
	AUTO(outcome) outcome = { 0 };
	int fd = -1, i;
	pid_t pid;

	if (TEST_TSAN) {
		test_skip("sanitizer", "FFmpeg's libraries are not built for it");
		return;
	}
	CHECK_FATAL(!mkfifo(path, 0600));
	for (i = 0; i < 2; i++) {
		pid = command_start(&command);
		command_await(pid, SIGINT, NULL);
		if (i)
			fd = open(path, O_WRONLY | O_CLOEXEC);
		usleep(200000);
		CHECK(!kill(pid, SIGINT));
		command_wait(pid, &outcome);
		CHECK_EQUAL(outcome.status, 128 + SIGINT);
	}
	close(fd);
}

static const struct test tests[] = {
	{ .name = "paced", paced, 60 },
	{ .name = "policies", policies, 120 },
	{ .name = "grows", grows, 60 },
	{ .name = "timeline", timeline, 120 },
	{ .name = "bench", bench, 60 },
	{ .name = "interrupted", interrupted, 60 },
	{ 0 },
};

int main(int argc, char **argv)
{
	av_log_set_level(AV_LOG_QUIET);
	return harness_main_once(argc, argv, "video_pipeline", tests);
}
#else
#include "video/not_built.h"
#endif
