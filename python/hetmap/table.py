# SPDX-License-Identifier: MIT
"""Columns of Arrow, Parquet and CSV files, for pyarrow, polars and numpy without a copy.

Needs libhetmap-table, which is opened when this module is imported: the rest of the package does
without it.
"""

import os
from collections.abc import Sequence
from typing import NamedTuple

from . import _hetmap
from ._hetmap import Device

LIBRARY = "libhetmap-table.so.0"

if not hasattr(_hetmap, "table_load"):
    raise ImportError("hetmap was built where the header of libhetmap-table was not: install "
                      "libhetmap-table with its header hetmap/table.h, and build hetmap again")
try:
    _hetmap.table_load(LIBRARY)
except ImportError as _error:
    raise ImportError(f"hetmap.table needs libhetmap-table, which can't be opened ({_error}): "
                      "build and install it where libarrow and libparquet are") from None

_FORMATS = {None: 0, "arrow": 1, "stream": 2, "parquet": 3, "csv": 4}
_READ, _CHECK, _DICTIONARY, _NO_HEADER, _SHAREABLE, _CSV_WHOLE = 1, 2, 4, 8, 16, 32
_APPEND, _SYNC = 1, 2
# Types of the C data interface that numpy has, too.
_DTYPES = {"c": "int8", "C": "uint8", "s": "int16", "S": "uint16", "i": "int32", "I": "uint32",
           "l": "int64", "L": "uint64", "e": "float16", "f": "float32", "g": "float64",
           "tdD": "int32", "tdm": "datetime64[ms]", "tts": "int32", "ttm": "int32",
           "ttu": "int64", "ttn": "int64", "tDs": "timedelta64[s]", "tDm": "timedelta64[ms]",
           "tDu": "timedelta64[us]", "tDn": "timedelta64[ns]"}
_UNITS = {"tss": "s", "tsm": "ms", "tsu": "us", "tsn": "ns"}


def _dtype_of(kind):
    import numpy
    if kind[:3] in _UNITS and kind[3:4] == ":":
        return numpy.dtype(f"datetime64[{_UNITS[kind[:3]]}]")
    if kind not in _DTYPES:
        raise TypeError(f"elements of the type {kind!r} are none of numpy's: export the column")
    return numpy.dtype(_DTYPES[kind])


class Field(NamedTuple):
    """A column, as the files describe it. `format` is its type in the Arrow C data interface."""

    name: str
    type: str
    format: str
    nullable: bool
    bits: int
    children: int
    dictionary: bool
    in_place: bool
    why: str


class Group(NamedTuple):
    """A row group of Parquet, or a record batch of Arrow; None: not known before it is read."""

    file: int
    in_file: int
    first_row: "int | None"
    rows: "int | None"
    stored: int
    skipped: bool


class Chunk:
    """A column in one group. pyarrow.array() takes it without a copy.

    `facts` has the rows, the missing values, the addresses, and whether, and why, the chunk is
    used where the file has it.
    """

    def __init__(self, chunk, field):
        self._chunk, self.field, self.facts = chunk, field, chunk.query()

    def __len__(self):
        return self.facts["rows"]

    def __arrow_c_array__(self, requested_schema=None):
        return self._chunk.array()

    def __arrow_c_device_array__(self, requested_schema=None, **more):
        return self._chunk.device_array()

    def numpy(self) -> "numpy.ndarray":  # noqa: F821
        """The values over the chunk's memory, for reading; those that are missing are any.

        A launch takes the array: its bytes are in a map.
        """
        import numpy
        dtype, offset = _dtype_of(self.field.format), self.facts["offset"]
        if not len(self):
            return numpy.empty(0, dtype)
        array = numpy.frombuffer(self._chunk, dtype, len(self), offset * dtype.itemsize)
        return array.astype("datetime64[D]") if self.field.format == "tdD" else array


class Column(Sequence):
    """A column that is ready for use: a sequence of its Chunks."""

    def __init__(self, column, field):
        self._column, self.field, self.facts = column, field, column.query()

    def __len__(self):
        return self.facts["chunks"]

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        index = index.__index__()
        if not -len(self) <= index < len(self):
            raise IndexError(f"chunk {index} of {len(self)}")
        return Chunk(self._column.chunk(index % len(self)), self.field)

    @property
    def rows(self) -> int:
        return self.facts["rows"]

    def numpy(self) -> "numpy.ndarray":  # noqa: F821
        """All values: over the memory of the only chunk, or a copy of several."""
        import numpy
        chunks = [chunk.numpy() for chunk in self]
        return chunks[0] if len(chunks) == 1 else numpy.concatenate(
            chunks or [numpy.empty(0, _dtype_of(self.field.format))])


class Table:
    """Files as one table, as open() gives it: table[name] is a Column.

    pyarrow.table(), polars.DataFrame() and DuckDB take it by the Arrow C stream interface. It is no
    Mapping, which polars would take as a dict of columns.
    """

    def __init__(self, table):
        self._table = table
        self.fields = [Field(*row) for row in table.fields()]
        self._numbers = {}
        for i, field in enumerate(self.fields):
            self._numbers.setdefault(field.name, i)

    def __repr__(self):
        facts = self.facts
        return (f"<hetmap.table.Table of {len(self.fields)} columns and {facts['rows']} rows: "
                f"{facts['format']}>")

    def __iter__(self):
        return iter(self._numbers)

    def keys(self):
        """The names of the columns."""
        return self._numbers.keys()

    def __len__(self):
        return len(self._numbers)

    def __contains__(self, name):
        return name in self._numbers

    def __getitem__(self, name) -> Column:
        if name not in self._numbers:
            raise KeyError(f"the table has no column {name!r}")
        number = self._numbers[name]
        return Column(self._table.column(number), self.fields[number])

    @property
    def facts(self) -> dict:
        """Format, rows, groups, and the bytes that were read, decoded and used in place so far."""
        return self._table.query()

    @property
    def groups(self) -> "list[Group]":
        return [Group(*row) for row in self._table.groups()]

    def __arrow_c_schema__(self):
        return self._table.schema()

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.stream()

    def __arrow_c_device_stream__(self, requested_schema=None, **more):
        return self._table.device_stream()

    def to_pyarrow(self) -> "pyarrow.Table":  # noqa: F821
        """A pyarrow.Table over the same memory."""
        import pyarrow
        return pyarrow.table(self)

    def to_polars(self) -> "polars.DataFrame":  # noqa: F821
        """A polars.DataFrame; polars itself copies types that it stores in another way."""
        import polars
        return polars.DataFrame(self)

    def write(self, path, format: "str | None" = None, codec: "str | None" = None, *,
              level: int = 0, group_rows: int = 0, encoding: "str | None" = None,
              append: bool = False, sync: bool = False) -> dict:
        """Writes the table into a file, or behind the rows of one: "parquet", "arrow", "stream"."""
        return self._table.write(path, _APPEND * append | _SYNC * sync, _format_of(format), level,
                                 codec, group_rows, encoding)


def _format_of(name):
    if name not in _FORMATS:
        raise ValueError(f"{name!r} is no format: {[name for name in _FORMATS if name]}")
    return _FORMATS[name]


def open(paths, columns=None, filters=(), *, format: "str | None" = None,
         device: "Device | None" = None, read: bool = False, check: bool = False,
         dictionary: bool = False, header: bool = True, shareable: bool = False,
         threads: int = 0, limit: int = 0, separator: str = ",", whole: bool = False) -> Table:
    """Opens files of Arrow, Parquet or CSV, or a folder of them, as one table.

    `columns` are the names to have. `filters` are conditions (column, compare, value) that all
    must hold, with == != < <= > >= and "null", "not null": row groups of Parquet that have no such
    row are not read. With `check=True` every offset and string is looked at. With `whole=True` the
    types of CSV are those of all rows, and not of the first 1 MiB.
    """
    if isinstance(paths, (str, bytes, os.PathLike)):
        paths = [paths]
    flags = (_READ * read | _CHECK * check | _DICTIONARY * dictionary | _NO_HEADER * (not header) |
             _SHAREABLE * shareable | _CSV_WHOLE * whole)
    filters = tuple((column, compare, None if value is None else str(value))
                    for column, compare, value in filters)
    return Table(_hetmap.Table(tuple(os.fsencode(path) for path in paths), tuple(columns or ()),
                               filters, device, flags, _format_of(format), threads, limit,
                               separator))


def from_arrow(source) -> Table:
    """A Table of another library's: anything with __arrow_c_stream__ or __arrow_c_array__.

    Buffers that are in maps stay where they are; others are copied into maps when a column of
    them is asked for.
    """
    if hasattr(source, "__arrow_c_stream__"):
        return Table(_hetmap.Table.from_stream(source.__arrow_c_stream__()))
    return Table(_hetmap.Table.from_array(*source.__arrow_c_array__()))
