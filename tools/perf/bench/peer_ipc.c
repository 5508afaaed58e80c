// SPDX-License-Identifier: MIT
/* Peers of what processes do together: a pipe or a pair of sockets; one process alone. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"
#include "peer.h"

PEER_SOURCE(peer_ipc_source);

/* ---- ipc_ring ---- */

/* With as much room inside as an unprivileged process may have. */
int peer_pipe_open(int ret_fds[2])
{
	if (pipe2(ret_fds, O_CLOEXEC))
		return -errno;
	fcntl(ret_fds[1], F_SETPIPE_SZ, MIB(1));
	return 0;
}

int peer_sockets_open(int ret_fds[2])
{
	int room = MIB(1);

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ret_fds))
		return -errno;
	setsockopt(ret_fds[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	return 0;
}

/* A record each, by write(2) and read(2), which may take or give a part of it. */
int peer_record_write(int fd, const char *record, size_t length)
{
	size_t done = 0;
	ssize_t n;

	while (done < length) {
		n = write(fd, record + done, length - done);
		if (n <= 0)
			return n ? -errno : -EPIPE;
		done += (size_t)n;
	}
	return 0;
}

int peer_record_read(int fd, char *record, size_t length)
{
	size_t done = 0;
	ssize_t n;

	while (done < length) {
		n = read(fd, record + done, length - done);
		if (n <= 0)
			return n ? -errno : -EPIPE;
		done += (size_t)n;
	}
	return 0;
}

/* ---- workers ---- */

/* The same code in one process, which reads all: bench_workers.c, read_part(). */
