/* SPDX-License-Identifier: MIT */
/* A load: the pieces, their places, their order, and the steps that copy them. */
#ifndef HETMAP_FORMAT_LOAD_H
#define HETMAP_FORMAT_LOAD_H

#include <hetmap/load.h>

#include "format/pieces/pieces.h"

/* Value of hm_load.place: the piece is not loaded. */
#define LOAD_NOWHERE UINT64_MAX

struct hm_load {
	struct hm_object object;
	struct hm_pieces *pieces; /* holds a ref */
	struct hm_map *map;       /* of the whole buffer; holds a ref */
	uint32_t n;               /* pieces to load */
	uint32_t *order;          /* n of them: indexes of hm_pieces.piece */
	uint64_t *place;          /* of all pieces, in the map; or LOAD_NOWHERE */
	struct hm_load_info info; /* the choices, and their cost */
};

/* The @position-th piece in the order of loading. */
static inline const struct piece *load_at(const struct hm_load *load, uint32_t position)
{
	return &load->pieces->piece[load->order[position]];
}

/*
 * A step: bytes that are together in a file, of one piece or of several. The pieces lie in the
 * buffer one behind another, sometimes with room between them.
 */
struct load_step {
	uint32_t file;
	uint32_t first;  /* position of its first piece, ... */
	uint64_t from;   /* ... and the byte of that piece that it begins with */
	uint64_t offset; /* in the file */
	uint64_t bytes;
	uint32_t end;  /* position: the pieces before are complete with it */
	bool resident; /* all of it is in RAM */
	bool done;
};

/* ---- load_plan.c ---- */

/*
 * Chooses the pieces, their places and the steps. Sets load's order and place, and pieces,
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
	       struct load_step *ret_step);

/* ---- load_step.c ---- */

/* Starts reading the step from storage, unless it is all in RAM. Returns its bytes in RAM. */
uint64_t load_announce(const struct hm_load *load, struct load_step *step,
		       unsigned char *vector);
/* Bytes of the vector for load_announce(). */
uint64_t load_vector(const struct hm_load *load);

/* Waits until the step is in RAM; load_copy() will report errors. */
void load_fetch(const struct hm_load *load, const struct load_step *step);

/* Copies the step to its place. */
int load_copy(const struct hm_load *load, const struct load_step *step);

/* -ENODEV: bytes put there are lost. @generation: the map's, before. */
int load_check(const struct hm_load *load, uint32_t generation);

/* ---- load_stages.c ---- */

/* Runs all steps, on threads, and the caller's functions on this one. */
int load_run(struct hm_load *load, const struct hm_load_desc *desc);

#endif
