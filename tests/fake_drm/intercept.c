// SPDX-License-Identifier: MIT
/* The C library's calls through which the library and libdrm see nodes and sysfs. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "fake.h"

#define OURS __attribute__((visibility("default")))

/* drm_drv.c: DRM_MAJOR */
#define MAJOR 226

/* The next library's function of that name. */
#define NEXT(name)                                                 \
	({                                                         \
		static __typeof__(&(name)) next;                   \
		if (!next)                                         \
			*(void **)&next = dlsym(RTLD_NEXT, #name); \
		next;                                              \
	})

/* ---- paths ---- */

static bool makes_file(int flags)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
}

static mode_t mode_of(int flags, va_list arguments)
{
	return makes_file(flags) ? va_arg(arguments, mode_t) : 0;
}

static int open_at(int folder, const char *path, int flags, mode_t mode)
{
	char ours[PATH_MAX];
	unsigned int node;

	if (fake_node_of(path, &node) && !(flags & (O_PATH | O_DIRECTORY)))
		return fake_open(node);
	/* TSan knows open() only */
	if (folder == AT_FDCWD)
		return NEXT(open)(fake_path(path, ours), flags, mode);
	return NEXT(openat)(folder, fake_path(path, ours), flags, mode);
}

#define OPEN(name)                                           \
	OURS int name(const char *path, int flags, ...)      \
	{                                                    \
		va_list arguments;                           \
		mode_t mode;                                 \
                                                             \
		va_start(arguments, flags);                  \
		mode = mode_of(flags, arguments);            \
		va_end(arguments);                           \
		return open_at(AT_FDCWD, path, flags, mode); \
	}

#define OPENAT(name)                                                \
	OURS int name(int folder, const char *path, int flags, ...) \
	{                                                           \
		va_list arguments;                                  \
		mode_t mode;                                        \
                                                                    \
		va_start(arguments, flags);                         \
		mode = mode_of(flags, arguments);                   \
		va_end(arguments);                                  \
		return open_at(folder, path, flags, mode);          \
	}

OPEN(open)
OPEN(open64)
#undef openat64
OPENAT(openat64)

/* The rest take a path, and pass on the fake one behind it. */
#define WITH_PATH(type, name, parameters, arguments) \
	OURS type name parameters                    \
	{                                            \
		char ours[PATH_MAX];                 \
                                                     \
		path = fake_path(path, ours);        \
		return NEXT(name) arguments;         \
	}

WITH_PATH(FILE *, fopen, (const char *path, const char *mode), (path, mode))
WITH_PATH(FILE *, fopen64, (const char *path, const char *mode), (path, mode))
WITH_PATH(DIR *, opendir, (const char *path), (path))
/* scandir() calls the C library's own opendir(). */
WITH_PATH(int, scandir,
	  (const char *path, struct dirent ***entries, int (*filter)(const struct dirent *),
	   int (*compare)(const struct dirent **, const struct dirent **)),
	  (path, entries, filter, compare))
WITH_PATH(int, lstat, (const char *path, struct stat *st), (path, st))
WITH_PATH(int, lstat64, (const char *path, struct stat64 *st), (path, st))

OURS ssize_t readlink(const char *path, char *to, size_t size)
{
	char ours[PATH_MAX];
	ssize_t n = NEXT(readlink)(fake_path(path, ours), to, size);

	return n > 0 ? (ssize_t)fake_unpath(to, (size_t)n) : n;
}

OURS char *realpath(const char *path, char *to)
{
	char ours[PATH_MAX], *real = NEXT(realpath)(fake_path(path, ours), to);

	if (real)
		real[fake_unpath(real, strlen(real))] = '\0';
	return real;
}

char *__realpath_chk(const char *path, char *to, size_t size);
OURS char *__realpath_chk(const char *path, char *to, size_t size)
{
	(void)size; /* PATH_MAX at least, or it would not have been compiled */
	return realpath(path, to);
}

OURS int access(const char *path, int mode)
{
	char ours[PATH_MAX];
	unsigned int node;

	if (mode != F_OK && fake_node_of(path, &node) && fake_is_forbidden(node)) {
		errno = EACCES;
		return -1;
	}
	return NEXT(access)(fake_path(path, ours), mode);
}

/* dma-buf.c, dma_buf_fs_init_context(): the file system that a dma-buf is of. */
#define FSTATFS(name, type)                         \
	OURS int name(int fd, struct type *fs)      \
	{                                           \
		int r = NEXT(name)(fd, fs);         \
                                                    \
		if (!r && fake_is_dmabuf(fd))       \
			fs->f_type = DMA_BUF_MAGIC; \
		return r;                           \
	}

FSTATFS(fstatfs, statfs)
FSTATFS(fstatfs64, statfs64)

/* A node's file is a character device. */
#define AS_NODE(st, node)                                         \
	do {                                                      \
		(st)->st_mode = S_IFCHR | 0660;                   \
		(st)->st_rdev = makedev(MAJOR, fake_minor(node)); \
		(st)->st_size = 0;                                \
	} while (0)

#define STAT(name, type)                                       \
	OURS int name(const char *path, struct type *st)       \
	{                                                      \
		char ours[PATH_MAX];                           \
		unsigned int node;                             \
		int r = NEXT(name)(fake_path(path, ours), st); \
                                                               \
		if (!r && fake_node_of(path, &node))           \
			AS_NODE(st, node);                     \
		return r;                                      \
	}

#define FSTAT(name, type)                                                              \
	OURS int name(int fd, struct type *st)                                         \
	{                                                                              \
		int r = NEXT(name)(fd, st);                                            \
		unsigned int node;                                                     \
                                                                                       \
		if (!r && (fake_is_node(fd, &node) || fake_is_placeholder(fd, &node))) \
			AS_NODE(st, node);                                             \
		return r;                                                              \
	}

STAT(stat, stat)
STAT(stat64, stat64)
FSTAT(fstat, stat)
FSTAT(fstat64, stat64)

/* ---- descriptors ---- */

/* Not by number, as all closing: TSan would take the next file's number for the old file. */
int fake_close_next(int fd)
{
	return NEXT(close)(fd);
}

OURS int close(int fd)
{
	return fake_close(fd);
}

/* mm/memfd.c, memfd_file_seals_ptr(): a node and a dma-buf have no seals. */
static bool is_sealing(int fd, int cmd)
{
	unsigned int node;

	return (cmd == F_GET_SEALS || cmd == F_ADD_SEALS) &&
	       (fake_is_node(fd, &node) || fake_is_dmabuf(fd));
}

#define FCNTL(name)                                   \
	OURS int name(int fd, int cmd, ...)           \
	{                                             \
		va_list arguments;                    \
		void *argument;                       \
                                                      \
		va_start(arguments, cmd);             \
		argument = va_arg(arguments, void *); \
		va_end(arguments);                    \
		if (is_sealing(fd, cmd)) {            \
			errno = EINVAL;               \
			return -1;                    \
		}                                     \
		return NEXT(name)(fd, cmd, argument); \
	}

FCNTL(fcntl)
#undef fcntl64
FCNTL(fcntl64)

OURS int ioctl(int fd, unsigned long cmd, ...)
{
	va_list arguments;
	void *argument;
	bool ours;
	long r;

	va_start(arguments, cmd);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	r = fake_ioctl(fd, cmd, argument, &ours);
	return ours ? (int)r : NEXT(ioctl)(fd, cmd, argument);
}

#define MMAP(name, offset_type)                                                              \
	OURS void *name(void *address, size_t length, int prot, int flags, int fd,           \
			offset_type offset)                                                  \
	{                                                                                    \
		bool ours = false;                                                           \
		void *mapped = NULL;                                                         \
                                                                                             \
		if (fd >= 0 && !(flags & MAP_ANONYMOUS))                                     \
			mapped = fake_mmap(address, length, prot, flags, fd, offset, &ours); \
		return ours ? mapped : NEXT(name)(address, length, prot, flags, fd, offset); \
	}

MMAP(mmap, off_t)
MMAP(mmap64, off64_t)

/* Is the mapping at @address an object's memory? */
static bool is_memory_at(const void *address)
{
	FILE *maps = NEXT(fopen)("/proc/self/maps", "re");
	unsigned long begin, end;
	char line[512];
	bool found = false;

	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx", &begin, &end) == 2 && begin <= (uintptr_t)address &&
		    (uintptr_t)address < end) {
			found = fake_is_memory(line);
			break;
		}
	if (maps)
		fclose(maps);
	return found;
}

/* mm/mremap.c, vma_to_resize: maps of DRM objects are VM_DONTEXPAND */
OURS void *mremap(void *address, size_t old_length, size_t new_length, int flags, ...)
{
	va_list arguments;
	void *to;

	va_start(arguments, flags);
	to = flags & MREMAP_FIXED ? va_arg(arguments, void *) : NULL;
	va_end(arguments);
	if (new_length > old_length && is_memory_at(address)) {
		errno = EFAULT;
		return MAP_FAILED;
	}
	return NEXT(mremap)(address, old_length, new_length, flags, to);
}
