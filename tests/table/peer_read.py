# SPDX-License-Identifier: MIT
"""Files of pyarrow, read by libhetmap-table."""
import datetime
import decimal
import os
import struct

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq

import hetmap_table as ht
from hetmap_table import Table
from peer_tools import (all_columns, all_in_maps, case, compare, path, refused, same, storable,
                        write_ipc)


@case
def arrow_types():
    for step in (0, 3, 1):
        table = all_columns(step)
        for stream in (False, True):
            to = write_ipc(table, f"types{step}{stream}", stream, rows=10)
            opened = compare(table, to)
            same(opened.info().format, ht.STREAM if stream else ht.ARROW)
            in_place, chunks = all_in_maps(opened)
            same(in_place, chunks, "all in place")
            same(opened.info().rows, 37)
            compare(table, to, flags=ht.READ)
            compare(table, to, flags=ht.CHECK)
            same(pa.Table.from_batches(opened.device_batches(), table.schema).to_pylist(),
                 table.to_pylist(), "by the device interface")


@case
def arrow_compressed():
    table = all_columns(3)
    for codec in ("lz4", "zstd"):
        for stream in (False, True):
            to = write_ipc(table, f"{codec}{stream}", stream, rows=8, compression=codec)
            opened = compare(table, to)
            in_place, _ = all_in_maps(opened)
            assert in_place == 0 or table.schema.field("null") is not None
            same(opened.stored(0, opened.find("double")).codec.decode(), codec)
            compare(table.select(["string", "int8", "list"]), to,
                    columns=["string", "int8", "list"])


@case
def arrow_dictionaries():
    """Dictionaries that grow and change within a stream."""
    batches = []
    for i in range(5):
        words = pa.array([f"{i}-{j % (i + 1)}" for j in range(10)]).dictionary_encode()
        batches.append(pa.record_batch({"d": words}))
    to = path("replaced")
    with pa.ipc.new_stream(to, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    compare(pa.Table.from_batches(batches), to)
    growing = []
    words = [f"w{j}" for j in range(40)]
    for i in range(4):
        indices = pa.array([j % (10 * (i + 1)) for j in range(50)], pa.int32())
        growing.append(pa.record_batch({"d": pa.DictionaryArray.from_arrays(
            indices, pa.array(words[:10 * (i + 1)]))}))
    for stream in (False, True):
        to = path(f"deltas{stream}")
        new = pa.ipc.new_stream if stream else pa.ipc.new_file
        options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
        with new(to, growing[0].schema, options=options) as writer:
            for batch in growing:
                writer.write_batch(batch)
        compare(pa.Table.from_batches(growing), to)
        # Groups in any order.
        opened = Table(to)
        same(opened.info().groups, 4)


@case
def arrow_old_and_swapped():
    table = storable(all_columns(3)).drop_columns(["string_view", "binary_view"])
    old = pa.ipc.IpcWriteOptions(use_legacy_format=True,
                                 metadata_version=pa.ipc.MetadataVersion.V4)
    with pa.ipc.new_stream(path("legacy"), table.schema, options=old) as writer:
        writer.write_table(table)
    compare(table, path("legacy"))
    # A file of the other byte order: the flag of the schema says so, and all numbers are turned.
    values = np.arange(1000, dtype="<i4")
    little = pa.table({"v": pa.array(values)})
    to = write_ipc(little, "little")
    data = bytearray(open(to, "rb").read())
    swapped = values.byteswap().tobytes()
    at = data.find(values.tobytes())
    data[at:at + len(swapped)] = swapped
    turned = big_endian(bytes(data))
    with open(path("big"), "wb") as file:
        file.write(turned)
    opened = compare(little, path("big"))
    column = opened.columns([0])[0]
    same(column.chunk(0).in_place, 0)
    assert b"byte order" in column.chunk(0).why


def table_field(data, at, number):
    """Offset of a field of a flatbuffer's table, or None."""
    slots = at - struct.unpack_from("<i", data, at)[0]
    if 4 + 2 * number + 2 > struct.unpack_from("<H", data, slots)[0]:
        return None
    offset = struct.unpack_from("<H", data, slots + 4 + 2 * number)[0]
    return at + offset if offset else None


def big_endian(data):
    """The same file, whose schemas say that it is of big endian."""
    data = bytearray(data)

    def mark(root, in_footer):
        top = root + struct.unpack_from("<I", data, root)[0]
        number = 1 if in_footer else 2
        header = table_field(data, top, number)
        schema = header + struct.unpack_from("<I", data, header)[0]
        # The default, little, is left out. One field is a vector of length 1: that 1 is big.
        slots = schema - struct.unpack_from("<i", data, schema)[0]
        fields = table_field(data, schema, 1)
        length = fields + struct.unpack_from("<I", data, fields)[0]
        same(struct.unpack_from("<I", data, length)[0], 1, "fields")
        struct.pack_into("<H", data, slots + 4, length - schema)

    mark(8 + 8, False)
    footer = struct.unpack_from("<i", data, len(data) - 10)[0]
    mark(len(data) - 10 - footer, True)
    return bytes(data)


@case
def arrow_shapes():
    empty = pa.table({"a": pa.array([], pa.int32()), "b": pa.array([], pa.string())})
    for stream in (False, True):
        same(compare(empty, write_ipc(empty, f"empty{stream}", stream)).info().rows, 0)
        rows = pa.ipc.new_stream if stream else pa.ipc.new_file
        with rows(path(f"empty_batch{stream}"), empty.schema) as writer:
            writer.write_batch(empty.to_batches()[0] if empty.to_batches() else
                               pa.RecordBatch.from_pydict({"a": [], "b": []}, empty.schema))
        compare(empty, path(f"empty_batch{stream}"))
    wide = pa.table({f"c{i}": pa.array([i, None, i + 2], pa.int32()) for i in range(10000)})
    to = write_ipc(wide, "wide")
    compare(wide, to)
    compare(wide.select(["c9999", "c5"]), to, columns=["c9999", "c5"])
    to = path("wide.pq")
    pq.write_table(wide, to)
    compare(wide, to)
    compare(wide.select(["c9999", "c5"]), to, columns=["c9999", "c5"])
    sliced = pa.table({"s": pa.array([str(i) for i in range(100)]),
                       "l": pa.array([[i] * (i % 3) for i in range(100)])}).slice(13, 51)
    compare(sliced, write_ipc(sliced, "sliced"))
    # Buffers at odd places: what is not aligned for its type is copied, and told so.
    table = pa.table({"v": pa.array(range(1000), pa.int64())})
    data = open(write_ipc(table, "aligned"), "rb").read()
    with open(path("moved"), "wb") as file:
        file.write(data)
    compare(table, path("moved"))
    for name in ("arrow", "parquet"):
        os.makedirs(path(f"folder_{name}"), exist_ok=True)
        for i in range(4):
            part = pa.table({"x": pa.array(range(i * 10, i * 10 + 10)),
                             "y": pa.array([str(i)] * 10)})
            if i % 2:
                part = part.select(["y", "x"])
            to = path(f"folder_{name}/{i}.bin")
            if name == "arrow":
                with pa.ipc.new_file(to, part.schema) as writer:
                    writer.write_table(part)
            else:
                pq.write_table(part, to)
        open(path(f"folder_{name}/_SUCCESS"), "w").close()
        open(path(f"folder_{name}/.hidden"), "w").close()
        opened = Table(path(f"folder_{name}"))
        same(opened.info().files, 4)
        same(opened.reader().read_all().column("x").to_pylist(), list(range(40)))
    mixed = Table(path("folder_arrow/0.bin"), path("folder_parquet/1.bin"))
    same(mixed.reader().read_all().column("x").to_pylist(), list(range(20)))
    refused(22, lambda: Table(path("folder_arrow/0.bin"), path("sliced")), "'x'")


PLAIN = {"int32": ["PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"],
         "int64": ["PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"],
         "bool": ["PLAIN", "RLE"],
         "float": ["PLAIN", "BYTE_STREAM_SPLIT"],
         "double": ["PLAIN", "BYTE_STREAM_SPLIT"],
         "string": ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"],
         "binary": ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"],
         "fixed": ["PLAIN", "DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT"]}


@case
def parquet_types():
    for step in (0, 3, 1):
        table = storable(all_columns(step))
        for version in ("1.0", "2.6"):
            for pages in ("1.0", "2.0"):
                to = path(f"types{step}{version}{pages}.pq")
                pq.write_table(table, to, version=version, data_page_version=pages,
                               row_group_size=10, write_page_checksum=True)
                expected = pq.read_table(to)
                opened = compare(expected, to)
                same(opened.info().groups, 4)
                in_place, _ = all_in_maps(opened)
                compare(expected, to, flags=ht.CHECK, threads=1)
                compare(expected, to, threads=4)
    texts = pa.table({"s": pa.array([f"v{i % 7}" for i in range(1000)])})
    pq.write_table(texts, path("dictionary.pq"), row_group_size=300)
    opened = Table(path("dictionary.pq"), flags=ht.DICTIONARY)
    assert pa.types.is_dictionary(opened.schema().field("s").type)
    same(opened.reader().read_all().column("s").to_pylist(), texts.column("s").to_pylist())


@case
def parquet_encodings():
    table = all_columns(3)
    for name, encodings in PLAIN.items():
        one = table.select([name])
        for encoding in encodings:
            to = path(f"{name}.{encoding}.pq")
            pq.write_table(one, to, use_dictionary=False, column_encoding={name: encoding})
            opened = compare(pq.read_table(to), to)
            assert encoding in opened.stored(0, 0).encodings.decode(), encoding
        to = path(f"{name}.dictionary.pq")
        if name != "bool":
            pq.write_table(one, to, use_dictionary=True)
            assert "DICTIONARY" in compare(pq.read_table(to), to).stored(0, 0).encodings.decode()


@case
def parquet_codecs():
    table = storable(all_columns(3))
    for codec in ("none", "snappy", "gzip", "brotli", "lz4", "zstd"):
        to = path(f"{codec}.pq")
        pq.write_table(table, to, compression=codec, row_group_size=20)
        opened = compare(pq.read_table(to), to)
        told = opened.stored(0, opened.find("double")).codec.decode()
        assert told.startswith(codec), told


@case
def parquet_pages():
    """Many pages and row groups; threads; statistics."""
    n = 200000
    rng = np.random.default_rng(7)
    table = pa.table({
        "i": pa.array(np.arange(n)), "r": pa.array(rng.integers(0, 1000, n)),
        "f": pa.array(rng.normal(size=n).astype("f4"), mask=rng.random(n) < 0.1),
        "s": pa.array([f"{i % 1000:04}" for i in range(n)]),
        "l": pa.array([[i] * (i % 3) for i in range(n)])})
    to = path("pages.pq")
    pq.write_table(table, to, row_group_size=n // 20, data_page_size=4096, compression="zstd")
    for threads in (1, 2, 7):
        opened = compare(table, to, threads=threads)
    info = opened.info()
    same((info.rows, info.groups, info.columns), (n, 20, 5))
    stored = opened.stored(3, 0)
    same((stored.min, stored.max), (str(3 * n // 20).encode(), str(4 * n // 20 - 1).encode()))
    same(stored.nulls, 0)
    assert opened.group(19).first_row == 19 * n // 20
    # Nothing that was decoded is left behind.
    del opened
    table = Table(to)
    columns = table.columns([0, 1, 2])
    assert table.info().memory >= 3 * n
    del columns
    same(table.info().memory, 0, "memory after the last column")


@case
def parquet_filters():
    n = 20000
    table = pa.table({
        "i": pa.array(range(n)), "u": pa.array(range(n), pa.uint32()),
        "f": pa.array([i / 10 for i in range(n)]),
        "s": pa.array([f"{i:06}" for i in range(n)]),
        "t": pa.array(range(0, n * 60000, 60000), pa.timestamp("ms")),
        "d": pa.array([datetime.date(2000, 1, 1) + datetime.timedelta(i // 100)
                       for i in range(n)]),
        "m": pa.array([decimal.Decimal(i).scaleb(-2) for i in range(n)], pa.decimal128(12, 2)),
        "z": pa.array([None] * (n // 2) + [1.0] * (n // 2)),
        "k": pa.array([5] * n)})
    to = path("filters.pq")
    pq.write_table(table, to, row_group_size=100)

    def kept(*filters):
        opened = Table(to, filters=filters, columns=["i"])
        rows = opened.reader().read_all().column("i").to_pylist()
        info = opened.info()
        same(len(rows), info.rows)
        same(info.skipped, info.groups - len(rows) // 100)
        return rows

    def near(low, high):
        return list(range(low // 100 * 100, (high // 100 + 1) * 100))

    for name, value in (("i", 5050), ("u", 5050), ("s", "005050"), ("f", 505.0), ("m", "50.50"),
                        ("t", "1970-01-04 12:10:00")):
        same(kept((name, ht.EQUAL, value)), near(5050, 5050), name)
        same(kept((name, ht.GREATER_EQUAL, value)), near(5050, n - 1), name)
        same(kept((name, ht.LESS, value)), near(0, 5050), name)
    same(kept(("d", ht.EQUAL, "2000-02-20")), near(5000, 5099))
    same(kept(("i", ht.GREATER, 199), ("i", ht.LESS_EQUAL, 200)), near(200, 200))
    same(kept(("i", ht.GREATER, n)), [])
    same(kept(("k", ht.NOT_EQUAL, 5)), [])
    same(kept(("k", ht.NOT_EQUAL, 6)), list(range(n)))
    same(kept(("z", ht.IS_NULL, None)), near(0, n // 2 - 1))
    same(kept(("z", ht.NOT_NULL, None)), near(n // 2, n - 1))
    same(kept(("z", ht.EQUAL, 1.0)), near(n // 2, n - 1))
    same(kept(("f", ht.EQUAL, "nan")), list(range(n)))
    refused(22, lambda: kept(("i", ht.EQUAL, "many")), "many", "int64")
    refused(2, lambda: kept(("x", ht.EQUAL, 1)), "'x'")
    opened = Table(to, filters=[("i", ht.LESS, 200)], columns=["i"])
    opened.reader().read_all()
    assert opened.info().bytes_read < os.path.getsize(to) * 0.4


@case
def csv():
    n = 5000
    table = pa.table({"n": pa.array(range(n)), "x": pa.array([i / 4 for i in range(n)]),
                      "s": pa.array([f"a,{i}" for i in range(n)]),
                      "b": pa.array([i % 2 == 0 for i in range(n)])})
    to = path("plain.csv")
    pa.csv.write_csv(table, to)
    opened = compare(table, to)
    same(opened.info().rows, ht.UNKNOWN)
    compare(table.select(["s", "n"]), to, columns=["s", "n"])
    text = open(to).read()
    with open(path("semicolons"), "w") as file:
        file.write("k;v\n1;2.5\n2;\n")
    opened = Table(path("semicolons"), separator=b";")
    same(opened.reader().read_all().to_pydict(), {"k": [1, 2], "v": [2.5, None]})
    with open(path("no_header"), "w") as file:
        file.write("1,a\n2,b\n")
    opened = Table(path("no_header"), flags=ht.NO_HEADER)
    same(opened.reader().read_all().to_pydict(), {"f0": [1, 2], "f1": ["a", "b"]})
    with open(path("broken"), "w") as file:
        file.write("k,v\n1,2\n1,2,3\n")
    refused((74, 5), lambda: Table(path("broken")).reader().read_all())
    batches = Table(to).batches(window=1 << 20, rows=100)
    rows = 0
    while True:
        batch = batches.next()
        if not batch.rows:
            break
        assert batch.rows <= 100
        rows += batch.rows
    same(rows, n)


@case
def of_polars():
    """Files of polars, whose stream has no schema: the footer alone does."""
    import polars as pl
    words = [f"t{i % 7}" for i in range(1000)]
    frame = pl.DataFrame({"a": list(range(1000)), "s": words,
                          "c": pl.Series(words, dtype=pl.Categorical)})
    for codec in ("uncompressed", "zstd", "lz4"):
        frame.write_ipc(path(codec), compression=codec)
        opened = Table(path(codec))
        same(opened.reader().read_all().to_pylist(),
             pa.ipc.open_file(path(codec)).read_all().to_pylist(), codec)
        same(opened.columns([0])[0].chunk(0).in_place, codec == "uncompressed")
        same(opened.info().rows, 1000)


@case
def parquet_empty():
    none = pa.table({"k": pa.array([], pa.string()), "x": pa.array([], pa.int32())})
    for size in (None, 10):
        pq.write_table(none, path("none.pq"), row_group_size=size)
        opened = compare(none, path("none.pq"))
        same(opened.info().rows, 0)
        for column in opened.columns([0, 1]):
            same(column.info().rows, 0)
        same(Table(path("none.pq")).batches(window=1 << 20).next().rows, 0)
    with pq.ParquetWriter(path("groups.pq"), none.schema) as writer:
        for _ in range(3):
            writer.write_table(none)
    same(compare(none, path("groups.pq")).info().rows, 0)
