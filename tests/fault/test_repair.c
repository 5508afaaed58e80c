// SPDX-License-Identifier: MIT
/* Faults outside of guards: blocks are replaced, and the loss is reported. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "accel/accel_support.h"
#include "core/core.h"
#include "lib/inject.h"
#include "map/map.h"
#include "fault/repair.h"
#include "lib/sim_devices.h"
#include "base/sys.h"

#define SIZE (2 * REPAIR_BLOCK + 16 * PAGE)

/* A map of a file, which can be cut off. */
struct file_map {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	volatile unsigned char *base;
	int fd;
};

static struct file_map open_file_map(void)
{
	struct file_map file = { 0 };

	file.fd = scratch_file(SIZE);
	CHECK_OK_FATAL(hm_device_open("file", &file.device));
	CHECK_OK_FATAL(hm_buffer_from_file(file.device, NULL, file.fd, NULL, &file.buffer));
	CHECK_OK_FATAL(hm_map_create(file.buffer, NULL, &file.map));
	file.base = hm_map_address(file.map);
	pattern_write(hm_map_address(file.map), 0, SIZE, 1);
	return file;
}

static void close_file_map(struct file_map *file)
{
	hm_map_unref(file->map);
	hm_buffer_unref(file->buffer);
	hm_device_unref(file->device);
	close(file->fd);
}

AUTO_END(file_map, close_file_map)

static bool holds(const struct file_map *file, uint64_t from, uint64_t to)
{
	return pattern_holds((const void *)file->base, from, to, 1);
}

/* ---- one thread ---- */

static void brackets_tell(const struct file_map *file)
{
	struct hm_fault fault = { .struct_size = sizeof(fault) };
	char byte;

	/* From the first byte of the block to its last. */
	CHECK_ERROR(-EIO, hm_map_begin_cpu(file->map, REPAIR_BLOCK, 1, HM_READ));
	CHECK_ERROR(-EIO, hm_map_begin_cpu(file->map, 2 * REPAIR_BLOCK - 1, 1, HM_READ));
	CHECK_ERROR(-EIO, hm_map_begin_cpu(file->map, 0, SIZE, HM_READ));
	CHECK_OK(hm_map_begin_cpu(file->map, 0, REPAIR_BLOCK, HM_READ));
	CHECK_OK(hm_map_end_cpu(file->map, 0, REPAIR_BLOCK, HM_READ));
	CHECK_OK(hm_map_begin_cpu(file->map, 2 * REPAIR_BLOCK, PAGE, HM_READ));
	CHECK_OK(hm_map_end_cpu(file->map, 2 * REPAIR_BLOCK, PAGE, HM_READ));
	CHECK_ERROR(-EIO, hm_copy_out(&byte, (char *)file->base + REPAIR_BLOCK + 9, 1, &fault));
	CHECK_EQUAL(fault.cause, HM_FAULT_REPAIRED);
	CHECK_EQUAL(fault.signal, 0);
	CHECK_EQUAL(fault.offset, REPAIR_BLOCK + 9);
	CHECK_ERROR(-EIO, hm_copy_in((char *)file->base + REPAIR_BLOCK, "x", 1, NULL));
	CHECK_OK(hm_copy_out(&byte, (char *)file->base, 1, NULL));
}

static void replaced(void)
{
	char byte = 1;
	AUTO(rig_handler) handler = rig_handler(0);
	uint64_t before = handler_info().repaired;
	struct file_map file = open_file_map();

	/* Begun before: its end tells. */
	CHECK_OK(hm_map_begin_cpu(file.map, 0, SIZE, HM_READ | HM_WRITE));
	CHECK(!ftruncate(file.fd, REPAIR_BLOCK + 4 * PAGE));
	CHECK_EQUAL(file.base[REPAIR_BLOCK + 4 * PAGE], 0);
	CHECK_ERROR(-EIO, hm_map_end_cpu(file.map, 0, SIZE, HM_READ | HM_WRITE));
	CHECK_EQUAL(handler_info().repaired, before + 1);
	/* All of the block, and no more: the last one is lost, but not touched. */
	CHECK(is_zero((void *)(file.base + REPAIR_BLOCK), 0, REPAIR_BLOCK));
	CHECK(holds(&file, 0, REPAIR_BLOCK));
	CHECK_EQUAL(handler_info().repaired, before + 1);
	file.base[2 * REPAIR_BLOCK - 1] = 7;
	CHECK_EQUAL(file.base[2 * REPAIR_BLOCK - 1], 7);
	brackets_tell(&file);
	CHECK_EQUAL(hm_copy_out(&byte, (char *)file.base + 2 * REPAIR_BLOCK, 1, NULL), -ERANGE);
	/* The file has its old bytes, and a fresh map shows them. */
	hm_map_unref(file.map);
	CHECK_OK_FATAL(hm_map_create(file.buffer, NULL, &file.map));
	file.base = hm_map_address(file.map);
	CHECK(holds(&file, 0, REPAIR_BLOCK + 4 * PAGE));
	CHECK_OK(hm_map_begin_cpu(file.map, REPAIR_BLOCK, 1, HM_READ));
	CHECK_OK(hm_map_end_cpu(file.map, REPAIR_BLOCK, 1, HM_READ));
	close_file_map(&file);
}

/* With a shadow a block that was cut off has the bytes of its last refresh. */
static void shadowed(void)
{
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(file_map) file = open_file_map();

	CHECK_OK_FATAL(
		hm_buffer_set_loss(file.buffer, DESC(hm_loss_desc, .policy = HM_LOSS_SHADOW)));
	CHECK_OK(hm_map_begin_cpu(file.map, REPAIR_BLOCK, PAGE, HM_READ | HM_WRITE));
	pattern_write((char *)file.base + REPAIR_BLOCK, 0, PAGE, 2);
	CHECK_OK(hm_map_end_cpu(file.map, REPAIR_BLOCK, PAGE, HM_READ | HM_WRITE));
	file.base[REPAIR_BLOCK + 9 * PAGE]++; /* in no bracket: the shadow lacks it */

	CHECK(!ftruncate(file.fd, REPAIR_BLOCK / 2));
	CHECK(holds(&file, REPAIR_BLOCK + PAGE, 2 * REPAIR_BLOCK));
	CHECK(pattern_holds((char *)file.base + REPAIR_BLOCK, 0, PAGE, 2));
	CHECK(holds(&file, 0, REPAIR_BLOCK / 2));
	CHECK(holds(&file, REPAIR_BLOCK / 2, REPAIR_BLOCK));
	CHECK(holds(&file, 2 * REPAIR_BLOCK, SIZE));
	/* The loss is reported all the same; the shadow keeps these bytes until it is renewed. */
	CHECK_ERROR(-EIO, hm_map_begin_cpu(file.map, REPAIR_BLOCK, 1, HM_READ));
	CHECK_EQUAL(buffer_info(file.buffer).lost & HM_LOST_SEALED, HM_LOST_SEALED);
	CHECK_OK(hm_buffer_shadow(file.buffer, 0, PAGE));
	CHECK(holds(&file, REPAIR_BLOCK + PAGE, 2 * REPAIR_BLOCK));
	file.base[REPAIR_BLOCK] = 77;
	CHECK_EQUAL(file.base[REPAIR_BLOCK], 77);
}

/* Runs of pages keep their rights. */
static void rights_stay(void)
{
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(file_map) file = open_file_map();

	CHECK_OK(hm_map_protect(file.map, 2 * PAGE, PAGE, HM_READ));
	CHECK_OK(hm_map_protect(file.map, 5 * PAGE, 2 * PAGE, HM_NONE));
	CHECK_OK(hm_map_protect(file.map, REPAIR_BLOCK - PAGE, 2 * PAGE, HM_READ));
	CHECK(!ftruncate(file.fd, 0));
	file.base[0] = 1;
	CHECK_EQUAL(handler_info().repaired > 0, 1);
	CHECK_EQUAL(test_write_signal((void *)(file.base + PAGE)), 0);
	CHECK_EQUAL(test_write_signal((void *)(file.base + 2 * PAGE)), SIGSEGV);
	CHECK_EQUAL(test_read_signal(file.base + 2 * PAGE), 0);
	CHECK_EQUAL(test_write_signal((void *)(file.base + 3 * PAGE)), 0);
	CHECK_EQUAL(test_read_signal(file.base + 5 * PAGE), SIGSEGV);
	CHECK_EQUAL(test_read_signal(file.base + 6 * PAGE), SIGSEGV);
	CHECK_EQUAL(test_write_signal((void *)(file.base + 7 * PAGE)), 0);
	CHECK_EQUAL(test_write_signal((void *)(file.base + REPAIR_BLOCK - PAGE)), SIGSEGV);
	CHECK_EQUAL(test_write_signal((void *)(file.base + REPAIR_BLOCK - PAGE - 1)), 0);
	/* And change as before. */
	CHECK_OK(hm_map_protect(file.map, 0, SIZE, HM_READ | HM_WRITE));
	CHECK_EQUAL(test_write_signal((void *)(file.base + 5 * PAGE)), 0);
}

/* ---- faults that the library must not repair ---- */

static void touch_lost(void *user)
{
	uint32_t flags = (uint32_t)(uintptr_t)user;
	struct file_map file;

	CHECK_OK_FATAL(hm_handler_install(flags));
	file = open_file_map();
	CHECK(!ftruncate(file.fd, 0));
	(void)*file.base;
}

/* The mapping that is to take the place fails. */
static void touch_unreplaced(void *user)
{
	struct file_map file;

	(void)user;
	CHECK_OK_FATAL(hm_handler_install(0));
	file = open_file_map();
	CHECK(!ftruncate(file.fd, 0));
	inject_always("mmap", ENOMEM);
	(void)*file.base;
}

static void touch_read_only(void *user)
{
	struct file_map file;

	(void)user;
	CHECK_OK_FATAL(hm_handler_install(0));
	file = open_file_map();
	CHECK_OK(hm_map_protect(file.map, 0, PAGE, HM_READ));
	*file.base = 1;
}

static void touch_behind(void *user)
{
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;

	(void)user;
	CHECK_OK_FATAL(hm_handler_install(0));
	CHECK_OK_FATAL(hm_device_open("host", &device));
	buffer = rig_buffer(device, DESC(hm_buffer_desc, .size = PAGE, .max_size = 4 * PAGE));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	(void)*((volatile char *)hm_map_address(map) + 2 * PAGE);
}

static void refused(void)
{
	CHECK_EQUAL(test_fork(touch_lost, (void *)HM_HANDLER_NO_REPAIR), SIGBUS);
	CHECK_EQUAL(test_fork(touch_unreplaced, NULL), SIGSEGV);
	CHECK_EQUAL(test_fork(touch_read_only, NULL), SIGSEGV);
	CHECK_EQUAL(test_fork(touch_behind, NULL), SIGSEGV);
	/* A fault that may be repaired: else the ones above would show nothing. */
	CHECK_EQUAL(test_fork(touch_lost, NULL), 0);
}

/* Behind a window, a SIGBUS means that there was no bracket. */
static void touch_outside_window(void *user)
{
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	uint32_t handle;

	(void)user;
	setenv("HETMAP_SOFT", "vram_mb=16 system_mb=16 bar_mb=4 test=1", 1);
	CHECK_OK_FATAL(hm_handler_install(0));
	CHECK_OK_FATAL(hm_device_open("soft:0", &device));
	buffer = sim_make(device, 64 * PAGE, 0, &map);
	CHECK(buffer_info(buffer).caps & HM_CAP_BRACKET);
	CHECK_OK(hm_sim_buffer(buffer, &handle));
	CHECK_OK(sim_inject(device, HETSIM_INJECT_SIGBUS, handle, PAGE));
	(void)*((volatile char *)hm_map_address(map) + PAGE);
}

static struct hm_device *open_without_window(void)
{
	setenv("HETMAP_SOFT", "vram_mb=16 system_mb=16 test=1", 1);
	CHECK_OK_FATAL(hm_handler_install(0));
	return rig_device("soft:0");
}

/* Without a window it is lost, and stays so where the map is moved to. */
static void moved(void)
{
	struct hm_device *device = open_without_window();
	struct hm_map *map;
	uint32_t handle;
	struct hm_buffer *buffer = sim_make(device, 64 * PAGE, 64 * PAGE, &map);
	volatile char *base = hm_map_address(map);

	CHECK_OK(hm_sim_buffer(buffer, &handle));
	CHECK_OK(sim_inject(device, HETSIM_INJECT_SIGBUS, handle, PAGE));
	CHECK_EQUAL(base[PAGE], 0);
	CHECK_ERROR(-EIO, hm_map_begin_cpu(map, 0, PAGE, HM_READ));
	CHECK_OK(hm_buffer_resize(buffer, 2 * REPAIR_BLOCK, HM_MAY_MOVE));
	CHECK_ERROR(-EIO, hm_map_begin_cpu(map, 0, PAGE, HM_READ));
	CHECK_OK(hm_map_begin_cpu(map, REPAIR_BLOCK, PAGE, HM_READ));
	CHECK_OK(hm_map_end_cpu(map, REPAIR_BLOCK, PAGE, HM_READ));
	/* The moved map shows the buffer again, which can be lost again. */
	base = hm_map_address(map);
	base[PAGE] = 3;
	CHECK_OK(hm_sim_buffer(buffer, &handle));
	CHECK_OK(sim_inject(device, HETSIM_INJECT_SIGBUS, handle, PAGE));
	CHECK_EQUAL(base[PAGE], 0);
	CHECK_ERROR(-EIO, hm_map_begin_cpu(map, 0, PAGE, HM_READ));
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	CHECK_OK(hm_handler_remove());
}

/* A block that was replaced stays so, whatever of it its device takes and gives since. */
static void hurt_twice(void *user)
{
	struct hm_device *device = open_without_window();
	volatile char *base;
	struct hm_buffer *buffer;
	struct hm_map *map;
	uint32_t handle;

	(void)user;
	buffer = sim_make(device, 2 * REPAIR_BLOCK, 0, &map);
	base = hm_map_address(map);
	pattern_write((void *)base, 0, 2 * REPAIR_BLOCK, 1);
	CHECK_OK(hm_sim_buffer(buffer, &handle));
	CHECK_OK(sim_inject(device, HETSIM_INJECT_SIGBUS, handle, PAGE));
	CHECK_EQUAL(base[PAGE], 0);
	base[PAGE] = 6;
	base[3 * PAGE] = 7;
	/* The page of before is the buffer's again, and another one is hurt. */
	CHECK_OK(sim_inject(device, HETSIM_INJECT_SIGBUS, handle, 3 * PAGE));
	CHECK_OK(sim_inject(device, HETSIM_INJECT_POISON, handle, 5 * PAGE));
	CHECK_EQUAL(base[PAGE], 6);
	CHECK_EQUAL(base[3 * PAGE], 7);
	base[3 * PAGE] = base[PAGE] = 0;
	CHECK(is_zero((void *)base, 0, REPAIR_BLOCK));
	CHECK_EQUAL(handler_info().repaired, 1);
	CHECK_ERROR(-EIO, hm_map_begin_cpu(map, 0, PAGE, HM_READ));
	/* Other blocks follow the device. */
	CHECK(pattern_holds((void *)base, REPAIR_BLOCK, 2 * REPAIR_BLOCK, 1));
	CHECK_OK(sim_inject(device, HETSIM_INJECT_SIGBUS, handle, REPAIR_BLOCK));
	CHECK_OK(sim_inject(device, HETSIM_INJECT_SIGBUS, handle, 0));
	CHECK(pattern_holds((void *)base, REPAIR_BLOCK, 2 * REPAIR_BLOCK, 1));
	CHECK_OK(sim_inject(device, HETSIM_INJECT_SIGBUS, handle, REPAIR_BLOCK));
	CHECK_EQUAL(base[REPAIR_BLOCK], 0);
	CHECK_EQUAL(handler_info().repaired, 2);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	CHECK_OK(hm_handler_remove());
}

static void hurt_again(void)
{
	CHECK_EQUAL(test_fork(hurt_twice, NULL), 0);
}

/* A growth behind a replaced part of the same block can be lost, too. */
static void lost_again(void *user)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .max_size = REPAIR_BLOCK };
	const uint64_t half = REPAIR_BLOCK / 2;
	struct file_map file = { .fd = scratch_file(half) };
	int i;
	AUTO(rig_handler) handler = rig_handler(0);
	uint64_t before = handler_info().repaired;

	(void)user;
	CHECK_OK_FATAL(hm_device_open("file", &file.device));
	CHECK_OK_FATAL(hm_buffer_from_file(file.device, NULL, file.fd, &desc, &file.buffer));
	CHECK_OK_FATAL(hm_map_create(file.buffer, NULL, &file.map));
	file.base = hm_map_address(file.map);
	CHECK(!ftruncate(file.fd, 0));
	CHECK_EQUAL(file.base[0], 0);
	for (i = 1; i <= 2; i++) {
		/* As long as it was, or it is not the library's to grow. */
		CHECK(!ftruncate(file.fd, (off_t)(half + (uint64_t)(i - 1) * PAGE)));
		CHECK_OK_FATAL(hm_buffer_resize(file.buffer, half + (uint64_t)i * PAGE, 0));
		file.base[half + (uint64_t)i * PAGE - 1] = 5;
		CHECK_EQUAL(handler_info().repaired, before + (uint64_t)i);
		CHECK_ERROR(-EIO, hm_map_begin_cpu(file.map, half, PAGE, HM_READ));
		CHECK(!ftruncate(file.fd, 0));
		CHECK_EQUAL(file.base[half + (uint64_t)i * PAGE - 1], 0);
		CHECK_EQUAL(handler_info().repaired, before + (uint64_t)i + 1);
		CHECK_ERROR(-EIO, hm_map_begin_cpu(file.map, half, PAGE, HM_READ));
	}
	file.base[0] = 6;
	CHECK_EQUAL(file.base[0], 6);
	close_file_map(&file);
}

static void grown(void)
{
	CHECK_EQUAL(test_fork(lost_again, NULL), 0);
}

static void outside_window(void)
{
	CHECK_EQUAL(test_fork(touch_outside_window, NULL), SIGBUS);
}

/* ---- work ---- */

static void fences(void)
{
	struct hm_fence *fence;
	struct accel_rig rig;
	AUTO(rig_handler) handler = rig_handler(0);

	accel_rig_open(&rig, "cpu", 0, 0);
	AUTO(file_map) file = open_file_map();
	CHECK_OK_FATAL(hm_launch(rig.queue, rig.kernel[FILL], SIZE / 4, &fence,
				 HM_OUT((void *)file.base), HM_U32(5)));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	hm_fence_unref(fence);
	CHECK(!ftruncate(file.fd, REPAIR_BLOCK));
	/* The queue's thread touches them, and has never seen the library's handler. */
	CHECK_OK_FATAL(hm_launch(rig.queue, rig.kernel[FILL], SIZE / 4, &fence,
				 HM_OUT((void *)file.base), HM_U32(6)));
	CHECK_ERROR(-EIO, hm_fence_wait(fence, UINT64_MAX));
	CHECK(text_has("lost"));
	hm_fence_unref(fence);
	/* A launch reports no loss of bytes that it does not name. */
	CHECK_OK_FATAL(hm_launch(rig.queue, rig.kernel[FILL], REPAIR_BLOCK / 4, &fence,
				 HM_RANGE((void *)file.base, REPAIR_BLOCK, HM_WRITE),
				 HM_U32(7)));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	hm_fence_unref(fence);
	/* Later work on them fails likewise. */
	CHECK_OK_FATAL(hm_launch(rig.queue, rig.kernel[FILL], SIZE / 4, &fence,
				 HM_OUT((void *)file.base), HM_U32(8)));
	CHECK_ERROR(-EIO, hm_fence_wait(fence, UINT64_MAX));
	hm_fence_unref(fence);
	accel_rig_close(&rig);
}

/* ---- several threads ---- */

static _Atomic bool changes_over;

/* Rights come and go, and are right at the end, whichever thread replaced the block. */
static void *change_rights(void *user)
{
	struct file_map *file = user;

	while (!changes_over) {
		CHECK_EQUAL(hm_map_protect(file->map, PAGE, PAGE, HM_READ), 0);
		CHECK_EQUAL(hm_map_protect(file->map, PAGE, PAGE, HM_READ | HM_WRITE), 0);
	}
	CHECK_EQUAL(hm_map_protect(file->map, PAGE, PAGE, HM_READ), 0);
	return NULL;
}

static void beside_changes(void)
{
	pthread_t thread;
	unsigned int i;
	AUTO(rig_handler) handler = rig_handler(0);

	for (i = 0; i < 50; i++) {
		AUTO(file_map) file = open_file_map();
		changes_over = false;
		CHECK(!ftruncate(file.fd, 0));
		CHECK_FATAL(!pthread_create(&thread, NULL, change_rights, &file));
		file.base[3 * PAGE] = 3;
		(void)file.base[REPAIR_BLOCK];
		changes_over = true;
		pthread_join(thread, NULL);
		CHECK_EQUAL(file.base[3 * PAGE], 3);
		CHECK_EQUAL(test_write_signal((void *)(file.base + PAGE)), SIGSEGV);
		CHECK_EQUAL(test_write_signal((void *)(file.base + 2 * PAGE)), 0);
	}
}

/* A look at the states of blocks holds no reference: a move takes none away. */
static void *bracket(void *user)
{
	struct hm_map *map = user;

	while (!changes_over) {
		CHECK_EQUAL(hm_map_begin_cpu(map, 0, 2 * REPAIR_BLOCK, HM_READ), 0);
		CHECK_EQUAL(hm_map_end_cpu(map, 0, 2 * REPAIR_BLOCK, HM_READ), 0);
	}
	return NULL;
}

static void beside_moves(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = 2 * REPAIR_BLOCK };
	pthread_t thread;
	unsigned int i;
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(hm_device) *device = rig_device("host");

	for (i = 0; i < 30; i++) {
		AUTO(hm_buffer) *buffer = rig_buffer(device, &desc);
		AUTO(hm_map) *map = rig_map(buffer, NULL);
		changes_over = false;
		CHECK_FATAL(!pthread_create(&thread, NULL, bracket, map));
		while (buffer_info(buffer).max_size < 8 * REPAIR_BLOCK)
			CHECK_OK_FATAL(hm_buffer_resize(
				buffer, buffer_info(buffer).max_size + PAGE, HM_MAY_MOVE));
		changes_over = true;
		pthread_join(thread, NULL);
	}
}

/* ---- fork children ---- */

static struct sigaction of_parent[2];

static void read_left(void *user)
{
	const struct file_map *file = user;
	struct hm_guard guard;
	struct block_states *blocks = repair_states(file->map);

	/* test_fork() took the handler. */
	CHECK_FATAL(!sigaction(SIGBUS, &of_parent[0], NULL));
	CHECK_FATAL(!sigaction(SIGSEGV, &of_parent[1], NULL));
	/* The change ended in the parent alone: the child has to replace the bytes itself. */
	CHECK_EQUAL(file->base[PAGE], 0);
	CHECK_EQUAL(file->base[REPAIR_BLOCK - 1], 0);
	CHECK_EQUAL(blocks->state[0], BLOCK_POISONED | BLOCK_UNNOTED);
	/* A repair, too, ended in the parent alone: the child does not know how far it got. */
	HM_GUARD_INIT(&guard);
	if (!hm_guard_begin(&guard)) {
		(void)file->base[REPAIR_BLOCK];
		CHECK(!"reached");
	}
	CHECK_EQUAL(guard.fault.signal, SIGBUS);
}

/* A child is made while threads of the parent's are at blocks of a map that it inherits. */
static void left_by_fork(void)
{
	struct block_states *blocks;
	AUTO(rig_handler) handler = rig_handler(0);

	CHECK_FATAL(!sigaction(SIGBUS, NULL, &of_parent[0]));
	CHECK_FATAL(!sigaction(SIGSEGV, NULL, &of_parent[1]));
	AUTO(file_map) file = open_file_map();
	blocks = repair_states(file.map);
	CHECK(!ftruncate(file.fd, PAGE));
	atomic_store(&blocks->state[0], BLOCK_CHANGING);
	atomic_store(&blocks->state[1], BLOCK_REPAIRING);
	CHECK_EQUAL(test_fork(read_left, &file), 0);
	atomic_store(&blocks->state[0], BLOCK_OK);
	atomic_store(&blocks->state[1], BLOCK_OK);
	CHECK_EQUAL(file.base[PAGE], 0);
	CHECK_EQUAL(file.base[REPAIR_BLOCK], 0);
}

/* ---- want of memory ---- */

static void undone(void)
{
	struct hm_map *second;
	unsigned int n;
	bool failed;
	int r;
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(rig) rig =
		rig_make("host", DESC(hm_buffer_desc, .size = 2 * PAGE, .max_size = 2 * PAGE));
	uint64_t reserved = stats_now().bytes_reserved;

	for (n = 1, failed = true; failed; n++) {
		second = NULL;
		inject_arm(n, INJECT_ONE);
		r = hm_map_create(rig.buffer, NULL, &second);
		failed = inject_disarm();
		CHECK_EQUAL(!r, second != NULL);
		hm_map_unref(second);
		inject_forgive();
		CHECK_EQUAL(stats_now().bytes_reserved, reserved);
		CHECK_EQUAL(buffer_info(rig.buffer).maps, 1);
	}
	*(volatile char *)hm_map_address(rig.map) = 5;
	for (n = 1, failed = true; failed; n++) {
		inject_arm(n, INJECT_ONE);
		r = hm_buffer_resize(rig.buffer, 3 * REPAIR_BLOCK, HM_MAY_MOVE);
		failed = inject_disarm();
		inject_forgive();
		if (!r)
			break;
		CHECK_EQUAL(*(volatile char *)hm_map_address(rig.map), 5);
		CHECK_EQUAL(hm_map_length(rig.map), 2 * PAGE);
	}
	CHECK_EQUAL(*(volatile char *)hm_map_address(rig.map), 5);
}

static struct hm_map *held; /* by a thread that looks at all maps */

static void hold(struct hm_map *map, const void *user)
{
	(void)user;
	if (!held)
		held = hm_map_ref(map);
}

/* Room for the states of one block is refused; by then the map can be found. */
static void *refuse_states(size_t count, size_t size)
{
	if (size != sizeof(struct block_states) + sizeof(uint32_t))
		return calloc(count, size);
	map_each(NULL, hold, NULL);
	return NULL;
}

static void held_by_others(void)
{
	struct hm_map *map = NULL;

	held = NULL;
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *buffer = rig_buffer(device, DESC(hm_buffer_desc, .size = 2 * PAGE));
	sys_table.calloc = refuse_states;
	CHECK_ERROR(-ENOMEM, hm_map_create(buffer, NULL, &map));
	sys_table.calloc = calloc;
	CHECK_FATAL(!map && held);
	CHECK_EQUAL(held->object.kind, OBJECT_MAP);
	CHECK_EQUAL(hm_map_length(held), 2 * PAGE);
	CHECK_EQUAL(buffer_info(buffer).maps, 1);
	hm_map_unref(held);
	CHECK_EQUAL(buffer_info(buffer).maps, 0);
	CHECK_EQUAL(stats_now().maps, 0);
	CHECK_EQUAL(stats_now().bytes_reserved, 0);
}

static const struct test tests[] = {
	{ "replaced", replaced, 0, 0 },
	{ "shadowed", shadowed, 0, 0 },
	{ "rights_stay", rights_stay, 0, 0 },
	{ "refused", refused, 180, 0 },
	{ "outside_window", outside_window, 0, 0 },
	{ "moved", moved, 0, 0 },
	{ "hurt_again", hurt_again, 0, 0 },
	{ "fences", fences, 0, 0 },
	{ "beside_changes", beside_changes, 60, 0 },
	{ "grown", grown, 0, 0 },
	{ "undone", undone, 0, 0 },
	{ "held_by_others", held_by_others, 0, 0 },
	{ "left_by_fork", left_by_fork, 60, 0 },
	{ "beside_moves", beside_moves, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "repair", tests)
