/* SPDX-License-Identifier: MIT */
/* The part of hetmap doctor that --cluster asks for. */
#ifndef HETMAP_DOCTOR_CLUSTER_H
#define HETMAP_DOCTOR_CLUSTER_H

#include <stdbool.h>

/* Collective, after MPI_Init_thread(). Returns an exit status. */
int doctor_cluster(bool json);

#endif
