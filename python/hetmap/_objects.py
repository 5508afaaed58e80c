# SPDX-License-Identifier: MIT
"""Device, Buffer and Map: the C objects, with what is as fast in Python."""

from . import _hetmap

_READ, _WRITE = 1, 2
_numpy = None


def _load_numpy():
    global _numpy
    import numpy
    _numpy = numpy
    return numpy


class _Closing:
    """The end of a `with` block closes."""

    __slots__ = ()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


class Device(_hetmap.Device, _Closing):
    """A device by its name: Device("host"), Device("soft:0"); Device() is HETMAP_DEVICE's.

    >>> import hetmap
    >>> with hetmap.Device("host") as device:
    ...     device.query()["name"]
    'host'
    """

    __slots__ = ("__weakref__",)

    def __repr__(self):
        return "<hetmap.Device closed>" if self.closed else f"<hetmap.Device {self.name}>"

    @property
    def name(self) -> str:
        """The name that opens the device."""
        return self.query()["name"]

    def __reduce__(self):
        return Device, (self.name,)


class Buffer(_hetmap.Buffer, _Closing):
    """Bytes in a device: Buffer(device, size, max_size=0, name=None, flags=0, place=0).

    >>> import hetmap
    >>> buffer = hetmap.Buffer(hetmap.Device("host"), 4096, max_size=1 << 20, name="grows")
    >>> buffer.resize(8192)
    >>> buffer.size
    8192
    """

    __slots__ = ("__weakref__",)

    @property
    def size(self) -> int:
        """Bytes now."""
        return self.query()["size"]

    def __repr__(self):
        if self.closed:
            return "<hetmap.Buffer closed>"
        return f"<hetmap.Buffer of {self.size} bytes>"

    def map(self, offset: int = 0, length: int = 0, access: int = -1, flags: int = 0) -> "Map":
        """A Map of it, or of a part."""
        return Map(self, offset, length, access, flags)

    def __reduce__(self):
        raise TypeError("a buffer is pickled by multiprocessing only, which hands its descriptor "
                        "over; use send() and receive() elsewhere")


class Map(_hetmap.Map, _Closing):
    """A buffer at an address: Map(buffer, offset=0, length=0, access=-1, flags=0).

    It has the buffer protocol, and so numpy, memoryview and torch take it as it is. The access
    -1 is all that the buffer allows; length 0 reaches to the buffer's end.

    >>> import hetmap
    >>> map = hetmap.Buffer(hetmap.Device("host"), 4096).map()
    >>> view = memoryview(map).cast("I")
    >>> view[1] = 7
    >>> map.close()
    Traceback (most recent call last):
    BufferError: live views of the map: 1; release them, or pass deferred=True
    >>> map.close(deferred=True)
    >>> view[1], map.closed
    (7, True)
    """

    __slots__ = ("__weakref__",)

    def __exit__(self, kind, exception, trace):
        # The frames of an exception keep their arrays: a BufferError would hide it.
        self.close(deferred=kind is not None)

    def __repr__(self):
        if self.closed:
            return "<hetmap.Map closed>"
        return f"<hetmap.Map of {self.nbytes} bytes at {self.address:#x}>"

    def __dlpack_device__(self) -> "tuple[int, int]":
        return 1, 0

    def array(self, dtype="uint8", shape: "int | tuple[int, ...] | None" = None, offset: int = 0,
              order: str = "C") -> "numpy.ndarray":  # noqa: F821
        """The bytes as a numpy array, which keeps the map open.

        >>> import hetmap
        >>> map = hetmap.Buffer(hetmap.Device("host"), 4096).map()
        >>> x = map.array("float32", (2, 3))
        >>> x += 1
        >>> float(x.sum())
        6.0
        """
        numpy = _numpy or _load_numpy()
        if shape is None:
            return numpy.frombuffer(self, dtype, -1, offset)
        dtype = numpy.dtype(dtype)
        if dtype.hasobject:
            raise TypeError("addresses of Python objects can't lie in a map")
        # Of an array over the map, as ndarray() alone would not keep a view of it.
        return numpy.ndarray(shape, dtype, numpy.frombuffer(self, "uint8"), offset, order=order)

    def cpu(self, write: bool = False, offset: int = 0,
            length: "int | None" = None) -> "Bracket":
        """A bracket: `with map.cpu(write=True): ...` touches the bytes by the CPU.

        Its begin waits for work of accelerators; its end raises DeviceLost or FileCut where the
        bytes were lost meanwhile.

        >>> import hetmap
        >>> map = hetmap.Buffer(hetmap.Device("host"), 4096).map()
        >>> with map.cpu(write=True) as view:
        ...     view[0] = 1
        """
        return Bracket(self, offset, length, _READ | _WRITE if write else _READ)

    def __reduce__(self):
        raise TypeError("a map is pickled by multiprocessing only, which hands its descriptor "
                        "over; use Buffer.send() and Buffer.receive() elsewhere")


class Bracket:
    """What Map.cpu() returns."""

    __slots__ = ("_map", "_range", "_view")

    def __init__(self, map, offset, length, access):
        if length is None:
            length = max(map.nbytes - offset, 0)
        self._map, self._range, self._view = map, (offset, length, access), None

    def __enter__(self) -> memoryview:
        offset, length, access = self._range
        self._map.begin_cpu(*self._range)
        try:
            view = memoryview(self._map)[offset:offset + length]
        except BaseException:
            self._map.end_cpu(*self._range)
            raise
        self._view = view if access & _WRITE else view.toreadonly()
        return self._view

    def __exit__(self, kind, exception, trace):
        self._view = None
        self._map.end_cpu(*self._range)


def from_dlpack(x, device: "Device | None" = None) -> Map:
    """A Map with a copy of the elements of `x`, any object with __dlpack__; needs numpy.

    Memory of others can't move into a device without a copy; numpy.from_dlpack(map) and
    torch.from_dlpack(map) take the bytes of a Map without one.
    """
    numpy = _load_numpy()
    source = numpy.ascontiguousarray(numpy.from_dlpack(x))
    map = Buffer(device or Device("host"), max(source.nbytes, 1)).map()
    if source.nbytes:
        map.array(source.dtype, source.shape)[...] = source
    return map

