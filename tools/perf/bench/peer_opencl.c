// SPDX-License-Identifier: MIT
/* Peers that are bare OpenCL: an empty launch, SAXPY with copies and in place. */
#include <CL/cl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"

PEER_SOURCE(peer_opencl_source);

struct peer_opencl {
	cl_context context;
	cl_command_queue queue;
	cl_program program;
	cl_kernel kernel;
	cl_mem x, y;
};

#define PLATFORMS 16
#define DEVICES 16

static bool is_called(cl_platform_id platform, const char *wanted_platform, cl_device_id device,
		      const char *wanted_device)
{
	char name[256] = "";

	clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof(name), name, NULL);
	if (wanted_platform && !strstr(wanted_platform, name))
		return false;
	clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof(name), name, NULL);
	return !wanted_device || strstr(wanted_device, name);
}

static cl_device_id device_find(const char *wanted_platform, const char *wanted_device)
{
	cl_platform_id platforms[PLATFORMS];
	cl_device_id devices[DEVICES];
	cl_uint n_platform = 0, i, j;

	if (clGetPlatformIDs(PLATFORMS, platforms, &n_platform) != CL_SUCCESS)
		return NULL;
	for (i = 0; i < n_platform && i < PLATFORMS; i++) {
		cl_uint n_device = 0;

		if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, DEVICES, devices,
				   &n_device) != CL_SUCCESS)
			continue;
		for (j = 0; j < n_device && j < DEVICES; j++)
			if (is_called(platforms[i], wanted_platform, devices[j], wanted_device))
				return devices[j];
	}
	return NULL;
}

int peer_opencl_open(const char *platform, const char *device, const char *source,
		     const char *kernel, struct peer_opencl **ret_peer)
{
	cl_device_id id = device_find(platform, device);
	struct peer_opencl *peer;
	cl_int error;

	if (!id)
		return -ENODEV;
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return -ENOMEM;
	peer->context = clCreateContext(NULL, 1, &id, NULL, NULL, &error);
	if (error != CL_SUCCESS)
		goto close;
	peer->queue = clCreateCommandQueueWithProperties(peer->context, id, NULL, &error);
	if (error != CL_SUCCESS)
		goto close;
	peer->program = clCreateProgramWithSource(peer->context, 1, &source, NULL, &error);
	if (error != CL_SUCCESS)
		goto close;
	error = clBuildProgram(peer->program, 1, &id, "", NULL, NULL);
	if (error != CL_SUCCESS)
		goto close;
	peer->kernel = clCreateKernel(peer->program, kernel, &error);
	if (error != CL_SUCCESS)
		goto close;
	*ret_peer = peer;
	return 0;

close:
	peer_opencl_close(peer);
	return -EIO;
}

void peer_opencl_close(struct peer_opencl *peer)
{
	if (peer->x)
		clReleaseMemObject(peer->x);
	if (peer->y)
		clReleaseMemObject(peer->y);
	if (peer->kernel)
		clReleaseKernel(peer->kernel);
	if (peer->program)
		clReleaseProgram(peer->program);
	if (peer->queue)
		clReleaseCommandQueue(peer->queue);
	if (peer->context)
		clReleaseContext(peer->context);
	free(peer);
}

/* ---- launch ---- */

int peer_launch(struct peer_opencl *peer)
{
	const size_t one = 1;

	if (clEnqueueNDRangeKernel(peer->queue, peer->kernel, 1, NULL, &one, NULL, 0, NULL,
				   NULL) != CL_SUCCESS)
		return -EIO;
	return clFinish(peer->queue) == CL_SUCCESS ? 0 : -EIO;
}

/* ---- zero_copy ---- */

static int saxpy(struct peer_opencl *peer, float a, size_t bytes)
{
	const size_t n = bytes / sizeof(float);

	if (clSetKernelArg(peer->kernel, 0, sizeof(a), &a) != CL_SUCCESS ||
	    clSetKernelArg(peer->kernel, 1, sizeof(cl_mem), &peer->x) != CL_SUCCESS ||
	    clSetKernelArg(peer->kernel, 2, sizeof(cl_mem), &peer->y) != CL_SUCCESS)
		return -EIO;
	if (clEnqueueNDRangeKernel(peer->queue, peer->kernel, 1, NULL, &n, NULL, 0, NULL,
				   NULL) != CL_SUCCESS)
		return -EIO;
	return 0;
}

/* With copies: the buffers are made once, and stay. */
int peer_copy_create(struct peer_opencl *peer, size_t bytes)
{
	cl_int error;

	peer->x = clCreateBuffer(peer->context, CL_MEM_READ_ONLY, bytes, NULL, &error);
	if (error != CL_SUCCESS)
		return -ENOMEM;
	peer->y = clCreateBuffer(peer->context, CL_MEM_READ_WRITE, bytes, NULL, &error);
	return error == CL_SUCCESS ? 0 : -ENOMEM;
}

int peer_copy_saxpy(struct peer_opencl *peer, float a, const float *x, float *y, size_t bytes)
{
	int r;

	if (clEnqueueWriteBuffer(peer->queue, peer->x, CL_FALSE, 0, bytes, x, 0, NULL, NULL) !=
		    CL_SUCCESS ||
	    clEnqueueWriteBuffer(peer->queue, peer->y, CL_FALSE, 0, bytes, y, 0, NULL, NULL) !=
		    CL_SUCCESS)
		return -EIO;
	r = saxpy(peer, a, bytes);
	if (r)
		return r;
	if (clEnqueueReadBuffer(peer->queue, peer->y, CL_TRUE, 0, bytes, y, 0, NULL, NULL) !=
	    CL_SUCCESS)
		return -EIO;
	return 0;
}

/* In place: the host's memory is the buffer. */
int peer_host_create(struct peer_opencl *peer, float *x, float *y, size_t bytes)
{
	cl_int error;

	peer->x = clCreateBuffer(peer->context, CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR, bytes,
				 x, &error);
	if (error != CL_SUCCESS)
		return -ENOMEM;
	peer->y = clCreateBuffer(peer->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes,
				 y, &error);
	return error == CL_SUCCESS ? 0 : -ENOMEM;
}

int peer_host_saxpy(struct peer_opencl *peer, float a, size_t bytes)
{
	int r = saxpy(peer, a, bytes);

	if (r)
		return r;
	return clFinish(peer->queue) == CL_SUCCESS ? 0 : -EIO;
}
