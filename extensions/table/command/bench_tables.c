// SPDX-License-Identifier: MIT
/* hetmap bench: the cases of tables, by the options and in the turns of all others. */
#include "bench_tables.h"

#include "peer_tables.h"
#include "perf/bench/bench_list.h"

static const struct bench cases[] = {
	{ "formats", "one table as .npy, Arrow, Parquet and CSV", bench_formats,
	  peer_tables_source },
	{ "arrow_open", "1 GiB of Arrow, to the first value of each column", bench_arrow_open,
	  peer_tables_source },
	{ "arrow_scan", "the sum of a column of Arrow where it lies", bench_arrow_scan,
	  peer_tables_source },
	{ "parquet_columns", "columns of Parquet, until an accelerator may read them",
	  bench_parquet_columns, peer_tables_source },
	{ "parquet_skip", "1% of sorted rows, by the statistics of row groups",
	  bench_parquet_skip, peer_tables_source },
	{ "table_window", "a table of Parquet through a bounded window", bench_table_window,
	  peer_tables_source },
};

int bench_tables_main(int argc, char **argv)
{
	return bench_main_of(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
