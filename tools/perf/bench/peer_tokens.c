// SPDX-License-Identifier: MIT
/* Peers of batches of tokens: numpy's memmap, a loop of pread(), io_uring. */
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "peer.h"

PEER_SOURCE(peer_tokens_source);

/* ---- tokens_warm ---- */

/* nanoGPT's get_batch(), with numpy alone: arguments are file, block, batch, how many. */
const char peer_numpy[] =
	"import sys, time, numpy as np\n"
	"path, block, batch, n = sys.argv[1], *(int(a) for a in sys.argv[2:])\n"
	"def get_batch():\n"
	"    data = np.memmap(path, dtype=np.uint16, mode='r')\n"
	"    ix = np.random.randint(len(data) - block, size=(batch,))\n"
	"    x = np.stack([(data[i:i+block]).astype(np.int64) for i in ix])\n"
	"    y = np.stack([(data[i+1:i+1+block]).astype(np.int64) for i in ix])\n"
	"    return x, y\n"
	"for _ in range(10): get_batch()\n"
	"start = time.perf_counter_ns()\n"
	"for _ in range(n): get_batch()\n"
	"print((time.perf_counter_ns() - start) / n)\n";

/* ---- tokens_cold ---- */

/* The bytes of block @i of a batch are at that place in peer->bytes. */
static uint16_t *bytes_of(const struct peer_tokens *peer, size_t i)
{
	return peer->bytes + i * (peer->block + 1);
}

/* Anywhere: xorshift. */
static off_t random_offset(struct peer_tokens *peer)
{
	peer->random ^= peer->random << 13;
	peer->random ^= peer->random >> 7;
	peer->random ^= peer->random << 17;
	return (off_t)(peer->random % (peer->tokens - peer->block) * sizeof(uint16_t));
}

/* In steps of a length that is known: so compilers use vectors for it also at -O2. */
static void widen_row(int64_t *restrict to, const uint16_t *restrict from, size_t n)
{
	size_t i, j;

	for (i = 0; i + 64 <= n; i += 64)
		for (j = 0; j < 64; j++)
			to[i + j] = from[i + j];
	for (; i < n; i++)
		to[i] = from[i];
}

static void widen(const struct peer_tokens *peer, size_t i, int64_t *x, int64_t *y)
{
	const uint16_t *from = bytes_of(peer, i);

	widen_row(x + i * peer->block, from, peer->block);
	widen_row(y + i * peer->block, from + 1, peer->block);
}

int peer_tokens_pread(struct peer_tokens *peer, int64_t *x, int64_t *y)
{
	size_t length = (peer->block + 1) * sizeof(uint16_t), i;

	for (i = 0; i < peer->batch; i++) {
		ssize_t n = pread(peer->fd, bytes_of(peer, i), length, random_offset(peer));

		if (n != (ssize_t)length)
			return n < 0 ? -errno : -ENODATA;
		widen(peer, i, x, y);
	}
	return 0;
}

/* All reads of the batch are submitted by one call, which waits for all of them. */
int peer_tokens_ring(struct peer_tokens *peer, int64_t *x, int64_t *y)
{
	size_t length = (peer->block + 1) * sizeof(uint16_t), i;
	unsigned int tail = *peer->sq_tail, head = *peer->cq_head;

	for (i = 0; i < peer->batch; i++) {
		peer->sqe[i] = (struct io_uring_sqe){
			.opcode = IORING_OP_READ,
			.fd = peer->fd,
			.off = (uint64_t)random_offset(peer),
			.addr = (uint64_t)(uintptr_t)bytes_of(peer, i),
			.len = (unsigned int)length,
			.user_data = i,
		};
		peer->sq_array[(tail + i) & peer->sq_mask] = (unsigned int)i;
	}
	__atomic_store_n(peer->sq_tail, tail + (unsigned int)peer->batch, __ATOMIC_RELEASE);
	if (syscall(__NR_io_uring_enter, peer->ring, peer->batch, peer->batch,
		    IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		return -errno;
	while (head != __atomic_load_n(peer->cq_tail, __ATOMIC_ACQUIRE)) {
		const struct io_uring_cqe *cqe = &peer->cqe[head++ & peer->cq_mask];

		if (cqe->res != (int)length)
			return cqe->res < 0 ? cqe->res : -ENODATA;
		widen(peer, cqe->user_data, x, y);
	}
	__atomic_store_n(peer->cq_head, head, __ATOMIC_RELEASE);
	return 0;
}

static int open_ring(struct peer_tokens *peer)
{
	struct io_uring_params params = { 0 };
	size_t queue, sqes;
	char *at;

	peer->ring = (int)syscall(__NR_io_uring_setup, peer->batch, &params);
	if (peer->ring < 0)
		return -errno;
	if (!(params.features & IORING_FEAT_SINGLE_MMAP))
		return -ENOSYS;
	queue = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
	if (queue < params.sq_off.array + params.sq_entries * sizeof(unsigned int))
		queue = params.sq_off.array + params.sq_entries * sizeof(unsigned int);
	sqes = params.sq_entries * sizeof(struct io_uring_sqe);
	at = mmap(NULL, queue, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, peer->ring,
		  IORING_OFF_SQ_RING);
	peer->sqe = mmap(NULL, sqes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
			 peer->ring, IORING_OFF_SQES);
	if (at == MAP_FAILED || (void *)peer->sqe == MAP_FAILED)
		return -errno;
	peer->queue = at;
	peer->queue_length = queue;
	peer->sqes_length = sqes;
	peer->sq_tail = (unsigned int *)(at + params.sq_off.tail);
	peer->sq_mask = *(unsigned int *)(at + params.sq_off.ring_mask);
	peer->sq_array = (unsigned int *)(at + params.sq_off.array);
	peer->cq_head = (unsigned int *)(at + params.cq_off.head);
	peer->cq_tail = (unsigned int *)(at + params.cq_off.tail);
	peer->cq_mask = *(unsigned int *)(at + params.cq_off.ring_mask);
	peer->cqe = (struct io_uring_cqe *)(at + params.cq_off.cqes);
	return 0;
}

/* block, batch, tokens and random are set. @ring: for peer_tokens_ring(), too. */
int peer_tokens_open(struct peer_tokens *peer, const char *path, bool ring)
{
	peer->ring = -1;
	peer->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (peer->fd < 0)
		return -errno;
	peer->bytes = calloc(peer->batch, (peer->block + 1) * sizeof(uint16_t));
	if (!peer->bytes)
		return -ENOMEM;
	return ring ? open_ring(peer) : 0;
}

void peer_tokens_close(struct peer_tokens *peer)
{
	free(peer->bytes);
	if (peer->queue) {
		munmap(peer->queue, peer->queue_length);
		munmap(peer->sqe, peer->sqes_length);
	}
	if (peer->ring >= 0)
		close(peer->ring);
	if (peer->fd >= 0)
		close(peer->fd);
}
