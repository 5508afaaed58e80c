// SPDX-License-Identifier: MIT
/*
 * Frames of a display: a dumb buffer of the card, which is a framebuffer there, and leaves as a
 * dma-buf that is imported as a frame.
 */
#include "display_inner.h"

#include <drm.h>
#include <drm_mode.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <hetmap/error.h>

static int failed(const struct display *display, const char *what)
{
	return hm_error_set(-errno, "%s (%s) %s: %s", display->info.card, display->info.driver,
			    what, strerror(errno));
}

/* ---- making ---- */

/* The device that the accelerator computes in, or else any map of a dma-buf. */
static int import(struct display *display, int fd, uint32_t stride, struct hm_frame **ret_frame)
{
	struct hm_frame_objects objects = {
		.struct_size = sizeof(objects),
		.fourcc = HM_FRAME_XRGB8888,
		.modifier = HM_FRAME_LINEAR,
		.width = display->info.width,
		.height = display->info.height,
		.n_planes = 1,
		.n_objects = 1,
		.fd = { fd, -1, -1, -1 },
	};

	objects.plane[0].stride = stride;
	if (display->device && !hm_frame_import(display->device, &objects, 0, ret_frame))
		return 0;
	return hm_frame_import(display->host, &objects, 0, ret_frame);
}

static int add_fb(struct display *display, const struct drm_mode_create_dumb *dumb,
		  uint32_t *ret_fb)
{
	const uint32_t handles[4] = { dumb->handle }, strides[4] = { dumb->pitch };
	const uint32_t offsets[4] = { 0 };
	const uint64_t modifiers[4] = { HM_FRAME_LINEAR };

	/* Drivers without modifiers have linear framebuffers only. */
	if (drmModeAddFB2WithModifiers(display->fd, dumb->width, dumb->height,
				       HM_FRAME_XRGB8888, handles, strides, offsets, modifiers,
				       ret_fb, DRM_MODE_FB_MODIFIERS) &&
	    drmModeAddFB2(display->fd, dumb->width, dumb->height, HM_FRAME_XRGB8888, handles,
			  strides, offsets, ret_fb, 0))
		return failed(display, "makes no framebuffer");
	return 0;
}

/* The handle may go then: the dma-buf and the framebuffer keep the memory. */
static int make_frame(struct display *display, const struct drm_mode_create_dumb *dumb,
		      struct display_frame *made)
{
	int r, fd;

	if (drmPrimeHandleToFD(display->fd, dumb->handle, DRM_CLOEXEC | DRM_RDWR, &fd))
		return failed(display, "does not export a frame");
	r = import(display, fd, dumb->pitch, &made->frame);
	close(fd);
	if (r)
		return r;
	r = display_frame_clear(made);
	if (!r)
		r = add_fb(display, dumb, &made->fb);
	if (r)
		hm_frame_unref(made->frame);
	return r;
}

int display_frame_clear(struct display_frame *frame)
{
	struct hm_frame_info info = { .struct_size = sizeof(info) };
	uint64_t bytes;
	int r;

	r = hm_frame_query(frame->frame, &info);
	if (r)
		return r;
	bytes = hm_map_length(info.map[0]);
	r = hm_map_begin_cpu(info.map[0], 0, bytes, HM_WRITE);
	if (r)
		return r;
	memset(info.address[0], 0, info.plane[0].stride * info.height);
	return hm_map_end_cpu(info.map[0], 0, bytes, HM_WRITE);
}

int display_frame_make(struct display *display, struct display_frame *ret_frame)
{
	struct drm_mode_create_dumb dumb = {
		.width = display->info.width,
		.height = display->info.height,
		.bpp = 32,
	};
	struct drm_mode_destroy_dumb destroy = { 0 };
	struct display_frame made = { 0 };
	int r;

	if (drmIoctl(display->fd, DRM_IOCTL_MODE_CREATE_DUMB, &dumb))
		return failed(display, "makes no frame");
	r = make_frame(display, &dumb, &made);
	destroy.handle = dumb.handle;
	drmIoctl(display->fd, DRM_IOCTL_MODE_DESTROY_DUMB, &destroy);
	if (r)
		return r;
	display->info.frames++;
	display->info.bytes += dumb.size;
	*ret_frame = made;
	return 0;
}

void display_frame_end(struct display *display, struct display_frame *frame)
{
	if (frame->fb)
		drmModeRmFB(display->fd, frame->fb);
	hm_frame_unref(frame->frame);
	memset(frame, 0, sizeof(*frame));
}

/* ---- reading back ---- */

/* The fourth byte is none of the picture's: a card may write back another one. */
static bool rows_differ(const uint32_t *a, const uint32_t *b, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if ((a[i] ^ b[i]) & 0xffffff)
			return true;
	return false;
}

static int compare(const struct display *display, const struct hm_frame_info *info,
		   const unsigned char *scanned, uint64_t stride)
{
	const struct hm_frame_rect *visible = &info->props.visible;
	const unsigned char *pixels = info->address[0];
	uint32_t row;

	for (row = 0; row < visible->height; row++)
		if (rows_differ((const void *)(pixels + row * info->plane[0].stride),
				(const void *)(scanned + row * stride), visible->width))
			return hm_error_set(-EIO,
					    "%s (%s): row %u of what the screen shows is not "
					    "the picture's",
					    display->info.card, display->info.driver, row);
	return 0;
}

/* Maps the framebuffer by its handle, as another program would. */
static void *map_fb(const struct display *display, const drmModeFB2 *fb, uint64_t bytes)
{
	struct drm_mode_map_dumb map = { .handle = fb->handles[0] };
	void *mapped;
	int fd;

	if (!drmIoctl(display->fd, DRM_IOCTL_MODE_MAP_DUMB, &map))
		return mmap(NULL, bytes, PROT_READ, MAP_SHARED, display->fd, (off_t)map.offset);
	/* The card maps no imported object: its dma-buf does. */
	if (drmPrimeHandleToFD(display->fd, fb->handles[0], DRM_CLOEXEC, &fd))
		return MAP_FAILED;
	mapped = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	return mapped;
}

static int compare_fb(struct display *display, const struct hm_frame_info *info,
		      const drmModeFB2 *fb)
{
	uint64_t bytes = fb->offsets[0] + (uint64_t)fb->pitches[0] * fb->height;
	unsigned char *scanned;
	int r;

	if (fb->pixel_format != info->fourcc || fb->height < info->props.visible.height ||
	    fb->width < info->props.visible.width)
		return hm_error_set(-EIO, "%s (%s) shows %ux%u of format %.4s",
				    display->info.card, display->info.driver, fb->width,
				    fb->height, (const char *)&fb->pixel_format);
	scanned = map_fb(display, fb, bytes);
	if (scanned == MAP_FAILED)
		return failed(display, "does not map what it shows");
	r = compare(display, info, scanned + fb->offsets[0], fb->pitches[0]);
	munmap(scanned, bytes);
	return r;
}

static int check_fb(struct display *display, const struct hm_frame_info *info)
{
	drmModeCrtc *crtc = drmModeGetCrtc(display->fd, display->info.crtc);
	drmModeFB2 *fb = NULL;
	int r;

	if (!crtc)
		return failed(display, "does not tell what it shows");
	if (crtc->buffer_id)
		fb = drmModeGetFB2(display->fd, crtc->buffer_id);
	drmModeFreeCrtc(crtc);
	if (!fb)
		return failed(display, "does not tell what it shows");
	r = fb->handles[0] ? compare_fb(display, info, fb) :
			     hm_error_set(-EACCES, "%s: only the master may read what it shows",
					  display->info.card);
	if (fb->handles[0])
		drmCloseBufferHandle(display->fd, fb->handles[0]);
	drmModeFreeFB2(fb);
	return r;
}

static int check(struct display *display, const struct hm_frame_info *info)
{
	const unsigned char *scanned;
	uint32_t stride;
	int r;

	if (!display->writeback.connector)
		return check_fb(display, info);
	r = display_writeback_read(display, &scanned, &stride);
	return r ? r : compare(display, info, scanned, stride);
}

int display_frame_check(struct display *display, struct hm_frame *frame)
{
	struct hm_frame_info info = { .struct_size = sizeof(info) };
	uint64_t bytes;
	int r;

	r = hm_frame_query(frame, &info);
	if (r)
		return r;
	if (info.fourcc != HM_FRAME_XRGB8888)
		return -EOPNOTSUPP;
	bytes = hm_map_length(info.map[0]);
	r = hm_map_begin_cpu(info.map[0], 0, bytes, HM_READ);
	if (r)
		return r;
	r = check(display, &info);
	if (r) {
		/* The text is that of the check: the end of a read changes nothing. */
		char text[400];

		snprintf(text, sizeof(text), "%s", hm_errmsg());
		hm_map_end_cpu(info.map[0], 0, bytes, HM_READ);
		return hm_error_set(r, "%s", text);
	}
	return hm_map_end_cpu(info.map[0], 0, bytes, HM_READ);
}
