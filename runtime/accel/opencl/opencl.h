/* SPDX-License-Identifier: MIT */
/*
 * The accelerator "opencl:N". Devices are listed once a process; an opened device has a context
 * of its own.
 */
#ifndef HETMAP_RUNTIME_OPENCL_H
#define HETMAP_RUNTIME_OPENCL_H

#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <hetmap/accel_ops.h>

#include "accel/accel.h"

/* ---- error.c ---- */

const char *cl_error_name(cl_int error);
/* Sets the text "FORMAT: CL_NAME" and returns the errno for it. */
int cl_error(cl_int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- device.c ---- */

/* Behaviour of memory of one kind of backing behind a cl_mem; by self-test. */
enum cl_coherence {
	CL_UNTESTED = 0,
	CL_COHERENT,  /* in place */
	CL_NEEDS_MAP, /* in place, after map + unmap of changed bytes */
	CL_COPIES,    /* the driver has bytes of its own */
};

#define BACKING_MAX 6 /* enum hm_backing */
#define DEVICES_MAX 8 /* kinds of devices with tested memory */

/* Results of the self-tests on memory of one kind. */
struct opencl_tested {
	char backend[16]; /* the kind of device; "" for the host's own memory */
	enum cl_coherence host_ptr, import;
};

/* A device of a platform. Never freed. */
struct opencl_device {
	cl_platform_id platform;
	cl_device_id id;
	cl_device_type type;
	cl_bool unified; /* memory is the host's */
	cl_device_svm_capabilities svm;
	bool arm_import;
	uint64_t alignment; /* of sub-buffers, bytes */
	uint64_t window;    /* longest cl_mem, whole 2 MiB */
	uint64_t memory;
	uint32_t units;
	const struct opencl_quirk *quirk; /* or NULL */
	const char *build_options;        /* options that this driver needs, or "" */
	char name[128];
	char platform_name[64];
	char platform_version[64];
	char driver_version[64];

	_Atomic bool blocks_sigbus; /* threads of its driver do; never false again */
	_Atomic bool launched;      /* a launch was watched: no more threads are expected */

	pthread_mutex_t lock;                     /* protects the fields below */
	struct opencl_tested tested[BACKING_MAX]; /* of the host's memory */
	struct opencl_tested device_tested[DEVICES_MAX];
};

/* Behaviour that no capability announces, for versions where it was verified. */
struct opencl_quirk {
	const char *name;
	const char *platform;
	uint32_t first[2], last[2]; /* versions, major and minor, both inclusive */
	const char *reason;
};

/* The @index-th device, best first; NULL past the last. The first call loads the drivers. */
struct opencl_device *opencl_device_at(uint32_t index);
bool opencl_quirks_allowed(uint32_t accel_flags);
/* Checks HETMAP_OPENCL_QUIRKS. -EINVAL: an unknown value, with a text. */
int opencl_check_environment(void);

/* ---- threads.c ---- */

/* The threads at the beginning of a watch. */
struct opencl_watch {
	pid_t *thread;
	uint32_t n, room;
	bool known; /* the threads could be listed */
};

/* Must surround calls that may start threads. True: a thread started since blocks SIGBUS. */
void opencl_watch_begin(struct opencl_watch *watch);
bool opencl_watch_end(struct opencl_watch *watch);
/* Ends the watch of calls of @device's driver, and notes the result there. */
void opencl_watch_device(struct opencl_watch *watch, struct opencl_device *device);
/* Is the platform's name that of a driver known to block SIGBUS? */
bool opencl_known_to_block(const struct opencl_device *device);

/* ---- opencl.c ---- */

typedef cl_mem(CL_API_CALL *import_function)(cl_context context, cl_mem_flags flags,
					     const cl_import_properties_arm *properties,
					     void *memory, size_t size, cl_int *ret_error);

struct opencl {
	struct opencl_device *device;
	uint32_t index;
	uint32_t flags; /* HM_ACCEL_*, HM_ZERO_COPY_ONLY */
	bool quirks;
	uint64_t window;
	cl_context context;
	import_function import; /* NULL: not available */
};

/* ---- build.c, cache.c ---- */

struct opencl_kernel {
	pthread_mutex_t lock; /* held from setting arguments to enqueueing */
	cl_kernel kernel;
	size_t group[3]; /* 0: the driver chooses */
	char name[64];
};

int opencl_program(struct opencl *cl, const char *name, const char *source, const char *options,
		   cl_program *ret_program);
int opencl_kernel_build(void *accel, const struct hm_kernel_desc *desc,
			struct hm_accel_parameters *parameters, void **ret_kernel);
void opencl_kernel_free(void *accel, void *kernel);

/* Key of a stored binary: everything that it depends on, as text. */
struct cache_key {
	char *text;
	size_t length;
};

int cache_key_make(const struct opencl_device *device, const char *source, const char *options,
		   struct cache_key *ret_key);
/*
 * May a build read files, as by #include? A key has no contents of files, so that the binary must
 * not be stored. True also where such a word stands in a comment behind a directive.
 */
bool cache_may_read_files(const char *source, const char *options);
/* -ENOENT: there is no whole binary. The caller must free() the binary. */
int cache_load(const struct cache_key *key, unsigned char **ret_binary, size_t *ret_length);
/* Ignores failures: a cache is a convenience. */
void cache_store(const struct cache_key *key, const unsigned char *binary, size_t length);

/* ---- build_lock.c ---- */

/*
 * From before a binary is loaded until the one that was built is stored. A negative errno: it
 * can't be had, as where no folder can be written, or within 30 seconds, which only the
 * first of several calls in a row waits; a build without it must store nothing. Sets no text.
 */
int build_lock_take(const struct opencl_device *device);
void build_lock_drop(int lock);

/* ---- selftest.c ---- */

enum cl_memory_kind {
	CL_MEMORY_HOST_PTR,
	CL_MEMORY_IMPORT,
};

/* Makes a cl_mem around host memory. */
int opencl_wrap(struct opencl *cl, enum cl_memory_kind kind, cl_mem_flags rights, void *address,
		size_t length, cl_mem *ret_memory);
/* Tests memory of @map's kind on scratch memory, once for each device and kind. */
int opencl_coherence(struct opencl *cl, enum cl_memory_kind kind,
		     const struct hm_accel_map *map, enum cl_coherence *ret_coherence);
/*
 * Launches on memory of the device's own, if no launch was watched yet: drivers may start
 * threads at the first one.
 */
int opencl_first_launch(struct opencl *cl);

/* ---- flush.c ---- */

/* Bytes of the CPU to the device, and back, for memory that needs map + unmap. */
int opencl_flush_in(cl_command_queue queue, cl_mem memory, size_t offset, size_t length);
int opencl_flush_out(cl_command_queue queue, cl_mem memory, size_t offset, size_t length,
		     cl_event *ret_event);

/* ---- map.c ---- */

/* An accelerator's data for a map: the cl_mem of each window. */
struct opencl_view;

/* range->memory is a cl_mem with a reference; NULL: by pointer, or by copy. */
int opencl_view_create(void *accel, const struct hm_accel_map *map, void **ret_view);
void opencl_view_destroy(void *view);
int opencl_view_acquire(void *view, struct hm_accel_range *range);
void opencl_view_release(void *view, struct hm_accel_range *range);
/* The way in of the view's aligned ranges. */
enum hm_way_in opencl_view_way(const void *view);
/* Does memory of this view need opencl_flush_in and _out? */
bool opencl_view_flushes(const void *view);
/* May only the library's callers touch it (by_hand.c), by HM_WAY_COPY? */
bool opencl_view_by_hand(const void *view);
/*
 * For copies and fills: the cl_mem of the window with @offset of the map, with a reference;
 * NULL: by copy.
 */
int opencl_view_window(void *view, uint64_t offset, uint32_t access, cl_mem *ret_memory);

/* ---- queue.c, transfer.c ---- */

struct opencl_queue {
	struct opencl *cl;
	cl_command_queue queue;
	pthread_mutex_t lock; /* held through work with staging; protects the below */
	struct {
		cl_mem memory;
		uint64_t size;
	} staging[HM_KERNEL_MAX_ARGS];
};

int opencl_queue_create(void *accel, void **ret_queue);
void opencl_queue_destroy(void *queue);
int opencl_submit(void *queue, struct hm_accel_work *work);
int opencl_wait(void *queue, struct hm_accel_work *work, uint64_t timeout_ns);
int opencl_notify(void *queue, struct hm_accel_work *work, void (*call)(void *user),
		  void *user);
void opencl_work_release(struct hm_accel_work *work);

/* A device buffer of @size bytes at least, kept for @slot; queue->lock is held. */
int opencl_staging(struct opencl_queue *queue, uint32_t slot, uint64_t size,
		   cl_mem *ret_memory);
/* ---- by_hand.c ---- */

/* Copies bytes of a map to @offset of @memory, and back; done on return. */
int opencl_bring_by_hand(cl_command_queue queue, cl_mem memory, size_t offset, const char *from,
			 uint64_t length);
int opencl_take_by_hand(cl_command_queue queue, cl_mem memory, size_t offset, char *to,
			uint64_t length);

/* Submits a copy or fill. */
int opencl_transfer(struct opencl_queue *queue, struct hm_accel_work *work);

#endif
