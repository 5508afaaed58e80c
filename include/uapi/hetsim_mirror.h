/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note OR MIT */
/*
 * The ioctl interface of /dev/hetsimN, the part about the mirror of the process. It is included by
 * hetsim.h, which has the general rules.
 */
#ifndef _UAPI_HETSIM_MIRROR_H
#define _UAPI_HETSIM_MIRROR_H

#include <linux/ioctl.h>
#include <linux/types.h>

/**
 * DOC: The mirror of the process
 *
 * After MIRROR, an address in a command that nothing is bound at is one of the process: any
 * memory that its CPUs can use, by its plain pointer. No page is pinned or copied. The device has
 * entries of its own for pages, which it gets by device faults, and loses when the kernel takes
 * the page, or a right to it, away from the process: the next use is a device fault again. A
 * device fault does what a CPU's would: it breaks copy-on-write, reads files, grows memory.
 * Rights are the process's. What a CPU may not do ends the work with -EFAULT.
 *
 * Only queues of HETSIM_QUEUE_COUNTER use the mirror, and only work that the process that
 * called MIRROR has submitted. A dma_fence must not wait for memory, and a device fault does:
 * other queues' work has no fence for it, in a shared reservation object or anywhere else,
 * because it ends with -EFAULT there (HETSIM_REASON_UNBOUND). With the mirror on, work does
 * not wait for a binding at an address that the process has not mapped.
 *
 * A device fault is served by chunks: the largest of 2 MiB, 64 KiB and 4 KiB that is aligned, and
 * lies in one map of the process. The fault brings the pages of the chunk that the command
 * goes on to use, and takes entries for others that are there anyway. Advice makes it less
 * or more. An opener has up to 32768 chunks; further ones make the device forget the oldest.
 *
 * All of this is since 1.7, with HETSIM_FEATURE_MIRROR; without, the calls are EOPNOTSUPP.
 *
 * Since 1.8 pages of the process can move to the device's memory: by PREFETCH, by a device fault in
 * a range of HETSIM_ADVISE_LOCATION, and by HETSIM_ADVISE_COUNTER. They count against the opener's
 * VRAM there. They come back by PREFETCH, when a CPU uses them (HETSIM_MIGRATION_PRIVATE only),
 * when others need the room, when the opener is closed, and when the device is taken away: no
 * byte is lost. A page that can't move is used where it is: one of a file or of shared memory, one
 * that is locked by mlock(), one with further references, one that userfaultfd watches, and any
 * page when there is no room.
 */

/**
 * enum hetsim_migration - how pages of the process get into the device's memory
 * @HETSIM_MIGRATION_NONE: not at all: they are used where they are
 * @HETSIM_MIGRATION_COHERENT: CPUs use them there (MEMORY_DEVICE_COHERENT)
 * @HETSIM_MIGRATION_PRIVATE: they come back when a CPU uses them (MEMORY_DEVICE_PRIVATE)
 * @HETSIM_MIGRATION_BOOKED: the device only keeps books of them; the bytes stay where they are.
 *                           This is the twin's, since 1.8
 */
enum hetsim_migration {
	HETSIM_MIGRATION_NONE,
	HETSIM_MIGRATION_COHERENT,
	HETSIM_MIGRATION_PRIVATE,
	HETSIM_MIGRATION_BOOKED,
};

/**
 * struct hetsim_mirror - ioctl(HETSIM_MIRROR)
 * @size: sizeof(struct hetsim_mirror)
 * @flags: must be 0
 * @migration: [out] enum hetsim_migration
 * @__reserved: must be 0
 * @chunks: [out] bit (1 << n) for each size of chunks of 2^n bytes
 * @max_chunks: [out] chunks that this opener may have
 * @migration_bytes: [out] memory of the device that pages of processes can move to; since 1.8
 *
 * Lets this open file use the memory of the calling process, until it is closed. Once more is
 * no error, but EPERM for another process; that also goes for ADVISE, PREFETCH and RANGE_QUERY,
 * which are ENOENT before. EACCES on a file that is not open for writing. EINTR, ENOMEM.
 */
struct hetsim_mirror {
	__u32 size;
	__u32 flags;
	__u32 migration;
	__u32 __reserved;
	__aligned_u64 chunks;
	__aligned_u64 max_chunks;
	__aligned_u64 migration_bytes;
};

#define HETSIM_MIRROR _IO(HETSIM_TYPE, HETSIM_NR_MIRROR)

/**
 * enum hetsim_location - where a page of the process is, or should be
 * @HETSIM_LOCATION_NONE: the device has no entry for it; no wish
 * @HETSIM_LOCATION_HOST: in system memory
 * @HETSIM_LOCATION_DEVICE: in the device's memory
 */
enum hetsim_location {
	HETSIM_LOCATION_NONE,
	HETSIM_LOCATION_HOST,
	HETSIM_LOCATION_DEVICE,
};

/**
 * enum hetsim_advice - what ADVISE sets
 * @HETSIM_ADVISE_LOCATION: where pages should be: value is enum hetsim_location. DEVICE: a device
 *                          fault moves the chunk's pages there that can move. HOST: no call
 *                          but PREFETCH to the host moves them.
 * @HETSIM_ADVISE_ACCESSED_BY: value 1: the device gets entries for all pages that are there, now
 *                             and again with each later fault in the chunk; 0: not
 * @HETSIM_ADVISE_READ_MOSTLY: value 1: a fault for reading brings the whole chunk; 0: not
 * @HETSIM_ADVISE_GRANULE: value: the largest chunk in bytes, one of the sizes that MIRROR
 *                         tells; 0: no limit
 * @HETSIM_ADVISE_NO_ACCESS: value 1: the engine may not use the range; 0: it may
 * @HETSIM_ADVISE_COUNTER: value: once the engine has used the pages of a piece of 64 KiB in system
 *                         memory so often, up to 65535 times, they move to the device's memory.
 *                         Each page that a command works on counts as a use. 0: no use counts.
 *                         With an advice of a location, they are not either. Since 1.8
 * @HETSIM_ADVISE_CACHE: value: the device keeps pages of the range that it uses often in its
 *                       memory, 4 KiB at a time, as many bytes at most. The limit is that of all
 *                       ranges of the opener with this advice: the last value above 0 counts.
 *                       Each page that a command works on is a hit or a miss. A page is never in
 *                       two places: one that cannot move is a miss each time. 0: none is moved
 *                       there; pages that are there stay. Where a location or COUNTER is advised,
 *                       too, that counts. Since 1.9
 */
enum hetsim_advice {
	HETSIM_ADVISE_LOCATION,
	HETSIM_ADVISE_ACCESSED_BY,
	HETSIM_ADVISE_READ_MOSTLY,
	HETSIM_ADVISE_GRANULE,
	HETSIM_ADVISE_NO_ACCESS,
	HETSIM_ADVISE_COUNTER,
	HETSIM_ADVISE_CACHE,
};

/**
 * struct hetsim_advise - ioctl(HETSIM_ADVISE)
 * @size: sizeof(struct hetsim_advise)
 * @advice: enum hetsim_advice
 * @address: start of a range of the process, a multiple of the page size
 * @length: bytes, a multiple of the page size
 * @value: as the advice says
 *
 * Advice belongs to addresses, mapped or not, and stays when a map goes. Another piece of
 * advice leaves the ones of other kinds as they are. When the call returns, the engine no longer
 * uses a range of NO_ACCESS. Only NO_ACCESS changes results of work; all others only its speed.
 *
 * ERANGE when the range reaches behind the addresses that a process can have; EOVERFLOW when
 * it wraps. ENOSPC when the opener's advice falls into more than 4096 ranges. EINTR, ENOMEM; on
 * failure the advice is as before.
 */
struct hetsim_advise {
	__u32 size;
	__u32 advice;
	__aligned_u64 address;
	__aligned_u64 length;
	__aligned_u64 value;
};

#define HETSIM_ADVISE _IO(HETSIM_TYPE, HETSIM_NR_ADVISE)

#define HETSIM_PREFETCH_WRITE (1u << 0) /* the engine will write there */

/**
 * struct hetsim_prefetch - ioctl(HETSIM_PREFETCH)
 * @size: sizeof(struct hetsim_prefetch)
 * @flags: HETSIM_PREFETCH_*
 * @queue: a queue of HETSIM_QUEUE_COUNTER, else EOPNOTSUPP
 * @location: HETSIM_LOCATION_DEVICE: the device gets entries for all pages of the range, and
 *            the pages themselves where they can move, and no HETSIM_LOCATION_HOST is advised;
 *            HETSIM_LOCATION_HOST: pages in the device's memory come back
 * @address: start of a range of the process, a multiple of the page size
 * @length: bytes, a multiple of the page size
 * @seqno: [out] the submission's number in its queue
 *
 * A submission like those of SUBMIT, in the queue's order: WAIT and QUEUE_EVENT are its fence,
 * and its status is -EFAULT, with address and reason, where the engine may not use the
 * range: pages before that have come. EAGAIN when the queue is full; ERANGE, EOVERFLOW as ADVISE.
 */
struct hetsim_prefetch {
	__u32 size;
	__u32 flags;
	__u32 queue;
	__u32 location;
	__aligned_u64 address;
	__aligned_u64 length;
	__aligned_u64 seqno;
};

#define HETSIM_PREFETCH _IO(HETSIM_TYPE, HETSIM_NR_PREFETCH)

/**
 * enum hetsim_why - why the device has an entry
 * @HETSIM_WHY_NONE: it has none
 * @HETSIM_WHY_FAULT: the engine was about to use the page
 * @HETSIM_WHY_NEIGHBOUR: it was about to use another page of the chunk
 * @HETSIM_WHY_PREFETCH: a PREFETCH brought it, or the prefetch that learns, and no use came yet
 * @HETSIM_WHY_ADVICE: HETSIM_ADVISE_ACCESSED_BY, or READ_MOSTLY
 */
enum hetsim_why {
	HETSIM_WHY_NONE,
	HETSIM_WHY_FAULT,
	HETSIM_WHY_NEIGHBOUR,
	HETSIM_WHY_PREFETCH,
	HETSIM_WHY_ADVICE,
};

#define HETSIM_PAGE_READ (1u << 0)  /* the device may read there */
#define HETSIM_PAGE_WRITE (1u << 1) /* and write */

/**
 * struct hetsim_page - the device's entry for a page of the process
 * @rights: HETSIM_PAGE_*; 0: it has none
 * @location: enum hetsim_location
 * @why: enum hetsim_why
 * @order: the entry is for 2^order pages at once: 9 for one of 2 MiB
 * @chunk_order: the chunk that it is in has 2^chunk_order pages
 * @moves: how often pages of the chunk have moved between host and device since the device has
 *         the chunk; 65535 for more
 */
struct hetsim_page {
	__u16 rights;
	__u8 location;
	__u8 why;
	__u8 order;
	__u8 chunk_order;
	__u16 moves;
};

/**
 * struct hetsim_range_query - ioctl(HETSIM_RANGE_QUERY)
 * @size: sizeof(struct hetsim_range_query)
 * @flags: must be 0
 * @address: start of a range of the process, a multiple of the page size
 * @length: bytes, a multiple of the page size
 * @pages: address of an array of struct hetsim_page, one for each page of the range
 *
 * The answer may be out of date when it arrives. ERANGE, EOVERFLOW as ADVISE. EFAULT when
 * the array can't be written; a part of it may have been. EINTR likewise, for a signal that kills.
 */
struct hetsim_range_query {
	__u32 size;
	__u32 flags;
	__aligned_u64 address;
	__aligned_u64 length;
	__aligned_u64 pages;
};

#define HETSIM_RANGE_QUERY _IO(HETSIM_TYPE, HETSIM_NR_RANGE_QUERY)

/**
 * enum hetsim_event_kind - what happened
 * @HETSIM_EVENT_FAULT: a device fault was served; @length is what the device got entries for
 * @HETSIM_EVENT_FAULT_REFUSED: one was not; @value is enum hetsim_fault_reason
 * @HETSIM_EVENT_INVALIDATE: the kernel took entries away
 * @HETSIM_EVENT_EVICT: the device forgot a chunk to have room for another one, or as the kernel was
 *                      short of memory; with a @value, so many pages left its memory to make room,
 *                      since 1.8
 * @HETSIM_EVENT_PREFETCH: a PREFETCH is done; @value is its status as a positive errno, or 0
 * @HETSIM_EVENT_PREFETCH_USED: the engine used a page first after a prefetch
 * @HETSIM_EVENT_PREFETCH_WASTED: pages that a prefetch brought went before any use; @value is
 *                                their number
 * @HETSIM_EVENT_MIGRATE_BEGIN: pages are about to move; @value is enum hetsim_location
 * @HETSIM_EVENT_MIGRATE_END: they have; @value is the number of those that did
 * @HETSIM_EVENT_LOST: the reader was too slow; @value is the number of events that it missed
 */
enum hetsim_event_kind {
	HETSIM_EVENT_FAULT,
	HETSIM_EVENT_FAULT_REFUSED,
	HETSIM_EVENT_INVALIDATE,
	HETSIM_EVENT_EVICT,
	HETSIM_EVENT_PREFETCH,
	HETSIM_EVENT_PREFETCH_USED,
	HETSIM_EVENT_PREFETCH_WASTED,
	HETSIM_EVENT_MIGRATE_BEGIN,
	HETSIM_EVENT_MIGRATE_END,
	HETSIM_EVENT_LOST,
};

/**
 * struct hetsim_event - what a read() of the stream of events gives, some at a time
 * @ns: CLOCK_MONOTONIC's time
 * @address: start of the range that it is about
 * @length: bytes
 * @value: as the kind says; else 0
 * @kind: enum hetsim_event_kind
 * @write: of faults: 1 if the engine was to write; else 0
 * @queue: the queue whose work it was, 0 if none
 * @duration_ns: of faults: how long they took, up to all ones; else 0
 */
struct hetsim_event {
	__aligned_u64 ns;
	__aligned_u64 address;
	__aligned_u64 length;
	__aligned_u64 value;
	__u32 kind;
	__u32 write;
	__u32 queue;
	__u32 duration_ns;
};

/**
 * struct hetsim_mirror_events - ioctl(HETSIM_MIRROR_EVENTS)
 * @size: sizeof(struct hetsim_mirror_events)
 * @flags: must be 0
 * @fd: [out] the stream, close-on-exec
 * @__reserved: must be 0
 *
 * From this call on the opener's events can be read from @fd: as many struct hetsim_event as
 * fit, EINVAL if not one does. read() waits for one, poll() tells that there is one, O_NONBLOCK
 * can be set by fcntl(). At the opener's end it is the end of the file. A stream has room for 4096
 * events that were not read; while it is full, further ones are lost, and HETSIM_EVENT_LOST in
 * their place tells how many. EBUSY when the opener
 * has one; ENOENT before MIRROR. The module can't be unloaded while such a file is open.
 */
struct hetsim_mirror_events {
	__u32 size;
	__u32 flags;
	__s32 fd;
	__u32 __reserved;
};

#define HETSIM_MIRROR_EVENTS _IO(HETSIM_TYPE, HETSIM_NR_MIRROR_EVENTS)

/**
 * struct hetsim_learn - ioctl(HETSIM_LEARN)
 * @size: sizeof(struct hetsim_learn)
 * @flags: must be 0
 * @least: bytes of the first window of a stream, a multiple of 64 KiB
 * @most: bytes of the largest window, likewise; 0: nothing is brought ahead
 *
 * The device tells sequential, strided and random device faults apart, in pieces of 64 KiB, and
 * brings in entries for a window ahead of the first two, beside the work that runs. A window that
 * was used to its end doubles, one that was not is halved. A mirror begins with windows of 64 KiB
 * up to 2 MiB. The counters go on. EINVAL for a window that is no multiple, and a least one that
 * is 0 or above @most; ENOENT before MIRROR, EPERM for another process, EINTR. Since 1.9.
 */
struct hetsim_learn {
	__u32 size;
	__u32 flags;
	__aligned_u64 least;
	__aligned_u64 most;
};

#define HETSIM_LEARN _IO(HETSIM_TYPE, HETSIM_NR_LEARN)

#endif
