/* SPDX-License-Identifier: MIT */
/*
 * Log: records that outlive a power failure, in a map of persistent memory.
 *
 * A log is appended to. Once hm_log_append() has returned, its record is there after any power
 * failure, whole, and so are all earlier ones. A record whose append was interrupted is there as a
 * whole or not at all. Beside the records a log has one root: a few bytes that are replaced as a
 * whole, as the address of the newest version of a structure.
 *
 * The log fills a map of a buffer with hm_buffer_info.persist: files of "pmem:PATH", the device
 * "dax:PATH" (hm_map_persist(3)). libpmem2 writes the bytes, in the way that the unit needs.
 *
 * One process at a time may have a log open.
 */
#ifndef HETMAP_LOG_H
#define HETMAP_LOG_H

#include <hetmap/map.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_log;

/* hm_log_open flags */
#define HM_LOG_CREATE (1u << 0) /* make an empty log if the map has zeros at its start */
#define HM_LOG_FORMAT (1u << 1) /* make an empty log whatever is there */

#define HM_LOG_ROOT_MAX 192 /* bytes of a root, at most */

struct hm_log_info {
	uint32_t struct_size;
	uint32_t persist;  /* enum hm_persist: unit in which the memory lasts */
	uint64_t n_record; /* number of records */
	uint64_t used;     /* bytes of the log that records take */
	uint64_t capacity; /* bytes that records can take: each one 32 bytes and its own, up to
			     * the next multiple of 64 */
	uint32_t root;     /* bytes of the root; 0: none was set */
	uint32_t version;  /* of the format */
};

/**
 * hm_log_open - open the log in a map, or make one there
 * @map:     [in] writable map of persistent memory, of 4 KiB at least; the log holds a reference
 * @flags:   [in] 0, HM_LOG_CREATE or HM_LOG_FORMAT
 * @ret_log: [out] the log, which the caller ends with hm_log_close()
 *
 * The call looks at each record, and drops what an interrupted append has left. No other code may
 * store into the map, or change it, while the log is open.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EOPNOTSUPP: the bytes of the map do not outlive a power failure.
 *   -EINVAL:     @map or @ret_log is NULL, @flags is another value, or the map is too small.
 *   -EACCES:     the map may not be written.
 *   -ENODATA:    the map has zeros at its start: pass HM_LOG_CREATE.
 *   -EMEDIUMTYPE: other bytes than a log's are there, or the log is damaged; HM_LOG_FORMAT makes a
 *                new one.
 *   -EPROTO:     another version made the log; the text has both.
 *   -ENOMEM:     not enough memory is available.
 *
 * In addition the errors of hm_map_query() and hm_buffer_query().
 */
HM_API int hm_log_open(struct hm_map *map, uint32_t flags, struct hm_log **ret_log);

/**
 * hm_log_append - add a record, and wait until it outlives a power failure
 * @log:        [in] log
 * @bytes:      [in] the record
 * @length:     [in] its bytes, from 1
 * @ret_number: [out, optional] number of the record, from 1
 *
 * Thread safety: any thread; appends of several threads are in an order.
 *
 * Errors:
 *   -EINVAL: @log or @bytes is NULL, or @length is 0.
 *   -ENOSPC: the rest of the log is too short; nothing was stored.
 *   -EIO:    the system could not write the pages: the record may be there or not. The log takes no
 *            further ones.
 */
HM_API int hm_log_append(struct hm_log *log, const void *bytes, uint64_t length,
			 uint64_t *ret_number);

/**
 * hm_log_next - read the next record
 * @log:        [in] log
 * @position:   [in,out] 0 at first; the call moves it behind the record
 * @ret_bytes:  [out] the record, inside of the map: valid until hm_log_clear() and hm_log_close()
 * @ret_length: [out] its bytes
 *
 * Thread safety: any thread, also during appends; not during hm_log_clear().
 *
 * Errors:
 *   -ENOENT: there is no further record yet.
 *   -EINVAL: a pointer is NULL, or @position is not one of this log.
 */
HM_API int hm_log_next(struct hm_log *log, uint64_t *position, const void **ret_bytes,
		       uint64_t *ret_length);

/**
 * hm_log_root_set - replace the root as a whole, and wait until that outlives a power failure
 * @log:    [in] log
 * @bytes:  [in] the new root
 * @length: [in] its bytes, 1 to HM_LOG_ROOT_MAX
 *
 * After a power failure the root is the old one or the new one. Records that were appended before
 * are there with the new one.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL: a pointer is NULL, or @length is 0 or too large.
 *   -EIO:    as for hm_log_append().
 */
HM_API int hm_log_root_set(struct hm_log *log, const void *bytes, uint32_t length);

/**
 * hm_log_root_get - read the root
 * @log:        [in] log
 * @bytes:      [out] array of @capacity
 * @capacity:   [in] bytes of it
 * @ret_length: [out] bytes of the root, even if more than @capacity; 0: none was set
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL: a pointer is NULL.
 */
HM_API int hm_log_root_get(struct hm_log *log, void *bytes, uint32_t capacity,
			   uint32_t *ret_length);

/**
 * hm_log_clear - drop all records as a whole
 * @log: [in] log
 *
 * After a power failure all of them are there, or none. The root stays.
 *
 * Thread safety: any thread; no other thread may read records meanwhile.
 *
 * Errors:
 *   -EINVAL: @log is NULL.
 *   -EIO:    as for hm_log_append().
 */
HM_API int hm_log_clear(struct hm_log *log);

/**
 * hm_log_query - describe a log
 * @log:      [in] log
 * @ret_info: [in,out] struct_size set by the caller
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL: a pointer is NULL, or struct_size is not set.
 *   -E2BIG:  struct_size is larger than this library knows.
 */
HM_API int hm_log_query(struct hm_log *log, struct hm_log_info *ret_info);

/** hm_log_close - end a log; NULL is allowed. Its bytes stay. */
HM_API void hm_log_close(struct hm_log *log);

#ifdef __cplusplus
}
#endif

#endif
