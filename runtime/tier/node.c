// SPDX-License-Identifier: MIT
/* NUMA nodes as sysfs shows them [Documentation/ABI/stable/sysfs-devices-node]. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/proc.h"
#include "tier/tier.h"

#define NODES "/sys/devices/system/node"

/* The numbers of a list as "0-1,4", below 64, as bits; *ret_n counts all of them. */
static uint64_t parse_list(const char *text, uint32_t *ret_n)
{
	unsigned long first, last, i;
	uint64_t bits = 0;
	char *end;

	*ret_n = 0;
	for (;; text = end + 1) {
		first = last = strtoul(text, &end, 10);
		if (end == text)
			return bits;
		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (i = first; i <= last && i - first < 65536; i++) {
			bits |= i < 64 ? 1ull << i : 0;
			(*ret_n)++;
		}
		if (*end != ',')
			return bits;
	}
}

static bool read_of(uint32_t node, const char *file, char *text, size_t size)
{
	char path[96];

	snprintf(path, sizeof(path), NODES "/node%u/%s", node, file);
	return proc_read(path, text, size);
}

uint64_t node_usable(void)
{
	const char key[] = "\nMems_allowed_list:";
	char list[512], status[8192], *at;
	uint64_t nodes;
	uint32_t n;

	if (!proc_read(NODES "/has_memory", list, sizeof(list)))
		return 0;
	nodes = parse_list(list, &n);
	at = proc_read("/proc/self/status", status, sizeof(status)) ? strstr(status, key) :
								      NULL;
	return at ? nodes & parse_list(at + strlen(key), &n) : nodes;
}

/* The number of KiB behind @key in "Node 1 MemTotal:  524288 kB". */
static bool find_kib(const char *text, const char *key, uint64_t *ret_bytes)
{
	const char *at = strstr(text, key);

	if (!at)
		return false;
	*ret_bytes = strtoull(at + strlen(key), NULL, 10) << 10;
	return true;
}

bool node_memory(uint32_t node, uint64_t *ret_total, uint64_t *ret_free)
{
	char text[4096];

	return read_of(node, "meminfo", text, sizeof(text)) &&
	       find_kib(text, "MemTotal:", ret_total) && *ret_total &&
	       find_kib(text, "MemFree:", ret_free);
}

uint32_t node_processors(uint32_t node)
{
	char text[512];
	uint32_t n;

	if (!read_of(node, "cpulist", text, sizeof(text)))
		return 0;
	parse_list(text, &n);
	return n;
}

bool node_firmware(uint32_t node, struct node_figures *ret_figures)
{
	char path[96];
	uint64_t latency, megabytes;

	snprintf(path, sizeof(path), NODES "/node%u/access0/initiators/read_latency", node);
	if (!proc_number(path, &latency) || !latency)
		return false;
	snprintf(path, sizeof(path), NODES "/node%u/access0/initiators/read_bandwidth", node);
	if (!proc_number(path, &megabytes))
		megabytes = 0;
	*ret_figures = (struct node_figures){ latency, megabytes * 1000000 };
	return true;
}

uint32_t node_distance(uint32_t node)
{
	unsigned int cpu, here, i;
	char text[512], *at, *end;
	unsigned long distance = 255;

	if (getcpu(&cpu, &here) || !read_of(here, "distance", text, sizeof(text)))
		return 255;
	/* One number for each node that is online, in the order of the nodes. */
	for (i = 0, at = text; i < TIER_NODES_MAX; i++) {
		char online[64];

		if (i != here && !read_of(i, "distance", online, sizeof(online)))
			continue;
		distance = strtoul(at, &end, 10);
		if (end == at)
			return 255;
		if (i == node)
			return (uint32_t)distance;
		at = end;
	}
	return 255;
}
