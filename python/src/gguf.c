// SPDX-License-Identifier: MIT
/* GGUF: the files of a model, its keys as Python's values, and its tensors at an address. */
#include "common.h"

struct gguf_object {
	PyObject_HEAD struct hm_gguf *gguf;
};

static PyObject *gguf_make(PyTypeObject *type, PyObject *args, PyObject *names)
{
	static char *keys[] = { "path", NULL };
	struct gguf_object *self;
	struct hm_gguf *gguf;
	const char *name;
	PyObject *path;
	int error;

	if (!PyArg_ParseTupleAndKeywords(args, names, "O&:Gguf", keys, PyUnicode_FSConverter,
					 &path))
		return NULL;
	name = PyBytes_AsString(path);
	WITHOUT_GIL(error = hm_gguf_open(name, 0, &gguf));
	Py_DECREF(path);
	if (error)
		return raise_error(error);
	self = (struct gguf_object *)object_new(type);
	if (!self) {
		hm_gguf_unref(gguf);
		return NULL;
	}
	self->gguf = gguf;
	return (PyObject *)self;
}

static void gguf_dealloc(PyObject *self)
{
	struct hm_gguf *gguf = ((struct gguf_object *)self)->gguf;

	WITHOUT_GIL(hm_gguf_unref(gguf));
	object_free(self);
}

static PyObject *gguf_query(PyObject *self, PyObject *unused)
{
	struct hm_gguf_info i = { .struct_size = sizeof(i) };
	int error = hm_gguf_query(((struct gguf_object *)self)->gguf, &i);

	(void)unused;
	if (error)
		return raise_error(error);
	return Py_BuildValue("{sIsIsNsKsKsKsK}", "version", i.version, "files", i.files,
			     "swapped", PyBool_FromLong((long)i.swapped), "alignment",
			     i.alignment, "tensors", i.tensors, "metadata", i.metadata, "bytes",
			     i.bytes);
}

static PyObject *row_of(struct hm_gguf *gguf, uint64_t index)
{
	struct hm_gguf_tensor_info t = { .struct_size = sizeof(t) };
	int error = hm_gguf_at(gguf, index, &t);

	if (error)
		return raise_error(error);
	return Py_BuildValue("sszNKKKN", t.name, t.type_name, hm_dtype_name(t.dtype),
			     shape_of(t.shape, t.rank), t.bytes, t.block_elements,
			     t.block_bytes, PyBool_FromLong((long)t.swapped));
}

/* Rows of all tensors, in the order of the files. */
static PyObject *gguf_tensors(PyObject *object, PyObject *unused)
{
	struct hm_gguf *gguf = ((struct gguf_object *)object)->gguf;
	struct hm_gguf_info info = { .struct_size = sizeof(info) };
	int error = hm_gguf_query(gguf, &info);
	PyObject *list;

	(void)unused;
	if (error)
		return raise_error(error);
	list = PyList_New(0);
	for (uint64_t i = 0; list && i < info.tensors; i++) {
		PyObject *row = row_of(gguf, i);

		if (!row || PyList_Append(list, row) < 0)
			Py_CLEAR(list);
		Py_XDECREF(row);
	}
	return list;
}

/* Strings may have any bytes. */
static PyObject *value_of(const struct hm_gguf_value *v)
{
	switch (v->kind) {
	case HM_GGUF_BOOL:
		return PyBool_FromLong((long)v->u64);
	case HM_GGUF_STRING:
		return PyUnicode_DecodeUTF8(v->string, (Py_ssize_t)v->length,
					    "surrogateescape");
	case HM_GGUF_F32:
	case HM_GGUF_F64:
		return PyFloat_FromDouble(v->f64);
	case HM_GGUF_U8:
	case HM_GGUF_U16:
	case HM_GGUF_U32:
	case HM_GGUF_U64:
		return PyLong_FromUnsignedLongLong(v->u64);
	}
	return PyLong_FromLongLong(v->i64);
}

/* The first element reads the whole array from the file. */
static PyObject *elements_of(struct hm_gguf *gguf, uint64_t index, uint64_t n)
{
	struct hm_gguf_value v = { .struct_size = sizeof(v) };
	PyObject *list = PyList_New(0);
	int error = 0;

	if (n)
		WITHOUT_GIL(error = hm_gguf_element(gguf, index, 0, &v));
	for (uint64_t i = 0; list && i < n; i++) {
		PyObject *value;

		if (!error)
			error = hm_gguf_element(gguf, index, i, &v);
		value = error ? raise_error(error) : value_of(&v);
		if (!value || PyList_Append(list, value) < 0)
			Py_CLEAR(list);
		Py_XDECREF(value);
	}
	return list;
}

/* (key, value) */
static PyObject *gguf_metadata(PyObject *object, PyObject *number)
{
	struct hm_gguf *gguf = ((struct gguf_object *)object)->gguf;
	struct hm_gguf_value v = { .struct_size = sizeof(v) };
	uint64_t index;
	int error;

	if (!u64_of(number, &index))
		return NULL;
	WITHOUT_GIL(error = hm_gguf_metadata(gguf, index, &v));
	if (error)
		return raise_error(error);
	return Py_BuildValue("sN", v.key,
			     v.kind == HM_GGUF_ARRAY ? elements_of(gguf, index, v.count) :
						       value_of(&v));
}

static PyObject *gguf_view(PyObject *object, PyObject *args, PyObject *names)
{
	static char *keys[] = { "index", "alignment", NULL };
	struct hm_gguf *gguf = ((struct gguf_object *)object)->gguf;
	uint64_t index, alignment = 0;
	struct hm_tensor *tensor;
	int error;

	if (!PyArg_ParseTupleAndKeywords(args, names, "O&|O&:view", keys, u64_of, &index,
					 u64_of, &alignment))
		return NULL;
	WITHOUT_GIL(
		error = hm_gguf_tensor(gguf, index, alignment, HM_TENSOR_MAY_COPY, &tensor));
	return error ? raise_error(error) : tensor_wrap(tensor);
}

static PyMethodDef gguf_methods[] = {
	{ "query", gguf_query, METH_NOARGS, "query() -> dict" },
	{ "tensors", gguf_tensors, METH_NOARGS, "tensors() -> list" },
	{ "metadata", gguf_metadata, METH_O, "metadata(index) -> (key, value)" },
	{ "view", (PyCFunction)(void (*)(void))gguf_view, METH_VARARGS | METH_KEYWORDS,
	  "view(index, alignment=0) -> Tensor" },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot gguf_slots[] = {
	{ Py_tp_new, gguf_make },
	{ Py_tp_dealloc, gguf_dealloc },
	{ Py_tp_methods, gguf_methods },
	{ 0, NULL },
};

int gguf_init(PyObject *module)
{
	static PyType_Spec gguf = { .name = "hetmap._hetmap.Gguf",
				    .basicsize = sizeof(struct gguf_object),
				    .flags = Py_TPFLAGS_DEFAULT,
				    .slots = gguf_slots };

	return type_add(module, &gguf, "Gguf") ? 0 : -1;
}
