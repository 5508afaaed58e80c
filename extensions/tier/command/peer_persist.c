// SPDX-License-Identifier: MIT
/* Peers: bare libpmem2 on the same bytes, and a log that is a file with fsync. */
#include <errno.h>
#include <fcntl.h>
#include <libpmem2.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench_tier.h"
#include "perf/bench/peer.h"

PEER_SOURCE(peer_persist_source);

/* ---- persist ---- */

struct peer_persist {
	struct pmem2_source *source;
	struct pmem2_map *map;
	pmem2_persist_fn persist;
};

int peer_persist_create(void *address, size_t length, struct peer_persist **ret_peer)
{
	struct peer_persist *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return -ENOMEM;
	if (pmem2_source_from_anon(&peer->source, length))
		goto err_free;
	if (pmem2_map_from_existing(&peer->map, peer->source, address, length,
				    PMEM2_GRANULARITY_CACHE_LINE))
		goto err_source;
	peer->persist = pmem2_get_persist_fn(peer->map);
	*ret_peer = peer;
	return 0;

err_source:
	pmem2_source_delete(&peer->source);
err_free:
	free(peer);
	return -EINVAL;
}

void peer_persist_destroy(struct peer_persist *peer)
{
	if (!peer)
		return;
	pmem2_map_delete(&peer->map);
	pmem2_source_delete(&peer->source);
	free(peer);
}

void peer_persist_call(const struct peer_persist *peer, const void *address, size_t length)
{
	peer->persist(address, length);
}

/* ---- log_append ---- */

int peer_log_open(const char *folder, size_t bytes)
{
	char path[4096];
	int fd, r;

	if ((size_t)snprintf(path, sizeof(path), "%s/log", folder) >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	/* Blocks that are there: an append changes no metadata but the file's times. */
	r = posix_fallocate(fd, 0, (off_t)bytes);
	if (r) {
		close(fd);
		return -r;
	}
	return fd;
}

int peer_log_append(int fd, size_t offset, const void *record, size_t length)
{
	if (pwrite(fd, record, length, (off_t)offset) != (ssize_t)length)
		return errno ? -errno : -EIO;
	return fsync(fd) ? -errno : 0;
}
