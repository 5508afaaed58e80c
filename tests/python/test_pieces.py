# SPDX-License-Identifier: MIT
"""hetmap.pieces: files of each format, listed, and loaded into devices."""

import doctest
import gc
import os
import struct
import subprocess
import sys
import time

import numpy as np
import pytest

import hetmap
from hetmap import pieces

safetensors = pytest.importorskip("safetensors.numpy", reason="no safetensors package")


@pytest.fixture
def tensors():
    return {f"layer.{i}.weight": np.full((64, 256), i, "float32") for i in range(20)} | {
        "scalar": np.array(7, "uint8"), "empty": np.zeros((0, 3), "float16")}


@pytest.fixture
def path(tmp_path, tensors):
    path = tmp_path / "model.safetensors"
    safetensors.save_file(tensors, path, {"who": "test"})
    return path


def test_doctests():
    result = doctest.testmod(pieces)
    assert result.attempted and not result.failed


@pytest.mark.parametrize("name", ["host", "soft:0"])
def test_load(path, tensors, name):
    file, device = pieces.open(path), hetmap.Device(name)
    assert file.format == "safetensors" and file.metadata == {"who": "test"}
    assert sorted(file) == sorted(tensors) and len(file) == 22
    assert file.info("layer.3.weight") == ("F32", (64, 256), 65536)
    steps = []
    loaded = file.load(device, progress=lambda done, total: steps.append((done, total)))
    total = sum(array.nbytes for array in tensors.values())
    assert steps == sorted(steps) and steps[-1] == (total, total)
    assert loaded.facts["bytes"] == total and loaded.facts["pieces"] == 22
    for name, array in tensors.items():
        got = loaded[name]
        assert got.dtype == array.dtype and got.shape == array.shape and (got == array).all()
    assert loaded["layer.1.weight"].ctypes.data % 256 == 0
    loaded["layer.1.weight"][:] = 99
    assert loaded["layer.1.weight"][63, 255] == 99 and loaded["layer.2.weight"][0, 0] == 2
    assert isinstance(loaded.map, hetmap.Map) and isinstance(loaded.map.buffer, hetmap.Buffer)
    assert loaded.map.buffer.device is device
    with loaded.map.cpu():
        pass
    array = loaded["layer.5.weight"]
    del loaded, file, device
    gc.collect()
    assert array.sum() == 5 * 64 * 256


def test_some_of_them(path):
    loaded = pieces.open(path).load(names=["layer.7.weight", "layer.2.weight"], threads=1)
    assert list(loaded) == ["layer.7.weight", "layer.2.weight"] and len(loaded) == 2
    assert loaded["layer.7.weight"].ctypes.data < loaded["layer.2.weight"].ctypes.data
    for name in ("none", "scalar"):
        with pytest.raises(KeyError):
            loaded[name]
    with pytest.raises(KeyError, match="none"):
        pieces.open(path).load(names=["none"])
    with pytest.raises(hetmap.Error):
        pieces.open(path).load(names=["scalar", "scalar"])


@pytest.mark.parametrize("array", [
    np.arange(12).reshape(3, 4), np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    np.arange(6, dtype=">i4"), np.array(5, "int16"), np.zeros((0, 2)),
    np.asfortranarray(np.arange(8, dtype=">f8").reshape(2, 2, 2)), np.array([True, False])])
def test_arrays_of_numpy(tmp_path, array):
    np.save(tmp_path / "one.npy", array)
    np.savez(tmp_path / "two.npz", x=array, y=np.arange(3))
    for file, name in (("one.npy", "array"), ("two.npz", "x")):
        got = pieces.open(tmp_path / file).load()[name]
        assert got.shape == array.shape and (got == array).all()


def test_blocks(tmp_path):
    """Types that numpy has not are bytes: of quantised models, and of structures."""
    text = lambda s: struct.pack("<Q", len(s)) + s
    head = struct.pack("<4sIQQ", b"GGUF", 3, 1, 0) + text(b"w") + struct.pack("<IQQIQ", 2, 64, 2,
                                                                              8, 0)
    data = bytes(range(136))
    (tmp_path / "q.gguf").write_bytes(head + bytes(-len(head) % 32) + data)
    loaded = pieces.open(tmp_path / "q.gguf").load()
    assert loaded["w"].shape == (2, 68) and loaded["w"].tobytes() == data
    rows = np.zeros(3, [("a", "<i4"), ("b", "<f8")])
    rows["a"] = 5
    np.save(tmp_path / "rows.npy", rows)
    assert pieces.open(tmp_path / "rows.npy").load()["array"].tobytes() == rows.tobytes()


def test_exception_of_progress(path):
    gc.collect()
    before, file = hetmap.stats(), pieces.open(path)

    def fails(done, total):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        file.load(progress=fails)
    with pytest.raises(TypeError):
        file.load(progress=lambda: None)
    assert file.load(progress=lambda *step: hetmap.stats())["scalar"] == 7
    del file
    gc.collect()
    assert hetmap.stats()["maps"] == before["maps"]
    assert hetmap.stats()["buffers"] == before["buffers"]


def test_interrupt(tmp_path):
    """Ctrl-C ends a load, at the next step."""
    with open(tmp_path / "big.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False,
                                                    "shape": (1 << 30,)})
        file.truncate(file.tell() + (1 << 30))
    code = """
import os, signal, sys
from hetmap import pieces
def kill(done, total):
    if done: os.kill(os.getpid(), signal.SIGINT)
try:
    pieces.open(sys.argv[1]).load(progress=kill)
except KeyboardInterrupt:
    print("stopped")
"""
    begin = time.monotonic()
    result = subprocess.run([sys.executable, "-c", code, os.fspath(tmp_path / "big.npy")],
                            capture_output=True, text=True, timeout=60)
    assert result.stdout == "stopped\n", result.stderr
    assert time.monotonic() - begin < 30


def test_refusals(tmp_path):
    with pytest.raises(FileNotFoundError):
        pieces.open(tmp_path / "none")
    (tmp_path / "text").write_text("no format\n" * 10)
    with pytest.raises(hetmap.Error):
        pieces.open(tmp_path / "text")
    closed = hetmap.Device("host")
    closed.close()
    np.save(tmp_path / "one.npy", np.arange(3))
    with pytest.raises(ValueError, match="closed"):
        pieces.open(tmp_path / "one.npy").load(closed)


def test_nothing_kept(path, nothing_left):
    for _ in range(30):
        loaded = pieces.open(path).load()
        loaded["layer.3.weight"][:] = 1
    del loaded
