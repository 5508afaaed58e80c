// SPDX-License-Identifier: MIT
/* Small files of /proc and /sys, read at once. */
#include "base/proc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"

bool proc_read(const char *path, char *text, size_t size)
{
	int fd = sys_open(path, O_RDONLY, 0);
	ssize_t length;

	if (fd < 0)
		return false;
	length = sys_read(fd, text, size - 1);
	sys_close(fd);
	if (length <= 0)
		return false;
	text[length] = '\0';
	return true;
}

bool proc_number(const char *path, uint64_t *ret_number)
{
	char text[32], *end;
	uint64_t number;

	if (!proc_read(path, text, sizeof(text)))
		return false;
	number = strtoull(text, &end, 10);
	if (end == text)
		return false;
	*ret_number = number;
	return true;
}

bool proc_fdinfo(int fd, const char *key, char *value, size_t size)
{
	char path[40], text[1024];
	const char *at;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	if (!proc_read(path, text, sizeof(text)))
		return false;
	for (at = text; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (strncmp(at, key, strlen(key)) != 0)
			continue;
		at += strlen(key);
		snprintf(value, size, "%.*s", (int)strcspn(at, "\n"), at);
		return true;
	}
	return false;
}
