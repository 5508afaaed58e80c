# SPDX-License-Identifier: MIT
"""Files that are damaged, lie, or are cut off: errors that name them, and never a signal."""
import os
import random
import struct

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

import hetmap_table as ht
from hetmap_table import Table
from peer_tools import all_columns, case, path, refused, same, storable, write_ipc

# Of damaged files: what a decoder refuses, what is cut, what claims too much or is unknown.
BAD = {74, 61, 95, 27, 12, 22, 5, 28}


def try_all(name, limit=1 << 28):
    """Opens and reads all, by each way. Returns the failures; any other end is not ours to have."""
    failures = []
    for flags in (0, ht.CHECK):
        try:
            table = Table(name, flags=flags, threads=1, limit=limit)
            table.info()
            table.reader().read_all()
            table.batches(window=1 << 20).next()
            failures.append(None)
        except ht.Failed as failure:
            assert failure.errno in BAD, failure
            assert os.path.basename(name) in failure.text, failure
            failures.append(failure)
        except (pa.ArrowException, OSError) as failure:
            failures.append(failure)
    return failures


def samples():
    table = storable(all_columns(3))
    small = table.select(["int32", "string", "list", "decimal128", "bool"])
    yield write_ipc(small, "sample.arrow", rows=10), 0
    yield write_ipc(small, "sample.arrows", True, rows=10), 0
    yield write_ipc(small, "sample.zstd", rows=10, compression="zstd"), 0
    words = pa.table({"d": pa.array(["a", "b", "a"]).dictionary_encode()})
    yield write_ipc(words, "sample.words"), 0
    for codec in ("none", "snappy", "zstd"):
        to = path(f"sample.{codec}.pq")
        pq.write_table(small, to, row_group_size=10, compression=codec)
        yield to, 0


@case
def truncations():
    for name, _ in samples():
        data = open(name, "rb").read()
        to = path("cut")
        steps = sorted(set(list(range(0, len(data), max(1, len(data) // 150))) +
                           list(range(max(0, len(data) - 24), len(data)))))
        for length in steps:
            with open(to, "wb") as file:
                file.write(data[:length])
            failures = try_all(to)
            if name.endswith(".arrows"):
                continue  # a stream may end behind any batch
            assert failures[0] is not None, f"{name} of {length} bytes passed"


@case
def flips():
    """One bit, or some bytes, are others. The file may still be right; nothing else may happen."""
    dice = random.Random(11)
    for name, _ in samples():
        data = open(name, "rb").read()
        for turn in range(250):
            damaged = bytearray(data)
            for _ in range(1 if turn % 2 else dice.randint(1, 8)):
                at = dice.randrange(len(data))
                damaged[at] ^= 1 << dice.randrange(8)
            with open(path("flipped"), "wb") as file:
                file.write(damaged)
            try_all(path("flipped"))


@case
def lengths():
    """Numbers that lie about what follows them."""
    dice = random.Random(5)
    lies = [struct.pack("<i", value) for value in (-1, 0, 1, 2**31 - 1, -2**31, 1 << 20)] + [
        struct.pack("<q", value) for value in (-1, 2**63 - 1, -2**63, 1 << 40)]
    for name, _ in samples():
        data = open(name, "rb").read()
        for turn in range(250):
            damaged = bytearray(data)
            lie = dice.choice(lies)
            at = dice.randrange(0, len(data) - 8, 4)
            damaged[at:at + len(lie)] = lie
            with open(path("lying"), "wb") as file:
                file.write(damaged[:len(data)])
            try_all(path("lying"))
    # Footers that are not in the file.
    for name, at in (("sample.arrow", -10), ("sample.none.pq", -8)):
        data = bytearray(open(path(name), "rb").read())
        for value in (len(data) + 1, 2**31 - 1, -1, 0):
            struct.pack_into("<i", data, len(data) + at, value)
            with open(path("footer"), "wb") as file:
                file.write(data)
            refused(tuple(BAD), lambda: Table(path("footer")), "footer")


@case
def no_tables():
    def holds(data, name="other"):
        with open(path(name), "wb") as file:
            file.write(data)
        return path(name)

    refused(61, lambda: Table(holds(b"")), "empty")
    refused(95, lambda: Table(holds(b"\x00\x01\x02\x03" * 100)), "no table")
    refused(95, lambda: Table(holds(b"FEA1" + b"\x00" * 100)), "Feather")
    refused(95, lambda: Table(holds(b"PARE" + b"\x00" * 100)), "encrypted")
    refused(95, lambda: Table(holds(b"ORC" + b"\x00" * 100)), "ORC")
    refused(95, lambda: Table(holds(b"\x1f\x8b\x08\x00" * 9)), "gzip")
    refused(95, lambda: Table(holds(b"version https://git-lfs.github.com/spec/v1\n")), "LFS")
    refused(2, lambda: Table(path("none such")), "none such")
    os.mkdir(path("nothing"))
    refused(61, lambda: Table(path("nothing")), "nothing")
    os.mkfifo(path("pipe"))
    refused(22, lambda: Table(path("pipe")), "pipe")
    refused(2, lambda: Table(write_ipc(pa.table({"a": [1]}), "a"), columns=["b"]), "'b'")


@case
def bombs():
    """Little that claims to be much: the limit is named, and memory is not taken."""
    n = 64 << 20
    zeros = pa.table({"z": pa.array(np.zeros(n // 8))})
    pq.write_table(zeros, path("bomb.pq"), compression="zstd", use_dictionary=False)
    write_ipc(zeros, "bomb.arrow", compression="zstd")
    for name in ("bomb.pq", "bomb.arrow"):
        assert os.path.getsize(path(name)) < n // 50
        table = Table(path(name), limit=8 << 20)
        failure = refused(27, lambda: table.columns([0]), str(8 << 20), name)
        assert "row group " in failure.text and "limit" in failure.text, failure.text
        same(table.info().memory, 0)
        assert table.info().peak <= 8 << 20
        same(Table(path(name)).columns([0])[0].info().rows, n // 8)


@case
def cut_while_used():
    """The file is cut off between the open and the read."""
    n = 400000
    table = pa.table({"a": pa.array(np.arange(n)), "s": pa.array([str(i) for i in range(n)])})
    to = path("used")

    def write(kind):
        if kind == "parquet":
            pq.write_table(table, to, row_group_size=n // 4)
        elif kind == "csv":
            import pyarrow.csv
            pa.csv.write_csv(table, to)
        else:
            write_ipc(table, "used", kind == "stream", rows=n // 4,
                      compression="zstd" if kind == "zstd" else None)

    for kind in ("parquet", "arrow", "stream", "zstd", "csv"):
        write(kind)
        opened = Table(to)
        batches = Table(to).batches(window=64 << 20)
        size = os.path.getsize(to)
        os.truncate(to, size // 2)
        if kind == "arrow":
            # What is in place is not touched by the library. What it reads is missed.
            refused((61, 74), lambda: Table(to), "used")
        failure = refused((61, 74), lambda: opened.write(path("out"), format=ht.STREAM), "used")
        if kind != "csv":
            assert "row group" in failure.text or kind == "arrow", failure.text

        def all_batches():
            while batches.next().rows:
                pass

        if kind not in ("arrow", "stream"):
            refused((61, 74), all_batches, "used")
        os.truncate(to, 0)
        refused((61, 74), lambda: opened.write(path("out"), format=ht.STREAM), "cut off")
