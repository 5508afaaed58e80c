// SPDX-License-Identifier: MIT
/* Peers of any pointers: a CPU's own faults, mappings and rights, in bare system calls. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "peer.h"

PEER_SOURCE(peer_range_source);

/* ---- mirror_idle ---- */

#define CYCLES 50

int peer_cycle_times(double *ret_ns)
{
	double start = bench_now();
	void *bytes;
	int i;

	for (i = 0; i < CYCLES; i++) {
		bytes = mmap(NULL, MIB(1), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			     -1, 0);
		if (bytes == MAP_FAILED)
			return -errno;
		*(volatile char *)bytes = 1;
		munmap(bytes, MIB(1));
	}
	*ret_ns = (bench_now() - start) / CYCLES;
	return 0;
}

/* A process that was forked before any device was open, and measures when it is asked. */
struct peer_cycles {
	pid_t child;
	int socket;
};

static void cycles_child(int fd)
{
	double ns;
	char ask;

	while (read(fd, &ask, 1) == 1)
		if (peer_cycle_times(&ns) || write(fd, &ns, sizeof(ns)) != sizeof(ns))
			break;
	_exit(0);
}

int peer_cycles_open(struct peer_cycles **ret_cycles)
{
	struct peer_cycles *cycles = calloc(1, sizeof(*cycles));
	int fds[2], r;

	if (!cycles)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds)) {
		r = -errno;
		free(cycles);
		return r;
	}
	cycles->child = fork();
	if (!cycles->child) {
		close(fds[0]);
		cycles_child(fds[1]);
	}
	close(fds[1]);
	cycles->socket = fds[0];
	*ret_cycles = cycles;
	return 0;
}

int peer_cycles_ask(struct peer_cycles *cycles, double *ret_ns)
{
	char ask = 1;

	if (write(cycles->socket, &ask, 1) != 1 ||
	    read(cycles->socket, ret_ns, sizeof(*ret_ns)) != sizeof(*ret_ns))
		return -EPIPE;
	return 0;
}

void peer_cycles_close(struct peer_cycles *cycles)
{
	close(cycles->socket);
	if (cycles->child > 0)
		waitpid(cycles->child, NULL, 0);
	free(cycles);
}

/* ---- mirror_fault ---- */

int peer_faults(size_t length, double *ret_ns)
{
	char *bytes =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	double start;

	if (bytes == MAP_FAILED)
		return -errno;
	madvise(bytes, length, MADV_NOHUGEPAGE);
	start = bench_now();
	bench_touch(bytes, length, KIB(4));
	*ret_ns = (bench_now() - start) / ((double)length / KIB(4));
	munmap(bytes, length);
	return 0;
}

/* ---- invalidate ---- */

void peer_touch(char *bytes, size_t length)
{
	bench_touch(bytes, length, KIB(4));
}

/* Takes the right to write away, which is timed, and gives it back, which is not. */
int peer_take_rights(char *bytes, size_t length, double *ret_ns)
{
	double start = bench_now();

	if (mprotect(bytes, length, PROT_READ))
		return -errno;
	*ret_ns = bench_now() - start;
	return mprotect(bytes, length, PROT_READ | PROT_WRITE) ? -errno : 0;
}

/* ---- dev_tlb ---- */

/* Takes the right to write from pages: the time of a page. Gives it back, which is not timed. */
int peer_take_pages(char *bytes, size_t length, double *ret_ns)
{
	double start = bench_now();

	if (mprotect(bytes, length, PROT_READ))
		return -errno;
	*ret_ns = (bench_now() - start) / ((double)length / KIB(4));
	return mprotect(bytes, length, PROT_READ | PROT_WRITE) ? -errno : 0;
}

/* ---- migrate ---- */

double peer_there_and_back(char *bytes, char *there, size_t length, size_t piece)
{
	double start = bench_now();
	size_t at;

	for (at = 0; at < length; at += piece) {
		memcpy(there, bytes + at, piece);
		memcpy(bytes + at, there, piece);
	}
	return bench_now() - start;
}

/* ---- prefetch_gain ---- */

/* A file of @length bytes on a disk, if $TMPDIR is: its descriptor. */
int peer_file_made(size_t length)
{
	const char *folder = getenv("TMPDIR");
	char path[512], *bytes;
	size_t at, n = MIB(1);
	int fd, r = 0;

	snprintf(path, sizeof(path), "%s/hetmap-bench-XXXXXX", folder ? folder : "/var/tmp");
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(path);
	bytes = malloc(n);
	for (at = 0; bytes && !r && at < length; at += n) {
		memset(bytes, (int)(at >> 20), n);
		n = length - at < n ? length - at : n;
		if (write(fd, bytes, n) != (ssize_t)n)
			r = errno ? -errno : -ENOSPC;
	}
	if (!r && bytes)
		r = fsync(fd) ? -errno : 0;
	free(bytes);
	if (r || !bytes) {
		close(fd);
		return r ? r : -ENOMEM;
	}
	return fd;
}

/* Takes the file out of this mapping and out of memory. */
int peer_cold(int fd, const void *bytes, size_t length)
{
	if (madvise((void *)(uintptr_t)bytes, length, MADV_DONTNEED))
		return -errno;
	return -posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

/* ---- cache_gain ---- */

/* The peer is no program: without a cache each read of 4 KiB is of the host's memory. */
