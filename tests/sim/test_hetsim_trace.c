// SPDX-License-Identifier: MIT
/* hetsim: its reports on itself: tracepoints, fdinfo, the list of its objects. */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/command.h"
#include "lib/hetsim.h"
#include "sim/vgem_support.h"

#define TRACE "/sys/kernel/tracing/instances/hetsim-test"
#define OBJECTS "/sys/kernel/debug/hetsim/hetsim0/objects"

/* All of a file, to be freed; NULL: it can't be read. */
static char *read_file(const char *path)
{
	char *text = NULL;
	size_t size = 0;
	FILE *file = fopen(path, "re");

	if (!file)
		return NULL;
	if (getdelim(&text, &size, '\0', file) < 0 && text)
		text[0] = '\0';
	fclose(file);
	return text;
}

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	bool done;

	if (fd < 0)
		return false;
	done = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return done;
}

/* Fails unless @text has the line, or a part of one, that is printed. */
static void has(const char *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void has(const char *text, const char *format, ...)
{
	char line[256];
	va_list list;

	va_start(list, format);
	vsnprintf(line, sizeof(line), format, list);
	va_end(list);
	if (!text || !strstr(text, line))
		test_fail(__FILE__, __LINE__, "%s", line);
}

/* A number of the file's fdinfo. */
static uint64_t fdinfo(int fd, const char *key)
{
	char path[64], *text, *at;
	uint64_t number = UINT64_MAX;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	text = read_file(path);
	at = text ? strstr(text, key) : NULL;
	if (!at || sscanf(at + strlen(key), ":\t%" SCNu64, &number) != 1)
		test_fail(__FILE__, __LINE__, "%s", key);
	free(text);
	return number;
}

static void test_fdinfo(void)
{
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	struct hetsim_command nothing = { 0 };
	struct hetsim_buffer a, b;
	char path[64], *text;
	int other = hetsim_open(O_RDWR);

	CHECK(fdinfo(fd, "hetsim-client-id") != fdinfo(other, "hetsim-client-id"));
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	text = read_file(path);
	has(text, "hetsim-device:\thetsim0\n");
	free(text);
	a = hetsim_buffer_make(fd, MIB(2), HETSIM_PLACE_VRAM);
	b = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);
	CHECK_EQUAL(fdinfo(fd, "hetsim-memory-vram") + fdinfo(fd, "hetsim-memory-window"),
		    2048);
	CHECK_EQUAL(fdinfo(fd, "hetsim-memory-system"), 1024);
	CHECK_EQUAL(fdinfo(fd, "hetsim-memory-limit"), hetsim_query(fd).opener_bytes / 1024);
	CHECK_EQUAL(fdinfo(fd, "hetsim-faults"), 0);
	CHECK_EQUAL(a.bytes[0], 0);
	CHECK_EQUAL(fdinfo(fd, "hetsim-faults"), 1);
	CHECK_EQUAL(fdinfo(fd, "hetsim-evictions"), 0);
	CHECK_EQUAL(fdinfo(fd, "hetsim-engine"), 0);
	CHECK_EQUAL(hetsim_run(fd, hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, 0), &nothing),
		    0);
	CHECK(fdinfo(fd, "hetsim-engine") > 0);
	CHECK_EQUAL(fdinfo(other, "hetsim-engine"), 0);
	CHECK_EQUAL(fdinfo(other, "hetsim-memory-system"), 0);
	text = read_file(path);
	CHECK(text && !strstr(text, "hetsim-evicted:"));
	free(text);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_EVICTION, a.handle, MIB(1)), 0);
	text = read_file(path);
	has(text, "hetsim-evicted:\t%" PRIx64 "-%" PRIx64 " 1\n", a.offset,
	    a.offset + (b.offset - a.offset) / (b.handle - a.handle));
	free(text);
	hetsim_buffer_drop(fd, &a);
	hetsim_buffer_drop(fd, &b);
	CHECK_EQUAL(fdinfo(fd, "hetsim-memory-system"), 0);
	hetsim_close(other);
}

/* The line of a buffer in the list of objects. */
struct listed {
	uint64_t owner;
	unsigned int references;
	unsigned int maps;
	unsigned int exports;
	unsigned int pins;
};

static struct listed listed(uint32_t handle)
{
	struct listed found = { 0 };
	char *text = read_file(OBJECTS), *line, name[32];

	snprintf(name, sizeof(name), "\nbuffer\t%" PRIu32 "\t", handle);
	line = text ? strstr(text, name) : NULL;
	if (!line ||
	    sscanf(line + strlen(name),
		   "%" SCNu64 "\t%*d\t%*[^\t]\t%*u\t%*s\t%*s\t%u\t%u\t%u\t%u\n", &found.owner,
		   &found.references, &found.maps, &found.exports, &found.pins) != 5)
		test_fail(__FILE__, __LINE__, "buffer %" PRIu32 " in %s", handle, text);
	free(text);
	return found;
}

/* Fails unless the line of the buffer says so. */
static void check_listed(uint32_t handle, uint64_t owner, unsigned int references,
			 unsigned int maps, unsigned int exports, unsigned int pins)
{
	struct listed found = listed(handle);

	CHECK_EQUAL(found.owner, owner);
	CHECK_EQUAL(found.references, references);
	CHECK_EQUAL(found.maps, maps);
	CHECK_EQUAL(found.exports, exports);
	CHECK_EQUAL(found.pins, pins);
}

/* A binding belongs to its address space; a buffer stays its maker's. */
static void check_binding(int fd, uint64_t maker, const struct hetsim_buffer *buffer)
{
	uint64_t id = fdinfo(fd, "hetsim-client-id");
	char *text, name[16];

	CHECK_EQUAL(hetsim_bind(fd, buffer, HETSIM_BIND_WRITE), 0);
	text = read_file(OBJECTS);
	CHECK_EQUAL(prctl(PR_GET_NAME, name), 0);
	has(text, "\nbinding\t0x%" PRIxPTR "\t%" PRIu64 "\t%d\t%s\t1024\n",
	    (uintptr_t)buffer->bytes, id, getpid(), name);
	free(text);
	CHECK_EQUAL(listed(buffer->handle).owner, maker);
}

/* Each object with its maker, and how often each kind of user holds the buffer. */
static void check_owners(int fd, int other, int vgem)
{
	struct hetsim_buffer buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_SYSTEM);
	uint32_t queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 0);
	uint64_t id = fdinfo(fd, "hetsim-client-id");
	struct drm_gem_close gem_close = { 0 };
	struct drm_prime_handle prime = { 0 };
	struct hetsim_import import;
	unsigned char *again;
	AUTO_TEXT *text = read_file(OBJECTS);

	has(text, "\nopener\t%" PRIu64 "\t%" PRIu64 "\t%d\t", id, id, getpid());
	has(text, "\nqueue\t%" PRIu32 "\t%" PRIu64 "\t%d\t", queue, id, getpid());
	has(text, "\nbuffer\t%" PRIu32 "\t%" PRIu64 "\t%d\t", buffer.handle, id, getpid());
	has(text, "\t1024\tsystem\twrite-back\t");

	check_listed(buffer.handle, id, 2, 1, 0, 0); /* handle and map */
	check_binding(fd, id, &buffer);
	check_listed(buffer.handle, id, 3, 1, 0, 0);
	CHECK_FATAL(!hetsim_mmap(fd, MIB(1), PROT_READ, buffer.offset, &again));
	check_listed(buffer.handle, id, 4, 2, 0, 0);
	CHECK_EQUAL(hetsim_munmap(again + PAGE, PAGE), 0); /* two parts of one */
	check_listed(buffer.handle, id, 4, 3, 0, 0);
	CHECK_EQUAL(hetsim_munmap(again, MIB(1)), 0);
	check_listed(buffer.handle, id, 3, 1, 0, 0);

	prime.fd = hetsim_export(fd, buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(prime.fd >= 0);
	check_listed(buffer.handle, id, 4, 1, 1, 0);
	CHECK_EQUAL(hetsim_import(other, prime.fd, &import), 0);
	check_binding(other, id, &buffer);
	check_listed(buffer.handle, id, 6, 1, 1, 0);
	CHECK_EQUAL(ioctl(vgem, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime), 0);
	check_listed(buffer.handle, id, 6, 1, 1, 1);
	gem_close.handle = prime.handle;
	CHECK_EQUAL(ioctl(vgem, DRM_IOCTL_GEM_CLOSE, &gem_close), 0);
	check_listed(buffer.handle, id, 6, 1, 1, 0);
	close(prime.fd);
	CHECK_EQUAL(hetsim_close_handle(other, import.handle), 0);
	check_listed(buffer.handle, id, 4, 1, 0, 0);
	CHECK_EQUAL(hetsim_unbind(other, &buffer), 0);
	CHECK_EQUAL(hetsim_unbind(fd, &buffer), 0);
	check_listed(buffer.handle, id, 2, 1, 0, 0);
	hetsim_buffer_drop(fd, &buffer);
}

static void test_owners(void)
{
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int other = hetsim_open(O_RDWR);
	int vgem = vgem_open();

	if (vgem < 0 || hetsim_objects() < 0) {
		test_skip("kernel", vgem < 0 ? "no vgem" : "debugfs can't be read");
	} else {
		check_owners(fd, other, vgem);
	}
	if (vgem >= 0)
		close(vgem);
	hetsim_close(other);
}

/* Acts for each tracepoint. */
static void act(int fd, struct hetsim_buffer *buffer, uint32_t queue)
{
	struct hetsim_command nothing = { 0 };
	struct hetsim_command bad = { .op = HETSIM_OP_FILL,
				      .destination = 1ull << 46,
				      .length = 64 };
	struct hetsim_fence_fd fence = { .size = sizeof(fence), .queue = queue, .seqno = 2 };

	buffer->bytes[5 * PAGE] = 1;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_SAMPLE,
				SIZED(hetsim_buffer_sample, .handle = buffer->handle,
				      .action = HETSIM_SAMPLE_START)),
		    0);
	buffer->bytes[3 * PAGE] = 1;
	CHECK_EQUAL(hetsim_buffer_move(fd, buffer->handle, 0, buffer->length,
				       HETSIM_PLACE_SYSTEM),
		    0);
	CHECK_EQUAL(hetsim_run(fd, queue, &nothing), 0);
	CHECK_EQUAL(hetsim_run(fd, queue, &bad), -EFAULT);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_FENCE_FD, &fence), 0);
	close(fence.fd);
}

/* A trace of this test's own; else it is skipped, and @fd closed. */
static bool instance_make(int fd)
{
	if (!mkdir(TRACE, 0700) || errno == EEXIST)
		return true;
	hetsim_close(fd);
	test_skip("kernel", "tracefs can't be written");
	return false;
}

static void test_tracepoints(void)
{
	struct hetsim_buffer buffer;
	bool unplugged;
	uint64_t id;
	uint32_t queue;
	AUTO_TEXT *text = NULL;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);

	if (!instance_make(fd))
		return;
	id = fdinfo(fd, "hetsim-client-id");
	buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);
	queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 0);
	CHECK(write_file(TRACE "/trace", ""));
	CHECK(write_file(TRACE "/events/hetsim/enable", "1"));
	act(fd, &buffer, queue);
	unplugged = hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0) == 0;
	CHECK(write_file(TRACE "/events/hetsim/enable", "0"));
	text = read_file(TRACE "/trace");
	has(text, ": fault: device=0 opener=%" PRIu64 " buffer=%" PRIu32 " page=", id,
	    buffer.handle);
	has(text, ": access: device=0 opener=%" PRIu64 " buffer=%" PRIu32 " page=3\n", id,
	    buffer.handle);
	has(text,
	    ": move: device=0 opener=%" PRIu64 " buffer=%" PRIu32
	    " page=0 moved=256 to=system\n",
	    id, buffer.handle);
	has(text, ": submit: device=0 opener=%" PRIu64 " queue=%" PRIu32 " seqno=1 status=0\n",
	    id, queue);
	has(text,
	    ": complete: device=0 opener=%" PRIu64 " queue=%" PRIu32 " seqno=1 status=0\n", id,
	    queue);
	has(text,
	    ": complete: device=0 opener=%" PRIu64 " queue=%" PRIu32 " seqno=2 status=-14\n",
	    id, queue);
	has(text, ": fence: device=0 opener=%" PRIu64 " queue=%" PRIu32 " seqno=2 status=0\n",
	    id, queue);
	if (unplugged) {
		has(text, ": lost: device=0\n");
		hetsim_plug();
	} else {
		test_skip("kernel", "the device was not made with test=1");
	}
	rmdir(TRACE);
	hetsim_munmap(buffer.bytes, buffer.length);
}

/* None is told of as done before it was told of: the engine is as fast as it likes. */
static void check_order(const char *text, uint64_t seqno)
{
	char line[64];
	const char *submitted, *completed;

	snprintf(line, sizeof(line), "seqno=%" PRIu64 " status=0\n", seqno);
	submitted = strstr(text, ": submit: ");
	while (submitted && strncmp(strstr(submitted, "seqno="), line, strlen(line)) != 0)
		submitted = strstr(submitted + 1, ": submit: ");
	completed = strstr(text, ": complete: ");
	while (completed && strncmp(strstr(completed, "seqno="), line, strlen(line)) != 0)
		completed = strstr(completed + 1, ": complete: ");
	if (!submitted || !completed || submitted > completed)
		test_fail(__FILE__, __LINE__, "seqno %" PRIu64 ": submit %s, complete %s",
			  seqno, submitted ? "told" : "missing",
			  !completed            ? "missing" :
			  submitted > completed ? "before it" :
						  "told");
}

static void test_order(void)
{
	struct hetsim_command nothing = { 0 };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	uint64_t i, seqno = 0;
	uint32_t queue;
	AUTO_TEXT *text = NULL;

	if (!instance_make(fd))
		return;
	queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 0);
	CHECK(write_file(TRACE "/trace", ""));
	CHECK(write_file(TRACE "/events/hetsim/enable", "1"));
	for (i = 0; i < 200; i++)
		CHECK_EQUAL(hetsim_submit(fd, queue, &nothing, 1, &seqno), 0);
	CHECK_EQUAL(hetsim_run(fd, queue, &nothing), 0);
	CHECK(write_file(TRACE "/events/hetsim/enable", "0"));
	text = read_file(TRACE "/trace");
	CHECK_FATAL(text != NULL);
	for (i = 1; i <= seqno; i++)
		check_order(text, i);
	rmdir(TRACE);
}

#define FENCES "/sys/kernel/debug/hetsim/fences"

/* Fences that are held, also when their queue and opener are gone. */
static void test_fences(void)
{
	struct hetsim_fence_fd ask = { .size = sizeof(ask) };
	const struct hetsim_command nothing = { .op = HETSIM_OP_NOTHING };
	int fd = hetsim_begin(O_RDWR);
	uint64_t id, seqno, address;
	char *text, line[64];
	int status;

	id = fdinfo(fd, "hetsim-client-id");
	ask.queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 0);
	CHECK_EQUAL(hetsim_submit(fd, ask.queue, &nothing, 1, &seqno), 0);
	ask.seqno = seqno;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_FENCE_FD, &ask), 0);
	CHECK_EQUAL(hetsim_wait(fd, ask.queue, seqno, 5000, &status, &address), 0);
	hetsim_close(fd);
	snprintf(line, sizeof(line), "\nfence\thetsim0-%" PRIu64 ".%" PRIu32 ":%" PRIu64 "\t",
		 id, ask.queue, seqno);
	text = read_file(FENCES);
	if (!text) {
		test_skip("kernel", "debugfs can't be read");
	} else {
		CHECK(!strncmp(text, "object\tname\t", 12));
		has(text, "%s%" PRIu64 "\t%d\t", line, id, getpid());
		has(text, "\tsignalled\n");
		free(text);
		close(ask.fd);
		text = read_file(FENCES);
		CHECK(text && !strstr(text, line));
	}
	free(text);
}

static const struct test tests[] = {
	{ "fdinfo", test_fdinfo, 0, 0 }, { "fences", test_fences, 0, 0 },
	{ "owners", test_owners, 0, 0 }, { "tracepoints", test_tracepoints, 60, 0 },
	{ "order", test_order, 60, 0 },  { NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "hetsim_trace", tests)
