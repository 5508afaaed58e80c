// SPDX-License-Identifier: MIT
/* Displays: opening, frames for pictures, page flips, the end. */
#include "display_inner.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <hetmap/error.h>

#define LOOK_NS 1000000ull /* a wait for a frame looks as often */
#define FLIP_MS 3000       /* longest wait for the screen: of 60 pictures a second or fewer */

int display_open(const char *card, struct hm_device *device, bool check,
		 struct display **ret_display)
{
	struct display *display = calloc(1, sizeof(*display));
	int r;

	if (!display)
		return hm_error_set(-ENOMEM, "no memory for a display");
	display->fd = -1;
	display->check = check;
	r = hm_device_open("host", &display->host);
	if (r)
		goto err_free;
	r = display_pick(display, card);
	if (r)
		goto err_host;
	if (check)
		display_writeback_find(display);
	display->device = hm_device_ref(device);
	pthread_mutex_init(&display->lock, NULL);
	*ret_display = display;
	return 0;
err_host:
	hm_device_unref(display->host);
err_free:
	free(display);
	return r;
}

/* ---- frames for pictures ---- */

/* True: the frame is off the screen, has no other user, and no work is under way on it. */
static bool is_free_locked(const struct display_frame *frame)
{
	struct hm_frame_info info = { .struct_size = sizeof(info) };
	struct hm_map_info map = { .struct_size = sizeof(map) };

	if (frame->on_screen || hm_frame_query(frame->frame, &info) || info.refs > 1)
		return false;
	return hm_frame_wait(frame->frame, HM_READ | HM_WRITE, 0) != -ETIME &&
	       !hm_map_query(info.map[0], &map) && !map.in_flight;
}

/* A free frame, made if there are not all yet. -ETIME: none. */
static int find_locked(struct display *display, struct display_frame **ret_frame)
{
	uint32_t i;
	int r;

	for (i = 0; i < display->n_frame; i++)
		if (is_free_locked(&display->frame[i])) {
			*ret_frame = &display->frame[i];
			return 0;
		}
	if (display->n_frame == DISPLAY_FRAMES)
		return -ETIME;
	r = display_frame_make(display, &display->frame[i]);
	if (r)
		return r;
	display->n_frame++;
	*ret_frame = &display->frame[i];
	return 0;
}

/* A picture that is smaller than the one before it leaves nothing of that. */
static int prepare_locked(struct display_frame *frame, uint32_t width, uint32_t height)
{
	struct hm_frame_props props = { .visible = { 0, 0, width, height } };
	int r = 0;

	if (frame->width > width || frame->height > height)
		r = display_frame_clear(frame);
	if (!r)
		r = hm_frame_set(frame->frame, HM_FRAME_VISIBLE, &props);
	if (!r) {
		frame->width = width;
		frame->height = height;
	}
	return r;
}

static int acquire_locked(struct display *display, uint32_t width, uint32_t height,
			  struct hm_frame **ret_frame)
{
	struct display_frame *frame;
	int r = 0;

	if (!display->info.width)
		r = display_pick_mode(display, width, height);
	else if (width > display->info.width || height > display->info.height)
		r = hm_error_set(-ERANGE,
				 "%s: a picture of %ux%u is larger than the screen's mode, "
				 "%ux%u, which the first picture has set",
				 display->info.card, width, height, display->info.width,
				 display->info.height);
	if (!r)
		r = find_locked(display, &frame);
	if (!r)
		r = prepare_locked(frame, width, height);
	if (!r)
		*ret_frame = hm_frame_ref(frame->frame);
	return r;
}

int display_acquire(struct display *display, uint32_t width, uint32_t height,
		    uint64_t timeout_ns, struct hm_frame **ret_frame)
{
	const struct timespec look = { .tv_nsec = LOOK_NS };
	uint64_t waited = 0;
	int r;

	for (;;) {
		pthread_mutex_lock(&display->lock);
		r = acquire_locked(display, width, height, ret_frame);
		pthread_mutex_unlock(&display->lock);
		if (r != -ETIME)
			return r;
		if (waited >= timeout_ns)
			return hm_error_set(-ETIME, "%s: all %u frames are in use",
					    display->info.card, DISPLAY_FRAMES);
		nanosleep(&look, NULL);
		waited += LOOK_NS;
	}
}

/* ---- showing ---- */

static void on_flip(int fd, unsigned int sequence, unsigned int seconds,
		    unsigned int microseconds, void *user)
{
	struct display *display = user;

	(void)fd;
	(void)sequence;
	(void)seconds;
	(void)microseconds;
	display->flipped = true;
}

static int wait_for_flip(struct display *display)
{
	drmEventContext events = { .version = 2, .page_flip_handler = on_flip };
	struct pollfd poll_fd = { .fd = display->fd, .events = POLLIN };
	int n;

	while (!display->flipped) {
		n = poll(&poll_fd, 1, FLIP_MS);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return hm_error_set(-ETIME, "%s: the screen did not flip for %d ms",
					    display->info.card, FLIP_MS);
		if (drmHandleEvent(display->fd, &events))
			return hm_error_set(-EIO, "%s: its events can't be read",
					    display->info.card);
	}
	return 0;
}

static int flip(struct display *display, uint32_t fb)
{
	display->flipped = false;
	if (drmModePageFlip(display->fd, display->info.crtc, fb, DRM_MODE_PAGE_FLIP_EVENT,
			    display))
		return hm_error_set(-errno, "%s (%s) does not flip: %s", display->info.card,
				    display->info.driver, strerror(errno));
	return wait_for_flip(display);
}

int display_set_mode(struct display *display, uint32_t fb)
{
	uint32_t connector = display->info.connector;

	if (drmModeSetCrtc(display->fd, display->info.crtc, fb, 0, 0, &connector, 1,
			   &display->mode))
		return hm_error_set(-errno, "%s (%s) does not take the mode %ux%u: %s",
				    display->info.card, display->info.driver,
				    display->info.width, display->info.height, strerror(errno));
	display->touched = true;
	return 0;
}

static struct display_frame *frame_of(struct display *display, const struct hm_frame *frame)
{
	uint32_t i;

	for (i = 0; i < display->n_frame; i++)
		if (display->frame[i].frame == frame)
			return &display->frame[i];
	return NULL;
}

/* The frame is the screen's from here on. */
static int begin_locked(struct display *display, struct hm_frame *frame,
			struct display_shown *ret_next)
{
	struct hm_frame_info info = { .struct_size = sizeof(info) };
	struct display_shown next = { .own = frame_of(display, frame) };
	int r = hm_frame_query(frame, &info);

	if (r)
		return r;
	next.fb = next.own ? next.own->fb : display_import_fb_locked(display, &info);
	next.fourcc = info.fourcc;
	if (!next.fb)
		return hm_error_set(-EINVAL, "the frame is none of the display's");
	if (next.own)
		next.own->on_screen = true;
	else
		next.imported = hm_frame_ref(frame);
	*ret_next = next;
	return 0;
}

static void replace_locked(struct display *display, const struct display_shown *next)
{
	struct display_shown *last = &display->shown;

	if (last->own && last->own != next->own)
		last->own->on_screen = false;
	hm_frame_unref(last->imported);
	*last = *next;
	display->info.shown++;
	display->info.imported += next->imported != NULL;
}

int display_show(struct display *display, struct hm_frame *frame)
{
	struct display_shown next, last;
	int r;

	pthread_mutex_lock(&display->lock);
	r = begin_locked(display, frame, &next);
	last = display->shown;
	pthread_mutex_unlock(&display->lock);
	if (r)
		return r;
	/* Both are the screen's while the flip is under way, and its own after one that failed. */
	r = last.fb && last.fourcc == next.fourcc ? flip(display, next.fb) :
						    display_set_mode(display, next.fb);
	if (r) {
		hm_frame_unref(next.imported);
		return r;
	}
	if (display->check)
		r = display_frame_check(display, frame);
	pthread_mutex_lock(&display->lock);
	replace_locked(display, &next);
	if (!r && display->check)
		display->info.checked++;
	pthread_mutex_unlock(&display->lock);
	return r == -EOPNOTSUPP ? 0 : r;
}

void display_query(struct display *display, struct display_info *ret_info)
{
	pthread_mutex_lock(&display->lock);
	*ret_info = display->info;
	pthread_mutex_unlock(&display->lock);
}

/* ---- the end ---- */

static void restore(struct display *display)
{
	drmModeCrtc *before = display->before;
	uint32_t connector = display->info.connector;

	if (display->touched && before && before->mode_valid && before->buffer_id)
		drmModeSetCrtc(display->fd, before->crtc_id, before->buffer_id, before->x,
			       before->y, &connector, 1, &before->mode);
}

void display_close(struct display *display)
{
	uint32_t i;

	if (!display)
		return;
	restore(display);
	/* The kernel turns a CRTC off whose framebuffer ends. */
	for (i = 0; i < display->n_frame; i++)
		display_frame_end(display, &display->frame[i]);
	display_import_end(display);
	display_writeback_end(display);
	hm_frame_unref(display->shown.imported);
	display_unpick(display);
	pthread_mutex_destroy(&display->lock);
	hm_device_unref(display->device);
	hm_device_unref(display->host);
	free(display);
}
