/* SPDX-License-Identifier: MIT */
/*
 * Pairs of files: tokens, and an index of the documents among them. Megatron's are NAME.bin and
 * NAME.idx [Megatron-LM, megatron/core/datasets/indexed_dataset.py]; datatrove's are NAME.ds and
 * NAME.ds.index [datatrove, pipeline/tokens/tokenizer.py].
 */
#ifndef HETMAP_FORMAT_TOKENS_INDEX_H
#define HETMAP_FORMAT_TOKENS_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include <hetmap/tokens.h>

struct token_index {
	uint32_t kind; /* enum hm_tokens_index */
	char *path;    /* of the index */
	char *tokens;  /* path of the file of tokens */

	/* Set by token_index_read(): */
	uint32_t dtype; /* enum hm_dtype */
	bool swapped;   /* tokens are not in this machine's byte order */
	uint64_t *end;  /* of each document: number of the token behind it, in the file */
	uint64_t n;     /* documents */
};

/*
 * Finds the pair that the file at @path is of, by its name and by the files beside it. The kind is
 * HM_TOKENS_INDEX_NONE if it is of none. The caller must call token_index_end(), after an error,
 * too. Texts begin with a path.
 */
int token_index_find(const char *path, struct token_index *ret_index);

/* Reads the index of a file with @size bytes of tokens, and checks all of it. */
int token_index_read(struct token_index *index, uint64_t size);

void token_index_end(struct token_index *index);

#endif
