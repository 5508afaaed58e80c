// SPDX-License-Identifier: MIT
/*
 * Sinks: none, PNG files and a display. libpng reads the rows of the frame where they are, and a
 * screen scans them out there.
 */
#include "sink.h"

#include <errno.h>
#include <inttypes.h>
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/command.h"
#include "common/text.h"

/* Pictures are many, and most of the time is libpng's: fast rather than small. */
#define COMPRESSION 1

#define DISPLAY "display"
#define DISPLAY_CARD "display:"

bool sink_is_known(const char *name)
{
	return !strcmp(name, "null") || !strcmp(name, DISPLAY) ||
	       (!strncmp(name, "png:", 4) && name[4]) ||
	       (!strncmp(name, DISPLAY_CARD, sizeof(DISPLAY_CARD) - 1) &&
		name[sizeof(DISPLAY_CARD) - 1]);
}

/* A folder that can be written to, before anything is decoded for it. 0 or an errno. */
static int make_folder(const char *path)
{
	struct stat status;

	if (!mkdir(path, 0777))
		return 0;
	if (errno != EEXIST || stat(path, &status))
		return errno;
	if (!S_ISDIR(status.st_mode))
		return ENOTDIR;
	return access(path, W_OK | X_OK) ? errno : 0;
}

static int fail_with(int error, const char *what, const char *path)
{
	char *shown = text_escape(path);
	int status = fail(STATUS_ENVIRONMENT, error, NULL, "cannot %s %s: %s", what, shown,
			  strerror(error));

	free(shown);
	return status;
}

static int open_display(struct sink *sink, const char *name, struct hm_device *device,
			bool check)
{
	const char *card = name[sizeof(DISPLAY) - 1] ? name + sizeof(DISPLAY_CARD) - 1 : NULL;
	int r = display_open(card, device, check, &sink->display);

	return r ? fail_library(STATUS_ENVIRONMENT, r,
				r == -EACCES ? "add the user to group video" : NULL,
				"cannot show pictures") :
		   0;
}

int sink_open(struct sink *sink, const char *name, struct hm_device *device, bool many,
	      bool check)
{
	int error;

	*sink = (struct sink){ .many = many };
	if (!strcmp(name, "null"))
		return 0;
	if (!strncmp(name, DISPLAY, sizeof(DISPLAY) - 1))
		return open_display(sink, name, device, check);
	sink->folder = name + 4;
	error = make_folder(sink->folder);
	return error ? fail_with(error, "make the folder", sink->folder) : 0;
}

/* Does not return: libpng's way of an error. */
static void png_failed(png_structp png, png_const_charp message)
{
	(void)message;
	longjmp(*(jmp_buf *)png_get_error_ptr(png), 1);
}

static void png_warned(png_structp png, png_const_charp message)
{
	(void)png;
	(void)message;
}

/*
 * libpng copies each row into memory of its own, to which it adds the filter's byte. No variable
 * that counts changes between setjmp() and longjmp().
 */
static int write_rows(FILE *file, png_structp png, png_infop head,
		      const struct hm_frame_info *info, jmp_buf *failed, uint64_t *copied)
{
	const struct hm_frame_rect *visible = &info->props.visible;
	uint32_t row;

	if (setjmp(*failed))
		return -EIO;
	png_init_io(png, file);
	png_set_compression_level(png, COMPRESSION);
	png_set_filter(png, 0, PNG_FILTER_SUB);
	png_set_IHDR(png, head, visible->width, visible->height, 8, PNG_COLOR_TYPE_RGB,
		     PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
	png_write_info(png, head);
	/* XRGB8888 is B, G, R and a byte that is none. */
	png_set_bgr(png);
	png_set_filler(png, 0, PNG_FILLER_AFTER);
	for (row = 0; row < visible->height; row++) {
		png_write_row(png, (const unsigned char *)info->address[0] +
					   (visible->y + row) * info->plane[0].stride +
					   visible->x * 4ull);
		*copied += visible->width * 4ull;
	}
	png_write_end(png, head);
	return 0;
}

static int write_png(FILE *file, const struct hm_frame_info *info, uint64_t *copied)
{
	png_infop head = NULL;
	png_structp png;
	jmp_buf failed;
	int r;

	png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &failed, png_failed, png_warned);
	if (png)
		head = png_create_info_struct(png);
	if (!head) {
		png_destroy_write_struct(&png, NULL);
		return -ENOMEM;
	}
	r = write_rows(file, png, head, info, &failed, copied);
	png_destroy_write_struct(&png, &head);
	return r;
}

static int write_file(const char *path, const struct hm_frame_info *info, uint64_t *copied)
{
	FILE *file = fopen(path, "we");
	int r, error;

	if (!file)
		return fail_with(errno, "write", path);
	errno = 0;
	r = write_png(file, info, copied);
	/* The first failure's, not that of the end. */
	error = r && errno ? errno : -r;
	if (fclose(file) && !error)
		error = errno;
	if (!error)
		return 0;
	unlink(path);
	return fail_with(error, "write", path);
}

int sink_take(struct sink *sink, struct hm_frame *frame, unsigned int decoder, uint64_t number)
{
	struct hm_frame_info info = { .struct_size = sizeof(info) };
	uint64_t bytes;
	char *path;
	int r, status;

	if (sink->display) {
		r = display_show(sink->display, frame);
		return r ? fail_library(STATUS_WRONG, r, NULL, "cannot show a picture") : 0;
	}
	if (!sink->folder)
		return 0;
	r = hm_frame_query(frame, &info);
	if (r)
		return fail_library(STATUS_WRONG, r, NULL, "cannot ask a picture");
	bytes = hm_map_length(info.map[0]);
	r = hm_map_begin_cpu(info.map[0], 0, bytes, HM_READ);
	if (r)
		return fail_library(STATUS_WRONG, r, NULL, "cannot read a picture");
	if (sink->many)
		path = text_format("%s/decoder-%u-%06" PRIu64 ".png", sink->folder, decoder + 1,
				   number);
	else
		path = text_format("%s/%06" PRIu64 ".png", sink->folder, number);
	status = write_file(path, &info, &sink->bytes_copied);
	free(path);
	r = hm_map_end_cpu(info.map[0], 0, bytes, HM_READ);
	if (r && !status)
		status = fail_library(STATUS_WRONG, r, NULL, "cannot read a picture");
	return status;
}

void sink_close(struct sink *sink)
{
	display_close(sink->display);
	sink->display = NULL;
}
