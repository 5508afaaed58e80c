/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note OR MIT */
/*
 * Buffers of the device: their pages, places, exports and imports. A part of hetsim.h, which
 * includes it.
 */
#ifndef _UAPI_HETSIM_BUFFER_H
#define _UAPI_HETSIM_BUFFER_H

#include <linux/ioctl.h>
#include <linux/types.h>

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
 * The choice holds for all maps of the buffer that this open file has made or will make, as long
 * as it has the handle, and for no map of another open file. EOPNOTSUPP for an imported buffer, and
 * from the twin in user space. Since 1.6.
 */
struct hetsim_buffer_when_lost {
	__u32 size;
	__u32 handle;
	__u32 when;
	__u32 __reserved;
};

#define HETSIM_BUFFER_WHEN_LOST _IO(HETSIM_TYPE, HETSIM_NR_BUFFER_WHEN_LOST)

#endif
