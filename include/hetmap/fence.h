/* SPDX-License-Identifier: MIT */
/* Fence: the point where a piece of submitted work is done. */
#ifndef HETMAP_FENCE_H
#define HETMAP_FENCE_H

#include <hetmap/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_fence;

struct hm_fence_info {
	uint32_t struct_size;
	uint32_t done;         /* 1: signalled */
	int32_t status;        /* 0, or the work's negative errno; valid when done */
	uint32_t way_in;       /* worst enum hm_way_in of its arguments */
	uint64_t bytes_copied; /* by its arguments, there and so far back */
};

/**
 * hm_fence_wait - wait until the work is done and its bytes are the CPU's again
 * @fence: [in]
 * @timeout_ns: [in] relative; 0 polls, UINT64_MAX waits for ever
 *
 * Does for the work's arguments what hm_map_begin_cpu(READ | WRITE) does. Where not
 * all of them fit where CPUs reach them (HM_CAP_BRACKET), the result is the work's all
 * the same and hm_errmsg() says which did not: bracket what is touched.
 *
 * Errors: -ETIME not done yet; any other is the work's own: -EIO the driver
 * failed, -ETIMEDOUT its engine was reset, -EFAULT an address that is not bound on
 * its device (the text has it), -ENODEV its device was taken away, or what a CPU
 * function returned.
 */
HM_API int hm_fence_wait(struct hm_fence *fence, uint64_t timeout_ns);

/**
 * hm_fence_fd - a file descriptor that polls readable when the work is done
 * @fence:  [in] after it has signalled, too
 * @ret_fd: [out] O_CLOEXEC; the caller closes it
 *
 * Made on first request. Afterwards the caller brackets its CPU access by
 * itself, or calls hm_fence_wait(fence, 0).
 *
 * Errors: -EMFILE; -ENOMEM; -EIO.
 */
HM_API int hm_fence_fd(struct hm_fence *fence, int *ret_fd);

/**
 * hm_fence_query - state of a fence, without waiting
 * @fence: [in]
 * @ret_info: [in,out] struct_size set by the caller
 *
 * Errors: -E2BIG.
 */
HM_API int hm_fence_query(struct hm_fence *fence, struct hm_fence_info *ret_info);

/** hm_fence_ref - take a reference; returns @fence. NULL gives NULL. */
HM_API struct hm_fence *hm_fence_ref(struct hm_fence *fence);

/** hm_fence_unref - drop a reference; NULL is allowed. The work goes on. */
HM_API void hm_fence_unref(struct hm_fence *fence);

#ifdef __cplusplus
}
#endif

#endif
