/* SPDX-License-Identifier: MIT */
/*
 * Map: a buffer, or a part of it, at an address in this process. Locks, rights, prefetches and
 * syncs act on maps.
 *
 * The range functions take (map, offset, length): @length bytes from @offset on, counted from the
 * map's start. If a function changes pages, @offset must be a multiple of the map's page size,
 * and so must @length, unless the range reaches the map's end.
 *
 * Errors of every range function, which are repeated below only where they mean more:
 *   -EINVAL:  the length is 0, or the range is not aligned as it must be.
 *   -ERANGE:  the range ends past the map's end.
 *   -ENODEV:  the map is lost (see hm_buffer_resize), or its device was taken away.
 *   -EDEADLK: a callback of a view of the map, which is being changed, made the call; make it
 *             outside of the callback.
 */
#ifndef HETMAP_MAP_H
#define HETMAP_MAP_H

#include <hetmap/buffer.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_map;

/* hm_map_desc.flags */
/*
 * GUARD: an inaccessible page before and behind the bytes: an access past an end is a SIGSEGV.
 * The pages count in reserved_length, and not in the map's length.
 */
#define HM_MAP_GUARD (1u << 0)
#define HM_MAP_POPULATE (1u << 1) /* pages present on return; not with HM_NONE */

struct hm_map_desc {
	uint32_t struct_size;
	uint32_t flags;    /* HM_MAP_* */
	uint32_t access;   /* HM_READ, HM_READ | HM_WRITE, or HM_NONE */
	uint32_t reserved; /* 0 */
	uint64_t offset;   /* offset in the buffer; page-aligned */
	uint64_t length;   /* any; 0: to the buffer's end; with offset 0 follows the size */
};

/*
 * hm_map_info.fields: facts that hm_map_query() reports on request, beyond the free facts. The
 * members of a bit that is not set are 0. The more memory the process has mapped, the longer the
 * kernel takes for the file.
 */
#define HM_MAP_RESIDENT (1u << 0) /* resident, huge: read from /proc/self/smaps */
#define HM_MAP_LOCKED (1u << 1)   /* locked, as the kernel counts it: from the same file */

struct hm_map_info {
	uint32_t struct_size;
	uint32_t fields; /* [in] HM_MAP_RESIDENT | HM_MAP_LOCKED */
	void *address;
	uint64_t length;
	uint64_t reserved_length; /* address space that the map owns */
	uint64_t offset;          /* offset in the buffer */
	uint64_t page_size;       /* page size that was obtained */
	uint32_t access;          /* at the map's first byte, as open scopes leave it */
	uint32_t runs;            /* ranges of equal rights, likewise */
	uint32_t cache;           /* enum hm_cache */
	uint32_t generation;
	uint32_t whole;     /* 1: the map follows its buffer's size */
	uint32_t in_flight; /* ranges of the map that work in flight uses now */
	uint32_t views;
	uint32_t brackets;     /* open brackets of hm_map_begin_cpu() */
	uint64_t resident;     /* bytes in RAM, HM_MAP_RESIDENT */
	uint64_t huge;         /* bytes in huge pages, HM_MAP_RESIDENT */
	uint64_t locked;       /* bytes, HM_MAP_LOCKED */
	uint64_t lock_held;    /* bytes that hm_map_lock() keeps, by its own account */
	uint64_t lock_waiting; /* bytes unlocked for locks of higher priority (lock.h) */
};

/**
 * hm_map_create - map a buffer with MAP_SHARED (private buffers: MAP_PRIVATE)
 * @buffer:  [in] the buffer; the map takes a reference
 * @desc:    [in, optional] NULL: the whole buffer with all the access that it allows
 * @ret_map: [out] a reference; the caller must drop it with hm_map_unref()
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EACCES:     the access is more than the buffer allows.
 *   -EINVAL:     the offset is not page-aligned, or the access is HM_WRITE alone.
 *   -ERANGE:     the range ends past the buffer's end.
 *   -EBUSY:      a private buffer already has a map.
 *   -ENOMEM:     address space, RLIMIT_AS, RLIMIT_DATA or vm.max_map_count is used up; the text
 *                says which.
 *   -EAGAIN:     RLIMIT_MEMLOCK was reached under mlockall(MCL_FUTURE).
 *   -EPERM:      the map would be writable, and the buffer was exported read-only.
 *   -EOPNOTSUPP: HM_MAP_POPULATE was passed for pages that can't be brought in ahead, CPUs may
 *                not map a received dma-buf, or the file system of a file can't share mappings;
 *                the text says which.
 *   -EFAULT:     HM_MAP_POPULATE: as for hm_map_prefetch().
 *   -EHWPOISON:  HM_MAP_POPULATE: as for hm_map_prefetch().
 *   -EIO:        CPUs do not reach pages of a dma-buf, or of a driver that wants the pages
 *                present first; or bytes failed and are not replaced yet (loss.h).
 *   -ENODEV:     the device was taken away.
 *   -EDEADLK:    a view's callback made the call; make it outside of the callback.
 */
HM_API int hm_map_create(struct hm_buffer *buffer, const struct hm_map_desc *desc,
			 struct hm_map **ret_map);

/**
 * hm_map_address - return the address of the first byte
 *
 * The address stays the same, except when a resize with HM_MAY_MOVE moves the map. NULL gives
 * NULL.
 *
 * Thread safety: any thread.
 */
HM_API void *hm_map_address(const struct hm_map *map);

/** hm_map_length - return the number of bytes that may be touched now. NULL gives 0. */
HM_API uint64_t hm_map_length(const struct hm_map *map);

/**
 * hm_map_query - report the present state of a map
 * @map:      [in]
 * @ret_info: [in,out] the caller must set struct_size and fields
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG:   struct_size is larger than this library knows.
 *   -ENOENT:  fields needs /proc, which is not mounted; mount it.
 *   -EMFILE:  fields needs a file of /proc, and the process has no descriptor left.
 *   -ENFILE:  fields needs a file of /proc, and the system has no open file left.
 *   -EIO:     fields needs a file of /proc, which can't be read.
 *   -ENODEV:  as above.
 *   -EDEADLK: as above.
 */
HM_API int hm_map_query(struct hm_map *map, struct hm_map_info *ret_info);

/**
 * hm_map_protect - change the rights of a range
 * @map, @offset, @length: [in] a page-aligned range, see above
 * @access: [in] HM_NONE, HM_READ, or HM_READ | HM_WRITE
 *
 * Waits for work in flight on the range, for at most 10 s. Changes the whole range or nothing.
 * The more ranges of the map differ in rights, the longer the call takes: about 2 us for each
 * 1000 of them. The library copies the list of these ranges, since look-ups read it without a
 * lock.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EACCES:     the rights are more than the buffer allows, or more than a seal allows a map
 *                that was made to be read.
 *   -EBUSY:      a view refused, or work did not end within 10 s; in the last case wait for the
 *                work, and call again.
 *   -ENOMEM:     vm.max_map_count is used up.
 *   -EOPNOTSUPP: the rights of this device's maps can't be changed.
 *   -EPERM:      HM_SEAL_ADDRESSES holds the map.
 *   -EINVAL:     also for an access of HM_WRITE alone.
 *   -ERANGE:     as above.
 *
 * Source: mprotect(2).
 */
HM_API int hm_map_protect(struct hm_map *map, uint64_t offset, uint64_t length,
			  uint32_t access);

/* hm_map_lock flags */
#define HM_LOCK_ONFAULT (1u << 0) /* pages stay once touched; none is brought in */
#define HM_LOCK_PARTIAL (1u << 1) /* as many bytes from offset on as the limit allows */
#define HM_LOCK_PRIORITY(n) ((uint32_t)(n) << 16) /* priority of the lock, 0 to 7: see lock.h */

/**
 * hm_map_lock - keep a range in RAM
 * @map, @offset, @length: [in] a page-aligned range, see above
 * @flags:      [in] HM_LOCK_*
 * @ret_locked: [out, optional] bytes that are locked from @offset on, including bytes that were
 *              locked before
 *
 * Locks do not nest: one unlock undoes any number of locks [mlock(2)], and the last lock of a
 * range sets its kind and its priority. Without HM_LOCK_PARTIAL the function locks the whole
 * range or nothing. With HM_LOCK_PARTIAL a lock of fewer bytes, or none, is a success: *ret_locked
 * and hm_warning() tell. The library may unlock ranges of lower priority, of any map, for the
 * lock: hetmap/lock.h.
 *
 * The kernel brings all pages in first, and other calls on the map wait meanwhile as for
 * hm_map_prefetch(). With HM_LOCK_ONFAULT the kernel brings in no page.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ENOMEM:     RLIMIT_MEMLOCK or the lock budget is exceeded (the text has the limit, the
 *                locked bytes, the map that has most of them, and the shortage), or the process
 *                has a mapping too many.
 *   -EPERM:      the limit is 0; raise RLIMIT_MEMLOCK.
 *   -EAGAIN:     the kernel had no memory for all of the pages just now; the library asks only
 *                once.
 *   -EOPNOTSUPP: memory of this kind can't be locked, although mlock() returns 0.
 *   -EACCES:     the range has no access.
 *   -EINVAL:     as above.
 *   -ERANGE:     as above.
 */
HM_API int hm_map_lock(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t flags,
		       uint64_t *ret_locked);

/**
 * hm_map_unlock - let a range be paged out again
 * @map, @offset, @length: [in] a page-aligned range, see above
 *
 * Unlocking a range that is not locked is no error.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL: as above.
 *   -ERANGE: as above.
 *   -ENOMEM: vm.max_map_count is used up.
 */
HM_API int hm_map_unlock(struct hm_map *map, uint64_t offset, uint64_t length);

enum hm_advice {
	HM_ADVICE_NORMAL = 0,
	HM_ADVICE_SEQUENTIAL = 1,
	HM_ADVICE_RANDOM = 2,
	HM_ADVICE_WILLNEED = 3,
	HM_ADVICE_COLD = 4,     /* first to be reclaimed */
	HM_ADVICE_PAGEOUT = 5,  /* reclaim now */
	HM_ADVICE_HUGEPAGE = 6, /* huge pages; hm_map_query() reports the obtained ones */
	HM_ADVICE_NOHUGEPAGE = 7,
};

/**
 * hm_map_advise - tell the kernel how a range will be used
 * @map, @offset, @length: [in] a page-aligned range, see above
 * @advice: [in] enum hm_advice
 *
 * For a file HM_ADVICE_WILLNEED starts to read the whole range. The function makes one call for
 * each part that the kernel takes at once, which is the device's read-ahead, or its largest
 * request of up to 8 MiB. The function may wait if the device has no room for that many requests.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EOPNOTSUPP: this kernel or this memory knows no such advice, or locked pages don't take it.
 *   -EAGAIN:     vm.max_map_count was reached, or memory has been short for some time.
 *   -EINVAL:     as above.
 *   -ERANGE:     as above.
 *
 * Source: madvise(2); mm/readahead.c, force_page_cache_ra().
 */
HM_API int hm_map_advise(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t advice);

/**
 * hm_map_prefetch - make the pages of a range present before they are touched
 * @map, @offset, @length: [in] a page-aligned range, see above
 * @access: [in] HM_READ, or HM_READ | HM_WRITE to make the pages writable
 *
 * Uses MADV_POPULATE_READ or _WRITE, announced with MADV_WILLNEED for files, in several threads
 * if that pays. On kernels before 5.14 the function touches the pages. A failed call may leave
 * part of the range present, and never changes the contents.
 *
 * Until the function returns, a call that resizes, protects, locks, advises or queries the map
 * waits. A thread that touches the map's bytes or copies by hm_copy_in() or hm_copy_out() does
 * not wait. For a large file the function takes as long as reading the file: prefetch such a file
 * by parts, or use HM_ADVICE_WILLNEED.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EACCES:     the range does not have that access.
 *   -EFAULT:     a page could not be brought in, because it is beyond the end of a truncated file
 *                or its storage failed.
 *   -EHWPOISON:  a page could not be brought in, because it is poisoned.
 *   -EOPNOTSUPP: this device's pages can't be brought in ahead.
 *   -ENOMEM:     memory is exhausted.
 *   -EINVAL:     also for an access of HM_WRITE alone.
 *   -ERANGE:     as above.
 */
HM_API int hm_map_prefetch(struct hm_map *map, uint64_t offset, uint64_t length,
			   uint32_t access);

/**
 * hm_map_begin_cpu - open a bracket: the CPU is about to touch a range
 * @map, @offset, @length: [in] a range of any alignment
 * @access: [in] HM_READ, HM_WRITE or both
 *
 * Waits, without a time limit, for conflicting work in flight, and makes the bytes that
 * accelerators wrote visible. Work conflicts with a read if it writes to the range, and with a
 * write if it uses the range at all. A bracket excludes no other thread, and no launch: end a
 * bracket with HM_WRITE before the launch that is to see the stores. Each begin that succeeded
 * needs an end; a begin that fails opens no bracket.
 *
 * On a dma-buf the begin is DMA_BUF_IOCTL_SYNC, which also waits for work of other devices. On a
 * buffer of a DRM node that was exported or imported, the begin is the driver's own wait. Neither
 * wait has a limit. On memory that CPUs and accelerators see alike, and on DRM buffers that are
 * neither exported nor imported, the begin makes no system call. The end of a bracket asks a
 * device that may be taken away whether it is still there: by one call for "sim" and DRM nodes,
 * by none for other devices.
 *
 * On "sim" and "soft" with bar_mb, CPUs reach only a part of the memory at a time. There the begin
 * brings the range into that part, and does not hold it there: another bracket, an hm_fence_wait(),
 * or a new or grown buffer on the device may crowd the range out, and the next touch is then a
 * SIGBUS. Have one bracket open on such a device at a time, and make no such call before its end.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINTR:       signals kept coming during a wait for work of other users.
 *   -EINPROGRESS: an accelerator can't even wait for the work; the text says why.
 *   -ENOSPC:      the range is larger than the part that CPUs reach at a time, so use smaller
 *                 ranges (the text has the numbers); or that part has no room now.
 *   -EACCES:      a right that the map was made with has been taken away from the range; the text
 *                 says whether a scope of hm_map_protect_begin() is the cause.
 *   -EDEADLK:     a view's callback made the call, and the begin has to tell views or to move
 *                 bytes into the part that CPUs reach.
 *   -EIO:         bytes of the range were lost and replaced (hetmap/guard.h).
 *   -EINVAL:      as above.
 *   -ERANGE:      as above.
 *   -ENODEV:      as above.
 *
 * In addition the errors of the work that was waited for: those of hm_fence_wait(), except
 * -ETIME.
 *
 * Source: Documentation/driver-api/dma-buf.rst, CPU access.
 */
HM_API int hm_map_begin_cpu(struct hm_map *map, uint64_t offset, uint64_t length,
			    uint32_t access);

/**
 * hm_map_end_cpu - close a bracket: the CPU is done
 * @map, @offset, @length, @access: [in] the same as for the begin
 *
 * If the buffer was cut to less since the begin, the function ends the rest of the range. The
 * bracket is closed whatever the result is, except for -EINVAL and -EOWNERDEAD.
 *
 * An end with HM_WRITE first writes out the combines of the map (hetmap/combine.h), whatever the
 * range.
 *
 * The function checks the rights that the range has now. A right that was taken away and given
 * back in between has no effect here: a store meanwhile was a SIGSEGV, and never got lost.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:  the map has no open bracket.
 *   -ERANGE:  the map has no open bracket, and the range ends past the map's end.
 *   -EDEADLK: a view's callback made the call, and the end has to tell views.
 *   -EIO:     bytes of the range were lost and replaced, perhaps since the begin
 *             (hetmap/guard.h).
 *   -EACCES:  a right of the bracket was taken away from the range since the begin; stores
 *             made before that are in the map. The text says whether a scope of
 *             hm_map_protect_begin() is the cause.
 *   -ENODEV:  the map is lost. Bytes written in the bracket are lost, too, and bytes read in the
 *             bracket may have been zeros. The function asks the device each time, so that a loss
 *             by another process is found, too (hetmap/loss.h).
 *
 * In addition the errors of the device, the errors of hm_buffer_shadow(), if the buffer has a
 * shadow, and the errors of hm_combine_flush(), if the map has combines.
 */
HM_API int hm_map_end_cpu(struct hm_map *map, uint64_t offset, uint64_t length,
			  uint32_t access);

/* hm_map_sync flags */
#define HM_SYNC_ASYNC (1u << 0) /* leave the write to the kernel: a later sync has its errors */

/**
 * hm_map_sync - write a range back to storage and wait for the write
 * @map, @offset, @length: [in] a page-aligned range, see above
 * @flags: [in] HM_SYNC_*
 *
 * The function first writes out the combines of the map (hetmap/combine.h), and returns the
 * errors of hm_combine_flush(). For memory without storage, which lacks HM_CAP_SYNC and includes
 * a private copy of a file, it does nothing else. The function waits as long as the file system
 * does, which is for ever if a server does not answer. Meanwhile other threads may use and change
 * the map in any way, except that a resize that moves the map is -EBUSY (hm_buffer_resize()).
 * Bytes that a resize cuts off meanwhile are not written back, and cause no error.
 *
 * Bytes that were lost and replaced by the handler of hm_handler_install() are -EIO, until
 * hm_device_recover() repairs them (loss.h): no file has the bytes that were stored there since,
 * and a new map shows the bytes of the file. A store for which the file system has no room has the
 * same effect.
 *
 * The kernel reports bytes that it could not write back only once, and regards them as written
 * from then on. The bytes stay in the map as long as memory has room for them; a further sync
 * returns 0 and does not write them. After -EIO, -ENOSPC and -EDQUOT the caller must store the
 * bytes again and sync again.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EIO:    the file system failed; or bytes of the range, in any kind of memory, were lost and
 *            replaced (hetmap/guard.h).
 *   -ENOSPC: the file system is full.
 *   -EDQUOT: the file system's quota is used up.
 *   -EINVAL: as above.
 *   -ERANGE: also if the range was cut off meanwhile and the buffer became another object.
 *
 * Source: msync(2); fsync(2), on errors of write-back.
 */
HM_API int hm_map_sync(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t flags);

/**
 * hm_map_persist - make the stores to a range outlive a power failure, and wait for that
 * @map:    [in] map of a buffer with hm_buffer_info.persist, on "pmem" or "dax"
 * @offset: [in] bytes from the map's start, of any alignment
 * @length: [in] bytes, from 1
 *
 * hm_buffer_info.persist says in which unit, which is also the way of the call:
 *
 * - HM_PERSIST_BYTE: a fence; the platform saves the CPU's caches.
 * - HM_PERSIST_LINE: the CPU writes the cache lines of the range back (CLWB, CLFLUSHOPT or
 *   CLFLUSH), and a fence waits for them. The call makes no system call.
 * - HM_PERSIST_PAGE: msync(2) of the pages, as in hm_map_sync().
 *
 * Other bytes of these lines or pages may last, too, and any store may last before the call. An
 * update that must last as a whole therefore needs an order of stores and calls (hm_log(3)).
 *
 * With HM_PERSIST_LINE or HM_PERSIST_BYTE no other thread may shrink or move the range meanwhile.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EOPNOTSUPP: the bytes do not outlive a power failure; the text has the remedy.
 *   -EINVAL:     @length is 0.
 *   -ERANGE:     the range ends beyond the map.
 *   -EIO:        bytes of the range were lost and replaced (hetmap/guard.h).
 *   -ENODEV:     the map is lost.
 *
 * With HM_PERSIST_PAGE, in addition the errors of hm_map_sync().
 */
HM_API int hm_map_persist(struct hm_map *map, uint64_t offset, uint64_t length);

/** hm_map_ref - take a reference; returns @map. NULL gives NULL. */
HM_API struct hm_map *hm_map_ref(struct hm_map *map);

/**
 * hm_map_unref - drop a reference; NULL is allowed
 *
 * The last reference unmaps the address range; if another thread is changing the buffer, the
 * range is unmapped as soon as the change is done. Work in flight and views hold references.
 *
 * Thread safety: any thread.
 */
HM_API void hm_map_unref(struct hm_map *map);

#ifdef __cplusplus
}
#endif

#endif
