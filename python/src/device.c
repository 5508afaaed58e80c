// SPDX-License-Identifier: MIT
/* Device: the names that open, what one of them is, and its loss. */
#include "common.h"

#include <hetmap/sim.h>
#include <hetmap/uapi/hetsim.h>

PyTypeObject *device_type;

struct hm_device *device_hold(PyObject *self)
{
	struct hm_device *device = ((struct device_object *)self)->device;

	if (!device)
		PyErr_SetString(PyExc_ValueError, "the device is closed");
	return hm_device_ref(device);
}

static PyObject *device_make(PyTypeObject *type, PyObject *args, PyObject *names)
{
	static char *keys[] = { "name", NULL };
	struct hm_device *device;
	struct device_object *self;
	const char *name = NULL;
	int error;

	if (!PyArg_ParseTupleAndKeywords(args, names, "|z:Device", keys, &name))
		return NULL;
	WITHOUT_GIL(error = hm_device_open(name, &device));
	if (error)
		return raise_plain(error);
	self = (struct device_object *)object_new(type);
	if (!self)
		return hm_device_unref(device), NULL;
	self->device = device;
	return (PyObject *)self;
}

static PyObject *device_close(PyObject *self, PyObject *unused)
{
	struct hm_device *device = ((struct device_object *)self)->device;

	(void)unused;
	((struct device_object *)self)->device = NULL;
	WITHOUT_GIL(hm_device_unref(device));
	return Py_NewRef(Py_None);
}

static void device_dealloc(PyObject *self)
{
	struct hm_device *device = ((struct device_object *)self)->device;

	if (device)
		WITHOUT_GIL(hm_device_unref(device));
	object_free(self);
}

static PyObject *device_facts(const struct hm_device_info *i)
{
	return Py_BuildValue("{sssssssisKsKsKsKsKsI}", "name", i->name, "backend", i->backend,
			     "description", i->description, "numa_node", i->numa_node, "caps",
			     i->caps, "page_size", i->page_size, "granule", i->granule,
			     "memory_total", i->memory_total, "memory_free", i->memory_free,
			     "generation", i->generation);
}

static PyObject *device_query(PyObject *self, PyObject *unused)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	struct hm_device *device = device_hold(self);
	int error;

	(void)unused;
	if (!device)
		return NULL;
	WITHOUT_GIL(error = hm_device_query(device, &info); hm_device_unref(device));
	return error ? raise_error(error) : device_facts(&info);
}

static PyObject *row_of(const void *infos, uint64_t index)
{
	return device_facts((const struct hm_device_info *)infos + index);
}

static PyObject *device_list(PyObject *self, PyObject *unused)
{
	struct hm_device_info infos[64] = { { .struct_size = sizeof(infos[0]) } };
	uint32_t n;
	int error;

	(void)self, (void)unused;
	WITHOUT_GIL(error = hm_device_list(infos, 64, &n));
	return error ? raise_error(error) : list_of(n < 64 ? n : 64, row_of, infos);
}

static PyObject *device_recover(PyObject *self, PyObject *args, PyObject *names)
{
	static char *keys[] = { "shadowed", NULL };
	struct hm_recover_info i = { .struct_size = sizeof(i) };
	struct hm_device *device;
	int shadowed = 0, error;

	if (!PyArg_ParseTupleAndKeywords(args, names, "|p:recover", keys, &shadowed))
		return NULL;
	device = device_hold(self);
	if (!device)
		return NULL;
	WITHOUT_GIL(error = hm_device_recover(device, shadowed ? HM_RECOVER_SHADOWED : 0, &i);
		    hm_device_unref(device));
	if (error)
		return raise_error(error);
	return Py_BuildValue("{sIsIsIsIsIsi}", "generation", i.generation, "buffers", i.buffers,
			     "buffers_back", i.buffers_back, "buffers_left", i.buffers_left,
			     "maps_back", i.maps_back, "error", i.error);
}

static PyObject *device_unplug(PyObject *self, PyObject *unused)
{
	struct hetsim_inject inject = { .size = sizeof(inject), .kind = HETSIM_INJECT_UNPLUG };
	struct hm_device *device = device_hold(self);
	int error;

	(void)unused;
	if (!device)
		return NULL;
	WITHOUT_GIL(error = hm_sim_call(device, HETSIM_INJECT, &inject);
		    hm_device_unref(device));
	return none_or_error(error);
}

static PyObject *device_closed(PyObject *self, void *unused)
{
	(void)unused;
	return PyBool_FromLong(!((struct device_object *)self)->device);
}

static PyMethodDef device_methods[] = {
	{ "close", device_close, METH_NOARGS,
	  "close()\n--\n\nDrops the device; buffers keep it as long as they need it." },
	{ "query", device_query, METH_NOARGS, "query() -> dict\n--\n\nWhat the device is." },
	{ "list", device_list, METH_NOARGS | METH_STATIC,
	  "list() -> list of dict\n--\n\nThe devices that can be opened here." },
	{ "recover", (PyCFunction)(void (*)(void))device_recover, METH_VARARGS | METH_KEYWORDS,
	  "recover(shadowed=False) -> dict\n--\n\n"
	  "Opens a lost device again: hm_device_recover()." },
	{ "sim_unplug", device_unplug, METH_NOARGS,
	  "sim_unplug()\n--\n\nTakes a simulated device away, as pulling its cable would." },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef device_fields[] = {
	{ "closed", device_closed, NULL, "True after close().", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot device_slots[] = {
	{ Py_tp_new, device_make },
	{ Py_tp_dealloc, device_dealloc },
	{ Py_tp_methods, device_methods },
	{ Py_tp_getset, device_fields },
	{ 0, NULL },
};

static PyType_Spec device_spec = {
	.name = "hetmap._hetmap.Device",
	.basicsize = sizeof(struct device_object),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
	.slots = device_slots,
};

int device_init(PyObject *module)
{
	device_type = type_add(module, &device_spec, "Device");
	return device_type ? 0 : -1;
}
