// SPDX-License-Identifier: MIT
/* hetsim: a reset of an engine leaves a device coredump, which names the work that did not end. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/hetsim.h"

#define DEVICE "/sys/bus/platform/devices/hetsim.0"
#define DUMP DEVICE "/devcoredump/data"
#define DRIVER "/sys/bus/platform/drivers/hetsim/"
#define TIMEOUT_MS 100

/* 0 or a negative errno. */
static int tell(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), r = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		r = -errno;
	close(fd);
	return r;
}

/* Is the dump there, or gone, within some seconds? */
static bool becomes(bool there)
{
	double end = test_now() + 20;

	while (!access(DUMP, F_OK) != there && test_now() < end)
		usleep(10000);
	return !access(DUMP, F_OK) == there;
}

/* Lets the kernel drop the dump of an earlier reset: it keeps one of each device. */
static void drop(void)
{
	if (!access(DUMP, F_OK))
		CHECK_EQUAL(tell(DUMP, "1"), 0);
	CHECK_FATAL(becomes(false));
}

static void read_dump(char *text, size_t size)
{
	size_t length;
	FILE *file;

	CHECK_FATAL(becomes(true));
	file = fopen(DUMP, "re");
	CHECK_FATAL(file != NULL);
	length = fread(text, 1, size - 1, file);
	text[length] = 0;
	fclose(file);
}

static void has(const char *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void has(const char *text, const char *format, ...)
{
	char line[256];
	va_list list;

	va_start(list, format);
	vsnprintf(line, sizeof(line), format, list);
	va_end(list);
	if (!strstr(text, line))
		test_fail(__FILE__, __LINE__, "%s is not in %s", line, text);
}

/* An open file where resets leave dumps that this process may read; -1: skipped. */
static int begin(void)
{
	int fd = hetsim_open(O_RDWR);

	if (fd >= 0 && (access("/sys/class/devcoredump", F_OK) || geteuid())) {
		test_skip("kernel",
			  "no device coredumps here (CONFIG_DEV_COREDUMP), or not root");
		hetsim_close(fd);
		return -1;
	}
	if (fd >= 0)
		drop();
	return fd;
}

/* How the submission ended. */
static int run(int fd, uint32_t queue, const struct hetsim_command *commands, uint32_t n,
	       uint64_t *ret_seqno)
{
	uint64_t address;
	int status = 0;

	CHECK_EQUAL(hetsim_submit(fd, queue, commands, n, ret_seqno), 0);
	CHECK_EQUAL(hetsim_wait(fd, queue, *ret_seqno, 30000, &status, &address), 0);
	return status;
}

/* The second of three submissions hangs: it is the one that is told of. */
static void test_hang(void)
{
	struct hetsim_command commands[2] = {
		{ .op = HETSIM_OP_NOTHING },
		{ .op = HETSIM_OP_FILL, .length = 8192, .value = 77 }
	};
	struct hetsim_buffer buffer;
	int fd = begin();
	uint64_t seqno;
	uint32_t queue;
	char text[8192];

	if (fd < 0)
		return;
	buffer = hetsim_buffer_make(fd, 8192, HETSIM_PLACE_SYSTEM);
	CHECK_EQUAL(hetsim_bind(fd, &buffer, HETSIM_BIND_WRITE), 0);
	commands[1].destination = (uintptr_t)buffer.bytes;
	queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, TIMEOUT_MS);
	CHECK_EQUAL(run(fd, queue, commands, 2, &seqno), 0);
	CHECK(access(DUMP, F_OK));
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_STUCK, queue, 1), 0);
	CHECK_EQUAL(run(fd, queue, commands, 2, &seqno), -ETIMEDOUT);

	read_dump(text, sizeof(text));
	has(text, "driver: hetsim\ndevice: hetsim0\n");
	has(text, "\npid: %d\n", getpid());
	has(text, "\nqueue: %" PRIu32 "\ntype: dma_fence\ntimeout_ms: %d\n", queue, TIMEOUT_MS);
	has(text, "\nseqno: %" PRIu64 "\nsubmitted: %" PRIu64 "\ndone: %" PRIu64 "\n", seqno,
	    seqno, seqno - 1);
	has(text, "\nn_commands: 2\nat: 0\n");
	has(text,
	    "\n1: op %d destination 0x%" PRIxPTR
	    " source 0x0 source2 0x0 length 8192 value 77\n",
	    HETSIM_OP_FILL, (uintptr_t)buffer.bytes);
	CHECK_EQUAL(run(fd, queue, commands, 2, &seqno), 0);
	drop();
	hetsim_buffer_drop(fd, &buffer);
	hetsim_close(fd);
}

/* The command that ran is named, and the first of several resets is kept. */
static void test_command(void)
{
	struct hetsim_command commands[40] = { { .op = HETSIM_OP_NOTHING } };
	int fd = begin();
	uint64_t seqno;
	uint32_t queue;
	char text[8192];

	if (fd < 0)
		return;
	queue = hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, TIMEOUT_MS);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_LOST_INTERRUPT, queue, 1), 0);
	CHECK_EQUAL(run(fd, queue, commands, 40, &seqno), -ETIMEDOUT);
	read_dump(text, sizeof(text));
	has(text, "\ntype: counter\n");
	has(text, "\nseqno: %" PRIu64 "\n", seqno);
	has(text, "\nn_commands: 40\nat: 39\n32: op 0 ");
	has(text, "\n39: op 0 ");
	CHECK(!strstr(text, "\n31: op"));

	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_STUCK, queue, 1), 0);
	CHECK_EQUAL(run(fd, queue, commands, 1, &seqno), -ETIMEDOUT);
	read_dump(text, sizeof(text));
	has(text, "\nseqno: %" PRIu64 "\n", seqno - 1);
	drop();
	hetsim_close(fd);
}

/* The text is the kernel's: neither the driver nor a device has to stay for it. */
static void test_unbound(void)
{
	const struct hetsim_command nothing = { .op = HETSIM_OP_NOTHING };
	int fd = begin();
	uint64_t seqno;
	uint32_t queue;
	char text[8192];

	if (fd < 0)
		return;
	queue = hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, TIMEOUT_MS);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_STUCK, queue, 1), 0);
	CHECK_EQUAL(run(fd, queue, &nothing, 1, &seqno), -ETIMEDOUT);
	CHECK_FATAL(becomes(true));
	CHECK_EQUAL(tell(DRIVER "unbind", "hetsim.0"), 0);
	read_dump(text, sizeof(text));
	has(text, "device: hetsim0\n");
	CHECK_EQUAL(tell(DRIVER "bind", "hetsim.0"), 0);
	drop();
	hetsim_close(fd);
}

static const struct test tests[] = {
	{ "dump_hang", test_hang, 60, 0 },
	{ "dump_command", test_command, 60, 0 },
	{ "dump_unbound", test_unbound, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(hetsim_main, "hetsim_dump", tests, NULL)
