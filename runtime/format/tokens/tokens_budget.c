// SPDX-License-Identifier: MIT
/*
 * Tokens of files that are larger than the memory for them: touched parts of a file's map, page
 * tables included, are counted in advance (reader/account.h); when they reach the file's part of
 * the budget, all of it is given back.
 */
#include <inttypes.h>
#include <sys/mman.h>

#include "../../reader/choose.h"
#include "../../reader/facts.h"
#include "core/segments.h"
#include "base/sys.h"
#include "format/tokens/tokens.h"

/* Is there no need to count? */
static bool fits_whole(const struct token_shard *shard, uint64_t part)
{
	return reader_mapped_cost(shard->size, page_size()) <= part;
}

static void drop_map(struct token_shard *shard)
{
	hm_map_unref(shard->map);
	shard->map = NULL;
	shard->no_map = NO_MAP_ROOM;
}

/*
 * A budget that no map fits into leaves the file to pread(2). A budget for less than a whole
 * file does the same in Fortran's order, where each row is spread over the file.
 */
static int begin_shard(struct token_shard *shard, uint64_t part, bool enough)
{
	if (!enough || (shard->rank && !fits_whole(shard, part)) ||
	    part < reader_account_worth(shard->size, page_size(), shard->fault)) {
		drop_map(shard);
		return 0;
	}
	return account_begin(&shard->account, shard->map->address, shard->size, part,
			     page_size(), shard->fault);
}

static uint64_t least_of(const struct token_shard *shard)
{
	return reader_account_least(shard->size, page_size(), shard->fault);
}

/* The least cost of all files. */
static uint64_t find_least(struct hm_tokens *tokens)
{
	struct segment_list *list;
	struct token_shard *shard;
	uint64_t least = 0;
	uint32_t i;

	for (i = 0; i < tokens->n_shard; i++) {
		shard = &tokens->shard[i];
		if (!shard->map)
			continue;
		list = segments_get(shard->buffer);
		shard->fault = facts_fault_most(list->segment[0].fd);
		segments_put(shard->buffer, list);
		least += least_of(shard);
	}
	return least;
}

int tokens_budget_begin(struct hm_tokens *tokens, uint64_t budget)
{
	uint64_t cost = 0, bytes = 0, least, i;
	unsigned __int128 more;
	struct token_shard *shard;
	int r = 0;

	for (i = 0; i < tokens->n_shard; i++) {
		if (!tokens->shard[i].map)
			continue;
		cost += reader_mapped_cost(tokens->shard[i].size, page_size());
		bytes += tokens->shard[i].size;
	}
	tokens->budget = budget ? budget : facts_ram() / 4;
	if (cost <= tokens->budget)
		return 0;
	least = find_least(tokens);
	if (!budget)
		tokens->budget = max_u64(tokens->budget, least);
	more = tokens->budget > least ? tokens->budget - least : 0;
	tokens->budgeted = true;
	for (i = 0; i < tokens->n_shard && !r; i++) {
		shard = &tokens->shard[i];
		if (shard->map)
			r = begin_shard(
				shard, least_of(shard) + (uint64_t)(more * shard->size / bytes),
				tokens->budget >= least);
	}
	return r;
}

void tokens_budget_end(struct hm_tokens *tokens)
{
	uint32_t i;

	for (i = 0; i < tokens->n_shard; i++)
		account_end(&tokens->shard[i].account);
}

/* ---- blocks ---- */

struct piece {
	struct token_shard *shard;
	uint64_t offset, bytes;
};

/*
 * The part of the @n tokens from @first on that is in one shard; they must exist. Returns their
 * number.
 */
static uint64_t piece_at(struct hm_tokens *tokens, uint64_t first, uint64_t n,
			 struct piece *piece)
{
	uint64_t now;

	piece->shard = &tokens->shard[tokens_shard_of(tokens, first)];
	now = min_u64(n, piece->shard->first + piece->shard->n - first);
	piece->offset = piece->shard->offset + (first - piece->shard->first) * tokens->width;
	piece->bytes = now * tokens->width;
	return now;
}

/* Counts the block's pieces until one finds no room, and sets @ret_full for it. */
static bool count_block(struct hm_tokens *tokens, const struct token_block *block,
			struct token_shard **ret_full)
{
	uint64_t first = block->first, n = block->n + (block->y ? 1 : 0), now;
	struct piece piece;

	for (; n; first += now, n -= now) {
		now = piece_at(tokens, first, n, &piece);
		if (!account_add(&piece.shard->account, piece.offset, piece.bytes)) {
			*ret_full = piece.shard;
			return false;
		}
	}
	return true;
}

/* Returns how many of the blocks, from the first on, find room. */
static uint64_t count_blocks(struct hm_tokens *tokens, const struct token_block *blocks,
			     uint64_t n, struct token_shard **ret_full)
{
	uint64_t i;

	pthread_mutex_lock(&tokens->counting);
	for (i = 0; i < n && count_block(tokens, &blocks[i], ret_full); i++)
		;
	pthread_mutex_unlock(&tokens->counting);
	return i;
}

/* Does the block find room when nothing else is touched? */
static bool fits(struct hm_tokens *tokens, const struct token_block *block)
{
	uint64_t first = block->first, n = block->n + (block->y ? 1 : 0), now;
	struct piece piece;

	for (; n; first += now, n -= now) {
		now = piece_at(tokens, first, n, &piece);
		if (piece.bytes > piece.shard->account.most)
			return false;
	}
	return true;
}

/*
 * Restarts all counts: no thread has counted bytes that it is about to touch. 0, or a negative
 * errno if that is not possible now. Another thread may have done it in the meantime.
 */
static int give_back(struct hm_tokens *tokens, const struct token_block *block)
{
	struct token_shard *full = NULL;
	int r = 0;

	pthread_rwlock_wrlock(&tokens->touching);
	while (!r && !count_blocks(tokens, block, 1, &full))
		r = account_give_back(&full->account, full->map, false, MADV_NORMAL);
	pthread_rwlock_unlock(&tokens->touching);
	return r;
}

int tokens_budget_admit(struct hm_tokens *tokens, const struct token_block *blocks, uint64_t n,
			uint64_t *ret_n)
{
	struct token_shard *full;
	int r;

	do {
		pthread_rwlock_rdlock(&tokens->touching);
		*ret_n = count_blocks(tokens, blocks, n, &full);
		if (*ret_n)
			return 0;
		pthread_rwlock_unlock(&tokens->touching);
		if (!fits(tokens, blocks))
			return 0;
		r = give_back(tokens, blocks);
	} while (!r);
	/* The maps are in use elsewhere, or there is no room for new ones: the block is read. */
	if (r != -EBUSY && r != -ENOMEM && r != -EAGAIN)
		return r;
	err_clear();
	return 0;
}

void tokens_budget_release(struct hm_tokens *tokens)
{
	pthread_rwlock_unlock(&tokens->touching);
}
