// SPDX-License-Identifier: MIT
/* Tokens: files of numbers as one array, and batches of blocks of it. */
#include "common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct tokens_object {
	PyObject_HEAD struct hm_tokens *tokens;
};

struct batches_object {
	PyObject_HEAD struct hm_batches *batches;
	uint64_t bytes; /* that x takes, and y */
};

static PyTypeObject *tokens_type;

/* The errors of files that end early are exceptions with the handler only. */
static struct hm_tokens *files_open(PyObject *paths, const struct hm_tokens_desc *desc)
{
	Py_ssize_t n = PyTuple_Size(paths);
	char **names = calloc((size_t)(n > 0 ? n : 1), sizeof(*names));
	struct hm_tokens *tokens = NULL;
	int error;

	if (!names)
		return PyErr_NoMemory(), NULL;
	for (Py_ssize_t i = 0; i < n; i++) {
		/* With NULL for the length a '\0' inside is a ValueError. */
		if (PyBytes_AsStringAndSize(PyTuple_GetItem(paths, i), &names[i], NULL) < 0)
			goto done;
	}
	if (handler_want() < 0)
		goto done;
	WITHOUT_GIL(
		error = hm_tokens_open((const char *const *)names, (uint32_t)n, desc, &tokens));
	if (error) {
		tokens = NULL;
		raise_error(error);
	}
done:
	free(names);
	return tokens;
}

/* Tokens(paths as a tuple of bytes, dtype=0, offset=0, flags=0) */
static PyObject *tokens_make(PyTypeObject *type, PyObject *args, PyObject *names)
{
	static char *keys[] = { "paths", "dtype", "offset", "flags", NULL };
	struct hm_tokens_desc desc = { .struct_size = sizeof(desc) };
	struct hm_tokens_info info = { .struct_size = sizeof(info) };
	struct tokens_object *self;
	struct hm_tokens *tokens;
	PyObject *paths;

	if (!PyArg_ParseTupleAndKeywords(args, names, "O!|O&O&O&:Tokens", keys, &PyTuple_Type,
					 &paths, u32_of, &desc.dtype, u64_of, &desc.offset,
					 u32_of, &desc.flags))
		return NULL;
	tokens = files_open(paths, &desc);
	if (!tokens)
		return NULL;
	self = (struct tokens_object *)object_new(type);
	if (!self || hm_tokens_query(tokens, &info)) {
		hm_tokens_unref(tokens);
		Py_XDECREF((PyObject *)self);
		return PyErr_Occurred() ? NULL : raise_error(-EIO);
	}
	self->tokens = tokens;
	return (PyObject *)self;
}

static void tokens_dealloc(PyObject *self)
{
	struct hm_tokens *tokens = ((struct tokens_object *)self)->tokens;

	WITHOUT_GIL(hm_tokens_unref(tokens));
	object_free(self);
}

static PyObject *tokens_query(PyObject *self, PyObject *unused)
{
	struct hm_tokens_info i = { .struct_size = sizeof(i) };
	int error = hm_tokens_query(((struct tokens_object *)self)->tokens, &i);

	(void)unused;
	if (error)
		return raise_error(error);
	return Py_BuildValue("{sKsssIsKsK}", "tokens", i.tokens, "dtype",
			     hm_dtype_name(i.dtype), "shards", i.shards, "bytes", i.bytes,
			     "documents", i.documents);
}

static int firsts_read(struct hm_tokens *tokens, uint64_t n, char *to)
{
	uint64_t first, length;
	int error = 0;

	for (uint64_t i = 0; !error && i < n; i++) {
		error = hm_tokens_document(tokens, i, &first, &length);
		if (!error)
			memcpy(to + i * sizeof(first), &first, sizeof(first));
	}
	return error;
}

/* documents(to): the first token of each, as uint64; the next one's is its end. */
static PyObject *tokens_documents(PyObject *self, PyObject *args)
{
	struct hm_tokens *tokens = ((struct tokens_object *)self)->tokens;
	struct hm_tokens_info info = { .struct_size = sizeof(info) };
	int error = hm_tokens_query(tokens, &info);
	Py_buffer to;

	if (error)
		return raise_error(error);
	if (!PyArg_ParseTuple(args, "w*:documents", &to))
		return NULL;
	if ((uint64_t)to.len != info.documents * sizeof(uint64_t)) {
		PyErr_Format(PyExc_ValueError, "the buffer must have %llu bytes, not %zd",
			     (unsigned long long)info.documents * sizeof(uint64_t), to.len);
		PyBuffer_Release(&to);
		return NULL;
	}
	WITHOUT_GIL(error = firsts_read(tokens, info.documents, to.buf));
	PyBuffer_Release(&to);
	return none_or_error(error);
}

/* read(first, dtype, to): as many as @to has room for. */
static PyObject *tokens_read(PyObject *self, PyObject *args)
{
	struct hm_tokens *tokens = ((struct tokens_object *)self)->tokens;
	uint32_t dtype, each;
	uint64_t first;
	Py_buffer to;
	int error;

	if (!PyArg_ParseTuple(args, "O&O&w*:read", u64_of, &first, u32_of, &dtype, &to))
		return NULL;
	each = hm_dtype_bits(dtype) / 8;
	if (!each || to.len % each) {
		PyBuffer_Release(&to);
		PyErr_SetString(PyExc_ValueError,
				"the buffer has no whole tokens of this type");
		return NULL;
	}
	WITHOUT_GIL(
		error = hm_tokens_read(tokens, first, (uint64_t)to.len / each, dtype, to.buf));
	PyBuffer_Release(&to);
	return none_or_error(error);
}

/* One pass over the file: y has all tokens of x except the first, and one more. */
static int blocks_read(struct hm_tokens *tokens, const int64_t *starts, uint64_t n,
		       uint64_t block, uint32_t dtype, char *x, char *y)
{
	uint64_t each = hm_dtype_bits(dtype) / 8, bytes = block * each;
	int error = 0;

	for (uint64_t i = 0; !error && i < n; i++, x += bytes, y += bytes) {
		error = hm_tokens_read(tokens, (uint64_t)starts[i], block, dtype, x);
		if (error)
			break;
		memcpy(y, x + each, bytes - each);
		error = hm_tokens_read(tokens, (uint64_t)starts[i] + block, 1, dtype,
				       y + bytes - each);
	}
	return error;
}

/* blocks(starts, dtype, x, y): x and y have as many blocks as int64 @starts has tokens. */
static PyObject *tokens_blocks(PyObject *self, PyObject *args)
{
	struct hm_tokens *tokens = ((struct tokens_object *)self)->tokens;
	Py_buffer starts, x, y;
	uint32_t dtype, each;
	uint64_t n, block;
	int error = 1;

	if (!PyArg_ParseTuple(args, "y*O&w*w*:blocks", &starts, u32_of, &dtype, &x, &y))
		return NULL;
	each = hm_dtype_bits(dtype) / 8;
	n = (uint64_t)starts.len / sizeof(int64_t);
	block = n && each ? (uint64_t)x.len / n / each : 0;
	if (!block || x.len != y.len || (uint64_t)x.len != n * block * each)
		PyErr_SetString(PyExc_ValueError, "x and y have no whole blocks of this type");
	else
		WITHOUT_GIL(
			error = blocks_read(tokens, starts.buf, n, block, dtype, x.buf, y.buf));
	PyBuffer_Release(&starts);
	PyBuffer_Release(&x);
	PyBuffer_Release(&y);
	return error == 1 ? NULL : none_or_error(error);
}

/* ---- batches ---- */

static PyObject *batches_make(PyTypeObject *type, PyObject *args, PyObject *names)
{
	static char *keys[] = { "tokens", "block", "batch", "order",  "dtype",
				"seed",   "rank",  "ranks", "worker", "workers",
				"ahead",  "flags", "pad_x", "pad_y",  NULL };
	struct hm_batches_desc desc = { .struct_size = sizeof(desc) };
	struct hm_batches_info info = { .struct_size = sizeof(info) };
	long long pad_x = 0, pad_y = 0;
	struct batches_object *self;
	struct hm_batches *batches = NULL;
	PyObject *tokens;
	int error;

	if (!PyArg_ParseTupleAndKeywords(
		    args, names, "O!O&O&|O&O&O&O&O&O&O&O&O&LL:Batches", keys, tokens_type,
		    &tokens, u64_of, &desc.block, u64_of, &desc.batch, u32_of, &desc.order,
		    u32_of, &desc.dtype, u64_of, &desc.seed, u32_of, &desc.rank, u32_of,
		    &desc.ranks, u32_of, &desc.worker, u32_of, &desc.workers, u32_of,
		    &desc.ahead, u32_of, &desc.flags, &pad_x, &pad_y))
		return NULL;
	desc.pad_x = pad_x, desc.pad_y = pad_y;
	WITHOUT_GIL(error = hm_batches_create(((struct tokens_object *)tokens)->tokens, &desc,
					      &batches);
		    if (!error) error = hm_batches_query(batches, &info));
	if (error) {
		raise_error(error);
		hm_batches_unref(batches);
		return NULL;
	}
	self = (struct batches_object *)object_new(type);
	if (!self) {
		hm_batches_unref(batches);
		return NULL;
	}
	self->batches = batches;
	self->bytes = desc.batch * desc.block * (hm_dtype_bits(info.dtype) / 8);
	return (PyObject *)self;
}

static void batches_dealloc(PyObject *self)
{
	struct hm_batches *batches = ((struct batches_object *)self)->batches;

	WITHOUT_GIL(hm_batches_unref(batches));
	object_free(self);
}

/* next(x, y) -> (number, epoch) */
static PyObject *batches_next(PyObject *object, PyObject *args)
{
	struct batches_object *self = (struct batches_object *)object;
	struct hm_batch batch = { .struct_size = sizeof(batch) };
	Py_buffer x, y;
	int error = 1;

	if (!PyArg_ParseTuple(args, "w*w*:next", &x, &y))
		return NULL;
	if ((uint64_t)x.len != self->bytes || (uint64_t)y.len != self->bytes)
		PyErr_Format(PyExc_ValueError, "x and y take %llu bytes each, not %zd and %zd",
			     (unsigned long long)self->bytes, x.len, y.len);
	else
		WITHOUT_GIL(error = hm_batches_next(self->batches, x.buf, y.buf, &batch));
	PyBuffer_Release(&x);
	PyBuffer_Release(&y);
	if (error)
		return error == 1 ? NULL : raise_error(error);
	return Py_BuildValue("KK", batch.number, batch.epoch);
}

static PyObject *batches_get(PyObject *self, PyObject *unused)
{
	struct hm_batches_state state = { .struct_size = sizeof(state) };
	int error;

	(void)unused;
	WITHOUT_GIL(error = hm_batches_get(((struct batches_object *)self)->batches, &state));
	return error ? raise_error(error) : Py_BuildValue("KK", state.seed, state.position);
}

static PyObject *batches_set(PyObject *self, PyObject *args)
{
	struct hm_batches_state state = { .struct_size = sizeof(state) };
	int error;

	if (!PyArg_ParseTuple(args, "O&O&:set", u64_of, &state.seed, u64_of, &state.position))
		return NULL;
	WITHOUT_GIL(error = hm_batches_set(((struct batches_object *)self)->batches, &state));
	return none_or_error(error);
}

static PyObject *batches_query(PyObject *self, PyObject *unused)
{
	struct hm_batches_info i = { .struct_size = sizeof(i) };
	int error;

	(void)unused;
	WITHOUT_GIL(error = hm_batches_query(((struct batches_object *)self)->batches, &i));
	if (error)
		return raise_error(error);
	return Py_BuildValue("{sssIsssKsK}", "dtype", hm_dtype_name(i.dtype), "way", i.way,
			     "why", i.why, "blocks", i.blocks, "batches", i.batches);
}

static PyMethodDef tokens_methods[] = {
	{ "query", tokens_query, METH_NOARGS, "query() -> dict" },
	{ "read", tokens_read, METH_VARARGS,
	  "read(first, dtype, buffer): as many as it has room for" },
	{ "blocks", tokens_blocks, METH_VARARGS,
	  "blocks(starts, dtype, x, y): those that begin at the tokens of int64 starts" },
	{ "documents", tokens_documents, METH_VARARGS,
	  "documents(buffer): the number of the first token of each, as uint64" },
	{ NULL, NULL, 0, NULL },
};

static PyMethodDef batches_methods[] = {
	{ "next", batches_next, METH_VARARGS, "next(x, y) -> (number, epoch)" },
	{ "get", batches_get, METH_NOARGS, "get() -> (seed, position)" },
	{ "set", batches_set, METH_VARARGS, "set(seed, position)" },
	{ "query", batches_query, METH_NOARGS, "query() -> dict" },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot tokens_slots[] = {
	{ Py_tp_new, tokens_make },
	{ Py_tp_dealloc, tokens_dealloc },
	{ Py_tp_methods, tokens_methods },
	{ 0, NULL },
};

static PyType_Slot batches_slots[] = {
	{ Py_tp_new, batches_make },
	{ Py_tp_dealloc, batches_dealloc },
	{ Py_tp_methods, batches_methods },
	{ 0, NULL },
};

int tokens_init(PyObject *module)
{
	static PyType_Spec tokens = { .name = "hetmap._hetmap.Tokens",
				      .basicsize = sizeof(struct tokens_object),
				      .flags = Py_TPFLAGS_DEFAULT,
				      .slots = tokens_slots };
	static PyType_Spec batches = { .name = "hetmap._hetmap.Batches",
				       .basicsize = sizeof(struct batches_object),
				       .flags = Py_TPFLAGS_DEFAULT,
				       .slots = batches_slots };

	tokens_type = type_add(module, &tokens, "Tokens");
	return tokens_type && type_add(module, &batches, "Batches") ? 0 : -1;
}
