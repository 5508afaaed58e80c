// SPDX-License-Identifier: MIT
/* Open files, handles, dma-bufs, maps, and the calls that every driver's node answers. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <drm.h>

#include "fake.h"
#include "lock.h"

/* Names of memfds, which tell other processes their kind. */
#define NODE_NAME "fake_drm_node"
#define DMABUF_NAME "fake_dmabuf_"

static struct fake_file *files;
static struct fake_bo *bos;
static uint64_t next_offset[FAKE_DRM_ALL];

/* ---- the lock, which a fork finds free ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void fake_lock(void)
{
	pthread_mutex_lock(&lock);
}

void fake_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void set_up(void)
{
	pthread_atfork(fake_lock, fake_unlock, fake_unlock);
}

/*
 * ---- descriptors: raw calls, as the C library's come to us ----
 *
 * Others' are told apart without the lock: the first calls come before a sanitizer is
 * ready for locks.
 */

static bool stat_of(int fd, struct stat *st)
{
	return !syscall(SYS_newfstatat, fd, "", st, AT_EMPTY_PATH);
}

/* Which node is it of, by the name of a memfd: "/memfd:NAMEnode (deleted)"? */
bool fake_is_named(int fd, const char *format, unsigned int *ret_node)
{
	char path[64], name[64] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return syscall(SYS_readlinkat, AT_FDCWD, path, name, sizeof(name) - 1) > 0 &&
	       sscanf(name, format, ret_node) == 1;
}

bool fake_is_node(int fd, unsigned int *ret_node)
{
	return fake_is_named(fd, "/memfd:" NODE_NAME "%u", ret_node);
}

static bool is_dmabuf(int fd, unsigned int *ret_node)
{
	return fake_is_named(fd, "/memfd:" DMABUF_NAME "%u", ret_node);
}

bool fake_is_dmabuf(int fd)
{
	unsigned int node;

	return is_dmabuf(fd, &node);
}

bool fake_is_memory(const char *name)
{
	return strstr(name, "/memfd:" DMABUF_NAME);
}

int fake_memory_new(const char *name, unsigned int node)
{
	char text[64];

	snprintf(text, sizeof(text), "%s%u", name, node);
	return (int)syscall(SYS_memfd_create, text, MFD_CLOEXEC);
}

static void raw_close(int fd)
{
	if (fd >= 0)
		syscall(SYS_close, fd);
}

static int raw_dup(int fd)
{
	int r = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 3);

	return r < 0 ? -errno : r;
}

/* ---- the user's memory ---- */

int fake_read(const char *name, void *to, uint64_t from, size_t size)
{
	struct iovec here = { to, size }, there = { (void *)(uintptr_t)from, size };

	if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != (ssize_t)size)
		return -EFAULT;
	fake_mutation(name, to, size);
	return 0;
}

int fake_write(uint64_t to, const void *from, size_t size)
{
	struct iovec here = { (void *)from, size }, there = { (void *)(uintptr_t)to, size };

	return process_vm_writev(getpid(), &here, 1, &there, 1, 0) == (ssize_t)size ? 0 :
										      -EFAULT;
}

bool fake_has_pages(uint64_t address, uint64_t size)
{
	unsigned char vector[1];
	uint64_t at;

	for (at = address; at < address + size; at += FAKE_PAGE)
		if (mincore((void *)(uintptr_t)at, FAKE_PAGE, vector))
			return false;
	return size;
}

/* ---- handles ---- */

static struct fake_file *file_of(int fd)
{
	struct fake_file *file;
	struct stat st;

	if (!stat_of(fd, &st))
		return NULL;
	for (file = files; file; file = file->next)
		if (file->inode == st.st_ino)
			return file;
	return NULL;
}

struct fake_bo *fake_bo_of(struct fake_file *file, uint32_t handle)
{
	return handle < file->n_bo ? file->bos[handle] : NULL;
}

/* drm_gem.c, drm_gem_handle_create_tail: the lowest that is free, from 1 */
static int handle_new(struct fake_file *file, struct fake_bo *bo, uint32_t *ret_handle)
{
	struct fake_bo **grown;
	uint32_t i;

	for (i = 1; i < file->n_bo && file->bos[i]; i++)
		;
	if (i >= file->n_bo) {
		grown = realloc(file->bos, (i + 16) * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		memset(grown + file->n_bo, 0, (i + 16 - file->n_bo) * sizeof(*grown));
		file->bos = grown;
		file->n_bo = i + 16;
	}
	file->bos[i] = bo;
	bo->handles++;
	*ret_handle = i;
	return 0;
}

/* drm_gem.c, drm_gem_handle_delete and drm_gem_object_handle_put_unlocked */
int fake_handle_delete(struct fake_file *file, uint32_t handle)
{
	struct fake_bo *bo = fake_bo_of(file, handle);

	if (!bo)
		return -EINVAL;
	file->bos[handle] = NULL;
	if (--bo->handles)
		return 0;
	/* Its description stays, for a dma-buf of it that may come back. */
	raw_close(bo->fd);
	raw_close(bo->dmabuf);
	bo->fd = bo->dmabuf = -1;
	return 0;
}

unsigned int fake_handles(void)
{
	struct fake_file *file;
	unsigned int n = 0;
	uint32_t i;

	fake_lock();
	for (file = files; file; file = file->next) {
		for (i = 0; i < file->n_bo; i++)
			n += !!file->bos[i];
		n += fake_syncobjs(file);
	}
	fake_unlock();
	return n;
}

/* Takes over @fd, of memory, on success. */
static int bo_add(struct fake_file *file, int fd, uint64_t size, struct fake_bo **ret_bo,
		  uint32_t *ret_handle)
{
	struct fake_bo *bo = calloc(1, sizeof(*bo));
	struct stat st;
	int r;

	if (!bo || !stat_of(fd, &st)) {
		free(bo);
		return -ENOMEM;
	}
	bo->node = file->node;
	bo->fd = fd;
	bo->dmabuf = -1;
	bo->inode = st.st_ino;
	bo->size = size;
	r = handle_new(file, bo, ret_handle);
	if (r) {
		free(bo);
		return r;
	}
	/* drm_vma_manager.c: DRM_FILE_PAGE_OFFSET_START, and one after another */
	bo->offset = 0x100000000 + next_offset[file->node];
	next_offset[file->node] += size;
	bo->next = bos;
	bos = bo;
	*ret_bo = bo;
	return 0;
}

int fake_bo_new(struct fake_file *file, uint64_t size, struct fake_bo **ret_bo,
		uint32_t *ret_handle)
{
	int fd = fake_memory_new(DMABUF_NAME, file->node), r;

	if (fd < 0)
		return -ENOMEM;
	r = syscall(SYS_ftruncate, fd, size) ? -ENOMEM : 0;
	if (!r)
		r = bo_add(file, fd, size, ret_bo, ret_handle);
	if (r)
		raw_close(fd);
	return r;
}

/* ---- calls of every driver ---- */

/* drm_ioctl.c, drm_version and drm_copy_field */
static int copy_field(char *to, __kernel_size_t *length, const char *value)
{
	size_t n = strlen(value);

	if (n > *length)
		n = *length;
	*length = strlen(value);
	return n && to ? fake_write((uintptr_t)to, value, n) : 0;
}

static int version_call(struct fake_file *file, void *data)
{
	const struct fake_driver *driver = fake_drivers[file->node];
	struct drm_version *version = data;
	int r;

	version->version_major = driver->major;
	version->version_minor = driver->minor;
	version->version_patchlevel = driver->patchlevel;
	r = copy_field(version->name, &version->name_len, driver->name);
	if (!r)
		r = copy_field(version->date, &version->date_len, driver->date);
	if (!r)
		r = copy_field(version->desc, &version->desc_len, driver->description);
	return r;
}

/* drm_ioctl.c, drm_getcap */
static int get_cap_call(struct fake_file *file, void *data)
{
	const struct fake_driver *driver = fake_drivers[file->node];
	struct drm_get_cap *cap = data;

	switch (cap->capability) {
	case DRM_CAP_DUMB_BUFFER: /* all have dumb_create */
	case DRM_CAP_TIMESTAMP_MONOTONIC:
		cap->value = 1;
		break;
	case DRM_CAP_SYNCOBJ:
		cap->value = driver->syncobj;
		break;
	case DRM_CAP_SYNCOBJ_TIMELINE:
		cap->value = driver->timeline;
		break;
	case DRM_CAP_PRIME:
		cap->value = fake_has_prime() ? DRM_PRIME_CAP_IMPORT | DRM_PRIME_CAP_EXPORT : 0;
		break;
	default:
		return -EINVAL;
	}
	fake_trace("cap %llu\n", (unsigned long long)cap->capability);
	return 0;
}

/* drm_gem.c, drm_gem_close_ioctl */
static int gem_close_call(struct fake_file *file, void *data)
{
	struct drm_gem_close *args = data;

	return fake_handle_delete(file, args->handle);
}

/* drm_prime.c, drm_prime_handle_to_fd_ioctl: one dma-buf of an object, as it was first */
static int handle_to_fd_call(struct fake_file *file, void *data)
{
	struct drm_prime_handle *args = data;
	struct fake_bo *bo;
	char path[64];
	int fd;

	/* drm_prime_handle_to_fd_ioctl() of a driver without prime_handle_to_fd */
	if (!fake_has_prime())
		return -ENOSYS;
	if (args->flags & ~(uint32_t)(DRM_CLOEXEC | DRM_RDWR))
		return -EINVAL;
	bo = fake_bo_of(file, args->handle);
	if (!bo)
		return -ENOENT;
	if (bo->dmabuf < 0 && bo->map == FAKE_MAP_REFUSED)
		return fake_drivers[file->node]->userptr_export;
	if (bo->dmabuf < 0) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", bo->fd);
		bo->dmabuf =
			(int)syscall(SYS_openat, AT_FDCWD, path,
				     (args->flags & DRM_RDWR ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	}
	fd = bo->dmabuf < 0 ? -EMFILE : raw_dup(bo->dmabuf);
	if (fd < 0)
		return fd;
	if (!(args->flags & DRM_CLOEXEC))
		syscall(SYS_fcntl, fd, F_SETFD, 0);
	fake_trace("export flags %x\n", args->flags);
	args->fd = fd;
	return 0;
}

/* A dma-buf that is no object of this node: gem_prime_import_sg_table() */
static int import_foreign(struct fake_file *file, int fd, unsigned int node, uint64_t size,
			  struct fake_bo **ret_bo, uint32_t *ret_handle)
{
	const struct fake_driver *driver = fake_drivers[file->node];
	int memory, r;

	if (driver->foreign_error && node != file->node)
		return driver->foreign_error;
	memory = raw_dup(fd);
	if (memory < 0)
		return memory;
	r = bo_add(file, memory, size, ret_bo, ret_handle);
	if (r) {
		raw_close(memory);
		return r;
	}
	(*ret_bo)->dmabuf = raw_dup(fd);
	(*ret_bo)->map = driver->foreign;
	(*ret_bo)->domains = driver->foreign_domains;
	return 0;
}

/* drm_prime.c, drm_gem_prime_fd_to_handle and drm_gem_prime_import_dev */
static int fd_to_handle_call(struct fake_file *file, void *data)
{
	struct drm_prime_handle *args = data;
	struct fake_bo *bo;
	unsigned int node;
	struct stat st;
	uint32_t i;
	int r;

	if (!fake_has_prime())
		return -ENOSYS;
	/* dma_buf_get() */
	if (!stat_of(args->fd, &st))
		return -EBADF;
	if (!is_dmabuf(args->fd, &node))
		return -EINVAL;
	/* drm_prime_lookup_buf_handle(): it has a handle here */
	for (i = 0; i < file->n_bo; i++)
		if (file->bos[i] && file->bos[i]->inode == st.st_ino) {
			args->handle = i;
			return 0;
		}
	/* Its own object comes back. */
	for (bo = bos; bo; bo = bo->next)
		if (bo->inode == st.st_ino && bo->node == file->node)
			break;
	if (!bo) {
		r = import_foreign(file, args->fd, node, (uint64_t)st.st_size, &bo,
				   &args->handle);
		/* This node's, and another process made it: as it makes them. */
		if (!r && node == file->node)
			bo->map = FAKE_MAP_PAGES;
		return r;
	}
	if (bo->fd < 0)
		bo->fd = raw_dup(args->fd);
	if (bo->fd < 0)
		return bo->fd;
	if (bo->dmabuf < 0)
		bo->dmabuf = raw_dup(args->fd);
	return handle_new(file, bo, &args->handle);
}

static const struct fake_call core_calls[] = {
	{ "drm_version", DRM_IOCTL_VERSION, version_call },
	{ "drm_get_cap", DRM_IOCTL_GET_CAP, get_cap_call },
	{ "drm_gem_close", DRM_IOCTL_GEM_CLOSE, gem_close_call },
	{ "drm_prime_handle", DRM_IOCTL_PRIME_HANDLE_TO_FD, handle_to_fd_call },
	{ "drm_prime_handle (import)", DRM_IOCTL_PRIME_FD_TO_HANDLE, fd_to_handle_call },
	{ "drm_mode_create_dumb", DRM_IOCTL_MODE_CREATE_DUMB, fake_create_dumb_call },
	{ "drm_mode_map_dumb", DRM_IOCTL_MODE_MAP_DUMB, fake_map_dumb_call },
	{ "drm_mode_destroy_dumb", DRM_IOCTL_MODE_DESTROY_DUMB, fake_destroy_dumb_call },
	{ "drm_syncobj_create", DRM_IOCTL_SYNCOBJ_CREATE, fake_syncobj_create_call },
	{ "drm_syncobj_destroy", DRM_IOCTL_SYNCOBJ_DESTROY, fake_syncobj_destroy_call },
	{ "drm_syncobj_handle", DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, fake_syncobj_to_fd_call },
	{ "drm_syncobj_handle (import)", DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE,
	  fake_syncobj_from_fd_call },
	{ "drm_syncobj_transfer", DRM_IOCTL_SYNCOBJ_TRANSFER, fake_syncobj_transfer_call },
	{ "drm_syncobj_array", DRM_IOCTL_SYNCOBJ_SIGNAL, fake_syncobj_signal_call },
	{ "drm_syncobj_timeline_array", DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL,
	  fake_syncobj_timeline_signal_call },
	{ 0 },
};

static const struct fake_call *call_of(const struct fake_call *call, unsigned long cmd)
{
	for (; call->name; call++)
		if (_IOC_NR(call->cmd) == _IOC_NR(cmd))
			return call;
	return NULL;
}

/*
 * drm_ioctl.c, drm_ioctl: found by its number; bytes that the user's size and direction leave out
 * are zero, and bytes beyond the struct are not looked at.
 */
static int drm_ioctl(struct fake_file *file, unsigned long cmd, void *argument)
{
	const struct fake_call *call;
	size_t in, out;
	char data[512] = { 0 };
	int r;

	if (fake_is_gone(file->node))
		return -ENODEV;
	if (_IOC_TYPE(cmd) != DRM_IOCTL_BASE)
		return -ENOTTY;
	call = call_of(_IOC_NR(cmd) >= DRM_COMMAND_BASE && _IOC_NR(cmd) < DRM_COMMAND_END ?
			       fake_drivers[file->node]->calls :
			       core_calls,
		       cmd);
	if (!call)
		return -EINVAL;
	in = out = _IOC_SIZE(cmd);
	if (!(cmd & call->cmd & IOC_IN))
		in = 0;
	if (!(cmd & call->cmd & IOC_OUT))
		out = 0;
	if (_IOC_SIZE(call->cmd) > sizeof(data) || in > sizeof(data) || out > sizeof(data))
		abort(); /* no struct here is that large */
	r = in ? fake_read(call->name, data, (uintptr_t)argument, in) : 0;
	if (r)
		return r;
	r = fake_due(call->name);
	if (r)
		return -r;
	r = call->call(file, data);
	if (out && fake_write((uintptr_t)argument, data, out))
		return -EFAULT;
	return r;
}

long fake_ioctl(int fd, unsigned long cmd, void *argument, bool *ret_ours)
{
	unsigned int node, done;
	bool sync_file = false;
	struct fake_file *file;
	long r;

	*ret_ours = fake_is_node(fd, &node) || is_dmabuf(fd, &node);
	if (!*ret_ours)
		*ret_ours = sync_file = fake_is_sync_file(fd, &done);
	if (!*ret_ours)
		return 0;
	fake_lock();
	file = file_of(fd);
	r = sync_file ? fake_sync_file_ioctl(cmd, argument, done) :
	    file      ? drm_ioctl(file, cmd, argument) :
			fake_dmabuf_ioctl(cmd, argument);
	fake_unlock();
	if (r >= 0)
		return r;
	errno = (int)-r;
	return -1;
}

/* ---- maps ---- */

static void *refuse(int error)
{
	errno = error;
	return MAP_FAILED;
}

/* drm_gem.c, drm_gem_mmap and drm_gem_mmap_obj; ttm_bo_vm.c, ttm_bo_mmap_obj */
static void *node_mmap(struct fake_file *file, void *address, size_t length, int prot,
		       int flags, uint64_t offset)
{
	struct fake_bo *bo;
	void *mapped;
	uint32_t i;
	int error, fd;

	if (fake_is_gone(file->node))
		return refuse(ENODEV);
	/* drm_vma_offset_exact_lookup_locked() */
	for (bo = bos; bo; bo = bo->next)
		if (bo->node == file->node && bo->offset == offset && bo->fd >= 0)
			break;
	if (!bo)
		return refuse(EINVAL);
	for (i = 0; i < file->n_bo && file->bos[i] != bo; i++)
		;
	if (i == file->n_bo)
		return refuse(EACCES);
	if (bo->size < length)
		return refuse(EINVAL);
	if (!(flags & MAP_SHARED) && !fake_drivers[file->node]->cow)
		return refuse(EINVAL);
	if (bo->map == FAKE_MAP_REFUSED)
		return refuse(EPERM);
	if (bo->mmap_error)
		return refuse(bo->mmap_error);
	/* virtgpu_vram.c, virtio_gpu_vram_mmap */
	if (bo->whole && bo->size != length)
		return refuse(EINVAL);
	error = fake_due("mmap");
	if (error)
		return refuse(error);
	/* Past the end of a file every touch is a SIGBUS: one without bytes is all past it. */
	fd = bo->map == FAKE_MAP_SIGBUS ? fake_memory_new(DMABUF_NAME, file->node) : bo->fd;
	mapped = (void *)syscall(SYS_mmap, address, length, prot, flags, fd, 0);
	error = errno;
	if (fd != bo->fd)
		raw_close(fd);
	errno = error;
	return mapped;
}

void *fake_mmap(void *address, size_t length, int prot, int flags, int fd, off_t offset,
		bool *ret_ours)
{
	struct fake_file *file;
	unsigned int node;
	void *mapped;

	*ret_ours = fake_is_node(fd, &node) || is_dmabuf(fd, &node);
	if (!*ret_ours)
		return MAP_FAILED;
	fake_lock();
	file = file_of(fd);
	mapped = file ? node_mmap(file, address, length, prot, flags, (uint64_t)offset) :
			fake_dmabuf_mmap(fd, address, length, prot, flags, (uint64_t)offset);
	fake_unlock();
	return mapped;
}

/* ---- open and close ---- */

/* drm_file.c, drm_open: a file of its own each time, with no handles */
int fake_open(unsigned int node)
{
	struct fake_file *file = NULL;
	struct stat st;
	int fd = -1, error;

	fake_lock();
	error = fake_is_hidden(node)    ? ENOENT :
		fake_is_forbidden(node) ? EACCES :
		fake_is_gone(node)      ? ENODEV :
					  fake_due("open");
	if (error)
		goto err_unlock;
	fd = fake_memory_new(NODE_NAME, node);
	error = errno;
	if (fd < 0)
		goto err_unlock;
	file = calloc(1, sizeof(*file));
	error = ENOMEM;
	if (!file || !stat_of(fd, &st))
		goto err_close;
	file->node = node;
	file->inode = st.st_ino;
	file->next = files;
	files = file;
	fake_unlock();
	return fd;

err_close:
	free(file);
	raw_close(fd);
err_unlock:
	fake_unlock();
	errno = error;
	return -1;
}

/* Is the file open under another number, in this process? */
static bool is_open(ino_t inode)
{
	DIR *folder = opendir("/proc/self/fd");
	struct dirent *entry;
	struct stat st;
	bool found = false;

	while (folder && !found && (entry = readdir(folder)))
		found = stat_of(atoi(entry->d_name), &st) && st.st_ino == inode;
	if (folder)
		closedir(folder);
	return found;
}

/* drm_file.c, drm_file_free: it closes the handles that are left */
static void file_release(struct fake_file *file)
{
	struct fake_file **at = &files;
	unsigned int left = 0;
	uint32_t i;

	while (*at != file)
		at = &(*at)->next;
	*at = file->next;
	for (i = 0; i < file->n_bo; i++)
		if (file->bos[i]) {
			fake_handle_delete(file, i);
			left++;
		}
	left += fake_syncobjs(file);
	fake_syncobjs_release(file);
	/* A device that has gone takes no calls to close them: that is no leak. */
	if (left && !fake_is_gone(file->node))
		fake_leaked(file->node, left);
	free(file->bos);
	free(file);
}

int fake_close(int fd)
{
	struct fake_file *file;
	unsigned int node;
	int r;

	if (!fake_is_node(fd, &node))
		return fake_close_next(fd);
	fake_lock();
	file = file_of(fd);
	r = fake_close_next(fd);
	if (file && !is_open(file->inode))
		file_release(file);
	fake_unlock();
	return r;
}
