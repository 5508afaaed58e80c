# SPDX-License-Identifier: MIT
"""hetmap.gguf on files that are written here, byte by byte."""

import doctest
import gc
import struct

import ml_dtypes
import numpy as np
import pytest

import hetmap
from hetmap import gguf

# Numbers of the format: letters of struct by the kind of a value, and kinds of tensors.
LETTERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
           12: "d"}
STRING, ARRAY = 8, 9
F32, F16, Q8_0, I8, BF16 = 0, 1, 8, 24, 30

KEYS = {"u8": (0, 200), "i8": (1, -3), "u16": (2, 65535), "i16": (3, -300), "u32": (4, 1 << 31),
        "i32": (5, -70000), "f32": (6, 1.5), "truth": (7, True), "text": (STRING, "h\u00e9llo"),
        "u64": (10, 1 << 63), "i64": (11, -(1 << 40)), "f64": (12, 0.1),
        "texts": (ARRAY, STRING, ["a", "", "bc" * 1000]), "numbers": (ARRAY, 5, [1, -2, 3]),
        "truths": (ARRAY, 7, [True, False]), "none": (ARRAY, 12, []),
        "long": (STRING, "y" * 200000)}


def text(value, order="<"):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack(order + "Q", len(data)) + data


def pair(key, kind, *value, order="<"):
    head = text(key, order) + struct.pack(order + "I", kind)
    if kind == ARRAY:
        kind, (many,) = value[0], value[1:]
        head += struct.pack(order + "IQ", kind, len(many))
    else:
        many = value
    return head + b"".join(text(one, order) if kind == STRING else
                           struct.pack(order + LETTERS[kind], one) for one in many)


def write(path, keys, tensors, order="<"):
    """`tensors`: name: (kind, shape with the slowest dimension first, bytes)"""
    head = b"GGUF" + struct.pack(order + "IQQ", 3, len(tensors), len(keys))
    head += b"".join(pair(key, *value, order=order) for key, value in keys.items())
    data = b""
    for name, (kind, shape, content) in tensors.items():
        head += text(name, order) + struct.pack(order + "I", len(shape))
        head += struct.pack(f"{order}{len(shape)}QIQ", *reversed(shape), kind, len(data))
        data += content + bytes(-len(content) % 32)
    path.write_bytes(head + bytes(-len(head) % 32) + data)
    return path


@pytest.fixture
def path(tmp_path):
    numbers = np.arange(24, dtype="float32")
    return write(tmp_path / "model.gguf", KEYS, {
        "a.weight": (F32, (2, 3, 4), numbers.tobytes()),
        "b.\u00e4": (F16, (24,), numbers.astype("float16").tobytes()),
        "blocks": (Q8_0, (3, 64), bytes(range(204))),
        "bytes": (I8, (5,), b"\xff\0\1\2\3"),
        "brain": (BF16, (24,), numbers.astype(ml_dtypes.bfloat16).tobytes())})


def test_doctests():
    result = doctest.testmod(gguf)
    assert result.attempted and not result.failed


def test_metadata(path):
    with gguf.open(path) as file:
        assert list(file.metadata) == list(KEYS)
        for key, value in KEYS.items():
            got = file.metadata[key]
            assert got == value[-1] and type(got) is type(value[-1])
        assert file.facts["version"] == 3 and file.facts["tensors"] == 5


def test_tensors(path):
    file, numbers = gguf.open(path), np.arange(24)
    assert list(file.tensors) == ["a.weight", "b.\u00e4", "blocks", "bytes", "brain"]
    array = file.tensors["a.weight"]
    assert array.shape == (2, 3, 4) and array.dtype == "float32" and array.flags.aligned
    assert (array == numbers.reshape(2, 3, 4)).all() and not array.flags.writeable
    assert (file.get_tensor("b.\u00e4") == numbers).all()
    assert file.tensors["bytes"].tolist() == [-1, 0, 1, 2, 3]
    assert (file.tensors["brain"].astype("float32") == numbers).all()
    blocks = file.tensors["blocks"]
    assert blocks.shape == (3, 68) and blocks.ravel().tolist() == list(range(204))
    assert file.info("blocks") == ("Q8_0", (3, 64), 204, 32, 34)
    assert "blocks" in file.tensors and "none" not in file.tensors and len(file.tensors) == 5
    with pytest.raises(KeyError, match="none"):
        file.tensors["none"]
    del file
    gc.collect()
    assert array[1, 2, 3] == 23


def test_in_place(path):
    """The bytes are the file's: a change of the file shows."""
    array, data = gguf.open(path).tensors["a.weight"], path.read_bytes()
    with open(path, "r+b") as file:
        file.seek(data.index(np.arange(24, dtype="float32").tobytes()))
        file.write(np.float32(99).tobytes())
    assert array[0, 0, 0] == 99


def test_other_byte_order(tmp_path):
    path = write(tmp_path / "big.gguf", {"n": (4, 7), "t": (ARRAY, 3, [-5])}, {
        "x": (F32, (2, 2), np.arange(4, dtype=">f4").tobytes()),
        "y": (BF16, (2,), b"\x3f\xc0\x40\0"), "z": (Q8_0, (32,), bytes(34))}, ">")
    with gguf.open(path) as file:
        assert file.metadata == {"n": 7, "t": [-5]} and file.facts["swapped"]
        assert file.tensors["x"].tolist() == [[0, 1], [2, 3]]
        assert bytes(file.tensors["y"]) == b"\x3f\xc0\x40\0"
        assert file.tensors["z"].shape == (34,)


def test_text_of_any_bytes(tmp_path):
    path = write(tmp_path / "any.gguf", {"t": (STRING, b"a\xff\0b")}, {})
    assert gguf.open(path).metadata["t"] == "a\udcff\0b"


def test_closed_and_refused(path, tmp_path):
    with gguf.open(path) as file:
        array = file.tensors["a.weight"]
    for call in (lambda: file.metadata, lambda: file.tensors["bytes"], lambda: file.facts):
        with pytest.raises(ValueError, match="closed"):
            call()
    assert array[0, 0, 1] == 1
    with pytest.raises(FileNotFoundError):
        gguf.open(tmp_path / "none.gguf")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(hetmap.Error):
        gguf.open(path)


def test_nothing_kept(path, nothing_left):
    for _ in range(100):
        file = gguf.open(path)
        arrays, keys = dict(file.tensors), file.metadata
        with pytest.raises(KeyError):
            file.info("none")
    del file, arrays, keys
