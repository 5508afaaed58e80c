/* SPDX-License-Identifier: MIT */
/* In place of a test program of tables, where the build has no Arrow C++. */
#ifndef HETMAP_TESTS_TABLE_NOT_BUILT_H
#define HETMAP_TESTS_TABLE_NOT_BUILT_H

#include "lib/harness.h"

static void not_built(void)
{
	test_skip("table", TEST_TSAN ? "libarrow is not built for TSan" :
				       "built without Arrow C++: make table");
}

static const struct test tests[] = {
	{ .name = "all", not_built },
	{ 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "table", tests);
}

#endif
