// SPDX-License-Identifier: MIT
/* NUMA placement of maps: a policy of the object (shared) or the map (private). */
#include "base/placement.h"

#include <errno.h>
#include <inttypes.h>
#include <numa.h>
#include <numaif.h>

#include <hetmap/buffer.h>

#include "base/err.h"
#include "base/sys.h"
#include "base/util.h"
#include "base/weights.h"

/* Indexed by enum hm_numa_mode. */
static const int modes[] = {
	[HM_NUMA_DEFAULT] = MPOL_DEFAULT,       [HM_NUMA_BIND] = MPOL_BIND,
	[HM_NUMA_INTERLEAVE] = MPOL_INTERLEAVE, [HM_NUMA_PREFERRED] = MPOL_PREFERRED,
	[HM_NUMA_WEIGHTED] = MPOL_INTERLEAVE, /* or what weights_kernel_mode() finds */
};

/* The nodes this process may take memory from, as a mask of the first 64. */
static uint64_t allowed_nodes(void)
{
	struct bitmask *mask = numa_get_mems_allowed();
	uint64_t nodes = 0;
	unsigned int i;

	if (!mask)
		return 0;
	for (i = 0; i < 64; i++)
		if (numa_bitmask_isbitset(mask, i))
			nodes |= 1ull << i;
	numa_bitmask_free(mask);
	return nodes;
}

int placement_check(uint32_t mode, uint64_t nodes)
{
	uint64_t allowed;

	if (mode >= ARRAY_SIZE(modes))
		return err_set(-EINVAL, "numa_mode %u is unknown: 0 to %zu are", mode,
			       ARRAY_SIZE(modes) - 1);
	if (mode == HM_NUMA_DEFAULT)
		return nodes ? err_set(-EINVAL,
				       "numa_nodes is set, and numa_mode is 0: set that, too") :
			       0;
	if (!nodes)
		return err_set(-EINVAL, "numa_mode %u needs a node in numa_nodes", mode);
	if (mode == HM_NUMA_PREFERRED && (nodes & (nodes - 1)))
		return err_set(-EINVAL,
			       "numa_nodes 0x%" PRIx64 " names several nodes: "
			       "HM_NUMA_PREFERRED takes one",
			       nodes);
	if (numa_available() < 0)
		return err_set(-EOPNOTSUPP, "this kernel has no NUMA policies: use "
					    "HM_NUMA_DEFAULT");
	allowed = allowed_nodes();
	if (nodes & ~allowed)
		return err_set(-EINVAL,
			       "numa_nodes 0x%" PRIx64 " names nodes beyond those this "
			       "process may use, 0x%" PRIx64,
			       nodes, allowed);
	return 0;
}

int placement_apply(void *address, uint64_t length, uint32_t mode, uint64_t nodes)
{
	int policy, r;

	if (mode == HM_NUMA_DEFAULT)
		return 0;
	policy = mode == HM_NUMA_WEIGHTED ? weights_kernel_mode(nodes) : modes[mode];
	/* By ranges: the file has the policy, see weights_place_file(). */
	if (policy < 0)
		return 0;
	r = sys_mbind(address, length, policy, nodes);
	if (r)
		return err_set(r, "placing memory on nodes 0x%" PRIx64 " (mbind): %s", nodes,
			       err_name(r));
	return 0;
}
