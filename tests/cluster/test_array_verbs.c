// SPDX-License-Identifier: MIT
/*
 * Arrays by libibverbs, over a device that is none (fake/verbs.h): the same bytes as by MPI,
 * memory that can't be registered, and failures. tests/vm/cluster has the same over a real one.
 */
#if defined(HAVE_CLUSTER) && defined(HAVE_VERBS)
#include "cluster/fake/verbs.h"

#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/ranks.h"
#include "lib/command.h"

#define ROWS 64
#define WORDS 20000 /* words of 8 bytes: a row is larger than a slot */

static MPI_Comm world;
static struct hm_array *array;

static void by(const char *transport)
{
	setenv("HETMAP_ARRAY_TRANSPORT", transport, 1);
}

static struct hm_array_desc of(uint32_t element, uint64_t rows, uint64_t words)
{
	return (struct hm_array_desc){ .struct_size = sizeof(struct hm_array_desc),
				       .dimensions = 2,
				       .element = element,
				       .shape = { rows, words } };
}

static uint32_t flags(void)
{
	struct hm_array_info info = { .struct_size = sizeof(info) };

	RANK_OK(hm_array_query(array, &info));
	return info.flags & (HM_ARRAY_VERBS | HM_ARRAY_STAGED);
}

static void make(const struct hm_array_desc *desc)
{
	world = MPI_COMM_WORLD;
	RANK_OK(hm_array_create(&world, desc, &array));
}

static void end(void)
{
	hm_array_unref(array);
	array = NULL;
	if (fake_verbs.open)
		rank_fail(__FILE__, __LINE__, "%u objects are left", fake_verbs.open);
}

static uint64_t word(uint64_t row, uint64_t i, uint64_t round)
{
	return row * 1000003 + i * 7 + round * 0x100000000ull;
}

/* Each rank puts the rows of the next one, and gets those of the one before. */
static void go_round(uint64_t round)
{
	uint64_t own = ROWS / (uint64_t)ranks, to = (uint64_t)((rank + 1) % ranks) * own;
	uint64_t from = (uint64_t)((rank + ranks - 1) % ranks) * own, row, i, wrong = 0;
	uint64_t *bytes = calloc(own * WORDS, sizeof(*bytes));
	struct hm_array_range range = { .start = { to }, .count = { own, WORDS } };
	struct hm_array_part part;

	if (!bytes)
		ranks_end();
	for (row = 0; row < own; row++)
		for (i = 0; i < WORDS; i++)
			bytes[row * WORDS + i] = word(to + row, i, round);
	RANK_OK(hm_array_put(array, &range, bytes, NULL));
	RANK_OK(hm_array_epoch(array, 0));
	RANK_OK(hm_array_local(array, 0, &part));
	for (row = 0; row < own; row++)
		for (i = 0; i < WORDS; i++)
			wrong += ((uint64_t *)part.address)[row * WORDS + i] !=
				 word(part.row + row, i, round);
	memset(bytes, 0, own * WORDS * sizeof(*bytes));
	/* A stretch of odd words of each row. */
	range = (struct hm_array_range){ .start = { from, 3 }, .count = { own, 17001 } };
	RANK_OK(hm_array_get(array, &range, bytes, NULL));
	RANK_OK(hm_array_wait(array, HM_ARRAY_ALL));
	for (row = 0; row < own; row++)
		for (i = 0; i < 17001; i++)
			wrong += bytes[row * 17001 + i] != word(from + row, i + 3, round);
	if (wrong)
		rank_fail(__FILE__, __LINE__, "%llu words are wrong",
			  (unsigned long long)wrong);
	RANK_OK(hm_array_epoch(array, 0));
	free(bytes);
}

static void rank_copies(const char *argument)
{
	struct hm_array_desc desc = of(8, ROWS, WORDS);

	(void)argument;
	by("verbs:fake0");
	make(&desc);
	RANK_CHECK(flags() == HM_ARRAY_VERBS);
	go_round(1);
	go_round(2);
	/* A neighbour may be on the same node, and not both. */
	RANK_CHECK(fake_verbs.writes || fake_verbs.reads);
	end();
}

/* One rank's memory, or that of all, is not registered. */
static void rank_staged(const char *argument)
{
	struct hm_array_desc desc = of(8, ROWS, WORDS);

	by("verbs");
	if (!strcmp(argument, "all") || rank == 1)
		fake_verbs.refuses_memory = EFAULT;
	make(&desc);
	RANK_CHECK(strstr(hm_warning(), "can't be registered"));
	RANK_CHECK(flags() == (HM_ARRAY_VERBS | HM_ARRAY_STAGED));
	go_round(1);
	RANK_CHECK(!fake_verbs.writes == (!strcmp(argument, "all") || rank == 0));
	end();
}

/* All ranks change the same elements, and those of each other. */
static void sums(uint32_t element, uint32_t dtype, bool by_device)
{
	struct hm_array_desc desc = of(element, (uint64_t)ranks, 8);
	struct hm_array_range range = { .count = { (uint64_t)ranks, 8 } };
	unsigned char values[8 * 8 * 16], *seen = calloc(1, 8 * 50);
	uint64_t i, before, zero = 0, index[2] = { 0, 3 }, one = 1, old, value;
	struct hm_array_part part;

	make(&desc);
	memset(values, 0, sizeof(values));
	before = fake_verbs.changes;
	for (i = 0; i < 8 * (uint64_t)ranks; i++)
		values[i * element] = 3;
	RANK_OK(hm_array_accumulate(array, &range, dtype, HM_ARRAY_ADD, values, NULL));
	RANK_OK(hm_array_epoch(array, 0));
	RANK_OK(hm_array_local(array, 0, &part));
	for (i = 0; i < 8; i++)
		RANK_CHECK(((unsigned char *)part.address)[i * element] == 3 * ranks);
	RANK_OK(hm_array_epoch(array, 0));
	for (i = 0; i < 20; i++) {
		RANK_OK(hm_array_fetch(array, index, dtype, HM_ARRAY_ADD, &one, &old));
		old &= 0xffffffff;
		RANK_CHECK(old >= 3u * (uint32_t)ranks && old < 23u * (uint32_t)ranks);
		if (seen && old < 400)
			RANK_CHECK(!seen[old]++);
	}
	RANK_OK(hm_array_epoch(array, 0));
	value = (uint64_t)rank + 1;
	index[0] = (uint64_t)ranks - 1;
	RANK_OK(hm_array_fetch(array, index, dtype, HM_ARRAY_MAX, &value, &old));
	RANK_OK(hm_array_fetch(array, index, dtype, HM_ARRAY_XOR, &value, &old));
	RANK_OK(hm_array_epoch(array, 0));
	old = 0;
	RANK_OK(hm_array_fetch(array, index, dtype, HM_ARRAY_KEEP, NULL, &old));
	for (i = 0, value = 3u * (uint64_t)ranks; i < (uint64_t)ranks; i++)
		value ^= i + 1;
	RANK_CHECK(old == value);
	RANK_OK(hm_array_fetch(array, index, dtype, HM_ARRAY_KEEP, &zero, &old));
	RANK_CHECK((fake_verbs.changes > before) == by_device);
	RANK_OK(hm_array_epoch(array, 0));
	free(seen);
	end();
}

static void rank_changes(const char *argument)
{
	by("verbs");
	fake_verbs.without_atomics = rank == 1 && !strcmp(argument, "without");
	sums(8, HM_DTYPE_I64, !strcmp(argument, "with"));
	sums(4, HM_DTYPE_I32, false);
	/* As the device compares nothing, numbers without a sign are no worse. */
	if (!strcmp(argument, "with"))
		sums(8, HM_DTYPE_U64, true);
}

static void rank_moves(const char *argument)
{
	struct hm_array_desc desc = of(8, ROWS, WORDS);
	uint64_t own = ROWS / (uint64_t)ranks, i;
	struct hm_array_part part;

	(void)argument;
	by("verbs");
	make(&desc);
	go_round(5);
	RANK_OK(hm_array_move(array, 0, own, (uint32_t)ranks - 1));
	RANK_OK(hm_array_at(array, own - 1, &part));
	RANK_CHECK(part.rank == (uint32_t)ranks - 1);
	for (i = 0; part.address && i < WORDS; i++)
		if (((uint64_t *)part.address)[i] != word(part.row, i, 5))
			break;
	RANK_CHECK(!part.address || i == WORDS);
	end();
}

/* Loads and stores reach rows of other nodes. */
static void rank_pages(const char *argument)
{
	struct hm_array_desc desc = of(8, 16, 4096);
	struct hm_array_info info = { .struct_size = sizeof(info) };
	uint64_t next = (uint64_t)((rank + 1) % ranks) * (16 / (uint64_t)ranks), i, wrong = 0;
	uint64_t *words, mine = (uint64_t)rank * (16 / (uint64_t)ranks);
	int r;

	(void)argument;
	by("verbs");
	desc.flags = HM_ARRAY_PAGED;
	world = MPI_COMM_WORLD;
	r = hm_array_create(&world, &desc, &array);
	if (r == -EOPNOTSUPP) {
		if (!rank)
			printf("no userfaultfd: %s\n", hm_errmsg());
		return;
	}
	RANK_OK(r);
	RANK_OK(hm_array_query(array, &info));
	words = info.base;
	for (i = 0; i < 4096; i += 5)
		words[next * 4096 + i] = next + i;
	RANK_OK(hm_array_epoch(array, 0));
	for (i = 0; i < 4096; i++)
		wrong += words[mine * 4096 + i] != (i % 5 ? 0 : mine + i);
	RANK_CHECK(!wrong);
	RANK_OK(hm_array_epoch(array, 0));
	RANK_OK(hm_array_query(array, &info));
	RANK_CHECK(info.paged_in && info.paged_out);
	end();
}

/* The n-th operation of rank 0 ends with an error: that rank's calls fail from then on. */
static void rank_fails(const char *argument)
{
	struct hm_array_desc desc = of(8, ROWS, WORDS);
	struct hm_array_range range = { .start = { ROWS - 1 }, .count = { 1, WORDS } };
	uint64_t *bytes = calloc(WORDS, sizeof(*bytes));
	int r;

	by("verbs");
	make(&desc);
	fake_verbs.fail_after = rank ? 0 : strtoull(argument, NULL, 10);
	r = hm_array_put(array, &range, bytes, NULL);
	r = r ? r : hm_array_wait(array, HM_ARRAY_ALL);
	RANK_CHECK(r == (rank ? 0 : -EREMOTEIO));
	RANK_CHECK(rank || strstr(hm_errmsg(), "RDMA with rank 1 failed: transport retry"));
	if (!rank)
		RANK_ERROR(-EREMOTEIO, hm_array_get(array, &range, bytes, NULL));
	RANK_ERROR(-EREMOTEIO, hm_array_epoch(array, 0));
	free(bytes);
	end();
}

static void refused(int expected, const char *text)
{
	struct hm_array_desc desc = of(8, ROWS, 4);
	struct hm_array *none = (struct hm_array *)1;

	world = MPI_COMM_WORLD;
	RANK_ERROR(expected, hm_array_create(&world, &desc, &none));
	if (none != (struct hm_array *)1 || !strstr(hm_errmsg(), text))
		rank_fail(__FILE__, __LINE__, "no '%s' in: %s", text, hm_errmsg());
	if (fake_verbs.open)
		rank_fail(__FILE__, __LINE__, "%u objects are left", fake_verbs.open);
}

static void rank_refused(const char *argument)
{
	(void)argument;
	by("carrier pigeons");
	refused(-EINVAL, "give it as mpi, verbs or verbs:DEVICE");
	by(rank ? "mpi" : "verbs");
	refused(-EINVAL, "another transport");
	by("verbs:mlx5_0");
	refused(-ENODEV, "no RDMA device mlx5_0");
	by("verbs");
	fake_verbs.missing = rank == 1;
	refused(-ENODEV, "rank 1: no RDMA device that");
	fake_verbs.missing = false;
	fake_verbs.refuses_memory = rank ? 0 : ENOMEM;
	refused(-ENOMEM, "raise RLIMIT_MEMLOCK");
}

/* Memory of a device is registered by its dma-buf where it can be; else as it is, or staged. */
static void rank_device(const char *argument)
{
	struct hm_array_desc desc = of(8, ROWS, WORDS);
	struct hm_buffer *buffer;
	int fd, has = !strcmp(argument, "dmabuf");

	by("verbs");
	RANK_OK(hm_device_open("host", &desc.device));
	RANK_OK(hm_buffer_create(desc.device, DESC(hm_buffer_desc, .size = 4096), &buffer));
	if (has && hm_buffer_export(buffer, HM_EXPORT_DMABUF, &fd)) {
		if (!rank)
			printf("no dma-buf: %s\n", hm_errmsg());
		has = 0;
	}
	hm_buffer_unref(buffer);
	fake_verbs.refuses_dmabuf = has ? 0 : EOPNOTSUPP;
	fake_verbs.refuses_memory = strcmp(argument, "map") ? EFAULT : 0;
	make(&desc);
	RANK_CHECK(fake_verbs.dmabufs == (uint32_t)has);
	RANK_CHECK(!(flags() & HM_ARRAY_STAGED) == (has || !strcmp(argument, "map")));
	go_round(3);
	end();
	hm_device_unref(desc.device);
}

static const struct rank_case cases[] = {
	{ "copies", rank_copies },   { "staged", rank_staged }, { "changes", rank_changes },
	{ "moves", rank_moves },     { "pages", rank_pages },   { "fails", rank_fails },
	{ "refused", rank_refused }, { "device", rank_device }, { 0 },
};

static void copies(void)
{
	free(ranks_run(2, 1, "copies", "", NULL));
	free(ranks_run(4, 1, "copies", "", NULL));
	/* Two ranks on each node. */
	free(ranks_run(4, 2, "copies", "", NULL));
}

static void staged(void)
{
	free(ranks_run(2, 1, "staged", "one", NULL));
	free(ranks_run(2, 1, "staged", "all", NULL));
}

static void changes(void)
{
	free(ranks_run(4, 2, "changes", "with", NULL));
	free(ranks_run(2, 1, "changes", "without", NULL));
}

static void moves(void)
{
	free(ranks_run(4, 1, "moves", "", NULL));
}

static void pages(void)
{
	AUTO_TEXT *said = ranks_run(2, 1, "pages", "", NULL);

	if (said && strstr(said, "no userfaultfd"))
		test_skip("cluster", "%s", said);
}

static void fails(void)
{
	free(ranks_run(2, 1, "fails", "1", NULL));
	free(ranks_run(2, 1, "fails", "2", NULL));
	/* The read that sees to it that the bytes are there. */
	free(ranks_run(2, 1, "fails", "3", NULL));
}

static void refusals(void)
{
	free(ranks_run(2, 1, "refused", "", NULL));
}

static void device(void)
{
	AUTO_TEXT *said = NULL;

	free(ranks_run(2, 1, "device", "map", NULL));
	free(ranks_run(2, 1, "device", "neither", NULL));
	said = ranks_run(2, 1, "device", "dmabuf", NULL);
	if (said && strstr(said, "no dma-buf"))
		test_skip("cluster", "%s", said);
}

static const struct test tests[] = {
	{ .name = "copies", copies, .seconds = 120 },
	{ .name = "staged", staged, .seconds = 120 },
	{ .name = "changes", changes, .seconds = 120 },
	{ .name = "moves", moves, .seconds = 120 },
	{ .name = "pages", pages, .seconds = 120 },
	{ .name = "fails", fails, .seconds = 120 },
	{ .name = "refused", refusals, .seconds = 120 },
	{ .name = "device", device, .seconds = 120 },
	{ 0 },
};

int main(int argc, char **argv)
{
	ranks_main(argc, argv, cases);
	return harness_main_once(argc, argv, "array_verbs", tests);
}
#elif defined(HAVE_CLUSTER)
#include "lib/harness.h"

static void not_built(void)
{
	test_skip("cluster", "built without libibverbs (libibverbs-dev)");
}

static const struct test tests[] = {
	{ .name = "all", not_built },
	{ 0 },
};

TEST_MAIN(harness_main_once, "array_verbs", tests)
#else
#include "cluster/not_built.h"
#endif
