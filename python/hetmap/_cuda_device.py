# SPDX-License-Identifier: MIT
"""Devices of CUDA, pages of the process that they reach, and what the driver knows of addresses."""

import ctypes
import errno
import sys
import weakref
from ctypes import byref, c_int, c_size_t, c_ulonglong, c_void_p
from typing import NamedTuple

import numpy

from . import _cuda_driver as cu
from ._errors import DeviceLost, Error

_driver = None
_devices = weakref.WeakSet()


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


class Closing:
    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


class Device(Closing):
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
        _devices.add(self)

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


class Registration(Closing):
    """What register() returns: pages of a map that the device reads and writes in place.

    `pointer` is their address on the device. A view of the map is held until close(), so that
    nothing moves or ends the map.
    """

    def __init__(self, device, map):
        self._view = view = memoryview(map)
        self._device, self.nbytes = device, view.nbytes
        try:
            self._address = numpy.frombuffer(view, "uint8").ctypes.data
            self._register(device, view)
        except BaseException:
            # The exception may live longer than the map should.
            self._view = None
            view.release()
            raise
        device._objects.add(self)

    def _register(self, device, view):
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
        self._view.release()
        self._view, self.pointer = None, 0

    @property
    def closed(self) -> bool:
        return self._view is None

    def __del__(self, _ending=sys.is_finalizing):
        if getattr(self, "pointer", 0) and not _ending():
            self.close()


def register(map, device: "Device | str" = "cuda:0") -> Registration:
    """Pins the pages of a Map, or of any buffer, and gives the device their addresses."""
    return Registration(device_of(device), map)


def device_of(device):
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
    # The driver answers with a context only, and any device's will do.
    device = next((one for one in list(_devices) if not one.closed), None) or Device()
    device._call("cuPointerGetAttributes", len(wanted), names, places, address,
                 what=f"asking for {address:#x}")
    kind, at_device, at_host, managed, ordinal, start, nbytes = (
        value.value for value in wanted.values())
    if kind not in _KINDS:
        return None
    return Pointer(_KINDS[kind], f"cuda:{ordinal}" if ordinal >= 0 else None, at_device, at_host,
                   bool(managed), start, nbytes)
