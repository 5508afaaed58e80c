/* SPDX-License-Identifier: MIT */
/* Peers of tables: what a program with pyarrow or numpy would do, and a plain loop. */
#ifndef HETMAP_PEER_TABLES_H
#define HETMAP_PEER_TABLES_H

#include <stdint.h>

extern const char peer_tables_source[];

/* Scripts of python3, which print the ns that the work took in a process that has done it. */
extern const char peer_arrow_open[];
extern const char peer_parquet_columns[];
extern const char peer_table_window[];
extern const char peer_formats[];

/* The sum of doubles in the order of memory. */
double peer_sum(const double *values, uint64_t n);

#endif
