// SPDX-License-Identifier: MIT
/* Copies pieces out of a reader's map, in one guarded scope for a batch. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "reader/reader.h"
#include "fault/repair.h"

struct copy {
	const char *base; /* of the map */
	const struct hm_piece *pieces;
	struct cursor from, to;
	char *out;
};

static void copy_all(const struct copy *copy)
{
	const struct hm_piece *piece;
	char *out = copy->out;
	uint64_t at, begin, end;

	for (at = copy->from.at; at <= copy->to.at; at++) {
		/* The last piece is done up to @to, perhaps not at all. */
		if (at == copy->to.at && !copy->to.done)
			break;
		piece = &copy->pieces[at];
		begin = at == copy->from.at ? copy->from.done : 0;
		end = at == copy->to.at ? copy->to.done : piece->bytes;
		memcpy(out, copy->base + piece->offset + begin, end - begin);
		out += end - begin;
	}
}

/* A function of its own, so that no variable changes between setjmp() and its second return. */
static __attribute__((noinline)) int copy_guarded(const struct copy *copy,
						  struct hm_guard *guard)
{
	int r;

	HM_GUARD_INIT(guard);
	r = hm_guard_begin(guard);
	if (r)
		return r;
	copy_all(copy);
	return hm_guard_end(guard);
}

/* Turns a fault into an error in a reader's words. */
static int explain(struct hm_reader *reader, int r, const struct hm_guard *guard)
{
	if (guard->fault.cause == HM_FAULT_END &&
	    guard->fault.serial == reader->phase.buffer->serial)
		return reader_explain_read(-ENODATA, guard->fault.offset, 1);
	return r;
}

/* The largest end of the pieces: no fault tells of bytes cut off in the file's last page. */
static uint64_t end_of(const struct hm_piece *pieces, struct cursor from, struct cursor to)
{
	uint64_t end = 0, at;

	for (at = from.at; at < to.at; at++)
		if (pieces[at].bytes)
			end = max_u64(end, pieces[at].offset + pieces[at].bytes);
	if (to.done)
		end = max_u64(end, pieces[to.at].offset + to.done);
	return end;
}

int copy_pieces(struct hm_reader *reader, const struct hm_piece *pieces, struct cursor from,
		struct cursor to, char *out)
{
	struct hm_map *whole = reader->phase.whole;
	struct copy copy = {
		.base = whole->address,
		.pieces = pieces,
		.from = from,
		.to = to,
		.out = out,
	};
	struct hm_guard guard;
	int r;

	guard.fault.cause = HM_FAULT_NONE;
	r = copy_guarded(&copy, &guard);
	if (r)
		return guard.fault.cause == HM_FAULT_NONE ? r : explain(reader, r, &guard);
	/* Bytes replaced by an earlier fault elsewhere are not the file's. */
	r = repair_check(whole, 0, hm_map_length(whole), NULL);
	return r ? r : reader_check_size(reader, end_of(pieces, from, to));
}
