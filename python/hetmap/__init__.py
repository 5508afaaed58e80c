# SPDX-License-Identifier: MIT
"""Memory of devices and files as Python's buffers: arrays, tensors and columns without a copy.

>>> import hetmap
>>> with hetmap.Device("host") as device, hetmap.Buffer(device, 4096) as buffer:
...     with hetmap.Map(buffer) as map:
...         map.write(b"hello")
...         map.read(0, 5)
b'hello'
"""

from ._errors import DeviceLost, Error, FileCut, LessWarning, NoFile
try:
    from ._hetmap import Accel, Fence, Kernel, Queue, sim_plug, stats, version
except ImportError as _error:
    from ._missing import explain
    raise explain(_error) from None
from ._objects import Buffer, Device, Map, from_dlpack
from . import _pickle  # it tells multiprocessing how maps travel

NONE, READ, WRITE = 0, 1, 2
BUFFER_PRIVATE, BUFFER_HUGETLB, BUFFER_READ_ONLY, BUFFER_PUBLISH = 1, 2, 4, 8
PLACE_DEFAULT, PLACE_DEVICE, PLACE_SYSTEM = 0, 1, 2
MAP_GUARD, MAP_POPULATE = 1, 2
LOCK_ONFAULT, LOCK_PARTIAL = 1, 2
SYNC_ASYNC = 1
LOSS_ZERO, LOSS_SHADOW, LOSS_RECREATE = 0, 1, 2
(ADVICE_NORMAL, ADVICE_SEQUENTIAL, ADVICE_RANDOM, ADVICE_WILLNEED, ADVICE_COLD, ADVICE_PAGEOUT,
 ADVICE_HUGEPAGE, ADVICE_NOHUGEPAGE) = range(8)
ACCEL_FORCE_COPY, ACCEL_ZERO_COPY_ONLY, ACCEL_NO_QUIRKS = 1, 2, 4

__version__ = version()

__all__ = [
    "Accel", "Buffer", "Device", "DeviceLost", "Error", "Fence", "FileCut", "Kernel",
    "LessWarning", "Map", "NoFile", "Queue", "cuda", "from_dlpack", "gguf", "memmap", "pieces",
    "safetensors", "sim_plug", "stats", "tokens", "top", "trace", "tree", "version",
]


def __getattr__(name):
    """What needs numpy, or is rarely wanted, is imported at its first use."""
    import importlib
    if name == "memmap":
        value = importlib.import_module("._memmap", __name__).memmap
    elif name in ("top", "tree", "trace"):
        module = "._trace" if name == "trace" else "._tree"
        value = getattr(importlib.import_module(module, __name__), name)
    elif name in ("cuda", "gguf", "pieces", "safetensors", "table", "tokens"):
        try:
            return importlib.import_module("." + name, __name__)
        except ModuleNotFoundError as error:
            if error.name != __name__ + "." + name:
                raise
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value
