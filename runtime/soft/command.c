// SPDX-License-Identifier: MIT
/*
 * The twin's commands: a step for each, and running one through the device's page table, piece by
 * piece, as far as pages are contiguous.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "soft/mirror.h"

/* At -O2 gcc does not vectorise loops of unknown length. */
#ifdef __clang__
#define LONG_LOOP
#else
#define LONG_LOOP __attribute__((optimize("O3")))
#endif

/* A command that is running. */
struct run {
	struct soft_queue *queue;
	/* Does one piece, in one run of pages of each operand. True: stop early. */
	bool (*step)(struct run *run, char *const *operand, size_t n);
	uint32_t value;
	uint64_t address[SIM_OPERANDS]; /* of the next piece */
	uint32_t used;                  /* BIT(SIM_DESTINATION) and so on */
	bool reads_back;                /* the destination, too */
	uint64_t left;                  /* bytes that it goes on to use */
	uint64_t number;                /* a step's own: its result so far */
	const char *bytes;              /* a step's own: the bytes it stores */
	struct sim_fault fault;         /* the last one that was met */
};

/* ---- the steps ---- */

static bool step_copy(struct run *run, char *const *operand, size_t n)
{
	(void)run;
	/* The ranges may be the same bytes, bound at two addresses. */
	memmove(operand[SIM_DESTINATION], operand[SIM_SOURCE], n);
	return false;
}

/* A step that makes each word of the destination from those of the sources. */
#define STEP_WORDS(name, expression)                                                          \
	LONG_LOOP static bool step_##name(struct run *run, char *const *operand, size_t n)    \
	{                                                                                     \
		uint32_t *d = (uint32_t *)operand[SIM_DESTINATION];                           \
		const uint32_t *a __attribute__((unused)) = (uint32_t *)operand[SIM_SOURCE];  \
		const uint32_t *b __attribute__((unused)) = (uint32_t *)operand[SIM_SOURCE2]; \
		const uint32_t value __attribute__((unused)) = run->value;                    \
		size_t i;                                                                     \
                                                                                              \
		for (i = 0; i < n / 4; i++)                                                   \
			d[i] = (expression);                                                  \
		return false;                                                                 \
	}

STEP_WORDS(fill, value)
STEP_WORDS(add, a[i] + b[i])
STEP_WORDS(xor, a[i] ^ b[i])
STEP_WORDS(scale, a[i] * value)
STEP_WORDS(axpy, d[i] + a[i] * value)

/*
 * Counts in eight tables, which are added up for each piece: with one table, a byte that repeats
 * would wait for its own last count.
 */
static bool step_histogram(struct run *run, char *const *operand, size_t n)
{
	uint32_t counts[8][256] = { 0 };
	const uint8_t *bytes = (const uint8_t *)operand[SIM_SOURCE];
	uint64_t eight;
	size_t i, j;

	for (i = 0; n - i >= sizeof(eight); i += sizeof(eight)) {
		memcpy(&eight, bytes + i, sizeof(eight));
#pragma GCC unroll 8
		for (j = 0; j < 8; j++)
			counts[j][(uint8_t)(eight >> 8 * j)]++;
	}
	for (; i < n; i++)
		counts[0][bytes[i]]++;
	for (i = 0; i < 256; i++)
		for (j = 0; j < 8; j++)
			run->queue->counts[i] += counts[j][i];
	return false;
}

#define CRC_POLYNOMIAL 0xedb88320u /* zlib's, bits reversed */

/* Effect of a byte on the CRC, by its distance from the last of eight bytes. */
static uint32_t crc_table[8][256];
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;

static void crc_init(void)
{
	uint32_t byte, i;

	for (byte = 0; byte < 256; byte++) {
		uint32_t crc = byte;

		for (i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? CRC_POLYNOMIAL : 0);
		crc_table[0][byte] = crc;
	}
	for (byte = 0; byte < 256; byte++)
		for (i = 1; i < 8; i++)
			crc_table[i][byte] = crc_table[i - 1][byte] >> 8 ^
					     crc_table[0][crc_table[i - 1][byte] & 255];
}

static bool step_crc32(struct run *run, char *const *operand, size_t n)
{
	const uint8_t *bytes = (const uint8_t *)operand[SIM_SOURCE];
	uint32_t crc = (uint32_t)run->number;
	uint64_t eight;

	for (; n >= sizeof(eight); n -= sizeof(eight), bytes += sizeof(eight)) {
		memcpy(&eight, bytes, sizeof(eight));
		eight = le64toh(eight) ^ crc;
		crc = crc_table[7][eight & 255] ^ crc_table[6][eight >> 8 & 255] ^
		      crc_table[5][eight >> 16 & 255] ^ crc_table[4][eight >> 24 & 255] ^
		      crc_table[3][eight >> 32 & 255] ^ crc_table[2][eight >> 40 & 255] ^
		      crc_table[1][eight >> 48 & 255] ^ crc_table[0][eight >> 56];
	}
	for (; n; n--, bytes++)
		crc = crc >> 8 ^ crc_table[0][(crc ^ *bytes) & 255];
	run->number = crc;
	return false;
}

/*
 * The result counts bytes until the first difference. Other threads may be writing: a difference
 * that memcmp() saw may be gone when the loop looks for it.
 */
static bool step_compare(struct run *run, char *const *operand, size_t n)
{
	const char *a = operand[SIM_SOURCE], *b = operand[SIM_SOURCE2];
	size_t i = n;

	if (memcmp(a, b, n))
		for (i = 0; i < n && a[i] == b[i];)
			i++;
	run->number += i;
	return i < n;
}

/* Stores a command's result at its destination, over several runs of pages if need be. */
static bool step_store(struct run *run, char *const *operand, size_t n)
{
	memcpy(operand[SIM_DESTINATION], run->bytes, n);
	run->bytes += n;
	return false;
}

static bool (*const steps[SIM_N_OPERATIONS])(struct run *run, char *const *operand,
					     size_t n) = {
	[HETSIM_OP_FILL] = step_fill,
	[HETSIM_OP_COPY] = step_copy,
	[HETSIM_OP_ADD] = step_add,
	[HETSIM_OP_XOR] = step_xor,
	[HETSIM_OP_SCALE] = step_scale,
	[HETSIM_OP_AXPY] = step_axpy,
	[HETSIM_OP_HISTOGRAM] = step_histogram,
	[HETSIM_OP_CRC32] = step_crc32,
	[HETSIM_OP_COMPARE] = step_compare,
};

/* ---- running ---- */

/*
 * Finds the address of an operand in this process; *@n shrinks to the bytes for which its pages
 * are contiguous. -EFAULT: run->fault tells why.
 */
static int operand_find(struct run *run, unsigned int i, size_t *n, char **ret_operand)
{
	struct soft_va *va = &run->queue->file->va;
	struct soft_tlb *tlb = &run->queue->tlb;
	uint64_t offset = run->address[i] & (SIM_PAGE_SIZE - 1);
	uint64_t page = run->address[i] - offset;
	size_t found = SIM_PAGE_SIZE - offset;
	char *first, *next;
	int r;

	r = soft_va_translate(va, tlb, page, i == SIM_DESTINATION, &first);
	if (r) {
		run->fault = (struct sim_fault){
			.address = run->address[i],
			.reason = r == -ENOENT ? HETSIM_REASON_UNBOUND : HETSIM_REASON_BINDING,
			.write = i == SIM_DESTINATION,
		};
		return -EFAULT;
	}
	for (; found < *n; found += SIM_PAGE_SIZE) {
		if (soft_va_translate(va, tlb, page + offset + found, i == SIM_DESTINATION,
				      &next) ||
		    next != first + offset + found)
			break;
	}
	*n = min_u64(*n, found);
	*ret_operand = first + offset;
	return 0;
}

/* The caller holds va->lock for reading. -EFAULT, or 1: the command must stop. */
static int piece_run(struct run *run, size_t *n)
{
	char *operand[SIM_OPERANDS] = { 0 };
	unsigned int i;
	bool stop;
	int r;

	for (i = 0; i < SIM_OPERANDS; i++) {
		if (!(run->used & BIT(i)))
			continue;
		r = operand_find(run, i, n, &operand[i]);
		if (r)
			return r;
	}
	stop = run->step(run, operand, *n);
	for (i = 0; i < SIM_OPERANDS; i++)
		run->address[i] += *n;
	return stop;
}

/* Runs as far as the pages are there. */
static int burst_run(struct run *run, uint64_t *left)
{
	uint64_t end = *left - min_u64(*left, SIM_BURST);
	int r = 0;

	while (*left > end && !r) {
		size_t n = *left - end;

		r = piece_run(run, &n);
		if (r >= 0)
			*left -= n;
	}
	return r;
}

/* ---- operands in memory of the process ---- */

/*
 * Finds out which operands of the next piece are bound, and shrinks *@n to what is so of all of
 * them in one way. *@ret_any: bits of those that are not. -EFAULT.
 */
static int any_look(struct run *run, size_t *n, uint32_t *ret_any)
{
	struct soft_va *va = &run->queue->file->va;
	struct soft_tlb *tlb = &run->queue->tlb;
	char *page, *operand;
	uint64_t at, alike; /* unbound bytes from the operand's address on */
	unsigned int i;
	int r = 0;

	*ret_any = 0;
	pthread_rwlock_rdlock(&va->lock);
	for (i = 0; !r && i < SIM_OPERANDS; i++) {
		bool write = i == SIM_DESTINATION;

		if (!(run->used & BIT(i)))
			continue;
		at = run->address[i] & ~(SIM_PAGE_SIZE - 1);
		if (soft_va_translate(va, tlb, at, write, &page) != -ENOENT) {
			r = operand_find(run, i, n, &operand);
			continue;
		}
		*ret_any |= BIT(i);
		/* Counts bytes: the end address of the last page of all would wrap to 0. */
		alike = at + SIM_PAGE_SIZE - run->address[i];
		for (; alike < *n; alike += SIM_PAGE_SIZE)
			if (soft_va_translate(va, tlb, run->address[i] + alike, write, &page) !=
			    -ENOENT)
				break;
		*n = min_u64(*n, alike);
	}
	pthread_rwlock_unlock(&va->lock);
	return r;
}

static int any_copy(struct run *run, unsigned int i, bool out, bool write, size_t n)
{
	const struct soft_access access = {
		.mirror = run->queue->file->mirror,
		.queue = run->queue,
		.write = write,
		.end = run->address[i] + run->left,
	};

	return soft_mirror_copy(&access, out, run->address[i], run->queue->bounce->operand[i],
				n, &run->fault);
}

/* The step itself, with the bound operands where they are. */
static int any_step(struct run *run, uint32_t any, size_t *n)
{
	struct soft_va *va = &run->queue->file->va;
	char *operand[SIM_OPERANDS] = { 0 };
	unsigned int i;
	int r = 0;

	pthread_rwlock_rdlock(&va->lock);
	for (i = 0; !r && i < SIM_OPERANDS; i++) {
		if (any & BIT(i))
			operand[i] = run->queue->bounce->operand[i];
		else if (run->used & BIT(i))
			r = operand_find(run, i, n, &operand[i]);
	}
	if (!r)
		r = run->step(run, operand, *n);
	pthread_rwlock_unlock(&va->lock);
	return r;
}

/*
 * A piece with operands that are not bound: their bytes come here and go back by the kernel's
 * copies, without the lock, since a copy may wait for a disk.
 */
static int any_piece(struct run *run, uint32_t any, size_t *n)
{
	const uint32_t destination = BIT(SIM_DESTINATION);
	struct soft_queue *queue = run->queue;
	unsigned int i;
	int r = 0, stop;

	if (!queue->bounce)
		queue->bounce = sys_calloc(1, sizeof(*queue->bounce));
	if (!queue->bounce)
		return -ENOMEM;
	for (i = SIM_SOURCE; !r && i < SIM_OPERANDS; i++)
		if (any & BIT(i))
			r = any_copy(run, i, false, false, *n);
	if (!r && any & destination && run->reads_back)
		r = any_copy(run, SIM_DESTINATION, false, true, *n);
	if (r)
		return r;
	stop = any_step(run, any, n);
	if (stop < 0)
		return stop;
	if (any & destination)
		r = any_copy(run, SIM_DESTINATION, true, true, *n);
	if (r)
		return r;
	for (i = 0; i < SIM_OPERANDS; i++)
		run->address[i] += *n;
	return stop;
}

/* For a queue that uses the mirror. *@ret_done: bytes, 0 where all operands are bound. */
static int any_run(struct run *run, size_t *ret_done)
{
	size_t n = min_u64(run->left, SIM_BURST);
	uint32_t any;
	int r;

	*ret_done = 0;
	r = any_look(run, &n, &any);
	if (r || !any)
		return r;
	r = any_piece(run, any, &n);
	if (r >= 0)
		*ret_done = n;
	return r;
}

static bool uses_mirror(const struct soft_queue *queue)
{
	return queue->type == HETSIM_QUEUE_COUNTER && atomic_load(&queue->file->mirror);
}

/* ---- a range, in bursts ---- */

/* An error, or 0 to look again. */
static int fault_in_burst(struct run *run, uint64_t generation)
{
	/* Unbound since the look: the next one finds out whether the process has it. */
	if (uses_mirror(run->queue))
		return run->fault.reason == HETSIM_REASON_UNBOUND ? 0 : -EFAULT;
	return soft_engine_fault(run->queue, generation);
}

static int range_run(struct run *run, uint64_t length)
{
	struct soft_queue *queue = run->queue;
	struct soft_va *va = &queue->file->va;
	uint64_t left = length;
	int r = 0;

	while (left && !r) {
		uint64_t generation;
		size_t done;

		r = soft_engine_poll(queue);
		if (r)
			break;
		if (uses_mirror(queue)) {
			run->left = left;
			r = any_run(run, &done);
			left -= done;
			if (r || done)
				continue;
		}
		pthread_rwlock_rdlock(&va->lock);
		generation = va->generation;
		r = burst_run(run, &left);
		pthread_rwlock_unlock(&va->lock);
		if (r < 0)
			r = fault_in_burst(run, generation);
	}
	soft_count_add(queue->file->dev, queue->file->account, SIM_BYTES_ENGINE,
		       (length - left) * (uint64_t)__builtin_popcount(run->used));
	return r < 0 ? r : 0;
}

int soft_command_run(struct soft_queue *queue, const struct hetsim_command *command,
		     struct sim_fault *ret_fault)
{
	const struct sim_operation *op = &sim_operations[command->op];
	struct run run = {
		.queue = queue,
		.step = steps[command->op],
		.value = (uint32_t)command->value,
		.address = { command->destination, command->source, command->source2 },
		.used = op->used,
		.reads_back = command->op == HETSIM_OP_AXPY,
	};
	uint32_t crc;
	int r;

	if (!op->used)
		return soft_engine_poll(queue);

	if (command->op == HETSIM_OP_CRC32) {
		pthread_once(&crc_once, crc_init);
		run.number = UINT32_MAX;
	} else if (command->op == HETSIM_OP_HISTOGRAM) {
		memset(queue->counts, 0, sizeof(queue->counts));
	}
	r = range_run(&run, command->length);
	if (r || !op->result_size)
		goto out;

	switch (command->op) {
	case HETSIM_OP_HISTOGRAM:
		run.bytes = (const char *)queue->counts;
		break;
	case HETSIM_OP_CRC32:
		crc = ~(uint32_t)run.number;
		run.bytes = (const char *)&crc;
		break;
	default: /* HETSIM_OP_COMPARE: no other has a result */
		if (run.number == command->length)
			run.number = UINT64_MAX;
		run.bytes = (const char *)&run.number;
		break;
	}
	run.step = step_store;
	run.used = BIT(SIM_DESTINATION);
	run.address[SIM_DESTINATION] = command->destination;
	r = range_run(&run, op->result_size);
out:
	*ret_fault = run.fault;
	return r;
}
