// SPDX-License-Identifier: MIT
/* Peers that take all bytes of a file, one after another: read(2), and plain maps. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"
#include "peer.h"

PEER_SOURCE(peer_file_source);

/* ---- seq_cold seq_warm ---- */

/*
 * What all sides do with the bytes, by the same instructions: a copy for each caller would be
 * as fast as where the linker puts it, which was a factor of 1.6 between two builds. Eight words
 * at a time: memory is to be what takes time, not the additions, nor where the loop begins.
 */
__attribute__((noinline, aligned(64))) uint64_t peer_add_up(const void *bytes, size_t length)
{
	const uint64_t *words = bytes;
	uint64_t a = 0, b = 0, c = 0, d = 0;
	size_t i, n = length / sizeof(*words);

	for (i = 0; i + 8 <= n; i += 8) {
		a += words[i] + words[i + 4];
		b += words[i + 1] + words[i + 5];
		c += words[i + 2] + words[i + 6];
		d += words[i + 3] + words[i + 7];
	}
	for (; i < n; i++)
		a += words[i];
	return a + b + c + d;
}

int peer_read_file(const char *path, uint64_t *ret_sum)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	/* At a page: where malloc() puts it the kernel's copy may take twice as long. */
	char *block = aligned_alloc(4096, MIB(1));
	int r = fd < 0 ? -errno : block ? 0 : -ENOMEM;
	uint64_t sum = 0;
	ssize_t n = 1;

	while (!r && n > 0) {
		n = read(fd, block, MIB(1));
		if (n < 0)
			r = -errno;
		else
			sum += peer_add_up(block, (size_t)n);
	}
	free(block);
	if (fd >= 0)
		close(fd);
	if (!r)
		*ret_sum = sum;
	return r;
}

int peer_map_file(const char *path, int advice, uint64_t *ret_sum)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), r = 0;
	struct stat st;
	void *bytes;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st)) {
		r = -errno;
		goto close_fd;
	}
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED) {
		r = -errno;
		goto close_fd;
	}
	/* MADV_NORMAL: as it is. */
	madvise(bytes, (size_t)st.st_size, advice);
	*ret_sum = peer_add_up(bytes, (size_t)st.st_size);
	munmap(bytes, (size_t)st.st_size);
close_fd:
	close(fd);
	return r;
}
