// SPDX-License-Identifier: MIT
/* The ladder of memory, for programs. */
#include <stdlib.h>

#include "api/door.h"
#include "base/sys.h"
#include "tier/tier.h"

int hm_tier_list(struct hm_tier *tiers, uint32_t capacity, uint32_t flags, uint32_t *ret_n)
{
	struct hm_tier *rungs;
	uint32_t stride = 0, i;
	int n, r;

	err_begin();
	if (!ret_n || (capacity && !tiers))
		return err_set(-EINVAL, "hm_tier_list: %s is NULL", ret_n ? "tiers" : "ret_n");
	if (flags & ~HM_TIER_MEASURE)
		return err_set(-EINVAL, "hm_tier_list: unknown flags 0x%x",
			       flags & ~HM_TIER_MEASURE);
	if (capacity) {
		stride = tiers[0].struct_size;
		r = struct_check_out(stride, sizeof(*tiers), offsetof(struct hm_tier, persist),
				     "hm_tier");
		if (r)
			return r;
	}
	rungs = sys_calloc(TIER_RUNGS_MAX, sizeof(*rungs));
	if (!rungs)
		return err_set(-ENOMEM, "no memory for the ladder of tiers");
	n = ladder_fill(rungs, flags & HM_TIER_MEASURE);
	for (i = 0; i < (uint32_t)n && i < capacity; i++) {
		struct hm_tier *to = (struct hm_tier *)((char *)tiers + (size_t)i * stride);

		to->struct_size = stride;
		struct_write(to, &rungs[i], stride);
	}
	free(rungs);
	/* A node that could not be measured has no figures: that is no failure. */
	err_clear();
	*ret_n = (uint32_t)n;
	return 0;
}
