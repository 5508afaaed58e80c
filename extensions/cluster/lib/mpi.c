// SPDX-License-Identifier: MIT
/*
 * Arrays: one-sided MPI, and the thread that makes progress.
 *
 * A window is made over the map: MPICH copies to and from a dynamic window seven times slower
 * (1 MiB took 1105 us, and 158 us this way), and Open MPI 4 limits what may be attached. MPICH
 * serves a target only in calls of the target, so a thread makes some.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <time.h>

#include "cluster.h"

#define PIECE (1ull << 30) /* bytes of one call: MPI counts in int */
#define BETWEEN_NS 100000

static void progress(struct hm_array *array)
{
	int there;

	MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, array->comm, &there, MPI_STATUS_IGNORE);
}

static void *progress_thread(void *user)
{
	struct timespec between = { .tv_nsec = BETWEEN_NS };
	struct hm_array *array = user;

	while (!atomic_load(&array->stop)) {
		array->transport->progress(array);
		nanosleep(&between, NULL);
	}
	return NULL;
}

static int expose(struct hm_array *array, void *base, uint64_t bytes)
{
	int level, code, r;

	code = MPI_Win_create(base, (MPI_Aint)bytes, 1, MPI_INFO_NULL, array->comm,
			      &array->window);
	if (code)
		return mpi_error(code, "MPI_Win_create");
	MPI_Win_set_errhandler(array->window, MPI_ERRORS_RETURN);
	code = MPI_Win_lock_all(MPI_MODE_NOCHECK, array->window);
	if (code) {
		MPI_Win_free(&array->window);
		return mpi_error(code, "MPI_Win_lock_all");
	}
	array->exposed = true;
	MPI_Query_thread(&level);
	if (level < MPI_THREAD_MULTIPLE)
		return 0;
	r = -pthread_create(&array->thread, NULL, progress_thread, array);
	array->has_thread = !r;
	return r ? hm_error_set(r, "a thread that makes progress: %s", strerror(-r)) : 0;
}

static void withdraw(struct hm_array *array, bool together)
{
	if (array->has_thread) {
		atomic_store(&array->stop, 1);
		pthread_join(array->thread, NULL);
		array->has_thread = false;
	}
	/* Freeing is collective: with a rank that has ended it would wait for ever. */
	if (!array->exposed || !together)
		return;
	MPI_Win_unlock_all(array->window);
	MPI_Win_free(&array->window);
	array->exposed = false;
}

static int put(struct hm_array *array, uint32_t rank, uint64_t offset, const void *from,
	       uint64_t bytes)
{
	const char *next = from;
	int code;

	while (bytes) {
		int n = (int)(bytes < PIECE ? bytes : PIECE);

		code = MPI_Put(next, n, MPI_BYTE, (int)rank, (MPI_Aint)offset, n, MPI_BYTE,
			       array->window);
		if (code)
			return mpi_error(code, "MPI_Put");
		next += n;
		offset += (uint64_t)n;
		bytes -= (uint64_t)n;
	}
	return 0;
}

static int get(struct hm_array *array, uint32_t rank, uint64_t offset, void *to, uint64_t bytes)
{
	char *next = to;
	int code;

	while (bytes) {
		int n = (int)(bytes < PIECE ? bytes : PIECE);

		code = MPI_Get(next, n, MPI_BYTE, (int)rank, (MPI_Aint)offset, n, MPI_BYTE,
			       array->window);
		if (code)
			return mpi_error(code, "MPI_Get");
		next += n;
		offset += (uint64_t)n;
		bytes -= (uint64_t)n;
	}
	return 0;
}

/* One message, whose type says where the runs are. */
static int put_runs(struct hm_array *array, uint32_t rank, uint64_t offset, const void *from,
		    const struct runs *runs)
{
	MPI_Datatype type;
	int code;

	code = MPI_Type_create_hindexed(runs->n, runs->length, runs->place, MPI_BYTE, &type);
	if (code)
		return mpi_error(code, "MPI_Type_create_hindexed");
	code = MPI_Type_commit(&type);
	if (!code)
		code = MPI_Put(from, 1, type, (int)rank, (MPI_Aint)offset, 1, type,
			       array->window);
	/* MPI keeps it until the put has ended. */
	MPI_Type_free(&type);
	return mpi_error(code, "MPI_Put");
}

static const MPI_Op ops[] = {
	[HM_ARRAY_ADD] = MPI_SUM,         [HM_ARRAY_MIN] = MPI_MIN,
	[HM_ARRAY_MAX] = MPI_MAX,         [HM_ARRAY_AND] = MPI_BAND,
	[HM_ARRAY_OR] = MPI_BOR,          [HM_ARRAY_XOR] = MPI_BXOR,
	[HM_ARRAY_REPLACE] = MPI_REPLACE, [HM_ARRAY_KEEP] = MPI_NO_OP,
};

/*
 * Open MPI 4 compares unsigned numbers as signed ones where its transport changes an element by
 * itself (btl/vader), and not in calls of this process alone.
 */
#ifdef OPEN_MPI
#define ORDER_HERE_IS_ORDER_THERE false
#else
#define ORDER_HERE_IS_ORDER_THERE true
#endif

/*
 * MPICH 4.0 compares unsigned numbers as signed ones in MPI_MIN and MPI_MAX: what MPI makes of two
 * numbers here it makes of them at the owner, too.
 */
static int check_order(const struct number *number, uint32_t op)
{
	uint64_t small = 1, large = number->bytes == 4 ? 1ull << 31 : 1ull << 63;
	uint64_t found = large, expected = op == HM_ARRAY_MIN ? small : large;

	if (op != HM_ARRAY_MIN && op != HM_ARRAY_MAX)
		return 0;
	if (number->dtype != HM_DTYPE_U32 && number->dtype != HM_DTYPE_U64)
		return 0;
	if (ORDER_HERE_IS_ORDER_THERE &&
	    !MPI_Reduce_local(&small, &found, 1, number->mpi, ops[op]) && found == expected)
		return 0;
	return hm_error_set(
		-EOPNOTSUPP,
		"this MPI compares unsigned numbers as signed ones: use I32, I64 or F64 "
		"for a minimum or a maximum on several nodes");
}

static int accumulate(struct hm_array *array, uint32_t rank, uint64_t offset, const void *from,
		      uint64_t bytes, const struct number *number, uint32_t op)
{
	const char *next = from;
	int code, r = check_order(number, op);

	if (r)
		return r;
	while (bytes) {
		uint64_t piece = bytes < PIECE ? bytes : PIECE;
		int n = (int)(piece / number->bytes);

		code = MPI_Accumulate(next, n, number->mpi, (int)rank, (MPI_Aint)offset, n,
				      number->mpi, ops[op], array->window);
		if (code)
			return mpi_error(code, "MPI_Accumulate");
		next += piece;
		offset += piece;
		bytes -= piece;
	}
	return 0;
}

static int fetch_op(struct hm_array *array, uint32_t rank, uint64_t offset, const void *operand,
		    void *ret_old, const struct number *number, uint32_t op)
{
	int code, r = check_order(number, op);

	if (r)
		return r;
	code = MPI_Fetch_and_op(operand, ret_old, number->mpi, (int)rank, (MPI_Aint)offset,
				ops[op], array->window);
	if (code)
		return mpi_error(code, "MPI_Fetch_and_op");
	return mpi_error(MPI_Win_flush((int)rank, array->window), "MPI_Win_flush");
}

static int flush(struct hm_array *array)
{
	uint32_t rank;
	int code;

	for (rank = 0; rank < array->ranks; rank++) {
		if (!array->touched[rank])
			continue;
		code = MPI_Win_flush((int)rank, array->window);
		if (code)
			return mpi_error(code, "MPI_Win_flush");
		array->touched[rank] = 0;
	}
	return 0;
}

const struct transport_ops transport_mpi = {
	.name = "mpi",
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
