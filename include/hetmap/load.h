/* SPDX-License-Identifier: MIT */
/*
 * Load: a model's tensors, brought into the memory of a device.
 *
 * All of them lie in one buffer of the device, mapped as any other, each at an address
 * that accelerators take. What is on the disk, what is being copied, and what the caller
 * does with the tensors that are there overlap: a thread has the storage read ahead, others
 * copy, and the caller is told of each tensor as it comes.
 *
 * No more than a window of the files is under way at a time. Bytes are read straight to
 * where they belong, by read(2): beside the device's own memory a load takes no more than
 * that window, however large the model. A file that is cut off, storage that fails, a
 * device that is taken away meanwhile are errors, and no signals.
 */
#ifndef HETMAP_LOAD_H
#define HETMAP_LOAD_H

#include <hetmap/safetensors.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_load; /* tensors of a model, in a buffer of a device */

/**
 * hm_load_function - a tensor is there
 * @tensor:  [in] valid during the call; what it points to as long as the model
 * @address: [in] of its first byte, as hm_load_tensor() tells it
 * @user:    [in] the desc's
 *
 * On the thread that called hm_load_create(), in the order of loading, as soon as the
 * tensor and all before it are complete; others are read and copied meanwhile, a window
 * ahead. It may launch work on the tensor. Its maps and buffer are to stay as they are.
 *
 * Returns 0 to go on. A negative errno ends the load, which answers with it; what is
 * positive ends it with -ECANCELED. Nothing is left of it then.
 */
typedef int hm_load_function(const struct hm_tensor_info *tensor, void *address, void *user);

/**
 * hm_load_progress_function - a further step was made
 * @bytes: [in] of the tensors, that are where they belong
 * @total: [in] of them
 * @user:  [in] the desc's
 *
 * On the same thread, before the tensors that it completes are told of. Returns what
 * hm_load_function does.
 */
typedef int hm_load_progress_function(uint64_t bytes, uint64_t total, void *user);

struct hm_load_desc {
	uint32_t struct_size;
	uint32_t flags;     /* 0 */
	uint64_t window;    /* bytes of the files under way, a page at least; 0: chosen */
	uint64_t alignment; /* of each tensor: a power of two, up to the page size; 0: 256 */
	/* [optional] Those to load, in that order, by HM_TENSORS_BY_OFFSET; NULL: all, by it */
	const uint64_t *tensors;
	uint64_t n_tensors;
	hm_load_function *loaded;            /* [optional] */
	hm_load_progress_function *progress; /* [optional] */
	void *user;                          /* handed to both */
	uint32_t threads;                    /* that copy, 64 at most; 0: chosen */
	uint32_t reserved;                   /* 0 */
};

/* Times are of a clock on the wall: each as long as at least one thread was at it. */
struct hm_load_info {
	uint32_t struct_size;
	uint32_t threads; /* that copied */
	uint64_t tensors;
	uint64_t bytes;     /* of them */
	uint64_t resident;  /* of these, in RAM before they were read, as mincore(2) tells */
	uint64_t buffer;    /* bytes of the buffer */
	uint64_t alignment; /* of each tensor */
	uint64_t window;    /* bytes under way at most, */
	uint64_t step;      /* and at once */
	uint64_t disk_ns;   /* storage was waited for, */
	uint64_t copy_ns;   /* bytes were copied, what of storage is in that included, */
	uint64_t loaded_ns; /* the caller's functions ran, */
	uint64_t wall_ns;   /* of all of it */
	struct hm_map *map; /* of the whole buffer; take a reference to keep it */
};

/* Where a tensor is. */
struct hm_load_place {
	uint32_t struct_size;
	uint32_t reserved;
	void *address;
	uint64_t offset; /* of it in the map */
	uint64_t bytes;
};

/**
 * hm_load_create - bring tensors into a device's memory
 * @device:      [in] with HM_CAP_CREATE
 * @safetensors: [in] a reference is taken
 * @desc:        [in, optional] NULL: all tensors, with what is chosen
 * @ret_load:    [out] a reference, dropped with hm_load_unref()
 *
 * Makes a buffer that all of them fit in, maps it, and returns when all are there. They
 * lie in the order of loading. Where a tensor has no bytes its address has none either,
 * but lies in or just behind the map.
 *
 * The window is 64 MiB where it is not given; one that is larger than that and than all
 * tensors is made as large as the larger of both. A device whose memory CPUs reach only in
 * part (HM_CAP_BRACKET) is written by one thread, others by up to four.
 *
 * On an error nothing is left: no buffer, no map, no thread, no descriptor.
 *
 * Errors: -EINVAL a window of less than a page, another alignment, flags or reserved not
 * 0, a tensor listed twice; -ERANGE a tensor that there is not; -EOVERFLOW they are more
 * than 2^62 bytes; -ENODATA a file was cut off; -EIO storage failed; -ENOSPC, -ENOMEM the
 * device has no room for them (the text has the bytes); -ENODEV the device was taken
 * away; -EAGAIN no thread could be started; what @desc's function returned; and those of
 * hm_buffer_create, hm_map_create, hm_map_begin_cpu and hm_map_end_cpu.
 */
HM_API int hm_load_create(struct hm_device *device, struct hm_safetensors *safetensors,
			  const struct hm_load_desc *desc, struct hm_load **ret_load);

/**
 * hm_load_query - what was chosen, and what it cost
 * @load:     [in]
 * @ret_info: [in,out] struct_size set by the caller
 *
 * Errors: -E2BIG.
 */
HM_API int hm_load_query(struct hm_load *load, struct hm_load_info *ret_info);

/**
 * hm_load_tensor - where a tensor is
 * @load:      [in]
 * @index:     [in] HM_TENSORS_BY_OFFSET, of the model
 * @ret_place: [in,out] struct_size set by the caller
 *
 * Errors: -ERANGE there are fewer; -ENOENT it was not among those to load; -E2BIG.
 */
HM_API int hm_load_tensor(struct hm_load *load, uint64_t index,
			  struct hm_load_place *ret_place);

/**
 * hm_load_find - where the tensor of a name is
 * @load:      [in]
 * @name:      [in]
 * @ret_place: [in,out] struct_size set by the caller
 *
 * Errors: -ENOENT there is none in the model, or it was not loaded; -E2BIG.
 */
HM_API int hm_load_find(struct hm_load *load, const char *name,
			struct hm_load_place *ret_place);

/** hm_load_ref - take a reference; returns @load. NULL gives NULL. */
HM_API struct hm_load *hm_load_ref(struct hm_load *load);

/**
 * hm_load_unref - drop a reference; NULL is allowed
 *
 * With the last one the tensors go, and what it holds of the model; work in flight on
 * them, and whoever took a reference of the map, keep them.
 */
HM_API void hm_load_unref(struct hm_load *load);

#ifdef __cplusplus
}
#endif

#endif
