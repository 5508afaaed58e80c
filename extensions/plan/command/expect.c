// SPDX-License-Identifier: MIT
/* The bytes that a graph begins with, and those that it ends with, as the CPU computes them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "light.h"

struct sum {
	uint32_t *to;
	const uint32_t *from;
	uint32_t factor;
};

static int add_on_cpu(void *user, bool own, uint64_t to, uint64_t from, uint64_t length)
{
	const struct sum *s = user;
	uint32_t *out = s->to + to / sizeof(*out);
	const uint32_t *in = (own ? s->to : s->from) + from / sizeof(*in);
	uint64_t i;

	for (i = 0; i < length / sizeof(*out); i++)
		out[i] += s->factor * in[i];
	return 0;
}

static void digest_on_cpu(const struct work *work, const char *bytes, uint64_t length,
			  uint32_t *sums)
{
	uint64_t at;

	memset(sums, 0, light_digest_bytes(length));
	for (at = 0; at < length; at += CHECKSUM_PART)
		sums[at / CHECKSUM_PART * CHECKSUM_STRIDE] =
			checksum_compute(work->kind, (const unsigned char *)bytes + at,
					 light_smaller(length - at, CHECKSUM_PART));
}

/* As begin_writes() and add_to_all(). */
static void compute_light(const struct work *work, uint32_t i, uint32_t *sums)
{
	struct model *model = work->model;
	const struct operation *node = &model->node[i];
	uint32_t w, k, pair = 0;
	uint64_t u;

	for (w = 0; w < node->n_write; w++) {
		struct tensor *to = &model->tensor[node->writes[w]];
		uint32_t *words = (uint32_t *)to->expected, value = light_mix(i, w);

		for (u = 0;
		     !light_reads(node, node->writes[w]) && u < to->bytes / sizeof(*words); u++)
			words[u] = value;
	}
	for (k = 0; k < node->n_read; k++) {
		const struct tensor *from = &model->tensor[node->reads[k]];
		bool digested = false;

		for (w = 0; w < node->n_write; w++) {
			struct tensor *to = &model->tensor[node->writes[w]];
			struct sum sum = { (uint32_t *)to->expected,
					   (const uint32_t *)from->expected, 0 };
			uint64_t length = from->bytes;

			if (from == to)
				continue;
			sum.factor = light_factor(i, pair++);
			if (light_by_checksum(to->bytes, length)) {
				if (!digested)
					digest_on_cpu(work, from->expected, length, sums);
				digested = true;
				sum.from = sums;
				length = light_digest_bytes(length);
			}
			light_pieces(to->bytes, length, add_on_cpu, &sum);
		}
	}
}

static int compute(const struct work *work, uint32_t i, uint32_t *sums)
{
	const struct operation *node = &work->model->node[i];
	uint32_t w;

	for (w = 0; w < node->n_write; w++) {
		struct tensor *to = &work->model->tensor[node->writes[w]];

		if (!to->expected)
			to->expected = malloc(to->bytes);
		if (!to->expected)
			return -ENOMEM;
	}
	if (work->model->real)
		net_compute(work->model, i);
	else
		compute_light(work, i, sums);
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
	uint32_t *sums = malloc(light_digest_bytes(model->longest));
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
	progress_begin("computing on the CPU", work_bytes(work));
	for (i = 0; !r && i < model->n_node; i++) {
		const struct operation *node = &model->node[i];

		r = compute(work, i, sums);
		for (k = 0; k < node->n_read; k++)
			forget(model, node->reads[k], i);
		for (k = 0; k < node->n_write; k++)
			forget(model, node->writes[k], i);
		progress_add(work_node_bytes(model, i));
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
		uint32_t *words = (uint32_t *)t->home, state = light_mix(i, 7);

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
