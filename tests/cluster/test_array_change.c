// SPDX-License-Identifier: MIT
/* Arrays: elements that several ranks change at a time, and files that arrays are saved in. */
#ifdef HAVE_CLUSTER
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cluster/ranks.h"
#include "lib/command.h"

#define N 96
#define COUNTS 25 /* numbers that each rank draws */

static MPI_Comm world;

static struct hm_array *make(uint32_t element, uint64_t rows, uint32_t distribution)
{
	struct hm_array *array;

	world = MPI_COMM_WORLD;
	RANK_OK(hm_array_create(&world,
				DESC(hm_array_desc, .dimensions = 1, .element = element,
				     .shape = { rows }, .distribution = distribution,
				     .chunk = 5),
				&array));
	return array;
}

static void read_all(struct hm_array *array, void *to, uint64_t rows)
{
	struct hm_array_range all = { .count = { rows } };

	RANK_OK(hm_array_get(array, &all, to, NULL));
	RANK_OK(hm_array_wait(array, HM_ARRAY_ALL));
}

/* ---- many ranks, one element ---- */

/* Each rank adds 1 + its rank to ranges that overlap: the model is a sum. */
static void add_ranges(void)
{
	AUTO(hm_array) *array = make(8, N, HM_ARRAY_CYCLIC);
	int64_t expected[N] = { 0 }, values[N], found[N];
	uint64_t i, k;
	int other;

	for (other = 0; other < ranks; other++)
		for (k = 0; k < 5; k++)
			for (i = 7 * k; i < N - 3 * k; i++)
				expected[i] += (1 + other) * (int64_t)(k + 1);
	for (k = 0; k < 5; k++) {
		struct hm_array_range range = { .start = { 7 * k }, .count = { N - 10 * k } };

		for (i = 0; i < N; i++)
			values[i] = (1 + rank) * (int64_t)(k + 1);
		RANK_OK(hm_array_accumulate(array, &range, HM_DTYPE_I64, HM_ARRAY_ADD, values,
					    NULL));
		/* The values are the caller's again. */
		RANK_OK(hm_array_wait(array, HM_ARRAY_ALL));
	}
	RANK_OK(hm_array_epoch(array, 0));
	read_all(array, found, N);
	RANK_CHECK(!memcmp(found, expected, sizeof(found)));
}

/* Each number is drawn once, by whichever rank. */
static void draw_numbers(void)
{
	AUTO(hm_array) *array = make(4, 2 * (uint64_t)ranks, HM_ARRAY_BLOCK);
	uint64_t index = 2 * (uint64_t)ranks - 1;
	uint32_t own[COUNTS], one = 1, i;
	uint32_t *all = calloc((size_t)ranks, sizeof(own));
	unsigned char *seen = calloc((size_t)ranks, COUNTS);

	for (i = 0; i < COUNTS; i++)
		RANK_OK(hm_array_fetch(array, &index, HM_DTYPE_U32, HM_ARRAY_ADD, &one,
				       &own[i]));
	MPI_Allgather(own, COUNTS, MPI_UINT32_T, all, COUNTS, MPI_UINT32_T, world);
	for (i = 0; i < COUNTS * (uint32_t)ranks; i++)
		if (all[i] >= COUNTS * (uint32_t)ranks || seen[all[i]]++)
			rank_fail(__FILE__, __LINE__, "%u was drawn twice, or out of range",
				  all[i]);
	RANK_OK(hm_array_fetch(array, &index, HM_DTYPE_U32, HM_ARRAY_KEEP, NULL, &own[0]));
	RANK_CHECK(own[0] == COUNTS * (uint32_t)ranks);
	RANK_OK(hm_array_epoch(array, 0));
	free(seen);
	free(all);
}

/* A row of one operation on one type, by rank 0: the element before, the operand, and after. */
struct step {
	uint32_t dtype, op;
	double before, operand, after;
};

static const struct step steps[] = {
	{ HM_DTYPE_I32, HM_ARRAY_ADD, -5, 7, 2 },
	{ HM_DTYPE_I32, HM_ARRAY_MIN, -5, 7, -5 },
	{ HM_DTYPE_I32, HM_ARRAY_MAX, -5, 7, 7 },
	{ HM_DTYPE_I32, HM_ARRAY_REPLACE, -5, 7, 7 },
	{ HM_DTYPE_U32, HM_ARRAY_AND, 12, 10, 8 },
	{ HM_DTYPE_U32, HM_ARRAY_OR, 12, 10, 14 },
	{ HM_DTYPE_U32, HM_ARRAY_XOR, 12, 10, 6 },
	{ HM_DTYPE_U32, HM_ARRAY_MAX, 4e9, 1, 4e9 },
	{ HM_DTYPE_I64, HM_ARRAY_MIN, -5e12, 7, -5e12 },
	{ HM_DTYPE_U64, HM_ARRAY_ADD, 5e12, 7, 5e12 + 7 },
	{ HM_DTYPE_F32, HM_ARRAY_ADD, 0.5, 0.25, 0.75 },
	{ HM_DTYPE_F32, HM_ARRAY_MIN, 0.5, -0.25, -0.25 },
	{ HM_DTYPE_F64, HM_ARRAY_MAX, 0.5, 0.25, 0.5 },
	{ HM_DTYPE_F64, HM_ARRAY_KEEP, 0.5, 0.25, 0.5 },
};

static void to_bits(uint32_t dtype, double value, void *bits)
{
	switch (dtype) {
	case HM_DTYPE_I32:
		*(int32_t *)bits = (int32_t)value;
		break;
	case HM_DTYPE_U32:
		*(uint32_t *)bits = (uint32_t)value;
		break;
	case HM_DTYPE_I64:
		*(int64_t *)bits = (int64_t)value;
		break;
	case HM_DTYPE_U64:
		*(uint64_t *)bits = (uint64_t)value;
		break;
	case HM_DTYPE_F32:
		*(float *)bits = (float)value;
		break;
	default:
		*(double *)bits = value;
		break;
	}
}

static void each_step(void)
{
	size_t i;

	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		const struct step *step = &steps[i];
		uint32_t bytes = step->dtype == HM_DTYPE_I32 || step->dtype == HM_DTYPE_U32 ||
						 step->dtype == HM_DTYPE_F32 ?
					 4 :
					 8;
		struct hm_array *array = make(bytes, 12, HM_ARRAY_BLOCK);
		uint64_t before = 0, operand = 0, after = 0, found = 0, last = 11;
		struct hm_array_range one = { .start = { 11 }, .count = { 1 } };

		to_bits(step->dtype, step->before, &before);
		to_bits(step->dtype, step->operand, &operand);
		to_bits(step->dtype, step->after, &after);
		if (!rank) {
			RANK_OK(hm_array_fetch(array, &last, step->dtype, HM_ARRAY_REPLACE,
					       &before, &found));
			RANK_CHECK(!found);
			if (step->op == HM_ARRAY_KEEP || i % 2) {
				int r = hm_array_fetch(array, &last, step->dtype, step->op,
						       &operand, &found);

				/* MPICH 4.0 has no order of unsigned numbers, which is told. */
				if (r == -EOPNOTSUPP && step->dtype == HM_DTYPE_U32) {
					RANK_CHECK(strstr(hm_errmsg(), "as signed ones"));
					RANK_CHECK(!found);
					found = before;
				} else
					RANK_OK(r);
			} else
				RANK_OK(hm_array_accumulate(array, &one, step->dtype, step->op,
							    &operand, NULL));
			RANK_CHECK(!(i % 2) || found == before);
		}
		RANK_OK(hm_array_epoch(array, 0));
		found = 0;
		RANK_OK(hm_array_get(array, &one, &found, NULL));
		RANK_OK(hm_array_epoch(array, 0));
		if (found != after)
			rank_fail(__FILE__, __LINE__, "step %zu: %#llx, not %#llx", i,
				  (unsigned long long)found, (unsigned long long)after);
		hm_array_unref(array);
	}
}

static void refused(void)
{
	AUTO(hm_array) *array = make(4, 12, HM_ARRAY_BLOCK);
	struct hm_array_range range = { .count = { 12 } };
	uint64_t index = 12, values[12] = { 0 };

	RANK_ERROR(-EINVAL, hm_array_accumulate(array, &range, HM_DTYPE_I64, 0, values, NULL));
	RANK_ERROR(-EINVAL, hm_array_accumulate(array, &range, HM_DTYPE_F16, 0, values, NULL));
	RANK_ERROR(-EINVAL, hm_array_accumulate(array, &range, HM_DTYPE_I32, HM_ARRAY_KEEP,
						values, NULL));
	RANK_ERROR(-EINVAL, hm_array_accumulate(array, &range, HM_DTYPE_F32, HM_ARRAY_XOR,
						values, NULL));
	RANK_ERROR(-EINVAL, hm_array_accumulate(array, &range, HM_DTYPE_F32, 0, NULL, NULL));
	RANK_ERROR(-ERANGE, hm_array_fetch(array, &index, HM_DTYPE_I32, 0, values, values));
	index = 0;
	RANK_ERROR(-EINVAL, hm_array_fetch(array, &index, HM_DTYPE_I32, 8, values, values));
	RANK_ERROR(-EINVAL, hm_array_fetch(array, &index, HM_DTYPE_I32, 0, NULL, values));
	RANK_ERROR(-EINVAL, hm_array_fetch(array, &index, HM_DTYPE_I32, 0, values, NULL));
}

static void change_case(const char *argument)
{
	(void)argument;
	add_ranges();
	draw_numbers();
	each_step();
	refused();
}

static void one(void)
{
	free(ranks_run(1, 0, "change", "", NULL));
}

static void shared(void)
{
	free(ranks_run(4, 0, "change", "", NULL));
}

static void messages(void)
{
	free(ranks_run(2, 1, "change", "", NULL));
	free(ranks_run(4, 2, "change", "", NULL));
}

/* ---- files ---- */

static void save_case(const char *path)
{
	struct hm_array *array = make(4, 5000, HM_ARRAY_BLOCK), *other;
	struct hm_array_range mine = { .start = { 5000 * (uint64_t)rank / (uint64_t)ranks } };
	static uint32_t values[5000], found[5000];
	struct stat before, after;
	char missing[4200];
	uint32_t i;

	mine.count[0] = 5000 * ((uint64_t)rank + 1) / (uint64_t)ranks - mine.start[0];
	for (i = 0; i < 5000; i++)
		values[i] = 7 * i + 3;
	/* A put that is under way when the save begins is in the file. */
	RANK_OK(hm_array_put(array, &mine, &values[mine.start[0]], NULL));
	RANK_OK(hm_array_save(array, path));
	RANK_CHECK(!stat(path, &before) && before.st_size == 20000);
	memset(found, 0, sizeof(found));
	RANK_OK(hm_array_put(array, &mine, &found[mine.start[0]], NULL));
	RANK_OK(hm_array_load(array, path));
	read_all(array, found, 5000);
	RANK_CHECK(!memcmp(found, values, sizeof(found)));
	/* Another distribution has the same rows. */
	other = make(4, 5000, HM_ARRAY_CYCLIC);
	RANK_OK(hm_array_load(other, path));
	memset(found, 0, sizeof(found));
	read_all(other, found, 5000);
	RANK_CHECK(!memcmp(found, values, sizeof(found)));
	hm_array_unref(other);
	/* A failed save or load leaves the file as it was. */
	snprintf(missing, sizeof(missing), "%s/none", path);
	RANK_ERROR(-ENOTDIR, hm_array_save(array, missing));
	RANK_ERROR(-EINVAL, hm_array_save(array, rank == ranks - 1 ? NULL : path));
	RANK_CHECK(strstr(hm_errmsg(), "needs the name"));
	RANK_ERROR(-ENOTDIR, hm_array_load(array, missing));
	RANK_ERROR(-EINVAL, hm_array_load(array, rank ? path : NULL));
	other = make(4, 4999, HM_ARRAY_BLOCK);
	RANK_ERROR(-EINVAL, hm_array_load(other, path));
	RANK_CHECK(strstr(hm_errmsg(), "20000 bytes, and the array 19996"));
	hm_array_unref(other);
	RANK_CHECK(!stat(path, &after) && after.st_ino == before.st_ino);
	hm_array_unref(array);
}

static void saved(void)
{
	char *folder = folder_make(), *path = folder_path(folder, "saved");

	free(ranks_run(3, 0, "save", path, NULL));
	free(ranks_run(3, 1, "save", path, NULL));
	free(path);
	/* A file that was not completed is not left. */
	path = folder_path(folder, "saved.new");
	struct stat stat_of;

	CHECK(stat(path, &stat_of) && errno == ENOENT);
	free(path);
	folder_remove(folder);
}

static const struct rank_case cases[] = {
	{ "change", change_case },
	{ "save", save_case },
	{ 0 },
};

static const struct test tests[] = {
	{ .name = "one", one },
	{ .name = "shared", shared },
	{ .name = "messages", messages, .seconds = 60 },
	{ .name = "saved", saved, .seconds = 60 },
	{ 0 },
};

int main(int argc, char **argv)
{
	ranks_main(argc, argv, cases);
	return harness_main_once(argc, argv, "array_change", tests);
}
#else
#include "cluster/not_built.h"
#endif
