// SPDX-License-Identifier: MIT
/* Files of other kinds than their reader expects, and links that lead nowhere. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hetmap/npy.h>
#include <hetmap/reader.h>

#include "format/safetensors_support.h"
#include "format/tokens_support.h"

#define UNTOUCHED ((void *)0x10)
#define SIZE 512

/* The first bytes of files of pyarrow, h5py, numpy, gzip and others; zeros follow them. */
static const struct {
	uint32_t offset, length;
	const char *bytes;
	const char *what, *remedy;
} kinds[] = {
#define KIND(offset, bytes, what, remedy)                      \
	{                                                      \
		offset, sizeof(bytes) - 1, bytes, what, remedy \
	}
	KIND(0, "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
	     "Git LFS", "git lfs pull"),
	KIND(0, "/annex/objects/SHA256E-s31390--f50d7ac4c6b9031379986bc362fcefb65f1e52621",
	     "git-annex", "git annex get"),
	KIND(0, "<!DOCTYPE html>\n<html><head><title>Sign in", "HTML", "logged in"),
	KIND(0, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>AccessDenied", "XML",
	     "get the file again"),
	KIND(0, "ARROW1\0\0\xff\xff\xff\xff\xf0\0\0\0\x10\0\0\0\0\0\x0a\0\x0e\0\x06\0",
	     "a file of Arrow", "pyarrow"),
	KIND(0, "\xff\xff\xff\xff\xa8\0\0\0\x10\0\0\0\0\0\x0a\0\x0c\0\x06\0\x05\0\x08\0",
	     "a stream of Arrow", "pyarrow"),
	KIND(0, "PAR1\x15\x04\x15@\x15\x38L\x15\x08\x15\0\x12", "Parquet", "pyarrow"),
	KIND(0, "\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0", "HDF5", "h5py"),
	KIND(0, "MMIDIDX\0\0\1\0\0\0\0\0\0\0\x08", "Megatron", "the .bin file beside it"),
	KIND(0, "\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02", "PyTorch",
	     "safetensors"),
	KIND(257, "ustar\00000", "tar", "unpack it"),
	KIND(257, "ustar  \0", "tar", "unpack it"),
	KIND(0, "PK\3\4-\0\0\0", "zip", "unpack it"),
	KIND(0, "\x1f\x8b\x08\0\x06\1\x0dk\2\xff", "gzip", "gunzip"),
	KIND(0, "\x1f\x8b\x08\x08\x06\1\x0dk\2\xfftrain.bin", "gzip", "gunzip"),
	KIND(0, "\x28\xb5\x2f\xfd\4\x58", "zstd", "unzstd"),
	KIND(0, "\xfd\x37zXZ\0\0\4", "xz", "unxz"),
#undef KIND
};

#define N_KIND (sizeof(kinds) / sizeof(kinds[0]))

static char *make(const char *folder, const char *name, size_t kind, size_t size)
{
	AUTO_TEXT *bytes = calloc(1, size);

	CHECK_FATAL(bytes != NULL);
	memcpy(bytes + kinds[kind].offset, kinds[kind].bytes, kinds[kind].length);
	file_write(folder, name, bytes, size);
	return folder_path(folder, name);
}

static void says(size_t kind, const char *path)
{
	if (!strstr(hm_errmsg(), kinds[kind].what) ||
	    !strstr(hm_errmsg(), kinds[kind].remedy) || !strstr(hm_errmsg(), path))
		test_fail(__FILE__, __LINE__, "no \"%s\" or \"%s\" in: %s", kinds[kind].what,
			  kinds[kind].remedy, hm_errmsg());
}

/* Every reader names the kind, the reader of an index too, and leaves nothing open. */
static void each(void)
{
	struct hm_npy_info info = { .struct_size = sizeof(info) };
	struct hm_safetensors *safetensors = UNTOUCHED;
	struct hm_tokens *tokens = UNTOUCHED;
	char *folder = folder_make(), *path;
	size_t i;

	for (i = 0; i < N_KIND; i++) {
		path = make(folder, "a", i, SIZE);
		CHECK_ERROR(-EOPNOTSUPP,
			    hm_tokens_open((const char *const *)&path, 1, NULL, &tokens));
		says(i, path);
		CHECK(strstr(hm_errmsg(), "pass HM_TOKENS_RAW if") != NULL);
		CHECK_ERROR(-EOPNOTSUPP, hm_npy_query(path, &info));
		says(i, path);
		CHECK_ERROR(-EOPNOTSUPP, hm_safetensors_open(path, 0, &safetensors));
		says(i, path);
		free(path);
		path = make(folder, "a.json", i, SIZE);
		CHECK_ERROR(-EOPNOTSUPP, hm_safetensors_open(path, 0, &safetensors));
		says(i, path);
		free(path);
	}
	CHECK(safetensors == UNTOUCHED && tokens == UNTOUCHED);
	/* The first bytes of this kind are also a valid length of a header. */
	for (i = 0; strcmp(kinds[i].what, "gzip") != 0; i++)
		;
	path = make(folder, "a.safetensors", i, 1 << 20);
	CHECK_ERROR(-EOPNOTSUPP, hm_safetensors_open(path, 0, &safetensors));
	says(i, path);
	free(path);
	/* A .npy file has no tensors by name; all other readers read it. */
	path = tokens_npy(folder, "a.npy", 1, "<u2", false, "(4,)", "abcdefgh", 8);
	CHECK_ERROR(-EOPNOTSUPP, hm_safetensors_open(path, 0, &safetensors));
	CHECK(strstr(hm_errmsg(), "it is a .npy file") != NULL);
	free(path);
	/* Likewise for a model of GGUF, which hm_gguf_open() and hm_pieces_open() read. */
	file_write(folder, "a", "GGUF\3\0\0\0", 8);
	path = folder_path(folder, "a");
	CHECK_ERROR(-EOPNOTSUPP, hm_safetensors_open(path, 0, &safetensors));
	CHECK(strstr(hm_errmsg(), "a model of GGUF: hm_gguf(3)") != NULL);
	CHECK_ERROR(-EOPNOTSUPP, hm_npy_query(path, &info));
	CHECK_ERROR(-EOPNOTSUPP, hm_tokens_open((const char *const *)&path, 1, NULL, &tokens));
	CHECK(strstr(hm_errmsg(), "a model of GGUF: hm_gguf(3)") != NULL);
	free(path);
	folder_remove(folder);
}

/* The caller can say that a file of any kind has tokens: by HM_TOKENS_RAW, or by an offset. */
static void numbers(void)
{
	char *folder = folder_make(), *path;
	size_t i;

	for (i = 0; i < N_KIND; i++) {
		path = make(folder, "a", i, SIZE);
		hm_tokens_unref(
			tokens_open(path, DESC(hm_tokens_desc, .flags = HM_TOKENS_RAW)));
		hm_tokens_unref(tokens_open(path, DESC(hm_tokens_desc, .offset = 2)));
		free(path);
	}
	folder_remove(folder);
}

/* Bytes that differ in one byte or are cut off do not make that kind. */
static void near(void)
{
	char *folder = folder_make(), *path, bytes[SIZE];
	struct hm_npy_info info = { .struct_size = sizeof(info) };
	size_t i;

	for (i = 0; i < N_KIND; i++) {
		memset(bytes, 0, sizeof(bytes));
		memcpy(bytes + kinds[i].offset, kinds[i].bytes, kinds[i].length);
		bytes[kinds[i].offset] ^= 0x40;
		file_write(folder, "a", bytes, sizeof(bytes));
		path = folder_path(folder, "a");
		hm_tokens_unref(tokens_open(path, NULL));
		CHECK_ERROR(-EBADMSG, hm_npy_query(path, &info));
		free(path);
		file_write(folder, "a", kinds[i].bytes, 2);
		path = folder_path(folder, "a");
		hm_tokens_unref(tokens_open(path, NULL));
		free(path);
	}
	folder_remove(folder);
}

/* A cache of models: snapshots have links to blobs, and one blob is missing. */
static void links(void)
{
	static const char where[] = "../../blobs/4d7a";
	static const char index[] = "{\"weight_map\":{\"t\":\"t.safetensors\"}}";
	struct hm_npy_info info = { .struct_size = sizeof(info) };
	struct hm_safetensors *safetensors;
	struct hm_reader *reader;
	struct hm_tokens *tokens;
	char *other;
	AUTO_TEXT *folder = folder_make(), *snapshot = NULL, *model = NULL;

	file_write(folder, "snapshots/1/model.safetensors.index.json", index, strlen(index));
	snapshot = folder_path(folder, "snapshots/1");
	model = folder_path(snapshot, "t.safetensors");
	other = folder_path(snapshot, "twice.safetensors");
	CHECK_FATAL(!symlink(where, model) && !symlink(model, other));
	CHECK_ERROR(-ENOENT, hm_safetensors_open(model, 0, &safetensors));
	CHECK(strstr(hm_errmsg(), "snapshots/1/t.safetensors: it is a link to ") != NULL);
	CHECK(strstr(hm_errmsg(), "snapshots/1/../../blobs/4d7a, which is not there") != NULL);
	/* Paths: the folder's index, a link to a link, and every other reader. */
	CHECK_ERROR(-ENOENT, hm_safetensors_open(snapshot, 0, &safetensors));
	CHECK(strstr(hm_errmsg(), "../../blobs/4d7a, which is not there") != NULL);
	CHECK_ERROR(-ENOENT, hm_safetensors_open(other, 0, &safetensors));
	CHECK(strstr(hm_errmsg(), "twice.safetensors: it is a link to ") != NULL);
	CHECK(strstr(hm_errmsg(), "../../blobs/4d7a, which is not there") != NULL);
	CHECK_ERROR(-ENOENT, hm_npy_query(model, &info));
	CHECK(strstr(hm_errmsg(), "../../blobs/4d7a, which is not there") != NULL);
	CHECK_ERROR(-ENOENT, hm_tokens_open((const char *const *)&model, 1, NULL, &tokens));
	CHECK(strstr(hm_errmsg(), "../../blobs/4d7a, which is not there") != NULL);
	CHECK_ERROR(-ENOENT, hm_reader_open(model, NULL, &reader));
	CHECK(strstr(hm_errmsg(), "../../blobs/4d7a, which is not there") != NULL);
	free(other);
	other = folder_path(snapshot, "x.json");
	CHECK_FATAL(!symlink("/nowhere/x", other));
	CHECK_ERROR(-ENOENT, hm_safetensors_open(other, 0, &safetensors));
	CHECK(strstr(hm_errmsg(), "it is a link to /nowhere/x, which is not there") != NULL);
	/* Without a link, or with links in a circle, the text has the error's own name. */
	CHECK(!unlink(model));
	CHECK_ERROR(-ENOENT, hm_safetensors_open(model, 0, &safetensors));
	CHECK(strstr(hm_errmsg(), "opening it: ENOENT") != NULL);
	CHECK(!symlink(model, model));
	CHECK_ERROR(-ELOOP, hm_safetensors_open(model, 0, &safetensors));
	CHECK(strstr(hm_errmsg(), "opening it: ELOOP") != NULL);
	free(other);
}

/* ---- the command ---- */

static void told(const struct command *command, int status, const char *text)
{
	AUTO(outcome) outcome = { 0 };

	CHECK_RUN(status, &outcome, command);
	if (!strstr(outcome.err, text))
		test_fail(__FILE__, __LINE__, "no \"%s\" in: %s%s", text, outcome.out,
			  outcome.err);
}

/* The command knows kinds by their bytes, whatever the names and --dtype are. */
static void command(void)
{
	static const char *const names[] = { "a.bin", "a.npy", "a.npz", "a.safetensors" };
	char *path;
	AUTO_TEXT *folder = folder_make(), *link = NULL;
	size_t i, k;

	for (i = 0; i < N_KIND; i++)
		for (k = 0; k < (i ? 1 : 4); k++) {
			path = make(folder, names[k], i, SIZE);
			told(&(struct command){ .args = { "run", "tokens", path } }, 2,
			     kinds[i].remedy);
			/* Tables are read by libhetmap-table, if it is there: tests/table. */
			if (strcmp(kinds[i].remedy, "pyarrow") != 0)
				told(&(struct command){ .args = { "inspect", path } }, 2,
				     kinds[i].remedy);
			free(path);
		}
	path = make(folder, "a.bin", 0, SIZE);
	told(&(struct command){ .args = { "run", "tokens", "--dtype=u2", path } }, 2,
	     "git lfs pull");
	told(&(struct command){ .args = { "inspect", "--dtype=u2", path } }, 2, "git lfs pull");
	told(&(struct command){ .args = { "run", "tokens", "--offset=128", "--block=9",
					  path } },
	     0, "");
	link = folder_path(folder, "link");
	CHECK_FATAL(!unlink(path) && !symlink("a.bin", link));
	told(&(struct command){ .args = { "run", "tokens", link } }, 2,
	     "it is a link to 'a.bin', which is not there");
	free(path);
}

static const struct test tests[] = {
	{ "each", each, 0, 0 },   { "numbers", numbers, 0, 0 },  { "near", near, 0, 0 },
	{ "links", links, 0, 0 }, { "command", command, 60, 0 }, { NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "foreign", tests)
