// SPDX-License-Identifier: MIT
/* Launch: accelerators, queues, kernels, and Python's arguments as a kernel takes them. */
#include "common.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define SLICE_NS 50000000ull /* between two looks for Ctrl-C */

static PyTypeObject *accel_type, *queue_type, *fence_type, *kernel_type;

enum code { IN, OUT, INOUT, F32, F64, I32, U32, I64, U64, LOCAL, CODES };

static const char *const words[CODES] = { "in",  "out", "inout", "f32", "f64",
					  "i32", "u32", "i64",   "u64", "local" };

/* ---- accelerators ---- */

static PyObject *accel_make(PyTypeObject *type, PyObject *args, PyObject *names)
{
	static char *keys[] = { "name", "flags", NULL };
	struct hm_accel_desc desc = { .struct_size = sizeof(desc) };
	struct accel_object *self;
	struct hm_accel *accel;
	const char *name = NULL;
	int error;

	if (!PyArg_ParseTupleAndKeywords(args, names, "|zO&:Accel", keys, &name, u32_of,
					 &desc.flags))
		return NULL;
	WITHOUT_GIL(error = hm_accel_open(name, &desc, &accel));
	if (error)
		return raise_plain(error);
	self = (struct accel_object *)object_new(type);
	if (!self) {
		hm_accel_unref(accel);
		return NULL;
	}
	self->accel = accel;
	return (PyObject *)self;
}

static PyObject *accel_facts(const struct hm_accel_info *i)
{
	return Py_BuildValue("{sssssssssssIsKsKsKsIsI}", "name", i->name, "description",
			     i->description, "driver", i->driver, "driver_version",
			     i->driver_version, "forms", i->forms, "kind", i->kind, "window",
			     i->window, "memory", i->memory, "alignment", i->alignment, "units",
			     i->units, "ways", i->ways);
}

static PyObject *accel_query(PyObject *self, PyObject *unused)
{
	struct hm_accel_info info = { .struct_size = sizeof(info) };
	int error;

	(void)unused;
	WITHOUT_GIL(error = hm_accel_query(((struct accel_object *)self)->accel, &info));
	return error ? raise_error(error) : accel_facts(&info);
}

static PyObject *row_of(const void *infos, uint64_t index)
{
	return accel_facts((const struct hm_accel_info *)infos + index);
}

static PyObject *accel_list(PyObject *self, PyObject *unused)
{
	struct hm_accel_info infos[32] = { { .struct_size = sizeof(infos[0]) } };
	uint32_t n;
	int error;

	(void)self, (void)unused;
	WITHOUT_GIL(error = hm_accel_list(infos, 32, &n));
	return error ? raise_error(error) : list_of(n < 32 ? n : 32, row_of, infos);
}

static void accel_dealloc(PyObject *self)
{
	struct hm_accel *accel = ((struct accel_object *)self)->accel;

	WITHOUT_GIL(hm_accel_unref(accel));
	object_free(self);
}

/* ---- kernels ---- */

static int signature_read(struct kernel_object *self, const char *signature)
{
	for (const char *at = signature; *at;) {
		size_t n = strcspn(at, " ");
		int code = 0;

		while (n && code < CODES &&
		       (strlen(words[code]) != n || strncmp(at, words[code], n)))
			code++;
		if (n && (code == CODES || self->n_arg == HM_KERNEL_MAX_ARGS)) {
			PyErr_Format(
				PyExc_ValueError,
				"signature \"%s\": up to %d of in, out, inout, f32, f64, i32, "
				"u32, i64, u64, local",
				signature, HM_KERNEL_MAX_ARGS);
			return -1;
		}
		if (n)
			self->codes[self->n_arg++] = (uint8_t)code;
		at += n + (at[n] == ' ');
	}
	return 0;
}

/* Of a sequence of (op, destination, source, source2, length, value); @steps has room. */
static int engine_read(PyObject *engine, struct hm_engine_step steps[64], uint32_t *ret_n)
{
	Py_ssize_t n = PySequence_Size(engine);

	if (n < 0)
		return -1;
	if (n > 64) {
		PyErr_SetString(PyExc_ValueError, "an engine program has up to 64 steps");
		return -1;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *step = PySequence_GetItem(engine, i),
			 *all = step ? PySequence_Tuple(step) : NULL;
		struct hm_engine_step *s = &steps[i];
		int good;

		*s = (struct hm_engine_step){ 0,
					      HM_ENGINE_NONE,
					      HM_ENGINE_NONE,
					      HM_ENGINE_NONE,
					      HM_ENGINE_NONE,
					      HM_ENGINE_NONE,
					      0 };
		good = all && PyArg_ParseTuple(all, "b|bbbbb", &s->op, &s->destination,
					       &s->source, &s->source2, &s->length, &s->value);
		Py_XDECREF(all);
		Py_XDECREF(step);
		if (!good)
			return -1;
	}
	*ret_n = (uint32_t)n;
	return 0;
}

static PyObject *kernel_make(PyTypeObject *type, PyObject *args, PyObject *names)
{
	static char *keys[] = { "name",     "signature", "source", "options",
				"function", "group",     "engine", NULL };
	struct hm_kernel_desc desc = { .struct_size = sizeof(desc), .group = { 0 } };
	uint64_t function = 0;
	struct hm_engine_step steps[64];
	struct kernel_object *self;
	PyObject *engine = NULL;
	int error;

	if (!PyArg_ParseTupleAndKeywords(args, names, "ss|zzO&O&O:Kernel", keys, &desc.name,
					 &desc.signature, &desc.opencl, &desc.options, u64_of,
					 &function, u64_of, &desc.group[0], &engine))
		return NULL;
	desc.cpu = (hm_cpu_function *)(uintptr_t)function;
	if (engine && engine != Py_None) {
		if (engine_read(engine, steps, &desc.n_engine) < 0)
			return NULL;
		desc.engine = steps;
	}
	self = (struct kernel_object *)object_new(type);
	if (!self || signature_read(self, desc.signature) < 0) {
		Py_XDECREF((PyObject *)self);
		return NULL;
	}
	error = hm_kernel_create(&desc, &self->kernel);
	if (error) {
		raise_error(error);
		Py_CLEAR(self);
	}
	return (PyObject *)self;
}

static PyObject *kernel_build(PyObject *self, PyObject *accel)
{
	int error;

	if (!PyObject_TypeCheck(accel, accel_type)) {
		PyErr_SetString(PyExc_TypeError, "build() takes an Accel");
		return NULL;
	}
	WITHOUT_GIL(error = hm_kernel_build(((struct kernel_object *)self)->kernel,
					    ((struct accel_object *)accel)->accel));
	return none_or_error(error);
}

static void kernel_dealloc(PyObject *self)
{
	struct hm_kernel *kernel = ((struct kernel_object *)self)->kernel;

	WITHOUT_GIL(hm_kernel_unref(kernel));
	object_free(self);
}

/* ---- queues ---- */

static PyObject *queue_make(PyTypeObject *type, PyObject *args, PyObject *names)
{
	static char *keys[] = { "accel", NULL };
	struct queue_object *self;
	struct hm_queue *queue;
	PyObject *accel;
	int error;

	if (!PyArg_ParseTupleAndKeywords(args, names, "O!:Queue", keys, accel_type, &accel))
		return NULL;
	WITHOUT_GIL(error = hm_queue_create(((struct accel_object *)accel)->accel, 0, &queue));
	if (error)
		return raise_error(error);
	self = (struct queue_object *)object_new(type);
	if (!self) {
		hm_queue_unref(queue);
		return NULL;
	}
	self->queue = queue;
	return (PyObject *)self;
}

static void queue_dealloc(PyObject *self)
{
	struct hm_queue *queue = ((struct queue_object *)self)->queue;

	WITHOUT_GIL(hm_queue_unref(queue));
	object_free(self);
}

static int scalar_of(enum code code, PyObject *value, struct hm_arg *arg)
{
	PyObject *number = NULL;
	uint32_t bytes = 0;

	switch (code) {
	case F32:
		*arg = hm_arg_f32((float)PyFloat_AsDouble(value));
		break;
	case F64:
		*arg = hm_arg_f64(PyFloat_AsDouble(value));
		break;
	case LOCAL:
		*arg = hm_arg_local(u32_of(value, &bytes) ? bytes : 0);
		break;
	default:
		/* numpy's scalars, too; not floats, which would lose their fraction. */
		number = PyNumber_Index(value);
		if (!number)
			return -1;
		if (code == I32 || code == I64) {
			long long v = PyLong_AsLongLong(number);

			*arg = code == I32 ? hm_arg_i32((int32_t)v) : hm_arg_i64(v);
			if (code == I32 && v != (int32_t)v && !PyErr_Occurred())
				PyErr_SetString(PyExc_OverflowError, "the argument is no i32");
		} else {
			unsigned long long v = PyLong_AsUnsignedLongLong(number);

			*arg = code == U32 ? hm_arg_u32((uint32_t)v) : hm_arg_u64(v);
			if (code == U32 && v > UINT32_MAX && !PyErr_Occurred())
				PyErr_SetString(PyExc_OverflowError, "the argument is no u32");
		}
		Py_DECREF(number);
	}
	return PyErr_Occurred() ? -1 : 0;
}

static int pointer_of(enum code code, PyObject *value, struct hm_arg *arg, Py_buffer *view)
{
	int flags = code == IN ? PyBUF_ND : PyBUF_ND | PyBUF_WRITABLE;

	if (PyObject_GetBuffer(value, view, flags) < 0)
		return -1;
	*arg = hm_arg_range(view->buf, (uint64_t)view->len,
			    code == IN  ? HM_READ :
			    code == OUT ? HM_WRITE :
					  HM_READ | HM_WRITE);
	return 0;
}

static int grid_read(PyObject *n, uint64_t grid[3])
{
	grid[0] = grid[1] = grid[2] = 1;
	if (!PyTuple_Check(n))
		return u64_of(n, &grid[0]) ? 0 : -1;
	return PyArg_ParseTuple(n, "O&|O&O&", u64_of, &grid[0], u64_of, &grid[1], u64_of,
				&grid[2]) ?
		       0 :
		       -1;
}

static PyObject *fence_wrap(struct hm_fence *fence)
{
	struct fence_object *self = (struct fence_object *)object_new(fence_type);

	if (self)
		self->fence = fence;
	else
		hm_fence_unref(fence);
	return (PyObject *)self;
}

/* launch(kernel, n, *args): the library keeps the maps until the work is done. */
static PyObject *queue_launch(PyObject *self, PyObject *all)
{
	struct hm_queue *queue = ((struct queue_object *)self)->queue;
	Py_buffer views[HM_KERNEL_MAX_ARGS];
	struct hm_arg args[HM_KERNEL_MAX_ARGS];
	Py_ssize_t n = PyTuple_Size(all) - 2;
	struct kernel_object *kernel;
	struct hm_fence *fence;
	uint64_t grid[3];
	int held = 0, error = 1;

	if (n < 0 || !PyObject_TypeCheck(PyTuple_GetItem(all, 0), kernel_type)) {
		PyErr_SetString(PyExc_TypeError,
				"launch() takes a Kernel, its grid, its arguments");
		return NULL;
	}
	kernel = (struct kernel_object *)PyTuple_GetItem(all, 0);
	if (grid_read(PyTuple_GetItem(all, 1), grid) < 0)
		return NULL;
	if (n != kernel->n_arg) {
		PyErr_Format(PyExc_TypeError, "the kernel takes %u arguments, not %zd",
			     kernel->n_arg, n);
		return NULL;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *value = PyTuple_GetItem(all, i + 2);
		enum code code = kernel->codes[i];

		if (code > INOUT ? scalar_of(code, value, &args[i]) :
				   pointer_of(code, value, &args[i], &views[held]))
			goto done;
		held += code <= INOUT;
	}
	WITHOUT_GIL(error = hm_queue_launch(queue, kernel->kernel, grid, args, (uint32_t)n,
					    &fence));
	if (error)
		raise_error(error);
done:
	while (held)
		PyBuffer_Release(&views[--held]);
	return error ? NULL : fence_wrap(fence);
}

/* ---- fences ---- */

static PyObject *fence_wait(PyObject *object, PyObject *args, PyObject *names)
{
	static char *keys[] = { "timeout", NULL };
	struct hm_fence *fence = ((struct fence_object *)object)->fence;
	PyObject *timeout = NULL;
	uint64_t left = UINT64_MAX, slice;
	int error;

	if (!PyArg_ParseTupleAndKeywords(args, names, "|O:wait", keys, &timeout))
		return NULL;
	if (timeout && timeout != Py_None) {
		double seconds = PyFloat_AsDouble(timeout);

		if (PyErr_Occurred())
			return NULL;
		if (isnan(seconds)) {
			PyErr_SetString(PyExc_ValueError, "the timeout is no number");
			return NULL;
		}
		left = seconds <= 0  ? 0 :
		       seconds > 1e9 ? UINT64_MAX :
				       (uint64_t)(seconds * 1e9);
	}
	for (;;) {
		slice = left < SLICE_NS ? left : SLICE_NS;
		WITHOUT_GIL(error = hm_fence_wait(fence, slice));
		if (error != -ETIME)
			return none_or_error(error);
		if (PyErr_CheckSignals())
			return NULL;
		if (left != UINT64_MAX)
			left -= slice;
		if (!left)
			break;
	}
	PyErr_SetString(PyExc_TimeoutError, "the work is not done yet: wait again");
	return NULL;
}

static PyObject *fence_query(PyObject *self, PyObject *unused)
{
	struct hm_fence_info i = { .struct_size = sizeof(i) };
	int error = hm_fence_query(((struct fence_object *)self)->fence, &i);

	(void)unused;
	if (error)
		return raise_error(error);
	return Py_BuildValue("{sNsisIsK}", "done", PyBool_FromLong((long)i.done), "status",
			     i.status, "way_in", i.way_in, "bytes_copied", i.bytes_copied);
}

static void fence_dealloc(PyObject *self)
{
	struct hm_fence *fence = ((struct fence_object *)self)->fence;

	WITHOUT_GIL(hm_fence_unref(fence));
	object_free(self);
}

#define TYPE(kind, text, slot, make, ...)                                               \
	static PyMethodDef kind##_methods[] = { __VA_ARGS__, { NULL, NULL, 0, NULL } }; \
	static PyType_Slot kind##_slots[] = {                                           \
		{ Py_tp_dealloc, kind##_dealloc },                                      \
		{ Py_tp_methods, kind##_methods },                                      \
		{ Py_tp_doc, text },                                                    \
		{ slot, make },                                                         \
		{ 0, NULL },                                                            \
	};

TYPE(accel, "Accel(name=None, flags=0)\n--\n\nAn accelerator; None is the best one.", Py_tp_new,
     accel_make, { "query", accel_query, METH_NOARGS, "query() -> dict\n--\n\nWhat it is." },
     { "list", accel_list, METH_NOARGS | METH_STATIC,
       "list() -> list of dict\n--\n\nThe accelerators that can be opened here." })
TYPE(kernel,
     "Kernel(name, signature, source=None, options=None, function=0, group=0, engine=None)\n--\n\n"
     "Work by its name: OpenCL C source, the address of an hm_cpu_function, which must outlive\n"
     "the work, or engine steps (op, destination, source, source2, length, value), which are\n"
     "indices of arguments.",
     Py_tp_new, kernel_make,
     { "build", kernel_build, METH_O, "build(accel)\n--\n\nBuilds it for an accelerator now." })
TYPE(queue, "Queue(accel)\n--\n\nOrdered work on an accelerator.", Py_tp_new, queue_make,
     { "launch", queue_launch, METH_VARARGS,
       "launch(kernel, n, *args) -> Fence\n--\n\n"
       "Runs a kernel over n items, or a tuple of up to three numbers. Arguments are arrays\n"
       "over maps, and numbers of the types that the signature has." })
TYPE(fence, "Fence: work that is under way.", 0, NULL,
     { "wait", (PyCFunction)(void (*)(void))fence_wait, METH_VARARGS | METH_KEYWORDS,
       "wait(timeout=None)\n--\n\nUntil the work is done; TimeoutError after so many seconds." },
     { "query", fence_query, METH_NOARGS,
       "query() -> dict\n--\n\nWhether it is done, and how." })

#define SPEC(kind, type_name, more)                                                     \
	(PyType_Spec)                                                                   \
	{                                                                               \
		.name = "hetmap." type_name, .basicsize = sizeof(struct kind##_object), \
		.flags = Py_TPFLAGS_DEFAULT | (more), .slots = kind##_slots             \
	}

int launch_init(PyObject *module)
{
	static PyType_Spec accel, kernel, queue, fence;

	accel = SPEC(accel, "Accel", 0);
	kernel = SPEC(kernel, "Kernel", 0);
	queue = SPEC(queue, "Queue", 0);
	fence = SPEC(fence, "Fence", Py_TPFLAGS_DISALLOW_INSTANTIATION);
	accel_type = type_add(module, &accel, "Accel");
	kernel_type = type_add(module, &kernel, "Kernel");
	queue_type = type_add(module, &queue, "Queue");
	fence_type = type_add(module, &fence, "Fence");
	return accel_type && kernel_type && queue_type && fence_type ? 0 : -1;
}
