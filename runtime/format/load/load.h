/* SPDX-License-Identifier: MIT */
/* A load: what goes where, in what order, and how it gets there. */
#ifndef HETMAP_FORMAT_LOAD_H
#define HETMAP_FORMAT_LOAD_H

#include <hetmap/load.h>

#include "format/safetensors/safetensors.h"

/* Of hm_load.place: it is not loaded. */
#define LOAD_NOWHERE UINT64_MAX

struct hm_load {
	struct hm_object object;
	struct hm_safetensors *safetensors; /* holds a ref */
	struct hm_map *map;                 /* of the whole buffer; holds a ref */
	uint32_t n;                         /* tensors to load */
	uint32_t *order;                    /* n of them: of hm_safetensors.tensor */
	uint64_t *place;          /* of all tensors there are, in the map; or LOAD_NOWHERE */
	struct hm_load_info info; /* what was chosen, and what it cost */
};

/* The @position-th in the order of loading. */
static inline const struct tensor *load_at(const struct hm_load *load, uint32_t position)
{
	return &load->safetensors->tensor[load->order[position]];
}

/*
 * A step: bytes that are together in a file, of one tensor or of several, which lie in the
 * buffer one behind another, but not always without room between them.
 */
struct load_piece {
	uint32_t shard;
	uint32_t first;  /* position of its first tensor, */
	uint64_t from;   /* and which byte of that it begins with */
	uint64_t offset; /* in the file */
	uint64_t bytes;
	uint32_t end;  /* position: the tensors before are complete with it */
	bool resident; /* all of it is in RAM */
	bool done;
};

/* ---- load_plan.c ---- */

/*
 * What is to be loaded, where each goes, and in which steps: load's order and place, and of
 * its info tensors, bytes, buffer, alignment, window and step.
 */
int load_plan(struct hm_load *load, const struct hm_load_desc *desc);

/* How far the steps have come. */
struct load_cursor {
	uint32_t position;
	uint64_t from;
};

/* The next one; false: there is none. */
bool load_next(const struct hm_load *load, struct load_cursor *cursor,
	       struct load_piece *ret_piece);

/* ---- load_step.c ---- */

/* Has the storage begin with it, where it is not all in RAM. Returns the bytes that are. */
uint64_t load_announce(const struct hm_load *load, struct load_piece *piece,
		       unsigned char *vector);
/* Bytes of the vector that load_announce() needs. */
uint64_t load_vector(const struct hm_load *load);

/* Waits until it is in RAM; what fails is for load_copy() to tell. */
void load_fetch(const struct hm_load *load, const struct load_piece *piece);

/* Puts it where it belongs. */
int load_copy(const struct hm_load *load, const struct load_piece *piece);

/* -ENODEV: what was put there is lost. @generation: the map's, before. */
int load_check(const struct hm_load *load, uint32_t generation);

/* ---- load_stages.c ---- */

/* All steps, by threads, and the caller's functions on this one. */
int load_run(struct hm_load *load, const struct hm_load_desc *desc);

#endif
