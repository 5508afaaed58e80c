/* SPDX-License-Identifier: MIT */
/* Devices that are gone from under live maps. */
#ifndef HETMAP_DEVICE_LOSS_H
#define HETMAP_DEVICE_LOSS_H

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
void device_loss_put_after(struct hm_map *map);
/* The same for a part of its bytes, whole pages. Results as for loss_map_after(). */
int device_loss_put_range(struct hm_map *map, uint64_t offset, uint64_t length);

/*
 * Marks the maps on the devices with @backend, which were taken away, as lost: they keep their
 * addresses, have zeros there, each its own, and answer -ENODEV. Tells their views. Does
 * nothing in a view's callback, as that takes locks of other buffers: the next call that finds
 * the loss outside of one does it.
 */
void device_loss_tell(const void *backend);
/* The part without callbacks, for a device that reports its loss in the middle of a call. */
void device_loss_maps(const void *backend);

/* -ENODEV, with a text, if the device was taken away, as far as is known. */
int device_loss_check(struct hm_device *device);
/*
 * The same for the objects made by @link, which is held: the device may be there again without
 * them.
 */
int device_loss_check_link(const struct hm_device *device, const struct device_link *link);
/* The same for the objects that the buffer has. */
int device_loss_check_buffer(struct hm_buffer *buffer);
/* As device_loss_check_link(), by asking the device itself. */
int device_loss_ask(struct hm_device *device, const struct device_link *link);

/*
 * Must be called with the result @r of a call on @device that may have met a loss; returns @r with
 * its text. If the device is gone, its maps learn of it now, except in a view's callback; blocks
 * that handlers have replaced, on any device, are reported, too. The caller holds no locks except
 * those of the change that it is part of.
 */
int device_loss_notice(struct hm_device *device, int r);

/*
 * To be called around an access of the library to bytes of objects made by @link, in mappings
 * of its own: the bytes stay until the end, even if the device goes. Between the two calls the
 * caller must not wait for the device, and must make no call that may find a device lost.
 * -ENODEV: the device is gone.
 */
int device_loss_touch_begin(const struct hm_device *device, const struct device_link *link);
void device_loss_touch_end(void);

/* fork(2): threads that touch bytes are in the parent. */
void device_loss_fork_child(void);

#endif
