// SPDX-License-Identifier: MIT
/* hetsim: buffers that are shared as dma-bufs. */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "lib/peer.h"
#include "sim/vgem_support.h"

static int sync_it(int dmabuf, uint64_t flags)
{
	struct dma_buf_sync sync = { .flags = flags };

	return ioctl(dmabuf, DMA_BUF_IOCTL_SYNC, &sync) ? -errno : 0;
}

static void test_share(void)
{
	struct hetsim_buffer_resize resize = { .size = sizeof(resize) };
	struct hetsim_import import;
	unsigned char *theirs, *direct;
	int fd = hetsim_begin(O_RDWR);
	int dmabuf;
	uint32_t again;
	int other = hetsim_open(O_RDWR);
	struct hetsim_buffer buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);

	buffer.bytes[0] = 1;
	dmabuf = hetsim_export(fd, buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(dmabuf >= 0);
	CHECK_EQUAL(lseek(dmabuf, 0, SEEK_END), MIB(1));
	CHECK_EQUAL(hetsim_import(other, dmabuf, &import), 0);
	CHECK_EQUAL(import.length, MIB(1));
	again = import.handle;
	CHECK_EQUAL(hetsim_import(other, dmabuf, &import), 0);
	CHECK_EQUAL(import.handle, again);
	CHECK_EQUAL(hetsim_import(fd, dmabuf, &import), 0);
	CHECK_EQUAL(import.handle, buffer.handle);

	theirs = mmap(NULL, MIB(1), PROT_READ | PROT_WRITE, MAP_SHARED, other,
		      (off_t)import.offset);
	direct = mmap(NULL, MIB(1), PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf, 0);
	CHECK_FATAL(theirs != MAP_FAILED && direct != MAP_FAILED);
	theirs[4096] = 2;
	direct[8192] = 3;
	CHECK(direct[0] == 1 && direct[4096] == 2 && buffer.bytes[8192] == 3);
	CHECK(mmap(NULL, MIB(1), PROT_READ, MAP_PRIVATE, dmabuf, 0) == MAP_FAILED);
	CHECK(mmap(NULL, MIB(2), PROT_READ, MAP_SHARED, dmabuf, 0) == MAP_FAILED);

	resize.handle = buffer.handle;
	resize.length = MIB(1) / 2;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_RESIZE, &resize), -EBUSY);
	resize.length = MIB(2);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_RESIZE, &resize), 0);
	CHECK_EQUAL(direct[8192], 3);

	/* The maker goes; its holders keep it. */
	hetsim_buffer_drop(fd, &buffer);
	close(fd);
	close(dmabuf);
	CHECK_EQUAL(theirs[8192], 3);
	theirs[0] = 9;
	CHECK_EQUAL(direct[0], 9);
	CHECK_EQUAL(munmap(direct, MIB(1)), 0);
	resize.length = MIB(1) / 2;
	CHECK_EQUAL(hetsim_call(other, HETSIM_BUFFER_RESIZE, &resize), 0);
	CHECK_EQUAL(test_read_signal(theirs + MIB(1) / 2), SIGBUS);
	CHECK_EQUAL(munmap(theirs, MIB(1)), 0);
	close(other);
}

/* Revocation reaches maps of the dma-buf, too. */
static void test_revoke(void)
{
	struct hetsim_buffer_move move = { .size = sizeof(move), .length = MIB(1) };
	unsigned char *direct;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);
	int dmabuf = hetsim_export(fd, buffer.handle, HETSIM_EXPORT_WRITE);

	CHECK_FATAL(dmabuf >= 0);
	direct = mmap(NULL, MIB(1), PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf, 0);
	CHECK_FATAL(direct != MAP_FAILED);
	direct[5] = 5;
	move.handle = buffer.handle;
	move.place = hetsim_query(fd).window_bytes ? HETSIM_PLACE_WINDOW : HETSIM_PLACE_VRAM;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_MOVE, &move), 0);
	CHECK_EQUAL(direct[5], 5);
	buffer.bytes[5] = 6;
	CHECK_EQUAL(direct[5], 6);
	direct[5] = 7;
	CHECK_EQUAL(buffer.bytes[5], 7);
	CHECK_EQUAL(munmap(direct, MIB(1)), 0);
	close(dmabuf);
}

static void test_rights(void)
{
	struct hetsim_import import;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int dmabuf, pipes[2];
	int reader = hetsim_open(O_RDONLY);
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);

	dmabuf = hetsim_export(fd, buffer.handle, 0);
	CHECK_FATAL(dmabuf >= 0);
	CHECK(mmap(NULL, MIB(1), PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf, 0) == MAP_FAILED);
	CHECK_EQUAL(hetsim_import(fd, dmabuf, &import), -EACCES);
	CHECK_EQUAL(hetsim_import(reader, dmabuf, &import), 0);
	CHECK_EQUAL(hetsim_export(reader, import.handle, HETSIM_EXPORT_WRITE), -EACCES);
	CHECK_EQUAL(hetsim_export(reader, 4711, 0), -ENOENT);
	CHECK_EQUAL(hetsim_export(fd, buffer.handle, 2), -EINVAL);
	CHECK_EQUAL(pipe2(pipes, O_CLOEXEC), 0);
	CHECK_EQUAL(hetsim_import(fd, pipes[0], &import), -EINVAL);
	CHECK_EQUAL(hetsim_import(fd, -1, &import), -EINVAL);
	close(pipes[0]);
	close(pipes[1]);
	close(dmabuf);
	close(reader);
}

/* Tells one dma-buf from another. */
static ino_t object(int dmabuf)
{
	struct stat st = { 0 };

	CHECK_EQUAL(fstat(dmabuf, &st), 0);
	return st.st_ino;
}

static int export_it(int fd, uint32_t handle, uint32_t flags)
{
	int dmabuf = hetsim_export(fd, handle, flags);

	CHECK_FATAL(dmabuf >= 0);
	return dmabuf;
}

/* A handle of another driver, which has one for a dma-buf however often it is taken in. */
static uint32_t taken_in(int vgem, int dmabuf)
{
	struct drm_prime_handle prime = { .fd = dmabuf };

	CHECK_EQUAL(ioctl(vgem, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime), 0);
	return prime.handle;
}

/* However often a buffer is exported, and by which opener: one object for each kind of rights. */
static void test_one_object(void)
{
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int vgem;
	struct hetsim_import import;
	int other = hetsim_open(O_RDWR);
	struct hetsim_buffer buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);
	int first = export_it(fd, buffer.handle, HETSIM_EXPORT_WRITE);
	int second = export_it(fd, buffer.handle, HETSIM_EXPORT_WRITE);
	int reading = export_it(fd, buffer.handle, 0);
	ino_t one = object(first);

	CHECK(first != second && object(second) == one);
	CHECK(object(reading) != one);
	CHECK(mmap(NULL, MIB(1), PROT_WRITE, MAP_SHARED, reading, 0) == MAP_FAILED);
	vgem = vgem_open();
	if (vgem >= 0) {
		CHECK_EQUAL(taken_in(vgem, first), taken_in(vgem, second));
		close(vgem);
	}
	close(first);
	close(second);
	close(reading);
	first = export_it(fd, buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK(object(first) == one);

	/* The maker lets go of it: an importer exports the same object. */
	hetsim_buffer_drop(fd, &buffer);
	CHECK_EQUAL(hetsim_import(other, first, &import), 0);
	second = export_it(other, import.handle, HETSIM_EXPORT_WRITE);
	CHECK(object(second) == one);
	close(first);
	close(second);
	CHECK_EQUAL(hetsim_close_handle(other, import.handle), 0);
	close(other);
}

/* A longer buffer has a longer one; a dma-buf that was closed holds up no shrink. */
static void test_object_and_length(void)
{
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int first, second, objects = hetsim_objects();
	struct hetsim_buffer buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);

	first = export_it(fd, buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, MIB(2)), 0);
	second = export_it(fd, buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK(object(first) != object(second));
	CHECK_EQUAL(lseek(first, 0, SEEK_END), MIB(1));
	CHECK_EQUAL(lseek(second, 0, SEEK_END), MIB(2));
	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, MIB(1)), -EBUSY);
	close(second);
	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, MIB(1)), -EBUSY);
	close(first);
	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, MIB(1) / 2), 0);
	first = export_it(fd, buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK_EQUAL(lseek(first, 0, SEEK_END), MIB(1) / 2);
	close(first);
	hetsim_buffer_drop(fd, &buffer);
	/* Nothing keeps itself. */
	CHECK_EQUAL(hetsim_objects(), objects);
}

static bool is_ready(int dmabuf)
{
	return poll(&(struct pollfd){ .fd = dmabuf, .events = POLLIN }, 1, 0) == 1;
}

/* A fence put on one dma-buf is there on each of the buffer's, then and later. */
static void test_fence_of_all(void)
{
	struct dma_buf_import_sync_file import = { .flags = DMA_BUF_SYNC_WRITE };
	struct hetsim_fence_fd fence = { .size = sizeof(fence) };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int dmabufs[4], i;
	struct hetsim_command nothing = { 0 };
	uint64_t seqno = 0;
	int worker = hetsim_open(O_RDWR);
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);

	dmabufs[0] = export_it(fd, buffer.handle, HETSIM_EXPORT_WRITE);
	dmabufs[1] = export_it(fd, buffer.handle, HETSIM_EXPORT_WRITE);
	dmabufs[2] = export_it(fd, buffer.handle, 0);
	for (i = 0; i < 3; i++)
		CHECK(is_ready(dmabufs[i]));
	fence.queue = hetsim_queue_make(worker, HETSIM_QUEUE_DMA_FENCE, HETSIM_MAX_TIMEOUT_MS);
	CHECK_EQUAL(hetsim_inject(worker, HETSIM_INJECT_STUCK, fence.queue, 1), 0);
	CHECK_EQUAL(hetsim_submit(worker, fence.queue, &nothing, 1, &seqno), 0);
	fence.seqno = seqno;
	CHECK_FATAL(hetsim_call(worker, HETSIM_FENCE_FD, &fence) == 0);
	import.fd = fence.fd;
	CHECK_EQUAL(ioctl(dmabufs[0], DMA_BUF_IOCTL_IMPORT_SYNC_FILE, &import), 0);
	close(fence.fd);
	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, MIB(2)), 0);
	dmabufs[3] = export_it(fd, buffer.handle, HETSIM_EXPORT_WRITE);
	for (i = 0; i < 4; i++)
		CHECK(!is_ready(dmabufs[i]));
	/* The work ends with its opener. */
	close(worker);
	for (i = 0; i < 4; i++)
		CHECK_EQUAL(poll(&(struct pollfd){ .fd = dmabufs[i], .events = POLLIN }, 1,
				 10000),
			    1);
	for (i = 0; i < 4; i++)
		close(dmabufs[i]);
}

static void *export_often(void *user)
{
	int fd = *(int *)user, i, dmabuf;

	for (i = 0; i < 300; i++) {
		dmabuf = hetsim_export(fd, 1 + (uint32_t)(i % 2),
				       i % 3 ? HETSIM_EXPORT_WRITE : 0);
		if (dmabuf >= 0)
			close(dmabuf);
	}
	return NULL;
}

/* Exports, closes of the last handle and changes of length at once: nothing stays. */
static void test_objects_at_once(void)
{
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int objects = hetsim_objects(), i, r;
	struct hetsim_buffer buffer;
	pthread_t threads[2];

	for (i = 0; i < 2; i++)
		CHECK_FATAL(!pthread_create(&threads[i], NULL, export_often, &fd));
	for (i = 0; i < 100; i++) {
		CHECK_EQUAL(hetsim_buffer_create(fd, MIB(1), HETSIM_PLACE_SYSTEM, 0, &buffer),
			    0);
		CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, MIB(2)), 0);
		r = hetsim_buffer_resize(fd, buffer.handle, MIB(1));
		CHECK(!r || r == -EBUSY);
		CHECK_EQUAL(hetsim_close_handle(fd, buffer.handle), 0);
	}
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQUAL(hetsim_objects(), objects);
}

static void test_brackets(void)
{
	struct hetsim_counters counters;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int dmabuf, again, i;
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);

	dmabuf = hetsim_export(fd, buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(dmabuf >= 0);
	CHECK_EQUAL(sync_it(dmabuf, DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW), 0);
	CHECK_EQUAL(sync_it(dmabuf, DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW), 0);
	CHECK_EQUAL(sync_it(dmabuf, DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW), -EINVAL);
	counters = hetsim_counters(fd, HETSIM_SCOPE_OPENER);
	CHECK_EQUAL(counters.brackets, 1);
	CHECK_EQUAL(counters.brackets_missed, 1);

	/* Brackets nest, and those that are not ended when the dma-buf goes are missed. */
	for (i = 0; i < 3; i++)
		CHECK_EQUAL(sync_it(dmabuf, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ), 0);
	CHECK_EQUAL(sync_it(dmabuf, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ), 0);
	again = hetsim_export(fd, buffer.handle, 0);
	CHECK_EQUAL(sync_it(again, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ), -EINVAL);
	close(again);
	close(dmabuf);
	counters = hetsim_counters(fd, HETSIM_SCOPE_OPENER);
	CHECK_EQUAL(counters.brackets, 4);
	CHECK_EQUAL(counters.brackets_missed, 4);
}

/* Another process on the same dma-buf: its own bracket, and the end of ours. */
static void end_of_others(void *user)
{
	int dmabuf = *(int *)user;

	CHECK_EQUAL(sync_it(dmabuf, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ), 0);
	CHECK_EQUAL(sync_it(dmabuf, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ), 0);
	/* A process without a bracket ends another's; directions are not told apart. */
	CHECK_EQUAL(sync_it(dmabuf, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ), 0);
	CHECK_EQUAL(sync_it(dmabuf, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ), -EINVAL);
}

/* A buffer and its dma-buf, of a device that is opened: its descriptor, or -1. */
static int export_one(struct hetsim_buffer *buffer, int *ret_dmabuf)
{
	int fd = hetsim_open(O_RDWR);

	if (fd < 0)
		return -1;
	*buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);
	*ret_dmabuf = hetsim_export(fd, buffer->handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(*ret_dmabuf >= 0);
	return fd;
}

static void begin_and_die(void *user)
{
	CHECK_EQUAL(sync_it(*(int *)user, DMA_BUF_SYNC_START | DMA_BUF_SYNC_WRITE), 0);
}

/* One dma-buf counts the brackets of all processes; the read-only one has its own. */
static void test_brackets_of_two(void)
{
	struct hetsim_counters counters;
	struct hetsim_buffer buffer;
	int dmabuf, apart, fd = export_one(&buffer, &dmabuf);

	if (fd < 0)
		return;
	apart = hetsim_export(fd, buffer.handle, 0);
	CHECK_FATAL(apart >= 0);
	CHECK_EQUAL(sync_it(apart, DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW), 0);
	CHECK_EQUAL(sync_it(dmabuf, DMA_BUF_SYNC_START | DMA_BUF_SYNC_WRITE), 0);
	CHECK_EQUAL(test_fork(end_of_others, &dmabuf), 0);
	CHECK_EQUAL(sync_it(dmabuf, DMA_BUF_SYNC_END | DMA_BUF_SYNC_WRITE), -EINVAL);
	CHECK_EQUAL(sync_it(apart, DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW), 0);
	/* The kernel itself refuses these; they are no ends. */
	CHECK_EQUAL(sync_it(dmabuf, DMA_BUF_SYNC_END), -EINVAL);
	CHECK_EQUAL(sync_it(dmabuf, DMA_BUF_SYNC_END | 1u << 7), -EINVAL);
	counters = hetsim_counters(fd, HETSIM_SCOPE_OPENER);
	CHECK_EQUAL(counters.brackets, 3);
	CHECK_EQUAL(counters.brackets_missed, 2);

	/* That of a process that ends in it ends with it, and is nobody's to end. */
	CHECK_EQUAL(test_fork(begin_and_die, &dmabuf), 0);
	CHECK_EQUAL(test_fork(begin_and_die, &dmabuf), 0);
	CHECK_EQUAL(sync_it(dmabuf, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ), -EINVAL);
	CHECK_EQUAL(test_fork(begin_and_die, &apart), 0);
	CHECK_EQUAL(sync_it(apart, DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW), 0);
	CHECK_EQUAL(sync_it(apart, DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW), 0);
	CHECK_EQUAL(test_fork(begin_and_die, &apart), 0);
	close(dmabuf);
	close(apart);
	counters = hetsim_counters(fd, HETSIM_SCOPE_OPENER);
	CHECK_EQUAL(counters.brackets, 8);
	CHECK_EQUAL(counters.brackets_missed, 7);
	hetsim_buffer_drop(fd, &buffer);
	close(fd);
}

static int sync_there(struct peer_world *world, uint64_t dmabuf, uint64_t flags, uint64_t n)
{
	int r = 0;

	(void)world;
	for (; !r && n; n--)
		r = sync_it((int)dmabuf, flags);
	return r;
}

static uint64_t missed(int fd, uint32_t scope)
{
	return hetsim_counters(fd, scope).brackets_missed;
}

/* Dead, and not waited for yet. */
static void become_zombie(const struct peer *peer)
{
	siginfo_t info;

	CHECK_EQUAL(kill(peer->pid, SIGKILL), 0);
	CHECK_EQUAL(waitid(P_PID, (id_t)peer->pid, &info, WEXITED | WNOWAIT), 0);
}

/* Brackets of a process are closed when it is dead; those of others stay. */
static void test_brackets_of_dead(void)
{
	uint64_t start = DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW;
	uint64_t end = DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW;
	struct hetsim_counters counters;
	struct peer peer;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	uint64_t before = missed(fd, HETSIM_SCOPE_DEVICE);
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);
	int dmabuf = hetsim_export(fd, buffer.handle, HETSIM_EXPORT_WRITE);

	CHECK_FATAL(dmabuf >= 0);
	CHECK_EQUAL(sync_it(dmabuf, start), 0);
	peer_start(&peer, SOCK_SEQPACKET, NULL);
	CHECK_EQUAL(peer_call(&peer, sync_there, (uint64_t)dmabuf, start, 2), 0);
	CHECK_EQUAL(missed(fd, HETSIM_SCOPE_OPENER), 0);
	become_zombie(&peer);
	/* A query of the counters shows it, whichever opener made the buffer. */
	CHECK_EQUAL(missed(fd, HETSIM_SCOPE_DEVICE), before + 2);
	CHECK_EQUAL(missed(fd, HETSIM_SCOPE_OPENER), 2);
	peer_kill(&peer);
	CHECK_EQUAL(missed(fd, HETSIM_SCOPE_OPENER), 2);
	CHECK_EQUAL(sync_it(dmabuf, end), 0);
	CHECK_EQUAL(sync_it(dmabuf, end), -EINVAL);
	CHECK_EQUAL(sync_it(dmabuf, start), 0);
	CHECK_EQUAL(sync_it(dmabuf, end), 0);
	close(dmabuf);
	counters = hetsim_counters(fd, HETSIM_SCOPE_OPENER);
	CHECK_EQUAL(counters.brackets, 4);
	CHECK_EQUAL(counters.brackets_missed, 3);
}

/* An end is for the process's own begin, and for another process's if it has none. */
static void test_brackets_own_first(void)
{
	uint64_t start = DMA_BUF_SYNC_START | DMA_BUF_SYNC_WRITE;
	uint64_t end = DMA_BUF_SYNC_END | DMA_BUF_SYNC_WRITE;
	struct hetsim_buffer buffer;
	struct peer peer;
	int dmabuf, fd = export_one(&buffer, &dmabuf);

	if (fd < 0)
		return;
	peer_start(&peer, SOCK_SEQPACKET, NULL);
	/* Begun there after it was here, ended there: with the peer nothing is closed. */
	CHECK_EQUAL(sync_it(dmabuf, start), 0);
	CHECK_EQUAL(peer_call(&peer, sync_there, (uint64_t)dmabuf, start, 1), 0);
	CHECK_EQUAL(peer_call(&peer, sync_there, (uint64_t)dmabuf, end, 1), 0);
	become_zombie(&peer);
	CHECK_EQUAL(missed(fd, HETSIM_SCOPE_OPENER), 0);
	peer_kill(&peer);
	CHECK_EQUAL(sync_it(dmabuf, end), 0);

	/* Begun twice there, ended once here: with the peer the other one is closed. */
	peer_start(&peer, SOCK_SEQPACKET, NULL);
	CHECK_EQUAL(peer_call(&peer, sync_there, (uint64_t)dmabuf, start, 2), 0);
	CHECK_EQUAL(sync_it(dmabuf, end), 0);
	become_zombie(&peer);
	CHECK_EQUAL(sync_it(dmabuf, end), -EINVAL);
	CHECK_EQUAL(missed(fd, HETSIM_SCOPE_OPENER), 2);
	peer_kill(&peer);
	close(dmabuf);
	CHECK_EQUAL(missed(fd, HETSIM_SCOPE_OPENER), 2);
	hetsim_buffer_drop(fd, &buffer);
	close(fd);
}

static void *stay(void *user)
{
	for (;;)
		pause();
	return user;
}

/* The first thread ends, another one goes on. Answers nothing. */
static int begin_and_leave_thread(struct peer_world *world, uint64_t dmabuf, uint64_t flags,
				  uint64_t n)
{
	pthread_t thread;

	if (sync_there(world, dmabuf, flags, n) || pthread_create(&thread, NULL, stay, NULL))
		_exit(1);
	pthread_exit(NULL);
}

/* How the first thread is, as the kernel calls it; 0: there is none. */
static char state_of(pid_t pid)
{
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	fclose(file);
	return state;
}

/* A process has not ended before its last thread has. */
static void test_brackets_of_threads(void)
{
	uint64_t start = DMA_BUF_SYNC_START | DMA_BUF_SYNC_WRITE;
	struct hetsim_buffer buffer;
	struct peer peer;
	int dmabuf, tries, fd = export_one(&buffer, &dmabuf);

	if (fd < 0)
		return;
	peer_start(&peer, SOCK_SEQPACKET, NULL);
	peer_begin(&peer, begin_and_leave_thread, (uint64_t)dmabuf, start, 3);
	for (tries = 0; tries < 2000 && state_of(peer.pid) != 'Z'; tries++)
		usleep(5000);
	CHECK_EQUAL(state_of(peer.pid), 'Z');
	CHECK_EQUAL(missed(fd, HETSIM_SCOPE_OPENER), 0);
	CHECK_EQUAL(sync_it(dmabuf, DMA_BUF_SYNC_END | DMA_BUF_SYNC_WRITE), 0);
	become_zombie(&peer);
	CHECK_EQUAL(missed(fd, HETSIM_SCOPE_OPENER), 2);
	peer_kill(&peer);
	close(dmabuf);
	CHECK_EQUAL(missed(fd, HETSIM_SCOPE_OPENER), 2);
	hetsim_buffer_drop(fd, &buffer);
	close(fd);
}

#define BRACKETS 500

static void bracket_often(void *user)
{
	int dmabuf = *(int *)user, i;

	for (i = 0; i < BRACKETS; i++) {
		CHECK_EQUAL(sync_it(dmabuf, DMA_BUF_SYNC_START | DMA_BUF_SYNC_WRITE), 0);
		CHECK_EQUAL(sync_it(dmabuf, DMA_BUF_SYNC_END | DMA_BUF_SYNC_WRITE), 0);
	}
}

/* Two processes beside each other: none is lost, none is taken for another's. */
static void test_brackets_at_once(void)
{
	struct hetsim_counters counters;
	struct hetsim_buffer buffer;
	int dmabuf, status = -1, fd = export_one(&buffer, &dmabuf);
	pid_t child;

	if (fd < 0)
		return;
	child = fork();
	CHECK_FATAL(child >= 0);
	if (child == 0) {
		bracket_often(&dmabuf);
		_exit(0);
	}
	bracket_often(&dmabuf);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	close(dmabuf);
	counters = hetsim_counters(fd, HETSIM_SCOPE_OPENER);
	CHECK_EQUAL(counters.brackets, 2 * BRACKETS);
	CHECK_EQUAL(counters.brackets_missed, 0);
	hetsim_buffer_drop(fd, &buffer);
	close(fd);
}

static const struct test tests[] = {
	{ "share", test_share, 0, 0 },
	{ "revoke", test_revoke, 0, 0 },
	{ "rights", test_rights, 0, 0 },
	{ "one_object", test_one_object, 0, 0 },
	{ "object_and_length", test_object_and_length, 0, 0 },
	{ "fence_of_all", test_fence_of_all, 0, 0 },
	{ "objects_at_once", test_objects_at_once, 0, 0 },
	{ "brackets", test_brackets, 0, 0 },
	{ "brackets_of_two", test_brackets_of_two, 0, 0 },
	{ "brackets_of_dead", test_brackets_of_dead, 0, 0 },
	{ "brackets_own_first", test_brackets_own_first, 0, 0 },
	{ "brackets_of_threads", test_brackets_of_threads, 0, 0 },
	{ "brackets_at_once", test_brackets_at_once, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "hetsim_dmabuf", tests)
