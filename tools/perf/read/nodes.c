// SPDX-License-Identifier: MIT
/*
 * NUMA nodes: which memory is whose stands in /proc/zoneinfo, by page frames [mm/vmstat.c];
 * a sample of perf's has the physical address. CPUs are libnuma's to tell.
 */
#include "nodes.h"

#include <errno.h>
#include <inttypes.h>
#include <numa.h>
#include <numaif.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* More than caches hold. */
#define MEASURED_BYTES ((size_t)64 << 20)
#define PAGE 4096
#define LINE 64

/* ---- this machine ---- */

/* libnuma prints a warning of those that are none. */
static bool is_node(uint32_t node)
{
	return node < numa_nodes_ptr->size && numa_bitmask_isbitset(numa_nodes_ptr, node);
}

static json_t *cpus_of(uint32_t node)
{
	struct bitmask *mask = numa_allocate_cpumask();
	json_t *cpus = json_array();
	unsigned int cpu;

	if (mask && !numa_node_to_cpus((int)node, mask))
		for (cpu = 0; cpu < mask->size; cpu++)
			if (numa_bitmask_isbitset(mask, cpu))
				json_array_append_new(cpus, json_integer((json_int_t)cpu));
	if (mask)
		numa_free_cpumask(mask);
	return cpus;
}

static json_t *node_of(json_t *list, uint32_t number)
{
	json_t *node;
	size_t i;

	json_array_foreach(list, i, node)
	{
		if ((uint32_t)json_integer_value(json_object_get(node, "node")) == number)
			return node;
	}
	node = json_pack("{s:i, s:o, s:[]}", "node", (int)number, "cpus", cpus_of(number),
			 "memory");
	json_array_append_new(list, node);
	return node;
}

/* Zones, each of which has its first frame last; empty ones are nobody's. */
static void read_zones(FILE *file, json_t *list)
{
	uint64_t spanned = 0, first, page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint32_t node = NODE_UNKNOWN;
	char line[256];

	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Node %" SCNu32 ", zone", &node) == 1)
			spanned = 0;
		else if (sscanf(line, " spanned %" SCNu64, &spanned) == 1)
			continue;
		else if (sscanf(line, " start_pfn: %" SCNu64, &first) == 1 && spanned &&
			 node < NODES_MOST)
			json_array_append_new(
				json_object_get(node_of(list, node), "memory"),
				json_pack("[I, I]", (json_int_t)(first * page),
					  (json_int_t)((first + spanned) * page)));
	}
}

json_t *nodes_here(void)
{
	FILE *file = fopen("/proc/zoneinfo", "re");
	json_t *list;
	int node;

	if (!file || numa_available() < 0) {
		if (file)
			fclose(file);
		return NULL;
	}
	list = json_array();
	read_zones(file, list);
	fclose(file);
	/* Those of CPUs alone. */
	for (node = 0; node <= numa_max_node() && node < NODES_MOST; node++)
		if (is_node((uint32_t)node))
			node_of(list, (uint32_t)node);
	return list;
}

bool nodes_several(void)
{
	json_t *list = nodes_here(), *node;
	uint32_t n = 0;
	size_t i;

	json_array_foreach(list, i, node)
	{
		n += json_array_size(json_object_get(node, "memory")) > 0;
	}
	json_decref(list);
	return n > 1;
}

/* ---- facts on a node ---- */

static bool number_of(const json_t *value, uint64_t most, uint64_t *ret_number)
{
	json_int_t number = json_integer_value(value);

	if (!json_is_integer(value) || number < 0 || (uint64_t)number > most)
		return false;
	*ret_number = (uint64_t)number;
	return true;
}

static int load_memory(struct nodes *nodes, uint32_t node, const json_t *memory)
{
	size_t n = nodes->n_span + json_array_size(memory), i;
	struct node_span *spans = realloc(nodes->spans, (n + 1) * sizeof(*spans));
	uint64_t begin, end;
	json_t *pair;

	if (!spans)
		return -ENOMEM;
	nodes->spans = spans;
	json_array_foreach(memory, i, pair)
	{
		if (number_of(json_array_get(pair, 0), INT64_MAX, &begin) &&
		    number_of(json_array_get(pair, 1), INT64_MAX, &end) && begin < end)
			spans[nodes->n_span++] = (struct node_span){ begin, end, node };
	}
	return 0;
}

#define CPUS_MOST 65536

static int load_cpus(struct nodes *nodes, uint32_t node, const json_t *cpus)
{
	uint32_t *more;
	uint64_t cpu;
	json_t *value;
	size_t i;

	json_array_foreach(cpus, i, value)
	{
		if (!number_of(value, CPUS_MOST, &cpu))
			continue;
		if (cpu >= nodes->n_cpu) {
			more = realloc(nodes->of_cpu, (cpu + 1) * sizeof(*more));
			if (!more)
				return -ENOMEM;
			nodes->of_cpu = more;
			while (nodes->n_cpu <= cpu)
				more[nodes->n_cpu++] = NODE_UNKNOWN;
		}
		nodes->of_cpu[cpu] = node;
	}
	return 0;
}

int nodes_load(const json_t *list, struct nodes *ret_nodes)
{
	struct nodes nodes = { 0 };
	uint64_t number;
	json_t *node;
	size_t i;
	int r = 0;

	json_array_foreach(list, i, node)
	{
		if (!number_of(json_object_get(node, "node"), NODES_MOST - 1, &number))
			continue;
		r = load_memory(&nodes, (uint32_t)number, json_object_get(node, "memory"));
		r = r ? r : load_cpus(&nodes, (uint32_t)number, json_object_get(node, "cpus"));
		if (r) {
			nodes_free(&nodes);
			return r;
		}
		if (number >= nodes.n)
			nodes.n = (uint32_t)number + 1;
	}
	*ret_nodes = nodes;
	return 0;
}

void nodes_free(struct nodes *nodes)
{
	free(nodes->spans);
	free(nodes->of_cpu);
	*nodes = (struct nodes){ 0 };
}

/* Spans of zones may overlap where nodes' memory is mixed: it is nobody's for sure then. */
uint32_t nodes_of_memory(const struct nodes *nodes, uint64_t physical)
{
	uint32_t found = NODE_UNKNOWN, i;

	for (i = 0; i < nodes->n_span; i++) {
		const struct node_span *span = &nodes->spans[i];

		if (physical < span->begin || physical >= span->end || span->node == found)
			continue;
		if (found != NODE_UNKNOWN)
			return NODE_UNKNOWN;
		found = span->node;
	}
	return found;
}

uint32_t nodes_of_cpu(const struct nodes *nodes, uint32_t cpu)
{
	return cpu < nodes->n_cpu ? nodes->of_cpu[cpu] : NODE_UNKNOWN;
}

bool nodes_has_memory(const struct nodes *nodes, uint32_t node)
{
	uint32_t i;

	for (i = 0; i < nodes->n_span; i++)
		if (nodes->spans[i].node == node)
			return true;
	return false;
}

/* ---- cost ---- */

static double now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* The second time: the first one brings the pages, and the clock of the CPU up. */
static double read_twice(volatile char *bytes)
{
	double began = 0;
	size_t at;
	int pass;

	for (pass = 0; pass < 2; pass++) {
		began = now_ns();
		for (at = 0; at < MEASURED_BYTES; at += LINE)
			bytes[at] = (char)(bytes[at] + 1);
	}
	return now_ns() - began;
}

static int bind_to(void *bytes, uint32_t node)
{
	struct bitmask *mask = numa_allocate_nodemask();
	int r;

	if (!mask)
		return -ENOMEM;
	numa_bitmask_setbit(mask, node);
	r = mbind(bytes, MEASURED_BYTES, MPOL_BIND, mask->maskp, mask->size + 1, 0) ? -errno :
										      0;
	numa_free_nodemask(mask);
	return r;
}

int nodes_measure(uint32_t cpu_node, uint32_t memory_node, double *ret_ns)
{
	cpu_set_t before;
	char *bytes;
	int r = 0;

	if (numa_available() < 0)
		return -ENOSYS;
	if (!is_node(cpu_node) || !is_node(memory_node))
		return -EINVAL;
	if (sched_getaffinity(0, sizeof(before), &before))
		return -errno;
	bytes = mmap(NULL, MEASURED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		     -1, 0);
	if (bytes == MAP_FAILED)
		return -errno;
	r = bind_to(bytes, memory_node);
	if (!r && numa_run_on_node((int)cpu_node))
		r = -errno;
	if (!r)
		*ret_ns = read_twice(bytes) * PAGE / (double)MEASURED_BYTES;
	sched_setaffinity(0, sizeof(before), &before);
	munmap(bytes, MEASURED_BYTES);
	return r;
}
