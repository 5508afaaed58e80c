// SPDX-License-Identifier: MIT
/* safetensors_open: a model of 10,000 tensors, from its name to the first of them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hetmap/hetmap.h>
#include <hetmap/safetensors.h>

#include "bench.h"
#include "bench_folder.h"
#include "bench_options.h"
#include "common/text.h"
#include "peer.h"
#include "program.h"

#define TENSORS 10000
#define ELEMENTS 16 /* elements of F32 in each tensor */
#define NAME "10,000 tensors, to the first"
#define WANTED "model.layers.77.7.weight"

struct model {
	char *path;
	char *python; /* that has the package */
};

static int write_model(const char *path)
{
	static const float values[ELEMENTS] = { 1 };
	static const uint64_t shape[] = { ELEMENTS };
	struct hm_tensor_source *sources = calloc(TENSORS, sizeof(*sources));
	struct hm_safetensors_desc desc = {
		.struct_size = sizeof(desc),
		.tensors = sources,
		.n_tensors = TENSORS,
	};
	char(*names)[40] = calloc(TENSORS, sizeof(*names));
	uint32_t i;
	int r = sources && names ? 0 : -ENOMEM;

	for (i = 0; !r && i < TENSORS; i++) {
		snprintf(names[i], sizeof(names[i]), "model.layers.%u.%u.weight", i / 100,
			 i % 100);
		sources[i] =
			(struct hm_tensor_source){ names[i], HM_DTYPE_F32, 1, shape, values };
	}
	if (!r)
		r = hm_safetensors_write(path, &desc);
	free(names);
	free(sources);
	return r;
}

static int open_ours(void *user, double *ret_ns)
{
	const struct model *model = user;
	struct hm_safetensors *safetensors;
	struct hm_tensor *tensor;
	double start = bench_now();
	uint64_t index;
	int r;

	r = hm_safetensors_open(model->path, 0, &safetensors);
	if (r)
		return r;
	r = hm_safetensors_find(safetensors, WANTED, &index);
	if (!r)
		r = hm_safetensors_view(safetensors, index, NULL, 0, 0, 0, &tensor);
	if (!r) {
		r = *(const float *)hm_tensor_address(tensor) == 1 ? 0 : -EIO;
		hm_tensor_unref(tensor);
	}
	hm_safetensors_unref(safetensors);
	*ret_ns = bench_now() - start;
	return r;
}

static int run_peer(char *python, const struct model *model, struct program_result *ret_result)
{
	char *argv[] = { python,      (char *)"-c",   (char *)peer_safetensors_open,
			 model->path, (char *)WANTED, NULL };

	return program_run(argv, ret_result);
}

static int open_peer(void *user, double *ret_ns)
{
	struct program_result result;
	struct model *model = user;
	int r = run_peer(model->python, model, &result);

	if (r || result.status)
		return r ? r : -EPROTO;
	*ret_ns = strtod(result.out, NULL);
	return *ret_ns > 0 ? 0 : -EPROTO;
}

/* The tests' environment has the package; or else Debian's own python3. */
static char *find_python(const struct model *model, char *why, size_t size)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	struct program_result result = { 0 };
	char *found[2] = { NULL, strdup("/usr/bin/python3") };
	int i, r;

	found[0] = cache && *cache ?
			   text_format("%s/hetmap/safetensors-0.8.0/bin/python", cache) :
			   text_format("%s/.cache/hetmap/safetensors-0.8.0/bin/python",
				       home ? home : "/root");
	snprintf(why, size, "there is no /usr/bin/python3");
	for (i = 0; i < 2; i++) {
		if (!found[i] || access(found[i], X_OK))
			continue;
		r = run_peer(found[i], model, &result);
		if (!r && !result.status) {
			free(found[!i]);
			return found[i];
		}
		snprintf(why, size, "%s", r ? strerror(-r) : result.errors);
	}
	free(found[0]);
	free(found[1]);
	return NULL;
}

int bench_safetensors_open(void)
{
	const struct bench_pair pair = {
		.name = NAME,
		.peer = "the safetensors package, by its own clock",
		.ours = open_ours,
		.peer_side = open_peer,
		.rounds = 21,
		.warm_up = 1,
	};
	char *folder = bench_folder_make(NAME, MIB(4)), why[PROGRAM_TEXT];
	struct model model = { 0 };
	int r;

	if (!folder)
		return 0;
	model.path = text_format("%s/model.safetensors", folder);
	r = write_model(model.path);
	if (r) {
		bench_fail(NAME, r, true);
		goto out;
	}
	model.python = find_python(&model, why, sizeof(why));
	if (model.python)
		r = bench_compare(&pair, &model, "ms", 1e6, TARGET_RATIO, 1.0);
	else
		bench_skip(
			NAME,
			"no python3 with the safetensors package, for which "
			"tests/format/test_safetensors_peer.sh makes an environment, and with "
			"numpy (python3-numpy): %s",
			why);
out:
	free(model.python);
	free(model.path);
	bench_folder_remove(folder);
	return r;
}
