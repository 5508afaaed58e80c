// SPDX-License-Identifier: MIT
/*
 * Displays: pictures of a camera, converted by an accelerator for a card to scan out, and read
 * back from the card through a descriptor of the test's own.
 */
#ifdef HAVE_VIDEO
#include <convert.h>
#include <display_inner.h>
#include <errno.h>
#include <hetmap/video.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/command.h"
#include "lib/support.h"
#include "video/screen.h"

#define WIDTH 640
#define HEIGHT 480
#define BARS "100% Colorbar"
/* Steps of 255: YUV in 8 bits changes a full colour so much. */
#define TOLERANCE 6

struct scene {
	char camera[PATH_ROOM + 8], card[PATH_ROOM];
	struct hm_device *device;
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_kernel *kernel;
	struct hm_video *video;
	struct display *display;
};

/* Looks for camera and card only; false: the test is left out. */
static bool find(struct scene *scene, const char *driver)
{
	char path[PATH_ROOM];

	memset(scene, 0, sizeof(*scene));
	if (!vivid_find(path) || !card_find(driver, scene->card))
		return false;
	vivid_show(path, BARS);
	snprintf(scene->camera, sizeof(scene->camera), "v4l2:%s", path);
	return true;
}

static void begin(struct scene *scene, const char *device, const char *accel,
		  const char *format)
{
	struct hm_video_desc desc = { .struct_size = sizeof(desc), .format = format };

	desc.policy = HM_FRAME_DROP_OLDEST;
	CHECK_OK_FATAL(hm_device_open(device, &scene->device));
	CHECK_OK_FATAL(hm_accel_open(accel, NULL, &scene->accel));
	CHECK_OK_FATAL(hm_queue_create(scene->accel, 0, &scene->queue));
	CHECK_OK_FATAL(convert_create(&scene->kernel));
	desc.device = scene->device;
	CHECK_OK_FATAL(hm_video_open(scene->camera, &desc, &scene->video));
	CHECK_OK_FATAL(display_open(scene->card, scene->device, true, &scene->display));
}

static void end(struct scene *scene)
{
	display_close(scene->display);
	hm_video_unref(scene->video);
	hm_kernel_unref(scene->kernel);
	hm_queue_unref(scene->queue);
	hm_accel_unref(scene->accel);
	hm_device_unref(scene->device);
}

AUTO_END(scene, end)

static void check_screen(struct scene *scene)
{
	struct scanned scanned;
	unsigned int off;

	CHECK_FATAL(scanned_read(scene->card, &scanned));
	CHECK_EQUAL(scanned.fourcc, HM_FRAME_XRGB8888);
	CHECK(scanned.width >= WIDTH && scanned.height >= HEIGHT);
	off = bars_off(scanned.bytes, scanned.stride, WIDTH, HEIGHT);
	if (off > TOLERANCE)
		test_fail(__FILE__, __LINE__, "a bar on the screen is %u of 255 off", off);
	free(scanned.bytes);
}

static void show_converted(struct scene *scene)
{
	struct hm_frame_info from = { .struct_size = sizeof(from) };
	struct hm_frame_info to = { .struct_size = sizeof(to) };
	struct hm_fence_info done = { .struct_size = sizeof(done) };
	struct hm_frame *picture, *shown;
	struct hm_fence *fence;

	CHECK_OK_FATAL(hm_video_read(scene->video, &picture));
	CHECK_OK_FATAL(hm_frame_query(picture, &from));
	CHECK_OK_FATAL(display_acquire(scene->display, WIDTH, HEIGHT, 1000000000, &shown));
	CHECK_OK_FATAL(hm_frame_query(shown, &to));
	if (from.fourcc == HM_FRAME_XRGB8888)
		CHECK_OK_FATAL(convert_copy(scene->queue, &from, &to, &fence));
	else
		CHECK_OK_FATAL(convert_launch(scene->queue, scene->kernel, &from, &to, &fence));
	hm_frame_unref(picture);
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	CHECK_OK(hm_fence_query(fence, &done));
	CHECK_EQUAL(done.bytes_copied, 0);
	hm_fence_unref(fence);
	CHECK_OK(display_show(scene->display, shown));
	hm_frame_unref(shown);
}

static void show_one(struct scene *scene)
{
	show_converted(scene);
	check_screen(scene);
}

static void camera_to_screen(const char *driver, const char *device, const char *accel,
			     const char *format)
{
	struct display_info info;
	AUTO(scene) scene = { 0 };
	unsigned int i;

	if (!find(&scene, driver))
		return;
	begin(&scene, device, accel, format);
	/* More than there are frames. */
	for (i = 0; i < 9; i++)
		show_one(&scene);
	display_query(scene.display, &info);
	CHECK_EQUAL(info.shown, 9);
	CHECK_EQUAL(info.checked, 9);
	CHECK(!strcmp(info.driver, driver));
}

static void virtio_nv12(void)
{
	camera_to_screen("virtio_gpu", "host", "cpu", "NV12:640x480");
}

static void virtio_yuyv(void)
{
	camera_to_screen("virtio_gpu", "host", "cpu", "YUYV:640x480");
}

static void bochs_nv12(void)
{
	camera_to_screen("bochs-drm", "host", "cpu", "NV12:640x480");
}

/* The camera writes into the device's memory, and its engine into the display's. */
static void virtio_engine(void)
{
	camera_to_screen("virtio_gpu", "sim:0", "sim:0", "XR24:640x480");
}

/* ---- frames that were allocated elsewhere ---- */

static void check_written_back(struct display *display)
{
	const unsigned char *pixels;
	unsigned int off;
	uint32_t stride;

	CHECK_OK_FATAL(display_writeback_read(display, &pixels, &stride));
	off = bars_off(pixels, stride, WIDTH, HEIGHT);
	if (off > TOLERANCE)
		test_fail(__FILE__, __LINE__, "a bar that vkms wrote back is %u of 255 off",
			  off);
}

static void show_imported(struct scene *scene)
{
	struct hm_frame *picture;

	CHECK_OK_FATAL(hm_video_read(scene->video, &picture));
	CHECK_OK_FATAL(display_import(scene->display, picture));
	CHECK_OK(display_show(scene->display, picture));
	hm_frame_unref(picture);
	check_written_back(scene->display);
}

/* vkms scans out the frames of a camera, in memory of @device. */
static void camera_imported(const char *device)
{
	struct display_info info;
	AUTO(scene) scene = { 0 };
	unsigned int i;

	if (!find(&scene, "vkms"))
		return;
	begin(&scene, device, "cpu", "XR24:640x480");
	CHECK(scene.display->info.writeback);
	/* More than the camera has frames. */
	for (i = 0; i < 20; i++)
		show_imported(&scene);
	display_query(scene.display, &info);
	CHECK_EQUAL(info.shown, 20);
	CHECK_EQUAL(info.checked, 20);
	CHECK_EQUAL(info.imported, 20);
	CHECK_EQUAL(info.frames, 0);
}

static void vkms_camera(void)
{
	camera_imported("host");
}

static void vkms_sim(void)
{
	camera_imported("sim:0");
}

/* NV12 is converted into frames of the display. */
static void vkms_nv12(void)
{
	struct display_info info;
	AUTO(scene) scene = { 0 };
	struct hm_frame *picture;
	unsigned int i;

	if (!find(&scene, "vkms"))
		return;
	begin(&scene, "host", "cpu", "NV12:640x480");
	CHECK_OK_FATAL(hm_video_read(scene.video, &picture));
	CHECK_ERROR(-EOPNOTSUPP, display_import(scene.display, picture));
	CHECK(strstr(hm_errmsg(), "takes no pictures of NV12"));
	hm_frame_unref(picture);
	for (i = 0; i < 3; i++) {
		show_converted(&scene);
		check_written_back(scene.display);
	}
	display_query(scene.display, &info);
	CHECK_EQUAL(info.imported, 0);
	CHECK_EQUAL(info.checked, 3);
}

/* The check finds a byte that is not the picture's. */
static void vkms_differs(void)
{
	AUTO(scene) scene = { 0 };
	struct hm_frame_info info = { .struct_size = sizeof(info) };
	AUTO(hm_frame) *shown = NULL, *other = NULL;

	if (!find(&scene, "vkms"))
		return;
	begin(&scene, "host", "cpu", "NV12:640x480");
	CHECK_OK_FATAL(display_acquire(scene.display, WIDTH, HEIGHT, 0, &shown));
	CHECK_OK_FATAL(display_acquire(scene.display, WIDTH, HEIGHT, 0, &other));
	CHECK_OK(display_show(scene.display, shown));
	CHECK_OK_FATAL(hm_frame_query(other, &info));
	*(uint32_t *)info.address[0] = 0x123456;
	CHECK_ERROR(-EIO, display_frame_check(scene.display, other));
}

/* virtio_gpu and bochs import no memory: the text says why, and nothing is broken. */
static void not_imported(const char *driver)
{
	struct display_info info;
	AUTO(scene) scene = { 0 };
	struct hm_frame *picture;
	unsigned int i;

	if (!find(&scene, driver))
		return;
	begin(&scene, "host", "cpu", "XR24:640x480");
	for (i = 0; i < 2; i++) {
		CHECK_OK_FATAL(hm_video_read(scene.video, &picture));
		CHECK_ERROR(-EOPNOTSUPP, display_import(scene.display, picture));
		CHECK(strstr(hm_errmsg(), driver));
		CHECK_ERROR(-EINVAL, display_show(scene.display, picture));
		hm_frame_unref(picture);
	}
	show_one(&scene);
	display_query(scene.display, &info);
	CHECK_EQUAL(info.imported, 0);
	CHECK_EQUAL(info.shown, 1);
	CHECK(strstr(info.not_imported, driver));
}

static void virtio_imports_none(void)
{
	not_imported("virtio_gpu");
}

static void bochs_imports_none(void)
{
	not_imported("bochs-drm");
}

/* ---- the command ---- */

static void command(void)
{
	const json_t *copied, *display;
	AUTO(outcome) outcome = { 0 };
	struct scene scene;
	char sink[PATH_ROOM + 16];
	AUTO(json_t) *json = NULL;

	if (!find(&scene, "virtio_gpu"))
		return;
	snprintf(sink, sizeof(sink), "display:%s", scene.card);
	command_run(&(const struct command){ .args = { "run", "video", "--json", "--accel",
						       "cpu", "--frames", "10", "--format",
						       "NV12:640x480", "--sink", sink,
						       "--check", "--", scene.camera } },
		    &outcome);
	if (outcome.status)
		test_fail(__FILE__, __LINE__, "status %d: %s%s", outcome.status, outcome.out,
			  outcome.err);
	json = outcome_json(&outcome);
	copied = json_object_get(json, "bytes_copied");
	display = json_object_get(json, "display");
	CHECK_EQUAL(integer_of(json, "pictures"), 10);
	CHECK(!strcmp(string_of(json, "camera"), "dmabuf"));
	CHECK_EQUAL(integer_of(copied, "decode"), 0);
	CHECK_EQUAL(integer_of(copied, "convert"), 0);
	CHECK_EQUAL(integer_of(display, "shown"), 10);
	CHECK_EQUAL(integer_of(display, "checked"), 10);
}

/* ---- refusals ---- */

static void refused(void)
{
	struct display *display;

	CHECK_ERROR(-ENOENT, display_open("/dev/dri/no-such-card", NULL, false, &display));
	CHECK_ERROR(-EOPNOTSUPP, display_open("/dev/null", NULL, false, &display));
}

/* vgem has no screen, and a picture may be larger than a mode. */
static void refused_by_card(void)
{
	struct display *display;
	struct hm_frame *frame;
	char card[PATH_ROOM];

	TEST_NEEDS(card_find("vgem", card));
	CHECK_ERROR(-EOPNOTSUPP, display_open(card, NULL, false, &display));
	if (!card_find("bochs-drm", card))
		return;
	CHECK_OK_FATAL(display_open(card, NULL, false, &display));
	CHECK_ERROR(-ERANGE, display_acquire(display, 60000, 480, 0, &frame));
	display_close(display);
}

static const struct test tests[] = {
	{ .name = "virtio_nv12", virtio_nv12, 60 },
	{ .name = "virtio_yuyv", virtio_yuyv, 60 },
	{ .name = "virtio_engine", virtio_engine, 60 },
	{ .name = "bochs_nv12", bochs_nv12, 60 },
	{ .name = "vkms_camera", vkms_camera, 60 },
	{ .name = "vkms_sim", vkms_sim, 60 },
	{ .name = "vkms_nv12", vkms_nv12, 60 },
	{ .name = "vkms_differs", vkms_differs, 60 },
	{ .name = "virtio_imports_none", virtio_imports_none, 60 },
	{ .name = "bochs_imports_none", bochs_imports_none, 60 },
	{ .name = "command", command, 60, TEST_ONCE },
	{ .name = "refused", refused, 60 },
	{ .name = "refused_by_card", refused_by_card, 60 },
	{ 0 },
};

TEST_MAIN(harness_main, "video_display", tests)
#else
#include "video/not_built.h"
#endif
