// SPDX-License-Identifier: MIT
/*
 * A memory device sends its list when the kernel asks, which a write to its file
 * trigger_poison_list makes it do; each record is a trace event then [Documentation/ABI/testing/
 * sysfs-bus-cxl]. They are read from a trace instance of this process' own [ftrace.rst], which no
 * other reader of events notices. A file of debugfs clears a line [debugfs-cxl].
 */
#include "tier/poison.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/lines.h"
#include "base/sys.h"
#include "base/util.h"
#include "tier/cxl.h"

#define MEMORIES "/sys/bus/cxl/devices"
#define INSTANCES "/sys/kernel/tracing/instances"
#define CLEARS "/sys/kernel/debug/cxl"

/* One list at a time: the instance is the process'. */
static pthread_mutex_t listing_mutex = PTHREAD_MUTEX_INITIALIZER;

static int write_text(const char *path, const char *text)
{
	int fd = sys_open(path, O_WRONLY, 0);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = sys_write(fd, text, strlen(text));
	sys_close(fd);
	return n < 0 ? (int)n : 0;
}

/* ---- asking ---- */

struct asking {
	int r;
};

static void ask(void *user, const char *memory)
{
	struct asking *asking = user;
	char path[96];
	int r;

	if (asking->r)
		return;
	snprintf(path, sizeof(path), MEMORIES "/%.16s/trigger_poison_list", memory);
	r = write_text(path, "1");
	if (r == -ENOENT)
		r = err_set(-EOPNOTSUPP,
			    "there is no %s: Linux before 6.4, or this memory device, has no "
			    "list of poison",
			    path);
	else if (r)
		r = err_set(r == -EPERM ? -EACCES : r,
			    "%s can't be written, which fetches the list of poison: %s%s", path,
			    err_name(r),
			    r == -EACCES || r == -EPERM ? ": run this as root" : "");
	asking->r = r;
}

static int make_instance(char *path, size_t size)
{
	char events[128];
	int r;

	snprintf(path, size, INSTANCES "/hetmap-%d", getpid());
	r = sys_mkdir(path, 0700);
	/* A process of the same number was killed before it removed its own. */
	if (r == -EEXIST)
		r = sys_remove(path) ? r : sys_mkdir(path, 0700);
	if (r == -EACCES || r == -EPERM)
		return err_set(
			-EACCES,
			"lists of poison come as trace events, which only root may read: "
			"run this as root");
	if (r)
		return err_set(
			-EOPNOTSUPP,
			"lists of poison come as trace events, and %s can't be made: %s: "
			"mount tracefs at /sys/kernel/tracing",
			path, err_name(r));
	snprintf(events, sizeof(events), "%s/events/cxl/cxl_poison/enable", path);
	r = write_text(events, "1");
	if (r) {
		sys_remove(path);
		return err_set(-EOPNOTSUPP, "this kernel has no trace event cxl_poison: %s: %s",
			       events, err_name(r));
	}
	return 0;
}

static void end_events(const char *instance)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/events/cxl/cxl_poison/enable", instance);
	write_text(path, "0");
}

/* ---- reading ---- */

static bool find_number(const char *line, const char *key, uint64_t *ret_number)
{
	const char *at = strstr(line, key);
	char *end;

	if (!at)
		return false;
	at += strlen(key);
	*ret_number = strtoull(at, &end, 0);
	return end != at;
}

/* "... cxl_poison: memdev=mem0 ... trace_type=List region=region0 ... hpa=0x.. dpa=0x.. ..." */
static bool parse(const char *line, const char *region, struct poison_range *range)
{
	const char *at = strstr(line, " cxl_poison: memdev=");
	char wanted[64];
	size_t length;

	snprintf(wanted, sizeof(wanted), " trace_type=List region=%.24s ", region);
	if (!at || !strstr(at, wanted))
		return false;
	at += strlen(" cxl_poison: memdev=");
	length = strcspn(at, " ");
	if (length >= sizeof(range->memory))
		return false;
	memcpy(range->memory, at, length);
	range->memory[length] = '\0';
	return find_number(at, " hpa=", &range->address) && range->address != UINT64_MAX &&
	       find_number(at, " dpa=", &range->dpa) &&
	       find_number(at, " dpa_length=", &range->length);
}

/* Where several memory devices take turns, a range of one of them is in pieces. */
static int hand_on(struct poison_range range, uint64_t ways, uint64_t granularity,
		   int (*each)(void *user, const struct poison_range *range), void *user)
{
	uint64_t left = range.length;
	int r = 0;

	while (left && !r) {
		range.length = left;
		if (ways > 1)
			range.length = min_u64(left, granularity - range.address % granularity);
		r = each(user, &range);
		left -= range.length;
		range.dpa += range.length;
		range.address = round_down(range.address, granularity) + granularity * ways;
	}
	return r;
}

static int read_events(const char *instance, const char *region,
		       int (*each)(void *user, const struct poison_range *range), void *user)
{
	uint64_t ways = 1, granularity = 256;
	struct poison_range range;
	struct lines lines;
	char path[128], *line;
	int r, closed;

	cxl_region_number(region, "interleave_ways", &ways);
	cxl_region_number(region, "interleave_granularity", &granularity);
	if (!ways || !granularity || granularity & (granularity - 1))
		return err_set(-EOPNOTSUPP, "%s: interleaved by %" PRIu64 " ways of %" PRIu64,
			       region, ways, granularity);
	snprintf(path, sizeof(path), "%s/trace", instance);
	r = lines_open(&lines, path);
	if (r)
		return r;
	while (!r && (line = lines_next(&lines))) {
		if (strstr(line, "flags=Overflow"))
			err_warn("%s: the memory device has dropped records of poison", region);
		if (parse(line, region, &range))
			r = hand_on(range, ways, granularity, each, user);
	}
	closed = lines_close(&lines);
	return r ? r : closed;
}

int poison_each(const char *region, int (*each)(void *user, const struct poison_range *range),
		void *user)
{
	struct asking asking = { 0 };
	char instance[64];
	int r;

	pthread_mutex_lock(&listing_mutex);
	r = make_instance(instance, sizeof(instance));
	if (r)
		goto out;
	cxl_each_memory(region, ask, &asking);
	r = asking.r;
	end_events(instance);
	if (!r)
		r = read_events(instance, region, each, user);
	sys_remove(instance);
out:
	pthread_mutex_unlock(&listing_mutex);
	return r;
}

/* ---- clearing ---- */

int poison_clear(const char *memory, uint64_t dpa)
{
	char path[64], text[32];
	int r;

	snprintf(path, sizeof(path), CLEARS "/%.16s/clear_poison", memory);
	snprintf(text, sizeof(text), "0x%" PRIx64, dpa);
	r = write_text(path, text);
	if (r == -EACCES || r == -EPERM)
		return err_set(-EACCES, "%s can't be written: run this as root", path);
	if (r == -ENOENT)
		return err_set(
			-EOPNOTSUPP,
			"there is no %s: the memory device clears nothing, or debugfs is "
			"not mounted at /sys/kernel/debug",
			path);
	return r ? err_set(-EIO, "clearing %s by %s: %s", text, path, err_name(r)) : 0;
}
