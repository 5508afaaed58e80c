/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note OR MIT */
/*
 * Work of the device: its address space, queues, commands and waits. A part of hetsim.h, which
 * includes it.
 */
#ifndef _UAPI_HETSIM_QUEUE_H
#define _UAPI_HETSIM_QUEUE_H

#include <linux/ioctl.h>
#include <linux/types.h>

/**
 * DOC: The device's address space
 *
 * Each open file has an address space of its own on the device, of 48 bits. A
 * buffer that is bound where the CPU has mapped it can be named to the engine by
 * the CPU's pointers. The device does not look at the CPU's map, nor is there
 * need for one.
 */

/**
 * enum hetsim_source - sources of a binding
 * @HETSIM_SOURCE_BUFFER: a buffer of this open file
 * @HETSIM_SOURCE_PROCESS_RANGE: memory of the process: EOPNOTSUPP, as it needs no binding, see
 *                               MIRROR
 */
enum hetsim_source {
	HETSIM_SOURCE_BUFFER,
	HETSIM_SOURCE_PROCESS_RANGE,
};

#define HETSIM_BIND_WRITE (1u << 0) /* the engine may write, too */

/**
 * struct hetsim_bind - ioctl(HETSIM_BIND)
 * @size: sizeof(struct hetsim_bind)
 * @flags: HETSIM_BIND_*
 * @source: enum hetsim_source
 * @handle: the buffer
 * @address: where on the device, a multiple of the page size
 * @offset: from where in the buffer, a multiple of the page size
 * @length: bytes, a multiple of the page size
 * @queue: of which it is a submission, as a move's; 0: none. This and the following since 1.10
 * @n_waits: likewise
 * @n_signals: likewise
 * @__reserved: must be 0
 * @waits: likewise
 * @signals: likewise
 * @seqno: [out] likewise
 *
 * EEXIST when a part of the range is bound already. EACCES for
 * HETSIM_BIND_WRITE on a file that is not open for writing. ENOSPC when the
 * opener has 16384 bindings, or page tables of 256 MiB for them; and when the buffer has 4096
 * bindings of its maker, or 4096 of all other openers, since an eviction waits for each. The
 * binding keeps the buffer, also after its handle is closed.
 */
struct hetsim_bind {
	__u32 size;
	__u32 flags;
	__u32 source;
	__u32 handle;
	__aligned_u64 address;
	__aligned_u64 offset;
	__aligned_u64 length;
	__u32 queue;
	__u32 n_waits;
	__u32 n_signals;
	__u32 __reserved;
	__aligned_u64 waits;
	__aligned_u64 signals;
	__aligned_u64 seqno;
};

#define HETSIM_BIND _IO(HETSIM_TYPE, HETSIM_NR_BIND)

/**
 * struct hetsim_unbind - ioctl(HETSIM_UNBIND)
 * @size: sizeof(struct hetsim_unbind)
 * @flags: must be 0
 * @address: start of a range, a multiple of the page size
 * @length: bytes, a multiple of the page size
 * @queue: of which it is a submission, as a move's; 0: none. This and the following since 1.10
 * @n_waits: likewise
 * @n_signals: likewise
 * @__reserved: must be 0
 * @waits: likewise
 * @signals: likewise
 * @seqno: [out] likewise
 *
 * Takes away all bindings that lie in the range: ENOENT when there is none,
 * ERANGE, and nothing is changed, when the range cuts one. When the call
 * returns, the engine no longer touches the unbound memory.
 */
struct hetsim_unbind {
	__u32 size;
	__u32 flags;
	__aligned_u64 address;
	__aligned_u64 length;
	__u32 queue;
	__u32 n_waits;
	__u32 n_signals;
	__u32 __reserved;
	__aligned_u64 waits;
	__aligned_u64 signals;
	__aligned_u64 seqno;
};

#define HETSIM_UNBIND _IO(HETSIM_TYPE, HETSIM_NR_UNBIND)

/**
 * DOC: Queues
 *
 * Submissions to a queue run in its order, queues run beside each other.
 * Small submissions without a waiter may begin up to about a millisecond late, many
 * at once: a call that asks for one of them (WAIT, FENCE_FD, QUEUE_EVENT) makes them
 * begin. A call (WAIT, SUBMIT) may tell that one is done a moment before its
 * descriptors do (FENCE_FD, QUEUE_EVENT).
 * Each submission has a number, which counts up from 1 in its queue, and ends
 * with a status: 0, or
 *
 *  - -EFAULT: a command named an address that is not bound, or not for writing, and that is
 *    no memory of the process that the engine may use; the commands before it have run. WAIT
 *    tells the address and the reason.
 *  - -ENOMEM: the kernel has no memory for a device fault.
 *  - -ETIMEDOUT: it ran longer than its queue allows, or a fence of the queue was
 *    due, and the engine was reset. The bytes it wrote are undefined. Or it waited so long for
 *    earlier work (struct hetsim_sync), and did not run; then there was no reset. Later
 *    submissions run, but on a queue of HETSIM_QUEUE_DMA_FENCE not those that were
 *    in it by then. A fence is due one time-out after FENCE_FD asked for it first,
 *    whatever else is in its queue: no waiter of a dma_fence waits longer.
 *  - -ECANCELED: its queue was destroyed first, a reset was injected while it ran, or
 *    it was behind one that ran too long.
 *  - -ENODEV: the device was taken away first.
 */

/**
 * enum hetsim_queue_type - possible waiters for a queue's work
 * @HETSIM_QUEUE_DMA_FENCE: anything in the kernel, by sync_file and by the fences of buffers. Work
 *                          waits for earlier work only, see struct hetsim_sync and struct
 *                          hetsim_use: an access to an address that is not bound ends it.
 * @HETSIM_QUEUE_COUNTER: WAIT, eventfds and timelines only. Work that names an address
 *                        that is not bound waits until it is, or its time is up.
 */
enum hetsim_queue_type {
	HETSIM_QUEUE_DMA_FENCE,
	HETSIM_QUEUE_COUNTER,
};

#define HETSIM_MAX_TIMEOUT_MS 60000u

/**
 * struct hetsim_queue_create - ioctl(HETSIM_QUEUE_CREATE)
 * @size: sizeof(struct hetsim_queue_create)
 * @flags: must be 0
 * @type: enum hetsim_queue_type
 * @timeout_ms: how long one submission may run, up to HETSIM_MAX_TIMEOUT_MS; 0:
 *              as the query says
 * @queue: [out] the queue's number on this open file
 * @__reserved: must be 0
 *
 * ENOSPC when the opener has as many as it may, when the openers of one user have 128 and
 * the caller lacks CAP_SYS_RESOURCE, or when all openers together have 512. The user is that
 * of the process that opened the file. soft:N has no limit for each user.
 *
 * The time of a submission stands still while pages of the process come or move for it
 * (MIRROR). All pages that one access waits for have as much time of their own. soft:N counts
 * what its thread has of a processor, on queues of HETSIM_QUEUE_COUNTER.
 *
 * The engine's thread of the queue gets the nice value of the caller, 0 for a negative one. With
 * the module's parameter engine_cgroup it is in the caller's control groups. EOPNOTSUPP when
 * they don't take it.
 */
struct hetsim_queue_create {
	__u32 size;
	__u32 flags;
	__u32 type;
	__u32 timeout_ms;
	__u32 queue;
	__u32 __reserved;
};

#define HETSIM_QUEUE_CREATE _IO(HETSIM_TYPE, HETSIM_NR_QUEUE_CREATE)

/**
 * struct hetsim_queue_destroy - ioctl(HETSIM_QUEUE_DESTROY)
 * @size: sizeof(struct hetsim_queue_destroy)
 * @queue: the queue
 *
 * Work that is not done ends with -ECANCELED.
 */
struct hetsim_queue_destroy {
	__u32 size;
	__u32 queue;
};

#define HETSIM_QUEUE_DESTROY _IO(HETSIM_TYPE, HETSIM_NR_QUEUE_DESTROY)

/**
 * enum hetsim_op - commands of the engine
 * @HETSIM_OP_NOTHING: nothing; all other members are 0
 * @HETSIM_OP_FILL: each word of destination = value
 * @HETSIM_OP_COPY: destination = source; the two don't overlap
 * @HETSIM_OP_ADD: destination = source + source2, by words
 * @HETSIM_OP_XOR: destination = source ^ source2, by words
 * @HETSIM_OP_SCALE: destination = source * value, by words
 * @HETSIM_OP_AXPY: destination = destination + source * value, by words
 * @HETSIM_OP_HISTOGRAM: destination[i] = how many bytes of source are i: 256
 *                       words
 * @HETSIM_OP_CRC32: destination = CRC-32 of source, as zlib computes it: a word
 * @HETSIM_OP_COMPARE: destination = index of the first byte in which source and
 *                     source2 differ, all ones if none does: a 64-bit word
 *
 * Words are unsigned, of 32 bits, and wrap.
 */
enum hetsim_op {
	HETSIM_OP_NOTHING,
	HETSIM_OP_FILL,
	HETSIM_OP_COPY,
	HETSIM_OP_ADD,
	HETSIM_OP_XOR,
	HETSIM_OP_SCALE,
	HETSIM_OP_AXPY,
	HETSIM_OP_HISTOGRAM,
	HETSIM_OP_CRC32,
	HETSIM_OP_COMPARE,
};

/**
 * struct hetsim_command - one command of a submission
 * @op: enum hetsim_op
 * @flags: must be 0
 * @destination: device address that is written to
 * @source: device address that is read; 0 where the op reads nothing
 * @source2: device address that is read, too; 0 where the op does not
 * @length: bytes of each operand that is not said above to be of fixed size
 * @value: operand, below 2^32; 0 where the op has none
 *
 * Addresses and lengths are multiples of the query's dma_align, lengths at most
 * its max_segment.
 */
struct hetsim_command {
	__u32 op;
	__u32 flags;
	__aligned_u64 destination;
	__aligned_u64 source;
	__aligned_u64 source2;
	__aligned_u64 length;
	__aligned_u64 value;
};

/**
 * struct hetsim_submit - ioctl(HETSIM_SUBMIT)
 * @size: sizeof(struct hetsim_submit)
 * @queue: the queue
 * @commands: address of an array of struct hetsim_command
 * @n_commands: its length, from 1 to the query's max_commands
 * @command_size: sizeof(struct hetsim_command)
 * @flags: must be 0
 * @__reserved: must be 0
 * @seqno: [out] the submission's number in its queue
 * @done: [out] the queue's last submission that is done by now, 0 if none is
 * @failures: [out] how many of those up to @done have ended with another status
 *            than 0
 * @waits: address of an array of struct hetsim_sync: what the submission waits for before it runs
 * @signals: the same: what it signals at its end. The fd of each that asks for a sync_file is
 *           written
 * @n_waits: length of @waits, up to HETSIM_MAX_SYNCS
 * @n_signals: length of @signals, likewise
 * @uses: address of an array of struct hetsim_use: buffers whose fences the submission waits for,
 *        and gets; since 1.11
 * @n_uses: length of @uses, up to HETSIM_MAX_USES
 * @__reserved2: must be 0
 *
 * Where @failures stays as it was in an earlier answer, all submissions that are
 * done and were not then have succeeded, and no WAIT need ask. Drivers of minor
 * version 0 don't have @done and @failures, those below 10 not the members behind them, and those
 * below 11 not @uses and what follows.
 *
 * A sync_file of @signals limits the time of the work in the queue, as FENCE_FD does.
 */
struct hetsim_submit {
	__u32 size;
	__u32 queue;
	__aligned_u64 commands;
	__u32 n_commands;
	__u32 command_size;
	__u32 flags;
	__u32 __reserved;
	__aligned_u64 seqno;
	__aligned_u64 done;
	__aligned_u64 failures;
	__aligned_u64 waits;
	__aligned_u64 signals;
	__u32 n_waits;
	__u32 n_signals;
	__aligned_u64 uses;
	__u32 n_uses;
	__u32 __reserved2;
};

#define HETSIM_SUBMIT _IO(HETSIM_TYPE, HETSIM_NR_SUBMIT)

/**
 * enum hetsim_fault_reason - why the engine may not use an address
 * @HETSIM_REASON_NONE: work did not end by a fault, or the driver does not know
 * @HETSIM_REASON_UNBOUND: nothing is bound there, and the work may not use the memory of the
 *                         process: MIRROR was not called, or by another process than the one
 *                         that submitted, or the queue is one of HETSIM_QUEUE_DMA_FENCE
 * @HETSIM_REASON_BINDING: the binding there is not for writing, or its buffer has become shorter
 * @HETSIM_REASON_UNMAPPED: the process has nothing mapped there, or it can't have: the address is
 *                          the kernel's, or no address. The engine makes no stack grow.
 * @HETSIM_REASON_READ: the process may not read there (PROT_NONE)
 * @HETSIM_REASON_WRITE: the process may not write there
 * @HETSIM_REASON_NO_PAGE: a CPU would get SIGBUS there: behind the end of a file, an I/O error,
 *                         broken memory. Also where userfaultfd() watches.
 * @HETSIM_REASON_DEVICE: memory of a device, which has no pages of the kernel's: bind the buffer.
 *                        Also that of memfd_secret().
 * @HETSIM_REASON_NO_ACCESS: the range has advice HETSIM_ADVISE_NO_ACCESS
 * @HETSIM_REASON_EXITED: the process that called MIRROR has ended, or has called execve()
 *
 * Since 1.7.
 */
enum hetsim_fault_reason {
	HETSIM_REASON_NONE,
	HETSIM_REASON_UNBOUND,
	HETSIM_REASON_BINDING,
	HETSIM_REASON_UNMAPPED,
	HETSIM_REASON_READ,
	HETSIM_REASON_WRITE,
	HETSIM_REASON_NO_PAGE,
	HETSIM_REASON_DEVICE,
	HETSIM_REASON_NO_ACCESS,
	HETSIM_REASON_EXITED,
};

/**
 * struct hetsim_wait - ioctl(HETSIM_WAIT)
 * @size: sizeof(struct hetsim_wait)
 * @queue: the queue
 * @seqno: the submission; ERANGE if there is none of this number yet
 * @deadline_ns: CLOCK_MONOTONIC's time at which to give up; 0 only looks, all
 *               ones waits for ever
 * @status: [out] the submission's end: 0 or a negative errno, see above;
 *          -EOVERFLOW if it failed, or may have, too long ago to be known: a
 *          queue knows of its last 256 failures, of which those in a row that are
 *          alike count as one
 * @__reserved: must be 0
 * @fault_address: [out] with status -EFAULT, the device address
 * @fault_reason: [out] with status -EFAULT, enum hetsim_fault_reason; else 0
 * @fault_write: [out] with status -EFAULT, 1 if the engine was to write there; else 0
 *
 * ETIME when the submission is not done at the deadline. Restarted after
 * signals with handlers that allow it. Drivers of a minor version below 7 don't have the last
 * two members.
 */
struct hetsim_wait {
	__u32 size;
	__u32 queue;
	__aligned_u64 seqno;
	__aligned_u64 deadline_ns;
	__s32 status;
	__u32 __reserved;
	__aligned_u64 fault_address;
	__u32 fault_reason;
	__u32 fault_write;
};

#define HETSIM_WAIT _IO(HETSIM_TYPE, HETSIM_NR_WAIT)

/**
 * struct hetsim_fence_fd - ioctl(HETSIM_FENCE_FD)
 * @size: sizeof(struct hetsim_fence_fd)
 * @queue: a queue of HETSIM_QUEUE_DMA_FENCE, else EOPNOTSUPP
 * @seqno: the submission, done or not; ERANGE if there is none of this number
 * @fd: [out] a sync_file, close-on-exec, which becomes readable when the
 *      submission is done and carries its status
 * @flags: must be 0
 *
 * From this call on the submission has one time-out of its queue to end, together with all
 * before it. Ask for a fence when less work than that is in the queue, or give the queue more
 * time.
 *
 * The module can't be unloaded while such a file is open.
 */
struct hetsim_fence_fd {
	__u32 size;
	__u32 queue;
	__aligned_u64 seqno;
	__s32 fd;
	__u32 flags;
};

#define HETSIM_FENCE_FD _IO(HETSIM_TYPE, HETSIM_NR_FENCE_FD)

/**
 * struct hetsim_queue_event - ioctl(HETSIM_QUEUE_EVENT)
 * @size: sizeof(struct hetsim_queue_event)
 * @queue: a queue of either type
 * @seqno: the submission; ERANGE if there is none of this number
 * @eventfd: an eventfd to which 1 is added when the submission is done, at once
 *           if it is; EINVAL if it is something else
 * @flags: must be 0
 *
 * EAGAIN when the queue has 1024 of them pending.
 */
struct hetsim_queue_event {
	__u32 size;
	__u32 queue;
	__aligned_u64 seqno;
	__s32 eventfd;
	__u32 flags;
};

#define HETSIM_QUEUE_EVENT _IO(HETSIM_TYPE, HETSIM_NR_QUEUE_EVENT)

#endif
