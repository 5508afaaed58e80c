// SPDX-License-Identifier: MIT
/* The system-call seam: the only file of the core that reads errno. */
#include "base/sys.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <numaif.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/compat.h"
#include "config.h"
#include "base/util.h"

#ifdef HAVE_LIBURING
#include <liburing.h>
#endif

/* Tries before an EINTR or EAGAIN is returned: signals may come in bursts. */
#define RETRIES 100

/* Variadic and inlined functions need a wrapper. By number: UCX's mremap() drops the address. */
static void *real_mremap(void *address, size_t old_length, size_t new_length, int flags,
			 void *new_address)
{
	return (void *)syscall(SYS_mremap, address, old_length, new_length, flags, new_address);
}

/*
 * By number: TSan takes an mmap() for stores to all of its range by this thread, and does not
 * know that the kernel orders the replacement with accesses of other threads.
 */
static void *real_mmap_over(void *address, size_t length, int prot, int flags, int fd,
			    off_t offset)
{
	return (void *)syscall(SYS_mmap, address, length, prot, flags, fd, offset);
}

/* By number: under a sanitizer libc's mlock() and munlock() do nothing. */
static int real_mlock2(const void *address, size_t length, unsigned int flags)
{
	return (int)syscall(flags ? SYS_mlock2 : SYS_mlock, address, length, flags);
}

static int real_munlock(const void *address, size_t length)
{
	return (int)syscall(SYS_munlock, address, length);
}

static int real_mseal(void *address, size_t length)
{
	return (int)syscall(SYS_mseal, address, length, 0);
}

static int real_mincore(void *address, size_t length, unsigned char *vector)
{
	return mincore(address, length, vector);
}

static long real_move_pages(int pid, unsigned long count, void **pages, const int *nodes,
			    int *status, int flags)
{
	return move_pages(pid, count, pages, nodes, status, flags);
}

static int real_open(const char *path, int flags, mode_t mode)
{
	return open(path, flags, mode);
}

static int real_fcntl(int fd, int command, long argument)
{
	return fcntl(fd, command, argument);
}

static int real_eventfd(unsigned int value, int flags)
{
	return eventfd(value, flags);
}

static int real_userfaultfd(int flags)
{
	return (int)syscall(SYS_userfaultfd, flags);
}

static int real_pidfd_open(pid_t pid, unsigned int flags)
{
	return (int)syscall(SYS_pidfd_open, pid, flags);
}

static int real_prctl(int option, unsigned long a, unsigned long b, unsigned long c,
		      unsigned long d)
{
	return prctl(option, a, b, c, d);
}

/* glibc declares the first argument as an enum. */
static int real_getrusage(int who, struct rusage *ret_usage)
{
	return getrusage(who, ret_usage);
}

/* glibc has getdents64() since 2.30, musl has it under another name. */
static long real_getdents(int fd, void *entries, size_t size)
{
	return syscall(SYS_getdents64, fd, entries, size);
}

static int real_membarrier(int command, unsigned int flags)
{
	return (int)syscall(SYS_membarrier, command, flags, 0);
}

static int real_futex(void *word, int operation, uint32_t value, const struct timespec *timeout)
{
	return (int)syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
}

/* pthread_sigmask() returns the error number itself. */
static int real_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	int r = pthread_sigmask(how, set, old);

	if (r)
		errno = r;
	return r ? -1 : 0;
}

static ssize_t real_pread_now(int fd, void *to, size_t length, off_t offset)
{
	const struct iovec all = { .iov_base = to, .iov_len = length };

	return preadv2(fd, &all, 1, offset, RWF_NOWAIT);
}

/* posix_fadvise() returns the error number itself. */
static int real_fadvise(int fd, off_t offset, off_t length, int advice)
{
	int r = posix_fadvise(fd, offset, length, advice);

	if (r)
		errno = r;
	return r ? -1 : 0;
}

#ifdef HAVE_LIBURING
/* liburing returns negative errnos already: turns one into errno and -1, as libc does. */
static int as_errno(int r)
{
	if (r < 0)
		errno = -r;
	return r < 0 ? -1 : r;
}

static int real_uring_init(unsigned int entries, struct io_uring *ring, unsigned int flags)
{
	return as_errno(io_uring_queue_init(entries, ring, flags));
}

static int real_uring_submit(struct io_uring *ring, unsigned int wait)
{
	return as_errno(io_uring_submit_and_wait(ring, wait));
}
#else
static int real_uring_init(unsigned int entries, struct io_uring *ring, unsigned int flags)
{
	(void)entries, (void)ring, (void)flags;
	errno = ENOSYS;
	return -1;
}

static int real_uring_submit(struct io_uring *ring, unsigned int wait)
{
	return real_uring_init(wait, ring, 0);
}
#endif

/*
 * glibc's calloc() bypasses the thread's own cache of freed memory (malloc/malloc.c, before
 * 2.41), and takes five times as long as malloc() for sizes like those of a buffer or a map.
 */
#define FROM_CACHE 1024

static void *real_calloc(size_t count, size_t size)
{
	void *memory;
	size_t total;

	if (__builtin_mul_overflow(count, size, &total) || total > FROM_CACHE)
		return calloc(count, size);
	memory = malloc(total);
	/* Keeps the compiler from turning malloc() and memset() into calloc(). */
	__asm__("" : "+r"(total));
	return memory ? memset(memory, 0, total) : NULL;
}

struct sys_table sys_table = {
	.mmap = mmap,
	.mmap_over = real_mmap_over,
	.munmap = munmap,
	.mremap = real_mremap,
	.mprotect = mprotect,
	.madvise = madvise,
	.mlock2 = real_mlock2,
	.munlock = real_munlock,
	.mseal = real_mseal,
	.msync = msync,
	.mincore = real_mincore,
	.mbind = mbind,
	.move_pages = real_move_pages,
	.memfd_create = memfd_create,
	.open = real_open,
	.close = close,
	.dup3 = dup3,
	.fcntl = real_fcntl,
	.fstat = fstat,
	.statx = statx,
	.fstatfs = fstatfs,
	.getrusage = real_getrusage,
	.getdents = real_getdents,
	.lseek = lseek,
	.ftruncate = ftruncate,
	.fsync = fsync,
	.fallocate = fallocate,
	.fadvise = real_fadvise,
	.mkdir = mkdir,
	.rename = rename,
	.remove = remove,
	.access = access,
	.readlink = readlink,
	/*
	 * ioctl() itself: a bracket is little more than two of them. x86-64 and AArch64 call
	 * both types alike.
	 */
	.ioctl = (int (*)(int fd, unsigned long cmd, void *argument))ioctl,
	.read = read,
	.write = write,
	.writev = writev,
	.pread = pread,
	.pread_now = real_pread_now,
	.pwrite = pwrite,
	.process_vm = sys_real_process_vm,
	.pipe2 = pipe2,
	.eventfd = real_eventfd,
	.userfaultfd = real_userfaultfd,
	.pidfd_open = real_pidfd_open,
	.poll = poll,
	.prctl = real_prctl,
	.membarrier = real_membarrier,
	.futex = real_futex,
	.sendmsg = sendmsg,
	.recvmsg = recvmsg,
	.getsockopt = getsockopt,
	.sigaction = sigaction,
	.pthread_sigmask = real_sigmask,
	.uring_init = real_uring_init,
	.uring_submit = real_uring_submit,
	.calloc = real_calloc,
};

/* Evaluates @call until it is not interrupted; the result is >= 0 or -errno. */
#define RETRY(call)                                                            \
	({                                                                     \
		long result_;                                                  \
		int tries_ = 0;                                                \
                                                                               \
		do {                                                           \
			result_ = (call);                                      \
		} while (result_ < 0 && errno == EINTR && ++tries_ < RETRIES); \
		result_ < 0 ? -errno : result_;                                \
	})

int sys_mmap(void *address, uint64_t length, int prot, int flags, int fd, uint64_t offset,
	     void **ret_address)
{
	void *mapped = sys_table.mmap(address, length, prot, flags, fd, (off_t)offset);

	if (mapped == MAP_FAILED)
		return -errno;
	*ret_address = mapped;
	return 0;
}

int sys_mmap_over(void *address, uint64_t length, int prot, int flags, int fd, uint64_t offset,
		  void **ret_address)
{
	void *mapped = sys_table.mmap_over(address, length, prot, flags, fd, (off_t)offset);

	if (mapped == MAP_FAILED)
		return -errno;
	*ret_address = mapped;
	return 0;
}

int sys_munmap(void *address, uint64_t length)
{
	return (int)RETRY(sys_table.munmap(address, length));
}

int sys_mremap_to(void *address, uint64_t length, uint64_t new_length, void *new_address)
{
	void *moved = sys_table.mremap(address, length, new_length,
				       MREMAP_MAYMOVE | MREMAP_FIXED, new_address);

	return moved == MAP_FAILED ? -errno : 0;
}

int sys_mprotect(void *address, uint64_t length, int prot)
{
	return (int)RETRY(sys_table.mprotect(address, length, prot));
}

int sys_madvise(void *address, uint64_t length, int advice)
{
	int r = -EAGAIN;
	int tries;

	/* EAGAIN: "a kernel resource was temporarily unavailable" [madvise(2)]. */
	for (tries = 0; tries < RETRIES && (r == -EAGAIN || r == -EINTR); tries++)
		r = sys_table.madvise(address, length, advice) ? -errno : 0;
	return r;
}

int sys_mlock2(const void *address, uint64_t length, unsigned int flags)
{
	return (int)RETRY(sys_table.mlock2(address, length, flags));
}

int sys_munlock(const void *address, uint64_t length)
{
	return (int)RETRY(sys_table.munlock(address, length));
}

int sys_mseal(void *address, uint64_t length)
{
	return (int)RETRY(sys_table.mseal(address, length));
}

int sys_msync(void *address, uint64_t length, int flags)
{
	return (int)RETRY(sys_table.msync(address, length, flags));
}

int sys_mincore(void *address, uint64_t length, unsigned char *vector)
{
	int r = -EAGAIN;
	int tries;

	for (tries = 0; tries < RETRIES && r == -EAGAIN; tries++)
		r = sys_table.mincore(address, length, vector) ? -errno : 0;
	return r;
}

int sys_mbind(void *address, uint64_t length, int mode, uint64_t nodes)
{
	unsigned long mask = nodes;

	/* The kernel reads max_node - 1 bits [mbind(2), BUGS]. */
	return (int)RETRY(sys_table.mbind(address, length, mode, nodes ? &mask : NULL,
					  nodes ? 8 * sizeof(mask) + 1 : 0, 0));
}

int sys_page_node(void *address)
{
	int status = -ENOENT;
	long r = RETRY(sys_table.move_pages(0, 1, &address, NULL, &status, 0));

	return r < 0 ? (int)r : status;
}

int sys_memfd_create(const char *name, unsigned int flags)
{
	return (int)RETRY(sys_table.memfd_create(name, flags));
}

int sys_open(const char *path, int flags, mode_t mode)
{
	return (int)RETRY(sys_table.open(path, flags | O_CLOEXEC, mode));
}

void sys_close(int fd)
{
	/* Not retried on EINTR: the number may be another thread's by now. */
	sys_table.close(fd);
}

int sys_dup(int fd)
{
	return (int)RETRY(sys_table.fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

int sys_dup_to(int fd, int to)
{
	int r = -EINTR, tries;

	/* EBUSY: a race with open() for the number, which is over at once [dup(2)]. */
	for (tries = 0; tries < RETRIES && (r == -EINTR || r == -EBUSY); tries++)
		r = sys_table.dup3(fd, to, O_CLOEXEC) < 0 ? -errno : 0;
	return r;
}

int sys_fcntl(int fd, int command, long argument)
{
	return (int)RETRY(sys_table.fcntl(fd, command, argument));
}

int sys_fstat(int fd, struct stat *ret_stat)
{
	return (int)RETRY(sys_table.fstat(fd, ret_stat));
}

int sys_fstatx(int fd, uint32_t mask, struct statx *ret_statx)
{
	return (int)RETRY(
		sys_table.statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, mask, ret_statx));
}

int sys_fstatfs(int fd, struct statfs *ret_statfs)
{
	struct statfs fs;
	int r = (int)RETRY(sys_table.fstatfs(fd, &fs));

	if (!r)
		*ret_statfs = fs;
	return r;
}

int sys_getrusage(int who, struct rusage *ret_usage)
{
	struct rusage usage;
	int r = (int)RETRY(sys_table.getrusage(who, &usage));

	if (!r)
		*ret_usage = usage;
	return r;
}

int64_t sys_getdents(int fd, void *entries, size_t size)
{
	return RETRY(sys_table.getdents(fd, entries, size));
}

int64_t sys_lseek(int fd, int64_t offset, int whence)
{
	return RETRY(sys_table.lseek(fd, (off_t)offset, whence));
}

int sys_ftruncate(int fd, uint64_t length)
{
	return (int)RETRY(sys_table.ftruncate(fd, (off_t)length));
}

int sys_fsync(int fd)
{
	return (int)RETRY(sys_table.fsync(fd));
}

int sys_fallocate(int fd, int mode, uint64_t offset, uint64_t length)
{
	return (int)RETRY(sys_table.fallocate(fd, mode, (off_t)offset, (off_t)length));
}

int sys_fadvise(int fd, uint64_t offset, uint64_t length, int advice)
{
	return (int)RETRY(sys_table.fadvise(fd, (off_t)offset, (off_t)length, advice));
}

int sys_mkdir(const char *path, mode_t mode)
{
	return (int)RETRY(sys_table.mkdir(path, mode));
}

int sys_rename(const char *from, const char *to)
{
	return (int)RETRY(sys_table.rename(from, to));
}

int sys_remove(const char *path)
{
	return (int)RETRY(sys_table.remove(path));
}

int sys_access(const char *path, int mode)
{
	return (int)RETRY(sys_table.access(path, mode));
}

ssize_t sys_readlink(const char *path, char *to, size_t length)
{
	return RETRY(sys_table.readlink(path, to, length));
}

int sys_ioctl(int fd, unsigned long cmd, void *argument)
{
	int r = sys_table.ioctl(fd, cmd, argument);

	return r < 0 ? -errno : r;
}

int sys_ioctl_failed(int fd, unsigned long cmd, void *argument)
{
	int tries, r = -errno;

	for (tries = 1; tries < RETRIES && (r == -EINTR || r == -EAGAIN); tries++)
		r = sys_ioctl(fd, cmd, argument);
	return r;
}

ssize_t sys_read(int fd, void *to, size_t length)
{
	return RETRY(sys_table.read(fd, to, length));
}

ssize_t sys_write(int fd, const void *from, size_t length)
{
	return RETRY(sys_table.write(fd, from, length));
}

ssize_t sys_writev(int fd, const struct iovec *parts, uint32_t n_parts)
{
	return RETRY(sys_table.writev(fd, parts, (int)n_parts));
}

ssize_t sys_pread(int fd, void *to, size_t length, uint64_t offset)
{
	return RETRY(sys_table.pread(fd, to, length, (off_t)offset));
}

ssize_t sys_pread_now(int fd, void *to, size_t length, uint64_t offset)
{
	ssize_t n = sys_table.pread_now(fd, to, length, (off_t)offset);

	/* EAGAIN is an answer here. */
	return n < 0 ? -errno : n;
}

ssize_t sys_pwrite(int fd, const void *from, size_t length, uint64_t offset)
{
	return RETRY(sys_table.pwrite(fd, from, length, (off_t)offset));
}

int sys_pipe(int ret_fds[2])
{
	return (int)RETRY(sys_table.pipe2(ret_fds, O_CLOEXEC));
}

int sys_eventfd(unsigned int value, int flags)
{
	return (int)RETRY(sys_table.eventfd(value, flags));
}

int sys_userfaultfd(int flags)
{
	return (int)RETRY(sys_table.userfaultfd(flags));
}

int sys_pidfd_open(pid_t pid)
{
	return (int)RETRY(sys_table.pidfd_open(pid, 0));
}

int sys_poll(struct pollfd *files, uint32_t n_files, int timeout_ms)
{
	return (int)RETRY(sys_table.poll(files, n_files, timeout_ms));
}

int sys_poll_ns(struct pollfd *files, uint32_t n_files, uint64_t timeout_ns)
{
	uint64_t now = time_now_ns(), end, ms;
	int r;

	if (timeout_ns > UINT64_MAX - now) {
		/*
		 * The kernel never restarts poll() [signal(7)], and an endless wait meets many
		 * signals.
		 */
		do
			r = sys_table.poll(files, n_files, -1);
		while (r < 0 && errno == EINTR);
		return r < 0 ? -errno : r;
	}
	end = now + timeout_ns;
	do {
		ms = now < end ? (end - now + 999999) / 1000000 : 0;
		r = sys_table.poll(files, n_files, ms < INT_MAX ? (int)ms : INT_MAX);
		if (r > 0 || (r < 0 && errno != EINTR))
			return r < 0 ? -errno : r;
		now = time_now_ns();
	} while (now < end);
	return 0;
}

int sys_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	return (int)RETRY(sys_table.prctl(option, a, b, c, d));
}

int sys_barrier_prepare(void)
{
	return sys_table.membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0) ? -errno : 0;
}

int sys_barrier(void)
{
	return sys_table.membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0) ? -errno : 0;
}

int sys_futex_wait(void *word, uint32_t value, uint64_t timeout_ns)
{
	const struct timespec timeout = {
		.tv_sec = (time_t)(timeout_ns / 1000000000),
		.tv_nsec = (long)(timeout_ns % 1000000000),
	};

	return sys_table.futex(word, FUTEX_WAIT, value, &timeout) ? -errno : 0;
}

void sys_futex_wake(void *word)
{
	sys_table.futex(word, FUTEX_WAKE, INT_MAX, NULL);
}

ssize_t sys_sendmsg(int socket, const struct msghdr *message)
{
	return RETRY(sys_table.sendmsg(socket, message, MSG_NOSIGNAL));
}

ssize_t sys_recvmsg(int socket, struct msghdr *message)
{
	return RETRY(sys_table.recvmsg(socket, message, MSG_CMSG_CLOEXEC));
}

int sys_getsockopt(int socket, int level, int option, int *ret_value)
{
	socklen_t length = sizeof(*ret_value);
	int value = 0;
	int r = (int)RETRY(sys_table.getsockopt(socket, level, option, &value, &length));

	if (!r)
		*ret_value = value;
	return r;
}

int sys_socket_cookie(int socket, int option, uint64_t *ret_cookie)
{
	uint64_t cookie = 0;
	socklen_t length = sizeof(cookie);
	int r = (int)RETRY(sys_table.getsockopt(socket, SOL_SOCKET, option, &cookie, &length));

	if (!r)
		*ret_cookie = cookie;
	return r;
}

int sys_peer(int socket, struct ucred *ret_peer)
{
	socklen_t length = sizeof(*ret_peer);
	struct ucred peer;
	int r = (int)RETRY(
		sys_table.getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length));

	if (!r)
		*ret_peer = peer;
	return r;
}

int sys_sigaction(int signal, const struct sigaction *action, struct sigaction *ret_old)
{
	return (int)RETRY(sys_table.sigaction(signal, action, ret_old));
}

int sys_sigmask(int how, const sigset_t *set, sigset_t *ret_old)
{
	return (int)RETRY(sys_table.pthread_sigmask(how, set, ret_old));
}

int sys_uring_init(struct io_uring *ring, uint32_t entries)
{
	return (int)RETRY(sys_table.uring_init(entries, ring, 0));
}

int sys_uring_submit(struct io_uring *ring, uint32_t wait)
{
	return (int)RETRY(sys_table.uring_submit(ring, wait));
}

void *sys_calloc(size_t count, size_t size)
{
	return sys_table.calloc(count, size);
}
