// SPDX-License-Identifier: MIT
/* Subjects of the conformance cases, and their buffers. */
#include "core/conformance.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dmabuf/dmabuf.h"

#define DEVICES_MAX 32

static bool add_subject(struct subject *subjects, unsigned int capacity, unsigned int *n,
			const char *device, const char *kind, uint32_t flags)
{
	struct subject *subject = &subjects[*n];

	if (*n >= capacity)
		return false;
	snprintf(subject->device, sizeof(subject->device), "%s", device);
	snprintf(subject->name, sizeof(subject->name), "%s%s%s", device, *kind ? "-" : "",
		 kind);
	subject->flags = flags;
	(*n)++;
	return true;
}

/*
 * A pool that has pages, but too few for every case, gives some buffers huge pages and others none,
 * and the cases can't know which. An empty pool gives none, and 256 pages are enough for all.
 */
static bool pool_is_short(void)
{
	FILE *file = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "re");
	unsigned int n_free = 0;

	if (file) {
		if (fscanf(file, "%u", &n_free) != 1)
			n_free = 0;
		fclose(file);
	}
	if (!n_free || n_free >= 256)
		return false;
	fprintf(stderr,
		"conformance: no buffers of huge pages: the pool has %u, not 0 or 256\n",
		n_free);
	return true;
}

/* Devices that no list shows, as they open only by name: card nodes. */
static unsigned int add_named(struct subject *subjects, unsigned int capacity)
{
	const char *names = getenv("HETMAP_TEST_DEVICES");
	char *name, *rest;
	unsigned int n = 0;
	AUTO_FREE char *copy = strdup(names ? names : "");

	for (name = strtok_r(copy, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
		add_subject(subjects, capacity, &n, name, "", 0);
	return n;
}

static uint32_t place_of(struct hm_device *device, uint32_t asked)
{
	struct hm_buffer_info info = { .struct_size = sizeof(info) };
	struct hm_buffer *buffer;

	if (hm_buffer_create(device, DESC(hm_buffer_desc, .size = 4096, .place = asked),
			     &buffer))
		return HM_PLACE_DEFAULT;
	hm_buffer_query(buffer, &info);
	hm_buffer_unref(buffer);
	return info.place;
}

static bool has_memory(const char *name)
{
	AUTO(hm_device) *device = NULL;

	if (hm_device_open(name, &device))
		return false;
	return place_of(device, HM_PLACE_DEFAULT) == HM_PLACE_SYSTEM &&
	       place_of(device, HM_PLACE_DEVICE) == HM_PLACE_DEVICE;
}

/*
 * Does the device have memory of its own that it gives only on request? The question leaves
 * nothing behind: idle memory has a thread, and tests are forked from here.
 */
static bool has_more(const char *name)
{
	const char *idle = getenv("HETMAP_DRM_IDLE");
	AUTO_FREE char *before = idle ? strdup(idle) : NULL;
	bool more;

	setenv("HETMAP_DRM_IDLE", "0", 1);
	more = has_memory(name);
	if (before)
		setenv("HETMAP_DRM_IDLE", before, 1);
	else
		unsetenv("HETMAP_DRM_IDLE");
	return more;
}

/* The module's dma-bufs in vgem, and vgem's in the module. */
static unsigned int add_imported(struct subject *subjects, unsigned int capacity)
{
	static const char *const pairs[][2] = {
		{ "drm:/dev/dri/card0", "sim:0" },
		{ "sim:0", "drm:/dev/dri/card0" },
	};
	const char *named = getenv("HETMAP_TEST_DEVICES");
	struct hm_device *device;
	unsigned int n = 0, i;
	char kind[80];

	if (!named || !strstr(named, pairs[0][0]) || hm_device_open("sim:0", &device))
		return 0;
	hm_device_unref(device);
	for (i = 0; i < 2; i++) {
		snprintf(kind, sizeof(kind), "of-%s", pairs[i][1]);
		if (add_subject(subjects, capacity, &n, pairs[i][0], kind, 0))
			subjects[n - 1].exporter = pairs[i][1];
	}
	return n;
}

unsigned int conformance_subjects(struct subject *subjects, unsigned int capacity)
{
	struct hm_device_info infos[DEVICES_MAX];
	unsigned int n = 0;
	uint32_t n_device, i;
	bool is_short;

	infos[0].struct_size = sizeof(infos[0]);
	if (hm_device_list(infos, DEVICES_MAX, &n_device))
		return 0;
	is_short = pool_is_short();
	n = add_named(subjects, capacity);
	for (i = 0; i < n_device && i < DEVICES_MAX; i++) {
		add_subject(subjects, capacity, &n, infos[i].name, "", 0);
		/* Created bytes without write access would stay zero: only files. */
		if (infos[i].caps & HM_CAP_FROM_FILE)
			add_subject(subjects, capacity, &n, infos[i].name, "read_only",
				    HM_BUFFER_READ_ONLY);
		if (infos[i].caps & HM_CAP_PRIVATE)
			add_subject(subjects, capacity, &n, infos[i].name, "private",
				    HM_BUFFER_PRIVATE);
		if ((infos[i].caps & HM_CAP_HUGETLB) && !is_short)
			add_subject(subjects, capacity, &n, infos[i].name, "hugetlb",
				    HM_BUFFER_HUGETLB);
		if (infos[i].caps & HM_CAP_PLACE && has_more(infos[i].name) &&
		    add_subject(subjects, capacity, &n, infos[i].name, "device", 0))
			subjects[n - 1].place = HM_PLACE_DEVICE;
	}
	n += add_imported(&subjects[n], capacity - n);
	/* A device whose memory CPUs reach a part at a time. */
	if (add_subject(subjects, capacity, &n, "soft:0", "window", 0))
		subjects[n - 1].settings = "vram_mb=128 bar_mb=32";
	return n;
}

/* The exporter's buffer ends at once: the importer alone holds it. */
static int import_from_exporter(struct fixture *f, const struct hm_buffer_desc *desc,
				struct hm_buffer **ret_buffer)
{
	struct hm_buffer_desc whole = *desc;
	struct hm_device *exporter;
	struct hm_buffer *made;
	int fd, r;

	/* A dma-buf has its size for life, and its place is not asked for. */
	whole.place = HM_PLACE_DEFAULT;
	if (whole.size < whole.max_size)
		whole.size = whole.max_size;
	CHECK_OK_FATAL(hm_device_open(f->subject->exporter, &exporter));
	r = hm_buffer_create(exporter, &whole, &made);
	if (r)
		goto out;
	CHECK_OK_FATAL(hm_buffer_export(made, HM_EXPORT_DMABUF, &fd));
	r = hm_buffer_import(f->device, fd, desc, ret_buffer);
	close(fd);
	hm_buffer_unref(made);
out:
	hm_device_unref(exporter);
	return r;
}

int fixture_buffer(struct fixture *f, uint64_t size, uint64_t max_size,
		   struct hm_buffer **ret_buffer)
{
	struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.flags = f->subject->flags,
		.size = size,
		.max_size = max_size,
		.name = "conformance",
		.place = f->subject->place,
	};
	int fd, r;

	if (f->subject->exporter)
		return import_from_exporter(f, &desc, ret_buffer);
	if (f->device_info.caps & HM_CAP_CREATE)
		return hm_buffer_create(f->device, &desc, ret_buffer);
	fd = scratch_file(size);
	r = hm_buffer_from_file(f->device, NULL, fd, &desc, ret_buffer);
	close(fd);
	return r;
}

struct hm_buffer *fixture_make(struct fixture *f, uint64_t size, uint64_t max_size,
			       struct hm_map **ret_map)
{
	struct hm_buffer *buffer;

	CHECK_OK_FATAL(fixture_buffer(f, size, max_size, &buffer));
	if (ret_map)
		CHECK_OK_FATAL(hm_map_create(buffer, NULL, ret_map));
	return buffer;
}

struct rig fixture_rig(struct fixture *f, uint64_t size, uint64_t max_size)
{
	struct rig r = { 0 };

	r.buffer = fixture_make(f, size, max_size, &r.map);
	r.bytes = hm_map_address(r.map);
	return r;
}

/* The page size is known once there is a buffer: the second one has UNITS of it. */
void fixture_open(struct fixture *f, const struct subject *subject)
{
	memset(f, 0, sizeof(*f));
	f->subject = subject;
	if (subject->settings)
		setenv("HETMAP_SOFT", subject->settings, 1);
	f->device_info.struct_size = sizeof(f->device_info);
	CHECK_OK_FATAL(hm_device_open(subject->device, &f->device));
	CHECK_OK_FATAL(hm_device_query(f->device, &f->device_info));
	AUTO(hm_buffer) *buffer = fixture_make(f, 1, 0, NULL);
	f->unit = buffer_info(buffer).page_size;
	hm_buffer_unref(buffer);
	buffer = fixture_make(f, UNITS * f->unit, MAX_UNITS * f->unit, NULL);
	f->info = buffer_info(buffer);
	f->caps = f->info.caps;
	f->writable = f->info.access & HM_WRITE;
}

void fixture_close(struct fixture *f)
{
	hm_device_unref(f->device);
}

bool fixture_is_sent(struct fixture *f, uint32_t flags)
{
	bool file = f->info.backing == HM_BACKING_FILE;
	struct hm_buffer *buffer;
	int fd, seals;

	if (!has(f, HM_CAP_EXPORT) ||
	    !(f->device_info.caps & (file ? HM_CAP_FROM_FILE : HM_CAP_IMPORT)))
		return false;
	/* No holder may punch holes that others would touch. */
	if (f->info.backing == HM_BACKING_HUGETLB && !(flags & HM_EXPORT_READ_ONLY))
		return false;
	buffer = fixture_make(f, UNITS * f->unit, 0, NULL);
	CHECK_OK_FATAL(hm_buffer_export(buffer, 0, &fd));
	seals = fcntl(fd, F_GET_SEALS);
	/* Only memfds have seals [memfd_file_seals_ptr()]: no dma-buf is kept from here. */
	CHECK(!dmabuf_is(fd) || (seals < 0 && errno == EINVAL));
	close(fd);
	hm_buffer_unref(buffer);
	return file || seals < 0 || seals & F_SEAL_SHRINK;
}

void put(const struct fixture *f, void *base, uint64_t from, uint64_t to, uint32_t salt)
{
	if (f->writable)
		pattern_write(base, from, to, salt);
}

bool holds(const struct fixture *f, const void *base, uint64_t from, uint64_t to, uint32_t salt)
{
	return f->writable ? pattern_holds(base, from, to, salt) : is_zero(base, from, to);
}
