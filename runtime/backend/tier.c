// SPDX-License-Identifier: MIT
/*
 * Backend "tier": memory of the NUMA node that a word stands for on this machine. The node is
 * found when the device is opened. No list shows these devices: their nodes are in it.
 */
#include <errno.h>

#include "backend/node.h"
#include "tier/tier.h"

static int device_open(const char *rest, void **ret_device)
{
	uint32_t word = tier_word_find(rest), node;
	int r;

	if (!word)
		return err_set(-ENODEV,
			       "there is no device \"tier:%s\": tier:fast, tier:large and "
			       "tier:far are known",
			       rest);
	r = tier_node(word, &node);
	return r ? r : node_device_make(node, tier_word_name(word), ret_device);
}

static int each_device(int (*each)(void *user, const char *name), void *user)
{
	(void)each, (void)user;
	return 0;
}

const struct hm_backend_ops tier_backend = {
	.size = sizeof(struct hm_backend_ops),
	.name = "tier",
	.description = "memory of the NUMA node that a word stands for",
	.caps = NODE_CAPS | HM_BACKEND_LIST,
	.device_open = device_open,
	.each_device = each_device,
	NODE_OPS,
};
