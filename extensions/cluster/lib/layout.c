// SPDX-License-Identifier: MIT
/* Arrays: who owns which rows, and ranges as runs of bytes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster.h"

#define ELEMENT_MOST 4096
#define BYTES_MOST (1ull << 47)

static const char *const distributions[] = {
	[HM_ARRAY_BLOCK] = "block",
	[HM_ARRAY_CYCLIC] = "cyclic",
	[HM_ARRAY_BY_HAND] = "by hand",
};

static int take_shape(struct layout *layout, const struct hm_array_desc *desc)
{
	uint64_t bytes = desc->element;
	uint32_t i;

	if (!desc->dimensions || desc->dimensions > HM_ARRAY_DIMENSIONS)
		return hm_error_set(-EINVAL, "an array of %u dimensions: it has 1 to %d",
				    desc->dimensions, HM_ARRAY_DIMENSIONS);
	if (!desc->element || desc->element > ELEMENT_MOST)
		return hm_error_set(-EINVAL, "elements of %u bytes: they have 1 to %d",
				    desc->element, ELEMENT_MOST);
	layout->dimensions = desc->dimensions;
	layout->element = desc->element;
	for (i = desc->dimensions; i-- > 0;) {
		if (!desc->shape[i])
			return hm_error_set(-EINVAL, "shape[%u] of an array is 0", i);
		layout->shape[i] = desc->shape[i];
		if (!i)
			layout->row_bytes = bytes;
		if (__builtin_mul_overflow(bytes, desc->shape[i], &bytes) || bytes > BYTES_MOST)
			return hm_error_set(
				-EOVERFLOW,
				"an array has at most 2^47 bytes, and shape[%u] %llu "
				"makes it larger",
				i, (unsigned long long)desc->shape[i]);
	}
	layout->bytes = bytes;
	return 0;
}

static int make_room(struct layout *layout, uint64_t n)
{
	if (n > HM_ARRAY_PARTS_MOST)
		return hm_error_set(
			-E2BIG,
			"%llu parts: an array has at most %u; give hm_array_desc.chunk "
			"more rows",
			(unsigned long long)n, HM_ARRAY_PARTS_MOST);
	layout->parts = calloc(n, sizeof(*layout->parts));
	if (!layout->parts)
		return hm_error_set(-ENOMEM, "no memory for %llu parts of an array",
				    (unsigned long long)n);
	return 0;
}

static void add(struct layout *layout, uint64_t row, uint64_t end, uint32_t rank)
{
	struct hm_array_part *part = &layout->parts[layout->n_parts];

	if (row >= end)
		return;
	part->row = row;
	part->rows = end - row;
	part->rank = rank;
	layout->n_parts++;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* @n of @total for each @rank, the first ones. No product overflows: both are below 2^47. */
static uint64_t share(uint64_t total, uint32_t rank, uint32_t ranks)
{
	uint64_t each = total / ranks, more = total % ranks;

	return each * rank + least(rank, more);
}

static int make_block(struct layout *layout, uint64_t chunk, uint32_t ranks)
{
	uint64_t rows = layout->shape[0];
	uint64_t chunks = rows / chunk + !!(rows % chunk);
	uint32_t rank;
	int r = make_room(layout, ranks);

	if (r)
		return r;
	for (rank = 0; rank < ranks; rank++)
		add(layout, share(chunks, rank, ranks) * chunk,
		    least(share(chunks, rank + 1, ranks) * chunk, rows), rank);
	return 0;
}

static int make_cyclic(struct layout *layout, uint64_t chunk, uint32_t ranks)
{
	uint64_t rows = layout->shape[0];
	uint64_t chunks = rows / chunk + !!(rows % chunk);
	uint64_t i;
	int r = make_room(layout, chunks);

	if (r)
		return r;
	for (i = 0; i < chunks; i++)
		add(layout, i * chunk, least((i + 1) * chunk, rows), (uint32_t)(i % ranks));
	return 0;
}

static int make_by_hand(struct layout *layout, const struct hm_array_desc *desc, uint32_t ranks)
{
	uint64_t row = 0, rows = layout->shape[0];
	uint32_t i;
	int r;

	if (!desc->parts || !desc->n_parts)
		return hm_error_set(-EINVAL, "an array by hand needs parts");
	r = make_room(layout, desc->n_parts);
	if (r)
		return r;
	for (i = 0; i < desc->n_parts; i++) {
		const struct hm_array_part *part = &desc->parts[i];

		if (part->row != row || !part->rows || part->rows > rows - row)
			return hm_error_set(
				-EINVAL,
				"parts[%u] has %llu rows from %llu on: from 1 row up to "
				"the end at %llu must begin at row %llu",
				i, (unsigned long long)part->rows,
				(unsigned long long)part->row, (unsigned long long)rows,
				(unsigned long long)row);
		if (part->rank >= ranks)
			return hm_error_set(-EINVAL,
					    "parts[%u] is of rank %u, and there are %u", i,
					    part->rank, ranks);
		add(layout, row, row + part->rows, part->rank);
		row += part->rows;
	}
	if (row != rows)
		return hm_error_set(-EINVAL, "the parts end at row %llu of %llu",
				    (unsigned long long)row, (unsigned long long)rows);
	return 0;
}

static int find_own(struct layout *layout, uint32_t rank)
{
	uint32_t i;

	/* One more, as a layout may be without parts. */
	layout->own = calloc((size_t)layout->n_parts + 1, sizeof(*layout->own));
	if (!layout->own)
		return hm_error_set(-ENOMEM, "no memory for the parts of a rank");
	for (i = 0; i < layout->n_parts; i++) {
		if (layout->parts[i].rank != rank)
			continue;
		layout->own[layout->n_own++] = i;
		layout->own_bytes += layout->parts[i].rows * layout->row_bytes;
	}
	return 0;
}

int layout_divide(struct layout *layout, const struct hm_array_desc *desc, uint32_t rank,
		  uint32_t ranks)
{
	uint64_t chunk = desc->chunk ? desc->chunk : 1;
	int r;

	if (desc->distribution >= sizeof(distributions) / sizeof(distributions[0]))
		return hm_error_set(-EINVAL, "distribution %u of an array is not known",
				    desc->distribution);
	r = take_shape(layout, desc);
	if (r)
		return r;
	chunk = least(chunk, layout->shape[0]);
	if (desc->distribution != HM_ARRAY_BY_HAND && (desc->parts || desc->n_parts))
		r = hm_error_set(-EINVAL, "parts are for arrays by hand, and this one is %s",
				 distributions[desc->distribution]);
	else if (desc->distribution == HM_ARRAY_BLOCK)
		r = make_block(layout, chunk, ranks);
	else if (desc->distribution == HM_ARRAY_CYCLIC)
		r = make_cyclic(layout, chunk, ranks);
	else
		r = make_by_hand(layout, desc, ranks);
	if (!r)
		r = find_own(layout, rank);
	if (r)
		layout_free(layout);
	return r;
}

void layout_free(struct layout *layout)
{
	free(layout->parts);
	free(layout->own);
	memset(layout, 0, sizeof(*layout));
}

/* Behind the last part: more of it, if it has the same owner. */
static void append(struct layout *layout, uint64_t row, uint64_t end, uint32_t rank)
{
	struct hm_array_part *last = &layout->parts[layout->n_parts ? layout->n_parts - 1 : 0];

	if (row < end && layout->n_parts && last->rank == rank)
		last->rows = end - last->row;
	else
		add(layout, row, end, rank);
}

int layout_move(const struct layout *layout, uint64_t row, uint64_t rows, uint32_t owner,
		uint32_t rank, struct layout *to)
{
	uint32_t i;
	int r;

	*to = *layout;
	to->parts = NULL;
	to->own = NULL;
	to->n_parts = to->n_own = 0;
	to->own_bytes = 0;
	r = make_room(to, (uint64_t)layout->n_parts + 2);
	if (r)
		return r;
	for (i = 0; i < layout->n_parts; i++) {
		const struct hm_array_part *part = &layout->parts[i];
		uint64_t begin = part->row, end = part->row + part->rows;
		/* The part's rows before those that move, and behind them. */
		uint64_t left = row < begin ? begin : least(row, end);
		uint64_t right = row + rows < begin ? begin : least(row + rows, end);

		append(to, begin, left, part->rank);
		append(to, left, right, owner);
		append(to, right, end, part->rank);
	}
	r = find_own(to, rank);
	if (r)
		layout_free(to);
	return r;
}

uint32_t layout_find(const struct layout *layout, uint64_t row)
{
	uint32_t low = 0, high = layout->n_parts;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (layout->parts[middle].row <= row)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* FNV-1a, word by word. */
static uint64_t mix(uint64_t digest, uint64_t word)
{
	return (digest ^ word) * 0x100000001b3ull;
}

uint32_t layout_cuts(const struct layout *layout, const uint32_t *node_of, uint64_t unit)
{
	uint32_t i, n = 0;

	for (i = 1; i < layout->n_parts; i++)
		n += layout->parts[i].row * layout->row_bytes % unit &&
		     node_of[layout->parts[i].rank] != node_of[layout->parts[i - 1].rank];
	return n;
}

uint64_t layout_digest(const struct layout *layout)
{
	uint64_t digest = 0xcbf29ce484222325ull;
	uint32_t i;

	digest = mix(mix(digest, layout->dimensions), layout->element);
	for (i = 0; i < layout->dimensions; i++)
		digest = mix(digest, layout->shape[i]);
	for (i = 0; i < layout->n_parts; i++)
		digest = mix(mix(digest, layout->parts[i].row), layout->parts[i].rank);
	return digest;
}

/* ---- ranges ---- */

/* The rest begins at the position. */
static void take_run(struct walk *walk)
{
	const struct layout *layout = walk->layout;
	uint64_t index = 0;
	uint32_t i;

	for (i = 0; i < layout->dimensions; i++)
		index = index * layout->shape[i] + walk->start[i] + walk->position[i];
	walk->offset = index * layout->element;
	walk->left = walk->run;
}

int walk_begin(struct walk *walk, const struct layout *layout,
	       const struct hm_array_range *range)
{
	uint32_t i, outer = layout->dimensions;

	memset(walk, 0, sizeof(*walk));
	walk->layout = layout;
	walk->run = layout->element;
	for (i = 0; i < layout->dimensions; i++) {
		if (range->start[i] > layout->shape[i] ||
		    range->count[i] > layout->shape[i] - range->start[i])
			return hm_error_set(
				-ERANGE,
				"index %u has %llu elements, and the range %llu from "
				"%llu on",
				i, (unsigned long long)layout->shape[i],
				(unsigned long long)range->count[i],
				(unsigned long long)range->start[i]);
		walk->start[i] = range->start[i];
		walk->count[i] = range->count[i];
		walk->ended |= !range->count[i];
	}
	/* Indices that are there as a whole are part of the run, and one more. */
	while (outer) {
		outer--;
		walk->run *= walk->count[outer];
		if (walk->count[outer] != layout->shape[outer])
			break;
	}
	walk->outer = outer;
	if (!walk->ended)
		take_run(walk);
	return 0;
}

static void step(struct walk *walk)
{
	uint32_t i = walk->outer;

	while (i) {
		i--;
		if (++walk->position[i] < walk->count[i]) {
			take_run(walk);
			return;
		}
		walk->position[i] = 0;
	}
	walk->ended = true;
}

bool walk_next(struct walk *walk, struct stretch *ret_stretch)
{
	const struct layout *layout = walk->layout;
	const struct hm_array_part *part;
	uint64_t end;

	if (walk->ended)
		return false;
	part = &layout->parts[layout_find(layout, walk->offset / layout->row_bytes)];
	end = (part->row + part->rows) * layout->row_bytes;
	ret_stretch->offset = walk->offset;
	ret_stretch->packed = walk->packed;
	ret_stretch->bytes = least(walk->left, end - walk->offset);
	ret_stretch->rank = part->rank;
	walk->offset += ret_stretch->bytes;
	walk->packed += ret_stretch->bytes;
	walk->left -= ret_stretch->bytes;
	if (!walk->left)
		step(walk);
	return true;
}
