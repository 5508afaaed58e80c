// SPDX-License-Identifier: MIT
/* Doctor: kinds of pages, and their places. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <numa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/machine.h"
#include "common/text.h"
#include "doctor.h"

#define THP "/sys/kernel/mm/transparent_hugepage/"

/* A field of /proc/meminfo in bytes, or of a node's own; 0: not there. */
static uint64_t meminfo(const struct doctor *doctor, const char *path, const char *field)
{
	char *full = machine_path(doctor->root, path);
	FILE *file = fopen(full, "re");
	unsigned long long kib = 0;
	char line[256];
	const char *at;

	free(full);
	while (file && fgets(line, sizeof(line), file)) {
		at = strstr(line, field);
		/* "MemTotal" must not be found in "HardwareMemTotal". */
		if (at && (at == line || at[-1] == ' ') && at[strlen(field)] == ':' &&
		    sscanf(at + strlen(field) + 1, "%llu", &kib) == 1)
			break;
	}
	if (file)
		fclose(file);
	return (uint64_t)kib << 10;
}

void check_overcommit(struct doctor *doctor)
{
	char limit[TEXT_MAX], used[TEXT_MAX];
	uint64_t mode;
	int r;

	r = machine_read_number(doctor->root, "/proc/sys/vm/overcommit_memory", &mode);
	if (r) {
		doctor_report(doctor, DOCTOR_NOTE, NULL, NULL,
			      "vm.overcommit_memory is not readable: %s", strerror(-r));
	} else if (mode == 2) {
		doctor_report(
			doctor, DOCTOR_LIMIT,
			"memory counts when it is mapped, not when it is touched: "
			"large sparse buffers are -ENOMEM",
			"sudo sysctl vm.overcommit_memory=0",
			"overcommit: never (vm.overcommit_memory 2): %s may be "
			"promised, %s are",
			text_bytes(meminfo(doctor, "/proc/meminfo", "CommitLimit"), limit),
			text_bytes(meminfo(doctor, "/proc/meminfo", "Committed_AS"), used));
	} else {
		doctor_report(doctor, DOCTOR_OK, NULL, NULL,
			      "overcommit: %s (vm.overcommit_memory %" PRIu64 ")",
			      mode ? "always" : "by judgement", mode);
	}
}

void check_thp_anonymous(struct doctor *doctor)
{
	char choice[32];
	int r;

	r = machine_read_choice(doctor->root, THP "enabled", choice, sizeof(choice));
	if (r)
		doctor_report(doctor, DOCTOR_LIMIT,
			      "first touch of private memory is by base pages, about four "
			      "times slower",
			      NULL, "transparent huge pages: not in this kernel");
	else if (!strcmp(choice, "never"))
		doctor_report(doctor, DOCTOR_LIMIT,
			      "first touch of HM_BUFFER_PRIVATE memory is by base pages, "
			      "about four times slower",
			      "echo madvise | sudo tee " THP "enabled",
			      "transparent huge pages for private memory: never");
	else
		doctor_report(doctor, DOCTOR_OK, NULL, NULL,
			      "transparent huge pages for private memory: %s", choice);
}

void check_thp_shared(struct doctor *doctor)
{
	char choice[32];
	int r;

	r = machine_read_choice(doctor->root, THP "shmem_enabled", choice, sizeof(choice));
	if (!r && strcmp(choice, "never") != 0 && strcmp(choice, "deny") != 0) {
		doctor_report(doctor, DOCTOR_OK, NULL, NULL,
			      "transparent huge pages for shared memory: %s", choice);
		return;
	}
	doctor_report(doctor, DOCTOR_NOTE,
		      "shared buffers have base pages: their first touch is about four "
		      "times slower than that of private ones",
		      r ? NULL : "echo advise | sudo tee " THP "shmem_enabled",
		      "transparent huge pages for shared memory: %s",
		      r ? "not in this kernel" : choice);
}

static int is_pool(const struct dirent *entry)
{
	return !strncmp(entry->d_name, "hugepages-", 10);
}

void check_huge_pages(struct doctor *doctor)
{
	char *path = machine_path(doctor->root, "/sys/kernel/mm/hugepages");
	struct dirent **pools = NULL;
	int n = scandir(path, &pools, is_pool, versionsort), i;
	char size[TEXT_MAX], total[TEXT_MAX], available[TEXT_MAX];
	uint64_t pages, unused, kib;
	bool any = false;

	free(path);
	for (i = 0; i < n; i++) {
		kib = strtoull(pools[i]->d_name + 10, NULL, 10);
		path = text_format("/sys/kernel/mm/hugepages/%s/nr_hugepages",
				   pools[i]->d_name);
		if (machine_read_number(doctor->root, path, &pages))
			pages = 0;
		free(path);
		path = text_format("/sys/kernel/mm/hugepages/%s/free_hugepages",
				   pools[i]->d_name);
		if (machine_read_number(doctor->root, path, &unused))
			unused = 0;
		free(path);
		if (pages)
			doctor_report(doctor, DOCTOR_OK, NULL, NULL,
				      "pool of %s pages: %s, of which %s are free",
				      text_bytes(kib << 10, size), text_count(pages, total),
				      text_count(unused, available));
		any |= pages > 0;
		free(pools[i]);
	}
	free(pools);
	if (!any)
		doctor_report(doctor, DOCTOR_NOTE,
			      "HM_BUFFER_HUGETLB gets base pages, and says so",
			      "sudo sysctl vm.nr_hugepages=512 (1 GiB, by 2 MiB)",
			      "pool of huge pages: empty");
}

/* "0-1,3": how many, and each by its number to @each. */
static unsigned int each_node(const char *list, char **text, const struct doctor *doctor)
{
	unsigned int n = 0, first, last;
	char size[TEXT_MAX];

	while (*list >= '0' && *list <= '9') {
		char *end;

		first = last = (unsigned int)strtoul(list, &end, 10);
		if (*end == '-')
			last = (unsigned int)strtoul(end + 1, &end, 10);
		list = *end == ',' ? end + 1 : end;
		for (; first <= last && n < 1024; first++, n++) {
			char *path =
				text_format("/sys/devices/system/node/node%u/meminfo", first);
			char *longer = text_format(
				"%s%snode %u %s", *text, n ? ", " : "", first,
				text_bytes(meminfo(doctor, path, "MemTotal"), size));

			free(*text);
			free(path);
			*text = longer;
		}
	}
	return n;
}

/* Nodes that this process may allocate on, or 0 where that is not to be known. */
static unsigned int allowed_nodes(const struct doctor *doctor)
{
	struct bitmask *mask;
	unsigned int n;

	if (*doctor->root || numa_available() < 0)
		return 0;
	mask = numa_get_mems_allowed();
	n = mask ? numa_bitmask_weight(mask) : 0;
	if (mask)
		numa_bitmask_free(mask);
	return n;
}

void check_numa(struct doctor *doctor)
{
	char list[256];
	char *nodes = text_format("%s", "");
	unsigned int n, allowed;

	if (machine_read(doctor->root, "/sys/devices/system/node/online", list, sizeof(list))) {
		doctor_report(doctor, DOCTOR_NOTE, "placement by node is -EOPNOTSUPP", NULL,
			      "NUMA: not in this kernel");
		free(nodes);
		return;
	}
	n = each_node(list, &nodes, doctor);
	allowed = allowed_nodes(doctor);
	if (allowed && allowed < n)
		doctor_report(doctor, DOCTOR_NOTE,
			      "buffers can't be bound to the other nodes: -EINVAL",
			      "cpuset.mems of the control group; in a container: "
			      "--cpuset-mems",
			      "NUMA: %u nodes (%s), %u of which this process may use", n, nodes,
			      allowed);
	else
		doctor_report(doctor, DOCTOR_OK, NULL, NULL, "NUMA: %u node%s (%s)", n,
			      n == 1 ? "" : "s", nodes);
	free(nodes);
}
