/* SPDX-License-Identifier: MIT */
/* Files of tensors that tests make, right ones and wrong ones. */
#ifndef HETMAP_TESTS_SAFETENSORS_SUPPORT_H
#define HETMAP_TESTS_SAFETENSORS_SUPPORT_H

#include <hetmap/safetensors.h>

#include "lib/command.h"
#include "lib/support.h"

/* Byte @i of the data section of every file here. */
static inline unsigned char data_byte(uint64_t i)
{
	return (unsigned char)(i * 7 + i / 251);
}

/* The value of a result before a call that must not touch it. */
#define UNTOUCHED ((void *)0x10)

/*
 * FOLDER/NAME: the length of @header, @header and @data bytes of data. Returns the path,
 * which lives until the next call.
 */
const char *tensors_file(const char *folder, const char *name, const char *header,
			 uint64_t data);

/* The same with any length before it, and a file of @size bytes, sparse behind the header. */
const char *tensors_odd_file(const char *folder, const char *name, const char *header,
			     uint64_t length, uint64_t size);

/* A right one of @data bytes of data, of which those before @from are a hole. */
const char *tensors_sparse_file(const char *folder, const char *name, const char *header,
				uint64_t from, uint64_t data);

/* Opened, or the test is abandoned. */
struct hm_safetensors *tensors_open(const char *path);
struct hm_pieces *pieces_open(const char *path);

/*
 * Opens @path again and again, each time with the next call that can fail failing, until none
 * fails: more than @least times. Makes the table of calls, and installs the injection.
 */
void tensors_open_failing(const char *path, unsigned int least);

struct hm_tensor_info tensor_info(struct hm_safetensors *safetensors, const char *name);

#endif
