// SPDX-License-Identifier: MIT
/*
 * dma-bufs: the calls that each of them takes, imported buffers from any maker, and the order
 * in which holders may end.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/dma-buf.h>
#include <linux/udmabuf.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "accel/accel_support.h"
#include "core/core.h"
#include "dmabuf/dmabuf.h"
#include "dmabuf/dmabuf_support.h"
#include "base/proc.h"
#include "base/smaps.h"
#include "base/sys.h"
#include "dmabuf/udmabuf.h"

#define THOUSAND 1000

/* ---- the calls ---- */

static void calls(const char *name)
{
	uint64_t size = 0;
	int fd, r, fence = -1;
	char seen[32] = "";
	AUTO(hm_device) *device = rig_device(name);
	AUTO(hm_buffer) *buffer = make(device, SIZE);

	fd = export_of(buffer);
	CHECK(dmabuf_is(fd));
	CHECK_OK(dmabuf_size(fd, &size));
	CHECK_EQUAL(size, SIZE);
	proc_fdinfo(fd, "name:\t", seen, sizeof(seen));
	CHECK(!strcmp(seen, "buffer"));
	CHECK_OK(dmabuf_set_name(fd, "a name that is longer than a dma-buf's can be"));
	CHECK_OK(dmabuf_begin_cpu(fd, HM_READ));
	CHECK_OK(dmabuf_end_cpu(fd, HM_READ));
	CHECK(is_idle(fd, HM_READ, 0));
	CHECK(is_idle(fd, HM_WRITE, 0));
	r = dmabuf_export_fence(fd, HM_READ | HM_WRITE, &fence);
	CHECK(r == 0 || (r == -EOPNOTSUPP && text_has("6.0")));
	if (!r) {
		CHECK_OK(dmabuf_import_fence(fd, HM_READ, fence));
		close(fence);
	}
	close(fd);
}

static void test_calls_heap(void)
{
	calls("heap:system");
}

static void test_calls_udmabuf(void)
{
	calls("udmabuf");
}

static void test_calls_sim(void)
{
	calls("sim:0");
}

/* Those that are none are told by their file system, not by trying. */
static void test_no_dmabuf(void)
{
	int fds[2], memfd = memfd_create("none", MFD_CLOEXEC), fence = -7;
	struct hm_buffer *buffer = NULL;
	uint64_t size = 77;
	char number[64];

	CHECK_FATAL(!ftruncate(memfd, SIZE) && !pipe2(fds, O_CLOEXEC));
	CHECK(!dmabuf_is(memfd) && !dmabuf_is(fds[0]) && !dmabuf_is(-1));
	CHECK_ERROR(-EINVAL, dmabuf_size(memfd, &size));
	snprintf(number, sizeof(number), "descriptor %d is no dma-buf", memfd);
	CHECK(text_has("EINVAL") && text_has(number) && text_has("hm_buffer_export()"));
	CHECK_ERROR(-EBADF, dmabuf_size(-1, &size));
	CHECK(text_has("EBADF") && text_has("descriptor -1"));
	CHECK_EQUAL(size, 77);
	CHECK_ERROR(-EBADF, dmabuf_begin_cpu(memfd, HM_READ));
	CHECK(dmabuf_set_name(memfd, "x") < 0);
	CHECK(dmabuf_export_fence(memfd, HM_READ, &fence) < 0);
	CHECK_EQUAL(fence, -7);
	AUTO(hm_device) *device = rig_device("host");
	CHECK_ERROR(-EINVAL, hm_buffer_import(device, fds[0], NULL, &buffer));
	CHECK(text_has("dma-buf"));
	CHECK(!buffer);
	close(memfd);
	close(fds[0]);
	close(fds[1]);
}

static void test_names(void)
{
	struct hm_device *device = NULL;

	CHECK_ERROR(-ENODEV, hm_device_open("heap:no/such", &device));
	CHECK_ERROR(-ENODEV, hm_device_open("heap:nosuch", &device));
	CHECK_ERROR(-ENODEV, hm_device_open("heap", &device));
	CHECK_ERROR(-ENODEV, hm_device_open("heap:..", &device));
	CHECK_ERROR(-ENODEV, hm_device_open("udmabuf:1", &device));
	CHECK(!device);
}

/* One that is not there has its reason and its remedy. */
static void test_absent(void)
{
	static const char *const names[] = { "heap:system", "udmabuf", "sim:0" };
	size_t i;
	int r;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO(hm_device) *device = NULL;
		test_forget_text();
		r = hm_device_open(names[i], &device);
		CHECK(r == 0 || (r == -ENODEV && (strstr(hm_errmsg(), "modprobe") ||
						  strstr(hm_errmsg(), "insmod"))));
		CHECK(!r == (device != NULL));
	}
}

/* ---- sizes and rights ---- */

static void test_size_mismatch(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = SIZE + 1 };
	struct hm_buffer *other = NULL;
	AUTO(hm_device) *device = rig_device("heap:system");
	AUTO(hm_buffer) *buffer = make(device, SIZE);
	int fd = export_of(buffer);

	CHECK_ERROR(-EINVAL, hm_buffer_import(device, fd, &desc, &other));
	CHECK(text_has("16384") && text_has("16385"));
	CHECK(!other);
	desc.size = 100;
	CHECK_OK_FATAL(hm_buffer_import(device, fd, &desc, &other));
	CHECK_EQUAL(buffer_info(other).size, 100);
	hm_buffer_unref(other);
	/* All at once, or the kernel would kill a process for it. */
	desc.size = GIB(1024);
	other = NULL;
	CHECK_ERROR(-ENOMEM, hm_buffer_create(device, &desc, &other));
	CHECK(text_has("heap:system") && text_has("ENOMEM") && text_has("available"));
	CHECK(!other);
	close(fd);
}

/* Exported read-only first and wanted writable later. */
static void test_read_only(void)
{
	const struct hm_buffer_desc reader = { .struct_size = sizeof(reader),
					       .flags = HM_BUFFER_READ_ONLY };
	int fd, again = -7;
	AUTO(hm_device) *sim = rig_device("sim:0");
	AUTO(hm_device) *host = rig_device("host");
	AUTO(hm_buffer) *buffer = make(sim, SIZE);
	AUTO(hm_buffer) *other = NULL;
	AUTO(hm_map) *map = NULL;

	CHECK_OK_FATAL(hm_buffer_export(buffer, HM_EXPORT_READ_ONLY | HM_EXPORT_DMABUF, &fd));
	CHECK_ERROR(-EACCES, hm_buffer_import(host, fd, NULL, &other));
	CHECK(strstr(hm_errmsg(), "HM_BUFFER_READ_ONLY"));
	CHECK_OK_FATAL(hm_buffer_import(host, fd, &reader, &other));
	CHECK_EQUAL(buffer_info(other).access, HM_READ);
	CHECK(buffer_info(other).flags & HM_BUFFER_READ_ONLY);
	CHECK_ERROR(-EACCES,
		    hm_map_create(other, DESC(hm_map_desc, .access = HM_READ | HM_WRITE),
				  &map));
	map = rig_map(other, NULL);
	CHECK_ERROR(-EACCES, hm_map_protect(map, 0, SIZE, HM_READ | HM_WRITE));
	CHECK_EQUAL(test_write_signal(hm_map_address(map)), SIGSEGV);
	/* The buffer stays read-only. */
	CHECK_OK_FATAL(hm_buffer_export(other, 0, &again));
	CHECK(mmap(NULL, SIZE, PROT_WRITE, MAP_SHARED, again, 0) == MAP_FAILED);
	close(again);
	close(fd);
}

static void test_too_large(void)
{
	uint64_t limit;
	int fd = -7;
	AUTO(hm_device) *device = rig_device("udmabuf");

	CHECK_FATAL(proc_number("/sys/module/udmabuf/parameters/size_limit_mb", &limit));
	AUTO(hm_buffer) *buffer = make(device, MIB(limit + 1));
	CHECK_ERROR(-E2BIG, hm_buffer_export(buffer, 0, &fd));
	CHECK(text_has("udmabuf") && text_has("E2BIG") && text_has("size_limit_mb"));
	CHECK_EQUAL(fd, -7);
	CHECK_EQUAL(buffer_info(buffer).exported, 0);
}

/* A sealed memfd becomes no dma-buf, and a dma-buf's memfd gives no page back. */
static void test_seals(void)
{
	int fd, dmabuf = -7;
	AUTO(hm_device) *udmabuf = rig_device("udmabuf");
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *buffer = make(device, SIZE);

	CHECK_OK_FATAL(hm_buffer_export(buffer, HM_EXPORT_READ_ONLY, &fd));
	CHECK_ERROR(-EPERM, hm_buffer_export(buffer, HM_EXPORT_DMABUF, &dmabuf));
	CHECK_EQUAL(dmabuf, -7);
	CHECK_OK(hm_buffer_export(buffer, HM_EXPORT_READ_ONLY, &dmabuf));
	close(dmabuf);
	CHECK_ERROR(-EOPNOTSUPP,
		    hm_buffer_export(buffer, HM_EXPORT_READ_ONLY | HM_EXPORT_DMABUF, &dmabuf));
	close(fd);
}

/* ---- lifetimes ---- */

/* Its descriptor's number is another file's now: brackets say so, the map lives on. */
static void test_closed_behind(void)
{
	int number, kept;
	AUTO(rig) r = rig_make("heap:system", DESC(hm_buffer_desc, .size = SIZE));

	pattern_write(hm_map_address(r.map), 0, SIZE, 1);
	close(export_of(r.buffer)); /* brackets make no call without another holder */
	number = r.buffer->segment[0].fd;
	kept = dup(number);
	CHECK_FATAL(kept >= 0 && dup3(STDIN_FILENO, number, O_CLOEXEC) == number);
	CHECK_ERROR(-EBADF, hm_map_begin_cpu(r.map, 0, SIZE, HM_READ));
	CHECK(text_has("EBADF") && text_has("code outside the library closed it"));
	CHECK_EQUAL(map_info(r.map, 0).brackets, 0);
	CHECK(pattern_holds(hm_map_address(r.map), 0, SIZE, 1));
	CHECK_FATAL(dup3(kept, number, O_CLOEXEC) == number);
	CHECK_OK(hm_map_begin_cpu(r.map, 0, SIZE, HM_READ));
	CHECK_OK(hm_map_end_cpu(r.map, 0, SIZE, HM_READ));
	close(kept);
}

static void test_outlives(void)
{
	struct hm_buffer *buffer, *other;
	struct hm_device *device, *host;
	int fd;

	device = rig_device("heap:system");
	host = rig_device("host");
	buffer = make(device, SIZE);
	fd = export_of(buffer);
	CHECK_OK_FATAL(hm_buffer_import(host, fd, NULL, &other));
	AUTO(hm_map) *map = rig_map(other, NULL);
	close(fd);
	hm_buffer_unref(other);
	hm_buffer_unref(buffer);
	hm_device_unref(host);
	hm_device_unref(device);
	CHECK(is_zero(hm_map_address(map), 0, SIZE));
	pattern_write(hm_map_address(map), 0, SIZE, 1);
	CHECK_OK(hm_map_begin_cpu(map, 0, SIZE, HM_READ));
	CHECK(pattern_holds(hm_map_address(map), 0, SIZE, 1));
	CHECK_OK(hm_map_end_cpu(map, 0, SIZE, HM_READ));
}

/* No importer: a thousand exports leave nothing behind. */
static void exports(const char *name)
{
	uint64_t before, after;
	unsigned int i;
	AUTO(hm_device) *device = rig_device(name);

	before = meminfo_read("MemAvailable");
	for (i = 0; i < THOUSAND; i++) {
		AUTO(hm_buffer) *buffer = make(device, MIB(1));
		close(export_of(buffer));
	}
	after = meminfo_read("MemAvailable");
	/* A thousand MiB were made. */
	CHECK(after + MIB(100) > before);
}

static void test_exports_heap(void)
{
	exports("heap:system");
}

static void test_exports_udmabuf(void)
{
	exports("udmabuf");
}

static void test_exports_sim(void)
{
	exports("sim:0");
}

struct peers {
	int socket[2];
	const char *device;
};

static void peers_open(struct peers *peers, const char *device)
{
	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, peers->socket));
	peers->device = device;
}

static void peers_close(struct peers *peers)
{
	close(peers->socket[0]);
	close(peers->socket[1]);
}

static void die(void)
{
	kill(getpid(), SIGKILL);
}

static void child_exports(void *user)
{
	struct peers *peers = user;
	struct hm_device *device;
	struct hm_buffer *buffer;

	CHECK_OK_FATAL(hm_device_open(peers->device, &device));
	buffer = make(device, SIZE);
	pattern_write(hm_map_address(rig_map(buffer, NULL)), 0, SIZE, 1);
	send_fd(peers->socket[1], export_of(buffer));
	die();
}

static void child_imports(void *user)
{
	struct peers *peers = user;
	int fd = receive_fd(peers->socket[1]);
	struct hm_buffer *buffer;
	char *bytes;
	struct hm_device *host = rig_device("host");

	CHECK_OK_FATAL(hm_buffer_import(host, fd, NULL, &buffer));
	bytes = hm_map_address(rig_map(buffer, NULL));
	CHECK(pattern_holds(bytes, 0, SIZE, 1));
	pattern_write(bytes, 0, SIZE, 2);
	die();
}

static void exporter_first(const char *name)
{
	struct hm_device *device, *host;
	struct hm_buffer *buffer;
	struct peers peers;
	struct hm_map *map;
	int fd;

	device = rig_device(name);
	hm_device_unref(device);
	peers_open(&peers, name);
	CHECK_EQUAL(test_fork(child_exports, &peers), SIGKILL);
	fd = receive_fd(peers.socket[0]);
	host = rig_device("host");
	CHECK_OK_FATAL(hm_buffer_import(host, fd, NULL, &buffer));
	map = rig_map(buffer, NULL);
	CHECK(pattern_holds(hm_map_address(map), 0, SIZE, 1));
	pattern_write(hm_map_address(map), 0, SIZE, 2);
	CHECK(pattern_holds(hm_map_address(map), 0, SIZE, 2));
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(host);
	close(fd);
	peers_close(&peers);
}

static void importer_first(const char *name)
{
	struct peers peers;
	int fd;
	struct hm_device *device = rig_device(name);
	struct hm_buffer *buffer = make(device, SIZE);
	struct hm_map *map = rig_map(buffer, NULL);

	pattern_write(hm_map_address(map), 0, SIZE, 1);
	fd = export_of(buffer);
	peers_open(&peers, name);
	send_fd(peers.socket[0], fd);
	close(fd);
	CHECK_EQUAL(test_fork(child_imports, &peers), SIGKILL);
	CHECK(pattern_holds(hm_map_address(map), 0, SIZE, 2));
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	peers_close(&peers);
}

static void test_exporter_dies_heap(void)
{
	exporter_first("heap:system");
}

static void test_exporter_dies_udmabuf(void)
{
	exporter_first("udmabuf");
}

static void test_exporter_dies_sim(void)
{
	exporter_first("sim:0");
}

static void test_importer_dies_heap(void)
{
	importer_first("heap:system");
}

static void test_importer_dies_udmabuf(void)
{
	importer_first("udmabuf");
}

static void test_importer_dies_sim(void)
{
	importer_first("sim:0");
}

/* ---- a buffer of several dma-bufs ---- */

static unsigned int n_begun, n_ended;

/* The second of them can't be begun. */
static int play_sync(int fd, unsigned long cmd, void *argument)
{
	const struct dma_buf_sync *sync = argument;

	(void)fd;
	if (cmd != DMA_BUF_IOCTL_SYNC || !(sync->flags & DMA_BUF_SYNC_RW)) {
		errno = EINVAL;
		return -1;
	}
	if (sync->flags & DMA_BUF_SYNC_END) {
		n_ended++;
	} else if (++n_begun == 2) {
		errno = EIO;
		return -1;
	}
	return 0;
}

/* If a later begin fails, the earlier ones are ended. */
static void test_second_fails(void)
{
	int (*before)(int fd, unsigned long cmd, void *argument) = sys_table.ioctl;
	const struct hm_segment segments[] = {
		{ .length = 4096, .flags = HM_SEGMENT_SHARED },
		{ .offset = 4096, .length = 4096, .flags = HM_SEGMENT_DMABUF },
		{ .offset = 8192, .length = 4096, .flags = HM_SEGMENT_DMABUF },
	};

	n_begun = 0;
	n_ended = 0;
	sys_table.ioctl = play_sync;
	CHECK_ERROR(-EIO,
		    dmabuf_segments_begin(NULL, segments, 3, 0, 12288, HM_READ | HM_WRITE));
	CHECK_EQUAL(n_begun, 2);
	CHECK_EQUAL(n_ended, 1);
	/* A range in one of them does not ask the other. */
	n_begun = 2;
	CHECK_OK(dmabuf_segments_begin(NULL, segments, 3, 8192, 1, HM_READ));
	CHECK_EQUAL(n_begun, 3);
	sys_table.ioctl = before;
}

static unsigned int n_calls, n_interrupted;

static int play_interrupted(int fd, unsigned long cmd, void *argument)
{
	(void)fd, (void)cmd, (void)argument;
	errno = n_calls % 2 ? EAGAIN : EINTR;
	return n_calls++ < n_interrupted ? -1 : 0;
}

/* Called again, and not for ever. */
static void test_interrupted(void)
{
	int (*before)(int fd, unsigned long cmd, void *argument) = sys_table.ioctl;
	int r;

	sys_table.ioctl = play_interrupted;
	n_calls = 0;
	n_interrupted = 3;
	CHECK_OK(dmabuf_begin_cpu(7, HM_READ));
	CHECK_EQUAL(n_calls, 4);
	n_calls = 0;
	n_interrupted = UINT_MAX;
	r = dmabuf_begin_cpu(7, HM_READ);
	sys_table.ioctl = before;
	CHECK(r == -EINTR || r == -EAGAIN);
	CHECK(n_calls > 10 && n_calls <= 1000);
}

/* Whatever the kernel's udmabuf says to it: some look at F_SEAL_WRITE only. */
static void test_sealed(void)
{
	int fd = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING), dmabuf = -1;

	CHECK_FATAL(fd >= 0 && !ftruncate(fd, 4096));
	CHECK_FATAL(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE));
	CHECK_ERROR(-EPERM, udmabuf_create(fd, 4096, &dmabuf));
	CHECK_EQUAL(dmabuf, -1);
	close(fd);
}

/*
 * A udmabuf whose mmap() shows other pages than those of the memfd, zeros: the library finds
 * out before it hands out a byte of the user's. Played: the node is any file, and its dma-buf
 * of a memfd is one, the same or another.
 */
static int play_as;

static int open_played(const char *path, int flags, mode_t mode)
{
	return strcmp(path, "/dev/udmabuf") != 0 ? open(path, flags, mode) :
						   memfd_create("node", MFD_CLOEXEC);
}

static int make_played(int fd, unsigned long cmd, void *argument)
{
	const struct udmabuf_create *create = argument;

	if (cmd != UDMABUF_CREATE)
		return ioctl(fd, cmd, argument);
	return fcntl(play_as < 0 ? (int)create->memfd : play_as, F_DUPFD_CLOEXEC, 0);
}

static void test_shows_zeros(void)
{
	int memory = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING), dmabuf = -1;
	int zeros = memfd_create("zeros", MFD_CLOEXEC);

	CHECK_FATAL(memory >= 0 && !ftruncate(memory, 4096));
	CHECK_FATAL(zeros >= 0 && !ftruncate(zeros, 4096));
	sys_table.open = open_played;
	sys_table.ioctl = make_played;
	play_as = zeros;
	CHECK_ERROR(-EIO, udmabuf_create(memory, 4096, &dmabuf));
	CHECK(text_has("other bytes"));
	/* Each dma-buf is tested anew, and the last one is good. */
	CHECK_ERROR(-EIO, udmabuf_create(memory, 4096, &dmabuf));
	CHECK_EQUAL(dmabuf, -1);
	play_as = -1;
	CHECK_OK(udmabuf_create(memory, 4096, &dmabuf));
	close(dmabuf);
	close(zeros);
	close(memory);
}

/* The kernel's own, which is told to take another memfd. */
static int swap_memfd(int fd, unsigned long cmd, void *argument)
{
	struct udmabuf_create other;

	if (cmd != UDMABUF_CREATE)
		return ioctl(fd, cmd, argument);
	other = *(struct udmabuf_create *)argument;
	other.memfd = (uint32_t)play_as;
	return ioctl(fd, cmd, &other);
}

static void test_shows_others(void)
{
	int (*before)(int fd, unsigned long cmd, void *argument) = sys_table.ioctl;
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *buffer = make(device, SIZE);
	int fd = -1;

	play_as = memfd_create("others", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK_FATAL(play_as >= 0 && !ftruncate(play_as, SIZE));
	CHECK_FATAL(!fcntl(play_as, F_ADD_SEALS, F_SEAL_SHRINK));
	sys_table.ioctl = swap_memfd;
	CHECK_ERROR(-EIO, hm_buffer_export(buffer, HM_EXPORT_DMABUF, &fd));
	CHECK(text_has("other bytes"));
	CHECK_EQUAL(fd, -1);
	sys_table.ioctl = before;
	CHECK_OK(hm_buffer_export(buffer, HM_EXPORT_DMABUF, &fd));
	close(fd);
	close(play_as);
}

static const struct dmabuf_test tests[] = {
	{ "host", { "absent", test_absent, 0, 0 } },
	{ "heap:system", { "calls_heap", test_calls_heap, 0, 0 } },
	{ "udmabuf", { "calls_udmabuf", test_calls_udmabuf, 0, 0 } },
	{ "sim:0", { "calls_sim", test_calls_sim, 0, 0 } },
	{ "host", { "no_dmabuf", test_no_dmabuf, 0, 0 } },
	{ "host", { "names", test_names, 0, 0 } },
	{ "host", { "second_fails", test_second_fails, 0, 0 } },
	{ "host", { "interrupted", test_interrupted, 0, 0 } },
	{ "host", { "sealed", test_sealed, 0, 0 } },
	{ "host", { "shows_zeros", test_shows_zeros, 0, TEST_ONCE } },
	{ "udmabuf", { "shows_others", test_shows_others, 0, TEST_ONCE } },
	{ "heap:system", { "size_mismatch", test_size_mismatch, 0, 0 } },
	{ "sim:0", { "read_only", test_read_only, 0, 0 } },
	{ "udmabuf", { "too_large", test_too_large, 0, 0 } },
	{ "udmabuf", { "seals", test_seals, 0, 0 } },
	{ "heap:system", { "closed_behind", test_closed_behind, 0, 0 } },
	{ "heap:system", { "outlives", test_outlives, 0, 0 } },
	{ "heap:system", { "exports_heap", test_exports_heap, 60, 0 } },
	{ "udmabuf", { "exports_udmabuf", test_exports_udmabuf, 60, 0 } },
	{ "sim:0", { "exports_sim", test_exports_sim, 60, 0 } },
	{ "heap:system", { "exporter_dies_heap", test_exporter_dies_heap, 0, 0 } },
	{ "udmabuf", { "exporter_dies_udmabuf", test_exporter_dies_udmabuf, 0, 0 } },
	{ "sim:0", { "exporter_dies_sim", test_exporter_dies_sim, 0, 0 } },
	{ "heap:system", { "importer_dies_heap", test_importer_dies_heap, 0, 0 } },
	{ "udmabuf", { "importer_dies_udmabuf", test_importer_dies_udmabuf, 0, 0 } },
	{ "sim:0", { "importer_dies_sim", test_importer_dies_sim, 0, 0 } },
	{ NULL, { NULL, NULL, 0, 0 } },
};

TEST_MAIN(dmabuf_main, "dmabuf", tests)
