// SPDX-License-Identifier: MIT
/* Hooks for the library's system-call table. */
#include "lib/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/harness.h"
#include "base/sys.h"

#define KEPT_MAX 64

static struct sys_table real;

static struct {
	pthread_mutex_t lock; /* protects the below: some work is done by threads */
	bool armed;
	enum inject_mode mode;
	unsigned int n;
	unsigned int calls;
	unsigned int failures;
	const char *failed; /* the kind that failed first */
	const char *always; /* the kind that always fails, or NULL */
	int always_error;
	unsigned int left; /* as often still */
	bool shared_only;  /* of those, maps that are MAP_SHARED */
	struct {
		char *address;
		size_t length;
	} kept[KEPT_MAX]; /* ranges whose munmap() was made to fail */
	unsigned int n_kept;
} state = { .lock = PTHREAD_MUTEX_INITIALIZER, .failed = "" };

static bool is_due_locked(const char *name)
{
	if (state.always) {
		if (strcmp(state.always, name) != 0 || !state.left)
			return false;
		state.left--;
		return true;
	}
	if (state.calls == state.n)
		return true;
	if (!state.failures || strcmp(state.failed, name) != 0)
		return false;
	return state.mode == INJECT_REST || (state.mode == INJECT_TWO && state.failures == 1);
}

/* Does this call fail? Then errno is set. */
static bool fails(const char *name, int error)
{
	bool due = false;

	pthread_mutex_lock(&state.lock);
	if (state.armed) {
		state.calls++;
		due = is_due_locked(name);
	}
	if (due) {
		if (!state.failures)
			state.failed = name;
		state.failures++;
		errno = state.always ? state.always_error : error;
	}
	pthread_mutex_unlock(&state.lock);
	return due;
}

/* The errno of a call that fails half done. */
static int error_of(int error)
{
	return state.always ? state.always_error : error;
}

static bool covers(const char *a, size_t a_length, const char *b, size_t b_length)
{
	return a < b + b_length && b < a + a_length;
}

/* A range that another mapping takes over is no longer a rest of munmap(). */
static void drop_kept(void *address, size_t length)
{
	unsigned int i;

	pthread_mutex_lock(&state.lock);
	for (i = state.n_kept; i-- > 0;)
		if (covers(address, length, state.kept[i].address, state.kept[i].length))
			state.kept[i] = state.kept[--state.n_kept];
	pthread_mutex_unlock(&state.lock);
}

static bool is_kept_locked(const void *address, size_t length)
{
	unsigned int i;

	for (i = 0; i < state.n_kept; i++)
		if (state.kept[i].address == address && state.kept[i].length == length)
			return true;
	return false;
}

static void keep(void *address, size_t length)
{
	pthread_mutex_lock(&state.lock);
	if (state.n_kept < KEPT_MAX && !is_kept_locked(address, length)) {
		state.kept[state.n_kept].address = address;
		state.kept[state.n_kept].length = length;
		state.n_kept++;
	}
	pthread_mutex_unlock(&state.lock);
}

void inject_forgive(void)
{
	while (state.n_kept) {
		state.n_kept--;
		real.munmap(state.kept[state.n_kept].address, state.kept[state.n_kept].length);
	}
}

static void *mmap_by(void *(*call)(void *address, size_t length, int prot, int flags, int fd,
				   off_t offset),
		     void *address, size_t length, int prot, int flags, int fd, off_t offset)
{
	bool spared = state.shared_only && (!(flags & MAP_SHARED) || fd < 0);
	void *mapped;

	if (!spared && fails("mmap", ENOMEM)) {
		if (flags & MAP_FIXED)
			real.munmap(address, length);
		errno = error_of(ENOMEM);
		return MAP_FAILED;
	}
	mapped = call(address, length, prot, flags, fd, offset);
	if (mapped != MAP_FAILED)
		drop_kept(mapped, length);
	return mapped;
}

static void *hook_mmap(void *address, size_t length, int prot, int flags, int fd, off_t offset)
{
	return mmap_by(real.mmap, address, length, prot, flags, fd, offset);
}

static void *hook_mmap_over(void *address, size_t length, int prot, int flags, int fd,
			    off_t offset)
{
	return mmap_by(real.mmap_over, address, length, prot, flags, fd, offset);
}

static int hook_munmap(void *address, size_t length)
{
	if (fails("munmap", ENOMEM)) {
		keep(address, length);
		return -1;
	}
	drop_kept(address, length);
	return real.munmap(address, length);
}

static void *hook_mremap(void *address, size_t old_length, size_t new_length, int flags,
			 void *new_address)
{
	if (fails("mremap", ENOMEM)) {
		if (flags & MREMAP_FIXED)
			real.munmap(new_address, new_length);
		errno = error_of(ENOMEM);
		return MAP_FAILED;
	}
	return real.mremap(address, old_length, new_length, flags, new_address);
}

/* Over several mappings these have changed the first ones when they fail. */
static int hook_mprotect(void *address, size_t length, int prot)
{
	if (fails("mprotect", ENOMEM)) {
		if (length > PAGE)
			real.mprotect(address, PAGE, prot);
		errno = error_of(ENOMEM);
		return -1;
	}
	return real.mprotect(address, length, prot);
}

static int hook_mlock2(const void *address, size_t length, unsigned int flags)
{
	if (fails("mlock2", ENOMEM)) {
		if (length > PAGE)
			real.mlock2(address, PAGE, flags);
		errno = error_of(ENOMEM);
		return -1;
	}
	return real.mlock2(address, length, flags);
}

static int hook_munlock(const void *address, size_t length)
{
	if (fails("munlock", ENOMEM)) {
		if (length > PAGE)
			real.munlock(address, PAGE);
		errno = error_of(ENOMEM);
		return -1;
	}
	return real.munlock(address, length);
}

static int hook_close(int fd)
{
	int r = real.close(fd);

	return fails("close", EIO) ? -1 : r;
}

static int hook_fcntl(int fd, int command, long argument)
{
	bool locks = command == F_OFD_SETLKW || command == F_OFD_SETLK;

	return fails("fcntl", locks ? ENOLCK : EMFILE) ? -1 : real.fcntl(fd, command, argument);
}

static void *hook_calloc(size_t count, size_t size)
{
	return fails("calloc", ENOMEM) ? NULL : real.calloc(count, size);
}

/* The rest differ by name, parameters and errno only. */
#define HOOK(type, name, error, parameters, arguments)                 \
	static type hook_##name parameters                             \
	{                                                              \
		return fails(#name, error) ? -1 : real.name arguments; \
	}

HOOK(int, madvise, ENOMEM, (void *address, size_t length, int advice),
     (address, length, advice))
HOOK(int, msync, EIO, (void *address, size_t length, int flags), (address, length, flags))
/* ENOMEM would say that nothing is mapped there. */
HOOK(int, mincore, EAGAIN, (void *address, size_t length, unsigned char *vector),
     (address, length, vector))
HOOK(long, mbind, EIO,
     (void *address, unsigned long length, int mode, const unsigned long *mask,
      unsigned long max_node, unsigned int flags),
     (address, length, mode, mask, max_node, flags))
HOOK(long, move_pages, ENOMEM,
     (int pid, unsigned long count, void **pages, const int *nodes, int *status, int flags),
     (pid, count, pages, nodes, status, flags))
HOOK(int, memfd_create, EMFILE, (const char *name, unsigned int flags), (name, flags))
HOOK(int, open, EMFILE, (const char *path, int flags, mode_t mode), (path, flags, mode))
HOOK(int, mseal, EPERM, (void *address, size_t length), (address, length))
HOOK(int, dup3, EMFILE, (int fd, int to, int flags), (fd, to, flags))
HOOK(int, fstat, EIO, (int fd, struct stat *ret_stat), (fd, ret_stat))
HOOK(int, statx, EIO,
     (int fd, const char *path, int flags, unsigned int mask, struct statx *ret_statx),
     (fd, path, flags, mask, ret_statx))
HOOK(int, fstatfs, EIO, (int fd, struct statfs *ret_statfs), (fd, ret_statfs))
HOOK(int, getrusage, EINVAL, (int who, struct rusage *ret_usage), (who, ret_usage))
HOOK(long, getdents, ENOENT, (int fd, void *entries, size_t size), (fd, entries, size))
HOOK(int, ftruncate, EIO, (int fd, off_t length), (fd, length))
HOOK(int, fsync, EIO, (int fd), (fd))
HOOK(int, fallocate, ENOSPC, (int fd, int mode, off_t offset, off_t length),
     (fd, mode, offset, length))
HOOK(int, fadvise, EINVAL, (int fd, off_t offset, off_t length, int advice),
     (fd, offset, length, advice))
HOOK(int, uring_init, ENOMEM, (unsigned int entries, struct io_uring *ring, unsigned int flags),
     (entries, ring, flags))
HOOK(int, uring_submit, EBUSY, (struct io_uring * ring, unsigned int wait), (ring, wait))
HOOK(int, mkdir, ENOSPC, (const char *path, mode_t mode), (path, mode))
HOOK(int, rename, ENOSPC, (const char *from, const char *to), (from, to))
HOOK(int, remove, EIO, (const char *path), (path))
HOOK(int, access, ENOENT, (const char *path, int mode), (path, mode))
HOOK(ssize_t, readlink, ENOMEM, (const char *path, char *to, size_t length), (path, to, length))
HOOK(int, ioctl, ENOMEM, (int fd, unsigned long cmd, void *argument), (fd, cmd, argument))
HOOK(off_t, lseek, EINVAL, (int fd, off_t offset, int whence), (fd, offset, whence))
HOOK(ssize_t, read, EIO, (int fd, void *to, size_t length), (fd, to, length))
HOOK(ssize_t, write, EIO, (int fd, const void *from, size_t length), (fd, from, length))
HOOK(ssize_t, writev, EFAULT, (int fd, const struct iovec *parts, int n_parts),
     (fd, parts, n_parts))
HOOK(ssize_t, pread, EIO, (int fd, void *to, size_t length, off_t offset),
     (fd, to, length, offset))
HOOK(ssize_t, pread_now, EAGAIN, (int fd, void *to, size_t length, off_t offset),
     (fd, to, length, offset))
HOOK(ssize_t, pwrite, EIO, (int fd, const void *from, size_t length, off_t offset),
     (fd, from, length, offset))
HOOK(int, pidfd_open, EMFILE, (pid_t pid, unsigned int flags), (pid, flags))
HOOK(ssize_t, process_vm, EPERM, (bool write, void *own, void *other, size_t length),
     (write, own, other, length))
HOOK(int, pipe2, EMFILE, (int fds[2], int flags), (fds, flags))
HOOK(int, eventfd, EMFILE, (unsigned int value, int flags), (value, flags))
HOOK(int, userfaultfd, EPERM, (int flags), (flags))
HOOK(int, poll, EIO, (struct pollfd * files, nfds_t n_files, int timeout_ms),
     (files, n_files, timeout_ms))
HOOK(int, prctl, EINVAL,
     (int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d),
     (option, a, b, c, d))

HOOK(int, membarrier, EPERM, (int command, unsigned int flags), (command, flags))
HOOK(int, futex, EFAULT,
     (void *word, int operation, uint32_t value, const struct timespec *timeout),
     (word, operation, value, timeout))
HOOK(ssize_t, sendmsg, ENOBUFS, (int socket, const struct msghdr *message, int flags),
     (socket, message, flags))
HOOK(ssize_t, recvmsg, ENOMEM, (int socket, struct msghdr *message, int flags),
     (socket, message, flags))
HOOK(int, getsockopt, ENOTSOCK,
     (int socket, int level, int option, void *value, socklen_t *length),
     (socket, level, option, value, length))

HOOK(int, sigaction, EINVAL,
     (int signal, const struct sigaction *action, struct sigaction *old), (signal, action, old))
HOOK(int, pthread_sigmask, EINVAL, (int how, const sigset_t *set, sigset_t *old),
     (how, set, old))

void inject_install(void)
{
	if (real.mmap)
		return;
	real = sys_table;
	sys_table = (struct sys_table){
		.mmap = hook_mmap,
		.mmap_over = hook_mmap_over,
		.munmap = hook_munmap,
		.mremap = hook_mremap,
		.mprotect = hook_mprotect,
		.madvise = hook_madvise,
		.mlock2 = hook_mlock2,
		.munlock = hook_munlock,
		.mseal = hook_mseal,
		.msync = hook_msync,
		.mincore = hook_mincore,
		.mbind = hook_mbind,
		.move_pages = hook_move_pages,
		.memfd_create = hook_memfd_create,
		.open = hook_open,
		.close = hook_close,
		.dup3 = hook_dup3,
		.fcntl = hook_fcntl,
		.fstat = hook_fstat,
		.statx = hook_statx,
		.fstatfs = hook_fstatfs,
		.getrusage = hook_getrusage,
		.getdents = hook_getdents,
		.lseek = hook_lseek,
		.ftruncate = hook_ftruncate,
		.fsync = hook_fsync,
		.fallocate = hook_fallocate,
		.fadvise = hook_fadvise,
		.uring_init = hook_uring_init,
		.uring_submit = hook_uring_submit,
		.mkdir = hook_mkdir,
		.rename = hook_rename,
		.remove = hook_remove,
		.access = hook_access,
		.readlink = hook_readlink,
		.ioctl = hook_ioctl,
		.read = hook_read,
		.write = hook_write,
		.writev = hook_writev,
		.pread = hook_pread,
		.pread_now = hook_pread_now,
		.pwrite = hook_pwrite,
		.pidfd_open = hook_pidfd_open,
		.process_vm = hook_process_vm,
		.pipe2 = hook_pipe2,
		.eventfd = hook_eventfd,
		.userfaultfd = hook_userfaultfd,
		.poll = hook_poll,
		.prctl = hook_prctl,
		.membarrier = hook_membarrier,
		.futex = hook_futex,
		.sendmsg = hook_sendmsg,
		.recvmsg = hook_recvmsg,
		.getsockopt = hook_getsockopt,
		.sigaction = hook_sigaction,
		.pthread_sigmask = hook_pthread_sigmask,
		.calloc = hook_calloc,
	};
}

static void arm(unsigned int n, enum inject_mode mode, const char *always, int error)
{
	inject_install();
	pthread_mutex_lock(&state.lock);
	state.armed = true;
	state.mode = mode;
	state.n = n;
	state.calls = 0;
	state.failures = 0;
	state.failed = "";
	state.always = always;
	state.always_error = error;
	state.left = UINT_MAX;
	state.shared_only = false;
	pthread_mutex_unlock(&state.lock);
}

void inject_arm(unsigned int n, enum inject_mode mode)
{
	arm(n, mode, NULL, 0);
}

void inject_always(const char *name, int error)
{
	arm(0, INJECT_ONE, name, error);
}

void inject_some(const char *name, int error, unsigned int times)
{
	arm(0, INJECT_ONE, name, error);
	pthread_mutex_lock(&state.lock);
	state.left = times;
	pthread_mutex_unlock(&state.lock);
}

void inject_shared_refused(int error)
{
	arm(0, INJECT_ONE, "mmap", error);
	state.shared_only = true;
}

bool inject_disarm(void)
{
	bool failed;

	pthread_mutex_lock(&state.lock);
	state.armed = false;
	state.always = NULL;
	state.shared_only = false;
	failed = state.failures;
	pthread_mutex_unlock(&state.lock);
	return failed;
}

const char *inject_failed(void)
{
	return state.failed;
}

unsigned int inject_steps(enum inject_mode mode, unsigned int *ret_first)
{
	unsigned int step = 1, before = 0;

	if (mode != INJECT_ONE)
		step = test_every(&before);
	*ret_first = before + 1;
	return step;
}

unsigned int inject_calls(void)
{
	return state.calls;
}
