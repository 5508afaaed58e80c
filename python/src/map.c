// SPDX-License-Identifier: MIT
/* Map: its life, its address, and the views that Python takes of its bytes. */
#include "common.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

PyTypeObject *map_type;

static unsigned int forks; /* between the process that loaded the module and this one */

static void forks_count(void)
{
	forks++;
}

struct hm_map *map_hold(struct map_object *self)
{
	if (self->closed) {
		PyErr_SetString(PyExc_ValueError, "the map is closed");
		return NULL;
	}
	return hm_map_ref(self->map);
}

static PyObject *map_make(PyTypeObject *type, PyObject *args, PyObject *names)
{
	static char *keys[] = { "buffer", "offset", "length", "access", "flags", NULL };
	struct hm_map_desc desc = { .struct_size = sizeof(desc) };
	struct hm_buffer_info info = { .struct_size = sizeof(info) };
	int access = -1, error;
	struct map_object *self;
	struct hm_buffer *buffer;
	struct hm_map *map;
	PyObject *from;

	if (!PyArg_ParseTupleAndKeywords(args, names, "O!|O&O&iO&:Map", keys, buffer_type,
					 &from, u64_of, &desc.offset, u64_of, &desc.length,
					 &access, u32_of, &desc.flags))
		return NULL;
	buffer = buffer_hold(from);
	if (!buffer)
		return NULL;
	WITHOUT_GIL(error = access < 0 ? hm_buffer_query(buffer, &info) : 0; if (!error) {
		desc.access = access < 0 ? info.access : (uint32_t)access;
		error = hm_map_create(buffer, &desc, &map);
	});
	hm_buffer_unref(buffer);
	if (error)
		return raise_error(error);
	self = (struct map_object *)object_new(type);
	if (!self) {
		hm_map_unref(map);
		return NULL;
	}
	self->map = map, self->access = desc.access, self->forks = forks;
	self->buffer = (struct buffer_object *)Py_NewRef(from);
	if (warn_of_less(2) < 0)
		Py_CLEAR(self);
	return (PyObject *)self;
}

/* A class of the pair that is, or is derived of, the type; NULL: it is not. */
static PyTypeObject *class_of(PyObject *types, Py_ssize_t i, PyTypeObject *type)
{
	PyObject *class = PyTuple_GetItem(types, i);

	if (class && PyType_Check(class) && PyType_IsSubtype((PyTypeObject *)class, type))
		return (PyTypeObject *)class;
	if (class)
		PyErr_SetString(PyExc_TypeError, "the classes are no (Map, Buffer)");
	return NULL;
}

PyObject *map_wrap(struct hm_map *map, PyObject *device, PyObject *types)
{
	PyTypeObject *map_class = class_of(types, 0, map_type);
	PyTypeObject *buffer_class = map_class ? class_of(types, 1, buffer_type) : NULL;
	struct hm_map_info info = { .struct_size = sizeof(info) };
	struct map_object *self = NULL;
	struct hm_pointer_info found;
	int error;

	WITHOUT_GIL(error = hm_map_query(map, &info);
		    if (!error) error = hm_pointer_find(info.address, &found));
	if (error)
		raise_error(error);
	else if (buffer_class)
		self = (struct map_object *)object_new(map_class);
	if (self) {
		self->buffer = (struct buffer_object *)buffer_wrap(
			buffer_class, hm_buffer_ref(found.buffer), device, false);
		if (!self->buffer)
			Py_CLEAR(self);
	}
	if (!self) {
		hm_map_unref(map);
		return NULL;
	}
	self->map = map, self->access = info.access, self->forks = forks;
	return (PyObject *)self;
}

static void map_release(struct map_object *self)
{
	struct hm_map *map = self->map;

	self->map = NULL;
	if (map)
		WITHOUT_GIL(hm_map_unref(map));
}

static PyObject *map_close(struct map_object *self, PyObject *args, PyObject *names)
{
	static char *keys[] = { "deferred", NULL };
	int deferred = 0;

	if (!PyArg_ParseTupleAndKeywords(args, names, "|p:close", keys, &deferred))
		return NULL;
	if (self->exports && !deferred && !self->closed) {
		PyErr_Format(PyExc_BufferError,
			     "live views of the map: %zd; release them, or pass deferred=True",
			     self->exports);
		return NULL;
	}
	self->closed = true;
	if (!self->exports)
		map_release(self);
	return Py_NewRef(Py_None);
}

/* No clear: a cycle goes through the dictionary of a class that users derive. */
static int map_traverse(PyObject *self, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(self));
	Py_VISIT(((struct map_object *)self)->buffer);
	return 0;
}

static void map_dealloc(PyObject *object)
{
	struct map_object *self = (struct map_object *)object;

	PyObject_GC_UnTrack(object);
	map_release(self);
	Py_CLEAR(self->buffer);
	Py_CLEAR(self->address);
	object_free(object);
}

/* Pages are asked for one by one: a map with parts is rare, and a page takes a few ns. */
static uint32_t rights_of_all(struct hm_map *map)
{
	const char *base = hm_map_address(map);
	uint64_t length = hm_map_length(map), page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint32_t access = HM_READ | HM_WRITE;
	struct hm_pointer_info info;

	for (uint64_t at = 0; access && at < length; at += page)
		access &= hm_pointer_find(base + at, &info) ? 0 : info.access;
	return access;
}

/*
 * What all bytes of the map allow. The GIL goes meanwhile: who has the map's lock may need it. A
 * child by fork may not ask for the lock.
 */
static int rights_now(struct map_object *self, uint32_t *ret_access)
{
	struct hm_map_info info = { .struct_size = sizeof(info) };
	int error = 0;

	*ret_access = self->access;
	if (!self->mixed)
		return 0;
	WITHOUT_GIL(error = self->forks == forks ? hm_map_query(self->map, &info) : 0;
		    if (!error && info.runs != 1) info.access = rights_of_all(self->map));
	if (error)
		return raise_error(error), -1;
	*ret_access = info.access;
	return 0;
}

/* Views may begin: nothing changes the map, and a child has inherited it. */
static int views_may_begin(struct map_object *self)
{
	struct hm_pointer_info info;

	if (self->closed) {
		PyErr_SetString(PyExc_ValueError, "the map is closed");
		return -1;
	}
	/* In a child by fork the thread that made the call is no more. */
	if (self->forks == forks && (self->buffer->changing || self->changing)) {
		PyErr_Format(PyExc_BufferError, "another thread is changing the %s",
			     self->changing ? "rights of the map" : "size of the buffer");
		return -1;
	}
	if (self->forks != forks &&
	    hm_pointer_find(hm_map_address(self->map), &info) == -ENOENT) {
		PyErr_SetString(PyExc_BufferError,
				"a child by fork has not inherited the map: it is a device's");
		return -1;
	}
	return 0;
}

static int view_fill(struct map_object *self, Py_buffer *view, int flags)
{
	/* Before the rights: bytes that come meanwhile may have others. */
	Py_ssize_t length = (Py_ssize_t)hm_map_length(self->map);
	uint32_t access;

	if (rights_now(self, &access) < 0)
		return -1;
	if (!(access & HM_READ)) {
		PyErr_SetString(PyExc_BufferError, "the bytes of the map may not be read");
		return -1;
	}
	return PyBuffer_FillInfo(view, (PyObject *)self, hm_map_address(self->map), length,
				 !(access & HM_WRITE), flags);
}

static void view_end(struct map_object *self)
{
	self->exports--, self->buffer->exports--;
	if (self->closed && !self->exports)
		map_release(self);
}

/* The view counts before its rights are known, as one that may store. */
static int map_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
	struct map_object *self = (struct map_object *)object;
	int result;

	view->obj = NULL;
	if (views_may_begin(self) < 0)
		return -1;
	self->exports++, self->buffer->exports++, self->writable++;
	result = view_fill(self, view, flags);
	if (result < 0 || view->readonly)
		self->writable--;
	if (result < 0)
		view_end(self);
	return result;
}

static void map_releasebuffer(PyObject *object, Py_buffer *view)
{
	struct map_object *self = (struct map_object *)object;

	if (!view->readonly)
		self->writable--;
	view_end(self);
}

static PyObject *map_address(PyObject *object, void *unused)
{
	struct map_object *self = (struct map_object *)object;
	void *address;

	(void)unused;
	if (self->closed) {
		PyErr_SetString(PyExc_ValueError, "the map is closed");
		return NULL;
	}
	address = hm_map_address(self->map);
	if (!self->address || PyLong_AsVoidPtr(self->address) != address) {
		Py_CLEAR(self->address);
		self->address = PyLong_FromVoidPtr(address);
	}
	return Py_XNewRef(self->address);
}

static PyObject *map_nbytes(PyObject *object, void *unused)
{
	struct map_object *self = (struct map_object *)object;

	(void)unused;
	return PyLong_FromUnsignedLongLong(self->closed ? 0 : hm_map_length(self->map));
}

static Py_ssize_t map_length(PyObject *object)
{
	struct map_object *self = (struct map_object *)object;

	return self->closed ? 0 : (Py_ssize_t)hm_map_length(self->map);
}

static PyObject *map_exports(PyObject *self, void *unused)
{
	(void)unused;
	return PyLong_FromSsize_t(((struct map_object *)self)->exports);
}

static PyObject *map_closed(PyObject *self, void *unused)
{
	(void)unused;
	return PyBool_FromLong(((struct map_object *)self)->closed);
}

static PyObject *map_buffer(PyObject *self, void *unused)
{
	(void)unused;
	return Py_NewRef((PyObject *)((struct map_object *)self)->buffer);
}

static PyObject *map_access(PyObject *self, void *unused)
{
	(void)unused;
	return PyLong_FromUnsignedLong(((struct map_object *)self)->access);
}

/* numpy keeps the view that it is given here, and with it the map. */
static PyObject *map_interface(PyObject *self, void *unused)
{
	PyObject *view = PyMemoryView_FromObject(self);

	(void)unused;
	if (!view)
		return NULL;
	return Py_BuildValue("{sis(n)sssN}", "version", 3, "shape", map_length(self), "typestr",
			     "|u1", "data", view);
}

static PyGetSetDef map_fields[] = {
	{ "address", map_address, NULL, "The address of the first byte.", NULL },
	{ "nbytes", map_nbytes, NULL, "Bytes that may be touched now; 0 once closed.", NULL },
	{ "exports", map_exports, NULL, "Views that live: arrays, memoryviews, tensors.",
	  NULL },
	{ "closed", map_closed, NULL, "True after close().", NULL },
	{ "buffer", map_buffer, NULL, "The Buffer.", NULL },
	{ "access", map_access, NULL, "The access that the map was made with.", NULL },
	{ "__array_interface__", map_interface, NULL, "The bytes, for numpy.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Spec map_spec;

int map_init(PyObject *module)
{
	static PyMethodDef methods[32] = {
		{ "close", (PyCFunction)(void (*)(void))map_close, METH_VARARGS | METH_KEYWORDS,
		  "close(deferred=False)\n--\n\nEnds the map. BufferError while views of it live;\n"
		  "with deferred=True its memory goes with the last of them." },
		{ "__dlpack__", (PyCFunction)(void (*)(void))map_dlpack,
		  METH_VARARGS | METH_KEYWORDS,
		  "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
		  "The bytes as a DLPack capsule, without a copy." },
	};
	static PyType_Slot slots[] = {
		{ Py_tp_new, map_make },
		{ Py_tp_dealloc, map_dealloc },
		{ Py_tp_traverse, map_traverse },
		{ Py_tp_methods, methods },
		{ Py_tp_getset, map_fields },
		{ Py_bf_getbuffer, map_getbuffer },
		{ Py_bf_releasebuffer, map_releasebuffer },
		{ Py_sq_length, map_length },
		{ 0, NULL },
	};
	static bool counts;
	size_t n = 2;

	if (!counts && pthread_atfork(NULL, NULL, forks_count))
		return PyErr_NoMemory(), -1;
	counts = true;
	for (size_t i = 0; map_calls[i].ml_name && n < 31; i++)
		methods[n++] = map_calls[i];
	map_spec = (PyType_Spec){
		.name = "hetmap._hetmap.Map",
		.basicsize = sizeof(struct map_object),
		.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
		.slots = slots,
	};
	map_type = type_add(module, &map_spec, "Map");
	return map_type ? 0 : -1;
}
