/* SPDX-License-Identifier: MIT */
/* What a call of hetsim takes, whichever it is. */
#ifndef HETMAP_TESTS_HETSIM_ARGUMENT_H
#define HETMAP_TESTS_HETSIM_ARGUMENT_H

#include <uapi/hetsim.h>

union hetsim_argument {
	uint32_t size;
	uint32_t words[64]; /* and room behind it */
	struct hetsim_handshake handshake;
	struct hetsim_query query;
	struct hetsim_counters counters;
	struct hetsim_buffer_create create;
	struct hetsim_buffer_close close;
	struct hetsim_buffer_resize resize;
	struct hetsim_buffer_info info;
	struct hetsim_buffer_move move;
	struct hetsim_buffer_sample sample;
	struct hetsim_buffer_when_lost when_lost;
	struct hetsim_export export;
	struct hetsim_import import;
	struct hetsim_bind bind;
	struct hetsim_unbind unbind;
	struct hetsim_queue_create queue_create;
	struct hetsim_queue_destroy queue_destroy;
	struct hetsim_submit submit;
	struct hetsim_wait wait;
	struct hetsim_fence_fd fence_fd;
	struct hetsim_queue_event queue_event;
	struct hetsim_inject inject;
};

#endif
