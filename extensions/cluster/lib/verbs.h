/* SPDX-License-Identifier: MIT */
/* Arrays: what verbs.c and verbs_open.c share. */
#ifndef HETMAP_CLUSTER_VERBS_H
#define HETMAP_CLUSTER_VERBS_H

#include <infiniband/verbs.h>

#include "cluster.h"

/* Copies under way, and the bytes of each: what a caller hands over is seldom registered. */
#define SLOTS 32
#define SLOT_BYTES (128u << 10)
#define SLOTS_BYTES (SLOTS * SLOT_BYTES)

/* The memory and the device of a rank, as all other ranks know them. */
struct exposure {
	uint64_t address;
	uint32_t rkey;
	uint32_t ready;   /* the memory is registered */
	uint32_t atomics; /* its device changes 8 bytes as a whole */
	uint32_t reads;   /* reads and changes that it serves at once, on a connection */
	uint32_t mtu;     /* enum ibv_mtu */
	uint32_t lid;
	uint32_t global; /* it is found by its GID */
	union ibv_gid gid;
};

/* One end of a connection, as the rank at its other end knows it. */
struct ends {
	uint32_t number;
	uint32_t first; /* packet's number */
};

struct peer {
	struct ibv_qp *qp;
	struct ends here;
	struct exposure exposure;
	bool written; /* since the last flush */
};

/* A copy that is under way. */
struct slot {
	bool busy;
	uint32_t rank;
	uint32_t bytes;
	void *to; /* a get: where the bytes go when they are there; NULL: they need not */
};

/* All of it is the array's lock's. */
struct verbs {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *memory; /* of the node; NULL: it can't be registered */
	struct ibv_mr *buffer; /* of the slots */
	unsigned char *bytes;  /* likewise */
	struct slot slots[SLOTS];
	uint32_t busy;
	struct peer *peers;
	bool atomics; /* all ranks have them */
	uint8_t port;
	int gid_index;
	int failed; /* a copy failed, and all others will */
	char text[300];
};

/* Collective. @base: what other ranks reach. */
int verbs_open(struct hm_array *array, void *base, uint64_t bytes);
void verbs_close(struct hm_array *array);

#endif
