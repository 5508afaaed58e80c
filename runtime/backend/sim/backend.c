// SPDX-License-Identifier: MIT
/*
 * Backends "sim" and "soft": the simulated device, in the kernel and in this process. Both take
 * the same calls and share this code; they differ in the way to the device, and in how the
 * kernel treats their maps.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/core.h"
#include "core/device_link.h"
#include "dmabuf/dmabuf.h"
#include "base/rlimits.h"
#include "backend/sim/port.h"
#include "base/sys.h"

/* Capabilities that need no help of the kernel. */
#define COMMON_CAPS                                                                      \
	(HM_CAP_CREATE | HM_CAP_IMPORT | HM_CAP_EXPORT | HM_CAP_RESIZE | HM_CAP_APPEND | \
	 HM_CAP_REPLACE | HM_CAP_PROTECT | HM_CAP_MULTI_MAP | HM_CAP_CONTIGUOUS |        \
	 HM_CAP_WRITE | HM_CAP_BRACKET | HM_CAP_PLACE)

/*
 * Maps of the module are VM_PFNMAP: mlock() answers 0 and does nothing, and MADV_POPULATE_*
 * fails [mm/mlock.c, mm/gup.c]. A fork child has none of them.
 */
#define SIM_CAPS (COMMON_CAPS | HM_CAP_DMABUF | HM_CAP_READ_ONLY)

/*
 * Maps of the twin are shared memory: their pages may be locked and brought in. A fork child has
 * none of these maps either: its copies would outlive the buffer. Not HM_CAP_READ_ONLY: a
 * read-only descriptor can be opened again for writing, by /proc/self/fd, and
 * F_SEAL_FUTURE_WRITE would forbid the owner's next map, too.
 */
#define SOFT_CAPS (COMMON_CAPS | HM_CAP_LOCK | HM_CAP_POPULATE)

/* Zeros for the rest of any page. */
#define PAGE_MAX 65536

static int sim_open(const char *rest, void **ret_device)
{
	struct sim_port *port;
	int r;

	r = sim_port_get(&sim_port_kernel, rest, &port);
	if (!r)
		*ret_device = port;
	return r;
}

static void device_close(void *device)
{
	sim_port_put(device);
}

static const char *const kinds[] = {
	[HETSIM_KIND_GPU] = "GPU",
	[HETSIM_KIND_FPGA] = "FPGA",
	[HETSIM_KIND_NIC] = "NIC",
};

static int device_query(void *device, struct hm_device_info *info)
{
	struct hetsim_query now = { .size = sizeof(now) };
	struct sim_port *port = device;
	char vram[16], window[16];
	int r;

	r = sim_port_call(port, HETSIM_QUERY, &now);
	if (r)
		return sim_port_explain(port, r, "its memory");
	/* "soft" opens "soft:0": tells the full name. */
	snprintf(info->name, sizeof(info->name), "%s:%" PRIu32, port->ops->name, port->index);
	info->page_size = now.page_size;
	info->granule = now.granule_min;
	if (!now.window_bytes)
		info->caps &= ~HM_CAP_BRACKET;
	info->memory_total = now.vram_bytes;
	info->memory_free = now.vram_bytes - min_u64(now.vram_used, now.vram_bytes);
	snprintf(info->description, sizeof(info->description), "simulated %s, %s of VRAM%s%s",
		 now.kind < ARRAY_SIZE(kinds) ? kinds[now.kind] : "device",
		 format_bytes(now.vram_bytes, vram, sizeof(vram)),
		 now.window_bytes ? ", seen by the CPU through " : "",
		 now.window_bytes ? format_bytes(now.window_bytes, window, sizeof(window)) :
				    "");
	return 0;
}

static int device_check(void *device)
{
	struct sim_port *port = device;

	return port->gone ? sim_port_explain(port, -ENODEV, "its state") : 0;
}

/* Any call will do: a device that is gone answers none. */
static int sim_ask(void *device)
{
	struct hetsim_query now = { .size = sizeof(now) };

	return sim_port_call(device, HETSIM_QUERY, &now);
}

static int sim_lost_signal(void *device, const struct hm_segment *segment)
{
	(void)device;
	return segment ? sim_object_signal(segment->object) : sim_signals_end();
}

static int each_device(const struct sim_port_ops *ops,
		       int (*each)(void *user, const char *name), void *user)
{
	uint32_t i, n = ops->count();
	char name[24];
	int r = 0;

	for (i = 0; !r && i < n; i++) {
		snprintf(name, sizeof(name), "%s:%u", ops->name, i);
		r = each(user, name);
	}
	return r;
}

static int sim_each(int (*each)(void *user, const char *name), void *user)
{
	return each_device(&sim_port_kernel, each, user);
}

static int ask(struct sim_port *port, uint32_t handle, const char *what,
	       struct hetsim_buffer_info *ret_info)
{
	struct hetsim_buffer_info info = { .size = sizeof(info), .handle = handle };
	int r;

	r = sim_port_call(port, HETSIM_BUFFER_INFO, &info);
	if (r)
		return sim_port_explain(port, r, what);
	*ret_info = info;
	return 0;
}

/* Cache mode of a map's page table entries, which may differ from the requested one. */
static uint32_t cache_of(const struct hetsim_buffer_info *info)
{
	return info->cache == HETSIM_CACHE_COMBINE ? HM_CACHE_WRITE_COMBINING :
						     HM_CACHE_WRITE_BACK;
}

/* A buffer with bytes in both is in neither. */
static uint32_t place_of(const struct hetsim_buffer_info *info)
{
	bool own = info->vram_bytes || info->window_bytes;

	if (own == (info->system_bytes != 0))
		return HM_PLACE_DEFAULT;
	return own ? HM_PLACE_DEVICE : HM_PLACE_SYSTEM;
}

/* @fd: the descriptor to map where the device has no handle for it. */
static int describe(struct sim_object *object, int fd, uint64_t capacity, uint64_t caps,
		    struct hm_recipe *ret_recipe)
{
	struct sim_port *port = object->port;
	struct hm_recipe recipe = {
		.segment = {
			.length = capacity,
			.fd = fd,
			.flags = HM_SEGMENT_SHARED |
				 (object->port->ops == &sim_port_kernel ? HM_SEGMENT_MAY_REFUSE :
									  0),
			.object = object,
		},
		.page_size = port->query.page_size,
		.caps = caps & ~(HM_CAP_CREATE | HM_CAP_IMPORT | HM_CAP_PLACE),
		.access = HM_READ | HM_WRITE,
		.cache = HM_CACHE_UNKNOWN, /* only the exporter knows */
	};
	struct hetsim_buffer_info info;
	int r;

	/* Where the CPU reaches all memory, brackets have nothing to bring in. */
	if (!object->handle || !port->query.window_bytes)
		recipe.caps &= ~HM_CAP_BRACKET;
	if (object->handle) {
		r = ask(port, object->handle, "the description of a buffer", &info);
		if (r)
			return r;
		recipe.cache = cache_of(&info);
		recipe.place = place_of(&info);
		r = port->ops->map_fd(port->file, object->offset, &recipe.segment.fd,
				      &recipe.segment.fd_offset);
		if (r)
			return sim_port_explain(port, r, "the arguments of mmap()");
	}
	*ret_recipe = recipe;
	return 0;
}

/* Outside of the window in VRAM a CPU's touch raises SIGBUS. */
static uint32_t place_wanted(const struct sim_port *port, uint32_t place)
{
	if (place == HM_PLACE_SYSTEM)
		return HETSIM_PLACE_SYSTEM;
	return port->query.window_bytes ? HETSIM_PLACE_WINDOW : HETSIM_PLACE_VRAM;
}

static int create(struct sim_port *port, const struct hm_buffer_desc *desc, uint64_t caps,
		  struct hm_recipe *ret_recipe)
{
	uint64_t page = port->query.page_size;
	struct hetsim_buffer_create ask = {
		.size = sizeof(ask),
		.length = round_up(desc->size, page),
		.capacity = round_up(desc->max_size, page),
		.place = place_wanted(port, desc->place),
		.cache = HETSIM_CACHE_BACK,
	};
	struct sim_object *object;
	int r;

	r = sim_object_create(port, &ask, &object);
	if (r == -ENOSPC)
		return sim_port_explain_full(
			port, ask.place,
			ask.capacity > port->query.max_buffer ? ask.capacity : ask.length,
			ask.length, "making a buffer");
	if (r == -EOPNOTSUPP)
		return err_set(
			r,
			"%s:%u has no memory in that place (HETSIM_PLACE %u): pass another, "
			"or HM_PLACE_DEFAULT",
			port->ops->name, port->index, ask.place);
	if (r == -ENOMEM && port->ops == &sim_port_soft)
		return sim_port_explain_memory(port, max_u64(ask.length, ask.capacity),
					       "making a buffer");
	if (r)
		return sim_port_explain(port, r, "making a buffer");
	r = describe(object, -1, ask.capacity, caps, ret_recipe);
	if (r)
		goto err_object;
	return 0;

err_object:
	sim_object_put(object);
	return r;
}

static int sim_create(void *device, const struct hm_buffer_desc *desc,
		      struct hm_recipe *ret_recipe)
{
	return create(device, desc, SIM_CAPS, ret_recipe);
}

/* ---- sharing ---- */

/* Takes a read-only foreign descriptor: its bytes are mapped through the descriptor itself. */
static int take_in_foreign(struct sim_port *port, int fd, struct hetsim_import *import,
			   struct sim_object **ret_object)
{
	struct stat st;
	int r;

	r = sys_fstat(fd, &st);
	if (r)
		return r;
	import->length = (uint64_t)st.st_size;
	return sim_object_foreign(port, ret_object);
}

static int explain_import(struct sim_port *port, int r)
{
	switch (r) {
	case -EOPNOTSUPP:
		return err_set(r,
			       "%s:%u does not reach the buffer's memory: another device "
			       "exported it",
			       port->ops->name, port->index);
	case -EINVAL:
		return err_set(r, "%s:%u: the descriptor is no exported buffer",
			       port->ops->name, port->index);
	case -EACCES:
		return err_set(r,
			       "%s:%u: the descriptor was exported read-only: pass "
			       "HM_BUFFER_READ_ONLY",
			       port->ops->name, port->index);
	default:
		return sim_port_explain(port, r, "taking a buffer in");
	}
}

/*
 * Does the device export the buffer? Only the maker's device exports one, and only the device
 * knows the maker.
 */
static bool exports(struct sim_port *port, uint32_t handle)
{
	struct hetsim_export export = { .size = sizeof(export), .handle = handle };
	int r = sim_port_call(port, HETSIM_EXPORT, &export);

	if (!r)
		sys_close(export.fd);
	return r != -EOPNOTSUPP;
}

/* Only the maker changes the size and the place of an import. */
static int take_in(struct sim_port *port, int fd, const struct hm_buffer_desc *desc,
		   uint64_t caps, struct hm_recipe *ret_recipe)
{
	struct hetsim_import import = { .size = sizeof(import), .fd = fd };
	bool read_only = desc->flags & HM_BUFFER_READ_ONLY;
	struct sim_object *object;
	int r;

	r = sim_object_import(port, &import, &object);
	if (r == -EACCES && read_only)
		r = take_in_foreign(port, fd, &import, &object);
	if (r)
		return explain_import(port, r);
	if (desc->size > import.length || desc->max_size > import.length) {
		r = err_set(-EINVAL,
			    "the buffer has %" PRIu64
			    " bytes, and the description asks for %" PRIu64,
			    (uint64_t)import.length, max_u64(desc->size, desc->max_size));
		goto err_object;
	}
	r = describe(object, fd, import.length, caps, ret_recipe);
	if (r)
		goto err_object;
	ret_recipe->segment.flags |= dmabuf_map_flags(fd);
	ret_recipe->size = desc->size ? desc->size : import.length;
	ret_recipe->caps &= ~(HM_CAP_RESIZE | HM_CAP_APPEND | HM_CAP_REPLACE);
	if (read_only) {
		ret_recipe->access = HM_READ;
		ret_recipe->caps &= ~HM_CAP_WRITE;
		ret_recipe->flags = HM_BUFFER_READ_ONLY;
	}
	if (!object->handle)
		return 0;
	if (dmabuf_is(fd) && !exports(port, object->handle))
		ret_recipe->caps &= ~(HM_CAP_EXPORT | HM_CAP_DMABUF | HM_CAP_READ_ONLY);
	/* The device holds the buffer: the core's duplicate is not needed. */
	sys_close(fd);
	return 0;

err_object:
	sim_object_put(object);
	return r;
}

static int sim_import(void *device, int fd, const struct hm_buffer_desc *desc,
		      struct hm_recipe *ret_recipe)
{
	return take_in(device, fd, desc, SIM_CAPS, ret_recipe);
}

static int export_fd(void *device, const struct hm_segment *segment, uint32_t flags,
		     int *ret_fd)
{
	struct sim_object *object = segment->object;
	struct hetsim_export export = {
		.size = sizeof(export),
		.handle = object->handle,
		.flags = flags & HM_EXPORT_READ_ONLY ? 0 : HETSIM_EXPORT_WRITE,
	};
	int r;

	/*
	 * A read-only import: the device does not hold it, so the dma-buf itself is exported
	 * again.
	 */
	if (!object->handle)
		return dmabuf_export(segment, flags, ret_fd);
	r = sim_port_call(device, HETSIM_EXPORT, &export);
	if (r == -EMFILE || r == -ENFILE)
		return rlimits_explain_fd(r, "a descriptor of the buffer");
	if (r)
		return sim_port_explain(device, r, "exporting a buffer");
	*ret_fd = export.fd;
	return 0;
}

/* ---- the CPU's access ---- */

/* The part of a buffer's range in a segment, in its object, in whole pages; false: none. */
static bool segment_part(const struct hm_segment *segment, uint64_t page, uint64_t offset,
			 uint64_t length, struct hetsim_buffer_move *ret_move)
{
	uint64_t from = max_u64(offset, segment->offset);
	uint64_t to = min_u64(offset + length, segment->offset + segment->length);
	const struct sim_object *object = segment->object;

	if (from >= to)
		return false;
	*ret_move = (struct hetsim_buffer_move){
		.size = sizeof(*ret_move),
		.handle = object->handle,
		.place = HETSIM_PLACE_WINDOW,
		.offset = round_down(from - segment->offset, page),
	};
	ret_move->length = round_up(to - segment->offset, page) - ret_move->offset;
	return true;
}

/* CPUs also reach bytes in system memory: those stay where they are. */
static int ask_away(struct sim_port *port, uint32_t handle, bool *ret_away)
{
	struct hetsim_buffer_info info;
	int r;

	r = ask(port, handle, "the place of a buffer's bytes", &info);
	if (r)
		return r;
	*ret_away = info.vram_bytes;
	return 0;
}

static int move_in(struct sim_port *port, struct hetsim_buffer_move *move)
{
	char a[16], b[16];
	int r;

	r = sim_port_call(port, HETSIM_BUFFER_MOVE, move);
	if (r == -ENOSPC)
		return err_set(r,
			       "%s:%u: there is no room for %s in the window that the CPU "
			       "reaches, %s: its bytes can't leave it now, or VRAM and system "
			       "memory are full: release some, or raise bar_mb or system_mb",
			       port->ops->name, port->index,
			       format_bytes(move->length, a, sizeof(a)),
			       format_bytes(port->query.window_bytes, b, sizeof(b)));
	return r ? sim_port_explain(port, r, "bringing bytes into the window") : 0;
}

static int begin_cpu(void *device, const struct hm_segment *segments, uint32_t n_segment,
		     uint64_t offset, uint64_t length, uint32_t access)
{
	struct sim_port *port = device;
	uint64_t page = port->query.page_size, total = 0;
	struct hetsim_buffer_move move;
	bool away = false, any = false;
	char a[16], b[16];
	uint32_t i;
	int r = 0;

	(void)access;
	for (i = 0; i < n_segment; i++) {
		if (!segment_part(&segments[i], page, offset, length, &move))
			continue;
		r = ask_away(port, move.handle, &away);
		if (r)
			return r;
		any = any || away;
		total += move.length;
	}
	if (!any)
		return 0;
	if (total > port->query.window_bytes)
		return err_set(-ENOSPC,
			       "%s:%u: %s are more than the CPU reaches at a time, %s: take "
			       "smaller ranges, one after the other, or raise bar_mb",
			       port->ops->name, port->index, format_bytes(total, a, sizeof(a)),
			       format_bytes(port->query.window_bytes, b, sizeof(b)));
	for (i = 0; i < n_segment && !r; i++)
		if (segment_part(&segments[i], page, offset, length, &move))
			r = move_in(port, &move);
	return r;
}

/* ---- resizing ---- */

static int set_length(struct sim_object *object, uint64_t old_size, uint64_t new_size)
{
	uint64_t page = object->port->query.page_size;
	struct hetsim_buffer_resize resize = {
		.size = sizeof(resize),
		.handle = object->handle,
		.length = round_up(new_size, page),
	};
	struct hetsim_buffer_info info;
	int r;

	/* The device has no buffers of 0 bytes: an emptied object keeps a page. */
	if (!resize.length)
		resize.length = page;
	if (resize.length == round_up(old_size, page))
		return 0;
	r = sim_port_call(object->port, HETSIM_BUFFER_RESIZE, &resize);
	if (r == -ENOSPC && !ask(object->port, object->handle, "the place of a buffer", &info))
		return sim_port_explain_full(object->port, info.place, resize.length,
					     resize.length - round_up(old_size, page),
					     "a buffer's growth");
	if (r == -EBUSY)
		return err_set(r,
			       "%s:%u: the buffer was exported, and its importers may use all "
			       "of its bytes: it can't shrink until they have closed it",
			       object->port->ops->name, object->port->index);
	return r ? sim_port_explain(object->port, r, "changing a buffer's length") : 0;
}

/* The CPU must reach the bytes first: the device's own reads and writes reach no further. */
static int reach_stale(struct sim_object *object)
{
	uint64_t page = object->port->query.page_size;
	struct hm_segment segment = { .length = round_up(object->stale_end, page),
				      .object = object };

	return object->port->query.window_bytes ?
		       begin_cpu(object->port, &segment, 1, object->stale,
				 object->stale_end - object->stale, HM_WRITE) :
		       0;
}

static int clear_stale(struct sim_object *object)
{
	uint64_t length = object->stale_end - object->stale;
	struct sim_port *port = object->port;
	static const char zeros[PAGE_MAX];
	ssize_t done;
	int r;

	if (!length)
		return 0;
	r = reach_stale(object);
	if (r)
		return r;
	done = port->ops->write(port->file, zeros, length, object->offset + object->stale);
	if (done < 0 || (uint64_t)done != length)
		return sim_port_explain(port, done < 0 ? (int)done : -EIO,
					"clearing the rest of a page");
	object->stale_end = object->stale;
	return 0;
}

/*
 * Clears the rest of the last page, so that growing again gives zeros: only after the device has
 * agreed, since the bytes are in use if it refuses. If clearing fails, the bytes are cleared
 * before the buffer grows: cut-off bytes never come back.
 */
static int shrink(struct sim_object *object, uint64_t old_size, uint64_t new_size)
{
	uint64_t page = object->port->query.page_size;
	int r;

	r = set_length(object, old_size, new_size);
	if (r)
		return r;
	object->stale = new_size;
	object->stale_end = max_u64(round_up(new_size, page), page);
	clear_stale(object);
	return 0;
}

static int grow(struct sim_object *object, uint64_t old_size, uint64_t new_size)
{
	uint64_t end = round_up(old_size, object->port->query.page_size);
	int r;

	/* CPUs may have stored behind the end in that page: clears it before growing. */
	if (old_size < end) {
		object->stale = old_size;
		object->stale_end = end;
	}
	r = clear_stale(object);
	return r ? r : set_length(object, old_size, new_size);
}

static int resize(void *device, struct hm_segment *segment, uint64_t old_size,
		  uint64_t new_size)
{
	(void)device;
	return new_size < old_size ? shrink(segment->object, old_size, new_size) :
				     grow(segment->object, old_size, new_size);
}

static void object_destroy(void *device, struct hm_segment *segment)
{
	struct sim_object *object = segment->object;

	(void)device;
	if (!object->handle)
		sys_close(segment->fd);
	sim_object_put(object);
}

struct sim_port *sim_port_of(const struct hm_device *device)
{
	return device->ops->object_destroy == object_destroy ?
		       atomic_load(&device->link)->backend :
		       NULL;
}

const struct hm_backend_ops sim_backend = {
	.size = sizeof(struct hm_backend_ops),
	.name = "sim",
	.description = "simulated devices, /dev/hetsimN",
	.caps = SIM_CAPS | HM_BACKEND_LIST | HM_BACKEND_LOSS | HM_BACKEND_LOSS_ASK |
		HM_BACKEND_LOSS_SIGNAL,
	.device_open = sim_open,
	.device_close = device_close,
	.device_query = device_query,
	.object_destroy = object_destroy,
	.create = sim_create,
	.import_fd = sim_import,
	.export_fd = export_fd,
	.resize = resize,
	.each_device = sim_each,
	.device_check = device_check,
	.begin_cpu = begin_cpu,
	.device_ask = sim_ask,
	.lost_signal = sim_lost_signal,
};

/* ---- soft ---- */

static int twin_open(const char *rest, void **ret_device)
{
	struct sim_port *port;
	int r;

	r = sim_port_get(&sim_port_soft, rest, &port);
	if (!r)
		*ret_device = port;
	return r;
}

/*
 * Looks without a call. True before any map shows zeros, and from the time when calls answer so.
 */
static int twin_check(void *device)
{
	struct sim_port *port = device;

	if (unlikely(!port->gone && port->ops->is_gone(port->file)))
		port->gone = true;
	return device_check(port);
}

static int twin_each(int (*each)(void *user, const char *name), void *user)
{
	return each_device(&sim_port_soft, each, user);
}

static int twin_create(void *device, const struct hm_buffer_desc *desc,
		       struct hm_recipe *ret_recipe)
{
	return create(device, desc, SOFT_CAPS, ret_recipe);
}

static int twin_import(void *device, int fd, const struct hm_buffer_desc *desc,
		       struct hm_recipe *ret_recipe)
{
	return take_in(device, fd, desc, SOFT_CAPS, ret_recipe);
}

static int twin_hidden(void *device, const struct hm_segment *segment, uint64_t offset,
		       uint64_t length, uint64_t *ret_length)
{
	const struct sim_object *object = segment->object;
	struct sim_port *port = device;

	*ret_length = length;
	if (!object->handle)
		return 0;
	return port->ops->hidden(port->file, object->handle, offset, length, ret_length);
}

static const uint64_t *twin_evictions(void *device, const struct hm_segment *segment)
{
	const struct sim_object *object = segment->object;
	struct sim_port *port = device;

	return object->handle ? port->ops->evictions(port->file, object->handle) : NULL;
}

const struct hm_backend_ops soft_backend = {
	.size = sizeof(struct hm_backend_ops),
	.name = "soft",
	.description = "simulated devices in this process",
	.caps = SOFT_CAPS | HM_BACKEND_LIST | HM_BACKEND_LOSS | HM_BACKEND_REACH |
		HM_BACKEND_EVICTIONS,
	.device_open = twin_open,
	.device_close = device_close,
	.device_query = device_query,
	.object_destroy = object_destroy,
	.create = twin_create,
	.import_fd = twin_import,
	.export_fd = export_fd,
	.resize = resize,
	.each_device = twin_each,
	.device_check = twin_check,
	.hidden = twin_hidden,
	.begin_cpu = begin_cpu,
	.evictions = twin_evictions,
};
