// SPDX-License-Identifier: MIT
/* Windows that are mapped one at a time: starts reading ahead of them, and drops them behind. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

#include "api/api.h"
#include "map/map.h"
#include "reader/reader.h"

/* Bytes begun ahead that are not wanted any more stay: they are page cache. */
void window_end(struct hm_reader *reader, struct phase *phase)
{
	if (!phase->window)
		return;
	/* Unmaps, instead of MADV_DONTNEED, which keeps the page tables. */
	hm_map_unref(phase->window);
	phase->window = NULL;
	reader_drop(reader, phase->window_offset, phase->window_bytes);
}

/* Starts reading the bytes after @end, as far as the policy goes. */
static void begin_ahead(struct hm_reader *reader, uint64_t from, uint64_t end)
{
	struct phase *phase = &reader->phase;
	uint64_t until = end + phase->choice.ahead * phase->choice.window;

	until = min_u64(until, phase->end);
	phase->announced = max_u64(phase->announced, from);
	if (!phase->choice.begins || until <= phase->announced)
		return;
	reader_announce(reader, phase->announced, until - phase->announced);
	phase->announced = until;
}

static int map_window(struct hm_reader *reader, uint64_t offset, uint64_t bytes)
{
	struct phase *phase = &reader->phase;
	struct hm_map_desc desc = {
		.struct_size = sizeof(desc),
		.access = HM_READ,
		.offset = round_down(offset, page_size()),
	};
	int r;

	desc.length = offset + bytes - desc.offset;
	r = map_create(phase->buffer, &desc, &phase->window);
	if (r)
		return r;
	phase->window_offset = offset;
	phase->window_bytes = bytes;
	return 0;
}

static int populate(struct hm_reader *reader)
{
	const struct phase *phase = &reader->phase;
	int r = map_prefetch(phase->window, 0, hm_map_length(phase->window), HM_READ);

	/* The kernel returns EFAULT for every cause. */
	if (r != -EFAULT)
		return r;
	r = reader_check_size(reader, phase->window_offset + phase->window_bytes);
	return r ? r : reader_explain_read(-EIO, phase->window_offset, phase->window_bytes);
}

int window_next(struct hm_reader *reader, const void **ret_data, uint64_t *ret_bytes)
{
	struct phase *phase = &reader->phase;
	uint64_t at = phase->position, size = phase->choice.window, bytes;
	int r;

	window_end(reader, phase);
	/* Windows begin at multiples of their size: the first one may be shorter. */
	bytes = min_u64(size - at % size, phase->end - at);
	r = reader_check_size(reader, at + bytes);
	if (r)
		return r;
	begin_ahead(reader, at, at + bytes);
	r = map_window(reader, at, bytes);
	if (r)
		return r;
	if (phase->choice.policy == HM_POLICY_POPULATE) {
		r = populate(reader);
		if (r)
			goto err_window;
	}
	*ret_data = phase->window->address + at % page_size();
	*ret_bytes = bytes;
	return 0;

err_window:
	window_end(reader, phase);
	return r;
}
