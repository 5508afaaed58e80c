// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The engine's commands: a step for each, and running one page after page
 * through the device's page table.
 */
#include <linux/bitops.h>
#include <linux/crc32.h>
#include <linux/highmem.h>
#include <linux/nospec.h>

#include "sim_queue.h"

/* A command on its way. */
struct sim_run {
	struct sim_queue *queue;
	/* Does one piece within a page of each operand. True to stop early. */
	bool (*step)(struct sim_run *run, void *const *operand, size_t n);
	u32 value;
	u64 address[SIM_OPERANDS]; /* where each operand goes on */
	struct page **pages[SIM_OPERANDS]; /* the same, in queue->pages */
	unsigned int used;	   /* BIT(SIM_DESTINATION) and so on */
	u64 number;		   /* a step's own: its result so far */
	const u8 *bytes;	   /* a step's own: the bytes that it stores */
	struct sim_fault fault; /* the last one that was met */
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

static bool (*const sim_steps[SIM_N_OPERATIONS])(struct sim_run *run, void *const *operand,
						  size_t n) = {
	[HETSIM_OP_FILL]	= sim_step_fill,
	[HETSIM_OP_COPY]	= sim_step_copy,
	[HETSIM_OP_ADD]		= sim_step_add,
	[HETSIM_OP_XOR]		= sim_step_xor,
	[HETSIM_OP_SCALE]	= sim_step_scale,
	[HETSIM_OP_AXPY]	= sim_step_axpy,
	[HETSIM_OP_HISTOGRAM]	= sim_step_histogram,
	[HETSIM_OP_CRC32]	= sim_step_crc32,
	[HETSIM_OP_COMPARE]	= sim_step_compare,
};

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
	stop = run->step(run, operand, n);
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
 * not all are there. As sim_va_translate() when the first of one is not.
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
			run->fault.address = run->address[i];
			run->fault.reason = r == -ENOENT ? HETSIM_REASON_UNBOUND :
							   HETSIM_REASON_BINDING;
			run->fault.write = i == SIM_DESTINATION;
			return r;
		}
		*n = min(*n, (u64)r * PAGE_SIZE - offset);
	}
	return 0;
}

/*
 * Runs the command as far as its pages are there, with va->lock held, which keeps them where they
 * are. As sim_va_translate() when one is not there, 1 when the command is to stop.
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
		if (r >= 0)
			sim_engine_brought(queue);
		else if (r == -ENOENT && queue->tlb.mirrors)
			r = sim_mirror_fault(queue, &run->fault, left);
		else if (r == -ENOENT || r == -EFAULT)
			r = sim_engine_fault(queue, generation);
		else if (r == -EAGAIN)
			r = sim_engine_moving(queue, generation);
	}
	sim_count(queue->opener->dev, queue->opener->account, SIM_BYTES_ENGINE,
		  (length - left) * hweight32(run->used));
	return min(r, 0);
}

int sim_command_run(struct sim_queue *queue, const struct hetsim_command *command,
		    struct sim_fault *ret_fault)
{
	unsigned int which = array_index_nospec(command->op, SIM_N_OPERATIONS);
	const struct sim_operation *op = &sim_operations[which];
	struct sim_run run = {
		.queue = queue,
		.step = sim_steps[which],
		.value = command->value,
		.address = { command->destination, command->source, command->source2 },
		.used = op->used,
	};
	u32 crc;
	int r;

	if (!op->used)
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
	run.step = sim_step_store;
	run.used = BIT(SIM_DESTINATION);
	run.address[SIM_DESTINATION] = command->destination;
	r = sim_range_run(&run, op->result_size);
out:
	*ret_fault = run.fault;
	return r;
}
