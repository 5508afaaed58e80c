/* SPDX-License-Identifier: MIT */
/* The cases report to this part of the command. */
#ifndef HETMAP_BENCH_REPORT_H
#define HETMAP_BENCH_REPORT_H

#include "bench_run.h"

/* From now on reports belong to @bench, and go to @run. */
void bench_report_begin(struct bench_run *run, const char *bench);

/* On standard output: lines of JSON or of a table, nothing where a page is wanted. */
void bench_tell_machine(const struct bench_run *run);
void bench_tell_row(const struct bench_row *row);

#endif
