// SPDX-License-Identifier: MIT
/*
 * Keeps the contents of published tables. The copy is a table itself, of the same format, which
 * grows by an entry whenever one changes: the last one of a map is the one that counts.
 */
#include "watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/text.h"
#include "perf/read/published.h"
#include "perf/read/serials.h"
#include "record_file.h"

/* How often tables and children are looked for that were not there. */
#define SEARCH_MS 100
/* And at those that are: one remembers some thousands of maps that have ended. */
#define LOOK_MS 10
/* Of one number: programs that had it, one after the other. */
#define COPIES_MOST 1000
#define N_RANGE_SUM                                      \
	((offsetof(struct hm_published_range, accel) -   \
	  offsetof(struct hm_published_range, faults)) / \
	 sizeof(uint64_t))

struct watched {
	pid_t pid;
	uint64_t began;         /* in clock ticks: another one may have its number later */
	struct published table; /* fd -1: none is known */
	int copy_fd;            /* -1: none yet */
	struct hm_published_head head;
	bool broken;                  /* the table makes no sense: it tells nothing any more */
	bool running;                 /* the table was there before the trace */
	bool looked_at;               /* it was */
	uint64_t forgot_before;       /* the maps that it had forgotten then */
	struct serials serials;       /* of the table */
	uint64_t forgotten, left_out; /* by tables of programs that it was before */
	/* Ranges of all of its tables, which the copy has at its end; those before the trace. */
	struct hm_published_range *ranges, *before;
	uint64_t n_range, n_before, ranges_left_out;
};

struct watch {
	int folder_fd; /* the caller's */
	struct watched *watched;
	size_t n, room;
	uint64_t searched_ms;
	unsigned int n_lost; /* tables of which not all could be kept */

	/* Beside who drains the rings: to look at thousands of processes takes too long. */
	pthread_t thread; /* has all of the above until it has ended */
	bool runs;
	pthread_mutex_t lock; /* protects the below */
	pthread_cond_t stopped;
	bool stop;
};

static uint64_t now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

/*
 * When it began; false: it has ended, but maybe for who started it. Of one whose first
 * thread has ended the others are counted [proc_pid_stat(5)].
 */
static bool is_there(pid_t pid, uint64_t *ret_began)
{
	char path[32], text[1024], state, *at;
	unsigned long long began;
	bool there = false;
	long threads;
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	fclose(file);
	/* The name before it may have any character. */
	at = strrchr(text, ')');
	if (at && sscanf(at,
			 ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
			 "%*d %ld %*d %llu",
			 &state, &threads, &began) == 3) {
		there = (state != 'Z' && state != 'X') || threads > 1;
		*ret_began = began;
	}
	return there;
}

static int add(struct watch *watch, pid_t pid)
{
	struct watched *more;
	uint64_t began;
	size_t i;

	for (i = 0; i < watch->n; i++)
		if (watch->watched[i].pid == pid)
			return 0;
	if (!is_there(pid, &began))
		return -ESRCH;
	if (watch->n == watch->room) {
		more = realloc(watch->watched, (2 * watch->room + 8) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		watch->watched = more;
		watch->room = 2 * watch->room + 8;
	}
	watch->watched[watch->n++] =
		(struct watched){ .pid = pid, .began = began, .table.fd = -1, .copy_fd = -1 };
	return 0;
}

/* ---- the copies ---- */

static int make_copy(struct watch *watch, struct watched *watched)
{
	char *name;
	int n;

	/* Another one may have had its number. */
	for (n = 0; n < COPIES_MOST && watched->copy_fd < 0; n++) {
		name = n ? text_format("maps/maps.%d.%d", (int)watched->pid, n) :
			   text_format("maps/maps.%d", (int)watched->pid);
		watched->copy_fd = openat(watch->folder_fd, name,
					  O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		free(name);
		if (watched->copy_fd < 0 && errno != EEXIST)
			return -errno;
	}
	if (watched->copy_fd < 0)
		return -EEXIST;
	watched->head = watched->table.head;
	/* In this namespace, as the records have it. */
	watched->head.pid = (uint64_t)watched->pid;
	watched->head.entry_size = sizeof(struct hm_published_entry);
	watched->head.n_entry = watched->head.used = 0;
	watched->head.forgotten = 0;
	watched->head.n_range = watched->head.ranges_used = 0;
	watched->head.ranges_left_out = 0;
	return 0;
}

static int keep(void *user, const struct hm_published_entry *entry)
{
	struct watched *watched = user;
	struct hm_published_head *head = &watched->head;
	int r = write_at(watched->copy_fd, entry, sizeof(*entry),
			 HM_PUBLISHED_FIRST + head->used * sizeof(*entry));

	if (r)
		return r;
	head->n_entry = ++head->used;
	return serials_add(&watched->serials, entry->serial);
}

/* ---- ranges ---- */

/* Events before the trace began are none of the trace's. */
static void subtract(struct hm_published_range *range, const struct watched *watched)
{
	const size_t first = offsetof(struct hm_published_range, faults);
	uint64_t now[N_RANGE_SUM], then[N_RANGE_SUM];
	uint64_t i, k;

	for (i = 0; i < watched->n_before; i++) {
		const struct hm_published_range *before = &watched->before[i];

		if (!before->end || before->first_ns != range->first_ns ||
		    before->map != range->map || before->start < range->start ||
		    before->end > range->end || strcmp(before->accel, range->accel) != 0)
			continue;
		memcpy(now, (char *)range + first, sizeof(now));
		memcpy(then, (const char *)before + first, sizeof(then));
		for (k = 0; k < N_RANGE_SUM; k++)
			now[k] -= then[k] < now[k] ? then[k] : now[k];
		memcpy((char *)range + first, now, sizeof(now));
		return;
	}
}

static void keep_ranges(struct watched *watched)
{
	struct hm_published_range *ranges, *more;
	uint64_t i, n, left_out;

	if (watched->broken || published_ranges(&watched->table, &ranges, &n, &left_out))
		return;
	watched->ranges_left_out += left_out;
	more = n ? realloc(watched->ranges, (watched->n_range + n) * sizeof(*more)) : NULL;
	if (more) {
		watched->ranges = more;
		for (i = 0; i < n; i++) {
			if (!ranges[i].end)
				continue;
			more[watched->n_range] = ranges[i];
			subtract(&more[watched->n_range++], watched);
		}
	} else {
		watched->ranges_left_out += n;
	}
	free(ranges);
}

/* Behind the last entry: no entry comes any more. */
static void write_ranges(struct watched *watched)
{
	struct hm_published_head *head = &watched->head;
	const uint64_t end =
		HM_PUBLISHED_FIRST + head->used * sizeof(struct hm_published_entry);

	if (watched->copy_fd < 0 || (!watched->n_range && !watched->ranges_left_out))
		return;
	head->range_first = (end + 4095) / 4096 * 4096;
	head->range_size = sizeof(struct hm_published_range);
	head->n_range = head->ranges_used = watched->n_range;
	head->ranges_left_out = watched->ranges_left_out;
	if (write_at(watched->copy_fd, watched->ranges,
		     watched->n_range * sizeof(struct hm_published_range), head->range_first))
		head->n_range = head->ranges_used = 0;
}

static void write_head(const struct watched *watched)
{
	if (watched->copy_fd >= 0)
		write_at(watched->copy_fd, &watched->head, sizeof(watched->head), 0);
}

static void look_at(struct watch *watch, struct watched *watched)
{
	uint64_t used = watched->head.used, left_out, ignored;
	int r;

	if (watched->table.fd < 0 || watched->broken)
		return;
	r = watched->copy_fd < 0 ? make_copy(watch, watched) : 0;
	if (!r)
		r = published_each(&watched->table, keep, watched);
	if (r) {
		watched->broken = true;
		watch->n_lost++;
		if (watched->copy_fd < 0)
			return;
	}
	if (!watched->looked_at) {
		serials_begin(&watched->serials);
		watched->forgot_before = watched->table.head.forgotten;
		/*
		 * The forgotten maps of a process that began under the trace were never seen.
		 */
		if (!watched->running)
			watched->forgotten += watched->forgot_before;
		else if (published_ranges(&watched->table, &watched->before, &watched->n_before,
					  &ignored))
			watched->n_before = 0;
		watched->looked_at = true;
	}
	left_out = watched->left_out + watched->table.head.left_out;
	if (watched->head.used != used || watched->head.left_out != left_out) {
		watched->head.left_out = left_out;
		write_head(watched);
	}
}

/*
 * Nothing more comes from its table. Forgotten maps are no loss if they were copied before, or
 * ended before the trace began; and there are no more than the table counts.
 */
static void end_table(struct watched *watched)
{
	uint64_t missing = serials_missing(&watched->serials);
	uint64_t most = watched->table.head.forgotten - watched->forgot_before;

	if (watched->table.fd >= 0)
		keep_ranges(watched);
	free(watched->before);
	watched->before = NULL;
	watched->n_before = 0;
	watched->forgotten += missing < most ? missing : most;
	watched->left_out += watched->table.head.left_out;
	watched->head.forgotten = watched->forgotten;
	watched->head.left_out = watched->left_out;
	write_head(watched);
	serials_free(&watched->serials);
	watched->looked_at = watched->running = false;
	published_close(&watched->table);
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
	uint64_t began;

	if (watched->table.fd >= 0 && published_is_open(&watched->table, watched->pid))
		return;
	if (published_open_process(watched->pid, &table))
		return;
	/* It ended meanwhile: that may be a stranger's, who has its number now. */
	if (!is_there(watched->pid, &began) || began != watched->began) {
		published_close(&table);
		return;
	}
	look_at(watch, watched);
	end_table(watched);
	watched->table = table;
	watched->broken = false;
}

static void let_go(struct watched *watched)
{
	end_table(watched);
	write_ranges(watched);
	write_head(watched);
	free(watched->ranges);
	if (watched->copy_fd >= 0)
		close(watched->copy_fd);
}

/* Files that only it had open stay as long as they are open here. */
static void drop_ended(struct watch *watch)
{
	struct watched *watched;
	size_t i, n = 0;
	uint64_t began;

	for (i = 0; i < watch->n; i++) {
		watched = &watch->watched[i];
		if (is_there(watched->pid, &began) && began == watched->began) {
			watch->watched[n++] = *watched;
			continue;
		}
		look_at(watch, watched);
		let_go(watched);
	}
	watch->n = n;
}

static void search(struct watch *watch)
{
	size_t i;

	drop_ended(watch);
	for (i = 0; i < watch->n; i++) {
		add_children(watch, watch->watched[i].pid); /* they are looked at, too */
		find_table(watch, &watch->watched[i]);
	}
	watch->searched_ms = now_ms();
}

static void look(struct watch *watch)
{
	size_t i;

	if (now_ms() - watch->searched_ms >= SEARCH_MS)
		search(watch);
	for (i = 0; i < watch->n; i++)
		look_at(watch, &watch->watched[i]);
}

static bool has_any(const struct watch *watch)
{
	size_t i;

	for (i = 0; i < watch->n; i++)
		if (watch->watched[i].table.fd >= 0)
			return true;
	return false;
}

/* False: it is to stop. */
static bool wait_a_little(struct watch *watch, long ms)
{
	struct timespec until;
	int r = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += ms * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&watch->lock);
	while (!watch->stop && !r)
		r = pthread_cond_timedwait(&watch->stopped, &watch->lock, &until);
	pthread_mutex_unlock(&watch->lock);
	return r;
}

static void *watch_main(void *user)
{
	struct watch *watch = user;

	while (wait_a_little(watch, has_any(watch) ? LOOK_MS : SEARCH_MS))
		look(watch);
	return NULL;
}

/* Signals are for who waits for them. */
static int start(struct watch *watch)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&watch->thread, NULL, watch_main, watch);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	watch->runs = !r;
	return -r;
}

static int make_lock(struct watch *watch)
{
	pthread_condattr_t monotonic;
	int r;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	r = pthread_cond_init(&watch->stopped, &monotonic);
	pthread_condattr_destroy(&monotonic);
	pthread_mutex_init(&watch->lock, NULL);
	return -r;
}

int watch_begin(pid_t pid, int folder_fd, struct watch **ret_watch)
{
	struct watch *watch = calloc(1, sizeof(*watch));
	size_t i;
	int r;

	if (!watch)
		return -ENOMEM;
	r = make_lock(watch);
	if (r) {
		free(watch);
		return r;
	}
	watch->folder_fd = folder_fd;
	r = add(watch, pid);
	if (!r) {
		search(watch);
		for (i = 0; i < watch->n; i++)
			watch->watched[i].running = watch->watched[i].table.fd >= 0;
		look(watch);
		r = start(watch);
	}
	if (r) {
		watch_end(watch);
		return r;
	}
	*ret_watch = watch;
	return 0;
}

void watch_finish(struct watch *watch)
{
	if (!watch->runs)
		return;
	pthread_mutex_lock(&watch->lock);
	watch->stop = true;
	pthread_cond_signal(&watch->stopped);
	pthread_mutex_unlock(&watch->lock);
	pthread_join(watch->thread, NULL);
	watch->runs = false;
	look(watch);
}

unsigned int watch_lost(const struct watch *watch)
{
	return watch ? watch->n_lost : 0;
}

void watch_end(struct watch *watch)
{
	size_t i;

	if (!watch)
		return;
	watch_finish(watch);
	for (i = 0; i < watch->n; i++)
		let_go(&watch->watched[i]);
	pthread_cond_destroy(&watch->stopped);
	pthread_mutex_destroy(&watch->lock);
	free(watch->watched);
	free(watch);
}
