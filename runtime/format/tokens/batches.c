// SPDX-License-Identifier: MIT
/* Batches of tokens: filled one after another, in an order that a seed determines. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "fault/handler.h"
#include "base/sys.h"
#include "base/thread.h"
#include "format/tokens/tokens.h"

#define DESC_LEAST offsetof(struct hm_batches_desc, pad_x)
#define BATCH_LEAST offsetof(struct hm_batch, lengths)
#define STATE_LEAST sizeof(struct hm_batches_state)
#define INFO_LEAST sizeof(struct hm_batches_info)

#define AHEAD 2
#define AHEAD_MOST 1024u
/* Positions of all members stay far from 2^64. */
#define MEMBERS_MOST (1u << 24)
#define SIZE_MOST (1ull << 62)
/* Batches in a row without storage after which announcing stops. */
#define QUIET 16

/* ---- making ---- */

static int check_sizes(const struct hm_batches_desc *desc, const struct hm_tokens *tokens)
{
	if (desc->flags & ~HM_BATCHES_DOCUMENTS || desc->reserved)
		return err_set(-EINVAL,
			       "hm_batches_create: unknown flags 0x%x, or reserved %u is not 0",
			       desc->flags, desc->reserved);
	if (desc->order > HM_BATCHES_IN_ORDER)
		return err_set(-EINVAL, "hm_batches_create: order %u is unknown: 0 to 2 are",
			       desc->order);
	if (!desc->block || !desc->batch)
		return err_set(-EINVAL, "hm_batches_create: %s is 0",
			       desc->block ? "batch" : "block");
	if (desc->rank >= desc->ranks || desc->worker >= desc->workers)
		return err_set(-EINVAL,
			       "hm_batches_create: rank %u of %u, worker %u of %u: they count "
			       "from 0",
			       desc->rank, desc->ranks, desc->worker, desc->workers);
	if ((uint64_t)desc->ranks * desc->workers > MEMBERS_MOST || desc->ahead > AHEAD_MOST)
		return err_set(
			-EINVAL,
			"hm_batches_create: %u ranks of %u workers, %u batches ahead: %u "
			"in all, and %u ahead, are the most",
			desc->ranks, desc->workers, desc->ahead, MEMBERS_MOST, AHEAD_MOST);
	if (desc->block >= tokens->n && !(desc->flags & HM_BATCHES_DOCUMENTS))
		return err_set(-ERANGE,
			       "hm_batches_create: blocks of %" PRIu64
			       " tokens take one more, and there are %" PRIu64,
			       desc->block, tokens->n);
	return 0;
}

/* Makes room for the blocks of a batch. */
static int make_room(struct hm_batches *batches, uint64_t batch)
{
	struct token_block *blocks;
	uint64_t *starts, *lengths, bytes;

	if (__builtin_mul_overflow(batch, batches->block, &bytes) ||
	    __builtin_mul_overflow(bytes, batches->width, &bytes) || bytes >= SIZE_MOST)
		return err_set(-EOVERFLOW,
			       "a batch of %" PRIu64 " blocks of %" PRIu64
			       " tokens is of 2^62 bytes, or more",
			       batch, batches->block);
	blocks = sys_calloc(batch, sizeof(*blocks));
	starts = sys_calloc(batch, sizeof(*starts));
	lengths = sys_calloc(batches->documents ? batch : 1, sizeof(*lengths));
	if (!blocks || !starts || !lengths) {
		free(blocks);
		free(starts);
		free(lengths);
		return err_set(-ENOMEM, "no memory for a batch of %" PRIu64 " blocks", batch);
	}
	free(batches->blocks);
	free(batches->starts);
	free(batches->lengths);
	batches->blocks = blocks;
	batches->starts = starts;
	batches->lengths = lengths;
	batches->batch = batch;
	return 0;
}

static void destroy(struct hm_batches *batches)
{
	pthread_mutex_lock(&batches->lock);
	batches_end_ring(batches);
	pthread_mutex_unlock(&batches->lock);
	token_reader_end(&batches->reader);
	token_rows_end(&batches->rows);
	free(batches->blocks);
	free(batches->starts);
	free(batches->lengths);
	hm_tokens_unref(batches->tokens);
	pthread_cond_destroy(&batches->changed);
	pthread_mutex_destroy(&batches->lock);
	batches->object.kind = OBJECT_FREED;
	free(batches);
}

/* The bits of a padding token. */
static int make_pad(uint32_t dtype, int64_t value, const char *name, uint64_t *ret_bits)
{
	uint64_t narrow = 0;

	if (value && !widen_is_integer(dtype))
		return err_set(-EINVAL,
			       "hm_batches_create: %s is %" PRId64
			       ", and tokens of %s, which are no integers, are padded with 0",
			       name, value, hm_dtype_name(dtype));
	if (value && widen_find(dtype, HM_DTYPE_I64, false)(&narrow, &value, 1))
		return err_set(-EINVAL,
			       "hm_batches_create: %s is %" PRId64 ", which %s can't hold",
			       name, value, hm_dtype_name(dtype));
	*ret_bits = (uint64_t)value;
	return 0;
}

static void begin_order(struct hm_batches *batches, uint32_t kind, uint64_t seed)
{
	/* Rows are blocks of one: they are numbered, not their tokens. */
	if (batches->documents)
		order_init(&batches->order, kind, seed, batches->rows.n + 1, 1);
	else
		order_init(&batches->order, kind, seed, batches->tokens->n, batches->block);
}

static int begin_documents(struct hm_batches *batches, const struct hm_batches_desc *desc)
{
	int r;

	batches->documents = true;
	r = make_pad(desc->dtype, desc->pad_x, "pad_x", &batches->reader.pad_x);
	if (!r)
		r = make_pad(desc->dtype, desc->pad_y, "pad_y", &batches->reader.pad_y);
	if (!r)
		r = token_rows_begin(&batches->rows, batches->tokens,
				     desc->order == HM_BATCHES_RANDOM ? 1 : desc->block);
	if (!r && !batches->rows.n)
		r = err_set(-ERANGE,
			    "hm_batches_create: none of the %" PRIu64
			    " documents has two tokens",
			    batches->tokens->n_document);
	return r;
}

static int create(struct hm_tokens *tokens, const struct hm_batches_desc *desc,
		  struct hm_batches **ret_batches)
{
	struct hm_batches *batches = sys_calloc(1, sizeof(*batches));
	uint32_t i;
	int r;

	if (!batches)
		return err_set(-ENOMEM, "no memory for an hm_batches");
	r = token_reader_init(&batches->reader, tokens, desc->dtype, desc->block + 1);
	if (r) {
		free(batches);
		return r;
	}
	object_init(&batches->object, OBJECT_BATCHES);
	pthread_mutex_init(&batches->lock, NULL);
	thread_condition_init(&batches->changed);
	batches->tokens = hm_tokens_ref(tokens);
	batches->block = desc->block;
	batches->members = (uint64_t)desc->ranks * desc->workers;
	batches->member = (uint64_t)desc->rank * desc->workers + desc->worker;
	batches->dtype = desc->dtype;
	batches->width = hm_dtype_bits(desc->dtype) / 8;
	batches->ahead = desc->ahead;
	for (i = 0; i < tokens->n_shard; i++)
		batches->in_order |= tokens->shard[i].n && !tokens->shard[i].rank;
	/* A wait for storage costs more than useless advice. */
	batches->announcing = batches->in_order;
	batches->tells_announcing = batches->in_order;
	if (desc->flags & HM_BATCHES_DOCUMENTS)
		r = begin_documents(batches, desc);
	if (!r)
		r = make_room(batches, desc->batch);
	if (!r)
		begin_order(batches, desc->order, desc->seed);
	if (r) {
		destroy(batches);
		return r;
	}
	*ret_batches = batches;
	return 0;
}

int hm_batches_create(struct hm_tokens *tokens, const struct hm_batches_desc *desc,
		      struct hm_batches **ret_batches)
{
	struct hm_batches_desc known = { 0 };
	int r;

	err_begin();
	if (!desc || !ret_batches)
		return err_set(-EINVAL, "hm_batches_create: %s is NULL",
			       desc ? "ret_batches" : "desc");
	r = object_check(tokens ? &tokens->object : NULL, OBJECT_TOKENS);
	if (!r)
		r = struct_read(&known, sizeof(known), desc, desc->struct_size, DESC_LEAST,
				"hm_batches_desc");
	if (r)
		return r;
	if (!known.dtype)
		known.dtype = widen_is_integer(tokens->dtype) ? HM_DTYPE_I64 : tokens->dtype;
	known.ranks = known.ranks ? known.ranks : 1;
	known.workers = known.workers ? known.workers : 1;
	known.ahead = known.ahead ? known.ahead : AHEAD;
	r = check_sizes(&known, tokens);
	return r ? r : create(tokens, &known, ret_batches);
}

struct hm_batches *hm_batches_ref(struct hm_batches *batches)
{
	if (batches)
		object_ref(&batches->object);
	return batches;
}

void hm_batches_unref(struct hm_batches *batches)
{
	if (!batches || !object_put(&batches->object))
		return;
	err_hold();
	destroy(batches);
	err_release();
}

/* ---- announcing ---- */

/* Has this thread waited for storage, or asked it, since @before? */
static bool storage_was_needed(const struct rusage *before)
{
	struct rusage now;

	/* A thread that can't know goes on announcing. */
	return sys_getrusage(RUSAGE_THREAD, &now) || now.ru_inblock != before->ru_inblock ||
	       now.ru_majflt != before->ru_majflt;
}

/* The first token of a block of this member; *@ret_n: its tokens, which are less in documents. */
static uint64_t start_of(struct hm_batches *batches, uint64_t done, uint64_t *ret_n)
{
	uint64_t start = order_start(&batches->order,
				     batches->base + done * batches->members + batches->member);

	*ret_n = batches->block;
	if (batches->documents)
		*ret_n =
			min_u64(token_rows_find(&batches->rows, start, &start), batches->block);
	return start;
}

/* Announces all blocks up to those of the last batch ahead that were not announced yet. */
static void announce(struct hm_batches *batches, uint64_t done)
{
	uint64_t end = done + batches->batch * (1 + (uint64_t)batches->ahead), start, n;

	if (batches->announced < done)
		batches->announced = done;
	for (; batches->announced < end; batches->announced++) {
		start = start_of(batches, batches->announced, &n);
		tokens_announce(batches->tokens, start, n + 1);
	}
}

static void learn(struct hm_batches *batches, const struct rusage *before)
{
	if (!batches->in_order)
		return;
	if (storage_was_needed(before)) {
		batches->announcing = true;
		batches->quiet = 0;
	} else if (batches->announcing && ++batches->quiet >= QUIET) {
		batches->announcing = false;
	}
	batches->tells_announcing = batches->announcing;
}

/* ---- filling ---- */

int batches_fill(struct hm_batches *batches, uint64_t done, void *x, void *y, uint64_t *starts,
		 uint64_t *lengths)
{
	uint64_t bytes = batches->block * batches->width, taken = 0, n, i;
	struct rusage before = { 0 };
	bool announced = batches->announcing;
	int r;

	sys_getrusage(RUSAGE_THREAD, &before);
	if (announced)
		announce(batches, done);
	for (i = 0; i < batches->batch; i++) {
		starts[i] = start_of(batches, done + i, &n);
		batches->blocks[i] = (struct token_block){
			.first = starts[i],
			.n = n,
			.x = (char *)x + i * bytes,
			.y = y ? (char *)y + i * bytes : NULL,
			.pad = batches->block - n,
		};
		taken += n + (y ? 1 : 0);
		if (batches->documents)
			lengths[i] = n;
	}
	r = tokens_take(&batches->reader, batches->blocks, batches->batch);
	if (r)
		return r;
	learn(batches, &before);
	batches->filled++;
	batches->filled_announced += announced && tokens_announced(&batches->reader);
	batches->filled_mapped += batches->reader.mapped;
	batches->bytes += taken * batches->tokens->width;
	batches->way = batches->reader.mapped ? HM_BATCHES_MAPPED : HM_BATCHES_READ;
	return 0;
}

int batches_check_memory(const struct hm_batches *batches, const void *x, const void *y,
			 const char *what)
{
	if (!x)
		return err_set(-EINVAL, "%s: x is NULL", what);
	if ((uintptr_t)x % batches->width || (uintptr_t)y % batches->width)
		return err_set(-EINVAL, "%s: x at %p, y at %p: %s takes multiples of %u", what,
			       x, y, hm_dtype_name(batches->dtype), batches->width);
	return 0;
}

static int refuse_started(const char *what)
{
	return err_set(-EBUSY,
		       "%s: a thread keeps batches ahead: hm_batches_stop() first, or "
		       "hm_batches_take()",
		       what);
}

/* Takes the lock, if all is well. */
static int begin_call(struct hm_batches *batches)
{
	int r;

	r = batches_check_object(batches);
	if (!r)
		pthread_mutex_lock(&batches->lock);
	return r;
}

/* The same for a call during which no thread may fill. */
static int begin_alone(struct hm_batches *batches, const char *what)
{
	int r = begin_call(batches);

	if (r || !batches->ring)
		return r;
	pthread_mutex_unlock(&batches->lock);
	return refuse_started(what);
}

int hm_batches_next(struct hm_batches *batches, void *x, void *y, struct hm_batch *ret_batch)
{
	struct hm_batch batch = { 0 };
	int r;

	err_begin();
	r = begin_alone(batches, "hm_batches_next");
	if (r)
		return r;
	r = batches_check_memory(batches, x, y, "hm_batches_next");
	if (!r && ret_batch)
		r = struct_check_out(ret_batch->struct_size, sizeof(*ret_batch), BATCH_LEAST,
				     "hm_batch");
	if (!r)
		r = batches_fill(batches, batches->done, x, y, batches->starts,
				 batches->lengths);
	if (r)
		goto out;
	batch.number = batches->handed++;
	batch.epoch =
		order_epoch(&batches->order,
			    batches->base + batches->done * batches->members + batches->member);
	batch.blocks = batches->batch;
	batch.starts = batches->starts;
	batch.lengths = batches->documents ? batches->lengths : NULL;
	batches->done += batches->batch;
	if (ret_batch)
		struct_write(ret_batch, &batch, ret_batch->struct_size);
out:
	pthread_mutex_unlock(&batches->lock);
	return r;
}

/* ---- position ---- */

int hm_batches_resize(struct hm_batches *batches, uint64_t batch)
{
	int r;

	err_begin();
	r = begin_alone(batches, "hm_batches_resize");
	if (r)
		return r;
	r = batch ? make_room(batches, batch) :
		    err_set(-EINVAL, "hm_batches_resize: batch is 0");
	pthread_mutex_unlock(&batches->lock);
	return r;
}

int hm_batches_get(struct hm_batches *batches, struct hm_batches_state *ret_state)
{
	struct hm_batches_state state = { 0 };
	int r;

	err_begin();
	if (!ret_state)
		return err_set(-EINVAL, "hm_batches_get: ret_state is NULL");
	r = begin_call(batches);
	if (r)
		return r;
	r = struct_check_out(ret_state->struct_size, sizeof(*ret_state), STATE_LEAST,
			     "hm_batches_state");
	if (!r) {
		state.seed = batches->order.seed;
		state.position = batches->base + batches->done * batches->members;
		struct_write(ret_state, &state, ret_state->struct_size);
	}
	pthread_mutex_unlock(&batches->lock);
	return r;
}

int hm_batches_set(struct hm_batches *batches, const struct hm_batches_state *state)
{
	struct hm_batches_state known;
	int r;

	err_begin();
	if (!state)
		return err_set(-EINVAL, "hm_batches_set: state is NULL");
	r = begin_alone(batches, "hm_batches_set");
	if (r)
		return r;
	r = struct_read(&known, sizeof(known), state, state->struct_size, STATE_LEAST,
			"hm_batches_state");
	if (!r && (known.position >= SIZE_MOST || known.reserved))
		r = err_set(-EINVAL,
			    "hm_batches_set: position %" PRIu64
			    " is 2^62 or more, or reserved is not 0",
			    known.position);
	if (!r) {
		begin_order(batches, batches->order.kind, known.seed);
		batches->base = known.position;
		batches->done = batches->announced = 0;
	}
	pthread_mutex_unlock(&batches->lock);
	return r;
}

/* ---- choices ---- */

/* In RAM, to be announced, in Fortran's order: the reason for reading, and the result. */
#define BY_READ(cause)                                                                 \
	{                                                                              \
		"by pread(2), as " cause "; all of it was in RAM",                     \
			"by pread(2), as " cause                                       \
			"; announced until 16 batches in a row find all of it in RAM", \
			"by pread(2), as " cause                                       \
			"; nothing is announced, as the files are in Fortran's order", \
	}

/* The first file without a map stands for all. */
static const char *why_read(const struct hm_tokens *tokens, uint32_t column)
{
	static const char *const no_handler[] =
		BY_READ("no handler of faults is in effect (see hm_handler_install)");
	static const char *const no_map[][3] = {
		[NO_MAP_SHARED] = BY_READ("the file system shares no maps"),
		[NO_MAP_NETWORK] = BY_READ("a network file system's errors are signals in a "
					   "map, and its maps show old bytes"),
		[NO_MAP_ROOM] = BY_READ("the budget has no room for the map"),
		[NO_MAP_ASKED] = BY_READ("maps of the files were not wanted"),
	};
	static const char *const no_turn[] = BY_READ(
		"the budget has no room for its blocks, or the maps are in other hands (locked, "
		"narrowed, in use)");
	uint32_t i;

	for (i = 0; i < tokens->n_shard; i++)
		if (!tokens->shard[i].map && tokens->shard[i].no_map == NO_MAP_ASKED)
			return no_map[NO_MAP_ASKED][column];
	if (handler_flags() == HANDLER_NONE)
		return no_handler[column];
	for (i = 0; i < tokens->n_shard; i++)
		if (tokens->shard[i].n && !tokens->shard[i].map)
			return no_map[tokens->shard[i].no_map][column];
	return no_turn[column];
}

static const char *why(const struct hm_batches *batches, uint32_t way, bool announcing)
{
	static const char *const mapped[] = {
		"out of the files' maps: the last batches found all of it in RAM",
		"out of the files' maps, announced by MADV_WILLNEED until 16 batches "
		"in a row find all of it in RAM",
		"out of the files' maps; nothing is announced, as the files are in Fortran's "
		"order",
	};
	uint32_t column = batches->in_order ? announcing : 2;

	if (way == HM_BATCHES_NONE)
		return "nothing was taken yet";
	return way == HM_BATCHES_MAPPED ? mapped[column] : why_read(batches->tokens, column);
}

int hm_batches_query(struct hm_batches *batches, struct hm_batches_info *ret_info)
{
	struct hm_batches_info info = { 0 };
	int r;

	err_begin();
	if (!ret_info)
		return err_set(-EINVAL, "hm_batches_query: ret_info is NULL");
	r = begin_call(batches);
	if (r)
		return r;
	r = struct_check_out(ret_info->struct_size, sizeof(*ret_info), INFO_LEAST,
			     "hm_batches_info");
	if (!r) {
		info = (struct hm_batches_info){
			.dtype = batches->dtype,
			.way = batches->way,
			.announcing = batches->tells_announcing,
			.block = batches->block,
			.batch = batches->batch,
			.blocks = batches->order.blocks,
			.batches = batches->handed,
			.filled = batches->filled,
			.mapped = batches->filled_mapped,
			.announced = batches->filled_announced,
			.bytes = batches->bytes,
			.waited_ns = batches->waited_ns,
		};
		info.why = why(batches, info.way, info.announcing);
		struct_write(ret_info, &info, ret_info->struct_size);
	}
	pthread_mutex_unlock(&batches->lock);
	return r;
}
