// SPDX-License-Identifier: MIT
/* OpenCL's errors: their names, and the errno for each. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "accel/opencl/opencl.h"

#ifndef CL_PLATFORM_NOT_FOUND_KHR
#define CL_PLATFORM_NOT_FOUND_KHR -1001
#endif

#define E(name, r)             \
	{                      \
		name, r, #name \
	}

static const struct {
	cl_int error;
	int r;
	const char *name;
} errors[] = {
	E(CL_DEVICE_NOT_FOUND, -ENODEV),
	E(CL_DEVICE_NOT_AVAILABLE, -ENODEV),
	E(CL_COMPILER_NOT_AVAILABLE, -EOPNOTSUPP),
	E(CL_MEM_OBJECT_ALLOCATION_FAILURE, -ENOMEM),
	E(CL_OUT_OF_RESOURCES, -EIO),
	E(CL_OUT_OF_HOST_MEMORY, -ENOMEM),
	E(CL_PROFILING_INFO_NOT_AVAILABLE, -EIO),
	E(CL_MEM_COPY_OVERLAP, -EINVAL),
	E(CL_BUILD_PROGRAM_FAILURE, -ENOEXEC),
	E(CL_MAP_FAILURE, -EIO),
	E(CL_MISALIGNED_SUB_BUFFER_OFFSET, -EINVAL),
	E(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, -EIO),
	E(CL_COMPILE_PROGRAM_FAILURE, -ENOEXEC),
	E(CL_LINKER_NOT_AVAILABLE, -EOPNOTSUPP),
	E(CL_LINK_PROGRAM_FAILURE, -ENOEXEC),
	E(CL_KERNEL_ARG_INFO_NOT_AVAILABLE, -EOPNOTSUPP),
	E(CL_INVALID_VALUE, -EINVAL),
	E(CL_INVALID_DEVICE, -EIO),
	E(CL_INVALID_CONTEXT, -EIO),
	E(CL_INVALID_QUEUE_PROPERTIES, -EIO),
	E(CL_INVALID_COMMAND_QUEUE, -EIO),
	E(CL_INVALID_HOST_PTR, -EIO),
	E(CL_INVALID_MEM_OBJECT, -EIO),
	E(CL_INVALID_BINARY, -ENOEXEC),
	E(CL_INVALID_BUILD_OPTIONS, -ENOEXEC),
	E(CL_INVALID_PROGRAM, -EIO),
	E(CL_INVALID_PROGRAM_EXECUTABLE, -ENOEXEC),
	E(CL_INVALID_KERNEL_NAME, -EINVAL),
	E(CL_INVALID_KERNEL_DEFINITION, -ENOEXEC),
	E(CL_INVALID_KERNEL, -EIO),
	E(CL_INVALID_ARG_INDEX, -EINVAL),
	E(CL_INVALID_ARG_VALUE, -EINVAL),
	E(CL_INVALID_ARG_SIZE, -EINVAL),
	E(CL_INVALID_KERNEL_ARGS, -EINVAL),
	E(CL_INVALID_WORK_DIMENSION, -EINVAL),
	E(CL_INVALID_WORK_GROUP_SIZE, -EINVAL),
	E(CL_INVALID_WORK_ITEM_SIZE, -EINVAL),
	E(CL_INVALID_GLOBAL_OFFSET, -EINVAL),
	E(CL_INVALID_EVENT_WAIT_LIST, -EIO),
	E(CL_INVALID_EVENT, -EIO),
	E(CL_INVALID_OPERATION, -EIO),
	E(CL_INVALID_BUFFER_SIZE, -E2BIG),
	E(CL_INVALID_GLOBAL_WORK_SIZE, -EINVAL),
	E(CL_INVALID_PROPERTY, -EIO),
	E(CL_PLATFORM_NOT_FOUND_KHR, -ENODEV),
};

static size_t find(cl_int error)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(errors); i++)
		if (errors[i].error == error)
			break;
	return i;
}

const char *cl_error_name(cl_int error)
{
	static _Thread_local char unknown[32];
	size_t i = find(error);

	if (i < ARRAY_SIZE(errors))
		return errors[i].name;
	snprintf(unknown, sizeof(unknown), "OpenCL error %d", error);
	return unknown;
}

int cl_error(cl_int error, const char *format, ...)
{
	size_t i = find(error);
	char what[256];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	return err_set(i < ARRAY_SIZE(errors) ? errors[i].r : -EIO, "%s: the driver answers %s",
		       what, cl_error_name(error));
}
