/* SPDX-License-Identifier: MIT */
/*
 * .npy files, as numpy.save() writes them: an array, and a header that describes the array.
 *
 * The versions are 1.0, 2.0 and 3.0. Elements are of any type of a fixed size. A type that this
 * library lacks, such as times, strings, structures and numbers of 16 bytes, is a number of
 * bytes for each element; the library does not convert such elements. Arrays of Python objects
 * are pickles and are refused, also if an object is a field of a structure. The array's bytes
 * begin at an offset of the file. The file, or a part of it, can be mapped like any file
 * (hm_buffer_from_file).
 */
#ifndef HETMAP_NPY_H
#define HETMAP_NPY_H

#include <hetmap/pieces.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Most dimensions of an array; numpy 1 has 32, numpy 2 has 64. */
#define HM_NPY_RANK_MAX 64

/* hm_npy_info.dtype of elements of a type that enum hm_dtype lacks: see itemsize and descr. */
#define HM_NPY_OPAQUE HM_DTYPE_OPAQUE

/* Room for hm_npy_info.descr, with its terminating '\0'. */
#define HM_NPY_DESCR_MAX 128

/* hm_npy_info.flags */
#define HM_NPY_FORTRAN (1u << 0) /* the first dimension varies fastest, not the last one */
/* Elements, or some field of a structure, are not in this machine's byte order. */
#define HM_NPY_SWAPPED (1u << 1)
/*
 * Elements are plain bytes, such as "|V2", and the header has no type for them: numpy saves the
 * types of ml_dtypes (bfloat16, float8_e4m3fn) so. dtype is HM_NPY_OPAQUE. hm_pieces_open() and
 * hm_tokens_open() take the type from the caller, as hm_tokens_desc.dtype.
 */
#define HM_NPY_BYTES (1u << 2)

struct hm_npy_info {
	uint32_t struct_size;
	uint32_t version; /* 1, 2, 3 */
	uint32_t dtype;   /* enum hm_dtype: HM_DTYPE_F32 for "<f4"; or HM_NPY_OPAQUE */
	uint32_t flags;
	uint32_t rank;
	uint32_t reserved;
	uint64_t elements;
	uint64_t bytes;     /* bytes of all elements */
	uint64_t offset;    /* offset of the first element in the file */
	uint64_t alignment; /* alignment of offset: a power of two, to the page size */
	uint64_t size;      /* size of the file */
	uint64_t shape[HM_NPY_RANK_MAX]; /* dimensions in numpy's order; rank of them are set */
	uint64_t itemsize;               /* bytes of an element; 0 for "S0" and similar types */
	/*
	 * Name of the type in numpy, such as "<u2", or its list of fields, in printable
	 * characters of UTF-8. A longer text is cut and ends in "...".
	 */
	char descr[HM_NPY_DESCR_MAX];
};

/**
 * hm_npy_query - read the header of a .npy file
 * @path:     [in] path of the file
 * @ret_info: [in,out] the caller must set struct_size
 *
 * The function does not keep the file open.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EBADMSG:    the file is no .npy file, its header breaks a rule, a structure has two fields or
 *                titles of one name, or the file ends before the array does; the text says which.
 *   -EOPNOTSUPP: the library does not support the file. It begins like a file of another kind, such
 *                as a pointer of Git LFS. The elements are objects, structures with
 *                objects, or structures nested 17 deep; numpy knows no type of that name; an
 *                element has more than 2^31 - 1 bytes; the header has more than 10,000
 *                characters, which is numpy's limit; the version is another one; or the array has
 *                more than HM_NPY_RANK_MAX dimensions.
 *   -EOVERFLOW:  the product of the shape overflows.
 *   -EISDIR:     the path names a directory.
 *   -EINVAL:     the path names no regular file.
 *   -EIO:        storage failed.
 *   -E2BIG:      struct_size is larger than this library knows.
 *
 * In addition -ENOENT, -EACCES and the other errors of open(2).
 *
 * Source: numpy/lib/format.py.
 */
HM_API int hm_npy_query(const char *path, struct hm_npy_info *ret_info);

#ifdef __cplusplus
}
#endif

#endif
