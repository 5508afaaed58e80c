/* SPDX-License-Identifier: MIT */
/*
 * A link: a device as a backend opened it, once. A device has one at a time, and
 * another one after hm_device_recover(); objects stay with the link that they were
 * made by, which is closed when nobody has it any more.
 *
 * A reader counts himself on the link that he found, and then looks whether it is
 * still the device's; a recovery puts its own there, and then looks whether anybody is
 * counted on the old one. One of them sees the other. Who comes late counts himself on
 * one that is closed already before he finds that out: so links are not freed while
 * their device lives.
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

/* The first one, of a device that nobody knows yet. -ENOMEM, or the backend's answer. */
int link_open(struct hm_device *device, struct device_link **ret_link);
/* It becomes the device's. Recoveries come one at a time. */
void link_swap(struct hm_device *device, struct device_link *link);
/* Closes what nobody has. */
void link_sweep(struct hm_device *device);
/* The device's end. */
void link_end(struct hm_device *device);

static inline void link_put(struct hm_device *device, struct device_link *link)
{
	if (atomic_fetch_sub(&link->n_user, 1) == 1 &&
	    unlikely(link != atomic_load(&device->link)))
		link_sweep(device);
}

/* The one that holds now, which stays open until link_put(). */
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

/* Once more, of one that the caller knows to be held. */
static inline struct device_link *link_hold(struct device_link *link)
{
	atomic_fetch_add(&link->n_user, 1);
	return link;
}

#endif
