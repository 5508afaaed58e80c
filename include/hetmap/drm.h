/* SPDX-License-Identifier: MIT */
/*
 * DRM nodes: what this machine has in /dev/dri, or should have: also those that can't
 * be opened, with the reason. Devices of the backend "drm" are made of them.
 */
#ifndef HETMAP_DRM_H
#define HETMAP_DRM_H

#include <hetmap/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_drm_node {
	uint32_t struct_size;
	uint32_t primary;  /* 1: a card node, which opens only by its path */
	char path[64];     /* "/dev/dri/renderD128" */
	char driver[32];   /* "amdgpu"; "": unknown */
	char version[24];  /* of the driver; "": not asked, or can't be opened */
	char bus[16];      /* "pci", "platform", ...; "": unknown */
	char address[32];  /* "pci-0000:00:02.0"; "": none */
	uint16_t vendor;   /* PCI; 0: none */
	uint16_t device;   /* PCI; 0: none */
	int32_t numa_node; /* -1: none or unknown */
	int32_t error;     /* 0; or why it can't be opened, a negative errno */
	uint32_t reserved; /* 0 */
	char remedy[160];  /* with error */
	uint64_t caps;     /* HM_CAP_* that the driver is known for; 0: none on this node */
};

/**
 * hm_drm_list - the DRM nodes of this machine
 * @nodes:    [in,out] array of @capacity; may be NULL when @capacity is 0.
 *            nodes[0].struct_size gives the stride and must be set
 * @capacity: [in] entries in @nodes
 * @ret_n:    [out] nodes there are, also when more than @capacity
 *
 * Render nodes first. They are opened to ask for their driver; card nodes are not. Of
 * what a device that is opened by a node can, caps has what makes, imports and exports
 * buffers, known by the name of the driver: hm_device_query() has asked it.
 * May be called from any thread.
 *
 * Errors: -EINVAL ret_n or nodes is NULL; -E2BIG; -ENOMEM.
 */
HM_API int hm_drm_list(struct hm_drm_node *nodes, uint32_t capacity, uint32_t *ret_n);

#ifdef __cplusplus
}
#endif

#endif
