/* SPDX-License-Identifier: MIT */
/*
 * Batches: the rows of a table of any size through bounded memory.
 */
#ifndef HETMAP_TABLE_BATCHES_H
#define HETMAP_TABLE_BATCHES_H

#include <hetmap/table.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_table_batches; /* rows of a table, a batch at a time, through bounded memory */

struct hm_table_batches_desc {
	uint32_t struct_size;
	uint32_t flags;  /* 0 */
	uint64_t window; /* most bytes of memory, from 64 KiB */
	uint64_t rows;   /* most rows of a batch; 0: as many as suit the window, at most 1 Mi */
	/*
	 * 1: a thread makes the next batch while the caller has the present one, and both share
	 * the window. 0: none does.
	 */
	uint32_t ahead;
	uint32_t reserved; /* 0 */
};

/* A batch that was handed out. Pointers live until the next batch. */
struct hm_table_batch {
	uint32_t struct_size;
	uint32_t file;      /* number of the file */
	uint64_t group;     /* number of the group that the batch is from */
	uint64_t number;    /* batches before this one */
	uint64_t first_row; /* rows before the first one, of all batches */
	uint64_t rows;      /* 0: the table has no more rows */
	uint64_t bytes; /* bytes of the batch in the window; 0: all of it is where it lies */
	const struct ArrowArray *array; /* a struct with all columns; belongs to the batches */
};

struct hm_table_batches_info {
	uint32_t struct_size;
	uint32_t reserved;
	uint64_t window;
	uint64_t rows;    /* most rows of a batch, as given or chosen */
	uint64_t batches; /* handed out so far */
	uint64_t peak;    /* most bytes of memory so far, of the window */
	uint64_t least;   /* window that the largest batch so far needed */
};

/**
 * hm_table_batches_create - hand out the rows of a table through bounded memory
 * @table:       [in] the batches take a reference
 * @desc:        [in]
 * @ret_batches: [out] a reference; the caller must drop it with hm_table_batches_unref()
 *
 * All memory of a batch, and of the work to decode it, is in the window, which is reused for the
 * next batch. Record batches of Arrow that are stored plainly are used where they lie, and take
 * nothing from the window. A batch does not reach into the next group.
 *
 * Errors:
 *   -EINVAL: the window is smaller than 64 KiB, or ahead is above 1.
 *   -E2BIG:  struct_size is larger than this library knows.
 *   -EAGAIN: no thread could be started.
 *
 * In addition the errors of hm_pool_create().
 */
HM_API int hm_table_batches_create(struct hm_table *table,
				   const struct hm_table_batches_desc *desc,
				   struct hm_table_batches **ret_batches);

/**
 * hm_table_batches_next - return the next rows
 * @batches:   [in]
 * @ret_batch: [in,out] the caller must set struct_size
 *
 * The call ends the pointers of the batch before. Work in flight on them must have ended.
 *
 * At the end rows is 0, and array is NULL; likewise at each further call.
 *
 * Errors:
 *   -ENOSPC:  the window is too small for a batch of so few rows as the file allows; the text
 *             has the least window that works for this batch. Later calls return the same.
 *   -E2BIG:   struct_size is larger than this library knows.
 *
 * In addition the errors of hm_table_column().
 *
 * Thread safety: any thread; calls for the same batches wait for each other.
 */
HM_API int hm_table_batches_next(struct hm_table_batches *batches,
				 struct hm_table_batch *ret_batch);

/**
 * hm_table_batches_chunk - return the buffers of a column in the present batch
 * @batches:   [in]
 * @column:    [in] number of the column, from 0
 * @ret_chunk: [in,out] the caller must set struct_size
 *
 * Errors:
 *   -ERANGE: the table has fewer columns, or no batch is handed out.
 *   -E2BIG:  struct_size is larger than this library knows.
 */
HM_API int hm_table_batches_chunk(struct hm_table_batches *batches, uint32_t column,
				  struct hm_table_chunk *ret_chunk);

/**
 * hm_table_batches_query - report the state
 * @batches:  [in]
 * @ret_info: [in,out] the caller must set struct_size
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 */
HM_API int hm_table_batches_query(struct hm_table_batches *batches,
				  struct hm_table_batches_info *ret_info);

/** hm_table_batches_ref - take a reference; returns @batches. NULL gives NULL. */
HM_API struct hm_table_batches *hm_table_batches_ref(struct hm_table_batches *batches);

/**
 * hm_table_batches_unref - drop a reference; NULL is allowed
 *
 * The last reference ends the thread, the window and the present batch.
 */
HM_API void hm_table_batches_unref(struct hm_table_batches *batches);

#ifdef __cplusplus
}
#endif

#endif
