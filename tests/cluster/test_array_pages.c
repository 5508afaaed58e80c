// SPDX-License-Identifier: MIT
/* Arrays: one address on all ranks, and loads and stores of rows that are on another node. */
#ifdef HAVE_CLUSTER
#include <errno.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cluster/ranks.h"
#include "lib/command.h"

#define ROOM (2ull << 20) /* for other nodes' pages */

static MPI_Comm world;

static struct hm_array_info facts(struct hm_array *array)
{
	struct hm_array_info info = { .struct_size = sizeof(info) };

	RANK_OK(hm_array_query(array, &info));
	return info;
}

/* ---- one address ---- */

static void same_case(const char *argument)
{
	struct hm_array_range range = { .count = { 1, 3 } };
	struct hm_array_part part;
	AUTO(hm_array) *array = NULL;
	uint64_t mine, first, row, words[3];

	(void)argument;
	world = MPI_COMM_WORLD;
	RANK_OK(hm_array_create(&world,
				DESC(hm_array_desc, .flags = HM_ARRAY_SAME_ADDRESS,
				     .dimensions = 2, .element = 8, .shape = { 1000, 3 }),
				&array));
	mine = first = (uint64_t)(uintptr_t)facts(array).base;
	MPI_Bcast(&first, 1, MPI_UINT64_T, 0, world);
	RANK_CHECK(mine && mine == first);
	RANK_OK(hm_array_local(array, 0, &part));
	RANK_CHECK((uintptr_t)part.address == mine + part.row * 24);
	/* Each row has the address of its second word, which is the same everywhere. */
	for (row = part.row; row < part.row + part.rows; row++) {
		uint64_t *words_of = (uint64_t *)(uintptr_t)(mine + row * 24);

		words_of[0] = (uintptr_t)&words_of[1];
		words_of[1] = row * 7;
	}
	RANK_OK(hm_array_epoch(array, 0));
	for (row = 0; row < 1000; row++) {
		range.start[0] = row;
		RANK_OK(hm_array_get(array, &range, words, NULL));
		RANK_OK(hm_array_wait(array, HM_ARRAY_ALL));
		RANK_OK(hm_array_at(array, row, &part));
		RANK_CHECK(words[0] == mine + row * 24 + 8 && words[1] == row * 7);
		if (part.address)
			RANK_CHECK(*(uint64_t *)(uintptr_t)words[0] == row * 7);
	}
	/* Rows that come to this node have their address, too. */
	RANK_OK(hm_array_move(array, 10, 900, (uint32_t)ranks - 1));
	RANK_OK(hm_array_at(array, 500, &part));
	RANK_CHECK(!part.address || *(uint64_t *)(uintptr_t)(mine + 500 * 24 + 8) == 3500);
	RANK_CHECK(rank != ranks - 1 || part.address);
}

static void same(void)
{
	free(ranks_run(3, 0, "same", "", NULL));
	free(ranks_run(3, 1, "same", "", NULL));
}

/* ---- pages ---- */

/* Whether @who stores element @i in @epoch: at most one rank does. */
static bool stores(uint64_t i, uint64_t epoch, uint64_t seed, int who)
{
	uint64_t state = i / 3 * 1000003 + epoch * 7919 + seed;

	return test_random(&state) % 5 == 0 && (int)((i + epoch) % (uint64_t)ranks) == who;
}

static uint32_t value(uint64_t i, uint64_t epoch)
{
	return (uint32_t)(i * 2654435761u + epoch + 1);
}

/*
 * Elements of @element bytes, of which each word is the same. Ranks store into all of the array,
 * each other one's pages included, and all ranks load all of it.
 */
static void store_and_load(uint64_t element, uint64_t seed)
{
	uint64_t words = element / 4, n = 4 * ROOM / element / 1024 * 1024, i, k, epoch;
	uint32_t *model = calloc(n, 4), *base;
	unsigned int wrong = 0;
	AUTO(hm_array) *array = NULL;

	world = MPI_COMM_WORLD;
	RANK_OK(hm_array_create(&world,
				DESC(hm_array_desc, .flags = HM_ARRAY_PAGED, .dimensions = 1,
				     .element = (uint32_t)element, .shape = { n },
				     .chunk = 1024, .page_room = ROOM),
				&array));
	base = facts(array).base;
	RANK_CHECK(model && base);
	for (epoch = 0; epoch < 3; epoch++) {
		for (i = 0; i < n; i++) {
			if (stores(i, epoch, seed, rank))
				for (k = 0; k < words; k++)
					base[i * words + k] = value(i, epoch);
			for (k = 0; k < (uint64_t)ranks; k++)
				if (stores(i, epoch, seed, (int)k))
					model[i] = value(i, epoch);
			if (i % 65536 == 0)
				RANK_CHECK(facts(array).paged_now <= ROOM);
		}
		RANK_OK(hm_array_epoch(array, 0));
		RANK_CHECK(facts(array).paged_now == 0);
		for (i = 0; i < n; i++)
			for (k = 0; k < words; k++)
				wrong += base[i * words + k] != model[i];
		RANK_CHECK(facts(array).paged_now <= ROOM);
		if (wrong) {
			rank_fail(__FILE__, __LINE__, "%u words of epoch %" PRIu64 " are wrong",
				  wrong, epoch);
			break;
		}
		RANK_OK(hm_array_epoch(array, 0));
	}
	/* Rows of the other nodes went through less room than they need. */
	RANK_CHECK(facts(array).paged_in > 4 * ROOM && facts(array).paged_out > ROOM / 8);
	/* A row that changes its node: the old node brings it, the new one has it. */
	RANK_OK(hm_array_move(array, 0, 1024, (uint32_t)ranks - 1));
	if (rank == ranks - 1)
		base[5 * words] = 12345;
	RANK_OK(hm_array_epoch(array, 0));
	RANK_CHECK(base[5 * words] == 12345 && base[6 * words] == model[6]);
	free(model);
}

static void stores_case(const char *argument)
{
	store_and_load(4, strtoull(argument, NULL, 0));
	/* Elements that lie across pages. */
	store_and_load(24, strtoull(argument, NULL, 0));
}

static void stored(void)
{
	char seed[32];

	snprintf(seed, sizeof(seed), "%" PRIu64, test_seed());
	free(ranks_run(2, 1, "stores", seed, NULL));
	free(ranks_run(3, 2, "stores", seed, NULL));
}

/* Loads one after the other bring larger and larger runs. */
static void ahead_case(const char *argument)
{
	uint64_t i, before, sum = 0;
	AUTO(hm_array) *array = NULL;
	unsigned char *base;

	(void)argument;
	world = MPI_COMM_WORLD;
	RANK_OK(hm_array_create(&world,
				DESC(hm_array_desc,
				     .flags = HM_ARRAY_PAGED | HM_ARRAY_SAME_ADDRESS,
				     .dimensions = 1, .element = 4096, .shape = { 2048 }),
				&array));
	base = facts(array).base;
	if (!rank)
		for (i = 0; i < 2048; i++)
			base[i * 4096 + 7] = (unsigned char)(i + 1);
	RANK_OK(hm_array_epoch(array, 0));
	before = facts(array).messages;
	/* Rank 1's own rows are the second half. */
	if (rank)
		for (i = 0; i < 1024; i++)
			sum += base[i * 4096 + 7] == (unsigned char)(i + 1);
	RANK_CHECK(!rank || sum == 1024);
	RANK_CHECK(facts(array).messages - before <= 1024 / 64 + 8);
	RANK_CHECK(!rank || facts(array).paged_in == 1024 * 4096);
	RANK_OK(hm_array_epoch(array, 0));
	/* Runs of 1, 2, 4 to 64 pages: the one of page 127 is under way, and then changed. */
	for (sum = 0, i = 0; rank && i < 127; i++)
		sum += base[i * 4096 + 7] == (unsigned char)(i + 1);
	RANK_CHECK(!rank || sum == 127);
	MPI_Barrier(world);
	for (i = 127; !rank && i < 1024; i++)
		base[i * 4096 + 7] = (unsigned char)(i + 2);
	RANK_OK(hm_array_epoch(array, 0));
	for (sum = 0, i = 127; rank && i < 1024; i++)
		sum += base[i * 4096 + 7] == (unsigned char)(i + 2);
	RANK_CHECK(!rank || sum == 1024 - 127);
	RANK_OK(hm_array_epoch(array, 0));
}

static void ahead(void)
{
	free(ranks_run(2, 1, "ahead", "", NULL));
}

/* A large array has little memory here at a time. */
static uint64_t large_room(uint64_t mib)
{
	return mib < 1024 ? ROOM : 64ull << 20;
}

/*
 * All rows but the last are of rank 0. Rank 1 loads one word of each page, and stores into pages
 * here and there, with room for few of them.
 */
static void large_case(const char *argument)
{
	uint64_t mib = strtoull(argument, NULL, 10), room = large_room(mib), rows = mib << 8;
	struct hm_array_part parts[] = { { .rows = rows, .rank = 0 },
					 { .row = rows, .rows = 1, .rank = 1 } };
	struct hm_array_desc desc = { .struct_size = sizeof(desc),
				      .flags = HM_ARRAY_PAGED,
				      .dimensions = 1,
				      .element = 4096,
				      .shape = { rows + 1 },
				      .distribution = HM_ARRAY_BY_HAND,
				      .parts = parts,
				      .n_parts = 2,
				      .page_room = room };
	uint64_t i, before, state = 1, wrong = 0, most = 0;
	AUTO(hm_array) *array = NULL;
	uint64_t *words;

	world = MPI_COMM_WORLD;
	RANK_OK(hm_array_create(&world, &desc, &array));
	words = facts(array).base;
	for (i = 0; !rank && i < rows; i++)
		words[i * 512] = i * 7 + 1;
	RANK_OK(hm_array_epoch(array, 0));
	before = test_status_bytes("VmRSS");
	for (i = 0; rank && i < rows; i++) {
		wrong += words[i * 512] != i * 7 + 1;
		if (i % 4096 == 0) {
			RANK_CHECK(facts(array).paged_now <= room);
			most = test_status_bytes("VmRSS") > most ? test_status_bytes("VmRSS") :
								   most;
		}
	}
	/* Pages, as many twins, and MPI's own memory. */
	if (rank && most > before + 2 * room + (16 << 20))
		rank_fail(__FILE__, __LINE__, "%" PRIu64 " MiB more are resident",
			  (most - before) >> 20);
	for (i = 0; rank && i < rows / 64; i++)
		words[test_random(&state) % rows * 512 + 3] = i + 1;
	RANK_OK(hm_array_epoch(array, 0));
	RANK_CHECK(!rank || facts(array).paged_in >= mib << 20);
	/* The owner finds the last store into a page. */
	for (i = 0; !rank && i < rows / 64; i++) {
		uint64_t *word = &words[test_random(&state) % rows * 512 + 3];

		wrong += *word <= i;
	}
	for (i = 0; !rank && i < rows; i++)
		wrong += words[i * 512] != i * 7 + 1;
	if (wrong)
		rank_fail(__FILE__, __LINE__, "%" PRIu64 " words are wrong", wrong);
	RANK_OK(hm_array_epoch(array, 0));
}

/* 8 GiB by 64 MiB in make soak. */
static void large(void)
{
	const char *mib = getenv("HETMAP_PAGED_MIB");

	free(ranks_run(2, 1, "large", mib ? mib : "64", NULL));
}

/* ---- refusals ---- */

static void refuse(const struct hm_array_desc *desc, int expected, const char *text)
{
	struct hm_array *untouched = (void *)1, *array = untouched;
	int r = hm_array_create(&world, desc, &array);

	if (r != expected || array != untouched || !strstr(hm_errmsg(), text))
		rank_fail(__FILE__, __LINE__, "%d, not %d with \"%s\": %s", r, expected, text,
			  hm_errmsg());
}

/* From now on the process has no userfaultfd. */
static void forbid_userfaultfd(void)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(rules) / sizeof(rules[0]), rules };

	RANK_CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	RANK_CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

static void refusals_case(const char *argument)
{
	struct hm_array_desc desc = { .struct_size = sizeof(desc),
				      .flags = HM_ARRAY_PAGED,
				      .dimensions = 1,
				      .element = 8,
				      .shape = { 4096 } };
	struct hm_array_range range = { .count = { 8 } };
	struct hm_array_part part;
	struct hm_array *array;

	(void)argument;
	world = MPI_COMM_WORLD;
	desc.shape[0] = 1000;
	refuse(&desc, -EINVAL, "chunk");
	desc.shape[0] = 4096;
	RANK_OK(hm_device_open("soft:0", &desc.device));
	refuse(&desc, -EOPNOTSUPP, "no second address");
	hm_device_unref(desc.device);
	desc.device = NULL;
	RANK_OK(hm_array_create(&world, &desc, &array));
	RANK_OK(hm_array_at(array, rank ? 0 : 4095, &part));
	RANK_CHECK(part.rank != (uint32_t)rank && part.address);
	RANK_ERROR(-EINVAL, hm_array_put(array, &range, part.address, NULL));
	RANK_ERROR(-EINVAL, hm_array_get(array, &range, part.address, NULL));
	RANK_CHECK(strstr(hm_errmsg(), "copy them"));
	RANK_ERROR(-EINVAL, hm_array_move(array, 100, 1, 1));
	RANK_OK(hm_array_local(array, 0, &part));
	RANK_OK(hm_array_get(array, &range, part.address, NULL));
	RANK_OK(hm_array_epoch(array, 0));
	hm_array_unref(array);
	if (rank)
		forbid_userfaultfd();
	refuse(&desc, -EOPNOTSUPP, "rank 1: HM_ARRAY_PAGED needs userfaultfd");
}

static void refusals(void)
{
	free(ranks_run(2, 1, "refusals", "", NULL));
}

/* ---- a trap ---- */

/*
 * UCX, which MPI loads, takes mremap() over and forgets its fifth argument: a map that is moved
 * over another must arrive there all the same.
 */
static void resize_case(const char *argument)
{
	AUTO(hm_device) *device = NULL;
	AUTO(hm_buffer) *buffer = NULL;
	AUTO(hm_map) *map = NULL;
	uint32_t *words, i;

	(void)argument;
	RANK_OK(hm_device_open("soft:0", &device));
	RANK_OK(hm_buffer_create(
		device, DESC(hm_buffer_desc, .size = 1 << 16, .max_size = 1 << 20), &buffer));
	RANK_OK(hm_map_create(buffer, NULL, &map));
	words = hm_map_address(map);
	for (i = 0; i < 1 << 14; i++)
		words[i] = i;
	RANK_OK(hm_buffer_resize(buffer, 1 << 18, HM_GROW_REPLACE));
	RANK_CHECK(hm_map_address(map) == words && hm_map_length(map) == 1 << 18);
	for (i = 0; i < 1 << 14 && words[i] == i; i++)
		;
	RANK_CHECK(i == 1 << 14 && words[(1 << 16) - 1] == 0);
}

static void resized(void)
{
	free(ranks_run(1, 0, "resize", "", NULL));
}

/* ---- files ---- */

/* Each rank stores into the rows of the next one: the file has it all. */
static void file_case(const char *path)
{
	struct hm_array_part part;
	AUTO(hm_array) *array = NULL;
	uint32_t *base, word;
	uint64_t row, i;
	FILE *file;

	world = MPI_COMM_WORLD;
	RANK_OK(hm_array_create(&world,
				DESC(hm_array_desc, .flags = HM_ARRAY_PAGED | HM_ARRAY_NEW_FILE,
				     .dimensions = 1, .element = 4, .shape = { 4096 },
				     .path = path),
				&array));
	base = facts(array).base;
	for (row = 0; row < 4096; row++) {
		RANK_OK(hm_array_at(array, row, &part));
		if ((int)(part.rank + 1) % ranks == rank)
			base[row] = (uint32_t)row * 3;
	}
	RANK_OK(hm_array_epoch(array, HM_ARRAY_PUBLISH));
	file = fopen(path, "r");
	for (i = 0; file && fread(&word, 4, 1, file) == 1 && word == i * 3; i++)
		;
	RANK_CHECK(i == 4096);
	if (file)
		fclose(file);
}

static void files(void)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "array.u32");

	free(ranks_run(2, 1, "file", path, NULL));
}

static const struct rank_case cases[] = {
	{ "same", same_case },         { "stores", stores_case },
	{ "ahead", ahead_case },       { "large", large_case },
	{ "refusals", refusals_case }, { "file", file_case },
	{ "resize", resize_case },     { 0 },
};

static const struct test tests[] = {
	{ .name = "same", same, .seconds = 60 },
	{ .name = "stores", stored, .seconds = 120 },
	{ .name = "ahead", ahead, .seconds = 60 },
	{ .name = "large", large, .seconds = 60 },
	{ .name = "refusals", refusals, .seconds = 60 },
	{ .name = "files", files, .seconds = 60 },
	{ .name = "resize", resized },
	{ 0 },
};

int main(int argc, char **argv)
{
	ranks_main(argc, argv, cases);
	return harness_main_once(argc, argv, "array_pages", tests);
}
#else
#include "cluster/not_built.h"
#endif
