/* SPDX-License-Identifier: MIT */
/*
 * What every hetmap header needs: version, access bits, error text, counters.
 *
 * Conventions of the whole interface, stated once:
 *
 * - A function returns 0 or a negative errno. Results come last, through
 *   ret_* parameters, and are untouched on failure. hm_launch(), being
 *   variadic, has its fence before the arguments.
 * - After a failure hm_errmsg() holds one sentence with the numbers in it and,
 *   where there is one, the remedy.
 * - Sizes, offsets and lengths are bytes, uint64_t. Times are nanoseconds.
 * - Every description and information struct but hm_pointer_info, which is fixed,
 *   begins with struct_size. The caller sets it to sizeof the struct it was
 *   compiled with; the library reads or fills no more than that. -E2BIG, of every
 *   function that takes one: it is larger than this library knows; of a
 *   description, only if the part beyond is not zero.
 * - Every function may be called from any thread, unless its comment says
 *   otherwise. Only hm_pointer_find() is async-signal-safe: hm_errmsg()'s text is
 *   thread-local, and a shared library's is allocated by the first who touches it.
 * - -EINVAL: a NULL, unknown flag, or a value out of the stated range;
 *   -EOWNERDEAD: the object was made before fork() by the parent process.
 *   Both can come from every function that takes an object and are not
 *   repeated below.
 * - A system call that a signal interrupts is made again, up to 100 times, and so is one
 *   that answers EAGAIN where that means "not just now" (madvise(2), mincore(2), calls of
 *   devices). -EINTR, or -EAGAIN, is what is left when that does not help: nothing was
 *   done, and the call may be made again. EAGAIN that names a limit is given back at once:
 *   mmap(2)'s is RLIMIT_MEMLOCK under mlockall(MCL_FUTURE). A wait that has a time limit goes
 *   on to that, however many signals come.
 *   -ENOMEM (memory, address space, vm.max_map_count), -EMFILE and -ENFILE (descriptors)
 *   are given back at once, too, but for what hm_retire_set() says; nothing was done, and
 *   the text says what ran out. -EIO: a device or its driver failed. -EBADF: somebody else
 *   has closed a descriptor that is the library's. All these can come from every function
 *   that calls the kernel, and are repeated below only where they mean something else, or
 *   more. Nor is what the access hook answers (hetmap/access.h), normally -EACCES.
 */
#ifndef HETMAP_BASE_H
#define HETMAP_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HM_API __attribute__((visibility("default")))

#define HM_VERSION_MAJOR 0
#define HM_VERSION_MINOR 1
#define HM_VERSION_PATCH 0
#define HM_VERSION ((HM_VERSION_MAJOR << 16) | (HM_VERSION_MINOR << 8) | HM_VERSION_PATCH)

/* What CPU code or a kernel does with bytes. */
enum hm_access {
	HM_NONE = 0,
	HM_READ = 1u << 0,
	HM_WRITE = 1u << 1,
};

/*
 * How the CPU caches a mapping, as the page table has it. It tells how fast loads and
 * stores are, and nothing else.
 */
enum hm_cache {
	HM_CACHE_WRITE_BACK = 0,
	HM_CACHE_WRITE_COMBINING = 1,
	HM_CACHE_UNCACHED = 2,
	/* Of what was imported, or where a driver alone chooses: the device does not tell. */
	HM_CACHE_UNKNOWN = 3,
};

/**
 * hm_version - version of the library that is loaded
 *
 * Compare with HM_VERSION, the version of the headers compiled against.
 *
 * Returns: (major << 16) | (minor << 8) | patch.
 */
HM_API uint32_t hm_version(void);

/**
 * hm_errmsg - what the last failure in this thread was about
 *
 * Ownership: the string is the thread's own, valid until its next hetmap call.
 * Returns: a sentence; "" when nothing failed yet. Never NULL. A call that
 * succeeded with less than asked for (a smaller reservation, base pages for
 * huge ones) leaves a sentence here too.
 */
HM_API const char *hm_errmsg(void);

/* Counters of the process since it started. */
struct hm_stats {
	uint32_t struct_size;
	uint32_t reserved;
	uint64_t devices;          /* alive now */
	uint64_t buffers;          /* alive now */
	uint64_t maps;             /* alive now */
	uint64_t views;            /* alive now */
	uint64_t bytes_mapped;     /* committed bytes of all maps */
	uint64_t bytes_reserved;   /* address space held by all maps */
	uint64_t bytes_locked;     /* what hm_map_lock holds now */
	uint64_t bytes_copied;     /* by launches and resizes, since the start */
	uint64_t launches;         /* since the start */
	uint64_t slab_bytes;       /* registry nodes and descriptors, never given back */
	uint64_t find_retries;     /* hm_pointer_find met a change under way */
	uint64_t touches_outside;  /* stores outside brackets that HETMAP_CHECK=1 saw */
	uint64_t bytes_idle;       /* kept on DRM nodes for the next buffers: HETMAP_DRM_IDLE */
	uint64_t bytes_shadow;     /* memory of shadows: HM_LOSS_SHADOW */
	uint64_t retired;          /* maps and buffers left to hm_retire_set's thread */
	uint64_t retired_in_place; /* those beyond its bounds, meanwhile */
	uint64_t backlog;          /* of the former, those that are not released yet */
	uint64_t backlog_bytes;    /* memory that they hold */
	uint64_t unpublished;      /* maps so far that are in no table: hetmap-published(5) */
};

/**
 * hm_stats_get - read the process's counters
 * @ret_stats: [in,out] struct_size set by the caller; filled on success
 *
 * Each counter is read by itself; together they are not a snapshot.
 *
 * Errors: -E2BIG struct_size is larger than this library knows.
 */
HM_API int hm_stats_get(struct hm_stats *ret_stats);

#ifdef __cplusplus
}
#endif

#endif
