# SPDX-License-Identifier: MIT
"""Each rank fills its slice of one file of float32, and rank 0 prints.

    mpirun -n 4 python3 slices.py /shared/slices.f32

The same as slices.c, by libhetmap-cluster's C interface: it needs mpi4py, built for the MPI that
the library was built for, and numpy.
"""
import ctypes
import sys

import mpi4py
import numpy as np

mpi4py.rc.thread_level = "multiple"
from mpi4py import MPI  # noqa: E402

SLICE = 1_000_000
PART = 2 << 20
NEW_FILE = PUBLISH = 1


class Desc(ctypes.Structure):
    """struct hm_array_desc"""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("dimensions", ctypes.c_uint32),
        ("element", ctypes.c_uint32),
        ("shape", ctypes.c_uint64 * 4),
        ("distribution", ctypes.c_uint32),
        ("n_parts", ctypes.c_uint32),
        ("chunk", ctypes.c_uint64),
        ("parts", ctypes.c_void_p),
        ("path", ctypes.c_char_p),
        ("device", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
    ]


class Range(ctypes.Structure):
    """struct hm_array_range"""

    _fields_ = [("start", ctypes.c_uint64 * 4), ("count", ctypes.c_uint64 * 4)]


library = ctypes.CDLL("libhetmap-cluster.so.0", mode=ctypes.RTLD_GLOBAL)
hetmap = ctypes.CDLL("libhetmap.so.0", mode=ctypes.RTLD_GLOBAL)
hetmap.hm_errmsg.restype = ctypes.c_char_p
library.hm_array_unref.restype = None


def must(status):
    if status:
        sys.exit(hetmap.hm_errmsg().decode())


def values(first, n):
    return (np.arange(first, first + n) % 16_000_000).astype(np.float32) * np.float32(0.5)


def main(path):
    comm = MPI.COMM_WORLD
    desc = Desc(
        struct_size=ctypes.sizeof(Desc),
        flags=NEW_FILE,
        dimensions=1,
        element=4,
        shape=(comm.size * SLICE,),
        chunk=PART // 4,
        path=path.encode(),
    )
    array = ctypes.c_void_p()
    address = ctypes.c_void_p(MPI._addressof(comm))
    must(library.hm_array_create(address, ctypes.byref(desc), ctypes.byref(array)))
    mine = values(comm.rank * SLICE, SLICE)
    place = Range(start=(comm.rank * SLICE,), count=(SLICE,))
    must(library.hm_array_put(array, ctypes.byref(place), ctypes.c_void_p(mine.ctypes.data), None))
    must(library.hm_array_epoch(array, ctypes.c_uint32(PUBLISH)))
    library.hm_array_unref(array)
    if comm.rank == 0:
        found = np.fromfile(path, dtype=np.float32)
        for i in range(0, found.size, SLICE):
            print(f"slice {i // SLICE:2}: {found[i]:10.1f} ... {found[i + SLICE - 1]:10.1f}")
        wrong = int((found != values(0, comm.size * SLICE)).sum())
        print(f"{found.size} elements, {wrong} wrong")
        return wrong != 0
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("mpirun -n 4 python3 slices.py FILE")
    sys.exit(main(sys.argv[1]))
