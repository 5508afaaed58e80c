/* SPDX-License-Identifier: MIT */
/*
 * The choice: turns facts about a file and the caller's wishes into a policy, with its figures
 * and a sentence. Asks the kernel nothing, except for a limit that was in the way.
 */
#ifndef HETMAP_READER_CHOOSE_H
#define HETMAP_READER_CHOOSE_H

#include <stdbool.h>

#include <hetmap/reader.h>

#include "base/file_system.h"
#include "base/util.h"

#define RESIDENT_UNKNOWN UINT32_MAX

/* Facts. In bytes, except where a comment says otherwise. */
struct reader_facts {
	uint64_t size;       /* of the file */
	uint64_t length;     /* of the range */
	uint64_t ram;        /* that the process may use */
	uint64_t read_ahead; /* of the device; 0: not known */
	uint64_t announce;   /* bytes that one announcement starts to read */
	uint64_t direct;     /* unit of O_DIRECT's offsets, lengths, addresses; 0: none */
	uint32_t resident;   /* per cent of a sample; or RESIDENT_UNKNOWN */
	uint32_t fs_flags;   /* FS_* */
	const char *fs;      /* name of the file system */
	bool mappable;       /* MAP_SHARED, or MAP_PRIVATE */
	bool private_map;
	bool several; /* several files: none is mapped, or read asynchronously */
	bool guarded; /* the handler is installed: copies out of a map are safe */
	int uring;    /* 0: io_uring is available; or a negative errno */
	uint64_t page;
	uint64_t fault; /* the most that one fault maps; see facts_fault_most() */
};

/* Wishes: 0 means "choose". */
struct reader_wish {
	uint32_t pattern; /* enum hm_pattern */
	uint32_t policy;  /* enum hm_policy */
	uint64_t window;
	uint64_t budget;
};

#define WHY_MAX 640

struct reader_choice {
	uint32_t policy; /* never HM_POLICY_AUTO */
	uint32_t ahead;  /* windows begun before they are wanted; reads in flight */
	uint64_t window; /* whole pages */
	uint64_t budget;
	uint64_t read; /* length of one read, for URING and DIRECT */
	uint64_t unit; /* offsets, lengths and addresses of reads are multiples of it */
	bool mapped;   /* next() gives maps */
	bool begins;   /* next() also makes the kernel start reading later bytes */
	bool copied_from_map;
	char why[WHY_MAX];
};

/*
 * On failure, with a text, *ret_choice is untouched.
 * Errors:
 *   -EOPNOTSUPP the policy is not available
 *   -ENOBUFS the budget is too small
 *   -EMFILE, -ENOMEM and other errors of io_uring
 */
int reader_choose(const struct reader_facts *facts, const struct reader_wish *wish,
		  struct reader_choice *ret_choice);

/* Memory for reads of @bytes in all, which begins at a multiple of the unit, too. */
static inline uint64_t reader_read_memory(const struct reader_choice *choice, uint64_t bytes,
					  uint64_t page)
{
	return bytes + (choice->unit > page ? choice->unit - page : 0);
}

/* Memory for @bytes of a mapped file when all of them are touched, tables included. */
uint64_t reader_mapped_cost(uint64_t bytes, uint64_t page);

/*
 * Memory of the account for a file of @size bytes: a bit for each block of @fault bytes, and for
 * each table.
 */
static inline uint64_t reader_account_bytes(uint64_t size, uint64_t fault)
{
	return (size / fault / 64 + size / MIB(2) / 64 + size / GIB(1) / 64 + 6) *
	       sizeof(uint64_t);
}

/*
 * The least budget for a map of the whole file: the cost of all of it; or that of the account,
 * and of the parts that a piece of @fault bytes may touch.
 */
uint64_t reader_account_least(uint64_t size, uint64_t page, uint64_t fault);

/*
 * The budget from which on such a map pays: giving back goes through the whole map, and each
 * piece until then bears its share.
 */
uint64_t reader_account_worth(uint64_t size, uint64_t page, uint64_t fault);

#endif
