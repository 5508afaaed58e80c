# SPDX-License-Identifier: MIT
"""hetmap.memmap against numpy.memmap: what numpy promises of the one holds for the other."""

import os
import pickle

import numpy as np
import pytest

import hetmap

BOTH = pytest.mark.parametrize("memmap", [np.memmap, hetmap.memmap], ids=["numpy", "hetmap"])


@pytest.fixture
def numbers():
    return np.arange(12, dtype="float32").reshape(3, 4)


@BOTH
def test_round_trip(memmap, tmp_path, numbers):
    path = tmp_path / "file"
    array = memmap(path, dtype="float32", mode="w+", shape=(3, 4))
    array[:] = numbers
    array.flush()
    again = memmap(path, dtype="float32", mode="r", shape=(3, 4))
    assert (again == numbers).all() and again.flags.aligned
    assert os.path.getsize(path) == 48
    del array
    assert (memmap(path, "float32", "r+").reshape(3, 4) == numbers).all()


@BOTH
def test_attributes(memmap, tmp_path):
    path = tmp_path / "file"
    array = memmap(path, dtype="float32", mode="w+", offset=1, shape=(3, 4))
    assert array.offset == 1 and array.mode == "w+"
    assert os.fspath(array.filename) == os.fspath(path)
    part = array[1:]
    assert part.offset == 1 and part.mode == "w+" and type(part) is memmap
    assert os.path.getsize(path) == 49


@BOTH
@pytest.mark.parametrize("kind", ["text", "path", "file"])
def test_names(memmap, tmp_path, kind):
    path = tmp_path / "file"
    path.write_bytes(bytes(64))
    with open(path, "r+b") as file:
        name = {"text": str(path), "path": path, "file": file}[kind]
        array = memmap(name, mode="r+")
        array[3] = 9
        array.flush()
        assert os.fspath(array.filename) == str(path)
    assert array[3] == 9 and path.read_bytes()[3] == 9


@BOTH
def test_modes(memmap, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(100))
    reader = memmap(path, mode="r")
    assert not reader.flags.writeable and reader.shape == (100,)
    with pytest.raises(ValueError):
        reader[0] = 1
    own = memmap(path, mode="c")
    own[0] = 1
    assert own[0] == 1 and path.read_bytes()[0] == 0
    shared = memmap(path, mode="r+")
    shared[1] = 2
    shared.flush()
    assert reader[1] == 2
    longer = memmap(path, mode="r+", shape=(200,))
    assert len(longer) == 200 and os.path.getsize(path) == 200
    for name, mode in {"readonly": "r", "copyonwrite": "c", "readwrite": "r+"}.items():
        assert memmap(path, mode=name).mode == mode


@BOTH
def test_refusals(memmap, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(10))
    with pytest.raises(ValueError):
        memmap(path, mode="x")
    with pytest.raises(ValueError):
        memmap(path, mode="w+")
    with pytest.raises(ValueError):
        memmap(path, dtype="int32", mode="r")
    with pytest.raises(ValueError):
        memmap(path, mode="r", shape=(20,))
    with pytest.raises(FileNotFoundError):
        memmap(tmp_path / "none", mode="r")


@BOTH
@pytest.mark.parametrize("offset", [0, 4, 4096, 5000 * 4, 4095 * 4 + 4])
def test_offsets(memmap, tmp_path, offset):
    path = tmp_path / "file"
    np.arange(20000, dtype="int32").tofile(path)
    array = memmap(path, "int32", "r", offset=offset)
    assert array[0] == offset // 4 and array[-1] == 19999 and array.offset == offset
    assert len(array) == 20000 - offset // 4


@BOTH
@pytest.mark.parametrize("order", ["C", "F"])
def test_orders(memmap, tmp_path, numbers, order):
    path = tmp_path / "file"
    array = memmap(path, "float32", "w+", shape=(3, 4), order=order)
    array[:] = numbers
    array.flush()
    assert (np.fromfile(path, "float32") == numbers.ravel(order)).all()


@BOTH
def test_shapes(memmap, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(64))
    for shape in ((64,), 64, np.int64(64), (np.int32(2), 32), (1, 64, 1)):
        assert memmap(path, shape=shape, mode="r").size == 64
    for wrong in ({"shape": 1.5}, {"shape": (2, 1.5)}, {"offset": 2.0}):
        with pytest.raises(TypeError):
            memmap(path, mode="r", **wrong)
    for shape in ([8, 8], np.array([8, 8]), iter((8, 8))):
        assert hetmap.memmap(path, shape=shape, mode="r").shape == (8, 8)
    pair = np.dtype([("a", "i4"), ("b", "f4")])
    array = memmap(path, pair, "r+")
    array["b"][2] = 1.5
    assert array[2]["b"] == 1.5 and array.shape == (8,)


@BOTH
def test_what_functions_make(memmap, tmp_path):
    """Sums and copies are plain: they are in no file. Views are memmaps."""
    array = memmap(tmp_path / "file", "float64", "w+", shape=(4, 5))
    array[:] = 2
    assert type(array.sum()) is np.float64 and array.sum() == 40
    assert type(array.sum(axis=0)) is np.ndarray
    assert type(array + 1) is np.ndarray and type(np.sqrt(array)) is np.ndarray
    assert type(array[[0, 1]]) is np.ndarray and type(array[0, 0]) is np.float64
    assert type(array[1:, ::2]) is memmap and type(array.T) is memmap
    assert type(array.reshape(20)) is memmap
    out = np.add(array, 1, out=array)
    assert out is array and array[0, 0] == 3
    total = np.zeros(())
    assert np.sum(array, out=total) is total


@BOTH
def test_pickle_is_a_copy(memmap, tmp_path):
    array = memmap(tmp_path / "file", "int16", "w+", shape=(3,))
    array[:] = 5
    copy = pickle.loads(pickle.dumps(array))
    array[0] = 6
    assert copy.tolist() == [5, 5, 5]


def test_close(tmp_path):
    path = tmp_path / "file"
    array = hetmap.memmap(path, "int32", "w+", shape=(1000,))
    maps = hetmap.stats()["maps"]
    part = array[10:20]
    array[15] = 8
    array.close()
    assert array.closed and part.closed and np.fromfile(path, "int32")[15] == 8
    array.close()
    with pytest.raises(ValueError, match="closed"):
        array.flush()
    del array
    assert part[5] == 8 and hetmap.stats()["maps"] == maps
    del part
    assert hetmap.stats()["maps"] == maps - 1


def test_nothing_kept(tmp_path, nothing_left):
    path = tmp_path / "file"
    path.write_bytes(bytes(8192))
    for mode in ("r", "r+", "c") * 300:
        array = hetmap.memmap(path, "int64", mode, offset=8)
        array[1:3].sum()
        if mode != "c":
            array.close()
    del array


def test_map_of_it(tmp_path):
    array = hetmap.memmap(tmp_path / "file", "int64", "w+", shape=(4096,))
    array.map.advise(hetmap.ADVICE_SEQUENTIAL)
    array.map.prefetch()
    assert array.map.nbytes == 32768 and array[2:].map is array.map


def test_cut(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"b" * 65536)
    array = hetmap.memmap(path, mode="r+")
    os.truncate(path, 8192)
    with pytest.raises(hetmap.FileCut):
        with array.map.cpu():
            assert array[50000] == 0
    with pytest.raises(hetmap.FileCut):
        array.close()
    assert array.closed


def drop_from_ram(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.mark.parametrize("storage", ["slow", "fast"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_many_rows(tmp_path, monkeypatch, storage, order):
    """Rows of a list, in RAM or announced to storage: those that numpy has."""
    from hetmap import _memmap
    shape, path = (3000, 5, 40), tmp_path / "rows"
    array = hetmap.memmap(path, "uint16", "w+", 6, shape, order)
    array[:] = np.random.default_rng(1).integers(0, 60000, shape)
    array.close()
    del array
    drop_from_ram(path)
    limit = -1.0 if storage == "slow" else 1e9
    monkeypatch.setattr(_memmap, "_SLOW_ROW", limit)
    own = hetmap.memmap(path, "uint16", "r", 6, shape, order)
    theirs = np.memmap(path, "uint16", "r", 6, shape, order)
    announced = []
    monkeypatch.setattr(_memmap.memmap, "_announce", lambda self, offsets, nbytes, real=(
        _memmap.memmap._announce): (announced.append(len(offsets)), real(self, offsets, nbytes)))
    rows = np.random.default_rng(2).integers(-3000, 3000, 2500)
    for index in (rows, rows.tolist(), rows.astype("int16"), np.arange(3000, dtype="int16")[:300]):
        announced.clear()
        taken = own[index]
        assert type(taken) is np.ndarray and taken.flags.writeable
        assert taken.dtype == theirs.dtype and (taken == theirs[index]).all()
        assert sum(announced) == (len(index) if storage == "slow" else _memmap._FIRST_ROWS)
    for part in (np.s_[:, 1:4, ::3], np.s_[::7, :2], np.s_[5:]):
        some = rows[:1000] % len(own[part])
        assert (own[part][some] == theirs[part][some]).all()
    assert (own[::-1][rows] == theirs[::-1][rows]).all()
    assert (own[rows[:1000].reshape(10, 100)] == theirs[rows[:1000].reshape(10, 100)]).all()
    with pytest.raises(IndexError):
        own[np.append(rows, 3000)]
    assert own[np.zeros(300, "int64"), 2, 3].shape == (300,)


def test_announce(tmp_path):
    """Ranges of any place are announced; those behind the end are left out."""
    path = tmp_path / "file"
    path.write_bytes(bytes(1 << 22))
    drop_from_ram(path)
    array = hetmap.memmap(path, mode="r")
    with pytest.raises((TypeError, BufferError)):
        array.map.announce(7, 4096)
    array.map.announce(np.array([5, 1 << 20, (1 << 22) - 3, 1 << 40], "int64"), 100)
    assert array[5] == array[-1] == 0
    array.close()
    with pytest.raises(ValueError):
        array.map.announce(np.array([0], "int64"), 1)
