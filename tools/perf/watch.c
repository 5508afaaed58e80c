// SPDX-License-Identifier: MIT
/*
 * Keeps what published tables say. The copy is a table itself, of the same format, which
 * grows by an entry whenever one changes: the last one of a map is the one that counts.
 */
#include "watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../hetmap/text.h"
#include "published.h"
#include "record_ring.h"
#include "trace_folder.h"

/* How often tables and children are looked for that were not there. */
#define SEARCH_MS 100

struct watched {
	pid_t pid;
	struct published table; /* fd -1: none is known */
	int copy_fd;            /* -1: none yet */
	struct hm_published_head head;
	bool broken;                  /* the table makes no sense: it tells nothing any more */
	uint64_t forgotten, left_out; /* by tables of programs that it was before */
};

struct watch {
	char *folder;
	struct watched *watched;
	size_t n, room;
	uint64_t searched_ms;
};

static uint64_t now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

static int add(struct watch *watch, pid_t pid)
{
	struct watched *more;
	size_t i;

	for (i = 0; i < watch->n; i++)
		if (watch->watched[i].pid == pid)
			return 0;
	if (watch->n == watch->room) {
		more = realloc(watch->watched, (2 * watch->room + 8) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		watch->watched = more;
		watch->room = 2 * watch->room + 8;
	}
	watch->watched[watch->n++] =
		(struct watched){ .pid = pid, .table.fd = -1, .copy_fd = -1 };
	return 0;
}

/* ---- the copies ---- */

static int make_copy(struct watch *watch, struct watched *watched)
{
	char *name = text_format("maps/maps.%d", (int)watched->pid);
	char *path = trace_folder_file(watch->folder, name);

	watched->copy_fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	free(path);
	free(name);
	if (watched->copy_fd < 0)
		return -errno;
	watched->head = watched->table.head;
	/* In this namespace, as the records have it. */
	watched->head.pid = (uint64_t)watched->pid;
	watched->head.entry_size = sizeof(struct hm_published_entry);
	watched->head.n_entry = watched->head.used = 0;
	return 0;
}

static int keep(void *user, const struct hm_published_entry *entry)
{
	struct watched *watched = user;
	struct hm_published_head *head = &watched->head;
	int r = write_at(watched->copy_fd, entry, sizeof(*entry),
			 HM_PUBLISHED_FIRST + head->used * sizeof(*entry));

	if (!r)
		head->n_entry = ++head->used;
	return r;
}

static void look_at(struct watch *watch, struct watched *watched)
{
	uint64_t used = watched->head.used;

	if (watched->table.fd < 0 || watched->broken ||
	    (watched->copy_fd < 0 && make_copy(watch, watched)))
		return;
	watched->broken = published_each(&watched->table, keep, watched) != 0;
	watched->head.forgotten = watched->forgotten + watched->table.head.forgotten;
	watched->head.left_out = watched->left_out + watched->table.head.left_out;
	if (watched->head.used != used)
		write_at(watched->copy_fd, &watched->head, sizeof(watched->head), 0);
}

/* ---- who is there ---- */

static void add_children_of_thread(struct watch *watch, pid_t pid, const char *tid)
{
	char path[64];
	FILE *file;
	int child;

	snprintf(path, sizeof(path), "/proc/%d/task/%.16s/children", (int)pid, tid);
	file = fopen(path, "re");
	while (file && fscanf(file, "%d", &child) == 1)
		add(watch, child);
	if (file)
		fclose(file);
}

static void add_children(struct watch *watch, pid_t pid)
{
	struct dirent *entry;
	char path[32];
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks)))
		if (entry->d_name[0] != '.')
			add_children_of_thread(watch, pid, entry->d_name);
	if (tasks)
		closedir(tasks);
}

/*
 * Its table, or that of the program which it is by now: execve(2) closed the one before.
 * Who closed it otherwise writes to it still, and has no other one.
 */
static void find_table(struct watch *watch, struct watched *watched)
{
	struct published table;

	if (watched->table.fd >= 0 && published_is_open(&watched->table, watched->pid))
		return;
	if (published_open_process(watched->pid, &table))
		return;
	look_at(watch, watched);
	watched->forgotten = watched->head.forgotten;
	watched->left_out = watched->head.left_out;
	published_close(&watched->table);
	watched->table = table;
	watched->broken = false;
}

static void search(struct watch *watch)
{
	size_t i;

	for (i = 0; i < watch->n; i++) {
		add_children(watch, watch->watched[i].pid); /* they are looked at, too */
		find_table(watch, &watch->watched[i]);
	}
	watch->searched_ms = now_ms();
}

int watch_begin(pid_t pid, const char *folder, struct watch **ret_watch)
{
	struct watch *watch = calloc(1, sizeof(*watch));
	int r;

	if (!watch)
		return -ENOMEM;
	watch->folder = strdup(folder);
	r = watch->folder ? add(watch, pid) : -ENOMEM;
	if (r) {
		watch_end(watch);
		return r;
	}
	search(watch);
	watch_look(watch);
	*ret_watch = watch;
	return 0;
}

void watch_look(struct watch *watch)
{
	size_t i;

	if (now_ms() - watch->searched_ms >= SEARCH_MS)
		search(watch);
	for (i = 0; i < watch->n; i++)
		look_at(watch, &watch->watched[i]);
}

void watch_end(struct watch *watch)
{
	size_t i;

	if (!watch)
		return;
	for (i = 0; i < watch->n; i++) {
		published_close(&watch->watched[i].table);
		if (watch->watched[i].copy_fd >= 0)
			close(watch->watched[i].copy_fd);
	}
	free(watch->watched);
	free(watch->folder);
	free(watch);
}
