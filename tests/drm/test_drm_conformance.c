// SPDX-License-Identifier: MIT
/*
 * The conformance suite over the fake drivers: test_conformance, with them preloaded,
 * and of its subjects those nodes. Arguments are the suite's, instead of that choice.
 * A case that closes a node with handles left open ends there.
 */
#include <stdlib.h>

#include "drm/drm_support.h"

int main(int argc, char **argv)
{
	char nodes[] = "drm:*", *chosen[] = { NULL, nodes, NULL };

	setenv("FAKE_DRM_LEAK", "abort", 1);
	/* A card node, which no list shows. */
	setenv("FAKE_DRM_CARD", "1", 1);
	setenv("HETMAP_TEST_DEVICES", "drm:/dev/dri/card52", 0);
	/* TSan lets no child start a thread, as that of idle objects, beside lost ones. */
	if (TEST_TSAN)
		setenv("HETMAP_DRM_IDLE", "0", 1);
	drm_run_under_fake("test_conformance", argc > 1 ? argv : chosen);
}
