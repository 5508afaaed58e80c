// SPDX-License-Identifier: MIT
/* Pieces: what a file of any format has, and its load into the memory of a device. */
#include "common.h"

#include <errno.h>
#include <stdlib.h>

/* Of a load under way, which has let the GIL go. */
struct progress {
	PyThreadState *thread;
	PyObject *call; /* NULL: nobody wants to know */
};

static int pieces_handle(const char *path, void **ret_handle)
{
	struct hm_pieces *pieces;
	int error = hm_pieces_open(path, NULL, &pieces);

	if (!error)
		*ret_handle = pieces;
	return error;
}

static void pieces_unref(void *pieces)
{
	hm_pieces_unref(pieces);
}

static PyObject *pieces_make(PyTypeObject *type, PyObject *args, PyObject *names)
{
	return file_open(type, args, names, "O&:Pieces", pieces_handle, pieces_unref);
}

static void pieces_dealloc(PyObject *self)
{
	file_dealloc(self, pieces_unref);
}

static PyObject *pieces_query(PyObject *self, PyObject *unused)
{
	struct hm_pieces_info i = { .struct_size = sizeof(i) };
	int error = hm_pieces_query(handle_of(self), &i);

	(void)unused;
	if (error)
		return raise_error(error);
	return Py_BuildValue("{sssssIsKsKsK}", "format", i.format, "word", i.word, "files",
			     i.files, "pieces", i.pieces, "metadata", i.metadata, "bytes",
			     i.bytes);
}

static PyObject *row_of(const void *self, uint64_t index)
{
	struct hm_piece_info p = { .struct_size = sizeof(p) };
	int error = hm_pieces_at(*(void *const *)self, index, &p);

	if (error)
		return raise_error(error);
	return Py_BuildValue("sszNKKK", p.name, p.type, hm_dtype_name(p.dtype),
			     shape_of(p.shape, p.rank), p.bytes, p.block_elements,
			     p.block_bytes);
}

static PyObject *note_of(const void *self, uint64_t index)
{
	struct hm_metadata note;
	int error = hm_pieces_metadata(*(void *const *)self, index, &note);

	if (error)
		return raise_error(error);
	return Py_BuildValue("NN", text_of(note.key), text_of(note.value));
}

static PyObject *pieces_rows(PyObject *self, PyObject *unused)
{
	struct hm_pieces_info info = { .struct_size = sizeof(info) };
	void *pieces = handle_of(self);
	int error = hm_pieces_query(pieces, &info);

	(void)unused;
	return error ? raise_error(error) : list_of(info.pieces, row_of, &pieces);
}

static PyObject *pieces_metadata(PyObject *self, PyObject *unused)
{
	struct hm_pieces_info info = { .struct_size = sizeof(info) };
	void *pieces = handle_of(self);
	int error = hm_pieces_query(pieces, &info);

	(void)unused;
	return error ? raise_error(error) : list_of(info.metadata, note_of, &pieces);
}

/* ---- load ---- */

/* In the thread that called load(): Ctrl-C and exceptions of the function end the load. */
static int progress_tell(uint64_t bytes, uint64_t total, void *user)
{
	struct progress *progress = user;
	int error;

	PyEval_RestoreThread(progress->thread);
	error = PyErr_CheckSignals();
	if (!error && progress->call) {
		PyObject *result = PyObject_CallFunction(progress->call, "KK",
							 (unsigned long long)bytes,
							 (unsigned long long)total);

		error = !result;
		Py_XDECREF(result);
	}
	progress->thread = PyEval_SaveThread();
	return error ? -ECANCELED : 0;
}

/* A sequence of indices; NULL with an exception. */
static uint64_t *indices_read(PyObject *from, uint64_t *ret_n)
{
	Py_ssize_t n = PySequence_Size(from);
	uint64_t *indices;

	if (n < 0)
		return NULL;
	indices = calloc((size_t)n + 1, sizeof(*indices));
	if (!indices) {
		PyErr_NoMemory();
		return NULL;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *one = PySequence_GetItem(from, i);
		int good = one && u64_of(one, &indices[i]);

		Py_XDECREF(one);
		if (!good) {
			free(indices);
			return NULL;
		}
	}
	*ret_n = (uint64_t)n;
	return indices;
}

static PyObject *facts_of(const struct hm_load_info *i)
{
	return Py_BuildValue("{sIsKsKsKsKsKsKsK}", "threads", i->threads, "pieces", i->pieces,
			     "bytes", i->bytes, "resident", i->resident, "window", i->window,
			     "disk_ns", i->disk_ns, "copy_ns", i->copy_ns, "wall_ns",
			     i->wall_ns);
}

struct places {
	struct hm_load *load;
	const uint64_t *indices;
};

static PyObject *place_of(const void *source, uint64_t i)
{
	const struct places *places = source;
	struct hm_load_place place = { .struct_size = sizeof(place) };
	int error = hm_load_piece(places->load, places->indices[i], &place);

	if (error)
		return raise_error(error);
	return Py_BuildValue("KK", (unsigned long long)place.offset,
			     (unsigned long long)place.bytes);
}

/* (map, [(offset, bytes) of each], facts): the map keeps the memory, so that the load may go. */
static PyObject *loaded_of(struct hm_load *load, const uint64_t *indices, uint64_t n,
			   PyObject *device, PyObject *types)
{
	struct hm_load_info info = { .struct_size = sizeof(info) };
	int error = hm_load_query(load, &info);
	PyObject *map, *list;

	map = error ? raise_error(error) : map_wrap(hm_map_ref(info.map), device, types);
	list = map ? list_of(n, place_of, &(struct places){ load, indices }) : NULL;
	if (list)
		return Py_BuildValue("NNN", map, list, facts_of(&info));
	Py_XDECREF(map);
	return NULL;
}

/* load(types, device, indices, progress=None, window=0, threads=0) */
static PyObject *pieces_load(PyObject *self, PyObject *args, PyObject *names)
{
	static char *keys[] = { "types",  "device",  "indices", "progress",
				"window", "threads", NULL };
	struct hm_pieces *pieces = handle_of(self);
	struct hm_load_desc desc = { .struct_size = sizeof(desc), .progress = progress_tell };
	PyObject *types, *from, *which, *call = NULL, *result = NULL;
	struct progress progress = { 0 };
	struct hm_load *load = NULL;
	struct hm_device *device;
	uint64_t *indices;
	int error;

	if (!PyArg_ParseTupleAndKeywords(args, names, "O!O!O|OO&O&:load", keys, &PyTuple_Type,
					 &types, device_type, &from, &which, &call, u64_of,
					 &desc.window, u32_of, &desc.threads))
		return NULL;
	indices = indices_read(which, &desc.n_pieces);
	if (!indices)
		return NULL;
	device = device_hold(from);
	if (!device)
		goto done;
	desc.pieces = indices, desc.user = &progress;
	progress.call = call == Py_None ? NULL : call;
	progress.thread = PyEval_SaveThread();
	error = hm_load_create(device, pieces, &desc, &load);
	hm_device_unref(device);
	PyEval_RestoreThread(progress.thread);
	if (!error)
		result = loaded_of(load, indices, desc.n_pieces, from, types);
	else if (!PyErr_Occurred())
		raise_error(error);
	if (!error)
		WITHOUT_GIL(hm_load_unref(load));
done:
	free(indices);
	return result;
}

static PyMethodDef pieces_methods[] = {
	{ "query", pieces_query, METH_NOARGS, "query() -> dict" },
	{ "rows", pieces_rows, METH_NOARGS, "rows() -> list" },
	{ "metadata", pieces_metadata, METH_NOARGS, "metadata() -> list of (key, value)" },
	{ "load", (PyCFunction)(void (*)(void))pieces_load, METH_VARARGS | METH_KEYWORDS,
	  "load(types, device, indices, progress=None, window=0, threads=0) -> tuple" },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot pieces_slots[] = {
	{ Py_tp_new, pieces_make },
	{ Py_tp_dealloc, pieces_dealloc },
	{ Py_tp_methods, pieces_methods },
	{ 0, NULL },
};

int pieces_init(PyObject *module)
{
	static PyType_Spec pieces = { .name = "hetmap._hetmap.Pieces",
				      .basicsize = sizeof(struct handle_object),
				      .flags = Py_TPFLAGS_DEFAULT,
				      .slots = pieces_slots };

	return type_add(module, &pieces, "Pieces") ? 0 : -1;
}
