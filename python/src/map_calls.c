// SPDX-License-Identifier: MIT
/* What is done to ranges of a map: rights, locks, prefetch, brackets, copies with a guard. */
#include "common.h"

#include <errno.h>
#include <unistd.h>

int range_of(struct map_object *self, PyObject *length, uint64_t offset, uint64_t *ret_length)
{
	uint64_t all = self->closed ? 0 : hm_map_length(self->map);

	if (!length || length == Py_None) {
		*ret_length = offset < all ? all - offset : 0;
		return 0;
	}
	return u64_of(length, ret_length) ? 0 : -1;
}

enum range_call { PREFETCH, SYNC, ADVISE, LOCK, UNLOCK, BEGIN, END, PROTECT };

static int range_call(enum range_call call, struct hm_map *map, uint64_t offset,
		      uint64_t length, uint32_t how, uint64_t *locked)
{
	switch (call) {
	case PREFETCH:
		return hm_map_prefetch(map, offset, length, how);
	case SYNC:
		return hm_map_sync(map, offset, length, how);
	case ADVISE:
		return hm_map_advise(map, offset, length, how);
	case LOCK:
		return hm_map_lock(map, offset, length, how, locked);
	case UNLOCK:
		return hm_map_unlock(map, offset, length);
	case BEGIN:
		return hm_map_begin_cpu(map, offset, length, how);
	case END:
		return hm_map_end_cpu(map, offset, length, how);
	case PROTECT:
		return hm_map_protect(map, offset, length, how);
	}
	return -EINVAL;
}

/* 1: a signal's handler has raised. */
static int in_parts(enum range_call call, struct hm_map *map, uint64_t offset, uint64_t length,
		    uint32_t how)
{
	uint64_t done = 0, part;
	int error;

	do {
		part = length - done < PART ? length - done : PART;
		WITHOUT_GIL(error = range_call(call, map, offset + done, part, how, NULL));
		if (error == -EINTR && !PyErr_CheckSignals())
			continue;
		if (error)
			return PyErr_Occurred() ? 1 : error;
		done += part;
		if (PyErr_CheckSignals())
			return 1;
	} while (done < length);
	return 0;
}

static PyObject *on_range(struct map_object *self, enum range_call call, uint64_t offset,
			  PyObject *wanted, uint32_t how)
{
	uint64_t length, locked = 0;
	struct hm_map *map;
	int error;

	map = map_hold(self);
	if (!map)
		return NULL;
	if (range_of(self, wanted, offset, &length) < 0) {
		hm_map_unref(map);
		return NULL;
	}
	if (call == PREFETCH || call == SYNC)
		error = in_parts(call, map, offset, length, how);
	else
		WITHOUT_GIL(error = range_call(call, map, offset, length, how, &locked));
	hm_map_unref(map);
	if (error)
		return error == 1 ? NULL : raise_of_map(self, error);
	return call == LOCK ? PyLong_FromUnsignedLongLong(locked) : Py_NewRef(Py_None);
}

#define ON_RANGE(name, call, key, standard)                                                   \
	static PyObject *map_##name(struct map_object *self, PyObject *args, PyObject *names) \
	{                                                                                     \
		static char *keys[] = { "offset", "length", key, NULL };                      \
		uint64_t offset = 0;                                                          \
		PyObject *length = NULL;                                                      \
		uint32_t how = standard;                                                      \
                                                                                              \
		if (!PyArg_ParseTupleAndKeywords(args, names, "|O&OO&:" #name, keys, u64_of,  \
						 &offset, &length, u32_of, &how))             \
			return NULL;                                                          \
		return on_range(self, call, offset, length, how);                             \
	}

ON_RANGE(prefetch, PREFETCH, "access", HM_READ)
ON_RANGE(sync, SYNC, "flags", 0)
ON_RANGE(lock, LOCK, "flags", 0)
ON_RANGE(unlock, UNLOCK, "flags", 0)
ON_RANGE(end_cpu, END, "access", HM_READ)

static PyObject *map_begin_cpu(struct map_object *self, PyObject *args, PyObject *names)
{
	static char *keys[] = { "offset", "length", "access", NULL };
	uint64_t offset = 0;
	uint32_t access = HM_READ;
	PyObject *length = NULL;

	if (!PyArg_ParseTupleAndKeywords(args, names, "|O&OO&:begin_cpu", keys, u64_of, &offset,
					 &length, u32_of, &access) ||
	    handler_want() < 0)
		return NULL;
	return on_range(self, BEGIN, offset, length, access);
}

static PyObject *map_advise(struct map_object *self, PyObject *args, PyObject *names)
{
	static char *keys[] = { "advice", "offset", "length", NULL };
	uint64_t offset = 0;
	PyObject *length = NULL;
	uint32_t advice;

	if (!PyArg_ParseTupleAndKeywords(args, names, "O&|O&O:advise", keys, u32_of, &advice,
					 u64_of, &offset, &length))
		return NULL;
	return on_range(self, ADVISE, offset, length, advice);
}

/* A view that may do more than its bytes allow would end the process. */
static PyObject *map_protect(struct map_object *self, PyObject *args, PyObject *names)
{
	static char *keys[] = { "access", "offset", "length", NULL };
	uint64_t offset = 0;
	PyObject *length = NULL, *result;
	uint32_t access;
	Py_ssize_t views;

	if (!PyArg_ParseTupleAndKeywords(args, names, "O&|O&O:protect", keys, u32_of, &access,
					 u64_of, &offset, &length))
		return NULL;
	if (self->changing) {
		PyErr_SetString(PyExc_BufferError,
				"another thread is changing the rights of the map");
		return NULL;
	}
	views = !(access & HM_READ) ? self->exports : access & HM_WRITE ? 0 : self->writable;
	if (views) {
		PyErr_Format(PyExc_BufferError,
			     "live views that use rights which this takes: %zd; release them",
			     views);
		return NULL;
	}
	self->mixed = true;
	self->changing++;
	result = on_range(self, PROTECT, offset, length, access);
	self->changing--;
	return result;
}

/* Bounds, so that what is past the end for Python is no fault. */
static int inside(struct map_object *self, uint64_t offset, uint64_t length)
{
	uint64_t all = hm_map_length(self->map);

	if (offset <= all && length <= all - offset)
		return 0;
	PyErr_Format(PyExc_IndexError, "bytes %llu to %llu of a map of %llu",
		     (unsigned long long)offset, (unsigned long long)(offset + length),
		     (unsigned long long)all);
	return -1;
}

/* The call uses an address: the map must stay where it is. */
static int copy_begin(struct map_object *self, uint64_t offset, uint64_t length)
{
	if (inside(self, offset, length) < 0)
		return -1;
	if (self->buffer->moving) {
		PyErr_SetString(PyExc_BufferError,
				"another thread is resizing the buffer with may_move=True");
		return -1;
	}
	self->buffer->copies++;
	return 0;
}

static PyObject *map_read(struct map_object *self, PyObject *args, PyObject *names)
{
	static char *keys[] = { "offset", "length", NULL };
	uint64_t offset = 0;
	PyObject *wanted = NULL, *bytes;
	struct hm_map *map;
	uint64_t length;
	char *to;
	int error = 0;

	if (!PyArg_ParseTupleAndKeywords(args, names, "|O&O:read", keys, u64_of, &offset,
					 &wanted))
		return NULL;
	if (range_of(self, wanted, offset, &length) < 0 || handler_want() < 0)
		return NULL;
	map = map_hold(self);
	if (!map)
		return NULL;
	if (copy_begin(self, offset, length) < 0) {
		hm_map_unref(map);
		return NULL;
	}
	bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)length);
	to = bytes ? PyBytes_AsString(bytes) : NULL;
	if (to && length)
		WITHOUT_GIL(error = hm_copy_out(to, (char *)hm_map_address(map) + offset,
						length, NULL));
	self->buffer->copies--;
	hm_map_unref(map);
	if (error) {
		Py_DECREF(bytes);
		return raise_of_map(self, error);
	}
	return bytes;
}

static PyObject *map_write(struct map_object *self, PyObject *args, PyObject *names)
{
	static char *keys[] = { "data", "offset", NULL };
	uint64_t offset = 0;
	struct hm_map *map;
	Py_buffer data;
	int error = 0;

	if (!PyArg_ParseTupleAndKeywords(args, names, "y*|O&:write", keys, &data, u64_of,
					 &offset))
		return NULL;
	map = handler_want() < 0 ? NULL : map_hold(self);
	if (!map || copy_begin(self, offset, (uint64_t)data.len) < 0) {
		hm_map_unref(map);
		PyBuffer_Release(&data);
		return NULL;
	}
	if (data.len)
		WITHOUT_GIL(error = hm_copy_in((char *)hm_map_address(map) + offset, data.buf,
					       (uint64_t)data.len, NULL));
	self->buffer->copies--;
	hm_map_unref(map);
	PyBuffer_Release(&data);
	return error ? raise_of_map(self, error) : Py_NewRef(Py_None);
}

/* The library takes whole pages; those behind the end are the file's last one. */
static int rows_announce(struct hm_map *map, const int64_t *offsets, uint64_t n,
			 uint64_t length)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), all = hm_map_length(map);
	int error = 0;

	for (uint64_t i = 0; !error && i < n; i++) {
		uint64_t begin = (uint64_t)offsets[i] / page * page;
		uint64_t end = ((uint64_t)offsets[i] + length + page - 1) / page * page;

		if (begin < all)
			error = hm_map_advise(map, begin, (end < all ? end : all) - begin,
					      HM_ADVICE_WILLNEED);
	}
	return error;
}

/* announce(offsets as int64, length): ranges of so many bytes, which are not waited for. */
static PyObject *map_announce(struct map_object *self, PyObject *args)
{
	struct hm_map *map;
	Py_buffer offsets;
	uint64_t length;
	int error;

	if (!PyArg_ParseTuple(args, "y*O&:announce", &offsets, u64_of, &length))
		return NULL;
	map = map_hold(self);
	if (map)
		WITHOUT_GIL(error = rows_announce(map, offsets.buf,
						  (uint64_t)offsets.len / sizeof(int64_t),
						  length);
			    hm_map_unref(map));
	PyBuffer_Release(&offsets);
	if (!map)
		return NULL;
	return error ? raise_of_map(self, error) : Py_NewRef(Py_None);
}

static PyObject *map_query(struct map_object *self, PyObject *args, PyObject *names)
{
	static char *keys[] = { "resident", NULL };
	struct hm_map_info i = { .struct_size = sizeof(i) };
	struct hm_map *map;
	int resident = 0, error;

	if (!PyArg_ParseTupleAndKeywords(args, names, "|p:query", keys, &resident))
		return NULL;
	map = map_hold(self);
	if (!map)
		return NULL;
	i.fields = resident ? HM_MAP_RESIDENT | HM_MAP_LOCKED : 0;
	WITHOUT_GIL(error = hm_map_query(map, &i); hm_map_unref(map));
	if (error)
		return raise_error(error);
	return Py_BuildValue("{sKsKsKsKsKsIsIsIsIsIsIsKsKsKsK}", "address",
			     (unsigned long long)(uintptr_t)i.address, "length", i.length,
			     "reserved_length", i.reserved_length, "offset", i.offset,
			     "page_size", i.page_size, "access", i.access, "runs", i.runs,
			     "generation", i.generation, "whole", i.whole, "in_flight",
			     i.in_flight, "brackets", i.brackets, "resident", i.resident,
			     "huge", i.huge, "locked", i.locked, "lock_held", i.lock_held);
}

#define CALL(name, text)                                                                      \
	{                                                                                     \
#name, (PyCFunction)(void (*)(void))map_##name, METH_VARARGS | METH_KEYWORDS, \
			text                                                                  \
	}

PyMethodDef map_calls[] = {
	CALL(prefetch, "prefetch(offset=0, length=None, access=READ)\n--\n\n"
		       "Makes pages present before they are touched."),
	CALL(sync, "sync(offset=0, length=None, flags=0)\n--\n\n"
		   "Writes a range back to storage, and waits for that."),
	CALL(advise,
	     "advise(advice, offset=0, length=None)\n--\n\nADVICE_*: how pages are used."),
	{ "announce", (PyCFunction)(void (*)(void))map_announce, METH_VARARGS,
	  "announce(offsets, length)\n--\n\n"
	  "Starts to read ranges of `length` bytes each; offsets are an array of int64." },
	CALL(lock, "lock(offset=0, length=None, flags=0) -> int\n--\n\n"
		   "Keeps pages in RAM; the bytes locked."),
	CALL(unlock, "unlock(offset=0, length=None)\n--\n\nTakes a lock away."),
	CALL(protect,
	     "protect(access, offset=0, length=None)\n--\n\n"
	     "Changes rights. BufferError while a view lives that uses a right taken away."),
	CALL(begin_cpu, "begin_cpu(offset=0, length=None, access=READ)\n--\n\nSee cpu()."),
	CALL(end_cpu, "end_cpu(offset=0, length=None, access=READ)\n--\n\nSee cpu()."),
	CALL(read, "read(offset=0, length=None) -> bytes\n--\n\n"
		   "A copy; bytes that can't be reached are an exception, not a signal."),
	CALL(write, "write(data, offset=0)\n--\n\nCopies into the map, as read() does."),
	CALL(query, "query(resident=False) -> dict\n--\n\nWhat the map is now."),
	{ NULL, NULL, 0, NULL },
};
