// SPDX-License-Identifier: MIT
/* Chooses the instruction sets for this CPU, once, and finds out how large its caches are. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "copy/copy.h"

/* Where the system does not tell. */
#define USUAL_SECOND_CACHE MIB(1)
#define USUAL_LAST_CACHE MIB(8)

const struct copy_set *const copy_sets[] = {
#if defined(__x86_64__)
	&copy_movdir64b, &copy_avx512, &copy_avx2,
#endif
	&copy_portable,  NULL,
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct copy_cpu cpu;

/* The preferred set that has what @wants; the portable one has all but caches to pass. */
static const struct copy_set *choose(bool (*wants)(const struct copy_set *set))
{
	const struct copy_set *const *set = copy_sets;

	while (*set != &copy_portable && !(wants(*set) && (*set)->is_here()))
		set++;
	return *set;
}

static bool for_lines(const struct copy_set *set)
{
	return set->line;
}

/* Vectors: MOVDIR64B is the slower one between write-back memory. */
static bool for_streams(const struct copy_set *set)
{
	return set->loads && set->passes_caches;
}

static uint64_t cache_size(int name, uint64_t usual)
{
	long bytes = sysconf(name);

	return bytes > 0 ? (uint64_t)bytes : usual;
}

static void fill(void)
{
	cpu.lines = choose(for_lines);
	cpu.streams = choose(for_streams);
	cpu.loads = choose(for_streams);
#ifdef _SC_LEVEL2_CACHE_SIZE
	cpu.second_cache = cache_size(_SC_LEVEL2_CACHE_SIZE, USUAL_SECOND_CACHE);
	cpu.last_cache = cache_size(_SC_LEVEL3_CACHE_SIZE, USUAL_LAST_CACHE);
#else
	cpu.second_cache = USUAL_SECOND_CACHE;
	cpu.last_cache = USUAL_LAST_CACHE;
#endif
	cpu.stream_least = cpu.streams->passes_caches ? cpu.second_cache / 4 : UINT64_MAX;
	cpu.far_least = cpu.streams->passes_caches ? cpu.second_cache / 16 : UINT64_MAX;
}

const struct copy_cpu *copy_cpu(void)
{
	pthread_once(&once, fill);
	return &cpu;
}

static const struct copy_set *find(const char *name)
{
	const struct copy_set *const *set = copy_sets;

	while (*set && strcmp((*set)->name, name))
		set++;
	return *set && (*set)->is_here() ? *set : NULL;
}

bool copy_force(const char *lines, const char *streams, const char *loads)
{
	const struct copy_set *set[3];

	copy_cpu();
	fill();
	set[0] = lines ? find(lines) : cpu.lines;
	set[1] = streams ? find(streams) : cpu.streams;
	set[2] = loads ? find(loads) : cpu.loads;
	if (!set[0] || !set[1] || !set[2] || !set[2]->loads)
		return false;
	cpu.lines = set[0];
	cpu.streams = set[1];
	cpu.loads = set[2];
	return true;
}
