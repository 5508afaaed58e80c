// SPDX-License-Identifier: MIT
/* The calls of the mirror: making and ending it, advice, prefetch, and the state of entries. */
#include "soft/mirror.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool soft_mirror_works(void)
{
	char from = 1, to = 0;

	/* A filter of system calls may forbid it. */
	return sys_copy_from_any(&to, &from, 1) == 1;
}

void soft_mirror_count(struct soft_mirror *mirror, enum sim_counter counter, uint64_t n)
{
	if (n)
		soft_count_add(mirror->file->dev, mirror->file->account, counter, n);
}

static struct soft_mirror *mirror_new(struct soft_file *file)
{
	struct soft_mirror *mirror = sys_calloc(1, sizeof(*mirror));

	if (!mirror)
		return NULL;
	mirror->file = file;
	mirror->maps_fd = vmas_open();
	soft_rwlock_init(&mirror->use);
	pthread_mutex_init(&mirror->lock, NULL);
	CDS_INIT_LIST_HEAD(&mirror->frames);
	mirror->stream.fd = -1;
	mirror->learns = true;
	ahead_init(&mirror->ahead, 1, SZ_2M / SZ_64K);
	return mirror;
}

void soft_mirror_free(struct soft_mirror *mirror)
{
	if (!mirror)
		return;
	soft_place_return(mirror, 0, UINT64_MAX);
	soft_stream_end(&mirror->stream);
	soft_frames_free(mirror);
	if (mirror->maps_fd >= 0)
		sys_close(mirror->maps_fd);
	free(mirror->advice);
	free(mirror->hot);
	pthread_mutex_destroy(&mirror->lock);
	pthread_rwlock_destroy(&mirror->use);
	free(mirror);
}

int soft_mirror(struct soft_file *file, void *argument)
{
	struct hetsim_mirror *ask = argument;
	struct soft_mirror *mirror, *none = NULL;

	if (!soft_mirror_works())
		return -EOPNOTSUPP;
	if (!atomic_load(&file->mirror)) {
		mirror = mirror_new(file);
		if (!mirror)
			return -ENOMEM;
		/* Another thread may have been first. */
		if (!atomic_compare_exchange_strong(&file->mirror, &none, mirror))
			soft_mirror_free(mirror);
	}
	ask->migration = HETSIM_MIGRATION_BOOKED;
	ask->migration_bytes = file->dev->memory.limit[HETSIM_PLACE_VRAM] << SIM_PAGE_SHIFT;
	ask->chunks = SIM_CHUNKS;
	ask->max_chunks = SIM_MAX_CHUNKS;
	return 0;
}

/* ---- advice ---- */

/* Bits of a run's value, and their new values. */
struct change {
	uint32_t mask, bits;
};

static struct change change_of(const struct hetsim_advise *advise)
{
	const uint32_t on = advise->value ? UINT32_MAX : 0;
	struct change change = { 0 };

	switch (advise->advice) {
	case HETSIM_ADVISE_LOCATION:
		change.mask = SOFT_ADVICE_LOCATION;
		change.bits = (uint32_t)advise->value;
		break;
	case HETSIM_ADVISE_ACCESSED_BY:
		change.mask = SOFT_ADVICE_ACCESSED_BY;
		change.bits = change.mask & on;
		break;
	case HETSIM_ADVISE_READ_MOSTLY:
		change.mask = SOFT_ADVICE_READ_MOSTLY;
		change.bits = change.mask & on;
		break;
	case HETSIM_ADVISE_NO_ACCESS:
		change.mask = SOFT_ADVICE_NO_ACCESS;
		change.bits = change.mask & on;
		break;
	case HETSIM_ADVISE_COUNTER:
		change.mask = UINT32_MAX << SOFT_ADVICE_COUNTER;
		change.bits = (uint32_t)advise->value << SOFT_ADVICE_COUNTER;
		break;
	case HETSIM_ADVISE_CACHE:
		change.mask = SOFT_ADVICE_CACHE;
		change.bits = change.mask & on;
		break;
	default: /* HETSIM_ADVISE_GRANULE */
		change.mask = SOFT_ADVICE_GRANULES;
		if (advise->value)
			change.bits = (uint32_t)__builtin_ctzll(advise->value)
				      << SOFT_ADVICE_GRANULE;
		break;
	}
	return change;
}

static uint32_t count_advice(const struct rangemap *advice)
{
	uint32_t i, n = 0;

	for (i = 0; i < advice->n; i++)
		n += advice->run[i].value != 0;
	return n;
}

/* The caller holds mirror->lock. */
static int set_advice(struct soft_mirror *mirror, const struct hetsim_advise *advise)
{
	struct change change = change_of(advise);
	struct rangemap *next;

	if (!mirror->advice)
		mirror->advice = rangemap_create(0, 0);
	if (!mirror->advice)
		return -ENOMEM;
	next = rangemap_put(mirror->advice, advise->address, advise->length, change.mask,
			    change.bits);
	if (!next)
		return -ENOMEM;
	if (count_advice(next) > SIM_MAX_ADVICE) {
		free(next);
		return -ENOSPC;
	}
	free(mirror->advice);
	mirror->advice = next;
	return 0;
}

struct enter_present {
	struct soft_mirror *mirror;
	uint64_t start, end;
	uint64_t n;
};

/* Pages of a mapping that are there. */
static int enter_present(void *user, const struct vma *vma)
{
	struct enter_present *enter = user;
	uint8_t rights = HETSIM_PAGE_READ | (vma->access & HM_WRITE ? HETSIM_PAGE_WRITE : 0);
	unsigned char there[SOFT_FRAME_PAGES];
	uint64_t at = max_u64(vma->start, enter->start), end = min_u64(vma->end, enter->end);
	uint64_t n, i;
	int r = 0;

	if (!(vma->access & HM_READ))
		return 0;
	for (; !r && at < end; at += n * SIM_PAGE_SIZE) {
		n = min_u64((end - at) / SIM_PAGE_SIZE, SOFT_FRAME_PAGES);
		if (sys_mincore((void *)(uintptr_t)at, n * SIM_PAGE_SIZE, there))
			return 0;
		for (i = 0; !r && i < n; i++)
			if (there[i] & 1 &&
			    !(soft_mirror_advice(enter->mirror, at + i * SIM_PAGE_SIZE) &
			      SOFT_ADVICE_NO_ACCESS))
				r = soft_mirror_enter(enter->mirror, at + i * SIM_PAGE_SIZE,
						      at + (i + 1) * SIM_PAGE_SIZE, rights,
						      HETSIM_WHY_ADVICE, &enter->n);
	}
	return r;
}

/* Applies the part of an advice that counts at once. The caller holds mirror->lock. */
static int apply_advice(struct soft_mirror *mirror, const struct hetsim_advise *advise)
{
	struct enter_present enter = { .mirror = mirror,
				       .start = advise->address,
				       .end = advise->address + advise->length };
	int r = 0;

	/* Entries of another size come by the next faults. */
	if ((advise->advice == HETSIM_ADVISE_NO_ACCESS && advise->value) ||
	    advise->advice == HETSIM_ADVISE_GRANULE)
		soft_entries_drop(mirror, enter.start, enter.end, 0);
	if (advise->advice == HETSIM_ADVISE_ACCESSED_BY && advise->value)
		r = vmas_each(enter.start, enter.end, enter_present, &enter);
	soft_mirror_count(mirror, SIM_MIRROR_PAGES, enter.n);
	return r;
}

/* Addresses of a process. */
static int check_range(uint64_t address, uint64_t length)
{
	return address + length > SOFT_PROCESS_END ? -ERANGE : 0;
}

int soft_advise(struct soft_file *file, void *argument)
{
	const struct hetsim_advise *advise = argument;
	struct soft_mirror *mirror = atomic_load(&file->mirror);
	/* When the call returns, no access that has begun before is under way. */
	bool waits = advise->advice == HETSIM_ADVISE_NO_ACCESS && advise->value;
	int r;

	if (!mirror)
		return -ENOENT;
	r = check_range(advise->address, advise->length);
	if (r)
		return r;
	if (waits)
		pthread_rwlock_wrlock(&mirror->use);
	pthread_mutex_lock(&mirror->lock);
	/* The limit stays when there is no room for one more range. */
	if (advise->advice == HETSIM_ADVISE_CACHE && advise->value)
		r = soft_place_cache(mirror, advise->value);
	if (!r)
		r = set_advice(mirror, advise);
	if (!r)
		r = apply_advice(mirror, advise);
	pthread_mutex_unlock(&mirror->lock);
	if (waits)
		pthread_rwlock_unlock(&mirror->use);
	return r;
}

/* ---- prefetch ---- */

static int prefetch_work(struct soft_queue *queue, struct soft_job *job,
			 struct sim_fault *ret_fault)
{
	return soft_mirror_bring(queue, &job->prefetch, ret_fault);
}

int soft_prefetch(struct soft_file *file, void *argument)
{
	struct hetsim_prefetch *prefetch = argument;
	struct hetsim_submit submit = { 0 };
	struct soft_queue *queue;
	struct soft_job *job;
	int r;

	if (!atomic_load(&file->mirror))
		return -ENOENT;
	r = check_range(prefetch->address, prefetch->length);
	if (r)
		return r;
	queue = soft_queue_get(file, prefetch->queue);
	if (!queue)
		return -ENOENT;
	r = queue->type == HETSIM_QUEUE_COUNTER ? 0 : -EOPNOTSUPP;
	if (r)
		goto out;
	job = soft_job_new(0);
	if (!job) {
		r = -ENOMEM;
		goto out;
	}
	job->work = prefetch_work;
	job->prefetch = *prefetch;
	r = soft_job_add(queue, job, &submit);
	if (r)
		soft_job_free(job);
	else
		prefetch->seqno = submit.seqno;
out:
	soft_queue_put(queue);
	return r;
}

/* ---- queries and events ---- */

static void describe(struct soft_mirror *mirror, uint64_t address, struct hetsim_page *ret_page)
{
	const struct soft_page *page = soft_page_find(mirror, address);

	memset(ret_page, 0, sizeof(*ret_page));
	if (!page)
		return;
	*ret_page = (struct hetsim_page){
		.rights = page->rights,
		.location = page->on_device ? HETSIM_LOCATION_DEVICE : HETSIM_LOCATION_HOST,
		.why = page->why,
		.chunk_order = page->order,
		.moves = soft_frame_find(mirror, address)->moves,
	};
}

#define PAGES_AT_ONCE 512

/*
 * Describes the pages to the caller. A pointer that the caller may not store through is -EFAULT,
 * never a signal, as in the module. The copy goes in parts, so that -EFAULT comes before the look
 * at the rest of a large range.
 */
static int describe_all(struct soft_mirror *mirror, uint64_t at, uint64_t end, uint64_t to)
{
	struct hetsim_page pages[PAGES_AT_ONCE];
	uint64_t i, n;
	ssize_t done;
	int r;

	for (; at < end; at += n * SIM_PAGE_SIZE, to += n * sizeof(*pages)) {
		n = min_u64((end - at) / SIM_PAGE_SIZE, PAGES_AT_ONCE);
		r = soft_entries_refresh(mirror, at, at + n * SIM_PAGE_SIZE);
		if (r)
			return r;
		for (i = 0; i < n; i++)
			describe(mirror, at + i * SIM_PAGE_SIZE, &pages[i]);
		done = sys_copy_to_any((void *)(uintptr_t)to, pages, n * sizeof(*pages));
		if (done < 0)
			return (int)done;
		if ((uint64_t)done < n * sizeof(*pages))
			return -EFAULT;
	}
	return 0;
}

int soft_range_query(struct soft_file *file, void *argument)
{
	const struct hetsim_range_query *ask = argument;
	struct soft_mirror *mirror = atomic_load(&file->mirror);
	uint64_t end = ask->address + ask->length;
	int r;

	if (!mirror)
		return -ENOENT;
	r = check_range(ask->address, ask->length);
	if (r)
		return r;
	pthread_mutex_lock(&mirror->lock);
	r = describe_all(mirror, ask->address, end, ask->pages);
	pthread_mutex_unlock(&mirror->lock);
	return r;
}

int soft_mirror_events(struct soft_file *file, void *argument)
{
	struct hetsim_mirror_events *ask = argument;
	struct soft_mirror *mirror = atomic_load(&file->mirror);
	int r;

	if (!mirror)
		return -ENOENT;
	pthread_mutex_lock(&mirror->lock);
	r = soft_stream_make(&mirror->stream, &ask->fd);
	pthread_mutex_unlock(&mirror->lock);
	return r;
}

int soft_learn(struct soft_file *file, void *argument)
{
	const struct hetsim_learn *learn = argument;
	struct soft_mirror *mirror = atomic_load(&file->mirror);

	if (!mirror)
		return -ENOENT;
	pthread_mutex_lock(&mirror->lock);
	ahead_end(&mirror->ahead);
	soft_mirror_count_learned(mirror);
	mirror->learns = learn->most;
	ahead_init(&mirror->ahead, learn->least / SZ_64K, learn->most / SZ_64K);
	mirror->learned = mirror->ahead.counts;
	pthread_mutex_unlock(&mirror->lock);
	return 0;
}
