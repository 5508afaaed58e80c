// SPDX-License-Identifier: MIT
/*
 * Backend "drm": the memory of graphics cards and similar devices, through the nodes in
 * /dev/dri. The other files of this folder have the steps and the drivers.
 */
#include <drm.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/core.h"
#include "core/device_link.h"
#include "backend/drm/drm.h"
#include "map/map.h"
#include "base/reserve.h"
#include "base/sys.h"

/*
 * Capabilities of every object that can be mapped. Maps are VM_PFNMAP or VM_IO: mlock() answers
 * 0 and does nothing, and MADV_POPULATE_* fails [mm/mlock.c, mm/gup.c].
 */
#define MAP_CAPS \
	(HM_CAP_PROTECT | HM_CAP_MULTI_MAP | HM_CAP_CONTIGUOUS | HM_CAP_WRITE | HM_CAP_BRACKET)

/* For objects made here: an object has a length for life. */
#define RESIZE_CAPS (HM_CAP_RESIZE | HM_CAP_APPEND | HM_CAP_REPLACE | HM_CAP_RESIZE_REPLACES)

/*
 * Objects leave the node as dma-bufs only. Not HM_CAP_READ_ONLY: an importer with a read-only
 * descriptor can map the object for writing through its own node [drm_gem_prime_fd_to_handle()
 * does not look at f_mode].
 */
#define EXPORT_CAPS (HM_CAP_EXPORT | HM_CAP_DMABUF)

static uint64_t caps_of(const struct drm_node *node)
{
	return node->caps | MAP_CAPS | (node->caps & HM_CAP_CREATE ? RESIZE_CAPS : 0) |
	       (node->caps & HM_CAP_EXPORT ? EXPORT_CAPS : 0);
}

static int device_open(const char *rest, void **ret_device)
{
	struct drm_node *node;
	int r;

	r = drm_node_get(rest, &node);
	if (!r)
		*ret_device = node;
	return r;
}

static void device_close(void *device)
{
	drm_node_put(device);
}

static int device_query(void *device, struct hm_device_info *info)
{
	struct drm_node *node = device;
	struct drm_get_cap cap = { .capability = DRM_CAP_PRIME };
	uint64_t total = 0, available = 0;
	uint32_t said = err_count();
	int r;

	r = drm_node_check(node, "its memory");
	if (r)
		return r;
	/* A node that is gone answers nothing. */
	r = drm_call(node, DRM_IOCTL_GET_CAP, &cap);
	if (!r && node->driver->memory)
		r = node->driver->memory(node, &total, &available);
	if (r)
		return drm_explain_row(node, said, r, "its memory");
	/* "drm" and "drm:virtio_gpu" open that node. */
	snprintf(info->name, sizeof(info->name), "drm:%.59s", node->path);
	info->caps = caps_of(node);
	info->numa_node = node->numa_node;
	info->memory_total = total ? total : node->vram_total;
	info->memory_free = available;
	snprintf(info->description, sizeof(info->description), "DRM driver %s%s, %s: %s",
		 node->name, node->driver->experimental ? " (experimental)" : "",
		 node->primary ? "card node" : "render node", node->driver->description);
	return 0;
}

static int device_check(void *device)
{
	struct drm_node *node = device;

	if (!node->gone)
		return 0;
	return drm_explain(node, -ENODEV, "its state");
}

/* A node that is gone answers nothing. */
static int device_ask(void *device)
{
	struct drm_get_cap cap = { .capability = DRM_CAP_PRIME };

	return drm_call(device, DRM_IOCTL_GET_CAP, &cap);
}

/*
 * Calls @each for nodes that may be opened; opening one shows whether the library knows its
 * driver.
 */
static int each_device(int (*each)(void *user, const char *name), void *user)
{
	struct drm_found *found;
	char name[80];
	uint32_t i, n;
	int r;

	r = drm_discover(&found, &n);
	if (r)
		return r;
	for (i = 0; !r && i < n && !found[i].primary; i++) {
		if (found[i].error)
			continue;
		snprintf(name, sizeof(name), "drm:%s", found[i].path);
		r = each(user, name);
	}
	free(found);
	return r;
}

/* ---- buffers ---- */

/* Indexed by enum hm_place. */
static const enum drm_place places[] = {
	[HM_PLACE_DEFAULT] = DRM_PLACE_DEFAULT,
	[HM_PLACE_DEVICE] = DRM_PLACE_VRAM,
	[HM_PLACE_SYSTEM] = DRM_PLACE_SYSTEM,
};

static uint32_t place_of(const struct drm_object *object)
{
	uint32_t place = ARRAY_SIZE(places);

	/* Ends at the first, which stands for a place that no driver told. */
	while (--place && places[place] != object->place)
		;
	return place;
}

/* An object that is mapped as a whole is never cut: it resizes in its room, or moves. */
#define WHOLE_LACKS (HM_CAP_APPEND | HM_CAP_RESIZE_REPLACES)

static struct hm_recipe describe(struct drm_object *object, uint64_t length, uint64_t caps,
				 bool read_only)
{
	return (struct hm_recipe){
		.segment = drm_object_segment(object, length, read_only),
		.page_size = page_size(),
		.caps = caps & ~(HM_CAP_CREATE | HM_CAP_IMPORT | HM_CAP_PLACE |
				 (object->whole ? WHOLE_LACKS : 0)),
		.access = HM_READ | HM_WRITE,
		.cache = object->cache,
		.place = place_of(object),
	};
}

static int create(void *device, const struct hm_buffer_desc *desc, struct hm_recipe *ret_recipe)
{
	struct drm_node *node = device;
	bool whole = desc->place == HM_PLACE_DEVICE && node->driver->vram_whole;
	uint64_t length = round_up(whole ? desc->max_size : desc->size, page_size());
	struct drm_object *object;
	int r;

	if (!(node->caps & HM_CAP_CREATE))
		return err_set(-EOPNOTSUPP, "drm:%s (%s) makes no buffers", node->path,
			       node->name);
	if (desc->place != HM_PLACE_DEFAULT && !(node->caps & HM_CAP_PLACE))
		return err_set(-EOPNOTSUPP,
			       "drm:%s (%s): this driver takes no place for a buffer: pass "
			       "HM_PLACE_DEFAULT",
			       node->path, node->name);
	r = drm_object_create(node, length, places[desc->place], &object);
	if (r)
		return r;
	*ret_recipe = describe(object, length, caps_of(node), false);
	ret_recipe->max_size = round_up(desc->max_size, page_size());
	return 0;
}

/*
 * Refuses write access through a read-only descriptor, since the kernel does not check that at
 * import. Such an object is mapped by its dma-buf, and not by the node, which would allow
 * writing.
 */
static int check_rights(struct drm_object *object, int fd, bool read_only, bool *ret_by_itself)
{
	struct drm_node *node = object->node;
	int flags = sys_fcntl(fd, F_GETFL, 0);

	if (flags < 0)
		return drm_explain(node, flags, "the rights of a dma-buf");
	*ret_by_itself = (flags & O_ACCMODE) == O_RDONLY;
	if (*ret_by_itself && !read_only)
		return err_set(-EACCES,
			       "drm:%s (%s): the descriptor was exported read-only: pass "
			       "HM_BUFFER_READ_ONLY",
			       node->path, node->name);
	return *ret_by_itself ? drm_object_keep_read_only(object, fd) : 0;
}

/* Only the maker changes the size and the place of an imported object. */
static int import_fd(void *device, int fd, const struct hm_buffer_desc *desc,
		     struct hm_recipe *ret_recipe)
{
	bool read_only = desc->flags & HM_BUFFER_READ_ONLY;
	struct drm_node *node = device;
	struct drm_object *object;
	struct hm_recipe recipe;
	bool by_itself;
	int r;

	if (!(node->caps & HM_CAP_IMPORT))
		return err_set(-EOPNOTSUPP,
			       "drm:%s (%s): this driver takes no dma-bufs in, on this kernel",
			       node->path, node->name);
	r = drm_object_import(node, fd, &object);
	if (r)
		return r;
	r = check_rights(object, fd, read_only, &by_itself);
	if (r) {
		r = err_with_name(r);
		goto err_object;
	}
	if (max_u64(desc->size, desc->max_size) > object->size) {
		r = err_set(-EINVAL,
			    "the dma-buf has %" PRIu64
			    " bytes, and the description asks for %" PRIu64,
			    object->size, max_u64(desc->size, desc->max_size));
		goto err_object;
	}
	recipe = describe(object, round_up(object->size, page_size()),
			  caps_of(node) & ~RESIZE_CAPS, by_itself);
	recipe.size = desc->size ? desc->size : object->size;
	if (read_only) {
		recipe.access = HM_READ;
		recipe.caps &= ~HM_CAP_WRITE;
		recipe.flags = HM_BUFFER_READ_ONLY;
	}
	*ret_recipe = recipe;
	/* The node holds the object: the core's duplicate is not needed. */
	sys_close(fd);
	return 0;

err_object:
	drm_object_put(object);
	return r;
}

static int export_fd(void *device, const struct hm_segment *segment, uint32_t flags,
		     int *ret_fd)
{
	struct drm_object *object = segment->object;

	(void)device;
	(void)flags;
	/* A read-only import is exported read-only again. */
	return drm_object_export(object, segment->fd != object->read_only, ret_fd);
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
	struct hm_segment from_start = *segment;
	struct reservation range;
	char *address;
	int r;

	(void)device;
	if (from == end)
		return 0;
	/* A scratch map is never cut: pages may come in when they are touched. */
	from_start.flags &= ~HM_SEGMENT_PRESENT;
	r = map_scratch(&from_start, 1, segment->offset, end, page_size(),
			PROT_READ | PROT_WRITE, &range, &address);
	if (r)
		return r;
	memset(address + from, 0, end - from);
	reserve_release(&range);
	return 0;
}

static void object_destroy(void *device, struct hm_segment *segment)
{
	(void)device;
	drm_object_put(segment->object);
}

static int map_keep(void *device, const struct hm_segment *segment, void *address)
{
	(void)device;
	return drm_idle_keep_mapping(segment->object, address);
}

static void *map_take(void *device, const struct hm_segment *segment)
{
	(void)device;
	return drm_idle_take_mapping(segment->object);
}

const struct hm_backend_ops drm_backend = {
	.size = sizeof(struct hm_backend_ops),
	.name = "drm",
	.description = "graphics cards and their like, /dev/dri",
	.caps = HM_CAP_CREATE | HM_CAP_IMPORT | HM_CAP_PLACE | EXPORT_CAPS | MAP_CAPS |
		RESIZE_CAPS | HM_BACKEND_LIST | HM_BACKEND_LOSS | HM_BACKEND_LOSS_ASK |
		HM_BACKEND_BRACKET_END | HM_BACKEND_MAP_CACHE,
	.device_open = device_open,
	.device_close = device_close,
	.device_query = device_query,
	.object_destroy = object_destroy,
	.create = create,
	.import_fd = import_fd,
	.export_fd = export_fd,
	.resize = resize,
	.each_device = each_device,
	.device_check = device_check,
	.begin_cpu = drm_segments_begin,
	.end_cpu = drm_segments_end,
	.map_keep = map_keep,
	.map_take = map_take,
	.device_ask = device_ask,
};

/* Identified by an op of this file: registration copies the table. */
struct drm_node *drm_node_of(const struct hm_device *device)
{
	return device->ops->create == create ? atomic_load(&device->link)->backend : NULL;
}
