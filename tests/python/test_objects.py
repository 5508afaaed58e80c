# SPDX-License-Identifier: MIT
"""Devices, buffers and maps: life, views, resizes, rights, errors."""

import doctest
import errno
import gc
import os
import socket
import sys
import threading
import time

import numpy as np
import pytest

import hetmap
from hetmap import _errors, _memmap, _objects


def test_doctests():
    for module in (hetmap, _errors, _objects, _memmap):
        result = doctest.testmod(module)
        assert result.attempted and not result.failed


def test_device_facts(device):
    assert device.query()["name"] == device.name == "host"
    assert "host" in [entry["name"] for entry in hetmap.Device.list()]
    with pytest.raises(hetmap.Error) as caught:
        hetmap.Device("nope")
    assert caught.value.errno == errno.ENODEV
    assert caught.value.sentence == 'there is no device "nope"'
    assert "host" in caught.value.remedy
    assert not isinstance(caught.value, hetmap.DeviceLost)
    with pytest.raises(ValueError, match="closed"):
        closed = hetmap.Device("host")
        closed.close()
        closed.query()


def test_names_of_any_bytes(tmp_path):
    path = os.fsencode(tmp_path) + b"/none\xff"
    with pytest.raises(FileNotFoundError) as caught:
        hetmap.Buffer.from_file(path)
    assert "none\udcff" in str(caught.value)


def test_names_with_a_null(tmp_path):
    for call in (hetmap.Device, hetmap.sim_plug, hetmap.Accel, hetmap.Buffer.from_file):
        with pytest.raises(ValueError, match="null"):
            call("host\0")


def test_close_with_views(device, nothing_left):
    map = hetmap.Buffer(device, 65536).map()
    array = np.asarray(map)
    array[:3] = 1, 2, 3
    part = array[1:]
    del array
    assert map.exports == 1
    with pytest.raises(BufferError, match="1"):
        map.close()
    assert map.read(0, 3) == b"\1\2\3"
    maps = hetmap.stats()["maps"]
    map.close(deferred=True)
    assert map.closed and part[0] == 2 and hetmap.stats()["maps"] == maps
    with pytest.raises(ValueError, match="closed"):
        memoryview(map)
    with pytest.raises(ValueError, match="closed"):
        map.address
    del part
    assert hetmap.stats()["maps"] == maps - 1
    map.close()


def test_end_of_with(device):
    with pytest.raises(BufferError):
        with hetmap.Buffer(device, 4096).map() as map:
            array = map.array()
    with pytest.raises(KeyError):
        with hetmap.Buffer(device, 4096).map() as map:
            array = map.array()
            raise KeyError
    assert map.closed and array[0] == 0


def test_order_of_close(device):
    buffer = hetmap.Buffer(device, 8192)
    map = buffer.map()
    array = map.array("int64")
    device.close()
    buffer.close()
    array[:] = 7
    assert array.sum() == 7 * 1024
    with pytest.raises(ValueError, match="closed"):
        buffer.query()
    del map
    gc.collect()
    assert array[5] == 7


def test_interfaces(page_map):
    class Old:
        """Has no buffer protocol: numpy takes the dictionary."""
        __array_interface__ = page_map.__array_interface__

    array = np.asarray(Old())
    assert array.nbytes == len(page_map) and page_map.exports
    array[0] = 9
    assert page_map.read(0, 1) == b"\t"
    assert np.asarray(page_map).ctypes.data == page_map.address == array.ctypes.data


def test_arrays(page_map):
    assert page_map.array("float64").shape == (8192,)
    grid = page_map.array("int16", (3, 5), offset=2, order="F")
    assert grid.flags.f_contiguous and grid.ctypes.data == page_map.address + 2
    assert page_map.array("int8", (0, 4)).shape == (0, 4)
    assert page_map.exports == 1
    for arguments in (("O",), ("O", 3), ("float64", 8193), ("int16", None, 1), ("u1", 1, 1 << 20)):
        with pytest.raises((TypeError, ValueError)):
            page_map.array(*arguments)


def test_integers(page_map, device):
    """Any int is taken, numpy's too; one that has no room is an error, never another number."""
    buffer = hetmap.Buffer(device, np.prod([2, 4096]), max_size=np.uint32(16384))
    assert buffer.map(np.int32(4096), np.int64(4096)).nbytes == 4096
    buffer.resize(np.int64(12288))
    page_map.write(b"x", np.int8(5))
    assert page_map.read(np.uint8(5), True) == b"x"
    page_map.prefetch(np.int64(0), np.int64(4096), np.int64(hetmap.READ))
    for wrong in (-1, 1 << 64, (1 << 64) + 4096):
        for call in (lambda n: hetmap.Buffer(device, n), buffer.resize, page_map.prefetch,
                     lambda n: page_map.write(b"y", n), lambda n: page_map.read(0, n),
                     lambda n: buffer.map(n), lambda n: page_map.advise(n)):
            with pytest.raises(OverflowError):
                call(wrong)
    with pytest.raises(OverflowError):
        page_map.advise(1 << 32)
    for wrong in (4096.0, "4096", None):
        with pytest.raises(TypeError):
            hetmap.Buffer(device, wrong)
    assert page_map.read(0, 6) == b"\0\0\0\0\0x"


def test_dlpack(page_map):
    page_map.write(bytes(range(16)))
    assert page_map.__dlpack_device__() == (1, 0)
    array = np.from_dlpack(page_map)
    assert array[:16].tolist() == list(range(16)) and array.ctypes.data == page_map.address
    assert page_map.exports == 1
    del array
    assert page_map.exports == 0
    for version in (None, (0, 8), (1, 0), (2, 1)):
        capsule = page_map.__dlpack__(max_version=version)
        assert ("versioned" in repr(capsule)) == (version is not None and version[0] >= 1)
        del capsule
    assert page_map.exports == 0
    for wrong in ({"stream": 1}, {"copy": True}, {"dl_device": (2, 0)}):
        with pytest.raises(BufferError):
            page_map.__dlpack__(**wrong)
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        array = np.from_dlpack(page_map)
        array[0] = 77
        assert page_map.read(0, 1) == b"M"
    copied = hetmap.from_dlpack(np.arange(5, dtype="float64"))
    assert copied.array("float64").tolist() == [0, 1, 2, 3, 4]


def test_dlpack_read_only(device):
    map = hetmap.Buffer(device, 4096).map(access=hetmap.READ)
    with pytest.raises(BufferError, match="max_version"):
        map.__dlpack__()
    assert "versioned" in repr(map.__dlpack__(max_version=(1, 0)))
    assert memoryview(map).readonly
    with pytest.raises(TypeError):
        memoryview(map)[0] = 1


def test_resize(page_map):
    buffer, address = page_map.buffer, page_map.address
    buffer.resize(1 << 17)
    assert len(page_map) == 1 << 17 and page_map.address == address
    array = np.asarray(page_map)
    with pytest.raises(BufferError, match="follow"):
        buffer.resize(1 << 18)
    buffer.resize(1 << 18, follow=True)
    assert len(array) == 1 << 17 and len(page_map) == 1 << 18
    array[-1] = 5
    assert page_map.read((1 << 17) - 1, 2) == b"\5\0"
    for arguments in ({"size": 4096, "follow": True},
                      {"size": 1 << 21, "follow": True, "may_move": True}):
        with pytest.raises(BufferError):
            buffer.resize(**arguments)
    del array
    buffer.resize(4096)
    assert len(page_map) == 4096
    with pytest.raises(hetmap.Error) as caught:
        buffer.resize(1 << 21)
    assert caught.value.errno == errno.ENOSPC
    buffer.resize(1 << 21, may_move=True)
    assert len(np.asarray(page_map)) == 1 << 21


def test_protect(page_map):
    array = np.asarray(page_map)
    with pytest.raises(BufferError):
        page_map.protect(hetmap.READ)
    del array
    page_map.protect(hetmap.READ)
    assert memoryview(page_map).readonly
    with pytest.raises(hetmap.Error) as caught:
        page_map.write(b"x")
    assert caught.value.errno == errno.EACCES
    page_map.protect(hetmap.NONE)
    with pytest.raises(BufferError):
        memoryview(page_map)
    page_map.protect(hetmap.READ | hetmap.WRITE)
    np.asarray(page_map)[0] = 1


def test_protect_a_part(page_map):
    """A view has the rights that all bytes have: a touch of the others would be a signal."""
    page_map.protect(hetmap.NONE, 4096, 4096)
    with pytest.raises(BufferError, match="read"):
        memoryview(page_map)
    page_map.protect(hetmap.READ, 4096, 4096)
    assert memoryview(page_map).readonly
    page_map.protect(hetmap.READ | hetmap.WRITE)
    np.asarray(page_map)[4096] = 1
    reader = page_map.buffer.map(access=hetmap.READ)
    reader.protect(hetmap.READ | hetmap.WRITE)
    np.asarray(reader)[0] = 2
    page_map.buffer.resize(1 << 17)
    assert memoryview(reader).readonly and np.asarray(reader)[-1] == 0
    assert not page_map.exports and not reader.exports


def test_cycles_are_collected(device):
    """Classes that users derive have dictionaries, and so may hold themselves."""
    class Mine(hetmap.Buffer):
        pass

    class MyMap(hetmap.Map):
        pass

    gc.collect()
    before = hetmap.stats()
    for _ in range(10):
        buffer = Mine(device, 4096)
        buffer.mine = buffer.map()
        map = MyMap(buffer)
        # No array: numpy's are never in a cycle that is collected.
        map.view, map.itself = memoryview(map), map
    del buffer, map
    gc.collect()
    assert hetmap.stats() == before


def test_ranges(page_map):
    page_map.prefetch(access=hetmap.READ | hetmap.WRITE)
    assert page_map.query(resident=True)["resident"] == len(page_map)
    assert page_map.lock(0, 4096) == 4096
    assert page_map.query()["lock_held"] == 4096
    page_map.unlock(0, 4096)
    page_map.advise(hetmap.ADVICE_RANDOM)
    page_map.sync()
    with page_map.cpu(write=True, offset=8, length=4) as view:
        view[:] = b"abcd"
    with page_map.cpu() as view:
        assert view.readonly and bytes(view[8:12]) == b"abcd"
    assert page_map.query()["brackets"] == 0
    with pytest.raises(RuntimeError, match="mine"):
        with page_map.cpu():
            raise RuntimeError("mine")
    assert page_map.query()["brackets"] == 0
    with pytest.raises(IndexError):
        page_map.read(len(page_map), 1)
    with pytest.raises(IndexError):
        page_map.write(b"xy", len(page_map) - 1)
    with pytest.raises(hetmap.Error):
        page_map.prefetch(1, 4096)


def test_send_and_receive(page_map, device):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        page_map.buffer.send(ours)
        with hetmap.Buffer.receive(device, theirs) as buffer:
            map = buffer.map()
            np.asarray(page_map)[7] = 42
            assert map.read(7, 1) == b"*"
        with pytest.raises(hetmap.Error) as caught:
            theirs.setblocking(False)
            hetmap.Buffer.receive(device, theirs)
        assert caught.value.errno == errno.EAGAIN


def test_cut_file_is_an_exception(tmp_path):
    path = tmp_path / "cut"
    path.write_bytes(b"a" * 65536)
    map = hetmap.Buffer.from_file(path).map()
    assert map.read(60000, 1) == b"a"
    os.truncate(path, 4096)
    with pytest.raises(hetmap.FileCut) as caught:
        map.read(60000, 1)
    assert caught.value.sentence
    with pytest.raises(hetmap.FileCut):
        map.write(b"x", 60000)
    assert map.read(0, 1) == b"a"
    array = np.asarray(map)
    with pytest.raises(hetmap.FileCut):
        with map.cpu():
            assert array[60000] == 0


def test_device_lost_under_an_array():
    device = hetmap.Device("soft:0")
    map = hetmap.Buffer(device, 65536).map()
    array = map.array("uint32")
    array[:] = 3
    device.sim_unplug()
    assert array.sum() == 0
    with pytest.raises(hetmap.DeviceLost) as caught:
        with map.cpu():
            pass
    assert caught.value.errno == errno.ENODEV
    with pytest.raises(hetmap.DeviceLost):
        map.read(0, 4)
    del array
    map.close()
    device.close()
    hetmap.sim_plug("soft:0")


def test_shadow_under_an_array():
    device = hetmap.Device("soft:0")
    buffer = hetmap.Buffer(device, 65536)
    buffer.set_loss(hetmap.LOSS_SHADOW)
    map = buffer.map()
    array = map.array("uint32")
    with map.cpu(write=True):
        array[:] = 3
    device.sim_unplug()
    assert array[100] == 3
    with pytest.raises(hetmap.DeviceLost):
        map.begin_cpu()
    hetmap.sim_plug("soft:0")
    assert device.recover(shadowed=True)["buffers_back"] == 1
    assert array[100] == 3
    with map.cpu(write=True):
        array[0] = 4


def test_cycles(device):
    """100,000 views, and 10,000 maps: nothing is kept."""
    buffer = hetmap.Buffer(device, 4096)
    map = buffer.map()
    counts = [sys.getrefcount(o) for o in (device, buffer, map, None)]
    maps, fds = hetmap.stats()["maps"], len(os.listdir("/proc/self/fd"))
    for i in range(100_000):
        view = memoryview(map)
        if i % 10 == 0:
            with buffer.map() as other:
                np.asarray(other)
            map.__dlpack__(max_version=(1, 0))
            np.from_dlpack(map)
            map.__array_interface__
            map.read(0, 8)
            with map.cpu():
                pass
        map.address
    del view, other
    after = [sys.getrefcount(o) for o in (device, buffer, map, None)]
    assert after[:3] == counts[:3] and abs(after[3] - counts[3]) < 50
    assert hetmap.stats()["maps"] == maps and len(os.listdir("/proc/self/fd")) == fds
    assert map.exports == buffer.exports == 0


def test_errors_keep_nothing(device):
    gc.collect()
    before = hetmap.stats()
    for _ in range(2000):
        with pytest.raises(hetmap.Error):
            hetmap.Buffer(device, 0)
        with pytest.raises(TypeError):
            hetmap.Map(device)
    gc.collect()
    assert hetmap.stats() == before


def test_gil_is_released():
    """A receive that blocks leaves other threads alone."""
    ours, theirs = socket.socketpair()
    device = hetmap.Device("host")
    buffer = hetmap.Buffer(device, 4096)
    got = []
    thread = threading.Thread(target=lambda: got.append(hetmap.Buffer.receive(device, theirs)))
    thread.start()
    time.sleep(0.05)
    assert thread.is_alive()
    buffer.send(ours)
    thread.join(5)
    assert got[0].size == 4096
    ours.close(), theirs.close()


def test_threads_close_at_once(device):
    """Calls and closes of one map, from four threads: errors, never a crash."""
    for _ in range(200):
        map = hetmap.Buffer(device, 4096).map()

        def use():
            for _ in range(20):
                try:
                    map.read(0, 64)
                    np.asarray(map)[0] = 1
                    with map.cpu():
                        pass
                except (ValueError, hetmap.Error):
                    break

        threads = [threading.Thread(target=use) for _ in range(3)]
        for thread in threads:
            thread.start()
        map.close(deferred=True)
        for thread in threads:
            thread.join()
