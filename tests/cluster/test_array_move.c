// SPDX-License-Identifier: MIT
/* Arrays: rows get other owners while threads of all ranks read them. */
#ifdef HAVE_CLUSTER
#include <errno.h>
#include <inttypes.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cluster/ranks.h"

#define ROWS 600
#define WORDS 40

static MPI_Comm world;
static struct hm_array *array;
static _Atomic int stop, reads, wrong;

static uint32_t word_of(uint64_t row, uint64_t i)
{
	return (uint32_t)(row * 1009 + i);
}

static void *read_on(void *user)
{
	static uint32_t found[20][WORDS];
	struct timespec between = { .tv_nsec = 200000 };
	uint64_t state = (uint64_t)(uintptr_t)user, row, i;

	while (!atomic_load(&stop)) {
		struct hm_array_range range = { .count = { 20, WORDS } };
		struct hm_array_part part;

		range.start[0] = test_random(&state) % (ROWS - 20);
		if (hm_array_get(array, &range, found, NULL) ||
		    hm_array_wait(array, HM_ARRAY_ALL) ||
		    hm_array_at(array, range.start[0], &part)) {
			rank_fail(__FILE__, __LINE__, "%s", hm_errmsg());
			break;
		}
		for (row = 0; row < 20; row++)
			for (i = 0; i < WORDS; i++)
				if (found[row][i] != word_of(range.start[0] + row, i))
					atomic_fetch_add(&wrong, 1);
		if (part.address && *(uint32_t *)part.address != word_of(part.row, 0))
			atomic_fetch_add(&wrong, 1);
		atomic_fetch_add(&reads, 1);
		nanosleep(&between, NULL);
	}
	return NULL;
}

static void fill(void)
{
	struct hm_array_part part;
	uint32_t index;
	uint64_t row, i;

	for (index = 0; !hm_array_local(array, index, &part); index++)
		for (row = 0; row < part.rows; row++)
			for (i = 0; i < WORDS; i++)
				((uint32_t *)part.address)[row * WORDS + i] =
					word_of(part.row + row, i);
}

/* The rows that a rank owns are those that the moves say, and it writes them. */
static void check_owners(const uint32_t *owner)
{
	struct hm_array_info info = { .struct_size = sizeof(info) };
	struct hm_array_part part;
	uint64_t row, own = 0;

	for (row = 0; row < ROWS; row++) {
		RANK_OK(hm_array_at(array, row, &part));
		if (part.rank != owner[row] || row < part.row || row >= part.row + part.rows)
			rank_fail(__FILE__, __LINE__, "row %" PRIu64 " is of %u, not %u", row,
				  part.rank, owner[row]);
		own += owner[row] == (uint32_t)rank;
	}
	RANK_OK(hm_array_query(array, &info));
	RANK_CHECK(info.own_bytes == own * WORDS * 4);
}

static void move_case(const char *argument)
{
	const char *text = getenv("HETMAP_ROUNDS");
	unsigned int i, moves = text ? 10 * (unsigned int)atoi(text) : 30;
	uint64_t state = strtoull(argument, NULL, 0);
	static uint32_t owner[ROWS];
	pthread_t thread;
	uint64_t row, rows, k;
	uint32_t to;

	world = MPI_COMM_WORLD;
	RANK_OK(hm_array_create(&world,
				DESC(hm_array_desc, .dimensions = 2, .element = 4,
				     .shape = { ROWS, WORDS }, .distribution = HM_ARRAY_CYCLIC,
				     .chunk = 13),
				&array));
	fill();
	for (k = 0; k < ROWS; k++)
		owner[k] = (uint32_t)(k / 13 % (uint64_t)ranks);
	RANK_OK(hm_array_epoch(array, 0));
	pthread_create(&thread, NULL, read_on, (void *)(uintptr_t)(state + (uint64_t)rank));
	for (i = 0; i < moves; i++) {
		row = test_random(&state) % ROWS;
		rows = 1 + test_random(&state) % (ROWS - row);
		to = (uint32_t)(test_random(&state) % (uint64_t)ranks);
		RANK_OK(hm_array_move(array, row, rows, to));
		for (k = row; k < row + rows; k++)
			owner[k] = to;
		/* A new owner stores its words again: the same ones, as readers expect. */
		fill();
	}
	check_owners(owner);
	atomic_store(&stop, 1);
	pthread_join(thread, NULL);
	RANK_CHECK(atomic_load(&reads) > 0);
	if (atomic_load(&wrong))
		rank_fail(__FILE__, __LINE__, "%d of the words read are wrong",
			  atomic_load(&wrong));
	RANK_ERROR(-ERANGE, hm_array_move(array, ROWS - 1, 2, 0));
	RANK_ERROR(-ERANGE, hm_array_move(array, 0, 0, 0));
	RANK_ERROR(-EINVAL, hm_array_move(array, 0, 1, (uint32_t)ranks));
	/* Ranks that do different things hear of it. */
	RANK_ERROR(-EINVAL, hm_array_move(array, 0, 1 + (rank == 1), 0));
	RANK_CHECK(strstr(hm_errmsg(), "different arguments"));
	RANK_ERROR(-EINVAL,
		   rank == 1 ? hm_array_epoch(array, 0) : hm_array_move(array, 0, 1, 0));
	check_owners(owner);
	RANK_OK(hm_array_epoch(array, 0));
	hm_array_unref(array);
}

static void run(int n, int members)
{
	char seed[32];

	snprintf(seed, sizeof(seed), "%" PRIu64, test_seed());
	free(ranks_run(n, members, "move", seed, NULL));
}

static void shared(void)
{
	run(4, 0);
}

static void messages(void)
{
	run(2, 1);
	run(3, 2);
}

static const struct rank_case cases[] = {
	{ "move", move_case },
	{ 0 },
};

static const struct test tests[] = {
	{ .name = "shared", shared, .seconds = 60 },
	{ .name = "messages", messages, .seconds = 60 },
	{ 0 },
};

int main(int argc, char **argv)
{
	ranks_main(argc, argv, cases);
	return harness_main_once(argc, argv, "array_move", tests);
}
#else
#include "cluster/not_built.h"
#endif
