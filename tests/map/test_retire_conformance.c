// SPDX-License-Identifier: MIT
/*
 * The conformance suite on every device, DRM nodes of the fake drivers among them, with
 * all that is unreferenced left to a thread. Arguments are the suite's.
 */
#include <stdlib.h>

#include "drm/drm_support.h"

int main(int argc, char **argv)
{
	char all[] = "*", *chosen[] = { NULL, all, NULL };

	setenv("FAKE_DRM_LEAK", "abort", 1);
	setenv("HETMAP_RETIRE", "64,16", 1);
	/* TSan lets no child start a thread, as that of idle objects, beside lost ones. */
	if (TEST_TSAN)
		setenv("HETMAP_DRM_IDLE", "0", 1);
	drm_run_under_fake("test_conformance", argc > 1 ? argv : chosen);
}
