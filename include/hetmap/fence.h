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
	uint32_t way_in;       /* worst enum hm_way_in of the arguments */
	uint64_t bytes_copied; /* by the arguments: to the accelerator, so far back */
};

/**
 * hm_fence_wait - wait until the work is done and its bytes are the CPU's again
 * @fence:      [in] fence
 * @timeout_ns: [in] nanoseconds, relative; 0 polls, UINT64_MAX waits for ever
 *
 * The bytes are the CPU's also if the work failed. In a buffer with HM_CAP_BRACKET, the CPU must
 * bracket each access to these bytes nevertheless (hm_map_begin_cpu()); on any other buffer it
 * needs a bracket for stores that a shadow is to have, or other users of a dma-buf before the next
 * launch. If not all bytes fit where CPUs reach them, the call still returns the result of the
 * work, and hm_warning() names the bytes that did not fit. Signals do not end the wait.
 *
 * Thread safety: any thread; any number of threads may wait for one fence.
 *
 * Errors:
 *   -ETIME: the work is not done yet; wait again.
 *
 * Any other error is the result of the work, or, if hm_fence_query() does not report the fence
 * done afterwards, one of the wait itself, and the work may go on:
 *   -EIO:       the driver failed, or bytes of an argument were lost and replaced
 *               (hetmap/guard.h).
 *   -ETIMEDOUT: the work ran too long, and its engine was reset.
 *   -ECANCELED: a request reset the engine; or the engine was reset because of earlier work on
 *               the same queue, and this work has not run, so the caller may submit it again.
 *   -EFAULT:    the work named an address that is not bound on its device; the text has the
 *               address.
 *   -EOVERFLOW: the work may have failed, too long ago for the library to know.
 *   -ENODEV:    the device of the work was taken away, or the device of bytes that the work was
 *               given (hetmap/loss.h); or a map was lost.
 *   -EPIPE:     no process can signal an imported descriptor any more, see
 *               hm_fence_import_fd().
 *
 * Work on "cpu" may also fail with the result of the kernel's CPU function.
 */
HM_API int hm_fence_wait(struct hm_fence *fence, uint64_t timeout_ns);

/**
 * hm_fence_fd - return a file descriptor that polls readable when the work is done
 * @fence:  [in] fence, which may have signalled already
 * @ret_fd: [out] O_CLOEXEC; the caller must close it
 *
 * The library makes the descriptor on the first request. After a wait on the descriptor, the
 * caller must bracket CPU access, or call hm_fence_wait(fence, 0). The descriptor of a merged
 * fence is a sync_file if all fences that are not done yet are sync_files. Otherwise a thread
 * of the library waits for the fences, until all are done or no process has the descriptor any
 * more.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EMFILE:     the process has too many open files.
 *   -ENOMEM:     not enough memory is available.
 *   -EIO:        the driver failed.
 *   -EAGAIN:     no thread could be started; the library tries once.
 *   -EOPNOTSUPP: a plug-in accelerator has no descriptor of this work.
 *   -ENODEV:     the device was taken away meanwhile: hm_fence_wait() has the result of the
 *                work.
 */
HM_API int hm_fence_fd(struct hm_fence *fence, int *ret_fd);

/**
 * hm_fence_query - describe the state of a fence, without waiting
 * @fence:    [in] fence
 * @ret_info: [in,out] struct_size set by the caller; status is the result of the work
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 *   -EIO:   the driver cannot tell.
 */
HM_API int hm_fence_query(struct hm_fence *fence, struct hm_fence_info *ret_info);

/**
 * hm_fence_import_fd - make a fence of work outside the library
 * @fd:        [in] a sync_file, or any other descriptor that polls readable when the work is
 *             done: an eventfd, a dma-buf, a pidfd. The library keeps a duplicate, and does not
 *             read from it. Nobody may read an eventfd before a call has found the fence done;
 *             the fence then stays done
 * @ret_fence: [out] a reference, which the caller drops with hm_fence_unref()
 *
 * The fence of a sync_file has the result of its work, including a negative errno. With any
 * other descriptor, readable means done with result 0. The result is -EPIPE if the descriptor
 * ends without that. hm_fence_fd() returns a duplicate. The last reference ends the fence:
 * nothing goes on by itself.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL: @fd is a file or a directory, which are always ready.
 *   -EBADF:  @fd is not an open file.
 *   -EMFILE: the process has too many open files.
 *   -ENOMEM: not enough memory is available.
 */
HM_API int hm_fence_import_fd(int fd, struct hm_fence **ret_fence);

/*
 * A dma-buf carries the fences of the work on it, for drivers that wait for each other by
 * themselves ("implicit synchronisation"). Brackets of buffers wait for these fences. So does work
 * of an accelerator that was opened with HM_ACCEL_IMPLICIT, which leaves its own there. The two
 * calls below are for all other work, which the program orders by fences.
 */

/**
 * hm_fence_import_dmabuf - make a fence of the work on a dma-buf that an access must wait for
 * @fd:        [in] a dma-buf, as of hm_buffer_export() with HM_EXPORT_DMABUF
 * @access:    [in] HM_READ: wait for the work that writes; with HM_WRITE: wait for all work
 * @ret_fence: [out] as of hm_fence_import_fd(), for a sync_file
 *
 * The fence is for the work of this moment: later work changes nothing.
 *
 * Kernels before 6.0, and filters that refuse the call, give no sync_file of a dma-buf. The
 * fence then polls the dma-buf, and hm_warning() reports this. Such a fence differs in these ways:
 *
 * - The fence also waits for work that begins before the fence is found done.
 * - The result of the fence is 0, even if the work failed.
 * - The fence is no sync_file, so no syncobj and no dma-buf accepts it while its work goes on.
 * - With HM_WRITE a thread of the library waits for hm_fence_fd(), as for a merged fence.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL: @fd is not a dma-buf, or @access has an unknown bit or none.
 *   -EBADF:  @fd is not an open file.
 *   -EMFILE: the process has too many open files.
 *   -ENOMEM: not enough memory is available.
 *
 * Source: DMA_BUF_IOCTL_EXPORT_SYNC_FILE; poll(2) [dma_buf_poll()].
 */
HM_API int hm_fence_import_dmabuf(int fd, uint32_t access, struct hm_fence **ret_fence);

/**
 * hm_fence_export_dmabuf - make the work of other programs on a dma-buf wait for a fence
 * @fence:  [in] fence with a sync_file as its hm_fence_fd(), as for hm_fence_export_syncobj();
 *          or any fence with work that has ended without an error, for which no work needs to
 *          wait
 * @fd:     [in] a dma-buf
 * @access: [in] access of the fence's work to the bytes: with HM_READ only work that writes the
 *          bytes waits, with HM_WRITE all work waits
 *
 * Drivers that obey implicit synchronisation, and brackets of other processes, begin after the
 * fence is done.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EOPNOTSUPP: the fence is not a sync_file (fences of CPUs and of "soft:N" are none), and
 *                its work goes on or has failed; or the kernel is older than 6.0. In the first
 *                case wait for the fence.
 *   -EINVAL:     @fd is not a dma-buf, @access has an unknown bit or none, or @fence is no
 *                fence.
 *   -EBADF:      @fd is not an open file.
 *   -EOWNERDEAD: the parent made the fence before fork().
 *   -ENOMEM:     not enough memory is available.
 *
 * In addition the errors of hm_fence_fd(). The call checks the fence first.
 *
 * Source: DMA_BUF_IOCTL_IMPORT_SYNC_FILE.
 */
HM_API int hm_fence_export_dmabuf(struct hm_fence *fence, int fd, uint32_t access);

/**
 * hm_fence_merge - make a fence that is done when several fences are all done
 * @fences:    [in] fences of any queues, imported or merged; the call takes a reference to each
 * @n:         [in] number of fences, from 1
 * @ret_fence: [out] a reference, which the caller drops with hm_fence_unref()
 *
 * The result of the new fence is the result of the first fence, in the order of @fences, that
 * failed. hm_fence_fd() returns a sync_file if all fences that are not done are sync_files; the
 * kernel merges these. Otherwise the descriptor is the end of a pipe, and a thread of the
 * library waits for the fences. If a fence of @fences is itself merged, the call takes its
 * parts, without the parts that have ended without an error. A caller may thus merge a fence
 * with one more again and again. hm_fence_wait() makes the bytes of all parts the CPU's, but not
 * those of parts that such a merge has left out.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:     @n is 0, or an entry is not a fence.
 *   -EOWNERDEAD: the parent made a fence before fork().
 *   -ENOMEM:     not enough memory is available.
 */
HM_API int hm_fence_merge(struct hm_fence *const *fences, uint32_t n,
			  struct hm_fence **ret_fence);

/** hm_fence_ref - take a reference, and return @fence. NULL gives NULL. */
HM_API struct hm_fence *hm_fence_ref(struct hm_fence *fence);

/** hm_fence_unref - drop a reference; NULL is allowed. The work goes on. */
HM_API void hm_fence_unref(struct hm_fence *fence);

#ifdef __cplusplus
}
#endif

#endif
