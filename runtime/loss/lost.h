/* SPDX-License-Identifier: MIT */
/* Devices that are gone from under live maps. */
#ifndef HETMAP_LOST_INTERNAL_H
#define HETMAP_LOST_INTERNAL_H

#include <stdint.h>

struct device_link;
struct hm_buffer;
struct hm_device;
struct hm_map;

/*
 * What the policy has for lost bytes, with the map's rights, where the map is: to be read
 * only where there is no memory to promise for stores (vm.overcommit_memory=2), without
 * access where even that fails. Caller holds change.
 */
void lost_put_after(struct hm_map *map);
/* The same of a part of its bytes, whole pages. As loss_map_after(). */
int lost_put_range(struct hm_map *map, uint64_t offset, uint64_t length);

/*
 * The devices whose own is @backend were taken away: their maps are lost, which
 * means that they keep their addresses, have zeros there, each its own, and answer
 * -ENODEV, and that their views are told. In a view's callback nothing is done, as that
 * takes locks of other buffers: it is for the next call that finds out outside of one.
 */
void lost_device(const void *backend);
/* Its part that calls nobody back: where the device itself tells, in the middle. */
void lost_maps(const void *backend);

/* -ENODEV, with a text, if the device was taken away, as far as is known. */
int lost_check(struct hm_device *device);
/* The same of the objects made by @link, which is held: it may be there again, without. */
int lost_check_link(const struct hm_device *device, const struct device_link *link);
/* The same of the objects that the buffer has. */
int lost_check_buffer(struct hm_buffer *buffer);
/* As lost_check_link(), by asking the device itself. */
int lost_ask(struct hm_device *device, const struct device_link *link);

/*
 * For what a call on @device ended with, which is returned with its text: should the
 * device be gone, this is when its maps learn of it, but for a view's callback; and what
 * handlers have replaced, of whatever device, is told of. No locks are held besides those of
 * the change that it is of.
 */
int lost_notice(struct hm_device *device, int r);

/*
 * For bytes of objects made by @link that the library touches itself, where it has
 * mapped them and nobody else: they stay until the end, whatever becomes of the device,
 * which is not waited for in between. -ENODEV: it is gone. Between them no call is made
 * that may find a device lost.
 */
int lost_touch_begin(const struct hm_device *device, const struct device_link *link);
void lost_touch_end(void);

/* fork(2): who touches bytes is in the parent. */
void lost_fork_child(void);

#endif
