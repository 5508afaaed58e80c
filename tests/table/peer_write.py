# SPDX-License-Identifier: MIT
"""Files of libhetmap-table, read by pyarrow; tables that enter; batches."""
import datetime
import os
import resource

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

import hetmap_table as ht
from hetmap_table import Table
from peer_tools import (all_columns, all_in_maps, case, compare, path, refused, same, storable,
                        write_ipc)


def read_ipc(name):
    with pa.memory_map(name) as file:
        magic = file.read(6)
    if magic == b"ARROW1":
        return pa.ipc.open_file(name).read_all()
    return pa.ipc.open_stream(name).read_all()


@case
def writes():
    table = all_columns(3)
    for source in (write_ipc(table, "in"), write_ipc(table, "in_stream", True)):
        for kind, codecs in ((ht.ARROW, ("none", "zstd", "lz4")), (ht.STREAM, ("none", "zstd"))):
            for codec in codecs:
                to = path(f"out.{kind}.{codec}")
                info = Table(source).write(to, format=kind, codec=codec.encode())
                same((info.rows, info.format, info.bytes), (37, kind, os.path.getsize(to)))
                got = read_ipc(to)
                got.validate(full=True)
                same(got.to_pylist(), table.to_pylist(), to)
    table = storable(table)
    source = write_ipc(table, "storable")
    for codec in ("none", "snappy", "gzip", "brotli", "zstd"):
        to = path(f"out.{codec}.pq")
        info = Table(source).write(to, codec=codec.encode(), group_rows=10)
        same((info.rows, info.groups, info.format), (37, 4, ht.PARQUET))
        same(pq.read_table(to).to_pylist(), table.to_pylist(), codec)
        same(pq.ParquetFile(to).metadata.num_row_groups, 4)
        compare(pq.read_table(to), to)
    ints = pa.table({"i": pa.array(range(1000))})
    to = path("delta.pq")
    Table(write_ipc(ints, "ints")).write(to, encoding=b"DELTA_BINARY_PACKED")
    assert "DELTA_BINARY_PACKED" in pq.ParquetFile(to).metadata.row_group(0).column(0).encodings
    refused(22, lambda: Table(path("ints")).write(to, codec=b"none of these"), "none of these")
    refused(22, lambda: Table(path("ints")).write(to, encoding=b"MORSE"), "MORSE")
    refused(22, lambda: Table(path("ints")).write(to, format=ht.CSV))
    refused(21, lambda: Table(path("ints")).write(path("")), "HM_TABLE_APPEND")
    # A failure leaves the old file, and nothing beside it.
    same(pq.read_table(to).num_rows, 1000)
    same([name for name in os.listdir(path("")) if name.startswith(".")], [])


@case
def appends():
    first = pa.table({"x": pa.array(range(100)), "s": pa.array([str(i) for i in range(100)])})
    second = pa.table({"x": pa.array(range(100, 150)),
                       "s": pa.array([None] * 50, pa.string())})
    both = pa.concat_tables([first, second])
    other = write_ipc(pa.table({"x": pa.array(["a"]), "s": pa.array(["b"])}), "other")
    more = write_ipc(second, "second")
    for kind in (ht.PARQUET, ht.ARROW, ht.STREAM):
        to = path(f"appended.{kind}")
        Table(write_ipc(first, "first")).write(to, format=kind)
        for _ in range(2):
            info = Table(more).write(to, flags=ht.APPEND)
            same((info.rows, info.groups), (50, 1))
        expected = pa.concat_tables([both, second])
        got = pq.read_table(to) if kind == ht.PARQUET else read_ipc(to)
        same(got.to_pylist(), expected.to_pylist(), f"format {kind}")
        compare(expected, to)
        failure = refused(22, lambda: Table(other).write(to, flags=ht.APPEND))
        assert "x" in failure.text
        compare(expected, to)
    refused(22, lambda: Table(more).write(path(f"appended.{ht.ARROW}"), flags=ht.APPEND,
                                          format=ht.PARQUET), "arrow")
    parts = path("parts")
    os.mkdir(parts)
    for i in range(3):
        info = Table(more).write(parts, flags=ht.APPEND | ht.SYNC)
        same(os.path.basename(info.path.decode()), f"part-{i:05}.parquet")
    compare(pa.concat_tables([second] * 3), parts)


@case
def dates():
    """Parquet has days: the time of the day is lost, and told of."""
    day, minute = 86400000, 60000
    stamps = pa.array([day + 9 * 60 * minute, day + 570 * minute], pa.int64())
    exact = pa.table({"frame": stamps.cast(pa.timestamp("ms"))})
    lossy = pa.table({"frame": pa.array([datetime.date(1970, 1, 2)] * 2, pa.date64())})
    pq.write_table(lossy, path("lossy.pq"))
    opened = Table(path("lossy.pq"))
    assert "frame" in opened.warning and "date64" in opened.warning, opened.warning
    pq.write_table(exact, path("exact.pq"))
    same(Table(path("exact.pq")).warning, "")
    # pyarrow itself has no date64 with a time: its buffers do.
    timed = pa.Array.from_buffers(pa.date64(), 2, [None, stamps.buffers()[1]])
    source = write_ipc(pa.table({"frame": timed}), "timed")
    Table(source).write(path("timed.pq"))
    assert "frame" in ht.warning(), ht.warning()
    Table(write_ipc(lossy, "days")).write(path("days.pq"))
    same(ht.warning(), "")


@case
def enters():
    table = all_columns(3)
    taken = ht.imported(table)
    same(taken.reader().read_all().to_pylist(), table.to_pylist())
    all_in_maps(taken)
    again = ht.through_devices(Table(write_ipc(table, "source")))
    same(again.reader().read_all().to_pylist(), table.to_pylist())
    same(again.columns([0])[0].chunk(0).in_place, 1, "what is in a map already stays")
    same(ht.imported(table, flags=ht.CHECK).info().rows, 37)
    batch = table.select(["int8", "string"]).to_batches()[0]
    same(ht.imported_array(batch).reader().read_all().to_pylist(), batch.to_pylist())
    one = pa.array([1, None, 3])
    same(ht.imported_array(one).reader().read_all().column(0).to_pylist(), [1, None, 3])
    ht.imported(table.select(["int8"])).write(path("imported.pq"))
    same(pq.read_table(path("imported.pq")).column(0).to_pylist(), table["int8"].to_pylist())
    # On a device that CPUs do not reach.
    stream, handle = ht.DeviceStream(), ht.pointer()
    ht.call("hm_table_export_device", taken.handle, ht.ctypes.byref(stream))
    stream.device_type = 2
    refused(95, lambda: ht.call("hm_table_import_device", ht.ctypes.byref(stream), None,
                                ht.ctypes.byref(handle)), "type 2")
    assert not stream.release


@case
def from_buffers():
    n = 1000
    numbers = np.arange(n, dtype="f8")
    codes = b"".join(b"%04d" % i for i in range(n))
    offsets = np.arange(0, 4 * n + 4, 4, dtype="i4")
    bits = np.packbits(np.arange(n) % 3 != 0, bitorder="little")
    rows = (ht.Buffers * 2)(
        ht.Buffers(b"n", b"g", bits.ctypes.data, None, numbers.ctypes.data, 0),
        ht.Buffers(b"c", b"u", None, offsets.ctypes.data,
                   ht.ctypes.cast(codes, ht.pointer), 0))
    handle = ht.pointer()

    def make(count=2):
        ht.call("hm_table_from_buffers", rows, ht.u32(count), ht.u64(n), None,
                ht.ctypes.byref(handle))
        return Table(handle=ht.pointer(handle.value))

    expected = pa.table({"n": pa.array([None if i % 3 == 0 else float(i) for i in range(n)]),
                         "c": pa.array([f"{i:04}" for i in range(n)])})
    same(make().reader().read_all().to_pylist(), expected.to_pylist())
    for kind in (ht.PARQUET, ht.ARROW, ht.STREAM):
        make().write(path(f"buffers.{kind}"), format=kind)
        compare(expected, path(f"buffers.{kind}"))
    offsets[5] = 1000
    refused(22, make, "decrease")
    rows[1].format = b"+l"
    refused((22, 95), make)


def take(batches):
    """All rows of the batches, as pyarrow copies them."""
    got = []
    while True:
        batch = batches.next()
        if not batch.rows:
            return pa.Table.from_batches(got, batches.schema)
        same(batch.first_row, sum(part.num_rows for part in got))
        same(batch.number, len(got))
        arrays = []
        for i in range(len(batches.schema)):
            chunk = batches.chunk(i)
            same(chunk.rows, batch.rows)
            kind = batches.schema.field(i).type
            width = kind.bit_width // 8
            raw = ht.ctypes.string_at(chunk.values + chunk.offset * width, chunk.rows * width)
            arrays.append(pa.Array.from_buffers(kind, chunk.rows, [None, pa.py_buffer(raw)]))
        got.append(pa.record_batch(arrays, schema=batches.schema))


@case
def batches():
    n = 1 << 20
    table = pa.table({"a": pa.array(np.arange(n)),
                      "b": pa.array(np.random.default_rng(1).normal(size=n)),
                      "c": pa.array(np.arange(n, dtype="i4"))})
    for codec in ("none", "zstd"):
        to = path(f"batches.{codec}.pq")
        pq.write_table(table, to, row_group_size=n // 4, compression=codec,
                       use_dictionary=False, data_page_size=16384)
        for window in (32 << 20, 4 << 20):
            for ahead in (0, 1):
                for threads in (1, 2):
                    reading = Table(to, threads=threads).batches(window=window, ahead=ahead)
                    assert take(reading).equals(table)
                    info = reading.info()
                    assert info.peak <= window, (info.peak, window)
        reading = Table(to).batches(window=32 << 20, rows=1000)
        same(reading.next().rows, 1000)
    to = write_ipc(table, "batches.arrow", rows=n // 4)
    reading = Table(to).batches(window=1 << 20)
    assert take(reading).equals(table)
    assert reading.info().peak < 4096, "where it lies a batch takes nothing but its header"
    # Too small: the text has the least that works, which then does.
    pq.write_table(table, path("pages.pq"), row_group_size=n, use_dictionary=False,
                   data_page_size=1 << 20)
    compressed = write_ipc(table, "zstd.arrow", rows=n // 4, compression="zstd")
    for name in (path("pages.pq"), compressed):
        for ahead in (0, 1):
            # It is the least for one batch: a later one may need a little more.
            window = 256 << 10
            for _ in range(6):
                reading = Table(name).batches(window=window, ahead=ahead)
                try:
                    assert take(reading).equals(table)
                    break
                except ht.Failed as failure:
                    same(failure.errno, 28, failure)
                    refused(28, reading.next)
                    words = failure.text.split("the least that works is ")[1]
                    assert int(words.split()[0]) > window, failure
                    window = int(words.split()[0])
            else:
                raise AssertionError(f"{name}: {window} is too small, too")
            assert window > 256 << 10
    refused(22, lambda: Table(to).batches(window=1000))


@case
def window_memory():
    """The memory of the process stays within a window that is far smaller than the table."""
    n = 4 << 20
    to = path("large.pq")
    writer = None
    for i in range(8):
        part = pa.table({f"c{j}": pa.array(np.arange(n // 8) * (j + i)) for j in range(6)})
        writer = writer or pq.ParquetWriter(to, part.schema, use_dictionary=False)
        writer.write_table(part)
    writer.close()
    del part
    window = 16 << 20
    reading = Table(to, threads=1).batches(window=window)
    reading.next()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows = reading.chunk(0).rows
    while True:
        batch = reading.next()
        if not batch.rows:
            break
        rows += batch.rows
    same(rows, n)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    assert grown <= window, f"{grown} more bytes, and a window of {window}"
    assert reading.info().peak <= window
