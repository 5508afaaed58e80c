// SPDX-License-Identifier: MIT
/* GGUF: the files of a model, its keys as Python's values, and its tensors at an address. */
#include "common.h"

static int gguf_handle(const char *path, void **ret_handle)
{
	struct hm_gguf *gguf;
	int error = hm_gguf_open(path, 0, &gguf);

	if (!error)
		*ret_handle = gguf;
	return error;
}

static void gguf_unref(void *gguf)
{
	hm_gguf_unref(gguf);
}

static PyObject *gguf_make(PyTypeObject *type, PyObject *args, PyObject *names)
{
	return file_open(type, args, names, "O&:Gguf", gguf_handle, gguf_unref);
}

static void gguf_dealloc(PyObject *self)
{
	file_dealloc(self, gguf_unref);
}

static PyObject *gguf_query(PyObject *self, PyObject *unused)
{
	struct hm_gguf_info i = { .struct_size = sizeof(i) };
	int error = hm_gguf_query(handle_of(self), &i);

	(void)unused;
	if (error)
		return raise_error(error);
	return Py_BuildValue("{sIsIsNsKsKsKsK}", "version", i.version, "files", i.files,
			     "swapped", PyBool_FromLong((long)i.swapped), "alignment",
			     i.alignment, "tensors", i.tensors, "metadata", i.metadata, "bytes",
			     i.bytes);
}

static PyObject *row_of(const void *self, uint64_t index)
{
	struct hm_gguf_tensor_info t = { .struct_size = sizeof(t) };
	int error = hm_gguf_at(*(void *const *)self, index, &t);

	if (error)
		return raise_error(error);
	return Py_BuildValue("sszNKKKN", t.name, t.type_name, hm_dtype_name(t.dtype),
			     shape_of(t.shape, t.rank), t.bytes, t.block_elements,
			     t.block_bytes, PyBool_FromLong((long)t.swapped));
}

/* Rows of all tensors, in the order of the files. */
static PyObject *gguf_tensors(PyObject *self, PyObject *unused)
{
	struct hm_gguf_info info = { .struct_size = sizeof(info) };
	void *gguf = handle_of(self);
	int error = hm_gguf_query(gguf, &info);

	(void)unused;
	return error ? raise_error(error) : list_of(info.tensors, row_of, &gguf);
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

struct elements {
	struct hm_gguf *gguf;
	uint64_t index;
};

static PyObject *element_of(const void *source, uint64_t i)
{
	const struct elements *array = source;
	struct hm_gguf_value v = { .struct_size = sizeof(v) };
	int error = hm_gguf_element(array->gguf, array->index, i, &v);

	return error ? raise_error(error) : value_of(&v);
}

/* The first element reads the whole array from the file. */
static PyObject *elements_of(struct hm_gguf *gguf, uint64_t index, uint64_t n)
{
	struct hm_gguf_value v = { .struct_size = sizeof(v) };
	int error = 0;

	if (n)
		WITHOUT_GIL(error = hm_gguf_element(gguf, index, 0, &v));
	if (error)
		return raise_error(error);
	return list_of(n, element_of, &(struct elements){ gguf, index });
}

/* (key, value) */
static PyObject *gguf_metadata(PyObject *object, PyObject *number)
{
	struct hm_gguf *gguf = handle_of(object);
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
	struct hm_gguf *gguf = handle_of(object);
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
				    .basicsize = sizeof(struct handle_object),
				    .flags = Py_TPFLAGS_DEFAULT,
				    .slots = gguf_slots };

	return type_add(module, &gguf, "Gguf") ? 0 : -1;
}
