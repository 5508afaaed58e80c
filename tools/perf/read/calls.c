// SPDX-License-Identifier: MIT
/*
 * System calls that change mappings.
 * The kernel's record of a mapping covers all that is one mapping with it afterwards: arguments
 * and result of mmap(2), between which the record stands, give the part that the call added.
 * The record of mprotect(2) adds nothing. munmap(2) and mremap(2) have no record.
 */
#include "calls.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#define PAGE UINT64_C(4096)

/* A thread, and the call that it is in. */
struct calling {
	uint32_t tid;
	bool inside;
	enum point call; /* the call that the thread is in */
	uint64_t address, length, new_length;
	struct recorded_event held; /* longer than the call asked for */
	char *name;                 /* the held one's; NULL: none is */
};

struct calls {
	struct spaces *spaces;
	void *threads; /* tree */
};

static int compare_threads(const void *a, const void *b)
{
	const struct calling *x = a, *y = b;

	return (x->tid > y->tid) - (x->tid < y->tid);
}

static struct calling *thread_of(struct calls *calls, uint32_t tid, bool make)
{
	const struct calling key = { .tid = tid };
	void *node = tfind(&key, &calls->threads, compare_threads);
	struct calling *thread;

	if (node || !make)
		return node ? *(struct calling **)node : NULL;
	thread = calloc(1, sizeof(*thread));
	if (!thread)
		return NULL;
	thread->tid = tid;
	if (tsearch(thread, &calls->threads, compare_threads))
		return thread;
	free(thread);
	return NULL;
}

static uint64_t whole_pages(uint64_t length)
{
	return length > UINT64_MAX - PAGE ? length : (length + PAGE - 1) / PAGE * PAGE;
}

/* Results from -4095 to -1 are errors. */
static bool is_address(uint64_t result)
{
	return result < (uint64_t)-4095 && result % PAGE == 0;
}

/* ---- mmap ---- */

static int hold(struct calling *thread, const struct recorded_event *event)
{
	free(thread->name);
	thread->held = *event;
	thread->name = strdup(event->name);
	thread->held.name = thread->name;
	return thread->name ? 0 : -ENOMEM;
}

/* With no result it is told as the kernel did. */
static int let_go(struct calls *calls, struct calling *thread, uint64_t result)
{
	uint64_t end = thread->held.address + thread->held.length;
	uint64_t length = whole_pages(thread->length);
	int r;

	if (!thread->name)
		return 0;
	if (is_address(result) && result >= thread->held.address && result < end &&
	    length <= end - result) {
		thread->held.address = result;
		thread->held.length = length;
		thread->held.all_new = true;
	}
	r = spaces_event(calls->spaces, &thread->held);
	free(thread->name);
	thread->name = NULL;
	return r;
}

static int on_map(struct calls *calls, const struct recorded_event *event)
{
	struct calling *thread = thread_of(calls, event->tid, false);
	struct recorded_event whole = *event;

	if (!thread || !thread->inside || !spaces_is_memory(event))
		return spaces_event(calls->spaces, event);
	if (thread->call == POINT_MPROTECT)
		return spaces_known(calls->spaces, event);
	if (thread->call == POINT_MMAP && thread->length &&
	    event->length > whole_pages(thread->length))
		return hold(thread, event);
	whole.all_new = thread->call == POINT_MMAP && thread->length &&
			event->length == whole_pages(thread->length);
	return spaces_event(calls->spaces, &whole);
}

/* ---- all of them ---- */

static int begin(struct calls *calls, struct calling *thread,
		 const struct recorded_event *event)
{
	int r = let_go(calls, thread, UINT64_MAX);

	thread->inside = true;
	thread->call = event->point;
	thread->address = event->value[CALL_ADDRESS];
	thread->length = event->value[CALL_LENGTH];
	thread->new_length = event->value[CALL_NEW_LENGTH];
	return r;
}

static int end(struct calls *calls, struct calling *thread, uint32_t pid, enum point call,
	       uint64_t result)
{
	/* Its beginning was lost. */
	if (!thread->inside || thread->call != call)
		return 0;
	thread->inside = false;
	if (call == POINT_MREMAP && is_address(result) && thread->address % PAGE == 0)
		return spaces_move(calls->spaces, pid, thread->address,
				   whole_pages(thread->length), result,
				   whole_pages(thread->new_length));
	return let_go(calls, thread, result);
}

static enum object_call call_of(enum point point)
{
	switch (point) {
	case POINT_MREMAP:
		return OBJECT_MREMAP;
	case POINT_MPROTECT:
		return OBJECT_MPROTECT;
	case POINT_MUNMAP:
		return OBJECT_MUNMAP;
	default:
		return OBJECT_MADVISE;
	}
}

static int on_point(struct calls *calls, const struct recorded_event *event)
{
	const uint32_t range = 1u << CALL_ADDRESS | 1u << CALL_LENGTH;
	bool ends = event->point == POINT_MMAP_DONE || event->point == POINT_MREMAP_DONE ||
		    event->point == POINT_MPROTECT_DONE;
	uint64_t address = event->value[CALL_ADDRESS];
	struct calling *thread = thread_of(calls, event->tid, true);
	int r = 0;

	if (!thread)
		return -ENOMEM;
	if (ends)
		return event->known & 1u << CALL_RESULT ?
			       end(calls, thread, event->pid, event->point - 1, address) :
			       0;
	if ((event->known & range) != range)
		return 0;
	if (event->point != POINT_MMAP)
		r = spaces_count(calls->spaces, event->pid, address, call_of(event->point));
	if (r || event->point == POINT_MADVISE)
		return r;
	if (event->point != POINT_MUNMAP)
		return begin(calls, thread, event);
	return address % PAGE ? 0 :
				spaces_unmap(calls->spaces, event->pid, address,
					     whole_pages(event->value[CALL_LENGTH]));
}

int calls_event(struct calls *calls, const struct recorded_event *event)
{
	return event->kind == RECORDED_MAP ? on_map(calls, event) : on_point(calls, event);
}

struct calls *calls_create(struct spaces *spaces)
{
	struct calls *calls = calloc(1, sizeof(*calls));

	if (calls)
		calls->spaces = spaces;
	return calls;
}

static void free_thread(void *value)
{
	struct calling *thread = value;

	free(thread->name);
	free(thread);
}

void calls_free(struct calls *calls)
{
	if (!calls)
		return;
	tdestroy(calls->threads, free_thread);
	free(calls);
}
