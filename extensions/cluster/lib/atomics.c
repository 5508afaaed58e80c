// SPDX-License-Identifier: MIT
/*
 * Arrays: what changes an element as a whole.
 *
 * On one node CPUs do it, in the pages that all ranks share. On several nodes MPI does it at the
 * owner, for ranks of the owner's node, too: the atomic calls of CPUs and of MPI are not atomic
 * against each other.
 */
#include <errno.h>
#include <string.h>

#include "cluster.h"

#define ROUND(op, result)   \
	case op:            \
		z = result; \
		break

#define COMBINE_INTEGER(name, type, wide)                               \
	static uint64_t name(uint32_t op, uint64_t a, uint64_t b)       \
	{                                                               \
		type x = (type)a, y = (type)b, z = x;                   \
                                                                        \
		switch (op) {                                           \
			ROUND(HM_ARRAY_ADD, (type)((wide)a + (wide)b)); \
			ROUND(HM_ARRAY_MIN, x < y ? x : y);             \
			ROUND(HM_ARRAY_MAX, x > y ? x : y);             \
			ROUND(HM_ARRAY_AND, x &y);                      \
			ROUND(HM_ARRAY_OR, x | y);                      \
			ROUND(HM_ARRAY_XOR, x ^ y);                     \
			ROUND(HM_ARRAY_REPLACE, y);                     \
		default:                                                \
			break;                                          \
		}                                                       \
		return (wide)z;                                         \
	}

#define COMBINE_FLOAT(name, type)                                 \
	static uint64_t name(uint32_t op, uint64_t a, uint64_t b) \
	{                                                         \
		uint64_t bits = 0;                                \
		type x, y, z;                                     \
                                                                  \
		memcpy(&x, &a, sizeof(x));                        \
		memcpy(&y, &b, sizeof(y));                        \
		z = x;                                            \
		switch (op) {                                     \
			ROUND(HM_ARRAY_ADD, x + y);               \
			ROUND(HM_ARRAY_MIN, x < y ? x : y);       \
			ROUND(HM_ARRAY_MAX, x > y ? x : y);       \
			ROUND(HM_ARRAY_REPLACE, y);               \
		default:                                          \
			break;                                    \
		}                                                 \
		memcpy(&bits, &z, sizeof(z));                     \
		return bits;                                      \
	}

COMBINE_INTEGER(combine_i32, int32_t, uint32_t)
COMBINE_INTEGER(combine_u32, uint32_t, uint32_t)
COMBINE_INTEGER(combine_i64, int64_t, uint64_t)
COMBINE_INTEGER(combine_u64, uint64_t, uint64_t)
COMBINE_FLOAT(combine_f32, float)
COMBINE_FLOAT(combine_f64, double)

static const struct number *find_number(uint32_t dtype)
{
	/* Open MPI's types are addresses, and MPICH's are numbers: both are constants here. */
	static const struct number numbers[] = {
		{ HM_DTYPE_I32, 4, true, MPI_INT32_T, combine_i32 },
		{ HM_DTYPE_U32, 4, true, MPI_UINT32_T, combine_u32 },
		{ HM_DTYPE_I64, 8, true, MPI_INT64_T, combine_i64 },
		{ HM_DTYPE_U64, 8, true, MPI_UINT64_T, combine_u64 },
		{ HM_DTYPE_F32, 4, false, MPI_FLOAT, combine_f32 },
		{ HM_DTYPE_F64, 8, false, MPI_DOUBLE, combine_f64 },
	};
	size_t i;

	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (numbers[i].dtype == dtype)
			return &numbers[i];
	return NULL;
}

static int check_number(const struct hm_array *array, uint32_t dtype, uint32_t op,
			uint32_t last, const struct number **ret_number)
{
	const struct number *number = find_number(dtype);

	if (!number)
		return hm_error_set(
			-EINVAL, "dtype %u: elements change as I32, U32, I64, U64, F32 and F64",
			dtype);
	if (number->bytes != array->layout.element)
		return hm_error_set(-EINVAL, "dtype %u has %u bytes, and an element %u", dtype,
				    number->bytes, array->layout.element);
	if (op > last)
		return hm_error_set(-EINVAL, "operation %u on elements is not known here", op);
	if (!number->has_bits && op >= HM_ARRAY_AND && op <= HM_ARRAY_XOR)
		return hm_error_set(
			-EINVAL, "bits of floating-point numbers are not combined (dtype %u)",
			dtype);
	*ret_number = number;
	return 0;
}

static uint64_t change_4(const struct number *number, uint32_t *at, uint32_t op, uint64_t value)
{
	uint32_t old = __atomic_load_n(at, __ATOMIC_RELAXED), new;

	do
		new = (uint32_t)number->combine(op, old, value);
	while (!__atomic_compare_exchange_n(at, &old, new, true, __ATOMIC_ACQ_REL,
					    __ATOMIC_RELAXED));
	return old;
}

static uint64_t change_8(const struct number *number, uint64_t *at, uint32_t op, uint64_t value)
{
	uint64_t old = __atomic_load_n(at, __ATOMIC_RELAXED), new;

	do
		new = number->combine(op, old, value);
	while (!__atomic_compare_exchange_n(at, &old, new, true, __ATOMIC_ACQ_REL,
					    __ATOMIC_RELAXED));
	return old;
}

/* An element in the pages of the node; returns its bits before. */
static uint64_t change(const struct number *number, void *at, uint32_t op, const void *operand)
{
	uint64_t value = 0;

	memcpy(&value, operand, number->bytes);
	return number->bytes == 4 ? change_4(number, at, op, value) :
				    change_8(number, at, op, value);
}

/* A stretch of values. The lock is held if there is a transport. */
static int change_stretch(struct hm_array *array, const struct stretch *stretch,
			  const unsigned char *from, const struct number *number, uint32_t op)
{
	unsigned char *here = array->node.base + stretch->offset - array->node.first;
	uint64_t i;
	int r = races_note(array, stretch, TOUCH_CHANGE);

	if (r)
		return r;
	if (!array->transport) {
		for (i = 0; i < stretch->bytes; i += number->bytes)
			change(number, here + i, op, from + i);
		atomic_fetch_add_explicit(&array->shared, stretch->bytes, memory_order_relaxed);
		return 0;
	}
	array->touched[stretch->rank] = 1;
	atomic_fetch_add_explicit(&array->sent, stretch->bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(&array->messages, 1, memory_order_relaxed);
	return array->transport->accumulate(array, stretch->rank,
					    stretch->offset - array->first[stretch->rank], from,
					    stretch->bytes, number, op);
}

int hm_array_accumulate(struct hm_array *array, const struct hm_array_range *range,
			uint32_t dtype, uint32_t op, const void *from, uint64_t *ret_ticket)
{
	const struct number *number;
	struct stretch stretch;
	struct walk walk;
	uint64_t ticket = 0;
	int r = array_check(array, range);

	if (!r && !from)
		r = hm_error_set(-EINVAL, "an accumulate needs values");
	if (!r)
		r = check_number(array, dtype, op, HM_ARRAY_REPLACE, &number);
	if (!r)
		r = view_refuse(from, array_bytes_of(array, range));
	if (r)
		return r;
	pthread_rwlock_rdlock(&array->moving);
	r = walk_begin(&walk, &array->layout, range);
	if (!r && array->transport) {
		pthread_mutex_lock(&array->lock);
		ticket = ++array->issued;
	}
	while (!r && walk_next(&walk, &stretch))
		r = change_stretch(array, &stretch,
				   (const unsigned char *)from + stretch.packed, number, op);
	if (ticket)
		pthread_mutex_unlock(&array->lock);
	pthread_rwlock_unlock(&array->moving);
	if (!r && ret_ticket)
		*ret_ticket = ticket;
	return r;
}

int hm_array_fetch(struct hm_array *array, const uint64_t *index, uint32_t dtype, uint32_t op,
		   const void *operand, void *ret_old)
{
	static const uint64_t nothing;
	struct hm_array_range range;
	const struct number *number;
	struct stretch stretch;
	struct walk walk;
	uint64_t old = 0;
	uint32_t i;
	int r = array_check(array, ret_old);

	if (!r && (!index || (!operand && op != HM_ARRAY_KEEP)))
		r = hm_error_set(-EINVAL, "a fetch needs an index and an operand");
	if (!r)
		r = check_number(array, dtype, op, HM_ARRAY_KEEP, &number);
	for (i = 0; !r && i < array->layout.dimensions; i++) {
		range.start[i] = index[i];
		range.count[i] = 1;
	}
	if (r)
		return r;
	if (op == HM_ARRAY_KEEP)
		operand = &nothing;
	pthread_rwlock_rdlock(&array->moving);
	r = walk_begin(&walk, &array->layout, &range);
	if (!r) {
		walk_next(&walk, &stretch);
		r = races_note(array, &stretch, TOUCH_CHANGE);
	}
	if (r) {
		/* The index is out of range, or there is no memory. */
	} else if (!array->transport) {
		old = change(number, array->node.base + stretch.offset - array->node.first, op,
			     operand);
	} else {
		pthread_mutex_lock(&array->lock);
		r = array->transport->fetch_op(array, stretch.rank,
					       stretch.offset - array->first[stretch.rank],
					       operand, &old, number, op);
		pthread_mutex_unlock(&array->lock);
		atomic_fetch_add_explicit(&array->messages, 1, memory_order_relaxed);
	}
	pthread_rwlock_unlock(&array->moving);
	if (!r)
		memcpy(ret_old, &old, number->bytes);
	return r;
}
