/* SPDX-License-Identifier: MIT */
/*
 * Load: pieces of files, such as a model's tensors, brought into the memory of a device.
 *
 * All pieces of a load lie in one buffer of the device, which is mapped like any other
 * buffer. Each piece has an address that can be passed to accelerators. A load has three
 * stages that run at the same time: one thread starts the storage reads ahead of the copy,
 * other threads copy, and the calling thread tells the caller of each complete piece.
 *
 * At most a window of the files is under way at a time. The threads read the bytes straight to
 * their place by read(2). Besides the device's own memory a load takes no more memory than the
 * window, however large the model is. A file that is cut off, storage that fails and a device
 * that is taken away during the load are errors, not signals.
 */
#ifndef HETMAP_LOAD_H
#define HETMAP_LOAD_H

#include <hetmap/pieces.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_load; /* pieces of files, in a buffer of a device */

/**
 * hm_load_function - take notice of a piece that is loaded
 * @piece:   [in] the piece; the struct is valid during the call, and the memory that it
 *           points to is valid as long as the pieces
 * @address: [in] address of the piece's first byte, as hm_load_piece() tells it
 * @user:    [in] the pointer of the description
 *
 * The thread that called hm_load_create() calls the function, in the order of loading, as soon
 * as the piece and all pieces before it are complete. Meanwhile other threads read and copy
 * the next pieces, up to a window ahead. The function may launch work on the piece, and must
 * leave the piece's maps and buffer as they are.
 *
 * Returns: 0 to go on. A negative errno ends the load, and hm_load_create() returns that errno.
 * A positive value ends the load with -ECANCELED. A load that ends so releases everything it
 * made.
 */
typedef int hm_load_function(const struct hm_piece_info *piece, void *address, void *user);

/**
 * hm_load_progress_function - take notice of a further step
 * @bytes: [in] bytes of the pieces that are in their place
 * @total: [in] bytes of all pieces of the load
 * @user:  [in] the pointer of the description
 *
 * The thread that called hm_load_create() calls the function, before it calls hm_load_function
 * for the pieces that the step completes.
 *
 * Returns: as hm_load_function.
 */
typedef int hm_load_progress_function(uint64_t bytes, uint64_t total, void *user);

struct hm_load_desc {
	uint32_t struct_size;
	uint32_t flags;     /* 0 */
	uint64_t window;    /* bytes of the files under way, at least a page; 0: chosen */
	uint64_t alignment; /* alignment of each piece: a power of two to the page size; 0: 256 */
	/*
	 * [optional] Indexes of the pieces to load, as for hm_pieces_at(), in the order of loading.
	 * NULL: all pieces, in the order of the files.
	 */
	const uint64_t *pieces;
	uint64_t n_pieces;
	hm_load_function *loaded;            /* [optional] */
	hm_load_progress_function *progress; /* [optional] */
	void *user;                          /* pointer that both functions are given */
	uint32_t threads;                    /* number of copying threads, to 64; 0: chosen */
	uint32_t reserved;                   /* 0 */
};

/*
 * Parameters, amounts and times of a load. Times are wall-clock time: a time grows while at
 * least one thread does the work in question.
 */
struct hm_load_info {
	uint32_t struct_size;
	uint32_t threads; /* number of threads that copied */
	uint64_t pieces;
	uint64_t bytes;     /* bytes of these pieces */
	uint64_t resident;  /* bytes in RAM before they were read, as mincore(2) tells */
	uint64_t buffer;    /* bytes of the buffer */
	uint64_t alignment; /* alignment of each piece */
	uint64_t window;    /* most bytes under way */
	uint64_t step;      /* bytes that are read at once */
	uint64_t disk_ns;   /* time that storage was waited for */
	uint64_t copy_ns;   /* time of copying, with the storage time in it */
	uint64_t loaded_ns; /* time of the caller's functions */
	uint64_t wall_ns;   /* time of the whole load */
	struct hm_map *map; /* map of the whole buffer; take a reference to keep it */
};

/* Place of a piece. */
struct hm_load_place {
	uint32_t struct_size;
	uint32_t reserved;
	void *address;
	uint64_t offset; /* offset of the piece in the map */
	uint64_t bytes;
};

/**
 * hm_load_create - bring pieces into a device's memory
 * @device:   [in] a device with HM_CAP_CREATE
 * @pieces:   [in] pieces of files of any format (hm_pieces_open()); the load takes a reference
 * @desc:     [in, optional] NULL: all pieces, with chosen parameters
 * @ret_load: [out] a reference; the caller must drop it with hm_load_unref()
 *
 * Makes a buffer that is large enough for all pieces, maps the buffer, and returns when all
 * pieces are loaded. The pieces lie in the order of loading. A piece without bytes has an
 * address without bytes, in or just behind the map.
 *
 * A window of 0 is 64 MiB, or an eighth of the memory that the process may have if that is less
 * (memory.max of its control groups). A window that is larger than both 64 MiB and the size of
 * all pieces is reduced to the larger of the two. If threads is 0, one thread copies where CPUs
 * reach only a part of the device's memory (HM_CAP_BRACKET), and up to four threads copy
 * elsewhere.
 *
 * After an error nothing is left: no buffer, no map, no thread, no descriptor.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:    the window is less than a page, the alignment is not allowed, flags or reserved
 *               is not 0, or a piece is listed twice.
 *   -ERANGE:    there is no piece of a listed index.
 *   -EOPNOTSUPP: the library reads a file, and does not map it: its file system has no shared maps,
 *               or is a network's.
 *   -EOVERFLOW: the pieces have more than 2^62 bytes.
 *   -ENODATA:   a file was cut off.
 *   -EIO:       storage failed.
 *   -ENOSPC:    the device has no room for the buffer; the text has the number of bytes.
 *   -ENOMEM:    the host has no memory for the buffer, or the buffer is in the host's memory and
 *               larger than the memory and swap that the process may have; the text has the
 *               numbers of bytes.
 *   -ENODEV:    the device was taken away.
 *   -EAGAIN:    no thread could be started.
 *   -ECANCELED: a function of @desc returned a positive value.
 *
 * In addition the negative errno that a function of @desc returned, and the errors of
 * hm_buffer_create(), hm_map_create(), hm_map_begin_cpu() and hm_map_end_cpu().
 */
HM_API int hm_load_create(struct hm_device *device, struct hm_pieces *pieces,
			  const struct hm_load_desc *desc, struct hm_load **ret_load);

/**
 * hm_load_query - report the chosen parameters, the amounts and the times of a load
 * @load:     [in]
 * @ret_info: [in,out] the caller must set struct_size
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 */
HM_API int hm_load_query(struct hm_load *load, struct hm_load_info *ret_info);

/**
 * hm_load_piece - tell the place of a piece
 * @load:      [in]
 * @index:     [in] index, as for hm_pieces_at()
 * @ret_place: [in,out] the caller must set struct_size
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ERANGE: there are fewer pieces.
 *   -ENOENT: the piece was not among those to load.
 *   -E2BIG:  struct_size is larger than this library knows.
 */
HM_API int hm_load_piece(struct hm_load *load, uint64_t index, struct hm_load_place *ret_place);

/**
 * hm_load_find - tell the place of the piece of a name
 * @load:      [in]
 * @name:      [in] name of the piece
 * @ret_place: [in,out] the caller must set struct_size
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ENOENT: no piece has that name, or the piece was not loaded.
 *   -E2BIG:  struct_size is larger than this library knows.
 */
HM_API int hm_load_find(struct hm_load *load, const char *name,
			struct hm_load_place *ret_place);

/** hm_load_ref - take a reference; returns @load. NULL gives NULL. */
HM_API struct hm_load *hm_load_ref(struct hm_load *load);

/**
 * hm_load_unref - drop a reference; NULL is allowed
 *
 * The last reference releases the load's buffer and its reference to the pieces of the files. Work
 * in flight on the buffer, and a caller that took a reference to the map, keep the buffer.
 *
 * Thread safety: any thread.
 */
HM_API void hm_load_unref(struct hm_load *load);

#ifdef __cplusplus
}
#endif

#endif
