// SPDX-License-Identifier: MIT
/* The bytes of a map as a DLPack capsule. The layout is that of DLPack 1.0. */
#include "common.h"

#include <stdlib.h>

#define DL_CPU 1
#define DL_UINT 1
#define DL_READ_ONLY 1ull

struct dl_tensor {
	void *data;
	int32_t device_type;
	int32_t device_id;
	int32_t n_dimension;
	uint8_t code;
	uint8_t bits;
	uint16_t lanes;
	int64_t *shape;
	int64_t *strides;
	uint64_t byte_offset;
};

struct dl_managed {
	struct dl_tensor tensor;
	void *context;
	void (*deleter)(struct dl_managed *managed);
};

struct dl_versioned {
	uint32_t major, minor;
	void *context;
	void (*deleter)(struct dl_versioned *managed);
	uint64_t flags;
	struct dl_tensor tensor;
};

/* Both shapes of it, which come first, with what they point to. */
struct shipped {
	union {
		struct dl_managed old;
		struct dl_versioned versioned;
	};
	PyObject *view;
	int64_t shape, stride;
};

/* Consumers call it on any thread, and after the interpreter has ended: then nothing is left. */
static void shipped_end(struct shipped *shipped)
{
	PyGILState_STATE state;

	if (!Py_IsInitialized())
		return;
	state = PyGILState_Ensure();
	Py_DECREF(shipped->view);
	PyGILState_Release(state);
	free(shipped);
}

static void old_end(struct dl_managed *managed)
{
	shipped_end(managed->context);
}

static void versioned_end(struct dl_versioned *managed)
{
	shipped_end(managed->context);
}

/* A capsule that nobody consumed still has its first name. */
static void capsule_end(PyObject *capsule)
{
	const char *names[] = { "dltensor", "dltensor_versioned" };

	for (int i = 0; i < 2; i++)
		if (PyCapsule_IsValid(capsule, names[i]))
			shipped_end(PyCapsule_GetPointer(capsule, names[i]));
}

static void fill(struct dl_tensor *tensor, const Py_buffer *bytes, struct shipped *shipped)
{
	shipped->shape = bytes->len, shipped->stride = 1;
	*tensor = (struct dl_tensor){ .data = bytes->buf,
				      .device_type = DL_CPU,
				      .n_dimension = 1,
				      .code = DL_UINT,
				      .bits = 8,
				      .lanes = 1,
				      .shape = &shipped->shape,
				      .strides = &shipped->stride };
}

static PyObject *ship(PyObject *self, bool versioned)
{
	struct shipped *shipped = calloc(1, sizeof(*shipped));
	const char *name = versioned ? "dltensor_versioned" : "dltensor";
	PyObject *capsule = NULL;
	Py_buffer bytes;

	if (!shipped)
		return PyErr_NoMemory();
	shipped->view = PyMemoryView_FromObject(self);
	if (!shipped->view || PyObject_GetBuffer(shipped->view, &bytes, PyBUF_SIMPLE) < 0)
		goto fail;
	if (versioned) {
		shipped->versioned.major = 1;
		shipped->versioned.context = shipped;
		shipped->versioned.deleter = versioned_end;
		shipped->versioned.flags = bytes.readonly ? DL_READ_ONLY : 0;
		fill(&shipped->versioned.tensor, &bytes, shipped);
	} else {
		shipped->old.context = shipped;
		shipped->old.deleter = old_end;
		fill(&shipped->old.tensor, &bytes, shipped);
	}
	if (bytes.readonly && !versioned)
		PyErr_SetString(PyExc_BufferError,
				"the map is for reading, which DLPack before "
				"1.0 can't say: pass max_version=(1, 0)");
	else
		capsule = PyCapsule_New(shipped, name, capsule_end);
	PyBuffer_Release(&bytes);
	if (capsule)
		return capsule;
fail:
	Py_XDECREF(shipped->view);
	free(shipped);
	return NULL;
}

static bool is_none(PyObject *value)
{
	return !value || value == Py_None;
}

PyObject *map_dlpack(struct map_object *self, PyObject *args, PyObject *names)
{
	static char *keys[] = { "stream", "max_version", "dl_device", "copy", NULL };
	PyObject *stream = NULL, *version = NULL, *device = NULL, *copy = NULL;
	long major = 0;

	if (!PyArg_ParseTupleAndKeywords(args, names, "|$OOOO:__dlpack__", keys, &stream,
					 &version, &device, &copy))
		return NULL;
	if (!is_none(version)) {
		PyObject *first = PySequence_GetItem(version, 0);

		major = first ? PyLong_AsLong(first) : -1;
		Py_XDECREF(first);
		if (PyErr_Occurred())
			return NULL;
	}
	if (!is_none(stream) || copy == Py_True) {
		PyErr_SetString(PyExc_BufferError,
				"a map is shared as it is: without a stream, without a copy");
		return NULL;
	}
	if (!is_none(device)) {
		PyObject *type = PySequence_GetItem(device, 0);
		long number = type ? PyLong_AsLong(type) : -1;

		Py_XDECREF(type);
		if (PyErr_Occurred())
			return NULL;
		if (number != DL_CPU) {
			PyErr_SetString(PyExc_BufferError,
					"the bytes of a map are the CPU's: (1, 0)");
			return NULL;
		}
	}
	return ship((PyObject *)self, major >= 1);
}
