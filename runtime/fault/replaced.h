/* SPDX-License-Identifier: MIT */
/*
 * Blocks of maps that handlers have replaced (repair.h) while the device is there: who is
 * told of them, and how the buffer's own bytes come back.
 *
 * A handler can tell nothing: it counts hm_map.replaced up. The next call that ends with
 * lost_notice(), or asks, gives the map its next generation and calls back.
 */
#ifndef HETMAP_REPLACED_H
#define HETMAP_REPLACED_H

#include "core/core.h"

struct hm_loss_desc;
struct hm_recover_info;
struct loss;

/*
 * For what a call has ended with, which is returned with its text: where handlers have
 * replaced blocks, of whatever device, that nobody was told of, their maps are of the next
 * generation, and the lost callbacks are called. No locks are held; in a view's callback, and of
 * a map that somebody changes, it is left to a later call.
 */
int replaced_notice(int r);

/* Does some map of the buffer have any? */
bool replaced_any(struct hm_buffer *buffer);

/*
 * For hm_device_recover(), of a device that is there: the buffer's maps show its bytes
 * again, at their addresses. What of them is broken, in memory that the
 * library has made, is given new pages first, with the bytes of the shadow, or zeros, and
 * then those of @desc->refill. What is done is counted in @info. -EIO: bytes that can't be
 * read still, as of a file that is cut still: these blocks stay as they are; -EBUSY: work, or
 * brackets, do not end, or faults go on; -ENOMEM, or as mmap(2). No locks are held.
 */
int replaced_restore(struct hm_buffer *buffer, struct loss *loss,
		     const struct hm_loss_desc *desc, struct hm_recover_info *info);

#endif
