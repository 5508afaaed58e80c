/* SPDX-License-Identifier: MIT */
/*
 * The Arrow C data, stream and device interfaces: three fixed layouts of structs by which
 * libraries in one process hand columns to each other without a copy.
 *
 * The layouts are those of Arrow's documents "The Arrow C data interface", "The Arrow C stream
 * interface" and "The Arrow C device data interface". Other headers may define the same structs,
 * under the same guards.
 */
#ifndef HETMAP_ARROW_H
#define HETMAP_ARROW_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

/* Type of a column, or of all columns: then format is "+s", and the children are the columns. */
struct ArrowSchema {
	const char *format;
	const char *name;
	const char *metadata;
	int64_t flags; /* ARROW_FLAG_* */
	int64_t n_children;
	struct ArrowSchema **children;
	struct ArrowSchema *dictionary;
	/* Ends the struct and its children. NULL: it has ended, or its contents were moved. */
	void (*release)(struct ArrowSchema *);
	void *private_data; /* of the library that made the struct */
};

/* Values of a column, or of several: then the children are the columns. */
struct ArrowArray {
	int64_t length;
	int64_t null_count; /* -1: not counted */
	int64_t offset;     /* elements of the buffers before the first value */
	int64_t n_buffers;
	int64_t n_children;
	const void **buffers;
	struct ArrowArray **children;
	struct ArrowArray *dictionary;
	void (*release)(struct ArrowArray *);
	void *private_data;
};

#endif /* ARROW_C_DATA_INTERFACE */

#ifndef ARROW_C_DEVICE_DATA_INTERFACE
#define ARROW_C_DEVICE_DATA_INTERFACE

typedef int32_t ArrowDeviceType;

#define ARROW_DEVICE_CPU 1
#define ARROW_DEVICE_CUDA 2
#define ARROW_DEVICE_CUDA_HOST 3
#define ARROW_DEVICE_OPENCL 4
#define ARROW_DEVICE_VULKAN 7
#define ARROW_DEVICE_METAL 8
#define ARROW_DEVICE_VPI 9
#define ARROW_DEVICE_ROCM 10
#define ARROW_DEVICE_ROCM_HOST 11
#define ARROW_DEVICE_EXT_DEV 12
#define ARROW_DEVICE_CUDA_MANAGED 13
#define ARROW_DEVICE_ONEAPI 14
#define ARROW_DEVICE_WEBGPU 15
#define ARROW_DEVICE_HEXAGON 16

/* Values in the memory of a device. */
struct ArrowDeviceArray {
	struct ArrowArray array;
	int64_t device_id; /* -1 for ARROW_DEVICE_CPU */
	ArrowDeviceType device_type;
	void *sync_event; /* NULL: the values are there already */
	int64_t reserved[3];
};

#endif /* ARROW_C_DEVICE_DATA_INTERFACE */

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

/* Arrays one after another, all of one schema. */
struct ArrowArrayStream {
	/* These two return 0 or a positive errno. */
	int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
	/* At the end *out has no release function. */
	int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
	/* The text is valid until the next call. NULL: there is none. */
	const char *(*get_last_error)(struct ArrowArrayStream *);
	void (*release)(struct ArrowArrayStream *);
	void *private_data;
};

#endif /* ARROW_C_STREAM_INTERFACE */

#ifndef ARROW_C_DEVICE_STREAM_INTERFACE
#define ARROW_C_DEVICE_STREAM_INTERFACE

/* The same for arrays of a device. */
struct ArrowDeviceArrayStream {
	ArrowDeviceType device_type;
	int (*get_schema)(struct ArrowDeviceArrayStream *, struct ArrowSchema *out);
	int (*get_next)(struct ArrowDeviceArrayStream *, struct ArrowDeviceArray *out);
	const char *(*get_last_error)(struct ArrowDeviceArrayStream *);
	void (*release)(struct ArrowDeviceArrayStream *);
	void *private_data;
};

#endif /* ARROW_C_DEVICE_STREAM_INTERFACE */

#ifdef __cplusplus
}
#endif

#endif
