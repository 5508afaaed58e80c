// SPDX-License-Identifier: MIT
/*
 * Fuzzes the reader of document indices. The input is 8 bytes of the size of the file of
 * tokens, a byte of the index's kind, and the index. If the index is taken, its documents
 * ascend and end where the tokens do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/tokens/tokens_index.h"

#define HEAD 9 /* bytes before the index */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void differ(const char *what, uint64_t document)
{
	fprintf(stderr, "document %llu: %s\n", (unsigned long long)document, what);
	abort();
}

/* The path of a file with these bytes. */
static char *path_of(const uint8_t *data, size_t size)
{
	static int fd = -1;
	char path[32];

	if (fd < 0)
		fd = memfd_create("index", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return strdup(path);
}

static void check_documents(const struct token_index *index, uint64_t size)
{
	uint64_t width = hm_dtype_bits(index->dtype) / 8, end = 0, i;

	if (!width || size % width)
		differ("no whole tokens", 0);
	for (i = 0; i < index->n; i++) {
		if (index->end[i] < end)
			differ("it ends before it begins", i);
		end = index->end[i];
	}
	if (end != size / width)
		differ("it does not end where the tokens do", index->n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct token_index index = { 0 };
	uint64_t tokens;

	if (size < HEAD)
		return 0;
	memcpy(&tokens, data, sizeof(tokens));
	/* A file's size is an off_t. */
	tokens &= INT64_MAX;
	index.kind = data[8] & 1 ? HM_TOKENS_INDEX_DATATROVE : HM_TOKENS_INDEX_MEGATRON;
	index.path = path_of(data + HEAD, size - HEAD);
	index.tokens = strdup("tokens");
	if (!index.path || !index.tokens)
		abort();
	if (!token_index_read(&index, tokens))
		check_documents(&index, tokens);
	token_index_end(&index);
	return 0;
}
