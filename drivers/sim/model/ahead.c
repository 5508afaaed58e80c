// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Prefetch that learns: streams, batches and the windows between them.
 */
#include "ahead.h"

void ahead_init(struct ahead *ahead, u64 least, u64 most)
{
	memset(ahead, 0, sizeof(*ahead));
	ahead->least = least ? least : 1;
	ahead->most = most > ahead->least ? most : ahead->least;
}

static u64 ahead_size(long long stride)
{
	return stride < 0 ? 0 - (u64)stride : (u64)stride;
}

/* ---- batches ---- */

/* Changes the stream's window by the end of a batch. */
static void ahead_judge(struct ahead *ahead, const struct ahead_batch *batch)
{
	struct ahead_stream *stream = &ahead->stream[batch->stream];
	u32 count = batch->plan.count;

	if (batch->used == count && stream->window < ahead->most) {
		stream->window *= 2;
		if (stream->window > ahead->most)
			stream->window = ahead->most;
		ahead->counts.doubled++;
	} else if (batch->used <= count / 2) {
		stream->window /= 2;
		ahead->counts.halved++;
		/* The stream has to show itself again. */
		if (stream->window < ahead->least)
			stream->turn = 0;
	}
}

static void ahead_close(struct ahead *ahead, struct ahead_batch *batch)
{
	ahead->counts.wasted += (u64)(batch->plan.count - batch->used) * batch->plan.length;
	ahead_judge(ahead, batch);
	batch->plan.count = 0;
}

/* The item of the batch that has unit @at; the count: none has. */
static u32 ahead_item(const struct ahead_plan *plan, u64 at)
{
	u64 step = ahead_size(plan->stride), way, item;

	if (plan->stride < 0) {
		/* Mirrored, with the end of each item as its beginning. */
		way = plan->start + plan->length - 1 - at;
		if (at > plan->start + plan->length - 1)
			return plan->count;
	} else {
		way = at - plan->start;
		if (at < plan->start)
			return plan->count;
	}
	item = way / step;
	if (item >= plan->count || way % step >= plan->length)
		return plan->count;
	return (u32)item;
}

/* Marks the item with unit @at, and those that the access passed over. True: it was planned. */
static bool ahead_use(struct ahead *ahead, struct ahead_batch *batch, u64 at)
{
	u32 item = ahead_item(&batch->plan, at);

	if (item == batch->plan.count)
		return false;
	if (item >= batch->next) {
		batch->next = item + 1;
		batch->used++;
		ahead->counts.used += batch->plan.length;
	}
	if (batch->next == batch->plan.count)
		ahead_close(ahead, batch);
	return true;
}

static void ahead_use_all(struct ahead *ahead, u64 start, u64 length)
{
	u64 at, step;
	u32 i;

	for (i = 0; i < AHEAD_BATCHES; i++) {
		struct ahead_batch *batch = &ahead->batch[i];

		if (batch->plan.count && ahead->turn - batch->turn > AHEAD_AGE)
			ahead_close(ahead, batch);
		/* An access may reach over several items of a batch. */
		step = batch->plan.count ? batch->plan.length : 0;
		for (at = start; batch->plan.count && at < start + length; at += step)
			ahead_use(ahead, batch, at);
		if (batch->plan.count)
			ahead_use(ahead, batch, start + length - 1);
	}
}

static struct ahead_batch *ahead_batch_take(struct ahead *ahead)
{
	struct ahead_batch *oldest = &ahead->batch[0];
	u32 i;

	for (i = 0; i < AHEAD_BATCHES; i++) {
		if (!ahead->batch[i].plan.count)
			return &ahead->batch[i];
		if (ahead->batch[i].turn < oldest->turn)
			oldest = &ahead->batch[i];
	}
	ahead_close(ahead, oldest);
	return oldest;
}

/* ---- streams ---- */

static bool ahead_steps(const struct ahead_stream *stream, u64 start)
{
	return start == stream->last + (u64)stream->stride ||
	       (stream->stride > 0 && start == stream->last + stream->length);
}

/* The stream that the access goes on, or repeats; NULL: none. */
static struct ahead_stream *ahead_find(struct ahead *ahead, u64 start)
{
	u32 i;

	for (i = 0; i < AHEAD_STREAMS; i++) {
		struct ahead_stream *stream = &ahead->stream[i];

		if (stream->turn && (ahead_steps(stream, start) || start == stream->last))
			return stream;
	}
	return NULL;
}

static const struct ahead_seen *ahead_seen_at(const struct ahead *ahead, u64 start)
{
	u32 i;

	for (i = 0; i < AHEAD_SEEN; i++)
		if (ahead->seen[i].length && ahead->seen[i].start == start)
			return &ahead->seen[i];
	return NULL;
}

/* The access that ends at @end; NULL. */
static const struct ahead_seen *ahead_seen_to(const struct ahead *ahead, u64 end)
{
	u32 i;

	for (i = 0; i < AHEAD_SEEN; i++)
		if (ahead->seen[i].length && ahead->seen[i].start + ahead->seen[i].length == end)
			return &ahead->seen[i];
	return NULL;
}

/* The step of a stream of which the access at @start is the newest; 0: there is none. */
static long long ahead_stride(const struct ahead *ahead, u64 start)
{
	const struct ahead_seen *seen = ahead_seen_to(ahead, start);
	u64 step, best = 0;
	u32 i;

	if (seen && ahead_seen_to(ahead, seen->start))
		return (long long)(start - seen->start);
	for (i = 0; i < AHEAD_SEEN; i++) {
		if (!ahead->seen[i].length || ahead->seen[i].start == start)
			continue;
		step = start - ahead->seen[i].start;
		if (best && ahead_size((long long)step) >= ahead_size((long long)best))
			continue;
		if (ahead_seen_at(ahead, start - 2 * step) &&
		    ahead_seen_at(ahead, start - 3 * step))
			best = step;
	}
	return (long long)best;
}

static void ahead_note(struct ahead *ahead, u64 start, u64 length)
{
	if (ahead_seen_at(ahead, start))
		return;
	ahead->seen[ahead->n_seen % AHEAD_SEEN].start = start;
	ahead->seen[ahead->n_seen % AHEAD_SEEN].length = length;
	ahead->n_seen++;
}

/* Ends the stream that was not used for longest, and its batches. */
static struct ahead_stream *ahead_stream_take(struct ahead *ahead)
{
	struct ahead_stream *oldest = &ahead->stream[0];
	u32 i;

	for (i = 1; i < AHEAD_STREAMS; i++)
		if (ahead->stream[i].turn < oldest->turn)
			oldest = &ahead->stream[i];
	for (i = 0; i < AHEAD_BATCHES; i++)
		if (ahead->batch[i].plan.count &&
		    &ahead->stream[ahead->batch[i].stream] == oldest)
			ahead_close(ahead, &ahead->batch[i]);
	memset(oldest, 0, sizeof(*oldest));
	return oldest;
}

/* The access's stream, with the access entered; NULL: it has none, or has had this access. */
static struct ahead_stream *ahead_enter(struct ahead *ahead, u64 start, u64 length)
{
	struct ahead_stream *stream = ahead_find(ahead, start);
	long long stride;

	if (stream && start == stream->last) {
		stream->turn = ahead->turn;
		return NULL;
	}
	if (stream) {
		stride = (long long)(start - stream->last);
		stream->left -= stream->left ? 1 : 0;
	} else {
		stride = ahead_stride(ahead, start);
		ahead_note(ahead, start, length);
		if (!stride) {
			ahead->counts.random++;
			return NULL;
		}
		stream = ahead_stream_take(ahead);
		stream->window = ahead->least;
	}
	if (ahead_size(stride) <= length)
		ahead->counts.sequential++;
	else
		ahead->counts.strided++;
	stream->stride = stride;
	stream->last = start;
	stream->length = length;
	stream->turn = ahead->turn;
	return stream;
}

/* Plans items up to the window, once half of it is used up. */
static bool ahead_plan(struct ahead *ahead, struct ahead_stream *stream,
		       struct ahead_plan *ret_plan)
{
	u64 items = stream->window / stream->length, from = stream->left + 1;
	u64 way, step = ahead_size(stream->stride);
	struct ahead_batch *batch;

	if (!items)
		items = 1;
	if (items > AHEAD_ITEMS)
		items = AHEAD_ITEMS;
	if (stream->left > items / 2)
		return false;
	if (ahead->strided_only && stream->stride > 0 && step <= stream->length)
		return false;
	items -= stream->left;
	/* Neither below 0 nor above the highest unit. */
	if (step > (U64_MAX >> 1) / (from + items))
		return false;
	way = step * (from + items - 1);
	if (stream->stride < 0 ? way > stream->last :
				 stream->last > U64_MAX - stream->length - way)
		return false;
	batch = ahead_batch_take(ahead);
	/* Closing a batch of this stream may have ended the stream. */
	if (!stream->turn)
		return false;
	batch->plan.start = stream->last + (u64)stream->stride * from;
	batch->plan.length = stream->length < step ? stream->length : step;
	batch->plan.stride = stream->stride;
	batch->plan.count = (u32)items;
	batch->stream = (u32)(stream - ahead->stream);
	batch->next = 0;
	batch->used = 0;
	batch->turn = ahead->turn;
	stream->left += items;
	ahead->counts.planned += items * batch->plan.length;
	*ret_plan = batch->plan;
	return true;
}

bool ahead_access(struct ahead *ahead, u64 start, u64 length, struct ahead_plan *ret_plan)
{
	struct ahead_stream *stream;

	if (!length || start > U64_MAX - length)
		return false;
	ahead->turn++;
	ahead->counts.accesses++;
	ahead_use_all(ahead, start, length);
	stream = ahead_enter(ahead, start, length);
	return stream && ahead_plan(ahead, stream, ret_plan);
}

void ahead_forget(struct ahead *ahead, u64 start, u64 length)
{
	u32 i, item;

	for (i = 0; i < AHEAD_BATCHES; i++) {
		struct ahead_batch *batch = &ahead->batch[i];

		for (item = batch->next; item < batch->plan.count; item++) {
			u64 at = batch->plan.start + (u64)batch->plan.stride * item;

			if (at - start < length || start - at < batch->plan.length) {
				ahead_close(ahead, batch);
				break;
			}
		}
	}
}

void ahead_end(struct ahead *ahead)
{
	u32 i;

	for (i = 0; i < AHEAD_BATCHES; i++)
		if (ahead->batch[i].plan.count)
			ahead_close(ahead, &ahead->batch[i]);
	memset(ahead->stream, 0, sizeof(ahead->stream));
}
