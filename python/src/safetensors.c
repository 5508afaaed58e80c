// SPDX-License-Identifier: MIT
/* Safetensors: the files of a model, and its tensors at an address. */
#include "common.h"

struct tensor_object {
	PyObject_HEAD struct hm_tensor *tensor;
	struct hm_tensor_place place;
};

static PyTypeObject *tensor_type;

static int model_handle(const char *path, void **ret_handle)
{
	struct hm_safetensors *model;
	int error = hm_safetensors_open(path, 0, &model);

	if (!error)
		*ret_handle = model;
	return error;
}

static void model_unref(void *model)
{
	hm_safetensors_unref(model);
}

static PyObject *model_make(PyTypeObject *type, PyObject *args, PyObject *names)
{
	return file_open(type, args, names, "O&:Model", model_handle, model_unref);
}

static void model_dealloc(PyObject *self)
{
	file_dealloc(self, model_unref);
}

static PyObject *row_of(const void *self, uint64_t index)
{
	struct hm_tensor_info t = { .struct_size = sizeof(t) };
	int error =
		hm_safetensors_tensor(*(void *const *)self, HM_TENSORS_BY_OFFSET, index, &t);

	if (error)
		return raise_error(error);
	return Py_BuildValue("ssNK", t.name, hm_dtype_name(t.dtype), shape_of(t.shape, t.rank),
			     t.bytes);
}

/* (name, dtype, shape, bytes) of each, in the order that the files have them. */
static PyObject *model_tensors(PyObject *self, PyObject *unused)
{
	struct hm_safetensors_info info = { .struct_size = sizeof(info) };
	void *model = handle_of(self);
	int error = hm_safetensors_query(model, &info);

	(void)unused;
	return error ? raise_error(error) : list_of(info.tensors, row_of, &model);
}

static PyObject *note_of(const void *self, uint64_t index)
{
	struct hm_metadata note;
	int error = hm_safetensors_metadata(*(void *const *)self, index, &note);

	return error ? raise_error(error) : Py_BuildValue("ss", note.key, note.value);
}

/* A list of (key, value). */
static PyObject *model_metadata(PyObject *self, PyObject *unused)
{
	struct hm_safetensors_info info = { .struct_size = sizeof(info) };
	void *model = handle_of(self);
	int error = hm_safetensors_query(model, &info);

	(void)unused;
	return error ? raise_error(error) : list_of(info.metadata, note_of, &model);
}

/* Pairs of (begin, end); false: an exception. */
static bool slices_read(PyObject *from, struct hm_slice slices[HM_TENSOR_RANK_MAX],
			uint32_t *ret_n)
{
	Py_ssize_t n = from && from != Py_None ? PySequence_Size(from) : 0;

	if (n < 0 || n > HM_TENSOR_RANK_MAX) {
		if (!PyErr_Occurred())
			PyErr_SetString(PyExc_ValueError, "more slices than dimensions");
		return false;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		uint64_t begin = 0, end = 0;
		PyObject *pair = PySequence_GetItem(from, i);
		int good = pair && PyTuple_Check(pair) &&
			   PyArg_ParseTuple(pair, "O&O&", u64_of, &begin, u64_of, &end);

		Py_XDECREF(pair);
		if (!good) {
			if (!PyErr_Occurred())
				PyErr_SetString(PyExc_TypeError,
						"a slice is a pair (begin, end)");
			return false;
		}
		slices[i] = (struct hm_slice){ begin, end };
	}
	*ret_n = (uint32_t)n;
	return true;
}

PyObject *tensor_wrap(struct hm_tensor *tensor)
{
	struct hm_tensor_place place = { .struct_size = sizeof(place) };
	int error = hm_tensor_query(tensor, &place);
	struct tensor_object *self;

	self = error ? (void *)raise_error(error) : (void *)object_new(tensor_type);
	if (!self) {
		hm_tensor_unref(tensor);
		return NULL;
	}
	self->tensor = tensor, self->place = place;
	return (PyObject *)self;
}

static PyObject *model_view(PyObject *object, PyObject *args, PyObject *names)
{
	static char *keys[] = { "index", "slices", "alignment", NULL };
	struct hm_safetensors *model = handle_of(object);
	struct hm_slice slices[HM_TENSOR_RANK_MAX];
	uint64_t index, alignment = 0;
	struct hm_tensor *tensor;
	PyObject *from = NULL;
	uint32_t n_slices;
	int error;

	if (!PyArg_ParseTupleAndKeywords(args, names, "O&|OO&:view", keys, u64_of, &index,
					 &from, u64_of, &alignment) ||
	    !slices_read(from, slices, &n_slices))
		return NULL;
	WITHOUT_GIL(error = hm_safetensors_view(model, index, slices, n_slices, alignment,
						HM_TENSOR_MAY_COPY, &tensor));
	return error ? raise_error(error) : tensor_wrap(tensor);
}

/*
 * In parts of the first dimension, so that Ctrl-C is heard in between; 1: a signal's handler has
 * raised. Elements of 4 or 6 bits can't be parted.
 */
static int read_in_parts(struct hm_safetensors *model, uint64_t index,
			 const struct hm_tensor_info *t, char *to)
{
	uint64_t rows = t->shape[0], row = t->bytes / rows;
	struct hm_slice part = { 0 };
	int error = 0;

	while (!error && part.begin < rows) {
		part.end = part.begin + (row < PART ? PART / row : 1);
		if (part.end > rows)
			part.end = rows;
		WITHOUT_GIL(error = hm_safetensors_read(model, index, &part, 1,
							to + part.begin * row,
							(part.end - part.begin) * row));
		if (!error && PyErr_CheckSignals())
			error = 1;
		part.begin = part.end;
	}
	return error;
}

static PyObject *model_read(PyObject *object, PyObject *args)
{
	struct hm_tensor_info t = { .struct_size = sizeof(t) };
	struct hm_safetensors *model = handle_of(object);
	uint64_t index;
	Py_buffer to;
	int error;

	if (!PyArg_ParseTuple(args, "O&w*:read", u64_of, &index, &to))
		return NULL;
	error = hm_safetensors_tensor(model, HM_TENSORS_BY_OFFSET, index, &t);
	if (!error && t.bytes > PART && t.rank && !(hm_dtype_bits(t.dtype) % 8) &&
	    (uint64_t)to.len == t.bytes)
		error = read_in_parts(model, index, &t, to.buf);
	else if (!error)
		WITHOUT_GIL(error = hm_safetensors_read(model, index, NULL, 0, to.buf,
							(uint64_t)to.len));
	PyBuffer_Release(&to);
	return error == 1 ? NULL : none_or_error(error);
}

static void tensor_dealloc(PyObject *self)
{
	struct hm_tensor *tensor = ((struct tensor_object *)self)->tensor;

	WITHOUT_GIL(hm_tensor_unref(tensor));
	object_free(self);
}

/* The file is for reading: a copy is, too, so that both kinds behave alike. */
static int tensor_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
	struct tensor_object *self = (struct tensor_object *)object;

	return PyBuffer_FillInfo(view, object, self->place.address,
				 (Py_ssize_t)self->place.bytes, 1, flags);
}

static PyObject *tensor_shape(PyObject *object, void *unused)
{
	struct tensor_object *self = (struct tensor_object *)object;

	(void)unused;
	return shape_of(self->place.shape, self->place.rank);
}

static PyObject *tensor_copied(PyObject *object, void *unused)
{
	(void)unused;
	return PyBool_FromLong((long)((struct tensor_object *)object)->place.copied);
}

static PyMethodDef model_methods[] = {
	{ "tensors", model_tensors, METH_NOARGS, "tensors() -> list" },
	{ "metadata", model_metadata, METH_NOARGS, "metadata() -> list of (key, value)" },
	{ "view", (PyCFunction)(void (*)(void))model_view, METH_VARARGS | METH_KEYWORDS,
	  "view(index, slices=None, alignment=0) -> Tensor" },
	{ "read", model_read, METH_VARARGS, "read(index, buffer): a copy into a buffer" },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef tensor_fields[] = {
	{ "shape", tensor_shape, NULL, "Its dimensions.", NULL },
	{ "copied", tensor_copied, NULL, "False: the bytes are the file's.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot model_slots[] = {
	{ Py_tp_new, model_make },
	{ Py_tp_dealloc, model_dealloc },
	{ Py_tp_methods, model_methods },
	{ 0, NULL },
};

static PyType_Slot tensor_slots[] = {
	{ Py_tp_dealloc, tensor_dealloc },
	{ Py_tp_getset, tensor_fields },
	{ Py_bf_getbuffer, tensor_getbuffer },
	{ 0, NULL },
};

int safetensors_init(PyObject *module)
{
	static PyType_Spec model = { .name = "hetmap._hetmap.Model",
				     .basicsize = sizeof(struct handle_object),
				     .flags = Py_TPFLAGS_DEFAULT,
				     .slots = model_slots };
	static PyType_Spec tensor = { .name = "hetmap._hetmap.Tensor",
				      .basicsize = sizeof(struct tensor_object),
				      .flags = Py_TPFLAGS_DEFAULT |
					       Py_TPFLAGS_DISALLOW_INSTANTIATION,
				      .slots = tensor_slots };

	tensor_type = type_add(module, &tensor, "Tensor");
	return tensor_type && type_add(module, &model, "Model") ? 0 : -1;
}
