// SPDX-License-Identifier: MIT
/*
 * Copies of memory that may be cut off, for drivers whose threads must not touch it: the
 * calling thread does, where a fault is the handler's and the fence tells of it, and hands
 * the driver bytes of its own.
 *
 * So the work that they belong to is waited for when it is submitted. Deferred, the copy back
 * would be some other thread's, of the driver's even, and late for who polls a descriptor.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "accel/opencl/opencl.h"
#include "base/sys.h"

/* At a time. */
#define PIECE_BYTES MIB(1)

/* NULL, with a text: there is no memory. */
static char *make_piece(uint64_t length)
{
	char *piece = sys_calloc(1, min_u64(length, PIECE_BYTES));

	if (!piece)
		err_set(-ENOMEM, "no memory to copy bytes of a map through");
	return piece;
}

int opencl_bring_by_hand(cl_command_queue queue, cl_mem memory, size_t offset, const char *from,
			 uint64_t length)
{
	char *piece = make_piece(length);
	uint64_t at, part;
	cl_int error;

	if (!piece)
		return -ENOMEM;
	/* Work before it in the queue may bring back what is read here. */
	error = clFinish(queue);
	for (at = 0; at < length && !error; at += part) {
		part = min_u64(PIECE_BYTES, length - at);
		memcpy(piece, from + at, part);
		error = clEnqueueWriteBuffer(queue, memory, CL_TRUE, offset + at, part, piece,
					     0, NULL, NULL);
	}
	free(piece);
	return error ? cl_error(error, "clEnqueueWriteBuffer, or clFinish before it") : 0;
}

int opencl_take_by_hand(cl_command_queue queue, cl_mem memory, size_t offset, char *to,
			uint64_t length)
{
	char *piece = make_piece(length);
	cl_int error = CL_SUCCESS;
	uint64_t at, part;

	if (!piece)
		return -ENOMEM;
	for (at = 0; at < length && !error; at += part) {
		part = min_u64(PIECE_BYTES, length - at);
		error = clEnqueueReadBuffer(queue, memory, CL_TRUE, offset + at, part, piece, 0,
					    NULL, NULL);
		if (!error)
			memcpy(to + at, piece, part);
	}
	free(piece);
	return error ? cl_error(error, "clEnqueueReadBuffer") : 0;
}
