/* SPDX-License-Identifier: MIT */
/* The fields that runtime/backend/drm sends, and the kernel's reaction to a change in each. */
#ifndef HETMAP_TESTS_DRM_FIELDS_H
#define HETMAP_TESTS_DRM_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum drm_field_kind {
	BITS = 1, /* flags and numbers of things: each bit is flipped */
	LENGTH,   /* one more */
	HANDLE,   /* an object or a file that does not exist */
	POINTER,  /* to where nothing can be */
	ADDRESS,  /* pages: likewise, and to the next byte */
	COUNT,    /* elements behind a pointer: one off */
	ZERO,     /* reserved: the first and the last bit are set */
	UNREAD,   /* the kernel does not look at it, or writes it only */
};

struct drm_field {
	const char *in; /* struct */
	const char *name;
	size_t offset, size;
	enum drm_field_kind kind;
	/*
	 * Bits with which the kernel goes on: to do something else, or (spared) the same. All other
	 * bits are refused.
	 */
	uint64_t taken, spared;
	bool sometimes; /* refused in one of its calls at least */
	const char *why;
};

extern const struct drm_field drm_fields[];
extern const size_t drm_n_field;

#endif
