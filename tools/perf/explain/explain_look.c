// SPDX-License-Identifier: MIT
/* The kernel's facts on a range of a process, its file, its storage and its nodes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/machine.h"
#include "common/text.h"
#include "explain.h"
#include "perf/record/record.h"

/* A file of the machine's, not the process's, where HETMAP_ROOT may stand before it. */
static char *read_setting(const char *path)
{
	char *text;

	return machine_read_all(machine_root(), path, &text) ? NULL : text;
}

static char *read_of_process(const struct subject *subject, const char *file)
{
	char *path = text_format("/proc/%d/%s", (int)subject->of->pid, file), *text;
	int r = machine_read_all("", path, &text);

	free(path);
	return r ? NULL : text;
}

/* ---- the mappings ---- */

static bool has_flag(const struct mapping *mapping, const char *flag)
{
	return strstr(mapping->flags, flag) != NULL;
}

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static enum memory_kind kind_of(const struct mapping *mapping)
{
	if (has_flag(mapping, " ht "))
		return MEMORY_HUGETLB;
	if (has_flag(mapping, " pf ") || has_flag(mapping, " io ") || has_flag(mapping, " mm "))
		return MEMORY_DEVICE;
	if (!mapping->inode)
		return MEMORY_PRIVATE;
	/* "anon_inode:[...]", "/dmabuf:NAME" */
	if (mapping->path[0] != '/' || begins(mapping->path, "/dmabuf:"))
		return MEMORY_DEVICE;
	if (begins(mapping->path, "/memfd:") || begins(mapping->path, "/SYSV") ||
	    begins(mapping->path, "/dev/zero") || begins(mapping->path, "/dev/shm/"))
		return MEMORY_SHARED;
	return begins(mapping->path, "/dev/") ? MEMORY_DEVICE : MEMORY_FILE;
}

static void add_known(uint64_t *sum, uint64_t value)
{
	*sum = value == MAPPING_UNKNOWN || *sum == EXPLAIN_UNKNOWN ? EXPLAIN_UNKNOWN :
								     *sum + value;
}

static void look_at_mappings(struct subject *subject)
{
	const struct mappings *all = &subject->of->mappings;
	const struct mapping *row = mappings_at(all, subject->start);
	bool accessible = false;

	mappings_sum(all, subject->start, subject->end, &subject->sum);
	for (; row && row < all->rows + all->n && row->smaps.start < subject->end; row++) {
		if (!subject->first) {
			subject->first = row;
			subject->kind = kind_of(row);
		}
		subject->n_mapping++;
		/* The library's maps share none with others; a mapping is asked for whole. */
		add_known(&subject->swap, row->swap);
		add_known(&subject->dirty, row->dirty);
		add_known(&subject->eligible, row->thp_eligible == 1 ?
						      row->smaps.end - row->smaps.start :
						      row->thp_eligible);
		accessible |= row->rights[0] == 'r' || row->rights[1] == 'w' ||
			      row->rights[2] == 'x';
		subject->shared |= row->rights[3] == 's';
		subject->huge_wanted |= has_flag(row, " hg ");
		subject->huge_refused |= has_flag(row, " nh ");
		subject->random |= has_flag(row, " rr ");
		subject->userfault |= has_flag(row, " um ") || has_flag(row, " uw ") ||
				      has_flag(row, " ui ");
	}
	subject->no_access = subject->first && !accessible;
}

static void look_at_page(struct subject *subject)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), entry;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)subject->of->pid);
	fd = subject->asked ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	/* Bits 63 and 62, which everyone is told [the kernel's pagemap.rst]. */
	if (pread(fd, &entry, sizeof(entry),
		  (off_t)(subject->address / page * sizeof(entry))) == sizeof(entry)) {
		subject->page_known = true;
		subject->page_present = entry >> 63 & 1;
		subject->page_swapped = entry >> 62 & 1;
	}
	close(fd);
}

/* ---- huge pages ---- */

/* The word in brackets of "always [madvise] never". */
static void read_choice(const char *path, char choice[16])
{
	char *text = read_setting(path), *from = text ? strchr(text, '[') : NULL, *to;

	to = from ? strchr(from, ']') : NULL;
	if (to) {
		*to = '\0';
		snprintf(choice, 16, "%s", from + 1);
	}
	free(text);
}

static void look_at_huge_pages(struct subject *subject)
{
	char *status = read_of_process(subject, "status");

	read_choice("/sys/kernel/mm/transparent_hugepage/enabled", subject->thp);
	read_choice("/sys/kernel/mm/transparent_hugepage/shmem_enabled", subject->shmem_thp);
	/* From 5.0 on; 0 also where the kernel has none. */
	subject->thp_disabled = subject->thp[0] && status &&
				strstr(status, "\nTHP_enabled:\t0") != NULL;
	free(status);
}

/* ---- the file ---- */

static bool is_network(const char *type)
{
	static const char *const types[] = { "nfs",    "nfs4",      "cifs", "smb3",
					     "9p",     "ceph",      "afs",  "lustre",
					     "gfs2",   "ocfs2",     "gpfs", "glusterfs",
					     "beegfs", "fuse.sshfs" };
	size_t i;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcmp(type, types[i]))
			return true;
	return begins(type, "fuse.glusterfs") || begins(type, "fuse.ceph");
}

/* By the device, or, where subvolumes have others, by the longest way that leads there. */
static void look_at_file_system(struct subject *subject)
{
	char *text = read_of_process(subject, "mountinfo"), *at = text, *line, *rest;
	uint32_t major, minor;
	size_t longest = 0, length;
	char point[4096], type[32];

	while (at && (line = strsep(&at, "\n"))) {
		rest = strstr(line, " - ");
		if (!rest ||
		    sscanf(line, "%*u %*u %u:%u %*s %4095s", &major, &minor, point) != 3 ||
		    sscanf(rest, " - %31s", type) != 1)
			continue;
		length = strlen(point);
		if (major == subject->first->major && minor == subject->first->minor)
			length = sizeof(point);
		else if (!begins(subject->first->path, point))
			continue;
		if (length < longest)
			continue;
		longest = length;
		snprintf(subject->file_system, sizeof(subject->file_system), "%s", type);
	}
	free(text);
	subject->network = is_network(subject->file_system);
	if (!strcmp(subject->file_system, "tmpfs") || !strcmp(subject->file_system, "ramfs"))
		subject->kind = MEMORY_SHARED;
}

/*
 * The file, through the kernel's link or, as that is for few, by the name, which another one
 * may have by now. -1: it can't be had.
 */
static int open_mapped(const struct subject *subject, struct stat *ret_st)
{
	const struct mapping *mapping = subject->first;
	char *path;
	int fd;

	path = text_format("/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)subject->of->pid,
			   mapping->smaps.start, mapping->smaps.end);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	free(path);
	if (fd < 0) {
		path = text_format("/proc/%d/root%s", (int)subject->of->pid, mapping->path);
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		free(path);
	}
	if (fd < 0)
		return -1;
	if (fstat(fd, ret_st) < 0 || !S_ISREG(ret_st->st_mode) ||
	    ret_st->st_ino != mapping->inode) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Pages of @length bytes from @offset on that are in memory, whoever brought them in. */
static uint64_t cached_bytes(int fd, uint64_t offset, uint64_t length)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), bytes = 0, i, n = length / page;
	unsigned char *there = malloc(n + 1);
	void *mapped;

	if (!n || !there) {
		free(there);
		return n ? EXPLAIN_UNKNOWN : 0;
	}
	mapped = mmap(NULL, n * page, PROT_READ, MAP_SHARED, fd, (off_t)offset);
	if (mapped == MAP_FAILED || mincore(mapped, n * page, there)) {
		bytes = EXPLAIN_UNKNOWN;
	} else {
		for (i = 0; i < n; i++)
			bytes += there[i] & 1 ? page : 0;
	}
	if (mapped != MAP_FAILED)
		munmap(mapped, n * page);
	free(there);
	return bytes;
}

/* The bytes of the mapping that the file has, and those of them that are in memory. */
static void look_at_length(struct subject *subject)
{
	const struct mapping *mapping = subject->first;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), size, has;
	uint64_t length = subject->end - subject->start;
	uint64_t offset = mapping->offset + (subject->start - mapping->smaps.start);
	struct stat st;
	int fd = open_mapped(subject, &st);

	if (fd < 0)
		return;
	/* The last page is there, however little of it the file has. */
	size = ((uint64_t)st.st_size + page - 1) / page * page;
	has = size > offset ? size - offset : 0;
	if (has > length)
		has = length;
	subject->behind_end = length - has;
	/* mincore(2) tells its owner alone. */
	if (st.st_uid == geteuid() || !geteuid())
		subject->cached = cached_bytes(fd, offset, has);
	close(fd);
}

static void look_at_file(struct subject *subject)
{
	char *path, *text;

	if (!subject->first || !subject->first->inode || subject->kind == MEMORY_HUGETLB ||
	    subject->kind == MEMORY_DEVICE || begins(subject->first->path, "/memfd:"))
		return;
	look_at_file_system(subject);
	if (subject->kind != MEMORY_FILE)
		return;
	/* A file in many mappings is one that was cut: it is asked for in one piece alone. */
	if (subject->n_mapping == 1)
		look_at_length(subject);
	path = text_format("/sys/class/bdi/%u:%u/read_ahead_kb", subject->first->major,
			   subject->first->minor);
	text = read_setting(path);
	if (text)
		subject->read_ahead = strtoull(text, NULL, 10) * 1024;
	free(text);
	free(path);
}

static void look_at_swap(struct subject *subject)
{
	char *text = read_setting("/proc/swaps"), *second = text ? strchr(text, '\n') : NULL;

	subject->swapping = second && second[1];
	free(text);
}

/* ---- NUMA ---- */

/* "7f0000000000 default file=/x mapped=2 N0=1 N1=1 kernelpagesize_kB=4" */
static void add_nodes(struct subject *subject, char *line)
{
	char *word, *end;
	uint64_t node, pages, kib = 4;
	char *size = strstr(line, "kernelpagesize_kB=");

	if (size)
		kib = strtoull(size + strlen("kernelpagesize_kB="), NULL, 10);
	while ((word = strsep(&line, " "))) {
		if (word[0] != 'N' || word[1] < '0' || word[1] > '9')
			continue;
		node = strtoull(word + 1, &end, 10);
		pages = *end == '=' ? strtoull(end + 1, NULL, 10) : 0;
		if (node < EXPLAIN_NODES)
			subject->node_bytes[node] += pages * kib * 1024;
	}
}

/* CPU of field 39 of a thread's stat; -1. */
static long cpu_of(pid_t pid, pid_t tid)
{
	char path[64], *text, *at;
	long cpu = -1;
	int field;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)tid);
	if (machine_read_all("", path, &text))
		return -1;
	at = strrchr(text, ')');
	for (field = 2; at && field < 39; field++) {
		at = strchr(at + 1, ' ');
	}
	if (at)
		cpu = strtol(at, NULL, 10);
	free(text);
	return cpu;
}

/* The node of a CPU: the kernel has a link node<N> in the CPU's folder. */
static void add_near(struct subject *subject, long cpu)
{
	char *path = text_format("%s/sys/devices/system/cpu/cpu%ld", machine_root(), cpu);
	DIR *folder = opendir(path);
	struct dirent *entry;
	unsigned long node;

	free(path);
	while (folder && (entry = readdir(folder)))
		if (begins(entry->d_name, "node") && entry->d_name[4] >= '0' &&
		    entry->d_name[4] <= '9') {
			node = strtoul(entry->d_name + 4, NULL, 10);
			if (node < EXPLAIN_NODES)
				subject->near_nodes |= UINT64_C(1) << node;
		}
	if (folder)
		closedir(folder);
}

static void look_at_nodes(struct subject *subject)
{
	char *text = read_of_process(subject, "numa_maps"), *at = text, *line;
	pid_t *tids;
	uint32_t n, i;

	while (at && (line = strsep(&at, "\n"))) {
		uint64_t start = strtoull(line, NULL, 16);

		if (start >= subject->end || start < subject->first->smaps.start)
			continue;
		add_nodes(subject, line);
	}
	for (i = 0; text && i < EXPLAIN_NODES; i++)
		if (subject->node_bytes[i])
			subject->n_node = i + 1;
	free(text);
	if (!subject->n_node || record_threads(subject->of->pid, &tids, &n))
		return;
	for (i = 0; i < n; i++)
		add_near(subject, cpu_of(subject->of->pid, tids[i]));
	free(tids);
}

void explain_look(struct subject *subject)
{
	subject->cached = subject->read_ahead = EXPLAIN_UNKNOWN;
	look_at_mappings(subject);
	look_at_page(subject);
	look_at_huge_pages(subject);
	look_at_swap(subject);
	if (!subject->first)
		return;
	look_at_file(subject);
	look_at_nodes(subject);
}
