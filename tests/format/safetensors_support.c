// SPDX-License-Identifier: MIT
/* Files of tensors that tests make, right ones and wrong ones. */
#include "format/safetensors_support.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/inject.h"

static FILE *begin(const char *folder, const char *name, const char *header, uint64_t length,
		   const char **ret_path)
{
	static char path[512];
	uint64_t word = htole64(length);
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	unlink(path);
	file = fopen(path, "w");
	CHECK_FATAL(file != NULL);
	CHECK_EQUAL(fwrite(&word, 1, sizeof(word), file), sizeof(word));
	CHECK_EQUAL(fwrite(header, 1, strlen(header), file), strlen(header));
	*ret_path = path;
	return file;
}

const char *tensors_file(const char *folder, const char *name, const char *header,
			 uint64_t data)
{
	return tensors_sparse_file(folder, name, header, 0, data);
}

const char *tensors_sparse_file(const char *folder, const char *name, const char *header,
				uint64_t from, uint64_t data)
{
	const char *path;
	FILE *file = begin(folder, name, header, strlen(header), &path);
	uint64_t i;

	CHECK_FATAL(!fseeko(file, (off_t)from, SEEK_CUR));
	for (i = from; i < data; i++)
		putc(data_byte(i), file);
	CHECK_FATAL(!fclose(file));
	return path;
}

const char *tensors_odd_file(const char *folder, const char *name, const char *header,
			     uint64_t length, uint64_t size)
{
	const char *path;
	FILE *file = begin(folder, name, header, length, &path);

	CHECK_FATAL(!fclose(file));
	CHECK_FATAL(!truncate(path, (off_t)size));
	return path;
}

struct hm_safetensors *tensors_open(const char *path)
{
	struct hm_safetensors *safetensors;

	CHECK_OK_FATAL(hm_safetensors_open(path, 0, &safetensors));
	return safetensors;
}

struct hm_pieces *pieces_open(const char *path)
{
	struct hm_pieces *pieces;

	CHECK_OK_FATAL(hm_pieces_open(path, NULL, &pieces));
	return pieces;
}

void tensors_open_failing(const char *path, unsigned int least)
{
	struct hm_safetensors *safetensors;
	bool failed = true;
	unsigned int n;
	int r;

	make_table();
	inject_install();
	for (n = 1; failed; n++) {
		safetensors = UNTOUCHED;
		inject_arm(n, INJECT_ONE);
		r = hm_safetensors_open(path, 0, &safetensors);
		failed = inject_disarm();
		if (r)
			CHECK(failed && safetensors == UNTOUCHED && *hm_errmsg());
		else
			hm_safetensors_unref(safetensors);
		inject_forgive();
	}
	CHECK(n > least);
}

struct hm_tensor_info tensor_info(struct hm_safetensors *safetensors, const char *name)
{
	struct hm_tensor_info info = { .struct_size = sizeof(info) };
	uint64_t index;

	CHECK_OK_FATAL(hm_safetensors_find(safetensors, name, &index));
	CHECK_OK_FATAL(hm_safetensors_tensor(safetensors, HM_TENSORS_BY_OFFSET, index, &info));
	CHECK_EQUAL(info.index, index);
	return info;
}
