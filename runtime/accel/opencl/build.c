// SPDX-License-Identifier: MIT
/* OpenCL C source to a kernel: from the cache of binaries, or by compiling. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accel/opencl/opencl.h"
#include "base/sys.h"

/* Names and qualifiers of arguments, for the checks of a launch. */
#define ALWAYS_OPTIONS "-cl-kernel-arg-info"

static int refuse_source(struct opencl *cl, const char *name, cl_program program)
{
	const size_t room = ERR_TEXT_MAX - 512;
	char *log = sys_calloc(1, room);
	size_t length = 0;

	err_set(-ENOEXEC, "kernel %s does not compile for %s", name, cl->device->name);
	if (log)
		clGetProgramBuildInfo(program, cl->device->id, CL_PROGRAM_BUILD_LOG, room - 1,
				      log, &length);
	err_append_lines(-ENOEXEC,
			 log && *log ? log : "(the driver gives no build log that fits)");
	free(log);
	return -ENOEXEC;
}

static int from_source(struct opencl *cl, const char *name, const char *source,
		       const char *options, cl_program *ret_program)
{
	cl_program program;
	cl_int error;
	int r;

	program = clCreateProgramWithSource(cl->context, 1, &source, NULL, &error);
	if (error)
		return cl_error(error, "kernel %s: clCreateProgramWithSource", name);
	error = clBuildProgram(program, 1, &cl->device->id, options, NULL, NULL);
	if (error == CL_BUILD_PROGRAM_FAILURE || error == CL_INVALID_BUILD_OPTIONS) {
		r = refuse_source(cl, name, program);
		goto err_release;
	}
	if (error) {
		r = cl_error(error, "kernel %s: clBuildProgram", name);
		goto err_release;
	}
	*ret_program = program;
	return 0;

err_release:
	clReleaseProgram(program);
	return r;
}

/* On any failure the caller compiles the source. */
static int from_binary(struct opencl *cl, const unsigned char *binary, size_t length,
		       const char *options, cl_program *ret_program)
{
	cl_int error, status = CL_SUCCESS;
	cl_program program;

	program = clCreateProgramWithBinary(cl->context, 1, &cl->device->id, &length, &binary,
					    &status, &error);
	if (error)
		return -ENOEXEC;
	error = status ? status :
			 clBuildProgram(program, 1, &cl->device->id, options, NULL, NULL);
	if (error) {
		clReleaseProgram(program);
		return -ENOEXEC;
	}
	*ret_program = program;
	return 0;
}

static void store_binary(const struct cache_key *key, cl_program program)
{
	unsigned char *binary;
	size_t length = 0;

	if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(length), &length, NULL) ||
	    !length)
		return;
	binary = sys_calloc(1, length);
	if (!binary)
		return;
	if (!clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(binary), &binary, NULL))
		cache_store(key, binary, length);
	free(binary);
}

int opencl_program(struct opencl *cl, const char *name, const char *source, const char *options,
		   cl_program *ret_program)
{
	const char *own = cl->device->build_options;
	size_t size =
		sizeof(ALWAYS_OPTIONS) + 2 + strlen(own) + (options ? strlen(options) : 0);
	unsigned char *binary;
	struct cache_key key;
	char *all_options;
	size_t length;
	bool cached;
	int lock, r;

	all_options = sys_calloc(1, size);
	if (!all_options)
		return err_set(-ENOMEM, "kernel %s: no memory to build it", name);
	snprintf(all_options, size, "%s %s %s", ALWAYS_OPTIONS, own, options ? options : "");
	r = cache_key_make(cl->device, source, all_options, &key);
	if (r) {
		r = err_set(r, "kernel %s: no memory to build it", name);
		goto out_options;
	}
	/* A driver may unpack a binary into its own cache, so loading is a build, too. */
	lock = build_lock_take(cl->device);
	cached = !cache_may_read_files(source, options);
	r = cached ? cache_load(&key, &binary, &length) : -ENOENT;
	if (!r) {
		r = from_binary(cl, binary, length, all_options, ret_program);
		free(binary);
	}
	if (r) {
		r = from_source(cl, name, source, all_options, ret_program);
		if (!r && cached && lock >= 0)
			store_binary(&key, *ret_program);
	}
	build_lock_drop(lock);
	free(key.text);
out_options:
	free(all_options);
	return r;
}

/* Type of a scalar parameter, or a vector. */
struct scalar {
	uint8_t size; /* bytes; 0: not known */
	uint8_t type; /* enum hm_arg_type */
};

/* By the name of the type; a struct, or a typedef, is not known. */
static struct scalar scalar_of(const char *type)
{
	static const struct {
		const char *name;
		struct scalar scalar;
	} scalars[] = {
		{ "char", { 1, HM_ARG_INTEGER } },  { "uchar", { 1, HM_ARG_INTEGER } },
		{ "short", { 2, HM_ARG_INTEGER } }, { "ushort", { 2, HM_ARG_INTEGER } },
		{ "int", { 4, HM_ARG_INTEGER } },   { "uint", { 4, HM_ARG_INTEGER } },
		{ "long", { 8, HM_ARG_INTEGER } },  { "ulong", { 8, HM_ARG_INTEGER } },
		{ "half", { 2, HM_ARG_FLOAT } },    { "float", { 4, HM_ARG_FLOAT } },
		{ "double", { 8, HM_ARG_FLOAT } },
	};
	/* Vectors of 3 have the room of 4 [OpenCL C, "Alignment of Types"]. */
	static const struct {
		const char *name;
		uint8_t room;
	} vectors[] = { { "2", 2 }, { "3", 4 }, { "4", 4 }, { "8", 8 }, { "16", 16 } };
	size_t i, k, length;

	for (i = 0; i < ARRAY_SIZE(scalars); i++) {
		length = strlen(scalars[i].name);
		if (strncmp(scalars[i].name, type, length) != 0)
			continue;
		if (!type[length])
			return scalars[i].scalar;
		for (k = 0; k < ARRAY_SIZE(vectors); k++)
			if (!strcmp(vectors[k].name, type + length))
				return (struct scalar){
					(uint8_t)(scalars[i].scalar.size * vectors[k].room),
					HM_ARG_VECTOR,
				};
	}
	return (struct scalar){ 0, 0 };
}

/*
 * Is the parameter a pointer to const? A cast may remove const: then only the signature and the
 * launch tell.
 */
static void ask_const(cl_kernel kernel, cl_uint i, struct hm_accel_parameters *source)
{
	cl_kernel_arg_type_qualifier qualifiers;

	if (clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_TYPE_QUALIFIER, sizeof(qualifiers),
			       &qualifiers, NULL))
		return;
	if (qualifiers & CL_KERNEL_ARG_TYPE_CONST)
		source->reads_only |= 1u << i;
	else
		source->writes |= 1u << i;
}

/* Reads the driver's description of parameter @i; zeros where it has none. */
static void ask_parameter(cl_kernel kernel, cl_uint i, struct hm_accel_parameters *source)
{
	cl_kernel_arg_address_qualifier space;
	struct scalar scalar;
	char type[128] = "";

	if (clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof(space),
			       &space, NULL))
		return;
	if (space == CL_KERNEL_ARG_ADDRESS_GLOBAL || space == CL_KERNEL_ARG_ADDRESS_CONSTANT)
		source->kind[i] = HM_ARG_POINTER;
	else if (space == CL_KERNEL_ARG_ADDRESS_LOCAL)
		source->kind[i] = HM_ARG_LOCAL;
	else if (space == CL_KERNEL_ARG_ADDRESS_PRIVATE)
		source->kind[i] = HM_ARG_SCALAR;
	if (space == CL_KERNEL_ARG_ADDRESS_CONSTANT)
		source->reads_only |= 1u << i;
	else if (space == CL_KERNEL_ARG_ADDRESS_GLOBAL)
		ask_const(kernel, i, source);
	if (source->kind[i] != HM_ARG_SCALAR ||
	    clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_TYPE_NAME, sizeof(type) - 1, type,
			       NULL))
		return;
	scalar = scalar_of(type);
	source->size[i] = scalar.size;
	source->type[i] = scalar.type;
}

static int refuse_parameter(const char *name, cl_uint i, const char *source,
			    const char *signature)
{
	return err_set(-EINVAL,
		       "kernel %s, argument %u: the source takes %s, the signature says "
		       "%s",
		       name, i, source, signature);
}

/* Compares a parameter of the source with the signature's. */
static int compare(const char *name, cl_uint i, const struct hm_accel_parameters *source,
		   const struct hm_accel_parameters *signature)
{
	if (source->kind[i] && signature->kind[i] && source->kind[i] != signature->kind[i])
		return refuse_parameter(name, i, parameter_name(source, i),
					parameter_name(signature, i));
	if (source->size[i] && signature->size[i] && source->size[i] != signature->size[i])
		return refuse_parameter(name, i, "a scalar of another size",
					parameter_name(signature, i));
	if (source->type[i] && signature->type[i] && source->type[i] != signature->type[i])
		return refuse_parameter(name, i, arg_type_name(source->type[i]),
					arg_type_name(signature->type[i]));
	if (signature->access[i] & HM_WRITE && source->reads_only & 1u << i)
		return refuse_parameter(name, i, "a pointer to const",
					signature->access[i] & HM_READ ? "inout" : "out");
	return 0;
}

/* Compares the source's parameters with the signature's, and adds the source's facts. */
static int check_parameters(cl_kernel kernel, const char *name,
			    struct hm_accel_parameters *parameters)
{
	struct hm_accel_parameters source = { 0 };
	int r;
	cl_uint n = 0, i;
	cl_int error;

	error = clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof(n), &n, NULL);
	if (error)
		return cl_error(error, "kernel %s: clGetKernelInfo", name);
	if (n > HM_KERNEL_MAX_ARGS)
		return err_set(-EINVAL, "kernel %s takes %u arguments, at most %d are possible",
			       name, n, HM_KERNEL_MAX_ARGS);
	if (parameters->n != UINT32_MAX && parameters->n != n)
		return err_set(
			-EINVAL,
			"kernel %s: the source takes %u arguments, the signature has %" PRIu32,
			name, n, parameters->n);
	parameters->n = n;
	for (i = 0; i < n; i++) {
		ask_parameter(kernel, i, &source);
		r = compare(name, i, &source, parameters);
		if (r)
			return r;
		if (source.kind[i])
			parameters->kind[i] = source.kind[i];
		if (source.size[i])
			parameters->size[i] = source.size[i];
		if (source.type[i])
			parameters->type[i] = source.type[i];
	}
	parameters->writes |= source.writes;
	parameters->reads_only = source.reads_only;
	return 0;
}

int opencl_kernel_build(void *accel, const struct hm_kernel_desc *desc,
			struct hm_accel_parameters *parameters, void **ret_kernel)
{
	struct opencl_kernel *kernel;
	struct opencl *cl = accel;
	cl_program program;
	cl_int error;
	uint32_t i;
	int r;

	kernel = sys_calloc(1, sizeof(*kernel));
	if (!kernel)
		return err_set(-ENOMEM, "kernel %s: no memory to build it", desc->name);
	for (i = 0; i < 3; i++)
		kernel->group[i] = desc->group[i];
	snprintf(kernel->name, sizeof(kernel->name), "%s", desc->name);
	r = opencl_program(cl, desc->name, desc->opencl, desc->options, &program);
	if (r)
		goto err_free;
	kernel->kernel = clCreateKernel(program, desc->name, &error);
	/* The kernel holds its program. */
	clReleaseProgram(program);
	if (error == CL_INVALID_KERNEL_NAME) {
		r = err_set(-EINVAL, "the source has no kernel function named %s", desc->name);
		goto err_free;
	}
	if (error) {
		r = cl_error(error, "kernel %s: clCreateKernel", desc->name);
		goto err_free;
	}
	r = check_parameters(kernel->kernel, desc->name, parameters);
	if (r)
		goto err_kernel;
	pthread_mutex_init(&kernel->lock, NULL);
	*ret_kernel = kernel;
	return 0;

err_kernel:
	clReleaseKernel(kernel->kernel);
err_free:
	free(kernel);
	return r;
}

void opencl_kernel_free(void *accel, void *data)
{
	struct opencl_kernel *kernel = data;

	(void)accel;
	clReleaseKernel(kernel->kernel);
	pthread_mutex_destroy(&kernel->lock);
	free(kernel);
}
