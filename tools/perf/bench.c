// SPDX-License-Identifier: MIT
/* hetmap bench: options, the list of benchmarks, and how results are shown. */
#include "bench.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hetmap/hetmap.h>

#include "../hetmap/command.h"
#include "../hetmap/text.h"
#include "bench_options.h"
#include "peer.h"

enum { OPTION_JSON, OPTION_LIST, OPTION_SHOW_PEER, OPTION_ROUNDS, OPTION_HELP };

static const struct option_row rows[] = {
	[OPTION_JSON] = { 0, "json", NULL, "one JSON object a line" },
	[OPTION_LIST] = { 0, "list", NULL, "list the cases, measure nothing" },
	[OPTION_SHOW_PEER] = { 0, "show-peer", NULL,
			       "print the code compared with, measure nothing" },
	[OPTION_ROUNDS] = { 0, "rounds", "N", "samples of each side (default: by case)" },
	[OPTION_HELP] = OPTION_ROW_HELP,
	{ 0 },
};

static const struct bench benches[] = {
	{ "map_cycle", "create, map, touch and release 64 KiB", bench_map_cycle,
	  peer_maps_source },
	{ "protect_pair", "take the right to write away and give it back, 64 KiB",
	  bench_protect_pair, peer_maps_source },
	{ "lock_pair", "lock and unlock 64 KiB", bench_lock_pair, peer_maps_source },
	{ "pointer_find", "look addresses up among 10,000 and 60,000 maps", bench_pointer_find,
	  peer_pointer_source },
	{ "launch", "an empty kernel, and wait for it", bench_launch, peer_opencl_source },
	{ "zero_copy", "SAXPY on 2 x 256 MiB, in place", bench_zero_copy, peer_opencl_source },
	{ "grow", "1 GiB in sixteen steps, at one address", bench_grow, peer_maps_source },
	{ "first_touch", "1 GiB of new memory, every page written", bench_first_touch,
	  peer_maps_source },
	{ "soft_submit", "an empty command on soft:0, and wait for it", bench_soft_submit,
	  peer_sim_source },
	{ "sim_fault", "256 MiB of VRAM of sim:0, every page written", bench_sim_fault,
	  peer_sim_source },
	{ "sim_submit", "an empty command on sim:0, and wait for it", bench_sim_submit,
	  peer_sim_source },
	{ "sim_copy", "64 MiB copied by the engine of sim:0", bench_sim_copy, peer_sim_source },
	{ "transfer_1g", "1 GiB from a producer to the engine's result", bench_transfer_1g,
	  peer_sim_source },
	{ "dmabuf_bracket", "an access of the CPU's to a dma-buf, begun and ended",
	  bench_dmabuf_bracket, peer_dmabuf_source },
	{ "drm_map_cycle", "create, map, touch and release 1 MiB on a DRM node",
	  bench_drm_map_cycle, peer_drm_source },
	{ "drm_reuse", "the same, where an idle object is used again", bench_drm_reuse,
	  peer_drm_source },
	{ "dmabuf_share", "a dma-buf sent to another process, mapped and read there",
	  bench_dmabuf_share, peer_dmabuf_source },
	{ "guard_copy", "copies into a map, with an error instead of a signal",
	  bench_guard_copy, peer_maps_source },
	{ "find_under_churn", "look-ups while another thread maps and unmaps without pause",
	  bench_find_under_churn, peer_maps_source },
	{ "retire", "the last reference to a map of 1 MiB, as its caller sees it", bench_retire,
	  peer_maps_source },
	{ "lost_to_usable", "a lost device, until 256 MiB with a shadow are touched",
	  bench_lost_to_usable, peer_maps_source },
	{ "shadow_cost", "the end of a bracket over 1 MiB of a buffer with a shadow",
	  bench_shadow_cost, peer_maps_source },
};

#define N_BENCH (sizeof(benches) / sizeof(benches[0]))

struct bench_options bench_options;

/* The benchmark that runs, and the one whose head was printed last. */
static const struct bench *running, *headed;

static void usage(void)
{
	puts("Usage: hetmap bench [OPTION]... [CASE]...\n"
	     "\n"
	     "Measures the library against bare system calls and bare OpenCL, in turns in one\n"
	     "process. The ratio is our time over the peer's: lower is better. A target that\n"
	     "is missed is no failure of the command; other load on the machine shows.\n"
	     "\n"
	     "Options:");
	option_help(rows);
	puts("\n"
	     "Examples:\n"
	     "  hetmap bench                     all cases, about two minutes\n"
	     "  hetmap bench map_cycle --json\n"
	     "  hetmap bench --show-peer pointer_find\n"
	     "\n"
	     "See also hetmap-bench(1).");
}

/* ---- results ---- */

static void head(void)
{
	if (headed == running)
		return;
	if (!headed)
		printf("%-26s%10s%10s%10s%6s  %s\n", "", "median", "p99", "peer", "ratio",
		       "target");
	headed = running;
	printf("%s: %s\n", running->name, running->summary);
}

static const char *figure(double value, const char *unit, char *text, size_t size)
{
	int digits = fabs(value) < 9.995 ? 2 : fabs(value) < 999.5 ? 1 : 0;

	snprintf(text, size, "%.*f %s", digits, value, unit);
	return text;
}

static void report_json(const struct bench_result *result, double ratio, bool met)
{
	json_t *line = json_pack("{s:s, s:s, s:s, s:f, s:f, s:s, s:f, s:f}", "bench",
				 running->name, "case", result->name, "unit", result->unit,
				 "value", result->value, "p99", result->p99, "peer",
				 result->peer, "peer_value", result->peer_value, "ratio",
				 ratio);

	if (line && result->kind != TARGET_NONE) {
		json_object_set_new(
			line, result->kind == TARGET_RATIO ? "target_ratio" : "target_value",
			json_real(result->target));
		json_object_set_new(line, "met", json_boolean(met));
	}
	json_dumpf(line, stdout, JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(line);
}

void bench_report(const struct bench_result *result)
{
	double ratio = result->peer_value > 0 ? result->value / result->peer_value : 0;
	bool met = (result->kind == TARGET_RATIO ? ratio : result->value) <= result->target;
	char value[TEXT_MAX], p99[TEXT_MAX], peer[TEXT_MAX], target[2 * TEXT_MAX] = "";

	if (output.json) {
		report_json(result, ratio, met);
		goto flush;
	}
	head();
	if (result->kind == TARGET_RATIO)
		snprintf(target, sizeof(target), "  <= %.2f %s", result->target,
			 met ? "met" : "MISSED");
	if (result->kind == TARGET_VALUE)
		snprintf(target, sizeof(target), "  <= %.4g %s %s", result->target,
			 result->unit, met ? "met" : "MISSED");
	printf("  %-24s%10s%10s%10s %5.2f%s\n", result->name,
	       figure(result->value, result->unit, value, sizeof(value)),
	       figure(result->p99, result->unit, p99, sizeof(p99)),
	       figure(result->peer_value, result->unit, peer, sizeof(peer)), ratio, target);
flush:
	output_flush();
}

void bench_report_pair(const struct bench_pair *pair, const struct bench_figures *figures,
		       const char *unit, double ns, enum bench_target kind, double target)
{
	const struct bench_result result = {
		.name = pair->name,
		.unit = unit,
		.value = figures->value / ns,
		.p99 = figures->p99 / ns,
		.peer = pair->peer,
		.peer_value = figures->peer_value / ns,
		.kind = kind,
		.target = target,
	};

	bench_report(&result);
}

int bench_compare(const struct bench_pair *pair, void *user, const char *unit, double ns,
		  enum bench_target kind, double target)
{
	struct bench_figures figures;
	int r = bench_measure(pair, user, &figures);

	if (!r)
		bench_report_pair(pair, &figures, unit, ns, kind, target);
	return r;
}

void bench_skip(const char *name, const char *format, ...)
{
	char reason[1024];
	va_list list;

	va_start(list, format);
	vsnprintf(reason, sizeof(reason), format, list);
	va_end(list);
	if (output.json) {
		json_t *line = json_pack("{s:s, s:s, s:s}", "bench", running->name, "case",
					 name, "skipped", reason);

		json_dumpf(line, stdout, 0);
		putchar('\n');
		json_decref(line);
	} else {
		head();
		printf("  %-24s  skipped: ", name);
		text_wrap(reason, 37, 28, 80);
	}
	output_flush();
}

int bench_fail(const char *name, int r, bool ours)
{
	const char *text = ours ? hm_errmsg() : strerror(-r);

	fprintf(stderr, "hetmap: bench %s, %s: %s: %s\n", running->name, name,
		ours ? "hetmap" : "the peer", text[0] ? text : strerror(-r));
	return r;
}

/* ---- the peers' code ---- */

/* The text behind the last '/' '*' that heads a part: does it name @name? */
static bool part_names(const char *head, const char *end, const char *name)
{
	size_t length = strlen(name);
	const char *at;

	for (at = head; at + length < end; at++)
		if (!strncmp(at, name, length) && at[-1] == ' ' && at[length] == ' ')
			return true;
	return false;
}

/* Prints those parts of the peer's file that are headed by the benchmark's name. */
static void show_peer(const struct bench *bench)
{
	static const char mark[] = "\n/* ---- ";
	const char *part = strstr(bench->peer_source, mark);

	printf("/* The peer of %s: %s. */\n", bench->name, bench->summary);
	while (part) {
		const char *next = strstr(part + 1, mark);
		const char *line_end = strchr(part + 1, '\n');
		size_t length = next ? (size_t)(next - part) : strlen(part);

		if (line_end && part_names(part + 1, line_end, bench->name))
			printf("%.*s", (int)length, part);
		part = next;
	}
	putchar('\n');
}

/* ---- the command ---- */

static const struct bench *find(const char *name)
{
	size_t i;

	for (i = 0; i < N_BENCH; i++)
		if (!strcmp(benches[i].name, name))
			return &benches[i];
	return NULL;
}

static int refuse(const char *name)
{
	const char *names[N_BENCH + 1] = { NULL };
	const char *nearest;
	size_t i;

	for (i = 0; i < N_BENCH; i++)
		names[i] = benches[i].name;
	nearest = option_nearest(name, names);
	if (nearest)
		return fail(STATUS_USAGE, EINVAL, NULL,
			    "bench: there is no case '%s': did you mean %s?", name, nearest);
	return fail(STATUS_USAGE, EINVAL, NULL,
		    "bench: there is no case '%s': see hetmap bench --list", name);
}

static int run_selected(const bool *selected)
{
	int status = STATUS_DONE;
	size_t i;

	for (i = 0; i < N_BENCH; i++) {
		if (!selected[i])
			continue;
		running = &benches[i];
		if (running->run())
			status = STATUS_ENVIRONMENT;
		if (signals_pending())
			return 128 + signals_pending();
		/* Nobody reads on: minutes of measuring would be for nothing. */
		if (!output_flush())
			break;
	}
	return status;
}

int bench_main(int argc, char **argv)
{
	struct option_state state = {
		.command = "bench",
		.rows = rows,
		.argc = argc,
		.argv = argv,
		.next = 1,
	};
	bool selected[N_BENCH] = { false };
	bool any = false, list = false, show = false;
	const struct bench *bench;
	uint64_t rounds;
	size_t i;
	int option;

	/* One of them takes the device away; whoever has settings of his own says so there. */
	setenv("HETMAP_SOFT", "test=1", 0);
	while ((option = option_next(&state)) != OPTION_END) {
		switch (option) {
		case OPTION_JSON:
			output.json = true;
			break;
		case OPTION_LIST:
			list = true;
			break;
		case OPTION_SHOW_PEER:
			show = true;
			break;
		case OPTION_ROUNDS:
			if (option_number(state.value, 1, 1000000, &rounds))
				return option_refuse(&state, option,
						     "a number from 1 to 1000000");
			bench_options.rounds = (unsigned int)rounds;
			break;
		case OPTION_HELP:
			usage();
			return STATUS_DONE;
		case OPTION_ARGUMENT:
			bench = find(state.value);
			if (!bench)
				return refuse(state.value);
			selected[bench - benches] = any = true;
			break;
		default:
			return STATUS_USAGE;
		}
	}
	for (i = 0; i < N_BENCH; i++) {
		selected[i] |= !any;
		if (selected[i] && list)
			printf("%-15s %s\n", benches[i].name, benches[i].summary);
		if (selected[i] && show)
			show_peer(&benches[i]);
	}
	return list || show ? STATUS_DONE : run_selected(selected);
}
