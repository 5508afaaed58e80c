# SPDX-License-Identifier: MIT
"""What the tests of the Python package share."""

import ctypes
import gc
import os
import pathlib
import subprocess

import pytest

import hetmap


@pytest.fixture
def device():
    with hetmap.Device("host") as device:
        yield device


@pytest.fixture
def page_map(device):
    return hetmap.Buffer(device, 1 << 16, max_size=1 << 20, name="page_map").map()


def alive():
    """Objects of the library, and descriptors of the process."""
    gc.collect()
    counts = hetmap.stats()
    return counts["buffers"], counts["maps"], len(os.listdir("/proc/self/fd"))


@pytest.fixture
def nothing_left():
    before = alive()
    yield
    assert alive() == before


@pytest.fixture(scope="session")
def fake_cuda(tmp_path_factory):
    """The driver of tests/python/fake_cuda, which hetmap.cuda has opened; its own functions."""
    from hetmap import cuda
    path = tmp_path_factory.mktemp("cuda") / "libcuda.so.1"
    source = pathlib.Path(__file__).parent / "fake_cuda" / "fake_cuda.c"
    try:
        subprocess.run(["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared",
                        "-I/usr/local/cuda/include", "-o", path, source, "-lpthread"], check=True)
    except FileNotFoundError:
        pytest.skip("no C compiler builds the fake driver")
    cuda.open_driver(path)
    fake = ctypes.CDLL(os.fspath(path))
    fake.fake_taken.restype, fake.fake_size.restype = ctypes.c_uint64, ctypes.c_size_t
    fake.fake_flags.argtypes = [ctypes.c_uint64]
    return fake
