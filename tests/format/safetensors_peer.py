# SPDX-License-Identifier: MIT
"""Files of the safetensors package, read by libhetmap.so, and the library's by the package.

safetensors_peer.py LIBRARY FOLDER COMMAND: exits 0 when all is the same, value for value."""
import ctypes
import json
import os
import subprocess
import sys

import safetensors
from safetensors import TensorSpec, deserialize, serialize_file

u32, u64, pointer, string = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_char_p


class Source(ctypes.Structure):
    _fields_ = [("name", string), ("dtype", u32), ("rank", u32),
                ("shape", ctypes.POINTER(u64)), ("data", pointer)]


class Metadata(ctypes.Structure):
    _fields_ = [("key", string), ("value", string)]


class Desc(ctypes.Structure):
    _fields_ = [("struct_size", u32), ("flags", u32), ("tensors", ctypes.POINTER(Source)),
                ("n_tensors", u64), ("metadata", ctypes.POINTER(Metadata)), ("n_metadata", u64)]


class All(ctypes.Structure):
    _fields_ = [("struct_size", u32), ("shards", u32), ("tensors", u64), ("metadata", u64),
                ("bytes", u64)]


class Tensor(ctypes.Structure):
    _fields_ = [("struct_size", u32), ("dtype", u32), ("rank", u32), ("shard", u32),
                ("name", string), ("shape", ctypes.POINTER(u64)), ("index", u64),
                ("offset", u64), ("bytes", u64), ("alignment", u64)]


library = ctypes.CDLL(sys.argv[1])
folder, command = sys.argv[2:]
library.hm_errmsg.restype = string
library.hm_dtype_name.restype = string
library.hm_tensor_address.restype = pointer
library.hm_tensor_address.argtypes = [pointer]
for name in ("hm_safetensors_unref", "hm_tensor_unref"):
    getattr(library, name).restype = None
    getattr(library, name).argtypes = [pointer]

# The package's names of types, and those that files have.
TYPES = {"bool": "BOOL", "uint8": "U8", "int8": "I8", "float8_e5m2": "F8_E5M2",
         "float8_e4m3fn": "F8_E4M3", "float8_e8m0fnu": "F8_E8M0", "int16": "I16",
         "uint16": "U16", "float16": "F16", "bfloat16": "BF16", "int32": "I32",
         "uint32": "U32", "float32": "F32", "complex64": "C64", "float64": "F64",
         "int64": "I64", "uint64": "U64"}
WIDTH = {"16": 2, "32": 4, "64": 8}
SHAPES = [[2, 3], [], [0, 5], [7], [1, 2, 1, 4]]
METADATA = {"format": "pt", "\u00e9 \"\\\n": "\U0001f600\t"}


def check(result):
    if result:
        sys.exit("%d: %s" % (result, library.hm_errmsg().decode()))


def expect(got, wanted, what):
    if got != wanted:
        sys.exit("%s: %r, not %r" % (what, got, wanted))


def made_up():
    """name: (type of the package, type of the file, shape, bytes)"""
    tensors = {}
    for number, (theirs, ours) in enumerate(TYPES.items()):
        shape = SHAPES[number % len(SHAPES)]
        size = 8 if ours == "C64" else 1 if ours.startswith("F8") else WIDTH.get(ours[-2:], 1)
        for extent in shape:
            size *= extent
        name = "%s.\u00e4\"\\ %d" % (theirs, number)
        tensors[name] = (theirs, ours, shape, bytes((number * 31 + i * 7) & 255
                                                   for i in range(size)))
    tensors["pages"] = ("float32", "F32", [2048, 4], bytes(range(256)) * 128)
    return tensors


def read_by_library(path):
    """name: (type, shape, bytes), and the metadata"""
    file, found, metadata = pointer(), {}, {}
    check(library.hm_safetensors_open(path.encode(), 0, ctypes.byref(file)))
    total = All(ctypes.sizeof(All))
    check(library.hm_safetensors_query(file, ctypes.byref(total)))
    for index in range(total.tensors):
        info, view = Tensor(ctypes.sizeof(Tensor)), pointer()
        check(library.hm_safetensors_tensor(file, 0, u64(index), ctypes.byref(info)))
        check(library.hm_safetensors_view(file, u64(index), None, 0, u64(0), 0,
                                          ctypes.byref(view)))
        data = ctypes.string_at(library.hm_tensor_address(view), info.bytes)
        found[info.name.decode()] = (library.hm_dtype_name(info.dtype).decode(),
                                     [info.shape[i] for i in range(info.rank)], data)
        library.hm_tensor_unref(view)
    for index in range(total.metadata):
        pair = Metadata()
        check(library.hm_safetensors_metadata(file, u64(index), ctypes.byref(pair)))
        metadata[pair.key.decode()] = pair.value.decode()
    library.hm_safetensors_unref(file)
    return found, metadata


def write_by_library(path, tensors):
    numbers = {library.hm_dtype_name(i).decode(): i for i in range(22)}
    sources, kept = (Source * len(tensors))(), []
    for source, (name, (_, dtype, shape, data)) in zip(sources, tensors.items()):
        extents, memory = (u64 * len(shape))(*shape), ctypes.create_string_buffer(data, len(data))
        kept += [extents, memory]
        source.name, source.dtype, source.rank = name.encode(), numbers[dtype], len(shape)
        source.shape = ctypes.cast(extents, ctypes.POINTER(u64))
        source.data = ctypes.addressof(memory)
    pairs = (Metadata * len(METADATA))(*[(k.encode(), v.encode()) for k, v in METADATA.items()])
    desc = Desc(ctypes.sizeof(Desc), 0, sources, len(tensors), pairs, len(pairs))
    check(library.hm_safetensors_write(path.encode(), ctypes.byref(desc)))


def main():
    tensors = made_up()
    wanted = {name: (ours, shape, data) for name, (_, ours, shape, data) in tensors.items()}

    theirs, memory, specs = os.path.join(folder, "theirs"), [], {}
    for name, (dtype, _, shape, data) in tensors.items():
        memory.append(ctypes.create_string_buffer(data, max(len(data), 1)))
        specs[name] = TensorSpec(dtype=dtype, shape=shape,
                                 data_ptr=ctypes.addressof(memory[-1]), data_len=len(data))
    serialize_file(specs, theirs, METADATA)
    found, metadata = read_by_library(theirs)
    expect(found, wanted, "the package's file, read by the library")
    expect(metadata, METADATA, "the package's metadata")

    ours = os.path.join(folder, "ours")
    write_by_library(ours, tensors)
    with open(ours, "rb") as file:
        content = file.read()
    found = {name: (entry["dtype"], list(entry["shape"]), bytes(entry["data"]))
             for name, entry in deserialize(content)}
    expect(found, wanted, "the library's file, read by the package")
    # The package gives metadata to frameworks only.
    header = json.loads(content[8:8 + int.from_bytes(content[:8], "little")])
    expect(header["__metadata__"], METADATA, "the library's metadata")
    # And the command brings the package's file into a device, and checks it there.
    loaded = subprocess.run([command, "run", "load", "--json", "--device", "soft:0", "--accel",
                             "soft:0", theirs], stdout=subprocess.PIPE, check=True)
    loaded = json.loads(loaded.stdout)
    expect((loaded["verified"], loaded["tensors"]), (True, len(wanted)), "hetmap run load")
    print("safetensors %s: %d tensors" % (safetensors.__version__, len(wanted)))


main()
