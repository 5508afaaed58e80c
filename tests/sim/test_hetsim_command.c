// SPDX-License-Identifier: MIT
/*
 * hetsim: the command's tour and jobs on sim:0, through one pointer, with and without OpenCL; and
 * the report of hetmap top on its buffers.
 */
#include <hetmap/hetmap.h>
#include <hetmap/sim.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uapi/hetsim.h>
#include <unistd.h>

#include "lib/command.h"
#include "lib/python_support.h"
#include "format/safetensors_support.h"
#include "format/tokens_support.h"

static bool is(const json_t *json, const char *key, const char *expected)
{
	const char *text = json_string_value(json_object_get(json, key));

	return text && !strcmp(text, expected);
}

static void check_tour(const struct command *command, const char *accel)
{
	json_t *json = command_verified(command), *step;
	const char *text;
	size_t i;

	CHECK(is(json, "device", "sim:0"));
	CHECK(is(json, "accel", accel));
	CHECK_EQUAL(json_integer_value(json_object_get(json, "absent")), 2);
	CHECK_EQUAL(json_integer_value(json_object_get(json, "done")), 12);
	json_array_foreach(json_object_get(json, "steps"), i, step)
	{
		bool absent = is(step, "step", "lock") || is(step, "step", "prefetch");

		text = json_string_value(json_object_get(step, "text"));
		CHECK_FATAL(text != NULL);
		CHECK(is(step, "state", absent ? "absent" : "done"));
		/* With the reason. */
		CHECK(!absent || strlen(text) > strlen("not on this device: "));
		CHECK(!is(step, "step", "launch") || strstr(text, "direct, 0 bytes copied"));
	}
	json_decref(json);
}

/* A device's own engine comes before other accelerators. */
static void tour(void)
{
	const struct command own = { .args = { "tour", "--device", "sim:0", "--size", "4M",
					       "--json" } };
	const struct command on_cpu = { .args = { "tour", "--device", "sim:0", "--accel", "cpu",
						  "--size", "1M", "--json" } };

	check_tour(&own, "sim:0");
	check_tour(&on_cpu, "cpu");
}

/* Left to itself it takes the first device with memory of its own, which soft is not here. */
static void best(void)
{
	/* An accelerator that compiles nothing: emulated that takes half a minute. */
	const struct command tour = { .args = { "tour", "--accel", "cpu", "--size", "1M",
						"--json" } };
	struct hm_device_info info = { .struct_size = sizeof(info) };
	AUTO(json_t) *json = NULL;
	uint32_t n;

	CHECK_OK_FATAL(hm_device_list(&info, 1, &n));
	CHECK(strcmp(info.backend, "soft") != 0);
	json = command_verified(&tour);
	CHECK(is(json, "device", info.name));
}

static void jobs(void)
{
	const struct command histogram = { .args = { "run", "histogram", "--device", "sim:0",
						     "--accel", "sim:0", "--rounds", "1",
						     "--json" } };
	const struct command saxpy = { .args = { "run", "saxpy", "--device", "sim:0", "--accel",
						 "cpu", "--size", "1M", "--rounds", "1",
						 "--json" } };
	json_t *json = command_verified(&histogram);

	CHECK(is(json, "way_in", "direct"));
	CHECK(is(json, "device", "sim:0"));
	CHECK(is(json, "accel", "sim:0"));
	json_decref(json);
	json = command_verified(&saxpy);
	CHECK(is(json, "device", "sim:0"));
	CHECK_EQUAL(json_integer_value(json_object_get(json, "bytes_copied")), 0);
	json_decref(json);
}

/* Two layers: x and w come once, y goes. The extension is there in each build of a checkout. */
static const char small_graph[] =
	"{\"format\":\"hetmap-graph\",\"version\":1,\"name\":\"small\",\"tensors\":["
	"{\"name\":\"x\",\"kind\":\"input\",\"bytes\":300032},"
	"{\"name\":\"w\",\"kind\":\"weight\",\"bytes\":256},"
	"{\"name\":\"a\",\"kind\":\"temporary\",\"bytes\":300032},"
	"{\"name\":\"y\",\"kind\":\"output\",\"bytes\":64}],\"nodes\":["
	"{\"name\":\"one\",\"reads\":[0,1],\"writes\":[2]},"
	"{\"name\":\"two\",\"reads\":[2,1],\"writes\":[3]}]}";

static void graph(void)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "small.json");
	const struct command command = { .args = { "run", "graph", "--accel", "sim:0", "--json",
						   path } };
	json_t *json, *plan;

	file_write(folder, "small.json", small_graph, strlen(small_graph));
	json = command_verified(&command);
	plan = json_object_get(json_object_get(json, "policies"), "plan");
	CHECK(is(json, "accel", "sim:0"));
	CHECK_EQUAL(integer_of(plan, "bytes_in"), 300032 + 256);
	CHECK_EQUAL(integer_of(plan, "bytes_out"), 64);
	json_decref(json);
}

/* Left to itself the job takes OpenCL, which has the device's memory as it is mapped. */
static void opencl(void)
{
	const struct command saxpy = { .args = { "run", "saxpy", "--device", "sim:0", "--size",
						 "1M", "--rounds", "1", "--json" } };
	const char *accel;
	AUTO(json_t) *json = NULL;

	if (!have_opencl())
		return;
	json = command_verified(&saxpy);
	CHECK(is(json, "device", "sim:0"));
	accel = string_of(json, "accel");
	CHECK(!strncmp(accel, "opencl:", strlen("opencl:")));
	CHECK_EQUAL(integer_of(json, "bytes_copied"), 0);
}

/* The device is taken away in the middle of a job, which finishes, and reports it. */
static void unplugged(void)
{
	const struct command saxpy = { .args = { "run", "saxpy", "--device", "sim:0", "--accel",
						 "cpu", "--size", "1M", "--unplug-at", "50%",
						 "--json" } };
	json_t *json = command_verified(&saxpy), *told = json_object_get(json, "unplugged");

	CHECK(is(json, "device", "sim:0"));
	CHECK_EQUAL(json_integer_value(json_object_get(told, "buffers_back")), 2);
	CHECK_EQUAL(json_integer_value(json_object_get(told, "bytes_shadow")), 1 << 20);
	CHECK_EQUAL(json_integer_value(json_object_get(told, "bytes_refilled")), 1 << 20);
	json_decref(json);
}

/* By the accelerator that there is: OpenCL, else threads. */
static void unplugged_default(void)
{
	const struct command saxpy = { .args = { "run", "saxpy", "--device", "sim:0", "--size",
						 "1M", "--unplug-at", "50%", "--json" } };
	json_t *json = command_verified(&saxpy), *told = json_object_get(json, "unplugged");

	CHECK(is(json, "device", "sim:0"));
	CHECK_EQUAL(json_integer_value(json_object_get(told, "buffers_back")), 2);
	json_decref(json);
}

/* The other devices of the machine: a file goes there by the one copy that it needs. */
static void file_on_device(const char *device, const char *path, uint64_t length)
{
	const struct command histogram = { .args = { "run", "histogram", path, "--device",
						     device, "--accel", "cpu", "--rounds", "1",
						     "--json" } };
	AUTO(json_t) *json = command_verified(&histogram);

	CHECK_EQUAL(json_integer_value(json_object_get(json, "bytes")), length);
	CHECK_EQUAL(json_integer_value(json_object_get(json, "bytes_copied")), length);
}

#define FILE_TEXT "one byte after the other"
#define FILE_ROUNDS 5000
#define FILE_BYTES "125,000" /* with the zeros at the ends of texts */

/* @path: a pattern of mkstemp(). */
static void file_make(char *path)
{
	int fd = mkstemp(path), i;

	CHECK_FATAL(fd >= 0);
	for (i = 0; i < FILE_ROUNDS; i++)
		CHECK_EQUAL(write(fd, FILE_TEXT, sizeof(FILE_TEXT)), sizeof(FILE_TEXT));
	close(fd);
}

static void loaded_on_devices(void)
{
	static const char *const devices[] = { "drm:virtio_gpu", "heap:system", "udmabuf" };
	char path[] = "/tmp/histogram.XXXXXX";
	struct hm_device *device;
	size_t i;

	file_make(path);
	for (i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		/* 6.1 has neither heaps nor an udmabuf that takes sealed memory. */
		if (hm_device_open(devices[i], &device)) {
			CHECK(i);
			continue;
		}
		hm_device_unref(device);
		file_on_device(devices[i], path, FILE_ROUNDS * sizeof(FILE_TEXT));
	}
	unlink(path);
}

/* Left to itself it takes OpenCL where there is some, and tells people of the one copy. */
static void loaded_by_default(void)
{
	char path[] = "/tmp/histogram.XXXXXX";
	const struct command histogram = { .args = { "run", "histogram", path, "--device",
						     "heap:system", "--rounds", "1" } };
	struct hm_device *device;
	AUTO(outcome) outcome = { 0 };

	if (hm_device_open("heap:system", &device))
		return; /* 6.1 has none */
	hm_device_unref(device);
	file_make(path);
	CHECK_RUN(0, &outcome, &histogram);
	CHECK(strstr(outcome.out,
		     "  bytes copied " FILE_BYTES
		     " to load them into device heap:system, 0 by the launches\n"));
	CHECK(strstr(outcome.out, "  verified "));
	unlink(path);
}

/* The part of a list that begins as @name and has @is in it, any blanks as one; or "". */
static void part_of(const char *list, const char *name, const char *is, char *part, size_t size)
{
	const char *line = list;
	size_t n;

	for (; line; line = strstr(line + 1, "\n  ")) {
		if (strncmp(line, "\n  ", 3) != 0 || strncmp(line + 3, name, strlen(name)) != 0)
			continue;
		for (n = 0, list = line + 3; *list && n < size - 1; list++) {
			if (*list == '\n' && strncmp(list, "\n   ", 4) != 0)
				break; /* the next part, or heading */
			if (!strchr(" \n", *list))
				part[n++] = *list;
			else if (n && part[n - 1] != ' ')
				part[n++] = ' ';
		}
		part[n] = 0;
		if (strstr(part, is))
			return;
	}
	part[0] = 0;
}

/* Each driver's devices, with the abilities that docs/support.md gives them. */
static void devices_listed(void)
{
	static const struct {
		const char *name, *is, *can;
	} devices[] = {
		{ "drm:/dev/dri/renderD", "DRM driver virtio_gpu, render node",
		  "can new buffers, import, export, write, resize, grow by a further object, "
		  "grow by a larger object, protect, several maps of a buffer, contiguous, "
		  "brackets, resize by new objects, export as dma-buf" },
		{ "sim:0", "simulated GPU",
		  "can new buffers, import, export, write, resize, grow by a further object, "
		  "grow by a larger object, protect, several maps of a buffer, contiguous, "
		  "export as dma-buf, export read-only, choice of place" },
		{ "sim:0", "engine of a simulated GPU, in the kernel",
		  "runs kernels in: engine ways in direct, copy" },
		{ "/dev/dri/renderD", "is vgem",
		  "this driver makes buffers on its card node only" },
		{ "/dev/dri/card", "is vgem, platform, card node",
		  "can new buffers, import, export" },
		{ "/dev/dri/card", "is virtio_gpu, pci", "can new buffers, import, export" },
		{ "/dev/dri/card", "is bochs-drm, pci", "card node" },
	};
	char part[2048];
	AUTO(outcome) outcome = { 0 };
	size_t i;

	CHECK_RUN(0, &outcome, &(struct command){ .args = { "devices" } });
	for (i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		part_of(outcome.out, devices[i].name, devices[i].is, part, sizeof(part));
		if (!strstr(part, devices[i].can))
			test_fail(__FILE__, __LINE__, "%s, %s: '%s'", devices[i].name,
				  devices[i].is, part);
	}
}

/* Batches of tokens into its memory, which grows and shrinks at one address. */
static void batches(void)
{
	AUTO_TEXT *folder = folder_make(), *path = tokens_file(folder, "a", 0, 20000);
	const struct command command = { .args = { "run", "tokens", "--device", "sim:0",
						   "--json", "--ramp", "--block", "256",
						   "--batch", "16", "--batches", "14", path } };
	AUTO(json_t) *json = command_verified(&command);

	CHECK(is(json, "device", "sim:0"));
	CHECK(is(json, "way", "mapped"));
	CHECK_EQUAL(integer_of(json_object_get(json, "buffer"), "resizes"), 6);
}

/* A model into its memory, layer by layer, checked there by its own engine. */
static void model(void)
{
	static const char header[] = "{\"embed\":{\"dtype\":\"BF16\",\"shape\":[600000],"
				     "\"data_offsets\":[0,1200000]},"
				     "\"layers.0.weight\":{\"dtype\":\"U8\",\"shape\":[70001],"
				     "\"data_offsets\":[1200000,1270001]}}";
	AUTO_TEXT *folder = folder_make();
	const struct command command = {
		.args = { "run", "load", "--json", "--device", "sim:0", "--accel", "sim:0",
			  "--window", "256K", tensors_file(folder, "model", header, 1270001) }
	};
	AUTO(json_t) *json = command_verified(&command);

	CHECK(is(json, "device", "sim:0"));
	CHECK(is(json, "way_in", "direct"));
	CHECK(is(json, "checksum", "crc32"));
	CHECK_EQUAL(integer_of(json, "layers"), 2);
	CHECK_EQUAL(integer_of(json, "bytes"), 1270001);
}

/* Numbers that numpy wrote, byte-swapped: 0, 1 and so on, of which 5000 are fed. */
static void numpy(void)
{
	static const char program[] =
		"import sys, numpy as n\n"
		"n.save(sys.argv[1] + '/a.npy', n.arange(6000).reshape(60, 100).astype('>i4'))\n";
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "a.npy");
	const struct command command = {
		.args = { "run", "tokens", "--device", "sim:0", "--json", "--order", "in-order",
			  "--block", "100", "--batch", "10", "--batches", "5", path }
	};
	json_t *json;

	if (numpy_wrote(program, folder)) {
		json = command_verified(&command);
		CHECK(is(json, "device", "sim:0"));
		CHECK(is(json, "dtype", "I32"));
		CHECK_EQUAL(integer_of(json, "tokens"), 6000);
		CHECK_EQUAL(integer_of(json, "tokens_fed"), 5000);
		CHECK_EQUAL(integer_of(json, "sum"), 4999 * 5000 / 2);
		json_decref(json);
	}
}

/* A model that the safetensors package wrote. */
static void safetensors(void)
{
	static const char program[] =
		"import ctypes, sys\n"
		"from safetensors import TensorSpec, serialize_file\n"
		"kept = []\n"
		"def spec(dtype, shape, size):\n"
		"  kept.append(ctypes.create_string_buffer(bytes(range(251)) * (size // 251 + 1)))\n"
		"  return TensorSpec(dtype=dtype, shape=shape, data_len=size,\n"
		"                    data_ptr=ctypes.addressof(kept[-1]))\n"
		"serialize_file({'embed': spec('bfloat16', [500, 60], 60000),\n"
		"  'layers.0.weight': spec('float32', [30, 40], 4800),\n"
		"  'layers.1.weight': spec('uint8', [70001], 70001)},\n"
		"  sys.argv[1] + '/model.safetensors', {'format': 'pt'})\n";
	AUTO_TEXT *folder = folder_make();
	const struct command command = { .args = { "run", "load", "--json", "--device", "sim:0",
						   "--accel", "sim:0", "--window", "16K",
						   folder } };
	json_t *json;

	if (safetensors_wrote(program, folder)) {
		json = command_verified(&command);
		CHECK(is(json, "device", "sim:0"));
		CHECK(is(json, "checksum", "crc32"));
		CHECK_EQUAL(integer_of(json, "tensors"), 3);
		CHECK_EQUAL(integer_of(json, "bytes"), 134801);
		json_decref(json);
	}
}

/* ---- hetmap top: evictions of each buffer ---- */

#define EVICTED_BYTES (UINT64_C(4) << 20)

struct pressure {
	struct hm_device *device;
	uint32_t handle;
	_Atomic bool over;
	uint64_t evictions;
};

/* Out of VRAM as if another opener needed the room, and in again. */
static void *press(void *user)
{
	struct pressure *pressure = user;
	struct hetsim_inject out = { .size = sizeof(out),
				     .kind = HETSIM_INJECT_EVICTION,
				     .target = pressure->handle,
				     .value = EVICTED_BYTES };
	struct hetsim_buffer_move in = { .size = sizeof(in),
					 .handle = pressure->handle,
					 .place = HETSIM_PLACE_VRAM,
					 .length = EVICTED_BYTES };

	while (!pressure->over) {
		CHECK_OK(hm_sim_call(pressure->device, HETSIM_INJECT, &out));
		CHECK_OK(hm_sim_call(pressure->device, HETSIM_BUFFER_MOVE, &in));
		pressure->evictions++;
	}
	return NULL;
}

static double evictions_of(const json_t *object)
{
	const json_t *rate = json_object_get(object, "evictions_per_second");

	CHECK(json_is_number(rate));
	return json_number_value(rate);
}

static void check_evictions(void)
{
	char pid[16];
	const struct command top = { .args = { "top", "--once", "--json", "-p", pid } };
	json_t *json, *process, *buffer;
	double rate, all;
	size_t i;

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	json = command_json(&top, 0);
	process = json_array_get(json_object_get(json, "processes"), 0);
	all = evictions_of(process);
	CHECK_EQUAL(json_array_size(json_object_get(process, "buffers")), 2);
	json_array_foreach(json_object_get(process, "buffers"), i, buffer)
	{
		rate = evictions_of(buffer);
		if (is(buffer, "name", "goes"))
			CHECK(rate > 0 && rate <= all);
		else
			CHECK(rate == 0);
	}
	json_decref(json);
}

static void evictions(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = EVICTED_BYTES };
	static const char *const names[] = { "stays", "goes" };
	struct pressure pressure = { 0 };
	struct hm_buffer *buffers[2];
	struct hm_map *maps[2];
	pthread_t thread;
	size_t i;

	CHECK_OK_FATAL(hm_device_open("sim:0", &pressure.device));
	for (i = 0; i < 2; i++) {
		desc.name = names[i];
		CHECK_OK_FATAL(hm_buffer_create(pressure.device, &desc, &buffers[i]));
		CHECK_OK_FATAL(hm_map_create(buffers[i], NULL, &maps[i]));
	}
	CHECK_OK_FATAL(hm_sim_buffer(buffers[1], &pressure.handle));
	CHECK_FATAL(!pthread_create(&thread, NULL, press, &pressure));
	check_evictions();
	pressure.over = true;
	CHECK_FATAL(!pthread_join(thread, NULL));
	CHECK(pressure.evictions > 0);
	for (i = 0; i < 2; i++) {
		hm_map_unref(maps[i]);
		hm_buffer_unref(buffers[i]);
	}
	hm_device_unref(pressure.device);
}

static const struct test tests[] = {
	{ "tour", tour, 30, TEST_ONCE },
	{ "best", best, 30, TEST_ONCE },
	{ "jobs", jobs, 30, TEST_ONCE },
	{ "graph", graph, 60, TEST_ONCE },
	{ "opencl", opencl, 60, TEST_ONCE },
	{ "batches", batches, 30, TEST_ONCE },
	{ "model", model, 60, TEST_ONCE },
	{ "numpy", numpy, 60, TEST_ONCE },
	{ "safetensors", safetensors, 60, TEST_ONCE },
	{ "unplugged", unplugged, 30, TEST_ONCE },
	{ "unplugged_default", unplugged_default, 60, TEST_ONCE },
	{ "loaded_on_devices", loaded_on_devices, 30, TEST_ONCE },
	{ "loaded_by_default", loaded_by_default, 60, TEST_ONCE },
	{ "evictions", evictions, 60, TEST_ONCE },
	{ "devices_listed", devices_listed, 30, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "hetsim_command", tests)
