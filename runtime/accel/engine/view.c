// SPDX-License-Identifier: MIT
/*
 * An engine's view of a map: bound in the device's address space at the CPU's address, so that
 * the CPU's pointers are the engine's.
 *
 * Accelerators of one port share its address space, and so the bindings. A binding ends with its
 * last view, after all work that uses it: a change of one range of a map takes its views away,
 * while work on another range may go on.
 */
#include "accel/engine/engine.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"

struct engine_binding {
	struct cds_list_head link; /* in bindings */
	struct sim_port *port;     /* the views' port */
	uint32_t refs;             /* views with this binding */
	uint32_t handle;
	bool write;
	uint64_t address;
	uint64_t length;
	uint64_t offset; /* in the buffer */
	/* The last submission of each queue number that uses it; 0: none. */
	uint32_t n_queue;
	_Atomic uint64_t used[];
};

struct engine_view {
	struct engine *engine;
	char reason[160]; /* the reason for copying its bytes; "": not copied */
	uint32_t n;
	uint32_t room;
	struct engine_binding **binding;
};

static pthread_mutex_t engine_binding_mutex = PTHREAD_MUTEX_INITIALIZER;

void engine_fork_prepare(void)
{
	pthread_mutex_lock(&engine_binding_mutex);
}

void engine_fork_after(void)
{
	pthread_mutex_unlock(&engine_binding_mutex);
}
static CDS_LIST_HEAD(bindings); /* protected by the mutex, refs too */

/* The part of a map in one object. */
struct piece {
	uint32_t handle;
	bool write;
	uint64_t address;
	uint64_t length;
	uint64_t offset; /* in the object */
};

/* ---- bindings; the mutex is held ---- */

/* The binding at @address, or the next one above it; NULL: there is none. */
static struct engine_binding *find_binding(const struct sim_port *port, uint64_t address)
{
	struct engine_binding *binding, *next = NULL;

	cds_list_for_each_entry(binding, &bindings, link) {
		if (binding->port != port || binding->address + binding->length <= address)
			continue;
		if (!next || binding->address < next->address)
			next = binding;
	}
	return next;
}

static int explain_bind(struct engine *engine, int r)
{
	if (r == -EEXIST)
		return err_set(r,
			       "%s: another binding is at the map's address: only the library "
			       "may bind where maps are",
			       engine->name);
	if (r == -ERANGE)
		return err_set(-EBUSY, "%s: the map is being changed", engine->name);
	if (r == -ENOSPC)
		return err_set(
			r,
			"%s: the device takes no more bindings, or no more than 4096 of this "
			"buffer: unref maps that its engine need not reach",
			engine->name);
	return sim_port_explain(engine->port, r, "binding a map");
}

static int make_binding(struct engine *engine, const struct piece *piece,
			struct engine_binding **ret_binding)
{
	uint32_t n = engine->port->query.max_queues + 1; /* numbers begin at 1 */
	struct hetsim_bind bind = {
		.size = sizeof(bind),
		.flags = piece->write ? HETSIM_BIND_WRITE : 0,
		.source = HETSIM_SOURCE_BUFFER,
		.handle = piece->handle,
		.address = piece->address,
		.offset = piece->offset,
		.length = piece->length,
	};
	struct engine_binding *binding;
	int r;

	binding = sys_calloc(1, sizeof(*binding) + n * sizeof(binding->used[0]));
	if (!binding)
		return err_set(-ENOMEM, "%s: no memory to bind a map", engine->name);
	r = sim_port_call(engine->port, HETSIM_BIND, &bind);
	if (r) {
		free(binding);
		return explain_bind(engine, r);
	}
	binding->port = engine->port;
	binding->refs = 1;
	binding->handle = piece->handle;
	binding->write = piece->write;
	binding->address = piece->address;
	binding->length = piece->length;
	binding->offset = piece->offset;
	binding->n_queue = n;
	cds_list_add(&binding->link, &bindings);
	*ret_binding = binding;
	return 0;
}

static void wait_for_users(struct engine_binding *binding)
{
	struct engine_end end;
	uint64_t last;
	uint32_t i;

	for (i = 0; i < binding->n_queue; i++) {
		last = atomic_load(&binding->used[i]);
		/* On any failure the queue or the device is gone, and its work with it. */
		if (last)
			engine_wait_number(binding->port, i, last, ENGINE_FOREVER, &end);
	}
}

static void put_binding(struct engine_binding *binding)
{
	struct hetsim_unbind unbind = {
		.size = sizeof(unbind),
		.address = binding->address,
		.length = binding->length,
	};

	if (--binding->refs)
		return;
	wait_for_users(binding);
	/* On a device that is gone the binding is, too. */
	sim_port_call(binding->port, HETSIM_UNBIND, &unbind);
	cds_list_del(&binding->link);
	free(binding);
}

static int make_room(struct engine_view *view)
{
	uint32_t room = view->room ? 2 * view->room : 1;
	struct engine_binding **array;

	if (view->n < view->room)
		return 0;
	array = sys_calloc(room, sizeof(*array));
	if (!array)
		return err_set(-ENOMEM, "%s: no memory to bind a map", view->engine->name);
	if (view->n)
		memcpy(array, view->binding, view->n * sizeof(*array));
	free(view->binding);
	view->binding = array;
	view->room = room;
	return 0;
}

static bool has_same_bytes(const struct engine_binding *binding, const struct piece *piece)
{
	return binding->handle == piece->handle && binding->write == piece->write &&
	       binding->address - binding->offset == piece->address - piece->offset;
}

/* Shares bindings of other views for the piece, and makes new ones for the rest. */
static int bind_piece(struct engine_view *view, struct piece piece)
{
	uint64_t end = piece.address + piece.length;
	struct engine_binding *binding;
	int r;

	while (piece.address < end) {
		r = make_room(view);
		if (r)
			return r;
		piece.length = end - piece.address;
		binding = find_binding(view->engine->port, piece.address);
		if (binding && binding->address <= piece.address) {
			if (!has_same_bytes(binding, &piece))
				return err_set(-EBUSY,
					       "%s: another accelerator sees the map as it "
					       "was before it was changed",
					       view->engine->name);
			binding->refs++;
			piece.length =
				min_u64(piece.length,
					binding->address + binding->length - piece.address);
		} else {
			if (binding)
				piece.length =
					min_u64(piece.length, binding->address - piece.address);
			r = make_binding(view->engine, &piece, &binding);
			if (r)
				return r;
		}
		view->binding[view->n++] = binding;
		piece.address += piece.length;
		piece.offset += piece.length;
	}
	return 0;
}

static void unbind_view(struct engine_view *view)
{
	while (view->n)
		put_binding(view->binding[--view->n]);
}

/* ---- views ---- */

/* The map's part of a segment; false: none. */
static bool get_piece(const struct hm_accel_map *map, uint32_t i, uint64_t page,
		      struct piece *ret_piece)
{
	const struct hm_segment *segment = &map->segments[i];
	const struct sim_object *object = segment->object;
	uint64_t map_end = map->offset + round_up(map->length, page);
	uint64_t begin = max_u64(map->offset, segment->offset);
	uint64_t end = min_u64(map_end, segment->offset + segment->length);

	if (begin >= end)
		return false;
	*ret_piece = (struct piece){
		.handle = object->handle,
		.write = map->limit & HM_WRITE,
		.address = (uint64_t)(uintptr_t)map->address + (begin - map->offset),
		.length = end - begin,
		.offset = begin - segment->offset,
	};
	return true;
}

/* Sets view->reason where the engine can't reach the map's bytes. */
static void choose_way(struct engine_view *view, const struct hm_accel_map *map)
{
	struct sim_port *port = view->engine->port;
	const struct sim_object *object;
	uint32_t i;

	if (view->engine->flags & HM_ACCEL_FORCE_COPY) {
		snprintf(view->reason, sizeof(view->reason),
			 "the accelerator was opened with HM_ACCEL_FORCE_COPY");
		return;
	}
	if (strcmp(map->backend, port->ops->name) != 0) {
		snprintf(view->reason, sizeof(view->reason),
			 "the bytes are on a device of the kind \"%.32s\", and the engine of "
			 "%s reaches its own memory only",
			 map->backend, view->engine->name);
		return;
	}
	for (i = 0; i < map->n_segment; i++) {
		object = map->segments[i].object;
		if (object->port == port && object->handle)
			continue;
		snprintf(view->reason, sizeof(view->reason),
			 "the bytes are on another device than %s, were imported from one, or "
			 "their device was taken away since",
			 view->engine->name);
		return;
	}
}

int engine_view_create(void *accel, const struct hm_accel_map *map, void **ret_view)
{
	struct engine *engine = accel;
	struct engine_view *view;
	struct piece piece;
	uint32_t i;
	int r = 0;

	view = sys_calloc(1, sizeof(*view));
	if (!view)
		return err_set(-ENOMEM, "%s: no memory for a view", engine->name);
	view->engine = engine;
	choose_way(view, map);
	if (view->reason[0])
		goto out;
	pthread_mutex_lock(&engine_binding_mutex);
	for (i = 0; !r && i < map->n_segment; i++)
		if (get_piece(map, i, engine->port->query.page_size, &piece))
			r = bind_piece(view, piece);
	if (r)
		unbind_view(view);
	pthread_mutex_unlock(&engine_binding_mutex);
	if (r)
		goto err_free;
out:
	*ret_view = view;
	return 0;

err_free:
	free(view->binding);
	free(view);
	return r;
}

void engine_view_destroy(void *data)
{
	struct engine_view *view = data;

	pthread_mutex_lock(&engine_binding_mutex);
	unbind_view(view);
	pthread_mutex_unlock(&engine_binding_mutex);
	free(view->binding);
	free(view);
}

int engine_view_acquire(void *data, struct hm_accel_range *range)
{
	const struct engine_view *view = data;
	uint64_t align = view->engine->port->query.dma_align;

	range->way = HM_WAY_COPY;
	if (view->reason[0])
		err_warn("%s", view->reason);
	else if (!is_aligned((uint64_t)(uintptr_t)range->pointer, align))
		err_warn("the pointer is %" PRIu64 " bytes into its map, and the engine of %s "
			 "takes addresses at multiples of %" PRIu64 " only",
			 range->offset, view->engine->name, align);
	else
		range->way = HM_WAY_DIRECT;
	return 0;
}

void engine_view_release(void *view, struct hm_accel_range *range)
{
	(void)view, (void)range;
}

static int name_buffer(uint32_t handle, uint32_t access, struct engine_queue *queue)
{
	uint32_t flags = access & HM_WRITE ? HETSIM_USE_WRITE : 0, i;

	for (i = 0; i < queue->n_use && queue->use[i].handle != handle; i++)
		;
	if (i == HETSIM_MAX_USES)
		return err_set(-EOPNOTSUPP,
			       "%s: the work uses more than %u buffers, as many as the device "
			       "takes with HM_ACCEL_IMPLICIT",
			       queue->engine->name, HETSIM_MAX_USES);
	if (i == queue->n_use)
		queue->use[queue->n_use++] = (struct hetsim_use){ .handle = handle };
	queue->use[i].flags |= flags;
	return 0;
}

int engine_view_name(const void *data, uint32_t access, struct engine_queue *queue)
{
	const struct engine_view *view = data;
	uint32_t i;
	int r = 0;

	for (i = 0; i < view->n && !r; i++)
		r = name_buffer(view->binding[i]->handle, access, queue);
	return r;
}

void engine_view_used(void *data, uint32_t number, uint64_t last)
{
	struct engine_view *view = data;
	uint32_t i;

	/* A queue's numbers rise, and its submits are serialised. */
	for (i = 0; i < view->n; i++)
		atomic_store(&view->binding[i]->used[number], last);
}
