/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note OR MIT */
/*
 * The ioctl interface of /dev/hetsimN, the simulated device with memory of its
 * own.
 */
#ifndef _UAPI_HETSIM_H
#define _UAPI_HETSIM_H

#include <linux/ioctl.h>
#include <linux/types.h>

/**
 * DOC: General rules
 *
 * Every structure begins with its size, as the caller knows it, and only ever
 * grows at its end. A caller that is older than the driver gets the meaning
 * that zeros in the newer members have; a newer one may pass members that the
 * driver does not know as long as they are zero. Members named __reserved are
 * zero, and so are unused bits of flags. Members marked [out] are ignored on
 * the way in. Nothing but [out] members is ever written to the caller's
 * structure, and nothing at all when a call fails. All integers are
 * little-endian or big-endian as the machine is, and the layout is the same
 * for 32-bit and 64-bit processes.
 *
 * The first call on an open file is HETSIM_HANDSHAKE.
 *
 * Handles and queue numbers belong to the open file that they were given to.
 *
 * Each errno has one meaning:
 *
 *  - ENOTTY: the driver does not know this ioctl.
 *  - EPROTO: no handshake was accepted on this open file yet.
 *  - E2BIG: a member that the driver does not know is not zero, or the size
 *    passed is above a page.
 *  - EINVAL: a member has a value that no device accepts: a size that is too
 *    short, an unknown flag, a reserved member, a length of zero, a misaligned
 *    number.
 *  - EOPNOTSUPP: the value is a legal one, but not for this device, kernel or
 *    object.
 *  - EOVERFLOW: a sum of members does not fit its type.
 *  - ERANGE: a range or number does not lie within the object it is about.
 *  - ENOENT: this open file has no such object.
 *  - ENODEV: the device was taken away.
 *  - EPERM: the caller may not do that to objects of other openers, or lacks a capability.
 *  - EACCES: the open file does not have the access that the call needs.
 *  - ENOSPC: a limit of the device or of the opener is reached; HETSIM_QUERY
 *    and the open file's fdinfo show them. An opener is an open file, and a user may open
 *    many: the control group of the pages, and a limit of queues, bound a user. pwrite():
 *    the buffer's end is reached.
 *  - ENXIO: the bytes are in VRAM outside the window that the CPU can reach.
 *  - ENOMEM: the kernel, or the caller's control group, has no memory left. The kernel ends
 *    no process of the group for a call.
 *  - EMFILE: the process can't have more file descriptors.
 *  - ENFILE: all processes together can't have more open files.
 *  - EFBIG: RLIMIT_FSIZE is reached, by the twin in user space only, which has its memory in files.
 *  - EFAULT: a pointer does not lead to accessible memory of the caller. Only
 *    when it is the answer that can't be written, the call has had its effect; the process
 *    then has no descriptor from it.
 *  - EBUSY: someone else's hold on the object does not allow it now.
 *  - EEXIST: something is bound there already.
 *  - EAGAIN: the queue is full; wait for some of its work and try again.
 *  - ETIME: the work is not done yet.
 *  - EINTR: a signal came before the call had an effect. Once memory is being
 *    taken, only one that kills does that.
 */

#define HETSIM_TYPE 0xD5

#define HETSIM_VERSION_MAJOR 1
#define HETSIM_VERSION_MINOR 11

enum {
	HETSIM_NR_HANDSHAKE = 0x00,
	HETSIM_NR_QUERY = 0x01,
	HETSIM_NR_COUNTERS = 0x02,
	HETSIM_NR_BUFFER_CREATE = 0x10,
	HETSIM_NR_BUFFER_CLOSE = 0x11,
	HETSIM_NR_BUFFER_RESIZE = 0x12,
	HETSIM_NR_BUFFER_INFO = 0x13,
	HETSIM_NR_BUFFER_MOVE = 0x14,
	HETSIM_NR_EXPORT = 0x15,
	HETSIM_NR_IMPORT = 0x16,
	HETSIM_NR_BUFFER_SAMPLE = 0x17,
	HETSIM_NR_BUFFER_WHEN_LOST = 0x18,
	HETSIM_NR_BIND = 0x20,
	HETSIM_NR_UNBIND = 0x21,
	HETSIM_NR_QUEUE_CREATE = 0x30,
	HETSIM_NR_QUEUE_DESTROY = 0x31,
	HETSIM_NR_SUBMIT = 0x32,
	HETSIM_NR_WAIT = 0x33,
	HETSIM_NR_FENCE_FD = 0x34,
	HETSIM_NR_QUEUE_EVENT = 0x35,
	HETSIM_NR_TIMELINE_CREATE = 0x36,
	HETSIM_NR_TIMELINE_WAIT = 0x37,
	HETSIM_NR_TIMELINE_SIGNAL = 0x38,
	HETSIM_NR_INJECT = 0x40,
	HETSIM_NR_MIRROR = 0x50,
	HETSIM_NR_ADVISE = 0x51,
	HETSIM_NR_PREFETCH = 0x52,
	HETSIM_NR_RANGE_QUERY = 0x53,
	HETSIM_NR_MIRROR_EVENTS = 0x54,
	HETSIM_NR_LEARN = 0x55,
};

/*
 * When the device is taken away, maps made through this open file from now on
 * become pages of zeros, each map's its own, and not SIGBUS, unless
 * HETSIM_BUFFER_WHEN_LOST says otherwise of their buffer.
 */
#define HETSIM_HANDSHAKE_ZERO_WHEN_LOST (1u << 0)

/**
 * struct hetsim_handshake - ioctl(HETSIM_HANDSHAKE)
 * @size: sizeof(struct hetsim_handshake)
 * @flags: HETSIM_HANDSHAKE_*
 * @version_major: HETSIM_VERSION_MAJOR that the caller was built with
 * @version_minor: HETSIM_VERSION_MINOR that the caller was built with
 * @features: HETSIM_FEATURE_* that the caller can't do without
 * @driver_major: [out] the driver's major version
 * @driver_minor: [out] the driver's minor version
 * @driver_features: [out] HETSIM_FEATURE_* that the driver has
 * @minimum_minor: [out] the oldest minor version of callers that the driver
 *                 still serves
 * @accepted: [out] 1 when the two can work together, else 0: the major
 *            versions differ, the caller is older than @minimum_minor, or a
 *            wanted feature is missing. The call itself succeeds, so that the
 *            caller can name both versions.
 *
 * May be repeated; the last answer counts.
 */
struct hetsim_handshake {
	__u32 size;
	__u32 flags;
	__u32 version_major;
	__u32 version_minor;
	__aligned_u64 features;
	__u32 driver_major;
	__u32 driver_minor;
	__aligned_u64 driver_features;
	__u32 minimum_minor;
	__u32 accepted;
};

#define HETSIM_HANDSHAKE _IO(HETSIM_TYPE, HETSIM_NR_HANDSHAKE)

/**
 * enum hetsim_feature - optional parts of a driver
 * @HETSIM_FEATURE_BUFFERS: buffers, their maps, and the copying path
 * @HETSIM_FEATURE_ENGINE: the device's address space, queues and commands
 * @HETSIM_FEATURE_MOVE: pages move, by command and to make room
 * @HETSIM_FEATURE_DMABUF: buffers are exported and imported as dma-bufs
 * @HETSIM_FEATURE_INJECT: faults on request
 * @HETSIM_FEATURE_SAMPLE: counts of the pages that CPUs use
 * @HETSIM_FEATURE_MIRROR: the engine uses any memory of the process, see MIRROR; since 1.7
 * @HETSIM_FEATURE_TIMELINE: timelines, and submissions that wait and signal; since 1.10
 * @HETSIM_FEATURE_USES: submissions that name buffers wait for the fences of these, and leave
 *                       theirs, see struct hetsim_use; since 1.11
 * @HETSIM_FEATURE_DMABUF_FENCES: such fences are those of the buffers' dma-bufs; since 1.11
 */
enum hetsim_feature {
	HETSIM_FEATURE_BUFFERS = 1u << 0,
	HETSIM_FEATURE_ENGINE = 1u << 1,
	HETSIM_FEATURE_MOVE = 1u << 2,
	HETSIM_FEATURE_DMABUF = 1u << 3,
	HETSIM_FEATURE_INJECT = 1u << 4,
	HETSIM_FEATURE_SAMPLE = 1u << 5,
	HETSIM_FEATURE_MIRROR = 1u << 6,
	HETSIM_FEATURE_TIMELINE = 1u << 7,
	HETSIM_FEATURE_USES = 1u << 8,
	HETSIM_FEATURE_DMABUF_FENCES = 1u << 9,
};

/**
 * enum hetsim_kind - which sort of accelerator is simulated
 * @HETSIM_KIND_GPU: granule 128 MiB, transfers in words of 4 bytes
 * @HETSIM_KIND_FPGA: granule 64 KiB, transfers of up to 1 MiB in 64-byte lines
 * @HETSIM_KIND_NIC: granule 2 to 4 MiB, transfers of up to 4 MiB
 */
enum hetsim_kind {
	HETSIM_KIND_GPU,
	HETSIM_KIND_FPGA,
	HETSIM_KIND_NIC,
};

/**
 * enum hetsim_place - where a buffer's pages are
 * @HETSIM_PLACE_VRAM: in the device's own memory
 * @HETSIM_PLACE_SYSTEM: in system memory that the device can reach
 * @HETSIM_PLACE_WINDOW: in the device's own memory, where the CPU can reach it.
 *                       Only devices with a window have it (EOPNOTSUPP), and on
 *                       those, a CPU that touches other VRAM gets SIGBUS, or
 *                       ENXIO from pread() and pwrite().
 *
 * Where VRAM or the window is full, pages of any opener that were not used for
 * longest make room: those in VRAM go to system memory, those in the window to
 * VRAM elsewhere.
 */
enum hetsim_place {
	HETSIM_PLACE_VRAM,
	HETSIM_PLACE_SYSTEM,
	HETSIM_PLACE_WINDOW,
};

/**
 * enum hetsim_cache - how the CPU caches a buffer's pages
 * @HETSIM_CACHE_BACK: write-back, the CPU's usual way
 * @HETSIM_CACHE_COMBINE: uncached reads, combined writes
 */
enum hetsim_cache {
	HETSIM_CACHE_BACK,
	HETSIM_CACHE_COMBINE,
};

/**
 * struct hetsim_query - ioctl(HETSIM_QUERY)
 * @size: sizeof(struct hetsim_query)
 * @flags: must be 0
 * @index: [out] N of /dev/hetsimN
 * @kind: [out] enum hetsim_kind
 * @page_size: [out] buffers are multiples of this
 * @cache_modes: [out] bit (1u << HETSIM_CACHE_x) for each mode that buffers can
 *               have here, asked of the kernel
 * @granule_min: [out] the smallest unit the device likes to be mapped in
 * @granule_max: [out] the largest
 * @dma_align: [out] addresses and lengths of commands are multiples of this
 * @max_segment: [out] the longest range of one command
 * @max_buffer: [out] the longest buffer
 * @vram_bytes: [out] limit of HETSIM_PLACE_VRAM
 * @vram_used: [out] bytes of it that are taken, by all openers together, the
 *             window's included
 * @system_bytes: [out] limit of HETSIM_PLACE_SYSTEM
 * @system_used: [out] bytes of it that are taken, by all openers together
 * @opener_bytes: [out] bytes that one opener may take of both together
 * @opener_used: [out] bytes of it that this one has taken
 * @max_queues: [out] queues that one opener may have
 * @max_commands: [out] commands of one SUBMIT
 * @max_pending: [out] submissions that a queue takes before it answers EAGAIN
 * @timeout_ms: [out] how long one submission may run unless its queue was
 *              created with another time
 * @window_bytes: [out] limit of HETSIM_PLACE_WINDOW; 0: the CPU reaches all VRAM
 * @window_used: [out] bytes of it that are taken, by all openers together
 * @opener_system_bytes: [out] bytes that one opener may ask for in HETSIM_PLACE_SYSTEM,
 *                       which nothing is moved out of to make room
 * @opener_system_used: [out] bytes of it that this one has; more than that where
 *                      room was made for other openers in VRAM
 *
 * Drivers of a minor version below 2 don't have the last two members.
 */
struct hetsim_query {
	__u32 size;
	__u32 flags;
	__u32 index;
	__u32 kind;
	__u32 page_size;
	__u32 cache_modes;
	__aligned_u64 granule_min;
	__aligned_u64 granule_max;
	__aligned_u64 dma_align;
	__aligned_u64 max_segment;
	__aligned_u64 max_buffer;
	__aligned_u64 vram_bytes;
	__aligned_u64 vram_used;
	__aligned_u64 system_bytes;
	__aligned_u64 system_used;
	__aligned_u64 opener_bytes;
	__aligned_u64 opener_used;
	__u32 max_queues;
	__u32 max_commands;
	__u32 max_pending;
	__u32 timeout_ms;
	__aligned_u64 window_bytes;
	__aligned_u64 window_used;
	__aligned_u64 opener_system_bytes;
	__aligned_u64 opener_system_used;
};

#define HETSIM_QUERY _IO(HETSIM_TYPE, HETSIM_NR_QUERY)

/**
 * enum hetsim_scope - which openers counters are about
 * @HETSIM_SCOPE_OPENER: this open file and its buffers
 * @HETSIM_SCOPE_DEVICE: all openers together, since the device appeared
 */
enum hetsim_scope {
	HETSIM_SCOPE_OPENER,
	HETSIM_SCOPE_DEVICE,
};

/**
 * struct hetsim_counters - ioctl(HETSIM_COUNTERS)
 * @size: sizeof(struct hetsim_counters)
 * @scope: enum hetsim_scope
 * @faults: [out] page faults of CPUs on maps of buffers
 * @fault_pages: [out] pages that these faults mapped, or found mapped around the one
 *               that was asked for
 * @faults_by_order: [out] the faults by the number of these pages: element n
 *                   counts those of 2^n or more but less than 2^(n+1)
 * @faults_refused: [out] page faults that brought nothing: SIGBUS, no memory, poison
 * @bytes_read: [out] bytes copied out by pread()
 * @bytes_written: [out] bytes copied in by pwrite()
 * @submissions: [out] submissions that the engine has begun and is done with
 * @commands: [out] commands that it has run to their ends
 * @bytes_engine: [out] bytes that commands have read and written
 * @tlb_hits: [out] translations that the engine had at hand
 * @tlb_misses: [out] translations that it walked the page table for
 * @device_faults: [out] commands' accesses to addresses that are not bound, or
 *                 not for writing
 * @resets: [out] times that the engine was reset because work ran too long
 * @moves: [out] calls of BUFFER_MOVE
 * @bytes_moved: [out] bytes that went from one place to another
 * @evictions: [out] times that pages of a buffer went to make room
 * @brackets: [out] CPU accesses begun by DMA_BUF_IOCTL_SYNC
 * @brackets_missed: [out] such accesses ended that were not begun, or never
 *                   ended before their dma-buf was gone, or before their process was
 * @faults_huge: [out] of the faults, those that one entry of 2 MiB answered; since 1.3
 * @engine_ns: [out] nanoseconds that submissions ran, or hung, on the engine: those of
 *             queues that run at the same time add up, and a submission is counted at
 *             its end; since 1.5
 * @mirror_faults: [out] device faults on memory of the process, also those that prefetches
 *                 make; this and the following since 1.7
 * @mirror_faults_refused: [out] of these, those that ended work: see enum hetsim_fault_reason
 * @mirror_pages: [out] pages of 4 KiB that these faults, and advice, gave the device entries for
 * @mirror_invalidations: [out] times that the kernel took entries of the device away
 * @mirror_pages_invalidated: [out] pages that these entries were for
 * @mirror_evictions: [out] chunks that were forgotten, as the opener had as many as it may, or the
 *                    kernel was short of memory
 * @tlb_shootdowns: [out] translations that invalidations took out of TLBs
 * @prefetches: [out] PREFETCH calls whose work has begun
 * @prefetch_used: [out] pages that the engine used first after a prefetch brought them
 * @prefetch_wasted: [out] pages that a prefetch brought, and that were gone before any use
 * @pages_migrated: [out] pages of the process that went to the device's memory
 * @pages_returned: [out] pages that came back from there
 * @pages_evicted: [out] of these, pages that made room for others; this and the next since 1.8
 * @access_notices: [out] times that pages were used as often as HETSIM_ADVISE_COUNTER says
 * @cache_hits: [out] uses of pages under HETSIM_ADVISE_CACHE in the device's memory; this and the
 *              following since 1.9
 * @cache_misses: [out] uses of such pages at the host, those that moved a page included
 * @learn_accesses: [out] accesses that the prefetch that learns has seen, see LEARN
 * @learn_sequential: [out] of these, those that went on where one had ended,
 * @learn_strided: [out] those at equal steps,
 * @learn_random: [out] and those at no such place
 * @learn_planned: [out] pages that it was to bring ahead; of those that it brought, prefetch_used
 *                 and prefetch_wasted tell, too
 * @learn_doubled: [out] times that a window ahead grew
 * @learn_halved: [out] times that one shrank
 */
struct hetsim_counters {
	__u32 size;
	__u32 scope;
	__aligned_u64 faults;
	__aligned_u64 fault_pages;
	__aligned_u64 faults_by_order[10];
	__aligned_u64 faults_refused;
	__aligned_u64 bytes_read;
	__aligned_u64 bytes_written;
	__aligned_u64 submissions;
	__aligned_u64 commands;
	__aligned_u64 bytes_engine;
	__aligned_u64 tlb_hits;
	__aligned_u64 tlb_misses;
	__aligned_u64 device_faults;
	__aligned_u64 resets;
	__aligned_u64 moves;
	__aligned_u64 bytes_moved;
	__aligned_u64 evictions;
	__aligned_u64 brackets;
	__aligned_u64 brackets_missed;
	__aligned_u64 faults_huge;
	__aligned_u64 engine_ns;
	__aligned_u64 mirror_faults;
	__aligned_u64 mirror_faults_refused;
	__aligned_u64 mirror_pages;
	__aligned_u64 mirror_invalidations;
	__aligned_u64 mirror_pages_invalidated;
	__aligned_u64 mirror_evictions;
	__aligned_u64 tlb_shootdowns;
	__aligned_u64 prefetches;
	__aligned_u64 prefetch_used;
	__aligned_u64 prefetch_wasted;
	__aligned_u64 pages_migrated;
	__aligned_u64 pages_returned;
	__aligned_u64 pages_evicted;
	__aligned_u64 access_notices;
	__aligned_u64 cache_hits;
	__aligned_u64 cache_misses;
	__aligned_u64 learn_accesses;
	__aligned_u64 learn_sequential;
	__aligned_u64 learn_strided;
	__aligned_u64 learn_random;
	__aligned_u64 learn_planned;
	__aligned_u64 learn_doubled;
	__aligned_u64 learn_halved;
};

#define HETSIM_COUNTERS _IO(HETSIM_TYPE, HETSIM_NR_COUNTERS)

/**
 * enum hetsim_inject_kind - which fault
 * @HETSIM_INJECT_LATENCY: each command on queue @target takes @value ns more
 * @HETSIM_INJECT_STUCK: the next @value submissions on queue @target hang until
 *                       their time is up
 * @HETSIM_INJECT_LOST_INTERRUPT: the next @value submissions on queue @target are
 *                                done, but tell no waiter until their time is up
 * @HETSIM_INJECT_SIGBUS: the page at @value of buffer @target answers CPUs with
 *                        SIGBUS; all ones: none does any more
 * @HETSIM_INJECT_POISON: the same, as memory that is broken (BUS_MCEERR_AR), which the
 *                        kernel prints a line about: past 100 of them in 5 s, of all
 *                        openers, it is an ordinary SIGBUS. Needs CAP_SYS_ADMIN, except in soft:N,
 *                        where it is an ordinary SIGBUS always
 * @HETSIM_INJECT_EVICTION: @value bytes of buffer @target go to system memory, or all that
 *                          it has in VRAM; or as many as do before one can't: that is
 *                          the answer, EBUSY when another device has their addresses
 * @HETSIM_INJECT_ENOMEM: the @value-th allocation of pages for this opener's
 *                        buffers from now fails with ENOMEM; 0: none. Not of those
 *                        that make room for other openers.
 * @HETSIM_INJECT_EINTR: the @value-th such allocation or WAIT from now fails with
 *                       EINTR; 0: none
 * @HETSIM_INJECT_RESET: work that runs on the device now ends with -ECANCELED
 * @HETSIM_INJECT_UNPLUG: the device is taken away
 *
 * EPERM for a buffer that another opener made, and for the last two without
 * CAP_SYS_ADMIN and the module's parameter test. Members with no meaning for a
 * kind are 0.
 */
enum hetsim_inject_kind {
	HETSIM_INJECT_LATENCY,
	HETSIM_INJECT_STUCK,
	HETSIM_INJECT_LOST_INTERRUPT,
	HETSIM_INJECT_SIGBUS,
	HETSIM_INJECT_POISON,
	HETSIM_INJECT_EVICTION,
	HETSIM_INJECT_ENOMEM,
	HETSIM_INJECT_EINTR,
	HETSIM_INJECT_RESET,
	HETSIM_INJECT_UNPLUG,
};

/**
 * struct hetsim_inject - ioctl(HETSIM_INJECT)
 * @size: sizeof(struct hetsim_inject)
 * @kind: enum hetsim_inject_kind
 * @target: a queue or a handle, as the kind says
 * @flags: must be 0
 * @value: as the kind says
 */
struct hetsim_inject {
	__u32 size;
	__u32 kind;
	__u32 target;
	__u32 flags;
	__aligned_u64 value;
};

#define HETSIM_INJECT _IO(HETSIM_TYPE, HETSIM_NR_INJECT)

#include "hetsim_buffer.h"
#include "hetsim_mirror.h"
#include "hetsim_queue.h"
#include "hetsim_timeline.h"

#endif
