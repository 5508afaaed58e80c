/* SPDX-License-Identifier: MIT */
/* Files such as hetmap bench --json writes, made up. */
#ifndef HETMAP_TESTS_BENCH_FILES_H
#define HETMAP_TESTS_BENCH_FILES_H

#define MACHINE(cpu)                                                                  \
	"{\"machine\": {\"hetmap\": \"0.1.0\", \"date\": \"2026-01-02T03:04:05Z\", "  \
	"\"kernel\": \"Linux 6.1\", \"cpu\": \"" cpu "\", \"cpus\": 2, \"virtual\": " \
	"false, \"thp\": \"madvise\", \"memory\": 1073741824, \"load\": [0.5, 0, 0]}}\n"

#define SAMPLES "\"samples\": [9, 10, 11], \"peer_samples\": [9, 10, 12]"

/* A figure that is no median. */
#define COUNT(value)                                                                          \
	"{\"bench\": \"sim_fault\", \"case\": \"a count\", \"unit\": \"\", \"value\": " value \
	", \"p99\": 1, \"peer\": \"pages\", \"peer_value\": 100, \"ratio\": 0." value "}\n"
/* Too few rounds for intervals. */
#define FEW(name)                                                                                    \
	"{\"bench\": \"grow\", \"case\": \"" name "\", \"unit\": \"us\", \"value\": 1, "             \
	"\"p99\": 1, \"peer\": \"p\", \"peer_value\": 1, \"ratio\": 1, \"rounds\": 3, "              \
	"\"value_95\": null, \"peer_p99\": 1, \"peer_value_95\": null, \"ratio_95\": null, " SAMPLES \
	"}\n"
#define SKIPPED(bench, name) \
	"{\"bench\": \"" bench "\", \"case\": \"" name "\", \"skipped\": \"no such device\"}\n"

/*
 * Makes a line of 100 rounds: @value and @peer, both within @own, and their ratio within @noise.
 * free() it.
 */
char *line_make(const char *bench, const char *name, double value, double peer, double own,
		double noise);

/* Writes the texts, up to NULL, one after another; free() the path. */
char *file_make(const char *folder, const char *name, const char *const *texts);

/* The rest of the line with @name in it, valid until the next call; a failure: "". */
const char *rest_of(const char *text, const char *name);

#endif
