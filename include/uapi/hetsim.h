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
 *  - ERANGE: a range does not lie within the object it is about.
 *  - ENOENT: this open file has no such object.
 *  - EACCES: the open file does not have the access that the call needs.
 *  - ENOSPC: a limit of the device or of the opener is reached; HETSIM_QUERY
 *    and the open file's fdinfo show them.
 *  - ENOMEM: the kernel, or the caller's control group, has no memory left.
 *  - EFAULT: a pointer does not lead to accessible memory of the caller. Only
 *    when it is the answer that can't be written, the call has had its effect.
 *  - EINTR: a signal came before the call had an effect.
 */

#define HETSIM_TYPE 0xD5

#define HETSIM_VERSION_MAJOR 1
#define HETSIM_VERSION_MINOR 0

enum {
	HETSIM_NR_HANDSHAKE = 0x00,
	HETSIM_NR_QUERY = 0x01,
	HETSIM_NR_COUNTERS = 0x02,
	HETSIM_NR_BUFFER_CREATE = 0x10,
	HETSIM_NR_BUFFER_CLOSE = 0x11,
	HETSIM_NR_BUFFER_RESIZE = 0x12,
	HETSIM_NR_BUFFER_INFO = 0x13,
};

/**
 * struct hetsim_handshake - ioctl(HETSIM_HANDSHAKE)
 * @size: sizeof(struct hetsim_handshake)
 * @flags: must be 0
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
 * enum hetsim_feature - what a driver may or may not have
 * @HETSIM_FEATURE_BUFFERS: buffers, their maps, and the copying path
 */
enum hetsim_feature {
	HETSIM_FEATURE_BUFFERS = 1u << 0,
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
 */
enum hetsim_place {
	HETSIM_PLACE_VRAM,
	HETSIM_PLACE_SYSTEM,
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
 * @dma_align: [out] what the addresses and lengths of commands are multiples of
 * @max_segment: [out] the longest range of one command
 * @max_buffer: [out] the longest buffer
 * @vram_bytes: [out] limit of HETSIM_PLACE_VRAM
 * @vram_used: [out] bytes of it that are taken, by all openers together
 * @system_bytes: [out] limit of HETSIM_PLACE_SYSTEM
 * @system_used: [out] bytes of it that are taken, by all openers together
 * @opener_bytes: [out] what one opener may take of both together
 * @opener_used: [out] bytes of it that this one has taken
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
};

#define HETSIM_QUERY _IO(HETSIM_TYPE, HETSIM_NR_QUERY)

/**
 * enum hetsim_scope - whom counters are about
 * @HETSIM_SCOPE_OPENER: this open file and what became of its buffers
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
 * @fault_pages: [out] page-table entries that these faults filled
 * @faults_by_order: [out] the faults by the number of entries filled: element n
 *                   counts those that filled 2^n or more but less than 2^(n+1)
 * @faults_refused: [out] page faults that were answered with SIGBUS
 * @bytes_read: [out] bytes copied out by pread()
 * @bytes_written: [out] bytes copied in by pwrite()
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
 * @offset: [out] what to pass to mmap(), pread() and pwrite() for byte 0
 *
 * The pages are taken, zeroed and charged to the caller's control group now.
 * A buffer lives until its handle is closed and nothing maps it any more.
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
 * never changes its extent: what a shrunk buffer no longer has answers with
 * SIGBUS.
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
 * @place: [out] enum hetsim_place
 * @cache: [out] enum hetsim_cache, as page-table entries of maps have it
 * @length: [out] bytes
 * @offset: [out] what to pass to mmap(), pread() and pwrite() for byte 0
 * @maps: [out] maps of it in all processes; a map that was split counts for
 *        each part
 */
struct hetsim_buffer_info {
	__u32 size;
	__u32 handle;
	__u32 place;
	__u32 cache;
	__aligned_u64 length;
	__aligned_u64 offset;
	__aligned_u64 maps;
};

#define HETSIM_BUFFER_INFO _IO(HETSIM_TYPE, HETSIM_NR_BUFFER_INFO)

#endif
