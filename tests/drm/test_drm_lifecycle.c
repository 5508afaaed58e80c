// SPDX-License-Identifier: MIT
/*
 * The walk over the table of lifecycles with the fake drivers preloaded, on their nodes
 * and on files and host memory, of which they make views: test_lifecycle.
 * Arguments are the walk's.
 */
#include <stdlib.h>

#include "drm/drm_support.h"

int main(int argc, char **argv)
{
	(void)argc;
	setenv("FAKE_DRM_LEAK", "abort", 1);
	/* TSan lets no child start a thread, as that of idle objects, beside lost ones. */
	if (TEST_TSAN)
		setenv("HETMAP_DRM_IDLE", "0", 1);
	/* No driver can take these: test_lifecycle walks them by itself. */
	setenv("HETMAP_LEAVE_OUT", "soft* fixed* fleeting* growing* minimal*", 0);
	drm_run_under_fake("test_lifecycle", argv);
}
