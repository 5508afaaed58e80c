// SPDX-License-Identifier: MIT
/*
 * Table: columns of files by libhetmap-table, which is opened when hetmap.table is imported. The
 * package itself never needs it.
 */
#include "table.h"

#ifdef HAVE_TABLE

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct table_calls table_calls;

#define MOST_NAMES 1024

/* What a table is opened with; the texts belong to the arguments. */
struct lists {
	const char *paths[MOST_NAMES];
	const char *columns[MOST_NAMES];
	struct hm_table_filter filters[MOST_NAMES];
};

static const char *const compares[] = { "==", "!=", "<", "<=", ">", ">=", "null", "not null" };

/* table_load(name): the library's functions, or ImportError. */
static PyObject *table_load(PyObject *self, PyObject *name)
{
	static const struct {
		const char *name;
		void *place;
	} wanted[] = {
#define FIND(call) { "hm_" #call, &table_calls.call },
		TABLE_CALLS(FIND)
#undef FIND
	};
	const char *file;
	void *library, *call;

	(void)self;
	if (!PyArg_Parse(name, "s:table_load", &file))
		return NULL;
	WITHOUT_GIL(library = dlopen(file, RTLD_NOW | RTLD_LOCAL));
	if (!library) {
		PyErr_SetString(PyExc_ImportError, dlerror());
		return NULL;
	}
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		call = dlsym(library, wanted[i].name);
		if (!call) {
			PyErr_Format(PyExc_ImportError,
				     "%s has no %s: it is of another version", file,
				     wanted[i].name);
			dlclose(library);
			return NULL;
		}
		memcpy(wanted[i].place, &call, sizeof(call));
	}
	return Py_NewRef(Py_None);
}

static PyObject *table_wrap(PyTypeObject *type, struct hm_table *table)
{
	struct handle_object *self = (struct handle_object *)object_new(type);

	if (!self) {
		table_calls.table_unref(table);
		return NULL;
	}
	self->handle = table;
	return (PyObject *)self;
}

/* Of str or bytes, which keeps it; false with an exception. */
static bool text_read(PyObject *from, const char **ret_text)
{
	char *bytes;
	Py_ssize_t n;

	if (PyBytes_Check(from)) {
		/* With NULL for the length a '\0' inside is a ValueError. */
		if (PyBytes_AsStringAndSize(from, &bytes, NULL) < 0)
			return false;
		*ret_text = bytes;
		return true;
	}
	*ret_text = PyUnicode_AsUTF8AndSize(from, &n);
	if (*ret_text && strlen(*ret_text) != (size_t)n)
		PyErr_SetString(PyExc_ValueError, "embedded null character");
	return !PyErr_Occurred();
}

/* @names gets the texts of a tuple of str or bytes, which keeps them; -1 with an exception. */
static Py_ssize_t names_of(PyObject *tuple, const char *names[MOST_NAMES])
{
	Py_ssize_t n = tuple ? PyTuple_Size(tuple) : 0;

	if (n > MOST_NAMES) {
		PyErr_Format(PyExc_ValueError, "%zd names are more than %d", n, MOST_NAMES);
		return -1;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *one = PyTuple_GetItem(tuple, i);

		if (!text_read(one, &names[i]))
			return -1;
	}
	return n;
}

/* Of a tuple of (column, compare, value); -1 with an exception. */
static Py_ssize_t filters_of(PyObject *tuple, struct hm_table_filter filters[MOST_NAMES])
{
	Py_ssize_t n = tuple ? PyTuple_Size(tuple) : 0;
	const char *compare;

	if (n > MOST_NAMES)
		PyErr_Format(PyExc_ValueError, "%zd filters are more than %d", n, MOST_NAMES);
	for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++) {
		struct hm_table_filter *f = &filters[i];
		uint32_t code = 0;

		*f = (struct hm_table_filter){ 0 };
		if (!PyArg_ParseTuple(PyTuple_GetItem(tuple, i), "ssz;a filter", &f->column,
				      &compare, &f->value))
			break;
		while (code <= HM_TABLE_NOT_NULL && strcmp(compares[code], compare))
			code++;
		if (code > HM_TABLE_NOT_NULL)
			PyErr_Format(PyExc_ValueError,
				     "\"%s\" compares nothing: == != < <= > >= null, not null",
				     compare);
		f->compare = code;
	}
	return PyErr_Occurred() ? -1 : n;
}

/* False with an exception. */
static bool lists_read(struct lists *lists, PyObject *paths, PyObject *columns,
		       PyObject *filters, struct hm_table_desc *desc, uint32_t *ret_n_paths)
{
	Py_ssize_t n_paths = names_of(paths, lists->paths);
	Py_ssize_t n_columns = n_paths < 0 ? -1 : names_of(columns, lists->columns);
	Py_ssize_t n_filters = n_columns < 0 ? -1 : filters_of(filters, lists->filters);

	if (n_filters < 0)
		return false;
	desc->columns = n_columns ? lists->columns : NULL;
	desc->n_columns = (uint32_t)n_columns;
	desc->filters = n_filters ? lists->filters : NULL;
	desc->n_filters = (uint32_t)n_filters;
	*ret_n_paths = (uint32_t)n_paths;
	return true;
}

/* Table(paths, columns=None, filters=None, device=None, flags=0, format=0, threads=0, ...) */
static PyObject *table_make(PyTypeObject *type, PyObject *args, PyObject *names)
{
	static char *keys[] = { "paths",  "columns", "filters", "device",    "flags",
				"format", "threads", "limit",   "separator", NULL };
	struct hm_table_desc desc = { .struct_size = sizeof(desc) };
	PyObject *paths, *columns = NULL, *filters = NULL, *device = NULL, *self = NULL;
	struct hm_table *table;
	struct lists *lists;
	int separator = 0, error;
	uint32_t n_paths;

	if (!table_calls.table_open) {
		PyErr_SetString(PyExc_ImportError, "hetmap.table was not imported");
		return NULL;
	}
	if (!PyArg_ParseTupleAndKeywords(args, names, "O!|O!O!OO&O&O&O&C:Table", keys,
					 &PyTuple_Type, &paths, &PyTuple_Type, &columns,
					 &PyTuple_Type, &filters, &device, u32_of, &desc.flags,
					 u32_of, &desc.format, u32_of, &desc.threads, u64_of,
					 &desc.limit, &separator))
		return NULL;
	desc.separator = (char)separator;
	if (device && device != Py_None) {
		if (!PyObject_TypeCheck(device, device_type)) {
			PyErr_SetString(PyExc_TypeError, "the device is no hetmap.Device");
			return NULL;
		}
		desc.device = device_hold(device);
		if (!desc.device)
			return NULL;
	}
	lists = malloc(sizeof(*lists));
	if (!lists) {
		PyErr_NoMemory();
	} else if (lists_read(lists, paths, columns, filters, &desc, &n_paths)) {
		WITHOUT_GIL(
			error = table_calls.table_open(lists->paths, n_paths, &desc, &table));
		self = error ? raise_error(error) : table_wrap(type, table);
	}
	free(lists);
	hm_device_unref(desc.device);
	return self;
}

static void table_unref(void *table)
{
	table_calls.table_unref(table);
}

static void table_dealloc(PyObject *self)
{
	file_dealloc(self, table_unref);
}

static PyObject *number_or_none(uint64_t n)
{
	return n == HM_TABLE_UNKNOWN ? Py_NewRef(Py_None) : PyLong_FromUnsignedLongLong(n);
}

static PyObject *table_query(PyObject *self, PyObject *unused)
{
	struct hm_table_info i = { .struct_size = sizeof(i) };
	int error;

	(void)unused;
	WITHOUT_GIL(error = table_calls.table_query(handle_of(self), &i));
	if (error)
		return raise_error(error);
	return Py_BuildValue("{sssIsIsNsKsKsKsKsKsKsKsKsKsI}", "format",
			     table_calls.table_format_name(i.format), "files", i.files,
			     "columns", i.columns, "rows", number_or_none(i.rows), "groups",
			     i.groups, "skipped", i.skipped, "stored", i.stored, "bytes_read",
			     i.bytes_read, "bytes_decoded", i.bytes_decoded, "bytes_placed",
			     i.bytes_placed, "memory", i.memory, "peak", i.peak, "limit",
			     i.limit, "threads", i.threads);
}

static PyObject *field_of(const void *self, uint64_t index)
{
	struct hm_table_field_info f = { .struct_size = sizeof(f) };
	int error = table_calls.table_field(*(void *const *)self, (uint32_t)index, &f);

	if (error)
		return raise_error(error);
	return Py_BuildValue("sssNIIINs", f.name, f.type, f.format,
			     PyBool_FromLong((long)f.nullable), f.bits, f.children,
			     f.dictionary, PyBool_FromLong((long)f.in_place), f.why);
}

/* (name, type, format, nullable, bits, children, dictionary, in_place, why) of each */
static PyObject *table_fields(PyObject *self, PyObject *unused)
{
	struct hm_table_info info = { .struct_size = sizeof(info) };
	void *table = handle_of(self);
	int error;

	(void)unused;
	WITHOUT_GIL(error = table_calls.table_query(table, &info));
	return error ? raise_error(error) : list_of(info.columns, field_of, &table);
}

static PyObject *group_of(const void *self, uint64_t index)
{
	struct hm_table_group_info g = { .struct_size = sizeof(g) };
	int error = table_calls.table_group(*(void *const *)self, index, &g);

	if (error)
		return raise_error(error);
	return Py_BuildValue("IKNNKN", g.file, g.in_file, number_or_none(g.first_row),
			     number_or_none(g.rows), g.stored,
			     PyBool_FromLong((long)g.skipped));
}

/* (file, in_file, first_row, rows, stored, skipped) of each */
static PyObject *table_groups(PyObject *self, PyObject *unused)
{
	struct hm_table_info info = { .struct_size = sizeof(info) };
	void *table = handle_of(self);
	int error;

	(void)unused;
	WITHOUT_GIL(error = table_calls.table_query(table, &info));
	return error ? raise_error(error) : list_of(info.groups, group_of, &table);
}

static PyObject *table_column(PyObject *self, PyObject *index)
{
	struct hm_column *column;
	uint32_t number;
	int error;

	if (!u32_of(index, &number))
		return NULL;
	WITHOUT_GIL(error = table_calls.table_column(handle_of(self), number, &column));
	return error ? raise_error(error) : column_wrap(column);
}

static PyObject *table_write(PyObject *self, PyObject *args, PyObject *names)
{
	static char *keys[] = { "path",  "flags",      "format",   "level",
				"codec", "group_rows", "encoding", NULL };
	struct hm_table_write_desc desc = { .struct_size = sizeof(desc) };
	struct hm_table_write_info info = { .struct_size = sizeof(info) };
	const char *name;
	PyObject *path;
	int error;

	if (!PyArg_ParseTupleAndKeywords(args, names, "O&|O&O&izO&z:write", keys,
					 PyUnicode_FSConverter, &path, u32_of, &desc.flags,
					 u32_of, &desc.format, &desc.level, &desc.codec, u64_of,
					 &desc.group_rows, &desc.encoding))
		return NULL;
	name = PyBytes_AsString(path);
	WITHOUT_GIL(error = table_calls.table_write(handle_of(self), name, &desc, &info));
	Py_DECREF(path);
	if (error)
		return raise_error(error);
	if (warn_of_less(2) < 0)
		return NULL;
	return Py_BuildValue("{sKsKsKsK}", "rows", info.rows, "groups", info.groups, "bytes",
			     info.bytes, "copied", info.copied);
}

static PyObject *imported(PyObject *type, int error, struct hm_table *table)
{
	return error ? raise_error(error) : table_wrap((PyTypeObject *)type, table);
}

/* from_stream(capsule): takes the stream over. */
static PyObject *table_from_stream(PyObject *type, PyObject *capsule)
{
	struct ArrowArrayStream *from = PyCapsule_GetPointer(capsule, "arrow_array_stream"),
				stream;
	struct hm_table *table;
	int error;

	if (!from)
		return NULL;
	stream = *from, from->release = NULL;
	WITHOUT_GIL(error = table_calls.table_import(&stream, NULL, &table));
	return imported(type, error, table);
}

/* from_array(schema, array): takes both over. */
static PyObject *table_from_array(PyObject *type, PyObject *args)
{
	struct ArrowDeviceArray array = { .device_id = -1, .device_type = ARROW_DEVICE_CPU };
	PyObject *schema_capsule, *array_capsule;
	struct ArrowSchema *schema_from, schema;
	struct ArrowArray *from;
	struct hm_table *table;
	int error;

	if (!PyArg_ParseTuple(args, "OO:from_array", &schema_capsule, &array_capsule))
		return NULL;
	schema_from = PyCapsule_GetPointer(schema_capsule, "arrow_schema");
	from = schema_from ? PyCapsule_GetPointer(array_capsule, "arrow_array") : NULL;
	if (!from)
		return NULL;
	schema = *schema_from, schema_from->release = NULL;
	array.array = *from, from->release = NULL;
	WITHOUT_GIL(error = table_calls.table_import_array(&schema, &array, NULL, &table));
	return imported(type, error, table);
}

#define WITH_NAMES(function) (PyCFunction)(void (*)(void))(function)

int table_init(PyObject *module)
{
	static PyMethodDef loader = { "table_load", table_load, METH_O,
				      "table_load(name): opens libhetmap-table" };
	static PyMethodDef methods[] = {
		{ "query", table_query, METH_NOARGS, "query() -> dict" },
		{ "fields", table_fields, METH_NOARGS, "fields() -> list" },
		{ "groups", table_groups, METH_NOARGS, "groups() -> list" },
		{ "column", table_column, METH_O, "column(index) -> Column" },
		{ "write", WITH_NAMES(table_write), METH_VARARGS | METH_KEYWORDS,
		  "write(path, flags=0, format=0, level=0, codec=None, ...) -> dict" },
		{ "from_stream", table_from_stream, METH_O | METH_CLASS,
		  "from_stream(capsule) -> Table" },
		{ "from_array", table_from_array, METH_VARARGS | METH_CLASS,
		  "from_array(schema, array) -> Table" },
		{ "schema", table_schema, METH_NOARGS, "schema() -> capsule" },
		{ "stream", table_stream, METH_NOARGS, "stream() -> capsule" },
		{ "device_stream", table_device_stream, METH_NOARGS,
		  "device_stream() -> capsule" },
		{ NULL, NULL, 0, NULL },
	};
	static PyType_Slot slots[] = {
		{ Py_tp_new, table_make },
		{ Py_tp_dealloc, table_dealloc },
		{ Py_tp_methods, methods },
		{ 0, NULL },
	};
	static PyType_Spec table = { .name = "hetmap._hetmap.Table",
				     .basicsize = sizeof(struct handle_object),
				     .flags = Py_TPFLAGS_DEFAULT,
				     .slots = slots };
	PyObject *load = PyCFunction_NewEx(&loader, NULL, NULL);

	if (!load || PyModule_AddObjectRef(module, "table_load", load) < 0) {
		Py_XDECREF(load);
		return -1;
	}
	Py_DECREF(load);
	return type_add(module, &table, "Table") ? column_init(module) : -1;
}

#else

int table_init(PyObject *module)
{
	(void)module;
	return 0;
}

#endif
