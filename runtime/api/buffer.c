// SPDX-License-Identifier: MIT
/* Buffers: create, import, query. */
#include <inttypes.h>

#include "api/door.h"
#include "base/placement.h"
#include "base/rlimits.h"
#include "base/sys.h"
#include "base/weights.h"
#include "core/buffer.h"
#include "fault/block_loss.h"
#include "loss/loss.h"
#include "tier/tier.h"

#define BUFFER_FLAGS \
	(HM_BUFFER_PRIVATE | HM_BUFFER_HUGETLB | HM_BUFFER_READ_ONLY | HM_BUFFER_PUBLISH)

/* First version of the struct: up to and with name. */
#define DESC_LEAST offsetof(struct hm_buffer_desc, numa_mode)

/* From here on the tier is the node that the word stands for on this machine. */
static int read_tier(struct hm_buffer_desc *desc)
{
	uint32_t node;
	int r;

	if (desc->numa_mode || desc->numa_nodes)
		return err_set(
			-EINVAL,
			"hm_buffer_desc has both tier %u and numa_mode %u or numa_nodes: "
			"set one of them",
			desc->tier, desc->numa_mode);
	r = tier_node(desc->tier, &node);
	if (r)
		return r;
	desc->numa_mode = HM_NUMA_BIND;
	desc->numa_nodes = 1ull << node;
	return 0;
}

/* Weights are of this machine: the ladder has the bandwidths of its nodes. */
static int read_weighted(const struct hm_buffer_desc *desc)
{
	int r = tier_weigh(desc->numa_nodes);

	if (r || weights_kernel_mode(desc->numa_nodes) >= 0)
		return r;
	if (desc->flags & HM_BUFFER_PRIVATE)
		return err_set(-EOPNOTSUPP,
			       "this kernel does not interleave private memory by the "
			       "bandwidths of nodes 0x%" PRIx64 ": drop HM_BUFFER_PRIVATE",
			       desc->numa_nodes);
	err_warn("HM_NUMA_WEIGHTED is by ranges, not by pages: the weights of "
		 "/sys/kernel/mm/mempolicy/weighted_interleave (Linux 6.9 and later) are not "
		 "those of the nodes' bandwidths");
	return 0;
}

int buffer_read_desc(const struct hm_buffer_desc *from, struct hm_buffer_desc *desc)
{
	int r;

	if (!from) {
		*desc = (struct hm_buffer_desc){ .struct_size = sizeof(*desc) };
		return 0;
	}
	r = struct_read(desc, sizeof(*desc), from, from->struct_size, DESC_LEAST,
			"hm_buffer_desc");
	if (r)
		return r;
	if (desc->flags & ~BUFFER_FLAGS)
		return err_set(-EINVAL, "hm_buffer_desc.flags 0x%x has unknown bits 0x%x",
			       desc->flags, desc->flags & ~BUFFER_FLAGS);
	if (desc->place > HM_PLACE_SYSTEM)
		return err_set(-EINVAL, "hm_buffer_desc.place %u is unknown: 0 to %u are",
			       desc->place, HM_PLACE_SYSTEM);
	if (desc->size > BUFFER_SIZE_MAX || desc->max_size > BUFFER_SIZE_MAX)
		return err_set(-EINVAL,
			       "size %" PRIu64 " or max_size %" PRIu64
			       " is beyond 2^62: no machine has that address space",
			       desc->size, desc->max_size);
	if (desc->max_size && desc->max_size < desc->size)
		return err_set(-EINVAL, "max_size %" PRIu64 " is below size %" PRIu64,
			       desc->max_size, desc->size);
	if (desc->persist > HM_PERSIST_BYTE)
		return err_set(-EINVAL, "hm_buffer_desc.persist %u is unknown: 0 to %u are",
			       desc->persist, HM_PERSIST_BYTE);
	if (desc->tier) {
		r = read_tier(desc);
		if (r)
			return r;
	}
	r = placement_check(desc->numa_mode, desc->numa_nodes);
	return !r && desc->numa_mode == HM_NUMA_WEIGHTED ? read_weighted(desc) : r;
}

int buffer_check_args(struct hm_device *device, const void *ret_buffer, const char *what)
{
	int r = object_check((struct hm_object *)device, OBJECT_DEVICE);

	if (!r && !ret_buffer)
		r = err_set(-EINVAL, "%s: ret_buffer is NULL", what);
	return r;
}

int buffer_create(struct hm_device *device, const struct hm_buffer_desc *from,
		  struct hm_buffer **ret_buffer)
{
	struct hm_buffer_desc desc;
	bool relieved = false;
	int r;

	r = buffer_check_args(device, ret_buffer, "hm_buffer_create");
	if (r)
		return r;
	if (!from)
		return err_set(-EINVAL, "hm_buffer_create: desc is NULL");
	r = buffer_read_desc(from, &desc);
	if (r)
		return r;
	if (!desc.size)
		return err_set(-EINVAL, "hm_buffer_create: size is 0: a buffer has at least 1 "
					"byte");
	if (desc.offset)
		return err_set(-EINVAL, "hm_buffer_create: offset is for files");
	if (desc.flags & HM_BUFFER_READ_ONLY)
		return err_set(-EINVAL, "a new read-only buffer would stay zero: drop "
					"HM_BUFFER_READ_ONLY");
	r = buffer_check_caps(device, &desc, HM_CAP_CREATE, "hm_buffer_create");
	if (r)
		return r;
	if (!desc.max_size)
		desc.max_size = desc.size;
	r = hook_create(device, &desc);
	if (r)
		return r;

	do {
		err_clear();
		r = buffer_make(device, &desc, ret_buffer);
	} while (retire_relieve(r, &relieved));
	return device_loss_notice(device, r);
}

int hm_buffer_create(struct hm_device *device, const struct hm_buffer_desc *from,
		     struct hm_buffer **ret_buffer)
{
	err_begin();
	return buffer_create(device, from, ret_buffer);
}

int buffer_import(struct hm_device *device, int fd, const struct hm_buffer_desc *from,
		  struct hm_buffer **ret_buffer)
{
	struct hm_buffer_desc desc;
	bool relieved = false;
	int own, r;

	r = buffer_check_args(device, ret_buffer, "hm_buffer_import");
	if (!r)
		r = buffer_read_desc(from, &desc);
	if (!r)
		r = buffer_check_caps(device, &desc, HM_CAP_IMPORT, "hm_buffer_import");
	if (r)
		return r;
	if (desc.flags & ~HM_BUFFER_READ_ONLY)
		return err_set(-EINVAL,
			       "hm_buffer_import: flags 0x%x: only HM_BUFFER_READ_ONLY is "
			       "possible",
			       desc.flags);
	if (desc.offset)
		return err_set(-EINVAL, "hm_buffer_import: offset is for files");
	if (desc.place)
		return err_set(-EINVAL, "hm_buffer_import: an imported object stays in its "
					"place: place is for hm_buffer_create");
	do
		own = sys_dup(fd);
	while (own < 0 && retire_relieve(own, &relieved));
	if (own < 0) {
		rlimits_explain_fd(own, "duplicating the descriptor to import");
		return err_prefix(own, "%s", device->name);
	}
	r = hook_fd(HM_ACCESS_IMPORT, device, own, &desc);
	if (r) {
		sys_close(own);
		return r;
	}
	r = buffer_adopt_fd(device, own, &desc, false, NULL, ret_buffer);
	if (!r)
		buffer_settle_locked(*ret_buffer);
	return device_loss_notice(device, r);
}

int hm_buffer_import(struct hm_device *device, int fd, const struct hm_buffer_desc *from,
		     struct hm_buffer **ret_buffer)
{
	err_begin();
	return buffer_import(device, fd, from, ret_buffer);
}

int buffer_query(struct hm_buffer *buffer, struct hm_buffer_info *ret_info)
{
	struct hm_buffer_info info;
	int r;

	r = buffer_check(buffer);
	if (r)
		return r;
	if (!ret_info)
		return err_set(-EINVAL, "hm_buffer_query: ret_info is NULL");
	r = struct_check_out(ret_info->struct_size, sizeof(info),
			     offsetof(struct hm_buffer_info, access), "hm_buffer_info");
	if (r)
		return r;
	block_loss_notice(0);
	r = buffer_lock(buffer);
	if (r)
		return r;
	info = (struct hm_buffer_info){
		.flags = buffer->flags,
		.size = buffer->size,
		.max_size = buffer->max_size,
		.caps = buffer->caps,
		.page_size = buffer->page_size,
		.serial = buffer->serial,
		.backing = buffer_backing(buffer),
		.generation = buffer->generation,
		.segments = buffer->n_segment,
		.maps = buffer->n_map,
		.exported = buffer->exported,
		.access = buffer->access,
		.place = buffer->place,
		.sealed = buffer->sealed,
		.persist = buffer->persist,
	};
	loss_describe_locked(buffer, &info);
	share_describe_locked(buffer, &info);
	buffer_unlock(buffer);
	struct_write(ret_info, &info, ret_info->struct_size);
	return 0;
}

int hm_buffer_query(struct hm_buffer *buffer, struct hm_buffer_info *ret_info)
{
	err_begin();
	return buffer_query(buffer, ret_info);
}
