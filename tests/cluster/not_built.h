/* SPDX-License-Identifier: MIT */
/* In place of a test program of arrays, where the build has no MPI. */
#ifndef HETMAP_TESTS_CLUSTER_NOT_BUILT_H
#define HETMAP_TESTS_CLUSTER_NOT_BUILT_H

#include "lib/harness.h"

static void not_built(void)
{
	test_skip("cluster", TEST_TSAN ? "MPI is not built for TSan" :
					 "built without MPI (libmpich-dev, mpich)");
}

static const struct test tests[] = {
	{ .name = "all", not_built },
	{ 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "cluster", tests);
}

#endif
