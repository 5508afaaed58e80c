// SPDX-License-Identifier: MIT
/* How an OpenCL device gets at memory of other devices, on the test driver. */
#include <CL/cl.h>
#include <errno.h>
#include <fcntl.h>
#include <hetmap/sim.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "accel/accel_support.h"
#include "lib/hetsim_argument.h"
#include "backend/sim/port.h"
#include "base/sys.h"
#include "lib/units.h"

#define SIZE (8 * PAGE)

typedef void stub_fail_function(const char *function, unsigned int nth, int error);

/* In place as the host's memory is, by a test on a buffer of the same device. */
static void device_memory(const char *modes, uint32_t expected)
{
	uint32_t *p;
	AUTO(accel_rig) rig = stub_rig(modes, 0, 0);
	AUTO(hm_device) *soft = rig_device("soft:0");

	CHECK_OK_FATAL(hm_alloc(soft, PAGE, HM_READ | HM_WRITE, &p));
	CHECK_EQUAL(way_of(&rig, p, 0), expected);
	if (expected == HM_WAY_COPY)
		CHECK(text_has("block SIGBUS"));
	CHECK(is_zero(p, 0, PAGE));
	RUN(&rig, INCREMENT, 16, HM_INOUT(p));
	CHECK_EQUAL(p[15], 1);
	CHECK_OK(hm_free(p));
}

static void device_memory_in_place(void)
{
	device_memory("", HM_WAY_HOST_PTR);
}

/* The device is taken away unnoticed, as a module's device is by another process. */
static void unplug_unnoticed(struct hm_device *device)
{
	struct sim_port *port = sim_port_of(device);

	/* Without HETSIM_HANDSHAKE_ZERO_WHEN_LOST no hook is called. */
	CHECK_OK_FATAL(port->ops->call(port->file, HETSIM_HANDSHAKE,
				       SIZED(hetsim_handshake,
					     .version_major = HETSIM_VERSION_MAJOR)));
	CHECK_OK_FATAL(port->ops->call(port->file, HETSIM_INJECT,
				       SIZED(hetsim_inject, .kind = HETSIM_INJECT_UNPLUG)));
}

/* The self-test reports a lost device only after it has dropped the map's view. */
static void device_gone_at_self_test(void)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	struct hm_fence *fence = NULL;
	struct hm_device *soft;
	struct accel_rig rig;
	uint32_t *p;

	setenv("HETMAP_SOFT", "test=1", 1);
	rig = stub_rig("", HM_ZERO_COPY_ONLY, 0);
	CHECK_OK_FATAL(hm_device_open("soft:0", &soft));
	CHECK_OK_FATAL(hm_alloc(soft, PAGE, HM_READ | HM_WRITE, &p));
	unplug_unnoticed(soft);
	CHECK_ERROR(-EINVAL,
		    hm_launch(rig.queue, rig.kernel[INCREMENT], 16, &fence, HM_INOUT(p)));
	CHECK(text_has("taken away"));
	CHECK_ERROR(-ENODEV, hm_device_query(soft, &info));
	CHECK(is_zero(p, 0, PAGE));
	CHECK_OK(hm_free(p));
	hm_device_unref(soft);
	accel_rig_close(&rig);
	CHECK_OK(hm_sim_plug("soft:0"));
}

/* Its threads would be killed when the device is taken away. */
static void soft_memory_and_mesa(void)
{
	device_memory("mesa", HM_WAY_COPY);
}

/* ---- threads that block SIGBUS ---- */

static struct hm_map *map_of(struct hm_buffer *buffer)
{
	struct hm_map *map = rig_map(buffer, NULL);

	hm_buffer_unref(buffer);
	return map;
}

static struct hm_map *file_map(int fd, uint32_t flags)
{
	struct hm_buffer *buffer;
	AUTO(hm_device) *file = rig_device("file");

	CHECK_OK_FATAL(hm_buffer_from_file(file, NULL, fd, DESC(hm_buffer_desc, .flags = flags),
					   &buffer));
	return map_of(buffer);
}

/* Foreign memory that can't be cut off: else "host" does not take it. */
static struct hm_map *foreign_map(struct accel_rig *rig)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc) };
	int fd = memfd_create("foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct hm_buffer *buffer;

	CHECK_FATAL(fd >= 0 && !ftruncate(fd, SIZE));
	CHECK_FATAL(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	CHECK_OK_FATAL(hm_buffer_import(rig->host, fd, &desc, &buffer));
	close(fd);
	return map_of(buffer);
}

/* Memory that can be cut off goes by copy where @blocks, and works; else it is used in place. */
static void check_way(struct accel_rig *rig, struct hm_map *map, bool cut, bool blocks,
		      uint32_t in_place)
{
	uint32_t *p = hm_map_address(map);
	struct hm_fence *fence;
	uint32_t before = p[15];

	CHECK_EQUAL(way_of(rig, p, 0), cut && blocks ? HM_WAY_COPY : in_place);
	if (cut && blocks)
		CHECK(text_has("block SIGBUS"));
	RUN(rig, INCREMENT, 16, HM_INOUT(p));
	RUN(rig, INCREMENT, 16, HM_INOUT(p));
	CHECK_EQUAL(p[15], before + 2);
	CHECK_OK_FATAL(hm_queue_copy(rig->queue, p + 1024, p, 64, &fence));
	finish(fence);
	CHECK_EQUAL(p[1024 + 15], before + 2);
	CHECK_OK_FATAL(hm_queue_fill(rig->queue, p + 1024, 7, 64, &fence));
	finish(fence);
	CHECK_EQUAL(p[1024 + 15], 7);
	hm_map_unref(map);
}

static void check_ways(bool blocks, uint32_t in_place)
{
	int fd = scratch_file(SIZE);
	AUTO(hm_device) *soft = NULL;
	struct hm_buffer *buffer;
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = SIZE };
	AUTO(accel_rig) rig = accel_rig_make("opencl:0", 0, 0);

	/* The first map is used before any launch, so it stays in place in any case. */
	CHECK_OK_FATAL(hm_buffer_create(rig.host, &desc, &buffer));
	check_way(&rig, map_of(buffer), false, blocks, in_place);
	check_way(&rig, file_map(fd, 0), true, blocks, in_place);
	check_way(&rig, file_map(fd, HM_BUFFER_PRIVATE), true, blocks, in_place);
	check_way(&rig, foreign_map(&rig), false, blocks, in_place);
	CHECK_OK_FATAL(hm_device_open("soft:0", &soft));
	CHECK_OK_FATAL(hm_buffer_create(soft, &desc, &buffer));
	check_way(&rig, map_of(buffer), true, blocks, in_place);
	close(fd);
}

static void none_blocks(void)
{
	use_stub("");
	check_ways(false, HM_WAY_HOST_PTR);
}

static void one_blocks(void)
{
	use_stub("blocks");
	check_ways(true, HM_WAY_HOST_PTR);
}

static void one_blocks_late(void)
{
	use_stub("blocks-late");
	check_ways(true, HM_WAY_HOST_PTR);
}

static void one_blocks_with_svm(void)
{
	use_stub("blocks-late,svm-system");
	check_ways(true, HM_WAY_SVM);
}

static void pocl_does_not(void)
{
	if (use_pocl("pthread"))
		check_ways(false, HM_WAY_HOST_PTR);
}

/* Its own copies touch the memory, so they count, too. */
static void forced_to_copy(void)
{
	int fd = scratch_file(SIZE);
	AUTO(accel_rig) rig = stub_rig("blocks-late", HM_ACCEL_FORCE_COPY, 0);

	check_way(&rig, file_map(fd, 0), true, true, HM_WAY_COPY);
	close(fd);
}

/* The file is cut off under the work of such a driver: an error, and no crash. */
static void cut_off(void)
{
	int fd = scratch_file(SIZE);
	struct hm_fence *fence;
	struct hm_map *map;
	uint32_t *p;
	AUTO(accel_rig) rig = stub_rig("blocks-late", 0, 0);

	CHECK_OK_FATAL(hm_handler_install(0));
	map = file_map(fd, 0);
	p = hm_map_address(map);
	RUN(&rig, INCREMENT, 16, HM_INOUT(p));
	CHECK(!ftruncate(fd, 0));
	CHECK_OK_FATAL(hm_launch(rig.queue, rig.kernel[INCREMENT], 16, &fence, HM_INOUT(p)));
	CHECK_ERROR(-EIO, hm_fence_wait(fence, UINT64_MAX));
	CHECK(text_has("lost"));
	hm_fence_unref(fence);
	hm_map_unref(map);
	/* The copy in fails, so there is none back. */
	CHECK(!ftruncate(fd, SIZE));
	map = file_map(fd, 0);
	CHECK(!ftruncate(fd, 0));
	CHECK_OK_FATAL(hm_queue_fill(rig.queue, hm_map_address(map), 7, 64, &fence));
	CHECK_ERROR(-EIO, hm_fence_wait(fence, UINT64_MAX));
	hm_fence_unref(fence);
	hm_map_unref(map);
	CHECK_OK(hm_handler_remove());
	close(fd);
}

/* A first launch that fails shows nothing: it is made again, and meanwhile it is a copy. */
static void first_launch_fails(void)
{
	static const char *const functions[] = {
		"clCreateProgramWithSource",
		"clCreateKernel",
		"clCreateCommandQueueWithProperties",
		"clCreateBuffer",
		"clSetKernelArg",
		"clEnqueueNDRangeKernel",
		"clFinish",
	};
	int fd = scratch_file(SIZE);
	AUTO(accel_rig) rig = { 0 };
	size_t i;

	setenv("XDG_CACHE_HOME", "/proc/1/nothing", 1);
	rig = stub_rig("svm-system", 0, 0);
	for (i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		AUTO(hm_map) *map = file_map(fd, 0);

		((stub_fail_function *)stub_symbol("stub_fail"))(functions[i], 1,
								 CL_OUT_OF_RESOURCES);
		CHECK_EQUAL(way_of(&rig, hm_map_address(map), 0), HM_WAY_COPY);
		CHECK(text_has("may block SIGBUS") && text_has("CL_OUT_OF_RESOURCES"));
		((stub_fail_function *)stub_symbol("stub_fail"))("", 1, 0);
	}
	check_way(&rig, file_map(fd, 0), true, false, HM_WAY_SVM);
	close(fd);
}

/* ---- no room for scratch memory ---- */

static int fallocate_error, pwrite_error;

static int failing_fallocate(int fd, int mode, off_t offset, off_t length)
{
	(void)fd, (void)mode, (void)offset, (void)length;
	errno = fallocate_error;
	return -1;
}

static ssize_t failing_pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
	if (!pwrite_error)
		return pwrite(fd, bytes, length, offset);
	errno = pwrite_error;
	return -1;
}

/* Scratch memory without blocks is told, and no SIGBUS. @told NULL: it has them. */
static void check_full(const char *device, const char *told)
{
	const struct sys_table real = sys_table;
	AUTO(hm_buffer) *buffer = NULL;
	struct hm_map *map;
	int fd = scratch_file(PAGE);
	AUTO(accel_rig) rig = stub_rig("", 0, 0);
	AUTO(hm_device) *opened = rig_device(device);

	if (strcmp(device, "file") != 0)
		buffer = rig_buffer(opened, DESC(hm_buffer_desc, .size = PAGE));
	else
		CHECK_OK_FATAL(hm_buffer_from_file(opened, NULL, fd, NULL, &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	sys_table.fallocate = failing_fallocate;
	sys_table.pwrite = failing_pwrite;
	CHECK_EQUAL(way_of(&rig, hm_map_address(map), 0), told ? HM_WAY_COPY : HM_WAY_HOST_PTR);
	CHECK(!told || text_has(told));
	sys_table = real;
	/* Not kept: the next one finds room. */
	hm_map_unref(map);
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	CHECK_EQUAL(way_of(&rig, hm_map_address(map), 0), HM_WAY_HOST_PTR);
	hm_map_unref(map);
	close(fd);
}

#define NO_SCRATCH "no scratch memory like that of the map: ENOSPC (No space left on device)"

static void self_test_of_full_memory(void)
{
	fallocate_error = ENOSPC;
	check_full("host", NO_SCRATCH);
}

static void self_test_of_full_folder(void)
{
	fallocate_error = ENOSPC;
	check_full("file", NO_SCRATCH ": set TMPDIR");
}

/* A file system that can't allocate: blocks are taken by writing. */
static void self_test_of_written_file(void)
{
	fallocate_error = EOPNOTSUPP;
	check_full("file", NULL);
}

static void self_test_of_full_written_file(void)
{
	fallocate_error = EOPNOTSUPP;
	pwrite_error = ENOSPC;
	check_full("file", NO_SCRATCH ": set TMPDIR");
}

static const struct test tests[] = {
	{ "device_memory_in_place", device_memory_in_place, 0, TEST_ONCE },
	{ "device_gone_at_self_test", device_gone_at_self_test, 0, TEST_ONCE },
	{ "soft_memory_and_mesa", soft_memory_and_mesa, 0, TEST_ONCE },
	{ "none_blocks", none_blocks, 0, TEST_ONCE },
	{ "one_blocks", one_blocks, 0, TEST_ONCE },
	{ "one_blocks_late", one_blocks_late, 0, TEST_ONCE },
	{ "one_blocks_with_svm", one_blocks_with_svm, 0, TEST_ONCE },
	{ "pocl_does_not", pocl_does_not, 0, TEST_ONCE },
	{ "forced_to_copy", forced_to_copy, 0, TEST_ONCE },
	{ "cut_off", cut_off, 0, TEST_ONCE },
	{ "first_launch_fails", first_launch_fails, 0, TEST_ONCE },
	{ "self_test_of_full_memory", self_test_of_full_memory, 0, TEST_ONCE },
	{ "self_test_of_full_folder", self_test_of_full_folder, 0, TEST_ONCE },
	{ "self_test_of_written_file", self_test_of_written_file, 0, TEST_ONCE },
	{ "self_test_of_full_written_file", self_test_of_full_written_file, 0, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "stub_device", tests)
