# SPDX-License-Identifier: MIT
"""safetensors by the names of the original's numpy module: load_file() and safe_open().

Tensors are arrays over the pages of the file, for reading: nothing is read before it is touched.
The path may also be an index of a model or its folder, whose files are one then.
"""

import numpy

from . import _hetmap
from ._dtypes import array_over, dtype_of


def _array(tensor, dtype):
    return array_over(tensor, dtype, tensor.shape)


class safe_open:
    """The tensors of a file by name: safe_open(filename, framework="np", device="cpu").

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "one.safetensors")
    >>> header = b'{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    >>> with open(path, "wb") as file:
    ...     _ = file.write(len(header).to_bytes(8, "little") + header + bytes(8))
    >>> with safe_open(path) as file:
    ...     file.keys(), file.get_tensor("x").tolist()
    (['x'], [0.0, 0.0])
    """

    def __init__(self, filename, framework="np", device="cpu"):
        if framework not in ("np", "numpy"):
            raise ValueError(f"framework {framework!r} is not numpy: pass an array to "
                             "torch.from_numpy(), say, which takes it without a copy")
        if device != "cpu":
            raise ValueError(f"device {device!r} is not the CPU")
        self._model = _hetmap.Model(filename)
        self._tensors = {row[0]: (i, *row[1:]) for i, row in enumerate(self._model.tensors())}

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        # Arrays keep the pages that they are over.
        self._model = None

    def _find(self, name):
        if self._model is None:
            raise ValueError("the file is closed")
        if name not in self._tensors:
            raise KeyError(f"the file has no tensor {name!r}")
        return self._tensors[name]

    def keys(self):
        """Names, sorted as the original has them."""
        return sorted(self._tensors)

    def offset_keys(self):
        """Names, in the order of their bytes."""
        return list(self._tensors)

    def metadata(self):
        """The strings of __metadata__; None without any."""
        if self._model is None:
            raise ValueError("the file is closed")
        return dict(self._model.metadata()) or None

    def get_tensor(self, name):
        """The tensor as an array over the file's pages, for reading."""
        index, dtype, _, _ = self._find(name)
        dtype = dtype_of(dtype)
        return _array(self._model.view(index, None, dtype.alignment), dtype)

    def get_slice(self, name):
        """What an index of is a part of the tensor: get_slice(name)[2:4]."""
        return Slice(self._model, *self._find(name))


class Slice:
    """A tensor of which an index takes a part: in place where its bytes lie together."""

    def __init__(self, model, index, dtype, shape, nbytes):
        self._model, self._index, self._name, self._shape = model, index, dtype, shape

    def get_shape(self):
        return list(self._shape)

    def get_dtype(self):
        return self._name

    def __getitem__(self, index):
        if not isinstance(index, tuple):
            index = (index,)
        if Ellipsis in index:
            at = index.index(Ellipsis)
            fill = len(self._shape) - len(index) + 1
            index = index[:at] + (slice(None),) * fill + index[at + 1:]
        if len(index) > len(self._shape):
            raise IndexError(f"{len(index)} indices of {len(self._shape)} dimensions")
        pairs, rest = [], []
        for one, size in zip(index, self._shape):
            if isinstance(one, slice):
                begin, end, step = one.indices(size)
                if step != 1:
                    raise ValueError("a slice has the step 1 here: index the array that it gives")
                pairs.append((begin, max(begin, end)))
                rest.append(slice(None))
            else:
                at = one.__index__()
                if not -size <= at < size:
                    raise IndexError(f"index {at} of a dimension of {size}")
                pairs.append((at % size, at % size + 1))
                rest.append(0)
        dtype = dtype_of(self._name)
        return _array(self._model.view(self._index, pairs, dtype.alignment), dtype)[tuple(rest)]


def load_file(filename, copy=False):
    """All tensors of a file: a dict of arrays over its pages, or of copies that may be written.

    >>> try:
    ...     load_file("no.such.file")
    ... except FileNotFoundError as error:
    ...     print(error.filename or error.strerror)
    no.such.file: opening it: ENOENT (No such file or directory)
    """
    tensors = {}
    with safe_open(filename) as file:
        for name, (index, dtype, shape, _) in file._tensors.items():
            if copy:
                tensors[name] = numpy.empty(shape, dtype_of(dtype))
                if tensors[name].size:
                    flat = tensors[name].reshape(-1).view("uint8")
                    file._model.read(index, flat)
            else:
                tensors[name] = file.get_tensor(name)
    return tensors
