// SPDX-License-Identifier: MIT
/* Files that the peers' tools write, by Python programs. */
#include "lib/python_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/harness.h"

/* Its exit status; 127: it could not be started. Its errors go to @errors. */
static int run_python(const char *python, const char *program, const char *folder, int errors)
{
	int status = 0;
	pid_t pid = fork();

	CHECK_FATAL(pid >= 0);
	if (!pid) {
		if (dup2(errors, STDERR_FILENO) < 0)
			_exit(127);
		execl(python, python, "-c", program, folder, NULL);
		_exit(127);
	}
	CHECK_FATAL(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The last line of its errors, which has an exception's name. */
static const char *last_line(int errors, char text[300])
{
	off_t end = lseek(errors, 0, SEEK_END), begin = end < 299 ? 0 : end - 299;
	ssize_t n = pread(errors, text, 299, begin);
	const char *line;

	while (n > 0 && text[n - 1] == '\n')
		n--;
	text[n > 0 ? n : 0] = '\0';
	line = strrchr(text, '\n');
	return line ? line + 1 : text;
}

enum writing { WROTE, NO_PACKAGE, FAILED };

/* A program that fails has not failed for want of the package where that can be imported. */
static enum writing wrote(const char *python, const char *package, const char *program,
			  const char *folder)
{
	int errors = memfd_create("errors", MFD_CLOEXEC), status;
	enum writing outcome = WROTE;
	char text[300], probe[64];

	CHECK_FATAL(errors >= 0);
	status = run_python(python, program, folder, errors);
	if (status) {
		snprintf(probe, sizeof(probe), "import %s", package);
		outcome = run_python(python, probe, folder, errors) ? NO_PACKAGE : FAILED;
	}
	if (outcome == FAILED)
		test_fail(__FILE__, __LINE__, "%s with %s ended with %d: %s", python, package,
			  status, last_line(errors, text));
	close(errors);
	return outcome;
}

bool numpy_wrote(const char *program, const char *folder)
{
	enum writing outcome = wrote("/usr/bin/python3", "numpy", program, folder);

	if (outcome == NO_PACKAGE)
		test_skip("numpy",
			  "numpy is not installed (Debian: apt-get install python3-numpy)");
	return outcome == WROTE;
}

/* In the user's cache; in a machine, where HOME is another, HETMAP_TEST_CACHE tells of it. */
bool safetensors_wrote(const char *program, const char *folder)
{
	const char *told = getenv("HETMAP_TEST_CACHE"), *cache = getenv("XDG_CACHE_HOME");
	const char *home = getenv("HOME");
	enum writing outcome;
	char python[512];

	if (told && *told)
		snprintf(python, sizeof(python), "%s", told);
	else if (cache && *cache)
		snprintf(python, sizeof(python), "%s/hetmap", cache);
	else
		snprintf(python, sizeof(python), "%s/.cache/hetmap", home ? home : "/root");
	strncat(python, "/safetensors-0.8.0/bin/python", sizeof(python) - strlen(python) - 1);
	outcome = wrote(python, "safetensors", program, folder);
	if (outcome == NO_PACKAGE)
		test_skip("network", "no safetensors package, which "
				     "tests/format/test_safetensors_peer.sh gets from PyPI");
	return outcome == WROTE;
}
