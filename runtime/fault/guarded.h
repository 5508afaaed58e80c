/* SPDX-License-Identifier: MIT */
/* Stores into a map by a function of the caller's, with an error in the place of a signal. */
#ifndef HETMAP_GUARDED_H
#define HETMAP_GUARDED_H

#include <hetmap/guard.h>

#include "copy/copy.h"

/*
 * hm_copy_in() without its door, by @store(address, @from, @length), which may store to all bytes
 * or to some. It may be called again from the start, and a fault ends it at any store. Without
 * the handler a fault remains a signal, and all else is checked likewise. The map is the
 * caller's, and so is the report of a loss: the caller passes the result to device_loss_notice()
 * once it holds no lock and has no bracket open.
 */
int guarded_store(const char *what, struct hm_map *map, uint64_t offset, uint64_t length,
		  copy_function *store, const void *from, struct hm_fault *ret_fault);

#endif
