/* SPDX-License-Identifier: MIT */
/*
 * The types of a .npy file's elements: numpy's names for them [numpy.dtype], and structures
 * of these. What is one of this library's types is told as such; all else that has a size is
 * so many bytes each. Python objects are refused, wherever they are.
 */
#ifndef HETMAP_FORMAT_NPY_TYPE_H
#define HETMAP_FORMAT_NPY_TYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "format/npy/npy_text.h"

struct npy_type {
	uint32_t dtype; /* enum hm_dtype, or HM_NPY_OPAQUE */
	bool swapped;   /* not in this machine's byte order; of a structure: some field */
	uint64_t size;  /* bytes of an element */
};

/* A name, or a list of fields. -EBADMSG it is neither; -EOPNOTSUPP objects, no such type. */
int npy_type_take(struct npy_text *text, struct npy_type *ret_type);

#endif
