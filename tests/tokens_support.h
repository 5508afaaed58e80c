/* SPDX-License-Identifier: MIT */
/* Files of tokens that tests make, and batches of them. */
#ifndef HETMAP_TESTS_TOKENS_SUPPORT_H
#define HETMAP_TESTS_TOKENS_SUPPORT_H

#include <hetmap/tokens.h>

#include "command.h"
#include "support.h"

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

/* Runs a Python program with @folder as its argument: its exit status. 127: no python3. */
int run_python(const char *program, const char *folder);

#endif
