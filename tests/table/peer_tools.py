# SPDX-License-Identifier: MIT
"""What the tests of libhetmap-table beside pyarrow have in common."""
import datetime
import decimal
import itertools
import os

import numpy as np
import pyarrow as pa
import pyarrow.ipc

import hetmap_table as ht
from hetmap_table import Table

CASES = {}
folder = None  # for the files of the case


def case(function):
    CASES[function.__name__] = function
    return function


def same(a, b, what=""):
    assert a == b, f"{what}: {a!r} and not {b!r}"


def path(name):
    return os.path.join(folder, name)


def refused(number, work, *words):
    """@work fails with an errno of @number, and its text has @words."""
    try:
        work()
    except ht.Failed as failure:
        numbers = number if isinstance(number, tuple) else (number,)
        assert failure.errno in numbers, f"{failure}: not errno {numbers}"
        for word in words:
            assert word in failure.text, f"{failure}: has no '{word}'"
        return failure
    raise AssertionError(f"no failure with errno {number}")


def with_nulls(values, step=3):
    return [None if step and i % step == 1 else value for i, value in enumerate(values)]


def simple_types():
    """Name, type and values of all types without children."""
    n = 37
    ints = list(range(-18, 19))
    for bits in (8, 16, 32, 64):
        yield f"int{bits}", getattr(pa, f"int{bits}")(), ints
        yield f"uint{bits}", getattr(pa, f"uint{bits}")(), [i + 18 for i in ints]
    yield "bool", pa.bool_(), [i % 3 == 0 for i in range(n)]
    yield "half", pa.float16(), [np.float16(i / 2) for i in range(n)]
    yield "float", pa.float32(), [i * 0.5 for i in range(n)]
    yield "double", pa.float64(), [i / 3 for i in range(n)]
    text = ["", "a", "minute", "é", "a string of more than twelve bytes"]
    texts = [text[i % len(text)] + str(i) * (i % 2) for i in range(n)]
    for name in ("string", "large_string", "string_view"):
        yield name, getattr(pa, name)(), texts
    for name in ("binary", "large_binary", "binary_view"):
        yield name, getattr(pa, name)(), [t.encode() for t in texts]
    yield "fixed", pa.binary(5), [f"{i:05}".encode() for i in range(n)]
    yield "date32", pa.date32(), [datetime.date(2020, 1, 1) + datetime.timedelta(i)
                                  for i in range(n)]
    yield "date64", pa.date64(), [datetime.date(2020, 1, 1) + datetime.timedelta(i)
                                  for i in range(n)]
    yield "time32s", pa.time32("s"), [datetime.time(i % 24, i, 0) for i in range(n)]
    yield "time32ms", pa.time32("ms"), [datetime.time(i % 24, i, 0, 5000) for i in range(n)]
    yield "time64us", pa.time64("us"), [datetime.time(i % 24, i, 0, 7) for i in range(n)]
    yield "time64ns", pa.time64("ns"), [datetime.time(i % 24, i, 0, 9) for i in range(n)]
    for unit in ("s", "ms", "us", "ns"):
        # Python has no nanoseconds.
        times = [i * 1000 for i in ints]
        yield f"timestamp_{unit}", pa.timestamp(unit), times
        yield f"zoned_{unit}", pa.timestamp(unit, "Asia/Shanghai"), times
        yield f"duration_{unit}", pa.duration(unit), times
    yield "decimal32", pa.decimal32(7, 2), [decimal.Decimal(i).scaleb(-2) for i in ints]
    yield "decimal64", pa.decimal64(15, 3), [decimal.Decimal(i).scaleb(-3) for i in ints]
    yield "decimal128", pa.decimal128(30, 4), [decimal.Decimal(i).scaleb(-4) for i in ints]
    yield "decimal256", pa.decimal256(60, 5), [decimal.Decimal(i).scaleb(-5) for i in ints]
    yield "null", pa.null(), [None] * n
    yield "interval", pa.month_day_nano_interval(), [pa.MonthDayNano([i, i, i])
                                                      for i in range(n)]


def nested_types():
    n = 37
    lists = [list(range(i % 5)) for i in range(n)]
    yield "list", pa.list_(pa.int32()), lists
    yield "large_list", pa.large_list(pa.int64()), lists
    yield "list_view", pa.list_view(pa.int32()), lists
    yield "large_list_view", pa.large_list_view(pa.int32()), lists
    yield "fixed_list", pa.list_(pa.float32(), 3), [[i, i + 1, i + 2] for i in range(n)]
    yield "list_of_lists", pa.list_(pa.list_(pa.string())), [[["a"] * (i % 3), []]
                                                              for i in range(n)]
    yield "struct", pa.struct([("x", pa.int16()), ("y", pa.string())]), [
        {"x": i, "y": str(i)} for i in range(n)]
    yield "struct_of_lists", pa.struct([("a", pa.list_(pa.int8()))]), [
        {"a": list(range(i % 4))} for i in range(n)]
    yield "map", pa.map_(pa.string(), pa.int32()), [[(str(j), j) for j in range(i % 3)]
                                                     for i in range(n)]


def column(kind, values):
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return pa.array(values, kind)
    return pa.array(values, kind)


def all_columns(step):
    """A table with a column of each type; each @step-th value is missing."""
    columns = {}
    for name, kind, values in itertools.chain(simple_types(), nested_types()):
        columns[name] = column(kind, with_nulls(values, step))
    words = pa.array(with_nulls([f"word {i % 5}" for i in range(37)], step))
    columns["dictionary"] = words.dictionary_encode()
    columns["runs"] = pa.RunEndEncodedArray.from_arrays(
        pa.array([10, 20, 37], pa.int32()), pa.array(["a", None, "c"] if step else "abc"
                                                     and ["a", "b", "c"]))
    columns["dense_union"] = pa.UnionArray.from_dense(
        pa.array([i % 2 for i in range(37)], pa.int8()),
        pa.array([i // 2 for i in range(37)], pa.int32()),
        [pa.array(range(19), pa.int64()), pa.array([str(i) for i in range(19)])])
    columns["sparse_union"] = pa.UnionArray.from_sparse(
        pa.array([i % 2 for i in range(37)], pa.int8()),
        [pa.array(range(37), pa.int64()), pa.array([str(i) for i in range(37)])])
    return pa.table(columns)


def storable(table):
    """Without the types that Parquet does not have."""
    drop = ["runs", "dense_union", "sparse_union", "interval", "list_view", "large_list_view",
            "date64", "decimal32", "decimal64"]
    return table.drop_columns([name for name in drop if name in table.column_names])


def write_ipc(table, name, stream=False, rows=None, **options):
    to = path(name)
    options = pa.ipc.IpcWriteOptions(**options)
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with new(to, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)
    return to


def compare(expected, *paths, **desc):
    """All rows that the library has are those of pyarrow."""
    table = Table(*paths, **desc)
    got = table.reader().read_all()
    got.validate(full=True)
    same(got.schema.names, expected.schema.names, "names")
    for i, name in enumerate(expected.schema.names):
        # The names of children of lists and maps are the file's, or Parquet's own.
        assert got.schema.field(i).type.equals(expected.schema.field(i).type) or (
            got.schema.field(i).type.num_fields and
            got.schema.field(i).type.id == expected.schema.field(i).type.id), name
        same(got.column(i).to_pylist(), expected.column(i).to_pylist(), name)
    return table


def all_in_maps(table):
    """Every buffer with bytes is a unified pointer. Returns the chunks in place, and all."""
    in_place = chunks = 0
    find = ht.core.hm_pointer_find
    info = (ht.ctypes.c_uint64 * 16)()

    def look(array):
        for buffer in array.buffers():
            if buffer is not None and buffer.size:
                same(find(ht.pointer(buffer.address), info), 0, "a buffer in no map")

    for own in table.columns(range(table.info().columns)):
        for number in range(own.info().chunks):
            array = own.array(number)
            look(array)
            if pa.types.is_dictionary(array.type):
                look(array.dictionary)
            chunk = own.chunk(number)
            in_place += chunk.in_place
            chunks += 1
            same(chunk.rows, len(array), "rows")
            same(chunk.nulls, array.null_count, "nulls")
    return in_place, chunks
