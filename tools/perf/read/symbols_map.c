// SPDX-License-Identifier: MIT
/*
 * /tmp/perf-PID.map: lines of "START SIZE NAME", which compilers in a process write for perf
 * [linux/tools/perf/Documentation/jit-interface.txt]. The file stays when its process has
 * ended, and its number may be another process's by then: the time of its writing tells.
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

#include "common/machine.h"
#include "common/text.h"
#include "spaces_range.h"

#define SECOND UINT64_C(1000000000)

struct symbols_map {
	struct range_tree *ranges; /* file is the name */
	bool too_large;
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
	if (machine_read_all("", path, &text))
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
	if (machine_read_all("", path, &text))
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

/* -1: there is none, or it is not the process's. Else *ret_bytes: how many it has. */
static int open_file(const char *path, const struct living *living,
		     const struct symbols_span *recorded, uint64_t *ret_bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) || !is_of(&st, living, recorded)) {
		close(fd);
		return -1;
	}
	*ret_bytes = (uint64_t)st.st_size;
	return fd;
}

/* In its own root, where it is there; else in ours. */
static int find_file(uint32_t pid, const struct symbols_span *recorded, uint64_t *ret_bytes)
{
	struct living living = living_of(pid, recorded);
	char path[96];
	int fd = -1;

	if (living.there) {
		snprintf(path, sizeof(path), "/proc/%" PRIu32 "/root/tmp/perf-%" PRIu32 ".map",
			 pid, living.inner);
		fd = open_file(path, &living, recorded, ret_bytes);
	}
	snprintf(path, sizeof(path), "/tmp/perf-%" PRIu32 ".map", pid);
	return fd < 0 ? open_file(path, &living, recorded, ret_bytes) : fd;
}

/* Reads @bytes, or less if the file has less by now, and ends them with a zero. 0 or -errno. */
static int read_text(int fd, uint64_t bytes, char **ret_text, size_t *ret_length)
{
	char *text = malloc(bytes + 1);
	size_t length = 0;
	ssize_t n = 1;

	if (!text)
		return -ENOMEM;
	while (length < bytes && n > 0) {
		n = read(fd, text + length, bytes - length);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n > 0)
			length += (size_t)n;
	}
	text[length] = '\0';
	*ret_text = text;
	*ret_length = length;
	return 0;
}

static uint64_t count_lines(const char *text, size_t length)
{
	const char *end = text + length;
	uint64_t n = 0;

	while ((text = memchr(text, '\n', (size_t)(end - text)))) {
		text++;
		n++;
	}
	return n;
}

/* Passes over lines of another form. 0 or -ENOMEM. */
static int take_line(struct symbols_map *map, struct spaces *spaces, char *line)
{
	char *at;
	struct range range = { .start = strtoull(line, &at, 16) };
	uint64_t length;
	bool code = false;
	int r;

	if (*at != ' ')
		return 0;
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

static void take_lines(struct symbols_map *map, struct spaces *spaces, char *text,
		       size_t length)
{
	char *end = text + length, *line = text, *next;
	int r = 0;

	/* Without an end a line is being written. */
	while (!r && (next = memchr(line, '\n', (size_t)(end - line)))) {
		*next = '\0';
		r = take_line(map, spaces, line);
		line = next + 1;
	}
}

struct symbols_map *symbols_map_open(struct spaces *spaces, uint32_t pid,
				     const struct symbols_span *recorded)
{
	uint64_t bytes;
	int fd = recorded->to_ns ? find_file(pid, recorded, &bytes) : -1;
	struct symbols_map *map = fd >= 0 ? calloc(1, sizeof(*map)) : NULL;
	char *text = NULL;
	size_t length;

	if (map && bytes > SYMBOLS_MAP_BYTES_MOST) {
		map->too_large = true;
	} else if (map && !read_text(fd, bytes, &text, &length)) {
		map->too_large = count_lines(text, length) > SYMBOLS_MAP_LINES_MOST;
		if (!map->too_large)
			take_lines(map, spaces, text, length);
	}
	free(text);
	if (fd >= 0)
		close(fd);
	return map;
}

bool symbols_map_is_too_large(const struct symbols_map *map)
{
	return map && map->too_large;
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
