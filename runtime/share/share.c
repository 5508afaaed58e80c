// SPDX-License-Identifier: MIT
/* hm_buffer_send, hm_buffer_receive; a receiver's buffer follows its owner's size. */
#include "share/share.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "hook/access.h"
#include "core/buffer.h"
#include "share/control.h"
#include "dmabuf/dmabuf.h"
#include "loss/lost.h"
#include "map/map.h"
#include "base/reserve.h"
#include "change/resize.h"
#include "base/rlimits.h"
#include "base/sys.h"

/* ---- sending ---- */

/* True: the seals forbid punching holes [hugetlbfs_punch_hole()]. */
static bool is_kept(int seals)
{
	return seals >= 0 && seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE);
}

/*
 * Memory that another process can cut off would kill receivers that touch it. The device "soft"
 * refuses for that reason, too: its memory goes when it is unplugged.
 */
static int check_sendable_locked(const struct hm_buffer *buffer, uint32_t flags)
{
	bool huge = buffer_is(buffer, MEMORY_HUGE);
	int seals;

	if (!(buffer->caps & HM_CAP_EXPORT) || buffer_is(buffer, HM_MEMORY_STORAGE) ||
	    buffer->segment[0].flags & HM_SEGMENT_DMABUF)
		return 0;
	seals = sys_fcntl(buffer->segment[0].fd, F_GET_SEALS, 0);
	if (huge && !(flags & HM_EXPORT_READ_ONLY) && !is_kept(seals))
		return err_set(-EOPNOTSUPP,
			       "%s: a receiver that may write huge pages may give them back, "
			       "and a touch would then end a process while the pool is empty: "
			       "pass HM_EXPORT_READ_ONLY, or have the bytes in base pages",
			       buffer->name);
	if (seals < 0 || seals & F_SEAL_SHRINK)
		return 0;
	return err_set(-EOPNOTSUPP,
		       "%s: memory of \"%s\" may be cut off, and a touch would then end the "
		       "receiver: share a buffer of \"host\"",
		       buffer->name, buffer->device->name);
}

/* Takes a slot of the control page with the first send; the buffer keeps it. */
static int begin_share_locked(struct hm_buffer *buffer, int fd)
{
	const struct hm_segment *segment = &buffer->segment[0];
	struct share *share;
	int r;

	if (buffer->share)
		return 0;
	r = control_create(buffer->serial, buffer->size, &share);
	if (r)
		return r;
	share->max_size = buffer->max_size;
	/* This process maps the same descriptor, so its map flags are known already. */
	share->map_flags = segment->flags & HM_SEGMENT_DMABUF ?
				   segment->flags & DMABUF_MAP_FLAGS :
				   dmabuf_map_flags(fd);
	buffer->share = share;
	return 0;
}

/* SHARE_MEMORY of @fd: a dma-buf of a memfd's pages is a device's object for receivers. */
static uint32_t memory_of(const struct hm_buffer *buffer, int fd)
{
	if (buffer_is(buffer, HM_MEMORY_SEALED) && dmabuf_is(fd))
		return 0;
	return atomic_load(&buffer->memory) & SHARE_MEMORY;
}

/* True: SHARE_MEMORY @memory is an object of a device, about which only the device decides. */
static bool is_object(uint32_t memory)
{
	return !(memory & (HM_MEMORY_SEALED | HM_MEMORY_STORAGE));
}

/* The access that a receiver may have. An earlier export may have sealed the object for all. */
static uint32_t access_of(const struct hm_buffer *buffer, uint32_t flags, int fd)
{
	int seals;

	if (flags & HM_EXPORT_READ_ONLY)
		return HM_READ;
	if (!buffer_is(buffer, HM_MEMORY_SEALED))
		return buffer->access;
	seals = sys_fcntl(fd, F_GET_SEALS, 0);
	if (seals >= 0 && seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
		return HM_READ;
	return buffer->access;
}

static void describe_locked(const struct hm_buffer *buffer, uint32_t flags, int fd,
			    struct share_message *message)
{
	*message = (struct share_message){
		.magic = SHARE_MAGIC,
		.version = SHARE_VERSION,
		.length = sizeof(*message),
		.access = access_of(buffer, flags, fd),
		.cache = buffer->cache,
		.memory = memory_of(buffer, fd),
		.max_size = buffer->share->max_size,
		.page_size = buffer->page_size,
		.serial = buffer->share->serial,
		.size = buffer->size,
		.slot = buffer->share->index,
		.page = control_inode(buffer->share),
	};

	if (is_object(message->memory))
		message->map_flags = buffer->share->map_flags;
	if (buffer_is(buffer, HM_MEMORY_STORAGE))
		message->offset = buffer->segment[0].fd_offset;
	name_copy(message->backend, sizeof(message->backend), buffer->device->ops->name);
}

/* Gets the object's descriptor; @ret_own: the caller must close it. */
static int get_object_locked(struct hm_buffer *buffer, uint32_t flags, struct resize_set *set,
			     int *ret_fd, bool *ret_own)
{
	/* This one stays open as long as the buffer; an export would only duplicate it. */
	if (buffer->settled_fd >= 0 && !buffer->settled_own && buffer->n_segment == 1 &&
	    !(flags & HM_EXPORT_READ_ONLY)) {
		*ret_fd = buffer->settled_fd;
		*ret_own = false;
		return 0;
	}
	*ret_own = true;
	return buffer_export_locked(buffer, flags, set, ret_fd);
}

int hm_buffer_send(struct hm_buffer *buffer, int socket, uint32_t flags)
{
	struct resize_set set = { 0 };
	struct share_message message;
	int fds[SHARE_FDS];
	uint64_t cookie;
	bool own = false;
	int r;

	err_begin();
	r = buffer_check(buffer);
	if (!r)
		r = buffer_check_export("hm_buffer_send", flags);
	if (!r)
		r = share_check_socket(socket, "hm_buffer_send", &cookie);
	if (!r)
		r = access_send(buffer, socket, flags);
	if (r)
		return r;
	r = buffer_lock(buffer);
	if (r)
		return r;
	r = lost_check_buffer(buffer);
	if (!r)
		r = check_sendable_locked(buffer, flags);
	if (!r)
		r = get_object_locked(buffer, flags, &set, &fds[SHARE_FD_OBJECT], &own);
	if (r)
		goto out;
	r = begin_share_locked(buffer, fds[SHARE_FD_OBJECT]);
	if (r)
		goto err_close;
	describe_locked(buffer, flags, fds[SHARE_FD_OBJECT], &message);
	/* Both stay open as long as the buffer has its slot. */
	fds[SHARE_FD_CONTROL] = control_fd(buffer->share);
	fds[SHARE_FD_OWNER] = control_owner_fd(buffer->share);
	buffer_unlock(buffer);
	resize_set_drop(&set);
	/* Sent without locks, because the peer may be slow. */
	r = share_message_send(socket, &message, fds);
	if (own)
		sys_close(fds[SHARE_FD_OBJECT]);
	return r;

err_close:
	if (own)
		sys_close(fds[SHARE_FD_OBJECT]);
out:
	buffer_unlock(buffer);
	resize_set_drop(&set);
	return lost_notice(buffer->device, r);
}

/* ---- receiving ---- */

static int read_desc(const struct hm_buffer_desc *from, struct hm_buffer_desc *desc)
{
	int r;

	r = buffer_read_desc(from, desc);
	if (r)
		return r;
	if (desc->flags & ~HM_BUFFER_READ_ONLY)
		return err_set(-EINVAL,
			       "hm_buffer_receive: flags 0x%x: only HM_BUFFER_READ_ONLY is "
			       "possible",
			       desc->flags);
	if (desc->size || desc->offset || desc->numa_mode != HM_NUMA_DEFAULT || desc->place)
		return err_set(-EINVAL, "hm_buffer_receive: size, offset and placement are the "
					"owner's: pass 0");
	return 0;
}

/* Checks all fields that can be checked without the descriptors. */
static int check_message(const struct share_message *message, uint64_t max_size)
{
	bool name = message->backend[0];
	size_t i;

	for (i = 0; i < sizeof(message->backend) && message->backend[i]; i++)
		name &= message->backend[i] >= ' ' && message->backend[i] <= '~';
	name &= i < sizeof(message->backend);
	for (i = 0; i < ARRAY_SIZE(message->reserved); i++)
		if (message->reserved[i])
			return err_set(-EPROTO, "the message's reserved word %zu is not 0", i);
	if (!name || message->cache > HM_CACHE_UNKNOWN || message->memory & ~SHARE_MEMORY ||
	    (message->access != HM_READ && message->access != (HM_READ | HM_WRITE)))
		return err_set(-EPROTO,
			       "the message describes an impossible buffer: access "
			       "0x%" PRIx32 ", cache mode %" PRIu32 ", memory 0x%" PRIx32
			       ", or a backend without a name",
			       message->access, message->cache, message->memory);
	if (!message->page_size || message->page_size & (message->page_size - 1) ||
	    message->page_size > GIB(16) || !message->max_size ||
	    message->max_size > BUFFER_SIZE_MAX || message->offset > BUFFER_SIZE_MAX ||
	    !is_aligned(message->max_size, message->page_size) ||
	    !is_aligned(message->offset, message->page_size))
		return err_set(-EPROTO,
			       "the message has impossible sizes: max_size %" PRIu64
			       ", offset %" PRIu64 ", pages of %" PRIu64,
			       message->max_size, message->offset, message->page_size);
	if (!message->size || message->size > message->max_size || !message->serial ||
	    message->serial & CONTROL_LET_GO || message->slot >= CONTROL_SLOTS ||
	    message->map_flags & ~DMABUF_MAP_FLAGS ||
	    (message->map_flags && !is_object(message->memory)))
		return err_set(-EPROTO,
			       "the message has impossible values: %" PRIu64 " bytes, serial "
			       "%" PRIu64 ", slot %" PRIu32 ", map flags 0x%" PRIx32,
			       message->size, message->serial, message->slot,
			       message->map_flags);
	if (max_size && message->max_size > max_size)
		return err_set(-E2BIG,
			       "the buffer may grow to %" PRIu64
			       " bytes, max_size allows %" PRIu64 ": pass more, or 0",
			       message->max_size, max_size);
	return 0;
}

static int explain_size(const struct hm_buffer *buffer, uint64_t size, uint64_t most)
{
	return err_set(-EPROTO,
		       "%s: its owner says that it has %" PRIu64
		       " bytes, which are not in 1 to "
		       "%" PRIu64,
		       buffer->name, size, most);
}

/*
 * A touch of a hole takes a page of the huge pool, and is a SIGBUS if the pool is empty. All
 * pages are therefore taken here, and the seal keeps every process from giving them back.
 */
static int check_huge_pages(const struct hm_buffer *buffer, uint64_t size)
{
	struct hm_segment segment = buffer->segment[0];
	int seals = sys_fcntl(segment.fd, F_GET_SEALS, 0);
	struct reservation range;
	char *address;
	int r;

	if (!is_kept(seals))
		return err_set(-EPERM,
			       "%s: its sender may give huge pages back, and a touch would "
			       "then end this process: the sender must pass "
			       "HM_EXPORT_READ_ONLY",
			       buffer->name);
	segment.flags |= HM_SEGMENT_PRESENT;
	r = map_scratch(&segment, 1, segment.offset, round_up(size, buffer->page_size),
			buffer->page_size, PROT_READ, &range, &address);
	if (r == -EIO)
		return err_set(-EPERM,
			       "%s: it has holes, and the pool of huge pages is empty: its "
			       "sender must fill it, or raise vm.nr_hugepages",
			       buffer->name);
	if (!r)
		reserve_release(&range);
	return r;
}

/*
 * A touch beyond a file's end is a SIGBUS, so no more than the file's size is accepted. A
 * dma-buf's size never changes, and has been checked.
 */
static int check_file_size(const struct hm_buffer *buffer, uint64_t size)
{
	const struct hm_segment *segment = &buffer->segment[0];
	struct stat st;
	int r;

	if (segment->flags & HM_SEGMENT_DMABUF)
		return 0;
	r = sys_fstat(segment->fd, &st);
	if (r)
		return err_set(r, "%s: fstat: %s", buffer->name, err_name(r));
	if (S_ISREG(st.st_mode) && (uint64_t)st.st_size < segment->fd_offset + size)
		return explain_size(buffer, size,
				    (uint64_t)st.st_size -
					    min_u64((uint64_t)st.st_size, segment->fd_offset));
	return buffer_is(buffer, MEMORY_HUGE) ? check_huge_pages(buffer, size) : 0;
}

/*
 * The device's cache mode counts; where the device does not tell, the sender's. A false one
 * makes the CPU slower than announced, but no access gives other bytes.
 */
static bool is_other_cache(const struct hm_buffer *buffer, const struct share_message *message)
{
	return buffer->cache != message->cache && buffer->cache != HM_CACHE_UNKNOWN &&
	       message->cache != HM_CACHE_UNKNOWN;
}

/* Compares the buffer that was made with the message. */
static int check_buffer(struct hm_buffer *buffer, const struct share_message *message,
			bool read_only)
{
	uint32_t memory = atomic_load(&buffer->memory) & SHARE_MEMORY;

	if (memory != message->memory || is_other_cache(buffer, message) ||
	    buffer->page_size != message->page_size)
		return err_set(-EPROTO,
			       "a buffer of \"%s\" came with memory 0x%" PRIx32
			       ", cache mode %" PRIu32 " and pages of %" PRIu64
			       ": its sender said 0x%" PRIx32 ", %" PRIu32 " and %" PRIu64,
			       message->backend, memory, buffer->cache, buffer->page_size,
			       message->memory, message->cache, message->page_size);
	if (message->access & ~buffer->access & HM_WRITE && !read_only)
		return err_set(-EPROTO,
			       "a buffer of \"%s\" came that can't be written: its sender "
			       "said that it may be",
			       message->backend);
	/*
	 * A device need not tell how far its objects may grow: this buffer does not grow then.
	 */
	if (message->max_size > buffer->max_size && !is_object(memory))
		return explain_size(buffer, message->max_size, buffer->max_size);
	return check_file_size(buffer, buffer->size);
}

/* True: the device's segments are the dma-bufs that it imports. */
static bool keeps_descriptors(const struct hm_device *device)
{
	return backend_has(device->ops, HM_BACKEND_BRACKET_DMABUF);
}

/*
 * An object that a device has exported does not shrink while its descriptor is open anywhere. A
 * backend need not keep the imported descriptor, so the share keeps a duplicate.
 */
static int hold_object(struct share *share, const struct hm_device *device, int fd,
		       const struct share_message *message)
{
	int own;

	if (!is_object(message->memory) || keeps_descriptors(device))
		return 0;
	own = sys_dup(fd);
	if (own < 0)
		return rlimits_explain_fd(own, "duplicating a received descriptor");
	share->object_fd = own;
	return 0;
}

static int adopt(struct hm_device *device, int fd, const struct share_message *message,
		 struct share *share, const struct hm_buffer_desc *asked,
		 struct hm_buffer **ret_buffer)
{
	bool file = message->memory & HM_MEMORY_STORAGE;
	struct hm_buffer_desc desc = *asked;

	desc.size = control_size(share, message->size);
	if (!desc.size || desc.size > message->max_size) {
		sys_close(fd);
		return err_set(-EPROTO,
			       "the control page says %" PRIu64
			       " bytes, which are not in 1 to max_size, %" PRIu64,
			       desc.size, message->max_size);
	}
	/*
	 * Memory that the device has added since is not in the object that was sent;
	 * share_follow() checks for it.
	 */
	if (is_object(message->memory))
		desc.size = min_u64(desc.size, message->size);
	desc.max_size = file ? message->max_size : 0;
	desc.offset = message->offset;
	if (!(message->access & HM_WRITE))
		desc.flags |= HM_BUFFER_READ_ONLY;
	if (!desc.name)
		desc.name = "received";
	return buffer_adopt_fd(device, fd, &desc, file, message->map_flags, ret_buffer);
}

int hm_buffer_receive(struct hm_device *device, int socket, const struct hm_buffer_desc *from,
		      struct hm_buffer **ret_buffer)
{
	struct share_message message;
	struct hm_buffer_desc desc;
	struct hm_buffer *buffer;
	struct share *share;
	int fds[SHARE_FDS];
	uint64_t cookie;
	int r;

	err_begin();
	r = buffer_check_args(device, ret_buffer, "hm_buffer_receive");
	if (!r)
		r = read_desc(from, &desc);
	if (!r)
		r = share_check_socket(socket, "hm_buffer_receive", &cookie);
	if (!r)
		r = share_message_receive(socket, &message, fds);
	if (r)
		return r;
	r = check_message(&message, desc.max_size);
	if (!r)
		r = access_receive(device, socket, fds[SHARE_FD_OBJECT], message.max_size,
				   message.access, &desc);
	if (r)
		goto err_fds;
	r = control_open(fds, &message, cookie, &share);
	if (r)
		goto err_fds;
	r = hold_object(share, device, fds[SHARE_FD_OBJECT], &message);
	if (r) {
		sys_close(fds[SHARE_FD_OBJECT]);
		goto err_control;
	}
	r = adopt(device, fds[SHARE_FD_OBJECT], &message, share, &desc, &buffer);
	if (r)
		goto err_control;
	r = check_buffer(buffer, &message, desc.flags & HM_BUFFER_READ_ONLY);
	if (r)
		goto err_buffer;
	if (buffer->cache == HM_CACHE_UNKNOWN)
		buffer->cache = message.cache;
	/* The length that maps reserve; the owner's object may have more. */
	buffer->max_size = min_u64(buffer->max_size, message.max_size);
	buffer->segment[0].length = buffer->max_size;
	buffer->caps &= ~(uint64_t)(HM_CAP_RESIZE | HM_CAP_APPEND | HM_CAP_REPLACE);
	buffer->exported = true;
	buffer_settle_locked(buffer);
	share->max_size = message.max_size;
	share->map_flags = message.map_flags;
	share->seen = buffer->size;
	buffer->share = share;
	*ret_buffer = buffer;
	return 0;

err_buffer:
	hm_buffer_unref(buffer);
err_control:
	control_abandon(share);
	return lost_notice(device, r);
err_fds:
	share_message_close(fds, SHARE_FDS);
	return r;
}

/* ---- while it is shared ---- */

static int follow_locked(struct hm_buffer *buffer, uint64_t size, struct resize_set *set)
{
	uint64_t mine = min_u64(size, buffer->max_size);
	int r;

	if (!size || size > buffer->share->max_size)
		return explain_size(buffer, size, buffer->share->max_size);
	r = mine > buffer->size ? check_file_size(buffer, mine) : 0;
	if (!r && mine != buffer->size)
		r = resize_follow_locked(buffer, mine, set);
	if (!r)
		buffer->share->seen = size;
	return r;
}

int share_follow(struct hm_buffer *buffer)
{
	struct resize_set set = { 0 };
	struct share *share = buffer->share;
	int r;

	if (likely(control_size(share, share->seen) == share->seen))
		return 0;
	r = buffer_lock(buffer);
	if (r)
		return r;
	r = follow_locked(buffer, control_size(share, share->seen), &set);
	buffer_unlock(buffer);
	resize_set_drop(&set);
	return lost_notice(buffer->device, r);
}

void share_resizing_locked(struct hm_buffer *buffer)
{
	if (buffer->share && !buffer->share->received)
		control_resizing(buffer->share);
}

bool share_owner_cuts(struct hm_buffer *buffer, uint64_t *ret_cuts)
{
	bool gone;

	if (control_is_resized(buffer->share, ret_cuts))
		return false;
	/*
	 * The lock's holder may be in a callback, or wait for work: "true" makes the caller ask
	 * again.
	 */
	if (pthread_mutex_trylock(&buffer->lock))
		return true;
	gone = control_owner_gone(buffer->share);
	buffer_unlock(buffer);
	return !gone;
}

bool share_owner_has_cut(const struct hm_buffer *buffer, uint64_t cuts)
{
	return control_resizes(buffer->share, UINT64_MAX) != cuts;
}

uint64_t share_seen(const struct hm_buffer *buffer)
{
	const struct share *share = buffer->share;

	return atomic_load_explicit(&share->seen, memory_order_acquire);
}

void share_publish_locked(struct hm_buffer *buffer)
{
	if (buffer->share && !buffer->share->received)
		control_publish(buffer->share, buffer->size);
}

int share_refuse_resize_locked(const struct hm_buffer *buffer, uint64_t new_size,
			       uint32_t flags)
{
	struct share *share = buffer->share;

	if (likely(!share))
		return 0;
	if (share->received && control_owner_gone(share))
		return err_set(-EOWNERDEAD,
			       "%s can't be resized any more: its owner, the only process "
			       "that may, has ended",
			       buffer->name);
	if (share->received)
		return err_set(-EBUSY,
			       "%s: it was received, and only its owner, process %" PRIu64
			       ", may resize it",
			       buffer->name, control_owner_pid(share));
	if (new_size < buffer->size && buffer_is(buffer, HM_MEMORY_STORAGE | MEMORY_HUGE))
		return err_set(-EBUSY,
			       "%s was sent to other processes, and a touch of bytes cut off "
			       "of a %s would end them (SIGBUS): it can't shrink any more",
			       buffer->name,
			       buffer_is(buffer, MEMORY_HUGE) ? "huge page" : "file");
	if (new_size > buffer->size &&
	    (new_size > buffer->max_size || flags & (HM_GROW_REPLACE | HM_GROW_APPEND)))
		return err_set(
			-EBUSY,
			"%s was sent to other processes, which have its one object: it grows "
			"inside max_size, %" PRIu64 ", only",
			buffer->name, buffer->max_size);
	return 0;
}

void share_describe_locked(const struct hm_buffer *buffer, struct hm_buffer_info *info)
{
	struct share *share = buffer->share;

	if (!share)
		return;
	info->sharing = share->received ? HM_SHARING_RECEIVED : HM_SHARING_SENT;
	if (share->received && control_owner_gone(share))
		info->sharing |= HM_SHARING_OWNER_GONE;
	/* The slot may be another buffer's by now: the last number stays then. */
	share->resizes_seen = control_resizes(share, share->resizes_seen);
	info->owner_resizes = (uint32_t)share->resizes_seen;
}

void share_end(struct hm_buffer *buffer)
{
	control_end(buffer->share);
	buffer->share = NULL;
}
