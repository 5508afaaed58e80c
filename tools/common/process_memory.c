// SPDX-License-Identifier: MIT
/* Memory of this process: the figures of /proc/self/status. */
#include "process_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct process_memory process_memory_now(void)
{
	struct process_memory now = { 0 };
	const struct {
		const char *name;
		uint64_t *value;
	} fields[] = {
		{ "VmHWM:", &now.peak },
		{ "RssFile:", &now.file },
		{ "RssAnon:", &now.anonymous },
		{ "RssShmem:", &now.shared },
	};
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];
	size_t i;

	while (file && fgets(line, sizeof(line), file))
		for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
			if (!strncmp(line, fields[i].name, strlen(fields[i].name)))
				*fields[i].value =
					strtoull(line + strlen(fields[i].name), NULL, 10) << 10;
	if (file)
		fclose(file);
	return now;
}

static void take_most(uint64_t *most, uint64_t now)
{
	if (now > *most)
		*most = now;
}

void process_memory_most(struct process_memory *most, const struct process_memory *now)
{
	take_most(&most->peak, now->peak);
	take_most(&most->file, now->file);
	take_most(&most->anonymous, now->anonymous);
	take_most(&most->shared, now->shared);
}

int process_memory_reset_peak(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC), r = 0;

	if (fd < 0 || write(fd, "5", 1) != 1)
		r = -errno;
	if (fd >= 0)
		close(fd);
	return r;
}

int64_t process_memory_beside(const struct process_memory *before,
			      const struct process_memory *most, uint64_t device)
{
	uint64_t there = before->file + before->anonymous + before->shared;
	uint64_t grown = most->shared > before->shared ? most->shared - before->shared : 0;

	return (int64_t)(most->peak - there - (grown < device ? grown : device));
}
