// SPDX-License-Identifier: MIT
/* A program that maps its memory on one processor and touches it on another. */
#include <sched.h>
#include <sys/mman.h>

#include "traced.h"

#define PAGE ((size_t)4096)

static int run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

int traced_migrated(void)
{
	int first = 0, last = CPU_SETSIZE - 1;
	volatile char *bytes;
	cpu_set_t set;
	size_t i;

	if (sched_getaffinity(0, sizeof(set), &set))
		return 1;
	while (!CPU_ISSET(first, &set))
		first++;
	while (!CPU_ISSET(last, &set))
		last--;
	if (run_on(last))
		return 1;
	bytes = mmap(NULL, TRACED_PAGES * PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bytes == MAP_FAILED ||
	    madvise((void *)bytes, TRACED_PAGES * PAGE, MADV_NOHUGEPAGE) || run_on(first))
		return 1;
	for (i = 0; i < TRACED_PAGES; i++)
		bytes[i * PAGE] = 1;
	return 0;
}
