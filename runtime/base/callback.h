/* SPDX-License-Identifier: MIT */
/* Calls of an application's functions in the middle of the library's own work. */
#ifndef HETMAP_CALLBACK_H
#define HETMAP_CALLBACK_H

#include "base/err.h"
#include "base/guard_slot.h"

struct callback {
	struct hm_guard *guard;
	struct err_state texts;
};

/*
 * Must surround each such call. Open scopes of the thread don't count in there. Calls of the
 * function have texts of their own, and the texts of the present call stay. In a callback's
 * callback there are no further ones: the function's calls leave none there if the present call
 * has one. Not for handlers.
 */
static inline struct callback callback_begin(void)
{
	struct callback callback = { guard_suspend(), err_state };

	if (err_state.in_callback)
		err_state.held += err_state.said || err_state.warned;
	else
		err_state = (struct err_state){ .in_callback = true, .sets = err_state.sets };
	return callback;
}

static inline void callback_end(struct callback callback)
{
	callback.texts.sets = err_state.sets;
	err_state = callback.texts;
	guard_resume(callback.guard);
}

#endif
