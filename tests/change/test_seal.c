// SPDX-License-Identifier: MIT
/*
 * Write-once buffers: after hm_buffer_seal() no call, of the library's or of the
 * kernel's, and no process changes the bytes; before, and when it fails, all is as it was.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accel/accel_support.h"
#include "map/retire_support.h"
#include "change/seal_support.h"
#include "base/sys.h"
#include "base/util.h"

#define NUMBER_MSEAL 462

static void sealed(void)
{
	struct hm_map_desc desc = { .struct_size = sizeof(desc), .access = RW };
	struct hm_map *further = NULL;
	int fd;
	AUTO(seal_world) w = seal_begin();

	CHECK_OK(hm_map_lock(w.map, 0, 4 * PAGE, 0, NULL));
	CHECK_OK_FATAL(hm_buffer_seal(w.buffer, 0));
	seal_check_sealed(&w);
	CHECK_EQUAL(map_info(w.map, HM_MAP_LOCKED).locked, 4 * PAGE);
	CHECK_EQUAL(map_info(w.map, 0).runs, 1);
	CHECK_OK(hm_buffer_seal(w.buffer, 0));
	/* The library's own ways. */
	CHECK_ERROR(-EACCES, hm_map_protect(w.map, 0, PAGE, RW));
	CHECK_ERROR(-EACCES, hm_map_create(w.buffer, &desc, &further));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_resize(w.buffer, PAGE, 0));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_resize(w.buffer, 12 * PAGE, 0));
	CHECK_ERROR(-EACCES, hm_map_begin_cpu(w.map, 0, PAGE, HM_WRITE));
	CHECK_OK(hm_map_protect(w.map, 0, PAGE, HM_NONE));
	CHECK_OK(hm_map_protect(w.map, 0, PAGE, HM_READ));
	desc.access = HM_READ;
	CHECK_OK_FATAL(hm_map_create(w.buffer, &desc, &further));
	CHECK(pattern_holds(hm_map_address(further), 0, SIZE, 3));
	hm_map_unref(further);
	CHECK_OK_FATAL(hm_map_create(w.buffer, NULL, &further));
	CHECK_EQUAL(map_info(further, 0).access, HM_READ);
	hm_map_unref(further);
	/* An export from here on is read-only, on kernels that map no other. */
	CHECK_OK_FATAL(hm_buffer_export(w.buffer, HM_EXPORT_READ_ONLY, &fd));
	CHECK_EQUAL(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	close(fd);
	/* With udmabuf or without: the seal stands against it. */
	CHECK_ERROR(-EPERM, hm_buffer_export(w.buffer, HM_EXPORT_DMABUF, &fd));
	CHECK(strstr(hm_errmsg(), "hm_buffer_seal"));
}

/* Parts without access stay so, whatever scopes end afterwards. */
static void rights(void)
{
	struct hm_scope *scope;
	AUTO(seal_world) w = seal_begin();
	char *bytes = hm_map_address(w.map);

	CHECK_OK(hm_map_protect(w.map, 5 * PAGE, PAGE, HM_NONE));
	CHECK_OK_FATAL(hm_map_protect_begin(w.map, 0, 2 * PAGE, HM_NONE, &scope));
	CHECK_OK_FATAL(hm_buffer_seal(w.buffer, 0));
	CHECK_EQUAL(test_read_signal(bytes), SIGSEGV);
	CHECK_EQUAL(test_read_signal(bytes + 5 * PAGE), SIGSEGV);
	CHECK_OK(hm_map_protect_end(scope));
	CHECK_OK(hm_map_protect(w.map, 5 * PAGE, PAGE, HM_READ));
	seal_check_sealed(&w);
}

static void sent(void)
{
	int sockets[2];
	AUTO(seal_world) w = seal_begin();
	AUTO(hm_buffer) *received = NULL;

	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets));
	CHECK_OK_FATAL(hm_buffer_seal(w.buffer, 0));
	CHECK_OK_FATAL(hm_buffer_send(w.buffer, sockets[0], 0));
	CHECK_OK_FATAL(hm_buffer_receive(w.device, sockets[1], NULL, &received));
	CHECK_EQUAL(buffer_info(received).access, HM_READ);
	AUTO(hm_map) *map = rig_map(received, NULL);
	CHECK(pattern_holds(hm_map_address(map), 0, SIZE, 3));
	CHECK_EQUAL(test_write_signal(hm_map_address(map)), SIGSEGV);
	CHECK_ERROR(-EACCES, hm_buffer_seal(received, 0));
	close(sockets[0]);
	close(sockets[1]);
}

/* ---- mappings that could still write ---- */

static void others(void)
{
	char *raw, byte;
	int pipes[2];
	pid_t child;
	AUTO(seal_world) w = seal_begin();

	raw = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, w.fd, 0);
	CHECK_FATAL(raw != MAP_FAILED);
	/* The mapping may only read, but could come to write. */
	CHECK_ERROR(-EBUSY, hm_buffer_seal(w.buffer, 0));
	seal_check_whole(&w);
	munmap(raw, PAGE);
	CHECK_FATAL(!pipe(pipes));
	child = fork();
	if (!child) {
		close(pipes[1]);
		_exit(read(pipes[0], &byte, 1) != 0);
	}
	close(pipes[0]);
	CHECK_ERROR(-EBUSY, hm_buffer_seal(w.buffer, HM_SEAL_ADDRESSES));
	CHECK(strstr(hm_errmsg(), "fork child"));
	seal_check_whole(&w);
	close(pipes[1]);
	CHECK(waitpid(child, NULL, 0) == child);
	CHECK_OK(hm_buffer_resize(w.buffer, 4 * PAGE, 0) == -EBUSY ? 0 : -1);
	CHECK_OK_FATAL(hm_buffer_seal(w.buffer, 0));
	seal_check_sealed(&w);
}

/* ---- a shadow, which maps the memory, too ---- */

static const struct hm_loss_desc with_shadow = {
	.struct_size = sizeof(with_shadow),
	.policy = HM_LOSS_SHADOW,
};

static void shadowed(void)
{
	char *raw;
	AUTO(seal_world) w = seal_begin();

	CHECK_OK_FATAL(hm_buffer_set_loss(w.buffer, &with_shadow));
	raw = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, w.fd, 0);
	CHECK_FATAL(raw != MAP_FAILED);
	CHECK_ERROR(-EBUSY, hm_buffer_seal(w.buffer, 0));
	CHECK_OK(hm_buffer_shadow(w.buffer, 0, SIZE));
	seal_check_whole(&w);
	munmap(raw, PAGE);
	CHECK_OK_FATAL(hm_buffer_seal(w.buffer, 0));
	seal_check_sealed(&w);
	/* The shadow goes on, and stores to the bytes only by the maps. */
	CHECK_OK(hm_buffer_shadow(w.buffer, 0, SIZE));
	CHECK_OK(hm_buffer_set_loss(w.buffer, &with_shadow));
	seal_check_sealed(&w);
	CHECK_EQUAL(buffer_info(w.buffer).lost, 0);
}

struct refresher {
	struct hm_buffer *buffer;
	_Atomic bool stop;
	_Atomic uint64_t rounds;
};

static void *refresh_on(void *user)
{
	struct refresher *refresher = user;

	while (!refresher->stop) {
		CHECK_EQUAL(hm_buffer_shadow(refresher->buffer, 0, SIZE), 0);
		refresher->rounds++;
	}
	return NULL;
}

/* A refresh at any moment of the seal: it is no foreign mapping of the memory. */
static void shadowed_meanwhile(void)
{
	struct refresher refresher;
	pthread_t thread;
	int i;

	for (i = 0; i < 40; i++) {
		AUTO(seal_world) w = seal_begin();
		CHECK_OK_FATAL(hm_buffer_set_loss(w.buffer, &with_shadow));
		refresher = (struct refresher){ .buffer = w.buffer };
		CHECK_FATAL(!pthread_create(&thread, NULL, refresh_on, &refresher));
		while (!refresher.rounds)
			sched_yield();
		CHECK_OK(hm_buffer_seal(w.buffer, 0));
		refresher.stop = true;
		pthread_join(thread, NULL);
	}
}

/* ---- a map that waits for its release ---- */

static struct section section;
static int (*kernels_fcntl)(int fd, int command, long argument);

/* Until it was asked once nothing is released. */
static int end_section_after(int fd, int command, long argument)
{
	int r = kernels_fcntl(fd, command, argument), error = errno;

	if (command == F_ADD_SEALS) {
		sys_table.fcntl = kernels_fcntl;
		section_end(&section);
	}
	errno = error;
	return r;
}

static void check_retired(bool is_one_way)
{
	struct hm_map *dropped;
	int fd;
	AUTO(seal_world) w = seal_begin();

	CHECK_OK_FATAL(hm_map_create(w.buffer, NULL, &dropped));
	if (is_one_way) {
		CHECK_OK_FATAL(hm_buffer_export(w.buffer, HM_EXPORT_READ_ONLY, &fd));
		close(fd);
	}
	defer(8, MIB(64));
	section_begin(&section);
	hm_map_unref(dropped);
	kernels_fcntl = sys_table.fcntl;
	sys_table.fcntl = end_section_after;
	CHECK_OK_FATAL(hm_buffer_seal(w.buffer, 0));
	CHECK(sys_table.fcntl == kernels_fcntl && !*hm_errmsg());
	seal_check_sealed(&w);
	defer(0, 0);
}

static void retired(void)
{
	check_retired(false);
	check_retired(true);
}

struct reader {
	const char *bytes;
	_Atomic bool stop, bad;
	_Atomic uint64_t rounds;
};

static void *read_on(void *user)
{
	struct reader *reader = user;

	while (!reader->stop) {
		if (!pattern_holds(reader->bytes, 0, SIZE, 3))
			reader->bad = true;
		reader->rounds++;
	}
	return NULL;
}

/* A reader sees the bytes all the time, also while a seal fails and is undone. */
static void read_meanwhile(void)
{
	struct reader reader = { 0 };
	pthread_t thread;
	char *raw;
	int i;

	if (TEST_TSAN) {
		test_skip("sanitizer", "it takes a mapping over another for a store");
		return;
	}
	AUTO(seal_world) w = seal_begin();
	reader.bytes = hm_map_address(w.map);
	CHECK_FATAL(!pthread_create(&thread, NULL, read_on, &reader));
	for (i = 0; i < 60; i++) {
		raw = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, w.fd, 0);
		CHECK_ERROR(-EBUSY, hm_buffer_seal(w.buffer, 0));
		munmap(raw, PAGE);
	}
	CHECK_OK(hm_buffer_seal(w.buffer, 0));
	reader.stop = true;
	pthread_join(thread, NULL);
	CHECK(!reader.bad);
	seal_check_sealed(&w);
}

/* ---- memory without seals ---- */

static void kinds(void)
{
	const struct {
		const char *device;
		uint32_t flags;
		int r;
		const char *says;
	} rows[] = {
		{ "host", HM_BUFFER_PRIVATE, -EOPNOTSUPP, "private memory" },
		{ "soft:0", 0, -EOPNOTSUPP, "a device's" },
	};
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = PAGE };
	struct hm_buffer *buffer;
	struct hm_device *device;
	size_t i;
	int fd;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		desc.flags = rows[i].flags;
		CHECK_OK_FATAL(hm_device_open(rows[i].device, &device));
		CHECK_OK_FATAL(hm_buffer_create(device, &desc, &buffer));
		AUTO(hm_map) *map = rig_map(buffer, NULL);
		CHECK_ERROR(rows[i].r, hm_buffer_seal(buffer, 0));
		CHECK(strstr(hm_errmsg(), rows[i].says));
		CHECK_EQUAL(test_write_signal(hm_map_address(map)), 0);
		hm_buffer_unref(buffer);
		hm_device_unref(device);
	}
	CHECK_OK_FATAL(hm_device_open("file", &device));
	fd = scratch_file(PAGE);
	CHECK_OK_FATAL(hm_buffer_from_file(device, NULL, fd, NULL, &buffer));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_seal(buffer, 0));
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	close(fd);
	AUTO(seal_world) w = seal_begin();
	CHECK_ERROR(-EINVAL, hm_buffer_seal(NULL, 0));
	CHECK_ERROR(-EINVAL, hm_buffer_seal(w.buffer, 2));
	CHECK_OK(hm_buffer_resize(w.buffer, 9 * PAGE, HM_GROW_REPLACE) == -EBUSY ? 0 : -1);
}

/* Several objects. */
static void appended(void)
{
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *buffer =
		rig_buffer(device, DESC(hm_buffer_desc, .size = PAGE, .max_size = 4 * PAGE));

	CHECK_OK_FATAL(hm_buffer_resize(buffer, 2 * PAGE, HM_GROW_APPEND));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_seal(buffer, 0));
	CHECK(strstr(hm_errmsg(), "several"));
}

/* ---- accelerators, and callbacks ---- */

static void launches(const char *accel)
{
	struct hm_fence *fence = NULL;
	struct hm_pointer_info info;
	uint32_t *p, *q;
	struct accel_rig rig;

	accel_rig_open(&rig, accel, 0, 0);
	p = alloc_bytes(&rig, PAGE);
	q = alloc_bytes(&rig, PAGE);
	RUN(&rig, FILL, PAGE / 4, HM_OUT(p), HM_U32(7));
	CHECK_OK_FATAL(hm_pointer_find(p, &info));
	CHECK_OK_FATAL(hm_buffer_seal(info.buffer, 0));
	CHECK_ERROR(-EACCES, hm_launch(rig.queue, rig.kernel[FILL], PAGE / 4, &fence, HM_OUT(p),
				       HM_U32(8)));
	CHECK(text_has("kernel fill, argument 0"));
	CHECK_ERROR(-EACCES, hm_queue_copy(rig.queue, p, q, PAGE, &fence));
	CHECK_OK_FATAL(hm_queue_copy(rig.queue, q, p, PAGE, &fence));
	finish(fence);
	CHECK_EQUAL(q[PAGE / 4 - 1], 7);
	CHECK_OK(hm_free(p));
	CHECK_OK(hm_free(q));
	accel_rig_close(&rig);
}

static void on_cpu(void)
{
	launches("cpu");
}

static void on_pocl(void)
{
	if (use_pocl("basic"))
		launches("opencl:0");
}

static void on_stub(void)
{
	use_stub("");
	launches("opencl:0");
}

static int refuse(void *user, const struct hm_view_change *change)
{
	struct seal_world *w = user;

	CHECK_EQUAL(change->new_access, HM_READ);
	CHECK_ERROR(-EDEADLK, hm_buffer_seal(w->buffer, 0));
	return -EAGAIN;
}

static void refused(void)
{
	const struct hm_view_ops ops = { .struct_size = sizeof(ops), .quiesce = refuse };
	struct hm_view *view;
	AUTO(seal_world) w = seal_begin();

	CHECK_OK_FATAL(hm_view_create(w.part, 0, 0, &ops, &w, &view));
	CHECK_ERROR(-EBUSY, hm_buffer_seal(w.buffer, 0));
	seal_check_whole(&w);
	hm_view_unref(view);
	CHECK_OK(hm_buffer_seal(w.buffer, 0));
	seal_check_sealed(&w);
}

/* ---- addresses, for good: in a child, whose end is the only way back ---- */

static void keep_addresses(void *user)
{
	bool known = !syscall(NUMBER_MSEAL, 0, 0, 0);
	struct seal_world w;
	char *bytes;

	(void)user;
	w = seal_begin();
	bytes = hm_map_address(w.map);
	CHECK_OK_FATAL(hm_buffer_seal(w.buffer, HM_SEAL_ADDRESSES));
	seal_check_sealed(&w);
	CHECK_EQUAL(buffer_info(w.buffer).sealed,
		    HM_SEALED_MEMORY | (known ? HM_SEALED_ADDRESSES : 0));
	if (!known) {
		CHECK(strstr(hm_errmsg(), "6.10"));
		return;
	}
	CHECK(munmap(bytes, PAGE) == -1 && errno == EPERM);
	CHECK(mprotect(bytes, PAGE, PROT_NONE) == -1 && errno == EPERM);
	CHECK_ERROR(-EPERM, hm_map_protect(w.map, 0, PAGE, HM_NONE));
	seal_end(&w);
	CHECK(pattern_holds(bytes, 0, SIZE, 3));
}

static void addresses(void)
{
	CHECK_EQUAL(test_fork(keep_addresses, NULL), 0);
}

/* ---- bytes that were lost ---- */

/* Its first page is a SIGBUS from here on, as where memory has failed. */
static void take_page(char *bytes)
{
	int fd = memfd_create("empty", MFD_CLOEXEC);

	CHECK_FATAL(fd >= 0);
	CHECK_FATAL(mmap(bytes, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED);
	close(fd);
}

/* A sealed map shows its buffer again where a block was replaced: so it may be once more. */
static void repaired(void)
{
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(seal_world) w = seal_begin();
	volatile char *bytes = hm_map_address(w.map);

	take_page((char *)bytes);
	CHECK_EQUAL(bytes[1], 0);
	CHECK_ERROR(-EIO, hm_map_begin_cpu(w.map, 0, SIZE, HM_READ));
	CHECK_OK(hm_buffer_seal(w.buffer, 0));
	seal_check_sealed(&w);
	/* A reader that had read the zeros gets an error all the same. */
	CHECK_ERROR(-EIO, hm_map_begin_cpu(w.map, 0, SIZE, HM_READ));
	take_page((char *)bytes);
	CHECK_EQUAL(bytes[1], 0);
	CHECK_ERROR(-EIO, hm_map_begin_cpu(w.map, 0, SIZE, HM_READ));
}

static const struct test tests[] = {
	{ "sealed", sealed, 0, 0 },
	{ "rights", rights, 0, 0 },
	{ "sent", sent, 0, 0 },
	{ "others", others, 0, 0 },
	{ "shadowed", shadowed, 0, 0 },
	{ "shadowed_meanwhile", shadowed_meanwhile, 60, 0 },
	{ "retired", retired, 0, 0 },
	{ "read_meanwhile", read_meanwhile, 60, 0 },
	{ "kinds", kinds, 0, 0 },
	{ "appended", appended, 0, 0 },
	{ "on_cpu", on_cpu, 0, 0 },
	{ "on_pocl", on_pocl, 60, 0 },
	{ "on_stub", on_stub, 60, 0 },
	{ "refused", refused, 0, 0 },
	{ "addresses", addresses, 0, 0 },
	{ "repaired", repaired, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "seal", tests)
