# SPDX-License-Identifier: MIT
"""Launches on arrays over maps."""

import ctypes
import errno

import numpy as np
import pytest

import hetmap

SAXPY = ("kernel void saxpy(float a, global const float *x, global float *y)"
         "{ size_t i = get_global_id(0); y[i] += a * x[i]; }")


class Range(ctypes.Structure):
    _fields_ = [("begin", ctypes.c_uint64 * 3), ("end", ctypes.c_uint64 * 3),
                ("all", ctypes.c_uint64 * 3)]


class Argument(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint8), ("access", ctypes.c_uint8), ("type", ctypes.c_uint16),
                ("size", ctypes.c_uint32), ("value", ctypes.c_uint64 * 2),
                ("length", ctypes.c_uint64)]


FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Range), ctypes.POINTER(Argument))


@FUNCTION
def scale(part, arguments):
    """i64 of the second argument times the first, by the CPU's threads."""
    factor = ctypes.cast(arguments[0].value, ctypes.POINTER(ctypes.c_int64))[0]
    numbers = ctypes.cast(arguments[1].value[0], ctypes.POINTER(ctypes.c_int64))
    for i in range(part[0].begin[0], part[0].end[0]):
        numbers[i] *= factor
    return 0


@FUNCTION
def fails(part, arguments):
    return -errno.EDOM


def address(function):
    return ctypes.cast(function, ctypes.c_void_p).value


@pytest.fixture
def cpu():
    return hetmap.Queue(hetmap.Accel("cpu"))


def test_cpu(cpu, page_map):
    array = page_map.array("int64")[:100]
    array[:] = np.arange(100)
    kernel = hetmap.Kernel("scale", "i64 inout", function=address(scale))
    fence = cpu.launch(kernel, 100, 3, array)
    fence.wait(10)
    assert fence.query()["done"] and (array == np.arange(100) * 3).all()
    cpu.launch(kernel, (np.int64(100), 1, 1), np.int32(-1), array).wait()
    cpu.launch(kernel, np.uint8(100), 2, array).wait()
    assert array[5] == -30
    with pytest.raises(OverflowError):
        cpu.launch(kernel, -1, 2, array)


def test_result_of_the_work(cpu, page_map):
    kernel = hetmap.Kernel("fails", "in", function=address(fails))
    with pytest.raises(hetmap.Error) as caught:
        cpu.launch(kernel, 1, page_map).wait()
    assert caught.value.errno == errno.EDOM


def test_timeouts(cpu, page_map):
    fence = cpu.launch(hetmap.Kernel("scale", "i64 inout", function=address(scale)), 8, 2, page_map)
    with pytest.raises(ValueError):
        fence.wait(float("nan"))
    for seconds in (None, 5, float("inf"), np.float32(2)):
        fence.wait(seconds)


def test_arguments(cpu, page_map, device):
    kernel = hetmap.Kernel("scale", "i64 inout", function=address(scale))
    array = page_map.array("int64")
    for arguments, error in (((1, 2), TypeError), ((1, 1.5, array), TypeError),
                             ((1, 1), TypeError), ((0, 1, array), hetmap.Error),
                             ((1, 1, np.zeros(4, "int64")), hetmap.Error),
                             ((1, 1 << 70, array), OverflowError)):
        with pytest.raises(error):
            cpu.launch(kernel, *arguments)
    reader = hetmap.Buffer(device, 4096).map(access=hetmap.READ)
    with pytest.raises(BufferError):
        cpu.launch(kernel, 1, 1, reader)
    with pytest.raises((BufferError, ValueError)):
        cpu.launch(kernel, 1, 1, array[::2])
    with pytest.raises(ValueError, match="signature"):
        hetmap.Kernel("scale", "i128", function=address(scale))
    with pytest.raises(TypeError):
        hetmap.Fence()
    assert page_map.exports == 1


def test_close_during_work(cpu, device):
    kernel = hetmap.Kernel("scale", "i64 inout", function=address(scale))
    for _ in range(50):
        map = hetmap.Buffer(device, 4096).map()
        fence = cpu.launch(kernel, 64, 2, map.array("int64"))
        map.close()
        fence.wait()


def test_engine():
    device = hetmap.Device("soft:0")
    queue = hetmap.Queue(hetmap.Accel("soft:0"))
    maps = [hetmap.Buffer(device, 4096).map() for _ in range(3)]
    x, y, z = (map.array("uint32") for map in maps)
    x[:], y[:] = 5, 6
    add = hetmap.Kernel("add", "in in out", engine=[(3, 2, 0, 1)])
    queue.launch(add, 1, x, y, z).wait(10)
    assert (z == 11).all()


def test_opencl(page_map, device):
    names = [entry["name"] for entry in hetmap.Accel.list()]
    if "opencl:0" not in names:
        pytest.skip("no OpenCL driver is installed")
    x, y = page_map.array("float32", 1000), hetmap.Buffer(device, 4000).map().array("float32")
    x[:], y[:] = np.arange(1000), 1
    kernel = hetmap.Kernel("saxpy", "f32 in inout", SAXPY)
    hetmap.Queue(hetmap.Accel("opencl:0")).launch(kernel, 1000, 2.0, x, y).wait(60)
    assert (y == 2 * np.arange(1000) + 1).all()
    broken = hetmap.Kernel("saxpy", "f32 in inout", SAXPY.replace("+=", "+-="))
    with pytest.raises(hetmap.Error) as caught:
        broken.build(hetmap.Accel("opencl:0"))
    assert caught.value.errno == errno.ENOEXEC
