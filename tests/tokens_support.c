// SPDX-License-Identifier: MIT
/* Files of tokens that tests make, and batches of them. */
#include "tokens_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

char *tokens_file(const char *folder, const char *name, uint64_t first, uint64_t n)
{
	uint16_t *bytes = malloc(n * sizeof(*bytes) + 1);
	uint64_t i;

	CHECK_FATAL(bytes != NULL);
	for (i = 0; i < n; i++)
		bytes[i] = token_at(first + i);
	file_write(folder, name, (const char *)bytes, n * sizeof(*bytes));
	free(bytes);
	return folder_path(folder, name);
}

char *tokens_npy(const char *folder, const char *name, unsigned int version, const char *descr,
		 bool fortran, const char *shape, const void *bytes, size_t length)
{
	size_t head = version == 1 ? 10 : 12, size;
	char header[256], *file;
	int n;

	n = snprintf(header, sizeof(header),
		     "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n", descr,
		     fortran ? "True" : "False", shape);
	size = head + (size_t)n + length;
	file = calloc(1, size);
	CHECK_FATAL(file != NULL);
	memcpy(file, "\x93NUMPY", 6);
	file[6] = (char)version;
	file[8] = (char)n;
	memcpy(file + head, header, (size_t)n);
	memcpy(file + head + n, bytes, length);
	file_write(folder, name, file, size);
	free(file);
	return folder_path(folder, name);
}

struct hm_tokens *tokens_open(const char *path, const struct hm_tokens_desc *desc)
{
	struct hm_tokens *tokens;

	CHECK_OK_FATAL(hm_tokens_open(&path, 1, desc, &tokens));
	return tokens;
}

struct hm_tokens_info tokens_info(struct hm_tokens *tokens)
{
	struct hm_tokens_info info = { .struct_size = sizeof(info) };

	CHECK_OK_FATAL(hm_tokens_query(tokens, &info));
	return info;
}

int run_python(const char *program, const char *folder)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		if (!freopen("/dev/null", "w", stderr))
			_exit(127);
		execl("/usr/bin/python3", "python3", "-c", program, folder, NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 127;
}
