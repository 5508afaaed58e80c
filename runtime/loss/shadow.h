/* SPDX-License-Identifier: MIT */
/*
 * A shadow: a copy of a buffer's bytes in host memory, which replaces them when they are gone.
 * It is a memfd that is mapped privately there, so that the replacement takes one step at any
 * length.
 *
 * The file has a spare area, and the bytes behind it. A page is refreshed in two steps: from
 * the buffer into the spare area, where a loss of the buffer may interrupt it without harm, and
 * from there to its place. In between the page is "flying", and the spare area has all of it:
 * the new bytes, and the bytes of the page that did not change.
 *
 * One word says which pages fly, and whether the shadow is sealed. A thread that maps the
 * shadow seals it, for as long as it is mapped, and learns by the same instruction which pages
 * were flying: those are mapped from the spare area, the rest from its place. A thread that
 * refreshes pages makes one fly, and lets it land, only if the shadow is not sealed; if it is,
 * both areas stay as they are, for good. No thread ever sees a page that is half old and half
 * new, whenever the device goes, and all maps show the same.
 *
 * A fork child can't seal its parent's shadow, whose struct it has as it was at the fork. It
 * copies pages, and checks the shared counter of flights as a reader of a sequence lock does.
 *
 * The bytes of a device that goes are zeros (sim), the old ones (drm), a fault (file), or
 * intact as long as device_loss_touch_begin() holds (soft). Where that does not hold, the kernel
 * copies, to which a fault is an error, and the device is asked afterwards whether it was still
 * there.
 */
#ifndef HETMAP_SHADOW_H
#define HETMAP_SHADOW_H

#include "core/core.h"

struct shadow;

/* Makes an empty one with memory for @size bytes. -ENOMEM, -EMFILE, -ENOSPC, -EFBIG. */
int shadow_create(uint64_t size, struct shadow **ret_shadow);
/* Takes NULL. No thread may map it meanwhile. */
void shadow_free(struct shadow *shadow);

/*
 * Copies bytes [@offset, @offset + @length) of the buffer, as it is now, into the shadow. The
 * caller must make one call at a time for a shadow. -ENODEV: the shadow is sealed, or the
 * device is gone.
 */
int shadow_refresh(struct shadow *shadow, struct hm_buffer *buffer, uint64_t offset,
		   uint64_t length);
/* Drops the bytes from @size on: bytes that come there later begin as zeros. */
void shadow_cut(struct shadow *shadow, uint64_t size);
/* Unmaps the buffer's objects, until the next refresh. */
void shadow_let_go(struct shadow *shadow);

/*
 * Maps the shadow's part of [@offset, @offset + @length) at @address, privately, and seals it;
 * *ret_length bytes, whole pages. Legal in a signal handler.
 */
int shadow_map(struct shadow *shadow, char *address, uint64_t offset, uint64_t length, int prot,
	       uint64_t *ret_length);
/*
 * The same in a fork child, from its parent's shadow, which the parent may go on refreshing: a
 * copy of its own, each page as it was at one time. A failure leaves the old pages.
 */
int shadow_copy(const struct shadow *shadow, char *address, uint64_t offset, uint64_t length,
		int prot, uint64_t *ret_length);
bool shadow_is_sealed(const struct shadow *shadow);
/* The caller knows that no map shows it any more. */
void shadow_unseal(struct shadow *shadow);
/*
 * Copies the bytes that a map of it would show to @to, but not the zeros beyond its end.
 * -EFAULT: @to can't be written.
 */
int shadow_read(const struct shadow *shadow, void *to, uint64_t offset, uint64_t length);
/* Address of the bytes from @offset on, to be written while no map shows them. */
char *shadow_place(struct shadow *shadow, uint64_t offset);

/* Memory that the shadow takes. */
uint64_t shadow_bytes(const struct shadow *shadow);

#endif
