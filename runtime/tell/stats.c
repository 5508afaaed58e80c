// SPDX-License-Identifier: MIT
/* Counters of the process. */
#include "core/core.h"
#include "tell/publish.h"

struct stats_counters stats;

static uint64_t get(_Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

int hm_stats_get(struct hm_stats *ret_stats)
{
	const struct retire_counts retirement = retire_counts();
	struct hm_stats now;
	int r;

	err_begin();
	if (!ret_stats)
		return err_set(-EINVAL, "hm_stats_get: ret_stats is NULL");
	r = struct_check_out(ret_stats->struct_size, sizeof(now),
			     offsetof(struct hm_stats, find_retries), "hm_stats");
	if (r)
		return r;
	now = (struct hm_stats){
		.devices = get(&stats.devices),
		.buffers = get(&stats.buffers),
		.maps = get(&stats.maps),
		.views = get(&stats.views),
		.bytes_mapped = get(&stats.bytes_mapped),
		.bytes_reserved = get(&stats.bytes_reserved),
		.bytes_locked = get(&stats.bytes_locked),
		.bytes_copied = get(&stats.bytes_copied),
		.launches = get(&stats.launches),
		.slab_bytes = registry_slab_bytes(),
		.find_retries = registry_find_retries(),
		.touches_outside = get(&stats.touches_outside),
		.bytes_idle = get(&stats.bytes_idle),
		.bytes_shadow = get(&stats.bytes_shadow),
		.retired = retirement.retired,
		.retired_in_place = retirement.in_place,
		.backlog = retirement.objects,
		.backlog_bytes = retirement.bytes,
		.unpublished = publish_left_out(),
	};
	struct_write(ret_stats, &now, ret_stats->struct_size);
	return 0;
}
