// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The engine's commands: the operands of each, and running one page after page
 * through the device's page table.
 */
#include <linux/bitops.h>
#include <linux/crc32.h>
#include <linux/highmem.h>
#include <linux/nospec.h>
#include <linux/overflow.h>

#include "sim.h"

enum {
	SIM_DESTINATION,
	SIM_SOURCE,
	SIM_SOURCE2,
};

struct sim_run;

struct sim_operation {
	unsigned int reads;	  /* BIT(SIM_SOURCE) and so on */
	bool writes;		  /* length bytes at destination, while reading */
	unsigned int result_size; /* bytes at destination, at the end */
	bool words;		  /* length is in whole words */
	bool value;
	/* One piece within a page of each operand. True to stop early. */
	bool (*step)(struct sim_run *run, void *const *operand, size_t n);
};

/* A command on its way. */
struct sim_run {
	struct sim_queue *queue;
	const struct sim_operation *op;
	u32 value;
	u64 address[SIM_OPERANDS]; /* where each operand goes on */
	struct page **pages[SIM_OPERANDS]; /* the same, in queue->pages */
	unsigned int used;	   /* BIT(SIM_DESTINATION) and so on */
	u64 number;		   /* a step's own: its result so far */
	const u8 *bytes;	   /* a step's own: the bytes that it stores */
	u64 fault_address;
};

static bool sim_step_fill(struct sim_run *run, void *const *operand, size_t n)
{
	memset32(operand[SIM_DESTINATION], run->value, n / 4);
	return false;
}

static bool sim_step_copy(struct sim_run *run, void *const *operand, size_t n)
{
	memcpy(operand[SIM_DESTINATION], operand[SIM_SOURCE], n);
	return false;
}

/* A step that makes each word of the destination from those of the sources. */
#define SIM_STEP_WORDS(name, expression)                                        \
	static bool sim_step_##name(struct sim_run *run, void *const *operand, size_t n) \
	{                                                                       \
		u32 *d = operand[SIM_DESTINATION];                              \
		const u32 *a = operand[SIM_SOURCE];                             \
		const u32 *b __maybe_unused = operand[SIM_SOURCE2];             \
		const u32 value __maybe_unused = run->value;                    \
		size_t i;                                                       \
										\
		for (i = 0; i < n / 4; i++)                                     \
			d[i] = (expression);                                    \
		return false;                                                   \
	}

SIM_STEP_WORDS(add, a[i] + b[i])
SIM_STEP_WORDS(xor, a[i] ^ b[i])
SIM_STEP_WORDS(scale, a[i] * value)
SIM_STEP_WORDS(axpy, d[i] + a[i] * value)

static bool sim_step_histogram(struct sim_run *run, void *const *operand, size_t n)
{
	const u8 *bytes = operand[SIM_SOURCE];
	size_t i;

	for (i = 0; i < n; i++)
		run->queue->counts[bytes[i]]++;
	return false;
}

static bool sim_step_crc32(struct sim_run *run, void *const *operand, size_t n)
{
	run->number = crc32_le(run->number, operand[SIM_SOURCE], n);
	return false;
}

/*
 * The result counts bytes until one differs. CPUs may write meanwhile: bytes that memcmp()
 * found different may be equal when they are searched.
 */
static bool sim_step_compare(struct sim_run *run, void *const *operand, size_t n)
{
	const u8 *a = operand[SIM_SOURCE], *b = operand[SIM_SOURCE2];
	size_t i = n;

	if (memcmp(a, b, n)) {
		for (i = 0; i < n && a[i] == b[i]; i++)
			;
	}
	run->number += i;
	return i < n;
}

/* Stores the result of a command, across the end of a page too. */
static bool sim_step_store(struct sim_run *run, void *const *operand, size_t n)
{
	memcpy(operand[SIM_DESTINATION], run->bytes, n);
	run->bytes += n;
	return false;
}

static const struct sim_operation sim_operation_store = {
	.writes = true,
	.step = sim_step_store,
};

#define SIM_BOTH (BIT(SIM_SOURCE) | BIT(SIM_SOURCE2))

static const struct sim_operation sim_operations[] = {
	[HETSIM_OP_NOTHING]	= {},
	[HETSIM_OP_FILL]	= { .writes = true, .words = true, .value = true,
				    .step = sim_step_fill },
	[HETSIM_OP_COPY]	= { .reads = BIT(SIM_SOURCE), .writes = true,
				    .step = sim_step_copy },
	[HETSIM_OP_ADD]		= { .reads = SIM_BOTH, .writes = true, .words = true,
				    .step = sim_step_add },
	[HETSIM_OP_XOR]		= { .reads = SIM_BOTH, .writes = true, .words = true,
				    .step = sim_step_xor },
	[HETSIM_OP_SCALE]	= { .reads = BIT(SIM_SOURCE), .writes = true, .words = true,
				    .value = true, .step = sim_step_scale },
	[HETSIM_OP_AXPY]	= { .reads = BIT(SIM_SOURCE), .writes = true, .words = true,
				    .value = true, .step = sim_step_axpy },
	[HETSIM_OP_HISTOGRAM]	= { .reads = BIT(SIM_SOURCE), .result_size = 256 * sizeof(u32),
				    .step = sim_step_histogram },
	[HETSIM_OP_CRC32]	= { .reads = BIT(SIM_SOURCE), .result_size = sizeof(u32),
				    .step = sim_step_crc32 },
	[HETSIM_OP_COMPARE]	= { .reads = SIM_BOTH, .result_size = sizeof(u64),
				    .step = sim_step_compare },
};

static const struct sim_operation *sim_operation_of(const struct hetsim_command *command)
{
	return &sim_operations[array_index_nospec(command->op, ARRAY_SIZE(sim_operations))];
}

static int sim_operand_check(const struct sim_kind *kind, u64 address, u64 length)
{
	u64 end;

	if (address & (kind->dma_align - 1))
		return -EINVAL;
	return check_add_overflow(address, length, &end) ? -EOVERFLOW : 0;
}

/* Checks all of a command that needs no look at memory. */
int sim_command_check(const struct sim_kind *kind, const struct hetsim_command *command)
{
	const struct sim_operation *op;
	u64 written;
	int r;

	if (command->op >= ARRAY_SIZE(sim_operations) || command->flags)
		return -EINVAL;
	op = sim_operation_of(command);
	if (!op->step)
		return command->destination || command->source || command->source2 ||
		       command->length || command->value ? -EINVAL : 0;

	if (!command->length || command->length & (kind->dma_align - 1) ||
	    command->length > kind->max_segment || (op->words && command->length % sizeof(u32)))
		return -EINVAL;
	if ((!op->value && command->value) || command->value > U32_MAX ||
	    (!(op->reads & BIT(SIM_SOURCE)) && command->source) ||
	    (!(op->reads & BIT(SIM_SOURCE2)) && command->source2))
		return -EINVAL;

	written = op->writes ? command->length : op->result_size;
	r = sim_operand_check(kind, command->destination, written);
	r = r ?: sim_operand_check(kind, command->source, command->length);
	r = r ?: sim_operand_check(kind, command->source2, command->length);
	if (r)
		return r;

	if (command->op == HETSIM_OP_COPY &&
	    command->source < command->destination + command->length &&
	    command->destination < command->source + command->length)
		return -EINVAL;
	return 0;
}

/* Bytes until one of the operands comes to the end of its page. */
static size_t sim_piece_size(const struct sim_run *run, u64 left)
{
	size_t n = min_t(u64, left, PAGE_SIZE);
	unsigned int i;

	for (i = 0; i < SIM_OPERANDS; i++) {
		if (run->used & BIT(i))
			n = min_t(size_t, n, PAGE_SIZE - offset_in_page(run->address[i]));
	}
	return n;
}

/* True when the command is to stop. */
static bool sim_piece_run(struct sim_run *run, size_t n)
{
	void *operand[SIM_OPERANDS] = {};
	bool stop;
	int i;

	for (i = 0; i < SIM_OPERANDS; i++) {
		if (run->used & BIT(i))
			operand[i] = kmap_local_page(*run->pages[i]) +
				     offset_in_page(run->address[i]);
	}
	stop = run->op->step(run, operand, n);
	while (i--) {
		if (!(run->used & BIT(i)))
			continue;
		kunmap_local(operand[i]);
		run->address[i] += n;
		run->pages[i] += !offset_in_page(run->address[i]);
	}
	return stop;
}

/*
 * The pages of each operand from here on: up to *@n bytes, which becomes less where
 * not all are there. -EFAULT or -EAGAIN when the first of one is not.
 */
static int sim_burst_translate(struct sim_run *run, u64 *n)
{
	struct sim_queue *queue = run->queue;
	unsigned int i;
	int r;

	for (i = 0; i < SIM_OPERANDS; i++) {
		unsigned int offset = offset_in_page(run->address[i]);

		if (!(run->used & BIT(i)))
			continue;
		run->pages[i] = queue->pages[i];
		r = sim_va_translate(&queue->opener->va, &queue->tlb, run->address[i],
				     i == SIM_DESTINATION, queue->pages[i],
				     DIV_ROUND_UP(offset + *n, PAGE_SIZE));
		if (r < 0) {
			run->fault_address = run->address[i];
			return r;
		}
		*n = min(*n, (u64)r * PAGE_SIZE - offset);
	}
	return 0;
}

/*
 * Runs the command as far as its pages are there, with va->lock held, which keeps them where they
 * are. -EFAULT or -EAGAIN when one is not there, 1 when the command is to stop.
 */
static int sim_burst_run(struct sim_run *run, u64 *left)
{
	u64 n = min_t(u64, *left, SIM_BURST), end;
	int r;

	r = sim_burst_translate(run, &n);
	if (r)
		return r;
	end = *left - n;
	while (*left > end && !r) {
		n = sim_piece_size(run, *left - end);
		r = sim_piece_run(run, n);
		*left -= n;
	}
	return r;
}

static int sim_range_run(struct sim_run *run, u64 length)
{
	struct sim_queue *queue = run->queue;
	struct sim_va *va = &queue->opener->va;
	u64 left = length;
	int r = 0;

	while (left && !r) {
		u64 generation;

		r = sim_engine_poll(queue);
		if (r)
			break;
		down_read(&va->lock);
		generation = va->generation;
		r = sim_burst_run(run, &left);
		up_read(&va->lock);
		if (r == -EFAULT)
			r = sim_engine_fault(queue, generation);
		else if (r == -EAGAIN)
			r = sim_engine_moving(queue, generation);
	}
	sim_count(queue->opener->dev, queue->opener->account, SIM_BYTES_ENGINE,
		  (length - left) * hweight32(run->used));
	return min(r, 0);
}

int sim_command_run(struct sim_queue *queue, const struct hetsim_command *command,
		    u64 *ret_address)
{
	const struct sim_operation *op = sim_operation_of(command);
	struct sim_run run = {
		.queue = queue,
		.op = op,
		.value = command->value,
		.address = { command->destination, command->source, command->source2 },
		.used = op->reads | (op->writes ? BIT(SIM_DESTINATION) : 0),
	};
	u32 crc;
	int r;

	if (!op->step)
		return sim_engine_poll(queue);

	if (command->op == HETSIM_OP_CRC32)
		run.number = U32_MAX;
	else if (command->op == HETSIM_OP_HISTOGRAM)
		memset(queue->counts, 0, sizeof(queue->counts));
	r = sim_range_run(&run, command->length);
	if (r || !op->result_size)
		goto out;

	switch (command->op) {
	case HETSIM_OP_HISTOGRAM:
		run.bytes = (const u8 *)queue->counts;
		break;
	case HETSIM_OP_CRC32:
		crc = ~run.number;
		run.bytes = (const u8 *)&crc;
		break;
	case HETSIM_OP_COMPARE:
		if (run.number == command->length)
			run.number = U64_MAX;
		run.bytes = (const u8 *)&run.number;
		break;
	}
	run.op = &sim_operation_store;
	run.used = BIT(SIM_DESTINATION);
	run.address[SIM_DESTINATION] = command->destination;
	r = sim_range_run(&run, op->result_size);
out:
	*ret_address = run.fault_address;
	return r;
}
