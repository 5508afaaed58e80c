// SPDX-License-Identifier: MIT
/* Displays: the card, a connected screen, the CRTC and the plane that feed it, and the mode. */
#include "display_inner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <hetmap/error.h>

#define CARDS_MOST 16

static int failed(const struct display *display, const char *what)
{
	return hm_error_set(-errno, "%s %s: %s", display->info.card, what, strerror(errno));
}

static bool plane_takes(const drmModePlane *plane, uint32_t fourcc)
{
	uint32_t i;

	for (i = 0; i < plane->count_formats; i++)
		if (plane->formats[i] == fourcc)
			return true;
	return false;
}

/* The plane's property "type"; ~0: it has none. */
static uint64_t plane_type(int fd, uint32_t plane)
{
	drmModeObjectProperties *all =
		drmModeObjectGetProperties(fd, plane, DRM_MODE_OBJECT_PLANE);
	uint64_t type = UINT64_MAX;
	uint32_t i;

	for (i = 0; all && i < all->count_props; i++) {
		drmModePropertyRes *one = drmModeGetProperty(fd, all->props[i]);

		if (one && !strcmp(one->name, "type"))
			type = all->prop_values[i];
		drmModeFreeProperty(one);
	}
	drmModeFreeObjectProperties(all);
	return type;
}

/* The primary plane of the CRTC with this number, if it takes our frames. */
static int pick_plane(struct display *display, int crtc_number)
{
	drmModePlaneRes *all = drmModeGetPlaneResources(display->fd);
	drmModePlane *plane;
	uint32_t i;

	display->info.plane = 0;
	for (i = 0; all && i < all->count_planes && !display->info.plane; i++) {
		plane = drmModeGetPlane(display->fd, all->planes[i]);
		if (plane && plane->possible_crtcs & (1u << crtc_number) &&
		    plane_type(display->fd, plane->plane_id) == DRM_PLANE_TYPE_PRIMARY &&
		    plane_takes(plane, HM_FRAME_XRGB8888))
			display->info.plane = plane->plane_id;
		drmModeFreePlane(plane);
	}
	drmModeFreePlaneResources(all);
	return display->info.plane ? 0 : -EOPNOTSUPP;
}

/* A CRTC that can feed the connector: the one that does now, or else the first. */
static int pick_crtc(struct display *display, const drmModeRes *all)
{
	drmModeEncoder *encoder = NULL;
	uint32_t possible = 0, now = 0;
	int i, pass;

	for (i = 0; i < display->connector->count_encoders; i++) {
		encoder = drmModeGetEncoder(display->fd, display->connector->encoders[i]);
		if (!encoder)
			continue;
		possible |= encoder->possible_crtcs;
		if (encoder->encoder_id == display->connector->encoder_id)
			now = encoder->crtc_id;
		drmModeFreeEncoder(encoder);
	}
	for (pass = 0; pass < 2; pass++)
		for (i = 0; i < all->count_crtcs && i < 32; i++) {
			if (!(possible & (1u << i)) || (!pass && all->crtcs[i] != now) ||
			    pick_plane(display, i))
				continue;
			display->info.crtc = all->crtcs[i];
			return 0;
		}
	return hm_error_set(-EOPNOTSUPP, "%s (%s): connector %u has no plane that takes XR24",
			    display->info.card, display->info.driver, display->info.connector);
}

static bool find_connector(struct display *display, const drmModeRes *all,
			   drmModeConnection state)
{
	drmModeConnector *one;
	int i;

	for (i = 0; i < all->count_connectors; i++) {
		one = drmModeGetConnector(display->fd, all->connectors[i]);
		if (one && one->connection == state && one->count_modes &&
		    one->connector_type != DRM_MODE_CONNECTOR_WRITEBACK) {
			display->connector = one;
			display->info.connector = one->connector_id;
			return true;
		}
		drmModeFreeConnector(one);
	}
	return false;
}

static int pick_connector(struct display *display, const drmModeRes *all)
{
	/* Some can't tell, and have modes nevertheless. */
	if (find_connector(display, all, DRM_MODE_CONNECTED) ||
	    find_connector(display, all, DRM_MODE_UNKNOWNCONNECTION))
		return 0;
	return hm_error_set(-ENODEV, "%s (%s): no screen is connected", display->info.card,
			    display->info.driver);
}

/* Its frames are dumb buffers that leave as dma-bufs. */
static int check_caps(const struct display *display)
{
	uint64_t dumb = 0, prime = 0;

	if (drmGetCap(display->fd, DRM_CAP_DUMB_BUFFER, &dumb) || !dumb)
		return hm_error_set(-EOPNOTSUPP, "%s (%s) makes no dumb buffers",
				    display->info.card, display->info.driver);
	if (drmGetCap(display->fd, DRM_CAP_PRIME, &prime) || !(prime & DRM_PRIME_CAP_EXPORT))
		return hm_error_set(-EOPNOTSUPP, "%s (%s) exports no dma-bufs",
				    display->info.card, display->info.driver);
	return 0;
}

static int pick_of_card(struct display *display)
{
	drmModeRes *all;
	int r;

	if (drmSetClientCap(display->fd, DRM_CLIENT_CAP_UNIVERSAL_PLANES, 1))
		return failed(display, "does not list its planes");
	all = drmModeGetResources(display->fd);
	if (!all)
		return hm_error_set(-EOPNOTSUPP, "%s (%s) has no screens", display->info.card,
				    display->info.driver);
	r = pick_connector(display, all);
	if (!r)
		r = pick_crtc(display, all);
	drmModeFreeResources(all);
	if (r)
		return r;
	if (!drmIsMaster(display->fd) && drmSetMaster(display->fd))
		return hm_error_set(-EBUSY,
				    "%s: another program has the screen: end it, or use a "
				    "console without a desktop",
				    display->info.card);
	return check_caps(display);
}

static int open_card(struct display *display, const char *card)
{
	drmVersion *version;
	int r;

	snprintf(display->info.card, sizeof(display->info.card), "%s", card);
	display->fd = open(card, O_RDWR | O_CLOEXEC);
	if (display->fd < 0)
		return failed(display, "can't be opened");
	version = drmGetVersion(display->fd);
	if (!version) {
		r = hm_error_set(-EOPNOTSUPP, "%s is no node of DRM", card);
		goto err_close;
	}
	snprintf(display->info.driver, sizeof(display->info.driver), "%s", version->name);
	drmFreeVersion(version);
	r = pick_of_card(display);
	if (r)
		goto err_close;
	display->before = drmModeGetCrtc(display->fd, display->info.crtc);
	return 0;
err_close:
	display_unpick(display);
	return r;
}

void display_unpick(struct display *display)
{
	drmModeFreeCrtc(display->before);
	drmModeFreeConnector(display->connector);
	display->before = NULL;
	display->connector = NULL;
	if (display->fd >= 0)
		close(display->fd);
	display->fd = -1;
}

int display_pick(struct display *display, const char *card)
{
	char path[32];
	int i, r;

	if (card)
		return open_card(display, card);
	for (i = 0; i < CARDS_MOST; i++) {
		snprintf(path, sizeof(path), "/dev/dri/card%d", i);
		if (access(path, F_OK))
			continue;
		r = open_card(display, path);
		if (!r)
			return 0;
		/* A screen in use, or without permission, says more than a card without one. */
		if (r == -EBUSY || r == -EACCES)
			return r;
	}
	return hm_error_set(-ENODEV, "none of /dev/dri/card0 to card%d has a screen",
			    CARDS_MOST - 1);
}

/* ---- the mode ---- */

static uint64_t pixels(const drmModeModeInfo *mode)
{
	return (uint64_t)mode->hdisplay * mode->vdisplay;
}

int display_pick_mode(struct display *display, uint32_t width, uint32_t height)
{
	const drmModeConnector *connector = display->connector;
	const drmModeModeInfo *best = NULL, *largest = NULL, *mode;
	int i;

	for (i = 0; i < connector->count_modes; i++) {
		mode = &connector->modes[i];
		if (!largest || pixels(mode) > pixels(largest))
			largest = mode;
		if (mode->hdisplay < width || mode->vdisplay < height ||
		    mode->flags & DRM_MODE_FLAG_INTERLACE)
			continue;
		if (!best || pixels(mode) < pixels(best) ||
		    (pixels(mode) == pixels(best) && mode->vrefresh > best->vrefresh))
			best = mode;
	}
	if (!best)
		return hm_error_set(-ERANGE,
				    "%s: a picture of %ux%u is larger than each mode of the "
				    "screen, up to %ux%u",
				    display->info.card, width, height, largest->hdisplay,
				    largest->vdisplay);
	display->mode = *best;
	display->info.width = best->hdisplay;
	display->info.height = best->vdisplay;
	display->info.rate = best->vrefresh;
	return 0;
}
