// SPDX-License-Identifier: MIT
/*
 * page_data SCENE: prints a page of "hetmap report --html" for tests/perf/test_page.sh to open in a
 * browser. That test knows what each scene holds.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../tools/perf/report/page.h"
#include "scene.h"

/* ---- no faults at all ---- */

static int empty(void)
{
	struct scene scene;

	scene_begin(&scene, "true", 0.001);
	return scene_end(&scene, 0);
}

/* ---- few faults, each of which the test knows ---- */

static void put(struct scene *scene, uint32_t us, uint16_t buffer, uint32_t page,
		uint16_t thread, uint8_t kind, uint32_t n)
{
	while (n--)
		scene_event(scene,
			    (struct scene_event){ .time_us = us,
						  .page = page,
						  .cost_ns = kind & PAGE_MAJOR ? 80000 : 500,
						  .buffer = buffer,
						  .thread = thread,
						  .cpu = (uint8_t)thread,
						  .kind = kind });
}

/* One cell of the first buffer has 12 faults: halfway through the time, page 8 of 16. */
static void known_events(struct scene *scene)
{
	uint16_t first, second, boss, helper;

	boss = scene_thread(scene, "boss");
	helper = scene_thread(scene, "helper");
	first = scene_buffer(scene, "weights.bin", "file", "", 16, "random", 0);
	second = scene_buffer(scene, "scratch", "anon", "", 4, "few", 0);
	put(scene, 500000, first, 8, helper, PAGE_ACCESS_KNOWN, 4);
	put(scene, 500000, first, 8, helper, PAGE_ACCESS_KNOWN | PAGE_WRITE, 2);
	put(scene, 500000, first, 8, boss, PAGE_KERNEL, 2);
	put(scene, 500000, first, 8, helper, PAGE_ACCESS_KNOWN | PAGE_MAJOR, 4);
	put(scene, 100000, first, 1, helper, 0, 10);
	put(scene, 900000, second, 3, boss, PAGE_DEVICE, 3);
	/* In no buffer that is known. */
	put(scene, 950000, UINT16_MAX, 7, boss, 0, 1);
	scene_site(scene, first, "load", "load.c", 42, 16, 16000);
	scene_advice(scene, first, "weights.bin: read it ahead.",
		     "16 faults, one after another.", 5000000);
	scene_device_site(scene, first, "eviction", "system", 3, 12288, "code", "make_room");
	scene_device_site(scene, second, "fault", NULL, 7, 0, "engine", "");
	scene_lane(scene, "soft:0 queue 1",
		   json_pack("[[I, I, s]]", (json_int_t)400000000, (json_int_t)600000000,
			     "saxpy"));
}

static int known(void)
{
	struct scene scene;

	scene_begin(&scene, "./infer --steps 3", 1);
	known_events(&scene);
	return scene_end(&scene, 0);
}

/* The recording has neither the faults' durations nor which of them read storage. */
static int untimed(void)
{
	uint16_t buffer, boss;
	struct scene scene;

	scene_begin(&scene, "./infer", 1);
	scene.untimed = true;
	json_object_set_new(scene.report, "advice_unknown", json_string("It is not known."));
	boss = scene_thread(&scene, "boss");
	scene_thread(&scene, "helper");
	buffer = scene_buffer(&scene, "weights.bin", "file", "", 16, "random", 0);
	put(&scene, 500000, buffer, 8, boss, 0, 12);
	return scene_end(&scene, 0);
}

/* The same as one in ten of a longer trace. */
static int sample(void)
{
	struct scene scene;

	scene_begin(&scene, "./infer --steps 3", 1);
	known_events(&scene);
	return scene_end(&scene, 260);
}

/* Another buffer than the one with the most faults has something to gain. */
static int advised(void)
{
	uint16_t heap, weights, boss;
	struct scene scene;

	scene_begin(&scene, "./infer", 1);
	boss = scene_thread(&scene, "boss");
	heap = scene_buffer(&scene, "[heap]", "heap", "", 16, "few", 0);
	weights = scene_buffer(&scene, "weights.bin", "file", "", 16, "sequential", 0);
	put(&scene, 500000, heap, 8, boss, 0, 500);
	put(&scene, 500000, weights, 8, boss, PAGE_MAJOR, 7);
	scene_advice(&scene, weights, "weights.bin: read it ahead.", "7 faults.", 5000000);
	return scene_end(&scene, 0);
}

/* Events, the last of which are missing. */
static int torn(void)
{
	struct scene scene;

	scene_begin(&scene, "./infer", 1);
	json_object_set_new(scene.report, "events",
			    json_pack("{s:i, s:i, s:i, s:s}", "n", 2, "of", 2, "time_unit_us",
				      1, "packed", "AAAAAA=="));
	json_object_set_new(scene.report, "totals", json_object());
	if (page_write(stdout, scene.report))
		return -1;
	json_decref(scene.report);
	return 0;
}

/* ---- names that would be something else ---- */

static int hostile(void)
{
	static const char script[] =
		"</script><script>document.documentElement.dataset.owned = 1</script>";
	static const char image[] =
		"<img src=x onerror='document.documentElement.dataset.owned=2'>";
	static const char marks[] = "\"'`${1}\\ &lt; \x01\x7f \xe2\x80\xae"
				    "txt.exe <!-- @SCRIPT@";
	struct scene scene;
	uint16_t buffer, thread;

	scene_begin(&scene, script, 1);
	thread = scene_thread(&scene, image);
	buffer = scene_buffer(&scene, script, "file", image, 16, "few", 0);
	put(&scene, 10, buffer, 3, thread, 0, 5);
	buffer = scene_buffer(&scene, image, "file", marks, 16, "few", 0);
	put(&scene, 20, buffer, 3, thread, 0, 5);
	buffer = scene_buffer(&scene, marks, "file", script, 16, "few", 0);
	put(&scene, 30, buffer, 3, thread, PAGE_MAJOR, 5);
	scene_site(&scene, buffer, image, script, 1, 5, 5);
	scene_advice(&scene, buffer, script, image, 1);
	scene_missing(&scene, script);
	scene_lane(&scene, image,
		   json_pack("[[I, I, s]]", (json_int_t)0, (json_int_t)900000000, script));
	return scene_end(&scene, 0);
}

/* ---- 10,000 buffers, one with a name of 200 characters, and 3,000 threads ---- */

static int many(void)
{
	struct scene scene;
	char name[201];
	uint32_t i;

	scene_begin(&scene, "./many", 2);
	for (i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "worker-%u", i);
		scene_thread(&scene, name);
	}
	memset(name, 'n', 200);
	name[200] = '\0';
	scene_buffer(&scene, name, "file", "", 4096, "sequential", 0);
	for (i = 1; i < 10000; i++) {
		snprintf(name, sizeof(name), "batch/%04u.npy", i);
		scene_buffer(&scene, name, "file", "", 256, "few", 0);
	}
	for (i = 0; i < 4096; i++)
		put(&scene, i * 450, 0, i, 0, i % 32 ? 0 : PAGE_MAJOR, 1);
	for (i = 0; i < 30000; i++)
		put(&scene, scene_random(&scene, 2000000),
		    (uint16_t)(1 + scene_random(&scene, 9999)), scene_random(&scene, 256),
		    (uint16_t)scene_random(&scene, 3000), 0, 1);
	return scene_end(&scene, 0);
}

/* ---- a million faults of a program that loads weights and computes ---- */

#define MILLION 1000000u

/* Uneven as real ones: most near @least, few many times that. */
static uint32_t cost_of(struct scene *scene, uint32_t least)
{
	uint32_t cost = least + scene_random(scene, least / 2);

	while (!scene_random(scene, 5) && cost < 60 * least)
		cost += cost / 2 + scene_random(scene, least);
	return cost;
}

static void fault(struct scene *scene, double seconds, uint16_t buffer, uint32_t page,
		  uint16_t thread, uint8_t kind)
{
	uint32_t least = kind & PAGE_MAJOR ? 90000 : kind & PAGE_DEVICE ? 2600 : 540;

	scene_event(scene, (struct scene_event){
				   .time_us = (uint32_t)(seconds * 1e6),
				   .page = page,
				   .cost_ns = cost_of(scene, least),
				   .buffer = buffer,
				   .thread = thread,
				   .cpu = (uint8_t)((thread + (uint32_t)(seconds * 3)) % 4),
				   .kind = kind });
}

static double jitter(struct scene *scene, double most)
{
	return most * scene_random(scene, 1000) / 1000;
}

static void million_loads(struct scene *scene, uint16_t weights, uint16_t loader)
{
	const uint32_t pages = 262144;
	double at = 0.1;
	uint32_t i;

	for (i = 0; i < pages; i++) {
		bool major = i % 64 == 0;

		at += major ? 180e-6 : 4.4e-6;
		fault(scene, at, weights, i, loader,
		      PAGE_ACCESS_KNOWN | (major ? PAGE_MAJOR : 0));
	}
}

static void million_computes(struct scene *scene, uint16_t tokens, uint16_t cache,
			     uint16_t activations, uint16_t heap)
{
	uint32_t i, step;

	/* Four workers read at random, the hotter a place the nearer to the front. */
	for (i = 0; i < 300000; i++) {
		uint32_t page = scene_random(scene, 1048576);

		page = scene_random(scene, page + 1);
		fault(scene, 0.4 + 4.4 * i / 300000 + jitter(scene, 0.01), tokens, page,
		      (uint16_t)(2 + scene_random(scene, 4)),
		      PAGE_ACCESS_KNOWN | (scene_random(scene, 40) ? 0 : PAGE_MAJOR));
	}
	/* A step writes its results to every 16th page, and the device reads them. */
	for (step = 0; step < 12; step++)
		for (i = 0; i < 24576; i++)
			fault(scene, 2.2 + 0.22 * step + 0.16 * i / 24576, activations,
			      i * 16 % 65536 + i / 4096 + (step % 2 ? 8 : 0), 0,
			      i % 3 ? PAGE_ACCESS_KNOWN | PAGE_WRITE : PAGE_DEVICE);
	for (i = 0; i < 120000; i++)
		fault(scene, 2.2 + 2.6 * i / 120000 + jitter(scene, 0.05), cache, i, 0,
		      PAGE_ACCESS_KNOWN | PAGE_WRITE);
	while (scene->n < MILLION)
		fault(scene, jitter(scene, 1.0) * 4.9, heap, scene_random(scene, 4000),
		      (uint16_t)scene_random(scene, 6),
		      scene_random(scene, 3) ? PAGE_ACCESS_KNOWN | PAGE_WRITE : PAGE_KERNEL);
}

static json_t *million_spans(struct scene *scene, const char *label, double begin,
			     double length)
{
	json_t *spans = json_array();
	int step;

	for (step = 0; step < 12; step++) {
		double from = begin + 0.22 * step + jitter(scene, 0.008);

		json_array_append_new(spans,
				      json_pack("[I, I, s]", (json_int_t)(from * 1e9),
						(json_int_t)((from + length) * 1e9), label));
	}
	return spans;
}

static int million(void)
{
	static const char *const workers[] = { "gather-0", "gather-1", "gather-2", "gather-3" };
	uint16_t weights, tokens, activations, cache, heap;
	struct scene scene;
	size_t i;

	scene_begin(&scene, "./infer --weights weights.safetensors --tokens tokens.bin", 5);
	scene_thread(&scene, "infer");
	scene_thread(&scene, "loader");
	for (i = 0; i < 4; i++)
		scene_thread(&scene, workers[i]);
	weights = scene_buffer(&scene, "weights.safetensors", "file", "", 262144, "sequential",
			       0);
	tokens = scene_buffer(&scene, "tokens.bin", "file", "", 1048576, "random", 0);
	activations = scene_buffer(&scene, "activations", "hetmap", "soft:0", 65536, "strided",
				   65536);
	cache = scene_buffer(&scene, "kv-cache", "hetmap", "sim:0", 131072, "sequential", 0);
	heap = scene_buffer(&scene, "[heap]", "heap", "", 8192, "random", 0);
	million_loads(&scene, weights, 1);
	million_computes(&scene, tokens, cache, activations, heap);
	scene_site(&scene, weights, "tensor_load", "src/tensor.c", 118, 262144, 1044000000);
	scene_site(&scene, tokens, "gather_rows", "src/gather.c", 57, 300000, 1190000000);
	scene_site(&scene, activations, "gelu_forward", "src/layers.c", 203, 196608, 161000000);
	scene_site(&scene, activations, "soft:0 engine", "", 0, 98304, 391000000);
	scene_site(&scene, cache, "attention_append", "src/attention.c", 88, 120000, 98000000);
	scene_site(&scene, heap, "arena_grow", "src/arena.c", 31, 22944, 19000000);
	scene_advice(
		&scene, weights,
		"weights.safetensors: prefetch it before it is read, or map it with pages of "
		"2 MiB.",
		"262,144 read faults of 4 KiB, sequential, 4,096 of them major; one minor fault "
		"here costs 0.9 µs, one major fault 146 µs.",
		640000000);
	scene_advice(
		&scene, tokens, "tokens.bin: ask for what a batch needs before it is read.",
		"300,000 read faults at random in 4 GiB, 7,480 of them major, by 4 threads.",
		410000000);
	scene_missing(&scene, "madvise() and mremap() of the program were not seen: "
			      "kernel.perf_event_paranoid is 2, and tracepoints need -1.");
	scene_lane(&scene, "soft:0 queue 0",
		   million_spans(&scene, "layer_forward", 2.24, 0.17));
	scene_lane(&scene, "sim:0 queue 1", million_spans(&scene, "append", 2.35, 0.07));
	return scene_end(&scene, 0);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} scenes[] = { { "empty", empty },     { "known", known },     { "sample", sample },
		       { "untimed", untimed }, { "advised", advised }, { "torn", torn },
		       { "hostile", hostile }, { "many", many },       { "million", million } };
	size_t i;

	for (i = 0; argc == 2 && i < sizeof(scenes) / sizeof(scenes[0]); i++)
		if (!strcmp(argv[1], scenes[i].name))
			return scenes[i].run() ? EXIT_FAILURE : EXIT_SUCCESS;
	fprintf(stderr, "page_data: a scene of tests/perf/page/main.c is expected\n");
	return 2;
}
