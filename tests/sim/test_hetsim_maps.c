// SPDX-License-Identifier: MIT
/* hetsim: maps of its buffers, and the kernel's actions around them. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"

static void test_fault_around(void)
{
	struct hetsim_counters before, after;
	uint64_t i, orders = 0;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, MIB(32), HETSIM_PLACE_VRAM);

	before = hetsim_counters(fd, HETSIM_SCOPE_OPENER);
	for (i = 0; i < buffer.length; i += PAGE)
		buffer.bytes[i] = (unsigned char)(i >> 12);
	after = hetsim_counters(fd, HETSIM_SCOPE_OPENER);
	CHECK(after.faults - before.faults <= 17);
	CHECK_EQUAL(after.fault_pages - before.fault_pages, buffer.length / PAGE);
	for (i = 0; i < 10; i++)
		orders += after.faults_by_order[i];
	CHECK_EQUAL(orders, after.faults);
	CHECK_EQUAL(after.faults_refused, 0);
	for (i = 0; i < buffer.length; i += PAGE)
		if (buffer.bytes[i] != (unsigned char)(i >> 12))
			break;
	CHECK_EQUAL(i, buffer.length);
}

struct touching {
	unsigned char *bytes;
	int stop;
};

static void *touch_blocks(void *argument)
{
	struct touching *touching = argument;
	uint64_t i;

	while (!__atomic_load_n(&touching->stop, __ATOMIC_RELAXED))
		for (i = 5; i < MIB(8); i += 256 * 1024)
			__atomic_fetch_add(&touching->bytes[i], 1, __ATOMIC_RELAXED);
	return NULL;
}

/* Large entries are taken apart, and made again: cuts, samples, moves, faults, growth. */
static void test_blocks(void)
{
	struct hetsim_inject inject = { .size = sizeof(inject), .kind = HETSIM_INJECT_SIGBUS };
	struct hetsim_counters before, after;
	struct hetsim_buffer_resize resize = { .size = sizeof(resize), .length = MIB(6) };
	struct hetsim_buffer buffer, grown;
	uint64_t huge = hetsim_has_blocks() ? 4 : 0, i;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	unsigned char *hole, *moved;

	buffer = hetsim_buffer_make(fd, MIB(8), HETSIM_PLACE_VRAM);
	before = hetsim_counters(fd, HETSIM_SCOPE_OPENER);
	for (i = 0; i < buffer.length; i += PAGE)
		buffer.bytes[i] = (unsigned char)(i >> 12);
	after = hetsim_counters(fd, HETSIM_SCOPE_OPENER);
	CHECK_EQUAL(after.faults - before.faults, 4);
	CHECK_EQUAL(after.faults_huge - before.faults_huge, huge);
	CHECK_EQUAL(after.fault_pages - before.fault_pages, 2048);

	/* A read-only part: its block is in single entries then, the rest are not. */
	CHECK_EQUAL(mprotect(buffer.bytes + MIB(3), 4096, PROT_READ), 0);
	CHECK_EQUAL(test_write_signal(buffer.bytes + MIB(3)), SIGSEGV);
	buffer.bytes[MIB(3) + 4096]++;
	buffer.bytes[MIB(3) - 4096]++;
	before = hetsim_counters(fd, HETSIM_SCOPE_OPENER);
	CHECK_EQUAL(before.faults_huge, after.faults_huge);
	CHECK_EQUAL(mprotect(buffer.bytes + MIB(3), 4096, PROT_READ | PROT_WRITE), 0);
	buffer.bytes[MIB(3)]++;

	/* A page that answers SIGBUS takes its block's entry away, not its neighbours'. */
	inject.target = buffer.handle;
	inject.value = MIB(5);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_INJECT, &inject), 0);
	CHECK_EQUAL(test_write_signal(buffer.bytes + MIB(5)), SIGBUS);
	CHECK_EQUAL(buffer.bytes[MIB(5) + 4096], (unsigned char)((MIB(5) + 4096) >> 12));
	inject.value = UINT64_MAX;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_INJECT, &inject), 0);
	CHECK_EQUAL(buffer.bytes[MIB(5)], (unsigned char)(MIB(5) >> 12));

	/* Moved as a whole, to where only whole blocks are, at another address. */
	hole = mmap(NULL, MIB(4), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_FATAL(hole != MAP_FAILED);
	moved = hole + (-(uintptr_t)hole & (MIB(2) - 1));
	CHECK(mremap(buffer.bytes + MIB(6), MIB(2), MIB(2), MREMAP_MAYMOVE | MREMAP_FIXED,
		     moved) == moved);
	CHECK_EQUAL(moved[4096], (unsigned char)((MIB(6) + 4096) >> 12));
	CHECK_EQUAL(munmap(hole, MIB(4)), 0);
	CHECK_EQUAL(munmap(buffer.bytes, MIB(6)), 0);
	CHECK_EQUAL(hetsim_close_handle(fd, buffer.handle), 0);

	/* A buffer that is not a block long, and its growth. */
	grown = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);
	resize.handle = grown.handle;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_RESIZE, &resize), 0);
	CHECK_EQUAL(munmap(grown.bytes, MIB(1)), 0);
	grown.bytes =
		mmap(NULL, MIB(6), PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)grown.offset);
	CHECK_FATAL(grown.bytes != MAP_FAILED);
	before = hetsim_counters(fd, HETSIM_SCOPE_OPENER);
	for (i = 0; i < MIB(6); i += PAGE)
		CHECK_EQUAL(grown.bytes[i], 0);
	after = hetsim_counters(fd, HETSIM_SCOPE_OPENER);
	CHECK_EQUAL(after.faults_huge - before.faults_huge, huge / 2);
	CHECK_EQUAL(munmap(grown.bytes, MIB(6)), 0);
	CHECK_EQUAL(hetsim_close_handle(fd, grown.handle), 0);
}

/* Where the kernel tracks stores, each map's first store faults on a readable page. */
static void test_dirty_tracked(void)
{
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int clear;
	uint64_t i;
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, MIB(4), HETSIM_PLACE_VRAM);

	CHECK_EQUAL(buffer.bytes[0], 0);
	clear = open("/proc/self/clear_refs", O_WRONLY);
	CHECK_FATAL(clear >= 0);
	CHECK_EQUAL(write(clear, "4", 1), 1);
	close(clear);
	/* A block that is mapped for reading, and an untouched one. */
	for (i = 0; i < buffer.length; i += PAGE)
		buffer.bytes[i] = (unsigned char)(i >> 12);
	for (i = 0; i < buffer.length; i += PAGE)
		if (buffer.bytes[i] != (unsigned char)(i >> 12))
			break;
	CHECK_EQUAL(i, buffer.length);
}

/* Both sorts of entries, in turn, under threads that touch: no fault ends otherwise. */
static void test_blocks_race(void)
{
	struct hetsim_inject inject = { .size = sizeof(inject), .kind = HETSIM_INJECT_POISON };
	struct hetsim_buffer_move move = { .size = sizeof(move), .length = 4096 };
	struct touching touching = { 0 };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int i;
	pthread_t threads[3];
	uint32_t reached;
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, MIB(8), HETSIM_PLACE_VRAM);

	touching.bytes = buffer.bytes;
	for (i = 0; i < 3; i++)
		CHECK_FATAL(pthread_create(&threads[i], NULL, touch_blocks, &touching) == 0);
	inject.target = move.handle = buffer.handle;
	reached = hetsim_query(fd).window_bytes ? HETSIM_PLACE_WINDOW : HETSIM_PLACE_VRAM;
	for (i = 0; i < 60; i++) {
		inject.value = i % 2 ? UINT64_MAX : (uint64_t)(i % 8) * MIB(1) + 8192;
		CHECK_EQUAL(hetsim_call(fd, HETSIM_INJECT, &inject), 0);
		move.offset = 0;
		move.length = i % 3 ? MIB(8) : MIB(1) + 4096;
		move.place = i % 2 ? reached : HETSIM_PLACE_SYSTEM;
		CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_MOVE, &move), 0);
		CHECK_EQUAL(mprotect(buffer.bytes + MIB(1), MIB(3),
				     i % 4 ? PROT_READ | PROT_WRITE :
					     PROT_READ | PROT_WRITE | PROT_EXEC),
			    0);
	}
	__atomic_store_n(&touching.stop, 1, __ATOMIC_RELAXED);
	for (i = 0; i < 3; i++)
		CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
}

static void test_refusals(void)
{
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);
	off_t offset = (off_t)buffer.offset;

	CHECK(mmap(NULL, MIB(1), PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, offset) ==
		      MAP_FAILED &&
	      errno == EINVAL);
	CHECK(mmap(NULL, MIB(1), PROT_READ, MAP_PRIVATE, fd, offset) == MAP_FAILED &&
	      errno == EINVAL);
	CHECK(mmap(NULL, MIB(1) + 4096, PROT_READ, MAP_SHARED, fd, offset) == MAP_FAILED &&
	      errno == ERANGE);
	CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, offset + (off_t)MIB(1)) ==
		      MAP_FAILED &&
	      errno == ERANGE);
	CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED && errno == ENOENT);
	CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, INT64_MAX & ~4095l) == MAP_FAILED &&
	      (errno == ENOENT || errno == EOVERFLOW));
	CHECK(mremap(buffer.bytes, MIB(1), MIB(2), MREMAP_MAYMOVE) == MAP_FAILED &&
	      errno == EFAULT);
}

static uint64_t maps_of(int fd, uint32_t handle)
{
	struct hetsim_buffer_info info = { .size = sizeof(info), .handle = handle };

	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_INFO, &info), 0);
	return info.maps;
}

/* Partial unmaps, moves, changes of rights. */
static void test_pieces(void)
{
	unsigned char *moved;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	struct hetsim_buffer buffer = hetsim_buffer_make(fd, MIB(4), HETSIM_PLACE_VRAM);

	memset(buffer.bytes, 1, buffer.length);
	CHECK_EQUAL(maps_of(fd, buffer.handle), 1);
	CHECK_EQUAL(munmap(buffer.bytes + MIB(1), MIB(1)), 0);
	CHECK_EQUAL(maps_of(fd, buffer.handle), 2);
	CHECK_EQUAL(mprotect(buffer.bytes + MIB(3), 4096, PROT_READ), 0);
	CHECK_EQUAL(maps_of(fd, buffer.handle), 4);
	CHECK_EQUAL(test_write_signal(buffer.bytes + MIB(3)), SIGSEGV);
	buffer.bytes[MIB(3) - 1] = 7;

	moved = mremap(buffer.bytes, MIB(1), MIB(1) / 2, 0);
	CHECK(moved == buffer.bytes);
	moved = mmap(NULL, MIB(1) / 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_FATAL(moved != MAP_FAILED);
	CHECK(mremap(buffer.bytes, MIB(1) / 2, MIB(1) / 2, MREMAP_MAYMOVE | MREMAP_FIXED,
		     moved) == moved);
	CHECK_EQUAL(moved[MIB(1) / 2 - 1], 1);
	moved[0] = 3;
	CHECK_EQUAL(munmap(moved, MIB(1) / 2), 0);
	CHECK_EQUAL(munmap(buffer.bytes + MIB(2), MIB(2)), 0);
	CHECK_EQUAL(maps_of(fd, buffer.handle), 0);
	CHECK_EQUAL(hetsim_close_handle(fd, buffer.handle), 0);
}

static void write_byte(void *user)
{
	unsigned char *byte = user;

	byte[0]++;
	byte[8192] = 9; /* not touched before the fork */
}

static void test_child(void)
{
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);

	buffer.bytes[0] = 4;
	CHECK_EQUAL(test_fork(write_byte, buffer.bytes), 0);
	CHECK_EQUAL(buffer.bytes[0], 5);
	CHECK_EQUAL(buffer.bytes[8192], 9);
	CHECK_EQUAL(maps_of(fd, buffer.handle), 1);
}

/* Another program in the child: its map goes, the parent's stays. */
static void run_true(void *user)
{
	volatile unsigned char *byte = user;

	byte[0]++;
	execl("/bin/true", "true", (char *)NULL);
	_exit(1);
}

static void test_exec(void)
{
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);

	buffer.bytes[0] = 4;
	CHECK_EQUAL(fcntl(fd, F_SETFD, 0), 0); /* the program has the file, too */
	CHECK_EQUAL(test_fork(run_true, buffer.bytes), 0);
	CHECK_EQUAL(buffer.bytes[0], 5);
	CHECK_EQUAL(maps_of(fd, buffer.handle), 1);
}

/* Touches the bytes of @a up to @length, and all of @b: how many faults that took. */
static uint64_t touch_both(int fd, const struct hetsim_buffer *a, uint64_t length,
			   const struct hetsim_buffer *b)
{
	uint64_t before = hetsim_counters(fd, HETSIM_SCOPE_OPENER).faults, i;

	for (i = 0; i < length; i += PAGE)
		a->bytes[i]++;
	for (i = 0; i < b->length; i += PAGE)
		b->bytes[i]++;
	return hetsim_counters(fd, HETSIM_SCOPE_OPENER).faults - before;
}

/*
 * Only entries of pages that have moved or gone are taken from maps. A fault maps up to 2 MiB, so
 * that a range of it takes one fault or, across a multiple, two.
 */
static void test_revoked(void)
{
	uint32_t other;
	uint64_t n;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	AUTO(hetsim_buffer) a = hetsim_buffer_make(fd, MIB(8), HETSIM_PLACE_VRAM);
	AUTO(hetsim_buffer) b = hetsim_buffer_make(fd, MIB(8), HETSIM_PLACE_VRAM);

	CHECK(touch_both(fd, &a, a.length, &b) >= 8);
	CHECK_EQUAL(touch_both(fd, &a, a.length, &b), 0);
	/* Where there is a window, it was not made in VRAM. */
	other = hetsim_buffer_info(fd, a.handle).place == HETSIM_PLACE_SYSTEM ?
			HETSIM_PLACE_WINDOW :
			HETSIM_PLACE_SYSTEM;
	CHECK_EQUAL(hetsim_buffer_move(fd, a.handle, MIB(2), MIB(1), other), 0);
	n = touch_both(fd, &a, a.length, &b);
	CHECK(n == 1 || n == 2);
	CHECK_EQUAL(hetsim_buffer_resize(fd, a.handle, MIB(4)), 0);
	CHECK_EQUAL(touch_both(fd, &a, MIB(4), &b), 0);
	CHECK_EQUAL(hetsim_buffer_resize(fd, a.handle, MIB(8)), 0);
	CHECK_EQUAL(touch_both(fd, &a, MIB(4), &b), 0);
	n = touch_both(fd, &a, MIB(8), &b);
	CHECK(n == 2 || n == 3);
	CHECK_EQUAL(a.bytes[0], 6);
	CHECK_EQUAL(a.bytes[MIB(4)], 1);
}

/* The pages can't be held: the special entries refuse. */
static void test_no_references(void)
{
	struct iovec local, remote;
	unsigned char byte = 0;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int pipes[2];
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);

	buffer.bytes[0] = 1;
	local = (struct iovec){ &byte, 1 };
	remote = (struct iovec){ buffer.bytes, 1 };
	CHECK(process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == -1 && errno == EFAULT);
	CHECK_EQUAL(pipe2(pipes, O_CLOEXEC), 0);
	CHECK(vmsplice(pipes[1], &remote, 1, 0) == -1 && errno == EFAULT);
	close(pipes[0]);
	close(pipes[1]);
}

static const struct test tests[] = {
	{ "fault_around", test_fault_around, 0, 0 },
	{ "blocks", test_blocks, 0, 0 },
	{ "blocks_race", test_blocks_race, 0, 0 },
	{ "dirty_tracked", test_dirty_tracked, 0, 0 },
	{ "refusals", test_refusals, 0, 0 },
	{ "pieces", test_pieces, 0, 0 },
	{ "fork", test_child, 0, 0 },
	{ "exec", test_exec, 0, 0 },
	{ "revoked", test_revoked, 0, 0 },
	{ "no_references", test_no_references, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "hetsim_maps", tests)
