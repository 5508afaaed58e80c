// SPDX-License-Identifier: MIT
/*
 * Writeback: a connector without a screen, by which some cards write what they scan out into a
 * framebuffer [the kernel's Documentation/gpu/drm-kms.rst, "Writeback Connectors"].
 */
#include "display_inner.h"

#include <drm.h>
#include <drm_mode.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <hetmap/error.h>

#define WAIT_MS 3000

static int failed(const struct display *display, const char *what)
{
	return hm_error_set(-errno, "%s (%s) %s: %s", display->info.card, display->info.driver,
			    what, strerror(errno));
}

/* ---- the connector ---- */

static uint32_t property_of(int fd, uint32_t connector, const char *name)
{
	drmModeObjectProperties *all =
		drmModeObjectGetProperties(fd, connector, DRM_MODE_OBJECT_CONNECTOR);
	uint32_t i, found = 0;

	for (i = 0; all && i < all->count_props && !found; i++) {
		drmModePropertyRes *one = drmModeGetProperty(fd, all->props[i]);

		if (one && !strcmp(one->name, name))
			found = one->prop_id;
		drmModeFreeProperty(one);
	}
	drmModeFreeObjectProperties(all);
	return found;
}

static uint32_t crtcs_of(int fd, const drmModeConnector *connector)
{
	drmModeEncoder *encoder;
	uint32_t possible = 0;
	int i;

	for (i = 0; i < connector->count_encoders; i++) {
		encoder = drmModeGetEncoder(fd, connector->encoders[i]);
		if (encoder)
			possible |= encoder->possible_crtcs;
		drmModeFreeEncoder(encoder);
	}
	return possible;
}

/* True: @id is a writeback connector of our CRTC, with all of its properties. */
static bool take(struct display *display, uint32_t id, uint32_t crtc_bit)
{
	struct display_writeback *writeback = &display->writeback;
	drmModeConnector *connector = drmModeGetConnector(display->fd, id);
	bool fits = connector && connector->connector_type == DRM_MODE_CONNECTOR_WRITEBACK &&
		    crtcs_of(display->fd, connector) & crtc_bit;

	drmModeFreeConnector(connector);
	if (!fits)
		return false;
	writeback->crtc_property = property_of(display->fd, id, "CRTC_ID");
	writeback->fb_property = property_of(display->fd, id, "WRITEBACK_FB_ID");
	writeback->fence_property = property_of(display->fd, id, "WRITEBACK_OUT_FENCE_PTR");
	writeback->screen_property =
		property_of(display->fd, display->info.connector, "CRTC_ID");
	return writeback->crtc_property && writeback->screen_property &&
	       writeback->fb_property && writeback->fence_property;
}

void display_writeback_find(struct display *display)
{
	uint32_t crtc_bit = 0;
	drmModeRes *all;
	int i;

	if (drmSetClientCap(display->fd, DRM_CLIENT_CAP_ATOMIC, 1) ||
	    drmSetClientCap(display->fd, DRM_CLIENT_CAP_WRITEBACK_CONNECTORS, 1))
		return;
	/* The list has them only now. */
	all = drmModeGetResources(display->fd);
	for (i = 0; all && i < all->count_crtcs && i < 32; i++)
		if (all->crtcs[i] == display->info.crtc)
			crtc_bit = 1u << i;
	for (i = 0; all && i < all->count_connectors && !display->writeback.connector; i++)
		if (take(display, all->connectors[i], crtc_bit))
			display->writeback.connector = all->connectors[i];
	drmModeFreeResources(all);
	display->info.writeback = display->writeback.connector;
}

/* ---- what it writes into ---- */

static int make_buffer(struct display *display)
{
	struct display_writeback *writeback = &display->writeback;
	struct drm_mode_create_dumb dumb = {
		.width = display->info.width,
		.height = display->info.height,
		.bpp = 32,
	};
	struct drm_mode_map_dumb map = { 0 };
	const uint32_t offsets[4] = { 0 };
	uint32_t handles[4] = { 0 }, strides[4] = { 0 };
	void *pixels;

	if (drmIoctl(display->fd, DRM_IOCTL_MODE_CREATE_DUMB, &dumb))
		return failed(display, "makes no buffer to write back into");
	writeback->handle = map.handle = handles[0] = dumb.handle;
	writeback->stride = strides[0] = dumb.pitch;
	if (drmModeAddFB2(display->fd, dumb.width, dumb.height, HM_FRAME_XRGB8888, handles,
			  strides, offsets, &writeback->fb, 0) ||
	    drmIoctl(display->fd, DRM_IOCTL_MODE_MAP_DUMB, &map))
		return failed(display, "makes no framebuffer to write back into");
	pixels = mmap(NULL, dumb.size, PROT_READ | PROT_WRITE, MAP_SHARED, display->fd,
		      (off_t)map.offset);
	if (pixels == MAP_FAILED)
		return failed(display, "does not map what it writes back");
	writeback->pixels = pixels;
	writeback->bytes = dumb.size;
	return 0;
}

void display_writeback_end(struct display *display)
{
	struct display_writeback *writeback = &display->writeback;
	struct drm_mode_destroy_dumb destroy = { .handle = writeback->handle };

	if (writeback->pixels)
		munmap(writeback->pixels, writeback->bytes);
	if (writeback->fb)
		drmModeRmFB(display->fd, writeback->fb);
	if (writeback->handle)
		drmIoctl(display->fd, DRM_IOCTL_MODE_DESTROY_DUMB, &destroy);
	memset(writeback, 0, sizeof(*writeback));
}

/* ---- reading ---- */

static int wait_for(const struct display *display, int fence)
{
	struct pollfd poll_fd = { .fd = fence, .events = POLLIN };
	int n;

	do {
		n = poll(&poll_fd, 1, WAIT_MS);
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return hm_error_set(-ETIME, "%s (%s) did not write back for %d ms",
				    display->info.card, display->info.driver, WAIT_MS);
	return 0;
}

static bool add(drmModeAtomicReq *request, uint32_t connector, uint32_t property,
		uint64_t value)
{
	return drmModeAtomicAddProperty(request, connector, property, value) >= 0;
}

/* 0 or a negative errno, without a text. */
static int commit(struct display *display, int32_t *ret_fence)
{
	const struct display_writeback *writeback = &display->writeback;
	drmModeAtomicReq *request = drmModeAtomicAlloc();
	bool done;
	int r = 0;

	done = request &&
	       add(request, writeback->connector, writeback->crtc_property,
		   display->info.crtc) &&
	       add(request, writeback->connector, writeback->fb_property, writeback->fb) &&
	       add(request, writeback->connector, writeback->fence_property,
		   (uint64_t)(uintptr_t)ret_fence);
	if (done && writeback->alone)
		done = add(request, display->info.connector, writeback->screen_property, 0);
	/* The connector comes to the CRTC, which counts as a change of the mode. */
	if (!done)
		r = -ENOMEM;
	else if (drmModeAtomicCommit(display->fd, request, DRM_MODE_ATOMIC_ALLOW_MODESET, NULL))
		r = -errno;
	drmModeAtomicFree(request);
	return r;
}

/* Beside the screen, or in place of it where the card can't do both. */
static int start(struct display *display, int32_t *ret_fence)
{
	int r = commit(display, ret_fence);

	if (r == -EINVAL && !display->writeback.alone) {
		display->writeback.alone = true;
		r = commit(display, ret_fence);
	}
	if (!r)
		return 0;
	errno = -r;
	return failed(display, "does not write back");
}

/* The screen shows what it did before. */
static int go_back(struct display *display)
{
	drmModeCrtc *crtc = drmModeGetCrtc(display->fd, display->info.crtc);
	int r = crtc && crtc->buffer_id ? display_set_mode(display, crtc->buffer_id) :
					  failed(display, "does not tell what it shows");

	drmModeFreeCrtc(crtc);
	return r;
}

int display_writeback_read(struct display *display, const unsigned char **ret_pixels,
			   uint32_t *ret_stride)
{
	struct display_writeback *writeback = &display->writeback;
	int32_t fence = -1;
	int r = writeback->pixels ? 0 : make_buffer(display);

	if (r)
		return r;
	/* A pattern marks bytes that the card does not write. */
	memset(writeback->pixels, 0x5a, writeback->bytes);
	r = start(display, &fence);
	if (r)
		return r;
	r = wait_for(display, fence);
	close(fence);
	if (!r && writeback->alone)
		r = go_back(display);
	if (r)
		return r;
	*ret_pixels = writeback->pixels;
	*ret_stride = writeback->stride;
	return 0;
}
