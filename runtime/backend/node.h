/* SPDX-License-Identifier: MIT */
/* Memory of one NUMA node: the backends "node" and "tier", which differ in their names only. */
#ifndef HETMAP_BACKEND_NODE_H
#define HETMAP_BACKEND_NODE_H

#include "core/core.h"

/*
 * A buffer is like one of the host's, bound to the node. A dma-buf and a page of the huge pool are
 * where they are before a policy could place them.
 */
#define NODE_CAPS                                                                           \
	(HM_CAP_CREATE | HM_CAP_IMPORT | HM_CAP_EXPORT | HM_CAP_RESIZE | HM_CAP_APPEND |    \
	 HM_CAP_REPLACE | HM_CAP_PRIVATE | HM_CAP_LOCK | HM_CAP_PROTECT | HM_CAP_POPULATE | \
	 HM_CAP_FORK | HM_CAP_MULTI_MAP | HM_CAP_CONTIGUOUS | HM_CAP_WRITE | HM_CAP_READ_ONLY)

struct node_device {
	uint32_t node;
	const char *word; /* of a tier; NULL: opened as a node */
};

/* Errors, with a text: -ENODEV: the node has no memory, or none for this process; -ENOMEM. */
int node_device_make(uint32_t node, const char *word, void **ret_device);

void node_device_close(void *device);
int node_device_query(void *device, struct hm_device_info *info);
int node_create(void *device, const struct hm_buffer_desc *desc, struct hm_recipe *ret_recipe);
int node_import(void *device, int fd, const struct hm_buffer_desc *desc,
		struct hm_recipe *ret_recipe);
int node_export(void *device, const struct hm_segment *segment, uint32_t flags, int *ret_fd);
int node_resize(void *device, struct hm_segment *segment, uint64_t old_size, uint64_t new_size);
void node_object_destroy(void *device, struct hm_segment *segment);

/* The rows that both tables have. */
#define NODE_OPS                                                              \
	.device_close = node_device_close, .device_query = node_device_query, \
	.object_destroy = node_object_destroy, .create = node_create,         \
	.import_fd = node_import, .export_fd = node_export, .resize = node_resize

#endif
