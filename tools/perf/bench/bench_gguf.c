// SPDX-License-Identifier: MIT
/* gguf_open: 5,000 tensors behind 20 MB of metadata, from the file's name to the first element. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hetmap/gguf.h>

#include "bench.h"
#include "bench_folder.h"
#include "bench_options.h"
#include "common/text.h"
#include "peer.h"
#include "program.h"

#define TENSORS 5000
#define ELEMENTS 16 /* elements of F32 in each tensor */
#define TOKENS 150000
#define STRINGS (3 * TOKENS) /* the tokens, and twice as many merges */
#define ROOM 64
#define NAME "5,000 tensors, 20 MB of metadata"
#define WANTED "blk.499.attn_9.weight"

struct model {
	char *path;
	char *python; /* that has the package */
};

/* The file's bytes, freed when it is written. */
struct contents {
	char (*text)[ROOM];
	const char **string;
	float *scores;
	char (*names)[ROOM];
	struct hm_gguf_source *sources;
};

static int fill(struct contents *contents)
{
	static const float values[ELEMENTS] = { 1 };
	static const uint64_t ne[] = { ELEMENTS };
	uint32_t i;

	contents->text = calloc(STRINGS, sizeof(*contents->text));
	contents->string = calloc(STRINGS, sizeof(*contents->string));
	contents->scores = calloc(TOKENS, sizeof(*contents->scores));
	contents->names = calloc(TENSORS, sizeof(*contents->names));
	contents->sources = calloc(TENSORS, sizeof(*contents->sources));
	if (!contents->text || !contents->string || !contents->scores || !contents->names ||
	    !contents->sources)
		return -ENOMEM;
	for (i = 0; i < STRINGS; i++) {
		snprintf(contents->text[i], ROOM, "token %07u %.*s", i, (int)(i % 42),
			 "as long as those of a vocabulary, and then some more");
		contents->string[i] = contents->text[i];
	}
	for (i = 0; i < TENSORS; i++) {
		snprintf(contents->names[i], ROOM, "blk.%u.attn_%u.weight", i / 10, i % 10);
		contents->sources[i] = (struct hm_gguf_source){ contents->names[i], HM_GGML_F32,
								1, ne, values };
	}
	return 0;
}

static int write_model(const char *path)
{
	struct contents contents = { 0 };
	int r = fill(&contents);
	const struct hm_gguf_pair pairs[] = {
		{ "tokenizer.ggml.tokens", HM_GGUF_ARRAY, HM_GGUF_STRING, TOKENS,
		  contents.string },
		{ "tokenizer.ggml.merges", HM_GGUF_ARRAY, HM_GGUF_STRING, STRINGS - TOKENS,
		  contents.string + TOKENS },
		{ "tokenizer.ggml.scores", HM_GGUF_ARRAY, HM_GGUF_F32, TOKENS,
		  contents.scores },
	};
	const struct hm_gguf_desc desc = {
		.struct_size = sizeof(desc),
		.tensors = contents.sources,
		.n_tensors = TENSORS,
		.metadata = pairs,
		.n_metadata = 3,
	};

	if (!r)
		r = hm_gguf_write(path, &desc);
	free(contents.sources);
	free(contents.names);
	free(contents.scores);
	free(contents.string);
	free(contents.text);
	return r;
}

static int open_ours(void *user, double *ret_ns)
{
	const struct model *model = user;
	struct hm_tensor *tensor;
	double start = bench_now();
	struct hm_gguf *gguf;
	uint64_t index;
	int r;

	r = hm_gguf_open(model->path, 0, &gguf);
	if (r)
		return r;
	r = hm_gguf_find(gguf, WANTED, &index);
	if (!r)
		r = hm_gguf_tensor(gguf, index, 0, 0, &tensor);
	if (!r) {
		r = *(const float *)hm_tensor_address(tensor) == 1 ? 0 : -EIO;
		hm_tensor_unref(tensor);
	}
	hm_gguf_unref(gguf);
	*ret_ns = bench_now() - start;
	return r;
}

static int open_bare(void *user, double *ret_ns)
{
	const struct model *model = user;
	double start = bench_now();
	float value = 0;
	int r;

	r = peer_gguf_pass(model->path, WANTED, &value);
	*ret_ns = bench_now() - start;
	return r ? r : value == 1 ? 0 : -EPROTO;
}

static int open_package(void *user, double *ret_ns)
{
	struct program_result result;
	struct model *model = user;
	char *argv[] = { model->python, (char *)"-c",   (char *)peer_gguf_open,
			 model->path,   (char *)WANTED, NULL };
	int r = program_run(argv, &result);

	if (r || result.status)
		return r ? r : -EPROTO;
	*ret_ns = strtod(result.out, NULL);
	return *ret_ns > 0 ? 0 : -EPROTO;
}

static int compare_package(struct model *model)
{
	const struct bench_pair pair = {
		.name = NAME " by its package",
		.peer = "the gguf package, by its own clock",
		.ours = open_ours,
		.peer_side = open_package,
		/* The package takes seconds. */
		.rounds = 5,
	};
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int r = 0;

	if (cache && *cache)
		model->python = text_format("%s/hetmap/gguf-0.19.0/bin/python", cache);
	else
		model->python = text_format("%s/.cache/hetmap/gguf-0.19.0/bin/python",
					    home ? home : "/root");
	if (!access(model->python, X_OK))
		r = bench_compare(&pair, model, "ms", 1e6, TARGET_RATIO, 0.1);
	else
		bench_skip(pair.name, "no python3 with the gguf package, for which "
				      "tests/format/test_gguf_peer.sh makes an environment");
	free(model->python);
	return r;
}

int bench_gguf_open(void)
{
	const struct bench_pair pair = {
		.name = NAME,
		.peer = "mmap() and one pass over the header, from length to length",
		.ours = open_ours,
		.peer_side = open_bare,
		.rounds = 41,
		.warm_up = 2,
	};
	char *folder = bench_folder_make(NAME, MIB(32));
	struct model model = { 0 };
	int r;

	if (!folder)
		return 0;
	model.path = text_format("%s/model.gguf", folder);
	r = write_model(model.path);
	if (r)
		bench_fail(NAME, r, true);
	else
		r = bench_compare(&pair, &model, "ms", 1e6, TARGET_RATIO, 1.5);
	if (!r)
		r = compare_package(&model);
	free(model.path);
	bench_folder_remove(folder);
	return r;
}
