// SPDX-License-Identifier: MIT
/*
 * Idle objects: made here, unknown to other users, and without a holder. They are kept for a
 * moment, with their mappings: for the kernel, making an object and bringing its pages into a
 * mapping takes many times as long as clearing its bytes takes the CPU.
 *
 * Other processes may need that memory: a thread ends objects after a second, and an allocation
 * that this process is refused ends all at once, and is tried again.
 *
 * An idle object keeps the mapping of its last map, without access: the core offers the mapping
 * (map_keep) instead of unmapping it, if the map was never changed and neither a reader whose
 * grace period is waited for nor a handler can be at it, and asks for it (map_take) when the
 * object is mapped again. The next buffer of that size is cleared through the mapping and gets
 * both.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/core.h"
#include "map/map.h"
#include "base/env.h"
#include "base/sys.h"
#include "base/thread.h"

#include "backend/drm/drm.h"

/* Time an object is kept, number on all nodes (each has a mapping), and MiB on a node. */
#define IDLE_NS 1000000000ull
#define OBJECTS_MAX 256
#define MIB_DEFAULT 64
#define MIB_MAX 65536
/* An object may have this part of the bytes at most: a large one would end all others. */
#define PART 4

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the fields below */
static CDS_LIST_HEAD(objects);                           /* drm_object.link, oldest first */
static uint32_t n_object;
static struct {
	pthread_cond_t changed;
	pthread_t thread;
	bool running;
	uint32_t turn; /* a thread of an earlier turn ends */
} cleaner;

int drm_idle_limit(uint64_t *ret_bytes)
{
	const char *text = env_get("HETMAP_DRM_IDLE");
	unsigned long mib = MIB_DEFAULT;
	char *end;

	if (text && *text) {
		mib = strtoul(text, &end, 10);
		if (*text < '0' || *text > '9' || *end || mib > MIB_MAX)
			return err_set(-EINVAL,
				       "HETMAP_DRM_IDLE is \"%s\": set it to the MiB of idle "
				       "buffers that a DRM node may keep, 0 (none) to %d",
				       text, MIB_MAX);
	}
	*ret_bytes = MIB(mib);
	return 0;
}

/* ---- in and out of the list ---- */

static void add_locked(struct drm_object *object)
{
	object->idle_since = time_now_ns();
	cds_list_add_tail(&object->link, &objects);
	n_object++;
	object->node->idle_bytes += object->asked;
	stats_add(&stats.bytes_idle, object->asked);
}

static void remove_locked(struct drm_object *object)
{
	cds_list_del(&object->link);
	n_object--;
	object->node->idle_bytes -= object->asked;
	stats_sub(&stats.bytes_idle, object->asked);
}

static struct drm_object *oldest_locked(void)
{
	return cds_list_empty(&objects) ?
		       NULL :
		       cds_list_first_entry(&objects, struct drm_object, link);
}

static void end_locked(struct drm_object *object)
{
	remove_locked(object);
	drm_object_end(object);
}

/* Ends the oldest objects until @node has @max bytes at most; NULL: ends all, of all nodes. */
static bool shrink_locked(struct drm_node *node, uint64_t max)
{
	struct drm_object *object, *next;
	bool any = false;

	cds_list_for_each_entry_safe(object, next, &objects, link) {
		if (node && node->idle_bytes <= max)
			break;
		if (node && object->node != node)
			continue;
		end_locked(object);
		any = true;
	}
	return any;
}

/* ---- the thread ---- */

static void *clean(void *user)
{
	uint32_t turn = (uint32_t)(uintptr_t)user;
	struct drm_object *object;
	struct timespec due;
	uint64_t ns;

	pthread_mutex_lock(&lock);
	while (turn == cleaner.turn) {
		object = oldest_locked();
		if (!object) {
			pthread_cond_wait(&cleaner.changed, &lock);
			continue;
		}
		ns = object->idle_since + IDLE_NS;
		if (time_now_ns() >= ns) {
			end_locked(object);
			continue;
		}
		due.tv_sec = (time_t)(ns / 1000000000);
		due.tv_nsec = (long)(ns % 1000000000);
		pthread_cond_timedwait(&cleaner.changed, &lock, &due);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void init_cleaner(void)
{
	thread_condition_init(&cleaner.changed);
}

/* False: there is no thread that would end the kept objects. */
static bool start_cleaner_locked(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (cleaner.running)
		return true;
	pthread_once(&once, init_cleaner);
	cleaner.running =
		!thread_start(&cleaner.thread, clean, (void *)(uintptr_t)cleaner.turn);
	return cleaner.running;
}

void drm_idle_close(struct drm_node *node)
{
	pthread_t thread;
	bool stop;

	pthread_mutex_lock(&lock);
	shrink_locked(node, 0);
	stop = cleaner.running && !n_object;
	if (stop) {
		cleaner.running = false;
		cleaner.turn++;
		thread = cleaner.thread;
		pthread_cond_broadcast(&cleaner.changed);
	}
	pthread_mutex_unlock(&lock);
	if (stop)
		pthread_join(thread, NULL);
}

/* ---- objects ---- */

/* Not worth it where CPUs write slowly, as over PCIe: the device clears a new object faster. */
static bool is_worth(const struct drm_object *object)
{
	return object->own && !object->node->gone && object->cache == HM_CACHE_WRITE_BACK &&
	       object->asked <= object->node->idle_max / PART;
}

bool drm_idle_put(struct drm_object *object)
{
	struct drm_node *node = object->node;
	bool kept;

	if (!is_worth(object))
		return false;
	pthread_mutex_lock(&lock);
	kept = start_cleaner_locked();
	if (kept) {
		if (n_object == OBJECTS_MAX)
			end_locked(oldest_locked());
		shrink_locked(node, node->idle_max - object->asked);
		add_locked(object);
		if (n_object == 1)
			pthread_cond_signal(&cleaner.changed);
	}
	pthread_mutex_unlock(&lock);
	return kept;
}

/* Prefers the last object kept: its bytes may still be in caches. */
static struct drm_object *find_locked(const struct drm_node *node, uint64_t size,
				      enum drm_place place)
{
	struct drm_object *object;

	cds_list_for_each_entry_reverse(
		object, &objects, link) if (object->node == node && object->asked == size &&
					    object->wanted == (uint32_t)place) return object;
	return NULL;
}

/*
 * The C library clears more than 2 KiB by `rep stosb`, which emulation does byte by byte
 * [__x86_rep_stosb_threshold]; smaller steps cost other machines nothing.
 */
#define CLEAR_STEP KIB(2)

static void clear(char *bytes, uint64_t length)
{
	uint64_t at;

	for (at = 0; at < length; at += CLEAR_STEP)
		memset(bytes + at, 0, min_u64(CLEAR_STEP, length - at));
}

static int map_all(struct drm_object *object)
{
	const struct hm_segment segment = drm_object_segment(object, object->asked, false);
	void *mapped;
	int r;

	r = map_direct(&segment, 0, object->asked, NULL, 0, PROT_READ | PROT_WRITE, &mapped);
	if (r)
		return r;
	/* The core does the same later; until then a child must not inherit it either. */
	r = sys_madvise(mapped, object->asked, MADV_DONTFORK);
	if (r)
		goto err_unmap;
	object->mapped = mapped;
	return 0;

err_unmap:
	sys_munmap(mapped, object->asked);
	return r;
}

/* Checks that the object still exists and has no work in flight, and clears it. */
static int make_ready(struct drm_object *object)
{
	const struct drm_driver *driver = object->node->driver;
	int r;

	/* Fails if foreign code has closed the handle, or the device is gone. */
	r = driver->map_offset(object);
	if (!r && driver->wait)
		r = driver->wait(object, true, 0);
	if (!r && driver->wait_end)
		r = driver->wait_end(object);
	if (r)
		return r;
	r = object->mapped ?
		    sys_mprotect(object->mapped, object->asked, PROT_READ | PROT_WRITE) :
		    map_all(object);
	if (r)
		return r;
	clear(object->mapped, object->asked);
	return 0;
}

struct drm_object *drm_idle_take(struct drm_node *node, uint64_t size, enum drm_place place)
{
	struct drm_object *object;

	pthread_mutex_lock(&lock);
	object = find_locked(node, size, place);
	if (object)
		remove_locked(object);
	pthread_mutex_unlock(&lock);
	if (!object)
		return NULL;
	if (make_ready(object)) {
		/* A new object is made instead, and its failure has the text. */
		err_clear();
		drm_object_end(object);
		return NULL;
	}
	object->refs = 1;
	return object;
}

bool drm_idle_empty(void)
{
	bool any;

	pthread_mutex_lock(&lock);
	any = shrink_locked(NULL, 0);
	pthread_mutex_unlock(&lock);
	return any;
}

/* ---- mappings ---- */

int drm_idle_keep_mapping(struct drm_object *object, void *address)
{
	void *none = NULL;

	if (!is_worth(object) || object->mapped)
		return -ENOSPC;
	/* Use of the ended map's address must still raise SIGSEGV. */
	if (sys_mprotect(address, object->asked, PROT_NONE))
		return -ENOSPC;
	return atomic_compare_exchange_strong(&object->mapped, &none, address) ? 0 : -ENOSPC;
}

void *drm_idle_take_mapping(struct drm_object *object)
{
	return atomic_exchange(&object->mapped, NULL);
}

/* ---- fork ---- */

void drm_idle_fork_prepare(void)
{
	pthread_mutex_lock(&lock);
}

void drm_idle_fork_parent(void)
{
	pthread_mutex_unlock(&lock);
}

/* Objects and thread are the parent's. */
void drm_idle_fork_child(void)
{
	CDS_INIT_LIST_HEAD(&objects);
	n_object = 0;
	stats.bytes_idle = 0;
	/* A thread of the parent may have been waiting on the condition. */
	init_cleaner();
	cleaner.running = false;
	pthread_mutex_unlock(&lock);
}
