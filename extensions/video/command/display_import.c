// SPDX-License-Identifier: MIT
/*
 * Frames that were allocated elsewhere, as a camera's or a decoder's, become framebuffers of the
 * card as they are, where the plane takes their format and the card imports their dma-bufs.
 */
#include "display_inner.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <hetmap/error.h>

/* ---- what the display can show ---- */

static bool plane_takes(const struct display *display, uint32_t fourcc)
{
	drmModePlane *plane = drmModeGetPlane(display->fd, display->info.plane);
	bool takes = false;
	uint32_t i;

	for (i = 0; plane && i < plane->count_formats; i++)
		takes |= plane->formats[i] == fourcc;
	drmModeFreePlane(plane);
	return takes;
}

static int refuse(const struct display *display, const struct hm_frame_info *info)
{
	return hm_error_set(
		-EOPNOTSUPP,
		"%s (%s) shows %ux%u pixels from the first one on, and the picture's "
		"are %ux%u from %u, %u on",
		display->info.card, display->info.driver, display->info.width,
		display->info.height, info->props.visible.width, info->props.visible.height,
		info->props.visible.x, info->props.visible.y);
}

static int check(struct display *display, const struct hm_frame_info *info)
{
	const struct hm_frame_rect *visible = &info->props.visible;
	uint64_t can = 0;

	if (drmGetCap(display->fd, DRM_CAP_PRIME, &can) || !(can & DRM_PRIME_CAP_IMPORT))
		return hm_error_set(-EOPNOTSUPP, "%s (%s) imports no dma-bufs",
				    display->info.card, display->info.driver);
	if (!plane_takes(display, info->fourcc))
		return hm_error_set(-EOPNOTSUPP,
				    "the plane of %s (%s) takes no pictures of %.4s",
				    display->info.card, display->info.driver,
				    (const char *)&info->fourcc);
	if (visible->width != display->info.width || visible->height != display->info.height ||
	    visible->x || visible->y)
		return refuse(display, info);
	return 0;
}

/* ---- framebuffers ---- */

static int failed(const struct display *display, const char *what)
{
	return hm_error_set(-EOPNOTSUPP, "%s (%s) %s: %s", display->info.card,
			    display->info.driver, what, strerror(errno));
}

static int add_fb(struct display *display, const struct hm_frame_objects *objects,
		  const uint32_t *handle, uint32_t *ret_fb)
{
	uint32_t handles[4] = { 0 }, strides[4] = { 0 }, offsets[4] = { 0 };
	uint64_t modifiers[4] = { 0 };
	uint32_t i;

	for (i = 0; i < objects->n_planes; i++) {
		if (objects->plane[i].offset > UINT32_MAX ||
		    objects->plane[i].stride > UINT32_MAX)
			return hm_error_set(-EOPNOTSUPP,
					    "a framebuffer has offsets of 32 bits");
		handles[i] = handle[objects->plane[i].object];
		strides[i] = (uint32_t)objects->plane[i].stride;
		offsets[i] = (uint32_t)objects->plane[i].offset;
		modifiers[i] = objects->modifier;
	}
	if (!drmModeAddFB2WithModifiers(display->fd, objects->width, objects->height,
					objects->fourcc, handles, strides, offsets, modifiers,
					ret_fb, DRM_MODE_FB_MODIFIERS))
		return 0;
	/* Drivers without modifiers have linear framebuffers only. */
	if (objects->modifier == HM_FRAME_LINEAR &&
	    !drmModeAddFB2(display->fd, objects->width, objects->height, objects->fourcc,
			   handles, strides, offsets, ret_fb, 0))
		return 0;
	return failed(display, "makes no framebuffer of an imported frame");
}

/* The handles may go then: the framebuffer keeps the memory. */
static int import(struct display *display, const struct hm_frame_objects *objects,
		  uint32_t *ret_fb)
{
	uint32_t handle[HM_FRAME_PLANES] = { 0 };
	uint32_t i;
	int r = 0;

	for (i = 0; i < objects->n_objects && !r; i++)
		if (drmPrimeFDToHandle(display->fd, objects->fd[i], &handle[i]))
			r = failed(display, "does not import the frame");
	if (!r)
		r = add_fb(display, objects, handle, ret_fb);
	for (i = 0; i < objects->n_objects; i++)
		if (handle[i])
			drmCloseBufferHandle(display->fd, handle[i]);
	return r;
}

static int make_fb(struct display *display, struct hm_frame *frame, uint32_t *ret_fb)
{
	struct hm_frame_objects objects = { .struct_size = sizeof(objects) };
	uint32_t i;
	int r = hm_frame_export(frame, HM_EXPORT_DMABUF, &objects);

	if (r)
		return hm_error_set(-EOPNOTSUPP, "the frame can't leave as a dma-buf: %s",
				    hm_errmsg());
	r = import(display, &objects, ret_fb);
	for (i = 0; i < objects.n_objects; i++)
		close(objects.fd[i]);
	return r;
}

/* ---- what was imported ---- */

static struct display_import *find_locked(struct display *display,
					  const struct hm_frame_info *info)
{
	uint32_t i;

	for (i = 0; i < display->n_import; i++)
		if (display->import[i].buffer == info->buffer[0] &&
		    display->import[i].offset == info->plane[0].offset)
			return &display->import[i];
	return NULL;
}

static void end(struct display *display, struct display_import *import)
{
	drmModeRmFB(display->fd, import->fb);
	hm_buffer_unref(import->buffer);
}

/* Takes one out of the list. */
static struct display_import pop_locked(struct display *display, struct display_import *import)
{
	struct display_import popped = *import;

	display->n_import--;
	memmove(import, import + 1,
		(size_t)(display->import + display->n_import - import) * sizeof(*import));
	return popped;
}

/* More than can be on their way: the first one is not shown any more, or is the next one. */
static void make_room_locked(struct display *display)
{
	struct display_import oldest;

	if (display->n_import < DISPLAY_IMPORTS)
		return;
	oldest = pop_locked(display,
			    display->import + (display->shown.fb == display->import[0].fb));
	end(display, &oldest);
}

/* Whether the driver can read the memory of others shows on the screen only. */
static int try_locked(struct display *display, uint32_t fb)
{
	if (display->n_import || !display_set_mode(display, fb))
		return 0;
	drmModeRmFB(display->fd, fb);
	return hm_error_set(-EOPNOTSUPP, "%s", hm_errmsg());
}

static int import_locked(struct display *display, struct hm_frame *frame)
{
	struct hm_frame_info info = { .struct_size = sizeof(info) };
	struct display_import *found, import = { 0 };
	int r;

	r = hm_frame_query(frame, &info);
	if (!r && !display->info.width)
		r = display_pick_mode(display, info.props.visible.width,
				      info.props.visible.height);
	if (!r)
		r = check(display, &info);
	if (r)
		return r;
	found = find_locked(display, &info);
	if (found) {
		import = pop_locked(display, found);
	} else {
		r = make_fb(display, frame, &import.fb);
		if (!r)
			r = try_locked(display, import.fb);
		if (r)
			return r;
		/* As long as the reference is there no other buffer has this address. */
		import.buffer = hm_buffer_ref(info.buffer[0]);
		import.offset = info.plane[0].offset;
		make_room_locked(display);
	}
	display->import[display->n_import++] = import;
	return 0;
}

int display_import(struct display *display, struct hm_frame *frame)
{
	int r;

	pthread_mutex_lock(&display->lock);
	if (*display->info.not_imported)
		r = hm_error_set(-EOPNOTSUPP, "%s", display->info.not_imported);
	else
		r = import_locked(display, frame);
	/* One of them says enough about the others. */
	if (r == -EOPNOTSUPP && !*display->info.not_imported)
		snprintf(display->info.not_imported, sizeof(display->info.not_imported), "%s",
			 hm_errmsg());
	pthread_mutex_unlock(&display->lock);
	return r;
}

uint32_t display_import_fb_locked(struct display *display, const struct hm_frame_info *info)
{
	const struct display_import *import = find_locked(display, info);

	return import ? import->fb : 0;
}

void display_import_end(struct display *display)
{
	while (display->n_import)
		end(display, &display->import[--display->n_import]);
}
