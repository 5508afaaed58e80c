/* SPDX-License-Identifier: MIT */
/* In place of a test program of videos, where the build has no libavcodec. */
#ifndef HETMAP_TESTS_NOT_BUILT_H
#define HETMAP_TESTS_NOT_BUILT_H

#include "lib/harness.h"

static void not_built(void)
{
	test_skip("video", "built without libavformat-dev, libavcodec-dev, libavutil-dev, "
			   "libswscale-dev, or libpng-dev");
}

static const struct test tests[] = {
	{ .name = "all", not_built },
	{ 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "video", tests);
}

#endif
