// SPDX-License-Identifier: MIT
/* Peers of dma-bufs: their bare ioctls. */
#include <errno.h>
#include <linux/dma-buf.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

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

/* ---- dmabuf_share ---- */

int peer_share_send(int socket, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { .bytes = { 0 } };
	char byte = 0;
	struct iovec part = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr header = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *rights = CMSG_FIRSTHDR(&header);

	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
	return sendmsg(socket, &header, MSG_NOSIGNAL) == 1 ? 0 : -errno;
}

int peer_share_receive(int socket, struct peer_share *ret_share)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	char byte;
	struct iovec part = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr header = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	off_t length;
	void *mapped;
	int fd;

	if (recvmsg(socket, &header, MSG_CMSG_CLOEXEC) != 1)
		return -EPROTO;
	if (!CMSG_FIRSTHDR(&header))
		return -EPROTO;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof(fd));
	length = lseek(fd, 0, SEEK_END);
	mapped = mmap(NULL, (size_t)length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mapped == MAP_FAILED) {
		close(fd);
		return -ENOMEM;
	}
	*ret_share = (struct peer_share){ fd, mapped, (size_t)length };
	return 0;
}

void peer_share_drop(const struct peer_share *share)
{
	munmap(share->address, share->length);
	close(share->fd);
}
