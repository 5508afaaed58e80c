// SPDX-License-Identifier: MIT
/* The module: errors as exceptions, and what all objects need. */
#include "common.h"

#include <errno.h>
#include <hetmap/sim.h>
#include <string.h>

static PyObject *error_class, *lost_class, *cut_class, *less_class, *no_file_class;

int errors_load(void)
{
	PyObject *errors = PyImport_ImportModule("hetmap._errors");

	if (!errors)
		return -1;
	error_class = PyObject_GetAttrString(errors, "Error");
	lost_class = PyObject_GetAttrString(errors, "DeviceLost");
	cut_class = PyObject_GetAttrString(errors, "FileCut");
	less_class = PyObject_GetAttrString(errors, "LessWarning");
	no_file_class = PyObject_GetAttrString(errors, "NoFile");
	Py_DECREF(errors);
	return error_class && lost_class && cut_class && less_class && no_file_class ? 0 : -1;
}

PyObject *text_of(const char *text)
{
	return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "surrogateescape");
}

static PyObject *raise_as(PyObject *class, int error)
{
	PyObject *exception, *text = text_of(hm_errmsg());

	/* Ctrl-C between the tries of a call; its handler may call the library. */
	if (!text || (error == -EINTR && PyErr_CheckSignals())) {
		Py_XDECREF(text);
		return NULL;
	}
	exception = PyObject_CallFunction(class, "iN", -error, text);
	if (exception) {
		PyErr_SetObject(class, exception);
		Py_DECREF(exception);
	}
	return NULL;
}

PyObject *raise_plain(int error)
{
	return raise_as(error_class, error);
}

PyObject *raise_error(int error)
{
	return raise_as(error == -ENODEV ? lost_class :
			error == -ENOENT ? no_file_class :
					   error_class,
			error);
}

PyObject *raise_of_map(const struct map_object *self, int error)
{
	/* No map at the address: another call has moved it. */
	if (error == -ENOENT)
		return raise_plain(error);
	if (self->buffer->is_file && (error == -EIO || error == -ERANGE || error == -EFAULT))
		return raise_as(cut_class, error);
	return raise_error(error);
}

PyObject *none_or_error(int error)
{
	return error ? raise_error(error) : Py_NewRef(Py_None);
}

int warn_of_less(int level)
{
	PyObject *text;
	int result;

	if (!*hm_warning())
		return 0;
	text = text_of(hm_warning());
	result = text ? PyErr_WarnFormat(less_class, level, "%U", text) : -1;
	Py_XDECREF(text);
	return result;
}

PyObject *object_new(PyTypeObject *type)
{
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);

	return alloc(type, 0);
}

void object_free(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	release(self);
	Py_DECREF(type);
}

PyTypeObject *type_add(PyObject *module, PyType_Spec *spec, const char *name)
{
	PyObject *type = PyType_FromSpec(spec);

	if (type && PyModule_AddObjectRef(module, name, type) < 0)
		Py_CLEAR(type);
	return (PyTypeObject *)type;
}

int u64_of(PyObject *value, void *ret)
{
	PyObject *number = PyNumber_Index(value);
	unsigned long long v = number ? PyLong_AsUnsignedLongLong(number) : 0;

	Py_XDECREF(number);
	if (PyErr_Occurred())
		return 0;
	*(uint64_t *)ret = v;
	return 1;
}

int u32_of(PyObject *value, void *ret)
{
	uint64_t v;

	if (!u64_of(value, &v))
		return 0;
	if (v > UINT32_MAX) {
		PyErr_Format(PyExc_OverflowError, "%llu is more than 32 bits hold",
			     (unsigned long long)v);
		return 0;
	}
	*(uint32_t *)ret = (uint32_t)v;
	return 1;
}

int handler_want(void)
{
	static bool there;
	int error;

	if (there)
		return 0;
	error = hm_handler_install(0);
	/* -EBUSY: the program has it, with flags of its own. */
	if (error && error != -EBUSY)
		return raise_error(error), -1;
	there = true;
	return 0;
}

static PyObject *module_version(PyObject *self, PyObject *unused)
{
	uint32_t v = hm_version();

	(void)self, (void)unused;
	return PyUnicode_FromFormat("%u.%u.%u", v >> 16, v >> 8 & 255, v & 255);
}

static PyObject *module_stats(PyObject *self, PyObject *unused)
{
	struct hm_stats s = { .struct_size = sizeof(s) };
	int error = hm_stats_get(&s);

	(void)self, (void)unused;
	if (error)
		return raise_error(error);
	return Py_BuildValue("{sKsKsKsKsKsKsKsK}", "devices", s.devices, "buffers", s.buffers,
			     "maps", s.maps, "bytes_mapped", s.bytes_mapped, "bytes_reserved",
			     s.bytes_reserved, "bytes_locked", s.bytes_locked, "bytes_copied",
			     s.bytes_copied, "launches", s.launches);
}

static PyObject *module_nothing(PyObject *self, PyObject *unused)
{
	(void)self, (void)unused;
	return Py_NewRef(Py_None);
}

static PyObject *module_plug(PyObject *self, PyObject *name)
{
	const char *text;
	int error;

	(void)self;
	if (!PyArg_Parse(name, "s:sim_plug", &text))
		return NULL;
	WITHOUT_GIL(error = hm_sim_plug(text));
	return none_or_error(error);
}

static PyMethodDef module_methods[] = {
	{ "version", module_version, METH_NOARGS,
	  "version() -> str\n--\n\nThe version of the loaded library." },
	{ "stats", module_stats, METH_NOARGS,
	  "stats() -> dict\n--\n\nCounters of the process: what is alive, mapped, locked." },
	{ "sim_plug", module_plug, METH_O,
	  "sim_plug(name)\n--\n\nPlugs a simulated device in again after it was taken away." },
	{ "_nothing", module_nothing, METH_NOARGS,
	  "A call that does nothing, to measure against." },
	{ NULL, NULL, 0, NULL },
};

static struct PyModuleDef module_definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "hetmap._hetmap",
	.m_doc = "Devices, buffers, maps and launches of libhetmap. Use the package hetmap.",
	.m_size = 0,
	.m_methods = module_methods,
};

PyMODINIT_FUNC PyInit__hetmap(void);

/* Its types are the process's, so that a second interpreter can't have them. */
PyMODINIT_FUNC PyInit__hetmap(void)
{
	PyObject *module;

	if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
		PyErr_SetString(PyExc_ImportError,
				"hetmap works in the main interpreter only: import it there");
		return NULL;
	}
	if (errors_load() < 0)
		return NULL;
	module = PyModule_Create(&module_definition);
	if (module &&
	    (device_init(module) < 0 || buffer_init(module) < 0 || map_init(module) < 0 ||
	     launch_init(module) < 0 || safetensors_init(module) < 0 ||
	     tokens_init(module) < 0 || gguf_init(module) < 0 || pieces_init(module) < 0 ||
	     table_init(module) < 0))
		Py_CLEAR(module);
	return module;
}
