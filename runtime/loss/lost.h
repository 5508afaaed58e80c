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
 * Puts the policy's replacement of lost bytes in the map's place, with the map's rights:
 * read-only where there is no memory to promise for stores (vm.overcommit_memory=2), without
 * access where even that fails. Caller holds change.
 */
void lost_put_after(struct hm_map *map);
/* The same for a part of its bytes, whole pages. Results as for loss_map_after(). */
int lost_put_range(struct hm_map *map, uint64_t offset, uint64_t length);

/*
 * Marks the maps on the devices with @backend, which were taken away, as lost: they keep their
 * addresses, have zeros there, each its own, and answer -ENODEV. Tells their views. Does
 * nothing in a view's callback, as that takes locks of other buffers: the next call that finds
 * the loss outside of one does it.
 */
void lost_device(const void *backend);
/* The part without callbacks, for a device that reports its loss in the middle of a call. */
void lost_maps(const void *backend);

/* -ENODEV, with a text, if the device was taken away, as far as is known. */
int lost_check(struct hm_device *device);
/*
 * The same for the objects made by @link, which is held: the device may be there again without
 * them.
 */
int lost_check_link(const struct hm_device *device, const struct device_link *link);
/* The same for the objects that the buffer has. */
int lost_check_buffer(struct hm_buffer *buffer);
/* As lost_check_link(), by asking the device itself. */
int lost_ask(struct hm_device *device, const struct device_link *link);

/*
 * Must be called with the result @r of a call on @device that may have met a loss; returns @r with
 * its text. If the device is gone, its maps learn of it now, except in a view's callback; blocks
 * that handlers have replaced, on any device, are reported, too. The caller holds no locks except
 * those of the change that it is part of.
 */
int lost_notice(struct hm_device *device, int r);

/*
 * To be called around an access of the library to bytes of objects made by @link, in mappings
 * of its own: the bytes stay until the end, even if the device goes. Between the two calls the
 * caller must not wait for the device, and must make no call that may find a device lost.
 * -ENODEV: the device is gone.
 */
int lost_touch_begin(const struct hm_device *device, const struct device_link *link);
void lost_touch_end(void);

/* fork(2): threads that touch bytes are in the parent. */
void lost_fork_child(void);

#endif
