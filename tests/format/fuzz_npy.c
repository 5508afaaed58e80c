// SPDX-License-Identifier: MIT
/*
 * libFuzzer: the head of a .npy file. An accepted head has a shape that its bytes agree with,
 * and a refused one changes nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "format/npy/npy.h"

#define MUST(condition)           \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct npy_header header = { 0 }, before;
	uint64_t elements = 1;
	uint32_t length, i;

	if (npy_begin(data, size < NPY_BEGIN_MAX ? size : NPY_BEGIN_MAX, &header, &length))
		return 0;
	MUST(length <= NPY_HEADER_MAX && header.data >= 10 + length);
	MUST(header.version >= 1 && header.version <= 3);
	if (header.data > size)
		return 0;
	before = header;
	if (npy_parse((const char *)data + header.data - length, length, &header)) {
		MUST(before.dtype == header.dtype && before.rank == header.rank);
		MUST(before.bytes == header.bytes && before.data == header.data);
		return 0;
	}
	MUST(header.rank <= HM_NPY_RANK_MAX && memchr(header.descr, 0, sizeof(header.descr)));
	if (header.dtype != HM_NPY_OPAQUE)
		MUST(header.itemsize && header.itemsize == hm_dtype_bits(header.dtype) / 8);
	MUST(header.itemsize <= INT32_MAX);
	MUST(!header.fortran || header.rank > 1);
	for (i = 0; i < header.rank; i++)
		MUST(!__builtin_mul_overflow(elements, header.shape[i], &elements));
	MUST(elements == header.elements);
	MUST(!__builtin_mul_overflow(elements, header.itemsize, &elements));
	MUST(header.bytes == elements);
	return 0;
}
