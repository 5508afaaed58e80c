/* SPDX-License-Identifier: MIT */
/* For tests of traces: they trace the programs of traced.c, and check the reports. */
#ifndef HETMAP_TESTS_TRACE_SUPPORT_H
#define HETMAP_TESTS_TRACE_SUPPORT_H

#include "lib/command.h"
#include "perf/traced.h"

#define NAME "32 MiB of memory" /* that most of them touch, in a report */

/* This program, which runs as each of them: --traced NAME. */
extern char self[512];

/* May page faults be traced here? Else the test is skipped. */
bool may_trace(void);
/* The same; the test ends where it is skipped. */
void need_trace(void);
/* folder_make(), likewise. */
char *traced_folder(void);
/* Traces the program into @folder/trace; @points: with tracepoints. */
void trace_with(const char *folder, const char *name, int expected, bool points);
void trace(const char *folder, const char *name, int expected);
/* The JSON of hetmap report for the trace, or for a program that is traced first. */
json_t *report(const char *folder);
json_t *report_of(const char *folder, const char *name);
json_t *buffer_of(const json_t *json, const char *name);
/* Identifies a trace by the inode of its perf.data; 0: it is not there. */
uint64_t trace_inode(const char *folder, const char *name);
/* Has one of the sentences on missing parts @words in it? */
bool is_missing(const json_t *json, const char *words);

/* As long as limits are on this machine: nothing tells when a tracer has all it needs. */
void pause_a_while(void);
/* A whole file: free() it. */
char *read_all(const char *path, size_t *ret_length);

/* main() of such tests, and of the programs. */
int trace_tests_main(int argc, char **argv, const char *suite, const struct test *tests);

#endif
