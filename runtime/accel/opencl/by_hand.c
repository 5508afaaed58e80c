// SPDX-License-Identifier: MIT
/*
 * Copies of memory that may be cut off, for drivers with threads that must not touch it. The
 * calling thread copies, so that a fault reaches the handler and the fence, and hands bytes of
 * its own to the driver.
 *
 * Such work is waited for when it is submitted. A later copy back would run on another thread,
 * even one of the driver, and come too late for a caller that polls a descriptor.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "accel/opencl/opencl.h"
#include "base/sys.h"

/* Bytes at a time. */
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
	/* Earlier work in the queue may bring back the bytes read here. */
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
