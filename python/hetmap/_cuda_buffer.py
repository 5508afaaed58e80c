# SPDX-License-Identifier: MIT
"""Memory of a device of CUDA: buffers that grow at one address, and arrays over them."""

import sys
import weakref
from ctypes import byref, c_size_t, c_ulonglong, c_void_p

import numpy

from . import _cuda_driver as cu
from ._cuda_device import Closing, Device, device_of
from ._errors import DeviceLost

# So much at a time, so that Ctrl-C is heard in between.
_PART = 64 << 20


class Buffer(Closing):
    """Bytes in a device's memory that grow and shrink at one address.

    Buffer(device, size, max_size=0): addresses are reserved for `max_size`, and memory is taken
    for `size`, in whole granules (2 MiB, as a rule). array() makes views, which torch and others
    take by __cuda_array_interface__.
    """

    def __init__(self, device: "Device | str", size: int, max_size: int = 0):
        self._device = device = device_of(device)
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

    def _grow(self, end):
        """Memory for the addresses up to there; a call that fails takes none."""
        offset, device = self._taken, self._device
        size, at = end - offset, self.pointer + offset
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
        with Stream(self._device) as stream:
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


class Stream(Closing):
    def __init__(self, device):
        self._device = device
        self.handle = device._get("cuStreamCreate", c_void_p, 1)

    def wait(self):
        self._device._call("cuStreamSynchronize", self.handle)

    def close(self):
        self._device._call("cuStreamDestroy_v2", self.handle)
