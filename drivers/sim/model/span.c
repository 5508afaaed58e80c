// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Ranges of device addresses, and whether one can be bound.
 */
#include "model.h"

int sim_span_check(u64 address, u64 length)
{
	u64 end;

	if (!length || (address | length) & (SIM_PAGE_SIZE - 1))
		return -EINVAL;
	if (check_add_overflow(address, length, &end))
		return -EOVERFLOW;
	return end > SIM_VA_PAGES << SIM_PAGE_SHIFT ? -ERANGE : 0;
}

struct sim_span sim_span_common(struct sim_span a, struct sim_span b)
{
	struct sim_span common = { .start = a.start > b.start ? a.start : b.start };
	u64 end = sim_span_end(&a);

	if (end > sim_span_end(&b))
		end = sim_span_end(&b);
	if (end > common.start)
		common.n_pages = end - common.start;
	return common;
}

int sim_span_check_free(const struct sim_span *span, const struct sim_span *next,
			unsigned int n_bindings)
{
	if (next && next->start < sim_span_end(span))
		return -EEXIST;
	return n_bindings == SIM_MAX_BINDINGS ? -ENOSPC : 0;
}

int sim_span_check_buffer(const struct sim_span *span, u64 first, u64 n_pages,
			  unsigned int n_bindings)
{
	if (first >= n_pages || span->n_pages > n_pages - first)
		return -ERANGE;
	return n_bindings == SIM_MAX_BUFFER_BINDINGS ? -ENOSPC : 0;
}
