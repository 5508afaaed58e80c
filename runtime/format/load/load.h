/* SPDX-License-Identifier: MIT */
/* A load: the tensors, their places, their order, and the steps that copy them. */
#ifndef HETMAP_FORMAT_LOAD_H
#define HETMAP_FORMAT_LOAD_H

#include <hetmap/load.h>

#include "format/safetensors/safetensors.h"

/* Value of hm_load.place: the tensor is not loaded. */
#define LOAD_NOWHERE UINT64_MAX

struct hm_load {
	struct hm_object object;
	struct hm_safetensors *safetensors; /* holds a ref */
	struct hm_map *map;                 /* of the whole buffer; holds a ref */
	uint32_t n;                         /* tensors to load */
	uint32_t *order;                    /* n of them: indexes of hm_safetensors.tensor */
	uint64_t *place;          /* of all tensors of the model, in the map; or LOAD_NOWHERE */
	struct hm_load_info info; /* the choices, and their cost */
};

/* The @position-th tensor in the order of loading. */
static inline const struct tensor *load_at(const struct hm_load *load, uint32_t position)
{
	return &load->safetensors->tensor[load->order[position]];
}

/*
 * A step: bytes that are together in a file, of one tensor or of several. The tensors lie in the
 * buffer one behind another, sometimes with room between them.
 */
struct load_piece {
	uint32_t shard;
	uint32_t first;  /* position of its first tensor, ... */
	uint64_t from;   /* ... and the byte of that tensor that it begins with */
	uint64_t offset; /* in the file */
	uint64_t bytes;
	uint32_t end;  /* position: the tensors before are complete with it */
	bool resident; /* all of it is in RAM */
	bool done;
};

/* ---- load_plan.c ---- */

/*
 * Chooses the tensors, their places and the steps. Sets load's order and place, and tensors,
 * bytes, buffer, alignment, window and step of its info.
 */
int load_plan(struct hm_load *load, const struct hm_load_desc *desc);

/* Progress of the steps. */
struct load_cursor {
	uint32_t position;
	uint64_t from;
};

/* Returns the next step; false: there is none. */
bool load_next(const struct hm_load *load, struct load_cursor *cursor,
	       struct load_piece *ret_piece);

/* ---- load_step.c ---- */

/* Starts reading the step from storage, unless it is all in RAM. Returns its bytes in RAM. */
uint64_t load_announce(const struct hm_load *load, struct load_piece *piece,
		       unsigned char *vector);
/* Bytes of the vector for load_announce(). */
uint64_t load_vector(const struct hm_load *load);

/* Waits until the step is in RAM; load_copy() will report errors. */
void load_fetch(const struct hm_load *load, const struct load_piece *piece);

/* Copies the step to its place. */
int load_copy(const struct hm_load *load, const struct load_piece *piece);

/* -ENODEV: bytes put there are lost. @generation: the map's, before. */
int load_check(const struct hm_load *load, uint32_t generation);

/* ---- load_stages.c ---- */

/* Runs all steps, on threads, and the caller's functions on this one. */
int load_run(struct hm_load *load, const struct hm_load_desc *desc);

#endif
