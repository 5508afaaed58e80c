/* SPDX-License-Identifier: MIT */
/* Shared by the cases of simulated devices: a device, its engine, a program on it. */
#ifndef HETMAP_BENCH_ENGINE_H
#define HETMAP_BENCH_ENGINE_H

#include <hetmap/hetmap.h>

#define PAGE KIB(4)

struct engine {
	const char *name; /* "sim:0", "soft:0": of the device and of its engine */
	struct hm_device *device;
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_kernel *kernel;
};

/* A step that does nothing, and has no operands. */
extern const struct hm_engine_step engine_nothing;

/*
 * -ENODEV: told the user, for the case @name, that it is skipped. Other errors
 * were told, too.
 */
int engine_open(struct engine *engine, const char *device, const char *name,
		const struct hm_kernel_desc *desc);
void engine_close(struct engine *engine);

/* A buffer of the device, whole, in this process; *@ret_map keeps it. */
int engine_map(struct engine *engine, uint64_t size, struct hm_buffer **ret_buffer,
	       struct hm_map **ret_map);

#endif
