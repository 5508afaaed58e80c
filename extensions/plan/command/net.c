// SPDX-License-Identifier: MIT
/* Nets of convolutions, computed for real: float32, tensors of up to four dimensions, NCHW. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "common/text.h"
#include "graph_job.h"

/* ---- the operations: one number of the output each ---- */

/* The text is C, and OpenCL C. */
#define BOTH(...)   \
	__VA_ARGS__ \
	static const char opencl_text[] = #__VA_ARGS__ "\n";
#define global

/*
 * Sizes of windows: 0 channels, height, width of the input; 3 of the output; 6 height and width of
 * the window, 8 steps, 10 padding above and left, 12 dilations, 14 groups, 15 bias, or padding
 * that counts. Others: gemm has columns, the length of a sum, transposed B, bias.
 */
BOTH(
	static float conv_at(global const uint *p, global const float *x, global const float *w,
			     global const float *b, uint i) {
		uint ox = i % p[5], oy = i / p[5] % p[4], oc = i / (p[5] * p[4]) % p[3];
		uint n = i / (p[5] * p[4] * p[3]), in = p[0] / p[14],
		     first = oc / (p[3] / p[14]) * in;
		float sum = p[15] ? b[oc] : 0.0f;

		for (uint c = 0; c < in; c++) {
			global const float *plane = x + (n * p[0] + first + c) * p[1] * p[2];
			global const float *part = w + (oc * in + c) * p[6] * p[7];

			for (uint k = 0; k < p[6] * p[7]; k++) {
				uint y = oy * p[8] + k / p[7] * p[12] - p[10];
				uint z = ox * p[9] + k % p[7] * p[13] - p[11];

				if (y < p[1] && z < p[2])
					sum += plane[y * p[2] + z] * part[k];
			}
		}
		return sum;
	}

	static float pool_at(global const uint *p, global const float *x, uint i,
			     uint largest) {
		uint ox = i % p[5], oy = i / p[5] % p[4], plane = i / (p[5] * p[4]), count = 0;
		float sum = 0.0f, most = 0.0f;

		for (uint k = 0; k < p[6] * p[7]; k++) {
			uint y = oy * p[8] + k / p[7] * p[12] - p[10];
			uint z = ox * p[9] + k % p[7] * p[13] - p[11];
			float v;

			if (y >= p[1] || z >= p[2])
				continue;
			v = x[(plane * p[1] + y) * p[2] + z];
			most = count && most > v ? most : v;
			sum += v;
			count++;
		}
		return largest ? most : sum / (float)(p[15] ? p[6] * p[7] : count);
	}

	static float gemm_at(global const uint *p, global const float *x, global const float *w,
			     global const float *b, uint i) {
		uint column = i % p[0], row = i / p[0];
		float sum = p[3] ? b[column] : 0.0f;

		for (uint k = 0; k < p[1]; k++)
			sum += x[row * p[1] + k] *
			       (p[2] ? w[column * p[1] + k] : w[k * p[0] + column]);
		return sum;
	}

	static float softmax_at(global const uint *p, global const float *x, uint i) {
		uint row = i / p[0] * p[0];
		float most = x[row], sum = 0.0f;

		for (uint k = 1; k < p[0]; k++)
			most = x[row + k] > most ? x[row + k] : most;
		for (uint k = 0; k < p[0]; k++)
			sum += (float)exp(x[row + k] - most);
		return (float)exp(x[i] - most) / sum;
	})

/* One number of the output, as C for cpu and as text for OpenCL. args: y, p, x, w, b */
#define NUMBER(name, number)                                                               \
	static const char name##_number[] = #number;                                       \
	static int name##_cpu(const struct hm_cpu_range *range, const struct hm_arg *args) \
	{                                                                                  \
		float *y = (float *)(uintptr_t)args[0].pointer;                            \
		const uint *p = args[1].pointer;                                           \
		const float *x = args[2].pointer, *w = args[3].pointer;                    \
		const float *b = args[4].pointer;                                          \
		uint i;                                                                    \
                                                                                           \
		(void)p, (void)w, (void)b;                                                 \
		for (i = (uint)range->begin[0]; i < range->end[0]; i++)                    \
			y[i] = number;                                                     \
		return 0;                                                                  \
	}

NUMBER(conv, conv_at(p, x, w, b, i))
NUMBER(maxpool, pool_at(p, x, i, 1))
NUMBER(meanpool, pool_at(p, x, i, 0))
NUMBER(gemm, gemm_at(p, x, w, b, i))
NUMBER(softmax, softmax_at(p, x, i))
NUMBER(relu, x[i] > 0.0f ? x[i] : 0.0f)
NUMBER(add, x[i] + w[i])
NUMBER(same, x[i])

/* ---- which operations of ONNX they are ---- */

struct shapes {
	const struct tensor *x, *w, *b, *y; /* w and b may be NULL */
	const json_t *attributes;
};

struct net_op {
	const char *type; /* ONNX */
	const char *name, *number;
	hm_cpu_function *cpu;
	/* Fills the row of sizes; false: this form of the operation is not here. */
	bool (*take)(const struct shapes *s, uint32_t *p);
	uint32_t n_input; /* at least */
};

static int64_t attribute(const struct shapes *s, const char *name, size_t at, int64_t otherwise)
{
	const json_t *value = json_object_get(s->attributes, name);

	if (json_is_array(value))
		value = json_array_get(value, at);
	return json_is_number(value) ? (int64_t)json_number_value(value) : otherwise;
}

static bool is_one(const struct shapes *s, const char *name)
{
	const json_t *value = json_object_get(s->attributes, name);

	return !value || json_number_value(value) == 1.0;
}

static uint64_t count(const struct tensor *t)
{
	uint64_t n = 1;
	uint32_t i;

	for (i = 0; i < t->n_dim; i++)
		n *= t->shape[i];
	return n;
}

/* @p has the lengths of the window. */
static bool take_window(const struct shapes *s, uint32_t *p)
{
	const char *pad = json_string_value(json_object_get(s->attributes, "auto_pad"));
	int64_t whole, last;
	uint32_t i;

	if (s->x->n_dim != 4 || s->y->n_dim != 4 || s->x->shape[0] != s->y->shape[0] ||
	    (pad && strcmp(pad, "NOTSET") != 0 && strcmp(pad, "VALID") != 0))
		return false;
	memcpy(p, s->x->shape + 1, 3 * sizeof(*p));
	memcpy(p + 3, s->y->shape + 1, 3 * sizeof(*p));
	p[14] = 1;
	for (i = 0; i < 2; i++) {
		int64_t step = attribute(s, "strides", i, 1);
		int64_t dilation = attribute(s, "dilations", i, 1);
		int64_t before = attribute(s, "pads", i, 0);
		int64_t after = attribute(s, "pads", i + 2, 0);

		if (step < 1 || dilation < 1 || before < 0 || after < 0 || !p[6 + i] ||
		    (step | dilation | before | after) > INT16_MAX)
			return false;
		/* A window that is cut off at the end is not here. */
		whole = (int64_t)p[1 + i] + before + after;
		last = (int64_t)(p[6 + i] - 1) * dilation;
		if (whole <= last || before > last || after > last ||
		    (whole - last - 1) / step + 1 != p[4 + i])
			return false;
		p[8 + i] = (uint32_t)step;
		p[10 + i] = (uint32_t)before;
		p[12 + i] = (uint32_t)dilation;
	}
	return true;
}

static bool take_conv(const struct shapes *s, uint32_t *p)
{
	int64_t groups = attribute(s, "group", 0, 1);

	if (s->w->n_dim != 4)
		return false;
	p[6] = s->w->shape[2];
	p[7] = s->w->shape[3];
	if (!take_window(s, p) || groups < 1 || groups > p[0] || p[0] % groups ||
	    p[3] % groups || s->w->shape[0] != p[3] || s->w->shape[1] != p[0] / groups ||
	    (s->b && count(s->b) != p[3]))
		return false;
	p[14] = (uint32_t)groups;
	p[15] = s->b != NULL;
	return true;
}

static bool take_pool(const struct shapes *s, uint32_t *p)
{
	int64_t height = attribute(s, "kernel_shape", 0, 0);
	int64_t width = attribute(s, "kernel_shape", 1, 0);

	if (height < 1 || width < 1 || (height | width) > INT16_MAX)
		return false;
	p[6] = (uint32_t)height;
	p[7] = (uint32_t)width;
	p[15] = attribute(s, "count_include_pad", 0, 0) != 0;
	return take_window(s, p) && p[0] == p[3];
}

static bool take_global(const struct shapes *s, uint32_t *p)
{
	p[6] = s->x->shape[2];
	p[7] = s->x->shape[3];
	return take_window(s, p) && p[0] == p[3];
}

static bool take_gemm(const struct shapes *s, uint32_t *p)
{
	if (s->x->n_dim != 2 || s->w->n_dim != 2 || s->y->n_dim != 2 ||
	    attribute(s, "transA", 0, 0) || !is_one(s, "alpha") || !is_one(s, "beta"))
		return false;
	p[0] = s->y->shape[1];
	p[1] = s->x->shape[1];
	p[2] = attribute(s, "transB", 0, 0) != 0;
	p[3] = s->b != NULL;
	return s->x->shape[0] == s->y->shape[0] && s->w->shape[p[2] ? 0 : 1] == p[0] &&
	       s->w->shape[p[2] ? 1 : 0] == p[1] &&
	       (!s->b || (count(s->b) == p[0] && s->b->shape[s->b->n_dim - 1] == p[0]));
}

/* Over the last dimension: there all versions of ONNX agree. */
static bool take_softmax(const struct shapes *s, uint32_t *p)
{
	int64_t axis = attribute(s, "axis", 0, s->x->n_dim == 2 ? 1 : -2);

	p[0] = s->x->shape[s->x->n_dim - 1];
	return (axis == -1 || axis == (int64_t)s->x->n_dim - 1) && count(s->x) == count(s->y);
}

static bool take_same(const struct shapes *s, uint32_t *p)
{
	(void)p;
	return count(s->x) == count(s->y);
}

static bool take_add(const struct shapes *s, uint32_t *p)
{
	return take_same(s, p) && s->w->n_dim == s->x->n_dim &&
	       !memcmp(s->w->shape, s->x->shape, sizeof(s->x->shape));
}

static const struct net_op ops[] = {
	{ "Conv", "conv", conv_number, conv_cpu, take_conv, 2 },
	{ "Relu", "relu", relu_number, relu_cpu, take_same, 1 },
	{ "MaxPool", "maxpool", maxpool_number, maxpool_cpu, take_pool, 1 },
	{ "AveragePool", "meanpool", meanpool_number, meanpool_cpu, take_pool, 1 },
	{ "GlobalAveragePool", "meanpool", meanpool_number, meanpool_cpu, take_global, 1 },
	{ "Gemm", "gemm", gemm_number, gemm_cpu, take_gemm, 2 },
	{ "MatMul", "gemm", gemm_number, gemm_cpu, take_gemm, 2 },
	{ "Softmax", "softmax", softmax_number, softmax_cpu, take_softmax, 1 },
	{ "Add", "add", add_number, add_cpu, take_add, 2 },
	{ "Flatten", "same", same_number, same_cpu, take_same, 1 },
	{ "Reshape", "same", same_number, same_cpu, take_same, 1 },
	{ "Identity", "same", same_number, same_cpu, take_same, 1 },
	{ "Dropout", "same", same_number, same_cpu, take_same, 1 },
};
#define N_OP (sizeof(ops) / sizeof(ops[0]))

static bool given(const json_t *list, size_t at)
{
	return at < json_array_size(list) && json_integer_value(json_array_get(list, at)) >= 0;
}

static bool is_read(const struct operation *node, json_int_t tensor)
{
	uint32_t i;

	for (i = 0; i < node->n_read; i++)
		if (node->reads[i] == tensor)
			return true;
	return false;
}

/* An input of floats, or NULL. */
static const struct tensor *input(const struct model *model, const struct operation *node,
				  const json_t *list, size_t at, uint32_t *ret_tensor)
{
	json_int_t number = json_integer_value(json_array_get(list, at));

	if (!given(list, at) || !is_read(node, number) || !model->tensor[number].n_dim)
		return NULL;
	*ret_tensor = (uint32_t)number;
	return &model->tensor[number];
}

/* How many numbers one number of the output is computed from. */
static uint64_t terms(const struct net_op *op, const uint32_t *p)
{
	if (op->cpu == conv_cpu)
		return (uint64_t)p[6] * p[7] * (p[0] / p[14]);
	if (op->cpu == maxpool_cpu || op->cpu == meanpool_cpu)
		return (uint64_t)p[6] * p[7];
	if (op->cpu == gemm_cpu)
		return p[1];
	return op->cpu == softmax_cpu ? 2ull * p[0] : 1;
}

void net_take_node(const json_t *json, struct model *model, uint32_t i)
{
	const char *type = json_string_value(json_object_get(json, "op"));
	const json_t *list = json_object_get(json, "inputs");
	struct operation *node = &model->node[i];
	struct shapes s = { .attributes = json_object_get(json, "attributes") };
	uint32_t *sizes = &model->sizes[(size_t)i * NET_SIZES];
	size_t k;

	s.x = input(model, node, list, 0, &node->inputs[0]);
	if (!type || !s.x || node->n_write != 1 || is_read(node, node->writes[0]))
		return;
	node->inputs[1] = node->inputs[2] = node->inputs[0];
	s.w = input(model, node, list, 1, &node->inputs[1]);
	s.b = input(model, node, list, 2, &node->inputs[2]);
	s.y = &model->tensor[node->writes[0]];
	for (k = 0; s.y->n_dim && k < N_OP; k++) {
		if (strcmp(ops[k].type, type) != 0)
			continue;
		/* An input that the model names must be a tensor of floats. */
		if (ops[k].n_input > 1 && (!s.w || (!s.b && given(list, 2))))
			return;
		if (!ops[k].take(&s, sizes))
			return;
		node->op = &ops[k];
		model->terms += count(s.y) * terms(node->op, sizes);
	}
}

/* ---- an accelerator ---- */

static int make_kernel(const struct net_op *op, struct hm_kernel **ret_kernel)
{
	char *source = text_format(
		"%skernel void %s(global float *y, global const uint *p, global const float *x,\n"
		"global const float *w, global const float *b)\n"
		"{ uint i = get_global_id(0); y[i] = %s; }\n",
		opencl_text, op->name, op->number);
	struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = op->name,
		.opencl = source,
		.cpu = op->cpu,
		.signature = "inout in in in in",
	};
	int r = source ? hm_kernel_create(&desc, ret_kernel) : -ENOMEM;

	free(source);
	return r;
}

int net_init(struct net *net, const struct hm_accel_info *accel)
{
	size_t i;
	int r = 0;

	if (!strstr(accel->forms, "cpu") && !strstr(accel->forms, "opencl"))
		return 0;
	net->kernel = calloc(N_OP, sizeof(*net->kernel));
	if (!net->kernel)
		return hm_error_set(-ENOMEM, "no memory for kernels");
	for (i = 0; !r && i < N_OP; i++)
		r = make_kernel(&ops[i], &net->kernel[i]);
	return r;
}

void net_free(struct net *net)
{
	size_t i;

	for (i = 0; net->kernel && i < N_OP; i++)
		hm_kernel_unref(net->kernel[i]);
	free(net->kernel);
}

static struct hm_arg read_by(const struct operation *node, const struct hm_arg *args,
			     uint32_t tensor)
{
	uint32_t i;

	for (i = 0; node->reads[i] != tensor; i++)
		;
	return HM_RANGE(args[i].pointer, args[i].length, HM_READ);
}

int net_run(const struct net *net, const struct model *model, uint32_t i,
	    struct hm_queue *queue, const struct hm_arg *args, struct hm_fence **ret_fence)
{
	const struct operation *node = &model->node[i];
	const struct hm_arg *y = &args[node->n_read];
	const uint64_t row = NET_SIZES * sizeof(uint32_t);
	const uint64_t grid[3] = { count(&model->tensor[node->writes[0]]), 1, 1 };
	const struct hm_cpu_range range = { { 0 }, { grid[0], 1, 1 }, { grid[0], 1, 1 } };
	const struct hm_arg to[5] = {
		HM_RANGE(y->pointer, y->length, HM_READ | HM_WRITE),
		HM_RANGE((const char *)y[1].pointer + i * row, row, HM_READ),
		read_by(node, args, node->inputs[0]),
		read_by(node, args, node->inputs[1]),
		read_by(node, args, node->inputs[2]),
	};
	struct hm_fence *fence;
	int r;

	/* Bytes after the last number are 0. */
	r = hm_queue_fill(queue, (void *)(uintptr_t)y->pointer, 0, y->length, &fence);
	if (r)
		return r;
	if (net->kernel) {
		hm_fence_unref(fence);
		return hm_queue_launch(queue, net->kernel[node->op - ops], grid, to, 5,
				       ret_fence);
	}
	/* An engine has no such operations: the CPU computes in the device's memory. */
	r = hm_fence_wait(fence, UINT64_MAX);
	hm_fence_unref(fence);
	return r ?: node->op->cpu(&range, to);
}

/* ---- on the CPU ---- */

void net_compute(const struct model *model, uint32_t i)
{
	const struct operation *node = &model->node[i];
	const struct tensor *y = &model->tensor[node->writes[0]];
	const struct hm_cpu_range range = { { 0 }, { count(y), 1, 1 }, { count(y), 1, 1 } };
	struct hm_arg args[5];
	uint32_t k;

	args[0] = HM_RANGE(y->expected, y->bytes, HM_WRITE);
	args[1] = HM_RANGE(&model->sizes[(size_t)i * NET_SIZES], NET_SIZES * sizeof(uint32_t),
			   HM_READ);
	for (k = 0; k < 3; k++)
		args[2 + k] = HM_RANGE(model->tensor[node->inputs[k]].expected,
				       model->tensor[node->inputs[k]].bytes, HM_READ);
	memset(y->expected, 0, y->bytes);
	node->op->cpu(&range, args);
}

/* Weights shrink with the length of a sum, so that numbers stay near 1. */
void net_fill(const struct tensor *t, uint32_t seed)
{
	float *x = (float *)t->home, scale = 1.0f;
	uint64_t n = count(t), i;

	memset(t->home, 0, t->bytes);
	if (!(t->flags & HM_PLAN_INPUT) || !t->n_dim)
		return;
	if (t->weight && t->n_dim == 1)
		scale = 0.1f;
	else if (t->weight)
		scale = sqrtf(6.0f / fmaxf((float)n / (float)t->shape[0], (float)t->shape[0]));
	for (i = 0; i < n; i++) {
		seed = seed * 1664525u + 1013904223u;
		x[i] = ((float)(seed >> 8) / 8388608.0f - 1.0f) * scale;
	}
}

uint64_t net_compare(const struct tensor *t, float tolerance)
{
	const float *is = (const float *)t->home, *expected = (const float *)t->expected;
	uint64_t n = count(t), i;

	for (i = 0; i < n; i++)
		if (!(fabsf(is[i] - expected[i]) <=
		      tolerance * fmaxf(1.0f, fabsf(expected[i]))))
			return i * sizeof(*is);
	return t->bytes;
}
