/* SPDX-License-Identifier: MIT */
/*
 * Types of a .npy file's elements: numpy's names [numpy.dtype], and structures of these. A type
 * that this library has is returned as such; any other type of a known size is opaque bytes.
 * Python objects are refused anywhere.
 */
#ifndef HETMAP_FORMAT_NPY_TYPE_H
#define HETMAP_FORMAT_NPY_TYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "format/npy/npy_text.h"

struct npy_type {
	uint32_t dtype; /* enum hm_dtype, or HM_NPY_OPAQUE */
	bool swapped;   /* not in this machine's byte order; for a structure: some field */
	uint64_t size;  /* bytes of an element */
	bool padding;   /* bytes, or an array of any type: without a name it is padding */
};

/*
 * Takes a name, or a list of fields.
 * Errors:
 *   -EBADMSG neither of them
 *   -EOPNOTSUPP objects, or an unknown type
 */
int npy_type_take(struct npy_text *text, struct npy_type *ret_type);

#endif
