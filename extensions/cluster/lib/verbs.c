// SPDX-License-Identifier: MIT
/*
 * Arrays: RDMA by libibverbs.
 *
 * The memory of a node is registered once. What callers hand over is not: it goes through slots
 * of a buffer that is, unless it lies in the array. Where memory can't be registered (shared maps
 * of files), the bytes of that rank go by MPI, whose window is there as well: elements of 4 bytes
 * change by it, since devices change 8 bytes as a whole.
 */
#ifdef HAVE_VERBS
#include "verbs.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

static int fail(struct verbs *verbs, int r, uint32_t rank, const char *why)
{
	if (!verbs->failed) {
		verbs->failed = r;
		snprintf(verbs->text, sizeof(verbs->text), "RDMA with rank %u failed: %s", rank,
			 why);
	}
	return hm_error_set(verbs->failed, "%s", verbs->text);
}

/* Ends copies that are complete. After a failure callers wait for none, and get no bytes. */
static int reap(struct verbs *verbs)
{
	struct ibv_wc done[8];
	int n = ibv_poll_cq(verbs->cq, 8, done), i, r = 0;

	if (n < 0) {
		/* Nobody will say that they have ended. */
		verbs->busy = 0;
		return fail(verbs, -EREMOTEIO, 0, "the completions can't be read");
	}
	for (i = 0; i < n; i++) {
		struct slot *slot = &verbs->slots[done[i].wr_id];
		const unsigned char *bytes = verbs->bytes + done[i].wr_id * SLOT_BYTES;

		if (done[i].status != IBV_WC_SUCCESS)
			r = fail(verbs, -EREMOTEIO, slot->rank,
				 ibv_wc_status_str(done[i].status));
		else if (slot->to && !verbs->failed)
			memcpy(slot->to, bytes, slot->bytes);
		slot->busy = false;
		verbs->busy--;
	}
	if (!n)
		sched_yield();
	return r;
}

static int drain(struct verbs *verbs)
{
	int r = 0, failed;

	while (verbs->busy) {
		failed = reap(verbs);
		r = r ? r : failed;
	}
	return r;
}

/* Waits for one that is free. */
static int take_slot(struct verbs *verbs, uint32_t *ret_slot)
{
	uint32_t i;
	int r;

	if (verbs->failed)
		return hm_error_set(verbs->failed, "%s", verbs->text);
	for (;;) {
		for (i = 0; verbs->busy < SLOTS && i < SLOTS; i++) {
			if (!verbs->slots[i].busy) {
				*ret_slot = i;
				return 0;
			}
		}
		r = reap(verbs);
		if (r)
			return r;
	}
}

/* The copy in @slot begins. @local: registered memory of this rank. */
static int post(struct verbs *verbs, uint32_t slot, struct ibv_send_wr *work, const void *local,
		uint32_t lkey)
{
	struct slot *taken = &verbs->slots[slot];
	struct ibv_sge place = { .addr = (uintptr_t)local,
				 .length = taken->bytes,
				 .lkey = lkey };
	struct ibv_send_wr *bad;
	int r;

	work->wr_id = slot;
	work->sg_list = &place;
	work->num_sge = 1;
	work->send_flags = IBV_SEND_SIGNALED;
	r = ibv_post_send(verbs->peers[taken->rank].qp, work, &bad);
	if (r)
		return fail(verbs, -EREMOTEIO, taken->rank, strerror(r));
	taken->busy = true;
	verbs->busy++;
	return 0;
}

/* Whether the device may read and write there as it is. */
static bool is_registered(const struct hm_array *array, const void *address, uint64_t bytes)
{
	const unsigned char *base = array->node.base, *at = address;
	uint64_t length = hm_map_length(array->node.map);

	return array->verbs->memory && at >= base && at < base + length &&
	       bytes <= (uint64_t)(base + length - at);
}

/* A piece of at most a slot's bytes. @from or @to is NULL. */
static int copy_piece(struct hm_array *array, uint32_t rank, uint64_t offset, const void *from,
		      void *to, uint32_t bytes)
{
	struct verbs *verbs = array->verbs;
	const struct exposure *there = &verbs->peers[rank].exposure;
	struct ibv_send_wr work = {
		.opcode = from ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
		.wr.rdma = { .remote_addr = there->address + offset, .rkey = there->rkey },
	};
	bool direct = is_registered(array, from ? from : to, bytes);
	unsigned char *staged;
	uint32_t slot;
	int r = take_slot(verbs, &slot);

	if (r)
		return r;
	staged = verbs->bytes + (uint64_t)slot * SLOT_BYTES;
	verbs->slots[slot].rank = rank;
	verbs->slots[slot].bytes = bytes;
	verbs->slots[slot].to = direct ? NULL : to;
	if (from)
		verbs->peers[rank].written = true;
	if (direct)
		return post(verbs, slot, &work, from ? from : to, verbs->memory->lkey);
	if (from)
		memcpy(staged, from, bytes);
	return post(verbs, slot, &work, staged, verbs->buffer->lkey);
}

static int copy(struct hm_array *array, uint32_t rank, uint64_t offset,
		const unsigned char *from, unsigned char *to, uint64_t bytes)
{
	uint64_t at;
	int r = 0;

	for (at = 0; !r && at < bytes; at += SLOT_BYTES) {
		uint64_t left = bytes - at;

		r = copy_piece(array, rank, offset + at, from ? from + at : NULL,
			       to ? to + at : NULL,
			       (uint32_t)(left < SLOT_BYTES ? left : SLOT_BYTES));
	}
	return r;
}

static int put(struct hm_array *array, uint32_t rank, uint64_t offset, const void *from,
	       uint64_t bytes)
{
	if (!array->verbs->peers[rank].exposure.ready)
		return transport_mpi.put(array, rank, offset, from, bytes);
	return copy(array, rank, offset, from, NULL, bytes);
}

static int get(struct hm_array *array, uint32_t rank, uint64_t offset, void *to, uint64_t bytes)
{
	if (!array->verbs->peers[rank].exposure.ready)
		return transport_mpi.get(array, rank, offset, to, bytes);
	return copy(array, rank, offset, NULL, to, bytes);
}

static int put_runs(struct hm_array *array, uint32_t rank, uint64_t offset, const void *from,
		    const struct runs *runs)
{
	const unsigned char *bytes = from;
	int i, r = 0;

	if (!array->verbs->peers[rank].exposure.ready)
		return transport_mpi.put_runs(array, rank, offset, from, runs);
	for (i = 0; !r && i < runs->n; i++)
		r = copy(array, rank, offset + (uint64_t)runs->place[i], bytes + runs->place[i],
			 NULL, (uint64_t)runs->length[i]);
	return r;
}

/* ---- elements of 8 bytes ---- */

/* One operation of the device, whose result is waited for. */
static int atomic(struct verbs *verbs, struct ibv_send_wr *work, uint32_t rank,
		  uint64_t *ret_old)
{
	const unsigned char *staged;
	uint32_t slot;
	int r = take_slot(verbs, &slot);

	if (r)
		return r;
	staged = verbs->bytes + (uint64_t)slot * SLOT_BYTES;
	verbs->slots[slot] =
		(struct slot){ .rank = rank, .bytes = sizeof(uint64_t), .to = ret_old };
	work->wr.atomic.rkey = verbs->peers[rank].exposure.rkey;
	r = post(verbs, slot, work, staged, verbs->buffer->lkey);
	while (!r && verbs->slots[slot].busy)
		r = reap(verbs);
	return r ? r : verbs->failed;
}

static int fetch_add(struct verbs *verbs, uint32_t rank, uint64_t address, uint64_t value,
		     uint64_t *ret_old)
{
	struct ibv_send_wr work = { .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD };

	work.wr.atomic.remote_addr = address;
	work.wr.atomic.compare_add = value;
	return atomic(verbs, &work, rank, ret_old);
}

static int exchange(struct verbs *verbs, uint32_t rank, uint64_t address, uint64_t expected,
		    uint64_t value, uint64_t *ret_old)
{
	struct ibv_send_wr work = { .opcode = IBV_WR_ATOMIC_CMP_AND_SWP };

	work.wr.atomic.remote_addr = address;
	work.wr.atomic.compare_add = expected;
	work.wr.atomic.swap = value;
	return atomic(verbs, &work, rank, ret_old);
}

static int change(struct hm_array *array, uint32_t rank, uint64_t offset, uint64_t value,
		  const struct number *number, uint32_t op, uint64_t *ret_old)
{
	struct verbs *verbs = array->verbs;
	uint64_t address = verbs->peers[rank].exposure.address + offset, old, found;
	int r;

	if (op == HM_ARRAY_ADD && number->has_bits)
		return fetch_add(verbs, rank, address, value, ret_old);
	/* Reads the element as a whole. */
	r = fetch_add(verbs, rank, address, 0, &found);
	for (old = ~found; !r && old != found && op != HM_ARRAY_KEEP;) {
		old = found;
		r = exchange(verbs, rank, address, old, number->combine(op, old, value),
			     &found);
	}
	if (!r)
		*ret_old = found;
	return r;
}

/* All changes of a type go one way: two ways are not atomic against each other. */
static bool by_device(const struct hm_array *array, uint32_t rank, const struct number *number)
{
	return array->verbs->atomics && array->verbs->peers[rank].exposure.ready &&
	       number->bytes == sizeof(uint64_t);
}

static int fetch_op(struct hm_array *array, uint32_t rank, uint64_t offset, const void *operand,
		    void *ret_old, const struct number *number, uint32_t op)
{
	uint64_t value, old;
	int r;

	if (!by_device(array, rank, number))
		return transport_mpi.fetch_op(array, rank, offset, operand, ret_old, number,
					      op);
	memcpy(&value, operand, sizeof(value));
	r = change(array, rank, offset, value, number, op, &old);
	if (!r)
		memcpy(ret_old, &old, sizeof(old));
	return r;
}

static int accumulate(struct hm_array *array, uint32_t rank, uint64_t offset, const void *from,
		      uint64_t bytes, const struct number *number, uint32_t op)
{
	uint64_t at, value, old;
	int r = 0;

	if (!by_device(array, rank, number))
		return transport_mpi.accumulate(array, rank, offset, from, bytes, number, op);
	for (at = 0; !r && at < bytes; at += sizeof(value)) {
		memcpy(&value, (const char *)from + at, sizeof(value));
		r = change(array, rank, offset + at, value, number, op, &old);
	}
	return r;
}

/* ---- the rest ---- */

/* That a write has ended does not say that CPUs there see it: a read behind it does. */
static int look_behind(struct verbs *verbs, uint32_t rank)
{
	const struct exposure *there = &verbs->peers[rank].exposure;
	struct ibv_send_wr work = {
		.opcode = IBV_WR_RDMA_READ,
		.wr.rdma = { .remote_addr = there->address, .rkey = there->rkey },
	};
	uint32_t slot;
	int r = take_slot(verbs, &slot);

	if (r)
		return r;
	verbs->slots[slot] = (struct slot){ .rank = rank, .bytes = 1 };
	verbs->peers[rank].written = false;
	return post(verbs, slot, &work, verbs->bytes + (uint64_t)slot * SLOT_BYTES,
		    verbs->buffer->lkey);
}

static int flush(struct hm_array *array)
{
	struct verbs *verbs = array->verbs;
	uint32_t rank;
	int r = 0, drained;

	for (rank = 0; !r && rank < array->ranks; rank++)
		if (verbs->peers[rank].written)
			r = look_behind(verbs, rank);
	drained = drain(verbs);
	r = r ? r : drained;
	if (!r && verbs->failed)
		r = hm_error_set(verbs->failed, "%s", verbs->text);
	return r ? r : transport_mpi.flush(array);
}

static int expose(struct hm_array *array, void *base, uint64_t bytes)
{
	int r = transport_mpi.expose(array, base, bytes);

	r = agree(array->comm, r);
	return r ? r : verbs_open(array, base, bytes);
}

static void withdraw(struct hm_array *array, bool together)
{
	/* Copies end, and then the memory of all ranks goes. */
	if (together) {
		if (array->verbs)
			drain(array->verbs);
		MPI_Barrier(array->comm);
	}
	verbs_close(array);
	transport_mpi.withdraw(array, together);
}

/* Devices serve by themselves; MPI does not. */
static void progress(struct hm_array *array)
{
	transport_mpi.progress(array);
}

const struct transport_ops transport_verbs = {
	.name = "verbs",
	.expose = expose,
	.withdraw = withdraw,
	.put = put,
	.get = get,
	.put_runs = put_runs,
	.accumulate = accumulate,
	.fetch_op = fetch_op,
	.flush = flush,
	.progress = progress,
};
#else
typedef int no_verbs;
#endif
