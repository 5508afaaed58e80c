// SPDX-License-Identifier: MIT
/* hetsim: the device is taken away under everything, and comes back. */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <hetmap/hetmap.h>
#include <hetmap/safetensors.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "lib/rig.h"
#include "sim/sim_tests.h"
#include "sim/vgem_support.h"

static void read_own_zero(void *user)
{
	volatile unsigned char *bytes = user;

	_exit(bytes[0] != 0 || bytes[4096] != 0);
}

static void read_bytes(void *user)
{
	volatile unsigned char *bytes = user;

	_exit(bytes[0] != 5);
}

/*
 * A process that has its child keep a map's entries, by MADV_KEEPONFORK: those of a
 * lost map lead to pages that end with the parent's map.
 */
static void test_kept_on_fork(void)
{
	struct hetsim_buffer buffer;
	int fd = hetsim_open_zero();

	if (fd < 0)
		return;
	buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);
	CHECK_EQUAL(madvise(buffer.bytes, MIB(1), MADV_KEEPONFORK), 0);
	buffer.bytes[0] = 5;
	CHECK_EQUAL(test_fork(read_bytes, buffer.bytes), 0);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0), 0);
	buffer.bytes[0] = 5;
	buffer.bytes[4096] = 5;
	CHECK_EQUAL(test_fork(read_own_zero, buffer.bytes), 0);
	CHECK(buffer.bytes[0] == 5 && buffer.bytes[4096] == 5);
	hetsim_plug();
	hetsim_munmap(buffer.bytes, buffer.length);
	close(fd);
}

/* ---- a signal instead of zeros ---- */

static int when_lost(int fd, uint32_t handle, uint32_t when)
{
	return hetsim_call(fd, HETSIM_BUFFER_WHEN_LOST,
			   SIZED(hetsim_buffer_when_lost, .handle = handle, .when = when));
}

static struct hetsim_buffer taken_in(int from, uint32_t handle, int fd)
{
	struct hetsim_export export = {
		.size = sizeof(export),
		.handle = handle,
		.flags = HETSIM_EXPORT_WRITE,
	};
	struct hetsim_import import = { .size = sizeof(import) };
	struct hetsim_buffer buffer = { .length = MIB(1) };

	CHECK_FATAL(!hetsim_call(from, HETSIM_EXPORT, &export));
	import.fd = export.fd;
	CHECK_FATAL(!hetsim_call(fd, HETSIM_IMPORT, &import));
	close(export.fd);
	buffer.handle = import.handle;
	buffer.offset = import.offset;
	CHECK_FATAL(
		!hetsim_mmap(fd, MIB(1), PROT_READ | PROT_WRITE, import.offset, &buffer.bytes));
	return buffer;
}

/* As a debugger does: bytes, or -1. */
static ssize_t peek(const volatile unsigned char *at, unsigned char *byte)
{
	int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	CHECK_FATAL(memory >= 0);
	n = pread(memory, byte, 1, (off_t)(uintptr_t)at);
	close(memory);
	return n;
}

/* By buffer and by open file, all of its maps; until the handle is closed. */
static void test_when_lost(void)
{
	struct hetsim_buffer marked, other, taken, cleared, closed;
	int fd = hetsim_open_zero(), second;
	unsigned char byte = 7;

	if (fd < 0)
		return;
	second = hetsim_open_zero();
	CHECK_FATAL(second >= 0);
	marked = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);
	other = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);
	cleared = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);
	closed = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);
	taken = taken_in(fd, marked.handle, second);
	marked.bytes[0] = other.bytes[0] = cleared.bytes[0] = closed.bytes[0] = 5;
	CHECK_EQUAL(mprotect(marked.bytes + MIB(1) / 2, PAGE, PROT_READ), 0);
	CHECK_EQUAL(when_lost(fd, marked.handle, HETSIM_WHEN_LOST_SIGNAL), 0);
	CHECK_EQUAL(when_lost(fd, cleared.handle, HETSIM_WHEN_LOST_SIGNAL), 0);
	CHECK_EQUAL(when_lost(fd, cleared.handle, HETSIM_WHEN_LOST_DEFAULT), 0);
	CHECK_EQUAL(when_lost(fd, closed.handle, HETSIM_WHEN_LOST_SIGNAL), 0);
	CHECK_EQUAL(hetsim_close_handle(fd, closed.handle), 0);
	CHECK_EQUAL(when_lost(fd, closed.handle, HETSIM_WHEN_LOST_SIGNAL), -ENOENT);
	CHECK_EQUAL(when_lost(fd, UINT32_MAX, HETSIM_WHEN_LOST_SIGNAL), -ENOENT);
	/* Nothing changes before. */
	CHECK(marked.bytes[0] == 5 && taken.bytes[0] == 5);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0), 0);
	CHECK_EQUAL(test_read_signal(marked.bytes), SIGBUS);
	CHECK_EQUAL(test_read_signal(marked.bytes + MIB(1) / 2), SIGBUS);
	CHECK_EQUAL(test_write_signal(marked.bytes + MIB(1) - 1), SIGBUS);
	CHECK_EQUAL(peek(marked.bytes, &byte), -1);
	CHECK_EQUAL(byte, 7);
	CHECK(!taken.bytes[0] && !other.bytes[0] && !cleared.bytes[0] && !closed.bytes[0]);
	CHECK_EQUAL(peek(other.bytes + PAGE, &byte), 1);
	CHECK_EQUAL(byte, 0);
	CHECK_EQUAL(when_lost(fd, other.handle, HETSIM_WHEN_LOST_SIGNAL), -ENODEV);
	hetsim_plug();
	hetsim_munmap(marked.bytes, MIB(1));
	hetsim_munmap(other.bytes, MIB(1));
	hetsim_munmap(cleared.bytes, MIB(1));
	hetsim_munmap(closed.bytes, MIB(1));
	hetsim_munmap(taken.bytes, MIB(1));
	close(second);
	close(fd);
}

/* ---- the library, which is not told ---- */

#define SIZE (16 * PAGE)

/* As another process would, by an open file of its own. */
static void unplug_behind(void)
{
	int fd = hetsim_open(O_RDWR);

	CHECK_FATAL(fd >= 0);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0), 0);
	hetsim_close(fd);
}

static int read_bracket(struct hm_map *map)
{
	CHECK_OK(hm_map_begin_cpu(map, 0, SIZE, HM_READ));
	unplug_behind();
	(void)*(volatile char *)hm_map_address(map);
	return hm_map_end_cpu(map, 0, SIZE, HM_READ);
}

static int write_bracket(struct hm_map *map)
{
	CHECK_OK(hm_map_begin_cpu(map, 0, SIZE, HM_READ | HM_WRITE));
	unplug_behind();
	*(volatile char *)hm_map_address(map) = 1;
	return hm_map_end_cpu(map, 0, SIZE, HM_READ | HM_WRITE);
}

static int copy(struct hm_map *map)
{
	static char bytes[SIZE];

	CHECK_OK(hm_copy_out(bytes, hm_map_address(map), SIZE, NULL));
	unplug_behind();
	return hm_copy_out(bytes, hm_map_address(map), SIZE, NULL);
}

static int use_and_unplug(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range;
	unplug_behind();
	if (args[1].access & HM_WRITE)
		*(volatile char *)args[1].pointer = 1;
	*(volatile char *)args[0].pointer = *(volatile char *)args[1].pointer;
	return 0;
}

/* Work on a CPU, which no device has a hand in. */
static int launch(struct hm_map *map, const char *signature, uint32_t access)
{
	AUTO(hm_kernel) *kernel = NULL;
	AUTO(hm_accel) *accel = NULL;
	AUTO(hm_queue) *queue = NULL;
	AUTO(hm_fence) *fence = NULL;
	char *copy;
	int r;
	AUTO(hm_device) *host = rig_device("host");

	CHECK_OK_FATAL(hm_alloc(host, SIZE, HM_READ | HM_WRITE, &copy));
	CHECK_OK_FATAL(hm_accel_open("cpu", NULL, &accel));
	CHECK_OK_FATAL(hm_queue_create(accel, 0, &queue));
	kernel = rig_kernel(DESC(hm_kernel_desc, .name = "use", .signature = signature,
				 .cpu = use_and_unplug));
	CHECK_OK_FATAL(hm_launch(queue, kernel, 1, &fence, HM_OUT(copy),
				 HM_RANGE(hm_map_address(map), SIZE, access)));
	r = hm_fence_wait(fence, UINT64_MAX);
	CHECK_OK(hm_free(copy));
	return r;
}

static int read_launch(struct hm_map *map)
{
	return launch(map, "out in", HM_READ);
}

static int write_launch(struct hm_map *map)
{
	return launch(map, "out inout", HM_READ | HM_WRITE);
}

/* The work of another device's engine, which reads the map, or stores to it. */
static int engine_copy(struct hm_map *map, bool back)
{
	AUTO(hm_accel) *accel = NULL;
	AUTO(hm_queue) *queue = NULL;
	struct hm_fence *fence;
	char *to, *bytes = hm_map_address(map);
	int r;
	AUTO(hm_device) *soft = rig_device("soft:0");

	CHECK_OK_FATAL(hm_alloc(soft, SIZE, HM_READ | HM_WRITE, &to));
	CHECK_OK_FATAL(hm_accel_open("soft:0", NULL, &accel));
	CHECK_OK_FATAL(hm_queue_create(accel, 0, &queue));
	unplug_behind();
	r = hm_queue_copy(queue, back ? bytes : to, back ? to : bytes, SIZE, &fence);
	/* Where it is the first to hear that the bytes are gone, it does not begin. */
	if (!r) {
		r = hm_fence_wait(fence, UINT64_MAX);
		hm_fence_unref(fence);
	}
	CHECK_OK(hm_free(to));
	return r;
}

static int engine_launch(struct hm_map *map)
{
	return engine_copy(map, false);
}

static int engine_back(struct hm_map *map)
{
	return engine_copy(map, true);
}

static int file_of_tensors(struct hm_map *map)
{
	const uint64_t shape = SIZE;
	const struct hm_tensor_source source = {
		.name = "bytes",
		.dtype = HM_DTYPE_U8,
		.rank = 1,
		.shape = &shape,
		.data = hm_map_address(map),
	};
	const struct hm_safetensors_desc desc = {
		.struct_size = sizeof(desc),
		.n_tensors = 1,
		.tensors = &source,
	};
	char path[] = "/tmp/hetmap-tensors-XXXXXX";
	int r, fd = mkstemp(path);

	CHECK_FATAL(fd >= 0);
	close(fd);
	CHECK_OK(hm_safetensors_write(path, &desc));
	unplug_behind();
	r = hm_safetensors_write(path, &desc);
	unlink(path);
	return r;
}

/* The owner is this process, too: it asks by its own open file. */
static int received_copy(struct hm_map *map)
{
	struct hm_buffer *received;
	struct hm_pointer_info at;
	struct hm_map *own;
	int ends[2], r;

	CHECK_OK_FATAL(hm_pointer_find(hm_map_address(map), &at));
	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	CHECK_OK_FATAL(hm_buffer_send(at.buffer, ends[0], 0));
	CHECK_OK_FATAL(hm_buffer_receive(at.device, ends[1], NULL, &received));
	CHECK_OK_FATAL(hm_map_create(received, NULL, &own));
	r = copy(own);
	hm_map_unref(own);
	hm_buffer_unref(received);
	close(ends[0]);
	close(ends[1]);
	return r;
}

/* Zeros are in the maps at once; they are never taken for the buffer's bytes. */
#define NO_POLICY UINT32_MAX

static void count_taken(struct hm_buffer *buffer, enum hm_loss_event event, void *user)
{
	(void)buffer;
	*(int *)user += event == HM_LOSS_TAKEN;
}

static void unnoticed(uint32_t policy, int (*use)(struct hm_map *map))
{
	int told = 0;
	struct hm_buffer_desc size = { .struct_size = sizeof(size), .size = SIZE };
	struct hm_device *device = rig_device("sim:0");
	struct hm_buffer *buffer = rig_buffer(device, &size);
	struct hm_map *map = rig_map(buffer, NULL);

	if (policy != NO_POLICY)
		CHECK_OK_FATAL(
			hm_buffer_set_loss(buffer, DESC(hm_loss_desc, .policy = policy,
							.lost = count_taken, .user = &told)));
	CHECK_EQUAL(use(map), -ENODEV);
	CHECK(hm_errmsg()[0]);
	/* By the call that found it, before it returned. */
	CHECK_EQUAL(told, policy != NO_POLICY);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	hetsim_plug();
}

static void test_unnoticed(void)
{
	int (*const uses[])(struct hm_map *
			    map) = { read_bracket, write_bracket,   copy,
				     read_launch,  write_launch,    engine_launch,
				     engine_back,  file_of_tensors, received_copy };
	int fd = hetsim_open(O_RDWR);
	bool may = fd >= 0 && hetsim_may_unplug(fd);
	size_t i;

	if (fd >= 0)
		close(fd);
	if (!may)
		return;
	CHECK_OK_FATAL(hm_handler_install(0));
	for (i = 0; i < sizeof(uses) / sizeof(uses[0]); i++) {
		unnoticed(NO_POLICY, uses[i]);
		unnoticed(HM_LOSS_ZERO, uses[i]);
		unnoticed(HM_LOSS_SHADOW, uses[i]);
	}
	CHECK_OK(hm_handler_remove());
}

/* ---- imports that begin and end as the device goes ---- */

#define IMPORTERS 2

struct importer {
	pthread_t thread;
	int fd;
	int dmabuf;
	int r; /* why it ended */
	unsigned int n;
};

static void *import_until_lost(void *user)
{
	struct importer *importer = user;
	struct hetsim_import import;

	do {
		importer->r = hetsim_import(importer->fd, importer->dmabuf, &import);
		__atomic_add_fetch(&importer->n, 1, __ATOMIC_RELAXED);
		if (!importer->r)
			importer->r = hetsim_close_handle(importer->fd, import.handle);
	} while (!importer->r);
	return NULL;
}

static void unplug_among(int vgem)
{
	struct importer importers[IMPORTERS];
	int i;

	for (i = 0; i < IMPORTERS; i++) {
		importers[i] = (struct importer){
			.fd = hetsim_open(O_RDWR),
			.dmabuf = vgem_make(vgem, MIB(1), DRM_RDWR),
		};
		CHECK_FATAL(importers[i].fd >= 0);
		CHECK_FATAL(!pthread_create(&importers[i].thread, NULL, import_until_lost,
					    &importers[i]));
	}
	for (i = 0; i < IMPORTERS; i++)
		while (!__atomic_load_n(&importers[i].n, __ATOMIC_RELAXED))
			sched_yield();
	CHECK_EQUAL(hetsim_inject(importers[0].fd, HETSIM_INJECT_UNPLUG, 0, 0), 0);
	for (i = 0; i < IMPORTERS; i++) {
		CHECK_FATAL(!pthread_join(importers[i].thread, NULL));
		CHECK_EQUAL(importers[i].r, -ENODEV);
		close(importers[i].dmabuf);
		close(importers[i].fd);
	}
	hetsim_plug();
}

/* Each attachment ends once: with its buffer, or with the device. */
static void test_among_imports(void)
{
	int fd = hetsim_open(O_RDWR), vgem, i;
	bool may = fd >= 0 && hetsim_may_unplug(fd);

	if (fd >= 0)
		close(fd);
	if (!may)
		return;
	vgem = vgem_open();
	if (vgem < 0) {
		test_skip("kernel", "no vgem");
		return;
	}
	for (i = 0; i < 10; i++)
		unplug_among(vgem);
	close(vgem);
}

static const struct test tests[] = {
	{ "among_imports", test_among_imports, 60, 0 },
	{ "unnoticed", test_unnoticed, 0, 0 },
	{ "kept_on_fork", test_kept_on_fork, 0, 0 },
	{ "when_lost", test_when_lost, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(hetsim_main, "hetsim_unplug", sim_unplug_tests, tests)
