// SPDX-License-Identifier: MIT
/* The test driver: buffers, and the commands that move bytes. */
#include <stdlib.h>
#include <string.h>

#include "accel/stub_icd.h"

static struct stub_memory *new_memory(cl_mem_flags flags, char *host, size_t size, bool copies)
{
	struct stub_memory *memory = stub_new(STUB_MEMORY, sizeof(*memory));

	memory->flags = flags;
	memory->host = host;
	memory->size = size;
	memory->own = !host || copies;
	memory->bytes = host;
	if (memory->own) {
		memory->bytes = calloc(1, size);
		if (!memory->bytes)
			abort();
		if (host)
			memcpy(memory->bytes, host, size);
	}
	return memory;
}

static cl_mem CL_API_CALL do_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size,
					    void *host, cl_int *ret_error)
{
	(void)context;
	STUB_ENTER_NEW(ret_error);
	if (!size || size > STUB_MAX_ALLOC) {
		*ret_error = CL_INVALID_BUFFER_SIZE;
		return NULL;
	}
	if (!host != !(flags & CL_MEM_USE_HOST_PTR)) {
		*ret_error = CL_INVALID_HOST_PTR;
		return NULL;
	}
	return (cl_mem)new_memory(flags, host, size, stub_modes.shadow);
}

cl_mem CL_API_CALL stub_import(cl_context context, cl_mem_flags flags,
			       const cl_import_properties_arm *properties, void *memory,
			       size_t size, cl_int *ret_error)
{
	(void)context;
	*ret_error = stub_enter("clImportMemoryARM");
	if (*ret_error)
		return NULL;
	if (!properties || properties[0] != CL_IMPORT_TYPE_ARM ||
	    properties[1] != CL_IMPORT_TYPE_HOST_ARM || properties[2]) {
		*ret_error = CL_INVALID_PROPERTY;
		return NULL;
	}
	return (cl_mem)new_memory(flags, memory, size, false);
}

static cl_mem CL_API_CALL do_clCreateSubBuffer(cl_mem id, cl_mem_flags flags,
					       cl_buffer_create_type type, const void *info,
					       cl_int *ret_error)
{
	struct stub_memory *parent = (struct stub_memory *)id, *memory;
	const cl_buffer_region *region = info;

	(void)type, (void)flags;
	STUB_ENTER_NEW(ret_error);
	if (!stub_is(id, STUB_MEMORY) || parent->parent)
		*ret_error = CL_INVALID_MEM_OBJECT;
	else if (region->origin % STUB_ALIGNMENT)
		*ret_error = CL_MISALIGNED_SUB_BUFFER_OFFSET;
	else if (!region->size || region->origin + region->size > parent->size)
		*ret_error = CL_INVALID_VALUE;
	if (*ret_error)
		return NULL;
	memory = stub_new(STUB_MEMORY, sizeof(*memory));
	memory->parent = parent;
	parent->object.refs++;
	memory->flags = parent->flags;
	memory->host = parent->host ? parent->host + region->origin : NULL;
	memory->bytes = parent->bytes + region->origin;
	memory->size = region->size;
	return (cl_mem)memory;
}

static cl_int CL_API_CALL do_clRetainMemObject(cl_mem memory)
{
	STUB_ENTER();
	return stub_retain(memory, STUB_MEMORY, CL_INVALID_MEM_OBJECT);
}

static void drop_memory(struct stub_memory *memory)
{
	struct stub_memory *parent = memory->parent;

	if (!stub_drop(memory))
		return;
	if (memory->own)
		free(memory->bytes);
	stub_free(memory);
	if (parent)
		drop_memory(parent);
}

static cl_int CL_API_CALL do_clReleaseMemObject(cl_mem memory)
{
	STUB_ENTER();
	if (!stub_is(memory, STUB_MEMORY))
		return CL_INVALID_MEM_OBJECT;
	drop_memory((struct stub_memory *)memory);
	return CL_SUCCESS;
}

/* ---- commands ---- */

static bool holds(cl_mem id, size_t offset, size_t length)
{
	struct stub_memory *memory = (struct stub_memory *)id;

	return stub_is(id, STUB_MEMORY) && length && offset <= memory->size &&
	       length <= memory->size - offset;
}

static cl_int CL_API_CALL do_clEnqueueReadBuffer(cl_command_queue queue, cl_mem id,
						 cl_bool blocking, size_t offset, size_t length,
						 void *to, cl_uint n, const cl_event *wait,
						 cl_event *ret_event)
{
	(void)queue, (void)blocking, (void)n, (void)wait;
	STUB_ENTER();
	if (!holds(id, offset, length))
		return CL_INVALID_VALUE;
	stub_copy(to, ((struct stub_memory *)id)->bytes + offset, length);
	return stub_done(ret_event, CL_COMPLETE);
}

static cl_int CL_API_CALL do_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem id,
						  cl_bool blocking, size_t offset,
						  size_t length, const void *from, cl_uint n,
						  const cl_event *wait, cl_event *ret_event)
{
	(void)queue, (void)blocking, (void)n, (void)wait;
	STUB_ENTER();
	if (!holds(id, offset, length))
		return CL_INVALID_VALUE;
	stub_copy(((struct stub_memory *)id)->bytes + offset, from, length);
	return stub_done(ret_event, CL_COMPLETE);
}

static cl_int CL_API_CALL do_clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to,
						 size_t from_offset, size_t to_offset,
						 size_t length, cl_uint n, const cl_event *wait,
						 cl_event *ret_event)
{
	(void)queue, (void)n, (void)wait;
	STUB_ENTER();
	if (!holds(from, from_offset, length) || !holds(to, to_offset, length))
		return CL_INVALID_VALUE;
	memmove(((struct stub_memory *)to)->bytes + to_offset,
		((struct stub_memory *)from)->bytes + from_offset, length);
	return stub_done(ret_event, CL_COMPLETE);
}

static cl_int CL_API_CALL do_clEnqueueFillBuffer(cl_command_queue queue, cl_mem id,
						 const void *pattern, size_t pattern_size,
						 size_t offset, size_t length, cl_uint n,
						 const cl_event *wait, cl_event *ret_event)
{
	size_t i;

	(void)queue, (void)n, (void)wait;
	STUB_ENTER();
	if (!holds(id, offset, length) || offset % pattern_size || length % pattern_size)
		return CL_INVALID_VALUE;
	for (i = 0; i < length; i += pattern_size)
		memcpy(((struct stub_memory *)id)->bytes + offset + i, pattern, pattern_size);
	return stub_done(ret_event, CL_COMPLETE);
}

static cl_int CL_API_CALL do_clEnqueueSVMMemFill(cl_command_queue queue, void *to,
						 const void *pattern, size_t pattern_size,
						 size_t length, cl_uint n, const cl_event *wait,
						 cl_event *ret_event)
{
	size_t i;

	(void)queue, (void)n, (void)wait;
	STUB_ENTER();
	for (i = 0; i < length; i += pattern_size)
		memcpy((char *)to + i, pattern, pattern_size);
	return stub_done(ret_event, CL_COMPLETE);
}

static cl_int CL_API_CALL do_clEnqueueSVMMemcpy(cl_command_queue queue, cl_bool blocking,
						void *to, const void *from, size_t length,
						cl_uint n, const cl_event *wait,
						cl_event *ret_event)
{
	(void)queue, (void)blocking, (void)n, (void)wait;
	STUB_ENTER();
	stub_copy(to, from, length);
	return stub_done(ret_event, CL_COMPLETE);
}

/* ---- map and unmap: one region at a time, as the library uses them ---- */

static struct mapping {
	struct stub_memory *memory;
	char *at;
	size_t offset, length;
	cl_map_flags flags;
} mappings[64];

static void *CL_API_CALL do_clEnqueueMapBuffer(cl_command_queue queue, cl_mem id,
					       cl_bool blocking, cl_map_flags flags,
					       size_t offset, size_t length, cl_uint n,
					       const cl_event *wait, cl_event *ret_event,
					       cl_int *ret_error)
{
	struct stub_memory *memory = (struct stub_memory *)id;
	struct mapping *mapping = mappings;

	(void)queue, (void)blocking, (void)n, (void)wait;
	STUB_ENTER_NEW(ret_error);
	if (!holds(id, offset, length) || !memory->host) {
		*ret_error = CL_INVALID_VALUE;
		return NULL;
	}
	while (mapping->memory)
		if (++mapping == mappings + 64)
			abort();
	*mapping = (struct mapping){ memory, memory->host + offset, offset, length, flags };
	if (memory->bytes != memory->host && !(flags & CL_MAP_WRITE_INVALIDATE_REGION))
		memcpy(memory->host + offset, memory->bytes + offset, length);
	*ret_error = stub_done(ret_event, CL_COMPLETE);
	return mapping->at;
}

static cl_int CL_API_CALL do_clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem id,
						     void *at, cl_uint n, const cl_event *wait,
						     cl_event *ret_event)
{
	struct stub_memory *memory = (struct stub_memory *)id;
	struct mapping *mapping = mappings;

	(void)queue, (void)n, (void)wait;
	STUB_ENTER();
	while (mapping->memory != memory || mapping->at != at)
		if (++mapping == mappings + 64)
			return CL_INVALID_VALUE;
	if (memory->bytes != memory->host &&
	    (mapping->flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION)))
		memcpy(memory->bytes + mapping->offset, mapping->at, mapping->length);
	mapping->memory = NULL;
	return stub_done(ret_event, CL_COMPLETE);
}

void stub_memory_table(cl_icd_dispatch *table)
{
	table->clCreateBuffer = do_clCreateBuffer;
	table->clCreateSubBuffer = do_clCreateSubBuffer;
	table->clRetainMemObject = do_clRetainMemObject;
	table->clReleaseMemObject = do_clReleaseMemObject;
	table->clEnqueueReadBuffer = do_clEnqueueReadBuffer;
	table->clEnqueueWriteBuffer = do_clEnqueueWriteBuffer;
	table->clEnqueueCopyBuffer = do_clEnqueueCopyBuffer;
	table->clEnqueueFillBuffer = do_clEnqueueFillBuffer;
	table->clEnqueueSVMMemFill = do_clEnqueueSVMMemFill;
	table->clEnqueueSVMMemcpy = do_clEnqueueSVMMemcpy;
	table->clEnqueueMapBuffer = do_clEnqueueMapBuffer;
	table->clEnqueueUnmapMemObject = do_clEnqueueUnmapMemObject;
}
