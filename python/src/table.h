/* SPDX-License-Identifier: MIT */
/* What table.c and table_arrow.c share: the functions of libhetmap-table, found by dlsym(). */
#ifndef HETMAP_PYTHON_TABLE_H
#define HETMAP_PYTHON_TABLE_H

#include "common.h"

/* The build defines it where the library's header is. A compiler's cache does not see that come. */
#ifdef HAVE_TABLE

#include <hetmap/table.h>

#define TABLE_CALLS(X)         \
	X(table_open)          \
	X(table_query)         \
	X(table_field)         \
	X(table_group)         \
	X(table_schema)        \
	X(table_column)        \
	X(table_write)         \
	X(table_export)        \
	X(table_export_device) \
	X(table_import)        \
	X(table_import_array)  \
	X(table_format_name)   \
	X(table_unref)         \
	X(column_query)        \
	X(column_chunk)        \
	X(column_export)       \
	X(column_unref)

struct table_calls {
#define MEMBER(call) __typeof__(&hm_##call) call;
	TABLE_CALLS(MEMBER)
#undef MEMBER
};

extern struct table_calls table_calls; /* all NULL until table_load() */

/* Takes the column over. */
PyObject *column_wrap(struct hm_column *column);
int column_init(PyObject *module);

PyObject *table_schema(PyObject *self, PyObject *unused);
PyObject *table_stream(PyObject *self, PyObject *unused);
PyObject *table_device_stream(PyObject *self, PyObject *unused);

#endif
#endif
