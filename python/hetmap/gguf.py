# SPDX-License-Identifier: MIT
"""Models in GGUF: open(), the keys as a dict, and tensors as arrays over the pages of the file.

Nothing of a tensor is read before it is touched. Any file of a split model opens all of it.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy

from . import _hetmap
from ._dtypes import array_over, array_type


class Info(NamedTuple):
    """What a tensor is, without its bytes; the slowest dimension comes first."""

    type: str
    shape: "tuple[int, ...]"
    nbytes: int
    block_elements: int
    block_bytes: int


class File:
    """A model in GGUF, as open() gives it.

    `metadata` is a dict of the keys: numbers, bools, strings, and lists of them. `tensors` is a
    mapping of names to arrays, for reading, which keep the pages that they are over.

    The array of a quantised type has its blocks as bytes, those of a row in the last dimension:
    (4096, 4096) of Q8_0, with 34 bytes for 32 elements, is (4096, 4352) of uint8. `info()` has
    the type's name and the size of a block. BF16 needs ml_dtypes.
    """

    def __init__(self, path):
        self._model = _hetmap.Gguf(path)
        self._rows = {row[0]: (i, *row[1:]) for i, row in enumerate(self._model.tensors())}
        self._metadata = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        """Gives the file up; arrays keep what they are over."""
        self._model = None

    def _open(self):
        if self._model is None:
            raise ValueError("the file is closed")
        return self._model

    def _row(self, name):
        try:
            return self._rows[name]
        except KeyError:
            raise KeyError(f"the model has no tensor {name!r}") from None

    @property
    def metadata(self) -> dict:
        """The keys, in the order of the file; the first use reads long arrays."""
        if self._metadata is None:
            model = self._open()
            n = model.query()["metadata"]
            self._metadata = dict(model.metadata(i) for i in range(n))
        return self._metadata

    @property
    def tensors(self) -> Mapping:
        """Arrays by their names, each made when it is asked for."""
        return Tensors(self)

    @property
    def facts(self) -> dict:
        """Version of the format, number of files and tensors, bytes of all tensors."""
        return self._open().query()

    def info(self, name) -> Info:
        """What the tensor is, without touching it."""
        _, kind, _, shape, nbytes, elements, size, _ = self._row(name)
        return Info(kind, shape, nbytes, elements, size)

    def get_tensor(self, name) -> numpy.ndarray:
        """The tensor as an array over the file's pages, for reading."""
        index, kind, dtype, shape, _, *block, swapped = self._row(name)
        dtype, shape = array_type(kind, dtype, shape, *block, swapped)
        return array_over(self._open().view(index, dtype.alignment), dtype, shape)


class Tensors(Mapping):
    """What File.tensors is."""

    def __init__(self, file):
        self._file = file

    def __getitem__(self, name):
        return self._file.get_tensor(name)

    def __iter__(self):
        return iter(self._file._rows)

    def __len__(self):
        return len(self._file._rows)

    def __contains__(self, name):
        return name in self._file._rows


def open(path) -> File:
    """Opens a model: any file of a split one.

    >>> import io, os, struct, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.gguf")
    >>> text = lambda s: struct.pack("<Q", len(s)) + s
    >>> head = struct.pack("<4sIQQ", b"GGUF", 3, 1, 1)
    >>> key = text(b"general.name") + struct.pack("<I", 8) + text(b"tiny")
    >>> tensor = text(b"w") + struct.pack("<IQQIQ", 2, 3, 2, 0, 0)
    >>> head = head + key + tensor
    >>> with io.open(path, "wb") as file:
    ...     _ = file.write(head + bytes(-len(head) % 32) + struct.pack("<6f", *range(6)))
    >>> with open(path) as model:
    ...     model.metadata["general.name"], model.tensors["w"].tolist(), model.info("w").type
    ('tiny', [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], 'F32')
    """
    return File(path)
