// SPDX-License-Identifier: MIT
/*
 * The same bytes at two addresses: two maps of one buffer, an import of what it exports, two
 * buffers of one file. A refused overlap is refused there, too, on any accelerator.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "accel/engine_support.h"
#include "base/util.h"
#include "lib/units.h"

#define N (PAGE / sizeof(float))
#define PAGES 8

/* Bytes of one object, from two of its pages on. */
struct twice {
	float *a, *b;
	uint64_t b_page; /* page of the object that b begins at */
	struct hm_buffer *buffer[2];
	struct hm_map *map[2];
};

static float *map_at(struct hm_buffer *buffer, uint64_t page, struct hm_map **ret_map)
{
	CHECK_OK_FATAL(hm_map_create(buffer,
				     DESC(hm_map_desc, .access = HM_READ | HM_WRITE,
					  .offset = page * PAGE,
					  .length = page ? (PAGES - page) * PAGE : 0),
				     ret_map));
	return hm_map_address(*ret_map);
}

static void make(struct hm_device *device, struct hm_buffer **ret_buffer)
{
	CHECK_OK_FATAL(hm_buffer_create(device, DESC(hm_buffer_desc, .size = PAGES * PAGE),
					ret_buffer));
}

static void two_maps(struct hm_device *device, struct twice *twice)
{
	make(device, &twice->buffer[0]);
	twice->buffer[1] = hm_buffer_ref(twice->buffer[0]);
	twice->a = map_at(twice->buffer[0], 0, &twice->map[0]);
	twice->b = map_at(twice->buffer[1], 0, &twice->map[1]);
}

static void map_of_a_part(struct hm_device *device, struct twice *twice)
{
	make(device, &twice->buffer[0]);
	twice->buffer[1] = hm_buffer_ref(twice->buffer[0]);
	twice->b_page = 2;
	twice->a = map_at(twice->buffer[0], 0, &twice->map[0]);
	twice->b = map_at(twice->buffer[1], 2, &twice->map[1]);
}

static void export_and_import(struct hm_device *device, struct twice *twice)
{
	int fd;

	make(device, &twice->buffer[0]);
	CHECK_OK_FATAL(hm_buffer_export(twice->buffer[0], 0, &fd));
	CHECK_OK_FATAL(hm_buffer_import(device, fd, NULL, &twice->buffer[1]));
	close(fd);
	twice->a = map_at(twice->buffer[0], 0, &twice->map[0]);
	twice->b = map_at(twice->buffer[1], 0, &twice->map[1]);
}

/* The buffer of both imports is gone. */
static void two_imports(struct hm_device *device, struct twice *twice)
{
	struct hm_buffer *buffer;
	uint32_t i;
	int fd;

	make(device, &buffer);
	CHECK_OK_FATAL(hm_buffer_export(buffer, 0, &fd));
	for (i = 0; i < 2; i++)
		CHECK_OK_FATAL(hm_buffer_import(device, fd, NULL, &twice->buffer[i]));
	close(fd);
	hm_buffer_unref(buffer);
	twice->a = map_at(twice->buffer[0], 0, &twice->map[0]);
	twice->b = map_at(twice->buffer[1], 0, &twice->map[1]);
}

static void one_file(struct hm_device *device, struct twice *twice)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = PAGES * PAGE };
	struct hm_device *file;
	int fd = scratch_file(PAGES * PAGE);

	(void)device;
	CHECK_OK_FATAL(hm_device_open("file", &file));
	CHECK_OK_FATAL(hm_buffer_from_file(file, NULL, fd, &desc, &twice->buffer[0]));
	twice->b_page = 1;
	desc.offset = PAGE;
	desc.size -= PAGE;
	CHECK_OK_FATAL(hm_buffer_from_file(file, NULL, fd, &desc, &twice->buffer[1]));
	hm_device_unref(file);
	close(fd);
	twice->a = map_at(twice->buffer[0], 0, &twice->map[0]);
	twice->b = map_at(twice->buffer[1], 0, &twice->map[1]);
}

static void end(struct twice *twice)
{
	uint32_t i;

	for (i = 0; i < 2; i++) {
		hm_map_unref(twice->map[i]);
		hm_buffer_unref(twice->buffer[i]);
	}
}

static void check_copies(struct accel_rig *rig, const struct twice *twice)
{
	float *last = twice->b + N * (PAGES - 1 - twice->b_page);
	struct hm_fence *fence = NULL;

	/* Its first page is this one of a's. */
	CHECK_ERROR(-EINVAL, hm_queue_copy(rig->queue, twice->b, twice->a + N * twice->b_page,
					   PAGE, &fence));
	CHECK(text_has("overlap") && text_has("two maps"));
	CHECK_ERROR(-EINVAL, hm_queue_copy(rig->queue, twice->a + N * (PAGES - 1) - 16, last,
					   PAGE, &fence));
	CHECK(!fence);
	/* Beside each other. */
	twice->a[0] = 7;
	last[0] = 1;
	CHECK_OK_FATAL(hm_queue_copy(rig->queue, last, twice->a, PAGE, &fence));
	finish(fence);
	CHECK(twice->a[N * (PAGES - 1)] == 7);
}

static void check_launches(struct accel_rig *rig, const struct twice *twice, bool copies)
{
	float *a = twice->a + N * twice->b_page, *b = twice->b;
	struct hm_fence *fence = NULL;

	a[0] = 1;
#define SAXPY_OF(from, to) \
	hm_launch(rig->queue, rig->kernel[SAXPY], N, &fence, HM_F32(2), from, to)
#define IN_OUT(p) HM_RANGE(p, PAGE, HM_READ | HM_WRITE)
	if (copies) {
		CHECK_ERROR(-EINVAL, SAXPY_OF(HM_RANGE(a, PAGE, HM_READ), IN_OUT(b)));
		CHECK(text_has("argument 2") && text_has("argument 1") && text_has("two maps"));
		/* The whole of one, and a part of the other. */
		CHECK_ERROR(-EINVAL, SAXPY_OF(HM_IN(twice->a), IN_OUT(b + N)));
		CHECK(!fence);
	} else {
		CHECK_OK_FATAL(SAXPY_OF(HM_RANGE(a, PAGE, HM_READ), IN_OUT(b)));
		finish(fence);
		CHECK(a[0] == 3);
		CHECK_OK_FATAL(SAXPY_OF(HM_IN(twice->a), IN_OUT(b + N)));
		finish(fence);
	}
	/* Beside each other. */
	a[0] = 1;
	b[N] = 1;
	RUN(rig, SAXPY, N, HM_F32(2), HM_RANGE(a, PAGE, HM_READ),
	    HM_RANGE(b + N, PAGE, HM_READ | HM_WRITE));
	CHECK(a[N] == 3);
}

static void check_guarded(const struct twice *twice)
{
	float *a = twice->a + N * twice->b_page, *b = twice->b, *last = a + N;

	CHECK_ERROR(-EINVAL, hm_copy_in(b, a, PAGE, NULL));
	CHECK(text_has("overlap") && text_has("two maps"));
	CHECK_ERROR(-EINVAL, hm_copy_out(a + 4, b, PAGE, NULL));
	CHECK_ERROR(-EINVAL, hm_copy_in(a + 4, a, PAGE, NULL));
	CHECK(text_has("overlap") && !strstr(hm_errmsg(), "two maps"));
	/* Beside each other. */
	a[0] = 5;
	CHECK_OK(hm_copy_in(b + N, a, PAGE, NULL));
	CHECK(last[0] == 5);
	a[0] = 6;
	CHECK_OK(hm_copy_out(last, b, PAGE, NULL));
	CHECK(last[0] == 6);
}

static void (*const ways[])(struct hm_device *device, struct twice *twice) = {
	two_maps, map_of_a_part, export_and_import, two_imports, one_file,
};

/* The copy fails with an error in place of a signal. */
static void guarded(void)
{
	static const char *const names[] = { "host", "soft:0" };
	struct twice twice;
	size_t i, k;
	AUTO(rig_handler) handler = rig_handler(0);

	for (k = 0; k < ARRAY_SIZE(names); k++) {
		AUTO(hm_device) *device = rig_device(names[k]);

		for (i = 0; i < ARRAY_SIZE(ways); i++) {
			memset(&twice, 0, sizeof(twice));
			ways[i](device, &twice);
			check_guarded(&twice);
			end(&twice);
		}
	}
}

static void on(const char *accel, uint32_t flags, const char *device_name, bool copies)
{
	struct twice twice;
	size_t i;
	AUTO(hm_device) *device = rig_device(device_name);
	AUTO(accel_rig) rig = accel_rig_make(accel, flags, 0);

	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		memset(&twice, 0, sizeof(twice));
		ways[i](device, &twice);
		check_copies(&rig, &twice);
		if (strncmp(accel, "soft", 4))
			check_launches(&rig, &twice, copies);
		end(&twice);
	}
}

static void cpu(void)
{
	on("cpu", 0, "host", false);
}

static void opencl_that_copies(void)
{
	use_stub("");
	on("opencl:0", HM_ACCEL_FORCE_COPY, "host", true);
}

static void opencl_in_place(void)
{
	use_stub("");
	on("opencl:0", 0, "host", false);
}

static void engine(void)
{
	on("soft:0", 0, "soft:0", false);
}

static void engine_that_copies(void)
{
	on("soft:0", HM_ACCEL_FORCE_COPY, "soft:0", true);
}

static void engine_over_host(void)
{
	on("soft:0", 0, "host", true);
}

/* The step of an engine that moves bytes has its own rule: not even in place. */
static void step_of_an_engine(void)
{
	AUTO(hm_kernel) *copy = kernel_of_op(HM_ENGINE_COPY);
	const uint32_t flags[] = { 0, HM_ACCEL_FORCE_COPY };
	struct twice twice;
	struct accel_rig rig;
	size_t i;
	AUTO(hm_device) *device = rig_device("soft:0");

	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		accel_rig_open(&rig, "soft:0", flags[i], 0);
		two_maps(device, &twice);
		CHECK_ERROR(-EINVAL, hm_launch(rig.queue, copy, 1, NULL, HM_INOUT(twice.a),
					       HM_IN(twice.b), HM_RANGE(twice.b, 64, HM_READ),
					       HM_U64(PAGE), HM_U32(0)));
		CHECK(text_has("overlap"));
		end(&twice);
		accel_rig_close(&rig);
	}
}

static const struct test tests[] = {
	{ "cpu", cpu, 0, 0 },
	{ "opencl_that_copies", opencl_that_copies, 0, 0 },
	{ "opencl_in_place", opencl_in_place, 0, 0 },
	{ "engine", engine, 0, 0 },
	{ "engine_that_copies", engine_that_copies, 0, 0 },
	{ "engine_over_host", engine_over_host, 0, 0 },
	{ "guarded", guarded, 0, 0 },
	{ "step_of_an_engine", step_of_an_engine, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "overlap", tests)
