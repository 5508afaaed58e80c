// SPDX-License-Identifier: MIT
/* Conformance: locking, advice, prefetch, brackets, sync. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/conformance.h"

#define BYTES (UNITS * f->unit)

static uint32_t most_access(const struct fixture *f)
{
	return f->writable ? HM_READ | HM_WRITE : HM_READ;
}

static bool refuses_lock(struct fixture *f)
{
	uint64_t before = test_status_bytes("VmLck");

	if (has(f, HM_CAP_LOCK))
		return false;
	AUTO(rig) r = fixture_rig(f, BYTES, 0);
	CHECK_ERROR(-EOPNOTSUPP, hm_map_lock(r.map, 0, BYTES, 0, NULL));
	CHECK_EQUAL(test_status_bytes("VmLck"), before);
	return true;
}

static void lock(struct fixture *f)
{
	uint64_t before, locked = 0;
	struct hm_map *map;
	struct hm_buffer *buffer;
	struct hm_map_info info;

	if (refuses_lock(f))
		return;
	before = test_status_bytes("VmLck");
	buffer = fixture_make(f, BYTES, 0, &map);
	CHECK_OK(hm_map_lock(map, f->unit, 4 * f->unit, 0, &locked));
	CHECK_EQUAL(locked, 4 * f->unit);
	CHECK_EQUAL(test_status_bytes("VmLck") - before, 4 * f->unit);
	info = map_info(map, HM_MAP_LOCKED | HM_MAP_RESIDENT);
	CHECK_EQUAL(info.locked, 4 * f->unit);
	CHECK(info.resident >= 4 * f->unit);
	CHECK_EQUAL(stats_now().bytes_locked, 4 * f->unit);
	/* Locks do not nest. */
	CHECK_OK(hm_map_lock(map, f->unit, 4 * f->unit, 0, NULL));
	CHECK_EQUAL(test_status_bytes("VmLck") - before, 4 * f->unit);
	CHECK_OK(hm_map_unlock(map, 2 * f->unit, f->unit));
	CHECK_EQUAL(test_status_bytes("VmLck") - before, 3 * f->unit);
	CHECK_EQUAL(stats_now().bytes_locked, 3 * f->unit);
	CHECK_OK(hm_map_unlock(map, 0, BYTES));
	CHECK_EQUAL(test_status_bytes("VmLck"), before);
	CHECK_OK(hm_map_unlock(map, 0, BYTES));
	CHECK_EQUAL(stats_now().bytes_locked, 0);
	/* A map that goes takes its locks along. */
	CHECK_OK(hm_map_lock(map, 0, BYTES, 0, NULL));
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	CHECK_EQUAL(test_status_bytes("VmLck"), before);
	CHECK_EQUAL(stats_now().bytes_locked, 0);
}

static void lock_rules(struct fixture *f)
{
	uint64_t locked = 4711;

	if (refuses_lock(f))
		return;
	AUTO(rig) r = fixture_rig(f, BYTES, 0);
	CHECK_ERROR(-EINVAL, hm_map_lock(r.map, 0, 0, 0, &locked));
	CHECK_ERROR(-EINVAL, hm_map_lock(r.map, 1, f->unit, 0, &locked));
	CHECK_ERROR(-ERANGE, hm_map_lock(r.map, 0, BYTES + 1, 0, &locked));
	CHECK_ERROR(-ERANGE, hm_map_lock(r.map, f->unit, UINT64_MAX - f->unit + 1, 0, &locked));
	CHECK_ERROR(-EINVAL, hm_map_lock(r.map, 0, f->unit, 1u << 9, &locked));
	CHECK_ERROR(-EINVAL, hm_map_unlock(r.map, 0, 0));
	CHECK_ERROR(-EINVAL, hm_map_unlock(r.map, 1, f->unit));
	CHECK_ERROR(-ERANGE, hm_map_unlock(r.map, 0, BYTES + 1));
	if (has(f, HM_CAP_PROTECT)) {
		CHECK_OK(hm_map_protect(r.map, 0, f->unit, HM_NONE));
		CHECK_ERROR(-EACCES, hm_map_lock(r.map, 0, 2 * f->unit, 0, &locked));
	}
	CHECK_EQUAL(locked, 4711);
	CHECK_EQUAL(stats_now().bytes_locked, 0);
}

static void lock_on_fault(struct fixture *f)
{
	uint64_t before, locked = 0;

	if (refuses_lock(f))
		return;
	before = test_status_bytes("VmLck");
	AUTO(rig) r = fixture_rig(f, BYTES, 0);
	CHECK_OK(hm_map_lock(r.map, 0, BYTES, HM_LOCK_ONFAULT, &locked));
	CHECK_EQUAL(locked, BYTES);
	CHECK_EQUAL(test_status_bytes("VmLck") - before, BYTES);
	CHECK_EQUAL(map_info(r.map, HM_MAP_RESIDENT).resident, 0);
	put(f, hm_map_address(r.map), 0, f->unit, 1);
	CHECK(holds(f, hm_map_address(r.map), 0, f->unit, 1));
	CHECK(map_info(r.map, HM_MAP_RESIDENT).resident >= f->unit);
	CHECK_OK(hm_map_unlock(r.map, 0, BYTES));
}

struct limited {
	struct fixture *f;
	struct hm_buffer *buffer;
	struct hm_map *map;
};

/* The objects are made in the child: it could not use its parent's. */
static void make_limited(struct limited *limited, struct fixture *f, uint64_t more)
{
	CHECK_OK_FATAL(hm_device_open(f->subject->device, &f->device));
	limited->buffer = fixture_make(f, BYTES, 0, &limited->map);
	limit_memlock(more);
}

static void lock_too_much(void *user)
{
	struct limited limited;
	struct fixture *f = user;
	uint64_t locked = 4711, before;

	make_limited(&limited, f, 3 * f->unit);
	before = test_status_bytes("VmLck");
	CHECK_ERROR(-ENOMEM, hm_map_lock(limited.map, 0, BYTES, 0, &locked));
	CHECK(strstr(hm_errmsg(), "RLIMIT_MEMLOCK"));
	CHECK_EQUAL(locked, 4711);
	CHECK_EQUAL(test_status_bytes("VmLck"), before);
	CHECK_EQUAL(map_info(limited.map, HM_MAP_LOCKED).locked, 0);
	CHECK_OK(hm_map_lock(limited.map, f->unit, 6 * f->unit, HM_LOCK_PARTIAL, &locked));
	CHECK_EQUAL(locked, 3 * f->unit);
	CHECK_EQUAL(test_status_bytes("VmLck") - before, 3 * f->unit);
	CHECK(strstr(hm_warning(), "RLIMIT_MEMLOCK"));
	/* Pages that are locked already cost nothing more. */
	CHECK_OK(hm_map_lock(limited.map, f->unit, 3 * f->unit, 0, &locked));
	CHECK_EQUAL(locked, 3 * f->unit);
	/* Nor do locked pages take from the limit for other pages. */
	CHECK_OK(hm_map_unlock(limited.map, 3 * f->unit, f->unit));
	CHECK_OK(hm_map_lock(limited.map, f->unit, 6 * f->unit, HM_LOCK_PARTIAL, &locked));
	CHECK_EQUAL(locked, 3 * f->unit);
	/* All of them are locked, and no other can be. */
	CHECK_OK(hm_map_lock(limited.map, f->unit, 4 * f->unit, HM_LOCK_PARTIAL, &locked));
	CHECK_EQUAL(locked, 3 * f->unit);
	CHECK_OK(hm_map_lock(limited.map, 0, 3 * f->unit, HM_LOCK_PARTIAL, &locked));
	CHECK_EQUAL(locked, 0);
	/* Up to the locked pages, and these, too. */
	CHECK_OK(hm_map_unlock(limited.map, f->unit, f->unit));
	CHECK_OK(hm_map_lock(limited.map, f->unit, 4 * f->unit, HM_LOCK_PARTIAL, &locked));
	CHECK_EQUAL(locked, 3 * f->unit);
	CHECK_EQUAL(test_status_bytes("VmLck") - before, 3 * f->unit);
	CHECK_OK(hm_map_unlock(limited.map, 0, BYTES));
	CHECK_EQUAL(test_status_bytes("VmLck"), before);
}

static void lock_nothing(void *user)
{
	struct limited limited;
	struct fixture *f = user;

	make_limited(&limited, f, 0);
	CHECK_ERROR(-EPERM, hm_map_lock(limited.map, 0, BYTES, 0, NULL));
	CHECK_EQUAL(map_info(limited.map, HM_MAP_LOCKED).locked, 0);
}

static void lock_limits(struct fixture *f)
{
	if (refuses_lock(f))
		return;
	CHECK_EQUAL(test_fork(lock_too_much, f), 0);
	CHECK_EQUAL(test_fork(lock_nothing, f), 0);
}

/* New bytes of a locked range are not locked by themselves; cut ones are let go. */
static void lock_and_resize(struct fixture *f)
{
	uint64_t before;

	if (!has(f, HM_CAP_RESIZE) || refuses_lock(f))
		return;
	before = test_status_bytes("VmLck");
	AUTO(rig) r = fixture_rig(f, BYTES, 2 * BYTES);
	CHECK_OK(hm_map_lock(r.map, 0, BYTES, 0, NULL));
	CHECK_OK(hm_buffer_resize(r.buffer, 2 * f->unit, 0));
	CHECK_EQUAL(test_status_bytes("VmLck") - before, 2 * f->unit);
	CHECK_EQUAL(stats_now().bytes_locked, 2 * f->unit);
	CHECK_EQUAL(map_info(r.map, HM_MAP_LOCKED).locked, 2 * f->unit);
	CHECK_OK(hm_map_unlock(r.map, 0, 2 * f->unit));
	CHECK_EQUAL(test_status_bytes("VmLck"), before);
}

static void lock_and_replace(struct fixture *f)
{
	uint64_t before;
	struct hm_map *map;
	struct hm_buffer *buffer;

	if (!has(f, HM_CAP_REPLACE) || refuses_lock(f))
		return;
	before = test_status_bytes("VmLck");
	buffer = fixture_make(f, BYTES, 4 * BYTES, &map);
	CHECK_OK(hm_map_lock(map, 0, BYTES, 0, NULL));
	CHECK_OK(hm_buffer_resize(buffer, 2 * BYTES, HM_GROW_REPLACE));
	/* Never a silent downgrade: locked pages stay locked. */
	CHECK_EQUAL(map_info(map, HM_MAP_LOCKED).locked, BYTES);
	CHECK_EQUAL(stats_now().bytes_locked, test_status_bytes("VmLck") - before);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	CHECK_EQUAL(test_status_bytes("VmLck"), before);
	CHECK_EQUAL(stats_now().bytes_locked, 0);
}

/* ---- advice and prefetch ---- */

static void advise(struct fixture *f)
{
	static const uint32_t advices[] = {
		HM_ADVICE_SEQUENTIAL, HM_ADVICE_RANDOM,     HM_ADVICE_WILLNEED,
		HM_ADVICE_COLD,       HM_ADVICE_PAGEOUT,    HM_ADVICE_NORMAL,
		HM_ADVICE_HUGEPAGE,   HM_ADVICE_NOHUGEPAGE,
	};
	AUTO(rig) rig = fixture_rig(f, BYTES, 0);
	size_t i;
	int r;

	put(f, rig.bytes, 0, BYTES, 1);
	for (i = 0; i < sizeof(advices) / sizeof(advices[0]); i++) {
		r = hm_map_advise(rig.map, f->unit, 3 * f->unit, advices[i]);
		if (r)
			CHECK_EQUAL(r, -EOPNOTSUPP);
		if (r)
			CHECK(hm_errmsg()[0]);
		CHECK(holds(f, rig.bytes, 0, BYTES, 1));
	}
	CHECK_OK(hm_map_advise(rig.map, 0, BYTES, HM_ADVICE_NORMAL));
	CHECK_ERROR(-EINVAL, hm_map_advise(rig.map, 0, BYTES, HM_ADVICE_NOHUGEPAGE + 1));
	CHECK_ERROR(-EINVAL, hm_map_advise(rig.map, 0, 0, HM_ADVICE_NORMAL));
	CHECK_ERROR(-EINVAL, hm_map_advise(rig.map, 1, f->unit, HM_ADVICE_NORMAL));
	CHECK_ERROR(-ERANGE, hm_map_advise(rig.map, f->unit, BYTES, HM_ADVICE_NORMAL));
}

/* Pages of [from, to) that mincore() sees. */
static uint64_t present(const char *base, uint64_t from, uint64_t to)
{
	unsigned char vector[4096];
	uint64_t at, n = 0;

	for (at = from; at < to; at += 4096)
		if (!mincore((void *)(uintptr_t)(base + at), 4096, vector))
			n += vector[0] & 1;
	return n * 4096;
}

static void prefetch(struct fixture *f)
{
	AUTO(rig) r = fixture_rig(f, BYTES, 0);

	if (!has(f, HM_CAP_POPULATE)) {
		CHECK_ERROR(-EOPNOTSUPP, hm_map_prefetch(r.map, 0, BYTES, HM_READ));
		return;
	}
	CHECK_OK(hm_map_prefetch(r.map, f->unit, 2 * f->unit, most_access(f)));
	CHECK_EQUAL(present(r.bytes, f->unit, 3 * f->unit), 2 * f->unit);
	CHECK(map_info(r.map, HM_MAP_RESIDENT).resident >= 2 * f->unit);
	put(f, r.bytes, 0, BYTES, 1);
	CHECK_OK(hm_map_prefetch(r.map, 0, BYTES, HM_READ));
	CHECK_OK(hm_map_prefetch(r.map, 0, BYTES, most_access(f)));
	CHECK_EQUAL(map_info(r.map, HM_MAP_RESIDENT).resident, BYTES);
	CHECK(holds(f, r.bytes, 0, BYTES, 1));
	if (!f->writable)
		CHECK_ERROR(-EACCES, hm_map_prefetch(r.map, 0, BYTES, HM_READ | HM_WRITE));
	if (has(f, HM_CAP_PROTECT)) {
		CHECK_OK(hm_map_protect(r.map, 0, f->unit, HM_NONE));
		CHECK_ERROR(-EACCES, hm_map_prefetch(r.map, 0, BYTES, HM_READ));
	}
	CHECK_ERROR(-EINVAL, hm_map_prefetch(r.map, 0, 0, HM_READ));
	CHECK_ERROR(-EINVAL, hm_map_prefetch(r.map, 0, BYTES, HM_NONE));
	CHECK_ERROR(-EINVAL, hm_map_prefetch(r.map, 0, BYTES, 1u << 8));
	CHECK_ERROR(-ERANGE, hm_map_prefetch(r.map, 0, BYTES + 1, HM_READ));
}

/* The resident size in /proc lags behind, up to 64 pages before Linux 6.2. */
static uint64_t minor_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_minflt;
}

static void populate(struct fixture *f)
{
	struct hm_map_desc desc = {
		.struct_size = sizeof(desc),
		.flags = HM_MAP_POPULATE,
		.access = most_access(f),
	};
	AUTO(hm_buffer) *buffer = fixture_make(f, BYTES, 0, NULL);
	AUTO(hm_map) *map = NULL;
	uint64_t before;

	if (has(f, HM_CAP_POPULATE)) {
		CHECK_OK_FATAL(hm_map_create(buffer, &desc, &map));
		CHECK_EQUAL(map_info(map, HM_MAP_RESIDENT).resident, BYTES);
		before = minor_faults();
		CHECK(is_zero(hm_map_address(map), 0, BYTES));
		/* Other things may fault, but less than all its pages would. */
		if (f->info.backing == HM_BACKING_MEMFD)
			CHECK(minor_faults() - before < UNITS);
	} else {
		CHECK_ERROR(-EOPNOTSUPP, hm_map_create(buffer, &desc, &map));
	}
}

/* ---- brackets and sync ---- */

/* Together more than CPUs reach at a time of the subject that has least. */
#define CROWD (16ull * 1024 * 1024)
#define N_CROWD 3

static void brackets(struct fixture *f)
{
	AUTO(rig) r = fixture_rig(f, BYTES, 0);

	CHECK_OK(hm_map_begin_cpu(r.map, 3, 100, HM_READ));
	CHECK_OK(hm_map_begin_cpu(r.map, 0, BYTES, HM_READ | HM_WRITE));
	CHECK_EQUAL(map_info(r.map, 0).brackets, 2);
	CHECK_OK(hm_map_end_cpu(r.map, 0, BYTES, HM_READ | HM_WRITE));
	CHECK_OK(hm_map_end_cpu(r.map, 3, 100, HM_READ));
	CHECK_EQUAL(map_info(r.map, 0).brackets, 0);
	CHECK_ERROR(-EINVAL, hm_map_end_cpu(r.map, 3, 100, HM_READ));
	CHECK_ERROR(-EINVAL, hm_map_begin_cpu(r.map, 0, 0, HM_READ));
	CHECK_ERROR(-EINVAL, hm_map_begin_cpu(r.map, 0, 1, HM_NONE));
	CHECK_ERROR(-EINVAL, hm_map_begin_cpu(r.map, 0, 1, 1u << 12));
	CHECK_ERROR(-ERANGE, hm_map_begin_cpu(r.map, BYTES, 1, HM_READ));
	CHECK_ERROR(-ERANGE, hm_map_begin_cpu(r.map, 1, UINT64_MAX, HM_READ));
	CHECK_ERROR(-ERANGE, hm_map_end_cpu(r.map, BYTES, 1, HM_READ));
	CHECK_EQUAL(map_info(r.map, 0).brackets, 0);
	/* A bracket of bytes that a shrink cuts off can end all the same. */
	if (has(f, HM_CAP_RESIZE)) {
		CHECK_OK(hm_map_begin_cpu(r.map, 0, BYTES, HM_READ));
		CHECK_OK(hm_map_begin_cpu(r.map, BYTES - 1, 1, HM_READ));
		CHECK_OK(hm_buffer_resize(r.buffer, f->unit, 0));
		CHECK_OK(hm_map_end_cpu(r.map, BYTES - 1, 1, HM_READ));
		CHECK_OK(hm_map_end_cpu(r.map, 0, BYTES, HM_READ));
		CHECK_EQUAL(map_info(r.map, 0).brackets, 0);
	}
}

/* A bracket brings crowded-out bytes back to where CPUs reach them, or nothing does. */
static void crowded(struct fixture *f)
{
	struct hm_map *map, *others[N_CROWD];
	struct hm_buffer *buffer = fixture_make(f, BYTES, 0, &map), *other[N_CROWD];
	unsigned int i;

	put(f, hm_map_address(map), 0, BYTES, 1);
	for (i = 0; i < N_CROWD; i++) {
		other[i] = fixture_make(f, CROWD, 0, &others[i]);
		put(f, hm_map_address(others[i]), 0, BYTES, i);
	}
	if (has(f, HM_CAP_BRACKET))
		CHECK_OK(hm_map_begin_cpu(map, 0, BYTES, HM_READ));
	CHECK(holds(f, hm_map_address(map), 0, BYTES, 1));
	if (has(f, HM_CAP_BRACKET))
		CHECK_OK(hm_map_end_cpu(map, 0, BYTES, HM_READ));
	for (i = 0; i < N_CROWD; i++) {
		if (has(f, HM_CAP_BRACKET))
			CHECK_OK(hm_map_begin_cpu(others[i], 0, CROWD, HM_READ));
		CHECK(holds(f, hm_map_address(others[i]), 0, BYTES, i));
		if (has(f, HM_CAP_BRACKET))
			CHECK_OK(hm_map_end_cpu(others[i], 0, CROWD, HM_READ));
		hm_map_unref(others[i]);
		hm_buffer_unref(other[i]);
	}
	hm_map_unref(map);
	hm_buffer_unref(buffer);
}

static void sync_map(struct fixture *f)
{
	AUTO(rig) r = fixture_rig(f, BYTES, 0);

	put(f, hm_map_address(r.map), 0, BYTES, 1);
	CHECK_OK(hm_map_sync(r.map, 0, BYTES, 0));
	CHECK_OK(hm_map_sync(r.map, f->unit, f->unit, HM_SYNC_ASYNC));
	CHECK_ERROR(-EINVAL, hm_map_sync(r.map, 0, 0, 0));
	CHECK_ERROR(-EINVAL, hm_map_sync(r.map, 0, BYTES, 1u << 4));
	CHECK_ERROR(-ERANGE, hm_map_sync(r.map, 0, BYTES + 1, 0));
	CHECK(holds(f, hm_map_address(r.map), 0, BYTES, 1));
}

/* hm_pointer_query() agrees with hm_map_query(). */
static void pointer_query(struct fixture *f)
{
	struct hm_pointer_detail detail = {
		.struct_size = sizeof(detail),
		.fields = HM_POINTER_PAGE_SIZE,
	};
	AUTO(rig) r = fixture_rig(f, BYTES, 0);

	put(f, r.bytes, 0, BYTES, 1);
	CHECK(holds(f, r.bytes, 0, BYTES, 1));
	CHECK_OK(hm_pointer_query(r.bytes + f->unit + 1, &detail));
	CHECK(detail.info.map == r.map);
	CHECK_EQUAL(detail.info.map_offset, f->unit + 1);
	CHECK(detail.page_size >= f->unit);
	/* Where the kernel can't bring pages in, it may not see them either. */
	detail.fields = HM_POINTER_RESIDENT;
	if (has(f, HM_CAP_POPULATE) || f->info.backing != HM_BACKING_DEVICE) {
		CHECK_OK(hm_pointer_query(r.bytes + f->unit + 1, &detail));
		CHECK_EQUAL(detail.resident, 1);
	} else {
		CHECK_ERROR(-EOPNOTSUPP, hm_pointer_query(r.bytes + f->unit + 1, &detail));
	}
	if (has(f, HM_CAP_LOCK)) {
		detail.fields = HM_POINTER_LOCKED;
		CHECK_OK(hm_pointer_query(r.bytes, &detail));
		CHECK_EQUAL(detail.locked, 0);
		CHECK_OK(hm_map_lock(r.map, 0, f->unit, 0, NULL));
		CHECK_OK(hm_pointer_query(r.bytes, &detail));
		CHECK_EQUAL(detail.locked, 1);
		CHECK_OK(hm_map_unlock(r.map, 0, f->unit));
		/* On fault: also where no page is there yet, or none is left. */
		CHECK_OK(hm_map_advise(r.map, 0, BYTES, HM_ADVICE_PAGEOUT));
		CHECK_OK(hm_map_lock(r.map, 0, BYTES, HM_LOCK_ONFAULT, NULL));
		CHECK_OK(hm_pointer_query(r.bytes, &detail));
		CHECK_EQUAL(detail.locked, 1);
		CHECK_ERROR(-EOPNOTSUPP, hm_map_advise(r.map, 0, BYTES, HM_ADVICE_COLD));
		CHECK(strstr(hm_errmsg(), "hm_map_unlock"));
	}
	CHECK_ERROR(-ENOENT, hm_pointer_query(&detail, &detail));
	detail.fields = 1u << 20;
	CHECK_ERROR(-EINVAL, hm_pointer_query(r.bytes, &detail));
}

const struct conformance_case conformance_pages[] = {
	{ "lock", lock },
	{ "lock_rules", lock_rules },
	{ "lock_on_fault", lock_on_fault },
	{ "lock_limits", lock_limits },
	{ "lock_and_resize", lock_and_resize },
	{ "lock_and_replace", lock_and_replace },
	{ "advise", advise },
	{ "prefetch", prefetch },
	{ "populate", populate },
	{ "brackets", brackets },
	{ "crowded", crowded },
	{ "sync", sync_map },
	{ "pointer_query", pointer_query },
	{ NULL, NULL },
};
