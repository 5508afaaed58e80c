# SPDX-License-Identifier: MIT
"""NVIDIA's devices, by their driver. Experimental: it ran on a fake of the driver only.

Device("cuda:0") is a device, register() makes a Map's pages some that it reads and writes,
Buffer has bytes in its memory, and hetmap.pieces.open(path).to("cuda:0") brings a model there.
libcuda.so.1 is opened at the first use.
"""

import warnings
from collections.abc import Mapping

from ._cuda_buffer import Array, Buffer, Stream
from ._cuda_device import (Device, Pointer, Registration, attributes, devices, open_driver,
                           register)
from ._errors import Error, LessWarning
from ._objects import Device as HostDevice

__all__ = ["Array", "Buffer", "Device", "Loaded", "Pointer", "Registration", "attributes",
           "devices", "load", "open_driver", "register"]

# So many bytes of pieces at a time.
_WINDOW, _ALIGNMENT = 64 << 20, 256


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


def load(pieces, device="cuda:0", names=None, progress=None, window: int = _WINDOW) -> Loaded:
    """What Pieces.to() does: groups of pieces come into host memory, and go on to the device.

    The process has two groups at most. An exception, that of progress() too, leaves nothing.
    """
    names = list(pieces if names is None else names)
    places, size = _places(pieces, names)
    buffer = Buffer(device, size)
    try:
        with Stream(buffer.device) as stream:
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
