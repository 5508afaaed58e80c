// SPDX-License-Identifier: MIT
/* Arrays: epochs with deliberate races are found, and named; allowed accesses are not. */
#ifdef HAVE_CLUSTER
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/ranks.h"

enum act { NONE, PUT, GET, ADD, FETCH };

/* The acts of ranks 0 and 1 in an epoch, in rows [begin, end). */
struct row {
	struct {
		enum act act;
		uint64_t begin, end;
	} by[2];
	const char *text; /* text of the race; NULL: there is none */
};

static const struct row table[] = {
	{ { { PUT, 0, 10 }, { PUT, 10, 20 } }, NULL },
	{ { { PUT, 0, 10 }, { PUT, 9, 20 } }, "put and rank 1 put rows 9 to 9" },
	{ { { PUT, 30, 60 }, { GET, 40, 44 } }, "put and rank 1 got rows 40 to 43" },
	{ { { GET, 0, 90 }, { GET, 0, 90 } }, NULL },
	{ { { ADD, 0, 90 }, { ADD, 0, 90 } }, NULL },
	{ { { ADD, 0, 90 }, { FETCH, 7, 8 } }, NULL },
	{ { { ADD, 20, 90 }, { GET, 89, 90 } }, "accumulated and rank 1 got rows 89 to 89" },
	{ { { PUT, 20, 90 }, { FETCH, 50, 51 } }, "put and rank 1 accumulated rows 50 to 50" },
	{ { { PUT, 5, 6 }, { NONE, 0, 0 } }, NULL },
	/* The next epoch is another one: accesses of the last do not count. */
	{ { { NONE, 0, 0 }, { GET, 5, 6 } }, NULL },
};

static void act(struct hm_array *array, enum act act, uint64_t begin, uint64_t end)
{
	struct hm_array_range range = { .start = { begin }, .count = { end - begin, 3 } };
	uint64_t index[2] = { begin, 1 };
	static int32_t values[300];
	int32_t old;

	if (act == PUT)
		RANK_OK(hm_array_put(array, &range, values, NULL));
	if (act == GET)
		RANK_OK(hm_array_get(array, &range, values, NULL));
	if (act == ADD)
		RANK_OK(hm_array_accumulate(array, &range, HM_DTYPE_I32, HM_ARRAY_ADD, values,
					    NULL));
	if (act == FETCH)
		RANK_OK(hm_array_fetch(array, index, HM_DTYPE_I32, HM_ARRAY_ADD, values, &old));
}

static void run_table(struct hm_array *array, bool checked)
{
	size_t i;

	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const struct row *row = &table[i];
		char epoch[64];
		struct hm_array_info info = { .struct_size = sizeof(info) };
		int r;

		RANK_OK(hm_array_query(array, &info));
		snprintf(epoch, sizeof(epoch), "race in epoch %llu: rank 0 ",
			 (unsigned long long)info.epochs);
		if (rank < 2)
			act(array, row->by[rank].act, row->by[rank].begin, row->by[rank].end);
		r = hm_array_epoch(array, 0);
		if (!row->text || !checked) {
			RANK_CHECK(!r);
			continue;
		}
		if (r != -EILSEQ || !strstr(hm_errmsg(), row->text) ||
		    !strstr(hm_errmsg(), epoch))
			rank_fail(__FILE__, __LINE__, "row %zu: %d: %s", i, r, hm_errmsg());
	}
}

static void races_case(const char *argument)
{
	struct hm_array_desc desc = { .struct_size = sizeof(desc),
				      .flags = HM_ARRAY_CHECK,
				      .dimensions = 2,
				      .element = 4,
				      .shape = { 100, 3 } };
	MPI_Comm comm = MPI_COMM_WORLD;
	struct hm_array *array;

	(void)argument;
	RANK_OK(hm_array_create(&comm, &desc, &array));
	run_table(array, true);
	/* Other calls end an epoch, too. */
	act(array, PUT, 0, 2);
	RANK_ERROR(-EILSEQ, hm_array_move(array, 0, 1, 0));
	hm_array_unref(array);
	desc.flags = 0;
	RANK_OK(hm_array_create(&comm, &desc, &array));
	run_table(array, false);
	hm_array_unref(array);
	setenv("HETMAP_ARRAY_CHECK", "1", 1);
	RANK_OK(hm_array_create(&comm, &desc, &array));
	run_table(array, true);
	hm_array_unref(array);
}

static void found(void)
{
	free(ranks_run(3, 0, "races", "", NULL));
	free(ranks_run(3, 1, "races", "", NULL));
}

static const struct rank_case cases[] = {
	{ "races", races_case },
	{ 0 },
};

static const struct test tests[] = {
	{ .name = "found", found, .seconds = 60 },
	{ 0 },
};

int main(int argc, char **argv)
{
	ranks_main(argc, argv, cases);
	return harness_main_once(argc, argv, "array_races", tests);
}
#else
#include "cluster/not_built.h"
#endif
