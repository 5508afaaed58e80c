// SPDX-License-Identifier: MIT
/* How much of a processor a test has beside other work. */
#include "lib/processor_share.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

double processor_share(void)
{
	long n_cpu = sysconf(_SC_NPROCESSORS_ONLN);
	FILE *file = fopen("/proc/loadavg", "re");
	unsigned int running = 0;
	char line[80], *slash;

	/* Behind three averages: how many threads run now, the caller among them. */
	if (file && fgets(line, sizeof(line), file) && (slash = strchr(line, '/'))) {
		while (slash > line && slash[-1] != ' ')
			slash--;
		running = (unsigned int)strtoul(slash, NULL, 10);
	}
	if (file)
		fclose(file);
	return running > n_cpu + 1 ? (double)n_cpu / (running - 1) : 1;
}
