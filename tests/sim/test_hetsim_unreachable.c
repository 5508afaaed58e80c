// SPDX-License-Identifier: MIT
/*
 * A file whose storage fails under a map: a child of this process is its file system (FUSE)
 * [fuse(4), linux/fuse.h], which from some time on answers -EIO, or is killed. To mount it is
 * root's, in a machine of tests/vm: nothing is left on one that stays.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/rig.h"
#include "lib/support.h"

#define SIZE MIB(8)
#define FAR (MIB(4)) /* in another block of those that the handler replaces */
#define FILE_NODE 2
#define SALT 3

/* ---- the file system ---- */

/* Shared by both processes. */
struct shared {
	_Atomic bool failing;
	_Atomic uint32_t n_failed;
};

static struct shared *shared;
static unsigned char *contents; /* of its one file */

struct answer {
	int error;
	size_t length;
	union {
		struct fuse_init_out init;
		struct fuse_entry_out entry;
		struct fuse_attr_out attr;
		struct fuse_open_out open;
		struct fuse_write_out write;
	} body;
	const void *bytes; /* instead */
};

static struct fuse_attr attr_of(uint64_t node)
{
	bool file = node == FILE_NODE;

	return (struct fuse_attr){
		.ino = node,
		.size = file ? SIZE : 0,
		.mode = file ? S_IFREG | 0600 : S_IFDIR | 0700,
		.nlink = 1,
		.blksize = PAGE,
	};
}

static void answer_init(const void *body, struct answer *answer)
{
	const struct fuse_init_in *in = body;

	/* Nothing is read before it is touched. */
	answer->body.init = (struct fuse_init_out){
		.major = FUSE_KERNEL_VERSION,
		.minor = in->minor < FUSE_KERNEL_MINOR_VERSION ? in->minor :
								 FUSE_KERNEL_MINOR_VERSION,
		.max_write = PAGE,
	};
	answer->length = sizeof(answer->body.init);
}

static void answer_read(const void *body, struct answer *answer)
{
	const struct fuse_read_in *in = body;

	if (shared->failing) {
		shared->n_failed++;
		answer->error = -EIO;
		return;
	}
	answer->bytes = contents + in->offset;
	answer->length = in->size;
}

static void answer_write(const void *body, struct answer *answer)
{
	const struct fuse_write_in *in = body;

	if (shared->failing) {
		shared->n_failed++;
		answer->error = -EIO;
		return;
	}
	memcpy(contents + in->offset, in + 1, in->size);
	answer->body.write = (struct fuse_write_out){ .size = in->size };
	answer->length = sizeof(answer->body.write);
}

static void find_answer(const struct fuse_in_header *in, struct answer *answer)
{
	switch (in->opcode) {
	case FUSE_INIT:
		answer_init(in + 1, answer);
		break;
	case FUSE_LOOKUP:
		answer->body.entry = (struct fuse_entry_out){
			.nodeid = FILE_NODE,
			.entry_valid = 60,
			.attr_valid = 60,
			.attr = attr_of(FILE_NODE),
		};
		answer->length = sizeof(answer->body.entry);
		break;
	case FUSE_GETATTR:
		answer->body.attr = (struct fuse_attr_out){
			.attr_valid = 60,
			.attr = attr_of(in->nodeid),
		};
		answer->length = sizeof(answer->body.attr);
		break;
	case FUSE_OPEN:
		answer->body.open = (struct fuse_open_out){ .fh = 1 };
		answer->length = sizeof(answer->body.open);
		break;
	case FUSE_READ:
		answer_read(in + 1, answer);
		break;
	case FUSE_WRITE:
		answer_write(in + 1, answer);
		break;
	case FUSE_RELEASE:
	case FUSE_FLUSH:
		break;
	default:
		answer->error = -ENOSYS;
	}
}

static _Noreturn void serve(int fuse)
{
	static union {
		struct fuse_in_header header;
		char bytes[1 << 17];
	} in;
	struct iovec parts[2];
	struct answer answer;
	struct fuse_out_header out;

	for (;;) {
		if (read(fuse, &in, sizeof(in)) < (ssize_t)sizeof(in.header)) {
			if (errno == EINTR || errno == ENOENT)
				continue;
			_exit(0); /* unmounted */
		}
		if (in.header.opcode == FUSE_FORGET || in.header.opcode == FUSE_BATCH_FORGET ||
		    in.header.opcode == FUSE_INTERRUPT)
			continue;
		answer = (struct answer){ 0 };
		find_answer(&in.header, &answer);
		out = (struct fuse_out_header){
			.len = (uint32_t)(sizeof(out) + answer.length),
			.error = answer.error,
			.unique = in.header.unique,
		};
		parts[0] = (struct iovec){ &out, sizeof(out) };
		parts[1] = (struct iovec){
			answer.bytes ? (void *)(uintptr_t)answer.bytes : &answer.body,
			answer.length,
		};
		if (writev(fuse, parts, answer.length ? 2 : 1) < 0 && errno != ENOENT)
			_exit(1);
	}
}

/* ---- a map of its file ---- */

struct storage {
	char folder[32], path[40];
	pid_t server;
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	volatile unsigned char *base;
};

static void *share_bytes(size_t length)
{
	void *bytes =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK_FATAL(bytes != MAP_FAILED);
	return bytes;
}

/* False: not here, and the test was skipped. */
static bool is_ours(void)
{
	char name[64] = "";

	gethostname(name, sizeof(name) - 1);
	if (!strcmp(name, "hetmap-vm"))
		return true;
	test_skip("vm", "mounts a file system: only in machines of tests/vm");
	return false;
}

static void mount_storage(struct storage *storage)
{
	char options[80];
	int fuse;

	shared = share_bytes(sizeof(*shared));
	contents = share_bytes(SIZE);
	pattern_write(contents, 0, SIZE, SALT);
	snprintf(storage->folder, sizeof(storage->folder), "/tmp/unreachable.XXXXXX");
	CHECK_FATAL(mkdtemp(storage->folder));
	fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	CHECK_FATAL(fuse >= 0);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse);
	CHECK_FATAL(
		!mount("hetmap-test", storage->folder, "fuse", MS_NOSUID | MS_NODEV, options));
	storage->server = fork();
	CHECK_FATAL(storage->server >= 0);
	if (!storage->server)
		serve(fuse);
	close(fuse);
	snprintf(storage->path, sizeof(storage->path), "%s/file", storage->folder);
}

static void set_up(struct storage *storage)
{
	mount_storage(storage);
	CHECK_OK_FATAL(hm_handler_install(0));
	CHECK_OK_FATAL(hm_device_open("file", &storage->device));
	CHECK_OK_FATAL(hm_buffer_from_file(storage->device, storage->path, -1, NULL,
					   &storage->buffer));
	CHECK_OK_FATAL(hm_map_create(storage->buffer, NULL, &storage->map));
	storage->base = hm_map_address(storage->map);
	CHECK(pattern_holds((void *)storage->base, 0, MIB(1), SALT));
}

static void end_server(struct storage *storage)
{
	if (!storage->server)
		return;
	kill(storage->server, SIGKILL);
	waitpid(storage->server, NULL, 0);
	storage->server = 0;
}

static void tear_down(struct storage *storage)
{
	hm_map_unref(storage->map);
	hm_buffer_unref(storage->buffer);
	hm_device_unref(storage->device);
	CHECK_OK(hm_handler_remove());
	end_server(storage);
	CHECK(!umount2(storage->folder, MNT_DETACH));
	rmdir(storage->folder);
	munmap(contents, SIZE);
	munmap(shared, sizeof(*shared));
}

/* Bytes read before stay; the rest are an error with its place. */
static void check_guarded(struct storage *storage)
{
	struct hm_fault fault = { .struct_size = sizeof(fault) };
	struct hm_guard guard;
	char bytes[2 * PAGE];
	int r;

	CHECK_OK(hm_copy_out(bytes, (char *)storage->base, sizeof(bytes), &fault));
	CHECK(!memcmp(bytes, contents, sizeof(bytes)));
	CHECK_ERROR(-EIO, hm_copy_out(bytes, (char *)storage->base + FAR + 5, PAGE, &fault));
	CHECK_EQUAL(fault.cause, HM_FAULT_UNREACHABLE);
	CHECK_EQUAL(fault.signal, SIGBUS);
	CHECK_EQUAL(fault.offset, FAR + 5);
	CHECK(strstr(hm_errmsg(), "storage failed"));
	CHECK_ERROR(-EIO, hm_copy_in((char *)storage->base + FAR, bytes, PAGE, &fault));
	HM_GUARD_INIT(&guard);
	r = hm_guard_begin(&guard);
	if (!r) {
		(void)storage->base[FAR + PAGE];
		CHECK_OK(hm_guard_end(&guard));
	}
	CHECK_EQUAL(r, -EIO);
	CHECK_EQUAL(guard.fault.offset / PAGE, FAR / PAGE + 1);
}

/* In no guard: the block is replaced by zeros, and a bracket on it gets an error. */
static void check_unguarded(struct storage *storage)
{
	CHECK_OK(hm_map_begin_cpu(storage->map, FAR, PAGE, HM_READ));
	CHECK_EQUAL(storage->base[FAR + 7], 0);
	CHECK_ERROR(-EIO, hm_map_end_cpu(storage->map, FAR, PAGE, HM_READ));
	CHECK_ERROR(-EIO, hm_map_begin_cpu(storage->map, FAR, PAGE, HM_READ));
	/* The other blocks are the file's as before. */
	CHECK(pattern_holds((void *)storage->base, 0, MIB(1), SALT));
	CHECK_OK(hm_map_begin_cpu(storage->map, 0, PAGE, HM_READ));
	CHECK_OK(hm_map_end_cpu(storage->map, 0, PAGE, HM_READ));
}

static void storage_fails(void)
{
	struct storage storage = { .server = 0 };

	TEST_NEEDS(is_ours());
	set_up(&storage);
	shared->failing = true;
	check_guarded(&storage);
	CHECK(shared->n_failed > 0);
	/* The storage may work a moment later: nothing was replaced so far. */
	shared->failing = false;
	CHECK(pattern_holds((void *)storage.base, FAR, FAR + MIB(1), SALT));
	shared->failing = true;
	storage.base[FAR] = storage.base[FAR];
	CHECK_ERROR(-EIO, hm_map_sync(storage.map, FAR, PAGE, 0));
	tear_down(&storage);
}

static void storage_fails_unguarded(void)
{
	struct storage storage = { .server = 0 };

	TEST_NEEDS(is_ours());
	set_up(&storage);
	shared->failing = true;
	check_unguarded(&storage);
	/* A fresh map shows the file again. */
	shared->failing = false;
	hm_map_unref(storage.map);
	CHECK_OK_FATAL(hm_map_create(storage.buffer, NULL, &storage.map));
	storage.base = hm_map_address(storage.map);
	CHECK(pattern_holds((void *)storage.base, FAR, FAR + MIB(1), SALT));
	tear_down(&storage);
}

/* With a shadow the block has the bytes that the storage had when it could be read. */
static void storage_fails_shadowed(void)
{
	struct storage storage = { .server = 0 };
	int fd;

	TEST_NEEDS(is_ours());
	set_up(&storage);
	CHECK_OK_FATAL(hm_buffer_set_loss(storage.buffer,
					  DESC(hm_loss_desc, .policy = HM_LOSS_SHADOW)));
	/* Pages read for it must not be in the page cache any more. */
	fd = open(storage.path, O_RDONLY | O_CLOEXEC);
	CHECK_FATAL(fd >= 0);
	CHECK(!posix_fadvise(fd, FAR, 0, POSIX_FADV_DONTNEED));
	close(fd);
	shared->failing = true;
	CHECK(pattern_holds((void *)storage.base, FAR, FAR + MIB(1), SALT));
	CHECK(shared->n_failed > 0);
	CHECK_ERROR(-EIO, hm_map_begin_cpu(storage.map, FAR, PAGE, HM_READ));
	tear_down(&storage);
}

static void storage_ends(void)
{
	struct storage storage = { .server = 0 };

	TEST_NEEDS(is_ours());
	set_up(&storage);
	end_server(&storage);
	check_guarded(&storage);
	check_unguarded(&storage);
	tear_down(&storage);
}

static const struct test tests[] = {
	{ "storage_fails", storage_fails, 0, 0 },
	{ "storage_fails_unguarded", storage_fails_unguarded, 0, 0 },
	{ "storage_fails_shadowed", storage_fails_shadowed, 0, 0 },
	{ "storage_ends", storage_ends, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "hetsim_unreachable", tests)
