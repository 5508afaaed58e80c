// SPDX-License-Identifier: MIT
/* What the objects of files share: the open by a path, lists of rows, and the end. */
#include "common.h"

PyObject *file_open(PyTypeObject *type, PyObject *args, PyObject *names, const char *format,
		    int open(const char *path, void **ret_handle), void unref(void *handle))
{
	static char *keys[] = { "path", NULL };
	struct handle_object *self;
	const char *name;
	PyObject *path;
	void *handle;
	int error;

	if (!PyArg_ParseTupleAndKeywords(args, names, format, keys, PyUnicode_FSConverter,
					 &path))
		return NULL;
	name = PyBytes_AsString(path);
	WITHOUT_GIL(error = open(name, &handle));
	Py_DECREF(path);
	if (error)
		return raise_error(error);
	self = (struct handle_object *)object_new(type);
	if (!self) {
		unref(handle);
		return NULL;
	}
	self->handle = handle;
	return (PyObject *)self;
}

void file_dealloc(PyObject *self, void unref(void *handle))
{
	void *handle = handle_of(self);

	WITHOUT_GIL(unref(handle));
	object_free(self);
}

PyObject *list_of(uint64_t n, PyObject *row(const void *source, uint64_t index),
		  const void *source)
{
	PyObject *list = PyList_New(0);

	for (uint64_t i = 0; list && i < n; i++) {
		PyObject *one = row(source, i);

		if (!one || PyList_Append(list, one) < 0)
			Py_CLEAR(list);
		Py_XDECREF(one);
	}
	return list;
}

static PyObject *dimension_of(const void *shape, uint64_t index)
{
	return PyLong_FromUnsignedLongLong(((const uint64_t *)shape)[index]);
}

PyObject *shape_of(const uint64_t *shape, uint32_t rank)
{
	PyObject *list = list_of(rank, dimension_of, shape);
	PyObject *tuple = list ? PyList_AsTuple(list) : NULL;

	Py_XDECREF(list);
	return tuple;
}
