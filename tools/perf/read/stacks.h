/* SPDX-License-Identifier: MIT */
/*
 * Whole call chains, for flame graphs and for the work of devices: kept where they are asked
 * for.
 */
#ifndef HETMAP_STACKS_H
#define HETMAP_STACKS_H

#include "analysis.h"

/* Frames of a chain: those further out are left out. */
#define STACK_FRAMES_MOST 127

struct stack {
	struct counted *of;
	uint32_t pid, tid; /* tid 0: of any thread */
	uint32_t n;
	uint64_t faults;
	uint64_t code;                 /* the mapped code: see spaces_code_state() */
	struct place top;              /* as a site's */
	const char *function, *module; /* of a text, which has names in place of addresses */
	struct frame {
		uint64_t ip;
		struct place place; /* without a file: its offset is the address */
	} frame[];                  /* the innermost first */
};

struct stacks;

/* @by_thread: those of two threads are two. NULL: no memory. */
struct stacks *stacks_create(struct spaces *spaces, bool by_thread);
void stacks_free(struct stacks *stacks);

/*
 * The chain of that event, of @counted, which may be NULL, with its addresses as they are now.
 * NULL: no memory.
 */
struct stack *stacks_of(struct stacks *stacks, struct counted *counted,
			const struct recorded_event *event);

/*
 * The call that the top of the stack leads to, of an event whose instruction, @ip, is the C
 * library's. {}: that is not told, or leads to no code of a file.
 */
struct place stacks_top(struct spaces *spaces, const struct recorded_event *event, uint64_t ip);

uint32_t stacks_count(const struct stacks *stacks);
const struct stack *stacks_at(const struct stacks *stacks, uint32_t index);

#endif
