// SPDX-License-Identifier: MIT
/* Copies for any CPU: aligned loads and stores of the compiler's, through the caches. */
#include <urcu/arch.h>

#include "copy/copy.h"
#include "copy/pieces.h"

static bool is_here(void)
{
	return true;
}

static void line(void *to, const void *from)
{
	pieces_store(to, from, COPY_LINE);
}

static void stores(void *to, const void *from, size_t length)
{
	pieces_store(to, from, length);
	copy_fence();
}

static void loads(void *to, const void *from, size_t length)
{
	cmm_smp_mb();
	pieces_load(to, from, length);
}

const struct copy_set copy_portable = {
	.name = "portable",
	.is_here = is_here,
	.stores = stores,
	.loads = loads,
	.line = line,
	.line_stores = COPY_LINE / PIECE_MOST,
};
