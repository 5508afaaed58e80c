// SPDX-License-Identifier: MIT
/* A program that maps its memory on one processor and touches it on another. */
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "perf/traced.h"
#include "lib/units.h"

char *traced_memory(size_t size, int advice)
{
	char *room = mmap(NULL, size + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *bytes;

	if (room == MAP_FAILED)
		_exit(99);
	bytes = mmap(room + PAGE, size, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (bytes == MAP_FAILED || madvise(bytes, size, advice))
		_exit(99);
	return bytes;
}

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
	bytes = traced_memory(TRACED_PAGES * PAGE, MADV_NOHUGEPAGE);
	if (run_on(first))
		return 1;
	for (i = 0; i < TRACED_PAGES; i++)
		bytes[i * PAGE] = 1;
	return 0;
}
