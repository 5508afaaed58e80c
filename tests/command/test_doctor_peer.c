// SPDX-License-Identifier: MIT
/*
 * hetmap doctor --peer HOST:DIR: another machine's client of the same files, by ssh, or by
 * tests/command/fake_ssh in its place. Two clients of a real server are in tests/vm/nfs.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hetmap/hetmap.h>

#include "lib/command.h"

#define FAKE_SSH "HETMAP_SSH=tests/command/fake_ssh"

static void run(const char *path, const char *peer, const char *ssh, bool json,
		struct outcome *ret_outcome)
{
	command_run(&(struct command){ .args = { "doctor", "--path", path, "--peer", peer,
						 json ? "--json" : NULL },
				       .env = { ssh } },
		    ret_outcome);
}

/* Whatever the test's end was, its file is gone. */
static void check_empty(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;

	CHECK_FATAL(dir != NULL);
	while ((entry = readdir(dir)))
		CHECK(strncmp(entry->d_name, ".hetmap", 7) != 0);
	closedir(dir);
}

static void test_hosts(void)
{
	/* With the sentences on it, of the findings or of the failure. */
	static const struct {
		const char *host;
		int status;
		int error; /* of a failure; 0: it has findings */
		const char *said[2];
	} rows[] = {
		/* This very kernel, and the same mount: one client. */
		{ "same", 0, 0, { "one file system of this machine", "\"clients\"" } },
		{ "far", 0, 0, { "each map showed at once", "\"protocol\"" } },
		{ "stale", 1, 0, { "did not show by itself", "still showed old bytes" } },
		{ "refused", 3, 0, { "does not work", "refused:/x: it is on smb" } },
		{ "newer", 3, EPROTO, { "has hetmap 99.0.0", "the same version on both" } },
		{ "older", 3, EPROTO, { "older ended with status 2", "this version there" } },
		{ "without", 3, ENOENT, { "without has no 'hetmap'", "install it there" } },
		{ "away", 3, EHOSTUNREACH, { "away can't be reached", "BatchMode=yes away" } },
		{ "lost", 3, EHOSTUNREACH, { "in the middle of the test", "status 255" } },
		{ "broken", 3, EPIPE, { "broken:/x", "ended before the test did" } },
		{ "mad", 3, EPROTO, { "mad:/x", "'what'" } },
		{ "loud", 3, EPROTO, { "loud:/x", "none of them hetmap's" } },
	};
	char *folder = folder_make(), *peer;
	AUTO(outcome) outcome = { 0 };
	bool real;
	size_t i, k;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		/* A host that is only played sees no file. */
		real = !strcmp(rows[i].host, "same") || !strcmp(rows[i].host, "far");
		peer = malloc(strlen(rows[i].host) + strlen(folder) + 3);
		CHECK_FATAL(peer != NULL);
		strcpy(peer, rows[i].host);
		strcat(strcat(peer, ":"), real ? folder : "/x");
		run(folder, peer, FAKE_SSH, true, &outcome);
		if (outcome.status != rows[i].status)
			test_fail(__FILE__, __LINE__, "%s: status %d\n%s%s", rows[i].host,
				  outcome.status, outcome.out, outcome.err);
		if (rows[i].error)
			check_failure_json(&outcome, rows[i].error);
		for (k = 0; k < 2; k++)
			if (!strstr(outcome.out, rows[i].said[k]))
				test_fail(__FILE__, __LINE__, "%s: no '%s' in\n%s",
					  rows[i].host, rows[i].said[k], outcome.out);
		check_empty(folder);
		free(peer);
	}
	folder_remove(folder);
}

/* A shell on the other side reads the folder's name; this one would do something else, too. */
static void test_quoted(void)
{
	AUTO_TEXT *folder = folder_make(),
		  *inside = folder_path(folder, "it's $(touch x);\n here");
	AUTO_TEXT *peer = malloc(strlen(inside) + 8);
	AUTO(outcome) outcome = { 0 };

	CHECK_FATAL(peer && !mkdir(inside, 0700));
	strcat(strcpy(peer, "far:"), inside);
	run(inside, peer, FAKE_SSH, false, &outcome);
	CHECK_EQUAL(outcome.status, 0);
	CHECK(strstr(outcome.out, "each map showed the published bytes") ||
	      strstr(outcome.out, "each map showed at once"));
	strcat(strcpy(peer, "[far]:"), inside);
	run(inside, peer, FAKE_SSH, false, &outcome);
	CHECK_EQUAL(outcome.status, 0);
	/* A folder of this machine, whose name looks like a host's. */
	strcpy(peer, "./far:x");
	run(inside, peer, FAKE_SSH, false, &outcome);
	CHECK_EQUAL(outcome.status, 2);
	CHECK(strstr(outcome.err, "'./far:x' does not show the file"));
	check_empty(inside);
}

static void test_refused(void)
{
	static const char *const usage[] = { ":/x", "-oProxyCommand=x:/x", "[]:/x", "host:" };
	AUTO_TEXT *folder = folder_make(), *other = folder_make();
	AUTO_TEXT *peer = malloc(strlen(other) + 8);
	AUTO(outcome) outcome = { 0 };
	size_t i;

	CHECK_FATAL(peer != NULL);
	for (i = 0; i < sizeof(usage) / sizeof(usage[0]); i++) {
		run(folder, usage[i], FAKE_SSH, false, &outcome);
		CHECK_EQUAL(outcome.status, 2);
		CHECK(strstr(outcome.err, "HOST:DIR"));
	}
	/* Another folder there, and none. */
	strcat(strcpy(peer, "far:"), other);
	run(folder, peer, FAKE_SSH, true, &outcome);
	CHECK_EQUAL(outcome.status, 2);
	CHECK(strstr(outcome.out, "does not show the file made in"));
	check_failure_json(&outcome, ENOENT);
	run(folder, "far:/nowhere", FAKE_SSH, false, &outcome);
	CHECK_EQUAL(outcome.status, 2);

	run(folder, "far:/x", "HETMAP_SSH=/nonexistent", true, &outcome);
	CHECK_EQUAL(outcome.status, 3);
	CHECK(strstr(outcome.out, "'/nonexistent' can't be run"));
	check_failure_json(&outcome, ENOENT);
	check_empty(folder);
}

/* ---- the other end ---- */

/* A server that is asked by hand touches only the test's own files. */
static void test_serve(void)
{
	static const char requests[] =
		"find ../x\nfind .hetmap-doctor-../x\nopen data\nlook 0\nopen .hetmap-doctor-a\n"
		"look 0\nlook 1\nlook 8192\npublish 4096 300\nlook 4096\nrefresh 0\nrefresh 1\n"
		"remove .hetmap-doctor-a\nfind .hetmap-doctor-b";
	static const char *const answers[] = {
		"hetmap-peer ", "error 22 ", "error 22 ", "error 22 ", "error 34 ",
		"ok",           "ok 0",      "error 34 ", "error 34 ", "ok",
		"ok 44",        "ok",        "error 34 ", "error 22 ", "error 2 ",
	};
	char *folder = folder_make(), *line, *rest;
	AUTO(outcome) outcome = { 0 };
	int pipes[2];
	size_t i;

	file_sparse(folder, ".hetmap-doctor-a", 8192);
	file_write(folder, "data", "data", 4);
	CHECK_FATAL(!pipe(pipes));
	CHECK_EQUAL(write(pipes[1], requests, strlen(requests)), strlen(requests));
	close(pipes[1]);
	CHECK_EQUAL(dup2(pipes[0], STDIN_FILENO), STDIN_FILENO);
	close(pipes[0]);
	CHECK_RUN(0, &outcome,
		  &(struct command){ .args = { "doctor", "--peer-serve", folder } });
	rest = outcome.out;
	for (i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		line = strsep(&rest, "\n");
		if (!line || strncmp(line, answers[i], strlen(answers[i])) != 0)
			test_fail(__FILE__, __LINE__, "answer %zu: '%s', not '%s'", i,
				  line ? line : "", answers[i]);
	}
	CHECK(rest && !*rest);
	CHECK_RUN(2, &outcome,
		  &(struct command){
			  .args = { "doctor", "--peer-serve", folder, "--path", folder } });
	folder_remove(folder);
}

static const struct test tests[] = {
	{ "hosts", test_hosts, 60, 0 },
	{ "quoted", test_quoted, 20, 0 },
	{ "refused", test_refused, 20, 0 },
	{ "serve", test_serve, 20, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "doctor_peer", tests)
