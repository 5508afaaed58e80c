/* SPDX-License-Identifier: MIT */
/*
 * Ranges of addresses: the doors to an accelerator's entries, and to the host's pages.
 *
 * The functions of host.c are what hm_range_*() do without an accelerator, and for "cpu".
 */
#ifndef HETMAP_RUNTIME_RANGE_H
#define HETMAP_RUNTIME_RANGE_H

#include <hetmap/range.h>

#include "accel/accel.h"

/* Whole pages with all bytes of a range. */
struct range_pages {
	uint64_t address;
	uint64_t length;
};

/* -EINVAL, with a text that begins with @what. */
int range_pages_of(const void *pointer, uint64_t length, const char *what,
		   struct range_pages *ret_pages);
/*
 * Chooses the accelerator that a call is for: *@ret_accel is NULL for the host. -EOPNOTSUPP: an
 * accelerator without entries of its own.
 */
int range_choose(struct hm_accel *accel, const char *what, struct hm_accel **ret_accel);

/* ---- host.c ---- */

int host_advise(const struct range_pages *pages, uint32_t advice, uint64_t value);
/* Brings the pages in. -EFAULT: the text has the address. */
int host_prefetch(const struct range_pages *pages, uint32_t access);
/* Fills in place, access and node of each page. */
int host_query(const struct range_pages *pages, struct hm_range_page *ret_pages);

#endif
