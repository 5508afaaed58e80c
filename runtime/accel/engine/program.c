// SPDX-License-Identifier: MIT
/*
 * Turns a kernel's engine program and the arguments of a launch into commands, one for each
 * step. Refuses with a sentence what the device would answer with EINVAL.
 */
#include "accel/engine/engine.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Nothing to build; the kernel keeps its description as long as its builds. */
int engine_kernel_build(void *accel, const struct hm_kernel_desc *desc,
			struct hm_accel_parameters *parameters, void **ret_kernel)
{
	(void)accel, (void)parameters;
	*ret_kernel = (void *)(uintptr_t)desc;
	return 0;
}

void engine_kernel_free(void *accel, void *kernel)
{
	(void)accel, (void)kernel;
}

/* A launch that is being turned into commands. */
struct program {
	const struct engine *engine;
	const struct hm_accel_work *work;
	const uint64_t *address;
};

static uint64_t scalar(const struct hm_arg *arg)
{
	return arg->size == sizeof(arg->u64) ? arg->u64 : arg->u32;
}

/* Lists the operands with the step's length; returns their number. */
static uint32_t long_operands(const struct hm_engine_step *step, uint8_t operands[3])
{
	const struct engine_op *op = engine_op_of(step->op);
	uint32_t n = 0;

	if (op->writes)
		operands[n++] = step->destination;
	if (op->n_source >= 1)
		operands[n++] = step->source;
	if (op->n_source >= 2)
		operands[n++] = step->source2;
	return n;
}

static int choose_length(const struct program *program, const struct hm_engine_step *step,
			 uint64_t *ret_length)
{
	const struct hm_accel_work *work = program->work;
	uint64_t length = UINT64_MAX, wish = 0;
	uint8_t operands[3];
	uint32_t n = long_operands(step, operands), i;

	for (i = 0; i < n; i++)
		length = min_u64(length, work->range[operands[i]].length);
	if (step->length != HM_ENGINE_NONE) {
		wish = scalar(&work->arg[step->length]);
		if (wish > length)
			return err_set(-ERANGE,
				       "argument %u asks for %" PRIu64
				       " bytes, and the shortest operand has %" PRIu64,
				       step->length, wish, length);
		length = wish;
	}
	*ret_length = length;
	return 0;
}

static int check_length(const struct program *program, const struct hm_engine_step *step,
			uint64_t length)
{
	const struct engine_op *op = engine_op_of(step->op);
	uint64_t unit = max_u64(program->engine->port->query.dma_align, op->words ? 4 : 1);

	/* Not longer than a segment, since a range lies within a window. */
	if (!length || !is_aligned(length, unit))
		return err_set(-EINVAL,
			       "%s takes lengths in multiples of %" PRIu64
			       " bytes, not %" PRIu64
			       ": pass HM_RANGE(p, length, access) or a length",
			       program->engine->name, unit, length);
	if (op->result && program->work->range[step->destination].length < op->result)
		return err_set(-ERANGE,
			       "its result has %" PRIu32 " bytes, and argument %u %" PRIu64,
			       op->result, step->destination,
			       program->work->range[step->destination].length);
	return 0;
}

static int make_command(const struct program *program, const struct hm_engine_step *step,
			struct hetsim_command *command)
{
	const struct engine_op *op = engine_op_of(step->op);
	uint64_t length = 0;
	int r;

	memset(command, 0, sizeof(*command));
	command->op = step->op;
	if (!op->writes && !op->result)
		return 0;
	r = choose_length(program, step, &length);
	if (!r)
		r = check_length(program, step, length);
	if (r)
		return r;
	command->length = length;
	command->destination = program->address[step->destination];
	if (op->n_source >= 1)
		command->source = program->address[step->source];
	if (op->n_source >= 2)
		command->source2 = program->address[step->source2];
	if (step->value != HM_ENGINE_NONE)
		command->value = scalar(&program->work->arg[step->value]);
	if (command->value > UINT32_MAX)
		return err_set(-EINVAL, "its value, %" PRIu64 ", is no 32-bit word",
			       (uint64_t)command->value);
	if (step->op == HM_ENGINE_COPY &&
	    launch_ranges_overlap(program->work, step->source, step->destination, length))
		return err_set(-EINVAL, "%" PRIu64 " bytes of source and destination overlap",
			       length);
	return 0;
}

int engine_program(struct engine_queue *queue, const struct hm_accel_work *work,
		   const uint64_t *address)
{
	const struct hm_kernel_desc *desc = work->kernel;
	const struct program program = { queue->engine, work, address };
	uint32_t i;
	int r;

	for (i = 0; i < desc->n_engine; i++) {
		r = make_command(&program, &desc->engine[i], &queue->command[i]);
		if (r)
			return err_prefix(r, "kernel %s, step %" PRIu32 " (%s)", desc->name, i,
					  engine_op_of(desc->engine[i].op)->name);
	}
	queue->n_command = desc->n_engine;
	return 0;
}
