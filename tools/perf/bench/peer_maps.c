// SPDX-License-Identifier: MIT
/* Peers that are bare system calls: maps, their rights, locks and growth. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "peer.h"

PEER_SOURCE(peer_maps_source);

/* ---- map_cycle alloc_cycle frag_effect ---- */

int peer_map_cycle(size_t length, size_t stride)
{
	char *address;
	int r = 0;
	int fd;

	fd = memfd_create("buffer", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)length)) {
		r = -errno;
		goto close_fd;
	}
	address = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (address == MAP_FAILED) {
		r = -errno;
		goto close_fd;
	}
	bench_touch(address, length, stride);
	munmap(address, length);
close_fd:
	close(fd);
	return r;
}

/* ---- protect_pair lock_pair grow first_touch retire ---- */

int peer_map_create(struct peer_map *map, size_t used, size_t reserved)
{
	int r;

	map->fd = memfd_create("buffer", MFD_CLOEXEC);
	if (map->fd < 0)
		return -errno;
	if (ftruncate(map->fd, (off_t)used)) {
		r = -errno;
		goto close_fd;
	}
	map->address = mmap(NULL, reserved, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map->address == MAP_FAILED) {
		r = -errno;
		goto close_fd;
	}
	if (used && mmap(map->address, used, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			 map->fd, 0) == MAP_FAILED) {
		r = -errno;
		goto unmap;
	}
	map->length = used;
	map->reserved = reserved;
	return 0;

unmap:
	munmap(map->address, reserved);
close_fd:
	close(map->fd);
	return r;
}

void peer_map_destroy(struct peer_map *map)
{
	munmap(map->address, map->reserved);
	close(map->fd);
}

/* ---- protect_pair ---- */

int peer_protect_pair(char *address, size_t length)
{
	if (mprotect(address, length, PROT_READ))
		return -errno;
	if (mprotect(address, length, PROT_READ | PROT_WRITE))
		return -errno;
	return 0;
}

/* ---- lock_pair ---- */

int peer_lock_pair(const char *address, size_t length)
{
	if (mlock(address, length))
		return -errno;
	if (munlock(address, length))
		return -errno;
	return 0;
}

/* ---- grow ---- */

int peer_grow(struct peer_map *map, size_t length)
{
	size_t old = map->length;

	if (ftruncate(map->fd, (off_t)length))
		return -errno;
	if (mmap(map->address + old, length - old, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED, map->fd, (off_t)old) == MAP_FAILED)
		return -errno;
	map->length = length;
	return 0;
}

int peer_grow_realloc(char **address, size_t old_length, size_t length, size_t stride)
{
	char *grown = realloc(*address, length);

	if (!grown)
		return -ENOMEM;
	bench_touch(grown + old_length, length - old_length, stride);
	*address = grown;
	return 0;
}

/* ---- first_touch ---- */

int peer_first_touch(struct peer_map *map, size_t length)
{
	int r;

	r = peer_map_create(map, length, length);
	if (r)
		return r;
	madvise(map->address, length, MADV_NOHUGEPAGE);
	bench_touch(map->address, length, KIB(4));
	return 0;
}

/* ---- frag_effect ---- */

int peer_touch_huge(size_t length, char **ret_address)
{
	char *address = mmap(NULL, length + MIB(2), PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t before;

	if (address == MAP_FAILED)
		return -errno;
	/* Huge pages are at multiples of theirs. */
	before = -(uintptr_t)address % MIB(2);
	if (before)
		munmap(address, before);
	address += before;
	munmap(address + length, MIB(2) - before);
	madvise(address, length, MADV_HUGEPAGE);
	bench_touch(address, length, KIB(4));
	*ret_address = address;
	return 0;
}

/* ---- guard_copy shadow_cost copy_ladder ---- */

void peer_other_work(size_t turns)
{
	/* In registers: what the copies have in the caches stays there. */
	for (; turns; turns--)
		__asm__ volatile("" : "+r"(turns));
}

void peer_copies(char *to, const char *from, size_t length, size_t bytes, size_t n,
		 size_t turns)
{
	size_t i, at;

	for (i = at = 0; i < n; i++) {
		memcpy(to + at, from + at, length);
		/* What nobody reads need not be copied, else. */
		__asm__ volatile("" ::: "memory");
		peer_other_work(turns);
		at += length;
		if (at + length > bytes)
			at = 0;
	}
}

/* ---- combine ---- */

size_t peer_scattered(size_t i, size_t length, size_t window)
{
	/* An odd factor goes through all places of a window of 2^n. */
	return i * 7919 % (window / length) * length;
}

void peer_scatter(char *to, size_t length, size_t window, size_t n)
{
	char bytes[64];
	size_t i;

	memset(bytes, 2, sizeof(bytes));
	for (i = 0; i < n; i++)
		memcpy(to + peer_scattered(i, length, window), bytes, length);
	__asm__ volatile("" ::: "memory");
}

/* ---- find_under_churn ---- */

/* Its peer is hm_pointer_find() as well: the same pass, without the other thread. */

/* ---- publish_cost ---- */

/* Its peer is the same cycle of the same library, which HETMAP_PUBLISH=0 keeps silent. */

/* ---- lost_to_usable ---- */

int peer_fresh_copy(const char *from, size_t length, char **ret_to)
{
	void *to =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (to == MAP_FAILED)
		return -errno;
	memcpy(to, from, length);
	*ret_to = to;
	return 0;
}
