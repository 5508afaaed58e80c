// SPDX-License-Identifier: MIT
/* Few descriptors and little memory to lock, as ulimit has it, on the host and on soft:0. */
#include "lib/scarce.h"

int main(int argc, char **argv)
{
	static const struct scarce_walk walks[] = {
		{ &scarce_descriptors, "host" },
		{ &scarce_descriptors, "soft:0" },
		{ &scarce_locked, "host" },
		{ &scarce_locked, "soft:0" },
		{ NULL, NULL },
	};

	return scarce_main(argc, argv, "scarce", walks, NULL);
}
