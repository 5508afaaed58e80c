// SPDX-License-Identifier: MIT
/* Folders with a model: which of the files are opened. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/inject.h"
#include "format/safetensors_support.h"

/* A file of one tensor, which has the file's name. */
static void put(const char *folder, const char *name)
{
	char header[512];

	snprintf(header, sizeof(header),
		 "{\"%s\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}", name);
	tensors_file(folder, name, header, 3);
}

/* An index of one tensor, in one file. */
static void put_index(const char *folder, const char *name, const char *file)
{
	char text[512];

	snprintf(text, sizeof(text), "{\"weight_map\":{\"%s\":\"%s\"}}", file, file);
	file_write(folder, name, text, strlen(text));
}

/* Opening the folder opens the files of @names, or fails with a text that has @says. */
static void check(const char *folder, int error, const char *const names[4], const char *says)
{
	struct hm_safetensors_info info = { .struct_size = sizeof(info) };
	struct hm_safetensors *safetensors = UNTOUCHED;
	uint64_t index, n = 0;

	if (error) {
		CHECK_ERROR(error, hm_safetensors_open(folder, 0, &safetensors));
		CHECK(safetensors == UNTOUCHED);
		if (!strstr(hm_errmsg(), says) || !strstr(hm_errmsg(), folder))
			test_fail(__FILE__, __LINE__, "no \"%s\" in: %s", says, hm_errmsg());
		return;
	}
	CHECK_OK_FATAL(hm_safetensors_open(folder, 0, &safetensors));
	CHECK_OK(hm_safetensors_query(safetensors, &info));
	for (; n < 4 && names[n]; n++) {
		CHECK_OK(hm_safetensors_find(safetensors, names[n], &index));
		CHECK_EQUAL(index, n);
	}
	CHECK_EQUAL(info.shards, n);
	hm_safetensors_unref(safetensors);
}

static const struct scene {
	const char *files[4];
	const char *index, *of; /* NULL: no index */
	int error;
	const char *opened[4];
	const char *says;
} scenes[] = {
	/* The names of transformers, diffusers and PEFT, and any other name. */
	{ { "model.safetensors" }, NULL, NULL, 0, { "model.safetensors" }, NULL },
	{ { "diffusion_pytorch_model.safetensors" },
	  NULL,
	  NULL,
	  0,
	  { "diffusion_pytorch_model.safetensors" },
	  NULL },
	{ { "adapter_model.safetensors" }, NULL, NULL, 0, { "adapter_model.safetensors" }, NULL },
	{ { "x.y.safetensors" }, NULL, NULL, 0, { "x.y.safetensors" }, NULL },
	/* An index, also of a variant, comes before a file of the same stem. */
	{ { "a.safetensors" },
	  "diffusion_pytorch_model.safetensors.index.json",
	  "a.safetensors",
	  0,
	  { "a.safetensors" },
	  NULL },
	{ { "model.fp16.safetensors", "a" },
	  "model.safetensors.index.fp16.json",
	  "a",
	  0,
	  { "a" },
	  NULL },
	/* Shards without an index. */
	{ { "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors",
	    "model-00001-of-00003.safetensors" },
	  NULL,
	  NULL,
	  0,
	  { "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
	    "model-00003-of-00003.safetensors" },
	  NULL },
	{ { "m-1-of-1.safetensors" }, NULL, NULL, 0, { "m-1-of-1.safetensors" }, NULL },
	{ { "model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors" },
	  NULL,
	  NULL,
	  -ENOENT,
	  { NULL },
	  "number 2 of the 3 files model-*.safetensors" },
	{ { "model-00001-of-00002.safetensors", "model-1-of-2.safetensors" },
	  NULL,
	  NULL,
	  -EINVAL,
	  { NULL },
	  "1 of 2 twice, as model-00001-of-00002.safetensors and model-1-of-2.safetensors" },
	{ { "model-00001-of-00002.safetensors" },
	  NULL,
	  NULL,
	  -ENOENT,
	  { NULL },
	  "number 2 of the 2 files model-*.safetensors is not there" },
	/* More files than the names tell of; numbers from 0 on. */
	{ { "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
	    "model-00003-of-00002.safetensors" },
	  NULL,
	  NULL,
	  -EINVAL,
	  { NULL },
	  "model-00003-of-00002.safetensors is none of the numbers 1 to 2" },
	{ { "model-00000-of-00002.safetensors", "model-00001-of-00002.safetensors" },
	  NULL,
	  NULL,
	  -EINVAL,
	  { NULL },
	  "model-00000-of-00002.safetensors is none of the numbers 1 to 2" },
	{ { "model-00001-of-00001.safetensors", "model-00001-of-00002.safetensors",
	    "model-00002-of-00002.safetensors" },
	  NULL,
	  NULL,
	  -EINVAL,
	  { NULL },
	  "two models, as model-00001-of-00001.safetensors and" },
	/* Names without numbers are like any other name. */
	{ { "a-b-of-c.safetensors" }, NULL, NULL, 0, { "a-b-of-c.safetensors" }, NULL },
	/* Several models: known names win, in their order. */
	{ { "adapter_model.safetensors", "consolidated.safetensors", "model.safetensors" },
	  NULL,
	  NULL,
	  0,
	  { "model.safetensors" },
	  NULL },
	{ { "consolidated.safetensors", "adapter_model.safetensors" },
	  NULL,
	  NULL,
	  0,
	  { "adapter_model.safetensors" },
	  NULL },
	{ { "b.safetensors", "a.safetensors" },
	  NULL,
	  NULL,
	  -EINVAL,
	  { NULL },
	  "several models, as a.safetensors and b.safetensors: name a file" },
	/* No model. */
	{ { ".safetensors", ".model.safetensors", "model.bin" },
	  "model.safetensors.indexjson",
	  "a",
	  -ENOENT,
	  { NULL },
	  "the folder has no *.safetensors and no" },
};

static void each(void)
{
	size_t i, k;

	for (i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
		const struct scene *scene = &scenes[i];
		char *folder = folder_make();

		for (k = 0; k < 4 && scene->files[k]; k++)
			put(folder, scene->files[k]);
		if (scene->index)
			put_index(folder, scene->index, scene->of);
		check(folder, scene->error, scene->opened, scene->says);
		folder_remove(folder);
	}
}

/* Without an index a tensor can be in one file only. */
static void in_two(void)
{
	static const char header[] =
		"{\"t\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}";
	struct hm_safetensors *safetensors;
	AUTO_TEXT *folder = folder_make();

	tensors_file(folder, "model-00001-of-00002.safetensors", header, 3);
	tensors_file(folder, "model-00002-of-00002.safetensors", header, 3);
	CHECK_ERROR(-EBADMSG, hm_safetensors_open(folder, 0, &safetensors));
	CHECK(strstr(hm_errmsg(), "tensor \"t\" is in ") && strstr(hm_errmsg(), ", too"));
}

static void undone(void)
{
	AUTO_TEXT *folder = folder_make();

	put(folder, "model-00001-of-00002.safetensors");
	put(folder, "model-00002-of-00002.safetensors");
	tensors_open_failing(folder, 20);
}

static const struct test tests[] = {
	{ "each", each, 0, 0 },
	{ "in_two", in_two, 0, 0 },
	{ "undone", undone, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "safetensors_folder", tests)
