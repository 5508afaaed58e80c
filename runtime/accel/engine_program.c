// SPDX-License-Identifier: MIT
/* Engine programs: operands of each operation, and the check of steps against a signature. */
#include <inttypes.h>

#include "accel/accel.h"

static const struct engine_op ops[] = {
	[HM_ENGINE_NOTHING] = { .name = "nothing" },
	[HM_ENGINE_FILL] = { "fill", .writes = true, .words = true, .value = true },
	[HM_ENGINE_COPY] = { "copy", .n_source = 1, .writes = true },
	[HM_ENGINE_ADD] = { "add", .n_source = 2, .writes = true, .words = true },
	[HM_ENGINE_XOR] = { "xor", .n_source = 2, .writes = true, .words = true },
	[HM_ENGINE_SCALE] = { "scale", .n_source = 1, .writes = true, .words = true,
			      .value = true },
	[HM_ENGINE_AXPY] = { "axpy", .n_source = 1, .writes = true, .reads_back = true,
			     .words = true, .value = true },
	[HM_ENGINE_HISTOGRAM] = { "histogram", .n_source = 1, .result = 256 * 4 },
	[HM_ENGINE_CRC32] = { "crc32", .n_source = 1, .result = 4 },
	[HM_ENGINE_COMPARE] = { "compare", .n_source = 2, .result = 8 },
};

const struct engine_op *engine_op_of(uint32_t op)
{
	return op < ARRAY_SIZE(ops) ? &ops[op] : NULL;
}

/* An operand of the op, or one that must be left out. */
struct operand {
	const char *name;
	uint8_t index; /* HM_ENGINE_NONE: left out */
	bool wanted;
	bool optional;
	uint8_t access; /* a pointer with at least this; 0: a scalar */
};

static int check_operand(const struct hm_accel_parameters *parameters,
			 const struct operand *operand)
{
	uint8_t i = operand->index;
	bool pointer = operand->access;

	if (i == HM_ENGINE_NONE) {
		if (!operand->wanted || operand->optional)
			return 0;
		return err_set(-EINVAL, "it needs a %s", operand->name);
	}
	if (!operand->wanted)
		return err_set(-EINVAL, "its operation has no %s: pass HM_ENGINE_NONE, not %u",
			       operand->name, i);
	if (i >= parameters->n)
		return err_set(-EINVAL,
			       "its %s is argument %u, and the signature has %" PRIu32
			       " (counted from 0)",
			       operand->name, i, parameters->n);
	if (parameters->kind[i] != (pointer ? HM_ARG_POINTER : HM_ARG_SCALAR))
		return err_set(-EINVAL, "its %s is argument %u, which is %s, not a %s",
			       operand->name, i, parameter_name(parameters, i),
			       pointer ? "pointer" : "scalar");
	if (operand->access & ~parameters->access[i])
		return err_set(-EINVAL,
			       "its %s is argument %u, which the signature does not have as "
			       "%s",
			       operand->name, i,
			       operand->access == HM_READ  ? "\"in\" or \"inout\"" :
			       operand->access == HM_WRITE ? "\"out\" or \"inout\"" :
							     "\"inout\"");
	return 0;
}

static int check_step(const struct hm_accel_parameters *parameters,
		      const struct hm_engine_step *step)
{
	const struct engine_op *op = engine_op_of(step->op);
	uint8_t written = HM_WRITE;
	size_t i;
	int r = 0;

	if (!op)
		return err_set(-EINVAL, "there is no operation %u", step->op);
	if (step->reserved)
		return err_set(-EINVAL, "reserved is not 0");
	if (op->reads_back)
		written |= HM_READ;
	const struct operand operands[] = {
		{ "destination", step->destination, op->writes || op->result, false, written },
		{ "source", step->source, op->n_source >= 1, false, HM_READ },
		{ "source2", step->source2, op->n_source >= 2, false, HM_READ },
		{ "length", step->length, op->writes || op->result, true, 0 },
		{ "value", step->value, op->value, true, 0 },
	};
	for (i = 0; !r && i < ARRAY_SIZE(operands); i++)
		r = check_operand(parameters, &operands[i]);
	return r ? err_prefix(r, "%s", op->name) : 0;
}

int engine_check(const struct hm_kernel_desc *desc,
		 const struct hm_accel_parameters *parameters)
{
	uint32_t i;
	int r;

	for (i = 0; i < desc->n_engine; i++) {
		r = check_step(parameters, &desc->engine[i]);
		if (r)
			return err_prefix(r, "step %" PRIu32, i);
	}
	return 0;
}
