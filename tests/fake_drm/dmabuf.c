// SPDX-License-Identifier: MIT
/* The calls of a dma-buf, whose descriptor is its object's memory. drivers/dma-buf/ */
#include <errno.h>
#include <linux/dma-buf.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fake.h"

/* dma-buf.c, dma_buf_ioctl of kernel 5.19 and before, which have no sync_files */
int fake_dmabuf_ioctl(unsigned long cmd, void *argument)
{
	struct dma_buf_sync sync;

	switch (cmd) {
	case DMA_BUF_IOCTL_SYNC:
		if (fake_read("dma_buf_sync", &sync, (uintptr_t)argument, sizeof(sync)))
			return -EFAULT;
		if (sync.flags & ~(uint64_t)DMA_BUF_SYNC_VALID_FLAGS_MASK)
			return -EINVAL;
		if (!(sync.flags & DMA_BUF_SYNC_RW))
			return -EINVAL;
		fake_trace("sync %llx\n", (unsigned long long)sync.flags);
		return -fake_due("dma_buf_sync");
	case DMA_BUF_SET_NAME_A:
	case DMA_BUF_SET_NAME_B:
		return 0;
	default:
		return -ENOTTY;
	}
}

/* dma-buf.c, dma_buf_mmap_internal */
void *fake_dmabuf_mmap(int fd, void *address, size_t length, int prot, int flags,
		       uint64_t offset)
{
	uint64_t pages = (length + FAKE_PAGE - 1) / FAKE_PAGE;
	off_t size = syscall(SYS_lseek, fd, 0, SEEK_END);

	if (size < 0 || offset / FAKE_PAGE + pages > (uint64_t)size / FAKE_PAGE) {
		errno = EINVAL;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mmap, address, length, prot, flags, fd, offset);
}
