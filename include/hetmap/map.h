/* SPDX-License-Identifier: MIT */
/*
 * Map: a buffer, or part of it, at an address in this process; what lock,
 * protect, prefetch and sync act on.
 *
 * The range functions take (map, offset, length): bytes from the map's start.
 * Length 0 is -EINVAL; a range past the map's end is -ERANGE. Where pages are
 * changed, offset is a multiple of the map's page size and length is too, or
 * reaches the map's end. -ENODEV: the map is lost (see hm_buffer_resize), or its device
 * was taken away. -EDEADLK: called by a callback of a view of the map, which is being
 * changed. These four are repeated below only where they mean more.
 */
#ifndef HETMAP_MAP_H
#define HETMAP_MAP_H

#include <hetmap/buffer.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_map;

/* hm_map_desc.flags */
#define HM_MAP_GUARD (1u << 0)    /* an inaccessible page before and behind */
#define HM_MAP_POPULATE (1u << 1) /* pages present on return; not with HM_NONE */

struct hm_map_desc {
	uint32_t struct_size;
	uint32_t flags;  /* HM_MAP_* */
	uint32_t access; /* HM_READ, HM_READ | HM_WRITE, or HM_NONE */
	uint32_t reserved;
	uint64_t offset; /* in the buffer; page-aligned */
	uint64_t length; /* 0: the whole buffer, and the map follows its size */
};

/* hm_map_info.fields: what hm_map_query is asked for beyond the free facts. */
#define HM_MAP_RESIDENT (1u << 0) /* resident, huge: reads /proc/self/smaps */
#define HM_MAP_LOCKED (1u << 1)   /* locked, as the kernel counts it: likewise */

struct hm_map_info {
	uint32_t struct_size;
	uint32_t fields; /* [in] HM_MAP_RESIDENT | HM_MAP_LOCKED */
	void *address;
	uint64_t length;
	uint64_t reserved_length; /* address space it owns */
	uint64_t offset;          /* in the buffer */
	uint64_t page_size;       /* obtained */
	uint32_t access;          /* at the map's first byte */
	uint32_t runs;            /* ranges of equal rights */
	uint32_t cache;           /* enum hm_cache */
	uint32_t generation;
	uint32_t whole;     /* 1: follows its buffer's size */
	uint32_t in_flight; /* launches that use it now */
	uint32_t views;
	uint32_t brackets;     /* open begin_cpu */
	uint64_t resident;     /* bytes in RAM, HM_MAP_RESIDENT */
	uint64_t huge;         /* bytes by huge pages, HM_MAP_RESIDENT */
	uint64_t locked;       /* bytes, HM_MAP_LOCKED */
	uint64_t lock_held;    /* bytes that hm_map_lock() keeps, by its own account */
	uint64_t lock_waiting; /* bytes unlocked for locks of higher priority (lock.h) */
};

/**
 * hm_map_create - map a buffer MAP_SHARED (private buffers: MAP_PRIVATE)
 * @buffer:  [in]
 * @desc:    [in, optional] NULL: the whole buffer with all the access it allows
 * @ret_map: [out] a reference, dropped with hm_map_unref()
 *
 * Errors: -EACCES more access than the buffer gives; -EINVAL offset not
 * page-aligned, or HM_WRITE alone; -ERANGE past the buffer's end; -EBUSY a second map
 * of a private buffer; -ENOMEM address space, RLIMIT_AS or vm.max_map_count (the
 * text says which); -EAGAIN RLIMIT_MEMLOCK under mlockall(MCL_FUTURE); -EPERM
 * writable, and the buffer was exported read-only; -EOPNOTSUPP HM_MAP_POPULATE of
 * pages that can't be brought in ahead, a received dma-buf that CPUs may not map, or a
 * file whose file system can't share mappings (the text says which);
 * -EFAULT, -EHWPOISON HM_MAP_POPULATE: as hm_map_prefetch; -EIO pages of a dma-buf, or of
 * a driver that wants them there first, that CPUs do not reach, or bytes that failed and have
 * no others yet (lost.h); -ENODEV the device was taken away; -EDEADLK from a view's callback.
 */
HM_API int hm_map_create(struct hm_buffer *buffer, const struct hm_map_desc *desc,
			 struct hm_map **ret_map);

/** hm_map_address - first byte; stable but for HM_MAY_MOVE. NULL for NULL. */
HM_API void *hm_map_address(const struct hm_map *map);

/** hm_map_length - bytes that may be touched now. 0 for NULL. */
HM_API uint64_t hm_map_length(const struct hm_map *map);

/**
 * hm_map_query - what a map is now
 * @map:      [in]
 * @ret_info: [in,out] struct_size and fields set by the caller
 *
 * Errors: -E2BIG; -ENOENT /proc is not mounted and fields need it; -EMFILE, -ENFILE, -EIO
 * what they need of it can't be read; -ENODEV; -EDEADLK.
 */
HM_API int hm_map_query(struct hm_map *map, struct hm_map_info *ret_info);

/**
 * hm_map_protect - change the rights of a range
 * @map, @offset, @length: [in] page-aligned, see above
 * @access: [in] HM_NONE, HM_READ, or HM_READ | HM_WRITE
 *
 * Waits for work in flight on the range. All or nothing.
 *
 * Errors: -EACCES more than the buffer gives, or than a seal lets a map have that was
 * made to be read; -EBUSY work did not end within 10 s, or a view refused; -ENOMEM
 * vm.max_map_count; -EOPNOTSUPP rights of this device's maps don't change; -EPERM
 * HM_SEAL_ADDRESSES holds the map; -EINVAL also HM_WRITE alone; -ERANGE.
 * Source: mprotect(2).
 */
HM_API int hm_map_protect(struct hm_map *map, uint64_t offset, uint64_t length,
			  uint32_t access);

/* hm_map_lock flags */
#define HM_LOCK_ONFAULT (1u << 0) /* pages stay once touched; none is brought in */
#define HM_LOCK_PARTIAL (1u << 1) /* as much from offset on as the limit allows */
#define HM_LOCK_PRIORITY(n) ((uint32_t)(n) << 16) /* 0 to 7: who gives way, see lock.h */

/**
 * hm_map_lock - keep a range in RAM
 * @map, @offset, @length: [in] see above
 * @flags:      [in] HM_LOCK_*
 * @ret_locked: [out, optional] bytes locked, from @offset on
 *
 * Locks do not nest: one unlock undoes any number of locks [mlock(2)], and the last
 * lock of a range says its kind and its priority.
 * Without HM_LOCK_PARTIAL it is all or nothing. With it, fewer bytes are a
 * success that says so in *ret_locked and hm_errmsg(). Ranges of lower priority, of any
 * map, may be unlocked for it: hetmap/lock.h. The kernel brings all pages in first, and
 * others wait for the map meanwhile as for hm_map_prefetch(); HM_LOCK_ONFAULT brings in none.
 *
 * Errors: -ENOMEM beyond RLIMIT_MEMLOCK or the lock budget (the text has limit, bytes
 * locked, who has most of them, and the shortage), or a mapping too many; -EPERM the
 * limit is 0; -EAGAIN there was no memory for all of its pages just now (it is asked
 * once); -EOPNOTSUPP memory of this kind can't be locked though mlock() answers 0;
 * -EACCES the range has no access; -EINVAL; -ERANGE.
 */
HM_API int hm_map_lock(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t flags,
		       uint64_t *ret_locked);

/**
 * hm_map_unlock - let a range be paged out again
 *
 * Errors: -EINVAL; -ERANGE; -ENOMEM vm.max_map_count. A range that is not locked
 * is no error.
 */
HM_API int hm_map_unlock(struct hm_map *map, uint64_t offset, uint64_t length);

enum hm_advice {
	HM_ADVICE_NORMAL = 0,
	HM_ADVICE_SEQUENTIAL = 1,
	HM_ADVICE_RANDOM = 2,
	HM_ADVICE_WILLNEED = 3,
	HM_ADVICE_COLD = 4,     /* first to be reclaimed */
	HM_ADVICE_PAGEOUT = 5,  /* reclaim now */
	HM_ADVICE_HUGEPAGE = 6, /* hm_map_query tells what was obtained */
	HM_ADVICE_NOHUGEPAGE = 7,
};

/**
 * hm_map_advise - tell the kernel how a range will be used
 * @map, @offset, @length: [in] see above
 * @advice: [in] enum hm_advice
 *
 * Errors: -EOPNOTSUPP this kernel or this memory knows no such advice, or locked pages
 * don't take it; -EAGAIN vm.max_map_count, or a want of memory that lasts; -EINVAL; -ERANGE.
 * Of a file HM_ADVICE_WILLNEED begins to read the whole range, by a call for each part that
 * the kernel takes at once: the device's read-ahead, or its largest request, of up to 8 MiB.
 * It may wait where the device has no room for that many requests.
 *
 * Source: madvise(2); mm/readahead.c, force_page_cache_ra().
 */
HM_API int hm_map_advise(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t advice);

/**
 * hm_map_prefetch - have the pages of a range present before they are touched
 * @map, @offset, @length: [in] see above
 * @access: [in] HM_READ, or HM_READ | HM_WRITE to have them writable
 *
 * MADV_POPULATE_READ or _WRITE (announced with MADV_WILLNEED for files), by
 * several threads where that pays; by touching on kernels before 5.14. An
 * error may leave part of the range present; contents never change.
 * Until it returns, who resizes, protects, locks, advises or queries that map
 * waits; who touches its bytes or copies by hm_copy_in() and _out() does not. Of a large
 * file that is as long as reading it takes: ask by parts, or for HM_ADVICE_WILLNEED.
 *
 * Errors: -EACCES the range has not that access; -EFAULT a page could not be
 * brought in (beyond a truncated file's end, or its storage failed); -EHWPOISON it is
 * poisoned; -EOPNOTSUPP this device's pages can't be brought in ahead; -ENOMEM; -EINVAL;
 * -ERANGE.
 */
HM_API int hm_map_prefetch(struct hm_map *map, uint64_t offset, uint64_t length,
			   uint32_t access);

/**
 * hm_map_begin_cpu - the CPU is about to touch a range
 * @map, @offset, @length: [in] any alignment
 * @access: [in] HM_READ, HM_WRITE or both
 *
 * Waits for work in flight that conflicts and makes what accelerators wrote
 * visible. It excludes no other thread. Every begin needs an end.
 *
 * Of a dma-buf it is DMA_BUF_IOCTL_SYNC, which also waits for other devices' work; of a
 * DRM node's buffer that was exported or imported, the driver's own wait. Neither has a
 * limit. Of memory that CPUs and accelerators see alike, and of DRM buffers that nobody
 * else knows, no system call. The end of a bracket asks a device that may be taken away
 * whether it is there still: one call of "sim" and DRM nodes, none of others.
 *
 * Where CPUs reach a part of memory at a time (HM_CAP_BRACKET), it brings the range
 * there: touching bytes that are elsewhere is a SIGBUS. It does not hold them there:
 * whoever brings other bytes in may crowd them out, also before the end; then it is
 * begun again.
 *
 * Errors: the work's own (hm_fence_wait's, but for -ETIME); -EINTR signals kept coming
 * while others' work was waited for; -EINPROGRESS an accelerator can't
 * even wait for it (the text says why); -ENOSPC the range is larger than
 * what CPUs reach at a time (the text has the numbers), or there is no room for it
 * now; -EACCES a right that the map was made with has been taken away from the range (the
 * text says whether by a scope of hm_map_protect_begin()); -EDEADLK in a view's callback,
 * where views or such a part are to be told; -EIO bytes of the range were lost and replaced
 * (hetmap/guard.h); -EINVAL; -ERANGE; -ENODEV.
 * Source: Documentation/driver-api/dma-buf.rst, CPU access.
 */
HM_API int hm_map_begin_cpu(struct hm_map *map, uint64_t offset, uint64_t length,
			    uint32_t access);

/**
 * hm_map_end_cpu - the CPU is done; same arguments as the begin
 *
 * Also where the buffer was cut to less since: what is left of the range ends.
 *
 * The bracket is closed whatever the result, but for -EINVAL and -EOWNERDEAD.
 *
 * What counts of rights are those that the range has now: of one that was taken away and
 * given back in between this knows nothing. A store meanwhile was a SIGSEGV, never lost.
 *
 * Errors: -EINVAL without a begin; -ERANGE likewise, of a range past the map's end; the
 * device's own; -EDEADLK in a view's callback, where views are to be told; -EIO bytes of
 * the range were lost, and replaced, perhaps since the begin (hetmap/guard.h);
 * hm_buffer_shadow's, where the buffer has a shadow; -EACCES a right that the bracket is of
 * was taken away from the range since the begin (the text says whether by a scope of
 * hm_map_protect_begin()): what was stored before is there; -ENODEV the map is lost, and with it
 * what was written in the bracket, and what was read may have been zeros: also where another
 * process took the device away, which is asked each time (hetmap/lost.h).
 */
HM_API int hm_map_end_cpu(struct hm_map *map, uint64_t offset, uint64_t length,
			  uint32_t access);

/* hm_map_sync flags */
#define HM_SYNC_ASYNC (1u << 0) /* start it only: the errors come later */

/**
 * hm_map_sync - write a range back to storage and wait for it
 * @map, @offset, @length: [in] see above
 * @flags: [in] HM_SYNC_*
 *
 * For memory without storage, which a private copy of a file is, too, there is nothing to do:
 * without HM_CAP_SYNC. It waits as long as the file system
 * does, a server that does not answer for ever; meanwhile other threads may do with the map
 * what they like, but have it move (-EBUSY; hm_buffer_resize()). What they cut off is not
 * written back, and no error. Bytes that were lost, and replaced by
 * hm_handler_install()'s handler, are -EIO: what was stored there since is in no file, and
 * a new map shows what the file has. A store for which the file system has no room ends so.
 *
 * The kernel tells of bytes that could not be written back once, and takes them for written
 * then: they are in the map, as long as there is room for them, and a further call is 0 and
 * writes nothing of them. After -EIO, -ENOSPC and -EDQUOT store them again, and sync again.
 *
 * Errors: -EIO, -ENOSPC, -EDQUOT from the file system; -EIO also where bytes of the range were
 * lost and replaced (hetmap/guard.h), of whatever memory; -EINVAL; -ERANGE, also where the
 * range was cut off meanwhile and the buffer is another object then. Thread-safe.
 * Source: msync(2); fsync(2), on errors of write-back.
 */
HM_API int hm_map_sync(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t flags);

/** hm_map_ref - take a reference; returns @map. NULL gives NULL. */
HM_API struct hm_map *hm_map_ref(struct hm_map *map);

/**
 * hm_map_unref - drop a reference; NULL is allowed
 *
 * With the last one the address range is unmapped; where another thread is just
 * changing the buffer, as soon as that is done. Work in flight holds a reference,
 * and so does a view.
 */
HM_API void hm_map_unref(struct hm_map *map);

#ifdef __cplusplus
}
#endif

#endif
