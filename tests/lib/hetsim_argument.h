/* SPDX-License-Identifier: MIT */
/* The calls of hetsim: their rows in tables of all calls, and any call's argument. */
#ifndef HETMAP_TESTS_HETSIM_ARGUMENT_H
#define HETMAP_TESTS_HETSIM_ARGUMENT_H

#include <stdint.h>

#include <uapi/hetsim.h>

/* HETSIM_ROW_QUERY is the row of HETSIM_QUERY. */
enum {
#define HETSIM_CALL(NAME, name, last) HETSIM_ROW_##NAME,
#include "model/calls.h"
	HETSIM_N_CALLS
};

union hetsim_argument {
	uint32_t size;
	uint32_t words[64]; /* and room behind it */
#define HETSIM_CALL(NAME, name, last) struct hetsim_##name name;
#include "model/calls.h"
};

/* An argument for one call: SIZED(hetsim_unbind, .address = address, .length = PAGE). */
#define SIZED(type, ...) (&(struct type){ .size = sizeof(struct type), __VA_ARGS__ })

#endif
