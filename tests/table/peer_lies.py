# SPDX-License-Identifier: MIT
"""Numbers of rows that are not so, types that appear late, and appends that would be misread."""
import os
import struct

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

import hetmap_table as ht
from hetmap_table import Table
from peer_tools import case, path, refused, same, write_ipc

ROWS = 12345


def zigzag(n):
    """An integer as Thrift's compact protocol has it."""
    n, out = n << 1, b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def places(data, what, begin=0):
    at = data.find(what, begin)
    while at >= 0:
        yield at
        at = data.find(what, at + 1)


def changed(data, at, what, name="lies"):
    with open(path(name), "wb") as file:
        file.write(data[:at] + what + data[at + len(what):])
    return path(name)


def by_batches(table):
    batches, rows = table.batches(window=8 << 20), 0
    while True:
        batch = batches.next()
        if not batch.rows:
            return rows
        rows += batch.rows


@case
def rows_of_parquet():
    table = pa.table({"a": pa.array(range(ROWS)), "b": pa.array([float(i) for i in range(ROWS)])})
    pq.write_table(table, path("true.pq"), write_statistics=False, store_schema=False,
                   use_dictionary=False)
    data = open(path("true.pq"), "rb").read()
    footer = len(data) - 8 - struct.unpack("<i", data[-8:-4])[0]
    # The field before is a 64-bit number: the rows of the file, of its group, values of columns.
    found = [at for at in places(data, zigzag(ROWS), footer) if data[at - 1] == 0x16]
    same(len(found), 4)
    for at in found:
        for lie in (ROWS - 1, ROWS + 1, ROWS + 100, 8200):
            name = changed(data, at, zigzag(lie))
            for work in (lambda t: t.columns([0, 1]), by_batches,
                         lambda t: t.write(path("out"))):
                failure = refused((74, 95, 27), lambda: work(Table(name)), "lies")
                assert "row group 0" in failure.text or "footer" in failure.text, failure
    # The file and its group agree, and the columns have other numbers.
    total, group = [at for at in found if refused_as(data, at, "footer")]
    for lie in (ROWS - 1, ROWS + 1):
        data_two = bytearray(data)
        for at in (total, group):
            data_two[at:at + len(zigzag(lie))] = zigzag(lie)
        name = changed(bytes(data_two), 0, b"PAR1")
        refused(74, lambda: Table(name).columns([1]), "lies", "row group 0", "column 'b'")
        refused(74, lambda: by_batches(Table(name)), "lies", "row group 0")


def refused_as(data, at, word):
    try:
        Table(changed(data, at, zigzag(ROWS + 1)))
    except ht.Failed as failure:
        return word in failure.text
    return False


@case
def rows_of_arrow():
    table = pa.table({"a": pa.array(range(ROWS)), "s": pa.array(["text"] * ROWS)})
    for stream in (False, True):
        name = write_ipc(table, "true.arrow", stream)
        data = open(name, "rb").read()
        metadata = data.find(struct.pack("<q", ROWS))
        # The batch, the nodes of two columns: the footer has none.
        found = [at for at in places(data, struct.pack("<q", ROWS)) if at < metadata + 200]
        same(len(found), 3)
        lengths = [at for what in (8 * ROWS, 4 * (ROWS + 1), 4 * ROWS)
                   for at in places(data, struct.pack("<q", what)) if at < metadata + 400 and
                   data[at + 8:at + 16] != bytes(8)]  # where a buffer of no bytes begins
        assert len(lengths) >= 3, lengths
        for at in found + lengths:
            for lie in (ROWS - 1 if at in found else 8, ROWS * 9, 1 << 40, 2**63 - 1, -1):
                name = changed(data, at, struct.pack("<q", lie))
                for check in (0, ht.CHECK):
                    for work in (lambda t: [c.chunks() for c in t.columns([0, 1])], by_batches,
                                 lambda t: t.write(path("out"))):
                        if at in lengths and lie > 4 * ROWS and lie < len(data):
                            continue  # a buffer that is longer than it must be
                        refused((74, 27, 95), lambda: work(Table(name, flags=check)), "lies")
    # All of a batch's own numbers agree, and its buffers are too short for them.
    name = write_ipc(table, "true.arrow")
    data = bytearray(open(name, "rb").read())
    metadata = data.find(struct.pack("<q", ROWS))
    for at in [at for at in places(bytes(data), struct.pack("<q", ROWS)) if at < metadata + 200]:
        struct.pack_into("<q", data, at, 10 * ROWS)
    name = changed(bytes(data), 0, b"ARROW1")
    refused(74, lambda: [c.chunks() for c in Table(name).columns([0, 1])], "lies",
            "row group 0", "column 'a'", str(10 * ROWS))
    refused(74, lambda: by_batches(Table(name)), "lies", "row group 0", "column 'a'")


@case
def two_schemas():
    """A file has its schema before its record batches and in its footer: they say the same."""
    table = pa.table({"first": pa.array(range(ROWS)), "second": pa.array(["text"] * ROWS)})
    for codec in (None, "zstd"):
        data = open(write_ipc(table, "true.arrow", compression=codec), "rb").read()
        before, footer = places(data, b"second")
        for at in (before, footer):
            name = changed(data, at, b"third!")
            for flags in (ht.READ, ht.READ | ht.CHECK):
                for work in (lambda t: t.columns([0, 1]), lambda t: t.columns([1]), by_batches,
                             lambda t: t.write(path("out"))):
                    refused(74, lambda: work(Table(name, flags=flags)), "lies", "schema",
                            "footer")


def csv(name, rows, line, head="a,b"):
    with open(path(name), "w") as file:
        file.write(head + "\n")
        file.writelines(line(i) + "\n" for i in range(rows))
    return path(name)


@case
def late_types():
    n = 200000
    late = n - 10
    for value, kind in (("7", pa.int64()), ("1.5", pa.float64()), ("word", pa.string()),
                        ("2024-01-31", pa.date32())):
        name = csv("late.csv", n, lambda i: f"{i},{value if i >= late else ''}")
        assert os.path.getsize(name) > 1 << 20
        for threads in (1, 2):
            table = Table(name, threads=threads)
            got = table.reader().read_all().column(1)
            same(got.type, kind)
            same(got.null_count, late if kind != pa.string() else 0)
            same(by_batches(Table(name, threads=threads)), n)
    name = csv("other.csv", n, lambda i: f"{i},{1.5 if i == late else i}")
    for threads in (1, 2):
        for work in (lambda t: t.columns([1]), by_batches, lambda t: t.write(path("out"))):
            failure = refused(74, lambda: work(Table(name, threads=threads)), "other.csv",
                              "column 'b'", f"row {late + 2} ", "'1.5'", "int64",
                              "HM_TABLE_CSV_WHOLE")
            assert "row group" not in failure.text, failure
        # The columns that are right are there.
        same(Table(name, threads=threads).columns([0])[0].info().rows, n)
        whole = Table(name, threads=threads, flags=ht.CSV_WHOLE)
        same(whole.reader().read_all().column(1).type, pa.float64())
        same(by_batches(whole), n)
    refused(27, lambda: Table(name, flags=ht.CSV_WHOLE, limit=1 << 20), "limit")
    # A file whose column is empty, and one that has its values: in both orders.
    empty, full = csv("1.csv", 3, lambda i: f"{i},"), csv("2.csv", 3, lambda i: f"{i},{i}.5")
    for names in ((empty, full), (full, empty)):
        got = Table(*names).reader().read_all().column(1)
        same((got.type, got.null_count), (pa.float64(), 3))
    same(Table(empty).reader().read_all().column(1).type, pa.null())


def kinds():
    for unit in ("s", "ms", "us", "ns"):
        for zone in (None, "UTC", "Asia/Shanghai"):
            yield pa.timestamp(unit, zone)
        yield pa.duration(unit)
    yield from (pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"),
                pa.time64("ns"), pa.int32(), pa.uint16(), pa.float32(), pa.bool_())


def of(kind):
    values = ([86400000, None, 2 * 86400000] if kind == pa.date64() else
              [True, None, False] if kind == pa.bool_() else [1, None, 0])
    return pa.table({"x": pa.array(values, kind),
                     "l": pa.array([values, None, []], pa.list_(kind)),
                     "d": pa.array(["a", None, "b"]).dictionary_encode(),
                     "t": pa.array(["a", None, "b"], pa.large_string())})


@case
def appends_of_all_types():
    for kind in kinds():
        table = of(kind)
        source = Table(write_ipc(table, "source"))
        for way in (ht.PARQUET, ht.ARROW, ht.STREAM, "pyarrow"):
            to = path("to")
            if way == "pyarrow":
                pq.write_table(table, to)
            else:
                source.write(to, format=way)
            source.write(to, flags=ht.APPEND)
            got = (pa.ipc.open_file(to).read_all() if way == ht.ARROW else
                   pa.ipc.open_stream(to).read_all() if way == ht.STREAM else pq.read_table(to))
            expected = pa.concat_tables([table, table])
            # Parquet has no seconds, and the first dictionary need not be the second one.
            for name in ("x", "l", "t"):
                same(got[name].cast(expected[name].type).combine_chunks(),
                     expected[name].combine_chunks(), f"{kind}, {way}, {name}")
            same(got["d"].cast(pa.string()).to_pylist(), ["a", None, "b"] * 2)
            compared = Table(to).reader().read_all()
            same(compared["x"].combine_chunks(), got["x"].combine_chunks())


@case
def appends_that_differ():
    """What readers would take for something else is refused, and the file stays."""
    def one(kind, values=(1, 2)):
        return pa.table({"x": pa.array(list(values), kind)})

    lists = [[1, 2, 3], [4, 5, 6]]
    pairs = ((one(pa.duration("s")), one(pa.duration("ms"))),
             (one(pa.int64()), one(pa.duration("ms"))),
             (one(pa.duration("ms")), one(pa.int64())),
             (one(pa.timestamp("ms")), one(pa.timestamp("us"))),
             (one(pa.timestamp("ms")), one(pa.timestamp("ms", "UTC"))),
             (one(pa.int32()), one(pa.uint32())), (one(pa.int32()), one(pa.date32())),
             (one(pa.list_(pa.int8(), 3), lists), one(pa.list_(pa.int8()), lists)))
    for first, second in pairs:
        pq.write_table(first, path("to"))
        source = Table(write_ipc(second, "source"))
        refused(22, lambda: source.write(path("to"), flags=ht.APPEND), "column 'x", "append")
        same(pq.read_table(path("to")), first)
    # Instants are the same in each zone: the file keeps the name of its own.
    pq.write_table(one(pa.timestamp("us", "UTC")), path("to"))
    source = Table(write_ipc(one(pa.timestamp("us", "Asia/Shanghai")), "source"))
    source.write(path("to"), flags=ht.APPEND)
    assert "Asia/Shanghai" in ht.warning() and "UTC" in ht.warning(), ht.warning()
    same(pq.read_table(path("to"))["x"].combine_chunks(),
         pa.array([1, 2] * 2, pa.timestamp("us", "UTC")))
    # Files without types of Arrow beside the footer, and with numbers of fields.
    fields = pa.schema([pa.field("x", pa.timestamp("us"), metadata={"PARQUET:field_id": "7"})])
    pq.write_table(one(pa.timestamp("us")).cast(fields), path("to"), store_schema=False)
    Table(write_ipc(one(pa.timestamp("us")), "source")).write(path("to"), flags=ht.APPEND)
    same(pq.read_table(path("to"))["x"].combine_chunks(), pa.array([1, 2] * 2, pa.timestamp("us")))
