// SPDX-License-Identifier: MIT
/*
 * Pages of the twin's buffers: a memfd, and the twin's own map of it, which the engine uses.
 *
 * The pages are allocated when a buffer is made or grows, like the module's, so that the call
 * fails without memory, and not a touch. The kernel zeroes them at the first touch.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/compat.h"
#include "base/rlimits.h"
#include "soft/twin.h"

/* A call that signals interrupt starts again: not for too much at once. */
#define ALLOCATE_BATCH MIB(2)

/* Makes an unsealed memfd that no holder can seal: see soft_pages_drop(). */
static int file_open(void)
{
	/*
	 * Linux 6.3 and later know NOEXEC_SEAL; older kernels answer EINVAL, and are asked once.
	 */
	static _Atomic unsigned int noexec = MFD_NOEXEC_SEAL;
	unsigned int extra = noexec;
	int fd, r;

	fd = sys_memfd_create("hetmap:soft", MFD_CLOEXEC | extra);
	if (fd == -EINVAL && extra) {
		fd = sys_memfd_create("hetmap:soft", MFD_CLOEXEC);
		if (fd >= 0)
			noexec = 0;
		return fd;
	}
	if (fd < 0 || !extra)
		return fd;
	r = sys_fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL); /* the flag allowed sealing */
	if (r) {
		sys_close(fd);
		return r;
	}
	return fd;
}

/*
 * Allocates pages first and sets the length last: a process that has mapped the file sees all of
 * it or nothing. Setting the length again frees pages beyond it.
 */
static int file_grow(int fd, uint64_t old_n, uint64_t n_pages)
{
	uint64_t offset = old_n << SIM_PAGE_SHIFT, end = n_pages << SIM_PAGE_SHIFT, batch;
	int r;

	r = rlimits_check_file_size(end);
	if (r)
		return r;
	for (; offset < end; offset += batch) {
		batch = min_u64(end - offset, ALLOCATE_BATCH);
		r = sys_fallocate(fd, FALLOC_FL_KEEP_SIZE, offset, batch);
		if (r)
			goto err_pages;
	}
	r = sys_ftruncate(fd, end);
	if (r)
		goto err_pages;
	return 0;

err_pages:
	sys_ftruncate(fd, old_n << SIM_PAGE_SHIFT);
	return r == -ENOSPC ? -ENOMEM : r; /* ENOSPC means the device's limits */
}

/* Room for pages: the twin's map of them, and the account of each. */
struct room {
	uint64_t capacity;
	char *bytes;
	uint8_t *place_of;
};

static int room_make(int fd, uint64_t capacity, struct room *ret_room)
{
	struct room room = { .capacity = capacity };
	uint64_t length = capacity << SIM_PAGE_SHIFT;
	void *bytes;
	int r;

	room.place_of = sys_calloc(capacity, sizeof(*room.place_of));
	if (!room.place_of)
		return -ENOMEM;
	r = sys_mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0, &bytes);
	if (r)
		goto err_places;
	r = sys_madvise(bytes, length, MADV_DONTFORK);
	if (r)
		goto err_map;
	room.bytes = bytes;
	*ret_room = room;
	return 0;

err_map:
	sys_munmap(bytes, length);
err_places:
	free(room.place_of);
	return r;
}

static void room_free(const struct room *room)
{
	sys_munmap(room->bytes, room->capacity << SIM_PAGE_SHIFT);
	free(room->place_of);
}

static struct room room_of(const struct soft_buffer *buffer)
{
	return (struct room){
		.capacity = buffer->capacity,
		.bytes = buffer->bytes,
		.place_of = buffer->place_of,
	};
}

static void room_set(struct soft_buffer *buffer, const struct room *room)
{
	buffer->capacity = room->capacity;
	buffer->bytes = room->bytes;
	buffer->place_of = room->place_of;
}

int soft_pages_make(struct soft_buffer *buffer)
{
	struct room room;
	struct stat st;
	int r;

	r = file_open();
	if (r < 0)
		return r;
	buffer->fd = r;
	buffer->fd_read = -1;
	r = sys_fstat(buffer->fd, &st);
	if (r)
		goto err_fd;
	buffer->file_dev = st.st_dev;
	buffer->file_ino = st.st_ino;
	r = room_make(buffer->fd, buffer->capacity, &room);
	if (r)
		goto err_fd;
	r = file_grow(buffer->fd, 0, buffer->n_pages);
	if (r)
		goto err_room;
	memset(room.place_of, (int)buffer->place, buffer->n_pages);
	room_set(buffer, &room);
	return 0;

err_room:
	room_free(&room);
err_fd:
	sys_close(buffer->fd);
	return r;
}

void soft_pages_free(struct soft_buffer *buffer)
{
	struct room room = room_of(buffer);

	room_free(&room);
	if (buffer->fd_read >= 0)
		sys_close(buffer->fd_read);
	sys_close(buffer->fd);
}

/*
 * Prepares everything before the first change, so that the last steps can't fail. If the room
 * moves, the address of every page in it changes, too.
 */
int soft_pages_grow(struct soft_buffer *buffer, uint64_t n_pages, struct sim_lack *lack)
{
	struct room old = room_of(buffer), room = old;
	uint64_t old_n = buffer->n_pages, more = n_pages - old_n, first = old_n;
	uint32_t place = buffer->place;
	int r;

	if (n_pages > old.capacity) {
		r = room_make(buffer->fd, n_pages, &room);
		if (r)
			return r;
		first = 0;
	}
	r = soft_memory_take(buffer, place, more, NULL, false, lack);
	if (r)
		goto err_room;
	r = file_grow(buffer->fd, old_n, n_pages);
	if (r)
		goto err_memory;

	pthread_rwlock_wrlock(&buffer->lock);
	if (room.place_of != old.place_of)
		memcpy(room.place_of, old.place_of, old_n);
	memset(room.place_of + old_n, (int)place, more);
	room_set(buffer, &room);
	buffer->n_pages = n_pages;
	buffer->pages_in[place] += more;
	soft_va_rebind(buffer, first, n_pages - first);
	pthread_rwlock_unlock(&buffer->lock);
	if (buffer->dev->hides)
		soft_changed(buffer);
	if (room.bytes != old.bytes)
		room_free(&old);
	return 0;

err_memory:
	soft_memory_give(buffer, place, more);
err_room:
	if (room.bytes != old.bytes)
		room_free(&room);
	return r;
}

/* The engine leaves the pages before the file loses them. */
int soft_pages_shrink(struct soft_buffer *buffer, uint64_t n_pages)
{
	uint64_t old_n = buffer->n_pages, less = old_n - n_pages, i;
	uint64_t in[SIM_N_PLACES] = { 0 };
	unsigned int place;
	int r = 0;

	pthread_rwlock_wrlock(&buffer->lock);
	if (buffer->exported) {
		r = -EBUSY;
		goto out;
	}
	buffer->n_pages = n_pages;
	soft_va_rebind(buffer, n_pages, less);
	r = sys_ftruncate(buffer->fd, n_pages << SIM_PAGE_SHIFT);
	if (r) {
		buffer->n_pages = old_n;
		soft_va_rebind(buffer, n_pages, less);
		goto out;
	}
	for (i = n_pages; i < old_n; i++)
		in[buffer->place_of[i]]++;
	for (place = 0; place < SIM_N_PLACES; place++) {
		buffer->pages_in[place] -= in[place];
		soft_memory_give(buffer, place, in[place]);
	}
out:
	pthread_rwlock_unlock(&buffer->lock);
	return r;
}

void soft_pages_detach(struct soft_buffer *buffer)
{
	uint64_t n_pages;

	pthread_mutex_lock(&buffer->change);
	pthread_rwlock_wrlock(&buffer->lock);
	n_pages = buffer->n_pages;
	buffer->n_pages = 0;
	soft_va_rebind(buffer, 0, n_pages);
	pthread_rwlock_unlock(&buffer->lock);
	pthread_mutex_unlock(&buffer->change);
}

/*
 * Takes the pages from every map of every process. Can't fail: the file can't be sealed against
 * it.
 */
void soft_pages_drop(struct soft_buffer *buffer)
{
	sys_ftruncate(buffer->fd, 0);
}

int soft_pages_reader(struct soft_buffer *buffer)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", buffer->fd);
	fd = sys_open(path, O_RDONLY, 0);
	return fd == -ENOENT ? -EOPNOTSUPP : fd; /* no /proc */
}
