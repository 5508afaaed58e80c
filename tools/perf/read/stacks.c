// SPDX-License-Identifier: MIT
/*
 * Call chains: one for each object and list of addresses. The mapped code is asked for when a
 * chain is met first, as for call sites.
 */
#include "stacks.h"

#include <linux/perf_event.h>
#include <search.h>
#include <stdlib.h>

#include "spaces_name.h"

struct stacks {
	struct spaces *spaces;
	bool by_thread;
	void *tree;
	struct stack **all;
	uint32_t n, room;
	struct stack *key; /* with room for the longest */
};

struct stacks *stacks_create(struct spaces *spaces, bool by_thread)
{
	struct stacks *stacks = calloc(1, sizeof(*stacks));

	if (!stacks)
		return NULL;
	stacks->spaces = spaces;
	stacks->by_thread = by_thread;
	stacks->key = calloc(1, sizeof(*stacks->key) +
					STACK_FRAMES_MOST * sizeof(stacks->key->frame[0]));
	if (!stacks->key) {
		free(stacks);
		return NULL;
	}
	return stacks;
}

static void keep_node(void *node)
{
	(void)node;
}

void stacks_free(struct stacks *stacks)
{
	uint32_t i;

	if (!stacks)
		return;
	tdestroy(stacks->tree, keep_node);
	for (i = 0; i < stacks->n; i++)
		free(stacks->all[i]);
	free(stacks->all);
	free(stacks->key);
	free(stacks);
}

static int compare_numbers(uint64_t x, uint64_t y)
{
	return (x > y) - (x < y);
}

static int compare(const void *a, const void *b)
{
	const struct stack *x = a, *y = b;
	int r = compare_numbers((uintptr_t)x->of, (uintptr_t)y->of);
	uint32_t i;

	r = r ? r : compare_numbers(x->pid, y->pid);
	r = r ? r : compare_numbers(x->tid, y->tid);
	r = r ? r : compare_numbers(x->code, y->code);
	r = r ? r : compare_numbers((uintptr_t)x->function, (uintptr_t)y->function);
	r = r ? r : compare_numbers((uintptr_t)x->module, (uintptr_t)y->module);
	r = r ? r : compare_numbers(x->top.address, y->top.address);
	r = r ? r : compare_numbers(x->n, y->n);
	for (i = 0; !r && i < x->n; i++)
		r = compare_numbers(x->frame[i].ip, y->frame[i].ip);
	return r;
}

/* Those of the program: the kernel's are behind a marker of their own. */
static void take_chain(struct stack *key, const struct recorded_event *event)
{
	bool kernel = false;
	uint32_t i;

	for (i = 0; i < event->n_chain && key->n < STACK_FRAMES_MOST; i++) {
		if (event->chain[i] >= PERF_CONTEXT_MAX)
			kernel = event->chain[i] == PERF_CONTEXT_KERNEL;
		else if (!kernel)
			key->frame[key->n++].ip = event->chain[i];
	}
	if (!key->n)
		key->frame[key->n++].ip = event->ip;
}

static struct place place_of(struct spaces *spaces, uint32_t pid, uint64_t address)
{
	struct place place = { .offset = address, .address = address };
	uint64_t offset;

	place.file = spaces_code(spaces, pid, address, &offset);
	if (place.file)
		place.offset = offset;
	return place;
}

/* A call is before where it returns to. */
static void look_up(struct stacks *stacks, struct stack *stack)
{
	uint32_t i;

	for (i = 0; i < stack->n; i++)
		stack->frame[i].place =
			place_of(stacks->spaces, stack->pid, stack->frame[i].ip - (i != 0));
}

struct place stacks_top(struct spaces *spaces, const struct recorded_event *event, uint64_t ip)
{
	struct place place = { 0 };
	uint64_t offset;
	const char *file = event->stack_top ? spaces_code(spaces, event->pid, ip, &offset) :
					      NULL;

	if (!file || !name_is_c_library(file))
		return place;
	place = place_of(spaces, event->pid, event->stack_top - 1);
	return place.file ? place : (struct place){ 0 };
}

static int grow(struct stacks *stacks)
{
	struct stack **more;

	if (stacks->n < stacks->room)
		return 0;
	more = reallocarray(stacks->all, 2 * (size_t)stacks->room + 64, sizeof(*more));
	if (!more)
		return -1;
	stacks->all = more;
	stacks->room = 2 * stacks->room + 64;
	return 0;
}

/* false: no memory. */
static bool make_key(struct stacks *stacks, struct counted *counted,
		     const struct recorded_event *event)
{
	struct stack *key = stacks->key;

	key->of = counted;
	key->pid = event->pid;
	key->tid = stacks->by_thread ? event->tid : 0;
	key->code = spaces_code_state(stacks->spaces, event->pid);
	key->function = key->module = NULL;
	key->top = (struct place){ 0 };
	key->n = 0;
	if (!event->function) {
		take_chain(key, event);
		key->top = stacks_top(stacks->spaces, event, key->frame[0].ip);
		return true;
	}
	key->function = spaces_string(stacks->spaces, event->function);
	key->module = spaces_string(stacks->spaces, event->module);
	return key->function && key->module;
}

struct stack *stacks_of(struct stacks *stacks, struct counted *counted,
			const struct recorded_event *event)
{
	struct stack *key = stacks->key, *stack;
	size_t size;
	uint32_t i;
	void *node;

	if (!make_key(stacks, counted, event))
		return NULL;
	node = tfind(key, &stacks->tree, compare);
	if (node)
		return *(struct stack **)node;
	size = sizeof(*stack) + key->n * sizeof(stack->frame[0]);
	stack = grow(stacks) ? NULL : malloc(size);
	if (!stack)
		return NULL;
	*stack = *key;
	stack->faults = 0;
	for (i = 0; i < key->n; i++)
		stack->frame[i] = key->frame[i];
	look_up(stacks, stack);
	if (!tsearch(stack, &stacks->tree, compare)) {
		free(stack);
		return NULL;
	}
	return stacks->all[stacks->n++] = stack;
}

uint32_t stacks_count(const struct stacks *stacks)
{
	return stacks->n;
}

const struct stack *stacks_at(const struct stacks *stacks, uint32_t index)
{
	return stacks->all[index];
}
