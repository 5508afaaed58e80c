/* SPDX-License-Identifier: MIT */
/*
 * An RDMA device that is none: linked in place of libibverbs, it copies between processes by
 * /proc/PID/mem. Each connection ends its work in order, at once.
 */
#ifndef HETMAP_TESTS_CLUSTER_FAKE_VERBS_H
#define HETMAP_TESTS_CLUSTER_FAKE_VERBS_H

#include <stdbool.h>
#include <stdint.h>

struct fake_verbs {
	/* Properties of the device. */
	bool missing;         /* no device */
	bool without_atomics; /* the device has no atomic operations */
	int refuses_memory;   /* errno of registering memory; 0: takes it */
	int refuses_dmabuf;   /* errno of registering a dma-buf; 0: takes it */
	uint64_t fail_after;  /* operation that ends with an error, from 1; 0: none does */
	/* Counts of its use. */
	uint64_t reads, writes, changes;
	uint32_t dmabufs; /* registered */
	uint32_t open; /* contexts, domains, queues, connections, memory that are not closed */
};

extern struct fake_verbs fake_verbs;

#endif
