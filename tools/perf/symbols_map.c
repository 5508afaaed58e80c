// SPDX-License-Identifier: MIT
/*
 * /tmp/perf-PID.map: lines of "START SIZE NAME", which compilers in a process write for perf
 * [linux/tools/perf/Documentation/jit-interface.txt]. The file stays when its process has ended,
 * and its number may be another process's by then: what tells is when it was written.
 */
#include "symbols_map.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../hetmap/text.h"
#include "spaces_range.h"
#include "stat.h"

#define SECOND UINT64_C(1000000000)

struct symbols_map {
	struct range_tree *ranges; /* file is the name */
};

/* The recorded process, where it is there still: a later one of its number is another one. */
struct living {
	bool there;
	uint64_t began_ns; /* of CLOCK_REALTIME */
	uid_t uid;
	uint32_t inner; /* its number in its own PID namespace, which its files have */
};

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

/* Field 22 of /proc/PID/stat, in ticks since the machine was started. A name may have ')' in it. */
static bool read_began(uint32_t pid, uint64_t *ret_ns)
{
	uint64_t ticks, each = SECOND / (uint64_t)sysconf(_SC_CLK_TCK);
	char path[64], *text, *end;
	bool known;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/stat", pid);
	if (stat_read(NULL, path, &text))
		return false;
	end = strrchr(text, ')');
	known = end && sscanf(end + 1,
			      " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d "
			      "%*d %*d %*d %*d %" SCNu64,
			      &ticks) == 1;
	free(text);
	if (known)
		*ret_ns = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_BOOTTIME) + ticks * each;
	return known;
}

/* "NSpid:\t4711\t12": the last is the innermost. */
static uint32_t inner_number(uint32_t pid)
{
	char path[64], *text, *at, *end;
	uint32_t number = pid;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/status", pid);
	if (stat_read(NULL, path, &text))
		return pid;
	at = strstr(text, "\nNSpid:");
	for (at = at ? at + strlen("\nNSpid:") : NULL; at && *at == '\t'; at = end)
		number = (uint32_t)strtoul(at + 1, &end, 10);
	free(text);
	return number;
}

static struct living living_of(uint32_t pid, const struct symbols_span *recorded)
{
	struct living living = { 0 };
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%" PRIu32, pid);
	living.there = !stat(path, &st) && read_began(pid, &living.began_ns) &&
		       living.began_ns <= recorded->to_ns;
	if (living.there) {
		living.uid = st.st_uid;
		living.inner = inner_number(pid);
	}
	return living;
}

/*
 * Written while it was recorded; or before or since then by that process, which is still there.
 * Only its user and root may say how a process's code is called.
 */
static bool is_of(const struct stat *st, const struct living *living,
		  const struct symbols_span *recorded)
{
	uint64_t written =
		(uint64_t)st->st_mtim.tv_sec * SECOND + (uint64_t)st->st_mtim.tv_nsec;
	bool mine = !st->st_uid || st->st_uid == geteuid();

	if (!S_ISREG(st->st_mode) || !(mine || (living->there && st->st_uid == living->uid)))
		return false;
	if (written >= recorded->from_ns && written <= recorded->to_ns)
		return true;
	return living->there && living->began_ns <= written;
}

static FILE *open_file(const char *path, const struct living *living,
		       const struct symbols_span *recorded)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	FILE *file = NULL;
	struct stat st;

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && is_of(&st, living, recorded))
		file = fdopen(fd, "r");
	if (!file)
		close(fd);
	return file;
}

/* In its own root, where it is there; else in ours. */
static FILE *find_file(uint32_t pid, const struct symbols_span *recorded)
{
	struct living living = living_of(pid, recorded);
	FILE *file = NULL;
	char path[96];

	if (living.there) {
		snprintf(path, sizeof(path), "/proc/%" PRIu32 "/root/tmp/perf-%" PRIu32 ".map",
			 pid, living.inner);
		file = open_file(path, &living, recorded);
	}
	snprintf(path, sizeof(path), "/tmp/perf-%" PRIu32 ".map", pid);
	return file ? file : open_file(path, &living, recorded);
}

/* Passes over lines of another form. 0 or -ENOMEM. */
static int take_line(struct symbols_map *map, struct spaces *spaces, char *line)
{
	char *end = strchr(line, '\n'), *at;
	struct range range = { .start = strtoull(line, &at, 16) };
	uint64_t length;
	bool code = false;
	int r;

	/* Without an end it is being written. */
	if (!end || *at != ' ')
		return 0;
	*end = '\0';
	length = strtoull(at, &at, 16);
	range.end = range.start + length;
	if (*at != ' ' || !at[1] || range.end <= range.start)
		return 0;
	range.file = spaces_string(spaces, at + 1);
	if (!range.file)
		return -ENOMEM;
	/* Code is made anew where other code was. */
	r = range_cut(&map->ranges, range.start, range.end, &code);
	return r ? r : range_insert(&map->ranges, &range);
}

struct symbols_map *symbols_map_open(struct spaces *spaces, uint32_t pid,
				     const struct symbols_span *recorded)
{
	FILE *file = recorded->to_ns ? find_file(pid, recorded) : NULL;
	struct symbols_map *map = file ? calloc(1, sizeof(*map)) : NULL;
	char *line = NULL;
	size_t room = 0;

	while (map && getline(&line, &room, file) > 0)
		if (take_line(map, spaces, line))
			break;
	free(line);
	if (file)
		fclose(file);
	return map;
}

const char *symbols_map_name(const struct symbols_map *map, uint64_t address)
{
	const struct range *range = map && address < UINT64_MAX ?
					    range_find(map->ranges, address, address + 1) :
					    NULL;

	return range ? range->file : NULL;
}

void symbols_map_close(struct symbols_map *map)
{
	if (!map)
		return;
	range_drop(&map->ranges);
	free(map);
}
