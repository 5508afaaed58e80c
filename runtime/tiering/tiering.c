// SPDX-License-Identifier: MIT
/* Tiering: the doors, and a round of it: look, plan, move. */
#include "tiering/tiering.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "base/rlimits.h"
#include "base/sys.h"
#include "base/thread.h"
#include "map/map.h"
#include "map/remap.h"
#include "share/share.h"
#include "tell/publish.h"
#include "tier/move.h"
#include "tier/tier.h"

#define PAGE 4096ull
#define BLOCK KIB(64)
#define BLOCKS_MOST 65536u /* of a map whose caller leaves the block to the library */
#define INTERVAL_MS 100u
#define INTERVAL_MOST_MS 60000u
/* An idle map is looked at so many times less often. */
#define IDLE_TIMES 16u
#define WINDOW_LEAST_NS 200000u
/* A round counts the pages of one block in so many anew: other threads may have moved them. */
#define SURVEY_ROUNDS 64u

/* ---- published figures ---- */

static pthread_mutex_t figures_mutex = PTHREAD_MUTEX_INITIALIZER; /* a leaf; of the stores */
static struct hm_published_tiering figures;
static uint32_t figures_generation; /* of the process that they are of */

static void figures_begin(void)
{
	pthread_mutex_lock(&figures_mutex);
	if (figures_generation != fork_generation)
		figures = (struct hm_published_tiering){ 0 };
	figures_generation = fork_generation;
	pthread_mutex_unlock(&figures_mutex);
	publish_tiering(&figures);
}

static void figures_add(const struct tier_moved *moved, const struct hm_tiering_move *move)
{
	uint64_t *way = move->why == HM_TIERING_HOT ? &figures.promoted : &figures.demoted;

	pthread_mutex_lock(&figures_mutex);
	__atomic_fetch_add(way, moved->moved, __ATOMIC_RELAXED);
	__atomic_fetch_add(&figures.refused, moved->refused, __ATOMIC_RELAXED);
	if (moved->moved) {
		const uint64_t i = figures.n_move % HM_PUBLISHED_MOVES;

		figures.moves[i].time_ns = move->time;
		figures.moves[i].address = move->address;
		figures.moves[i].length = move->length;
		figures.moves[i].node = move->node;
		figures.moves[i].why = move->why;
		figures.moves[i].heat = move->heat;
		__atomic_store_n(&figures.n_move, figures.n_move + 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&figures_mutex);
}

/* ---- blocks ---- */

/* Addresses of a map without a mapping: another thread is changing it. */
static int explain_change(const struct hm_tiering *tiering, int r)
{
	if (r != -EFAULT)
		return r;
	return err_set(-EBUSY, "%s: the map is being changed", tiering->map->buffer->name);
}

/* Counts the pages of a block, whose entries come back: not within a window. */
static int survey(struct hm_tiering *tiering, uint32_t i)
{
	struct tiering_block *block = &tiering->blocks[i];
	struct tier_census census;
	uint64_t length, address = look_block(tiering, i, &length);
	int r = tier_count(address, length, tiering->fast, tiering->slow, &census);

	if (r)
		return explain_change(tiering, r);
	block->bytes = (uint32_t)(census.a + census.b + census.other);
	if (!block->bytes)
		block->place = TIERING_ABSENT;
	else if (census.a >= census.b && census.a >= census.other)
		block->place = TIERING_FAST;
	else
		block->place = census.b >= census.other ? TIERING_SLOW : TIERING_ELSEWHERE;
	return 0;
}

static int survey_some(struct hm_tiering *tiering)
{
	uint32_t i, n = tiering->n / SURVEY_ROUNDS + 1;
	int r = 0;

	for (i = 0; i < tiering->n && !r; i++)
		if (tiering->blocks[i].touched && tiering->blocks[i].place == TIERING_ABSENT)
			r = survey(tiering, i);
	for (i = 0; i < n && !r; i++) {
		r = survey(tiering, tiering->surveyed);
		tiering->surveyed = (tiering->surveyed + 1) % tiering->n;
	}
	return r;
}

static int move_block(struct hm_tiering *tiering, const struct tiering_step *step)
{
	struct tiering_block *block = &tiering->blocks[step->block];
	const bool up = step->why == HM_TIERING_HOT;
	struct hm_tiering_move move = {
		.why = (uint16_t)step->why,
		.heat = block->heat,
		.node = (int32_t)(up ? tiering->fast : tiering->slow),
	};
	struct tier_moved moved = { 0 };
	uint64_t length;
	int r;

	move.address = look_block(tiering, step->block, &length);
	r = tier_move(move.address, length, (uint32_t)move.node, &moved);
	if (r)
		return explain_change(tiering, r);
	move.time = time_now_ns();
	move.length = moved.moved;
	*(up ? &tiering->info.promoted : &tiering->info.demoted) += moved.moved;
	tiering->info.refused += moved.refused;
	tiering->tokens -= min_u64(moved.moved, tiering->tokens);
	if (moved.moved)
		tiering->moves[tiering->n_moves++ % TIERING_MOVES] = move;
	figures_add(&moved, &move);
	if (moved.refused >= moved.moved + moved.there)
		block->rest = TIERING_REST;
	return survey(tiering, step->block);
}

/* ---- a round ---- */

/* The budget saves nothing for later but the moves of a tenth of a second, or of two blocks. */
static void fill_tokens(struct hm_tiering *tiering)
{
	const uint64_t now = time_now_ns(), rate = tiering->bytes_per_second;
	const double since = (double)(now - tiering->filled) / 1e9;
	uint64_t most = max_u64(rate / 10, 2 * tiering->block);

	most = max_u64(most, (uint64_t)((double)rate * (double)tiering->interval / 1e9));
	tiering->tokens = min_u64(most, tiering->tokens + (uint64_t)((double)rate * since));
	tiering->filled = now;
}

static int move_some(struct hm_tiering *tiering)
{
	struct tiering_step steps[TIERING_ROUND];
	uint32_t i, n;
	int r = 0;

	fill_tokens(tiering);
	if (tiering->flags & HM_TIERING_DRY_RUN)
		return 0;
	n = plan_make(tiering->blocks, tiering->n, tiering->fast_bytes, tiering->tokens,
		      tiering->order, steps);
	for (i = 0; i < n && !r && !tiering->stop; i++)
		r = move_block(tiering, &steps[i]);
	return r;
}

static void count_touched(struct hm_tiering *tiering, uint32_t touched)
{
	uint32_t i;

	tiering->info.looks++;
	tiering->info.touched += touched;
	for (i = 0; i < tiering->n && touched; i++)
		tiering->info.touched_fast += tiering->blocks[i].touched &&
					      tiering->blocks[i].place == TIERING_FAST;
}

/* Keeps the window so long that between a 16th and a quarter of the blocks are touched in it. */
static void adapt(struct hm_tiering *tiering, uint32_t touched)
{
	if (touched > tiering->n / 4)
		tiering->window = max_u64(tiering->window / 2, WINDOW_LEAST_NS);
	else if (touched < tiering->n / 16)
		tiering->window = min_u64(tiering->window * 2, tiering->shortest);
	tiering->interval =
		touched ? tiering->shortest :
			  min_u64(tiering->interval * 2, tiering->shortest * IDLE_TIMES);
}

static uint64_t thread_time(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Caller holds the lock. Closes the window, if one is open, and moves what the budget allows. */
static int round_end(struct hm_tiering *tiering)
{
	uint64_t start = thread_time();
	uint32_t touched = 0;
	int r = 0;

	if (tiering->looking)
		r = look_close(tiering, &touched);
	if (tiering->looking && !r) {
		count_touched(tiering, touched);
		plan_heat(tiering->blocks, tiering->n);
		adapt(tiering, touched);
	}
	/* A window in which nothing was touched goes on: no entry has to be taken away. */
	tiering->looking = tiering->looking && !r && !touched;
	if (!r && touched)
		r = survey_some(tiering);
	if (!r && touched)
		r = move_some(tiering);
	tiering->info.cpu_ns += thread_time() - start;
	return r;
}

static int round_begin(struct hm_tiering *tiering)
{
	uint64_t start = thread_time();
	int r = tiering->looking ? look_go_on(tiering) : look_open(tiering);

	/* A map that is being changed keeps the window that it has. */
	tiering->looking = !r || (tiering->looking && r == -EBUSY);
	tiering->info.cpu_ns += thread_time() - start;
	return r;
}

/* Everything but a map that is being changed is the end of the looks. */
static int settle(struct hm_tiering *tiering, int r)
{
	if (r && r != -EBUSY && !tiering->status)
		tiering->status = r;
	return r;
}

/* Caller holds the lock, which is free while it sleeps. */
static void sleep_ns(struct hm_tiering *tiering, uint64_t ns)
{
	struct timespec deadline;

	deadline_after(ns, &deadline);
	while (!tiering->stop &&
	       pthread_cond_timedwait(&tiering->wake, &tiering->lock, &deadline) != ETIMEDOUT)
		;
}

static void *thread_main(void *user)
{
	struct hm_tiering *tiering = user;

	err_begin();
	pthread_mutex_lock(&tiering->lock);
	while (!tiering->stop && !tiering->status) {
		if (!settle(tiering, round_begin(tiering))) {
			sleep_ns(tiering, tiering->window);
			if (!tiering->stop)
				settle(tiering, round_end(tiering));
		}
		sleep_ns(tiering, tiering->interval);
	}
	pthread_mutex_unlock(&tiering->lock);
	return NULL;
}

/* ---- making ---- */

static int check_desc(const struct hm_tiering_desc *desc)
{
	const uint32_t known = HM_TIERING_DRY_RUN | HM_TIERING_MANUAL;

	if (desc->flags & ~known)
		return err_set(-EINVAL, "hm_tiering_desc.flags 0x%x has unknown bits 0x%x",
			       desc->flags, desc->flags & ~known);
	if (desc->reserved)
		return err_set(-EINVAL, "hm_tiering_desc.reserved is not 0");
	if (desc->interval_ms > INTERVAL_MOST_MS)
		return err_set(-EINVAL, "hm_tiering_desc.interval_ms is %u: 1 to %u are",
			       desc->interval_ms, INTERVAL_MOST_MS);
	if (desc->block &&
	    (desc->block < PAGE || desc->block & (desc->block - 1) || desc->block > GIB(1)))
		return err_set(-EINVAL,
			       "hm_tiering_desc.block is %" PRIu64
			       ": a power of two from 4096 to 1 GiB is one",
			       desc->block);
	return 0;
}

static int choose_nodes(struct hm_tiering *tiering, const struct hm_tiering_desc *desc)
{
	int r = tier_node(desc->fast ? desc->fast : HM_TIER_FAST, &tiering->fast);

	if (!r)
		r = tier_node(desc->slow ? desc->slow : HM_TIER_FAR, &tiering->slow);
	if (!r && tiering->fast == tiering->slow)
		r = err_set(-EINVAL, "hm_tiering_desc: both tiers are node %u", tiering->fast);
	return r;
}

static int choose_block(struct hm_tiering *tiering, const struct hm_tiering_desc *desc)
{
	tiering->block = desc->block ? desc->block : BLOCK;
	while (!desc->block && tiering->length / tiering->block > BLOCKS_MOST)
		tiering->block *= 2;
	if (tiering->length / tiering->block >= UINT32_MAX)
		return err_set(-EINVAL, "hm_tiering_desc.block: %" PRIu64 " are too many",
			       tiering->length / tiering->block);
	tiering->n = (uint32_t)((tiering->length + tiering->block - 1) / tiering->block);
	if (desc->fast_bytes < tiering->block || desc->bytes_per_second < tiering->block)
		return err_set(-EINVAL,
			       "hm_tiering_desc: a budget of %" PRIu64 " bytes and %" PRIu64
			       " bytes a second is below one block of %" PRIu64 " bytes",
			       desc->fast_bytes, desc->bytes_per_second, tiering->block);
	tiering->fast_bytes = desc->fast_bytes;
	tiering->bytes_per_second = desc->bytes_per_second;
	return 0;
}

static void destroy(struct hm_tiering *tiering)
{
	pthread_cond_destroy(&tiering->wake);
	pthread_mutex_destroy(&tiering->lock);
	hm_map_unref(tiering->map);
	free(tiering->order);
	free(tiering->blocks);
	tiering->object.kind = OBJECT_FREED;
	free(tiering);
}

/* Counts all blocks, and opens and closes a first window: neither is assumed to work. */
static int begin(struct hm_tiering *tiering)
{
	uint32_t i, touched;
	int r = tiering->source == HM_TIERING_BY_SOFT_DIRTY ? look_probe_soft_dirty() : 0;

	tiering->counts_faults = look_probe_faults();
	for (i = 0; i < tiering->n && !r; i++)
		r = survey(tiering, i);
	if (!r)
		r = look_open(tiering);
	if (!r)
		r = look_close(tiering, &touched);
	if (!r && tiering->flags & HM_TIERING_MANUAL) {
		r = look_open(tiering);
		tiering->looking = !r;
	}
	return r;
}

static int make(struct hm_map *map, const struct hm_tiering_desc *desc,
		struct hm_tiering **ret_tiering)
{
	const uint32_t interval = desc->interval_ms ? desc->interval_ms : INTERVAL_MS;
	struct hm_tiering *tiering = sys_calloc(1, sizeof(*tiering));
	int r;

	if (!tiering)
		return err_set(-ENOMEM, "hm_tiering_create: no memory");
	object_init(&tiering->object, OBJECT_TIERING);
	pthread_mutex_init(&tiering->lock, NULL);
	thread_condition_init(&tiering->wake);
	tiering->map = hm_map_ref(map);
	tiering->flags = desc->flags;
	tiering->length = round_up(hm_map_length(map), PAGE);
	tiering->source = map->buffer->memory & MEMORY_PRIVATE ? HM_TIERING_BY_SOFT_DIRTY :
								 HM_TIERING_BY_ENTRIES;
	tiering->shortest = tiering->interval = interval * 1000000ull;
	tiering->window = tiering->shortest / 4;
	tiering->filled = time_now_ns();
	r = choose_nodes(tiering, desc);
	if (!r)
		r = choose_block(tiering, desc);
	if (r)
		goto err_destroy;
	tiering->blocks = sys_calloc(tiering->n, sizeof(*tiering->blocks));
	tiering->order = sys_calloc(tiering->n, sizeof(*tiering->order));
	if (!tiering->blocks || !tiering->order) {
		r = err_set(-ENOMEM, "hm_tiering_create: no memory for %u blocks", tiering->n);
		goto err_destroy;
	}
	r = begin(tiering);
	if (r)
		goto err_destroy;
	*ret_tiering = tiering;
	return 0;

err_destroy:
	destroy(tiering);
	return r;
}

int hm_tiering_create(struct hm_map *map, const struct hm_tiering_desc *desc,
		      struct hm_tiering **ret_tiering)
{
	struct hm_tiering_desc known;
	struct hm_tiering *tiering = NULL;
	int r;

	err_begin();
	r = map_check(map);
	if (r)
		return r;
	if (!desc || !ret_tiering)
		return err_set(-EINVAL, "hm_tiering_create: %s is NULL",
			       desc ? "ret_tiering" : "desc");
	r = struct_read(&known, sizeof(known), desc, desc->struct_size, sizeof(known),
			"hm_tiering_desc");
	if (!r)
		r = check_desc(&known);
	if (!r)
		r = make(map, &known, &tiering);
	if (r)
		return r;
	figures_begin();
	if (!(known.flags & HM_TIERING_MANUAL)) {
		r = thread_start(&tiering->thread, thread_main, tiering);
		if (r) {
			destroy(tiering);
			return rlimits_explain_thread(r, "a tiering");
		}
		tiering->has_thread = true;
	}
	*ret_tiering = tiering;
	return 0;
}

/* ---- the other doors ---- */

static int check(struct hm_tiering *tiering)
{
	return object_check((struct hm_object *)tiering, OBJECT_TIERING);
}

int hm_tiering_step(struct hm_tiering *tiering)
{
	int r;

	err_begin();
	r = check(tiering);
	if (r)
		return r;
	if (!(tiering->flags & HM_TIERING_MANUAL))
		return err_set(-EBUSY,
			       "hm_tiering_step: the tiering has a thread for that: pass "
			       "HM_TIERING_MANUAL to have none");
	pthread_mutex_lock(&tiering->lock);
	if (tiering->status)
		r = err_set(tiering->status, "hm_tiering_step: the looks have ended: %s",
			    err_name(tiering->status));
	if (!r)
		r = settle(tiering, round_end(tiering));
	if (!r)
		r = settle(tiering, round_begin(tiering));
	pthread_mutex_unlock(&tiering->lock);
	return r;
}

static void fill_info(struct hm_tiering *tiering, struct hm_tiering_info *info)
{
	uint32_t i;

	*info = tiering->info;
	info->source = tiering->source;
	info->fast_node = tiering->fast;
	info->slow_node = tiering->slow;
	info->block = tiering->block;
	info->blocks = tiering->n;
	info->interval_ns = tiering->interval;
	info->window_ns = tiering->window;
	info->status = tiering->status;
	for (i = 0; i < tiering->n; i++) {
		const struct tiering_block *block = &tiering->blocks[i];

		info->heat += block->heat;
		if (block->place == TIERING_FAST) {
			info->fast_bytes += block->bytes;
			info->heat_fast += block->heat;
		} else if (block->place == TIERING_SLOW) {
			info->slow_bytes += block->bytes;
		}
	}
	info->heat_best =
		plan_best(tiering->blocks, tiering->n, tiering->fast_bytes, tiering->order);
}

int hm_tiering_query(struct hm_tiering *tiering, struct hm_tiering_info *ret_info)
{
	struct hm_tiering_info info;
	int r;

	err_begin();
	r = check(tiering);
	if (r)
		return r;
	if (!ret_info)
		return err_set(-EINVAL, "hm_tiering_query: ret_info is NULL");
	r = struct_check_out(ret_info->struct_size, sizeof(info), sizeof(info),
			     "hm_tiering_info");
	if (r)
		return r;
	pthread_mutex_lock(&tiering->lock);
	fill_info(tiering, &info);
	pthread_mutex_unlock(&tiering->lock);
	struct_write(ret_info, &info, ret_info->struct_size);
	return 0;
}

int hm_tiering_moves(struct hm_tiering *tiering, struct hm_tiering_move *moves,
		     uint32_t capacity, uint32_t *ret_n)
{
	uint64_t i, n;
	int r;

	err_begin();
	r = check(tiering);
	if (r)
		return r;
	if (!ret_n || (capacity && !moves))
		return err_set(-EINVAL, "hm_tiering_moves: %s is NULL",
			       ret_n ? "moves" : "ret_n");
	pthread_mutex_lock(&tiering->lock);
	n = min_u64(min_u64(tiering->n_moves, TIERING_MOVES), capacity);
	for (i = 0; i < n; i++)
		moves[i] = tiering->moves[(tiering->n_moves - 1 - i) % TIERING_MOVES];
	pthread_mutex_unlock(&tiering->lock);
	*ret_n = (uint32_t)n;
	return 0;
}

struct hm_tiering *hm_tiering_ref(struct hm_tiering *tiering)
{
	if (tiering)
		object_ref(&tiering->object);
	return tiering;
}

void hm_tiering_unref(struct hm_tiering *tiering)
{
	if (!tiering || !object_put(&tiering->object))
		return;
	if (tiering->has_thread) {
		pthread_mutex_lock(&tiering->lock);
		tiering->stop = true;
		pthread_cond_signal(&tiering->wake);
		pthread_mutex_unlock(&tiering->lock);
		pthread_join(tiering->thread, NULL);
	}
	destroy(tiering);
}
