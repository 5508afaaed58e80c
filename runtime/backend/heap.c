// SPDX-License-Identifier: MIT
/*
 * Backend "heap": memory of /dev/dma_heap/NAME, made for devices and mapped by CPUs through its
 * dma-buf. An object has its size, and its pages, from the start and for life; maps are
 * VM_PFNMAP, where mlock() answers 0 and does nothing, and MADV_POPULATE_* is EINVAL. A heap of
 * any name imports any dma-buf that CPUs may map.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/dma-heap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/core.h"
#include "dmabuf/dmabuf.h"
#include "map/map.h"
#include "base/reserve.h"
#include "base/rlimits.h"
#include "base/smaps.h"
#include "base/sys.h"

#define FOLDER "/dev/dma_heap"
#define HEAP_NAME_MAX 64 /* as long as a device name can be */
#define RESIZE_CAPS (HM_CAP_RESIZE | HM_CAP_APPEND | HM_CAP_REPLACE | HM_CAP_RESIZE_REPLACES)
#define HEAP_CAPS (HM_CAP_CREATE | HM_CAP_IMPORT | RESIZE_CAPS | DMABUF_CAPS)
#define HEAP_OPS_CAPS (HEAP_CAPS | HM_BACKEND_LIST | DMABUF_BRACKET_CAPS)

/* Below this size, reading /proc/meminfo costs too much. */
#define CHECKED_LEAST MIB(16)

struct heap {
	int fd;
	char name[HEAP_NAME_MAX];
};

/* ---- the heaps of the machine ---- */

static int is_heap(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/*
 * Lists heaps in the order of their names; the caller frees each. Returns the number, or
 * -ENOMEM.
 */
static int scan(struct dirent ***ret_entries)
{
	int n = scandir(FOLDER, ret_entries, is_heap, alphasort);

	if (n >= 0)
		return n;
	return errno == ENOMEM ? -ENOMEM : 0;
}

static void scan_free(struct dirent **entries, int n)
{
	while (n-- > 0)
		free(entries[n]);
	free(entries);
}

static int each_device(int (*each)(void *user, const char *name), void *user)
{
	struct dirent **entries = NULL;
	int n = scan(&entries), i, r = 0;
	char name[300];

	if (n < 0)
		return err_set(n, "no memory to list dma-heaps");
	for (i = 0; !r && i < n; i++) {
		snprintf(name, sizeof(name), "heap:%s", entries[i]->d_name);
		r = each(user, name);
	}
	scan_free(entries, n);
	return r;
}

/* "cma, system" */
static void list_names(char *text, size_t size)
{
	struct dirent **entries = NULL;
	int n = scan(&entries), i;
	size_t length = 0;

	text[0] = '\0';
	for (i = 0; i < n && length < size; i++)
		length += (size_t)snprintf(text + length, size - length, "%s%s", i ? ", " : "",
					   entries[i]->d_name);
	scan_free(entries, n);
}

/* ---- the device ---- */

static int explain_open(int r, const char *name)
{
	char names[256];

	switch (r) {
	case -ENOENT:
	case -ENXIO:
	case -ENODEV:
		list_names(names, sizeof(names));
		if (names[0])
			return err_set(-ENODEV,
				       "there is no heap \"%s\": " FOLDER " has %s (a name "
				       "follows, as in \"heap:system\")",
				       name, names);
		return err_set(
			-ENODEV,
			"there is no " FOLDER ": this kernel has no heaps (modprobe "
			"system_heap; CONFIG_DMABUF_HEAPS_SYSTEM, which Debian's has "
			"from 6.12 on), or the container was not given them (--device " FOLDER
			"/system); buffers of \"host\" become dma-bufs, too, "
			"by HM_EXPORT_DMABUF");
	case -EACCES:
	case -EPERM:
		return err_set(-EACCES,
			       FOLDER
			       "/%s may not be opened: it is root's as a rule: chmod a+r "
			       "it, by a udev rule for good (SUBSYSTEM==\"dma_heap\"); in "
			       "a container: start it with --device " FOLDER "/%s",
			       name, name);
	default:
		return rlimits_explain_fd(r, FOLDER);
	}
}

static int device_open(const char *rest, void **ret_device)
{
	char path[sizeof(FOLDER) + HEAP_NAME_MAX];
	struct heap *heap;
	int r;

	if (!*rest || *rest == '.' || strchr(rest, '/'))
		return explain_open(-ENOENT, rest);
	heap = sys_calloc(1, sizeof(*heap));
	if (!heap)
		return err_set(-ENOMEM, "no memory to open \"heap:%s\"", rest);
	snprintf(heap->name, sizeof(heap->name), "%s", rest);
	snprintf(path, sizeof(path), FOLDER "/%s", heap->name);
	/* Making a buffer needs no right to write the node. */
	heap->fd = sys_open(path, O_RDONLY, 0);
	if (heap->fd < 0) {
		r = err_with_name(explain_open(heap->fd, rest));
		goto err_free;
	}
	*ret_device = heap;
	return 0;

err_free:
	free(heap);
	return r;
}

static void device_close(void *device)
{
	struct heap *heap = device;

	sys_close(heap->fd);
	free(heap);
}

/* Only the system heaps use the system's memory; other heaps do not tell their size. */
static bool is_of_system(const struct heap *heap)
{
	return !strncmp(heap->name, "system", strlen("system"));
}

static int device_query(void *device, struct hm_device_info *info)
{
	const struct heap *heap = device;

	if (is_of_system(heap)) {
		info->memory_total = meminfo_read("MemTotal");
		info->memory_free = meminfo_read("MemAvailable");
	}
	snprintf(info->description, sizeof(info->description),
		 "memory of the heap \"%s\", for devices and CPUs", heap->name);
	return 0;
}

/* ---- buffers ---- */

/*
 * Refuses more than is available: the heap would allocate page by page until the kernel's OOM
 * killer ends a process, perhaps this one: seen with Linux 6.12, where not even a request of 1
 * TiB is refused.
 */
static int check_memory(const struct heap *heap, uint64_t size)
{
	uint64_t available;
	char want[16], have[16];

	if (size < CHECKED_LEAST || !is_of_system(heap))
		return 0;
	available = meminfo_read("MemAvailable");
	if (!available || size < available)
		return 0;
	return err_set(-ENOMEM,
		       "heap:%s: %s at once, and %s of memory are available: the kernel would "
		       "end processes instead of refusing: take less, or free some",
		       heap->name, format_bytes(size, want, sizeof(want)),
		       format_bytes(available, have, sizeof(have)));
}

static int explain_create(const struct heap *heap, int r, uint64_t size)
{
	char text[16];

	if (r == -EMFILE || r == -ENFILE)
		return rlimits_explain_fd(r, "a buffer of a heap");
	return err_set(r, "heap:%s: a buffer of %s: %s", heap->name,
		       format_bytes(size, text, sizeof(text)), err_name(r));
}

static int create(void *device, const struct hm_buffer_desc *desc, struct hm_recipe *ret_recipe)
{
	struct dma_heap_allocation_data ask = {
		.len = round_up(desc->size, page_size()),
		.fd_flags = O_RDWR | O_CLOEXEC,
	};
	struct heap *heap = device;
	int fd, r;

	r = check_memory(heap, ask.len);
	if (r)
		return err_with_name(r);
	r = sys_ioctl_again(heap->fd, DMA_HEAP_IOCTL_ALLOC, &ask);
	if (r)
		return explain_create(heap, r, ask.len);
	fd = (int)ask.fd;
	/* A name is only a help: its failure does not matter. */
	dmabuf_set_name(fd, desc->name ? desc->name : "buffer");
	dmabuf_describe(fd, ask.len, ret_recipe);
	ret_recipe->max_size = round_up(desc->max_size, page_size());
	ret_recipe->caps |= RESIZE_CAPS;
	return 0;
}

static int import_fd(void *device, int fd, const struct hm_buffer_desc *desc,
		     struct hm_recipe *ret_recipe)
{
	(void)device;
	return dmabuf_import(fd, desc, ret_recipe);
}

static int export_fd(void *device, const struct hm_segment *segment, uint32_t flags,
		     int *ret_fd)
{
	(void)device;
	return dmabuf_export(segment, flags, ret_fd);
}

/* Clears bytes [from, to) of the segment through a scratch map. */
static int clear(const struct hm_segment *segment, uint64_t from, uint64_t to)
{
	uint64_t first = round_down(from, page_size());
	struct reservation range;
	char *address;
	int r;

	r = map_scratch(segment, 1, segment->offset + first, round_up(to, page_size()) - first,
			page_size(), PROT_READ | PROT_WRITE, &range, &address);
	if (r)
		return r;
	r = dmabuf_begin_cpu(segment->fd, HM_READ | HM_WRITE);
	if (r)
		goto out;
	memset(address + (from - first), 0, to - from);
	r = dmabuf_end_cpu(segment->fd, HM_READ | HM_WRITE);
out:
	reserve_release(&range);
	return r;
}

/*
 * Objects keep their length; the core makes new ones where it can. Where it can't, clears the
 * bytes that a shrink cuts off, so that growing again gives zeros, and, before growing, bytes
 * stored behind the end in its page.
 */
static int resize(void *device, struct hm_segment *segment, uint64_t old_size,
		  uint64_t new_size)
{
	uint64_t end = round_up(old_size, page_size()), from = min_u64(old_size, new_size);

	(void)device;
	return from < end ? clear(segment, from, end) : 0;
}

static void object_destroy(void *device, struct hm_segment *segment)
{
	(void)device;
	sys_close(segment->fd);
}

const struct hm_backend_ops heap_backend = {
	.size = sizeof(struct hm_backend_ops),
	.name = "heap",
	.description = "heaps of memory for devices, /dev/dma_heap/NAME",
	.caps = HEAP_OPS_CAPS,
	.device_open = device_open,
	.device_close = device_close,
	.device_query = device_query,
	.object_destroy = object_destroy,
	.create = create,
	.import_fd = import_fd,
	.export_fd = export_fd,
	.resize = resize,
	.each_device = each_device,
	.begin_cpu = dmabuf_segments_begin,
	.end_cpu = dmabuf_segments_end,
};
