/* SPDX-License-Identifier: MIT */
/*
 * .npy files, as numpy.save() writes them: an array, and a header that says what it is.
 *
 * Versions 1.0, 2.0 and 3.0. Elements are of any type of a fixed size. Those that this library
 * has no type for, as times, strings, structures and numbers of 16 bytes, are so many bytes
 * each, which nothing here converts. Arrays of Python objects are pickles and refused, also
 * where an object is a field of a structure. The array's bytes are at an offset of the file,
 * which can be mapped as any file (hm_buffer_from_file), or a part of it.
 */
#ifndef HETMAP_NPY_H
#define HETMAP_NPY_H

#include <hetmap/safetensors.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Dimensions that an array has at most; numpy 1 has 32, numpy 2 has 64. */
#define HM_NPY_RANK_MAX 64

/* hm_npy_info.dtype of elements that are of none of enum hm_dtype: see itemsize and descr */
#define HM_NPY_OPAQUE 0xffffu

/* Room for hm_npy_info.descr, its end included. */
#define HM_NPY_DESCR_MAX 128

/* hm_npy_info.flags */
#define HM_NPY_FORTRAN (1u << 0) /* the first dimension is the fastest, not the last one */
/* In the other byte order than this machine's; of structures: some field is. */
#define HM_NPY_SWAPPED (1u << 1)

struct hm_npy_info {
	uint32_t struct_size;
	uint32_t version; /* 1, 2, 3 */
	uint32_t dtype;   /* enum hm_dtype, or HM_NPY_OPAQUE */
	uint32_t flags;
	uint32_t rank;
	uint32_t reserved;
	uint64_t elements;
	uint64_t bytes;                  /* of all of them */
	uint64_t offset;                 /* of the first one, in the file */
	uint64_t alignment;              /* of offset: a power of two, the page size at most */
	uint64_t size;                   /* of the file */
	uint64_t shape[HM_NPY_RANK_MAX]; /* rank of them are set; as numpy has them */
	uint64_t itemsize;               /* bytes of an element; of "S0" and its like 0 */
	/*
	 * numpy's name of the type, "<u2", or its list of fields, in printable characters;
	 * what does not fit is "..." at the end
	 */
	char descr[HM_NPY_DESCR_MAX];
};

/**
 * hm_npy_query - what a .npy file has, by its header
 * @path:     [in]
 * @ret_info: [in,out] struct_size set by the caller
 *
 * Errors: -EBADMSG it is no .npy file, or its header breaks a rule, or the file ends before
 * the array does: the text says which; -EOPNOTSUPP its elements are objects, or structures
 * with objects, are of a type that numpy has no such name for, have more than 2^31 - 1 bytes
 * each, or are structures 17 deep; a header of more than 10,000 characters, which is numpy's
 * limit, too; another version; more than HM_NPY_RANK_MAX dimensions; -EOVERFLOW a shape whose
 * product is; -ENOENT, -EACCES and their like, of open(2); -EISDIR; -EINVAL no regular file;
 * -EIO; -E2BIG.
 * Source: numpy/lib/format.py. Thread-safe; the file is not kept open.
 */
HM_API int hm_npy_query(const char *path, struct hm_npy_info *ret_info);

#ifdef __cplusplus
}
#endif

#endif
