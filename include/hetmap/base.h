/* SPDX-License-Identifier: MIT */
/*
 * Basics that every hetmap header needs: version, access bits, error text, counters.
 *
 * These conventions hold for the whole interface:
 *
 * - A function returns 0 or a negative errno. Results come last, through ret_* parameters, and
 *   are untouched on failure. hm_launch() is variadic, so its fence comes before the arguments.
 * - After a failure hm_errmsg() holds one sentence with the numbers and, if one exists, the
 *   remedy. After a success with less than was asked for, hm_warning() holds one.
 * - Sizes, offsets and lengths are bytes, uint64_t. Times are nanoseconds.
 * - Every description struct and every information struct begins with struct_size, except
 *   hm_pointer_info, which is fixed. The caller must set struct_size to the sizeof of the
 *   struct that it was compiled with. The library reads or fills no more than that. Every
 *   function that takes such a struct fails with -E2BIG if the struct is larger than this
 *   library knows. For a description, the function fails only if the unknown part is not zero.
 * - Any thread may call any function, unless the comment of the function says otherwise. Only
 *   hm_pointer_find() is async-signal-safe. The texts of hm_errmsg() and hm_warning() are
 *   thread-local, and in a shared library the first text of a thread allocates memory.
 * - -EINVAL means that a pointer is NULL, a flag is unknown, or a value is out of the stated
 *   range. -EOWNERDEAD means that the parent process made the object before fork(). Every
 *   function that takes an object can fail with both errors. The comments below do not repeat
 *   them.
 * - The library makes a system call again if a signal interrupts the call, up to 100 times. The
 *   library does the same if a call fails with EAGAIN and this error means "not just now"
 *   (madvise(2), mincore(2), calls of devices). If this does not help, the function fails with
 *   -EINTR or -EAGAIN. In that case the function has done nothing, and the caller may call
 *   again. The library returns an EAGAIN that names a limit at once: from mmap(2) this error
 *   means RLIMIT_MEMLOCK under mlockall(MCL_FUTURE). A wait with a time limit goes on to that
 *   limit, however many signals come.
 * - -ENOMEM (memory, address space, vm.max_map_count), -EMFILE and -ENFILE (descriptors) are
 *   also returned at once, except as hm_retire_set() describes. The function has done nothing,
 *   and the text names the resource that ran out. -EIO means that a device or its driver
 *   failed. -EBADF means that code outside the library has closed a descriptor of the library.
 *   Every function that calls the kernel can fail with the errors of this item and of the
 *   previous item. The comments below repeat such an error only if it means something else
 *   there, or more.
 * - The comments do not repeat the answer of the access hook (hetmap/access.h) either, which is
 *   normally -EACCES.
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

/* Access to bytes by CPU code or by a kernel. */
enum hm_access {
	HM_NONE = 0,
	HM_READ = 1u << 0,
	HM_WRITE = 1u << 1,
};

/*
 * Mode in which the CPU caches a mapping, as the page table has it. The mode tells how fast
 * loads and stores are, and nothing else.
 */
enum hm_cache {
	HM_CACHE_WRITE_BACK = 0,
	HM_CACHE_WRITE_COMBINING = 1,
	HM_CACHE_UNCACHED = 2,
	/* The device does not report the mode: imported memory, or a driver that alone chooses. */
	HM_CACHE_UNKNOWN = 3,
};

/**
 * hm_version - return the version of the loaded library
 *
 * Compare the result with HM_VERSION, the version of the headers that the program was compiled
 * with.
 *
 * Thread safety: any thread.
 * Returns: (major << 16) | (minor << 8) | patch.
 */
HM_API uint32_t hm_version(void);

/**
 * hm_errmsg - describe the last failure in this thread
 *
 * A function that returns an errno forgets the texts of earlier calls when it begins: after a
 * success the text is "". Functions that return none (_ref, _unref, addresses, lengths, names)
 * leave both texts as they are, and so does hm_pointer_find(). hm_free(), hm_pool_free() and
 * hm_guard_end() leave them, unless they fail themselves. A program may therefore release what
 * it has before it prints the text of the call that failed.
 *
 * The text is one line, in which a control character of a name is a '?'; the build log of a
 * kernel follows its sentence on lines of its own. When the library calls a function of the
 * program, calls of that function have texts of their own; the surrounding call keeps its texts.
 *
 * Ownership: the string belongs to the thread, and is valid until the thread's next hetmap
 * call.
 * Thread safety: any thread; each thread has its own text. A signal handler must not call this
 * function.
 * Returns: a sentence, or "" if there is none. Never NULL.
 */
HM_API const char *hm_errmsg(void);

/**
 * hm_warning - tell what is less than was asked for after a success
 *
 * A call may succeed with less than the caller asked for: a smaller reservation, base pages in
 * place of huge pages, a copy in place of memory that an accelerator reaches. Such a call leaves
 * its sentences here, with "; " between two of them. The text is "" after a call that gave all
 * of it, and of no use after a call that failed. The same functions as for hm_errmsg() leave the
 * text as it is.
 *
 * Ownership: as for hm_errmsg().
 * Thread safety: as for hm_errmsg().
 * Returns: a text of one line, or "" if there is none. Never NULL.
 */
HM_API const char *hm_warning(void);

/* Counters of the process since it started. */
struct hm_stats {
	uint32_t struct_size;
	uint32_t reserved;
	uint64_t devices;          /* alive now */
	uint64_t buffers;          /* alive now */
	uint64_t maps;             /* alive now */
	uint64_t views;            /* alive now */
	uint64_t bytes_mapped;     /* lengths of all maps, in whole pages */
	uint64_t bytes_reserved;   /* address space held by all maps */
	uint64_t bytes_locked;     /* bytes that hm_map_lock holds now */
	uint64_t bytes_copied;     /* by launches and resizes, since the start */
	uint64_t launches;         /* since the start */
	uint64_t slab_bytes;       /* of the address look-up; reused, never given back */
	uint64_t find_retries;     /* hm_pointer_find met a change under way */
	uint64_t touches_outside;  /* stores outside brackets that HETMAP_CHECK=1 saw */
	uint64_t bytes_idle;       /* kept on DRM nodes for the next buffers: HETMAP_DRM_IDLE */
	uint64_t bytes_shadow;     /* memory of shadows: HM_LOSS_SHADOW */
	uint64_t retired;          /* maps and buffers left to the thread of hm_retire_set */
	uint64_t retired_in_place; /* released by the caller, while that thread ran */
	uint64_t backlog;          /* part of retired that is not released yet */
	uint64_t backlog_bytes;    /* memory that the backlog holds */
	uint64_t unpublished;      /* maps so far that are in no table: hetmap-published(5) */
};

/**
 * hm_stats_get - read the counters of the process
 * @ret_stats: [in,out] struct_size set by the caller; filled on success
 *
 * The library reads each counter by itself; together the counters are not a snapshot.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 */
HM_API int hm_stats_get(struct hm_stats *ret_stats);

#ifdef __cplusplus
}
#endif

#endif
