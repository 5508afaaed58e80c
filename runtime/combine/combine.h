/* SPDX-License-Identifier: MIT */
/*
 * A combine's table of lines.
 *
 * Entries are dense: line, mask and bytes of entry i are at index i, in the order in which they
 * came. slot[] finds them by open addressing. Entries leave all together, so no slot is ever
 * freed by itself.
 */
#ifndef HETMAP_COMBINE_INTERNAL_H
#define HETMAP_COMBINE_INTERNAL_H

#include <pthread.h>
#include <stdint.h>
#include <urcu/list.h>

#include <hetmap/combine.h>

#include "base/object.h"
#include "copy/copy.h"

#define COMBINE_LINES_USUAL 1024u
#define COMBINE_ENTRY_BITS 20 /* in a word of order[], below the line's number */
#define COMBINE_LINES_MOST (1u << COMBINE_ENTRY_BITS)
#define COMBINE_WHOLE UINT64_MAX /* mask of a line with all of its bytes */

struct line_bytes {
	char byte[COPY_LINE];
} __attribute__((aligned(COPY_LINE)));

struct hm_combine {
	struct hm_object object;
	struct hm_map *map;        /* holds a ref */
	struct cds_list_head link; /* map->combines; map->lock */
	/* Taken before the locks of a copy; protects all below. */
	pthread_mutex_t lock;
	uint32_t lines, n;        /* at most, now */
	unsigned int shift;       /* of a hash, to an index of slot[] */
	uint64_t *line;           /* number in the map */
	uint64_t *mask;           /* bit i: byte i is there */
	struct line_bytes *bytes; /* in @memory */
	uint32_t *slot;           /* entry + 1; 0: free */
	uint64_t *order;          /* line << COMBINE_ENTRY_BITS | entry, while written out */
	void *memory;
	struct hm_combine_info counts;
};

/* ---- table.c ---- */

/* -ENOMEM, with a text. Ended by table_end(). */
int table_init(struct hm_combine *combine, uint32_t lines);
void table_end(struct hm_combine *combine);
/* The entry of @line, a new one perhaps; UINT32_MAX: there is no room. */
uint32_t table_entry(struct hm_combine *combine, uint64_t line);
/* Forgets the entries without bytes. */
void table_compact(struct hm_combine *combine);
void table_empty(struct hm_combine *combine);

/* ---- flush.c ---- */

/*
 * hm_combine_flush() without its door. Caller holds combine->lock, and passes the result to
 * device_loss_notice() without it.
 */
int combine_flush_locked(struct hm_combine *combine, struct hm_fault *ret_fault);
/* Stores that bytes [from, to) of a line take by themselves. */
uint32_t combine_stores(uint32_t from, uint32_t to);

/* ---- combine.c ---- */

/* hm_map.write_out: the caller reports a loss. */
int combine_write_out(struct hm_map *map);

#endif
