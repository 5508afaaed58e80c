// SPDX-License-Identifier: MIT
/*
 * fork(2): every object of the parent answers -EOWNERDEAD in the child, by comparing one
 * counter, without a system call. Each module holds across the fork the locks that the child
 * takes, so that the child finds them free and the data under them whole. The child takes no
 * other lock of a parent's object and calls no allocator.
 */
#include "base/fork.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

uint32_t fork_generation;

static const struct fork_part *parts;
static size_t n_part;

void fork_set_parts(const struct fork_part *all, size_t n)
{
	parts = all;
	n_part = n;
}

/* ---- frees that a child's handlers put off ---- */

struct left_over {
	struct left_over *next;
};

static _Atomic(struct left_over *) left_over;
static bool in_child; /* in its handlers, where no other thread is */

void fork_free(void *memory)
{
	struct left_over *it = memory;

	if (!in_child || !memory) {
		free(memory);
		return;
	}
	it->next = atomic_load_explicit(&left_over, memory_order_relaxed);
	atomic_store_explicit(&left_over, it, memory_order_relaxed);
}

static void free_left_over(void)
{
	struct left_over *it, *next;

	if (!atomic_load_explicit(&left_over, memory_order_relaxed))
		return;
	for (it = atomic_exchange(&left_over, NULL); it; it = next) {
		next = it->next;
		free(it);
	}
}

/* ---- handlers ---- */

static void prepare(void)
{
	size_t i;

	for (i = 0; i < n_part; i++)
		if (parts[i].prepare)
			parts[i].prepare();
}

static void parent(void)
{
	size_t i = n_part;

	while (i--)
		if (parts[i].parent)
			parts[i].parent();
}

static void child(void)
{
	size_t i = n_part;

	fork_generation++;
	in_child = true;
	while (i--)
		if (parts[i].child)
			parts[i].child();
	in_child = false;
}

static void init_once(void)
{
	size_t i;

	pthread_atfork(prepare, parent, child);
	for (i = 0; i < n_part; i++)
		if (parts[i].first)
			parts[i].first();
}

void fork_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, init_once);
	free_left_over();
}
