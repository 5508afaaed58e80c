// SPDX-License-Identifier: MIT
/*
 * The stages of a load, each a step ahead of the next: one thread starts reads from storage and
 * waits for them, others copy, and the caller's thread reports complete pieces. Steps under way
 * are in a ring, whose length is a window's steps.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "format/load/load.h"
#include "format/text/shown.h"
#include "base/rlimits.h"
#include "base/sys.h"
#include "base/thread.h"

#define THREADS_CHOSEN 4
#define THREADS_MAX 64

/* Time during which at least one thread was busy. */
struct stage {
	uint32_t busy;
	uint64_t since;
	uint64_t ns;
};

struct stages {
	struct hm_load *load;
	const struct hm_load_desc *desc;
	uint32_t generation; /* of the map, before */
	uint32_t n_thread;   /* copying threads */
	uint32_t n_ring;
	unsigned char *vector; /* of the disk's thread */

	pthread_mutex_t lock;   /* protects the fields below */
	pthread_cond_t changed; /* any of it */
	struct load_step *ring;
	/* Steps so far; each is at most n_ring ahead of told. */
	uint64_t announced;
	uint64_t fetched;
	uint64_t taken; /* to be copied */
	uint64_t told;
	bool all_announced;
	bool stop; /* something failed, or the caller has ended the load */
	int error;
	char text[ERR_TEXT_MAX];
	struct stage disk, copy, loaded;
};

static void stage_begin_locked(struct stage *stage)
{
	if (!stage->busy++)
		stage->since = time_now_ns();
}

static void stage_end_locked(struct stage *stage)
{
	if (!--stage->busy)
		stage->ns += time_now_ns() - stage->since;
}

/* Sets the load's result, if this is its first failure, with this thread's text. */
static void stop_locked(struct stages *stages, int r)
{
	if (!stages->stop) {
		stages->error = r;
		snprintf(stages->text, sizeof(stages->text), "%s", hm_errmsg());
	}
	stages->stop = true;
	pthread_cond_broadcast(&stages->changed);
}

static struct load_step *slot(struct stages *stages, uint64_t step)
{
	return &stages->ring[step % stages->n_ring];
}

/* ---- the disk ---- */

/* Announces as many steps as there is room for, so that storage has much to do at a time. */
static void announce_locked(struct stages *stages, struct load_cursor *cursor)
{
	struct load_step step;
	uint64_t resident;

	while (!stages->stop && !stages->all_announced &&
	       stages->announced - stages->told < stages->n_ring) {
		if (!load_next(stages->load, cursor, &step)) {
			stages->all_announced = true;
			pthread_cond_broadcast(&stages->changed);
			break;
		}
		pthread_mutex_unlock(&stages->lock);
		resident = load_announce(stages->load, &step, stages->vector);
		pthread_mutex_lock(&stages->lock);
		stages->load->info.resident += resident;
		*slot(stages, stages->announced) = step;
		stages->announced++;
	}
}

static void *disk(void *user)
{
	struct stages *stages = user;
	struct load_cursor cursor = { 0 };
	struct load_step step;

	pthread_mutex_lock(&stages->lock);
	while (!stages->stop) {
		stage_begin_locked(&stages->disk);
		announce_locked(stages, &cursor);
		if (stages->fetched < stages->announced) {
			step = *slot(stages, stages->fetched);
			pthread_mutex_unlock(&stages->lock);
			load_fetch(stages->load, &step);
			pthread_mutex_lock(&stages->lock);
			stages->fetched++;
			pthread_cond_broadcast(&stages->changed);
			stage_end_locked(&stages->disk);
			continue;
		}
		stage_end_locked(&stages->disk);
		if (stages->all_announced)
			break;
		pthread_cond_wait(&stages->changed, &stages->lock);
	}
	pthread_mutex_unlock(&stages->lock);
	return NULL;
}

/* ---- copying ---- */

static void *copy(void *user)
{
	struct stages *stages = user;
	struct load_step step;
	uint64_t taken;
	int r;

	pthread_mutex_lock(&stages->lock);
	while (!stages->stop) {
		if (stages->taken == stages->fetched) {
			if (stages->all_announced && stages->taken == stages->announced)
				break;
			pthread_cond_wait(&stages->changed, &stages->lock);
			continue;
		}
		taken = stages->taken++;
		step = *slot(stages, taken);
		stage_begin_locked(&stages->copy);
		pthread_mutex_unlock(&stages->lock);
		r = load_copy(stages->load, &step);
		pthread_mutex_lock(&stages->lock);
		stage_end_locked(&stages->copy);
		slot(stages, taken)->done = true;
		if (r)
			stop_locked(stages, r);
		pthread_cond_broadcast(&stages->changed);
	}
	pthread_mutex_unlock(&stages->lock);
	return NULL;
}

/* ---- telling ---- */

/*
 * Turns the result of a caller's function into an error with a text. The text of a call that
 * failed in there, since err_count() gave @said, stays. @name: NULL, or a piece's.
 */
static int wants_no_more(const struct hm_load *load, uint32_t said, int r, const char *name)
{
	char shown[SHOWN_MAX];

	r = r > 0 ? -ECANCELED : r;
	if (err_said_since(said))
		return r;
	if (!name)
		return err_set(r, "the caller's function ended the load (%s)", err_name(r));
	return err_set(r, "the caller's function ended the load (%s) at %s %s", err_name(r),
		       load->pieces->word, name_shown(name, shown));
}

static int tell_one(const struct stages *stages, uint32_t position)
{
	const struct hm_load *load = stages->load;
	struct hm_piece_info info = { .struct_size = sizeof(info) };
	uint64_t index = load->order[position];
	uint32_t said;
	int r;

	r = pieces_at(load->pieces, index, &info);
	if (r)
		return r;
	said = err_count();
	r = stages->desc->loaded(&info, load->map->address + load->place[index],
				 stages->desc->user);
	return r ? wants_no_more(load, said, r, info.name) : 0;
}

/* Reports pieces from @position on that are complete with @step; @bytes: so far. */
static int tell(const struct stages *stages, const struct load_step *step, uint32_t position,
		uint64_t bytes)
{
	const struct hm_load_desc *desc = stages->desc;
	uint32_t said = err_count();
	int r = 0;

	if (desc->progress) {
		r = desc->progress(bytes, stages->load->info.bytes, desc->user);
		if (r)
			return wants_no_more(stages->load, said, r, NULL);
	}
	for (; !r && desc->loaded && position < step->end; position++)
		r = tell_one(stages, position);
	return r;
}

static void tell_all(struct stages *stages)
{
	struct load_step step;
	uint32_t position = 0;
	uint64_t bytes = 0;
	int r;

	pthread_mutex_lock(&stages->lock);
	while (!stages->stop) {
		if (stages->told == stages->taken || !slot(stages, stages->told)->done) {
			if (stages->all_announced && stages->told == stages->announced)
				break;
			pthread_cond_wait(&stages->changed, &stages->lock);
			continue;
		}
		step = *slot(stages, stages->told);
		bytes += step.bytes;
		stage_begin_locked(&stages->loaded);
		pthread_mutex_unlock(&stages->lock);
		r = tell(stages, &step, position, bytes);
		position = step.end;
		pthread_mutex_lock(&stages->lock);
		stage_end_locked(&stages->loaded);
		stages->told++;
		if (r)
			stop_locked(stages, r);
		pthread_cond_broadcast(&stages->changed);
	}
	pthread_mutex_unlock(&stages->lock);
}

/* ---- all of it ---- */

static uint32_t choose_threads(const struct hm_load *load, uint32_t threads)
{
	uint64_t pieces = load->info.bytes / load->info.step + 1;
	uint64_t n = 1;

	if (threads)
		return (uint32_t)min_u64(threads, THREADS_MAX);
	/* With a window, threads would push each other's bytes out of the CPU's reach. */
	if (!(load->map->buffer->caps & HM_CAP_BRACKET))
		n = min_u64(thread_processors(), THREADS_CHOSEN);
	return (uint32_t)min_u64(n, pieces);
}

/* Starts fewer threads than wanted if no more can be had: one is enough. */
static int start(struct stages *stages, pthread_t *threads, uint32_t *ret_started)
{
	uint32_t n;
	int r;

	*ret_started = 0;
	r = thread_start(&threads[0], disk, stages);
	for (n = 1; !r && n <= stages->n_thread; n++) {
		r = thread_start(&threads[n], copy, stages);
		if (r && n > 1) {
			r = 0;
			break;
		}
	}
	*ret_started = r ? n - 1 : n;
	if (r)
		return rlimits_explain_thread(r, "loading");
	stages->load->info.threads = n - 1;
	return 0;
}

static int run(struct stages *stages)
{
	pthread_t threads[1 + THREADS_MAX];
	uint32_t started;
	int r;

	r = start(stages, threads, &started);
	if (!r)
		tell_all(stages);
	pthread_mutex_lock(&stages->lock);
	if (r)
		stop_locked(stages, r);
	pthread_mutex_unlock(&stages->lock);
	while (started--)
		pthread_join(threads[started], NULL);
	if (stages->error)
		return err_set(stages->error, "%s", stages->text);
	return load_check(stages->load, stages->generation);
}

int load_run(struct hm_load *load, const struct hm_load_desc *desc)
{
	struct hm_load_info *info = &load->info;
	struct stages *stages;
	uint64_t begin = time_now_ns();
	int r = -ENOMEM;

	stages = sys_calloc(1, sizeof(*stages));
	if (!stages)
		return err_set(r, "no memory for the stages of a load");
	stages->load = load;
	stages->desc = desc;
	stages->generation = atomic_load(&load->map->generation);
	stages->n_thread = choose_threads(load, desc->threads);
	stages->n_ring = (uint32_t)max_u64(info->window / info->step, 1);
	stages->ring = sys_calloc(stages->n_ring, sizeof(*stages->ring));
	stages->vector = sys_calloc(1, load_vector(load));
	pthread_mutex_init(&stages->lock, NULL);
	pthread_cond_init(&stages->changed, NULL);
	if (stages->ring && stages->vector)
		r = run(stages);
	else
		err_set(r, "no memory for a window of %" PRIu64 " bytes", info->window);
	info->disk_ns = stages->disk.ns;
	info->copy_ns = stages->copy.ns;
	info->loaded_ns = stages->loaded.ns;
	info->wall_ns = time_now_ns() - begin;
	pthread_cond_destroy(&stages->changed);
	pthread_mutex_destroy(&stages->lock);
	free(stages->vector);
	free(stages->ring);
	free(stages);
	return r;
}
