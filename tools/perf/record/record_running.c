// SPDX-License-Identifier: MIT
/*
 * The state of a process when tracing begins, as records like the kernel's own: the names of
 * its threads, and its mappings [proc_pid_maps(5)].
 */
#include "record.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define NAME_MOST 4096

struct mmap2_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t address, length, offset;
	uint32_t major, minor;
	uint64_t inode, generation;
	uint32_t prot, flags;
	char name[NAME_MOST + sizeof(struct trace_trailer)];
};

struct comm_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	char name[32 + sizeof(struct trace_trailer)];
};

uint64_t record_now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* @name with zeros to a multiple of 8, then the trailer; @at is where it stands. */
static void end_record(struct recorder *recorder, struct perf_event_header *header, char *at,
		       uint32_t pid, uint32_t tid)
{
	size_t length = strlen(at) + 1, padded = (length + 7) / 8 * 8;
	const struct trace_trailer trailer = {
		.pid = pid,
		.tid = tid,
		.time = recorder->began_ns,
		.identifier = recorder->events[TRACE_FAULT].id,
	};

	memset(at + length, 0, padded - length);
	memcpy(at + padded, &trailer, sizeof(trailer));
	header->size = (uint16_t)(at + padded + sizeof(trailer) - (char *)header);
}

int record_threads(pid_t pid, pid_t **ret_tids, uint32_t *ret_n)
{
	pid_t *tids = NULL, *more;
	struct dirent *entry;
	uint32_t n = 0;
	char path[32];
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	if (!tasks)
		return errno == ENOENT ? -ESRCH : -errno;
	while ((entry = readdir(tasks))) {
		if (entry->d_name[0] == '.')
			continue;
		more = realloc(tids, (n + 1) * sizeof(*tids));
		if (!more) {
			free(tids);
			closedir(tasks);
			return -ENOMEM;
		}
		tids = more;
		tids[n++] = (pid_t)atoi(entry->d_name);
	}
	closedir(tasks);
	if (!n) {
		free(tids);
		return -ESRCH;
	}
	*ret_tids = tids;
	*ret_n = n;
	return 0;
}

static int write_name(struct recorder *recorder, pid_t pid, pid_t tid)
{
	struct comm_record record = {
		.header = { .type = PERF_RECORD_COMM, .misc = PERF_RECORD_MISC_USER },
		.pid = (uint32_t)pid,
		.tid = (uint32_t)tid,
	};
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", (int)pid, (int)tid);
	file = fopen(path, "re");
	if (!file)
		return 0; /* it has ended */
	if (!fgets(record.name, 32, file))
		record.name[0] = '\0';
	fclose(file);
	record.name[strcspn(record.name, "\n")] = '\0';
	end_record(recorder, &record.header, record.name, record.pid, record.tid);
	return record_write(recorder, &record, record.header.size);
}

/* The file names "\n" as "\012": the kernel's records have the same. */
static bool parse_mapping(const char *line, struct mmap2_record *record)
{
	uint64_t end;
	char rights[5];
	int name = 0;

	if (sscanf(line,
		   "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx32 ":%" SCNx32 " %" SCNu64
		   " %n",
		   &record->address, &end, rights, &record->offset, &record->major,
		   &record->minor, &record->inode, &name) < 7)
		return false;
	record->length = end - record->address;
	record->prot = (rights[0] == 'r' ? PROT_READ : 0u) |
		       (rights[1] == 'w' ? PROT_WRITE : 0u) |
		       (rights[2] == 'x' ? PROT_EXEC : 0u);
	record->flags = rights[3] == 's' ? MAP_SHARED : MAP_PRIVATE;
	snprintf(record->name, NAME_MOST, "%s", name ? line + name : "");
	record->name[strcspn(record->name, "\n")] = '\0';
	if (!record->name[0])
		strcpy(record->name, "//anon");
	return true;
}

static int write_mappings(struct recorder *recorder, pid_t pid)
{
	struct mmap2_record record;
	char *line = NULL;
	char path[32];
	size_t room = 0;
	FILE *file;
	int r = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	while (!r && getline(&line, &room, file) > 0) {
		record = (struct mmap2_record){
			.header = { .type = PERF_RECORD_MMAP2, .misc = PERF_RECORD_MISC_USER },
			.pid = (uint32_t)pid,
			.tid = (uint32_t)pid,
		};
		if (!parse_mapping(line, &record))
			continue;
		if (!(record.prot & PROT_EXEC))
			record.header.misc |= PERF_RECORD_MISC_MMAP_DATA;
		end_record(recorder, &record.header, record.name, record.pid, record.tid);
		r = record_write(recorder, &record, record.header.size);
	}
	free(line);
	fclose(file);
	return r;
}

int record_running(struct recorder *recorder, pid_t pid)
{
	pid_t *tids;
	uint32_t i, n;
	int r;

	r = record_threads(pid, &tids, &n);
	if (r)
		return r;
	for (i = 0; i < n && !r; i++)
		r = write_name(recorder, pid, tids[i]);
	free(tids);
	return r ? r : write_mappings(recorder, pid);
}
