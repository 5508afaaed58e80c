/* SPDX-License-Identifier: MIT */
/* Pages that are gone from under live maps, and devices that are. */
#ifndef HETMAP_LOST_H
#define HETMAP_LOST_H

#include <stdint.h>

struct hm_device;

/*
 * What CPUs find at bytes [@offset, @offset + @length) of the object that segments
 * name by @object, in every map of this process. Where a mapping can't be changed,
 * it is as it was, or without access; there is nobody to tell.
 *
 * Neither takes a map that this thread is just changing: its change decides.
 */
void lost_page_bus(const void *object, uint64_t offset, uint64_t length);
void lost_page_back(const void *object, uint64_t offset, uint64_t length);

/*
 * The devices whose own is @backend were taken away: their maps are lost, which
 * means that they keep their addresses, have zeros there, each its own, and answer
 * -ENODEV, and that their views are told.
 */
void lost_device(const void *backend);

/* -ENODEV, with a text, if the device was taken away, as far as is known. */
int lost_check(const struct hm_device *device);

/*
 * For what a call on @device ended with, which is returned with its text: should the
 * device be gone, this is when its maps learn of it. No locks are held.
 */
int lost_notice(struct hm_device *device, int r);

/*
 * For bytes of @device that the library touches itself, where it has mapped them and
 * nobody else: they stay until the end, whatever becomes of the device, which is not
 * waited for in between. -ENODEV: it is gone. Between them no call is made that may
 * find a device lost.
 */
int lost_touch_begin(const struct hm_device *device);
void lost_touch_end(void);

/* fork(2): who touches bytes is in the parent. */
void lost_fork_child(void);

#endif
