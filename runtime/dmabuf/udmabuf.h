/* SPDX-License-Identifier: MIT */
/* /dev/udmabuf: makes pages of a memfd a dma-buf, for other devices. */
#ifndef HETMAP_UDMABUF_H
#define HETMAP_UDMABUF_H

#include <stdbool.h>
#include <stdint.h>

/*
 * 0, or an errno with a text.
 * -ENODEV: the kernel or the system has no /dev/udmabuf.
 * -EACCES.
 */
int udmabuf_check(void);

/* As udmabuf_check(), without a text; asks once in a process. */
bool udmabuf_is_there(void);

/*
 * Makes a dma-buf of the first @size bytes of @memfd, O_CLOEXEC. @memfd must have F_SEAL_SHRINK
 * and no seal against writing, @size must be whole pages. All pages get allocated.
 * -E2BIG: more than the module's limit.
 * -EPERM: a seal against writing.
 * -EIO: this kernel's udmabuf shows other bytes than the memfd's.
 */
int udmabuf_create(int memfd, uint64_t size, int *ret_fd);
/*
 * -EPERM: @memfd is sealed against writing. Kernels from before 2025 look at F_SEAL_WRITE only
 * [udmabuf.c: "also check the F_SEAL_FUTURE_WRITE seal"], and would give a writable dma-buf.
 */
int udmabuf_check_seals(int memfd);

#endif
