# SPDX-License-Identifier: MIT
"""hetmap run table and hetmap inspect against pyarrow, DuckDB and polars: each group of checks is a
function of its name.

    table_command.py BUILD WORK GROUP
"""
import datetime
import json
import math
import os
import random
import struct
import subprocess
import sys

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.feather as feather
import pyarrow.parquet as pq

BUILD, WORK, GROUP = sys.argv[1:4]
HETMAP = f"{BUILD}/hetmap"
ROWS = 20000


def path(name):
    return f"{WORK}/{GROUP}-{name}"


def run(*args, status=0, says=None, json_out=False):
    """Runs hetmap; its standard output, as an object with json_out."""
    done = subprocess.run([HETMAP, *args], capture_output=True, text=True, check=False)
    told = done.stdout + done.stderr
    assert done.returncode == status, f"{args}: status {done.returncode}: {told}"
    assert says is None or says in told, f"{args}: no '{says}' in: {told}"
    return json.loads(done.stdout) if json_out else done.stdout


def table(rows=ROWS, seed=1):
    """All that a job can add up, with nulls, and keys of each kind."""
    pick = random.Random(seed)
    null = lambda value: None if pick.random() < 0.1 else value
    day = datetime.date(2024, 1, 2)
    return pa.table({
        "symbol": pa.array([null(f"{pick.randrange(40):06}.X{'SHE' if i % 3 else 'SHG'}")
                            for i in range(rows)]),
        "flag": pa.array([null(i % 7 == 0) for i in range(rows)]),
        "small": pa.array([null(pick.randrange(-50, 50)) for i in range(rows)], pa.int16()),
        "sparse": pa.array([null(pick.randrange(30) * 10**15 - 10**16) for i in range(rows)],
                           pa.int64()),
        "day": pa.array([null(day + datetime.timedelta(days=i * 20 // rows))
                         for i in range(rows)], pa.date32()),
        "at": pa.array([i * 60000 + 1704189600000 for i in range(rows)], pa.timestamp("ms")),
        "f32": pa.array([null(pick.uniform(-1e3, 1e3)) for i in range(rows)], pa.float32()),
        "f64": pa.array([null(pick.uniform(-1e9, 1e9)) for i in range(rows)], pa.float64()),
        "i8": pa.array([null(pick.randrange(-128, 128)) for i in range(rows)], pa.int8()),
        "u8": pa.array([null(pick.randrange(256)) for i in range(rows)], pa.uint8()),
        "u16": pa.array([null(pick.randrange(65536)) for i in range(rows)], pa.uint16()),
        "i32": pa.array([null(pick.randrange(-2**31, 2**31)) for i in range(rows)], pa.int32()),
        "u32": pa.array([null(pick.randrange(2**32)) for i in range(rows)], pa.uint32()),
        "i64": pa.array([null(pick.randrange(-2**40, 2**40)) for i in range(rows)], pa.int64()),
        "u64": pa.array([null(pick.randrange(2**48)) for i in range(rows)], pa.uint64()),
    })


def shown(value):
    """A key as hetmap prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        return value.isoformat() if value.time() != datetime.time() else value.date().isoformat()
    if isinstance(value, datetime.date):
        return value.isoformat()
    return None if value is None else str(value)


def expected(data, key, values):
    """{key: (rows, [sum of each value, or None], [count])} by a plain loop."""
    columns = [data[name].to_pylist() for name in values]
    keys = data[key].to_pylist() if key else [None] * len(data)
    groups = {}
    for i, k in enumerate(keys):
        rows, sums, counts = groups.setdefault(shown(k), [0, [[] for _ in values], None])
        groups[shown(k)][0] += 1
        for v, column in enumerate(columns):
            if column[i] is not None:
                sums[v].append(float(column[i]) if isinstance(column[i], float) else
                               int(column[i]))
    return {k: (rows, [(math.fsum(s) if isinstance(s[0], float) else sum(s)) if s else None
                       for s in sums], [len(s) for s in sums])
            for k, (rows, sums, _) in groups.items()}


def near(ours, theirs):
    if ours is None or theirs is None:
        return ours is None and theirs is None
    if isinstance(theirs, int):
        return ours == theirs
    return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-5)


def check(data, files, key, values, *options, **facts):
    """The result of hetmap over the files is that of a plain loop over the data."""
    files = [files] if isinstance(files, str) else files
    args = ["run", "table", "--json", "--rounds", "1", "--columns", ",".join(values)]
    args += ["--group-by", key] if key else ["--group-by", ""]
    # OpenCL's compiler takes a second for each pair of types: some groups have all of them.
    if GROUP not in ("formats", "values", "bars") and "--accel" not in options:
        args += ["--accel", "cpu"]
    out = run(*args, *options, "--", *files, json_out=True)
    want = expected(data, key, values)
    assert out["verified"] is True and out["job"] == "table"
    assert out["key"] == (key or None) and out["values"] == list(values)
    got = {}
    for group in out["groups"]:
        assert group["key"] not in got, f"{group['key']} comes twice"
        got[group["key"]] = group
    assert set(got) == set(want), f"keys {sorted(map(str, set(got) ^ set(want)))[:5]}"
    for k, (rows, sums, counts) in want.items():
        group = got[k]
        assert group["rows"] == rows, f"{k}: {group['rows']} rows, not {rows}"
        assert group["values"] == counts, f"{k}: {group['values']}, not {counts}"
        for ours, theirs, name in zip(group["sums"], sums, values):
            assert near(ours, theirs), f"{k}, {name}: {ours}, not {theirs}"
    for name, value in facts.items():
        assert out[name] == value, f"{name} is {out[name]}, not {value}"
    return out


NUMBERS = ["f32", "f64", "i8", "u8", "u16", "i32", "u32", "i64", "u64"]


# ---- groups of checks ----

def formats():
    """Each format, codec and writer."""
    data = table()
    for codec in ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]:
        for version in ["1.0", "2.0"]:
            name = path(f"{codec}-{version}.parquet")
            pq.write_table(data, name, compression=codec, data_page_version=version,
                           row_group_size=3000)
            check(data, name, "symbol", ["f64", "i64"], format="parquet", row_groups=7)
    for codec in ["uncompressed", "lz4", "zstd"]:
        name = path(f"{codec}.feather")
        feather.write_feather(data, name, compression=codec)
        out = check(data, name, "symbol", ["f32", "u64"], format="arrow")
        assert (out["bytes_decoded"] == 0) == (codec == "uncompressed"), out["bytes_decoded"]
    for name, new in [(path("a.arrow"), pa.ipc.new_file), (path("a.arrows"), pa.ipc.new_stream)]:
        with new(name, data.schema) as file:
            file.write_table(data, max_chunksize=1500)
        out = check(data, name, "symbol", ["f32", "f64"])
        assert out["bytes_placed"] > 0 and out["bytes_decoded"] == 0, out["columns"]
    frame = polars.from_arrow(data)
    frame.write_parquet(path("polars.parquet"))
    frame.write_ipc(path("polars.arrow"))
    for name in ["polars.parquet", "polars.arrow"]:
        check(data, path(name), "symbol", ["f64", "i32"])
    duckdb.sql(f"copy (select * from data) to '{path('duckdb.parquet')}'")
    check(data, path("duckdb.parquet"), "symbol", ["f64", "i32"])


def keys():
    """Keys of each type, in place and decoded; dictionaries; none."""
    data = table()
    encoded = data.set_column(0, "symbol", data["symbol"].dictionary_encode())
    pq.write_table(data, path("a.parquet"), row_group_size=5000)
    feather.write_feather(data, path("a.arrow"), compression="uncompressed", chunksize=4000)
    feather.write_feather(encoded, path("d.arrow"), compression="uncompressed", chunksize=4000)
    for name in ["a.parquet", "a.arrow"]:
        for key in ["symbol", "flag", "small", "sparse", "day", "at", "i8", "u64", None]:
            check(data.slice(0, ROWS), path(name), key, ["f64", "i32"])
    out = check(data, path("d.arrow"), "symbol", ["f64", "i32"])
    assert out["bytes_decoded"] < 10000, "more than dictionaries was copied"
    views = data.set_column(0, "symbol", data["symbol"].cast(pa.string_view()))
    large = data.set_column(0, "symbol", data["symbol"].cast(pa.large_string()))
    for name, some in [("v.arrow", views), ("l.arrow", large)]:
        feather.write_feather(some, path(name), compression="uncompressed")
        check(data, path(name), "symbol", ["f64"])


def values():
    """All types of numbers, with nulls, without, all of them; NaN and infinity."""
    data = table()
    plain = pa.table({name: column.fill_null(False if pa.types.is_boolean(column.type) else 0)
                      if name in NUMBERS else column
                      for name, column in zip(data.column_names, data.columns)})
    for name, some in [("nulls", data), ("plain", plain)]:
        pq.write_table(some, path(f"{name}.parquet"))
        feather.write_feather(some, path(f"{name}.arrow"), compression="uncompressed")
        for end in ["parquet", "arrow"]:
            check(some, path(f"{name}.{end}"), "symbol", NUMBERS)
            check(some, path(f"{name}.{end}"), None, ["flag"])
    odd = pa.table({"k": ["a", "a", "b", "c", "c"],
                    "x": pa.array([1.0, float("nan"), 2.5, float("inf"), 1.0]),
                    "h": pa.array([1.5, 2.0, None, -0.25, 65504.0]).cast(pa.float16())})
    feather.write_feather(odd, path("odd.arrow"), compression="uncompressed")
    out = run("run", "table", "--json", "--rounds=1", path("odd.arrow"), json_out=True)
    assert out["key"] == "k" and out["values"] == ["x", "h"], out
    assert [g["sums"] for g in out["groups"]] == [[None, 3.5], [2.5, None], [None, 65503.75]]
    for name, some in [("empty", data.slice(0, 0)), ("null", pa.table(
            {"k": pa.array([None] * 9, pa.string()), "x": pa.array([None] * 9, pa.int32())}))]:
        pq.write_table(some, path(f"{name}.parquet"))
        out = run("run", "table", "--json", path(f"{name}.parquet"), json_out=True)
        assert out["rows"] == len(some)
        assert [g["rows"] for g in out["groups"]] == ([9] if len(some) else [])


def filters():
    """Each comparison and type, by the kernel and by the statistics of row groups."""
    data = table()
    pq.write_table(data, path("a.parquet"), row_group_size=1000)
    feather.write_feather(data, path("a.arrow"), compression="uncompressed", chunksize=1000)
    at = datetime.datetime(2024, 1, 5, 10, 30)
    tests = [
        ("small>=10", pc.greater_equal(data["small"], 10)),
        ("small < -20", pc.less(data["small"], -20)),
        ("f32<=0.5", pc.less_equal(data["f32"], 0.5)),
        ("u64>70368744177664", pc.greater(data["u64"], 70368744177664)),
        ("i64!=0", pc.not_equal(data["i64"], 0)),
        ("flag==true", data["flag"]),
        ("day=2024-01-05", pc.equal(data["day"], datetime.date(2024, 1, 5))),
        ("at>=2024-01-05T10:30", pc.greater_equal(data["at"], pa.scalar(at, pa.timestamp("ms")))),
        ("symbol==000007.XSHE", pc.equal(data["symbol"], "000007.XSHE")),
        ("symbol>=000030", pc.greater_equal(data["symbol"], "000030")),
    ]
    for text, mask in tests:
        kept = data.filter(mask, null_selection_behavior="drop")
        for name in ["a.parquet", "a.arrow"]:
            check(kept, path(name), "symbol", ["f64", "u32"], "--filter", text, filter=text)
    # Times grow, and so each row group before has only less.
    out = run("run", "table", "--json", "--rounds=1", "--filter", "at>=2024-01-15T15:00",
              path("a.parquet"), json_out=True)
    assert out["row_groups"] == 20 and out["row_groups_skipped"] >= 18, out["row_groups_skipped"]
    # The kernel and the statistics compare floats with the same value.
    tenth = pa.table({"k": ["a"] * 8, "x": pa.array([0.1] * 8, pa.float32())})
    pq.write_table(tenth, path("tenth.parquet"), row_group_size=4)
    feather.write_feather(tenth, path("tenth.arrow"), compression="uncompressed")
    for text, rows in [("x>0.1", 0), ("x==0.1", 8), ("x!=0.1", 0), ("x>=0.1", 8)]:
        for name in ["tenth.parquet", "tenth.arrow"]:
            out = run("run", "table", "--json", "--rounds=1", "--group-by=k", "--filter", text,
                      path(name), json_out=True)
            assert sum(g["rows"] for g in out["groups"]) == rows, (text, name, out["groups"])
    # Nothing is kept.
    out = run("run", "table", "--json", "--filter", "at<2000-01-01", path("a.parquet"),
              json_out=True)
    assert out["groups"] == [] and out["row_groups_skipped"] == 20, out["groups"]


def windows():
    """Batch by batch: the same sums, within the window."""
    data = table(200000)
    pq.write_table(data, path("a.parquet"), row_group_size=20000, compression="zstd")
    feather.write_feather(data, path("a.arrow"), compression="uncompressed", chunksize=20000)
    feather.write_feather(data, path("z.arrow"), compression="zstd", chunksize=20000)
    for name in ["a.parquet", "a.arrow", "z.arrow"]:
        for key in ["symbol", "sparse", "flag", None]:
            out = check(data, path(name), key, ["f64", "i32"], "--window", "4M")
            assert out["window"]["bytes"] == 4 << 20 and out["window"]["batches"] > 1
            assert out["window"]["peak"] <= 4 << 20, out["window"]
    check(data.filter(pc.greater(data["small"], 0)), path("a.parquet"), "symbol", ["f64"],
          "--window=4M", "--filter", "small>0")
    run("run", "table", "--window", "64K", path("z.arrow"), status=3, says="raise --window")


def devices():
    """Other devices and accelerators, threads, several files and folders."""
    data = table()
    os.makedirs(path("folder"))
    parts = [data.slice(i * ROWS // 4, ROWS // 4) for i in range(4)]
    for i, part in enumerate(parts):
        pq.write_table(part, f"{path('folder')}/{i}.parquet")
        feather.write_feather(part, path(f"{i}.arrow"), compression="uncompressed")
    files = [path(f"{i}.arrow") for i in range(4)]
    for options in [["--accel", "cpu"], ["--device", "soft:0"], ["--threads", "3"],
                    ["--device", "soft:0", "--accel", "cpu"]]:
        check(data, path("folder"), "symbol", ["f64", "i32"], *options, row_groups=4)
        check(data, files, "symbol", ["f64", "i32"], *options)
    mixed = [files[0], f"{path('folder')}/1.parquet", files[2], f"{path('folder')}/3.parquet"]
    check(data, mixed, "symbol", ["f64", "i32"])
    run("run", "table", "--accel", "soft:0", path("folder"), status=3, says="no form")


def columns():
    """The default choice, and what is said of it."""
    data = table()
    pq.write_table(data, path("a.parquet"))
    out = run("run", "table", path("a.parquet"), says="chosen by its type")
    flowing = " ".join(out.split())
    for text in ["a.parquet: parquet, 20,000 rows of 15 columns in 1 group", "key ",
                 "the first 4 of 11 columns of numbers", "verified", "bytes copied",
                 "page faults", "000000.XSH"]:
        assert text in flowing, f"no '{text}' in {out}"
    assert max(map(len, out.splitlines()[1:])) <= 80, out
    lines = run("run", "table", "-n", "3", path("a.parquet")).splitlines()
    assert any("and " in line and "more (-n 0" in line for line in lines)
    # A text with more values than there may be groups is no key by itself.
    many = pa.table({"id": [f"{i}" for i in range(70000)], "x": list(range(70000))})
    feather.write_feather(many, path("many.arrow"), compression="uncompressed")
    out = run("run", "table", "--json", "--quiet", path("many.arrow"), json_out=True)
    assert out["key"] is None and out["groups"][0]["sums"] == [sum(range(70000))]
    run("run", "table", "--group-by", "id", path("many.arrow"), status=2,
        says="more than 65536 values")
    # Sums beyond 64 bits are shown modulo 2^64, and that is said.
    big = pa.table({"x": pa.array([2**63 - 1] * 3, pa.int64())})
    feather.write_feather(big, path("big.arrow"), compression="uncompressed")
    run("run", "table", path("big.arrow"), says="beyond 64 bits")


def inspect():
    """Golden facts of files whose writer tells them, too."""
    data = pa.table({
        "name": pa.array(["b", "a", None, "c"] * 250),
        "n": pa.array(list(range(1000)), pa.int32()),
        "x": pa.array([i / 8 for i in range(1000)], pa.float64()),
        "when": pa.array([i * 60000 for i in range(1000)], pa.timestamp("ms")),
    }).replace_schema_metadata({"made": "here"})
    pq.write_table(data, path("a.parquet"), row_group_size=300, compression={
        "name": "zstd", "n": "none", "x": "snappy", "when": "none"},
        use_dictionary=["name"], column_encoding={"n": "DELTA_BINARY_PACKED", "x": "PLAIN",
                                                  "when": "PLAIN"})
    out = run("inspect", "--json", path("a.parquet"), json_out=True)
    meta = pq.ParquetFile(path("a.parquet")).metadata
    assert out["kind"] == "parquet" and out["rows"] == 1000
    assert [g["rows"] for g in out["row_groups"]] == [300, 300, 300, 100]
    assert {"key": "made", "value": "here"} in out["metadata"], out["metadata"]
    assert "parquet-cpp-arrow" in out["files"][0]["creator"]
    assert [c["name"] for c in out["columns"]] == ["name", "n", "x", "when"]
    assert [c["place"] for c in out["columns"]] == ["decoded"] * 4
    assert [c["codec"] for c in out["columns"]] == ["zstd", "none", "snappy", "none"]
    assert [c["nulls"] for c in out["columns"]] == [250, 0, 0, 0]
    assert (out["columns"][0]["min"], out["columns"][0]["max"]) == ("a", "c")
    assert (out["columns"][1]["min"], out["columns"][1]["max"]) == ("0", "999")
    assert "RLE_DICTIONARY" in out["columns"][0]["encodings"]
    assert "DELTA_BINARY_PACKED" in out["columns"][1]["encodings"]
    for g, group in enumerate(out["row_groups"]):
        for c, part in enumerate(group["columns"]):
            told = meta.row_group(g).column(c)
            assert part["stored"] == told.total_compressed_size, (g, c)
            assert part["plain"] == told.total_uncompressed_size, (g, c)
            assert part["nulls"] == told.statistics.null_count, (g, c)
            assert part["values"] == group["rows"] and part["why"], (g, c)
    text = run("inspect", path("a.parquet"))
    for line in ["parquet: 1,000 rows of 4 columns in 4 groups", "made: here", "not used where they lie",
                 "timestamp[ms]", "0 to 999"]:
        assert line in text, f"no '{line}' in {text}"
    for codec, place in [("uncompressed", "in place"), ("lz4", "decoded")]:
        feather.write_feather(data, path(f"{codec}.arrow"), compression=codec, chunksize=300)
        out = run("inspect", "--json", path(f"{codec}.arrow"), json_out=True)
        assert out["kind"] == "arrow" and len(out["row_groups"]) == 4
        assert {c["place"] for c in out["columns"]} == {place}, out["columns"]
        assert out["files"][0]["rows"] == 1000
    assert "used where they lie" in run("inspect", path("uncompressed.arrow"))
    text = run("inspect", "-n", "2", path("a.parquet"))
    assert "and 2 more columns" in text and "and 2 more groups" in text, text


def csv_files():
    """Types are found, separators and missing headers are told."""
    data = table(3000).select(["symbol", "small", "f64", "i64"])
    # A missing text is an empty one in CSV.
    data = data.set_column(0, "symbol", data["symbol"].fill_null(""))
    csv.write_csv(data, path("a.csv"))
    check(data, path("a.csv"), "symbol", ["f64", "i64"], format="csv")
    polars.from_arrow(data).write_csv(path("p.tsv"), separator="\t")
    check(data, path("p.tsv"), "symbol", ["f64", "i64"], "--separator", "\\t")
    duckdb.sql(f"copy (select * from data) to '{path('d.csv')}' (header false)")
    plain = data.rename_columns(["f0", "f1", "f2", "f3"])
    check(plain, path("d.csv"), "f0", ["f2", "f3"], "--no-header")
    assert run("inspect", "--json", path("a.csv"), json_out=True)["kind"] == "csv"
    # A value of another type behind the first 1 MiB, and a column that is empty there.
    late = pa.table({"key": ["a", "b"] * 80000, "n": [str(i) for i in range(159999)] + ["0.5"],
                     "e": [""] * 159999 + ["7"]})
    csv.write_csv(late, path("late.csv"), csv.WriteOptions(quoting_style="none"))
    run("run", "table", "--group-by", "key", "--columns", "n", path("late.csv"), status=1,
        says="column 'n', row 160001 of the file")
    late = late.set_column(1, "n", late["n"].cast(pa.float64()))
    late = late.set_column(2, "e", pa.array([None] * 159999 + [7], pa.int64()))
    check(late, path("late.csv"), "key", ["n", "e"], "--whole")
    check(late, path("late.csv"), "key", ["e"])


def errors():
    """Each failure has its status, and says what to do."""
    data = table(2000)
    good, cut, empty, text = path("a.parquet"), path("cut.parquet"), path("e.parquet"), path("t")
    pq.write_table(data, good)
    size = os.path.getsize(good)
    with open(good, "rb") as file:
        whole = file.read()
    for name, content in [(cut, whole[:size // 2]), (empty, b""), (text, b"\0\1\2\3" * 9)]:
        with open(name, "wb") as file:
            file.write(content)
    run("run", "table", status=2, says="needs a file")
    run("run", "table", path("absent"), status=2, says="No such file")
    run("run", "table", cut, status=1)
    run("run", "table", empty, status=1, says="empty")
    run("inspect", cut, status=1)
    run("run", "table", "--group-by", "symbl", good, status=2, says="did you mean symbol?")
    run("run", "table", "--columns", "f64,nothing", good, status=2, says="no column 'nothing'")
    run("run", "table", "--columns", "symbol", good, status=2, says="numbers are added up")
    run("run", "table", "--group-by", "f64", good, status=2, says="keys are integers")
    run("run", "table", "--columns", ",", good, status=2, says="names no column")
    run("run", "table", "--filter", "f64", good, status=2, says="no comparison")
    run("run", "table", "--filter", "f64>=x", good, status=2, says="is no value of type")
    run("run", "table", "--filter", "i8>=300", good, status=2, says="can't hold it")
    run("run", "table", "--filter", "none>=3", good, status=2, says="no column 'none'")
    run("run", "table", "--window", "1K", good, status=2, says="from 64K on")
    run("run", "table", "--threads", "0", good, status=2, says="1 to 64")
    run("run", "table", "--separator", "ab", good, status=2, says="one character")
    run("run", "table", "--device", "file", good, status=2, says="--device host")
    run("run", "table", "--device", "none", good, status=3, says="cannot open the device")
    run("run", "table", "--accel", "none", good, status=3, says="cannot open the accelerator")
    run("run", "--json", "table", good, status=2, says="come behind its name")
    run("run", "tablet", good, status=2, says="did you mean hetmap run table?")
    run("bench", "format", status=2, says="did you mean formats?")
    run("bench", "map_cycle", "formats", status=2, says="hetmap-table")
    out = run("run", "table", "--json", "--columns", "x", good, status=2, json_out=True)
    assert "error" in out and "remedy" in out, out
    # A page that is damaged: an error that names file and column, or a wrong sum that is found.
    bad = bytearray(whole)
    for i in range(200, size // 2, 97):
        bad[i] ^= 0xff
    with open(path("bad.parquet"), "wb") as file:
        file.write(bad)
    done = subprocess.run([HETMAP, "run", "table", path("bad.parquet")], capture_output=True,
                          text=True, check=False)
    assert done.returncode in (0, 1, 2), done.stderr
    # Texts whose offsets lead out of their column.
    words = pa.array(["aaaa", "bbbb", "cccc"] * 100)
    for number, keys in enumerate([words, words.dictionary_encode(), words.cast("string_view")]):
        name = path(f"texts{number}.arrow")
        long = pa.array(["long enough not to be in a view"] * 300, "string_view")
        keys = long if number == 2 else keys
        feather.write_feather(pa.table({"k": keys, "v": range(300)}), name,
                              compression="uncompressed")
        with open(name, "rb") as file:
            whole = file.read()
        if number == 2:
            old = struct.pack("<i", 31) + b"long" + struct.pack("<2i", 0, 31)
            lie = struct.pack("<i", 31) + b"long" + struct.pack("<2i", 7, 31)
        else:
            old, lie = struct.pack("<4i", 0, 4, 8, 12), struct.pack("<4i", 0, 4, 0x7fffff00, 12)
        assert old in whole, "the file has other offsets"
        with open(name, "wb") as file:
            file.write(whole.replace(old, lie, 1))
        for options in [["--group-by=k"], ["--group-by=", "--filter=k!=x"]]:
            run("run", "table", "--accel=cpu", "--columns=v", *options, name, status=1,
                says="texts outside")
    other = path("other.parquet")
    pq.write_table(data.select(["f64"]), other)
    run("run", "table", good, other, status=2)


def ours():
    """Files that the example in C writes are read by all three."""
    folder = path("bars")
    for kind in ["", "timestamp"]:
        os.makedirs(folder, exist_ok=True)
        done = subprocess.run([f"{BUILD}/examples/table/minute_bars", folder, *([kind] * bool(kind))],
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        read = pq.read_table(folder)
        assert len(read) == 1440 and pc.sum(read["volume"]).as_py() == 17352000, read
        frame = polars.read_parquet(f"{folder}/*.parquet")
        assert frame["volume"].sum() == 17352000
        (rows, volume), = duckdb.sql(
            f"select count(*), sum(volume) from '{folder}/*.parquet'").fetchall()
        assert (rows, volume) == (1440, 17352000)
        frames = read["frame"].to_pylist()
        if kind:
            assert frames[0] == datetime.datetime(2024, 1, 2, 9, 31), frames[0]
            assert "1440 rows have their minute" in done.stdout and "warning" not in done.stdout
        else:
            assert frames[0] == datetime.date(2024, 1, 2), frames[0]
            assert " 0 rows have their minute" in done.stdout, done.stdout
            assert "warning: " in done.stdout and "date64" in done.stdout, done.stdout


def bars():
    """Minute bars as pyarrow writes them: a file a day, several codes, one table."""
    for kind, file_format in [("date64", "parquet"), ("timestamp", "parquet"),
                              ("date64", "arrow"), ("timestamp", "arrow")]:
        folder = path(f"{kind}-{file_format}")
        done = subprocess.run([sys.executable, "examples/table/minute_bars.py", folder,
                               file_format, kind], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        kept = "0" if (kind, file_format) == ("date64", "parquet") else "1440"
        assert f" {kept} rows have their minute" in done.stdout, done.stdout
        out = run("run", "table", "--json", "--columns", "volume,money,close", folder,
                  json_out=True)
        assert out["key"] == "symbol" and out["rows"] == 1440
        assert [(g["key"], g["rows"], g["sums"][0]) for g in out["groups"]] == [
            ("000001.XSHE", 720, 8676000), ("600000.XSHG", 720, 8676000)]
        done = subprocess.run([HETMAP, "inspect", folder], capture_output=True, text=True,
                              check=False)
        lost = (kind, file_format) == ("date64", "parquet")
        assert ("date64" in done.stderr) == lost, done.stderr
        # The minute is a key where it was kept.
        out = run("run", "table", "--json", "--quiet", "--columns", "volume", "--group-by",
                  "frame", folder, json_out=True)
        assert len(out["groups"]) == (3 if lost else 720), len(out["groups"])


{"csv": csv_files}.get(GROUP, globals().get(GROUP))()
