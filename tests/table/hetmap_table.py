# SPDX-License-Identifier: MIT
"""libhetmap-table for the tests: its calls by ctypes, and what pyarrow takes of it."""
import ctypes
import errno
import os

import pyarrow as pa

u32, u64, pointer, string = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_char_p
UNKNOWN = 2**64 - 1
AUTO, ARROW, STREAM, PARQUET, CSV, MEMORY = range(6)
READ, CHECK, DICTIONARY, NO_HEADER, SHAREABLE, CSV_WHOLE = 1, 2, 4, 8, 16, 32
EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, IS_NULL, NOT_NULL = range(8)
APPEND, SYNC = 1, 2


def struct(name, fields):
    fields = [(field, kind) for field, kind in fields]
    return type(name, (ctypes.Structure,), {"_fields_": [("struct_size", u32)] + fields})


Filter = type("Filter", (ctypes.Structure,), {"_fields_": [
    ("column", string), ("value", string), ("compare", u32), ("reserved", u32)]})
Buffers = type("Buffers", (ctypes.Structure,), {"_fields_": [
    ("name", string), ("format", string), ("validity", pointer), ("offsets", pointer),
    ("values", pointer), ("reserved", u64)]})
Desc = struct("Desc", [
    ("flags", u32), ("format", u32), ("threads", u32), ("device", pointer), ("pool", pointer),
    ("columns", ctypes.POINTER(string)), ("filters", ctypes.POINTER(Filter)), ("n_columns", u32),
    ("n_filters", u32), ("limit", u64), ("separator", ctypes.c_char), ("reserved",
                                                                      ctypes.c_char * 7)])
Info = struct("Info", [
    ("format", u32), ("files", u32), ("columns", u32), ("rows", u64), ("groups", u64),
    ("skipped", u64), ("stored", u64), ("bytes_read", u64), ("bytes_decoded", u64),
    ("bytes_placed", u64), ("memory", u64), ("peak", u64), ("limit", u64), ("threads", u32),
    ("reserved", u32)])
Field = struct("Field", [
    ("nullable", u32), ("name", string), ("type", string), ("format", string), ("bits", u32),
    ("children", u32), ("dictionary", u32), ("in_place", u32), ("why", string)])
Group = struct("Group", [
    ("file", u32), ("in_file", u64), ("first_row", u64), ("rows", u64), ("stored", u64),
    ("plain", u64), ("skipped", u32), ("reserved", u32)])
Stored = struct("Stored", [
    ("in_place", u32), ("why", string), ("codec", string), ("encodings", string),
    ("min", string), ("max", string), ("stored", u64), ("plain", u64), ("nulls", u64),
    ("values", u64)])
ColumnInfo = struct("ColumnInfo", [
    ("column", u32), ("chunks", u64), ("rows", u64), ("nulls", u64), ("in_place", u64),
    ("placed", u64), ("decoded", u64)])
Chunk = struct("Chunk", [
    ("in_place", u32), ("why", string), ("first_row", u64), ("rows", u64), ("nulls", u64),
    ("offset", u64), ("group", u64), ("validity", pointer), ("offsets", pointer),
    ("values", pointer), ("validity_bytes", u64), ("offsets_bytes", u64), ("values_bytes", u64),
    ("array", pointer), ("dictionary", pointer)])
WriteDesc = struct("WriteDesc", [
    ("flags", u32), ("format", u32), ("level", ctypes.c_int32), ("codec", string),
    ("group_rows", u64), ("encoding", string)])
WriteInfo = struct("WriteInfo", [
    ("format", u32), ("rows", u64), ("groups", u64), ("bytes", u64), ("copied", u64),
    ("path", ctypes.c_char * 256)])
BatchesDesc = struct("BatchesDesc", [
    ("flags", u32), ("window", u64), ("rows", u64), ("ahead", u32), ("reserved", u32)])
Batch = struct("Batch", [
    ("file", u32), ("group", u64), ("number", u64), ("first_row", u64), ("rows", u64),
    ("bytes", u64), ("array", pointer)])
BatchesInfo = struct("BatchesInfo", [
    ("reserved", u32), ("window", u64), ("rows", u64), ("batches", u64), ("peak", u64),
    ("least", u64)])

FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer)
DeviceStream = type("DeviceStream", (ctypes.Structure,), {"_fields_": [
    ("device_type", ctypes.c_int32), ("get_schema", FUNCTION), ("get_next", FUNCTION),
    ("get_last_error", ctypes.CFUNCTYPE(string, pointer)),
    ("release", ctypes.CFUNCTYPE(None, pointer)), ("private_data", pointer)]})
DeviceArray = type("DeviceArray", (ctypes.Structure,), {"_fields_": [
    ("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64), ("n_children", ctypes.c_int64), ("buffers", pointer),
    ("children", pointer), ("dictionary", pointer), ("release", pointer), ("private", pointer),
    ("device_id", ctypes.c_int64), ("device_type", ctypes.c_int32), ("event", pointer),
    ("reserved", ctypes.c_int64 * 3)]})

library = None
core = None


def load(folder):
    global library, core
    core = ctypes.CDLL(os.path.join(folder, "libhetmap.so"), mode=ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(os.path.join(folder, "libhetmap-table.so"))
    core.hm_errmsg.restype = string
    core.hm_warning.restype = string


class Failed(Exception):
    def __init__(self, r, text):
        super().__init__(f"{errno.errorcode.get(-r, r)}: {text}")
        self.errno, self.text = -r, text


def call(name, *arguments):
    r = getattr(library, name)(*arguments)
    if r:
        raise Failed(r, core.hm_errmsg().decode())


def warning():
    return core.hm_warning().decode()


def made(kind, **values):
    one = kind(**values)
    one.struct_size = ctypes.sizeof(kind)
    return one


def strings(values):
    return (string * len(values))(*[os.fsencode(value) for value in values])


class Table:
    """A table of the library. Further arguments are those of hm_table_desc."""

    def __init__(self, *paths, columns=None, filters=(), handle=None, **values):
        if handle is not None:
            self.handle = handle
            return
        desc = made(Desc, **values)
        if columns is not None:
            desc.columns, desc.n_columns = strings(columns), len(columns)
        rows = (Filter * len(filters))(*[
            Filter(column.encode(), None if value is None else str(value).encode(), compare)
            for column, compare, value in filters])
        if filters:
            desc.filters, desc.n_filters = rows, len(filters)
        self.handle = pointer()
        call("hm_table_open", strings(paths), u32(len(paths)), ctypes.byref(desc),
             ctypes.byref(self.handle))
        self.warning = warning()

    def __del__(self):
        if getattr(self, "handle", None):
            library.hm_table_unref(self.handle)

    def ask(self, name, kind, *arguments):
        info = made(kind)
        call(name, self.handle, *arguments, ctypes.byref(info))
        return info

    def info(self):
        return self.ask("hm_table_query", Info)

    def field(self, column):
        return self.ask("hm_table_field", Field, u32(column))

    def group(self, number):
        return self.ask("hm_table_group", Group, u64(number))

    def stored(self, group, column):
        return self.ask("hm_table_stored", Stored, u64(group), u32(column))

    def find(self, name):
        number = u32()
        call("hm_table_find", self.handle, name.encode(), ctypes.byref(number))
        return number.value

    def schema(self):
        room = ctypes.create_string_buffer(256)
        call("hm_table_schema", self.handle, room)
        return pa.Schema._import_from_c(ctypes.addressof(room))

    def reader(self):
        room = ctypes.create_string_buffer(256)
        call("hm_table_export", self.handle, room)
        return pa.RecordBatchReader._import_from_c(ctypes.addressof(room))

    def device_batches(self):
        """All batches by the device interface, whose streams pyarrow does not take itself."""
        stream = DeviceStream()
        call("hm_table_export_device", self.handle, ctypes.byref(stream))
        assert stream.device_type == 1
        while True:
            schema = ctypes.create_string_buffer(256)
            array = DeviceArray()
            assert stream.get_schema(ctypes.byref(stream), schema) == 0
            r = stream.get_next(ctypes.byref(stream), ctypes.byref(array))
            if r:
                raise Failed(-r, stream.get_last_error(ctypes.byref(stream)).decode())
            if not array.release:
                pa.Schema._import_from_c(ctypes.addressof(schema))
                break
            assert array.device_type == 1 and array.device_id == -1
            yield pa.RecordBatch._import_from_c_device(ctypes.addressof(array),
                                                       ctypes.addressof(schema))
        stream.release(ctypes.byref(stream))

    def columns(self, numbers):
        handles = (pointer * len(numbers))()
        call("hm_table_columns", self.handle, (u32 * len(numbers))(*numbers),
             u32(len(numbers)), handles)
        return [Column(pointer(handle)) for handle in handles]

    def write(self, path, **values):
        desc, info = made(WriteDesc, **values), made(WriteInfo)
        call("hm_table_write", self.handle, os.fsencode(path), ctypes.byref(desc),
             ctypes.byref(info))
        return info

    def batches(self, **values):
        return Batches(self, **values)


class Column:
    def __init__(self, handle):
        self.handle = handle

    def __del__(self):
        library.hm_column_unref(self.handle)

    def info(self):
        info = made(ColumnInfo)
        call("hm_column_query", self.handle, ctypes.byref(info))
        return info

    def chunk(self, number):
        chunk = made(Chunk)
        call("hm_column_chunk", self.handle, u64(number), ctypes.byref(chunk))
        return chunk

    def array(self, number):
        """The chunk as pyarrow takes it by the device interface."""
        schema, array = ctypes.create_string_buffer(256), ctypes.create_string_buffer(256)
        call("hm_column_export", self.handle, u64(number), schema, array)
        return pa.Array._import_from_c_device(ctypes.addressof(array), ctypes.addressof(schema))

    def chunks(self):
        return [self.chunk(i) for i in range(self.info().chunks)]


class Batches:
    def __init__(self, table, **values):
        self.handle = pointer()
        self.schema = table.schema()
        desc = made(BatchesDesc, **values)
        call("hm_table_batches_create", table.handle, ctypes.byref(desc),
             ctypes.byref(self.handle))

    def __del__(self):
        if self.handle:
            library.hm_table_batches_unref(self.handle)

    def next(self):
        batch = made(Batch)
        call("hm_table_batches_next", self.handle, ctypes.byref(batch))
        return batch

    def info(self):
        info = made(BatchesInfo)
        call("hm_table_batches_query", self.handle, ctypes.byref(info))
        return info

    def chunk(self, column):
        chunk = made(Chunk)
        call("hm_table_batches_chunk", self.handle, u32(column), ctypes.byref(chunk))
        return chunk


def imported(given, **values):
    """A table of a table of pyarrow."""
    room, handle, desc = ctypes.create_string_buffer(256), pointer(), made(Desc, **values)
    given.to_reader()._export_to_c(ctypes.addressof(room))
    call("hm_table_import", room, ctypes.byref(desc), ctypes.byref(handle))
    return Table(handle=handle)


def through_devices(table, **values):
    """A table of the library, taken by itself through the device interface."""
    stream, handle, desc = DeviceStream(), pointer(), made(Desc, **values)
    call("hm_table_export_device", table.handle, ctypes.byref(stream))
    call("hm_table_import_device", ctypes.byref(stream), ctypes.byref(desc),
         ctypes.byref(handle))
    return Table(handle=handle)


def imported_array(array, **values):
    """A table of an array of pyarrow, by the device interface."""
    schema, room = ctypes.create_string_buffer(256), DeviceArray()
    handle, desc = pointer(), made(Desc, **values)
    array._export_to_c_device(ctypes.addressof(room), ctypes.addressof(schema))
    call("hm_table_import_array", schema, ctypes.byref(room), ctypes.byref(desc),
         ctypes.byref(handle))
    return Table(handle=handle)
