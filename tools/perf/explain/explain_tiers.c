// SPDX-License-Identifier: MIT
/*
 * A dry run of tiering for another process. The kernel forgets which pages were referenced
 * [clear_refs, proc(5)], and tells a second later which mappings have how many again. Nothing
 * moves, but the kernel's own choice of pages to swap out begins anew.
 */
#include "explain_tiers.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <hetmap/hetmap.h>

#include "common/command.h"
#include "common/machine.h"
#include "common/text.h"
#include "common/tiers.h"

#define LOOK_SECONDS 1
#define SHOWN 8 /* mappings */

struct ladder {
	uint64_t latency[EXPLAIN_TIERS_NODES];
	uint64_t room; /* free bytes of the fast node */
	uint32_t fast;
	uint32_t nodes;
};

static int read_ladder(struct ladder *ladder)
{
	struct hm_tier *tiers;
	uint32_t n, i;
	int r = tiers_list(&tiers, &n);

	*ladder = (struct ladder){ 0 };
	if (r)
		return fail(STATUS_ENVIRONMENT, r, NULL, "the ladder of memory: %s",
			    hm_errmsg());
	for (i = 0; i < n; i++) {
		if (strncmp(tiers[i].device, "node:", 5) != 0 ||
		    tiers[i].node >= EXPLAIN_TIERS_NODES)
			continue;
		ladder->nodes++;
		ladder->latency[tiers[i].node] = tiers[i].latency;
		if (tiers[i].words >> HM_TIER_FAST & 1) {
			ladder->fast = (uint32_t)tiers[i].node;
			ladder->room = tiers[i].available;
		}
	}
	free(tiers);
	if (ladder->nodes > 1)
		return 0;
	return fail(STATUS_ENVIRONMENT, ENODEV, NULL,
		    "this machine has memory of one node only: there is nothing to move to");
}

static int refuse(pid_t pid, int r)
{
	const bool gone = r == -ENOENT || r == -ESRCH;

	return fail(STATUS_ENVIRONMENT, gone ? ESRCH : r,
		    gone ? NULL : "run hetmap as the process's user, or with sudo",
		    gone ? "there is no process %d" : "cannot look into process %d", (int)pid);
}

static int forget_touches(pid_t pid)
{
	char path[40];
	int fd, r = 0;

	snprintf(path, sizeof(path), "/proc/%d/clear_refs", (int)pid);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, "1", 1) < 0)
		r = -errno;
	close(fd);
	return r;
}

static int read_file(pid_t pid, const char *name, char **ret_text)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return machine_read_all("", path, ret_text);
}

/* *@ret_text has the names of the rows. */
static int look(pid_t pid, struct tier_rows *rows, char **ret_text)
{
	struct timespec second = { .tv_sec = LOOK_SECONDS };
	char *smaps, *numa_maps;
	int r = forget_touches(pid);

	if (!r && clock_nanosleep(CLOCK_MONOTONIC, 0, &second, NULL))
		r = -EINTR;
	if (!r)
		r = read_file(pid, "smaps", &smaps);
	if (r)
		return r;
	r = read_file(pid, "numa_maps", &numa_maps);
	if (!r) {
		r = tier_rows_read(smaps, rows);
		if (!r)
			tier_rows_place(numa_maps, rows);
		free(numa_maps);
	}
	if (r)
		free(smaps);
	else
		*ret_text = smaps;
	return r;
}

static void print(pid_t pid, const struct tier_rows *rows, const struct ladder *ladder,
		  const struct tier_plan *plan)
{
	char touched[TEXT_MAX], slow[TEXT_MAX], bytes[TEXT_MAX];
	size_t i, n = 0;

	printf("process %d touched %s in a second, %s of them not on the fast tier (node %u)\n",
	       (int)pid, text_bytes(plan->touched, touched),
	       text_bytes(plan->touched_slow, slow), ladder->fast);
	for (i = 0; i < rows->n && n < SHOWN; i++) {
		const struct tier_row *row = &rows->rows[i];
		char *name;

		if (!row->promoted)
			continue;
		n++;
		name = text_escape(row->name);
		printf("  0x%" PRIx64 "  %s resident, %s touched, would promote %s  %s\n",
		       row->start, text_bytes(row->resident, bytes),
		       text_bytes(row->touched, touched), text_bytes(row->promoted, slow),
		       name);
		free(name);
	}
	if (!plan->promoted)
		puts("no hot bytes would move");
	else if (plan->latency_now > 0)
		printf("%s would move; a read that misses the caches takes %.0f ns now, and "
		       "%.0f ns then (%.2f of it)\n",
		       text_bytes(plan->promoted, bytes), plan->latency_now, plan->latency_then,
		       plan->latency_then / plan->latency_now);
	else
		printf("%s would move\n", text_bytes(plan->promoted, bytes));
}

static json_t *json_latency(double ns)
{
	return ns > 0 ? json_real(ns) : json_null();
}

static void print_json(pid_t pid, const struct tier_rows *rows, const struct ladder *ladder,
		       const struct tier_plan *plan)
{
	json_t *object = json_object(), *array = json_array();
	char address[32], *name;
	size_t i;

	for (i = 0; i < rows->n; i++) {
		const struct tier_row *row = &rows->rows[i];
		json_t *one;

		if (!row->touched)
			continue;
		one = json_object();
		snprintf(address, sizeof(address), "0x%" PRIx64, row->start);
		name = text_escape_json(row->name);
		json_object_set_new(one, "address", json_string(address));
		json_object_set_new(one, "name", json_string(name));
		json_object_set_new(one, "resident", json_integer((json_int_t)row->resident));
		json_object_set_new(one, "touched", json_integer((json_int_t)row->touched));
		json_object_set_new(one, "promote", json_integer((json_int_t)row->promoted));
		json_array_append_new(array, one);
		free(name);
	}
	json_object_set_new(object, "pid", json_integer(pid));
	json_object_set_new(object, "fast_node", json_integer(ladder->fast));
	json_object_set_new(object, "touched", json_integer((json_int_t)plan->touched));
	json_object_set_new(object, "touched_slow",
			    json_integer((json_int_t)plan->touched_slow));
	json_object_set_new(object, "promote", json_integer((json_int_t)plan->promoted));
	json_object_set_new(object, "latency_now_ns", json_latency(plan->latency_now));
	json_object_set_new(object, "latency_then_ns", json_latency(plan->latency_then));
	json_object_set_new(object, "mappings", array);
	output_object(object);
}

int explain_tiers(pid_t pid)
{
	struct tier_rows rows;
	struct ladder ladder;
	struct tier_plan plan;
	char *text;
	int r, status = read_ladder(&ladder);

	if (status)
		return status;
	r = look(pid, &rows, &text);
	if (r)
		return r == -EINTR ? 128 + signals_pending() : refuse(pid, r);
	tier_rows_plan(&rows, ladder.fast, ladder.room, ladder.latency, &plan);
	if (output.json)
		print_json(pid, &rows, &ladder, &plan);
	else
		print(pid, &rows, &ladder, &plan);
	free(rows.rows);
	free(text);
	return STATUS_DONE;
}
