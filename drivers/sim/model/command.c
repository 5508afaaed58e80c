// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The engine's commands: the operands of each, and the check before one is queued.
 */
#include "model.h"

#define SIM_UNARY (BIT(SIM_DESTINATION) | BIT(SIM_SOURCE))
#define SIM_BINARY (SIM_UNARY | BIT(SIM_SOURCE2))

const struct sim_operation sim_operations[SIM_N_OPERATIONS] = {
	[HETSIM_OP_NOTHING]	= {},
	[HETSIM_OP_FILL]	= { .used = BIT(SIM_DESTINATION), .words = true, .value = true },
	[HETSIM_OP_COPY]	= { .used = SIM_UNARY },
	[HETSIM_OP_ADD]		= { .used = SIM_BINARY, .words = true },
	[HETSIM_OP_XOR]		= { .used = SIM_BINARY, .words = true },
	[HETSIM_OP_SCALE]	= { .used = SIM_UNARY, .words = true, .value = true },
	[HETSIM_OP_AXPY]	= { .used = SIM_UNARY, .words = true, .value = true },
	[HETSIM_OP_HISTOGRAM]	= { .used = BIT(SIM_SOURCE), .result_size = 256 * sizeof(u32) },
	[HETSIM_OP_CRC32]	= { .used = BIT(SIM_SOURCE), .result_size = sizeof(u32) },
	[HETSIM_OP_COMPARE]	= { .used = BIT(SIM_SOURCE) | BIT(SIM_SOURCE2),
				    .result_size = sizeof(u64) },
};

static int sim_operand_check(const struct sim_kind *kind, u64 address, u64 length)
{
	u64 end;

	if (address & (kind->dma_align - 1))
		return -EINVAL;
	return check_add_overflow(address, length, &end) ? -EOVERFLOW : 0;
}

/* Members that the operation has no use for are 0. */
static bool sim_command_is_plain(const struct sim_operation *op,
				 const struct hetsim_command *command)
{
	if (!op->used && (command->destination || command->length))
		return false;
	return (op->value || !command->value) &&
	       (op->used & BIT(SIM_SOURCE) || !command->source) &&
	       (op->used & BIT(SIM_SOURCE2) || !command->source2);
}

int sim_command_check(const struct sim_kind *kind, const struct hetsim_command *command)
{
	const struct sim_operation *op;
	u64 written;
	int r;

	if (command->op >= SIM_N_OPERATIONS || command->flags)
		return -EINVAL;
	op = &sim_operations[array_index_nospec(command->op, SIM_N_OPERATIONS)];
	if (!sim_command_is_plain(op, command) || command->value > U32_MAX)
		return -EINVAL;
	if (!op->used)
		return 0;
	if (!command->length || command->length & (kind->dma_align - 1) ||
	    command->length > kind->max_segment || (op->words && command->length % sizeof(u32)))
		return -EINVAL;

	written = op->used & BIT(SIM_DESTINATION) ? command->length : op->result_size;
	r = sim_operand_check(kind, command->destination, written);
	if (!r)
		r = sim_operand_check(kind, command->source, command->length);
	if (!r)
		r = sim_operand_check(kind, command->source2, command->length);
	if (r)
		return r;

	if (command->op == HETSIM_OP_COPY &&
	    command->source < command->destination + command->length &&
	    command->destination < command->source + command->length)
		return -EINVAL;
	return 0;
}
