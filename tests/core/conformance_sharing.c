// SPDX-License-Identifier: MIT
/* Conformance: export and import, seals, fork, views of callers. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/conformance.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define BYTES (UNITS * f->unit)

static bool refuses_export(struct fixture *f)
{
	int fd = -7;

	if (has(f, HM_CAP_EXPORT))
		return false;
	AUTO(hm_buffer) *buffer = fixture_make(f, BYTES, 0, NULL);
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_export(buffer, 0, &fd));
	CHECK_EQUAL(fd, -7);
	CHECK_EQUAL(buffer_info(buffer).exported, 0);
	return true;
}

/* A foreign map of the object: plain mmap(), none of our calls. */
static void export_fd(struct fixture *f)
{
	struct hm_map *map;
	struct hm_buffer *buffer;
	char *other;
	int fd;

	if (refuses_export(f))
		return;
	buffer = fixture_make(f, BYTES, 0, &map);
	CHECK_OK_FATAL(hm_buffer_export(buffer, 0, &fd));
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	CHECK_EQUAL(buffer_info(buffer).exported, 1);
	put(f, hm_map_address(map), 0, BYTES, 1);
	other = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
	CHECK_FATAL(other != MAP_FAILED);
	CHECK(holds(f, other, 0, BYTES, 1));
	put(f, hm_map_address(map), 0, BYTES, 2);
	CHECK(holds(f, other, 0, BYTES, 2));
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	CHECK(holds(f, other, 0, BYTES, 2));
	munmap(other, BYTES);
	close(fd);
}

/* A way to export that is a capability of its own. */
static bool refuses_way(struct fixture *f, uint64_t cap, uint32_t flags)
{
	int fd = -7;

	if (refuses_export(f))
		return true;
	if (has(f, cap))
		return false;
	AUTO(hm_buffer) *buffer = fixture_make(f, BYTES, 0, NULL);
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_export(buffer, flags, &fd));
	CHECK_EQUAL(fd, -7);
	CHECK_EQUAL(buffer_info(buffer).exported, 0);
	return true;
}

/* An importer without this library has the same bytes. */
static void export_dmabuf(struct fixture *f)
{
	struct hm_map *map;
	struct hm_buffer *buffer;
	struct statfs fs;
	char *other;
	int fd;

	if (refuses_way(f, HM_CAP_DMABUF, HM_EXPORT_DMABUF))
		return;
	buffer = fixture_make(f, BYTES, 2 * BYTES, &map);
	put(f, hm_map_address(map), 0, BYTES, 1);
	CHECK_OK_FATAL(hm_buffer_export(buffer, HM_EXPORT_DMABUF, &fd));
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	CHECK(!fstatfs(fd, &fs) && fs.f_type == DMA_BUF_MAGIC);
	CHECK(lseek(fd, 0, SEEK_END) >= (off_t)BYTES); /* in units of the device's */
	other = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK_FATAL(other != MAP_FAILED);
	CHECK(holds(f, other, 0, BYTES, 1));
	put(f, other, 0, BYTES, 2);
	CHECK(holds(f, hm_map_address(map), 0, BYTES, 2));
	/* Pages that were given back would part the two. */
	if (has(f, HM_CAP_RESIZE) && f->info.backing == HM_BACKING_MEMFD) {
		CHECK_ERROR(-EBUSY, hm_buffer_resize(buffer, f->unit, 0));
		CHECK_OK(hm_buffer_resize(buffer, 2 * BYTES, 0));
	}
	put(f, hm_map_address(map), 0, BYTES, 3);
	CHECK(holds(f, other, 0, BYTES, 3));
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	CHECK(holds(f, other, 0, BYTES, 3));
	munmap(other, BYTES);
	close(fd);
}

/*
 * Nor by opening the object behind the descriptor again, as a receiver can. For a file the
 * permissions count.
 */
static void check_reopened(struct fixture *f, int fd)
{
	char path[64];
	void *bytes;
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = f->info.backing == HM_BACKING_FILE ? -1 : open(path, O_RDWR | O_CLOEXEC);
	if (again < 0)
		return;
	bytes = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0);
	CHECK(bytes == MAP_FAILED);
	if (bytes != MAP_FAILED)
		munmap(bytes, BYTES);
	CHECK(write(again, "x", 1) < 0);
	close(again);
}

static void export_read_only(struct fixture *f)
{
	struct hm_map *map, *further;
	int fd, r;

	if (refuses_way(f, HM_CAP_READ_ONLY, HM_EXPORT_READ_ONLY))
		return;
	AUTO(hm_buffer) *buffer = fixture_make(f, BYTES, 0, &map);
	CHECK_OK_FATAL(hm_buffer_export(buffer, HM_EXPORT_READ_ONLY, &fd));
	CHECK(mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	put(f, hm_map_address(map), 0, BYTES, 1);
	CHECK(holds(f, hm_map_address(map), 0, BYTES, 1));
	CHECK(write(fd, "x", 1) < 0);
	check_reopened(f, fd);
	r = hm_map_create(buffer, NULL, &further);
	CHECK(r == 0 || (r == -EPERM && strstr(hm_errmsg(), "seal")) ||
	      !has(f, HM_CAP_MULTI_MAP));
	if (!r)
		hm_map_unref(further);
	close(fd);
	CHECK_ERROR(-EINVAL, hm_buffer_export(buffer, 1u << 29, &fd));
	hm_map_unref(map);
}

static void import(struct fixture *f)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc) };
	struct hm_map *map, *other_map;
	struct hm_buffer *other;
	uint64_t size;
	int fd;

	if (!(f->device_info.caps & HM_CAP_IMPORT) || refuses_export(f))
		return;
	AUTO(hm_buffer) *buffer = fixture_make(f, BYTES, BYTES, &map);
	put(f, hm_map_address(map), 0, BYTES, 1);
	CHECK_OK_FATAL(hm_buffer_export(buffer, 0, &fd));
	CHECK_OK_FATAL(hm_buffer_import(f->device, fd, NULL, &other));
	CHECK_EQUAL(buffer_info(other).page_size, buffer_info(buffer).page_size);
	CHECK_OK_FATAL(hm_map_create(other, NULL, &other_map));
	size = hm_map_length(other_map);
	CHECK(size >= BYTES);
	CHECK(holds(f, hm_map_address(other_map), 0, BYTES, 1));
	put(f, hm_map_address(map), 0, BYTES, 2);
	CHECK(holds(f, hm_map_address(other_map), 0, BYTES, 2));
	hm_map_unref(other_map);
	hm_buffer_unref(other);
	other = NULL;
	/* The object may be larger than the buffer, by the device's pages. */
	desc.size = (uint64_t)lseek(fd, 0, SEEK_END) + f->unit;
	CHECK_ERROR(-EINVAL, hm_buffer_import(f->device, fd, &desc, &other));
	CHECK(!other);
	close(fd);
	hm_map_unref(map);
}

/* Import refuses bytes that another process could cut off, and objects that are no buffer. */
static void import_foreign(struct fixture *f)
{
	struct hm_buffer *buffer = NULL;
	int fd, r;

	if (!(f->device_info.caps & HM_CAP_IMPORT))
		return;
	fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK_FATAL(fd >= 0 && !ftruncate(fd, (off_t)f->unit));
	r = hm_buffer_import(f->device, fd, NULL, &buffer);
	CHECK(r == -EPERM || r == -EINVAL || r == -EOPNOTSUPP);
	CHECK(hm_errmsg()[0]);
	/* A device that wants a seal takes a sealed object; the others know only their own. */
	CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	if (r == -EPERM) {
		CHECK_OK_FATAL(hm_buffer_import(f->device, fd, NULL, &buffer));
		CHECK_EQUAL(buffer_info(buffer).size, f->unit);
		hm_buffer_unref(buffer);
	} else {
		CHECK_ERROR(r, hm_buffer_import(f->device, fd, NULL, &buffer));
	}
	close(fd);
	buffer = NULL;
	CHECK_ERROR(-EBADF, hm_buffer_import(f->device, fd, NULL, &buffer));
	CHECK_ERROR(-EBADF, hm_buffer_import(f->device, -1, NULL, &buffer));
	CHECK(!buffer);
}

static void seals(struct fixture *f)
{
	int fd, set;

	if (refuses_export(f))
		return;
	AUTO(hm_buffer) *buffer = fixture_make(f, BYTES, 0, NULL);
	CHECK_OK_FATAL(hm_buffer_export(buffer, 0, &fd));
	set = fcntl(fd, F_GET_SEALS);
	if (set >= 0 &&
	    (f->info.backing == HM_BACKING_MEMFD || f->info.backing == HM_BACKING_HUGETLB)) {
		CHECK_EQUAL(set & (F_SEAL_SHRINK | F_SEAL_GROW), F_SEAL_SHRINK | F_SEAL_GROW);
		CHECK(ftruncate(fd, 0) < 0 && errno == EPERM);
		CHECK(ftruncate(fd, (off_t)(1000 * BYTES)) < 0 && errno == EPERM);
		close(fd);
		CHECK_OK_FATAL(hm_buffer_export(buffer, HM_EXPORT_READ_ONLY, &fd));
		CHECK(fcntl(fd, F_GET_SEALS) & F_SEAL_FUTURE_WRITE);
	}
	close(fd);
}

/* Sealed against writing, the buffer can no longer be punched: it says so. */
static void shrink_after_read_only(struct fixture *f)
{
	int fd;

	if (!has(f, HM_CAP_RESIZE) || f->info.backing != HM_BACKING_MEMFD ||
	    refuses_way(f, HM_CAP_READ_ONLY, HM_EXPORT_READ_ONLY))
		return;
	AUTO(rig) r = fixture_rig(f, BYTES, 0);
	put(f, hm_map_address(r.map), 0, BYTES, 1);
	CHECK_OK_FATAL(hm_buffer_export(r.buffer, HM_EXPORT_READ_ONLY, &fd));
	CHECK_ERROR(-EPERM, hm_buffer_resize(r.buffer, f->unit, 0));
	CHECK_EQUAL(hm_map_length(r.map), BYTES);
	CHECK(holds(f, hm_map_address(r.map), 0, BYTES, 1));
	close(fd);
}

/* ---- fork ---- */

struct family {
	struct fixture *f;
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	struct hm_view *view;
	char *base;
};

static void child_uses(void *user)
{
	struct family *family = user;
	struct fixture *f = family->f;
	struct hm_device_info device_info = { .struct_size = sizeof(device_info) };
	struct hm_buffer_info info = { .struct_size = sizeof(info) };
	struct hm_map_info map_now = { .struct_size = sizeof(map_now) };
	struct hm_pointer_info found;
	struct hm_map *map = NULL;

	CHECK_ERROR(-EOWNERDEAD, hm_device_query(family->device, &device_info));
	CHECK_ERROR(-EOWNERDEAD, hm_buffer_query(family->buffer, &info));
	CHECK_ERROR(-EOWNERDEAD, hm_buffer_resize(family->buffer, f->unit, 0));
	CHECK_ERROR(-EOWNERDEAD, hm_map_create(family->buffer, NULL, &map));
	CHECK_ERROR(-EOWNERDEAD, hm_map_query(family->map, &map_now));
	CHECK_ERROR(-EOWNERDEAD, hm_map_protect(family->map, 0, f->unit, HM_READ));
	CHECK_ERROR(-EOWNERDEAD, hm_map_lock(family->map, 0, f->unit, 0, NULL));
	CHECK_ERROR(-EOWNERDEAD, hm_map_unlock(family->map, 0, f->unit));
	CHECK_ERROR(-EOWNERDEAD, hm_map_advise(family->map, 0, f->unit, 0));
	CHECK_ERROR(-EOWNERDEAD, hm_map_prefetch(family->map, 0, f->unit, HM_READ));
	CHECK_ERROR(-EOWNERDEAD, hm_map_sync(family->map, 0, f->unit, 0));
	CHECK_ERROR(-EOWNERDEAD, hm_map_begin_cpu(family->map, 0, f->unit, HM_READ));
	if (has(f, HM_CAP_FORK)) {
		CHECK_EQUAL(hm_pointer_find(family->base, &found), 0);
		CHECK(holds(f, family->base, 0, BYTES, 1));
		put(f, family->base, 0, BYTES, 2);
	} else {
		CHECK_EQUAL(hm_pointer_find(family->base, &found), -ENOENT);
	}
	hm_view_unref(family->view);
	hm_map_unref(family->map);
	hm_buffer_unref(family->buffer);
	hm_device_unref(family->device);
}

/* A child that does not call the library shows the kernel's part of the inheritance. */
static void child_reads(void *user)
{
	(void)*(volatile char *)user;
}

static void fork_inherits(struct fixture *f)
{
	struct hm_view_ops ops = { .struct_size = sizeof(ops) };
	struct family family = { .f = f, .device = f->device };

	family.buffer = fixture_make(f, BYTES, 0, &family.map);
	family.base = hm_map_address(family.map);
	CHECK_OK_FATAL(hm_view_create(family.map, 0, 0, &ops, NULL, &family.view));
	put(f, family.base, 0, BYTES, 1);
	CHECK_EQUAL(test_fork(child_reads, family.base), has(f, HM_CAP_FORK) ? 0 : SIGSEGV);
	CHECK_EQUAL(test_fork(child_uses, &family), 0);
	/* Shared memory shows the child's stores; private memory does not. */
	if (has(f, HM_CAP_FORK) && !(f->info.flags & HM_BUFFER_PRIVATE))
		CHECK(holds(f, family.base, 0, BYTES, 2));
	else
		CHECK(holds(f, family.base, 0, BYTES, 1));
	CHECK_EQUAL(map_info(family.map, 0).length, BYTES);
	hm_view_unref(family.view);
	hm_map_unref(family.map);
	hm_buffer_unref(family.buffer);
}

/* Whatever takes a map's place, children inherit it or not as before. */
static void fork_after_growth(struct fixture *f)
{
	static const struct {
		uint64_t cap;
		uint32_t flags;
		uint64_t units;
	} rows[] = {
		{ HM_CAP_RESIZE, 0, UNITS + 1 },
		{ HM_CAP_APPEND, HM_GROW_APPEND, UNITS + 2 },
		{ HM_CAP_REPLACE, HM_GROW_REPLACE, UNITS + 3 },
		{ HM_CAP_REPLACE, HM_MAY_MOVE, 10 * MAX_UNITS },
	};
	int expected = has(f, HM_CAP_FORK) ? 0 : SIGSEGV;
	AUTO(rig) r = fixture_rig(f, BYTES, MAX_UNITS * f->unit);
	struct hm_map_info info;
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (!has(f, rows[i].cap))
			continue;
		CHECK_OK(hm_buffer_resize(r.buffer, rows[i].units * f->unit, rows[i].flags));
		info = map_info(r.map, 0);
		CHECK_EQUAL(test_fork(child_reads, info.address), expected);
		CHECK_EQUAL(test_fork(child_reads, (char *)info.address + info.length - 1),
			    expected);
	}
}

static void child_works(void *user)
{
	struct fixture *f = user;

	CHECK_OK_FATAL(hm_device_open(f->subject->device, &f->device));
	AUTO(rig) r = fixture_rig(f, BYTES, 0);
	put(f, hm_map_address(r.map), 0, BYTES, 1);
	CHECK(holds(f, hm_map_address(r.map), 0, BYTES, 1));
	hm_device_unref(f->device);
}

/* A child that opens its own works like any process. */
static void fork_child_works(struct fixture *f)
{
	AUTO(rig) r = fixture_rig(f, BYTES, 0);

	CHECK_EQUAL(test_fork(child_works, f), 0);
}

/* ---- views ---- */

struct watcher {
	int refuse; /* the answer of quiesce */
	int n_quiesce, n_invalidate, n_reattach;
	struct hm_view_change last;
};

static int on_quiesce(void *user, const struct hm_view_change *change)
{
	struct watcher *watcher = user;

	watcher->n_quiesce++;
	watcher->last = *change;
	return watcher->refuse;
}

static void on_invalidate(void *user, const struct hm_view_change *change)
{
	struct watcher *watcher = user;

	watcher->n_invalidate++;
	watcher->last = *change;
}

static void on_reattach(void *user, const struct hm_view_change *change)
{
	struct watcher *watcher = user;

	watcher->n_reattach++;
	watcher->last = *change;
}

static const struct hm_view_ops watch = {
	.struct_size = sizeof(watch),
	.quiesce = on_quiesce,
	.invalidate = on_invalidate,
	.reattach = on_reattach,
};

static void views_are_told(struct fixture *f)
{
	struct watcher watcher = { 0 };
	AUTO(rig) r = fixture_rig(f, BYTES, 2 * BYTES);
	struct hm_view *view;
	char *base = hm_map_address(r.map);

	CHECK_OK_FATAL(hm_view_create(r.map, 0, 0, &watch, &watcher, &view));
	CHECK_EQUAL(map_info(r.map, 0).views, 1);
	CHECK_EQUAL(watcher.n_quiesce + watcher.n_invalidate + watcher.n_reattach, 0);
	if (has(f, HM_CAP_PROTECT)) {
		CHECK_OK(hm_map_protect(r.map, 0, f->unit, HM_NONE));
		CHECK_EQUAL(watcher.n_quiesce, 1);
		CHECK_EQUAL(watcher.n_reattach, 1);
		CHECK(watcher.last.old_address == base);
		CHECK_OK(hm_map_protect(r.map, 0, f->unit, HM_READ));
	}
	if (has(f, HM_CAP_RESIZE)) {
		memset(&watcher, 0, sizeof(watcher));
		CHECK_OK(hm_buffer_resize(r.buffer, f->unit, 0));
		CHECK_EQUAL(watcher.n_quiesce, 1);
		CHECK_EQUAL(watcher.n_invalidate, 1);
		CHECK_EQUAL(watcher.n_reattach, 1);
		CHECK(watcher.last.old_address == base && watcher.last.new_address == base);
		CHECK_EQUAL(watcher.last.old_length, BYTES);
		CHECK_EQUAL(watcher.last.new_length, f->unit);
	}
	hm_view_unref(view);
	CHECK_EQUAL(map_info(r.map, 0).views, 0);
}

static void views_refuse(struct fixture *f)
{
	struct watcher willing = { 0 }, refusing = { .refuse = -EAGAIN };
	AUTO(rig) r = fixture_rig(f, BYTES, 2 * BYTES);
	AUTO(hm_view) *first = NULL;
	AUTO(hm_view) *second = NULL;

	put(f, hm_map_address(r.map), 0, BYTES, 1);
	CHECK_OK_FATAL(hm_view_create(r.map, 0, 0, &watch, &willing, &first));
	CHECK_OK_FATAL(hm_view_create(r.map, 0, 0, &watch, &refusing, &second));
	if (has(f, HM_CAP_PROTECT)) {
		CHECK_ERROR(-EBUSY, hm_map_protect(r.map, 0, f->unit, HM_NONE));
		CHECK_EQUAL(map_info(r.map, 0).runs, 1);
	}
	if (has(f, HM_CAP_RESIZE)) {
		CHECK_ERROR(-EBUSY, hm_buffer_resize(r.buffer, f->unit, 0));
		CHECK_EQUAL(hm_map_length(r.map), BYTES);
	}
	CHECK(holds(f, hm_map_address(r.map), 0, BYTES, 1));
	/* A quiesced view is told to go on, and no view lost the address. */
	CHECK_EQUAL(willing.n_quiesce, willing.n_reattach);
	CHECK_EQUAL(willing.n_invalidate + refusing.n_invalidate, 0);
	refusing.refuse = 0;
	if (has(f, HM_CAP_RESIZE))
		CHECK_OK(hm_buffer_resize(r.buffer, f->unit, 0));
}

const struct conformance_case conformance_sharing[] = {
	{ "export", export_fd },
	{ "export_read_only", export_read_only },
	{ "export_dmabuf", export_dmabuf },
	{ "import", import },
	{ "import_foreign", import_foreign },
	{ "seals", seals },
	{ "shrink_after_read_only", shrink_after_read_only },
	{ "fork_inherits", fork_inherits },
	{ "fork_after_growth", fork_after_growth },
	{ "fork_child_works", fork_child_works },
	{ "views_are_told", views_are_told },
	{ "views_refuse", views_refuse },
	{ NULL, NULL },
};
