// SPDX-License-Identifier: MIT
/*
 * hetmap explain: it says the right sentences of memory whose state is known, and none of healthy
 * memory. This program also runs the programs of watched.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <linux/magic.h>
#include <unistd.h>

#include "lib/command.h"
#include "perf/watched.h"

struct question {
	struct watched *of;
	const char *what; /* NULL: the address that it told, and @offset */
	uint64_t offset;
	const char *more; /* a further option */
	const char *root; /* HETMAP_ROOT */
};

static void ask(const struct question *question, bool json, struct outcome *ret_outcome)
{
	char pid[16], address[32], root[4096];
	struct command command = { .args = { "explain", "-p", pid, address } };
	int n = 4;

	snprintf(pid, sizeof(pid), "%d", (int)question->of->pid);
	snprintf(address, sizeof(address), "0x%" PRIx64,
		 question->of->address + question->offset);
	if (question->what)
		command.args[3] = question->what;
	if (json)
		command.args[n++] = "--json";
	if (question->more)
		command.args[n++] = question->more;
	if (question->root) {
		snprintf(root, sizeof(root), "HETMAP_ROOT=%s", question->root);
		command.env[0] = root;
	}
	command_run(&command, ret_outcome);
}

/* The answer's only subject; json_decref(*ret_json). */
static json_t *answer(const struct question *question, json_t **ret_json)
{
	AUTO(outcome) outcome = { 0 };
	json_t *subject;

	ask(question, true, &outcome);
	if (outcome.status)
		test_fail(__FILE__, __LINE__, "status %d: %s", outcome.status, outcome.out);
	*ret_json = outcome_json(&outcome);
	CHECK_FATAL(*ret_json != NULL);
	subject = json_array_get(json_object_get(*ret_json, "subjects"), 0);
	CHECK_FATAL(subject != NULL);
	return subject;
}

/* @key of the finding; "": it is none of them. */
static const char *finding_has(const json_t *subject, const char *kind, const char *key)
{
	json_t *one;
	size_t i;

	json_array_foreach(json_object_get(subject, "findings"), i, one)
	{
		if (!strcmp(string_of(one, "kind"), kind))
			return string_of(one, key);
	}
	return "";
}

static const char *finding(const json_t *subject, const char *kind)
{
	return finding_has(subject, kind, "text");
}

static void check_says(const json_t *subject, const char *kind, const char *says)
{
	const char *text = finding(subject, kind);

	if (!strstr(text, says))
		test_fail(__FILE__, __LINE__, "%s: '%s' is not in: '%s'", kind, says, text);
}

static void check_silent(const json_t *subject)
{
	json_t *one = json_array_get(json_object_get(subject, "findings"), 0);

	if (one)
		test_fail(__FILE__, __LINE__, "it finds: %s", string_of(one, "text"));
}

/* ---- buffers ---- */

static void test_healthy(void)
{
	AUTO(watched) watched = watched_start("buffers", NULL);
	const struct question question = { .of = &watched, .what = "whole" };
	AUTO(outcome) outcome = { 0 };
	json_t *json, *subject = answer(&question, &json);

	check_silent(subject);
	CHECK(!strcmp(string_of(subject, "device"), "host"));
	CHECK_EQUAL(integer_of(subject, "resident"), 16 * WATCHED_PAGE);
	CHECK_EQUAL(integer_of(subject, "page_size"), WATCHED_PAGE);
	CHECK(*string_of(subject, "looked_at"));
	json_decref(json);
	ask(&question, false, &outcome);
	CHECK_EQUAL(outcome.status, 0);
	check_lines(outcome.out);
	CHECK(strstr(outcome.out, "no cause of slow accesses was found. Looked at: ") != NULL);
	CHECK(strstr(outcome.out, "\nbuffer whole on host\n") != NULL);
}

static void test_absent(void)
{
	AUTO(watched) watched = watched_start("buffers", NULL);
	const struct question several = { .of = &watched, .what = "half" };
	const struct question all = { .of = &watched, .what = "half", .more = "--all" };
	AUTO(outcome) outcome = { 0 };
	json_t *json, *subject;

	/* The program has two maps of that name. */
	ask(&several, false, &outcome);
	CHECK_EQUAL(outcome.status, 2);
	CHECK(strstr(outcome.err, "has 2 maps of the name 'half'") != NULL);
	CHECK(strstr(outcome.err, "--all: 0x") != NULL);
	subject = answer(&all, &json);
	CHECK_EQUAL(json_array_size(json_object_get(json, "subjects")), 2);
	check_says(subject, "not_resident", "64 KiB of it (50 %) are not resident");
	check_says(subject, "not_resident", "about 16 faults, one of which costs ");
	check_says(subject, "not_resident", " here, measured on private memory");
	json_decref(json);
}

static void test_locked(void)
{
	AUTO(watched) watched = watched_start("buffers", NULL);
	struct question question = { .of = &watched, .what = "locked" };
	json_t *json, *subject = answer(&question, &json);

	CHECK_EQUAL(integer_of(subject, "locked"), 8 * WATCHED_PAGE);
	CHECK(!*finding(subject, "not_resident") && !*finding(subject, "swap"));
	check_says(subject, "brackets", "1 bracket of CPU access is open");
	CHECK_EQUAL(integer_of(subject, "open_brackets"), 1);
	json_decref(json);

	question.what = "busy";
	subject = answer(&question, &json);
	check_says(subject, "in_flight", "work that uses it is in flight (1 launches");
	json_decref(json);
}

/* An address: in a buffer, and where in it; in none, and nowhere. */
static void test_address(void)
{
	AUTO(watched) watched = watched_start("buffers", NULL);
	struct question question = { .of = &watched, .offset = 5 * WATCHED_PAGE + 7 };
	struct watched nowhere = watched;
	AUTO(outcome) outcome = { 0 };
	json_t *json, *subject = answer(&question, &json);

	CHECK(!strcmp(string_of(subject, "buffer"), "whole"));
	CHECK_EQUAL(integer_of(subject, "offset"), 5 * WATCHED_PAGE + 7);
	json_decref(json);
	ask(&question, false, &outcome);
	CHECK(strstr(outcome.out, " is byte 20487 of buffer whole on host\n") != NULL);
	CHECK(strstr(outcome.out, ", the address' page too") != NULL);

	nowhere.address = 0;
	question = (struct question){ .of = &nowhere, .offset = WATCHED_PAGE };
	ask(&question, false, &outcome);
	CHECK_EQUAL(outcome.status, 2);
	CHECK(strstr(outcome.err, "nothing is mapped at 0x1000 in process ") != NULL);
}

static void test_evicted(void)
{
	AUTO(watched) watched = watched_start("evicted", NULL);
	const struct question goes = { .of = &watched, .what = "goes" };
	const struct question stays = { .of = &watched, .what = "stays" };
	json_t *json, *subject = answer(&goes, &json);

	check_says(subject, "evictions", "evictions of it by soft:0, for lack of memory: ");
	json_decref(json);
	subject = answer(&stays, &json);
	CHECK(!strcmp(finding(subject, "evictions"), ""));
	json_decref(json);
}

static void test_lost(void)
{
	AUTO(watched) watched = watched_start("lost", NULL);
	const struct question question = { .of = &watched, .what = "gone" };
	json_t *json, *subject = answer(&question, &json);

	check_says(subject, "lost", "the map is lost, in generation 1");
	CHECK(json_is_true(json_object_get(subject, "lost")));
	json_decref(json);
}

/* ---- any process ---- */

static void test_plain(void)
{
	AUTO(watched) watched = watched_start("plain", NULL);
	struct question question = { .of = &watched };
	AUTO(outcome) outcome = { 0 };
	json_t *json, *subject = answer(&question, &json);

	CHECK(json_is_false(json_object_get(json, "table")));
	CHECK_EQUAL(integer_of(subject, "length"), 4 * WATCHED_PAGE);
	check_says(subject, "not_resident", "12 KiB of it (75 %) are not resident: about 3 ");
	json_decref(json);
	ask(&question, false, &outcome);
	CHECK(strstr(outcome.out, ", which publishes no table of maps\n") != NULL);
	CHECK(strstr(outcome.out, "of no published table") != NULL);
	check_lines(outcome.out);
	/* Before it there is a page without access. */
	question.offset = -WATCHED_PAGE;
	subject = answer(&question, &json);
	check_says(subject, "no_access", "its rights are ---p: an access is a SIGSEGV");
	json_decref(json);
	question.what = "no such buffer";
	ask(&question, false, &outcome);
	CHECK_EQUAL(outcome.status, 2);
	CHECK(strstr(outcome.err, "has no file 'no such buffer' mapped, and publishes no "
				  "table") != NULL);
}

/* Why it has no huge pages: the first cause found, with settings from a folder. */
static void test_huge_pages(void)
{
	struct watched watched = watched_start("one_large", NULL);
	AUTO_TEXT *folder = folder_make();
	struct question question = { .of = &watched, .root = folder };
	json_t *json, *subject;

	file_write(folder, "sys/kernel/mm/transparent_hugepage/enabled",
		   "always [madvise] never\n", 23);
	subject = answer(&question, &json);
	check_says(subject, "no_huge_pages",
		   "it has pages of 4 KiB, as MADV_NOHUGEPAGE is set on it");
	json_decref(json);
	watched_end(&watched);

	watched = watched_start("large_untouched", NULL);
	question.of = &watched;
	subject = answer(&question, &json);
	check_says(
		subject, "no_huge_pages",
		"transparent_hugepage/enabled is madvise, and no madvise() asked for them here");
	json_decref(json);
	file_write(folder, "sys/kernel/mm/transparent_hugepage/enabled",
		   "always madvise [never]\n", 23);
	subject = answer(&question, &json);
	check_says(subject, "no_huge_pages",
		   "/sys/kernel/mm/transparent_hugepage/enabled is never");
	json_decref(json);
	watched_end(&watched);
}

/* A pool of huge pages is advised only where the device can have buffers in it. */
static void test_huge_pages_shared(void)
{
	static const char *const names[] = { "on_host", "on_soft" };
	AUTO(watched) watched = watched_start("large", NULL);
	AUTO_TEXT *folder = folder_make();
	struct question question = { .of = &watched, .root = folder };
	json_t *json, *subject;
	const char *remedy;
	int i;

	file_write(folder, "sys/kernel/mm/transparent_hugepage/shmem_enabled",
		   "always within_size advise [never] deny force\n", 45);
	for (i = 0; i < 2; i++) {
		question.what = names[i];
		subject = answer(&question, &json);
		remedy = finding_has(subject, "no_huge_pages", "remedy");
		CHECK(strstr(remedy, "transparent_hugepage/shmem_enabled"));
		CHECK_EQUAL(strstr(remedy, "HM_BUFFER_HUGETLB") != NULL, i == 0);
		json_decref(json);
	}
}

/* A file of @pages pages under @folder, looked at as another program maps it. */
static json_t *of_file(const char *folder, const char *root, json_t **ret_json)
{
	AUTO_TEXT *path = folder_path(folder, "data");
	AUTO(watched) watched = watched_start("file", path);
	const struct question question = { .of = &watched, .what = "data", .root = root };

	return answer(&question, ret_json);
}

static void test_tmpfs(void)
{
	char folder[] = "/dev/shm/explain-XXXXXX";
	static char bytes[16 * WATCHED_PAGE];
	struct statfs fs;
	json_t *json, *subject;

	if (statfs("/dev/shm", &fs) || fs.f_type != TMPFS_MAGIC || !mkdtemp(folder)) {
		test_skip("kernel", "no tmpfs at /dev/shm");
		return;
	}
	file_write(folder, "data", bytes, sizeof(bytes));
	subject = of_file(folder, NULL, &json);
	CHECK(!strcmp(string_of(subject, "memory"), "shared memory"));
	CHECK(!strcmp(string_of(subject, "file_system"), "tmpfs"));
	CHECK(json_is_null(json_object_get(subject, "cached")));
	check_silent(subject);
	json_decref(json);
	folder_remove(strdup(folder));
}

/* A chroot into a folder shows no mount that the folder is on. */
static bool mount_is_shown(const char *path)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	unsigned int major, minor;
	char line[4096], point[1024];
	bool shown = false;
	struct stat st;

	CHECK_FATAL(mounts && !stat(path, &st));
	while (!shown && fgets(line, sizeof(line), mounts))
		shown = sscanf(line, "%*u %*u %u:%u %*s %1023s", &major, &minor, point) == 3 &&
			((major == major(st.st_dev) && minor == minor(st.st_dev)) ||
			 !strncmp(path, point, strlen(point)));
	fclose(mounts);
	return shown;
}

/* On storage: pages dropped from memory have to be read again. */
static void test_file(void)
{
	static char bytes[64 * WATCHED_PAGE];
	AUTO_TEXT *folder = folder_make(), *path = NULL;
	struct statfs fs;
	json_t *json, *subject;

	CHECK_FATAL(!statfs(folder, &fs));
	if (fs.f_type == TMPFS_MAGIC) {
		test_skip("kernel", "%s is in memory", folder);
		return;
	}
	memset(bytes, 1, sizeof(bytes));
	file_write(folder, "data", bytes, sizeof(bytes));
	path = folder_path(folder, "data");
	subject = of_file(folder, NULL, &json);
	CHECK(!strcmp(string_of(subject, "memory"), "file"));
	if (mount_is_shown(folder))
		CHECK(*string_of(subject, "file_system"));
	else
		CHECK(json_is_null(json_object_get(subject, "file_system")));
	CHECK_EQUAL(integer_of(subject, "cached"), sizeof(bytes));
	CHECK(!*finding(subject, "not_cached") && !*finding(subject, "not_resident"));
	json_decref(json);
}

/* Addresses behind the file's end are neither read nor brought in earlier. */
static void test_behind_the_end(void)
{
	static char bytes[64 * WATCHED_PAGE - 100];
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "data");
	struct watched watched;
	struct question question = { .of = &watched, .what = "data" };
	struct statfs fs;
	json_t *json, *subject;

	CHECK_FATAL(!statfs(folder, &fs));
	if (fs.f_type == TMPFS_MAGIC) {
		test_skip("kernel", "%s is in memory", folder);
		return;
	}
	memset(bytes, 1, sizeof(bytes));
	file_write(folder, "data", bytes, sizeof(bytes));
	watched = watched_start("file_beyond", path);
	subject = answer(&question, &json);
	check_says(subject, "behind_end", "768 KiB of it are behind the file's end");
	check_says(subject, "behind_end", "SIGBUS");
	CHECK(!strstr(finding(subject, "behind_end"), "the address"));
	CHECK_EQUAL(integer_of(subject, "behind_end"), 192 * WATCHED_PAGE);
	CHECK(!*finding(subject, "not_cached") && !*finding(subject, "not_resident"));
	json_decref(json);
	question.what = NULL;
	question.offset = 64 * WATCHED_PAGE;
	subject = answer(&question, &json);
	check_says(subject, "behind_end", ", and the address is there");
	json_decref(json);
	/* Nothing of it is left. */
	CHECK_OK(truncate(path, 0));
	question.what = "data";
	subject = answer(&question, &json);
	check_says(subject, "behind_end", "1 MiB of it are behind the file's end");
	CHECK(!*finding(subject, "not_cached") && !*finding(subject, "not_resident"));
	json_decref(json);
	watched_end(&watched);
}

/* ---- questions without an answer ---- */

static void check_refused(const char *const args[6], int status, const char *says)
{
	struct command command = { .args = { "explain" } };
	AUTO(outcome) outcome = { 0 };
	int i;

	for (i = 0; i < 6 && args[i]; i++)
		command.args[1 + i] = args[i];
	CHECK_RUN(status, &outcome, &command);
	CHECK_HAS(outcome.err, says);
}

static void test_bad_input(void)
{
	AUTO(watched) watched = watched_start("buffers", NULL);
	AUTO(watched) broken = watched_start("broken", NULL);
	char pid[16];
	struct command command = { .args = { "explain", "--json", "-p", pid, "whole" } };
	AUTO(outcome) outcome = { 0 };

	check_refused((const char *const[6]){ "-p", "1" }, 2, "no address or buffer was named");
	check_refused((const char *const[6]){ "weights" }, 2, "no process was named");
	check_refused((const char *const[6]){ "-p", "x", "weights" }, 2, "--pid: not valid");
	check_refused((const char *const[6]){ "-p", "2147483647", "weights" }, 3,
		      "there is no process 2147483647");
	snprintf(pid, sizeof(pid), "%d", (int)watched.pid);
	check_refused((const char *const[6]){ "-p", pid, "a", "b" }, 2, "not two");
	check_refused((const char *const[6]){ "-p", pid, "whale" }, 2,
		      "has no buffer or file 'whale' mapped\n        there are ");
	/* No address, for all its looks. */
	check_refused((const char *const[6]){ "-p", pid, "0xnone" }, 2, "'0xnone'");
	check_refused((const char *const[6]){ "-p", pid, "0x10000000000000000" }, 2, "mapped");
	if (!geteuid()) {
		command.uid = 65534;
		CHECK_RUN(3, &outcome, &command);
		check_failure_json(&outcome, EACCES);
	}
	/* A table that makes no sense is as good as none. */
	snprintf(pid, sizeof(pid), "%d", (int)broken.pid);
	check_refused((const char *const[6]){ "-p", pid, "whole" }, 2,
		      "a table that makes no sense");
}

static const struct test tests[] = {
	{ "healthy", test_healthy, 60, TEST_ONCE },
	{ "absent", test_absent, 60, TEST_ONCE },
	{ "locked", test_locked, 60, TEST_ONCE },
	{ "address", test_address, 60, TEST_ONCE },
	{ "evicted", test_evicted, 60, TEST_ONCE },
	{ "lost", test_lost, 60, TEST_ONCE },
	{ "plain", test_plain, 60, TEST_ONCE },
	{ "huge_pages", test_huge_pages, 60, TEST_ONCE },
	{ "huge_pages_shared", test_huge_pages_shared, 60, TEST_ONCE },
	{ "tmpfs", test_tmpfs, 60, TEST_ONCE },
	{ "file", test_file, 60, TEST_ONCE },
	{ "behind_the_end", test_behind_the_end, 60, TEST_ONCE },
	{ "bad_input", test_bad_input, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	watched_act(argc, argv);
	return harness_main(argc, argv, "command_explain", tests);
}
