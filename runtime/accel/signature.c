// SPDX-License-Identifier: MIT
/*
 * What a kernel's parameters are: parsing of signatures, and the check of a
 * launch's arguments against them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "accel/accel.h"

static const struct parameter_type {
	const char *name;
	uint8_t kind; /* enum hm_arg_kind */
	uint8_t access;
	uint8_t size;
} types[] = {
	{ "in", HM_ARG_POINTER, HM_READ, 0 },
	{ "out", HM_ARG_POINTER, HM_WRITE, 0 },
	{ "inout", HM_ARG_POINTER, HM_READ | HM_WRITE, 0 },
	{ "local", HM_ARG_LOCAL, 0, 0 },
	{ "f32", HM_ARG_SCALAR, 0, 4 },
	{ "i32", HM_ARG_SCALAR, 0, 4 },
	{ "u32", HM_ARG_SCALAR, 0, 4 },
	{ "f64", HM_ARG_SCALAR, 0, 8 },
	{ "i64", HM_ARG_SCALAR, 0, 8 },
	{ "u64", HM_ARG_SCALAR, 0, 8 },
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
		parameters.n++;
		word += length;
	}
	*ret_parameters = parameters;
	return 0;
}

static const char *kind_name(uint32_t kind)
{
	static const char *const names[] = { "nothing", "a scalar", "a pointer",
					     "local memory" };

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

static int check_one(const struct hm_accel_parameters *parameters, const char *kernel,
		     const struct hm_arg *arg, uint32_t i)
{
	uint8_t kind = parameters->kind[i];
	uint8_t access = parameters->access[i];

	if (arg->kind != HM_ARG_SCALAR && arg->kind != HM_ARG_POINTER &&
	    arg->kind != HM_ARG_LOCAL)
		return err_set(-EINVAL, "kernel %s, argument %" PRIu32 ": kind %u is none",
			       kernel, i, arg->kind);
	if (kind && kind != arg->kind)
		return err_set(-EINVAL, "kernel %s, argument %" PRIu32 ": it takes %s, not %s",
			       kernel, i, kind_name(kind), kind_name(arg->kind));
	if (arg->kind == HM_ARG_POINTER) {
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
		return 0;
	}
	if (!arg->size || (arg->kind == HM_ARG_SCALAR && arg->size > sizeof(arg->value)))
		return err_set(-EINVAL,
			       "kernel %s, argument %" PRIu32 ": a size of %" PRIu32 " bytes",
			       kernel, i, arg->size);
	if (arg->kind == HM_ARG_SCALAR && parameters->size[i] &&
	    parameters->size[i] != arg->size)
		return err_set(-EINVAL,
			       "kernel %s, argument %" PRIu32 ": a scalar of %u bytes is "
			       "expected, not of %" PRIu32,
			       kernel, i, parameters->size[i], arg->size);
	return 0;
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
