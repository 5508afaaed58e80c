// SPDX-License-Identifier: MIT
/*
 * Ring: opens, queries and closes an end.
 *
 * A lock of one byte of the file tells that an end is taken. It belongs to an open file
 * description that only this object's descriptor refers to: the map uses another one, since a
 * mapping would keep the lock, and a fork child closes the descriptor. The lock therefore ends
 * with the object, or with the process.
 */
#include "api/api.h"
#include "ring/ring.h"
#include "map/map.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hook/hook.h"
#include "api/network.h"
#include "base/rlimits.h"
#include "base/sys.h"
#include "fault/repair.h"

#define RING_INFO_LEAST sizeof(struct hm_ring_info)
/* No ring gets so far; sums with positions below it don't overflow. */
#define POSITION_MAX (1ull << 62)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* protects the list below; a leaf */
static CDS_LIST_HEAD(rings);                              /* hm_ring.link */

static const char *const end_names[] = { "reader", "writer" };

/* ---- the lock of an end ---- */

/* Byte 1 for the reader, 2 for the writer: locks may lie on bytes of any use. */
static struct flock lock_of(uint32_t end)
{
	return (struct flock){
		.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = 1 + (off_t)end,
		.l_len = 1,
	};
}

static int take_end(int fd, uint32_t end)
{
	struct flock lock = lock_of(end);
	int r = sys_fcntl(fd, F_OFD_SETLK, (long)&lock);

	if (r == -EAGAIN || r == -EACCES)
		return err_set(-EBUSY, "another opener has the ring's %s", end_names[end]);
	return r < 0 ? err_set(r, "locking the ring's %s: %s", end_names[end], err_name(r)) : 0;
}

bool ring_peer_is_there(const struct hm_ring *ring)
{
	struct flock lock = lock_of(!ring->end);

	/* On failure, assumes that the other end is there. */
	return sys_fcntl(ring->lock_fd, F_OFD_GETLK, (long)&lock) < 0 || lock.l_type != F_UNLCK;
}

/* ---- open ---- */

static int explain_open(int r)
{
	if (r == -EMFILE || r == -ENFILE)
		return rlimits_explain_fd(r, "the ring's file");
	return err_set(r, "opening it for reading and writing: %s", err_name(r));
}

int ring_open_file(int fd)
{
	char of_fd[32];
	int own;

	/* A new open: a duplicate would share the original descriptor's locks. */
	snprintf(of_fd, sizeof(of_fd), "/proc/self/fd/%d", fd);
	own = sys_open(of_fd, O_RDWR | O_NONBLOCK | O_NOCTTY, 0);
	return own < 0 ? explain_open(own) : own;
}

static int read_header(int fd, uint64_t *ret_capacity)
{
	struct ring_header header = { .version = 0 };
	struct stat st;
	ssize_t n;
	int r;

	r = sys_fstat(fd, &st);
	if (r)
		return err_set(r, "fstat: %s", err_name(r));
	if (!S_ISREG(st.st_mode))
		return err_set(-EBADMSG, "it is no regular file");
	n = sys_pread(fd, &header, sizeof(header), 0);
	if (n < 0)
		return err_set((int)n, "reading its header: %s", err_name((int)n));
	if ((size_t)n < sizeof(header))
		return err_set(-EBADMSG,
			       "it has %zd bytes: it is no ring, or an unfinished one", n);
	r = ring_check_header(&header, (uint64_t)st.st_size);
	if (!r)
		*ret_capacity = header.capacity;
	return r;
}

static int map_file(struct hm_ring *ring, const char *name, uint64_t capacity)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = ring_size(capacity),
		.name = name,
	};
	struct hm_device *device;
	struct hm_buffer *buffer;
	char path[32];
	int r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", ring->lock_fd);
	r = device_open("file", &device);
	if (r)
		return r;
	r = buffer_from_file(device, path, -1, &desc, &buffer);
	hm_device_unref(device);
	if (r)
		return r;
	/*
	 * Callers can find the buffer by a pointer into it, and must not change the file's size.
	 */
	atomic_fetch_and(&buffer->caps, ~HM_CAP_RESIZE);
	r = map_create(buffer, NULL, &ring->map);
	/* The map holds it from here on. */
	hm_buffer_unref(buffer);
	return r;
}

static bool has_last(const struct hm_ring *ring)
{
	uint64_t magic;

	memcpy(&magic, RING_MAGIC, sizeof(magic));
	return atomic_load_explicit(ring->last, memory_order_relaxed) == magic;
}

int ring_attach(struct hm_ring *ring, void *base, uint64_t capacity)
{
	struct ring_control *control = (struct ring_control *)((char *)base + RING_CONTROL);
	uint64_t tail = atomic_load(&control->tail), head = atomic_load(&control->head);

	ring->last = (const _Atomic uint64_t *)((char *)base + ring_size(capacity)) - 1;
	if (!has_last(ring))
		return err_set(
			-EBADMSG,
			"its last 8 bytes, of %" PRIu64 ", are not a ring's: it was cut off "
			"and grown again, or never finished; remove it, and make it again",
			ring_size(capacity));
	if (tail > POSITION_MAX || head > tail || tail - head > capacity || (tail | head) % 8)
		return err_set(-EBADMSG,
			       "its positions are wrong: %" PRIu64 " bytes written, %" PRIu64
			       " read, and it has room for %" PRIu64,
			       tail, head, capacity);
	ring->control = control;
	ring->data = (char *)base + RING_DATA;
	ring->capacity = capacity;
	if (ring->end == HM_RING_WRITER) {
		ring->own = tail;
		ring->other = head;
		ring->opens = atomic_load(&control->readers);
		/* Left by a writer that ended in its sleep. */
		atomic_store(&control->writer_sleeps, 0);
		atomic_fetch_add(&control->writers, 1);
	} else {
		ring->own = head;
		ring->other = tail;
		ring->opens = atomic_load(&control->writers);
		atomic_store(&control->reader_sleeps, 0);
		atomic_fetch_add(&control->readers, 1);
	}
	return 0;
}

static void destroy(struct hm_ring *ring)
{
	pthread_mutex_lock(&mutex);
	cds_list_del(&ring->link);
	pthread_mutex_unlock(&mutex);
	hm_map_unref(ring->map);
	/* Last: the next opener of the end finds it as this one leaves it. */
	if (ring->lock_fd >= 0)
		sys_close(ring->lock_fd);
	ring->object.kind = OBJECT_FREED;
	free(ring);
}

/* Asks the access hook, before the lock is taken. A bad descriptor fails later. */
static int ask(int fd)
{
	struct stat st;

	if (!hook_hooked() || sys_fstat(fd, &st))
		return 0;
	return hook_file(fd, (uint64_t)st.st_size, HM_READ | HM_WRITE);
}

static int open_end(struct hm_ring *ring, const char *name)
{
	uint64_t capacity = 0;
	int r;

	r = take_end(ring->lock_fd, ring->end);
	if (!r)
		r = read_header(ring->lock_fd, &capacity);
	if (!r)
		r = map_file(ring, name, capacity);
	if (!r)
		r = ring_attach(ring, hm_map_address(ring->map), capacity);
	if (!r)
		ring->peer_seen = ring_peer_is_there(ring);
	return r;
}

int hm_ring_open(const char *path, int fd, uint32_t end, struct hm_ring **ret_ring)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	const char *name = slash && slash[1] ? slash + 1 : path ? path : "ring";
	struct hm_ring *ring;
	int named, r;

	err_begin();
	if (!ret_ring)
		return err_set(-EINVAL, "hm_ring_open: ret_ring is NULL");
	if (end > HM_RING_WRITER)
		return err_set(-EINVAL,
			       "hm_ring_open: end %u is neither HM_RING_READER nor "
			       "HM_RING_WRITER",
			       end);
	fork_init();
	ring = sys_calloc(1, sizeof(*ring));
	if (!ring)
		return err_set(-ENOMEM, "no memory for a ring's end");
	object_init(&ring->object, OBJECT_RING);
	ring->end = end;
	/* Resolving the path may take long, and ask a server: no fork waits for that. */
	named = path ? sys_open(path, O_PATH, 0) : fd;
	r = path && named < 0 ? explain_open(named) : 0;
	if (!r)
		r = ask(named);
	if (!r)
		r = network_refuse(named, "a ring is memory of one machine");
	/* No fork in between: a child closes the descriptors in the list. */
	pthread_mutex_lock(&mutex);
	if (!r)
		r = ring_open_file(named);
	ring->lock_fd = r < 0 ? -1 : r;
	cds_list_add(&ring->link, &rings);
	pthread_mutex_unlock(&mutex);
	if (path && named >= 0)
		sys_close(named);
	if (r >= 0)
		r = open_end(ring, name);
	if (r)
		goto err_destroy;
	*ret_ring = ring;
	return 0;

err_destroy:
	destroy(ring);
	return err_prefix(r, "%s", path ? path : "ring");
}

struct hm_ring *hm_ring_ref(struct hm_ring *ring)
{
	if (ring)
		object_ref(&ring->object);
	return ring;
}

void hm_ring_unref(struct hm_ring *ring)
{
	if (!ring || !object_put(&ring->object))
		return;
	err_hold();
	destroy(ring);
	err_release();
}

/* ---- calls ---- */

/* Cold half of ring_check(). */
static __attribute__((noinline, cold)) int refuse_cut(const struct hm_ring *ring)
{
	struct stat st = { .st_size = 0 };

	if (ring->lock_fd >= 0)
		sys_fstat(ring->lock_fd, &st);
	return err_set(-EIO,
		       "the ring's file was cut off, and records are lost: the last of its "
		       "%" PRIu64 " bytes are not those at the end of a ring of "
		       "%" PRIu64 "; hm_ring_unref(), and make another ring",
		       (uint64_t)st.st_size, ring_size(ring->capacity));
}

/* Checks that no handler has replaced these bytes of the map. */
static int check_blocks(const struct hm_ring *ring)
{
	uint64_t at = (ring->own + ring->skip) & (ring->capacity - 1);
	int r = repair_check(ring->map, 0, RING_DATA, NULL);

	if (r || !ring->held)
		return r;
	/* A skip's head is before the ring's end, and its record at the beginning. */
	if (ring->skip)
		r = repair_check(ring->map, RING_DATA + (ring->own & (ring->capacity - 1)),
				 RING_HEAD, NULL);
	return r ? r : repair_check(ring->map, RING_DATA + at, ring_room(ring->length), NULL);
}

int ring_check(const struct hm_ring *ring)
{
	/* Orders the checks after the reads before. */
	atomic_thread_fence(memory_order_acquire);
	if (unlikely(!has_last(ring)))
		return refuse_cut(ring);
	/* Block states exist only where a handler is, or was, installed. */
	return likely(!ring->map || !repair_states(ring->map)) ? 0 : check_blocks(ring);
}

int ring_enter(struct hm_ring *ring, uint32_t end, const char *what)
{
	int r = object_check((struct hm_object *)ring, OBJECT_RING);

	if (unlikely(r))
		return r;
	if (unlikely(end != RING_ANY && end != ring->end))
		return err_set(-EINVAL, "%s: this end is the ring's %s", what,
			       end_names[ring->end]);
	if (unlikely(atomic_exchange_explicit(&ring->busy, true, memory_order_acquire)))
		return err_set(-EBUSY,
			       "%s: another thread is inside of a call on this end, or has "
			       "jumped out of one",
			       what);
	return 0;
}

int ring_leave(struct hm_ring *ring, int r)
{
	int lost = ring_check(ring);

	atomic_store_explicit(&ring->busy, false, memory_order_release);
	return unlikely(lost) ? lost : r;
}

int hm_ring_query(struct hm_ring *ring, struct hm_ring_info *ret_info)
{
	struct hm_ring_info info = { .reserved = 0 };
	int r;

	err_begin();
	r = ring_enter(ring, RING_ANY, "hm_ring_query");
	if (r)
		return r;
	r = ret_info ? struct_check_out(ret_info->struct_size, sizeof(info), RING_INFO_LEAST,
					"hm_ring_info") :
		       err_set(-EINVAL, "hm_ring_query: ret_info is NULL");
	if (!r)
		r = ring_look(ring);
	if (!r) {
		info = (struct hm_ring_info){
			.struct_size = ret_info->struct_size,
			.end = ring->end,
			.capacity = ring->capacity,
			.record_max = ring_record_max(ring->capacity),
			.used = ring->end == HM_RING_WRITER ? ring->own - ring->other :
							      ring->other - ring->own,
			.position = ring->own,
			.peer = ring_peer_is_there(ring),
		};
		/* Results stay untouched on failure. */
		r = ring_check(ring);
		if (!r)
			struct_write(ret_info, &info, ret_info->struct_size);
	}
	return ring_leave(ring, r);
}

int hm_ring_sync(struct hm_ring *ring)
{
	int r;

	err_begin();
	r = object_check((struct hm_object *)ring, OBJECT_RING);
	if (!r)
		r = map_sync(ring->map, 0, hm_map_length(ring->map), 0);
	return r ? r : ring_check(ring);
}

/* ---- fork ---- */

void ring_fork_prepare(void)
{
	pthread_mutex_lock(&mutex);
}

void ring_fork_parent(void)
{
	pthread_mutex_unlock(&mutex);
}

/* The locks are the parent's, and end with it. */
void ring_fork_child(void)
{
	struct hm_ring *ring;

	cds_list_for_each_entry(ring, &rings, link) {
		if (ring->lock_fd >= 0)
			sys_close(ring->lock_fd);
		ring->lock_fd = -1;
	}
	CDS_INIT_LIST_HEAD(&rings);
	pthread_mutex_unlock(&mutex);
}
