/* SPDX-License-Identifier: MIT */
/*
 * A link: a device as a backend opened it, once. A device has one link at a time, and another
 * one after hm_device_recover(). Objects stay with the link that made them, which closes when
 * its last user has gone.
 *
 * A reader counts itself on the link that it found, and then checks that the device still has
 * it. A recovery stores its own link, and then looks for readers counted on the old one. One of
 * them sees the other. A late reader counts itself on a closed link before it finds that out:
 * links are therefore not freed while their device lives.
 */
#ifndef HETMAP_DEVICE_LINK_H
#define HETMAP_DEVICE_LINK_H

#include "core/core.h"

struct device_link {
	void *backend; /* the backend's own; constant */
	_Atomic uint32_t n_user;
	bool closed;              /* under device->lock */
	struct device_link *next; /* older; constant */
};

/* Opens the first link of a device that is not published yet. -ENOMEM, or the backend's error. */
int link_open(struct hm_device *device, struct device_link **ret_link);
/* Makes @link the device's. The caller serialises recoveries. */
void link_swap(struct hm_device *device, struct device_link *link);
/* Closes links without users. */
void link_sweep(struct hm_device *device);
/* Closes all links, at the device's end. */
void link_end(struct hm_device *device);

static inline void link_put(struct hm_device *device, struct device_link *link)
{
	if (atomic_fetch_sub(&link->n_user, 1) == 1 &&
	    unlikely(link != atomic_load(&device->link)))
		link_sweep(device);
}

/* The current link, which stays open until link_put(). */
static inline struct device_link *link_get(struct hm_device *device)
{
	struct device_link *link;

	for (;;) {
		link = atomic_load(&device->link);
		atomic_fetch_add(&link->n_user, 1);
		if (likely(link == atomic_load(&device->link)))
			return link;
		link_put(device, link);
	}
}

/* Takes another reference to a link that the caller knows to be held. */
static inline struct device_link *link_hold(struct device_link *link)
{
	atomic_fetch_add(&link->n_user, 1);
	return link;
}

#endif
