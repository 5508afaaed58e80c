// SPDX-License-Identifier: MIT
/* Buffers: made by a backend's recipe, with the lock, the maps and the objects of each. */
#include "core/buffer.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dmabuf/dmabuf.h"
#include "core/device_link.h"
#include "core/identity.h"
#include "loss/loss.h"
#include "map/map.h"
#include "fault/reach.h"
#include "core/segments.h"
#include "share/share.h"
#include "base/sys.h"
#include "base/weights.h"
#include "map/view.h"

/* Refuses a description that asks for more than the device is capable of. */
int buffer_check_caps(struct hm_device *device, const struct hm_buffer_desc *desc, uint64_t cap,
		      const char *what)
{
	static const struct {
		uint64_t cap;
		const char *what;
	} names[] = {
		{ HM_CAP_PRIVATE, "HM_BUFFER_PRIVATE" },
		{ HM_CAP_HUGETLB, "HM_BUFFER_HUGETLB" },
		{ HM_CAP_FROM_FILE, "HM_BUFFER_PUBLISH" },
		{ HM_CAP_NUMA, "numa_mode" },
		{ HM_CAP_PLACE, "choice of place" },
	};
	uint64_t wanted = (desc->flags & HM_BUFFER_PRIVATE ? HM_CAP_PRIVATE : 0) |
			  (desc->flags & HM_BUFFER_HUGETLB ? HM_CAP_HUGETLB : 0) |
			  (desc->flags & HM_BUFFER_PUBLISH ? HM_CAP_FROM_FILE : 0) |
			  (desc->numa_mode != HM_NUMA_DEFAULT ? HM_CAP_NUMA : 0) |
			  (desc->place != HM_PLACE_DEFAULT ? HM_CAP_PLACE : 0);
	uint64_t lacks = (cap | wanted) & ~device->ops->caps;
	size_t i = 0;

	if (likely(!lacks))
		return 0;
	if (!(lacks & cap)) {
		while (!(lacks & names[i].cap))
			i++;
		what = names[i].what;
	}
	return err_set(-EOPNOTSUPP, "the device \"%s\" has no %s (see hm_device_query, caps)",
		       device->name, what);
}

static enum ask ask_of(const struct hm_backend_ops *ops)
{
	if (!backend_has(ops, HM_BACKEND_LOSS))
		return ASK_NOBODY;
	return backend_has(ops, HM_BACKEND_LOSS_ASK) ? ASK_DEVICE : ASK_CHECK;
}

static uint32_t memory_of(const struct hm_recipe *recipe)
{
	return (recipe->memory & (HM_MEMORY_SEALED | HM_MEMORY_STORAGE | HM_MEMORY_SPARSE)) |
	       (recipe->segment.flags & HM_SEGMENT_ANON ? MEMORY_ANON : 0) |
	       (recipe->segment.flags & HM_SEGMENT_PRIVATE ? MEMORY_PRIVATE : 0) |
	       (recipe->flags & HM_BUFFER_HUGETLB ? MEMORY_HUGE : 0);
}

enum hm_backing buffer_backing(const struct hm_buffer *buffer)
{
	if (buffer_is(buffer, MEMORY_ANON))
		return HM_BACKING_ANON;
	if (buffer_is(buffer, MEMORY_HUGE))
		return HM_BACKING_HUGETLB;
	if (buffer_is(buffer, HM_MEMORY_STORAGE))
		return buffer_is(buffer, MEMORY_PRIVATE) ? HM_BACKING_FILE_PRIVATE :
							   HM_BACKING_FILE;
	return buffer_is(buffer, HM_MEMORY_SEALED) ? HM_BACKING_MEMFD : HM_BACKING_DEVICE;
}

/* Refuses memory with a coarser unit of persistence than the caller asked for. */
static int check_persist(const struct hm_device *device, const struct hm_buffer_desc *desc,
			 const struct hm_recipe *recipe)
{
	static const char *const units[] = {
		[HM_PERSIST_NONE] = "do not outlive a power failure",
		[HM_PERSIST_PAGE] = "last by pages (msync)",
		[HM_PERSIST_LINE] = "last by cache lines",
		[HM_PERSIST_BYTE] = "last by bytes",
	};

	if (likely(recipe->persist >= desc->persist))
		return 0;
	return err_set(-EOPNOTSUPP,
		       "%s: bytes %s here, and hm_buffer_desc.persist asks for more: they must "
		       "%s; see hetmap devices for persistent memory",
		       device->name, units[recipe->persist], units[desc->persist]);
}

/* Makes the object around a recipe, and owns the recipe's segment and @link from here on. */
static int build(struct hm_device *device, struct device_link *link,
		 const struct hm_buffer_desc *desc, const struct hm_recipe *recipe,
		 struct hm_buffer **ret_buffer)
{
	static _Atomic uint64_t serial;
	struct hm_buffer *buffer;

	buffer = sys_calloc(1, sizeof(*buffer));
	if (!buffer)
		return err_set(-ENOMEM, "no memory for a buffer's description");
	name_copy(buffer->name, sizeof(buffer->name), desc->name ? desc->name : "buffer");
	buffer->segment_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	object_init(&buffer->object, OBJECT_BUFFER);
	buffer->device = hm_device_ref(device);
	buffer->serial = atomic_fetch_add(&serial, 1) + 1;
	buffer->page_size = recipe->page_size;
	buffer->ask = (uint8_t)ask_of(device->ops);
	buffer->alignment = max_u64(recipe->alignment, recipe->page_size);
	buffer->access = recipe->access;
	buffer->cache = recipe->cache;
	buffer->numa_mode = recipe->numa_mode ? recipe->numa_mode : desc->numa_mode;
	buffer->numa_nodes = recipe->numa_mode ? recipe->numa_nodes : desc->numa_nodes;
	buffer->wanted = desc->place;
	buffer->persist = recipe->persist;
	buffer->place = recipe->place;
	buffer->lock = (pthread_mutex_t)PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
	buffer->size = recipe->size;
	buffer->max_size = max_u64(recipe->max_size, recipe->segment.length);
	buffer->caps = recipe->caps & ~(HM_BACKEND_CAPS | HM_CAP_PERSIST);
	if (recipe->persist)
		buffer->caps |= HM_CAP_PERSIST;
	buffer->memory = memory_of(recipe);
	buffer->flags = recipe->flags;
	buffer->settled_fd = -1;
	segments_begin(buffer, &recipe->segment, link);
	CDS_INIT_LIST_HEAD(&buffer->maps);
	counts_sized_locked(buffer, false);
	device_add_buffer(buffer);
	stats_add(&stats.buffers, 1);
	*ret_buffer = buffer;
	return 0;
}

/*
 * Where the kernel does not weigh nodes by itself, the file of an object has the policy before it
 * has pages. Maps apply all other policies.
 */
static int place_object(const struct hm_buffer_desc *desc, const struct hm_segment *segment)
{
	if (likely(desc->numa_mode != HM_NUMA_WEIGHTED) || segment->fd < 0 ||
	    weights_kernel_mode(desc->numa_nodes) >= 0)
		return 0;
	return weights_place_file(segment->fd, segment->fd_offset, segment->length,
				  desc->numa_nodes);
}

int buffer_make(struct hm_device *device, const struct hm_buffer_desc *desc,
		struct hm_buffer **ret_buffer)
{
	struct device_link *link = link_get(device);
	struct hm_recipe recipe = { 0 };
	uint32_t said = err_count();
	struct hm_buffer *buffer;
	int r;

	r = device->ops->create(link->backend, desc, &recipe);
	if (r) {
		r = backend_explain(device->ops, said, r, "create");
		goto err_link;
	}
	recipe.size = desc->size;
	r = check_persist(device, desc, &recipe);
	if (!r)
		r = place_object(desc, &recipe.segment);
	if (!r)
		r = build(device, link, desc, &recipe, &buffer);
	if (r)
		goto err_object;
	buffer->created = true;
	*ret_buffer = buffer;
	return 0;

err_object:
	device->ops->object_destroy(link->backend, &recipe.segment);
err_link:
	link_put(device, link);
	return r;
}

/* Sets the map flags of a dma-buf: given by the caller, or else probed. */
static int look(struct hm_recipe *recipe, const uint32_t *map_flags)
{
	if (!(recipe->segment.flags & DMABUF_UNSEEN))
		return 0;
	recipe->segment.flags &= ~DMABUF_UNSEEN;
	if (!map_flags)
		return dmabuf_look(recipe);
	recipe->segment.flags |= *map_flags;
	return 0;
}

/* Refuses less access than the caller asked for: the buffer could not be mapped for writing. */
static int check_access(const struct hm_device *device, const struct hm_buffer_desc *desc,
			const struct hm_recipe *recipe)
{
	if (recipe->access & HM_WRITE || desc->flags & HM_BUFFER_READ_ONLY)
		return 0;
	return err_set(
		-EACCES,
		"%s: the descriptor, or a seal of its memory, permits reading only: pass "
		"HM_BUFFER_READ_ONLY",
		device->name);
}

/*
 * Takes ownership of @fd: the buffer owns it, or it is closed. Receivers of a message, which pass
 * @map_flags, check the message's access themselves.
 */
static int adopt_fd(struct hm_device *device, int fd, const struct hm_buffer_desc *desc,
		    int (*describe)(void *device, int fd, const struct hm_buffer_desc *desc,
				    struct hm_recipe *ret_recipe),
		    const char *what, const uint32_t *map_flags, struct hm_buffer **ret_buffer)
{
	struct device_link *link = link_get(device);
	struct identity *identity = NULL;
	struct hm_recipe recipe = { 0 };
	uint32_t said = err_count();
	struct hm_buffer *buffer;
	int r = 0;

	/* Stores into private memory reach no other buffer, so it has no identity. */
	if (!(desc->flags & HM_BUFFER_PRIVATE))
		r = identity_get(fd, &identity);
	if (r)
		goto err_close;
	r = describe(link->backend, fd, desc, &recipe);
	if (r) {
		r = backend_explain(device->ops, said, r, what);
		goto err_close;
	}
	r = look(&recipe, map_flags);
	if (!r && !map_flags)
		r = check_access(device, desc, &recipe);
	if (!r)
		r = check_persist(device, desc, &recipe);
	if (r)
		goto err_object;
	r = build(device, link, desc, &recipe, &buffer);
	if (r)
		goto err_object;
	buffer->identity_at = desc->offset;
	atomic_init(&buffer->identity, identity);
	*ret_buffer = buffer;
	return 0;

err_object:
	/* The backend owns the descriptor by now. */
	device->ops->object_destroy(link->backend, &recipe.segment);
	goto err_identity;
err_close:
	sys_close(fd);
err_identity:
	identity_put(identity);
	link_put(device, link);
	return r;
}

int buffer_adopt_fd(struct hm_device *device, int fd, const struct hm_buffer_desc *desc,
		    bool file, const uint32_t *map_flags, struct hm_buffer **ret_buffer)
{
	int r = file ? buffer_check_caps(device, desc, HM_CAP_FROM_FILE,
					 "hm_buffer_from_file") :
		       buffer_check_caps(device, desc, HM_CAP_IMPORT, "hm_buffer_import");

	if (r) {
		sys_close(fd);
		return r;
	}
	return file ? adopt_fd(device, fd, desc, device->ops->from_file, "from_file", NULL,
			       ret_buffer) :
		      adopt_fd(device, fd, desc, device->ops->import_fd, "import_fd", map_flags,
			       ret_buffer);
}

/* Takes maps without references off the list. The caller holds the lock. */
static void collect_ended(struct hm_buffer *buffer)
{
	struct hm_map *map, *next;

	if (likely(!atomic_load(&buffer->ending)))
		return;
	for (map = atomic_exchange(&buffer->ending, NULL); map; map = next) {
		next = map->next_ended;
		cds_list_del(&map->buffer_link);
		buffer->n_map--;
		counts_map_ended_locked(map);
		map_keep_locked(map);
		map->next_ended = buffer->ended;
		buffer->ended = map;
	}
}

int buffer_lock(struct hm_buffer *buffer)
{
	if (unlikely(pthread_mutex_lock(&buffer->lock)))
		return err_set(-EDEADLK,
			       "%s: a view's callback must not use the buffer that is "
			       "being changed: call after the callback",
			       buffer->name);
	collect_ended(buffer);
	return 0;
}

void buffer_unlock(struct hm_buffer *buffer)
{
	struct hm_map *map, *next;

	do {
		if (unlikely(buffer->reach_changed))
			reach_show_buffer_locked(buffer);
		collect_ended(buffer);
		map = buffer->ended;
		buffer->ended = NULL;
		pthread_mutex_unlock(&buffer->lock);
		for (; map; map = next) {
			next = map->next_ended;
			map_release(map);
		}
		/*
		 * A thread that ended a map after the collecting found the lock taken, and left.
		 */
	} while (unlikely(atomic_load(&buffer->ending) || buffer->reach_changed) &&
		 !pthread_mutex_trylock(&buffer->lock));
	/* The deferred views hold their own references: the buffer may be gone. */
	view_end_deferred();
}

void buffer_end_map(struct hm_map *map)
{
	/* The map's own reference goes with the map, perhaps in another thread. */
	struct hm_buffer *buffer = hm_buffer_ref(map->buffer);
	bool whole = map->whole;

	map->next_ended = atomic_load(&buffer->ending);
	while (!atomic_compare_exchange_weak(&buffer->ending, &map->next_ended, map))
		;
	if (!pthread_mutex_trylock(&buffer->lock))
		buffer_unlock(buffer);
	if (whole)
		buffer_unref_retired(buffer);
	else
		hm_buffer_unref(buffer);
}

uint32_t buffer_segment_at(const struct hm_buffer *buffer, uint64_t offset)
{
	uint32_t i = buffer->n_segment;

	while (--i)
		if (buffer->segment[i].offset <= offset)
			break;
	return i;
}

/*
 * Refuses a device whose objects, since a recovery, differ from those that the maps were made
 * by.
 */
static int check_alike(struct hm_buffer *buffer, const struct device_link *link,
		       const struct hm_recipe *recipe)
{
	if (link == segments_link(buffer) ||
	    (!((recipe->caps ^ buffer->caps) & HM_CAP_BRACKET) &&
	     recipe->page_size == buffer->page_size && memory_of(recipe) == buffer->memory))
		return 0;
	return err_set(-EOPNOTSUPP,
		       "%s: \"%s\" is another kind of device now: make the buffer anew",
		       buffer->name, buffer->device->name);
}

int buffer_create_object(struct hm_buffer *buffer, const struct device_link *link,
			 uint64_t size, uint64_t capacity, struct hm_segment *ret_segment,
			 uint32_t *ret_place)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.flags = buffer->flags,
		.size = size,
		.max_size = capacity,
		.name = buffer->name,
		.numa_mode = buffer->numa_mode,
		.numa_nodes = buffer->numa_nodes,
		.place = buffer->wanted,
	};
	struct hm_recipe recipe = { 0 };
	uint32_t said = err_count();
	int r;

	r = buffer->device->ops->create(link->backend, &desc, &recipe);
	if (r)
		return backend_explain(buffer->device->ops, said, r, "create");
	r = check_alike(buffer, link, &recipe);
	if (!r)
		r = place_object(&desc, &recipe.segment);
	if (r)
		goto err_object;
	*ret_segment = recipe.segment;
	*ret_place = recipe.place;
	return 0;

err_object:
	buffer->device->ops->object_destroy(link->backend, &recipe.segment);
	return r;
}

void buffer_destroy_objects(struct hm_buffer *buffer, struct hm_segment *segments, uint32_t n)
{
	while (n--)
		buffer->device->ops->object_destroy(segments_link(buffer)->backend,
						    &segments[n]);
}

struct hm_buffer *hm_buffer_ref(struct hm_buffer *buffer)
{
	if (buffer)
		object_ref(&buffer->object);
	return buffer;
}

static void dispose(struct retired *retired)
{
	struct hm_buffer *buffer = caa_container_of(retired, struct hm_buffer, retired);

	share_end(buffer);
	loss_end(buffer);
	identity_put(atomic_load(&buffer->identity));
	if (buffer->settled_own)
		sys_close(buffer->settled_fd);
	segments_end(buffer);
	counts_end(buffer);
	hm_device_unref(buffer->device);
	pthread_mutex_destroy(&buffer->segment_lock);
	pthread_mutex_destroy(&buffer->lock);
	buffer->object.kind = OBJECT_FREED;
	free(buffer);
	stats_sub(&stats.buffers, 1);
}

/* Drops a reference; true: it was the last, and the buffer is off the device's list. */
static bool leave(struct hm_buffer *buffer)
{
	if (!object_put(&buffer->object))
		return false;
	device_remove_buffer(buffer);
	return true;
}

void buffer_unref_retired(struct hm_buffer *buffer)
{
	if (leave(buffer))
		dispose(&buffer->retired);
}

void hm_buffer_unref(struct hm_buffer *buffer)
{
	if (!buffer)
		return;
	err_hold();
	if (leave(buffer))
		retire(&buffer->retired, buffer->size, atomic_load(&buffer->share), dispose);
	err_release();
}
