/* SPDX-License-Identifier: MIT */
/* What the command has the cases report to. */
#ifndef HETMAP_BENCH_REPORT_H
#define HETMAP_BENCH_REPORT_H

#include "bench_run.h"

/* What is reported from now on is of @bench, and goes to @run. */
void bench_report_begin(struct bench_run *run, const char *bench);

/* On standard output: lines of JSON or of a table, nothing where a page is wanted. */
void bench_tell_machine(const struct bench_run *run);
void bench_tell_row(const struct bench_row *row);

#endif
