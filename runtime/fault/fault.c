// SPDX-License-Identifier: MIT
/* Finds out, after the handler, why bytes of a map could not be touched. */
#include "fault/fault.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "core/buffer.h"
#include "loss/loss.h"
#include "loss/device_loss.h"
#include "map/protect.h"
#include "map/remap.h"
#include "fault/repair.h"
#include "core/segments.h"
#include "share/share.h"
#include "base/sys.h"

/* The errno and the text of each cause. */
static const struct {
	int error;
	const char *text;
} causes[] = {
	[HM_FAULT_END] = { -ERANGE, "which is beyond the end: the object was cut off" },
	[HM_FAULT_LOST] = { -ENODEV, "which is lost" },
	[HM_FAULT_UNREACHABLE] = { -EIO,
				   "which can't be reached: its storage failed, the "
				   "device has it where CPUs don't reach (see "
				   "hm_map_begin_cpu), or a file was cut off and has grown "
				   "again" },
	[HM_FAULT_BROKEN] = { -EHWPOISON, "whose memory is broken, says the hardware" },
	[HM_FAULT_RIGHTS] = { -EACCES, "for which the map does not give that access" },
	[HM_FAULT_REPAIRED] = { -EIO, "which an earlier fault replaced: it is not its "
				      "buffer's byte" },
};

/* Has a file been cut off before byte @offset of the buffer? */
static bool is_cut_off(struct hm_buffer *buffer, uint64_t offset)
{
	struct segment_list *list = segments_get(buffer);
	const struct hm_segment *segment;
	struct stat st;
	bool cut = false;
	uint32_t i;

	for (i = 0; i < list->n; i++) {
		segment = &list->segment[i];
		if (offset < segment->offset || offset - segment->offset >= segment->length)
			continue;
		/* The size of a device node says nothing. */
		if (segment->fd >= 0 && !sys_fstat(segment->fd, &st) && S_ISREG(st.st_mode))
			cut = segment->fd_offset + (offset - segment->offset) >=
			      (uint64_t)st.st_size;
		break;
	}
	segments_put(buffer, list);
	return cut;
}

static uint32_t cause_of(const struct hm_fault *fault, struct hm_map *map)
{
	/* This call may be the first to learn of a loss. */
	if (map->lost || loss_ask(map->buffer))
		return HM_FAULT_LOST;
	/* The size of a received buffer may be out of date. */
	if (share_is_received(map->buffer))
		map_check(map);
	if (fault->offset >= hm_map_length(map))
		return HM_FAULT_END;
	if (fault->signal == SIGSEGV)
		return HM_FAULT_RIGHTS;
	if (fault->code == BUS_MCEERR_AR)
		return HM_FAULT_BROKEN;
	return is_cut_off(map->buffer, map->offset + fault->offset) ? HM_FAULT_END :
								      HM_FAULT_UNREACHABLE;
}

/*
 * The reason why a byte lacks rights now. The kind of access is not known: the least one
 * counts.
 */
static const char *taken(struct hm_map *map, uint64_t offset)
{
	uint32_t access = map_allows(map, offset, 1, HM_READ) ? HM_WRITE : HM_READ;

	return map_allows(map, offset, 1, access) ? "" : protect_cause(map, offset, 1, access);
}

static int check(const struct hm_map *map, uint64_t offset, uint64_t length)
{
	int r = map->lost ? remap_refuse_lost(map) : loss_ask(map->buffer);

	return r ? r : repair_check(map, offset, length, NULL);
}

int fault_check(const void *address, uint64_t length)
{
	struct hm_pointer_info info;
	struct hm_map *map = registry_acquire(address, &info);
	int r = map ? check(map, info.map_offset, length) : 0;

	hm_map_unref(map);
	return r;
}

int fault_notice(const void *address, uint64_t length)
{
	struct hm_pointer_info info;
	struct hm_map *map = registry_acquire(address, &info);
	int r = 0;

	if (map)
		r = device_loss_notice(map->buffer->device,
				       check(map, info.map_offset, length));
	hm_map_unref(map);
	return r;
}

int fault_explain(struct hm_fault *fault, const void *base, const char *what)
{
	struct hm_pointer_info info;
	struct hm_map *map = registry_acquire(base, &info);

	fault->cause = map ? cause_of(fault, map) : HM_FAULT_LOST;
	err_set(0, "%s: %s at byte %" PRIu64 " of the map at %p of %s, %s%s", what,
		fault->signal == SIGSEGV ? "SIGSEGV" : "SIGBUS", fault->offset, base,
		map ? map->buffer->name : "a buffer", causes[fault->cause].text,
		fault->cause == HM_FAULT_RIGHTS ? taken(map, fault->offset) : "");
	hm_map_unref(map);
	return causes[fault->cause].error;
}
