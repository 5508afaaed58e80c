# SPDX-License-Identifier: MIT
"""numpy.memmap over a Map: the same arguments and attributes, and a close()."""

import operator
import os
import time
from contextlib import nullcontext

import numpy

from ._objects import Buffer

_PRIVATE, _READ_ONLY, _PUBLISH = 1, 4, 8
_READ, _WRITE = 1, 2
# Rows taken at once, and the time of one from which on they come from storage.
_ROWS, _FIRST_ROWS = 1024, 32
_SLOW_ROW, _SLOW_PAGE = 10e-6, 2e-6
_MODES = {"readonly": "r", "copyonwrite": "c", "readwrite": "r+", "write": "w+"}


class memmap(numpy.ndarray):
    """An array over a file: memmap(filename, dtype=uint8, mode="r+", offset=0, shape=None,
    order="C").

    A drop-in for numpy.memmap: the modes r, r+, w+ and c, flush(), and the attributes filename,
    offset and mode. In addition it has close(), and `map`, the hetmap.Map with prefetch(),
    advise() and lock().

    >>> import hetmap, numpy, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers")
    >>> with hetmap.memmap(path, "float32", "w+", shape=(2, 3)) as array:
    ...     array[:] = 5
    >>> float(numpy.fromfile(path, "float32").sum())
    30.0
    """

    __array_priority__ = -100.0

    def __new__(subtype, filename, dtype=numpy.uint8, mode="r+", offset=0, shape=None, order="C",
                *, publish=False):
        mode = _MODES.get(mode, mode)
        if mode not in ("r", "c", "r+", "w+"):
            raise ValueError(f"mode must be one of {[*_MODES.values(), *_MODES]} (got {mode!r})")
        if mode == "w+" and shape is None:
            raise ValueError("shape must be given if mode == 'w+'")
        dtype = numpy.dtype(dtype)
        if dtype.hasobject:
            raise TypeError("addresses of Python objects can't lie in a file")
        if hasattr(filename, "read"):
            context = nullcontext(filename)
        else:
            how = "rb" if mode in "rc" else mode + "b"
            context = open(os.fspath(filename), how)
        with context as file:
            map, at, shape = _map_file(file, dtype, mode, offset, shape, publish)
        if map is None:
            self = numpy.ndarray.__new__(subtype, shape, dtype, order=order)
        else:
            flat = numpy.frombuffer(map, numpy.uint8)
            self = numpy.ndarray.__new__(subtype, shape, dtype, flat, at, order=order)
        self._take(map, mode, operator.index(offset), _name_of(filename))
        return self

    def _take(self, map, mode, offset, filename):
        self._map, self.mode, self.offset, self.filename = map, mode, offset, filename

    def __array_finalize__(self, parent):
        if isinstance(parent, memmap) and numpy.may_share_memory(self, parent):
            self._take(parent._map, parent.mode, parent.offset, parent.filename)
        else:
            self._take(None, None, None, None)

    @property
    def map(self):
        """The hetmap.Map of the file's pages; None for an array that is not in a file."""
        return self._map

    @property
    def closed(self):
        """True after close(): what was stored since is lost with the last array."""
        return self._map is not None and self._map.closed

    def flush(self):
        """Writes the changes to the file, and waits for that."""
        if self._map is not None and self.mode in ("r+", "w+"):
            self._map.sync()

    def close(self):
        """Flushes, and gives the pages up with the last array over them: never under one."""
        if self._map is not None and not self._map.closed:
            try:
                self.flush()
            finally:
                self._map.close(deferred=True)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __array_wrap__(self, array, context=None, return_scalar=False):
        array = super().__array_wrap__(array, context)
        # What a function made is in no file; a memmap as its output stays one.
        if self is array or type(self) is not memmap:
            return array
        if array.shape == () and (return_scalar or numpy.lib.NumpyVersion(numpy.__version__) <
                                  "2.0.0"):
            return array[()]
        return array.view(numpy.ndarray)

    def __getitem__(self, index):
        rows = self._rows_of(index)
        if rows is not None:
            return self._take_rows(rows)
        result = super().__getitem__(index)
        if type(result) is memmap and result._map is None:
            return result.view(numpy.ndarray)
        return result

    def _rows_of(self, index):
        """The numbers of rows, where an index is a list of many rows; else None."""
        if not isinstance(index, (list, numpy.ndarray)) or len(self.shape) == 0:
            return None
        if self._map is None or self._map.closed or min(self.strides) < 0:
            return None
        rows = numpy.asarray(index)
        if rows.ndim != 1 or rows.dtype.kind not in "iu" or len(rows) <= 8 * _FIRST_ROWS:
            return None
        # numpy tells of those that are out of bounds.
        if not -len(self) <= rows.min() <= rows.max() < len(self):
            return None
        rows = rows.astype("int64")
        rows[rows < 0] += len(self)
        return rows

    def _take_rows(self, rows):
        """Rows in parts: those of the next part are announced while storage is slow.

        A fault waits for its own page; announced pages come at once.
        """
        plain = self.view(numpy.ndarray)
        taken = numpy.empty((len(rows), *self.shape[1:]), self.dtype)
        nbytes = self.itemsize + sum((n - 1) * step
                                     for n, step in zip(self.shape[1:], self.strides[1:]) if n)
        offsets = rows * self.strides[0] + (plain.ctypes.data - self._map.address)
        slow = _SLOW_ROW + _SLOW_PAGE * (nbytes / 4096)
        at, end, announced = 0, _FIRST_ROWS, _FIRST_ROWS
        # The first ones always are: a fault on a cold page would read all around it.
        self._announce(offsets[:end], nbytes)
        while at < len(rows):
            begin = time.perf_counter()
            # Checked before: "raise" would copy once more.
            plain.take(rows[at:end], 0, taken[at:end], "clip")
            if time.perf_counter() - begin > slow * (end - at) or announced > end:
                # The next part, and the one after it: storage is never without work.
                announced = max(announced, end)
                last = min(end + 2 * _ROWS, len(rows))
                if last > announced:
                    self._announce(offsets[announced:last], nbytes)
                announced = last
            at, end = end, min(end + _ROWS, len(rows))
        return taken

    def _announce(self, offsets, nbytes):
        try:
            self._map.announce(offsets, nbytes)
        except OSError:
            # Advice only: without it the rows come by faults.
            pass

    def __reduce__(self):
        # A copy, as numpy.memmap has it.
        return numpy.array(self).__reduce__()


def _name_of(filename):
    if hasattr(filename, "read"):
        filename = getattr(filename, "name", None)
        return os.path.abspath(filename) if isinstance(filename, str) else None
    return os.path.abspath(os.fspath(filename))


def _map_file(file, dtype, mode, offset, shape, publish):
    """The map, where in it the array begins, and the array's shape."""
    file.seek(0, 2)
    length, offset = file.tell(), operator.index(offset)
    if offset < 0:
        raise ValueError(f"offset must not be negative (got {offset})")
    if shape is None:
        if (length - offset) % dtype.itemsize or length < offset:
            raise ValueError("Size of the available data is not a multiple of the data-type size.")
        shape = ((length - offset) // dtype.itemsize,)
    elif hasattr(shape, "__iter__") and getattr(shape, "shape", None) != ():
        shape = tuple(operator.index(n) for n in shape)
    else:
        shape = (operator.index(shape),)
    items = 1
    for n in shape:
        if n < 0:
            raise ValueError(f"a dimension must not be negative (got {shape})")
        items *= n
    end = offset + items * dtype.itemsize
    if mode in ("w+", "r+") and length < end:
        # numpy's rule: the file is made as long as the array.
        file.seek(end - 1, 0)
        file.write(b"\0")
        file.flush()
        length = end
    if end > length:
        raise ValueError("mmap length is greater than file size")
    if end == offset:
        return None, 0, shape
    start = offset - offset % os.sysconf("SC_PAGE_SIZE")
    flags = {"r": _READ_ONLY, "c": _PRIVATE}.get(mode, _PUBLISH if publish else 0)
    buffer = Buffer.from_file(file.fileno(), start, end - start, flags)
    map = buffer.map(0, 0, _READ if mode == "r" else _READ | _WRITE)
    buffer.close()
    return map, offset - start, shape
