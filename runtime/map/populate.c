// SPDX-License-Identifier: MIT
/*
 * Brings pages in ahead of their first touch, by several threads where that pays. Threads take
 * the range in steps, so that a thread that loses its CPU delays no more than one step.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "map/announce.h"
#include "base/compat.h"
#include "map/resident.h"
#include "base/rlimits.h"
#include "base/sys.h"
#include "base/thread.h"

/* For a smaller part a thread costs more than it saves: about 5 ms of populating. */
#define THREAD_LEAST MIB(16)
#define THREADS_MAX 8

/* Bytes of one madvise(), which is also the longest wait of a signal. */
#define STEP MIB(4)

/* For a file: the distance by which reads run ahead of the pages that are waited for. */
#define AHEAD MIB(64)

struct populate {
	char *address;
	uint64_t length;
	uint64_t step;
	bool write;
	struct hm_buffer *announce; /* a file: reads start before their pages are waited for */
	_Atomic uint64_t next;      /* offset of the next step to be taken */
	_Atomic int result;
};

/* Kernels before 5.14, and emulators: touches each page, which MADV_POPULATE would do. */
static void touch(char *address, uint64_t length, bool write)
{
	uint64_t offset, page = page_size();

	for (offset = 0; offset < length; offset += page) {
		volatile char *byte = address + offset;

		if (write)
			__atomic_fetch_or(byte, 0, __ATOMIC_RELAXED);
		else
			(void)*byte;
	}
}

/* Advice only: if it fails, the pages are read when they are waited for. */
static void announce(const struct populate *job, uint64_t offset, uint64_t length)
{
	if (job->announce && offset < job->length)
		announce_pages(job->announce, job->address + offset,
			       min_u64(length, job->length - offset));
}

/* Emulators of programs do (qemu-user 7.2): each advice succeeds, and none is taken. */
static bool advice_is_ignored(void)
{
	static _Atomic int known; /* 0: not yet; 1: no; 2: yes */
	char *here = (char *)&known;

	/* Any page will do: a kernel looks at the advice first, and knows none of that number. */
	if (!known)
		known = 1 +
			!sys_madvise(here - (uintptr_t)here % page_size(), page_size(), 12345);
	return known == 2;
}

static int populate_step(const struct populate *job, char *address, uint64_t length)
{
	int r;

	r = sys_madvise(address, length, job->write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
	if (r != -EINVAL && (r || !advice_is_ignored()))
		return r;
	touch(address, length, job->write);
	return 0;
}

static void *work(void *user)
{
	struct populate *job = user;
	uint64_t offset;
	int r;

	while (!job->result) {
		offset = atomic_fetch_add(&job->next, job->step);
		if (offset >= job->length)
			break;
		announce(job, offset + AHEAD, job->step);
		r = populate_step(job, job->address + offset,
				  min_u64(job->step, job->length - offset));
		if (r)
			job->result = r;
	}
	return NULL;
}

static uint32_t threads_for(uint64_t length)
{
	if (length < 2 * THREAD_LEAST)
		return 1;
	return (uint32_t)min_u64(min_u64(length / THREAD_LEAST, thread_processors()),
				 THREADS_MAX);
}

int resident_populate(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access)
{
	struct populate job = {
		.address = map->address + offset,
		.length = length,
		.step = max_u64(STEP, map->buffer->page_size),
		.write = access & HM_WRITE,
		.announce = buffer_is(map->buffer, HM_MEMORY_STORAGE) ? map->buffer : NULL,
	};
	uint32_t started, n = threads_for(length);
	pthread_t threads[THREADS_MAX];
	int r;

	announce(&job, 0, AHEAD);
	/* This thread works, too, and alone if no other thread can be made. */
	for (started = 0; started + 1 < n; started++)
		if (pthread_create(&threads[started], NULL, work, &job))
			break;
	work(&job);
	while (started--)
		pthread_join(threads[started], NULL);
	r = job.result;
	if (!r)
		return 0;
	if (r == -EFAULT || r == -EHWPOISON)
		return err_set(r,
			       "%s: a page could not be brought in (%s): poisoned memory, or "
			       "a file that became shorter",
			       map->buffer->name, err_name(r));
	return rlimits_explain_map(r, length, 0, "bringing pages in");
}
