/* SPDX-License-Identifier: MIT */
/*
 * DRM drivers that are not there, for tests: nodes /dev/dri/renderD180 and on, their part of sysfs,
 * and the ioctls that a row of runtime/backend/drm sends.
 *
 * intercept.c  the C library's calls that see or make them
 * tree.c       the files behind /dev/dri and /sys, in a folder of their own
 * core.c       open files, handles, maps, calls of every driver
 * dmabuf.c     dma-bufs
 * syncobj.c    syncobjs, sync_files
 * control.c    a test's requests: failures, mutations, traces
 * amdgpu.c i915.c xe.c nouveau.c virtio_gpu.c  one driver each
 * dumb.c       that of a card node, which is there when a test asks for it
 *
 * An open node is a memfd, and so is an object, which its dma-buf is, too: their inodes tell them
 * apart, also when a process has duplicated or sent them. No call tells that they are memfds: they
 * have no seals.
 *
 * Each check follows a function of the kernel (6.1; xe: 6.12), which it names, and decodes with the
 * kernel's own headers: no file here includes one of runtime/ but the carried headers of xe and
 * virtio_gpu.
 *
 * tests/drm/test_drm_mutation.c changes one bit of one field at a time, of every field that a
 * driver's row, the code that lists and opens nodes, or the code for syncobjs sends.
 * tests/drm/drm_fields.c has the kernel's answer to each: a field without a line fails the test.
 */
#ifndef HETMAP_TESTS_FAKE_DRM_FAKE_H
#define HETMAP_TESTS_FAKE_DRM_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "control.h"

#define FAKE_PAGE 4096ull
#define FAKE_MIB (1024ull * 1024)
#define FAKE_VRAM (256 * FAKE_MIB)
#define FAKE_VISIBLE (64 * FAKE_MIB)
#define FAKE_SYSTEM (1024 * FAKE_MIB)

/* How a map through the node behaves. */
enum fake_map {
	FAKE_MAP_PAGES,
	FAKE_MAP_SIGBUS,  /* maps, and every touch is a SIGBUS */
	FAKE_MAP_REFUSED, /* by whatever would give its offset */
};

/* A GEM object. */
struct fake_bo {
	struct fake_bo *next;
	unsigned int node;    /* enum fake_drm_node */
	unsigned int handles; /* in all files; 0: only its dma-buf is left, if anything */
	int fd;               /* of its memory; -1 without a handle */
	int dmabuf;           /* as it was exported first, or -1 */
	ino_t inode;
	uint64_t size;
	uint64_t offset; /* of the node's file */
	enum fake_map map;
	bool whole;       /* mmap() takes all of it only */
	int mmap_error;   /* or 0: mmap() refuses it with this errno */
	uint64_t domains; /* the driver's */
	uint64_t flags;
	uint32_t mode, kind; /* nouveau's */
};

#define FAKE_SYNCOBJS 16
struct fake_syncobj;

/* An open file of a node. */
struct fake_file {
	struct fake_file *next;
	unsigned int node;
	ino_t inode;
	struct fake_bo **bos; /* by handle */
	uint32_t n_bo;
	struct fake_syncobj *syncobjs[FAKE_SYNCOBJS]; /* by handle, from 1 */
	bool context;                                 /* virtio_gpu's */
	uint32_t capset;
};

struct fake_call {
	const char *name; /* of its struct */
	unsigned long cmd;
	int (*call)(struct fake_file *file, void *data); /* 0 or -errno */
};

struct fake_driver {
	const char *name, *description, *date;
	int major, minor, patchlevel;
	uint16_t vendor, device;
	int userptr_export;    /* the errno of exporting one */
	bool cow;              /* takes MAP_PRIVATE */
	bool syncobj;          /* DRIVER_SYNCOBJ */
	bool timeline;         /* DRIVER_SYNCOBJ_TIMELINE */
	int foreign_error;     /* the errno of bringing in another device's, or 0 */
	enum fake_map foreign; /* how what came in from another device maps */
	uint64_t foreign_domains;
	const struct fake_call *calls; /* up to one without a name */
};

/* By enum fake_drm_node. */
extern const struct fake_driver *const fake_drivers[FAKE_DRM_ALL];
extern const struct fake_driver fake_amdgpu, fake_i915, fake_xe, fake_nouveau, fake_virtio_gpu,
	fake_mgag200;

/* ---- core.c: all but the first group are called with the lock held ---- */

int fake_open(unsigned int node);
long fake_ioctl(int fd, unsigned long cmd, void *argument, bool *ret_ours);
void *fake_mmap(void *address, size_t length, int prot, int flags, int fd, off_t offset,
		bool *ret_ours);
int fake_close(int fd);
int fake_close_next(int fd); /* of a file that is none of ours */
/* Is @fd a node? Then which. */
bool fake_is_node(int fd, unsigned int *ret_node);
bool fake_is_dmabuf(int fd);
/* Is @fd a memfd whose name is that, with a number? */
bool fake_is_named(int fd, const char *format, unsigned int *ret_number);
int fake_memory_new(const char *name, unsigned int number);
/* Is there an object behind this name of /proc/self/maps? */
bool fake_is_memory(const char *name);

/* -EFAULT where the user's memory can't be read or written. Reading is where a
 * mutation takes place; @name is the struct's. */
int fake_read(const char *name, void *to, uint64_t from, size_t size);
int fake_write(uint64_t to, const void *from, size_t size);
/* Is there memory of the user's at each page of this? */
bool fake_has_pages(uint64_t address, uint64_t size);
struct fake_bo *fake_bo_of(struct fake_file *file, uint32_t handle);
/* A new object of @size bytes with a handle: drm_gem_handle_create(). */
int fake_bo_new(struct fake_file *file, uint64_t size, struct fake_bo **ret_bo,
		uint32_t *ret_handle);

int fake_handle_delete(struct fake_file *file, uint32_t handle);

/* ---- dumb.c: -EACCES but on the card node ---- */

int fake_create_dumb_call(struct fake_file *file, void *data);
int fake_map_dumb_call(struct fake_file *file, void *data);
int fake_destroy_dumb_call(struct fake_file *file, void *data);

/* ---- dmabuf.c ---- */

int fake_dmabuf_ioctl(unsigned long cmd, void *argument);
void *fake_dmabuf_mmap(int fd, void *address, size_t length, int prot, int flags,
		       uint64_t offset);

/* ---- syncobj.c ---- */

int fake_syncobj_create_call(struct fake_file *file, void *data);
int fake_syncobj_destroy_call(struct fake_file *file, void *data);
int fake_syncobj_to_fd_call(struct fake_file *file, void *data);
int fake_syncobj_from_fd_call(struct fake_file *file, void *data);
int fake_syncobj_transfer_call(struct fake_file *file, void *data);
int fake_syncobj_signal_call(struct fake_file *file, void *data);
int fake_syncobj_timeline_signal_call(struct fake_file *file, void *data);
unsigned int fake_syncobjs(const struct fake_file *file);
void fake_syncobjs_release(struct fake_file *file);
/* Is @fd a sync_file? Then whether its work is done. */
bool fake_is_sync_file(int fd, unsigned int *ret_done);
int fake_sync_file_new(bool done);
int fake_sync_file_ioctl(unsigned long cmd, void *argument, bool done);

/* ---- control.c ---- */

/* Does this call, of that name, fail? Its errno, or 0. */
int fake_due(const char *name);
bool fake_is_forbidden(unsigned int node);
bool fake_is_gone(unsigned int node);
bool fake_has_prime(void);
bool fake_dumb_is_short(void);
/* The kernel looks at an object. The second is no look. */
bool fake_is_busy(void);
bool fake_is_busy_for_ever(void);
void fake_leaked(unsigned int node, unsigned int handles);
void fake_mutation(const char *name, void *data, size_t size);
void fake_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- tree.c ---- */

/* The file behind @path, in @to of PATH_MAX bytes; @path itself if it isn't ours. */
const char *fake_path(const char *path, char *to);
/* The reverse, in place; returns the new length. */
size_t fake_unpath(char *path, size_t length);
/* Which node is @path (as a user names it)? */
bool fake_node_of(const char *path, unsigned int *ret_node);
/* By its device number. */
unsigned int fake_minor(unsigned int node);
/* The card node comes; a node's file goes, and comes again. */
void fake_plug_card(void);
void fake_hide(unsigned int node, bool hidden);
/* As fake_drm_control.carry. */
void fake_carry(unsigned int node, const char *carrier);
bool fake_is_hidden(unsigned int node);
/* Is @fd the file behind a node's path, opened by O_PATH? Then which. */
bool fake_is_placeholder(int fd, unsigned int *ret_node);

#endif
