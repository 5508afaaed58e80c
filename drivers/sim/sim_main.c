// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * hetsim, a simulated device with memory of its own: the module and its parameters.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/rcupdate.h>

#include "sim.h"
#include "sim_driver.h"

#define CREATE_TRACE_POINTS
#include "sim_trace.h"

/* Fake offsets and device addresses have 64 bits, whatever a long has. */
#ifndef CONFIG_64BIT
#error "hetsim is for 64-bit kernels; 32-bit processes on them are fine"
#endif

static unsigned int devices = 1;
module_param(devices, uint, 0444);
MODULE_PARM_DESC(devices, "Number of devices (1 to 16, default 1)");

static unsigned int vram_mb = 1024;
module_param(vram_mb, uint, 0444);
MODULE_PARM_DESC(vram_mb, "MiB of VRAM of each device (default 1024)");

static unsigned int system_mb = 1024;
module_param(system_mb, uint, 0444);
MODULE_PARM_DESC(system_mb,
		 "MiB of system memory that buffers of each device may take (default 1024)");

static unsigned int bar_mb;
module_param(bar_mb, uint, 0444);
MODULE_PARM_DESC(bar_mb,
		 "MiB of VRAM that CPUs can reach at a time (default 0: all of it, at any time)");

static char *bar = "";
module_param(bar, charp, 0444);
MODULE_PARM_DESC(bar,
		 "PCI address of a device, like 0000:00:04.0: pages of processes move to its largest BAR");

static unsigned int migrate_mb = 256;
module_param(migrate_mb, uint, 0444);
MODULE_PARM_DESC(migrate_mb,
		 "MiB of each device that pages of processes move to, without a BAR, where the kernel has CONFIG_DEVICE_PRIVATE (default 256; 0: none move)");

static unsigned int opener_mb;
module_param(opener_mb, uint, 0444);
MODULE_PARM_DESC(opener_mb,
		 "MiB of both that one opener may take (default 3/4 of both, and of system memory)");

bool sim_huge;
module_param_named(huge, sim_huge, bool, 0444);
MODULE_PARM_DESC(huge,
		 "Get memory in blocks of 2 MiB, mapped by one entry if possible (default 0)");

bool sim_engine_cgroup;
module_param_named(engine_cgroup, sim_engine_cgroup, bool, 0644);
MODULE_PARM_DESC(engine_cgroup,
		 "Charge engine threads of new queues to the caller's control groups (default 0)");

static char *kind = "gpu";
module_param(kind, charp, 0444);
MODULE_PARM_DESC(kind, "Kind of the devices: gpu, fpga or nic (default gpu)");

unsigned int sim_fault_us;
module_param_named(fault_us, sim_fault_us, uint, 0444);
MODULE_PARM_DESC(fault_us,
		 "Microseconds that each device fault takes besides, up to 1000000 (default 0)");

bool sim_test;
module_param_named(test, sim_test, bool, 0444);
MODULE_PARM_DESC(test, "Let CAP_SYS_ADMIN inject faults into whole devices (default 0)");

static struct sim_platform_data sim_platform; /* of all devices */

static int sim_kind_find(const char *name)
{
	int i;

	for (i = HETSIM_KIND_GPU; i <= HETSIM_KIND_NIC; i++) {
		if (sysfs_streq(name, sim_kinds[i].name))
			return i;
	}
	return -EINVAL;
}

/* For an unused module: nothing is open, and nothing opens it any more. */
static void sim_devices_remove(void)
{
	sim_debugfs_stop();
	sim_driver_exit();
	sim_debugfs_exit();
	sim_shrinker_exit();
	sim_stores_exit();
	sim_fs_exit();
}

static int __init sim_init(void)
{
	unsigned int i;
	int which, r = 0;

	which = sim_kind_find(kind);
	if (which < 0) {
		pr_err("kind=%s: not gpu, fpga or nic\n", kind);
		return which;
	}
	if (!devices || devices > SIM_MAX_DEVICES) {
		pr_err("devices=%u: not 1 to %u\n", devices, SIM_MAX_DEVICES);
		return -EINVAL;
	}
	if (!vram_mb || vram_mb > SIM_MAX_MB || !system_mb || system_mb > SIM_MAX_MB) {
		pr_err("vram_mb=%u, system_mb=%u: not 1 to %u\n", vram_mb, system_mb,
		       SIM_MAX_MB);
		return -EINVAL;
	}
	if (sim_fault_us > USEC_PER_SEC) {
		pr_err("fault_us=%u: more than a second\n", sim_fault_us);
		return -EINVAL;
	}
	if (bar_mb > vram_mb) {
		pr_err("bar_mb=%u: more than vram_mb=%u\n", bar_mb, vram_mb);
		return -EINVAL;
	}

	if (migrate_mb > SIM_MAX_MB) {
		pr_err("migrate_mb=%u: more than %u\n", migrate_mb, SIM_MAX_MB);
		return -EINVAL;
	}

	sim_platform = (struct sim_platform_data){
		.n_devices = devices,
		.kind = which,
		.vram_mb = vram_mb,
		.system_mb = system_mb,
		.bar_mb = bar_mb,
		.opener_mb = opener_mb,
	};
	r = sim_stores_init(devices, *bar ? bar : NULL, ALIGN(migrate_mb, 2));
	if (r)
		return r;
	r = sim_fs_init();
	if (r)
		goto err_stores;
	r = sim_shrinker_init();
	if (r)
		goto err_fs;
	r = sim_driver_init(&sim_platform);
	if (r)
		goto err_shrinker;
	sim_debugfs_init();

	for (i = 0; i < devices; i++) {
		r = sim_device_plug(i);
		if (r)
			break;
	}
	if (!i) {
		sim_devices_remove();
		return r;
	}
	/* The devices that are there may be open: then the module has to stay. */
	if (r)
		pr_warn("%u of %u devices: error %d\n", i, devices, r);
	return 0;

err_shrinker:
	sim_shrinker_exit();
err_fs:
	sim_fs_exit();
err_stores:
	sim_stores_exit();
	return r;
}

static void __exit sim_exit(void)
{
	sim_devices_remove();

	/* The last fences are gone, but the code that freed them may be running. */
	rcu_barrier();
	synchronize_rcu_tasks();
}

module_init(sim_init);
module_exit(sim_exit);

MODULE_DESCRIPTION("Simulated device with memory of its own");
MODULE_AUTHOR("The hetmap authors");
MODULE_LICENSE("Dual MIT/GPL");
SIM_IMPORT_DMA_BUF;
