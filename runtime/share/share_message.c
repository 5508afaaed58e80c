// SPDX-License-Identifier: MIT
/*
 * One message over a Unix socket: the description of a buffer, with its descriptors beside it
 * (SCM_RIGHTS) [unix(7)]. The sender is not trusted.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/compat.h"
#include "share/share.h"
#include "base/sys.h"

/* A descriptor, too: it comes unasked where the receiver has set SO_PASSPIDFD. */
#ifndef SCM_PIDFD
#define SCM_PIDFD 0x04 /* Linux 6.5 */
#endif

/* Room for more than a buffer has, so that surplus descriptors are found and closed. */
#define ROOM_FDS 16

/* without the owner's */
#define SHARE_FDS_LEAST SHARE_FD_OWNER

/*
 * The sockets that this thread has checked, by their cookies, which the kernel gives only once
 * [socket(7) SO_COOKIE]: one system call instead of two. Before Linux 5.10 each network
 * namespace counted its own [net/core/sock_diag.c, commit 92acdc58ab11]; a kernel that knows
 * SO_NETNS_COOKIE is later than that.
 */
#define KNOWN_SOCKETS 8
static _Thread_local uint64_t known_sockets[KNOWN_SOCKETS];

int share_check_socket(int socket, const char *what, uint64_t *ret_cookie)
{
	int domain = 0, type = 0, r;
	uint64_t cookie = 0, any;

	/* Without a cookie, both questions below are asked each time. */
	if (!sys_socket_cookie(socket, SO_COOKIE, &cookie) && cookie &&
	    known_sockets[cookie % KNOWN_SOCKETS] == cookie) {
		*ret_cookie = cookie;
		return 0;
	}
	r = sys_getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain);
	if (!r)
		r = sys_getsockopt(socket, SOL_SOCKET, SO_TYPE, &type);
	if (r)
		return err_set(r, "%s: descriptor %d: %s", what, socket, err_name(r));
	if (domain != AF_UNIX || (type != SOCK_STREAM && type != SOCK_SEQPACKET))
		return err_set(-EPROTOTYPE,
			       "%s: descriptor %d is a socket of family %d, type %d: "
			       "buffers go over AF_UNIX, SOCK_STREAM or SOCK_SEQPACKET",
			       what, socket, domain, type);
	if (sys_socket_cookie(socket, SO_NETNS_COOKIE, &any))
		cookie = 0;
	known_sockets[cookie % KNOWN_SOCKETS] = cookie;
	*ret_cookie = cookie;
	return 0;
}

static int explain_send(int r)
{
	switch (r) {
	case -EAGAIN:
		return err_set(r, "the socket is full and does not wait: nothing was sent");
	case -ETOOMANYREFS:
		return err_set(r, "too many descriptors are on their way already: the peer "
				  "must receive some (RLIMIT_NOFILE is the limit)");
	default:
		return err_set(r, "sending a buffer's descriptors (sendmsg): %s", err_name(r));
	}
}

int share_message_send(int socket, const struct share_message *message,
		       const int fds[SHARE_FDS])
{
	union {
		char bytes[CMSG_SPACE(SHARE_FDS * sizeof(int))];
		struct cmsghdr align;
	} control = { .bytes = { 0 } };
	struct iovec part = {
		.iov_base = (void *)(uintptr_t)message,
		.iov_len = sizeof(*message),
	};
	struct msghdr header = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	size_t length = (fds[SHARE_FD_OWNER] < 0 ? SHARE_FDS_LEAST : SHARE_FDS) * sizeof(int);
	struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
	ssize_t n;

	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(length);
	memcpy(CMSG_DATA(rights), fds, length);
	header.msg_controllen = CMSG_SPACE(length);
	n = sys_sendmsg(socket, &header);
	if (n < 0)
		return explain_send((int)n);
	/* A message this short is never split, not even in a stream [af_unix.c]. */
	if ((size_t)n != sizeof(*message))
		return err_set(-EIO, "%zd of a message's %zu bytes were sent: close the socket",
			       n, sizeof(*message));
	return 0;
}

struct received {
	int fds[2 * ROOM_FDS];
	uint32_t n;
};

static void take_control(struct received *received, struct msghdr *header)
{
	struct cmsghdr *part;
	uint32_t i, n;

	for (part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
		if (part->cmsg_level != SOL_SOCKET ||
		    (part->cmsg_type != SCM_RIGHTS && part->cmsg_type != SCM_PIDFD))
			continue;
		n = (uint32_t)((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		if (part->cmsg_type == SCM_PIDFD) {
			int fd;

			memcpy(&fd, CMSG_DATA(part), sizeof(fd));
			/* negative: an errno, where the kernel could not make one */
			if (n && fd >= 0)
				sys_close(fd);
			continue;
		}
		for (i = 0; i < n && received->n < ARRAY_SIZE(received->fds); i++)
			memcpy(&received->fds[received->n++], CMSG_DATA(part) + i * sizeof(int),
			       sizeof(int));
	}
}

static int check_received(const struct received *received, const struct msghdr *header,
			  size_t length, const struct share_message *message)
{
	if (!length)
		return err_set(-ECONNRESET, "the peer has closed the socket, and sent nothing");
	if (received->n < SHARE_FDS && header->msg_flags & MSG_CTRUNC)
		return err_set(-EMFILE,
			       "this process has no room for the descriptors that were sent: "
			       "raise RLIMIT_NOFILE, and have the buffer sent again");
	if (received->n < SHARE_FDS_LEAST || received->n > SHARE_FDS ||
	    header->msg_flags & MSG_CTRUNC)
		return err_set(-EPROTO,
			       "%s%" PRIu32 " descriptors came with the message: a buffer "
			       "has %d or %d",
			       header->msg_flags & MSG_CTRUNC ? "more than " : "", received->n,
			       SHARE_FDS_LEAST, SHARE_FDS);
	if (length != sizeof(*message) || header->msg_flags & MSG_TRUNC)
		return err_set(-EPROTO, "a message of %s%zu bytes came: a buffer's has %zu",
			       header->msg_flags & MSG_TRUNC ? "more than " : "", length,
			       sizeof(*message));
	if (message->magic != SHARE_MAGIC)
		return err_set(-EPROTO,
			       "the message begins with 0x%" PRIx32
			       " and not with 0x%x: it is no buffer",
			       message->magic, SHARE_MAGIC);
	if (message->version != SHARE_VERSION || message->length != sizeof(*message))
		return err_set(-EPROTO,
			       "the message is of version %" PRIu32 " and %" PRIu32
			       " bytes: this library speaks version %d of %zu",
			       message->version, message->length, SHARE_VERSION,
			       sizeof(*message));
	return 0;
}

int share_message_receive(int socket, struct share_message *ret_message, int ret_fds[SHARE_FDS])
{
	union {
		/* Credentials and a pidfd come first if the socket's options ask for them. */
		char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int)) +
			   CMSG_SPACE(ROOM_FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct received received;
	struct iovec part = { .iov_base = ret_message, .iov_len = sizeof(*ret_message) };
	struct msghdr header = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t n;
	int r;

	n = sys_recvmsg(socket, &header);
	if (n == -EAGAIN)
		return err_set(-EAGAIN, "no buffer has come, and the socket does not wait");
	if (n < 0)
		return err_set((int)n, "receiving a buffer (recvmsg): %s", err_name((int)n));
	received.n = 0;
	take_control(&received, &header);
	r = check_received(&received, &header, (size_t)n, ret_message);
	if (r)
		goto err_close;
	received.fds[received.n] = -1;
	memcpy(ret_fds, received.fds, SHARE_FDS * sizeof(int));
	return 0;

err_close:
	share_message_close(received.fds, received.n);
	return r;
}

void share_message_close(const int *fds, uint32_t n)
{
	while (n--)
		if (fds[n] >= 0)
			sys_close(fds[n]);
}
