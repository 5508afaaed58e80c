# SPDX-License-Identifier: MIT
"""Other libraries that hand over what is not there, and functions of theirs that throw."""
import ctypes
import mmap
import os
import shutil
import subprocess

import numpy as np
import pyarrow as pa

import hetmap_table as ht
from peer_tools import case, path, refused, same

Schema = type("Schema", (ctypes.Structure,), {"_fields_": [
    ("format", ht.pointer), ("name", ht.string), ("metadata", ht.pointer),
    ("flags", ctypes.c_int64), ("n_children", ctypes.c_int64), ("children", ht.pointer),
    ("dictionary", ht.pointer), ("release", ht.pointer), ("private", ht.pointer)]})
BAD, FAULT = 74, 14


END = ctypes.CFUNCTYPE(None, ht.pointer)


def copy_of(kind, given, ended):
    """The struct again. Its end is the end of @given, which stays as it is."""
    copy = kind.from_buffer_copy(given)

    @END
    def end(at):
        kind.from_address(at).release = None
        if isinstance(given.release, int) and given.release:
            END(given.release)(ctypes.addressof(given))
        ended.append(kind)

    copy.release = ctypes.cast(end, ht.pointer).value
    ended.keep = getattr(ended, "keep", []) + [end]
    return copy


class Ended(list):
    pass


KEPT = []  # functions that ends of arrays still call


def enter(array, change):
    """Imports an array of pyarrow whose structs @change has changed: it gets them, and buffers."""
    schema, room, handle = Schema(), ht.DeviceArray(), ht.pointer()
    array._export_to_c_device(ctypes.addressof(room), ctypes.addressof(schema))
    ended = Ended()
    KEPT.append((ended, schema, room))
    seen, shape = copy_of(ht.DeviceArray, room, ended), copy_of(Schema, schema, ended)
    own = (ht.pointer * max(1, room.n_buffers)).from_buffer_copy(
        (ht.pointer * max(1, room.n_buffers)).from_address(room.buffers))
    KEPT.append(own)
    seen.buffers = ctypes.addressof(own)
    change(seen, own, shape)
    try:
        ht.call("hm_table_import_array", ctypes.byref(shape), ctypes.byref(seen), None,
                ctypes.byref(handle))
    except ht.Failed:
        same(len(ended), 2, "what was given ends, once")
        raise
    finally:
        assert not seen.release and not shape.release, "what was given has not ended"
    return ht.Table(handle=handle)


def setting(field, value, of=0):
    def change(*given):
        setattr(given[of], field, value)
    return change


def buffer(number, value):
    def change(_, buffers, __):
        buffers[number] = value
    return change


@case
def structs_that_lie():
    numbers = pa.array(range(1000), pa.int64())
    texts = pa.array([str(i) for i in range(1000)])
    lists = pa.array([[i] for i in range(1000)], pa.list_(pa.int32()))
    words = texts.dictionary_encode()
    views = pa.array(["a text that is longer than twelve bytes"] * 10, pa.string_view())
    before = pa.total_allocated_bytes()
    for array, change, number in (
            (numbers, setting("length", -1), BAD), (numbers, setting("offset", -1), BAD),
            (numbers, setting("length", 2**63 - 1), BAD),
            (numbers, setting("null_count", 1001), BAD),
            (numbers, setting("null_count", -2), BAD),
            (numbers, setting("n_buffers", -1), BAD), (numbers, setting("n_buffers", 1), BAD),
            (numbers, setting("n_buffers", 1 << 20), (BAD, FAULT)),
            (numbers, setting("n_children", 1), BAD), (numbers, setting("buffers", None), BAD),
            (numbers, setting("buffers", 8), FAULT), (numbers, buffer(1, None), BAD),
            (numbers, buffer(1, 4096), FAULT), (numbers, buffer(0, 4096), FAULT),
            (numbers, setting("length", 1 << 44), FAULT),
            (numbers, setting("offset", 1 << 44), FAULT),
            (texts, buffer(1, 4096), FAULT), (texts, buffer(2, 4096), FAULT),
            (texts, setting("length", 1 << 44), FAULT),
            (lists, buffer(1, 4096), FAULT), (lists, setting("children", None), BAD),
            (lists, setting("n_children", 0), BAD), (lists, setting("children", 8), FAULT),
            (words, setting("dictionary", None), BAD), (words, setting("dictionary", 8), FAULT),
            (numbers, setting("dictionary", 8), BAD), (views, buffer(3, 8), FAULT),
            (views, buffer(2, 8), FAULT), (numbers, setting("format", None, 2), BAD),
            (numbers, setting("format", 8, 2), FAULT), (numbers, setting("n_children", 3, 2), BAD),
            (lists, setting("children", 8, 2), FAULT)):
        refused(number, lambda: enter(array, change))
    same(pa.total_allocated_bytes(), before, "memory of failed imports")
    for array in (numbers, texts, lists, words, views):
        same(enter(array, lambda *_: None).reader().read_all().column(0).to_pylist(),
             array.to_pylist())
    same(pa.total_allocated_bytes(), before, "memory of imports")


@case
def memory_that_ends():
    """Buffers that end early: at the import, or when the column is asked for."""
    room = mmap.mmap(-1, 16 * mmap.PAGESIZE)
    here = ctypes.addressof(ctypes.c_char.from_buffer(room))
    libc = ctypes.CDLL(None, use_errno=True)
    end = here + 8 * mmap.PAGESIZE
    same(libc.mprotect(ht.pointer(end), 8 * mmap.PAGESIZE, 0), 0)
    rows = mmap.PAGESIZE * 4 // 8
    array = pa.array(range(rows), pa.int64())
    # It begins in memory, and ends where there is none.
    refused(FAULT, lambda: enter(array, buffer(1, end - 8 * (rows - 1))), "int64")
    kept = enter(array, buffer(1, end - 8 * rows))
    same(kept.columns([0])[0].info().rows, rows)
    # Its ends are there, and its middle is not.
    same(libc.mprotect(ht.pointer(end - 2 * mmap.PAGESIZE), mmap.PAGESIZE, 0), 0)
    failure = refused(FAULT, lambda: kept.columns([0]), "not in memory")
    assert "group 0" in failure.text, failure
    refused(FAULT, lambda: kept.write(path("out")), "not in memory")
    same(libc.mprotect(ht.pointer(here), 16 * mmap.PAGESIZE, 3), 0)
    same(kept.columns([0])[0].info().rows, rows)
    # Offsets that lead out of memory.
    offsets = np.zeros(5, "i4")
    offsets[4] = 2**31 - 1
    texts = pa.array(["a", "b", "c", "d"])
    refused((FAULT, BAD), lambda: enter(texts, lambda a, b, s: (
        buffer(1, offsets.ctypes.data)(a, b, s), buffer(2, end - 4)(a, b, s),
        libc.mprotect(ht.pointer(end), 8 * mmap.PAGESIZE, 0))))
    offsets[4] = -5
    refused(BAD, lambda: enter(texts, buffer(1, offsets.ctypes.data)), "-5")


THROWING = r"""
#include <cerrno>
#include <cstring>
#include <new>
#include <stdexcept>
#include <hetmap/arrow.h>

static void (*end_array)(ArrowArray *);
static int kind, ended;

static int throws(int when)
{
	if (kind == when)
		throw std::runtime_error("a runtime error of the producer");
	if (kind == when + 1)
		throw std::bad_alloc();
	if (kind == when + 2)
		throw 7;
	return 0;
}
static int get_schema(ArrowArrayStream *, ArrowSchema *out)
{
	throws(0);
	memset(out, 0, sizeof(*out));
	static ArrowSchema child, *children[] = { &child };
	child = { "l", "x", nullptr, 2, 0, nullptr, nullptr,
		  [](ArrowSchema *s) { s->release = nullptr; }, nullptr };
	*out = { "+s", "", nullptr, 0, 1, children, nullptr,
		 [](ArrowSchema *s) { s->release = nullptr; ended++; throws(20); }, nullptr };
	return 0;
}
static int get_next(ArrowArrayStream *stream, ArrowArray *out)
{
	static const long values[4] = { 1, 2, 3, 4 };
	static const void *buffers[] = { nullptr, values }, *none[] = { nullptr };
	static ArrowArray child, *children[] = { &child };

	throws(10);
	memset(out, 0, sizeof(*out));
	if (stream->private_data)
		return 0;
	stream->private_data = stream;
	child = { 4, 0, 0, 2, 0, buffers, nullptr, nullptr,
		  [](ArrowArray *a) { a->release = nullptr; }, nullptr };
	*out = { 4, 0, 0, 1, 1, none, children, nullptr,
		 [](ArrowArray *a) { a->release = nullptr; ended++; throws(30); }, nullptr };
	return 0;
}
extern "C" void make(ArrowArrayStream *stream, int asked)
{
	kind = asked;
	ended = 0;
	*stream = { get_schema, get_next,
		    [](ArrowArrayStream *) -> const char * { return nullptr; },
		    [](ArrowArrayStream *s) { s->release = nullptr; ended++; throws(40); },
		    nullptr };
}
extern "C" int how_many() { return ended; }
"""

Stream = type("Stream", (ctypes.Structure,), {"_fields_": [
    (name, ht.pointer) for name in ("get_schema", "get_next", "get_last_error", "release",
                                    "private")]})


@case
def functions_that_throw():
    compiler = shutil.which("g++") or shutil.which("clang++")
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(path("throwing.cc"), "w") as file:
        file.write(THROWING)
    subprocess.run([compiler, "-shared", "-fPIC", "-std=c++20", "-o", path("throwing.so"),
                    f"-I{here}/extensions/table/include", f"-I{here}/include",
                    path("throwing.cc")], check=True)
    other = ctypes.CDLL(path("throwing.so"))
    stream, handle = Stream(), ht.pointer()

    def take(kind):
        other.make(ctypes.byref(stream), kind)
        ht.call("hm_table_import", ctypes.byref(stream), None, ctypes.byref(handle))
        return ht.Table(handle=ht.pointer(handle.value))

    for when in (0, 10):
        refused(BAD, lambda: take(when), "a runtime error of the producer")
        same(other.how_many(), 1 + (when == 10), "the stream has ended, and its schema")
        refused(12, lambda: take(when + 1), "memory")
        refused(5, lambda: take(when + 2), "without a reason")
    for when in (20, 30, 40):
        for kind in (when, when + 1, when + 2):
            table = take(kind)
            same(table.reader().read_all().column(0).to_pylist(), [1, 2, 3, 4])
            del table
            same(other.how_many(), 3, "all have ended, once")
    for name in ("get_schema", "get_next", "get_last_error"):
        other.make(ctypes.byref(stream), -1)
        setattr(stream, name, None)
        refused(22, lambda: ht.call("hm_table_import", ctypes.byref(stream), None,
                                    ctypes.byref(handle)), "lacks")
        assert not stream.release
