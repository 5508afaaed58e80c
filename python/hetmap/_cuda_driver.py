# SPDX-License-Identifier: MIT
"""The calls of NVIDIA's driver that hetmap.cuda makes: libcuda.so.1, which is opened, not linked.

Names and layouts are those of cuda.h since CUDA 11.2. ctypes lets the GIL go during each call.
"""

import ctypes
import errno
import os
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_ulonglong, c_void_p

from ._errors import DeviceLost, Error

LIBRARY = "libcuda.so.1"


class Location(ctypes.Structure):
    """CUmemLocation"""
    _fields_ = [("type", c_int), ("id", c_int)]


class Allocation(ctypes.Structure):
    """CUmemAllocationProp"""
    _fields_ = [("type", c_int), ("handle_types", c_int), ("location", Location),
                ("windows", c_void_p), ("compression", ctypes.c_ubyte), ("rdma", ctypes.c_ubyte),
                ("usage", ctypes.c_ushort), ("reserved", ctypes.c_ubyte * 4)]


class Access(ctypes.Structure):
    """CUmemAccessDesc"""
    _fields_ = [("location", Location), ("flags", c_int)]


PINNED, ON_DEVICE, READ_WRITE = 1, 1, 3
PORTABLE, DEVICE_MAP, READ_ONLY = 1, 2, 8
# CUdevice_attribute, CUpointer_attribute
MAJOR, MINOR, CAN_REGISTER, HAS_VMM, CAN_REGISTER_READ_ONLY = 75, 76, 99, 102, 113
MEMORY_TYPE, DEVICE_POINTER, HOST_POINTER, IS_MANAGED, ORDINAL, RANGE_START, RANGE_SIZE = (
    2, 3, 4, 8, 9, 11, 12)

_address = c_ulonglong  # CUdeviceptr, CUmemGenericAllocationHandle
CALLS = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceTotalMem_v2": (POINTER(c_size_t), c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (POINTER(c_void_p),),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemHostRegister_v2": (c_void_p, c_size_t, c_uint),
    "cuMemHostUnregister": (c_void_p,),
    "cuMemHostGetDevicePointer_v2": (POINTER(_address), c_void_p, c_uint),
    "cuPointerGetAttributes": (c_uint, POINTER(c_int), POINTER(c_void_p), _address),
    "cuMemGetAllocationGranularity": (POINTER(c_size_t), POINTER(Allocation), c_int),
    "cuMemAddressReserve": (POINTER(_address), c_size_t, c_size_t, _address, c_ulonglong),
    "cuMemAddressFree": (_address, c_size_t),
    "cuMemCreate": (POINTER(_address), c_size_t, POINTER(Allocation), c_ulonglong),
    "cuMemRelease": (_address,),
    "cuMemMap": (_address, c_size_t, c_size_t, _address, c_ulonglong),
    "cuMemUnmap": (_address, c_size_t),
    "cuMemSetAccess": (_address, c_size_t, POINTER(Access), c_size_t),
    "cuMemcpyHtoDAsync_v2": (_address, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, _address, c_size_t, c_void_p),
    "cuStreamCreate": (POINTER(c_void_p), c_uint),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamDestroy_v2": (c_void_p,),
}

# CUresult: errno, and the remedy where there is one.
_ERRORS = {
    1: (errno.EINVAL, None),
    2: (errno.ENOMEM, "close buffers of the device, or take a smaller one"),
    3: (errno.ENODEV, None),
    4: (errno.ENODEV, "the driver is shutting down with the process"),
    34: (errno.ENODEV, "this libcuda.so.1 is the toolkit's stub: install NVIDIA's driver"),
    46: (errno.EBUSY, "another process has the device for itself"),
    100: (errno.ENODEV, "the driver is there, and finds no device: see nvidia-smi"),
    101: (errno.ENODEV, "hetmap.cuda.devices() has the devices"),
    214: (errno.EIO, None),
    709: (errno.ENODEV, None),
    712: (errno.EEXIST, "a part of the range is registered: close that registration"),
    713: (errno.ENOENT, None),
    800: (errno.EPERM, None),
    801: (errno.EOPNOTSUPP, None),
    802: (errno.EAGAIN, "the driver is starting: try again"),
    803: (errno.ENODEV, "driver and library have different versions: restart after the update"),
}
# The context has ended: memory on the device is gone.
_LOST = {46, 214, 220, 226, 700, 702, 709, 714, 715, 716, 717, 718, 719}


class Driver:
    """An open libcuda.so.1: call("cuInit", 0) raises what the driver returns."""

    def __init__(self, path=LIBRARY):
        try:
            library = ctypes.CDLL(os.fspath(path))
        except OSError as error:
            raise Error(errno.ENODEV, f"{path} can't be opened ({error}): install NVIDIA's driver"
                        ) from None
        self._calls, self._process = {}, os.getpid()
        for name, arguments in CALLS.items():
            try:
                call = getattr(library, name)
            except AttributeError:
                raise Error(errno.ENOSYS, f"{path} has no {name}: hetmap.cuda needs the driver of "
                            "CUDA 11.2 or later") from None
            call.argtypes, call.restype = arguments, c_int
            self._calls[name] = call
        self._name_of = library.cuGetErrorName
        self._name_of.argtypes, self._name_of.restype = (c_int, POINTER(c_char_p)), c_int
        self.path = path
        self.call("cuInit", 0, what="starting the driver")

    def call(self, name, *arguments, what=None):
        if os.getpid() != self._process:
            raise Error(errno.EOWNERDEAD, f"{name}: the driver was started by process "
                        f"{self._process}, whose child this is: start the child by spawn")
        result = self._calls[name](*arguments)
        if result:
            raise self.error(name, result, what)

    def error(self, name, result, what=None):
        text = c_char_p()
        if self._name_of(result, byref(text)) or not text.value:
            word = f"error {result}"
        else:
            word = text.value.decode()
        number, remedy = _ERRORS.get(result, (errno.EIO, None))
        sentence = f"{what}: {name}: {word}" if what else f"{name}: {word}"
        kind = DeviceLost if result in _LOST - {46} else Error
        return kind(number, f"{sentence}; {remedy}" if remedy else sentence)

    def get(self, name, kind, *arguments, what=None):
        """The call whose first argument is where the result goes."""
        value = kind()
        self.call(name, byref(value), *arguments, what=what)
        return value.value

    @property
    def alive(self):
        """False in a child by fork, which must leave the parent's objects alone."""
        return os.getpid() == self._process
