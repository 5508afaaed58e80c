# SPDX-License-Identifier: MIT
"""Files that are right and rare, selections that are odd, and lies that a reader may believe."""
import ctypes
import os
import struct
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

import hetmap_table as ht
from hetmap_table import Table
from peer_tools import case, path, refused, same, write_ipc


def text_file(name, text):
    with open(path(name), "w", encoding="utf-8") as file:
        file.write(text)
    return path(name)


def changed(name, old, new, to="changed"):
    """A copy of a file in which the one place that has @old has @new."""
    data = open(name, "rb").read()
    same(data.count(old), 1, f"places of {old!r}")
    with open(path(to), "wb") as file:
        file.write(data.replace(old, new))
    return path(to)


def all_of_batches(table, **desc):
    """All columns of all batches, as lists."""
    batches, rows = table.batches(**desc), [[] for _ in range(table.info().columns)]
    while True:
        batch = batches.next()
        if not batch.rows:
            return rows
        schema = ctypes.create_string_buffer(256)
        for i, own in enumerate(rows):
            chunk = batches.chunk(i)
            same(chunk.rows, batch.rows, "rows")
            pa.field("", batches.schema.field(i).type)._export_to_c(ctypes.addressof(schema))
            # A copy of the struct, which gives nothing back.
            array = ht.DeviceArray()
            ctypes.memmove(ctypes.byref(array), chunk.array, 80)
            array.release = ctypes.cast(NOTHING, ht.pointer).value
            taken = pa.Array._import_from_c(ctypes.addressof(array), ctypes.addressof(schema))
            own += taken.to_pylist()
            del taken


@ctypes.CFUNCTYPE(None, ht.pointer)
def NOTHING(array):
    ctypes.cast(array, ctypes.POINTER(ht.DeviceArray)).contents.release = None


@case
def repeated_columns():
    """A column twice in the selection, none of them, and columns of one name."""
    plain = pa.table({"x": [1, 2, 3], "y": ["a", "b", "c"]})
    pq.write_table(plain, path("plain.pq"))
    files = [path("plain.pq"), write_ipc(plain, "plain.arrow"),
             write_ipc(plain, "plain.zstd", compression="zstd"),
             text_file("plain.csv", "x,y\n1,a\n2,b\n3,c\n")]
    for file in files:
        for wanted in (["y", "x", "y"], ["x", "x"], ["y"], ["y", "x"]):
            expected = [plain[name].to_pylist() for name in wanted]
            table = Table(file, columns=wanted)
            same([c.to_pylist() for c in table.reader().read_all().columns], expected, file)
            same(all_of_batches(table, window=1 << 20), expected, file)
        nothing = Table(file, columns=[])
        same(nothing.info().columns, 0)
        nothing.reader().read_all()
        rows = nothing.batches(window=1 << 20).next().rows
        assert rows == 3 or "arrow" in file or "zstd" in file, f"{rows} rows without columns"
    twice = pa.table([pa.array([1, 2]), pa.array([3, 4])], names=["a", "a"])
    pq.write_table(twice, path("twice.pq"))
    text = text_file("twice.csv", 'a,b,a\n1,2,x\n3,4,"y\n"\n')
    for name, count, expected in ((path("twice.pq"), 1, [[1, 2], [3, 4]]),
                                  (path("twice.pq"), 2, [[1, 2, 1, 2], [3, 4, 3, 4]]),
                                  (text, 1, [[1, 3], [2, 4], ["x", "y\n"]])):
        table = Table(*[name] * count)
        same([c.to_pylist() for c in table.reader().read_all().columns], expected, name)
        same(all_of_batches(table, window=1 << 20), expected, name)
    same(Table(text, columns=["b"]).reader().read_all()["b"].to_pylist(), [2, 4])
    refused(95, lambda: Table(text_file("empty line.csv", "\na,a\n1,2\n")), "one name")


@case
def names_of_text():
    """A table of text whose first name is the magic word of another format."""
    for word in ("FEA1", "ORCHARD", "PAR1", "PARENT"):
        table = Table(text_file("magic.csv", f"{word},b\n1,2\n"))
        same(table.info().format, ht.CSV, word)
        same(table.reader().read_all().to_pydict(), {word: [1], "b": [2]})
    refused(95, lambda: Table(text_file("lfs", "version https://git-lfs.github.com\n")), "LFS")


@case
def no_end_mark():
    """A file of Arrow whose writer left out the mark of the end, which the footer replaces."""
    whole = write_ipc(pa.table({"x": list(range(10))}), "whole.arrow", rows=5)
    data = open(whole, "rb").read()
    footer = len(data) - 10 - struct.unpack("<i", data[-10:-6])[0]
    same(data[footer - 8:footer], b"\xff\xff\xff\xff\0\0\0\0", "mark")
    with open(path("no mark"), "wb") as file:
        file.write(data[:footer - 8] + data[footer:])
    table = Table(path("no mark"))
    same(table.info().rows, 10)
    same(table.reader().read_all()["x"].to_pylist(), list(range(10)))


@case
def extension_types():
    """Storage of an extension is checked as the storage that it is."""
    kind = pa.fixed_shape_tensor(pa.float32(), (3,))
    storage = pa.array([[1, 2, 3], [4, 5, 6]], pa.list_(pa.float32(), 3))
    tensors = pa.table({"t": pa.ExtensionArray.from_storage(kind, storage)})
    name = write_ipc(tensors, "tensors.arrow")
    # The address of the storage's type was taken for a length: by chance it is positive.
    tables = [Table(name) for _ in range(100)]
    for table in tables:
        same(table.columns([0])[0].info().rows, 2)
    missing = pa.array([[None, None, None]], pa.list_(pa.float32(), 3))
    pq.write_table(pa.table({"t": pa.ExtensionArray.from_storage(kind, missing)}),
                   path("missing.pq"))
    table = Table(path("missing.pq"), filters=[("t", ht.NOT_NULL, None)])
    same(table.info().skipped, 0, "a list of missing values is no missing list")


@case
def no_number():
    """Statistics leave NaN out: a group whose other values are all the same has other rows."""
    values = [[5.0, float("nan")], [5.0, 5.0], [float("nan")] * 2]
    for kind in (pa.float32(), pa.float64()):
        pq.write_table(pa.table({"x": pa.array(sum(values, []), kind)}), path("nan.pq"),
                       row_group_size=2)
        for compare, skipped in ((ht.NOT_EQUAL, 0), (ht.GREATER, 2), (ht.LESS, 2)):
            table = Table(path("nan.pq"), filters=[("x", compare, 5)])
            assert table.info().skipped <= skipped, f"{compare}: {table.info().skipped}"
            got = table.reader().read_all()["x"].to_pylist()
            expected = sum(values, [])
            if compare == ht.NOT_EQUAL:
                same(sum(x != 5 for x in got), sum(x != 5 for x in expected), "rows")


@case
def counts_that_lie():
    """Numbers of missing values and of rows that no array can have."""
    name = write_ipc(pa.table({"x": pa.array([1, None, 3, None, 5, 6, 7, 8])}), "nulls.arrow")
    for lie in (9, 100, 2**62):
        bad = changed(name, struct.pack("<qq", 8, 2), struct.pack("<qq", 8, lie))
        refused(74, lambda: Table(bad).columns([0])[0].info(), "missing", "column 'x'")
    kind = pa.schema([("x", pa.null())])
    with pa.ipc.new_file(path("rows.arrow"), kind) as writer:
        for _ in range(3):
            writer.write_batch(pa.record_batch([pa.nulls(77777)], schema=kind))
    data = open(path("rows.arrow"), "rb").read()
    with open(path("lying"), "wb") as file:
        file.write(data.replace(struct.pack("<q", 77777), struct.pack("<q", 2**63 - 1)))
    refused(74, lambda: Table(path("lying")).info(), "rows")
    with open(path("half"), "wb") as file:
        file.write(data.replace(struct.pack("<q", 77777), struct.pack("<q", 2**61)))
    same(Table(path("half")).info().rows, 3 * 2**61)
    refused(74, lambda: Table(path("half"), path("half")).info(), "rows")


@case
def old_compression():
    """The codec beside the message, as Arrow 0.17 wrote it: such a body is not in place."""
    n = 100000
    batch = pa.record_batch([pa.array(np.full(n, -1))], names=["x"])
    old = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)
    with pa.ipc.new_file(path("old.arrow"), batch.schema, options=old) as writer:
        writer.write_batch(batch, {"ARROW:experimental_compression": "ZSTD"})
    table = Table(path("old.arrow"))
    same(table.field(0).in_place, 0)
    assert b"zstd" in table.field(0).why, table.field(0).why
    table.info()
    os.truncate(path("old.arrow"), 4096)
    # Decoding in the map would be a signal.
    refused((61, 74), lambda: table.columns([0]), "old.arrow")


@case
def changed_headers():
    """A body that is compressed since the open is not decoded where it lies."""
    n = 100000
    packed = write_ipc(pa.table({"x": np.arange(n) % 7}), "packed.arrow", compression="zstd")
    data = open(packed, "rb").read()
    with pa.ipc.open_file(packed) as reader:
        same(reader.num_record_batches, 1)
    plain = hide_compression(data)
    assert plain != data
    with open(path("changing"), "wb") as file:
        file.write(plain)
    table = Table(path("changing"))
    same((table.field(0).in_place, table.info().rows), (1, n))
    with open(path("changing"), "r+b") as file:
        file.write(data)
    refused(74, lambda: table.columns([0])[0].chunk(0), "changed since the open")


def hide_compression(data):
    """The same file, in whose record batches no codec is told."""
    data, at = bytearray(data), 8
    while True:
        mark, length = struct.unpack_from("<Ii", data, at)
        if mark != 0xffffffff or length <= 0:
            return bytes(data)
        message = at + 8 + struct.unpack_from("<i", data, at + 8)[0]

        def field(table, number):
            slots = table - struct.unpack_from("<i", data, table)[0]
            place = slots + 4 + 2 * number
            if 4 + 2 * number >= struct.unpack_from("<H", data, slots)[0]:
                return None, None
            offset = struct.unpack_from("<H", data, place)[0]
            return (table + offset if offset else None), place

        kind, _ = field(message, 1)
        header, _ = field(message, 2)
        body, _ = field(message, 3)
        if data[kind] == 3:
            batch = header + struct.unpack_from("<I", data, header)[0]
            _, place = field(batch, 3)
            struct.pack_into("<H", data, place, 0)
        at += 8 + length + (struct.unpack_from("<q", data, body)[0] if body else 0)


@case
def events_of_devices():
    """Memory that is not written yet is refused, also in a stream."""
    table = Table(write_ipc(pa.table({"x": [1, 2, 3]}), "event.arrow"))
    stream, handle, desc = ht.DeviceStream(), ht.pointer(), ht.made(ht.Desc)
    ht.call("hm_table_export_device", table.handle, ctypes.byref(stream))
    inner = ht.FUNCTION(ctypes.cast(stream.get_next, ht.pointer).value)

    @ht.FUNCTION
    def get_next(given, room):
        r = inner(given, room)
        ctypes.cast(room, ctypes.POINTER(ht.DeviceArray)).contents.event = 4096
        return r

    stream.get_next = get_next
    refused(95, lambda: ht.call("hm_table_import_device", ctypes.byref(stream),
                                ctypes.byref(desc), ctypes.byref(handle)), "event")
    assert not handle.value and not stream.release


@case
def writers_of_lies():
    """A writer follows each offset and index: those that lead out of a column are told."""
    def refused_by_writers(name, old, new):
        bad = Table(changed(write_ipc(pa.table({"k": values}), name), old, new, name + ".bad"))
        for kind in (ht.PARQUET, ht.ARROW, ht.STREAM):
            refused(74, lambda: bad.write(path("out"), format=kind), "column 'k'", name)
        assert not os.path.exists(path("out"))

    values = pa.array([f"key{i % 3}" for i in range(1000)])
    refused_by_writers("offsets.arrow", struct.pack("<4i", 0, 4, 8, 12),
                       struct.pack("<4i", 0, 4, 0x7fffff00, 12))
    values = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 0x0a0b, 2], pa.int16()), pa.array([str(i) for i in range(0x0a0c)]))
    refused_by_writers("indices.arrow", struct.pack("<4h", 0, 1, 0x0a0b, 2),
                       struct.pack("<4h", 0, 1, -3, 2))
    # A time of the day in a date64 is odd, and no lie.
    times = write_ipc(pa.table({"d": pa.array([86400000, 60000], pa.date64())}), "times.arrow")
    Table(times).write(path("times"), format=ht.ARROW)
    same(Table(path("times"), flags=ht.CHECK).columns([0])[0].info().rows, 2)


@case
def links():
    """A link stays a link: what it leads to is replaced, or continued."""
    one = pa.table({"x": [1, 2]})
    pq.write_table(one, path("target.pq"))
    os.symlink("target.pq", path("link.pq"))
    Table(path("target.pq")).write(path("link.pq"), flags=ht.APPEND)
    same(pq.read_table(path("target.pq"))["x"].to_pylist(), [1, 2, 1, 2])
    Table(write_ipc(one, "one.arrow")).write(path("link.pq"))
    assert os.path.islink(path("link.pq"))
    same(pq.read_table(path("target.pq"))["x"].to_pylist(), [1, 2])


@case
def two_writers():
    """A file that another program replaces during an append keeps the rows of that program."""
    n = 300000
    texts = pa.table({"x": pa.array([str(i * 7919) for i in range(n)])})
    source, one = Table(write_ipc(texts, "texts.arrow", rows=n // 30)), path("one.pq")
    pq.write_table(texts.slice(0, 1), one)
    pq.write_table(texts.slice(0, 2), path("two.pq"))
    waiting = threading.Event()

    def other():
        waiting.set()
        while not any(name.startswith(".one.pq") for name in os.listdir(os.path.dirname(one))):
            time.sleep(0.001)
        os.replace(path("two.pq"), one)

    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    waiting.wait()
    refused(11, lambda: source.write(one, flags=ht.APPEND, codec=b"zstd"), "append again")
    thread.join()
    same(pq.read_metadata(one).num_rows, 2)
    same([name for name in os.listdir(os.path.dirname(one)) if name.startswith(".")], [])
    source.write(one, flags=ht.APPEND)
    same(pq.read_metadata(one).num_rows, n + 2)


@case
def dictionaries_of_groups():
    """An Arrow file can't have a dictionary for each group: told, and other formats can."""
    words = pa.table({"d": ["a", "b", "c", "d"]})
    pq.write_table(words, path("words.pq"), row_group_size=2)
    table = Table(path("words.pq"), flags=ht.DICTIONARY)
    refused(95, lambda: table.write(path("words.arrow"), format=ht.ARROW), "stream")
    assert not os.path.exists(path("words.arrow"))
    table.write(path("words.arrows"), format=ht.STREAM)
    with pa.ipc.open_stream(path("words.arrows")) as reader:
        same(reader.read_all()["d"].to_pylist(), ["a", "b", "c", "d"])
