/* SPDX-License-Identifier: MIT */
/*
 * Ring: records between two processes, in one file.
 *
 * One end writes records, the other one reads them, in order; they may be in one process or
 * in two. The records are in the file, so that they outlive both: what was committed is
 * read by whoever opens the file next. A process that ends at any moment, also by SIGKILL,
 * leaves a ring that is whole: of a record there is all, committed, or nothing.
 *
 * Neither end trusts the other: what it finds in the file is checked, and a ring that lies is
 * -EBADMSG. But who may write the file may also cut it off. Each call here is -EIO from then
 * on, wherever it was cut, also where it was grown again: the file ends with bytes that are
 * looked at before a call says that it has written or read anything. What -EIO was for may be
 * there or not; hm_ring_unref() is what is left. Touching missing bytes is a SIGBUS, though,
 * which takes the handler of hetmap/guard.h to become that error; in a guarded scope it is the
 * scope's error, and where it came inside of a call here, every later one on this end is
 * -EBUSY. Bytes of the file that the handler has replaced as storage failed are -EIO, too, until
 * hm_device_recover() brings them back. A memfd, which hm_ring_create() seals, can't be cut off.
 *
 * One thread at a time may use an end; another one's call is -EBUSY meanwhile. Both ends are
 * on one machine: there are no rings on file systems that other machines may have, too, those
 * of networks and clusters, nor on FUSE, which may be one.
 */
#ifndef HETMAP_RING_H
#define HETMAP_RING_H

#include <hetmap/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_ring; /* one end of a ring */

/* hm_ring_open: which end */
enum hm_ring_end {
	HM_RING_READER = 0,
	HM_RING_WRITER = 1,
};

struct hm_ring_desc {
	uint32_t struct_size;
	uint32_t flags;    /* 0 */
	uint64_t capacity; /* bytes for records: see hm_ring_create() */
};

struct hm_ring_info {
	uint32_t struct_size;
	uint32_t end;        /* enum hm_ring_end: which one was asked */
	uint64_t capacity;   /* bytes that records take at most, each 8 more than it has */
	uint64_t record_max; /* bytes of the largest record */
	uint64_t used;       /* bytes that committed records take now */
	uint64_t position; /* bytes that this end has written or read, since the ring was made */
	uint32_t peer;     /* 1: a process has the other end open */
	uint32_t reserved;
};

/**
 * hm_ring_create - make a file of a ring
 * @path: [in] of a file that is not there yet; or NULL, and then
 * @fd:   [in] an open file, empty, to read and write; a memfd is sealed against cutting off
 *        where it may be sealed [memfd_create(2), MFD_ALLOW_SEALING]
 * @desc: [in] capacity from 4096 to 2^30, rounded up to a power of two; a record may have half
 *        of it, less 8 bytes
 *
 * Takes all of its storage at once, so that no store raises SIGBUS later because a disk is
 * full; but for file systems that write elsewhere what is overwritten (btrfs, zfs, bcachefs),
 * where it may all the same. The mode is 0666 less the umask: who may write it may use either
 * end. A ring does
 * not grow: make a new one, and have the reader read the old one to its end.
 *
 * Errors: -EEXIST @path is there, or the file of @fd is not empty: a ring doesn't grow;
 * -EINVAL capacity, or no regular file; -EOPNOTSUPP a network's file system, a cluster's or
 * FUSE (hetmap/file.h: all that is not HM_COHERENCE_LOCAL); -EFBIG above
 * RLIMIT_FSIZE; -ENOSPC, -EDQUOT, -EIO, -EROFS, -EACCES, -ENOENT of the folder; -EACCES @fd
 * is not open for both; -ENOENT /proc is not mounted and a path is NULL.
 * Thread-safe. After a failure there is no file, where there was none, and that of @fd is
 * empty again.
 */
HM_API int hm_ring_create(const char *path, int fd, const struct hm_ring_desc *desc);

/**
 * hm_ring_open - one end of a ring
 * @path: [in] that hm_ring_create() made; or NULL, and then
 * @fd:   [in] such a file, opened anew through /proc: the descriptor stays the caller's
 * @end:  [in] enum hm_ring_end
 * @ret_ring: [out] a reference, dropped with hm_ring_unref()
 *
 * Each end is one process's at a time, by a lock of the file that ends with the process
 * [fcntl(2), open file description locks]. It goes on where the last one that had this end
 * stopped.
 *
 * Errors: -EBUSY another has this end; -EBADMSG it is no ring, of another version or byte
 * order, or one that was not made to its end, or what it says of itself is wrong: the
 * text says what; -EOPNOTSUPP as above; -ENOLCK the file system has no locks;
 * hm_buffer_from_file()'s, and hm_map_create()'s.
 */
HM_API int hm_ring_open(const char *path, int fd, uint32_t end, struct hm_ring **ret_ring);

/**
 * hm_ring_query - what a ring has, and who is there
 * @ring:     [in]
 * @ret_info: [in,out] struct_size set by the caller
 *
 * Errors: -EBADMSG the other end's position is wrong; -EIO bytes of the file were lost, see above;
 * -EBUSY; -E2BIG.
 */
HM_API int hm_ring_query(struct hm_ring *ring, struct hm_ring_info *ret_info);

/**
 * hm_ring_reserve - room for a record, to be written in place
 * @ring:       [in] the writer
 * @length:     [in] bytes, from 1 to hm_ring_info.record_max
 * @timeout_ns: [in] relative; 0: not at all, UINT64_MAX: for ever
 * @ret_data:   [out] 8-byte aligned; lives until the commit
 *
 * Waits until the reader has released enough. Nobody sees the bytes before
 * hm_ring_commit(); a second reservation takes the place of one that was not committed.
 *
 * Errors: -EMSGSIZE @length is beyond record_max; -ETIME there is no room yet; -EPIPE there
 * is none, and the reader, who was there, is gone; -EBADMSG the reader's position is wrong;
 * -EIO bytes of the file were lost, see above; -EBUSY another thread's call; -EINVAL the ring is
 * the reader's end.
 */
HM_API int hm_ring_reserve(struct hm_ring *ring, uint64_t length, uint64_t timeout_ns,
			   void **ret_data);

/**
 * hm_ring_commit - give the reader what was reserved
 * @ring:   [in] the writer
 * @length: [in] bytes from the first on, up to what was reserved; 0: drop it
 *
 * The reader sees the whole record, or nothing. It is woken where it sleeps.
 *
 * Errors: -EINVAL nothing is reserved, or less than @length; -EIO bytes of the file were lost,
 * see above; -EBUSY.
 */
HM_API int hm_ring_commit(struct hm_ring *ring, uint64_t length);

/**
 * hm_ring_write - a record, copied
 * @ring:       [in] the writer
 * @data:       [in] @length bytes
 * @length, @timeout_ns: [in] as of hm_ring_reserve()
 *
 * Errors: hm_ring_reserve()'s.
 */
HM_API int hm_ring_write(struct hm_ring *ring, const void *data, uint64_t length,
			 uint64_t timeout_ns);

/**
 * hm_ring_peek - the next record, in place
 * @ring:       [in] the reader
 * @timeout_ns: [in] relative; 0: not at all, UINT64_MAX: for ever
 * @ret_data:   [out] 8-byte aligned; lives until hm_ring_release()
 * @ret_length: [out] bytes
 *
 * The same one until it is released; a reader that ends before has it again. The writer
 * leaves these bytes alone, unless it lies: copy what is to be checked and then used.
 *
 * Errors: -ETIME there is none yet; -EPIPE there is none, and the writer, who was there, is
 * gone; -EBADMSG the writer's position or the record is wrong: the text says what; -EIO bytes of
 * the file were lost, see above; -EBUSY another thread's call; -EINVAL the ring is the writer's
 * end.
 */
HM_API int hm_ring_peek(struct hm_ring *ring, uint64_t timeout_ns, const void **ret_data,
			uint64_t *ret_length);

/**
 * hm_ring_release - done with the record that hm_ring_peek() gave
 * @ring: [in] the reader
 *
 * Errors: -EINVAL none was given; -EIO bytes of the file were lost, see above, and so may be what
 * hm_ring_peek() showed; -EBUSY.
 */
HM_API int hm_ring_release(struct hm_ring *ring);

/**
 * hm_ring_read - the next record, copied and released
 * @ring:       [in] the reader
 * @to:         [in] @room bytes
 * @room:       [in]
 * @timeout_ns: [in] as of hm_ring_peek()
 * @ret_length: [out] bytes of the record
 *
 * Errors: -EMSGSIZE it has more than @room bytes (the text says how many), and stays;
 * hm_ring_peek()'s.
 */
HM_API int hm_ring_read(struct hm_ring *ring, void *to, uint64_t room, uint64_t timeout_ns,
			uint64_t *ret_length);

/**
 * hm_ring_sync - have what is in the ring on storage
 * @ring: [in]
 *
 * What was committed before outlives a power failure, too. Without it a ring outlives
 * processes, not the machine, as the kernel writes pages in any order.
 *
 * Errors: -EIO bytes of the file were lost, see above; hm_map_sync()'s.
 */
HM_API int hm_ring_sync(struct hm_ring *ring);

/** hm_ring_ref - take a reference; returns @ring. NULL gives NULL. */
HM_API struct hm_ring *hm_ring_ref(struct hm_ring *ring);

/**
 * hm_ring_unref - drop a reference; NULL is allowed
 *
 * With the last one this end is free for others. A fork child has none of its parent's ends.
 */
HM_API void hm_ring_unref(struct hm_ring *ring);

#ifdef __cplusplus
}
#endif

#endif
