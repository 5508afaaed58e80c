/* SPDX-License-Identifier: MIT */
/*
 * GGUF: files of quantised models, as llama.cpp reads them, used in place.
 *
 * A file consists of typed metadata, a list of tensors, and the bytes of the tensors. The library
 * opens the file read-only and maps it shared, so that all processes that open the file use one
 * copy. A tensor's pointer can be passed to kernels like any pointer into a map. The elements of
 * quantised types are stored in blocks, which the library does not decode: it reports the type, and
 * the elements and the bytes of a block.
 *
 * Thread safety of all functions: any thread. The description of an open file never changes.
 */
#ifndef HETMAP_GGUF_H
#define HETMAP_GGUF_H

#include <hetmap/safetensors.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_gguf; /* a file, or the files of a split model */

/* Most dimensions of a tensor here. ggml itself takes 4. */
#define HM_GGUF_RANK_MAX 8

/* Types of tensors, by ggml's numbers. hm_gguf_type() describes them. */
enum hm_ggml_type {
	HM_GGML_F32 = 0,
	HM_GGML_F16 = 1,
	HM_GGML_Q4_0 = 2,
	HM_GGML_Q4_1 = 3,
	HM_GGML_Q5_0 = 6,
	HM_GGML_Q5_1 = 7,
	HM_GGML_Q8_0 = 8,
	HM_GGML_Q8_1 = 9,
	HM_GGML_Q2_K = 10,
	HM_GGML_Q3_K = 11,
	HM_GGML_Q4_K = 12,
	HM_GGML_Q5_K = 13,
	HM_GGML_Q6_K = 14,
	HM_GGML_Q8_K = 15,
	HM_GGML_IQ2_XXS = 16,
	HM_GGML_IQ2_XS = 17,
	HM_GGML_IQ3_XXS = 18,
	HM_GGML_IQ1_S = 19,
	HM_GGML_IQ4_NL = 20,
	HM_GGML_IQ3_S = 21,
	HM_GGML_IQ2_S = 22,
	HM_GGML_IQ4_XS = 23,
	HM_GGML_I8 = 24,
	HM_GGML_I16 = 25,
	HM_GGML_I32 = 26,
	HM_GGML_I64 = 27,
	HM_GGML_F64 = 28,
	HM_GGML_IQ1_M = 29,
	HM_GGML_BF16 = 30,
	HM_GGML_TQ1_0 = 34,
	HM_GGML_TQ2_0 = 35,
	HM_GGML_MXFP4 = 39,
	HM_GGML_NVFP4 = 40,
	HM_GGML_Q1_0 = 41,
	HM_GGML_Q2_0 = 42,
};

/* Types of metadata, by the format's numbers. */
enum hm_gguf_kind {
	HM_GGUF_U8 = 0,
	HM_GGUF_I8 = 1,
	HM_GGUF_U16 = 2,
	HM_GGUF_I16 = 3,
	HM_GGUF_U32 = 4,
	HM_GGUF_I32 = 5,
	HM_GGUF_F32 = 6,
	HM_GGUF_BOOL = 7,
	HM_GGUF_STRING = 8,
	HM_GGUF_ARRAY = 9,
	HM_GGUF_U64 = 10,
	HM_GGUF_I64 = 11,
	HM_GGUF_F64 = 12,
};

/* A type of tensors. The name is static. */
struct hm_gguf_type_info {
	uint32_t struct_size;
	uint32_t dtype;   /* enum hm_dtype; HM_DTYPE_OPAQUE: a type of blocks */
	const char *name; /* "Q4_K" */
	uint64_t block_elements;
	uint64_t block_bytes;
};

/* Totals over all files of a model. */
struct hm_gguf_info {
	uint32_t struct_size;
	uint32_t version; /* of the first file: 2 or 3 */
	uint32_t files;
	uint32_t big_endian; /* 1: all numbers in the files, those of tensors too, are big-endian */
	uint32_t swapped; /* 1: the byte order is not this machine's */
	uint32_t reserved;
	uint64_t alignment; /* general.alignment of the first file: a power of two */
	uint64_t tensors;
	uint64_t metadata; /* number of keys */
	uint64_t bytes;    /* bytes of all tensors */
};

/* One of the files. */
struct hm_gguf_file_info {
	uint32_t struct_size;
	uint32_t version;
	const char *path;     /* path as opened; lives as long as the hm_gguf */
	struct hm_map *map;   /* map of the whole file; take a reference to keep it */
	uint64_t size;        /* size of the file */
	uint64_t data_offset; /* offset from which the file counts its tensors' offsets */
	uint64_t alignment;
	uint64_t first; /* index of its first tensor */
	uint64_t tensors;
};

/* A tensor in a file. Pointers live as long as the hm_gguf. */
struct hm_gguf_tensor_info {
	uint32_t struct_size;
	uint32_t type;  /* enum hm_ggml_type */
	uint32_t dtype; /* enum hm_dtype; HM_DTYPE_OPAQUE: blocks, or numbers that are swapped */
	uint32_t swapped; /* 1: numbers in it are not in this machine's byte order */
	uint32_t rank;
	uint32_t file;
	const char *name;      /* UTF-8 */
	const char *type_name; /* "Q4_K"; static */
	const uint64_t *ne;    /* rank dimensions in GGUF's order, the fastest first */
	const uint64_t *shape; /* the same dimensions, the slowest first, as elsewhere here */
	uint64_t index;
	uint64_t offset; /* offset of the first byte, in its file */
	uint64_t bytes;
	uint64_t alignment; /* alignment of offset: a power of two, up to the page size */
	uint64_t block_elements;
	uint64_t block_bytes;
};

/*
 * A value of the metadata, or an element of an array. Pointers live as long as the hm_gguf. A whole
 * number is in those of u64 and i64 that can hold it, and, rounded, in f64. A real number is in f64
 * only. The others are 0.
 */
struct hm_gguf_value {
	uint32_t struct_size;
	uint32_t kind;         /* enum hm_gguf_kind */
	uint32_t element_kind; /* kind of an array's elements; else the same as kind */
	uint32_t file;         /* file that has it */
	const char *key;       /* UTF-8 */
	uint64_t count;        /* number of elements; 1 for other kinds */
	uint64_t u64;          /* BOOL: 0 or 1 */
	int64_t i64;
	double f64;
	const char *string; /* STRING: ends with a '\0'; any bytes; NULL for other kinds */
	uint64_t length;    /* bytes of string, which may have a '\0' in it */
};

/* A tensor to write. This struct is fixed, because it comes in arrays. */
struct hm_gguf_source {
	const char *name;
	uint32_t type; /* enum hm_ggml_type */
	uint32_t rank;
	const uint64_t *ne; /* in GGUF's order: the fastest dimension first */
	const void *data; /* bytes, as many as type and ne say, in this machine's byte order */
};

/* A key to write. This struct is fixed, because it comes in arrays. */
struct hm_gguf_pair {
	const char *key;
	uint32_t kind;         /* enum hm_gguf_kind */
	uint32_t element_kind; /* ARRAY: kind of its elements; no arrays of arrays */
	uint64_t count;        /* ARRAY: number of elements */
	/*
	 * The value, or the elements of an array, by its C type: uint8_t for U8 and BOOL, float
	 * for F32, and const char * for STRING.
	 */
	const void *data;
};

struct hm_gguf_desc {
	uint32_t struct_size;
	uint32_t flags;     /* 0 */
	uint64_t alignment; /* of tensors: a power of two from 8 to 65536; 0: 32 */
	const struct hm_gguf_source *tensors;
	uint64_t n_tensors;
	const struct hm_gguf_pair *metadata;
	uint64_t n_metadata;
};

/**
 * hm_gguf_type - describe a type of tensors
 * @type:     [in] enum hm_ggml_type, or any number that a file has
 * @ret_info: [in,out] the caller must set struct_size
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EOPNOTSUPP: ggml has removed the type, such as Q4_2 or Q4_0_4_4; the text names it.
 *   -ERANGE:     this library knows no such type.
 *   -E2BIG:      struct_size is larger than this library knows.
 */
HM_API int hm_gguf_type(uint32_t type, struct hm_gguf_type_info *ret_info);

/**
 * hm_gguf_open - open a file of GGUF, or all files of a split model
 * @path:     [in] path of a file; of a split model, any of NAME-00001-of-00003.gguf and so on
 * @flags:    [in] must be 0
 * @ret_gguf: [out] a reference; the caller must drop it with hm_gguf_unref()
 *
 * Reads the metadata and the list of tensors by read(2), maps the files, and does not touch the
 * tensors' bytes. The time does not depend on the sizes of arrays of numbers. The function steps
 * over arrays of strings without a copy; the first hm_gguf_element() of an array reads the array.
 *
 * Versions 2 and 3 of the format can be read, in either byte order. The numbers of the metadata are
 * always in this machine's byte order. Those of tensors are as the file has them: a tensor of the
 * other byte order has swapped set, and its dtype is HM_DTYPE_OPAQUE.
 *
 * Where the file has a split.count above 1, the function opens all files of the model, and checks
 * split.no, split.count and split.tensors.count. The metadata are those of the first file, and
 * keys that only further files have.
 *
 * Tensors are in the order of the files, and in a file in the order of their bytes. A tensor must
 * begin at a multiple of general.alignment (32 without this key), must be in the file, and must
 * not overlap another one. Gaps between tensors are accepted, though ggml refuses them. A key of
 * metadata must occur once in a file, a tensor's name once in the model. Both must be UTF-8 without
 * a '\0', of up to 65535 bytes. Strings of values may have any bytes.
 *
 * A file that is cut off while it is opened is an error. After the open, a touch of bytes that
 * were cut off raises SIGBUS, unless hetmap/guard.h handles the fault.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EBADMSG:    the file breaks a rule of the format; the text names the rule, and the tensor or
 *                the key. Or the files of a split model do not belong together.
 *   -EOPNOTSUPP: a file of another kind, or of another version of the format; a tensor of a type
 *                that ggml has removed, or that this library does not know; an array of arrays; or
 *                more than HM_GGUF_RANK_MAX dimensions.
 *   -ENOENT:     the file, or a file of the split model, does not exist.
 *   -EINVAL:     the file is one of a split model, and its name does not say which; or the path
 *                names no regular file.
 *   -ENODATA:    the file is empty, or was cut off.
 *
 * In addition the errors of hm_buffer_from_file() and hm_map_create().
 */
HM_API int hm_gguf_open(const char *path, uint32_t flags, struct hm_gguf **ret_gguf);

/**
 * hm_gguf_query - report the totals of a model
 * @gguf:     [in]
 * @ret_info: [in,out] the caller must set struct_size
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 */
HM_API int hm_gguf_query(struct hm_gguf *gguf, struct hm_gguf_info *ret_info);

/**
 * hm_gguf_file - describe one of the files
 * @gguf:     [in]
 * @file:     [in] number of the file, from 0
 * @ret_info: [in,out] the caller must set struct_size
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ERANGE: the model has fewer files.
 *   -E2BIG:  struct_size is larger than this library knows.
 */
HM_API int hm_gguf_file(struct hm_gguf *gguf, uint32_t file,
			struct hm_gguf_file_info *ret_info);

/**
 * hm_gguf_find - find a tensor by its name
 * @gguf:      [in]
 * @name:      [in] name of the tensor
 * @ret_index: [out] index for hm_gguf_at()
 *
 * The time of a search does not depend on the number of tensors.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ENOENT: the model has no tensor of that name.
 */
HM_API int hm_gguf_find(struct hm_gguf *gguf, const char *name, uint64_t *ret_index);

/**
 * hm_gguf_at - describe a tensor and its place in its file
 * @gguf:     [in]
 * @index:    [in] index from 0
 * @ret_info: [in,out] the caller must set struct_size
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ERANGE: the model has fewer tensors.
 *   -E2BIG:  struct_size is larger than this library knows.
 */
HM_API int hm_gguf_at(struct hm_gguf *gguf, uint64_t index,
		      struct hm_gguf_tensor_info *ret_info);

/**
 * hm_gguf_tensor - make an hm_tensor: a tensor at an address
 * @gguf:       [in]
 * @index:      [in] index for hm_gguf_at()
 * @alignment:  [in] alignment of the address: a power of two, up to the page size; 0: any
 * @flags:      [in] 0 or HM_TENSOR_MAY_COPY
 * @ret_tensor: [out] a reference; the caller must drop it with hm_tensor_unref()
 *
 * The tensor is in place, in the map of its file, if it is aligned as asked: up to
 * general.alignment it always is. Otherwise, with HM_TENSOR_MAY_COPY, the function reads the bytes
 * into a page-aligned buffer of "host", which the hm_tensor owns. The hm_tensor lives on when @gguf
 * is dropped. hm_tensor_query() reports the dtype of hm_gguf_at(), and the shape with the slowest
 * dimension first.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL: @alignment is no power of two up to the page size, or a flag is unknown.
 *   -ERANGE: the model has no such tensor.
 *   -EXDEV:  the tensor is not aligned as asked; pass HM_TENSOR_MAY_COPY.
 *
 * In addition for copies the errors of hm_gguf_read() and hm_buffer_create().
 */
HM_API int hm_gguf_tensor(struct hm_gguf *gguf, uint64_t index, uint64_t alignment,
			  uint32_t flags, struct hm_tensor **ret_tensor);

/**
 * hm_gguf_read - copy a tensor into the caller's memory
 * @gguf:   [in]
 * @index:  [in] index for hm_gguf_at()
 * @to:     [out] a map of a device's buffer, or any memory
 * @length: [in] bytes of @to, at least as many as the tensor has
 *
 * Copies by read(2), not through the map. A file that was cut off, or storage that fails, is
 * therefore an error, not a signal. An error may leave a part of @to written.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ERANGE:  the model has no such tensor.
 *   -ENOSPC:  @length is too small.
 *   -ENODATA: the file was cut off.
 *   -EIO:     storage failed.
 *   -EFAULT:  @to can't be written.
 */
HM_API int hm_gguf_read(struct hm_gguf *gguf, uint64_t index, void *to, uint64_t length);

/**
 * hm_gguf_metadata - return a value of the metadata
 * @gguf:      [in]
 * @index:     [in] index from 0, in the order of the files
 * @ret_value: [in,out] the caller must set struct_size
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ERANGE:  the model has fewer keys.
 *   -ENODATA: the file was cut off before a string of more than 64 KiB was read.
 *   -EIO:     storage failed, likewise.
 *   -E2BIG:   struct_size is larger than this library knows.
 */
HM_API int hm_gguf_metadata(struct hm_gguf *gguf, uint64_t index,
			    struct hm_gguf_value *ret_value);

/**
 * hm_gguf_metadata_find - find a key of the metadata
 * @gguf:      [in]
 * @key:       [in]
 * @ret_index: [out] index for hm_gguf_metadata() and hm_gguf_element()
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ENOENT: the model has no such key.
 */
HM_API int hm_gguf_metadata_find(struct hm_gguf *gguf, const char *key, uint64_t *ret_index);

/**
 * hm_gguf_element - return an element of an array of the metadata
 * @gguf:      [in]
 * @index:     [in] index of the array, for hm_gguf_metadata()
 * @element:   [in] number of the element, from 0
 * @ret_value: [in,out] the caller must set struct_size
 *
 * The first call for an array reads the whole array from the file, by read(2), and keeps it. The
 * time of further calls does not depend on the array's length. A value of any other kind has one
 * element.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ERANGE:  there is no such key, or the array has fewer elements.
 *   -EBADMSG: the file was changed, and has another array there now.
 *   -ENODATA: the file was cut off.
 *   -EIO:     storage failed.
 *   -ENOMEM:  memory is exhausted.
 *   -E2BIG:   struct_size is larger than this library knows.
 */
HM_API int hm_gguf_element(struct hm_gguf *gguf, uint64_t index, uint64_t element,
			   struct hm_gguf_value *ret_value);

/**
 * hm_gguf_write - write a file of GGUF
 * @path: [in] path of the file; an existing file is replaced as a whole, or not at all
 * @desc: [in] tensors and metadata to write
 *
 * Writes version 3 in this machine's byte order, with the keys and the tensors in the order of
 * @desc. The library writes general.alignment itself, where it is not 32. The bytes of quantised
 * types must be ready blocks: the library does not quantise. The file is replaced as by
 * hm_safetensors_write().
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:     the format can't express the input: a name or a key that occurs twice, is longer
 *                than 65535 bytes or is not UTF-8; an empty key; an unknown kind; an array of
 *                arrays; the key general.alignment; an alignment that is no power of two from 8 to
 *                65536; more than HM_GGUF_RANK_MAX dimensions; or a first dimension that ends
 *                inside a block.
 *   -EOPNOTSUPP: ggml has removed the type.
 *   -ERANGE:     this library does not know the type.
 *   -EOVERFLOW:  the product of a tensor's dimensions overflows.
 *   -EFBIG:      the file would have more than 2^62 bytes, or exceeds RLIMIT_FSIZE (with a
 *                SIGXFSZ, unless that is ignored).
 *
 * In addition the errors of hm_safetensors_write() that its data and the folder cause.
 */
HM_API int hm_gguf_write(const char *path, const struct hm_gguf_desc *desc);

/** hm_gguf_ref - take a reference; returns @gguf. NULL gives NULL. */
HM_API struct hm_gguf *hm_gguf_ref(struct hm_gguf *gguf);

/** hm_gguf_unref - drop a reference; NULL is allowed */
HM_API void hm_gguf_unref(struct hm_gguf *gguf);

#ifdef __cplusplus
}
#endif

#endif
