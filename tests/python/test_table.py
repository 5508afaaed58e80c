# SPDX-License-Identifier: MIT
"""hetmap.table against pyarrow and polars: the same values, at the same addresses."""

import ctypes
import doctest
import gc
import os
import subprocess
import sys

import numpy as np
import pytest
from test_launch import FUNCTION, address

import hetmap

pa = pytest.importorskip("pyarrow")
try:
    from hetmap import table as module
except ImportError as error:
    if os.environ.get("HETMAP_WANT_TABLE"):
        raise
    pytest.skip(str(error), allow_module_level=True)

ROWS, GROUP = 10_000, 1000


@pytest.fixture(scope="session")
def arrow():
    random = np.random.default_rng(1)
    return pa.table({
        "price": random.random(ROWS),
        "volume": pa.array(random.integers(0, 1 << 40, ROWS)),
        "half": random.random(ROWS).astype("float32"),
        "day": pa.array((np.arange(ROWS) // 100).astype("datetime64[D]")),
        "when": pa.array(np.arange(ROWS).astype("datetime64[ms]")),
        "name": [f"name {i % 77}" for i in range(ROWS)],
        "maybe": pa.array([i if i % 3 else None for i in range(ROWS)], pa.int32()),
        "flag": random.random(ROWS) > 0.5,
        "list": [[i] * (i % 3) for i in range(ROWS)],
    })


@pytest.fixture(scope="session", params=["arrow", "stream", "parquet"])
def path(request, arrow, tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / f"data.{request.param}"
    if request.param == "parquet":
        import pyarrow.parquet
        pa.parquet.write_table(arrow, path, row_group_size=GROUP, compression="snappy")
    else:
        new = pa.ipc.new_file if request.param == "arrow" else pa.ipc.new_stream
        with new(path, arrow.schema) as writer:
            writer.write_table(arrow, GROUP)
    return path


def test_facts(path, arrow):
    table = module.open(path)
    assert table.facts["rows"] == ROWS and table.facts["groups"] == ROWS // GROUP
    assert list(table) == arrow.column_names and len(table) == 9 and "price" in table
    assert [(field.name, field.format) for field in table.fields][:2] == [("price", "g"),
                                                                          ("volume", "l")]
    assert [group.rows for group in table.groups] == [GROUP] * (ROWS // GROUP)
    assert "9 columns and 10000 rows" in repr(table)
    with pytest.raises(KeyError):
        table["none"]


def test_pyarrow(path, arrow):
    """The whole of it, by the stream interface, again and again."""
    table = module.open(path)
    for _ in range(2):
        got = table.to_pyarrow()
        assert got.equals(arrow.cast(got.schema)) and got.num_rows == ROWS
    assert pa.schema(table).names == arrow.column_names
    some = module.open(path, columns=["volume", "price"]).to_pyarrow()
    assert some.column_names == ["volume", "price"] and some["price"].equals(arrow["price"])


def test_polars(path, arrow):
    polars = pytest.importorskip("polars")
    got = module.open(path).to_polars()
    assert got.equals(polars.from_arrow(arrow))


def addresses(array):
    return [buffer.address for buffer in array.buffers() if buffer]


def test_no_copy(path, arrow):
    """pyarrow's buffers are at the addresses that the chunk has, and in a map."""
    column = module.open(path)["volume"]
    assert len(column) >= 1 and column.rows == ROWS
    for chunk in column:
        address = addresses(pa.array(chunk))[-1]
        assert address == chunk.facts["values"]
        values = chunk.numpy()
        assert values.ctypes.data == address + chunk.facts["offset"] * 8
        assert not values.flags.writeable
        assert (values == np.asarray(arrow["volume"])[chunk.facts["first_row"]:][:len(chunk)]).all()
    first = column[0]
    assert column[-1].facts["first_row"] == ROWS - len(column[-1])
    device_schema, device_array = first.__arrow_c_device_array__()
    again = pa.Array._import_from_c_device_capsule(device_schema, device_array)
    assert addresses(again)[-1] == first.facts["values"]
    if path.suffix == ".arrow":
        assert first.facts["in_place"] and first.field.in_place


@pytest.mark.parametrize("name", ["price", "half", "volume", "when", "day"])
def test_numpy(path, arrow, name):
    column = module.open(path, columns=[name])[name]
    assert (column.numpy() == arrow[name].to_numpy()).all()


def test_numpy_refuses(path):
    table = module.open(path)
    for name in ("name", "list", "flag"):
        with pytest.raises((TypeError, BufferError)):
            table[name][0].numpy()


def test_missing_values(path, arrow):
    column = module.open(path)["maybe"]
    assert column.facts["nulls"] == arrow["maybe"].null_count
    assert pa.chunked_array([pa.array(chunk) for chunk in column]).equals(arrow["maybe"])


def test_memory_outlives_the_table(path):
    """Arrays of others keep it: the file's map, too, until the last of them has gone."""
    gc.collect()
    before = hetmap.stats()["maps"]
    table = module.open(path)
    array = pa.array(table["price"][3])
    values = table["volume"].numpy()
    del table
    gc.collect()
    assert array[5].as_py() > 0 and values[0] >= 0
    stream = module.open(path).__arrow_c_stream__()
    del array, values, stream
    gc.collect()
    assert hetmap.stats()["maps"] == before


@FUNCTION
def double(part, arguments):
    values, to = (ctypes.cast(arguments[i].value[0], ctypes.POINTER(ctypes.c_int64))
                  for i in range(2))
    for i in range(part[0].begin[0], part[0].end[0]):
        to[i] = values[i] * 2
    return 0


def test_launch_on_a_column(path, arrow):
    """The values are in a map: a launch takes them where they are."""
    values = module.open(path)["volume"][0].numpy()
    result = hetmap.Buffer(hetmap.Device("host"), values.nbytes).map().array("int64")
    kernel = hetmap.Kernel("double", "in out", function=address(double))
    fence = hetmap.Queue(hetmap.Accel("cpu")).launch(kernel, len(values), values, result)
    fence.wait(10)
    assert (result[:len(values)] == values * 2).all() and not fence.query()["bytes_copied"]


def test_filters(arrow, tmp_path):
    import pyarrow.parquet
    path = tmp_path / "data.parquet"
    pa.parquet.write_table(arrow, path, row_group_size=GROUP)
    day = np.datetime64("1970-01-01") + 55
    table = module.open(path, columns=["price"], filters=[("day", "==", day)])
    assert table.facts["skipped"] == ROWS // GROUP - 1
    assert table.to_pyarrow()["price"].to_pylist() == arrow["price"][5000:6000].to_pylist()
    assert [group.skipped for group in table.groups].count(False) == 1
    for wrong in ([("day", "~", 1)], [("none", "==", 1)], [("price", "<", "cheap")]):
        with pytest.raises((ValueError, hetmap.Error)):
            module.open(path, filters=wrong)


def test_import(arrow, tmp_path):
    """Another library's table, and one array; and out again."""
    table = module.from_arrow(arrow)
    assert table.facts["format"] == "memory" and table.to_pyarrow().equals(arrow)
    one = module.from_arrow(pa.array([1.5, None, 3.0]))
    (column,) = (one[name] for name in one.keys())
    assert column.facts["nulls"] == 1 and column.rows == 3
    struct = module.from_arrow(pa.record_batch({"a": [1, 2], "b": ["x", "y"]}))
    assert struct.to_pyarrow().to_pydict() == {"a": [1, 2], "b": ["x", "y"]}
    with pytest.raises((AttributeError, TypeError)):
        module.from_arrow(7)


@pytest.mark.parametrize("format", ["parquet", "arrow", "stream"])
def test_write(arrow, tmp_path, format):
    path = tmp_path / "out"
    told = module.from_arrow(arrow).write(path, format, group_rows=GROUP)
    assert told["rows"] == ROWS and told["bytes"] == os.path.getsize(path)
    assert module.open(path).to_pyarrow().equals(arrow.cast(module.open(path).to_pyarrow().schema))
    if format == "parquet":
        some = module.from_arrow(arrow.drop_columns(["when"]))
        some.write(path, format)
        some.write(path, append=True)
        assert module.open(path).facts["rows"] == 2 * ROWS
    with pytest.raises(ValueError):
        module.from_arrow(arrow).write(path, "feather")


def test_refusals(tmp_path, arrow):
    with pytest.raises(FileNotFoundError):
        module.open(tmp_path / "none")
    (tmp_path / "noise").write_bytes(bytes(1000))
    with pytest.raises(hetmap.Error):
        module.open(tmp_path / "noise")
    with pytest.raises(TypeError):
        module.open(tmp_path / "noise", device="host")
    with pytest.raises(ValueError, match="null"):
        module.open(f"{tmp_path}/a\0b")
    with pytest.raises(ValueError):
        module.open(tmp_path / "noise", format="feather")


def test_nothing_kept(path, nothing_left):
    for _ in range(30):
        table = module.open(path)
        table["volume"][0].numpy()
        pa.array(table["name"][0])
        table.__arrow_c_stream__(), table.__arrow_c_schema__(), table.__arrow_c_device_stream__()
    del table


@pytest.mark.parametrize("code", [
    "", "del table", "keep = table.__arrow_c_stream__(); loop = [keep]; loop.append(loop)",
    "import pyarrow; keep = pyarrow.table(table)", "keep = table['volume'][0].numpy()",
])
def test_end_of_interpreter(path, code):
    head = f"from hetmap import table as module\ntable = module.open({os.fspath(path)!r})\n"
    result = subprocess.run([sys.executable, "-c", head + code], capture_output=True, text=True)
    assert result.returncode == 0 and not result.stderr, result.stderr


def test_doctests():
    assert not doctest.testmod(module).failed
