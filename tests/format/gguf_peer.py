# SPDX-License-Identifier: MIT
"""Files of the gguf package, read by libhetmap.so, and the library's by the package.

gguf_peer.py LIBRARY FOLDER COMMAND: exits 0 when all is the same, value for value."""
import ctypes
import json
import os
import struct
import subprocess
import sys

import numpy
from gguf import (GGML_QUANT_SIZES, GGMLQuantizationType, GGUFEndian, GGUFReader, GGUFValueType,
                  GGUFWriter)

u32, u64, pointer, string = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_char_p
KIND = GGUFValueType


class Type(ctypes.Structure):
    _fields_ = [("struct_size", u32), ("dtype", u32), ("name", string), ("block_elements", u64),
                ("block_bytes", u64)]


class All(ctypes.Structure):
    _fields_ = [("struct_size", u32), ("version", u32), ("files", u32), ("big_endian", u32),
                ("swapped", u32), ("reserved", u32), ("alignment", u64), ("tensors", u64),
                ("metadata", u64), ("bytes", u64)]


class Tensor(ctypes.Structure):
    _fields_ = [("struct_size", u32), ("type", u32), ("dtype", u32), ("swapped", u32),
                ("rank", u32), ("file", u32), ("name", string), ("type_name", string),
                ("ne", ctypes.POINTER(u64)), ("shape", ctypes.POINTER(u64)), ("index", u64),
                ("offset", u64), ("bytes", u64), ("alignment", u64), ("block_elements", u64),
                ("block_bytes", u64)]


class Value(ctypes.Structure):
    _fields_ = [("struct_size", u32), ("kind", u32), ("element_kind", u32), ("file", u32),
                ("key", string), ("count", u64), ("u64", u64), ("i64", ctypes.c_int64),
                ("f64", ctypes.c_double), ("string", pointer), ("length", u64)]


class Source(ctypes.Structure):
    _fields_ = [("name", string), ("type", u32), ("rank", u32), ("ne", ctypes.POINTER(u64)),
                ("data", pointer)]


class Pair(ctypes.Structure):
    _fields_ = [("key", string), ("kind", u32), ("element_kind", u32), ("count", u64),
                ("data", pointer)]


class Desc(ctypes.Structure):
    _fields_ = [("struct_size", u32), ("flags", u32), ("alignment", u64),
                ("tensors", ctypes.POINTER(Source)), ("n_tensors", u64),
                ("metadata", ctypes.POINTER(Pair)), ("n_metadata", u64)]


library = ctypes.CDLL(sys.argv[1])
folder, command = sys.argv[2:]
library.hm_errmsg.restype = string
library.hm_tensor_address.restype = pointer
library.hm_tensor_address.argtypes = [pointer]
for name in ("hm_gguf_unref", "hm_tensor_unref"):
    getattr(library, name).restype = None
    getattr(library, name).argtypes = [pointer]

SIMPLE = {KIND.UINT8: "B", KIND.INT8: "b", KIND.UINT16: "H", KIND.INT16: "h", KIND.UINT32: "I",
          KIND.INT32: "i", KIND.UINT64: "Q", KIND.INT64: "q", KIND.FLOAT32: "f",
          KIND.FLOAT64: "d", KIND.BOOL: "?"}
# key: (kind, value); of an array (kind, kind of its elements, values)
KEYS = {
    "general.architecture": (KIND.STRING, "llama"),
    "a.u8": (KIND.UINT8, 200), "a.i8": (KIND.INT8, -3), "a.u16": (KIND.UINT16, 65535),
    "a.i16": (KIND.INT16, -300), "a.u32": (KIND.UINT32, 1 << 31), "a.i32": (KIND.INT32, -70000),
    "a.u64": (KIND.UINT64, 1 << 63), "a.i64": (KIND.INT64, -(1 << 40)),
    "a.f32": (KIND.FLOAT32, 1.5), "a.f64": (KIND.FLOAT64, 0.1), "a.bool": (KIND.BOOL, True),
    "a.\u00e9": (KIND.STRING, "h\u00e9llo \U0001f600"),
    "a.strings": (KIND.ARRAY, KIND.STRING, ["a", "", "bc\u00e9"] + ["x" * i for i in range(99)]),
    "a.ints": (KIND.ARRAY, KIND.INT32, [1, -2, 3]),
    "a.floats": (KIND.ARRAY, KIND.FLOAT32, [0.5, 2.0]),
    "a.bools": (KIND.ARRAY, KIND.BOOL, [True, False]),
    "a.long": (KIND.STRING, "y" * 200000),
}
NUMPY = {"F32": numpy.float32, "F16": numpy.float16, "F64": numpy.float64, "I8": numpy.int8,
         "I16": numpy.int16, "I32": numpy.int32, "I64": numpy.int64}


def check(result):
    if result:
        sys.exit("%d: %s" % (result, library.hm_errmsg().decode()))


def expect(got, wanted, what):
    if got != wanted:
        sys.exit("%s: %.300r, not %.300r" % (what, got, wanted))


def check_types():
    """Every type of the package is one of the library, and of the same size."""
    for kind, (elements, size) in GGML_QUANT_SIZES.items():
        info = Type(ctypes.sizeof(Type))
        check(library.hm_gguf_type(u32(kind), ctypes.byref(info)))
        expect((info.name.decode(), info.block_elements, info.block_bytes),
               (kind.name, elements, size), "type %d" % kind)


def made_up():
    """name: (type, dimensions with the slowest first, bytes)"""
    tensors = {}
    for number, (kind, (elements, size)) in enumerate(GGML_QUANT_SIZES.items()):
        shape = [1 + number % 3, elements * (1 + number % 2)]
        count = shape[0] * shape[1] // elements * size
        tensors["%s.\u00e4 %d" % (kind.name, number)] = (
            kind, shape, bytes((number * 31 + i * 7) & 127 for i in range(count)))
    return tensors


def write_by_package(path, tensors, order=GGUFEndian.LITTLE, alignment=0, **split):
    writer = GGUFWriter(path, "llama", False, order, **split)
    if alignment:
        writer.add_custom_alignment(alignment)
    for key, (kind, *value) in KEYS.items():
        if key != "general.architecture":
            writer.add_key_value(key, value[-1], kind,
                                 value[0] if kind == KIND.ARRAY else None)
    for name, (kind, shape, data) in tensors.items():
        if kind.name in NUMPY:
            array = numpy.frombuffer(data, NUMPY[kind.name]).reshape(shape)
            writer.add_tensor(name, array)
        else:
            elements, size = GGML_QUANT_SIZES[kind]
            array = numpy.frombuffer(data, numpy.uint8)
            writer.add_tensor(name, array.reshape(shape[0], shape[1] // elements * size),
                              raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def number_of(value):
    if value.kind in (KIND.FLOAT32, KIND.FLOAT64):
        return value.f64
    if value.kind == KIND.BOOL:
        return bool(value.u64)
    return value.u64 or value.i64


def plain(value):
    if value.kind == KIND.STRING:
        return ctypes.string_at(value.string, value.length).decode()
    return number_of(value)


def read_by_library(path):
    """The totals; name: (type, shape, bytes); key: (kind, value)"""
    file, found, keys = pointer(), {}, {}
    check(library.hm_gguf_open(path.encode(), 0, ctypes.byref(file)))
    total = All(ctypes.sizeof(All))
    check(library.hm_gguf_query(file, ctypes.byref(total)))
    for index in range(total.tensors):
        info, view = Tensor(ctypes.sizeof(Tensor)), pointer()
        check(library.hm_gguf_at(file, u64(index), ctypes.byref(info)))
        check(library.hm_gguf_tensor(file, u64(index), u64(total.alignment), 0,
                                     ctypes.byref(view)))
        shape = [info.shape[i] for i in range(info.rank)]
        expect([info.ne[i] for i in range(info.rank)], shape[::-1], "order of dimensions")
        found[info.name.decode()] = (
            info.type, shape, ctypes.string_at(library.hm_tensor_address(view), info.bytes))
        library.hm_tensor_unref(view)
    for index in range(total.metadata):
        value = Value(ctypes.sizeof(Value))
        check(library.hm_gguf_metadata(file, u64(index), ctypes.byref(value)))
        if value.kind == KIND.ARRAY:
            got = (value.kind, value.element_kind, [])
            for element in range(value.count):
                one = Value(ctypes.sizeof(Value))
                check(library.hm_gguf_element(file, u64(index), u64(element),
                                              ctypes.byref(one)))
                got[2].append(plain(one))
        else:
            got = (value.kind, plain(value))
        keys[value.key.decode()] = got
    library.hm_gguf_unref(file)
    return total, found, keys


def write_by_library(path, tensors, alignment):
    sources, kept = (Source * len(tensors))(), []
    for source, (name, (kind, shape, data)) in zip(sources, tensors.items()):
        extents = (u64 * len(shape))(*shape[::-1])
        memory = ctypes.create_string_buffer(data, len(data))
        kept += [extents, memory]
        source.name, source.type, source.rank = name.encode(), kind, len(shape)
        source.ne = ctypes.cast(extents, ctypes.POINTER(u64))
        source.data = ctypes.addressof(memory)
    pairs = (Pair * len(KEYS))()
    for pair, (key, (kind, *rest)) in zip(pairs, KEYS.items()):
        element, values = (rest[0], rest[1]) if kind == KIND.ARRAY else (kind, rest)
        if element == KIND.STRING:
            memory = (string * len(values))(*[value.encode() for value in values])
        else:
            packed = struct.pack("=%d%s" % (len(values), SIMPLE[element]), *values)
            memory = ctypes.create_string_buffer(packed, len(packed))
        kept.append(memory)
        pair.key, pair.kind, pair.element_kind, pair.count = (key.encode(), kind, element,
                                                              len(values))
        pair.data = ctypes.addressof(memory)
    desc = Desc(ctypes.sizeof(Desc), 0, alignment, sources, len(tensors), pairs, len(pairs))
    check(library.hm_gguf_write(path.encode(), ctypes.byref(desc)))


def check_by_package(path, tensors):
    reader = GGUFReader(path)
    found = {}
    for tensor in reader.tensors:
        shape = [int(extent) for extent in reversed(tensor.shape.tolist())]
        found[tensor.name] = (tensor.tensor_type, shape, tensor.data.tobytes())
    expect(found, {name: tuple(rest) for name, rest in tensors.items()},
           "the library's file, read by the package")
    for key, (kind, *value) in KEYS.items():
        field = reader.fields[key]
        expect((field.types[0], field.contents()), (kind, value[-1]), "key " + key)


def main():
    check_types()
    tensors = made_up()
    wanted = {name: (int(kind), shape, data) for name, (kind, shape, data) in tensors.items()}
    keys = {key: tuple(value) for key, value in KEYS.items()}

    theirs = os.path.join(folder, "theirs.gguf")
    for alignment in (0, 256, 4096):
        write_by_package(theirs, tensors, alignment=alignment)
        total, found, got = read_by_library(theirs)
        expect(found, wanted, "the package's file, read by the library")
        expect(got.pop("general.alignment", (KIND.UINT32, 0)), (KIND.UINT32, alignment), "key")
        expect(got, keys, "the package's metadata")
        expect((total.version, total.alignment), (3, alignment or 32), "totals")
    # Big-endian: the metadata are right, and the tensors are said to be swapped.
    plain_one = {"F32": (GGMLQuantizationType.F32, [2, 3], bytes(range(24)))}
    other = os.path.join(folder, "other.gguf")
    write_by_package(other, plain_one, GGUFEndian.BIG)
    total, found, got = read_by_library(other)
    expect((total.big_endian, got), (1, keys), "big-endian metadata")
    swapped = numpy.frombuffer(bytes(range(24)), numpy.float32).byteswap().tobytes()
    expect(found["F32"][2], swapped, "big-endian numbers")
    # Split: each file opens all.
    write_by_package(os.path.join(folder, "split.gguf"), tensors, split_max_tensors=13)
    parts = sorted(name for name in os.listdir(folder) if name.startswith("split-"))
    for part in parts:
        total, found, got = read_by_library(os.path.join(folder, part))
        expect((total.files, found), (len(parts), wanted), "a split model by " + part)

    ours = os.path.join(folder, "ours.gguf")
    for alignment in (0, 64):
        write_by_library(ours, tensors, alignment)
        check_by_package(ours, tensors)
    # And the command brings both files into a device, and checks them there.
    for path in (theirs, os.path.join(folder, parts[-1])):
        loaded = subprocess.run([command, "run", "load", "--json", "--device", "soft:0",
                                 "--accel", "soft:0", path], stdout=subprocess.PIPE, check=True)
        loaded = json.loads(loaded.stdout)
        expect((loaded["verified"], loaded["tensors"]), (True, len(wanted)), "hetmap run load")
    shown = subprocess.run([command, "inspect", "--json", theirs], stdout=subprocess.PIPE,
                           check=True)
    shown = json.loads(shown.stdout)
    expect({part["name"]: part["dtype"] for part in shown["parts"]},
           {name: kind.name for name, (kind, _, _) in tensors.items()}, "hetmap inspect")
    print("gguf: %d tensors, split in %d files" % (len(wanted), len(parts)))


main()
