// SPDX-License-Identifier: MIT
/* Buffer: bytes in a device, or of a file; size, and sending to other processes. */
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#define SLICE_MS 200 /* between two looks for Ctrl-C */

PyTypeObject *buffer_type;

struct hm_buffer *buffer_hold(PyObject *self)
{
	struct hm_buffer *buffer = ((struct buffer_object *)self)->buffer;

	if (!buffer)
		PyErr_SetString(PyExc_ValueError, "the buffer is closed");
	return hm_buffer_ref(buffer);
}

PyObject *buffer_wrap(PyTypeObject *type, struct hm_buffer *buffer, PyObject *device,
		      bool is_file)
{
	struct buffer_object *self = (struct buffer_object *)object_new(type);

	if (!self) {
		hm_buffer_unref(buffer);
		return NULL;
	}
	self->buffer = buffer;
	self->device = Py_XNewRef(device);
	self->is_file = is_file;
	return (PyObject *)self;
}

static PyObject *buffer_make(PyTypeObject *type, PyObject *args, PyObject *names)
{
	static char *keys[] = { "device", "size", "max_size", "name", "flags", "place", NULL };
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc) };
	struct hm_buffer *buffer;
	struct hm_device *device;
	PyObject *from, *self;
	int error;

	if (!PyArg_ParseTupleAndKeywords(args, names, "O!O&|O&zO&O&:Buffer", keys, device_type,
					 &from, u64_of, &desc.size, u64_of, &desc.max_size,
					 &desc.name, u32_of, &desc.flags, u32_of, &desc.place))
		return NULL;
	device = device_hold(from);
	if (!device)
		return NULL;
	WITHOUT_GIL(error = hm_buffer_create(device, &desc, &buffer));
	hm_device_unref(device);
	if (error)
		return raise_error(error);
	self = buffer_wrap(type, buffer, from, false);
	if (self && warn_of_less(1) < 0)
		Py_CLEAR(self);
	return self;
}

static PyObject *buffer_from_file(PyObject *type, PyObject *args, PyObject *names)
{
	static char *keys[] = { "file", "offset", "size", "flags", "name", NULL };
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc) };
	PyObject *file, *path = NULL, *self;
	const char *name = NULL;
	struct hm_device *device;
	struct hm_buffer *buffer = NULL;
	int fd = -1, error;

	if (!PyArg_ParseTupleAndKeywords(args, names, "O|O&O&O&z:from_file", keys, &file,
					 u64_of, &desc.offset, u64_of, &desc.size, u32_of,
					 &desc.flags, &desc.name))
		return NULL;
	/* A descriptor, what has one, or a path. */
	if (PyLong_Check(file) || PyObject_HasAttrString(file, "fileno")) {
		fd = PyObject_AsFileDescriptor(file);
		if (fd < 0)
			return NULL;
	} else if (!PyUnicode_FSConverter(file, &path)) {
		return NULL;
	}
	if (path)
		name = PyBytes_AsString(path);
	WITHOUT_GIL(error = hm_device_open("file", &device); if (!error) {
		error = hm_buffer_from_file(device, name, fd, &desc, &buffer);
		hm_device_unref(device);
	});
	Py_XDECREF(path);
	if (error)
		return raise_error(error);
	self = buffer_wrap((PyTypeObject *)type, buffer, NULL, true);
	if (self && warn_of_less(1) < 0)
		Py_CLEAR(self);
	return self;
}

/* The library goes on after a signal: the wait is here, where Ctrl-C is heard. */
static int socket_wait(int fd)
{
	struct pollfd file = { .fd = fd, .events = POLLIN };
	int flags = fcntl(fd, F_GETFL), n;

	if (flags < 0 || flags & O_NONBLOCK)
		return 0;
	do {
		if (PyErr_CheckSignals())
			return -1;
		WITHOUT_GIL(n = poll(&file, 1, SLICE_MS));
	} while (!n || (n < 0 && errno == EINTR));
	return 0;
}

static PyObject *buffer_receive(PyObject *type, PyObject *args, PyObject *names)
{
	static char *keys[] = { "device", "socket", "max_size", "read_only", NULL };
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc) };
	struct hm_buffer_info info = { .struct_size = sizeof(info) };
	PyObject *from, *socket;
	struct hm_device *device;
	struct hm_buffer *buffer;
	int fd, read_only = 0, error;

	if (!PyArg_ParseTupleAndKeywords(args, names, "O!O|O&p:receive", keys, device_type,
					 &from, &socket, u64_of, &desc.max_size, &read_only))
		return NULL;
	fd = PyObject_AsFileDescriptor(socket);
	device = fd < 0 || socket_wait(fd) < 0 ? NULL : device_hold(from);
	if (!device)
		return NULL;
	desc.flags = read_only ? HM_BUFFER_READ_ONLY : 0;
	WITHOUT_GIL(error = hm_buffer_receive(device, fd, &desc, &buffer));
	hm_device_unref(device);
	if (error)
		return raise_error(error);
	WITHOUT_GIL(error = hm_buffer_query(buffer, &info));
	if (error)
		info.backing = HM_BACKING_MEMFD;
	return buffer_wrap((PyTypeObject *)type, buffer, from,
			   info.backing == HM_BACKING_FILE ||
				   info.backing == HM_BACKING_FILE_PRIVATE);
}

static PyObject *buffer_send(PyObject *self, PyObject *args, PyObject *names)
{
	static char *keys[] = { "socket", "read_only", NULL };
	struct hm_buffer *buffer;
	int fd, read_only = 0, error;
	PyObject *socket;

	if (!PyArg_ParseTupleAndKeywords(args, names, "O|p:send", keys, &socket, &read_only))
		return NULL;
	fd = PyObject_AsFileDescriptor(socket);
	buffer = fd < 0 ? NULL : buffer_hold(self);
	if (!buffer)
		return NULL;
	WITHOUT_GIL(error = hm_buffer_send(buffer, fd, read_only ? HM_EXPORT_READ_ONLY : 0);
		    hm_buffer_unref(buffer));
	return none_or_error(error);
}

/* Views have lengths of their own: growth in place leaves them whole, and nothing else does. */
static int views_allow(struct buffer_object *self, uint64_t size, uint64_t now, int follow,
		       int may_move)
{
	if (!self->exports || (follow && size >= now && !may_move))
		return 0;
	PyErr_Format(
		PyExc_BufferError,
		size < now ? "live views of a part that is cut off: %zd at most; release them" :
		may_move   ? "live views that a move would leave behind: %zd; release them" :
			     "live views, which keep their length: %zd; release them, or pass "
			     "follow=True",
		self->exports);
	return -1;
}

static PyObject *buffer_resize(PyObject *object, PyObject *args, PyObject *names)
{
	static char *keys[] = { "size", "follow", "may_move", "append", NULL };
	struct hm_buffer_info info = { .struct_size = sizeof(info) };
	struct buffer_object *self = (struct buffer_object *)object;
	int follow = 0, may_move = 0, append = 0, error;
	struct hm_buffer *buffer;
	uint64_t size;

	if (!PyArg_ParseTupleAndKeywords(args, names, "O&|ppp:resize", keys, u64_of, &size,
					 &follow, &may_move, &append))
		return NULL;
	buffer = buffer_hold(object);
	if (!buffer)
		return NULL;
	if (may_move && self->copies) {
		hm_buffer_unref(buffer);
		PyErr_SetString(
			PyExc_BufferError,
			"another thread is in read() or write() of a map that may move");
		return NULL;
	}
	self->changing++, self->moving += may_move;
	WITHOUT_GIL(error = hm_buffer_query(buffer, &info));
	if (!error && views_allow(self, size, info.size, follow, may_move) < 0)
		error = 1;
	if (!error)
		WITHOUT_GIL(error = hm_buffer_resize(buffer, size,
						     (may_move ? HM_MAY_MOVE : 0) |
							     (append ? HM_GROW_APPEND : 0)));
	self->changing--, self->moving -= may_move;
	hm_buffer_unref(buffer);
	return error == 1 ? NULL : none_or_error(error);
}

static PyObject *buffer_query(PyObject *self, PyObject *unused)
{
	struct hm_buffer_info i = { .struct_size = sizeof(i) };
	struct hm_buffer *buffer = buffer_hold(self);
	int error;

	(void)unused;
	if (!buffer)
		return NULL;
	WITHOUT_GIL(error = hm_buffer_query(buffer, &i); hm_buffer_unref(buffer));
	if (error)
		return raise_error(error);
	return Py_BuildValue("{sKsKsKsKsKsIsIsIsIsIsIsIsIsIsIsI}", "size", i.size, "max_size",
			     i.max_size, "caps", i.caps, "page_size", i.page_size, "serial",
			     i.serial, "flags", i.flags, "backing", i.backing, "generation",
			     i.generation, "segments", i.segments, "maps", i.maps, "exported",
			     i.exported, "access", i.access, "sharing", i.sharing, "place",
			     i.place, "loss", i.loss, "lost", i.lost);
}

static PyObject *buffer_set_loss(PyObject *self, PyObject *args, PyObject *names)
{
	static char *keys[] = { "policy", "with_shadow", NULL };
	struct hm_loss_desc desc = { .struct_size = sizeof(desc) };
	struct hm_buffer *buffer;
	int with_shadow = 0, error;

	if (!PyArg_ParseTupleAndKeywords(args, names, "O&|p:set_loss", keys, u32_of,
					 &desc.policy, &with_shadow))
		return NULL;
	buffer = buffer_hold(self);
	if (!buffer)
		return NULL;
	desc.flags = with_shadow ? HM_LOSS_WITH_SHADOW : 0;
	WITHOUT_GIL(error = hm_buffer_set_loss(buffer, &desc); hm_buffer_unref(buffer));
	return none_or_error(error);
}

static PyObject *buffer_close(PyObject *object, PyObject *unused)
{
	struct buffer_object *self = (struct buffer_object *)object;
	struct hm_buffer *buffer = self->buffer;

	(void)unused;
	self->buffer = NULL;
	WITHOUT_GIL(hm_buffer_unref(buffer));
	return Py_NewRef(Py_None);
}

static int buffer_traverse(PyObject *self, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(self));
	Py_VISIT(((struct buffer_object *)self)->device);
	return 0;
}

static void buffer_dealloc(PyObject *object)
{
	struct buffer_object *self = (struct buffer_object *)object;
	struct hm_buffer *buffer = self->buffer;

	PyObject_GC_UnTrack(object);
	if (buffer)
		WITHOUT_GIL(hm_buffer_unref(buffer));
	Py_CLEAR(self->device);
	object_free(object);
}

static PyObject *buffer_closed(PyObject *self, void *unused)
{
	(void)unused;
	return PyBool_FromLong(!((struct buffer_object *)self)->buffer);
}

static PyObject *buffer_exports(PyObject *self, void *unused)
{
	(void)unused;
	return PyLong_FromSsize_t(((struct buffer_object *)self)->exports);
}

static PyObject *buffer_device(PyObject *object, void *unused)
{
	struct buffer_object *self = (struct buffer_object *)object;

	(void)unused;
	return Py_NewRef(self->device ? self->device : Py_None);
}

static PyObject *buffer_is_file(PyObject *self, void *unused)
{
	(void)unused;
	return PyBool_FromLong(((struct buffer_object *)self)->is_file);
}

#define WITH_NAMES(function) (PyCFunction)(void (*)(void))(function)

static PyMethodDef buffer_methods[] = {
	{ "from_file", WITH_NAMES(buffer_from_file), METH_VARARGS | METH_KEYWORDS | METH_CLASS,
	  "from_file(file, offset=0, size=0, flags=0, name=None) -> Buffer\n--\n\n"
	  "Bytes of a file: a path, a descriptor, or an open file. Size 0: to its end." },
	{ "receive", WITH_NAMES(buffer_receive), METH_VARARGS | METH_KEYWORDS | METH_CLASS,
	  "receive(device, socket, max_size=0, read_only=False) -> Buffer\n--\n\n"
	  "Takes a buffer that another process has sent." },
	{ "send", WITH_NAMES(buffer_send), METH_VARARGS | METH_KEYWORDS,
	  "send(socket, read_only=False)\n--\n\n"
	  "Gives the buffer to the process at the other end." },
	{ "resize", WITH_NAMES(buffer_resize), METH_VARARGS | METH_KEYWORDS,
	  "resize(size, follow=False, may_move=False, append=False)\n--\n\n"
	  "Grows or shrinks; whole maps follow, at their addresses.\n\n"
	  "BufferError while views live. With follow=True growth in place goes on: the views\n"
	  "keep their length, and new ones see the rest." },
	{ "query", buffer_query, METH_NOARGS,
	  "query() -> dict\n--\n\nWhat the buffer is now." },
	{ "set_loss", WITH_NAMES(buffer_set_loss), METH_VARARGS | METH_KEYWORDS,
	  "set_loss(policy, with_shadow=False)\n--\n\nLOSS_ZERO, LOSS_SHADOW or LOSS_RECREATE." },
	{ "close", buffer_close, METH_NOARGS,
	  "close()\n--\n\nDrops the buffer; its maps keep it as long as they need it." },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef buffer_fields[] = {
	{ "closed", buffer_closed, NULL, "True after close().", NULL },
	{ "exports", buffer_exports, NULL, "Views that live, of all maps.", NULL },
	{ "device", buffer_device, NULL, "The Device; None for a file.", NULL },
	{ "is_file", buffer_is_file, NULL, "True for bytes of a file.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot buffer_slots[] = {
	{ Py_tp_new, buffer_make },          { Py_tp_dealloc, buffer_dealloc },
	{ Py_tp_traverse, buffer_traverse }, { Py_tp_methods, buffer_methods },
	{ Py_tp_getset, buffer_fields },     { 0, NULL },
};

static PyType_Spec buffer_spec = {
	.name = "hetmap._hetmap.Buffer",
	.basicsize = sizeof(struct buffer_object),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
	.slots = buffer_slots,
};

int buffer_init(PyObject *module)
{
	buffer_type = type_add(module, &buffer_spec, "Buffer");
	return buffer_type ? 0 : -1;
}
