/* SPDX-License-Identifier: MIT */
/*
 * The system-call seam: errno stops here. Each wrapper returns 0 or a count,
 * or a negative errno; EINTR and EAGAIN are retried with a bound where that is
 * right. The library calls the kernel (and the allocator) through sys_table
 * only, so that a test can make the n-th call fail.
 */
#ifndef HETMAP_SYS_H
#define HETMAP_SYS_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/vfs.h>

struct io_uring;

struct sys_table {
	void *(*mmap)(void *address, size_t length, int prot, int flags, int fd, off_t offset);
	void *(*mmap_over)(void *address, size_t length, int prot, int flags, int fd,
			   off_t offset);
	int (*munmap)(void *address, size_t length);
	void *(*mremap)(void *address, size_t old_length, size_t new_length, int flags,
			void *new_address);
	int (*mprotect)(void *address, size_t length, int prot);
	int (*madvise)(void *address, size_t length, int advice);
	int (*mlock2)(const void *address, size_t length, unsigned int flags);
	int (*munlock)(const void *address, size_t length);
	int (*mseal)(void *address, size_t length);
	int (*msync)(void *address, size_t length, int flags);
	int (*mincore)(void *address, size_t length, unsigned char *vector);
	long (*mbind)(void *address, unsigned long length, int mode, const unsigned long *mask,
		      unsigned long max_node, unsigned int flags);
	long (*move_pages)(int pid, unsigned long count, void **pages, const int *nodes,
			   int *status, int flags);
	int (*memfd_create)(const char *name, unsigned int flags);
	int (*open)(const char *path, int flags, mode_t mode);
	int (*close)(int fd);
	int (*dup3)(int fd, int to, int flags);
	int (*fcntl)(int fd, int command, long argument);
	int (*fstat)(int fd, struct stat *ret_stat);
	int (*statx)(int fd, const char *path, int flags, unsigned int mask,
		     struct statx *ret_statx);
	int (*fstatfs)(int fd, struct statfs *ret_statfs);
	int (*getrusage)(int who, struct rusage *ret_usage);
	long (*getdents)(int fd, void *entries, size_t size);
	off_t (*lseek)(int fd, off_t offset, int whence);
	int (*ftruncate)(int fd, off_t length);
	int (*fsync)(int fd);
	int (*fallocate)(int fd, int mode, off_t offset, off_t length);
	int (*fadvise)(int fd, off_t offset, off_t length, int advice);
	int (*mkdir)(const char *path, mode_t mode);
	int (*rename)(const char *from, const char *to);
	int (*remove)(const char *path);
	int (*access)(const char *path, int mode);
	ssize_t (*readlink)(const char *path, char *to, size_t length);
	int (*ioctl)(int fd, unsigned long cmd, void *argument);
	ssize_t (*read)(int fd, void *to, size_t length);
	ssize_t (*write)(int fd, const void *from, size_t length);
	ssize_t (*writev)(int fd, const struct iovec *parts, int n_parts);
	ssize_t (*pread)(int fd, void *to, size_t length, off_t offset);
	ssize_t (*pread_now)(int fd, void *to, size_t length, off_t offset);
	ssize_t (*pwrite)(int fd, const void *from, size_t length, off_t offset);
	ssize_t (*process_vm)(bool write, void *own, void *other, size_t length);
	int (*pipe2)(int fds[2], int flags);
	int (*eventfd)(unsigned int value, int flags);
	int (*userfaultfd)(int flags);
	int (*pidfd_open)(pid_t pid, unsigned int flags);
	int (*poll)(struct pollfd *files, nfds_t n_files, int timeout_ms);
	int (*prctl)(int option, unsigned long a, unsigned long b, unsigned long c,
		     unsigned long d);
	int (*membarrier)(int command, unsigned int flags);
	int (*futex)(void *word, int operation, uint32_t value, const struct timespec *timeout);
	ssize_t (*sendmsg)(int socket, const struct msghdr *message, int flags);
	ssize_t (*recvmsg)(int socket, struct msghdr *message, int flags);
	int (*getsockopt)(int socket, int level, int option, void *value, socklen_t *length);
	int (*sigaction)(int signal, const struct sigaction *action, struct sigaction *old);
	int (*pthread_sigmask)(int how, const sigset_t *set, sigset_t *old);
	int (*uring_init)(unsigned int entries, struct io_uring *ring, unsigned int flags);
	int (*uring_submit)(struct io_uring *ring, unsigned int wait);
	void *(*calloc)(size_t count, size_t size);
};

extern struct sys_table sys_table;

int sys_mmap(void *address, uint64_t length, int prot, int flags, int fd, uint64_t offset,
	     void **ret_address);
/*
 * For MAP_FIXED in @flags over memory that other threads may be touching; or, with @address
 * NULL, for a mapping that is to be moved there. Legal in a signal handler.
 */
int sys_mmap_over(void *address, uint64_t length, int prot, int flags, int fd, uint64_t offset,
		  void **ret_address);
int sys_munmap(void *address, uint64_t length);
/* MREMAP_MAYMOVE | MREMAP_FIXED: moves a mapping onto @new_address. */
int sys_mremap_to(void *address, uint64_t length, uint64_t new_length, void *new_address);
int sys_mprotect(void *address, uint64_t length, int prot);
int sys_madvise(void *address, uint64_t length, int advice);
int sys_mlock2(const void *address, uint64_t length, unsigned int flags);
int sys_munlock(const void *address, uint64_t length);
int sys_mseal(void *address, uint64_t length);
int sys_msync(void *address, uint64_t length, int flags);
int sys_mincore(void *address, uint64_t length, unsigned char *vector);
int sys_mbind(void *address, uint64_t length, int mode, uint64_t nodes);
/* Returns the node of the page at @address, or -ENOENT where there is no page yet. */
int sys_page_node(void *address);
int sys_memfd_create(const char *name, unsigned int flags); /* fd */
int sys_open(const char *path, int flags, mode_t mode);     /* fd */
void sys_close(int fd); /* never fails: Linux has released the number in any case */
int sys_dup(int fd);    /* fd, O_CLOEXEC */
/* Makes the open number @to another name of @fd's file. O_CLOEXEC. */
int sys_dup_to(int fd, int to);
int sys_fcntl(int fd, int command, long argument);
int sys_fstat(int fd, struct stat *ret_stat);
/* statx of an open file, from the kernel's own copy: no server is asked. */
int sys_fstatx(int fd, uint32_t mask, struct statx *ret_statx);
int sys_fstatfs(int fd, struct statfs *ret_statfs);
int sys_getrusage(int who, struct rusage *ret_usage);
/* Reads the next entries of a folder [getdents64(2)]; returns their bytes, 0 at the end. */
int64_t sys_getdents(int fd, void *entries, size_t size);
int64_t sys_lseek(int fd, int64_t offset, int whence); /* the new offset */
int sys_ftruncate(int fd, uint64_t length);
int sys_fsync(int fd);
int sys_fallocate(int fd, int mode, uint64_t offset, uint64_t length);
int sys_fadvise(int fd, uint64_t offset, uint64_t length, int advice);
int sys_mkdir(const char *path, mode_t mode);
int sys_rename(const char *from, const char *to);
int sys_remove(const char *path); /* a file, or an empty folder */
int sys_access(const char *path, int mode);
ssize_t sys_readlink(const char *path, char *to, size_t length); /* no '\0' at the end */
/* Not retried: the caller knows how to continue an interrupted request. */
int sys_ioctl(int fd, unsigned long cmd, void *argument);
int sys_ioctl_failed(int fd, unsigned long cmd, void *argument);
/* For requests that have done nothing after EINTR or EAGAIN: calls them again, with a bound. */
static inline int sys_ioctl_again(int fd, unsigned long cmd, void *argument)
{
	int r = sys_table.ioctl(fd, cmd, argument);

	return r < 0 ? sys_ioctl_failed(fd, cmd, argument) : r;
}
ssize_t sys_read(int fd, void *to, size_t length);
ssize_t sys_write(int fd, const void *from, size_t length);
ssize_t sys_writev(int fd, const struct iovec *parts, uint32_t n_parts);
ssize_t sys_pread(int fd, void *to, size_t length, uint64_t offset);
/* Reads cached bytes only (RWF_NOWAIT). -EAGAIN: none are cached; -EOPNOTSUPP: not known. */
ssize_t sys_pread_now(int fd, void *to, size_t length, uint64_t offset);
ssize_t sys_pwrite(int fd, const void *from, size_t length, uint64_t offset);
/*
 * Copies between memory of the library, @ours, and any addresses of this process, @any, with the
 * rights that the CPU has there, as they are at that moment. The number of bytes before the first
 * one that the CPU may not touch; -EFAULT: it is the very first. -EPERM, -ENOSYS: a filter or the
 * kernel lacks the call.
 */
ssize_t sys_copy_from_any(void *ours, const void *any, size_t length);
ssize_t sys_copy_to_any(void *any, const void *ours, size_t length);
/* Nodes of pages, or -ENOENT where there is none yet. Nothing moves. */
int sys_page_nodes(void **pages, uint32_t n, int *ret_nodes);
/*
 * Moves pages that this process alone has to nodes. Returns the number that stayed; a status is a
 * node or a negative errno, and stays untouched where the kernel gave up before the page.
 */
int sys_move_pages(void **pages, uint32_t n, const int *nodes, int *ret_status);
/* The table's own function for both copies. */
ssize_t sys_real_process_vm(bool write, void *own, void *other, size_t length);
int sys_pipe(int ret_fds[2]);                   /* to read from, to write to: O_CLOEXEC */
int sys_eventfd(unsigned int value, int flags); /* fd */
int sys_userfaultfd(int flags);                 /* fd */
int sys_pidfd_open(pid_t pid);                  /* fd, O_CLOEXEC */
/* Returns the number of @files with events. */
int sys_poll(struct pollfd *files, uint32_t n_files, int timeout_ms);
/* The same for a time in ns, rounded up to ms; signals don't lengthen it. */
int sys_poll_ns(struct pollfd *files, uint32_t n_files, uint64_t timeout_ns);
int sys_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);
/*
 * A full barrier in all running threads of the process, so that a thread may do with a barrier for
 * the compiler where others need one for the CPU, too. sys_barrier_prepare() goes before, once a
 * process. -ENOSYS, -EPERM: the kernel has none, or a sandbox refuses it [membarrier(2)].
 */
int sys_barrier_prepare(void);
int sys_barrier(void);
/*
 * Sleeps while *@word is @value, for @timeout_ns at most. Words may lie in files: the futexes
 * are not private ones. Returns 0 when woken, perhaps for no reason.
 * Errors:
 *   -EAGAIN *@word has another value
 *   -ETIMEDOUT
 *   -EINTR
 */
int sys_futex_wait(void *word, uint32_t value, uint64_t timeout_ns);
void sys_futex_wake(void *word); /* wakes all sleepers */
/* Returns -EAGAIN at once: the socket is a non-blocking one. Raises no SIGPIPE. */
ssize_t sys_sendmsg(int socket, const struct msghdr *message);
ssize_t sys_recvmsg(int socket, struct msghdr *message); /* descriptors: O_CLOEXEC */
int sys_getsockopt(int socket, int level, int option, int *ret_value);
int sys_socket_cookie(int socket, int option, uint64_t *ret_cookie);
int sys_peer(int socket, struct ucred *ret_peer); /* SO_PEERCRED */
int sys_sigaction(int signal, const struct sigaction *action, struct sigaction *ret_old);
int sys_sigmask(int how, const sigset_t *set, sigset_t *ret_old);
/* -ENOSYS in a build without liburing. */
int sys_uring_init(struct io_uring *ring, uint32_t entries);
/* Submits all prepared requests; returns when @wait of those in flight are done. */
int sys_uring_submit(struct io_uring *ring, uint32_t wait);
void *sys_calloc(size_t count, size_t size); /* NULL: no memory; free() it */

#endif
