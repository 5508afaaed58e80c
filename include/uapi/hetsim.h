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
 * struct hetsim_buffer_create - ioctl(HETSIM_BUFFER_CREATE)
 * @size: sizeof(struct hetsim_buffer_create)
 * @flags: must be 0
 * @length: bytes, a multiple of the page size
 * @place: enum hetsim_place
 * @cache: enum hetsim_cache; EOPNOTSUPP where the query does not list it
 * @handle: [out] the buffer's name on this open file
 * @__reserved: must be 0
 * @offset: [out] offset of byte 0 for mmap(), pread() and pwrite()
 * @capacity: bytes that maps may extend over, a multiple of the page size, from
 *            @length to the query's max_buffer; 0: @length. A map answers with
 *            SIGBUS beyond the buffer's present length.
 *
 * The pages are taken, zeroed and charged to the caller's control group now. ENOSPC, too,
 * when the opener has made, or taken in from other devices, 16384 buffers that live.
 * A 32-bit process gets only slots for offsets that mmap2() reaches: ENOSPC when all of them are
 * taken. Buffers of 64-bit processes leave it a quarter of all slots, or half of those that mmap2()
 * reaches if that is less, and take the lowest ones of the rest.
 * A buffer lives until its handle is closed, nothing maps it, nothing is bound to it, and
 * no dma-buf is of it any more.
 */
struct hetsim_buffer_create {
	__u32 size;
	__u32 flags;
	__aligned_u64 length;
	__u32 place;
	__u32 cache;
	__u32 handle;
	__u32 __reserved;
	__aligned_u64 offset;
	__aligned_u64 capacity;
};

#define HETSIM_BUFFER_CREATE _IO(HETSIM_TYPE, HETSIM_NR_BUFFER_CREATE)

/**
 * struct hetsim_buffer_close - ioctl(HETSIM_BUFFER_CLOSE)
 * @size: sizeof(struct hetsim_buffer_close)
 * @handle: the handle to close
 *
 * Maps of the buffer stay.
 */
struct hetsim_buffer_close {
	__u32 size;
	__u32 handle;
};

#define HETSIM_BUFFER_CLOSE _IO(HETSIM_TYPE, HETSIM_NR_BUFFER_CLOSE)

/**
 * struct hetsim_buffer_resize - ioctl(HETSIM_BUFFER_RESIZE)
 * @size: sizeof(struct hetsim_buffer_resize)
 * @handle: the buffer
 * @flags: must be 0
 * @__reserved: must be 0
 * @length: bytes, a multiple of the page size
 *
 * Bytes that both lengths have stay as they are, further ones are zero. A map
 * never changes its extent: bytes that a shrunk buffer no longer has answer with
 * SIGBUS. One that grows beyond its capacity has its new length as its capacity.
 *
 * EBUSY for a shorter length while the buffer is exported, EACCES on a file that is not
 * open for writing. The buffer stays charged to its maker: EPERM on other open files as long as
 * the maker's is open, and not once it is closed. Maps keep an open file open, except those of
 * soft:N. After the close, a receiver of a writable dma-buf may therefore make the use of the
 * maker's control group grow, up to the limit of one opener: keep the file open, or give
 * HETSIM_EXPORT_WRITE to trusted receivers only.
 */
struct hetsim_buffer_resize {
	__u32 size;
	__u32 handle;
	__u32 flags;
	__u32 __reserved;
	__aligned_u64 length;
};

#define HETSIM_BUFFER_RESIZE _IO(HETSIM_TYPE, HETSIM_NR_BUFFER_RESIZE)

/**
 * struct hetsim_buffer_info - ioctl(HETSIM_BUFFER_INFO)
 * @size: sizeof(struct hetsim_buffer_info)
 * @handle: the buffer
 * @place: [out] enum hetsim_place that it was made in or moved to as a whole;
 *         SYSTEM for another device's memory
 * @cache: [out] enum hetsim_cache, as page-table entries of maps have it; BACK for
 *         another device's memory, of which only that device knows
 * @length: [out] bytes
 * @offset: [out] offset of byte 0 for mmap(), pread() and pwrite()
 * @maps: [out] maps of it in all processes; a map that was split counts for
 *        each part, one of another device's memory does not
 * @vram_bytes: [out] bytes of it that are in HETSIM_PLACE_VRAM now
 * @system_bytes: [out] bytes of it that are in HETSIM_PLACE_SYSTEM now
 * @window_bytes: [out] bytes of it that are in HETSIM_PLACE_WINDOW now
 * @evictions: [out] times that pages of it went to make room; since 1.4
 */
struct hetsim_buffer_info {
	__u32 size;
	__u32 handle;
	__u32 place;
	__u32 cache;
	__aligned_u64 length;
	__aligned_u64 offset;
	__aligned_u64 maps;
	__aligned_u64 vram_bytes;
	__aligned_u64 system_bytes;
	__aligned_u64 window_bytes;
	__aligned_u64 evictions;
};

#define HETSIM_BUFFER_INFO _IO(HETSIM_TYPE, HETSIM_NR_BUFFER_INFO)

/**
 * struct hetsim_buffer_move - ioctl(HETSIM_BUFFER_MOVE)
 * @size: sizeof(struct hetsim_buffer_move)
 * @handle: the buffer
 * @place: enum hetsim_place
 * @flags: must be 0
 * @offset: where to begin, a multiple of the page size
 * @length: bytes, a multiple of the page size
 * @queue: a queue of HETSIM_QUEUE_COUNTER (else EOPNOTSUPP), of which the call is a submission, see
 *         below; 0: none. This and the following since 1.10
 * @n_waits: length of @waits, up to HETSIM_MAX_SYNCS; 0 without a queue, as the next three
 * @n_signals: length of @signals, likewise
 * @__reserved: must be 0
 * @waits: address of an array of struct hetsim_sync, as in SUBMIT
 * @signals: the same
 * @seqno: [out] the submission's number in its queue; 0 without one
 *
 * Maps, bindings and running work see nothing of it but time. A call that fails
 * with ENOSPC, ENOMEM or EINTR may have moved a part; the rest is where it was.
 * EBUSY while another device has mapped the buffer through a dma-buf, EACCES on a file
 * that is not open for writing. An importer may move the buffer as its maker does, to have it
 * where it is used: in each place it counts as the maker's, within the maker's limits.
 *
 * Moves, binds and unbinds with a queue are submissions: the call returns at once, the operation is
 * made in the order of its queue, once its waits are there, and WAIT has the errno that the call
 * would have had otherwise as the status. An operation that has begun has no limit of time, and the
 * end of its queue waits for it. Objects are looked up by the call, and kept until the end. ENOENT
 * also where there is no such queue; EAGAIN when it is full.
 */
struct hetsim_buffer_move {
	__u32 size;
	__u32 handle;
	__u32 place;
	__u32 flags;
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

#define HETSIM_BUFFER_MOVE _IO(HETSIM_TYPE, HETSIM_NR_BUFFER_MOVE)

#define HETSIM_EXPORT_WRITE (1u << 0) /* the dma-buf may be mapped to be written */

/**
 * struct hetsim_export - ioctl(HETSIM_EXPORT)
 * @size: sizeof(struct hetsim_export)
 * @handle: the buffer
 * @flags: HETSIM_EXPORT_*; EACCES for HETSIM_EXPORT_WRITE on a file that is not
 *         open for writing
 * @fd: [out] a dma-buf of the buffer's present length, close-on-exec
 * @__reserved: must be 0
 *
 * While there is a handle of the buffer, on whatever open file, all exports with the same
 * flags are of one dma-buf, which the buffer keeps: an importer that takes it in twice has one
 * object. After the buffer has grown, an export makes a new dma-buf. A fence on any dma-buf of
 * the buffer is on all of them. A dma-buf without users holds up no shrink, and open brackets
 * on it count in @brackets_missed. soft:N exports descriptors of one memory, which have no
 * fences.
 *
 * DMA_BUF_IOCTL_SYNC on the dma-buf makes no byte visible here, where CPU and device see the same
 * memory. It waits for the fences on the dma-buf: those of other drivers, and of submissions that
 * have named the buffer (struct hetsim_use). The driver counts it: EINVAL for an end without its
 * begin, EOVERFLOW for a begin while 2147483647 are open. A dma-buf has the open brackets of all
 * its processes, and notes which process began each, but not its direction. An end closes a bracket
 * of its own process, or, if that has none open, one of another process. The driver closes the
 * brackets of a process that has ended, and counts them in @brackets_missed.
 *
 * Importers whose DMA goes by bounce buffers, or whose caches have to be told, get EOPNOTSUPP:
 * they would see copies.
 *
 * While an importer has the addresses of the pages, they make no room: no
 * more than half of VRAM, the window included, and of the window itself, can be in this
 * state, and of one opener's buffers no more than a quarter. An importer that would have
 * more is told ENOSPC. CPU accesses of other drivers can't be refused: for them the pages of a
 * buffer that would be more go to system memory, as far as there is room.
 *
 * Without HETSIM_EXPORT_WRITE no map of it can be written, nor a map of another driver's
 * object. Writes of devices are their drivers' affair.
 */
struct hetsim_export {
	__u32 size;
	__u32 handle;
	__u32 flags;
	__s32 fd;
	__aligned_u64 __reserved;
};

#define HETSIM_EXPORT _IO(HETSIM_TYPE, HETSIM_NR_EXPORT)

/**
 * struct hetsim_import - ioctl(HETSIM_IMPORT)
 * @size: sizeof(struct hetsim_import)
 * @flags: must be 0
 * @fd: a dma-buf, else EINVAL; EACCES if it may not be written and
 *      this file is open for writing
 * @handle: [out] the buffer's name on this open file; the one that it has
 *          already, if it has
 * @length: [out] bytes that the dma-buf has
 * @offset: [out] offset of byte 0 for mmap(), pread() and pwrite()
 *
 * The buffer stays charged to its maker. A dma-buf that this device has exported
 * becomes the same buffer again; EOPNOTSUPP to a 32-bit process where mmap2() does not reach the
 * buffer's offset, as with the last of many that 64-bit processes made on a large device. Such a
 * process can map the dma-buf itself.
 *
 * Memory of other devices is taken in as it is: it stays where it is while a handle or a
 * binding is there, and this device is. No place of this device counts it. Two limits apply
 * (ENOSPC): the one of 16384 buffers and, where its exporter is such a device, the exporter's
 * limit of pages that importers may pin. It can be bound, mapped, read and written;
 * its maps are its exporter's, and stay when this device is taken away. Calls that would
 * change it, move it, sample it, hurt it or export it answer EOPNOTSUPP. So does this one
 * where the memory can't be reached: behind an IOMMU, in another device's own memory, or
 * not to be attached by this device. Work that names the buffer waits for the fences that other
 * drivers put on it (struct hetsim_use).
 */
struct hetsim_import {
	__u32 size;
	__u32 flags;
	__s32 fd;
	__u32 handle;
	__aligned_u64 length;
	__aligned_u64 offset;
};

#define HETSIM_IMPORT _IO(HETSIM_TYPE, HETSIM_NR_IMPORT)

/**
 * enum hetsim_sample_action - actions on a buffer's sample
 * @HETSIM_SAMPLE_START: counts begin, at 0
 * @HETSIM_SAMPLE_READ: counts are read, and go on
 * @HETSIM_SAMPLE_STOP: nothing is counted any more
 */
enum hetsim_sample_action {
	HETSIM_SAMPLE_START,
	HETSIM_SAMPLE_READ,
	HETSIM_SAMPLE_STOP,
};

/**
 * struct hetsim_buffer_sample - ioctl(HETSIM_BUFFER_SAMPLE)
 * @size: sizeof(struct hetsim_buffer_sample)
 * @handle: the buffer
 * @action: enum hetsim_sample_action
 * @__reserved: must be 0
 * @offset: READ: where to begin, a multiple of the page size; else 0
 * @length: READ: bytes, a multiple of the page size; else 0
 * @counts: READ: address of an array of __u32, one for each page of the range
 *
 * A page is counted when a map of the buffer uses it for the first time since
 * START or the last READ of it, and again when it was moved meanwhile: counts are
 * those of reads between which a map used it, not of instructions. Maps are slower
 * meanwhile. READ answers ENOENT before START and after STOP; a buffer that changes
 * its length is stopped. All are EPERM for a buffer that another open file has made: counts
 * tell the doings of its maker.
 */
struct hetsim_buffer_sample {
	__u32 size;
	__u32 handle;
	__u32 action;
	__u32 __reserved;
	__aligned_u64 offset;
	__aligned_u64 length;
	__aligned_u64 counts;
};

#define HETSIM_BUFFER_SAMPLE _IO(HETSIM_TYPE, HETSIM_NR_BUFFER_SAMPLE)

/**
 * enum hetsim_when_lost - the state of a buffer's maps once the device is taken away
 * @HETSIM_WHEN_LOST_DEFAULT: the setting of the handshake when each of them was made
 * @HETSIM_WHEN_LOST_SIGNAL: SIGBUS, for programs that have something better than zeros to
 *                           put there, or want to know
 */
enum hetsim_when_lost {
	HETSIM_WHEN_LOST_DEFAULT,
	HETSIM_WHEN_LOST_SIGNAL,
};

/**
 * struct hetsim_buffer_when_lost - ioctl(HETSIM_BUFFER_WHEN_LOST)
 * @size: sizeof(struct hetsim_buffer_when_lost)
 * @handle: the buffer
 * @when: enum hetsim_when_lost
 * @__reserved: must be 0
 *
 * Of all maps of the buffer that were or will be made through this open file, as long as
 * it has the handle; of other open files' none. EOPNOTSUPP where another device's memory
 * was taken in, and from the twin in user space. Since 1.6.
 */
struct hetsim_buffer_when_lost {
	__u32 size;
	__u32 handle;
	__u32 when;
	__u32 __reserved;
};

#define HETSIM_BUFFER_WHEN_LOST _IO(HETSIM_TYPE, HETSIM_NR_BUFFER_WHEN_LOST)

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

#include "hetsim_mirror.h"
#include "hetsim_timeline.h"

#endif
