/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note OR MIT */
/*
 * Order between submissions of several queues, processes and devices: timelines, the waits and
 * signals of a submission, and the buffers that it shares with others. A part of hetsim.h, which
 * includes it. All of it since 1.10, except buffers.
 */
#ifndef _UAPI_HETSIM_TIMELINE_H
#define _UAPI_HETSIM_TIMELINE_H

#include <linux/ioctl.h>
#include <linux/types.h>

/**
 * DOC: Timelines
 *
 * A timeline is a number that only rises: its value. Its points are the numbers above 0. A point
 * is reached once the value is not below it. Submissions raise the value at their ends, and
 * TIMELINE_SIGNAL does at once; submissions and TIMELINE_WAIT wait for points.
 *
 * A timeline is an open file of its own: processes share it as they share any descriptor. It
 * belongs to no device, and stays as long as a descriptor is open, or a submission names it.
 * The module can't be unloaded while one is open.
 */

/**
 * struct hetsim_timeline_create - ioctl(HETSIM_TIMELINE_CREATE)
 * @size: sizeof(struct hetsim_timeline_create)
 * @flags: must be 0
 * @value: the value at first
 * @fd: [out] the timeline, close-on-exec
 * @__reserved: must be 0
 */
struct hetsim_timeline_create {
	__u32 size;
	__u32 flags;
	__aligned_u64 value;
	__s32 fd;
	__u32 __reserved;
};

#define HETSIM_TIMELINE_CREATE _IO(HETSIM_TYPE, HETSIM_NR_TIMELINE_CREATE)

/**
 * struct hetsim_timeline_wait - ioctl(HETSIM_TIMELINE_WAIT)
 * @size: sizeof(struct hetsim_timeline_wait)
 * @fd: a timeline, of whatever device; EINVAL if it is something else
 * @point: waits until the value is not below it
 * @deadline_ns: CLOCK_MONOTONIC's time at which to give up; 0 only looks, all ones waits for ever
 * @value: [out] the value then
 *
 * ETIME when the point is not reached at the deadline. When the device of the call is taken away,
 * a wait goes on for a point that a submission is going to signal, and others end with ENODEV.
 * Restarted after signals with handlers that allow it.
 */
struct hetsim_timeline_wait {
	__u32 size;
	__s32 fd;
	__aligned_u64 point;
	__aligned_u64 deadline_ns;
	__aligned_u64 value;
};

#define HETSIM_TIMELINE_WAIT _IO(HETSIM_TYPE, HETSIM_NR_TIMELINE_WAIT)

/**
 * struct hetsim_timeline_signal - ioctl(HETSIM_TIMELINE_SIGNAL)
 * @size: sizeof(struct hetsim_timeline_signal)
 * @fd: a timeline, of whatever device; EINVAL if it is something else
 * @point: the value rises to it, or stays if it is not below
 */
struct hetsim_timeline_signal {
	__u32 size;
	__s32 fd;
	__aligned_u64 point;
};

#define HETSIM_TIMELINE_SIGNAL _IO(HETSIM_TYPE, HETSIM_NR_TIMELINE_SIGNAL)

#define HETSIM_MAX_SYNCS 16u /* waits of a call, and as many signals */

/**
 * enum hetsim_sync_kind - kinds of struct hetsim_sync
 * @HETSIM_SYNC_TIMELINE: a point of a timeline
 * @HETSIM_SYNC_FENCE: a sync_file, of any driver
 */
enum hetsim_sync_kind {
	HETSIM_SYNC_TIMELINE,
	HETSIM_SYNC_FENCE,
};

/**
 * struct hetsim_sync - an element of the waits and signals of a submission
 * @kind: enum hetsim_sync_kind
 * @fd: the timeline or sync_file; EINVAL if it is something else. In signals, and of
 *      HETSIM_SYNC_FENCE: [out] a sync_file, close-on-exec, as FENCE_FD gives it
 * @point: of the timeline; 0 for HETSIM_SYNC_FENCE
 *
 * Work begins once everything that it waits for is there, however that has ended: the status of
 * other work is not passed on. The wait counts into the time of the submission. When the time
 * is up, the submission ends with -ETIMEDOUT, without a reset of the engine. Work behind it in its
 * queue waits, too.
 *
 * The points of a submission are reached at its end, whatever its status is, and before WAIT tells
 * of the end. Where several submissions signal a timeline, the value is that of the highest point
 * whose submission is done: lower points are then reached, too.
 *
 * A queue of HETSIM_QUEUE_COUNTER may wait for any point, and signals points only: sync_files
 * are EOPNOTSUPP. A queue of HETSIM_QUEUE_DMA_FENCE may wait for sync_files, for points that are
 * reached, and for those that a submission to such a queue, of any opener, is going to signal;
 * others are ERANGE. Each of its waits is therefore for earlier work, which ends by itself.
 */
struct hetsim_sync {
	__u32 kind;
	__s32 fd;
	__aligned_u64 point;
};

#define HETSIM_MAX_USES 16u /* buffers of a submission */

#define HETSIM_USE_WRITE (1u << 0) /* the work writes to the buffer; without it, it only reads */
#define HETSIM_USE_WAIT_ONLY (1u << 1) /* the buffer gets no fence of the work */

/**
 * struct hetsim_use - an element of the buffers of a submission
 * @handle: a buffer, of this device or imported; ENOENT where there is none. Several elements of
 *          one buffer count as one
 * @flags: HETSIM_USE_*; EACCES for HETSIM_USE_WRITE on a file that is not open for writing
 *
 * A buffer has fences of the work that uses it. Drivers order their work by them without being
 * told: the kernel's implicit synchronization (Documentation/driver-api/dma-buf.rst). A submission
 * that names its shared buffers takes part. Work begins once it is its turn in each
 * of them: a reader waits for all work that writes to the buffer, a writer for all work that uses
 * it, as it is at the time of the call. It leaves its own fence there, and later users wait for
 * that: submissions that name the buffer, other drivers, poll() and DMA_BUF_IOCTL_EXPORT_SYNC_FILE
 * on its dma-bufs, and CPU accesses (DMA_BUF_IOCTL_SYNC). The fences of another device's memory are
 * those of its exporter. Commands are not looked at: work that names no buffer takes no part.
 *
 * The waits are as those of struct hetsim_sync: the end of other work is not passed on, whatever
 * it is, and the time counts. All buffers of a submission are taken at once, in whatever order they
 * are named. EINTR when a signal comes while other tasks have one of them.
 *
 * The fence of a submission to a queue of HETSIM_QUEUE_DMA_FENCE limits the time of the work in the
 * queue, as FENCE_FD does. A queue of HETSIM_QUEUE_COUNTER has no fence that could be waited for,
 * as its work may wait for user space: EOPNOTSUPP without HETSIM_USE_WAIT_ONLY.
 *
 * All work ends in time, so no user of a buffer waits for ever. An opener that has a buffer can
 * make its other users wait for one time-out of a queue at a time.
 *
 * With HETSIM_FEATURE_DMABUF_FENCES the fences are those of dma-bufs, as told above. Without it, as
 * in soft:N, only openers of the same device wait for them, in one process. Since 1.11.
 */
struct hetsim_use {
	__u32 handle;
	__u32 flags;
};

#endif
