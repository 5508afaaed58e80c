/* SPDX-License-Identifier: MIT */
/* hetmap bench: the cases of tables. */
#ifndef HETMAP_BENCH_TABLES_H
#define HETMAP_BENCH_TABLES_H

int bench_tables_main(int argc, char **argv);

/* Each returns 0, or a negative errno that was told. */
int bench_formats(void);
int bench_arrow_open(void);
int bench_arrow_scan(void);
int bench_parquet_columns(void);
int bench_parquet_skip(void);
int bench_table_window(void);

#endif
