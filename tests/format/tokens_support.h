/* SPDX-License-Identifier: MIT */
/* Files of tokens that tests make, and batches of them. */
#ifndef HETMAP_TESTS_TOKENS_SUPPORT_H
#define HETMAP_TESTS_TOKENS_SUPPORT_H

#include <hetmap/tokens.h>

#include "lib/command.h"
#include "lib/support.h"

/* Token @i of every file here that counts: no two that are near are the same. */
static inline uint16_t token_at(uint64_t i)
{
	return (uint16_t)(i * 7 + i / 65521);
}

/* FOLDER/NAME with @n tokens of uint16 from number @first on. free() the path. */
char *tokens_file(const char *folder, const char *name, uint64_t first, uint64_t n);

/*
 * FOLDER/NAME, a .npy file of @version (1 to 3) with @descr ("<u2"), @shape ("(10,)") and
 * @length bytes. free() the path.
 */
char *tokens_npy(const char *folder, const char *name, unsigned int version, const char *descr,
		 bool fortran, const char *shape, const void *bytes, size_t length);

/* Opened, one file, or the test is abandoned. */
struct hm_tokens *tokens_open(const char *path, const struct hm_tokens_desc *desc);

struct hm_tokens_info tokens_info(struct hm_tokens *tokens);

/* ---- batches ---- */

#define BLOCK 16
#define BATCH 8
#define N (BLOCK * 100 + 9) /* 100 blocks, and some tokens that are in none */

/* Shuffled, to int32, seed 5. */
extern const struct hm_batches_desc batches_usual;

/* N tokens in three shards, whose ends are inside of blocks. */
struct token_scene {
	char *folder, *path[3];
	struct hm_tokens *tokens;
};

struct token_scene token_scene_begin(void);
void token_scene_end(struct token_scene *scene);
AUTO_END(token_scene, token_scene_end)

struct hm_batches *batches_make(const struct token_scene *scene,
				const struct hm_batches_desc *desc);
struct hm_batches_info batches_info(struct hm_batches *batches);
struct hm_batches_state batches_state(struct hm_batches *batches);

/* Compares x and y with the files, from the starts on. */
void batches_check(const struct hm_batch *batch, const int32_t *x, const int32_t *y);
/* The next one, of at most 64 blocks, checked. */
struct hm_batch batches_next(struct hm_batches *batches);

#endif
