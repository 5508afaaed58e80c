# SPDX-License-Identifier: MIT
"""NVIDIA's devices, by their driver. Experimental: it ran on a fake of the driver only.

Device("cuda:0") is a device, register() makes a Map's pages one that it reads and writes,
Buffer has bytes in its memory, and hetmap.pieces.open(path).to("cuda:0") brings a model there.
libcuda.so.1 is opened at the first use.
"""

import ctypes
import errno
import sys
import warnings
import weakref
from collections.abc import Mapping
from ctypes import byref, c_int, c_size_t, c_ulonglong, c_void_p
from typing import NamedTuple

import numpy

from . import _cuda_driver as cu
from ._errors import DeviceLost, Error, LessWarning
from ._objects import Device as HostDevice

# So much at a time, so that Ctrl-C is heard in between.
_PART = 64 << 20
_ALIGNMENT = 256
_driver = None


def open_driver(path=cu.LIBRARY) -> None:
    """Opens the driver's library by another name than libcuda.so.1, before its first use."""
    global _driver
    _driver = cu.Driver(path)


def _get_driver():
    if _driver is None:
        open_driver()
    return _driver


def devices() -> "list[str]":
    """The names that Device() takes; an empty list where no driver, or no device, is found."""
    try:
        n = _get_driver().get("cuDeviceGetCount", c_int)
    except Error as error:
        if error.errno != errno.ENODEV:
            raise
        return []
    return [f"cuda:{i}" for i in range(n)]


def _number_of(name):
    kind, _, number = name.partition(":")
    if kind != "cuda" or not (number or "0").isdigit():
        raise ValueError(f"{name!r} is no device of CUDA: \"cuda:0\" is the first one")
    return int(number or 0)


class _Closing:
    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


class Device(_Closing):
    """A device by its name, with the context that CUDA's other users of the process have, too."""

    def __init__(self, name: str = "cuda:0"):
        self.name, self._context = f"cuda:{_number_of(name)}", None
        self._driver = driver = _get_driver()
        self._device = driver.get("cuDeviceGet", c_int, _number_of(name), what=f"opening {name}")
        self._context = driver.get("cuDevicePrimaryCtxRetain", c_void_p, self._device,
                                   what=f"opening {name}")
        self._objects = weakref.WeakSet()
        self._end = weakref.finalize(self, _release, driver, self._device)
        # The driver ends with the process, after what uses the context.
        self._end.atexit = False

    def __repr__(self):
        return f"<hetmap.cuda.Device {self.name}{' closed' if self.closed else ''}>"

    @property
    def closed(self) -> bool:
        return self._context is None

    def close(self) -> None:
        """Gives the context up. BufferError while buffers and registrations of it are open."""
        if self._objects:
            raise BufferError(f"open buffers and registrations of {self.name}: "
                              f"{len(self._objects)}; close them")
        self._context = None
        self._end()

    def _call(self, name, *arguments, what=None):
        """A call with the device's context as this thread's."""
        if self._context is None:
            raise ValueError(f"{self.name} is closed")
        self._driver.call("cuCtxPushCurrent_v2", self._context, what=what)
        try:
            self._driver.call(name, *arguments, what=what)
        finally:
            self._driver.call("cuCtxPopCurrent_v2", byref(c_void_p()))

    def _get(self, name, kind, *arguments, what=None):
        value = kind()
        self._call(name, byref(value), *arguments, what=what)
        return value.value

    def _attribute(self, attribute):
        return self._driver.get("cuDeviceGetAttribute", c_int, attribute, self._device)

    def query(self) -> dict:
        """What the device is, and what its driver can do."""
        text, free, total = ctypes.create_string_buffer(256), c_size_t(), c_size_t()
        self._driver.call("cuDeviceGetName", text, len(text), self._device)
        self._call("cuMemGetInfo_v2", byref(free), byref(total))
        return {"name": self.name, "description": text.value.decode(errors="replace"),
                "memory_total": total.value, "memory_free": free.value,
                "compute": (self._attribute(cu.MAJOR), self._attribute(cu.MINOR)),
                "driver": self._driver.get("cuDriverGetVersion", c_int),
                "resizes": bool(self._attribute(cu.HAS_VMM)),
                "registers": bool(self._attribute(cu.CAN_REGISTER)),
                "registers_read_only": bool(self._attribute(cu.CAN_REGISTER_READ_ONLY))}

    def _location(self):
        return cu.Location(cu.ON_DEVICE, self._device)


def _release(driver, device):
    if driver.alive:
        driver.call("cuDevicePrimaryCtxRelease_v2", device)


class Registration(_Closing):
    """What register() returns: pages of a map that the device reads and writes in place.

    `pointer` is their address on the device. A view of the map is held until close(), so that
    nothing moves or ends the map.
    """

    def __init__(self, device, map):
        self._view = view = memoryview(map)
        self._device, self.nbytes = device, view.nbytes
        self._address = numpy.frombuffer(view, "uint8").ctypes.data
        flags = cu.PORTABLE | cu.DEVICE_MAP
        if view.readonly:
            if not device._attribute(cu.CAN_REGISTER_READ_ONLY):
                raise Error(errno.EOPNOTSUPP, f"{device.name} registers no read-only pages: map "
                            "them for writing, too, or copy them")
            flags |= cu.READ_ONLY
        device._call("cuMemHostRegister_v2", self._address, self.nbytes, flags,
                     what=f"registering {self.nbytes} bytes at {self._address:#x}")
        try:
            self.pointer = device._get("cuMemHostGetDevicePointer_v2", c_ulonglong, self._address,
                                       0)
        except BaseException:
            device._call("cuMemHostUnregister", self._address)
            raise
        device._objects.add(self)

    def close(self) -> None:
        """Ends the registration. Work of the device on the pages must be done."""
        if self._view is None:
            return
        if self._device._driver.alive:
            try:
                self._device._call("cuMemHostUnregister", self._address)
            except DeviceLost:
                pass  # with all that it had
        self._device._objects.discard(self)
        self._view, self.pointer = None, 0

    @property
    def closed(self) -> bool:
        return self._view is None

    def __del__(self, _ending=sys.is_finalizing):
        if getattr(self, "pointer", 0) and not _ending():
            self.close()


def register(map, device: "Device | str" = "cuda:0") -> Registration:
    """Pins the pages of a Map, or of any buffer, and gives the device their addresses."""
    return Registration(_device_of(device), map)


def _device_of(device):
    return Device(device) if isinstance(device, str) else device


class Pointer(NamedTuple):
    """What the driver knows of an address. `kind` is host, device, array, or unified."""

    kind: str
    device: "str | None"
    device_pointer: int
    host_pointer: int
    managed: bool
    start: int
    nbytes: int


_KINDS = {1: "host", 2: "device", 3: "array", 4: "unified"}


def attributes(address: int) -> "Pointer | None":
    """What the driver knows of an address of the process or of a device; None: nothing."""
    wanted = {cu.MEMORY_TYPE: c_int(), cu.DEVICE_POINTER: c_ulonglong(),
              cu.HOST_POINTER: c_ulonglong(), cu.IS_MANAGED: c_int(), cu.ORDINAL: c_int(-2),
              cu.RANGE_START: c_ulonglong(), cu.RANGE_SIZE: c_size_t()}
    names = (c_int * len(wanted))(*wanted)
    places = (c_void_p * len(wanted))(*(ctypes.addressof(value) for value in wanted.values()))
    _get_driver().call("cuPointerGetAttributes", len(wanted), names, places, address,
                       what=f"asking for {address:#x}")
    kind, at_device, at_host, managed, ordinal, start, nbytes = (
        value.value for value in wanted.values())
    if kind not in _KINDS:
        return None
    return Pointer(_KINDS[kind], f"cuda:{ordinal}" if ordinal >= 0 else None, at_device, at_host,
                   bool(managed), start, nbytes)


class Buffer(_Closing):
    """Bytes in a device's memory that grow and shrink at one address.

    Buffer(device, size, max_size=0): addresses are reserved for `max_size`, and memory is taken
    for `size`, in whole granules (2 MiB, as a rule). array() makes views, which torch and others
    take by __cuda_array_interface__.
    """

    def __init__(self, device: "Device | str", size: int, max_size: int = 0):
        self._device = device = _device_of(device)
        if size < 1:
            raise ValueError(f"a buffer has a byte at least (got {size})")
        self._memory = cu.Allocation(cu.PINNED, 0, device._location())
        self._granule = device._get("cuMemGetAllocationGranularity", c_size_t,
                                    byref(self._memory), 0)
        self._reserved = self._granules(max(size, max_size))
        # (offset, size, handle), in the order of the addresses
        self._parts, self.size, self.pointer, self._arrays = [], 0, 0, weakref.WeakSet()
        self.max_size = max(size, max_size)
        self.pointer = device._get("cuMemAddressReserve", c_ulonglong, self._reserved, 0, 0, 0,
                                   what=f"reserving addresses for {self._reserved} bytes")
        try:
            self._grow(self._granules(size))
        except BaseException:
            device._call("cuMemAddressFree", self.pointer, self._reserved)
            self.pointer = 0
            raise
        self.size = size
        device._objects.add(self)

    def _granules(self, size):
        return -(-size // self._granule) * self._granule

    @property
    def _taken(self):
        return sum(size for _, size, _ in self._parts)

    def __repr__(self):
        return (f"<hetmap.cuda.Buffer of {self.size} bytes on {self._device.name}>"
                if self.pointer else "<hetmap.cuda.Buffer closed>")

    @property
    def closed(self) -> bool:
        return not self.pointer

    @property
    def device(self) -> Device:
        return self._device

    def _grow(self, upto):
        """Memory for the addresses up to there; a call that fails takes none."""
        offset, device = self._taken, self._device
        size, at = upto - offset, self.pointer + offset
        if size <= 0:
            return
        handle = device._get("cuMemCreate", c_ulonglong, size, byref(self._memory), 0,
                             what=f"{size} bytes of {device.name}")
        try:
            device._call("cuMemMap", at, size, 0, handle, 0)
        except BaseException:
            device._call("cuMemRelease", handle)
            raise
        try:
            access = cu.Access(device._location(), cu.READ_WRITE)
            device._call("cuMemSetAccess", at, size, byref(access), 1)
        except BaseException:
            self._unmap(offset, size, handle)
            raise
        self._parts.append((offset, size, handle))

    def _unmap(self, offset, size, handle):
        self._device._call("cuMemUnmap", self.pointer + offset, size)
        self._device._call("cuMemRelease", handle)

    def resize(self, size: int) -> None:
        """Grows or shrinks at the same address, up to max_size; arrays keep their length.

        A shrink gives memory back in the parts in which it was taken: what is left of one stays
        taken. BufferError while an array reaches behind the new end.
        """
        self._check()
        if not 0 < size <= self.max_size:
            raise ValueError(f"{size} bytes: from 1 to {self.max_size}, which max_size reserved")
        last = max((array._end for array in self._arrays), default=0)
        if last > size:
            raise BufferError(f"live arrays reach to byte {last}: release them")
        self._grow(self._granules(size))
        while self._parts and self._parts[-1][0] >= self._granules(size):
            self._unmap(*self._parts[-1])
            self._parts.pop()
        self.size = size

    def _check(self, offset=0, nbytes=0):
        if self.closed:
            raise ValueError("the buffer is closed")
        if not 0 <= offset <= offset + nbytes <= self.size:
            raise IndexError(f"bytes {offset} to {offset + nbytes} of a buffer of {self.size}")

    def array(self, dtype="uint8", shape: "int | tuple[int, ...] | None" = None,
              offset: int = 0, order: str = "C") -> "Array":
        """A view of the bytes, for torch.as_tensor() and others."""
        self._check()
        dtype = numpy.dtype(dtype)
        if shape is None:
            shape = (self.size - offset) // dtype.itemsize
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        array = Array(self, dtype, shape, offset, order)
        self._check(offset, array.nbytes)
        self._arrays.add(array)
        return array

    def write(self, data, offset: int = 0) -> None:
        """Copies bytes of the process there; Ctrl-C ends a long copy."""
        array = data if isinstance(data, numpy.ndarray) else numpy.frombuffer(data, "uint8")
        if not (array.flags.c_contiguous or array.flags.f_contiguous):
            raise BufferError("the array has gaps: copy it first")
        self._check(offset, array.nbytes)
        if array.nbytes:
            self._copy("cuMemcpyHtoDAsync_v2", self.pointer + offset, array.ctypes.data,
                       array.nbytes)

    def read_into(self, array: numpy.ndarray, offset: int = 0) -> None:
        """Copies bytes of the buffer into an array of the process."""
        if not (array.flags.c_contiguous and array.flags.writeable):
            raise BufferError("the array must be contiguous, and may be written")
        self._check(offset, array.nbytes)
        if array.nbytes:
            self._copy("cuMemcpyDtoHAsync_v2", array.ctypes.data, self.pointer + offset,
                       array.nbytes)

    def _copy(self, call, to, source, nbytes):
        with _Stream(self._device) as stream:
            for at in range(0, nbytes, _PART):
                self._device._call(call, to + at, source + at, min(_PART, nbytes - at),
                                   stream.handle)
                stream.wait()

    def close(self) -> None:
        """Gives memory and addresses back. BufferError while arrays live."""
        if self.closed:
            return
        if self._arrays:
            raise BufferError(f"live arrays over the buffer: {len(self._arrays)}; release them")
        if self._device._driver.alive:
            try:
                while self._parts:
                    self._unmap(*self._parts[-1])
                    self._parts.pop()
                self._device._call("cuMemAddressFree", self.pointer, self._reserved)
            except DeviceLost:
                pass  # with all that it had
        self._device._objects.discard(self)
        self.pointer = self.size = 0

    def __del__(self, _ending=sys.is_finalizing):
        if getattr(self, "pointer", 0) and not _ending():
            self.close()


class Array:
    """A view of a Buffer, which it keeps open; `numpy()` is a copy of it in the process."""

    def __init__(self, buffer, dtype, shape, offset, order):
        self._buffer, self._offset, self.dtype, self.shape = buffer, offset, dtype, shape
        self._order, self.nbytes = order, dtype.itemsize
        for n in shape:
            self.nbytes *= n

    def __repr__(self):
        return f"<hetmap.cuda.Array {self.dtype} {self.shape} on {self._buffer.device.name}>"

    @property
    def _end(self):
        return self._offset + self.nbytes

    @property
    def pointer(self) -> int:
        """The address on the device."""
        return self._buffer.pointer + self._offset

    @property
    def __cuda_array_interface__(self) -> dict:
        kind = self.dtype
        if kind.kind == "V":
            # bfloat16 and the types of 8 bits: their bits, since the interface has no such type.
            kind = numpy.dtype(f"i{kind.itemsize}")
        strides, step = [], self.dtype.itemsize
        for n in self.shape:
            strides.append(step)
            step *= n
        return {"shape": self.shape, "typestr": kind.str, "version": 3,
                "data": (self.pointer if self.nbytes else 0, False),
                "strides": tuple(strides) if self._order == "F" else None}

    def numpy(self) -> numpy.ndarray:
        """A copy of the elements."""
        array = numpy.empty(self.shape, self.dtype, self._order)
        flat = array.reshape(-1, order=self._order).view("uint8")
        self._buffer.read_into(flat, self._offset)
        return array


class _Stream(_Closing):
    def __init__(self, device):
        self._device = device
        self.handle = device._get("cuStreamCreate", c_void_p, 1)

    def wait(self):
        self._device._call("cuStreamSynchronize", self.handle)

    def close(self):
        self._device._call("cuStreamDestroy_v2", self.handle)


class Loaded(Mapping):
    """Arrays by their names, over one Buffer of a device that Pieces.to() filled."""

    def __init__(self, pieces, buffer, places):
        self.buffer, self._pieces, self._places = buffer, pieces, places

    def __getitem__(self, name) -> Array:
        dtype, shape, order = self._pieces._type(name)
        return self.buffer.array(dtype, shape, self._places[name], order)

    def __iter__(self):
        return iter(self._places)

    def __len__(self):
        return len(self._places)


def _places(pieces, names):
    """Where each piece goes, and the bytes of all."""
    places, end = {}, 0
    for name in names:
        places[name] = end
        end = -(-(end + pieces.info(name).nbytes) // _ALIGNMENT) * _ALIGNMENT
    return places, max(end, 1)


def _groups(pieces, names, window):
    """Pieces in the order of loading, so many that they fill a window; one at least."""
    group, nbytes = [], 0
    for name in names:
        size = pieces.info(name).nbytes
        if group and nbytes + size > window:
            yield group
            group, nbytes = [], 0
        group.append(name)
        nbytes += size
    if group:
        yield group


def _pin(device, map):
    """The map's pages registered; where they can't be, copies take longer, which is said."""
    try:
        return Registration(device, map)
    except Error as error:
        warnings.warn(f"pages are not pinned, so that copies are slower: {error}", LessWarning,
                      stacklevel=5)
        return None


class _Copies:
    """Groups of pieces on their way: while one is copied, the next one is read."""

    def __init__(self, pieces, names, buffer, places, stream, progress):
        self._pieces, self._buffer, self._places, self._stream = pieces, buffer, places, stream
        self._progress, self._done = progress, 0
        self._total = sum(pieces.info(name).nbytes for name in names)
        self._map = self._pinned = None
        self._nbytes = 0

    def begin(self, loaded, group):
        device = self._buffer.device
        self._map, self._nbytes = loaded.map, 0
        self._pinned = _pin(device, loaded.map)
        for name in group:
            size = self._pieces.info(name).nbytes
            if size:
                device._call("cuMemcpyHtoDAsync_v2", self._buffer.pointer + self._places[name],
                             loaded.map.address + loaded.offset(name), size, self._stream.handle)
            self._nbytes += size

    def finish(self):
        """Waits for the group that is copied, and gives its memory back; the group's bytes."""
        if self._map is None:
            return 0
        map, pinned, nbytes = self._map, self._pinned, self._nbytes
        self._map = self._pinned = None
        try:
            self._stream.wait()
        finally:
            if pinned:
                pinned.close()
            map.close()
        return nbytes

    def tell(self):
        """Finishes the group, and tells of the progress that it was."""
        nbytes = self.finish()
        self._done += nbytes
        if nbytes and self._progress:
            self._progress(self._done, self._total)


def load(pieces, device="cuda:0", names=None, progress=None, window: int = _PART) -> Loaded:
    """What Pieces.to() does: groups of pieces come into host memory, and go on to the device.

    The process has two groups at most. An exception, that of progress() too, leaves nothing.
    """
    names = list(pieces if names is None else names)
    places, size = _places(pieces, names)
    buffer = Buffer(device, size)
    try:
        with _Stream(buffer.device) as stream:
            copies = _Copies(pieces, names, buffer, places, stream, progress)
            try:
                for group in _groups(pieces, names, window):
                    loaded = pieces.load(HostDevice("host"), group)
                    copies.tell()
                    copies.begin(loaded, group)
                copies.tell()
            finally:
                copies.finish()
    except BaseException:
        buffer.close()
        raise
    return Loaded(pieces, buffer, places)
