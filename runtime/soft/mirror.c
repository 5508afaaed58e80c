// SPDX-License-Identifier: MIT
/*
 * The calls of the mirror. The twin has no page table of the process to mirror: it does not have
 * HETSIM_FEATURE_MIRROR, and says so to who calls nevertheless.
 */
#include <errno.h>

#include "soft/twin.h"

int soft_mirror(struct soft_file *file, void *argument)
{
	(void)file;
	(void)argument;
	return -EOPNOTSUPP;
}

int soft_advise(struct soft_file *file, void *argument)
{
	(void)file;
	(void)argument;
	return -EOPNOTSUPP;
}

int soft_prefetch(struct soft_file *file, void *argument)
{
	(void)file;
	(void)argument;
	return -EOPNOTSUPP;
}

int soft_range_query(struct soft_file *file, void *argument)
{
	(void)file;
	(void)argument;
	return -EOPNOTSUPP;
}

int soft_mirror_events(struct soft_file *file, void *argument)
{
	(void)file;
	(void)argument;
	return -EOPNOTSUPP;
}
