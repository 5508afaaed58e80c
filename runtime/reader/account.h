/* SPDX-License-Identifier: MIT */
/*
 * What of a file's whole map was touched, in blocks that one fault may map
 * (facts_fault_most()), and what that costs, page tables included: an upper bound, without
 * asking the kernel. When it reaches the budget, all of it is given back.
 */
#ifndef HETMAP_READER_ACCOUNT_H
#define HETMAP_READER_ACCOUNT_H

#include "core/core.h"

struct account {
	bool unlimited; /* all of the file is within the budget */
	uint64_t budget;
	uint64_t least; /* with nothing touched: the account itself */
	uint64_t cost;  /* with what is touched now */
	uint64_t most;  /* bytes of one piece that fit for certain */
	uint64_t page, fault;
	uint64_t in_table, in_upper; /* what a page table maps, and one that maps tables */
	uint64_t base;               /* of the map's first byte, in what the latter maps */
	uint64_t n_block, n_table, n_upper;
	uint64_t *block; /* a bit each */
	uint64_t *table;
	uint64_t *upper; /* tables of tables */
};

/*
 * Of a map of all of a file of @size bytes at @address. -ENOMEM. Of an empty file it is empty.
 * @budget is reader_account_least() at least.
 */
int account_begin(struct account *account, const void *address, uint64_t size, uint64_t budget,
		  uint64_t page, uint64_t fault);
void account_end(struct account *account);

/* False: with these bytes, at most account->most of them, it would be over the budget. */
bool account_add(struct account *account, uint64_t offset, uint64_t bytes);

/*
 * All pages of @whole, and its page tables, are given back; the address stays, and @advice is
 * given again (MADV_*). What was read is in the page cache still. An error leaves the map as it
 * was, or lost. -EBUSY, without a text: others have narrowed or locked it, or use it, which
 * they would lose; or change it now, which is not waited for unless @wait says so.
 */
int account_give_back(struct account *account, struct hm_map *whole, bool wait, int advice);

#endif
