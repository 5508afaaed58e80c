/* SPDX-License-Identifier: MIT */
/*
 * Files of tokens, as one array, and batches of them: the order of tokens (tokens_order.c),
 * their widening (tokens_widen.c), the access to them (tokens_read.c), and the threads that fill
 * batches (batches.c, batches_ring.c).
 */
#ifndef HETMAP_FORMAT_TOKENS_H
#define HETMAP_FORMAT_TOKENS_H

#include <pthread.h>

#include <hetmap/npy.h>
#include <hetmap/tokens.h>

#include "../../reader/account.h"
#include "core/core.h"

/* ---- tokens.c ---- */

/* Reason for a file without a map. */
enum no_map {
	NO_MAP_SHARED,  /* the file system allows no shared maps */
	NO_MAP_NETWORK, /* in a map, the file system's errors are signals, and bytes go stale */
	NO_MAP_ROOM,    /* the budget has no room for it */
	NO_MAP_ASKED,   /* HM_TOKENS_READ */
};

struct token_shard {
	char *path;
	struct hm_buffer *buffer; /* of the whole file; holds a ref */
	struct hm_map *map;       /* likewise, or NULL */
	enum no_map no_map;       /* if map is NULL */
	uint64_t size;            /* of the file */
	uint64_t offset;          /* of the first token's bytes */
	uint64_t first;           /* number of its first token in the array */
	uint64_t n;               /* 0: the file has no tokens, and maybe no buffer */
	uint32_t version;         /* of .npy; 0: raw */
	bool swapped;
	uint32_t rank;          /* 0: C's order; if not, Fortran's, with this shape */
	uint64_t *shape;        /* rank of them */
	uint32_t index;         /* enum hm_tokens_index */
	uint64_t *end;          /* for each document: the token behind it; NULL: one document */
	uint64_t n_document;    /* 0: the file has no tokens */
	uint64_t document;      /* number of its first document in the array */
	uint64_t fault;         /* the most bytes that one maps; if tokens->budgeted */
	struct account account; /* likewise; with tokens->counting held */
};

/* Except for accounts, nothing in it changes once hm_tokens_open() has returned. */
struct hm_tokens {
	struct hm_object object;
	struct token_shard *shard;
	uint32_t n_shard;
	uint32_t dtype;
	uint32_t width; /* bytes of a token */
	uint64_t n;     /* tokens of all shards */
	uint64_t n_document;
	uint64_t vocab; /* tokens must be below it; 0: no bound */
	uint64_t budget;
	bool budgeted;             /* maps of all files would exceed the budget */
	pthread_rwlock_t touching; /* written: maps are given back; taken before counting */
	pthread_mutex_t counting;
};

/* The shard with token @number, which must exist. Never a shard without tokens. */
uint32_t tokens_shard_of(const struct hm_tokens *tokens, uint64_t number);
/* The same; *@ret_n: how many of the @n tokens from @number on are in that shard. */
const struct token_shard *tokens_shard_at(const struct hm_tokens *tokens, uint64_t number,
					  uint64_t n, uint64_t *ret_n);

/* hm_tokens_open() without its door. */
int tokens_open_paths(const char *const *paths, uint32_t n_paths,
		      const struct hm_tokens_desc *desc, struct hm_tokens **ret_tokens);

/* ---- tokens_documents.c ---- */

/*
 * Rows of documents: row after row of a document of n tokens begins at its tokens 0, step,
 * 2 * step and so on, while a token follows in the document.
 */
struct token_rows {
	const struct hm_tokens *tokens; /* the owner of the rows holds a ref */
	uint64_t step;
	uint64_t n;       /* rows of all documents */
	uint64_t *before; /* rows before documents 0, ROWS_STRIDE, 2 * ROWS_STRIDE... */
};

/* -ENOMEM. */
int token_rows_begin(struct token_rows *rows, const struct hm_tokens *tokens, uint64_t step);
void token_rows_end(struct token_rows *rows);
/*
 * The first token of row @number, which must exist. Returns how many tokens before the last one of
 * its document are from there on.
 */
uint64_t token_rows_find(const struct token_rows *rows, uint64_t number, uint64_t *ret_first);

/* ---- tokens_budget.c ---- */

/*
 * @budget 0: a quarter of facts_ram(). Must be called before @tokens is published.
 * -ENOMEM.
 */
int tokens_budget_begin(struct hm_tokens *tokens, uint64_t budget);
void tokens_budget_end(struct hm_tokens *tokens);

struct token_block;

/*
 * For budgeted tokens: the first *@ret_n blocks may be touched until tokens_budget_release().
 * With 0 of them, or an error (a map is lost), nothing must be released. 0 of them: read the
 * first block, since it alone exceeds the budget, or no map can be given back now.
 */
int tokens_budget_admit(struct hm_tokens *tokens, const struct token_block *blocks, uint64_t n,
			uint64_t *ret_n);
void tokens_budget_release(struct hm_tokens *tokens);

/* ---- tokens_widen.c ---- */

/*
 * Converts @n values at @from, aligned or not, to @to, which must be aligned. True: some value
 * does not fit, and its result is unspecified.
 */
typedef bool widen_function(void *to, const void *from, uint64_t n);

/* Is one of @n integers at @from above @most, or negative? */
typedef bool above_function(const void *from, uint64_t n, uint64_t most);

/*
 * For the check that values of @dtype are below @vocab, which is not 0. NULL: all values are, or
 * they are no integers.
 */
above_function *widen_find_above(uint32_t dtype, bool swapped, uint64_t vocab,
				 uint64_t *ret_most);

/* NULL: no such conversion. @swapped: @from is not in this machine's byte order. */
widen_function *widen_find(uint32_t to, uint32_t from, bool swapped);
/* Reverses the bytes of each of @n values in place. */
void widen_swap(void *values, uint32_t dtype, uint64_t n);
/* Can tokens be of this type? Only types of whole bytes. */
bool widen_knows(uint32_t dtype);
bool widen_is_integer(uint32_t dtype);

/* ---- tokens_read.c ---- */

/* A reader of tokens out of files, for one thread at a time. */
struct token_reader {
	struct hm_tokens *tokens; /* the caller holds a ref */
	uint32_t dtype;           /* of the results */
	widen_function *widen[2]; /* [1]: for swapped shards */
	above_function *above[2]; /* likewise; NULL: no bound */
	uint64_t most;            /* the largest token that is below the bound */
	char *stage;              /* room tokens, as in the files */
	uint64_t room;
	unsigned char *touched; /* for each shard: 1 */
	bool mapped;            /* the last job took them out of the maps */
	uint64_t pad_x, pad_y;  /* bits of the tokens that fill short blocks */
};

/* Consecutive tokens, and their destination. */
struct token_block {
	uint64_t first;
	uint64_t n;
	void *x;      /* n tokens from first on */
	void *y;      /* n from the next one on, which must exist; or NULL */
	uint64_t pad; /* tokens to fill behind those of x, and of y */
};

/* @room: tokens of the longest block, and one more. -EOPNOTSUPP, -ENOMEM. */
int token_reader_init(struct token_reader *reader, struct hm_tokens *tokens, uint32_t dtype,
		      uint64_t room);
void token_reader_end(struct token_reader *reader);

/* Reads at @offset of the file. -ENODATA: the file ends before. */
int tokens_pread(const struct token_shard *shard, void *to, uint64_t length, uint64_t offset);

/* Starts reading the bytes of tokens [@first, @first + @n), which are wanted soon. */
void tokens_announce(const struct hm_tokens *tokens, uint64_t first, uint64_t n);
/* Did the reader's last job touch files in C's order, the only ones with ranges to announce? */
bool tokens_announced(const struct token_reader *reader);

/*
 * Takes @n blocks, no longer than the reader's room allows. Errors are those of hm_tokens_read.
 * On success all bytes were the files', and none the replacements of lost ones.
 */
int tokens_take(struct token_reader *reader, const struct token_block *blocks, uint64_t n);

/* ---- tokens_order.c ---- */

#define ORDER_ROUNDS 8

/* The order of blocks. */
struct token_order {
	uint32_t kind; /* enum hm_batches_order */
	uint64_t seed;
	uint64_t block;  /* tokens */
	uint64_t blocks; /* of an epoch */
	uint64_t starts; /* tokens that a block may begin at */
	uint64_t epoch;  /* epoch of the keys; UINT64_MAX: none */
	uint64_t key[ORDER_ROUNDS];
};

/* @tokens must be more than @block. */
void order_init(struct token_order *order, uint32_t kind, uint64_t seed, uint64_t tokens,
		uint64_t block);
/* The first token of the block at @position. */
uint64_t order_start(struct token_order *order, uint64_t position);
uint64_t order_epoch(const struct token_order *order, uint64_t position);
/* Four numbers of 32 bits from a counter and a key: Philox4x32-10. */
void order_philox(const uint32_t counter[4], uint64_t key, uint32_t ret_number[4]);

/* ---- batches.c ---- */

struct batch_ring;

struct hm_batches {
	struct hm_object object;
	pthread_mutex_t lock;    /* protects the below; held while hm_batches_next() fills */
	pthread_cond_t changed;  /* a slot is ready or free, or the thread must end */
	struct batch_ring *ring; /* NULL: not started */
	bool stopping;           /* a thread is in hm_batches_stop() */
	uint32_t takers;         /* threads that wait in hm_batches_take() */

	/* Constant. */
	struct hm_tokens *tokens; /* holds a ref */
	uint64_t block;
	bool documents;         /* HM_BATCHES_DOCUMENTS, */
	struct token_rows rows; /* with which a block is a row */
	uint64_t member, members;
	uint32_t dtype;
	uint32_t width; /* bytes of a token of x and y */
	uint32_t ahead;
	bool in_order; /* some file is in C's order: there are ranges to announce */

	uint64_t batch;
	uint64_t base; /* position at which this run began */
	uint64_t done; /* blocks of this member handed out since */
	uint64_t handed;
	uint64_t waited_ns;

	/* Used by the filling thread: a caller with lock held, or the ring's. */
	struct token_reader reader;
	struct token_order order;
	struct token_block *blocks; /* batch of them */
	uint64_t *starts;           /* likewise, for hm_batches_next() */
	uint64_t *lengths;          /* likewise; with documents only */
	uint64_t announced;         /* blocks of this member announced since base */
	bool announcing;
	uint32_t quiet; /* batches in a row that needed no storage */

	/* Written by the filling thread, and read by any. */
	_Atomic uint64_t filled, filled_mapped, filled_announced, bytes;
	_Atomic uint32_t way; /* enum hm_batches_way */
	_Atomic bool tells_announcing;
};

/* object_check() of a caller's pointer; never 0 for NULL. */
static inline int batches_check_object(const struct hm_batches *batches)
{
	if (likely(batches != NULL))
		return object_check(&batches->object, OBJECT_BATCHES);
	object_refuse(NULL, OBJECT_BATCHES);
	return -EINVAL;
}

/*
 * Fills a batch that begins behind @done blocks of this member. @starts, @lengths: batch of them,
 * the latter with documents only.
 */
int batches_fill(struct hm_batches *batches, uint64_t done, void *x, void *y, uint64_t *starts,
		 uint64_t *lengths);
/* -EINVAL with a text where @x or @y can't be written to. */
int batches_check_memory(const struct hm_batches *batches, const void *x, const void *y,
			 const char *what);

/* ---- batches_ring.c ---- */

/* Ends the thread; called with lock held, and drops it in between. */
void batches_end_ring(struct hm_batches *batches);

#endif
