// SPDX-License-Identifier: MIT
/* Signatures: parses a kernel's parameters, and checks a launch's arguments against them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "accel/accel.h"

static const struct parameter_type {
	const char *name;
	uint8_t kind; /* enum hm_arg_kind */
	uint8_t access;
	uint8_t size;
	uint8_t type; /* enum hm_arg_type */
} types[] = {
	{ "in", HM_ARG_POINTER, HM_READ, 0, 0 },
	{ "out", HM_ARG_POINTER, HM_WRITE, 0, 0 },
	{ "inout", HM_ARG_POINTER, HM_READ | HM_WRITE, 0, 0 },
	{ "local", HM_ARG_LOCAL, 0, 0, 0 },
	{ "f32", HM_ARG_SCALAR, 0, 4, HM_ARG_FLOAT },
	{ "i32", HM_ARG_SCALAR, 0, 4, HM_ARG_INTEGER },
	{ "u32", HM_ARG_SCALAR, 0, 4, HM_ARG_INTEGER },
	{ "f64", HM_ARG_SCALAR, 0, 8, HM_ARG_FLOAT },
	{ "i64", HM_ARG_SCALAR, 0, 8, HM_ARG_INTEGER },
	{ "u64", HM_ARG_SCALAR, 0, 8, HM_ARG_INTEGER },
};

static const struct parameter_type *find_type(const char *word, size_t length)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(types); i++)
		if (strlen(types[i].name) == length && !memcmp(types[i].name, word, length))
			return &types[i];
	return NULL;
}

int signature_parse(const char *signature, struct hm_accel_parameters *ret_parameters)
{
	struct hm_accel_parameters parameters = { 0 };
	const struct parameter_type *type;
	const char *word = signature;
	size_t length;

	if (!signature) {
		memset(ret_parameters, 0, sizeof(*ret_parameters));
		ret_parameters->n = UINT32_MAX;
		return 0;
	}
	for (;;) {
		word += strspn(word, " \t\n");
		length = strcspn(word, " \t\n");
		if (!length)
			break;
		type = find_type(word, length);
		if (!type)
			return err_set(
				-EINVAL,
				"signature: \"%.*s\" is no kind of argument: there are in, "
				"out, inout, local, f32, f64, i32, u32, i64, u64",
				(int)(length < 64 ? length : 64), word);
		if (parameters.n == HM_KERNEL_MAX_ARGS)
			return err_set(-EINVAL, "signature: more than %d arguments",
				       HM_KERNEL_MAX_ARGS);
		parameters.kind[parameters.n] = type->kind;
		parameters.access[parameters.n] = type->access;
		parameters.size[parameters.n] = type->size;
		parameters.type[parameters.n] = type->type;
		parameters.n++;
		word += length;
	}
	*ret_parameters = parameters;
	return 0;
}

static const char *kind_name(uint32_t kind)
{
	static const char *const names[] = { "nothing", "a scalar", "a pointer", "local memory",
					     "a pointer" };

	return kind < ARRAY_SIZE(names) ? names[kind] : "an unknown kind";
}

static const char *access_name(uint32_t access)
{
	static const char *const names[] = { "HM_NONE", "HM_IN", "HM_OUT", "HM_INOUT" };

	return names[access & (HM_READ | HM_WRITE)];
}

const char *parameter_name(const struct hm_accel_parameters *parameters, uint32_t index)
{
	return kind_name(parameters->kind[index]);
}

const char *arg_type_name(uint32_t type)
{
	static const char *const names[] = { "a scalar", "an integer", "a float", "a vector" };

	return type < ARRAY_SIZE(names) ? names[type] : "an unknown type";
}

static int check_scalar(const struct hm_accel_parameters *parameters, const char *kernel,
			const struct hm_arg *arg, uint32_t i)
{
	uint8_t size = parameters->size[i], type = parameters->type[i];

	if (arg->size > sizeof(arg->value))
		return err_set(-EINVAL,
			       "kernel %s, argument %" PRIu32 ": a size of %" PRIu32 " bytes",
			       kernel, i, arg->size);
	if (size && size != arg->size)
		return err_set(-EINVAL,
			       "kernel %s, argument %" PRIu32 ": %s of %u bytes is "
			       "expected, not of %" PRIu32,
			       kernel, i, arg_type_name(type), size, arg->size);
	if (type && arg->type && type != arg->type)
		return err_set(-EINVAL,
			       "kernel %s, argument %" PRIu32 ": %s of %" PRIu32 " bytes is "
			       "expected, not %s: its bytes would be taken for another number",
			       kernel, i, arg_type_name(type), arg->size,
			       arg_type_name(arg->type));
	return 0;
}

static int check_one(const struct hm_accel_parameters *parameters, const char *kernel,
		     const struct hm_arg *arg, uint32_t i)
{
	uint8_t kind = parameters->kind[i];
	uint8_t access = parameters->access[i];
	uint8_t passed = arg->kind == HM_ARG_ANY ? HM_ARG_POINTER : arg->kind;

	if (passed != HM_ARG_SCALAR && passed != HM_ARG_POINTER && passed != HM_ARG_LOCAL)
		return err_set(-EINVAL, "kernel %s, argument %" PRIu32 ": kind %u is none",
			       kernel, i, arg->kind);
	if (kind && kind != passed)
		return err_set(-EINVAL, "kernel %s, argument %" PRIu32 ": it takes %s, not %s",
			       kernel, i, kind_name(kind), kind_name(arg->kind));
	if (passed == HM_ARG_POINTER) {
		if (!arg->access || arg->access & ~(HM_READ | HM_WRITE))
			return err_set(-EINVAL,
				       "kernel %s, argument %" PRIu32
				       ": access %u is not HM_READ, HM_WRITE or both",
				       kernel, i, arg->access);
		if (access & ~arg->access)
			return err_set(-EINVAL,
				       "kernel %s, argument %" PRIu32
				       ": declared %s, passed as %s",
				       kernel, i, access_name(access),
				       access_name(arg->access));
		if (arg->access & HM_WRITE && parameters->reads_only & 1u << i)
			return err_set(-EINVAL,
				       "kernel %s, argument %" PRIu32
				       ": passed as %s, and the source says const, so that "
				       "nothing is written there: pass HM_IN, or see whether "
				       "the arguments are in order",
				       kernel, i, access_name(arg->access));
		return 0;
	}
	if (!arg->size)
		return err_set(-EINVAL, "kernel %s, argument %" PRIu32 ": a size of 0 bytes",
			       kernel, i);
	return arg->kind == HM_ARG_SCALAR ? check_scalar(parameters, kernel, arg, i) : 0;
}

int parameters_check(const struct hm_accel_parameters *parameters, const char *kernel,
		     const struct hm_arg *args, uint32_t n_arg)
{
	uint32_t i;
	int r;

	if (parameters->n != UINT32_MAX && parameters->n != n_arg)
		return err_set(-EINVAL,
			       "kernel %s takes %" PRIu32 " arguments, %" PRIu32 " were passed",
			       kernel, parameters->n, n_arg);
	for (i = 0; i < n_arg; i++) {
		r = check_one(parameters, kernel, &args[i], i);
		if (r)
			return r;
	}
	return 0;
}
