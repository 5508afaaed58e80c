// SPDX-License-Identifier: MIT
/*
 * Access to tokens: out of the files' maps in a guarded scope, where faults are errors; or by
 * pread(2), where there is no handler for that, or no map. Afterwards the files' lengths are
 * checked: the last page of a file reads zeros behind the end, without a signal.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "map/announce.h"
#include "fault/handler.h"
#include "fault/repair.h"
#include "core/segments.h"
#include "base/sys.h"
#include "format/pieces/pieces.h"
#include "format/tokens/tokens.h"

/* Tokens that hm_tokens_read() takes at a time. */
#define READ_BLOCK 65536

int tokens_pread(const struct token_shard *shard, void *to, uint64_t length, uint64_t offset)
{
	int r = pieces_pread(shard->buffer, to, length, offset);

	return r ? err_prefix(r, "%s", shard->path) : 0;
}

/* Announces bytes [@from, @to) of the file. Only advice: taking them shows errors. */
static void announce_bytes(const struct token_shard *shard, uint64_t from, uint64_t to)
{
	if (!shard->map) {
		announce_stored(shard->buffer, from, to - from);
		return;
	}
	from = round_down(from, page_size());
	announce_pages(shard->buffer, shard->map->address + from, to - from);
}

void tokens_announce(const struct hm_tokens *tokens, uint64_t first, uint64_t n)
{
	const struct token_shard *shard;
	uint64_t now, from;

	for (; n; first += now, n -= now) {
		shard = tokens_shard_at(tokens, first, n, &now);
		/* In Fortran's order tokens are spread over the file. */
		if (shard->rank)
			continue;
		from = shard->offset + (first - shard->first) * tokens->width;
		announce_bytes(shard, from, from + now * tokens->width);
	}
}

bool tokens_announced(const struct token_reader *reader)
{
	uint32_t i;

	for (i = 0; i < reader->tokens->n_shard; i++)
		if (reader->touched[i] && !reader->tokens->shard[i].rank)
			return true;
	return false;
}

/* ---- raw bytes, where they are not together ---- */

/* Gets one element, out of the map or by reading. */
static int get_one(const struct hm_tokens *tokens, const struct token_shard *shard,
		   uint64_t element, bool mapped, char *to)
{
	uint64_t offset = shard->offset + element * tokens->width;

	if (!mapped)
		return tokens_pread(shard, to, tokens->width, offset);
	memcpy(to, shard->map->address + offset, tokens->width);
	return 0;
}

/* Gathers the @n tokens from number @at of the shard on, which has Fortran's order. */
static int gather(const struct hm_tokens *tokens, const struct token_shard *shard, uint64_t at,
		  uint64_t n, bool mapped, char *to)
{
	uint64_t index[HM_NPY_RANK_MAX], stride[HM_NPY_RANK_MAX], element = 0, step = 1, i;
	int d, r = 0;

	for (d = 0; d < (int)shard->rank; d++) {
		stride[d] = step;
		step *= shard->shape[d];
	}
	/* In C's order the last dimension is the fastest. */
	for (d = (int)shard->rank - 1; d >= 0; d--) {
		index[d] = at % shard->shape[d];
		at /= shard->shape[d];
		element += index[d] * stride[d];
	}
	for (i = 0; i < n && !r; i++) {
		r = get_one(tokens, shard, element, mapped, to + i * tokens->width);
		for (d = (int)shard->rank - 1; d >= 0; d--) {
			element += stride[d];
			if (++index[d] < shard->shape[d])
				break;
			element -= stride[d] * shard->shape[d];
			index[d] = 0;
		}
	}
	return r;
}

/* Copies tokens of any shards to the stage, all in this machine's byte order. */
static int fill_stage(struct token_reader *reader, uint64_t first, uint64_t n, bool mapped)
{
	const struct hm_tokens *tokens = reader->tokens;
	uint32_t width = tokens->width;
	const struct token_shard *shard;
	char *to = reader->stage;
	uint64_t now, at, offset;
	int r = 0;

	for (; n && !r; first += now, n -= now, to += now * width) {
		shard = tokens_shard_at(tokens, first, n, &now);
		at = first - shard->first;
		offset = shard->offset + at * width;
		if (shard->rank)
			r = gather(tokens, shard, at, now, mapped, to);
		else if (mapped)
			memcpy(to, shard->map->address + offset, now * width);
		else
			r = tokens_pread(shard, to, now * width, offset);
		if (!r && shard->swapped)
			widen_swap(to, tokens->dtype, now);
	}
	return r;
}

/* ---- blocks ---- */

/* A job of the reader, apart from the function with setjmp(): no variable of that may change. */
struct job {
	struct token_reader *reader;
	const struct token_block *blocks;
	uint64_t n;
	const struct token_block *narrow; /* one with a token that does not fit; or NULL */
	bool guarded; /* the handler is installed: use a scope, if possible */
	bool mapped;  /* out of the maps, which requires a scope */
	int r;
};

/*
 * Converts a block's x and y from @from; y is a token behind. True: a token does not fit, or is
 * above the bound. The bound is looked for in the files' bytes: x may be memory of a device, which
 * is slow to read.
 */
static bool widen_block(const struct token_reader *reader, const struct token_block *block,
			const char *from, bool swapped)
{
	widen_function *widen = reader->widen[swapped];
	above_function *above = reader->above[swapped];
	bool bad;

	if (above && above(from, block->n + (block->y ? 1 : 0), reader->most))
		return true;
	bad = widen(block->x, from, block->n);
	if (block->y)
		bad |= widen(block->y, from + reader->tokens->width, block->n);
	return bad;
}

static void fill(void *to, uint64_t bits, uint32_t width, uint64_t n)
{
	uint64_t i;

	switch (width) {
	case 1:
		memset(to, (int)bits, n);
		break;
	case 2:
		for (i = 0; i < n; i++)
			((uint16_t *)to)[i] = (uint16_t)bits;
		break;
	case 4:
		for (i = 0; i < n; i++)
			((uint32_t *)to)[i] = (uint32_t)bits;
		break;
	default:
		for (i = 0; i < n; i++)
			((uint64_t *)to)[i] = bits;
		break;
	}
}

/* Fills x and y behind the tokens of a short block. */
static void pad_block(const struct token_reader *reader, const struct token_block *block)
{
	uint32_t width = hm_dtype_bits(reader->dtype) / 8;

	fill((char *)block->x + block->n * width, reader->pad_x, width, block->pad);
	if (block->y)
		fill((char *)block->y + block->n * width, reader->pad_y, width, block->pad);
}

static int take_block(const struct job *job, const struct token_block *block, bool *ret_bad)
{
	struct token_reader *reader = job->reader;
	const struct hm_tokens *tokens = reader->tokens;
	const struct token_shard *shard = &tokens->shard[tokens_shard_of(tokens, block->first)];
	uint64_t n = block->n + (block->y ? 1 : 0), at = block->first - shard->first;
	int r;

	/* Together in one map: in one pass. */
	if (job->mapped && !shard->rank && n <= shard->n - at) {
		*ret_bad = widen_block(reader, block,
				       shard->map->address + shard->offset + at * tokens->width,
				       shard->swapped);
		return 0;
	}
	r = fill_stage(reader, block->first, n, job->mapped);
	if (!r)
		*ret_bad = widen_block(reader, block, reader->stage, false);
	return r;
}

static void take_blocks(struct job *job)
{
	bool bad = false;
	uint64_t i;

	for (i = 0; i < job->n; i++) {
		job->r = take_block(job, &job->blocks[i], &bad);
		if (bad && !job->r)
			job->narrow = &job->blocks[i];
		if (bad || job->r)
			return;
		if (unlikely(job->blocks[i].pad))
			pad_block(job->reader, &job->blocks[i]);
	}
}

/* ---- guarded ---- */

/* Explains a fault in a file, with its path; a file's end as read(2) would report it. */
static int explain_fault(const struct hm_tokens *tokens, const struct hm_guard *guard, int r)
{
	const struct token_shard *shard = tokens->shard, *end = shard + tokens->n_shard;

	while (shard < end && !(shard->map && guard->base == shard->map->address))
		shard++;
	/* The fault was at the tokens' destination. */
	if (shard == end)
		return r;
	if (guard->fault.cause != HM_FAULT_END)
		return err_prefix(r, "%s", shard->path);
	return err_set(-ENODATA,
		       "%s: the file ends before byte %" PRIu64
		       ": it was cut off while it was in use",
		       shard->path, guard->fault.offset);
}

/*
 * A function of its own, so that no variable changes between setjmp() and its second return.
 * False: no scope is possible here now.
 */
static __attribute__((noinline)) bool take_guarded(struct job *job)
{
	struct hm_guard guard;

	HM_GUARD_INIT(&guard);
	if (setjmp(guard.env)) {
		job->r = hm_guard_caught(&guard);
		job->r = explain_fault(job->reader->tokens, &guard, job->r);
		return true;
	}
	if (hm_guard_enter(&guard)) {
		err_clear();
		return false;
	}
	take_blocks(job);
	hm_guard_end(&guard);
	return true;
}

/* Is there a map of each touched file? */
static bool all_mapped(const struct token_reader *reader)
{
	uint32_t i;

	for (i = 0; i < reader->tokens->n_shard; i++)
		if (reader->touched[i] && !reader->tokens->shard[i].map)
			return false;
	return true;
}

static void find_touched(const struct token_reader *reader, const struct token_block *blocks,
			 uint64_t n)
{
	const struct hm_tokens *tokens = reader->tokens;
	uint64_t i, last;
	uint32_t s;

	memset(reader->touched, 0, tokens->n_shard);
	for (i = 0; i < n; i++) {
		last = blocks[i].first + blocks[i].n - (blocks[i].y ? 0 : 1);
		for (s = tokens_shard_of(tokens, blocks[i].first);
		     s < tokens->n_shard && tokens->shard[s].first <= last; s++)
			reader->touched[s] = tokens->shard[s].n != 0;
	}
}

/* ---- checks that the bytes were the files' ---- */

/* Checks that the shard's file still has all its tokens; bytes behind them do not matter. */
static int check_length(const struct hm_tokens *tokens, const struct token_shard *shard)
{
	struct segment_list *list = segments_get(shard->buffer);
	uint64_t end = shard->offset + shard->n * tokens->width;
	struct stat st;
	int r;

	r = sys_fstat(list->segment[0].fd, &st);
	segments_put(shard->buffer, list);
	if (r)
		return err_set(r, "%s: fstat: %s", shard->path, err_name(r));
	if ((uint64_t)st.st_size < end)
		return err_set(-ENODATA,
			       "%s: the file ends at byte %" PRIu64 ", before %" PRIu64
			       ": it was cut off while it was in use",
			       shard->path, (uint64_t)st.st_size, end);
	return 0;
}

/* Checks that no earlier fault of another thread has replaced lost bytes of the block. */
static int check_replaced(const struct hm_tokens *tokens, const struct token_block *block)
{
	uint64_t n = block->n + (block->y ? 1 : 0), first = block->first, now, from;
	const struct token_shard *shard;
	int r = 0;

	for (; n && !r; first += now, n -= now) {
		shard = tokens_shard_at(tokens, first, n, &now);
		from = shard->offset + (first - shard->first) * tokens->width;
		if (shard->rank)
			r = repair_check(shard->map, 0, shard->size, NULL);
		else
			r = repair_check(shard->map, from, now * tokens->width, NULL);
		if (r)
			err_prefix(r, "%s", shard->path);
	}
	return r;
}

static int check_bytes(const struct token_reader *reader, const struct token_block *blocks,
		       uint64_t n)
{
	const struct hm_tokens *tokens = reader->tokens;
	uint64_t i;
	int r = 0;

	for (i = 0; i < tokens->n_shard && !r; i++)
		if (reader->touched[i])
			r = check_length(tokens, &tokens->shard[i]);
	for (i = 0; i < n && !r && reader->mapped; i++)
		r = check_replaced(tokens, &blocks[i]);
	return r;
}

static bool fits_not(const struct token_reader *reader, const char *token)
{
	uint64_t one[1];

	return (reader->above[0] && reader->above[0](token, 1, reader->most)) ||
	       reader->widen[0](one, token, 1);
}

static int refuse_token(const struct token_reader *reader, const char *token, uint64_t number)
{
	bool above = reader->above[0] && reader->above[0](token, 1, reader->most);
	uint32_t dtype = reader->tokens->dtype;
	bool is_signed = dtype == HM_DTYPE_I8 || dtype == HM_DTYPE_I16 ||
			 dtype == HM_DTYPE_I32 || dtype == HM_DTYPE_I64;
	char value[24], why[64];
	uint64_t bits = 0;

	widen_find(is_signed ? HM_DTYPE_I64 : HM_DTYPE_U64, dtype, false)(&bits, token, 1);
	if (is_signed)
		snprintf(value, sizeof(value), "%" PRId64, (int64_t)bits);
	else
		snprintf(value, sizeof(value), "%" PRIu64, bits);
	if (above)
		snprintf(why, sizeof(why), "and the vocabulary has %" PRIu64,
			 reader->tokens->vocab);
	else
		snprintf(why, sizeof(why), "which %s can't hold", hm_dtype_name(reader->dtype));
	return err_set(above ? -EDOM : -EOVERFLOW, "token %" PRIu64 " is %s, %s", number, value,
		       why);
}

/* Finds the token that does not fit, in an existing block, by reading it again one at a time. */
static int refuse_narrow(struct token_reader *reader, const struct token_block *block)
{
	uint64_t n = block->n + (block->y ? 1 : 0), i;
	uint32_t width = reader->tokens->width;
	int r;

	r = fill_stage(reader, block->first, n, false);
	if (r)
		return r;
	for (i = 0; i < n && !fits_not(reader, reader->stage + i * width); i++)
		;
	if (i == n)
		return err_set(-EOVERFLOW,
			       "one of the %" PRIu64 " tokens from %" PRIu64 " on was too "
			       "large, and is not now: the file is being written",
			       n, block->first);
	return refuse_token(reader, reader->stage + i * width, block->first + i);
}

/* ---- the reader ---- */

int token_reader_init(struct token_reader *reader, struct hm_tokens *tokens, uint32_t dtype,
		      uint64_t room)
{
	const char *name = hm_dtype_name(dtype);
	char unknown[32];
	uint64_t bytes;

	if (!widen_find(dtype, tokens->dtype, false)) {
		snprintf(unknown, sizeof(unknown), "the unknown dtype %u", dtype);
		return err_set(-EOPNOTSUPP,
			       "tokens of %s can't be made %s: integers are made integers, "
			       "F16 and BF16 are made F32, and all are copied as they are",
			       hm_dtype_name(tokens->dtype), name ? name : unknown);
	}
	*reader = (struct token_reader){
		.tokens = tokens,
		.dtype = dtype,
		.widen = { widen_find(dtype, tokens->dtype, false),
			   widen_find(dtype, tokens->dtype, true) },
		.room = room,
	};
	if (tokens->vocab) {
		reader->above[0] =
			widen_find_above(tokens->dtype, false, tokens->vocab, &reader->most);
		reader->above[1] =
			widen_find_above(tokens->dtype, true, tokens->vocab, &reader->most);
	}
	reader->touched = sys_calloc(1, tokens->n_shard);
	if (!__builtin_mul_overflow(room, tokens->width, &bytes))
		reader->stage = sys_calloc(1, bytes);
	if (reader->touched && reader->stage)
		return 0;
	token_reader_end(reader);
	err_set(-ENOMEM, "no memory for a block of %" PRIu64 " tokens", room);
	return -ENOMEM;
}

void token_reader_end(struct token_reader *reader)
{
	free(reader->stage);
	free(reader->touched);
	reader->stage = NULL;
	reader->touched = NULL;
}

/* Reads take place in a scope, too, for faults at the tokens' destination. */
static void take(struct job *job)
{
	if (job->guarded && take_guarded(job))
		return;
	job->mapped = false;
	take_blocks(job);
}

/* Takes as many at a time as the budget has room for. */
static void take_within_budget(struct job *job)
{
	struct hm_tokens *tokens = job->reader->tokens;
	const struct token_block *end = job->blocks + job->n;
	bool mapped = false;

	while (job->blocks < end && !job->r && !job->narrow) {
		job->r = tokens_budget_admit(tokens, job->blocks, (uint64_t)(end - job->blocks),
					     &job->n);
		if (job->r)
			break;
		job->mapped = job->n;
		if (job->n) {
			take(job);
			tokens_budget_release(tokens);
		} else {
			job->n = 1;
			take(job);
		}
		mapped |= job->mapped;
		job->blocks += job->n;
	}
	job->mapped = mapped;
}

int tokens_take(struct token_reader *reader, const struct token_block *blocks, uint64_t n)
{
	struct job job = { .reader = reader, .blocks = blocks, .n = n };

	find_touched(reader, blocks, n);
	job.guarded = handler_flags() != HANDLER_NONE;
	job.mapped = job.guarded && all_mapped(reader);
	if (job.mapped && reader->tokens->budgeted)
		take_within_budget(&job);
	else
		take(&job);
	reader->mapped = job.mapped;
	if (!job.r)
		job.r = check_bytes(reader, blocks, n);
	if (!job.r && job.narrow)
		job.r = refuse_narrow(reader, job.narrow);
	return job.r;
}

/* ---- hm_tokens_read() ---- */

static int check_read(struct hm_tokens *tokens, uint64_t first, uint64_t n, uint32_t dtype,
		      const void *to)
{
	uint32_t width = hm_dtype_bits(dtype) / 8;
	int r;

	r = object_check(tokens ? &tokens->object : NULL, OBJECT_TOKENS);
	if (r)
		return r;
	if (!n || !to)
		return err_set(-EINVAL, "hm_tokens_read: %s", to ? "n is 0" : "to is NULL");
	if (first >= tokens->n || n > tokens->n - first)
		return err_set(-ERANGE,
			       "hm_tokens_read: %" PRIu64 " tokens from %" PRIu64
			       " on: there are %" PRIu64,
			       n, first, tokens->n);
	if (width && (uintptr_t)to % width)
		return err_set(-EINVAL,
			       "hm_tokens_read: %p is not a multiple of %u, as %s needs", to,
			       width, hm_dtype_name(dtype));
	return 0;
}

int hm_tokens_read(struct hm_tokens *tokens, uint64_t first, uint64_t n, uint32_t dtype,
		   void *to)
{
	struct token_reader reader;
	struct token_block block;
	uint64_t done;
	int r;

	err_begin();
	r = check_read(tokens, first, n, dtype, to);
	if (!r)
		r = token_reader_init(&reader, tokens, dtype, min_u64(n, READ_BLOCK));
	if (r)
		return r;
	for (done = 0; done < n && !r; done += block.n) {
		block = (struct token_block){
			.first = first + done,
			.n = min_u64(n - done, READ_BLOCK),
			.x = (char *)to + done * (hm_dtype_bits(dtype) / 8),
		};
		r = tokens_take(&reader, &block, 1);
	}
	token_reader_end(&reader);
	return r;
}
