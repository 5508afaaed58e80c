// SPDX-License-Identifier: MIT
/* hetmap plan: all of it is the extension's. */
#include "common/extension.h"
#include "subcommands.h"

int plan_main(int argc, char **argv)
{
	(void)argc;
	return extension_run("graph", "plan", argv);
}
