/* SPDX-License-Identifier: MIT */
/* The fields that runtime/backend/drm sends, and what the kernel makes of a change in each. */
#ifndef HETMAP_TESTS_DRM_FIELDS_H
#define HETMAP_TESTS_DRM_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum drm_field_kind {
	BITS = 1, /* flags and numbers of things: each bit is flipped */
	LENGTH,   /* one more */
	HANDLE,   /* of another object or file, which there is not */
	POINTER,  /* to where nothing can be */
	ADDRESS,  /* of pages: likewise, and to the next byte */
	COUNT,    /* of what a pointer leads to: one off */
	ZERO,     /* reserved: the first and the last bit are set */
	UNREAD,   /* the kernel does not look at it, or writes it only */
};

struct drm_field {
	const char *in; /* struct */
	const char *name;
	size_t offset, size;
	enum drm_field_kind kind;
	/*
	 * Bits with which the kernel goes on: to do something else, or (spared) the same.
	 * All others are refused.
	 */
	uint64_t taken, spared;
	bool sometimes; /* refused in one of its calls at least */
	const char *why;
};

extern const struct drm_field drm_fields[];
extern const size_t drm_n_field;

#endif
