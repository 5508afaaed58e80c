// SPDX-License-Identifier: MIT
/* For the tests of hetmap stat: commands that do a known amount of something. */
#include "perf/stat_support.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Not instrumented: a sanitizer's shadow pages would be counted, too. */
static __attribute__((no_sanitize_address, no_sanitize_thread)) void touch(size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), i;
	volatile char *at;
	long address;

	if (!n)
		return;
	address = syscall(SYS_mmap, NULL, n * page, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
	if (address == -1)
		_exit(70);
	at = (volatile char *)address;
	/* A huge page is one fault. Where there are none this is EINVAL. */
	syscall(SYS_madvise, at, n * page, MADV_NOHUGEPAGE);
	for (i = 0; i < n; i++)
		at[i * page] = 1;
}

static void step(const char *path, size_t n)
{
	struct stat st;
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0 || write(fd, "x", 1) != 1)
		_exit(70);
	touch((size_t)st.st_size * n);
}

static void have_children(size_t n, size_t pages)
{
	while (n--) {
		pid_t pid = fork();

		if (pid < 0)
			_exit(70);
		if (!pid) {
			touch(pages);
			_exit(0);
		}
		while (waitpid(pid, NULL, 0) < 0)
			if (errno != EINTR)
				_exit(70);
	}
}

static void read_absent(const char *path)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), absent = 0, n, i;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	unsigned char *resident;
	volatile char *at;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		_exit(70);
	fsync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	n = (size_t)st.st_size / page;
	at = mmap(NULL, n * page, PROT_READ, MAP_SHARED, fd, 0);
	resident = calloc(1, n);
	if (at == MAP_FAILED || !resident || madvise((void *)at, n * page, MADV_RANDOM))
		_exit(70);
	/* One by one: reading one page may bring in further ones. */
	for (i = 0; i < n; i++) {
		if (mincore((void *)(at + i * page), page, resident))
			_exit(70);
		absent += !(*resident & 1);
		(void)at[i * page];
	}
	printf("%zu\n", absent);
	free(resident);
}

/* The lines of /proc/self/status on signals, and which descriptors below 64 are open. */
static void print_surroundings(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];
	int fd, own;

	if (!file)
		_exit(70);
	own = fileno(file);
	while (fgets(line, sizeof(line), file))
		/* "SigQ" tells of the whole user. */
		if (!strncmp(line, "Sig", 3) && line[3] != 'Q')
			fputs(line, stdout);
	for (fd = 0; fd < 64; fd++)
		if (fd != own && fcntl(fd, F_GETFD) >= 0)
			printf("fd %d\n", fd);
	fclose(file);
}

void stat_act(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[2] : "";
	const char *arg = argc > 3 ? argv[3] : "";
	const char *further = argc > 4 ? argv[4] : "";

	if (argc < 2 || strcmp(argv[1], "--act") != 0)
		return;
	if (!strcmp(what, "touch"))
		touch(strtoul(arg, NULL, 10));
	else if (!strcmp(what, "step"))
		step(arg, strtoul(further, NULL, 10));
	else if (!strcmp(what, "fork"))
		have_children(strtoul(arg, NULL, 10), strtoul(further, NULL, 10));
	else if (!strcmp(what, "major"))
		read_absent(arg);
	else if (!strcmp(what, "kill"))
		raise((int)strtol(arg, NULL, 10));
	else if (!strcmp(what, "ignored"))
		print_surroundings();
	else if (!strcmp(what, "close")) {
		closefrom(0);
		_exit(7);
	}
	fflush(stdout);
	/* Skips the reports of a sanitizer or of the harness at exit. */
	_exit(0);
}

const char *stat_self(void)
{
	static char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	CHECK_FATAL(n > 0);
	path[n] = '\0';
	return path;
}

char *stat_copy(const char *folder, unsigned int mode)
{
	char *path = folder_path(folder, "copy");
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	struct stat st;

	CHECK_FATAL(from >= 0 && to >= 0 && fstat(from, &st) == 0);
	while (lseek(from, 0, SEEK_CUR) < st.st_size)
		CHECK_FATAL(sendfile(to, from, NULL, (size_t)st.st_size) > 0);
	CHECK_EQUAL(fchmod(to, mode), 0);
	close(from);
	close(to);
	return path;
}

json_t *stat_json(const struct command *command, int status)
{
	struct command stat = *command;
	AUTO(outcome) outcome = { 0 };
	json_error_t error;
	json_t *json;
	int i;

	stat.args[0] = "stat";
	stat.args[1] = "--json";
	for (i = 0; command->args[i]; i++)
		stat.args[i + 2] = command->args[i];
	stat.args[i + 2] = NULL;
	CHECK_RUN(status, &outcome, &stat);
	json = json_loads(outcome.err, JSON_REJECT_DUPLICATES, &error);
	if (!json)
		test_fail(__FILE__, __LINE__, "not JSON: %s in: %.200s (stdout: %.200s)",
			  error.text, outcome.err, outcome.out);
	if (!json)
		test_abandon();
	return json;
}

static const json_t *metric_of(const json_t *report, const char *metric)
{
	return json_object_get(json_object_get(report, "metrics"), metric);
}

double stat_mean(const json_t *report, const char *metric)
{
	return real_of(metric_of(report, metric), "mean");
}

const char *stat_text(const json_t *report, const char *metric, const char *key)
{
	const char *text = json_string_value(json_object_get(metric_of(report, metric), key));

	return text ? text : "";
}

void stat_check_told(const json_t *report, const char *metric)
{
	const json_t *object = metric_of(report, metric);
	bool counted = json_object_get(object, "mean") != NULL;

	if (!object || (!counted && !*stat_text(report, metric, "not_counted")))
		test_fail(__FILE__, __LINE__, "%s has neither a figure nor a reason", metric);
	if (counted)
		CHECK(*stat_text(report, metric, "source"));
}

bool stat_ask_perf(const char *const act[], double ret_counts[2])
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "perf");
	char *args[16] = { "perf",
			   "stat",
			   "-x,",
			   "-o",
			   path,
			   "-e",
			   "minor-faults,major-faults",
			   "--",
			   (char *)(uintptr_t)stat_self(),
			   "--act" };
	int status, n = 0, i;
	char line[512];
	FILE *file;
	pid_t pid;

	for (i = 0; act[i]; i++)
		args[10 + i] = (char *)(uintptr_t)act[i];
	pid = fork();
	if (!pid) {
		execvp("perf", args);
		_exit(127);
	}
	CHECK_FATAL(pid > 0 && waitpid(pid, &status, 0) == pid);
	file = status ? NULL : fopen(path, "re");
	while (file && n < 2 && fgets(line, sizeof(line), file))
		if (sscanf(line, "%lf,", &ret_counts[n]) == 1)
			n++;
	if (file)
		fclose(file);
	if (n < 2)
		test_skip("perf", "perf stat is not installed, or may not count here");
	return n == 2;
}
