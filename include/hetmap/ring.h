/* SPDX-License-Identifier: MIT */
/*
 * Ring: records between two processes, in one file.
 *
 * One end writes records, and the other end reads them in order. The two ends are in two
 * processes, or in one. The records are in the file, and outlive both processes: the next process
 * that opens the file for reading gets the committed records. A process that ends at any moment,
 * also by SIGKILL, leaves an intact ring. A record is in the ring as a whole, committed, or not
 * at all.
 *
 * Neither end trusts the other one. The functions check the values that they find in the file,
 * and return -EBADMSG for impossible values. But a process that may write the file may also cut
 * it off. From then on each call on either end returns -EIO, wherever the cut was, and also if
 * the file has grown again: the functions check bytes at the end of the file before they report
 * a record as written or read. The record of the call that returned -EIO may be in the file or
 * not. Only hm_ring_unref() still works. No process can cut off a memfd that hm_ring_create() has
 * sealed.
 *
 * A touch of missing bytes is a SIGBUS. With the handler of hetmap/guard.h the touch becomes
 * -EIO, and in a guarded scope it is the error of the scope. If a fault leaves a guarded scope
 * from inside a call of this header, every later call on this end returns -EBUSY. Bytes of the
 * file that the handler has replaced because storage failed are -EIO, too, until
 * hm_device_recover() brings them back.
 *
 * Thread safety of all functions: one thread at a time may use an end; a call of another thread
 * returns -EBUSY meanwhile.
 *
 * Both ends are on one machine. Rings are not possible on file systems that other machines may
 * use, too, which are those of networks and clusters, nor on FUSE, which may be such a file
 * system.
 */
#ifndef HETMAP_RING_H
#define HETMAP_RING_H

#include <hetmap/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_ring; /* one end of a ring */

/* End of a ring, for hm_ring_open(). */
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
	uint32_t end;        /* enum hm_ring_end: the queried end */
	uint64_t capacity;   /* most bytes that records take: see hm_ring_create() */
	uint64_t record_max; /* bytes of the largest record */
	uint64_t used;       /* bytes that committed records take now */
	uint64_t position; /* bytes that this end has written or read, since the ring was made */
	uint32_t peer;     /* 1: a process has the other end open */
	uint32_t reserved;
};

/**
 * hm_ring_create - make the file of a ring
 * @path: [in] path of a file, which must not exist; or NULL to use @fd
 * @fd:   [in] if @path is NULL, an empty file that is open to read and write; the descriptor
 *        stays the caller's. A memfd is sealed against cutting off if it may be sealed
 *        [memfd_create(2), MFD_ALLOW_SEALING]
 * @desc: [in] capacity from 4096 to 2^30 bytes, rounded up to a power of two; the largest record
 *        has half of the capacity, less 8 bytes. A record takes its length, rounded up to a
 *        multiple of 8, and 8 bytes more
 *
 * The function allocates all storage at once, so that no later store raises SIGBUS because a disk
 * is full. File systems that write overwritten data to a new place (btrfs, zfs, bcachefs) do not
 * guarantee that: a store there may raise SIGBUS. The mode of the file is 0666 less the umask. A
 * process that may write the file may use either end.
 *
 * A ring does not grow. For a larger ring, make a new one, and let the reader read the old one to
 * its end. After a failure no file exists at a @path where none was, and the file of @fd is empty
 * again.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EEXIST:     @path exists, or the file of @fd is not empty; a ring does not grow.
 *   -EINVAL:     the capacity is out of range, or the file is no regular file.
 *   -EOPNOTSUPP: the file system is a network's, a cluster's or FUSE (hetmap/file.h: any that is
 *                not HM_COHERENCE_LOCAL).
 *   -EFBIG:      the file would exceed RLIMIT_FSIZE; raise the limit.
 *   -ENOSPC:     the file system has no room for the file.
 *   -EDQUOT:     the quota has no room for the file.
 *   -EIO:        storage of the folder failed.
 *   -EROFS:      the folder is read-only.
 *   -EACCES:     permissions forbid the folder, or @fd is not open to both read and write.
 *   -ENOENT:     the folder is missing; or @path is NULL and /proc is not mounted, so mount it.
 */
HM_API int hm_ring_create(const char *path, int fd, const struct hm_ring_desc *desc);

/**
 * hm_ring_open - open one end of a ring
 * @path: [in] path of a file that hm_ring_create() made; or NULL to use @fd
 * @fd:   [in] if @path is NULL, such a file; the function opens it anew through /proc, and the
 *        descriptor stays the caller's
 * @end:  [in] enum hm_ring_end
 * @ret_ring: [out] a reference; the caller must drop it with hm_ring_unref()
 *
 * Only one user at a time, in any process, can have an end. A lock of the file, which ends with
 * the process, marks the end as in use [fcntl(2), open file description locks]. The next user of
 * the end continues at the same position.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EBUSY:      another user has this end.
 *   -EBADMSG:    the file is no ring, is of another version or byte order, or was not completed;
 *                or its header has an impossible value. The text says which.
 *   -EOPNOTSUPP: as for hm_ring_create().
 *   -ENOLCK:     the file system has no locks.
 *
 * In addition the errors of hm_buffer_from_file() and hm_map_create().
 */
HM_API int hm_ring_open(const char *path, int fd, uint32_t end, struct hm_ring **ret_ring);

/**
 * hm_ring_query - report the state of a ring, and whether the other end is open
 * @ring:     [in]
 * @ret_info: [in,out] the caller must set struct_size
 *
 * Thread safety: one thread at a time for each end.
 *
 * Errors:
 *   -EBADMSG: the other end's position is impossible.
 *   -EIO:     bytes of the file were lost, see above.
 *   -EBUSY:   another thread is inside a call on this end.
 *   -E2BIG:   struct_size is larger than this library knows.
 */
HM_API int hm_ring_query(struct hm_ring *ring, struct hm_ring_info *ret_info);

/**
 * hm_ring_reserve - reserve room for a record, which the caller writes in place
 * @ring:       [in] the writer's end
 * @length:     [in] bytes, from 1 to hm_ring_info.record_max
 * @timeout_ns: [in] longest wait, from now on; 0: no wait, never -EPIPE; UINT64_MAX: for ever
 * @ret_data:   [out] memory for the record, 8-byte aligned; valid until the commit
 *
 * Waits until the reader has released enough room. The reader sees the bytes only after
 * hm_ring_commit(). A second reservation, or a write, replaces one that was not committed. A
 * kernel must be given HM_RANGE() of the record, because the map is the whole ring, and must be
 * done before the commit.
 *
 * Thread safety: one thread at a time for each end.
 *
 * Errors:
 *   -EMSGSIZE: @length is beyond record_max.
 *   -ETIME:    the ring has no room yet.
 *   -EPIPE:    the ring has no room, and a reader was there since this end was opened and is gone.
 *   -EBADMSG:  the reader's position is impossible.
 *   -EIO:      bytes of the file were lost, see above.
 *   -EBUSY:    another thread is inside a call on this end.
 *   -EINVAL:   @ring is the reader's end.
 */
HM_API int hm_ring_reserve(struct hm_ring *ring, uint64_t length, uint64_t timeout_ns,
			   void **ret_data);

/**
 * hm_ring_commit - pass the reserved record to the reader
 * @ring:   [in] the writer's end
 * @length: [in] bytes from the first on, up to the reserved length; 0: drop the reservation
 *
 * The reader sees the whole record, or nothing. The function wakes a reader that sleeps.
 *
 * Thread safety: one thread at a time for each end.
 *
 * Errors:
 *   -EINVAL: no room is reserved, or less than @length.
 *   -EIO:    bytes of the file were lost, see above.
 *   -EBUSY:  another thread is inside a call on this end.
 */
HM_API int hm_ring_commit(struct hm_ring *ring, uint64_t length);

/**
 * hm_ring_write - copy a record into the ring
 * @ring:       [in] the writer's end
 * @data:       [in] @length bytes
 * @length, @timeout_ns: [in] as for hm_ring_reserve()
 *
 * Thread safety: one thread at a time for each end.
 *
 * Errors: the errors of hm_ring_reserve().
 */
HM_API int hm_ring_write(struct hm_ring *ring, const void *data, uint64_t length,
			 uint64_t timeout_ns);

/**
 * hm_ring_peek - return the next record in place
 * @ring:       [in] the reader's end
 * @timeout_ns: [in] longest wait, from now on; 0: no wait, never -EPIPE; UINT64_MAX: for ever
 * @ret_data:   [out] the record, 8-byte aligned; valid until hm_ring_release()
 * @ret_length: [out] bytes of the record
 *
 * The function returns the same record until hm_ring_release() or hm_ring_read() releases it. A
 * kernel must be given HM_RANGE() of the record, and must be done before the release. A record
 * that was read and not released when its reader ended is read again. The writer leaves these
 * bytes alone, unless it is malicious: a reader that checks bytes and then uses them must copy
 * them first.
 *
 * Thread safety: one thread at a time for each end.
 *
 * Errors:
 *   -ETIME:   the ring has no record yet.
 *   -EPIPE:   the ring has no record, and a writer was there since this end was opened and is gone.
 *   -EBADMSG: the writer's position or the record is impossible; the text says which.
 *   -EIO:     bytes of the file were lost, see above.
 *   -EBUSY:   another thread is inside a call on this end.
 *   -EINVAL:  @ring is the writer's end.
 */
HM_API int hm_ring_peek(struct hm_ring *ring, uint64_t timeout_ns, const void **ret_data,
			uint64_t *ret_length);

/**
 * hm_ring_release - release the room of the record that hm_ring_peek() returned
 * @ring: [in] the reader's end
 *
 * Thread safety: one thread at a time for each end.
 *
 * Errors:
 *   -EINVAL: no record was peeked at.
 *   -EIO:    bytes of the file were lost, see above, perhaps those that hm_ring_peek() showed.
 *   -EBUSY:  another thread is inside a call on this end.
 */
HM_API int hm_ring_release(struct hm_ring *ring);

/**
 * hm_ring_read - copy the next record out of the ring, and release the record
 * @ring:       [in] the reader's end
 * @to:         [out] memory of @room bytes
 * @room:       [in] bytes
 * @timeout_ns: [in] as for hm_ring_peek()
 * @ret_length: [out] bytes of the record
 *
 * Thread safety: one thread at a time for each end.
 *
 * Errors:
 *   -EMSGSIZE: the record has more than @room bytes (the text says how many), and stays in the
 *              ring.
 *
 * In addition the errors of hm_ring_peek().
 */
HM_API int hm_ring_read(struct hm_ring *ring, void *to, uint64_t room, uint64_t timeout_ns,
			uint64_t *ret_length);

/**
 * hm_ring_sync - write the contents of the ring to storage
 * @ring: [in]
 *
 * Works on either end, and waits until storage has all commits and releases of both ends. A crash
 * of the machine may damage a ring that has changed since the last call, because the kernel writes
 * pages in any order.
 *
 * Thread safety: one thread at a time for each end.
 *
 * Errors:
 *   -EIO: bytes of the file were lost, see above.
 *
 * In addition the errors of hm_map_sync().
 */
HM_API int hm_ring_sync(struct hm_ring *ring);

/** hm_ring_ref - take a reference; returns @ring. NULL gives NULL. */
HM_API struct hm_ring *hm_ring_ref(struct hm_ring *ring);

/**
 * hm_ring_unref - drop a reference; NULL is allowed
 *
 * The last reference frees this end for another user. A fork child has none of its parent's ends.
 */
HM_API void hm_ring_unref(struct hm_ring *ring);

#ifdef __cplusplus
}
#endif

#endif
