/* SPDX-License-Identifier: MIT */
/* Calls of an application's functions in the middle of the library's own work. */
#ifndef HETMAP_CALLBACK_H
#define HETMAP_CALLBACK_H

#include <stdbool.h>

#include "base/err.h"
#include "base/guard_slot.h"

struct callback {
	struct hm_guard *guard;
	bool held;
};

/*
 * Must surround each such call. Open scopes of the thread don't count in there, and the texts of
 * the present call stay. If it has none yet, the function has the texts to itself, and leaves
 * none. Not for handlers.
 */
static inline struct callback callback_begin(void)
{
	struct callback callback = {
		.guard = guard_suspend(),
		.held = err_state.said || err_state.warned,
	};

	if (callback.held)
		err_hold();
	return callback;
}

static inline void callback_end(struct callback callback)
{
	if (callback.held)
		err_release();
	else
		err_begin();
	guard_resume(callback.guard);
}

#endif
