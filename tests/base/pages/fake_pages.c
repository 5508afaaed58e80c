// SPDX-License-Identifier: MIT
/*
 * A kernel with larger pages, as far as a process can tell: for LD_PRELOAD. FAKE_PAGE is the size,
 * a multiple of the real one. Calls that take whole pages answer as such a kernel does: a place, an
 * offset or a range that is not of its pages is EINVAL, and lengths are rounded up.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static uintptr_t fake(void)
{
	static uintptr_t size;
	const char *text = getenv("FAKE_PAGE");

	if (!size)
		size = text ? strtoul(text, NULL, 10) : 4096;
	return size;
}

static size_t rounded(size_t length)
{
	return (length + fake() - 1) & ~(fake() - 1);
}

static int refuse(void)
{
	errno = EINVAL;
	return -1;
}

long sysconf(int name)
{
	static long (*real)(int name);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "sysconf");
	return name == _SC_PAGESIZE ? (long)fake() : real(name);
}

int getpagesize(void)
{
	return (int)fake();
}

static int is_off(const void *address)
{
	return ((uintptr_t)address & (fake() - 1)) != 0;
}

/* A new place is a multiple of a page: more is taken, and the rest given back. */
static void *place(size_t length, int rights, int flags, int fd, off_t offset)
{
	char *bytes, *at;

	bytes = (char *)syscall(SYS_mmap, NULL, length + fake(), PROT_NONE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (bytes == MAP_FAILED)
		return bytes;
	at = (char *)rounded((uintptr_t)bytes);
	if (at > bytes)
		syscall(SYS_munmap, bytes, at - bytes);
	if (at < bytes + fake())
		syscall(SYS_munmap, at + length, bytes + fake() - at);
	bytes = (char *)syscall(SYS_mmap, at, length, rights, flags | MAP_FIXED, fd, offset);
	if (bytes == MAP_FAILED) {
		int error = errno;

		syscall(SYS_munmap, at, length);
		errno = error;
	}
	return bytes;
}

void *mmap(void *address, size_t length, int rights, int flags, int fd, off_t offset)
{
	if (((uintptr_t)offset & (fake() - 1)) || ((flags & MAP_FIXED) && is_off(address))) {
		errno = EINVAL;
		return MAP_FAILED;
	}
	length = rounded(length);
	if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE))
		return (void *)syscall(SYS_mmap, address, length, rights, flags, fd, offset);
	return place(length, rights, flags, fd, offset);
}

int munmap(void *address, size_t length)
{
	return is_off(address) ? refuse() : (int)syscall(SYS_munmap, address, rounded(length));
}

int mprotect(void *address, size_t length, int rights)
{
	return is_off(address) ? refuse() :
				 (int)syscall(SYS_mprotect, address, rounded(length), rights);
}

int madvise(void *address, size_t length, int advice)
{
	return is_off(address) ? refuse() :
				 (int)syscall(SYS_madvise, address, rounded(length), advice);
}

int msync(void *address, size_t length, int flags)
{
	return is_off(address) ? refuse() :
				 (int)syscall(SYS_msync, address, rounded(length), flags);
}

void *mremap(void *address, size_t length, size_t longer, int flags, ...)
{
	va_list list;
	void *to;

	va_start(list, flags);
	to = flags & MREMAP_FIXED ? va_arg(list, void *) : NULL;
	va_end(list);
	if (is_off(address) || is_off(to)) {
		errno = EINVAL;
		return MAP_FAILED;
	}
	/* A place that the kernel chooses is of its own pages. */
	if ((flags & MREMAP_MAYMOVE) && !(flags & MREMAP_FIXED)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mremap, address, rounded(length), rounded(longer), flags,
			       to);
}

/* A byte for each page of this size: is any of its parts in memory? */
int mincore(void *address, size_t length, unsigned char *vector)
{
	size_t parts = fake() / 4096, n = rounded(length) / 4096, i;
	unsigned char *real;

	if (is_off(address))
		return refuse();
	real = calloc(n, 1);
	if (!real)
		return refuse();
	if (syscall(SYS_mincore, address, n * 4096, real)) {
		free(real);
		return -1;
	}
	memset(vector, 0, n / parts);
	for (i = 0; i < n; i++)
		vector[i / parts] |= real[i] & 1;
	free(real);
	return 0;
}
