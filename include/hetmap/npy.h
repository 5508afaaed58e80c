/* SPDX-License-Identifier: MIT */
/*
 * .npy files, as numpy.save() writes them: an array, and a header that says what it is.
 *
 * Versions 1.0, 2.0 and 3.0. Arrays of Python objects are pickles and refused, structures
 * and strings, too. The array's bytes are at an offset of the file, which can be mapped as
 * any file (hm_buffer_from_file), or a part of it.
 */
#ifndef HETMAP_NPY_H
#define HETMAP_NPY_H

#include <hetmap/safetensors.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Dimensions that an array has at most; numpy 1 has 32, numpy 2 has 64. */
#define HM_NPY_RANK_MAX 64

/* hm_npy_info.flags */
#define HM_NPY_FORTRAN (1u << 0) /* the first dimension is the fastest, not the last one */
#define HM_NPY_SWAPPED (1u << 1) /* in the other byte order than this machine's */

struct hm_npy_info {
	uint32_t struct_size;
	uint32_t version; /* 1, 2, 3 */
	uint32_t dtype;   /* enum hm_dtype */
	uint32_t flags;
	uint32_t rank;
	uint32_t reserved;
	uint64_t elements;
	uint64_t bytes;                  /* of all of them */
	uint64_t offset;                 /* of the first one, in the file */
	uint64_t alignment;              /* of offset: a power of two, the page size at most */
	uint64_t size;                   /* of the file */
	uint64_t shape[HM_NPY_RANK_MAX]; /* rank of them are set; as numpy has them */
};

/**
 * hm_npy_query - what a .npy file has, by its header
 * @path:     [in]
 * @ret_info: [in,out] struct_size set by the caller
 *
 * Errors: -EBADMSG it is no .npy file, or its header breaks a rule, or the file ends before
 * the array does: the text says which; -EOPNOTSUPP its elements are objects, structures,
 * strings or numbers of more than 8 bytes (but c8), a header of more than 10,000
 * characters, which is numpy's limit, too, another version, or more than HM_NPY_RANK_MAX
 * dimensions; -EOVERFLOW a shape whose product is; -ENOENT, -EACCES and their like, of
 * open(2); -EISDIR; -EINVAL no regular file; -EIO; -E2BIG.
 * Source: numpy/lib/format.py. Thread-safe; the file is not kept open.
 */
HM_API int hm_npy_query(const char *path, struct hm_npy_info *ret_info);

#ifdef __cplusplus
}
#endif

#endif
