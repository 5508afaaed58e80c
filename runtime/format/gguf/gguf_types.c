// SPDX-License-Identifier: MIT
/* Types of tensors and of metadata, by the format's numbers [ggml.h, gguf.h of ggml]. */
#include <errno.h>
#include <inttypes.h>

#include "format/gguf/gguf.h"

/* Names of numbers in files of the other byte order. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define OTHER " big-endian"
#else
#define OTHER " little-endian"
#endif

#define NUMBER(type, bytes) [HM_GGML_##type] = { #type, #type OTHER, HM_DTYPE_##type, 1, bytes }
#define BLOCK(type, elements, bytes) \
	[HM_GGML_##type] = { #type, #type OTHER, HM_DTYPE_OPAQUE, elements, bytes }
/* Types whose parts are single bytes: the same in files of either byte order. */
#define BYTES(type, dtype, elements, bytes) \
	[HM_GGML_##type] = { #type, NULL, dtype, elements, bytes }
#define REMOVED(number, name) [number] = { name, NULL, HM_DTYPE_OPAQUE, 0, 0 }

/* As GGML_QUANT_SIZES of the gguf package has them: tests/format/gguf_peer.py compares. */
static const struct gguf_type types[] = {
	NUMBER(F32, 4),
	NUMBER(F16, 2),
	BLOCK(Q4_0, 32, 18),
	BLOCK(Q4_1, 32, 20),
	REMOVED(4, "Q4_2"),
	REMOVED(5, "Q4_3"),
	BLOCK(Q5_0, 32, 22),
	BLOCK(Q5_1, 32, 24),
	BLOCK(Q8_0, 32, 34),
	BLOCK(Q8_1, 32, 40),
	BLOCK(Q2_K, 256, 84),
	BLOCK(Q3_K, 256, 110),
	BLOCK(Q4_K, 256, 144),
	BLOCK(Q5_K, 256, 176),
	BLOCK(Q6_K, 256, 210),
	BLOCK(Q8_K, 256, 292),
	BLOCK(IQ2_XXS, 256, 66),
	BLOCK(IQ2_XS, 256, 74),
	BLOCK(IQ3_XXS, 256, 98),
	BLOCK(IQ1_S, 256, 50),
	BLOCK(IQ4_NL, 32, 18),
	BLOCK(IQ3_S, 256, 110),
	BLOCK(IQ2_S, 256, 82),
	BLOCK(IQ4_XS, 256, 136),
	BYTES(I8, HM_DTYPE_I8, 1, 1),
	NUMBER(I16, 2),
	NUMBER(I32, 4),
	NUMBER(I64, 8),
	NUMBER(F64, 8),
	BLOCK(IQ1_M, 256, 56),
	NUMBER(BF16, 2),
	REMOVED(31, "Q4_0_4_4"),
	REMOVED(32, "Q4_0_4_8"),
	REMOVED(33, "Q4_0_8_8"),
	BLOCK(TQ1_0, 256, 54),
	BLOCK(TQ2_0, 256, 66),
	REMOVED(36, "IQ4_NL_4_4"),
	REMOVED(37, "IQ4_NL_4_8"),
	REMOVED(38, "IQ4_NL_8_8"),
	BYTES(MXFP4, HM_DTYPE_OPAQUE, 32, 17),
	BYTES(NVFP4, HM_DTYPE_OPAQUE, 64, 36),
	BLOCK(Q1_0, 128, 18),
	BLOCK(Q2_0, 64, 18),
};

int gguf_type_find(uint32_t number, const struct gguf_type **ret_type)
{
	const struct gguf_type *type = number < ARRAY_SIZE(types) ? &types[number] : NULL;

	if (!type || !type->name)
		return err_set(-ERANGE,
			       "type %u is unknown to this library: %zu and below are known",
			       number, ARRAY_SIZE(types) - 1);
	if (!type->block_bytes)
		return err_set(
			-EOPNOTSUPP,
			"type %u is %s, which ggml has removed: make the file anew, from "
			"the model that it was made of",
			number, type->name);
	*ret_type = type;
	return 0;
}

int gguf_bytes(const struct gguf_type *type, const uint64_t *ne, uint32_t rank,
	       uint64_t *ret_bytes)
{
	uint64_t product = 1;
	bool empty = false;
	uint32_t i;

	for (i = 0; i < rank; i++)
		empty |= !ne[i];
	for (i = 0; !empty && i < rank; i++)
		if (__builtin_mul_overflow(product, ne[i], &product))
			return err_set(-EOVERFLOW, "its dimensions have a product above 2^64");
	if (!empty && (rank ? ne[0] : 1) % type->block_elements)
		return err_set(-EBADMSG,
			       "its first dimension is %" PRIu64
			       ", and a block of %s has %u elements",
			       rank ? ne[0] : 1, type->name, type->block_elements);
	product = empty ? 0 : product / type->block_elements;
	if (__builtin_mul_overflow(product, type->block_bytes, &product))
		return err_set(-EOVERFLOW, "it has more than 2^64 bytes");
	*ret_bytes = product;
	return 0;
}

static const struct {
	const char *name;
	uint32_t bytes;
} kinds[] = {
	[HM_GGUF_U8] = { "u8", 1 },         [HM_GGUF_I8] = { "i8", 1 },
	[HM_GGUF_U16] = { "u16", 2 },       [HM_GGUF_I16] = { "i16", 2 },
	[HM_GGUF_U32] = { "u32", 4 },       [HM_GGUF_I32] = { "i32", 4 },
	[HM_GGUF_F32] = { "f32", 4 },       [HM_GGUF_BOOL] = { "bool", 1 },
	[HM_GGUF_STRING] = { "string", 0 }, [HM_GGUF_ARRAY] = { "array", 0 },
	[HM_GGUF_U64] = { "u64", 8 },       [HM_GGUF_I64] = { "i64", 8 },
	[HM_GGUF_F64] = { "f64", 8 },
};

uint32_t gguf_kind_bytes(uint32_t kind)
{
	return kind < ARRAY_SIZE(kinds) ? kinds[kind].bytes : 0;
}

const char *gguf_kind_name(uint32_t kind)
{
	return kind < ARRAY_SIZE(kinds) ? kinds[kind].name : NULL;
}

int hm_gguf_type(uint32_t number, struct hm_gguf_type_info *ret_info)
{
	const struct gguf_type *type = NULL;
	int r;

	err_begin();
	if (!ret_info)
		return err_set(-EINVAL, "hm_gguf_type: ret_info is NULL");
	r = struct_check_out(ret_info->struct_size, sizeof(*ret_info), sizeof(*ret_info),
			     "hm_gguf_type_info");
	if (!r)
		r = gguf_type_find(number, &type);
	if (r)
		return r;
	struct_write(ret_info,
		     &(struct hm_gguf_type_info){
			     .dtype = type->dtype,
			     .name = type->name,
			     .block_elements = type->block_elements,
			     .block_bytes = type->block_bytes,
		     },
		     ret_info->struct_size);
	return 0;
}
