# SPDX-License-Identifier: MIT
"""Files of any format that the library reads, brought into the memory of a device.

open() finds the format by the first bytes: safetensors, GGUF, .npy, .npz, and tokens with an
index. A piece is a tensor or an array of such a file.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy

from . import _hetmap
from ._dtypes import array_over, array_type
from ._objects import Buffer, Device, Map


class Info(NamedTuple):
    """What a piece is, without its bytes; the slowest dimension comes first."""

    type: str
    shape: "tuple[int, ...]"
    nbytes: int


class Pieces:
    """The pieces of a file, or of a model's folder, as open() gives it."""

    def __init__(self, path):
        self._pieces = _hetmap.Pieces(path)
        self._rows = {row[0]: (i, *row[1:]) for i, row in enumerate(self._pieces.rows())}
        self.format = self._pieces.query()["format"]
        self.metadata = dict(self._pieces.metadata())

    def __iter__(self):
        return iter(self._rows)

    def __len__(self):
        return len(self._rows)

    def __contains__(self, name):
        return name in self._rows

    def _row(self, name):
        try:
            return self._rows[name]
        except KeyError:
            raise KeyError(f"the file has no piece {name!r}") from None

    def info(self, name) -> Info:
        """What the piece is, without touching it."""
        _, kind, _, shape, nbytes, *_ = self._row(name)
        return Info(kind, shape, nbytes)

    def _note(self, what, name):
        """What is unlike C on this machine; of the file's only array, or of one of several."""
        return self.metadata.get(f"{what} of {name}") or (
            self.format in ("npy", "tokens") and self.metadata.get(what))

    def _type(self, name):
        """Type, shape and order of a piece's array."""
        _, kind, dtype, shape, nbytes, *block = self._row(name)
        order = "F" if self._note("order", name) else "C"
        if order == "F" and (dtype is None or len(shape) < 2):
            return numpy.dtype("uint8"), (nbytes,), "C"
        swapped = bool(self._note("byte order", name))
        return *array_type(kind, dtype, shape, *block, swapped), order

    def _array(self, source, name, offset):
        dtype, shape, order = self._type(name)
        return array_over(source, dtype, shape, offset, order)

    def load(self, device: "Device | None" = None, names=None, progress=None, *, window: int = 0,
             threads: int = 0) -> "Loaded":
        """Reads pieces into one buffer of a device, straight to their place.

        `names` are those to load, in this order; None: all. `progress(bytes, total)` is called
        after each step in this thread; Ctrl-C, or an exception of it, ends the load, and nothing
        is left. `window` is the most bytes under way, `threads` the number that copy; 0: chosen.
        """
        names = list(self._rows if names is None else names)
        indices = [self._row(name)[0] for name in names]
        return Loaded(self, names, self._pieces.load((Map, Buffer), device or Device("host"),
                                                     indices, progress, window, threads))

    def to(self, device: str, names=None, progress=None, *,
           window: int = 0) -> "Loaded | hetmap.cuda.Loaded":  # noqa: F821
        """load() into a device by its name. That of "cuda:0" is a hetmap.cuda.Loaded.

        For a device of CUDA so many pieces as fill `window` bytes (64 MiB) are read at once.
        """
        if device.partition(":")[0] != "cuda":
            return self.load(Device(device), names, progress, window=window)
        from . import cuda
        return cuda.load(self, device, names, progress, window or 64 << 20)


class Loaded(Mapping):
    """Arrays by their names, over the memory of a device that load() filled.

    `map` is the hetmap.Map that all of them lie in, for launches, locks and close(); `facts` has
    amounts and times.
    """

    def __init__(self, pieces, names, loaded):
        self.map, places, self.facts = loaded
        self._pieces, self._places = pieces, dict(zip(names, places))

    def __getitem__(self, name) -> numpy.ndarray:
        return self._pieces._array(self.map, name, self.offset(name))

    def offset(self, name) -> int:
        """Where the piece begins in `map`."""
        return self._places[name][0]

    def __iter__(self):
        return iter(self._places)

    def __len__(self):
        return len(self._places)

    def __contains__(self, name):
        return name in self._places


def open(path) -> Pieces:
    """Opens a file of any format, or a folder with a model; reads headers only.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "two.npz")
    >>> numpy.savez(path, a=numpy.arange(6).reshape(2, 3), b=numpy.float32(5))
    >>> pieces = open(path)
    >>> pieces.format, list(pieces), pieces.info("a")
    ('npz', ['a', 'b'], Info(type='I64', shape=(2, 3), nbytes=48))
    >>> loaded = pieces.load()
    >>> loaded["a"][1].tolist(), float(loaded["b"]), loaded.facts["bytes"]
    ([3, 4, 5], 5.0, 52)
    """
    return Pieces(path)
