// SPDX-License-Identifier: MIT
/*
 * The count of evictions that hetmap top and hetmap explain have: by open file and not by
 * descriptor, and by buffer. Texts are as
 * /proc/PID/fdinfo of /dev/hetsimN has them; folders list descriptors in any order.
 */
#include <stdio.h>
#include <string.h>

#include "../../tools/perf/explain/explain.h"
#include "../../tools/perf/read/openers.h"
#include "../../tools/perf/top/top.h"
#include "lib/harness.h"

static void add_of(struct openers *openers, unsigned int device, unsigned int id,
		   unsigned int evictions)
{
	char text[160];

	snprintf(text, sizeof(text),
		 "pos:\t0\nflags:\t0100002\nhetsim-device:\thetsim%u\nhetsim-client-id:\t%u\n"
		 "hetsim-evictions:\t%u\n",
		 device, id, evictions);
	CHECK_OK(openers_add(openers, text));
}

static void add(struct openers *openers, unsigned int id, unsigned int evictions)
{
	add_of(openers, 0, id, evictions);
}

/* A, B, dup(A), dup(B): each once. */
static void each_once(void)
{
	struct openers openers;

	openers_begin(&openers);
	CHECK_EQUAL(openers.evictions, FIGURE_UNKNOWN);
	add(&openers, 7, 10);
	add(&openers, 9, 200);
	add(&openers, 7, 10);
	add(&openers, 9, 200);
	add(&openers, 7, 10);
	CHECK_EQUAL(openers.evictions, 210);
	CHECK_EQUAL(openers.n, 2);
	openers_end(&openers);
}

/* Each device numbers its own. */
static void two_devices(void)
{
	struct openers openers;

	openers_begin(&openers);
	add_of(&openers, 0, 1, 10);
	add_of(&openers, 1, 1, 200);
	add_of(&openers, 0, 1, 10);
	CHECK_EQUAL(openers.evictions, 210);
	openers_end(&openers);
}

/* A device's counters of its entries for the process's pages; older devices have none. */
static void mirrored(void)
{
	static const char told[] = "hetsim-device:\thetsim0\nhetsim-client-id:\t1\n"
				   "hetsim-evictions:\t0\nhetsim-device-faults:\t5\n"
				   "hetsim-invalidations:\t3\nhetsim-migrated:\t512\n"
				   "hetsim-returned:\t16\n";
	struct openers openers;

	openers_begin(&openers);
	add(&openers, 2, 0);
	CHECK_EQUAL(openers.mirrored[MIRRORED_FAULTS], FIGURE_UNKNOWN);
	CHECK(!openers_mirror(&openers));
	CHECK_OK(openers_add(&openers, told));
	CHECK(openers_mirror(&openers));
	CHECK_OK(openers_add(&openers, told));
	CHECK_EQUAL(openers.mirrored[MIRRORED_FAULTS], 5);
	CHECK_EQUAL(openers.mirrored[MIRRORED_INVALIDATED], 3);
	CHECK_EQUAL(openers.mirrored[MIRRORED_THERE], 512);
	CHECK_EQUAL(openers.mirrored[MIRRORED_BACK], 16);
	openers_end(&openers);
}

static void many(void)
{
	const unsigned int n = 100;
	struct openers openers;
	unsigned int round, i;

	openers_begin(&openers);
	for (round = 0; round < 3; round++)
		for (i = 0; i < n; i++)
			add(&openers, i, i);
	CHECK_EQUAL(openers.n, n);
	CHECK_EQUAL(openers.evictions, n * (n - 1) / 2);
	openers_end(&openers);
}

/* Nothing evicted is a count; a file of something else has none. */
static void others(void)
{
	struct openers openers;

	openers_begin(&openers);
	CHECK_OK(openers_add(&openers, "pos:\t0\nflags:\t02\n"));
	CHECK_OK(openers_add(&openers, "hetsim-client-id:\t3\n"));
	CHECK_EQUAL(openers.evictions, FIGURE_UNKNOWN);
	add(&openers, 3, 0);
	CHECK_EQUAL(openers.evictions, 0);
	openers_end(&openers);
}

/* ---- buffers, by the bytes of the device's file ---- */

static void add_evicted(struct openers *openers, unsigned int device, unsigned int id,
			const char *evicted)
{
	char text[320];

	snprintf(text, sizeof(text),
		 "hetsim-device:\thetsim%u\nhetsim-client-id:\t%u\n"
		 "hetsim-memory-vram:\t1024 KiB\nhetsim-memory-system:\t2048 KiB\n"
		 "hetsim-evictions:\t1000\n%s",
		 device, id, evicted);
	CHECK_OK(openers_add(openers, text));
}

static void by_buffer(void)
{
	struct openers openers;

	openers_begin(&openers);
	CHECK_EQUAL(openers_evicted(&openers, 0, 0x2000000), FIGURE_UNKNOWN);
	add_evicted(
		&openers, 0, 5,
		"hetsim-evicted:\t2000000-3000000 12\nhetsim-evicted:\t5000000-6000000 7\n");
	/* Another file has a buffer in between, and the same file a second descriptor. */
	add_evicted(&openers, 0, 4, "hetsim-evicted:\t3000000-4000000 99\n");
	add_evicted(
		&openers, 0, 5,
		"hetsim-evicted:\t2000000-3000000 13\nhetsim-evicted:\t5000000-6000000 7\n");
	add_evicted(&openers, 1, 5, "hetsim-evicted:\t2000000-3000000 500\n");
	add_evicted(&openers, 2, 1, "");
	CHECK_EQUAL(openers.n_evicted, 4);
	CHECK_EQUAL(openers_evicted(&openers, 0, 0x1ffffff), 0);
	CHECK_EQUAL(openers_evicted(&openers, 0, 0x2000000), 12);
	CHECK_EQUAL(openers_evicted(&openers, 0, 0x2ffffff), 12);
	CHECK_EQUAL(openers_evicted(&openers, 0, 0x3000000), 99);
	CHECK_EQUAL(openers_evicted(&openers, 0, 0x4000000), 0);
	CHECK_EQUAL(openers_evicted(&openers, 0, 0x5800000), 7);
	CHECK_EQUAL(openers_evicted(&openers, 0, UINT64_MAX), 0);
	CHECK_EQUAL(openers_evicted(&openers, 1, 0x2000000), 500);
	CHECK_EQUAL(openers_evicted(&openers, 1, 0), 0);
	CHECK_EQUAL(openers_evicted(&openers, 2, 0x2000000), 0);
	CHECK_EQUAL(openers_evicted(&openers, 3, 0x2000000), FIGURE_UNKNOWN);
	openers_end(&openers);
}

/* Malformed lines are left out. */
static void nonsense(void)
{
	struct openers openers;

	openers_begin(&openers);
	add_evicted(&openers, 0, 1,
		    "hetsim-evicted:\t\nhetsim-evicted:\t1000\nhetsim-evicted:\t1000-2000\n"
		    "hetsim-evicted:\tx-y z\nhetsim-evicted:\t4000-3000 1\n");
	CHECK_EQUAL(openers_evicted(&openers, 0, 0x1000), 0);
	CHECK_EQUAL(openers_evicted(&openers, 0, 0x4000), 0);
	openers_end(&openers);
}

/* ---- the findings of hetmap explain ---- */

/* The finding's sentence for the second page of a map of @device's file at 2000000. */
static const char *evictions_on(const struct explained *of, const char *device)
{
	struct finding findings[FINDINGS_MOST];
	static char text[1024];
	struct live_map map = { .entry = { .length = 4096 } };
	const struct mapping mapping = { .smaps = { .start = 4096, .end = 12288 },
					 .offset = 0x2000000,
					 .rights = "rw-s" };
	const struct subject subject = {
		.of = of,
		.map = &map,
		.start = 8192,
		.end = 12288,
		.first = &mapping,
		.kind = MEMORY_DEVICE,
	};
	size_t n, i;

	snprintf(map.entry.device, sizeof(map.entry.device), "%s", device);
	text[0] = '\0';
	n = explain_find(&subject, findings);
	for (i = 0; i < n; i++) {
		if (!strcmp(findings[i].kind, "evictions"))
			snprintf(text, sizeof(text), "%s", findings[i].text);
		free(findings[i].text);
		free(findings[i].remedy);
	}
	return *text ? text : NULL;
}

/* The evictions of the buffer, and of all the process's files on its device. */
static void explained_by_buffer(void)
{
	struct explained of = { .pid = 7, .seconds = 0.05 };
	const char *text;

	openers_begin(&of.openers_before);
	openers_begin(&of.openers);
	add_evicted(&of.openers_before, 0, 1, "hetsim-evicted:\t2000000-3000000 1010\n");
	add_evicted(&of.openers_before, 0, 2, "");
	add_evicted(&of.openers, 0, 1, "hetsim-evicted:\t2000000-3000000 1215\n");
	add_evicted(&of.openers, 0, 2, "");
	add_evicted(&of.openers, 1, 1, "hetsim-evicted:\t2000000-3000000 7777\n");
	add_evicted(&of.openers, 2, 1, "hetsim-evicted:\t3000000-4000000 9\n");
	text = evictions_on(&of, "sim:0");
	CHECK_FATAL(text != NULL);
	CHECK(strstr(text,
		     "evictions of it by sim:0, for lack of memory: 1,215, 205 of them in "
		     "the last 50") != NULL);
	CHECK(strstr(text, "of all the process's buffers: 2,000. Of these 2 MiB are in its "
			   "memory, 4 MiB in the system's") != NULL);
	/* Its file was opened in between: nothing is known of just now. */
	text = evictions_on(&of, "sim:1");
	CHECK_FATAL(text != NULL);
	CHECK(strstr(text, "for lack of memory: 7,777; of all") != NULL);
	/* Another buffer's do not slow it down. */
	CHECK(!evictions_on(&of, "sim:2"));
	CHECK(!evictions_on(&of, "sim:3"));
	CHECK(!evictions_on(&of, "soft:0"));
	CHECK(!evictions_on(&of, "host"));
	openers_end(&of.openers_before);
	openers_end(&of.openers);
}

static const struct test tests[] = {
	{ "each_once", each_once, 0, 0 },
	{ "two_devices", two_devices, 0, 0 },
	{ "mirrored", mirrored, 0, 0 },
	{ "many", many, 0, 0 },
	{ "others", others, 0, 0 },
	{ "by_buffer", by_buffer, 0, 0 },
	{ "nonsense", nonsense, 0, 0 },
	{ "explained_by_buffer", explained_by_buffer, 0, 0 },
	{ 0 },
};

TEST_MAIN(harness_main, "top_openers", tests)
