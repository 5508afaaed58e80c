// SPDX-License-Identifier: MIT
/* The work of a graph's nodes, on an accelerator and on the CPU. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "graph_job.h"

/* A launch is far from an engine's limit of time. */
#define LAUNCH_BYTES (4ull << 20)
/* From so many times the length on, a tensor is read by checksums. */
#define MUCH_LONGER 4

static uint32_t mix(uint32_t a, uint32_t b)
{
	uint32_t h = a * 2654435761u ^ (b + 1) * 2246822519u;

	h ^= h >> 15;
	h *= 3266489917u;
	return h ^ h >> 13;
}

/* Of node @node, for its k-th pair of a written and a read tensor; odd. */
static uint32_t factor(uint32_t node, uint32_t k)
{
	return mix(node, k + 100) | 1;
}

static bool reads(const struct operation *node, uint32_t tensor)
{
	uint32_t i;

	for (i = 0; i < node->n_read; i++)
		if (node->reads[i] == tensor)
			return true;
	return false;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Calls @add for each piece of @from (or of its repetition) that is added to a piece of @to. */
static int each_piece(uint64_t to, uint64_t from,
		      int (*add)(void *user, uint64_t to, uint64_t from, uint64_t length),
		      void *user)
{
	uint64_t at, piece, longest = to > from ? to : from;
	int r = 0;

	for (at = 0; !r && at < longest; at += piece) {
		piece = smaller(smaller(to - at % to, from - at % from), longest - at);
		piece = smaller(piece, LAUNCH_BYTES);
		r = add(user, at % to, at % from, piece);
	}
	return r;
}

static bool by_checksum(uint64_t to, uint64_t from)
{
	return from / MUCH_LONGER > to;
}

static uint64_t digest_bytes(uint64_t length)
{
	return checksum_parts(length) * CHECKSUM_STRIDE * sizeof(uint32_t);
}

/* ---- on an accelerator ---- */

struct submission {
	const struct work *work;
	struct hm_queue *queue;
	char *to;
	const char *from;
	uint32_t factor;
	struct hm_fence *last;
};

static int launched(struct submission *s, int r, struct hm_fence *fence)
{
	if (r)
		return r;
	hm_fence_unref(s->last);
	s->last = fence;
	return 0;
}

static int add_piece(void *user, uint64_t to, uint64_t from, uint64_t length)
{
	struct submission *s = user;
	struct hm_fence *fence = NULL;
	int r = hm_launch(s->queue, s->work->axpy, length / sizeof(uint32_t), &fence,
			  HM_RANGE(s->to + to, length, HM_READ | HM_WRITE),
			  HM_RANGE(s->from + from, length, HM_READ), HM_U32(s->factor));

	return launched(s, r, fence);
}

static int digest(struct submission *s, const struct hm_arg *from, const struct hm_arg *to)
{
	uint64_t at, piece, parts;
	uint32_t *sums = (uint32_t *)(uintptr_t)to->pointer;
	int r = hm_queue_fill(s->queue, sums, 0, digest_bytes(from->length), NULL);

	for (at = 0; !r && at < from->length; at += piece) {
		struct hm_fence *fence = NULL;

		piece = checksum_launch_most(&s->work->accel,
					     smaller(from->length - at, LAUNCH_BYTES));
		parts = checksum_parts(piece);
		r = hm_launch(s->queue, s->work->checksum, parts, &fence,
			      HM_RANGE((const char *)from->pointer + at, piece, HM_READ),
			      HM_U64(piece),
			      HM_RANGE(sums + at / CHECKSUM_PART * CHECKSUM_STRIDE,
				       parts * CHECKSUM_STRIDE * sizeof(*sums), HM_WRITE));
		r = launched(s, r, fence);
	}
	return r;
}

/* args: the node's reads, its writes that it does not read, and the digest. */
static int run_node(struct hm_queue *queue, const struct hm_arg *args, uint32_t n_arg,
		    void *user, struct hm_fence **ret_fence)
{
	const struct work_node *own = user;
	const struct operation *node = &own->work->model->node[own->node];
	struct submission s = { .work = own->work, .queue = queue };
	uint32_t next = node->n_read, i, k, pair = 0;
	int r = 0;

	if (own->work->model->real)
		return net_run(&own->work->net, own->work->model, own->node, queue, args,
			       ret_fence);
	for (i = 0; !r && i < node->n_write; i++) {
		const struct hm_arg *to = NULL;

		for (k = 0; k < node->n_read; k++)
			if (node->reads[k] == node->writes[i])
				to = &args[k];
		if (!to) {
			struct hm_fence *fence = NULL;

			to = &args[next++];
			r = hm_queue_fill(queue, (void *)(uintptr_t)to->pointer,
					  mix(own->node, i), to->length, &fence);
			r = launched(&s, r, fence);
		}
		for (k = 0; !r && k < node->n_read; k++) {
			const struct hm_arg *from = &args[k];
			uint64_t length = from->length;

			if (from == to)
				continue;
			s.factor = factor(own->node, pair++);
			s.to = (char *)(uintptr_t)to->pointer;
			s.from = from->pointer;
			if (by_checksum(to->length, length)) {
				r = digest(&s, from, &args[n_arg - 1]);
				s.from = args[n_arg - 1].pointer;
				length = digest_bytes(length);
			}
			r = r ?: each_piece(to->length, length, add_piece, &s);
		}
	}
	if (r)
		hm_fence_unref(s.last);
	else
		*ret_fence = s.last;
	return r;
}

/* ---- the plan ---- */

static int add_tensors(const struct work *work, struct hm_plan *plan)
{
	struct hm_plan_range_desc desc = { .struct_size = sizeof(desc) };
	uint32_t number, i;
	int r = 0;

	for (i = 0; !r && i < work->model->n_tensor; i++) {
		const struct tensor *tensor = &work->model->tensor[i];

		desc.name = tensor->name;
		desc.flags = tensor->flags;
		desc.home = tensor->home;
		desc.length = tensor->bytes;
		r = hm_plan_range(plan, &desc, &number);
	}
	if (r)
		return r;
	desc = (struct hm_plan_range_desc){
		.struct_size = sizeof(desc),
		.name = "checksums of parts",
		.length = digest_bytes(work->model->longest),
	};
	if (work->model->real) {
		desc.name = "sizes of operations";
		desc.flags = HM_PLAN_INPUT;
		desc.home = work->model->sizes;
		desc.length = NET_SIZES * sizeof(uint32_t) * work->model->n_node;
	}
	return hm_plan_range(plan, &desc, &number);
}

static int add_node(const struct work *work, uint32_t i, struct hm_plan *plan)
{
	const struct operation *node = &work->model->node[i];
	struct hm_plan_arg args[HM_KERNEL_MAX_ARGS];
	struct hm_plan_node_desc desc = {
		.struct_size = sizeof(desc),
		.name = node->name,
		.call = run_node,
		.user = &work->nodes[i],
		.args = args,
	};
	bool digests = false;
	uint32_t k, w;

	if (node->n_read + node->n_write + 1 > HM_KERNEL_MAX_ARGS)
		return hm_error_set(-E2BIG, "node %s has %u tensors: %u are the most",
				    node->name, node->n_read + node->n_write,
				    HM_KERNEL_MAX_ARGS - 1);
	for (k = 0; k < node->n_read; k++)
		args[desc.n_arg++] = HM_PLAN_IN(node->reads[k] + 1);
	for (w = 0; w < node->n_write; w++) {
		for (k = 0; k < node->n_read; k++) {
			digests |= by_checksum(work->model->tensor[node->writes[w]].bytes,
					       work->model->tensor[node->reads[k]].bytes);
			if (node->reads[k] == node->writes[w])
				args[k].access |= HM_WRITE;
		}
		if (!reads(node, node->writes[w]))
			args[desc.n_arg++] = HM_PLAN_OUT(node->writes[w] + 1);
	}
	if (work->model->real)
		args[desc.n_arg++] = HM_PLAN_IN(work->model->n_tensor + 1);
	else if (digests)
		args[desc.n_arg++] = HM_PLAN_OUT(work->model->n_tensor + 1);
	return hm_plan_node(plan, &desc, NULL);
}

int work_plan(struct work *work, struct hm_plan **ret_plan)
{
	struct hm_plan *plan;
	uint32_t i;
	int r = hm_plan_create(0, &plan);

	if (r)
		return r;
	r = add_tensors(work, plan);
	for (i = 0; !r && i < work->model->n_node; i++)
		r = add_node(work, i, plan);
	if (r)
		hm_plan_unref(plan);
	else
		*ret_plan = plan;
	return r;
}

/* ---- on the CPU ---- */

struct sum {
	uint32_t *to;
	const uint32_t *from;
	uint32_t factor;
};

static int add_on_cpu(void *user, uint64_t to, uint64_t from, uint64_t length)
{
	const struct sum *s = user;
	uint32_t *out = s->to + to / sizeof(*out);
	const uint32_t *in = s->from + from / sizeof(*in);
	uint64_t i;

	for (i = 0; i < length / sizeof(*out); i++)
		out[i] += s->factor * in[i];
	return 0;
}

static int digest_on_cpu(const struct work *work, const char *bytes, uint64_t length,
			 uint32_t *sums)
{
	uint64_t at;

	memset(sums, 0, digest_bytes(length));
	for (at = 0; at < length; at += CHECKSUM_PART)
		sums[at / CHECKSUM_PART * CHECKSUM_STRIDE] =
			checksum_compute(work->kind, (const unsigned char *)bytes + at,
					 smaller(length - at, CHECKSUM_PART));
	return 0;
}

static int compute(const struct work *work, uint32_t i, uint32_t *sums)
{
	const struct operation *node = &work->model->node[i];
	uint32_t w, k, pair = 0;
	uint64_t u;

	for (w = 0; w < node->n_write; w++) {
		struct tensor *to = &work->model->tensor[node->writes[w]];
		uint32_t *words;

		if (!to->expected)
			to->expected = malloc(to->bytes);
		if (!to->expected)
			return -ENOMEM;
		if (work->model->real) {
			net_compute(work->model, i);
			continue;
		}
		words = (uint32_t *)to->expected;
		if (!reads(node, node->writes[w]))
			for (u = 0; u < to->bytes / sizeof(*words); u++)
				words[u] = mix(i, w);
		for (k = 0; k < node->n_read; k++) {
			const struct tensor *from = &work->model->tensor[node->reads[k]];
			struct sum sum = { words, (const uint32_t *)from->expected, 0 };
			uint64_t length = from->bytes;

			if (from == to)
				continue;
			sum.factor = factor(i, pair++);
			if (by_checksum(to->bytes, length)) {
				digest_on_cpu(work, from->expected, length, sums);
				sum.from = sums;
				length = digest_bytes(length);
			}
			each_piece(to->bytes, length, add_on_cpu, &sum);
		}
	}
	return 0;
}

/* Tensors that no later node reads have no bytes any more, except outputs. */
static void forget(struct model *model, uint32_t tensor, uint32_t node)
{
	struct tensor *t = &model->tensor[tensor];

	if (t->last != node || t->flags & HM_PLAN_OUTPUT)
		return;
	free(t->expected);
	t->expected = NULL;
}

int work_expect(const struct work *work)
{
	struct model *model = work->model;
	uint32_t *sums = malloc(digest_bytes(model->longest));
	uint32_t i, k;
	int r = sums ? 0 : -ENOMEM;

	for (i = 0; !r && i < model->n_tensor; i++) {
		struct tensor *t = &model->tensor[i];

		if (!(t->flags & HM_PLAN_INPUT))
			continue;
		t->expected = malloc(t->bytes);
		if (!t->expected)
			r = -ENOMEM;
		else
			memcpy(t->expected, t->home, t->bytes);
	}
	progress_begin("computing on the CPU", model->n_node);
	for (i = 0; !r && i < model->n_node; i++) {
		const struct operation *node = &model->node[i];

		r = compute(work, i, sums);
		for (k = 0; k < node->n_read; k++)
			forget(model, node->reads[k], i);
		for (k = 0; k < node->n_write; k++)
			forget(model, node->writes[k], i);
		progress_add(1);
		if (signals_pending())
			break;
	}
	progress_end();
	free(sums);
	if (signals_pending())
		return 128 + signals_pending();
	return r ? fail(STATUS_ENVIRONMENT, r, "take a smaller --dim",
			"no memory to compute the expected bytes") :
		   0;
}

void work_fill(const struct model *model)
{
	uint32_t i;
	uint64_t u;

	for (i = 0; i < model->n_tensor; i++) {
		const struct tensor *t = &model->tensor[i];
		uint32_t *words = (uint32_t *)t->home, state = mix(i, 7);

		if (!words)
			continue;
		if (model->real) {
			net_fill(t, state);
			continue;
		}
		for (u = 0; u < t->bytes / sizeof(*words); u++) {
			state = state * 1664525u + 1013904223u;
			words[u] = t->flags & HM_PLAN_INPUT ? state : 0;
		}
	}
}

/* ---- kernels ---- */

static int axpy_cpu(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	uint32_t *y = (uint32_t *)(uintptr_t)args[0].pointer, a = args[2].u32;
	const uint32_t *x = args[1].pointer;
	uint64_t i;

	for (i = range->begin[0]; i < range->end[0]; i++)
		y[i] += a * x[i];
	return 0;
}

static const struct hm_engine_step axpy_step = { HM_ENGINE_AXPY, 0, 1, HM_ENGINE_NONE,
						 HM_ENGINE_NONE, 2, 0 };

static const struct hm_kernel_desc axpy_desc = {
	.struct_size = sizeof(axpy_desc),
	.name = "axpy",
	.opencl = "kernel void axpy(global uint *y, global const uint *x, uint a)\n"
		  "{ size_t i = get_global_id(0); y[i] += a * x[i]; }\n",
	.cpu = axpy_cpu,
	.signature = "inout in u32",
	.engine = &axpy_step,
	.n_engine = 1,
};

int work_init(struct work *work, struct model *model, struct hm_accel *accel)
{
	uint32_t i;
	int r;

	*work = (struct work){ .model = model, .accel.struct_size = sizeof(work->accel) };
	work->nodes = calloc(model->n_node, sizeof(*work->nodes));
	if (!work->nodes)
		return hm_error_set(-ENOMEM, "no memory for %u nodes", model->n_node);
	for (i = 0; i < model->n_node; i++)
		work->nodes[i] = (struct work_node){ work, i };
	r = hm_accel_query(accel, &work->accel);
	if (r)
		return r;
	work->kind = checksum_of(&work->accel);
	if (model->real) {
		/* A compiler of OpenCL may round otherwise. */
		model->tolerance = strstr(work->accel.forms, "opencl") ? 1e-4f : 0.0f;
		return net_init(&work->net, &work->accel);
	}
	r = hm_kernel_create(&axpy_desc, &work->axpy);
	return r ?: checksum_kernel_create(&work->checksum);
}

void work_free(struct work *work)
{
	net_free(&work->net);
	hm_kernel_unref(work->axpy);
	hm_kernel_unref(work->checksum);
	free(work->nodes);
}
