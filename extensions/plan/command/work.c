// SPDX-License-Identifier: MIT
/* The work of a graph's nodes, on an accelerator and on the CPU. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "light.h"

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

static int add_piece(void *user, bool own, uint64_t to, uint64_t from, uint64_t length)
{
	struct submission *s = user;
	struct hm_fence *fence = NULL;
	int r = hm_launch(s->queue, s->work->axpy, length / sizeof(uint32_t), &fence,
			  HM_RANGE(s->to + to, length, HM_READ | HM_WRITE),
			  HM_RANGE((own ? s->to : s->from) + from, length, HM_READ),
			  HM_U32(s->factor));

	return launched(s, r, fence);
}

static int digest(struct submission *s, const struct hm_arg *from, const struct hm_arg *to)
{
	uint64_t at, piece, parts;
	uint32_t *sums = (uint32_t *)(uintptr_t)to->pointer;
	int r = hm_queue_fill(s->queue, sums, 0, light_digest_bytes(from->length), NULL);

	for (at = 0; !r && at < from->length; at += piece) {
		struct hm_fence *fence = NULL;

		piece = checksum_launch_most(
			&s->work->accel, light_smaller(from->length - at, LIGHT_LAUNCH_BYTES));
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

/* The arguments of the node's writes; those that it does not read are filled. */
static int begin_writes(struct submission *s, const struct work_node *own,
			const struct hm_arg *args, const struct hm_arg **ret_to)
{
	const struct operation *node = &own->work->model->node[own->node];
	uint32_t next = node->n_read, i, k;
	int r = 0;

	for (i = 0; !r && i < node->n_write; i++) {
		struct hm_fence *fence = NULL;

		ret_to[i] = NULL;
		for (k = 0; k < node->n_read; k++)
			if (node->reads[k] == node->writes[i])
				ret_to[i] = &args[k];
		if (ret_to[i])
			continue;
		ret_to[i] = &args[next++];
		r = hm_queue_fill(s->queue, (void *)(uintptr_t)ret_to[i]->pointer,
				  light_mix(own->node, i), ret_to[i]->length, &fence);
		r = launched(s, r, fence);
	}
	return r;
}

/* Adds the tensor @from to each one that the node writes. @sums: room for its digest. */
static int add_to_all(struct submission *s, const struct work_node *own,
		      const struct hm_arg *from, const struct hm_arg **to,
		      const struct hm_arg *sums, uint32_t *pair)
{
	const struct operation *node = &own->work->model->node[own->node];
	bool digested = false;
	uint32_t i;
	int r = 0;

	for (i = 0; !r && i < node->n_write; i++) {
		uint64_t length = from->length;

		if (to[i] == from)
			continue;
		s->factor = light_factor(own->node, (*pair)++);
		s->to = (char *)(uintptr_t)to[i]->pointer;
		s->from = from->pointer;
		if (light_by_checksum(to[i]->length, length)) {
			if (!digested)
				r = digest(s, from, sums);
			digested = true;
			s->from = sums->pointer;
			length = light_digest_bytes(length);
		}
		r = r ?: light_pieces(to[i]->length, length, add_piece, s);
	}
	return r;
}

/* args: the node's reads, its writes that it does not read, and the digest. */
static int submit_light(struct hm_queue *queue, const struct hm_arg *args, uint32_t n_arg,
			const struct work_node *own, struct hm_fence **ret_fence)
{
	const struct operation *node = &own->work->model->node[own->node];
	struct submission s = { .work = own->work, .queue = queue };
	const struct hm_arg *to[HM_KERNEL_MAX_ARGS];
	uint32_t k, pair = 0;
	int r = begin_writes(&s, own, args, to);

	for (k = 0; !r && k < node->n_read; k++)
		r = add_to_all(&s, own, &args[k], to, &args[n_arg - 1], &pair);
	if (r)
		hm_fence_unref(s.last);
	else
		*ret_fence = s.last;
	return r;
}

static int run_node(struct hm_queue *queue, const struct hm_arg *args, uint32_t n_arg,
		    void *user, struct hm_fence **ret_fence)
{
	struct work_node *own = user;
	struct work *work = own->work;
	struct hm_fence *fence = NULL;
	int r;

	if (work->model->real)
		r = net_run(&work->net, work->model, own->node, queue, args, &fence);
	else
		r = submit_light(queue, args, n_arg, own, &fence);
	if (r)
		return r;
	own->fence = hm_fence_ref(fence);
	work->submitted[atomic_load(&work->n_submitted)] = own->node;
	atomic_fetch_add(&work->n_submitted, 1);
	*ret_fence = fence;
	return 0;
}

void work_begin_run(struct work *work)
{
	uint32_t i;

	for (i = 0; i < work->model->n_node; i++) {
		hm_fence_unref(work->nodes[i].fence);
		work->nodes[i].fence = NULL;
	}
	atomic_store(&work->n_submitted, 0);
	work->n_done = 0;
}

uint64_t work_node_bytes(const struct model *model, uint32_t node)
{
	const struct operation *o = &model->node[node];
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < o->n_read; i++)
		bytes += model->tensor[o->reads[i]].bytes;
	for (i = 0; i < o->n_write; i++)
		bytes += model->tensor[o->writes[i]].bytes;
	return bytes;
}

uint64_t work_bytes(const struct work *work)
{
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < work->model->n_node; i++)
		bytes += work_node_bytes(work->model, i);
	return bytes;
}

uint64_t work_progress(struct work *work)
{
	uint64_t bytes = 0;

	for (; work->n_done < atomic_load(&work->n_submitted); work->n_done++) {
		struct hm_fence_info info = { .struct_size = sizeof(info) };
		uint32_t node = work->submitted[work->n_done];
		struct hm_fence *fence = work->nodes[node].fence;

		if (fence && (hm_fence_query(fence, &info) || !info.done))
			break;
		bytes += work_node_bytes(work->model, node);
	}
	return bytes;
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
		.length = light_digest_bytes(work->model->longest),
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
			digests |= light_by_checksum(work->model->tensor[node->writes[w]].bytes,
						     work->model->tensor[node->reads[k]].bytes);
			if (node->reads[k] == node->writes[w])
				args[k].access |= HM_WRITE;
		}
		if (!light_reads(node, node->writes[w]))
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
	work->submitted = calloc(model->n_node, sizeof(*work->submitted));
	if (!work->nodes || !work->submitted)
		return hm_error_set(-ENOMEM, "no memory for %u nodes", model->n_node);
	for (i = 0; i < model->n_node; i++)
		work->nodes[i] = (struct work_node){ .work = work, .node = i };
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
	if (work->nodes)
		work_begin_run(work);
	net_free(&work->net);
	hm_kernel_unref(work->axpy);
	hm_kernel_unref(work->checksum);
	free(work->submitted);
	free(work->nodes);
}
