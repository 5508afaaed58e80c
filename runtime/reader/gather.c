// SPDX-License-Identifier: MIT
/* Batches of pieces: announced, then copied out of a map, or read to their destination. */
#include <errno.h>
#include <inttypes.h>

#include "base/compat.h"
#include "map/map.h"
#include "reader/reader.h"
#include "base/sys.h"

/* With a chosen policy, one gather of so many looks at the residency again. */
#define LOOK_EVERY 64

/* Are pieces read by the ring, many at once? In a range for windows, the ring reads windows. */
static bool is_queued(const struct phase *phase)
{
	return phase->choice.policy >= HM_POLICY_URING &&
	       phase->wish.pattern == HM_PATTERN_RANDOM;
}

static bool announces(const struct phase *phase)
{
	return phase->choice.policy != HM_POLICY_FAULT &&
	       phase->choice.policy != HM_POLICY_READ && !is_queued(phase);
}

/* ---- announcing ---- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
	return (hash ^ value) * 0x9e3779b97f4a7c15u + (hash >> 29);
}

/* Tells batches apart; a mistake costs a wait, or some calls. Never 0. */
static uint64_t hash_of(const struct hm_piece *pieces, uint64_t n)
{
	uint64_t hash = n, i;

	for (i = 0; i < n; i++)
		hash = mix(mix(hash, pieces[i].offset), pieces[i].bytes);
	return hash | 1;
}

/* Forgets the batch: a second gather may find it evicted. */
static bool was_announced(struct phase *phase, uint64_t hash)
{
	uint32_t i;

	for (i = 0; i < ANNOUNCED; i++)
		if (phase->recent[i] == hash) {
			phase->recent[i] = 0;
			return true;
		}
	return false;
}

static void announce(struct hm_reader *reader, const struct hm_piece *pieces, uint64_t n)
{
	uint64_t begin = 0, end = 0, i;

	/* Consecutive pieces are one. */
	for (i = 0; i < n; i++) {
		if (!pieces[i].bytes)
			continue;
		if (pieces[i].offset != end) {
			reader_announce(reader, begin, end - begin);
			begin = pieces[i].offset;
		}
		end = pieces[i].offset + pieces[i].bytes;
	}
	reader_announce(reader, begin, end - begin);
}

/* Was every byte of the batch in memory before a gather asked for it? */
static bool all_resident(const struct phase *phase, const struct hm_piece *pieces, uint64_t n)
{
	uint64_t i;

	for (i = 0; i < n; i++)
		if (pieces[i].bytes &&
		    !facts_are_resident(phase->whole, pieces[i].offset, pieces[i].bytes))
			return false;
	return true;
}

/*
 * A file that was read once is in memory the second time, or is not any more: a look at one
 * batch in LOOK_EVERY starts and stops announcing.
 */
static void look_again(struct phase *phase, const struct hm_piece *pieces, uint64_t n)
{
	if (phase->wish.policy != HM_POLICY_AUTO || phase->n_gather++ % LOOK_EVERY ||
	    !phase->whole || phase->facts.resident == RESIDENT_UNKNOWN)
		return;
	if (phase->choice.policy == HM_POLICY_ANNOUNCE && all_resident(phase, pieces, n))
		phase->choice.policy = HM_POLICY_FAULT;
	else if (phase->choice.policy == HM_POLICY_FAULT && !all_resident(phase, pieces, n))
		phase->choice.policy = HM_POLICY_ANNOUNCE;
}

static int check_pieces(const struct phase *phase, const struct hm_piece *pieces, uint64_t n)
{
	uint64_t size = phase->facts.size, i;

	for (i = 0; i < n; i++)
		if (pieces[i].offset > size || pieces[i].bytes > size - pieces[i].offset)
			return err_set(-ERANGE,
				       "piece %" PRIu64 ", %" PRIu64 " bytes at %" PRIu64
				       ", is not in the file, which has %" PRIu64,
				       i, pieces[i].bytes, pieces[i].offset, size);
	return 0;
}

/* -EBUSY, without a text: the user is using the map. */
static int give_back(struct phase *phase)
{
	int r = account_give_back(&phase->account, phase->whole, true, MADV_RANDOM);

	phase->held = r == -EBUSY;
	return r;
}

/* For a caller that copies out of the map by itself: it has no other way to be accounted for. */
static int account_all(struct phase *phase, const struct hm_piece *pieces, uint64_t n)
{
	uint64_t i;
	int r;

	for (i = 0; i < n; i++) {
		if (account_add(&phase->account, pieces[i].offset, pieces[i].bytes))
			continue;
		r = give_back(phase);
		if (r == -EBUSY)
			return err_set(r,
				       "the budget of %" PRIu64
				       " bytes is used up, and nothing of the map can be given "
				       "back: its user has locked or narrowed a part of it, or "
				       "uses it; undo that, or ask for a larger budget",
				       phase->account.budget);
		if (r)
			return r;
		account_add(&phase->account, pieces[i].offset,
			    min_u64(pieces[i].bytes, phase->account.most));
	}
	return 0;
}

int gather_announce(struct hm_reader *reader, const struct hm_piece *pieces, uint64_t n)
{
	struct phase *phase = &reader->phase;
	int r;

	r = check_pieces(phase, pieces, n);
	if (r || (phase->choice.policy == HM_POLICY_DIRECT && is_queued(phase)))
		return r;
	look_again(phase, pieces, n);
	if (phase->choice.policy != HM_POLICY_FAULT) {
		announce(reader, pieces, n);
		phase->recent[phase->n_recent++ % ANNOUNCED] = hash_of(pieces, n);
	}
	return phase->whole && !phase->account.unlimited ? account_all(phase, pieces, n) : 0;
}

/* ---- copied out of the map ---- */

static uint64_t bytes_between(const struct hm_piece *pieces, struct cursor from,
			      struct cursor to)
{
	uint64_t bytes = 0, at;

	for (at = from.at; at < to.at; at++)
		bytes += pieces[at].bytes;
	return bytes - from.done + to.done;
}

/* Takes pieces from @from on as far as the budget goes; at least some bytes. */
static int take(struct phase *phase, const struct hm_piece *pieces, uint64_t n,
		struct cursor from, struct cursor *ret_to)
{
	struct account *account = &phase->account;
	struct cursor to = from;
	bool fresh = false;
	uint64_t part;
	int r;

	if (account->unlimited) {
		*ret_to = (struct cursor){ .at = n };
		return 0;
	}
	while (to.at < n) {
		part = min_u64(pieces[to.at].bytes - to.done, account->most);
		if (!account_add(account, pieces[to.at].offset + to.done, part)) {
			/*
			 * Copies the pieces taken so far first, so that no page is touched
			 * twice.
			 */
			if (to.at != from.at || to.done != from.done)
				break;
			/* The least budget is enough for some bytes. */
			if (fresh)
				return err_set(-ENOBUFS,
					       "a budget of %" PRIu64
					       " bytes is too small for %" PRIu64
					       " at %" PRIu64,
					       account->budget, part, pieces[to.at].offset);
			r = give_back(phase);
			if (r)
				return r;
			fresh = true;
			continue;
		}
		to.done += part;
		if (to.done == pieces[to.at].bytes)
			to = (struct cursor){ .at = to.at + 1 };
	}
	*ret_to = to;
	return 0;
}

static void populate(const struct phase *phase, const struct hm_piece *pieces,
		     struct cursor from, struct cursor to)
{
	uint64_t at, begin, end, page = page_size();

	for (at = from.at; at <= to.at; at++) {
		/* For a piece in parts only this part: all of it may exceed the budget. */
		begin = at == from.at ? from.done : 0;
		if (at == to.at && to.done <= begin)
			break;
		end = at == to.at ? to.done : pieces[at].bytes;
		if (end <= begin)
			continue;
		begin = round_down(pieces[at].offset + begin, page);
		end = round_up(pieces[at].offset + end, page);
		/* The copy reports pages that can't be brought in. */
		sys_madvise(phase->whole->address + begin, end - begin, MADV_POPULATE_READ);
	}
}

static int gather_mapped(struct hm_reader *reader, const struct hm_piece *pieces, uint64_t n,
			 char *out, struct cursor *from)
{
	struct phase *phase = &reader->phase;
	struct cursor to;
	int r;

	while (from->at < n) {
		r = take(phase, pieces, n, *from, &to);
		if (r)
			return r;
		if (phase->choice.policy == HM_POLICY_POPULATE)
			populate(phase, pieces, *from, to);
		r = copy_pieces(reader, pieces, *from, to, out);
		if (r)
			return r;
		out += bytes_between(pieces, *from, to);
		*from = to;
	}
	return 0;
}

/* ---- read ---- */

/*
 * If nothing was announced yet, the first piece that would have to be waited for announces
 * itself and the rest: pieces in memory cost no calls then; several files need four a piece.
 */
static int gather_read(struct hm_reader *reader, const struct hm_piece *pieces, uint64_t n,
		       char *out)
{
	struct phase *phase = &reader->phase;
	bool announced = phase->choice.policy != HM_POLICY_READ ||
			 was_announced(phase, hash_of(pieces, n));
	uint64_t i;
	int r;

	for (i = 0; i < n; i++) {
		if (!announced &&
		    reader_pread_now(reader, out, pieces[i].bytes, pieces[i].offset)) {
			out += pieces[i].bytes;
			continue;
		}
		if (!announced)
			announce(reader, pieces + i, n - i);
		announced = true;
		r = reader_pread(reader, out, pieces[i].bytes, pieces[i].offset);
		if (r)
			return r;
		out += pieces[i].bytes;
	}
	return 0;
}

static int begin_bounce(struct phase *phase)
{
	if (phase->bounce)
		return 0;
	return reader_memory(phase, phase->choice.ahead * phase->choice.read, &phase->bounce);
}

/* Queues one read, of a piece or a part of it. */
static int begin_read(struct hm_reader *reader, struct uring_group *group, uint64_t offset,
		      uint64_t bytes, char *out, uint64_t *ret_bytes)
{
	struct phase *phase = &reader->phase;
	struct uring_read read = {
		.fd = phase_fd(reader),
		.to = out,
		.offset = offset,
		.unit = (uint32_t)phase->choice.unit,
		.group = group,
	};
	uint32_t slot;
	int r;

	r = uring_slot(phase->ring, &slot);
	if (r)
		return r;
	if (phase->bounce) {
		read.offset = round_down(offset, read.unit);
		read.skip = (uint32_t)(offset - read.offset);
		read.to = reader_place(phase, phase->bounce) + slot * phase->choice.read;
		read.copy_to = out;
		read.own = true;
	}
	*ret_bytes = min_u64(bytes, phase->choice.read - read.skip);
	read.wanted = read.skip + (uint32_t)*ret_bytes;
	read.length = (uint32_t)round_up(read.wanted, read.unit);
	uring_read(phase->ring, slot, &read);
	return 0;
}

static int begin_reads(struct hm_reader *reader, const struct hm_piece *pieces, uint64_t n,
		       char *out, struct uring_group *group)
{
	uint64_t i, done, bytes = 0;
	int r;

	for (i = 0; i < n; i++)
		for (done = 0; done < pieces[i].bytes; done += bytes) {
			r = begin_read(reader, group, pieces[i].offset + done,
				       pieces[i].bytes - done, out, &bytes);
			if (r || group->error)
				return r;
			out += bytes;
		}
	return 0;
}

static int gather_queued(struct hm_reader *reader, const struct hm_piece *pieces, uint64_t n,
			 char *out)
{
	struct phase *phase = &reader->phase;
	struct uring_group group = { 0 };
	int r;

	r = phase_ring(phase);
	if (!r && phase->direct_fd >= 0)
		r = begin_bounce(phase);
	if (!r)
		r = begin_reads(reader, pieces, n, out, &group);
	if (!r)
		r = uring_wait(phase->ring, &group);
	/* No read may write to the caller's memory after this. */
	if (r)
		phase_drop_ring(phase);
	if (!r && group.error)
		r = reader_explain_read(group.error, group.where, 1);
	return r;
}

/* ---- gathering ---- */

static bool is_refused(int r)
{
	return r == -EOPNOTSUPP || r == -EBUSY || r == -EAGAIN;
}

int gather(struct hm_reader *reader, const struct hm_piece *pieces, uint64_t n, void *to)
{
	struct phase *phase = &reader->phase;
	struct cursor from = { 0 };
	int r;

	r = check_pieces(phase, pieces, n);
	if (r)
		return r;
	look_again(phase, pieces, n);
	if (is_queued(phase))
		return gather_queued(reader, pieces, n, to);
	if (announces(phase) && !was_announced(phase, hash_of(pieces, n)))
		announce(reader, pieces, n);
	r = -EOPNOTSUPP;
	if (phase->whole)
		r = gather_mapped(reader, pieces, n, to, &from);
	/*
	 * A guarded scope can't be had now, or no page can be given back: the kernel copies as
	 * safely.
	 */
	if (is_refused(r))
		r = gather_read(reader, pieces, n, to);
	return r;
}
