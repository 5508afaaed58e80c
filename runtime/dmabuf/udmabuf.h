/* SPDX-License-Identifier: MIT */
/* /dev/udmabuf: pages of a memfd as a dma-buf, which other devices take in. */
#ifndef HETMAP_UDMABUF_H
#define HETMAP_UDMABUF_H

#include <stdbool.h>
#include <stdint.h>

/* 0, or why not: -ENODEV the kernel or the system has none, -EACCES. With a text. */
int udmabuf_check(void);

/* The same without a text, asked once in a process. */
bool udmabuf_is_there(void);

/*
 * The first @size bytes of @memfd, which has F_SEAL_SHRINK and no seal against writing;
 * whole pages, all of them allocated by it. O_CLOEXEC. -E2BIG: more than the module's
 * limit; -EPERM: such a seal; -EIO: this kernel's shows other bytes than the memfd's.
 */
int udmabuf_create(int memfd, uint64_t size, int *ret_fd);
/*
 * -EPERM where @memfd is sealed against writing. Kernels from before 2025 look at F_SEAL_WRITE
 * only [udmabuf.c: "also check the F_SEAL_FUTURE_WRITE seal"], and would give a dma-buf that
 * may be written.
 */
int udmabuf_check_seals(int memfd);

#endif
