// SPDX-License-Identifier: MIT
/* Doctor: limits of this process, of its control group, of the kernel's tables. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/machine.h"
#include "common/text.h"
#include "doctor.h"

#define CAP_IPC_LOCK_NUMBER 14
#define FOUND_MAX 160
#define NOFILE_PLENTY 4096
#define MAPS_PLENTY 262144

static const char *limit_bytes(rlim_t limit, char text[TEXT_MAX])
{
	if (limit == RLIM_INFINITY)
		return "unlimited";
	return text_bytes(limit, text);
}

static const char *soft_and_hard(const char *what, const char *name, const struct rlimit *limit,
				 char found[FOUND_MAX])
{
	char soft[TEXT_MAX], hard[TEXT_MAX];

	if (limit->rlim_cur == limit->rlim_max)
		snprintf(found, FOUND_MAX, "%s: %s (%s)", what,
			 limit_bytes(limit->rlim_cur, soft), name);
	else
		snprintf(found, FOUND_MAX, "%s: %s, which may be raised to %s (%s)", what,
			 limit_bytes(limit->rlim_cur, soft), limit_bytes(limit->rlim_max, hard),
			 name);
	return found;
}

void check_memlock(struct doctor *doctor)
{
	char found[FOUND_MAX];
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
		return;
	soft_and_hard("locked memory", "RLIMIT_MEMLOCK", &limit, found);
	if (limit.rlim_cur == RLIM_INFINITY) {
		doctor_report(doctor, DOCTOR_OK, NULL, NULL, "%s", found);
	} else if (machine_capable(CAP_IPC_LOCK_NUMBER)) {
		doctor_report(doctor, DOCTOR_OK, NULL, NULL,
			      "%s; it does not bind this user (CAP_IPC_LOCK)", found);
	} else {
		doctor_report(doctor, limit.rlim_cur < 64 << 20 ? DOCTOR_LIMIT : DOCTOR_NOTE,
			      "hm_map_lock: more is -ENOMEM, or less with "
			      "HM_LOCK_PARTIAL",
			      "ulimit -l, up to the hard limit; beyond it a line "
			      "'* - memlock unlimited' in /etc/security/limits.conf, then "
			      "log in again; in a container: --ulimit memlock=-1",
			      "%s", found);
	}
}

void check_nofile(struct doctor *doctor)
{
	char soft[TEXT_MAX], hard[TEXT_MAX], change[TEXT_MAX];
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	snprintf(change, sizeof(change), "ulimit -n %ju", (uintmax_t)limit.rlim_max);
	if (limit.rlim_cur >= NOFILE_PLENTY)
		doctor_report(doctor, DOCTOR_OK, NULL, NULL, "open files: %s (RLIMIT_NOFILE)",
			      text_count(limit.rlim_cur, soft));
	else
		doctor_report(doctor, DOCTOR_NOTE,
			      "shared buffers and files take one each: more of them is "
			      "-EMFILE",
			      change,
			      "open files: %s, which may be raised to %s (RLIMIT_NOFILE)",
			      text_count(limit.rlim_cur, soft),
			      text_count(limit.rlim_max, hard));
}

static void check_size_limit(struct doctor *doctor, int resource, const char *what,
			     const char *name, const char *limits, const char *change)
{
	char found[FOUND_MAX];
	struct rlimit limit;

	if (getrlimit((__rlimit_resource_t)resource, &limit) < 0)
		return;
	soft_and_hard(what, name, &limit, found);
	if (limit.rlim_cur == RLIM_INFINITY)
		doctor_report(doctor, DOCTOR_OK, NULL, NULL, "%s", found);
	else
		doctor_report(doctor, DOCTOR_LIMIT, limits, change, "%s", found);
}

void check_address_space(struct doctor *doctor)
{
	check_size_limit(
		doctor, RLIMIT_AS, "address space", "RLIMIT_AS",
		"maps and their reservations count in full: more is -ENOMEM, and hm_alloc "
		"leaves less room to grow in place",
		"ulimit -v unlimited");
}

void check_file_size(struct doctor *doctor)
{
	check_size_limit(doctor, RLIMIT_FSIZE, "file size", "RLIMIT_FSIZE",
			 "shared buffers are files to the kernel: a larger one, room to grow "
			 "included, is -EFBIG",
			 "ulimit -f unlimited");
}

void check_max_map_count(struct doctor *doctor)
{
	char count[TEXT_MAX];
	uint64_t maps;
	int r;

	r = machine_read_number(doctor->root, "/proc/sys/vm/max_map_count", &maps);
	if (r) {
		doctor_report(doctor, DOCTOR_NOTE, NULL, NULL,
			      "vm.max_map_count is not readable: %s", strerror(-r));
		return;
	}
	if (maps >= MAPS_PLENTY)
		doctor_report(doctor, DOCTOR_OK, NULL, NULL,
			      "mapped ranges: %s (vm.max_map_count)", text_count(maps, count));
	else
		doctor_report(doctor, maps < 65530 ? DOCTOR_LIMIT : DOCTOR_NOTE,
			      "a map takes one to three, and each change of rights inside "
			      "it two more: beyond that -ENOMEM",
			      "sudo sysctl vm.max_map_count=1048576",
			      "mapped ranges: %s (vm.max_map_count)", text_count(maps, count));
}

/* ---- control group ---- */

/* The lowest limit from @group up to the root, of version 2. */
static bool limit_v2(const struct doctor *doctor, char *group, uint64_t *ret_limit,
		     uint64_t *ret_used)
{
	uint64_t limit, used;
	bool any = false;
	char *path, *slash;

	for (;;) {
		path = text_format("/sys/fs/cgroup%s/memory.max", group);
		if (!machine_read_number(doctor->root, path, &limit) &&
		    (!any || limit < *ret_limit)) {
			free(path);
			path = text_format("/sys/fs/cgroup%s/memory.current", group);
			*ret_limit = limit;
			*ret_used = machine_read_number(doctor->root, path, &used) ? 0 : used;
			any = true;
		}
		free(path);
		slash = strrchr(group, '/');
		if (!slash || !*group)
			return any;
		*slash = '\0';
	}
}

static bool limit_v1(const struct doctor *doctor, const char *group, uint64_t *ret_limit,
		     uint64_t *ret_used)
{
	const char *const groups[] = { group, "" };
	char *path;
	size_t i;
	int r = -ENOENT;

	/* In a container the own group is often mounted as the root. */
	for (i = 0; i < 2 && r; i++) {
		path = text_format("/sys/fs/cgroup/memory%s/memory.limit_in_bytes", groups[i]);
		r = machine_read_number(doctor->root, path, ret_limit);
		free(path);
		path = text_format("/sys/fs/cgroup/memory%s/memory.usage_in_bytes", groups[i]);
		if (!r && machine_read_number(doctor->root, path, ret_used))
			*ret_used = 0;
		free(path);
	}
	return !r;
}

static bool cgroup_limit(const struct doctor *doctor, uint64_t *ret_limit, uint64_t *ret_used)
{
	char *path = machine_path(doctor->root, "/proc/self/cgroup");
	FILE *file = fopen(path, "re");
	char line[1024], group[1024];
	bool found = false;

	free(path);
	while (file && !found && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "%*d:memory:%1023s", group) == 1) {
			found = limit_v1(doctor, group, ret_limit, ret_used);
		} else if (!strncmp(line, "0::", 3)) {
			snprintf(group, sizeof(group), "%s", line + 3);
			found = limit_v2(doctor, group, ret_limit, ret_used);
		}
	}
	if (file)
		fclose(file);
	return found;
}

void check_cgroup_memory(struct doctor *doctor)
{
	uint64_t limit = UINT64_MAX, used = 0;
	char most[TEXT_MAX], now[TEXT_MAX];

	/* Version 1 says "no limit" by a number of this order. */
	if (!cgroup_limit(doctor, &limit, &used) || limit >= UINT64_MAX >> 2)
		doctor_report(doctor, DOCTOR_OK, NULL, NULL,
			      "memory of the control group: no limit");
	else
		doctor_report(doctor, DOCTOR_NOTE,
			      "pages of buffers and of mapped files count: beyond it the "
			      "kernel drops file pages, then ends a process of the group",
			      "systemd: MemoryMax=; in a container: --memory",
			      "memory of the control group: %s, of which %s are in use "
			      "(memory.max)",
			      text_bytes(limit, most), text_bytes(used, now));
}
