#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Bars of minutes as pyarrow writes them: the codes of a day one behind another, a file for each
day, read back as one table. Parquet keeps date64 as days, and the minute is lost; timestamp[ms]
keeps it, and so does a file of Arrow.

    minute_bars.py FOLDER [parquet|arrow] [date64|timestamp]
    hetmap run table --columns volume,money FOLDER
"""
import datetime
import os
import sys

import pyarrow as pa
import pyarrow.dataset as dataset
import pyarrow.parquet as parquet

FIELDS = ["open", "high", "low", "close"]
CODES = ["000001.XSHE", "600000.XSHG"]
MINUTES = [9 * 60 + 31 + i + (0 if i < 120 else 90) for i in range(240)]


def bars(code, day, kind):
    """The bars of one code on one day."""
    midnight = datetime.datetime(2024, 1, 2 + day)
    frames = [int((midnight + datetime.timedelta(minutes=m) - datetime.datetime(1970, 1, 1))
                  .total_seconds()) * 1000 for m in MINUTES]
    prices = [10 * (CODES.index(code) + 1) + i / 100 for i in range(len(frames))]
    volume = [100.0 * (i + 1) for i in range(len(frames))]
    columns = {
        "symbol": pa.array([code] * len(frames), pa.string()),
        "frame": pa.array(frames, pa.int64()).cast(pa.timestamp("ms")),
        **{name: pa.array(prices, pa.float32()) for name in FIELDS},
        "volume": pa.array(volume, pa.float64()),
        "money": pa.array([v * p for v, p in zip(volume, prices)], pa.float64()),
        "factor": pa.array([1.0] * len(frames), pa.float64()),
    }
    if kind == "date64":
        # A cast would cut the minute off already: the bytes are the same, milliseconds.
        columns["frame"] = columns["frame"].view(pa.date64())
    return pa.table(columns)


def main(folder, file_format="parquet", kind="date64"):
    os.makedirs(folder, exist_ok=True)
    for day in range(3):
        table = pa.concat_tables([bars(code, day, kind) for code in CODES])
        path = f"{folder}/2024-01-{day + 2:02}.{file_format}"
        if file_format == "parquet":
            parquet.write_table(table, path)
        else:
            with pa.ipc.new_file(path, table.schema) as file:
                file.write_table(table)
    table = dataset.dataset(folder, format=file_format).to_table()
    frame = table["frame"]
    milliseconds = pa.concat_arrays(frame.chunks).cast(pa.timestamp("ms")).view(pa.int64()) \
        if frame.type != pa.date64() else pa.concat_arrays(frame.chunks).view(pa.int64())
    minutes = sum(value.as_py() % 86400000 != 0 for value in milliseconds)
    print(f"{table.num_rows} rows: frame is {frame.type}, {minutes} rows have their minute, "
          f"volume {sum(table['volume'].to_pylist()):.0f}")


main(*sys.argv[1:])
