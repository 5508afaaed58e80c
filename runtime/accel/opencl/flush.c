// SPDX-License-Identifier: MIT
/*
 * Unified memory that is not coherent: a map and unmap around each launch, of exactly the bytes
 * of its arguments.
 *
 * Nothing stays mapped in between, so the bytes beside an argument are never touched. The
 * self-test runs these very calls before the library relies on them.
 */
#include "accel/opencl/opencl.h"

int opencl_flush_in(cl_command_queue queue, cl_mem memory, size_t offset, size_t length)
{
	cl_int error;
	void *at;

	/* The device's bytes are stale: the map need not bring them here. */
	at = clEnqueueMapBuffer(queue, memory, CL_FALSE, CL_MAP_WRITE_INVALIDATE_REGION, offset,
				length, 0, NULL, NULL, &error);
	if (error)
		return cl_error(error, "clEnqueueMapBuffer");
	error = clEnqueueUnmapMemObject(queue, memory, at, 0, NULL, NULL);
	return error ? cl_error(error, "clEnqueueUnmapMemObject") : 0;
}

int opencl_flush_out(cl_command_queue queue, cl_mem memory, size_t offset, size_t length,
		     cl_event *ret_event)
{
	cl_int error;
	void *at;

	at = clEnqueueMapBuffer(queue, memory, CL_FALSE, CL_MAP_READ, offset, length, 0, NULL,
				NULL, &error);
	if (error)
		return cl_error(error, "clEnqueueMapBuffer");
	error = clEnqueueUnmapMemObject(queue, memory, at, 0, NULL, ret_event);
	return error ? cl_error(error, "clEnqueueUnmapMemObject") : 0;
}
