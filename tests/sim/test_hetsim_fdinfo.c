// SPDX-License-Identifier: MIT
/*
 * hetsim: fdinfo has the standard keys for tools of all devices, by the rules of the format
 * (Documentation/gpu/drm-usage-stats.rst), and their values are right.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/hetsim.h"

#define KIB_OF_MIB 1024ull
#define NOTHING UINT64_MAX

static void read_fdinfo(int fd, char *text, size_t size)
{
	char path[64];
	size_t length;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "re");
	CHECK_FATAL(file != NULL);
	length = fread(text, 1, size - 1, file);
	text[length] = 0;
	fclose(file);
}

/* The value of a key; NULL: there is none. */
static const char *value_in(const char *text, const char *key)
{
	size_t length = strlen(key);

	for (; text; text = strchr(text, '\n')) {
		text += *text == '\n';
		if (!strncmp(text, key, length) && text[length] == ':')
			return text + length + 1 + strspn(text + length + 1, " \t");
	}
	return NULL;
}

/* A number with that unit; NOTHING if there is no such key. */
static uint64_t number_of(int fd, const char *key, const char *unit)
{
	const char *value;
	char text[4096];
	char *end;
	uint64_t n;

	read_fdinfo(fd, text, sizeof(text));
	value = value_in(text, key);
	if (!value)
		return NOTHING;
	n = strtoull(value, &end, 10);
	CHECK(end != value && !strncmp(end, unit, strlen(unit)) && end[strlen(unit)] == '\n');
	return n;
}

static uint64_t kib(int fd, const char *key)
{
	return number_of(fd, key, " KiB");
}

/* Each line is a key and its value; a value is one word, or a number and its unit. */
static void check_line(const char *line)
{
	static const char *const kernels[] = { "pos", "flags", "mnt_id", "ino" };
	const char *colon = strchr(line, ':'), *value;
	size_t words = 1, i;
	bool known;

	CHECK_FATAL(colon != NULL);
	for (value = line; value < colon; value++)
		CHECK(!isspace((unsigned char)*value));
	known = !strncmp(line, "drm-", 4) || !strncmp(line, "hetsim-", 7);
	for (i = 0; i < sizeof(kernels) / sizeof(kernels[0]) && !known; i++)
		known = strlen(kernels[i]) == (size_t)(colon - line) &&
			!strncmp(line, kernels[i], (size_t)(colon - line));
	if (!known)
		test_fail(__FILE__, __LINE__, "%s", line);
	value = colon + 1 + strspn(colon + 1, " \t");
	CHECK(*value);
	for (; *value; value++)
		words += *value == ' ';
	CHECK(words <= 2);
}

static void test_format(void)
{
	char text[4096], *line, *rest = text;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);

	read_fdinfo(fd, text, sizeof(text));
	CHECK(value_in(text, "drm-driver") &&
	      !strncmp(value_in(text, "drm-driver"), "hetsim\n", 7));
	/* A tool knows the opener before it adds anything to it. */
	CHECK(strstr(text, "drm-client-id:") < strstr(text, "drm-engine-"));
	while ((line = strsep(&rest, "\n")))
		if (*line)
			check_line(line);
}

/* Without a PCI address, a number is one opener's among those of all devices. */
static void test_client(void)
{
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int other, same, second;
	uint64_t id;

	other = hetsim_open(O_RDWR);
	same = dup(fd);
	CHECK_FATAL(same >= 0);
	id = number_of(fd, "drm-client-id", "");
	CHECK(id != NOTHING && id == number_of(same, "drm-client-id", ""));
	CHECK_EQUAL(id, number_of(fd, "hetsim-client-id", ""));
	CHECK(id != number_of(other, "drm-client-id", ""));
	CHECK_EQUAL(number_of(fd, "drm-pdev", ""), NOTHING);
	second = open(HETSIM_SECOND, O_RDWR | O_CLOEXEC);
	if (second >= 0) {
		uint64_t on_second = number_of(second, "drm-client-id", "");

		CHECK(on_second != id && on_second > number_of(other, "drm-client-id", ""));
		close(second);
	}
	close(same);
	hetsim_close(other);
}

/* Busy time is the opener's own, grows by its work, and has engines that it is of. */
static void test_engine(void)
{
	struct hetsim_command nothing = { 0 };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	uint64_t before;
	uint32_t queue;
	int other = hetsim_open(O_RDWR);

	CHECK_EQUAL(number_of(fd, "drm-engine-compute", " ns"), 0);
	CHECK(number_of(fd, "drm-engine-capacity-compute", "") >= hetsim_query(fd).max_queues);
	queue = hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, 0);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_LATENCY, queue, 20000000), 0);
	CHECK_EQUAL(hetsim_run(fd, queue, &nothing), 0);
	before = number_of(fd, "drm-engine-compute", " ns");
	CHECK(before >= 20000000 && before != NOTHING);
	CHECK_EQUAL(hetsim_run(fd, queue, &nothing), 0);
	CHECK(number_of(fd, "drm-engine-compute", " ns") >= before + 20000000);
	CHECK_EQUAL(number_of(other, "drm-engine-compute", " ns"), 0);
	hetsim_close(other);
}

static void check_memory(int fd, const char *region, uint64_t total, uint64_t shared,
			 uint64_t resident)
{
	char key[64];

	snprintf(key, sizeof(key), "drm-total-%s", region);
	CHECK_EQUAL(kib(fd, key), total * KIB_OF_MIB);
	snprintf(key, sizeof(key), "drm-shared-%s", region);
	CHECK_EQUAL(kib(fd, key), shared * KIB_OF_MIB);
	snprintf(key, sizeof(key), "drm-resident-%s", region);
	CHECK_EQUAL(kib(fd, key), resident * KIB_OF_MIB);
}

/* The memory that a buffer is to take, the memory in place, and the shared part. */
static void test_memory(void)
{
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int other, dmabuf;
	struct hetsim_buffer vram, system;
	struct hetsim_import import;

	other = hetsim_open(O_RDWR);
	check_memory(fd, "vram", 0, 0, 0);
	check_memory(fd, "memory", 0, 0, 0);
	vram = hetsim_buffer_make(fd, MIB(4), HETSIM_PLACE_VRAM);
	system = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);
	check_memory(fd, "vram", 4, 0, 4);
	check_memory(fd, "memory", 1, 0, 1);

	/* Evicted pages are somewhere else; the buffer is to be where it was. */
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_EVICTION, vram.handle, MIB(2)), 0);
	check_memory(fd, "vram", 4, 0, 2);
	check_memory(fd, "memory", 1, 0, 3);

	dmabuf = hetsim_export(fd, system.handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(dmabuf >= 0);
	check_memory(fd, "memory", 1, 0, 3);
	CHECK_EQUAL(hetsim_import(other, dmabuf, &import), 0);
	check_memory(fd, "memory", 1, 1, 3);
	check_memory(other, "memory", 1, 1, 1);
	check_memory(other, "vram", 0, 0, 0);
	CHECK_EQUAL(hetsim_close_handle(other, import.handle), 0);
	check_memory(fd, "memory", 1, 0, 3);
	check_memory(other, "memory", 0, 0, 0);
	close(dmabuf);
	hetsim_buffer_drop(fd, &system);
	hetsim_buffer_drop(fd, &vram);
	check_memory(fd, "vram", 0, 0, 0);
	check_memory(fd, "memory", 0, 0, 0);
	hetsim_close(other);
}

static const struct test tests[] = {
	{ "fdinfo_format", test_format, 0, 0 },
	{ "fdinfo_client", test_client, 0, 0 },
	{ "fdinfo_engine", test_engine, 0, 0 },
	{ "fdinfo_memory", test_memory, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(hetsim_main, "hetsim_fdinfo", tests, NULL)
