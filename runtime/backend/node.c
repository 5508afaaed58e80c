// SPDX-License-Identifier: MIT
/*
 * Backend "node": memory of one NUMA node. A buffer is a memfd, or private memory, whose policy
 * takes pages from this node only (MPOL_BIND); it stays where it is when threads move.
 */
#include "backend/node.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/host.h"
#include "base/sys.h"
#include "dmabuf/dmabuf.h"
#include "tier/tier.h"

int node_device_make(uint32_t node, const char *word, void **ret_device)
{
	uint64_t usable = node_usable();
	struct node_device *device;

	if (!usable)
		return err_set(-EOPNOTSUPP, "this kernel has no NUMA nodes: use \"host\"");
	if (node >= TIER_NODES_MAX || !(usable >> node & 1))
		return err_set(-ENODEV,
			       "node %u has no memory that this process may use: nodes "
			       "0x%" PRIx64 " (bits) have, see Mems_allowed in "
			       "/proc/self/status",
			       node, usable);
	device = sys_calloc(1, sizeof(*device));
	if (!device)
		return err_set(-ENOMEM, "no memory for a device");
	*device = (struct node_device){ node, word };
	*ret_device = device;
	return 0;
}

static int device_open(const char *rest, void **ret_device)
{
	unsigned long node;
	char *end;

	node = strtoul(rest, &end, 10);
	if (*rest < '0' || *rest > '9' || *end || node >= TIER_NODES_MAX)
		return err_set(-ENODEV,
			       "there is no device \"node:%s\": the name is \"node:\" and a "
			       "number from 0 to %d",
			       rest, TIER_NODES_MAX - 1);
	return node_device_make((uint32_t)node, NULL, ret_device);
}

void node_device_close(void *device)
{
	free(device);
}

int node_device_query(void *device, struct hm_device_info *info)
{
	const struct node_device *node = device;
	uint32_t n = node_processors(node->node);
	char processors[32];

	if (n)
		snprintf(processors, sizeof(processors), "%u processor%s", n,
			 n == 1 ? "" : "s");
	else
		snprintf(processors, sizeof(processors), "no processors");
	if (node->word)
		snprintf(info->description, sizeof(info->description),
			 "the tier \"%s\" is NUMA node %u here, with %s", node->word,
			 node->node, processors);
	else
		snprintf(info->description, sizeof(info->description),
			 "memory of NUMA node %u, with %s", node->node, processors);
	info->numa_node = (int32_t)node->node;
	info->granule = MIB(2);
	node_memory(node->node, &info->memory_total, &info->memory_free);
	return 0;
}

static void bind_to(const struct node_device *node, struct hm_recipe *recipe)
{
	recipe->caps &= ~(HM_CAP_NUMA | HM_CAP_DMABUF);
	recipe->numa_mode = HM_NUMA_BIND;
	recipe->numa_nodes = 1ull << node->node;
}

/*
 * A touch that the node has no page for ends processes instead of failing. More than the node has
 * is therefore refused; more than is free may come when the kernel gives up cached files.
 */
static int check_room(const struct node_device *node, uint64_t size)
{
	uint64_t total, available;
	char wanted[16], there[16];

	if (!node_memory(node->node, &total, &available))
		return err_set(-ENODEV, "node %u has no memory any more", node->node);
	if (size > total)
		return err_set(-ENOMEM, "%s do not fit into node %u, which has %s",
			       format_bytes(size, wanted, sizeof(wanted)), node->node,
			       format_bytes(total, there, sizeof(there)));
	if (size > available)
		err_warn(
			"node %u has %s free, and the buffer is of %s: files in the cache must "
			"make room",
			node->node, format_bytes(available, there, sizeof(there)),
			format_bytes(size, wanted, sizeof(wanted)));
	return 0;
}

int node_create(void *device, const struct hm_buffer_desc *desc, struct hm_recipe *ret_recipe)
{
	int r = check_room(device, desc->size);

	if (!r)
		r = host_backend.create(NULL, desc, ret_recipe);
	if (!r)
		bind_to(device, ret_recipe);
	return r;
}

int node_import(void *device, int fd, const struct hm_buffer_desc *desc,
		struct hm_recipe *ret_recipe)
{
	const struct node_device *node = device;
	int r;

	if (dmabuf_is(fd))
		return err_set(-EOPNOTSUPP,
			       "the exporter of a dma-buf has placed its pages: import it on "
			       "\"host\"");
	r = host_backend.import_fd(NULL, fd, desc, ret_recipe);
	if (r)
		return r;
	if (ret_recipe->flags & HM_BUFFER_HUGETLB)
		return err_set(-EOPNOTSUPP,
			       "the pages of the huge page pool are placed already: import "
			       "them on \"host\"");
	bind_to(node, ret_recipe);
	return 0;
}

int node_export(void *device, const struct hm_segment *segment, uint32_t flags, int *ret_fd)
{
	(void)device;
	return host_backend.export_fd(NULL, segment, flags, ret_fd);
}

int node_resize(void *device, struct hm_segment *segment, uint64_t old_size, uint64_t new_size)
{
	int r = new_size > old_size ? check_room(device, new_size) : 0;

	return r ? r : host_backend.resize(NULL, segment, old_size, new_size);
}

void node_object_destroy(void *device, struct hm_segment *segment)
{
	(void)device;
	host_backend.object_destroy(NULL, segment);
}

/* A machine with one node has "host" for it. */
static int each_device(int (*each)(void *user, const char *name), void *user)
{
	uint64_t nodes = node_usable();
	char name[16];
	uint32_t i;
	int r = 0;

	if (!(nodes & (nodes - 1)))
		return 0;
	for (i = 0; !r && i < TIER_NODES_MAX; i++) {
		snprintf(name, sizeof(name), "node:%u", i);
		if (nodes >> i & 1)
			r = each(user, name);
	}
	return r;
}

const struct hm_backend_ops node_backend = {
	.size = sizeof(struct hm_backend_ops),
	.name = "node",
	.description = "memory of one NUMA node",
	.caps = NODE_CAPS | HM_BACKEND_LIST,
	.device_open = device_open,
	.each_device = each_device,
	NODE_OPS,
};
