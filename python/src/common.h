/* SPDX-License-Identifier: MIT */
/* What the files of hetmap._hetmap share: the objects, and errors as exceptions. */
#ifndef HETMAP_PYTHON_COMMON_H
#define HETMAP_PYTHON_COMMON_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <hetmap/hetmap.h>
#include <stdbool.h>

struct device_object {
	PyObject_HEAD struct hm_device *device; /* NULL: closed */
};

struct buffer_object {
	PyObject_HEAD struct hm_buffer *buffer; /* NULL: closed */
	PyObject *device;                       /* NULL: made of no Device, as a file is */
	Py_ssize_t exports;                     /* views of all its maps */
	int changing; /* resizes under way, during which no view may begin */
	int moving;   /* those of them that may change addresses */
	int copies;   /* read() and write() under way, which use an address */
	bool is_file;
};

struct map_object {
	PyObject_HEAD struct hm_map *map; /* NULL: closed, and no view is left */
	struct buffer_object *buffer;
	PyObject *address; /* the last answer, so that asking again makes no number */
	Py_ssize_t exports;
	Py_ssize_t writable; /* exports that may store */
	uint32_t access;     /* that the map was made with */
	int changing;        /* protect() under way, during which no view may begin */
	unsigned int forks;  /* of the process, when the map was made */
	bool mixed;          /* rights were changed since */
	bool closed;
};

/* Python's side of the rest: a handle with its kind. */
struct accel_object {
	PyObject_HEAD struct hm_accel *accel;
};

struct queue_object {
	PyObject_HEAD struct hm_queue *queue;
};

struct fence_object {
	PyObject_HEAD struct hm_fence *fence;
};

struct kernel_object {
	PyObject_HEAD struct hm_kernel *kernel;
	uint32_t n_arg;
	uint8_t codes[HM_KERNEL_MAX_ARGS]; /* enum code of launch.c */
};

/* A file that is open: its handle is the library's. */
struct handle_object {
	PyObject_HEAD void *handle;
};

extern PyTypeObject *device_type, *buffer_type, *map_type;

/* So much at a time, so that Ctrl-C is heard in between. */
#define PART (64ull << 20)

/* The GIL is another thread's while @call runs. */
#define WITHOUT_GIL(call)                    \
	do {                                 \
		Py_BEGIN_ALLOW_THREADS call; \
		Py_END_ALLOW_THREADS         \
	} while (0)

/* Raise what hm_errmsg() says. All return NULL. */
PyObject *raise_error(int error);
/* The same for bytes of a map: those of a file are hetmap.FileCut. */
PyObject *raise_of_map(const struct map_object *self, int error);
/* The device was never there: a plain hetmap.Error. */
PyObject *raise_plain(int error);
/* @level: 1 for the caller, 2 for the caller's own. -1: the warning is an exception here. */
int warn_of_less(int level);
int errors_load(void);

/* Of a text of the library: names of files, which are in it, may have any bytes. */
PyObject *text_of(const char *text);
/* None where it was 0. */
PyObject *none_or_error(int error);
/* The type's memory, and the reference that an object of a heap type has to its type. */
void object_free(PyObject *self);
PyObject *object_new(PyTypeObject *type);
PyTypeObject *type_add(PyObject *module, PyType_Spec *spec, const char *name);

/* A reference to the handle; NULL: closed, ValueError is raised. */
struct hm_device *device_hold(PyObject *self);
struct hm_buffer *buffer_hold(PyObject *self);
struct hm_map *map_hold(struct map_object *self);
/* Take over the handle. @types: (Map, Buffer), the classes of the new objects. */
PyObject *buffer_wrap(PyTypeObject *type, struct hm_buffer *buffer, PyObject *device,
		      bool is_file);
PyObject *map_wrap(struct hm_map *map, PyObject *device, PyObject *types);
/* The handler of faults is there from the first call on. */
int handler_want(void);
/* For "O&": uint64_t and uint32_t of any int, numpy's too; OverflowError where one has no room. */
int u64_of(PyObject *value, void *ret);
int u32_of(PyObject *value, void *ret);
/* From @offset on; @length None: to the end. Checks nothing else. */
int range_of(struct map_object *self, PyObject *length, uint64_t offset, uint64_t *ret_length);

/*
 * The object of a file, by the argument "path" alone: @open runs without the GIL, and @unref
 * drops the handle that no object could be made for.
 */
PyObject *file_open(PyTypeObject *type, PyObject *args, PyObject *names, const char *format,
		    int open(const char *path, void **ret_handle), void unref(void *handle));
void file_dealloc(PyObject *self, void unref(void *handle));
static inline void *handle_of(PyObject *self)
{
	return ((struct handle_object *)self)->handle;
}
/* A list of @n objects that @row makes of @source. */
PyObject *list_of(uint64_t n, PyObject *row(const void *source, uint64_t index),
		  const void *source);
/* A tuple of numbers. */
PyObject *shape_of(const uint64_t *shape, uint32_t rank);
/* Takes over @tensor. */
PyObject *tensor_wrap(struct hm_tensor *tensor);

extern PyMethodDef map_calls[];
PyObject *map_dlpack(struct map_object *self, PyObject *args, PyObject *names);

int device_init(PyObject *module);
int buffer_init(PyObject *module);
int map_init(PyObject *module);
int launch_init(PyObject *module);
int safetensors_init(PyObject *module);
int tokens_init(PyObject *module);
int gguf_init(PyObject *module);
int pieces_init(PyObject *module);
int table_init(PyObject *module); /* nothing where its header was not found */

#endif
