/* SPDX-License-Identifier: MIT */
/* hetmap run graph: the memory behaviour of a model's graph, by three policies side by side. */
#ifndef HETMAP_GRAPH_JOB_H
#define HETMAP_GRAPH_JOB_H

#include <hetmap/error.h>
#include <hetmap/plan.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/command.h"
#include "hetmap/checksum.h"

/* Lengths are whole cache lines, so that engines take all of each tensor in place. */
#define TENSOR_ALIGNMENT 64

struct tensor {
	char *name;
	uint64_t bytes;           /* rounded up */
	uint32_t flags;           /* HM_PLAN_INPUT | HM_PLAN_OUTPUT */
	uint32_t shape[4], n_dim; /* of float32; n_dim is 0 for other tensors */
	bool weight;
	char *home;     /* of inputs and outputs */
	char *expected; /* its last bytes, as the CPU computes them; NULL: not now */
	uint32_t last;  /* last node that uses it */
};

struct operation {
	char *name;
	uint32_t *reads, *writes; /* indices of tensors */
	uint32_t n_read, n_write;
	const struct net_op *op; /* NULL: light work only */
	uint32_t inputs[3];      /* of @op; tensors */
};

struct model {
	char *name;
	bool train;
	bool real;       /* the net is computed; else nodes do light work */
	uint32_t *sizes; /* NET_SIZES of each node */
	uint64_t terms;  /* of all sums of a net */
	float tolerance; /* of real outputs; 0: each byte is to be equal */
	struct tensor *tensor;
	struct operation *node;
	uint32_t n_tensor, n_node;
	uint64_t bytes; /* of all tensors */
	uint64_t longest;
};

struct graph_options {
	const char *file, *accel, *device, *picture, *save;
	const char *dims[8]; /* NAME=NUMBER */
	uint32_t n_dim;
	uint64_t budget; /* 0: none */
	uint64_t rounds;
	uint32_t policies; /* bits 1u << enum hm_plan_policy */
	bool train;
};

/* ---- model.c ---- */

/* Reads the JSON, or has the package of ONNX make it. An exit status. */
int model_read(const struct graph_options *options, struct model *ret_model);
/* The same, of the JSON of @file; the caller frees the model, also after a failure. */
int model_take(const char *file, const struct json_t *json, struct model *model);
void model_free(struct model *model);

/* ---- net.c: nets of convolutions, computed for real in float32 ---- */

/* A row of them is as long as an engine's alignment. */
#define NET_SIZES 16
/* Larger nets do light work: the CPU's loops are plain ones. */
#define NET_MOST_TERMS (1ull << 28)

struct net {
	struct hm_kernel **kernel; /* as net_op.number has it; NULL: the CPU computes */
};

/*
 * Takes the operation of the JSON of a node, if it is one that can be computed. Its name, tensors
 * and model.sizes are there.
 */
void net_take_node(const json_t *json, struct model *model, uint32_t node);
int net_init(struct net *net, const struct hm_accel_info *accel);
void net_free(struct net *net);
/* args: the node's reads, its one write, and the sizes of all nodes. */
int net_run(const struct net *net, const struct model *model, uint32_t node,
	    struct hm_queue *queue, const struct hm_arg *args, struct hm_fence **ret_fence);
/* From tensor.expected to tensor.expected. */
void net_compute(const struct model *model, uint32_t node);
/* The numbers that a tensor has at first. */
void net_fill(const struct tensor *tensor, uint32_t seed);
/* The first byte of an output that is not as expected, or its length. */
uint64_t net_compare(const struct tensor *tensor, float tolerance);

/* ---- work.c: what the nodes do ---- */

/*
 * A node fills each tensor that it writes with a number of its own, unless it reads that tensor,
 * too. Then each tensor that it reads is added to each that it writes, word by word, times an odd
 * number: round and round where it is longer, and by the checksums of its parts where it is much
 * longer. Where it is shorter, the words that it has changed are added to those behind them, and so
 * on. So each byte that is written depends on the bytes that are read.
 */
struct work {
	struct model *model;
	struct hm_kernel *axpy, *checksum;
	struct hm_accel_info accel;
	enum checksum kind;
	struct net net;
	struct work_node *nodes;
	/* Nodes of the run that goes on, as its thread submitted them. */
	uint32_t *submitted;
	atomic_uint n_submitted;
	uint32_t n_done; /* of these; of the caller of work_progress() */
};

struct work_node {
	struct work *work;
	uint32_t node;
	struct hm_fence *fence; /* NULL: not submitted yet, or done at once */
};

int work_init(struct work *work, struct model *model, struct hm_accel *accel);
void work_free(struct work *work);
/* The plan of the model: 0, or a negative errno. */
int work_plan(struct work *work, struct hm_plan **ret_plan);
/* Before each run, and while none goes on. */
void work_begin_run(struct work *work);
/* Bytes that one node reads and writes, and that all nodes do. */
uint64_t work_node_bytes(const struct model *model, uint32_t node);
uint64_t work_bytes(const struct work *work);
/* The bytes of nodes that were done since the last call, or since the run began. */
uint64_t work_progress(struct work *work);

/* ---- expect.c: what the CPU computes ---- */

/* The bytes that inputs have at first. */
void work_fill(const struct model *model);
/* Computes tensor.expected of all outputs; an exit status. */
int work_expect(const struct work *work);

/* ---- job.c ---- */

int graph_run(const struct graph_options *options);
/* Each byte of the outputs is to be as expected. An exit status. */
int graph_compare(const struct model *model, const char *policy);
/* Writes a picture of the schedule. An exit status. */
int graph_draw(struct hm_schedule *schedule, const char *file);

/* ---- plan_try.c ---- */

/* hetmap plan; an exit status. */
int plan_part_main(int argc, char **argv);

#endif
