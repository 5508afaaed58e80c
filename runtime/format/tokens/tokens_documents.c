// SPDX-License-Identifier: MIT
/* Documents in files of tokens, and the rows that batches of documents consist of. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/sys.h"
#include "format/tokens/tokens.h"

/* Documents between two entries of token_rows.before: a search ends with a short walk. */
#define ROWS_STRIDE 64

/* The shard of document @number, which must exist. */
static const struct token_shard *shard_of(const struct hm_tokens *tokens, uint64_t number)
{
	uint32_t low = 0, high = tokens->n_shard, middle;

	while (high - low > 1) {
		middle = low + (high - low) / 2;
		if (tokens->shard[middle].document <= number)
			low = middle;
		else
			high = middle;
	}
	return &tokens->shard[low];
}

/* Document @number, which must exist: its first token in the array, and its tokens, maybe 0. */
static void find_document(const struct hm_tokens *tokens, uint64_t number, uint64_t *ret_first,
			  uint64_t *ret_n)
{
	const struct token_shard *shard = shard_of(tokens, number);
	uint64_t first = 0, end = shard->n;

	number -= shard->document;
	if (shard->end) {
		first = number ? shard->end[number - 1] : 0;
		end = shard->end[number];
	}
	*ret_first = shard->first + first;
	*ret_n = end - first;
}

int hm_tokens_document(struct hm_tokens *tokens, uint64_t document, uint64_t *ret_first,
		       uint64_t *ret_n)
{
	int r;

	err_begin();
	if (!ret_first || !ret_n)
		return err_set(-EINVAL, "hm_tokens_document: %s is NULL",
			       ret_first ? "ret_n" : "ret_first");
	r = object_check(tokens ? &tokens->object : NULL, OBJECT_TOKENS);
	if (r)
		return r;
	if (document >= tokens->n_document)
		return err_set(-ERANGE, "there is no document %" PRIu64 ": there are %" PRIu64,
			       document, tokens->n_document);
	find_document(tokens, document, ret_first, ret_n);
	return 0;
}

/* ---- rows ---- */

/* Rows of a document of @n tokens: each has one token at least, and another one behind it. */
static uint64_t rows_of(uint64_t n, uint64_t step)
{
	return n > 1 ? (n - 2) / step + 1 : 0;
}

int token_rows_begin(struct token_rows *rows, const struct hm_tokens *tokens, uint64_t step)
{
	uint64_t entries = tokens->n_document / ROWS_STRIDE + 1, number, first, n;

	*rows = (struct token_rows){ .tokens = tokens, .step = step };
	rows->before = sys_calloc(entries, sizeof(*rows->before));
	if (!rows->before)
		return err_set(-ENOMEM, "no memory for the rows of %" PRIu64 " documents",
			       tokens->n_document);
	for (number = 0; number < tokens->n_document; number++) {
		if (number % ROWS_STRIDE == 0)
			rows->before[number / ROWS_STRIDE] = rows->n;
		find_document(tokens, number, &first, &n);
		rows->n += rows_of(n, step);
	}
	return 0;
}

void token_rows_end(struct token_rows *rows)
{
	free(rows->before);
	rows->before = NULL;
}

uint64_t token_rows_find(const struct token_rows *rows, uint64_t number, uint64_t *ret_first)
{
	uint64_t low = 0, high = (rows->tokens->n_document - 1) / ROWS_STRIDE + 1, middle;
	uint64_t document, first, n, own;

	while (high - low > 1) {
		middle = low + (high - low) / 2;
		if (rows->before[middle] <= number)
			low = middle;
		else
			high = middle;
	}
	number -= rows->before[low];
	for (document = low * ROWS_STRIDE;; document++, number -= own) {
		find_document(rows->tokens, document, &first, &n);
		own = rows_of(n, rows->step);
		if (number < own)
			break;
	}
	*ret_first = first + number * rows->step;
	return n - number * rows->step - 1;
}
