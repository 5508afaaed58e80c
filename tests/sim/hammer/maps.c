// SPDX-License-Identifier: MIT
/*
 * Changes that a process can make to maps, from many threads at once. They lie in an arena, so that
 * no thread takes away the program's own memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/sync_file.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "hammer.h"

static unsigned char *arena;

static void *reserve(void *at, uint64_t length, int flags)
{
	return mmap(at, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags,
		    -1, 0);
}

int hammer_maps_begin(void)
{
	arena = reserve(NULL, HAMMER_ARENA, 0);
	return arena == MAP_FAILED ? -errno : 0;
}

unsigned char *hammer_address(void)
{
	uint64_t place = hammer_random(HAMMER_MAPS);
	uint64_t page = hammer_chance(3) ? hammer_random(64) : 0;

	return arena + place * HAMMER_PLACE + page * HAMMER_PAGE;
}

/* Pages at @at that stay in its place. */
static uint64_t some_length(const unsigned char *at)
{
	uint64_t left = HAMMER_PLACE - (uint64_t)(at - arena) % HAMMER_PLACE;
	uint64_t length = (1 + hammer_random(hammer_chance(8) ? 1024 : 8)) * HAMMER_PAGE;

	return length < left ? length : left;
}

static int some_prot(void)
{
	static const int prots[] = { PROT_READ | PROT_WRITE,
				     PROT_READ | PROT_WRITE,
				     PROT_READ | PROT_WRITE,
				     PROT_READ,
				     PROT_WRITE,
				     PROT_NONE,
				     PROT_READ | PROT_EXEC };

	return prots[hammer_random(sizeof(prots) / sizeof(prots[0]))];
}

static void map(void)
{
	static const int more[] = { 0, 0, 0, 0, MAP_POPULATE, MAP_LOCKED, MAP_NORESERVE };
	unsigned char *at = hammer_address();
	uint64_t length = some_length(at);
	uint64_t first = hammer_chance(4) ? hammer_random(16) * HAMMER_PAGE : 0;
	unsigned int file = (unsigned int)hammer_random(HAMMER_FILES);
	uint64_t offset = hammer_handle(file) * atomic_load(&hammer_window) + first;
	int flags = MAP_FIXED | (hammer_chance(16) ? MAP_PRIVATE : MAP_SHARED) |
		    more[hammer_random(sizeof(more) / sizeof(more[0]))];
	int fd = hammer_chance(4) ? hammer_fd_pick() : -1;
	void *got;

	if (hammer_chance(32))
		offset = hammer_odd() & ~(HAMMER_PAGE - 1);
	if (fd >= 0)
		got = mmap(at, length, some_prot(), flags, fd, (off_t)first);
	else
		got = hammer_way->map(file, at, length, some_prot(), flags, offset);
	hammer_count(HAMMER_MMAP, got == MAP_FAILED ? -errno : 0);
}

/* The hole is closed again, unless another thread was faster. */
static void unmap(void)
{
	unsigned char *at = hammer_address();
	uint64_t length = some_length(at);

	if (!hammer_way->kernel || hammer_chance(2)) {
		hammer_count(HAMMER_MUNMAP,
			     reserve(at, length, MAP_FIXED) == MAP_FAILED ? -errno : 0);
		return;
	}
	hammer_count(HAMMER_MUNMAP, hammer_result(munmap(at, length)));
	reserve(at, length, MAP_FIXED_NOREPLACE);
}

static void move(void)
{
	unsigned char *from = hammer_address(), *to = hammer_address();
	uint64_t left = HAMMER_PLACE - (uint64_t)(to - arena) % HAMMER_PLACE;
	uint64_t length = some_length(from),
		 fresh = hammer_chance(2) ? length : some_length(to);
	int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
	void *got;

	if (!hammer_way->kernel)
		return; /* the twin maps things, too: there may be no hole for a moment */
	if (hammer_chance(4))
		length = 0; /* of a shared map: a second one */
	else if (hammer_chance(4))
		flags |= MREMAP_DONTUNMAP;
	fresh = fresh < left ? fresh : left; /* behind the last place is other memory */
	got = mremap(from, length, fresh, flags, to);
	hammer_count(HAMMER_MREMAP, got == MAP_FAILED ? -errno : 0);
	if (got == MAP_FAILED)
		reserve(to, fresh, MAP_FIXED_NOREPLACE); /* it is gone all the same */
	else if (length)
		reserve(from, length, MAP_FIXED_NOREPLACE);
}

static void advise(void)
{
	static const int advices[] = {
		MADV_NORMAL,
		MADV_RANDOM,
		MADV_SEQUENTIAL,
		MADV_WILLNEED,
		MADV_DONTNEED,
		MADV_FREE,
		MADV_REMOVE,
		MADV_DONTFORK,
		MADV_DOFORK,
		MADV_MERGEABLE,
		MADV_HUGEPAGE,
		MADV_DONTDUMP,
		MADV_DODUMP,
		MADV_COLD,
		MADV_WIPEONFORK,
		MADV_KEEPONFORK,
		MADV_PAGEOUT,
		22,
		23,
		24,
		25,
	};
	unsigned char *at = hammer_address();

	hammer_count(HAMMER_MADVISE,
		     hammer_result(madvise(
			     at, some_length(at),
			     advices[hammer_random(sizeof(advices) / sizeof(advices[0]))])));
}

static void lock(void)
{
	unsigned char *at = hammer_address();
	uint64_t length = some_length(at);
	unsigned char seen[1024];

	switch (hammer_random(4)) {
	case 0:
		hammer_count(HAMMER_LOCK, hammer_result(mlock(at, length)));
		break;
	case 1:
		hammer_count(HAMMER_LOCK, hammer_result(msync(at, length, MS_SYNC)));
		break;
	case 2:
		hammer_count(HAMMER_LOCK, hammer_result(mincore(at, length, seen)));
		break;
	default:
		hammer_count(HAMMER_LOCK, hammer_result(munlock(at, length)));
		break;
	}
}

static void touch(void)
{
	unsigned char *at = hammer_address();
	uint64_t length = some_length(at), i;
	unsigned char seen = 0;
	bool write = hammer_chance(2);

	HAMMER_GUARDED(HAMMER_TOUCH)
	{
		hammer_arm();
		for (i = 0; i < length; i += HAMMER_PAGE) {
			if (write)
				((volatile unsigned char *)at)[i] = (unsigned char)i;
			else
				seen ^= ((volatile unsigned char *)at)[i];
		}
		hammer_disarm();
		hammer_count(HAMMER_TOUCH, 0);
	}
	(void)seen;
}

static void copy(bool write)
{
	uint64_t length = hammer_chance(4) ? hammer_random(200000) : hammer_random(5000);
	unsigned int file = (unsigned int)hammer_random(HAMMER_FILES);
	uint64_t offset = hammer_handle(file) * atomic_load(&hammer_window) +
			  hammer_random(16 * HAMMER_PAGE);
	void *bytes = hammer_me->plain;

	if (length > sizeof(hammer_me->plain) || hammer_chance(2))
		bytes = hammer_address(); /* whatever is there, also the same buffer */
	if (!hammer_way->kernel && bytes != hammer_me->plain) {
		bytes = hammer_me->plain;
		length %= sizeof(hammer_me->plain);
	}
	if (hammer_chance(32))
		offset = hammer_odd() & INT64_MAX;
	if (write)
		hammer_count(HAMMER_WRITE, hammer_way->write(file, bytes, length, offset));
	else
		hammer_count(HAMMER_READ, hammer_way->read(file, bytes, length, offset));
}

/* Accesses from outside of the process. */
static void remote(void)
{
	struct iovec there = { .iov_base = hammer_address() };
	struct iovec here = { .iov_base = hammer_me->plain };
	int fd, ends[2];
	long r;

	here.iov_len = there.iov_len = hammer_random(sizeof(hammer_me->plain));
	switch (hammer_random(4)) {
	case 0:
		r = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
		break;
	case 1:
		r = process_vm_writev(getpid(), &here, 1, &there, 1, 0);
		break;
	case 2:
		if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
			return;
		r = vmsplice(ends[1], &there, 1, SPLICE_F_NONBLOCK);
		close(ends[0]);
		close(ends[1]);
		break;
	default:
		fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
		r = hammer_chance(2) ? pread(fd, here.iov_base, here.iov_len,
					     (off_t)(uintptr_t)there.iov_base) :
				       pwrite(fd, here.iov_base, here.iov_len,
					      (off_t)(uintptr_t)there.iov_base);
		close(fd);
		break;
	}
	hammer_count(HAMMER_REMOTE, hammer_result(r));
}

static void look(void)
{
	static const char *const paths[] = {
		"/proc/self/smaps_rollup",
		"/proc/self/maps",
		"/proc/self/numa_maps",
		"/sys/kernel/debug/hetsim/hetsim0/objects",
		"/sys/kernel/debug/hetsim/hetsim1/objects",
		"/sys/kernel/debug/dma_buf/bufinfo",
		"/proc/self/fdinfo/5",
		"/proc/self/fdinfo/6",
	};
	int fd = open(paths[hammer_random(sizeof(paths) / sizeof(paths[0]))],
		      O_RDONLY | O_CLOEXEC);
	long r;

	if (fd < 0) {
		hammer_count(HAMMER_LOOK, -errno);
		return;
	}
	do {
		r = read(fd, hammer_me->plain, sizeof(hammer_me->plain));
	} while (r > 0);
	hammer_count(HAMMER_LOOK, hammer_result(r));
	close(fd);
}

static void with_fd(void)
{
	struct dma_buf_sync bracket = { .flags = hammer_random(8) };
	struct sync_merge_data merge = { .name = "hammer", .fd2 = hammer_fd_pick() };
	int fd = hammer_fd_pick();
	struct pollfd wait = { .fd = fd, .events = POLLIN | POLLOUT };
	long r;

	switch (hammer_random(3)) {
	case 0:
		r = hammer_result(ioctl(fd, DMA_BUF_IOCTL_SYNC, &bracket));
		hammer_count(HAMMER_SYNC, r);
		break;
	case 1:
		hammer_count(HAMMER_POLL,
			     hammer_result(poll(&wait, 1, (int)hammer_random(20))));
		break;
	default:
		r = hammer_result(ioctl(fd, SYNC_IOC_MERGE, &merge));
		hammer_count(HAMMER_MERGE, r);
		if (!r)
			hammer_fd_put(merge.fence);
		break;
	}
}

/* The rest of a child's life. Its parent's other threads are not there. */
static void live_as_child(void)
{
	unsigned int n = (unsigned int)hammer_random(20);
	char *const arguments[] = { (char *)"true", NULL }, *const nothing[] = { NULL };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (n--) {
		if (hammer_chance(2))
			touch();
		else
			hammer_call();
	}
	if (hammer_chance(2)) {
		hammer_count(HAMMER_EXEC, 0);
		execve("/bin/true", arguments, nothing);
	}
	_exit(0);
}

static void spawn(void)
{
	pid_t pid;

	if (!hammer_way->kernel)
		return;
	pid = fork();
	if (!pid)
		live_as_child();
	hammer_count(HAMMER_FORK, pid < 0 ? -errno : 0);
	if (pid > 0 && hammer_chance(3))
		hammer_count(HAMMER_KILL, hammer_result(kill(pid, SIGKILL)));
}

void hammer_try_copy(void *to, const void *from, size_t size)
{
	HAMMER_GUARDED(HAMMER_TOUCH)
	{
		hammer_arm();
		memcpy(to, from, size);
		hammer_disarm();
	}
}

void hammer_memory(void)
{
	unsigned char *at;

	switch (hammer_random(40)) {
	case 0 ... 9:
		map();
		break;
	case 10 ... 13:
		unmap();
		break;
	case 14 ... 15:
		move();
		break;
	case 16 ... 17:
		at = hammer_address();
		hammer_count(HAMMER_MPROTECT,
			     hammer_result(mprotect(at, some_length(at), some_prot())));
		break;
	case 18 ... 20:
		advise();
		break;
	case 21:
		lock();
		break;
	case 22 ... 29:
		touch();
		break;
	case 30 ... 31:
		copy(false);
		break;
	case 32 ... 33:
		copy(true);
		break;
	case 34 ... 35:
		remote();
		break;
	case 36 ... 38:
		with_fd();
		break;
	default:
		if (hammer_chance(2))
			look();
		else
			spawn();
		break;
	}
}
