// SPDX-License-Identifier: MIT
/* Peers of tables: scripts of python3 with pyarrow, and a plain loop. */
#include "peer_tables.h"

#include "perf/bench/peer.h"

PEER_SOURCE(peer_tables_source);

/* ---- arrow_open ---- */

/* From the file's name to the first value of each column. */
const char peer_arrow_open[] = "import sys, time, pyarrow as pa\n"
			       "for turn in range(2):\n"
			       "    start = time.perf_counter_ns()\n"
			       "    file = pa.ipc.open_file(pa.memory_map(sys.argv[1]))\n"
			       "    batch = file.get_batch(0)\n"
			       "    values = [column[0].as_py() for column in batch.columns]\n"
			       "    ns = time.perf_counter_ns() - start\n"
			       "print(ns)\n";

/* ---- arrow_scan ---- */

/* Eight sums at a time, as compilers use vectors for them. */
double peer_sum(const double *values, uint64_t n)
{
	double sums[8] = { 0 }, sum = 0;
	uint64_t i;
	int k;

	for (i = 0; i + 8 <= n; i += 8)
		for (k = 0; k < 8; k++)
			sums[k] += values[i + k];
	for (; i < n; i++)
		sum += values[i];
	for (k = 0; k < 8; k++)
		sum += sums[k];
	return sum;
}

/* ---- parquet_columns ---- */

/*
 * Arguments: the file, the number of threads, whether the columns are then copied to other memory,
 * as a device's is, and the columns.
 */
const char peer_parquet_columns[] =
	"import sys, time, numpy as np, pyarrow as pa, pyarrow.parquet as pq\n"
	"path, threads, copied, columns = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]),"
	" sys.argv[4].split(',')\n"
	"pa.set_cpu_count(threads)\n"
	"def read():\n"
	"    table = pq.read_table(path, columns=columns, use_threads=threads > 1)\n"
	"    if not copied:\n"
	"        return table\n"
	"    for column in table.columns:\n"
	"        for chunk in column.chunks:\n"
	"            values = np.frombuffer(chunk.buffers()[1], dtype=np.uint8)\n"
	"            np.copyto(np.empty_like(values), values)\n"
	"    return table\n"
	"read()\n"
	"start = time.perf_counter_ns()\n"
	"table = read()\n"
	"print(time.perf_counter_ns() - start)\n";

/* ---- table_window ---- */

/* Arguments: rows of a batch, and files. Prints the ns, and the peak of memory in bytes. */
const char peer_table_window[] =
	"import sys, time, resource, pyarrow.parquet as pq\n"
	"rows, paths = int(sys.argv[1]), sys.argv[2:]\n"
	"before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
	"start, n = time.perf_counter_ns(), 0\n"
	"for path in paths:\n"
	"    for batch in pq.ParquetFile(path).iter_batches(batch_size=rows):\n"
	"        n += batch.num_rows\n"
	"ns = time.perf_counter_ns() - start\n"
	"print(ns, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)\n";

/* ---- formats ---- */

/* Arguments: the kind, and the file, or the folder of .npy files. Sums of all columns. */
const char peer_formats[] =
	"import sys, time, glob, numpy as np, pyarrow as pa, pyarrow.compute as pc\n"
	"import pyarrow.parquet as pq, pyarrow.csv as csv\n"
	"kind, path = sys.argv[1:3]\n"
	"def sums(table):\n"
	"    return [pc.sum(c.cast('int64') if pa.types.is_timestamp(c.type) else c).as_py()\n"
	"            for c in table.columns]\n"
	"def read():\n"
	"    if kind == 'npy':\n"
	"        return [np.load(f, mmap_mode='r').sum(dtype=None) for f in\n"
	"                sorted(glob.glob(path + '/*.npy'))]\n"
	"    if kind == 'arrow':\n"
	"        return sums(pa.ipc.open_file(pa.memory_map(path)).read_all())\n"
	"    return sums(csv.read_csv(path) if kind == 'csv' else pq.read_table(path))\n"
	"read()\n"
	"start = time.perf_counter_ns()\n"
	"read()\n"
	"print(time.perf_counter_ns() - start)\n";
