// SPDX-License-Identifier: MIT
/* The graph of a model, from the small JSON of tools/graph. */
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/text.h"
#include "graph_job.h"

extern char **environ;

static int damaged(const char *file, const char *what)
{
	return fail(STATUS_USAGE, EINVAL, "make the file by tools/graph", "%s: %s", file, what);
}

/* Only a float32 tensor whose sizes are all known gets a shape. */
static void take_shape(const json_t *json, uint64_t bytes, struct tensor *tensor)
{
	const json_t *list = json_object_get(json, "shape");
	const char *type = json_string_value(json_object_get(json, "type"));
	uint64_t n = sizeof(float);
	size_t i;

	if (!type || strcmp(type, "float32") != 0 || json_array_size(list) > 4)
		return;
	for (i = 0; i < json_array_size(list); i++) {
		json_int_t dim = json_integer_value(json_array_get(list, i));

		if (dim < 1 || dim > INT32_MAX || n > INT32_MAX / (uint64_t)dim)
			return;
		tensor->shape[i] = (uint32_t)dim;
		n *= (uint64_t)dim;
	}
	if (n == bytes)
		tensor->n_dim = (uint32_t)i;
}

static int take_tensor(const char *file, const json_t *json, struct tensor *tensor)
{
	static const struct {
		const char *kind;
		uint32_t flags;
	} kinds[] = {
		{ "temporary", 0 },
		{ "input", HM_PLAN_INPUT },
		{ "weight", HM_PLAN_INPUT },
		{ "output", HM_PLAN_OUTPUT },
		{ "state", HM_PLAN_INPUT | HM_PLAN_OUTPUT },
	};
	const char *name = json_string_value(json_object_get(json, "name"));
	const char *kind = json_string_value(json_object_get(json, "kind"));
	json_int_t bytes = json_integer_value(json_object_get(json, "bytes"));
	size_t i;

	if (!name || !kind || bytes <= 0 || bytes > INT64_MAX / 4)
		return damaged(file, "a tensor has no name, no kind or no bytes");
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i].kind, kind))
			break;
	if (i == sizeof(kinds) / sizeof(kinds[0]))
		return damaged(file, "a tensor is of an unknown kind");
	tensor->name = strdup(name);
	tensor->flags = kinds[i].flags;
	tensor->weight = !strcmp(kind, "weight") || !strcmp(kind, "state");
	take_shape(json, (uint64_t)bytes, tensor);
	tensor->bytes = ((uint64_t)bytes + TENSOR_ALIGNMENT - 1) & ~(TENSOR_ALIGNMENT - 1ull);
	if (!tensor->flags)
		return tensor->name ? 0 : fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory");
	tensor->home = aligned_alloc(4096, (tensor->bytes + 4095) & ~4095ull);
	return tensor->name && tensor->home ?
		       0 :
		       fail(STATUS_ENVIRONMENT, ENOMEM, "take a smaller --dim",
			    "no %llu bytes for tensor %s", (unsigned long long)tensor->bytes,
			    name);
}

static int take_list(const char *file, const json_t *json, uint32_t n_tensor,
		     uint32_t **ret_list, uint32_t *ret_n)
{
	size_t n = json_array_size(json), i;
	uint32_t *list = calloc(n + 1, sizeof(*list));

	if (!list)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory");
	*ret_list = list;
	*ret_n = (uint32_t)n;
	for (i = 0; i < n; i++) {
		json_int_t tensor = json_integer_value(json_array_get(json, i));

		if (tensor < 0 || tensor >= n_tensor)
			return damaged(file, "a node names a tensor that does not exist");
		list[i] = (uint32_t)tensor;
	}
	return 0;
}

static int take_node(const char *file, const json_t *json, struct model *model, uint32_t i)
{
	struct operation *node = &model->node[i];
	const char *name = json_string_value(json_object_get(json, "name"));
	uint32_t k;
	int status;

	if (!name)
		return damaged(file, "a node has no name");
	node->name = strdup(name);
	if (!node->name)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory");
	status = take_list(file, json_object_get(json, "reads"), model->n_tensor, &node->reads,
			   &node->n_read);
	if (!status)
		status = take_list(file, json_object_get(json, "writes"), model->n_tensor,
				   &node->writes, &node->n_write);
	if (status)
		return status;
	for (k = 0; k < node->n_read; k++)
		model->tensor[node->reads[k]].last = i;
	for (k = 0; k < node->n_write; k++)
		model->tensor[node->writes[k]].last = i;
	net_take_node(json, model, i);
	model->real &= node->op && model->terms <= NET_MOST_TERMS;
	return 0;
}

int model_take(const char *file, const json_t *json, struct model *model)
{
	const json_t *tensors = json_object_get(json, "tensors");
	const json_t *nodes = json_object_get(json, "nodes");
	const char *format = json_string_value(json_object_get(json, "format"));
	const char *name = json_string_value(json_object_get(json, "name"));
	size_t i;
	int status = 0;

	if (!format || strcmp(format, "hetmap-graph") ||
	    json_integer_value(json_object_get(json, "version")) != 1)
		return damaged(file, "this is no hetmap-graph of version 1");
	if (!json_array_size(nodes) || !json_array_size(tensors))
		return damaged(file, "the graph has no node or no tensor");
	model->name = strdup(name ? name : "graph");
	model->train = json_is_true(json_object_get(json, "train"));
	model->tensor = calloc(json_array_size(tensors), sizeof(*model->tensor));
	model->node = calloc(json_array_size(nodes), sizeof(*model->node));
	model->sizes = calloc(json_array_size(nodes), NET_SIZES * sizeof(*model->sizes));
	model->real = true;
	if (!model->name || !model->tensor || !model->node || !model->sizes)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory for a graph");
	model->n_tensor = (uint32_t)json_array_size(tensors);
	model->n_node = (uint32_t)json_array_size(nodes);
	for (i = 0; !status && i < model->n_tensor; i++) {
		status = take_tensor(file, json_array_get(tensors, i), &model->tensor[i]);
		model->bytes += model->tensor[i].bytes;
		if (model->tensor[i].bytes > model->longest)
			model->longest = model->tensor[i].bytes;
	}
	for (i = 0; !status && i < model->n_node; i++)
		status = take_node(file, json_array_get(nodes, i), model, (uint32_t)i);
	return status;
}

void model_free(struct model *model)
{
	uint32_t i;

	for (i = 0; i < model->n_tensor; i++) {
		free(model->tensor[i].name);
		free(model->tensor[i].home);
		free(model->tensor[i].expected);
	}
	for (i = 0; i < model->n_node; i++) {
		free(model->node[i].name);
		free(model->node[i].reads);
		free(model->node[i].writes);
	}
	free(model->tensor);
	free(model->node);
	free(model->sizes);
	free(model->name);
}

/* ---- ONNX ---- */

/* The program lies beside this one. */
static char *program(void)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	if (slash)
		*slash = '\0';
	return text_format("%s/onnx-graph", path);
}

/* Its standard output goes to @to. An exit status. */
static int convert(const struct graph_options *options, int to)
{
	const char *python = getenv("HETMAP_PYTHON");
	const char *argv[8 + 2 * sizeof(options->dims) / sizeof(options->dims[0])];
	posix_spawn_file_actions_t actions;
	char *script = program();
	uint32_t n = 0, i;
	int status, r;
	pid_t pid;

	argv[n++] = python && *python ? python : "python3";
	argv[n++] = script;
	for (i = 0; i < options->n_dim; i++) {
		argv[n++] = "--dim";
		argv[n++] = options->dims[i];
	}
	if (options->train)
		argv[n++] = "--train";
	argv[n++] = "--";
	argv[n++] = options->file;
	argv[n] = NULL;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, to, STDOUT_FILENO);
	r = posix_spawnp(&pid, argv[0], &actions, NULL, (char **)(uintptr_t)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	free(script);
	if (r)
		return fail(STATUS_ENVIRONMENT, r,
			    "install python3, or name one by HETMAP_PYTHON",
			    "cannot run %s, which reads models of ONNX", argv[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	return fail(WIFEXITED(status) && WEXITSTATUS(status) == 2 ? STATUS_USAGE :
								    STATUS_ENVIRONMENT,
		    0, NULL, "%s was not read", options->file);
}

static bool is_json(const char *file)
{
	size_t length = strlen(file);

	return length > 5 && !strcmp(file + length - 5, ".json");
}

static int open_file(const struct graph_options *options, FILE **ret_in)
{
	int status;

	if (is_json(options->file)) {
		*ret_in = fopen(options->file, "re");
		if (!*ret_in)
			return fail(STATUS_USAGE, errno, NULL, "cannot open %s", options->file);
		if (!options->n_dim && !options->train)
			return 0;
		fclose(*ret_in);
		return fail(STATUS_USAGE, EINVAL,
			    "pass them to tools/graph, which makes such a file",
			    "--dim and --train are for models of ONNX");
	}
	*ret_in = tmpfile();
	if (!*ret_in)
		return fail(STATUS_ENVIRONMENT, errno, NULL, "cannot make a temporary file");
	status = convert(options, fileno(*ret_in));
	if (status)
		fclose(*ret_in);
	else
		rewind(*ret_in);
	return status;
}

int model_read(const struct graph_options *options, struct model *ret_model)
{
	struct model model = { 0 };
	json_error_t error;
	json_t *json;
	FILE *in;
	int status = open_file(options, &in);

	if (status)
		return status;
	json = json_loadf(in, JSON_REJECT_DUPLICATES, &error);
	fclose(in);
	if (!json)
		return damaged(options->file, error.text);
	status = model_take(options->file, json, &model);
	json_decref(json);
	if (status)
		model_free(&model);
	else
		*ret_model = model;
	return status;
}
