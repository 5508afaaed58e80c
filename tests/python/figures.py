# SPDX-License-Identifier: MIT
"""Figures of the package, by hand: PYTHONPATH=build/python python3 tests/python/figures.py"""

import subprocess
import sys
import timeit

import numpy

import hetmap
from hetmap import _hetmap

ROUNDS, CALLS = 30, 20000


def fastest(code, **names):
    """Nanoseconds of one: the least of many rounds, as other work only adds."""
    return min(timeit.repeat(code, globals=names, repeat=ROUNDS, number=CALLS)) / CALLS * 1e9


def main():
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


main()
