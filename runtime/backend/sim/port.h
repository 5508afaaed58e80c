/* SPDX-License-Identifier: MIT */
/*
 * A port: an open device that speaks include/uapi/hetsim.h, be it the module's
 * (/dev/hetsimN, "sim:N") or its twin in this process ("soft:N").
 *
 * All devices and accelerators of one name share one port, because handles,
 * queues and the device's address space belong to the open file. A port whose
 * device was taken away answers -ENODEV until its last user is gone; whoever opens
 * the name meanwhile gets a new one.
 *
 * Backend and engine are written once and do not know the kind of their port: differences
 * (locks, prefetch, the module's special pages) are capabilities.
 */
#ifndef HETMAP_RUNTIME_SIM_PORT_H
#define HETMAP_RUNTIME_SIM_PORT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <urcu/list.h>

#include <uapi/hetsim.h>

struct sim_port;

/* The two ways there are. @file is what open gave. */
struct sim_port_ops {
	const char *name;     /* "sim": of devices and accelerators */
	const char *settings; /* where limits are set, for remedies */
	const char *sharers;  /* of a device's memory, for texts: "all processes have" */
	/* How many may be opened: numbers up to that less 1. */
	uint32_t (*count)(void);
	int (*open)(struct sim_port *port, uint32_t index, void **ret_file);
	void (*close)(void *file);
	/* ioctl(2): 0 or a negative errno. */
	int (*call)(void *file, unsigned long cmd, void *argument);
	/* HETSIM_SUBMIT of commands that are there; NULL: as any call. */
	int (*submit)(void *file, struct hetsim_submit *submit);
	/* What mmap(2) takes for byte @offset of the device; the fd is borrowed. */
	int (*map_fd)(void *file, uint64_t offset, int *ret_fd, uint64_t *ret_fd_offset);
	/* soft_hidden(); NULL: the kernel does it by itself. */
	bool (*hidden)(void *file, uint32_t handle, uint64_t offset, uint64_t length,
		       uint64_t *ret_length);
	/* soft_evictions(); NULL: the kernel tells by the descriptor's fdinfo. */
	const uint64_t *(*evictions)(void *file, uint32_t handle);
	/* Was its device taken away? NULL: that takes a call. */
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
	uint32_t minor;               /* version of the interface that it speaks */
	uint64_t features;            /* HETSIM_FEATURE_* */
	struct hetsim_query query;    /* as it was when it was opened: its constants */
	struct sim_port *next;        /* in port.c's list */
	struct cds_list_head objects; /* sim_object.link, under object.c's lock */
};

/*
 * The port of "sim:@rest" or "soft:@rest" ("" is 0), opened with its handshake
 * (HETSIM_HANDSHAKE_ZERO_WHEN_LOST) on first need. -ENODEV, -EACCES, -EPROTO (the
 * text has both versions), -ENOMEM.
 */
int sim_port_get(const struct sim_port_ops *ops, const char *rest, struct sim_port **ret_port);
void sim_port_ref(struct sim_port *port);
void sim_port_put(struct sim_port *port);

/* fork(2): held across it; a child has none. */
void sim_ports_fork_prepare(void);
void sim_ports_fork_parent(void);
void sim_ports_fork_child(void);

/*
 * A call of the library's own, whose pointers are good: again after EINTR, with the notice
 * of -ENODEV; no text is set.
 */
int sim_port_call(struct sim_port *port, unsigned long cmd, void *argument);

/* It was taken away: its maps are lost. No lock of a buffer is held. */
void sim_port_lost(struct sim_port *port);
/* The same, and nobody is called back: the device is at it still. */
void sim_port_lost_maps(struct sim_port *port);

/* Likewise, of all ports. */
int sim_signals_end(void);

/* What soft answers to a submission where it could start no thread: explained, -EAGAIN. */
#define SIM_NO_THREAD (-EUSERS)

/* A failed call as a sentence with numbers and remedy: "gone", "full", ... Returns @r. */
int sim_port_explain(struct sim_port *port, int r, const char *what);

/*
 * The same of -ENOSPC for @more bytes of a buffer in @place, which would have @length in
 * all: with the limit and what is used of it.
 */
int sim_port_explain_full(struct sim_port *port, uint32_t place, uint64_t length, uint64_t more,
			  const char *what);

/* The same of -ENOMEM for @length bytes: a limit of this process may be it. */
int sim_port_explain_memory(struct sim_port *port, uint64_t length, const char *what);

/*
 * hm_segment.object of the backends sim and soft. The device has one name for a
 * buffer, however often it is imported: the last who holds the object closes it.
 */
struct sim_object {
	struct sim_port *port; /* with a reference */
	uint32_t handle;       /* 0: a foreign descriptor that can only be read */
	uint32_t refs;         /* under object.c's lock */
	bool signals;          /* HETSIM_WHEN_LOST_SIGNAL; likewise */
	uint64_t offset;       /* on the device, of byte 0 */
	/* Bytes that were cut off and could not be cleared; under the buffer's lock. */
	uint64_t stale, stale_end;
	struct cds_list_head link;
};

/* ---- object.c ---- */

/* What HETSIM_BUFFER_CREATE made of @create. */
int sim_object_create(struct sim_port *port, struct hetsim_buffer_create *create,
		      struct sim_object **ret_object);
/* What HETSIM_IMPORT gave for @import->fd: an object that is there, or a new one. */
int sim_object_import(struct sim_port *port, struct hetsim_import *import,
		      struct sim_object **ret_object);
/* One without a handle. */
int sim_object_foreign(struct sim_port *port, struct sim_object **ret_object);
/* HETSIM_WHEN_LOST_SIGNAL. -EOPNOTSUPP: another device's memory. */
int sim_object_signal(struct sim_object *object);
/* Of no object of the port's any more. Caller has sim_objects_lock(). -ENODEV: it is gone. */
int sim_objects_silence(struct sim_port *port);
void sim_object_put(struct sim_object *object);
/* What segments name as their object: to be compared, not to be used. NULL. */
const void *sim_object_of(struct sim_port *port, uint32_t handle);
/* For fork only. */
void sim_objects_lock(void);
void sim_objects_unlock(void);

/* ---- backend/sim.c ---- */

struct hm_device;

/* The port of a device of the backends sim and soft; NULL of others. Borrowed. */
struct sim_port *sim_port_of(const struct hm_device *device);

#endif
