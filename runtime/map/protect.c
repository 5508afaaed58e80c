// SPDX-License-Identifier: MIT
/* Rights of a range of a map: sets them, and narrows them for a while by scopes. */
#include "map/protect.h"

#include <stdlib.h>

#include "core/buffer.h"
#include "map/map.h"
#include "tell/probe.h"
#include "map/remap.h"
#include "base/sys.h"

struct hm_scope {
	struct hm_object object;
	struct cds_list_head link; /* hm_map.scopes; map->change */
	struct hm_map *map;        /* holds a ref */
	uint64_t offset, length;   /* whole pages; a shrink cuts it, to 0 at last */
	uint32_t access;           /* the rights that it leaves */
};

/* A change of rights of [offset, offset + length), whole pages. */
struct protect_change {
	struct hm_map *map;
	uint64_t offset, length;
	uint32_t access;
	struct hm_scope *begins; /* or NULL */
	struct hm_scope *ends;   /* or NULL */
	bool ended;              /* @ends has ended, even if the call fails */
	struct rangemap *rights; /* the new rights */
	struct rangemap *base;   /* the new base; NULL: unchanged */
	uint64_t start;          /* of trace_start() */
};

/*
 * A range up to the end of the span has no end: a run of its own behind the span would keep
 * every map from having only one run.
 */
static uint64_t open_end(const struct hm_map *map, uint64_t offset, uint64_t length)
{
	return offset + length == map->span ? UINT64_MAX - offset : length;
}

/* Needs no memory for taking away the rights of a whole map and giving them back. */
static struct rangemap *make_rights(struct hm_map *map, uint64_t offset, uint64_t length,
				    uint32_t access)
{
	struct rangemap *spare = map->spare_rights;

	length = open_end(map, offset, length);
	if (offset || length != UINT64_MAX || !spare)
		return rangemap_set(map->rights, offset, length, access);
	map->spare_rights = NULL;
	spare->run[0].value = access;
	return spare;
}

static void put_rights(struct hm_map *map, struct rangemap *rights)
{
	if (rights->n == 1 && !map->spare_rights)
		map->spare_rights = rights;
	else
		free(rights);
}

/* ---- new rights ---- */

/* @base less the rights that scopes other than @without take away. NULL: no memory. */
static struct rangemap *narrow(const struct hm_map *map, const struct rangemap *base,
			       const struct hm_scope *without)
{
	struct rangemap *rights = rangemap_set(base, 0, 0, 0), *next;
	struct hm_scope *scope;

	cds_list_for_each_entry(scope, &map->scopes, link) {
		if (!rights)
			return NULL;
		if (scope == without)
			continue;
		next = rangemap_and(rights, scope->offset,
				    open_end(map, scope->offset, scope->length), scope->access);
		free(rights);
		rights = next;
	}
	return rights;
}

/* Fills in rights and base; a failure leaves neither. */
static int make(struct protect_change *change)
{
	struct hm_map *map = change->map;
	uint64_t length = open_end(map, change->offset, change->length);

	change->base = NULL;
	if (change->ends) {
		change->rights = narrow(map, map->base, change->ends);
	} else if (change->begins) {
		if (!map->base) {
			change->base = rangemap_set(map->rights, 0, 0, 0);
			if (!change->base)
				goto err_memory;
		}
		change->rights =
			rangemap_and(map->rights, change->offset, length, change->access);
	} else if (map->base) {
		change->base = rangemap_set(map->base, change->offset, length, change->access);
		if (!change->base)
			goto err_memory;
		change->rights = narrow(map, change->base, NULL);
	} else {
		change->rights =
			make_rights(map, change->offset, change->length, change->access);
	}
	if (change->rights)
		return 0;
	free(change->base);
	change->base = NULL;
err_memory:
	return err_set(-ENOMEM, "no memory for a map's rights");
}

/* The new rights are in force: notes the rest. */
static void commit(struct protect_change *change)
{
	struct hm_map *map = change->map;

	if (change->base) {
		free(map->base);
		map->base = change->base;
	}
	if (change->begins)
		cds_list_add_tail(&change->begins->link, &map->scopes);
	if (change->ends) {
		cds_list_del(&change->ends->link);
		change->ended = true;
	}
	if (map->base && cds_list_empty(&map->scopes)) {
		free(map->base);
		map->base = NULL;
	}
	atomic_store_explicit(&map->narrowed,
			      map->rights->n > 1 || map->rights->run[0].value != map->access,
			      memory_order_relaxed);
}

/* ---- the change ---- */

static PROBE_SITE int change_locked(struct protect_change *change, bool buffer_held)
{
	struct hm_map *map = change->map;
	struct rangemap *old = map->rights;
	struct registry_descriptor *staged;
	struct registry_entry entry;
	struct remap remap;
	int r;

	r = make(change);
	if (r)
		return r;
	map_entry(map, map->address, map->length, map->generation, change->rights, &entry);
	r = registry_stage(&entry, &staged);
	if (r) {
		r = err_set(r, "no memory for a map's rights");
		goto err_rights;
	}
	remap_init(&remap, map, change->offset, change->length);
	remap.new_rights = change->rights;
	remap.buffer_held = buffer_held;
	r = remap_freeze(&remap);
	if (r)
		goto err_staged;
	r = map_apply_rights(map->address, change->rights, change->offset, change->length);
	if (r)
		goto err_thaw;
	registry_commit(map->slot, staged);
	/*
	 * Needed even if no work uses the map: a bracket reads the rights under this lock
	 * alone.
	 */
	pthread_mutex_lock(&map->lock);
	map->rights = change->rights;
	pthread_mutex_unlock(&map->lock);
	commit(change);
	remap_thaw(&remap, true);
	put_rights(map, old);
	count_add(&map->buffer->counts, COUNT_PROTECTS, 1);
	probe_protect(map, change->offset, change->length,
		      change->ends ? rangemap_at(map->rights, change->offset)->value :
				     change->access,
		      change->start);
	return 0;

err_thaw:
	/* mprotect() over several mappings may have stopped half way. */
	map_apply_rights(map->address, old, change->offset, change->length);
	remap_thaw(&remap, false);
err_staged:
	registry_abandon(staged);
err_rights:
	put_rights(map, change->rights);
	free(change->base);
	change->base = NULL;
	return r;
}

/* Callers have checked change->access, and have asked the hook. */
static int set(struct protect_change *change, bool buffer_held)
{
	struct hm_map *map = change->map;
	uint64_t length = change->length;
	int r;

	r = map_check_pages(map, change->offset, length,
			    change->begins ? "hm_map_protect_begin" : "hm_map_protect");
	if (!r && !(map->buffer->caps & HM_CAP_PROTECT))
		r = err_set(-EOPNOTSUPP, "%s: rights of this device's maps don't change",
			    map->buffer->name);
	if (r)
		return r;
	change->length = map_pages(map, change->offset, length);
	if (change->begins)
		change->begins->length = change->length;
	r = change_locked(change, buffer_held);
	change->length = length;
	return r;
}

/*
 * Gives rights back in a lost map. The memory there is the map's own, so no view is asked or
 * told. If the kernel refuses, the map lacks the rights until a recovery brings its bytes back.
 */
static int give_back_lost(struct protect_change *change)
{
	struct hm_map *map = change->map;
	struct rangemap *old = map->rights;
	struct registry_descriptor *staged;
	struct registry_entry entry;
	int r;

	r = make(change);
	if (r)
		return r;
	map_entry(map, map->address, map->length, map->generation, change->rights, &entry);
	r = registry_stage(&entry, &staged);
	if (r) {
		put_rights(map, change->rights);
		return err_set(r, "no memory for a map's rights");
	}
	map_apply_rights(map->address, change->rights, change->offset, change->length);
	registry_commit(map->slot, staged);
	pthread_mutex_lock(&map->lock);
	map->rights = change->rights;
	pthread_mutex_unlock(&map->lock);
	commit(change);
	put_rights(map, old);
	return 0;
}

/* A map that no recovery brings back needs only the notes. */
static int end_lost(struct protect_change *change)
{
	struct hm_map *map = change->map;
	int r = 0;

	if (map->given_up || !change->length)
		commit(change);
	else
		r = give_back_lost(change);
	return r ? r : remap_refuse_lost(map);
}

static int end(struct protect_change *change, bool buffer_held)
{
	struct hm_scope *scope = change->ends;

	change->offset = scope->offset;
	change->length = scope->length;
	if (change->map->lost)
		return end_lost(change);
	if (scope->length)
		return change_locked(change, buffer_held);
	commit(change); /* a shrink has cut all of it off */
	return 0;
}

static int with_change(struct protect_change *change, bool buffer_held)
{
	struct hm_map *map = change->map;
	int r;

	r = change->ends ? remap_lock_lost_too(map) : remap_lock(map);
	if (r)
		return r;
	r = change->ends ? end(change, buffer_held) : set(change, buffer_held);
	remap_unlock(map);
	return r;
}

static int protect_once(struct protect_change *change)
{
	struct hm_buffer *buffer = change->map->buffer;
	int r;

	r = with_change(change, false);
	if (likely(r != REMAP_NEEDS_BUFFER))
		return r;
	r = buffer_lock(buffer);
	if (r)
		return r;
	r = with_change(change, true);
	buffer_unlock(buffer);
	return r;
}

static int protect(struct protect_change *change)
{
	bool relieved = false;
	int r;

	change->start = trace_start();
	do
		r = protect_once(change);
	while (unlikely(r) && retire_relieve(r, &relieved));
	return r;
}

/* ---- scopes ---- */

int protect_range(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access)
{
	struct protect_change change = {
		.map = map, .offset = offset, .length = length, .access = access
	};

	return protect(&change);
}

int protect_begin(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access,
		  struct hm_scope **ret_scope)
{
	struct protect_change change = {
		.map = map, .offset = offset, .length = length, .access = access
	};
	struct hm_scope *scope;
	int r;

	scope = sys_calloc(1, sizeof(*scope));
	if (!scope)
		return err_set(-ENOMEM, "no memory for a protection scope");
	object_init(&scope->object, OBJECT_SCOPE);
	scope->map = hm_map_ref(map);
	scope->offset = offset;
	scope->access = access;
	change.begins = scope;
	r = protect(&change);
	if (r)
		goto err_scope;
	*ret_scope = scope;
	return 0;

err_scope:
	hm_map_unref(map);
	free(scope);
	return r;
}

int protect_end(struct hm_scope *scope)
{
	struct protect_change change = { .map = scope->map, .ends = scope };
	int r;

	r = protect(&change);
	if (!change.ended)
		return r;
	scope->object.kind = OBJECT_FREED;
	hm_map_unref(change.map);
	free(scope);
	return r;
}

const struct hm_map *protect_scope_map(const struct hm_scope *scope)
{
	return scope->map;
}

/* ---- for resizes ---- */

int protect_stage_base(const struct hm_map *map, uint64_t offset, uint64_t length,
		       struct rangemap **ret_base)
{
	*ret_base = NULL;
	if (likely(!map->base))
		return 0;
	*ret_base = rangemap_set(map->base, offset, length, map->access);
	return *ret_base ? 0 : err_set(-ENOMEM, "no memory for a map's rights");
}

void protect_commit_base(struct hm_map *map, struct rangemap **base, uint64_t pages)
{
	struct hm_scope *scope;

	if (likely(!*base))
		return;
	free(map->base);
	map->base = *base;
	*base = NULL;
	cds_list_for_each_entry(scope, &map->scopes, link)
		scope->length = min_u64(scope->length,
					pages > scope->offset ? pages - scope->offset : 0);
}

/* ---- for error texts ---- */

static int covers(void *user, uint64_t offset, uint64_t length, uint32_t value)
{
	(void)offset, (void)length;
	return (value & *(uint32_t *)user) != *(uint32_t *)user;
}

const char *protect_cause(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access)
{
	bool taken = false;

	/* A callback of a change of this map itself does not learn the cause. */
	if (pthread_mutex_trylock(&map->change))
		return "";
	if (map->base)
		taken = !rangemap_each(map->base, offset, length, covers, &access);
	remap_unlock(map);
	return taken ? " (a scope of hm_map_protect_begin() that is open takes it away)" : "";
}
