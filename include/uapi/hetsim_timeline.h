/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note OR MIT */
/*
 * Order between submissions of several queues, processes and devices: timelines, and the waits and
 * signals of a submission. A part of hetsim.h, which includes it. All of it since 1.10.
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

#endif
