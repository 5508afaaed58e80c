/* SPDX-License-Identifier: MIT */
/*
 * Safetensors: files of tensors, as models' weights are stored, in place.
 *
 * A file is an 8-byte length, a JSON header and the tensors' bytes, one behind another. It
 * is opened read-only and mapped shared, so that all processes that open it have one copy;
 * a tensor's pointer goes to kernels as any pointer into a map does. A file that breaks a
 * rule of the format is refused, with a sentence that names the tensor.
 *
 * What was opened never changes: all functions may be called from any number of threads.
 */
#ifndef HETMAP_SAFETENSORS_H
#define HETMAP_SAFETENSORS_H

#include <hetmap/map.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_safetensors; /* a file, or the files of a model */
struct hm_tensor;      /* a tensor, or a part of one, at an address */

/* Types of elements, by the names that files have. F4 and F6 take 4 and 6 bits. */
enum hm_dtype {
	HM_DTYPE_BOOL = 0,
	HM_DTYPE_F4 = 1,
	HM_DTYPE_F6_E2M3 = 2,
	HM_DTYPE_F6_E3M2 = 3,
	HM_DTYPE_U8 = 4,
	HM_DTYPE_I8 = 5,
	HM_DTYPE_F8_E5M2 = 6,
	HM_DTYPE_F8_E4M3 = 7,
	HM_DTYPE_F8_E8M0 = 8,
	HM_DTYPE_F8_E4M3FNUZ = 9,
	HM_DTYPE_F8_E5M2FNUZ = 10,
	HM_DTYPE_I16 = 11,
	HM_DTYPE_U16 = 12,
	HM_DTYPE_F16 = 13,
	HM_DTYPE_BF16 = 14,
	HM_DTYPE_I32 = 15,
	HM_DTYPE_U32 = 16,
	HM_DTYPE_F32 = 17,
	HM_DTYPE_C64 = 18,
	HM_DTYPE_F64 = 19,
	HM_DTYPE_I64 = 20,
	HM_DTYPE_U64 = 21,
};

/* Dimensions that a tensor may have here; the format has no limit. */
#define HM_TENSOR_RANK_MAX 64

/* Of all files of a model. */
struct hm_safetensors_info {
	uint32_t struct_size;
	uint32_t shards; /* files: 1, or those that an index names */
	uint64_t tensors;
	uint64_t metadata; /* strings of __metadata__ */
	uint64_t bytes;    /* of all tensors */
};

/* One of the files. */
struct hm_shard_info {
	uint32_t struct_size;
	uint32_t reserved;
	const char *path;     /* as opened; lives as long as the hm_safetensors */
	struct hm_map *map;   /* of the whole file; take a reference to keep it */
	uint64_t size;        /* of the file */
	uint64_t data_offset; /* where the header ends */
	uint64_t first;       /* index of its first tensor, HM_TENSORS_BY_OFFSET */
	uint64_t tensors;
};

/* Pointers live as long as the object that was asked. */
struct hm_tensor_info {
	uint32_t struct_size;
	uint32_t dtype; /* enum hm_dtype */
	uint32_t rank;
	uint32_t shard;
	const char *name;      /* UTF-8 */
	const uint64_t *shape; /* rank of them, the slowest first */
	uint64_t index;        /* HM_TENSORS_BY_OFFSET */
	uint64_t offset;       /* of the first byte, in its file */
	uint64_t bytes;
	uint64_t alignment; /* of offset: a power of two, the page size at most */
};

/* Orders to list tensors in. */
enum hm_tensor_order {
	HM_TENSORS_BY_OFFSET = 0, /* as the bytes are, shard by shard */
	HM_TENSORS_BY_NAME = 1,   /* as strcmp() has it */
};

/* Of one dimension: the elements from begin on, before end. */
struct hm_slice {
	uint64_t begin;
	uint64_t end;
};

/* hm_safetensors_view flags */
#define HM_TENSOR_MAY_COPY (1u << 0) /* copied where it can't be had in place */

/* Of an hm_tensor. */
struct hm_tensor_place {
	uint32_t struct_size;
	uint32_t copied; /* 1: memory of its own; 0: in its file's map */
	void *address;   /* in place: read-only */
	uint64_t bytes;
	struct hm_map *map; /* that address is in; take a reference to keep it */
	uint64_t offset;    /* in map */
	uint32_t dtype;
	uint32_t rank;
	const uint64_t *shape; /* of the slice, where it is one */
};

/* A tensor to be written. This struct and the next one are fixed: they come in arrays. */
struct hm_tensor_source {
	const char *name;
	uint32_t dtype; /* enum hm_dtype */
	uint32_t rank;
	const uint64_t *shape;
	const void *data; /* as many bytes as dtype and shape say */
};

struct hm_metadata {
	const char *key;
	const char *value;
};

struct hm_safetensors_desc {
	uint32_t struct_size;
	uint32_t flags; /* 0 */
	const struct hm_tensor_source *tensors;
	uint64_t n_tensors;
	const struct hm_metadata *metadata;
	uint64_t n_metadata;
};

/**
 * hm_safetensors_open - open a file of tensors, or a model of several files
 * @path:  [in] a file; an index (a name that ends in ".json", as
 *         model.safetensors.index.json); or a folder: with such an index, or with
 *         model.safetensors
 * @flags: [in] 0
 * @ret_safetensors: [out] a reference, dropped with hm_safetensors_unref()
 *
 * Reads the header and maps the file; the tensors' bytes are not touched. An index names a
 * file for each tensor (weight_map), in its own folder or below: each is opened once, and
 * each tensor has to be in the file that the index says, and in no other.
 *
 * A file that is cut off while it is opened is an error; one that is cut off afterwards
 * raises SIGBUS where the missing bytes are touched, or what hetmap/guard.h makes of that.
 *
 * Errors: -EBADMSG a rule of the format is broken: the text says which, of what tensor;
 * -EOPNOTSUPP more than HM_TENSOR_RANK_MAX dimensions; -ENOENT no such file, also one
 * that the index names; -ENODATA the file is empty; and hm_buffer_from_file's and
 * hm_map_create's.
 */
HM_API int hm_safetensors_open(const char *path, uint32_t flags,
			       struct hm_safetensors **ret_safetensors);

/**
 * hm_safetensors_query - how much there is
 * @safetensors: [in]
 * @ret_info:    [in,out] struct_size set by the caller
 *
 * Errors: -E2BIG.
 */
HM_API int hm_safetensors_query(struct hm_safetensors *safetensors,
				struct hm_safetensors_info *ret_info);

/**
 * hm_safetensors_shard - one of the files
 * @safetensors: [in]
 * @shard:       [in] from 0, by name
 * @ret_info:    [in,out] struct_size set by the caller
 *
 * Errors: -ERANGE there are fewer; -E2BIG.
 */
HM_API int hm_safetensors_shard(struct hm_safetensors *safetensors, uint32_t shard,
				struct hm_shard_info *ret_info);

/**
 * hm_safetensors_find - a tensor by its name
 * @safetensors: [in]
 * @name:        [in]
 * @ret_index:   [out] HM_TENSORS_BY_OFFSET
 *
 * Takes the same time however many there are.
 *
 * Errors: -ENOENT.
 */
HM_API int hm_safetensors_find(struct hm_safetensors *safetensors, const char *name,
			       uint64_t *ret_index);

/**
 * hm_safetensors_tensor - what a tensor is, and where
 * @safetensors: [in]
 * @order:       [in] enum hm_tensor_order
 * @index:       [in] from 0, in that order
 * @ret_info:    [in,out] struct_size set by the caller
 *
 * Errors: -ERANGE there are fewer; -ENOMEM; -E2BIG.
 */
HM_API int hm_safetensors_tensor(struct hm_safetensors *safetensors, uint32_t order,
				 uint64_t index, struct hm_tensor_info *ret_info);

/**
 * hm_safetensors_metadata - one of the strings of __metadata__
 * @safetensors: [in]
 * @index:       [in] from 0, as written, shard by shard
 * @ret_metadata: [out] strings that live as long as @safetensors
 *
 * Errors: -ERANGE there are fewer.
 */
HM_API int hm_safetensors_metadata(struct hm_safetensors *safetensors, uint64_t index,
				   struct hm_metadata *ret_metadata);

/**
 * hm_safetensors_metadata_find - the string of a key
 * @safetensors: [in]
 * @key:         [in]
 * @ret_value:   [out] of the first shard that has the key; lives as long as @safetensors
 *
 * Errors: -ENOENT.
 */
HM_API int hm_safetensors_metadata_find(struct hm_safetensors *safetensors, const char *key,
					const char **ret_value);

/**
 * hm_safetensors_view - a tensor, or a part of one, at an address
 * @safetensors: [in]
 * @index:       [in] HM_TENSORS_BY_OFFSET
 * @slices:      [in] for the first @n_slices dimensions; the others are whole
 * @n_slices:    [in] up to the rank; 0: all of the tensor
 * @alignment:   [in] that the address is to have: a power of two, up to the page size;
 *               0: any, since files promise none
 * @flags:       [in] HM_TENSOR_MAY_COPY
 * @ret_tensor:  [out] a reference, dropped with hm_tensor_unref()
 *
 * In place where the bytes are together (a range of the first dimension, of those behind
 * it where the first ones have one element each) and aligned as asked. Otherwise, with
 * HM_TENSOR_MAY_COPY, read into a buffer of "host", page-aligned, that the hm_tensor owns.
 * It stays as it is when @safetensors is dropped.
 *
 * Errors: -ERANGE no such tensor, or a slice beyond its dimension; -EXDEV it can't be had
 * in place (the text says why), and HM_TENSOR_MAY_COPY was not passed; -EOPNOTSUPP a slice of
 * F4 or F6 that begins or ends inside of a byte; copies: hm_safetensors_read's and
 * hm_buffer_create's.
 */
HM_API int hm_safetensors_view(struct hm_safetensors *safetensors, uint64_t index,
			       const struct hm_slice *slices, uint32_t n_slices,
			       uint64_t alignment, uint32_t flags,
			       struct hm_tensor **ret_tensor);

/**
 * hm_safetensors_read - copy a tensor, or a part of one, into the caller's memory
 * @safetensors: [in]
 * @index, @slices, @n_slices: [in] as of hm_safetensors_view()
 * @to:          [in] a map of a device's buffer, or any memory
 * @length:      [in] its size: what the slice has, at least
 *
 * By read(2), not through the map: a file that was cut off, or storage that fails, is an
 * error and no signal. It may leave a part of @to written.
 *
 * Errors: -ERANGE as above; -EOPNOTSUPP as above; -ENOSPC @length is too small; -ENODATA
 * the file was cut off; -EIO; -EFAULT @to can't be written.
 */
HM_API int hm_safetensors_read(struct hm_safetensors *safetensors, uint64_t index,
			       const struct hm_slice *slices, uint32_t n_slices, void *to,
			       uint64_t length);

/**
 * hm_safetensors_write - write a file of tensors
 * @path: [in] a file that is there is replaced as a whole, or not at all
 * @desc: [in]
 *
 * Under another name in the same folder, written out, and renamed: who has the old file
 * open or mapped keeps its bytes, and after a power failure there is the old or the new
 * one. The bytes begin at a multiple of 4096; tensors of whole 4096-byte blocks come
 * first and so are all page-aligned in a map, the others follow by falling alignment of
 * their types, then by name: each is aligned for its type. The file's mode is 0666 less
 * the umask.
 *
 * Errors: -EINVAL what the format can't say: a name twice, "__metadata__", no UTF-8, an
 * unknown type, more than HM_TENSOR_RANK_MAX dimensions, F4 or F6 that end inside of a byte;
 * -EOVERFLOW a shape whose product is; -EFBIG a header above the format's 100,000,000
 * bytes, or RLIMIT_FSIZE (with SIGXFSZ, if that is not ignored); -EFAULT data can't be read;
 * -ENODEV, -EIO of data that are a map's, and were lost (hetmap/lost.h);
 * -ENOSPC, -EDQUOT, -EIO, -EROFS, -EACCES, -ENOENT of the folder. -EIO after the rename
 * (the text says so): the new file is there, but may not outlive a power failure.
 */
HM_API int hm_safetensors_write(const char *path, const struct hm_safetensors_desc *desc);

/** hm_safetensors_ref - take a reference; returns @safetensors. NULL gives NULL. */
HM_API struct hm_safetensors *hm_safetensors_ref(struct hm_safetensors *safetensors);

/** hm_safetensors_unref - drop a reference; NULL is allowed */
HM_API void hm_safetensors_unref(struct hm_safetensors *safetensors);

/** hm_tensor_address - its first byte. NULL for NULL. */
HM_API void *hm_tensor_address(const struct hm_tensor *tensor);

/**
 * hm_tensor_query - where it is, and whether it was copied
 * @tensor:    [in]
 * @ret_place: [in,out] struct_size set by the caller
 *
 * Errors: -E2BIG.
 */
HM_API int hm_tensor_query(struct hm_tensor *tensor, struct hm_tensor_place *ret_place);

/** hm_tensor_ref - take a reference; returns @tensor. NULL gives NULL. */
HM_API struct hm_tensor *hm_tensor_ref(struct hm_tensor *tensor);

/** hm_tensor_unref - drop a reference; NULL is allowed */
HM_API void hm_tensor_unref(struct hm_tensor *tensor);

/** hm_dtype_name - as files have it: "BF16". NULL: there is no such type. */
HM_API const char *hm_dtype_name(uint32_t dtype);

/** hm_dtype_bits - of an element. 0: there is no such type. */
HM_API uint32_t hm_dtype_bits(uint32_t dtype);

#ifdef __cplusplus
}
#endif

#endif
