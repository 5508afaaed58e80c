// SPDX-License-Identifier: MIT
/* Arrays: calls refused on all ranks, files, devices, a killed rank. */
#ifdef HAVE_CLUSTER
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster/ranks.h"
#include "lib/command.h"

#define SLICE (MIB(2) / 4) /* words; what NFS writes back as a whole */

static MPI_Comm world;

/* 1000 rows of 4 float32. */
static struct hm_array_desc plain(void)
{
	struct hm_array_desc desc = {
		.struct_size = sizeof(desc), .dimensions = 2, .element = 4, .shape = { 1000, 4 }
	};

	world = MPI_COMM_WORLD;
	return desc;
}

static struct hm_array *make(const struct hm_array_desc *desc)
{
	struct hm_array *array;

	RANK_OK(hm_array_create(&world, desc, &array));
	return array;
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

static void refused_alike(void)
{
	struct hm_array_part parts[2] = { { .row = 0, .rows = 500 },
					  { .row = 500, .rows = 499 } };
	struct hm_array_desc desc = plain();

	refuse(NULL, -EINVAL, "description");
	desc.dimensions = 5;
	refuse(&desc, -EINVAL, "5 dimensions");
	desc = plain(), desc.element = 0;
	refuse(&desc, -EINVAL, "elements of 0 bytes");
	desc = plain(), desc.element = 4097;
	refuse(&desc, -EINVAL, "4097");
	desc = plain(), desc.shape[1] = 0;
	refuse(&desc, -EINVAL, "shape[1]");
	desc = plain(), desc.shape[0] = 1ull << 62, desc.shape[1] = 1ull << 40;
	refuse(&desc, -EOVERFLOW, "2^47");
	desc = plain(), desc.shape[0] = 1ull << 47;
	refuse(&desc, -EOVERFLOW, "2^47");
	desc = plain(), desc.flags = 1u << 31;
	refuse(&desc, -EINVAL, "flags");
	desc = plain(), desc.flags = HM_ARRAY_NEW_FILE;
	refuse(&desc, -EINVAL, "without a path");
	desc = plain(), desc.distribution = 3;
	refuse(&desc, -EINVAL, "distribution 3");
	desc = plain(), desc.parts = parts, desc.n_parts = 2;
	refuse(&desc, -EINVAL, "block");
	desc.distribution = HM_ARRAY_CYCLIC;
	refuse(&desc, -EINVAL, "cyclic");
	desc.distribution = HM_ARRAY_BY_HAND;
	refuse(&desc, -EINVAL, "end at row 999 of 1000");
	parts[1].rows = 501;
	refuse(&desc, -EINVAL, "parts[1]");
	parts[1].rows = 500, parts[1].rank = 99;
	refuse(&desc, -EINVAL, "rank 99");
	parts[1].row = 501;
	refuse(&desc, -EINVAL, "must begin at row 500");
	desc.parts = NULL;
	refuse(&desc, -EINVAL, "needs parts");
	desc = plain(), desc.distribution = HM_ARRAY_CYCLIC;
	desc.shape[0] = HM_ARRAY_PARTS_MOST + 1ull;
	refuse(&desc, -E2BIG, "chunk");
	desc = plain(), desc.path = "/nonexistent/array";
	refuse(&desc, -ENOENT, "/nonexistent/array");
	desc.flags = HM_ARRAY_NEW_FILE;
	refuse(&desc, -ENOENT, "/nonexistent/array");
	RANK_ERROR(-EINVAL, hm_array_create(NULL, &desc, NULL));
}

/* A mistake of one rank is an error of all, with its text. */
static void refused_apart(void)
{
	struct hm_array_desc desc = plain();
	bool other = rank == ranks - 1;
	char text[32];

	snprintf(text, sizeof(text), "rank %d: ", ranks - 1);
	if (other)
		desc.element = 0;
	refuse(&desc, -EINVAL, text);
	desc = plain();
	desc.shape[0] += other;
	refuse(&desc, -EINVAL, "another shape");
	desc = plain();
	desc.chunk = other ? 7 : 0;
	refuse(&desc, -EINVAL, "distribution");
	desc = plain();
	desc.path = other ? "/dev/null" : NULL;
	refuse(&desc, -EINVAL, "path");
	refuse(other ? NULL : &desc, -EINVAL, "description");
}

static void calls(void)
{
	struct hm_array_desc desc = plain();
	struct hm_array_info info = { .struct_size = sizeof(info) + 8 };
	struct hm_array_range all = { .count = { 1000, 4 } }, range = all;
	struct hm_array_part part = { .row = 77 };
	struct hm_array *array = make(&desc);
	uint64_t ticket = 55;
	float bytes[4000];

	RANK_ERROR(-E2BIG, hm_array_query(array, &info));
	RANK_ERROR(-EINVAL, hm_array_query(NULL, &info));
	RANK_ERROR(-EINVAL, hm_array_query(array, NULL));
	RANK_ERROR(-ENOENT, hm_array_local(array, 1, &part));
	RANK_ERROR(-ERANGE, hm_array_at(array, 1000, &part));
	RANK_CHECK(part.row == 77);
	range.start[1] = 1;
	RANK_ERROR(-ERANGE, hm_array_put(array, &range, bytes, &ticket));
	RANK_CHECK(strstr(hm_errmsg(), "index 1"));
	RANK_ERROR(-ERANGE, hm_array_get(array, &range, bytes, &ticket));
	range = all, range.start[0] = UINT64_MAX;
	RANK_ERROR(-ERANGE, hm_array_get(array, &range, bytes, &ticket));
	RANK_ERROR(-EINVAL, hm_array_put(array, &all, NULL, &ticket));
	RANK_ERROR(-EINVAL, hm_array_get(array, NULL, bytes, &ticket));
	RANK_CHECK(ticket == 55);
	RANK_ERROR(-EINVAL, hm_array_wait(array, 1000));
	/* An error of one rank in a collective call is one of all, and the next is as ever. */
	RANK_ERROR(-EINVAL, hm_array_epoch(array, rank ? 0 : 2));
	RANK_CHECK(strstr(hm_errmsg(), "rank 0: unknown flags"));
	RANK_ERROR(-EOPNOTSUPP, hm_array_epoch(array, rank == 1 ? HM_ARRAY_PUBLISH : 0));
	RANK_OK(hm_array_epoch(array, 0));
	/* An empty range is nothing. */
	range = all, range.count[1] = 0;
	RANK_OK(hm_array_put(array, &range, bytes, &ticket));
	if (fork() == 0)
		_exit(hm_array_epoch(array, 0) == -EOWNERDEAD ? 0 : 1);
	int status = 1;

	RANK_CHECK(wait(&status) > 0 && !status);
	hm_array_unref(array);
	hm_array_unref(NULL);
	RANK_CHECK(hm_array_ref(NULL) == NULL);
}

static void refusals_case(const char *argument)
{
	MPI_Comm half;

	(void)argument;
	refused_alike();
	refused_apart();
	calls();
	/* A process that is no rank of the communicator. */
	MPI_Comm_split(MPI_COMM_WORLD, rank ? 1 : MPI_UNDEFINED, 0, &half);
	world = half;
	if (rank) {
		struct hm_array_desc desc = plain();
		struct hm_array *array;

		RANK_OK(hm_array_create(&half, &desc, &array));
		hm_array_unref(array);
		MPI_Comm_free(&half);
	} else {
		struct hm_array_desc desc = plain();
		struct hm_array *array;

		RANK_ERROR(-EINVAL, hm_array_create(&half, &desc, &array));
		RANK_CHECK(strstr(hm_errmsg(), "MPI_COMM_NULL"));
	}
}

static void refusals(void)
{
	free(ranks_run(3, 0, "refusals", "", NULL));
	free(ranks_run(3, 1, "refusals", "", NULL));
}

static void without_mpi(void)
{
	struct hm_array_desc desc = plain();
	struct hm_array *array;

	CHECK_ERROR(-EINVAL, hm_array_create(&world, &desc, &array));
	CHECK(strstr(hm_errmsg(), "MPI_Init_thread"));
}

/* ---- files ---- */

/* Rows of 1 MiB: rank r writes row i with i * 1000 + r into the slice of the next rank, too. */
static void file_case(const char *path)
{
	struct hm_array_desc desc = { .struct_size = sizeof(desc),
				      .flags = HM_ARRAY_NEW_FILE,
				      .dimensions = 2,
				      .element = 4,
				      .shape = { 5, 1000 },
				      .path = path };
	struct hm_array_range range = { .count = { 1, 1000 } };
	struct hm_array *array;
	uint32_t row[1000];
	uint64_t i, k;
	int owner;

	world = MPI_COMM_WORLD;
	array = make(&desc);
	for (i = 0; i < 5; i++) {
		struct hm_array_part part;

		RANK_OK(hm_array_at(array, i, &part));
		owner = (int)part.rank;
		/* The rank behind the owner's writes it. */
		if ((owner + 1) % ranks != rank)
			continue;
		for (k = 0; k < 1000; k++)
			row[k] = (uint32_t)(i * 1000 + k);
		range.start[0] = i;
		RANK_OK(hm_array_put(array, &range, row, NULL));
		RANK_OK(hm_array_wait(array, HM_ARRAY_ALL));
	}
	RANK_OK(hm_array_epoch(array, HM_ARRAY_PUBLISH));
	hm_array_unref(array);
	/* The file is there for the next array, and not for a longer one. */
	desc.flags = 0;
	array = make(&desc);
	range.start[0] = 4;
	RANK_OK(hm_array_get(array, &range, row, NULL));
	RANK_OK(hm_array_wait(array, HM_ARRAY_ALL));
	RANK_CHECK(row[0] == 4000 && row[999] == 4999);
	hm_array_unref(array);
	desc.shape[0] = 6;
	refuse(&desc, -ENODATA, "has 20000 bytes, and the array 24000");
}

static void files(void)
{
	AUTO_TEXT *folder = folder_make();
	AUTO_TEXT *path = folder_path(folder, "array.f32");
	struct stat stat_of;
	uint32_t word;
	uint64_t i;
	int members;
	FILE *file;

	for (members = 0; members < 2; members++) {
		unlink(path);
		free(ranks_run(3, members, "file", path, NULL));
		CHECK(!stat(path, &stat_of) && stat_of.st_size == 20000);
		file = fopen(path, "r");
		CHECK_FATAL(file != NULL);
		for (i = 0; fread(&word, 4, 1, file) == 1; i++)
			if (word != i) {
				test_fail(__FILE__, __LINE__, "word %" PRIu64 " is %u", i,
					  word);
				break;
			}
		CHECK_EQUAL(i, 5000);
		fclose(file);
	}
}

/* How many words of the file are not those of the epoch, as any program reads it. */
static uint64_t old_words(const char *path, uint64_t n)
{
	FILE *file = fopen(path, "r");
	uint64_t i, old = 0;
	uint32_t word;

	RANK_CHECK(file != NULL);
	for (i = 0; file && fread(&word, 4, 1, file) == 1; i++)
		old += word != i + 1;
	RANK_CHECK(i == n);
	if (file)
		fclose(file);
	return old;
}

/*
 * Each machine has read all of the file when other machines write to it. While a map of the file
 * is writable, NFS keeps such pages (hetmap/file.h).
 */
static void fresh_case(const char *path)
{
	struct hm_array_desc desc = { .struct_size = sizeof(desc),
				      .flags = HM_ARRAY_NEW_FILE,
				      .dimensions = 1,
				      .element = 4,
				      .chunk = SLICE,
				      .shape = { (uint64_t)ranks * SLICE },
				      .path = path };
	struct hm_array_range mine = { .start = { (uint64_t)rank * SLICE },
				       .count = { SLICE } };
	AUTO_FREE uint32_t *words = malloc(SLICE * sizeof(*words));
	AUTO(hm_array) *array = NULL;
	uint64_t i;

	world = MPI_COMM_WORLD;
	array = make(&desc);
	RANK_CHECK(words && old_words(path, desc.shape[0]) == desc.shape[0]);
	for (i = 0; i < SLICE; i++)
		words[i] = (uint32_t)(mine.start[0] + i + 1);
	RANK_OK(hm_array_epoch(array, 0));
	RANK_OK(hm_array_put(array, &mine, words, NULL));
	RANK_OK(hm_array_epoch(array, HM_ARRAY_PUBLISH));
	RANK_CHECK(old_words(path, desc.shape[0]) == 0);
	ranks_say("no word is old");
}

static void fresh(void)
{
	AUTO_TEXT *folder = folder_make();
	AUTO_TEXT *path = folder_path(folder, "array.u32");
	AUTO_FREE char *said = ranks_run(3, 1, "fresh", path, NULL);

	CHECK(said && strstr(said, "no word is old"));
}

/* ---- devices ---- */

/* Memory that ranks do not share: all goes by messages, also on one machine. */
static void device_case(const char *name)
{
	struct hm_array_info info = { .struct_size = sizeof(info) };
	struct hm_array_desc desc = plain();
	struct hm_array_range all = { .count = { 1000, 4 } };
	struct hm_pointer_info pointer;
	struct hm_array_part part;
	uint32_t bytes[4000], i;
	struct hm_array *array;

	RANK_OK(hm_device_open(name, &desc.device));
	array = make(&desc);
	RANK_OK(hm_array_query(array, &info));
	RANK_CHECK(info.nodes == (uint32_t)ranks);
	RANK_OK(hm_array_local(array, 0, &part));
	RANK_OK(hm_pointer_find(part.address, &pointer));
	if (!rank) {
		for (i = 0; i < 4000; i++)
			bytes[i] = 3 * i;
		RANK_OK(hm_array_put(array, &all, bytes, NULL));
	}
	RANK_OK(hm_array_epoch(array, 0));
	RANK_CHECK(*(uint32_t *)part.address == 12 * part.row);
	memset(bytes, 0, sizeof(bytes));
	RANK_OK(hm_array_get(array, &all, bytes, NULL));
	RANK_OK(hm_array_epoch(array, 0));
	for (i = 0; i < 4000; i++)
		if (bytes[i] != 3 * i)
			break;
	RANK_CHECK(i == 4000);
	hm_array_unref(array);
	hm_device_unref(desc.device);
}

static void devices(void)
{
	free(ranks_run(2, 0, "device", "soft:0", NULL));
}

/* ---- a rank that is killed ---- */

/*
 * Seconds until the others hear of it: below one inside a node. A message to another node is
 * the first one of two ranks, which takes MPI seconds on a busy machine.
 */
#define BOUND 20

/*
 * In the third epoch the rank ends; the others hear which one, and soon. @argument: "RANK
 * FILE"; each of the others adds a line to the file: mpiexec may end before it has passed on
 * all output.
 */
static void end_one(const char *argument, bool late)
{
	struct hm_array_range all = { .count = { 1000, 4 } };
	struct hm_array_desc desc = plain();
	struct hm_array *array = make(&desc);
	int dying = atoi(argument), i, r = 0;
	float bytes[4000];
	double begin = 0;
	char line[300];
	int fd;

	/* Whatever MPI does at the first message of two ranks is done before. */
	RANK_OK(hm_array_get(array, &all, bytes, NULL));
	for (i = 0; i < 5 && !r; i++) {
		if (i == 2 && rank == dying)
			raise(SIGKILL);
		if (i == 2 && late && !rank)
			usleep(600000);
		begin = test_now();
		r = hm_array_epoch(array, 0);
	}
	snprintf(line, sizeof(line), "rank %d: %d after %d epochs in %s: %s\n", rank, r, i,
		 test_now() - begin < BOUND ? "time" : "too long a time", hm_errmsg());
	RANK_ERROR(-ECONNRESET, hm_array_epoch(array, 0));
	RANK_ERROR(-ECONNRESET, hm_array_get(array, &all, bytes, NULL));
	hm_array_unref(array);
	fd = open(strchr(argument, ' ') + 1, O_WRONLY | O_APPEND | O_CREAT, 0600);
	if (write(fd, line, strlen(line)) < 0)
		rank_fail(__FILE__, __LINE__, "%s", line);
	/* MPI_Finalize() would wait for the dead. */
	ranks_end();
}

static void killed_case(const char *argument)
{
	end_one(argument, false);
}

/* The first rank of the node comes to the epoch when another rank knows of it already. */
static void killed_late_case(const char *argument)
{
	end_one(argument, true);
}

static unsigned int count(const char *text, const char *part)
{
	unsigned int n = 0;

	while ((text = strstr(text, part))) {
		text += strlen(part);
		n++;
	}
	return n;
}

static void killed_of(const char *how, int members, const char *dying)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "lines");
	char part[64], argument[4200], lines[2000] = "", *text;
	double begin;
	int status;
	FILE *file;

	snprintf(argument, sizeof(argument), "%s %s", dying, path);
	text = ranks_run(4, members, how, argument, &status);
	snprintf(part, sizeof(part), "after 3 epochs in time: rank %s", dying);
	/* The ranks outlive mpiexec. */
	begin = test_now();
	while (count(lines, "\n") < 3 && test_now() - begin < BOUND) {
		usleep(20000);
		file = fopen(path, "r");
		if (!file)
			continue;
		lines[fread(lines, 1, sizeof(lines) - 1, file)] = '\0';
		fclose(file);
	}
	if (count(lines, part) != 3 || count(text, "not -ECONNRESET"))
		test_fail(__FILE__, __LINE__, "%d on a node: %s%s", members, lines, text);
	free(text);
}

static void killed(void)
{
	killed_of("killed", 0, "0");
	killed_of("killed", 0, "2");
	killed_of("killed", 2, "3");
}

/* The first rank of a node, which alone talks to the other nodes. */
static void killed_first(void)
{
	killed_of("killed", 2, "2");
}

static void killed_late(void)
{
	killed_of("killed_late", 3, "1");
}

static const struct rank_case cases[] = {
	{ "refusals", refusals_case },
	{ "file", file_case },
	{ "fresh", fresh_case },
	{ "device", device_case },
	{ "killed", killed_case },
	{ "killed_late", killed_late_case },
	{ 0 },
};

static const struct test tests[] = {
	{ .name = "refusals", refusals, .seconds = 60 },
	{ .name = "without_mpi", without_mpi },
	{ .name = "files", files, .seconds = 60 },
	{ .name = "fresh", fresh, .seconds = 60 },
	{ .name = "devices", devices },
	{ .name = "killed", killed, .seconds = 60 },
	{ .name = "killed_first", killed_first, .seconds = 60 },
	{ .name = "killed_late", killed_late, .seconds = 60 },
	{ 0 },
};

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "--rank") && !strncmp(argv[2], "killed", 6))
		ranks_outlive_launcher();
	ranks_main(argc, argv, cases);
	return harness_main_once(argc, argv, "array", tests);
}
#else
#include "cluster/not_built.h"
#endif
