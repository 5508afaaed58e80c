// SPDX-License-Identifier: MIT
/* Conformance: devices and buffers as objects; placement, names, references. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/conformance.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

static void device_query(struct fixture *f)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };

	CHECK(f->device_info.name[0]);
	CHECK(f->device_info.backend[0]);
	CHECK(f->device_info.description[0]);
	CHECK(f->device_info.page_size >= 4096);
	CHECK(f->device_info.granule >= f->device_info.page_size);
	CHECK(f->device_info.memory_free <= f->device_info.memory_total);
	AUTO(hm_device) *again = rig_device(f->device_info.name);
	CHECK_OK(hm_device_query(again, &info));
	CHECK(!strcmp(info.name, f->device_info.name));
	CHECK_EQUAL(info.caps, f->device_info.caps);
}

static void buffer_query(struct fixture *f)
{
	uint64_t size = 3 * f->unit + 5, max_size = 7 * f->unit;
	AUTO(hm_buffer) *first = fixture_make(f, size, max_size, NULL);
	AUTO(hm_buffer) *second = fixture_make(f, size, 0, NULL);
	struct hm_buffer_info info = buffer_info(first);

	CHECK_EQUAL(info.size, size);
	CHECK(info.max_size >= max_size);
	CHECK_EQUAL(info.segments, 1);
	CHECK_EQUAL(info.maps, 0);
	CHECK_EQUAL(info.exported, 0);
	CHECK(info.caps & HM_CAP_CONTIGUOUS);
	CHECK(info.access & HM_READ);
	CHECK(info.serial != buffer_info(second).serial);
	CHECK(buffer_info(second).max_size >= size);
}

/* A buffer has no capability that its device lacks; flags are those that hold. */
static void capabilities(struct fixture *f)
{
	uint64_t of_buffers = HM_CAP_CONTIGUOUS;
	bool read_only = f->subject->flags & HM_BUFFER_READ_ONLY;

	CHECK_EQUAL(f->caps & ~(f->device_info.caps | of_buffers), 0);
	CHECK_EQUAL(f->info.flags & ~f->subject->flags, 0);
	CHECK_EQUAL(!!(f->caps & HM_CAP_WRITE), f->writable);
	CHECK(!(read_only && f->writable));
	CHECK(f->device_info.caps & (HM_CAP_CREATE | HM_CAP_FROM_FILE));
}

/* Huge pages that were not obtained show: flag, page size and backing agree. */
static void huge_pages(struct fixture *f)
{
	bool huge = f->info.flags & HM_BUFFER_HUGETLB;

	CHECK_EQUAL(huge, f->info.backing == HM_BACKING_HUGETLB);
	CHECK_EQUAL(huge, f->unit > f->device_info.page_size);
}

static void missing_sources(struct fixture *f)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = f->unit };
	struct hm_buffer *poison = (void *)16, *buffer = poison;
	int fd = scratch_file(f->unit);

	if (!(f->device_info.caps & HM_CAP_CREATE))
		CHECK_ERROR(-EOPNOTSUPP, hm_buffer_create(f->device, &desc, &buffer));
	if (!(f->device_info.caps & HM_CAP_FROM_FILE))
		CHECK_ERROR(-EOPNOTSUPP,
			    hm_buffer_from_file(f->device, NULL, fd, NULL, &buffer));
	if (!(f->device_info.caps & HM_CAP_IMPORT))
		CHECK_ERROR(-EOPNOTSUPP, hm_buffer_import(f->device, fd, NULL, &buffer));
	close(fd);
	CHECK(buffer == poison);
}

static int make_flagged(struct fixture *f, uint32_t flags, struct hm_buffer **ret_buffer)
{
	struct subject flagged = *f->subject;
	struct fixture other = *f;

	flagged.flags = flags;
	other.subject = &flagged;
	return fixture_buffer(&other, f->unit, 0, ret_buffer);
}

static void missing_flags(struct fixture *f)
{
	static const struct {
		uint32_t flag;
		uint64_t cap;
	} rows[] = {
		{ HM_BUFFER_PRIVATE, HM_CAP_PRIVATE },
		{ HM_BUFFER_HUGETLB, HM_CAP_HUGETLB },
	};
	struct hm_buffer *buffer;
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (f->device_info.caps & rows[i].cap) {
			CHECK_OK_FATAL(make_flagged(f, rows[i].flag, &buffer));
			hm_buffer_unref(buffer);
		} else {
			CHECK_ERROR(-EOPNOTSUPP, make_flagged(f, rows[i].flag, &buffer));
		}
	CHECK_ERROR(-EINVAL, make_flagged(f, 1u << 31, &buffer));
}

/* ---- placement ---- */

static int make_placed(struct fixture *f, uint32_t mode, uint64_t nodes,
		       struct hm_buffer **ret_buffer)
{
	struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.flags = f->subject->flags,
		.size = 4 * f->unit,
		.numa_mode = mode,
		.numa_nodes = nodes,
	};
	int fd, r;

	if (f->device_info.caps & HM_CAP_CREATE)
		return hm_buffer_create(f->device, &desc, ret_buffer);
	fd = scratch_file(desc.size);
	r = hm_buffer_from_file(f->device, NULL, fd, &desc, ret_buffer);
	close(fd);
	return r;
}

static void check_node(struct fixture *f, struct hm_buffer *buffer)
{
	struct hm_pointer_detail detail = {
		.struct_size = sizeof(detail),
		.fields = HM_POINTER_NODE,
	};
	AUTO(hm_map) *map = rig_map(buffer, NULL);

	put(f, hm_map_address(map), 0, 4 * f->unit, 1);
	CHECK(holds(f, hm_map_address(map), 0, 4 * f->unit, 1));
	CHECK_OK(hm_pointer_query(hm_map_address(map), &detail));
	CHECK_EQUAL(detail.numa_node, 0);
}

/* Pages of the huge pool are taken before a policy could place them. */
static bool places(struct fixture *f)
{
	return has(f, HM_CAP_NUMA) && !(f->subject->flags & HM_BUFFER_HUGETLB);
}

static void numa(struct fixture *f)
{
	static const uint32_t modes[] = { HM_NUMA_BIND, HM_NUMA_INTERLEAVE, HM_NUMA_PREFERRED,
					  HM_NUMA_WEIGHTED };
	struct hm_buffer *buffer = NULL;
	size_t i;

	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (!places(f)) {
			CHECK_ERROR(-EOPNOTSUPP, make_placed(f, modes[i], 1, &buffer));
			continue;
		}
		CHECK_OK_FATAL(make_placed(f, modes[i], 1, &buffer));
		check_node(f, buffer);
		hm_buffer_unref(buffer);
		CHECK_ERROR(-EINVAL, make_placed(f, modes[i], 0, &buffer));
		CHECK_ERROR(-EINVAL, make_placed(f, modes[i], 1ull << 63, &buffer));
	}
	CHECK_ERROR(-EINVAL, make_placed(f, HM_NUMA_WEIGHTED + 1, 1, &buffer));
	CHECK_ERROR(-EINVAL, make_placed(f, HM_NUMA_DEFAULT, 1, &buffer));
}

static int make_in(struct fixture *f, uint32_t place, struct hm_buffer **ret_buffer)
{
	struct subject asking = *f->subject;
	struct fixture other = *f;

	asking.place = place;
	other.subject = &asking;
	return fixture_buffer(&other, 2 * f->unit, 4 * f->unit, ret_buffer);
}

/* The bytes are right there, and stay there in a new object. */
static void check_place(struct fixture *f, struct hm_buffer *buffer, uint32_t place)
{
	uint64_t used = 2 * f->unit, grown = 3 * f->unit;
	void *base;

	CHECK_EQUAL(buffer_info(buffer).place, place);
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	base = hm_map_address(map);
	CHECK(is_zero(base, 0, used));
	put(f, base, 0, used, 1);
	if (buffer_info(buffer).caps & HM_CAP_REPLACE) {
		CHECK_OK_FATAL(hm_buffer_resize(buffer, grown, HM_GROW_REPLACE));
		CHECK_EQUAL(buffer_info(buffer).place, place);
		CHECK(is_zero(base, used, grown));
	}
	CHECK(holds(f, base, 0, used, 1));
}

/* Made there, or refused with a reason; no device has neither memory. */
static void places_of_device(struct fixture *f)
{
	struct hm_buffer *poison = (void *)16, *buffer;
	uint32_t place, n_made = 0;

	/* An imported buffer stays at its place. */
	if (f->subject->exporter) {
		CHECK_ERROR(-EINVAL, make_in(f, HM_PLACE_SYSTEM, &buffer));
		return;
	}
	for (place = HM_PLACE_DEVICE; place <= HM_PLACE_SYSTEM; place++) {
		buffer = poison;
		if (make_in(f, place, &buffer)) {
			CHECK_ERROR(-EOPNOTSUPP, make_in(f, place, &buffer));
			CHECK(buffer == poison);
			continue;
		}
		n_made++;
		check_place(f, buffer, place);
		hm_buffer_unref(buffer);
	}
	CHECK_EQUAL(n_made > 0, !!(f->device_info.caps & HM_CAP_PLACE));
	CHECK(!(f->caps & HM_CAP_PLACE));
	CHECK_ERROR(-EINVAL, make_in(f, HM_PLACE_SYSTEM + 1, &buffer));
	if (f->subject->place)
		CHECK_EQUAL(f->info.place, f->subject->place);
}

/* ---- names ---- */

static bool kernel_names_memory(void *page)
{
	return !prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, page, 4096, "hetmap probe");
}

/* The line of /proc/self/maps that holds @address. */
static bool maps_line(const void *address, char *ret_line, size_t size)
{
	uintptr_t begin, end;
	bool found = false;
	FILE *file = fopen("/proc/self/maps", "re");

	while (file && !found && fgets(ret_line, (int)size, file))
		found = sscanf(ret_line, "%lx-%lx", &begin, &end) == 2 &&
			(uintptr_t)address >= begin && (uintptr_t)address < end;
	if (file)
		fclose(file);
	return found;
}

static void names(struct fixture *f)
{
	AUTO(rig) r = fixture_rig(f, 2 * f->unit, 4 * f->unit);
	void *page = aligned_alloc(4096, 4096);
	bool memory_named = kernel_names_memory(page);
	char line[512] = "";

	free(page);
	CHECK_FATAL(maps_line(hm_map_address(r.map), line, sizeof(line)));
	if (f->info.backing == HM_BACKING_ANON && memory_named)
		CHECK(strstr(line, "[anon:") && strstr(line, "conformance"));
	if (f->info.backing == HM_BACKING_MEMFD || f->info.backing == HM_BACKING_HUGETLB)
		CHECK(strstr(line, "memfd:") && strstr(line, "conformance"));
}

/* ---- references ---- */

static void references(struct fixture *f)
{
	struct hm_map *map;
	struct hm_buffer *buffer = fixture_make(f, f->unit, 0, &map);
	struct hm_stats before = stats_now(), after;

	CHECK(hm_device_ref(f->device) == f->device);
	CHECK(hm_buffer_ref(buffer) == buffer);
	CHECK(hm_map_ref(map) == map);
	CHECK_EQUAL(buffer_info(buffer).maps, 1);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(f->device);
	CHECK(is_zero(hm_map_address(map), 0, f->unit));
	hm_map_unref(map);
	CHECK_EQUAL(buffer_info(buffer).maps, 0);
	hm_buffer_unref(buffer);
	after = stats_now();
	CHECK_EQUAL(after.maps, before.maps - 1);
	CHECK_EQUAL(after.buffers, before.buffers - 1);
	CHECK_EQUAL(after.devices, before.devices);
	CHECK(!hm_device_ref(NULL) && !hm_buffer_ref(NULL) && !hm_map_ref(NULL));
	hm_device_unref(NULL);
	hm_buffer_unref(NULL);
	hm_map_unref(NULL);
	hm_view_unref(NULL);
}

struct order {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	struct hm_view *view;
};

static void drop(struct order *order, int which)
{
	switch (which) {
	case 0:
		hm_device_unref(order->device);
		break;
	case 1:
		hm_buffer_unref(order->buffer);
		break;
	case 2:
		hm_map_unref(order->map);
		break;
	default:
		hm_view_unref(order->view);
		break;
	}
}

static void drop_in_order(struct fixture *f, const int *sequence)
{
	struct hm_view_ops ops = { .struct_size = sizeof(ops) };
	struct hm_device *kept = f->device;
	struct order order;
	int i, held = 2;
	char *base;

	CHECK_OK_FATAL(hm_device_open(f->subject->device, &order.device));
	f->device = order.device;
	order.buffer = fixture_make(f, f->unit, 0, &order.map);
	f->device = kept;
	base = hm_map_address(order.map);
	CHECK_OK_FATAL(hm_view_create(order.map, 0, 0, &ops, NULL, &order.view));
	put(f, base, 0, f->unit, 3);
	for (i = 0; i < 4; i++) {
		drop(&order, sequence[i]);
		/* The map lives while its own reference or the view's does. */
		if (sequence[i] >= 2)
			held--;
		if (held)
			CHECK(holds(f, base, 0, f->unit, 3));
	}
}

static void unref_orders(struct fixture *f)
{
	struct hm_stats before = stats_now(), after;
	int s[4], n = 0;

	for (s[0] = 0; s[0] < 4; s[0]++)
		for (s[1] = 0; s[1] < 4; s[1]++)
			for (s[2] = 0; s[2] < 4; s[2]++) {
				s[3] = 6 - s[0] - s[1] - s[2];
				if (s[0] == s[1] || s[0] == s[2] || s[1] == s[2])
					continue;
				drop_in_order(f, s);
				n++;
			}
	CHECK_EQUAL(n, 24);
	after = stats_now();
	CHECK_EQUAL(after.devices, before.devices);
	CHECK_EQUAL(after.buffers, before.buffers);
	CHECK_EQUAL(after.maps, before.maps);
	CHECK_EQUAL(after.views, before.views);
	CHECK_EQUAL(after.bytes_mapped, before.bytes_mapped);
	CHECK_EQUAL(after.bytes_reserved, before.bytes_reserved);
}

const struct conformance_case conformance_objects[] = {
	{ "device_query", device_query },
	{ "buffer_query", buffer_query },
	{ "capabilities", capabilities },
	{ "huge_pages", huge_pages },
	{ "missing_sources", missing_sources },
	{ "missing_flags", missing_flags },
	{ "numa", numa },
	{ "places", places_of_device },
	{ "names", names },
	{ "references", references },
	{ "unref_orders", unref_orders },
	{ NULL, NULL },
};
