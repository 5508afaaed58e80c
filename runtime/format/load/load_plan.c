// SPDX-License-Identifier: MIT
/* The plan of a load: the pieces, the place of each, and the steps. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "format/load/load.h"
#include "base/sys.h"
#include "format/text/shown.h"
#include "reader/facts.h"

/* Default window: enough to keep storage busy, and little beside a model ... */
#define WINDOW MIB(64)
/* ... but at most this part of facts_ram(), which knows the control groups. */
#define WINDOW_OF_RAM 8
/* Every accelerator tried accepts a pointer at it; OpenCL asks for 128 at most here. */
#define ALIGNMENT 256

/*
 * A step is long enough that its own cost does not count, and a window has several, so that its
 * stages overlap.
 */
#define STEP_MOST MIB(4)
#define STEPS_LEAST 8
#define STEPS_MOST 256

#define BYTES_MAX (1ull << 62)

static int check_window(uint64_t window)
{
	if (window && window < page_size())
		return err_set(-EINVAL,
			       "hm_load_create: a window of %" PRIu64
			       " bytes: a page of %" PRIu64 " is the least",
			       window, page_size());
	return 0;
}

/* The window is at most the bytes to load: steps, and their allocations, follow it. */
static void choose_window(struct hm_load_info *info, uint64_t window)
{
	uint64_t page = page_size(), step;
	uint64_t chosen = max_u64(min_u64(WINDOW, facts_ram() / WINDOW_OF_RAM), page);

	info->window = window ? min_u64(window, max_u64(info->bytes, WINDOW)) : chosen;
	step = min_u64(info->window / STEPS_LEAST, STEP_MOST);
	step = max_u64(step, info->window / STEPS_MOST);
	info->step = max_u64(round_down(step, page), page);
}

static int choose_alignment(struct hm_load_info *info, uint64_t alignment)
{
	if ((alignment & (alignment - 1)) || alignment > page_size())
		return err_set(-EINVAL,
			       "hm_load_create: an alignment of %" PRIu64
			       ": powers of two up to %" PRIu64 " can be had",
			       alignment, page_size());
	info->alignment = alignment ? alignment : ALIGNMENT;
	return 0;
}

static int allocate(struct hm_load *load, uint64_t n)
{
	const struct hm_pieces *pieces = load->pieces;
	uint32_t all = pieces->n_piece;

	/* Each piece once at most. */
	if (n > all)
		return err_set(-EINVAL,
			       "hm_load_create: n_pieces is %" PRIu64 ", and there are "
			       "%u %ss: each can be loaded once",
			       n, all, pieces->word);
	load->order = sys_calloc(n + 1, sizeof(*load->order));
	load->place = sys_calloc((size_t)all + 1, sizeof(*load->place));
	if (!load->order || !load->place)
		return err_set(-ENOMEM, "no memory for the places of %u %ss", all,
			       pieces->word);
	memset(load->place, 0xff, all * sizeof(*load->place));
	load->n = (uint32_t)n;
	return 0;
}

/* Refuses an index, or a piece that can't be loaded. */
static int check_piece(const struct hm_load *load, uint64_t index)
{
	const struct hm_pieces *pieces = load->pieces;
	const struct piece *piece;
	char shown[SHOWN_MAX];

	if (index >= pieces->n_piece)
		return err_set(-ERANGE, "there is no %s %" PRIu64 ": there are %u",
			       pieces->word, index, pieces->n_piece);
	piece = &pieces->piece[index];
	if (load->place[index] != LOAD_NOWHERE)
		return err_set(-EINVAL, "hm_load_create: %s %" PRIu64 ", %s, is listed twice",
			       pieces->word, index, name_shown(piece->name, shown));
	if (piece->bytes && !pieces->file[piece->file].map)
		return err_set(-EOPNOTSUPP,
			       "%s is not mapped, and is read only: copy it to a local file "
			       "system to load it",
			       pieces->file[piece->file].path);
	return 0;
}

/* Places the next piece behind those before. */
static int put(struct hm_load *load, uint32_t position, uint64_t index)
{
	const struct piece *piece;
	uint64_t at;
	int r;

	r = check_piece(load, index);
	if (r)
		return r;
	piece = &load->pieces->piece[index];
	at = round_up(load->info.buffer, load->info.alignment);
	if (piece->bytes > BYTES_MAX || at > BYTES_MAX - piece->bytes)
		return err_set(-EOVERFLOW,
			       "the %ss have more than %llu bytes: no buffer has as many",
			       load->pieces->word, BYTES_MAX);
	load->order[position] = (uint32_t)index;
	load->place[index] = at;
	load->info.buffer = at + piece->bytes;
	load->info.bytes += piece->bytes;
	return 0;
}

int load_plan(struct hm_load *load, const struct hm_load_desc *desc)
{
	uint64_t n = desc->pieces ? desc->n_pieces : load->pieces->n_piece;
	uint32_t i;
	int r;

	r = check_window(desc->window);
	if (!r)
		r = choose_alignment(&load->info, desc->alignment);
	if (!r)
		r = allocate(load, n);
	for (i = 0; !r && i < load->n; i++)
		r = put(load, i, desc->pieces ? desc->pieces[i] : i);
	if (r)
		return r;
	choose_window(&load->info, desc->window);
	load->info.pieces = load->n;
	/* A buffer can't have 0 bytes. */
	load->info.buffer = max_u64(load->info.buffer, 1);
	return 0;
}

/* ---- steps ---- */

/* Ends at a page's end in the file, so that the next step begins with a page. */
static uint64_t step_of(const struct hm_load *load, uint64_t offset)
{
	return round_down(offset + load->info.step, page_size()) - offset;
}

bool load_next(const struct hm_load *load, struct load_cursor *cursor,
	       struct load_step *ret_step)
{
	struct load_step step = { .first = cursor->position, .from = cursor->from };
	uint64_t most = 0, left, offset;
	const struct piece *piece;

	if (cursor->position == load->n)
		return false;
	for (; cursor->position < load->n; cursor->position++, cursor->from = 0) {
		piece = load_at(load, cursor->position);
		left = piece->bytes - cursor->from;
		offset = piece->offset + cursor->from;
		if (left && !step.bytes) {
			step.file = piece->file;
			step.offset = offset;
			most = step_of(load, offset);
		} else if (left &&
			   (piece->file != step.file || offset != step.offset + step.bytes)) {
			break;
		}
		left = min_u64(left, most - step.bytes);
		step.bytes += left;
		cursor->from += left;
		if (cursor->from < piece->bytes)
			break;
	}
	step.end = cursor->position;
	*ret_step = step;
	return true;
}
