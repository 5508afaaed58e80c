// SPDX-License-Identifier: MIT
/* A buffer made of a message and its descriptors, each checked against the others. */
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/buffer.h"
#include "dmabuf/dmabuf.h"
#include "map/map.h"
#include "base/reserve.h"
#include "base/rlimits.h"
#include "share/control.h"
#include "share/share.h"
#include "base/sys.h"

/* Checks all fields that can be checked without the descriptors. */
int share_check_message(const struct share_message *message, uint64_t max_size)
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
	    (message->map_flags && !share_is_object(message->memory)))
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

int share_explain_size(const struct hm_buffer *buffer, uint64_t size, uint64_t most)
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

	if (!share_is_kept(seals))
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
int share_check_size(const struct hm_buffer *buffer, uint64_t size)
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
		return share_explain_size(buffer, size,
					  (uint64_t)st.st_size - min_u64((uint64_t)st.st_size,
									 segment->fd_offset));
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
	if (message->max_size > buffer->max_size && !share_is_object(memory))
		return share_explain_size(buffer, message->max_size, buffer->max_size);
	return share_check_size(buffer, buffer->size);
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

	if (!share_is_object(message->memory) || keeps_descriptors(device))
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
	if (share_is_object(message->memory))
		desc.size = min_u64(desc.size, message->size);
	desc.max_size = file ? message->max_size : 0;
	desc.offset = message->offset;
	if (!(message->access & HM_WRITE))
		desc.flags |= HM_BUFFER_READ_ONLY;
	if (!desc.name)
		desc.name = "received";
	return buffer_adopt_fd(device, fd, &desc, file, &message->map_flags, ret_buffer);
}

int share_take(struct hm_device *device, int fds[SHARE_FDS],
	       const struct share_message *message, uint64_t cookie,
	       const struct hm_buffer_desc *desc, struct hm_buffer **ret_buffer)
{
	struct hm_buffer *buffer;
	struct share *share;
	int r;

	r = control_open(fds, message, cookie, &share);
	if (r) {
		share_message_close(fds, SHARE_FDS);
		return r;
	}
	r = hold_object(share, device, fds[SHARE_FD_OBJECT], message);
	if (r) {
		sys_close(fds[SHARE_FD_OBJECT]);
		goto err_control;
	}
	r = adopt(device, fds[SHARE_FD_OBJECT], message, share, desc, &buffer);
	if (r)
		goto err_control;
	r = check_buffer(buffer, message, desc->flags & HM_BUFFER_READ_ONLY);
	if (r)
		goto err_buffer;
	if (buffer->cache == HM_CACHE_UNKNOWN)
		buffer->cache = message->cache;
	/* The length that maps reserve; the owner's object may have more. */
	buffer->max_size = min_u64(buffer->max_size, message->max_size);
	buffer->segment[0].length = buffer->max_size;
	buffer->caps &= ~(uint64_t)(HM_CAP_RESIZE | HM_CAP_APPEND | HM_CAP_REPLACE);
	buffer->exported = true;
	share->max_size = message->max_size;
	share->map_flags = message->map_flags;
	share->seen = buffer->size;
	buffer->share = share;
	*ret_buffer = buffer;
	return 0;

err_buffer:
	hm_buffer_unref(buffer);
err_control:
	control_abandon(share);
	return r;
}
