// SPDX-License-Identifier: MIT
/*
 * The caller's environment in a program with more rights than its caller. A copy of this program
 * that is set-user-ID does the same whatever a variable says, loads no library and writes no file
 * that the environment names. The copy without the bit obeys each variable.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hetmap/hetmap.h>

#include "lib/harness.h"

#define NOBODY 65534
#define REPORT "--report"

/* ---- the copy: it prints its results ---- */

static unsigned int entries_of(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	unsigned int n = 0;

	while (dir && (entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return n;
}

static bool has_library(const char *name)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	bool found = false;
	char line[4352];

	while (maps && fgets(line, sizeof(line), maps))
		found |= strstr(line, name) != NULL;
	if (maps)
		fclose(maps);
	return found;
}

/* @device: "" for NULL. Its own objects are dropped by its end. */
static void report(const char *device, const char *folder)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	struct hm_accel *accel = NULL;
	struct hm_device *opened = NULL;
	char *bytes = NULL;
	int opens, accelerates;

	opens = hm_device_open(*device ? device : NULL, &opened);
	if (!opens && (hm_device_query(opened, &info) ||
		       hm_alloc(opened, 4096, HM_READ | HM_WRITE, &bytes)))
		opens = -EIO;
	accelerates = hm_accel_open("opencl:0", NULL, &accel);
	printf("%d %s %d %u %s", opens, info.name, accelerates, entries_of(folder),
	       has_library("stub_icd.so") ? "stub" : "-");
	fflush(stdout);
	_exit(0);
}

/* ---- the test ---- */

static char folder[4096], copy[4096], stub[4096];

static void make_copy(mode_t mode)
{
	char buffer[65536];
	int from, to;
	ssize_t n;

	from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	to = open(copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	CHECK_FATAL(from >= 0 && to >= 0);
	while ((n = read(from, buffer, sizeof(buffer))) > 0)
		CHECK_FATAL(write(to, buffer, (size_t)n) == n);
	CHECK_FATAL(!n);
	/* The owner first: a change of it takes the bit away. */
	CHECK_FATAL(!fchown(to, mode & S_ISUID ? NOBODY : 0, 0));
	CHECK_FATAL(!fchmod(to, mode));
	close(from);
	close(to);
}

/* The output of the copy with @variable ("NAME=value", or NULL). */
static void run_copy(const char *variable, const char *device, char *text, size_t size)
{
	int out[2], status;
	size_t n = 0;
	ssize_t got;
	pid_t pid;

	CHECK_FATAL(!pipe2(out, O_CLOEXEC));
	pid = fork();
	if (!pid) {
		char *args[] = { copy, REPORT, (char *)device, folder, NULL };
		char *env[] = { "PATH=/usr/bin:/bin", (char *)variable, NULL };

		dup2(out[1], 1);
		execve(copy, args, env);
		_exit(127);
	}
	close(out[1]);
	while ((got = read(out[0], text + n, size - 1 - n)) > 0)
		n += (size_t)got;
	text[n] = '\0';
	close(out[0]);
	CHECK_FATAL(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
}

/* The values that name a file or a library get it behind them. */
static const struct {
	const char *variable, *device, *more;
} cases[] = {
	{ "HETMAP_CHECK=2", "host", NULL },         { "HETMAP_RETIRE=x", "host", NULL },
	{ "HETMAP_SOFT=x=1", "soft:0", NULL },      { "HETMAP_DEVICE=soft:0", "", NULL },
	{ "HETMAP_OPENCL_QUIRKS=x", "host", NULL }, { "HETMAP_TRACE=", "host", folder },
	{ "HETMAP_PUBLISH=", "host", folder },      { "OCL_ICD_VENDORS=", "host", stub },
};

/* Nothing but the files of one run is in the folder, and it ends empty. */
static void empty_folder(void)
{
	char path[8192];
	struct dirent *entry;
	DIR *dir = opendir(folder);

	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		if (entry->d_name[0] != '.')
			unlink(path);
	}
	if (dir)
		closedir(dir);
}

static void compare(mode_t mode, bool obeys)
{
	char plain[1024], with[1024], variable[8192];
	size_t i;

	make_copy(mode);
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		run_copy(NULL, cases[i].device, plain, sizeof(plain));
		/* A value that is a path of a file: a trace; a published table takes the folder. */
		snprintf(variable, sizeof(variable), "%s%s%s", cases[i].variable,
			 cases[i].more ? cases[i].more : "",
			 strstr(cases[i].variable, "TRACE") ? "/trace" : "");
		run_copy(variable, cases[i].device, with, sizeof(with));
		if (!strcmp(plain, with) == obeys)
			test_fail(__FILE__, __LINE__, "%s: \"%s\", and \"%s\" without it",
				  variable, with, plain);
		empty_folder();
	}
	unlink(copy);
}

static void ignored_where_foreign(void)
{
	ssize_t n = readlink("/proc/self/exe", folder, sizeof(folder) - 64);
	struct statvfs system;
	char *slash;

	CHECK_FATAL(n > 0);
	folder[n] = '\0';
	slash = strrchr(folder, '/');
	*slash = '\0';
	CHECK_FATAL(!statvfs(folder, &system));
	if (geteuid() || getuid() || (system.f_flag & ST_NOSUID)) {
		test_skip("kernel",
			  "set-user-ID programs need root, and a file system without "
			  "nosuid: %s",
			  folder);
		return;
	}
	snprintf(stub, sizeof(stub), "%.*s/stub_icd.so", 4000, folder);
	strcpy(slash, "/env-XXXXXX");
	CHECK_FATAL(mkdtemp(folder) != NULL);
	CHECK_FATAL(!chmod(folder, 0777));
	snprintf(copy, sizeof(copy), "%.*s.copy", 4000, folder);
	compare(04755, false);
	compare(0755, true);
	CHECK(!rmdir(folder));
}

static const struct test tests[] = {
	{ "ignored_where_foreign", ignored_where_foreign, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], REPORT))
		report(argv[2], argv[3]);
	return harness_main(argc, argv, "env", tests);
}
