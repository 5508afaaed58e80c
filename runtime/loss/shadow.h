/* SPDX-License-Identifier: MIT */
/*
 * A shadow: a copy of a buffer's bytes in memory of the host's, which takes their place
 * when they are gone. It is a memfd that is mapped privately there: the place is taken at once,
 * whatever its length.
 *
 * It is a file of memory: a spare area, then the bytes. A page is brought up to date in
 * two steps: from the buffer into the spare area, where the buffer's end may interrupt
 * it without harm, and from there to its place. Between them the page is "flying", and
 * the spare area has all of it, the new bytes and what of the page did not change.
 *
 * One word says what flies, and whether the shadow is sealed. Who maps it seals it, for
 * as long as it is mapped, and learns by the same instruction what was flying then: that
 * is mapped from the spare area, the rest from its place. Who brings pages up to date
 * makes one fly, and lets it land, only if nobody has sealed the shadow; else he leaves
 * both areas as they are, for good. So nobody ever sees a page that is half old and half
 * new, whenever the device goes, and all who map it see the same.
 *
 * A fork child can't seal its parent's shadow, whose struct it has as it was at the fork. It
 * copies pages, by the counter of flights that it shares: as a reader of a sequence lock.
 *
 * The bytes of a device that goes are zeros (sim), the old ones (drm), a fault (file),
 * or intact as long as lost_touch_begin() holds (soft): so where that does not hold the
 * kernel copies, to which a fault is an error, and the device is asked afterwards
 * whether it was there still.
 */
#ifndef HETMAP_SHADOW_H
#define HETMAP_SHADOW_H

#include "core/core.h"

struct shadow;

/* An empty one with memory for @size bytes. -ENOMEM, -EMFILE, -ENOSPC, -EFBIG. */
int shadow_create(uint64_t size, struct shadow **ret_shadow);
/* NULL is allowed. Nobody maps it meanwhile. */
void shadow_free(struct shadow *shadow);

/*
 * Bytes [@offset, @offset + @length), of the buffer as it is now, into the shadow. Calls
 * for one shadow come one at a time. -ENODEV: it is sealed, or the device is gone.
 */
int shadow_refresh(struct shadow *shadow, struct hm_buffer *buffer, uint64_t offset,
		   uint64_t length);
/* The buffer has no bytes from @size on any more: those that come there are zeros. */
void shadow_cut(struct shadow *shadow, uint64_t size);
/* Lets go of the buffer's objects, until the next refresh. */
void shadow_let_go(struct shadow *shadow);

/*
 * Puts what it has of [@offset, @offset + @length) at @address, privately, and seals it;
 * *ret_length bytes, whole pages. Legal in a signal handler.
 */
int shadow_map(struct shadow *shadow, char *address, uint64_t offset, uint64_t length, int prot,
	       uint64_t *ret_length);
/*
 * Likewise in a fork child, of its parent's shadow, which that may go on to refresh: a copy
 * of its own, each page as it was at one time. A failure leaves what was there.
 */
int shadow_copy(const struct shadow *shadow, char *address, uint64_t offset, uint64_t length,
		int prot, uint64_t *ret_length);
bool shadow_is_sealed(const struct shadow *shadow);
/* Nobody maps it any more. */
void shadow_unseal(struct shadow *shadow);
/*
 * Copies what a map of it would show to @to: -EFAULT where that can't be written. Of
 * bytes beyond what it has, which are zeros, nothing.
 */
int shadow_read(const struct shadow *shadow, void *to, uint64_t offset, uint64_t length);
/* Where one that nobody maps has the bytes from @offset on, to be written. */
char *shadow_place(struct shadow *shadow, uint64_t offset);

/* Memory that it takes. */
uint64_t shadow_bytes(const struct shadow *shadow);

#endif
