// SPDX-License-Identifier: MIT
/* Cameras and screens of a machine under test. */
#ifdef HAVE_VIDEO
#include "video/screen.h"

#include <drm_mode.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/videodev2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xf86drm.h>
#include <xf86drmMode.h>

#include "lib/harness.h"

#define NODES 16

/* ---- cameras ---- */

static bool is_vivid(const char *path)
{
	struct v4l2_capability ask = { 0 };
	int fd = open(path, O_RDWR | O_CLOEXEC);
	bool is;

	if (fd < 0)
		return false;
	is = !ioctl(fd, VIDIOC_QUERYCAP, &ask) && !strcmp((const char *)ask.driver, "vivid") &&
	     ask.device_caps & V4L2_CAP_VIDEO_CAPTURE;
	close(fd);
	return is;
}

bool vivid_find(char path[PATH_ROOM])
{
	int i;

	for (i = 0; i < NODES; i++) {
		snprintf(path, PATH_ROOM, "/dev/video%d", i);
		if (is_vivid(path))
			return true;
	}
	test_skip("video", "there is no camera of the driver vivid");
	return false;
}

static bool find_control(int fd, const char *name, struct v4l2_queryctrl *control)
{
	memset(control, 0, sizeof(*control));
	control->id = V4L2_CTRL_FLAG_NEXT_CTRL;
	while (!ioctl(fd, VIDIOC_QUERYCTRL, control)) {
		if (!strcmp((const char *)control->name, name))
			return true;
		control->id |= V4L2_CTRL_FLAG_NEXT_CTRL;
	}
	return false;
}

static bool set_menu(int fd, const char *name, const char *item)
{
	struct v4l2_queryctrl control;
	struct v4l2_control set;
	struct v4l2_querymenu menu;
	int32_t i;

	if (!find_control(fd, name, &control))
		return false;
	for (i = control.minimum; i <= control.maximum; i++) {
		menu = (struct v4l2_querymenu){ .id = control.id, .index = (uint32_t)i };
		if (ioctl(fd, VIDIOC_QUERYMENU, &menu) ||
		    strcmp((const char *)menu.name, item) != 0)
			continue;
		set = (struct v4l2_control){ .id = control.id, .value = i };
		return !ioctl(fd, VIDIOC_S_CTRL, &set);
	}
	return false;
}

void vivid_show(const char *path, const char *pattern)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	CHECK_FATAL(fd >= 0);
	CHECK(set_menu(fd, "Test Pattern", pattern));
	CHECK(set_menu(fd, "OSD Text Mode", "None"));
	close(fd);
}

/* ---- screens ---- */

bool card_find(const char *driver, char path[PATH_ROOM])
{
	drmVersion *version;
	bool found = false;
	int i, fd;

	for (i = 0; i < NODES && !found; i++) {
		snprintf(path, PATH_ROOM, "/dev/dri/card%d", i);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			continue;
		version = drmGetVersion(fd);
		found = version && !strcmp(version->name, driver);
		drmFreeVersion(version);
		close(fd);
	}
	if (!found && !strcmp(driver, "vkms"))
		test_skip("media", "there is no screen of the driver vkms: make vm-video");
	else if (!found)
		test_skip("video", "there is no screen of the driver %s", driver);
	return found;
}

/* The framebuffer of the first CRTC that has one. */
static drmModeFB2 *active_fb(int fd)
{
	drmModeRes *all = drmModeGetResources(fd);
	drmModeFB2 *fb = NULL;
	drmModeCrtc *crtc;
	int i;

	for (i = 0; all && i < all->count_crtcs && !fb; i++) {
		crtc = drmModeGetCrtc(fd, all->crtcs[i]);
		if (crtc && crtc->mode_valid && crtc->buffer_id)
			fb = drmModeGetFB2(fd, crtc->buffer_id);
		drmModeFreeCrtc(crtc);
	}
	drmModeFreeResources(all);
	return fb;
}

static bool copy_fb(int fd, const drmModeFB2 *fb, struct scanned *ret_scanned)
{
	struct drm_mode_map_dumb map = { .handle = fb->handles[0] };
	size_t bytes = (size_t)fb->pitches[0] * fb->height;
	uint8_t *copy, *mapped;

	if (!fb->handles[0] || fb->offsets[0] || ioctl(fd, DRM_IOCTL_MODE_MAP_DUMB, &map))
		return false;
	mapped = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, (off_t)map.offset);
	if (mapped == MAP_FAILED)
		return false;
	copy = malloc(bytes);
	if (copy) {
		memcpy(copy, mapped, bytes);
		*ret_scanned = (struct scanned){
			.width = fb->width,
			.height = fb->height,
			.fourcc = fb->pixel_format,
			.stride = fb->pitches[0],
			.bytes = copy,
		};
	}
	munmap(mapped, bytes);
	return copy;
}

bool scanned_read(const char *card, struct scanned *ret_scanned)
{
	int fd = open(card, O_RDWR | O_CLOEXEC);
	drmModeFB2 *fb;
	bool done = false;

	if (fd < 0)
		return false;
	fb = active_fb(fd);
	if (fb)
		done = copy_fb(fd, fb, ret_scanned);
	drmModeFreeFB2(fb);
	close(fd);
	return done;
}

/* ---- pixels ---- */

static unsigned int off(uint8_t is, uint8_t should)
{
	return is > should ? is - should : should - is;
}

unsigned int bars_off(const uint8_t *pixels, uint64_t stride, uint32_t width, uint32_t height)
{
	/* B, G, R: the bytes of XRGB8888. */
	static const uint8_t bars[8][3] = {
		{ 255, 255, 255 }, { 0, 255, 255 }, { 255, 255, 0 }, { 0, 255, 0 },
		{ 255, 0, 255 },   { 0, 0, 255 },   { 255, 0, 0 },   { 0, 0, 0 },
	};
	static const uint32_t heights[] = { 5, 50, 95 }; /* per cent */
	unsigned int worst = 0, bar, at, i;
	const uint8_t *pixel;

	for (at = 0; at < 3; at++)
		for (bar = 0; bar < 8; bar++) {
			pixel = pixels + height * heights[at] / 100 * stride +
				(2 * bar + 1) * width / 16 * 4;
			for (i = 0; i < 3; i++)
				if (off(pixel[i], bars[bar][i]) > worst)
					worst = off(pixel[i], bars[bar][i]);
		}
	return worst;
}
#else
/* An object without a symbol is none for an archive's index. */
extern int screens_are_not_built;
int screens_are_not_built;
#endif
