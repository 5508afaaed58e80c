/* SPDX-License-Identifier: MIT */
/* Resource limits, compared before the kernel does: some kill instead of failing. */
#ifndef HETMAP_RLIMITS_H
#define HETMAP_RLIMITS_H

#include <stdint.h>

/*
 * Returns -EFBIG where a file of @size would exceed RLIMIT_FSIZE: ftruncate() beyond it raises
 * SIGXFSZ, which by default ends the process [setrlimit(2)].
 */
int rlimits_check_file_size(uint64_t size);

/* The largest file that may be written; UINT64_MAX without limit. */
uint64_t rlimits_file_size(void);

/* Text for a file that became too large: EFBIG names RLIMIT_FSIZE. Returns @r. */
int rlimits_explain_file(int r, const char *what);

/* Text for a failed descriptor allocation: EMFILE names RLIMIT_NOFILE. Returns @r. */
int rlimits_explain_fd(int r, const char *what);

/*
 * Text for a failed pthread_create(), which is EAGAIN for every cause: RLIMIT_AS or RLIMIT_DATA
 * where a stack does not fit it, otherwise RLIMIT_NPROC and the other limits of threads. Returns
 * @r.
 */
int rlimits_explain_thread(int r, const char *what);

/*
 * Memory that a failed call needed, besides a mapping: the text names no limit that does not count
 * it. A reservation needs address space; mapping into one, or setting rights, does not.
 */
#define TAKES_SPACE (1u << 0) /* address space */
#define TAKES_DATA (1u << 1)  /* private memory that may be writable */

/*
 * Text for a failed mmap or mprotect of @length bytes, which needed @takes (TAKES_*): names the
 * cause among RLIMIT_AS, RLIMIT_DATA, vm.max_map_count, mlockall(MCL_FUTURE), memory, and pages
 * that a driver does not give. The caller must not have given back yet the memory that it had taken
 * before the failure. Returns @r.
 */
int rlimits_explain_map(int r, uint64_t length, uint32_t takes, const char *what);

/*
 * Text for memory that a device in this process did not get: RLIMIT_AS, RLIMIT_DATA for its
 * tables, or no limit of the process. Returns @r.
 */
int rlimits_explain_memory(int r, uint64_t length, const char *what);

/* Room for @n more mappings below vm.max_map_count? -ENOMEM with the numbers. */
int rlimits_check_maps(uint64_t n);

/* Bytes that mlock() may still lock; UINT64_MAX without limit. */
uint64_t rlimits_lockable(uint64_t *ret_limit, uint64_t *ret_locked);
/* The same for a process with @locked bytes locked. */
uint64_t rlimits_lock_room(uint64_t locked, uint64_t *ret_limit);

#endif
