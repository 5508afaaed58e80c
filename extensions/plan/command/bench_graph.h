/* SPDX-License-Identifier: MIT */
/* hetmap bench: the cases of plans. */
#ifndef HETMAP_BENCH_GRAPH_H
#define HETMAP_BENCH_GRAPH_H

int bench_graph_main(int argc, char **argv);

/* Each returns 0, or a negative errno that was told. */
int bench_graph_transfer(void);
int bench_graph_overlap(void);
int bench_plan_compile(void);
int bench_plan_launch(void);

#endif
