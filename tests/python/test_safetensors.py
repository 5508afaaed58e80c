# SPDX-License-Identifier: MIT
"""hetmap.safetensors against the original: what that one writes, both read alike."""

import doctest
import gc
import json
import os

import numpy as np
import pytest

import hetmap
from hetmap import safetensors as ours

peer = pytest.importorskip("safetensors.numpy", reason="no safetensors package")


@pytest.fixture
def tensors():
    return {"b.weight": np.arange(24, dtype="float32").reshape(2, 3, 4),
            "a": np.arange(5, dtype="int64"), "scalar": np.array(7, "uint8"),
            "empty": np.zeros((0, 3), "float16"), "mask": np.array([True, False, True])}


@pytest.fixture
def path(tmp_path, tensors):
    path = tmp_path / "model.safetensors"
    peer.save_file(tensors, path, {"format": "np", "who": "test"})
    return path


def test_doctests():
    result = doctest.testmod(ours)
    assert result.attempted and not result.failed


@pytest.mark.parametrize("copy", [False, True])
def test_load_file(path, tensors, copy):
    got, wanted = ours.load_file(path, copy=copy), peer.load_file(path)
    assert got.keys() == wanted.keys()
    for name, array in wanted.items():
        assert got[name].dtype == array.dtype and got[name].shape == array.shape
        assert (got[name] == array).all() and got[name].flags.aligned
        assert got[name].flags.writeable == copy or not array.size


def test_safe_open(path, tensors):
    import safetensors
    with ours.safe_open(path, framework="np") as file, \
            safetensors.safe_open(path, framework="np") as wanted:
        assert file.keys() == sorted(wanted.keys())
        assert list(file.offset_keys()) == list(wanted.offset_keys())
        assert file.metadata() == wanted.metadata() == {"format": "np", "who": "test"}
        for name in file.keys():
            assert (file.get_tensor(name) == wanted.get_tensor(name)).all()
        part, other = file.get_slice("b.weight"), wanted.get_slice("b.weight")
        assert part.get_shape() == list(other.get_shape()) and part.get_dtype() == "F32"
        array = tensors["b.weight"]
        for index in (np.s_[0], np.s_[1:], np.s_[:, 1], np.s_[:, 1:2, 2:], np.s_[..., 3],
                      np.s_[-1, -1], np.s_[1:1], np.s_[0, 1, 2], np.s_[:]):
            assert (part[index] == array[index]).all()
            assert part[index].shape == array[index].shape
        for index, error in ((np.s_[::2], ValueError), (np.s_[5], IndexError),
                             (np.s_[0, 0, 0, 0], IndexError)):
            with pytest.raises(error):
                part[index]
        with pytest.raises(KeyError):
            file.get_tensor("none")
        kept = file.get_tensor("a")
    gc.collect()
    assert kept.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError):
        file.get_tensor("a")
    for wrong in ({"framework": "jax"}, {"device": "cuda:0"}):
        with pytest.raises(ValueError):
            ours.safe_open(path, **wrong)


def test_in_place(path):
    """The bytes are the file's: a change of the file shows."""
    array = ours.load_file(path)["b.weight"]
    data = bytearray(path.read_bytes())
    at = data.index(np.float32(23).tobytes())
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(np.float32(99).tobytes())
    assert array[1, 2, 3] == 99


def test_bfloat16(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    header = json.dumps({"x": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    path = tmp_path / "half"
    path.write_bytes(len(header).to_bytes(8, "little") + header +
                     np.array([1.5, -2], ml_dtypes.bfloat16).tobytes())
    array = ours.load_file(path)["x"]
    assert array.dtype == ml_dtypes.bfloat16 and array.astype("float32").tolist() == [1.5, -2]


def test_model_of_two_files(tmp_path, tensors):
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    peer.save_file({"a": tensors["a"]}, tmp_path / names[0])
    peer.save_file({"b": tensors["b.weight"]}, tmp_path / names[1])
    index = {"metadata": {}, "weight_map": {"a": names[0], "b": names[1]}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    got = ours.load_file(tmp_path)
    assert sorted(got) == ["a", "b"] and (got["b"] == tensors["b.weight"]).all()


def test_refusals(tmp_path):
    path = tmp_path / "bad"
    path.write_bytes(b"\x10\0\0\0\0\0\0\0{")
    with pytest.raises(hetmap.Error):
        ours.load_file(path)
    with pytest.raises(FileNotFoundError):
        ours.load_file(tmp_path / "none")


def test_nothing_kept(path, nothing_left):
    for _ in range(200):
        got = ours.load_file(path)
        ours.load_file(path, copy=True)
    del got


def test_cut_file(path):
    """A copy of bytes that are gone is an exception."""
    with ours.safe_open(path) as file:
        index, _, _, nbytes = file._find("b.weight")
        to = np.empty(nbytes, "uint8")
        file._model.read(index, to)
        with pytest.raises(hetmap.Error):
            file._model.read(index, to[1:])
        os.truncate(path, 8)
        with pytest.raises(hetmap.Error):
            file._model.read(index, to)
