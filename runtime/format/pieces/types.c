// SPDX-License-Identifier: MIT
/* The types of elements that several formats have, by enum hm_dtype. */
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "format/pieces/pieces.h"

static const struct {
	const char *name;
	uint32_t bits;
} dtypes[] = {
	[HM_DTYPE_BOOL] = { "BOOL", 8 },
	[HM_DTYPE_F4] = { "F4", 4 },
	[HM_DTYPE_F6_E2M3] = { "F6_E2M3", 6 },
	[HM_DTYPE_F6_E3M2] = { "F6_E3M2", 6 },
	[HM_DTYPE_U8] = { "U8", 8 },
	[HM_DTYPE_I8] = { "I8", 8 },
	[HM_DTYPE_F8_E5M2] = { "F8_E5M2", 8 },
	[HM_DTYPE_F8_E4M3] = { "F8_E4M3", 8 },
	[HM_DTYPE_F8_E8M0] = { "F8_E8M0", 8 },
	[HM_DTYPE_F8_E4M3FNUZ] = { "F8_E4M3FNUZ", 8 },
	[HM_DTYPE_F8_E5M2FNUZ] = { "F8_E5M2FNUZ", 8 },
	[HM_DTYPE_I16] = { "I16", 16 },
	[HM_DTYPE_U16] = { "U16", 16 },
	[HM_DTYPE_F16] = { "F16", 16 },
	[HM_DTYPE_BF16] = { "BF16", 16 },
	[HM_DTYPE_I32] = { "I32", 32 },
	[HM_DTYPE_U32] = { "U32", 32 },
	[HM_DTYPE_F32] = { "F32", 32 },
	[HM_DTYPE_C64] = { "C64", 64 },
	[HM_DTYPE_F64] = { "F64", 64 },
	[HM_DTYPE_I64] = { "I64", 64 },
	[HM_DTYPE_U64] = { "U64", 64 },
};

const char *hm_dtype_name(uint32_t dtype)
{
	return dtype < ARRAY_SIZE(dtypes) ? dtypes[dtype].name : NULL;
}

uint32_t hm_dtype_bits(uint32_t dtype)
{
	return dtype < ARRAY_SIZE(dtypes) ? dtypes[dtype].bits : 0;
}

int dtype_find(const char *name, uint32_t *ret_dtype)
{
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(dtypes); i++)
		if (!strcmp(dtypes[i].name, name)) {
			*ret_dtype = i;
			return 0;
		}
	return -ENOENT;
}

void piece_set_type(struct piece *piece, uint32_t dtype)
{
	uint32_t bits = hm_dtype_bits(dtype), n = 1;

	/* The fewest elements that fill whole bytes. */
	while (n * bits % 8)
		n++;
	piece->dtype = dtype;
	piece->type = hm_dtype_name(dtype);
	piece->block_elements = n;
	piece->block_bytes = n * bits / 8;
}
