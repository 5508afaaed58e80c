/* SPDX-License-Identifier: MIT */
/*
 * Tokens: files of numbers, the usual form of training data, and batches of blocks of tokens.
 *
 * One file or many shards are one array. A batch consists of a number of blocks x of equal length
 * and as many blocks y. Each token of y is the one that follows the corresponding token of x. The
 * functions take tokens out of the files and widen them in one pass, into memory that the caller
 * gives, which may be a map of a device's buffer.
 *
 * While hm_handler_install() is in effect, the functions take tokens out of shared maps, so that
 * all processes have one copy. A file that is cut off, or storage that fails, is an error then and
 * no signal. Without the handler, or if a file system shares no maps, the functions use pread(2),
 * which takes about twice as long for bytes in RAM.
 */
#ifndef HETMAP_TOKENS_H
#define HETMAP_TOKENS_H

#include <hetmap/pieces.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_tokens;  /* files of tokens, as one array */
struct hm_batches; /* batches of tokens, in an order that a seed determines */

/* hm_tokens_desc.flags */
#define HM_TOKENS_RAW (1u << 0)     /* no header, however a file begins */
#define HM_TOKENS_SWAPPED (1u << 1) /* raw: tokens are not in this machine's byte order */
#define HM_TOKENS_BOOL (1u << 2)    /* raw: dtype 0 means HM_DTYPE_BOOL, which is 0 */
#define HM_TOKENS_READ (1u << 3)    /* no maps: all tokens are read by pread(2) */

/* hm_tokens_shard_info.index: the index of documents beside a file of tokens */
enum hm_tokens_index {
	HM_TOKENS_INDEX_NONE = 0,      /* none: the file is one document */
	HM_TOKENS_INDEX_MEGATRON = 1,  /* NAME.idx of NAME.bin */
	HM_TOKENS_INDEX_DATATROVE = 2, /* NAME.ds.index of NAME.ds */
};

struct hm_tokens_desc {
	uint32_t struct_size;
	uint32_t flags; /* HM_TOKENS_* */
	/*
	 * enum hm_dtype of whole bytes of raw files, and of .npy files with HM_NPY_BYTES of its
	 * size; 0: HM_DTYPE_U16
	 */
	uint32_t dtype;
	uint32_t reserved; /* 0 */
	uint64_t offset;   /* raw: bytes before the first token, of each file */
	uint64_t budget;   /* bytes that the files' maps may take, with page tables; 0: a
			    * quarter of the memory */
	uint64_t vocab;    /* all tokens must be below it, and not below 0; 0: no bound */
};

struct hm_tokens_info {
	uint32_t struct_size;
	uint32_t dtype; /* enum hm_dtype of the files */
	uint32_t shards;
	uint32_t reserved;
	uint64_t tokens;
	uint64_t bytes;  /* bytes of all tokens, in the files */
	uint64_t budget; /* bytes that the files' maps may take */
	uint64_t documents;
};

/* One of the files. */
struct hm_tokens_shard_info {
	uint32_t struct_size;
	uint32_t npy;   /* version of the .npy format, 1 to 3; 0: raw */
	uint32_t flags; /* HM_NPY_FORTRAN, HM_NPY_SWAPPED: hetmap/npy.h */
	uint32_t index; /* enum hm_tokens_index */
	/* Path of the file with the tokens, as opened or beside its index; lives as long as the
	 * hm_tokens. */
	const char *path;
	/*
	 * Map of the whole file. NULL: the file is empty, its file system shares no maps or is a
	 * network's, the budget has no room for the map, or HM_TOKENS_READ was set.
	 */
	struct hm_map *map;
	uint64_t size;   /* size of the file */
	uint64_t offset; /* offset of its first token, in bytes */
	uint64_t first;  /* number of its first token in the array */
	uint64_t tokens;
	uint64_t first_document; /* number of its first document in the array */
	uint64_t documents;
};

/**
 * hm_tokens_open - open files of tokens as one array
 * @paths:   [in] paths of regular files, in the order of the array
 * @n_paths: [in] number of paths, from 1
 * @desc:    [in, optional] NULL: raw files have HM_DTYPE_U16, from their first byte on
 * @ret_tokens: [out] a reference; the caller must drop it with hm_tokens_unref()
 *
 * A file that begins like a .npy file is treated as one. Its elements may be of any type of enum
 * hm_dtype that has whole bytes, in any byte order, with any number of dimensions. The dimensions
 * make one row in C's order, even if the file has Fortran's order.
 *
 * Two kinds of files come with an index, which gives the type of the tokens and the bounds of their
 * documents. Either name of the pair opens it, and the index is read as a whole:
 * - NAME.bin and NAME.idx of Megatron, if NAME.idx begins as one does. Its sequences must lie one
 *   behind another. Sequences behind the last document are one more document. Where the index has
 *   no documents, as that of fairseq, each sequence is one.
 * - NAME.ds and NAME.ds.index of datatrove: tokens of HM_DTYPE_U16 or HM_DTYPE_U32, by the size.
 * An index that is a link that leads nowhere, or a pointer of Git LFS, is an error.
 *
 * All other files are raw: whole tokens from desc->offset to the file's end. A file without an
 * index is one document. With HM_TOKENS_RAW no index is looked for. All tokens must be of one type.
 * Some of the files may have no tokens, or be empty. The function reads no tokens.
 *
 * Bytes that were taken out of a file's map stay mapped until their size reaches the file's part
 * of the budget. The library then releases all pages of the map, with their page tables, which the
 * kernel can't reclaim by itself. The bytes stay in the page cache. The library counts bytes before
 * it touches them, as the most that one fault may map: 64 KiB if the file system has no large
 * folios (ext4 and btrfs before Linux 6.16), otherwise the range of one page of a page table, which
 * is 2 MiB with pages of 4 KiB. Bytes that the caller touches in the maps of hm_tokens_shard() are
 * not counted. The library does not release parts of these maps that the caller has narrowed,
 * locked or uses.
 *
 * The library uses pread(2) for bytes that do not fit in a file's part of the budget:
 * - a block that is longer than the part, and a file in Fortran's order that is larger;
 * - all files, if the budget is too small for the smallest maps of all files. The smallest map of a
 *   file takes twice the most that one fault may map, with page tables, and one bit for each such
 *   amount of the file; or the whole of a small file. A budget of 0 always suffices for these maps;
 * - a file with a part that has room for less than one fault for each 4 GB of the file.
 *
 * Files on a network's file system are not mapped, as in hm_reader_open(): errors in such a map are
 * signals, and the map may show old bytes. With HM_TOKENS_READ no file is mapped.
 *
 * Thread safety: any thread. The description of open files never changes.
 *
 * Errors:
 *   -EBADMSG:    a raw file ends inside a token, an index contradicts itself or its tokens' file,
 *                or hm_npy_query() refuses a .npy file with this error.
 *   -EOPNOTSUPP: a raw file, with an offset of 0, begins like a file of another kind, such as
 *                Parquet or a pointer of Git LFS; elements are HM_NPY_OPAQUE; hm_npy_query()
 *                failed with this error; or an index has an unknown version or type, or sequences
 *                that do not lie one behind another, or is only a pointer of Git LFS.
 *   -EINVAL:     the files have different types, or desc->dtype is no type, or is one of 4 or 6
 *                bits; or desc->vocab is not 0, and the tokens are no integers.
 *   -ENODATA:    none of the files has a token.
 *   -EOVERFLOW:  the files have 2^62 tokens or more.
 *   -EMFILE:     the process has no descriptor left; each file keeps one. Raise RLIMIT_NOFILE, or
 *                use fewer files.
 *   -ENOMEM:     memory is exhausted.
 *   -E2BIG:      struct_size is larger than this library knows.
 *
 * In addition -ENOENT and the other errors of hm_buffer_from_file() and hm_map_create().
 */
HM_API int hm_tokens_open(const char *const *paths, uint32_t n_paths,
			  const struct hm_tokens_desc *desc, struct hm_tokens **ret_tokens);

/**
 * hm_tokens_query - report the totals of the array
 * @tokens:   [in]
 * @ret_info: [in,out] the caller must set struct_size
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 */
HM_API int hm_tokens_query(struct hm_tokens *tokens, struct hm_tokens_info *ret_info);

/**
 * hm_tokens_shard - describe one of the files
 * @tokens:   [in]
 * @shard:    [in] number of the file, from 0, in the order of the paths
 * @ret_info: [in,out] the caller must set struct_size
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ERANGE: the array has fewer files.
 *   -E2BIG:  struct_size is larger than this library knows.
 */
HM_API int hm_tokens_shard(struct hm_tokens *tokens, uint32_t shard,
			   struct hm_tokens_shard_info *ret_info);

/**
 * hm_tokens_document - tell where a document is
 * @tokens:    [in]
 * @document:  [in] number of the document, from 0, in the order of the files
 * @ret_first: [out] number of its first token in the array
 * @ret_n:     [out] number of its tokens, which may be 0
 *
 * Documents lie one behind another and have all tokens of the array.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ERANGE: the array has fewer documents.
 *   -EINVAL: a result is NULL.
 */
HM_API int hm_tokens_document(struct hm_tokens *tokens, uint64_t document, uint64_t *ret_first,
			      uint64_t *ret_n);

/**
 * hm_tokens_read - copy consecutive tokens, converted to a type
 * @tokens: [in]
 * @first:  [in] number of the first token
 * @n:      [in] number of tokens, from 1
 * @dtype:  [in] enum hm_dtype of the copy: any integer type for integers; also F32 for F16 and
 *          BF16; the files' own type in any case
 * @to:     [out] memory for @n tokens, aligned for the type; outside of the files' maps
 *
 * An error may leave a part of @to written.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ERANGE:     the range ends beyond the last token.
 *   -EOVERFLOW:  @dtype can't hold a token; the text says which.
 *   -EDOM:       a token is not below hm_tokens_desc.vocab, or is negative; the text says which.
 *   -EOPNOTSUPP: the files' type can't be converted to @dtype.
 *   -ENODATA:    a file was cut off.
 *   -EIO:        storage failed.
 *   -EHWPOISON:  memory failed.
 *   -ENODEV:     @to is in a map that is lost, and hm_handler_install() is in effect; without the
 *                handler the fault is a signal.
 *   -EACCES:     @to is in a map that is not writable, and hm_handler_install() is in effect;
 *                without the handler the fault is a signal.
 *   -EINVAL:     an argument is out of range, or @to is not aligned.
 *   -ENOMEM:     memory is exhausted.
 */
HM_API int hm_tokens_read(struct hm_tokens *tokens, uint64_t first, uint64_t n, uint32_t dtype,
			  void *to);

/** hm_tokens_ref - take a reference; returns @tokens. NULL gives NULL. */
HM_API struct hm_tokens *hm_tokens_ref(struct hm_tokens *tokens);

/** hm_tokens_unref - drop a reference; NULL is allowed */
HM_API void hm_tokens_unref(struct hm_tokens *tokens);

/*
 * Order of the blocks. The order of a seed is the same on every machine and in every version with
 * the same first number. hm_tokens(3) defines the order.
 */
enum hm_batches_order {
	HM_BATCHES_RANDOM = 0,   /* each block begins at any token, independently of the rest */
	HM_BATCHES_SHUFFLED = 1, /* each block once an epoch, in a new order each epoch */
	HM_BATCHES_IN_ORDER = 2, /* each block once an epoch, in the order of the files */
};

/* hm_batches_desc.flags */
#define HM_BATCHES_DOCUMENTS (1u << 0) /* no block reaches into the next document */

struct hm_batches_desc {
	uint32_t struct_size;
	uint32_t flags; /* HM_BATCHES_* */
	uint32_t order; /* enum hm_batches_order */
	/*
	 * enum hm_dtype of x and y, as for hm_tokens_read(). 0: HM_DTYPE_I64 for integers,
	 * otherwise the files' own type.
	 */
	uint32_t dtype;
	uint64_t block; /* tokens of a block, from 1 */
	uint64_t batch; /* blocks of a batch, from 1 */
	uint64_t seed;
	uint32_t rank;    /* number of this rank, below ranks */
	uint32_t ranks;   /* number of ranks; 0: 1 */
	uint32_t worker;  /* number of this worker, below workers */
	uint32_t workers; /* workers of each rank; 0: 1; at most 2^24 of all ranks */
	uint32_t ahead;   /* batches to request from storage ahead; 0: 2; at most 1024 */
	uint32_t reserved;
	/* HM_BATCHES_DOCUMENTS: values of x and of y behind a document's end, as -100 for y. */
	int64_t pad_x, pad_y;
};

/* A batch that was handed out. */
struct hm_batch {
	uint32_t struct_size;
	uint32_t slot;   /* slot of hm_batches_start(); 0 for hm_batches_next() */
	uint64_t number; /* number of batches before this one, since the creation */
	uint64_t epoch;  /* epoch of the first block; HM_BATCHES_RANDOM: 0 */
	uint64_t blocks; /* number of blocks */
	/*
	 * First token of each block. From hm_batches_take(): valid until hm_batches_give() or
	 * hm_batches_stop(). From hm_batches_next(): valid until the next batch,
	 * hm_batches_start() or hm_batches_resize().
	 */
	const uint64_t *starts;
	/*
	 * HM_BATCHES_DOCUMENTS: tokens of each block before its padding, from 1 on; valid as long
	 * as starts. Otherwise NULL.
	 */
	const uint64_t *lengths;
};

/* Memory for a batch. This struct is fixed, because it comes in arrays. */
struct hm_batch_slot {
	void *x; /* memory for batch * block tokens, aligned for their type */
	void *y; /* as much memory, for the next tokens; NULL: not wanted */
};

/* State of a run, which is the same for all ranks and workers that are equally far. */
struct hm_batches_state {
	uint32_t struct_size;
	uint32_t reserved;
	uint64_t seed;
	uint64_t position; /* blocks handed out by all ranks and workers */
};

/* Way that a batch got its tokens: hm_batches_info.way */
enum hm_batches_way {
	HM_BATCHES_NONE = 0,   /* no batch was made yet */
	HM_BATCHES_MAPPED = 1, /* tokens came out of the files' maps */
	HM_BATCHES_READ = 2,   /* tokens came by pread(2) */
};

struct hm_batches_info {
	uint32_t struct_size;
	uint32_t dtype;      /* type of x and y */
	uint32_t way;        /* enum hm_batches_way of the last batch */
	uint32_t announcing; /* 1: ranges are requested from storage ahead now */
	const char *why;     /* reason of way and announcing; lives as long as the object */
	uint64_t block;
	uint64_t batch;
	uint64_t blocks;    /* blocks of an epoch, for all ranks and workers */
	uint64_t batches;   /* batches handed out */
	uint64_t filled;    /* batches made: more, as some are ahead */
	uint64_t mapped;    /* made batches that came out of maps */
	uint64_t announced; /* made batches that were requested from storage ahead */
	uint64_t bytes;     /* bytes of tokens taken out of the files */
	uint64_t waited_ns; /* time that hm_batches_take() waited for a batch */
};

/**
 * hm_batches_create - make a source of batches of tokens
 * @tokens: [in] the array; the source takes a reference
 * @desc:   [in]
 * @ret_batches: [out] a reference; the caller must drop it with hm_batches_unref()
 *
 * All n = ranks * workers members share one order of blocks. Member rank * workers + worker is
 * number m and gets blocks m, m + n, m + 2n and so on. No block belongs to two members, and each
 * epoch has each of its blocks once. A batch may end in the next epoch. The last tokens, fewer than
 * a block and one, are in no block. All batches are whole.
 *
 * With HM_BATCHES_DOCUMENTS all tokens of a block, and the one that follows, are of one document.
 * A document of n tokens has (n - 1) / block blocks, rounded up, one behind another. Its last block
 * may be shorter: pad_x and pad_y fill x and y. A document of one token has no block. A block of
 * HM_BATCHES_RANDOM begins at any token that another one of its document follows, and is shorter
 * where the document ends.
 *
 * Thread safety: any thread; calls on the object wait for one another, except hm_batches_take().
 *
 * Errors:
 *   -EINVAL:     a size is 0, the rank or the worker is out of range, dtype can't hold pad_x or
 *                pad_y, or one of these is not 0 and dtype is no integer.
 *   -ERANGE:     the array has fewer tokens than a block and one; with HM_BATCHES_DOCUMENTS: no
 *                document has two tokens.
 *   -EOPNOTSUPP: the files' type can't be converted to dtype.
 *   -EOVERFLOW:  a batch has 2^62 bytes or more.
 *   -ENOMEM:     memory is exhausted.
 *   -E2BIG:      struct_size is larger than this library knows.
 */
HM_API int hm_batches_create(struct hm_tokens *tokens, const struct hm_batches_desc *desc,
			     struct hm_batches **ret_batches);

/**
 * hm_batches_next - fill the next batch into memory of the caller
 * @batches:   [in]
 * @x:         [out] batch * block tokens, one block behind another
 * @y:         [out, optional] as many tokens, each the one that follows that of @x
 * @ret_batch: [in,out, optional] the caller must set struct_size
 *
 * Works in the calling thread. The function first requests the ranges of the batch, and of the
 * next batches, from storage by MADV_WILLNEED, as long as that helps: batches that were found in
 * RAM end the requests, and a batch that waited for storage starts them again. Files in Fortran's
 * order have no ranges. If @x is in a buffer, the caller must bracket the call by
 * hm_map_begin_cpu() and hm_map_end_cpu(). After an error the batch is still the next one, and a
 * part of @x and @y may be written.
 *
 * Thread safety: any thread; calls on the object wait for one another.
 *
 * Errors:
 *   -EBUSY:  the call is between hm_batches_start() and hm_batches_stop().
 *   -EINVAL: @x or @y is not aligned.
 *   -E2BIG:  struct_size is larger than this library knows.
 *
 * In addition the errors of hm_tokens_read().
 */
HM_API int hm_batches_next(struct hm_batches *batches, void *x, void *y,
			   struct hm_batch *ret_batch);

/**
 * hm_batches_start - start a thread that keeps batches ahead
 * @batches: [in]
 * @slots:   [in] memory for batches, which must live until hm_batches_stop()
 * @n_slots: [in] number of slots, from 1 to 4096; 2 at least, for the thread to be ahead
 *
 * The thread fills one slot after another, and waits while no slot is free. The thread takes no
 * signals except those of its own faults.
 *
 * Thread safety: any thread; calls on the object wait for one another.
 *
 * Errors:
 *   -EBUSY:  the thread was started already; call hm_batches_stop() first.
 *   -EINVAL: a slot has no x, or its memory is not aligned.
 *   -EAGAIN: no further thread could be started.
 *   -ENOMEM: memory is exhausted.
 */
HM_API int hm_batches_start(struct hm_batches *batches, const struct hm_batch_slot *slots,
			    uint32_t n_slots);

/**
 * hm_batches_take - take the next batch of those that the thread fills
 * @batches:    [in]
 * @timeout_ns: [in] longest wait, from now on; 0: no wait; UINT64_MAX: for ever
 * @ret_batch:  [in,out] the caller must set struct_size; the slot is the caller's until
 *              hm_batches_give()
 *
 * If the thread fails, the function first hands out the batches that were filled before. After
 * that it returns the thread's error until hm_batches_stop().
 *
 * Thread safety: any thread; other calls on the object do not wait for this one.
 *
 * Errors:
 *   -ETIME:     the batch is not ready.
 *   -EINVAL:    the thread is not started; call hm_batches_start() first.
 *   -EBUSY:     all slots are taken; give one back by hm_batches_give().
 *   -ECANCELED: another thread called hm_batches_stop().
 *
 * In addition the errors of hm_batches_next(), in the thread.
 */
HM_API int hm_batches_take(struct hm_batches *batches, uint64_t timeout_ns,
			   struct hm_batch *ret_batch);

/**
 * hm_batches_give - give a slot back, to be filled again
 * @batches: [in]
 * @slot:    [in] hm_batch.slot
 *
 * Thread safety: any thread; calls on the object wait for one another.
 *
 * Errors:
 *   -EINVAL: the slot is not taken.
 */
HM_API int hm_batches_give(struct hm_batches *batches, uint32_t slot);

/**
 * hm_batches_stop - end the thread
 * @batches: [in]
 *
 * All slots are the caller's again. Batches that were filled and not taken come again: the next
 * batch is the one behind the last taken batch. hm_batches_take() in another thread ends with
 * -ECANCELED. If the thread is not started, the function does nothing.
 *
 * Thread safety: any thread; calls on the object wait for one another.
 *
 * Errors: none of its own.
 */
HM_API int hm_batches_stop(struct hm_batches *batches);

/**
 * hm_batches_resize - change the number of blocks of a batch, from the next batch on
 * @batches: [in] a source without a started thread
 * @batch:   [in] blocks, from 1; members that stay together must all make the same call
 *
 * No block is left out, and no block comes twice.
 *
 * Thread safety: any thread; calls on the object wait for one another.
 *
 * Errors:
 *   -EBUSY:     the call is between hm_batches_start() and hm_batches_stop().
 *   -EINVAL:    @batch is 0.
 *   -EOVERFLOW: a batch would have 2^62 bytes or more.
 *   -ENOMEM:    memory is exhausted.
 */
HM_API int hm_batches_resize(struct hm_batches *batches, uint64_t batch);

/**
 * hm_batches_get - return the state of the run, behind the last batch that was handed out
 * @batches:   [in]
 * @ret_state: [in,out] the caller must set struct_size
 *
 * Thread safety: any thread; calls on the object wait for one another.
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 */
HM_API int hm_batches_get(struct hm_batches *batches, struct hm_batches_state *ret_state);

/**
 * hm_batches_set - continue from the state of another run
 * @batches: [in] a source without a started thread
 * @state:   [in] state of a run with the same tokens, block and order; the number of ranks and
 *           workers, and the batch, may differ
 *
 * Thread safety: any thread; calls on the object wait for one another.
 *
 * Errors:
 *   -EBUSY:  the call is between hm_batches_start() and hm_batches_stop().
 *   -EINVAL: the position is 2^62 or more.
 *   -E2BIG:  struct_size is larger than this library knows.
 */
HM_API int hm_batches_set(struct hm_batches *batches, const struct hm_batches_state *state);

/**
 * hm_batches_query - report the choices of the source, and its counters
 * @batches:  [in]
 * @ret_info: [in,out] the caller must set struct_size
 *
 * Thread safety: any thread; calls on the object wait for one another.
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 */
HM_API int hm_batches_query(struct hm_batches *batches, struct hm_batches_info *ret_info);

/** hm_batches_ref - take a reference; returns @batches. NULL gives NULL. */
HM_API struct hm_batches *hm_batches_ref(struct hm_batches *batches);

/** hm_batches_unref - drop a reference; the last one ends the thread. NULL is allowed */
HM_API void hm_batches_unref(struct hm_batches *batches);

#ifdef __cplusplus
}
#endif

#endif
