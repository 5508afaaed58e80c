// SPDX-License-Identifier: MIT
/* Buffers of descriptors that permit less than reading and writing, by their mode or a seal. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/support.h"

#define SIZE 16384ull
#define POISON ((void *)0x10)

static const struct hm_buffer_desc reader = { .struct_size = sizeof(reader),
					      .flags = HM_BUFFER_READ_ONLY };

/* A memfd that can't be truncated, as the host device requires. */
static int sealed_memfd(void)
{
	int fd = memfd_create("descriptors", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK_FATAL(fd >= 0 && !ftruncate(fd, SIZE) && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	return fd;
}

static int make(struct hm_device *device, int fd, const struct hm_buffer_desc *desc,
		struct hm_buffer **ret_buffer)
{
	struct hm_device_info info = device_info(device);

	if (info.caps & HM_CAP_IMPORT)
		return hm_buffer_import(device, fd, desc, ret_buffer);
	return hm_buffer_from_file(device, NULL, fd, desc, ret_buffer);
}

/*
 * Making a buffer for writing fails with @r. Making one for reading fails with @read; if that is 0,
 * the buffer can be mapped, too.
 */
static void is_made(const char *name, int fd, int r, int read)
{
	struct hm_buffer *buffer = POISON;
	AUTO(hm_device) *device = rig_device(name);

	CHECK_ERROR(r, make(device, fd, NULL, &buffer));
	CHECK(buffer == POISON);
	if (read) {
		CHECK_ERROR(read, make(device, fd, &reader, &buffer));
		CHECK(buffer == POISON);
	} else {
		CHECK(strstr(hm_errmsg(), "HM_BUFFER_READ_ONLY"));
		CHECK_OK_FATAL(make(device, fd, &reader, &buffer));
		CHECK_EQUAL(buffer_info(buffer).access, HM_READ);
		AUTO(hm_map) *map = rig_map(buffer, NULL);
		hm_buffer_unref(buffer);
	}
}

static void modes(void)
{
	static const struct {
		int mode, r, read;
	} rows[] = {
		{ O_RDONLY, -EACCES, 0 },
		{ O_WRONLY, -EACCES, -EACCES },
		{ O_PATH, -EBADF, -EBADF },
	};
	int fd = sealed_memfd(), way;
	char path[40];
	size_t i;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		way = open(path, rows[i].mode | O_CLOEXEC);
		CHECK_FATAL(way >= 0);
		is_made("host", way, rows[i].r, rows[i].read);
		is_made("file", way, rows[i].r, rows[i].read);
		close(way);
	}
	close(fd);
}

static void seals(void)
{
	static const int rows[] = { F_SEAL_FUTURE_WRITE, F_SEAL_WRITE };
	size_t i;
	int fd;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		fd = sealed_memfd();
		CHECK_FATAL(!fcntl(fd, F_ADD_SEALS, rows[i]));
		is_made("host", fd, -EACCES, 0);
		is_made("file", fd, -EACCES, 0);
		close(fd);
	}
}

/* A dma-buf can't be opened again, except to read its name. */
static void dmabufs(void)
{
	struct hm_buffer *buffer;
	struct hm_device *host;
	char path[40];
	int fd, name;

	CHECK_OK_FATAL(hm_device_open("host", &host));
	CHECK_OK_FATAL(hm_buffer_create(host, DESC(hm_buffer_desc, .size = SIZE), &buffer));
	/* Without udmabuf no dma-buf can be made here; the machines have it. */
	if (!(buffer_info(buffer).caps & HM_CAP_DMABUF)) {
		CHECK_ERROR(-EOPNOTSUPP, hm_buffer_export(buffer, HM_EXPORT_DMABUF, &fd));
		goto out;
	}
	CHECK_OK_FATAL(hm_buffer_export(buffer, HM_EXPORT_DMABUF, &fd));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	name = open(path, O_PATH | O_CLOEXEC);
	CHECK_FATAL(name >= 0);
	is_made("host", name, -EBADF, -EBADF);
	is_made("udmabuf", name, -EBADF, -EBADF);
	close(name);
	close(fd);
out:
	hm_buffer_unref(buffer);
	hm_device_unref(host);
}

/* The program closes all descriptors, and opens a file under the number of the library's. */
static void closed_by_program(void)
{
	struct hm_device *host;
	struct hm_buffer *buffer;
	int first = dup(STDERR_FILENO), i, fd;

	CHECK_FATAL(first > STDERR_FILENO);
	close(first);
	CHECK_OK_FATAL(hm_device_open("host", &host));
	buffer = rig_buffer(host, DESC(hm_buffer_desc, .size = SIZE, .max_size = 2 * SIZE));
	CHECK_FATAL(!close_range((unsigned int)first, ~0u, 0));
	CHECK_ERROR(-EBADF, hm_buffer_resize(buffer, SIZE / 2, 0));
	CHECK_EQUAL(buffer_info(buffer).size, SIZE);
	for (i = 0, fd = first; i < 64; i++, fd++)
		CHECK_FATAL(dup2(STDERR_FILENO, fd) == fd);
	hm_buffer_unref(buffer);
	hm_device_unref(host);
	for (i = 0, fd = first; i < 64 && !fcntl(fd, F_GETFD); i++, fd++)
		;
	CHECK(i < 64);
}

static const struct test tests[] = {
	{ "modes", modes, 0, 0 },     { "seals", seals, 0, 0 },
	{ "dmabufs", dmabufs, 0, 0 }, { "closed_by_program", closed_by_program, 0, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "descriptors", tests)
