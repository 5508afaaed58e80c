/* SPDX-License-Identifier: MIT */
/*
 * Keys: the groups of rows, numbered in the order in which their keys came. A key is a number, a
 * text, or missing.
 */
#ifndef HETMAP_TABLE_KEYS_H
#define HETMAP_TABLE_KEYS_H

#include <hetmap/table.h>

#include "arena.h"
#include "sum.h"
#include "types.h"

/* Most groups; more are -E2BIG. */
#define GROUPS_MOST (1u << 16)
/* Numbers in so short a range need no numbers of groups made of them. */
#define SPAN_DIRECT 4096

/* A set of keys. */
struct key_set {
	struct key {
		char *bytes; /* of a text, with a 0 behind; or of an int64_t */
		uint32_t length;
		uint32_t group;
		uint64_t hash;
	} * key; /* in the order of their groups */
	uint32_t n, room;
	uint32_t *slot; /* of n_slot: number of the key + 1, or 0 */
	uint32_t n_slot;
};

struct keys {
	struct key_set set;
	struct column_type type;
	enum sum_type index; /* of dictionaries */
	struct arena *arena; /* of the memory that bindings take */
	int64_t base;        /* of direct keys, which are the first of the set */
	uint64_t span;       /* 0: not direct */
};

/* Adds the key, or finds it. -E2BIG: there are too many. -ENOMEM. */
int key_set_add(struct key_set *set, const void *bytes, uint32_t length, uint32_t *ret_group);
/* -ENOENT. */
int key_set_find(const struct key_set *set, const void *bytes, uint32_t length,
		 uint32_t *ret_group);
void key_set_end(struct key_set *set);

/* The text of element @i of an array, which is not missing. */
const char *key_text(enum text_layout layout, const struct ArrowArray *array, uint64_t i,
		     uint32_t *ret_length);
/*
 * Are elements @from to @from + @n of an array within its bytes? The library checks the outer
 * offsets of arrays, and this function those between, or views. -EBADMSG: no.
 */
int key_texts_check(enum text_layout layout, const struct ArrowArray *array, uint64_t from,
		    uint64_t n);
/* Is element @i of an array there? */
bool key_is_there(const struct ArrowArray *array, uint64_t i);
/* Number @i of an array of integers, bools or times. */
int64_t key_number(enum sum_type type, const void *values, uint64_t i);

/*
 * Numbers from @least to @most are the keys; at most SPAN_DIRECT of them. Must come before all
 * bindings. -ENOMEM.
 */
int keys_direct(struct keys *keys, int64_t least, int64_t most);

/*
 * Binds the rows of a chunk, beginning with its offset. -E2BIG: too many groups. -ENOMEM, and
 * errors of hm_alloc(). Memory of the arena must live as long as the binding.
 */
int keys_bind(struct keys *keys, const struct hm_table_chunk *chunk, struct sum_keys *ret_keys);

/* The key of a group as people read it: free() it. */
char *key_shown(const struct keys *keys, uint32_t group, bool json);
/* Numbers of all groups, in the order of their keys: n of them; free() it. NULL: no memory. */
uint32_t *keys_sorted(const struct keys *keys);

#endif
