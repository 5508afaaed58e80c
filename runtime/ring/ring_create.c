// SPDX-License-Identifier: MIT
/* Ring: makes its file, and reads its header. */
#include "ring/ring.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "hook/hook.h"
#include "api/network.h"
#include "base/rlimits.h"
#include "base/sys.h"

#define RING_DESC_LEAST sizeof(struct hm_ring_desc)
/* A call that signals interrupt starts again, on tmpfs from its beginning: not for too much. */
#define ALLOCATE_BATCH MIB(2)

int ring_check_header(const struct ring_header *header, uint64_t size)
{
	static const char none[sizeof(header->magic)];

	if (!memcmp(header->magic, none, sizeof(none)))
		return err_set(-EBADMSG,
			       "its first bytes are zero: it is no ring, or an unfinished "
			       "one; remove it, and make it again");
	if (memcmp(header->magic, RING_MAGIC, sizeof(header->magic)) != 0)
		return err_set(-EBADMSG, "it is no ring: its first bytes are not a ring's");
	if (header->order != RING_ORDER)
		return err_set(-EBADMSG,
			       "it is a ring of a machine with another byte order (0x%08x)",
			       header->order);
	if (header->version != RING_VERSION)
		return err_set(-EBADMSG,
			       "it is a ring of version %u, and this library has version %u",
			       header->version, RING_VERSION);
	if (header->capacity < RING_CAPACITY_MIN || header->capacity > RING_CAPACITY_MAX ||
	    header->capacity & (header->capacity - 1))
		return err_set(-EBADMSG,
			       "its capacity, %" PRIu64
			       " bytes, is no power of two from %llu to %llu",
			       header->capacity, RING_CAPACITY_MIN,
			       (unsigned long long)RING_CAPACITY_MAX);
	if (header->data != RING_DATA)
		return err_set(-EBADMSG,
			       "its records begin at byte %" PRIu64 ", and version %u has "
			       "them at %u",
			       header->data, RING_VERSION, RING_DATA);
	if (size != ring_size(header->capacity))
		return err_set(-EBADMSG,
			       "the file has %" PRIu64 " bytes, and a ring for %" PRIu64
			       " has %" PRIu64 ": the file was resized; a ring doesn't grow",
			       size, header->capacity, ring_size(header->capacity));
	return 0;
}

static int write_all(int fd, const void *from, uint64_t length, uint64_t offset)
{
	uint64_t done = 0;
	ssize_t n;

	while (done < length) {
		n = sys_pwrite(fd, (const char *)from + done, length - done, offset + done);
		if (n <= 0)
			return n ? (int)n : -EIO;
		done += (uint64_t)n;
	}
	return 0;
}

/* Allocates storage: a hole that can't be filled later would raise SIGBUS at a store. */
static int take_storage(int fd, uint64_t size)
{
	static const char zeros[4096];
	uint64_t at;
	int r;

	r = rlimits_check_file_size(size);
	for (at = 0; !r && at < size; at += ALLOCATE_BATCH) {
		r = sys_fallocate(fd, 0, at, min_u64(size - at, ALLOCATE_BATCH));
		if (r && r != -EOPNOTSUPP)
			return err_set(r, "%" PRIu64 " bytes of storage: %s", size,
				       err_name(r));
	}
	if (r != -EOPNOTSUPP)
		return r;
	for (at = 0; at < size; at += sizeof(zeros)) {
		r = write_all(fd, zeros, sizeof(zeros), at);
		if (r)
			return err_set(r,
				       "%" PRIu64 " bytes of storage, of which %" PRIu64
				       " were written: %s",
				       size, at, err_name(r));
	}
	return 0;
}

/* Files that can't be sealed stay as they are. */
static void seal(int fd)
{
	sys_fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
}

static int write_header(int fd, uint64_t capacity)
{
	struct ring_header header = {
		.version = RING_VERSION,
		.order = RING_ORDER,
		.capacity = capacity,
		.data = RING_DATA,
	};
	int r;

	/* Magic last: an open in between finds that the ring is not complete. */
	r = write_all(fd, &header, sizeof(header), 0);
	memcpy(header.magic, RING_MAGIC, sizeof(header.magic));
	if (!r)
		r = write_all(fd, header.magic, sizeof(header.magic),
			      ring_size(capacity) - sizeof(header.magic));
	if (!r)
		r = write_all(fd, &header, sizeof(header.magic), 0);
	return r ? err_set(r, "writing its header: %s", err_name(r)) : 0;
}

static int make(int fd, uint64_t capacity)
{
	struct stat st;
	int r;

	r = sys_fstat(fd, &st);
	if (r)
		return err_set(r, "fstat: %s", err_name(r));
	if (!S_ISREG(st.st_mode))
		return err_set(-EINVAL, "it is no regular file");
	if (st.st_size)
		return err_set(-EEXIST,
			       "the file has %" PRIu64 " bytes already; a ring doesn't grow: "
			       "it is made in an empty file",
			       (uint64_t)st.st_size);
	r = network_refuse(fd, "a ring is memory of one machine");
	if (r)
		return r;
	r = take_storage(fd, ring_size(capacity));
	if (!r)
		r = write_header(fd, capacity);
	if (r)
		goto err_truncate;
	/* Last: a sealed file can't be emptied again. */
	seal(fd);
	return 0;

err_truncate:
	/* Empties the file again: a ring can be made in an empty file only. */
	sys_ftruncate(fd, 0);
	return r;
}

static int read_desc(const struct hm_ring_desc *from, uint64_t *ret_capacity)
{
	struct hm_ring_desc desc;
	uint64_t capacity = RING_CAPACITY_MIN;
	int r;

	if (!from)
		return err_set(-EINVAL, "hm_ring_create: desc is NULL");
	r = struct_read(&desc, sizeof(desc), from, from->struct_size, RING_DESC_LEAST,
			"hm_ring_desc");
	if (r)
		return r;
	if (desc.flags)
		return err_set(-EINVAL, "hm_ring_create: unknown flags 0x%x", desc.flags);
	if (desc.capacity < RING_CAPACITY_MIN || desc.capacity > RING_CAPACITY_MAX)
		return err_set(-EINVAL,
			       "hm_ring_create: a capacity of %" PRIu64
			       " bytes is not from %llu to %llu",
			       desc.capacity, RING_CAPACITY_MIN,
			       (unsigned long long)RING_CAPACITY_MAX);
	while (capacity < desc.capacity)
		capacity *= 2;
	*ret_capacity = capacity;
	return 0;
}

int hm_ring_create(const char *path, int fd, const struct hm_ring_desc *desc)
{
	uint64_t capacity = 0;
	int own, r;

	err_begin();
	r = read_desc(desc, &capacity);
	if (r)
		return r;
	if (!path) {
		own = ring_open_file(fd);
		if (own < 0)
			return err_prefix(own, "hm_ring_create");
		r = hook_file(own, ring_size(capacity), HM_READ | HM_WRITE);
		if (!r)
			r = make(own, capacity);
		sys_close(own);
		return r ? err_prefix(r, "hm_ring_create") : 0;
	}
	r = hook_new_file(path, ring_size(capacity), HM_READ | HM_WRITE);
	if (r)
		return err_prefix(r, "%s", path);
	own = sys_open(path, O_RDWR | O_CREAT | O_EXCL | O_NOCTTY, 0666);
	if (own == -EEXIST)
		return err_set(own,
			       "%s is there already, and a ring doesn't grow: make one under "
			       "another name",
			       path);
	if (own < 0)
		return err_set(own, "%s: making it: %s", path, err_name(own));
	r = make(own, capacity);
	sys_close(own);
	if (r)
		goto err_unlink;
	return 0;

err_unlink:
	sys_remove(path);
	return err_prefix(r, "%s", path);
}
