/* SPDX-License-Identifier: MIT */
/*
 * Account of the touched parts of a file's whole map, in blocks that one fault may map
 * (facts_fault_most()), and of their cost, page tables included: an upper bound, without asking
 * the kernel. When the cost reaches the budget, all of it is given back.
 */
#ifndef HETMAP_READER_ACCOUNT_H
#define HETMAP_READER_ACCOUNT_H

#include "core/core.h"

struct account {
	bool unlimited; /* all of the file is within the budget */
	uint64_t budget;
	uint64_t least; /* with nothing touched: the account itself */
	uint64_t cost;  /* with everything touched now */
	uint64_t most;  /* bytes of one piece that fit for certain */
	uint64_t page, fault;
	uint64_t in_table, in_upper; /* ranges of a page table, and of a table of tables */
	uint64_t base;               /* of the map's first byte, in the latter's range */
	uint64_t n_block, n_table, n_upper;
	uint64_t *block; /* a bit for each */
	uint64_t *table;
	uint64_t *upper; /* tables of tables */
};

/*
 * Begins an account of a map of all of a file of @size bytes at @address; empty for an empty
 * file. @budget must be reader_account_least() at least. -ENOMEM.
 */
int account_begin(struct account *account, const void *address, uint64_t size, uint64_t budget,
		  uint64_t page, uint64_t fault);
void account_end(struct account *account);

/* False: with these bytes, at most account->most of them, the cost would exceed the budget. */
bool account_add(struct account *account, uint64_t offset, uint64_t bytes);

/*
 * Gives back all pages of @whole, and its page tables; the address stays, and @advice (MADV_*)
 * is given again. Bytes that were read stay in the page cache. An error leaves the map as it
 * was, or lost. -EBUSY, without a text: other users have narrowed or locked it, or have uses or
 * views of it, which they would lose; or a thread is changing it now, which the function waits for
 * only if @wait is set.
 */
int account_give_back(struct account *account, struct hm_map *whole, bool wait, int advice);

#endif
