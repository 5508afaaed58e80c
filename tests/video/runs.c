// SPDX-License-Identifier: MIT
/* Runs of the command, PNG files, texts of files. */
#ifdef HAVE_VIDEO
#include "video/runs.h"

#include <libswscale/swscale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "video/clips.h"

char *run_clip(const char *folder, const char *name, unsigned int width, unsigned int height,
	       const char *const *options)
{
	if (!TEST_TSAN)
		return clip_make(folder, name, width, height, options);
	test_skip("sanitizer", "FFmpeg's libraries are not built for it");
	return NULL;
}

json_t *run_video(const struct command *command)
{
	AUTO(outcome) outcome = { 0 };
	json_t *json = NULL;

	command_run(command, &outcome);
	if (outcome.status)
		test_fail(__FILE__, __LINE__, "status %d: %s%s", outcome.status, outcome.out,
			  outcome.err);
	else
		json = outcome_json(&outcome);
	return json;
}

void check_failure(const struct command *command, int status, const char *part)
{
	AUTO(outcome) outcome = { 0 };

	command_run(command, &outcome);
	if (outcome.status != status || !strstr(outcome.err, part))
		test_fail(__FILE__, __LINE__, "status %d, not %d, or no \"%s\" in: %s",
			  outcome.status, status, part, outcome.err);
}

bool read_png(const char *path, unsigned int width, unsigned int height, uint8_t *to,
	      int stride)
{
	struct SwsContext *sws = NULL;
	struct plain plain;
	const AVFrame *picture;
	bool done = false;

	if (plain_open(&plain, path) && plain_next(&plain)) {
		picture = plain.picture;
		if (picture->width == (int)width && picture->height == (int)height &&
		    picture->format == AV_PIX_FMT_RGB24)
			sws = sws_getContext(picture->width, picture->height, picture->format,
					     picture->width, picture->height, AV_PIX_FMT_BGR0,
					     SWS_POINT, NULL, NULL, NULL);
		if (sws)
			done = sws_scale(sws, (const uint8_t *const *)picture->data,
					 picture->linesize, 0, picture->height, &to,
					 &stride) == picture->height;
		sws_freeContext(sws);
	}
	plain_close(&plain);
	return done;
}

char *file_text(const char *path)
{
	FILE *file = fopen(path, "re");
	size_t length = clip_length(path);
	char *text = calloc(1, length + 1);

	CHECK_FATAL(file && text && fread(text, 1, length, file) == length);
	fclose(file);
	return text;
}
#else
/* Nothing: the build has no libavcodec. */
extern int runs_are_not_built;
int runs_are_not_built;
#endif
