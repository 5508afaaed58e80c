// SPDX-License-Identifier: MIT
/* Runs the command `hetmap` of this build and keeps its output. */
#include "lib/command.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Output files of the one running command; -1: it writes elsewhere. */
static int kept[2] = { -1, -1 };

/*
 * FOLDER/tests/test_x is this program, FOLDER/hetmap the command. Found before a test has
 * namespaces of its own: in a chroot, the link says something else then.
 */
static char command_path[4096];

static __attribute__((constructor)) void find_command(void)
{
	ssize_t n = readlink("/proc/self/exe", command_path, sizeof(command_path) - 16);
	char *slash;
	int i;

	command_path[n > 0 ? n : 0] = '\0';
	for (i = 0; i < 2; i++) {
		slash = strrchr(command_path, '/');
		if (slash)
			*slash = '\0';
	}
	strcat(command_path, "/hetmap");
}

static int open_command(void)
{
	return open(command_path, O_RDONLY | O_CLOEXEC);
}

static void give(int fd, int kept_fd, int standard)
{
	if (fd < 0)
		close(standard);
	else
		dup2(fd ? fd : kept_fd, standard);
}

/* Where the kernel runs no programs of this one's kind, $HETMAP_EMULATOR does. */
static void emulate(char **argv)
{
	char *shell[COMMAND_ARGS_MAX + 5] = { "sh", "-c", "exec $HETMAP_EMULATOR \"$0\" \"$@\"",
					      command_path };
	int i;

	for (i = 1; argv[i]; i++)
		shell[i + 3] = argv[i];
	execv("/bin/sh", shell);
}

static void become(const struct command *command, int fd)
{
	char *argv[COMMAND_ARGS_MAX + 2] = { "hetmap" };
	struct rlimit limit = { command->limit, command->limit };
	int i;

	for (i = 0; command->args[i]; i++)
		argv[i + 1] = (char *)command->args[i];
#if TEST_ASAN || TEST_TSAN
	/* Drivers do not belong under sanitizers, unless a test brings one. */
	putenv("OCL_ICD_VENDORS=/nonexistent");
#endif
	for (i = 0; command->env[i]; i++)
		if (strchr(command->env[i], '='))
			putenv((char *)command->env[i]);
		else
			unsetenv(command->env[i]);
	give(command->out, kept[0], STDOUT_FILENO);
	give(command->err, kept[1], STDERR_FILENO);
	if (command->limit && setrlimit((__rlimit_resource_t)command->resource, &limit) < 0)
		_exit(125);
	if (command->uid && (setgid(command->uid) < 0 || setuid(command->uid) < 0))
		_exit(125);
	alarm(0);
	if (command->prepare)
		command->prepare();
	/* By descriptor: another user may not enter the folder it is in. */
	fexecve(fd, argv, environ);
	if (errno == ENOEXEC && getenv("HETMAP_EMULATOR"))
		emulate(argv);
	_exit(126);
}

static void install_filter(struct sock_filter *filter, unsigned short n)
{
	struct sock_fprog program = { n, filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(COMMAND_NO_FILTER);
}

void command_refuse_call(unsigned int call, unsigned int argument, unsigned int value,
			 int error)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 (unsigned int)offsetof(struct seccomp_data, args) + 8 * argument),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned int)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	install_filter(filter, sizeof(filter) / sizeof(filter[0]));
}

void command_refuse_writing(void)
{
	command_refuse_call(SYS_openat, 2, O_WRONLY | O_CLOEXEC, EACCES);
}

void command_refuse_perf(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	install_filter(filter, sizeof(filter) / sizeof(filter[0]));
}

pid_t command_start(const struct command *command)
{
	int fd = open_command();
	pid_t pid;

	CHECK_FATAL(fd >= 0);
	if (!command->out)
		kept[0] = memfd_create("stdout", MFD_CLOEXEC);
	if (!command->err)
		kept[1] = memfd_create("stderr", MFD_CLOEXEC);
	pid = fork();
	if (!pid)
		become(command, fd);
	close(fd);
	CHECK_FATAL(pid > 0);
	return pid;
}

static char *take(int *fd)
{
	struct stat st = { 0 };
	char *text;

	if (*fd >= 0)
		fstat(*fd, &st);
	text = calloc(1, (size_t)st.st_size + 1);
	CHECK_FATAL(text != NULL);
	if (*fd >= 0) {
		CHECK_EQUAL(pread(*fd, text, (size_t)st.st_size, 0), st.st_size);
		close(*fd);
	}
	*fd = -1;
	return text;
}

void command_wait(pid_t pid, struct outcome *ret_outcome)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	outcome_free(ret_outcome);
	ret_outcome->status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
	ret_outcome->out = take(&kept[0]);
	ret_outcome->err = take(&kept[1]);
}

static bool handles(pid_t pid, int sig)
{
	unsigned long long caught = 0;
	char path[64], line[256];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "SigCgt: %llx", &caught) == 1)
			break;
	if (file)
		fclose(file);
	return caught >> (sig - 1) & 1;
}

static bool maps(pid_t pid, const char *mapped)
{
	char path[64], line[4096];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	file = fopen(path, "re");
	while (file && !found && fgets(line, sizeof(line), file))
		found = strstr(line, mapped) != NULL;
	if (file)
		fclose(file);
	return found;
}

void command_await(pid_t pid, int sig, const char *path)
{
	int i;

	for (i = 0; i < 10000; i++) {
		if (handles(pid, sig) && (!path || maps(pid, path)))
			break;
		usleep(1000);
	}
	/* A sanitizer handles signals before the command does. */
	if (TEST_ASAN || TEST_TSAN)
		sleep(1);
	usleep(100000);
}

void command_run(const struct command *command, struct outcome *ret_outcome)
{
	command_wait(command_start(command), ret_outcome);
}

void outcome_free(struct outcome *outcome)
{
	free(outcome->out);
	free(outcome->err);
	outcome->out = outcome->err = NULL;
}

json_t *outcome_json(const struct outcome *outcome)
{
	json_error_t error;
	json_t *json = json_loads(outcome->out, JSON_REJECT_DUPLICATES, &error);

	if (!json)
		test_fail(__FILE__, __LINE__, "not JSON: %s in: %.200s (stderr: %.200s)",
			  error.text, outcome->out, outcome->err);
	return json;
}

json_t *command_json(const struct command *command, int expected)
{
	AUTO(outcome) outcome = { 0 };
	json_t *json;

	CHECK_RUN(expected, &outcome, command);
	if (outcome.status != expected)
		test_fail(__FILE__, __LINE__, "%s%s", outcome.out, outcome.err);
	json = outcome_json(&outcome);
	CHECK_FATAL(json != NULL);
	return json;
}

json_t *command_verified(const struct command *command)
{
	json_t *json = command_json(command, 0);

	CHECK(json_is_true(json_object_get(json, "verified")));
	return json;
}

double real_of(const json_t *json, const char *key)
{
	const json_t *value = json_object_get(json, key);

	CHECK(json_is_number(value));
	return json_number_value(value);
}

int64_t integer_of(const json_t *json, const char *key)
{
	const json_t *value = json_object_get(json, key);

	CHECK(json_is_integer(value));
	return json_integer_value(value);
}

const char *string_of(const json_t *json, const char *key)
{
	const char *text = json_string_value(json_object_get(json, key));

	CHECK(text != NULL);
	return text ? text : "";
}

void check_failure_json(const struct outcome *outcome, int expected_errno)
{
	json_t *json = outcome_json(outcome);

	if (!json)
		return;
	CHECK_EQUAL(json_object_size(json), 3);
	CHECK(json_is_string(json_object_get(json, "error")));
	CHECK_EQUAL(json_integer_value(json_object_get(json, "errno")), expected_errno);
	CHECK(json_is_string(json_object_get(json, "remedy")) ||
	      json_is_null(json_object_get(json, "remedy")));
	json_decref(json);
}

void check_lines(const char *text)
{
	size_t columns = 0;
	const char *at;

	for (at = text; *at; at++) {
		unsigned char c = (unsigned char)*at;

		if (c == '\n') {
			if (at > text && at[-1] == ' ')
				test_fail(__FILE__, __LINE__, "a line ends in a blank: %.90s",
					  at - (at - text < 80 ? at - text : 80));
			columns = 0;
			continue;
		}
		if (c < ' ' || c == 0x7f)
			test_fail(__FILE__, __LINE__, "control character 0x%02x", c);
		columns += (c & 0xc0) != 0x80;
		if (columns == 81)
			test_fail(__FILE__, __LINE__, "more than 80 columns: ...%.40s",
				  at - 40);
	}
}

/* ---- files ---- */

#define FOLDER "/var/tmp/hetmap-test-"

char *folder_make(void)
{
	char *folder = strdup(FOLDER "XXXXXX");

	CHECK_FATAL(folder != NULL && mkdtemp(folder) != NULL);
	/* Another user may look into it. */
	chmod(folder, 0755);
	return folder;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st;
	(void)kind;
	(void)where;
	return remove(path);
}

void folder_remove(char *folder)
{
	if (!folder)
		return;
	nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(folder);
}

void folder_auto(char *const *folder)
{
	folder_remove(*folder);
}

void text_auto(char *const *text)
{
	const size_t length = sizeof(FOLDER "XXXXXX") - 1;

	if (*text && !strncmp(*text, FOLDER, sizeof(FOLDER) - 1) && strlen(*text) == length)
		folder_remove(*text);
	else
		free(*text);
}

char *folder_path(const char *folder, const char *name)
{
	size_t size = strlen(folder) + strlen(name) + 2;
	char *path = malloc(size);

	CHECK_FATAL(path != NULL);
	snprintf(path, size, "%s/%s", folder, name);
	return path;
}

bool folder_mount(const char *what, const char *where, const char *type, unsigned long flags,
		  const char *options)
{
	/* In a chroot "/" is no mount: then it shows outside, too, until it is taken off. */
	if (!unshare(CLONE_NEWNS) &&
	    (!mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) || errno == EINVAL) &&
	    !mount(what, where, type, flags, options))
		return true;
	test_skip("kernel", "%s can't be mounted: %s", where, strerror(errno));
	return false;
}

static int create(const char *folder, const char *name)
{
	char *path = folder_path(folder, name);
	char *slash;
	int fd;

	for (slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0755);
		*slash = '/';
	}
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	free(path);
	CHECK_FATAL(fd >= 0);
	return fd;
}

void file_write(const char *folder, const char *name, const char *bytes, size_t length)
{
	int fd = create(folder, name);

	CHECK_EQUAL(write(fd, bytes, length), length);
	close(fd);
}

void file_sparse(const char *folder, const char *name, uint64_t size)
{
	int fd = create(folder, name);

	CHECK_EQUAL(ftruncate(fd, (off_t)size), 0);
	close(fd);
}

bool have_opencl(void)
{
	const struct command list = { .args = { "devices", "--json" } };
	AUTO(outcome) outcome = { 0 };
	json_t *json, *accel;
	bool found = false;
	size_t i;

	if (TEST_ASAN || TEST_TSAN) {
		test_skip("sanitizer", "OpenCL drivers are left out");
		return false;
	}
	command_run(&list, &outcome);
	json = outcome_json(&outcome);
	json_array_foreach(json_object_get(json, "accelerators"), i, accel) found |=
		!strncmp(json_string_value(json_object_get(accel, "name")), "opencl", 6);
	json_decref(json);
	if (!found)
		test_skip("opencl", "there is no OpenCL device");
	return found;
}
