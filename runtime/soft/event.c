// SPDX-License-Identifier: MIT
/* Events of a device's mirror, in the library's terms. */
#include "soft/event.h"

#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "tell/publish_range.h"

static const struct {
	uint32_t kind; /* enum hm_range_event_kind */
	uint32_t why;
} kinds[] = {
	[HETSIM_EVENT_FAULT] = { HM_RANGE_FAULT, HM_RANGE_BY_FAULT },
	[HETSIM_EVENT_FAULT_REFUSED] = { HM_RANGE_FAULT, HM_RANGE_BY_FAULT },
	[HETSIM_EVENT_INVALIDATE] = { HM_RANGE_INVALIDATE, HM_RANGE_BY_CPU },
	[HETSIM_EVENT_EVICT] = { HM_RANGE_EVICT, HM_RANGE_BY_EVICTION },
	[HETSIM_EVENT_PREFETCH] = { HM_RANGE_PREFETCHED, HM_RANGE_BY_PREFETCH },
	[HETSIM_EVENT_PREFETCH_USED] = { HM_RANGE_PREFETCH_USED, HM_RANGE_BY_PREFETCH },
	[HETSIM_EVENT_PREFETCH_WASTED] = { HM_RANGE_PREFETCH_WASTED, HM_RANGE_BY_PREFETCH },
	[HETSIM_EVENT_MIGRATE_BEGIN] = { HM_RANGE_MIGRATE_BEGIN, 0 },
	[HETSIM_EVENT_MIGRATE_END] = { HM_RANGE_MIGRATE_END, 0 },
};

void sim_event_translate(const struct hetsim_event *from, struct hm_range_event *to)
{
	memset(to, 0, sizeof(*to));
	if (from->kind < ARRAY_SIZE(kinds)) {
		to->kind = kinds[from->kind].kind;
		to->why = kinds[from->kind].why;
	}
	to->time = from->ns;
	to->address = from->address;
	to->length = from->length;
	if (from->kind == HETSIM_EVENT_FAULT_REFUSED)
		to->status = -EFAULT;
	else if (from->kind == HETSIM_EVENT_PREFETCH)
		to->status = -(int32_t)from->value;
	else if (from->kind == HETSIM_EVENT_MIGRATE_BEGIN)
		to->status = from->value == HETSIM_LOCATION_DEVICE ? HM_RANGE_DEVICE :
								     HM_RANGE_HOST;
	to->access = from->write ? HM_READ | HM_WRITE : HM_READ;
}

void sim_event_publish(const char *accel, const struct hetsim_event *event)
{
	struct hm_range_event translated;

	if (event->kind == HETSIM_EVENT_LOST) {
		publish_range_lost(event->value);
		return;
	}
	sim_event_translate(event, &translated);
	if (event->kind == HETSIM_EVENT_MIGRATE_END ||
	    event->kind == HETSIM_EVENT_PREFETCH_WASTED)
		publish_range(accel, &translated, event->value, 0);
	else if (translated.kind && event->kind != HETSIM_EVENT_PREFETCH)
		publish_range(accel, &translated, 0, event->duration_ns);
}
