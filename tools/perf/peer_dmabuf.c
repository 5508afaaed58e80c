// SPDX-License-Identifier: MIT
/* Peers of dma-bufs: their bare ioctls. */
#include <errno.h>
#include <linux/dma-buf.h>
#include <sys/ioctl.h>

#include "bench.h"
#include "peer.h"

PEER_SOURCE(peer_dmabuf_source);

/* ---- dmabuf_bracket ---- */

int peer_bracket(int fd)
{
	struct dma_buf_sync sync = { .flags = DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW };

	if (ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync))
		return -errno;
	sync.flags = DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW;
	return ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync) ? -errno : 0;
}
