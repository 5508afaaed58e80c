// SPDX-License-Identifier: MIT
/* hetsim: memory of other devices taken in, and its own memory in other devices. */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/vgem_support.h"

/* The device and vgem; false: the test was skipped. */
static bool open_with_vgem(int *ret_fd, int *ret_vgem)
{
	int fd = hetsim_open(O_RDWR), vgem;

	if (fd < 0)
		return false;
	vgem = vgem_open();
	if (vgem < 0) {
		close(fd);
		test_skip("kernel", "no vgem");
		return false;
	}
	*ret_fd = fd;
	*ret_vgem = vgem;
	return true;
}

/* The machine's other device; negative: it has none. */
static int hetsim_open_second(void)
{
	int fd = open(HETSIM_SECOND, O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		CHECK_EQUAL(hetsim_call(fd, HETSIM_HANDSHAKE,
					SIZED(hetsim_handshake,
					      .version_major = HETSIM_VERSION_MAJOR)),
			    0);
	return fd;
}

/* Exports so many tenths of VRAM. */
static int export_tenths(int fd, uint32_t tenths, uint32_t *ret_handle)
{
	struct hetsim_buffer_create create = { .size = sizeof(create),
					       .place = HETSIM_PLACE_VRAM };
	int dmabuf;

	create.length = hetsim_query(fd).vram_bytes / 10 * tenths & ~(PAGE - 1);
	CHECK_FATAL(hetsim_call(fd, HETSIM_BUFFER_CREATE, &create) == 0);
	dmabuf = hetsim_export(fd, create.handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(dmabuf >= 0);
	if (ret_handle)
		*ret_handle = create.handle;
	return dmabuf;
}

/* 0, or a negative errno. */
static int prime_import(int vgem, int dmabuf)
{
	struct drm_prime_handle prime = { .fd = dmabuf };

	return ioctl(vgem, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime) ? -errno : 0;
}

/*
 * Pages whose addresses an importer has can't be evicted: half of VRAM stays for openers that
 * import nothing, and half of the rest for exports of other openers.
 */
static void test_half_is_left(void)
{
	struct hetsim_buffer_create create = { .size = sizeof(create),
					       .place = HETSIM_PLACE_VRAM };
	int fd, others[2], vgem, dmabufs[4], last, i;

	TEST_NEEDS(open_with_vgem(&fd, &vgem));
	for (i = 0; i < 2; i++) {
		others[i] = hetsim_open(O_RDWR);
		CHECK_FATAL(others[i] >= 0);
	}
	dmabufs[0] = export_tenths(fd, 2, NULL);
	dmabufs[1] = export_tenths(fd, 2, NULL);
	dmabufs[2] = export_tenths(others[0], 2, NULL);
	dmabufs[3] = export_tenths(others[1], 2, NULL);
	CHECK_EQUAL(prime_import(vgem, dmabufs[0]), 0);
	CHECK_EQUAL(prime_import(vgem, dmabufs[1]), -ENOSPC);
	CHECK_EQUAL(prime_import(vgem, dmabufs[2]), 0);
	CHECK_EQUAL(prime_import(vgem, dmabufs[3]), -ENOSPC);
	last = hetsim_open(O_RDWR);
	CHECK_FATAL(last >= 0);
	create.length = hetsim_query(fd).vram_bytes / 2;
	CHECK_EQUAL(hetsim_call(last, HETSIM_BUFFER_CREATE, &create), 0);
	close(last);
	/* Released pages count no more. */
	close(vgem);
	close(dmabufs[0]);
	vgem = vgem_open();
	CHECK_FATAL(vgem >= 0);
	CHECK_EQUAL(prime_import(vgem, dmabufs[1]), 0);
	CHECK_EQUAL(prime_import(vgem, dmabufs[3]), 0);
	close(vgem);
	for (i = 1; i < 4; i++)
		close(dmabufs[i]);
	for (i = 0; i < 2; i++)
		close(others[i]);
	close(fd);
}

/* A dma-buf of a buffer of its own; the descriptor. */
static int export_new(int fd, uint64_t length, uint32_t place)
{
	struct hetsim_buffer buffer = { 0 };
	int dmabuf;

	CHECK_FATAL(hetsim_buffer_create(fd, length, place, 0, &buffer) == 0);
	dmabuf = hetsim_export(fd, buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(dmabuf >= 0);
	return dmabuf;
}

/* The window is a part of VRAM: pages in either count to the same half, and quarter. */
static void test_half_of_both(void)
{
	uint64_t quarter, eighth;
	int fd, others[2], vgem, dmabufs[5], i;

	TEST_NEEDS(open_with_vgem(&fd, &vgem));
	quarter = hetsim_query(fd).vram_bytes / 4;
	eighth = hetsim_query(fd).window_bytes / 8;
	if (!eighth)
		goto out; /* tests/vm/variants has one */
	for (i = 0; i < 2; i++) {
		others[i] = hetsim_open(O_RDWR);
		CHECK_FATAL(others[i] >= 0);
	}
	dmabufs[0] = export_new(fd, eighth, HETSIM_PLACE_WINDOW);
	dmabufs[1] = export_new(fd, quarter, HETSIM_PLACE_VRAM);
	dmabufs[2] = export_new(fd, quarter - eighth, HETSIM_PLACE_VRAM);
	dmabufs[3] = export_new(others[0], quarter, HETSIM_PLACE_VRAM);
	dmabufs[4] = export_new(others[1], eighth, HETSIM_PLACE_WINDOW);
	CHECK_EQUAL(prime_import(vgem, dmabufs[0]), 0);
	CHECK_EQUAL(prime_import(vgem, dmabufs[1]), -ENOSPC);
	CHECK_EQUAL(prime_import(vgem, dmabufs[2]), 0);
	/* And of all openers. */
	CHECK_EQUAL(prime_import(vgem, dmabufs[3]), 0);
	CHECK_EQUAL(prime_import(vgem, dmabufs[4]), -ENOSPC);
	for (i = 0; i < 5; i++)
		close(dmabufs[i]);
	for (i = 0; i < 2; i++)
		close(others[i]);
out:
	close(vgem);
	close(fd);
}

/*
 * A buffer that may not have as many pages pinned is as it was, with its sample, and nobody's
 * pages have made room for it.
 */
static void test_growth_refused(void)
{
	struct hetsim_buffer_sample sample = { .size = sizeof(sample),
					       .action = HETSIM_SAMPLE_START };
	uint64_t tenth, evicted;
	struct hetsim_import import;
	int fd, other, second, vgem, dmabufs[2];
	uint32_t count = 1;

	TEST_NEEDS(open_with_vgem(&fd, &vgem));
	other = hetsim_open(O_RDWR);
	CHECK_FATAL(other >= 0);
	tenth = hetsim_query(fd).vram_bytes / 10 & ~(PAGE - 1);
	dmabufs[0] = export_tenths(fd, 2, &sample.handle);
	CHECK_EQUAL(prime_import(vgem, dmabufs[0]), 0);
	dmabufs[1] = export_new(other, 5 * tenth, HETSIM_PLACE_VRAM);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_SAMPLE, &sample), 0);
	evicted = hetsim_counters(fd, HETSIM_SCOPE_DEVICE).evictions;
	CHECK_EQUAL(hetsim_buffer_resize(fd, sample.handle, 6 * tenth), -ENOSPC);
	CHECK_EQUAL(hetsim_counters(fd, HETSIM_SCOPE_DEVICE).evictions, evicted);
	sample.action = HETSIM_SAMPLE_READ;
	sample.length = PAGE;
	sample.counts = (uintptr_t)&count;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_SAMPLE, &sample), 0);
	CHECK_EQUAL(count, 0);
	/* Another hetsim is told so, too, and not that it can't reach the memory. */
	second = hetsim_open_second();
	if (second >= 0) { /* tests/vm/variants has it */
		CHECK_EQUAL(hetsim_import(second, dmabufs[1], &import), -ENOSPC);
		close(second);
	}
	close(vgem);
	CHECK_EQUAL(hetsim_buffer_resize(fd, sample.handle, 3 * tenth), 0);
	close(dmabufs[0]);
	close(dmabufs[1]);
	close(other);
	close(fd);
}

/* Pages whose addresses another device has stay in place, and the call reports it. */
static void test_pinned_stays(void)
{
	struct hetsim_buffer_info info = { .size = sizeof(info) };
	int fd, vgem, dmabuf;

	TEST_NEEDS(open_with_vgem(&fd, &vgem));
	dmabuf = export_tenths(fd, 1, &info.handle);
	CHECK_EQUAL(prime_import(vgem, dmabuf), 0);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_EVICTION, info.handle, MIB(1)), -EBUSY);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_INFO, &info), 0);
	CHECK_EQUAL(info.system_bytes, 0);
	close(vgem);
	close(dmabuf);
	close(fd);
}

#define SMALL 48 /* buffers: more than are looked for at once */

struct taker {
	int fd;
	int dmabufs[SMALL];
	bool stop;
};

/* Small buffers that are the first to be taken from, and imports in their slots at once. */
static void *take_slots(void *argument)
{
	struct taker *taker = argument;
	struct hetsim_buffer small[SMALL];
	struct hetsim_import import;
	uint32_t handles[SMALL];
	int i;

	while (!__atomic_load_n(&taker->stop, __ATOMIC_RELAXED)) {
		for (i = 0; i < SMALL; i++)
			small[i].handle = 0;
		for (i = 0; i < SMALL; i++)
			hetsim_buffer_create(taker->fd, 16 * PAGE, HETSIM_PLACE_VRAM, 0,
					     &small[i]);
		for (i = 0; i < SMALL; i++) {
			hetsim_close_handle(taker->fd, small[i].handle);
			handles[i] = hetsim_import(taker->fd, taker->dmabufs[i], &import) ?
					     0 :
					     import.handle;
		}
		for (i = 0; i < SMALL; i++)
			hetsim_close_handle(taker->fd, handles[i]);
	}
	return NULL;
}

/* A call that makes room finds buffers by their slots: by then a slot may have an import. */
static void test_slot_taken(void)
{
	struct taker taker = { 0 };
	struct hetsim_buffer large = { 0 };
	struct hetsim_query query;
	struct timespec begin, now;
	pthread_t thread;
	uint64_t length;
	int fd, vgem, i, r;

	TEST_NEEDS(open_with_vgem(&fd, &vgem));
	query = hetsim_query(fd);
	length = query.vram_bytes - SMALL / 4 * 16 * PAGE;
	taker.fd = hetsim_open(O_RDWR);
	CHECK_FATAL(taker.fd >= 0);
	for (i = 0; i < SMALL; i++)
		taker.dmabufs[i] = vgem_make(vgem, 16 * PAGE, DRM_RDWR);
	CHECK_FATAL(pthread_create(&thread, NULL, take_slots, &taker) == 0);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		/* All but room for few of them: it evicts the rest, or they were faster. */
		r = hetsim_buffer_create(fd, length, HETSIM_PLACE_VRAM, 0, &large);
		CHECK(!r || r == -ENOSPC);
		if (!r)
			hetsim_close_handle(fd, large.handle);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - begin.tv_sec < 2);
	__atomic_store_n(&taker.stop, true, __ATOMIC_RELAXED);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
	close(taker.fd);
	for (i = 0; i < SMALL; i++)
		close(taker.dmabufs[i]);
	close(vgem);
	/* Nothing counts where it was not taken. */
	query = hetsim_query(fd);
	CHECK_EQUAL(query.vram_used, 0);
	CHECK_EQUAL(query.system_used, 0);
	close(fd);
}

/* The engine, both maps and both copying paths see the same bytes. */
static void use(int fd, int dmabuf, const struct hetsim_import *import)
{
	struct hetsim_command command = { .op = HETSIM_OP_FILL, .length = MIB(1) };
	struct hetsim_buffer imported = {
		.handle = import->handle,
		.length = import->length,
		.offset = import->offset,
	};
	struct hetsim_queue_destroy destroy = { .size = sizeof(destroy) };
	struct hetsim_buffer own;
	static unsigned char bytes[3 * 4096];
	volatile uintptr_t nowhere = 8;
	unsigned char *direct;
	uint32_t queue;
	uint64_t i;

	imported.bytes = mmap(NULL, MIB(1), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			      (off_t)import->offset);
	direct = mmap(NULL, MIB(1), PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf, 0);
	CHECK_FATAL(imported.bytes != MAP_FAILED && direct != MAP_FAILED);
	imported.bytes[0] = 1;
	direct[MIB(1) - 1] = 2;
	CHECK_EQUAL(direct[0], 1);
	CHECK_EQUAL(imported.bytes[MIB(1) - 1], 2);

	own = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);
	CHECK_EQUAL(hetsim_bind(fd, &imported, HETSIM_BIND_WRITE), 0);
	CHECK_EQUAL(hetsim_bind(fd, &own, HETSIM_BIND_WRITE), 0);
	queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 0);
	command.destination = (uintptr_t)imported.bytes;
	command.value = 0x01020304;
	CHECK_EQUAL(hetsim_run(fd, queue, &command), 0);
	for (i = 0; i < MIB(1) && imported.bytes[i] == 4 - i % 4; i++)
		;
	CHECK_EQUAL(i, MIB(1));
	direct[77] = 99;
	command = (struct hetsim_command){
		.op = HETSIM_OP_COPY,
		.length = MIB(1),
		.source = (uintptr_t)imported.bytes,
		.destination = (uintptr_t)own.bytes,
	};
	CHECK_EQUAL(hetsim_run(fd, queue, &command), 0);
	CHECK(memcmp(own.bytes, direct, MIB(1)) == 0);

	/* Across pages, and at the end. */
	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(i * 7);
	CHECK_EQUAL(pwrite(fd, bytes, sizeof(bytes), (off_t)(import->offset + 1000)),
		    sizeof(bytes));
	CHECK(memcmp(direct + 1000, bytes, sizeof(bytes)) == 0);
	CHECK_EQUAL(direct[999], 1);
	memset(bytes, 0, sizeof(bytes));
	CHECK_EQUAL(pread(fd, bytes, sizeof(bytes), (off_t)(import->offset + 2000)),
		    sizeof(bytes));
	CHECK(memcmp(direct + 2000, bytes, sizeof(bytes)) == 0);
	CHECK_EQUAL(pread(fd, bytes, 4096, (off_t)(import->offset + MIB(1) - 10)), 10);
	CHECK_EQUAL(pread(fd, bytes, 1, (off_t)(import->offset + MIB(1))), 0);
	CHECK(pwrite(fd, bytes, 1, (off_t)(import->offset + MIB(1))) == -1 && errno == ENOSPC);
	CHECK(pread(fd, (void *)nowhere, 4096, (off_t)import->offset) == -1 && errno == EFAULT);

	CHECK_EQUAL(hetsim_unbind(fd, &own), 0);
	hetsim_buffer_drop(fd, &own);
	destroy.queue = queue;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUEUE_DESTROY, &destroy), 0);
	CHECK_EQUAL(munmap(direct, MIB(1)), 0);
	CHECK_EQUAL(munmap(imported.bytes, MIB(1)), 0);
	CHECK_EQUAL(hetsim_unbind(fd, &imported), 0);
}

/* Calls that need this device's own memory. */
static void refuse(int fd, const struct hetsim_import *import)
{
	off_t offset = (off_t)import->offset;

	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_RESIZE,
				SIZED(hetsim_buffer_resize, .handle = import->handle,
				      .length = MIB(2))),
		    -EOPNOTSUPP);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_SAMPLE,
				SIZED(hetsim_buffer_sample, .handle = import->handle,
				      .action = HETSIM_SAMPLE_START)),
		    -EOPNOTSUPP);
	CHECK_EQUAL(hetsim_buffer_move(fd, import->handle, 0, MIB(1), HETSIM_PLACE_VRAM),
		    -EOPNOTSUPP);
	CHECK_EQUAL(hetsim_export(fd, import->handle, 0), -EOPNOTSUPP);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_SIGBUS, import->handle, 0), -EOPNOTSUPP);
	CHECK(mmap(NULL, MIB(1), PROT_READ, MAP_PRIVATE, fd, offset) == MAP_FAILED &&
	      errno == EINVAL);
	CHECK(mmap(NULL, MIB(1) + 4096, PROT_READ, MAP_SHARED, fd, offset) == MAP_FAILED &&
	      errno == ERANGE);
	CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, offset + (off_t)MIB(1)) ==
		      MAP_FAILED &&
	      errno == ERANGE);
}

/* All of it, for a dma-buf of a MiB, which it closes. @other: as @fd. */
static void take_in(int fd, int other, int dmabuf)
{
	struct hetsim_buffer_info info = { .size = sizeof(info) };
	struct hetsim_import import, again;
	unsigned char *bytes;

	CHECK_FATAL(dmabuf >= 0);
	CHECK_FATAL(hetsim_import(fd, dmabuf, &import) == 0);
	CHECK_EQUAL(import.length, MIB(1));
	CHECK_EQUAL(hetsim_import(fd, dmabuf, &again), 0);
	CHECK_EQUAL(again.handle, import.handle);
	CHECK_EQUAL(hetsim_import(other, dmabuf, &again), 0);
	CHECK(again.handle != import.handle);
	CHECK_EQUAL(hetsim_close_handle(other, again.handle), 0);
	info.handle = import.handle;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_INFO, &info), 0);
	CHECK_EQUAL(info.length, MIB(1));
	CHECK_EQUAL(info.vram_bytes + info.system_bytes + info.window_bytes, 0);
	CHECK_EQUAL(hetsim_query(fd).opener_used, 0);

	use(fd, dmabuf, &import);
	refuse(fd, &import);

	/* The handle keeps it, then a map does. */
	close(dmabuf);
	bytes = mmap(NULL, MIB(1), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		     (off_t)import.offset);
	CHECK_FATAL(bytes != MAP_FAILED);
	CHECK_EQUAL(bytes[0], 4);
	CHECK_EQUAL(hetsim_close_handle(fd, import.handle), 0);
	CHECK_EQUAL(bytes[0], 4);
	CHECK_EQUAL(munmap(bytes, MIB(1)), 0);
}

static void test_vgem(void)
{
	int fd, other, vgem, objects;

	TEST_NEEDS(open_with_vgem(&fd, &vgem));
	other = hetsim_open(O_RDWR);
	objects = hetsim_objects();
	take_in(fd, other, vgem_make(vgem, MIB(1), DRM_RDWR));
	CHECK_EQUAL(hetsim_objects(), objects);
	close(vgem);
	close(other);
	close(fd);
}

/* One that may only be read, on files that could write and that could not. */
static void test_rights(void)
{
	struct hetsim_import import;
	struct hetsim_bind bind = { .size = sizeof(bind), .length = MIB(1), .address = MIB(1) };
	int fd, reader, vgem, dmabuf;

	TEST_NEEDS(open_with_vgem(&fd, &vgem));
	reader = hetsim_open(O_RDONLY);
	dmabuf = vgem_make(vgem, MIB(1), 0);
	CHECK_EQUAL(hetsim_import(fd, dmabuf, &import), -EACCES);
	CHECK_EQUAL(hetsim_import(reader, dmabuf, &import), 0);
	CHECK(mmap(NULL, MIB(1), PROT_READ | PROT_WRITE, MAP_SHARED, reader,
		   (off_t)import.offset) == MAP_FAILED &&
	      errno == EACCES);
	bind.handle = import.handle;
	bind.flags = HETSIM_BIND_WRITE;
	CHECK_EQUAL(hetsim_call(reader, HETSIM_BIND, &bind), -EACCES);
	bind.flags = 0;
	CHECK_EQUAL(hetsim_call(reader, HETSIM_BIND, &bind), 0);

	/* The binding alone keeps it, until the file is closed. */
	CHECK_EQUAL(hetsim_close_handle(reader, import.handle), 0);
	close(dmabuf);
	close(vgem);
	close(reader);
	close(fd);
}

static void test_udmabuf(void)
{
	struct udmabuf_create create = { .flags = UDMABUF_FLAGS_CLOEXEC, .size = MIB(1) };
	int fd = hetsim_begin(O_RDWR);
	int other, udmabuf, memory;

	udmabuf = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	if (udmabuf < 0) {
		close(fd); /* 6.1 has none */
		return;
	}
	memory = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK_FATAL(memory >= 0 && ftruncate(memory, MIB(1)) == 0);
	CHECK_EQUAL(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	create.memfd = (uint32_t)memory;
	other = hetsim_open(O_RDWR);
	take_in(fd, other, ioctl(udmabuf, UDMABUF_CREATE, &create));
	close(other);
	close(memory);
	close(udmabuf);
	close(fd);
}

static void test_heap(void)
{
	struct dma_heap_allocation_data data = { .len = MIB(1),
						 .fd_flags = O_RDWR | O_CLOEXEC };
	int fd = hetsim_begin(O_RDWR);
	int other, heap;

	heap = open("/dev/dma_heap/system", O_RDWR | O_CLOEXEC);
	if (heap < 0) {
		close(fd); /* 6.1 has none */
		return;
	}
	CHECK_FATAL(ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &data) == 0);
	other = hetsim_open(O_RDWR);
	take_in(fd, other, (int)data.fd);
	close(other);
	close(heap);
	close(fd);
}

/* From one device of this kind to another, where there are two. */
static void test_two_devices(void)
{
	struct hetsim_import import;
	struct hetsim_buffer buffer;
	int fd = hetsim_begin(O_RDWR);
	int second, third, dmabuf;

	second = hetsim_open_second();
	third = hetsim_open_second();
	if (second < 0 || third < 0) {
		close(fd); /* tests/vm/variants has them */
		return;
	}
	buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);
	dmabuf = hetsim_export(fd, buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK_EQUAL(hetsim_import(second, dmabuf, &import), 0);
	CHECK_EQUAL(hetsim_buffer_move(fd, buffer.handle, 0, MIB(1), HETSIM_PLACE_VRAM),
		    -EBUSY);
	CHECK_EQUAL(hetsim_close_handle(second, import.handle), 0);
	CHECK_EQUAL(hetsim_buffer_move(fd, buffer.handle, 0, MIB(1), HETSIM_PLACE_VRAM), 0);
	CHECK_EQUAL(hetsim_buffer_move(fd, buffer.handle, 0, MIB(1), HETSIM_PLACE_SYSTEM), 0);
	take_in(second, third, dmabuf);
	CHECK_EQUAL(buffer.bytes[0], 4);
	CHECK_EQUAL(hetsim_buffer_move(fd, buffer.handle, 0, MIB(1), HETSIM_PLACE_VRAM), 0);
	hetsim_buffer_drop(fd, &buffer);
	close(third);
	close(second);
	close(fd);
}

/* While another device has the addresses, pages stay. */
static void test_pinned(void)
{
	struct drm_prime_handle prime = { 0 };
	struct drm_gem_close gem_close = { 0 };
	struct hetsim_buffer buffer;
	int fd, vgem;

	TEST_NEEDS(open_with_vgem(&fd, &vgem));
	buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);
	prime.fd = hetsim_export(fd, buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK_EQUAL(hetsim_buffer_move(fd, buffer.handle, 0, MIB(1), HETSIM_PLACE_VRAM), 0);
	CHECK_EQUAL(hetsim_buffer_move(fd, buffer.handle, 0, MIB(1), HETSIM_PLACE_SYSTEM), 0);
	CHECK_FATAL(ioctl(vgem, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime) == 0);
	buffer.bytes[0] = 5;
	CHECK_EQUAL(hetsim_buffer_move(fd, buffer.handle, 0, MIB(1), HETSIM_PLACE_VRAM),
		    -EBUSY);
	CHECK_EQUAL(buffer.bytes[0], 5);
	close(prime.fd);
	CHECK_EQUAL(hetsim_buffer_move(fd, buffer.handle, 0, MIB(1), HETSIM_PLACE_VRAM),
		    -EBUSY);
	gem_close.handle = prime.handle;
	CHECK_EQUAL(ioctl(vgem, DRM_IOCTL_GEM_CLOSE, &gem_close), 0);
	CHECK_EQUAL(hetsim_buffer_move(fd, buffer.handle, 0, MIB(1), HETSIM_PLACE_VRAM), 0);
	hetsim_buffer_drop(fd, &buffer);
	close(vgem);
	close(fd);
}

/* The device goes; memory of others that it had is theirs, and is given back. */
static void test_unplug(void)
{
	struct hetsim_import import;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int vgem, dmabuf, plug;
	struct hetsim_bind bind = { .size = sizeof(bind), .length = MIB(1), .address = MIB(1) };
	unsigned char *bytes, byte;

	vgem = vgem_open();
	if (vgem < 0 || hetsim_inject(fd, HETSIM_INJECT_RESET, 0, 0)) {
		test_skip("kernel", vgem < 0 ? "no vgem" : "no test=1, or not root");
		goto out;
	}
	dmabuf = vgem_make(vgem, MIB(1), DRM_RDWR);
	CHECK_EQUAL(hetsim_import(fd, dmabuf, &import), 0);
	bind.handle = import.handle;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BIND, &bind), 0);
	bytes = mmap(NULL, MIB(1), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		     (off_t)import.offset);
	CHECK_FATAL(bytes != MAP_FAILED);
	bytes[0] = 3;
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0), 0);
	CHECK_EQUAL(bytes[0], 3);
	bytes[MIB(1) - 1] = 4;
	CHECK(pread(fd, &byte, 1, (off_t)import.offset) == -1 && errno == ENODEV);
	CHECK_EQUAL(hetsim_import(fd, dmabuf, &import), -ENODEV);
	plug = open("/sys/kernel/debug/hetsim/plug", O_WRONLY | O_CLOEXEC);
	CHECK_EQUAL(write(plug, "0", 1), 1);
	close(plug);
	close(dmabuf);
	CHECK_EQUAL(bytes[MIB(1) - 1], 4);
	CHECK_EQUAL(munmap(bytes, MIB(1)), 0);
out:
	if (vgem >= 0)
		close(vgem);
}

/* A device that goes lets go of other devices' memory, which may move again. */
static void test_unplug_lets_go(void)
{
	struct hetsim_bind bind = { .size = sizeof(bind), .length = MIB(1), .address = MIB(1) };
	struct hetsim_buffer buffer = { 0 };
	struct hetsim_import import;
	int fd = hetsim_begin(O_RDWR);
	int second, dmabuf;

	second = hetsim_open_second();
	if (second < 0 || hetsim_inject(fd, HETSIM_INJECT_RESET, 0, 0)) {
		close(fd); /* tests/vm/variants has them */
		return;
	}
	CHECK_FATAL(!hetsim_buffer_create(second, MIB(1), HETSIM_PLACE_SYSTEM, 0, &buffer));
	dmabuf = hetsim_export(second, buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(!hetsim_import(fd, dmabuf, &import));
	bind.handle = import.handle;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BIND, &bind), 0);
	CHECK_EQUAL(hetsim_buffer_move(second, buffer.handle, 0, MIB(1), HETSIM_PLACE_VRAM),
		    -EBUSY);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0), 0);
	CHECK_EQUAL(hetsim_buffer_move(second, buffer.handle, 0, MIB(1), HETSIM_PLACE_VRAM), 0);
	hetsim_plug();
	close(fd);
	close(dmabuf);
	close(second);
}

static const struct test tests[] = {
	{ "vgem", test_vgem, 0, 0 },
	{ "rights", test_rights, 0, 0 },
	{ "udmabuf", test_udmabuf, 0, 0 },
	{ "heap", test_heap, 0, 0 },
	{ "two_devices", test_two_devices, 0, 0 },
	{ "pinned", test_pinned, 0, 0 },
	{ "unplug", test_unplug, 0, 0 },
	{ "unplug_lets_go", test_unplug_lets_go, 0, 0 },
	{ "half_is_left", test_half_is_left, 60, 0 },
	{ "half_of_both", test_half_of_both, 60, 0 },
	{ "growth_refused", test_growth_refused, 60, 0 },
	{ "pinned_stays", test_pinned_stays, 60, 0 },
	{ "slot_taken", test_slot_taken, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "hetsim_import", tests)
