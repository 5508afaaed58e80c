// SPDX-License-Identifier: MIT
/* How an OpenCL device gets at memory of other devices, on the test driver. */
#include <errno.h>
#include <hetmap/sim.h>
#include <stdlib.h>

#include "accel_support.h"
#include "sim/port.h"

#define PAGE 4096ull

/* In place as the host's memory is, by a test on a buffer of the same device. */
static void device_memory(const char *modes, uint32_t expected)
{
	struct hm_device *soft;
	struct rig rig;
	uint32_t *p;

	use_stub(modes);
	rig_open(&rig, "opencl:0", 0, 0);
	CHECK_OK_FATAL(hm_device_open("soft:0", &soft));
	CHECK_OK_FATAL(hm_alloc(soft, PAGE, HM_READ | HM_WRITE, &p));
	CHECK_EQUAL(way_of(&rig, p, 0), expected);
	if (expected == HM_WAY_COPY)
		CHECK(text_has("block SIGBUS"));
	CHECK(is_zero(p, 0, PAGE));
	RUN(&rig, INCREMENT, 16, HM_INOUT(p));
	CHECK_EQUAL(p[15], 1);
	CHECK_OK(hm_free(p));
	hm_device_unref(soft);
	rig_close(&rig);
}

static void device_memory_in_place(void)
{
	device_memory("", HM_WAY_HOST_PTR);
}

/* Taken away, and nobody has noticed: as a module's device is by another process. */
static void unplug_unnoticed(struct hm_device *device)
{
	struct hetsim_handshake shake = {
		.size = sizeof(shake),
		.version_major = HETSIM_VERSION_MAJOR,
	};
	struct hetsim_inject inject = {
		.size = sizeof(inject),
		.kind = HETSIM_INJECT_UNPLUG,
	};
	struct sim_port *port = sim_port_of(device);

	/* Without HETSIM_HANDSHAKE_ZERO_WHEN_LOST no hook is called. */
	CHECK_OK_FATAL(port->ops->call(port->file, HETSIM_HANDSHAKE, &shake));
	CHECK_OK_FATAL(port->ops->call(port->file, HETSIM_INJECT, &inject));
}

/* What its self-test finds out is not told with the map's view held. */
static void device_gone_at_self_test(void)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	struct hm_fence *fence = NULL;
	struct hm_device *soft;
	struct rig rig;
	uint32_t *p;

	setenv("HETMAP_SOFT", "test=1", 1);
	use_stub("");
	rig_open(&rig, "opencl:0", HM_ZERO_COPY_ONLY, 0);
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
	rig_close(&rig);
	CHECK_OK(hm_sim_plug("soft:0"));
}

/* Its threads would be killed when the device is taken away. */
static void soft_memory_and_mesa(void)
{
	device_memory("mesa", HM_WAY_COPY);
}

static const struct test tests[] = {
	{ "device_memory_in_place", device_memory_in_place, 0, TEST_ONCE },
	{ "device_gone_at_self_test", device_gone_at_self_test, 0, TEST_ONCE },
	{ "soft_memory_and_mesa", soft_memory_and_mesa, 0, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "stub_device", tests);
}
