/* SPDX-License-Identifier: MIT */
/*
 * A port: an open device with the interface of include/uapi/hetsim.h, either the module's
 * (/dev/hetsimN, "sim:N") or its twin in this process ("soft:N").
 *
 * All devices and accelerators of one name share one port, because handles, queues and the
 * device's address space belong to the open file. A port whose device was unplugged answers
 * -ENODEV until its last user is gone; a later open of the name gets a new port.
 *
 * Backend and engine are written once and do not know the kind of their port: differences
 * (locks, prefetch, the module's special pages) are capabilities.
 */
#ifndef HETMAP_RUNTIME_SIM_PORT_H
#define HETMAP_RUNTIME_SIM_PORT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <urcu/list.h>

#include <uapi/hetsim.h>

struct sim_port;
struct sim_stream;

/* Functions of the module or the twin. @file is the result of open. */
struct sim_port_ops {
	const char *name;     /* "sim": name of devices and accelerators */
	const char *settings; /* where limits are set, for remedies */
	const char *sharers; /* sharers of a device's memory, for texts: "all processes have" */
	/* takers of queues that a device limits together, for texts: "this process" */
	const char *queue_limits;
	/* Number of devices that may be opened; they are 0 to that less 1. */
	uint32_t (*count)(void);
	int (*open)(struct sim_port *port, uint32_t index, void **ret_file);
	void (*close)(void *file);
	/* ioctl(2): 0 or a negative errno. */
	int (*call)(void *file, unsigned long cmd, void *argument);
	/* HETSIM_SUBMIT of commands known to be mapped; NULL: use call. */
	int (*submit)(void *file, struct hetsim_submit *submit);
	/* Arguments of mmap(2) for byte @offset of the device; the fd is borrowed. */
	int (*map_fd)(void *file, uint64_t offset, int *ret_fd, uint64_t *ret_fd_offset);
	/* soft_hidden(); NULL: the kernel hides pages itself. */
	bool (*hidden)(void *file, uint32_t handle, uint64_t offset, uint64_t length,
		       uint64_t *ret_length);
	/* soft_evictions(); NULL: the descriptor's fdinfo has the number. */
	const uint64_t *(*evictions)(void *file, uint32_t handle);
	/* Was its device unplugged? NULL: that takes a call. */
	bool (*is_gone)(const void *file);
	ssize_t (*read)(void *file, void *to, uint64_t length, uint64_t offset);
	ssize_t (*write)(void *file, const void *from, uint64_t length, uint64_t offset);
};

extern const struct sim_port_ops sim_port_kernel;
extern const struct sim_port_ops sim_port_soft;

struct sim_port {
	const struct sim_port_ops *ops;
	void *file;
	uint32_t index;
	uint32_t refs;                /* under port.c's lock */
	_Atomic bool gone;            /* a call was answered with -ENODEV */
	uint32_t minor;               /* version of the device's interface */
	uint64_t features;            /* HETSIM_FEATURE_* */
	struct hetsim_query query;    /* as of the open: for its constants */
	pthread_mutex_t mirror_lock;  /* protects the fields below, up to next */
	bool mirrored;                /* HETSIM_MIRROR was called */
	struct hetsim_mirror mirror;  /* with this answer */
	struct sim_stream *stream;    /* events; NULL: not asked for yet */
	struct sim_port *next;        /* in port.c's list */
	struct cds_list_head objects; /* sim_object.link, under object.c's lock */
};

/*
 * Opens the port of "sim:@rest" or "soft:@rest" ("" is 0) at its first use, with a handshake
 * (HETSIM_HANDSHAKE_ZERO_WHEN_LOST).
 * Errors:
 *   -ENODEV, -EACCES, -ENOMEM
 *   -EPROTO the text has both versions
 */
int sim_port_get(const struct sim_port_ops *ops, const char *rest, struct sim_port **ret_port);
void sim_port_ref(struct sim_port *port);
void sim_port_put(struct sim_port *port);

/* fork(2): the lock is held across it; a child has no ports. */
void sim_ports_fork_prepare(void);
void sim_ports_fork_parent(void);
void sim_ports_fork_child(void);

/*
 * Makes a call for the library, with valid pointers: repeats it after EINTR, and handles
 * -ENODEV. Sets no text.
 */
int sim_port_call(struct sim_port *port, unsigned long cmd, void *argument);

/* Handles an unplugged device: its maps are lost. The caller holds no lock of a buffer. */
void sim_port_lost(struct sim_port *port);
/* The same without callbacks: the device is still being unplugged. */
void sim_port_lost_maps(struct sim_port *port);

/* Likewise, for all ports. */
int sim_signals_end(void);

/* Answer of soft to a submission where it could not start a thread: explained, -EAGAIN. */
#define SIM_NO_THREAD (-EUSERS)

/* Turns a failed call into a sentence with numbers and remedy: "gone", "full", ... Returns @r. */
int sim_port_explain(struct sim_port *port, int r, const char *what);

/*
 * The same for -ENOSPC of @more bytes of a buffer in @place, which would have @length in all:
 * with the limit and the use of it.
 */
int sim_port_explain_full(struct sim_port *port, uint32_t place, uint64_t length, uint64_t more,
			  const char *what);

/* The same for -ENOMEM of @length bytes: the cause may be a limit of this process. */
int sim_port_explain_memory(struct sim_port *port, uint64_t length, const char *what);

/*
 * hm_segment.object of the backends sim and soft. The device has one name for a buffer, however
 * often it is imported: the last holder of the object closes it.
 */
struct sim_object {
	struct sim_port *port; /* with a reference */
	uint32_t handle;       /* 0: a foreign read-only descriptor */
	uint32_t refs;         /* under object.c's lock */
	bool signals;          /* HETSIM_WHEN_LOST_SIGNAL; likewise */
	uint64_t offset;       /* of byte 0, on the device */
	/* Bytes that were cut off and could not be cleared; under the buffer's lock. */
	uint64_t stale, stale_end;
	struct cds_list_head link;
};

/* ---- mirror.c ---- */

/* Has the device a mirror of the process? No call is made. */
bool sim_port_has_mirror(const struct sim_port *port);
/* Turns the mirror on, once. -EOPNOTSUPP, and the errors of the call, with a text. */
int sim_port_mirror(struct sim_port *port);
/*
 * Copies events from number *@cursor on, and moves it behind them; UINT64_MAX: sets it to the next
 * event only. *@ret_lost: events in between that are not there any more. Errors as above.
 */
int sim_port_events(struct sim_port *port, uint64_t *cursor, struct hetsim_event *events,
		    uint32_t capacity, uint32_t *ret_n, uint64_t *ret_lost);
/* Publishes the events so far, if the mirror is on. Cheap if there are none; changes no text. */
void sim_port_publish_events(struct sim_port *port);
void sim_stream_end(struct sim_stream *stream);

/* ---- object.c ---- */

/* Makes the object for a buffer by HETSIM_BUFFER_CREATE of @create. */
int sim_object_create(struct sim_port *port, struct hetsim_buffer_create *create,
		      struct sim_object **ret_object);
/* Imports @import->fd by HETSIM_IMPORT: returns an existing object, or a new one. */
int sim_object_import(struct sim_port *port, struct hetsim_import *import,
		      struct sim_object **ret_object);
/* Makes an object without a handle. */
int sim_object_foreign(struct sim_port *port, struct sim_object **ret_object);
/* HETSIM_WHEN_LOST_SIGNAL. -EOPNOTSUPP: another device's memory. */
int sim_object_signal(struct sim_object *object);
/*
 * Turns signals off for all objects of the port. The caller has sim_objects_lock(). -ENODEV: the
 * device is gone.
 */
int sim_objects_silence(struct sim_port *port);
void sim_object_put(struct sim_object *object);
/* The object of a handle, to compare with segments', not to use; NULL. */
const void *sim_object_of(struct sim_port *port, uint32_t handle);
/* For fork only. */
void sim_objects_lock(void);
void sim_objects_unlock(void);

/* ---- backend.c ---- */

struct hm_device;

/* The port of a device of the backends sim and soft, borrowed; NULL for other devices. */
struct sim_port *sim_port_of(const struct hm_device *device);

#endif
