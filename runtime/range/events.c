// SPDX-License-Identifier: MIT
/* Streams of events: each with its own place in the events of an accelerator. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/sys.h"
#include "range/range.h"

#define LOOK_NS 1000000

struct hm_range_events {
	uint32_t fork_gen;
	struct hm_accel *accel; /* with a reference */
	uint64_t cursor;
	uint64_t lost; /* not told yet */
};

int hm_range_events_open(struct hm_accel *accel, struct hm_range_events **ret_events)
{
	struct hm_range_events *events;
	struct hm_range_event event;
	struct hm_accel *who;
	uint64_t lost;
	uint32_t n;
	int r;

	err_begin();
	if (!ret_events)
		return err_set(-EINVAL, "hm_range_events_open: ret_events is NULL");
	r = range_choose(accel, "hm_range_events_open", &who);
	if (r)
		return r;
	if (!who)
		return err_set(accel ? -EOPNOTSUPP : -EINVAL,
			       "hm_range_events_open: the host tells of no events: pass an "
			       "accelerator with HM_ACCEL_MIRROR");
	events = sys_calloc(1, sizeof(*events));
	if (!events)
		return err_set(-ENOMEM, "hm_range_events_open: no memory");
	events->cursor = UINT64_MAX;
	r = who->ops->range_events(who->data, &events->cursor, &event, 0, &n, &lost);
	if (r) {
		free(events);
		return r;
	}
	events->fork_gen = fork_generation;
	events->accel = hm_accel_ref(who);
	*ret_events = events;
	return 0;
}

static int look(struct hm_range_events *events, struct hm_range_event *array, uint32_t capacity,
		uint32_t *ret_n)
{
	const struct hm_accel_ops *ops = events->accel->ops;
	uint64_t lost = 0;
	int r;

	r = ops->range_events(events->accel->data, &events->cursor, array, capacity, ret_n,
			      &lost);
	if (!r)
		events->lost += lost;
	return r;
}

int hm_range_events_read(struct hm_range_events *events, struct hm_range_event *array,
			 uint32_t capacity, uint64_t timeout_ns, uint32_t *ret_n,
			 uint64_t *ret_lost)
{
	const struct timespec nap = { 0, LOOK_NS };
	uint64_t begin = time_now_ns();
	uint32_t n = 0;
	int r;

	err_begin();
	if (!events || !array || !capacity || !ret_n)
		return err_set(-EINVAL, "hm_range_events_read: %s",
			       capacity ? "a pointer is NULL" : "capacity is 0");
	if (events->fork_gen != fork_generation)
		return err_set(-EOWNERDEAD, "hm_range_events_read: the parent process made the "
					    "stream");
	for (;;) {
		r = look(events, array, capacity, &n);
		if (r || n)
			break;
		if (time_now_ns() - begin >= timeout_ns)
			return err_set(-ETIME, "hm_range_events_read: no event came in time");
		nanosleep(&nap, NULL);
	}
	if (r)
		return r;
	*ret_n = n;
	if (ret_lost)
		*ret_lost = events->lost;
	events->lost = 0;
	return 0;
}

void hm_range_events_close(struct hm_range_events *events)
{
	if (!events)
		return;
	if (events->fork_gen == fork_generation)
		hm_accel_unref(events->accel);
	free(events);
}
