// SPDX-License-Identifier: MIT
/* Files of GGUF that tests make byte by byte, right ones and wrong ones. */
#include "format/gguf_support.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void made_number(struct gguf_made *made, uint64_t number, size_t n)
{
	size_t i;

	CHECK_FATAL(made->n + n <= sizeof(made->bytes));
	for (i = 0; i < n; i++)
		made->bytes[made->n + i] =
			(unsigned char)(number >> 8 * (made->big ? n - 1 - i : i));
	made->n += n;
}

static void add(struct gguf_made *made, const void *bytes, size_t n)
{
	CHECK_FATAL(made->n + n <= sizeof(made->bytes));
	memcpy(made->bytes + made->n, bytes, n);
	made->n += n;
}

void made_string(struct gguf_made *made, const char *string)
{
	made_number(made, strlen(string), 8);
	add(made, string, strlen(string));
}

void made_begin(struct gguf_made *made, uint32_t version, uint64_t tensors, uint64_t keys)
{
	add(made, "GGUF", 4);
	made_number(made, version, 4);
	made_number(made, tensors, 8);
	made_number(made, keys, 8);
}

void made_key(struct gguf_made *made, const char *key, uint32_t kind, uint64_t number, size_t n)
{
	made_string(made, key);
	made_number(made, kind, 4);
	made_number(made, number, n);
}

void made_tensor(struct gguf_made *made, const char *name, uint32_t type, uint32_t rank,
		 const uint64_t *ne, uint64_t offset)
{
	uint32_t i;

	made_string(made, name);
	made_number(made, rank, 4);
	for (i = 0; i < rank; i++)
		made_number(made, ne[i], 8);
	made_number(made, type, 4);
	made_number(made, offset, 8);
}

void made_data(struct gguf_made *made, size_t alignment, size_t bytes)
{
	size_t i;

	while (made->n % alignment)
		made_number(made, 0, 1);
	for (i = 0; i < bytes; i++)
		made_number(made, i & 255, 1);
}

void made_whole(struct gguf_made *made, uint32_t version, bool big)
{
	*made = (struct gguf_made){ .big = big };
	made_begin(made, version, 3, 15);
	made_key(made, "u8", HM_GGUF_U8, 200, 1);
	made_key(made, "i8", HM_GGUF_I8, (uint64_t)-3, 1);
	made_key(made, "u16", HM_GGUF_U16, 65535, 2);
	made_key(made, "i16", HM_GGUF_I16, (uint64_t)-300, 2);
	made_key(made, "u32", HM_GGUF_U32, 1u << 31, 4);
	made_key(made, "i32", HM_GGUF_I32, (uint64_t)-70000, 4);
	made_key(made, "f32", HM_GGUF_F32, 0x3fc00000, 4); /* 1.5 */
	made_key(made, "bool", HM_GGUF_BOOL, 1, 1);
	made_key(made, "u64", HM_GGUF_U64, 1ull << 63, 8);
	made_key(made, "i64", HM_GGUF_I64, (uint64_t)-5000000000, 8);
	made_key(made, "f64", HM_GGUF_F64, 0xbfe0000000000000, 8); /* -0.5 */
	made_key(made, "text", HM_GGUF_STRING, 0, 0);
	made_string(made, "h\xc3\xa9llo");
	made_key(made, "numbers", HM_GGUF_ARRAY, HM_GGUF_I16, 4);
	made_number(made, 3, 8);
	made_number(made, 1, 2);
	made_number(made, (uint64_t)-2, 2);
	made_number(made, 3, 2);
	made_key(made, "strings", HM_GGUF_ARRAY, HM_GGUF_STRING, 4);
	made_number(made, 3, 8);
	made_string(made, "one");
	made_string(made, "");
	made_string(made, "three");
	made_key(made, "empty", HM_GGUF_ARRAY, HM_GGUF_F64, 4);
	made_number(made, 0, 8);
	made_tensor(made, "a", HM_GGML_F32, 2, (const uint64_t[]){ 2, 3 }, 0);
	made_tensor(made, "q", HM_GGML_Q4_0, 1, (const uint64_t[]){ 64 }, 64);
	made_tensor(made, "b", HM_GGML_I8, 1, (const uint64_t[]){ 5 }, 32);
	made_data(made, 32, 64 + 36);
}

const char *made_file(const struct gguf_made *made, size_t n, const char *folder,
		      const char *name)
{
	static char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	unlink(path);
	file = fopen(path, "w");
	CHECK_FATAL(file != NULL);
	CHECK_EQUAL(fwrite(made->bytes, 1, n, file), n);
	CHECK_FATAL(!fclose(file));
	return path;
}

struct hm_gguf *gguf_opened(const char *path)
{
	struct hm_gguf *gguf = NULL;

	CHECK_OK_FATAL(hm_gguf_open(path, 0, &gguf));
	return gguf;
}

struct hm_gguf_value value_of(struct hm_gguf *gguf, const char *key)
{
	struct hm_gguf_value value = { .struct_size = sizeof(value) };
	uint64_t index = 0;

	CHECK_OK_FATAL(hm_gguf_metadata_find(gguf, key, &index));
	CHECK_OK_FATAL(hm_gguf_metadata(gguf, index, &value));
	CHECK(!strcmp(value.key, key));
	return value;
}

struct hm_gguf_tensor_info gguf_tensor_of(struct hm_gguf *gguf, const char *name)
{
	struct hm_gguf_tensor_info info = { .struct_size = sizeof(info) };
	uint64_t index = 0;

	CHECK_OK_FATAL(hm_gguf_find(gguf, name, &index));
	CHECK_OK_FATAL(hm_gguf_at(gguf, index, &info));
	CHECK(!strcmp(info.name, name) && info.index == index);
	return info;
}
