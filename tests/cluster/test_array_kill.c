// SPDX-License-Identifier: MIT
/*
 * Arrays: a rank is killed at any moment of a job that puts, publishes, saves and moves. The
 * others hear which one, and soon; the file of the array holds the last epoch, and the saved
 * one a whole array. On several nodes they put to their own node: a wait in MPI for a rank that
 * has ended lasts until the launcher ends it.
 */
#ifdef HAVE_CLUSTER
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cluster/ranks.h"
#include "lib/command.h"

#define RANKS 4
#define ROWS 48 /* rows of a half: epochs write one half after the other */
#define WORDS 1024
#define SAVES 5       /* each so manieth epoch is saved */
#define MOVES 3       /* before each so manieth one rows get another owner */
#define WITHIN 120000 /* us from the first epoch on in which the rank is killed */
#define EPOCHS 1000000
#define BOUND 10 /* seconds until the other ranks hear of it */

/* The orders of a job, and the folder of its files. */
struct job {
	uint64_t seed;
	int dying;
	unsigned int after; /* us */
	char folder[4000];
};

static uint32_t nodes; /* two ranks each, or one */

static uint32_t word_of(uint64_t epoch, uint64_t row, uint64_t i)
{
	return (uint32_t)(epoch * 2654435761u + row * 40503 + i);
}

static uint32_t word_at(uint64_t epoch, uint64_t row, uint64_t i)
{
	return epoch ? word_of(epoch, row, i) : 0;
}

/* ---- a rank ---- */

static void *kill_later(void *user)
{
	const struct job *job = user;
	struct timespec after = { .tv_nsec = job->after * 1000l };

	nanosleep(&after, NULL);
	raise(SIGKILL);
	return NULL;
}

/* Whether this rank writes the row: that of another rank, too, of its node. */
static bool is_mine(const struct hm_array_part *part, uint64_t row, uint64_t epoch)
{
	uint64_t who = (row + epoch) % RANKS;

	if (nodes > 1)
		who = part->rank / 2 * 2 + who % 2;
	return who == (uint64_t)rank;
}

/* This rank's rows of the epoch. */
static int put_rows(struct hm_array *array, uint64_t epoch)
{
	struct hm_array_range range = { .count = { 1, WORDS } };
	static uint32_t words[ROWS][WORDS];
	struct hm_array_part part;
	uint64_t row, i;
	int r = 0;

	for (row = 0; !r && row < ROWS; row++) {
		r = hm_array_at(array, epoch % 2 * ROWS + row, &part);
		if (r || !is_mine(&part, row, epoch))
			continue;
		for (i = 0; i < WORDS; i++)
			words[row][i] = word_of(epoch, row, i);
		range.start[0] = epoch % 2 * ROWS + row;
		r = hm_array_put(array, &range, words[row], NULL);
	}
	return r;
}

/* An epoch, which ends by one of the calls that end it. */
static int go_on(struct hm_array *array, uint64_t epoch, uint64_t *state, const char *saved)
{
	uint64_t row, rows, to;
	int r = put_rows(array, epoch);

	if (!r && epoch % SAVES == 0)
		return hm_array_save(array, saved);
	if (!r)
		r = hm_array_epoch(array, HM_ARRAY_PUBLISH);
	if (r || (epoch + 1) % MOVES || nodes > 1)
		return r;
	row = test_random(state) % (2 * ROWS);
	rows = 1 + test_random(state) % (2 * ROWS - row);
	to = test_random(state) % RANKS;
	return hm_array_move(array, row, rows, (uint32_t)to);
}

/* A line of the file that the test reads: mpiexec may end before it has passed output on. */
static void tell(const struct job *job, const char *line)
{
	AUTO_TEXT *path = folder_path(job->folder, "lines");
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);

	if (write(fd, line, strlen(line)) < 0)
		rank_fail(__FILE__, __LINE__, "%s", line);
	close(fd);
}

static void killed_case(const char *argument)
{
	struct hm_array_desc desc = { .struct_size = sizeof(desc),
				      .flags = HM_ARRAY_NEW_FILE,
				      .dimensions = 2,
				      .element = 4,
				      .shape = { 2 * ROWS, WORDS },
				      .distribution = HM_ARRAY_CYCLIC,
				      .chunk = 5 };
	struct hm_array_info info = { .struct_size = sizeof(info) };
	MPI_Comm world = MPI_COMM_WORLD;
	uint64_t epoch = 0, state;
	struct hm_array *array;
	static struct job job;
	pthread_t thread;
	char line[300], *saved;
	int r = 0;

	if (sscanf(argument, "%" SCNu64 " %d %u %3999s", &job.seed, &job.dying, &job.after,
		   job.folder) != 4)
		ranks_end();
	desc.path = folder_path(job.folder, "array");
	saved = folder_path(job.folder, "saved");
	state = job.seed;
	RANK_OK(hm_array_create(&world, &desc, &array));
	RANK_OK(hm_array_query(array, &info));
	nodes = info.nodes;
	RANK_OK(hm_array_epoch(array, 0));
	if (rank == job.dying)
		pthread_create(&thread, NULL, kill_later, &job);
	while (!r && epoch < EPOCHS)
		r = go_on(array, ++epoch, &state, saved);
	snprintf(line, sizeof(line), "%d %d %" PRIu64 " %s\n", rank, r, epoch - 1, hm_errmsg());
	hm_array_unref(array);
	tell(&job, line);
	/* MPI_Finalize() would wait for the dead. */
	ranks_end();
}

/* ---- the test ---- */

static uint32_t *read_words(const struct job *job, const char *name)
{
	uint32_t *words = calloc(2 * ROWS * WORDS, sizeof(*words));
	AUTO_TEXT *path = folder_path(job->folder, name);
	FILE *file = fopen(path, "re");
	size_t got = 0;

	CHECK_FATAL(words != NULL);
	if (file) {
		got = fread(words, sizeof(*words), 2 * ROWS * WORDS, file);
		fclose(file);
	}
	if (got == 2 * ROWS * WORDS)
		return words;
	free(words);
	return NULL;
}

/* Words of the half of @epoch that are neither its own nor, unless that is 0, of @other. */
static unsigned int wrong_words(const uint32_t *words, uint64_t half, uint64_t epoch,
				uint64_t other)
{
	unsigned int wrong = 0;
	uint64_t row, i;

	for (row = 0; row < ROWS; row++)
		for (i = 0; i < WORDS; i++) {
			uint32_t word = words[(half * ROWS + row) * WORDS + i];

			wrong += word != word_at(epoch, row, i) &&
				 (!other || word != word_of(other, row, i));
		}
	return wrong;
}

/* The last epoch is whole; the half that the next one writes has words of that one, or none. */
static void check_file(const struct job *job, uint64_t epoch)
{
	uint32_t *words = read_words(job, "array");
	unsigned int wrong;

	CHECK_FATAL(words != NULL);
	wrong = wrong_words(words, epoch % 2, epoch, 0);
	if (wrong)
		test_fail(__FILE__, __LINE__,
			  "the file has %u words that are not of epoch %" PRIu64, wrong, epoch);
	wrong = wrong_words(words, (epoch + 1) % 2, epoch ? epoch - 1 : 0, epoch + 1);
	if (wrong)
		test_fail(__FILE__, __LINE__, "%u words of the other half are of no epoch",
			  wrong);
	free(words);
}

/* The saved file is whole. It is of the last save that a rank knows of, or of the next one. */
static void check_saved(const struct job *job, uint64_t epoch)
{
	uint64_t last = epoch / SAVES * SAVES, of;
	uint32_t *words = read_words(job, "saved");

	if (!words) {
		CHECK_EQUAL(last, 0);
		return;
	}
	for (of = last; of <= last + SAVES; of += SAVES)
		if (of && !wrong_words(words, of % 2, of, 0) &&
		    !wrong_words(words, (of + 1) % 2, of - 1, 0))
			break;
	if (of > last + SAVES)
		test_fail(__FILE__, __LINE__,
			  "what was saved is not the array after epoch %" PRIu64 " or %" PRIu64,
			  last, last + SAVES);
	free(words);
}

static unsigned int read_lines(const struct job *job, char *lines, size_t size)
{
	AUTO_TEXT *path = folder_path(job->folder, "lines");
	FILE *file = fopen(path, "re");
	unsigned int n = 0;
	size_t got = 0;

	if (file) {
		got = fread(lines, 1, size - 1, file);
		fclose(file);
	}
	lines[got] = '\0';
	for (; *lines; lines++)
		n += *lines == '\n';
	return n;
}

/* All other ranks have named the ended one. Returns the last epoch that one of them ended. */
static uint64_t check_lines_of(const struct job *job, const char *lines)
{
	uint64_t epoch, last = 0;
	char text[300], part[40];
	int who, r, n = 0, used;

	snprintf(part, sizeof(part), "rank %d", job->dying);
	for (; sscanf(lines, "%d %d %" SCNu64 " %299[^\n]\n%n", &who, &r, &epoch, text,
		      &used) == 4;
	     lines += used, n++) {
		if (r != -ECONNRESET || strncmp(text, part, strlen(part)) != 0 ||
		    !strstr(text, "has ended") || who == job->dying)
			test_fail(__FILE__, __LINE__, "rank %d: %d: %s, not '%s has ended'",
				  who, r, text, part);
		last = epoch > last ? epoch : last;
	}
	if (n != RANKS - 1)
		test_fail(__FILE__, __LINE__, "%d of %d ranks have said that rank %d has ended",
			  n, RANKS - 1, job->dying);
	return last;
}

static void kill_one(int members, uint64_t *state)
{
	char argument[4200], lines[4000];
	AUTO_TEXT *folder = folder_make(), *text = NULL;
	struct job job = { .seed = test_random(state),
			   .dying = (int)(test_random(state) % RANKS),
			   .after = (unsigned int)(test_random(state) % WITHIN) };
	double begin;
	uint64_t epoch;
	int status;

	snprintf(job.folder, sizeof(job.folder), "%s", folder);
	snprintf(argument, sizeof(argument), "%" PRIu64 " %d %u %s", job.seed, job.dying,
		 job.after, folder);
	text = ranks_run(RANKS, members, "killed", argument, &status);
	/* mpiexec ends with the rank, and the other ranks go on until they hear of it. */
	begin = test_now();
	while (read_lines(&job, lines, sizeof(lines)) < RANKS - 1 && test_now() - begin < BOUND)
		usleep(5000);
	epoch = check_lines_of(&job, lines);
	check_file(&job, epoch);
	check_saved(&job, epoch);
	if (strstr(text, "test_array_kill.c"))
		test_fail(__FILE__, __LINE__, "%s", text);
}

static void kill_some(int members, unsigned int usual)
{
	const char *rounds = getenv("HETMAP_ROUNDS");
	unsigned int n = rounds ? (unsigned int)atoi(rounds) : usual, i;
	uint64_t state = test_seed();

	for (i = 0; i < n; i++)
		kill_one(members, &state);
}

static void shared(void)
{
	kill_some(0, 6);
}

static void messages(void)
{
	kill_some(2, 4);
}

static const struct rank_case cases[] = {
	{ "killed", killed_case },
	{ 0 },
};

static const struct test tests[] = {
	{ .name = "shared", shared, .seconds = 60 },
	{ .name = "messages", messages, .seconds = 60 },
	{ 0 },
};

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "--rank"))
		ranks_outlive_launcher();
	ranks_main(argc, argv, cases);
	return harness_main_once(argc, argv, "array_kill", tests);
}
#else
#include "cluster/not_built.h"
#endif
