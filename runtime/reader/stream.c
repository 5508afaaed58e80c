// SPDX-License-Identifier: MIT
/*
 * Windows that are read into memory of the reader's own: by pread(2), one at a time, or by
 * io_uring, ahead of the one in use.
 */
#include <errno.h>
#include <fcntl.h>

#include "map/map.h"
#include "reader/reader.h"
#include "base/sys.h"

static int begin_memory(struct phase *phase)
{
	struct stream *stream = &phase->stream;

	if (stream->memory)
		return 0;
	stream->n = phase->choice.ahead + 1;
	stream->slot_size = phase->choice.window;
	stream->begun = phase->position;
	return reader_memory(phase, stream->n * stream->slot_size, &stream->memory);
}

void stream_end(struct phase *phase)
{
	struct stream *stream = &phase->stream;

	/* Ends reads in flight, which go to the memory. */
	phase_drop_ring(phase);
	hm_map_unref(stream->memory);
	*stream = (struct stream){ 0 };
}

/* Windows begin at multiples of their size: the first one may be shorter. */
static uint64_t window_at(const struct phase *phase, uint64_t at)
{
	uint64_t size = phase->choice.window;

	return min_u64(size - at % size, phase->end - at);
}

static char *slot_address(const struct phase *phase, uint32_t slot)
{
	return reader_place(phase, phase->stream.memory) + slot * phase->stream.slot_size;
}

/* ---- pread(2) ---- */

static int read_window(struct hm_reader *reader, uint64_t at, uint64_t bytes)
{
	struct phase *phase = &reader->phase;
	uint64_t until = min_u64(phase->end, at + bytes + 8 * phase->choice.window);
	int r;

	/* Announces half of it again each time, since an announcement has its price, too. */
	if (phase->announced < at + bytes + 4 * phase->choice.window &&
	    phase->announced < phase->end) {
		phase->announced = max_u64(phase->announced, at);
		reader_announce(reader, phase->announced, until - phase->announced);
		phase->announced = until;
	}
	r = reader_pread(reader, slot_address(phase, 0), bytes, at);
	if (!r)
		reader_drop(reader, at, bytes);
	return r;
}

/* ---- io_uring ---- */

/* Begins to read a slot's window, in several reads. */
static int begin_window(struct hm_reader *reader)
{
	struct phase *phase = &reader->phase;
	struct stream *stream = &phase->stream;
	uint32_t number = (stream->first + stream->n_begun) % stream->n, free;
	struct stream_slot *slot = &stream->slot[number];
	uint64_t unit = phase->choice.unit, at, from, to;
	int r;

	*slot = (struct stream_slot){
		.offset = stream->begun,
		.bytes = window_at(phase, stream->begun),
	};
	from = round_down(slot->offset, unit);
	to = slot->offset + slot->bytes;
	for (at = from; at < to; at += phase->choice.read) {
		struct uring_read read = {
			.fd = phase_fd(reader),
			/* A window's bytes begin at their offset within its size. */
			.to = slot_address(phase, number) + at % phase->choice.window,
			.offset = at,
			.wanted = (uint32_t)min_u64(phase->choice.read, to - at),
			.unit = (uint32_t)unit,
			.own = true,
			.group = &slot->group,
		};

		read.length = (uint32_t)round_up(read.wanted, unit);
		r = uring_slot(phase->ring, &free);
		if (r)
			return r;
		uring_read(phase->ring, free, &read);
	}
	stream->n_begun++;
	stream->begun = to;
	return uring_submit(phase->ring);
}

/* After an error: the same window is tried again, from the beginning. */
static void begin_anew(struct phase *phase)
{
	struct stream *stream = &phase->stream;

	phase_drop_ring(phase);
	stream->first = 0;
	stream->n_begun = 0;
	stream->begun = phase->position;
}

static int wait_window(struct hm_reader *reader, uint64_t bytes)
{
	struct phase *phase = &reader->phase;
	struct stream *stream = &phase->stream;
	struct stream_slot *slot;
	int r;

	r = phase_ring(phase);
	/* Also fills the slot of the last window given, which ends now. */
	while (!r && stream->begun < phase->end && stream->n_begun < stream->n)
		r = begin_window(reader);
	slot = &stream->slot[stream->first];
	if (!r)
		r = uring_wait(phase->ring, &slot->group);
	if (!r && slot->group.error) {
		r = slot->group.error;
		if (r == -ENODATA)
			r = reader_check_size(reader, phase->position + bytes);
		else
			reader_explain_read(r, slot->group.where, bytes);
		/* If the check finds no error, the file has grown again in the meantime. */
		r = r ? r : reader_explain_read(-ENODATA, slot->group.where, bytes);
	}
	return r;
}

static int next_queued(struct hm_reader *reader, uint64_t bytes, uint32_t *ret_slot)
{
	struct phase *phase = &reader->phase;
	struct stream *stream = &phase->stream;
	int r;

	r = wait_window(reader, bytes);
	if (r) {
		begin_anew(phase);
		return r;
	}
	*ret_slot = stream->first;
	stream->first = (stream->first + 1) % stream->n;
	stream->n_begun--;
	if (phase->direct_fd < 0)
		reader_drop(reader, phase->position, bytes);
	return 0;
}

int stream_next(struct hm_reader *reader, const void **ret_data, uint64_t *ret_bytes)
{
	struct phase *phase = &reader->phase;
	bool queued = phase->choice.policy != HM_POLICY_READ;
	uint64_t bytes = window_at(phase, phase->position), inside = 0;
	uint32_t slot = 0;
	int r;

	r = begin_memory(phase);
	if (r)
		return r;
	r = queued ? next_queued(reader, bytes, &slot) :
		     read_window(reader, phase->position, bytes);
	if (r)
		return r;
	if (queued)
		inside = phase->position % phase->choice.window;
	*ret_data = slot_address(phase, slot) + inside;
	*ret_bytes = bytes;
	return 0;
}
