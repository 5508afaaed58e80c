// SPDX-License-Identifier: MIT
/* A ring of records between two ends: records are read as written, whichever end closes first. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/command.h"
#include "lib/inject.h"
#include "ring/ring.h"
#include "ring/ring_support.h"
#include "lib/support.h"
#include "base/sys.h"

#define SECOND 1000000000ull

/* ---- made, opened, refused ---- */

static void opens(void)
{
	AUTO_FOLDER char *folder = folder_make();
	AUTO_FREE char *path = ring_make(folder, 5000);
	struct hm_ring *reader, *writer, *second = NULL;
	struct hm_ring_info info;
	struct stat st;

	CHECK(!stat(path, &st));
	CHECK_EQUAL(st.st_size, RING_DATA + 8192 + RING_LAST);
	CHECK_EQUAL(st.st_blocks >= st.st_size / 512, true);
	reader = ring_end(path, HM_RING_READER);
	info = ring_info(reader);
	CHECK_EQUAL(info.end, HM_RING_READER);
	CHECK_EQUAL(info.capacity, 8192);
	CHECK_EQUAL(info.record_max, 4088);
	CHECK_EQUAL(info.used + info.position + info.peer, 0);
	writer = ring_end(path, HM_RING_WRITER);
	CHECK_EQUAL(ring_info(reader).peer, 1);
	CHECK_EQUAL(ring_info(writer).peer, 1);
	CHECK_ERROR(-EBUSY, hm_ring_open(path, -1, HM_RING_WRITER, &second));
	CHECK_ERROR(-EBUSY, hm_ring_open(path, -1, HM_RING_READER, &second));
	CHECK(!second);
	hm_ring_unref(hm_ring_ref(writer));
	CHECK_EQUAL(ring_info(reader).peer, 1);
	hm_ring_unref(writer);
	CHECK_EQUAL(ring_info(reader).peer, 0);
	CHECK_OK(hm_ring_open(path, -1, HM_RING_WRITER, &second));
	CHECK_OK(hm_ring_write(second, "abc", 4, 0));
	CHECK_OK(hm_ring_sync(second));
	CHECK_OK(hm_ring_sync(reader));
	CHECK_EQUAL(ring_info(reader).used, 16);
	CHECK_EQUAL(ring_info(second).position, 16);
	hm_ring_unref(second);
	hm_ring_unref(reader);
	hm_ring_unref(NULL);
	CHECK(!hm_ring_ref(NULL));
}

static void refuses(void)
{
	struct hm_ring_desc desc = { .struct_size = sizeof(desc), .capacity = 4096 };
	struct hm_ring_info info = { .struct_size = sizeof(info) + 8 };
	AUTO_FOLDER char *folder = folder_make();
	AUTO_FREE char *path = ring_make(folder, 4096);
	char byte;
	AUTO_FREE char *empty = folder_path(folder, "empty");
	AUTO_FREE char *text = folder_path(folder, "text");
	struct hm_ring *ring = NULL;
	struct hm_pointer_info found;
	const void *data;
	uint64_t length;
	void *to;

	CHECK_ERROR(-EEXIST, hm_ring_create(path, -1, &desc));
	CHECK(strstr(hm_errmsg(), "doesn't grow"));
	CHECK_ERROR(-EINVAL, hm_ring_create(path, -1, NULL));
	desc.flags = 1;
	CHECK_ERROR(-EINVAL, hm_ring_create(empty, -1, &desc));
	desc.flags = 0;
	desc.capacity = 4095;
	CHECK_ERROR(-EINVAL, hm_ring_create(empty, -1, &desc));
	desc.capacity = (1 << 30) + 1;
	CHECK_ERROR(-EINVAL, hm_ring_create(empty, -1, &desc));
	desc.capacity = 4096;
	CHECK_ERROR(-ENOENT, hm_ring_create("/nowhere/ring", -1, &desc));
	CHECK(access(empty, F_OK));

	file_write(folder, "empty", "", 0);
	file_write(folder, "text", "a text, and no ring: it is longer than a header is", 50);
	CHECK_ERROR(-EBADMSG, hm_ring_open(empty, -1, HM_RING_READER, &ring));
	CHECK_ERROR(-EBADMSG, hm_ring_open(text, -1, HM_RING_READER, &ring));
	CHECK(strstr(hm_errmsg(), "it is no ring"));
	CHECK_ERROR(-ENOENT, hm_ring_open("/nowhere", -1, HM_RING_READER, &ring));
	CHECK_ERROR(-EISDIR, hm_ring_open(folder, -1, HM_RING_READER, &ring));
	CHECK_ERROR(-EBADMSG, hm_ring_open("/dev/null", -1, HM_RING_READER, &ring));
	CHECK_ERROR(-EINVAL, hm_ring_open(path, -1, 2, &ring));
	CHECK_ERROR(-EINVAL, hm_ring_open(path, -1, HM_RING_READER, NULL));
	CHECK(!ring);

	ring = ring_end(path, HM_RING_READER);
	AUTO(hm_ring) *writer = ring_end(path, HM_RING_WRITER);
	CHECK_ERROR(-EINVAL, hm_ring_write(ring, "a", 1, 0));
	CHECK_ERROR(-EINVAL, hm_ring_reserve(ring, 1, 0, &to));
	CHECK_ERROR(-EINVAL, hm_ring_commit(ring, 1));
	CHECK_ERROR(-EINVAL, hm_ring_read(writer, &byte, 1, 0, &length));
	CHECK_ERROR(-EINVAL, hm_ring_peek(writer, 0, &data, &length));
	CHECK_ERROR(-EINVAL, hm_ring_release(writer));
	CHECK_ERROR(-EINVAL, hm_ring_release(ring));
	CHECK_ERROR(-EINVAL, hm_ring_commit(writer, 1));
	CHECK_ERROR(-EINVAL, hm_ring_write(writer, "", 0, 0));
	CHECK_ERROR(-EMSGSIZE, hm_ring_write(writer, "", 2041, 0));
	CHECK(strstr(hm_errmsg(), "2040"));
	CHECK_ERROR(-EINVAL, hm_ring_write(writer, NULL, 1, 0));
	CHECK_ERROR(-EINVAL, hm_ring_reserve(writer, 1, 0, NULL));
	CHECK_ERROR(-EINVAL, hm_ring_peek(ring, 0, NULL, &length));
	CHECK_ERROR(-EINVAL, hm_ring_read(ring, NULL, 1, 0, &length));
	CHECK_ERROR(-EINVAL, hm_ring_query(ring, NULL));
	CHECK_ERROR(-E2BIG, hm_ring_query(ring, &info));
	CHECK_ERROR(-EINVAL, hm_ring_query(NULL, &info));
	CHECK_OK_FATAL(hm_ring_reserve(writer, 7, 0, &to));
	CHECK_ERROR(-EINVAL, hm_ring_commit(writer, 8));
	/* Code that finds the ring's memory can't give it another size, nor the file. */
	CHECK_OK_FATAL(hm_pointer_find(to, &found));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_resize(found.buffer, 1 << 20, 0));
	CHECK_OK(hm_ring_commit(writer, 7));
	CHECK_ERROR(-EMSGSIZE, hm_ring_read(ring, &byte, 1, 0, &length));
	CHECK(strstr(hm_errmsg(), "7 bytes"));
	CHECK_OK(hm_ring_peek(ring, 0, &data, &length));
	CHECK_EQUAL(length, 7);
	hm_ring_unref(ring);
	ring = NULL;
	CHECK(!truncate(path, RING_DATA + 12288));
	CHECK_ERROR(-EBADMSG, hm_ring_open(path, -1, HM_RING_READER, &ring));
	CHECK(strstr(hm_errmsg(), "doesn't grow"));
}

/* A memfd can't be cut off. */
static void sealed(void)
{
	struct hm_ring_desc desc = { .struct_size = sizeof(desc), .capacity = 1 << 20 };
	struct hm_ring *reader, *writer;
	uint64_t length;
	char text[8];
	int fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK_FATAL(fd >= 0);
	CHECK_OK_FATAL(hm_ring_create(NULL, fd, &desc));
	CHECK(ftruncate(fd, 0) && errno == EPERM);
	CHECK_ERROR(-EEXIST, hm_ring_create(NULL, fd, &desc));
	CHECK_OK_FATAL(hm_ring_open(NULL, fd, HM_RING_READER, &reader));
	CHECK_OK_FATAL(hm_ring_open(NULL, fd, HM_RING_WRITER, &writer));
	close(fd);
	CHECK_OK(hm_ring_write(writer, "memory", 7, 0));
	CHECK_OK(hm_ring_read(reader, text, sizeof(text), 0, &length));
	CHECK(length == 7 && !strcmp(text, "memory"));
	hm_ring_unref(reader);
	hm_ring_unref(writer);
	CHECK_ERROR(-ENOENT, hm_ring_open(NULL, -1, HM_RING_READER, &reader));
}

static struct sys_table real;

static long type; /* f_type of fstatfs() */

static int told_fstatfs(int fd, struct statfs *ret_statfs)
{
	int r = real.fstatfs(fd, ret_statfs);

	ret_statfs->f_type = type;
	return r;
}

static void not_over_a_network(void)
{
	/* A network's, a cluster's, one that may be, one that a process serves. */
	static const struct {
		long type;
		const char *name;
	} rows[] = {
		{ 0x6969, "nfs" },      { 0x01021997, "9p" },   { 0x0bd00bd0, "lustre" },
		{ 0x00c36400, "ceph" }, { 0x65735546, "fuse" },
	};
	struct hm_ring_desc desc = { .struct_size = sizeof(desc), .capacity = 4096 };
	AUTO_FOLDER char *folder = folder_make();
	AUTO_FREE char *path = ring_make(folder, 4096);
	AUTO_FREE char *other = folder_path(folder, "other");
	struct hm_ring *ring = NULL;
	size_t i;

	real = sys_table;
	sys_table.fstatfs = told_fstatfs;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		type = rows[i].type;
		CHECK_ERROR(-EOPNOTSUPP, hm_ring_open(path, -1, HM_RING_READER, &ring));
		CHECK(strstr(hm_errmsg(), rows[i].name));
		CHECK_ERROR(-EOPNOTSUPP, hm_ring_create(other, -1, &desc));
		CHECK(access(other, F_OK));
	}
	type = 0x12345;
	CHECK_OK(hm_ring_open(path, -1, HM_RING_READER, &ring));
	hm_ring_unref(ring);
	sys_table = real;
}

/* ---- a model ---- */

#define MODEL_RECORDS 4096u

struct model {
	uint64_t state;
	struct hm_ring *end[2]; /* enum hm_ring_end */
	char *path;
	uint32_t first, n; /* records written and not yet read */
	struct {
		uint32_t length, salt;
	} record[MODEL_RECORDS];
	unsigned char *bytes;
	uint64_t record_max;
};

static uint32_t some_length(struct model *model)
{
	uint64_t most = test_random(&model->state) % 4 ? 200 : model->record_max;

	return (uint32_t)(1 + test_random(&model->state) % most);
}

static void written(struct model *model, uint32_t length, uint32_t salt)
{
	uint32_t at = (model->first + model->n++) % MODEL_RECORDS;

	CHECK_FATAL(model->n <= MODEL_RECORDS);
	model->record[at].length = length;
	model->record[at].salt = salt;
}

static void model_write(struct model *model)
{
	uint32_t length = some_length(model), salt = (uint32_t)test_random(&model->state);
	int r;

	ring_fill(model->bytes, length, salt);
	r = hm_ring_write(model->end[HM_RING_WRITER], model->bytes, length, 0);
	CHECK(!r || r == -ETIME);
	if (!r)
		written(model, length, salt);
	else
		CHECK(model->n > 0);
}

static void model_reserve(struct model *model)
{
	uint32_t length = some_length(model), salt = (uint32_t)test_random(&model->state);
	uint32_t kept = (uint32_t)(test_random(&model->state) % (length + 1));
	struct hm_ring *ring = model->end[HM_RING_WRITER];
	void *to;
	int r = hm_ring_reserve(ring, length, 0, &to);

	CHECK(!r || r == -ETIME);
	if (r)
		return;
	CHECK_EQUAL((uintptr_t)to % 8, 0);
	memset(to, 0xee, length);
	ring_fill(to, kept, salt);
	if (test_random(&model->state) % 8 == 0)
		return; /* another reservation takes its place */
	CHECK_OK(hm_ring_commit(ring, kept));
	if (kept)
		written(model, kept, salt);
}

static void expect(struct model *model, const void *data, uint64_t length)
{
	uint32_t at = model->first;

	CHECK_FATAL(model->n > 0);
	CHECK_EQUAL(length, model->record[at].length);
	CHECK(ring_holds(data, length, model->record[at].salt));
	model->first = (at + 1) % MODEL_RECORDS;
	model->n--;
}

static void model_read(struct model *model)
{
	uint64_t length = 77;
	int r = hm_ring_read(model->end[HM_RING_READER], model->bytes, model->record_max, 0,
			     &length);

	if (!model->n)
		CHECK(r == -ETIME && length == 77);
	else if (!test_check_ok(r, "hm_ring_read", __FILE__, __LINE__))
		test_abandon();
	else
		expect(model, model->bytes, length);
}

static void model_peek(struct model *model)
{
	struct hm_ring *ring = model->end[HM_RING_READER];
	const void *data, *again;
	uint64_t length;
	int r = hm_ring_peek(ring, 0, &data, &length);

	if (!model->n) {
		CHECK_EQUAL(r, -ETIME);
		return;
	}
	CHECK_OK_FATAL(r);
	CHECK_OK(hm_ring_peek(ring, 0, &again, &length));
	CHECK(data == again);
	CHECK_EQUAL((uintptr_t)data % 8, 0);
	if (test_random(&model->state) % 8 == 0)
		return; /* the next one has it again */
	expect(model, data, length);
	CHECK_OK(hm_ring_release(ring));
}

static void model_reopen(struct model *model)
{
	uint32_t end = test_random(&model->state) % 2;

	if (test_random(&model->state) % 50)
		return;
	hm_ring_unref(model->end[end]);
	model->end[end] = ring_end(model->path, end);
}

static void model_query(struct model *model)
{
	uint64_t used = 0;
	uint32_t i;

	for (i = 0; i < model->n; i++)
		used += ring_room(model->record[(model->first + i) % MODEL_RECORDS].length);
	for (i = 0; i < 2; i++)
		/* With a skip. */
		CHECK(ring_info(model->end[i]).used - used < model->record_max);
}

static void random_operations(void)
{
	static void (*const run[])(struct model *) = {
		model_write, model_write, model_reserve, model_read,
		model_peek,  model_peek,  model_reopen,  model_query,
	};
	static const struct {
		uint64_t capacity;
		uint32_t operations;
	} rows[] = { { 4096, 10000 }, { 16384, 5000 }, { 1 << 20, 400 } };
	AUTO_FREE struct model *model = calloc(1, sizeof(*model));
	AUTO_FOLDER char *folder = folder_make();
	uint32_t i, k;

	CHECK_FATAL(model != NULL);
	model->state = test_seed();
	for (k = 0; k < 3; k++) {
		model->path = ring_make(folder, rows[k].capacity);
		model->end[0] = ring_end(model->path, 0);
		model->end[1] = ring_end(model->path, 1);
		model->record_max = ring_info(model->end[0]).record_max;
		model->bytes = malloc(model->record_max);
		model->first = model->n = 0;
		for (i = 0; i < rows[k].operations; i++)
			run[test_random(&model->state) % 8](model);
		while (model->n)
			model_read(model);
		model_read(model);
		hm_ring_unref(model->end[0]);
		hm_ring_unref(model->end[1]);
		free(model->bytes);
		unlink(model->path);
		free(model->path);
	}
}

/* ---- waiting ---- */

struct waiter {
	struct hm_ring *ring;
	int result;
	char byte;
};

static void *read_one(void *user)
{
	struct waiter *waiter = user;
	uint64_t length;

	waiter->result = hm_ring_read(waiter->ring, &waiter->byte, 1, UINT64_MAX, &length);
	return NULL;
}

static void *write_one(void *user)
{
	struct waiter *waiter = user;

	waiter->result = hm_ring_write(waiter->ring, &waiter->byte, 1, UINT64_MAX);
	return NULL;
}

/* A second thread is refused while a first one waits; the other end's record ends the wait. */
static void waits(void)
{
	AUTO_FOLDER char *folder = folder_make();
	AUTO_FREE char *path = ring_make(folder, 4096);
	char bytes[2040];
	struct waiter reader = { .ring = ring_end(path, HM_RING_READER) };
	struct waiter writer = { .ring = ring_end(path, HM_RING_WRITER), .byte = 'w' };
	uint64_t before, length;
	pthread_t thread;
	int i;

	before = time_now_ns();
	CHECK_ERROR(-ETIME, hm_ring_read(reader.ring, bytes, 1, 30000000, &length));
	CHECK(time_now_ns() - before >= 30000000);
	CHECK(!pthread_create(&thread, NULL, read_one, &reader));
	while (!atomic_load(&reader.ring->control->reader_sleeps))
		usleep(100);
	CHECK_ERROR(-EBUSY, hm_ring_read(reader.ring, bytes, 1, 0, &length));
	CHECK_OK(hm_ring_write(writer.ring, "r", 1, 0));
	pthread_join(thread, NULL);
	CHECK(!reader.result && reader.byte == 'r');

	memset(bytes, 0, sizeof(bytes));
	while (!hm_ring_write(writer.ring, bytes, sizeof(bytes), 0))
		;
	while (!hm_ring_write(writer.ring, bytes, 1, 0))
		;
	CHECK_ERROR(-ETIME, hm_ring_write(writer.ring, bytes, 1, 10000000));
	CHECK(!pthread_create(&thread, NULL, write_one, &writer));
	while (!atomic_load(&writer.ring->control->writer_sleeps))
		usleep(100);
	for (i = 0; i < 2; i++)
		CHECK_OK(hm_ring_read(reader.ring, bytes, sizeof(bytes), 0, &length));
	pthread_join(thread, NULL);
	CHECK(!writer.result);
	while (!hm_ring_read(reader.ring, bytes, sizeof(bytes), 0, &length))
		;
	CHECK(bytes[0] == 'w');

	/* The end of the other end is an error once; then the next one is waited for. */
	hm_ring_unref(writer.ring);
	CHECK_ERROR(-EPIPE, hm_ring_read(reader.ring, bytes, 1, UINT64_MAX, &length));
	CHECK_ERROR(-ETIME, hm_ring_read(reader.ring, bytes, 1, 5000000, &length));
	writer.ring = ring_end(path, HM_RING_WRITER);
	CHECK_OK(hm_ring_write(writer.ring, bytes, 1, 0));
	hm_ring_unref(writer.ring);
	CHECK_OK(hm_ring_read(reader.ring, bytes, 1, UINT64_MAX, &length));
	CHECK_ERROR(-EPIPE, hm_ring_read(reader.ring, bytes, 1, UINT64_MAX, &length));
	hm_ring_unref(reader.ring);
}

/* A path may lead anywhere, and its opening take long: a fork meanwhile does not wait. */
static int forking_open(const char *path, int flags, mode_t mode)
{
	int status = 1;
	pid_t pid;

	if (strncmp(path, "/proc/", 6) != 0) {
		pid = fork();
		if (!pid)
			_exit(0);
		CHECK(waitpid(pid, &status, 0) == pid && !status);
	}
	return real.open(path, flags, mode);
}

static void forks_meanwhile(void)
{
	AUTO_FOLDER char *folder = folder_make();
	AUTO_FREE char *path = ring_make(folder, 4096);
	AUTO(hm_ring) *ring = NULL;

	/* The handlers of forks are there from here on. */
	hm_ring_unref(ring_end(path, HM_RING_READER));
	real = sys_table;
	sys_table.open = forking_open;
	CHECK_OK(hm_ring_open(path, -1, HM_RING_READER, &ring));
	sys_table = real;
}

/* ---- the n-th call fails ---- */

static uint64_t allocated; /* from the first byte on, in one go after the other */

static int batched_fallocate(int fd, int mode, off_t offset, off_t length)
{
	CHECK_EQUAL(offset, allocated);
	CHECK(length > 0 && length <= 2 << 20);
	allocated += (uint64_t)length;
	return real.fallocate(fd, mode, offset, length);
}

/* Kernels begin an interrupted allocation anew: the batches are small enough. */
static void in_batches(void)
{
	AUTO_FOLDER char *folder = folder_make();

	real = sys_table;
	allocated = 0;
	sys_table.fallocate = batched_fallocate;
	AUTO_FREE char *path = ring_make(folder, 8 << 20);
	sys_table = real;
	CHECK_EQUAL(allocated, RING_DATA + (8 << 20) + RING_LAST);
}

/* The caller's file is empty again, and a next try makes it. */
static void undone_of_fd(void)
{
	struct hm_ring_desc desc = { .struct_size = sizeof(desc), .capacity = 4 << 20 };
	struct hm_ring *ring;
	bool failed = true;
	struct stat st;
	unsigned int n;
	int fd, r;

	inject_install();
	for (n = 1; failed; n++) {
		fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		CHECK_FATAL(fd >= 0);
		inject_arm(n, INJECT_ONE);
		r = hm_ring_create(NULL, fd, &desc);
		failed = inject_disarm();
		CHECK(!fstat(fd, &st));
		if (r) {
			CHECK(failed);
			CHECK_EQUAL(st.st_size, 0);
			CHECK_OK(hm_ring_create(NULL, fd, &desc));
		}
		CHECK_OK_FATAL(hm_ring_open(NULL, fd, HM_RING_READER, &ring));
		hm_ring_unref(ring);
		close(fd);
	}
	CHECK(n > 8);
	inject_forgive();
}

static void undone(void)
{
	struct hm_ring_desc desc = { .struct_size = sizeof(desc), .capacity = 4096 };
	AUTO_FOLDER char *folder = folder_make();
	AUTO_FREE char *path = folder_path(folder, "ring");
	struct hm_ring *ring;
	bool failed = true;
	unsigned int n;
	int r;

	make_table();
	inject_install();
	for (n = 1; failed; n++) {
		inject_arm(n, INJECT_ONE);
		r = hm_ring_create(path, -1, &desc);
		failed = inject_disarm();
		/* Sealing may fail, and closing has closed. */
		if (r)
			CHECK(failed &&
			      (access(path, F_OK) || !strcmp(inject_failed(), "remove")));
		unlink(path);
	}
	CHECK(n > 8);
	CHECK_OK_FATAL(hm_ring_create(path, -1, &desc));
	for (failed = true, n = 1; failed; n++) {
		ring = NULL;
		inject_arm(n, INJECT_ONE);
		r = hm_ring_open(path, -1, HM_RING_WRITER, &ring);
		failed = inject_disarm();
		CHECK(!r == (ring != NULL));
		hm_ring_unref(ring);
	}
	CHECK(n > 15);
	inject_forgive();

	/* Storage by writing it, where the file system gives none ahead. */
	unlink(path);
	inject_always("fallocate", EOPNOTSUPP);
	CHECK_OK(hm_ring_create(path, -1, &desc));
	unlink(path);
	inject_disarm();
	inject_always("fallocate", ENOSPC);
	CHECK_ERROR(-ENOSPC, hm_ring_create(path, -1, &desc));
	inject_disarm();
	inject_always("pwrite", EIO);
	CHECK_ERROR(-EIO, hm_ring_create(path, -1, &desc));
	inject_disarm();
	CHECK_OK(hm_ring_create(path, -1, &desc));
	inject_always("fcntl", ENOLCK);
	CHECK_ERROR(-ENOLCK, hm_ring_open(path, -1, HM_RING_READER, &ring));
	inject_disarm();
	/* A wait that can't be: an error, and no endless loop. */
	ring = ring_end(path, HM_RING_READER);
	inject_always("futex", EFAULT);
	CHECK_ERROR(-EFAULT, hm_ring_read(ring, &n, sizeof(n), SECOND, &desc.capacity));
	inject_disarm();
	/* Signals, and a position that moves just now, are no ends of one; its time is. */
	inject_always("futex", EINTR);
	CHECK_ERROR(-ETIME, hm_ring_read(ring, &n, sizeof(n), SECOND / 100, &desc.capacity));
	CHECK(inject_disarm());
	inject_always("futex", EAGAIN);
	CHECK_ERROR(-ETIME, hm_ring_read(ring, &n, sizeof(n), SECOND / 100, &desc.capacity));
	CHECK(inject_disarm());
	hm_ring_unref(ring);
}

/* Opened at both ends, used and closed, over and over: nothing is left of it. */
static void many_opens(void)
{
	AUTO_FOLDER char *folder = folder_make();
	AUTO_FREE char *path = ring_make(folder, 4096);
	struct test_holding before;
	struct hm_ring *reader, *writer;
	uint64_t length;
	int i, got;

	make_table();
	before = test_holding_now();
	for (i = 0; i < 10000; i++) {
		reader = ring_end(path, HM_RING_READER);
		writer = ring_end(path, HM_RING_WRITER);
		CHECK_OK(hm_ring_write(writer, &i, sizeof(i), SECOND));
		CHECK_OK(hm_ring_read(reader, &got, sizeof(got), SECOND, &length));
		CHECK_EQUAL(got, i);
		/* The last to close is the one end, or the other. */
		hm_ring_unref(i & 1 ? reader : writer);
		hm_ring_unref(i & 1 ? writer : reader);
		if (i % 1000 == 0)
			CHECK_EQUAL(test_holding_now().fds, before.fds);
	}
	test_holding_same(&before);
}

static const struct test tests[] = {
	{ "opens", opens, 0, 0 },
	{ "many_opens", many_opens, 60, TEST_ONCE },
	{ "refuses", refuses, 0, 0 },
	{ "sealed", sealed, 0, 0 },
	{ "not_over_a_network", not_over_a_network, 0, 0 },
	{ "random_operations", random_operations, 0, 0 },
	{ "waits", waits, 0, 0 },
	{ "forks_meanwhile", forks_meanwhile, 5, 0 },
	{ "in_batches", in_batches, 0, 0 },
	{ "undone", undone, 0, 0 },
	{ "undone_of_fd", undone_of_fd, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "ring", tests)
