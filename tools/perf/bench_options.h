/* SPDX-License-Identifier: MIT */
/* What the user of `hetmap bench` asked for. */
#ifndef HETMAP_BENCH_OPTIONS_H
#define HETMAP_BENCH_OPTIONS_H

struct bench_options {
	unsigned int rounds; /* 0: each case's own number */
};

extern struct bench_options bench_options;

#endif
