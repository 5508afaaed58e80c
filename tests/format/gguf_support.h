/* SPDX-License-Identifier: MIT */
/* Files of GGUF that tests make byte by byte, right ones and wrong ones. */
#ifndef HETMAP_TESTS_GGUF_SUPPORT_H
#define HETMAP_TESTS_GGUF_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hetmap/gguf.h>

#include "lib/command.h"
#include "lib/support.h"

/* Bytes under way; big: numbers are written big-endian. Must begin zeroed. */
struct gguf_made {
	unsigned char bytes[16384];
	size_t n;
	bool big;
};

void made_number(struct gguf_made *made, uint64_t number, size_t n);
void made_string(struct gguf_made *made, const char *string);
/* Magic, version, and the numbers of tensors and of keys. */
void made_begin(struct gguf_made *made, uint32_t version, uint64_t tensors, uint64_t keys);
/* A key, its kind, and a number of @n bytes; @n 0: no value yet. */
void made_key(struct gguf_made *made, const char *key, uint32_t kind, uint64_t number,
	      size_t n);
void made_tensor(struct gguf_made *made, const char *name, uint32_t type, uint32_t rank,
		 const uint64_t *ne, uint64_t offset);
/* Zeros up to a multiple of @alignment, and then @bytes bytes, each its number. */
void made_data(struct gguf_made *made, size_t alignment, size_t bytes);
/* A whole file: keys of all kinds, and the tensors "a" (F32, 2x3), "b" (I8) and "q" (Q4_0). */
void made_whole(struct gguf_made *made, uint32_t version, bool big);

/* FOLDER/NAME with the first @n bytes. Returns the path, which lives until the next call. */
const char *made_file(const struct gguf_made *made, size_t n, const char *folder,
		      const char *name);

/* Opened, or the test is abandoned. */
struct hm_gguf *gguf_opened(const char *path);
struct hm_gguf_value value_of(struct hm_gguf *gguf, const char *key);
struct hm_gguf_tensor_info gguf_tensor_of(struct hm_gguf *gguf, const char *name);

#endif
