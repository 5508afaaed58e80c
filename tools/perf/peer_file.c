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

/* What all sides do with the bytes. Pairs of words: files here have no others. */
uint64_t peer_add_up(const void *bytes, size_t length)
{
	const uint64_t *words = bytes;
	uint64_t sum = 0, more = 0;
	size_t i;

	/* Two at a time: memory is to be what takes time, not the additions. */
	for (i = 0; i + 1 < length / sizeof(*words); i += 2) {
		sum += words[i];
		more += words[i + 1];
	}
	return sum + more;
}

int peer_read_file(const char *path, uint64_t *ret_sum)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *block = malloc(MIB(1));
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
