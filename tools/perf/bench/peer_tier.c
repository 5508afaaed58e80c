// SPDX-License-Identifier: MIT
/* Peers that are bare system calls: memory of nodes, DAX devices and DAX file systems. */
#include <errno.h>
#include <fcntl.h>
#include <numaif.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "peer.h"

PEER_SOURCE(peer_tier_source);

/* A file of the tier's memory, @length bytes long; or a negative errno. */
static int open_memory(const char *device, size_t length)
{
	int fd;

	if (!strncmp(device, "dax:", 4)) {
		fd = open(device + 4, O_RDWR | O_CLOEXEC);
		return fd < 0 ? -errno : fd;
	}
	fd = !strncmp(device, "pmem:", 5) ?
		     open(device + 5, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) :
		     memfd_create("buffer", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)length) ||
	    (device[0] == 'p' && fallocate(fd, 0, 0, (off_t)length))) {
		close(fd);
		return -errno;
	}
	return fd;
}

static int touch_placed(int fd, int mode, uint64_t nodes, size_t length, size_t stride)
{
	unsigned long mask = nodes;
	char *address;
	int r = 0;

	address = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (address == MAP_FAILED)
		return -errno;
	if (nodes && mbind(address, length, mode, &mask, 8 * sizeof(mask) + 1, 0))
		r = -errno;
	else
		bench_touch(address, length, stride);
	munmap(address, length);
	return r;
}

/* ---- map_tier ---- */

int peer_tier_cycle(const char *device, int node, size_t length, size_t stride)
{
	const bool is_node = !strncmp(device, "node:", 5);
	int fd = open_memory(device, length), r;
	char *address;

	if (fd < 0)
		return fd;
	/* A new buffer of a DAX device is zeros, which the kernel does not make there. */
	if (!strncmp(device, "dax:", 4)) {
		address = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (address == MAP_FAILED) {
			r = -errno;
			close(fd);
			return r;
		}
		memset(address, 0, length);
		munmap(address, length);
	}
	r = touch_placed(fd, MPOL_BIND, is_node ? 1ull << node : 0, length, stride);
	close(fd);
	return r;
}

/* ---- interleave ---- */

int peer_interleave(uint64_t nodes, size_t length, size_t stride)
{
	int fd = open_memory("host", length), r;

	if (fd < 0)
		return fd;
	r = touch_placed(fd, MPOL_INTERLEAVE, nodes, length, stride);
	close(fd);
	return r;
}

/* ---- tiering ---- */

/* Each read waits for the one before. */
uint64_t peer_tiering_read(const char *address, const uint32_t *lines, size_t n)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < n; i++)
		sum += *(const volatile uint8_t *)(address + (size_t)lines[i] * 64 + (sum & 7));
	return sum;
}

/* ---- cxl_latency ---- */

/* Each line of 64 bytes begins with the number of the next one. */
uint32_t peer_cxl_chase(const char *base, uint32_t at, size_t steps)
{
	while (steps--)
		at = *(const volatile uint32_t *)(base + (size_t)at * 64);
	return at;
}
