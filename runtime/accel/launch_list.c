// SPDX-License-Identifier: MIT
/* A launch with its arguments as a list: calls the public function, as any caller would. */
#include <stdarg.h>

#include <hetmap/queue.h>

int hm_queue_launch_list(struct hm_queue *queue, struct hm_kernel *kernel, uint64_t n,
			 struct hm_fence **ret_fence, ...)
{
	const uint64_t grid[3] = { n, 1, 1 };
	struct hm_arg args[HM_KERNEL_MAX_ARGS + 1];
	uint32_t n_arg = 0;
	va_list list;

	va_start(list, ret_fence);
	do {
		args[n_arg] = va_arg(list, struct hm_arg);
	} while (args[n_arg].kind != HM_ARG_END && ++n_arg <= HM_KERNEL_MAX_ARGS);
	va_end(list);
	return hm_queue_launch(queue, kernel, grid, args, n_arg, ret_fence);
}
