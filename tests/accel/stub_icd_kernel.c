// SPDX-License-Identifier: MIT
/*
 * The test driver: programs and kernels. A source compiles unless it says
 * #error; a kernel exists if the source names it and the table below has it.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "accel/stub_icd.h"

#define ARG_MAX 8
/* In front of a binary; no terminator. */
static const unsigned char magic[4] = { 'S', 'T', 'U', 'B' };

struct argument {
	char *pointer; /* of a buffer or SVM */
	unsigned char value[16];
	size_t size; /* of a scalar, or of local memory */
	struct stub_memory *memory;
	bool set;
};

/* ---- the kernels; each does the whole grid ---- */

/* The error to add to a number in the modes that want a wrong result. */
static unsigned int error_of(unsigned int *runs)
{
	return stub_modes.wrong || (++*runs == 2 && stub_modes.wrong_later);
}

static void run_saxpy(const struct argument *arg, size_t n)
{
	const float *x = (const float *)(void *)arg[1].pointer;
	float *y = (float *)(void *)arg[2].pointer, a;
	static unsigned int runs;
	size_t i;

	memcpy(&a, arg[0].value, sizeof(a));
	for (i = 0; i < n; i++)
		y[i] += a * x[i];
	y[n / 2] += (float)error_of(&runs);
}

static void run_histogram(const struct argument *arg, size_t n)
{
	const unsigned char *bytes = (const unsigned char *)arg[0].pointer;
	uint32_t *counts = (uint32_t *)(void *)arg[1].pointer;
	size_t i;

	for (i = 0; i < n; i++)
		counts[bytes[i]]++;
}

/* The command's: a table for each of @n parts; here the first one has it all. */
static void run_histogram_parts(const struct argument *arg, size_t n)
{
	const unsigned char *bytes = (const unsigned char *)arg[0].pointer;
	uint32_t *counts = (uint32_t *)(void *)arg[2].pointer;
	static unsigned int runs;
	uint64_t length, i;

	memcpy(&length, arg[1].value, sizeof(length));
	memset(counts, 0, n * 256 * sizeof(*counts));
	for (i = 0; i < length; i++)
		counts[bytes[i]]++;
	counts[0x61] += error_of(&runs);
}

/* The command's tour: sums, and how often each of their bytes occurs. */
static void run_tour(const struct argument *arg, size_t n)
{
	const uint32_t *x = (const uint32_t *)(void *)arg[1].pointer;
	uint32_t *y = (uint32_t *)(void *)arg[2].pointer;
	uint32_t *counts = (uint32_t *)(void *)arg[3].pointer, a, shift;
	size_t i;

	memcpy(&a, arg[0].value, sizeof(a));
	for (i = 0; i < n; i++) {
		y[i] += a * x[i];
		for (shift = 0; shift < 32; shift += 8)
			counts[y[i] >> shift & 255]++;
	}
	if (stub_modes.wrong)
		y[n / 2] ^= 1;
	if (stub_modes.wrong_later)
		counts[0x61]++;
}

static void run_fill(const struct argument *arg, size_t n)
{
	uint32_t *to = (uint32_t *)(void *)arg[0].pointer, word;
	size_t i;

	memcpy(&word, arg[1].value, sizeof(word));
	for (i = 0; i < n; i++)
		to[i] = word;
}

static void run_increment(const struct argument *arg, size_t n)
{
	uint32_t *p = (uint32_t *)(void *)arg[0].pointer;
	size_t i;

	for (i = 0; i < n; i++)
		p[i]++;
}

/* Any alignment: bytes. */
static void run_add_bytes(const struct argument *arg, size_t n)
{
	unsigned char *p = (unsigned char *)arg[0].pointer;
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = (unsigned char)(p[i] + arg[1].value[0]);
}

static void run_selftest(const struct argument *arg, size_t n)
{
	uint32_t *p = (uint32_t *)(void *)arg[0].pointer;
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = p[i] * 3u + 7u;
}

static void run_nothing(const struct argument *arg, size_t n)
{
	(void)arg, (void)n;
}

static const struct known {
	const char *name;
	void (*run)(const struct argument *arg, size_t n);
	const char *
		parameters; /* p pointer, c to const, f float, u uint, U ulong, l local memory */
	cl_int status;      /* of its event */
	const char *mark;   /* a word that its source has besides the name, where not NULL */
} known[] = {
	{ "histogram", run_histogram_parts, "pUp", CL_COMPLETE, "ulong length" },
	{ "saxpy", run_saxpy, "fcp", CL_COMPLETE, NULL },
	{ "histogram", run_histogram, "pp", CL_COMPLETE, NULL },
	{ "tour", run_tour, "upppU", CL_COMPLETE, NULL },
	{ "fill", run_fill, "pu", CL_COMPLETE, NULL },
	{ "increment", run_increment, "p", CL_COMPLETE, NULL },
	{ "add_bytes", run_add_bytes, "pu", CL_COMPLETE, NULL },
	{ "with_local", run_nothing, "pl", CL_COMPLETE, NULL },
	{ "empty", run_nothing, "", CL_COMPLETE, NULL },
	{ "broken", run_nothing, "p", CL_OUT_OF_RESOURCES, NULL },
	{ "hetmap_selftest", run_selftest, "p", CL_COMPLETE, NULL },
};

/* ---- programs ---- */

struct stub_program {
	struct stub_object object;
	char *source;
	bool built;
};

struct stub_kernel {
	struct stub_object object;
	const struct known *known;
	struct argument arg[ARG_MAX];
};

static cl_program new_program(const char *source, size_t length)
{
	struct stub_program *program = stub_new(STUB_PROGRAM, sizeof(*program));

	program->source = calloc(1, length + 1);
	if (!program->source)
		abort();
	memcpy(program->source, source, length);
	return (cl_program)program;
}

static cl_program CL_API_CALL do_clCreateProgramWithSource(cl_context context, cl_uint n,
							   const char **sources,
							   const size_t *lengths,
							   cl_int *ret_error)
{
	(void)context, (void)n;
	STUB_ENTER_NEW(ret_error);
	return new_program(sources[0], lengths ? lengths[0] : strlen(sources[0]));
}

static cl_program CL_API_CALL do_clCreateProgramWithBinary(cl_context context, cl_uint n,
							   const cl_device_id *ids,
							   const size_t *lengths,
							   const unsigned char **binaries,
							   cl_int *status, cl_int *ret_error)
{
	(void)context, (void)n, (void)ids;
	STUB_ENTER_NEW(ret_error);
	if (lengths[0] < 4 || memcmp(binaries[0], magic, sizeof(magic)) != 0) {
		*ret_error = CL_INVALID_BINARY;
		if (status)
			status[0] = CL_INVALID_BINARY;
		return NULL;
	}
	if (status)
		status[0] = CL_SUCCESS;
	return new_program((const char *)binaries[0] + 4, lengths[0] - 4);
}

static cl_int CL_API_CALL do_clBuildProgram(cl_program id, cl_uint n, const cl_device_id *ids,
					    const char *options,
					    void(CL_CALLBACK *notify)(cl_program, void *),
					    void *user)
{
	struct stub_program *program = (struct stub_program *)id;

	(void)n, (void)ids, (void)options, (void)notify, (void)user;
	STUB_ENTER();
	if (strstr(program->source, "#error"))
		return CL_BUILD_PROGRAM_FAILURE;
	if (stub_modes.slow_build)
		usleep(50000);
	program->built = true;
	return CL_SUCCESS;
}

static cl_int CL_API_CALL do_clGetProgramBuildInfo(cl_program id, cl_device_id device,
						   cl_program_build_info what, size_t size,
						   void *to, size_t *ret_size)
{
	static const char log[] = "stub: the source says #error";

	(void)id, (void)device;
	STUB_ENTER();
	if (what != CL_PROGRAM_BUILD_LOG)
		return CL_INVALID_VALUE;
	return stub_answer(log, sizeof(log), size, to, ret_size);
}

static cl_int CL_API_CALL do_clGetProgramInfo(cl_program id, cl_program_info what, size_t size,
					      void *to, size_t *ret_size)
{
	struct stub_program *program = (struct stub_program *)id;
	size_t length = strlen(program->source) + 4;
	unsigned char *binary;

	STUB_ENTER();
	if (what == CL_PROGRAM_BINARY_SIZES)
		return stub_answer(&length, sizeof(length), size, to, ret_size);
	if (what != CL_PROGRAM_BINARIES || !to || size < sizeof(binary))
		return CL_INVALID_VALUE;
	binary = *(unsigned char **)to;
	memcpy(binary, magic, sizeof(magic));
	memcpy(binary + 4, program->source, length - 4);
	return CL_SUCCESS;
}

static cl_int CL_API_CALL do_clReleaseProgram(cl_program id)
{
	struct stub_program *program = (struct stub_program *)id;

	STUB_ENTER();
	if (!stub_is(id, STUB_PROGRAM))
		return CL_INVALID_PROGRAM;
	if (stub_drop(program)) {
		free(program->source);
		stub_free(program);
	}
	return CL_SUCCESS;
}

/* ---- kernels ---- */

static cl_kernel CL_API_CALL do_clCreateKernel(cl_program id, const char *name,
					       cl_int *ret_error)
{
	struct stub_program *program = (struct stub_program *)id;
	struct stub_kernel *kernel;
	size_t i;

	STUB_ENTER_NEW(ret_error);
	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(known[i].name, name) && strstr(program->source, name) &&
		    (!known[i].mark || strstr(program->source, known[i].mark))) {
			kernel = stub_new(STUB_KERNEL, sizeof(*kernel));
			kernel->known = &known[i];
			return (cl_kernel)kernel;
		}
	*ret_error = CL_INVALID_KERNEL_NAME;
	return NULL;
}

static cl_int CL_API_CALL do_clReleaseKernel(cl_kernel kernel)
{
	STUB_ENTER();
	if (!stub_is(kernel, STUB_KERNEL))
		return CL_INVALID_KERNEL;
	if (stub_drop(kernel))
		stub_free(kernel);
	return CL_SUCCESS;
}

static cl_int CL_API_CALL do_clGetKernelInfo(cl_kernel id, cl_kernel_info what, size_t size,
					     void *to, size_t *ret_size)
{
	cl_uint n = (cl_uint)strlen(((struct stub_kernel *)id)->known->parameters);

	STUB_ENTER();
	if (what != CL_KERNEL_NUM_ARGS)
		return CL_INVALID_VALUE;
	return stub_answer(&n, sizeof(n), size, to, ret_size);
}

static cl_int CL_API_CALL do_clGetKernelArgInfo(cl_kernel id, cl_uint i,
						cl_kernel_arg_info what, size_t size, void *to,
						size_t *ret_size)
{
	const char *parameters = ((struct stub_kernel *)id)->known->parameters;
	cl_kernel_arg_address_qualifier space = CL_KERNEL_ARG_ADDRESS_PRIVATE;
	cl_kernel_arg_type_qualifier qualifiers = CL_KERNEL_ARG_TYPE_CONST;
	const char *type;

	STUB_ENTER();
	if (i >= strlen(parameters))
		return CL_INVALID_ARG_INDEX;
	if (what == CL_KERNEL_ARG_TYPE_NAME) {
		type = parameters[i] == 'f' ? "float" : parameters[i] == 'U' ? "ulong" : "uint";
		return stub_answer(type, strlen(type) + 1, size, to, ret_size);
	}
	/* The qualifiers of other pointers are not known. */
	if (what == CL_KERNEL_ARG_TYPE_QUALIFIER)
		return parameters[i] == 'c' ? stub_answer(&qualifiers, sizeof(qualifiers), size,
							  to, ret_size) :
					      CL_KERNEL_ARG_INFO_NOT_AVAILABLE;
	if (parameters[i] == 'p' || parameters[i] == 'c')
		space = CL_KERNEL_ARG_ADDRESS_GLOBAL;
	if (parameters[i] == 'l')
		space = CL_KERNEL_ARG_ADDRESS_LOCAL;
	return stub_answer(&space, sizeof(space), size, to, ret_size);
}

static cl_int CL_API_CALL do_clSetKernelArg(cl_kernel id, cl_uint i, size_t size,
					    const void *value)
{
	struct stub_kernel *kernel = (struct stub_kernel *)id;
	const char *parameters = kernel->known->parameters;
	struct argument *arg = &kernel->arg[i];
	cl_mem memory;

	STUB_ENTER();
	if (i >= strlen(parameters))
		return CL_INVALID_ARG_INDEX;
	if (parameters[i] == 'p' || parameters[i] == 'c') {
		memcpy(&memory, value, sizeof(memory));
		if (size != sizeof(memory) || !stub_is(memory, STUB_MEMORY))
			return CL_INVALID_MEM_OBJECT;
		arg->memory = (struct stub_memory *)memory;
		arg->pointer = arg->memory->bytes;
	} else if (parameters[i] == 'l') {
		if (value)
			return CL_INVALID_ARG_VALUE;
	} else {
		if (size != (parameters[i] == 'U' ? 8 : 4))
			return CL_INVALID_ARG_SIZE;
		memcpy(arg->value, value, size);
	}
	arg->size = size;
	arg->set = true;
	return CL_SUCCESS;
}

static cl_int CL_API_CALL do_clSetKernelArgSVMPointer(cl_kernel id, cl_uint i,
						      const void *pointer)
{
	struct stub_kernel *kernel = (struct stub_kernel *)id;

	STUB_ENTER();
	if (!stub_modes.svm_system)
		return CL_INVALID_OPERATION;
	kernel->arg[i].memory = NULL;
	kernel->arg[i].pointer = (char *)(uintptr_t)pointer;
	kernel->arg[i].set = true;
	return CL_SUCCESS;
}

struct running {
	struct stub_kernel *kernel;
	size_t items;
};

static void run_kernel(void *user)
{
	const struct running *running = user;

	running->kernel->known->run(running->kernel->arg, running->items);
}

static cl_int CL_API_CALL do_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel id,
						    cl_uint n_dimension, const size_t *offset,
						    const size_t *global, const size_t *local,
						    cl_uint n, const cl_event *wait,
						    cl_event *ret_event)
{
	struct stub_kernel *kernel = (struct stub_kernel *)id;
	const char *parameters = kernel->known->parameters;
	struct running running = { .kernel = kernel };
	size_t items = 1, i;

	(void)queue, (void)offset, (void)n, (void)wait;
	STUB_ENTER();
	for (i = 0; i < n_dimension; i++) {
		items *= global[i];
		if (local && (!local[i] || global[i] % local[i]))
			return CL_INVALID_WORK_GROUP_SIZE;
	}
	for (i = 0; parameters[i]; i++) {
		struct argument *arg = &kernel->arg[i];

		if (!arg->set)
			return CL_INVALID_KERNEL_ARGS;
		/* Released since it was set: a real driver would crash. */
		if (arg->memory && !stub_is(arg->memory, STUB_MEMORY))
			abort();
	}
	running.items = items;
	stub_run(run_kernel, &running);
	return stub_done(ret_event, kernel->known->status);
}

void stub_kernel_table(cl_icd_dispatch *table)
{
	table->clCreateProgramWithSource = do_clCreateProgramWithSource;
	table->clCreateProgramWithBinary = do_clCreateProgramWithBinary;
	table->clBuildProgram = do_clBuildProgram;
	table->clGetProgramBuildInfo = do_clGetProgramBuildInfo;
	table->clGetProgramInfo = do_clGetProgramInfo;
	table->clReleaseProgram = do_clReleaseProgram;
	table->clCreateKernel = do_clCreateKernel;
	table->clReleaseKernel = do_clReleaseKernel;
	table->clGetKernelInfo = do_clGetKernelInfo;
	table->clGetKernelArgInfo = do_clGetKernelArgInfo;
	table->clSetKernelArg = do_clSetKernelArg;
	table->clSetKernelArgSVMPointer = do_clSetKernelArgSVMPointer;
	table->clEnqueueNDRangeKernel = do_clEnqueueNDRangeKernel;
}
