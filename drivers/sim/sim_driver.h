/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The driver and its platform devices, as the module makes them: see sim_driver.c. */
#ifndef SIM_DRIVER_H
#define SIM_DRIVER_H

#include "model/model.h"

/* The platform data of each device: the parameters of the module. */
struct sim_platform_data {
	unsigned int n_devices; /* in all */
	enum hetsim_kind kind;
	unsigned int vram_mb;
	unsigned int system_mb;
	unsigned int bar_mb;
	unsigned int opener_mb;
};

/* @data stays the caller's, and unchanged. */
int sim_driver_init(const struct sim_platform_data *data);
/* Nothing is open, and nothing opens or plugs a device any more. */
void sim_driver_exit(void);

#endif
