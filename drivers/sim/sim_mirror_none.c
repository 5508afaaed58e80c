// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The calls of the mirror on kernels that have none to give: without CONFIG_HMM_MIRROR. There the
 * device does not have HETSIM_FEATURE_MIRROR either.
 */
#include "sim.h"

int sim_mirror(struct file *file, void *argument)
{
	return -EOPNOTSUPP;
}

int sim_advise(struct file *file, void *argument)
{
	return -EOPNOTSUPP;
}

int sim_prefetch(struct file *file, void *argument)
{
	return -EOPNOTSUPP;
}

int sim_range_query(struct file *file, void *argument)
{
	return -EOPNOTSUPP;
}

int sim_learn(struct file *file, void *argument)
{
	return -EOPNOTSUPP;
}

int sim_mirror_events(struct file *file, void *argument)
{
	return -EOPNOTSUPP;
}
