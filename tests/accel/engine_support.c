// SPDX-License-Identifier: MIT
/* Engines for their tests. */
#include "accel/engine_support.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uapi/hetsim.h>
#include <unistd.h>

static const struct engine_subject all[] = {
	{ "soft", "soft:0", "test=1 vram_mb=64 system_mb=64 devices=2" },
	{ "soft_fpga", "soft:0", "test=1 vram_mb=64 system_mb=64 kind=fpga" },
	{ "sim", "sim:0", NULL },
};

const struct engine_subject *engine_subject;

static const struct engine_subject *subjects;
/* Laid out subject by subject: a test's place gives its subject and case. */
static struct test *tests;
static const struct test *cases;
static unsigned int n_case;

static void run(void)
{
	unsigned int at = (unsigned int)(test_current() - tests);

	engine_subject = &subjects[at / n_case];
	if (engine_subject->settings)
		setenv("HETMAP_SOFT", engine_subject->settings, 1);
	cases[at % n_case].run();
}

int engine_main(int argc, char **argv, const char *suite, const struct test *table)
{
	/* With the module, the program tests only the module: the twin runs everywhere. */
	bool module = !access("/dev/hetsim0", F_OK);
	unsigned int n = module ? 1 : 2, i;
	char *name;

	subjects = module ? &all[2] : all;
	cases = table;
	while (cases[n_case].name)
		n_case++;
	tests = calloc((size_t)n * n_case + 1, sizeof(*tests));
	for (i = 0; tests && i < n * n_case; i++) {
		if (asprintf(&name, "%s.%s", subjects[i / n_case].title,
			     cases[i % n_case].name) < 0)
			return 1;
		tests[i] = cases[i % n_case];
		tests[i].name = name;
		tests[i].run = run;
	}
	return tests ? harness_main(argc, argv, suite, tests) : 1;
}

void engine_open(struct engine_rig *rig, uint32_t flags)
{
	const struct hm_accel_desc desc = { sizeof(desc), flags, 0 };
	struct hm_accel_info info = { .struct_size = sizeof(info) };

	memset(rig, 0, sizeof(*rig));
	CHECK_OK_FATAL(hm_device_open(engine_subject->name, &rig->device));
	CHECK_OK_FATAL(hm_accel_open(engine_subject->name, &desc, &rig->accel));
	CHECK_OK_FATAL(hm_queue_create(rig->accel, 0, &rig->queue));
	CHECK_OK_FATAL(hm_device_open("host", &rig->host));
	CHECK_OK_FATAL(hm_accel_query(rig->accel, &info));
	rig->align = info.alignment;
}

void engine_close(struct engine_rig *rig)
{
	hm_queue_unref(rig->queue);
	hm_accel_unref(rig->accel);
	hm_device_unref(rig->device);
	hm_device_unref(rig->host);
}

void *engine_alloc(struct hm_device *device, uint64_t size)
{
	void *bytes = NULL;

	CHECK_OK_FATAL(hm_alloc(device, size, HM_READ | HM_WRITE, &bytes));
	return bytes;
}

void engine_random(unsigned char *bytes, uint64_t length, uint64_t *state)
{
	uint64_t i;

	for (i = 0; i < length; i++)
		bytes[i] = (unsigned char)(test_random(state) >> 7);
}

void engine_inject(struct engine_rig *rig, uint32_t kind, uint64_t value)
{
	struct hetsim_inject inject = { .size = sizeof(inject), .kind = kind, .value = value };

	if (kind < HETSIM_INJECT_SIGBUS)
		CHECK_OK_FATAL(hm_sim_queue(rig->queue, &inject.target));
	CHECK_OK_FATAL(hm_sim_call(rig->device, HETSIM_INJECT, &inject));
}

struct hm_kernel *kernel_of_steps(const char *name, const char *signature,
				  const struct hm_engine_step *steps, uint32_t n)
{
	return rig_kernel(DESC(hm_kernel_desc, .name = name, .signature = signature,
			       .engine = steps, .n_engine = n));
}

struct hm_kernel *kernel_of_op(uint8_t op)
{
	static const struct {
		const char *name;
		uint8_t source, source2, value;
	} ops[] = {
		[HM_ENGINE_FILL] = { "fill", NONE, NONE, 4 },
		[HM_ENGINE_COPY] = { "copy", 1, NONE, NONE },
		[HM_ENGINE_ADD] = { "add", 1, 2, NONE },
		[HM_ENGINE_XOR] = { "xor", 1, 2, NONE },
		[HM_ENGINE_SCALE] = { "scale", 1, NONE, 4 },
		[HM_ENGINE_AXPY] = { "axpy", 1, NONE, 4 },
		[HM_ENGINE_HISTOGRAM] = { "histogram", 1, NONE, NONE },
		[HM_ENGINE_CRC32] = { "crc32", 1, NONE, NONE },
		[HM_ENGINE_COMPARE] = { "compare", 1, 2, NONE },
	};
	const struct hm_engine_step step = {
		.op = op,
		.destination = 0,
		.source = ops[op].source,
		.source2 = ops[op].source2,
		.length = 3,
		.value = ops[op].value,
	};

	return kernel_of_steps(ops[op].name, "inout in in u64 u32", &step, 1);
}

struct hm_kernel *kernel_of_fill(void)
{
	static const struct hm_engine_step step = { HM_ENGINE_FILL, 0, NONE, NONE, 1, 2, 0 };

	return kernel_of_steps("fill", "out u64 u32", &step, 1);
}

int fill_launch(struct engine_rig *rig, struct hm_kernel *kernel, void *to, uint64_t length,
		uint32_t word, struct hm_fence **ret_fence)
{
	return hm_launch(rig->queue, kernel, 1, ret_fence, HM_RANGE(to, length, HM_WRITE),
			 HM_U64(length), HM_U32(word));
}

struct hm_fence_info engine_fill(struct engine_rig *rig, struct hm_kernel *kernel, void *to,
				 uint64_t length, uint32_t word)
{
	struct hm_fence *fence = NULL;

	CHECK_OK_FATAL(fill_launch(rig, kernel, to, length, word, &fence));
	return finish(fence);
}
