/* SPDX-License-Identifier: MIT */
/*
 * hetmap bench: the cases of arrays. The program that reports starts jobs of itself by mpiexec,
 * whose first rank measures both sides in turns and writes the samples to a file.
 */
#ifndef HETMAP_BENCH_CLUSTER_H
#define HETMAP_BENCH_CLUSTER_H

/* The first argument of a rank; then a job, rounds, and the file of the samples. */
#define BENCH_RANK "--bench-rank"

int bench_cluster_main(int argc, char **argv);
/* A rank of a job: "copies" or "pages". An exit status. */
int bench_rank_main(char **argv);

int bench_array_put(void);
int bench_array_get(void);
int bench_array_page(void);
int bench_particles(void);

#endif
