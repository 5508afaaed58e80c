// SPDX-License-Identifier: MIT
/* Accounts for the touched parts of a file's whole map, and their cost. */
#include "reader/account.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "reader/choose.h"
#include "map/map.h"
#include "map/remap.h"
#include "fault/repair.h"
#include "base/reserve.h"
#include "map/resident.h"
#include "core/segments.h"
#include "base/sys.h"

/* Index of the block, table or table of tables, each of @unit bytes, with byte @offset. */
static uint64_t unit_of(const struct account *account, uint64_t offset, uint64_t unit)
{
	return (account->base + offset) / unit - account->base / unit;
}

int account_begin(struct account *account, const void *address, uint64_t size, uint64_t budget,
		  uint64_t page, uint64_t fault)
{
	uint64_t fan = page / sizeof(uint64_t), rest;

	*account = (struct account){
		.budget = budget,
		.page = page,
		.fault = fault,
		.in_table = fan * page,
		.in_upper = fan * fan * page,
	};
	if (budget >= reader_mapped_cost(size, page)) {
		account->unlimited = true;
		account->cost = reader_mapped_cost(size, page);
		account->most = size;
		return 0;
	}
	account->base = (uintptr_t)address % account->in_upper;
	account->n_block = unit_of(account, size, fault) + 1;
	account->n_table = unit_of(account, size, account->in_table) + 1;
	account->n_upper = unit_of(account, size, account->in_upper) + 1;
	account->block = sys_calloc(account->n_block / 64 + 1, sizeof(uint64_t));
	account->table = sys_calloc(account->n_table / 64 + 1, sizeof(uint64_t));
	account->upper = sys_calloc(account->n_upper / 64 + 1, sizeof(uint64_t));
	if (!account->block || !account->table || !account->upper) {
		account_end(account);
		return err_set(-ENOMEM, "no memory for the account of touched pages");
	}
	/* The page tables above the counted ones, at both ends. */
	account->least = reader_account_bytes(size, fault) + 4 * page;
	account->cost = account->least;
	/*
	 * A piece may begin and end inside a block, and inside the range of a table, or of a
	 * table of tables.
	 */
	rest = budget - account->least - fault - 4 * page;
	account->most = round_down(rest - rest / account->in_table * page, fault);
	return 0;
}

void account_end(struct account *account)
{
	free(account->block);
	free(account->table);
	free(account->upper);
	*account = (struct account){ 0 };
}

static bool is_set(const uint64_t *bits, uint64_t i)
{
	return bits[i / 64] >> (i % 64) & 1;
}

/* Counts the units of @unit bytes with some of [@offset, @last] that are not set. */
static uint64_t count_clear(const struct account *account, const uint64_t *bits, uint64_t unit,
			    uint64_t offset, uint64_t last)
{
	uint64_t i, end = unit_of(account, last, unit), n = 0;

	for (i = unit_of(account, offset, unit); i <= end; i++)
		n += !is_set(bits, i);
	return n;
}

static void set(const struct account *account, uint64_t *bits, uint64_t unit, uint64_t offset,
		uint64_t last)
{
	uint64_t i, end = unit_of(account, last, unit);

	for (i = unit_of(account, offset, unit); i <= end; i++)
		bits[i / 64] |= 1ull << (i % 64);
}

bool account_add(struct account *account, uint64_t offset, uint64_t bytes)
{
	uint64_t last = offset + bytes - 1, cost;

	if (likely(account->unlimited) || !bytes)
		return true;
	cost = count_clear(account, account->block, account->fault, offset, last) *
		       account->fault +
	       (count_clear(account, account->table, account->in_table, offset, last) +
		count_clear(account, account->upper, account->in_upper, offset, last)) *
		       account->page;
	if (account->cost + cost > account->budget)
		return false;
	account->cost += cost;
	set(account, account->block, account->fault, offset, last);
	set(account, account->table, account->in_table, offset, last);
	set(account, account->upper, account->in_upper, offset, last);
	return true;
}

/*
 * Maps anew, instead of MADV_DONTNEED, which keeps the tables: elsewhere first, where a failure
 * does no harm, then moves. Bytes that a fault replaced before stay marked as replaced.
 */
static int map_anew(struct hm_map *map, int advice)
{
	struct segment_list *list = segments_get(map->buffer);
	void *fresh;
	int r;

	r = map_direct(&list->segment[0], map->offset, map->span, NULL, 0,
		       prot_of_access(map->access), &fresh);
	if (r) {
		r = err_set(r, "mapping %s anew: %s", map->buffer->name, err_name(r));
		goto out;
	}
	/* The caller knows the advice that the old map had. */
	if (advice != MADV_NORMAL)
		sys_madvise(fresh, map->span, advice);
	repair_claim(map, 0, map->span);
	r = reserve_move(fresh, map->span, map->span, map->address);
	repair_release(map);
	if (r) {
		sys_munmap(fresh, map->span);
		r = err_set(r, "moving a fresh map of %s over the one before: %s",
			    map->buffer->name, err_name(r));
	}
out:
	segments_put(map->buffer, list);
	return r;
}

/*
 * Does the map have uses, views, narrowed rights or locks, which it would lose with its pages?
 * The caller holds the map's change.
 */
static bool is_others(struct hm_map *map)
{
	bool used;

	pthread_mutex_lock(&map->lock);
	used = map->n_use || map->n_view;
	pthread_mutex_unlock(&map->lock);
	return used || map->narrowed || resident_locked_in(map, 0, map->span);
}

int account_give_back(struct account *account, struct hm_map *whole, bool wait, int advice)
{
	int r;

	/*
	 * A thread that holds the map's change may be in a callback, and wait for locks of the
	 * caller.
	 */
	r = wait ? remap_lock(whole) : remap_trylock(whole);
	if (r)
		return r;
	r = is_others(whole) ? -EBUSY : map_anew(whole, advice);
	remap_unlock(whole);
	if (r)
		return r;
	account->cost = account->least;
	memset(account->block, 0, (account->n_block / 64 + 1) * sizeof(uint64_t));
	memset(account->table, 0, (account->n_table / 64 + 1) * sizeof(uint64_t));
	memset(account->upper, 0, (account->n_upper / 64 + 1) * sizeof(uint64_t));
	return 0;
}
