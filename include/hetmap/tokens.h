/* SPDX-License-Identifier: MIT */
/*
 * Tokens: files of numbers, as training data is stored, and batches of blocks of them.
 *
 * One file or many shards are one array. A batch is a number of blocks x of so many tokens,
 * and blocks y, which are the same shifted by one: what comes next. They are taken out of
 * the files and widened in one pass, into memory that the caller gives, which may be a map
 * of a device's buffer.
 *
 * Where hm_handler_install() is in effect they are taken out of shared maps, so that all
 * processes have one copy, and a file that is cut off, or storage that fails, is an error and
 * no signal; elsewhere, or where a file system shares no maps, they are read by pread(2),
 * which takes about twice as long for what is in RAM.
 */
#ifndef HETMAP_TOKENS_H
#define HETMAP_TOKENS_H

#include <hetmap/safetensors.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_tokens;  /* files of tokens, as one array */
struct hm_batches; /* batches of them, in an order that a seed says */

/* hm_tokens_desc.flags */
#define HM_TOKENS_RAW (1u << 0)     /* no header, though a file may begin as a .npy file */
#define HM_TOKENS_SWAPPED (1u << 1) /* raw: not in this machine's byte order */
#define HM_TOKENS_BOOL (1u << 2)    /* raw: dtype 0 is HM_DTYPE_BOOL, whose number that is */
#define HM_TOKENS_READ (1u << 3)    /* no maps: all is read by pread(2) */

struct hm_tokens_desc {
	uint32_t struct_size;
	uint32_t flags;    /* HM_TOKENS_* */
	uint32_t dtype;    /* raw: enum hm_dtype, of whole bytes; 0: HM_DTYPE_U16 */
	uint32_t reserved; /* 0 */
	uint64_t offset;   /* raw: bytes before the first token, of each file */
	uint64_t budget;   /* bytes that the files' maps may take, page tables included; 0:
			    * a quarter of the memory there is */
};

struct hm_tokens_info {
	uint32_t struct_size;
	uint32_t dtype; /* enum hm_dtype, of the files */
	uint32_t shards;
	uint32_t reserved;
	uint64_t tokens;
	uint64_t bytes;  /* of all tokens, in the files */
	uint64_t budget; /* bytes that the files' maps may take */
};

/* One of the files. */
struct hm_tokens_shard_info {
	uint32_t struct_size;
	uint32_t npy;   /* version of the .npy format, 1 to 3; 0: raw */
	uint32_t flags; /* HM_NPY_FORTRAN, HM_NPY_SWAPPED: hetmap/npy.h */
	uint32_t reserved;
	const char *path;   /* as opened; lives as long as the hm_tokens */
	struct hm_map *map; /* of the whole file; NULL: its file system shares no maps, or is
			     * a network's, the budget has no room for one, or
			     * HM_TOKENS_READ wants none */
	uint64_t size;      /* of the file */
	uint64_t offset;    /* of its first token, in bytes */
	uint64_t first;     /* number of its first token in the array */
	uint64_t tokens;
};

/**
 * hm_tokens_open - files of tokens as one array
 * @paths:   [in] of regular files, the first tokens first
 * @n_paths: [in] from 1
 * @desc:    [in, optional] NULL: raw files have HM_DTYPE_U16, from their first byte on
 * @ret_tokens: [out] a reference, dropped with hm_tokens_unref()
 *
 * A file that begins as a .npy file does is one: of any of enum hm_dtype's types that has whole
 * bytes, any byte order, any number of dimensions, which make one row in C's order, also where
 * the file has Fortran's. All else is raw: whole tokens, from desc->offset to its end. All
 * files have tokens of one type. Nothing of the tokens is read.
 *
 * What is taken out of a file's map stays mapped until it reaches the file's part of the
 * budget, by its size; then all of it is given back, page tables, too, which the kernel can't
 * take back by itself. It is in the page cache still. It is counted, before it is touched, by
 * the most that a fault may map: 64 KiB where the file system has no large folios (ext4 and
 * btrfs before Linux 6.16), else what one page of a page table maps, 2 MiB with pages of 4 KiB.
 * What the caller touches in the maps of hm_tokens_shard() is not counted; and what he narrows,
 * locks or uses there is not given back. By pread(2) is read what has no room in a file's part:
 * a block longer than it, a file in Fortran's order that is larger; and all files where the
 * budget is too small for their maps: twice as much as a fault may map, tables, and a bit for
 * each time that much of the file, or all of a small file; and such files of which a part has
 * room for less than a fault for each 4 GB. 0 allows the former in any case.
 *
 * Files on a network's file system are not mapped, as hm_reader_open() does not: errors there
 * are signals in a map, and its bytes may be old. HM_TOKENS_READ has none mapped.
 *
 * Thread-safe; what was opened never changes.
 *
 * Errors: -EBADMSG a raw file that ends inside of a token, or a .npy file that hm_npy_query
 * refuses so; -EOPNOTSUPP elements of HM_NPY_OPAQUE, or hm_npy_query's; -EINVAL types
 * that differ, desc->dtype is none, or of 4 or 6 bits; -ENODATA a file without tokens; -EOVERFLOW
 * 2^62 tokens or more; -EMFILE (each file keeps a descriptor), -ENOENT and others of
 * hm_buffer_from_file and hm_map_create; -ENOMEM; -E2BIG.
 */
HM_API int hm_tokens_open(const char *const *paths, uint32_t n_paths,
			  const struct hm_tokens_desc *desc, struct hm_tokens **ret_tokens);

/**
 * hm_tokens_query - how much there is
 * @tokens:   [in]
 * @ret_info: [in,out] struct_size set by the caller
 *
 * Errors: -E2BIG.
 */
HM_API int hm_tokens_query(struct hm_tokens *tokens, struct hm_tokens_info *ret_info);

/**
 * hm_tokens_shard - one of the files
 * @tokens:   [in]
 * @shard:    [in] from 0, as they were named
 * @ret_info: [in,out] struct_size set by the caller
 *
 * Errors: -ERANGE there are fewer; -E2BIG.
 */
HM_API int hm_tokens_shard(struct hm_tokens *tokens, uint32_t shard,
			   struct hm_tokens_shard_info *ret_info);

/**
 * hm_tokens_read - tokens in a row, widened
 * @tokens: [in]
 * @first:  [in] number of the first one
 * @n:      [in] how many, from 1
 * @dtype:  [in] enum hm_dtype of what is written: of integers any integer type; of F16 and
 *          BF16 also F32; the files' own type in any case
 * @to:     [out] @n of them, aligned for the type; outside of the files' maps
 *
 * Thread-safe. An error may leave a part of @to written.
 *
 * Errors: -ERANGE beyond the last token; -EOVERFLOW a token that @dtype can't hold (the text
 * says which); -EOPNOTSUPP what the files have is not made @dtype; -ENODATA a file was cut
 * off; -EIO; -EHWPOISON; -ENODEV or -EACCES of @to, where that is in a map and
 * hm_handler_install() is in effect: else a fault on it is a signal; -EINVAL; -ENOMEM.
 */
HM_API int hm_tokens_read(struct hm_tokens *tokens, uint64_t first, uint64_t n, uint32_t dtype,
			  void *to);

/** hm_tokens_ref - take a reference; returns @tokens. NULL gives NULL. */
HM_API struct hm_tokens *hm_tokens_ref(struct hm_tokens *tokens);

/** hm_tokens_unref - drop a reference; NULL is allowed */
HM_API void hm_tokens_unref(struct hm_tokens *tokens);

/*
 * In which order blocks come. What a seed gives is the same on every machine, in every
 * version that has the same first number, and written down in hm_tokens(3).
 */
enum hm_batches_order {
	HM_BATCHES_RANDOM = 0,   /* each begins at any token, independent of the others */
	HM_BATCHES_SHUFFLED = 1, /* each block once an epoch, in another order each epoch */
	HM_BATCHES_IN_ORDER = 2, /* each block once an epoch, as they are in the files */
};

struct hm_batches_desc {
	uint32_t struct_size;
	uint32_t flags; /* 0 */
	uint32_t order; /* enum hm_batches_order */
	uint32_t dtype; /* enum hm_dtype of x and y, as hm_tokens_read's; 0: HM_DTYPE_I64 of
			 * integers, else the files' own */
	uint64_t block; /* tokens of a block, from 1 */
	uint64_t batch; /* blocks of a batch, from 1 */
	uint64_t seed;
	uint32_t rank;    /* below ranks */
	uint32_t ranks;   /* 0: 1 */
	uint32_t worker;  /* below workers */
	uint32_t workers; /* of each rank; 0: 1; all of them 2^24 at most */
	uint32_t ahead;   /* batches that are asked of storage ahead; 0: 2; 1024 at most */
	uint32_t reserved;
};

/* What was handed out. */
struct hm_batch {
	uint32_t struct_size;
	uint32_t slot;   /* of hm_batches_start(); 0 of hm_batches_next() */
	uint64_t number; /* batches before it, since the creation */
	uint64_t epoch;  /* of its first block; HM_BATCHES_RANDOM: 0 */
	uint64_t blocks; /* how many */
	/*
	 * First token of each. Of hm_batches_take(): until hm_batches_give() or hm_batches_stop();
	 * of hm_batches_next(): until the next batch, hm_batches_start() or hm_batches_resize().
	 */
	const uint64_t *starts;
};

/* Memory for a batch: fixed, comes in arrays. */
struct hm_batch_slot {
	void *x; /* batch * block tokens, aligned for their type */
	void *y; /* likewise; NULL: not wanted */
};

/* Where a run is. It is the same for all ranks and workers that are as far. */
struct hm_batches_state {
	uint32_t struct_size;
	uint32_t reserved;
	uint64_t seed;
	uint64_t position; /* blocks handed out by all ranks and workers */
};

/* How batches got at their tokens: hm_batches_info.way */
enum hm_batches_way {
	HM_BATCHES_NONE = 0,   /* there was none yet */
	HM_BATCHES_MAPPED = 1, /* out of the files' maps */
	HM_BATCHES_READ = 2,   /* by pread(2) */
};

struct hm_batches_info {
	uint32_t struct_size;
	uint32_t dtype;      /* of x and y */
	uint32_t way;        /* enum hm_batches_way, of the last one */
	uint32_t announcing; /* 1: ranges are asked of storage ahead now */
	const char *why; /* way and announcing, in a sentence; lives as long as the object */
	uint64_t block;
	uint64_t batch;
	uint64_t blocks;    /* of an epoch, of all ranks and workers */
	uint64_t batches;   /* handed out */
	uint64_t filled;    /* made: more, as some are ahead */
	uint64_t mapped;    /* of these, out of maps */
	uint64_t announced; /* and asked of storage ahead */
	uint64_t bytes;     /* of tokens that were taken out of the files */
	uint64_t waited_ns; /* by hm_batches_take(), for one that was not ready */
};

/**
 * hm_batches_create - batches of tokens
 * @tokens: [in] kept by reference
 * @desc:   [in]
 * @ret_batches: [out] a reference, dropped with hm_batches_unref()
 *
 * Of n = ranks * workers members, member rank * workers + worker gets blocks m, m + n,
 * m + 2n and so on of the one order that all share: no block is two members', and each
 * epoch has each of its blocks once. A batch may end in the next epoch; the last tokens,
 * fewer than a block and one, are in none. All batches are whole.
 *
 * Any thread may call; one call on the object waits for another one, but for
 * hm_batches_take().
 *
 * Errors: -EINVAL sizes of 0, a rank or worker that is none; -ERANGE there are not so many
 * tokens as a block and one has; -EOPNOTSUPP what the files have is not made dtype; -EOVERFLOW
 * a batch of 2^62 bytes; -ENOMEM; -E2BIG.
 */
HM_API int hm_batches_create(struct hm_tokens *tokens, const struct hm_batches_desc *desc,
			     struct hm_batches **ret_batches);

/**
 * hm_batches_next - the next batch, into memory of the caller's
 * @batches:   [in]
 * @x:         [out] batch * block tokens, one block behind another
 * @y:         [out, optional] likewise, each token the one behind that of @x
 * @ret_batch: [in,out, optional] struct_size set by the caller
 *
 * In the calling thread. The ranges of the batch, and of those that come next, are asked of
 * storage first, by MADV_WILLNEED, while that is of use: batches that found all in RAM end
 * it, one that waited for storage begins it again. Files in Fortran's order have no ranges.
 * A buffer that @x is in is the CPU's meanwhile: hm_map_begin_cpu(), hm_map_end_cpu().
 * After an error the batch is still the next one; @x and @y may be written in part.
 *
 * Errors: hm_tokens_read's, -EBUSY between hm_batches_start() and hm_batches_stop(); -EINVAL
 * @x or @y is not aligned; -E2BIG.
 */
HM_API int hm_batches_next(struct hm_batches *batches, void *x, void *y,
			   struct hm_batch *ret_batch);

/**
 * hm_batches_start - have a thread keep batches ahead
 * @batches: [in]
 * @slots:   [in] memory for batches, which lives until hm_batches_stop()
 * @n_slots: [in] from 1 to 4096; 2 at least, for the thread to be ahead
 *
 * The thread fills one slot after another and waits where none is free. It takes no signals
 * but those of its own faults.
 *
 * Errors: -EBUSY started already; -EINVAL a slot without x, or not aligned; -EAGAIN no further
 * thread; -ENOMEM.
 */
HM_API int hm_batches_start(struct hm_batches *batches, const struct hm_batch_slot *slots,
			    uint32_t n_slots);

/**
 * hm_batches_take - the next batch of those that the thread fills
 * @batches:    [in]
 * @timeout_ns: [in] 0: only looks; UINT64_MAX: waits for ever
 * @ret_batch:  [in,out] struct_size set by the caller; the slot is the caller's until
 *              hm_batches_give()
 *
 * What was filled before the thread failed is handed out first; its error stays then, until
 * hm_batches_stop().
 *
 * Errors: -ETIME it is not ready; -EINVAL not started; -EBUSY all slots are taken, and none
 * was given back; and hm_batches_next's, of the thread.
 */
HM_API int hm_batches_take(struct hm_batches *batches, uint64_t timeout_ns,
			   struct hm_batch *ret_batch);

/**
 * hm_batches_give - hand a slot back, to be filled again
 * @batches: [in]
 * @slot:    [in] hm_batch.slot
 *
 * Errors: -EINVAL it was not taken.
 */
HM_API int hm_batches_give(struct hm_batches *batches, uint32_t slot);

/**
 * hm_batches_stop - end the thread
 *
 * All slots are the caller's again. What was filled and not taken comes again: the next batch
 * is the one behind the last that was taken. hm_batches_take() in another thread ends with
 * -ECANCELED. Not started: nothing is done.
 *
 * Errors: none of its own.
 */
HM_API int hm_batches_stop(struct hm_batches *batches);

/**
 * hm_batches_resize - another number of blocks a batch, from the next one on
 * @batches: [in] not started
 * @batch:   [in] from 1; all members that shall stay together do the same
 *
 * No block is left out or comes twice.
 *
 * Errors: -EBUSY between hm_batches_start() and hm_batches_stop(); -EINVAL 0; -EOVERFLOW;
 * -ENOMEM.
 */
HM_API int hm_batches_resize(struct hm_batches *batches, uint64_t batch);

/**
 * hm_batches_get - where the run is: behind the last batch that was handed out
 * @batches:   [in]
 * @ret_state: [in,out] struct_size set by the caller
 *
 * Errors: -E2BIG.
 */
HM_API int hm_batches_get(struct hm_batches *batches, struct hm_batches_state *ret_state);

/**
 * hm_batches_set - go on where another run was
 * @batches: [in] not started
 * @state:   [in] of a run with the same tokens, block and order; the number of ranks and
 *           workers, and the batch, may be others
 *
 * Errors: -EBUSY between hm_batches_start() and hm_batches_stop(); -EINVAL a position of 2^62
 * or more; -E2BIG.
 */
HM_API int hm_batches_set(struct hm_batches *batches, const struct hm_batches_state *state);

/**
 * hm_batches_query - what was chosen, and what it cost
 * @batches:  [in]
 * @ret_info: [in,out] struct_size set by the caller
 *
 * Errors: -E2BIG.
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
