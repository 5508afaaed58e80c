// SPDX-License-Identifier: MIT
/*
 * hetmap run particles and hetmap doctor --cluster: the energy stays, arrays and messages have the
 * same result, layers go to ranks that have time, pictures are written while it runs.
 */
#ifdef HAVE_CLUSTER
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster/ranks.h"
#include "lib/command.h"

/* Runs hetmap by mpiexec, with the arguments of @line; returns its output, or NULL; free() it. */
static char *job(int n, int members, const char *line, int *ret_status)
{
	char program[4000], command[8200], *text = calloc(1, 1 << 16);
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
	FILE *pipe;

	/* FOLDER/tests/test_particles is this program, FOLDER/hetmap the command. */
	CHECK_FATAL(length > 0);
	program[length] = '\0';
	*strstr(program, "/tests/test_particles") = '\0';
	ranks_need_launcher();
	snprintf(
		command, sizeof(command),
		"HETMAP_ARRAY_NODE=%d ASAN_OPTIONS=detect_leaks=0 mpiexec -n %d %s/hetmap %s 2>&1",
		members, n, program, line);
	pipe = popen(command, "r");
	CHECK_FATAL(pipe && text);
	text[fread(text, 1, (1 << 16) - 1, pipe)] = '\0';
	*ret_status = WEXITSTATUS(pclose(pipe));
	return text;
}

/* The result as JSON; drop it. */
static json_t *result(int n, int members, const char *line)
{
	json_error_t error;
	int status;
	AUTO_TEXT *text = job(n, members, line, &status);
	json_t *object = json_loads(text, 0, &error);

	if (status || !object) {
		test_fail(__FILE__, __LINE__, "%s: status %d: %s", line, status, text);
		test_abandon();
	}
	return object;
}

static json_t *way(const json_t *object, size_t i)
{
	return json_array_get(json_object_get(object, "ways"), i);
}

/* The energy is one number that two ways and any ranks agree on. */
static void energy(void)
{
	static const struct {
		int n, members;
	} jobs[] = { { 1, 0 }, { 2, 0 }, { 2, 1 }, { 3, 2 } };
	const char *rounds = getenv("HETMAP_ROUNDS");
	double begin = 0;
	char line[200];
	size_t i, k;

	snprintf(line, sizeof(line),
		 "run particles --atoms 1000 --steps %s --no-balance --every 50 --json",
		 rounds ? "2000" : "100");
	for (i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		json_t *object = result(jobs[i].n, jobs[i].members, line);

		CHECK(json_is_true(json_object_get(object, "verified")));
		CHECK_EQUAL(integer_of(object, "atoms"), 1000);
		CHECK_EQUAL(integer_of(object, "ranks"), jobs[i].n);
		CHECK_EQUAL(integer_of(object, "nodes"), jobs[i].members ? 2 : 1);
		CHECK_EQUAL(json_array_size(json_object_get(object, "ways")), 2);
		if (!i)
			begin = real_of(way(object, 0), "energy_begin");
		for (k = 0; k < 2; k++) {
			CHECK(real_of(way(object, k), "energy_drift") < 1e-4);
			CHECK(fabs(real_of(way(object, k), "energy_begin") / begin - 1) <
			      1e-12);
		}
		CHECK(real_of(way(object, 0), "energy_end") ==
		      real_of(way(object, 1), "energy_end"));
		/* Messages go between nodes, and nowhere else. */
		CHECK((integer_of(way(object, 0), "messages") > 0) == (jobs[i].members > 0));
		json_decref(object);
	}
}

/* CPU seconds of the busiest rank with balancing, over those without. */
static double balance_ratio(void)
{
	AUTO(json_t) *with = NULL, *without = NULL;

	with = result(
		2, 0,
		"run particles --atoms 1000 --start uneven --steps 200 --exchange array --json");
	without =
		result(2, 0,
		       "run particles --atoms 1000 --start uneven --steps 200 --exchange array "
		       "--no-balance --json");
	return real_of(way(with, 0), "busiest_s") / real_of(way(without, 0), "busiest_s");
}

/* The upper half of the box is empty: its ranks get layers of the lower half's. */
static void balance(void)
{
	static const char line[] =
		"run particles --atoms 1000 --steps 120 --start uneven --exchange array --every 10 "
		"--json";
	const double most = test_is_slow() ? 0.95 : 0.75;
	double ratio = 1;
	int members, i;

	for (members = 0; members < 2; members++) {
		json_t *object = result(2, members, line);

		CHECK(json_is_true(json_object_get(object, "verified")));
		CHECK(integer_of(way(object, 0), "layers_moved") > 0);
		CHECK_EQUAL(integer_of(object, "atoms"), 1000);
		json_decref(object);
	}
	/*
	 * Balancing pays. Other programs may slow one rank more than the other, so the best of
	 * three tries counts. Under a sanitizer many of the seconds are the sanitizer's own.
	 */
	for (i = 0; i < 3 && ratio > most; i++)
		ratio = fmin(ratio, balance_ratio());
	if (!(ratio <= most))
		test_fail(__FILE__, __LINE__, "the busiest rank has %.2f of the time without",
			  ratio);
}

static bool has(const char *path, const char *part, uint64_t n)
{
	AUTO_TEXT *bytes = malloc(1 << 20);
	FILE *file = fopen(path, "r");
	size_t got = 0;
	bool found;

	CHECK_FATAL(bytes != NULL);
	if (file)
		got = fread(bytes, 1, 1 << 20, file);
	if (file)
		fclose(file);
	found = got && memmem(bytes, got, part, n);
	return found;
}

static void pictures(void)
{
	char *folder = folder_make(), *path = folder_path(folder, "pictures"), line[4400];
	unsigned int n = 0;
	struct dirent *entry;
	DIR *list;

	snprintf(
		line, sizeof(line),
		"run particles --atoms 1000 --steps 40 --every 20 --exchange array --picture %s "
		"--json",
		path);
	json_decref(result(2, 0, line));
	list = opendir(path);
	CHECK_FATAL(list != NULL);
	while ((entry = readdir(list)))
		n += strstr(entry->d_name, ".png") != NULL;
	closedir(list);
	CHECK_EQUAL(n, 3);
	free(path);
	path = folder_path(folder, "pictures/00000040.png");
	CHECK(has(path, "\x89PNG\r\n\x1a\n", 8));
	/* As a decoder that is not ours reads it. */
	snprintf(
		line, sizeof(line),
		"python3 -c 'import sys, zlib, struct; b = open(sys.argv[1], \"rb\").read(); "
		"w, h = struct.unpack(\">II\", b[16:24]); n, = struct.unpack(\">I\", b[33:37]); "
		"assert zlib.crc32(b[37:41 + n]) == struct.unpack(\">I\", b[41 + n:45 + n])[0]; "
		"d = zlib.decompress(b[41:41 + n]); assert len(d) == h * (3 * w + 1); "
		"assert len(set(d)) > 20' %s",
		path);
	CHECK(!system(line));
	free(path);
	path = folder_path(folder, "live.html");
	snprintf(
		line, sizeof(line),
		"run particles --atoms 1000 --steps 40 --every 20 --exchange array --picture %s "
		"--json",
		path);
	json_decref(result(2, 1, line));
	CHECK(has(path, "data:image/png;base64,iVBORw0KGgo", 33));
	free(path);
	folder_remove(folder);
}

static void refuse(int n, const char *line, int expected, const char *part)
{
	int status;
	AUTO_TEXT *text = job(n, 0, line, &status);

	if (status != expected || !strstr(text, part))
		test_fail(__FILE__, __LINE__, "%s: status %d, not %d with \"%s\": %s", line,
			  status, expected, part, text);
}

static void refused(void)
{
	refuse(1, "run particles --steps 0", 2, "--steps");
	refuse(1, "run particles --atoms x", 2, "--atoms");
	refuse(1, "run particles --start odd", 2, "even or uneven");
	refuse(1, "run particles --exchange pigeons", 2, "array, messages or both");
	refuse(1, "run particles here", 2, "takes no");
	refuse(1, "run particles --atoms 100", 2, "864 or more");
	refuse(4, "run particles --atoms 1000", 2, "fewer ranks");
	refuse(2, "run particles --atoms 1000 --steps 1 --picture /nonexistent/pictures", 1,
	       "/nonexistent/pictures");
	refuse(1, "run particles --help", 0, "--picture");
	refuse(1, "doctor --cluster --path /", 2, "--cluster takes no --path");
}

static void doctor(void)
{
	int status;
	char *text = job(2, 0, "doctor --cluster", &status);

	CHECK(!status && strstr(text, "2 ranks on 1 node") &&
	      strstr(text, "shared pages: 8 bytes"));
	CHECK(!strstr(text, "one-sided"));
	check_lines(text);
	free(text);
	text = job(2, 1, "doctor --cluster --json", &status);
	json_t *list = json_loads(text, 0, NULL);

	if (status || json_array_size(list) < 6 || !strstr(text, "one-sided calls: 8 bytes"))
		test_fail(__FILE__, __LINE__, "status %d: %s", status, text);
	json_decref(list);
	free(text);
	text = job(1, 0, "doctor --cluster", &status);
	CHECK(!status && strstr(text, "mpirun -n 2"));
	free(text);
}

static const struct test tests[] = {
	{ .name = "energy", energy, .seconds = 120 },
	{ .name = "balance", balance, .seconds = 60 },
	{ .name = "pictures", pictures, .seconds = 60 },
	{ .name = "refused", refused, .seconds = 60 },
	{ .name = "doctor", doctor, .seconds = 60 },
	{ 0 },
};

TEST_MAIN(harness_main_once, "particles", tests)
#else
#include "cluster/not_built.h"
#endif
