// SPDX-License-Identifier: MIT
/* soft:N: settings, sharing, hooks, forks, limits of the process: all that only the twin has. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <hetmap/base.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "lib/inject.h"
#include "soft/soft.h"

static void test_settings(void)
{
	static const char *const wrong[] = {
		"nonsense",    "nonsense=1",
		"vram_mb",     "vram_mb=",
		"vram_mb=0",   "vram_mb=-1",
		"devices=0",   "devices=17",
		"vram_mb=12x", "vram_mb=0x10",
		"kind=",       "kind=gp",
		"kind=gpus",   "kind=gpu test=2",
		"=1",          "vram_mb=1 =",
		"test=1;",     "system_mb=1048577",
		"vram_m=1",    "vram_mb=99999999999999999999",
		"bar_mb=1025", "bar_mb=8 vram_mb=7",
	};
	struct soft_file *file = NULL;
	struct hetsim_query query;
	size_t i;
	int fd;

	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		setenv("HETMAP_SOFT", wrong[i], 1);
		test_forget_text();
		if (soft_open(0, O_RDWR, NULL, NULL, &file) != -EINVAL)
			test_fail(__FILE__, __LINE__, "HETMAP_SOFT=\"%s\" was taken", wrong[i]);
		CHECK(strncmp(hm_errmsg(), "HETMAP_SOFT: ", 13) == 0);
		CHECK_EQUAL(soft_count(), 1); /* one device, which has the error */
	}
	CHECK(file == NULL);
	CHECK_EQUAL(soft_plug(0), -EINVAL);

	setenv("HETMAP_SOFT",
	       " ,devices=3, vram_mb=7,system_mb=5 opener_mb=9 kind=nic,,test=0 ", 1);
	CHECK_EQUAL(soft_count(), 3);
	fd = hetsim_open(O_RDWR);
	query = hetsim_query(fd);
	CHECK_EQUAL(query.vram_bytes, MIB(7));
	CHECK_EQUAL(query.system_bytes, MIB(5));
	CHECK_EQUAL(query.opener_bytes, MIB(9));
	CHECK_EQUAL(query.max_buffer, MIB(7));
	CHECK_EQUAL(query.kind, HETSIM_KIND_NIC);
	CHECK_EQUAL(query.granule_min, MIB(2));
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_RESET, 0, 0), -EPERM);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0), -EPERM);

	/* As a module's, they are read once. */
	setenv("HETMAP_SOFT", "devices=1", 1);
	CHECK_EQUAL(soft_count(), 3);
	CHECK_EQUAL(soft_open(3, O_RDWR, NULL, NULL, &file), -ENODEV);
	CHECK_EQUAL(soft_plug(3), -EINVAL);
	CHECK_EQUAL(soft_plug(2), -EEXIST);
	hetsim_close(fd);
}

static void settings_use(const char *settings)
{
	setenv("HETMAP_SOFT", settings, 1);
}

static void test_opener_limit(void)
{
	struct hetsim_buffer buffer = { 0 }, others;
	int fd, other;

	settings_use("vram_mb=8 system_mb=8 opener_mb=6");
	fd = hetsim_open(O_RDWR);
	other = hetsim_open(O_RDWR);
	CHECK_EQUAL(hetsim_buffer_create(fd, MIB(4), HETSIM_PLACE_VRAM, 0, &buffer), 0);
	CHECK_EQUAL(hetsim_buffer_create(fd, MIB(3), HETSIM_PLACE_VRAM, 0, &buffer), -ENOSPC);
	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, MIB(7)), -ENOSPC);
	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, MIB(6)), 0);
	CHECK_EQUAL(hetsim_buffer_create(other, MIB(6), HETSIM_PLACE_VRAM, 0, &others),
		    0); /* evicts */
	CHECK_EQUAL(hetsim_buffer_info(fd, buffer.handle).system_bytes, MIB(4));
	CHECK_EQUAL(hetsim_query(fd).vram_used, MIB(8));
	hetsim_close(other);
	CHECK_EQUAL(hetsim_query(fd).vram_used, MIB(2));
	CHECK_EQUAL(hetsim_query(fd).system_used, MIB(4));
	hetsim_close(fd);
	CHECK_EQUAL(soft_objects(0), 0);
}

/* A map may reach beyond the used bytes; one descriptor is for the whole range. */
static void test_map_fd(void)
{
	struct soft_file *file;
	struct hetsim_buffer_create arg = {
		.size = sizeof(arg),
		.length = MIB(1),
		.capacity = MIB(4),
	};
	uint64_t position = 7;
	char *bytes;
	int fd = -1;

	settings_use("vram_mb=8 system_mb=8");
	CHECK_FATAL(soft_open(0, O_RDWR, NULL, NULL, &file) == 0);
	CHECK_EQUAL(soft_map_fd(file, 0, &fd, &position), -EPROTO);
	CHECK_EQUAL(soft_call(file, HETSIM_HANDSHAKE,
			      SIZED(hetsim_handshake, .version_major = HETSIM_VERSION_MAJOR)),
		    0);
	CHECK_EQUAL(soft_map_fd(file, 0, &fd, &position), -ENOENT);
	CHECK_EQUAL(soft_map_fd(file, UINT64_MAX, &fd, &position), -ENOENT);
	CHECK_EQUAL(soft_call(file, HETSIM_BUFFER_CREATE, &arg), 0);
	CHECK_EQUAL(soft_map_fd(file, arg.offset + MIB(4), &fd, &position), -ERANGE);
	CHECK(fd == -1 && position == 7);
	CHECK_EQUAL(soft_map_fd(file, arg.offset + MIB(3), &fd, &position), 0);
	CHECK_EQUAL(position, MIB(3));
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == -1 && errno == EPERM);
	bytes = mmap(NULL, MIB(4), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK_FATAL(bytes != MAP_FAILED);
	CHECK_EQUAL(test_read_signal(bytes), 0);
	CHECK_EQUAL(test_read_signal(bytes + MIB(1)), SIGBUS);
	munmap(bytes, MIB(4));
	soft_close(file);
}

/* The engine works on while its pages go to another room, and finds them there. */
static void *race_grow(void *user)
{
	struct hetsim_buffer *buffer = user;
	unsigned int i;

	for (i = 0; i < 60; i++) {
		buffer->length += MIB(1);
		if (hetsim_buffer_resize((int)buffer->offset, buffer->handle, buffer->length))
			test_fail(__FILE__, __LINE__, "resize failed");
		if (i % 8 == 7) { /* below the used bytes */
			if (hetsim_buffer_resize((int)buffer->offset, buffer->handle, MIB(2)))
				test_fail(__FILE__, __LINE__, "resize failed");
		}
	}
	return NULL;
}

static void test_grow_under_engine(void)
{
	struct hetsim_command command = { .op = HETSIM_OP_AXPY, .length = MIB(1), .value = 1 };
	struct hetsim_buffer buffer, growing;
	uint32_t *words, queue, i, n = 0;
	pthread_t thread;
	int fd;

	settings_use("vram_mb=128 system_mb=128");
	fd = hetsim_open(O_RDWR);
	buffer = hetsim_buffer_make(fd, MIB(2), HETSIM_PLACE_VRAM);
	CHECK_EQUAL(hetsim_bind(fd, &buffer, HETSIM_BIND_WRITE), 0);
	queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 30000);
	words = (uint32_t *)buffer.bytes;
	for (i = 0; i < MIB(1) / 4; i++)
		words[i] = 1;
	command.source = (uintptr_t)words;
	command.destination = (uintptr_t)words + MIB(1);
	growing = (struct hetsim_buffer){
		.handle = buffer.handle,
		.length = MIB(2),
		.offset = (uint64_t)fd,
	};
	CHECK_FATAL(pthread_create(&thread, NULL, race_grow, &growing) == 0);
	do {
		CHECK_EQUAL(hetsim_run(fd, queue, &command), 0);
		n++;
	} while (hetsim_buffer_info(fd, buffer.handle).length < MIB(60) && n < 200);
	pthread_join(thread, NULL);
	for (i = 0; i < MIB(1) / 4; i++)
		if (words[MIB(1) / 4 + i] != n)
			break;
	CHECK_EQUAL(i, MIB(1) / 4);
	hetsim_buffer_drop(fd, &buffer);
	hetsim_close(fd);
}

static void test_rights(void)
{
	struct hetsim_import import;
	struct hetsim_buffer buffer;
	struct soft_file *second;
	unsigned char byte = 9;
	int fd, other, reader, file, read_only, null;

	settings_use("vram_mb=8 system_mb=8 devices=2");
	fd = hetsim_open(O_RDWR);
	other = hetsim_open(O_RDWR);
	reader = hetsim_open(O_RDONLY);
	buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);
	buffer.bytes[5] = 5;

	read_only = hetsim_export(fd, buffer.handle, 0);
	CHECK_FATAL(read_only >= 0);
	CHECK(fcntl(read_only, F_GETFD) & FD_CLOEXEC);
	CHECK(mmap(NULL, MIB(1), PROT_READ | PROT_WRITE, MAP_SHARED, read_only, 0) ==
		      MAP_FAILED &&
	      errno == EACCES);
	CHECK(write(read_only, &byte, 1) == -1 && ftruncate(read_only, 0) == -1);
	CHECK(pread(read_only, &byte, 1, 5) == 1 && byte == 5);
	CHECK_EQUAL(hetsim_import(other, read_only, &import), -EACCES);
	CHECK_EQUAL(hetsim_import(reader, read_only, &import), 0);
	CHECK_EQUAL(import.length, MIB(1));
	CHECK_EQUAL(hetsim_export(reader, import.handle, HETSIM_EXPORT_WRITE), -EACCES);
	CHECK_EQUAL(hetsim_export(fd, buffer.handle, 2), -EINVAL);
	CHECK_EQUAL(hetsim_export(fd, 4711, 0), -ENOENT);

	file = hetsim_export(fd, buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(file >= 0);
	CHECK_EQUAL(hetsim_import(other, file, &import), 0);
	CHECK_EQUAL(hetsim_pread(other, &byte, 1, import.offset + 5), 1);
	CHECK_EQUAL(byte, 5);
	CHECK_EQUAL(hetsim_inject(other, HETSIM_INJECT_EVICTION, import.handle, MIB(1)),
		    -EPERM);
	CHECK_EQUAL(hetsim_query(other).opener_used, 0);
	CHECK_EQUAL(hetsim_buffer_resize(other, import.handle, MIB(2)), -EPERM);
	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, MIB(1) / 2), -EBUSY);
	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, MIB(2)), 0);
	CHECK_EQUAL(hetsim_query(fd).opener_used, MIB(2));

	/* Files of other devices. */
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	CHECK_EQUAL(hetsim_import(other, null, &import), -EINVAL);
	CHECK_EQUAL(hetsim_import(other, -1, &import), -EINVAL);
	close(null);
	null = memfd_create("other", MFD_CLOEXEC);
	CHECK_EQUAL(hetsim_import(other, null, &import), -EOPNOTSUPP);
	close(null);
	CHECK_FATAL(soft_open(1, O_RDWR, NULL, NULL, &second) == 0);
	CHECK_EQUAL(soft_call(second, HETSIM_HANDSHAKE,
			      SIZED(hetsim_handshake, .version_major = HETSIM_VERSION_MAJOR)),
		    0);
	import = (struct hetsim_import){ .size = sizeof(import), .fd = file };
	CHECK_EQUAL(soft_call(second, HETSIM_IMPORT, &import), -EOPNOTSUPP);
	soft_close(second);

	/* The maker goes; a holder of a handle keeps the bytes, charged to the old maker. */
	hetsim_buffer_drop(fd, &buffer);
	hetsim_close(fd);
	CHECK_EQUAL(hetsim_pread(other, &byte, 1, buffer.offset + 5), 1);
	CHECK_EQUAL(hetsim_query(other).vram_used, MIB(2));
	hetsim_close(other);
	hetsim_close(reader);
	CHECK_EQUAL(soft_objects(0), 0);
	close(read_only);
	close(file);
}

/* ---- hooks ---- */

struct seen {
	unsigned int pages, lost; /* calls */
	uint32_t handle;          /* handle of the last call */
	_Atomic bool inside, leave;
};

static void stay(struct seen *seen)
{
	seen->inside = true;
	while (!seen->leave)
		usleep(1000);
}

static void see(void *user, uint32_t handle)
{
	struct seen *seen = user;

	seen->pages++;
	seen->handle = handle;
	stay(seen);
}

static void see_lost(void *user)
{
	struct seen *seen = user;

	seen->lost++;
	stay(seen);
}

static const struct soft_hooks see_hooks = { .pages = see, .lost = see_lost };

static struct soft_file *see_open(struct seen *seen, uint32_t flags)
{
	struct soft_file *file;

	memset(seen, 0, sizeof(*seen));
	seen->leave = true;
	CHECK_FATAL(soft_open(0, O_RDWR, &see_hooks, seen, &file) == 0);
	CHECK_EQUAL(soft_call(file, HETSIM_HANDSHAKE,
			      SIZED(hetsim_handshake, .flags = flags,
				    .version_major = HETSIM_VERSION_MAJOR)),
		    0);
	return file;
}

static int see_inject(struct soft_file *file, uint32_t kind, uint32_t handle, uint64_t value)
{
	return soft_call(file, HETSIM_INJECT,
			 SIZED(hetsim_inject, .kind = kind, .target = handle, .value = value));
}

/* In two MiB, the page at @bus and no other answers with SIGBUS; all ones: none. */
static bool hides(struct soft_file *file, uint32_t handle, uint64_t bus)
{
	uint64_t at, length;

	for (at = 0; at < MIB(2); at += length)
		if (soft_hidden(file, handle, at, MIB(2) - at, &length) != (at == bus) ||
		    (at == bus && length != 4096))
			return false;
	return at == MIB(2);
}

static void test_hooks(void)
{
	struct hetsim_buffer_create arg = {
		.size = sizeof(arg),
		.length = MIB(1),
		.capacity = MIB(2),
	};
	struct hetsim_export export = { .size = sizeof(export), .flags = HETSIM_EXPORT_WRITE };
	struct hetsim_import import = { .size = sizeof(import) };
	struct seen seen, sharer_seen, stranger_seen;
	struct soft_file *file, *sharer, *stranger;
	uint32_t h;

	settings_use("vram_mb=8 system_mb=8 test=1");
	file = see_open(&seen, HETSIM_HANDSHAKE_ZERO_WHEN_LOST);
	sharer = see_open(&sharer_seen, 0);
	stranger = see_open(&stranger_seen, HETSIM_HANDSHAKE_ZERO_WHEN_LOST);
	CHECK_EQUAL(soft_call(file, HETSIM_BUFFER_CREATE, &arg), 0);
	h = export.handle = arg.handle;
	CHECK_EQUAL(soft_call(file, HETSIM_EXPORT, &export), 0);
	import.fd = export.fd;
	CHECK_EQUAL(soft_call(sharer, HETSIM_IMPORT, &import), 0);

	/* One page is marked at a time; one that both mark stays until neither does. */
	CHECK(hides(file, h, UINT64_MAX));
	CHECK_EQUAL(see_inject(file, HETSIM_INJECT_SIGBUS, h, 8192 + 5), 0);
	CHECK(seen.pages == 1 && seen.handle == h && hides(file, h, 8192));
	CHECK(sharer_seen.pages == 1 && sharer_seen.handle == h && hides(sharer, h, 8192));
	CHECK(hides(stranger, h, UINT64_MAX));
	CHECK_EQUAL(see_inject(file, HETSIM_INJECT_SIGBUS, h, 0), 0);
	CHECK(seen.pages == 2 && hides(file, h, 0));
	CHECK_EQUAL(see_inject(file, HETSIM_INJECT_POISON, h, 0), 0);
	CHECK_EQUAL(see_inject(file, HETSIM_INJECT_SIGBUS, h, UINT64_MAX), 0);
	CHECK(hides(file, h, 0));
	CHECK_EQUAL(see_inject(file, HETSIM_INJECT_POISON, h, UINT64_MAX), 0);
	CHECK(seen.pages == 5 && hides(file, h, UINT64_MAX));
	CHECK_EQUAL(see_inject(file, HETSIM_INJECT_SIGBUS, h, MIB(1)), -ERANGE);
	CHECK_EQUAL(see_inject(sharer, HETSIM_INJECT_SIGBUS, h, 0), -EPERM);
	CHECK_EQUAL(seen.pages, 5);

	/* An unplug through another file. */
	CHECK_EQUAL(see_inject(stranger, HETSIM_INJECT_UNPLUG, 0, 0), 0);
	CHECK_EQUAL(seen.pages, 5);
	CHECK_EQUAL(seen.lost, 1);
	CHECK_EQUAL(sharer_seen.lost, 0);
	CHECK_EQUAL(stranger_seen.lost, 1);
	CHECK_EQUAL(stranger_seen.pages, 0);
	CHECK_EQUAL(lseek(export.fd, 0, SEEK_END), 0);
	CHECK_EQUAL(see_inject(file, HETSIM_INJECT_SIGBUS, h, 0), -ENODEV);
	CHECK_EQUAL(see_inject(file, HETSIM_INJECT_UNPLUG, 0, 0), -ENODEV);
	close(export.fd);
	soft_close(stranger);
	soft_close(file);
	soft_close(sharer);
	CHECK_EQUAL(soft_plug(0), 0);
}

static void *unplug_thread(void *user)
{
	if (see_inject(user, HETSIM_INJECT_UNPLUG, 0, 0))
		test_fail(__FILE__, __LINE__, "unplug failed");
	return NULL;
}

static void *close_thread(void *user)
{
	void **both = user;

	soft_close(both[0]);
	atomic_store((_Atomic bool *)both[1], true);
	return NULL;
}

/* Arguments of a hook are valid until it returns. */
static void test_close_under_hook(void)
{
	struct hetsim_buffer_create arg = { .size = sizeof(arg), .length = MIB(1) };
	struct seen seen, other_seen;
	struct soft_file *file, *other;
	_Atomic bool closed = false;
	void *both[2];
	pthread_t unplugs, closes;

	settings_use("vram_mb=8 system_mb=8 test=1");
	file = see_open(&seen, HETSIM_HANDSHAKE_ZERO_WHEN_LOST);
	other = see_open(&other_seen, 0);
	both[0] = file;
	both[1] = &closed;
	CHECK_EQUAL(soft_call(file, HETSIM_BUFFER_CREATE, &arg), 0);
	seen.leave = false;
	CHECK_FATAL(pthread_create(&unplugs, NULL, unplug_thread, other) == 0);
	while (!seen.inside)
		usleep(1000);
	CHECK_FATAL(pthread_create(&closes, NULL, close_thread, both) == 0);
	usleep(100000);
	CHECK(!closed);
	seen.leave = true;
	pthread_join(closes, NULL);
	pthread_join(unplugs, NULL);
	CHECK_EQUAL(seen.lost, 1);
	soft_close(other);
	CHECK_EQUAL(soft_plug(0), 0);
}

/* ---- counts of pages ---- */

/* Where userfaultfd(2) is refused, loads count their surroundings, stores do not. */
static void test_sample_alone(void)
{
	struct hetsim_buffer_sample sample = { .size = sizeof(sample) };
	struct hetsim_buffer buffer;
	volatile unsigned char *bytes;
	uint32_t counts[64];
	unsigned int i, around = 0, far = 0;
	int fd;

	settings_use("vram_mb=8 system_mb=8");
	fd = hetsim_open(O_RDWR);
	buffer = hetsim_buffer_make(fd, sizeof(counts) / 4 * PAGE, HETSIM_PLACE_VRAM);
	bytes = buffer.bytes;
	memset(buffer.bytes, 1, buffer.length);
	sample.handle = buffer.handle;
	sample.action = HETSIM_SAMPLE_START;
	inject_install();
	inject_always("userfaultfd", EPERM);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_SAMPLE, &sample), 0);
	CHECK(inject_disarm());
	sample.action = HETSIM_SAMPLE_READ;
	sample.length = buffer.length;
	sample.counts = (uintptr_t)counts;
	bytes[5 * PAGE] = 2;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_SAMPLE, &sample), 0);
	for (i = 0; i < 64; i++)
		CHECK_EQUAL(counts[i], i == 5);
	CHECK_EQUAL(bytes[40 * PAGE], 1);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_SAMPLE, &sample), 0);
	CHECK_EQUAL(counts[40], 1);
	for (i = 0; i < 64; i++) {
		around += i > 24 && i < 56 ? counts[i] : 0;
		far += i <= 24 || i >= 56 ? counts[i] : 0;
	}
	CHECK(around >= 1 && around <= 16);
	CHECK_EQUAL(far, 1);
	hetsim_buffer_drop(fd, &buffer);
	hetsim_close(fd);
}

/* ---- other processes ---- */

struct peer {
	int fd; /* the parent's device */
	int file, ready[2], go[2];
};

/* Has the buffer mapped when the device goes in the parent. */
static void peer_run(void *user)
{
	struct peer *peer = user;
	unsigned char *bytes, byte = 0;

	bytes = mmap(NULL, MIB(1), PROT_READ | PROT_WRITE, MAP_SHARED, peer->file, 0);
	if (bytes == MAP_FAILED || bytes[7] != 7)
		_exit(1);
	bytes[8] = 8;
	if (write(peer->ready[1], &byte, 1) != 1 || read(peer->go[0], &byte, 1) != 1)
		_exit(2);
	_exit(test_read_signal(bytes + 7) == SIGBUS ? 0 : 3);
}

static void *peer_unplug(void *user)
{
	struct peer *peer = user;
	unsigned char byte = 0;

	if (read(peer->ready[0], &byte, 1) != 1 ||
	    hetsim_inject(peer->fd, HETSIM_INJECT_UNPLUG, 0, 0) ||
	    write(peer->go[1], &byte, 1) != 1)
		test_fail(__FILE__, __LINE__, "unplug failed");
	return NULL;
}

static void test_peer(void)
{
	struct hetsim_buffer buffer;
	struct peer peer;
	pthread_t thread;

	settings_use("vram_mb=8 system_mb=8 test=1");
	peer.fd = hetsim_open(O_RDWR);
	buffer = hetsim_buffer_make(peer.fd, MIB(1), HETSIM_PLACE_VRAM);
	buffer.bytes[7] = 7;
	peer.file = hetsim_export(peer.fd, buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(peer.file >= 0);
	CHECK_EQUAL(pipe2(peer.ready, O_CLOEXEC), 0);
	CHECK_EQUAL(pipe2(peer.go, O_CLOEXEC), 0);
	CHECK_FATAL(pthread_create(&thread, NULL, peer_unplug, &peer) == 0);
	CHECK_EQUAL(test_fork(peer_run, &peer), 0);
	pthread_join(thread, NULL);
	CHECK_EQUAL(test_read_signal(buffer.bytes), SIGBUS);
	hetsim_munmap(buffer.bytes, buffer.length);
	close(peer.ready[0]);
	close(peer.ready[1]);
	close(peer.go[0]);
	close(peer.go[1]);
	close(peer.file);
	hetsim_close(peer.fd);
	hetsim_plug();
}

/* The child's devices are its own, with its own settings. */
static void child_run(void *user)
{
	struct hetsim_command command = { .op = HETSIM_OP_FILL, .length = MIB(1), .value = 3 };
	struct hetsim_buffer buffer;
	struct hetsim_query query;
	int fd;

	settings_use(user);
	fd = hetsim_open(O_RDWR);
	CHECK_FATAL(fd >= 0);
	query = hetsim_query(fd);
	CHECK_EQUAL(query.vram_used, 0);
	CHECK_EQUAL(query.vram_bytes, MIB(16));
	CHECK_EQUAL(soft_objects(0), 0);
	buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);
	CHECK_EQUAL(hetsim_bind(fd, &buffer, HETSIM_BIND_WRITE), 0);
	command.destination = (uintptr_t)buffer.bytes;
	CHECK_EQUAL(hetsim_run(fd, hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, 0), &command),
		    0);
	CHECK_EQUAL(buffer.bytes[MIB(1) - 4], 3);
	hetsim_buffer_drop(fd, &buffer);
	hetsim_close(fd);
	CHECK_EQUAL(soft_objects(0), 0);
}

static void *busy_thread(void *user)
{
	_Atomic bool *stop = user;
	struct hetsim_buffer buffer;
	int fd;

	while (!*stop) {
		fd = hetsim_open_try(O_RDWR);
		if (fd < 0)
			continue;
		hetsim_buffer_create(fd, MIB(1), HETSIM_PLACE_VRAM, 0, &buffer);
		hetsim_close(fd);
	}
	return NULL;
}

/* While another thread of the parent is in the middle of everything. */
static void test_child(void)
{
	struct hetsim_command command = { .op = HETSIM_OP_FILL, .length = MIB(1), .value = 9 };
	struct hetsim_buffer buffer;
	_Atomic bool stop = false;
	pthread_t thread;
	uint32_t queue, round;
	int fd;

	if (TEST_ASAN || TEST_TSAN) {
		test_skip("sanitizer", "its run time does not survive a fork beside threads");
		return;
	}
	settings_use("vram_mb=32 system_mb=8");
	fd = hetsim_open(O_RDWR);
	buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);
	CHECK_EQUAL(hetsim_bind(fd, &buffer, HETSIM_BIND_WRITE), 0);
	queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 0);
	command.destination = (uintptr_t)buffer.bytes;
	CHECK_EQUAL(hetsim_run(fd, queue, &command), 0);
	CHECK_FATAL(pthread_create(&thread, NULL, busy_thread, &stop) == 0);
	for (round = 0; round < 5; round++)
		CHECK_EQUAL(test_fork(child_run, "vram_mb=16 system_mb=8"), 0);
	stop = true;
	pthread_join(thread, NULL);
	CHECK_EQUAL(buffer.bytes[MIB(1) - 4], 9);
	command.value = 10;
	CHECK_EQUAL(hetsim_run(fd, queue, &command), 0);
	CHECK_EQUAL(buffer.bytes[0], 10);
	CHECK_EQUAL(hetsim_query(fd).vram_used, MIB(1));
	hetsim_buffer_drop(fd, &buffer);
	hetsim_close(fd);
}

/* ---- limits of the process ---- */

static void limit_run(void *user)
{
	const struct rlimit low = { MIB(1), RLIM_INFINITY };
	unsigned char bytes[8192] = { 1 };
	struct hetsim_buffer buffer = { 0 }, big = { 0 };
	int fd;

	(void)user;
	fd = hetsim_open(O_RDWR);
	CHECK_EQUAL(hetsim_buffer_create(fd, MIB(2), HETSIM_PLACE_VRAM, 0, &big), 0);
	CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &low), 0);
	CHECK_EQUAL(hetsim_buffer_create(fd, MIB(1) + 4096, HETSIM_PLACE_VRAM, 0, &buffer),
		    -EFBIG);
	CHECK_EQUAL(hetsim_buffer_create(fd, MIB(1), HETSIM_PLACE_VRAM, MIB(4), &buffer), 0);
	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, MIB(1) + 4096), -EFBIG);
	CHECK_EQUAL(hetsim_buffer_info(fd, buffer.handle).length, MIB(1));
	CHECK_EQUAL(hetsim_query(fd).opener_used, MIB(3));
	CHECK_EQUAL(hetsim_pwrite(fd, bytes, 8192, big.offset + MIB(1) - 4096), 4096);
	CHECK_EQUAL(hetsim_pwrite(fd, bytes, 1, big.offset + MIB(1)), -EFBIG);
	CHECK_EQUAL(hetsim_buffer_resize(fd, big.handle, 4096), 0);
	hetsim_close(fd);
}

/* No limit ends the process, as SIGXFSZ would: a call fails. */
static void test_file_size_limit(void)
{
	settings_use("vram_mb=8 system_mb=8");
	CHECK_EQUAL(test_fork(limit_run, NULL), 0);
}

static const struct test tests[] = {
	{ "settings", test_settings, 0, TEST_ONCE }, /* HETMAP_SOFT is read once */
	{ "opener_limit", test_opener_limit, 0, 0 },
	{ "map_fd", test_map_fd, 0, 0 },
	{ "grow_under_engine", test_grow_under_engine, 60, 0 },
	{ "rights", test_rights, 0, 0 },
	{ "hooks", test_hooks, 0, 0 },
	{ "close_under_hook", test_close_under_hook, 0, 0 },
	{ "sample_alone", test_sample_alone, 0, 0 },
	{ "peer", test_peer, 0, 0 },
	{ "child", test_child, 60, 0 },
	{ "file_size_limit", test_file_size_limit, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	hetsim_use_soft();
	return harness_main(argc, argv, "soft_memory", tests);
}
