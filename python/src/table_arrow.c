// SPDX-License-Identifier: MIT
/* Tables and columns as capsules of the Arrow C interfaces, and chunks with Python's buffers. */
#include "table.h"

#ifdef HAVE_TABLE

#include <stdlib.h>

/* Of a column, which it keeps. */
struct chunk_object {
	PyObject_HEAD PyObject *column;
	uint64_t index;
	struct hm_table_chunk chunk;
};

static PyTypeObject *column_type, *chunk_type;

/* What is in a capsule is its own until a consumer moves it, which leaves release as NULL. */
static void schema_end(PyObject *capsule)
{
	struct ArrowSchema *schema = PyCapsule_GetPointer(capsule, "arrow_schema");

	if (schema->release)
		schema->release(schema);
	free(schema);
}

static void array_end(PyObject *capsule)
{
	struct ArrowArray *array = PyCapsule_GetPointer(capsule, "arrow_array");

	if (array->release)
		array->release(array);
	free(array);
}

static void device_array_end(PyObject *capsule)
{
	struct ArrowDeviceArray *array = PyCapsule_GetPointer(capsule, "arrow_device_array");

	if (array->array.release)
		array->array.release(&array->array);
	free(array);
}

static void stream_end(PyObject *capsule)
{
	struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, "arrow_array_stream");

	if (stream->release)
		stream->release(stream);
	free(stream);
}

static void device_stream_end(PyObject *capsule)
{
	struct ArrowDeviceArrayStream *stream =
		PyCapsule_GetPointer(capsule, "arrow_device_array_stream");

	if (stream->release)
		stream->release(stream);
	free(stream);
}

/* A capsule over zeroed memory for the struct: without a release function nothing is there. */
static PyObject *capsule_new(const char *name, size_t bytes, PyCapsule_Destructor end)
{
	void *held = calloc(1, bytes);
	PyObject *capsule = held ? PyCapsule_New(held, name, end) : PyErr_NoMemory();

	if (!capsule)
		free(held);
	return capsule;
}

#define HELD(capsule, name) PyCapsule_GetPointer(capsule, name)

static PyObject *capsule_or_error(PyObject *capsule, int error)
{
	if (!error)
		return capsule;
	Py_DECREF(capsule);
	return raise_error(error);
}

PyObject *table_schema(PyObject *self, PyObject *unused)
{
	PyObject *capsule = capsule_new("arrow_schema", sizeof(struct ArrowSchema), schema_end);
	int error;

	(void)unused;
	if (!capsule)
		return NULL;
	error = table_calls.table_schema(handle_of(self), HELD(capsule, "arrow_schema"));
	return capsule_or_error(capsule, error);
}

PyObject *table_stream(PyObject *self, PyObject *unused)
{
	PyObject *capsule =
		capsule_new("arrow_array_stream", sizeof(struct ArrowArrayStream), stream_end);
	int error;

	(void)unused;
	if (!capsule)
		return NULL;
	error = table_calls.table_export(handle_of(self), HELD(capsule, "arrow_array_stream"));
	return capsule_or_error(capsule, error);
}

PyObject *table_device_stream(PyObject *self, PyObject *unused)
{
	PyObject *capsule = capsule_new("arrow_device_array_stream",
					sizeof(struct ArrowDeviceArrayStream),
					device_stream_end);
	int error;

	(void)unused;
	if (!capsule)
		return NULL;
	error = table_calls.table_export_device(handle_of(self),
						HELD(capsule, "arrow_device_array_stream"));
	return capsule_or_error(capsule, error);
}

/* ---- columns ---- */

PyObject *column_wrap(struct hm_column *column)
{
	struct handle_object *self = (struct handle_object *)object_new(column_type);

	if (!self) {
		table_calls.column_unref(column);
		return NULL;
	}
	self->handle = column;
	return (PyObject *)self;
}

static void column_unref(void *column)
{
	table_calls.column_unref(column);
}

static void column_dealloc(PyObject *self)
{
	file_dealloc(self, column_unref);
}

static PyObject *column_query(PyObject *self, PyObject *unused)
{
	struct hm_column_info i = { .struct_size = sizeof(i) };
	int error;

	(void)unused;
	WITHOUT_GIL(error = table_calls.column_query(handle_of(self), &i));
	if (error)
		return raise_error(error);
	return Py_BuildValue("{sKsKsKsKsKsK}", "chunks", i.chunks, "rows", i.rows, "nulls",
			     i.nulls, "in_place", i.in_place, "placed", i.placed, "decoded",
			     i.decoded);
}

static PyObject *column_chunk(PyObject *self, PyObject *index)
{
	struct hm_table_chunk chunk = { .struct_size = sizeof(chunk) };
	struct chunk_object *made;
	uint64_t number;
	int error;

	if (!u64_of(index, &number))
		return NULL;
	error = table_calls.column_chunk(handle_of(self), number, &chunk);
	if (error)
		return raise_error(error);
	made = (struct chunk_object *)object_new(chunk_type);
	if (!made)
		return NULL;
	made->column = Py_NewRef(self), made->index = number, made->chunk = chunk;
	return (PyObject *)made;
}

/* ---- chunks ---- */

static void chunk_dealloc(PyObject *object)
{
	Py_CLEAR(((struct chunk_object *)object)->column);
	object_free(object);
}

/* The bytes of the values, from the buffer's first on, for reading. */
static int chunk_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
	struct hm_table_chunk *chunk = &((struct chunk_object *)object)->chunk;

	view->obj = NULL;
	if (!chunk->values) {
		PyErr_SetString(PyExc_BufferError,
				"the values of the chunk are in its children");
		return -1;
	}
	return PyBuffer_FillInfo(view, object, (void *)(uintptr_t)chunk->values,
				 (Py_ssize_t)chunk->values_bytes, 1, flags);
}

static PyObject *chunk_query(PyObject *object, PyObject *unused)
{
	struct hm_table_chunk *c = &((struct chunk_object *)object)->chunk;

	(void)unused;
	return Py_BuildValue("{sNsssKsKsKsKsKsKsKsK}", "in_place",
			     PyBool_FromLong((long)c->in_place), "why", c->why, "first_row",
			     c->first_row, "rows", c->rows, "nulls", c->nulls, "offset",
			     c->offset, "group", c->group, "validity",
			     (unsigned long long)(uintptr_t)c->validity, "offsets",
			     (unsigned long long)(uintptr_t)c->offsets, "values",
			     (unsigned long long)(uintptr_t)c->values);
}

/* (schema, device array), of which the consumer ends each. */
static PyObject *chunk_device_array(PyObject *object, PyObject *unused)
{
	struct chunk_object *self = (struct chunk_object *)object;
	PyObject *schema = capsule_new("arrow_schema", sizeof(struct ArrowSchema), schema_end);
	PyObject *array = schema ? capsule_new("arrow_device_array",
					       sizeof(struct ArrowDeviceArray),
					       device_array_end) :
				   NULL;
	int error;

	(void)unused;
	if (!array) {
		Py_XDECREF(schema);
		return NULL;
	}
	error = table_calls.column_export(handle_of(self->column), self->index,
					  HELD(schema, "arrow_schema"),
					  HELD(array, "arrow_device_array"));
	if (!error)
		return Py_BuildValue("NN", schema, array);
	Py_DECREF(schema);
	Py_DECREF(array);
	return raise_error(error);
}

/* (schema, array): the same without the device, which is the CPU. */
static PyObject *chunk_array(PyObject *object, PyObject *unused)
{
	PyObject *array = capsule_new("arrow_array", sizeof(struct ArrowArray), array_end);
	PyObject *both = array ? chunk_device_array(object, unused) : NULL, *schema;
	struct ArrowDeviceArray *from;

	if (!both) {
		Py_XDECREF(array);
		return NULL;
	}
	from = HELD(PyTuple_GetItem(both, 1), "arrow_device_array");
	*(struct ArrowArray *)HELD(array, "arrow_array") = from->array;
	from->array.release = NULL;
	schema = Py_NewRef(PyTuple_GetItem(both, 0));
	Py_DECREF(both);
	return Py_BuildValue("NN", schema, array);
}

int column_init(PyObject *module)
{
	static PyMethodDef column_methods[] = {
		{ "query", column_query, METH_NOARGS, "query() -> dict" },
		{ "chunk", column_chunk, METH_O, "chunk(index) -> Chunk" },
		{ NULL, NULL, 0, NULL },
	};
	static PyMethodDef chunk_methods[] = {
		{ "query", chunk_query, METH_NOARGS, "query() -> dict" },
		{ "array", chunk_array, METH_NOARGS, "array() -> (capsule, capsule)" },
		{ "device_array", chunk_device_array, METH_NOARGS,
		  "device_array() -> (capsule, capsule)" },
		{ NULL, NULL, 0, NULL },
	};
	static PyType_Slot column_slots[] = {
		{ Py_tp_dealloc, column_dealloc },
		{ Py_tp_methods, column_methods },
		{ 0, NULL },
	};
	static PyType_Slot chunk_slots[] = {
		{ Py_tp_dealloc, chunk_dealloc },
		{ Py_tp_methods, chunk_methods },
		{ Py_bf_getbuffer, chunk_getbuffer },
		{ 0, NULL },
	};
	static PyType_Spec column = { .name = "hetmap._hetmap.Column",
				      .basicsize = sizeof(struct handle_object),
				      .flags = Py_TPFLAGS_DEFAULT |
					       Py_TPFLAGS_DISALLOW_INSTANTIATION,
				      .slots = column_slots };
	static PyType_Spec chunk = { .name = "hetmap._hetmap.Chunk",
				     .basicsize = sizeof(struct chunk_object),
				     .flags = Py_TPFLAGS_DEFAULT |
					      Py_TPFLAGS_DISALLOW_INSTANTIATION,
				     .slots = chunk_slots };

	column_type = type_add(module, &column, "Column");
	chunk_type = column_type ? type_add(module, &chunk, "Chunk") : NULL;
	return chunk_type ? 0 : -1;
}

#endif
