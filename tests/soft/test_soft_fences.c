// SPDX-License-Identifier: MIT
/* soft:N: fences and timelines of the twin that the module has in another way. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/harness.h"
#include "soft/soft.h"

#include <uapi/hetsim.h>

/* Fences of buffers are the process's own: other drivers have no part in them. */
static void test_fences_told(void)
{
	struct hetsim_handshake shake = { .size = sizeof(shake),
					  .version_major = HETSIM_VERSION_MAJOR,
					  .features = HETSIM_FEATURE_USES };
	struct soft_file *file;

	setenv("HETMAP_SOFT", "vram_mb=8 system_mb=8", 1);
	CHECK_FATAL(soft_open(0, O_RDWR, NULL, NULL, &file) == 0);
	CHECK_EQUAL(soft_call(file, HETSIM_HANDSHAKE, &shake), 0);
	CHECK_EQUAL(shake.accepted, 1);
	CHECK(!(shake.driver_features & HETSIM_FEATURE_DMABUF_FENCES));
	shake.features = HETSIM_FEATURE_DMABUF_FENCES;
	CHECK_EQUAL(soft_call(file, HETSIM_HANDSHAKE, &shake), 0);
	CHECK_EQUAL(shake.accepted, 0);
	soft_close(file);
}

/* A file of the same shape that the library has not made. */
static void test_forged_timeline(void)
{
	struct hetsim_handshake shake = { .size = sizeof(shake),
					  .version_major = HETSIM_VERSION_MAJOR };
	struct hetsim_timeline_signal arg = { .size = sizeof(arg), .point = 1 };
	struct test_holding before;
	struct soft_file *file;

	setenv("HETMAP_SOFT", "vram_mb=8 system_mb=8", 1);
	CHECK_FATAL(soft_open(0, O_RDWR, NULL, NULL, &file) == 0);
	CHECK_EQUAL(soft_call(file, HETSIM_HANDSHAKE, &shake), 0);
	arg.fd = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK_FATAL(arg.fd >= 0);
	CHECK_EQUAL(ftruncate(arg.fd, 4096), 0);
	CHECK_EQUAL(fcntl(arg.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	before = test_holding_now();
	CHECK_EQUAL(soft_call(file, HETSIM_TIMELINE_SIGNAL, &arg), -EINVAL);
	CHECK_EQUAL(test_holding_now().mappings, before.mappings);
	close(arg.fd);
	soft_close(file);
}

static const struct test tests[] = {
	{ "fences_told", test_fences_told, 0, 0 },
	{ "forged_timeline", test_forged_timeline, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "soft_fences", tests)
