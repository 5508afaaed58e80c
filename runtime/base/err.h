/* SPDX-License-Identifier: MIT */
/*
 * Error texts: for each thread one sentence about its last failed call, set where the failure is
 * known, and one about less than was asked for.
 */
#ifndef HETMAP_ERR_H
#define HETMAP_ERR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/util.h"

#define ERR_TEXT_MAX 8192
#define ERR_WARNING_MAX 2048

/*
 * State of the thread's two texts. It is apart from them, so that a call forgets both by a store or
 * two, and the texts' memory stays untouched until the first failure. (The model "initial-exec"
 * would be faster, and would keep Python and others from loading the library by dlopen(3): the
 * texts do not fit into what the loader keeps free for that.)
 */
struct err_state {
	bool said;        /* the text is of the present call, or of the last one */
	bool warned;      /* the warning is, likewise */
	bool in_callback; /* the thread is in a function of the application: callback.h */
	uint32_t held;    /* err_hold()s */
	uint32_t sets;    /* texts so far */
};

extern _Thread_local struct err_state err_state;

/*
 * The door: the first statement of each public function that returns an errno. The thread's texts
 * are then of this call. Code inside the library never calls such a function: it would forget
 * the texts of the call that it works for. (tests/build/test_build.sh checks the references of
 * the object files, tests/api/test_errors.c each function.) Doors that leave the texts alone are
 * those of hm_errmsg(3).
 */
static inline void err_begin(void)
{
	if (unlikely(err_state.held))
		return;
	err_state.said = false;
	err_state.warned = false;
}

/*
 * Sets the thread's text and returns @r, so that a failure is one statement:
 *
 *     return err_set(-ERANGE, "%s: offset %" PRIu64 " is past ...", ...);
 *
 * A text longer than ERR_TEXT_MAX is cut; nothing is allocated. The text is one line: a control
 * character becomes a '?'. The attribute "cold" makes the compiler move paths to it out of the way
 * of success.
 */
int err_set(int r, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* Puts @lines, the output of a compiler, below the sentence. Returns @r. */
int err_append_lines(int r, const char *lines) __attribute__((cold));

/* Puts "CONTEXT: " before the present text: for callers that know the context. */
int err_prefix(int r, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* Puts the name of @r before the text, unless the text has it. Returns @r. */
int err_with_name(int r);

/* Forgets the thread's text: a try failed, and the call goes on in another way. */
void err_clear(void);

/*
 * Tells of a success with less than was asked for: adds a sentence to the call's warning, and
 * forgets the text of the try that failed.
 */
void err_warn(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* The call goes on in spite of the failure: its text, if it has one, becomes a warning. */
void err_survive(void) __attribute__((cold));

/*
 * Between the two, nothing changes the thread's texts: for undoing after a failure, and for work
 * that is not the caller's. They nest.
 */
static inline void err_hold(void)
{
	err_state.held++;
}

static inline void err_release(void)
{
	err_state.held--;
}

/*
 * Has a text been set since err_count() gave @count? Answers whether a callee, which may set a
 * text or only return an errno, has explained its failure.
 */
static inline uint32_t err_count(void)
{
	return err_state.sets;
}

static inline bool err_said_since(uint32_t count)
{
	return err_state.said && err_state.sets != count;
}

/* "ENOMEM (Cannot allocate memory)" for -ENOMEM; static storage per errno. */
const char *err_name(int r);

#endif
