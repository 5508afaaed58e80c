// SPDX-License-Identifier: MIT
/*
 * Arrays and particles over two network namespaces, two ranks in each, by TCP: programs of this
 * folder, in tests/cluster/two_spaces.
 */
#ifdef HAVE_CLUSTER
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster/ranks.h"
#include "lib/command.h"

/* FOLDER, where FOLDER/tests/test_spaces is this program. */
static void build_folder(char *path, size_t size)
{
	ssize_t length = readlink("/proc/self/exe", path, size - 1);

	CHECK_FATAL(length > 0);
	path[length] = '\0';
	*strstr(path, "/tests/test_spaces") = '\0';
}

/* The output of @command there; free() it. NULL: its status is not @expected, nor 0. */
static char *in_spaces(const char *command, int expected)
{
	char line[9000], folder[4096], *text = calloc(1, 1 << 16);
	FILE *pipe;
	int status;

	ranks_need_launcher();
	build_folder(folder, sizeof(folder));
	snprintf(line, sizeof(line), "B=%s; exec tests/cluster/two_spaces %s 2>&1", folder,
		 command);
	pipe = popen(line, "r");
	CHECK_FATAL(pipe && text);
	text[fread(text, 1, (1 << 16) - 1, pipe)] = '\0';
	status = WEXITSTATUS(pclose(pipe));
	if (status == 77) {
		free(text);
		test_skip("cluster", "no network namespaces (iproute2, and the right to them)");
		test_abandon();
	}
	if (!status || status == expected)
		return text;
	test_fail(__FILE__, __LINE__, "%s: status %d: %s", command, status, text);
	free(text);
	return NULL;
}

/* Tests of another program, whose jobs have two nodes if they have more ranks than fit on one. */
static void program(const char *ranks, const char *name, const char *test)
{
	char command[200];

	setenv("HETMAP_SPACE_RANKS", ranks, 1);
	snprintf(command, sizeof(command), "env HETMAP_ROUNDS=1 \"$B/tests/%s\" %s", name,
		 test);
	free(in_spaces(command, 0));
}

static void model(void)
{
	program("1", "test_array_model", "two");
}

static void change(void)
{
	program("2", "test_array_move", "shared");
}

static void pages(void)
{
	program("1", "test_array_pages", "stores");
}

/*
 * Two nodes, as MPI found them, messages between them, and the energy stays. The result counts, and
 * not that the job ends: MPICH 4.0 may wait in MPI_Finalize() for ever (docs/guide/nodes.md).
 */
static void particles(void)
{
	AUTO_TEXT *text =
		in_spaces("timeout 90 mpiexec -n 4 \"$B/hetmap\" run particles --atoms "
			  "2500 --steps 4 --every 4 --json",
			  124);
	AUTO(json_t) *object = text ? json_loads(text, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
	const json_t *ways = json_object_get(object, "ways");

	if (object) {
		CHECK(json_is_true(json_object_get(object, "verified")));
		CHECK_EQUAL(integer_of(object, "ranks"), 4);
		CHECK_EQUAL(integer_of(object, "nodes"), 2);
		CHECK_EQUAL(json_array_size(ways), 2);
		CHECK(integer_of(json_array_get(ways, 0), "messages") > 0);
		CHECK(real_of(json_array_get(ways, 0), "energy_drift") < 1e-4);
		CHECK(real_of(json_array_get(ways, 0), "energy_end") ==
		      real_of(json_array_get(ways, 1), "energy_end"));
	} else if (text)
		test_fail(__FILE__, __LINE__, "no JSON: %s", text);
}

static const struct test tests[] = {
	{ .name = "model", model, .seconds = 120 },
	{ .name = "change", change, .seconds = 120 },
	{ .name = "pages", pages, .seconds = 120 },
	{ .name = "particles", particles, .seconds = 120 },
	{ 0 },
};

TEST_MAIN(harness_main_once, "spaces", tests)
#else
#include "cluster/not_built.h"
#endif
