/* SPDX-License-Identifier: MIT */
/*
 * Blocks of maps that handlers have replaced (repair.h) while the device is there: reports
 * them, and brings the buffer's own bytes back.
 *
 * A handler can report nothing: it counts map_repair.replaced up. The next call that ends with
 * device_loss_notice(), or asks, gives the map its next generation and makes the callbacks.
 */
#ifndef HETMAP_BLOCK_LOSS_H
#define HETMAP_BLOCK_LOSS_H

#include "core/core.h"

struct hm_loss_desc;
struct hm_recover_info;
struct loss;

/*
 * Must be called with the result @r of a call; returns @r with its text. Where handlers have
 * replaced blocks, on any device, that were not reported yet, gives their maps the next generation
 * and calls the lost callbacks. The caller holds no locks. In a view's callback, and for a map that
 * is being changed, leaves that to a later call.
 */
int block_loss_notice(int r);

/* Has some map of the buffer replaced blocks? */
bool block_loss_any(struct hm_buffer *buffer);

/*
 * For hm_device_recover(), with a device that is there: makes the buffer's maps show its bytes
 * again, at their addresses. Broken pages of memory that the library has made get new pages
 * first, with the bytes of the shadow, or zeros, and then those of @desc->refill. Counts its
 * work in @info. The caller holds no locks.
 * -EIO: bytes still can't be read, as of a file that is still cut: their blocks stay as they
 * are.
 * -EBUSY: work, or brackets, do not end, or faults go on.
 * -ENOMEM, or as mmap(2).
 */
int block_loss_restore(struct hm_buffer *buffer, struct loss *loss,
		       const struct hm_loss_desc *desc, struct hm_recover_info *info);

#endif
