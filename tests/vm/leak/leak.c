// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Loses memory when it is loaded, which kmemleak has to find: tests/vm/under-debug.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>

/* So many, as the addresses of a few may be left on a stack for a while. */
#define LEAK_TIMES 16

static int __init leak_init(void)
{
	/* As much as kmemleak shows in its first line of a leak. */
	static const char text[] = "hetmap test leak";
	unsigned int i;

	for (i = 0; i < LEAK_TIMES; i++) {
		if (!kmemdup(text, sizeof(text), GFP_KERNEL))
			return -ENOMEM;
	}
	return 0;
}

static void __exit leak_exit(void)
{
}

module_init(leak_init);
module_exit(leak_exit);

MODULE_DESCRIPTION("Loses memory");
MODULE_AUTHOR("The hetmap authors");
MODULE_LICENSE("Dual MIT/GPL");
