// SPDX-License-Identifier: MIT
/* hetsim: one opener must not get data of another, nor take memory from it. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <liburing.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/control_group.h"
#include "lib/hetsim.h"
#include "lib/kernel_log.h"
#include "lib/support.h"

#define NOBODY 65534

/* ---- references in flight ---- */

enum {
	ATTACKERS = 4,
	CHUNK = 65536,
	THEIRS = 0xcc, /* what attackers write */
};

struct attack {
	unsigned char *target; /* where the victim's buffers come and go */
	int disk, pipes[2];
	volatile bool stop;
	volatile unsigned int refused, others;
};

static void attack_result(struct attack *attack, ssize_t n, int error)
{
	if (n < 0 && error == EFAULT)
		__atomic_add_fetch(&attack->refused, 1, __ATOMIC_RELAXED);
	else
		__atomic_add_fetch(&attack->others, 1, __ATOMIC_RELAXED);
}

/* The disk writes by itself into pages that it holds on to, if it gets them. */
static void *attack_direct(void *user)
{
	struct attack *attack = user;

	while (!attack->stop) {
		ssize_t n = pread(attack->disk, attack->target, CHUNK, 0);

		attack_result(attack, n, errno);
	}
	return NULL;
}

static void *attack_splice(void *user)
{
	struct attack *attack = user;
	struct iovec vector = { attack->target, CHUNK / 2 };
	static unsigned char sink[CHUNK];

	while (!attack->stop) {
		ssize_t n = vmsplice(attack->pipes[1], &vector, 1, SPLICE_F_NONBLOCK);

		attack_result(attack, n, errno);
		if (n > 0)
			(void)!read(attack->pipes[0], sink, (size_t)n);
	}
	return NULL;
}

static void *attack_process(void *user)
{
	struct attack *attack = user;
	static unsigned char bytes[CHUNK];
	struct iovec local = { bytes, CHUNK }, remote = { attack->target, CHUNK };

	memset(bytes, THEIRS, CHUNK);
	while (!attack->stop) {
		ssize_t n = process_vm_writev(getpid(), &local, 1, &remote, 1, 0);

		attack_result(attack, n, errno);
	}
	return NULL;
}

/* Registered buffers are held for as long as the ring is there. */
static void *attack_ring(void *user)
{
	struct attack *attack = user;
	struct iovec vector = { attack->target, CHUNK };
	struct io_uring ring;
	int r;

	while (!attack->stop) {
		r = io_uring_queue_init(4, &ring, 0);
		if (r)
			break;
		r = io_uring_register_buffers(&ring, &vector, 1);
		attack_result(attack, r, -r);
		io_uring_queue_exit(&ring);
	}
	return NULL;
}

static bool all(const unsigned char *bytes, uint64_t length, unsigned char value)
{
	uint64_t i;

	for (i = 0; i < length; i++)
		if (bytes[i] != value)
			return false;
	return true;
}

/* The victim's buffer comes and goes under the attack; the next one has its pages. */
static void victim(struct attack *attack, int fd, int other, unsigned int rounds)
{
	struct hetsim_buffer_create create = { .size = sizeof(create), .length = CHUNK };
	struct hetsim_buffer buffer;
	unsigned int round;
	void *map;

	create.place = HETSIM_PLACE_SYSTEM;
	for (round = 0; round < rounds; round++) {
		CHECK_FATAL(hetsim_call(fd, HETSIM_BUFFER_CREATE, &create) == 0);
		map = mmap(attack->target, CHUNK, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_FIXED, fd, (off_t)create.offset);
		CHECK_FATAL(map == attack->target);
		memset(attack->target, 0xaa, CHUNK);
		usleep(round % 4 * 200);
		CHECK(all(attack->target, CHUNK, 0xaa));
		CHECK_EQUAL(hetsim_close_handle(fd, create.handle), 0);
		map = mmap(attack->target, CHUNK, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		CHECK_FATAL(map == attack->target);

		buffer = hetsim_buffer_make(other, CHUNK, HETSIM_PLACE_SYSTEM);
		CHECK(all(buffer.bytes, CHUNK, 0));
		memset(buffer.bytes, 0xbb, CHUNK);
		usleep(round % 4 * 200);
		CHECK(all(buffer.bytes, CHUNK, 0xbb));
		hetsim_buffer_drop(other, &buffer);
	}
}

static void under_attack(void *(*const ways[])(void *user), unsigned int n_ways, int disk)
{
	struct attack attack = { .disk = disk };
	pthread_t threads[ATTACKERS];
	unsigned int i;
	int fd = hetsim_open(O_RDWR), other = hetsim_open(O_RDWR);

	attack.target = mmap(NULL, CHUNK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_FATAL(attack.target != MAP_FAILED);
	CHECK_EQUAL(pipe2(attack.pipes, O_CLOEXEC | O_NONBLOCK), 0);
	for (i = 0; i < n_ways; i++)
		CHECK_FATAL(pthread_create(&threads[i], NULL, ways[i], &attack) == 0);
	victim(&attack, fd, other, 60);
	attack.stop = true;
	for (i = 0; i < n_ways; i++)
		pthread_join(threads[i], NULL);
	CHECK(attack.refused > 0);
	CHECK_EQUAL(attack.others, 0);
	CHECK_EQUAL(munmap(attack.target, CHUNK), 0);
	close(attack.pipes[0]);
	close(attack.pipes[1]);
	close(other);
	close(fd);
}

static void test_in_flight(void)
{
	static void *(*const ways[])(void *user) = { attack_splice, attack_process,
						     attack_ring };
	int fd = hetsim_begin(O_RDWR);

	close(fd);
	under_attack(ways, 3, -1);
}

/*
 * A file that is read without the page cache: a RAM disk, and where the kernel has none, as the
 * debug kernel, a file of the host's, which the host writes into the reader's pages itself (9p's
 * zero-copy requests). -1: the test was skipped.
 */
static int open_disk(void)
{
	unsigned char *bytes;
	int disk;

	/* As root in a machine for tests, which is where the module is. */
	if (access("/dev/ram0", F_OK))
		(void)!system(
			"busybox modprobe brd rd_nr=1 rd_size=1024 2>/dev/null"); /* NOLINT */
	disk = open("/dev/ram0", O_RDWR | O_DIRECT | O_CLOEXEC);
	if (disk < 0) {
		disk = open("/proc/self/exe", O_RDONLY | O_DIRECT | O_CLOEXEC);
		if (disk < 0)
			test_skip("kernel", "nothing to read from directly");
		return disk;
	}
	bytes = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_FATAL(bytes != MAP_FAILED);
	memset(bytes, THEIRS, CHUNK);
	CHECK_EQUAL(pwrite(disk, bytes, CHUNK, 0), CHUNK);
	CHECK_EQUAL(munmap(bytes, CHUNK), 0);
	return disk;
}

static void test_direct_io(void)
{
	static void *(*const ways[])(void *user) = { attack_direct, attack_direct };
	unsigned char *bytes;
	int fd = hetsim_begin(O_RDWR);
	int disk;

	close(fd);
	disk = open_disk();
	if (disk < 0)
		return;
	/* A read into ordinary memory works. */
	bytes = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_FATAL(bytes != MAP_FAILED);
	CHECK_EQUAL(pread(disk, bytes, CHUNK, 0), CHUNK);
	CHECK_EQUAL(munmap(bytes, CHUNK), 0);
	under_attack(ways, 2, disk);
	close(disk);
}

/* ---- references on the pages of one large entry ---- */

#define BLOCK MIB(2)
#define BLOCKS 16

struct block_ways {
	unsigned char *target; /* where each block is mapped: a multiple of its size */
	int disk, pipes[2];
	struct io_uring rings[BLOCKS]; /* kept, with any buffers registered by mistake */
};

/*
 * get_user_pages_fast() walks the page table without a look at the map: the entry itself has to say
 * that it gives no references. For reading by vmsplice(), for writing by a direct read; the other
 * calls look at the map.
 */
static void try_references(struct block_ways *ways, unsigned int round)
{
	static unsigned char bytes[CHUNK];
	struct iovec local = { bytes, CHUNK }, remote = { ways->target, CHUNK };
	struct iovec whole = { ways->target, BLOCK };

	CHECK(pread(ways->disk, ways->target, CHUNK, 0) == -1 && errno == EFAULT);
	CHECK(pread(ways->disk, ways->target + MIB(1) + PAGE, CHUNK, 0) == -1 &&
	      errno == EFAULT);
	CHECK(vmsplice(ways->pipes[1], &whole, 1, SPLICE_F_NONBLOCK) == -1 && errno == EFAULT);
	memset(bytes, THEIRS, CHUNK);
	CHECK(process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == -1 && errno == EFAULT);
	CHECK(process_vm_writev(getpid(), &local, 1, &remote, 1, 0) == -1 && errno == EFAULT);
	CHECK(all(bytes, CHUNK, THEIRS));
	CHECK_FATAL(io_uring_queue_init(4, &ways->rings[round], 0) == 0);
	CHECK_EQUAL(io_uring_register_buffers(&ways->rings[round], &whole, 1), -EFAULT);
}

/*
 * A block by one entry, or where none are had by 512: mapped before all the ways to hold
 * on to it, and after.
 */
static void block_refuses(struct block_ways *ways, int fd, unsigned int round)
{
	struct hetsim_counters before, after;
	struct hetsim_buffer buffer;
	unsigned char value = (unsigned char)(round + 1);
	uint64_t i;

	CHECK_FATAL(hetsim_buffer_create(fd, BLOCK, HETSIM_PLACE_SYSTEM, 0, &buffer) == 0);
	CHECK_FATAL(mmap(ways->target, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			 fd, (off_t)buffer.offset) == ways->target);
	before = hetsim_counters(fd, HETSIM_SCOPE_OPENER);
	for (i = 0; i < BLOCK; i += PAGE)
		ways->target[i] = value;
	after = hetsim_counters(fd, HETSIM_SCOPE_OPENER);
	CHECK_EQUAL(after.faults_huge - before.faults_huge, hetsim_has_blocks() ? 1 : 0);
	CHECK_EQUAL(after.faults - before.faults, 1);
	try_references(ways, round);
	for (i = 0; i < BLOCK; i += PAGE)
		if (ways->target[i] != value)
			break;
	CHECK_EQUAL(i, BLOCK);
	CHECK_EQUAL(hetsim_counters(fd, HETSIM_SCOPE_OPENER).faults, after.faults);
	CHECK_FATAL(mmap(ways->target, BLOCK, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == ways->target);
	CHECK_EQUAL(hetsim_close_handle(fd, buffer.handle), 0);
}

/* Held pages would stay when their buffer is gone, as pipe and rings are there still. */
static void test_blocks_unheld(void)
{
	struct block_ways ways;
	uint64_t free_before, free_after;
	unsigned char *hole;
	unsigned int round;
	int fd = hetsim_begin(O_RDWR);

	ways.disk = open_disk();
	if (ways.disk < 0) {
		close(fd);
		return;
	}
	hole = mmap(NULL, 2 * BLOCK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_FATAL(hole != MAP_FAILED);
	ways.target = hole + (-(uintptr_t)hole & (BLOCK - 1));
	CHECK_EQUAL(pipe2(ways.pipes, O_CLOEXEC | O_NONBLOCK), 0);
	free_before = hetsim_free_bytes();
	for (round = 0; round < BLOCKS; round++)
		block_refuses(&ways, fd, round);
	free_after = hetsim_free_bytes();
	CHECK(free_after + BLOCKS * BLOCK / 2 > free_before);
	for (round = 0; round < BLOCKS; round++)
		io_uring_queue_exit(&ways.rings[round]);
	CHECK_EQUAL(munmap(hole, 2 * BLOCK), 0);
	close(ways.pipes[0]);
	close(ways.pipes[1]);
	close(ways.disk);
	close(fd);
}

/* ---- other users ---- */

static void become_nobody(void)
{
	CHECK_FATAL(setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
}

/* The calls that any user may make, and those that only root may. */
static void ordinary(void *user)
{
	struct hetsim_buffer buffer;
	struct hetsim_command nothing = { 0 };
	uint32_t queue;
	int fd;

	(void)user;
	become_nobody();
	fd = hetsim_open(O_RDWR);
	CHECK_FATAL(fd >= 0);
	buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);
	buffer.bytes[0] = 1;
	queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 0);
	CHECK_EQUAL(hetsim_run(fd, queue, &nothing), 0);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_LATENCY, queue, 1000), 0);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_RESET, 0, 0), -EPERM);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0), -EPERM);
	CHECK_EQUAL(open("/sys/kernel/debug/hetsim/plug", O_WRONLY | O_CLOEXEC), -1);
	CHECK_EQUAL(hetsim_objects(), -1);
	hetsim_buffer_drop(fd, &buffer);
	close(fd);
}

static void test_ordinary_user(void)
{
	int fd = hetsim_begin(O_RDWR);

	close(fd);
	if (geteuid()) {
		test_skip("kernel", "not root, who could become another user");
		return;
	}
	CHECK_EQUAL(test_fork(ordinary, NULL), 0);
}

struct passed {
	int socket;
	struct hetsim_buffer mine;   /* of the open file that is passed */
	struct hetsim_buffer secret; /* of another one of the same process */
};

/* A holder of the file has the objects on it, and nothing else of its opener. */
static void receiver(void *user)
{
	struct passed *passed = user;
	struct hetsim_buffer_info info = { .size = sizeof(info) };
	unsigned char byte = 0, *bytes;
	int fd;

	munmap(passed->mine.bytes, passed->mine.length);
	munmap(passed->secret.bytes, passed->secret.length);
	become_nobody();
	fd = receive_fd(passed->socket);
	bytes = mmap(NULL, MIB(1), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		     (off_t)passed->mine.offset);
	CHECK_FATAL(bytes != MAP_FAILED);
	CHECK_EQUAL(bytes[0], 11);
	bytes[0] = 12;
	info.handle = passed->secret.handle;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_INFO, &info), -ENOENT);
	CHECK(mmap(NULL, MIB(1), PROT_READ, MAP_SHARED, fd, (off_t)passed->secret.offset) ==
		      MAP_FAILED &&
	      errno == ENOENT);
	CHECK(pread(fd, &byte, 1, (off_t)passed->secret.offset) == -1 && errno == ENOENT);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_SIGBUS, passed->secret.handle, 0), -ENOENT);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0), -EPERM);
	CHECK_EQUAL(munmap(bytes, MIB(1)), 0);
	close(fd);
}

static void test_passed_file(void)
{
	struct passed passed;
	int fd = hetsim_begin(O_RDWR);
	int other, sockets[2];
	pid_t child;
	int status = -1;

	if (geteuid()) {
		close(fd);
		test_skip("kernel", "not root, who could become another user");
		return;
	}
	other = hetsim_open(O_RDWR);
	passed.mine = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);
	passed.secret = hetsim_buffer_make(other, MIB(1), HETSIM_PLACE_SYSTEM);
	passed.mine.bytes[0] = 11;
	passed.secret.bytes[0] = 22;
	CHECK_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
	passed.socket = sockets[1];
	send_fd(sockets[0], fd);
	child = fork();
	CHECK_FATAL(child >= 0);
	if (child == 0) {
		close(fd);
		close(other);
		_exit(test_fork(receiver, &passed) ? 1 : 0);
	}
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	CHECK_EQUAL(passed.mine.bytes[0], 12);
	CHECK_EQUAL(passed.secret.bytes[0], 22);
	hetsim_buffer_drop(fd, &passed.mine);
	hetsim_buffer_drop(other, &passed.secret);
	close(sockets[0]);
	close(sockets[1]);
	close(other);
	close(fd);
}

/* ---- a neighbour that takes all there is ---- */

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Fills its share with buffers, all its queues with work, and holds on. */
static void hog(int ready)
{
	static struct hetsim_command work[256];
	struct hetsim_buffer_create create = { .size = sizeof(create), .length = MIB(4) };
	uint32_t queues[64], n = 0, i;
	uint64_t seqno, taken = 0;
	int fd = hetsim_open(O_RDWR);
	struct hetsim_buffer buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);

	hetsim_bind(fd, &buffer, HETSIM_BIND_WRITE);
	/* Not more than the machine has, where the device could have it. */
	while (taken < MIB(256) && hetsim_call(fd, HETSIM_BUFFER_CREATE, &create) == 0)
		taken += create.length;
	create.place = HETSIM_PLACE_SYSTEM;
	while (taken < MIB(256) && hetsim_call(fd, HETSIM_BUFFER_CREATE, &create) == 0)
		taken += create.length;
	create.length = PAGE;
	while (hetsim_call(fd, HETSIM_BUFFER_CREATE, &create) == 0)
		;
	for (i = 0; i < 256; i++)
		work[i] = (struct hetsim_command){ .op = HETSIM_OP_FILL,
						   .destination = (uintptr_t)buffer.bytes,
						   .length = MIB(1) };
	while (n < 64) {
		struct hetsim_queue_create queue = { .size = sizeof(queue),
						     .timeout_ms = HETSIM_MAX_TIMEOUT_MS };

		if (hetsim_call(fd, HETSIM_QUEUE_CREATE, &queue))
			break;
		queues[n++] = queue.queue;
	}
	for (i = 0; i < 16 * n; i++) /* for longer than anyone waits */
		hetsim_submit(fd, queues[i % n], work, 256, &seqno);
	(void)!write(ready, "", 1);
	pause();
}

static void test_no_starving(void)
{
	struct hetsim_command command = { .op = HETSIM_OP_FILL, .length = 65536, .value = 7 };
	struct hetsim_buffer buffer;
	double begin;
	uint32_t queue;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int pipes[2], status, i;
	char byte;
	pid_t child;

	CHECK_EQUAL(pipe2(pipes, O_CLOEXEC), 0);
	child = fork();
	CHECK_FATAL(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pipes[0]);
		hog(pipes[1]);
		_exit(0);
	}
	close(pipes[1]);
	CHECK_EQUAL(read(pipes[0], &byte, 1), 1);

	begin = seconds_now();
	buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);
	CHECK_EQUAL(hetsim_bind(fd, &buffer, HETSIM_BIND_WRITE), 0);
	queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 0);
	command.destination = (uintptr_t)buffer.bytes;
	for (i = 0; i < 20; i++)
		CHECK_EQUAL(hetsim_run(fd, queue, &command), 0);
	CHECK_EQUAL(buffer.bytes[65532], 7);
	/* In emulation, with 16 threads of the neighbour on two processors. */
	CHECK(seconds_now() - begin < 20);

	CHECK_EQUAL(kill(child, SIGKILL), 0);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	hetsim_buffer_drop(fd, &buffer);
	close(pipes[0]);
}

/* ---- control groups ---- */

static void in_group(void *user)
{
	struct hetsim_buffer_create create = { .size = sizeof(create), .length = MIB(80) };
	struct hetsim_export export = { .size = sizeof(export), .flags = HETSIM_EXPORT_WRITE };
	int fd, *socket = user;
	uint64_t begin;
	char byte;

	control_group_enter();
	fd = hetsim_open(O_RDWR);
	begin = control_group_bytes();
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_CREATE, &create), -ENOMEM);
	CHECK_EQUAL(hetsim_query(fd).opener_used, 0);
	CHECK(control_group_bytes() < begin + MIB(8));

	/* A size that fits is charged, and given back. */
	create.length = MIB(32);
	create.place = HETSIM_PLACE_SYSTEM;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_CREATE, &create), 0);
	CHECK(control_group_bytes() >= MIB(32));
	CHECK_EQUAL(hetsim_close_handle(fd, create.handle), 0);
	CHECK(control_group_bytes() < MIB(16));

	/* An importer outside of the group that grows the buffer does so at the maker's expense. */
	create.length = MIB(1);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_CREATE, &create), 0);
	export.handle = create.handle;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_EXPORT, &export), 0);
	close(fd);
	send_fd(*socket, export.fd);
	CHECK_EQUAL(read(*socket, &byte, 1), 1);
	CHECK(control_group_bytes() >= MIB(24));
	close(export.fd);
}

static void test_control_group(void)
{
	struct hetsim_resize_from {
		struct hetsim_import import;
		struct hetsim_buffer_resize resize;
	} from = { .import = { .size = sizeof(from.import) },
		   .resize = { .size = sizeof(from.resize) } };
	int fd = hetsim_begin(O_RDWR);
	int sockets[2], status = -1;
	pid_t child;

	if (!control_group_make(MIB(64))) {
		close(fd);
		return;
	}
	CHECK_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
	child = fork();
	CHECK_FATAL(child >= 0);
	if (child == 0)
		_exit(test_fork(in_group, &sockets[1]) ? 1 : 0);
	from.import.fd = receive_fd(sockets[0]);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_IMPORT, &from.import), 0);
	from.resize.handle = from.import.handle;
	from.resize.length = MIB(24);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_RESIZE, &from.resize), 0);
	from.resize.length = MIB(80);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_RESIZE, &from.resize), -ENOMEM);
	CHECK_EQUAL(hetsim_query(fd).opener_used, 0);
	CHECK_EQUAL(write(sockets[0], "", 1), 1);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);

	/* Its last process is gone; the buffer is not, and still its. */
	CHECK(control_group_bytes() >= MIB(24));
	close(from.import.fd);
	CHECK_EQUAL(hetsim_close_handle(fd, from.import.handle), 0);
	CHECK(control_group_bytes() < MIB(8));
	control_group_remove();
	close(sockets[0]);
	close(sockets[1]);
	close(fd);
}

/* ---- bytes ---- */

/* All that a device can have, as its next owner finds it. */
static void read_all(int fd, uint64_t most)
{
	struct hetsim_buffer buffers[64];
	unsigned int n = 0, i;
	uint64_t k;

	for (n = 0; n < 64 && (n + 1) * 4 * MIB(1) <= most; n++) {
		buffers[n] = hetsim_buffer_make(fd, MIB(4), n & 1);
		for (k = 0; k < MIB(4); k += 512)
			if (memcmp(buffers[n].bytes + k, "\0\0\0\0\0\0\0", 8) != 0)
				break;
		CHECK_EQUAL(k, MIB(4));
		memset(buffers[n].bytes, 0x5e, MIB(4));
	}
	for (i = 0; i < n; i++)
		hetsim_buffer_drop(fd, &buffers[i]);
}

static void test_zeroed(void)
{
	int fd = hetsim_begin(O_RDWR);
	int plug, round;

	read_all(fd, MIB(32));
	close(fd);
	fd = hetsim_open(O_RDWR);
	read_all(fd, MIB(32));
	TEST_NEEDS(hetsim_may_unplug(fd));
	for (round = 0; round < 2; round++) {
		CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0), 0);
		close(fd);
		plug = open("/sys/kernel/debug/hetsim/plug", O_WRONLY | O_CLOEXEC);
		CHECK_EQUAL(write(plug, "0", 1), 1);
		close(plug);
		fd = hetsim_open(O_RDWR);
		read_all(fd, MIB(32));
	}
	close(fd);
}

static const struct test tests[] = {
	{ "in_flight", test_in_flight, 60, 0 },
	{ "direct_io", test_direct_io, 60, 0 },
	{ "blocks_unheld", test_blocks_unheld, 60, 0 },
	{ "ordinary_user", test_ordinary_user, 0, 0 },
	{ "passed_file", test_passed_file, 0, 0 },
	{ "no_starving", test_no_starving, 120, 0 },
	{ "control_group", test_control_group, 0, 0 },
	{ "zeroed", test_zeroed, 0, 0 },
	{ "nothing_said", kernel_log_test, 0, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	kernel_log_begin();
	return harness_main(argc, argv, "hetsim_isolation", tests);
}
