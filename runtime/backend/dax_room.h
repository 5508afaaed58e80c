/* SPDX-License-Identifier: MIT */
/* DAX devices that this process has open, and the ranges of each that buffers have. */
#ifndef HETMAP_BACKEND_DAX_ROOM_H
#define HETMAP_BACKEND_DAX_ROOM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* One for a device in this process, however many handles are open. */
struct dax_room;

/*
 * Finds the room of the device, or makes it, and takes a reference.
 * Errors, with a text: -ENOMEM.
 */
int dax_room_get(dev_t number, const char *path, uint64_t size, struct dax_room **ret_room);
void dax_room_put(struct dax_room *room);

/* Bytes that no buffer of this process has. */
uint64_t dax_room_free(struct dax_room *room);

/*
 * Takes @length bytes for a new buffer, whose former bytes are lost: the first range that is free.
 * The first one locks the device against other processes.
 * Errors, with a text: -ENOSPC; -EBUSY: another process, or buffers of the device's lasting bytes
 * in this one, use it; -EACCES, -ENOMEM.
 */
int dax_room_take(struct dax_room *room, uint64_t length, uint64_t *ret_offset);
void dax_room_give(struct dax_room *room, uint64_t offset);

/*
 * Enters and leaves a buffer of the device's lasting bytes. Other processes may have such ones.
 * Errors, with a text: -EBUSY: new buffers, here or elsewhere, use the device; -EACCES, -ENOMEM.
 */
int dax_room_enter(struct dax_room *room);
void dax_room_leave(struct dax_room *room);

#endif
