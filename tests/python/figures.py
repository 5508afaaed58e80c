# SPDX-License-Identifier: MIT
"""Figures of the package, by hand: PYTHONPATH=build/python python3 tests/python/figures.py

Names of figures as arguments make these alone: calls, tokens, weights, rows. BYTES is the size of
the file of the last two, and ROWS the number of rows that the last one reads.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import timeit

import numpy

import hetmap
from hetmap import _hetmap
from hetmap.tokens import Dataset

ROUNDS, CALLS = 30, 20000


def fastest(code, **names):
    """Nanoseconds of one: the least of many rounds, as other work only adds."""
    return min(timeit.repeat(code, globals=names, repeat=ROUNDS, number=CALLS)) / CALLS * 1e9


def calls():
    map = hetmap.Buffer(hetmap.Device("host"), 1 << 20).map()
    loop = fastest("pass")
    nothing = fastest("f()", f=_hetmap._nothing) - loop
    address = fastest("m.address", m=map) - loop
    print(f"py_call: address {address:.0f} ns, a call that does nothing {nothing:.0f} ns: "
          f"{address / nothing:.2f}")
    same = bytearray(1 << 20)
    peer = fastest("f(b, 'float32')", f=numpy.frombuffer, b=same)
    ours = fastest("f(b, 'float32')", f=numpy.frombuffer, b=map)
    array = fastest("m.array('float32')", m=map)
    print(f"py_array: frombuffer of a map {ours:.0f} ns, of a bytearray {peer:.0f} ns: "
          f"{ours / peer:.2f}; map.array() {array:.0f} ns: {array / peer:.2f}")
    code = "import time; t = time.perf_counter(); import hetmap; print(time.perf_counter() - t)"
    seconds = min(float(subprocess.run([sys.executable, "-c", code], capture_output=True,
                                       text=True).stdout) for _ in range(10))
    print(f"py_import: {seconds * 1000:.0f} ms")


BLOCK, BATCH, TOKENS = 1024, 12, 50_000_000


def pattern(path):
    """The published one: numpy.memmap, a copy of each block, and a stack of them."""
    random = numpy.random.default_rng(1)
    while True:
        data = numpy.memmap(path, "uint16", "r")
        starts = random.integers(len(data) - BLOCK, size=BATCH)
        yield (numpy.stack([data[i:i + BLOCK].astype("int64") for i in starts]),
               numpy.stack([data[i + 1:i + 1 + BLOCK].astype("int64") for i in starts]))


def ours(path):
    return Dataset(path, BLOCK, BATCH, order="random", seed=1)


def rate_of(make, path, seconds=2):
    batches = iter(make(path))
    for _ in range(100):
        next(batches)
    begin = time.perf_counter()
    n = 0
    while time.perf_counter() - begin < seconds:
        next(batches)
        n += 1
    return n / (time.perf_counter() - begin)


def worker(make, path, results):
    rate = rate_of(make, path)
    with open("/proc/self/smaps_rollup") as file:
        kib = {line.split()[0]: int(line.split()[1]) for line in file if line.split()[1].isdigit()}
    results.put((rate, kib["Pss:"]))


def rate_of_workers(make, path, n):
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    children = [context.Process(target=worker, args=(make, path, results)) for _ in range(n)]
    for child in children:
        child.start()
    got = [results.get() for _ in children]
    for child in children:
        child.join()
    return sum(rate for rate, _ in got), sum(kib for _, kib in got) / 1024


def tokens():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "train.bin")
        numpy.random.default_rng(1).integers(0, 50000, TOKENS).astype("uint16").tofile(path)
        for _ in range(3):
            peer, own = rate_of(pattern, path), rate_of(ours, path)
            print(f"py_tokens: {own:.0f} batches/s, numpy's pattern {peer:.0f}: {own / peer:.2f}")
        for make in (pattern, ours):
            one, four = (rate_of_workers(make, path, n) for n in (1, 4))
            print(f"py_tokens, {make.__name__}: 1 worker {one[0]:.0f} batches/s, {one[1]:.0f} MiB "
                  f"(Pss); 4 workers {four[0]:.0f} batches/s, {four[1]:.0f} MiB")


def seconds_of(function):
    begin = time.perf_counter()
    kept = function()
    return time.perf_counter() - begin, kept


def weights():
    import safetensors
    import safetensors.numpy
    from hetmap import safetensors as own
    size = int(os.environ.get("BYTES", 1 << 30))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        layer = numpy.random.default_rng(1).random(size // 64 // 4, "float32")
        safetensors.numpy.save_file({f"layer.{i:02}": layer for i in range(64)}, path)

        def first_of(module):
            with module.safe_open(path, framework="np") as file:
                return file.get_tensor("layer.00").sum()

        # The least of rounds in turn: what another one freed may be slow to touch.
        ways = {"theirs": lambda: safetensors.numpy.load_file(path),
                "copy": lambda: own.load_file(path, copy=True),
                "views": lambda: own.load_file(path),
                "summed": lambda: [a.sum() for a in own.load_file(path).values()],
                "their sums": lambda: [a.sum() for a in safetensors.numpy.load_file(path).values()],
                "first": lambda: first_of(own), "their first": lambda: first_of(safetensors)}
        best = dict.fromkeys(ways, 1e9)
        for _ in range(5):
            for name, way in ways.items():
                best[name] = min(best[name], seconds_of(way)[0])
        for name, peer in (("copy", "theirs"), ("views", "theirs"), ("summed", "their sums"),
                           ("first", "their first")):
            print(f"py_safetensors: {size >> 20} MiB: {name} {best[name] * 1e3:.2f} ms, {peer} "
                  f"{best[peer] * 1e3:.2f} ms: {best[name] / best[peer]:.3f}")


def drop_from_ram(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def rows():
    """Random rows of a cold array, all indices in one call: numpy's open report."""
    size, n = int(os.environ.get("BYTES", 1 << 30)), int(os.environ.get("ROWS", 32768))
    shape = (size // 4096, 1024)
    with tempfile.TemporaryDirectory(dir=os.environ.get("FOLDER")) as folder:
        path = os.path.join(folder, "rows")
        with open(path, "wb") as file:
            for _ in range(size >> 24):
                file.write(numpy.random.default_rng(1).bytes(1 << 24))
        index = numpy.random.default_rng(2).integers(0, shape[0], n)
        best = {}
        for round in range(3):
            for name, make in (("numpy", numpy.memmap), ("hetmap", hetmap.memmap)):
                drop_from_ram(path)
                array = make(path, "float32", "r", shape=shape)
                cold, got = seconds_of(lambda: array[index])
                warm = min(seconds_of(lambda: array[index])[0] for _ in range(3))
                for how, seconds in (("cold", cold), ("warm", warm)):
                    best[name, how] = min(best.get((name, how), 1e9), seconds)
                del array, got
        for how in ("cold", "warm"):
            own, peer = best["hetmap", how], best["numpy", how]
            print(f"py_memmap: {n} rows of {size >> 20} MiB, {how}: {own * 1e3:.0f} ms, numpy "
                  f"{peer * 1e3:.0f} ms: {own / peer:.3f}")


FIGURES = {"calls": calls, "tokens": tokens, "weights": weights, "rows": rows}
for name in sys.argv[1:] or FIGURES:
    FIGURES[name]()
