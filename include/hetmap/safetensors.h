/* SPDX-License-Identifier: MIT */
/*
 * Safetensors: files of tensors, the form in which models' weights are stored, used in place.
 *
 * A file consists of an 8-byte length, a JSON header and the bytes of the tensors, one behind
 * another. The library opens the file read-only and maps it shared, so that all processes that
 * open the file use one copy. A tensor's pointer can be passed to kernels like any pointer into a
 * map. The library refuses a file that breaks a rule of the format; the error text names the
 * tensor.
 *
 * Thread safety of all functions: any thread. The description of an open file never changes.
 */
#ifndef HETMAP_SAFETENSORS_H
#define HETMAP_SAFETENSORS_H

#include <hetmap/pieces.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_safetensors; /* a file, or the files of a model */
struct hm_tensor;      /* a tensor, or a part of one, at an address */

/* Most dimensions of a tensor here; the format has no limit. */
#define HM_TENSOR_RANK_MAX 64

/* Totals over all files of a model. */
struct hm_safetensors_info {
	uint32_t struct_size;
	uint32_t shards; /* number of files: 1, or those of an index or a folder */
	uint64_t tensors;
	uint64_t metadata; /* number of strings of __metadata__ */
	uint64_t bytes;    /* bytes of all tensors */
	uint64_t ignored; /* number of tensors in the files that the index does not list there */
};

/* One of the files. */
struct hm_shard_info {
	uint32_t struct_size;
	uint32_t ignored;     /* number of tensors that the index does not list for the file */
	const char *path;     /* path as opened; lives as long as the hm_safetensors */
	struct hm_map *map;   /* map of the whole file; take a reference to keep it */
	uint64_t size;        /* size of the file */
	uint64_t data_offset; /* offset of the header's end */
	uint64_t first;       /* index of its first tensor, HM_TENSORS_BY_OFFSET */
	uint64_t tensors;
};

/* A tensor in a file. Pointers live as long as the queried object. */
struct hm_tensor_info {
	uint32_t struct_size;
	uint32_t dtype; /* enum hm_dtype */
	uint32_t rank;
	uint32_t shard;
	const char *name;      /* UTF-8 */
	const uint64_t *shape; /* rank dimensions, the slowest first */
	uint64_t index;        /* HM_TENSORS_BY_OFFSET */
	uint64_t offset;       /* offset of the first byte, in its file */
	uint64_t bytes;
	uint64_t alignment; /* alignment of offset: a power of two, up to the page size */
};

/* Orders to list tensors in. */
enum hm_tensor_order {
	HM_TENSORS_BY_OFFSET = 0, /* order of the bytes, shard by shard */
	HM_TENSORS_BY_NAME = 1,   /* order of strcmp() */
};

/* Range of one dimension: the elements from begin on, before end. */
struct hm_slice {
	uint64_t begin;
	uint64_t end;
};

/* hm_safetensors_view flags */
#define HM_TENSOR_MAY_COPY (1u << 0) /* copy the tensor if it can't be used in place */

/* Place of an hm_tensor. */
struct hm_tensor_place {
	uint32_t struct_size;
	uint32_t copied; /* 1: in memory of its own; 0: in its file's map */
	void *address;   /* address; read-only if in place */
	uint64_t bytes;
	struct hm_map *map; /* map that has the address; take a reference to keep it */
	uint64_t offset;    /* offset in map */
	uint32_t dtype;
	uint32_t rank;
	const uint64_t *shape; /* dimensions of the slice, or of the tensor */
};

/* A tensor to write. This struct is fixed, because it comes in arrays. */
struct hm_tensor_source {
	const char *name;
	uint32_t dtype; /* enum hm_dtype */
	uint32_t rank;
	const uint64_t *shape;
	const void *data; /* bytes, as many as dtype and shape say */
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
 * @path:  [in] path of one of: a file; an index, with a name that ends in ".json", such as
 *         model.safetensors.index.json; a folder with a model
 * @flags: [in] must be 0
 * @ret_safetensors: [out] a reference; the caller must drop it with hm_safetensors_unref()
 *
 * Reads the header and maps the file, and does not touch the tensors' bytes. An index names a file
 * for each tensor (weight_map), in the folder of the index or below. The function opens each file
 * once. Each tensor must be in the file that the index says. The function checks further tensors of
 * the files, such as a copy in another file, and ignores them; hm_safetensors_info.ignored has
 * their number.
 *
 * A folder's model is NAME.safetensors.index.json, else NAME.safetensors, else all of
 * NAME-00001-of-N.safetensors and so on. Where the folder has several names, NAME is "model",
 * "diffusion_pytorch_model" or "adapter_model", in this order. Without an index each tensor must be
 * in one file.
 *
 * The rules are those of the format, with these exceptions. As the reference reader does, the
 * function accepts white space before the header's object, a __metadata__ of null, and further keys
 * of a tensor. The function refuses a key that occurs twice, and \u0000 in a key or a string.
 *
 * A file that is cut off while it is opened is an error. After the open, a touch of bytes that
 * were cut off raises SIGBUS, unless hetmap/guard.h handles the fault.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EBADMSG:    the file breaks a rule of the format; the text names the rule and the tensor.
 *   -EOPNOTSUPP: the file begins like a file of another kind, such as a pointer of Git LFS; the
 *                header has more than 100,000,000 bytes; or a tensor has more than
 *                HM_TENSOR_RANK_MAX dimensions.
 *   -ENOENT:     the file, or a file of the model, does not exist; or the folder has no model.
 *   -EINVAL:     the folder has several models of other names, or, without an index, a numbered
 *                file twice or too many; the path names no regular file.
 *   -ENODATA:    the file is empty.
 *
 * In addition the errors of hm_buffer_from_file() and hm_map_create().
 */
HM_API int hm_safetensors_open(const char *path, uint32_t flags,
			       struct hm_safetensors **ret_safetensors);

/**
 * hm_safetensors_query - report the totals of a model
 * @safetensors: [in]
 * @ret_info:    [in,out] the caller must set struct_size
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 */
HM_API int hm_safetensors_query(struct hm_safetensors *safetensors,
				struct hm_safetensors_info *ret_info);

/**
 * hm_safetensors_shard - describe one of the files
 * @safetensors: [in]
 * @shard:       [in] number of the file, from 0, in the order of the names
 * @ret_info:    [in,out] the caller must set struct_size
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ERANGE: the model has fewer files.
 *   -E2BIG:  struct_size is larger than this library knows.
 */
HM_API int hm_safetensors_shard(struct hm_safetensors *safetensors, uint32_t shard,
				struct hm_shard_info *ret_info);

/**
 * hm_safetensors_find - find a tensor by its name
 * @safetensors: [in]
 * @name:        [in] name of the tensor
 * @ret_index:   [out] index by HM_TENSORS_BY_OFFSET
 *
 * The time of a search does not depend on the number of tensors.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ENOENT: the model has no tensor of that name.
 */
HM_API int hm_safetensors_find(struct hm_safetensors *safetensors, const char *name,
			       uint64_t *ret_index);

/**
 * hm_safetensors_tensor - describe a tensor and its place in its file
 * @safetensors: [in]
 * @order:       [in] enum hm_tensor_order
 * @index:       [in] index from 0, in that order
 * @ret_info:    [in,out] the caller must set struct_size
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ERANGE: the model has fewer tensors.
 *   -ENOMEM: memory is exhausted.
 *   -E2BIG:  struct_size is larger than this library knows.
 */
HM_API int hm_safetensors_tensor(struct hm_safetensors *safetensors, uint32_t order,
				 uint64_t index, struct hm_tensor_info *ret_info);

/**
 * hm_safetensors_metadata - return one of the strings of __metadata__
 * @safetensors: [in]
 * @index:       [in] index from 0, in the order of the files' text, shard by shard
 * @ret_metadata: [out] strings, which live as long as @safetensors
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ERANGE: the model has fewer strings.
 */
HM_API int hm_safetensors_metadata(struct hm_safetensors *safetensors, uint64_t index,
				   struct hm_metadata *ret_metadata);

/**
 * hm_safetensors_metadata_find - return the string of a key
 * @safetensors: [in]
 * @key:         [in]
 * @ret_value:   [out] string of the first shard that has the key; lives as long as @safetensors
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ENOENT: the model has no such key.
 */
HM_API int hm_safetensors_metadata_find(struct hm_safetensors *safetensors, const char *key,
					const char **ret_value);

/**
 * hm_safetensors_view - make an hm_tensor: a tensor, or a part of one, at an address
 * @safetensors: [in]
 * @index:       [in] index by HM_TENSORS_BY_OFFSET
 * @slices:      [in] ranges of the first @n_slices dimensions; the other dimensions are whole
 * @n_slices:    [in] number of ranges, up to the rank; 0: the whole tensor
 * @alignment:   [in] alignment of the address: a power of two, up to the page size; 0: any, since
 *               files promise no alignment
 * @flags:       [in] 0 or HM_TENSOR_MAY_COPY
 * @ret_tensor:  [out] a reference; the caller must drop it with hm_tensor_unref()
 *
 * The tensor is in place if its bytes are contiguous and aligned as asked. Bytes are contiguous in
 * a range of the first dimension, and in a range of a later dimension if the slice has one
 * element of each dimension before it. Otherwise, with HM_TENSOR_MAY_COPY, the function reads the
 * bytes into a page-aligned buffer of "host", which the hm_tensor owns. The hm_tensor lives on
 * when @safetensors is dropped.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ERANGE:     the model has no such tensor, or a slice ends beyond its dimension.
 *   -EXDEV:      the tensor can't be used in place (the text says why); pass HM_TENSOR_MAY_COPY.
 *   -EOPNOTSUPP: a slice of F4 or F6 begins or ends inside a byte.
 *
 * In addition for copies the errors of hm_safetensors_read() and hm_buffer_create().
 */
HM_API int hm_safetensors_view(struct hm_safetensors *safetensors, uint64_t index,
			       const struct hm_slice *slices, uint32_t n_slices,
			       uint64_t alignment, uint32_t flags,
			       struct hm_tensor **ret_tensor);

/**
 * hm_safetensors_read - copy a tensor, or a part of one, into the caller's memory
 * @safetensors: [in]
 * @index, @slices, @n_slices: [in] as for hm_safetensors_view()
 * @to:          [out] a map of a device's buffer, or any memory
 * @length:      [in] bytes of @to, at least as many as the slice has
 *
 * Copies by read(2), not through the map. A file that was cut off, or storage that fails, is
 * therefore an error, not a signal. An error may leave a part of @to written.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ERANGE:     as for hm_safetensors_view().
 *   -EOPNOTSUPP: as for hm_safetensors_view().
 *   -ENOSPC:     @length is too small.
 *   -ENODATA:    the file was cut off.
 *   -EIO:        storage failed.
 *   -EFAULT:     @to can't be written.
 */
HM_API int hm_safetensors_read(struct hm_safetensors *safetensors, uint64_t index,
			       const struct hm_slice *slices, uint32_t n_slices, void *to,
			       uint64_t length);

/**
 * hm_safetensors_write - write a file of tensors
 * @path: [in] path of the file; an existing file is replaced as a whole, or not at all
 * @desc: [in] tensors and strings to write
 *
 * Writes the file under another name in the same folder, flushes the file to storage, and renames
 * the file. A process that has the existing file open or mapped keeps its bytes. After a power
 * failure the folder has the old or the new file. The file's mode is 0666 less the umask.
 *
 * The tensors' bytes begin at a multiple of 4096. Tensors of whole blocks of 4096 bytes come
 * first, and are therefore page-aligned in a map. The other tensors follow by falling alignment of
 * their types, so that each tensor is aligned for its type, and by name among equal alignments.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:    the format can't express the input: a name that occurs twice, is "__metadata__"
 *               or is not UTF-8; an unknown type; more than HM_TENSOR_RANK_MAX dimensions; or F4
 *               or F6 that ends inside a byte.
 *   -EOVERFLOW: the product of a shape overflows.
 *   -EFBIG:     the header exceeds the format's 100,000,000 bytes, or the file exceeds
 *               RLIMIT_FSIZE (with a SIGXFSZ, unless that is ignored).
 *   -EFAULT:    the data can't be read.
 *   -ENODEV:    the data are in a map, and the map's device was taken away (hetmap/loss.h).
 *   -ENOSPC:    the file system of the folder is full.
 *   -EDQUOT:    the file system's quota is used up.
 *   -EROFS:     the folder is read-only.
 *   -EACCES:    permissions forbid the folder.
 *   -ENOENT:    the folder does not exist.
 *   -EIO:       storage failed, or the data are in a map and were lost (hetmap/loss.h). If the
 *               text says that the error came after the rename, the new file is in place, but may
 *               not survive a power failure.
 */
HM_API int hm_safetensors_write(const char *path, const struct hm_safetensors_desc *desc);

/** hm_safetensors_ref - take a reference; returns @safetensors. NULL gives NULL. */
HM_API struct hm_safetensors *hm_safetensors_ref(struct hm_safetensors *safetensors);

/** hm_safetensors_unref - drop a reference; NULL is allowed */
HM_API void hm_safetensors_unref(struct hm_safetensors *safetensors);

/** hm_tensor_address - return the address of the first byte. NULL gives NULL. */
HM_API void *hm_tensor_address(const struct hm_tensor *tensor);

/**
 * hm_tensor_query - tell the place of a tensor, and whether it was copied
 * @tensor:    [in]
 * @ret_place: [in,out] the caller must set struct_size
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 */
HM_API int hm_tensor_query(struct hm_tensor *tensor, struct hm_tensor_place *ret_place);

/** hm_tensor_ref - take a reference; returns @tensor. NULL gives NULL. */
HM_API struct hm_tensor *hm_tensor_ref(struct hm_tensor *tensor);

/** hm_tensor_unref - drop a reference; NULL is allowed */
HM_API void hm_tensor_unref(struct hm_tensor *tensor);

#ifdef __cplusplus
}
#endif

#endif
