// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The layout of each call's structure, made from the list.
 */
#include "model.h"

#define SIM_LAYOUT(NAME, name, last, ...) \
	[HETSIM_NR_##NAME] = { \
		.cmd = HETSIM_##NAME, \
		.size = sizeof(struct hetsim_##name), \
		.min_size = offsetofend(struct hetsim_##name, last), \
		__VA_ARGS__ \
	},
#define HETSIM_CALL(NAME, name, last) SIM_LAYOUT(NAME, name, last)
#define HETSIM_CALL_OUT(NAME, name, last, first, end) \
	SIM_LAYOUT(NAME, name, last, \
		   .out = offsetof(struct hetsim_##name, first), \
		   .out_end = offsetofend(struct hetsim_##name, end))

static const struct sim_layout sim_layouts[] = {
#include "calls.h"
};

const struct sim_layout *sim_layout_find(unsigned int cmd)
{
	const struct sim_layout *layout;

	if (_IOC_NR(cmd) >= ARRAY_SIZE(sim_layouts))
		return NULL;
	layout = &sim_layouts[array_index_nospec(_IOC_NR(cmd), ARRAY_SIZE(sim_layouts))];
	return layout->size && layout->cmd == cmd ? layout : NULL;
}
