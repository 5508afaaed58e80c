// SPDX-License-Identifier: MIT
/*
 * Launches on any pointer of the process, on the engine of a simulated device: memory of every
 * kind, changes of it while the device has entries for it, and accesses that the CPU may not
 * make either. One list for the twin and the module, which differ by capabilities.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "range/range_support.h"

#define LENGTH (64 * PAGE)

/* y += 3 x, with both in the same kind of memory. */
static void check_saxpy(struct any_rig *rig, uint32_t *x, uint32_t *y, uint64_t length)
{
	uint64_t i, n = length / sizeof(*x), wrong = 0;

	for (i = 0; i < n; i++) {
		x[i] = (uint32_t)(i * 2654435761u);
		y[i] = (uint32_t)i;
	}
	CHECK_OK_FATAL(any_axpy(rig, y, x, length, 3));
	for (i = 0; i < n; i++)
		wrong += y[i] != (uint32_t)(i + 3ull * (uint32_t)(i * 2654435761u));
	CHECK_EQUAL(wrong, 0);
}

/* ---- kinds of memory ---- */

static void heap(void)
{
	AUTO(any_rig) rig = any_open();
	AUTO_FREE uint32_t *x = aligned_alloc(64, LENGTH);
	AUTO_FREE uint32_t *y = aligned_alloc(64, LENGTH);

	CHECK_FATAL(x && y);
	check_saxpy(&rig, x, y, LENGTH);
	/* In the middle of a page, and of a chunk. */
	check_saxpy(&rig, x + 16, y + 48, PAGE + 256);
}

static void stack(void)
{
	uint32_t x[4096] __attribute__((aligned(64))), y[4096] __attribute__((aligned(64)));
	AUTO(any_rig) rig = any_open();

	check_saxpy(&rig, x, y, sizeof(x));
}

static void in_file(int flags)
{
	int fd = scratch_file(2 * LENGTH);
	char *bytes, *other;
	AUTO(any_rig) rig = any_open();

	bytes = mmap(NULL, 2 * LENGTH, PROT_READ | PROT_WRITE, flags, fd, 0);
	CHECK_FATAL(bytes != MAP_FAILED);
	check_saxpy(&rig, (uint32_t *)(void *)bytes, (uint32_t *)(void *)(bytes + LENGTH),
		    LENGTH);
	/* Its stores are in the file, or not. */
	other = mmap(NULL, 2 * LENGTH, PROT_READ, MAP_SHARED, fd, 0);
	CHECK_FATAL(other != MAP_FAILED);
	if (flags & MAP_SHARED)
		CHECK(!memcmp(bytes, other, 2 * LENGTH));
	else
		CHECK(is_zero(other, 0, 2 * LENGTH));
	munmap(other, 2 * LENGTH);
	munmap(bytes, 2 * LENGTH);
	close(fd);
}

static void shared_file(void)
{
	in_file(MAP_SHARED);
}

static void private_file(void)
{
	in_file(MAP_PRIVATE);
}

static void shared_memory(void)
{
	AUTO(any_rig) rig = any_open();
	uint32_t *bytes = mmap(NULL, 2 * LENGTH, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK_FATAL(bytes != MAP_FAILED);
	check_saxpy(&rig, bytes, bytes + LENGTH / sizeof(*bytes), LENGTH);
	munmap(bytes, 2 * LENGTH);
}

/* Huge pages, where the kernel has any to give: 4 MiB at a multiple of 2 MiB. */
static void huge(void)
{
	const uint64_t size = 8ull << 20;
	uint32_t *x;
	AUTO(any_rig) rig = any_open();
	char *bytes = any_pages(size, PROT_READ | PROT_WRITE);

	madvise(bytes, size, MADV_HUGEPAGE);
	x = (uint32_t *)round_up((uintptr_t)bytes, 2ull << 20);
	check_saxpy(&rig, x, x + (2ull << 20) / 4, 2ull << 20);
	munmap(bytes, size);
}

/* Nothing has touched it: reads are zeros, and writes are one's own. */
static void untouched(void)
{
	uint32_t crc = 1, crc2;
	AUTO(any_rig) rig = any_open();
	char *bytes = any_pages(LENGTH, PROT_READ | PROT_WRITE);

	CHECK_OK_FATAL(any_crc(&rig, bytes, LENGTH, &crc));
	CHECK(is_zero(bytes, 0, LENGTH));
	CHECK_OK_FATAL(any_crc(&rig, bytes, LENGTH, &crc2));
	CHECK_EQUAL(crc, crc2);
	CHECK_OK_FATAL(any_fill(&rig, bytes + PAGE, PAGE, 0x01010101));
	CHECK(is_zero(bytes, 0, PAGE) && bytes[PAGE] == 1 && bytes[2 * PAGE - 1] == 1);
	CHECK(is_zero(bytes, 2 * PAGE, LENGTH));
	munmap(bytes, LENGTH);
}

/* A page that may only be read is read; private pages of a file get copies when written. */
static void read_only(void)
{
	uint32_t crc;
	AUTO(any_rig) rig = any_open();
	char *bytes = any_pages(LENGTH, PROT_READ | PROT_WRITE);

	memset(bytes, 7, LENGTH);
	mprotect(bytes, LENGTH, PROT_READ);
	CHECK_OK_FATAL(any_crc(&rig, bytes, LENGTH, &crc));
	CHECK_ERROR(-EFAULT, any_fill(&rig, bytes + 2 * PAGE, PAGE, 1));
	CHECK(any_told(bytes + 2 * PAGE, "may not write"));
	CHECK(bytes[2 * PAGE] == 7);
	/* With the right again, it goes on. */
	mprotect(bytes, LENGTH, PROT_READ | PROT_WRITE);
	CHECK_OK(any_fill(&rig, bytes + 2 * PAGE, PAGE, 0x09090909));
	CHECK(bytes[2 * PAGE] == 9);
	munmap(bytes, LENGTH);
}

/* ---- maps of the library ---- */

static void in_maps(void)
{
	uint32_t *host, *own;
	uint64_t copied;
	AUTO(any_rig) rig = any_open();

	host = engine_alloc(rig.engine.host, 2 * LENGTH);
	own = engine_alloc(rig.engine.device, 2 * LENGTH);
	copied = stats_now().bytes_copied;
	check_saxpy(&rig, host, host + LENGTH / 4, LENGTH);
	check_saxpy(&rig, own, own + LENGTH / 4, LENGTH);
	check_saxpy(&rig, host, own, LENGTH);
	check_saxpy(&rig, own, host, LENGTH);
	CHECK_EQUAL(stats_now().bytes_copied, copied);
	/* An HM_ANY of the whole allocation, as with HM_INOUT. */
	CHECK_OK(any_fill(&rig, host, 2 * LENGTH, 5));
	CHECK_EQUAL(host[2 * LENGTH / 4 - 1], 5);
	/* Past its end. */
	CHECK_ERROR(-ERANGE, any_fill(&rig, host, 2 * LENGTH + PAGE, 5));
	CHECK_OK(hm_free(host));
	CHECK_OK(hm_free(own));
}

/* A change of a map waits for the work, also where the engine uses the CPU's pages. */
static void map_keeps_still(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = LENGTH };
	const struct hm_map_desc map_desc = { .struct_size = sizeof(map_desc),
					      .access = HM_READ | HM_WRITE };
	struct hm_fence *fence = NULL;
	struct hm_buffer *buffer;
	struct hm_map *map;
	uint32_t *bytes;
	AUTO(any_rig) rig = any_open();

	CHECK_OK_FATAL(hm_buffer_create(rig.engine.host, &desc, &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, &map_desc, &map));
	bytes = hm_map_address(map);
	/* Its references go, and the map stays until the work is done. */
	CHECK_OK_FATAL(hm_launch(rig.engine.queue, rig.fill, 1, &fence,
				 HM_ANY(bytes, LENGTH, HM_WRITE), HM_U64(LENGTH), HM_U32(3)));
	hm_buffer_unref(buffer);
	hm_map_unref(map);
	finish(fence);
}

/* ---- accesses that no CPU may make ---- */

static void holes(void)
{
	uint32_t crc;
	AUTO(any_rig) rig = any_open();
	char *bytes = any_pages(LENGTH, PROT_READ | PROT_WRITE);

	memset(bytes, 1, LENGTH);
	mprotect(bytes + 5 * PAGE, PAGE, PROT_NONE);
	munmap(bytes + 9 * PAGE, PAGE);
	CHECK_ERROR(-EFAULT, any_crc(&rig, bytes, LENGTH, &crc));
	CHECK(any_told(bytes + 5 * PAGE, "may not read"));
	CHECK_ERROR(-EFAULT, any_crc(&rig, bytes + 6 * PAGE, 10 * PAGE, &crc));
	CHECK(any_told(bytes + 9 * PAGE, "nothing mapped"));
	CHECK_ERROR(-EFAULT, any_fill(&rig, bytes + 9 * PAGE, PAGE, 2));
	CHECK(any_told(bytes + 9 * PAGE, "writing"));
	/* Beside the holes all is well, and as it was. */
	CHECK_OK(any_fill(&rig, bytes + 10 * PAGE, 4 * PAGE, 0x02020202));
	CHECK(bytes[10 * PAGE] == 2 && bytes[8 * PAGE] == 1);
	munmap(bytes, LENGTH);
}

/* Addresses that no process has. */
static void bad_addresses(void)
{
	static const uint64_t bad[] = {
		0,
		0x1000,
		0x7ffffffff000,
		0x800000000000,
		0x8000000000000000,
		0xffff800000000000,
		0xffffffff81000000,
		0x00f0000000000000,
		0xfffffffffffff000 - PAGE,
	};
	uint32_t crc, i;
	void *at;
	AUTO(any_rig) rig = any_open();

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		at = (void *)(uintptr_t)bad[i];
		CHECK_ERROR(-EFAULT, any_crc(&rig, at, PAGE, &crc));
		CHECK(any_told(at, "nothing mapped"));
		CHECK_ERROR(-EFAULT, any_fill(&rig, at, PAGE, 1));
	}
	/* These are no ranges at all. */
	at = any_pages(PAGE, PROT_READ | PROT_WRITE);
	CHECK_ERROR(-EINVAL, any_crc(&rig, at, 0, &crc));
	CHECK_ERROR(-EINVAL, any_crc(&rig, at, UINT64_MAX - PAGE, &crc));
	CHECK_ERROR(-E2BIG, any_crc(&rig, at, 1ull << 63, &crc));
	CHECK_ERROR(-EINVAL, any_crc(&rig, (char *)at + 1, PAGE, &crc));
	CHECK(text_has("multiples"));
	munmap(at, PAGE);
}

/* A file that becomes shorter: where a CPU would get SIGBUS. */
static void cut_file(void)
{
	int fd = scratch_file(LENGTH);
	uint32_t crc;
	AUTO(any_rig) rig = any_open();
	char *bytes = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	CHECK_FATAL(bytes != MAP_FAILED);
	memset(bytes, 3, LENGTH);
	CHECK_OK_FATAL(any_crc(&rig, bytes, LENGTH, &crc));
	CHECK_EQUAL(ftruncate(fd, 10 * (off_t)PAGE), 0);
	CHECK_ERROR(-EFAULT, any_crc(&rig, bytes, LENGTH, &crc));
	CHECK(any_told(bytes + 10 * PAGE, "no page"));
	CHECK_ERROR(-EFAULT, any_fill(&rig, bytes + 20 * PAGE, PAGE, 1));
	CHECK_OK(any_fill(&rig, bytes, 10 * PAGE, 0x04040404));
	/* Whole again: zeros there. */
	CHECK_EQUAL(ftruncate(fd, (off_t)LENGTH), 0);
	CHECK_OK(any_crc(&rig, bytes, LENGTH, &crc));
	CHECK(bytes[0] == 4 && is_zero(bytes, 10 * PAGE, LENGTH));
	munmap(bytes, LENGTH);
	close(fd);
}

/* ---- pages that change under entries of the device ---- */

static void changes(void)
{
	uint32_t crc, zeros;
	char *bytes, *moved;
	AUTO(any_rig) rig = any_open();

	bytes = any_pages(LENGTH, PROT_READ | PROT_WRITE);
	CHECK_OK_FATAL(any_crc(&rig, bytes, LENGTH, &zeros));
	CHECK_OK_FATAL(any_fill(&rig, bytes, LENGTH, 0x05050505));
	CHECK(bytes[0] == 5 && bytes[LENGTH - 1] == 5);
	/* The kernel takes the pages: zeros come back. */
	madvise(bytes, LENGTH, MADV_DONTNEED);
	CHECK_OK(any_crc(&rig, bytes, LENGTH, &crc));
	CHECK_EQUAL(crc, zeros);
	/* Written by the CPU, read by the engine, and the other way around. */
	memset(bytes, 6, LENGTH);
	CHECK_OK(any_crc(&rig, bytes, LENGTH, &crc));
	CHECK(crc != zeros);
	CHECK_OK(any_fill(&rig, bytes + PAGE, PAGE, 0));
	CHECK(is_zero(bytes, PAGE, 2 * PAGE) && bytes[2 * PAGE] == 6);
	/* At another address. */
	moved = mremap(bytes, LENGTH, LENGTH, MREMAP_MAYMOVE | MREMAP_FIXED,
		       any_pages(LENGTH, PROT_NONE));
	CHECK_FATAL(moved != MAP_FAILED);
	CHECK_ERROR(-EFAULT, any_fill(&rig, bytes, PAGE, 1));
	CHECK(any_told(bytes, "nothing mapped"));
	CHECK_OK(any_fill(&rig, moved, PAGE, 0x07070707));
	CHECK(moved[0] == 7 && moved[2 * PAGE] == 6);
	/* Something else at the old address. */
	CHECK(mmap(bytes, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		   -1, 0) == bytes);
	CHECK_OK(any_fill(&rig, bytes, PAGE, 0x08080808));
	CHECK(bytes[0] == 8 && moved[0] == 7);
	munmap(bytes, PAGE);
	munmap(moved, LENGTH);
}

/* After fork() a page belongs to both until one of them writes: the engine breaks that, too. */
static void copy_on_write(void)
{
	int ready[2], done[2], status;
	char *bytes, c = 0;
	pid_t child;
	AUTO(any_rig) rig = any_open();

	bytes = any_pages(LENGTH, PROT_READ | PROT_WRITE);
	memset(bytes, 1, LENGTH);
	CHECK_OK_FATAL(any_fill(&rig, bytes, PAGE, 0x02020202));
	CHECK_FATAL(!pipe(ready) && !pipe(done));
	child = fork();
	CHECK_FATAL(child >= 0);
	if (!child) {
		/* Its pages are as they were at the fork, whatever the engine does then. */
		close(ready[1]);
		if (read(ready[0], &c, 1) != 1)
			_exit(2);
		_exit(bytes[0] == 2 && bytes[PAGE] == 1 && bytes[LENGTH - 1] == 1 ? 0 : 1);
	}
	CHECK_OK(any_fill(&rig, bytes, LENGTH, 0x03030303));
	CHECK(bytes[0] == 3 && bytes[LENGTH - 1] == 3);
	CHECK_EQUAL(write(ready[1], &c, 1), 1);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	close(ready[0]);
	close(ready[1]);
	close(done[0]);
	close(done[1]);
	munmap(bytes, LENGTH);
}

/* ---- the launch ---- */

/* Work with and without HM_ANY keeps the queue's order. */
static void order(void)
{
	struct hm_fence *fence = NULL;
	uint32_t *own, *any, i;
	AUTO(any_rig) rig = any_open();

	own = engine_alloc(rig.engine.device, LENGTH);
	any = any_pages(LENGTH, PROT_READ | PROT_WRITE);
	for (i = 1; i <= 20; i++) {
		CHECK_OK_FATAL(fill_launch(&rig.engine, rig.fill, own, LENGTH, i, NULL));
		CHECK_OK_FATAL(hm_launch(
			rig.engine.queue, rig.copy, 1, NULL,
			HM_ANY(any, LENGTH, HM_READ | HM_WRITE), HM_RANGE(own, LENGTH, HM_READ),
			HM_RANGE(own, LENGTH, HM_READ), HM_U64(LENGTH), HM_U32(0)));
		CHECK_OK_FATAL(fill_launch(&rig.engine, rig.fill, own, LENGTH, 1000 + i, NULL));
		CHECK_OK_FATAL(hm_queue_fill(rig.engine.queue, own, 2000 + i, PAGE, &fence));
		finish(fence);
		CHECK(any[0] == i && any[LENGTH / 4 - 1] == i);
		CHECK(own[0] == 2000 + i && own[LENGTH / 4 - 1] == 1000 + i);
	}
	munmap(any, LENGTH);
	CHECK_OK(hm_free(own));
}

/* An argument that is copied may not share bytes with one that is written, whatever its kind. */
static void overlaps(void)
{
	struct hm_fence *fence = NULL;
	char *host, *again;
	struct hm_pointer_info info;
	int fd;
	AUTO(any_rig) rig = any_open();

	host = engine_alloc(rig.engine.host, LENGTH);
	CHECK_OK_FATAL(hm_pointer_find(host, &info));
	CHECK_OK_FATAL(hm_buffer_export(info.buffer, 0, &fd));
	again = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		     (off_t)info.map_offset);
	CHECK_FATAL(again != MAP_FAILED);
	again[3] = 42;
	CHECK_FATAL(host[3] == 42);
	/* One of them is copied, HM_IN of host memory; the other is the same bytes elsewhere. */
	CHECK_ERROR(-EINVAL, hm_launch(rig.engine.queue, rig.copy, 1, &fence,
				       HM_ANY(again, PAGE, HM_READ | HM_WRITE),
				       HM_RANGE(host, PAGE, HM_READ),
				       HM_RANGE(host, PAGE, HM_READ), HM_U64(PAGE), HM_U32(0)));
	CHECK(text_has("overlap"));
	/* Source and destination of a copy, by one address and by two. */
	CHECK_ERROR(-EINVAL, any_copy(&rig, again + 64, again, PAGE));
	CHECK_ERROR(-EINVAL, any_copy(&rig, again, host, PAGE));
	CHECK_OK(any_copy(&rig, again + PAGE, host, PAGE));
	CHECK(host[PAGE + 3] == 42);
	munmap(again, LENGTH);
	close(fd);
	CHECK_OK(hm_free(host));
}

/* From outside into a map: two things at once. */
static void across_a_border(void)
{
	char *host, *room;
	uint32_t crc;
	AUTO(any_rig) rig = any_open();

	host = engine_alloc(rig.engine.host, LENGTH);
	room = mmap(host - PAGE, PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (room == host - PAGE) {
		CHECK_ERROR(-ERANGE, any_crc(&rig, room, 2 * PAGE, &crc));
		CHECK(text_has("reach into the map"));
	}
	if (room != MAP_FAILED)
		munmap(room, PAGE);
	CHECK_OK(hm_free(host));
}

static void refused_by_copying(void)
{
	struct hm_fence *fence = NULL;
	struct engine_rig rig;
	struct hm_accel_info info = { .struct_size = sizeof(info) };
	struct hm_kernel *fill = kernel_of_fill();
	uint32_t *bytes = any_pages(PAGE, PROT_READ | PROT_WRITE);

	engine_open(&rig, HM_ACCEL_FORCE_COPY);
	CHECK_OK(hm_accel_query(rig.accel, &info));
	CHECK(!(info.caps & HM_ACCEL_ANY_POINTER));
	CHECK_ERROR(-EOPNOTSUPP,
		    hm_launch(rig.queue, fill, 1, &fence, HM_ANY(bytes, PAGE, HM_WRITE),
			      HM_U64(PAGE), HM_U32(1)));
	CHECK(text_has("hm_alloc") && text_has("import") && text_has("HM_ACCEL_ANY_POINTER"));
	CHECK(!fence && !bytes[0]);
	hm_kernel_unref(fill);
	engine_close(&rig);
	munmap(bytes, PAGE);
}

static void results(void)
{
	uint64_t result[512] __attribute__((aligned(64))) = { 0 };
	uint32_t *counts = (uint32_t *)(void *)result, i, wrong = 0;
	struct hm_fence *fence = NULL;
	AUTO(any_rig) rig = any_open();
	AUTO_FREE unsigned char *a = aligned_alloc(64, LENGTH);
	AUTO_FREE unsigned char *b = aligned_alloc(64, LENGTH);

	CHECK_FATAL(a && b);
	for (i = 0; i < LENGTH; i++)
		a[i] = b[i] = (unsigned char)i;
	CHECK_OK_FATAL(hm_launch(rig.engine.queue, rig.histogram, 1, &fence,
				 HM_ANY(result, sizeof(result), HM_READ | HM_WRITE),
				 HM_ANY(a, LENGTH, HM_READ), HM_ANY(b, LENGTH, HM_READ),
				 HM_U64(LENGTH), HM_U32(0)));
	finish(fence);
	for (i = 0; i < 256; i++)
		wrong += counts[i] != LENGTH / 256;
	CHECK_EQUAL(wrong, 0);
	b[LENGTH - 100] ^= 1;
	CHECK_OK_FATAL(hm_launch(rig.engine.queue, rig.compare, 1, &fence,
				 HM_ANY(result, 4096, HM_READ | HM_WRITE),
				 HM_ANY(a, LENGTH, HM_READ), HM_ANY(b, LENGTH, HM_READ),
				 HM_U64(LENGTH), HM_U32(0)));
	finish(fence);
	CHECK_EQUAL(result[0], LENGTH - 100);
}

/* A notice and a descriptor of work that no dma_fence may stand for. */
static void told_of_the_end(void)
{
	struct pollfd file = { .events = POLLIN };
	struct hm_fence *fence = NULL;
	AUTO(any_rig) rig = any_open();
	uint32_t *bytes = any_pages(LENGTH, PROT_READ | PROT_WRITE);

	CHECK_OK_FATAL(hm_launch(rig.engine.queue, rig.fill, 1, &fence,
				 HM_ANY(bytes, LENGTH, HM_WRITE), HM_U64(LENGTH), HM_U32(3)));
	CHECK_OK_FATAL(hm_fence_fd(fence, &file.fd));
	CHECK_EQUAL(poll(&file, 1, 20000), 1);
	CHECK_EQUAL(bytes[LENGTH / 4 - 1], 3);
	close(file.fd);
	finish(fence);
	munmap(bytes, LENGTH);
}

/* ---- two threads, while the pages come and go ---- */

struct turmoil {
	char *bytes;
	_Atomic bool stop;
};

static void *stir(void *user)
{
	struct turmoil *turmoil = user;
	uint64_t state = 1, page;

	while (!turmoil->stop) {
		page = test_random(&state) % 64;
		switch (test_random(&state) % 3) {
		case 0:
			madvise(turmoil->bytes + page * PAGE, PAGE, MADV_DONTNEED);
			break;
		case 1:
			mprotect(turmoil->bytes + page * PAGE, PAGE, PROT_READ);
			mprotect(turmoil->bytes + page * PAGE, PAGE, PROT_READ | PROT_WRITE);
			break;
		default:
			(void)mmap(turmoil->bytes + page * PAGE, PAGE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
			break;
		}
	}
	return NULL;
}

/* No signal, no wrong error, and no store is lost. */
static void under_changes(void)
{
	struct turmoil turmoil = { 0 };
	unsigned int i, n = test_is_slow() ? 100 : 1000, n_ok = 0;
	pthread_t thread;
	uint32_t crc;
	int r;
	AUTO(any_rig) rig = any_open();

	turmoil.bytes = any_pages(LENGTH, PROT_READ | PROT_WRITE);
	CHECK_FATAL(!pthread_create(&thread, NULL, stir, &turmoil));
	for (i = 0; i < n; i++) {
		r = i % 2 ? any_crc(&rig, turmoil.bytes, LENGTH, &crc) :
			    any_fill(&rig, turmoil.bytes, LENGTH, i);
		CHECK(!r || r == -EFAULT);
		n_ok += !r;
	}
	turmoil.stop = true;
	pthread_join(thread, NULL);
	CHECK(n_ok > 0);
	CHECK_OK(any_fill(&rig, turmoil.bytes, LENGTH, 0x0a0a0a0a));
	CHECK(turmoil.bytes[0] == 10 && turmoil.bytes[LENGTH - 1] == 10);
	munmap(turmoil.bytes, LENGTH);
}

static const struct test cases[] = {
	{ "heap", heap, 0, 0 },
	{ "stack", stack, 0, 0 },
	{ "shared_file", shared_file, 0, 0 },
	{ "private_file", private_file, 0, 0 },
	{ "shared_memory", shared_memory, 0, 0 },
	{ "huge", huge, 0, 0 },
	{ "untouched", untouched, 0, 0 },
	{ "read_only", read_only, 0, 0 },
	{ "in_maps", in_maps, 0, 0 },
	{ "map_keeps_still", map_keeps_still, 0, 0 },
	{ "holes", holes, 0, 0 },
	{ "bad_addresses", bad_addresses, 0, 0 },
	{ "cut_file", cut_file, 0, 0 },
	{ "changes", changes, 0, 0 },
	{ "copy_on_write", copy_on_write, 0, 0 },
	{ "order", order, 0, 0 },
	{ "overlaps", overlaps, 0, 0 },
	{ "across_a_border", across_a_border, 0, 0 },
	{ "refused_by_copying", refused_by_copying, 0, 0 },
	{ "results", results, 0, 0 },
	{ "told_of_the_end", told_of_the_end, 0, 0 },
	{ "under_changes", under_changes, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(engine_main, "any_pointer", cases)
