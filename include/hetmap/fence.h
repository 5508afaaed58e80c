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
 * Errors: -ETIME not done yet; any other is the work's own: -EIO the driver failed, or
 * bytes of an argument were lost and replaced (hetmap/guard.h), -ETIMEDOUT it ran too
 * long, and its engine was reset, -ECANCELED the engine was reset on request, or for work
 * submitted before it to the same queue, and it has not run, -EFAULT
 * an address that is not bound on its device (the text has it), -EOVERFLOW it may
 * have failed, too long ago to be known, -ENODEV its device was taken away, or that of
 * bytes it was given (hetmap/lost.h), or a map was lost, -EPIPE as of hm_fence_import_fd,
 * or what a CPU function returned.
 */
HM_API int hm_fence_wait(struct hm_fence *fence, uint64_t timeout_ns);

/**
 * hm_fence_fd - a file descriptor that polls readable when the work is done
 * @fence:  [in] after it has signalled, too
 * @ret_fd: [out] O_CLOEXEC; the caller closes it
 *
 * Made on first request. Afterwards the caller brackets its CPU access by
 * itself, or calls hm_fence_wait(fence, 0). Of a merged fence it is a sync_file where
 * those that are not done yet all are; else a thread of the library's waits for them,
 * until they are done or nobody has the descriptor any more.
 *
 * Errors: -EMFILE; -ENOMEM; -EIO; -EAGAIN no thread could be started (it is tried once);
 * -EOPNOTSUPP a caller's own accelerator has no descriptor; -ENODEV its device was taken
 * away meanwhile: hm_fence_wait() tells.
 */
HM_API int hm_fence_fd(struct hm_fence *fence, int *ret_fd);

/**
 * hm_fence_query - state of a fence, without waiting
 * @fence: [in]
 * @ret_info: [in,out] struct_size set by the caller
 *
 * Errors: -E2BIG; -EIO the driver can't tell. What the work ended with is in status.
 */
HM_API int hm_fence_query(struct hm_fence *fence, struct hm_fence_info *ret_info);

/**
 * hm_fence_import_fd - a fence of work that somebody else does
 * @fd: [in] a sync_file; or what else polls readable when it is done: an eventfd, a
 *      dma-buf, a pidfd. Kept by duplicate, and not read from
 * @ret_fence: [out] dropped with hm_fence_unref()
 *
 * A sync_file's fence has the result of its work, a negative errno included. Of any
 * other descriptor readable is done, and its end without that -EPIPE. hm_fence_fd gives
 * a duplicate. Its last reference ends it: nothing goes on by itself. Any thread.
 *
 * Errors: -EINVAL a file or a directory, which are always ready; -EBADF; -EMFILE;
 * -ENOMEM.
 */
HM_API int hm_fence_import_fd(int fd, struct hm_fence **ret_fence);

/*
 * A dma-buf carries the fences of the work on it, for drivers that wait for each other by
 * themselves ("implicit synchronisation"). Brackets of buffers wait for these; the two
 * calls below are for work that is ordered by fences.
 */

/**
 * hm_fence_import_dmabuf - the work on a dma-buf that an access has to wait for
 * @fd:     [in] a dma-buf, as of hm_buffer_export() with HM_EXPORT_DMABUF
 * @access: [in] HM_READ: until what writes is done; with HM_WRITE: all of it
 * @ret_fence: [out] as of hm_fence_import_fd(), of a sync_file
 *
 * As it is now: later work changes nothing. May be called from any thread.
 *
 * Kernels before 6.0, and filters that refuse the call, give no sync_file: the fence is then
 * one that polls the dma-buf, and hm_errmsg() says so though the call succeeds. It waits for
 * work that begins before it is found done, too; its result is 0, whatever failed; it is no
 * sync_file, so that no syncobj and no dma-buf takes it while it goes on; and with HM_WRITE
 * hm_fence_fd() has a thread of the library's wait, as for a merged one.
 *
 * Errors: -EINVAL @fd is no dma-buf, or @access nothing known; -EBADF; -EMFILE; -ENOMEM.
 * Source: DMA_BUF_IOCTL_EXPORT_SYNC_FILE; poll(2) [dma_buf_poll()].
 */
HM_API int hm_fence_import_dmabuf(int fd, uint32_t access, struct hm_fence **ret_fence);

/**
 * hm_fence_export_dmabuf - have others' work on a dma-buf wait for a fence
 * @fence:  [in] of which hm_fence_fd() is a sync_file, as for hm_fence_export_syncobj();
 *          or any whose work has ended well, which nobody needs to wait for
 * @fd:     [in] a dma-buf
 * @access: [in] what the fence's work does with its bytes: of HM_READ only what writes
 *          them waits, with HM_WRITE all does
 *
 * Drivers that keep to it, and brackets of other processes, begin after it. Any thread.
 *
 * Errors: -EOPNOTSUPP the fence is no sync_file, as those of CPUs and of "soft:N", and its
 * work goes on or has failed, or the kernel is older than 6.0; -EINVAL @fd is no dma-buf,
 * @access nothing known, or @fence none; -EBADF @fd is not open; -EOWNERDEAD it is the fence
 * of a fork()'s parent; -ENOMEM; otherwise as hm_fence_fd(). The fence is looked at first.
 * Source: DMA_BUF_IOCTL_IMPORT_SYNC_FILE.
 */
HM_API int hm_fence_export_dmabuf(struct hm_fence *fence, int fd, uint32_t access);

/**
 * hm_fence_merge - a fence that is done when all of several are
 * @fences: [in] of any queues, imported or merged; a reference of each is taken
 * @n: [in] from 1
 * @ret_fence: [out] dropped with hm_fence_unref()
 *
 * Its result is that of the first one, in their order, that failed. hm_fence_fd gives a
 * sync_file where those that are not done are sync_files all, which the kernel merges;
 * otherwise the end of a pipe, and a thread of the library's waits for them. Of a fence
 * that was merged itself the parts are taken, without those that have ended well: it may
 * be merged with one more again and again. Any thread.
 *
 * Errors: -EINVAL n is 0, or one is no fence; -EOWNERDEAD; -ENOMEM.
 */
HM_API int hm_fence_merge(struct hm_fence *const *fences, uint32_t n,
			  struct hm_fence **ret_fence);

/** hm_fence_ref - take a reference; returns @fence. NULL gives NULL. */
HM_API struct hm_fence *hm_fence_ref(struct hm_fence *fence);

/** hm_fence_unref - drop a reference; NULL is allowed. The work goes on. */
HM_API void hm_fence_unref(struct hm_fence *fence);

#ifdef __cplusplus
}
#endif

#endif
