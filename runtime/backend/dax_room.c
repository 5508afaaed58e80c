// SPDX-License-Identifier: MIT
/*
 * Ranges of DAX devices. A device is either a place for new buffers of one process, or it has
 * bytes that last, which any number of processes may map. An OFD lock of the device's node says
 * which [fcntl(2)]: exclusive for the former, shared for the latter. It ends with the process.
 */
#include "backend/dax_room.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/path.h"
#include "base/sys.h"
#include "base/util.h"

struct taken {
	struct taken *next; /* by offset */
	uint64_t offset, length;
};

struct dax_room {
	struct dax_room *next;
	uint32_t n_ref;
	dev_t number;
	char path[64];
	uint64_t size, used;
	struct taken *taken;
	uint32_t n_lasting; /* buffers of lasting bytes */
	int fd;             /* with the lock; -1: none is held */
};

/* Protects all rooms; a leaf. Held over a try of the lock, which never waits. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dax_room *rooms;

int dax_room_get(dev_t number, const char *path, uint64_t size, struct dax_room **ret_room)
{
	struct dax_room *room, *fresh = sys_calloc(1, sizeof(*fresh));

	if (!fresh)
		return err_set(-ENOMEM, "no memory for a DAX device");
	pthread_mutex_lock(&lock);
	for (room = rooms; room && room->number != number; room = room->next)
		;
	if (!room) {
		room = fresh;
		fresh = NULL;
		room->number = number;
		name_copy(room->path, sizeof(room->path), path);
		room->fd = -1;
		room->next = rooms;
		rooms = room;
	}
	/* A device may have been configured anew since; its old buffers keep what they have. */
	room->size = size;
	room->n_ref++;
	pthread_mutex_unlock(&lock);
	free(fresh);
	*ret_room = room;
	return 0;
}

void dax_room_put(struct dax_room *room)
{
	struct dax_room **at = &rooms;

	pthread_mutex_lock(&lock);
	if (--room->n_ref) {
		pthread_mutex_unlock(&lock);
		return;
	}
	while (*at != room)
		at = &(*at)->next;
	*at = room->next;
	pthread_mutex_unlock(&lock);
	free(room);
}

uint64_t dax_room_free(struct dax_room *room)
{
	uint64_t bytes;

	pthread_mutex_lock(&lock);
	bytes = room->n_lasting ? 0 : room->size - min_u64(room->used, room->size);
	pthread_mutex_unlock(&lock);
	return bytes;
}

/* @type: F_WRLCK or F_RDLCK. Caller holds the mutex; the room has no lock of the node yet. */
static int lock_node_locked(struct dax_room *room, short type)
{
	struct flock whole = { .l_type = type, .l_whence = SEEK_SET };
	int fd, r;

	fd = sys_open(room->path, type == F_WRLCK ? O_RDWR : O_RDONLY, 0);
	if (fd < 0)
		return path_explain_open(fd, room->path);
	r = sys_fcntl(fd, F_OFD_SETLK, (long)(uintptr_t)&whole);
	if (r < 0) {
		sys_close(fd);
		r = r == -EAGAIN || r == -EACCES ? -EBUSY : r;
		return err_set(r,
			       "%s is used by another process (%s): end it, see "
			       "/proc/locks, or take another device",
			       room->path, err_name(r));
	}
	room->fd = fd;
	return 0;
}

static void unlock_node_locked(struct dax_room *room)
{
	if (room->taken || room->n_lasting)
		return;
	sys_close(room->fd);
	room->fd = -1;
}

/* Returns the place in the list for a range of @length bytes; NULL: there is none. */
static struct taken **find_gap_locked(struct dax_room *room, uint64_t length,
				      uint64_t *ret_offset)
{
	struct taken **at;
	uint64_t end = 0;

	for (at = &room->taken; *at; at = &(*at)->next) {
		if ((*at)->offset - end >= length)
			break;
		end = (*at)->offset + (*at)->length;
	}
	if (!*at && (end > room->size || room->size - end < length))
		return NULL;
	*ret_offset = end;
	return at;
}

static int take_locked(struct dax_room *room, struct taken *taken)
{
	struct taken **at;
	char wanted[16], all[16];
	int r;

	if (room->n_lasting)
		return err_set(
			-EBUSY,
			"%s: %u buffers of its lasting bytes are open in this process: a "
			"new buffer could overwrite them",
			room->path, room->n_lasting);
	at = find_gap_locked(room, taken->length, &taken->offset);
	if (!at)
		return err_set(-ENOSPC,
			       "%s of %s has no %s in one piece: %" PRIu64 " bytes are in use",
			       room->path, format_bytes(room->size, all, sizeof(all)),
			       format_bytes(taken->length, wanted, sizeof(wanted)), room->used);
	if (room->fd < 0) {
		r = lock_node_locked(room, F_WRLCK);
		if (r)
			return r;
	}
	taken->next = *at;
	*at = taken;
	room->used += taken->length;
	return 0;
}

int dax_room_take(struct dax_room *room, uint64_t length, uint64_t *ret_offset)
{
	struct taken *taken = sys_calloc(1, sizeof(*taken));
	int r;

	if (!taken)
		return err_set(-ENOMEM, "no memory for a buffer's description");
	taken->length = length;
	pthread_mutex_lock(&lock);
	r = take_locked(room, taken);
	pthread_mutex_unlock(&lock);
	if (r) {
		free(taken);
		return r;
	}
	*ret_offset = taken->offset;
	return 0;
}

void dax_room_give(struct dax_room *room, uint64_t offset)
{
	struct taken **at = &room->taken, *taken;

	pthread_mutex_lock(&lock);
	while ((*at)->offset != offset)
		at = &(*at)->next;
	taken = *at;
	*at = taken->next;
	room->used -= taken->length;
	unlock_node_locked(room);
	pthread_mutex_unlock(&lock);
	free(taken);
}

int dax_room_enter(struct dax_room *room)
{
	int r = 0;

	pthread_mutex_lock(&lock);
	if (room->taken)
		r = err_set(
			-EBUSY,
			"%s: this process has new buffers there, which overwrite its lasting "
			"bytes",
			room->path);
	else if (room->fd < 0)
		r = lock_node_locked(room, F_RDLCK);
	if (!r)
		room->n_lasting++;
	pthread_mutex_unlock(&lock);
	return r;
}

void dax_room_leave(struct dax_room *room)
{
	pthread_mutex_lock(&lock);
	room->n_lasting--;
	unlock_node_locked(room);
	pthread_mutex_unlock(&lock);
}
