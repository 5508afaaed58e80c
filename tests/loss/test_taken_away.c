// SPDX-License-Identifier: MIT
/*
 * A device is taken away in the middle of a call: between two steps of it, where
 * only another thread could do that at the right moment. Here it is the seam that
 * does, or an op.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <hetmap/sim.h>

#include "accel/accel_support.h"
#include "lib/minimal_backend.h"
#include "backend/sim/port.h"
#include "soft/soft.h"
#include "base/sys.h"

/* ---- soft:0, while it is opened ---- */

static struct soft_file *other;
static struct sys_table real;
static unsigned int countdown;

/* At once, or it would take itself away again. */
static void *calloc_unplugs(size_t count, size_t size)
{
	if (!--countdown) {
		sys_table = real;
		CHECK_EQUAL(soft_call(other, HETSIM_INJECT,
				      SIZED(hetsim_inject, .kind = HETSIM_INJECT_UNPLUG)),
			    0);
	}
	return real.calloc(count, size);
}

static void while_opening(void)
{
	struct soft_file *file;
	int n, r;

	setenv("HETMAP_SOFT", "vram_mb=16 system_mb=16 test=1", 1);
	for (n = 1; n <= 2; n++) {
		CHECK_FATAL(soft_open(0, O_RDWR, NULL, NULL, &other) == 0);
		CHECK_EQUAL(soft_call(other, HETSIM_HANDSHAKE,
				      SIZED(hetsim_handshake,
					    .version_major = HETSIM_VERSION_MAJOR)),
			    0);
		file = NULL;
		real = sys_table;
		countdown = (unsigned int)n;
		sys_table.calloc = calloc_unplugs;
		r = soft_open(0, O_RDWR, NULL, NULL, &file);
		sys_table = real;
		CHECK_EQUAL(r, -ENODEV);
		CHECK(!file);
		soft_close(other);
		CHECK_EQUAL(soft_plug(0), 0);
	}
	CHECK_EQUAL(soft_objects(0), 0);
}

/* ---- while a buffer is made ---- */

static const struct sim_port_ops *port_ops;

static int call_without_info(void *file, unsigned long cmd, void *argument)
{
	return cmd == HETSIM_BUFFER_INFO ? -ENODEV : port_ops->call(file, cmd, argument);
}

static void while_creating(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = PAGE };
	struct hm_buffer *buffer = NULL;
	struct sim_port_ops ops;
	AUTO(hm_device) *device = rig_device("soft:0");
	struct sim_port *port = sim_port_of(device);

	port_ops = port->ops;
	ops = *port_ops;
	ops.call = call_without_info;
	port->ops = &ops;
	CHECK_ERROR(-ENODEV, hm_buffer_create(device, &desc, &buffer));
	CHECK(!buffer);
	port->ops = port_ops;
	CHECK_EQUAL(soft_objects(0), 0);
}

/* ---- while a map is made ---- */

static int gone;

static int device_check(void *device)
{
	(void)device;
	return gone;
}

static void while_mapping(void)
{
	struct hm_backend_ops ops = minimal_backend;
	struct hm_map *map = NULL;

	ops.size = sizeof(ops);
	ops.name = "fleeting";
	ops.caps |= HM_BACKEND_LOSS;
	ops.device_check = device_check;
	gone = 0;
	CHECK_OK_FATAL(hm_backend_register(&ops));
	AUTO(hm_device) *device = rig_device("fleeting");
	AUTO(hm_buffer) *buffer = rig_buffer(device, DESC(hm_buffer_desc, .size = PAGE));
	gone = -ENODEV;
	CHECK_ERROR(-ENODEV, hm_map_create(buffer, NULL, &map));
	CHECK(!map);
	CHECK_EQUAL(buffer_info(buffer).maps, 0);
	CHECK_EQUAL(stats_now().maps, 0);
}

/* ---- another device that comes under its name ---- */

enum { AS_BEFORE, WITH_WINDOW, LARGER_PAGES, OTHER_MEMORY, KINDS };

static int kind;

static int create_of_kind(void *device, const struct hm_buffer_desc *desc,
			  struct hm_recipe *ret_recipe)
{
	int r = fleeting_backend.create(device, desc, ret_recipe);

	if (r)
		return r;
	if (kind == WITH_WINDOW)
		ret_recipe->caps |= HM_CAP_BRACKET;
	if (kind == LARGER_PAGES)
		ret_recipe->page_size *= 2;
	if (kind == OTHER_MEMORY)
		ret_recipe->memory = HM_MEMORY_SEALED;
	return 0;
}

static int begin_cpu(void *device, const struct hm_segment *segments, uint32_t n_segment,
		     uint64_t offset, uint64_t length, uint32_t access)
{
	(void)device, (void)segments, (void)n_segment, (void)offset, (void)length, (void)access;
	return 0;
}

static void another_kind(void)
{
	const struct hm_loss_desc loss = { .struct_size = sizeof(loss),
					   .policy = HM_LOSS_RECREATE };
	struct hm_recover_info info = { .struct_size = sizeof(info) };
	struct hm_backend_ops ops = fleeting_backend;

	ops.name = "changing";
	ops.caps |= HM_CAP_BRACKET;
	ops.create = create_of_kind;
	ops.begin_cpu = begin_cpu;
	kind = AS_BEFORE;
	CHECK_OK_FATAL(hm_backend_register(&ops));
	AUTO(rig) r = rig_make("changing", DESC(hm_buffer_desc, .size = 2 * PAGE));
	CHECK_OK_FATAL(hm_buffer_set_loss(r.buffer, &loss));
	fleeting_go();
	CHECK_ERROR(-ENODEV, hm_device_recover(r.device, 0, NULL));
	fleeting_come();
	for (kind = WITH_WINDOW; kind < KINDS; kind++) {
		CHECK_OK(hm_device_recover(r.device, 0, &info));
		CHECK_EQUAL(info.buffers_left, 1);
		CHECK_EQUAL(info.error, -EOPNOTSUPP);
		CHECK_ERROR(-ENODEV, hm_map_begin_cpu(r.map, 0, PAGE, HM_READ));
	}
	kind = AS_BEFORE;
	CHECK_OK(hm_device_recover(r.device, 0, &info));
	CHECK_EQUAL(info.buffers_back, 1);
	CHECK_OK(hm_map_begin_cpu(r.map, 0, PAGE, HM_READ));
	CHECK_OK(hm_map_end_cpu(r.map, 0, PAGE, HM_READ));
}

/* ---- calls of OpenCL's self-test fail ---- */

static void *mmap_fails(void *address, size_t length, int prot, int flags, int fd, off_t offset)
{
	if (flags == MAP_SHARED && length == 64 * 1024 && !--countdown) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return real.mmap(address, length, prot, flags, fd, offset);
}

static void while_testing(void)
{
	struct hm_device *soft;
	struct accel_rig rig;
	uint32_t *p;
	int n;

	use_stub("");
	accel_rig_open(&rig, "opencl:0", 0, 0);
	CHECK_OK_FATAL(hm_device_open("soft:0", &soft));
	for (n = 1; n <= 3; n++) { /* the twin maps it, too */
		CHECK_OK_FATAL(hm_alloc(soft, PAGE, HM_READ | HM_WRITE, &p));
		real = sys_table;
		countdown = (unsigned int)n;
		sys_table.mmap = mmap_fails;
		CHECK_EQUAL(way_of(&rig, p, 0), HM_WAY_COPY);
		sys_table = real;
		CHECK(text_has("self-test"));
		CHECK_OK(hm_free(p));
	}
	/* The failure was no result: the next queue tests again. */
	CHECK_OK_FATAL(hm_alloc(soft, PAGE, HM_READ | HM_WRITE, &p));
	CHECK_EQUAL(way_of(&rig, p, 0), HM_WAY_HOST_PTR);
	CHECK_OK(hm_free(p));
	hm_device_unref(soft);
	accel_rig_close(&rig);
}

static const struct test tests[] = {
	{ "while_opening", while_opening, 0, 0 },
	{ "while_creating", while_creating, 0, 0 },
	{ "another_kind", another_kind, 0, TEST_ONCE },
	{ "while_mapping", while_mapping, 0, TEST_ONCE },
	{ "while_testing", while_testing, 0, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "taken_away", tests)
