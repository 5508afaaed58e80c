// SPDX-License-Identifier: MIT
/* Shadows: copies of buffers that replace lost bytes. shadow.h explains why no page is torn. */
#include "loss/shadow.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <urcu/arch.h>

#include "base/compat.h"
#include "core/device_link.h"
#include "loss/device_loss.h"
#include "map/map.h"
#include "base/memfd.h"
#include "base/reserve.h"
#include "base/rlimits.h"
#include "core/segments.h"
#include "base/stream.h"
#include "base/sys.h"

/* The bytes of the buffer begin behind the spare area and a page for struct flights. */
#define SPARE KIB(256)
#define PLACE (SPARE + KIB(64)) /* a page of any machine's */

/* A call that signals interrupt is made again, so one call must not be for too much. */
#define ALLOCATE_BATCH MIB(2)

/* Bytes that fly at once: a part of the CPU's nearest cache, or enough to pay for two calls. */
#define CHUNK_CPU KIB(32)
#define CHUNK_KERNEL SPARE

/* Tries of a fork child to read a page while none of its parent's flights begins or ends. */
#define TRIES_BETWEEN 10000
#define TRIES_BETWEEN_MIN 100
#define NS_BETWEEN 1000000000ull /* time for more tries, which take long under load */

/* Tries to reach bytes that may leave the CPU's window at any time. */
#define TRIES 3

/* The state: the sealed bit, and the page and number of pages that fly; number 0: none do. */
#define SEALED (1ull << 63)
#define PAGES_BITS 8
#define UNIT 4096ull /* a page of any kernel, or a part of one */

/* The part of a shadow that a fork child shares with its parent. */
struct flights {
	_Atomic uint64_t count;  /* odd: bytes are being copied to their place at this moment */
	_Atomic uint64_t flying; /* these, as of flying_of(); 0: a cut clears some */
};

struct shadow {
	int fd;
	dev_t dev; /* of the file */
	ino_t ino;
	struct flights *flights; /* in it; the one part that children have mapped */
	char *bytes;             /* of the file, all of it */
	_Atomic uint64_t state;
	_Atomic uint64_t capacity; /* bytes of the buffer that it has room for */
	uint64_t allocated;        /* of these, with memory; whole pages */

	/* The buffer's objects, mapped to be read. */
	struct reservation source;
	char *source_bytes;
	uint64_t source_length;
	uint64_t source_serial; /* of the list of segments; 0: not mapped */
};

static uint64_t flying_of(uint64_t first, uint64_t length)
{
	return (first / UNIT) << PAGES_BITS | length / UNIT;
}

static uint64_t flying_first(uint64_t state)
{
	return ((state & ~SEALED) >> PAGES_BITS) * UNIT;
}

static uint64_t flying_length(uint64_t state)
{
	return (state & ((1u << PAGES_BITS) - 1)) * UNIT;
}

uint64_t shadow_bytes(const struct shadow *shadow)
{
	return shadow->allocated + SPARE + page_size();
}

/* ---- room ---- */

static int map_file(const struct shadow *shadow, uint64_t length, char **ret_bytes)
{
	void *mapped;
	int r;

	r = sys_mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
		     shadow->fd, 0, &mapped);
	if (r)
		return rlimits_explain_map(r, length, TAKES_SPACE, "mapping a shadow");
	r = sys_madvise(mapped, length, MADV_DONTFORK);
	if (r) {
		sys_munmap(mapped, length);
		return rlimits_explain_map(r == -EAGAIN ? -ENOMEM : r, length, 0,
					   "keeping a shadow out of fork children");
	}
	*ret_bytes = mapped;
	return 0;
}

/* Makes the file longer, and maps it anew; the old mapping stays until that is done. */
static int make_room(struct shadow *shadow, uint64_t capacity)
{
	uint64_t old = atomic_load(&shadow->capacity);
	char *bytes = NULL;
	int r;

	r = rlimits_check_file_size(PLACE + capacity);
	if (r)
		return r;
	r = sys_ftruncate(shadow->fd, PLACE + capacity);
	if (r)
		return err_set(r, "a shadow of %" PRIu64 " bytes: %s", capacity, err_name(r));
	r = map_file(shadow, PLACE + capacity, &bytes);
	if (r)
		return r;
	if (shadow->bytes)
		sys_munmap(shadow->bytes, PLACE + old);
	shadow->bytes = bytes;
	atomic_store(&shadow->capacity, capacity);
	return 0;
}

static int explain_memory(const struct shadow *shadow, int r, uint64_t length)
{
	if (r != -ENOSPC && r != -ENOMEM)
		return err_set(r, "allocating %" PRIu64 " bytes more of a shadow: %s", length,
			       err_name(r));
	return err_set(-ENOMEM,
		       "no memory for %" PRIu64 " bytes more of a shadow, which has %" PRIu64
		       ": %s; release some, or choose HM_LOSS_ZERO",
		       length, shadow->allocated, err_name(r));
}

/* Allocates memory, so that a lack is an error of this call, not a SIGBUS at a touch. */
static int reserve_memory(struct shadow *shadow, uint64_t end)
{
	uint64_t from = shadow->allocated, to = round_up(end, page_size()), batch;
	int r;

	if (likely(to <= from))
		return 0;
	if (to > atomic_load(&shadow->capacity)) {
		r = make_room(shadow, to);
		if (r)
			return r;
	}
	for (; from < to; from += batch) {
		batch = min_u64(to - from, ALLOCATE_BATCH);
		r = sys_fallocate(shadow->fd, 0, PLACE + from, batch);
		if (r)
			return explain_memory(shadow, r, to - from);
		shadow->allocated += batch;
		stats_add(&stats.bytes_shadow, batch);
	}
	return 0;
}

/* One writer at a time. The addition precedes all stores of the flight, even streamed ones. */
static void flight_begin(struct shadow *shadow, uint64_t flying)
{
	atomic_store_explicit(&shadow->flights->flying, flying, memory_order_release);
	atomic_fetch_add(&shadow->flights->count, 1);
}

static void flight_end(struct shadow *shadow)
{
	uint64_t count = atomic_load_explicit(&shadow->flights->count, memory_order_relaxed);

	atomic_store_explicit(&shadow->flights->count, count + 1, memory_order_release);
}

/* Notes the file's identity for fork children, where the descriptor may be another file's. */
static int identify(struct shadow *shadow)
{
	struct stat st;
	int r = sys_fstat(shadow->fd, &st);

	if (r)
		return err_set(r, "a shadow: fstat: %s", err_name(r));
	shadow->dev = st.st_dev;
	shadow->ino = st.st_ino;
	return 0;
}

static int map_flights(struct shadow *shadow)
{
	void *mapped;
	int r;

	r = sys_mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, shadow->fd, SPARE,
		     &mapped);
	if (r)
		return rlimits_explain_map(r, page_size(), TAKES_SPACE, "mapping a shadow");
	shadow->flights = mapped;
	return 0;
}

int shadow_create(uint64_t size, struct shadow **ret_shadow)
{
	struct shadow *shadow = sys_calloc(1, sizeof(*shadow));
	int r;

	if (!shadow)
		return err_set(-ENOMEM, "no memory for the description of a shadow");
	shadow->fd = memfd_open("shadow", 0);
	if (shadow->fd < 0) {
		r = shadow->fd;
		goto err_free;
	}
	r = identify(shadow);
	if (r)
		goto err_close;
	r = make_room(shadow, round_up(size, page_size()));
	if (r)
		goto err_close;
	r = sys_fallocate(shadow->fd, 0, 0, SPARE + page_size());
	if (r) {
		r = err_set(r == -ENOSPC ? -ENOMEM : r, "no memory for a shadow: %s",
			    err_name(r));
		goto err_unmap;
	}
	r = map_flights(shadow);
	if (r)
		goto err_unmap;
	stats_add(&stats.bytes_shadow, shadow_bytes(shadow));
	r = reserve_memory(shadow, size);
	if (r)
		goto err_flights;
	*ret_shadow = shadow;
	return 0;

err_flights:
	stats_sub(&stats.bytes_shadow, shadow_bytes(shadow));
	sys_munmap(shadow->flights, page_size());
err_unmap:
	sys_munmap(shadow->bytes, PLACE + atomic_load(&shadow->capacity));
err_close:
	sys_close(shadow->fd);
err_free:
	free(shadow);
	return r;
}

void shadow_let_go(struct shadow *shadow)
{
	if (shadow->source_serial)
		reserve_release(&shadow->source);
	shadow->source_serial = 0;
}

void shadow_free(struct shadow *shadow)
{
	if (!shadow)
		return;
	shadow_let_go(shadow);
	stats_sub(&stats.bytes_shadow, shadow_bytes(shadow));
	sys_munmap(shadow->flights, page_size());
	sys_munmap(shadow->bytes, PLACE + atomic_load(&shadow->capacity));
	sys_close(shadow->fd);
	free(shadow);
}

/* ---- from the buffer into the spare area ---- */

/* Maps the buffer's bytes for reading: a mapping of its own, with rights that stay. */
static int map_source(struct shadow *shadow, struct hm_buffer *buffer,
		      const struct segment_list *list)
{
	const struct hm_segment *last = &list->segment[list->n - 1];
	uint64_t length = last->offset + last->length;
	int r;

	if (likely(shadow->source_serial == list->serial))
		return 0;
	shadow_let_go(shadow);
	r = map_scratch(list->segment, list->n, 0, length, buffer->page_size, PROT_READ,
			&shadow->source, &shadow->source_bytes);
	if (r)
		return r;
	/* A child has no use for it. */
	sys_madvise(shadow->source_bytes, length, MADV_DONTFORK);
	shadow->source_length = length;
	shadow->source_serial = list->serial;
	return 0;
}

/*
 * True: the bytes stay while device_loss_touch_begin() holds, and a read takes no page. A memfd's
 * read takes one where nothing was stored. A memfd of huge pages is excluded, too: other processes
 * with its descriptor may punch holes, for which the pool has no pages.
 */
static bool bytes_stay(const struct hm_buffer *buffer)
{
	return buffer->created && backend_has(buffer->device->ops, HM_BACKEND_REACH);
}

static int copy_by_cpu(struct shadow *shadow, struct hm_buffer *buffer,
		       const struct device_link *link, uint64_t at, uint64_t length, char *to)
{
	int r;

	r = device_loss_touch_begin(buffer->device, link);
	if (r)
		return r;
	memcpy(to, shadow->source_bytes + at, length);
	device_loss_touch_end();
	return 0;
}

static int copy_by_kernel(struct shadow *shadow, struct hm_buffer *buffer,
			  const struct device_link *link, uint64_t at, uint64_t length,
			  char *to)
{
	const char *from = shadow->source_bytes + at;
	uint64_t done;
	ssize_t n = 0;

	for (done = 0; done < length; done += (uint64_t)n) {
		n = sys_pwrite(shadow->fd, from + done, length - done,
			       (uint64_t)(to - shadow->bytes) + done);
		if (n <= 0)
			break;
	}
	if (n == -EFAULT)
		return -EFAULT; /* handled by copy_in() */
	if (done < length)
		return err_set(n < 0 ? (int)n : -EIO,
			       "%s: copying %" PRIu64 " bytes into a shadow: %s", buffer->name,
			       length - done, err_name(n < 0 ? (int)n : -EIO));
	/* The bytes were the device's if it is there now, since it never comes back. */
	return device_loss_ask(buffer->device, link);
}

static int copy_once(struct shadow *shadow, struct hm_buffer *buffer,
		     const struct segment_list *list, uint64_t at, uint64_t length, char *to)
{
	const struct hm_backend_ops *ops = buffer->device->ops;
	bool bracket = buffer->caps & HM_CAP_BRACKET;
	uint32_t said = err_count();
	int r;

	if (bracket) {
		r = ops->begin_cpu(list->link->backend, list->segment, list->n, at, length,
				   HM_READ);
		if (r)
			return backend_explain(ops, said, r, "begin_cpu");
	}
	r = bytes_stay(buffer) ? copy_by_cpu(shadow, buffer, list->link, at, length, to) :
				 copy_by_kernel(shadow, buffer, list->link, at, length, to);
	/* The bytes are here, so an error of the device at the end does not count. */
	if (bracket)
		ops->end_cpu(list->link->backend, list->segment, list->n, at, length, HM_READ);
	return r;
}

/* The library's memfds are never cut: a page that is unreadable but not broken lacks memory. */
static bool lacks_pages(const struct shadow *shadow, const struct hm_buffer *buffer,
			uint64_t at, uint64_t length)
{
	uint64_t from = round_down(at, page_size()), to = round_up(at + length, page_size());

	return buffer_is(buffer, HM_MEMORY_SEALED) && !buffer_is(buffer, MEMORY_HUGE) &&
	       sys_madvise(shadow->source_bytes + from, to - from, MADV_POPULATE_READ) !=
		       -EHWPOISON;
}

static int copy_in(struct shadow *shadow, struct hm_buffer *buffer,
		   const struct segment_list *list, uint64_t at, uint64_t length, char *to)
{
	int r = -EFAULT, tries;

	for (tries = 0; tries < TRIES && r == -EFAULT; tries++)
		r = copy_once(shadow, buffer, list, at, length, to);
	if (r != -EFAULT)
		return r;
	if (lacks_pages(shadow, buffer, at, length))
		return err_set(-ENOMEM,
			       "%s: no memory to read bytes %" PRIu64 " to %" PRIu64
			       ", which were never stored: see vm.overcommit_memory, and "
			       "memory.max of the control group",
			       buffer->name, at, at + length);
	/* A file that was cut, or a device that is on its way out. */
	r = device_loss_ask(buffer->device, list->link);
	return r ? r :
		   err_set(-EIO,
			   "%s: bytes %" PRIu64 " to %" PRIu64 " can't be read (SIGBUS): a "
			   "file that was cut, or a page that failed",
			   buffer->name, at, at + length);
}

/* ---- from the spare area to their place ---- */

static int refuse_sealed(const struct hm_buffer *buffer)
{
	return err_set(-ENODEV,
		       "%s: its shadow keeps the bytes from before the loss until "
		       "hm_device_recover()",
		       buffer->name);
}

static int land(struct shadow *shadow, const struct hm_buffer *buffer, uint64_t first,
		uint64_t length)
{
	uint64_t flying = flying_of(first, length), state = 0;

	if (!atomic_compare_exchange_strong(&shadow->state, &state, flying))
		return refuse_sealed(buffer);
	/* This process does not read the place before the device is lost. */
	flight_begin(shadow, flying_of(first, length));
	stream_copy(shadow->bytes + PLACE + first, shadow->bytes, length);
	flight_end(shadow);
	if (!atomic_compare_exchange_strong(&shadow->state, &flying, 0))
		return refuse_sealed(buffer);
	return 0;
}

/* Refreshes the bytes [@from, @to) of the pages [@first, @end), and keeps the rest. */
static int refresh_chunk(struct shadow *shadow, struct hm_buffer *buffer,
			 const struct segment_list *list, uint64_t first, uint64_t end,
			 uint64_t from, uint64_t to)
{
	char *spare = shadow->bytes, *place = shadow->bytes + PLACE + first;
	int r;

	if (from > first)
		memcpy(spare, place, from - first);
	if (to < end)
		memcpy(spare + (to - first), place + (to - first), end - to);
	r = copy_in(shadow, buffer, list, from, to - from, spare + (from - first));
	return r ? r : land(shadow, buffer, first, end - first);
}

/*
 * Each page costs the CPU a walk of its page tables on both sides, which are mapped a second
 * time. Walks those of the next chunk during the copy of this one. Never faults.
 */
static inline void look_ahead(const struct shadow *shadow, uint64_t from, uint64_t to)
{
	uint64_t page = page_size(), at;

	for (at = from; at < to; at += page) {
		__builtin_prefetch(shadow->source_bytes + at);
		__builtin_prefetch(shadow->bytes + PLACE + at, 1);
	}
}

static int refresh(struct shadow *shadow, struct hm_buffer *buffer,
		   const struct segment_list *list, uint64_t offset, uint64_t length)
{
	uint64_t chunk = bytes_stay(buffer) ? CHUNK_CPU : CHUNK_KERNEL;
	uint64_t page = page_size(), at = offset, to = offset + length, first, end, part;
	int r;

	r = map_source(shadow, buffer, list);
	if (r)
		return r;
	to = min_u64(to, shadow->source_length);
	for (; at < to; at = part) {
		first = round_down(at, page);
		part = min_u64(to, first + chunk);
		end = round_up(part, page);
		look_ahead(shadow, end, min_u64(end + chunk, to));
		r = refresh_chunk(shadow, buffer, list, first, end, at, part);
		if (r)
			return r;
	}
	return 0;
}

int shadow_refresh(struct shadow *shadow, struct hm_buffer *buffer, uint64_t offset,
		   uint64_t length)
{
	struct segment_list *list;
	int r;

	/* The spare area of a sealed shadow may be in use. */
	if (shadow_is_sealed(shadow))
		return refuse_sealed(buffer);
	r = reserve_memory(shadow, offset + length);
	if (r)
		return r;
	list = segments_get(buffer);
	r = device_loss_check_link(buffer->device, list->link);
	if (!r)
		r = refresh(shadow, buffer, list, offset, length);
	segments_put(buffer, list);
	return r;
}

void shadow_cut(struct shadow *shadow, uint64_t size)
{
	uint64_t keep = round_up(size, page_size()), more;

	if (shadow_is_sealed(shadow) || size >= shadow->allocated)
		return;
	more = shadow->allocated - keep;
	flight_begin(shadow, 0);
	if (more && !sys_fallocate(shadow->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   PLACE + keep, more)) {
		shadow->allocated = keep;
		stats_sub(&stats.bytes_shadow, more);
	}
	/*
	 * A store can't fail. Pages that are no hole have their memory still, and become zeros.
	 */
	memset(shadow->bytes + PLACE + size, 0, shadow->allocated - size);
	flight_end(shadow);
}

/* ---- in the buffer's place ---- */

bool shadow_is_sealed(const struct shadow *shadow)
{
	return atomic_load(&((struct shadow *)shadow)->state) & SEALED;
}

static int map_piece(const struct shadow *shadow, char *address, uint64_t file_offset,
		     uint64_t length, int prot)
{
	if (!length)
		return 0;
	return reserve_map_over(address, length, prot, MAP_PRIVATE | MAP_NORESERVE, shadow->fd,
				file_offset);
}

/* The part of [@offset, @offset + @length) that flies, for which the spare area counts. */
static bool flying_part(uint64_t state, uint64_t offset, uint64_t length, uint64_t *ret_from,
			uint64_t *ret_to)
{
	uint64_t first = flying_first(state);

	*ret_from = max_u64(offset, first);
	*ret_to = min_u64(offset + length, first + flying_length(state));
	return flying_length(state) && *ret_from < *ret_to;
}

int shadow_map(struct shadow *shadow, char *address, uint64_t offset, uint64_t length, int prot,
	       uint64_t *ret_length)
{
	uint64_t state = atomic_fetch_or(&shadow->state, SEALED);
	uint64_t capacity = atomic_load(&shadow->capacity), from, to, end;
	int r;

	length = offset < capacity ? min_u64(length, capacity - offset) : 0;
	end = offset + length;
	if (!flying_part(state, offset, length, &from, &to))
		from = to = end;
	r = map_piece(shadow, address, PLACE + offset, from - offset, prot);
	if (!r)
		r = map_piece(shadow, address + (from - offset), from - flying_first(state),
			      to - from, prot);
	if (!r)
		r = map_piece(shadow, address + (to - offset), PLACE + to, end - to, prot);
	if (!r)
		*ret_length = length;
	return r;
}

void shadow_unseal(struct shadow *shadow)
{
	uint64_t state = atomic_load(&shadow->state);

	if (flying_length(state))
		memcpy(shadow->bytes + PLACE + flying_first(state), shadow->bytes,
		       flying_length(state));
	atomic_store(&shadow->state, 0);
}

static int read_piece(const struct shadow *shadow, char *to, uint64_t file_offset,
		      uint64_t length)
{
	ssize_t n;

	for (; length; to += n, file_offset += (uint64_t)n, length -= (uint64_t)n) {
		n = sys_pread(shadow->fd, to, length, file_offset);
		if (n <= 0)
			return n ? (int)n : -EIO;
	}
	return 0;
}

int shadow_read(const struct shadow *shadow, void *to, uint64_t offset, uint64_t length)
{
	uint64_t state = atomic_load(&((struct shadow *)shadow)->state);
	uint64_t capacity = atomic_load(&((struct shadow *)shadow)->capacity);
	uint64_t from, until, end;
	char *at = to;
	int r;

	length = offset < capacity ? min_u64(length, capacity - offset) : 0;
	end = offset + length;
	if (!flying_part(state, offset, length, &from, &until))
		from = until = end;
	r = read_piece(shadow, at, PLACE + offset, from - offset);
	if (!r)
		r = read_piece(shadow, at + (from - offset), from - flying_first(state),
			       until - from);
	if (!r)
		r = read_piece(shadow, at + (until - offset), PLACE + until, end - until);
	return r;
}

char *shadow_place(struct shadow *shadow, uint64_t offset)
{
	return shadow->bytes + PLACE + offset;
}

/* ---- in a fork child ---- */

/* The child may have closed the descriptor, and opened another file with its number. */
static bool has_descriptor(const struct shadow *shadow)
{
	struct stat st;

	return !sys_fstat(shadow->fd, &st) && st.st_ino == shadow->ino &&
	       st.st_dev == shadow->dev;
}

/*
 * Never waits for the parent, which may be stopped, or have ended, during a flight: the spare
 * area has all bytes in flight. Only bytes that a cut clears have no other place.
 */
static int read_between(const struct shadow *shadow, char *to, uint64_t offset, uint64_t length)
{
	const struct flights *flights = shadow->flights;
	uint64_t before, flying, from, until, end = time_now_ns() + NS_BETWEEN;
	int r, tries;

	for (tries = 0; tries < TRIES_BETWEEN; tries++) {
		if (tries >= TRIES_BETWEEN_MIN && time_now_ns() >= end)
			break;
		before = atomic_load_explicit(&flights->count, memory_order_acquire);
		flying = before & 1 ?
				 atomic_load_explicit(&flights->flying, memory_order_acquire) :
				 0;
		if (before & 1 && !flying) {
			sched_yield();
			continue;
		}
		/* A page flies as a whole. */
		if (flying_part(flying, offset, length, &from, &until))
			r = read_piece(shadow, to, offset - flying_first(flying), length);
		else
			r = read_piece(shadow, to, PLACE + offset, length);
		cmm_smp_rmb();
		if (r || atomic_load_explicit(&flights->count, memory_order_relaxed) == before)
			return r;
	}
	return -EAGAIN;
}

static int fill(const struct shadow *shadow, char *bytes, uint64_t offset, uint64_t length)
{
	uint64_t at;
	int r = 0;

	for (at = 0; !r && at < length; at += page_size())
		r = read_between(shadow, bytes + at, offset + at, page_size());
	return r;
}

int shadow_copy(const struct shadow *shadow, char *address, uint64_t offset, uint64_t length,
		int prot, uint64_t *ret_length)
{
	uint64_t capacity = atomic_load(&((struct shadow *)shadow)->capacity);
	void *copy;
	int r;

	if (!has_descriptor(shadow))
		return -EBADF;
	length = offset < capacity ? min_u64(length, capacity - offset) : 0;
	*ret_length = length;
	if (!length)
		return 0;
	/* Filled elsewhere first: other threads touch these pages, too. */
	r = sys_mmap(NULL, length, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, &copy);
	if (r)
		return r;
	r = fill(shadow, copy, offset, length);
	if (!r)
		r = sys_mprotect(copy, length, prot);
	if (!r)
		r = reserve_move(copy, length, length, address);
	if (r)
		sys_munmap(copy, length);
	return r;
}
